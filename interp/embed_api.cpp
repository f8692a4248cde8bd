// interp/embed_api.cpp: the embedding API: protected calls, held references, host functions.
#include <cmath>
#include <exception>

#include "interp/chunks.h"
#include "interp/guard.h"
#include "interp/moonlet.h"
#include "interp/state.h"

namespace moonlet {
namespace {

constexpr const char* kHostFunction = "moonlet.HostFunction";

// The registry key of the Session that owns a state.
const char kSessionKey = 0;

}  // namespace

namespace detail {

// One open interpreter. Handles hold it weakly, so that a handle kept too long fails cleanly.
struct Session : std::enable_shared_from_this<Session> {
  StatePtr state;
  std::string traceback;

  lua_State* L() const { return state.get(); }
  void protect(const std::function<void(lua_State*)>& body);
  void push(lua_State* L, const Value& value);
  Value take(lua_State* L, int index);
  Values take_from(lua_State* L, int first);
  std::shared_ptr<Reference> refer(lua_State* L, int index);
  Values call_top(lua_State* L, const Values& arguments);

  static Session& of(lua_State* L);
};

struct Reference {
  std::weak_ptr<Session> session;
  std::shared_ptr<ReleaseQueue> releases;
  int key = LUA_NOREF;

  Reference() = default;
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;
  ~Reference() {
    // Any thread may drop a handle.
    if (releases != nullptr) releases->release_reference(key);
  }

