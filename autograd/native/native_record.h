// autograd/native/native_record.h: what is known of an op that was declared in C++, and its
// description as the rest of the library sees ops.
#pragma once

#include <string>
#include <vector>

#include "autograd/native/native_op.h"
#include "autograd/recording.h"
#include "tensor/core/raw_op.h"
#include "tensor/pointwise/run.h"

namespace moonlet {

// The family of all of them, told by its address.
extern const char kNativeFamily[];

struct NativeRow : RowInfo {
  const NativeRecord* record = nullptr;
};

// Made by NativeOp, and constant from `add` on.
struct NativeRecord {
  struct Launch {
    DeviceType device;
    void (*run)(const PointwisePlan& plan);
  };
  struct Kernel {
    DeviceType device;
    detail::NativeKernel function;
  };
  // The derivative by some arguments.
  struct Gradient {
    std::vector<int> arguments;
    std::function<std::vector<Tensor>(const Derivative&)> function;
  };
  struct ArgumentText {
    std::string name, text;
  };

  OpSchema schema;
  const void* owner = nullptr;
  OpKind kind = OpKind::Structured;
  DTypeSet dtypes{};
  bool dtypes_given = false, mixed = false;

  std::vector<detail::NativePointwise> pointwise_forms;
  detail::NativePointwise pointwise{};
  PointwiseOp pointwise_op{};
  std::vector<Launch> launches;
  std::vector<Kernel> kernels;
  detail::NativeShape shape;
  detail::NativeBody body;

  std::vector<std::string> saved, without_gradient;
  std::vector<Gradient> gradients;
  std::function<std::vector<Tensor>(const JvpArguments&)> jvp;
  bool linear = false;
  void (*batch_rule)(BatchCall& call) = nullptr;
  AutocastPolicies autocast{};
  bool inplace = false, method = true;

  std::string doc, example;
  std::vector<ArgumentText> texts;
  std::vector<std::string> samples;

  // What follows is made by `add`.
  std::string inplace_name, out_name, node_name, slots;
  std::vector<ArgumentInfo> arguments;
  std::vector<int> tensors;  // the arguments that hold tensors, in their order: the slots
  Formula formula{};
  NativeRow row;
  OpInfo plain_op{}, inplace_op{}, out_op{};
  RawOp raw{};

  bool is_update() const { return kind == OpKind::Update; }
  // Made of other ops, which meet the tape and the modes.
  bool is_composite() const { return kind == OpKind::Composite; }
  bool has_inplace() const { return inplace || is_update(); }
  // Whether the results can be computed in given memory.
  bool has_raw_out() const { return !is_update() && !body.call; }
  bool has_gradient() const { return !gradients.empty(); }
  const char* name() const { return schema.name.c_str(); }
};

// The record of an op that was declared in C++, or null.
inline const NativeRecord* native_record_of(const RowInfo& row) {
  return row.family == kNativeFamily ? static_cast<const NativeRow&>(row).record : nullptr;
}

// The node of a recorded call.
class NativeNode final : public RecordedNode {
 public:
  NativeNode(const NativeRecord& record, std::span<const BoxedValue> arguments);

 protected:
  void evaluate(Backward& backward) override;

 private:
  friend class Derivative;
  struct Geometry {
    Dims sizes;
    DType dtype = DType::Float32;
    bool given = false;
    size_t count = 0;  // of a list
  };
  // The slot of a tensor that is saved, by its name. Throws where it is not.
  int slot(std::string_view name) const;
  int argument(std::string_view name) const;

  const NativeRecord& record_;
  BoxedValues plain_;  // the arguments that are no tensors
  std::vector<Geometry, memory::SmallBlockAllocator<Geometry>> geometry_;
};

}  // namespace moonlet
