// interp/c/values.cpp: values of the C interface as Values of the embedding API and back, and the
// handles that they hold.
#include <algorithm>
#include <iterator>
#include <memory>
#include <new>

#include "interp/c/calls.h"

namespace moonlet::c {

std::deque<std::string>& returned_texts() noexcept {
  static thread_local std::deque<std::string> texts;
  return texts;
}

// --- from C --------------------------------------------------------------------------------------

Value value_in(const moonlet_value& value, const char* function, size_t position) {
  const auto held = [&](const void* handle, HandleKind kind) -> void* {
    void* payload = payload_of(handle, kind);
    if (payload == nullptr)
      refuse(function, ": value ", position, ": expected ", name(kind), ", got ",
             describe_handle(handle));
    return payload;
  };
  switch (value.kind) {
    case MOONLET_NIL: return {};
    case MOONLET_BOOLEAN: return value.as.boolean != 0;
    case MOONLET_INTEGER: return value.as.integer;
    case MOONLET_NUMBER: return value.as.number;
    case MOONLET_STRING:
      if (value.as.string.data == nullptr && value.as.string.size > 0)
        refuse(function, ": value ", position, ": expected the bytes of a string, got null");
      return std::string(value.as.string.size > 0 ? value.as.string.data : "",
                         value.as.string.size);
    case MOONLET_TENSOR: {
      Tensor borrowed =
          Tensor::adopt(static_cast<TensorImpl*>(held(value.as.tensor, HandleKind::Tensor)));
      Value out(borrowed);
      static_cast<void>(borrowed.release());
      return out;
    }
    case MOONLET_TABLE:
      return static_cast<Held<Table>*>(held(value.as.table, HandleKind::Table))->value;
    case MOONLET_FUNCTION:
      return static_cast<Held<Function>*>(held(value.as.function, HandleKind::Function))->value;
    case MOONLET_OBJECT:
      return static_cast<Held<Object>*>(held(value.as.object, HandleKind::Object))->value;
    default:
      refuse(function, ": value ", position, ": expected a value of Lua, got ",
             moonlet_kind_name(value.kind));
  }
}

Arguments::Arguments(const moonlet_value* values, size_t count, const char* function)
    : data_(reinterpret_cast<Value*>(inline_)) {
  if (values == nullptr && count > 0) refuse_null(function, "arguments");
  if (count > kInline) data_ = static_cast<Value*>(::operator new(count * sizeof(Value)));
  try {
    for (; count_ < count; ++count_) {
      const moonlet_value& value = values[count_];
      if (value.kind == MOONLET_NUMBER) [[likely]]
        new (data_ + count_) Value(value.as.number);
      else
        new (data_ + count_) Value(value_in(value, function, count_));
    }
  } catch (...) {
    drop();
    throw;
  }
}

Arguments::~Arguments() { drop(); }

void Arguments::drop() noexcept {
  for (size_t i = 0; i < count_; ++i) data_[i].~Value();
  if (data_ != reinterpret_cast<Value*>(inline_)) ::operator delete(data_);
}

// --- to C ----------------------------------------------------------------------------------------

namespace {

template <class T>
void* new_held(HandleKind kind, T value, Shared& shared) {
  auto held = std::make_unique<Held<T>>(std::move(value), shared);
  void* handle = new_handle(kind, held.get());
  static_cast<void>(held.release());
  return handle;
}

template <class Handle>
Handle as(void* handle) {
  return static_cast<Handle>(handle);
}

}  // namespace

moonlet_tensor handle_of(Tensor&& tensor) {
  if (!tensor.defined()) return nullptr;
  void* handle = new_handle(HandleKind::Tensor, tensor.impl());
  static_cast<void>(tensor.release());
  return as<moonlet_tensor>(handle);
}

void give(moonlet_tensor* to, Tensor tensor) {
  if (to != nullptr) *to = handle_of(std::move(tensor));
}

void give_all(const std::vector<Tensor>& tensors, moonlet_tensor* to) {
  std::vector<moonlet_tensor> out;
  out.reserve(tensors.size());
  try {
    for (const Tensor& tensor : tensors) out.push_back(handle_of(tensor));
  } catch (...) {
    for (const moonlet_tensor handle : out) static_cast<void>(moonlet_tensor_free(handle));
    throw;
  }
  std::copy(out.begin(), out.end(), to);
}

void put_value(Value&& value, moonlet_value& to, Shared& shared) {
  moonlet_value out{};
  const Value::Variant& held = value.variant();
  // In the order of Value::Variant, which is that of the kinds.
  out.kind = static_cast<int32_t>(held.index());
  switch (out.kind) {
    case MOONLET_NIL: break;
    case MOONLET_BOOLEAN: out.as.boolean = std::get<bool>(held) ? 1 : 0; break;
    case MOONLET_INTEGER: out.as.integer = std::get<int64_t>(held); break;
    case MOONLET_NUMBER: out.as.number = std::get<double>(held); break;
    case MOONLET_STRING: {
      const std::string& text = returned_texts().emplace_back(
          std::move(const_cast<std::string&>(std::get<std::string>(held))));
      out.as.string.data = text.c_str();
      out.as.string.size = text.size();
      break;
    }
    case MOONLET_TENSOR:
      out.as.tensor = handle_of(std::get<Tensor>(held));
      if (out.as.tensor == nullptr) out.kind = MOONLET_NIL;
      break;
    case MOONLET_TABLE:
      out.as.table = as<moonlet_table>(new_held(HandleKind::Table, value.table(), shared));
      break;
    case MOONLET_FUNCTION:
      out.as.function =
          as<moonlet_function>(new_held(HandleKind::Function, value.function(), shared));
      break;
    default:
      out.as.object = as<moonlet_object>(new_held(HandleKind::Object, value.object(), shared));
  }
  to = out;
}

static_assert(
    std::is_same_v<std::variant_alternative_t<MOONLET_STRING, Value::Variant>, std::string>);
static_assert(std::is_same_v<std::variant_alternative_t<MOONLET_TENSOR, Value::Variant>, Tensor>);
static_assert(std::is_same_v<std::variant_alternative_t<MOONLET_TABLE, Value::Variant>, Table>);
static_assert(
    std::is_same_v<std::variant_alternative_t<MOONLET_FUNCTION, Value::Variant>, Function>);
static_assert(std::is_same_v<std::variant_alternative_t<MOONLET_OBJECT, Value::Variant>, Object>);

namespace {
// Mostly there are none, which takes a deque more than a test to find.
void forget_texts() noexcept {
  std::deque<std::string>& texts = returned_texts();
  if (!texts.empty()) texts.clear();
}
}  // namespace

void give_value(Value&& value, moonlet_value* to, Shared& shared) {
  forget_texts();
  if (to != nullptr) put_value(std::move(value), *to, shared);
}

void give_values(Values&& values, moonlet_value* results, size_t capacity, size_t* count,
                 Shared& shared) {
  forget_texts();
  const size_t given = results == nullptr ? 0 : std::min(values.size(), capacity);
  size_t done = 0;
  try {
    for (; done < given; ++done) put_value(std::move(values[done]), results[done], shared);
  } catch (...) {
    while (done > 0) free_value(results[--done]);
    throw;
  }
  if (count != nullptr) *count = values.size();
}

void put_scalar(const Scalar& scalar, moonlet_value& to) {
  moonlet_value out{};
  switch (scalar.kind()) {
    case Scalar::Kind::Bool:
      out.kind = MOONLET_BOOLEAN;
      out.as.boolean = scalar.to_bool() ? 1 : 0;
      break;
    case Scalar::Kind::Int:
      out.kind = MOONLET_INTEGER;
      out.as.integer = scalar.to_int();
      break;
    case Scalar::Kind::Float:
      out.kind = MOONLET_NUMBER;
      out.as.number = scalar.to_double();
      break;
    case Scalar::Kind::Complex:
      out.kind = MOONLET_COMPLEX;
      out.as.complex128.real = scalar.to_complex().real();
      out.as.complex128.imag = scalar.to_complex().imag();
  }
  to = out;
}

// --- ends ----------------------------------------------------------------------------------------

namespace {

// What a payload is of is known by its kind.
void free_payload(void* payload, HandleKind kind) noexcept {
  switch (kind) {
    case HandleKind::Tensor: Tensor::adopt(static_cast<TensorImpl*>(payload)); break;
    case HandleKind::Table: delete static_cast<Held<Table>*>(payload); break;
    case HandleKind::Function: delete static_cast<Held<Function>*>(payload); break;
    case HandleKind::Object: delete static_cast<Held<Object>*>(payload); break;
    default: break;
  }
}

moonlet_status free_handle(const void* handle, HandleKind kind, const char* function,
                           const char* argument) noexcept {
  return guarded([&] {
    void* payload = release_handle(handle, kind);
    if (payload == nullptr) refuse_handle(function, argument, handle, kind);
    free_payload(payload, kind);
  });
}

struct HeldHandle {
  const void* handle;
  HandleKind kind;
};
HeldHandle handle_in(const moonlet_value& value) noexcept {
  switch (value.kind) {
    case MOONLET_TENSOR: return {value.as.tensor, HandleKind::Tensor};
    case MOONLET_TABLE: return {value.as.table, HandleKind::Table};
    case MOONLET_FUNCTION: return {value.as.function, HandleKind::Function};
    case MOONLET_OBJECT: return {value.as.object, HandleKind::Object};
    default: return {nullptr, HandleKind::Free};
  }
}

}  // namespace

bool free_value(moonlet_value& value) noexcept {
  const HeldHandle held = handle_in(value);
  value = moonlet_value{};
  if (held.kind == HandleKind::Free) return true;
  void* payload = release_handle(held.handle, held.kind);
  if (payload == nullptr) return false;
  free_payload(payload, held.kind);
  return true;
}

}  // namespace moonlet::c

