// The gradients of scatter_reduce. A line along the axis is taken twice by one thread, once to
// learn what its places hold and once to write; lines that lie side by side are taken together.
#include "gather/axis_indices.h"
#include "gather/reduce.h"
#include "lanes/operations.h"

namespace gradplan::gather {
namespace {

enum class Tie { kFirst, kLast, kShare };
const std::vector<std::string> kTies = {"first", "last", "share"};

// Positions of the operands, and in Offsets.
struct Slots {
  int dy, x, y, ids, initial, dx, d_initial;
};

struct Gradients {
  AxisProblem p;
  Slots at;
  Reduce kind;
  Tie ties;
  bool include_self;
};

// What is known of a place: how many members it has, and which of them matter.
struct Place {
  int64_t count;
  int64_t chosen;  // of extremes: how many match, or the one that receives the gradient
};
// Of products: the members of the current block so far, and the blocks before it or behind it.
template <class C>
struct Products {
  int64_t count;
  C block, whole;
  C next;  // the current block as a whole, for the one before it
};

class Parts {
 public:
  explicit Parts(const Gradients& g) {
    const int64_t item = g.p.element == Dtype::kF64 ? 8 : 4;
    per_line_ = std::max<int64_t>(g.p.size, 1) * (g.kind == Reduce::kProd ? 8 + 4 * item : 16);
    if (g.kind == Reduce::kProd) per_line_ += 2 * g.p.n * item;
    together_ = std::clamp<int64_t>((1 << 24) / per_line_, 1, kLanes);
    const int64_t lines = g.p.n == 0 ? 1 : std::max<int64_t>(g.p.lines(), 1);
    together_ = std::min(together_, lines);
    parts_ = std::clamp<int64_t>((lines + together_ - 1) / together_, 1, 4);
  }
  int64_t together() const { return together_; }
  int64_t part_bytes() const { return (per_line_ * together_ + 63) / 64 * 64; }
  int64_t bytes() const { return parts_ * part_bytes(); }
  int64_t parts(int64_t tiles) const { return std::min<int64_t>({parts_, tiles, num_threads()}); }

 private:
  int64_t per_line_, together_, parts_;
};

template <class E, class I>
class LineGradients {
 public:
  using C = ComputeOf<E>;

  LineGradients(const Gradients& g, const Parts& parts, const Operand* t)
      : g_(g), parts_(parts), t_(t), p_(g.p) {
    const int rank = int(p_.shape.size());
    const auto strides_of = [&](int d) {
      Offsets strides{};
      for (int k = 0; k < kMostOperands; ++k)
        if (t[k].data != nullptr && d < t[k].rank) strides[k] = t[k].stride[d];
      return strides;
    };
    for (int d = 0; d < rank; ++d) {
      if (d == p_.axis)
        step_ = strides_of(d);
      else
        outer_.add(p_.shape[d], strides_of(d));
    }
    if (rank == 0) step_ = strides_of(0);
    outer_.arrange(g.at.dx);
    if (!outer_.extent.empty() &&
        std::abs(outer_.stride.back()[g.at.dx]) < std::abs(step_[g.at.dx])) {
      width_ = outer_.extent.back();
      beside_ = outer_.stride.back();
      outer_.extent.pop_back();
      outer_.stride.pop_back();
    }
  }

  void run(char* workspace) const {
    if (outer_.count() * width_ == 0) return;
    const int64_t together = std::min(width_, parts_.together());
    const int64_t across = (width_ + together - 1) / together;
    const int64_t tiles = outer_.count() * across;
    const int64_t parts = parts_.parts(tiles);
    const int64_t bytes =
        tiles * together * (p_.n * int64_t(3 * sizeof(E) + sizeof(I)) + p_.size * 32);
    parallel_for(parts, 1, bytes, [&](int64_t part, int64_t end) {
      for (; part < end; ++part) {
        char* own = workspace + part * parts_.part_bytes();
        for (int64_t tile = part * tiles / parts; tile < (part + 1) * tiles / parts; ++tile) {
          check_interruption();
          const int64_t first = tile % across * together;
          Offsets at = outer_.offsets(tile / across);
          for (int k = 0; k < kMostOperands; ++k) at[k] += first * beside_[k];
          const int64_t width = std::min(together, width_ - first);
          if (g_.kind == Reduce::kProd)
            products(at, width, own);
          else
            others(at, width, reinterpret_cast<Place*>(own));
        }
      }
    });
  }

