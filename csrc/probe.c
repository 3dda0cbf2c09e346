/* Which of our builds can this CPU run? Built for the oldest CPU of the family. */
#include <string.h>

int gradplan_cpu_supports(const char* isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (strcmp(isa, "x86-64-v2") == 0) return __builtin_cpu_supports("x86-64-v2") != 0;
  if (strcmp(isa, "x86-64-v3") == 0) return __builtin_cpu_supports("x86-64-v3") != 0;
  if (strcmp(isa, "x86-64-v4") == 0) return __builtin_cpu_supports("x86-64-v4") != 0;
#elif defined(__aarch64__)
  if (strcmp(isa, "aarch64") == 0) return 1;
#endif
  return 0;
}
