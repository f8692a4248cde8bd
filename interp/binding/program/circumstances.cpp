// interp/binding/program/circumstances.cpp: compares execution states, and says which of them
// programs leave to eager code.
#include "interp/binding/program/circumstances.h"

#include "autograd/anomaly.h"
#include "autograd/autocast.h"
#include "interp/state/interrupt.h"
#include "tensor/program/parts/deferred_call.h"
#include "tensor/runtime/backend.h"
#include "tensor/runtime/modes.h"

namespace moonlet::binding {
namespace {

// Calls f(Autocast, which may be null) for each mode on the stack while it returns true.
template <class F>
bool all_modes(F&& f) {
  for (const ModeEntry* e = execution.modes; e != nullptr; e = e->below)
    if (e->mode != nullptr && !f(dynamic_cast<const Autocast*>(e->mode.get()))) return false;
  return true;
}

bool captures_device_graph() {
  bool any = false;
  for_each_opened_backend([&](Backend& backend, DeviceType) {
    DeviceGraphs* const graphs = backend.graphs();
    for (int i = 0; graphs != nullptr && i < backend.device_count(); ++i)
      any = any || graphs->is_capturing(i);
  });
  return any;
}

}  // namespace

Circumstances::Circumstances()
    : grad_mode_(execution.grad_mode),
      inference_mode_(execution.inference_mode),
      default_dtype_(execution.default_dtype),
      default_device_(execution.default_device),
      float32_precision_(execution.float32_precision),
      generator_(execution.generator) {
  all_modes([&](const Autocast* mode) {
    if (mode != nullptr) autocasts_.push_back({mode->device(), mode->dtype(), mode->enabled()});
    return true;
  });
}

bool Circumstances::hold() const {
  size_t at = 0;
  const bool modes = all_modes([&](const Autocast* mode) {
    if (mode == nullptr || at == autocasts_.size()) return false;
    return autocasts_[at++] == AutocastSettings{mode->device(), mode->dtype(), mode->enabled()};
  });
  return modes && at == autocasts_.size() && execution.grad_mode == grad_mode_ &&
         execution.inference_mode == inference_mode_ && execution.default_dtype == default_dtype_ &&
         execution.default_device == default_device_ &&
         execution.float32_precision == float32_precision_ && execution.generator == generator_;
}

const char* Circumstances::refusal(lua_State* L) {
  if (execution.capture != nullptr) return "it is called where ops are captured already";
  if (program::deferral != nullptr) return "it is called inside a function that runs by parts";
  if (execution.vmap != 0) return "it is called inside vmap";
  if (anomaly_mode != Anomaly::Ignore) return "anomaly detection is on";
  if (!all_modes([](const Autocast* mode) { return mode != nullptr; }))
    return "a mode such as override, profile or forward mode is on";
  if (!has_usual_hook(L)) return "a debug hook is set";
  if (captures_device_graph()) return "work of a device is recorded as a graph";
  return nullptr;
}

}  // namespace moonlet::binding
