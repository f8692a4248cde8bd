// cuda/loops/loop_source.cpp: writes the sources of loops, and their kernels' arguments.
#include "cuda/loops/loop_source.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>

#include "cuda/loops/loop_functors.h"
#include "tensor/core/error.h"

namespace moonlet::cuda::loops {

namespace {

using program::Loop;

constexpr const char* kTypeNames[] = {
#define MOONLET_TYPE_NAME(D, NAME, CODE, TYPE, ...) #TYPE,
    MOONLET_DTYPES(MOONLET_TYPE_NAME)
#undef MOONLET_TYPE_NAME
};
std::string type_of(DType t) { return kTypeNames[static_cast<int>(t)]; }

const Functor* functor_of(const PointwiseOp& op) {
  for (int i = 0; i < kFunctorCount; ++i)
    if (std::string_view(kFunctors[i].op) == op.name) return &kFunctors[i];
  return nullptr;
}

bool computes_in(const Functor& functor, DType t) {
  const char letter = kind_of(t) == Kind::Floating ? 'F' : kind_of(t) == Kind::Complex ? 'C' : 'I';
  return std::strchr(functor.types, letter) != nullptr;
}

bool can_run(const Loop& loop) {
  const auto is_real = [](DType t) { return kind_of(t) != Kind::Complex; };
  const auto all_real = [&](const Loop::Memory& m) { return is_real(m.dtype); };
  if (!std::all_of(loop.loads.begin(), loop.loads.end(), all_real)) return false;
  return std::all_of(loop.ops.begin(), loop.ops.end(), [&](const Loop::Op& op) {
    if (!is_real(op.dtype) || (op.op && !is_real(op.compute))) return false;
    for (int k = 0; k < op.inputs; ++k)
      if (op.in[k].kind == Loop::Source::Number && loop.numbers[op.in[k].index].is_complex())
        return false;
    if (!op.op) return true;
    const Functor* const functor = functor_of(*op.op);
    return functor && computes_in(*functor, op.compute) && functor->inputs == op.inputs &&
           functor->params == op.param_count && !(functor->divides && op.compute == DType::Int64);
  });
}

// Loads, then stores.
int operand_count(const Loop& loop) {
  return static_cast<int>(loop.loads.size() + loop.stores.size());
}
const Loop::Memory& operand(const Loop& loop, int i) {
  const int loads = static_cast<int>(loop.loads.size());
  return i < loads ? loop.loads[i] : loop.stores[i - loads].to;
}
bool is_dense(const Loop::Memory& m) {
  return m.strides[0] == static_cast<int64_t>(size_of(m.dtype));
}

// As many elements as the widest of those that lie side by side have in 16 bytes.
int pack_of(const Loop& loop) {
  size_t widest = 0;
  for (int i = 0; i < operand_count(loop); ++i)
    if (is_dense(operand(loop, i))) widest = std::max(widest, size_of(operand(loop, i).dtype));
  if (widest == 0) return 1;
  // Much code for each element is not worth repeating more often.
  const size_t most = loop.ops.size() > 12 ? 4 : 8;
  return static_cast<int>(std::min(16 / widest, most));
}

// The bits of a number as an element of that dtype.
uint64_t bits_of(const Scalar& number, DType t) {
  uint64_t out = 0;
  visit<dtypes::any>(t, [&]<class T>() {
    if constexpr (!is_complex_v<T>) {
      const T value = number.to<T>();
      std::memcpy(&out, &value, sizeof value);
    }
  });
  return out;
}

int words_before_numbers(const Loop& loop) {
  return 2 + loop.ndim + operand_count(loop) * (loop.ndim + 2);
}

// Calls f(number, dtype) for each number that an op takes, in the order of the arguments.
template <class F>
void each_number(const Loop& loop, F&& f) {
  for (const Loop::Op& op : loop.ops) {
    for (int k = 0; k < op.inputs; ++k)
      if (op.in[k].kind == Loop::Source::Number)
        f(loop.numbers[op.in[k].index], op.op ? op.compute : op.dtype);
    for (int k = 0; k < op.param_count; ++k) f(loop.params[op.first_param + k], op.compute);
  }
}

class Writer {
 public:
  explicit Writer(const Loop& loop)
      : loop_(loop), pack_(pack_of(loop)), next_number_(words_before_numbers(loop)) {}

