// cuda/libraries/cudnn_conv.cpp: what cuDNN is given of a convolution: dense operands in one order,
// lines as images of one row, and a bias and relu that come afterwards.
#include "cuda/libraries/cudnn_conv.h"

#include "cuda/libraries/cudnn_headers.h"

#ifdef MOONLET_HAS_CUDNN

#include <algorithm>
#include <optional>

#include "cuda/libraries/cudnn_conv_graph.h"
#include "cuda/libraries/cudnn_plan.h"
#include "tensor/core/layout.h"
#include "tensor/kernels_copy.h"
#include "tensor/raw_activation.h"
#include "tensor/raw_arithmetic.h"
#include "tensor/runtime/cudnn_settings.h"

namespace moonlet::cuda::cudnn {

namespace {

struct Window {
  const Dims &stride, &padding, &dilation;
  int64_t groups;
};

bool has_type(DType t) {
  return t == DType::Float32 || t == DType::Float64 || t == DType::Float16 || t == DType::BFloat16;
}

// Whether cuDNN may be asked: all of one type, nothing empty, sizes that it can count.
bool fits(const Tensor& a, const Tensor& b, const Tensor& result) {
  if (!cudnn_settings.enabled || !has_type(result.dtype()) || library() == nullptr) return false;
  for (const Tensor* t : {&a, &b, &result})
    if (t->dtype() != result.dtype() || t->numel() == 0 || t->numel() > INT32_MAX) return false;
  return true;
}

MemoryFormat last_format(int rank) {
  return rank == 5 ? MemoryFormat::ChannelsLast3d : MemoryFormat::ChannelsLast;
}

bool lies_last(const Tensor& t) {
  return !t.is_contiguous() && is_contiguous(t.sizes(), t.strides(), last_format(t.dim()));
}

// The order of all three: channels last where one of the operands lies so. cuDNN has none of
// float64.
MemoryFormat format_of(const Tensor& a, const Tensor& b) {
  const bool last = a.dtype() != DType::Float64 && (lies_last(a) || lies_last(b));
  return last ? last_format(a.dim()) : MemoryFormat::Contiguous;
}

bool lies_so(const Tensor& t, MemoryFormat format) {
  return is_aligned(t) && is_contiguous(t.sizes(), t.strides(), format);
}

Tensor empty_in(const Tensor& like, MemoryFormat format, const char* op) {
  return empty_strided(like.sizes(), format_strides(format, like.sizes(), op),
                       Options{like.dtype(), like.device()}, op);
}

// t itself where it lies in that order, else a copy that does.
Tensor laid_out(const Tensor& t, MemoryFormat format, const char* op) {
  if (lies_so(t, format)) return t;
  Tensor out = empty_in(t, format, op);
  copy(out, t);
  return out;
}

// Sizes of images or volumes; a line is an image of one row.
std::array<int32_t, 5> sizes_of(const Tensor& t) {
  std::array<int32_t, 5> out{};
  size_t to = 0;
  for (int i = 0; i < t.dim(); ++i) {
    if (t.dim() == 3 && i == 2) out[to++] = 1;
    out[to++] = static_cast<int32_t>(t.size(i));
  }
  return out;
}

// The same of one number for each axis; nothing where one is too large.
std::optional<std::array<int32_t, 3>> axes_of(const Dims& given, int32_t fill) {
  std::array<int32_t, 3> out{};
  size_t to = 0;
  if (given.size() == 1) out[to++] = fill;
  for (int i = 0; i < given.size(); ++i) {
    if (given[i] > INT32_MAX) return std::nullopt;
    out[to++] = static_cast<int32_t>(given[i]);
  }
  return out;
}

std::optional<Problem> problem_of(Kind kind, const Tensor& x, const Tensor& weight, const Tensor& y,
                                  MemoryFormat format, const Window& window) {
  const auto stride = axes_of(window.stride, 1), padding = axes_of(window.padding, 0),
             dilation = axes_of(window.dilation, 1);
  if (!stride || !padding || !dilation || window.groups > INT32_MAX) return std::nullopt;
  const CudnnSettings& s = cudnn_settings;
  const bool tf32 = s.allow_tf32 && x.dtype() == DType::Float32;
  return Problem{kind,
                 x.device().index,
                 x.dtype(),
                 std::max(2, x.dim() - 2),
                 static_cast<int32_t>(window.groups),
                 format != MemoryFormat::Contiguous,
                 tf32,
                 s.deterministic,
                 s.benchmark,
                 s.benchmark_limit,
                 sizes_of(x),
                 sizes_of(weight),
                 sizes_of(y),
                 *stride,
                 *padding,
                 *dilation};
}

// y[:, c] += bias[c].
void add_bias(Tensor& y, const Tensor& bias) {
  if (!bias.defined()) return;
  Dims sizes = Dims::filled(y.dim() - 1, 1), strides = Dims::filled(y.dim() - 1, 0);
  sizes[0] = bias.size(0);
  strides[0] = bias.stride(0);
  raw::add_(y, alias(bias, sizes, strides, bias.offset()));
}

// A convolution as an op says it; the kind says which of the three is the result.
struct Work {
  Kind kind;
  const char* op;
  const Tensor &x, &weight, &y, &bias;
  Window window;
  bool relu = false;
};

// The bias as it lies in a graph; zeros where there is none, as only a graph with one has kernels
// for every order.
Tensor shifts_of(const Work& work) {
  if (work.bias.defined()) return laid_out(work.bias, MemoryFormat::Contiguous, work.op);
  Tensor out = empty_plain({work.weight.size(0)}, {work.weight.dtype(), work.weight.device()});
  fill(out, Scalar(0));
  return out;
}

// Computes what the problem's kind says, plus the bias where there is one, and relu of that.
bool run_with_ending(const Call& call, const Problem& problem, const Operands& at, const Work& work,
                     Tensor& out) {
  if (problem.kind == Kind::Forward && (work.bias.defined() || work.relu) &&
      run_biased(call, problem, at, shifts_of(work), work.relu)) {
    call.done();
    return true;
  }
  if (!run(call, problem, at)) return false;
  call.done();
  add_bias(out, work.bias);
  if (work.relu) raw::relu_(out);
  return true;
}

// Computes the result from the other two, all laid out in that order.
bool compute_in(MemoryFormat format, const Work& work, const Call& call, const Tensor& first,
                const Tensor& second, Tensor& result) {
  const auto problem = problem_of(work.kind, work.x, work.weight, work.y, format, work.window);
  if (!problem) return false;
  const Tensor a = laid_out(first, format, work.op), b = laid_out(second, format, work.op);
  const bool direct = lies_so(result, format);
  Tensor out = direct ? result : empty_in(result, format, work.op);
  Operands at{};
  switch (work.kind) {
    case Kind::Forward: at = {a.raw(), b.raw(), out.raw()}; break;
    case Kind::Data: at = {out.raw(), b.raw(), a.raw()}; break;
    case Kind::Filter: at = {b.raw(), out.raw(), a.raw()}; break;
  }
  if (!run_with_ending(call, *problem, at, work, out)) return false;
  if (!direct) copy_back(result, out);
  return true;
}

bool compute(const Work& work, Tensor& result) {
  const Tensor& first = work.kind == Kind::Forward ? work.x : work.y;
  const Tensor& second = work.kind == Kind::Filter ? work.x : work.weight;
  if (!fits(first, second, result)) return false;
  if (work.bias.defined() && work.bias.dtype() != result.dtype()) return false;
  const Call call(result, work.op);
  const MemoryFormat format = format_of(first, second);
  if (compute_in(format, work, call, first, second, result)) return true;
  // Not everything that goes row by row goes with the channels last.
  return format != MemoryFormat::Contiguous &&
         compute_in(MemoryFormat::Contiguous, work, call, first, second, result);
}

}  // namespace

bool conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride,
          const Dims& padding, const Dims& dilation, int64_t groups, bool relu, Tensor& result) {
  return compute(
      {Kind::Forward, "conv", x, weight, result, bias, {stride, padding, dilation, groups}, relu},
      result);
}

