// interp/embed/typed_call.cpp: calls into scripts, and values of theirs, with C++ types.
#include "interp/embed/typed.h"

#include "interp/embed/class_record.h"
#include "interp/embed/path.h"
#include "interp/embed/visit.h"
#include "interp/state/guard.h"

namespace moonlet::detail {

namespace {

// Takes the results, which stand from `first` on.
void take_results(lua_State* L, int first, const TypedCall& call) {
  if (call.take == nullptr) return;
  Frame frame(L);
  frame.first = first;
  frame.count = lua_gettop(L) - first + 1;
  try {
    call.take(frame, call.result);
  } catch (const ConversionError& e) {
    if (frame.current == kNoArgument) throw;
    throw ConversionError(std::string(call.name) + ": result " + std::to_string(frame.current) +
                          ": " + e.what());
  }
}

// What `body` throws as a ConversionError names what was asked for.
template <class Body>
void naming(const char* op, const std::string& what, Body&& body) {
  try {
    body();
  } catch (const ConversionError& e) {
    throw ConversionError(std::string(op) + ": '" + what + "': " + e.what());
  }
}

}  // namespace

void call_typed(const Function& function, const TypedCall& call) {
  const Reference& reference = *Access::reference(function);
  Session& session = reference.open();
  if (!call.plain || session.control->releases->has_waiting()) {
    session.protect([&](lua_State* L) {
      luaL_checkstack(L, call.count + LUA_MINSTACK, "too many arguments");
      lua_rawgeti(L, LUA_REGISTRYINDEX, reference.key);
      Stack stack(L);
      call.push(stack, call.arguments);
      lua_call(L, call.count, call.results);
      take_results(L, 1, call);
    });
    return;
  }
  const Visit visit(session);
  lua_State* L = visit.L;
  visit.reserve(static_cast<size_t>(call.count) + LUA_MINSTACK);
  lua_pushcfunction(L, guard<Session::handle_error>);
  lua_rawgeti(L, LUA_REGISTRYINDEX, reference.key);
  Stack stack(L);
  call.push(stack, call.arguments);
  const int status = lua_pcall(L, call.count, call.results, visit.top + 1);
  if (status != LUA_OK) session.throw_error(L, status);
  session.check_stopped(L);
  take_results(L, visit.top + 2, call);
}

void get_typed(Interpreter& interpreter, const std::string& path, Take take, void* result) {
  Session& session = Access::session(interpreter);
  session.protect([&](lua_State* L) {
    push_path(L, path, "get");
    Stack stack(L);
    naming("get", path, [&] { take(stack, stack.top(), result); });
  });
}

void set_typed(Interpreter& interpreter, const std::string& path, Push push, void* value) {
  Session& session = Access::session(interpreter);
  session.protect([&](lua_State* L) {
    push_position(L, path, "set");
    Stack stack(L);
    naming("set", path, [&] { push(stack, value); });
    lua_settable(L, -3);
  });
}

void get_typed(const Table& table, std::string_view key, Take take, void* result) {
  const Reference& reference = *Access::reference(table);
  reference.open().protect([&](lua_State* L) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, reference.key);
    Stack stack(L);
    stack.push_field(1, key);
    try {
      take(stack, 2, result);
    } catch (const ConversionError& e) {
      rethrow_within(e, "field '" + std::string(key) + "'");
    }
  });
}

void get_typed(const Table& table, int64_t key, Take take, void* result) {
  const Reference& reference = *Access::reference(table);
  reference.open().protect([&](lua_State* L) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, reference.key);
    Stack stack(L);
    stack.push_item(1, key);
    try {
      take(stack, 2, result);
    } catch (const ConversionError& e) {
      rethrow_within(e, "item " + std::to_string(key));
    }
  });
}

void set_typed(const Table& table, const Value& key, Push push, void* value) {
  const Reference& reference = *Access::reference(table);
  Session& session = reference.open();
  session.protect([&](lua_State* L) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, reference.key);
    session.push(L, key);
    Stack stack(L);
    push(stack, value);
    lua_settable(L, 1);
  });
}

void register_typed(Interpreter& interpreter, const std::string& path, FunctionSet set) {
  Access::session(interpreter).protect([&](lua_State* L) {
    push_position(L, path, "register_function");
    Stack stack(L);
    push_function_set(stack, std::move(set));
    lua_settable(L, -3);
  });
}

}  // namespace moonlet::detail
