-- cuda/gen/emit_loop_functors.lua: the functors of all pointwise ops with kernels for CUDA, by the ops'
-- names, for sources that are compiled at run time.

local pointwise_list = require "tensor.ops.gen.pointwise_list"
local fill = require("tensor.ops.gen.template").fill

local file = [[
// Generated from tensor/ops: the functors of pointwise ops.
#include "cuda/loops/loop_functors.h"

namespace moonlet::cuda::loops {
const Functor kFunctors[] = {
$list
};
const int kFunctorCount = sizeof kFunctors / sizeof kFunctors[0];
}  // namespace moonlet::cuda::loops
]]

local function families_of(rows)
  local list, seen = {}, {}
  for _, row in ipairs(rows) do
    if not seen[row.family] then
      seen[row.family] = {}
      list[#list + 1] = row.family
    end
    table.insert(seen[row.family], row)
  end
  return list, seen
end

-- The file cuda_loop_functors.cpp.
return function(rows)
  local list = {}
  local families, rows_of = families_of(rows)
  for _, family in ipairs(families) do
    local own = pointwise_list.includes(family):match '"(.-)"'
    for _, kernel in ipairs(pointwise_list.kernels(rows_of[family])) do
      if not kernel.cpu_only then
        kernel.header = own and ('"%s"'):format(own) or "nullptr"
        kernel.loops = kernel.loops == "S" and "F" or kernel.loops
        list[#list + 1] = fill(
          '    {"$name", "$functor", $header, $tensors, $numbers, "$loops", $divides},', kernel)
      end
    end
  end
  table.sort(list)
  return fill(file, { list = list }) .. "\n"
end
