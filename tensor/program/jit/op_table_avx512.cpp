// tensor/program/jit/op_table_avx512.cpp: what functors do where AVX-512 is the target; and the
// search in the tables.
#define MOONLET_TRACED_TARGET HWY_AVX3
#define MOONLET_TRACED_NAMESPACE N_TRACED_AVX512
#define MOONLET_TRACED_OPS avx512_ops
#include "tensor/program/jit/op_table-inl.h"
//
#include <algorithm>
#include <string_view>
#include <vector>

namespace moonlet::program::jit {

const TracedOp* find_traced_op(Target target, const char* name) {
  const std::span<const TracedOp> all = target == Target::Avx2 ? avx2_ops() : avx512_ops();
  const std::string_view wanted = name;
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const TracedOp& op) { return op.name == wanted; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace moonlet::program::jit
