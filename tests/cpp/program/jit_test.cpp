// tests/cpp/program/jit_test.cpp: compiled loops beside the block executor, bit by bit: each op of
// the table, dtypes, layouts, sizes, instruction sets, chains, threads, and the code that is kept.
#include "tests/cpp/catch2.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <iostream>
#include <random>
#include <thread>

#include "tensor/core/raw_op.h"
#include "tensor/program/fusion/block_executor.h"
#include "tensor/program/jit/compile.h"
#include "tensor/runtime/threads.h"
#include "tests/cpp/program/loops.h"

using namespace moonlet;
using namespace moonlet::program;
using jit::Target;

namespace {

// The instruction sets that can be compared: the kernels run with the best one.
bool can_compile(Target& target) {
  if (jit::best_target(target)) return true;
  std::cout << "no machine code: built without AsmJit, or this processor has no AVX2\n";
  return false;
}

struct Buffer {
  std::vector<char> bytes;
  char* data() { return bytes.data() + 64; }
};

// Numbers of all sizes, and those that have rules of their own.
double draw(std::mt19937& random) {
  static const double special[] = {0.0,   -0.0,     1,         -1,  0.5,   2,      3,
                                   -3,    HUGE_VAL, -HUGE_VAL, NAN, 1e-40, -1e-40, 88.5,
                                   -88.5, 104,      -104,      6,   20.5,  1e30,   -1e30};
  const unsigned kind = random() % 8;
  const double uniform = static_cast<double>(random()) / 4294967296.0;
  if (kind == 0) return special[random() % std::size(special)];
  if (kind == 1) return std::ldexp(2 * uniform - 1, static_cast<int>(random() % 60) - 30);
  if (kind == 2) return uniform;
  return (2 * uniform - 1) * 10;
}

void fill(char* to, DType dtype, int64_t n, std::mt19937& random) {
  visit<dtypes::any>(dtype, [&]<class T>() {
    T* x = reinterpret_cast<T*>(to);
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<T, bool>)
        x[i] = random() % 2 != 0;
      else if constexpr (std::is_integral_v<T>)
        x[i] = static_cast<T>(static_cast<int64_t>(random() % 21) - 10);
      else if constexpr (!is_complex_v<T>)
        x[i] = static_cast<T>(static_cast<float>(draw(random)));
    }
  });
}

// NaN is NaN, whatever its digits.
bool same(const char* a, const char* b, DType dtype) {
  if (std::memcmp(a, b, size_of(dtype)) == 0) return true;
  bool both = false;
  visit<dtypes::any>(dtype, [&]<class T>() {
    if constexpr (!std::is_integral_v<T> && !is_complex_v<T>) {
      T x, y;
      std::memcpy(&x, a, sizeof x);
      std::memcpy(&y, b, sizeof y);
      both = std::isnan(static_cast<double>(static_cast<float>(x))) &&
             std::isnan(static_cast<double>(static_cast<float>(y)));
    }
  });
  return both;
}

int add_load(Loop& loop, DType dtype) {
  const int slot = static_cast<int>(loop.loads.size());
  loop.loads.push_back(dense(loop, slot, dtype));
  return slot;
}
// Stores go to slots behind 100.
void add_store(Loop& loop, int op) {
  const int slot = static_cast<int>(100 + loop.stores.size());
  loop.stores.push_back({op, dense(loop, slot, loop.ops[op].dtype)});
}

int64_t bytes_of(const Loop& loop, const Loop::Memory& memory) {
  int64_t last = memory.offset + static_cast<int64_t>(size_of(memory.dtype));
  for (int d = 0; d < loop.ndim; ++d)
    last += std::max<int64_t>(0, memory.strides[d]) * (std::max<int64_t>(1, loop.sizes[d]) - 1);
  return last;
}

double element(const char* at, DType dtype) {
  double value = NAN;
  visit<dtypes::any>(dtype, [&]<class T>() {
    if constexpr (!is_complex_v<T>) {
      T x;
      std::memcpy(&x, at, sizeof x);
      value = static_cast<double>(static_cast<std::conditional_t<sizeof(T) == 8, T, float>>(x));
    }
  });
  return value;
}

