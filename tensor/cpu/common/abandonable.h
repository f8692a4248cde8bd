// tensor/cpu/common/abandonable.h: runs what cannot be stopped, as a call of LAPACK that takes
// seconds, on a thread of its own, which is left alone when the interpreter is asked to stop.
#pragma once

#include <functional>

#include "tensor/cpu/common/thresholds.h"

namespace moonlet::cpu {

inline constexpr double kLongWork = thresholds::kLongWork;

// Runs `work` and waits for its end; throws what it throws. When a stop is requested this throws
// Interrupted at once, and `work` goes on until it ends or looks at its own stop flag, which is
// then set. So it must own all that it uses: memory by counted references, none that anybody else
// sees. It computes with as many threads as the caller would, and what it allocates is charged to
// the same interpreter. At most a few are left alone in a process at once; another one waits for
// their ends, and so does the end of the process.
void run_abandonable(std::function<void()> work);

// For the main function of an executable: its process does not wait at its end, where all that is
// left to do is to write out what the C library holds.
void leave_abandoned_at_exit() noexcept;

}  // namespace moonlet::cpu
