-- tensor/ops/gen/emit_kernels.lua: the kernels a device has. `emit_kernels` gives the header of the
-- whole table, which changes only with the list of families; `emit_kernels:FAMILY` the header of a
-- family's part, with the kernels' declarations.

local cpptext = require "tensor.ops.gen.cpptext"

-- "const Tensor& x, int64_t dim, Tensor& y": how a row's kernel is called.
local function kernel_parameters(row)
  if row.kind == "pointwise" then return "const PointwisePlan& plan" end
  local out = {}
  for i, arg in ipairs(row.args) do
    local cpp = (i == 1 and row.kind == "update") and "Tensor&" or arg.info.below
    if not arg.info.draws then out[#out + 1] = cpp .. " " .. arg.name end
  end
  if row.random then out[#out + 1] = "Philox rng" end
  if row.kind == "structured" then
    for _, result in ipairs(row.results) do out[#out + 1] = "Tensor& " .. result.name end
  end
  return table.concat(out, ", ")
end

local function kernel_result(row)
  return row.kind == "allocating" and cpptext.result(row) or "void"
end

local function family_header(rows, family)
  local out = {
    ("// tensor/kernels_%s.h: generated from tensor/ops/%s.lua: the kernels of the family."):format(
      family, family),
    "#pragma once", "",
    "#include <optional>", "#include <string_view>", "#include <tuple>", "#include <vector>", "",
    '#include "tensor/kernels.h"', '#include "tensor/operand.h"', '#include "tensor/philox.h"',
    '#include "tensor/tensor.h"', "",
    "namespace moonlet {", "",
    ("struct %s {"):format(cpptext.kernel_struct(family)),
  }
  for _, row in ipairs(rows) do
    if cpptext.has_kernel(row) and row.kind ~= "pointwise" then
      out[#out + 1] = ("  %s (*%s)(%s);"):format(kernel_result(row), row.name, kernel_parameters(row))
    end
  end
  out[#out + 1] = "};\n"
  for _, device in ipairs { "cpu", "cuda" } do
    out[#out + 1] = ("namespace %s {"):format(device)
    for _, row in ipairs(rows) do
      if cpptext.has_kernel(row) and not (device == "cuda" and row.no_cuda) then
        out[#out + 1] = ("%s %s(%s);"):format(kernel_result(row), row.name, kernel_parameters(row))
      end
    end
    out[#out + 1] = ("}  // namespace %s\n"):format(device)
  end
  out[#out + 1] = "}  // namespace moonlet\n"
  return table.concat(out, "\n")
end

local function index(rows)
  local families = cpptext.families(rows)
  local out = {
    "// tensor/kernels.h: generated from tensor/ops/: the table of kernels every device fills, by family.",
    "#pragma once", "", "namespace moonlet {", "",
    "struct PointwisePlan;", "using PointwiseKernel = void (*)(const PointwisePlan&);",
  }
  for _, family in ipairs(families) do
    out[#out + 1] = ("struct %s;"):format(cpptext.kernel_struct(family))
  end
  out[#out + 1] = "\nstruct KernelTable {"
  for _, family in ipairs(families) do
    out[#out + 1] = ("  const %s* %s;"):format(cpptext.kernel_struct(family), family)
  end
  out[#out + 1] = "  // The pointwise kernels, by the index of the family and the row's own in it."
  out[#out + 1] = ("  const PointwiseKernel* pointwise_ops[%d];"):format(#families)
  out[#out + 1] = "};\n\nextern const KernelTable cpu_kernels;\n\n}  // namespace moonlet\n"
  return table.concat(out, "\n")
end

return function(rows, family)
  if family then return family_header(rows, family) end
  return index(rows)
end
