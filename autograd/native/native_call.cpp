// autograd/native/native_call.cpp: the forms of ops that are declared in C++, by boxed arguments:
// what autograd/forms.h writes for the ops of the table.
#include <algorithm>

#include "autograd/forms.h"
#include "autograd/native/native_record.h"
#include "tensor/core/dims.h"
#include "tensor/pointwise/run_by.h"
#include "tensor/program/shapes/shape_device.h"

namespace moonlet {

namespace {

using Arguments = std::span<const BoxedValue>;

bool is_type(const OpSchema::Argument& argument, std::string_view type) {
  return argument.type->name == type;
}

// Calls f with each tensor among boxed values that is defined.
template <class F>
void each_tensor(Arguments arguments, F&& f) {
  for (const BoxedValue& value : arguments) {
    if (const auto* x = std::get_if<Tensor>(&value); x && x->defined()) f(*x);
    if (const auto* list = std::get_if<std::vector<Tensor>>(&value))
      for (const Tensor& x : *list)
        if (x.defined()) f(x);
  }
}
template <class F>
bool any_tensor(Arguments arguments, F&& f) {
  bool out = false;
  each_tensor(arguments, [&](const Tensor& x) { out = out || f(x); });
  return out;
}

// --- arguments -----------------------------------------------------------------------------------

// The rank that dims count by: that of the first tensor.
int rank_of_first(const NativeRecord& r, Arguments arguments) {
  for (const int i : r.tensors) {
    const BoxedValue& value = arguments[static_cast<size_t>(i)];
    if (const auto* x = std::get_if<Tensor>(&value); x && x->defined()) return x->dim();
    if (const auto* list = std::get_if<std::vector<Tensor>>(&value); list && !list->empty())
      return rank_of(*list, r.name());
  }
  fail(r.name(), ": a dimension is given, and no tensor that has it");
}

void wrap(const NativeRecord& r, const OpSchema::Argument& argument, BoxedValue& value,
          Arguments arguments) {
  if (std::holds_alternative<std::monostate>(value)) return;
  const int rank = rank_of_first(r, arguments) + (is_type(argument, "NewDim") ? 1 : 0);
  // Kernels ask x.size(dim), which a tensor without dimensions cannot answer.
  if (std::holds_alternative<int64_t>(value) && rank == 0)
    fail(r.name(), ": argument '", argument.name,
         "': expected a tensor of 1 dimension or more, got 0");
  if (auto* one = std::get_if<int64_t>(&value)) *one = wrap_dim(*one, rank, r.name());
  if (auto* several = std::get_if<Dims>(&value)) *several = wrap_dims(*several, rank, r.name());
}

// The arguments as their types have them, with dims from 0.
BoxedValues prepared(const NativeRecord& r, Arguments given) {
  check(given.size() == r.arguments.size(), r.name(), ": takes ", r.arguments.size(),
        " arguments, got ", given.size());
  BoxedValues out;
  out.reserve(given.size());
  for (size_t i = 0; i < given.size(); ++i)
    out.push_back(as_type(r.name(), r.schema.arguments[i], given[i]));
  for (size_t i = 0; i < out.size(); ++i)
    if (r.schema.arguments[i].type->from_one) wrap(r, r.schema.arguments[i], out[i], out);
  return out;
}

void check_tensor(const NativeRecord& r, const OpSchema::Argument& argument, const Tensor& x,
                  const Tensor*& first, const OpSchema::Argument*& first_argument) {
  if (!x.defined()) {
    if (is_type(argument, "Tensor?")) return;
    return check_defined(r.name(), argument.name.c_str(), x);
  }
  if (!first) {
    first = &x;
    first_argument = &argument;
    return check_dtype(r.name(), argument.name.c_str(), x, r.dtypes);
  }
  if (r.mixed) return check_same_device(r.name(), *first, argument.name.c_str(), x);
  check_same_dtype(r.name(), *first, argument.name.c_str(), x);
  check_same_device(r.name(), *first, argument.name.c_str(), x);
}

// Of what kernels take for granted of their tensors. Returns the first one.
const Tensor& check_tensors(const NativeRecord& r, Arguments arguments) {
  const Tensor* first = nullptr;
  const OpSchema::Argument* first_argument = nullptr;
  for (const int at : r.tensors) {
    const auto i = static_cast<size_t>(at);
    const OpSchema::Argument& argument = r.schema.arguments[i];
    if (const auto* list = std::get_if<std::vector<Tensor>>(&arguments[i])) {
      check_list(r.name(), argument.name.c_str(), *list);
      for (const Tensor& x : *list) check_tensor(r, argument, x, first, first_argument);
    } else if (const auto* x = std::get_if<Tensor>(&arguments[i])) {
      check_tensor(r, argument, *x, first, first_argument);
    } else if (!is_type(argument, "Operand")) {
      check_tensor(r, argument, Tensor(), first, first_argument);
    }
  }
  check(first != nullptr, r.name(), ": at least one argument must be a tensor");
  return *first;
}

// --- without the tape ----------------------------------------------------------------------------

bool computes_nothing(const Tensor& x) { return x.device().type == program::shape_device().type; }

const detail::NativeKernel& kernel_for(const NativeRecord& r, DeviceType device) {
  for (const NativeRecord::Kernel& each : r.kernels)
    if (each.device == device) return each.function;
  no_kernel(device, r.name(), "its declaration names none for this device");
}

// A kernel may be made of public ops, which are its own affair.
void call_kernel(const detail::NativeKernel& kernel, Arguments arguments,
                 std::span<Tensor> results) {
  const NoModes unseen;
  const NoGrad unrecorded;
  kernel.call(arguments, results);
}

// Into `out` where it is given.
void run_pointwise_record(const NativeRecord& r, Arguments arguments, Tensor* out,
                          BoxedValues& results) {
  const auto inputs = static_cast<size_t>(r.pointwise.inputs);
  std::vector<Operand, memory::SmallBlockAllocator<Operand>> operands;
  const Operand* in[kMaxPointwiseInputs] = {};
  std::vector<Scalar, memory::SmallBlockAllocator<Scalar>> numbers;
  operands.reserve(inputs);
  numbers.reserve(arguments.size() - inputs);
  for (size_t i = 0; i < inputs; ++i) {
    if (std::holds_alternative<std::monostate>(arguments[i]))
      check_defined(r.name(), r.schema.arguments[i].name.c_str(), Tensor());
    operands.push_back(boxing::operand_in(arguments[i], static_cast<int>(i)));
    in[i] = &operands.back();
  }
  for (size_t i = inputs; i < arguments.size(); ++i)
    numbers.push_back(boxing::scalar_in(arguments[i], static_cast<int>(i)));
  const std::span<const Operand* const> all(in, inputs);
  const PointwiseRunner kernel = [&r](const PointwisePlan& plan) {
    if (plan.device.type == DeviceType::CPU) return cpu::run_loops(plan, r.pointwise.loops);
    if (plan.device.type == program::shape_device().type) return;
    for (const NativeRecord::Launch& each : r.launches)
      if (each.device == plan.device.type) return each.run(plan);
    no_kernel(plan.device.type, r.name(), "its declaration names none for this device");
  };
  if (out)
    run_pointwise_out_by(r.pointwise_op, *out, all, numbers, kernel);
  else
    results.emplace_back(run_pointwise_by(r.pointwise_op, all, numbers, kernel));
}

// What the results look like.
std::vector<shapes::Result> results_like(const NativeRecord& r, Arguments arguments,
                                         const Tensor& first) {
  std::vector<shapes::Result> like =
      r.shape.call ? r.shape.call(arguments) : std::vector{shapes::like(first)};
  check(like.size() == r.schema.results.size(), r.name(), ": its shape function gives ",
        like.size(), " results, the schema has ", r.schema.results.size());
  for (const shapes::Result& each : like)
    check(each.options.device == first.device(), r.name(), ": its shape function says ",
          each.options.device, " for a result, its tensors are on ", first.device());
  return like;
}

void run_kernel(const NativeRecord& r, Arguments arguments, BoxedValues& results) {
  const Tensor& first = check_tensors(r, arguments);
  const std::vector<shapes::Result> like = results_like(r, arguments, first);
  const bool nothing = computes_nothing(first);
  const detail::NativeKernel* kernel = nothing ? nullptr : &kernel_for(r, first.device().type);
  std::vector<Tensor> made;
  for (const shapes::Result& each : like) made.push_back(allocate(each, r.name()));
  if (kernel) call_kernel(*kernel, arguments, made);
  for (Tensor& y : made) results.emplace_back(std::move(y));
}

// The same into given tensors, where these are what the results look like and no argument.
void run_kernel_out(const NativeRecord& r, std::span<Tensor> outs, Arguments arguments) {
  const Tensor& first = check_tensors(r, arguments);
  const std::vector<shapes::Result> like = results_like(r, arguments, first);
  const bool nothing = computes_nothing(first);
  const detail::NativeKernel* kernel = nothing ? nullptr : &kernel_for(r, first.device().type);
  std::vector<Tensor> inputs, made;
  each_tensor(arguments, [&](const Tensor& x) { inputs.push_back(x); });
  for (size_t i = 0; i < outs.size(); ++i) {
    for (size_t k = 0; k < i; ++k) check_apart(r.name(), {&outs[k], &outs[i]});
    check_out(r.name(), outs[i], like[i]);
  }
  for (size_t i = 0; i < outs.size(); ++i)
    made.push_back(out_or_new(r.name(), outs[i], like[i], {}, inputs));
  if (kernel) call_kernel(*kernel, arguments, made);
  for (size_t i = 0; i < outs.size(); ++i) store_out(r.name(), outs[i], made[i]);
}

void run_raw_out(const NativeRecord& r, std::span<Tensor> outs, Arguments arguments) {
  BoxedValues unused;
  if (r.kind == OpKind::Pointwise)
    run_pointwise_record(r, arguments, &outs[0], unused);
  else
    run_kernel_out(r, outs, arguments);
}

// An op with a derivative that is made of others, seen from outside.
void run_whole_body(const NativeRecord& r, Arguments arguments, BoxedValues& results) {
  check_tensors(r, arguments);
  const NoModes unseen;
  const NoGrad unrecorded;
  const size_t before = results.size();
  r.body.call(arguments, results);
  // A result has a history of its own, so it is no argument and no view of one.
  for (size_t i = before; i < results.size(); ++i) {
    auto& y = std::get<Tensor>(results[i]);
    if (any_tensor(arguments, [&](const Tensor& x) { return &x.storage() == &y.storage(); }))
      y = clone_plain(y);
  }
}

// Changes the first argument. What the kernel reads of the same memory is copied.
void run_update(const NativeRecord& r, Arguments arguments) {
  check_tensors(r, arguments);
  const Tensor& x = std::get<Tensor>(arguments[0]);
  if (r.shape.call) r.shape.call(arguments);
  check_writable(r.name(), x);
  mark_changed(x, r.inplace_name.c_str());
  if (computes_nothing(x)) return;
  BoxedValues own(arguments.begin(), arguments.end());
  for (size_t i = 1; i < own.size(); ++i) {
    Tensor copy;
    std::vector<Tensor> copies;
    if (auto* y = std::get_if<Tensor>(&own[i])) own[i] = Tensor(unshared(*y, copy, {&x}));
    if (auto* list = std::get_if<std::vector<Tensor>>(&own[i]))
      own[i] = std::vector<Tensor>(unshared(*list, copies, {&x}));
  }
  call_kernel(kernel_for(r, x.device().type), own, {});
}

void run_raw(const NativeRecord& r, Arguments arguments, BoxedValues& results) {
  if (r.is_update()) {
    check_tensors(r, arguments);
    BoxedValues own(arguments.begin(), arguments.end());
    own[0] = clone_plain(std::get<Tensor>(arguments[0]));
    run_update(r, own);
    results.push_back(own[0]);
  } else if (r.body.call) {
    run_whole_body(r, arguments, results);
  } else if (r.kind == OpKind::Pointwise) {
    run_pointwise_record(r, arguments, nullptr, results);
  } else {
    run_kernel(r, arguments, results);
  }
}

// As forms::run: vmap, functions that run by parts, and captures.
template <class Below>
void run_observed(const OpInfo& op, const BoxedValues& arguments, BoxedValues& results,
                  Below&& below) {
  if (any_below_tape()) [[unlikely]] {
    if (any_tensor(arguments, [](const Tensor& x) { return is_batched(x); })) {
      BoxedValues in = arguments;
      return run_batched(op, in, results);
    }
    if (program::meets_deferral(op)) {
      program::DeferredCall call(op, arguments);
      if (call.is_put_off()) {
        results = call.results();
        return;
      }
      below(results);
      return call.finish(results);
    }
    if (program::meets_capture(op)) {
      program::CapturedCall call(op, arguments);
      below(results);
      return call.finish(results);
    }
  }
  below(results);
}

// --- the tape ------------------------------------------------------------------------------------

// The tensor arguments of a call as the tape takes them.
class Inputs {
 public:
  Inputs(const NativeRecord& r, Arguments arguments) {
    operands_.reserve(r.tensors.size());
    for (const int at : r.tensors) {
      const BoxedValue& value = arguments[static_cast<size_t>(at)];
      static const Tensor kNone;
      if (const auto* x = std::get_if<Tensor>(&value)) {
        all_.emplace_back(*x);
      } else if (const auto* list = std::get_if<std::vector<Tensor>>(&value)) {
        all_.emplace_back(*list);
      } else if (std::holds_alternative<std::monostate>(value)) {
        all_.emplace_back(kNone);
      } else {
        operands_.push_back(boxing::operand_in(value, at));
        all_.emplace_back(operands_.back());
      }
    }
  }
  std::span<const RecordedInput> all() const { return all_; }
  bool require_grad(uint32_t slots) const {
    for (size_t i = 0; i < all_.size(); ++i)
      if (slots >> i & 1u)
        for (const Tensor& x : all_[i].tensors())
          if (requires_grad(x)) return true;
    return false;
  }

