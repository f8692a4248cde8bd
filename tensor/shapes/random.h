// tensor/shapes/random.h: argument checks and result shapes of random draws.
#pragma once

#include "tensor/tensor.h"

namespace moonlet::shapes {

// Throws unless p is a probability.
void check_probability(const char* op, double p);
// Throws unless [low, high) holds an integer and x's dtype holds them all.
void check_range(const char* op, const Tensor& x, int64_t low, int64_t high);
Tensor randperm(int64_t n, Device device);
Tensor dropout_mask(const Tensor& x, double p);
// int64 positions: (num_samples,) of (n,), (rows, num_samples) of (rows, n).
Tensor multinomial(const Tensor& probs, int64_t num_samples, bool replacement);

}  // namespace moonlet::shapes
