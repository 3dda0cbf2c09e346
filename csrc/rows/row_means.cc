// Means of rows.
#include "rows/row_reducers.h"

namespace gradplan::rows {

RowReducers row_means() { return row_reducers<Mean>(); }

}  // namespace gradplan::rows
