// tensor/program/jit/neon_memory.cpp: loads and stores of vectors of all dtypes, and of single
// elements.
#include "tensor/program/jit/neon_emitter.h"

namespace moonlet::program::jit {

using namespace asmjit;  // NOLINT(google-build-using-namespace)

namespace {
int width_of(DType dtype) { return static_cast<int>(size_of(dtype)); }
// A register as memory of so many bytes sees it.
a64::Vec part(const a64::Vec& v, int bytes) {
  switch (bytes) {
    case 1: return v.b();
    case 2: return v.h();
    case 4: return v.s();
    case 8: return v.d();
    default: return v.q();
  }
}
// Lane k of so many bytes.
a64::Vec lane(const a64::Vec& v, int width, int k) {
  const auto index = static_cast<uint32_t>(k);
  switch (width) {
    case 1: return v.b(index);
    case 2: return v.h(index);
    case 4: return v.s(index);
    default: return v.d(index);
  }
}
}  // namespace

void NeonEmitter::load_element(const Gp& to, const Gp& from, int width) {
  switch (width) {
    case 1: cc_.ldrb(to.w(), a64::ptr(from)); break;
    case 2: cc_.ldrh(to.w(), a64::ptr(from)); break;
    case 4: cc_.ldr(to.w(), a64::ptr(from)); break;
    default: cc_.ldr(to, a64::ptr(from));
  }
}
void NeonEmitter::store_element(const Gp& from, const Gp& to, int width) {
  switch (width) {
    case 1: cc_.strb(from.w(), a64::ptr(to)); break;
    case 2: cc_.strh(from.w(), a64::ptr(to)); break;
    case 4: cc_.str(from.w(), a64::ptr(to)); break;
    default: cc_.str(from, a64::ptr(to));
  }
}

NeonEmitter::Vec NeonEmitter::load_elements(int i) {
  const Operand& load = operand(i);
  const int width = width_of(load.dtype);
  const Vec to = vec();
  if (step_ == 1 || load.strides[0] == width) {
    cc_.ldr(part(to, width * step_), a64::ptr(at_[i]));
    return to;
  }
  const Gp from = cc_.newIntPtr(), element = cc_.newInt64();
  cc_.mov(from, at_[i]);
  cc_.movi(to.d2(), 0);
  for (int k = 0; k < step_; ++k) {
    load_element(element, from, width);
    cc_.ins(lane(to, width, k), width == 8 ? element : Gp(element.w()));
    if (k + 1 < step_) advance(from, load.strides[0]);
  }
  return to;
}

void NeonEmitter::store_elements(int i, const Vec& from) {
  const Operand& store = operand(i);
  const int width = width_of(store.dtype);
  if (step_ == 1 || store.strides[0] == width) {
    cc_.str(part(from, width * step_), a64::ptr(at_[i]));
    return;
  }
  const Gp to = cc_.newIntPtr(), element = cc_.newInt64();
  cc_.mov(to, at_[i]);
  for (int k = 0; k < step_; ++k) {
    cc_.umov(width == 8 ? element : Gp(element.w()), lane(from, width, k));
    store_element(element, to, width);
    if (k + 1 < step_) advance(to, store.strides[0]);
  }
}

void NeonEmitter::widen(int i, const Vec& x) {
  const Node& n = body_.trace[i];
  registers_[i].v = x;
  switch (body_.loads[n.imm].dtype) {
    case DType::Float32:
    case DType::Float64:
    case DType::Int64: break;
    case DType::Float16: cc_.fcvtl(x.s4(), x.h4()); break;
    case DType::BFloat16: cc_.shll(x.s4(), x.h4(), 16); break;
    case DType::Bool:
      cc_.ushll(x.h8(), x.b8(), 0);
      cc_.ushll(x.s4(), x.h4(), 0);
      cc_.cmtst(x.s4(), x.s4(), x.s4());
      break;
    case DType::UInt8:
      cc_.ushll(x.h8(), x.b8(), 0);
      cc_.ushll(x.s4(), x.h4(), 0);
      cc_.ushll(x.d2(), x.s2(), 0);
      break;
    case DType::Int8: cc_.sshll(x.h8(), x.b8(), 0); [[fallthrough]];
    case DType::Int16: cc_.sshll(x.s4(), x.h4(), 0); [[fallthrough]];
    case DType::Int32: cc_.sshll(x.d2(), x.s2(), 0); break;
    default: refuse();
  }
}

void NeonEmitter::emit_load(int i) { widen(i, load_elements(body_.trace[i].imm)); }

// Integers without their upper bits; of masks a bit is left.
NeonEmitter::Vec NeonEmitter::narrowed_bits(const Operand& store, Vec from) {
  int size = body_.trace[store.node].size;
  const Vec to = vec();
  for (const int width = width_of(store.dtype); size > width; size /= 2, from = to) {
    if (size == 8)
      cc_.xtn(to.s2(), from.d2());
    else if (size == 4)
      cc_.xtn(to.h4(), from.s4());
    else
      cc_.xtn(to.b8(), from.h8());
  }
  return to;
}

NeonEmitter::Vec NeonEmitter::narrowed(const Operand& store) {
  const Vec from = reg(store.node);
  switch (store.dtype) {
    case DType::Float32:
    case DType::Float64:
    case DType::Int64: return from;
    case DType::Float16: {
      const Vec to = vec();
      cc_.fcvtn(to.h4(), from.s4());
      return to;
    }
    case DType::BFloat16: {
      const Vec to = vec();
      cc_.shrn(to.h4(), from.s4(), 16);
      return to;
    }
    case DType::Bool: {
      const Vec to = narrowed_bits(store, from), one = vec();
      cc_.movi(one.b8(), 1);
      cc_.and_(to.b8(), to.b8(), one.b8());
      return to;
    }
    case DType::Int32:
    case DType::Int16:
    case DType::Int8:
    case DType::UInt8: return narrowed_bits(store, from);
    default: refuse(); return from;
  }
}

void NeonEmitter::emit_store(const Operand& store, int at) {
  const Vec elements = narrowed(store);
  if (!refused_) store_elements(at, elements);
}

}  // namespace moonlet::program::jit
