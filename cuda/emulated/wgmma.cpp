// cuda/emulated/wgmma.cpp: what the threads of a block have begun of asynchronous products and of
// the copies that these read. It is apart from kernels, whose accesses to memory may be watched.
#include "include/wgmma.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "state.h"
#include "warpgroup.h"

namespace moonlet::emulated {
namespace {

/// The copy that last came to 16 bytes: in which block, whose it was, and how often that thread had
/// waited with it.
struct Arrival {
  std::uint64_t block = 0;
  unsigned thread = 0;
  std::uint64_t turn = 0;
};

struct Begun {
  BegunProduct product;
  float sums[8][4];  // to which it is added
};

/// Of one block after another, which each stay on one OS thread.
struct Warpgroups {
  std::uint64_t block = 1;
  std::vector<Arrival> arrivals{max_shared_of(90) / 16};
  std::array<std::uint64_t, kMaxThreads> waited{}, shown{};
  std::array<std::vector<Begun>, kMaxThreads> begun;
  std::array<bool, kMaxThreads> fenced{};
  std::size_t left = 0;  // products that are begun
};

Warpgroups& warpgroups() {
  // Not itself where libraries have little memory for a thread.
  static thread_local const auto mine = std::make_unique<Warpgroups>();
  return *mine;
}

/// Whether MOONLET_EMULATED_WGMMA is that word.
bool says(std::string_view word) {
  const char* text = std::getenv("MOONLET_EMULATED_WGMMA");
  return text && text == word;
}

/// Products of all threads and blocks; `log` tells them at the end of the process.
std::atomic<long> begun_products{0};
void print_begun() {
  std::fprintf(stderr, "emulated: %ld products by wgmma\n", begun_products.load() / kWarpgroupSize);
}

constexpr std::uintptr_t kPattern = 1024;  // bytes after which the swizzling repeats

std::uintptr_t window() {
  return reinterpret_cast<std::uintptr_t>(context.dynamic_shared) / kPattern * kPattern;
}

TileDescriptor described(std::uint64_t bits) {
  const auto field = [&](int first) { return static_cast<std::uint32_t>(bits >> first & 0x3fff); };
  const auto start = field(0) << 4, stride = field(32) << 4;
  if (bits >> 62 != 1) fail_launch("wgmma: a descriptor's swizzling is not that of 128 bytes");
  if ((bits >> 49 & 7) != 0 || start % kPattern >= 128)
    fail_launch("wgmma: a described tile begins at no multiple of 1024 bytes");
  static const bool wrong = says("wrong");
  return {start, stride, !wrong};
}

void run(Begun& begun, std::size_t number, unsigned quad) {
  const Warpgroups& w = warpgroups();
  const BegunProduct& product = begun.product;
  float sums[8][4];  // on the stack, which is not watched
  std::memcpy(sums, begun.sums, sizeof sums);
  ProductPart part{sums, {}, {}, described(product.b), product.in_memory, product.transposed};
  if (product.in_memory) part.a = described(product.a);
  for (unsigned i = 0; i < 4; ++i)
    std::memcpy(part.held[i], w.begun[quad + i][number].product.held, sizeof part.held[i]);
  product.multiply(part);
  std::memcpy(begun.sums, sums, sizeof sums);
}

/// Whether nothing but the products has written their sums since they were begun.
bool is_untouched(const float (*sums)[4]) {
  for (int n = 0; n < 8; ++n)
    for (int i = 0; i < 4; ++i)
      if (sums[n][i] == sums[n][i]) return false;
  return true;
}

}  // namespace

std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(at) - window());
}

void begin_copy(const void* to, std::size_t bytes) {
  Warpgroups& w = warpgroups();
  const std::uint32_t address = shared_address(to);
  if (!context.dynamic_shared || address / 16 >= w.arrivals.size()) return;
  for (std::uint32_t at = address; at < address + bytes; at += 16)
    w.arrivals[at / 16] = {w.block, context.thread, w.waited[context.thread] + 1};
}

void wait_copies() { ++warpgroups().waited[context.thread]; }

void fence_proxy() {
  Warpgroups& w = warpgroups();
  w.shown[context.thread] = w.waited[context.thread];
}

const unsigned char* shown_pack(std::uint32_t address) {
  const Warpgroups& w = warpgroups();
  const std::size_t pack = address / 16;
  if (pack >= w.arrivals.size() || w.arrivals[pack].block != w.block)
    fail_launch("wgmma: a product reads shared memory that no copy has come to");
  const Arrival& last = w.arrivals[pack];
  if (w.shown[last.thread] < last.turn)
    fail_launch("wgmma: a product reads a copy before cp.async.wait_all and fence.proxy.async");
  return reinterpret_cast<const unsigned char*>(window() + address);
}

void fence_products() { warpgroups().fenced[context.thread] = true; }

void begin_product(const BegunProduct& product) {
  Warpgroups& w = warpgroups();
  if (!w.fenced[context.thread]) fail_launch("wgmma: a product without wgmma.fence before it");
  Begun begun{product, {}};
  bool goes_on = false;
  for (const Begun& other : w.begun[context.thread])
    goes_on = goes_on || other.product.sums == product.sums;
  if (goes_on && !product.add) fail_launch("wgmma: a product drops another's sums");
  if (product.add && !goes_on) std::memcpy(begun.sums, product.sums, sizeof begun.sums);
  for (int n = 0; n < 8; ++n)
    for (int i = 0; i < 4; ++i) product.sums[n][i] = std::numeric_limits<float>::quiet_NaN();
  static const bool told = says("log") && std::atexit(print_begun) == 0;
  if (told) ++begun_products;
  w.begun[context.thread].push_back(begun);
  ++w.left;
}

void wait_products() {
  sync_warpgroup();
  Warpgroups& w = warpgroups();
  const unsigned thread = context.thread, base = thread / kWarpgroupSize * kWarpgroupSize;
  auto &mine = w.begun[thread], &firsts = w.begun[base];
  if (mine.size() != firsts.size())
    fail_launch("wgmma: threads of a warpgroup have begun other products");
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (mine[i].product.b != firsts[i].product.b || mine[i].product.a != firsts[i].product.a)
      fail_launch("wgmma: a descriptor is not the same in all threads of a warpgroup");
    if (!is_untouched(mine[i].product.sums))
      fail_launch("wgmma: a thread wrote sums before wgmma.wait_group");
  }
  for (std::size_t i = 0; i < mine.size(); ++i) {
    for (std::size_t before = i; before-- > 0;)
      if (mine[before].product.sums == mine[i].product.sums) {
        std::memcpy(mine[i].sums, mine[before].sums, sizeof mine[i].sums);
        break;
      }
    run(mine[i], i, thread / 4 * 4);
  }
  for (const Begun& begun : mine) std::memcpy(begun.product.sums, begun.sums, sizeof begun.sums);
  // Others read this thread's factors.
  sync_warpgroup();
  w.left -= mine.size();
  mine.clear();
  w.fenced[thread] = false;
}

bool drop_products() {
  Warpgroups& w = warpgroups();
  ++w.block;
  w.fenced.fill(false);
  if (w.left == 0) return false;
  for (auto& begun : w.begun) begun.clear();
  w.left = 0;
  return true;
}

}  // namespace moonlet::emulated
