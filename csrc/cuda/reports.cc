#include "cuda/reports.h"

#include <algorithm>

namespace gradplan::cuda {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kSlot = kReportWords * sizeof(int64_t);
constexpr unsigned kPortable = 1, kMapped = 2;  // CU_MEMHOSTALLOC_*

}  // namespace

bool Report::has_news() const {
  for (size_t i = 0; i < untouched.size(); ++i)
    if (words[i] != untouched[i]) return true;
  return false;
}

Report::Words Report::take() {
  Words taken(words, words + untouched.size());
  std::copy(untouched.begin(), untouched.end(), words);
  return taken;
}

Report& Reports::slot(const Driver& driver, const std::string& name, const Report::Words& untouched,
                      const Report::Explain& explain) {
  const std::lock_guard lock(mutex_);
  if (auto found = slots_.find(name); found != slots_.end()) return found->second;
  if (untouched.size() > kReportWords)
    throw ffi::PlanError("KernelError", name + ": a report of too many words");
  if (left_ < kSlot) {
    const OutsideOfCapture allowed(driver);
    void* memory = nullptr;
    GRADPLAN_CUDA_CHECK(driver, cuMemHostAlloc, &memory, kPage, kPortable | kMapped);
    GRADPLAN_CUDA_CHECK(driver, cuMemHostGetDevicePointer, &page_address_, memory, 0);
    page_ = static_cast<char*>(memory);
    left_ = kPage;
  }
  Report& made = slots_[name];
  made = {reinterpret_cast<volatile int64_t*>(page_), page_address_, untouched, explain};
  std::copy(untouched.begin(), untouched.end(), made.words);
  page_ += kSlot, page_address_ += kSlot, left_ -= kSlot;
  order_.push_back(&made);
  return made;
}

Report* Reports::with_news() {
  const std::lock_guard lock(mutex_);
  for (Report* report : order_)
    if (report->has_news()) return report;
  return nullptr;
}

}  // namespace gradplan::cuda
