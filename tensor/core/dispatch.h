// tensor/core/dispatch.h: from an op and a device to the kernel, and the checks that every
// generated op makes before it calls one.
#pragma once

#include <vector>

#include "tensor/core/operand.h"
#include "tensor/core/tensor.h"
#include "tensor/kernels.h"
#include "tensor/shapes/result.h"

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
// Throw when a complex number is given for a real dtype.
void check_number(const char* op, const char* arg, const std::optional<Scalar>& value, DType dtype);
void check_defined(const char* op, const char* arg, const Tensor& x);
// Throw unless x may be written and every element has its own position in memory. An undefined x
// passes; `arg` is the argument's name where it is not the tensor the op is called on.
void check_writable(const char* op, const Tensor& x);
void check_writable(const char* op, const char* arg, const Tensor& x);
// Throw when two of the tensors that one op writes share memory; undefined ones do not.
void check_apart(const char* op, std::initializer_list<const Tensor*> written);
// `x`, or a copy of it, made in `copy`, where it shares memory with what an op is about to write.
const Tensor& unshared(const Tensor& x, Tensor& copy, std::initializer_list<const Tensor*> written);
const std::vector<Tensor>& unshared(const std::vector<Tensor>& list, std::vector<Tensor>& copy,
                                    std::initializer_list<const Tensor*> written);
// The same of what a kernel looks at more than once, as to check a position and then to use it, or
// to count and then to write: a copy also where others may write to it meanwhile.
const Tensor& steady(const Tensor& x, Tensor& copy,
                     std::initializer_list<const Tensor*> written = {});
const std::vector<Tensor>& steady(const std::vector<Tensor>& list, std::vector<Tensor>& copy,
                                  std::initializer_list<const Tensor*> written = {});
// Throw when the list is empty or holds an undefined tensor.
void check_list(const char* op, const char* arg, const std::vector<Tensor>& list);
// The rank of the list's first tensor that is not an empty one of one dimension: these join with
// tensors of any shape.
int rank_of(const std::vector<Tensor>& list, const char* op);

// Notes an in-place change: the version counter rises and the op is kept for error messages.
// An undefined x has no storage to note it in.
void mark_changed(const Tensor& x, const char* op);
// Throw unless a result that looks like that can be stored in `out`.
void check_out(const char* op, const Tensor& out, const shapes::Result& like);
// `out` itself where a kernel may write that result straight into it, else a new tensor. The inputs
// are `inputs` and `list`.
Tensor out_or_new(const char* op, const Tensor& out, const shapes::Result& like,
                  std::initializer_list<const Tensor*> inputs,
                  const std::vector<Tensor>& list = {});
// The end of an out= form: checks shapes (an empty `out` takes y's shape), copies if `y` is not
// `out` already.
void store_out(const char* op, Tensor& out, const Tensor& y);
// A dense copy in the order of x's strides, made by the device's copy kernel, without the tape.
Tensor clone_plain(const Tensor& x);
// x itself, or a copy on the CPU of one that is elsewhere, without the tape.
Tensor on_host(const Tensor& x);

}  // namespace moonlet
