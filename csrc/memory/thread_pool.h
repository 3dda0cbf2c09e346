// The threads that kernels share.
#pragma once

#include <string>

namespace gradplan::memory {

// Calls work(context) on this thread and meanwhile on up to `helpers` threads of the pool, as many
// as come while there is work: `work` takes pieces until there are none and must not throw. Returns
// when all that came have finished; one that is late, because its core is busy, is not waited for.
// Any thread may call, inside of `work` as well. False: the process was forked meanwhile by this
// very thread (a signal handler may), and what the helpers had taken is lost in the child.
bool run_together(int helpers, void (*work)(void*), void* context);

// Processors that this process may use: those that it is bound to, and no more than the CPU time
// that its container is allowed. `root` is where the file system begins, if somebody says.
int processors();
int processors(const std::string& root);

// Calls f(context) on a new thread with a stack that suffices for any kernel, and waits for it.
// False: there is no room for one. f must not throw.
bool run_on_new_stack(void (*f)(void*), void* context);

// Whether this thread's stack, which others have made, has room for any kernel.
bool has_room_on_stack();

}  // namespace gradplan::memory
