-- tensor/gen/emit_raw.lua: the typed functions of namespace raw: checks, allocation and dispatch,
-- no tape. `emit_raw` gives the header; `emit_raw:FAMILY` the definitions of a family.

local cpptext = require "cpptext"

local function is_direct(row) return row.kind ~= "view" and row.kind ~= "composite" end

-- All declarations of a row; the forms in the order plain, in place, out.
local function declarations(row)
  local lines = {}
  if row.plain_form then
    lines[#lines + 1] = ("%s %s(%s);"):format(cpptext.result(row), row.name, cpptext.parameters(row))
  end
  if row.inplace_form then
    lines[#lines + 1] = ("Tensor& %s_(%s);"):format(row.name, cpptext.parameters(row, { inplace = true }))
  end
  if row.out_form then
    lines[#lines + 1] = ("Tensor& %s_out(%s);"):format(row.name, cpptext.parameters(row, { out = true }))
  end
  return lines
end

local function header(rows)
  local out = {
    "// tensor/raw.h: generated from tensor/ops/*.lua. Ops without the tape: dims are 0-based and",
    "// wrapped already.",
    "#pragma once", "",
    "#include <optional>", "#include <string_view>", "#include <tuple>", "#include <vector>", "",
    '#include "tensor/dispatch.h"', '#include "tensor/operand.h"', '#include "tensor/pointwise/run.h"',
    '#include "tensor/tensor.h"', "",
    "namespace moonlet::raw {", "",
  }
  for _, row in ipairs(rows) do
    if row.kind == "pointwise" then
      out[#out + 1] = ("extern const PointwiseOp k%s;"):format(row.camel)
    end
    if is_direct(row) then
      for _, line in ipairs(declarations(row)) do out[#out + 1] = line end
    end
  end
  out[#out + 1] = "\n}  // namespace moonlet::raw\n"
  return table.concat(out, "\n")
end

-- The pointwise arguments split into operands and scalar parameters.
local function pointwise_parts(row)
  local operands, params, mask = {}, {}, 0
  for _, arg in ipairs(row.args) do
    if arg.info.tensor then
      if arg.type == "Mask" then mask = mask | (1 << #operands) end
      operands[#operands + 1] = arg
    else
      params[#params + 1] = arg.name
    end
  end
  return operands, params, mask
end

local function operand_lines(operands, skip_first)
  local lines, refs = {}, {}
  for i, arg in ipairs(operands) do
    if not (skip_first and i == 1) then
      if arg.info.operand then
        refs[#refs + 1] = "&" .. arg.name
      else
        lines[#lines + 1] = ("const Operand %s_operand(%s);"):format(arg.name, arg.name)
        refs[#refs + 1] = ("&%s_operand"):format(arg.name)
      end
    end
  end
  return lines, table.concat(refs, ", ")
end

local function define_pointwise(row, index)
  local operands, params, mask = pointwise_parts(row)
  local result = ({ bool = "Bool", real = "Real" })[row.result or ""] or "Same"
  local out = {
    ('const PointwiseOp k%s = {"%s", "%s_", %s, %s, PointwiseOp::%s, %d, %s, %d};'):format(row.camel, row.name, row.name,
      cpptext.dtype_set(row), tostring(row.int_to_float == true), result, mask, tostring(row.chooses == true), index),
  }
  local params_text = table.concat(params, ", ")
  local lines, refs = operand_lines(operands)
  local body = #lines > 0 and "  " .. table.concat(lines, "\n  ") .. "\n" or ""
  out[#out + 1] = ("Tensor %s(%s) {\n%s  return run_pointwise(k%s, {%s}, {%s});\n}"):format(
    row.name, cpptext.parameters(row), body, row.camel, refs, params_text)
  if row.out_form then
    out[#out + 1] = ("Tensor& %s_out(%s) {\n%s  return run_pointwise_out(k%s, out, {%s}, {%s});\n}"):format(
      row.name, cpptext.parameters(row, { out = true }), body, row.camel, refs, params_text)
  end
  if row.inplace_form then
    lines, refs = operand_lines(operands, true)
    body = #lines > 0 and "  " .. table.concat(lines, "\n  ") .. "\n" or ""
    out[#out + 1] = ("Tensor& %s_(%s) {\n%s  return run_pointwise_inplace(k%s, %s, {%s}, {%s});\n}"):format(
      row.name, cpptext.parameters(row, { inplace = true }), body, row.camel, operands[1].name, refs, params_text)
  end
  return table.concat(out, "\n")
end

-- The checks on tensor arguments that every structured op makes.
local function checks(row)
  local lines = {}
  local lead = cpptext.leading_tensor(row)
  local function add(fmt, ...) lines[#lines + 1] = "  " .. fmt:format(...) end
  local op = row.name
  for _, arg in ipairs(row.args) do
    local n = arg.name
    if arg.type == "Tensor[]" then
      add('check_list("%s", "%s", %s);', op, n, n)
    elseif arg.info.tensor and not arg.info.operand and not arg.info.list then
      local prefix = arg.info.optional and ("if (%s.defined()) "):format(n) or ""
      if not arg.info.optional then add('check_defined("%s", "%s", %s);', op, n, n) end
      if arg.type == "Positions" then
        add('%scheck_dtype("%s", "%s", %s, bit(DType::Int32) | bit(DType::Int64));', prefix, op, n, n)
      elseif arg.type == "Mask" then
        add('%scheck_dtype("%s", "%s", %s, dtypes::boolean);', prefix, op, n, n)
      elseif arg == lead then
        add('check_dtype("%s", "%s", %s, %s);', op, n, n, cpptext.dtype_set(row))
      elseif not row.mixed then
        add('%scheck_same_dtype("%s", %s, "%s", %s);', prefix, op, lead.name, n, n)
      end
      if lead and arg ~= lead and row.mixed ~= "device" then
        add('%scheck_same_device("%s", %s, "%s", %s);', prefix, op, lead.name, n, n)
      end
    end
  end
  return lines
end

local function device_of(row)
  local lead = cpptext.leading_tensor(row)
  if lead then return lead.name .. ".device().type" end
  for _, arg in ipairs(row.args) do
    if arg.type == "Tensor[]" then return arg.name .. "[0].device().type" end
    if arg.type == "Options" then return arg.name .. ".device.type" end
  end
  return "DeviceType::CPU"
end

-- The lines that look the kernel up: `table` and the check of an empty slot.
local function lookup(row)
  local lines = {
    ('  const DeviceType where = %s;'):format(device_of(row)),
    ('  const auto kernel = kernels_for(where, "%s").%s;'):format(row.name, row.name),
  }
  if row.no_cuda then
    lines[#lines + 1] = ('  if (!kernel) no_kernel(where, "%s", "%s");'):format(row.name, row.no_cuda)
  end
  return lines
end

local function kernel_arguments(row, random_count, renamed)
  local out = {}
  for i, arg in ipairs(row.args) do out[i] = renamed and renamed[arg.name] or arg.name end
  if row.random then out[#out + 1] = ("default_generator().next(%s)"):format(random_count) end
  return out
end

-- The arguments that a row only reads and that could share memory with what it writes.
local function read_arguments(row)
  local out = {}
  for _, arg in ipairs(row.args) do
    if arg.info.tensor and not arg.written then out[#out + 1] = arg end
  end
  return out
end

-- What surrounds a kernel that writes to arguments: {checks before, changes noted after, names of
-- the arguments as the kernel gets them}. `first` names what stands for the first argument, and
-- `op` the form that is called.
local function writing(row, op, first)
  local before, after, renamed, written = {}, {}, {}, {}
  for i, arg in ipairs(row.args) do
    if arg.written then
      local name = i == 1 and first or arg.name
      written[#written + 1] = "&" .. name
      before[#before + 1] = (i == 1 and row.kind == "update")
        and ('  check_writable("%s", %s);'):format(op, name)
        or ('  check_writable("%s", "%s", %s);'):format(op, arg.name, name)
      after[#after + 1] = ('  mark_changed(%s, "%s");'):format(name, op)
    end
  end
  if #written == 0 then return before, after, renamed end
  local list = table.concat(written, ", ")
  if #written > 1 then before[#before + 1] = ('  check_apart("%s", {%s});'):format(op, list) end
  for _, arg in ipairs(read_arguments(row)) do
    renamed[arg.name] = arg.name .. "_"
    local type = arg.info.list and "std::vector<Tensor>" or "Tensor"
    before[#before + 1] = ("  %s %s_copy;"):format(type, arg.name)
    before[#before + 1] = ("  const %s& %s_ = unshared(%s, %s_copy, {%s});"):format(
      type, arg.name, arg.name, arg.name, list)
  end
  return before, after, renamed
end

local function join(...)
  local out = {}
  for _, list in ipairs { ... } do
    for _, line in ipairs(type(list) == "table" and list or { list }) do out[#out + 1] = line end
  end
  return table.concat(out, "\n")
end

local function allocate(row)
  local exprs = type(row.out) == "table" and row.out or { row.out }
  if #exprs ~= #row.results then
    error(("op %s: %d results but %d 'out' expressions"):format(row.name, #row.results, #exprs), 0)
  end
  local lines = {}
  for i, result in ipairs(row.results) do
    lines[i] = ("  Tensor %s = %s;"):format(result.name, exprs[i])
  end
  return lines
end

local function result_names(row)
  local out = {}
  for i, result in ipairs(row.results) do out[i] = result.name end
  return out
end

local function define_structured(row)
  local results = result_names(row)
  local before, after, renamed = writing(row, row.name, row.args[1] and row.args[1].name)
  local args = kernel_arguments(row, results[1] .. ".numel()", renamed)
  for _, name in ipairs(results) do args[#args + 1] = name end
  local call = ("  kernel(%s);"):format(table.concat(args, ", "))
  local give = #results == 1 and ("  return %s;"):format(results[1])
    or ("  return {%s};"):format(table.concat(results, ", "))
  local text = join(("%s %s(%s) {"):format(cpptext.result(row), row.name, cpptext.parameters(row)),
    checks(row), lookup(row), allocate(row), before, call, after, give, "}")
  if row.out_form then
    local inputs = {}
    for _, arg in ipairs(row.args) do
      if arg.info.tensor and not arg.info.operand and not arg.info.list then inputs[#inputs + 1] = "&" .. arg.name end
    end
    local direct = ("  if (can_write_into(out, %s, {%s})) %s = out;"):format(results[1],
      table.concat(inputs, ", "), results[1])
    for _, arg in ipairs(row.args) do
      if arg.info.list or arg.info.operand then direct = nil end
    end
    text = text .. "\n" .. join(("Tensor& %s_out(%s) {"):format(row.name, cpptext.parameters(row, { out = true })),
      checks(row), lookup(row), allocate(row), direct or {}, before, call, after,
      ('  store_out("%s", out, %s);'):format(row.name, results[1]), "  return out;", "}")
  end
  return text
end

local function define_update(row)
  local x = row.args[1].name
  local before, after, renamed = writing(row, row.name .. "_", x)
  local args = kernel_arguments(row, x .. ".numel()", renamed)
  local text = join(("Tensor& %s_(%s) {"):format(row.name, cpptext.parameters(row, { inplace = true })),
    checks(row), lookup(row), before, ("  kernel(%s);"):format(table.concat(args, ", ")), after,
    ("  return %s;"):format(x), "}")
  if row.plain_form then
    args = kernel_arguments(row, x .. ".numel()")
    args[1] = "result_"
    text = text .. "\n" .. join(("Tensor %s(%s) {"):format(row.name, cpptext.parameters(row)),
      checks(row), lookup(row), ("  Tensor result_ = clone_plain(%s);"):format(x),
      ("  kernel(%s);"):format(table.concat(args, ", ")), "  return result_;", "}")
  end
  return text
end

local function define_allocating(row)
  local numel = cpptext.leading_tensor(row) and cpptext.leading_tensor(row).name .. ".numel()" or "0"
  return join(("%s %s(%s) {"):format(cpptext.result(row), row.name, cpptext.parameters(row)),
    checks(row), lookup(row),
    ("  return kernel(%s);"):format(table.concat(kernel_arguments(row, numel), ", ")), "}")
end

local define = {
  structured = define_structured, update = define_update, allocating = define_allocating,
}

local function definitions(rows, family, all_rows)
  local index, positions = 0, {}
  for _, row in ipairs(all_rows) do
    if row.kind == "pointwise" then
      positions[row.name] = index
      index = index + 1
    end
  end
  local out = {
    "// Generated from tensor/ops/" .. family .. ".lua: the ops without the tape.",
    '#include "tensor/raw.h"', "",
    '#include "tensor/generator.h"', '#include "tensor/shapes.h"', "",
    "namespace moonlet::raw {", "",
  }
  for _, row in ipairs(rows) do
    if row.kind == "pointwise" then
      out[#out + 1] = define_pointwise(row, positions[row.name]) .. "\n"
    elseif define[row.kind] then
      out[#out + 1] = define[row.kind](row) .. "\n"
    end
  end
  out[#out + 1] = "}  // namespace moonlet::raw\n"
  return table.concat(out, "\n")
end

return function(rows, family, all_rows)
  if family then return definitions(rows, family, all_rows) end
  return header(rows)
end