using namespace moonlet::c;
using moonlet::Tensor;

moonlet_status moonlet_value_free(moonlet_value* value) {
  const char* function = __func__;
  return guarded([&] {
    const HeldHandle held = handle_in(not_null(value, function, "value"));
    if (!free_value(*value)) refuse_handle(function, "value", held.handle, held.kind);
  });
}

moonlet_status moonlet_value_copy(const moonlet_value* value, moonlet_value* copy) {
  const char* function = __func__;
  return guarded([&] {
    const moonlet_value& from = not_null(value, function, "value");
    moonlet_value& to = not_null(copy, function, "copy");
    moonlet_value out = from;
    const HeldHandle held = handle_in(from);
    if (held.kind == HandleKind::Tensor) {
      out.as.tensor = handle_of(*TensorIn(from.as.tensor, function, "value"));
    } else if (held.kind != HandleKind::Free) {
      const auto again = [&]<class T>(std::type_identity<T>) {
        auto& old = object_of<Held<T>>(held.handle, held.kind, function, "value");
        put_value(moonlet::Value(old.value), out, old.shared);
      };
      if (held.kind == HandleKind::Table) again(std::type_identity<moonlet::Table>());
      if (held.kind == HandleKind::Function) again(std::type_identity<moonlet::Function>());
      if (held.kind == HandleKind::Object) again(std::type_identity<moonlet::Object>());
    }
    to = out;
  });
}

