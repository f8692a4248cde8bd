// interp/binding/program/parts.cpp: functions that read elements of tensors: Lua runs them, and
// their ops are put off up to each read (tensor/program/parts/deferral.h).
#include <time.h>

#include <new>

#include "interp/binding/program/circumstances.h"
#include "interp/binding/program/program_module.h"
#include "interp/binding/program/purity.h"
#include "interp/binding/tensor/tensor_userdata.h"
#include "interp/state/gc_pacer.h"
#include "tensor/program/captured_call.h"
#include "tensor/program/parts/deferral.h"

namespace moonlet::binding {
namespace {

using program::Deferral;
using program::PartEnd;
using program::Trace;
using program::TraceStep;

constexpr const char* kTraceName = "moonlet.trace";
constexpr const char* kScopeName = "moonlet.trace_scope";
// After so many runs in a row that met what was not met before, the function is left alone.
constexpr int kMostInVain = 24;

using TraceRef = std::shared_ptr<Trace>;

TraceRef& trace_at(lua_State* L, int index) {
  return *static_cast<TraceRef*>(luaL_checkudata(L, index, kTraceName));
}

int l_collect_trace(lua_State* L) {
  trace_at(L, 1).reset();
  return 0;
}

// parts() -> what is kept of a function.
int l_parts(lua_State* L) {
  new (lua_newuserdatauv(L, sizeof(TraceRef), 0)) TraceRef(std::make_shared<Trace>());
  if (luaL_newmetatable(L, kTraceName) != 0) {
    lua_pushcfunction(L, guard<l_collect_trace>);
    lua_setfield(L, -2, "__gc");
    lua_pushliteral(L, "trace");
    lua_setfield(L, -2, "__metatable");
  }
  lua_setmetatable(L, -2);
  return 1;
}

// One call of the function.
struct Scope {
  bool is_entered = false;
};

// The name of the C function that runs: "item".
std::string running_function(lua_State* L) {
  lua_Debug info;
  if (lua_getstack(L, 0, &info) == 0 || lua_getinfo(L, "n", &info) == 0) return {};
  return info.name == nullptr ? std::string() : std::string(info.name);
}

// What is new, where the collector works in generations.
void collect_garbage(lua_State* L) {
  if (lua_gc(L, LUA_GCISRUNNING) == 0) return;
  if (gc::pacer(L).generational)
    lua_gc(L, LUA_GCSTEP, 0);
  else
    gc::collect(L);
}

int l_close(lua_State* L) {
  auto& scope = *static_cast<Scope*>(luaL_checkudata(L, 1, kScopeName));
  if (scope.is_entered) collect_dropped(L);
  if (!std::exchange(scope.is_entered, false)) return 0;
  Deferral& deferral = Deferral::of_thread();
  deferral.leave();
  // What scripts have dropped, and was never computed, costs its collector nothing.
  if (deferral.has_many_groups()) collect_garbage(L);
  return 0;
}

// A coroutine ended in the function, and nobody waits for what it has put off.
int l_collect_scope(lua_State* L) {
  auto& scope = *static_cast<Scope*>(luaL_checkudata(L, 1, kScopeName));
  if (!std::exchange(scope.is_entered, false)) return 0;
  Deferral& deferral = Deferral::of_thread();
  deferral.forget_script();
  try {
    deferral.leave();
  } catch (const std::exception&) {
    // Who uses the tensors meets it again.
  }
  return 0;
}

// enter(parts) -> a value to close when the function has returned; or nil and why it runs as it is,
// and true where that is for good.
int l_enter(lua_State* L) {
  const TraceRef& trace = trace_at(L, 1);
  const auto refuse = [L](const char* reason, bool for_good) {
    lua_pushnil(L);
    lua_pushstring(L, reason);
    lua_pushboolean(L, for_good);
    return 3;
  };
  if (trace == nullptr) return refuse("its parts are gone", true);
  if (trace->in_vain >= kMostInVain) return refuse("its ops are seldom the same", true);
  if (const char* reason = Circumstances::refusal(L)) return refuse(reason, false);
  auto* scope = new (lua_newuserdatauv(L, sizeof(Scope), 1)) Scope;
  if (luaL_newmetatable(L, kScopeName) != 0) {
    lua_pushcfunction(L, guard<l_close>);
    lua_setfield(L, -2, "__close");
    lua_pushcfunction(L, guard<l_collect_scope>);
    lua_setfield(L, -2, "__gc");
    lua_pushliteral(L, "trace");
    lua_setfield(L, -2, "__metatable");
  }
  lua_setmetatable(L, -2);
  Deferral::Script script;
  script.reader = [L] { return running_function(L); };
  script.line = [L] { return script_line(L); };
  scope->is_entered = Deferral::of_thread().enter(trace, std::move(script));
  return scope->is_entered ? 1 : refuse("it is called inside a function that runs by parts", false);
}

void set_integer(lua_State* L, const char* key, int64_t value) {
  lua_pushinteger(L, static_cast<lua_Integer>(value));
  lua_setfield(L, -2, key);
}

// Adds the parts below an end to the array on top, in the order in which they were met.
void push_parts(lua_State* L, const PartEnd& behind);
void push_ends(lua_State* L, const TraceStep& step) {
  if (const PartEnd* const end = step.end.get()) {
    lua_createtable(L, 0, 6);
    set_integer(L, "ops", static_cast<int64_t>(end->ops));
    set_integer(L, "runs", end->runs);
    if (end->runner != nullptr) {
      set_integer(L, "steps", static_cast<int64_t>(end->runner->plan().steps().size()));
      set_integer(L, "bytes", end->runner->plan().arena_bytes());
    }
    push_string(L, end->reason);
    lua_setfield(L, -2, "reason");
    lua_rawseti(L, -2, static_cast<lua_Integer>(lua_rawlen(L, -2)) + 1);
    push_parts(L, *end);
  }
}
void push_parts(lua_State* L, const PartEnd& behind) {
  luaL_checkstack(L, 4, "compile");
  std::vector<const TraceStep*> to_do;
  if (behind.next != nullptr) to_do.push_back(behind.next.get());
  while (!to_do.empty()) {
    const TraceStep* const step = to_do.back();
    to_do.pop_back();
    push_ends(L, *step);
    for (const auto& each : step->next) to_do.push_back(each.get());
  }
}

// parts_info(parts) -> an array of tables, a part each: ops, steps, bytes, runs, reason; and how
// often the function ran so, how often it went another way within a part.
int l_parts_info(lua_State* L) {
  const TraceRef trace = trace_at(L, 1);
  lua_newtable(L);
  if (trace != nullptr) push_parts(L, trace->start);
  lua_pushinteger(L, trace == nullptr ? 0 : static_cast<lua_Integer>(trace->runs));
  lua_pushinteger(L, trace == nullptr ? 0 : static_cast<lua_Integer>(trace->mismatches));
  return 3;
}

constinit thread_local bool runs_always = false;

// leave_out(bytes): from how many bytes on results that nobody asks for are not computed; from now
// on functions run by parts where they gain nothing, too. For tests.
int l_leave_out(lua_State* L) {
  Deferral::least_left_out = static_cast<size_t>(luaL_checkinteger(L, 1));
  runs_always = true;
  return 0;
}

// always_parts() -> whether leave_out was called.
int l_always_parts(lua_State* L) {
  lua_pushboolean(L, runs_always);
  return 1;
}

// leave(op, what): tells of what a plan cannot hold, such as "all_reduce", "meets other ranks": a
// capture ends there, and what was put off runs.
int l_leave(lua_State* L) {
  const char* const op = luaL_checkstring(L, 1);
  const char* const what = luaL_checkstring(L, 2);
  if (execution.capture != nullptr) program::stop_capture(op, what);
  if (Deferral& deferral = Deferral::of_thread(); deferral.is_entered())
    deferral.end_part(text(op, " ", what));
  return 0;
}

// clock() -> the seconds that this thread has computed.
int l_clock(lua_State* L) {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  lua_pushnumber(L, static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec));
  return 1;
}

}  // namespace

void collect_dropped(lua_State* L) {
  if (!program::any_deferred || Deferral::least_left_out == 0) return;
  // About 0.15 us for each KiB of a script, beside 0.17 ns for each byte of results.
  constexpr size_t kBytesPerKibibyte = 2000;
  Deferral& deferral = Deferral::of_thread();
  const size_t waiting = deferral.waiting_bytes();
  if (waiting <= static_cast<size_t>(lua_gc(L, LUA_GCCOUNT)) * kBytesPerKibibyte) return;
  if (!deferral.may_collect()) return;
  collect_garbage(L);
  deferral.note_collected(waiting);
}

void register_parts(lua_State* L) {
  static const luaL_Reg kFunctions[] = {{"parts", guard<l_parts>},
                                        {"enter", guard<l_enter>},
                                        {"parts_info", guard<l_parts_info>},
                                        {"leave_out", guard<l_leave_out>},
                                        {"leave", guard<l_leave>},
                                        {"clock", guard<l_clock>},
                                        {"always_parts", guard<l_always_parts>},
                                        {nullptr, nullptr}};
  set_functions(L, -1, kFunctions);
}

}  // namespace moonlet::binding
