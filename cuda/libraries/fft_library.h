// cuda/libraries/fft_library.h: Fourier transforms by cuFFT, where it is installed.
#pragma once

#include "cuda/runtime/device.h"

namespace moonlet::cuda {

enum class FftKind { ComplexToComplex, RealToComplex, ComplexToReal };

// `count` transforms one after another over the last 1 to 3 dimensions, which have `sizes` points,
// of contiguous x into contiguous y; of real numbers, one dimension. Nothing is scaled. Where y is
// real, x is lost. False, with nothing done, where there is no cuFFT, or it has no way.
bool library_fft(const Call& call, FftKind kind, const Dims& sizes, int64_t count, bool forward,
                 const Tensor& x, const Tensor& y);

}  // namespace moonlet::cuda
