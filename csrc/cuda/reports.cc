#include "cuda/reports.h"

#include <algorithm>

namespace gradplan::cuda {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kSlot = kReportWords * sizeof(int64_t);
constexpr unsigned kPortable = 1, kMapped = 2;  // CU_MEMHOSTALLOC_*

}  // namespace

bool Report::has_news() const {
  return std::any_of(words, words + kReportWords, [](int64_t word) { return word != 0; });
}

void Report::raise() {
  const std::vector<int64_t> said(words, words + kReportWords);
  std::fill_n(words, kReportWords, 0);
  explain(said);
}

Report& Reports::slot(const Driver& driver, const std::string& name,
                      const Report::Explain& explain) {
  const std::lock_guard lock(mutex_);
  if (auto found = slots_.find(name); found != slots_.end()) return found->second;
  if (left_ < kSlot) {
    const OutsideOfCapture allowed(driver);
    void* memory = nullptr;
    GRADPLAN_CUDA_CHECK(driver, cuMemHostAlloc, &memory, kPage, kPortable | kMapped);
    GRADPLAN_CUDA_CHECK(driver, cuMemHostGetDevicePointer, &page_address_, memory, 0);
    page_ = static_cast<char*>(memory);
    left_ = kPage;
  }
  Report& made = slots_[name];
  made = {reinterpret_cast<volatile int64_t*>(page_), page_address_, explain};
  std::fill_n(made.words, kReportWords, 0);
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
