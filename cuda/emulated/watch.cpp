// cuda/emulated/watch.cpp: the functions that code compiled with -fsanitize=thread calls at each
// access to memory, answered by the rules of CUDA in place of those of threads.
#include "watch.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "grid.h"
#include "sectors.h"
#include "shadow.h"

namespace moonlet::emulated {

namespace {

constexpr unsigned kSampledBlocks = 4;  // of a launch, for the count of sectors

struct Range {
  std::uintptr_t start = 0, end = 0;
  bool holds(std::uintptr_t address) const { return address - start < end - start; }
};

Range range_of(const void* start, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  return {address, address + bytes};
}

/// The kernel that runs, and what is known of memory.
struct Watch {
  std::string kernel;
  std::uint32_t launch = 0, block = 0, epoch = 0;
  unsigned block_number = 0;  // in the order in which they run
  std::array<std::uint32_t, kMaxThreads / kWarpSize> warp_epochs{};
  Range stack, dynamic, statics, context;
  bool fenced = false;            // by the block that runs
  std::set<std::uint32_t> known;  // blocks that came before it
  std::map<std::uintptr_t, std::set<std::uint32_t>>
      met;  // by atomic: blocks, and those before them
  Shadow shadow;
  SectorCounts sectors;
  const char* sectors_file = std::getenv("MOONLET_EMULATED_SECTORS");
};

void close_block(Watch& w) {
  if (w.sectors_file && w.launch > 0) w.sectors.close(w.kernel);
}

/// Made on first use and never destroyed; its counts are written when the process ends.
Watch& watch() {
  static Watch* const made = [] {
    static auto* const w = new Watch;
    if (w->sectors_file)
      std::atexit([] {
        close_block(*w);
        if (std::FILE* const file = std::fopen(w->sectors_file, "a")) {
          std::fputs(w->sectors.report().c_str(), file);
          std::fclose(file);
        }
      });
    return w;
  }();
  return *made;
}

/// This OS thread's copy of the thread-local variables of the library that holds `code`: the
/// static __shared__ memory of its kernels.
Range thread_locals(const void* code) {
  struct Search {
    std::uintptr_t code;
    Range found;
  } search{reinterpret_cast<std::uintptr_t>(code), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        Range locals;
        bool here = false;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& header = info->dlpi_phdr[i];
          const Range segment{info->dlpi_addr + header.p_vaddr,
                              info->dlpi_addr + header.p_vaddr + header.p_memsz};
          if (header.p_type == PT_LOAD && segment.holds(wanted.code)) here = true;
          if (header.p_type == PT_TLS && info->dlpi_tls_data)
            locals = range_of(info->dlpi_tls_data, header.p_memsz);
        }
        if (here) wanted.found = locals;
        return here ? 1 : 0;
      },
      &search);
  return search.found;
}

/// The command that names the line of a position in the code.
std::string line_of(const void* code) {
  Dl_info info{};
  if (!dladdr(code, &info) || !info.dli_fname) return "unknown";
  char offset[32];
  std::snprintf(offset, sizeof offset, "%#zx",
                static_cast<std::size_t>(static_cast<const char*>(code) -
                                         static_cast<const char*>(info.dli_fbase) - 1));
  return std::string("addr2line -Cfi -e ") + info.dli_fname + " " + offset;
}

[[noreturn]] void report(const Watch& w, const Access& earlier, bool wrote, bool writes,
                         const void* code) {
  const std::string text =
      "a race in " + w.kernel + ": thread " + std::to_string(context.thread) + " of block " +
      std::to_string(w.block) + (writes ? " writes" : " reads") + " what thread " +
      std::to_string(earlier.thread) + " of block " + std::to_string(earlier.block) +
      (wrote ? " wrote" : " read") + ", and no barrier is between them (" + line_of(code) + ")";
  std::fprintf(stderr, "moonlet: %s\n", text.c_str());
  fail_launch(text.c_str());
}

/// A block that has fenced its writes and then changes an atomic comes before the blocks that
/// change the same one later.
void meet(const volatile void* atomic) {
  if (!context.active) return;
  Watch& w = watch();
  std::set<std::uint32_t>& there = w.met[reinterpret_cast<std::uintptr_t>(atomic)];
  w.known.insert(there.begin(), there.end());
  w.known.erase(w.block);
  if (!w.fenced) return;
  there.insert(w.known.begin(), w.known.end());
  there.insert(w.block);
}

void look(std::uintptr_t address, std::size_t bytes, bool writes, const void* code) {
  if (!context.active) return;
  Watch& w = watch();
  if (w.stack.holds(address) || w.context.holds(address)) return;
  if (w.statics.end == 0) w.statics = thread_locals(code);
  const bool shared = w.dynamic.holds(address) || w.statics.holds(address);
  if (!shared && w.sectors_file && w.block_number < kSampledBlocks)
    w.sectors.add(code, context.thread, address, static_cast<unsigned>(bytes));
  Access now{w.launch, w.block, w.epoch, w.warp_epochs[context.thread / kWarpSize],
             static_cast<std::uint16_t>(context.thread)};
  const std::uintptr_t end = address + bytes;
  while (address < end) {
    const std::uintptr_t stop = std::min(end, (address | 3) + 1);
    now.bytes = static_cast<std::uint8_t>(((1u << (stop - address)) - 1) << (address & 3));
    Cell& cell = w.shadow.at(address);
    // Each block has shared memory of its own.
    if (shared && cell.write.block != w.block) cell.write = {};
    if (shared && cell.read.block != w.block) cell.read = {};
    if (w.known.count(cell.write.block)) cell.write = {};
    if (w.known.count(cell.read.block) && cell.read.party != Party::kGrid) cell.read = {};
    if (const Access* earlier = enter(cell, now, writes))
      report(w, *earlier, earlier == &cell.write, writes, code);
    address = stop;
  }
}

}  // namespace

