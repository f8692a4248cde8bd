// moonlet/class.h: classes of the host as classes of scripts:
//
//   lua.bind<Synth>("Synth")
//       .constructor<int>(moonlet::arg("voices") = 8)
//       .method("note", &Synth::note, moonlet::arg("pitch"), moonlet::arg("velocity") = 0.8)
//       .property("gain", &Synth::gain, &Synth::set_gain);
//
// and in the script `local s = Synth(4)  s:note(60)  s.gain = 0.5`. docs/embedding/classes.md is
// the guide.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "interp/embed/overrides.h"

#pragma GCC visibility push(default)

namespace moonlet {

// A parameter: its name for messages and help, and what it is when a call leaves it out.
struct Argument {
  std::string name;
  bool has_default = false;
  Value default_value = {};

  Argument operator=(Value value) && { return {std::move(name), true, std::move(value)}; }
};
inline Argument arg(std::string name) { return {std::move(name)}; }

namespace detail {

// What is said of a function beside what it is.
struct Details {
  std::vector<Argument> arguments;
  std::string text;
  void add(Argument argument) { arguments.push_back(std::move(argument)); }
  void add(const char* help) { text = help; }
};
template <class... D>
Details make_details(D&&... details) {
  Details all;
  (all.add(std::forward<D>(details)), ...);
  return all;
}

// What a name of a class is.
enum class MemberKind : uint8_t { Method, Static, Metamethod, Constructor, Index, NewIndex };

ClassRecord& make_class(Interpreter& interpreter, const std::string& name,
                        const std::type_info& type);
// Objects of type `overriding` are of the class.
void add_stand(ClassRecord& record, const std::type_info& overriding, void* (*upcast)(void*));
void add_base(ClassRecord& record, const std::type_info& base, void* (*upcast)(void*));
void add_overload(ClassRecord& record, MemberKind kind, std::string_view name, Overload overload,
                  const Details& details);
// `set` has no form where the property cannot be set.
void add_property(ClassRecord& record, std::string_view name, Overload get, Overload set,
                  const Details& details);
void add_constant(ClassRecord& record, std::string_view name, Push push, void* value);
void set_class_text(ClassRecord& record, const char* text);

// Puts a new object where the constructor was called to make it.
void emplace_object(Frame& frame, NewObject&& object);
// The link of an object that a script makes of its own class.
bool makes_subclass(const Frame& frame);

// --- methods -------------------------------------------------------------------------------------

// Pointers to members are of two sizes at most; one type to hold them keeps the code small.
struct MemberPointer {
  alignas(void*) unsigned char bytes[2 * sizeof(void*)];
};
template <class M>
std::shared_ptr<const void> hold_member(M member) {
  static_assert(sizeof(M) <= sizeof(MemberPointer));
  auto held = std::make_shared<MemberPointer>();
  std::memcpy(held->bytes, &member, sizeof(M));
  return held;
}
template <class M>
M held_member(const void* held) {
  M member;
  std::memcpy(&member, static_cast<const MemberPointer*>(held)->bytes, sizeof(M));
  return member;
}

template <class T, bool kChanges>
auto& self_of(Frame& frame) {
  frame.current = 0;
  auto& self = *static_cast<T*>(object_at(frame, 1, number_of<T>(), kChanges));
  frame.current = kNoArgument;
  if constexpr (kChanges)
    return self;
  else
    return static_cast<const T&>(self);
}

template <class T, class M, bool kChanges, class R, class... A>
struct MethodForm {
  static int invoke(Frame& frame, const void* callable) {
    auto& self = self_of<T, kChanges>(frame);
    const M method = held_member<M>(callable);
    return run<R, A...>(
        frame, [&](A... a) -> R { return (self.*method)(std::forward<A>(a)...); },
        std::index_sequence_for<A...>{});
  }
  static constexpr Form form{&invoke,
                             kParameters<A...>,
                             result_info<R>(),
                             sizeof...(A),
                             required_count<A...>(),
                             has_rest<A...>(),
                             2};
};

template <class T, class C, class R, class... A>
Overload method_of(R (C::*method)(A...)) {
  using M = R (T::*)(A...);
  if constexpr (std::is_convertible_v<decltype(method), M>) {
    return {&MethodForm<T, M, true, R, A...>::form, hold_member<M>(method)};
  } else {  // of a virtual base
    Overload made = make_overload(
        [method](T& self, A... a) -> R { return (self.*method)(std::forward<A>(a)...); });
    made.takes_self = true;
    return made;
  }
}
template <class T, class C, class R, class... A>
Overload method_of(R (C::*method)(A...) const) {
  using M = R (T::*)(A...) const;
  if constexpr (std::is_convertible_v<decltype(method), M>) {
    return {&MethodForm<T, M, false, R, A...>::form, hold_member<M>(method)};
  } else {
    Overload made = make_overload(
        [method](const T& self, A... a) -> R { return (self.*method)(std::forward<A>(a)...); });
    made.takes_self = true;
    return made;
  }
}
template <class T, class C, class R, class... A>
Overload method_of(R (C::*method)(A...) noexcept) {
  return method_of<T>(static_cast<R (C::*)(A...)>(method));
}
template <class T, class C, class R, class... A>
Overload method_of(R (C::*method)(A...) const noexcept) {
  return method_of<T>(static_cast<R (C::*)(A...) const>(method));
}
// A function whose first parameter is the object.
template <class T, class F, class = std::enable_if_t<!std::is_member_pointer_v<std::decay_t<F>>>>
Overload method_of(F&& function) {
  Overload made = make_overload(std::forward<F>(function));
  made.takes_self = true;
  return made;
}

// --- data members --------------------------------------------------------------------------------

template <class T, class V>
struct DataForm {
  using M = V T::*;
  static int invoke_get(Frame& frame, const void* member) {
    auto& self = self_of<T, false>(frame);
    const M held = held_member<M>(member);
    // An object in the object, which scripts may change, as they may the whole.
    if constexpr (kIsObject<Bare<V>>)
      Convert<Bare<V>>::push_reference(frame, const_cast<T&>(self).*held);
    else
      Convert<Bare<V>>::push(frame, self.*held);
    return 1;
  }
  static int invoke_set(Frame& frame, const void* member) {
    if constexpr (std::is_copy_assignable_v<V> || !kIsObject<V>) {
      auto& self = self_of<T, true>(frame);
      self.*held_member<M>(member) = get_argument<V>(frame, 0);
    }
    return 0;
  }
  static constexpr Form get{&invoke_get, kParameters<>, &kTypeInfo<Bare<V>>, 0, 0, false, 2};
  static constexpr Form set{&invoke_set, kParameters<V>, nullptr, 1, 1, false, 2};
};

// --- constructors --------------------------------------------------------------------------------

template <class T, class O, class... A>
struct ConstructorForm {
  static int invoke(Frame& frame, const void*) {
    return run<void, A...>(
               frame, [&frame](A... a) { make(frame, std::forward<A>(a)...); },
               std::index_sequence_for<A...>{}) +
           (frame.target == 0 ? 1 : 0);
  }
  static void make(Frame& frame, A... a) {
    if constexpr (!std::is_void_v<O>) {
      if (makes_subclass(frame) || std::is_abstract_v<T>) {
        auto object = std::make_unique<O>(std::forward<A>(a)...);
        NewObject made;
        made.object = made.whole = static_cast<T*>(object.get());
        made.number = number_of<T>();
        made.ops = &kClassOps<T>;
        made.overrides = object.get();
        emplace_object(frame, std::move(made));
        (void)object.release();
        return;
      }
    }
    if constexpr (!std::is_abstract_v<T>) {
      auto object = std::make_unique<T>(std::forward<A>(a)...);
      NewObject made;
      made.object = made.whole = object.get();
      made.number = number_of<T>();
      made.ops = &kClassOps<T>;
      emplace_object(frame, std::move(made));
      (void)object.release();
    }
  }
  static constexpr Form form{&invoke,      kParameters<A...>,      &kTypeInfo<T>,
                             sizeof...(A), required_count<A...>(), has_rest<A...>()};
};

// --- operators -----------------------------------------------------------------------------------

// Whether two T have the operator.
#define MOONLET_HAS_OPERATOR(NAME, EXPRESSION) \
  template <class T, class = void>             \
  struct has_##NAME : std::false_type {};      \
  template <class T>                           \
  struct has_##NAME<T, std::void_t<decltype(EXPRESSION)>> : std::true_type {}
MOONLET_HAS_OPERATOR(add, std::declval<const T&>() + std::declval<const T&>());
MOONLET_HAS_OPERATOR(sub, std::declval<const T&>() - std::declval<const T&>());
MOONLET_HAS_OPERATOR(mul, std::declval<const T&>() * std::declval<const T&>());
MOONLET_HAS_OPERATOR(div, std::declval<const T&>() / std::declval<const T&>());
MOONLET_HAS_OPERATOR(eq, std::declval<const T&>() == std::declval<const T&>());
MOONLET_HAS_OPERATOR(lt, std::declval<const T&>() < std::declval<const T&>());
MOONLET_HAS_OPERATOR(le, std::declval<const T&>() <= std::declval<const T&>());
MOONLET_HAS_OPERATOR(unm, -std::declval<const T&>());
#undef MOONLET_HAS_OPERATOR

// The entries that `pairs` of an object goes through: begin_pairs returns where they stand,
// add_pair takes a key and a value from the top, end_pairs returns the number of results.
int begin_pairs(Frame& frame);
void add_pair(Frame& frame, int entries, int64_t position);
int end_pairs(Frame& frame, int entries);

}  // namespace detail

// A class that is being made known to scripts. Each function adds to it and returns it; what is
// said twice, under one name, are overloads.
template <class T, class Overriding>
class Class {
 public:
  explicit Class(detail::ClassRecord& record) : record_(&record) {}

