// interp/embed/session.cpp: calls into an interpreter, the values that pass, and its end.
#include "interp/embed/session.h"

#include <time.h>

#include <algorithm>
#include <utility>

#include "interp/embed/class_record.h"
#include "interp/embed/extension/own_session.h"
#include "interp/embed/visit.h"
#include "interp/state/blame.h"
#include "interp/state/guard.h"
#include "interp/state/libraries.h"
#include "interp/workers/pool.h"
#include "tensor/runtime/stack.h"

namespace moonlet::detail {

Session& Reference::open() const {
  Session* session = control->session.load(std::memory_order_acquire);
  if (session == nullptr) [[unlikely]]
    throw Error("the interpreter of this value is closed");
  return *session;
}

Reference::~Reference() {
  if (control == nullptr) return;
  const StateData* const here = innermost_state();
  if (here != nullptr && here->releases == control->releases && !here->closing)
    here->session->slots.give_back(here->running, key);
  else
    control->dropped.add(key);
}

// --- beginning and end ---------------------------------------------------------------------------

namespace {
int l_hide_variables(lua_State* L) {
  hide_variables(L);
  return 0;
}
}  // namespace

Session::Session(InterpreterOptions options)
    : state(new_state(std::move(options))),
      main_thread(state.get()),
      data(state_data(main_thread)),
      control(std::make_shared<SessionControl>()) {
  data.session = this;
  if (!data.options.environment) {
    lua_pushcfunction(L(), l_hide_variables);
    if (lua_pcall(L(), 0, 0, 0) != LUA_OK) throw std::bad_alloc();
  }
  control->session = this;
  control->releases = data.releases;
}

// Scripts run all the time there: what extensions call is never the outermost call.
Session::Session(lua_State* main)
    : main_thread(main),
      data(state_data(main)),
      control(std::make_shared<SessionControl>()),
      depth(1),
      of_extensions(true) {
  data.session = this;
  control->session = this;
  control->releases = data.releases;
}

Session& Session::made_for(lua_State* L) {
  StateData& data = state_data(L);
  if (data.session != nullptr) return *data.session;
  end_own_session.store([](Session* session) noexcept {
    if (session->of_extensions) delete session;
  });
  return *new Session(data.main_thread);
}

Session::~Session() {
  if (of_extensions) {  // the state is closed
    control->session = nullptr;
    free_host_functions(*this);
    return;
  }
  deadline.reset();
  end_stop_request(data);
  depth = 1;  // finalizers may call host functions, which call back
  state.reset();
  control->session = nullptr;
  free_host_functions(*this);
  classes.reset();
}

void Session::end(Session* session) noexcept {
  if (session->depth == 0) {
    delete session;
    return;
  }
  session->abandoned = true;
  session->control->session = nullptr;
  request_stop(session->data, StopCause::Closed);
}

namespace {
// What a thread tells once, or now and then.
struct Thread {
  bool is_known = false;
  bool small_stack = false;
  // When it was asked last whether it blocks the wake signal, how often it was, and what it said.
  Instant tick = -1;
  int times = 0;
  bool blocked = false;
};
[[gnu::noinline]] Thread& this_thread() noexcept {
  static constinit thread_local Thread thread;
  if (!thread.is_known) [[unlikely]] {
    thread.small_stack = stack_is_small();
    thread.is_known = true;
  }
  return thread;
}
// Lets the wake signal come to this thread, and returns whether it was blocked. To ask is a system
// call, which may cost more than the run: a thread that has begun many and did not block it is
// asked once in each tick of the coarse clock (a few milliseconds).
bool let_wake_signal_come(Thread& thread, Instant tick) noexcept {
  constexpr int kAlways = 64;
  if (thread.times >= kAlways && thread.tick == tick && !thread.blocked) [[likely]]
    return false;
  if (thread.times < kAlways) ++thread.times;
  thread.tick = tick;
  thread.blocked = unblock_wake_signal();
  return thread.blocked;
}

// Of two bounds of which 0 is none.
std::chrono::nanoseconds shorter(std::chrono::nanoseconds a, std::chrono::nanoseconds b) noexcept {
  return a.count() == 0 || (b.count() > 0 && b < a) ? b : a;
}
}  // namespace

CallTime::CallTime(Session& session, std::chrono::nanoseconds time)
    : session_(session), control_(session.control), before_(session.call_time) {
  check(time.count() > 0, "call_within: expected a time above 0, got ", int64_t{time.count()},
        " ns");
  session_.call_time = shorter(time, before_);
  if (session_.depth == 0) return;
  if (session_.deadline) end_ = session_.deadline->end();
  const Instant end = end_after(time, coarse_instant());
  if (end < end_) session_.end_run_at(end, session_.runner.load(std::memory_order_relaxed));
}

CallTime::~CallTime() {
  if (control_->session.load(std::memory_order_relaxed) == nullptr) return;
  session_.call_time = before_;
  if (session_.depth == 0 || !session_.deadline) return;
  if (end_ == kNever)
    session_.deadline->disarm();
  else if (!session_.data.stop.requested())
    session_.deadline->arm(end_, session_.runner.load(std::memory_order_relaxed));
}

void Session::begin_run(int thread_id) {
  // An interrupt may have come after the end of the run it was meant for.
  if (data.stop.requested()) [[unlikely]]
    end_stop_request(data);
  const Instant now = coarse_instant();
  Thread& thread = this_thread();
  wake_was_blocked = let_wake_signal_come(thread, now);
  // A hook may be that of a small stack, which another thread had.
  if (thread.small_stack || lua_gethook(main_thread) != nullptr) [[unlikely]]
    watch_small_stack(main_thread);
  runner.store(thread_id, std::memory_order_relaxed);
  if (control->dropped.any()) slots.give_back(main_thread, control->dropped);
  const RunLimits& limits = data.limits.given;
  if (limits.lua_bytes > 0) data.blocks.end_refusals();
  if (limits.instructions > 0) begin_counting(data);
  const auto time = shorter(limits.wall_time, call_time);
  if (time.count() > 0) end_run_at(end_after(time, now), thread_id);
}

void Session::end_run() noexcept {
  runner.store(0, std::memory_order_relaxed);
  if (deadline) [[unlikely]]
    deadline->disarm();
  if (wake_was_blocked) [[unlikely]]
    block_wake_signal();
  // What works for the run would go on without its limits.
  if (data.limits.strict || data.limits.bound_runs() || data.stop.requested()) [[unlikely]]
    workers::stop_pools_of(data);
  if (!data.carried.empty()) [[unlikely]]
    data.carried.clear();
  if (abandoned) [[unlikely]] {
    delete this;
    return;
  }
  if (data.stop.requested()) [[unlikely]] {
    end_stop_request(data);
    if (data.blocks.end_refusals()) {
      const EntryScope entry(data);
      lua_gc(L(), LUA_GCCOLLECT);
    }
  }
}

void Session::end_run_at(Instant end, int thread) {
  if (!deadline) deadline.emplace(data);
  deadline->arm(end, thread);
}

void Session::interrupt() noexcept {
  const int thread = runner.load(std::memory_order_relaxed);
  if (thread != 0) request_stop_from_outside(data, StopCause::Interrupted, thread);
}

// --- calls ---------------------------------------------------------------------------------------

// Keeps the message and the traceback for throw_error, where they would be lost.
int Session::handle_error(lua_State* L) {
  Session& session = of(L);
  size_t size = 0;
  const char* text = nullptr;
  lua_settop(L, 1);
  if (lua_type(L, 1) == LUA_TSTRING && !state_data(L).carried.find(lua_tostring(L, 1)))
    blame_script(L, L);
  // A run that is to end calls no script for it.
  const bool stopped = state_data(L).stop.requested();
  if (lua_type(L, 1) == LUA_TSTRING ||
      (!stopped && luaL_getmetafield(L, 1, "__tostring") != LUA_TNIL)) {
    text = luaL_tolstring(L, 1, &size);
  } else {
    text = lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
    size = lua_rawlen(L, -1);
  }
  session.error_message.assign(text, size);
  if (session.coroutine_traceback.empty()) {
    luaL_traceback(L, L, nullptr, 1);
    session.error_traceback = lua_tostring(L, -1);
  } else {
    session.error_traceback = std::exchange(session.coroutine_traceback, {});
  }
  lua_settop(L, 1);
  return 1;
}

void Session::throw_error(lua_State* L, int status) {
  std::string message = std::exchange(error_message, {});
  std::string traceback = std::exchange(error_traceback, {});
  // When memory is short, or an error handler fails, handle_error is not called.
  if (status != LUA_ERRRUN) {
    const char* text = lua_tostring(L, -1);
    message = text != nullptr ? text : "(no message)";
  }
  if (data.stop.requested())
    throw_stopped(requested_stop(data), std::move(message), std::move(traceback));
  if (status == LUA_ERRMEM && data.blocks.end_refusals())
    throw_stopped(StopCause::LuaMemory, {}, std::move(traceback));
  if (lua_type(L, -1) == LUA_TSTRING) {
    const std::exception_ptr exception = data.carried.find(message);
    if (exception != nullptr) std::rethrow_exception(exception);
    throw ScriptError(message, std::move(traceback), Value(message));
  }
  Values value;
  try {
    value = take_protected(L, lua_gettop(L));
  } catch (const Error&) {
    value.emplace_back();  // of a kind that the host cannot hold
  }
  throw ScriptError(message, std::move(traceback), std::move(value[0]));
}

void Session::throw_stopped(StopCause cause, std::string message, std::string traceback) {
  const char* reason = reason_of(cause);
  if (message.find(reason) == message.npos) message = reason;
  switch (cause) {
    case StopCause::Instructions:
      throw LimitExceeded(Limit::Instructions, message, std::move(traceback));
    case StopCause::WallTime: throw LimitExceeded(Limit::WallTime, message, std::move(traceback));
    case StopCause::LuaMemory: throw LimitExceeded(Limit::LuaBytes, message, std::move(traceback));
    case StopCause::TensorMemory:
      throw LimitExceeded(Limit::TensorBytes, message, std::move(traceback));
    case StopCause::Interrupted: throw ScriptInterrupted(message, std::move(traceback));
    default: throw Error(message);
  }
}

namespace {

struct Body {
  void (*run)(lua_State*, void*);
  void* data;
};

int run_body(lua_State* L) {
  const auto* body = static_cast<const Body*>(lua_touserdata(L, 1));
  lua_settop(L, 0);
  try {
    body->run(L, body->data);
    return 0;
  } catch (const std::exception&) {
    Session::of(L).push_current_exception(L);
  }
  return lua_error(L);
}

// The arguments are values for the host, a Values to put them into at the end.
int take_arguments(lua_State* L) {
  auto& values = *static_cast<Values*>(lua_touserdata(L, -1));
  lua_pop(L, 1);
  values = Session::of(L).take_from(L, 1);
  return 0;
}

int free_released(lua_State* L) {
  release_waiting(L);
  return 0;
}

// Whether pushing the value takes no memory and cannot fail.
bool is_simple(const Value& value) { return value.variant().index() <= 3; }

void push_simple(lua_State* L, const Value& value) {
  const Value::Variant& held = value.variant();
  static_assert(std::is_same_v<std::variant_alternative_t<3, Value::Variant>, double>);
  if (const double* number = std::get_if<double>(&held))
    lua_pushnumber(L, *number);
  else if (const int64_t* integer = std::get_if<int64_t>(&held))
    lua_pushinteger(L, *integer);
  else if (const bool* boolean = std::get_if<bool>(&held))
    lua_pushboolean(L, *boolean ? 1 : 0);
  else
    lua_pushnil(L);
}

// Gives a value that needs no memory of Lua's to `put`; returns false for other values.
template <class Put>
bool take_simple(lua_State* L, int index, Put&& put) {
  switch (lua_type(L, index)) {
    case LUA_TNUMBER:
      if (lua_isinteger(L, index) != 0)
        put(static_cast<int64_t>(lua_tointeger(L, index)));
      else
        put(static_cast<double>(lua_tonumber(L, index)));
      return true;
    case LUA_TNIL: put(nullptr); return true;
    case LUA_TBOOLEAN: put(lua_toboolean(L, index) != 0); return true;
    case LUA_TSTRING: {
      size_t size = 0;
      const char* text = lua_tolstring(L, index, &size);
      put(std::string_view(text, size));
      return true;
    }
    default: return false;
  }
}

}  // namespace

void Session::run_protected(void (*run)(lua_State*, void*), void* to) {
  const Visit visit(*this);
  run_protected(visit, run, to);
}

void Session::run_protected(const Visit& visit, void (*run)(lua_State*, void*), void* to) {
  lua_State* L = visit.L;
  visit.reserve(6);
  if (control->releases->has_waiting()) {
    lua_pushcfunction(L, free_released);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK) lua_pop(L, 1);  // another time
  }
  Body call{run, to};
  lua_pushcfunction(L, guard<handle_error>);
  lua_pushcfunction(L, run_body);
  lua_pushlightuserdata(L, &call);
  const int status = lua_pcall(L, 1, 0, visit.top + 1);
  if (status != LUA_OK) throw_error(L, status);
  check_stopped();
}

