-- tensor/ops/gen/emit_shapes.lua: the header that declares a family's shape functions: one for each
-- row with a kernel. They check the arguments for every device and say what the results look like;
-- tensor/shapes/ defines them, and a row without one fails to link.

local cpptext = require "tensor.ops.gen.cpptext"

local function result(row)
  if row.kind ~= "structured" then return "void" end
  if #row.results == 1 then return "Result" end
  return ("std::array<Result, %d>"):format(#row.results)
end

return function(rows, family)
  local out = {
    ("// tensor/shapes_%s.h: generated from tensor/ops/%s.lua: the shape functions of the family."):format(
      family, family),
    "#pragma once", "",
    "#include <array>", "#include <optional>", "#include <string_view>", "#include <vector>", "",
    '#include "tensor/shapes/result.h"', "",
    "namespace moonlet::shapes {", "",
  }
  for _, row in ipairs(rows) do
    if cpptext.has_kernel(row) and row.kind ~= "pointwise" then
      out[#out + 1] = ("%s %s(%s);"):format(result(row), row.name, cpptext.parameters(row, { computed = true }))
    end
  end
  out[#out + 1] = "\n}  // namespace moonlet::shapes\n"
  return table.concat(out, "\n")
end
