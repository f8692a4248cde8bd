// tensor/program/jit/op_table_avx2.cpp: what functors do where AVX2 is the target.
#define MOONLET_TRACED_TARGET HWY_AVX2
#define MOONLET_TRACED_NAMESPACE N_TRACED_AVX2
#define MOONLET_TRACED_OPS avx2_ops
#include "tensor/program/jit/op_table-inl.h"
