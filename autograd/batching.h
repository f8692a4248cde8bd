// autograd/batching.h: ops on batched tensors (tensor/runtime/batched.h): a call on samples becomes
// calls on values, through public ops, so that what the values are recorded by, batched by or
// intercepted by applies to them in turn. It happens below the tape: tensors inside vmap have
// histories of their own.
#pragma once

#include <span>
#include <vector>

#include "tensor/core/op_info.h"
#include "tensor/memory/free_list.h"
#include "tensor/runtime/batched.h"
#include "tensor/runtime/execution.h"

namespace moonlet {

inline bool is_batched(const Tensor& x) { return x.defined() && x.device().is_batched(); }
inline bool is_batched(const Operand& x) { return is_batched(x.tensor()); }
inline bool is_batched(const Options& options) { return options.device.is_batched(); }
inline bool is_batched(const std::optional<Device>& device) {
  return device && device->is_batched();
}
inline bool is_batched(const std::vector<Tensor>& list) {
  for (const Tensor& x : list)
    if (is_batched(x)) return true;
  return false;
}
template <class T>
inline bool is_batched(const T&) {
  return false;
}

// Whether vmap has a part in the call: an argument is batched, or it draws random numbers.
template <class... A>
inline bool meets_vmap(const OpInfo& op, const A&... arguments) {
  if (op.body != nullptr && op.row->batch_rule == nullptr && !op.row->random) return false;
  return (is_batched(arguments) || ...) || (op.row->random && execution.vmap != 0);
}

// Throws: an out= form was called inside vmap.
[[noreturn]] void fail_out_in_vmap(const char* op);
// Runs it for the innermost vmap that has a part in it.
void run_batched(const OpInfo& op, BoxedValues& arguments, BoxedValues& results);

// A call as the rule of a row gets it: the arguments hold values, which the rule brings to a form
// that the op, or others, take for all samples at once.
class BatchCall {
 public:
  BatchCall(const OpInfo& called, BoxedValues given, BatchLevelRef at);

  const OpInfo& op;
  BoxedValues arguments;
  BoxedValues results;  // values, each with the samples in its first dimension
  const BatchLevelRef level;

  int64_t size() const { return level->size; }
  int count() const { return static_cast<int>(arguments.size()); }
  bool has_tensor(int i) const { return std::holds_alternative<Tensor>(arguments[i]); }
  const Tensor& tensor(int i) const { return std::get<Tensor>(arguments[i]); }
  bool batched(int i) const { return dims_[i] != kNotBatched; }
  // Whether its samples are the unit vectors.
  bool units(int i) const { return (units_ >> i & 1) != 0; }
  // How many dimensions a sample of argument i has.
  int rank(int i) const { return tensor(i).dim() - (batched(i) ? 1 : 0); }
  // Argument i with the samples in the first dimension; a tensor that is no batch is expanded.
  Tensor front(int i) const;
  // The same with ones between, so that a sample has `rank` dimensions.
  Tensor front(int i, int rank) const;
  // A value that is the same for all samples, once for each.
  Tensor repeated(const Tensor& x) const;
  // Argument i as a sample, without the history that it has inside the vmap, and the value of what
  // ops made of such samples: what an op is made of can be called for a batch.
  Tensor sample(int i) const { return make_batched(tensor(i), dims_[i], level); }
  Tensor value_of(const Tensor& y) const;
  // Puts a value in the place of argument i.
  void put(int i, BoxedValue value) { arguments[i] = std::move(value); }
  // Whether a tensor after the first is batched.
  bool others_batched() const;
  bool any_list_batched() const;
  bool any_batched() const {
    return (!dims_.empty() && dims_[0] != kNotBatched) || others_batched();
  }
  std::vector<Tensor> list_front(int i) const;
  const char* type(int i) const { return op.row->arguments[i].type; }
  // Calls the op on the arguments as they are now; all results are taken for batches.
  void call();

  // Sample by sample.
  void loop();
  // Throws where what is written is the same for all samples.
  void check_written() const;

 private:
  friend void run_batched(const OpInfo& op, BoxedValues& arguments, BoxedValues& results);
  void unwrap(BoxedValue& value, size_t i);
  BoxedValue sample_of(size_t i, int64_t sample) const;
  // Whether argument i, or a tensor of the list that it is, has no samples.
  bool same_for_all(int i) const;
  void random();

  // The samples' dimension, per argument.
  std::vector<int, memory::SmallBlockAllocator<int>> dims_;
  uint32_t units_ = 0;  // a bit per argument
  // Per tensor of a list; empty where no argument is one.
  std::vector<std::vector<int>> list_dims_;
};

// Rules that rows name in their field `vmap`.
namespace batching {

// The first tensor alone may be a batch; positions of dimensions move up by one.
void dims(BatchCall& call);
// All tensors get the samples in their first dimension; positions of dimensions move up by one.
void all(BatchCall& call);
// Each element by itself, broadcasting.
void pointwise(BatchCall& call);
// The first dimension of samples of rank 4 counts images, and the op takes them one by one.
void merge(BatchCall& call);
// The same of rank 3.
void merge_columns(BatchCall& call);
// The first dimension of every tensor counts entries, which the op takes one by one.
void entries(BatchCall& call);
// The same of the first `count` arguments; the others are the same for all samples.
void first_entries(BatchCall& call, int count);
// The second dimension of every tensor, or the only one, counts channels, in groups where there is
// a number of them; the op takes channels, or groups, one by one.
void channels(BatchCall& call);
// As `dims`, where a size is that of a sample.
void sized(BatchCall& call);

}  // namespace batching

}  // namespace moonlet
