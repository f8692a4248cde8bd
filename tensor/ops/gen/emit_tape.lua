-- tensor/ops/gen/emit_tape.lua: the public ops of namespace moonlet: each wraps its dims, hands the
-- call to the modes when there are any, runs the op without the tape, and records it when an input
-- requires grad.

local cpptext = require "tensor.ops.gen.cpptext"
local declarations = require "tensor.ops.gen.declarations"
local formula = require "tensor.ops.gen.formula"
local template = require "tensor.ops.gen.template"

local fill = template.fill

local function call_arguments(row, renamed)
  local out = {}
  for i, arg in ipairs(row.args) do out[i] = renamed[arg.name] or arg.name end
  return table.concat(out, ", ")
end

-- The pieces of a row that all its functions use.
local function prepare(row)
  local wraps, renamed = {}, {}
  if row.kind ~= "composite" then wraps, renamed = cpptext.wrap_dims(row) end
  return { wraps = wraps, renamed = renamed, arguments = call_arguments(row, renamed),
           plan = formula.analyse(row), result = cpptext.result(row),
           formula = "k" .. row.camel, gradients = row.name .. "_gradients" }
end

-- What calls the op below the tape: raw::softmax, views::transpose, gelu_composite.
local function below(row)
  if row.kind == "composite" then return row.name .. "_composite" end
  return (row.kind == "view" and "views::" or "raw::") .. row.name
end

-- The tape records no change of a written argument besides the first of an update.
local function written_checks(row, op)
  local out = {}
  if row.kind == "composite" or op:find "_out$" then return out end  -- what it is made of checks
  for _, arg in ipairs(cpptext.written(row, row.kind == "update" and row.args[1] or nil)) do
    local text = 'if (requires_grad($name)) check_inplace_without_derivative($name, "$op: $name");'
    if arg.info.list then
      text = 'for (const Tensor& each : $name)\n'
        .. '  if (requires_grad(each)) check_inplace_without_derivative(each, "$op: $name");'
    end
    out[#out + 1] = fill(text, { name = arg.name, op = op })
  end
  return out
end

local form_template = [[
$signature {
  $wraps
  $checks
  return forms::$form($arguments);
}
]]

-- A function whose body is the template `form` of autograd/forms.h, called with the op's
-- description and arguments.
local function form_function(row, p, signature, form, op, arguments)
  return fill(form_template, { signature = signature, wraps = p.wraps, checks = written_checks(row, op),
    form = form, arguments = "ops::" .. op .. (arguments ~= "" and ", " .. arguments or "") }) .. "\n"
end

-- "recorded<kExp, raw::exp, exp_gradients>"
local function instance(form, ...)
  return ("%s<%s>"):format(form, table.concat({ ... }, ", "))
end

local function plain_function(row, p)
  local signature = declarations.plain(row)
  local form
  if #row.grads == 0 then
    form = row.kind == "view" and instance("plain_view", below(row), row.name) or instance("plain", below(row))
  elseif row.kind == "view" then
    form = instance("recorded_view", p.formula, below(row), p.gradients, row.name)
  else
    form = instance("recorded", p.formula, below(row), p.gradients)
  end
  return form_function(row, p, signature, form, row.name, p.arguments)
end

local function inplace_function(row, p)
  local signature = declarations.inplace(row)
  local form
  if row.inplace == "view" then
    form = instance("restrided", row.name)
  elseif not row.raw_inplace_form then
    form = instance("assigned", row.name)
  elseif p.plan.differentiable[1] ~= row.args[1] then
    form = instance("inplace", below(row) .. "_")
  else
    form = instance("recorded_inplace", p.formula, below(row) .. "_", p.gradients)
  end
  return form_function(row, p, signature, form, row.name .. "_", p.arguments)
end

local function out_function(row, p)
  local outs = cpptext.out_names(row)
  local signature = declarations.out_form(row)
  local form = row.raw_out_form and instance("out", below(row) .. "_out") or instance("stored", below(row))
  local target = #outs == 1 and "out" or ("std::tie(%s)"):format(table.concat(outs, ", "))
  local arguments = target .. (p.arguments ~= "" and ", " .. p.arguments or "")
  return form_function(row, p, signature, form, row.name .. "_out", arguments)
end

-- What stands for an op that the build has not.
local function define_left_out(row)
  local out = {}
  local function add(declare) out[#out + 1] = ('%s { op_left_out("%s"); }\n'):format(declare(row), row.name) end
  if row.plain_form then add(declarations.plain) end
  if row.inplace_form then add(declarations.inplace) end
  if row.out_form then add(declarations.out_form) end
  return table.concat(out)
end

local function define(row)
  if row.left_out then return define_left_out(row) end
  local p = prepare(row)
  local out = { cpptext.mark(row) .. "\n" }
  if row.kind == "composite" then
    out[2] = ("%s %s_composite(%s);\n"):format(p.result, row.name, cpptext.parameters(row))
  end
  if #row.grads > 0 then
    out[#out + 1] = formula.define(row, p.plan) .. "\n"
  end
  if row.plain_form then out[#out + 1] = plain_function(row, p) end
  if row.inplace_form then out[#out + 1] = inplace_function(row, p) end
  if row.out_form then out[#out + 1] = out_function(row, p) end
  return table.concat(out)
end

-- Ops of other families that the formulas of these rows call. They are declared here one by one, so
-- that the file does not depend on all families' headers.
local function foreign_calls(rows, all)
  local called, out = {}, {}
  for _, row in ipairs(rows) do
    for name in pairs(row.left_out and {} or formula.analyse(row).calls) do called[name] = true end
  end
  for _, row in ipairs(all) do
    if called[row.name] and row.family ~= rows[1].family then
      out[#out + 1] = declarations.plain(row, { defaults = true }) .. ";"
    end
  end
  return table.concat(out, "\n")
end

local leaving = [[
#include "tensor/core/left_out.h"
#pragma GCC diagnostic ignored "-Wunused-parameter"]]

local file = [[
// Generated from tensor/ops/$family.lua: the public ops of the family.
#include "autograd/ops_$family.h"
#include "autograd/forms.h"
#include "autograd/formulas.h"
#include "tensor/raw_$family.h"
#include "tensor/core/views.h"
$leaving

namespace moonlet {

namespace ops {
$forms
}  // namespace ops

$foreign
using namespace formulas;

$definitions
}  // namespace moonlet
]]

local function definitions(rows, family, all)
  local forms, out, some = {}, {}, false
  for i, row in ipairs(rows) do
    some = some or row.left_out
    if row.plain_form and not row.left_out then forms[#forms + 1] = row.name end
    if row.inplace_form and not row.left_out then forms[#forms + 1] = row.name .. "_" end
    if row.out_form and not row.left_out then forms[#forms + 1] = row.name .. "_out" end
    out[i] = define(row)
  end
  local text = fill(file, { family = family, leaving = some and leaving or nil,
    forms = #forms > 0 and ("extern const OpInfo %s;"):format(table.concat(forms, ", ")) or nil,
    foreign = foreign_calls(rows, all), definitions = out }) .. "\n"
  return formula.own_lines(template.short_lines(text), ("tape_%s.cpp"):format(family))
end

return definitions
