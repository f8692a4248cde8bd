// tensor/program/jit/op_table_avx512.cpp: what functors do where AVX-512 is the target.
#define MOONLET_TRACED_TARGET HWY_AVX3
#define MOONLET_TRACED_NAMESPACE N_TRACED_AVX512
#define MOONLET_TRACED_OPS avx512_ops
#include "tensor/program/jit/op_table-inl.h"