bool Session::get_unprotected(const Reference& table, const Value& key, Value& value) const {
  lua_State* L = data.running;
  if (data.stop.requested() || lua_checkstack(L, 4) == 0) return false;
  const StackTop restored(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, table.key);
  if (lua_getmetatable(L, -1) != 0) return false;
  if (const std::string* name = std::get_if<std::string>(&key.variant())) {
    if (!names.push_known(L, *name)) return false;
  } else if (is_simple(key)) {
    push_simple(L, key);
  } else {
    return false;
  }
  lua_rawget(L, -2);
  return take_simple(L, -1, [&](auto held) { value = held; });
}

Values Session::call(const Reference& function, const Value* arguments, size_t count) {
  if (control->releases->has_waiting() || !std::all_of(arguments, arguments + count, is_simple)) {
    Values results;
    protect([&](lua_State* to) {
      lua_rawgeti(to, LUA_REGISTRYINDEX, function.key);
      results = call_top(to, arguments, count);
    });
    return results;
  }
  const Visit visit(*this);
  lua_State* L = visit.L;
  visit.reserve(count + 6);
  lua_pushcfunction(L, guard<handle_error>);
  lua_rawgeti(L, LUA_REGISTRYINDEX, function.key);
  for (size_t i = 0; i < count; ++i) push_simple(L, arguments[i]);
  const int status = lua_pcall(L, static_cast<int>(count), LUA_MULTRET, visit.top + 1);
  if (status != LUA_OK) throw_error(L, status);
  check_stopped();
  return take_protected(L, visit.top + 2);
}

