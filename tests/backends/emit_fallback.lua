-- tests/backends/emit_fallback.lua: the kernel table of host2, made of fallbacks to the CPU's kernels.

local cpptext = require "tensor.ops.gen.cpptext"
local fill = require("tensor.ops.gen.template").fill

local file = [[
// Generated from tensor/ops/*.lua: the kernels of host2.
$includes
#include "tests/backends/fallback.h"

namespace moonlet {

namespace {
$parts
}  // namespace

extern const KernelTable host2_kernels;
const KernelTable host2_kernels = {
    $fields
    .pointwise_ops = {$lists},
};

}  // namespace moonlet
]]

local struct_template = [[
const $struct $family = {
    $kernels
};]]

local pointwise_template = [[
const PointwiseKernel $family_ops[] = {
    $pointwise
};]]

-- Appends the parts of a family, the number of which is `number`; returns its list of pointwise kernels.
local function add_family(out, rows, family, number)
  local struct, kernels, pointwise = cpptext.kernel_struct(family), {}, {}
  for _, row in ipairs(rows) do
    if row.family == family and row.kind == "pointwise" then
      pointwise[#pointwise + 1] = ("host2::pointwise<%d, %d>,"):format(number, #pointwise)
    elseif row.family == family and cpptext.has_kernel(row) then
      kernels[#kernels + 1] = (".%s = host2::Fallback<&KernelTable::%s, &%s::%s>::call,"):format(row.name, family,
        struct, row.name)
    end
  end
  out[#out + 1] = fill(struct_template, { struct = struct, family = family, kernels = kernels })
  if #pointwise == 0 then return "nullptr" end
  out[#out + 1] = fill(pointwise_template, { family = family, pointwise = pointwise })
  return family .. "_ops"
end

return function(rows)
  local includes, parts, fields, lists = {}, {}, {}, {}
  for i, family in ipairs(cpptext.families(rows)) do
    includes[i] = ('#include "tensor/kernels_%s.h"'):format(family)
    lists[i] = add_family(parts, rows, family, i - 1)
    fields[i] = (".%s = &%s,"):format(family, family)
  end
  return fill(file, { includes = includes, parts = parts, fields = fields, lists = table.concat(lists, ", ") })
    .. "\n"
end
