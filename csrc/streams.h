// Long runs of memory: what helps the hardware to read and write them.
#pragma once

#include "access.h"

namespace gradplan {

// Prepares the address translation of `count` elements that streaming stores will write: without it
// they wait at the start of every page (1.5 times slower).
template <class E>
GP_INLINE void touch_pages(const E* p, int64_t count) {
  for (int64_t byte = 0; byte < count * int64_t(sizeof(E)); byte += 4096)
    __builtin_prefetch(reinterpret_cast<const char*>(p) + byte);
}

// Brings elements into the cache in rising order, the only one that the hardware prefetches across
// pages: reading downwards takes twice as long.
template <class E>
inline void read_upwards(const E* p, int64_t count) {
  const volatile char* bytes = reinterpret_cast<const volatile char*>(p);
  for (int64_t at = 0; at < count * int64_t(sizeof(E)); at += 64) static_cast<void>(bytes[at]);
}

// Copies elements from the cache to memory that nobody reads soon.
template <class E>
inline void stream_copy(const E* from, E* to, int64_t count) {
  constexpr int64_t kStep = kVectorBytes / int64_t(sizeof(E));
  const int64_t head = std::min(count, elements_to_line(to));
  std::memcpy(static_cast<void*>(to), from, size_t(head) * sizeof(E));
  int64_t i = head;
  for (; i + kStep <= count; i += kStep) {
    alignas(64) char line[kVectorBytes];
    std::memcpy(line, from + i, kVectorBytes);
    stream_bytes(to + i, line, std::integral_constant<int, kVectorBytes>{});
  }
  std::memcpy(static_cast<void*>(to + i), from + i, size_t(count - i) * sizeof(E));
}

}  // namespace gradplan
