// tensor/program/jit/neon_emitter.h: machine code of a trace for AArch64, as emitter.h makes it for
// x86-64: a loop over two dimensions whose body computes all nodes for one vector of elements.
#pragma once

#include <asmjit/core.h>
// After the core.
#include <asmjit/arm/a64compiler.h>

#include "tensor/program/jit/body.h"

namespace moonlet::program::jit {

class NeonEmitter {
 public:
  NeonEmitter(const Body& body, asmjit::CodeHolder& code) : body_(body), cc_(&code) {}
  // False where an operand or a node has no instructions.
  bool emit();

 private:
  using Gp = asmjit::a64::Gp;
  using Vec = asmjit::a64::Vec;
  using Mem = asmjit::a64::Mem;
  using Id = asmjit::InstId;

  // That of a node; masks are lanes of ones and zeros. Nodes of 4 bytes beside some of 8 are in the
  // lower half.
  struct Register {
    Vec v;
    bool lasts = false;  // across the loop, so that no other node may take its register
  };

  Vec vec() { return cc_.newVecQ(); }
  // A register as lanes of so many bytes.
  static Vec lanes_of(const Vec& v, int size);
  void find_last_uses();
  int most_alive() const;
  void load_constants();
  void load_addresses();
  void start_row();
  void load_broadcast(int i);
  void emit_loop();
  void emit_nodes();
  void end_row();
  void advance(const Gp& address, int64_t bytes);

  // Of a node: its register, which a constant gets on the spot.
  Vec reg(int node);
  bool dies(int node, int at) const;
  void load_constant(const Vec& to, int node);
  // A register with the value of a node, to be written over by node `at`.
  Vec taken(int node, int at);

  void emit_node(int i);
  void emit_unary(int i, Id id);
  void emit_binary(int i, Id id, bool swapped = false);
  void emit_bits(int i, Id id, bool swapped = false);
  void emit_copy_sign(int i);
  void emit_fma(int i);
  void emit_round(int i);
  void emit_shift(int i);
  void emit_select(int i);
  void emit_product(int i);
  void emit_conversion(int i);
  void emit_mask_cast(int i);
  void round_integers(int i);

  // Elements as they are in memory, in the lower lanes of a register.
  Vec load_elements(int operand);
  void store_elements(int operand, const Vec& from);
  void load_element(const Gp& to, const Gp& from, int width);
  void store_element(const Gp& from, const Gp& to, int width);
  // As a node has them, and back.
  void widen(int i, const Vec& elements);
  Vec narrowed(const Operand& store);
  Vec narrowed_bits(const Operand& store, Vec from);
  void emit_load(int i);
  void emit_store(const Operand& store, int at);

  const Operand& operand(int i) const;
  void refuse() { refused_ = true; }

  const Body& body_;
  asmjit::a64::Compiler cc_;
  int lanes_ = 4;
  int step_ = 4;  // elements of the body at hand: all lanes, or one
  bool refused_ = false;
  std::vector<Register> registers_;
  std::vector<int> last_use_;
  std::vector<Gp> rows_at_, at_;  // by operand: where the row begins, and the next element
  Gp addresses_, columns_, rows_;
};

}  // namespace moonlet::program::jit
