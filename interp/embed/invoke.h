// moonlet/invoke.h: how scripts call C++ functions: the form of a function (its parameters and
// result) with the code that reads arguments, calls and pushes results. Code is made for each form,
// not for each function.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "interp/embed/convert.h"
#include "interp/embed/object.h"

#pragma GCC visibility push(default)

namespace moonlet {

// What a host function returns to suspend the coroutine that called it: the values go to who
// resumes the coroutine, and what that one gives is what the function returns to the script.
class Yield {
 public:
  template <class... T>
  explicit Yield(T&&... values) : values{Value(std::forward<T>(values))...} {}
  Values values;
};

namespace detail {

// No argument is being read: the function runs.
inline constexpr int kNoArgument = -1;

// The arguments of a call by a script.
struct Frame : Stack {
  using Stack::Stack;
  int current = kNoArgument;  // the argument that is read now, from 1; 0: `self`
  int first = 1;              // where the first argument stands
  int count = 0;              // how many there are
  int target = 0;             // where an object stands that a constructor is to make, or 0
};

// What is known of a C++ type.
struct TypeInfo {
  std::string (*name)();
  Fit (*fit)(Stack& stack, int index);
};
template <class T>
inline constexpr TypeInfo kTypeInfo{&Convert<T>::name, &Convert<T>::fit};

// The form of a C++ function. `invoke` returns the number of results on the stack, or what
// suspend_ says.
struct Form {
  int (*invoke)(Frame& frame, const void* callable);
  const TypeInfo* const* parameters;
  const TypeInfo* result;  // null: nothing
  int count;
  int required;   // without the optional ones at the end
  bool rest;      // the last parameter takes all further arguments
  int first = 1;  // where the first argument stands; 2: behind `self`
};

// One C++ function among those of a name.
struct Overload {
  const Form* form = nullptr;
  std::shared_ptr<const void> callable;
  std::vector<std::string> names = {};  // of the parameters, where they are known
  Values defaults = {};                 // of the last ones
  bool takes_self = false;              // the first parameter is the object of a method
};

// The C++ functions that scripts call by one name.
struct FunctionSet {
  std::string name;  // for messages: "Synth.note"
  std::string text = {};
  std::vector<Overload> overloads = {};
  bool strict = false;  // more arguments than parameters are an error
};

// Negative results of `invoke`: the coroutine is suspended with so many values, or until the
// awaitable on top of the stack has its result.
inline constexpr int kAwait = -1;
inline int suspended_with(int values) { return -2 - values; }

// A result that comes later.
struct Awaitable {
  virtual ~Awaitable() = default;
  // Whether the result is there, waiting that long for it.
  virtual bool ready(std::chrono::milliseconds wait) = 0;
  // Pushes the result; throws what the future has in its stead.
  virtual int push(Frame& frame) = 0;
};
void push_awaitable(Frame& frame, std::unique_ptr<Awaitable> awaitable);

// --- arguments -----------------------------------------------------------------------------------

template <class T>
inline constexpr bool kIsObject = std::is_base_of_v<ObjectConversion, Convert<T>>;

template <class A>
inline constexpr bool kIsRest = std::is_same_v<Bare<A>, Values>;

template <class A>
decltype(auto) get_argument(Frame& frame, int position) {
  frame.current = position + 1;
  const int index = frame.first + position;
  if constexpr (kIsRest<A>) {
    Values rest;
    for (int i = index; i < frame.first + frame.count; ++i) rest.push_back(frame.value(i));
    return rest;
  } else if constexpr (kIsObject<Bare<A>>) {
    constexpr bool kChanges =
        std::is_lvalue_reference_v<A> && !std::is_const_v<std::remove_reference_t<A>>;
    return Convert<Bare<A>>::template reference<kChanges>(frame, index);
  } else {
    static_assert(!std::is_lvalue_reference_v<A> || std::is_const_v<std::remove_reference_t<A>>,
                  "a non-const reference to a converted value: what is written would be lost");
    return Convert<Bare<A>>::get(frame, index);
  }
}

// The argument itself, from what was kept of it.
template <class A, class Kept, class K>
A pass(K& kept) {
  if constexpr (std::is_reference_v<A> || std::is_reference_v<Kept>)
    return static_cast<A>(kept);
  else
    return static_cast<A>(std::move(kept));
}

// --- results -------------------------------------------------------------------------------------

template <class T>
struct is_future : std::false_type {};
template <class T>
struct is_future<std::future<T>> : std::true_type {};
template <class T>
struct is_future<std::shared_future<T>> : std::true_type {};

template <class T>
struct is_tuple : std::false_type {};
template <class... T>
struct is_tuple<std::tuple<T...>> : std::true_type {};
template <class A, class B>
struct is_tuple<std::pair<A, B>> : std::true_type {};

template <class Future>
struct AwaitableFuture;

template <class R>
int push_result(Frame& frame, R&& result) {
  using T = Bare<R>;
  if constexpr (is_tuple<T>::value) {
    frame.reserve(static_cast<int>(std::tuple_size_v<T>) + 4);
    std::apply(
        [&frame](auto&&... each) {
          (Convert<Bare<decltype(each)>>::push(frame, std::forward<decltype(each)>(each)), ...);
        },
        std::forward<R>(result));
    return static_cast<int>(std::tuple_size_v<T>);
  } else if constexpr (std::is_same_v<T, Values>) {
    frame.reserve(static_cast<int>(result.size()) + 4);
    for (const Value& each : result) frame.push_value(each);
    return static_cast<int>(result.size());
  } else if constexpr (std::is_same_v<T, Yield>) {
    frame.reserve(static_cast<int>(result.values.size()) + 4);
    for (const Value& each : result.values) frame.push_value(each);
    return suspended_with(static_cast<int>(result.values.size()));
  } else if constexpr (is_future<T>::value) {
    push_awaitable(frame, std::make_unique<AwaitableFuture<T>>(std::forward<R>(result)));
    return kAwait;
  } else if constexpr (kIsObject<T> && std::is_lvalue_reference_v<R>) {
    // A reference into what the function was called on keeps that alive.
    Convert<T>::push_reference(frame, result);
    return 1;
  } else {
    Convert<T>::push(frame, std::forward<R>(result));
    return 1;
  }
}

template <class Future>
struct AwaitableFuture : Awaitable {
  explicit AwaitableFuture(Future given) : future(std::move(given)) {}
  // What is deferred runs when its result is asked for.
  bool ready(std::chrono::milliseconds wait) override {
    return future.wait_for(wait) != std::future_status::timeout;
  }
  int push(Frame& frame) override {
    if constexpr (std::is_void_v<decltype(future.get())>) {
      future.get();
      return 0;
    } else {
      auto&& result = future.get();
      return push_result(frame, std::forward<decltype(result)>(result));
    }
  }
  Future future;
};

// --- forms ---------------------------------------------------------------------------------------

template <class T>
struct is_optional : std::false_type {};
template <class T>
struct is_optional<std::optional<T>> : std::true_type {};

template <class... A>
constexpr int required_count() {
  int required = 0, position = 0;
  ((++position, required = is_optional<Bare<A>>::value || kIsRest<A> ? required : position), ...);
  return required;
}
template <class... A>
constexpr bool has_rest() {
  bool rest = false;
  ((rest = kIsRest<A>), ...);
  return rest;
}
template <class R>
constexpr const TypeInfo* result_info() {
  if constexpr (std::is_void_v<R> || is_tuple<Bare<R>>::value || std::is_same_v<Bare<R>, Values> ||
                std::is_same_v<Bare<R>, Yield> || is_future<Bare<R>>::value)
    return nullptr;
  else
    return &kTypeInfo<Bare<R>>;
}
template <class A>
constexpr const TypeInfo* parameter_info() {
  if constexpr (kIsRest<A>)
    return &kTypeInfo<Value>;
  else
    return &kTypeInfo<Bare<A>>;
}
template <class... A>
inline constexpr const TypeInfo* kParameters[sizeof...(A) + 1] = {parameter_info<A>()..., nullptr};

// Reads the arguments, calls `call` with them and pushes what it returns.
template <class R, class... A, class Call, size_t... I>
int run(Frame& frame, Call&& call, std::index_sequence<I...>) {
  // Braces keep the order, so that messages name the first argument that is wrong.
  std::tuple<decltype(get_argument<A>(frame, 0))...> kept{
      get_argument<A>(frame, static_cast<int>(I))...};
  (void)kept;
  frame.current = kNoArgument;
  if constexpr (std::is_void_v<R>) {
    call(pass<A, decltype(get_argument<A>(frame, 0))>(std::get<I>(kept))...);
    return 0;
  } else {
    return push_result<R>(frame,
                          call(pass<A, decltype(get_argument<A>(frame, 0))>(std::get<I>(kept))...));
  }
}

// Functions and function objects of the type F, called with R(A...).
template <class F, class R, class... A>
struct FunctionForm {
  static int invoke(Frame& frame, const void* callable) {
    // The host's own object: scripts call it as its owner would.
    auto& f = *static_cast<F*>(const_cast<void*>(callable));
    return run<R, A...>(
        frame, [&f](A... a) -> R { return f(std::forward<A>(a)...); },
        std::index_sequence_for<A...>{});
  }
  static constexpr Form form{&invoke,      kParameters<A...>,      result_info<R>(),
                             sizeof...(A), required_count<A...>(), has_rest<A...>()};
};

// R(A...) of a function, a function pointer or an object with one `operator()`.
template <class F, class = void>
struct signature_of;
template <class R, class... A>
struct signature_of<R (*)(A...)> {
  using type = R(A...);
};
template <class R, class... A>
struct signature_of<R (*)(A...) noexcept> {
  using type = R(A...);
};
template <class M>
struct signature_of_member;
#define MOONLET_MEMBER_SIGNATURE(QUALIFIERS)              \
  template <class C, class R, class... A>                 \
  struct signature_of_member<R (C::*)(A...) QUALIFIERS> { \
    using type = R(A...);                                 \
  };
MOONLET_MEMBER_SIGNATURE()
MOONLET_MEMBER_SIGNATURE(const)
MOONLET_MEMBER_SIGNATURE(noexcept)
MOONLET_MEMBER_SIGNATURE(const noexcept)
#undef MOONLET_MEMBER_SIGNATURE
template <class F>
struct signature_of<F, std::void_t<decltype(&F::operator())>>
    : signature_of_member<decltype(&F::operator())> {};

template <class F, class Signature>
struct form_of;
template <class F, class R, class... A>
struct form_of<F, R(A...)> : FunctionForm<F, R, A...> {};

template <class F>
Overload make_overload(F&& function) {
  using Held = std::decay_t<F>;
  using Signature = typename signature_of<Held>::type;
  return {&form_of<Held, Signature>::form, std::make_shared<Held>(std::forward<F>(function))};
}

template <class F, class = void>
struct is_callable : std::false_type {};
template <class F>
struct is_callable<F, std::void_t<typename signature_of<std::decay_t<F>>::type>> : std::true_type {
};

// Pushes a Lua function that calls the set; it ends when no script can reach it any more.
void push_function_set(Stack& stack, FunctionSet set);

}  // namespace detail

// Functions of one name that a script tells apart by their arguments: overload(f, g).
template <class... F>
struct Overloads {
  std::tuple<F...> functions;
};
template <class... F>
Overloads<std::decay_t<F>...> overload(F&&... functions) {
  return {{std::forward<F>(functions)...}};
}

template <class Signature>
class TypedFunction;

namespace detail {
template <class F>
struct is_typed : std::false_type {};
template <class S>
struct is_typed<std::function<S>> : std::true_type {};
template <class S>
struct is_typed<TypedFunction<S>> : std::true_type {};
template <class T>
struct is_typed_function : std::false_type {};
template <class S>
struct is_typed_function<TypedFunction<S>> : std::true_type {};
}  // namespace detail

// A C++ function as a value of the script; those of moonlet/typed.h pass both ways.
template <class F>
struct Convert<F, std::enable_if_t<std::is_class_v<F> && detail::is_callable<F>::value &&
                                   !detail::is_typed<F>::value>> {
  static std::string name() { return "function"; }
  static Fit fit(Stack& stack, int index) { return Convert<Function>::fit(stack, index); }
  template <class G>
  static void push(Stack& stack, G&& function) {
    detail::FunctionSet set{"host function"};
    set.overloads.push_back(detail::make_overload(std::forward<G>(function)));
    detail::push_function_set(stack, std::move(set));
  }
};

}  // namespace moonlet

#pragma GCC visibility pop