 private:
  const E* from(int slot, const Offsets& at) const { return t_[slot].as<const E>() + at[slot]; }
  E* to(int slot, const Offsets& at) const { return t_[slot].as<E>() + at[slot]; }
  bool has_initial() const { return t_[g_.at.initial].data != nullptr; }
  bool counts_itself() const { return has_initial() && g_.include_self; }

  // What the element that a place starts from receives, and nothing where no gradient is wanted.
  void start(const Offsets& at, C value) const {
    if (t_[g_.at.d_initial].data != nullptr)
      store_element(to(g_.at.d_initial, at), has_initial() ? value : C(0));
  }

  Offsets moved(const Offsets& at, int64_t i, int64_t w) const {
    Offsets there;
    for (int k = 0; k < kMostOperands; ++k) there[k] = at[k] + i * step_[k] + w * beside_[k];
    return there;
  }

  // f(place, line, i): every member, in ascending order or from the end; what belongs to no place
  // gets nothing.
  template <class F>
  void members(const Offsets& at, int64_t width, bool backwards, const F& f) const {
    const Slots& s = g_.at;
    const I* ids = t_[s.ids].as<const I>() + at[s.ids];
    for (int64_t k = 0; k < p_.n; ++k) {
      const int64_t i = backwards ? p_.n - 1 - k : k;
      for (int64_t w = 0; w < width; ++w) {
        const int64_t place = ids[i * step_[s.ids] + w * beside_[s.ids]];
        if (p_.range().selects(place))
          f(place, w, i);
        else
          store_element(member(to(s.dx, at), s.dx, i, w), C(0));
      }
    }
  }
  template <class T>
  GP_INLINE T* member(T* base, int slot, int64_t i, int64_t w) const {
    return base + i * step_[slot] + w * beside_[slot];
  }

  static bool matches(C v, C extreme) { return v == extreme || (v != v && extreme != extreme); }

  // Sums, means and extremes.
  void others(const Offsets& at, int64_t width, Place* places) const {
    const Slots& s = g_.at;
    const bool extreme = g_.kind == Reduce::kAmax || g_.kind == Reduce::kAmin;
    const bool share = g_.ties == Tie::kShare, last = g_.ties == Tie::kLast;
    const E *x = from(s.x, at), *y = from(s.y, at), *dy = from(s.dy, at);
    E* dx = to(s.dx, at);
    std::fill(places, places + p_.size * width, Place{0, share ? 0 : -1});
    members(at, width, false, [&](int64_t place, int64_t w, int64_t i) {
      Place& p = places[place * width + w];
      ++p.count;
      if (!extreme) return;
      const C own = load_element(member(y, s.y, place, w));
      if (!matches(load_element(member(x, s.x, i, w)), own)) return;
      if (share)
        ++p.chosen;
      else if (last || p.chosen < 0)
        p.chosen = i;
    });
    const auto is_extreme = [&](int64_t place, int64_t w) {
      return counts_itself() &&
             matches(load_element(member(from(s.initial, at), s.initial, place, w)),
                     load_element(member(y, s.y, place, w)));
    };
    // What the places hold from here on is read by members alone.
    for (int64_t place = 0; place < p_.size; ++place)
      for (int64_t w = 0; w < width; ++w) {
        Place& p = places[place * width + w];
        const C g = load_element(member(dy, s.dy, place, w));
        C own = g_.include_self || p.count == 0 ? g : C(0);
        if (g_.kind == Reduce::kMean && g_.include_self) own = g / C(p.count + 1);
        if (extreme && g_.include_self) {
          const bool match = is_extreme(place, w);
          if (share) {
            own = match ? g / (C(p.chosen) + C(1)) : C(0);
          } else {
            own = match && (!last || p.chosen < 0) ? g : C(0);
            if (match && !last) p.chosen = -1;
          }
        }
        start(moved(at, place, w), own);
      }
    members(at, width, false, [&](int64_t place, int64_t w, int64_t i) {
      const Place& p = places[place * width + w];
      C g = load_element(member(dy, s.dy, place, w));
      if (g_.kind == Reduce::kMean) g = g / C(p.count + counts_itself());
      if (extreme && share) {
        const bool match =
            matches(load_element(member(x, s.x, i, w)), load_element(member(y, s.y, place, w)));
        g = match ? g / (C(p.chosen) + C(is_extreme(place, w))) : C(0);
      } else if (extreme) {
        g = p.chosen == i ? g : C(0);
      }
      store_element(member(dx, s.dx, i, w), g);
    });
  }

