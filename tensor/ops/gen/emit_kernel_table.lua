-- tensor/ops/gen/emit_kernel_table.lua: `emit_kernel_table:cpu` and `emit_kernel_table:cuda`: the
-- filled table of a device. A row without a kernel fails to link.

local cpptext = require "tensor.ops.gen.cpptext"

local function kernel(row, device)
  return (device == "cuda" and row.no_cuda) and "nullptr" or device .. "::" .. row.name
end

-- The two parts of a family: its struct and its list of pointwise kernels.
local function family_part(out, rows, family, device)
  local pointwise = {}
  out[#out + 1] = ("const %s %s = {"):format(cpptext.kernel_struct(family), family)
  for _, row in ipairs(rows) do
    if row.family == family and row.kind == "pointwise" then
      pointwise[#pointwise + 1] = "    " .. kernel(row, device) .. ","
    elseif row.family == family and cpptext.has_kernel(row) then
      out[#out + 1] = ("    .%s = %s,"):format(row.name, kernel(row, device))
    end
  end
  out[#out + 1] = "};"
  if #pointwise == 0 then return "nullptr" end
  out[#out + 1] = ("const PointwiseKernel %s_ops[] = {\n%s\n};"):format(family,
    table.concat(pointwise, "\n"))
  return family .. "_ops"
end

return function(_, device, rows)
  local families = cpptext.families(rows)
  local out = { ("// Generated from tensor/ops/*.lua: the kernels of the %s."):format(device) }
  for _, family in ipairs(families) do
    out[#out + 1] = ('#include "tensor/kernels_%s.h"'):format(family)
  end
  out[#out + 1] = "\nnamespace moonlet {\n\nnamespace {"
  local fields, lists = {}, {}
  for i, family in ipairs(families) do
    lists[i] = family_part(out, rows, family, device)
    fields[i] = ("    .%s = &%s,"):format(family, family)
  end
  out[#out + 1] = "}  // namespace\n"
  out[#out + 1] = ("extern const KernelTable %s_kernels;"):format(device)
  out[#out + 1] = ("const KernelTable %s_kernels = {\n%s\n    .pointwise_ops = {%s},\n};\n"):format(
    device, table.concat(fields, "\n"), table.concat(lists, ", "))
  out[#out + 1] = "}  // namespace moonlet\n"
  return table.concat(out, "\n")
end
