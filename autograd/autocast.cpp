// autograd/autocast.cpp: casting the floating arguments of ops by the policies of their rows.
#include "autograd/autocast.h"

#include "autograd/forward_mode.h"
#include "autograd/tape.h"
#include "autograd/uses_autocast.h"

namespace moonlet {

namespace {

// Calls f with each tensor among the arguments.
template <class V, class F>
void for_each_tensor(V& arguments, F&& f) {
  for (auto& value : arguments) {
    if (auto* t = std::get_if<Tensor>(&value)) f(*t);
    if (auto* list = std::get_if<std::vector<Tensor>>(&value))
      for (auto& t : *list) f(t);
  }
}

}  // namespace

Autocast::Autocast(DeviceType device, DType dtype, bool enabled)
    : device_(device), dtype_(dtype), enabled_(enabled) {
  check(is_reduced_floating(dtype), "autocast: dtype must be bfloat16 or float16, got ", dtype);
}

bool Autocast::replaces(const Mode& below) const {
  const auto* other = dynamic_cast<const Autocast*>(&below);
  return other != nullptr && other->device_ == device_;
}

// float64 is left alone: whoever uses it wants its precision.
bool Autocast::concerns(const Tensor& t) const {
  return t.defined() && t.device().type == device_ && is_floating(t.dtype()) &&
         t.dtype() != DType::Float64;
}

bool Autocast::concerns(const BoxedValues& arguments) const {
  bool any = false;
  for_each_tensor(arguments, [&](const Tensor& t) { any = any || concerns(t); });
  return any;
}

DType Autocast::target(AutocastPolicy policy, const BoxedValues& arguments) const {
  if (policy == AutocastPolicy::LowerPrecision) return dtype_;
  if (policy == AutocastPolicy::Float32) return DType::Float32;
  DType widest = dtype_;
  for_each_tensor(arguments, [&](const Tensor& t) {
    if (concerns(t) && t.dtype() != dtype_) widest = DType::Float32;
  });
  return widest;
}

void Autocast::cast(Tensor& t, DType dtype) {
  if (!concerns(t) || t.dtype() == dtype) return;
  // A cast with a tangent is not kept: it has none of the levels that are suspended now.
  const bool parameter = dtype == dtype_ && t.requires_grad() && is_leaf(t) && !is_view(t) &&
                         tangents_of(t) == nullptr;
  t = parameter ? cast_parameter(t, dtype) : to(t, dtype, std::nullopt);
}

Tensor Autocast::cast_parameter(const Tensor& t, DType dtype) {
  const uint32_t version = t.storage().version();
  const auto found = casts_.find(t.impl());
  if (found != casts_.end() && found->second.version == version &&
      found->second.recorded == grad_enabled())
    return found->second.value;
  Tensor value = to(t, dtype, std::nullopt);
  casts_.insert_or_assign(t.impl(), Cast{t, value, version, grad_enabled()});
  return value;
}

void Autocast::call(ModeCall& call) {
  const AutocastPolicy policy = call.op.row->autocast.on(device_);
  if (!enabled_ || policy == AutocastPolicy::None || call.op.form != OpInfo::Form::Plain ||
      !concerns(call.arguments)) {
    call.proceed();
    return;
  }
  const DType dtype = target(policy, call.arguments);
  for_each_tensor(call.arguments, [&](Tensor& t) { cast(t, dtype); });
  call.proceed(InnerOps::Hidden);
}

const Autocast* current_autocast(DeviceType device) {
  return find_mode<Autocast>([&](const Autocast& mode) { return mode.device() == device; });
}

}  // namespace moonlet
