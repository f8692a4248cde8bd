// tensor/program/fusion/block_compiler.cpp: from a loop to the steps of its blocks.
#include "tensor/program/fusion/block_compiler.h"

#include <algorithm>

#include "tensor/core/dispatch.h"
#include "tensor/core/geometry.h"
#include "tensor/core/left_out.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/program/fusion/block_sizes.h"

namespace moonlet::program {

namespace {

constexpr int64_t kLine = 64;

int64_t padded(int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

int64_t bytes_of(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }

bool same_number(DType dtype, const Scalar& number) {
  const float value = number.to<float>();
  return value == (dtype == DType::BFloat16 ? float(bfloat16(value)) : float(half(value)));
}

}  // namespace

const Loop::Memory& BlockExecutor::Compiler::memory(int at) const {
  const int loads = static_cast<int>(loop_.loads.size());
  return at < loads ? loop_.loads[at] : loop_.stores[at - loads].to;
}

bool BlockExecutor::Compiler::is_dense(const Loop::Memory& memory) const {
  int64_t expected = bytes_of(memory.dtype);
  for (int d = 0; d < dense_dims_; ++d) {
    if (memory.strides[d] != expected) return false;
    expected *= loop_.sizes[d];
  }
  return true;
}

void BlockExecutor::Compiler::find_uses() {
  loads_.assign(loop_.loads.size(), {});
  ops_.assign(loop_.ops.size(), {});
  const int count = static_cast<int>(loop_.ops.size());
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < loop_.ops[i].inputs; ++k) {
      const Loop::Source source = loop_.ops[i].in[k];
      if (source.kind == Loop::Source::Number) continue;
      Life& life = source.kind == Loop::Source::Load ? loads_[source.index] : ops_[source.index];
      ++life.uses;
      life.last = i;
    }
  }
  direct_.assign(loop_.stores.size(), false);
}

BlockExecutor::Compiler::Home BlockExecutor::Compiler::take_slot(DType dtype) {
  const size_t width = size_of(dtype);
  size_t i = 0;
  while (i < slots_.size() && (slots_[i].taken || slots_[i].width != width)) ++i;
  if (i == slots_.size()) slots_.push_back({width, true});
  slots_[i].taken = true;
  return {Home::Slot, static_cast<int>(i), dtype};
}

void BlockExecutor::Compiler::release(const Home& home) {
  if (home.kind == Home::Slot) slots_[home.at].taken = false;
}

// Whether an op after this one reads the memory of a slot as a load.
bool BlockExecutor::Compiler::is_read_later(int32_t slot, int op) const {
  for (size_t i = 0; i < loads_.size(); ++i)
    if (loop_.loads[i].slot == slot && loads_[i].last > op && loads_[i].home.kind != Home::Slot)
      return true;
  return false;
}

// An op writes to the memory of its first store where that is dense and nothing is in the way.
BlockExecutor::Compiler::Home BlockExecutor::Compiler::home_of_result(int op) {
  const int loads = static_cast<int>(loads_.size());
  int stores = 0, first = -1;
  for (int i = static_cast<int>(loop_.stores.size()) - 1; i >= 0; --i)
    if (loop_.stores[i].op == op) first = i, ++stores;
  if (first < 0) return take_slot(loop_.ops[op].dtype);
  const Loop::Memory& to = loop_.stores[first].to;
  const bool only_stored = stores == 1 && ops_[op].uses == 0;
  if ((only_stored || is_dense(to)) && !is_read_later(to.slot, op)) {
    direct_[first] = true;
    if (stores > 1) ops_[op].last = static_cast<int>(ops_.size());
    return {Home::Memory, loads + first, to.dtype};
  }
  ops_[op].last = static_cast<int>(ops_.size());
  return take_slot(loop_.ops[op].dtype);
}

// Gathering the elements of a load twice costs more than a copy.
bool BlockExecutor::Compiler::needs_copy(int load) const {
  return loads_[load].uses > 1 && !is_dense(loop_.loads[load]);
}

BlockExecutor::Compiler::Home BlockExecutor::Compiler::home_of_load(int load) {
  Life& life = loads_[load];
  if (life.home.kind != Home::None) return life.home;
  const Home own = {Home::Memory, load, loop_.loads[load].dtype};
  life.home = needs_copy(load) ? take_slot(own.dtype) : own;
  if (life.home.kind == Home::Slot) {
    Draft copy;
    copy.out = life.home;
    copy.in[0] = own;
    drafts_.push_back(copy);
  }
  return life.home;
}

BlockExecutor::Compiler::Home BlockExecutor::Compiler::home_of(Loop::Source source) {
  if (source.kind == Loop::Source::Load) return home_of_load(source.index);
  if (source.kind == Loop::Source::Op) return ops_[source.index].home;
  return {Home::Number, source.index, DType::Float32};
}

