// The threads of PyTorch's OpenMP runtime, where there is one.
//
// They go on spinning for milliseconds after an operator of PyTorch, on the processors that threads
// of our own would need: a call that follows one takes 1.3 to 1.8 times as long with those. So it
// is served by PyTorch's threads, which are awake already. But an OpenMP region waits for all of
// its threads, whether there is anything left to do for them or not, and on a processor that has
// other work one may not come for milliseconds: then our own threads serve for a while.
#pragma once

namespace gradplan::memory {

// Looks for the runtime; PyTorch has been imported. False: there is none that is known.
bool share_openmp();

// Calls work(context) on this thread and on up to `helpers` others, as run_together does. False,
// and nothing is called, if that is not for OpenMP, now.
bool run_in_openmp(int helpers, void (*work)(void*), void* context);

}  // namespace gradplan::memory
