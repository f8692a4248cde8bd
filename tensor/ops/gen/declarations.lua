-- tensor/ops/gen/declarations.lua: the C++ declarations of an op's public forms.

local cpptext = require "tensor.ops.gen.cpptext"
local fill = require("tensor.ops.gen.template").fill

local declarations = {}

function declarations.plain(row, options)
  return ("%s %s(%s)"):format(cpptext.result(row), row.name, cpptext.parameters(row, options))
end

function declarations.inplace(row, options)
  local parameters = cpptext.parameters(row, { inplace = true, defaults = options and options.defaults })
  return ("Tensor& %s_(%s)"):format(row.name, parameters)
end

-- Its outs come first, and are what it returns.
function declarations.out_form(row, options)
  local parameters, result = {}, "Tensor&"
  for i, name in ipairs(cpptext.out_names(row)) do parameters[i] = "Tensor& " .. name end
  if #parameters > 1 then result = ("std::tuple<%s>"):format(("Tensor&, "):rep(#parameters):sub(1, -3)) end
  local rest = cpptext.parameters(row, options)
  if rest ~= "" then parameters[#parameters + 1] = rest end
  return ("%s %s_out(%s)"):format(result, row.name, table.concat(parameters, ", "))
end

-- The names of a row's forms in order, and {name = its declaration with the defaults}.
function declarations.forms(row)
  local names, texts = {}, {}
  local function add(name, declare)
    names[#names + 1], texts[name] = name, declare(row, { defaults = true }) .. ";"
  end
  if row.plain_form then add(row.name, declarations.plain) end
  if row.inplace_form then add(row.name .. "_", declarations.inplace) end
  if row.out_form then add(row.name .. "_out", declarations.out_form) end
  return names, texts
end

local header = [[
$purpose
#pragma once

#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "tensor/core/operand.h"
#include "tensor/core/tensor.h"

namespace moonlet {

class Generator;

$declarations

}  // namespace moonlet
]]

-- A header of declarations below its purpose line.
function declarations.header(purpose, list)
  return fill(header, { purpose = purpose, declarations = list }) .. "\n"
end

return declarations
