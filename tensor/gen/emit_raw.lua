-- tensor/gen/emit_raw.lua: `emit_raw:FAMILY` defines the family's typed functions of namespace raw:
-- checks, allocation and dispatch, no tape. emit_raw_header.lua declares them.

local cpptext = require "cpptext"

local function parameters(row, options)
  options = options or {}
  options.below = true
  return cpptext.parameters(row, options)
end

-- How an op that chooses among its inputs uses each number: PointwiseOp::chooses.
local function roles(row, params)
  if not row.chooses then return "nullptr" end
  local letters = {}
  for i, name in ipairs(params) do
    letters[i] = row.chooses == true and "v" or row.chooses[name] == "lower" and "l" or "u"
  end
  return '"' .. table.concat(letters) .. '"'
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

local function define_pointwise(row, family, index)
  local operands, params, mask = pointwise_parts(row)
  local result = ({ bool = "Bool", real = "Real" })[row.result or ""] or "Same"
  local out = {
    ('const PointwiseOp k%s = {"%s", "%s_", %s, %s, PointwiseOp::%s, %d, %s, %s, %d, %d%s};'):format(
      row.camel, row.name, row.name, cpptext.dtype_set(row), tostring(row.int_to_float == true),
      result, mask, roles(row, params), tostring(row.keeps_dtype == true), family, index,
      row.row_major and ", true" or ""),
  }
  local params_text = table.concat(params, ", ")
  local lines, refs = operand_lines(operands)
  local body = #lines > 0 and "  " .. table.concat(lines, "\n  ") .. "\n" or ""
  out[#out + 1] = ("Tensor %s(%s) {\n%s  return run_pointwise(k%s, {%s}, {%s});\n}"):format(
    row.name, parameters(row), body, row.camel, refs, params_text)
  if row.raw_out_form then
    out[#out + 1] = ("Tensor& %s_out(%s) {\n%s  return run_pointwise_out(k%s, out, {%s}, {%s});\n}"):format(
      row.name, parameters(row, { out = true }), body, row.camel, refs, params_text)
  end
  if row.raw_inplace_form then
    lines, refs = operand_lines(operands, true)
    body = #lines > 0 and "  " .. table.concat(lines, "\n  ") .. "\n" or ""
    out[#out + 1] = ("Tensor& %s_(%s) {\n%s  return run_pointwise_inplace(k%s, %s, {%s}, {%s});\n}"):format(
      row.name, parameters(row, { inplace = true }), body, row.camel, operands[1].name, refs, params_text)
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