 private:
  std::vector<Operand> operands_;
  std::vector<RecordedInput> all_;
};

void call_plain(const NativeRecord& r, Arguments given, BoxedValues& results) {
  BoxedValues arguments = prepared(r, given);
  if (intercepted()) [[unlikely]]
    return intercept(r.plain_op, arguments, results);
  if (r.is_composite()) return r.body.call(arguments, results);
  BoxedValues made;
  run_observed(r.plain_op, arguments, made,
               [&](BoxedValues& into) { run_raw(r, arguments, into); });
  if (r.has_gradient() && grad_enabled()) {
    const Inputs inputs(r, arguments);
    if (inputs.require_grad(r.formula.differentiable)) {
      std::vector<const Tensor*> addresses;
      for (const BoxedValue& y : made) addresses.push_back(&std::get<Tensor>(y));
      record_results(new NativeNode(r, arguments), inputs.all(), addresses);
    }
  }
  results.insert(results.end(), std::make_move_iterator(made.begin()),
                 std::make_move_iterator(made.end()));
}

// Of an op that writes to its first argument.
void update_in_place(const NativeRecord& r, const BoxedValues& arguments, const Tensor& x) {
  const OpInfo& op = r.inplace_op;
  BoxedValues unused;
  const auto change = [&] {
    run_observed(op, arguments, unused, [&](BoxedValues& into) {
      run_update(r, arguments);
      into.emplace_back(x);
    });
  };
  if (!r.has_gradient()) {
    check_inplace_without_derivative(x, op.name);
    return change();
  }
  const Inputs inputs(r, arguments);
  const bool recorded = grad_enabled() && inputs.require_grad(r.formula.differentiable) &&
                        is_differentiable(x.dtype());
  if (!recorded) {
    check_unrecorded(x, op.name);
    return change();
  }
  InplaceRecording recording(new NativeNode(r, arguments), op.name, x, inputs.all());
  change();
  recording.finish(x);
}

void call_inplace(const NativeRecord& r, Arguments given, BoxedValues& results) {
  BoxedValues arguments = prepared(r, given);
  if (intercepted()) [[unlikely]]
    return intercept(r.inplace_op, arguments, results);
  Tensor x = boxing::tensor_in(arguments[0], 0);
  check_defined(r.inplace_op.name, r.schema.arguments[0].name.c_str(), x);
  if (r.is_update()) {
    update_in_place(r, arguments, x);
  } else {
    arguments[0] = before_change(x);
    BoxedValues made;
    call_plain(r, arguments, made);
    assign_(x, std::get<Tensor>(made[0]), r.inplace_op.name);
  }
  results.emplace_back(std::move(x));
}

// As forms::out and forms::stored.
template <class Write>
void write_out(const OpInfo& op, const BoxedValues& all, const std::vector<Tensor>& targets,
               Write&& write) {
  if (!any_below_tape() || !program::meets_capture(op)) return write();
  program::CapturedCall call(op, all);
  write();
  call.finish(BoxedValues(targets.begin(), targets.end()));
}
void store_results(const NativeRecord& r, Arguments arguments, std::vector<Tensor>& targets) {
  BoxedValues made;
  if (r.is_composite())
    r.body.call(arguments, made);
  else
    run_raw(r, arguments, made);
  program::note_stored(r.out_op);
  for (size_t i = 0; i < targets.size(); ++i)
    store_out(r.name(), targets[i], std::get<Tensor>(made[i]));
}

void call_out(const NativeRecord& r, Arguments given, BoxedValues& results) {
  const OpInfo& op = r.out_op;
  const size_t outs = r.schema.results.size();
  check(given.size() == outs + r.arguments.size(), op.name, ": takes ", outs + r.arguments.size(),
        " arguments, got ", given.size());
  BoxedValues arguments = prepared(r, given.subspan(outs));
  std::vector<Tensor> targets;
  for (size_t i = 0; i < outs; ++i) {
    targets.push_back(boxing::tensor_in(given[i], static_cast<int>(i)));
    check_defined(op.name, "out", targets.back());
  }
  BoxedValues all(targets.begin(), targets.end());
  all.insert(all.end(), arguments.begin(), arguments.end());
  if (intercepted()) [[unlikely]]
    return intercept(op, all, results);
  if (grad_enabled() && any_tensor(all, [](const Tensor& x) { return x.requires_grad(); }))
    fail_out_gradient(r.name());
  if (any_batch_level() && any_tensor(all, [](const Tensor& x) { return is_batched(x); }))
    fail_out_in_vmap(r.name());
  program::end_part(op);
  if (r.has_raw_out())
    write_out(op, all, targets, [&] { run_raw_out(r, targets, arguments); });
  else
    store_results(r, arguments, targets);
  results.insert(results.end(), targets.begin(), targets.end());
}

}  // namespace

void detail::call_native(const NativeRecord& r, NativeEntry entry, Arguments given,
                         BoxedValues& results) {
  switch (entry) {
    case NativeEntry::Plain: return call_plain(r, given, results);
    case NativeEntry::InPlace: return call_inplace(r, given, results);
    case NativeEntry::Out: return call_out(r, given, results);
    case NativeEntry::Body: return r.body.call(prepared(r, given), results);
    case NativeEntry::Raw: return run_raw(r, given, results);
    case NativeEntry::RawInPlace:
      run_update(r, given);
      results.push_back(given[0]);
      return;
    case NativeEntry::RawOut: {
      const size_t count = r.schema.results.size();
      std::vector<Tensor> outs;
      for (size_t i = 0; i < count; ++i) outs.push_back(std::get<Tensor>(given[i]));
      run_raw_out(r, outs, given.subspan(count));
      if (count == 1) results.push_back(given[0]);
    }
  }
}

}  // namespace moonlet
