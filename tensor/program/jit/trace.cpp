// tensor/program/jit/trace.cpp: traces: constants folded, equal nodes joined, products and sums
// contracted.
#include "tensor/program/jit/trace.h"

#include <bit>
#include <cmath>
#include <utility>

namespace moonlet::program::jit {

namespace {

double number(const Node& n) {
  return n.size == 4 ? std::bit_cast<float>(static_cast<uint32_t>(n.bits))
                     : std::bit_cast<double>(n.bits);
}
uint64_t bits_of(double value, int size) {
  return size == 4 ? std::bit_cast<uint32_t>(static_cast<float>(value))
                   : std::bit_cast<uint64_t>(value);
}

// Of float32 in float64 and then rounded: the same as rounded once, for these.
bool arithmetic(Code code, double a, double b, double& result) {
  switch (code) {
    case Code::Add: result = a + b; return true;
    case Code::Sub: result = a - b; return true;
    case Code::Mul: result = a * b; return true;
    case Code::Div: result = a / b; return true;
    case Code::Min: result = a < b ? a : b; return true;
    case Code::Max: result = a > b ? a : b; return true;
    default: return false;
  }
}
bool bitwise(Code code, uint64_t a, uint64_t b, uint64_t& result) {
  switch (code) {
    case Code::And: result = a & b; return true;
    case Code::Or: result = a | b; return true;
    case Code::Xor: result = a ^ b; return true;
    case Code::AndNot: result = ~a & b; return true;
    case Code::IntAdd: result = a + b; return true;
    case Code::IntSub: result = a - b; return true;
    default: return false;
  }
}
bool comparison(Code code, double a, double b, bool& result) {
  switch (code) {
    case Code::Equal: result = a == b; return true;
    case Code::Less: result = a < b; return true;
    case Code::LessEqual: result = a <= b; return true;
    default: return false;
  }
}

}  // namespace

bool is_mask(Code code) { return code >= Code::Equal && code <= Code::MaskLoad; }

int Trace::add(Code code, int size, int a, int b, int c, int imm) {
  Node node;
  node.code = code;
  node.size = static_cast<uint8_t>(size);
  node.imm = static_cast<uint8_t>(imm);
  node.in[0] = a, node.in[1] = b, node.in[2] = c;
  return add(node);
}

int Trace::constant(int size, uint64_t bits) {
  Node node;
  node.size = static_cast<uint8_t>(size);
  node.bits = size == 4 ? static_cast<uint32_t>(bits) : bits;
  return add(node);
}

int Trace::add(Node node) {
  // A mask is taken for elements of the size at hand.
  const auto cast = [&](int k) {
    if (nodes_[node.in[k]].size != node.size)
      node.in[k] = add(Code::MaskCast, node.size, node.in[k]);
  };
  if (node.code == Code::Select || node.code == Code::MaskAnd || node.code == Code::MaskOr) cast(0);
  if (node.code == Code::MaskAnd || node.code == Code::MaskOr) cast(1);
  if (const int same = folded(node); same >= 0) return same;
  const auto found = known_.find(node);
  if (found != known_.end()) return found->second;
  node.block = block_;
  const int at = size();
  nodes_.push_back(node);
  known_.emplace(node, at);
  return at;
}

int Trace::mask_constant(int size, bool value) {
  Node known;
  known.code = Code::MaskConstant;
  known.size = static_cast<uint8_t>(size);
  known.bits = value;
  return add(known);
}

// The node that another form of this one is, or -1.
int Trace::folded(const Node& node) {
  const auto constant_at = [&](int k) -> const Node* {
    return node.in[k] >= 0 && is_constant(node.in[k]) ? &nodes_[node.in[k]] : nullptr;
  };
  const Node *a = constant_at(0), *b = constant_at(1);
  if (a && b) {
    double value;
    uint64_t bits;
    bool truth;
    if (arithmetic(node.code, number(*a), number(*b), value)) {
      // What has no digits to round keeps its signs and payloads to the processor.
      if (value == value) return constant(node.size, bits_of(value, node.size));
    } else if (bitwise(node.code, a->bits, b->bits, bits)) {
      return constant(node.size, bits);
    } else if (comparison(node.code, number(*a), number(*b), truth)) {
      return mask_constant(node.size, truth);
    }
  }
  if (node.code == Code::Mul && b && number(*b) == 1) return node.in[0];
  if (node.code == Code::Mul && a && number(*a) == 1) return node.in[1];
  if (node.code == Code::Div && b && number(*b) == 1) return node.in[0];
  if ((node.code == Code::Equal || node.code == Code::IntEqual) && b)
    return folded_equality(node, *b);
  return folded_mask(node);
}

int Trace::folded_mask(const Node& node) {
  const auto known_at = [&](int k) { return nodes_[node.in[k]].code == Code::MaskConstant; };
  const auto value_at = [&](int k) { return nodes_[node.in[k]].bits != 0; };
  switch (node.code) {
    case Code::MaskNot:
      if (known_at(0)) return mask_constant(node.size, !value_at(0));
      return nodes_[node.in[0]].code == Code::MaskNot ? nodes_[node.in[0]].in[0] : -1;
    case Code::MaskCast:
      if (known_at(0)) return mask_constant(node.size, value_at(0));
      return nodes_[node.in[0]].size == node.size ? node.in[0] : -1;
    case Code::Select:
      if (known_at(0)) return node.in[value_at(0) ? 1 : 2];
      return node.in[1] == node.in[2] ? node.in[1] : -1;
    case Code::MaskAnd:
    case Code::MaskOr: {
      const bool is_and = node.code == Code::MaskAnd;
      for (int k = 0; k < 2; ++k)
        if (known_at(k))
          return value_at(k) == is_and ? node.in[1 - k] : mask_constant(node.size, !is_and);
      return node.in[0] == node.in[1] ? node.in[0] : -1;
    }
    default: return -1;
  }
}

// A mask as numbers, compared with one, is the mask again.
int Trace::folded_equality(const Node& node, const Node& with) {
  const Node first = nodes_[node.in[0]];
  if (first.code != Code::Select || !is_constant(first.in[1]) || !is_constant(first.in[2]))
    return -1;
  const auto equals = [&](int which) {
    return node.code == Code::Equal ? number(nodes_[which]) == number(with)
                                    : nodes_[which].bits == with.bits;
  };
  const bool yes = equals(first.in[1]), no = equals(first.in[2]);
  if (yes == no) return mask_constant(node.size, yes);
  return yes ? first.in[0] : add(Code::MaskNot, nodes_[first.in[0]].size, first.in[0]);
}

std::vector<bool> Trace::needed(const std::vector<int>& results) const {
  std::vector<bool> is_needed(nodes_.size(), false);
  for (const int result : results) is_needed[result] = true;
  for (int i = size() - 1; i >= 0; --i)
    if (is_needed[i])
      for (const int32_t in : nodes_[i].in)
        if (in >= 0) is_needed[in] = true;
  return is_needed;
}

// As GCC contracts: from the first product on, each that is only used by sums and differences of
// its own block, once in each, becomes part of all of these.
void Trace::contract(const std::vector<int>& results) {
  // Of two factors or summands the first is the one that was computed first, and inputs are last,
  // as GCC orders them: of two NaN an instruction gives the first.
  const auto rank = [&](int32_t i) { return nodes_[i].code == Code::Load ? i + size() : i; };
  for (Node& n : nodes_)
    if ((n.code == Code::Add || n.code == Code::Mul) && rank(n.in[0]) > rank(n.in[1]))
      std::swap(n.in[0], n.in[1]);
  const std::vector<bool> is_needed = needed(results);
  std::vector<std::vector<int>> uses(nodes_.size());
  std::vector<bool> kept(nodes_.size(), false);
  for (const int result : results) kept[result] = true;
  for (int i = 0; i < size(); ++i)
    if (is_needed[i])
      for (const int32_t in : nodes_[i].in)
        if (in >= 0) uses[in].push_back(i);
  for (int i = 0; i < size(); ++i) {
    const Node product = nodes_[i];
    if (product.code != Code::Mul || !is_needed[i] || kept[i] || uses[i].empty()) continue;
    bool all = true;
    for (const int use : uses[i]) {
      const Node& sum = nodes_[use];
      all = all && (sum.code == Code::Add || sum.code == Code::Sub) && sum.in[0] != sum.in[1] &&
            sum.block == product.block;
    }
    if (!all) continue;
    for (const int use : uses[i]) {
      Node& sum = nodes_[use];
      const bool is_first = sum.in[0] == i;
      const int32_t other = sum.in[is_first ? 1 : 0];
      const bool minus = sum.code == Code::Sub;
      sum.code = Code::Fma;
      sum.imm = !minus ? 0 : is_first ? kNegatedSummand : kNegatedProduct;
      sum.in[0] = product.in[0], sum.in[1] = product.in[1], sum.in[2] = other;
    }
  }
  known_.clear();
}

int Trace::append(const Trace& from, int result, const std::vector<int>& inputs) {
  const std::vector<bool> is_needed = from.needed({result});
  std::vector<int> at(static_cast<size_t>(from.size()), -1);
  for (int i = 0; i < from.size(); ++i) {
    if (!is_needed[i]) continue;
    Node node = from[i];
    if (node.code == Code::Load || node.code == Code::MaskLoad) {
      at[i] = inputs[node.imm];
      continue;
    }
    for (int32_t& in : node.in)
      if (in >= 0) in = at[in];
    at[i] = add(node);
  }
  return at[result];
}

void Trace::drop_dead(std::vector<int>& results) {
  const std::vector<bool> is_needed = needed(results);
  std::vector<int> at(nodes_.size(), -1);
  std::vector<Node> left;
  for (int i = 0; i < size(); ++i) {
    if (!is_needed[i]) continue;
    Node node = nodes_[i];
    for (int32_t& in : node.in)
      if (in >= 0) in = at[in];
    at[i] = static_cast<int>(left.size());
    left.push_back(node);
  }
  nodes_ = std::move(left);
  for (int& result : results) result = at[result];
  known_.clear();
}

}  // namespace moonlet::program::jit
