// tests/cpp/program/raw_calls.h: ops without the tape under their names, as a capture on this
// thread sees them: graphs for tests without what lies above the tensors.
#pragma once

#include "tensor/core/raw_op.h"
#include "tensor/program/captured_call.h"

namespace moonlet::program::calls {

inline BoxedValues call(const char* name, OpInfo::Form form, BoxedValues arguments) {
  const RawOp* const op = find_raw_op(name);
  check(op != nullptr && op->form(form) != nullptr, name, ": there is no such op");
  const RowInfo row{.name = op->name,
                    .schema = op->schema,
                    .family = "",
                    .kind = op->kind,
                    .dtypes = 0,
                    .random = op->random};
  const OpInfo info{op->name, &row, form, nullptr};
  BoxedValues results;
  if (!meets_capture(info)) {
    op->form(form)(arguments, results);
    return results;
  }
  CapturedCall captured(info, arguments);
  op->form(form)(arguments, results);
  captured.finish(results);
  return results;
}

template <class... A>
Tensor plain(const char* name, const A&... arguments) {
  return std::get<Tensor>(call(name, OpInfo::Form::Plain, {BoxedValue(arguments)...})[0]);
}
// As in C++ in general, a Tensor& for what is written.
template <class... A>
Tensor& inplace(const char* name, Tensor& x, const A&... arguments) {
  call(name, OpInfo::Form::InPlace, {BoxedValue(x), BoxedValue(arguments)...});
  return x;
}

inline const BoxedValue kNothing;

using T = const Tensor&;
using I = int64_t;

inline Tensor neg(T x) { return plain("neg", x); }
inline Tensor exp(T x) { return plain("exp", x); }
inline Tensor relu(T x) { return plain("relu", x); }
inline Tensor add(T x, T y) { return plain("add", x, y); }
inline Tensor mul(T x, T y) { return plain("mul", x, y); }
inline Tensor mul(T x, double y) { return plain("mul", x, Scalar(y)); }
inline Tensor maximum(T x, T y) { return plain("maximum", x, y); }
inline Tensor floor_divide(T x, T y) { return plain("floor_divide", x, y); }
inline Tensor& add_(Tensor& x, T y) { return inplace("add", x, y); }
inline Tensor& add_(Tensor& x, double y) { return inplace("add", x, Scalar(y)); }
inline Tensor& mul_(Tensor& x, T y) { return inplace("mul", x, y); }
inline Tensor& mul_(Tensor& x, double y) { return inplace("mul", x, Scalar(y)); }
inline Tensor& exp_(Tensor& x) { return inplace("exp", x); }
inline Tensor& fill_(Tensor& x, double value) { return inplace("fill", x, Scalar(value)); }
inline Tensor& copy_(Tensor& x, T source) { return inplace("copy", x, source); }
inline Tensor& uniform_(Tensor& x) { return inplace("uniform", x, 0.0, 1.0, kNothing); }
inline Tensor dropout_mask(T x) { return plain("dropout_mask", x, 0.5, kNothing); }
inline Tensor gt(T x, T y) { return plain("gt", x, y); }
inline Tensor masked_fill(T x, T mask, double v) {
  return plain("masked_fill", x, mask, Scalar(v));
}
inline Tensor clone(T x) { return plain("clone", x, kNothing); }
inline Tensor contiguous(T x) {
  return x.is_contiguous() ? x : plain("clone", x, MemoryFormat::Contiguous);
}
inline Tensor convert(T x, DType dtype) { return plain("convert", x, dtype, kNothing, kNothing); }
inline Tensor transpose(T x, I a, I b) { return plain("transpose", x, a, b); }
inline Tensor permute(T x, const Dims& dims) { return plain("permute", x, dims); }
inline Tensor view(T x, const Dims& size) { return plain("view", x, size); }
inline Tensor expand(T x, const Dims& size) { return plain("expand", x, size); }
inline Tensor select(T x, I dim, I index) { return plain("select", x, dim, index); }
inline Tensor unsqueeze(T x, I dim) { return plain("unsqueeze", x, dim); }
inline Tensor slice(T x, I dim, I start, I stop, I step) {
  return plain("slice", x, dim, start, stop, step);
}
inline Tensor strided_view(T x, const Dims& size, const Dims& stride, I offset) {
  return plain("strided_view", x, size, stride, offset, x.strides(), x.offset());
}
inline Tensor sum(T x, const Dims& dims, bool keepdim = false) {
  return plain("sum", x, dims, keepdim, kNothing);
}
inline Tensor sum(T x) {
  Dims all;
  for (int d = 0; d < x.dim(); ++d) all.push_back(d);
  return sum(x, all);
}
inline Tensor softmax(T x, I dim) { return plain("softmax", x, dim); }
inline Tensor rsqrt(T x) { return plain("rsqrt", x); }
inline Tensor add(T x, double y) { return plain("add", x, Scalar(y)); }
inline Tensor div(T x, double y) { return plain("div", x, Scalar(y)); }
inline Tensor addcmul(T x, T a, T b) { return plain("addcmul", x, a, b, Scalar(1)); }
inline Tensor bmm(T a, T b) { return plain("bmm", a, b); }
// Of images, stride and dilation 1.
inline Tensor conv(T x, T weight, T bias, I padding, I groups = 1) {
  return plain("native_conv", x, weight, bias.defined() ? BoxedValue(bias) : kNothing, Dims{1, 1},
               Dims{padding, padding}, Dims{1, 1}, groups);
}
// In training: the result of three.
inline Tensor batch_norm(T x, T running_mean, T running_var) {
  return std::get<Tensor>(call("native_batch_norm", OpInfo::Form::Plain,
                               {BoxedValue(x), kNothing, kNothing, BoxedValue(running_mean),
                                BoxedValue(running_var), BoxedValue(0.1), BoxedValue(1e-5)})[0]);
}
inline Tensor mm(T a, T b) { return plain("mm", a, b); }
inline Tensor linear(T x, T weight, T bias) {
  return plain("linear", x, weight, bias.defined() ? BoxedValue(bias) : kNothing);
}
inline Tensor index_select(T x, I dim, T index) { return plain("index_select", x, dim, index); }
inline Tensor& index_add_(Tensor& x, I dim, T index, T source) {
  return inplace("index_add", x, dim, index, source);
}
inline Tensor cat(const std::vector<Tensor>& all, I dim) { return plain("cat", all, dim); }

}  // namespace moonlet::program::calls
