// cuda/kernels/normalization.cu: layer_norm and batch_norm and their gradients. Both normalise
// groups of elements: rows for the one, channels for the other; a block does one group. Channels
// that lie in packs are done in batch_norm.cu, rows of one dtype in layer_norm.cu.
#include <algorithm>

#include "cuda/kernels/batch_norm.h"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/kernels/common/moments.cuh"
#include "cuda/kernels/layer_norm.h"
#include "cuda/runtime/device.h"
#include "tensor/functors/functor_math.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_normalization.h"
#include "tensor/kernels_reduce.h"

namespace moonlet::cuda {

namespace {

using namespace fn;  // NOLINT(google-build-using-namespace)

// Group g's element i lies at g * group_step + i / inner * outer_step + i % inner; its scale at
// i for rows (by_element), at g for channels.
struct Groups {
  int64_t count, size, inner, group_step, outer_step;
  bool by_element;
  bool narrow;  // an element's number can be divided by `by`, which is `inner`
  Divider by;
  __device__ int64_t at(int64_t g, int64_t i) const {
    if (by_element) return g * group_step + i;
    const int64_t outer = narrow ? by.quotient(static_cast<uint32_t>(i)) : i / inner;
    return g * group_step + outer * outer_step + (i - outer * inner);
  }
  __device__ int64_t scale_at(int64_t g, int64_t i) const { return by_element ? i : g; }
};

// Rows made of the last `dims` dimensions.
Groups rows_of(const Tensor& x, int64_t dims) {
  int64_t n = 1;
  for (int i = x.dim() - static_cast<int>(dims); i < x.dim(); ++i) n *= x.size(i);
  const int64_t count = n == 0 ? 0 : x.numel() / n;
  return {count, n, n == 0 ? 1 : n, n, 0, true, false, Divider()};
}

Groups channels_of(const Tensor& x) {
  int64_t inner = 1;
  for (int i = 2; i < x.dim(); ++i) inner *= x.size(i);
  const int64_t channels = x.size(1);
  const int64_t size = x.size(0) * inner;
  const bool narrow = size > 0 && size < kDividerLimit;
  return {channels,
          size,
          inner == 0 ? 1 : inner,
          inner,
          channels * inner,
          false,
          narrow,
          narrow ? Divider(inner) : Divider()};
}

template <class C>
__device__ C total(C v) {
  return combine_block(v, AddUp());
}

// An optional tensor's elements.
struct Optional {
  Array array;
  bool given;
  template <class C>
  __device__ C get(int64_t i, C otherwise) const {
    return given ? array.get<C>(i) : otherwise;
  }
};

struct Running {
  Optional mean, var;
  double momentum;
};

template <class C>
__device__ void update_running(const Optional& running, int64_t g, C value, double momentum) {
  if (!running.given) return;
  const C old = running.array.get<C>(g);
  running.array.set<C>(g, old + static_cast<C>(momentum) * (value - old));
}

template <class C>
__global__ void normalise_kernel(Groups groups, Array x, Optional weight, Optional bias, double eps,
                                 Array y, Array mean, Array rstd, Running running) {
  for (int64_t g = blockIdx.x; g < groups.count; g += gridDim.x) {
    const C n = static_cast<C>(groups.size);
    C sum = C(0), squares = C(0), drift = C(0);
    for (int64_t i = threadIdx.x; i < groups.size; i += kBlock) sum += x.get<C>(groups.at(g, i));
    const C m = total(sum) / n;
    for (int64_t i = threadIdx.x; i < groups.size; i += kBlock) {
      const C distance = x.get<C>(groups.at(g, i)) - m;
      drift += distance;
      squares += distance * distance;
    }
    drift = total(drift) / n;
    Spread spread = {m, drift, static_cast<double>(total(squares)) - n * drift * drift, 1};
    if (left_range<C>(spread.squares, groups.size, eps))
      spread = spread_in_double(groups.size, groups.size, threadIdx.x, kBlock, [&](int64_t i) {
        return static_cast<double>(x.get<C>(groups.at(g, i)));
      });
    const Center<C> center(spread, groups.size, eps);
    if (threadIdx.x == 0) {
      mean.set<double>(g, center.exact_mean);
      rstd.set<double>(g, center.exact_rstd);
      update_running<C>(running.mean, g, static_cast<C>(center.exact_mean), running.momentum);
      update_running<C>(running.var, g, static_cast<C>(spread.variance(n - C(1))),
                        running.momentum);
    }
    for (int64_t i = threadIdx.x; i < groups.size; i += kBlock) {
      const int64_t at = groups.at(g, i), s = groups.scale_at(g, i);
      y.set<C>(at, center.normal(x.get<C>(at)) * weight.get<C>(s, C(1)) + bias.get<C>(s, C(0)));
    }
  }
}

// With h = (x - mean) rstd and e = grad weight: y = rstd (e - mean(e) - h mean(e h)).
template <class C>
__global__ void gradient_kernel(Groups groups, Array grad, Array x, Array mean, Array rstd,
                                Optional weight, Array y) {
  for (int64_t g = blockIdx.x; g < groups.count; g += gridDim.x) {
    const C n = static_cast<C>(groups.size);
    const Center<C> center(mean.get<double>(g), rstd.get<double>(g), groups.size);
    C first = C(0), second = C(0);
    for (int64_t i = threadIdx.x; i < groups.size; i += kBlock) {
      const int64_t at = groups.at(g, i);
      const C e = grad.get<C>(at) * weight.get<C>(groups.scale_at(g, i), C(1));
      first += e;
      second += e * center.normal(x.get<C>(at));
    }
    first = total(first) / n;
    second = total(second) / n;
    for (int64_t i = threadIdx.x; i < groups.size; i += kBlock) {
      const int64_t at = groups.at(g, i);
      const C e = grad.get<C>(at) * weight.get<C>(groups.scale_at(g, i), C(1));
      y.set<C>(at, center.scaled(e - first - center.normal(x.get<C>(at)) * second));
    }
  }
}

// The gradient of a channel's weight: the sum of grad h.
template <class C>
__global__ void channel_weight_kernel(Groups groups, Array grad, Array x, Array mean, Array rstd,
                                      Array y) {
  for (int64_t g = blockIdx.x; g < groups.count; g += gridDim.x) {
    const Center<C> center(mean.get<double>(g), rstd.get<double>(g), groups.size);
    C sum = C(0);
    for (int64_t i = threadIdx.x; i < groups.size; i += kBlock) {
      const int64_t at = groups.at(g, i);
      sum += grad.get<C>(at) * center.normal(x.get<C>(at));
    }
    sum = total(sum);
    if (threadIdx.x == 0) y.set<C>(g, sum);
  }
}

// The same for the weight of each element of a row: a block of 8 x 32 threads walks 32 columns of
// one of several pieces of the rows, whose sums are the rows of y.
template <class C>
__global__ void row_weight_kernel(Groups groups, int64_t pieces, Array grad, Array x, Array mean,
                                  Array rstd, Array y) {
  constexpr int kColumns = 32, kTeams = kBlock / kColumns;
  __shared__ SharedArray<C, kBlock> memory;
  C* parts = memory.get();
  const int column = threadIdx.x % kColumns, team = threadIdx.x / kColumns;
  const int64_t tiles = (groups.size + kColumns - 1) / kColumns;
  const int64_t rows = (groups.count + pieces - 1) / pieces;
  for (int64_t job = blockIdx.x; job < tiles * pieces; job += gridDim.x) {
    const int64_t piece = job / tiles, i = job % tiles * kColumns + column;
    const int64_t end = (piece + 1) * rows < groups.count ? (piece + 1) * rows : groups.count;
    C sum = C(0);
    for (int64_t g = piece * rows + team; i < groups.size && g < end; g += kTeams) {
      const int64_t at = groups.at(g, i);
      const Center<C> center(mean.get<double>(g), rstd.get<double>(g), groups.size);
      sum += grad.get<C>(at) * center.normal(x.get<C>(at));
    }
    parts[threadIdx.x] = sum;
    __syncthreads();
    if (team == 0 && i < groups.size) {
      for (int t = 1; t < kTeams; ++t) sum += parts[t * kColumns + column];
      y.set<C>(piece * groups.size + i, sum);
    }
    __syncthreads();
  }
}

// An optional argument, kept alive and contiguous.
struct OptionalInput {
  Tensor tensor;
  explicit OptionalInput(const Tensor& t) : tensor(t.defined() ? contiguous(t) : t) {}
  Optional get() const {
    return {tensor.defined() ? array(tensor) : Array{nullptr, DType::Float32}, tensor.defined()};
  }
};

void normalise(const Call& call, const Groups& groups, const Tensor& x, const Tensor& weight,
               const Tensor& bias, double eps, Tensor& result, Tensor& mean, Tensor& rstd,
               const Running& running) {
  if (groups.count == 0 || groups.size == 0) return;
  with_contiguous(result, [&](Tensor& y) {
    const Tensor source = contiguous(x);
    const OptionalInput w(weight), b(bias);
    if (groups.by_element && normalise_rows(call, {groups.count, groups.size}, source, w.tensor,
                                            b.tensor, eps, y, mean, rstd))
      return;
    visit_device_compute<dtypes::floating>(x.dtype(), [&]<class C>() {
      MOONLET_LAUNCH((normalise_kernel<C>), blocks_for(groups.count * kBlock), kBlock, 0,
                     call.stream(), groups, array(source), w.get(), b.get(), eps, array(y),
                     array(mean), array(rstd), running);
    });
    call.done();
  });
}

void gradient_of_x(const Call& call, const Groups& groups, const RowGradients& in,
                   const Tensor& weight, Tensor& result) {
  if (groups.count == 0 || groups.size == 0) return;
  with_contiguous(result, [&](Tensor& y) {
    const OptionalInput w(weight);
    if (groups.by_element && row_gradients_of_x(call, {groups.count, groups.size}, in, w.tensor, y))
      return;
    visit_device_compute<dtypes::floating>(y.dtype(), [&]<class C>() {
      MOONLET_LAUNCH((gradient_kernel<C>), blocks_for(groups.count * kBlock), kBlock, 0,
                     call.stream(), groups, array(in.grad), array(in.x), array(in.mean),
                     array(in.rstd), w.get(), array(y));
    });
    call.done();
  });
}

constexpr Optional kNothing{{nullptr, DType::Float32}, false};

}  // namespace

void native_layer_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight,
                       const Tensor& bias, double eps, Tensor& y, Tensor& mean, Tensor& rstd) {
  const Call call(x, "layer_norm");
  normalise(call, rows_of(x, normalized_shape.size()), x, weight, bias, eps, y, mean, rstd,
            {kNothing, kNothing, 0});
}

