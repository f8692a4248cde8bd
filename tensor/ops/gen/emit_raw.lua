-- tensor/ops/gen/emit_raw.lua: `emit_raw:FAMILY` defines the family's typed functions of namespace raw:
-- checks, allocation and dispatch, no tape. emit_raw_header.lua declares them.

local cpptext = require "tensor.ops.gen.cpptext"
local fill = require("tensor.ops.gen.template").fill

local function parameters(row, options)
  options = options or {}
  options.below = true
  return cpptext.parameters(row, options)
end

-- How an op that chooses among its inputs uses each number: PointwiseOp::chooses.
local function roles(row, params)
  if not row.chooses then return nil end
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
      if arg.info.unpromoted then mask = mask | (1 << #operands) end
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

local pointwise_template = [[
const PointwiseOp k$camel = {
    $fields
};
Tensor $name($parameters) {
  $operands
  return run_pointwise(k$camel, {$refs}, {$numbers});
}]]

local pointwise_out_template = [[
Tensor& $name_out($parameters) {
  $operands
  return run_pointwise_out(k$camel, out, {$refs}, {$numbers});
}]]

local pointwise_inplace_template = [[
Tensor& $name_($parameters) {
  $operands
  return run_pointwise_inplace(k$camel, $first, {$refs}, {$numbers});
}]]

-- What a row's `result` is of PointwiseOp.
local pointwise_results = { bool = "PointwiseOp::Bool", real = "PointwiseOp::Real",
  complex = "PointwiseOp::Complex" }

-- The fields of a row's PointwiseOp that have another value than their own.
local function pointwise_fields(row, params, mask, family, index)
  local function when(condition) return condition and "true" or nil end
  local function exception(name) return when(row.exception == name) end
  return cpptext.initializers {
    { "name", ('"%s"'):format(row.name) }, { "inplace_name", ('"%s_"'):format(row.name) },
    { "dtypes", cpptext.dtype_set(row) }, { "int_to_float", when(row.int_to_float) },
    { "result", pointwise_results[row.result] }, { "mask_args", mask ~= 0 and tostring(mask) or nil },
    { "chooses", roles(row, params) }, { "keeps_dtype", when(row.keeps_dtype) },
    { "family", tostring(family) }, { "index", tostring(index) }, { "row_major", exception "row_major" },
    { "scales", when(row.keeps_dtype == "scales") }, { "refuses_bool", exception "refuses_bool" },
    { "byte_mask", exception "byte_mask" },
  }
end

local function define_pointwise(row, family, index)
  local operands, params, mask = pointwise_parts(row)
  local lines, refs = operand_lines(operands)
  local values = { name = row.name, camel = row.camel, parameters = parameters(row), operands = lines,
    refs = refs, numbers = table.concat(params, ", "),
    fields = pointwise_fields(row, params, mask, family, index) }
  local out = { fill(pointwise_template, values) }
  if row.raw_out_form then
    values.parameters = parameters(row, { out = true })
    out[#out + 1] = fill(pointwise_out_template, values)
  end
  if row.raw_inplace_form then
    values.operands, values.refs = operand_lines(operands, true)
    values.parameters, values.first = parameters(row, { inplace = true }), operands[1].name
    out[#out + 1] = fill(pointwise_inplace_template, values)
  end
  return table.concat(out, "\n")
end

-- The checks on tensor arguments that every structured op makes.
local function checks(row)
  local lines = {}
  local lead = cpptext.leading_tensor(row)
  local function add(fmt, ...) lines[#lines + 1] = fmt:format(...) end
  local op = row.name
  for _, arg in ipairs(row.args) do
    local n = arg.name
    if arg.info.list and not arg.info.optional then
      add('check_list("%s", "%s", %s);', op, n, n)
    elseif arg.info.tensor and not arg.info.operand and not arg.info.list then
      local prefix = arg.info.optional and ("if (%s.defined()) "):format(n) or ""
      if not arg.info.optional then add('check_defined("%s", "%s", %s);', op, n, n) end
      if arg.info.dtypes then
        add('%scheck_dtype("%s", "%s", %s, %s);', prefix, op, n, n, arg.info.dtypes)
      elseif arg == lead then
        add('check_dtype("%s", "%s", %s, %s);', op, n, n, cpptext.dtype_set(row))
      elseif not row.mixed then
        add('%scheck_same_dtype("%s", %s, "%s", %s);', prefix, op, lead.name, n, n)
      end
      if lead and arg ~= lead and row.mixed ~= "device" then
        add('%scheck_same_device("%s", %s, "%s", %s);', prefix, op, lead.name, n, n)
      end
    elseif arg.type:find "^Scalar" then
      local dtype = lead and lead.name .. ".dtype()" or row.args[#row.args].info.spread
        and row.args[#row.args].name .. ".dtype"
      if dtype then add('check_number("%s", "%s", %s, %s);', op, n, n, dtype) end
    end
  end
  return lines
end

local function device_of(row)
  local lead, list = cpptext.leading_tensor(row), cpptext.leading_list(row)
  if lead then return lead.name .. ".device().type" end
  if list then return list.name .. "[0].device().type" end
  local last = row.args[#row.args]
  if last and last.info.spread then return last.name .. ".device.type" end
  return "DeviceType::CPU"
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

-- Whether kernels look at the argument's elements more than once, so that they must stay as they are:
-- positions are checked and then used, and rows name what else there is.
local function is_steady(row, arg)
  return arg.type == "Positions" or arg.type == "Indices" or arg.name == row.steady
end

-- The lines that make what the kernel reads in place of an argument, which has this name and a `_`.
-- `written` are the tensors that the op writes, as C++.
local function stand_in(row, arg, written)
  local type = arg.info.list and "std::vector<Tensor>" or "Tensor"
  local n = arg.name
  return ("%s %s_copy;"):format(type, n), ("const %s& %s_ = %s(%s, %s_copy%s);"):format(type, n,
    is_steady(row, arg) and "steady" or "unshared", n, n, written and (", {%s}"):format(written) or "")
end

-- The arguments that a row only reads and that could share memory with what it writes.
local function read_arguments(row)
  local out = {}
  for _, arg in ipairs(row.args) do
    if arg.info.tensor and not arg.written then out[#out + 1] = arg end
  end
  return out
end

-- The same as `writing` for an op that writes to lists of tensors.
local function writing_lists(row)
  local before, renamed, written = {}, {}, {}
  for _, arg in ipairs(row.args) do
    if arg.written then written[#written + 1] = ('{"%s", &%s}'):format(arg.name, arg.name) end
  end
  before[1] = ('const WrittenLists written_("%s", {%s});'):format(row.name,
    table.concat(written, ", "))
  for _, arg in ipairs(read_arguments(row)) do
    renamed[arg.name] = arg.name .. "_"
    local type = arg.info.list and "std::vector<Tensor>" or "Tensor"
    before[#before + 1] = ("%s %s_copy;"):format(type, arg.name)
    before[#before + 1] = ("const %s& %s_ = written_.unshared(%s, %s_copy);"):format(type, arg.name,
      arg.name, arg.name)
  end
  before[#before + 1] = "written_.mark_changed();"
  return before, renamed
end

-- What precedes a kernel that writes to no argument, and names as `writing` returns them.
local function keeping(row)
  local before, renamed = {}, {}
  for _, arg in ipairs(row.args) do
    if is_steady(row, arg) then
      renamed[arg.name] = arg.name .. "_"
      before[#before + 1], before[#before + 2] = stand_in(row, arg)
    end
  end
  return before, renamed
end

-- What precedes a kernel that writes to arguments: {checks, then the changes noted, names of the
-- arguments as the kernel gets them}. A kernel that throws may have changed what it writes to, so
-- the changes are noted before it runs. `first` names what stands for the first argument, and `op`
-- the form that is called.
local function writing(row, op, first)
  local before, marks, written = {}, {}, {}
  for i, arg in ipairs(row.args) do
    if arg.written then
      local name = i == 1 and first or arg.name
      written[#written + 1] = "&" .. name
      before[#before + 1] = (i == 1 and row.kind == "update")
        and ('check_writable("%s", %s);'):format(op, name)
        or ('check_writable("%s", "%s", %s);'):format(op, arg.name, name)
      marks[#marks + 1] = ('mark_changed(%s, "%s");'):format(name, op)
    end
  end
  if #written == 0 then return keeping(row) end
  local renamed = {}
  local list = table.concat(written, ", ")
  if #written > 1 then before[#before + 1] = ('check_apart("%s", {%s});'):format(op, list) end
  for _, arg in ipairs(read_arguments(row)) do
    renamed[arg.name] = arg.name .. "_"
    before[#before + 1], before[#before + 2] = stand_in(row, arg, list)
  end
  table.move(marks, 1, #marks, #before + 1, before)
  return before, renamed
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

-- The results of an out form: the given tensors where the kernel can write into them.
local function out_tensors(row)
  local read, lists, lines = {}, {}, {}
  for _, arg in ipairs(row.args) do
    if arg.info.list then lists[#lists + 1] = arg.name
    elseif arg.info.tensor then read[#read + 1] = "&" .. arg.name end
  end
  local outs = cpptext.out_names(row)
  if #outs > 1 then
    lines[1] = ('check_apart("%s", {&%s});'):format(row.name, table.concat(outs, ", &"))
  end
  for i, name in ipairs(outs) do
    lines[#lines + 1] = ('check_out("%s", %s, %s);'):format(row.name, name, like(row, i))
  end
  for i, result in ipairs(row.results) do
    lines[#lines + 1] = ('Tensor %s = out_or_new("%s", %s, %s, {%s}%s);'):format(result.name, row.name,
      outs[i], like(row, i), table.concat(read, ", "), lists[1] and ", " .. lists[1] or "")
  end
  return lines
end

-- The end of an out form: stores the results and gives the tensor back where there is one.
local function store_outs(row)
  local lines = {}
  for i, name in ipairs(cpptext.out_names(row)) do
    lines[i] = ('store_out("%s", %s, %s);'):format(row.name, name, row.results[i].name)
  end
  if #lines == 1 then lines[2] = "return out;" end
  return lines
end

-- What every function of a kind below begins with: the checks of the arguments, and the kernel.
local start = [[
  $checks
  $shapes
  const DeviceType where = $device;
  const auto kernel = kernels_for(where, "$name").$family->$name;
  $missing]]

-- The start of a function of the row, filled.
local function start_of(row)
  local call = ("shapes::%s(%s);"):format(row.name, cpptext.computed_arguments(row))
  return fill(start, {
    checks = checks(row), shapes = row.kind == "structured" and #row.results > 0 and "const auto like_ = " .. call or call,
    device = device_of(row), name = row.name, family = row.family,
    missing = row.cpu_only and ('if (!kernel) no_kernel(where, "%s", "%s");'):format(row.name, row.cpu_only),
  })
end

local structured_template = [[
$declaration {
$start
  $before
  $results
  kernel($arguments);
  $give
}]]

local function define_structured(row)
  local results = result_names(row)
  local write = #results == 0 and writing_lists or writing
  local before, renamed = write(row, row.name, row.args[1] and row.args[1].name)
  local arguments, allocate = kernel_arguments(row, renamed), {}
  for i, name in ipairs(results) do
    arguments[#arguments + 1] = name
    allocate[i] = ('Tensor %s = allocate(%s, "%s");'):format(name, like(row, i), row.name)
  end
  local list = table.concat(results, ", ")
  local values = {
    declaration = ("%s %s(%s)"):format(cpptext.result(row), row.name, parameters(row)),
    start = start_of(row), before = before, results = allocate, arguments = table.concat(arguments, ", "),
    give = #results == 1 and ("return %s;"):format(list) or ("return {%s};"):format(list),
  }
  local text = fill(structured_template, values)
  if not row.raw_out_form then return text end
  values.declaration = cpptext.raw_out_declaration(row)
  values.results, values.give = out_tensors(row), store_outs(row)
  return text .. "\n" .. fill(structured_template, values)
end

local update_template = [[
Tensor& $name_($parameters) {
$start
  $before
  kernel($arguments);
  return $first;
}]]

local clone_template = [[
Tensor $name($parameters) {
$start
  $before
  Tensor result_ = $new;
  kernel($arguments);
  return result_;
}]]

local function define_update(row)
  local first = row.args[1].name
  local before, renamed = writing(row, row.name .. "_", first)
  local values = { name = row.name, start = start_of(row), before = before, first = first,
    parameters = parameters(row, { inplace = true }),
    arguments = table.concat(kernel_arguments(row, renamed), ", ") }
  local text = fill(update_template, values)
  if not row.plain_form then return text end
  values.parameters = parameters(row)
  values.before, renamed = keeping(row)
  renamed[first] = "result_"
  values.arguments = table.concat(kernel_arguments(row, renamed), ", ")
  values.new = row.clone ~= "empty" and ("clone_plain(%s)"):format(first)
    or ('empty_like_plain(%s, MemoryFormat::Preserve, options_of(%s), "%s")'):format(first, first, row.name)
  return text .. "\n" .. fill(clone_template, values)
end

local allocating_template = [[
$result $name($parameters) {
$start
  $before
  return kernel($arguments);
}]]

local allocating_out_template = [[
$declaration {
$start
  $before
  const auto $names = kernel($arguments);
  $store
}]]

local function define_allocating(row)
  local names = table.concat(result_names(row), ", ")
  local before, renamed = keeping(row)
  local values = {
    result = cpptext.result(row), name = row.name, parameters = parameters(row), start = start_of(row),
    before = before, arguments = table.concat(kernel_arguments(row, renamed), ", "),
    declaration = cpptext.raw_out_declaration(row),
    names = #row.results == 1 and names or "[" .. names .. "]",
  }
  local text = fill(allocating_template, values)
  if not row.raw_out_form then return text end
  values.store = store_outs(row)
  return text .. "\n" .. fill(allocating_out_template, values)
end

local define = {
  structured = define_structured, update = define_update, allocating = define_allocating,
}

local file = [[
// Generated from tensor/ops/$family.lua: the ops without the tape.
#include "tensor/raw_$family.h"

#include "tensor/core/dispatch.h"
#include "tensor/kernels_$family.h"
#include "tensor/pointwise/run.h"
#include "tensor/runtime/random_generator.h"
#include "tensor/shapes_$family.h"
$lists

namespace moonlet::raw {

$definitions
}  // namespace moonlet::raw
]]

return function(rows, family, all_rows)
  local out, position, index, lists = {}, 0, 0, nil
  for i, name in ipairs(cpptext.families(all_rows)) do
    if name == family then position = i - 1 end
  end
  for _, row in ipairs(rows) do
    if #row.results == 0 then lists = '#include "tensor/core/written_lists.h"' end
    if row.kind == "pointwise" then
      out[#out + 1] = define_pointwise(row, position, index) .. "\n"
      index = index + 1
    elseif define[row.kind] then
      out[#out + 1] = define[row.kind](row) .. "\n"
    end
  end
  return fill(file, { family = family, lists = lists, definitions = out }) .. "\n"
end
