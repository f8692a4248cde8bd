// cuda/emulated/grid.cpp: runs grids. The threads of a block run one after another on one fiber; a
// thread that has to wait keeps that fiber and the next thread gets another from the OS thread's
// pool.
#include "grid.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include "fiber.h"
#include "queue.h"
#include "state.h"
#include "warpgroup.h"
#include "watch.h"

namespace moonlet::emulated {

constinit thread_local Context context;

namespace {

#ifdef __SANITIZE_ADDRESS__
void hide(void* data, std::size_t bytes) { ASAN_POISON_MEMORY_REGION(data, bytes); }
void show(void* data, std::size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(data, bytes); }
#else
void hide(void*, std::size_t) {}
void show(void*, std::size_t) {}
#endif

constexpr std::uint64_t kParallelThreads = 4096;  // smaller grids do not pay for waking a team
constexpr int kMaxTeam = 16;                      // each member may map a thousand stacks
constexpr std::uint64_t kMaxGrid = 2147483647;

/// The block an OS thread runs: its fibers, and for every thread that waits, why and with what.
class Block {
 public:
  /// Runs the threads of the block that `context` describes; false when the kernel failed.
  bool run(const void* body, ThreadLoop loop);
  Votes barrier(bool vote);
  std::uint64_t collect(Wait kind, unsigned mask, std::uint64_t value, unsigned source);
  void join_warpgroup();
  [[noreturn]] void fail(const char* why);

  ~Block() { show(shared_.data(), shared_.size()); }
  const std::string& failure() const { return failure_; }
  void* shared(std::size_t bytes);

 private:
  static void fiber_main();
  [[noreturn]] void stop();
  Fiber* free_fiber();
  Fiber* next_fiber();
  void wait(Wait kind);
  void wake(unsigned thread);
  bool settle();
  bool settle_warp(unsigned base);
  void open_barrier();
  bool finish(unsigned base, Wait kind, std::uint32_t group);
  std::uint32_t waiting(unsigned base, Wait kind, std::uint32_t mask) const;
  void drop_all();

