-- tensor/ops/gen/emit_kernels.lua: the kernels a device has. `emit_kernels` gives the header of the
-- whole table, which changes only with the list of families; `emit_kernels:FAMILY` the header of a
-- family's part, with the kernels' declarations.

local backends = require "tensor.ops.gen.backends"
local cpptext = require "tensor.ops.gen.cpptext"
local fill = require("tensor.ops.gen.template").fill

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

-- Each kernel of a device as `text` says, which names $result, $name and $parameters.
local function kernels(rows, text, wanted)
  local out = {}
  for _, row in ipairs(rows) do
    if cpptext.has_kernel(row) and wanted(row) then
      out[#out + 1] = fill(text, {
        result = row.kind == "allocating" and cpptext.result(row) or "void", name = row.name,
        parameters = kernel_parameters(row) })
    end
  end
  return out
end

local family_file = [[
// tensor/kernels_$family.h: generated from tensor/ops/$family.lua: the kernels of the family.
#pragma once

#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "tensor/kernels.h"
#include "tensor/core/operand.h"
#include "tensor/functors/philox.h"
#include "tensor/core/tensor.h"

namespace moonlet {

struct $struct {
  $pointers
};

$namespaces

}  // namespace moonlet
]]

local namespace = [[
namespace $name {
$declarations
}  // namespace $name]]

local function family_header(rows, family)
  local declaration = "$result $name($parameters);"
  local namespaces = { fill(namespace, { name = "cpu", declarations =
    kernels(rows, declaration, function() return true end) }) }
  for _, name in ipairs(backends) do
    namespaces[#namespaces + 1] = fill(namespace, { name = name, declarations =
      kernels(rows, declaration, function(row) return not row.cpu_only end) })
  end
  return fill(family_file, {
    family = family, struct = cpptext.kernel_struct(family),
    pointers = kernels(rows, "$result (*$name)($parameters);", function(row) return row.kind ~= "pointwise" end),
    namespaces = table.concat(namespaces, "\n\n"),
  }) .. "\n"
end

local index_file = [[
// tensor/kernels.h: generated from tensor/ops/: the table of kernels every device fills, by family.
#pragma once

namespace moonlet {

struct PointwisePlan;
using PointwiseKernel = void (*)(const PointwisePlan&);
$structs

struct KernelTable {
  $fields
  // The pointwise kernels, by the index of the family and the row's own in it.
  const PointwiseKernel* pointwise_ops[$count];
};

extern const KernelTable cpu_kernels;

}  // namespace moonlet
]]

local function index(rows)
  local structs, fields = {}, {}
  for i, family in ipairs(cpptext.families(rows)) do
    structs[i] = ("struct %s;"):format(cpptext.kernel_struct(family))
    fields[i] = ("const %s* %s;"):format(cpptext.kernel_struct(family), family)
  end
  return fill(index_file, { structs = structs, fields = fields, count = tostring(#fields) }) .. "\n"
end

return function(rows, family)
  if family then return family_header(rows, family) end
  return index(rows)
end
