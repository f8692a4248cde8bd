// interp/binding/program/circumstances.h: what ops consult beside their arguments, as it was when a
// function was captured.
#pragma once

#include <vector>

#include "lua.hpp"

#include "tensor/runtime/execution.h"

namespace moonlet::binding {

class Circumstances {
 public:
  // Those of this thread.
  Circumstances();
  // Whether they are so now. Allocates nothing.
  bool hold() const;
  // Why nothing is captured or run from a plan as things are now; null when it may be.
  static const char* refusal(lua_State* L);
  bool grad_mode() const { return grad_mode_; }
  bool any_autocast() const { return !autocasts_.empty(); }

 private:
  struct AutocastSettings {
    DeviceType device;
    DType dtype;
    bool enabled;
    bool operator==(const AutocastSettings&) const = default;
  };
  bool grad_mode_, inference_mode_;
  DType default_dtype_;
  Device default_device_;
  Float32Precision float32_precision_;
  const Generator* generator_;
  std::vector<AutocastSettings> autocasts_;
};

}  // namespace moonlet::binding
