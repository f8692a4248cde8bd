-- tensor/ops/gen/emit_pointwise_cpu.lua: the CPU kernels of one family of pointwise ops. The text
-- only lists the ops; tensor/cpu/pointwise/pointwise_family-inl.h says what becomes of the list.

local pointwise_list = require "tensor.ops.gen.pointwise_list"
local fill = require("tensor.ops.gen.template").fill

local file = [[
// Generated from tensor/ops/$family.lua: the CPU's pointwise kernels of the family.
#include "tensor/cpu/pointwise/pointwise_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_$family.cpp"
#include "hwy/foreach_target.h"
#include "tensor/cpu/pointwise/pointwise_family-inl.h"$includes

#ifndef MOONLET_POINTWISE_FAMILY
#define MOONLET_POINTWISE_FAMILY(X) \
  $list
#endif

MOONLET_POINTWISE_SIMD(MOONLET_POINTWISE_FAMILY)
#if HWY_ONCE
MOONLET_POINTWISE_KERNELS(MOONLET_POINTWISE_FAMILY)
#endif
]]

-- The file cpu_FAMILY.cpp.
return function(rows, family)
  local list, wanted = {}, {}
  for _, row in ipairs(rows) do
    if row.kind == "pointwise" and not row.left_out then wanted[#wanted + 1] = row end
  end
  if #wanted == 0 then
    return ("// Generated from tensor/ops/%s.lua: the build has no pointwise op of the family.\n"):format(family)
  end
  for i, kernel in ipairs(pointwise_list.kernels(wanted)) do
    -- Loops for 16-bit floats, which spare light functors the time of conversions before and after.
    kernel.loops = kernel.loops .. (kernel.floating and "H" or "")
    list[i] = fill("X($name, $functor, $tensors, $numbers, $loops)", kernel)
  end
  return fill(file, { family = family, includes = pointwise_list.includes(family),
    list = table.concat(list, " \\\n") }) .. "\n"
end
