// tensor/runtime/float32_precision.h: how exact products of float32 matrices must be, which belongs
// to an interpreter. The CPU computes them in float32 always; CUDA devices are faster where they
// may round the factors.
#pragma once

#include <cstdint>
#include <string_view>

namespace moonlet {

// Highest: float32 throughout. High and medium: the factors may be rounded to TF32, of 10 bits of
// mantissa, sums staying in float32.
enum class Float32Precision : uint8_t { Highest, High, Medium };

// Of what runs on this thread.
Float32Precision float32_precision();
void set_float32_precision(Float32Precision precision);
// "highest", "high", "medium". Throws Error for another name.
Float32Precision float32_precision_from_name(std::string_view wanted);
const char* name(Float32Precision precision);

}  // namespace moonlet