  // Text for help and editors.
  Class& text(const char* text) {
    detail::set_class_text(*record_, text);
    return *this;
  }

  // A class that T inherits from and that is bound in this interpreter: T has its members.
  template <class B>
  Class& base() {
    static_assert(std::is_base_of_v<B, T> && !std::is_same_v<B, T>, "base: no base class of T");
    detail::add_base(*record_, typeid(B), [](void* object) -> void* {
      return static_cast<B*>(static_cast<T*>(object));
    });
    return *this;
  }

  // `Synth(...)` and `Synth.new(...)`. The details of each function are names of its parameters,
  // with defaults, and a text.
  template <class... A, class... D>
  Class& constructor(D&&... details) {
    static_assert(
        std::is_constructible_v<
            std::conditional_t<std::is_abstract_v<T> && !std::is_void_v<Overriding>, Overriding, T>,
            A...>,
        "constructor: T has none of these parameters");
    detail::add_overload(*record_, detail::MemberKind::Constructor, "new",
                         {&detail::ConstructorForm<T, Overriding, A...>::form, nullptr},
                         detail::make_details(std::forward<D>(details)...));
    return *this;
  }
  // The same by a function that returns a T, a unique_ptr or a shared_ptr.
  template <class F, class... D>
  Class& factory(F&& function, D&&... details) {
    return add(detail::MemberKind::Constructor, "new", detail::make_overload(function),
               std::forward<D>(details)...);
  }

