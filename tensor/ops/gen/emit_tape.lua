-- tensor/ops/gen/emit_tape.lua: the public ops of namespace moonlet: each wraps its dims, hands the
-- call to the modes when there are any, runs the op without the tape, and records it when an input
-- requires grad. `emit_tape` gives the header of all families, `emit_tape:FAMILY.h` that of one and
-- `emit_tape:FAMILY` its functions.

local cpptext = require "tensor.ops.gen.cpptext"
local formula = require "tensor.ops.gen.formula"
local template = require "tensor.ops.gen.template"

local function call_arguments(row, renamed)
  local out = {}
  for i, arg in ipairs(row.args) do out[i] = renamed[arg.name] or arg.name end
  return table.concat(out, ", ")
end

-- Appends formatted lines to a function's text.
local function writer()
  local out = {}
  return function(format, ...)
    if not format then return table.concat(out, "\n") .. "\n" end
    out[#out + 1] = select("#", ...) > 0 and format:format(...) or format
  end
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
local function check_written(row, op, write)
  if row.kind == "composite" then return end  -- what it is made of checks
  for _, arg in ipairs(cpptext.written(row, row.kind == "update" and row.args[1] or nil)) do
    write('  if (requires_grad(%s)) check_inplace_without_derivative(%s, "%s: %s");', arg.name, arg.name, op,
      arg.name)
  end
end

-- A function whose body is the template `form` of autograd/forms.h, called with the op's
-- description and arguments.
local function form_function(row, p, signature, form, op, arguments)
  local write = writer()
  write("%s {", signature)
  for _, line in ipairs(p.wraps) do write("  " .. line) end
  if not op:find "_out$" then check_written(row, op, write) end
  write("  return forms::%s(ops::%s%s);\n}", form, op, arguments ~= "" and ", " .. arguments or "")
  return write()
end

-- "recorded<kExp, raw::exp, exp_gradients>"
local function instance(form, ...)
  return ("%s<%s>"):format(form, table.concat({ ... }, ", "))
end

local function plain_function(row, p)
  local signature = ("%s %s(%s)"):format(p.result, row.name, cpptext.parameters(row))
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
  local signature = ("Tensor& %s_(%s)"):format(row.name, cpptext.parameters(row, { inplace = true }))
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

local function out_result(row)
  if #row.results == 1 then return "Tensor&" end
  return "std::tuple<" .. ("Tensor&, "):rep(#row.results):sub(1, -3) .. ">"
end

local function out_parameters(row, options)
  local outs, rest = {}, cpptext.parameters(row, options)
  for i, name in ipairs(cpptext.out_names(row)) do outs[i] = "Tensor& " .. name end
  return table.concat(outs, ", ") .. (rest ~= "" and ", " .. rest or "")
end

local function out_function(row, p)
  local outs = cpptext.out_names(row)
  local signature = ("%s %s_out(%s)"):format(out_result(row), row.name, out_parameters(row))
  local form = row.raw_out_form and instance("out", below(row) .. "_out") or instance("stored", below(row))
  local target = #outs == 1 and "out" or ("std::tie(%s)"):format(table.concat(outs, ", "))
  local arguments = target .. (p.arguments ~= "" and ", " .. p.arguments or "")
  return form_function(row, p, signature, form, row.name .. "_out", arguments)
end

local function define(row)
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

-- The declarations of a row's forms.
local function declarations(row)
  local out, defaults = {}, { defaults = true }
  if row.plain_form then
    out[1] = ("%s %s(%s);"):format(cpptext.result(row), row.name, cpptext.parameters(row, defaults))
  end
  if row.inplace_form then
    out[#out + 1] = ("Tensor& %s_(%s);"):format(row.name, cpptext.parameters(row, { inplace = true, defaults = true }))
  end
  if row.out_form then
    out[#out + 1] = ("%s %s_out(%s);"):format(out_result(row), row.name, out_parameters(row, defaults))
  end
  return table.concat(out, "\n")
end

local function family_header(rows, family)
  local write = writer()
  write("// autograd/ops_%s.h: generated from tensor/ops/%s.lua. The ops of the family, recording", family, family)
  write("// themselves on the tape when grad mode is on and an input requires grad. Dims are 0-based and")
  write("// may count from the end.")
  write("#pragma once\n\n#include <optional>\n#include <string_view>\n#include <tuple>\n#include <vector>\n")
  write('#include "tensor/operand.h"\n#include "tensor/tensor.h"\n\nnamespace moonlet {\n\nclass Generator;\n')
  for _, row in ipairs(rows) do write(declarations(row)) end
  write("\n}  // namespace moonlet")
  return write()
end

local function umbrella(rows)
  local write, seen = writer(), {}
  write("// autograd/ops.h: generated from tensor/ops/*.lua. Every op; files that use few families include")
  write("// only theirs.\n#pragma once\n")
  for _, row in ipairs(rows) do
    if not seen[row.family] then
      seen[row.family] = true
      write('#include "autograd/ops_%s.h"', row.family)
    end
  end
  return write()
end

-- Ops of other families that the formulas of these rows call. They are declared here one by one, so
-- that the file does not depend on all families' headers.
local function foreign_calls(rows, all)
  local called, out = {}, {}
  for _, row in ipairs(rows) do
    for name in pairs(formula.analyse(row).calls) do called[name] = true end
  end
  for _, row in ipairs(all) do
    if called[row.name] and row.family ~= rows[1].family then
      out[#out + 1] = ("%s %s(%s);"):format(cpptext.result(row), row.name, cpptext.parameters(row, { defaults = true }))
    end
  end
  return table.concat(out, "\n")
end

local function definitions(rows, family, all)
  local forms = {}
  for _, row in ipairs(rows) do
    if row.plain_form then forms[#forms + 1] = row.name end
    if row.inplace_form then forms[#forms + 1] = row.name .. "_" end
    if row.out_form then forms[#forms + 1] = row.name .. "_out" end
  end
  local out = {
    "// Generated from tensor/ops/" .. family .. ".lua: the public ops of the family.",
    ('#include "autograd/ops_%s.h"'):format(family),
    '#include "autograd/forms.h"', '#include "autograd/formulas.h"',
    ('#include "tensor/raw_%s.h"'):format(family), '#include "tensor/views.h"', "",
    "namespace moonlet {", "",
    "namespace ops {", "extern const OpInfo " .. table.concat(forms, ", ") .. ";", "}  // namespace ops", "",
    foreign_calls(rows, all), "using namespace formulas;", "",
  }
  for _, row in ipairs(rows) do out[#out + 1] = define(row) end
  out[#out + 1] = "}  // namespace moonlet\n"
  return formula.own_lines(template.short_lines(table.concat(out, "\n")), ("tape_%s.cpp"):format(family))
end

return function(rows, family, all)
  if not family then return umbrella(rows) end
  local header = family:match "^(.*)%.h$"
  if header then
    local own = {}
    for _, row in ipairs(all) do
      if row.family == header then own[#own + 1] = row end
    end
    return family_header(own, header)
  end
  return definitions(rows, family, all)
end