// Where memory behind a store differs, the margins too; -1, it does not.
int64_t first_difference(Buffer& want, Buffer& got, DType dtype) {
  const auto width = static_cast<int64_t>(size_of(dtype));
  const auto bytes = static_cast<int64_t>(want.bytes.size());
  for (int64_t i = 0; i < bytes; ++i) {
    const int64_t at = i - 64;
    const bool inside = at >= 0 && at / width * width + width <= bytes - 128;
    if (inside && at % width != 0) continue;
    if (inside ? !same(want.data() + at, got.data() + at, dtype) : want.bytes[i] != got.bytes[i])
      return i;
  }
  return -1;
}

// Runs both on the same memory. The text says where they differ; empty, they do not.
std::string difference(const Loop& loop, const LoopExecutor& compiled, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<char*> addresses(120), others(120);
  std::vector<Buffer> buffers(2 * 120);
  for (const Loop::Memory& load : loop.loads) {
    Buffer& buffer = buffers[load.slot];
    const int64_t bytes = bytes_of(loop, load), width = static_cast<int64_t>(size_of(load.dtype));
    buffer.bytes.assign(static_cast<size_t>(bytes) + 128, 0);
    fill(buffer.data(), load.dtype, bytes / width, random);
    addresses[load.slot] = others[load.slot] = buffer.data();
  }
  for (const Loop::Store& store : loop.stores)
    for (const bool is_other : {false, true}) {
      Buffer& buffer = buffers[store.to.slot + (is_other ? 120 : 0)];
      buffer.bytes.assign(static_cast<size_t>(bytes_of(loop, store.to)) + 128, 0x55);
      (is_other ? others : addresses)[store.to.slot] = buffer.data();
    }
  BlockExecutor(loop).run(addresses.data());
  compiled.run(others.data());
  for (const Loop::Store& store : loop.stores) {
    Buffer &want = buffers[store.to.slot], &got = buffers[store.to.slot + 120];
    const int64_t at = first_difference(want, got, store.to.dtype);
    if (at < 0) continue;
    std::ostringstream text;
    text.precision(17);
    text << to_string(loop) << "store of t" << store.op << ", byte " << at - 64;
    if (at >= 64 && at + 64 + 8 <= static_cast<int64_t>(want.bytes.size()))
      text << ": " << element(want.bytes.data() + at, store.to.dtype) << " and "
           << element(got.bytes.data() + at, store.to.dtype);
    return text.str();
  }
  return {};
}

bool takes_mask(const PointwiseOp& op, int input) { return (op.mask_args >> input & 1u) != 0; }

// An op of the table on loads of that dtype; -1 where it does not compute in it.
int add_op(Loop& loop, const jit::TracedOp& row, DType dtype, std::vector<Loop::Source> from,
           std::mt19937& random) {
  const RawOp* raw = find_raw_op(row.name);
  if (!raw || !raw->pointwise) return -1;
  const PointwiseOp& op = *raw->pointwise;
  Loop::Op out;
  out.op = &op;
  out.compute = is_reduced_floating(dtype) ? DType::Float32 : dtype;
  if (row.for_compute(out.compute) == nullptr) return -1;
  out.dtype = op.result == PointwiseOp::Bool ? DType::Bool : dtype;
  out.inputs = row.inputs;
  for (int k = 0; k < row.inputs; ++k) {
    if (takes_mask(op, k)) {
      out.in[k] = {Loop::Source::Load, static_cast<int16_t>(add_load(loop, DType::Bool))};
    } else if (std::string(row.name) == "pow" && k == 1) {
      const double powers[] = {2, -1, 0.5, 3};
      loop.numbers.push_back(Scalar(powers[random() % 4]));
      out.in[k] = {Loop::Source::Number, static_cast<int16_t>(loop.numbers.size() - 1)};
    } else if (k > 0 && random() % 5 == 0) {
      const double numbers[] = {0.1, 2.5, -3, 1, 0};
      loop.numbers.push_back(dtype == DType::Int64 ? Scalar(static_cast<int64_t>(random() % 5))
                                                   : Scalar(numbers[random() % 5]));
      out.in[k] = {Loop::Source::Number, static_cast<int16_t>(loop.numbers.size() - 1)};
    } else if (!from.empty()) {
      out.in[k] = from[random() % from.size()];
    } else {
      out.in[k] = {Loop::Source::Load, static_cast<int16_t>(add_load(loop, dtype))};
    }
  }
  out.first_param = static_cast<int>(loop.params.size());
  out.param_count = row.params;
  const double params[] = {0.25, 0.75, 2, -0.125, 1};
  for (int k = 0; k < row.params; ++k) {
    if (dtype == DType::Int64)
      loop.params.push_back(Scalar(static_cast<int64_t>(random() % 5) - 2));
    else
      loop.params.push_back(Scalar(params[random() % std::size(params)]));
  }
  loop.ops.push_back(out);
  return static_cast<int>(loop.ops.size()) - 1;
}

}  // namespace