  // A member function, or a function whose first parameter is the object, or overload(...) of some.
  template <class F, class... D>
  [[gnu::noinline]] Class& method(std::string_view name, F&& function, D&&... details) {
    return add(detail::MemberKind::Method, name, detail::method_of<T>(std::forward<F>(function)),
               std::forward<D>(details)...);
  }
  template <class... F, class... D>
  Class& method(std::string_view name, Overloads<F...> functions, D&&... details) {
    std::apply([&](auto&... each) { (method(name, each, details...), ...); }, functions.functions);
    return *this;
  }

  // `Synth.name(...)`, a function of the class.
  template <class F, class... D>
  Class& function(std::string_view name, F&& function, D&&... details) {
    return add(detail::MemberKind::Static, name, detail::make_overload(std::forward<F>(function)),
               std::forward<D>(details)...);
  }
  template <class... F, class... D>
  Class& function(std::string_view name, Overloads<F...> functions, D&&... details) {
    std::apply([&](auto&... each) { (function(name, each, details...), ...); },
               functions.functions);
    return *this;
  }
  // `Synth.NAME`.
  template <class V>
  Class& constant(std::string_view name, V&& value) {
    detail::add_constant(*record_, name, &detail::Pushed<V&&>::push, detail::address(value));
    return *this;
  }

