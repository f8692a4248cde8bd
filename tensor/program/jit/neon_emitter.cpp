// tensor/program/jit/neon_emitter.cpp: the loops, and where nodes are kept.
#include "tensor/program/jit/neon_emitter.h"

#include <algorithm>

namespace moonlet::program::jit {

using namespace asmjit;  // NOLINT(google-build-using-namespace)

namespace {
// Of the 32 registers, those that are left to what a node needs besides its own.
constexpr int kSpare = 4;
constexpr int kRegisters = 32;
}  // namespace

NeonEmitter::Vec NeonEmitter::lanes_of(const Vec& v, int size) {
  return size == 4 ? Vec(v.s4()) : Vec(v.d2());
}

void NeonEmitter::find_last_uses() {
  const Trace& trace = body_.trace;
  last_use_.assign(static_cast<size_t>(trace.size()), -1);
  for (int i = 0; i < trace.size(); ++i)
    for (const int32_t in : trace[i].in)
      if (in >= 0) last_use_[in] = i;
  for (const Operand& store : body_.stores) last_use_[store.node] = trace.size();
}

bool NeonEmitter::dies(int node, int at) const {
  return last_use_[node] == at && !registers_[node].lasts && !body_.trace.is_constant(node);
}

// The most values that are in registers at once, without constants.
int NeonEmitter::most_alive() const {
  const Trace& trace = body_.trace;
  std::vector<int> ends(static_cast<size_t>(trace.size()) + 1, 0);
  int alive = 0, most = 0;
  for (int i = 0; i < trace.size(); ++i)
    if (!trace.is_constant(i) && last_use_[i] >= 0) ++ends[last_use_[i]];
  for (int i = 0; i < trace.size(); ++i) {
    if (!trace.is_constant(i)) most = std::max(most, ++alive);
    alive -= ends[i];
  }
  return most;
}

void NeonEmitter::load_constant(const Vec& to, int node) {
  const Node& n = body_.trace[node];
  if (n.bits == 0) {
    cc_.movi(to.d2(), 0);
    return;
  }
  const Gp bits = n.size == 4 ? cc_.newUInt32() : cc_.newUInt64();
  cc_.mov(bits, n.bits);
  cc_.dup(lanes_of(to, n.size), bits);
}

NeonEmitter::Vec NeonEmitter::reg(int node) {
  if (!body_.trace.is_constant(node) || registers_[node].lasts) return registers_[node].v;
  const Vec to = vec();
  load_constant(to, node);
  return to;
}

NeonEmitter::Vec NeonEmitter::taken(int node, int at) {
  const Vec from = reg(node);
  const bool on_the_spot = body_.trace.is_constant(node) && !registers_[node].lasts;
  if (on_the_spot || dies(node, at)) return from;
  const Vec to = vec();
  cc_.mov(to.b16(), from.b16());
  return to;
}

// The constants that are used most often stay in registers.
void NeonEmitter::load_constants() {
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
  const int most = std::max(3, kRegisters - kSpare - most_alive());
  for (size_t k = 0; k < uses.size() && static_cast<int>(k) < most; ++k) {
    Register& kept = registers_[uses[k].second];
    kept.v = vec();
    load_constant(kept.v, uses[k].second);
    kept.lasts = true;
  }
}

const Operand& NeonEmitter::operand(int i) const {
  const int loads = static_cast<int>(body_.loads.size());
  return i < loads ? body_.loads[i] : body_.stores[i - loads];
}

void NeonEmitter::load_addresses() {
  const int count = static_cast<int>(body_.loads.size() + body_.stores.size());
  for (int i = 0; i < count; ++i) {
    rows_at_.push_back(cc_.newIntPtr());
    at_.push_back(cc_.newIntPtr());
    cc_.ldr(rows_at_[i], a64::ptr(addresses_, 8 * i));
  }
}

void NeonEmitter::advance(const Gp& address, int64_t bytes) {
  if (bytes == 0) return;
  if (bytes > 0 && bytes < 4096) {
    cc_.add(address, address, bytes);
  } else if (bytes < 0 && bytes > -4096) {
    cc_.sub(address, address, -bytes);
  } else {
    const Gp step = cc_.newInt64();
    cc_.mov(step, bytes);
    cc_.add(address, address, step);
  }
}

void NeonEmitter::start_row() {
  for (size_t i = 0; i < at_.size(); ++i) cc_.mov(at_[i], rows_at_[i]);
  for (int i = 0; i < body_.trace.size(); ++i) {
    const Node& n = body_.trace[i];
    const bool loads = n.code == Code::Load || n.code == Code::MaskLoad;
    if (loads && body_.loads[n.imm].strides[0] == 0) load_broadcast(i);
  }
}

// One element for all lanes.
void NeonEmitter::load_broadcast(int i) {
  Register& kept = registers_[i];
  const Vec before = kept.v;
  const bool first = !kept.lasts;
  step_ = 1;
  widen(i, load_elements(body_.trace[i].imm));
  if (refused_) return;
  const Vec one = registers_[i].v;
  kept.v = first ? vec() : before;
  kept.lasts = true;
  if (body_.trace[i].size == 4)
    cc_.dup(kept.v.s4(), one.s(0));
  else
    cc_.dup(kept.v.d2(), one.d(0));
}

void NeonEmitter::emit_nodes() {
  const Trace& trace = body_.trace;
  for (int i = 0; i < trace.size() && !refused_; ++i) {
    if (trace.is_constant(i) || registers_[i].lasts) continue;
    if (trace[i].code == Code::Load || trace[i].code == Code::MaskLoad)
      emit_load(i);
    else
      emit_node(i);
  }
  for (size_t k = 0; k < body_.stores.size() && !refused_; ++k)
    emit_store(body_.stores[k], static_cast<int>(body_.loads.size() + k));
  for (size_t i = 0; i < at_.size(); ++i)
    advance(at_[i], step_ * operand(static_cast<int>(i)).strides[0]);
}

// What is left behind the last whole vector goes through the same instructions, one element at a
// time.
void NeonEmitter::emit_loop() {
  const Label loop = cc_.newLabel(), tail = cc_.newLabel(), end = cc_.newLabel();
  const Gp left = cc_.newInt64();
  cc_.mov(left, columns_);
  cc_.bind(loop);
  cc_.cmp(left, lanes_);
  cc_.b_lt(tail);
  step_ = lanes_;
  emit_nodes();
  cc_.sub(left, left, lanes_);
  cc_.b(loop);
  cc_.bind(tail);
  cc_.cbz(left, end);
  step_ = 1;
  emit_nodes();
  cc_.sub(left, left, 1);
  cc_.b(tail);
  cc_.bind(end);
}

void NeonEmitter::end_row() {
  for (size_t i = 0; i < rows_at_.size(); ++i)
    advance(rows_at_[i], operand(static_cast<int>(i)).strides[1]);
}

bool NeonEmitter::emit() {
  lanes_ = body_.lanes();
  registers_.assign(static_cast<size_t>(body_.trace.size()), {});
  FuncNode* function =
      cc_.addFunc(FuncSignatureT<void, const void*, int64_t, int64_t>(CallConvId::kHost));
  addresses_ = cc_.newIntPtr();
  columns_ = cc_.newInt64();
  rows_ = cc_.newInt64();
  function->setArg(0, addresses_);
  function->setArg(1, columns_);
  function->setArg(2, rows_);
  find_last_uses();
  load_addresses();
  load_constants();
  const Label row = cc_.newLabel();
  cc_.bind(row);
  start_row();
  emit_loop();
  end_row();
  cc_.sub(rows_, rows_, 1);
  cc_.cbnz(rows_, row);
  cc_.endFunc();
  return !refused_ && cc_.finalize() == kErrorOk;
}

}  // namespace moonlet::program::jit
