-- tensor/gen/emit_kernels.lua: the table of kernels every device fills, and each device's table.
-- `emit_kernels` gives the header; `emit_kernels:cpu` and `emit_kernels:cuda` the tables. A row
-- without a kernel fails to link.

local cpptext = require "cpptext"

local function has_kernel(row) return row.kind ~= "view" and row.kind ~= "composite" end

-- "const Tensor& x, int64_t dim, Tensor& y": how a row's kernel is called.
local function kernel_parameters(row)
  if row.kind == "pointwise" then return "const PointwisePlan& plan" end
  local out = {}
  for i, arg in ipairs(row.args) do
    local cpp = (i == 1 and row.kind == "update") and "Tensor&" or arg.info.below
    out[#out + 1] = cpp .. " " .. arg.name
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

local function header(rows)
  local out = {
    "// tensor/kernels.h: generated from tensor/ops/*.lua. The kernels a device has, one slot an op.",
    "#pragma once", "",
    "#include <optional>", "#include <string_view>", "#include <tuple>", "#include <vector>", "",
    '#include "tensor/operand.h"', '#include "tensor/philox.h"', '#include "tensor/tensor.h"', "",
    "namespace moonlet {", "", "struct PointwisePlan;", "", "struct KernelTable {",
  }
  local pointwise = 0
  for _, row in ipairs(rows) do
    if has_kernel(row) then
      out[#out + 1] = ("  %s (*%s)(%s);"):format(kernel_result(row), row.name, kernel_parameters(row))
    end
    if row.kind == "pointwise" then pointwise = pointwise + 1 end
  end
  out[#out + 1] = "};\n"
  out[#out + 1] = ("inline constexpr int kPointwiseOpCount = %d;"):format(pointwise)
  out[#out + 1] = "extern const KernelTable cpu_kernels;\n"
  out[#out + 1] = "// The pointwise kernels of a table, by the index in PointwiseOp."
  out[#out + 1] = "void (*pointwise_kernel(const KernelTable& table, int index))(const PointwisePlan&);\n"
  for _, device in ipairs { "cpu", "cuda" } do
    out[#out + 1] = ("namespace %s {"):format(device)
    for _, row in ipairs(rows) do
      if has_kernel(row) and not (device == "cuda" and row.no_cuda) then
        out[#out + 1] = ("%s %s(%s);"):format(kernel_result(row), row.name, kernel_parameters(row))
      end
    end
    out[#out + 1] = ("}  // namespace %s\n"):format(device)
  end
  out[#out + 1] = "}  // namespace moonlet\n"
  return table.concat(out, "\n")
end

local function device_table(rows, device)
  local out = {
    ("// Generated from tensor/ops/*.lua: the kernels of the %s."):format(device),
    '#include "tensor/kernels.h"', "", "namespace moonlet {", "",
    ("extern const KernelTable %s_kernels;"):format(device),
    ("const KernelTable %s_kernels = {"):format(device),
  }
  local pointwise = {}
  for _, row in ipairs(rows) do
    if has_kernel(row) then
      local value = (device == "cuda" and row.no_cuda) and "nullptr" or device .. "::" .. row.name
      out[#out + 1] = ("    .%s = %s,"):format(row.name, value)
    end
    if row.kind == "pointwise" then pointwise[#pointwise + 1] = row.name end
  end
  out[#out + 1] = "};\n"
  if device == "cpu" then
    out[#out + 1] = "void (*pointwise_kernel(const KernelTable& table, int index))(const PointwisePlan&) {"
    out[#out + 1] = "  using Slot = void (*KernelTable::*)(const PointwisePlan&);"
    out[#out + 1] = "  static constexpr Slot slots[] = {"
    for _, name in ipairs(pointwise) do out[#out + 1] = ("      &KernelTable::%s,"):format(name) end
    out[#out + 1] = "  };\n  return table.*slots[index];\n}\n"
  end
  out[#out + 1] = "}  // namespace moonlet\n"
  return table.concat(out, "\n")
end

return function(_, device, all_rows)
  if device then return device_table(all_rows, device) end
  return header(all_rows)
end
