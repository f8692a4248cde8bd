// moonlet/moonlet.h: Moonlet inside a C++ program: interpreters, values, calls both ways, errors.
// No Lua header is needed. An Interpreter and its values belong to one thread at a time; a process
// may hold several, on several threads. A Tensor may be shared between them.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "interp/embed/options.h"
#include "interp/version.h"
#include "tensor/core/error.h"
#include "tensor/core/tensor.h"

struct lua_State;

namespace moonlet::detail {
struct Session;
struct Reference;
struct Access;
struct ClassRecord;
}  // namespace moonlet::detail

// What follows is what the libraries export of the interpreter.
#pragma GCC visibility push(default)

namespace moonlet {

class Function;
class Table;
class Value;
template <class T, class Overriding = void>
class Class;  // moonlet/class.h

// What calls take and return: Lua values in order.
using Values = std::vector<Value>;
// The keys of a table with their values.
using Entries = std::vector<std::pair<Value, Value>>;

// A Lua table held by the host. Copies name the same table. It keeps the table alive; once its
// interpreter is gone every use throws Error.
class Table {
 public:
  // t[key], with the metamethods of the table; nil when absent. Throws ScriptError.
  Value get(const Value& key) const;
  void set(const Value& key, const Value& value) const;
  // The length, as `#t` gives it.
  int64_t length() const;
  // All keys with their values, in no order, without metamethods: what `next` gives.
  Entries entries() const;

  // With C++ types and without metamethods: `t.get<double>("rate")`, `t.set("names", vector)`.
  // Both need moonlet/typed.h. Throws ConversionError, which names the key.
  template <class T>
  T get(std::string_view key) const;
  template <class T>
  T get(int64_t key) const;
  template <class T, class Enable = std::enable_if_t<!std::is_convertible_v<T&&, Value>>>
  void set(const Value& key, T&& value) const;

 private:
  friend struct detail::Session;
  friend struct detail::Access;
  explicit Table(std::shared_ptr<detail::Reference> reference) : reference_(std::move(reference)) {}
  std::shared_ptr<detail::Reference> reference_;
};

// A Lua function, or another value that can be called, held by the host like a Table.
class Function {
 public:
  // Calls it; returns all results. Throws ScriptError, or what a host function threw that the call
  // has reached.
  Values call(const Values& arguments) const;
  Values call(const Value* arguments, size_t count) const;
  template <class... Arguments>
  Values operator()(Arguments&&... arguments) const;

 private:
  friend struct detail::Session;
  friend struct detail::Access;
  explicit Function(std::shared_ptr<detail::Reference> reference)
      : reference_(std::move(reference)) {}
  std::shared_ptr<detail::Reference> reference_;
};

// A Lua value that C++ has no type for (userdata, a coroutine), held by the host like a Table: it
// can be handed back.
class Object {
 private:
  friend struct detail::Session;
  friend struct detail::Access;
  explicit Object(std::shared_ptr<detail::Reference> reference)
      : reference_(std::move(reference)) {}
  std::shared_ptr<detail::Reference> reference_;
};

// What passes between host and script: nil, boolean, integer, number, string (any bytes), tensor,
// table, function, or an object of another kind.
//
// A Lua integer is an int64_t: other integer types pass when the number fits, both ways, and are an
// Error otherwise.
class Value {
 public:
  // The type that stands for nil, and the one that holds any value.
  using Nil = std::monostate;
  using Variant = std::variant<Nil, bool, int64_t, double, std::string, Tensor, moonlet::Table,
                               Function, Object>;

