// tensor/program/jit/emitter.cpp: the loops, and where nodes are kept.
#include "tensor/program/jit/emitter.h"

#include <algorithm>

namespace moonlet::program::jit {

using namespace asmjit;  // NOLINT(google-build-using-namespace)
namespace Inst = x86::Inst;

namespace {
// Chains of so many nodes wait for their own results; shorter ones wait for memory.
constexpr int kLongChain = 16;
// So many values of each of two vectors find registers, beside constants. Measured: the chain of
// four tanh, which has 12, takes 0.75 of the time.
constexpr int kFewAlive = 12;
}  // namespace

Emitter::Vec Emitter::vec_of_bytes(int bytes) {
  if (bytes > 32) return cc_.newZmm();
  if (bytes > 16) return cc_.newYmm();
  return cc_.newXmm();
}

// A constant for all lanes: broadcast by the instruction on AVX-512, whole on AVX2.
Emitter::Mem Emitter::constant_memory(int size, uint64_t bits) {
  if (wide()) {
    Mem memory = cc_.newConst(ConstPoolScope::kLocal, &bits, static_cast<size_t>(size));
    memory.setSize(0);
    memory.setBroadcast(lanes_ == 16 ? Mem::Broadcast::k1To16 : Mem::Broadcast::k1To8);
    return memory;
  }
  uint64_t lanes[4];
  const auto half = static_cast<uint32_t>(bits);
  for (uint64_t& each : lanes) each = size == 8 ? bits : uint64_t{half} << 32 | half;
  Mem memory = cc_.newConst(ConstPoolScope::kLocal, lanes, static_cast<size_t>(lanes_ * size));
  memory.setSize(0);
  return memory;
}

void Emitter::find_last_uses() {
  const Trace& trace = body_.trace;
  last_use_.assign(static_cast<size_t>(trace.size()), -1);
  for (int i = 0; i < trace.size(); ++i)
    for (const int32_t in : trace[i].in)
      if (in >= 0) last_use_[in] = i;
  for (const Operand& store : body_.stores) last_use_[store.node] = trace.size();
}

bool Emitter::dies(int node, int at) const {
  return last_use_[node] == at && !registers_[node].lasts && !is_memory(node);
}
bool Emitter::is_memory(int node) const {
  return body_.trace.is_constant(node) && !registers_[node].lasts;
}

void Emitter::load_constant(const Vec& to, int node) {
  const Node& n = body_.trace[node];
  if (n.bits == 0) {
    if (wide())
      cc_.emit(Inst::kIdVpxord, to, to, to);
    else
      cc_.emit(Inst::kIdVpxor, to, to, to);
    return;
  }
  Mem from = constant_memory(n.size, n.bits);
  from.resetBroadcast();
  if (!wide())
    cc_.emit(Inst::kIdVmovaps, to, from);
  else if (n.size == 4)
    cc_.emit(Inst::kIdVbroadcastss, to, from);
  else if (to.isXmm())
    cc_.emit(Inst::kIdVmovddup, to, from);
  else
    cc_.emit(Inst::kIdVbroadcastsd, to, from);
}

Emitter::Vec Emitter::reg(int node) {
  if (!is_memory(node)) return registers_[node].v;
  const Vec to = vec(body_.trace[node].size);
  load_constant(to, node);
  return to;
}
asmjit::Operand Emitter::reg_or_memory(int node) {
  if (!is_memory(node)) return registers_[node].v;
  const Node& n = body_.trace[node];
  return constant_memory(n.size, n.bits);
}

// Whether all elements of a row are one, or lie one behind the other.
bool Emitter::is_dense() const {
  const int count = static_cast<int>(body_.loads.size() + body_.stores.size());
  for (int i = 0; i < count; ++i) {
    const int64_t stride = operand(i).strides[0];
    if (stride != 0 && stride != static_cast<int64_t>(size_of(operand(i).dtype))) return false;
  }
  return true;
}

// The most values that are in registers at once, without constants.
int Emitter::most_alive() const {
  int alive = 0, most = 0;
  const Trace& trace = body_.trace;
  std::vector<std::vector<int>> end(static_cast<size_t>(trace.size()) + 1);
  for (int i = 0; i < trace.size(); ++i)
    if (!trace.is_constant(i) && last_use_[i] >= 0) end[last_use_[i]].push_back(i);
  for (int i = 0; i < trace.size(); ++i) {
    if (!trace.is_constant(i)) most = std::max(most, ++alive);
    alive -= static_cast<int>(end[i].size());
  }
  return most;
}

int Emitter::vectors_at_once() const {
  if (!wide() || !body_.long_rows || !is_dense()) return 1;
  int computed = 0;
  for (int i = 0; i < body_.trace.size(); ++i) computed += body_.trace.is_constant(i) ? 0 : 1;
  return computed >= kLongChain && most_alive() <= kFewAlive ? 2 : 1;
}

void Emitter::turn_to(int vector) {
  if (vector == vector_) return;
  vector_ = vector;
  std::swap(registers_, other_registers_);
  std::swap(tail_, other_tail_);
}

// The constants that are used most often stay in registers.
void Emitter::load_constants() {
  const Trace& trace = body_.trace;
  std::vector<std::pair<int, int>> uses;  // how often, of which
  std::vector<int> count(static_cast<size_t>(trace.size()), 0);
  for (int i = 0; i < trace.size(); ++i)
    for (const int32_t in : trace[i].in)
      if (in >= 0) ++count[in];
  for (const Operand& store : body_.stores) count[store.node] += 2;
  for (int i = 0; i < trace.size(); ++i)
    if (trace.is_constant(i)) uses.emplace_back(-count[i], i);
  std::sort(uses.begin(), uses.end());
  const size_t most = vectors_ > 1 ? 8 : wide() ? 10 : 3;
  for (size_t k = 0; k < uses.size() && k < most; ++k) {
    Registers& kept = registers_[uses[k].second];
    kept.v = vec(trace[uses[k].second].size);
    load_constant(kept.v, uses[k].second);
    kept.lasts = true;
  }
}

const Operand& Emitter::operand(int i) const {
  const int loads = static_cast<int>(body_.loads.size());
  return i < loads ? body_.loads[i] : body_.stores[i - loads];
}

void Emitter::load_addresses() {
  const int count = static_cast<int>(body_.loads.size() + body_.stores.size());
  for (int i = 0; i < count; ++i) {
    bases_.push_back(cc_.newInt64());
    cc_.mov(bases_.back(), x86::ptr(addresses_, 8 * i));
    gathers_.push_back(cc_.newInt64());
  }
}

Emitter::Mem Emitter::element(int operand, int width) {
  const uint32_t shift = width == 1 ? 0 : width == 2 ? 1 : width == 4 ? 2 : 3;
  return x86::ptr(bases_[operand], at_, shift, vector_ * lanes_ * width);
}

Emitter::Vec Emitter::lane_offsets(int64_t stride) {
  for (const auto& [known, offsets] : offsets_)
    if (known == stride) return offsets;
  refuse();
  return vec(4);
}

void Emitter::start_row() {
  const int count = static_cast<int>(bases_.size());
  for (int i = 0; i < count; ++i) {
    const int64_t stride = operand(i).strides[0];
    if (stride != 0 && stride != static_cast<int64_t>(size_of(operand(i).dtype)))
      cc_.mov(gathers_[i], bases_[i]);
  }
  for (int i = 0; i < body_.trace.size(); ++i) {
    const Node& n = body_.trace[i];
    const bool loads = n.code == Code::Load || n.code == Code::MaskLoad;
    if (loads && body_.loads[n.imm].strides[0] == 0) load_broadcast(i);
  }
}

// One element for all lanes.
void Emitter::load_broadcast(int i) {
  const Node& n = body_.trace[i];
  const Mem from = x86::ptr(bases_[n.imm]);
  Registers& kept = registers_[i];
  const bool first = !kept.lasts;
  kept.lasts = true;
  if (first) {
    if (n.code == Code::MaskLoad && wide())
      kept.k = cc_.newKw();
    else
      kept.v = vec(n.size);
  }
  const Gp element = cc_.newInt64();
  const DType dtype = body_.loads[n.imm].dtype;
  const auto fill = [&](Id of_xmm) {
    const Vec x = cc_.newXmm();
    cc_.emit(n.size == 4 ? Inst::kIdVmovd : Inst::kIdVmovq, x,
             n.size == 4 ? asmjit::Operand(element.r32()) : asmjit::Operand(element));
    cc_.emit(of_xmm, kept.v, x);
  };
  switch (dtype) {
    case DType::Float32: cc_.emit(Inst::kIdVbroadcastss, kept.v, from); break;
    case DType::Float64: cc_.emit(Inst::kIdVbroadcastsd, kept.v, from); break;
    case DType::Bool:
      cc_.emit(Inst::kIdMovzx, element.r32(), x86::byte_ptr(bases_[n.imm]));
      cc_.neg(element.r32());
      if (wide())
        cc_.emit(Inst::kIdKmovw, kept.k, element.r32());
      else
        fill(Inst::kIdVpbroadcastd);
      break;
    case DType::BFloat16:
      cc_.emit(Inst::kIdMovzx, element.r32(), x86::word_ptr(bases_[n.imm]));
      cc_.shl(element.r32(), 16);
      fill(Inst::kIdVpbroadcastd);
      break;
    case DType::Float16: {
      const Vec x = cc_.newXmm();
      cc_.emit(Inst::kIdMovzx, element.r32(), x86::word_ptr(bases_[n.imm]));
      cc_.emit(Inst::kIdVmovd, x, element.r32());
      cc_.emit(Inst::kIdVcvtph2ps, x, x);
      cc_.emit(Inst::kIdVbroadcastss, kept.v, x);
      break;
    }
    case DType::Int64:
      cc_.mov(element, from);
      fill(Inst::kIdVpbroadcastq);
      break;
    case DType::Int32:
      cc_.movsxd(element, x86::dword_ptr(bases_[n.imm]));
      fill(Inst::kIdVpbroadcastq);
      break;
    case DType::UInt8:
      cc_.emit(Inst::kIdMovzx, element.r32(), x86::byte_ptr(bases_[n.imm]));
      fill(Inst::kIdVpbroadcastq);
      break;
    default: refuse();
  }
}

void Emitter::emit_nodes(bool masked) {
  const Trace& trace = body_.trace;
  if (vectors_ > 1) other_registers_ = registers_;
  for (int i = 0; i < trace.size() && !refused_; ++i) {
    if (trace.is_constant(i) || registers_[i].lasts) continue;
    for (int vector = 0; vector < vectors_; ++vector) {
      turn_to(vector);
      if (trace[i].code == Code::Load || trace[i].code == Code::MaskLoad)
        emit_load(i, masked);
      else
        emit_node(i);
    }
  }
  for (size_t k = 0; k < body_.stores.size() && !refused_; ++k)
    for (int vector = 0; vector < vectors_; ++vector) {
      turn_to(vector);
      emit_store(body_.stores[k], static_cast<int>(body_.loads.size() + k), masked);
    }
  turn_to(0);
  for (size_t i = 0; i < bases_.size(); ++i) {
    const auto& each = operand(static_cast<int>(i));
    if (each.strides[0] == 0 || each.strides[0] == static_cast<int64_t>(size_of(each.dtype)))
      continue;
    cc_.add(gathers_[i], static_cast<int32_t>(lanes_ * each.strides[0]));
  }
}

// The lanes of the elements that are left.
void Emitter::make_tail_masks() {
  const Gp left = cc_.newInt64();
  cc_.mov(left, columns_);
  cc_.sub(left, at_);
  if (wide()) {
    const Gp bits = cc_.newInt64(), first = cc_.newInt32();
    cc_.mov(bits, -1);
    cc_.bzhi(bits, bits, left);
    cc_.mov(first, (1 << lanes_) - 1);
    cc_.emit(Inst::kIdAnd, first, bits.r32());
    cc_.emit(Inst::kIdKmovw, tail_, first);
    if (vectors_ == 1) return;
    cc_.shr(bits, lanes_);
    cc_.emit(Inst::kIdKmovw, other_tail_, bits.r32());
    return;
  }
  const uint32_t lanes4[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  const uint64_t lanes8[4] = {0, 1, 2, 3};
  const Vec count = cc_.newXmm();
  cc_.emit(Inst::kIdVmovq, count, left);
  cc_.emit(Inst::kIdVpbroadcastd, tail4_, count);
  Mem numbers = cc_.newConst(ConstPoolScope::kLocal, lanes4, static_cast<size_t>(4 * lanes_));
  numbers.setSize(0);
  cc_.emit(Inst::kIdVpcmpgtd, tail4_, tail4_, numbers);
  if (lanes_ != 4) return;
  cc_.emit(Inst::kIdVpbroadcastq, tail8_, count);
  Mem wide_numbers = cc_.newConst(ConstPoolScope::kLocal, lanes8, sizeof lanes8);
  wide_numbers.setSize(0);
  cc_.emit(Inst::kIdVpcmpgtq, tail8_, tail8_, wide_numbers);
}

// On AVX-512 the last vector goes through the same instructions under a mask; AVX2 has masks for
// memory only, which cost time, so that it gets a body of its own.
void Emitter::emit_loop() {
  const Label loop = cc_.newLabel(), body = cc_.newLabel(), tail = cc_.newLabel(),
              end = cc_.newLabel();
  const Gp last = cc_.newInt64();
  const int step = vectors_ * lanes_;
  cc_.mov(last, columns_);
  cc_.sub(last, step);
  cc_.emit(Inst::kIdXor, at_.r32(), at_.r32());
  if (wide()) {
    const Gp bits = cc_.newInt32();
    cc_.mov(bits, (1 << lanes_) - 1);
    cc_.emit(Inst::kIdKmovw, tail_, bits);
    if (vectors_ > 1) cc_.emit(Inst::kIdKmovw, other_tail_, bits);
  }
  cc_.bind(loop);
  cc_.cmp(at_, last);
  cc_.jg(tail);
  if (wide()) cc_.bind(body);
  emit_nodes(false);
  cc_.add(at_, step);
  cc_.cmp(at_, columns_);
  cc_.jl(loop);
  cc_.jmp(end);
  cc_.bind(tail);
  make_tail_masks();
  if (wide())
    cc_.jmp(body);
  else
    emit_nodes(true);
  cc_.bind(end);
}

void Emitter::end_row() {
  for (size_t i = 0; i < bases_.size(); ++i) {
    const int64_t stride = operand(static_cast<int>(i)).strides[1];
    if (stride == 0) continue;
    if (stride == static_cast<int32_t>(stride)) {
      cc_.add(bases_[i], static_cast<int32_t>(stride));
    } else {
      const Gp step = cc_.newInt64();
      cc_.mov(step, stride);
      cc_.add(bases_[i], step);
    }
  }
}

bool Emitter::emit() {
  lanes_ = body_.lanes();
  registers_.assign(static_cast<size_t>(body_.trace.size()), {});
  FuncNode* function =
      cc_.addFunc(FuncSignatureT<void, const void*, int64_t, int64_t>(CallConvId::kHost));
  function->frame().setAvxEnabled();
  function->frame().setAvxCleanup();
  if (wide()) function->frame().setAvx512Enabled();
  addresses_ = cc_.newIntPtr();
  columns_ = cc_.newInt64();
  rows_ = cc_.newInt64();
  at_ = cc_.newInt64();
  function->setArg(0, addresses_);
  function->setArg(1, columns_);
  function->setArg(2, rows_);
  find_last_uses();
  vectors_ = vectors_at_once();
  load_addresses();
  load_constants();
  for (size_t i = 0; i < bases_.size(); ++i) {
    const auto& each = operand(static_cast<int>(i));
    const int64_t stride = each.strides[0];
    if (stride == 0 || stride == static_cast<int64_t>(size_of(each.dtype))) continue;
    if (std::abs(stride) >= int64_t{1} << 26) return false;
    if (std::any_of(offsets_.begin(), offsets_.end(), [&](auto& o) { return o.first == stride; }))
      continue;
    int32_t offsets[16];
    for (int k = 0; k < 16; ++k) offsets[k] = static_cast<int32_t>(k * stride);
    const Vec to = vec(4);
    Mem from = cc_.newConst(ConstPoolScope::kLocal, offsets, static_cast<size_t>(4 * lanes_));
    from.setSize(0);
    cc_.emit(Inst::kIdVmovups, to, from);
    offsets_.emplace_back(stride, to);
  }
  if (wide()) {
    tail_ = cc_.newKw();
    if (vectors_ > 1) other_tail_ = cc_.newKw();
  } else {
    scratch_ = cc_.newStack(32, 32);
    tail4_ = vec(4);
    if (lanes_ == 4) tail8_ = vec(8);
    ones_ = cc_.newYmm();
    cc_.emit(Inst::kIdVpcmpeqd, ones_, ones_, ones_);
  }
  const Label row = cc_.newLabel();
  cc_.bind(row);
  start_row();
  emit_loop();
  end_row();
  cc_.sub(rows_, 1);
  cc_.jnz(row);
  cc_.endFunc();
  return !refused_ && cc_.finalize() == kErrorOk;
}

}  // namespace moonlet::program::jit