  LoopSource write() {
    std::string ops;
    for (size_t i = 0; i < loop_.ops.size(); ++i) add_op(ops, static_cast<int>(i));
    const char* const index = loop_.numel < INT32_MAX ? "uint32_t" : "int64_t";
    std::string out = head();
    out +=
        text("namespace moonlet::cuda::loops {\nusing Index = ", index,
             ";\nusing Words = Arguments<", next_number_, ">;\n",
             "template <int W>\nMOONLET_LOOP void compute(const Words& arguments, Index index) {\n",
             "  const uint64_t* const words = arguments.words;\n  char* at[", operand_count(loop_),
             "];\n  locate<", loop_.ndim, ", ", operand_count(loop_), ">(words, index, at);\n");
    add_loads(out);
    out += "  MOONLET_LOOP_UNROLL\n  for (int k = 0; k < W; ++k) {\n" + ops + "  }\n";
    add_stores(out);
    out += "}\n";
    if (pack_ > 1) out += text("MOONLET_LOOP_KERNEL(", kPacks, ", ", pack_, ")\n");
    out += text("MOONLET_LOOP_KERNEL(", kElements, ", 1)\n}  // namespace moonlet::cuda::loops\n");
    return {out, pack_};
  }

 private:
  // The headers, and what the table of dtypes says of the types.
  std::string head() const {
    std::set<std::string> headers;
    for (const Loop::Op& op : loop_.ops)
      if (op.op && functor_of(*op.op)->header) headers.insert(functor_of(*op.op)->header);
    std::string out =
        "#include \"tensor/core/float8.h\"\n#include \"tensor/core/half.h\"\nnamespace moonlet {\n"
        "template <class T>\ninline constexpr bool is_reduced_floating_v = false;\n";
    for (int i = 0; i < kDTypeCount; ++i) {
      const auto t = static_cast<DType>(i);
      if (is_floating(t) && compute_dtype(t) != t)
        out += text("template <>\ninline constexpr bool is_reduced_floating_v<", type_of(t),
                    "> = true;\n");
    }
    out += "}  // namespace moonlet\n#include \"cuda/loops/loop_device.cuh\"\n";
    for (const std::string& each : headers) out += text("#include \"", each, "\"\n");
    return out;
  }

  std::string distance(int operand) const {
    return text("words[", 2 + loop_.ndim + operand * (loop_.ndim + 2) + loop_.ndim + 1, "]");
  }

  void add_loads(std::string& out) const {
    for (size_t i = 0; i < loop_.loads.size(); ++i) {
      const Loop::Memory& m = loop_.loads[i];
      const char* const how = is_dense(m) ? "dense" : m.strides[0] == 0 ? "same" : "apart";
      out += text("  const auto x", i, " = load_", how, "<", type_of(m.dtype), ", W>(at[", i, "]");
      if (how[0] == 'a') out += ", " + distance(static_cast<int>(i));
      out += ");\n";
    }
    for (size_t i = 0; i < loop_.stores.size(); ++i)
      out += text("  Pack<", type_of(loop_.stores[i].to.dtype), ", W> y", i, ";\n");
  }

  void add_stores(std::string& out) const {
    for (size_t i = 0; i < loop_.stores.size(); ++i) {
      const size_t at = loop_.loads.size() + i;
      const bool dense = is_dense(loop_.stores[i].to);
      out += text("  store_", dense ? "dense" : "apart", "(at[", at, "], ");
      if (!dense) out += distance(static_cast<int>(at)) + ", ";
      out += text("y", i, ");\n");
    }
  }

  std::string number(DType t) {
    return text("number<", type_of(t), ">(words[", next_number_++, "])");
  }

