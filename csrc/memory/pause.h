// What a thread does that waits for another one without sleeping.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gradplan::memory {

inline void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace gradplan::memory
