// tensor/core/platform/threads_wasm.cpp: the one thread of a WebAssembly module, which no signal
// reaches.
#include <emscripten/stack.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tensor/core/platform/threads.h"

namespace moonlet::platform {

StackRange stack_of_this_thread() noexcept {
  const uintptr_t lowest = emscripten_stack_get_end();
  return {lowest, emscripten_stack_get_base() - lowest};
}

size_t default_stack_size() noexcept { return stack_of_this_thread().size; }

int thread_id() noexcept { return 1; }

void at_fork(void (*)(), void (*)()) noexcept {}
void at_exit(void (*)(int code)) noexcept {}

SignalMask::SignalMask(bool) noexcept { std::memset(before_, 0, sizeof before_); }
SignalMask::~SignalMask() = default;

void wake_thread(int, void (*)() noexcept, void (*)(void*) noexcept, void*) noexcept {}
bool unblock_wake() noexcept { return false; }
void block_wake() noexcept {}

InterruptAction::InterruptAction() noexcept { std::memset(before_, 0, sizeof before_); }
void InterruptAction::set(void (*)() noexcept, bool) noexcept {}
void InterruptAction::restore() const noexcept {}

void leave(const char* message, size_t size, int code) noexcept {
  std::fwrite(message, 1, size, stderr);
  std::_Exit(code);
}

}  // namespace moonlet::platform
