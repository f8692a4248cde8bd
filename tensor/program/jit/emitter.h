// tensor/program/jit/emitter.h: machine code of a trace: a loop over two dimensions whose body
// computes all nodes for one vector of elements.
#pragma once

#include <asmjit/x86.h>

#include "tensor/program/jit/body.h"

namespace moonlet::program::jit {

class Emitter {
 public:
  Emitter(const Body& body, asmjit::CodeHolder& code) : body_(body), cc_(&code) {}
  // False where an operand or a node has no instructions.
  bool emit();

 protected:
  using Gp = asmjit::x86::Gp;
  using Vec = asmjit::x86::Vec;
  using Mem = asmjit::x86::Mem;
  using KReg = asmjit::x86::KReg;
  using Id = asmjit::x86::Inst::Id;

  // Those of a node. Masks are in `k` on AVX-512, in `v` on AVX2.
  struct Registers {
    Vec v;
    KReg k;
    bool lasts = false;  // across the loop, so that no other node may take its register
  };

  bool wide() const { return body_.target == Target::Avx512; }
  Vec vec_of_bytes(int bytes);
  Vec vec(int size) { return vec_of_bytes(lanes_ * size); }
  Mem constant_memory(int size, uint64_t bits);
  void find_last_uses();
  void load_constants();
  void load_addresses();
  void start_row();
  void load_broadcast(int i);
  void emit_loop();
  void emit_nodes(bool masked);
  bool is_dense() const;
  int most_alive() const;
  int vectors_at_once() const;
  void turn_to(int vector);
  void end_row();

  // Of a node: its register, which a constant gets on the spot; that or memory.
  Vec reg(int node);
  asmjit::Operand reg_or_memory(int node);
  bool is_memory(int node) const;
  bool dies(int node, int at) const;
  void load_constant(const Vec& to, int node);

  void emit_node(int i);
  void emit_binary(int i, Id ps, Id pd);
  void emit_copy_sign(int i);
  void emit_product(int i);
  void emit_fma(int i);
  void emit_round(int i);
  void emit_shift(int i);
  void emit_select(int i);
  void emit_compare(int i);
  void emit_mask(int i);
  void emit_mask_cast(int i);
  void emit_conversion(int i);
  void emit_load(int i, bool masked);
  void emit_wide_load(int i, const Mem& from);
  void emit_narrow_load(int i, Mem from, bool masked);
  void emit_gather(int i, bool masked);
  void emit_store(const Operand& store, int at, bool masked);
  void emit_wide_store(const Operand& store, const Mem& to);
  void emit_narrow_store(const Operand& store, Mem to, bool masked);
  void store_narrowed(const Operand& store, const Mem& to);
  Vec packed(const Vec& x, Id id);
  void emit_scatter(const Operand& store, int at);
  void copy_tail(const Mem& from, const Mem& to, int width);
  Mem ones_of_bytes();
  void make_tail_masks();

  Mem element(int operand, int width);
  // Lane numbers times a stride, kept.
  Vec lane_offsets(int64_t stride);
  const Operand& operand(int i) const;
  void refuse() { refused_ = true; }
  Id by_size(int size, Id four, Id eight) const { return size == 4 ? four : eight; }

  const Body& body_;
  asmjit::x86::Compiler cc_;
  int lanes_ = 16;
  bool refused_ = false;
  // Vectors that are computed side by side, so that one goes on while the other waits for what it
  // needs; which of them, and what the other one has in the place of registers_ and tail_.
  int vectors_ = 1, vector_ = 0;
  std::vector<Registers> registers_, other_registers_;
  std::vector<int> last_use_;
  std::vector<Gp> bases_, gathers_;  // by operand
  std::vector<std::pair<int64_t, Vec>> offsets_;
  Gp addresses_, columns_, rows_, at_;
  KReg tail_, other_tail_;    // lanes that are computed
  Vec tail4_, tail8_, ones_;  // the same on AVX2, and lanes all of ones
  Mem scratch_;
};

}  // namespace moonlet::program::jit
