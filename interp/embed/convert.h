// moonlet/convert.h: how the types of C++'s library pass between host and script: numbers, texts,
// enums, containers, optional, variant, durations, paths, spans of tensors.
#pragma once

#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>
#if __cplusplus >= 202002L
#include <span>
#endif

#include "interp/embed/stack.h"

namespace moonlet {

// Names for the values of an enum, which then pass as strings. Without them they are integers:
//
//   template <> struct moonlet::EnumNames<Wave> {
//     static constexpr std::pair<const char*, Wave> values[] = {{"sine", Wave::Sine}, ...};
//   };
template <class E>
struct EnumNames;

namespace detail {

template <class T, class = void>
struct is_complete : std::false_type {};
template <class T>
struct is_complete<T, std::void_t<decltype(sizeof(T))>> : std::true_type {};

// What a type of C++'s library is, seen from its members: so that a host pays for no header that it
// does not use, and its own containers of the same form pass too.
template <class T, class = void>
struct is_list : std::false_type {};  // vector, deque, list
template <class T>
struct is_list<
    T, std::void_t<typename T::value_type, typename T::iterator,
                   decltype(std::declval<T&>().push_back(std::declval<typename T::value_type>()))>>
    : std::bool_constant<!std::is_convertible_v<const T&, std::string_view>> {};
template <class T, class = void>
struct is_map : std::false_type {};  // map, unordered_map
template <class T>
struct is_map<T, std::void_t<typename T::key_type, typename T::mapped_type>> : std::true_type {};
template <class T, class = void>
struct is_path : std::false_type {};  // std::filesystem::path
template <class T>
struct is_path<T, std::void_t<typename T::string_type, decltype(T::preferred_separator),
                              decltype(std::declval<const T&>().lexically_normal())>>
    : std::true_type {};

template <class T, class = void>
struct is_plain : std::false_type {};
template <class T>
struct is_plain<T, std::enable_if_t<Convert<T>::kPlain>> : std::true_type {};
// Whether values of that type pass without taking memory of Lua's and without any Lua error.
template <class T>
inline constexpr bool kPlain = is_plain<T>::value;

template <class T>
using Bare = std::remove_cv_t<std::remove_reference_t<T>>;

}  // namespace detail

// --- simple values -------------------------------------------------------------------------------

template <>
struct Convert<bool> {
  static constexpr bool kPlain = true;
  static std::string name() { return "boolean"; }
  static Fit fit(Stack& stack, int index) { return stack.fit_boolean(index); }
  static bool get(Stack& stack, int index) { return stack.boolean(index); }
  static void push(Stack& stack, bool value) { stack.push_boolean(value); }
};

// A number that the type does not hold is refused: 300 for uint8_t, 1.5, NaN.
template <class T>
struct Convert<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  static constexpr bool kPlain = true;
  static constexpr int64_t kLeast =
      std::is_signed_v<T> ? int64_t(std::numeric_limits<T>::min()) : 0;
  static constexpr int64_t kMost = std::is_unsigned_v<T> && sizeof(T) >= sizeof(int64_t)
                                       ? std::numeric_limits<int64_t>::max()
                                       : static_cast<int64_t>(std::numeric_limits<T>::max());
  static std::string name() { return detail::integer_name<T>(); }
  static Fit fit(Stack& stack, int index) { return stack.fit_integer(index, kLeast, kMost); }
  static T get(Stack& stack, int index) {
    return static_cast<T>(stack.integer(index, kLeast, kMost, detail::integer_name<T>()));
  }
  static void push(Stack& stack, T value) {
    if constexpr (std::is_unsigned_v<T> && sizeof(T) >= sizeof(int64_t)) {
      if (value > static_cast<T>(kMost))
        throw ConversionError(std::to_string(value) + " does not fit an integer of Lua (int64)");
    }
    stack.push_integer(static_cast<int64_t>(value));
  }
};

template <class T>
struct Convert<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static constexpr bool kPlain = true;
  static std::string name() { return "number"; }
  static Fit fit(Stack& stack, int index) { return stack.fit_number(index); }
  static T get(Stack& stack, int index) {
    if constexpr (std::is_same_v<T, float>)
      return stack.number32(index);
    else
      return static_cast<T>(stack.number(index));
  }
  static void push(Stack& stack, T value) { stack.push_number(static_cast<double>(value)); }
};