  Value() = default;
  Value(std::nullptr_t) {}
  Value(bool value) : value_(value) {}
  template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  Value(T value) : value_(static_cast<int64_t>(value)) {
    if constexpr (std::is_unsigned_v<T> && sizeof(T) >= sizeof(int64_t)) {
      if (value > static_cast<T>(std::numeric_limits<int64_t>::max())) refuse_unsigned(value);
    }
  }
  Value(double value) : value_(value) {}
  Value(float value) : value_(static_cast<double>(value)) {}
  Value(std::string value) : value_(std::move(value)) {}
  Value(std::string_view value) : value_(std::string(value)) {}
  // A null pointer is nil.
  Value(const char* value) {
    if (value != nullptr) value_.emplace<std::string>(value);
  }
  // No other pointer is a value; it would pass as a boolean.
  template <class T, std::enable_if_t<!std::is_same_v<std::remove_cv_t<T>, char>, int> = 0>
  Value(T*) = delete;
  Value(Tensor value) : value_(std::move(value)) {}
  Value(moonlet::Table value) : value_(std::move(value)) {}
  Value(Function value) : value_(std::move(value)) {}
  Value(Object value) : value_(std::move(value)) {}

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
  const Object& object() const;

  // The value as a C++ type: bool, any integer type, double, float, std::string, Tensor,
  // moonlet::Table, Function or Object. Throws Error when it is of another kind, when an integer
  // type cannot hold the number, and when a number with a fraction is to be an integer.
  template <class T>
  T as() const;

  // "nil", "boolean", "integer", "number", "string", "tensor", "table", "function" or
  // "object".
  const char* type_name() const noexcept;
  const Variant& variant() const noexcept { return value_; }

 private:
  [[noreturn]] static void refuse_unsigned(uint64_t value);
  // The integer, which lies within the bounds; `type` is how the message calls the type.
  int64_t integer_within(int64_t least, int64_t most, const char* type) const;

  Variant value_;
};

// A script failed. what() is the message alone: of an error value that is no string, its
// `__tostring`, or "(error object is a table value)".
class ScriptError : public Error {
 public:
  ScriptError(const std::string& message, std::string traceback, Value value = {});
  // What went wrong, with the script's line: what() as a string.
  std::string message() const { return what(); }
  // Where it happened, from the inside out; begins with "stack traceback:". Empty for errors that
  // come before a script runs.
  const std::string& traceback() const noexcept { return details_->traceback; }
  // The error value of the script: a string, a table with its fields, ... Nil when memory was
  // too short to hold it.
  const Value& value() const noexcept { return details_->value; }

 private:
  struct Details {
    std::string traceback;
    Value value;
  };
  std::shared_ptr<const Details> details_;
};

// What of InterpreterOptions a run may exceed.
enum class Limit : uint8_t { LuaBytes, TensorBytes, Instructions, WallTime };

// A run has passed a limit of its Options and was ended. value() is nil.
class LimitExceeded : public ScriptError {
 public:
  LimitExceeded(Limit limit, const std::string& message, std::string traceback)
      : ScriptError(message, std::move(traceback)), limit_(limit) {}
  // Which limit it was.
  Limit limit() const noexcept { return limit_; }

 private:
  Limit limit_;
};

// Interpreter::interrupt has ended a run. value() is nil.
class ScriptInterrupted : public ScriptError {
 public:
  using ScriptError::ScriptError;
};

// A function of the host that scripts call. What it throws is a Lua error in the script: a message
// with the script's line, or the error value of a ScriptError. When the script does not catch it,
// or raises the same message again, the host's own call into the interpreter throws the exception
// itself, of its own type.
using HostFunction = std::function<Values(const Values&)>;

// A Lua state with the standard libraries and Moonlet's modules (`require "moonlet"`).
//
// It may be moved from, replaced and destroyed at any time, also by a host function that it calls:
// then the script that runs is stopped, the call that runs it throws Error, and the Lua state is
// closed when the last such call has ended. Closing runs finalizers of scripts, which may still
// call host functions. Any use of an interpreter that was moved from throws Error.
class Interpreter {
 public:
  // What its scripts may do, and where their output goes.
  using Options = InterpreterOptions;