TEST_CASE("each op has the bits of its kernel") {
  Target target;
  if (!can_compile(target)) return;
  std::mt19937 random(7);
  int checked = 0, refused = 0;
  for (const jit::TracedOp& row : jit::ops_of(target))
    for (const DType dtype :
         {DType::Float32, DType::Float64, DType::Float16, DType::BFloat16, DType::Int64}) {
      Loop probe = loop_over({1003});  // no whole number of vectors
      if (add_op(probe, row, dtype, {}, random) < 0) continue;
      add_store(probe, 0);
      const auto compiled = jit::compile_for(probe, target);
      if (!compiled) {
        ++refused;
        std::cout << "refused: " << row.name << " of " << text(dtype) << '\n';
        continue;
      }
      ++checked;
      for (unsigned seed = 0; seed < 20; ++seed) {
        const std::string text = difference(probe, *compiled, seed);
        CHECK(text == "");
        if (!text.empty()) break;
      }
    }
  CHECK(checked > 400);
  CHECK(refused == 0);
}

TEST_CASE("sizes and layouts") {
  Target target;
  if (!can_compile(target)) return;
  std::mt19937 random(11);
  const auto rows = jit::ops_of(target);
  for (const int64_t size : {0, 1, 7, 15, 16, 17, 63, 129, 151, 1000, 70000})
    for (int round = 0; round < 30; ++round) {
      const bool flat = round % 3 == 0;
      Loop loop = flat ? loop_over({size}) : loop_over({size, 3, round % 3 == 1 ? 2 : 1});
      static constexpr DType kDTypes[] = {DType::Float32, DType::Float64, DType::Float16,
                                          DType::BFloat16};
      const DType dtype = kDTypes[random() % 4];
      std::vector<Loop::Source> values;
      for (int k = 0; k < 3; ++k)
        values.push_back({Loop::Source::Load, static_cast<int16_t>(add_load(loop, dtype))});
      const auto width = static_cast<int64_t>(size_of(dtype));
      // One is broadcast along a dimension, another strided now and then.
      const int broadcast = static_cast<int>(random() % static_cast<unsigned>(loop.ndim));
      loop.loads[0].strides[broadcast] = 0;
      if (!is_reduced_floating(dtype) && round % 2 == 0)
        for (int d = 0; d < loop.ndim; ++d) loop.loads[1].strides[d] *= 3;
      loop.loads[2].offset = width;
      int last = -1;
      for (int k = 0; k < 1 + round % 5;) {
        const int op = add_op(loop, rows[random() % rows.size()], dtype, values, random);
        if (op < 0) continue;
        ++k;
        last = op;
        if (loop.ops[op].dtype == dtype)
          values.push_back({Loop::Source::Op, static_cast<int16_t>(op)});
        if (random() % 3 == 0 && loop.stores.size() < 3) add_store(loop, op);
        if (loop.loads.size() > 10) break;
      }
      if (loop.stores.empty() || loop.stores.back().op != last) add_store(loop, last);
      const auto compiled = jit::compile_for(loop, target);
      INFO(to_string(loop));
      REQUIRE(compiled);
      for (const int threads : {1, 2}) {
        set_num_threads(threads);
        CHECK(difference(loop, *compiled, static_cast<unsigned>(round)) == "");
      }
      set_num_threads(1);
    }
}

