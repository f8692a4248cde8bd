// cuda/emulated/include/cuComplex.h: complex numbers as cuBLAS takes them.
#pragma once

#include "vector_types.h"

using cuFloatComplex = float2;
using cuDoubleComplex = double2;
using cuComplex = cuFloatComplex;

constexpr cuFloatComplex make_cuFloatComplex(float re, float im) { return {re, im}; }
constexpr cuComplex make_cuComplex(float re, float im) { return {re, im}; }
constexpr cuDoubleComplex make_cuDoubleComplex(double re, double im) { return {re, im}; }
