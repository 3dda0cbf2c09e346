#include "ffi/large_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace gradplan::ffi {

void use_large_pages(const CallContract& contract, const Operand* operands) {
#if defined(MADV_HUGEPAGE)
  constexpr int64_t kLarge = 1 << 22;
  static const auto page = uintptr_t(sysconf(_SC_PAGESIZE));
  for (size_t i = 0; i < contract.tensors.size(); ++i) {
    const Operand& out = operands[i];
    if (contract.tensors[i].role != Role::kOutput || out.data == nullptr) continue;
    const int64_t size = count_elements(contract.tensors[i].shape) * item_size(out.dtype);
    if (size < kLarge) continue;
    // Only whole pages inside of it.
    const uintptr_t address = reinterpret_cast<uintptr_t>(out.data);
    const uintptr_t begin = (address + page - 1) / page * page,
                    end = (address + size) / page * page;
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  }
#else
  (void)contract, (void)operands;
#endif
}

}  // namespace gradplan::ffi
