// tensor/program/dynamic_argument.cpp: reads and writes the integers of arguments.
#include "tensor/program/dynamic_argument.h"

#include <bit>

#include "tensor/core/dims.h"
#include "tensor/core/error.h"

namespace moonlet::program {

std::optional<int64_t> integer_in(const Argument& argument, int32_t element) {
  const auto* value = std::get_if<BoxedValue>(&argument);
  if (value == nullptr) return {};
  const auto at = [element](const auto& list) -> std::optional<int64_t> {
    if (element < 0 || element >= static_cast<int32_t>(list.size())) return {};
    return list[element];
  };
  if (const auto* dims = std::get_if<Dims>(value)) return at(*dims);
  if (const auto* list = std::get_if<std::vector<int64_t>>(value)) return at(*list);
  if (element != kNone) return {};
  if (const auto* one = std::get_if<int64_t>(value)) return *one;
  if (const auto* scalar = std::get_if<Scalar>(value))
    if (scalar->kind() == Scalar::Kind::Int) return scalar->to_int();
  return {};
}

int32_t element_count(const Argument& argument) {
  const auto* value = std::get_if<BoxedValue>(&argument);
  if (value == nullptr) return kNone;
  if (const auto* dims = std::get_if<Dims>(value)) return dims->size();
  if (const auto* list = std::get_if<std::vector<int64_t>>(value))
    return static_cast<int32_t>(list->size());
  return kNone;
}

void set_integer(Argument& argument, int32_t element, int64_t to) {
  BoxedValue& value = std::get<BoxedValue>(argument);
  if (auto* dims = std::get_if<Dims>(&value))
    (*dims)[element] = to;
  else if (auto* list = std::get_if<std::vector<int64_t>>(&value))
    (*list)[static_cast<size_t>(element)] = to;
  else if (std::holds_alternative<Scalar>(value))
    value = Scalar(to);
  else
    value = to;
}

int64_t value_of(const DynamicArgument& argument, const std::vector<int64_t>& sizes) {
  int64_t out = argument.constant;
  for (size_t i = 0; i < sizes.size(); ++i)
    out = checked_add(out, checked_mul(argument.factors[i], sizes[i], "program: a size"),
                      "program: a size");
  return out;
}

namespace {

bool is_same_number(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

struct SameValue {
  const BoxedValue& other;

  template <class T>
  bool operator()(const T& a) const {
    const T& b = std::get<T>(other);
    if constexpr (std::is_same_v<T, Tensor>) {
      return a.is_same(b);
    } else if constexpr (std::is_same_v<T, std::vector<Tensor>>) {
      return false;
    } else if constexpr (std::is_same_v<T, Scalar>) {
      return a.kind() == b.kind() && a.to_int() == b.to_int() &&
             is_same_number(a.to_complex().real(), b.to_complex().real()) &&
             is_same_number(a.to_complex().imag(), b.to_complex().imag());
    } else if constexpr (std::is_same_v<T, double>) {
      return is_same_number(a, b);
    } else if constexpr (std::is_same_v<T, std::vector<double>>) {
      return std::equal(a.begin(), a.end(), b.begin(), b.end(), is_same_number);
    } else if constexpr (std::is_same_v<T, Options>) {
      return a.dtype == b.dtype && a.device == b.device;
    } else {
      return a == b;
    }
  }
};

}  // namespace

bool is_same(const Argument& a, const Argument& b) {
  if (a.index() != b.index()) return false;
  if (const auto* one = std::get_if<ValueRef>(&a)) return *one == std::get<ValueRef>(b);
  if (const auto* list = std::get_if<ValueRefs>(&a)) return *list == std::get<ValueRefs>(b);
  const BoxedValue &x = std::get<BoxedValue>(a), &y = std::get<BoxedValue>(b);
  return x.index() == y.index() && std::visit(SameValue{y}, x);
}

}  // namespace moonlet::program
