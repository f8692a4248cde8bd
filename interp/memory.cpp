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
}  // namespace

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
}

}  // namespace moonlet::memory