  // With all libraries and without limits; moonlet/options.h says what can be chosen.
  Interpreter();
  explicit Interpreter(Options options);
  ~Interpreter() = default;
  Interpreter(Interpreter&&) noexcept = default;
  Interpreter& operator=(Interpreter&&) noexcept = default;

  // Run Lua source, or a file of it; return what the chunk returns. Throw ScriptError when it does
  // not compile, cannot be read or fails. `name` is what messages call the chunk.
  Values run_string(std::string_view code, const std::string& name = "script");
  Values run_file(const std::string& path);

  // Globals, or what a path such as "model.layers.first" leads to, with the metamethods on its way.
  // What stands before a dot must be there; `set` makes the last field only.
  Value get(const std::string& path);
  void set(const std::string& path, const Value& value);
  Table new_table();

  // The same with C++ types: `lua.get<std::vector<double>>("weights")`, `lua.set("synth", &synth)`.
  // What does not fit is a ConversionError. They need moonlet/typed.h.
  template <class T>
  T get(const std::string& path);
  template <class T, class Enable = std::enable_if_t<!std::is_convertible_v<T&&, Value>>>
  void set(const std::string& path, T&& value);

  // Calls a function found as `get` finds it, or one that is held. Throws ScriptError.
  template <class... Arguments>
  Values call(const std::string& path, Arguments&&... arguments) {
    const std::array<Value, sizeof...(Arguments)> values{
        Value(std::forward<Arguments>(arguments))...};
    return call_path(path, values.data(), values.size());
  }
  template <class... Arguments>
  Values call(const Function& function, Arguments&&... arguments) {
    return function(std::forward<Arguments>(arguments)...);
  }
  Values call_path(const std::string& path, const Values& arguments) {
    return call_path(path, arguments.data(), arguments.size());
  }
  Values call_path(const std::string& path, const Value* arguments, size_t count);

  // As `call`, in at most `time`: then the run ends with LimitExceeded, as at a limit of wall_time.
  // Inside a host function it is the whole run that ends so.
  template <class Target, class... Arguments>
  Values call_within(std::chrono::nanoseconds time, const Target& target,
                     Arguments&&... arguments) {
    const std::array<Value, sizeof...(Arguments)> values{
        Value(std::forward<Arguments>(arguments))...};
    return call_values_within(time, target, values.data(), values.size());
  }
  Values call_values_within(std::chrono::nanoseconds time, const std::string& path,
                            const Value* arguments, size_t count);
  Values call_values_within(std::chrono::nanoseconds time, const Function& function,
                            const Value* arguments, size_t count);

  // The limits of the next runs. `set_limits` throws Error inside a run, and where tensor_bytes is
  // given to an interpreter that was made without any limit, as its tensors were not counted. Only
  // one that was made with a limit of instructions or time keeps scripts from code that no stop
  // reaches, `__gc` and hooks of their own: for scripts that are not trusted, make it with one.
  RunLimits limits() const;
  void set_limits(const RunLimits& limits);

  // `ml.load_string` and `ml.save_string`: what is left of a stream, of any format that `ml.load`
  // reads, and a file of the format "safetensors", "pt", "npy", "npz" or "program" into one. They
  // throw Error where the stream fails, ScriptError as the functions do.
  Value load(std::istream& in);
  void save(std::ostream& out, const std::string& format, const Value& value);

  // Makes `function` a global of that name, or what the path leads to.
  void register_function(const std::string& path, HostFunction function);
  // One with parameters and a result of its own, or several: overload(f, g). Needs moonlet/typed.h.
  template <class F, class Enable = std::enable_if_t<!std::is_convertible_v<F&&, HostFunction>>>
  void register_function(const std::string& path, F&& function);

  // Makes a class of the host known to scripts, as a global of that name; another form takes one
  // whose virtual methods scripts may override. Needs moonlet/class.h.
  template <class T>
  Class<T> bind(const std::string& name);
  template <class T, class Overriding>
  Class<T, Overriding> bind(const std::string& name);
  // A function value for tables and arguments.
  Function make_function(HostFunction function);

