-- tensor/ops/gen/emit_shapes.lua: the header that declares a family's shape functions: one for each
-- row with a kernel. They check the arguments for every device and say what the results look like;
-- tensor/shapes/ defines them, and a row without one fails to link.

local cpptext = require "tensor.ops.gen.cpptext"
local fill = require("tensor.ops.gen.template").fill

local function result(row)
  if row.kind ~= "structured" or #row.results == 0 then return "void" end
  if #row.results == 1 then return "Result" end
  return ("std::array<Result, %d>"):format(#row.results)
end

local file = [[
// tensor/shapes_$family.h: generated from tensor/ops/$family.lua: the shape functions of the family.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "tensor/shapes/result.h"

namespace moonlet::shapes {

$declarations

}  // namespace moonlet::shapes
]]

return function(rows, family)
  local out = {}
  for _, row in ipairs(rows) do
    if cpptext.has_kernel(row) and row.kind ~= "pointwise" then
      out[#out + 1] = fill("$result $name($parameters);", {
        result = result(row), name = row.name, parameters = cpptext.parameters(row, { computed = true }) })
    end
  end
  return fill(file, { family = family, declarations = out }) .. "\n"
end
