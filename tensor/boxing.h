// tensor/boxing.h: from typed calls to boxed ones and back, for the generated code.
#pragma once

#include <type_traits>

#include "tensor/modes.h"

namespace moonlet::boxing {

inline BoxedValue box(const Tensor& v) { return v.defined() ? BoxedValue(v) : BoxedValue(); }
inline BoxedValue box(const Operand& v) {
  return v.is_tensor() ? BoxedValue(v.tensor()) : BoxedValue(v.scalar());
}
inline BoxedValue box(std::string_view v) { return std::string(v); }
inline BoxedValue box(const OptionalDims& v) {
  return v.given() ? BoxedValue(static_cast<const Dims&>(v)) : BoxedValue();
}
template <class T>
BoxedValue box(const std::optional<T>& v) {
  return v ? BoxedValue(*v) : BoxedValue();
}
template <class T>
BoxedValue box(const T& v) {
  return BoxedValue(v);
}

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

// What a T holds when it is given.
template <class T>
struct Held {
  using type = Dims;
};
template <class T>
struct Held<std::optional<T>> {
  using type = T;
};

[[noreturn]] void wrong_type(const char* wanted);
const Tensor& tensor_in(const BoxedValue& value);
Operand operand_in(const BoxedValue& value);
Scalar scalar_in(const BoxedValue& value);
double number_in(const BoxedValue& value);

// The C++ value of a boxed argument. Throws when it is of another kind.
template <class T>
T unbox(const BoxedValue& value) {
  if constexpr (std::is_same_v<T, Tensor>) {
    return tensor_in(value);
  } else if constexpr (std::is_same_v<T, Operand>) {
    return operand_in(value);
  } else if constexpr (std::is_same_v<T, Scalar>) {
    return scalar_in(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return number_in(value);
  } else if constexpr (is_optional<T> || std::is_same_v<T, OptionalDims>) {
    if (std::holds_alternative<std::monostate>(value)) return T();
    return unbox<typename Held<T>::type>(value);
  } else if constexpr (std::is_same_v<T, std::string_view>) {
    const auto* held = std::get_if<std::string>(&value);
    if (!held) wrong_type("a string");
    return *held;
  } else if constexpr (std::is_pointer_v<T>) {
    const T* held = std::get_if<T>(&value);
    return held ? *held : nullptr;
  } else {
    const T* held = std::get_if<T>(&value);
    if (!held) wrong_type("another type");
    return *held;
  }
}

template <class T>
void push_result(BoxedValues& results, T&& result) {
  results.push_back(box(result));
}
template <class... Ts>
void push_result(BoxedValues& results, std::tuple<Ts...>&& all) {
  std::apply([&](auto&... each) { (push_result(results, each), ...); }, all);
}

template <class F>
struct Call;
template <class R, class... P>
struct Call<R (*)(P...)> {
  template <R (*f)(P...), size_t... I>
  static void run(std::span<const BoxedValue> arguments, BoxedValues& results,
                  std::index_sequence<I...>) {
    if (arguments.size() != sizeof...(P)) wrong_type("another number of arguments");
    // Braces: in order, so that the first bad argument is the one named.
    std::tuple<std::remove_cvref_t<P>...> typed{unbox<std::remove_cvref_t<P>>(arguments[I])...};
    push_result(results, f(std::get<I>(typed)...));
  }
};

// The boxed form of a public op.
template <auto f>
void call(std::span<const BoxedValue> arguments, BoxedValues& results) {
  using Function = decltype(f);
  []<class R, class... P>(R (*)(P...), std::span<const BoxedValue> in, BoxedValues& out) {
    Call<Function>::template run<f>(in, out, std::index_sequence_for<P...>());
  }(f, arguments, results);
}

template <class R>
struct Results {
  static R take(BoxedValues& results) { return unbox<R>(results.at(0)); }
};
template <class... Ts>
struct Results<std::tuple<Ts...>> {
  static std::tuple<Ts...> take(BoxedValues& results) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return std::tuple<Ts...>(unbox<Ts>(results.at(I))...);
    }
    (std::index_sequence_for<Ts...>());
  }
};

// A call of a public op while modes are on the stack.
template <class R, class... Arguments>
[[gnu::noinline, gnu::cold]] R intercept(const OpInfo& op, const Arguments&... arguments) {
  BoxedValues in, out;
  in.reserve(sizeof...(Arguments));
  (in.push_back(box(arguments)), ...);
  moonlet::intercept(op, in, out);
  return Results<R>::take(out);
}

}  // namespace moonlet::boxing
