-- autograd/gen/emit_info.lua: the ops of a family as values at run time: an OpInfo for each form of
-- each row, with its boxed call. (tensor/op_info.h says what they hold.)

local cpptext = require "cpptext"

local policies = { lower_precision = "LowerPrecision", float32 = "Float32", promote = "Promote" }

local function quote(text) return text and ("%q"):format(text):gsub("\\\n", "\\n") or "nullptr" end

-- The policies of the CPU and of CUDA: a row names one for both, or a table of them by device.
local function autocast(row)
  local given, out = row.autocast or {}, {}
  if type(given) == "string" then given = { cpu = given, cuda = given } end
  for i, device in ipairs { "cpu", "cuda" } do
    local name = given[device]
    local policy = name == nil and "None" or policies[name]
      or error(("op %s: unknown autocast policy '%s'"):format(row.name, name), 0)
    out[i] = "AutocastPolicy::" .. policy
  end
  return ("{%s}"):format(table.concat(out, ", "))
end

local function forms(row)
  local out = {}
  if row.plain_form then out[1] = { row.name, "Plain" } end
  if row.inplace_form then out[#out + 1] = { row.name .. "_", "InPlace" } end
  if row.out_form then out[#out + 1] = { row.name .. "_out", "Out" } end
  return out
end

local function boxed(name) return ("boxing::call<&moonlet::%s>"):format(name) end

-- The function below the public op, for ops made of ops.
local function body(row, form)
  if row.kind ~= "composite" or form ~= "Plain" then return "nullptr" end
  return ("boxing::call<&moonlet::%s_composite>"):format(row.name)
end

local function row_info(row)
  local arguments = {}
  for i, arg in ipairs(row.args) do
    arguments[i] = ("    {%s, %s, %s, %s},"):format(quote(arg.name), quote(arg.type), quote(arg.default),
      tostring(arg.written == true))
  end
  local list = #arguments > 0 and "arguments_" .. row.name or "nullptr"
  local differentiable = #row.grads > 0 or row.kind == "composite"
  local text = ("const RowInfo row_%s = {%s, %s, %s, %s, %s, %s, %s, %s, %s, %d, %d, %s};"):format(
    row.name, quote(row.name), quote((row.signature:gsub("%s+", " "))), quote(row.family), quote(row.kind),
    cpptext.dtype_set(row), tostring(row.random == true), tostring(differentiable), autocast(row), list,
    #row.args, #row.results, tostring(row.internal == true))
  if #arguments == 0 then return text end
  return ("const ArgumentInfo %s[] = {\n%s\n};\n%s"):format(list, table.concat(arguments, "\n"), text)
end

local function composites(rows)
  local out = {}
  for _, row in ipairs(rows) do
    if row.kind == "composite" then
      out[#out + 1] = ("%s %s_composite(%s);"):format(cpptext.result(row), row.name, cpptext.parameters(row))
    end
  end
  return table.concat(out, "\n")
end

return function(rows, family)
  local rows_text, ops, pointers = {}, {}, {}
  for i, row in ipairs(rows) do
    rows_text[i] = row_info(row)
    for _, form in ipairs(forms(row)) do
      ops[#ops + 1] = ('extern const OpInfo %s = {"%s", &row_%s, OpInfo::Form::%s, %s,\n    %s};'):format(
        form[1], form[1], row.name, form[2], boxed(form[1]), body(row, form[2]))
      pointers[#pointers + 1] = "&ops::" .. form[1]
    end
  end
  return table.concat({
    ("// Generated from tensor/ops/%s.lua: the ops of the family as values at run time."):format(family),
    ('#include "autograd/ops_%s.h"'):format(family), '#include "tensor/boxing.h"', "",
    "namespace moonlet {", "", composites(rows), "",
    "namespace {", table.concat(rows_text, "\n"), "}  // namespace", "",
    "namespace ops {", table.concat(ops, "\n"), "}  // namespace ops", "",
    "namespace {",
    ("const OpInfo* const kOps[] = {\n    %s};"):format(table.concat(pointers, ",\n    ")),
    "const OpFamily kFamily{kOps};", "}  // namespace", "", "}  // namespace moonlet", "",
  }, "\n")
end