  Fiber host_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_;
  Fiber* current_ = nullptr;
  const void* body_ = nullptr;
  ThreadLoop loop_ = nullptr;
  std::array<Wait, kMaxThreads> wait_{};
  std::array<Fiber*, kMaxThreads> fiber_{};
  std::array<std::uint64_t, kMaxThreads> value_{}, result_{};
  std::array<std::uint32_t, kMaxThreads> mask_{};
  std::array<std::uint8_t, kMaxThreads> source_{};
  std::array<std::uint16_t, kMaxThreads> ready_{};
  unsigned ready_first_ = 0, ready_count_ = 0;
  unsigned waiting_ = 0, at_barrier_ = 0;
  bool failed_ = false;
  std::string failure_;
  std::vector<unsigned char> shared_;
};

thread_local std::unique_ptr<Block> the_block;

Block& block() {
  if (!the_block) the_block = std::make_unique<Block>();
  return *the_block;
}

void Block::fiber_main() {
  Block& b = *the_block;
  Fiber& self = *b.current_;
  fiber_arrived(self);
  for (;;) {
    const char* thrown = nullptr;
    try {
      b.loop_(b.body_);
    } catch (...) {
      thrown = "device code threw a C++ exception";
    }
    if (thrown) b.fail(thrown);
    b.free_.push_back(&self);
    b.current_ = b.next_fiber();
    if (b.current_ != &self) switch_fiber(self, *b.current_);
  }
}

/// A fiber that waits in fiber_main, or null when there is no memory for one.
Fiber* Block::free_fiber() {
  if (free_.empty()) try {
      auto fiber = std::make_unique<Fiber>();
      if (!map_stack(*fiber)) return nullptr;
      reset(*fiber, fiber_main);
      free_.reserve(fibers_.size() + 1);  // so that giving a fiber back never allocates
      fibers_.push_back(std::move(fiber));
      free_.push_back(fibers_.back().get());
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  Fiber* fiber = free_.back();
  free_.pop_back();
  return fiber;
}

/// What to run next: threads that have not started, then those that may go on, then the host.
Fiber* Block::next_fiber() {
  if (context.next_thread < context.thread_count) {
    if (Fiber* fiber = free_fiber()) return fiber;
    failed_ = true;
    failure_ = "no memory for the stacks of the block's threads";
    return &host_;
  }
  if (ready_count_ == 0) return &host_;
  const unsigned thread = ready_[ready_first_];
  ready_first_ = (ready_first_ + 1) % kMaxThreads;
  --ready_count_;
  set_thread(thread);
  return fiber_[thread];
}

bool Block::run(const void* body, ThreadLoop loop) {
  body_ = body;
  loop_ = loop;
  failed_ = false;
  failure_.clear();
  for (;;) {
    Fiber* next = next_fiber();
    if (next != &host_) {
      current_ = next;
      switch_fiber(host_, *next);
    } else if (!failed_ && waiting_ == 0) {
      if (!drop_products()) return true;
      failed_ = true;
      failure_ = "wgmma: a thread ended before wgmma.wait_group";
    } else if (!failed_ && !settle()) {
      failed_ = true;
      if (failure_.empty()) failure_ = "deadlock: threads wait for others that never arrive";
    }
    if (failed_) {
      drop_products();
      drop_all();
      return false;
    }
  }
}

void Block::fail(const char* why) {
  failure_ = why;
  stop();
}

void Block::stop() {
  failed_ = true;
  Fiber& self = *current_;
  current_ = &host_;
  switch_fiber(self, host_);
  std::abort();  // a dropped fiber is never resumed
}

void Block::drop_all() {
  free_.clear();
  for (auto& fiber : fibers_) {
    reset(*fiber, fiber_main);
    free_.push_back(fiber.get());
  }
  wait_.fill(Wait::kNothing);
  ready_count_ = waiting_ = at_barrier_ = 0;
}

void Block::wait(Wait kind) {
  const unsigned thread = context.thread;
  Fiber& self = *current_;
  wait_[thread] = kind;
  fiber_[thread] = &self;
  ++waiting_;
  current_ = next_fiber();
  if (current_ != &self) switch_fiber(self, *current_);
}

void Block::wake(unsigned thread) {
  wait_[thread] = Wait::kNothing;
  --waiting_;
  ready_[(ready_first_ + ready_count_++) % kMaxThreads] = static_cast<std::uint16_t>(thread);
}

Votes Block::barrier(bool vote) {
  const unsigned thread = context.thread;
  value_[thread] = vote;
  ++at_barrier_;
  if (at_barrier_ == context.thread_count) {
    wait_[thread] = Wait::kBarrier;
    ++waiting_;
    fiber_[thread] = current_;
    open_barrier();
    // The caller was woken with the rest; it takes its turn among them.
    Fiber& self = *current_;
    current_ = next_fiber();
    if (current_ != &self) switch_fiber(self, *current_);
  } else {
    wait(Wait::kBarrier);
  }
  const std::uint64_t result = result_[thread];
  return {static_cast<std::uint32_t>(result >> 32), static_cast<std::uint32_t>(result)};
}

void Block::open_barrier() {
  std::uint64_t present = 0, yes = 0;
  for (unsigned t = 0; t < context.thread_count; ++t) {
    if (wait_[t] != Wait::kBarrier) continue;
    ++present;
    yes += value_[t];
  }
  for (unsigned t = 0; t < context.thread_count; ++t) {
    if (wait_[t] != Wait::kBarrier) continue;
    result_[t] = present << 32 | yes;
    wake(t);
  }
  at_barrier_ = 0;
  watch_barrier();
}

/// The lanes of the warp at `base` that wait with this kind and mask, as bits.
std::uint32_t Block::waiting(unsigned base, Wait kind, std::uint32_t mask) const {
  const unsigned lanes = std::min(kWarpSize, context.thread_count - base);
  std::uint32_t found = 0;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const unsigned t = base + lane;
    if (wait_[t] == kind && mask_[t] == mask) found |= 1u << lane;
  }
  return found;
}

std::uint64_t Block::collect(Wait kind, unsigned mask, std::uint64_t value, unsigned source) {
  const unsigned thread = context.thread;
  const unsigned lane = thread % kWarpSize, base = thread - lane;
  if (!(mask >> lane & 1)) fail("a warp function's mask leaves out the lane that calls it");
  value_[thread] = value;
  mask_[thread] = mask;
  source_[thread] = static_cast<std::uint8_t>(source);
  const std::uint32_t group = waiting(base, kind, mask) | 1u << lane;
  if (group != mask) {
    wait(kind);
    return result_[thread];
  }
  if (!finish(base, kind, group)) stop();
  return result_[thread];
}

void Block::join_warpgroup() {
  const unsigned base = context.thread / kWarpgroupSize * kWarpgroupSize;
  unsigned others = 0;
  for (unsigned t = base; t < base + kWarpgroupSize; ++t) others += wait_[t] == Wait::kWarpgroup;
  if (others + 1 < kWarpgroupSize) return wait(Wait::kWarpgroup);
  for (unsigned t = base; t < base + kWarpgroupSize; ++t)
    if (t != context.thread) wake(t);
}

/// Gives every lane of `group` its result and wakes those that wait.
bool Block::finish(unsigned base, Wait kind, std::uint32_t group) {
  std::uint32_t yes = 0;
  if (kind == Wait::kWarp) watch_warp_barrier(base / kWarpSize);
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    if (group >> lane & 1 && value_[base + lane] & 1) yes |= 1u << lane;
  }
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    if (!(group >> lane & 1)) continue;
    const unsigned t = base + lane;
    if (kind == Wait::kShuffle) {
      if (!(group >> source_[t] & 1)) {
        failure_ = "a shuffle reads a lane that has exited or is not in its mask";
        return false;
      }
      result_[t] = value_[base + source_[t]];
    } else {
      result_[t] = std::uint64_t{group} << 32 | yes;
    }
  }
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    if (group >> lane & 1 && wait_[base + lane] == kind) wake(base + lane);
  }
  return true;
}