void layer_norm_grad_x(const Tensor& grad, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                       const Tensor& weight, int64_t dims, double, Tensor& y) {
  const Call call(x, "layer_norm_grad_x");
  gradient_of_x(call, rows_of(x, dims), RowGradients(grad, x, mean, rstd), weight, y);
}

void layer_norm_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& mean,
                            const Tensor& rstd, int64_t dims, double, Tensor& y) {
  const Call call(x, "layer_norm_grad_weight");
  if (y.numel() == 0) return;
  if (x.numel() == 0) return fill(y, Scalar(0));
  const RowGradients in(grad, x, mean, rstd);
  const Groups groups = rows_of(x, dims);
  if (row_gradients_of_weight(call, {groups.count, groups.size}, in, y)) return;
  const int64_t tiles = (groups.size + 31) / 32;
  // Enough blocks for a device, of enough rows each.
  const int64_t pieces =
      std::clamp<int64_t>(groups.count / 64, 1, std::max<int64_t>(512 / tiles, 1));
  Tensor parts = y;
  if (pieces > 1) parts = call.scratch({pieces, groups.size}, compute_dtype(y.dtype()));
  visit_device_compute<dtypes::floating>(y.dtype(), [&]<class C>() {
    MOONLET_LAUNCH((row_weight_kernel<C>), blocks_for(tiles * pieces * kBlock), kBlock, 0,
                   call.stream(), groups, pieces, array(in.grad), array(in.x), array(in.mean),
                   array(in.rstd), array(parts));
  });
  call.done();
  if (pieces > 1) sum(parts, Dims{0}, false, std::nullopt, y);
}

