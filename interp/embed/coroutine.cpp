// interp/embed/coroutine.cpp: coroutines of scripts that the host resumes.
#include "interp/embed/coroutine.h"

#include "interp/embed/class_record.h"
#include "interp/embed/session.h"
#include "interp/state/blame.h"
#include "interp/state/entry.h"

namespace moonlet {

using detail::Access;
using detail::Reference;
using detail::Session;

namespace {

lua_State* thread_of(lua_State* L, const Reference& reference) {
  luaL_checkstack(L, 4, "too many coroutines");
  lua_rawgeti(L, LUA_REGISTRYINDEX, reference.key);
  lua_State* const co = lua_tothread(L, -1);
  lua_pop(L, 1);  // the registry keeps it
  return co;
}

bool is_suspended(lua_State* co) {
  if (lua_status(co) == LUA_YIELD) return true;
  lua_Debug info;
  return lua_status(co) == LUA_OK && lua_getstack(co, 0, &info) == 0 && lua_gettop(co) > 0;
}

bool is_running(lua_State* co) {
  lua_Debug info;
  return lua_status(co) == LUA_OK && lua_getstack(co, 0, &info) != 0;
}

// Raises the error on top of the coroutine as one of L, with the coroutine's own traceback.
[[noreturn]] void raise_error(lua_State* L, lua_State* co) {
  luaL_checkstack(L, 6, "too many coroutines");
  lua_xmove(co, L, 1);
  if (lua_type(L, -1) == LUA_TSTRING) blame_script(L, co);
  luaL_traceback(L, co, nullptr, 0);
  Session::of(L).coroutine_traceback = lua_tostring(L, -1);
  lua_pop(L, 1);
  lua_error(L);
  std::abort();  // lua_error does not return
}

}  // namespace

Coroutine::Coroutine(const Function& function) {
  const Reference& held = *Access::reference(function);
  Session& session = held.open();
  session.protect([&](lua_State* L) {
    lua_State* const co = lua_newthread(L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, held.key);
    lua_xmove(L, co, 1);
    reference_ = session.refer(L, -1);
  });
}

Values Coroutine::resume_values(const Values& arguments) const {
  Session& session = reference_->open();
  Values values;
  session.protect([&](lua_State* L) {
    lua_State* const co = thread_of(L, *reference_);
    if (!is_suspended(co)) fail("resume: the coroutine ", is_running(co) ? "runs" : "is dead");
    const int count = static_cast<int>(arguments.size());
    luaL_checkstack(L, count + 4, "too many arguments to resume");
    if (lua_checkstack(co, count + 4) == 0) fail("resume: too many arguments");
    for (const Value& each : arguments) session.push(L, each);
    lua_xmove(L, co, count);
    int results = 0;
    const int status = resume_coroutine(L, co, count, &results);
    if (status != LUA_OK && status != LUA_YIELD) raise_error(L, co);
    luaL_checkstack(L, results + 4, "too many results of a coroutine");
    lua_xmove(co, L, results);
    // What it waits for is no value of the host's.
    if (results == 1 && status == LUA_YIELD && detail::awaitable_at(L, -1) != nullptr) return;
    values = session.take_from(L, lua_gettop(L) - results + 1);
  });
  return values;
}

Coroutine::Status Coroutine::status() const {
  Status status = Status::Dead;
  reference_->open().protect([&](lua_State* L) {
    lua_State* const co = thread_of(L, *reference_);
    if (is_suspended(co)) status = Status::Suspended;
    if (is_running(co)) status = Status::Running;
  });
  return status;
}

bool Coroutine::waits() const {
  bool waits = false;
  reference_->open().protect([&](lua_State* L) {
    lua_State* const co = thread_of(L, *reference_);
    if (lua_status(co) != LUA_YIELD || lua_gettop(co) == 0) return;
    // The argument of the function that waits.
    detail::Awaitable* const awaited = detail::awaitable_at(co, 1);
    waits = awaited != nullptr && !awaited->ready(std::chrono::milliseconds(0));
  });
  return waits;
}

Fit Convert<Coroutine>::fit(Stack& stack, int index) {
  return lua_isthread(stack.state(), index) ? Fit::Exact : Fit::None;
}

Coroutine Convert<Coroutine>::get(Stack& stack, int index) {
  if (!lua_isthread(stack.state(), index)) stack.refuse(index, name());
  return Coroutine(Session::of(stack.state()).refer(stack.state(), index));
}

void Convert<Coroutine>::push(Stack& stack, const Coroutine& value) {
  const Reference& reference = *value.reference_;
  if (&reference.open() != &Session::of(stack.state()))
    throw Error("a value of another interpreter was given");
  lua_rawgeti(stack.state(), LUA_REGISTRYINDEX, reference.key);
}

}  // namespace moonlet
