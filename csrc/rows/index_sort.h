// A stable parallel radix sort of indices, least significant digit first.
//
// A stable sort of integers has one result, so the schedule is free; the number of slices still
// comes from the shape and not from the threads, so that the workspace is a constant of the
// problem.
#pragma once

#include <bit>

#include "memory/threads.h"

namespace gradplan::rows {
using namespace memory;

// K is uint32_t wherever positions and keys fit: half the traffic.
template <class K>
struct SortEntry {
  K key;
  K payload;
};

class IndexSort {
 public:
  // Sorts `items` entries by keys in [0, keys); the key `keys` itself means "drop this one".
  IndexSort(int64_t items, int64_t keys)
      : items_(items),
        keys_(keys),
        narrow_(std::max(items, keys) <= int64_t{UINT32_MAX}),
        slices_(std::clamp<int64_t>(items >> 14, 1, 64)) {
    const int bits = std::bit_width(uint64_t(std::max<int64_t>(keys - 1, 0)));
    passes_ = std::max(1, (bits + kDigitBits - 1) / kDigitBits);
    digit_bits_ = (bits + passes_ - 1) / passes_;
  }

  bool narrow() const { return narrow_; }  // uint32_t is enough for K

  int64_t workspace_size() const {
    const int64_t size = narrow_ ? sizeof(uint32_t) : sizeof(uint64_t);
    return padded(2 * size * items_) * std::min(passes_, 2) + size * slices_ * counters();
  }

  // Returns the kept entries in order, and how many they are. key_of(i) and payload_of(i) give the
  // i-th entry.
  template <class K, class KeyOf, class PayloadOf>
  SortEntry<K>* run(const KeyOf& key_of, const PayloadOf& payload_of, char* workspace,
                    int64_t& kept) const {
    auto* to = reinterpret_cast<SortEntry<K>*>(workspace);
    workspace += padded(sizeof(SortEntry<K>) * items_);
    auto* other = reinterpret_cast<SortEntry<K>*>(workspace);
    if (passes_ > 1) workspace += padded(sizeof(SortEntry<K>) * items_);
    K* counts = reinterpret_cast<K*>(workspace);
    const K dropped = K(keys_);
    // A digit of its own behind all others: dropped entries end up behind the kept ones, unread.
    const K dropped_digit = K(counters() - 1);
    const K mask = K((uint64_t{1} << digit_bits_) - 1);
    kept = scatter(
        items_, [=](int64_t i) { return SortEntry<K>{key_of(i), payload_of(i)}; },
        [=](int64_t i) {
          const K key = key_of(i);
          return key == dropped ? dropped_digit : K(key & mask);
        },
        counts, to);
    for (int pass = 1; pass < passes_; ++pass) {
      const SortEntry<K>* from = to;
      std::swap(to, other);
      const int shift = pass * digit_bits_;
      scatter(
          kept, [=](int64_t i) { return from[i]; },
          [=](int64_t i) { return K((from[i].key >> shift) & mask); }, counts, to);
    }
    return to;
  }

 private:
  // 2^11 open lines still fit the second-level cache, and a pass saved is worth more.
  static constexpr int kDigitBits = 11;

  static int64_t padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }
  int64_t counters() const { return (int64_t{1} << digit_bits_) + 1; }

  // One pass: entries to their digit's place, in order. Returns how many have an ordinary digit.
  template <class K, class EntryOf, class DigitOf>
  int64_t scatter(int64_t items, const EntryOf& entry_of, const DigitOf& digit_of, K* counts,
                  SortEntry<K>* to) const {
    const int64_t digits = counters();
    const int64_t slice = (items + slices_ - 1) / slices_;
    const int64_t bytes = items * int64_t(sizeof(SortEntry<K>));
    parallel_for(slices_, 1, bytes, [&](int64_t s, int64_t end) {
      for (; s < end; ++s) {
        K* count = counts + s * digits;
        std::fill(count, count + digits, K{0});
        const auto digit = digit_of;  // a copy lives in registers: stores to K cannot change it
        const int64_t stop = std::min((s + 1) * slice, items);
        for (int64_t i = s * slice; i < stop; ++i) ++count[digit(i)];
      }
    });
    K total = 0;
    int64_t ordinary = 0;
    for (int64_t d = 0; d < digits; ++d) {
      if (d == digits - 1) ordinary = int64_t(total);
      for (int64_t s = 0; s < slices_; ++s) {
        const K count = counts[s * digits + d];
        counts[s * digits + d] = total;
        total += count;
      }
    }
    parallel_for(slices_, 1, bytes, [&](int64_t s, int64_t end) {
      for (; s < end; ++s) {
        K* place = counts + s * digits;
        const auto digit = digit_of;
        const auto entry = entry_of;
        const int64_t stop = std::min((s + 1) * slice, items);
        for (int64_t i = s * slice; i < stop; ++i) to[place[digit(i)]++] = entry(i);
      }
    });
    return ordinary;
  }

  int64_t items_;
  int64_t keys_;
  bool narrow_;
  int64_t slices_;
  int passes_;
  int digit_bits_;
};

}  // namespace gradplan::rows
