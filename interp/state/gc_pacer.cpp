// interp/state/gc_pacer.cpp: pays Lua's collector for tensor memory.
#include "interp/state/gc_pacer.h"

#include <time.h>

#include <algorithm>

#include "interp/state/gc_steps.h"
#include "interp/state/state.h"
#include "tensor/memory/budget.h"

namespace moonlet::gc {

Pacer& pacer(lua_State* L) { return state_data(L).pacer; }

void set_live_bytes(lua_State* L, int64_t (*live_bytes)()) { pacer(L).live_bytes = live_bytes; }

namespace {
// A full collection is worth what is written in twice its time, 10 bytes in a nanosecond; measured,
// since a heap of strings takes a tenth of one of tables.
constexpr double kBytesPerNanosecond = 20;

// The processor's time of this thread, which does not count what others take of it.
double nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

// Collects all garbage; returns how many bytes that is worth.
int64_t collect_all(lua_State* L) {
  const double start = nanoseconds();
  lua_gc(L, LUA_GCCOLLECT);
  return static_cast<int64_t>(kBytesPerNanosecond * (nanoseconds() - start));
}

int64_t live_bytes(const Pacer& p) { return p.live_bytes != nullptr ? p.live_bytes() : 0; }
}  // namespace

void set_generational(lua_State* L, bool on) {
  Pacer& p = pacer(L);
  p.generational = on;
  p.due = on ? kLeastDueYoung : kLeastDue;
  if (on)
    lua_gc(L, LUA_GCGEN, 0, 0);
  else
    lua_gc(L, LUA_GCINC, 0, 0, 0);
}

void collect(lua_State* L) {
  Pacer& p = pacer(L);
  p.debt = 0;
  release_waiting(L);
  p.full_due = collect_all(L);
  p.young_collections = 0;
  const int64_t live = p.old_bytes = live_bytes(p);
  p.threshold = std::max(kFloorBytes, 2 * live);
  memory::Budget* budget = state_data(L).budget;
  if (budget == nullptr) return;
  p.budget_threshold = budget->used() / 2 + budget->limit() / 2;
  budget->set_notice(p.budget_threshold);
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
  if (p.pause == kScriptsPause || p.generational) return;
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
// Of a small heap a collection takes no longer than to write what is due at least.
constexpr int kSmallHeapKiB = 1024;
// A larger heap is collected in steps, so that no pause is longer than some milliseconds.
constexpr int kLargeHeapKiB = 4096;

// A whole cycle at once: one in steps finds only half of what died since it began, and what a
// script drops is to be used again while it is in the cache.
void collect_at_once(lua_State* L, Pacer& p, int heap_kib) {
  const int64_t worth = collect_all(L);
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
// What survives so many of these is old, and then only a full collection finds it dead.
constexpr int kOldAge = 2;

void collect_young(lua_State* L, Pacer& p) {
  p.full_due -= p.debt;
  p.debt = 0;
  ++p.young_collections;
  lua_gc(L, LUA_GCSTEP, 0);
  if (p.full_due <= 0 && live_bytes(p) > 2 * p.old_bytes + kOldBytes) collect(L);
}
}  // namespace

void pay(lua_State* L) {
  Pacer& p = pacer(L);
  if (p.kind != Collector::Automatic) return pay_as_chosen(L);
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
  if (p.generational) return collect_young(L, p);
  const int heap_kib = lua_gc(L, LUA_GCCOUNT);
  if (heap_kib <= kLargeHeapKiB)
    collect_at_once(L, p, heap_kib);
  else
    collect_in_steps(L, p);
  set_pause(L);
}

void pay_between_passes(lua_State* L, int64_t bytes) {
  Pacer& p = pacer(L);
  p.debt += bytes;
  if (p.debt < kStepBytes) return;
  const bool may_be_old =
      p.kind == Collector::Automatic && p.young_collections >= kOldAge && p.full_due <= p.debt;
  if (may_be_old && lua_gc(L, LUA_GCISRUNNING) == 1)
    collect(L);
  else
    pay(L);
  p.young_collections = 0;
}

}  // namespace moonlet::gc