  // A data member, read and set; only read where it is const.
  template <class C, class V, class... D, class = std::enable_if_t<!std::is_function_v<V>>>
  Class& property(std::string_view name, V C::*member, D&&... details) {
    using Data = detail::DataForm<T, V>;
    const auto held = detail::hold_member<V T::*>(member);
    detail::Overload set;
    if constexpr (!std::is_const_v<V>) set = {&Data::set, held};
    return add_property(name, {&Data::get, held}, std::move(set), std::forward<D>(details)...);
  }
  template <class C, class V, class... D>
  Class& readonly(std::string_view name, V C::*member, D&&... details) {
    if constexpr (std::is_function_v<V>)
      return add_property(name, detail::method_of<T>(member), {}, std::forward<D>(details)...);
    else
      return add_property(name, {&detail::DataForm<T, V>::get, detail::hold_member<V T::*>(member)},
                          {}, std::forward<D>(details)...);
  }
  template <class F, class... D, class = std::enable_if_t<!std::is_member_pointer_v<F>>>
  Class& readonly(std::string_view name, F getter, D&&... details) {
    return add_property(name, detail::method_of<T>(std::move(getter)), {},
                        std::forward<D>(details)...);
  }
  // By functions that get and set it.
  template <class G, class S, class... D,
            class = std::enable_if_t<!std::is_member_object_pointer_v<std::decay_t<G>>>>
  Class& property(std::string_view name, G&& getter, S&& setter, D&&... details) {
    return add_property(name, detail::method_of<T>(std::forward<G>(getter)),
                        detail::method_of<T>(std::forward<S>(setter)), std::forward<D>(details)...);
  }

  // What the names that are no members are: `x.anything`, `x[3]`, and their assignment.
  template <class F>
  Class& index(F&& function) {
    return add(detail::MemberKind::Index, "__index",
               detail::method_of<T>(std::forward<F>(function)));
  }
  template <class F>
  Class& new_index(F&& function) {
    return add(detail::MemberKind::NewIndex, "__newindex",
               detail::method_of<T>(std::forward<F>(function)));
  }

  // A metamethod: `__add`, `__call`, `__tostring`, ... of a member function, or a function of its
  // operands, in their order. Several of one name are overloads.
  template <class F>
  Class& metamethod(std::string_view name, F&& function) {
    return add(detail::MemberKind::Metamethod, name,
               detail::method_of<T>(std::forward<F>(function)));
  }
  template <class... F>
  Class& metamethod(std::string_view name, Overloads<F...> functions) {
    std::apply([&](auto&... each) { (metamethod(name, each), ...); }, functions.functions);
    return *this;
  }
  template <class F>
  Class& tostring(F&& function) {
    return metamethod("__tostring", std::forward<F>(function));
  }