  // Every member's product of the others: forwards for those before it, backwards for those behind.
  void products(const Offsets& at, int64_t width, char* workspace) const {
    const Slots& s = g_.at;
    const E *x = from(s.x, at), *dy = from(s.dy, at);
    E* dx = to(s.dx, at);
    auto* places = reinterpret_cast<Products<C>*>(workspace);
    C* before = reinterpret_cast<C*>(places + p_.size * width);  // in the member's block
    C* early = before + p_.n * width;                            // and in all earlier blocks
    std::fill(places, places + p_.size * width, Products<C>{0, C(1), C(1), C(1)});
    members(at, width, false, [&](int64_t place, int64_t w, int64_t i) {
      Products<C>& p = places[place * width + w];
      before[i * width + w] = p.block;
      early[i * width + w] = Product::apply(p.whole, p.block);
      p.block = Product::apply(p.block, C(load_element(member(x, s.x, i, w))));
      if (++p.count % kBlock == 0) {
        p.whole = Product::apply(p.whole, p.block);
        p.block = C(1);
      }
    });
    for (int64_t place = 0; place < p_.size; ++place)
      for (int64_t w = 0; w < width; ++w) {
        Products<C>& p = places[place * width + w];
        const C g = load_element(member(dy, s.dy, place, w));
        C own = p.count == 0 ? g : C(0);
        if (g_.include_self) own = Product::apply(g, Product::apply(p.whole, p.block));
        start(moved(at, place, w), own);
        p = {-p.count, C(1), C(1), C(1)};
      }
    members(at, width, true, [&](int64_t place, int64_t w, int64_t i) {
      Products<C>& p = places[place * width + w];
      const C v = load_element(member(x, s.x, i, w));
      const C g = load_element(member(dy, s.dy, place, w));
      // From the end a block begins with its last member, the first one that is met with any.
      const bool end = p.count < 0;
      if (end) p.count = -p.count;
      if (end || p.count % kBlock == 0) {
        p.whole = Product::apply(p.next, p.whole);
        p.next = Product::apply(before[i * width + w], v);
        p.block = C(1);
      }
      --p.count;
      C rest = Product::apply(early[i * width + w], Product::apply(p.block, p.whole));
      if (counts_itself()) {
        const C first = load_element(member(from(s.initial, at), s.initial, place, w));
        rest = Product::apply(first, rest);
      }
      store_element(member(dx, s.dx, i, w), Product::apply(g, rest));
      p.block = Product::apply(v, p.block);
    });
  }

  const Gradients& g_;
  const Parts& parts_;
  const Operand* t_;
  const AxisProblem& p_;
  Dimensions outer_;
  Offsets step_{}, beside_{};
  int64_t width_ = 1;
};

BoundKernel bind_backward(const Problem& problem) {
  const std::string& ties = problem.text("ties");
  const Gradients g{.p = AxisProblem(problem, "dx", "d_output"),
                    .at = {.dy = problem.at("d_output"),
                           .x = problem.at("x"),
                           .y = problem.at("output"),
                           .ids = problem.at("indices"),
                           .initial = problem.at("initial"),
                           .dx = problem.at("dx"),
                           .d_initial = problem.at("d_initial")},
                    .kind = reduce_of(problem),
                    .ties = ties == "share"  ? Tie::kShare
                            : ties == "last" ? Tie::kLast
                                             : Tie::kFirst,
                    .include_self = problem.flag("include_self")};
  const Parts parts(g);
  return {[=](const Operand* t, char* workspace) {
            check_indices(g.p, t[g.at.ids]);
            visit_element(g.p.element, [&](auto* element) {
              visit_index(t[g.at.ids].dtype, [&](auto* index) {
                using E = std::remove_pointer_t<decltype(element)>;
                using I = std::remove_pointer_t<decltype(index)>;
                LineGradients<E, I>(g, parts, t).run(workspace);
              });
            });
          },
          parts.bytes()};
}

const Registration scatter_reduce_backward({.name = "scatter_reduce_backward",
                                            .tensors = {"d_output", "x", "output", "indices",
                                                        "initial", "dx", "d_initial"},
                                            .attributes = {{"axis"},
                                                           {"reduce", kReduces},
                                                           {"include_self"},
                                                           {"ties", kTies},
                                                           {"bounds", rows::kBounds}},
                                            .elements = kFloats,
                                            .bind = bind_backward});

}  // namespace
}  // namespace gradplan::gather
