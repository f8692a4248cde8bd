// tensor/float32_precision.h: how exact products of float32 matrices must be, for all threads. The
// CPU computes them in float32 always; CUDA devices are faster where they may round the factors.
#pragma once

#include <string_view>

namespace moonlet {

// Highest: float32 throughout. High and medium: the factors may be rounded to TF32, of 10 bits of
// mantissa, sums staying in float32.
enum class Float32Precision { Highest, High, Medium };

Float32Precision float32_precision();
void set_float32_precision(Float32Precision precision);
// "highest", "high", "medium". Throws Error for another name.
Float32Precision float32_precision_from_name(std::string_view wanted);
const char* name(Float32Precision precision);

}  // namespace moonlet