/// Called when nothing can run: every thread waits or has exited, so exited ones stop counting.
/// Wakes what can go on; false when nothing can.
bool Block::settle() {
  if (at_barrier_ == waiting_) {
    open_barrier();
    return true;
  }
  for (unsigned base = 0; base < context.thread_count; base += kWarpSize) {
    if (!settle_warp(base)) return false;
  }
  if (ready_count_ == 0 && std::count(wait_.begin(), wait_.end(), Wait::kWarpgroup) > 0)
    failure_ = "wgmma: not all threads of a warpgroup take part";
  return ready_count_ > 0;
}

bool Block::settle_warp(unsigned base) {
  const unsigned lanes = std::min(kWarpSize, context.thread_count - base);
  std::uint32_t blocked = 0;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (wait_[base + lane] != Wait::kNothing) blocked |= 1u << lane;
  }
  for (unsigned lane = 0; lane < lanes; ++lane) {
    const unsigned t = base + lane;
    const Wait kind = wait_[t];
    if (kind == Wait::kNothing || kind == Wait::kBarrier || kind == Wait::kWarpgroup) continue;
    const std::uint32_t group = waiting(base, kind, mask_[t]);
    if (group == (mask_[t] & blocked)) {
      if (!finish(base, kind, group)) return false;
      return true;  // the woken lanes count again, so other groups wait for the next round
    }
  }
  return true;
}

/// AddressSanitizer sees what is touched behind the bytes that a launch asks for.
void* Block::shared(std::size_t bytes) {
  constexpr std::size_t kAlign = 128;
  show(shared_.data(), shared_.size());
  if (shared_.size() < bytes + kAlign) shared_.resize(bytes + kAlign);
  auto address = reinterpret_cast<std::uintptr_t>(shared_.data());
  auto* start = reinterpret_cast<unsigned char*>((address + kAlign - 1) / kAlign * kAlign);
  hide(start + bytes, static_cast<std::size_t>(shared_.data() + shared_.size() - start) - bytes);
  return start;
}

/// An order in which `count` things are taken: the first, and the way from one to the next, which
/// has no factor in common with the count.
struct Order {
  std::uint64_t first = 0, step = 1;

