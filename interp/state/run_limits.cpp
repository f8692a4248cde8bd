// interp/state/run_limits.cpp: requests to stop a run, and the counting of instructions.
#include "interp/state/run_limits.h"

#include <algorithm>
#include <iterator>

#include "interp/state/gc_steps.h"
#include "interp/state/guard.h"
#include "interp/state/interrupt.h"
#include "interp/state/state.h"
#include "tensor/core/platform/threads.h"
#include "tensor/memory/budget.h"
#include "tensor/runtime/stack.h"

namespace moonlet {
namespace {

// What the error says, by StopCause; a request is known by its text.
constexpr const char* kReasons[] = {"",
                                    "interrupted",
                                    "the limit of instructions is exceeded",
                                    "the limit of time is exceeded",
                                    "the limit of Lua memory is exceeded",
                                    "the limit of tensor memory is exceeded",
                                    "the interpreter was closed while it ran"};
static_assert(std::size(kReasons) == static_cast<size_t>(StopCause::Closed) + 1);

// Instructions between two looks at the count. A coroutine may run as many uncounted, so each
// switch is charged with them.
constexpr int64_t kCountStep = 100;

}  // namespace

const char* reason_of(StopCause cause) noexcept { return kReasons[static_cast<size_t>(cause)]; }

namespace {

// The first cause stays: what follows from it (a finalizer that runs out of memory) does not hide
// it. Returns whether it is this one.
bool record(StateData& data, StopCause cause) noexcept {
  if (requested_stop(data) != StopCause::None) return false;
  data.stop.request_until_cancelled(reason_of(cause));
  return true;
}

void count(lua_State* L) {
  StateData& data = state_data(L);
  if (data.limits.left->fetch_sub(kCountStep, std::memory_order_relaxed) >= kCountStep)
    return gc::make_step_if_asked(L);
  request_stop(data, StopCause::Instructions);
  stop_at_next_instruction(L);
}

// The usual hook, where there is one.
void look(lua_State* L, lua_Debug* event) {
  if (event->event == LUA_HOOKCOUNT)
    count(L);
  else if (stack_is_short())
    luaL_error(L, "C stack overflow");
}

}  // namespace

// Taking a request that lasts leaves it; those of hosts all do.
StopCause requested_stop(StateData& data) noexcept {
  const char* reason = data.stop.take();
  if (reason == nullptr) return StopCause::None;
  const auto* found = std::find(std::begin(kReasons), std::end(kReasons), reason);
  return found == std::end(kReasons) ? StopCause::Interrupted
                                     : static_cast<StopCause>(found - std::begin(kReasons));
}

void request_stop(StateData& data, StopCause cause) noexcept {
  if (record(data, cause)) stop_soon(data);
}

void request_stop_from_outside(StateData& data, StopCause cause, int thread) noexcept {
  if (!record(data, cause)) return;
  if (thread == thread_id()) {
    stop_soon(data);
    return;
  }
  platform::wake_thread(
      thread, stop_entered, [](void* of) noexcept { stop_soon(*static_cast<StateData*>(of)); },
      &data);
}

bool unblock_wake_signal() noexcept { return platform::unblock_wake(); }
void block_wake_signal() noexcept { platform::block_wake(); }

void end_stop_request(StateData& data) noexcept {
  data.stop.cancel();
  set_usual_hook(data.main_thread);
}

int thread_id() noexcept { return platform::thread_id(); }

void set_limits(StateData& data, const RunLimits& limits) {
  constexpr const char* kOp = "set_limits";
  check(limits.lua_bytes >= 0 && limits.tensor_bytes >= 0 && limits.instructions >= 0 &&
            limits.wall_time.count() >= 0,
        kOp, ": a limit is negative; 0 is none");
  check(
      limits.tensor_bytes == 0 || data.budget != nullptr, kOp,
      ": tensor_bytes needs an interpreter that was made with a limit, as its tensors are counted "
      "from the start");
  data.limits.given = limits;
  const auto or_none = [](int64_t limit) { return limit > 0 ? limit : INT64_MAX; };
  if (data.budget != nullptr) data.budget->set_limit(or_none(limits.tensor_bytes));
  const auto exceeded = [](void* self) {
    request_stop(*static_cast<StateData*>(self), StopCause::LuaMemory);
  };
  data.blocks.set_limit(or_none(limits.lua_bytes), exceeded, &data);
  if (has_usual_hook(data.main_thread)) set_usual_hook(data.main_thread);
  begin_counting(data);
}

void begin_counting(StateData& data) noexcept {
  data.limits.own_left.store(data.limits.given.instructions, std::memory_order_relaxed);
}

void charge_switch(StateData& data) noexcept {
  if (data.limits.given.instructions > 0)
    data.limits.left->fetch_sub(kCountStep, std::memory_order_relaxed);
}

void set_usual_hook(lua_State* L) noexcept {
  const Limits& limits = state_data(L).limits;
  int mask = 0;
  if (limits.given.instructions > 0) mask |= LUA_MASKCOUNT;
  if (stack_is_small()) mask |= LUA_MASKCALL;
  const int64_t step = std::min(kCountStep, limits.given.instructions);
  lua_sethook(L, mask != 0 ? look : nullptr, mask, static_cast<int>(step));
}

bool has_usual_hook(lua_State* L) noexcept {
  const lua_Hook hook = lua_gethook(L);
  return hook == nullptr || hook == look;
}

bool watch_small_stack(lua_State* L) noexcept {
  const bool small = stack_is_small();
  const lua_Hook hook = lua_gethook(L);
  const bool watched = hook == look && (lua_gethookmask(L) & LUA_MASKCALL) != 0;
  if (small != watched && (hook == nullptr || hook == look)) set_usual_hook(L);
  return small;
}

void note_exception(lua_State* L, const std::exception& e) noexcept {
  if (dynamic_cast<const memory::BudgetExceeded*>(&e) != nullptr)
    request_stop(state_data(L), StopCause::TensorMemory);
}

}  // namespace moonlet
