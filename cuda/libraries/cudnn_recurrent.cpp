// cuda/libraries/cudnn_recurrent.cpp: what cuDNN is given of recurrent networks: packed rows, which
// whole batches are too, states of all layers and weights in one piece.
#include "cuda/libraries/cudnn_recurrent.h"

#include "cuda/libraries/cudnn_headers.h"

#ifdef MOONLET_HAS_CUDNN

#include <algorithm>

#include "cuda/libraries/cudnn_recurrent_plan.h"
#include "cuda/libraries/cudnn_ways.h"
#include "cuda/runtime/capture.h"
#include "tensor/kernels_copy.h"
#include "tensor/runtime/cudnn_settings.h"

namespace moonlet::cuda::cudnn {

namespace {

using namespace recurrent;  // NOLINT(google-build-using-namespace)
using Sizes = std::vector<int64_t>;

bool has_type(DType t) {
  return t == DType::Float32 || t == DType::Float64 || t == DType::Float16 || t == DType::BFloat16;
}

// Whether it may be asked, and can count what it is asked for.
bool is_allowed(const Shape& shape, const Tensor& x, int64_t features, int64_t size,
                const Sizes& sizes) {
  const CudnnSettings& s = cudnn_settings;
  if (!s.enabled || s.deterministic || !has_type(x.dtype()) || library() == nullptr) return false;
  const int64_t widest = std::max(features, shape.directions() * size);
  if (x.size(0) == 0 || features == 0 || size == 0 || widest > INT32_MAX) return false;
  return x.size(0) <= INT32_MAX / widest && size <= INT32_MAX / widest &&
         shape.layers * shape.directions() * sizes[0] <= INT32_MAX / size &&
         shape.weight_count(features, size) <= INT32_MAX;
}

Tensor copied(const Tensor& t, const char* op) {
  Tensor out = empty_plain(t.sizes(), Options{t.dtype(), t.device()}, op);
  copy(out, t);
  return out;
}

Tensor laid_out(const Tensor& t, const char* op) {
  return !t.defined() || (t.is_contiguous() && is_aligned(t)) ? t : copied(t, op);
}

void* address(const Tensor& t) { return t.defined() ? t.raw() : nullptr; }

// A call of a network: its plan, and the operands as they are read.
struct Work {
  const Call call;
  cudnnHandle_t handle;
  const RecurrentPlan* plan = nullptr;
  Work(const Shape& shape, const Tensor& x, int64_t features, int64_t size, const Sizes& sizes,
       bool trains)
      : call(x, shape.op()), handle(nullptr) {
    // Lengths that are copied to the device would be those of the host at every replay.
    if (sizes.front() != sizes.back() && is_captured(call.stream())) return;
    handle = handle_of(call);
    if (handle == nullptr) return;
    const bool tf32 = cudnn_settings.allow_tf32 && x.dtype() == DType::Float32;
    plan = recurrent_plan(
        call, handle, {shape, x.device().index, x.dtype(), features, size, tf32, trains}, sizes);
  }
  Tensor empty_like(const Tensor& t) const {
    return t.defined() ? empty_plain(t.sizes(), Options{t.dtype(), t.device()}, call.op()) : t;
  }
};

class Networks final : public RecurrentNetworks {
 public:
  bool takes(const Shape& shape, const Tensor& x, int64_t features, int64_t size,
             const Sizes& sizes, bool keeps) override {
    return is_allowed(shape, x, features, size, sizes) &&
           Work(shape, x, features, size, sizes, keeps).plan != nullptr;
  }
  std::optional<Results> forward(const Shape& shape, const Inputs& in, bool keeps) override;
  std::optional<Gradients> backward(const Shape& shape, const Inputs& in, const Tensor& y,
                                    const Results& gradients, bool keeps_reserve) override;
};

// Whether all are of one dtype and on one device.
bool are_alike(const Inputs& in) {
  for (const Tensor* t : {&in.hidden, &in.cell, &in.weights})
    if (t->defined() && (t->dtype() != in.x.dtype() || t->device() != in.x.device())) return false;
  return true;
}

std::optional<Results> Networks::forward(const Shape& shape, const Inputs& in, bool keeps) {
  const int64_t features = in.x.size(1), size = in.hidden.size(2);
  if (!is_allowed(shape, in.x, features, size, in.batch_sizes) || !are_alike(in))
    return std::nullopt;
  const Work work(shape, in.x, features, size, in.batch_sizes, keeps);
  if (work.plan == nullptr) return std::nullopt;
  const RecurrentPlan& plan = *work.plan;
  const char* op = work.call.op();
  const Options options{in.x.dtype(), in.x.device()};
  const Tensor x = laid_out(in.x, op), hidden = laid_out(in.hidden, op),
               cell = laid_out(in.cell, op), weights = laid_out(in.weights, op);
  const Tensor c_n = in.cell.defined() ? work.empty_like(cell) : empty_plain({0}, options, op);
  Results out{empty_plain({x.size(0), shape.directions() * size}, options, op),
              work.empty_like(hidden), c_n,
              empty_plain({keeps ? static_cast<int64_t>(plan.reserve) : 0},
                          Options{DType::UInt8, in.x.device()}, op)};
  const auto compute = [&](void* workspace) {
    return library()->cudnnRNNForward(
        work.handle, plan.description->network.get(),
        keeps ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE, nullptr, plan.x.get(), x.raw(),
        plan.y.get(), out.y.raw(), plan.state.get(), hidden.raw(), out.h_n.raw(), plan.state.get(),
        address(cell), cell.defined() ? out.c_n.raw() : nullptr, plan.description->weights,
        weights.raw(), plan.workspace, workspace, keeps ? plan.reserve : 0,
        keeps ? out.reserve.raw() : nullptr);
  };
  if (attempt(work.call, plan.workspace, compute) != Outcome::Done) return std::nullopt;
  work.call.done();
  return out;
}

std::optional<Gradients> Networks::backward(const Shape& shape, const Inputs& in, const Tensor& y,
                                            const Results& gradients, bool keeps_reserve) {
  const int64_t features = in.x.size(1), size = in.hidden.size(2);
  if (!is_allowed(shape, in.x, features, size, in.batch_sizes)) return std::nullopt;
  const Work work(shape, in.x, features, size, in.batch_sizes, true);
  // Another reserve than this one was made by other settings.
  if (work.plan == nullptr || static_cast<int64_t>(work.plan->reserve) != gradients.reserve.numel())
    return std::nullopt;
  const RecurrentPlan& plan = *work.plan;
  const char* op = work.call.op();
  const bool has_cell = in.cell.defined();
  const Tensor x = laid_out(in.x, op), hidden = laid_out(in.hidden, op),
               cell = laid_out(in.cell, op), weights = laid_out(in.weights, op),
               output = laid_out(y, op), grad_y = laid_out(gradients.y, op),
               grad_h = laid_out(gradients.h_n, op),
               grad_c = has_cell ? laid_out(gradients.c_n, op) : Tensor();
  const Gradients out{work.empty_like(x), work.empty_like(hidden), work.empty_like(cell),
                      work.empty_like(weights)};
  // A graph without the way forward begins with the same one at every replay.
  const bool keeps = keeps_reserve || is_captured(work.call.stream());
  const Tensor reserve = keeps ? copied(gradients.reserve, op) : gradients.reserve;
  const RecurrentDescription& d = *plan.description;
  cudnnRNNDescriptor_t network = d.network.get();
  const auto compute = [&](void* workspace) {
    const cudnnStatus_t status = library()->cudnnRNNBackwardData_v8(
        work.handle, network, nullptr, plan.y.get(), output.raw(), grad_y.raw(), plan.x.get(),
        out.x.raw(), plan.state.get(), hidden.raw(), grad_h.raw(), out.hidden.raw(),
        plan.state.get(), address(cell), address(grad_c), address(out.cell), d.weights,
        weights.raw(), plan.workspace, workspace, plan.reserve, reserve.raw());
    if (status != CUDNN_STATUS_SUCCESS) return status;
    // It adds to what is there.
    ensure(cudaMemsetAsync(out.weights.raw(), 0, d.weights, work.call.stream()), op);
    return library()->cudnnRNNBackwardWeights_v8(
        work.handle, network, CUDNN_WGRAD_MODE_ADD, nullptr, plan.x.get(), x.raw(),
        plan.state.get(), hidden.raw(), plan.y.get(), output.raw(), d.weights, out.weights.raw(),
        plan.workspace, workspace, plan.reserve, reserve.raw());
  };
  if (attempt(work.call, plan.workspace, compute) != Outcome::Done) return std::nullopt;
  work.call.done();
  return out;
}

}  // namespace

RecurrentNetworks* recurrent_networks() noexcept {
  static Networks networks;
  return &networks;
}

}  // namespace moonlet::cuda::cudnn

#else

namespace moonlet::cuda::cudnn {

RecurrentNetworks* recurrent_networks() noexcept { return nullptr; }

}  // namespace moonlet::cuda::cudnn

#endif
