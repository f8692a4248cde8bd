// interp/gc_pacer.cpp: pays Lua's collector for tensor memory.
#include "interp/gc_pacer.h"

#include <time.h>

#include <algorithm>

#include "interp/state.h"
#include "tensor/memory/budget.h"

namespace moonlet::gc {

Pacer& pacer(lua_State* L) { return state_data(L).pacer; }

void set_live_bytes(lua_State* L, int64_t (*live_bytes)()) { pacer(L).live_bytes = live_bytes; }

void collect(lua_State* L) {
  Pacer& p = pacer(L);
  p.debt = 0;
  release_waiting(L);
  lua_gc(L, LUA_GCCOLLECT);
  const int64_t live = p.live_bytes != nullptr ? p.live_bytes() : 0;
  p.threshold = std::max(kFloorBytes, 2 * live);
  const memory::Budget* budget = state_data(L).budget;
  if (budget != nullptr) p.budget_threshold = (budget->used() + budget->limit()) / 2;
}

namespace {
// Garbage must not use a budget up: a full collection is due when half of the rest is gone.
bool budget_is_short(lua_State* L, const Pacer& p) {
  const memory::Budget* budget = state_data(L).budget;
  if (budget == nullptr) return false;
  const int64_t bound = p.budget_threshold > 0 ? p.budget_threshold : budget->limit() / 2;
  return budget->used() > bound;
}

// How far the Lua heap may grow beyond what a cycle left before the next one starts, in percent of
// that. A userdata is small beside the tensor, node and elements it stands for: 80 KiB of them
// stand for about 1 MiB. While the heap is small its growth is kept to about that, so that dead
// tensors are used again while they are still in the cache; a heap of some MiB is dear to mark and
// grows by half. Never more: what a cycle finalizes counts as alive until the next, so at 100 %
// such garbage would double with each cycle. Lua knows multiples of 4.
int pause_for(int heap_kib) {
  const int percent = std::max(14000 / (140 + heap_kib), heap_kib / 50);
  return 100 + std::clamp(percent, 20, 50) / 4 * 4;
}
}  // namespace

void set_pause(lua_State* L) {
  Pacer& p = pacer(L);
  if (p.pause == kScriptsPause) return;
  const int heap_kib = lua_gc(L, LUA_GCCOUNT);
  if (heap_kib < 0) return;  // the collector is at work: this is a finalizer
  const int pause = pause_for(heap_kib);
  const int before = lua_gc(L, LUA_GCSETPAUSE, pause);
  if (before != p.pause) {
    lua_gc(L, LUA_GCSETPAUSE, before);
    p.pause = kScriptsPause;
  } else {
    p.pause = pause;
  }
}

namespace {
// Of a small heap a collection takes no longer than to write what is due at least. Of a larger one
// it is worth what is written in twice its time, 10 bytes in a nanosecond; measured, since a heap
// of strings takes a tenth of one of tables.
constexpr int kSmallHeapKiB = 1024;
constexpr double kBytesPerNanosecond = 20;
// A larger heap is collected in steps, so that no pause is longer than some milliseconds.
constexpr int kLargeHeapKiB = 4096;

// The processor's time of this thread, which does not count what others take of it.
double nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

// A whole cycle at once: one in steps finds only half of what died since it began, and what a
// script drops is to be used again while it is in the cache.
void collect_at_once(lua_State* L, Pacer& p, int heap_kib) {
  const double start = nanoseconds();
  lua_gc(L, LUA_GCCOLLECT);
  const auto worth = static_cast<int64_t>(kBytesPerNanosecond * (nanoseconds() - start));
  p.debt = 0;
  p.due = heap_kib <= kSmallHeapKiB ? kLeastDue : std::max(kLeastDue, worth);
}

void collect_in_steps(lua_State* L, Pacer& p) {
  p.due = kStepBytes;
  while (p.debt >= kStepBytes) {
    p.debt -= kStepBytes;
    // A finished cycle ends the payment: one huge tensor is worth no second cycle.
    if (lua_gc(L, LUA_GCSTEP, 0) != 0) p.debt = std::min(p.debt, kStepBytes - 1);
  }
}
}  // namespace

void pay(lua_State* L) {
  Pacer& p = pacer(L);
  if ((p.live_bytes != nullptr && p.live_bytes() > p.threshold) || budget_is_short(L, p)) {
    collect(L);
    return;
  }
  release_waiting(L);
  // Not in a finalizer, and not while the script has stopped the collector.
  if (lua_gc(L, LUA_GCISRUNNING) != 1) {
    p.debt = 0;
    return;
  }
  const int heap_kib = lua_gc(L, LUA_GCCOUNT);
  if (heap_kib <= kLargeHeapKiB)
    collect_at_once(L, p, heap_kib);
  else
    collect_in_steps(L, p);
  set_pause(L);
}

}  // namespace moonlet::gc
