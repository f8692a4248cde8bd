// tests/small/hello.cpp: tensors in C++ alone, in a host of chosen ops.
#include <moonlet/ops.h>
#include <cstdio>
#include <exception>

int main() {
  moonlet::Tensor a = moonlet::ones({2, 2});
  a = moonlet::add(a, moonlet::ones({2, 2}));
  std::printf("%g\n", static_cast<double>(moonlet::sum(a).data<float>()[0]));
  try {
    moonlet::erfinv(a);
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
  }
}