void native_batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& running_mean, const Tensor& running_var, double momentum,
                       double eps, Tensor& y, Tensor& mean, Tensor& rstd) {
  const Call call(x, "batch_norm");
  const OptionalInput old_mean(running_mean), old_var(running_var);
  if (!batch_norm_by_packs(call, x, weight, bias, {old_mean.tensor, old_var.tensor, momentum}, eps,
                           y, mean, rstd))
    normalise(call, channels_of(x), x, weight, bias, eps, y, mean, rstd,
              {old_mean.get(), old_var.get(), momentum});
  for (const auto& [kept, given] :
       {std::pair{old_mean.tensor, running_mean}, std::pair{old_var.tensor, running_var}}) {
    Tensor target = given;
    if (given.defined() && !given.is_contiguous()) copy_back(target, kept);
  }
}

void batch_norm_grad_x(const Tensor& grad, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                       const Tensor& weight, double, Tensor& y) {
  const Call call(x, "batch_norm_grad_x");
  if (batch_norm_backward_by_packs(call, grad, x, mean, rstd, weight, &y, nullptr)) return;
  gradient_of_x(call, channels_of(x), RowGradients(grad, x, mean, rstd), weight, y);
}

void batch_norm_grad_weight(const Tensor& grad, const Tensor& x, const Tensor& mean,
                            const Tensor& rstd, double, Tensor& y) {
  const Call call(x, "batch_norm_grad_weight");
  if (y.numel() == 0) return;
  if (x.numel() == 0) return fill(y, Scalar(0));
  if (batch_norm_backward_by_packs(call, grad, x, mean, rstd, {}, nullptr, &y)) return;
  const RowGradients in(grad, x, mean, rstd);
  const Groups groups = channels_of(x);
  visit_device_compute<dtypes::floating>(y.dtype(), [&]<class C>() {
    MOONLET_LAUNCH((channel_weight_kernel<C>), blocks_for(groups.count * kBlock), kBlock, 0,
                   call.stream(), groups, array(in.grad), array(in.x), array(in.mean),
                   array(in.rstd), array(y));
  });
  call.done();
}

}  // namespace moonlet::cuda
