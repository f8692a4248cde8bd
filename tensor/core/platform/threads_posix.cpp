// tensor/core/platform/threads_posix.cpp: threads and signals of POSIX.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "tensor/core/platform/threads.h"

namespace moonlet::platform {

#ifdef __APPLE__
StackRange stack_of_this_thread() noexcept {
  const pthread_t self = pthread_self();
  const size_t size = pthread_get_stacksize_np(self);
  return {reinterpret_cast<uintptr_t>(pthread_get_stackaddr_np(self)) - size, size};
}
#else
StackRange stack_of_this_thread() noexcept {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
  StackRange out;
  void* lowest = nullptr;
  size_t size = 0, guard = 0;
  if (pthread_attr_getstack(&attributes, &lowest, &size) == 0 &&
      pthread_attr_getguardsize(&attributes, &guard) == 0 && guard < size / 2)
    // Whether the guard's pages are part of it depends on libc's version.
    out = {reinterpret_cast<uintptr_t>(lowest) + guard, size - guard};
  pthread_attr_destroy(&attributes);
  return out;
}
#endif

size_t default_stack_size() noexcept {
  pthread_attr_t attributes;
  size_t bytes = size_t{8} << 20;
#ifdef __GLIBC__
  if (pthread_getattr_default_np(&attributes) != 0) return bytes;
#else
  if (pthread_attr_init(&attributes) != 0) return bytes;
#endif
  pthread_attr_getstacksize(&attributes, &bytes);
  pthread_attr_destroy(&attributes);
  return bytes;
}

void at_fork(void (*before)(), void (*in_child)()) noexcept {
  pthread_atfork(before, nullptr, in_child);
}

// --- signals -------------------------------------------------------------------------------------

namespace {
constexpr int kWake = SIGURG;
}

SignalMask::SignalMask(bool but_wake) noexcept {
  static_assert(sizeof(sigset_t) <= sizeof before_);
  sigset_t blocked;
  sigfillset(&blocked);
  for (const int fault : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP})
    sigdelset(&blocked, fault);
  if (but_wake) sigdelset(&blocked, kWake);
  // A thread that was asked to hear of others does so, whatever was blocked before.
  pthread_sigmask(but_wake ? SIG_SETMASK : SIG_BLOCK, &blocked,
                  reinterpret_cast<sigset_t*>(before_));
}

SignalMask::~SignalMask() {
  pthread_sigmask(SIG_SETMASK, reinterpret_cast<const sigset_t*>(before_), nullptr);
}

#ifdef __linux__
int thread_id() noexcept { return static_cast<int>(syscall(SYS_gettid)); }

namespace {
void send_wake(int thread) noexcept { syscall(SYS_tgkill, getpid(), thread, kWake); }
}  // namespace

void at_exit(void (*f)(int code)) noexcept {
  on_exit([](int code, void* f) { reinterpret_cast<void (*)(int)>(f)(code); },
          reinterpret_cast<void*>(f));
}
#else
int thread_id() noexcept { return static_cast<int>(pthread_mach_thread_np(pthread_self())); }

namespace {
void send_wake(int thread) noexcept {
  const pthread_t found = pthread_from_mach_thread_np(static_cast<mach_port_t>(thread));
  if (found != pthread_t()) pthread_kill(found, kWake);
}
void (*exit_function)(int) = nullptr;
}  // namespace

// The code is not told.
void at_exit(void (*f)(int code)) noexcept {
  exit_function = f;
  std::atexit([] { exit_function(EXIT_FAILURE); });
}
#endif

namespace {

struct sigaction before_wake {};
std::atomic<void (*)() noexcept> on_wake_there{nullptr};

void on_wake(int signal, siginfo_t* info, void* context) {
  if (void (*there)() noexcept = on_wake_there) there();
  if ((before_wake.sa_flags & SA_SIGINFO) != 0) {
    if (before_wake.sa_sigaction != nullptr) before_wake.sa_sigaction(signal, info, context);
  } else if (before_wake.sa_handler != SIG_DFL && before_wake.sa_handler != SIG_IGN) {
    before_wake.sa_handler(signal);
  }
}

// A host may have set a handler of its own since the last time.
void take_wake() noexcept {
  struct sigaction now {};
  sigaction(kWake, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_wake) return;
  before_wake = now;
  struct sigaction action {};
  action.sa_sigaction = on_wake;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(kWake, &action, nullptr);
}

bool mask_wake(int how) noexcept {
  sigset_t set, before;
  sigemptyset(&set);
  sigaddset(&set, kWake);
  return pthread_sigmask(how, &set, &before) == 0 && sigismember(&before, kWake) == 1;
}

}  // namespace

void wake_thread(int thread, void (*there)() noexcept, void (*)(void*) noexcept, void*) noexcept {
  static constinit std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  on_wake_there = there;
  take_wake();
  send_wake(thread);
}

bool unblock_wake() noexcept { return mask_wake(SIG_UNBLOCK); }
void block_wake() noexcept { mask_wake(SIG_BLOCK); }

// --- Ctrl-C --------------------------------------------------------------------------------------

namespace {

std::atomic<void (*)() noexcept> interrupt_handler{nullptr};
std::atomic<pthread_t> interrupt_thread{};

void on_interrupt(int signal) {
  const int error = errno;
  if (pthread_equal(pthread_self(), interrupt_thread) == 0)
    pthread_kill(interrupt_thread, signal);
  else if (void (*handler)() noexcept = interrupt_handler)
    handler();
  errno = error;
}

}  // namespace

InterruptAction::InterruptAction() noexcept {
  static_assert(sizeof(struct sigaction) <= sizeof before_);
  std::memset(before_, 0, sizeof before_);
}

void InterruptAction::set(void (*handler)() noexcept, bool restart) noexcept {
  interrupt_thread = pthread_self();
  interrupt_handler = handler;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = restart ? SA_RESTART : 0;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, reinterpret_cast<struct sigaction*>(before_));
}

void InterruptAction::restore() const noexcept {
  sigaction(SIGINT, reinterpret_cast<const struct sigaction*>(before_), nullptr);
}

void leave(const char* message, size_t size, int code) noexcept {
  (void)!write(STDERR_FILENO, message, size);
  _exit(code);
}

}  // namespace moonlet::platform
