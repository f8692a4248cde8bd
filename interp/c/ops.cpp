// interp/c/ops.cpp: ops by name, gradients, and what holds for all ops that a thread calls.
#include <algorithm>

#include "autograd/autocast.h"
#include "autograd/tape.h"
#include "interp/c/callbacks.h"
#include "interp/c/op_arguments.h"
#include "tensor/runtime/random_generator.h"
#include "tensor/runtime/threads.h"

using namespace moonlet::c;
using moonlet::BoxedValue;
using moonlet::BoxedValues;
using moonlet::OpInfo;
using moonlet::Tensor;

namespace {

// Those that scripts can call by name.
const std::vector<const OpInfo*>& all_ops_once() {
  static const std::vector<const OpInfo*> ops = [] {
    std::vector<const OpInfo*> all = moonlet::all_ops();
    std::erase_if(all, [](const OpInfo* op) { return op->row->internal; });
    return all;
  }();
  return ops;
}

const OpInfo& op_in(moonlet_op op, const char* function) {
  if (op == nullptr) refuse(function, ": 'op': expected an op, got null");
  return *reinterpret_cast<const OpInfo*>(op);
}

int position_of(const OpInfo& op, const char* name) {
  const int count = argument_count(op);
  for (int i = 0; i < count; ++i)
    if (std::string_view(argument_at(op, i).name) == name) return i;
  refuse(op.name, ": there is no argument '", name, "' in ", op.row->schema);
}

// For a call: a few, which come and go with it.
template <class T>
using Few = std::vector<T, moonlet::memory::SmallBlockAllocator<T>>;

// The arguments in the order of the schema, null where none was given.
Few<const moonlet_value*> order(const OpInfo& op, const moonlet_value* arguments,
                                const char* const* names, size_t count) {
  const auto most = static_cast<size_t>(argument_count(op));
  Few<const moonlet_value*> out(most);
  for (size_t i = 0; i < count; ++i) {
    const bool named = names != nullptr && names[i] != nullptr;
    if (!named && i >= most)
      refuse(op.name, ": expected at most ", most, " arguments, got ", count);
    const size_t at = named ? static_cast<size_t>(position_of(op, names[i])) : i;
    if (out[at] != nullptr)
      refuse(op.name, ": argument '", argument_at(op, static_cast<int>(at)).name,
             "' was given twice");
    out[at] = &arguments[i];
  }
  return out;
}

// The results as values of their own.
void put_result(const BoxedValue& result, Few<moonlet_value>& to) {
  moonlet_value& value = to.emplace_back();  // which frees nothing when the rest fails
  if (const auto* tensor = std::get_if<Tensor>(&result)) {
    value.as.tensor = handle_of(*tensor);
    value.kind = value.as.tensor != nullptr ? MOONLET_TENSOR : MOONLET_NIL;
  } else if (const auto* scalar = std::get_if<moonlet::Scalar>(&result)) {
    put_scalar(*scalar, value);
  } else if (const auto* integer = std::get_if<int64_t>(&result)) {
    put_scalar(*integer, value);
  } else if (const auto* number = std::get_if<double>(&result)) {
    put_scalar(*number, value);
  } else if (const auto* boolean = std::get_if<bool>(&result)) {
    put_scalar(*boolean, value);
  }
}

void give_op_results(const BoxedValues& results, moonlet_value* to, size_t capacity,
                     size_t* count) {
  size_t all = 0;
  Few<moonlet_value> out;
  const auto take = [&](const BoxedValue& result) {
    if (all++ < (to == nullptr ? 0 : capacity)) put_result(result, out);
  };
  try {
    for (const BoxedValue& result : results) {
      if (const auto* list = std::get_if<std::vector<Tensor>>(&result))
        std::for_each(list->begin(), list->end(), take);
      else
        take(result);
    }
  } catch (...) {
    for (moonlet_value& value : out) free_value(value);
    throw;
  }
  std::copy(out.begin(), out.end(), to);
  if (count != nullptr) *count = all;
}

void call(const OpInfo& op, const moonlet_value* arguments, const char* const* names, size_t count,
          moonlet_value* results, size_t capacity, size_t* result_count) {
  if (arguments == nullptr && count > 0) refuse_null(op.name, "arguments");
  const Few<const moonlet_value*> given = order(op, arguments, names, count);
  BoxedValues boxes;
  boxes.reserve(given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    const OpArgument argument = argument_at(op, static_cast<int>(i));
    const bool absent = given[i] == nullptr || given[i]->kind == MOONLET_NIL;
    boxes.push_back(absent ? default_of(op, argument) : boxed(*given[i], op, argument));
  }
  give_op_results(moonlet::call_op(op, boxes), results, capacity, result_count);
}

std::vector<Tensor> tensors_in(const moonlet_tensor* handles, size_t count, const char* function,
                               const char* argument, bool may_miss = false) {
  if (handles == nullptr && count > 0) refuse_null(function, argument);
  std::vector<Tensor> out(count);
  for (size_t i = 0; i < count; ++i)
    if (!may_miss || handles[i] != nullptr) out[i] = *TensorIn(handles[i], function, argument);
  return out;
}

}  // namespace

