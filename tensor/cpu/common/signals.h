// tensor/cpu/common/signals.h: keeps signal handlers off a thread while it runs code whose stack
// pointer does not point to the stack.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace moonlet::cpu {

// Blocks all signals but those that report a fault of the thread itself. What arrives meanwhile is
// delivered at the end, or to another thread. One within another's lifetime costs nothing.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    if (depth_++ > 0) return;
    sigset_t blocked;
    sigfillset(&blocked);
    for (int fault : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP})
      sigdelset(&blocked, fault);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~SignalsBlocked() {
    if (--depth_ == 0) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  static inline thread_local int depth_ = 0;
  sigset_t before_;
};

}  // namespace moonlet::cpu
