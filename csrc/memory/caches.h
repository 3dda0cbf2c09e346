// The caches of this machine, and what they say about streaming stores.
#pragma once

#include <cstdint>
#include <string>

#include "ffi/error.h"

namespace gradplan::memory {

// Bytes of cache that one thread can count on: its own levels, and of a level that CPUs share the
// part of one of them, for they may all have work. 0: it is not known. `root` is where the file
// system begins.
int64_t cache_of_thread(const std::string& root);

// Whether a call that moves so many bytes, inputs and outputs, finds no room in the caches of its
// threads: then outputs are written with streaming stores, which read no line before it is written.
GP_SHARED bool exceeds_caches(int64_t bytes);

// Instead of what the machine says, for tests: with 0 every call streams. Negative: as it says.
void set_cache_of_thread(int64_t bytes);

}  // namespace gradplan::memory