// --- ops -----------------------------------------------------------------------------------------

moonlet_status moonlet_op_find(const char* name, moonlet_op* op) {
  const char* function = __func__;
  return guarded([&] {
    const std::string_view wanted = text_in(name, function, "name");
    const OpInfo* found = moonlet::find_op(wanted);
    if (found == nullptr || found->row->internal)
      moonlet::fail(function, ": there is no op '", wanted, "'");
    give(&not_null(op, function, "op"), reinterpret_cast<moonlet_op>(found));
  });
}

moonlet_status moonlet_op_count(size_t* count) {
  return guarded([&] { give(count, all_ops_once().size()); });
}

moonlet_status moonlet_op_at(size_t position, moonlet_op* op) {
  const char* function = __func__;
  return guarded([&] {
    const auto& ops = all_ops_once();
    if (position >= ops.size())
      refuse(function, ": 'position': expected less than ", ops.size(), ", got ", position);
    give(op, reinterpret_cast<moonlet_op>(ops[position]));
  });
}

moonlet_status moonlet_op_name(moonlet_op op, const char** name) {
  const char* function = __func__;
  return guarded([&] { give(name, op_in(op, function).name); });
}

moonlet_status moonlet_op_schema(moonlet_op op, const char** schema) {
  const char* function = __func__;
  return guarded([&] { give(schema, op_in(op, function).row->schema); });
}

moonlet_status moonlet_op_call(moonlet_op op, const moonlet_value* arguments, size_t argument_count,
                               moonlet_value* results, size_t capacity, size_t* count) {
  const char* function = __func__;
  return guarded([&] {
    call(op_in(op, function), arguments, nullptr, argument_count, results, capacity, count);
  });
}

moonlet_status moonlet_op_call_named(moonlet_op op, const moonlet_value* arguments,
                                     const char* const* names, size_t argument_count,
                                     moonlet_value* results, size_t capacity, size_t* count) {
  const char* function = __func__;
  return guarded([&] {
    call(op_in(op, function), arguments, names, argument_count, results, capacity, count);
  });
}

// --- gradients -----------------------------------------------------------------------------------

moonlet_status moonlet_tensor_set_requires_grad(moonlet_tensor tensor, int32_t on) {
  const char* function = __func__;
  return guarded(
      [&] { moonlet::set_requires_grad(*TensorIn(tensor, function, "tensor"), on != 0); });
}

moonlet_status moonlet_tensor_detach(moonlet_tensor tensor, moonlet_tensor* result) {
  const char* function = __func__;
  return guarded([&] { give(result, moonlet::detach(*TensorIn(tensor, function, "tensor"))); });
}

moonlet_status moonlet_tensor_grad(moonlet_tensor tensor, moonlet_tensor* grad) {
  const char* function = __func__;
  return guarded([&] { give(grad, moonlet::grad_of(*TensorIn(tensor, function, "tensor"))); });
}

moonlet_status moonlet_tensor_set_grad(moonlet_tensor tensor, moonlet_tensor grad) {
  const char* function = __func__;
  return guarded([&] {
    TensorIn x(tensor, function, "tensor");
    moonlet::set_grad(*x, grad == nullptr ? Tensor() : *TensorIn(grad, function, "grad"));
  });
}

moonlet_status moonlet_backward(const moonlet_tensor* outputs, const moonlet_tensor* gradients,
                                size_t count, int32_t flags) {
  const char* function = __func__;
  return guarded([&] {
    const std::vector<Tensor> of = tensors_in(outputs, count, function, "outputs");
    std::vector<Tensor> given;
    if (gradients != nullptr) given = tensors_in(gradients, count, function, "gradients", true);
    moonlet::backward(of, given, (flags & MOONLET_RETAIN_GRAPH) != 0,
                      (flags & MOONLET_CREATE_GRAPH) != 0);
  });
}

