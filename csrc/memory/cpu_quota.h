// How much CPU time a container may use.
#pragma once

#include <string>

namespace gradplan::memory {

// CPUs that the control groups of this process allow on average, of version 1 and 2, their parents
// included; 0 if there is no limit. `root` is where the file system begins.
double cpu_quota(const std::string& root);

}  // namespace gradplan::memory
