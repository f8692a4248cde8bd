// tensor/program/fusion/block_executor.cpp: plans and runs the blocks of a loop.
#include "tensor/program/fusion/block_executor.h"

#include <algorithm>
#include <cstring>

#include "tensor/core/dispatch.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/program/fusion/block_compiler.h"
#include "tensor/program/fusion/block_sizes.h"
#include "tensor/program/jit/compile.h"
#include "tensor/runtime/backend.h"

namespace moonlet::program {

namespace {

// Blocks, each value's to a whole cache line.
constexpr size_t kScratchBytes =
    thresholds::fusion::kBlockBytes + 64 * (Loop::kMaxOps + Loop::kMaxOperands);

// The parts of a plan that a kernel of so many dimensions reads.
void copy_arg(PointwiseArg& to, const PointwiseArg& from, int ndim) {
  to.scalar = from.scalar;
  to.dtype = from.dtype;
  for (int d = 0; d < ndim; ++d) to.strides[d] = from.strides[d];
}
void copy_plan(PointwisePlan& to, const PointwisePlan& from) {
  to.ndim = from.ndim;
  for (int d = 0; d < from.ndim; ++d) to.sizes[d] = from.sizes[d];
  to.inputs = from.inputs;
  to.compute = from.compute;
  to.device = from.device;
  to.flat = from.flat;
  to.direct = from.direct;
  to.params = from.params;
  to.param_count = from.param_count;
  to.op = from.op;
  copy_arg(to.out, from.out, from.ndim);
  for (int i = 0; i < from.inputs; ++i) copy_arg(to.in[i], from.in[i], from.ndim);
}

// Copies the elements of a plan of one input, row by row.
void copy_rows(const PointwisePlan& plan, cpu::Converter convert) {
  const int64_t width = plan.sizes[0];
  int64_t at[kMaxDims] = {};
  const char* from = plan.in[0].data;
  char* to = plan.out.data;
  for (int64_t done = 0; done < plan.numel; done += width) {
    convert(from, plan.in[0].strides[0], to, plan.out.strides[0], width);
    for (int d = 1; d < plan.ndim; ++d) {
      from += plan.in[0].strides[d];
      to += plan.out.strides[d];
      if (++at[d] < plan.sizes[d]) break;
      from -= plan.sizes[d] * plan.in[0].strides[d];
      to -= plan.sizes[d] * plan.out.strides[d];
      at[d] = 0;
    }
  }
}

}  // namespace

BlockExecutor::BlockExecutor(const Loop& loop) : loop_(loop) { Compiler(*this).compile(); }

void BlockExecutor::run_step(const Step& step, char* const* cursors, char* scratch,
                             int64_t outermost) const {
  const auto address = [&](const Location& location) -> char* {
    if (location.kind == Location::Memory) return cursors[location.at];
    if (location.kind == Location::Scratch) return scratch + location.at;
    // Inputs are only read.
    return const_cast<char*>(constants_.data()->bytes) + location.at;
  };
  PointwisePlan plan;
  copy_plan(plan, step.plan);
  plan.sizes[plan.ndim - 1] = step.unit * outermost;
  plan.numel = inner_ * outermost;
  plan.out.data = address(step.out);
  for (int i = 0; i < plan.inputs; ++i)
    if (step.in[i].kind != Location::Number) plan.in[i].data = address(step.in[i]);
  if (step.kernel)
    step.kernel(plan);
  else
    copy_rows(plan, step.convert);
}

void BlockExecutor::run_blocks(char* const* addresses, int64_t begin, int64_t end) const {
  alignas(64) char scratch[kScratchBytes];
  char* cursors[Loop::kMaxOperands];
  const int count = static_cast<int>(cursors_.size());
  const int64_t along = (loop_.sizes[split_] + step_ - 1) / step_;  // blocks of that dimension
  for (int64_t block = begin; block < end; ++block) {
    const int64_t first = block % along * step_;
    for (int i = 0; i < count; ++i)
      cursors[i] =
          addresses[cursors_[i].slot] + cursors_[i].offset + first * cursors_[i].strides[split_];
    int64_t rest = block / along;
    for (int d = split_ + 1; rest > 0; ++d) {
      const int64_t index = rest % loop_.sizes[d];
      rest /= loop_.sizes[d];
      for (int i = 0; i < count; ++i) cursors[i] += index * cursors_[i].strides[d];
    }
    const int64_t outermost = std::min(step_, loop_.sizes[split_] - first);
    for (const Step& step : steps_) run_step(step, cursors, scratch, outermost);
  }
}

void BlockExecutor::run(char* const* addresses) const {
  if (blocks_ == 0) return;
  if (blocks_ == 1) return run_blocks(addresses, 0, 1);
  cpu::parallel_for(blocks_, grain_,
                    [&](int64_t begin, int64_t end) { run_blocks(addresses, begin, end); });
}

// That of a device other than the CPU, where its backend is open, as it is where tensors lie there.
static LoopCompiler* compiler_of(DeviceType type) {
  Backend* const backend = opened_backend(type);
  return backend ? backend->loop_compiler() : nullptr;
}

bool has_executor(DeviceType type) {
  return type == DeviceType::CPU || compiler_of(type) != nullptr;
}

std::unique_ptr<const LoopExecutor> make_executor(const Loop& loop) {
  if (!has_executor(loop.device.type)) fail("program: no loops on ", loop.device);
  if (loop.device.type != DeviceType::CPU) return compiler_of(loop.device.type)->compile(loop);
  if (auto compiled = compile_jit(loop)) return compiled;
  return std::make_unique<const BlockExecutor>(loop);
}

}  // namespace moonlet::program
