// Long runs of memory: what helps the hardware to read and write them.
#pragma once

#include "memory/access.h"
#include "memory/caches.h"
#include "memory/threads.h"

namespace gradplan::memory {

constexpr int64_t kPage = 4096;

// Prepares the address translation of `count` elements that streaming stores will write: without it
// they wait at the start of every page (1.5 times slower). The page behind them is the next one's,
// or holds their end.
template <class E>
GP_INLINE void touch_pages(const E* p, int64_t count) {
  for (int64_t byte = 0; byte < count * int64_t(sizeof(E)) + kPage; byte += kPage)
    __builtin_prefetch(reinterpret_cast<const char*>(p) + byte);
}

// Fetches elements, in rising order, into the second-level cache.
template <class E>
GP_INLINE void prefetch_run(const E* p, int64_t count) {
  for (int64_t byte = 0; byte < count * int64_t(sizeof(E)); byte += 64)
    __builtin_prefetch(reinterpret_cast<const char*>(p) + byte, 0, 2);
}

// Streaming stores of runs that mostly follow one another. Only whole lines are streamed: a line
// that is written in two ways costs more than all the others together, so what does not fill one
// waits for the next run.
template <class E>
class StreamWriter {
 public:
  ~StreamWriter() { flush(); }

  void put(const E* from, E* to, int64_t count) {
    const char* bytes = reinterpret_cast<const char*>(from);
    int64_t left = count * int64_t(sizeof(E));
    if (reinterpret_cast<char*>(to) != next_) {
      flush();
      next_ = reinterpret_cast<char*>(to);
      // What the first line holds in front of us is not ours to write.
      const int64_t head = std::min<int64_t>(left, -reinterpret_cast<uintptr_t>(to) % kLine);
      std::memcpy(next_, bytes, size_t(head));
      advance(bytes, left, head);
    }
    if (pending_ > 0) {
      const int64_t more = std::min<int64_t>(left, kLine - pending_);
      std::memcpy(line_ + pending_, bytes, size_t(more));
      pending_ += int(more);
      advance(bytes, left, more);
      if (pending_ < kLine) return;
      stream_line(next_ - kLine, line_);
      pending_ = 0;
    }
    for (; left >= kLine; advance(bytes, left, kLine)) stream_line(next_, bytes);
    std::memcpy(line_, bytes, size_t(left));
    pending_ = int(left);
    next_ += left;
  }

  void flush() {
    if (pending_ > 0) std::memcpy(next_ - pending_, line_, size_t(pending_));
    pending_ = 0;
  }

 private:
  static constexpr int kLine = 64;

  GP_INLINE void advance(const char*& bytes, int64_t& left, int64_t count) {
    bytes += count;
    next_ += count;
    left -= count;
  }

  GP_INLINE static void stream_line(char* to, const char* from) {
    for (int i = 0; i < kLine; i += kVectorBytes) {
      using Bytes = NativeVector<int32_t>;
      const Bytes::type v = *reinterpret_cast<const Bytes::unaligned*>(from + i);
      stream_bytes(to + i, &v, std::integral_constant<int, kVectorBytes>{});
    }
  }

  alignas(64) char line_[kLine];
  char* next_ = nullptr;
  int pending_ = 0;  // bytes in line_, which belong in front of next_
};

}  // namespace gradplan::memory
