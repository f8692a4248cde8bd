// interp/embed/call_set.cpp: a script calls C++ functions of one name: which of them, with which
// arguments, and what is said when none fits.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>

#include "interp/embed/object_cell.h"
#include "interp/embed/session.h"
#include "interp/state/guard.h"
#include "interp/state/interrupt.h"
#include "tensor/runtime/stack.h"

namespace moonlet::detail {

namespace {
// What is returned for a Lua error whose value is on the stack.
constexpr int kRaise = std::numeric_limits<int>::min();

// What a script got wrong in a call: an error of the script, with its line. What a function of the
// host throws comes to the host as it is.
struct CallError : Error {
  using Error::Error;
};
}  // namespace

// --- texts ---------------------------------------------------------------------------------------

std::string describe(const FunctionSet& set, const Overload& overload, bool method) {
  const Form& form = *overload.form;
  const int skipped = method && overload.takes_self ? 1 : 0;
  std::string text = set.name.substr(set.name.rfind('.') + 1) + "(";
  for (int i = skipped; i < form.count; ++i) {
    const auto named = static_cast<size_t>(i - skipped);
    if (i > skipped) text += ", ";
    if (form.rest && i + 1 == form.count) {
      text += "...";
      break;
    }
    if (named < overload.names.size()) text += overload.names[named] + ": ";
    text += form.parameters[i]->name();
    const auto first = static_cast<size_t>(form.count) - overload.defaults.size();
    if (static_cast<size_t>(i) >= first)
      text += " = " + text_of(overload.defaults[static_cast<size_t>(i) - first]);
  }
  text += ")";
  if (form.result != nullptr) text += " -> " + form.result->name();
  return text;
}

std::string text_of(const Value& value) {
  struct Text {
    std::string operator()(Value::Nil) const { return "nil"; }
    std::string operator()(bool x) const { return x ? "true" : "false"; }
    std::string operator()(int64_t x) const { return std::to_string(x); }
    std::string operator()(double x) const {
      char text[40];
      std::snprintf(text, sizeof text, "%.14g", x);
      return text;
    }
    std::string operator()(const std::string& x) const { return "\"" + x + "\""; }
    std::string operator()(const Tensor&) const { return "Tensor"; }
    std::string operator()(const Table&) const { return "table"; }
    std::string operator()(const Function&) const { return "function"; }
    std::string operator()(const Object&) const { return "object"; }
  };
  return std::visit(Text{}, value.variant());
}

namespace {

// How many arguments must come.
int required_of(const Overload& overload) {
  const int without_defaults = overload.form->count - static_cast<int>(overload.defaults.size());
  return std::min(overload.form->required, without_defaults);
}

// Where the arguments begin: behind what a constructor is to make.
int first_of(const Frame& frame, const Form& form) {
  return form.first + (frame.target > 0 ? 1 : 0);
}

// How well the arguments fit, or -1.
int fit_of(Frame& frame, const Overload& overload) {
  const Form& form = *overload.form;
  const int first = first_of(frame, form);
  const int count = frame.top() - first + 1;
  if (count < required_of(overload) || (count > form.count && !form.rest)) return -1;
  int sum = 0;
  for (int i = 0; i < std::min(count, form.count); ++i) {
    const Fit fit = form.parameters[i]->fit(frame, first + i);
    if (fit == Fit::None) return -1;
    sum += fit == Fit::Exact ? 2 : 1;
  }
  // One that leaves no argument to a default is nearer.
  return 4 * sum + (count == form.count ? 1 : 0);
}

[[noreturn]] void refuse_all(Frame& frame, const FunctionSet& set) {
  const bool method = set.overloads[0].form->first == 2 || set.overloads[0].takes_self;
  std::string text = set.name + ": no overload takes (";
  const int first = method || frame.target > 0 ? 2 : 1;
  for (int i = first; i <= frame.top(); ++i) text += (i > first ? ", " : "") + frame.describe(i);
  text += "); candidates:";
  for (const Overload& each : set.overloads) text += "\n  " + describe(set, each, method);
  throw CallError(text);
}

const Overload& choose(Frame& frame, const FunctionSet& set) {
  const Overload* best = nullptr;
  int best_fit = -1;
  for (const Overload& each : set.overloads) {
    const int fit = fit_of(frame, each);
    if (fit <= best_fit) continue;
    best = &each;
    best_fit = fit;
  }
  if (best == nullptr) refuse_all(frame, set);
  return *best;
}

// Pushes the defaults of the arguments that were left out.
void push_defaults(Frame& frame, const Overload& overload) {
  const auto all = static_cast<size_t>(overload.form->count);
  const size_t first = all - overload.defaults.size();
  if (static_cast<size_t>(frame.count) < first) return;  // one without a default is missing
  frame.reserve(static_cast<int>(overload.defaults.size()) + 4);
  for (auto i = static_cast<size_t>(frame.count); i < all; ++i)
    frame.push_value(overload.defaults[i - first]);
  frame.count = static_cast<int>(all);
}

[[noreturn]] void refuse_argument(const Frame& frame, const FunctionSet& set,
                                  const Overload& overload, const ConversionError& error) {
  const int position = frame.current - (overload.takes_self ? 1 : 0);
  if (position == 0) {
    std::string advice;
    if (overload.form->first == 2 || overload.takes_self)
      advice =
          "; methods are called as object:" + set.name.substr(set.name.rfind('.') + 1) + "(...)";
    throw CallError(set.name + ": self: " + error.what() + advice);
  }
  std::string text = set.name + ": argument " + std::to_string(position);
  if (static_cast<size_t>(position) <= overload.names.size())
    text += " (" + overload.names[static_cast<size_t>(position) - 1] + ")";
  throw CallError(text + ": " + error.what());
}

void refuse_count(const Frame& frame, const FunctionSet& set, const Overload& overload) {
  const int skipped = overload.takes_self ? 1 : 0;
  throw CallError(set.name + ": expected at most " +
                  std::to_string(overload.form->count - skipped) + " arguments, got " +
                  std::to_string(frame.count - skipped));
}

// While alive, a virtual method of that name is the host's own: the script that calls it of the
// host's class has one that overrides it.
class BaseCall {
 public:
  BaseCall(lua_State* L, const FunctionSet& set) {
    ObjectCell* const cell = object_cell(L, 1);
    if (cell == nullptr || cell->overrides == nullptr || !cell->valid()) return;
    overrides_ = cell->overrides;
    lifetime_ = cell->lifetime;
    before_ = Access::set_base_call(*overrides_, set.name.c_str() + set.name.rfind('.') + 1);
  }
  ~BaseCall() {
    if (overrides_ != nullptr && !lifetime_.expired()) Access::set_base_call(*overrides_, before_);
  }
  BaseCall(const BaseCall&) = delete;
  BaseCall& operator=(const BaseCall&) = delete;