template <>
struct Convert<std::string> {
  static std::string name() { return "string"; }
  static Fit fit(Stack& stack, int index) {
    return stack.is_string(index) ? Fit::Exact : Fit::None;
  }
  static std::string get(Stack& stack, int index) { return std::string(stack.string(index)); }
  static void push(Stack& stack, const std::string& value) { stack.push_string(value); }
};

// The text of the script's own string: for arguments of host functions, valid during the call.
template <>
struct Convert<std::string_view> {
  static std::string name() { return "string"; }
  static Fit fit(Stack& stack, int index) { return Convert<std::string>::fit(stack, index); }
  static std::string_view get(Stack& stack, int index) { return stack.string(index); }
  static void push(Stack& stack, std::string_view value) { stack.push_string(value); }
};

template <>
struct Convert<const char*> {
  static std::string name() { return "string"; }
  static Fit fit(Stack& stack, int index) { return Convert<std::string>::fit(stack, index); }
  static const char* get(Stack& stack, int index) { return stack.string(index).data(); }
  static void push(Stack& stack, const char* value) {
    if (value != nullptr)
      stack.push_string(value);
    else
      stack.push_nil();
  }
};
template <size_t N>
struct Convert<char[N]> : Convert<const char*> {};

template <class E>
struct Convert<E, std::enable_if_t<std::is_enum_v<E>>> {
  using Number = Convert<std::underlying_type_t<E>>;
  static constexpr bool kNamed = detail::is_complete<EnumNames<E>>::value;
  static constexpr bool kPlain = !kNamed;
  static std::string name() {
    if constexpr (kNamed) {
      std::string text;
      for (const auto& [name, value] : EnumNames<E>::values)
        text += (text.empty() ? "'" : ", '") + std::string(name) + "'";
      return text;
    } else {
      return Number::name();
    }
  }
  static Fit fit(Stack& stack, int index) {
    if constexpr (kNamed)
      return find(stack, index) != nullptr ? Fit::Exact : Fit::None;
    else
      return Number::fit(stack, index);
  }
  static E get(Stack& stack, int index) {
    if constexpr (kNamed) {
      const auto* found = find(stack, index);
      if (found == nullptr) stack.refuse(index, "one of " + name());
      return found->second;
    } else {
      return static_cast<E>(Number::get(stack, index));
    }
  }
  static void push(Stack& stack, E value) {
    if constexpr (kNamed) {
      for (const auto& [name, each] : EnumNames<E>::values)
        if (each == value) return stack.push_string(name);
      throw ConversionError("an enum has a value without a name: " +
                            std::to_string(static_cast<int64_t>(value)));
    } else {
      Number::push(stack, static_cast<std::underlying_type_t<E>>(value));
    }
  }

 private:
  static const std::pair<const char*, E>* find(Stack& stack, int index) {
    if (!stack.is_string(index)) return nullptr;
    for (const auto& each : EnumNames<E>::values)
      if (stack.string(index) == each.first) return &each;
    return nullptr;
  }
};

// Seconds. A type of whole ticks takes the nearest one.
template <class Rep, class Period>
struct Convert<std::chrono::duration<Rep, Period>> {
  using Duration = std::chrono::duration<Rep, Period>;
  static constexpr bool kPlain = true;
  static std::string name() { return "number"; }
  static Fit fit(Stack& stack, int index) { return stack.fit_number(index); }
  static Duration get(Stack& stack, int index) {
    const double ticks = stack.number(index) * Period::den / Period::num;
    if constexpr (std::is_integral_v<Rep>) {
      const double most = static_cast<double>(std::numeric_limits<Rep>::max());
      const double least = static_cast<double>(std::numeric_limits<Rep>::min());
      if (!(ticks >= least && ticks < most)) stack.refuse(index, "seconds that the duration holds");
      return Duration(static_cast<Rep>(std::round(ticks)));
    } else {
      return Duration(static_cast<Rep>(ticks));
    }
  }
  static void push(Stack& stack, Duration value) {
    stack.push_number(std::chrono::duration<double>(value).count());
  }
};

template <class T>
struct Convert<T, std::enable_if_t<detail::is_path<T>::value>> {
  static std::string name() { return "string"; }
  static Fit fit(Stack& stack, int index) { return Convert<std::string>::fit(stack, index); }
  static T get(Stack& stack, int index) {
    const std::string_view text = stack.string(index);
    if (text.find('\0') != text.npos) stack.refuse(index, "a path without zero bytes");
    return T(text);
  }
  static void push(Stack& stack, const T& value) { stack.push_string(value.string()); }
};

// --- Lua's own -----------------------------------------------------------------------------------

