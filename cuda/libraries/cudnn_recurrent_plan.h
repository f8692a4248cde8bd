// cuda/libraries/cudnn_recurrent_plan.h: how cuDNN computes a recurrent network: descriptors and
// the memory that it works in, looked up once for each network and lengths and kept for the thread.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "cuda/libraries/cudnn_library.h"
#include "tensor/runtime/recurrent_networks.h"

namespace moonlet::cuda::cudnn {

// What a plan depends on.
struct RecurrentProblem {
  recurrent::Shape shape;
  int32_t device;
  DType dtype;
  int64_t features, size;
  bool allow_tf32;
  bool trains;  // whether gradients will be asked for
};

struct DestroyRecurrent {
  void operator()(cudnnRNNDescriptor_t d) const { library()->cudnnDestroyRNNDescriptor(d); }
  void operator()(cudnnRNNDataDescriptor_t d) const { library()->cudnnDestroyRNNDataDescriptor(d); }
  void operator()(cudnnTensorDescriptor_t d) const { library()->cudnnDestroyTensorDescriptor(d); }
};
template <class Handle>
using OwnedRecurrent = std::unique_ptr<std::remove_pointer_t<Handle>, DestroyRecurrent>;

// The network itself, whatever the sequences.
struct RecurrentDescription {
  OwnedRecurrent<cudnnRNNDescriptor_t> network;
  size_t weights = 0;  // bytes
};

struct RecurrentPlan {
  std::shared_ptr<const RecurrentDescription> description;  // null: cuDNN has no way
  OwnedRecurrent<cudnnRNNDataDescriptor_t> x, y;
  OwnedRecurrent<cudnnTensorDescriptor_t> state;
  size_t workspace = 0, reserve = 0;
};

// Null where cuDNN has no way. It stays where it is until the thread asks for another one.
const RecurrentPlan* recurrent_plan(const Call& call, cudnnHandle_t handle,
                                    const RecurrentProblem& problem,
                                    const std::vector<int64_t>& batch_sizes);

}  // namespace moonlet::cuda::cudnn