// The values from `first` to the top, for code outside of a protected call.
Values Session::take_protected(lua_State* L, int first) {
  const int top = lua_gettop(L);
  Values values;
  values.reserve(top - first + 1);
  const auto put = [&](auto value) { values.emplace_back(value); };
  int next = first;
  while (next <= top && take_simple(L, next, put)) ++next;
  if (next > top) return values;
  values.clear();
  if (lua_checkstack(L, 4) == 0) throw Error("too many results");
  lua_pushcfunction(L, guard<handle_error>);
  lua_insert(L, first);
  lua_pushcfunction(L, [](lua_State* to) {
    try {
      return take_arguments(to);
    } catch (const std::exception&) {
      of(to).push_current_exception(to);
    }
    return lua_error(to);
  });
  lua_insert(L, first + 1);
  lua_pushlightuserdata(L, &values);
  const int status = lua_pcall(L, top - first + 2, 0, first);
  if (status != LUA_OK) throw_error(L, status);
  return values;
}

// --- values --------------------------------------------------------------------------------------

void Session::push(lua_State* L, const Value& value) {
  struct Pusher {
    Session& session;
    lua_State* L;

    void reference(const Reference& held) const {
      if (&held.open() != &session) throw Error("a value of another interpreter was given");
      lua_rawgeti(L, LUA_REGISTRYINDEX, held.key);
    }
    void operator()(std::monostate) const { lua_pushnil(L); }
    void operator()(bool x) const { lua_pushboolean(L, x ? 1 : 0); }
    void operator()(int64_t x) const { lua_pushinteger(L, x); }
    void operator()(double x) const { lua_pushnumber(L, x); }
    void operator()(const std::string& x) const { lua_pushlstring(L, x.data(), x.size()); }
    void operator()(const Tensor& x) const {
      if (x.defined()) x.storage().note_interpreter(&session);
      push_tensor(L, x);
    }
    void operator()(const Table& x) const { reference(*x.reference_); }
    void operator()(const Function& x) const { reference(*x.reference_); }
    void operator()(const Object& x) const { reference(*x.reference_); }
  };
  luaL_checkstack(L, 4, "too many values");
  std::visit(Pusher{*this, L}, value.variant());
}

