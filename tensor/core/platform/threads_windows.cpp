// tensor/core/platform/threads_windows.cpp: threads of Windows, which have no signals: who wants
// something of another thread lets it stand still meanwhile.
#include <windows.h>

#include <atomic>
#include <cstring>

#include "tensor/core/platform/static_mutex.h"
#include "tensor/core/platform/threads.h"

namespace moonlet::platform {

void StaticMutex::lock() noexcept { AcquireSRWLockExclusive(reinterpret_cast<PSRWLOCK>(&lock_)); }
void StaticMutex::unlock() noexcept { ReleaseSRWLockExclusive(reinterpret_cast<PSRWLOCK>(&lock_)); }

StackRange stack_of_this_thread() noexcept {
  constexpr size_t kGuard = size_t{32} << 10;  // and what the system needs to tell an overflow
  ULONG_PTR low = 0, high = 0;
  GetCurrentThreadStackLimits(&low, &high);
  return high - low > 2 * kGuard ? StackRange{low + kGuard, high - low - kGuard} : StackRange{};
}

size_t default_stack_size() noexcept {
  const auto* dos = reinterpret_cast<const IMAGE_DOS_HEADER*>(GetModuleHandleW(nullptr));
  const auto* headers =
      reinterpret_cast<const IMAGE_NT_HEADERS*>(reinterpret_cast<const char*>(dos) + dos->e_lfanew);
  return headers->OptionalHeader.SizeOfStackReserve;
}

// What ends with a thread is called by keys of winpthreads in the order in which these were made:
// the C++ library's for destructors, and libgcc's, which frees all variables of the thread. The
// latter is made when the first such variable is used, so that destructors would find those of
// others gone.
extern "C" int __cxa_thread_atexit(void (*destructor)(void*), void* object, void* library) noexcept;
namespace {
[[gnu::constructor(101)]] void make_key_of_destructors() {
  __cxa_thread_atexit([](void*) {}, nullptr, nullptr);
}
}  // namespace

int thread_id() noexcept { return static_cast<int>(GetCurrentThreadId()); }

void at_fork(void (*)(), void (*)()) noexcept {}

// ExitProcess ends all other threads before anything is torn down.
void at_exit(void (*)(int code)) noexcept {}

SignalMask::SignalMask(bool) noexcept { std::memset(before_, 0, sizeof before_); }
SignalMask::~SignalMask() = default;

namespace {

// Of threads that are let stand still: one at a time, lest two wait for each other.
constinit StaticMutex halting;

class Halted {
 public:
  explicit Halted(DWORD thread) noexcept
      : thread_(OpenThread(THREAD_SUSPEND_RESUME | THREAD_GET_CONTEXT, FALSE, thread)) {
    if (thread_ == nullptr || SuspendThread(thread_) == static_cast<DWORD>(-1)) return;
    halted_ = true;
    // To ask for its registers waits until it does stand still.
    alignas(16) CONTEXT context;
    context.ContextFlags = CONTEXT_CONTROL;
    GetThreadContext(thread_, &context);
  }
  Halted(const Halted&) = delete;
  Halted& operator=(const Halted&) = delete;
  ~Halted() {
    if (halted_) ResumeThread(thread_);
    if (thread_ != nullptr) CloseHandle(thread_);
  }
  bool is_halted() const { return halted_; }

 private:
  HANDLE thread_;
  bool halted_ = false;
};

}  // namespace

void wake_thread(int thread, void (*)() noexcept, void (*here)(void*) noexcept,
                 void* context) noexcept {
  halting.lock();
  {
    const Halted halted(static_cast<DWORD>(thread));
    if (halted.is_halted()) here(context);
  }
  halting.unlock();
}

bool unblock_wake() noexcept { return false; }
void block_wake() noexcept {}

// --- Ctrl-C --------------------------------------------------------------------------------------

namespace {

struct Action {
  void (*handler)() noexcept = nullptr;
  DWORD thread = 0;
};
constinit Action present;
constinit StaticMutex present_mutex;

BOOL WINAPI on_event(DWORD event) {
  if (event != CTRL_C_EVENT) return FALSE;
  present_mutex.lock();
  const Action action = present;
  present_mutex.unlock();
  if (action.handler == nullptr) return FALSE;  // ends the process
  halting.lock();
  {
    const Halted halted(action.thread);
    action.handler();
  }
  halting.unlock();
  return TRUE;
}

Action exchange_action(const Action& next) noexcept {
  static const bool listens = SetConsoleCtrlHandler(on_event, TRUE) != 0;
  static_cast<void>(listens);
  present_mutex.lock();
  const Action before = present;
  present = next;
  present_mutex.unlock();
  return before;
}

}  // namespace

InterruptAction::InterruptAction() noexcept {
  static_assert(sizeof(Action) <= sizeof before_);
  std::memset(before_, 0, sizeof before_);
}

// A read of the console that waits ends by itself, with nothing read.
void InterruptAction::set(void (*handler)() noexcept, bool) noexcept {
  const Action before = exchange_action({handler, GetCurrentThreadId()});
  std::memcpy(before_, &before, sizeof before);
}

void InterruptAction::restore() const noexcept {
  Action before;
  std::memcpy(&before, before_, sizeof before);
  exchange_action(before);
}

// Other threads may stand still, with locks that an orderly end would wait for.
void leave(const char* message, size_t size, int code) noexcept {
  DWORD written = 0;
  WriteFile(GetStdHandle(STD_ERROR_HANDLE), message, static_cast<DWORD>(size), &written, nullptr);
  TerminateProcess(GetCurrentProcess(), static_cast<UINT>(code));
  for (;;) Sleep(INFINITE);
}

}  // namespace moonlet::platform
