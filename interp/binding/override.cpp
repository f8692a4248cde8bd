// interp/binding/override.cpp: the mode behind `ml.override`: a Lua function that gets each op with
// its arguments and goes on with it, or not.
#include "interp/binding/mode_guard.h"
#include "interp/binding/op_values.h"

namespace moonlet::binding {
namespace {

// What the handler's third argument refers to.
struct Ongoing {
  ModeCall* call;  // null once the handler has ended
  const BoxedValues* arguments;
};

// `call(arguments)` or `call(a, b, ...)`. Upvalue: the Ongoing.
int l_call(lua_State* L) {
  const auto& ongoing = *static_cast<Ongoing*>(lua_touserdata(L, lua_upvalueindex(1)));
  check(ongoing.call != nullptr, "override: `call` is used after its handler has ended");
  ModeCall& call = *ongoing.call;
  const BoxedValues& before = *ongoing.arguments;
  const int count = lua_gettop(L);
  call.arguments = count == 1 && is_arguments(L, 1, call.op)
                       ? arguments_at(L, 1, call.op, before)
                       : arguments_from(L, 1, count, call.op, before);
  call.results.clear();
  call.proceed();
  return push_results(L, call.results);
}

class Override final : public Mode {
 public:
  Override(lua_State* L, int handler) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    main_ = lua_tothread(L, -1);
    lua_pop(L, 1);
    lua_pushvalue(L, handler);
    ref_ = luaL_ref(L, LUA_REGISTRYINDEX);
  }
  // No later than the guard, which the state finalizes when it closes.
  ~Override() override { luaL_unref(main_, LUA_REGISTRYINDEX, ref_); }

  void call(ModeCall& call) override {
    lua_State* L = running_coroutine(main_);
    luaL_checkstack(L, 12, "handlers of ml.override nest too deeply");
    const int top = lua_gettop(L);
    const BoxedValues arguments = call.arguments;
    // The userdata stays on the stack: the handler may let go of its function early.
    auto* const ongoing = static_cast<Ongoing*>(lua_newuserdatauv(L, sizeof(Ongoing), 0));
    *ongoing = {&call, &arguments};
    struct End {
      Ongoing& ongoing;
      ~End() { ongoing.call = nullptr; }
    } const end{*ongoing};
    lua_rawgeti(L, LUA_REGISTRYINDEX, ref_);
    push_op(L, call.op);
    push_arguments(L, call.op, arguments);
    lua_pushvalue(L, top + 1);
    lua_pushcclosure(L, guard<l_call>, 1);
    lua_call(L, 3, LUA_MULTRET);
    const int count = lua_gettop(L) - top - 1;
    call.results = results_from(L, top + 2, count, call.op, arguments, call.results);
    lua_settop(L, top);
  }

 private:
  lua_State* main_ = nullptr;
  int ref_ = LUA_NOREF;
};

int l_override(lua_State* L) {
  check(lua_isfunction(L, 1), "override: a function (op, arguments, call) is wanted, got ",
        type_name(L, 1));
  push_mode_guard(L, std::make_shared<Override>(L, 1), "override");
  return 1;
}

}  // namespace

void register_override(lua_State* L) {
  static const luaL_Reg kModule[] = {{"_override", guard<l_override>}, {nullptr, nullptr}};
  set_functions(L, -2, kModule);
}

}  // namespace moonlet::binding
