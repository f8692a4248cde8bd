-- tensor/ops/gen/emit_pointwise_cuda.lua: the CUDA kernels of one family of pointwise ops. The text
-- only lists the ops; cuda/pointwise.cuh says what becomes of each.

local pointwise_list = require "tensor.ops.gen.pointwise_list"
local fill = require("tensor.ops.gen.template").fill

local file = [[
// Generated from tensor/ops/$family.lua: the family's pointwise kernels for CUDA.
#include "cuda/pointwise.cuh"$includes

namespace moonlet::cuda {
$list
}  // namespace moonlet::cuda
]]

-- The file cuda_FAMILY-inl.h.
return function(rows, family)
  local list = {}
  for _, kernel in ipairs(pointwise_list.kernels(rows)) do
    if not kernel.no_cuda then
      list[#list + 1] = fill(
        "MOONLET_CUDA_POINTWISE($name, $functor, $tensors, $numbers, k$loops, $divides)", kernel)
    end
  end
  return fill(file, { family = family, includes = pointwise_list.includes(family), list = list }) .. "\n"
end