  // Collects garbage for about so long, and less where all is collected: then returns true. For a
  // host that has time now: between two frames, behind an audio block. What it began goes on with
  // the next call. `collect` collects all.
  bool collect_for(std::chrono::microseconds time);
  void collect();

  // Ends the run that is under way, if there is one: what the script runs fails, coroutines and
  // long ops included, whatever it catches, and the host's outermost call throws
  // ScriptInterrupted. May be called by any thread while the Interpreter exists, by no signal
  // handler. The thread that runs the script is sent SIGURG for it; see docs/embedding/limits.md.
  void interrupt() const noexcept;

  // How many CPU threads the ops of its scripts may use, whatever thread runs them, and those of
  // host functions that they call: `ml.set_num_threads` of the script. Throws Error unless it is
  // from 1 to 1024. Code without an interpreter has num_threads and set_num_threads of
  // moonlet/ops.h, which are the calling thread's.
  int num_threads() const;
  void set_num_threads(int64_t count);

  // What follows is in libmoonlet-lua alone (moonlet/lua.h): the Lua of libmoonlet is its own.
  //
  // The Lua state, for hosts that also use Lua's own interface. It stays the interpreter's. Code
  // that runs scripts through it belongs into `with_state`.
  lua_State* state() const;
  // Runs `body` on the Lua state with the interpreter's grad mode, default dtype and generator
  // installed on this thread. Lua errors in it become ScriptError, exceptions pass.
  void with_state(const std::function<void(lua_State*)>& body);
  // lua_resume for such code: the coroutine `co` keeps its own grad mode when it yields.
  static int resume(lua_State* from, lua_State* co, int arguments, int* results);

 private:
  friend struct detail::Access;
  struct Closer {
    void operator()(detail::Session* session) const noexcept;
  };
  explicit Interpreter(detail::Session* session) : session_(session) {}
  detail::Session& session() const;

  std::unique_ptr<detail::Session, Closer> session_;
};

inline Values Function::call(const Values& arguments) const {
  return call(arguments.data(), arguments.size());
}
template <class... Arguments>
Values Function::operator()(Arguments&&... arguments) const {
  const std::array<Value, sizeof...(Arguments)> values{
      Value(std::forward<Arguments>(arguments))...};
  return call(values.data(), values.size());
}

namespace detail {
// How messages call an integer type.
template <class T>
const char* integer_name() {
  constexpr const char* kSigned[] = {"int8", "int16", "int32", "int64"};
  constexpr const char* kUnsigned[] = {"uint8", "uint16", "uint32", "uint64"};
  constexpr int kPosition = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  return std::is_signed_v<T> ? kSigned[kPosition] : kUnsigned[kPosition];
}
}  // namespace detail

template <class T>
T Value::as() const {
  if constexpr (std::is_same_v<T, bool>) {
    return boolean();
  } else if constexpr (std::is_integral_v<T>) {
    using Limits = std::numeric_limits<T>;
    constexpr bool kWide = std::is_unsigned_v<T> && sizeof(T) >= sizeof(int64_t);
    constexpr int64_t kMax =
        kWide ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(Limits::max());
    return static_cast<T>(
        integer_within(static_cast<int64_t>(Limits::min()), kMax, detail::integer_name<T>()));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(number());
  } else if constexpr (std::is_same_v<T, std::string>) {
    return string();
  } else if constexpr (std::is_same_v<T, Tensor>) {
    return tensor();
  } else if constexpr (std::is_same_v<T, moonlet::Table>) {
    return table();
  } else if constexpr (std::is_same_v<T, Object>) {
    return object();
  } else {
    static_assert(std::is_same_v<T, Function>, "no kind of value is of this type");
    return function();
  }
}

// Moonlet's version, such as "0.1.0".
const char* version() noexcept;

}  // namespace moonlet

#pragma GCC visibility pop