  std::uint64_t at(std::uint64_t i, std::uint64_t count) const {
    return static_cast<std::uint64_t>((first + static_cast<unsigned __int128>(i) * step) % count);
  }
};

/// What MOONLET_EMULATED_ORDER says.
struct Orders {
  bool reversed = false, random = false;
  std::uint64_t seed = 0;

  Order of(std::uint64_t count, std::uint64_t launch) const {
    if (reversed && count > 1) return {count - 1, count - 1};
    if (!random || count < 2) return {};
    std::uint64_t bits = seed + launch * 0x9e3779b97f4a7c15u;
    const auto draw = [&] {  // a step of SplitMix64
      bits += 0x9e3779b97f4a7c15u;
      std::uint64_t z = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
      z = (z ^ z >> 27) * 0x94d049bb133111ebu;
      return z ^ z >> 31;
    };
    const std::uint64_t first = draw() % count;
    std::uint64_t step = 1 + draw() % (count - 1);
    while (std::gcd(step, count) != 1) step = 1 + step % (count - 1);
    return {first, step};
  }
};

Orders read_orders() {
  const char* text = std::getenv("MOONLET_EMULATED_ORDER");
  Orders out;
  if (!text || !*text) return out;
  out.reversed = std::strcmp(text, "reverse") == 0;
  out.random = std::strncmp(text, "random:", 7) == 0;
  if (out.random) out.seed = std::strtoull(text + 7, nullptr, 10);
  if (!out.reversed && !out.random) {
    std::fprintf(stderr, "MOONLET_EMULATED_ORDER is reverse or random:SEED, not '%s'\n", text);
    std::abort();
  }
  return out;
}

const Orders& orders() {
  static const Orders read = read_orders();
  return read;
}

/// One launch, as the team that runs it sees it.
struct Grid {
  const char* name;
  dim3 grid, block;
  std::size_t shared_bytes;
  const void* body;
  ThreadLoop loop;
  std::uint64_t launch;  // its number, for random orders
  std::uint64_t blocks;
  std::atomic<std::uint64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::string failure;
};

void run_block(Grid& g, Block& block, std::uint64_t index) {
  context.block_idx.x = static_cast<unsigned>(index % g.grid.x);
  context.block_idx.y = static_cast<unsigned>(index / g.grid.x % g.grid.y);
  context.block_idx.z = static_cast<unsigned>(index / g.grid.x / g.grid.y);
  context.thread_idx = {0, 0, 0};
  context.next_thread = 0;
  const Order threads = orders().of(context.thread_count, g.launch + index);
  context.start = static_cast<unsigned>(threads.first);
  context.step = static_cast<unsigned>(threads.step);
  // All bits set reads as NaN, so code that counts on zeroed shared memory is seen.
  if (g.shared_bytes) std::memset(context.dynamic_shared, 0xff, g.shared_bytes);
  watch_block({context.dynamic_shared, g.shared_bytes});
  if (block.run(g.body, g.loop)) return;
  const std::lock_guard<std::mutex> lock(g.mutex);
  if (!g.failed.exchange(true)) g.failure = block.failure();
}

void run_share(Grid& g, std::uint64_t chunk) {
  Block& mine = block();
  context.grid_dim = g.grid;
  context.block_dim = g.block;
  context.thread_count = g.block.x * g.block.y * g.block.z;
  context.dynamic_shared = g.shared_bytes ? mine.shared(g.shared_bytes) : nullptr;
  context.active = true;
  const Order order = orders().of(g.blocks, g.launch);
  for (;;) {
    const std::uint64_t first = g.next.fetch_add(chunk);
    if (first >= g.blocks) break;
    const std::uint64_t last = std::min(first + chunk, g.blocks);
    for (std::uint64_t i = first; i < last && !g.failed.load(std::memory_order_relaxed); ++i) {
      run_block(g, mine, order.at(i, g.blocks));
    }
    if (g.failed) break;
  }
  context.active = false;
}

