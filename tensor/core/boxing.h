// tensor/core/boxing.h: from typed calls to boxed ones and back, for the generated code.
#pragma once

#include <type_traits>

#include "tensor/runtime/modes.h"

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

// A boxed value is not of the kind that a position takes. Where the op is known it becomes an error
// that names it.
struct WrongKind : Error {
  WrongKind(int at, const char* kind)
      : Error(text("argument ", at + 1, " must be ", kind)), position(at), wanted(kind) {}
  int position;  // from 0
  const char* wanted;
};

const Tensor& tensor_in(const BoxedValue& value, int position);
Operand operand_in(const BoxedValue& value, int position);
Scalar scalar_in(const BoxedValue& value, int position);
double number_in(const BoxedValue& value, int position);

template <class T>
constexpr const char* kind_name() {
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (std::is_same_v<T, int64_t>) return "an integer";
  if constexpr (std::is_same_v<T, DType>) return "a dtype";
  if constexpr (std::is_same_v<T, Device>) return "a device";
  if constexpr (std::is_same_v<T, std::vector<Tensor>>) return "a list of tensors";
  if constexpr (std::is_same_v<T, std::string>) return "a string";
  if constexpr (std::is_same_v<T, MemoryFormat>) return "a memory format";
  if constexpr (std::is_same_v<T, Options>) return "a dtype and device";
  if constexpr (std::is_same_v<T, std::vector<double>>) return "a list of numbers";
  return "a list of integers";
}

template <class T>
const T& held_in(const BoxedValue& value, int position) {
  const T* held = std::get_if<T>(&value);
  if (!held) throw WrongKind{position, kind_name<T>()};
  return *held;
}

// The C++ value of a boxed one. Throws WrongKind.
template <class T>
T unbox(const BoxedValue& value, int position) {
  if constexpr (std::is_same_v<T, Tensor>) {
    return tensor_in(value, position);
  } else if constexpr (std::is_same_v<T, Operand>) {
    return operand_in(value, position);
  } else if constexpr (std::is_same_v<T, Scalar>) {
    return scalar_in(value, position);
  } else if constexpr (std::is_same_v<T, double>) {
    return number_in(value, position);
  } else if constexpr (is_optional<T> || std::is_same_v<T, OptionalDims>) {
    if (std::holds_alternative<std::monostate>(value)) return T();
    return unbox<typename Held<T>::type>(value, position);
  } else if constexpr (std::is_same_v<T, std::string_view>) {
    return held_in<std::string>(value, position);
  } else if constexpr (std::is_pointer_v<T>) {
    const T* held = std::get_if<T>(&value);
    return held ? *held : nullptr;
  } else {
    return held_in<T>(value, position);
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
    // Braces: in order, so that the first bad argument is the one named.
    std::tuple<std::remove_cvref_t<P>...> typed{
        unbox<std::remove_cvref_t<P>>(arguments[I], static_cast<int>(I))...};
    if constexpr (std::is_void_v<R>)
      f(std::get<I>(typed)...);
    else
      push_result(results, f(std::get<I>(typed)...));
  }
};

// The boxed form of an op.
template <auto f>
void call(std::span<const BoxedValue> arguments, BoxedValues& results) {
  using Function = decltype(f);
  []<class R, class... P>(R (*)(P...), std::span<const BoxedValue> in, BoxedValues& out) {
    Call<Function>::template run<f>(in, out, std::index_sequence_for<P...>());
  }(f, arguments, results);
}

template <class R>
struct Results {
  static constexpr size_t count = 1;
  static R take(const BoxedValues& results) { return unbox<R>(results[0], 0); }
};
template <class... Ts>
struct Results<std::tuple<Ts...>> {
  static constexpr size_t count = sizeof...(Ts);
  static std::tuple<Ts...> take(const BoxedValues& results) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return std::tuple<Ts...>(unbox<Ts>(results[I], static_cast<int>(I))...);
    }
    (std::index_sequence_for<Ts...>());
  }
};

// Throws when modes gave another number of results.
void check_result_count(const OpInfo& op, size_t given, size_t wanted);
[[noreturn]] void wrong_result(const OpInfo& op, const WrongKind& wrong,
                               const BoxedValues& results);

// A call of a public op by way of `target`: the modes (`intercept`), or vmap.
template <class R, class... Arguments>
[[gnu::noinline, gnu::cold]] R call_through(void (*target)(const OpInfo&, BoxedValues&,
                                                           BoxedValues&),
                                            const OpInfo& op, const Arguments&... arguments) {
  BoxedValues in, out;
  in.reserve(sizeof...(Arguments));
  (in.push_back(box(arguments)), ...);
  target(op, in, out);
  check_result_count(op, out.size(), Results<R>::count);
  try {
    return Results<R>::take(out);
  } catch (const WrongKind& wrong) {
    wrong_result(op, wrong, out);
  }
}

}  // namespace moonlet::boxing