template <>
struct Convert<Value> {
  static std::string name() { return "any"; }
  static Fit fit(Stack&, int) { return Fit::Converted; }
  static Value get(Stack& stack, int index) { return stack.value(index); }
  static void push(Stack& stack, const Value& value) { stack.push_value(value); }
};

template <>
struct Convert<std::monostate> {
  static constexpr bool kPlain = true;
  static std::string name() { return "nil"; }
  static Fit fit(Stack& stack, int index) { return stack.is_nil(index) ? Fit::Exact : Fit::None; }
  static std::monostate get(Stack& stack, int index) {
    if (!stack.is_nil(index)) stack.refuse(index, "nil");
    return {};
  }
  static void push(Stack& stack, std::monostate) { stack.push_nil(); }
};
template <>
struct Convert<std::nullptr_t> {
  static constexpr bool kPlain = true;
  static std::string name() { return "nil"; }
  static Fit fit(Stack& stack, int index) { return Convert<std::monostate>::fit(stack, index); }
  static std::nullptr_t get(Stack& stack, int index) {
    Convert<std::monostate>::get(stack, index);
    return nullptr;
  }
  static void push(Stack& stack, std::nullptr_t) { stack.push_nil(); }
};

template <>
struct Convert<Tensor> {
  static std::string name() { return "Tensor"; }
  static Fit fit(Stack& stack, int index) {
    return stack.is_tensor(index) ? Fit::Exact : Fit::None;
  }
  static const Tensor& get(Stack& stack, int index) { return stack.tensor(index); }
  static void push(Stack& stack, Tensor value) { stack.push_tensor(std::move(value)); }
};

namespace detail {
[[gnu::visibility("default")]] Table held_table(Stack& stack, int index);
[[gnu::visibility("default")]] Function held_function(Stack& stack, int index);
[[gnu::visibility("default")]] Tensor copied_tensor(const void* elements, size_t count,
                                                    DType dtype);
}  // namespace detail

template <>
struct Convert<Table> {
  static std::string name() { return "table"; }
  static Fit fit(Stack& stack, int index) { return stack.is_table(index) ? Fit::Exact : Fit::None; }
  static Table get(Stack& stack, int index) {
    if (!stack.is_table(index)) stack.refuse(index, name());
    return detail::held_table(stack, index);
  }
  static void push(Stack& stack, const Table& value) { stack.push_value(value); }
};

template <>
struct Convert<Function> {
  static std::string name() { return "function"; }
  static Fit fit(Stack& stack, int index) {
    return stack.is_function(index) ? Fit::Exact : Fit::None;
  }
  static Function get(Stack& stack, int index) {
    if (!stack.is_function(index)) stack.refuse(index, name());
    return detail::held_function(stack, index);
  }
  static void push(Stack& stack, const Function& value) { stack.push_value(value); }
};

template <>
struct Convert<Object> {
  static std::string name() { return "object"; }
  static Fit fit(Stack& stack, int index) {
    return stack.value(index).is<Object>() ? Fit::Exact : Fit::None;
  }
  static Object get(Stack& stack, int index) {
    const Value value = stack.value(index);
    if (!value.is<Object>()) stack.refuse(index, name());
    return value.object();
  }
  static void push(Stack& stack, const Object& value) { stack.push_value(value); }
};

// --- containers ----------------------------------------------------------------------------------

namespace detail {
// The value of an item: what Convert gives may be a reference to what the script holds.
template <class T>
T item(Stack& stack, int index) {
  return T(Convert<T>::get(stack, index));
}
template <class T>
std::string list_name() {
  return "list of " + Convert<T>::name();
}
inline Fit fit_table(Stack& stack, int index) {
  return stack.is_table(index) ? Fit::Converted : Fit::None;
}
// Whether all items fit, so that overloads can tell lists by what is in them.
using FitItem = Fit (*)(Stack& stack, int index);
[[gnu::visibility("default")]] Fit fit_items(Stack& stack, int table, int64_t count, FitItem fit);
[[gnu::visibility("default")]] Fit fit_entries(Stack& stack, int table, FitItem key, FitItem value);
}  // namespace detail

template <class T>
struct Convert<T, std::enable_if_t<detail::is_list<T>::value>> {
  using Item = typename T::value_type;
  static std::string name() { return detail::list_name<Item>(); }
  static Fit fit(Stack& stack, int index) {
    return detail::fit_items(stack, index, -1, &Convert<Item>::fit);
  }
  static T get(Stack& stack, int index) {
    T list;
    const auto put = [](Stack& from, int at, void* to) {
      static_cast<T*>(to)->push_back(detail::item<Item>(from, at));
    };
    detail::get_items(stack, index, -1, "list", put, &list);
    return list;
  }
  static void push(Stack& stack, const T& list) {
    stack.push_table(static_cast<int64_t>(list.size()));
    int64_t position = 0;
    for (const auto& item : list) {
      Convert<Item>::push(stack, item);
      stack.set_item(-2, ++position);
    }
  }
};

