// tests/cpp/program/loop_source_test.cpp: the sources of loops for devices: NVIDIA's compiler takes
// each op's, the host's makes kernels of them that compute what the block executor does, and the
// cache of files gives nothing that was changed.
#include <cuda_runtime.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <set>

#include "cuda/loops/cache.h"
#include "cuda/loops/loop_functors.h"
#include "cuda/loops/loop_source.h"
#include "cuda/loops/nvrtc.h"
#include "tensor/core/raw_op.h"
#include "tensor/io/cache_folder.h"
#include "tensor/io/sha256.h"
#include "tensor/program/fusion/block_executor.h"
#include "tests/cpp/catch2.h"
#include "tests/cpp/program/loops.h"

using namespace moonlet;
using namespace moonlet::cuda::loops;
using io::cache_folder;
using io::sha256;
using io::to_hex;
using program::dense;
using program::Loop;
using program::loop_over;

namespace {

constexpr int kInputs = 4;
// Optimised, special functions take eight times as long.
constexpr const char* kQuick = "--device-debug";

const PointwiseOp* row(const char* name) {
  const RawOp* const raw = find_raw_op(name);
  return raw ? raw->pointwise : nullptr;
}

// All ops that compute in a type, each of some loads; what they give is added up, so that a
// compiler keeps them all. Loops of `most` ops.
std::vector<Loop> loops_of_all(DType compute, int most) {
  std::vector<Loop> out;
  const char letter = kind_of(compute) == Kind::Floating ? 'F' : 'I';
  for (int f = 0; f < kFunctorCount; ++f) {
    const Functor& functor = kFunctors[f];
    if (!std::strchr(functor.types, letter) || (functor.divides && letter == 'I')) continue;
    const PointwiseOp* const op = row(functor.op);
    if (!op || functor.inputs == 0) continue;
    if (out.empty() || static_cast<int>(out.back().ops.size()) + 3 > most) {
      out.push_back(loop_over({8, 3}));
      for (int i = 0; i < kInputs; ++i) out.back().loads.push_back(dense(out.back(), i, compute));
    }
    Loop& loop = out.back();
    Loop::Op one;
    one.op = op;
    one.inputs = functor.inputs;
    for (int k = 0; k < one.inputs; ++k) one.in[k] = {Loop::Source::Load, static_cast<int16_t>(k)};
    one.first_param = static_cast<int>(loop.params.size());
    one.param_count = functor.params;
    for (int k = 0; k < functor.params; ++k) loop.params.push_back(Scalar(k + 1));
    one.compute = one.dtype = compute;
    loop.ops.push_back(one);
    const auto made = static_cast<int16_t>(loop.ops.size() - 1);
    if (made == 0) continue;
    Loop::Op sum;
    sum.op = row("add");
    sum.inputs = 2;
    sum.in[0] = {Loop::Source::Op, static_cast<int16_t>(made - 1)};
    sum.in[1] = {Loop::Source::Op, made};
    sum.compute = sum.dtype = compute;
    loop.ops.push_back(sum);
  }
  for (Loop& each : out)
    each.stores.push_back({static_cast<int>(each.ops.size()) - 1, dense(each, kInputs, compute)});
  return out;
}

// One op of each dtype on the other: x of `from` plus a number, as `to`.
Loop conversion(DType from, DType to) {
  Loop loop = loop_over({16});
  loop.loads.push_back(dense(loop, 0, from));
  Loop::Op copy;
  copy.inputs = 1;
  copy.in[0] = {Loop::Source::Load, 0};
  copy.dtype = to;
  loop.ops.push_back(copy);
  loop.stores.push_back({0, dense(loop, 1, to)});
  return loop;
}

// The library of the toolkit, which need not be here.
const Nvrtc& real_nvrtc() {
  static const Nvrtc* const once = [] {
    const Nvrtc* found = nullptr;
    for (const char* file : {"libnvrtc.so.13", "libnvrtc.so.12"}) {
      delete found;
      found = new Nvrtc(file, 0);
      if (found->usable()) break;
    }
    return found;
  }();
  return *once;
}

// The host's compiler in its place.
const Nvrtc& host_nvrtc() {
  static const Nvrtc once = [] {
    const char* const compiler = std::getenv("CXX");
    setenv("MOONLET_EMULATED_NVRTC", compiler ? compiler : "c++", 0);
    return Nvrtc("libmoonlet-nvrtc-emulated.so", 0);
  }();
  return once;
}

// The kernels that the host's compiler has made of a loop.
class HostKernels {
 public:
  explicit HostKernels(const Loop& loop) {
    const auto source = loop_source(loop);
    REQUIRE(source.has_value());
    pack_ = source->pack;
    words_ = loop_words(loop, pack_);
    const std::string code = host_nvrtc().compile(source->text, 90);
    REQUIRE(cudaLibraryLoadData(&library_, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0) ==
            cudaSuccess);
    REQUIRE(cudaLibraryGetKernel(&elements_, library_, kElements) == cudaSuccess);
    if (pack_ > 1) REQUIRE(cudaLibraryGetKernel(&packs_, library_, kPacks) == cudaSuccess);
  }
  int pack() const { return pack_; }
  // False where packs cannot be moved.
  bool run(char* const* slots, bool in_packs) const {
    uint64_t words[kMaxWords];
    if (!words_.fill(words, slots, in_packs)) return false;
    void* arguments[] = {words};
    const auto kernel = reinterpret_cast<const void*>(in_packs ? packs_ : elements_);
    CHECK(cudaLaunchKernel(kernel, dim3(2), dim3(kThreads), arguments, 0, nullptr) == cudaSuccess);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    return true;
  }

