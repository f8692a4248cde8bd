// tensor/core/dispatch.cpp: the kernel tables of each kind of device and the checks before a
// kernel.
#include "tensor/core/dispatch.h"

#include <atomic>

#include "tensor/core/left_out.h"
#include "tensor/core/memory_overlap.h"
#include "tensor/core/plain_copy.h"
#include "tensor/kernels_copy.h"
#include "tensor/memory/budget.h"
#include "tensor/runtime/backend.h"
#include "tensor/runtime/batched.h"
#include "tensor/runtime/execution.h"

namespace moonlet {

namespace {
std::atomic<const KernelTable*> tables[kMaxDeviceTypes] = {&cpu_kernels};
}  // namespace

const KernelTable* kernel_table(DeviceType type) {
  return tables[static_cast<int>(type)].load(std::memory_order_acquire);
}

void register_kernels(DeviceType type, const KernelTable* table) {
  tables[static_cast<int>(type)].store(table, std::memory_order_release);
}

namespace {
// Apart, so that the path of a call saves no registers for them.
[[noreturn, gnu::noinline]] void fail_without_kernels(DeviceType type, const char* op) {
  if (opened_backend(type)) fail_forked(type, op);
  fail(op, ": the ", title_of(type), " backend is not loaded");
}
[[noreturn, gnu::noinline]] void fail_batched(const char* op) {
  fail(op,
       ": the elements of a tensor inside vmap cannot be read one by one, nor after its vmap has "
       "ended");
}
}  // namespace

const KernelTable& kernels_for(DeviceType type, const char* op) {
  if (type == DeviceType::Batched) [[unlikely]]
    fail_batched(op);
  const KernelTable* table = kernel_table(type);
  if (!table) [[unlikely]]
    fail_without_kernels(type, op);
  return *table;
}

void op_left_out(const char* op) {
  fail(op, ": this build has no such op; add '", op,
       "' to the file of its option ops (-Dops=FILE)");
}

void no_kernel(DeviceType type, const char* op, const char* reason) {
  fail(op, ": there is no ", title_of(type), " kernel: ", reason);
}

void check_dtype(const char* op, const char* arg, const Tensor& x, DTypeSet set) {
  if (contains(set, x.dtype())) [[likely]]
    return;
  fail(op, ": ", arg, " has dtype ", x.dtype(), "; it takes ", names(set));
}

void check_same_device(const char* op, const Tensor& x, const char* arg, const Tensor& y) {
  if (x.device() == y.device()) [[likely]]
    return;
  fail(op, ": ", arg, " is on ", y.device(), " and the other input on ", x.device(),
       "; move one with :to(device)");
}

void check_same_dtype(const char* op, const Tensor& x, const char* arg, const Tensor& y) {
  if (x.dtype() == y.dtype()) [[likely]]
    return;
  fail(op, ": ", arg, " has dtype ", y.dtype(), " and the other input ", x.dtype(),
       "; they must be the same");
}

void check_number(const char* op, const char* arg, const std::optional<Scalar>& value,
                  DType dtype) {
  if (!value || !value->is_complex() || is_complex(dtype)) return;
  fail(op, ": ", arg, " is the complex number ", *value, ", but dtype ", dtype, " is real");
}

void check_defined(const char* op, const char* arg, const Tensor& x) {
  if (!x.defined()) fail(op, ": ", arg, " is missing: a tensor is expected");
}

namespace {
void refuse_read_only(const char* op, const char* what) {
  fail(op, ": the storage of ", what, " is read-only; clone it to get memory that can be written");
}

void check_inference(const char* op, const char* what) {
  if (execution.inference_mode) return;
  fail(op, ": ", what,
       " was made in inference mode, outside of which it cannot be changed in place; clone it "
       "first");
}
}  // namespace

void check_writable(const char* op, const Tensor& x) {
  if (x.storage().is_read_only()) [[unlikely]]
    refuse_read_only(op, "this tensor");
  if (x.storage().is_inference()) [[unlikely]]
    check_inference(op, "this tensor");
  if (!overlaps_itself(x)) [[likely]]
    return;
  fail(op,
       ": several elements of this expanded or overlapping tensor share one position in memory; "
       "clone it before changing it in place");
}

void check_writable(const char* op, const char* arg, const Tensor& x) {
  if (!x.defined()) return;
  if (x.storage().is_read_only()) [[unlikely]]
    refuse_read_only(op, arg);
  if (x.storage().is_inference()) [[unlikely]]
    check_inference(op, arg);
  if (!overlaps_itself(x)) [[likely]]
    return;
  fail(op, ": several elements of ", arg,
       ", which is expanded or overlapping, share one position in memory; clone it before it is "
       "written to");
}

void check_apart(const char* op, std::initializer_list<const Tensor*> written) {
  for (auto a = written.begin(); a != written.end(); ++a) {
    for (auto b = written.begin(); b != a; ++b) {
      check(!(*a)->defined() || !(*b)->defined() || !overlap(**a, **b), op,
            ": two of the tensors that it writes to share memory");
    }
  }
}

const Tensor& unshared(const Tensor& x, Tensor& copy,
                       std::initializer_list<const Tensor*> written) {
  if (!x.defined()) return x;
  for (const Tensor* y : written)
    if (y->defined() && may_overlap(x, *y)) return copy = clone_plain(x);
  return x;
}

const Tensor& steady(const Tensor& x, Tensor& copy, std::initializer_list<const Tensor*> written) {
  if (x.defined() && x.storage().has_other_writers()) [[unlikely]]
    return copy = clone_plain(x);
  return unshared(x, copy, written);
}

namespace {
// The list, or what `each` makes of its tensors in `copy` where it makes anything of one.
template <class Each>
const std::vector<Tensor>& replaced(const std::vector<Tensor>& list, std::vector<Tensor>& copy,
                                    std::initializer_list<const Tensor*> written,
                                    const Each& each) {
  for (size_t i = 0; i < list.size(); ++i) {
    Tensor own;
    if (each(list[i], own, written).is_same(list[i])) continue;
    if (copy.empty()) copy = list;
    copy[i] = own;
  }
  return copy.empty() ? list : copy;
}
using Replacement = const Tensor& (*)(const Tensor&, Tensor&, std::initializer_list<const Tensor*>);
}  // namespace

const std::vector<Tensor>& unshared(const std::vector<Tensor>& list, std::vector<Tensor>& copy,
                                    std::initializer_list<const Tensor*> written) {
  return replaced(list, copy, written, Replacement{unshared});
}

const std::vector<Tensor>& steady(const std::vector<Tensor>& list, std::vector<Tensor>& copy,
                                  std::initializer_list<const Tensor*> written) {
  return replaced(list, copy, written, Replacement{steady});
}

void check_list(const char* op, const char* arg, const std::vector<Tensor>& list) {
  if (list.empty()) fail(op, ": ", arg, " is an empty list: at least one tensor is expected");
  for (size_t i = 0; i < list.size(); ++i)
    if (!list[i].defined()) fail(op, ": ", arg, "[", i + 1, "] is not a tensor");
}

int rank_of(const std::vector<Tensor>& list, const char* op) {
  check_list(op, "the first argument", list);
  for (const Tensor& x : list)
    if (x.dim() != 1 || x.numel() != 0) return x.dim();
  return 1;
}

void mark_changed(const Tensor& x, const char* op) {
  if (!x.defined()) return;
  x.storage().bump_version();
  x.storage().set_last_writer(op);
}

void check_out(const char* op, const Tensor& out, const shapes::Result& like) {
  check_defined(op, "out", out);
  check(out.device() == like.options.device, op, ": out is on ", out.device(), ", the result on ",
        like.options.device);
  check(can_cast(like.options.dtype, out.dtype()), op, ": a ", like.options.dtype,
        " result cannot be stored in an out of dtype ", out.dtype());
  check(out.sizes() == like.sizes || out.numel() == 0, op, ": out has shape ", out.sizes(),
        " and the result ", like.sizes);
  check_writable(op, out);
}

Tensor out_or_new(const char* op, const Tensor& out, const shapes::Result& like,
                  std::initializer_list<const Tensor*> inputs, const std::vector<Tensor>& list) {
  // Kernels read back what they have written, positions too.
  bool direct = out.dtype() == like.options.dtype && out.sizes() == like.sizes &&
                out.is_contiguous() && !out.storage().has_other_writers();
  for (const Tensor* x : inputs) direct = direct && !(x->defined() && may_overlap(out, *x));
  for (const Tensor& x : list) direct = direct && !(x.defined() && may_overlap(out, x));
  if (!direct) return allocate(like, op);
  mark_changed(out, op);  // also when the kernel throws half way
  return out;
}

void store_out(const char* op, Tensor& out, const Tensor& y) {
  if (out.is_same(y)) return;
  check_out(op, out, shapes::like(y));
  if (!(out.sizes() == y.sizes())) {
    resize_plain(out, y.sizes(), y.strides());
    shown_empty(out, op);  // a copy that is stopped leaves a part of it
  }
  copy_plain(out, y, op);
  mark_changed(out, op);
}

void copy_plain(Tensor& to, const Tensor& from, const char* op) {
  const DeviceType source = from.device().type, target = to.device().type;
  if (source == DeviceType::CPU || target == DeviceType::CPU || source == target)
    return kernels_for(source == DeviceType::CPU ? target : source, op).copy->copy(to, from);
  // A backend knows its own devices and the host.
  Tensor host = empty_like_plain(from, MemoryFormat::Preserve, {from.dtype(), Device{}}, op);
  kernels_for(source, op).copy->copy(host, from);
  kernels_for(target, op).copy->copy(to, host);
}

void fill_plain(Tensor& to, const Scalar& value, const char* op) {
  kernels_for(to.device().type, op).copy->fill(to, value);
}

Tensor shown_empty(Tensor x, const char* op) {
  if (!memory::clears_memory()) return x;
  Tensor memory = x;
  while (const Batched* b = batched(memory)) memory = b->value;
  fill_plain(memory, Scalar(0), op);
  return x;
}

Tensor clone_plain(const Tensor& x) {
  Tensor y = empty_like_plain(x, MemoryFormat::Preserve, options_of(x), "clone");
  copy_plain(y, x, "clone");
  return y;
}

Tensor on_host(const Tensor& x) {
  if (x.device().is_cpu()) return x;
  Tensor y = empty_like_plain(x, MemoryFormat::Preserve, {x.dtype(), Device{}}, "to");
  copy_plain(y, x, "to");
  return y;
}

}  // namespace moonlet
