// moonlet/typed.h: calls and values with C++ types: lua.get<double>("config.rate"), functions of
// scripts as TypedFunction<double(double)>, functions of the host with any parameters. It has what
// moonlet/moonlet.h declares as templates.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "interp/embed/invoke.h"

#pragma GCC visibility push(default)

namespace moonlet {
namespace detail {

// A call of the host into a script: how the arguments are pushed and the results taken, by code
// that knows their types.
struct TypedCall {
  void (*push)(Stack& stack, const void* arguments);
  // The same without taking memory of Lua's and without any Lua error; false where that cannot be.
  // Null where it never can, or where results are taken that may raise one.
  bool (*push_unprotected)(Stack& stack, const void* arguments);
  void (*take)(Frame& frame, void* result);
  const void* arguments;
  void* result;
  int count;         // of arguments
  int results;       // -1: all
  const char* name;  // for messages
};
void call_typed(const Function& function, const TypedCall& call);

// What a path, or a key of a table, leads to.
using Take = void (*)(Stack& stack, int index, void* result);
using Push = void (*)(Stack& stack, void* value);
void get_typed(Interpreter& interpreter, const std::string& path, Take take, void* result);
void set_typed(Interpreter& interpreter, const std::string& path, Push push, void* value);
// `plain`: the conversion takes no memory of Lua's and raises no Lua error.
void get_typed(const Table& table, std::string_view key, bool plain, Take take, void* result);
void get_typed(const Table& table, int64_t key, bool plain, Take take, void* result);
void set_typed(const Table& table, const Value& key, Push push, void* value);
void register_typed(Interpreter& interpreter, const std::string& path, FunctionSet set);

template <class T>
inline constexpr bool kOutlives = !std::is_reference_v<T> && !std::is_same_v<T, std::string_view> &&
                                  !std::is_same_v<T, const char*>;

// The result of a call by its type: several for a tuple, all for Values.
template <class R>
constexpr int result_count() {
  if constexpr (std::is_void_v<R>)
    return 0;
  else if constexpr (std::is_same_v<R, Values>)
    return -1;
  else if constexpr (is_tuple<R>::value)
    return static_cast<int>(std::tuple_size_v<R>);
  else
    return 1;
}
template <class R>
constexpr bool taken_plainly() {
  if constexpr (std::is_void_v<R>)
    return true;
  else
    return kPlain<R> || std::is_same_v<R, std::string>;
}

template <class T>
T take_one(Frame& frame, int position) {
  frame.current = position + 1;
  return item<T>(frame, frame.first + position);
}
template <class R, size_t... I>
R take_tuple(Frame& frame, std::index_sequence<I...>) {
  return R{take_one<std::tuple_element_t<I, R>>(frame, static_cast<int>(I))...};
}
template <class R>
R take_results(Frame& frame) {
  if constexpr (std::is_same_v<R, Values>) {
    Values values;
    for (int i = 0; i < frame.count; ++i) values.push_back(frame.value(frame.first + i));
    return values;
  } else if constexpr (is_tuple<R>::value) {
    return take_tuple<R>(frame, std::make_index_sequence<std::tuple_size_v<R>>{});
  } else {
    frame.current = 1;
    return item<R>(frame, frame.first);
  }
}

template <class T>
struct Taken {
  static void take(Stack& stack, int index, void* result) {
    static_cast<std::optional<T>*>(result)->emplace(item<T>(stack, index));
  }
};
template <class T>
struct Pushed {
  using Plain = std::remove_reference_t<T>;
  static void push(Stack& stack, void* value) {
    Convert<Bare<T>>::push(stack, static_cast<T&&>(*static_cast<Plain*>(value)));
  }
};
// An argument of a call: what is given by value is moved.
template <class A>
void push_argument(Stack& stack, std::remove_reference_t<A>& argument) {
  Convert<Bare<A>>::push(stack, static_cast<A&&>(argument));
}
template <class T>
inline constexpr bool kMayPushUnprotected = kPlain<T> || std::is_same_v<T, Tensor>;
template <class A>
bool push_unprotected(Stack& stack, const std::remove_reference_t<A>& argument) {
  if constexpr (std::is_same_v<Bare<A>, Tensor>) {
    return stack.push_known_tensor(argument);
  } else {
    Convert<Bare<A>>::push(stack, argument);
    return true;
  }
}
template <class T>
void* address(T& value) {
  return const_cast<void*>(static_cast<const void*>(std::addressof(value)));
}

template <class F>
FunctionSet make_set(const std::string& name, F&& function) {
  FunctionSet set{name};
  set.overloads.push_back(make_overload(std::forward<F>(function)));
  return set;
}
template <class... F>
FunctionSet make_set(const std::string& name, Overloads<F...> functions) {
  FunctionSet set{name};
  std::apply(
      [&set](auto&... each) { (set.overloads.push_back(make_overload(std::move(each))), ...); },
      functions.functions);
  return set;
}

}  // namespace detail

// A function of a script with C++ types: TypedFunction<double(double)>. Several results are a
// tuple; Values are all of them. What does not fit is a ConversionError that names the function.
template <class R, class... A>
class TypedFunction<R(A...)> {
  static_assert(std::is_void_v<R> || detail::kOutlives<R>,
                "a result that would refer to what the script may have collected");

