-- tensor/ops/gen/emit_kernel_table.lua: `emit_kernel_table:NAMESPACE`: the filled table of the kernels
-- in that namespace, `cpu` or that of a backend. A row without a kernel fails to link. Rows that are left out
-- have none on the CPU; what is there in its place is not called, as raw ops of these are left out too.

local cpptext = require "tensor.ops.gen.cpptext"
local fill = require("tensor.ops.gen.template").fill

local function kernel(row, device)
  if row.left_out and device == "cpu" then
    return row.kind == "pointwise" and "nullptr" or
      ("Missing<decltype(%s::%s)>::call"):format(cpptext.kernel_struct(row.family), row.name)
  end
  return (device ~= "cpu" and row.cpu_only) and "nullptr" or device .. "::" .. row.name
end

local struct_template = [[
const $struct $family = {
    $kernels
};]]

local pointwise_template = [[
const PointwiseKernel $family_ops[] = {
    $pointwise
};]]

-- Appends the parts of a family: its struct and its list of pointwise kernels. Returns the list's name.
local function add_family(out, rows, family, device)
  local kernels, pointwise = {}, {}
  for _, row in ipairs(rows) do
    if row.family == family and row.kind == "pointwise" then
      pointwise[#pointwise + 1] = kernel(row, device) .. ","
    elseif row.family == family and cpptext.has_kernel(row) then
      kernels[#kernels + 1] = (".%s = %s,"):format(row.name, kernel(row, device))
    end
  end
  out[#out + 1] = fill(struct_template,
    { struct = cpptext.kernel_struct(family), family = family, kernels = kernels })
  if #pointwise == 0 then return "nullptr" end
  out[#out + 1] = fill(pointwise_template, { family = family, pointwise = pointwise })
  return family .. "_ops"
end

local missing = [[
template <class F>
struct Missing;
template <class R, class... P>
struct Missing<R (*)(P...)> {
  static R call(P...) { op_left_out("a kernel"); }
};
]]

local file = [[
// Generated from tensor/ops/*.lua: the kernels of the $device.
$includes

namespace moonlet {

namespace {
$missing
$parts
}  // namespace

extern const KernelTable $device_kernels;
const KernelTable $device_kernels = {
    $fields
    .pointwise_ops = {$lists},
};

}  // namespace moonlet
]]

return function(_, device, rows)
  local includes, parts, fields, lists, some = {}, {}, {}, {}, false
  for _, row in ipairs(rows) do some = some or (row.left_out and device == "cpu") end
  for i, family in ipairs(cpptext.families(rows)) do
    includes[i] = ('#include "tensor/kernels_%s.h"'):format(family)
    lists[i] = add_family(parts, rows, family, device)
    fields[i] = (".%s = &%s,"):format(family, family)
  end
  if some then includes[#includes + 1] = '#include "tensor/core/left_out.h"' end
  return fill(file, { device = device, missing = some and missing or nil, includes = includes, parts = parts,
    fields = fields, lists = table.concat(lists, ", ") }) .. "\n"
end
