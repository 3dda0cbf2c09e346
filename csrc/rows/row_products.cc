// Products of rows.
#include "rows/row_reducers.h"

namespace gradplan::rows {
namespace {

struct OneIfEmpty : Reducer<Product> {
  template <class C>
  static C empty() {
    return C(1);
  }
};

}  // namespace

RowReducers row_products() { return row_reducers<OneIfEmpty>(); }

}  // namespace gradplan::rows
