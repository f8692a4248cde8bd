// interp/memory.cpp: pays Lua's collector for tensor memory.
#include "interp/memory.h"

#include <algorithm>

#include "interp/state.h"
#include "tensor/memory/budget.h"

namespace moonlet::memory {

Account& account(lua_State* L) { return state_data(L).account; }

void set_live_bytes(lua_State* L, int64_t (*live_bytes)()) { account(L).live_bytes = live_bytes; }

void collect(lua_State* L) {
  Account& a = account(L);
  a.debt = 0;
  release_waiting(L);
  lua_gc(L, LUA_GCCOLLECT);
  const int64_t live = a.live_bytes != nullptr ? a.live_bytes() : 0;
  a.threshold = std::max(kFloorBytes, 2 * live);
  const Budget* budget = state_data(L).budget;
  if (budget != nullptr) a.budget_threshold = (budget->used() + budget->limit()) / 2;
}

namespace {
// Garbage must not use a budget up: a full collection is due when half of the rest is gone.
bool budget_is_short(lua_State* L, const Account& a) {
  const Budget* budget = state_data(L).budget;
  if (budget == nullptr) return false;
  const int64_t bound = a.budget_threshold > 0 ? a.budget_threshold : budget->limit() / 2;
  return budget->used() > bound;
}

// How far the Lua heap may grow beyond what a cycle left before the next one starts, in percent of
// that. A userdata is small beside the tensor, node and elements it stands for: 80 KiB of them
// stand for about 1 MiB. While the heap is small its growth is kept to that, so that dead tensors
// are used again while they are still in the cache; a heap of some MiB is dear to mark and grows by
// half. Never more: what a cycle finalizes counts as alive until the next, so at 100 % such garbage
// would double with each cycle. Lua knows multiples of 4.
int pause_for(int heap_kib) {
  const int percent = std::max(14000 / (140 + heap_kib), heap_kib / 50);
  return 100 + std::clamp(percent, 20, 50) / 4 * 4;
}
}  // namespace

void set_pause(lua_State* L) {
  Account& a = account(L);
  if (a.pause == kScriptsPause) return;
  const int heap_kib = lua_gc(L, LUA_GCCOUNT);
  if (heap_kib < 0) return;  // the collector is at work: this is a finalizer
  const int pause = pause_for(heap_kib);
  const int before = lua_gc(L, LUA_GCSETPAUSE, pause);
  if (before != a.pause) {
    lua_gc(L, LUA_GCSETPAUSE, before);
    a.pause = kScriptsPause;
  } else {
    a.pause = pause;
  }
}

void pay(lua_State* L) {
  Account& a = account(L);
  if ((a.live_bytes != nullptr && a.live_bytes() > a.threshold) || budget_is_short(L, a)) {
    collect(L);
    return;
  }
  release_waiting(L);
  while (a.debt >= kStepBytes) {
    a.debt -= kStepBytes;
    // A finished cycle (or a collector stopped by the script or by a finalizer) ends the payment:
    // one huge tensor is worth no second cycle.
    if (lua_gc(L, LUA_GCSTEP, 0) != 0) a.debt = std::min(a.debt, kStepBytes - 1);
  }
  set_pause(L);
}

}  // namespace moonlet::memory
