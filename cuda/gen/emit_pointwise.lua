-- cuda/gen/emit_pointwise.lua: the CUDA kernels of one family of pointwise ops. The text
-- only lists the ops; cuda/kernels/common/pointwise.cuh says what becomes of each.

local pointwise_list = require "tensor.ops.gen.pointwise_list"
local fill = require("tensor.ops.gen.template").fill

local file = [[
// Generated from tensor/ops/$family.lua: the family's pointwise kernels for CUDA.
#include "cuda/kernels/common/pointwise.cuh"$includes

namespace moonlet::cuda {
$list
}  // namespace moonlet::cuda
]]

local kernel_text = "MOONLET_CUDA_POINTWISE($name, $functor, $tensors, $numbers, k$loops, $divides, "
  .. "$mask, $truth, $effort)"

-- Families of functors that are more code than a sum, and functors of others: cuda/kernels/common/pointwise.cuh
-- says what becomes of each effort.
local middle = { math = true }
local coarse = { activation = true }
local long = { special = true, complex = true }
local long_functors = {
  pow = true, gcd = true, lcm = true, floor_divide = true, trunc_divide = true, remainder = true,
  fmod = true, nextafter_by = true, nextafter_wide = true,
}

local function effort(kernel, family)
  if kernel.slow or long[family] or long_functors[kernel.name] then return "kLong" end
  return middle[family] and "kMiddle" or coarse[family] and "kCoarse" or "kShort"
end

-- The file cuda_FAMILY-inl.h.
return function(rows, family)
  local list = {}
  for _, kernel in ipairs(pointwise_list.kernels(rows)) do
    if not kernel.cpu_only then
      kernel.effort = effort(kernel, family)
      list[#list + 1] = fill(kernel_text, kernel)
    end
  end
  return fill(file, { family = family, includes = pointwise_list.includes(family), list = list }) .. "\n"
end
