// Maxima and minima of rows.
#include "rows/row_reducers.h"

namespace gradplan::rows {

RowReducers row_maxima(double fill) { return row_reducers(Filled<Maximum>(fill)); }
RowReducers row_minima(double fill) { return row_reducers(Filled<Minimum>(fill)); }

}  // namespace gradplan::rows