 private:
  int pack_ = 1;
  LoopWords words_;
  cudaLibrary_t library_ = nullptr;
  cudaKernel_t elements_ = nullptr, packs_ = nullptr;
};

struct alignas(64) Block {
  char bytes[4096];
};
void fill(Block& block, DType dtype, std::mt19937& random) {
  visit<dtypes::any>(dtype, [&]<class T>() {
    T* x = reinterpret_cast<T*>(block.bytes);
    for (size_t i = 0; i < sizeof block.bytes / sizeof(T); ++i) {
      const double value = static_cast<double>(random() % 2000) / 500 - 2;
      if constexpr (std::is_same_v<T, bool>)
        x[i] = value > 0;
      else if constexpr (std::is_integral_v<T>)
        x[i] = static_cast<T>(static_cast<int64_t>(value * 5));
      else if constexpr (!is_complex_v<T>)
        x[i] = static_cast<T>(static_cast<float>(value));
    }
  });
}

// Runs a loop of two slots by the block executor and by both kernels: the same bits.
void check_bits(const Loop& loop, DType from, int inputs) {
  INFO(to_string(loop));
  const HostKernels kernels(loop);
  std::mt19937 random(5);
  std::vector<Block> blocks(static_cast<size_t>(inputs));
  for (Block& each : blocks) fill(each, from, random);
  Block want{}, got{}, packed{};
  const auto slots = [&](Block& out) {
    std::vector<char*> all;
    for (Block& each : blocks) all.push_back(each.bytes);
    all.push_back(out.bytes);
    return all;
  };
  program::BlockExecutor(loop).run(slots(want).data());
  CHECK(kernels.run(slots(got).data(), false));
  CHECK(std::memcmp(want.bytes, got.bytes, sizeof want.bytes) == 0);
  if (kernels.pack() == 1) return;
  CHECK(kernels.run(slots(packed).data(), true));
  CHECK(std::memcmp(want.bytes, packed.bytes, sizeof want.bytes) == 0);
}

// (x * y + 2) with x of one dtype, y the same along a dimension.
Loop product_and_sum(const std::vector<int64_t>& sizes, DType dtype, DType compute) {
  Loop loop = loop_over(sizes);
  loop.loads.push_back(dense(loop, 0, dtype));
  loop.loads.push_back(dense(loop, 1, dtype));
  for (int d = 1; d < loop.ndim; ++d) loop.loads[1].strides[d] = 0;
  if (loop.ndim == 1) loop.loads[1].strides[0] = 0;
  loop.numbers.push_back(Scalar(2));
  for (const char* name : {"mul", "add"}) {
    Loop::Op op;
    op.op = row(name);
    op.inputs = 2;
    op.in[0] =
        loop.ops.empty() ? Loop::Source{Loop::Source::Load, 0} : Loop::Source{Loop::Source::Op, 0};
    op.in[1] = loop.ops.empty() ? Loop::Source{Loop::Source::Load, 1}
                                : Loop::Source{Loop::Source::Number, 0};
    op.compute = compute;
    op.dtype = dtype;
    loop.ops.push_back(op);
  }
  loop.stores.push_back({1, dense(loop, 2, dtype)});
  return loop;
}

}  // namespace