void watch_launch(const char* name) {
  Watch& w = watch();
  close_block(w);
  w.kernel = name;
  ++w.launch;
  w.met.clear();
  w.block_number = ~0u;
  w.context = range_of(&context, sizeof context);
  w.statics = {};
}

void watch_block(SharedMemory dynamic) {
  Watch& w = watch();
  close_block(w);
  ++w.block_number;
  w.block = context.block_idx.x +
            context.grid_dim.x * (context.block_idx.y + context.grid_dim.y * context.block_idx.z);
  w.dynamic = range_of(dynamic.start, dynamic.bytes);
  w.epoch = 0;
  w.fenced = false;
  w.known.clear();
  w.warp_epochs.fill(0);
}

void fence() {
  if (context.active) watch().fenced = true;
}

void watch_stack(const void* bottom, std::size_t bytes) { watch().stack = range_of(bottom, bytes); }
void watch_barrier() { ++watch().epoch; }
void watch_warp_barrier(unsigned warp) { ++watch().warp_epochs[warp]; }

}  // namespace moonlet::emulated

// What the compiler calls
// --------------------------------------------------------------------------

using moonlet::emulated::look;
using moonlet::emulated::meet;

#define MOONLET_HOOK(name, bytes, writes)                                                        \
  extern "C" void name(void* address) {                                                          \
    look(reinterpret_cast<std::uintptr_t>(address), bytes, writes, __builtin_return_address(0)); \
  }
#define MOONLET_HOOKS(bytes)                               \
  MOONLET_HOOK(__tsan_read##bytes, bytes, false)           \
  MOONLET_HOOK(__tsan_write##bytes, bytes, true)           \
  MOONLET_HOOK(__tsan_unaligned_read##bytes, bytes, false) \
  MOONLET_HOOK(__tsan_unaligned_write##bytes, bytes, true)
MOONLET_HOOKS(1)
MOONLET_HOOKS(2)
MOONLET_HOOKS(4)
MOONLET_HOOKS(8)
MOONLET_HOOKS(16)
#undef MOONLET_HOOKS
#undef MOONLET_HOOK

extern "C" {

void __tsan_read_range(void* address, std::size_t bytes) {
  look(reinterpret_cast<std::uintptr_t>(address), bytes, false, __builtin_return_address(0));
}
void __tsan_write_range(void* address, std::size_t bytes) {
  look(reinterpret_cast<std::uintptr_t>(address), bytes, true, __builtin_return_address(0));
}
void __tsan_init() {}
void __tsan_vptr_read(void*) {}
void __tsan_vptr_update(void*, void*) {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_atomic_thread_fence(int) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  moonlet::emulated::fence();
}
void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

// Atomics race with nothing, and order blocks that fence.
#define MOONLET_ATOMIC(bits)                                                                     \
  using Atomic##bits = std::uint##bits##_t;                                                      \
  Atomic##bits __tsan_atomic##bits##_load(const volatile Atomic##bits* p, int) {                 \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                 \
  }                                                                                              \
  void __tsan_atomic##bits##_store(volatile Atomic##bits* p, Atomic##bits v, int) {              \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                    \
  }                                                                                              \
  Atomic##bits __tsan_atomic##bits##_exchange(volatile Atomic##bits* p, Atomic##bits v, int) {   \
    meet(p);                                                                                     \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                          \
  }                                                                                              \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile Atomic##bits* p, Atomic##bits* old, \
                                                    Atomic##bits v, int, int) {                  \
    meet(p);                                                                                     \
    return __atomic_compare_exchange_n(p, old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);    \
  }                                                                                              \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile Atomic##bits* p, Atomic##bits* old,   \
                                                  Atomic##bits v, int, int) {                    \
    meet(p);                                                                                     \
    return __atomic_compare_exchange_n(p, old, v, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);     \
  }                                                                                              \
  MOONLET_ATOMIC_FETCH(bits, add)                                                                \
  MOONLET_ATOMIC_FETCH(bits, sub)                                                                \
  MOONLET_ATOMIC_FETCH(bits, and)                                                                \
  MOONLET_ATOMIC_FETCH(bits, or)                                                                 \
  MOONLET_ATOMIC_FETCH(bits, xor)
#define MOONLET_ATOMIC_FETCH(bits, what)                                                           \
  Atomic##bits __tsan_atomic##bits##_fetch_##what(volatile Atomic##bits* p, Atomic##bits v, int) { \
    meet(p);                                                                                       \
    return __atomic_fetch_##what(p, v, __ATOMIC_SEQ_CST);                                          \
  }
MOONLET_ATOMIC(8)
MOONLET_ATOMIC(16)
MOONLET_ATOMIC(32)
MOONLET_ATOMIC(64)
#undef MOONLET_ATOMIC
#undef MOONLET_ATOMIC_FETCH

}  // extern "C"