/// run_share for a member of the team: no exception may leave it.
void run_member(Grid& g, std::uint64_t chunk) {
  try {
    run_share(g, chunk);
  } catch (const std::exception& e) {
    context.active = false;
    const std::lock_guard<std::mutex> lock(g.mutex);
    if (!g.failed.exchange(true)) g.failure = e.what();
  }
}

bool sizes_fit(const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return false;
  if (grid.x > kMaxGrid || grid.y > 65535 || grid.z > 65535) return false;
  if (block.x == 0 || block.y == 0 || block.z == 0) return false;
  if (block.x > kMaxThreads || block.y > kMaxThreads || block.z > 64) return false;
  if (std::uint64_t{block.x} * block.y * block.z > kMaxThreads) return false;
  if (shared_bytes <= kDefaultShared) return true;
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  const auto found = s.shared_limits.find(kernel);
  return found != s.shared_limits.end() && shared_bytes <= found->second;
}

}  // namespace

Votes barrier(bool vote) { return the_block->barrier(vote); }

std::uint64_t exchange(unsigned mask, std::uint64_t value, unsigned source) {
  return the_block->collect(Wait::kShuffle, mask, value, source);
}

Votes vote(unsigned mask, bool yes) {
  const std::uint64_t result = the_block->collect(Wait::kVote, mask, yes, 0);
  return {static_cast<std::uint32_t>(result >> 32), static_cast<std::uint32_t>(result)};
}

void sync_warp(unsigned mask) { the_block->collect(Wait::kWarp, mask, 0, 0); }

void sync_warpgroup() { the_block->join_warpgroup(); }

void fail_launch(const char* why) { the_block->fail(why); }

std::string failure_text() {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  const auto device = static_cast<std::size_t>(current_device());
  return device < s.devices.size() ? s.devices[device].failure : std::string();
}

namespace {

/// Runs every block now.
void run_grid(Grid& g) {
  const std::uint64_t threads = g.blocks * (g.block.x * g.block.y * g.block.z);
  int team = omp_in_parallel() ? 1 : std::min(omp_get_max_threads(), kMaxTeam);
  if (threads < kParallelThreads || kWatched) team = 1;
  team = static_cast<int>(std::min<std::uint64_t>(static_cast<unsigned>(team), g.blocks));
  static std::mutex watching;  // kernels that are watched run one at a time
  std::unique_lock<std::mutex> lock(watching, std::defer_lock);
  if (kWatched) lock.lock();
  watch_launch(g.name);
  if (team <= 1) {
    run_member(g, g.blocks);
  } else {
    const std::uint64_t chunk =
        std::clamp<std::uint64_t>(g.blocks / (static_cast<unsigned>(team) * 8u), 1, 64);
#pragma omp parallel num_threads(team)
    run_member(g, chunk);
  }
  if (g.failed) set_sticky(cudaErrorLaunchFailure, g.failure);
}

}  // namespace

void launch_grid(const Kernel& kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
                 cudaStream_t stream, const void* body, ThreadLoop loop,
                 std::shared_ptr<const void> (*copy)(const void* body)) {
  if (const cudaError_t error = device_error()) return void(report(error));
  if (context.active) return void(report(cudaErrorNotSupported));
  if (!valid_stream(stream)) return void(report(cudaErrorInvalidResourceHandle));
  if (!sizes_fit(kernel.address, grid, block, shared_bytes)) {
    return void(report(cudaErrorInvalidConfiguration));
  }
  const std::uint64_t number = static_cast<std::uint64_t>(++state().launched);
  const bool fails = static_cast<long>(number) == state().failing;
  const auto run = [=, name = kernel.name](const void* arguments) {
    Grid g{name,      grid, block,      shared_bytes,
           arguments, loop, number - 1, std::uint64_t{grid.x} * grid.y * grid.z,
           {},        {},   {},         {}};
    run_grid(g);
    if (fails) set_sticky(cudaErrorLaunchFailure, "the environment says that this kernel fails");
  };
  if (!runs_later() && !is_captured(stream)) return run(body);
  enqueue(stream, [run, arguments = copy(body)] { run(arguments.get()); });
}

}  // namespace moonlet::emulated
