// autograd/batching/shape.cpp: how views and other ops on shapes are made for a batch.
#include "autograd/batching.h"

#include <algorithm>

#include "autograd/uses_batching_shape.h"

namespace moonlet::batching {

namespace {
Dims behind(int64_t size, const Dims& dims) {
  Dims out = dims;
  out.insert(0, size);
  return out;
}
}  // namespace

void view(BatchCall& call) {
  call.put(0, call.front(0));
  call.put(1, behind(call.size(), std::get<Dims>(call.arguments[1])));
  call.call();
}

void expand(BatchCall& call) {
  const Dims size = std::get<Dims>(call.arguments[1]);
  call.put(0, call.front(0, size.size()));
  call.put(1, behind(call.size(), size));
  call.call();
}

void permute(BatchCall& call) {
  Dims dims = std::get<Dims>(call.arguments[1]);
  for (int i = 0; i < dims.size(); ++i) ++dims[i];
  dims.insert(0, 0);
  call.put(0, call.front(0));
  call.put(1, dims);
  call.call();
}

void t(BatchCall& call) {
  check(call.rank(0) <= 2, "t: a sample of ", call.rank(0),
        " dimensions, at most two are expected");
  const Tensor x = call.front(0);
  call.results = {call.rank(0) < 2 ? x : transpose(x, 1, 2)};
}

// Strides count as the value's do; where it begins is its own affair.
void strided_view(BatchCall& call) {
  const Tensor x = call.front(0);
  const auto dims_at = [&](int i) { return std::get<Dims>(call.arguments[i]); };
  const int64_t offset =
      x.offset() + std::get<int64_t>(call.arguments[3]) - std::get<int64_t>(call.arguments[5]);
  call.results = {moonlet::strided_view(x, behind(call.size(), dims_at(1)),
                                        behind(x.stride(0), dims_at(2)), offset, x.strides(),
                                        x.offset())};
}

// Formats of images are those of samples, and cannot be had.
void copied(BatchCall& call) {
  call.put(0, call.front(0));
  BoxedValue& format = call.arguments[call.count() - 1];
  const auto* given = std::get_if<MemoryFormat>(&format);
  if (given && *given != MemoryFormat::Contiguous) format = std::monostate{};
  call.call();
}

// Empty tensors of one dimension join with any others, unless they are batches.
void cat(BatchCall& call) {
  std::vector<Tensor> kept;
  const std::vector<Tensor> tensors = call.list_front(0);
  const bool all_flat =
      std::all_of(tensors.begin(), tensors.end(), [](const Tensor& x) { return x.dim() == 2; });
  for (const Tensor& x : tensors)
    if (all_flat || x.dim() != 2 || x.numel() > 0) kept.push_back(x);
  call.results = {moonlet::cat(kept, std::get<int64_t>(call.arguments[1]) + 1)};
}

// Each block among zeros of its rows.
void block_diag(BatchCall& call) {
  std::vector<Tensor> blocks = call.list_front(0);
  int64_t width = 0, before = 0;
  for (Tensor& x : blocks) {
    if (x.dim() < 3) x = reshape(x, {x.size(0), 1, x.numel() / x.size(0)});
    width += x.size(2);
  }
  for (Tensor& x : blocks) {
    const int64_t own = x.size(2);
    x = constant_pad(x, {before, width - before - own}, 0);
    before += own;
  }
  call.results = {moonlet::cat(blocks, 1)};
}

// `x, first, step`: the same for all samples.
void iota(BatchCall& call) {
  call.check_written();
  Tensor whole = call.front(0);
  Tensor one = empty_like(select(whole, 0, 0));
  call.put(0, one);
  call.call();
  copy_(whole, one);
  call.results = {whole};
}

// `x, fill_value, wrap`: the diagonal of all samples, by a mask of one.
void fill_diagonal(BatchCall& call) {
  const Scalar value = std::get<Scalar>(call.arguments[1]);
  call.check_written();
  const Tensor whole = call.front(0);
  call.put(0,
           zeros(Dims{whole.sizes().data() + 1, whole.dim() - 1}, {DType::Bool, whole.device()}));
  call.put(1, Scalar(true));
  call.call();
  const Tensor mask = std::get<Tensor>(call.results[0]);
  Tensor target = whole;
  call.results = {call.op.form == OpInfo::Form::InPlace ? masked_fill_(target, mask, value)
                                                        : masked_fill(whole, mask, value)};
}

void median(BatchCall& call) {
  const Tensor x = flatten(unsqueeze(call.front(0), 1), 1, -1);
  const bool skips_nan = std::string_view(call.op.row->name) == "nanmedian";
  call.results = {std::get<0>(skips_nan ? nanmedian_dim(x, 1, false) : median_dim(x, 1, false))};
}

}  // namespace moonlet::batching
