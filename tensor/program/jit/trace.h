// tensor/program/jit/trace.h: straight-line code on vectors, before it has registers: what running
// a functor on traced values (lanes-inl.h) leaves behind, and what the emitter makes instructions
// of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace moonlet::program::jit {

enum class Code : uint8_t {
  Load,      // element of load `imm`, converted to 4 or 8 bytes
  Constant,  // `bits`
  Add,
  Sub,
  Mul,
  Div,
  Min,  // as the processor's: b where either is no number
  Max,
  Sqrt,
  NearInverse,  // as AVX-512's instruction has it
  Round,        // `imm` as the instruction has it
  Fma,          // a * b + c; `imm`: kNegatedProduct, kNegatedSummand
  Scale,        // a 2^b
  And,          // of bits
  Or,
  Xor,
  AndNot,     // ~a & b
  CopySign,   // a with the sign of b
  ShiftLeft,  // by `imm`
  ShiftRight,
  IntAdd,
  IntSub,
  IntMul,
  Equal,  // masks; of NaN false
  Less,
  LessEqual,
  IntEqual,
  IntLess,
  IntLessEqual,
  MaskConstant,  // `bits` is 0 or 1
  MaskAnd,
  MaskOr,
  MaskNot,
  MaskCast,     // for elements of the other size
  MaskLoad,     // of bools
  Select,       // mask a: b, else c
  Widen,        // float32 to float64
  Narrow,       // float64 to float32
  IntToFloat,   // int64 to float32 or float64
  RoundToHalf,  // float32 to float16 and back
};

inline constexpr uint8_t kNegatedProduct = 1, kNegatedSummand = 2;

struct Node {
  Code code = Code::Constant;
  uint8_t size = 4;  // of an element, in bytes; a mask is one for elements of that size
  uint8_t imm = 0;
  int32_t in[3] = {-1, -1, -1};
  uint64_t bits = 0;
  int32_t block = 0;  // of code without branches in the compiled functor
  bool operator==(const Node& o) const {
    return code == o.code && size == o.size && imm == o.imm && in[0] == o.in[0] &&
           in[1] == o.in[1] && in[2] == o.in[2] && bits == o.bits;
  }
};

bool is_mask(Code code);

// Nodes in the order in which they are computed; equal ones are one.
class Trace {
 public:
  int add(Node node);
  int add(Code code, int size, int a = -1, int b = -1, int c = -1, int imm = 0);
  int constant(int size, uint64_t bits);
  // Where the functor branches on values it goes on in another block.
  void branch() { ++block_; }
  // What the functor does cannot be traced.
  void refuse() { refused_ = true; }
  bool refused() const { return refused_; }

  const Node& operator[](int i) const { return nodes_[i]; }
  int size() const { return static_cast<int>(nodes_.size()); }
  bool is_constant(int i) const { return nodes_[i].code == Code::Constant; }

  // Multiplies and adds in one step where the C++ compiler does, for the nodes from which `results`
  // are computed.
  void contract(const std::vector<int>& results);
  // Appends the nodes that `result` needs; `inputs[i]` stands for Load i. Gives the result's node.
  int append(const Trace& from, int result, const std::vector<int>& inputs);
  // Leaves out what no result needs, and renumbers.
  void drop_dead(std::vector<int>& results);

 private:
  int folded(const Node& node);
  int folded_mask(const Node& node);
  int folded_equality(const Node& node, const Node& with);
  int mask_constant(int size, bool value);
  std::vector<bool> needed(const std::vector<int>& results) const;

  struct Hash {
    std::size_t operator()(const Node& n) const {
      uint64_t h = n.bits * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(n.code) * 0x100000001B3u;
      for (const int32_t i : n.in) h = (h ^ static_cast<uint32_t>(i)) * 0xD6E8FEB86659FD93u;
      return static_cast<std::size_t>(h ^ (h >> 32) ^ n.imm ^ (n.size << 8));
    }
  };
  std::vector<Node> nodes_;
  std::unordered_map<Node, int, Hash> known_;
  int block_ = 0;
  bool refused_ = false;
};

// The trace that traced values on this thread add to.
inline thread_local Trace* tracing = nullptr;

}  // namespace moonlet::program::jit
