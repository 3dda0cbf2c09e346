// Sums of rows.
#include "rows/row_reducers.h"

namespace gradplan::rows {

RowReducers row_sums() { return row_reducers<Reducer<Sum>>(); }

}  // namespace gradplan::rows
