-- tensor/ops/gen/emit_pointwise_cuda.lua: the CUDA kernels of one family of pointwise ops. The text only
-- lists the ops; cuda/pointwise.cuh says what becomes of each.

local compute_kinds = require "tensor.ops.gen.compute_kinds"

-- Functors whose integer form divides its first argument by its second, which must not be 0.
local divides = { FloorDivide = true, TruncDivide = true, Remainder = true, Fmod = true }

local function list_row(row)
  local tensors, scalars = 0, 0
  for _, arg in ipairs(row.args) do
    if arg.info.tensor then tensors = tensors + 1 else scalars = scalars + 1 end
  end
  local functor = row.functor or row.camel
  return ("MOONLET_CUDA_POINTWISE(%s, %s, %d, %d, %s, %s)"):format(
    row.name, functor, tensors, scalars, "k" .. compute_kinds(row), divides[functor] and "true" or "false")
end

-- The file cuda_FAMILY-inl.h.
return function(rows, family)
  local list = {}
  for _, row in ipairs(rows) do
    if row.kind == "pointwise" and not row.no_cuda then list[#list + 1] = list_row(row) end
  end
  return table.concat({
    ("// Generated from tensor/ops/%s.lua: the family's pointwise kernels for CUDA."):format(family),
    '#include "cuda/pointwise.cuh"',
    "",
    "namespace moonlet::cuda {",
    table.concat(list, "\n"),
    "}  // namespace moonlet::cuda",
    "",
  }, "\n")
end
