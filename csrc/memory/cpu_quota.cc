#include "memory/cpu_quota.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

namespace gradplan::memory {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

bool contains(const std::string& list, const std::string& name) {
  const auto parts = split(list, ',');
  return std::find(parts.begin(), parts.end(), name) != parts.end();
}

// The group of this process in the hierarchy that has CPU time: version 2 has one without names.
std::string own_group(const std::string& root, bool version_2) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // number:controllers:path
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (version_2 ? controllers.empty() : contains(controllers, "cpu"))
      return line.substr(second + 1);
  }
  return "";
}

double limit_of(const std::string& directory, bool version_2) {
  double quota = 0, period = 0;
  if (version_2) {  // "max 100000" has no number at first
    std::ifstream(directory + "/cpu.max") >> quota >> period;
  } else {  // -1: none
    std::ifstream(directory + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(directory + "/cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

}  // namespace

double cpu_quota(const std::string& root) {
  double least = 0;
  std::ifstream mounts(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    // ... root of the mount, where it is, options, any number of fields, -, type, source, options
    const auto fields = split(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 6 || fields.end() - dash < 4) continue;
    const bool version_2 = dash[1] == "cgroup2";
    if (!version_2 && !(dash[1] == "cgroup" && contains(dash[3], "cpu"))) continue;
    // A container may see its own group as the root of the mount, under the name outside.
    std::string group = own_group(root, version_2);
    const std::string mounted = fields[3] == "/" ? "" : fields[3];
    const bool below = group.compare(0, mounted.size(), mounted) == 0;
    group = below ? group.substr(mounted.size()) : "";
    while (!group.empty() && group.back() == '/') group.pop_back();
    for (;;) {
      const double limit = limit_of(root + fields[4] + group, version_2);
      if (limit > 0) least = least > 0 ? std::min(least, limit) : limit;
      if (group.empty()) break;
      group.resize(group.find_last_of('/') == std::string::npos ? 0 : group.find_last_of('/'));
    }
  }
  return least;
}

}  // namespace gradplan::memory
