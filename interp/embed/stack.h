// moonlet/stack.h: the values that pass between a host and a script while a call is under way: what
// Convert<T> reads and pushes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "interp/embed/moonlet.h"

struct lua_State;

#pragma GCC visibility push(default)

namespace moonlet {

// A value cannot be what C++ wants: "expected int32, got string 'x'".
class ConversionError : public Error {
 public:
  using Error::Error;
};

// How well a value fits a C++ type: what chooses among overloads and the types of a variant.
enum class Fit : uint8_t { None, Converted, Exact };

// The Lua stack of a call. Positions count from 1, as in Lua's own interface; negative ones from
// the top. What a function pushes goes on top. Only Convert<T> sees one, and only while its
// function runs. Where a Lua error may arise (memory, metamethods), it passes as a C++ exception.
class Stack {
 public:
  explicit Stack(lua_State* L) noexcept : L_(L) {}

  // --- what a value is
  bool is_nil(int index) const noexcept;  // also where there is none
  bool is_table(int index) const noexcept;
  bool is_function(int index) const;  // or what has `__call`
  bool is_tensor(int index) const noexcept;
  bool is_string(int index) const noexcept;
  Fit fit_boolean(int index) const noexcept;
  Fit fit_number(int index) const noexcept;
  Fit fit_integer(int index, int64_t least, int64_t most) const noexcept;

  // --- the value as a type; throws ConversionError. `type` is how the message calls it.
  bool boolean(int index) const;
  double number(int index) const;
  float number32(int index) const;  // refuses what is finite and too large
  int64_t integer(int index, int64_t least, int64_t most, const char* type) const;
  // Valid while the value is on the stack.
  std::string_view string(int index) const;
  const Tensor& tensor(int index) const;
  Value value(int index) const;

  // "number 1.5", "string 'abc'", "Synth": for messages.
  std::string describe(int index) const;
  // Throws ConversionError "expected ..., got ...".
  [[noreturn]] void refuse(int index, std::string_view expected) const;

  // --- pushing
  void push_nil();
  void push_boolean(bool value);
  void push_integer(int64_t value);
  void push_number(double value);
  void push_string(std::string_view value);
  void push_value(const Value& value);
  void push_tensor(Tensor tensor);
  // Pushes a tensor that the script has; false, and pushes nothing, for another one. Raises
  // nothing.
  bool push_known_tensor(const Tensor& tensor);
  void push_copy(int index);
  // A table with room for that many items and fields.
  void push_table(int64_t items = 0, int64_t fields = 0);

  // --- tables, without their metamethods. The setters take the value from the top.
  int64_t length(int table) const noexcept;
  void push_item(int table, int64_t position);
  void push_field(int table, std::string_view name);
  void set_item(int table, int64_t position);
  void set_field(int table, std::string_view name);
  // table[key] = value, of the two on top.
  void set_entry(int table);
  // Replaces the key on top by the next key with its value; pops it and returns false at the end.
  bool next(int table);

  // The same as C++ types, for conversions of a host's own (they need moonlet/convert.h).
  template <class T>
  T field(int table, std::string_view name);
  template <class T>
  void set_field(int table, std::string_view name, const T& value);

  int top() const noexcept;
  void pop(int count = 1) noexcept;
  // Throws Error unless so many more values can be pushed.
  void reserve(int count) const;

  lua_State* state() const noexcept { return L_; }

 private:
  lua_State* L_;
};

// How a C++ type passes between host and script. A host gives its own types a specialization with
// these members (docs/embedding/call.md has an example):
//
//   static std::string name();                     // what messages and help call it
//   static Fit fit(const Stack&, int index);       // what chooses among overloads
//   static T get(Stack&, int index);               // throws by stack.refuse(index, name())
//   static void push(Stack&, const T&);
//
// A class without one passes as an object: see moonlet/class.h.
template <class T, class Enable = void>
struct Convert;

namespace detail {

// Puts `where` before the message of a ConversionError that `body` throws: "element 3: ...".
[[noreturn]] void rethrow_within(const ConversionError& error, const std::string& where);

// Calls put(stack, index, target) for each item of a list, whose values stand at `index`. `count`
// is the length that is wanted, or -1.
using PutItem = void (*)(Stack& stack, int index, void* target);
void get_items(Stack& stack, int table, int64_t count, const char* expected, PutItem put,
               void* target);
// The same for all keys with their values.
using PutEntry = void (*)(Stack& stack, int key, int value, void* target);
void get_entries(Stack& stack, int table, const char* expected, PutEntry put, void* target);

}  // namespace detail
}  // namespace moonlet

#pragma GCC visibility pop
