// tensor/program/jit/op_table_neon.cpp: what functors do where NEON is the target.
#define MOONLET_TRACED_TARGET HWY_NEON
#define MOONLET_TRACED_NAMESPACE N_TRACED_NEON
#define MOONLET_TRACED_OPS neon_ops
#include "tensor/program/jit/op_table-inl.h"