const char* moonlet_kind_name(int32_t kind) {
  static constexpr const char* kNames[] = {
      "nil",    "boolean", "integer",  "number",  "string",  "tensor", "table",    "function",
      "object", "complex", "integers", "numbers", "tensors", "dtype",  "placement"};
  return kind >= 0 && static_cast<size_t>(kind) < std::size(kNames) ? kNames[kind] : "unknown kind";
}

moonlet_status moonlet_table_free(moonlet_table table) {
  return free_handle(table, HandleKind::Table, __func__, "table");
}
moonlet_status moonlet_function_free(moonlet_function function) {
  return free_handle(function, HandleKind::Function, __func__, "function");
}
moonlet_status moonlet_object_free(moonlet_object object) {
  return free_handle(object, HandleKind::Object, __func__, "object");
}
moonlet_status moonlet_tensor_free(moonlet_tensor tensor) {
  return free_handle(tensor, HandleKind::Tensor, __func__, "tensor");
}

moonlet_status moonlet_error_value(moonlet_value* value) {
  return guarded([&] {
    const LastError& error = last_error();
    if (value == nullptr) return;
    if (error.value.is_nil() || error.origin == nullptr)
      *value = moonlet_value{};
    else
      put_value(moonlet::Value(error.value), *value, *error.origin);
  });
}
