-- tensor/ops/gen/emit_raw_ops.lua: the ops of a family without the tape as values at run time: a RawOp
-- for each row that is no composite, with boxed calls of its forms (tensor/core/raw_op.h).

local cpptext = require "tensor.ops.gen.cpptext"
local fill = require("tensor.ops.gen.template").fill

local function boxed(space, name) return ("boxing::call<&%s::%s>"):format(space, name) end

local op_template = [[
{
    $fields
},]]

-- The arguments that are tensors or operands, by bit.
local function tensors(row)
  local bits = 0
  for i, arg in ipairs(row.args) do
    if arg.info.tensor then bits = bits | 1 << (i - 1) end
  end
  return tostring(bits)
end

local function raw_op(row)
  local view = row.kind == "view"
  local kernel = cpptext.has_kernel(row)
  local function form(condition, suffix) return condition and boxed("raw", row.name .. suffix) or nil end
  return fill(op_template, { fields = cpptext.initializers {
    { "name", ('"%s"'):format(row.name) },
    { "schema", ('"%s"'):format((row.signature:gsub("%s+", " "):gsub('"', '\\"'))) },
    { "kind", cpptext.kind(row) }, { "random", row.random and "true" or nil },
    { "plain", view and boxed("views", row.name) or form(row.plain_form, "") },
    { "inplace", form(kernel and row.raw_inplace_form, "_") },
    { "out", form(kernel and row.raw_out_form, "_out") },
    { "tensors", tensors(row) }, { "pointwise", row.kind == "pointwise" and ("&raw::k%s"):format(row.camel) or nil },
  } })
end

local file = [[
// Generated from tensor/ops/$family.lua: the ops of the family without the tape, as values at run time.
#include "tensor/core/boxing.h"
#include "tensor/core/raw_op.h"
#include "tensor/core/views.h"
#include "tensor/raw_$family.h"

namespace moonlet {
namespace {

const RawOp kOps[] = {
    $ops
};
const RawOpFamily kFamily{kOps};

}  // namespace
}  // namespace moonlet
]]

return function(rows, family)
  local ops = {}
  for _, row in ipairs(rows) do
    if row.kind ~= "composite" then ops[#ops + 1] = raw_op(row) end
  end
  if #ops == 0 then
    return ("// Generated from tensor/ops/%s.lua: all ops of the family are made of others.\n"):format(family)
  end
  return fill(file, { family = family, ops = ops }) .. "\n"
end
