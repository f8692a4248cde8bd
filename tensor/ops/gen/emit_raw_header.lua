-- tensor/ops/gen/emit_raw_header.lua: `emit_raw_header:FAMILY` declares the family's functions of
-- namespace raw; `emit_raw_header` is the header of all families.

local cpptext = require "tensor.ops.gen.cpptext"
local fill = require("tensor.ops.gen.template").fill

-- All declarations of a row; the forms in the order plain, in place, out.
local function add_declarations(out, row)
  if row.kind == "pointwise" then out[#out + 1] = fill("extern const PointwiseOp k$camel;", row) end
  if not cpptext.has_kernel(row) then return end
  if row.plain_form then
    out[#out + 1] = fill("$result $name($parameters);", { result = cpptext.result(row), name = row.name,
      parameters = cpptext.parameters(row, { below = true }) })
  end
  if row.raw_inplace_form then
    out[#out + 1] = fill("Tensor& $name_($parameters);", { name = row.name,
      parameters = cpptext.parameters(row, { inplace = true, below = true }) })
  end
  if row.raw_out_form then out[#out + 1] = cpptext.raw_out_declaration(row) .. ";" end
end

local file = [[
// tensor/raw_$family.h: generated from tensor/ops/$family.lua. Ops without the tape: dims are 0-based and
// wrapped already.
#pragma once

#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "tensor/core/operand.h"
#include "tensor/core/tensor.h"

namespace moonlet {

class Generator;
struct PointwiseOp;

namespace raw {

$declarations

}  // namespace raw
}  // namespace moonlet
]]

local all_families = [[
// tensor/raw.h: generated from tensor/ops/: the ops without the tape of all families.
#pragma once

$includes
]]

return function(rows, family)
  local lines = {}
  if family then
    for _, row in ipairs(rows) do add_declarations(lines, row) end
    return fill(file, { family = family, declarations = lines }) .. "\n"
  end
  for i, name in ipairs(cpptext.families(rows)) do lines[i] = ('#include "tensor/raw_%s.h"'):format(name) end
  return fill(all_families, { includes = lines }) .. "\n"
end
