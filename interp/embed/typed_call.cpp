// interp/embed/typed_call.cpp: calls into scripts, and values of theirs, with C++ types.
#include "interp/embed/typed.h"

#include <algorithm>

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
  frame.count = call.results >= 0 ? call.results : lua_gettop(L) - first + 1;
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

namespace {

// A call whose arguments and results need no protection, with only the function in a protected
// call; false, and nothing was done, where the arguments do not pass so.
bool call_unprotected(Session& session, const Visit& visit, const Reference& function,
                      const TypedCall& call) {
  lua_State* L = visit.L;
  lua_pushcfunction(L, guard<Session::handle_error>);
  lua_rawgeti(L, LUA_REGISTRYINDEX, function.key);
  Stack stack(L);
  if (!call.push_unprotected(stack, call.arguments)) {
    lua_settop(L, visit.top);
    return false;
  }
  const int status = lua_pcall(L, call.count, call.results, visit.top + 1);
  if (status != LUA_OK) session.throw_error(L, status);
  session.check_stopped();
  take_results(L, visit.top + 2, call);
  return true;
}

}  // namespace

void call_typed(const Function& function, const TypedCall& call) {
  const Reference& reference = *Access::reference(function);
  Session& session = reference.open();
  const Visit visit(session);
  visit.reserve(static_cast<size_t>(std::max(call.count, call.results)) + 4);
  if (call.push_unprotected != nullptr && !session.control->releases->has_waiting() &&
      call_unprotected(session, visit, reference, call))
    return;
  session.protect(visit, [&](lua_State* L) {
    luaL_checkstack(L, call.count + LUA_MINSTACK, "too many arguments");
    lua_rawgeti(L, LUA_REGISTRYINDEX, reference.key);
    Stack stack(L);
    call.push(stack, call.arguments);
    lua_call(L, call.count, call.results);
    take_results(L, 1, call);
  });
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

namespace {

// Takes what a held table has there, without a protected call: pushing the key and taking the value
// must not raise a Lua error. Returns false, with the stack as it was, when the key is not pushed,
// or the value does not fit and the message is to be made.
template <class PushKey>
bool take_unprotected(Session& session, const Reference& table, PushKey&& push_key, Take take,
                      void* result) {
  lua_State* L = session.data.running;
  if (session.data.stop.requested() || lua_checkstack(L, 4) == 0) return false;
  const StackTop restored(L);
  lua_rawgeti(L, LUA_REGISTRYINDEX, table.key);
  if (!push_key(L)) return false;
  Stack stack(L);
  try {
    take(stack, restored.top + 2, result);
    return true;
  } catch (const ConversionError&) {
    return false;
  }
}

}  // namespace

void get_typed(const Table& table, std::string_view key, bool plain, Take take, void* result) {
  const Reference& reference = *Access::reference(table);
  Session& session = reference.open();
  const auto push_known = [&](lua_State* L) {
    if (!session.names.push_known(L, key)) return false;
    lua_rawget(L, -2);
    return true;
  };
  if (plain && take_unprotected(session, reference, push_known, take, result)) return;
  session.protect([&](lua_State* L) {
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

void get_typed(const Table& table, int64_t key, bool plain, Take take, void* result) {
  const Reference& reference = *Access::reference(table);
  Session& session = reference.open();
  const auto push_item = [&](lua_State* L) {
    lua_rawgeti(L, -1, key);
    return true;
  };
  if (plain && take_unprotected(session, reference, push_item, take, result)) return;
  session.protect([&](lua_State* L) {
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
    session.push_key(L, key);
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
