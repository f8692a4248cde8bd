-- tensor/ops/gen/raw_op_text.lua: the RawOp of a row, as text: boxed calls of its forms
-- (tensor/core/raw_op.h).

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

-- Whether elements that the op reads can make it raise an error.
local function checks(row)
  local found = row.divides or row.kind == "allocating" or row.family == "decomposition"
  for _, arg in ipairs(row.args) do
    found = found or arg.type:find "^Positions" or arg.type:find "^Indices"
  end
  return found and "true" or nil
end

-- Whether the plain form is checks, new results and a kernel, which may be called without the rest.
local function is_kernel_alone(row)
  if row.kind ~= "structured" or not row.raw_out_form or row.random or row.cpu_only or row.steady then return false end
  for _, arg in ipairs(row.args) do
    if arg.written or arg.type:find "^Positions" or arg.type:find "^Indices" then return false end
  end
  return true
end

local function kernel_call(row)
  return ("boxing::KernelCall<&KernelTable::%s, &%s::%s>::run"):format(row.family,
    cpptext.kernel_struct(row.family), row.name)
end

--- The initializer of a row's RawOp.
---@param row table
---@return string
return function(row)
  local view = row.kind == "view"
  local kernel = cpptext.has_kernel(row)
  local function form(condition, suffix) return condition and boxed("raw", row.name .. suffix) or nil end
  return fill(op_template, { fields = cpptext.initializers {
    { "name", ('"%s"'):format(row.name) },
    { "schema", ('"%s"'):format((row.signature:gsub("%s+", " "):gsub('"', '\\"'))) },
    { "kind", cpptext.kind(row) }, { "random", row.random and "true" or nil },
    { "checks", checks(row) },
    { "plain", view and boxed("views", row.name) or form(row.plain_form, "") },
    { "inplace", form(kernel and row.raw_inplace_form, "_") },
    { "out", form(kernel and row.raw_out_form, "_out") },
    { "tensors", tensors(row) },
    { "pointwise", row.kind == "pointwise" and ("&raw::k%s"):format(row.camel) or nil },
    { "kernel", is_kernel_alone(row) and kernel_call(row) or nil },
  } })
end