TEST_CASE("NVRTC takes the sources of all ops", "[loop_source]") {
  if (!real_nvrtc().usable()) {
    std::cout << "SKIP NVRTC takes the sources of all ops: libnvrtc is not installed\n";
    return;
  }
  std::set<const PointwiseOp*> seen;
  for (const DType compute : {DType::Float32, DType::Float64, DType::Int64})
    for (const Loop& loop : loops_of_all(compute, Loop::kMaxOps)) {
      for (const Loop::Op& op : loop.ops) seen.insert(op.op);
      const auto source = loop_source(loop);
      REQUIRE(source.has_value());
      for (const int capability : {80, 90}) {
        INFO(source->text);
        CHECK(real_nvrtc().compile(source->text, capability, kQuick).size() > 1000);
      }
    }
  // Those that compute complex numbers, and take none, are left out.
  CHECK(seen.size() + 20 > static_cast<size_t>(kFunctorCount));
}

TEST_CASE("NVRTC takes the sources of all dtypes", "[loop_source]") {
  if (!real_nvrtc().usable()) {
    std::cout << "SKIP NVRTC takes the sources of all dtypes: libnvrtc is not installed\n";
    return;
  }
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto t = static_cast<DType>(i);
    if (kind_of(t) == Kind::Complex) continue;
    for (const Loop& loop : {conversion(DType::Float32, t), conversion(t, DType::Float64)})
      CHECK(real_nvrtc().compile(loop_source(loop)->text, 90).size() > 500);
  }
}

TEST_CASE("an op's errors are in what is thrown", "[loop_source]") {
  if (!real_nvrtc().usable()) {
    std::cout << "SKIP an op's errors are in what is thrown: libnvrtc is not installed\n";
    return;
  }
  CHECK_THROWS_WITH(real_nvrtc().compile("nonsense\n", 90), Catch::Contains("loop.cu(1)"));
}

TEST_CASE("kernels of loops compute what the block executor does", "[loop_source]") {
  check_bits(product_and_sum({40}, DType::Float32, DType::Float32), DType::Float32, 2);
  check_bits(product_and_sum({8, 5, 3}, DType::Float32, DType::Float32), DType::Float32, 2);
  check_bits(product_and_sum({16, 3}, DType::BFloat16, DType::Float32), DType::BFloat16, 2);
  check_bits(product_and_sum({16, 3}, DType::Int32, DType::Int64), DType::Int32, 2);
  check_bits(conversion(DType::Float32, DType::Float8E5M2), DType::Float32, 1);
  check_bits(conversion(DType::Float64, DType::UInt8), DType::Float64, 1);
}

TEST_CASE("packs are moved where they are whole and aligned", "[loop_source]") {
  const Loop loop = product_and_sum({8, 5}, DType::Float32, DType::Float32);
  const auto source = loop_source(loop);
  CHECK(source->pack == 4);
  const LoopWords words = loop_words(loop, source->pack);
  uint64_t out[kMaxWords];
  Block block;
  char* slots[] = {block.bytes, block.bytes + 1024, block.bytes + 2048};
  CHECK(words.fill(out, slots, true));
  CHECK(out[0] == 10);
  slots[1] += 4;
  CHECK_FALSE(words.fill(out, slots, true));
  CHECK(words.fill(out, slots, false));
  CHECK(out[0] == 40);
  // Rows of 6: none.
  const Loop odd = product_and_sum({6, 5}, DType::Float32, DType::Float32);
  CHECK(loop_words(odd, 4).packs.empty());
}

