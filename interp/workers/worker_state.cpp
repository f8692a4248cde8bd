// interp/workers/worker_state.cpp: what a worker's interpreter has of its owner's, and its code.
#include "interp/workers/worker_state.h"

#include <utility>

#include "interp/state/blame.h"
#include "interp/state/guard.h"
#include "interp/workers/pack.h"
#include "interp/workers/unpack.h"

namespace moonlet::workers {
namespace {

// --- what scripts may not do here ----------------------------------------------------------------

int refuse_exit(lua_State* L) {
  return luaL_error(L, "os.exit: a worker does not end the process; its errors reach the script");
}

int refuse_hook(lua_State* L) {
  return luaL_error(L, "debug.sethook: the hook of a worker is how it is stopped");
}

void replace(lua_State* L, const char* library, const char* name, lua_CFunction function) {
  if (!push_library(L, library)) return;
  lua_pushcfunction(L, function);
  lua_setfield(L, -2, name);
  lua_pop(L, 1);
}

// --- the globals of the script -------------------------------------------------------------------

// Sets what the first message says. Stack: the shared table, globals, those that could not cross,
// changes of library tables, package.path, package.cpath.
void set_globals(lua_State* L, int globals) {
  lua_pushglobaltable(L);
  lua_pushnil(L);
  while (lua_next(L, globals) != 0) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -4);
  }
  lua_pushnil(L);
  if (lua_next(L, globals + 1) != 0) {
    lua_pop(L, 2);
    lua_createtable(L, 0, 1);
    lua_pushvalue(L, globals + 1);
    lua_pushnil(L);
    lua_pushcclosure(L, missing_value, 2);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
  }
  lua_pop(L, 1);
  const lua_Integer changes = luaL_len(L, globals + 2);
  for (lua_Integer i = 1; i + 2 <= changes; i += 3) {
    for (lua_Integer j = 0; j < 3; ++j) lua_rawgeti(L, globals + 2, i + j);
    if (lua_istable(L, -3))
      lua_rawset(L, -3);
    else
      lua_pop(L, 2);
    lua_pop(L, 1);
  }
  if (push_library(L, LUA_LOADLIBNAME)) {
    lua_pushvalue(L, globals + 3);
    lua_setfield(L, -2, "path");
    lua_pushvalue(L, globals + 4);
    lua_setfield(L, -2, "cpath");
    lua_pop(L, 1);
  }
}

// --- what the module calls -----------------------------------------------------------------------

Worker& worker_of(lua_State* L) {
  return *static_cast<Worker*>(lua_touserdata(L, lua_upvalueindex(1)));
}

// The values of the next message; none when the worker is to end.
int l_receive(lua_State* L) {
  lua_settop(L, 0);
  Worker& worker = worker_of(L);
  const MessagePtr message = worker.receive();
  if (message == nullptr) return 0;
  return Unpacker(L, lua_upvalueindex(2), worker.catalog(), *message).push_values();
}

int l_send(lua_State* L) {
  static const char* const kNames[] = {"the number", "the state"};
  const int count = lua_gettop(L);
  Packer packer(L, lua_upvalueindex(2), worker_of(L).catalog());
  packer.add_values(1, count, kNames, std::size(kNames));
  if (packer.has_objects()) packer.add_side_entries();
  worker_of(L).send(std::make_shared<const Message>(std::move(packer.message())));
  return 0;
}

void push_function(lua_State* L, lua_CFunction function, int worker, int shared) {
  lua_pushvalue(L, worker);
  lua_pushvalue(L, shared);
  lua_pushcclosure(L, function, 2);
}

// All that a worker does. Argument: the Worker.
int l_work(lua_State* L) {
  constexpr int kSettings = 5;
  auto& worker = *static_cast<Worker*>(lua_touserdata(L, 1));
  replace(L, LUA_OSLIBNAME, "exit", refuse_exit);
  replace(L, LUA_DBLIBNAME, "sethook", refuse_hook);
  Report ready;
  ready.kind = Report::Kind::Ready;
  ready.missing = apply_catalog(L, worker.catalog());
  const int shared = lua_gettop(L);
  worker.report(std::move(ready));
  const MessagePtr start = worker.receive();
  if (start == nullptr) return 0;
  int first = 0, count = 0;
  {
    Unpacker unpacker(L, shared, worker.catalog(), *start);
    unpacker.note_sent();
    first = lua_gettop(L) + 1;
    count = unpacker.push_values();
  }
  lua_getglobal(L, "require");
  lua_pushstring(L, worker.module().c_str());
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "run");
  set_globals(L, first);  // after `require`, which may be the script's own then
  push_function(L, guard<l_receive>, 1, shared);
  push_function(L, guard<l_send>, 1, shared);
  for (int i = kSettings; i < count; ++i) lua_pushvalue(L, first + i);
  lua_call(L, 2 + count - kSettings, 0);
  return 0;
}

int handle_error(lua_State* L) {
  lua_settop(L, 1);
  if (lua_type(L, 1) == LUA_TSTRING)
    blame_script(L, L);
  else
    luaL_tolstring(L, 1, nullptr);
  luaL_traceback(L, L, lua_tostring(L, -1), 1);
  return 1;
}

}  // namespace

InterpreterOptions options_of_workers(const StateData& owner) {
  InterpreterOptions options = owner.options;
  options.output = nullptr;
  options.collector = Collector::Automatic;  // nobody tells a worker when to collect
  return options;
}

namespace {
InterpreterOptions with_output(InterpreterOptions options, Worker& worker, const StateData& owner) {
  // The host's function is called by the thread of the script.
  if (owner.options.output) {
    options.output = [&worker](Stream stream, std::string_view text) {
      Report report;
      report.kind = Report::Kind::Output;
      report.stream = stream;
      report.text = text;
      worker.report(std::move(report));
    };
  }
  return options;
}
}  // namespace

WorkerState::WorkerState(Worker& worker, StateData& owner, const InterpreterOptions& options,
                         const ExecutionState& execution)
    : state_(new_state(with_output(options, worker, owner), &owner)), worker_(worker) {
  ExecutionState& own = data().main.execution;
  own.grad_mode = execution.grad_mode;
  own.inference_mode = execution.inference_mode;
  own.default_dtype = execution.default_dtype;
  own.default_device = execution.default_device;
}

void WorkerState::run(Report& failure) {
  StateData& data = this->data();
  lua_State* L = state_.get();
  {
    const EntryScope entry(data);
    lua_pushcfunction(L, guard<handle_error>);
    lua_pushcfunction(L, guard<l_work>);
    lua_pushlightuserdata(L, &worker_);
    if (lua_pcall(L, 1, 0, 1) != LUA_OK) {
      failure.kind = Report::Kind::Failed;
      const char* message = lua_tostring(L, -1);
      try {
        failure.text = message != nullptr ? message : "(no message)";
      } catch (const std::bad_alloc&) {
      }
      const StopCause cause = requested_stop(data);
      if (cause != StopCause::Closed) failure.cause = cause;
    }
    lua_settop(L, 0);
  }
  end_stop_request(data);
}

}  // namespace moonlet::workers
