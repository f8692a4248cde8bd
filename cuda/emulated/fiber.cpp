// cuda/emulated/fiber.cpp: mapping stacks and switching between them.
#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "watch.h"

#if defined(__SANITIZE_ADDRESS__)
#define MOONLET_FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MOONLET_FIBER_ASAN 1
#endif
#endif

#ifdef MOONLET_FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
asm(R"(
.text
.globl moonlet_emulated_switch
.hidden moonlet_emulated_switch
.type moonlet_emulated_switch, @function
moonlet_emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size moonlet_emulated_switch, .-moonlet_emulated_switch
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl moonlet_emulated_switch
.hidden moonlet_emulated_switch
.type moonlet_emulated_switch, %function
moonlet_emulated_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size moonlet_emulated_switch, .-moonlet_emulated_switch
)");
#endif

#ifndef MOONLET_FIBER_UCONTEXT
extern "C" void moonlet_emulated_switch(void** from, void* to);
#endif

namespace moonlet::emulated {
namespace {

#ifdef MOONLET_FIBER_ASAN
constexpr std::size_t kStackBytes = std::size_t{256} << 10;  // redzones make frames larger

thread_local Fiber* previous = nullptr;
#else
constexpr std::size_t kStackBytes = std::size_t{72} << 10;
#endif

// Stacks that all start at one offset in their pages would fight for the same few cache sets.
constexpr std::size_t kInsetStep = 192, kInsets = 40;
thread_local std::size_t next_inset = 0;

}  // namespace

Fiber::~Fiber() {
  if (mapping) munmap(mapping, mapping_bytes);
}

bool map_stack(Fiber& fiber) {
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t bytes = kStackBytes + page;
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return false;
  if (mprotect(base, page, PROT_NONE) != 0) {
    munmap(base, bytes);
    return false;
  }
  fiber.mapping = base;
  fiber.mapping_bytes = bytes;
  fiber.stack_bottom = static_cast<char*>(base) + page;
  fiber.stack_bytes = kStackBytes;
  fiber.inset = next_inset++ % kInsets * kInsetStep;
  return true;
}

void reset(Fiber& fiber, void (*entry)()) {
  char* bottom = static_cast<char*>(fiber.mapping) + (fiber.mapping_bytes - fiber.stack_bytes);
#ifdef MOONLET_FIBER_ASAN
  __asan_unpoison_memory_region(bottom, fiber.stack_bytes);
#endif
  fiber.fake_stack = nullptr;
#if defined(MOONLET_FIBER_UCONTEXT)
  getcontext(&fiber.saved);
  fiber.saved.uc_stack.ss_sp = bottom;
  fiber.saved.uc_stack.ss_size = fiber.stack_bytes;
  fiber.saved.uc_link = nullptr;
  makecontext(&fiber.saved, entry, 0);
#elif defined(__x86_64__)
  // Six registers, the address that `ret` takes, and a null return address above it; the entry then
  // sees the stack as after a call.
  auto* top = reinterpret_cast<std::uintptr_t*>(bottom + fiber.stack_bytes - fiber.inset) - 8;
  for (int i = 0; i < 8; ++i) top[i] = 0;
  top[6] = reinterpret_cast<std::uintptr_t>(entry);
  fiber.stack_pointer = top;
#else
  auto* top = reinterpret_cast<std::uintptr_t*>(bottom + fiber.stack_bytes - fiber.inset) - 20;
  for (int i = 0; i < 20; ++i) top[i] = 0;
  top[11] = reinterpret_cast<std::uintptr_t>(entry);
  fiber.stack_pointer = top;
#endif
}

void switch_fiber(Fiber& from, Fiber& to) {
  watch_stack(to.mapping, to.mapping_bytes);
#ifdef MOONLET_FIBER_ASAN
  previous = &from;
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack_bottom, to.stack_bytes);
#endif
#ifdef MOONLET_FIBER_UCONTEXT
  swapcontext(&from.saved, &to.saved);
#else
  moonlet_emulated_switch(&from.stack_pointer, to.stack_pointer);
#endif
  fiber_arrived(from);
}

void fiber_arrived([[maybe_unused]] Fiber& self) {
#ifdef MOONLET_FIBER_ASAN
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(self.fake_stack, &bottom, &bytes);
  if (!previous->mapping) {  // the OS thread's own stack, whose bounds only the sanitizer knows
    previous->stack_bottom = bottom;
    previous->stack_bytes = bytes;
  }
#endif
}

}  // namespace moonlet::emulated
