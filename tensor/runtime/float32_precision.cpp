// tensor/runtime/float32_precision.cpp: the setting that products of float32 matrices read.
#include "tensor/runtime/float32_precision.h"

#include "tensor/core/error.h"
#include "tensor/runtime/execution.h"

namespace moonlet {

namespace {
constexpr const char* kNames[] = {"highest", "high", "medium"};  // in the order of the values
}  // namespace

Float32Precision float32_precision() { return execution.float32_precision; }

void set_float32_precision(Float32Precision precision) { execution.float32_precision = precision; }

Float32Precision float32_precision_from_name(std::string_view wanted) {
  for (int i = 0; i < 3; ++i)
    if (wanted == kNames[i]) return static_cast<Float32Precision>(i);
  fail("set_float32_matmul_precision: \"highest\", \"high\" or \"medium\" is expected, got \"",
       wanted, "\"");
}

const char* name(Float32Precision precision) { return kNames[static_cast<int>(precision)]; }

}  // namespace moonlet
