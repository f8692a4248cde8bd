// interp/c/calls.h: what every function of the C interface is made of: the guard that turns
// whatever is thrown into a status, the thread's last error, handles as the objects behind them,
// and values.
#pragma once

#include <atomic>
#include <deque>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "interp/c/c.h"
#include "interp/c/handles.h"
#include "interp/embed/moonlet.h"
#include "tensor/core/error.h"

namespace moonlet::c {

// A failure with a status of its own.
class StatusError : public Error {
 public:
  StatusError(moonlet_status status, const std::string& message)
      : Error(message), status_(status) {}
  moonlet_status status() const noexcept { return status_; }

 private:
  moonlet_status status_;
};

template <class... Parts>
[[noreturn, gnu::cold]] void refuse(const Parts&... parts) {
  throw StatusError(MOONLET_INVALID, text(parts...));
}

// --- errors --------------------------------------------------------------------------------------

struct Shared;

struct LastError {
  ~LastError();
  moonlet_status status = MOONLET_OK;
  int32_t limit = MOONLET_LIMIT_NONE;
  std::string message, traceback;
  Value value;
  Shared* origin = nullptr;      // the interpreter of the value
  const char* fixed = nullptr;   // instead of the message, where memory was too short for it
  std::exception_ptr exception;  // null when moonlet_set_error has said the message
};
LastError& last_error() noexcept;

// The status of the exception that is being handled, which becomes the thread's last error.
moonlet_status note_exception() noexcept;

// The body of a function: every exception becomes a status.
template <class Body>
moonlet_status guarded(Body&& body) noexcept {
  try {
    body();
    return MOONLET_OK;
  } catch (...) {
    return note_exception();
  }
}

// --- interpreters --------------------------------------------------------------------------------

// An interpreter with the handles that need it: its own, and those of its tables and functions.
struct Shared {
  std::optional<Interpreter> lua;            // nothing once it was closed
  std::atomic<const void*> thread{nullptr};  // the one that is inside
  int depth = 0;                             // how many calls it has under way
  bool closed_inside = false;                // its own handle's share goes with the outermost call
  std::atomic<int> holders{1};
  moonlet_interpreter handle = nullptr;

