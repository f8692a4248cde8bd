// autograd/batching/search.cpp: positions that are looked for in the samples of a batch.
#include "autograd/batching.h"
#include "autograd/host_value.h"
#include "autograd/uses_batching_search.h"

namespace moonlet::batching {

// `sorted_sequence, x, out_int32, right, side, sorter`
void searchsorted(BatchCall& call) {
  constexpr int kSorter = 5;
  const bool own = call.batched(0) || (call.has_tensor(kSorter) && call.batched(kSorter));
  const Tensor x = call.front(1);
  const bool one = call.rank(0) == 1;
  if (own || !one) {
    call.put(0, call.front(0));
    if (call.has_tensor(kSorter)) call.put(kSorter, call.front(kSorter));
  }
  // A sequence of one dimension serves values of any shape.
  call.put(1, own && one ? reshape(x, {call.size(), -1}) : x);
  call.call();
  if (own && one) call.results[0] = reshape(std::get<Tensor>(call.results[0]), x.sizes());
}

// The positions of all samples come in order, sample by sample.
void nonzero(BatchCall& call) {
  const Tensor found = moonlet::nonzero(call.front(0));
  const int64_t samples = call.size(), each = found.size(0) / samples;
  const Tensor mine = unflatten(narrow(found, 0, 0, each * samples), 0, {samples, each});
  Tensor numbers = empty({samples, 1}, options_of(found));
  iota_(numbers, int64_t{1});
  const Tensor own = eq(select(mine, 2, 0), numbers);
  check(found.size(0) == each * samples && host_value<bool>(all_samples(moonlet::all(own))),
        "nonzero", ": inside vmap every sample must give a result of the same shape");
  call.results = {narrow(mine, 2, 1, call.rank(0))};
}

void random_order(BatchCall& call) { call.results = {argsort(call.front(0), 1, false, true)}; }

}  // namespace moonlet::batching