void BlockExecutor::Compiler::draft_op(int i) {
  const Loop::Op& op = loop_.ops[i];
  Draft draft;
  draft.op = &op;
  draft.inputs = op.inputs;
  for (int k = 0; k < op.inputs; ++k) draft.in[k] = home_of(op.in[k]);
  const auto release_dead = [&] {
    for (const auto* lives : {&loads_, &ops_})
      for (const Life& life : *lives)
        if (life.last == i) release(life.home);
  };
  // Kernels may write over their inputs, element by element; converters may not.
  if (op.op) release_dead();
  draft.out = ops_[i].home = home_of_result(i);
  if (!op.op) release_dead();
  if (ops_[i].last < i) release(draft.out);
  drafts_.push_back(draft);
}

void BlockExecutor::Compiler::draft_stores() {
  for (size_t i = 0; i < loop_.stores.size(); ++i) {
    if (direct_[i]) continue;
    Draft copy;
    copy.in[0] = ops_[loop_.stores[i].op].home;
    copy.out = {Home::Memory, static_cast<int>(loads_.size() + i), loop_.stores[i].to.dtype};
    drafts_.push_back(copy);
  }
}

void BlockExecutor::Compiler::draft() {
  drafts_.clear();
  slots_.clear();
  find_uses();
  for (int i = 0; i < static_cast<int>(loop_.ops.size()); ++i) draft_op(i);
  draft_stores();
}

// Whether a number is given to the kernel as a block of itself, and of which dtype: where that
// saves the kernel from making one, and its other operands are taken as they are.
bool BlockExecutor::Compiler::is_constant(const Loop::Op& op, const Home& number,
                                          DType& dtype) const {
  if (number.kind != Home::Number) return false;
  dtype = op.op ? op.compute : op.dtype;
  if (!op.op) return true;
  const Scalar& value = loop_.numbers[number.at];
  if (is_reduced_floating(op.dtype)) {
    dtype = op.dtype;
    return same_number(dtype, value);
  }
  for (int k = 0; k < op.inputs; ++k)
    if (op.in[k].kind != Loop::Source::Number && loop_.dtype_of(op.in[k]) != dtype) return false;
  return true;
}

// As many elements as have their values in the first cache.
int64_t BlockExecutor::Compiler::wanted_block() const {
  int64_t width = 0;
  for (const Slot& slot : slots_) width += static_cast<int64_t>(slot.width);
  std::vector<std::pair<int, DType>> constants;
  for (const Draft& draft : drafts_) {
    for (int k = 0; draft.op && k < draft.inputs; ++k) {
      DType dtype;
      if (!is_constant(*draft.op, draft.in[k], dtype)) continue;
      const std::pair<int, DType> each(draft.in[k].at, dtype);
      if (std::find(constants.begin(), constants.end(), each) != constants.end()) continue;
      constants.push_back(each);
      width += bytes_of(dtype);
    }
  }
  width = std::max<int64_t>(width, 1);
  const int64_t fitting = static_cast<int64_t>(thresholds::fusion::kBlockBytes) / width;
  const int64_t most = std::min(fitting, thresholds::fusion::kBlockElements);
  return most >= kLine ? most / kLine * kLine : std::max<int64_t>(most, 1);
}

// Divides the shape into blocks of at most so many elements.
void BlockExecutor::Compiler::split(int64_t elements) {
  int64_t inner = 1;
  int d = 0;
  while (d < loop_.ndim - 1 && inner * loop_.sizes[d] <= elements) inner *= loop_.sizes[d++];
  const int64_t size = loop_.sizes[d];
  int64_t step = std::min(size, std::max<int64_t>(1, elements / inner));
  // Equal ones, of whole cache lines.
  const int64_t parts = (size + step - 1) / step;
  const int64_t equal = (size + parts - 1) / parts;
  step = inner > 1 ? equal : std::min(step, padded(equal));
  to_.split_ = d;
  to_.step_ = step;
  to_.inner_ = inner;
  to_.block_ = inner * step;
  to_.blocks_ = (size + step - 1) / step;
  for (int k = d + 1; k < loop_.ndim; ++k) to_.blocks_ *= loop_.sizes[k];
  dense_dims_ = d + 1;
}

BlockExecutor::Location BlockExecutor::Compiler::constant(int number, DType dtype) {
  for (const ConstantBlock& each : constants_)
    if (each.number == number && each.dtype == dtype)
      return {Location::Constant, static_cast<int32_t>(each.at)};
  const auto at = static_cast<int64_t>(to_.constants_.size() * sizeof(Line));
  const int64_t bytes = to_.block_ * bytes_of(dtype);
  to_.constants_.resize(to_.constants_.size() + static_cast<size_t>(padded(bytes) / kLine));
  visit<dtypes::any>(dtype, [&]<class T>() {
    char* const first = reinterpret_cast<char*>(to_.constants_.data()) + at;
    std::fill_n(reinterpret_cast<T*>(first), to_.block_, loop_.numbers[number].to<T>());
  });
  constants_.push_back({number, dtype, at});
  return {Location::Constant, static_cast<int32_t>(at)};
}

