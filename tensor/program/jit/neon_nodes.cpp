// tensor/program/jit/neon_nodes.cpp: the instructions of each node.
#include "tensor/program/jit/neon_emitter.h"

namespace moonlet::program::jit {

using namespace asmjit;  // NOLINT(google-build-using-namespace)
using a64::Inst;

void NeonEmitter::emit_node(int i) {
  const Node& n = body_.trace[i];
  switch (n.code) {
    case Code::Add: return emit_binary(i, Inst::kIdFadd_v);
    case Code::Sub: return emit_binary(i, Inst::kIdFsub_v);
    case Code::Mul: return emit_binary(i, Inst::kIdFmul_v);
    case Code::Div: return emit_binary(i, Inst::kIdFdiv_v);
    case Code::Min: return emit_binary(i, Inst::kIdFminnm_v);
    case Code::Max: return emit_binary(i, Inst::kIdFmaxnm_v);
    case Code::And:
    case Code::MaskAnd: return emit_bits(i, Inst::kIdAnd_v);
    case Code::Or:
    case Code::MaskOr: return emit_bits(i, Inst::kIdOrr_v);
    case Code::Xor: return emit_bits(i, Inst::kIdEor_v);
    case Code::AndNot: return emit_bits(i, Inst::kIdBic_v, true);
    case Code::CopySign: return emit_copy_sign(i);
    case Code::IntAdd: return emit_binary(i, Inst::kIdAdd_v);
    case Code::IntSub: return emit_binary(i, Inst::kIdSub_v);
    case Code::IntMul: return n.size == 4 ? emit_binary(i, Inst::kIdMul_v) : emit_product(i);
    case Code::Sqrt: return emit_unary(i, Inst::kIdFsqrt_v);
    case Code::Round: return emit_round(i);
    case Code::Fma: return emit_fma(i);
    case Code::ShiftLeft:
    case Code::ShiftRight: return emit_shift(i);
    case Code::Select: return emit_select(i);
    case Code::MaskConstant:
      registers_[i].v = vec();
      cc_.movi(registers_[i].v.b16(), n.bits ? 255 : 0);
      return;
    case Code::MaskNot:
      registers_[i].v = vec();
      cc_.not_(registers_[i].v.b16(), registers_[n.in[0]].v.b16());
      return;
    case Code::MaskCast: return emit_mask_cast(i);
    case Code::Widen:
    case Code::Narrow:
    case Code::IntToFloat:
    case Code::RoundToHalf: return emit_conversion(i);
    case Code::Equal: return emit_binary(i, Inst::kIdFcmeq_v);
    case Code::Less: return emit_binary(i, Inst::kIdFcmgt_v, true);
    case Code::LessEqual: return emit_binary(i, Inst::kIdFcmge_v, true);
    case Code::IntEqual: return emit_binary(i, Inst::kIdCmeq_v);
    case Code::IntLess: return emit_binary(i, Inst::kIdCmgt_v, true);
    case Code::IntLessEqual: return emit_binary(i, Inst::kIdCmge_v, true);
    default: return refuse();
  }
}

void NeonEmitter::emit_unary(int i, Id id) {
  const Node& n = body_.trace[i];
  const Vec from = reg(n.in[0]), to = vec();
  cc_.emit(id, lanes_of(to, n.size), lanes_of(from, n.size));
  registers_[i].v = to;
}

void NeonEmitter::emit_binary(int i, Id id, bool swapped) {
  const Node& n = body_.trace[i];
  const Vec a = reg(n.in[swapped ? 1 : 0]), b = reg(n.in[swapped ? 0 : 1]), to = vec();
  cc_.emit(id, lanes_of(to, n.size), lanes_of(a, n.size), lanes_of(b, n.size));
  registers_[i].v = to;
}

void NeonEmitter::emit_bits(int i, Id id, bool swapped) {
  const Node& n = body_.trace[i];
  const Vec a = reg(n.in[swapped ? 1 : 0]), b = reg(n.in[swapped ? 0 : 1]), to = vec();
  cc_.emit(id, to.b16(), a.b16(), b.b16());
  registers_[i].v = to;
}

void NeonEmitter::emit_copy_sign(int i) {
  const Node& n = body_.trace[i];
  const Vec size = reg(n.in[0]), sign = reg(n.in[1]), to = vec();
  // The sign bits: ones, but for all others.
  cc_.movi(to.b16(), 255);
  cc_.shl(lanes_of(to, n.size), lanes_of(to, n.size), 8 * n.size - 1);
  cc_.bsl(to.b16(), sign.b16(), size.b16());
  registers_[i].v = to;
}

void NeonEmitter::emit_fma(int i) {
  const Node& n = body_.trace[i];
  const Vec a = reg(n.in[0]), b = reg(n.in[1]);
  Vec to;
  if ((n.imm & kNegatedSummand) != 0) {
    const Vec summand = reg(n.in[2]);
    to = vec();
    cc_.fneg(lanes_of(to, n.size), lanes_of(summand, n.size));
  } else if (n.in[2] == n.in[0] || n.in[2] == n.in[1]) {
    // A factor, too: read after it is written.
    const Vec summand = reg(n.in[2]);
    to = vec();
    cc_.mov(to.b16(), summand.b16());
  } else {
    to = taken(n.in[2], i);
  }
  const Id id = (n.imm & kNegatedProduct) != 0 ? Inst::kIdFmls_v : Inst::kIdFmla_v;
  cc_.emit(id, lanes_of(to, n.size), lanes_of(a, n.size), lanes_of(b, n.size));
  registers_[i].v = to;
}

void NeonEmitter::emit_round(int i) {
  switch (body_.trace[i].imm & 3) {
    case 0: return emit_unary(i, Inst::kIdFrintn_v);
    case 1: return emit_unary(i, Inst::kIdFrintm_v);
    case 2: return emit_unary(i, Inst::kIdFrintp_v);
    default: return emit_unary(i, Inst::kIdFrintz_v);
  }
}

void NeonEmitter::emit_shift(int i) {
  const Node& n = body_.trace[i];
  const Vec from = reg(n.in[0]), to = vec();
  cc_.emit(n.code == Code::ShiftLeft ? Inst::kIdShl_v : Inst::kIdUshr_v, lanes_of(to, n.size),
           lanes_of(from, n.size), imm(n.imm));
  registers_[i].v = to;
}

void NeonEmitter::emit_select(int i) {
  const Node& n = body_.trace[i];
  const Vec yes = reg(n.in[1]), no = reg(n.in[2]);
  const Vec to = taken(n.in[0], i);
  cc_.bsl(to.b16(), yes.b16(), no.b16());
  registers_[i].v = to;
}

// There is no product of 64-bit lanes.
void NeonEmitter::emit_product(int i) {
  const Node& n = body_.trace[i];
  const Vec a = reg(n.in[0]), b = reg(n.in[1]), to = vec();
  cc_.movi(to.d2(), 0);
  const Gp x = cc_.newInt64(), y = cc_.newInt64();
  for (uint32_t k = 0; k < static_cast<uint32_t>(lanes_); ++k) {
    cc_.umov(x, a.d(k));
    cc_.umov(y, b.d(k));
    cc_.mul(x, x, y);
    cc_.ins(to.d(k), x);
  }
  registers_[i].v = to;
}

void NeonEmitter::emit_mask_cast(int i) {
  const Node& n = body_.trace[i];
  const Vec from = registers_[n.in[0]].v, to = vec();
  if (n.size == 8)
    cc_.sshll(to.d2(), from.s2(), 0);
  else
    cc_.xtn(to.s2(), from.d2());
  registers_[i].v = to;
}

// Of 8 bytes to float32, rounded once.
void NeonEmitter::round_integers(int i) {
  const Vec from = reg(body_.trace[i].in[0]), to = vec(), one = cc_.newVecS();
  const Gp x = cc_.newInt64();
  cc_.movi(to.d2(), 0);
  for (uint32_t k = 0; k < static_cast<uint32_t>(lanes_); ++k) {
    cc_.umov(x, from.d(k));
    cc_.scvtf(one.s(), x);
    cc_.ins(to.s(k), one.s(0));
  }
  registers_[i].v = to;
}

void NeonEmitter::emit_conversion(int i) {
  const Node& n = body_.trace[i];
  if (n.code == Code::IntToFloat && n.size == 4) return round_integers(i);
  const Vec from = reg(n.in[0]), to = vec();
  switch (n.code) {
    case Code::Widen: cc_.fcvtl(to.d2(), from.s2()); break;
    case Code::Narrow: cc_.fcvtn(to.s2(), from.d2()); break;
    case Code::IntToFloat: cc_.scvtf(to.d2(), from.d2()); break;
    default: cc_.fcvtn(to.h4(), from.s4()); cc_.fcvtl(to.s4(), to.h4());
  }
  registers_[i].v = to;
}

}  // namespace moonlet::program::jit
