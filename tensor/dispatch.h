// tensor/dispatch.h: from an op and a device to the kernel, and the checks that every generated
// op makes before it calls one.
#pragma once

#include <vector>

#include "tensor/kernels.h"
#include "tensor/operand.h"
#include "tensor/tensor.h"

namespace moonlet {

// The kernels of a kind of device; null until its backend has registered them.
const KernelTable* kernel_table(DeviceType type);
void register_kernels(DeviceType type, const KernelTable* table);
// The same for one op: throws naming the op when the device has no backend.
const KernelTable& kernels_for(DeviceType type, const char* op);
// Throws that `op` has no kernel on that kind of device and why.
[[noreturn]] void no_kernel(DeviceType type, const char* op, const char* reason);

// Throw unless the dtype of `x` is in `set`; `arg` is the argument's name.
void check_dtype(const char* op, const char* arg, const Tensor& x, DTypeSet set);
// Throw unless `y` has x's device / dtype; both are named.
void check_same_device(const char* op, const Tensor& x, const char* arg, const Tensor& y);
void check_same_dtype(const char* op, const Tensor& x, const char* arg, const Tensor& y);
void check_defined(const char* op, const char* arg, const Tensor& x);
// Throw unless every element of x has its own place in memory, so that writing makes sense.
void check_writable(const char* op, const Tensor& x);
// Throw when the list is empty or holds an undefined tensor.
void check_list(const char* op, const char* arg, const std::vector<Tensor>& list);
// The rank of the first tensor of the list.
int rank_of(const std::vector<Tensor>& list, const char* op);

// Notes an in-place change: the version counter rises and the op is kept for error messages.
void mark_changed(Tensor& x, const char* op);
// Whether a kernel may write its result `y` straight into `out`: same dtype, shape and device,
// contiguous, and no memory shared with the inputs.
bool can_write_into(const Tensor& out, const Tensor& y,
                    std::initializer_list<const Tensor*> inputs);
// The end of an out= form: checks shapes (an empty `out` takes y's shape), copies if `y` is not
// `out` already.
void store_out(const char* op, Tensor& out, const Tensor& y);
// A dense copy in the order of x's strides, made by the device's copy kernel, without the tape.
Tensor clone_plain(const Tensor& x);

}  // namespace moonlet
