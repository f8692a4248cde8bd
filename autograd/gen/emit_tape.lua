-- autograd/gen/emit_tape.lua: the public ops of namespace moonlet: each wraps its dims, hands the
-- call to the modes when there are any, runs the op without the tape, and records it when an input
-- requires grad. `emit_tape` gives the header of all families, `emit_tape:FAMILY.h` that of one and
-- `emit_tape:FAMILY` its functions.

local cpptext = require "cpptext"
local formula = require "formula"

local function call_arguments(row, renamed)
  local out = {}
  for i, arg in ipairs(row.args) do out[i] = renamed[arg.name] or arg.name end
  return table.concat(out, ", ")
end

local function names(args)
  local out = {}
  for i, arg in ipairs(args) do out[i] = arg.name end
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
           plan = formula.analyse(row), result = cpptext.result(row) }
end

local function gradients_call(row, p)
  local captured = {}
  for i, arg in ipairs(formula.captured_arguments(row, p.plan)) do
    captured[i] = p.renamed[arg.name] or arg.name
  end
  return ("%s_gradients(%s)"):format(row.name, table.concat(captured, ", "))
end

local function result_addresses(row)
  if #row.results == 1 then return "&result_" end
  local out = {}
  for i in ipairs(row.results) do out[i] = ("&std::get<%d>(result_)"):format(i - 1) end
  return table.concat(out, ", ")
end

-- What calls the op below the tape: raw::softmax, views::transpose, gelu_composite.
local function below(row)
  if row.kind == "composite" then return row.name .. "_composite" end
  return (row.kind == "view" and "views::" or "raw::") .. row.name
end

