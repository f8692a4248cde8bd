// autograd/batching/rules.cpp: the rules for a batch that many rows share.
#include <cstring>

#include "autograd/batching.h"
#include "autograd/uses_batching_rules.h"

namespace moonlet::batching {

namespace {

bool is_type(const BatchCall& call, int i, const char* type) {
  return std::strcmp(call.type(i), type) == 0;
}
bool is_one_dim(const BatchCall& call, int i) {
  return is_type(call, i, "Dim") || is_type(call, i, "NewDim") || is_type(call, i, "Dim?");
}
bool is_dim_list(const BatchCall& call, int i) {
  return std::strncmp(call.type(i), "Dim[", 4) == 0;
}

Dims all_dims(int rank) {
  Dims out;
  for (int i = 1; i <= rank; ++i) out.push_back(i);
  return out;
}

// Positions count from the samples' dimension on. A list that was left out names all of `rank`.
void move_dims_up(BatchCall& call, int rank) {
  for (int i = 0; i < call.count(); ++i) {
    BoxedValue& value = call.arguments[i];
    if (is_one_dim(call, i)) {
      if (auto* dim = std::get_if<int64_t>(&value)) ++*dim;
    } else if (is_dim_list(call, i)) {
      if (auto* dims = std::get_if<Dims>(&value)) {
        if (dims->empty() && is_type(call, i, "Dim[*]"))
          *dims = all_dims(rank);
        else
          for (int k = 0; k < dims->size(); ++k) ++(*dims)[k];
      } else {
        value = all_dims(rank);
      }
    }
  }
}

// Whether it takes a dimension of the sample, not one that it will have.
bool names_dim(const BatchCall& call) {
  for (int i = 0; i < call.count(); ++i)
    if (is_dim_list(call, i) || (is_one_dim(call, i) && !is_type(call, i, "NewDim"))) return true;
  return false;
}

// The position of an argument `Dim?` that was left out, or -1.
int whole_dim(const BatchCall& call) {
  for (int i = 0; i < call.count(); ++i)
    if (is_type(call, i, "Dim?") && std::holds_alternative<std::monostate>(call.arguments[i]))
      return i;
  return -1;
}

template <class F>
void each_result(BatchCall& call, F&& change) {
  for (BoxedValue& value : call.results)
    if (auto* y = std::get_if<Tensor>(&value); y && y->defined()) *y = change(*y);
}

bool keeps_dims(const BatchCall& call) {
  for (int i = 0; i < call.count(); ++i)
    if (std::strcmp(call.op.row->arguments[i].name, "keepdim") == 0)
      return std::get<bool>(call.arguments[i]);
  return false;
}

// Over all elements of a sample, for ops that name one dimension or none.
void over_whole_samples(BatchCall& call, int dim_position) {
  const int rank = call.rank(0);
  call.put(0, reshape(call.front(0), {call.size(), -1}));
  call.put(dim_position, int64_t{1});
  call.call();
  if (!keeps_dims(call)) return;
  Dims sizes = Dims::filled(rank + 1, 1);
  sizes[0] = call.size();
  each_result(call, [&](const Tensor& y) { return reshape(y, sizes); });
}

void flattened(BatchCall& call, int full, bool shift_size) {
  const bool images = call.rank(0) == full;
  for (int i = 0; i < call.count(); ++i) {
    if (!call.has_tensor(i)) continue;
    const Tensor x = call.front(i);
    call.put(i, images ? flatten(x, 0, 1) : x);
  }
  for (int i = 0; shift_size && i < call.count(); ++i) {
    auto* size = std::get_if<Dims>(&call.arguments[i]);
    if (!size || std::strcmp(call.op.row->arguments[i].name, "size") != 0) continue;
    if (images)
      (*size)[0] *= call.size();
    else
      size->insert(0, call.size());
  }
  call.call();
  if (!images) return;
  each_result(call, [&](const Tensor& y) { return unflatten(y, 0, {call.size(), -1}); });
}

// Ops on matrices would take the batch of samples of fewer dimensions for one.
void check_matrices(const BatchCall& call) {
  const std::string_view family = call.op.row->family, name = call.op.row->name;
  const bool matrices =
      (family == "decomposition" && name != "pivot_matrix" && name != "det_grad_A") ||
      name == "native_cdist" || name == "cdist_grad_x1" || name == "tril" || name == "triu";
  for (int i = 0; matrices && i < call.count() && i < 2; ++i)
    if (call.has_tensor(i) && (i == 0 || is_type(call, i, "Tensor")))
      check(call.rank(i) >= 2 || (i == 1 && name != "native_solve" && name != "native_lstsq"), name,
            ": ", call.op.row->arguments[i].name, " has ", call.rank(i),
            " dimensions, at least two are expected");
}

}  // namespace

void dims(BatchCall& call) {
  call.check_written();
  check_matrices(call);
  if (!call.batched(0) || call.others_batched()) return call.loop();
  if (const int position = whole_dim(call); position >= 0)
    return over_whole_samples(call, position);
  const int rank = call.rank(0);
  Tensor x = call.front(0);
  // A sample of rank 0 has a dimension to name, as in PyTorch.
  const bool scalar = rank == 0 && !call.op.is_view() && names_dim(call);
  if (scalar) x = unsqueeze(x, 1);
  call.put(0, x);
  move_dims_up(call, scalar ? 1 : rank);
  call.call();
  if (scalar)
    each_result(call, [](const Tensor& y) {
      return y.dim() == 2 && y.size(1) == 1 ? squeeze(y, Dims{1}) : y;
    });
}

void all(BatchCall& call) {
  call.check_written();
  check_matrices(call);
  const int rank = call.has_tensor(0) ? call.rank(0) : 1;
  // Samples of rank 0 have a dimension to name, as in PyTorch, and so have all beside them.
  const bool scalar = rank == 0 && names_dim(call);
  const auto named = [&](int i) {
    const Tensor x = call.front(i);
    return scalar && x.dim() == 1 ? unsqueeze(x, 1) : x;
  };
  bool scalar_result = scalar;
  for (int i = 0; i < call.count(); ++i) {
    if (call.has_tensor(i)) {
      scalar_result = scalar_result && call.rank(i) == 0;
      call.put(i, named(i));
    }
    if (std::holds_alternative<std::vector<Tensor>>(call.arguments[i]))
      call.put(i, call.list_front(i));
  }
  move_dims_up(call, scalar ? 1 : rank);
  call.call();
  if (scalar_result) each_result(call, [](const Tensor& y) { return squeeze(y, Dims{1}); });
}

void sized(BatchCall& call) {
  for (int i = 0; i < call.count(); ++i)
    if (std::strcmp(call.op.row->arguments[i].name, "size") == 0)
      std::get<Dims>(call.arguments[i]).insert(0, call.size());
  dims(call);
}

namespace {

// A sample without dimensions counts less in promotion than its batch would.
Tensor with_rank_0_dtype(const BatchCall& call, const Tensor& x, int own) {
  std::optional<DType> others;
  for (int i = 0; i < call.count(); ++i)
    if (i != own && call.has_tensor(i) && call.rank(i) > 0 && !is_type(call, i, "Mask"))
      others = others ? promote(*others, call.tensor(i).dtype()) : call.tensor(i).dtype();
  if (!others || x.dtype() == *others) return x;
  const auto step = [](DType t) {
    return kind_of(t) == Kind::Unsigned ? Kind::Signed : kind_of(t);
  };
  if (is_complex(x.dtype()) && is_floating(*others))
    return to(x, promote(*others, DType::Complex64));
  return step(x.dtype()) <= step(*others) ? to(x, *others) : x;
}

}  // namespace

void pointwise(BatchCall& call) {
  call.check_written();
  int rank = 0;
  for (int i = 0; i < call.count(); ++i)
    if (call.has_tensor(i)) rank = std::max(rank, call.rank(i));
  const bool update = call.op.row->kind == OpKind::Update;
  for (int i = 0; i < call.count(); ++i) {
    // What is written does not broadcast.
    const bool target = update && i == 0;
    const bool same = !call.batched(i) && !target;
    if (!call.has_tensor(i) || (same && (rank > 0 || call.rank(i) > 0))) continue;
    const bool scalar = call.rank(i) == 0 && !is_type(call, i, "Mask") && !call.op.writes(i);
    const Tensor x = target ? call.front(i) : call.front(i, rank);
    call.put(i, scalar ? with_rank_0_dtype(call, x, i) : x);
  }
  call.call();
}

void first_entries(BatchCall& call, int count) {
  for (int i = 0; i < count; ++i)
    if (call.has_tensor(i)) call.put(i, flatten(call.front(i), 0, 1));
  call.call();
  each_result(call, [&](const Tensor& y) { return unflatten(y, 0, {call.size(), -1}); });
}
void entries(BatchCall& call) { first_entries(call, call.count()); }

void merge(BatchCall& call) { flattened(call, 4, true); }
void merge_columns(BatchCall& call) { flattened(call, 3, false); }
void merge_rows(BatchCall& call) { flattened(call, 2, false); }

}  // namespace moonlet::batching
