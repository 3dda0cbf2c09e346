// Checks exp and log of lanes/exp_log.h: f32 over all 2^32 inputs, f64 over a fixed sample.
//
// Prints JSON to stdout (maximum error in ulp against the real value, misroundings, a digest of all
// outputs) and progress to stderr; exits with 1 if a bound or a special value fails. The outputs
// are digested in the order of the inputs, so neither the number of threads nor the instruction set
// of the build may change a digest.
//
//   g++ -O3 -std=c++20 -march=x86-64-v3 -ffp-contract=off -pthread -Icsrc csrc/tools/exhaustive.cc
//
// What stands for the real value. f32: the C library's double function (its error is 2^-28 of an
// f32 ulp), replaced by the long double one where the value lies within 2^-20 ulp of the middle of
// two floats, so that misroundings are counted right. (A long double value could itself fall on the
// wrong side only within 2^-39 ulp of a middle, 2^-38 of the inputs.) f64: long double, which is
// off by 2^-10 of an f64 ulp.
#include <algorithm>
#include <atomic>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include "lanes/exp_log.h"

static_assert(LDBL_MANT_DIG >= 64, "the oracle needs a long double wider than double");

namespace gradplan::lanes {
namespace {

constexpr double kLimitF32 = 1.0;
constexpr double kLimitF64 = 2.0;

// FNV-1a over 64-bit words instead of bytes.
struct Digest {
  uint64_t value = 0xcbf29ce484222325u;
  void add(uint64_t word) { value = (value ^ word) * 0x100000001b3u; }
};

struct Exp {
  static constexpr const char* kName = "exp";
  template <class V>
  static V full(V x) {
    return gp_exp(x);
  }
  template <class V>
  static V restricted(V x) {
    return gp_exp_low(x);
  }
  template <class T>
  static bool restricted_covers(T x) {
    return x <= 64;
  }
  template <class Real>
  static Real oracle(Real x) {
    return std::exp(x);
  }
  // Inputs whose result is one bit pattern, and no matter of error bounds.
  template <class T>
  static std::optional<T> special(T x) {
    if (x != x) return kCanonicalNan<T>;
    if (std::isinf(x)) return x > 0 ? x : T(0);
    if (x == 0) return T(1);
    return std::nullopt;
  }
};

struct Log {
  static constexpr const char* kName = "log";
  template <class V>
  static V full(V x) {
    return gp_log(x);
  }
  template <class V>
  static V restricted(V x) {
    return gp_log_normal(x);
  }
  template <class T>
  static bool restricted_covers(T x) {
    return x >= std::numeric_limits<T>::min() && x <= std::numeric_limits<T>::max();
  }
  template <class Real>
  static Real oracle(Real x) {
    return std::log(x);
  }
  template <class T>
  static std::optional<T> special(T x) {
    constexpr T kInf = std::numeric_limits<T>::infinity();
    if (x != x || x < 0) return kCanonicalNan<T>;
    if (x == 0) return -kInf;
    if (x == kInf) return kInf;
    if (x == 1) return T(0);
    return std::nullopt;
  }
};

// The distance of two neighbours of type T around a real value.
template <class T>
double spacing(double real) {
  using L = std::numeric_limits<T>;
  const int exponent = int(bitcast<uint64_t>(real) >> 52 & 0x7ff) - 1022;
  const int power = std::clamp(exponent, L::min_exponent, L::max_exponent) - L::digits;
  if constexpr (sizeof(T) == 4) return power_of_two<double>(power);
  return std::ldexp(1.0, power);
}

struct Result {
  uint64_t inputs = 0;
  double max_ulp = 0;
  double worst = 0;  // where max_ulp is
  uint64_t misroundings = 0;
  uint64_t special_wrong = 0;     // special values that are not what they must be
  uint64_t restricted_wrong = 0;  // gp_exp_low, gp_log_normal differ from the full function
  uint64_t scalar_wrong = 0;      // one lane differs from 16
  uint64_t decreases = 0;         // neighbouring inputs whose results are in the wrong order
  Digest digest;

