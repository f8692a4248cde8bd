// autograd/native/native_node.cpp: the derivatives of ops that are declared in C++.
#include <algorithm>

#include "autograd/native/native_record.h"

namespace moonlet {

namespace {

bool holds_tensors(const BoxedValue& value) {
  return std::holds_alternative<Tensor>(value) ||
         std::holds_alternative<std::vector<Tensor>>(value);
}

int argument_of(const NativeRecord& record, std::string_view name, const char* what) {
  const int at = record.schema.find(name);
  if (at < 0) fail(record.name(), ": its ", what, " asks for '", name, "', which is no argument");
  return at;
}

// The value of an argument that is a T; an error that names both otherwise.
template <class T>
T value_as(const NativeRecord& record, const BoxedValue& value, std::string_view name,
           const char* what) {
  try {
    return boxing::unbox<T>(value, 0);
  } catch (const boxing::WrongKind& wrong) {
    fail(record.name(), ": its ", what, " asks for '", name, "' as ", wrong.wanted,
         ", which it is not");
  }
}

}  // namespace

NativeNode::NativeNode(const NativeRecord& record, std::span<const BoxedValue> arguments)
    : RecordedNode(record.formula), record_(record) {
  geometry_.resize(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const BoxedValue& value = arguments[i];
    plain_.push_back(holds_tensors(value) ? BoxedValue() : value);
    if (const auto* x = std::get_if<Tensor>(&value); x && x->defined())
      geometry_[i] = {x->sizes(), x->dtype(), true, 1};
    if (const auto* list = std::get_if<std::vector<Tensor>>(&value))
      geometry_[i].count = list->size();
  }
}

int NativeNode::argument(std::string_view name) const {
  return argument_of(record_, name, "gradient");
}

int NativeNode::slot(std::string_view name) const {
  const auto saved = std::find(record_.saved.begin(), record_.saved.end(), name);
  if (saved == record_.saved.end())
    fail(record_.name(), ": its gradient reads '", name,
         "', which is not saved; name it in saves(...)");
  const int at = record_.schema.find(name);
  const auto slots = static_cast<int>(record_.tensors.size());
  for (int i = 0; i < slots; ++i)
    if (record_.tensors[static_cast<size_t>(i)] == at && at >= 0) return i;
  for (size_t i = 0; i < record_.schema.results.size(); ++i)
    if (record_.schema.results[i].name == name) return slots + static_cast<int>(i);
  fail(record_.name(), ": '", name, "' is no tensor");
}

void NativeNode::evaluate(Backward& backward) {
  const Derivative derivative(*this, backward);
  for (size_t k = 0; k < record_.gradients.size(); ++k) {
    if (!backward.needs(record_.formula.gradients[k].targets)) continue;
    const NativeRecord::Gradient& gradient = record_.gradients[k];
    std::vector<Tensor> values = gradient.function(derivative);
    const auto position = [&](int argument) {
      int out = 0;
      for (size_t slot = 0; record_.tensors[slot] != argument; ++slot)
        out += static_cast<int>(record_.formula.differentiable >> slot & 1u);
      return out;
    };
    const int last = gradient.arguments.back();
    const auto at = static_cast<size_t>(last);
    if (record_.schema.arguments[at].type->name == std::string_view("Tensor[]")) {
      const size_t others = gradient.arguments.size() - 1;
      check(values.size() >= others, record_.name(), ": its gradient gives ", values.size(),
            " tensors, expected at least ", others);
      for (size_t i = 0; i < others; ++i) backward[position(gradient.arguments[i])] = values[i];
      backward.give_list(position(last),
                         {values.begin() + static_cast<ptrdiff_t>(others), values.end()});
      continue;
    }
    check(values.size() == gradient.arguments.size(), record_.name(), ": its gradient gives ",
          values.size(), " tensors, expected ", gradient.arguments.size());
    for (size_t i = 0; i < values.size(); ++i)
      backward[position(gradient.arguments[i])] = std::move(values[i]);
  }
}

// --- what gradients read -------------------------------------------------------------------------

Tensor Derivative::grad(int result) const { return backward_.g(result); }
const Tensor& Derivative::given(int result) const { return backward_.given(result); }
Tensor Derivative::tensor(std::string_view name) const { return backward_.saved(node_.slot(name)); }
std::vector<Tensor> Derivative::tensors(std::string_view name) const {
  return backward_.list(node_.slot(name));
}
Operand Derivative::operand(std::string_view name) const {
  return backward_.operand(node_.slot(name));
}
bool Derivative::has(std::string_view name) const {
  const auto at = static_cast<size_t>(node_.argument(name));
  return node_.geometry_[at].given || !std::holds_alternative<std::monostate>(node_.plain_[at]);
}
Dims Derivative::sizes(std::string_view name) const {
  return node_.geometry_[static_cast<size_t>(node_.argument(name))].sizes;
}
size_t Derivative::count(std::string_view name) const {
  return node_.geometry_[static_cast<size_t>(node_.argument(name))].count;
}
DType Derivative::dtype(std::string_view name) const {
  return node_.geometry_[static_cast<size_t>(node_.argument(name))].dtype;
}
const BoxedValue& Derivative::value(std::string_view name) const {
  return node_.plain_[static_cast<size_t>(node_.argument(name))];
}
double Derivative::number(std::string_view name) const {
  return value_as<Scalar>(node_.record_, value(name), name, "gradient").to_double();
}
int64_t Derivative::integer(std::string_view name) const {
  return value_as<int64_t>(node_.record_, value(name), name, "gradient");
}
bool Derivative::boolean(std::string_view name) const {
  return value_as<bool>(node_.record_, value(name), name, "gradient");
}
bool Derivative::wants(std::string_view name) const {
  const int at = node_.argument(name);
  uint32_t bit = 1;
  for (size_t slot = 0; slot < node_.record_.tensors.size(); ++slot) {
    const bool differentiable = (node_.record_.formula.differentiable >> slot & 1u) != 0;
    if (node_.record_.tensors[slot] == at) return differentiable && backward_.needs(bit);
    if (differentiable) bit <<= 1;
  }
  return false;
}

Tensor JvpArguments::tensor(std::string_view name) const {
  const BoxedValue& given = value(name);
  const auto* x = std::get_if<Tensor>(&given);
  return x ? *x : Tensor();
}
Tensor JvpArguments::tangent(std::string_view name) const {
  const auto at = static_cast<size_t>(argument_of(record_, name, "jvp"));
  const auto* x = std::get_if<Tensor>(&tangents_[at]);
  return x ? *x : Tensor();
}
const BoxedValue& JvpArguments::value(std::string_view name) const {
  return arguments_[static_cast<size_t>(argument_of(record_, name, "jvp"))];
}
double JvpArguments::number(std::string_view name) const {
  return value_as<Scalar>(record_, value(name), name, "jvp").to_double();
}
int64_t JvpArguments::integer(std::string_view name) const {
  return value_as<int64_t>(record_, value(name), name, "jvp");
}

}  // namespace moonlet
