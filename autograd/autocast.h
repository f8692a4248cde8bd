// autograd/autocast.h: a mode that runs each op in the floating dtype that suits it, by the
// `autocast` field of its row.
#pragma once

#include <unordered_map>

#include "tensor/runtime/modes.h"

namespace moonlet {

// Concerns tensors on one type of device; the innermost one for a type is the one that counts.
// Rows say what happens to their floating arguments, float64 excepted: "lower_precision" casts them
// to `dtype`, "float32" widens half types, "promote" casts to float32 unless all are of `dtype`.
// Casts are recorded, so gradients come back in the dtype of the leaf. A leaf that requires grad is
// cast to `dtype` once while the mode lives, until it changes; a cast of it holds its graph, so a
// second backward through it needs retain_graph, as in PyTorch. What an op with a policy is
// made of runs without autocast; in-place and out= forms are left alone.
class Autocast final : public Mode {
 public:
  // Throws when the dtype is not one to compute in.
  Autocast(DeviceType device, DType dtype, bool enabled);

  void call(ModeCall& call) override;
  bool replaces(const Mode& below) const override;

  DeviceType device() const { return device_; }
  DType dtype() const { return dtype_; }
  bool enabled() const { return enabled_; }

 private:
  bool concerns(const Tensor& t) const;
  bool concerns(const BoxedValues& arguments) const;
  DType target(AutocastPolicy policy, const BoxedValues& arguments) const;
  void cast(Tensor& t, DType dtype);
  Tensor cast_parameter(const Tensor& t, DType dtype);

  // A parameter used several times in the region is cast once.
  struct Cast {
    Tensor parameter, value;
    uint32_t version;  // of the parameter when it was cast
    bool recorded;
  };
  DeviceType device_;
  DType dtype_;
  bool enabled_;
  std::unordered_map<const TensorImpl*, Cast> casts_;
};

// The one that counts for a type of device on this thread, or null.
const Autocast* current_autocast(DeviceType device);

}  // namespace moonlet
