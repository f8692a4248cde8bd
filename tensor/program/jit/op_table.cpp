// tensor/program/jit/op_table.cpp: the tables of the targets, and the search in them; and how many
// elements vectors of a target have.
#include "tensor/program/jit/op_table.h"

#include <algorithm>
#include <string_view>

#include "tensor/program/jit/body.h"

namespace moonlet::program::jit {

std::span<const TracedOp> ops_of(Target target) {
#if defined(__aarch64__)
  return target == Target::Neon ? neon_ops() : std::span<const TracedOp>();
#else
  return target == Target::Avx512 ? avx512_ops()
         : target == Target::Avx2 ? avx2_ops()
                                  : std::span<const TracedOp>();
#endif
}

const TracedOp* find_traced_op(Target target, const char* name) {
  const std::span<const TracedOp> all = ops_of(target);
  const std::string_view wanted = name;
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const TracedOp& op) { return op.name == wanted; });
  return found == all.end() ? nullptr : &*found;
}

int Body::lanes() const {
  const int bytes = target == Target::Avx512 ? 64 : target == Target::Avx2 ? 32 : 16;
  int size = 4;
  for (int i = 0; i < trace.size(); ++i) size = std::max<int>(size, trace[i].size);
  return bytes / size;
}

}  // namespace moonlet::program::jit