moonlet_status moonlet_gradients(const moonlet_tensor* outputs, const moonlet_tensor* gradients,
                                 size_t output_count, const moonlet_tensor* inputs,
                                 size_t input_count, int32_t flags, moonlet_tensor* results) {
  const char* function = __func__;
  return guarded([&] {
    const std::vector<Tensor> of = tensors_in(outputs, output_count, function, "outputs");
    const std::vector<Tensor> with = tensors_in(inputs, input_count, function, "inputs");
    std::vector<Tensor> given;
    if (gradients != nullptr)
      given = tensors_in(gradients, output_count, function, "gradients", true);
    not_null(results, function, "results");
    const std::vector<Tensor> found =
        moonlet::grad(of, with, given, (flags & MOONLET_RETAIN_GRAPH) != 0,
                      (flags & MOONLET_CREATE_GRAPH) != 0, (flags & MOONLET_ALLOW_UNUSED) != 0);
    give_all(found, results);
  });
}

moonlet_status moonlet_set_grad_enabled(int32_t on, int32_t* before) {
  return guarded([&] {
    give(before, moonlet::grad_enabled() ? 1 : 0);
    moonlet::set_grad_enabled(on != 0);
  });
}

namespace {

struct KeptHook {
  moonlet::HookHandle handle;
};

moonlet::Hook hook_of(moonlet_gradient_hook hook, std::shared_ptr<User> user) {
  return [hook, user = std::move(user)](const Tensor& grad) {
    const moonlet_tensor given = handle_of(grad);
    moonlet_tensor replacement = nullptr;
    const auto free = [&](moonlet_tensor handle) {
      if (handle != nullptr) static_cast<void>(moonlet_tensor_free(handle));
    };
    Tensor result;
    try {
      ask_host([&] { return hook(user->data, given, &replacement); });
      if (replacement != nullptr)
        result = *TensorIn(replacement, "a hook of gradients", "replacement");
    } catch (...) {
      free(given);
      if (replacement != given) free(replacement);
      throw;
    }
    free(given);
    if (replacement != given) free(replacement);
    return result;
  };
}

}  // namespace

moonlet_status moonlet_tensor_register_hook(moonlet_tensor tensor, moonlet_gradient_hook hook,
                                            void* user, void (*free_user)(void* user),
                                            moonlet_hook* handle) {
  const char* function = __func__;
  return guarded([&] {
    auto kept_user = std::make_shared<User>(user, free_user);
    not_null(hook, function, "hook");
    TensorIn x(tensor, function, "tensor");
    auto kept = std::make_unique<KeptHook>();
    moonlet_hook made = nullptr;
    if (handle != nullptr)
      made = static_cast<moonlet_hook>(new_handle(HandleKind::Hook, kept.get()));
    try {
      kept->handle = moonlet::register_hook(*x, hook_of(hook, std::move(kept_user)));
    } catch (...) {
      release_handle(made, HandleKind::Hook);
      throw;
    }
    if (handle == nullptr) return;
    *handle = made;
    static_cast<void>(kept.release());
  });
}

moonlet_status moonlet_hook_free(moonlet_hook handle, int32_t keep) {
  const char* function = __func__;
  return guarded([&] {
    std::unique_ptr<KeptHook> kept(
        static_cast<KeptHook*>(release_handle(handle, HandleKind::Hook)));
    if (kept == nullptr) refuse_handle(function, "handle", handle, HandleKind::Hook);
    if (keep == 0) kept->handle.remove();
  });
}

moonlet_status moonlet_under_autocast(const char* device, int32_t dtype,
                                      moonlet_status (*body)(void* user), void* user) {
  const char* function = __func__;
  return guarded([&] {
    not_null(body, function, "body");
    moonlet::Autocast autocast(device_in(device).type, dtype_in(dtype, function), true);
    const moonlet::ModeScope scope(autocast);
    ask_host([&] { return body(user); });
  });
}

// --- settings ------------------------------------------------------------------------------------

moonlet_status moonlet_num_threads(int32_t* count) {
  return guarded([&] { give(count, moonlet::num_threads()); });
}

moonlet_status moonlet_set_num_threads(int32_t count) {
  return guarded([&] { moonlet::set_num_threads(count); });
}

moonlet_status moonlet_manual_seed(uint64_t seed) {
  return guarded([&] { moonlet::default_generator().manual_seed(seed); });
}