void Session::push_key(lua_State* L, const Value& key) {
  if (const std::string* name = std::get_if<std::string>(&key.variant()))
    names.push(L, *name);
  else
    push(L, key);
}

std::shared_ptr<Reference> Session::refer(lua_State* L, int index) {
  auto reference = std::make_shared<Reference>();
  lua_pushvalue(L, index);
  if (control->dropped.any()) slots.give_back(L, control->dropped);
  reference->key = slots.take(L);
  reference->control = control;
  return reference;
}

Value Session::take(lua_State* L, int index) {
  Value simple;
  const auto put = [&](auto value) { simple = value; };
  if (take_simple(L, index, put) || lua_isnone(L, index)) return simple;
  if (lua_istable(L, index)) return Table(refer(L, index));
  if (lua_isfunction(L, index)) return Function(refer(L, index));
  if (const Tensor* tensor = test_tensor(L, index)) {
    if (tensor->defined()) tensor->storage().note_interpreter(this);
    return *tensor;
  }
  return Object(refer(L, index));
}

Values Session::take_from(lua_State* L, int first) {
  Values values;
  const int top = lua_gettop(L);
  luaL_checkstack(L, 4, "too many values");
  values.reserve(top - first + 1);
  for (int i = first; i <= top; ++i) values.push_back(take(L, i));
  return values;
}