-- The lines that look the kernel up: the check of the arguments, `kernel`, the check of an empty slot.
local function lookup(row)
  local lines = {
    ('  const DeviceType where = %s;'):format(device_of(row)),
    ('  const auto kernel = kernels_for(where, "%s").%s->%s;'):format(row.name, row.family, row.name),
  }
  if row.no_cuda then
    lines[#lines + 1] = ('  if (!kernel) no_kernel(where, "%s", "%s");'):format(row.name, row.no_cuda)
  end
  return lines
end

-- The arguments as the kernel gets them; `renamed` names what stands for some of them.
local function kernel_arguments(row, renamed)
  local out = {}
  for _, arg in ipairs(row.args) do
    if not arg.info.draws then out[#out + 1] = renamed[arg.name] or arg.name end
  end
  if row.random then
    out[#out + 1] = ("draw(%s, %s)"):format(cpptext.generator(row).name, row.draws)
  end
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

-- What precedes a kernel that writes to arguments: {checks, then the changes noted, names of the
-- arguments as the kernel gets them}. A kernel that throws may have changed what it writes to, so
-- the changes are noted before it runs. `first` names what stands for the first argument, and `op`
-- the form that is called.
local function writing(row, op, first)
  local before, marks, renamed, written = {}, {}, {}, {}
  for i, arg in ipairs(row.args) do
    if arg.written then
      local name = i == 1 and first or arg.name
      written[#written + 1] = "&" .. name
      before[#before + 1] = (i == 1 and row.kind == "update")
        and ('  check_writable("%s", %s);'):format(op, name)
        or ('  check_writable("%s", "%s", %s);'):format(op, arg.name, name)
      marks[#marks + 1] = ('  mark_changed(%s, "%s");'):format(name, op)
    end
  end
  if #written == 0 then return before, renamed end
  local list = table.concat(written, ", ")
  if #written > 1 then before[#before + 1] = ('  check_apart("%s", {%s});'):format(op, list) end
  for _, arg in ipairs(read_arguments(row)) do
    renamed[arg.name] = arg.name .. "_"
    local type = arg.info.list and "std::vector<Tensor>" or "Tensor"
    before[#before + 1] = ("  %s %s_copy;"):format(type, arg.name)
    before[#before + 1] = ("  const %s& %s_ = unshared(%s, %s_copy, {%s});"):format(
      type, arg.name, arg.name, arg.name, list)
  end
  table.move(marks, 1, #marks, #before + 1, before)
  return before, renamed
end

local function join(...)
  local out = {}
  for _, list in ipairs { ... } do
    for _, line in ipairs(type(list) == "table" and list or { list }) do out[#out + 1] = line end
  end
  return table.concat(out, "\n")
end

-- The call of the shape function; `like_` holds what it says of the results.
local function shape_check(row)
  local call = ("shapes::%s(%s)"):format(row.name, cpptext.computed_arguments(row))
  return row.kind == "structured" and ("  const auto like_ = %s;"):format(call) or ("  %s;"):format(call)
end

-- What like_ holds about result i.
local function like(row, i)
  return #row.results == 1 and "like_" or ("like_[%d]"):format(i - 1)
end

local function result_names(row)
  local out = {}
  for i, result in ipairs(row.results) do out[i] = result.name end
  return out
end

-- The call of a kernel that fills results or changes its first argument.
local function kernel_call(row, renamed, results)
  local args = kernel_arguments(row, renamed)
  for _, name in ipairs(results) do args[#args + 1] = name end
  return ("  kernel(%s);"):format(table.concat(args, ", "))
end

-- The results of an out form: the given tensors where the kernel can write into them.
local function out_tensors(row)
  local read, lists, lines = {}, {}, {}
  for _, arg in ipairs(row.args) do
    if arg.info.list then lists[#lists + 1] = arg.name
    elseif arg.info.tensor then read[#read + 1] = "&" .. arg.name end
  end
  local outs = cpptext.out_names(row)
  if #outs > 1 then
    lines[1] = ('  check_apart("%s", {&%s});'):format(row.name, table.concat(outs, ", &"))
  end
  for i, name in ipairs(outs) do
    lines[#lines + 1] = ('  check_out("%s", %s, %s);'):format(row.name, name, like(row, i))
  end
  for i, result in ipairs(row.results) do
    lines[#lines + 1] = ('  Tensor %s = out_or_new("%s", %s, %s, {%s}%s);'):format(result.name, row.name,
      outs[i], like(row, i), table.concat(read, ", "), lists[1] and ", " .. lists[1] or "")
  end
  return lines
end

-- The end of an out form: stores the results and gives the tensor back where there is one.
local function store_outs(row)
  local lines = {}
  for i, name in ipairs(cpptext.out_names(row)) do
    lines[i] = ('  store_out("%s", %s, %s);'):format(row.name, name, row.results[i].name)
  end
  if #lines == 1 then lines[2] = "  return out;" end
  return lines
end

local function define_structured(row)
  local results = result_names(row)
  local before, renamed = writing(row, row.name, row.args[1] and row.args[1].name)
  local allocate = {}
  for i, name in ipairs(results) do
    allocate[i] = ('  Tensor %s = allocate(%s, "%s");'):format(name, like(row, i), row.name)
  end
  local call = kernel_call(row, renamed, results)
  local give = #results == 1 and ("  return %s;"):format(results[1])
    or ("  return {%s};"):format(table.concat(results, ", "))
  local text = join(("%s %s(%s) {"):format(cpptext.result(row), row.name, parameters(row)),
    checks(row), shape_check(row), lookup(row), before, allocate, call, give, "}")
  if row.raw_out_form then
    text = text .. "\n" .. join(cpptext.raw_out_declaration(row) .. " {", checks(row),
      shape_check(row), lookup(row), before, out_tensors(row), call, store_outs(row), "}")
  end
  return text
end

local function define_update(row)
  local x = row.args[1].name
  local before, renamed = writing(row, row.name .. "_", x)
  local text = join(("Tensor& %s_(%s) {"):format(row.name, parameters(row, { inplace = true })),
    checks(row), shape_check(row), lookup(row), before, kernel_call(row, renamed, {}),
    ("  return %s;"):format(x), "}")
  if row.plain_form then
    text = text .. "\n" .. join(("Tensor %s(%s) {"):format(row.name, parameters(row)),
      checks(row), shape_check(row), lookup(row), ("  Tensor result_ = clone_plain(%s);"):format(x),
      kernel_call(row, { [x] = "result_" }, {}), "  return result_;", "}")
  end
  return text
end

local function define_allocating(row)
  local call = ("kernel(%s);"):format(table.concat(kernel_arguments(row, {}), ", "))
  local text = join(("%s %s(%s) {"):format(cpptext.result(row), row.name, parameters(row)),
    checks(row), shape_check(row), lookup(row), "  return " .. call, "}")
  if row.raw_out_form then
    local names = table.concat(result_names(row), ", ")
    text = text .. "\n" .. join(cpptext.raw_out_declaration(row) .. " {", checks(row),
      shape_check(row), lookup(row),
      ("  const auto %s = %s"):format(#row.results == 1 and names or "[" .. names .. "]", call),
      store_outs(row), "}")
  end
  return text
end

local define = {
  structured = define_structured, update = define_update, allocating = define_allocating,
}

local function definitions(rows, family, all_rows)
  local out = {
    "// Generated from tensor/ops/" .. family .. ".lua: the ops without the tape.",
    ('#include "tensor/raw_%s.h"'):format(family), "",
    '#include "tensor/dispatch.h"', '#include "tensor/random_generator.h"',
    ('#include "tensor/kernels_%s.h"'):format(family), '#include "tensor/pointwise/run.h"',
    ('#include "tensor/shapes_%s.h"'):format(family), "",
    "namespace moonlet::raw {", "",
  }
  local position, index = 0, 0
  for i, name in ipairs(cpptext.families(all_rows)) do
    if name == family then position = i - 1 end
  end
  for _, row in ipairs(rows) do
    if row.kind == "pointwise" then
      out[#out + 1] = define_pointwise(row, position, index) .. "\n"
      index = index + 1
    elseif define[row.kind] then
      out[#out + 1] = define[row.kind](row) .. "\n"
    end
  end
  out[#out + 1] = "}  // namespace moonlet::raw\n"
  return table.concat(out, "\n")
end

return definitions