// The location of a home, whose dtype and strides over the block `arg` gets.
BlockExecutor::Location BlockExecutor::Compiler::location_of(const Draft& draft, const Home& home,
                                                             PointwiseArg& arg) {
  arg.scalar = nullptr;
  arg.data = nullptr;
  arg.dtype = home.dtype;
  DType dtype = home.dtype;
  if (home.kind == Home::Number && !is_constant(*draft.op, home, dtype)) {
    arg.scalar = &loop_.numbers[home.at];
    return {};
  }
  arg.dtype = dtype;
  int64_t stride = bytes_of(dtype);
  for (int d = 0; d <= to_.split_; ++d) {
    arg.strides[d] = home.kind == Home::Memory ? memory(home.at).strides[d] : stride;
    stride *= loop_.sizes[d];
  }
  if (home.kind == Home::Memory) return {Location::Memory, home.at};
  if (home.kind == Home::Number) return constant(home.at, dtype);
  return {Location::Scratch, static_cast<int32_t>(slot_at_[home.at])};
}

void BlockExecutor::Compiler::finish(const Draft& draft) {
  Step& step = to_.steps_.emplace_back();
  PointwisePlan& plan = step.plan;
  const PointwiseOp* op = draft.op ? draft.op->op : nullptr;
  plan.inputs = draft.inputs;
  plan.device = loop_.device;
  plan.op = op ? op->name : "copy";
  plan.compute = op ? draft.op->compute : draft.out.dtype;
  plan.params = op ? loop_.params.data() + draft.op->first_param : nullptr;
  plan.param_count = op ? draft.op->param_count : 0;
  plan.ndim = to_.split_ + 1;
  for (int d = 0; d < to_.split_; ++d) plan.sizes[d] = loop_.sizes[d];
  plan.sizes[to_.split_] = to_.step_;
  step.out = location_of(draft, draft.out, plan.out);
  for (int k = 0; k < draft.inputs; ++k) step.in[k] = location_of(draft, draft.in[k], plan.in[k]);
  const auto each = [&](auto&& f) {
    f(plan.out);
    for (int k = 0; k < plan.inputs; ++k)
      if (!plan.in[k].scalar) f(plan.in[k]);
  };
  plan.ndim = join_dims<Innermost::First>(
      plan.ndim, plan.sizes, [&](auto&& f) { each([&](PointwiseArg& arg) { f(arg.strides); }); });
  step.unit = plan.sizes[plan.ndim - 1] / to_.step_;
  plan.flat = plan.ndim == 1;
  plan.direct = true;
  for (int k = 0; k < plan.inputs; ++k) plan.direct = plan.direct && !plan.in[k].scalar;
  each([&](PointwiseArg& arg) {
    plan.flat = plan.flat && arg.strides[0] == bytes_of(arg.dtype);
    plan.direct = plan.direct && arg.dtype == plan.compute;
  });
  plan.direct = plan.direct && plan.flat;
  if (op)
    step.kernel = kernels_for(loop_.device.type, op->name).pointwise_ops[op->family][op->index];
  else
    step.convert = cpu::converter(plan.in[0].dtype, plan.out.dtype);
  if (op && !step.kernel) {
    if (loop_.device.is_cpu()) op_left_out(op->name);
    no_kernel(loop_.device.type, op->name, "its row names none");
  }
}

void BlockExecutor::Compiler::compile() {
  if (loop_.numel == 0) return;
  // What is dense throughout is dense in any block, so that blocks may only need less scratch.
  dense_dims_ = loop_.ndim;
  draft();
  split(wanted_block());
  draft();
  int64_t at = 0;
  for (const Slot& slot : slots_) {
    slot_at_.push_back(at);
    at += padded(to_.block_ * static_cast<int64_t>(slot.width));
  }
  to_.scratch_ = at;
  to_.steps_.reserve(drafts_.size());
  for (const Draft& each : drafts_) finish(each);
  const auto add_cursor = [&](const Loop::Memory& memory) {
    Cursor& cursor = to_.cursors_.emplace_back();
    cursor.slot = memory.slot;
    cursor.offset = memory.offset;
    std::copy_n(memory.strides, kMaxDims, cursor.strides);
  };
  for (const Loop::Memory& load : loop_.loads) add_cursor(load);
  for (const Loop::Store& store : loop_.stores) add_cursor(store.to);
  const auto ops = static_cast<int64_t>(loop_.ops.size());
  to_.grain_ = std::max<int64_t>(1, cpu::grain_for(ops) / to_.block_);
}

}  // namespace moonlet::program