TEST_CASE("conversions between dtypes") {
  Target target;
  if (!can_compile(target)) return;
  static constexpr DType kDTypes[] = {
      DType::Bool,  DType::UInt8,   DType::Int8,     DType::Int16,   DType::Int32,
      DType::Int64, DType::Float16, DType::BFloat16, DType::Float32, DType::Float64};
  int compiled_pairs = 0;
  for (const DType from : kDTypes)
    for (const DType to : kDTypes)
      for (const int64_t size : {1, 9, 1000}) {
        Loop loop = loop_over({size});
        Loop::Op copy;
        copy.inputs = 1;
        copy.in[0] = {Loop::Source::Load, static_cast<int16_t>(add_load(loop, from))};
        copy.dtype = to;
        loop.ops.push_back(copy);
        add_store(loop, 0);
        const auto compiled = jit::compile_for(loop, target);
        if (!compiled) continue;
        compiled_pairs += size == 1;
        CHECK(difference(loop, *compiled, 3) == "");
      }
  // Floats to integers, narrower integers, and float64 to 16 bits are left to the blocks.
  CHECK(compiled_pairs >= (target == Target::Avx512 ? 45 : 25));
}

TEST_CASE("masks of comparisons choose in another dtype") {
  Target target;
  if (!can_compile(target)) return;
  const auto row = [](const char* name) { return find_raw_op(name)->pointwise; };
  for (const DType first : {DType::Float32, DType::Float64, DType::Int64})
    for (const DType second : {DType::Float32, DType::Float64, DType::Int64})
      for (const int64_t size : {3, 16, 1000}) {
        Loop loop = loop_over({size});
        const auto load = [&](DType dtype) {
          return Loop::Source{Loop::Source::Load, static_cast<int16_t>(add_load(loop, dtype))};
        };
        const Loop::Source x = load(first), y = load(first), a = load(second), b = load(second);
        const auto add = [&](const char* name, std::vector<Loop::Source> in, DType compute,
                             DType dtype) {
          Loop::Op op;
          op.op = row(name);
          op.inputs = static_cast<int>(in.size());
          std::copy(in.begin(), in.end(), op.in);
          op.compute = compute;
          op.dtype = dtype;
          loop.ops.push_back(op);
          return Loop::Source{Loop::Source::Op, static_cast<int16_t>(loop.ops.size() - 1)};
        };
        const Loop::Source less = add("lt", {x, y}, first, DType::Bool);
        const Loop::Source more = add("ge", {a, b}, second, DType::Bool);
        const Loop::Source both = add("logical_and", {less, more}, DType::Int64, DType::Bool);
        const Loop::Source mixed = add("logical_xor", {less, both}, DType::Int64, DType::Bool);
        add("where", {less, a, b}, second, second);
        add("where", {mixed, x, y}, first, first);
        for (int op = 0; op < 6; ++op) add_store(loop, op);
        const auto compiled = jit::compile_for(loop, target);
        INFO(to_string(loop));
        REQUIRE(compiled);
        CHECK(difference(loop, *compiled, 5) == "");
      }
}

TEST_CASE("a store over a load, element by element") {
  Target target;
  if (!can_compile(target)) return;
  Loop loop = loop_over({1003});
  std::mt19937 random(1);
  const auto rows = jit::ops_of(target);
  const auto silu = std::find_if(rows.begin(), rows.end(),
                                 [](const auto& row) { return std::string(row.name) == "silu"; });
  add_op(loop, *silu, DType::Float32, {}, random);
  loop.stores.push_back({0, loop.loads[0]});
  const auto compiled = jit::compile_for(loop, target);
  REQUIRE(compiled);
  std::vector<float> one(1003), two;
  for (float& each : one) each = static_cast<float>(draw(random));
  two = one;
  char* addresses[] = {reinterpret_cast<char*>(one.data())};
  BlockExecutor(loop).run(addresses);
  addresses[0] = reinterpret_cast<char*>(two.data());
  compiled->run(addresses);
  CHECK(std::memcmp(one.data(), two.data(), 4 * one.size()) == 0);
}

