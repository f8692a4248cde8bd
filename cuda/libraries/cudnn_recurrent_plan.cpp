// cuda/libraries/cudnn_recurrent_plan.cpp: the plans of recurrent networks by cuDNN, whose weights
// must lie as ours do.
#include "cuda/libraries/cudnn_headers.h"

#ifdef MOONLET_HAS_CUDNN

#include "cuda/libraries/cudnn_recurrent_plan.h"

#include <utility>

#include "cuda/libraries/cudnn_graph.h"
#include "cuda/libraries/plan_cache.h"

namespace moonlet::cuda::cudnn {

namespace {

constexpr size_t kMostPlans = 1024;    // that a thread keeps: lengths of batches
constexpr size_t kMostNetworks = 256;  // descriptions

NumbersKey key_of(const RecurrentProblem& p) {
  const recurrent::Shape& s = p.shape;
  return {{s.mode, s.has_biases, s.layers, s.bidirectional, p.device, static_cast<int64_t>(p.dtype),
           p.features, p.size, p.allow_tf32}};
}

cudnnRNNMode_t mode_of(int64_t mode) {
  switch (mode) {
    case recurrent::kLstm: return CUDNN_LSTM;
    case recurrent::kGru: return CUDNN_GRU;
    case recurrent::kRnnTanh: return CUDNN_RNN_TANH;
    default: return CUDNN_RNN_RELU;
  }
}

// What products may do with their factors.
cudnnMathType_t math_of(const RecurrentProblem& p) {
  if (p.dtype == DType::Float32) return p.allow_tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
  return p.dtype == DType::Float64 ? CUDNN_DEFAULT_MATH : CUDNN_TENSOR_OP_MATH;
}

template <class Struct>
bool make(std::unique_ptr<Struct, DestroyRecurrent>& out, cudnnStatus_t (*create)(Struct**),
          const char* op) {
  Struct* made = nullptr;
  if (!went_well(create(&made), op)) return false;
  out.reset(made);
  return true;
}

// Whether cuDNN has the weights in the order of recurrent::Inputs, without gaps. It answers with
// addresses, of which it reads nothing.
bool lies_alike(cudnnHandle_t handle, const RecurrentProblem& p, const RecurrentDescription& d,
                const char* op) {
  const Library& lib = *library();
  OwnedRecurrent<cudnnTensorDescriptor_t> matrix, bias;
  if (!make(matrix, lib.cudnnCreateTensorDescriptor, op) ||
      !make(bias, lib.cudnnCreateTensorDescriptor, op))
    return false;
  const recurrent::Shape& s = p.shape;
  const auto each = static_cast<int64_t>(size_of(p.dtype));
  if (static_cast<int64_t>(d.weights) != s.weight_count(p.features, p.size) * each) return false;
  const auto start = reinterpret_cast<char*>(uintptr_t{1} << 20);
  recurrent::Shape unbiased = s;
  unbiased.has_biases = false;
  int64_t at = 0, bias_at = unbiased.weight_count(p.features, p.size);
  const int64_t directions = s.directions();
  for (int64_t layer = 0; layer < s.layers * directions; ++layer)
    for (int64_t part = 0; part < 2 * s.gates(); ++part) {
      void *m = nullptr, *b = nullptr;
      if (!went_well(lib.cudnnGetRNNWeightParams(
                         handle, d.network.get(), static_cast<int32_t>(layer), d.weights, start,
                         static_cast<int32_t>(part), matrix.get(), &m, bias.get(), &b),
                     op) ||
          m != start + at * each || (s.has_biases && b != start + bias_at * each))
        return false;
      const int64_t in = layer < directions ? p.features : directions * p.size;
      at += p.size * (part < s.gates() ? in : p.size);
      bias_at += p.size;
    }
  return true;
}

// Null where cuDNN has no such network.
std::shared_ptr<const RecurrentDescription> describe(cudnnHandle_t handle,
                                                     const RecurrentProblem& p, const char* op) {
  const Library& lib = *library();
  const auto out = std::make_shared<RecurrentDescription>();
  if (!make(out->network, lib.cudnnCreateRNNDescriptor, op)) return nullptr;
  const recurrent::Shape& s = p.shape;
  const cudnnDataType_t precision =
      p.dtype == DType::Float64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  const auto size = static_cast<int32_t>(p.size);
  const bool good =
      went_well(
          lib.cudnnSetRNNDescriptor_v8(
              out->network.get(), CUDNN_RNN_ALGO_STANDARD, mode_of(s.mode),
              s.has_biases ? CUDNN_RNN_DOUBLE_BIAS : CUDNN_RNN_NO_BIAS,
              s.bidirectional ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT,
              type_of(p.dtype), precision, math_of(p), static_cast<int32_t>(p.features), size, size,
              static_cast<int32_t>(s.layers), nullptr, CUDNN_RNN_PADDED_IO_DISABLED),
          op) &&
      went_well(lib.cudnnGetRNNWeightSpaceSize(handle, out->network.get(), &out->weights), op);
  return good && lies_alike(handle, p, *out, op) ? out : nullptr;
}

// How many steps each sequence has, the longest first.
std::vector<int> lengths_of(const std::vector<int64_t>& batch_sizes) {
  std::vector<int> out(static_cast<size_t>(batch_sizes[0]));
  size_t steps = batch_sizes.size();
  for (size_t i = 0; i < out.size(); ++i) {
    while (batch_sizes[steps - 1] <= static_cast<int64_t>(i)) --steps;
    out[i] = static_cast<int>(steps);
  }
  return out;
}

bool describe_data(OwnedRecurrent<cudnnRNNDataDescriptor_t>& out, DType dtype,
                   const std::vector<int>& lengths, int64_t width, const char* op) {
  const Library& lib = *library();
  return make(out, lib.cudnnCreateRNNDataDescriptor, op) &&
         went_well(lib.cudnnSetRNNDataDescriptor(out.get(), type_of(dtype),
                                                 CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, lengths[0],
                                                 static_cast<int>(lengths.size()),
                                                 static_cast<int>(width), lengths.data(), nullptr),
                   op);
}

bool describe_state(RecurrentPlan& plan, const RecurrentProblem& p, size_t sequences,
                    const char* op) {
  const int sizes[] = {static_cast<int>(p.shape.layers * p.shape.directions()),
                       static_cast<int>(sequences), static_cast<int>(p.size)};
  const int strides[] = {sizes[1] * sizes[2], sizes[2], 1};
  return make(plan.state, library()->cudnnCreateTensorDescriptor, op) &&
         went_well(library()->cudnnSetTensorNdDescriptor(plan.state.get(), type_of(p.dtype), 3,
                                                         sizes, strides),
                   op);
}

RecurrentPlan make_plan(std::shared_ptr<const RecurrentDescription> description,
                        cudnnHandle_t handle, const RecurrentProblem& p,
                        const std::vector<int64_t>& batch_sizes, const char* op) {
  RecurrentPlan out;
  const std::vector<int> lengths = lengths_of(batch_sizes);
  const bool good = description != nullptr &&
                    describe_data(out.x, p.dtype, lengths, p.features, op) &&
                    describe_data(out.y, p.dtype, lengths, p.shape.directions() * p.size, op) &&
                    describe_state(out, p, lengths.size(), op) &&
                    went_well(library()->cudnnGetRNNTempSpaceSizes(
                                  handle, description->network.get(),
                                  p.trains ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE,
                                  out.x.get(), &out.workspace, &out.reserve),
                              op);
  if (good) out.description = std::move(description);
  return out;
}

std::shared_ptr<const RecurrentDescription> description_of(cudnnHandle_t handle,
                                                           const RecurrentProblem& p,
                                                           const char* op) {
  using Kept = std::shared_ptr<const RecurrentDescription>;
  static thread_local PlanCache<NumbersKey, Kept> networks(kMostNetworks);
  const NumbersKey key = key_of(p);
  if (const Kept* known = networks.find(key)) return *known;
  return networks.keep(key, describe(handle, p, op));
}

}  // namespace

const RecurrentPlan* recurrent_plan(const Call& call, cudnnHandle_t handle,
                                    const RecurrentProblem& p,
                                    const std::vector<int64_t>& batch_sizes) {
  static thread_local PlanCache<NumbersKey, RecurrentPlan> plans(kMostPlans);
  NumbersKey key = key_of(p);
  key.numbers.push_back(p.trains);
  key.numbers.push_back(static_cast<int64_t>(batch_sizes.size()));
  // Those of sequences of one length are one number.
  const bool is_even = batch_sizes.front() == batch_sizes.back();
  key.numbers.insert(key.numbers.end(), batch_sizes.begin(),
                     is_even ? batch_sizes.begin() + 1 : batch_sizes.end());
  const RecurrentPlan* plan = plans.find(key);
  if (plan == nullptr)
    plan = &plans.keep(
        key, make_plan(description_of(handle, p, call.op()), handle, p, batch_sizes, call.op()));
  return plan->description ? plan : nullptr;
}

}  // namespace moonlet::cuda::cudnn

#endif
