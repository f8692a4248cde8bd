-- tensor/ops/gen/emit_raw_header.lua: `emit_raw_header:FAMILY` declares the family's functions of
-- namespace raw; `emit_raw_header` is the header of all families.

local cpptext = require "tensor.ops.gen.cpptext"

-- All declarations of a row; the forms in the order plain, in place, out.
local function declarations(row)
  local lines = {}
  if row.plain_form then
    lines[#lines + 1] = ("%s %s(%s);"):format(cpptext.result(row), row.name, cpptext.parameters(row, { below = true }))
  end
  if row.raw_inplace_form then
    lines[#lines + 1] = ("Tensor& %s_(%s);"):format(row.name, cpptext.parameters(row, { inplace = true, below = true }))
  end
  if row.raw_out_form then lines[#lines + 1] = cpptext.raw_out_declaration(row) .. ";" end
  return lines
end

local function family_header(rows, family)
  local out = {
    ("// tensor/raw_%s.h: generated from tensor/ops/%s.lua. Ops without the tape: dims are 0-based and"):format(
      family, family),
    "// wrapped already.",
    "#pragma once", "",
    "#include <optional>", "#include <string_view>", "#include <tuple>", "#include <vector>", "",
    '#include "tensor/operand.h"', '#include "tensor/tensor.h"', "",
    "namespace moonlet {\n\nclass Generator;\nstruct PointwiseOp;\n\nnamespace raw {", "",
  }
  for _, row in ipairs(rows) do
    if row.kind == "pointwise" then
      out[#out + 1] = ("extern const PointwiseOp k%s;"):format(row.camel)
    end
    if cpptext.has_kernel(row) then
      for _, line in ipairs(declarations(row)) do out[#out + 1] = line end
    end
  end
  out[#out + 1] = "\n}  // namespace raw\n}  // namespace moonlet\n"
  return table.concat(out, "\n")
end

local function index(rows)
  local out = { "// tensor/raw.h: generated from tensor/ops/: the ops without the tape of all families.",
    "#pragma once", "" }
  for _, family in ipairs(cpptext.families(rows)) do
    out[#out + 1] = ('#include "tensor/raw_%s.h"'):format(family)
  end
  return table.concat(out, "\n") .. "\n"
end

return function(rows, family)
  if family then return family_header(rows, family) end
  return index(rows)
end
