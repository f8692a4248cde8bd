-- tensor/ops/gen/emit_ops_header.lua: the headers of the public ops: that of a family, or, without
-- one, that of all families.

local cpptext = require "tensor.ops.gen.cpptext"
local declarations = require "tensor.ops.gen.declarations"
local fill = require("tensor.ops.gen.template").fill

local purpose = [[
// autograd/ops_$family.h: generated from tensor/ops/$family.lua. The ops of the family, recording
// themselves on the tape when grad mode is on and an input requires grad. Dims are 0-based and
// may count from the end.]]

local function family_header(rows, family)
  local out = {}
  for _, row in ipairs(rows) do
    local names, texts = declarations.forms(row)
    for _, name in ipairs(names) do out[#out + 1] = texts[name] end
  end
  return declarations.header(fill(purpose, { family = family }), out)
end

local all_families = [[
// autograd/ops.h: generated from tensor/ops/*.lua. Every op; files that use few families include
// only theirs.
#pragma once

$includes
]]

return function(rows, family)
  if family then return family_header(rows, family) end
  local includes = {}
  for i, name in ipairs(cpptext.families(rows)) do
    includes[i] = ('#include "autograd/ops_%s.h"'):format(name)
  end
  return fill(all_families, { includes = includes }) .. "\n"
end