TEST_CASE("code is shared by content and freed with its last loop") {
  Target target;
  if (!can_compile(target)) return;
  std::mt19937 random(2);
  const auto rows = jit::ops_of(target);
  const auto make = [&](double alpha, int64_t size) {
    Loop loop = loop_over({size});
    const auto row = std::find_if(rows.begin(), rows.end(), [](const auto& each) {
      return std::string(each.name) == "leaky_relu";
    });
    add_op(loop, *row, DType::Float32, {}, random);
    loop.params[0] = Scalar(alpha);
    add_store(loop, 0);
    return jit::compile_for(loop, target);
  };
  const jit::Statistics before = jit::statistics();
  auto first = make(0.3, 10), second = make(0.3, 100), third = make(0.7, 10);
  CHECK(jit::statistics().compiled == before.compiled + 2);
  CHECK(jit::statistics().alive == before.alive + 2);
  first.reset();
  CHECK(jit::statistics().alive == before.alive + 2);
  second.reset(), third.reset();
  CHECK(jit::statistics().alive == before.alive);
  CHECK(jit::statistics().bytes == before.bytes);
}

TEST_CASE("threads compile and run at once") {
  Target target;
  if (!can_compile(target)) return;
  const auto rows = jit::ops_of(target);
  std::vector<std::string> failures[4];
  std::vector<std::thread> threads;
  for (std::vector<std::string>& failed : failures)
    threads.emplace_back([&] {
      std::mt19937 random(3);
      for (int round = 0; round < 60; ++round) {
        Loop loop = loop_over({100});
        const int op = add_op(loop, rows[static_cast<size_t>(round)], DType::Float32, {}, random);
        if (op < 0) continue;
        add_store(loop, op);
        const auto compiled = jit::compile_for(loop, target);
        const std::string text = compiled ? difference(loop, *compiled, 9) : to_string(loop);
        if (!text.empty()) failed.push_back(text);
      }
    });
  for (std::thread& each : threads) each.join();
  for (const auto& failed : failures) CHECK(failed == std::vector<std::string>());
}

// Each unary op on every `step`-th of all float32 bits.
void check_float32(uint64_t step) {
  Target target;
  if (!can_compile(target)) return;
  std::mt19937 random(4);
  constexpr int64_t kBlock = 16384;
  std::vector<uint32_t> x(kBlock), want(kBlock), got(kBlock);
  for (const jit::TracedOp& row : jit::ops_of(target)) {
    if (row.inputs != 1) continue;
    Loop loop = loop_over({kBlock});
    if (add_op(loop, row, DType::Float32, {}, random) < 0) continue;
    if (loop.ops[0].dtype != DType::Float32) continue;
    loop.stores.push_back({0, dense(loop, 1, DType::Float32)});
    const auto compiled = jit::compile_for(loop, target);
    const BlockExecutor blocks(loop);
    int64_t different = 0;
    for (uint64_t bits = 0; bits < uint64_t{1} << 32;) {
      for (uint32_t& each : x) each = static_cast<uint32_t>(bits), bits += step;
      char* addresses[] = {reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(want.data())};
      blocks.run(addresses);
      addresses[1] = reinterpret_cast<char*>(got.data());
      compiled->run(addresses);
      if (std::memcmp(want.data(), got.data(), 4 * kBlock) == 0) continue;
      for (int64_t i = 0; i < kBlock; ++i)
        different += !same(reinterpret_cast<char*>(&want[i]), reinterpret_cast<char*>(&got[i]),
                           DType::Float32);
    }
    INFO(row.name);
    CHECK(different == 0);
  }
}

TEST_CASE("a sample of all float32") { check_float32(4093); }
// Takes minutes: to be asked for by name.
TEST_CASE("every float32", "[.every_float32]") { check_float32(1); }
