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

void median(BatchCall& call) {
  const Tensor x = flatten(unsqueeze(call.front(0), 1), 1, -1);
  const bool skips_nan = std::string_view(call.op.row->name) == "nanmedian";
  call.results = {std::get<0>(skips_nan ? nanmedian_dim(x, 1, false) : median_dim(x, 1, false))};
}

}  // namespace moonlet::batching
