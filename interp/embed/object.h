// moonlet/object.h: objects of a host's classes as values of scripts: who owns them, how long they
// are valid, and how they pass as arguments. moonlet/class.h says what scripts can do with them.
#pragma once

#include <memory>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "interp/embed/stack.h"

#pragma GCC visibility push(default)

namespace moonlet {

// A member or base of a class whose objects the host may destroy while scripts refer to them: they
// then get a clear error. Objects that scripts own, and those held by a shared_ptr, need none.
class Lifetime {
 public:
  Lifetime() : mark_(std::make_shared<char>()) {}
  Lifetime(const Lifetime&) : Lifetime() {}
  Lifetime& operator=(const Lifetime&) noexcept { return *this; }
  ~Lifetime() = default;
  std::weak_ptr<const void> watch() const noexcept { return mark_; }

 private:
  std::shared_ptr<const void> mark_;
};

// An object that the host keeps: scripts refer to it and own nothing. `lifetime` is what the object
// has, or what else ends before it.
template <class T>
struct Ref {
  T* object = nullptr;
  std::weak_ptr<const void> lifetime;
  bool tracked = false;
};
template <class T>
Ref<T> reference(T& object) {
  if constexpr (std::is_base_of_v<Lifetime, T>)
    return {&object, object.watch(), true};
  else
    return {&object, {}, false};
}
template <class T>
Ref<T> reference(T& object, const Lifetime& lifetime) {
  return {&object, lifetime.watch(), true};
}

class Overrides;

namespace detail {

struct ObjectConversion {};

// The number of a C++ type, the same in all libraries of the process.
int class_number(const std::type_info& type);
template <class T>
int number_of() {
  static const int number = class_number(typeid(T));
  return number;
}
// What messages call it: the name of its binding, or that of C++.
std::string class_name(const std::type_info& type);

// What can be done with an object of a type that is known here alone.
struct ClassOps {
  int (*number)();
  void (*destroy)(void* object);
  std::shared_ptr<void> (*share)(void* object);
};
template <class T>
inline constexpr ClassOps kClassOps{&number_of<T>,
                                    [](void* object) { delete static_cast<T*>(object); },
                                    [](void* object) -> std::shared_ptr<void> {
                                      return std::shared_ptr<T>(static_cast<T*>(object));
                                    }};

// An object on its way to a script. One of `ops` (owned) and `shared` is set, or none.
struct NewObject {
  void* object = nullptr;
  int number = 0;                           // of the type that `object` points to
  void* whole = nullptr;                    // the most derived object
  const std::type_info* dynamic = nullptr;  // and its type, where it is another one
  const ClassOps* ops = nullptr;
  std::shared_ptr<void> shared = nullptr;
  std::weak_ptr<const void> lifetime = {};
  bool tracked = false;
  bool constant = false;
  bool keep_self = false;  // the object lies in the first argument
  Overrides* overrides = nullptr;
};
void push_object(Stack& stack, NewObject&& object);

// The object at an index as a type; throws ConversionError when it is of another class, has ended,
// or is constant and to be changed.
void* object_at(Stack& stack, int index, int number, bool changes);
Fit fit_object(Stack& stack, int index, int number);
std::shared_ptr<void> shared_at(Stack& stack, int index, int number, bool changes, void** object);
// Takes the object from the script. `any` says that it may be of a class derived from the type.
void* release_at(Stack& stack, int index, int number, bool any);

template <class T>
NewObject new_object(T* object) {
  NewObject made;
  made.object = made.whole = const_cast<std::remove_const_t<T>*>(object);
  made.number = number_of<std::remove_const_t<T>>();
  made.constant = std::is_const_v<T>;
  if constexpr (std::is_polymorphic_v<T>) {
    if (typeid(*object) != typeid(T)) {
      made.whole = const_cast<void*>(dynamic_cast<const void*>(object));
      made.dynamic = &typeid(*object);
    }
  }
  return made;
}
template <class T>
void push_owned(Stack& stack, std::unique_ptr<T> object) {
  NewObject made = new_object(object.get());
  made.ops = &kClassOps<std::remove_const_t<T>>;
  push_object(stack, std::move(made));
  (void)object.release();
}
template <class T>
void push_referred(Stack& stack, T* object, bool keep_self) {
  if (object == nullptr) return stack.push_nil();
  NewObject made = new_object(object);
  made.keep_self = keep_self;
  if constexpr (std::is_base_of_v<Lifetime, std::remove_const_t<T>>) {
    made.lifetime = object->watch();
    made.tracked = true;
  }
  push_object(stack, std::move(made));
}

}  // namespace detail

// An object of a class that the host binds. As a value it is copied; the other forms are below.
template <class T, class Enable>
struct Convert : detail::ObjectConversion {
  static_assert(std::is_class_v<T> || std::is_union_v<T>, "no value of a script is of this type");
  static std::string name() { return detail::class_name(typeid(T)); }
  static Fit fit(Stack& stack, int index) {
    return detail::fit_object(stack, index, detail::number_of<T>());
  }
  template <bool kChanges>
  static std::conditional_t<kChanges, T&, const T&> reference(Stack& stack, int index) {
    return *static_cast<T*>(detail::object_at(stack, index, detail::number_of<T>(), kChanges));
  }
  static const T& get(Stack& stack, int index) { return reference<false>(stack, index); }
  template <class U>
  static void push(Stack& stack, U&& value) {
    detail::push_owned(stack, std::make_unique<T>(std::forward<U>(value)));
  }
  template <class U>
  static void push_reference(Stack& stack, U& value) {
    detail::push_referred(stack, &value, true);
  }
};

// nil is a null pointer. A pointer that is pushed refers to an object that the host keeps; one that
// a method returns keeps the method's object alive.
template <class T>
struct Convert<T*> {
  static_assert(std::is_class_v<T>, "no value of a script is of this type");
  static std::string name() { return Convert<std::remove_const_t<T>>::name() + " or nil"; }
  static Fit fit(Stack& stack, int index) {
    if (stack.is_nil(index)) return Fit::Exact;
    return detail::fit_object(stack, index, detail::number_of<std::remove_const_t<T>>());
  }
  static T* get(Stack& stack, int index) {
    if (stack.is_nil(index)) return nullptr;
    return static_cast<T*>(detail::object_at(
        stack, index, detail::number_of<std::remove_const_t<T>>(), !std::is_const_v<T>));
  }
  static void push(Stack& stack, T* value) { detail::push_referred(stack, value, true); }
};

template <class T>
struct Convert<std::shared_ptr<T>> {
  using Held = std::remove_const_t<T>;
  static std::string name() { return Convert<Held>::name() + " or nil"; }
  static Fit fit(Stack& stack, int index) { return Convert<T*>::fit(stack, index); }
  static std::shared_ptr<T> get(Stack& stack, int index) {
    if (stack.is_nil(index)) return nullptr;
    void* object = nullptr;
    const std::shared_ptr<void> owner =
        detail::shared_at(stack, index, detail::number_of<Held>(), !std::is_const_v<T>, &object);
    return std::shared_ptr<T>(owner, static_cast<T*>(object));
  }
  static void push(Stack& stack, const std::shared_ptr<T>& value) {
    if (value == nullptr) return stack.push_nil();
    detail::NewObject made = detail::new_object(value.get());
    made.shared = std::const_pointer_cast<Held>(value);
    detail::push_object(stack, std::move(made));
  }
};

// Owned by who has it: what a script gives so is no longer its own.
template <class T>
struct Convert<std::unique_ptr<T>> {
  static std::string name() { return Convert<std::remove_const_t<T>>::name() + " or nil"; }
  static Fit fit(Stack& stack, int index) { return Convert<T*>::fit(stack, index); }
  static std::unique_ptr<T> get(Stack& stack, int index) {
    if (stack.is_nil(index)) return nullptr;
    return std::unique_ptr<T>(static_cast<T*>(
        detail::release_at(stack, index, detail::number_of<std::remove_const_t<T>>(),
                           std::has_virtual_destructor_v<T>)));
  }
  static void push(Stack& stack, std::unique_ptr<T> value) {
    if (value == nullptr) return stack.push_nil();
    detail::push_owned(stack, std::move(value));
  }
};

template <class T>
struct Convert<Ref<T>> {
  static std::string name() { return Convert<std::remove_const_t<T>>::name(); }
  static Fit fit(Stack& stack, int index) { return Convert<T*>::fit(stack, index); }
  static Ref<T> get(Stack& stack, int index) {
    return moonlet::reference(*static_cast<T*>(detail::object_at(
        stack, index, detail::number_of<std::remove_const_t<T>>(), !std::is_const_v<T>)));
  }
  static void push(Stack& stack, const Ref<T>& value) {
    if (value.object == nullptr) return stack.push_nil();
    detail::NewObject made = detail::new_object(value.object);
    made.lifetime = value.lifetime;
    made.tracked = value.tracked;
    detail::push_object(stack, std::move(made));
  }
};

}  // namespace moonlet

#pragma GCC visibility pop
