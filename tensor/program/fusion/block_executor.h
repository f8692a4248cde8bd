// tensor/program/fusion/block_executor.h: runs a loop by blocks that stay in the first cache: each
// op's own kernel on one block after the other, so that results have the bits of eager ones.
#pragma once

#include "tensor/cpu/copy/convert.h"
#include "tensor/kernels.h"
#include "tensor/program/fusion/executor.h"

namespace moonlet::program {

class BlockExecutor : public LoopExecutor {
 public:
  // For CPU loops.
  explicit BlockExecutor(const Loop& loop);
  BlockExecutor(const BlockExecutor&) = delete;
  BlockExecutor& operator=(const BlockExecutor&) = delete;
  void run(char* const* addresses) const override;

  // Elements of a block at most, for tests.
  int64_t block() const { return block_; }

 private:
  class Compiler;

  // Where an operand of a step is: memory (of a load or, behind those, of a store), scratch or
  // constants (at so many bytes), or a number, which the plan has.
  struct Location {
    enum Kind : uint8_t { Memory, Scratch, Constant, Number };
    Kind kind = Number;
    int32_t at = 0;
  };
  // A kernel's call, or a copy of elements where there is no kernel.
  struct Step {
    PointwiseKernel kernel = nullptr;
    cpu::Converter convert = nullptr;
    // All but the addresses and what depends on the block's size: the outermost size is `unit`
    // times that of the block's outermost dimension.
    PointwisePlan plan;
    int64_t unit = 1;
    Location out, in[kMaxPointwiseInputs];
  };
  // A position in memory of a load or store, at the block's beginning.
  struct Cursor {
    int32_t slot;
    int64_t offset;
    int64_t strides[kMaxDims];
  };

  void run_blocks(char* const* addresses, int64_t begin, int64_t end) const;
  void run_step(const Step& step, char* const* cursors, char* scratch, int64_t outermost) const;

  Loop loop_;
  // Blocks hold dimensions 0 to split_ - 1 whole and `step_` of dimension split_.
  int split_ = 0;
  int64_t step_ = 1;
  int64_t inner_ = 1;  // elements of the whole dimensions
  int64_t block_ = 1;  // inner_ * step_
  int64_t blocks_ = 0;
  int64_t scratch_ = 0;  // bytes
  int64_t grain_ = 1;
  std::vector<Step> steps_;
  std::vector<Cursor> cursors_;
  // Numbers that kernels read as if they were tensors.
  struct alignas(64) Line {
    char bytes[64];
  };
  std::vector<Line> constants_;
};

}  // namespace moonlet::program
