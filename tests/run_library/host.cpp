// tests/run_library/host.cpp: runs a program of one input and one output on the bytes of a file.
// usage: host PROGRAM INPUT OUTPUT; prints the message of an error
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <vector>

#include "tensor/program/program.h"

using namespace moonlet;

namespace {

std::vector<char> bytes_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void run(const char* path, const char* from, const char* to) {
  const Program program = Program::load(path);
  Program::Context context(program);
  const std::vector<char> in = bytes_of(from);
  const Program::Description& output = program.outputs()[0];
  size_t count = size_of(output.dtype);
  for (const int64_t size : output.sizes) count *= static_cast<size_t>(size);
  std::vector<char> out(count);
  const Program::Input inputs[] = {
      {in.data(), program.inputs()[0].dtype, program.inputs()[0].sizes}};
  const Program::Output outputs[] = {{out.data(), output.dtype, output.sizes}};
  context.run(inputs, outputs);
  context.run(inputs, outputs);
  std::ofstream(to, std::ios::binary).write(out.data(), static_cast<std::streamsize>(out.size()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    run(argv[1], argv[2], argv[3]);
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
    return 1;
  }
  return 0;
}