 public:
  TypedFunction() = default;
  explicit TypedFunction(Function function, std::string name = "function")
      : function_(std::move(function)), name_(std::move(name)) {}

  // Throws ScriptError, ConversionError, or what a host function threw.
  R operator()(A... arguments) const {
    if (!function_) throw Error("an empty TypedFunction was called");
    const std::tuple<std::remove_reference_t<A>&...> references(arguments...);
    detail::TypedCall call{};
    call.push = &push;
    call.arguments = &references;
    call.count = static_cast<int>(sizeof...(A));
    call.results = detail::result_count<R>();
    if constexpr (detail::taken_plainly<R>() &&
                  (detail::kMayPushUnprotected<detail::Bare<A>> && ...))
      call.push_unprotected = &push_unprotected;
    call.name = name_.c_str();
    if constexpr (std::is_void_v<R>) {
      detail::call_typed(*function_, call);
    } else {
      std::optional<R> result;
      call.take = [](detail::Frame& frame, void* to) {
        static_cast<std::optional<R>*>(to)->emplace(detail::take_results<R>(frame));
      };
      call.result = &result;
      detail::call_typed(*function_, call);
      return std::move(*result);
    }
  }

  explicit operator bool() const noexcept { return function_.has_value(); }
  // The function itself; throws Error when there is none.
  const Function& function() const {
    if (!function_) throw Error("an empty TypedFunction has no function");
    return *function_;
  }

 private:
  static void push(Stack& stack, const void* arguments) {
    (void)stack;
    std::apply(
        [&stack](auto&... each) {
          (void)stack;
          (detail::push_argument<A>(stack, each), ...);
        },
        *static_cast<const std::tuple<std::remove_reference_t<A>&...>*>(arguments));
  }

  static bool push_unprotected(Stack& stack, const void* arguments) {
    (void)stack;
    return std::apply(
        [&stack](auto&... each) {
          (void)stack;
          return (detail::push_unprotected<A>(stack, each) && ...);
        },
        *static_cast<const std::tuple<std::remove_reference_t<A>&...>*>(arguments));
  }

  std::optional<Function> function_;
  std::string name_;
};

template <class R, class... A>
struct Convert<TypedFunction<R(A...)>> {
  static std::string name() { return "function"; }
  static Fit fit(Stack& stack, int index) { return Convert<Function>::fit(stack, index); }
  static TypedFunction<R(A...)> get(Stack& stack, int index) {
    return TypedFunction<R(A...)>(Convert<Function>::get(stack, index));
  }
  static void push(Stack& stack, const TypedFunction<R(A...)>& value) {
    if (value)
      Convert<Function>::push(stack, value.function());
    else
      stack.push_nil();
  }
};

// nil is an empty function.
template <class R, class... A>
struct Convert<std::function<R(A...)>> {
  static std::string name() { return "function or nil"; }
  static Fit fit(Stack& stack, int index) {
    return stack.is_nil(index) ? Fit::Exact : Convert<Function>::fit(stack, index);
  }
  static std::function<R(A...)> get(Stack& stack, int index) {
    if (stack.is_nil(index)) return nullptr;
    return TypedFunction<R(A...)>(Convert<Function>::get(stack, index));
  }
  static void push(Stack& stack, std::function<R(A...)> value) {
    if (value == nullptr) return stack.push_nil();
    detail::push_function_set(stack, detail::make_set("host function", std::move(value)));
  }
};
template <class R, class... A>
struct Convert<R (*)(A...)> {
  static std::string name() { return "function"; }
  static Fit fit(Stack&, int) { return Fit::None; }
  static void push(Stack& stack, R (*value)(A...)) {
    if (value == nullptr) return stack.push_nil();
    detail::push_function_set(stack, detail::make_set("host function", value));
  }
};

// --- what moonlet/moonlet.h declares -------------------------------------------------------------

template <class T>
T Interpreter::get(const std::string& path) {
  static_assert(detail::kOutlives<T>, "what would refer to a string of the script");
  std::optional<T> result;
  detail::get_typed(*this, path, &detail::Taken<T>::take, &result);
  if constexpr (detail::is_typed_function<T>::value)
    return T(result->function(), path);
  else
    return std::move(*result);
}

template <class T, class Enable>
void Interpreter::set(const std::string& path, T&& value) {
  detail::set_typed(*this, path, &detail::Pushed<T&&>::push, detail::address(value));
}

template <class F, class Enable>
void Interpreter::register_function(const std::string& path, F&& function) {
  detail::register_typed(*this, path, detail::make_set(path, std::forward<F>(function)));
}

template <class T>
T Table::get(std::string_view key) const {
  static_assert(detail::kOutlives<T>, "what would refer to a string of the script");
  std::optional<T> result;
  detail::get_typed(*this, key, detail::taken_plainly<T>(), &detail::Taken<T>::take, &result);
  return std::move(*result);
}
template <class T>
T Table::get(int64_t key) const {
  static_assert(detail::kOutlives<T>, "what would refer to a string of the script");
  std::optional<T> result;
  detail::get_typed(*this, key, detail::taken_plainly<T>(), &detail::Taken<T>::take, &result);
  return std::move(*result);
}
template <class T, class Enable>
void Table::set(const Value& key, T&& value) const {
  detail::set_typed(*this, key, &detail::Pushed<T&&>::push, detail::address(value));
}

}  // namespace moonlet

#pragma GCC visibility pop
