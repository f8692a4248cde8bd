-- tensor/ops/gen/emit_info.lua: the ops of a family as values at run time: an OpInfo for each form of
-- each row, with its boxed call. (tensor/core/op_info.h says what they hold.)

local cpptext = require "tensor.ops.gen.cpptext"
local fill = require("tensor.ops.gen.template").fill
local parse = require "tensor.ops.gen.parse"

local function quote(text) return text and ("%q"):format(text):gsub("\\\n", "\\n") or "nullptr" end

-- The policies of the host and of devices: a row names one for both, or a table of them.
local function autocast(row)
  local given, out = row.autocast or {}, {}
  if type(given) == "string" then given = { host = given, device = given } end
  for i, where in ipairs { "host", "device" } do
    local name = given[where]
    out[i] = "AutocastPolicy::" .. (name and parse.autocast_policies[name] or "None")
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
  -- ModeCall::descend tells by this which composites record themselves.
  assert(#row.grads == 0 or row.internal, row.name .. ": a composite with `grad` must be internal")
  return ("boxing::call<&moonlet::%s_composite>"):format(row.name)
end

-- The rule by which vmap calls the op for a whole batch.
local function rule_name(row) return row.vmap or (row.kind == "pointwise" and "pointwise" or nil) end
local function batch_rule(row)
  local name = rule_name(row)
  return name and "&batching::" .. name or nil
end

local function batch_rules(rows)
  local out, seen = {}, {}
  for _, row in ipairs(rows) do
    local name = rule_name(row)
    if name and not seen[name] then
      seen[name] = true
      out[#out + 1] = ("void %s(BatchCall& call);"):format(name)
    end
  end
  return #out > 0 and "namespace batching {\n" .. table.concat(out, "\n") .. "\n}" or ""
end

local arguments_template = [[
const ArgumentInfo $list[] = {
    $arguments
};]]

local row_template = [[
const RowInfo row_$name = {
    $fields
};]]

-- The description that all forms of a row share.
local function row_info(row)
  local arguments = {}
  for i, arg in ipairs(row.args) do
    arguments[i] = ("{%s, %s, %s, %s},"):format(quote(arg.name), quote(arg.type), quote(arg.default),
      tostring(arg.written == true))
  end
  local list = #arguments > 0 and "arguments_" .. row.name or nil
  local function when(condition) return condition and "true" or nil end
  local text = fill(row_template, { name = row.name, fields = cpptext.initializers {
    { "name", quote(row.name) }, { "schema", quote((row.signature:gsub("%s+", " "))) },
    { "family", quote(row.family) }, { "kind", cpptext.kind(row) },
    { "dtypes", cpptext.dtype_set(row) }, { "random", when(row.random) },
    { "differentiable", when(row.is_differentiable) }, { "autocast", row.autocast and autocast(row) },
    { "arguments", list }, { "argument_count", tostring(#row.args) },
    { "result_count", tostring(#row.results) }, { "internal", when(row.internal) },
    { "own_derivative", when(#row.grads > 0) }, { "linear", when(row.linear) },
    { "batch_rule", batch_rule(row) },
  } })
  if #arguments == 0 then return text end
  return fill(arguments_template, { list = list, arguments = arguments }) .. "\n" .. text
end

local function composites(rows)
  local out = {}
  for _, row in ipairs(rows) do
    if row.kind == "composite" then
      out[#out + 1] = fill("$result $name_composite($parameters);",
        { result = cpptext.result(row), name = row.name, parameters = cpptext.parameters(row) })
    end
  end
  return table.concat(out, "\n")
end

local form_template = [[
extern const OpInfo $form = {"$form", &row_$row, OpInfo::Form::$kind, $call,
    $body};]]

local file = [[
// Generated from tensor/ops/$family.lua: the ops of the family as values at run time.
#include "autograd/ops_$family.h"
#include "tensor/core/boxing.h"

namespace moonlet {

$composites

$rules

namespace {
$rows
}  // namespace

namespace ops {
$forms
}  // namespace ops

namespace {
const OpInfo* const kOps[] = {
    $pointers};
const OpFamily kFamily{kOps};
}  // namespace

}  // namespace moonlet
]]

return function(all, family)
  local rows = {}
  for _, row in ipairs(all) do
    if not row.left_out then rows[#rows + 1] = row end
  end
  if #rows == 0 then
    return ("// Generated from tensor/ops/%s.lua: the build has no op of the family.\n"):format(family)
  end
  local infos, texts, pointers = {}, {}, {}
  for i, row in ipairs(rows) do
    infos[i] = row_info(row)
    for _, form in ipairs(forms(row)) do
      texts[#texts + 1] = fill(form_template, { form = form[1], row = row.name, kind = form[2],
        call = boxed(form[1]), body = body(row, form[2]) })
      pointers[#pointers + 1] = "&ops::" .. form[1]
    end
  end
  return fill(file, { family = family, composites = composites(rows), rules = batch_rules(rows), rows = infos, forms = texts,
    pointers = table.concat(pointers, ",\n    ") }) .. "\n"
end