  void drop() noexcept {
    if (holders.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
};

// A call into an interpreter. Throws when another thread is inside.
class Inside {
 public:
  explicit Inside(Shared& shared) : shared_(shared) {
    const void* me = &mark;
    if (shared.thread.load(std::memory_order_relaxed) != me) {
      const void* nobody = nullptr;
      if (!shared.thread.compare_exchange_strong(nobody, me, std::memory_order_acquire))
          [[unlikely]]
        refuse_busy();
    }
    ++shared.depth;
  }
  ~Inside() {
    if (--shared_.depth > 0) return;
    const bool closed = std::exchange(shared_.closed_inside, false);
    shared_.thread.store(nullptr, std::memory_order_release);
    if (closed) [[unlikely]]
      shared_.drop();
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  [[noreturn]] static void refuse_busy();
  static constinit thread_local char mark;

  Shared& shared_;
};

// Notes where an error value comes from.
void note_origin(Shared& shared) noexcept;

// Runs `body` inside; an error of a script goes on with its error value.
template <class Body>
void inside(Shared& shared, Body&& body) {
  const Inside call(shared);
  try {
    body();
  } catch (const ScriptError&) {
    note_origin(shared);
    throw;
  }
}

// What the handle of a table, function or object names.
template <class T>
struct Held {
  Held(T given, Shared& with) : value(std::move(given)), shared(with) {
    shared.holders.fetch_add(1, std::memory_order_relaxed);
  }
  ~Held() { shared.drop(); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  T value;
  Shared& shared;
};

// --- arguments -----------------------------------------------------------------------------------

[[noreturn]] void refuse_handle(const char* function, const char* argument, const void* handle,
                                HandleKind wanted);
[[noreturn]] void refuse_null(const char* function, const char* argument);

// The object behind a handle. `function` and `argument` are for messages.
template <class T>
T& object_of(const void* handle, HandleKind kind, const char* function, const char* argument) {
  void* payload = payload_of(handle, kind);
  if (payload == nullptr) [[unlikely]]
    refuse_handle(function, argument, handle, kind);
  return *static_cast<T*>(payload);
}

inline Shared& interpreter_of(moonlet_interpreter lua, const char* function) {
  return object_of<Shared>(lua, HandleKind::Interpreter, function, "lua");
}

template <class T>
T& not_null(T* pointer, const char* function, const char* argument) {
  if (pointer == nullptr) [[unlikely]]
    refuse_null(function, argument);
  return *pointer;
}

// A text that must be there.
inline std::string_view text_in(const char* text, const char* function, const char* argument) {
  return &not_null(text, function, argument);
}

// A tensor is held by a slot as its TensorImpl.
class TensorIn {
 public:
  TensorIn(moonlet_tensor handle, const char* function, const char* argument)
      : tensor_(
            Tensor::adopt(&object_of<TensorImpl>(handle, HandleKind::Tensor, function, argument))) {
  }
  ~TensorIn() { static_cast<void>(tensor_.release()); }  // the slot's reference, not one of its own
  TensorIn(const TensorIn&) = delete;
  TensorIn& operator=(const TensorIn&) = delete;
  Tensor& operator*() noexcept { return tensor_; }
  Tensor* operator->() noexcept { return &tensor_; }

 private:
  Tensor tensor_;
};

// Gives a tensor to the caller. Undefined: a null handle.
moonlet_tensor handle_of(Tensor&& tensor);  // which stays as it is when this throws
inline moonlet_tensor handle_of(const Tensor& tensor) { return handle_of(Tensor(tensor)); }
void give(moonlet_tensor* to, Tensor tensor);
// All or none of them.
void give_all(const std::vector<Tensor>& tensors, moonlet_tensor* to);
template <class T, class V>
void give(T* to, V value) {
  if (to != nullptr) *to = static_cast<T>(value);
}

DType dtype_in(int32_t dtype, const char* function);
int32_t dtype_number(DType dtype);
// null: the default device.
Device device_in(const char* device);

// Sizes or strides.
Dims dims_in(const int64_t* sizes, int32_t rank, const char* function, const char* argument);

// --- values --------------------------------------------------------------------------------------

// One of Lua's values. `position` is for messages.
Value value_in(const moonlet_value& value, const char* function, size_t position);

// Texts that were given to the caller and stay until the thread's next call.
std::deque<std::string>& returned_texts() noexcept;
inline const char* give_text(std::string text) {
  std::deque<std::string>& kept = returned_texts();
  kept.clear();
  return kept.emplace_back(std::move(text)).c_str();
}

// Gives a value to the caller; its text, if any, is added to those that stay.
void put_value(Value&& value, moonlet_value& to, Shared& shared);
// Replaces the texts that stay.
void give_value(Value&& value, moonlet_value* to, Shared& shared);
void give_values(Values&& values, moonlet_value* results, size_t capacity, size_t* count,
                 Shared& shared);
// Frees what a value holds; false when that was freed before.
bool free_value(moonlet_value& value) noexcept;

// A value that needs no interpreter, as the results of ops.
void put_scalar(const Scalar& scalar, moonlet_value& to);

// Arguments as an array of Values: few of them without an allocation.
class Arguments {
 public:
  Arguments(const moonlet_value* values, size_t count, const char* function);
  ~Arguments();
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  const Value* data() const noexcept { return data_; }
  size_t size() const noexcept { return count_; }

 private:
  static constexpr size_t kInline = 6;
  void drop() noexcept;

  alignas(Value) unsigned char inline_[kInline * sizeof(Value)];
  Value* data_;
  size_t count_ = 0;
};

}  // namespace moonlet::c