template <class T, size_t N>
struct Convert<std::array<T, N>> {
  static std::string name() { return "list of " + std::to_string(N) + " " + Convert<T>::name(); }
  static Fit fit(Stack& stack, int index) {
    return detail::fit_items(stack, index, N, &Convert<T>::fit);
  }
  static std::array<T, N> get(Stack& stack, int index) {
    struct Target {
      std::array<T, N> values{};
      size_t count = 0;
    } target;
    const auto put = [](Stack& from, int at, void* to) {
      auto& into = *static_cast<Target*>(to);
      into.values[into.count++] = detail::item<T>(from, at);
    };
    detail::get_items(stack, index, N, "list", put, &target);
    return std::move(target.values);
  }
  static void push(Stack& stack, const std::array<T, N>& list) {
    stack.push_table(N);
    for (size_t i = 0; i < N; ++i) {
      Convert<T>::push(stack, list[i]);
      stack.set_item(-2, static_cast<int64_t>(i + 1));
    }
  }
};

template <class T>
struct Convert<T, std::enable_if_t<detail::is_map<T>::value>> {
  using Key = typename T::key_type;
  using Mapped = typename T::mapped_type;
  static std::string name() {
    return "table of " + Convert<Key>::name() + " to " + Convert<Mapped>::name();
  }
  static Fit fit(Stack& stack, int index) {
    return detail::fit_entries(stack, index, &Convert<Key>::fit, &Convert<Mapped>::fit);
  }
  static T get(Stack& stack, int index) {
    T map;
    const auto put = [](Stack& from, int key, int value, void* to) {
      static_cast<T*>(to)->emplace(detail::item<Key>(from, key), detail::item<Mapped>(from, value));
    };
    detail::get_entries(stack, index, "table", put, &map);
    return map;
  }
  static void push(Stack& stack, const T& map) {
    stack.push_table(0, static_cast<int64_t>(map.size()));
    for (const auto& [key, value] : map) {
      Convert<Key>::push(stack, key);
      Convert<Mapped>::push(stack, value);
      stack.set_entry(-3);
    }
  }
};

namespace detail {
// A pair or tuple, as a list of its items.
template <class T, class Positions>
struct ConvertTuple;
template <class T, size_t... I>
struct ConvertTuple<T, std::index_sequence<I...>> {
  static std::string name() {
    std::string text;
    ((text += (I == 0 ? "" : ", ") + Convert<Bare<std::tuple_element_t<I, T>>>::name()), ...);
    return "list of (" + text + ")";
  }
  static Fit fit(Stack& stack, int index) {
    if (!stack.is_table(index) || stack.length(index) != sizeof...(I)) return Fit::None;
    const bool all = (fit_one<I>(stack, index) && ...);
    return all ? Fit::Converted : Fit::None;
  }
  static T get(Stack& stack, int index) {
    if (!stack.is_table(index) || stack.length(index) != sizeof...(I)) stack.refuse(index, name());
    stack.reserve(static_cast<int>(sizeof...(I)) + 2);
    const int first = stack.top() + 1;
    (stack.push_item(index, static_cast<int64_t>(I + 1)), ...);
    T values{get_one<I>(stack, first + static_cast<int>(I))...};
    stack.pop(static_cast<int>(sizeof...(I)));
    return values;
  }
  static void push(Stack& stack, const T& values) {
    stack.push_table(sizeof...(I));
    ((Convert<Bare<std::tuple_element_t<I, T>>>::push(stack, std::get<I>(values)),
      stack.set_item(-2, static_cast<int64_t>(I + 1))),
     ...);
  }

 private:
  template <size_t J>
  static std::tuple_element_t<J, T> get_one(Stack& stack, int index) {
    try {
      return item<Bare<std::tuple_element_t<J, T>>>(stack, index);
    } catch (const ConversionError& e) {
      rethrow_within(e, "item " + std::to_string(J + 1));
    }
  }
  template <size_t J>
  static bool fit_one(Stack& stack, int index) {
    stack.reserve(4);
    stack.push_item(index, static_cast<int64_t>(J + 1));
    const Fit fit = Convert<Bare<std::tuple_element_t<J, T>>>::fit(stack, stack.top());
    stack.pop();
    return fit != Fit::None;
  }
};
}  // namespace detail