TEST_CASE("a source does not depend on sizes and numbers", "[loop_source]") {
  Loop a = product_and_sum({8, 5}, DType::Float32, DType::Float32);
  Loop b = product_and_sum({16, 7}, DType::Float32, DType::Float32);
  b.numbers[0] = Scalar(3.5);
  CHECK(loop_source(a)->text == loop_source(b)->text);
  b = product_and_sum({16, 7}, DType::Float16, DType::Float32);
  CHECK(loop_source(a)->text != loop_source(b)->text);
}

TEST_CASE("what a device cannot run has no source", "[loop_source]") {
  Loop loop = product_and_sum({8}, DType::Complex64, DType::Complex64);
  CHECK_FALSE(loop_source(loop).has_value());
  loop = product_and_sum({8}, DType::Int64, DType::Int64);
  CHECK(loop_source(loop).has_value());
  loop.ops[0].op = row("floor_divide");
  CHECK_FALSE(loop_source(loop).has_value());
}

TEST_CASE("SHA-256", "[loop_source]") {
  CHECK(to_hex(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(to_hex(sha256("abc")) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(to_hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST_CASE("the cache gives what was written, and nothing that was changed", "[loop_source]") {
  namespace fs = std::filesystem;
  std::string folder = (fs::temp_directory_path() / "moonlet-cache-XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()));
  folder += "/of/kernels";
  write_cached(folder, "key", "code");
  write_cached(folder, "other key", "");
  CHECK(read_cached(folder, "key") == std::optional<std::string>("code"));
  CHECK(read_cached(folder, "other key") == std::optional<std::string>(""));
  CHECK_FALSE(read_cached(folder, "third key").has_value());
  CHECK_FALSE(read_cached("", "key").has_value());
  const std::string path = folder + "/" + to_hex(sha256("key")) + ".cubin";
  const auto change = [&](int at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const auto byte = static_cast<char>(file.get() ^ 1);
    file.seekp(at);
    file.put(byte);
  };
  // The magic, both hashes and the contents.
  for (const int at : {0, 16, 50, 81}) {
    change(at);
    CHECK_FALSE(read_cached(folder, "key").has_value());
    change(at);
    CHECK(read_cached(folder, "key").has_value());
  }
  chmod(path.c_str(), 0620);
  CHECK_FALSE(read_cached(folder, "key").has_value());
  chmod(path.c_str(), 0600);
  fs::resize_file(path, 60);
  CHECK_FALSE(read_cached(folder, "key").has_value());
  // A file of another key under this name.
  fs::copy_file(folder + "/" + to_hex(sha256("other key")) + ".cubin", path,
                fs::copy_options::overwrite_existing);
  CHECK_FALSE(read_cached(folder, "key").has_value());
  int files = 0;
  for (const auto& each : fs::directory_iterator(folder)) files += each.is_regular_file();
  CHECK(files == 2);
  fs::remove_all(fs::path(folder).parent_path().parent_path());
}

TEST_CASE("where the cache is", "[loop_source]") {
  setenv("MOONLET_CACHE", "/tmp/somewhere", 1);
  CHECK(cache_folder() == "/tmp/somewhere");
  setenv("MOONLET_CACHE", "off", 1);
  CHECK(cache_folder().empty());
  unsetenv("MOONLET_CACHE");
  setenv("XDG_CACHE_HOME", "/tmp/xdg", 1);
  CHECK(cache_folder() == "/tmp/xdg/moonlet");
  unsetenv("XDG_CACHE_HOME");
  CHECK(cache_folder() == std::string(std::getenv("HOME")) + "/.cache/moonlet");
}