  void merge(const Result& other) {
    inputs += other.inputs;
    misroundings += other.misroundings;
    special_wrong += other.special_wrong;
    restricted_wrong += other.restricted_wrong;
    scalar_wrong += other.scalar_wrong;
    decreases += other.decreases;
    if (other.max_ulp > max_ulp) {
      max_ulp = other.max_ulp;
      worst = other.worst;
    }
    digest.add(other.digest.value);
  }
  bool passes(double limit) const {
    return max_ulp <= limit && special_wrong + restricted_wrong + scalar_wrong + decreases == 0;
  }
};

template <class T>
UintOf<T> bits_of(T x) {
  return bitcast<UintOf<T>>(x);
}

// Infinity counts as the power of two that it stands for.
template <class T, class Real>
Real finite(Real value) {
  const Real top = std::ldexp(Real(1), std::numeric_limits<T>::max_exponent);
  return std::clamp(value, -top, top);
}

template <class F>
float nearest(float x, double real, double ulp) {
  const double steps = std::fabs(real) / ulp;
  const double from_middle = std::fabs(steps - std::floor(steps) - 0.5);
  return float(from_middle < 0x1p-20 ? F::oracle(static_cast<long double>(x)) : real);
}

template <class F>
double nearest(double, long double real, double) {
  return double(real);
}

// Adds the error of y in ulp of the real value, and whether y is not the nearest T.
template <class F, class T>
void measure(T x, T y, Result* result) {
  using Real = std::conditional_t<sizeof(T) == 4, double, long double>;
  const Real real = finite<T>(F::oracle(Real(x)));
  const double ulp = spacing<T>(double(real));
  const double error = std::fabs(finite<T>(Real(y)) - real) / ulp;
  result->misroundings += y != nearest<F>(x, real, ulp);
  if (error > result->max_ulp) {
    result->max_ulp = error;
    result->worst = x;
  }
}

template <class F, class T>
void check(const T (&x)[kLanes], Result* result) {
  T y[kLanes], low[kLanes], next[kLanes];
  const auto lanes = Lanes<T>::load(x);
  F::full(lanes).store(y);
  F::restricted(lanes).store(low);
  // One lane of 16 is enough to see that a scalar is a lane.
  const int chosen = bits_of(x[0]) / kLanes % kLanes;
  result->scalar_wrong += bits_of(F::full(x[chosen])) != bits_of(y[chosen]);
  const auto above = bitcast<T>(bitcast<UintOf<T>>(lanes) + Lanes<UintOf<T>>(1));
  F::full(above).store(next);
  result->inputs += kLanes;
  for (int i = 0; i < kLanes; ++i) {
    result->digest.add(bits_of(y[i]));
    if (F::restricted_covers(x[i])) result->restricted_wrong += bits_of(low[i]) != bits_of(y[i]);
    // The next bit pattern is further from 0 (or NaN, which is in no order).
    result->decreases += std::signbit(x[i]) ? next[i] > y[i] : next[i] < y[i];
    if (const std::optional<T> exact = F::special(x[i])) {
      result->special_wrong += bits_of(y[i]) != bits_of(*exact);
    } else {
      measure<F>(x[i], y[i], result);
    }
  }
}

// Runs `block(index)` for all blocks in parallel and merges the results in order.
template <class Block>
Result run_blocks(const char* name, const char* type, int blocks, Block block) {
  std::vector<Result> results(blocks);
  std::atomic<int> next{0}, done{0};
  const auto work = [&] {
    for (int b; (b = next++) < blocks;) {
      results[b] = block(b);
      if (const int count = ++done; count % (blocks / 64) == 0)
        std::fprintf(stderr, "\r%s %s: %3d %%", name, type, int(100LL * count / blocks));
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (unsigned k = 1; k < std::thread::hardware_concurrency(); ++k) helpers.emplace_back(work);
    work();
  }
  std::fprintf(stderr, "\n");
  Result total;
  for (const Result& r : results) total.merge(r);
  return total;
}

template <class F>
Result check_all_f32() {
  constexpr int kBlockBits = 20;
  return run_blocks(F::kName, "f32", 1 << (32 - kBlockBits), [](int b) {
    Result result;
    const uint32_t first = uint32_t(b) << kBlockBits;
    for (uint32_t i = 0; i < 1u << kBlockBits; i += kLanes) {
      float x[kLanes];
      for (int l = 0; l < kLanes; ++l) x[l] = bitcast<float>(first + i + l);
      check<F>(x, &result);
    }
    return result;
  });
}

// A well mixed 64-bit number for every index (a multiplication and shifts, twice).
uint64_t mixed(uint64_t index) {
  uint64_t v = index * 0x9e3779b97f4a7c15u;
  v = (v ^ v >> 32) * 0xd6e8feb86659fd93u;
  v = (v ^ v >> 32) * 0xd6e8feb86659fd93u;
  return v ^ v >> 32;
}

// Four kinds of samples in turn: any bit pattern; any number of the range in which the result is
// neither 0 nor overflow (exp), or near 1 (log); small powers of two times anything; subnormal.
double sample(uint64_t index) {
  const uint64_t v = mixed(index);
  const double unit = double(v >> 11) * 0x1p-53;
  switch (index % 4) {
    case 0: return bitcast<double>(v);
    case 1: return index % 8 < 4 ? -746 + 1456 * unit : 0.5 + 1.5 * unit;
    case 2:  // exponents -54..9
      return bitcast<double>((v & 0x800fffffffffffffu) | ((v >> 52 & 63) + 1023 - 54) << 52);
    default: return bitcast<double>(v >> (12 + index / 4 % 52));
  }
}

template <class F>
Result check_sampled_f64() {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr int kBlockBits = 14;
  return run_blocks(F::kName, "f64", 1 << (24 - kBlockBits), [](int b) {
    Result result;
    if (b == 0) {
      check<F>({0.0, -0.0, 1.0, -1.0, kInf, -kInf, kNan, -kNan, DBL_MIN, -DBL_MIN, DBL_MAX,
                -DBL_MAX, std::numeric_limits<double>::denorm_min(), -746.0, 710.0, -745.2},
               &result);
    }
    const uint64_t first = uint64_t(b) << kBlockBits;
    for (uint64_t i = 0; i < 1u << kBlockBits; i += kLanes) {
      double x[kLanes];
      for (int l = 0; l < kLanes; ++l) x[l] = sample(first + i + l);
      check<F>(x, &result);
    }
    return result;
  });
}

void print(const char* name, const char* type, const Result& r, bool last) {
  std::printf(
      "  {\"function\": \"%s\", \"element\": \"%s\", \"inputs\": %llu, \"max_ulp\": %.4f,\n"
      "   \"max_ulp_at\": \"%a\", \"misroundings\": %llu, \"digest\": \"%016llx\",\n"
      "   \"special_wrong\": %llu, \"restricted_wrong\": %llu, \"scalar_wrong\": %llu,\n"
      "   \"decreases\": %llu}%s\n",
      name, type, static_cast<unsigned long long>(r.inputs), r.max_ulp, r.worst,
      static_cast<unsigned long long>(r.misroundings),
      static_cast<unsigned long long>(r.digest.value),
      static_cast<unsigned long long>(r.special_wrong),
      static_cast<unsigned long long>(r.restricted_wrong),
      static_cast<unsigned long long>(r.scalar_wrong), static_cast<unsigned long long>(r.decreases),
      last ? "" : ",");
}

int main() {
  const Result exp32 = check_all_f32<Exp>();
  const Result log32 = check_all_f32<Log>();
  const Result exp64 = check_sampled_f64<Exp>();
  const Result log64 = check_sampled_f64<Log>();
  std::printf("[\n");
  print("exp", "f32", exp32, false);
  print("log", "f32", log32, false);
  print("exp", "f64", exp64, false);
  print("log", "f64", log64, true);
  std::printf("]\n");
  const bool passes = exp32.passes(kLimitF32) && log32.passes(kLimitF32) &&
                      exp64.passes(kLimitF64) && log64.passes(kLimitF64);
  return passes ? 0 : 1;
}

}  // namespace
}  // namespace gradplan::lanes

int main() { return gradplan::lanes::main(); }
