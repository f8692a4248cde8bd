-- tensor/ops/gen/emit_pointwise_cpu.lua: the CPU kernels of one family of pointwise ops. The text
-- only lists the ops; tensor/cpu/pointwise_family-inl.h says what becomes of the list.

local compute_kinds = require "tensor.ops.gen.compute_kinds"

local function list_row(row)
  local tensors, scalars = 0, 0
  for _, arg in ipairs(row.args) do
    if arg.info.tensor then tensors = tensors + 1 else scalars = scalars + 1 end
  end
  return ("  X(%s, %s, %d, %d, %s)"):format(row.name, row.functor or row.camel, tensors, scalars, compute_kinds(row))
end

-- The file cpu_FAMILY.cpp.
return function(rows, family)
  local list = {}
  for _, row in ipairs(rows) do
    if row.kind == "pointwise" then list[#list + 1] = list_row(row) end
  end
  return table.concat({
    ("// Generated from tensor/ops/%s.lua: the CPU's pointwise kernels of the family."):format(family),
    '#include "tensor/cpu/pointwise_targets.h"',
    "#undef HWY_TARGET_INCLUDE",
    ('#define HWY_TARGET_INCLUDE "cpu_%s.cpp"'):format(family),
    '#include "hwy/foreach_target.h"',
    '#include "tensor/cpu/pointwise_family-inl.h"',
    "",
    "#ifndef MOONLET_POINTWISE_FAMILY",
    "#define MOONLET_POINTWISE_FAMILY(X) \\",
    table.concat(list, " \\\n"),
    "#endif",
    "",
    "MOONLET_POINTWISE_SIMD(MOONLET_POINTWISE_FAMILY)",
    "#if HWY_ONCE",
    "MOONLET_POINTWISE_KERNELS(MOONLET_POINTWISE_FAMILY)",
    "#endif",
    "",
  }, "\n")
end
