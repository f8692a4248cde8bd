// tensor/program/jit/emitter_nodes.cpp: the instructions of each node.
#include "tensor/program/jit/emitter.h"

namespace moonlet::program::jit {

using namespace asmjit;  // NOLINT(google-build-using-namespace)
namespace Inst = x86::Inst;

void Emitter::emit_node(int i) {
  const Node& n = body_.trace[i];
  switch (n.code) {
    case Code::Add: return emit_binary(i, Inst::kIdVaddps, Inst::kIdVaddpd);
    case Code::Sub: return emit_binary(i, Inst::kIdVsubps, Inst::kIdVsubpd);
    case Code::Mul: return emit_binary(i, Inst::kIdVmulps, Inst::kIdVmulpd);
    case Code::Div: return emit_binary(i, Inst::kIdVdivps, Inst::kIdVdivpd);
    case Code::Min: return emit_binary(i, Inst::kIdVminps, Inst::kIdVminpd);
    case Code::Max: return emit_binary(i, Inst::kIdVmaxps, Inst::kIdVmaxpd);
    case Code::And: return emit_binary(i, Inst::kIdVandps, Inst::kIdVandpd);
    case Code::Or: return emit_binary(i, Inst::kIdVorps, Inst::kIdVorpd);
    case Code::Xor: return emit_binary(i, Inst::kIdVxorps, Inst::kIdVxorpd);
    case Code::AndNot: return emit_binary(i, Inst::kIdVandnps, Inst::kIdVandnpd);
    case Code::CopySign: return emit_copy_sign(i);
    case Code::IntAdd: return emit_binary(i, Inst::kIdVpaddd, Inst::kIdVpaddq);
    case Code::IntSub: return emit_binary(i, Inst::kIdVpsubd, Inst::kIdVpsubq);
    case Code::IntMul:
      return wide() ? emit_binary(i, Inst::kIdVpmulld, Inst::kIdVpmullq) : emit_product(i);
    case Code::Scale: return emit_binary(i, Inst::kIdVscalefps, Inst::kIdVscalefpd);
    case Code::Sqrt:
    case Code::NearInverse:
    case Code::Round: return emit_round(i);
    case Code::Fma: return emit_fma(i);
    case Code::ShiftLeft:
    case Code::ShiftRight: return emit_shift(i);
    case Code::Select: return emit_select(i);
    case Code::MaskConstant:
    case Code::MaskAnd:
    case Code::MaskOr:
    case Code::MaskNot: return emit_mask(i);
    case Code::MaskCast: return emit_mask_cast(i);
    case Code::Widen:
    case Code::Narrow:
    case Code::IntToFloat:
    case Code::RoundToHalf: return emit_conversion(i);
    case Code::Equal:
    case Code::Less:
    case Code::LessEqual:
    case Code::IntEqual:
    case Code::IntLess:
    case Code::IntLessEqual: return emit_compare(i);
    default: return refuse();
  }
}

namespace {
bool commutes(Code code) {
  return code == Code::Add || code == Code::Mul || code == Code::And || code == Code::Or ||
         code == Code::Xor || code == Code::IntAdd || code == Code::IntMul;
}
}  // namespace

void Emitter::emit_binary(int i, Id ps, Id pd) {
  const Node& n = body_.trace[i];
  int a = n.in[0], b = n.in[1];
  if (is_memory(a) && !is_memory(b) && commutes(n.code)) std::swap(a, b);
  const Vec first = reg(a);
  const asmjit::Operand second = reg_or_memory(b);
  registers_[i].v = vec(n.size);
  cc_.emit(by_size(n.size, ps, pd), registers_[i].v, first, second);
}

void Emitter::emit_copy_sign(int i) {
  const Node& n = body_.trace[i];
  const uint64_t sign = uint64_t{1} << (8 * n.size - 1);
  const Vec size = reg(n.in[0]), from = reg(n.in[1]);
  Vec to = vec(n.size);
  if (wide()) {
    if (dies(n.in[0], i) && n.in[0] != n.in[1])
      to = size;
    else
      cc_.emit(Inst::kIdVmovaps, to, size);
    // Bits of `from` where the last operand has ones.
    cc_.emit(by_size(n.size, Inst::kIdVpternlogd, Inst::kIdVpternlogq), to, from,
             constant_memory(n.size, sign), imm(0xd8));
  } else {
    const Vec signs = vec(n.size), others = vec(n.size);
    cc_.emit(Inst::kIdVmovaps, signs, constant_memory(n.size, sign));
    cc_.emit(Inst::kIdVandnps, others, signs, size);
    cc_.emit(Inst::kIdVandps, signs, signs, from);
    cc_.emit(Inst::kIdVorps, to, signs, others);
  }
  registers_[i].v = to;
}

// A product of 64-bit integers of those of their halves.
void Emitter::emit_product(int i) {
  const Node& n = body_.trace[i];
  if (n.size != 8) return refuse();
  const Vec a = reg(n.in[0]), b = reg(n.in[1]);
  const Vec high = vec(8), other = vec(8), to = vec(8);
  cc_.emit(Inst::kIdVpsrlq, high, a, imm(32));
  cc_.emit(Inst::kIdVpmuludq, high, high, b);
  cc_.emit(Inst::kIdVpsrlq, other, b, imm(32));
  cc_.emit(Inst::kIdVpmuludq, other, other, a);
  cc_.emit(Inst::kIdVpaddq, high, high, other);
  cc_.emit(Inst::kIdVpsllq, high, high, imm(32));
  cc_.emit(Inst::kIdVpmuludq, to, a, b);
  cc_.emit(Inst::kIdVpaddq, to, to, high);
  registers_[i].v = to;
}

void Emitter::emit_fma(int i) {
  const Node& n = body_.trace[i];
  enum Form { F132, F213, F231 };
  const auto id = [&](Form form) {
    static constexpr Id ids[4][3][2] = {{{Inst::kIdVfmadd132ps, Inst::kIdVfmadd132pd},
                                         {Inst::kIdVfmadd213ps, Inst::kIdVfmadd213pd},
                                         {Inst::kIdVfmadd231ps, Inst::kIdVfmadd231pd}},
                                        {{Inst::kIdVfnmadd132ps, Inst::kIdVfnmadd132pd},
                                         {Inst::kIdVfnmadd213ps, Inst::kIdVfnmadd213pd},
                                         {Inst::kIdVfnmadd231ps, Inst::kIdVfnmadd231pd}},
                                        {{Inst::kIdVfmsub132ps, Inst::kIdVfmsub132pd},
                                         {Inst::kIdVfmsub213ps, Inst::kIdVfmsub213pd},
                                         {Inst::kIdVfmsub231ps, Inst::kIdVfmsub231pd}},
                                        {{Inst::kIdVfnmsub132ps, Inst::kIdVfnmsub132pd},
                                         {Inst::kIdVfnmsub213ps, Inst::kIdVfnmsub213pd},
                                         {Inst::kIdVfnmsub231ps, Inst::kIdVfnmsub231pd}}};
    return ids[n.imm][form][n.size == 8];
  };
  int a = n.in[0], b = n.in[1];
  const int c = n.in[2];
  if (is_memory(a)) std::swap(a, b);
  const Vec x = reg(a);
  Vec& to = registers_[i].v;
  // What is written over: a summand that no other node reads, else a factor, else a copy.
  if (!is_memory(c) && dies(c, i)) {
    to = registers_[c].v;
    cc_.emit(id(F231), to, x, reg_or_memory(b));
  } else if (dies(a, i) && !is_memory(b)) {
    const Vec y = reg(b);
    to = x;
    cc_.emit(id(F213), to, y, reg_or_memory(c));
  } else if (!is_memory(b) && dies(b, i)) {
    to = registers_[b].v;
    cc_.emit(id(F213), to, x, reg_or_memory(c));
  } else if (dies(a, i) && !is_memory(c)) {
    to = x;
    cc_.emit(id(F132), to, reg(c), reg_or_memory(b));
  } else {
    to = vec(n.size);
    if (is_memory(c))
      load_constant(to, c);
    else
      cc_.emit(Inst::kIdVmovaps, to, reg(c));
    cc_.emit(id(F231), to, x, reg_or_memory(b));
  }
}

void Emitter::emit_round(int i) {
  const Node& n = body_.trace[i];
  const Vec to = vec(n.size);
  const asmjit::Operand from = reg_or_memory(n.in[0]);
  if (n.code == Code::Sqrt)
    cc_.emit(by_size(n.size, Inst::kIdVsqrtps, Inst::kIdVsqrtpd), to, from);
  else if (n.code == Code::NearInverse)
    cc_.emit(by_size(n.size, Inst::kIdVrcp14ps, Inst::kIdVrcp14pd), to, from);
  else if (wide())
    cc_.emit(by_size(n.size, Inst::kIdVrndscaleps, Inst::kIdVrndscalepd), to, from, imm(n.imm));
  else
    cc_.emit(by_size(n.size, Inst::kIdVroundps, Inst::kIdVroundpd), to, from, imm(n.imm));
  registers_[i].v = to;
}

void Emitter::emit_shift(int i) {
  const Node& n = body_.trace[i];
  const Vec to = vec(n.size), from = reg(n.in[0]);
  const Id id = n.code == Code::ShiftLeft ? by_size(n.size, Inst::kIdVpslld, Inst::kIdVpsllq)
                                          : by_size(n.size, Inst::kIdVpsrld, Inst::kIdVpsrlq);
  cc_.emit(id, to, from, imm(n.imm));
  registers_[i].v = to;
}

void Emitter::emit_select(int i) {
  const Node& n = body_.trace[i];
  const int yes = n.in[1], no = n.in[2];
  const Vec to = vec(n.size);
  if (!wide()) {
    const Vec other = reg(no);
    cc_.emit(by_size(n.size, Inst::kIdVblendvps, Inst::kIdVblendvpd), to, other, reg_or_memory(yes),
             registers_[n.in[0]].v);
  } else if (body_.trace.is_constant(no) && body_.trace[no].bits == 0) {
    const Vec from = reg(yes);
    cc_.k(registers_[n.in[0]].k)
        .z()
        .emit(by_size(n.size, Inst::kIdVmovaps, Inst::kIdVmovapd), to, from);
  } else {
    const Vec other = reg(no);
    const asmjit::Operand from = reg_or_memory(yes);
    cc_.k(registers_[n.in[0]].k)
        .emit(by_size(n.size, Inst::kIdVblendmps, Inst::kIdVblendmpd), to, other, from);
  }
  registers_[i].v = to;
}

void Emitter::emit_compare(int i) {
  const Node& n = body_.trace[i];
  const bool of_numbers = n.code <= Code::LessEqual;
  const int kind =
      static_cast<int>(n.code) - static_cast<int>(of_numbers ? Code::Equal : Code::IntEqual);
  constexpr int kOrderedQuiet[] = {0x00, 0x11, 0x12};
  if (wide()) {
    const Vec first = reg(n.in[0]);
    const asmjit::Operand second = reg_or_memory(n.in[1]);
    registers_[i].k = cc_.newKw();
    if (of_numbers)
      cc_.emit(by_size(n.size, Inst::kIdVcmpps, Inst::kIdVcmppd), registers_[i].k, first, second,
               imm(kOrderedQuiet[kind]));
    else
      cc_.emit(by_size(n.size, Inst::kIdVpcmpd, Inst::kIdVpcmpq), registers_[i].k, first, second,
               imm(kind));
    return;
  }
  const Vec to = vec(n.size), first = reg(n.in[0]);
  if (of_numbers) {
    cc_.emit(by_size(n.size, Inst::kIdVcmpps, Inst::kIdVcmppd), to, first, reg_or_memory(n.in[1]),
             imm(kOrderedQuiet[kind]));
  } else if (kind == 0) {
    cc_.emit(by_size(n.size, Inst::kIdVpcmpeqd, Inst::kIdVpcmpeqq), to, first,
             reg_or_memory(n.in[1]));
  } else {
    const Id greater = by_size(n.size, Inst::kIdVpcmpgtd, Inst::kIdVpcmpgtq);
    const Vec second = reg(n.in[1]);
    if (kind == 1) {
      cc_.emit(greater, to, second, first);
    } else {
      cc_.emit(greater, to, first, second);
      cc_.emit(Inst::kIdVpxor, to, to, to.isXmm() ? Vec(ones_.xmm()) : Vec(ones_.ymm()));
    }
  }
  registers_[i].v = to;
}

void Emitter::emit_mask(int i) {
  const Node& n = body_.trace[i];
  Registers& to = registers_[i];
  if (wide()) {
    to.k = cc_.newKw();
    switch (n.code) {
      case Code::MaskAnd:
        cc_.emit(Inst::kIdKandw, to.k, registers_[n.in[0]].k, registers_[n.in[1]].k);
        break;
      case Code::MaskOr:
        cc_.emit(Inst::kIdKorw, to.k, registers_[n.in[0]].k, registers_[n.in[1]].k);
        break;
      case Code::MaskNot: cc_.emit(Inst::kIdKnotw, to.k, registers_[n.in[0]].k); break;
      default: {
        const Gp bits = cc_.newInt32();
        cc_.mov(bits, n.bits ? -1 : 0);
        cc_.emit(Inst::kIdKmovw, to.k, bits);
      }
    }
    return;
  }
  to.v = vec(n.size);
  const Vec ones = to.v.isXmm() ? Vec(ones_.xmm()) : Vec(ones_.ymm());
  switch (n.code) {
    case Code::MaskAnd:
      cc_.emit(Inst::kIdVpand, to.v, registers_[n.in[0]].v, registers_[n.in[1]].v);
      break;
    case Code::MaskOr:
      cc_.emit(Inst::kIdVpor, to.v, registers_[n.in[0]].v, registers_[n.in[1]].v);
      break;
    case Code::MaskNot: cc_.emit(Inst::kIdVpxor, to.v, registers_[n.in[0]].v, ones); break;
    default: cc_.emit(n.bits ? Inst::kIdVpcmpeqd : Inst::kIdVpxor, to.v, to.v, to.v);
  }
}

void Emitter::emit_mask_cast(int i) {
  const Node& n = body_.trace[i];
  const Registers& from = registers_[n.in[0]];
  if (wide()) {
    registers_[i].k = cc_.newKw();
    cc_.emit(Inst::kIdKmovw, registers_[i].k, from.k);
    return;
  }
  const Vec to = vec(n.size);
  if (n.size == 8) {
    cc_.emit(Inst::kIdVpmovsxdq, to, from.v);
  } else {
    const Vec high = cc_.newXmm();
    cc_.emit(Inst::kIdVextracti128, high, from.v, imm(1));
    cc_.emit(Inst::kIdVshufps, to, from.v.xmm(), high, imm(0x88));
  }
  registers_[i].v = to;
}

void Emitter::emit_conversion(int i) {
  const Node& n = body_.trace[i];
  const Vec from = reg(n.in[0]), to = vec(n.size);
  switch (n.code) {
    case Code::Widen: cc_.emit(Inst::kIdVcvtps2pd, to, from); break;
    case Code::Narrow: cc_.emit(Inst::kIdVcvtpd2ps, to, from); break;
    case Code::IntToFloat:
      if (!wide()) return refuse();
      cc_.emit(by_size(n.size, Inst::kIdVcvtqq2ps, Inst::kIdVcvtqq2pd), to, from);
      break;
    default: {
      const Vec half = vec_of_bytes(2 * lanes_);
      cc_.emit(Inst::kIdVcvtps2ph, half, from, imm(0));
      cc_.emit(Inst::kIdVcvtph2ps, to, half);
    }
  }
  registers_[i].v = to;
}

}  // namespace moonlet::program::jit
