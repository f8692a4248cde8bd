// tensor/program/jit/emitter_memory.cpp: loads and stores of vectors of all dtypes, of whole ones
// and of the last few elements.
#include <algorithm>

#include "tensor/program/jit/emitter.h"

namespace moonlet::program::jit {

using namespace asmjit;  // NOLINT(google-build-using-namespace)
namespace Inst = x86::Inst;

namespace {
int width_of(DType dtype) { return static_cast<int>(size_of(dtype)); }
}  // namespace

void Emitter::emit_load(int i, bool masked) {
  const Node& n = body_.trace[i];
  const Operand& load = body_.loads[n.imm];
  const int width = width_of(load.dtype);
  if (load.strides[0] != width) return emit_gather(i, masked);
  const Mem from = element(n.imm, width);
  if (wide())
    emit_wide_load(i, from);
  else
    emit_narrow_load(i, from, masked);
}

// AVX-512: lanes outside the mask touch no memory.
void Emitter::emit_wide_load(int i, const Mem& from) {
  const Node& n = body_.trace[i];
  Registers& to = registers_[i];
  const DType dtype = body_.loads[n.imm].dtype;
  if (n.code == Code::MaskLoad) {
    const Vec bytes = cc_.newXmm();
    to.k = cc_.newKw();
    cc_.k(tail_).z().emit(Inst::kIdVmovdqu8, bytes, from);
    cc_.emit(Inst::kIdVptestmb, to.k, bytes, bytes);
    return;
  }
  Id id = Inst::kIdNone;
  switch (dtype) {
    case DType::Float32: id = Inst::kIdVmovups; break;
    case DType::Float64: id = Inst::kIdVmovupd; break;
    case DType::Float16: id = Inst::kIdVcvtph2ps; break;
    case DType::BFloat16: id = Inst::kIdVpmovzxwd; break;
    case DType::Int64: id = Inst::kIdVmovdqu64; break;
    case DType::Int32: id = Inst::kIdVpmovsxdq; break;
    case DType::Int16: id = Inst::kIdVpmovsxwq; break;
    case DType::Int8: id = Inst::kIdVpmovsxbq; break;
    case DType::UInt8: id = Inst::kIdVpmovzxbq; break;
    default: return refuse();
  }
  to.v = vec(n.size);
  cc_.k(tail_).z().emit(id, to.v, from);
  if (dtype == DType::BFloat16) cc_.emit(Inst::kIdVpslld, to.v, to.v, imm(16));
}

// Copies what is left of a row, element by element.
void Emitter::copy_tail(const Mem& from, const Mem& to, int width) {
  const Gp k = cc_.newInt64(), left = cc_.newInt64(), element = cc_.newInt64();
  cc_.mov(left, columns_);
  cc_.sub(left, at_);
  cc_.emit(Inst::kIdXor, k.r32(), k.r32());
  const Gp source = cc_.newIntPtr(), target = cc_.newIntPtr();
  cc_.lea(source, from);
  cc_.lea(target, to);
  const uint32_t shift = width == 1 ? 0 : width == 2 ? 1 : 2;
  const Label loop = cc_.newLabel();
  cc_.bind(loop);
  if (width == 1) {
    cc_.mov(element.r8(), x86::byte_ptr(source, k, shift));
    cc_.mov(x86::byte_ptr(target, k, shift), element.r8());
  } else if (width == 2) {
    cc_.mov(element.r16(), x86::word_ptr(source, k, shift));
    cc_.mov(x86::word_ptr(target, k, shift), element.r16());
  } else {
    cc_.mov(element.r32(), x86::dword_ptr(source, k, shift));
    cc_.mov(x86::dword_ptr(target, k, shift), element.r32());
  }
  cc_.inc(k);
  cc_.cmp(k, left);
  cc_.jl(loop);
}

// AVX2: masks for elements of 4 and 8 bytes; of others what is left goes through the stack.
void Emitter::emit_narrow_load(int i, Mem from, bool masked) {
  const Node& n = body_.trace[i];
  Registers& to = registers_[i];
  const DType dtype = body_.loads[n.imm].dtype;
  const int width = width_of(dtype);
  to.v = vec(n.size);
  if (masked && width == n.size) {
    cc_.emit(by_size(n.size, Inst::kIdVmaskmovps, Inst::kIdVmaskmovpd), to.v,
             n.size == 4 ? tail4_ : tail8_, from);
    return;
  }
  if (masked) {
    copy_tail(from, scratch_, width);
    from = scratch_;
    from.setSize(0);
  }
  switch (dtype) {
    case DType::Float32: cc_.emit(Inst::kIdVmovups, to.v, from); break;
    case DType::Float64: cc_.emit(Inst::kIdVmovupd, to.v, from); break;
    case DType::Int64: cc_.emit(Inst::kIdVmovdqu, to.v, from); break;
    case DType::Float16: cc_.emit(Inst::kIdVcvtph2ps, to.v, from); break;
    case DType::Int32: cc_.emit(Inst::kIdVpmovsxdq, to.v, from); break;
    case DType::BFloat16:
      cc_.emit(Inst::kIdVpmovzxwd, to.v, from);
      cc_.emit(Inst::kIdVpslld, to.v, to.v, imm(16));
      break;
    case DType::Bool: {
      const Vec zero = vec(4);
      cc_.emit(Inst::kIdVpmovzxbd, to.v, from);
      cc_.emit(Inst::kIdVpxor, zero, zero, zero);
      cc_.emit(Inst::kIdVpcmpgtd, to.v, to.v, zero);
      break;
    }
    default: refuse();
  }
}

void Emitter::emit_gather(int i, bool masked) {
  const Node& n = body_.trace[i];
  const DType dtype = body_.loads[n.imm].dtype;
  if (width_of(dtype) != n.size || n.code == Code::MaskLoad) return refuse();
  const Vec offsets = lane_offsets(body_.loads[n.imm].strides[0]);
  const Mem from = x86::ptr(gathers_[n.imm], offsets);
  const Vec to = vec(n.size);
  const Id id = by_size(n.size, Inst::kIdVgatherdps, Inst::kIdVgatherdpd);
  cc_.emit(wide() ? Inst::kIdVpxord : Inst::kIdVpxor, to, to, to);
  if (wide()) {
    const KReg lanes = cc_.newKw();
    cc_.emit(Inst::kIdKmovw, lanes, tail_);
    cc_.k(lanes).emit(id, to, from);
  } else {
    const Vec lanes = vec(n.size);
    if (masked)
      cc_.emit(Inst::kIdVmovaps, lanes, n.size == 4 ? tail4_ : tail8_);
    else
      cc_.emit(Inst::kIdVpcmpeqd, lanes, lanes, lanes);
    cc_.emit(id, to, from, lanes);
  }
  registers_[i].v = to;
}

void Emitter::emit_scatter(const Operand& store, int at) {
  const int size = body_.trace[store.node].size;
  if (!wide() || width_of(store.dtype) != size || is_mask(body_.trace[store.node].code))
    return refuse();
  const KReg lanes = cc_.newKw();
  cc_.emit(Inst::kIdKmovw, lanes, tail_);
  const Vec from = reg(store.node);
  cc_.k(lanes).emit(by_size(size, Inst::kIdVscatterdps, Inst::kIdVscatterdpd),
                    x86::ptr(gathers_[at], lane_offsets(store.strides[0])), from);
}

void Emitter::emit_store(const Operand& store, int at, bool masked) {
  const int width = width_of(store.dtype);
  if (store.strides[0] != width) return emit_scatter(store, at);
  const Mem to = element(at, width);
  if (wide())
    emit_wide_store(store, to);
  else
    emit_narrow_store(store, to, masked);
}

// The bytes of 16 bools that are true.
Emitter::Mem Emitter::ones_of_bytes() {
  uint8_t ones[16];
  std::fill_n(ones, 16, uint8_t{1});
  Mem memory = cc_.newConst(ConstPoolScope::kLocal, ones, sizeof ones);
  memory.setSize(0);
  return memory;
}

void Emitter::emit_wide_store(const Operand& store, const Mem& to) {
  const int node = store.node;
  if (store.dtype == DType::Bool) {
    const Vec bytes = cc_.newXmm();
    cc_.k(registers_[node].k).z().emit(Inst::kIdVmovdqu8, bytes, ones_of_bytes());
    cc_.k(tail_).emit(Inst::kIdVmovdqu8, to, bytes);
    return;
  }
  Vec from = reg(node);
  switch (store.dtype) {
    case DType::Float32: cc_.k(tail_).emit(Inst::kIdVmovups, to, from); break;
    case DType::Float64: cc_.k(tail_).emit(Inst::kIdVmovupd, to, from); break;
    case DType::Float16: cc_.k(tail_).emit(Inst::kIdVcvtps2ph, to, from, imm(0)); break;
    case DType::BFloat16: {
      const Vec high = vec(4);
      cc_.emit(Inst::kIdVpsrld, high, from, imm(16));
      cc_.k(tail_).emit(Inst::kIdVpmovdw, to, high);
      break;
    }
    case DType::Int64: cc_.k(tail_).emit(Inst::kIdVmovdqu64, to, from); break;
    case DType::Int32: cc_.k(tail_).emit(Inst::kIdVpmovqd, to, from); break;
    case DType::Int16: cc_.k(tail_).emit(Inst::kIdVpmovqw, to, from); break;
    case DType::Int8:
    case DType::UInt8: cc_.k(tail_).emit(Inst::kIdVpmovqb, to, from); break;
    default: refuse();
  }
}

void Emitter::emit_narrow_store(const Operand& store, Mem to, bool masked) {
  const int size = body_.trace[store.node].size, width = width_of(store.dtype);
  if (width == size) {
    const Vec from = reg(store.node);
    if (masked)
      cc_.emit(by_size(size, Inst::kIdVmaskmovps, Inst::kIdVmaskmovpd), to,
               size == 4 ? tail4_ : tail8_, from);
    else
      cc_.emit(by_size(size, Inst::kIdVmovups, Inst::kIdVmovupd), to, from);
    return;
  }
  if (!masked) return store_narrowed(store, to);
  Mem scratch = scratch_;
  scratch.setSize(0);
  store_narrowed(store, scratch);
  copy_tail(scratch_, to, width);
}

// The lanes of 4 bytes as words.
Emitter::Vec Emitter::packed(const Vec& x, Id id) {
  const Vec low = cc_.newXmm();
  if (lanes_ == 8) {
    const Vec high = cc_.newXmm();
    cc_.emit(Inst::kIdVextracti128, high, x, imm(1));
    cc_.emit(id, low, x.xmm(), high);
  } else {
    cc_.emit(id, low, x.xmm(), x.xmm());
  }
  return low;
}

// A whole vector on AVX2 as elements of 1 or 2 bytes.
void Emitter::store_narrowed(const Operand& store, const Mem& to) {
  const Vec from = reg(store.node);
  Vec low;
  int bytes = 2 * lanes_;
  if (store.dtype == DType::Float16) {
    low = cc_.newXmm();
    cc_.emit(Inst::kIdVcvtps2ph, low, from, imm(0));
  } else if (store.dtype == DType::BFloat16) {
    const Vec high = vec(4);
    cc_.emit(Inst::kIdVpsrld, high, from, imm(16));
    low = packed(high, Inst::kIdVpackusdw);
  } else if (store.dtype == DType::Bool) {
    Vec mask = from;
    if (body_.trace[store.node].size == 8) {
      mask = cc_.newXmm();
      const Vec high = cc_.newXmm();
      cc_.emit(Inst::kIdVextracti128, high, from, imm(1));
      cc_.emit(Inst::kIdVshufps, mask, from.xmm(), high, imm(0x88));
    }
    low = packed(mask, Inst::kIdVpackssdw);
    cc_.emit(Inst::kIdVpacksswb, low, low, low);
    cc_.emit(Inst::kIdVpand, low, low, ones_of_bytes());
    bytes = lanes_;
  } else {
    return refuse();
  }
  cc_.emit(bytes == 16 ? Inst::kIdVmovups : bytes == 8 ? Inst::kIdVmovq : Inst::kIdVmovd, to, low);
}

}  // namespace moonlet::program::jit
