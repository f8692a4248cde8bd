// tests/embed/own_tensor/main.cpp: a host whose folder, on the include path, has a tensor/tensor.h
// and a moonlet.h of its own, uses both next to Moonlet's. Exits with 1 on a failure.
#include <cstdio>

#include "moonlet.h"

int main() {
  const moonlet::Tensor t = moonlet::ones({2, 3});
  const host::Tensor own = host::described(t);
  moonlet::Interpreter interpreter;
  const char* script = "return require('moonlet').ones(2, 3):sum():item()";
  const double sum = interpreter.run_string(script)[0].number();
  std::printf("rank %d, sum %g\n", own.rank, sum);
  return own.rank == 2 && sum == 6 ? 0 : 1;
}