Values Session::call_top(lua_State* L, const Value* arguments, size_t count) {
  const int first = lua_gettop(L);
  check(count < 1'000'000, "too many arguments");
  luaL_checkstack(L, static_cast<int>(count) + 4, "too many arguments");
  for (size_t i = 0; i < count; ++i) push(L, arguments[i]);
  lua_call(L, static_cast<int>(count), LUA_MULTRET);
  return take_from(L, first);
}

// --- exceptions ----------------------------------------------------------------------------------

void Session::push_current_exception(lua_State* L) {
  lua_settop(L, 0);
  try {
    throw;
  } catch (const ScriptError& e) {
    // Of a nested call: its error value goes on as it is, unless it belongs to another interpreter.
    try {
      push(L, e.value());
    } catch (const Error&) {
      lua_settop(L, 0);
    }
    if (lua_isnoneornil(L, 1)) lua_pushstring(L, e.what());
  } catch (const std::exception& e) {
    push_exception(L, e);
  } catch (...) {
    push_where(L);
    lua_pushliteral(L, "a host function threw what is no std::exception");
    lua_concat(L, 2);
  }
  if (lua_type(L, -1) != LUA_TSTRING) return;
  size_t size = 0;
  const char* text = lua_tolstring(L, -1, &size);
  state_data(L).carried.add({text, size}, std::current_exception());
}

}  // namespace moonlet::detail
