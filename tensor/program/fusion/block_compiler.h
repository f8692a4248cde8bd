// tensor/program/fusion/block_compiler.h: makes the steps of a block executor: how large blocks
// are, where each value is kept, and which copies are needed besides the ops.
#pragma once

#include "tensor/program/fusion/block_executor.h"

namespace moonlet::program {

class BlockExecutor::Compiler {
 public:
  explicit Compiler(BlockExecutor& to) : to_(to), loop_(to.loop_) {}
  void compile();

 private:
  // Where a value is between steps: in memory (`at` counts loads, then stores) or in a slot of
  // scratch.
  struct Home {
    enum Kind : uint8_t { None, Memory, Slot, Number } kind = None;
    int at = 0;
    DType dtype = DType::Float32;
  };
  // Of a load or an op's result: the last op that reads it; the number of ops where a copy to a
  // store at the end does.
  struct Life {
    Home home;
    int uses = 0, last = -1;
  };
  // A step whose locations are homes.
  struct Draft {
    const Loop::Op* op = nullptr;  // null: a copy of elements
    Home out, in[kMaxPointwiseInputs];
    int inputs = 1;
  };
  struct Slot {
    size_t width;
    bool taken;
  };

  const Loop::Memory& memory(int at) const;
  bool is_dense(const Loop::Memory& memory) const;
  void find_uses();
  void draft();
  Home take_slot(DType dtype);
  void release(const Home& home);
  bool is_read_later(int32_t slot, int op) const;
  Home home_of_result(int op);
  Home home_of_load(int load);
  Home home_of(Loop::Source source);
  bool needs_copy(int load) const;
  void draft_op(int op);
  void draft_stores();
  bool is_constant(const Loop::Op& op, const Home& number, DType& dtype) const;
  int64_t wanted_block() const;
  void split(int64_t elements);
  void finish(const Draft& draft);
  Location location_of(const Draft& draft, const Home& home, PointwiseArg& arg);
  Location constant(int number, DType dtype);

  BlockExecutor& to_;
  const Loop& loop_;
  int dense_dims_ = 0;  // dimensions that memory must be dense in to be read and written directly
  std::vector<Life> loads_, ops_;
  std::vector<bool> direct_;  // by store: its op writes to its memory
  std::vector<Draft> drafts_;
  std::vector<Slot> slots_;
  std::vector<int64_t> slot_at_;  // in bytes
  struct ConstantBlock {
    int number;
    DType dtype;
    int64_t at;
  };
  std::vector<ConstantBlock> constants_;
};

}  // namespace moonlet::program
