// Large pages for outputs that were just allocated. (src/gradplan/memory.py does the same for what
// Python allocates, and says what it saves.)
#pragma once

#include "ffi/contract.h"

namespace gradplan::ffi {

// Asks for large pages for every large output of a call; a wish, never an error.
void use_large_pages(const CallContract& contract, const Operand* operands);

}  // namespace gradplan::ffi
