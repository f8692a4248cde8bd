// tensor/pointwise/run.cpp: the steps before a pointwise kernel.
#include "tensor/pointwise/run.h"

#include "tensor/core/dispatch.h"
#include "tensor/core/left_out.h"
#include "tensor/core/memory_overlap.h"
#include "tensor/core/warning.h"
#include "tensor/pointwise/dtypes.h"
#include "tensor/pointwise/run_by.h"
#include "tensor/raw_compare.h"
#include "tensor/runtime/execution.h"

namespace moonlet {

namespace {

using Params = std::span<const Scalar>;

// The inputs of one call.
struct Inputs {
  const Operand* items[kMaxPointwiseInputs];
  const Tensor* tensors[kMaxPointwiseInputs];  // null for a number
  int count = 0;
  const Tensor* first = nullptr;  // the first tensor, which names the device

  void add(const Operand* x) {
    if (count == kMaxPointwiseInputs) fail("pointwise: too many inputs");
    items[count] = x;
    tensors[count] = x->is_tensor() ? &x->tensor() : nullptr;
    if (!first) first = tensors[count];
    ++count;
  }
};

void check_inputs(const PointwiseOp& op, const Inputs& in) {
  if (!in.first) fail(op.name, ": at least one argument must be a tensor");
  for (int i = 0; i < in.count; ++i) {
    if (in.tensors[i] && !(in.tensors[i]->device() == in.first->device())) [[unlikely]]
      fail(op.name, ": tensors on ", in.first->device(), " and ", in.tensors[i]->device(),
           "; move one with :to(device)");
    if (op.mask_args >> i & 1u) {
      const bool bytes = op.byte_mask && in.tensors[i] && in.tensors[i]->dtype() == DType::UInt8;
      if (!bytes && (!in.tensors[i] || in.tensors[i]->dtype() != DType::Bool)) [[unlikely]]
        fail(op.name, ": the mask must be a bool tensor",
             in.tensors[i] ? text(", not ", in.tensors[i]->dtype()) : "");
    }
  }
}

// Gives the inputs the bools that a mask of bytes stands for, which `held` keeps.
void take_byte_mask(const PointwiseOp& op, Inputs& in, Tensor& held) {
  for (int i = 0; i < in.count; ++i) {
    if (!(op.mask_args >> i & 1u) || in.tensors[i]->dtype() == DType::Bool) continue;
    warn_once("byte mask", text(op.name, ": a mask of uint8 is true where it is not 0; ",
                                "PyTorch will take bool masks only: say x:ne(0)"));
    held = raw::ne(*in.tensors[i], int64_t{0});
    if (in.first == in.tensors[i]) in.first = &held;
    in.tensors[i] = &held;
  }
}

DType result_of(const PointwiseOp& op, const Operand* const* list, int count) {
  try {
    switch (count) {
      case 1: return result_type({list[0]});
      case 2: return result_type(*list[0], *list[1]);
      case 3: return result_type({list[0], list[1], list[2]});
      default: return result_type({list[0], list[1], list[2], list[3]});
    }
  } catch (const Error& e) {  // some dtypes are not promoted
    fail(op.name, ": ", e.what());
  }
}

// The promoted dtype of tensors, numbers and parameters, beyond the case of equal dtypes.
DType promote_inputs(const PointwiseOp& op, const Inputs& in, Params params) {
  const Operand* list[kMaxPointwiseInputs];
  int count = 0;
  for (int i = 0; i < in.count; ++i)
    if (!(op.mask_args >> i & 1u)) list[count++] = in.items[i];
  DType out = result_of(op, list, count);
  // A parameter of a higher kind raises the computation to its own.
  if (!op.keeps_dtype && !is_floating(out) && !is_complex(out)) {
    for (const Scalar& p : params) {
      if (p.is_float()) return execution.default_dtype;
      if (out == DType::Bool && p.kind() == Scalar::Kind::Int) out = DType::Int64;
    }
  }
  return out;
}

void check_no_bool(const PointwiseOp& op, const Inputs& in) {
  for (int i = 0; i < in.count; ++i) {
    const bool is_bool = in.tensors[i] ? in.tensors[i]->dtype() == DType::Bool
                                       : in.items[i]->scalar().default_dtype() == DType::Bool;
    if (is_bool)
      fail(op.name, ": dtype bool is not supported; logical_xor and logical_not do for masks");
  }
}

// A number that is no operand must be one of the computation's dtype.
void check_params(const PointwiseOp& op, DType computed, Params params) {
  for (const Scalar& p : params) {
    check_number(op.name, "a number", p, computed);
    if (!op.scales) continue;
    if (p.is_float() && (is_integral(computed) || computed == DType::Bool))
      fail(op.name, ": alpha is ", p, ", but integers are multiplied by whole numbers only");
    if (p.kind() == Scalar::Kind::Bool && computed != DType::Bool)
      fail(op.name, ": alpha is ", p, ", but the result is no bool: it is ", computed);
  }
}

// The dtype the op computes, before the result's own rule.
DType computation_dtype(const PointwiseOp& op, const Inputs& in, Params params) {
  DType t = DType::Float32;
  if (in.count == 1 && op.mask_args == 0 && is_floating(in.first->dtype()))
    t = in.first->dtype();
  else
    t = promote_inputs(op, in, params);
  if (op.refuses_bool) check_no_bool(op, in);
  if (params.size() > 0) check_params(op, t, params);
  if (contains(op.dtypes, t)) [[likely]]
    return op.result == PointwiseOp::Complex ? complex_of(t) : t;
  if (op.int_to_float && (is_integral(t) || t == DType::Bool)) return execution.default_dtype;
  fail(op.name, ": dtype ", t, " is not supported; it takes ", names(op.dtypes));
}

DType result_dtype(const PointwiseOp& op, DType computed) {
  if (op.result == PointwiseOp::Bool) return DType::Bool;
  return op.result == PointwiseOp::Real ? real_of(computed) : computed;
}

// The dtype of computation: a comparison reads its inputs in their promoted dtype.
void fill_plan(PointwisePlan& plan, const PointwiseOp& op, const Inputs& in, DType computed,
               Params params, const Tensor& out) {
  plan.op = op.name;
  plan.numel = out.numel();
  plan.inputs = in.count;
  plan.compute = compute_dtype(computed);
  plan.device = out.device();
  plan.params = params.data();
  plan.param_count = static_cast<int>(params.size());
  plan.out.data = out.raw();
  plan.out.scalar = nullptr;
  plan.out.dtype = out.dtype();
  for (int i = 0; i < in.count; ++i) {
    PointwiseArg& arg = plan.in[i];
    if (const Tensor* x = in.tensors[i]) {
      arg.data = x->raw();
      arg.scalar = nullptr;
      arg.dtype = x->dtype();
    } else {
      arg.scalar = &in.items[i]->scalar();
    }
  }
  plan_layout(plan, out, in.tensors);
}

// What is chosen is stored as it is: unlike a sum, it must not wrap around. Nor may a number that
// uint64, which computes in int64, is compared with.
void check_choices(const PointwiseOp& op, const Inputs& in, DType computed, Params params) {
  for (int i = 0; i < in.count; ++i)
    if (!in.tensors[i]) check_fits(in.items[i]->scalar(), computed, op.name);
  const char* role = op.chooses;
  for (const Scalar& value : params) {
    const bool beyond =
        (*role == 'l' && value.to_double() < 0) || (*role == 'u' && value.to_double() > 0);
    if (!beyond) check_fits(value, computed, op.name);
    ++role;
  }
}

void launch(const PointwiseOp& op, const Inputs& in, DType computed, Params params,
            const Tensor& out) {
  if (op.chooses || (op.result == PointwiseOp::Bool && computed == DType::UInt64))
    check_choices(op, in, computed, params);
  if (out.numel() == 0) return;
  PointwisePlan plan;
  fill_plan(plan, op, in, computed, params, out);
  const KernelTable& table = kernels_for(plan.device.type, op.name);
  const PointwiseKernel kernel = table.pointwise_ops[op.family][op.index];
  if (!kernel) [[unlikely]] {
    if (plan.device.is_cpu()) op_left_out(op.name);
    no_kernel(plan.device.type, op.name, "its row names none for this device");
  }
  kernel(plan);
}

Dims broadcast_all(const PointwiseOp& op, const Inputs& in) {
  Dims shape = in.first->sizes();
  for (int i = 0; i < in.count; ++i)
    if (in.tensors[i] && !(in.tensors[i]->sizes() == shape))
      shape = broadcast(shape, in.tensors[i]->sizes(), op.name);
  return shape;
}

// The strides of a new result: those of the inputs where they agree on dense ones, else dense ones
// in the order of theirs.
Dims result_strides(const Inputs& in, const Dims& shape) {
  Dims strides[kMaxPointwiseInputs];
  int count = 0;
  bool agree = is_dense(in.first->sizes(), in.first->strides());
  for (int i = 0; i < in.count; ++i) {
    const Tensor* x = in.tensors[i];
    if (!x) continue;
    agree = agree && x->sizes() == shape && x->strides() == in.first->strides();
    strides[count++] = broadcast_strides(x->sizes(), x->strides(), shape);
  }
  return agree ? in.first->strides() : followed_strides(shape, strides, count);
}

// A new result for inputs that are not all row-major and of its shape.
[[gnu::noinline]] Tensor allocate_following(const PointwiseOp& op, const Inputs& in,
                                            Options options) {
  const Dims shape = broadcast_all(op, in);
  if (op.row_major) return empty_plain(shape, options, op.name);
  return empty_strided(shape, result_strides(in, shape), options, op.name);
}

// The same with copies of the inputs that a write would change under a later read.
[[gnu::noinline]] void launch_with_copies(const PointwiseOp& op, Inputs in, DType computed,
                                          Params params, Tensor& out) {
  Tensor copies[kMaxPointwiseInputs];
  for (int i = 0; i < in.count; ++i) {
    if (in.tensors[i] && needs_copy_before_writing(out, *in.tensors[i])) {
      copies[i] = clone_plain(*in.tensors[i]);
      in.tensors[i] = &copies[i];
    }
  }
  launch(op, in, computed, params, out);
}

// Runs into a tensor that exists. The change is noted first: a kernel that throws may have made a
// part of it.
void launch_into(const PointwiseOp& op, const Inputs& in, DType computed, Params params,
                 Tensor& out) {
  check_writable(op.name, out);
  mark_changed(out, op.inplace_name);
  bool overlaps = false;
  for (int i = 0; i < in.count; ++i)
    overlaps = overlaps || (in.tensors[i] && needs_copy_before_writing(out, *in.tensors[i]));
  if (overlaps)
    launch_with_copies(op, in, computed, params, out);
  else
    launch(op, in, computed, params, out);
}

}  // namespace

PointwiseDTypes pointwise_dtypes(const PointwiseOp& op, std::span<const Operand* const> operands,
                                 Params params) {
  Inputs in;
  for (const Operand* x : operands) in.add(x);
  check_inputs(op, in);
  const DType computed = computation_dtype(op, in, params);
  return {compute_dtype(computed), result_dtype(op, computed)};
}

Tensor run_pointwise(const PointwiseOp& op, std::initializer_list<const Operand*> operands,
                     std::initializer_list<Scalar> numbers) {
  const Params params(numbers.begin(), numbers.size());
  Inputs in;
  for (const Operand* x : operands) in.add(x);
  check_inputs(op, in);
  Tensor mask;
  if (op.byte_mask) take_byte_mask(op, in, mask);
  const DType computed = computation_dtype(op, in, params);
  const Options options = {result_dtype(op, computed), in.first->device()};
  bool plain = in.first->is_contiguous();
  for (int i = 0; i < in.count; ++i)
    if (in.tensors[i] && in.tensors[i] != in.first)
      plain =
          plain && in.tensors[i]->is_contiguous() && in.tensors[i]->sizes() == in.first->sizes();
  Tensor out = plain ? empty_plain(in.first->sizes(), options, op.name)
                     : allocate_following(op, in, options);
  launch(op, in, computed, params, out);
  return out;
}

namespace {
void launch_by(const PointwiseOp& op, const Inputs& in, DType computed, Params params,
               const Tensor& out, const PointwiseRunner& kernel) {
  if (out.numel() == 0) return;
  PointwisePlan plan;
  fill_plan(plan, op, in, computed, params, out);
  kernel(plan);
}
}  // namespace

Tensor run_pointwise_by(const PointwiseOp& op, std::span<const Operand* const> operands,
                        Params params, const PointwiseRunner& kernel) {
  Inputs in;
  for (const Operand* x : operands) in.add(x);
  check_inputs(op, in);
  const DType computed = computation_dtype(op, in, params);
  Tensor out = allocate_following(op, in, {result_dtype(op, computed), in.first->device()});
  launch_by(op, in, computed, params, out, kernel);
  return out;
}

void run_pointwise_out_by(const PointwiseOp& op, Tensor& out,
                          std::span<const Operand* const> operands, Params params,
                          const PointwiseRunner& kernel) {
  Inputs in;
  for (const Operand* x : operands) in.add(x);
  check_inputs(op, in);
  check_defined(op.name, "out", out);
  check_same_device(op.name, *in.first, "out", out);
  const DType computed = computation_dtype(op, in, params);
  const DType result = result_dtype(op, computed);
  if (!can_cast(result, out.dtype()))
    fail(op.name, ": a ", result, " result cannot be stored in an out of dtype ", out.dtype());
  bool apart = broadcast_all(op, in) == out.sizes();
  for (int i = 0; i < in.count; ++i)
    apart = apart && !(in.tensors[i] && needs_copy_before_writing(out, *in.tensors[i]));
  if (!apart) {
    Tensor y = allocate_following(op, in, {result, in.first->device()});
    launch_by(op, in, computed, params, y, kernel);
    return store_out(op.name, out, y);
  }
  check_writable(op.name, out);
  mark_changed(out, op.inplace_name);
  launch_by(op, in, computed, params, out, kernel);
}

Tensor& run_pointwise_inplace(const PointwiseOp& op, Tensor& self,
                              std::initializer_list<const Operand*> rest,
                              std::initializer_list<Scalar> numbers) {
  const Params params(numbers.begin(), numbers.size());
  const Operand first(self);
  Inputs in;
  in.add(&first);
  for (const Operand* x : rest) in.add(x);
  check_inputs(op, in);
  const DType computed = computation_dtype(op, in, params);
  const DType result = result_dtype(op, computed);
  if (!can_cast(result, self.dtype()))
    fail(op.name, "_: result type ", result, " cannot be stored in ", self.dtype());
  for (int i = 1; i < in.count; ++i)
    if (in.tensors[i] && !can_expand(in.tensors[i]->sizes(), self.sizes()))
      fail(op.name, "_: shape ", in.tensors[i]->sizes(), " does not broadcast to ", self.sizes(),
           ", which changes in place");
  launch_into(op, in, computed, params, self);
  return self;
}

Tensor& run_pointwise_out(const PointwiseOp& op, Tensor& out,
                          std::initializer_list<const Operand*> operands,
                          std::initializer_list<Scalar> numbers) {
  const Params params(numbers.begin(), numbers.size());
  Inputs in;
  for (const Operand* x : operands) in.add(x);
  check_inputs(op, in);
  Tensor mask;
  if (op.byte_mask) take_byte_mask(op, in, mask);
  check_defined(op.name, "out", out);
  check_same_device(op.name, *in.first, "out", out);
  const DType computed = computation_dtype(op, in, params);
  const DType result = result_dtype(op, computed);
  const Dims shape = broadcast_all(op, in);
  if (!can_cast(result, out.dtype()))
    fail(op.name, ": a ", result, " result cannot be stored in an out of dtype ", out.dtype());
  if (!(out.sizes() == shape)) {
    Tensor y = allocate_following(op, in, {result, in.first->device()});
    launch(op, in, computed, params, y);
    store_out(op.name, out, y);
    return out;
  }
  launch_into(op, in, computed, params, out);
  return out;
}

bool prepare_pointwise(const PointwiseOp& op, std::span<const Operand* const> operands,
                       std::span<const Scalar> params, const Tensor& out,
                       PreparedPointwise& prepared) {
  Inputs in;
  for (const Operand* x : operands) in.add(x);
  check_inputs(op, in);
  for (int i = 0; i < in.count; ++i) {
    const Tensor* x = in.tensors[i];
    const bool byte_mask = x && (op.mask_args >> i & 1u) && x->dtype() != DType::Bool;
    if (byte_mask || (x && needs_copy_before_writing(out, *x))) return false;
  }
  const DType computed = computation_dtype(op, in, params);
  if (!can_cast(result_dtype(op, computed), out.dtype()) || !(broadcast_all(op, in) == out.sizes()))
    return false;
  if (op.chooses || (op.result == PointwiseOp::Bool && computed == DType::UInt64))
    check_choices(op, in, computed, params);
  prepared.kernel = nullptr;
  if (out.numel() == 0) return true;
  fill_plan(prepared.plan, op, in, computed, params, out);
  const KernelTable& table = kernels_for(prepared.plan.device.type, op.name);
  prepared.kernel = table.pointwise_ops[op.family][op.index];
  return prepared.kernel != nullptr;
}

}  // namespace moonlet
