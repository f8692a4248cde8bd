// interp/embed/value.cpp: what a Value of the embedding API holds, and errors when it holds another
// kind.
#include <cmath>

#include "interp/embed/moonlet.h"

namespace moonlet {
namespace {

template <class T>
const T& expect(const Value& value, const char* wanted) {
  const T* held = std::get_if<T>(&value.variant());
  if (held == nullptr) fail("value: a ", value.type_name(), " came, a ", wanted, " was expected");
  return *held;
}

}  // namespace

const char* Value::type_name() const noexcept {
  static constexpr const char* kNames[] = {"nil",    "boolean", "integer",  "number", "string",
                                           "tensor", "table",   "function", "object"};
  static_assert(std::size(kNames) == std::variant_size_v<Variant>);
  return kNames[value_.index()];
}

bool Value::boolean() const { return expect<bool>(*this, "boolean"); }

int64_t Value::integer() const {
  const double* number = std::get_if<double>(&value_);
  if (number == nullptr) return expect<int64_t>(*this, "integer");
  // Every double in this range without a fraction is an int64.
  check(std::floor(*number) == *number && *number >= -0x1p63 && *number < 0x1p63,
        "value: ", *number, " came, an integer was expected");
  return static_cast<int64_t>(*number);
}

int64_t Value::integer_within(int64_t least, int64_t most, const char* type) const {
  const int64_t value = integer();
  check(value >= least && value <= most, "value: ", value, " does not fit ", type);
  return value;
}

void Value::refuse_unsigned(uint64_t value) {
  fail("value: ", std::to_string(value), " does not fit an integer of Lua (int64)");
}

double Value::number() const {
  const int64_t* integer = std::get_if<int64_t>(&value_);
  return integer != nullptr ? static_cast<double>(*integer) : expect<double>(*this, "number");
}

const std::string& Value::string() const { return expect<std::string>(*this, "string"); }
const Tensor& Value::tensor() const { return expect<Tensor>(*this, "tensor"); }
const Table& Value::table() const { return expect<moonlet::Table>(*this, "table"); }
const Function& Value::function() const { return expect<Function>(*this, "function"); }
const Object& Value::object() const { return expect<Object>(*this, "object"); }

}  // namespace moonlet