  std::shared_ptr<Session> open() const {
    auto result = session.lock();
    if (result == nullptr) throw Error("the interpreter of this value is closed");
    return result;
  }
};

namespace {

int keep_traceback(lua_State* L) {
  if (lua_type(L, 1) != LUA_TSTRING) luaL_tolstring(L, 1, nullptr);
  luaL_traceback(L, L, nullptr, 1);
  Session::of(L).traceback = lua_tostring(L, -1);
  lua_pop(L, 1);
  return 1;
}

int run_body(lua_State* L) {
  const auto* body = static_cast<const std::function<void(lua_State*)>*>(lua_touserdata(L, 1));
  lua_settop(L, 0);
  (*body)(L);
  return 0;
}

}  // namespace

Session& Session::of(lua_State* L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &kSessionKey);
  auto* session = static_cast<Session*>(lua_touserdata(L, -1));
  lua_pop(L, 1);
  return *session;
}

// Runs `body` where Lua errors may be raised, on a stack of its own. Throws ScriptError.
void Session::protect(const std::function<void(lua_State*)>& body) {
  StateData& data = state_data(this->L());
  const EntryScope entry(data);
  release_waiting(data.main_thread);
  // A host function that calls back runs in the coroutine that called it.
  lua_State* L = data.running;
  const int top = lua_gettop(L);
  if (lua_checkstack(L, 4) == 0) throw Error("too many nested calls between host and script");
  traceback.clear();
  lua_pushcfunction(L, guard<keep_traceback>);
  lua_pushcfunction(L, guard<run_body>);
  lua_pushlightuserdata(L, const_cast<void*>(static_cast<const void*>(&body)));
  if (lua_pcall(L, 1, 0, top + 1) == LUA_OK) {
    lua_settop(L, top);
    return;
  }
  size_t size = 0;
  const char* text = lua_tolstring(L, -1, &size);
  std::string message = text != nullptr ? std::string(text, size) : "(no message)";
  lua_settop(L, top);
  throw ScriptError(std::move(message), std::move(traceback));
}

void Session::push(lua_State* L, const Value& value) {
  struct Pusher {
    Session& session;
    lua_State* L;

    void reference(const std::shared_ptr<Reference>& held) const {
      if (held->open().get() != &session) throw Error("a value of another interpreter was given");
      lua_rawgeti(L, LUA_REGISTRYINDEX, held->key);
    }
    void operator()(std::monostate) const { lua_pushnil(L); }
    void operator()(bool x) const { lua_pushboolean(L, x ? 1 : 0); }
    void operator()(int64_t x) const { lua_pushinteger(L, x); }
    void operator()(double x) const { lua_pushnumber(L, x); }
    void operator()(const std::string& x) const { lua_pushlstring(L, x.data(), x.size()); }
    void operator()(const Tensor& x) const {
      if (x.defined()) {
        // The binding's tensor type exists once its module was loaded.
        luaL_requiref(L, "moonlet", luaopen_moonlet, 0);
        lua_pop(L, 1);
        push_tensor(L, x);
      } else {
        lua_pushnil(L);
      }
    }
    void operator()(const Table& x) const { reference(x.reference_); }
    void operator()(const Function& x) const { reference(x.reference_); }
  };
  luaL_checkstack(L, 4, "too many values");
  std::visit(Pusher{*this, L}, value.variant());
}

std::shared_ptr<Reference> Session::refer(lua_State* L, int index) {
  auto reference = std::make_shared<Reference>();
  lua_pushvalue(L, index);
  reference->key = luaL_ref(L, LUA_REGISTRYINDEX);
  reference->session = weak_from_this();
  reference->releases = state_data(L).releases;
  return reference;
}

Value Session::take(lua_State* L, int index) {
  switch (lua_type(L, index)) {
    case LUA_TNONE:
    case LUA_TNIL: return {};
    case LUA_TBOOLEAN: return lua_toboolean(L, index) != 0;
    case LUA_TNUMBER:
      if (lua_isinteger(L, index) != 0) return static_cast<int64_t>(lua_tointeger(L, index));
      return static_cast<double>(lua_tonumber(L, index));
    case LUA_TSTRING: {
      size_t size = 0;
      const char* text = lua_tolstring(L, index, &size);
      return std::string(text, size);
    }
    case LUA_TTABLE: return Table(refer(L, index));
    case LUA_TFUNCTION: return Function(refer(L, index));
    default: break;
  }
  if (const Tensor* tensor = test_tensor(L, index)) return *tensor;
  fail("a ", luaL_typename(L, index), " cannot be handed to the host");
}

Values Session::take_from(lua_State* L, int first) {
  Values values;
  const int top = lua_gettop(L);
  luaL_checkstack(L, 4, "too many values");
  for (int i = first; i <= top; ++i) values.push_back(take(L, i));
  return values;
}

// Calls the value on top of an otherwise empty stack.
Values Session::call_top(lua_State* L, const Values& arguments) {
  const int first = lua_gettop(L);
  luaL_checkstack(L, static_cast<int>(arguments.size()) + 4, "too many arguments");
  for (const Value& argument : arguments) push(L, argument);
  lua_call(L, static_cast<int>(arguments.size()), LUA_MULTRET);
  return take_from(L, first);
}

namespace {

// Leaves an empty function behind, which other finalizers may still call: that is an error.
int collect_host_function(lua_State* L) {
  *static_cast<HostFunction*>(lua_touserdata(L, 1)) = nullptr;
  return 0;
}

int call_host_function(lua_State* L) {
  auto& function = *static_cast<HostFunction*>(lua_touserdata(L, lua_upvalueindex(1)));
  if (!function) throw Error("the host function has been released");
  Session& session = Session::of(L);
  const Values results = function(session.take_from(L, 1));
  lua_settop(L, 0);
  luaL_checkstack(L, static_cast<int>(results.size()) + 4, "too many results");
  for (const Value& result : results) session.push(L, result);
  return static_cast<int>(results.size());
}

void push_host_function(lua_State* L, HostFunction function) {
  void* memory = lua_newuserdatauv(L, sizeof(HostFunction), 0);
  new (memory) HostFunction(std::move(function));
  if (luaL_newmetatable(L, kHostFunction) != 0) {
    lua_pushcfunction(L, guard<collect_host_function>);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  lua_pushcclosure(L, guard<call_host_function>, 1);
}

// Pushes what a path such as "model.layers" names, from the globals on.
void push_path(lua_State* L, std::string_view path) {
  lua_pushglobaltable(L);
  for (size_t from = 0; from <= path.size();) {
    const size_t dot = std::min(path.find('.', from), path.size());
    const std::string_view name = path.substr(from, dot - from);
    lua_pushlstring(L, name.data(), name.size());
    lua_gettable(L, -2);
    lua_remove(L, -2);
    from = dot + 1;
  }
}

}  // namespace
}  // namespace detail

using detail::Session;

ScriptError::ScriptError(std::string message, std::string traceback)
    : Error(traceback.empty() ? message : message + "\n" + traceback),
      message_(std::move(message)),
      traceback_(std::move(traceback)) {}

Interpreter::Interpreter() : session_(std::make_shared<Session>()) {
  session_->state = new_state();
  lua_State* L = session_->L();
  lua_pushlightuserdata(L, session_.get());
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kSessionKey);
}

