// moonlet/moonlet.h: Moonlet inside a C++ program: interpreters, values, calls both ways, errors.
// No Lua header is needed. An Interpreter and its values belong to one thread at a time; a process
// may hold several, on several threads. A Tensor may be shared between them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tensor/error.h"
#include "tensor/tensor.h"

struct lua_State;

namespace moonlet {

class Function;
class Table;
class Value;

// What calls take and return: Lua values in order.
using Values = std::vector<Value>;

namespace detail {
struct Session;
struct Reference;
}  // namespace detail

// A script failed. what() is the message followed by the traceback.
class ScriptError : public Error {
 public:
  ScriptError(std::string message, std::string traceback);
  // What went wrong, with the script's line.
  const std::string& message() const noexcept { return message_; }
  // Where it happened, from the inside out.
  const std::string& traceback() const noexcept { return traceback_; }

 private:
  std::string message_;
  std::string traceback_;
};

// A Lua table held by the host. Copies name the same table. It keeps the table alive; once its
// interpreter is gone every use throws Error.
class Table {
 public:
  // t[key], with the metamethods of the table; nil when absent. Throws ScriptError.
  Value get(const Value& key) const;
  void set(const Value& key, const Value& value) const;
  // The length, as `#t` gives it.
  int64_t length() const;

 private:
  friend struct detail::Session;
  explicit Table(std::shared_ptr<detail::Reference> reference) : reference_(std::move(reference)) {}
  std::shared_ptr<detail::Reference> reference_;
};

// A Lua function, or another value that can be called, held by the host like a Table.
class Function {
 public:
  // Calls it; returns all results. Throws ScriptError.
  Values call(const Values& arguments) const;
  template <class... Arguments>
  Values operator()(Arguments&&... arguments) const;

 private:
  friend struct detail::Session;
  explicit Function(std::shared_ptr<detail::Reference> reference)
      : reference_(std::move(reference)) {}
  std::shared_ptr<detail::Reference> reference_;
};

// What passes between host and script: nil, boolean, integer, number, string (any bytes), tensor,
// table or function. Other kinds of Lua values cannot be held and are an Error.
class Value {
 public:
  // The type that stands for nil, and the one that holds any value.
  using Nil = std::monostate;
  using Variant =
      std::variant<Nil, bool, int64_t, double, std::string, Tensor, moonlet::Table, Function>;

  Value() = default;
  Value(std::nullptr_t) {}
  Value(bool value) : value_(value) {}
  template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  Value(T value) : value_(static_cast<int64_t>(value)) {}
  Value(double value) : value_(value) {}
  Value(float value) : value_(static_cast<double>(value)) {}
  Value(std::string value) : value_(std::move(value)) {}
  Value(std::string_view value) : value_(std::string(value)) {}
  Value(const char* value) : value_(std::string(value)) {}
  Value(Tensor value) : value_(std::move(value)) {}
  Value(moonlet::Table value) : value_(std::move(value)) {}
  Value(Function value) : value_(std::move(value)) {}

  // Whether the value is nil, or is of a type of `Variant`.
  bool is_nil() const { return std::holds_alternative<Nil>(value_); }
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(value_);
  }

  // The value as that type; throws Error that names both types. number() also takes an integer,
  // integer() also a number without a fraction.
  bool boolean() const;
  int64_t integer() const;
  double number() const;
  const std::string& string() const;
  const Tensor& tensor() const;
  const moonlet::Table& table() const;
  const Function& function() const;

  // "nil", "boolean", "integer", "number", "string", "tensor", "table" or "function".
  const char* type_name() const noexcept;
  const Variant& variant() const noexcept { return value_; }

 private:
  Variant value_;
};

// A function of the host that scripts call. A std::exception it throws becomes a Lua error; it must
// throw nothing else.
using HostFunction = std::function<Values(const Values&)>;

// A Lua state with the standard libraries and Moonlet's modules (`require "moonlet"`).
class Interpreter {
 public:
  Interpreter();
  ~Interpreter();
  Interpreter(Interpreter&&) noexcept;
  Interpreter& operator=(Interpreter&&) noexcept;

  // Run Lua source, or a file of it; return what the chunk returns. Throw ScriptError when it does
  // not compile, cannot be read or fails. `name` is what messages call the chunk.
  Values run_string(std::string_view code, const std::string& name = "script");
  Values run_file(const std::string& path);

  // Globals. `get` takes a path such as "model.layers.first".
  Value get(const std::string& path);
  void set(const std::string& name, const Value& value);
  Table new_table();

  // Calls a function found as `get` finds it, or one that is held. Throws ScriptError.
  template <class... Arguments>
  Values call(const std::string& path, Arguments&&... arguments) {
    return call_path(path, Values{Value(std::forward<Arguments>(arguments))...});
  }
  template <class... Arguments>
  Values call(const Function& function, Arguments&&... arguments) {
    return function.call(Values{Value(std::forward<Arguments>(arguments))...});
  }
  Values call_path(const std::string& path, const Values& arguments);

  // Makes `function` a global of that name.
  void register_function(const std::string& name, HostFunction function);
  // A function value for tables and arguments.
  Function make_function(HostFunction function);

  // The Lua state, for hosts that also use Lua's own interface. It stays the interpreter's. Code
  // that runs scripts through it belongs into `with_state`.
  lua_State* state() const;
  // Runs `body` on the Lua state with the interpreter's grad mode, default dtype and generator
  // installed on this thread. Lua errors in it become ScriptError.
  void with_state(const std::function<void(lua_State*)>& body);
  // lua_resume for such code: the coroutine `co` keeps its own grad mode when it yields.
  static int resume(lua_State* from, lua_State* co, int arguments, int* results);

 private:
  std::shared_ptr<detail::Session> session_;
};

template <class... Arguments>
Values Function::operator()(Arguments&&... arguments) const {
  return call(Values{Value(std::forward<Arguments>(arguments))...});
}

// Moonlet's version, such as "0.1.0".
const char* version() noexcept;

}  // namespace moonlet