  // An input as a value of that type.
  std::string input(Loop::Source source, DType as) {
    if (source.kind == Loop::Source::Number) return number(as);
    const std::string value = source.kind == Loop::Source::Load ? text("x", source.index, ".at[k]")
                                                                : text("t", source.index);
    return text("convert<", type_of(as), ">(", value, ")");
  }

  void add_op(std::string& out, int i) {
    const Loop::Op& op = loop_.ops[i];
    out += text("    const ", type_of(op.dtype), " t", i, " = ");
    if (!op.op) {
      out += input(op.in[0], op.dtype) + ";\n";
    } else {
      out += text("result<", type_of(op.dtype), ">(::moonlet::functors::", functor_of(*op.op)->name,
                  "()(");
      for (int k = 0; k < op.inputs; ++k) out += (k > 0 ? ", " : "") + input(op.in[k], op.compute);
      for (int k = 0; k < op.param_count; ++k)
        out += (op.inputs + k > 0 ? ", " : "") + number(op.compute);
      out += "), words[1]);\n";
    }
    for (size_t s = 0; s < loop_.stores.size(); ++s)
      if (loop_.stores[s].op == i) out += text("    y", s, ".at[k] = t", i, ";\n");
  }

  const Loop& loop_;
  const int pack_;
  int next_number_;  // the word of the number that comes next
};

bool has_packs(const Loop& loop, int pack) {
  if (pack == 1 || loop.sizes[0] % pack != 0) return false;
  for (int i = 0; i < operand_count(loop); ++i) {
    const Loop::Memory& m = operand(loop, i);
    const int64_t bytes = static_cast<int64_t>(size_of(m.dtype)) * pack;
    for (int d = 1; is_dense(m) && d < loop.ndim; ++d)
      if (m.strides[d] % bytes != 0) return false;
  }
  return true;
}

}  // namespace

std::optional<LoopSource> loop_source(const Loop& loop) {
  if (loop.numel == 0 || !can_run(loop)) return std::nullopt;
  int words = words_before_numbers(loop);
  each_number(loop, [&](const Scalar&, DType) { ++words; });
  if (words > kMaxWords) return std::nullopt;
  return Writer(loop).write();
}

LoopWords loop_words(const Loop& loop, int pack) {
  LoopWords out;
  const auto write = [&](int each) {
    std::vector<uint64_t> words = {static_cast<uint64_t>(loop.numel / each), 0};
    for (int d = 0; d < loop.ndim; ++d)
      words.push_back(static_cast<uint64_t>(d == 0 ? loop.sizes[0] / each : loop.sizes[d]));
    for (int i = 0; i < operand_count(loop); ++i) {
      words.push_back(0);  // the address
      for (int d = 0; d < loop.ndim; ++d)
        words.push_back(static_cast<uint64_t>(operand(loop, i).strides[d] * (d == 0 ? each : 1)));
      words.push_back(static_cast<uint64_t>(operand(loop, i).strides[0]));
    }
    each_number(loop, [&](const Scalar& number, DType t) { words.push_back(bits_of(number, t)); });
    return words;
  };
  out.elements = write(1);
  if (has_packs(loop, pack)) out.packs = write(pack);
  for (int i = 0; i < operand_count(loop); ++i) {
    const Loop::Memory& m = operand(loop, i);
    const auto bytes = static_cast<int64_t>(size_of(m.dtype));
    out.addresses.push_back({2 + loop.ndim + i * (loop.ndim + 2), m.slot, m.offset,
                             is_dense(m) ? bytes * pack : bytes});
  }
  return out;
}

bool LoopWords::fill(uint64_t* words, char* const* slots, bool in_packs) const {
  const std::vector<uint64_t>& from = in_packs ? packs : elements;
  if (from.empty()) return false;
  std::copy(from.begin(), from.end(), words);
  for (const Address& each : addresses) {
    const auto address = reinterpret_cast<uint64_t>(slots[each.slot] + each.offset);
    if (in_packs && address % static_cast<uint64_t>(each.alignment) != 0) return false;
    words[each.word] = address;
  }
  return true;
}

}  // namespace moonlet::cuda::loops