-- Notes a view with the way to make it again: the op itself, on another tensor.
local function view_line(row, p)
  local x, captures, arguments = row.args[1].name, {}, {}
  for i, arg in ipairs(row.args) do
    local held = p.renamed[arg.name] or arg.name
    arguments[i] = held
    if i > 1 then captures[#captures + 1] = held end
  end
  return ("  note_view(result_, %s, [%s](const Tensor& %s) { return %s(%s); });"):format(x,
    table.concat(captures, ", "), x, row.name, table.concat(arguments, ", "))
end

-- The tape records no change of a written argument besides the first of an update.
local function check_written(row, op, write)
  if row.kind == "composite" then return end  -- what it is made of checks
  for _, arg in ipairs(cpptext.written(row, row.kind == "update" and row.args[1] or nil)) do
    write('  if (requires_grad(%s)) check_inplace_without_derivative(%s, "%s: %s");', arg.name, arg.name, op,
      arg.name)
  end
end

local function plain_function(row, p)
  local write = writer()
  write("%s %s(%s) {", p.result, row.name, cpptext.parameters(row))
  for _, line in ipairs(p.wraps) do write("  " .. line) end
  write("  if (intercepted()) [[unlikely]]\n    return boxing::intercept<%s>(ops::%s%s);", p.result, row.name,
    #row.args > 0 and ", " .. p.arguments or "")
  check_written(row, row.name, write)
  if row.kind ~= "view" and #row.grads == 0 then
    write("  return %s(%s);\n}", below(row), p.arguments)
    return write()
  end
  write("  %s result_ = %s(%s);", p.result, below(row), p.arguments)
  if row.kind == "view" then write(view_line(row, p)) end
  if #row.grads > 0 then
    write("  if (must_record(%s)) [[unlikely]]", names(p.plan.differentiable))
    write("    record(k%s, %s, {%s}, {%s});", row.camel, gradients_call(row, p), names(p.plan.inputs),
      result_addresses(row))
  end
  write("  return result_;\n}")
  return write()
end

local function inplace_function(row, p)
  local x, write = row.args[1].name, writer()
  write("Tensor& %s_(%s) {", row.name, cpptext.parameters(row, { inplace = true }))
  for _, line in ipairs(p.wraps) do write("  " .. line) end
  write("  if (intercepted()) [[unlikely]]\n    return boxing::intercept<Tensor>(ops::%s_, %s), %s;", row.name,
    p.arguments, x)
  if row.inplace == "view" then
    write('  return restride_(%s, "%s_", [&](const Tensor& %s) { return %s(%s); });\n}', x, row.name, x, row.name,
      p.arguments)
    return write()
  end
  if not row.raw_inplace_form then
    local rest = p.arguments:match "^[^,]*(.*)$"
    write('  return assign_(%s, %s(before_change(%s)%s), "%s_");\n}', x, row.name, x, rest, row.name)
    return write()
  end
  check_written(row, row.name .. "_", write)
  if p.plan.differentiable[1] ~= row.args[1] then
    write('  check_inplace_without_derivative(%s, "%s_");', x, row.name)
    write("  return raw::%s_(%s);\n}", row.name, p.arguments)
    return write()
  end
  write("  if (!must_record(%s) || !is_differentiable(%s.dtype())) {", names(p.plan.differentiable), x)
  write('    check_unrecorded(%s, "%s_");', x, row.name)
  write("    return raw::%s_(%s);\n  }", row.name, p.arguments)
  write('  auto change_ = record_inplace(k%s, %s, "%s_", %s, {%s});', row.camel, gradients_call(row, p),
    row.name, x, names(p.plan.inputs))
  write("  raw::%s_(%s);", row.name, p.arguments)
  write("  change_.finish(%s);\n  return %s;\n}", x, x)
  return write()
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
  local outs, write, tensors = cpptext.out_names(row), writer(), {}
  for i, name in ipairs(outs) do tensors[i] = name end
  for _, arg in ipairs(p.plan.inputs) do tensors[#tensors + 1] = arg.name end
  local all = table.concat(outs, ", ")
  local arguments = all .. (p.arguments ~= "" and ", " .. p.arguments or "")
  local give = #outs == 1 and "out" or ("{%s}"):format(all)
  write("%s %s_out(%s) {", out_result(row), row.name, out_parameters(row))
  for _, line in ipairs(p.wraps) do write("  " .. line) end
  write("  if (intercepted()) [[unlikely]] {\n    boxing::intercept<%s>(ops::%s_out, %s);\n    return %s;\n  }",
    p.result, row.name, arguments, give)
  write('  refuse_recording_out("%s", %s);', row.name, table.concat(tensors, ", "))
  if row.raw_out_form then
    write(#outs == 1 and "  return raw::%s_out(%s);\n}" or "  raw::%s_out(%s);", row.name, arguments)
    if #outs > 1 then write("  return %s;\n}", give) end
    return write()
  end
  write("  const %s result_ = %s(%s);", p.result, below(row), p.arguments)
  for i, name in ipairs(outs) do
    write('  store_out("%s", %s, %s);', row.name, name,
      #outs == 1 and "result_" or ("std::get<%d>(result_)"):format(i - 1))
  end
  write("  return %s;\n}", give)
  return write()
end

local function define(row)
  local p = prepare(row)
  local out = { ("// %s"):format(row.name) }
  if row.direct then return "" end
  if row.kind == "composite" then
    out[1] = ("// %s\n%s %s_composite(%s);"):format(row.name, p.result, row.name, cpptext.parameters(row))
  end
  if #row.grads > 0 then
    out[#out + 1] = "namespace {\n" .. formula.define(row, p.plan) .. "\n}  // namespace\n"
  end
  if row.plain_form then out[#out + 1] = plain_function(row, p) end
  if row.inplace_form then out[#out + 1] = inplace_function(row, p) end
  if row.out_form then out[#out + 1] = out_function(row, p) end
  return table.concat(out, "\n")
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
    '#include "autograd/formulas.h"', '#include "autograd/recording.h"',
    '#include "tensor/boxing.h"', '#include "tensor/dispatch.h"', ('#include "tensor/raw_%s.h"'):format(family),
    '#include "tensor/views.h"', "",
    "namespace moonlet {", "",
    "namespace ops {", "extern const OpInfo " .. table.concat(forms, ", ") .. ";", "}  // namespace ops", "",
    foreign_calls(rows, all), "using namespace formulas;", "",
  }
  for _, row in ipairs(rows) do out[#out + 1] = define(row) end
  out[#out + 1] = "}  // namespace moonlet\n"
  return table.concat(out, "\n")
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
