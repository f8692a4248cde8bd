// autograd/autocast.h: a mode that runs each op in the floating dtype that suits it, by the
// `autocast` field of its row.
#pragma once

#include "tensor/modes.h"

namespace moonlet {

// Concerns tensors on one type of device; the innermost one for a type is the one that counts.
// Rows say what happens to their floating arguments, float64 excepted: "lower_precision" casts them
// to `dtype`, "float32" widens half types, "promote" casts to float32 unless all are of `dtype`.
// Casts are recorded, so gradients come back in the dtype of the leaf. What an op with a policy is
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
  void cast(Tensor& t, DType dtype) const;

  DeviceType device_;
  DType dtype_;
  bool enabled_;
};

// The one that counts for a type of device on this thread, or null.
const Autocast* current_autocast(DeviceType device);

}  // namespace moonlet
