// What kernels found wrong with the values of indices, without anybody waiting for them.
//
// A plan that checks indices has a slot: a few words of the host's memory, pinned and mapped, which
// its kernels write if there is anything to say. Whoever makes the next call on that device looks
// at all slots, which is a read of a few cache lines.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/driver.h"

namespace gradplan::cuda {

constexpr int kReportWords = 8;  // of 64 bits: a cache line. Zero: there is nothing to say

struct Report {
  // Says what is wrong, by throwing it.
  using Explain = std::function<void(const std::vector<int64_t>& words)>;

  volatile int64_t* words;
  DevicePointer address;  // of the words, for kernels
  Explain explain;

  bool has_news() const;
  // Clears the words and throws what they said.
  void raise();
};

class Reports {
 public:
  // The slot with that name. Plans whose reports read the same share one, so that there are not
  // more of them than different texts, however many plans come and go.
  Report& slot(const Driver& driver, const std::string& name, const Report::Explain& explain);

  // The first slot that has news, or null. It is neither read nor cleared: kernels may be writing.
  Report* with_news();

 private:
  std::mutex mutex_;
  std::map<std::string, Report> slots_;
  std::vector<Report*> order_;
  char* page_ = nullptr;  // where the next slot is
  DevicePointer page_address_ = 0;
  size_t left_ = 0;
};

}  // namespace gradplan::cuda
