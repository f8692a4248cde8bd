// interp/embed/embed_api.cpp: the interpreters, tables, functions and errors of the embedding API.
#include <istream>
#include <ostream>
#include <utility>

#include "interp/embed/path.h"
#include "interp/embed/session.h"
#include "interp/state/chunks.h"

namespace moonlet {

using detail::push_path;
using detail::push_position;
using detail::Session;

ScriptError::ScriptError(const std::string& message, std::string traceback, Value value)
    : Error(message),
      details_(std::make_shared<Details>(Details{std::move(traceback), std::move(value)})) {}

// --- interpreters --------------------------------------------------------------------------------

Interpreter::Interpreter() : Interpreter(Options()) {}
Interpreter::Interpreter(Options options) : session_(new Session(std::move(options))) {}

void Interpreter::Closer::operator()(Session* session) const noexcept { Session::end(session); }

Session& Interpreter::session() const {
  if (session_ == nullptr) throw Error("this Interpreter was moved from");
  return *session_;
}

void Interpreter::interrupt() const noexcept {
  if (session_ != nullptr) session_->interrupt();
}

// Of the thread while it is the one that runs there.
int Interpreter::num_threads() const {
  const StateData& data = state_data(session().L());
  return is_innermost(data) ? moonlet::num_threads() : data.threads.count;
}

void Interpreter::set_num_threads(int64_t count) {
  StateData& data = state_data(session().L());
  check_thread_count(count, "Interpreter::set_num_threads");
  if (is_innermost(data))
    moonlet::set_num_threads(count);
  else
    data.threads.count = static_cast<int>(count);
}

lua_State* Interpreter::state() const { return session().L(); }

void Interpreter::with_state(const std::function<void(lua_State*)>& body) {
  session().protect(body);
}

int Interpreter::resume(lua_State* L, lua_State* co, int arguments, int* results) {
  return resume_coroutine(L, co, arguments, results);
}

Values Interpreter::run_string(std::string_view code, const std::string& name) {
  Values results;
  const std::string chunk = "=" + name;
  Session& session = this->session();
  session.protect([&](lua_State* L) {
    if (load_string(L, code, chunk.c_str(), "t") != LUA_OK) lua_error(L);
    results = session.call_top(L, nullptr, 0);
  });
  return results;
}

Values Interpreter::run_file(const std::string& path) {
  Values results;
  Session& session = this->session();
  session.protect([&](lua_State* L) {
    if (load_file(L, path.c_str()) != LUA_OK) lua_error(L);
    results = session.call_top(L, nullptr, 0);
  });
  return results;
}

Value Interpreter::get(const std::string& path) {
  Value result;
  Session& session = this->session();
  session.protect([&](lua_State* L) {
    push_path(L, path, "get");
    result = session.take(L, -1);
  });
  return result;
}

void Interpreter::set(const std::string& path, const Value& value) {
  Session& session = this->session();
  session.protect([&](lua_State* L) {
    push_position(L, path, "set");
    session.push(L, value);
    lua_settable(L, -3);
  });
}

Table Interpreter::new_table() {
  Value result;
  Session& session = this->session();
  session.protect([&](lua_State* L) {
    lua_newtable(L);
    result = session.take(L, -1);
  });
  return result.table();
}

Values Interpreter::call_path(const std::string& path, const Value* arguments, size_t count) {
  Values results;
  Session& session = this->session();
  session.protect([&](lua_State* L) {
    push_path(L, path, "call");
    if (lua_isnil(L, -1)) fail("call: there is no function '", path, "'");
    results = session.call_top(L, arguments, count);
  });
  return results;
}

Values Interpreter::call_values_within(std::chrono::nanoseconds time, const std::string& path,
                                       const Value* arguments, size_t count) {
  const detail::CallTime limit(session(), time);
  return call_path(path, arguments, count);
}

Values Interpreter::call_values_within(std::chrono::nanoseconds time, const Function& function,
                                       const Value* arguments, size_t count) {
  const detail::CallTime limit(session(), time);
  return function.call(arguments, count);
}

namespace {
Function module_function(Interpreter& lua, const char* name) {
  return lua.call("require", "moonlet").at(0).table().get(name).function();
}
}  // namespace

Value Interpreter::load(std::istream& in) {
  std::string bytes;
  char part[1 << 16];
  while (in.read(part, sizeof part) || in.gcount() > 0)
    bytes.append(part, static_cast<size_t>(in.gcount()));
  check(!in.bad(), "load: the stream cannot be read");
  Values results = module_function(*this, "load_string")(std::move(bytes));
  return results.empty() ? Value() : std::move(results[0]);
}

void Interpreter::save(std::ostream& out, const std::string& format, const Value& value) {
  const Values results = module_function(*this, "save_string")(format, value);
  const std::string& bytes = results.at(0).string();
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  check(out.good(), "save: the stream cannot be written");
}

bool Interpreter::collect_for(std::chrono::microseconds time) {
  check(time.count() > 0, "collect_for: expected a time above 0, got ", int64_t{time.count()},
        " us");
  bool finished = false;
  session().protect([&](lua_State* L) { finished = gc::collect_for(L, time); });
  return finished;
}

void Interpreter::collect() {
  session().protect([](lua_State* L) { gc::collect(L); });
}

RunLimits Interpreter::limits() const { return state_data(session().L()).limits.given; }

void Interpreter::set_limits(const RunLimits& limits) {
  Session& session = this->session();
  check(session.depth == 0, "set_limits: a run is under way");
  moonlet::set_limits(state_data(session.L()), limits);
}

Function Interpreter::make_function(HostFunction function) {
  check(function != nullptr, "make_function: an empty function was given");
  Value result;
  Session& session = this->session();
  session.protect([&](lua_State* L) {
    detail::push_host_function(L, std::move(function));
    result = session.take(L, -1);
  });
  return result.function();
}

void Interpreter::register_function(const std::string& path, HostFunction function) {
  check(function != nullptr, "register_function: '", path, "' is an empty function");
  Session& session = this->session();
  session.protect([&](lua_State* L) {
    push_position(L, path, "register_function");
    detail::push_host_function(L, std::move(function));
    lua_settable(L, -3);
  });
}

// --- tables and functions ------------------------------------------------------------------------

Value Table::get(const Value& key) const {
  Session& session = reference_->open();
  Value result;
  if (session.get_unprotected(*reference_, key, result)) return result;
  session.protect([&](lua_State* L) {
    session.push(L, *this);
    session.push_key(L, key);
    lua_gettable(L, -2);
    result = session.take(L, -1);
  });
  return result;
}

void Table::set(const Value& key, const Value& value) const {
  Session& session = reference_->open();
  session.protect([&](lua_State* L) {
    session.push(L, *this);
    session.push_key(L, key);
    session.push(L, value);
    lua_settable(L, -3);
  });
}

int64_t Table::length() const {
  Session& session = reference_->open();
  int64_t result = 0;
  session.protect([&](lua_State* L) {
    session.push(L, *this);
    result = luaL_len(L, -1);
  });
  return result;
}

Entries Table::entries() const {
  Session& session = reference_->open();
  Entries result;
  session.protect([&](lua_State* L) {
    session.push(L, *this);
    lua_pushnil(L);
    while (lua_next(L, -2) != 0) {
      Value value = session.take(L, -1);
      lua_pop(L, 1);
      result.emplace_back(session.take(L, -1), std::move(value));
    }
  });
  return result;
}

Values Function::call(const Value* arguments, size_t count) const {
  return reference_->open().call(*reference_, arguments, count);
}

}  // namespace moonlet
