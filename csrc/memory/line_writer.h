// Streaming stores for sixteen rows at once, whatever their alignment.
//
// A streaming store is worth it only for whole 64-byte lines written one after the other, and a
// square has neither: it goes to sixteen rows, NumPy aligns these to 16 bytes, and 16 elements of
// f16 are half a line. So the squares of a while collect here, in the cache, and go out row by row.
#pragma once

#include "lanes/elements.h"

namespace gradplan::memory {
using namespace lanes;

template <class E>
class LineWriter {
 public:
  // `first[l]` is the address of lane l's first element; the lanes run on from there, to higher
  // addresses or (backwards) to lower ones.
  void start(E* const* first, bool backwards) {
    backwards_ = backwards;
    tick_ = 0;
    direct_ = kBytes % kLine == 0;
    for (int l = 0; l < kLanes; ++l) {
      next_[l] = reinterpret_cast<char*>(first[l]) + (backwards ? sizeof(E) : 0);
      const auto edge = reinterpret_cast<uintptr_t>(next_[l]);
      // What the first line holds in front of us is not ours to write.
      pending_[l] = foreign_[l] = int((backwards ? -edge : edge) % kLine);
      direct_ = direct_ && pending_[l] == 0;
      squares_[l] = 0;
    }
  }

  // The lane's next 16 elements, as native vectors in the order of their addresses.
  GP_INLINE void put(int lane, const Native<ComputeOf<E>>* parts) {
    constexpr int W = Lanes<ComputeOf<E>>::kWidth, kParts = Lanes<ComputeOf<E>>::kParts;
    if (direct_) {
      next_[lane] -= backwards_ ? kBytes : 0;
      for (int p = 0; p < kParts; ++p)
        stream_part(reinterpret_cast<E*>(next_[lane]) + p * W, parts[p]);
      next_[lane] += backwards_ ? 0 : kBytes;
      return;
    }
    E* to = place(lane);
    for (int p = 0; p < kParts; ++p) store_part(to + p * W, parts[p]);
  }

  // The same for elements that are rounded already (two bytes each: never whole lines).
  GP_INLINE void put(int lane, const E* elements)
    requires(sizeof(E) == 2)
  {
    std::memcpy(static_cast<void*>(place(lane)), elements, kBytes);
  }

  // After every lane has been put. The lanes take turns: rows at the distance of a power of two
  // would otherwise all write to the same memory channel at the same time.
  GP_INLINE void end_square() {
    if (direct_) return;
    for (int l = tick_; l < kLanes; l += kSquares) flush(l);
    tick_ = (tick_ + 1) % kSquares;
  }

  // Writes what is pending. Nothing may be put behind it.
  void finish() {
    for (int l = 0; l < kLanes; ++l) {
      flush(l);
      const int own = pending_[l] - foreign_[l];
      if (own <= 0) continue;
      if (backwards_)
        std::memcpy(next_[l], rows_[l] + kRow - pending_[l], own);
      else
        std::memcpy(next_[l] - own, rows_[l] + foreign_[l], own);
    }
  }

 private:
  static constexpr int kLine = 64;
  static constexpr int kBytes = kLanes * int(sizeof(E));  // of a lane, per square
  static constexpr int kSquares = 512 / kBytes;           // 16 rows of 512 bytes: 8 KiB of the L1
  static constexpr int kRow = kSquares * kBytes + kLine;

  // Where the lane's next elements wait.
  GP_INLINE E* place(int lane) {
    const int at = pending_[lane] + squares_[lane]++ * kBytes;
    return reinterpret_cast<E*>(rows_[lane] + (backwards_ ? kRow - at - kBytes : at));
  }

  __attribute__((noinline)) void flush(int l) {
    char* row = rows_[l];
    const int fresh = squares_[l] * kBytes, bytes = pending_[l] + fresh;
    const int whole = bytes / kLine * kLine, rest = bytes - whole;
    next_[l] += backwards_ ? -fresh : fresh;
    pending_[l] = rest;
    squares_[l] = 0;
    if (whole == 0) return;
    // The address translation of the next page, in time: a streaming store would wait for it.
    const char* soon = next_[l] + (backwards_ ? -1024 : 1024);
    if ((reinterpret_cast<uintptr_t>(soon) & 4095) < 512) __builtin_prefetch(soon);
    // The line that was begun first lies at the low end of the row, or (backwards) at the high end.
    char* from = backwards_ ? row + kRow - whole : row;
    char* to = backwards_ ? next_[l] + rest : next_[l] - bytes;
    int begin = 0, end = whole;
    if (foreign_[l] > 0) {
      const int own = kLine - foreign_[l];
      if (backwards_) {
        end -= kLine;
        std::memcpy(to + end, from + end, own);
      } else {
        begin = kLine;
        std::memcpy(to + foreign_[l], from + foreign_[l], own);
      }
      foreign_[l] = 0;
    }
    for (int at = begin; at < end; at += kVectorBytes)
      stream_bytes(to + at, from + at, std::integral_constant<int, kVectorBytes>{});
    if (backwards_)
      std::memcpy(row + kRow - kLine, from - kLine, kLine);
    else
      std::memcpy(row, row + whole, kLine);
  }

  alignas(64) char rows_[kLanes][kRow];
  char* next_[kLanes];   // where the lane goes on after the last flush (backwards: one past it)
  int pending_[kLanes];  // bytes of the unfinished line at the last flush, foreign ones included
  int foreign_[kLanes];  // bytes of it that lie in front of the lane
  int squares_[kLanes];  // put since then
  int tick_;             // whose turn it is
  bool backwards_;
  bool direct_;  // every square is whole lines already
};

}  // namespace gradplan::memory
