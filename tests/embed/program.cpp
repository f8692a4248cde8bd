// tests/embed/program.cpp: a host program that runs exported programs with libmoonlet-run: on its
// own memory and on tensors, from several threads, without an allocation after the first run.
// usage: program NET.mlp WANTED: the bytes that the program gives for the inputs below.
#include <moonlet/program.h>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "expect.h"

namespace {

std::atomic<long> allocations{0};

}  // namespace

#ifdef COUNT_ALLOCATIONS
// All of the process goes through here, libmoonlet-run too.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void* malloc(size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  ++allocations;
  return __libc_realloc(old, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, size_t alignment, size_t size) {
  ++allocations;
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? 12 : 0;
}
}
#endif

namespace {

using moonlet::DType;
using moonlet::Program;

constexpr int kInputs = 8, kWidth = 16, kOutputs = 4;

// Of run i; the script that exports the program computes the same.
void fill(std::vector<float>& state, int i) {
  for (int k = 0; k < kWidth; ++k) state[k] = static_cast<float>((i * kWidth + k) % 7) - 3;
}

struct Memory {
  std::vector<float> state = std::vector<float>(kWidth), action = std::vector<float>(kOutputs);
  const Program::Input in[1] = {{state.data(), DType::Float32, {1, kWidth}}};
  const Program::Output out[1] = {{action.data(), DType::Float32, {1, kOutputs}}};
};

bool gives(Program::Context& context, Memory& memory, const std::vector<float>& wanted, int i) {
  fill(memory.state, i);
  context.run(memory.in, memory.out);
  return std::memcmp(memory.action.data(), &wanted[static_cast<size_t>(i) * kOutputs],
                     kOutputs * sizeof(float)) == 0;
}

void test_memory(const Program& program, const std::vector<float>& wanted) {
  Program::Context context(program);
  Memory memory;
  for (int i = 0; i < kInputs; ++i) expect(gives(context, memory, wanted, i), "the host's memory");
  const long before = allocations;
  for (int i = 0; i < 10000; ++i) gives(context, memory, wanted, i % kInputs);
  expect(allocations == before,
         std::to_string(allocations - before) + " allocations in 10000 runs on the host's memory");
}

void test_tensors(const Program& program, const std::vector<float>& wanted) {
  Program::Context context(program);
  std::vector<float> state(kWidth);
  const std::vector<moonlet::Tensor> in{
      moonlet::from_blob(state.data(), {1, kWidth}, DType::Float32)};
  std::vector<moonlet::Tensor> out;
  const auto run = [&](int i) {
    fill(state, i);
    context.run(in, out);
    return std::memcmp(out[0].data<float>(), &wanted[static_cast<size_t>(i) * kOutputs],
                       kOutputs * sizeof(float)) == 0;
  };
  for (int i = 0; i < kInputs; ++i) expect(run(i), "tensors");
  const float* const kept = out[0].data<float>();
  const long before = allocations;
  for (int i = 0; i < 10000; ++i) run(i % kInputs);
  expect(allocations == before,
         std::to_string(allocations - before) + " allocations in 10000 runs on tensors");
  expect(out[0].data<float>() == kept, "an output that is given is filled");
}

void test_threads(const Program& program, const std::vector<float>& wanted) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      Program::Context context(program);
      Memory memory;
      for (int i = 0; i < 2000; ++i) wrong += !gives(context, memory, wanted, i % kInputs);
    });
  for (std::thread& each : threads) each.join();
  expect(wrong == 0, "four threads");
}

void test_errors(const Program& program, const std::string& path) {
  expect_error([] { Program::load("none.mlp"); }, "none.mlp");
  std::ofstream("damaged.mlp") << "no program";
  expect_error([] { Program::load("damaged.mlp"); }, "damaged.mlp");
  Program::Context context(program);
  Memory memory;
  const Program::Input wrong[] = {{memory.state.data(), DType::Float64, {1, kWidth}}};
  expect_error([&] { context.run(wrong, memory.out); }, "to be float32 of shape (1, 16)");
  expect(program.inputs()[0].name == "state" && program.outputs()[0].name == "action", "names");
  expect(!program.ops().empty() && !program.describe().empty(), "descriptions");
  program.save("again.mlp", "again.safetensors");
  expect(Program::load("again.mlp").ops() == program.ops(), path + " saved again");
}

}  // namespace

int main(int, char** arguments) {
  const Program program = Program::load(arguments[1]);
  std::ifstream file(arguments[2], std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<float> wanted(bytes.size() / sizeof(float));
  std::memcpy(wanted.data(), bytes.data(), bytes.size());
  expect(wanted.size() == kInputs * kOutputs, "the file of results");
  if (failures > 0) return 1;
  test_memory(program, wanted);
  test_tensors(program, wanted);
  test_threads(program, wanted);
  test_errors(program, arguments[1]);
  return failures > 0;
}
