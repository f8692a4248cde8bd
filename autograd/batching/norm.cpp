// autograd/batching/norm.cpp: batch and group normalisation of a batch: samples are channels, or
// entries, side by side.
#include <cstring>

#include "autograd/batching.h"
#include "autograd/uses_batching_norm.h"

namespace moonlet::batching {

namespace {

// (samples, n, c, ...) as (n, samples * c, ...), and (samples, c) as (samples * c).
Tensor side_by_side(const Tensor& x) {
  return x.dim() == 2 ? flatten(x, 0, 1) : flatten(transpose(x, 0, 1), 1, 2);
}
Tensor apart(const Tensor& y, int64_t samples) {
  if (y.dim() == 1) return unflatten(y, 0, {samples, -1});
  return transpose(unflatten(y, 1, {samples, -1}), 0, 1);
}

// Whether one of the arguments from `first` to `last` is a batch.
bool any_batched(const BatchCall& call, int first, int last) {
  for (int i = first; i <= last; ++i)
    if (call.has_tensor(i) && call.batched(i)) return true;
  return false;
}

}  // namespace

void channels(BatchCall& call) {
  call.check_written();
  std::vector<std::pair<Tensor, Tensor>> written;  // of a batch, and what the op writes to
  for (int i = 0; i < call.count(); ++i) {
    if (std::strcmp(call.op.row->arguments[i].name, "num_groups") == 0)
      std::get<int64_t>(call.arguments[i]) *= call.size();
    if (!call.has_tensor(i)) continue;
    const Tensor whole = call.front(i), joined = side_by_side(whole);
    if (call.op.writes(i)) written.emplace_back(whole, joined);
    call.put(i, joined);
  }
  call.call();
  for (auto& [whole, joined] : written)
    if (&whole.storage() != &joined.storage()) copy_(whole, apart(joined, call.size()));
  for (BoxedValue& value : call.results) value = apart(std::get<Tensor>(value), call.size());
}

// `x, weight, bias, running_mean, running_var, ...`: where weights alone are of each sample, the
// rest is computed once.
void native_batch_norm(BatchCall& call) {
  if (call.batched(0) || any_batched(call, 3, 4)) return channels(call);
  const int rank = call.rank(0);
  Tensor of_channels[2];
  for (int i = 1; i <= 2; ++i) {
    if (!call.has_tensor(i)) continue;
    Tensor v = unsqueeze(call.front(i), 1);
    while (v.dim() < rank + 1) v = unsqueeze(v, -1);
    of_channels[i - 1] = v;
    call.put(i, std::monostate{});
  }
  call.call();
  for (BoxedValue& value : call.results) value = call.repeated(std::get<Tensor>(value));
  Tensor y = std::get<Tensor>(call.results[0]);
  const DType dtype = y.dtype();
  if (of_channels[0].defined()) y = mul(y, of_channels[0]);
  if (of_channels[1].defined()) y = add(y, of_channels[1]);
  call.results[0] = to(y, dtype);
}

// `x, num_groups, weight, bias, eps`: each entry has groups of its own.
void native_group_norm(BatchCall& call) {
  any_batched(call, 2, 3) ? channels(call) : first_entries(call, 1);
}

// `grad, x, mean, rstd, weight, num_groups, eps`
void group_norm_grad_x(BatchCall& call) {
  any_batched(call, 4, 4) ? channels(call) : first_entries(call, 4);
}

}  // namespace moonlet::batching
