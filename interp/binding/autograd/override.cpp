// interp/binding/autograd/override.cpp: the mode behind `ml.override`: a Lua function that gets
// each op with its arguments and goes on with it, or not.
#include "interp/binding/autograd/mode_guard.h"
#include "interp/binding/op_values.h"

namespace moonlet::binding {
namespace {

// What the handler's third argument refers to.
struct InterceptedCall {
  ModeCall* call;  // null once the handler has ended
  const BoxedValues* arguments;
};

// `call(arguments)` or `call(a, b, ...)`. Upvalue: the InterceptedCall.
int l_call(lua_State* L) {
  const auto& intercepted = *static_cast<InterceptedCall*>(lua_touserdata(L, lua_upvalueindex(1)));
  check(intercepted.call != nullptr, "override: `call` is used after its handler has ended");
  ModeCall& call = *intercepted.call;
  const BoxedValues& before = *intercepted.arguments;
  const int count = lua_gettop(L);
  call.arguments = count == 1 && is_arguments(L, 1, call.op)
                       ? arguments_at(L, 1, call.op, before)
                       : arguments_from(L, 1, count, call.op, before);
  call.results.clear();
  call.proceed();
  return push_results(L, call.results);
}

// One per interpreter: from the address of an Override to the guard that holds it, weakly. The
// handler is the guard's user value, so that a handler that refers to its guard can be collected.
constexpr char kGuards = 0;

class Override final : public Mode {
 public:
  explicit Override(lua_State* main) : main_(main) {}

  void call(ModeCall& call) override {
    lua_State* L = running_coroutine(main_);
    luaL_checkstack(L, 12, "handlers of ml.override nest too deeply");
    const int top = lua_gettop(L);
    const BoxedValues arguments = call.arguments;
    // The userdata stays on the stack: the handler may let go of its function early.
    auto* const intercepted =
        static_cast<InterceptedCall*>(lua_newuserdatauv(L, sizeof(InterceptedCall), 0));
    *intercepted = {&call, &arguments};
    struct End {
      InterceptedCall& intercepted;
      ~End() { intercepted.call = nullptr; }
    } const end{*intercepted};
    if (!push_handler(L)) {
      call.proceed();
      lua_settop(L, top);
      return;
    }
    const int handler = lua_gettop(L);
    push_op(L, call.op);
    push_arguments(L, call.op, arguments);
    lua_pushvalue(L, top + 1);
    lua_pushcclosure(L, op_guard<l_call>, 1);
    lua_call(L, 3, LUA_MULTRET);
    const int count = lua_gettop(L) - handler + 1;
    call.results = results_from(L, handler, count, call.op, arguments, call.results);
    lua_settop(L, top);
  }

 private:
  // On top of the stack. False when the guard is being collected.
  bool push_handler(lua_State* L) const {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &kGuards);
    if (lua_rawgetp(L, -1, this) == LUA_TNIL) return false;
    lua_getiuservalue(L, -1, 1);
    return true;
  }

  lua_State* const main_;
};

void push_guards(lua_State* L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &kGuards) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kGuards);
}

int l_override(lua_State* L) {
  check(is_callable(L, 1), "override: a function (op, arguments, call) is expected, got ",
        type_name(L, 1));
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  const auto mode = memory::make_shared<Override>(lua_tothread(L, -1));
  push_guards(L);
  push_mode_guard(L, mode, "override");
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, -3, mode.get());
  return 1;
}

}  // namespace

void register_override(lua_State* L) {
  static const luaL_Reg kModule[] = {{"_override", guard<l_override>}, {nullptr, nullptr}};
  set_functions(L, -2, kModule);
}

}  // namespace moonlet::binding