 private:
  Overrides* overrides_ = nullptr;
  std::weak_ptr<const void> lifetime_;
  const char* before_ = nullptr;
};

int invoke(lua_State* L, const FunctionSet& set, int target) {
  Frame frame(L);
  frame.target = target;
  const Overload& overload = set.overloads.size() == 1 ? set.overloads[0] : choose(frame, set);
  const Form& form = *overload.form;
  frame.first = first_of(frame, form);
  frame.count = std::max(0, lua_gettop(L) - frame.first + 1);
  if (frame.count > form.count && set.strict && !form.rest) refuse_count(frame, set, overload);
  if (frame.count < form.count && !overload.defaults.empty()) push_defaults(frame, overload);
  try {
    const BaseCall base_call(L, set);
    return form.invoke(frame, overload.callable.get());
  } catch (const ConversionError& e) {
    if (frame.current == kNoArgument) throw;
    refuse_argument(frame, set, overload, e);
  }
}

// --- results that come later ---------------------------------------------------------------------

// The registry key of the metatable of the userdata that hold an Awaitable.
constexpr char kAwaitables = 0;

int collect_awaitable(lua_State* L) {
  auto** const slot = static_cast<Awaitable**>(lua_touserdata(L, 1));
  delete std::exchange(*slot, nullptr);
  return 0;
}

void push_awaitable_metatable(lua_State* L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &kAwaitables) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_createtable(L, 0, 3);
  lua_pushcfunction(L, guard<collect_awaitable>);
  lua_setfield(L, -2, "__gc");
  lua_pushliteral(L, "future");
  lua_setfield(L, -2, "__name");
  lua_pushliteral(L, "future");
  lua_setfield(L, -2, "__metatable");
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kAwaitables);
}

int push_awaited(lua_State* L, Awaitable& awaitable) {
  try {
    Frame frame(L);
    lua_settop(L, 1);
    return awaitable.push(frame);
  } catch (const std::exception&) {
    Session::of(L).push_current_exception(L);
  } catch (...) {
    if (must_pass()) throw;
    Session::of(L).push_current_exception(L);
  }
  return lua_error(L);
}

// The awaitable is at 1. In a coroutine it is what the host gets; elsewhere the call waits.
int await(lua_State* L, int, lua_KContext) {
  lua_settop(L, 1);
  Awaitable& awaitable = **static_cast<Awaitable**>(lua_touserdata(L, 1));
  if (lua_isyieldable(L) != 0 && !awaitable.ready(std::chrono::milliseconds(0))) {
    lua_pushvalue(L, 1);
    return lua_yieldk(L, 1, 0, await);
  }
  constexpr std::chrono::milliseconds kStep(2);
  while (!awaitable.ready(kStep)) raise_stop(L);
  return push_awaited(L, awaitable);
}

int suspend(lua_State* L, int result) {
  if (result == kAwait) {
    lua_insert(L, 1);
    return await(L, LUA_OK, 0);
  }
  if (lua_isyieldable(L) == 0)
    return luaL_error(L, "a host function that yields was called outside of a coroutine");
  return lua_yield(L, -2 - result);
}

}  // namespace

void push_awaitable(Frame& frame, std::unique_ptr<Awaitable> awaitable) {
  lua_State* L = frame.state();
  frame.reserve(6);
  auto** const slot = static_cast<Awaitable**>(lua_newuserdatauv(L, sizeof(void*), 0));
  *slot = nullptr;
  push_awaitable_metatable(L);
  lua_setmetatable(L, -2);
  *slot = awaitable.release();
}

Awaitable* awaitable_at(lua_State* L, int index) {
  if (lua_type(L, index) != LUA_TUSERDATA || lua_getmetatable(L, index) == 0) return nullptr;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &kAwaitables);
  const bool same = lua_rawequal(L, -1, -2) != 0;
  lua_pop(L, 2);
  return same ? *static_cast<Awaitable**>(lua_touserdata(L, index)) : nullptr;
}

int call_set(lua_State* L, const FunctionSet& set, int target) {
  // What a host's own frames take is its affair.
  if (stack_is_short()) return luaL_error(L, "C stack overflow");
  int results = 0;
  try {
    results = invoke(L, set, target);
  } catch (const CallError& e) {
    push_exception(L, e);
    results = kRaise;
  } catch (const std::exception&) {
    Session::of(L).push_current_exception(L);
    results = kRaise;
  } catch (...) {
    if (must_pass()) throw;
    Session::of(L).push_current_exception(L);
    results = kRaise;
  }
  if (results >= 0) [[likely]]
    return results;
  return results == kRaise ? lua_error(L) : suspend(L, results);
}

}  // namespace moonlet::detail
