// tests/embed/decoder.cpp: a transformer token by token in a host without Lua: the cache of keys
// and values is the context's state. usage: decoder PROGRAM TOKENS WANTED
#include <moonlet/program.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

namespace {

template <class T>
std::vector<T> read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
  return out;
}

// Whether all logits of a pass over the tokens are those wanted, to the last bit.
bool decodes(moonlet::Program::Context& context, const std::vector<int64_t>& tokens,
             const std::vector<float>& wanted) {
  const size_t width = wanted.size() / tokens.size();
  const auto size = static_cast<int64_t>(width);
  std::vector<float> logits(width);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const moonlet::Program::Input in[] = {{&tokens[i], moonlet::DType::Int64, {1, 1}}};
    const moonlet::Program::Output out[] = {{logits.data(), moonlet::DType::Float32, {1, 1, size}}};
    context.run(in, out);
    if (std::memcmp(logits.data(), &wanted[i * width], width * sizeof(float)) != 0) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const moonlet::Program program = moonlet::Program::load(argv[1]);
  const auto tokens = read<int64_t>(argv[2]);
  const auto wanted = read<float>(argv[3]);
  if (program.initial_state().size() != 3 || tokens.empty() || wanted.empty()) return 3;
  std::vector<std::thread> threads;
  std::vector<int> right(3);
  for (size_t t = 0; t < right.size(); ++t)
    threads.emplace_back([&, t] {
      moonlet::Program::Context context(program);
      right[t] = decodes(context, tokens, wanted);
      context.reset();
      right[t] += decodes(context, tokens, wanted);
    });
  for (std::thread& each : threads) each.join();
  for (const int each : right)
    if (each != 2) {
      std::puts("the logits are others");
      return 1;
    }
  return 0;
}
