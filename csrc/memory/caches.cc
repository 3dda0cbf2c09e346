#include "memory/caches.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "memory/threads.h"

namespace gradplan::memory {
namespace {

// "0-3,8-11"
int64_t count_cpus(const std::string& list) {
  int64_t count = 0;
  std::istringstream ranges(list);
  for (std::string range; std::getline(ranges, range, ',');) {
    char* end;
    const long first = std::strtol(range.c_str(), &end, 10);
    count += (*end == '-' ? std::strtol(end + 1, nullptr, 10) : first) - first + 1;
  }
  return std::max<int64_t>(1, count);
}

// "32768K"
int64_t bytes_in(const std::string& size) {
  char* end;
  const int64_t number = std::strtol(size.c_str(), &end, 10);
  return *end == 'K' ? number << 10 : *end == 'M' ? number << 20 : number;
}

// Where the machine does not say.
constexpr int64_t kUsualCache = 8 << 20;

std::atomic<int64_t> instead{-1};

}  // namespace

int64_t cache_of_thread(const std::string& root) {
  int64_t total = 0;
  const std::string caches = root + "/sys/devices/system/cpu/cpu0/cache/index";
  for (int index = 0; index < 16; ++index) {
    const std::string here = caches + std::to_string(index);
    std::string type, size, sharing;
    int level = 0;
    std::ifstream(here + "/type") >> type;
    std::ifstream(here + "/size") >> size;
    std::ifstream(here + "/level") >> level;
    std::ifstream(here + "/shared_cpu_list") >> sharing;
    // The first level is within the second, or too small to matter.
    if (level < 2 || type == "Instruction") continue;
    total += bytes_in(size) / count_cpus(sharing);
  }
  return total;
}

bool exceeds_caches(int64_t bytes) {
  static const int64_t known = cache_of_thread("");
  const int64_t given = instead.load(std::memory_order_relaxed);
  return bytes > num_threads() * (given >= 0 ? given : known > 0 ? known : kUsualCache);
}

void set_cache_of_thread(int64_t bytes) { instead.store(bytes, std::memory_order_relaxed); }

}  // namespace gradplan::memory
