// What a row kernel does with the members of a row. A reducer has
//   identity<C>()          where a reduction starts: combining it with a member gives that member,
//                          bit for bit
//   combine(a, b)          of an earlier result and a later one
//   take(value, offset)    what a member contributes; `offset` says where its row starts in the
//                          input, in elements (a weighted sum finds its weight by it)
//   finish(v, members)     before the one rounding to the element type; `members` is how many there
//                          were
//   empty<C>()             what a row without members becomes
// Values are native vectors, sixteen lanes or single numbers of the compute type C. A reducer may
// have a state: it is copied to where it is used.
#pragma once

#include <type_traits>

#include "lanes/operations.h"

namespace gradplan::rows {

template <class Op>
struct Reducer {
  template <class C>
  GP_INLINE static C identity() {
    return Op::template identity<C>();
  }
  template <class V>
  GP_INLINE static V combine(const V& a, const V& b) {
    return Op::apply(a, b);
  }
  template <class V>
  GP_INLINE static V take(const V& value, int64_t) {
    return value;
  }
  template <class V>
  GP_INLINE static V finish(const V& v, int64_t) {
    return v;
  }
  template <class C>
  static C empty() {
    return C(0);
  }
};

struct Mean : Reducer<lanes::Sum> {
  template <class V>
  GP_INLINE static V finish(const V& v, int64_t members) {
    if constexpr (std::is_arithmetic_v<V>)
      return v / V(members);
    else
      return v / lanes::broadcast<V>(std::remove_cvref_t<decltype(v[0])>(members));
  }
};

// An empty row is what the caller says.
template <class Op>
struct Filled : Reducer<Op> {
  double fill;
  explicit Filled(double fill) : fill(fill) {}
  template <class C>
  C empty() const {
    return C(fill);
  }
};

}  // namespace gradplan::rows