  // The operators + - * / == < <= and the minus of one operand, as far as T has them for two T.
  Class& operators() {
    if constexpr (detail::has_add<T>::value)
      metamethod("__add", [](const T& a, const T& b) { return a + b; });
    if constexpr (detail::has_sub<T>::value)
      metamethod("__sub", [](const T& a, const T& b) { return a - b; });
    if constexpr (detail::has_mul<T>::value)
      metamethod("__mul", [](const T& a, const T& b) { return a * b; });
    if constexpr (detail::has_div<T>::value)
      metamethod("__div", [](const T& a, const T& b) { return a / b; });
    if constexpr (detail::has_eq<T>::value)
      metamethod("__eq", [](const T& a, const T& b) { return static_cast<bool>(a == b); });
    if constexpr (detail::has_lt<T>::value)
      metamethod("__lt", [](const T& a, const T& b) { return static_cast<bool>(a < b); });
    if constexpr (detail::has_le<T>::value)
      metamethod("__le", [](const T& a, const T& b) { return static_cast<bool>(a <= b); });
    if constexpr (detail::has_unm<T>::value) metamethod("__unm", [](const T& a) { return -a; });
    return *this;
  }

  // `#x` and `pairs(x)` of a T with size(), begin() and end(). pairs goes through what was there
  // when it was called; of a map it gives keys and values, of others positions from 1.
  Class& iteration() {
    metamethod("__len", [](const T& self) { return static_cast<int64_t>(self.size()); });
    return add(detail::MemberKind::Metamethod, "__pairs", pairs_of());
  }

 private:
  template <class... D>
  Class& add(detail::MemberKind kind, std::string_view name, detail::Overload overload,
             D&&... details) {
    detail::add_overload(*record_, kind, name, std::move(overload),
                         detail::make_details(std::forward<D>(details)...));
    return *this;
  }
  template <class... D>
  Class& add_property(std::string_view name, detail::Overload get, detail::Overload set,
                      D&&... details) {
    detail::add_property(*record_, name, std::move(get), std::move(set),
                         detail::make_details(std::forward<D>(details)...));
    return *this;
  }
  static detail::Overload pairs_of() {
    static constexpr detail::Form kForm{
        &push_pairs, detail::kParameters<>, nullptr, 0, 0, false, 2};
    return {&kForm, nullptr};
  }
  static int push_pairs(detail::Frame& frame, const void*) {
    const T& self = detail::self_of<T, false>(frame);
    const int entries = detail::begin_pairs(frame);
    int64_t position = 0;
    for (const auto& each : self) {
      if constexpr (detail::is_map<T>::value) {
        Convert<detail::Bare<decltype(each.first)>>::push(frame, each.first);
        Convert<detail::Bare<decltype(each.second)>>::push(frame, each.second);
      } else {
        frame.push_integer(position + 1);
        Convert<detail::Bare<decltype(each)>>::push(frame, each);
      }
      detail::add_pair(frame, entries, ++position);
    }
    return detail::end_pairs(frame, entries);
  }

  detail::ClassRecord* record_;
};

// Annotations of all classes that are bound, for editors (LuaLS): a file of them beside the scripts
// completes and checks what these do with the host's objects.
std::string class_stubs(Interpreter& interpreter);

template <class T>
Class<T> Interpreter::bind(const std::string& name) {
  return Class<T>(detail::make_class(*this, name, typeid(T)));
}
template <class T, class Overriding>
Class<T, Overriding> Interpreter::bind(const std::string& name) {
  static_assert(std::is_base_of_v<T, Overriding> && std::is_base_of_v<Overrides, Overriding>,
                "bind: the second class inherits from the first and from Overrides");
  static_assert(std::has_virtual_destructor_v<T>, "bind: T needs a virtual destructor");
  detail::ClassRecord& record = detail::make_class(*this, name, typeid(T));
  detail::add_stand(record, typeid(Overriding), [](void* object) -> void* {
    return static_cast<T*>(static_cast<Overriding*>(object));
  });
  return Class<T, Overriding>(record);
}

}  // namespace moonlet

#pragma GCC visibility pop