Interpreter::~Interpreter() = default;
Interpreter::Interpreter(Interpreter&&) noexcept = default;
Interpreter& Interpreter::operator=(Interpreter&&) noexcept = default;

lua_State* Interpreter::state() const { return session_->L(); }

void Interpreter::with_state(const std::function<void(lua_State*)>& body) {
  session_->protect(body);
}

int Interpreter::resume(lua_State* L, lua_State* co, int arguments, int* results) {
  return resume_coroutine(L, co, arguments, results);
}

Values Interpreter::run_string(std::string_view code, const std::string& name) {
  Values results;
  const std::string chunk = "=" + name;
  session_->protect([&](lua_State* L) {
    if (luaL_loadbufferx(L, code.data(), code.size(), chunk.c_str(), "t") != LUA_OK) lua_error(L);
    results = session_->call_top(L, {});
  });
  return results;
}

Values Interpreter::run_file(const std::string& path) {
  Values results;
  session_->protect([&](lua_State* L) {
    if (load_file(L, path.c_str()) != LUA_OK) lua_error(L);
    results = session_->call_top(L, {});
  });
  return results;
}

Value Interpreter::get(const std::string& path) {
  Value result;
  session_->protect([&](lua_State* L) {
    detail::push_path(L, path);
    result = session_->take(L, -1);
  });
  return result;
}

void Interpreter::set(const std::string& name, const Value& value) {
  session_->protect([&](lua_State* L) {
    session_->push(L, value);
    lua_setglobal(L, name.c_str());
  });
}

Table Interpreter::new_table() {
  Value result;
  session_->protect([&](lua_State* L) {
    lua_newtable(L);
    result = session_->take(L, -1);
  });
  return result.table();
}

Values Interpreter::call_path(const std::string& path, const Values& arguments) {
  Values results;
  session_->protect([&](lua_State* L) {
    detail::push_path(L, path);
    if (lua_isnil(L, -1)) fail("call: there is no function '", path, "'");
    results = session_->call_top(L, arguments);
  });
  return results;
}

Function Interpreter::make_function(HostFunction function) {
  Value result;
  session_->protect([&](lua_State* L) {
    detail::push_host_function(L, std::move(function));
    result = session_->take(L, -1);
  });
  return result.function();
}

void Interpreter::register_function(const std::string& name, HostFunction function) {
  set(name, make_function(std::move(function)));
}

Value Table::get(const Value& key) const {
  const auto session = reference_->open();
  Value result;
  session->protect([&](lua_State* L) {
    session->push(L, *this);
    session->push(L, key);
    lua_gettable(L, -2);
    result = session->take(L, -1);
  });
  return result;
}

void Table::set(const Value& key, const Value& value) const {
  const auto session = reference_->open();
  session->protect([&](lua_State* L) {
    session->push(L, *this);
    session->push(L, key);
    session->push(L, value);
    lua_settable(L, -3);
  });
}

int64_t Table::length() const {
  const auto session = reference_->open();
  int64_t result = 0;
  session->protect([&](lua_State* L) {
    session->push(L, *this);
    result = luaL_len(L, -1);
  });
  return result;
}

Values Function::call(const Values& arguments) const {
  const auto session = reference_->open();
  Values results;
  session->protect([&](lua_State* L) {
    session->push(L, *this);
    results = session->call_top(L, arguments);
  });
  return results;
}

}  // namespace moonlet