template <class... T>
struct Convert<std::tuple<T...>>
    : detail::ConvertTuple<std::tuple<T...>, std::index_sequence_for<T...>> {};
template <class A, class B>
struct Convert<std::pair<A, B>> : detail::ConvertTuple<std::pair<A, B>, std::index_sequence<0, 1>> {
};

// nil is nothing.
template <class T>
struct Convert<std::optional<T>> {
  static constexpr bool kPlain = detail::kPlain<T>;
  static std::string name() { return Convert<T>::name() + " or nil"; }
  static Fit fit(Stack& stack, int index) {
    return stack.is_nil(index) ? Fit::Exact : Convert<T>::fit(stack, index);
  }
  static std::optional<T> get(Stack& stack, int index) {
    if (stack.is_nil(index)) return std::nullopt;
    return detail::item<T>(stack, index);
  }
  static void push(Stack& stack, const std::optional<T>& value) {
    if (value)
      Convert<T>::push(stack, *value);
    else
      stack.push_nil();
  }
};

// The first of the types that the value fits best.
template <class... T>
struct Convert<std::variant<T...>> {
  using Variant = std::variant<T...>;
  static constexpr bool kPlain = (detail::kPlain<T> && ...);
  static std::string name() {
    std::string text;
    ((text += (text.empty() ? "" : " or ") + Convert<T>::name()), ...);
    return text;
  }
  static Fit fit(Stack& stack, int index) { return best(stack, index).first; }
  static Variant get(Stack& stack, int index) {
    const auto [fit, wanted] = best(stack, index);
    if (fit == Fit::None) stack.refuse(index, name());
    std::optional<Variant> result;
    size_t position = 0;
    ((position++ == wanted
          ? void(result.emplace(std::in_place_type<T>, detail::item<T>(stack, index)))
          : void()),
     ...);
    return std::move(*result);
  }
  static void push(Stack& stack, const Variant& value) {
    std::visit(
        [&stack](const auto& held) { Convert<std::decay_t<decltype(held)>>::push(stack, held); },
        value);
  }

 private:
  static std::pair<Fit, size_t> best(Stack& stack, int index) {
    const Fit fits[] = {Convert<T>::fit(stack, index)...};
    size_t wanted = 0;
    for (size_t i = 1; i < sizeof...(T); ++i)
      if (fits[i] > fits[wanted]) wanted = i;
    return {fits[wanted], wanted};
  }
};

#if __cplusplus >= 202002L
// The elements of a tensor that holds T row by row in the host's memory, without a copy: for
// arguments of host functions, valid while the script keeps the tensor. Pushed, they are copied
// into a new tensor.
template <class T>
struct Convert<std::span<T>> {
  using Element = std::remove_cv_t<T>;
  static_assert(std::is_arithmetic_v<T>, "spans are of the numbers that a tensor holds");
  static std::string name() { return "Tensor of " + std::string(moonlet::name(dtype_of<Element>)); }
  static Fit fit(Stack& stack, int index) {
    if (!stack.is_tensor(index)) return Fit::None;
    return stack.tensor(index).dtype() == dtype_of<Element> ? Fit::Exact : Fit::None;
  }
  static std::span<T> get(Stack& stack, int index) {
    if (!stack.is_tensor(index)) stack.refuse(index, name());
    const Tensor& tensor = stack.tensor(index);
    if (tensor.dtype() != dtype_of<Element>)
      throw ConversionError("expected " + name() + ", got Tensor of " +
                            std::string(moonlet::name(tensor.dtype())));
    return {tensor.template data<T>(), static_cast<size_t>(tensor.numel())};
  }
  static void push(Stack& stack, std::span<T> values) {
    stack.push_tensor(detail::copied_tensor(values.data(), values.size(), dtype_of<Element>));
  }
};
#endif

template <class T>
T Stack::field(int table, std::string_view name) {
  reserve(4);
  push_field(table, name);
  try {
    T value = detail::item<T>(*this, top());
    pop();
    return value;
  } catch (const ConversionError& e) {
    detail::rethrow_within(e, "field '" + std::string(name) + "'");
  }
}

template <class T>
void Stack::set_field(int table, std::string_view name, const T& value) {
  reserve(4);
  const int position = table < 0 ? top() + table + 1 : table;
  Convert<std::decay_t<T>>::push(*this, value);
  set_field(position, name);
}

}  // namespace moonlet