bool conv_transpose(const Tensor& x, const Tensor& weight, const Tensor& bias, const Dims& stride,
                    const Dims& padding, const Dims& dilation, int64_t groups, Tensor& result) {
  return compute(
      {Kind::Data, "conv_transpose", result, weight, x, bias, {stride, padding, dilation, groups}},
      result);
}

bool conv_grad_weight(const Tensor& grad, const Tensor& x, const Dims& stride, const Dims& padding,
                      const Dims& dilation, int64_t groups, Tensor& result) {
  const Tensor none;
  return compute({Kind::Filter,
                  "conv_grad_weight",
                  x,
                  result,
                  grad,
                  none,
                  {stride, padding, dilation, groups}},
                 result);
}

}  // namespace moonlet::cuda::cudnn

#else

namespace moonlet::cuda::cudnn {

int64_t version() { return 0; }

bool conv(const Tensor&, const Tensor&, const Tensor&, const Dims&, const Dims&, const Dims&,
          int64_t, bool, Tensor&) {
  return false;
}
bool conv_transpose(const Tensor&, const Tensor&, const Tensor&, const Dims&, const Dims&,
                    const Dims&, int64_t, Tensor&) {
  return false;
}
bool conv_grad_weight(const Tensor&, const Tensor&, const Dims&, const Dims&, const Dims&, int64_t,
                      Tensor&) {
  return false;
}

}  // namespace moonlet::cuda::cudnn

#endif
