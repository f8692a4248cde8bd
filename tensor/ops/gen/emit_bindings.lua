-- tensor/ops/gen/emit_bindings.lua: writes the C functions of one family of ops and its registration
-- table; without a family, the index of all families.

local cpptext = require "tensor.ops.gen.cpptext"
local lua_signature = require "tensor.ops.gen.lua_signature"
local template = require "tensor.ops.gen.template"
local types = require "tensor.ops.gen.types"

local fill = template.fill

local function quote(text)
  return '"' .. text:gsub('[\\"]', "\\%0"):gsub("\n", "\\n") .. '"'
end

local function is_tensor(info) return info.tensor and not info.list and not info.operand end

-- The C++ that reads an argument, whether or not it came.
local function read_expression(arg, position)
  local info = arg.info
  local get = ("args.%s(%d)"):format(info.getter, position)
  if arg.required or info.itself then return get end
  if is_tensor(info) then return ("args.optional_tensor(%d)"):format(position) end
  if info.given then
    return ("args.has(%d) ? %s : %s"):format(position, info.given:format(get), info.absent)
  end
  local default = arg.source.default
  if default == "nil" then default = "{}" end
  if default:sub(1, 1) ~= "{" then default = "(" .. default .. ")" end
  return ("args.has(%d) ? %s : %s%s"):format(position, get, info.value, default)
end

-- The locals of the functions below; an argument of such a name gets an underscore.
local taken = { L = true, args = true, out = true, outs = true, with_out = true, made = true }

local function local_name(name) return taken[name] and name .. "_" or name end

-- ", value" for the Scalar of an op with Options: what is made has its dtype where none is named.
local function dtype_source(row)
  for _, arg in ipairs(row.args) do
    if arg.type == "Scalar" then return ", " .. local_name(arg.name) end
  end
  return ""
end

-- Locals in signature order, so that messages name the first bad argument: a list of lines, and of
-- {name, type (the op table's), position} for the call.
local function read_arguments(row, args)
  local lines, call, position = {}, {}, 0
  for _, arg in ipairs(row.args) do
    local name, spec = local_name(arg.name), args[position + 1]
    call[#call + 1] = { name = name, info = arg.info, position = position }
    if arg.info.spread then
      lines[#lines + 1] = ("const Options %s = args.options(%d%s);"):format(name, position, dtype_source(row))
    else
      local cell = is_tensor(spec.info)
      local type = cell and (spec.required and "Tensor&" or "const Tensor&") or "const auto"
      lines[#lines + 1] = ("%s %s = %s;"):format(type, name, read_expression(spec, position))
    end
    position = position + #(arg.info.spread or { 1 })
  end
  return lines, call
end

local function names_of(call)
  local out = {}
  for i, arg in ipairs(call) do out[i] = arg.name end
  return table.concat(out, ", ")
end

local spec_template = [[
constexpr ArgSpec kArgs_$symbol[] = {
    $specs
};]]

local signature_template = [[
$specs
constexpr char kName_$symbol[] = $name;
const Signature kSignature_$symbol = {
    kName_$symbol, $usage,
    $list, $count};]]

-- What the reader of a form's arguments knows of them.
local function signature(symbol, name, usage, args)
  local specs = {}
  for i, arg in ipairs(args) do
    specs[i] = ("{%s, ArgType::%s, %s, %s, %s, %d},"):format(quote(arg.name), arg.info.field,
      tostring(arg.required == true), tostring(arg.gather == true),
      tostring(arg.named_only == true), arg.length or 0)
  end
  return fill(signature_template, {
    specs = #args > 0 and fill(spec_template, { symbol = symbol, specs = specs }) or nil,
    symbol = symbol, name = quote(name), usage = quote(usage), count = tostring(#args),
    list = #args > 0 and "kArgs_" .. symbol or "nullptr",
  })
end

-- All forms of a name, for the message that explains the call.
local function usage_of(row, all)
  local parts = { lua_signature.usage(row, row.lua_name) }
  for _, other in ipairs(lua_signature.overloads(row, all)) do
    parts[#parts + 1] = lua_signature.usage(other, row.lua_name)
  end
  return table.concat(parts, " or ")
end

local return_template = [[
return push_result(L, moonlet::$name($call));]]

-- For an op that makes a tensor, which scripts may ask to require a gradient.
local made_template = [[
Tensor made = moonlet::$name($call);
if (args.has($position) && args.boolean($position)) set_requires_grad(made, true);
return push_result(L, std::move(made));]]

local function return_lines(row, call)
  local last = call[#call]
  local options = last and last.info.spread
  local position = options and last.position + #options - 1 or row.makes and #call
  return fill(position and made_template or return_template, {
    name = row.name, call = names_of(call), position = position and tostring(position),
  })
end

local options_template = [[
Options with_out = $name;
if (!args.has($dtype)) with_out.dtype = out.dtype();
if (!args.has($device)) with_out.device = out.device();]]

-- The arguments of the out form, and the lines before its call: unless given, dtype and device of an
-- op that makes a tensor are those of `out`.
local function out_arguments(row, call)
  local names, lines = {}, {}
  local first = row.args[1]
  local makes = first ~= nil and (first.info.operand or not first.info.tensor)
  for i, arg in ipairs(call) do
    names[i] = arg.name
    if makes and arg.info.spread then
      names[i] = "with_out"
      lines[#lines + 1] = fill(options_template,
        { name = arg.name, dtype = tostring(arg.position), device = tostring(arg.position + 1) })
    elseif makes and arg.info.of_out then
      names[i] = ("args.has(%d) ? %s : std::optional(out.%s)"):format(arg.position, arg.name, arg.info.of_out)
    end
  end
  return (", "):rep(math.min(#names, 1)) .. table.concat(names, ", "), lines
end

local out_template = [[
if (args.has($position)) {
  Tensor& out = args.tensor($position);
  $options
  moonlet::$name_out(out$call);
  lua_pushvalue(L, args.slot($position));
  return 1;
}]]

-- With several results: a table of as many tensors.
local outs_template = [[
if (args.has($position)) {
  std::vector<Tensor> outs = args.outs($position, $count);
  moonlet::$name_out($outs, $call);
  return push_items(L, args.slot($position), $count);
}]]

local function out_lines(row, args, call)
  local position = tostring(#args - 1)
  if #row.results == 1 then
    local given, options = out_arguments(row, call)
    return fill(out_template, { position = position, options = options, name = row.name, call = given })
  end
  local outs = {}
  for i in ipairs(row.results) do outs[i] = ("outs[%d]"):format(i - 1) end
  return fill(outs_template, { position = position, count = tostring(#outs), name = row.name,
    outs = table.concat(outs, ", "), call = names_of(call) })
end

local fits_template = [[
bool fits_$name(lua_State* L) {
  return ArgReader::fits(L, kSignature_$name);
}]]

local plain_template = [[
$signature
$declarations
$fits
int call_$name(lua_State* L) {
  $forms
  $unary
  $overloads
  ArgReader args(L, kSignature_$name);
  $reads
  $out
  $unused
  $give
}
]]

local unary_template = [[
// Lua hands a unary operator its operand twice.
if (lua_gettop(L) == 2 && lua_rawequal(L, 1, 2)) lua_settop(L, 1);]]

-- What stands before the function of a form ("" or "_") that has overloads, and its first lines,
-- which hand a call to the first of them that it fits. Only a call with as many values as an
-- overload wants, or a table, is looked at closely.
local function overload_lines(row, all, form)
  local declarations, overloads = {}, {}
  for _, other in ipairs(row.overload_of and {} or lua_signature.overloads(row, all)) do
    if form == "" or other.inplace_form then
      local wanted = 0
      for _, arg in ipairs(lua_signature.arguments(other)) do
        if arg.required then wanted = wanted + 1 end
      end
      local values = { name = other.name .. form, wanted = tostring(wanted) }
      declarations[#declarations + 1] =
        fill("int call_$name(lua_State* L);\nbool fits_$name(lua_State* L);", values)
      overloads[#overloads + 1] =
        fill("if (may_fit(L, $wanted) && fits_$name(L)) return call_$name(L);", values)
    end
  end
  return declarations, overloads
end

local function plain_function(row, all)
  local args = lua_signature.arguments(row)
  local declarations, overloads = overload_lines(row, all, "")
  if row.out_form then
    local info = types.argument(#row.results == 1 and "Tensor" or "Tensor[]")
    args[#args + 1] = { name = "out", info = info, named_only = true }
  end
  local reads, call = read_arguments(row, args)
  return fill(plain_template, {
    name = row.name, declarations = declarations, overloads = overloads, reads = reads,
    signature = signature(row.name, row.lua_name, usage_of(row, all), args),
    fits = row.overload_of and fill(fits_template, row) or nil,
    forms = row.forms and row.forms .. "(L);" or nil,
    unary = (row.meta == "__unm" or row.meta == "__bnot") and unary_template or nil,
    out = row.out_form and out_lines(row, args, call) or nil,
    unused = #args == 0 and "static_cast<void>(args);" or nil,
    give = return_lines(row, call),
  })
end

local inplace_template = [[
$signature
$declarations
$fits
int call_$name(lua_State* L) {
  $overloads
  ArgReader args(L, kSignature_$name);
  $reads
  moonlet::$name($call);
  lua_pushvalue(L, args.slot(0));
  return 1;
}
]]

local function inplace_function(row, all)
  local args = lua_signature.arguments(row)
  local name, called = row.name .. "_", lua_signature.inplace_name(row)
  args[1].info, args[1].required = types.argument "Tensor", true
  local declarations, overloads = overload_lines(row, all, "_")
  local reads, call = read_arguments(row, args)
  return fill(inplace_template, {
    signature = signature(name, called, lua_signature.usage(row, called), args),
    declarations = declarations, overloads = overloads,
    fits = row.overload_of and fill(fits_template, { name = name }) or nil,
    name = name, reads = reads, call = names_of(call),
  })
end

local function table_entries(rows)
  local entries = {}
  local function entry(row, lua_name, name, func, method, meta)
    local call = row.left_out and "nullptr" or ("op_guard<call_%s, kName_%s>"):format(name, name)
    entries[#entries + 1] = ("{%s, %s, %s, %s, %s, %s},"):format(quote(lua_name), call, tostring(func),
      tostring(method), tostring(row.internal == true), meta and quote(meta) or "nullptr")
  end
  local function entries_of(row, lua_name, in_module, meta)
    if row.plain_form and not row.overload_of then
      entry(row, lua_name, row.name, lua_signature.is_function(row),
        lua_signature.is_method(row) and not in_module, meta)
    end
    if row.inplace_form and not in_module and not row.overload_of then
      entry(row, lua_name .. "_", row.name .. "_", false, not row.internal, nil)
    end
  end
  for _, row in ipairs(rows) do
    entries_of(row, row.overload_of and row.name or row.lua_name, row.module ~= nil, row.meta)
    for _, alias in ipairs(row.alias) do entries_of(row, alias, alias:find(".", 1, true) ~= nil) end
  end
  return entries
end

-- Functions of a family that others' overloads or its own table refer to need one scope, so all
-- live in a namespace of the whole binding rather than an unnamed one.
local family_template = [[
// Generated from tensor/ops/$family.lua: the Lua functions of its ops.
#include "autograd/ops_$family.h"

#include "autograd/tape.h"
#include "interp/binding/arg_reader.h"
#include "interp/binding/argument_forms.h"
#include "interp/binding/registry.h"

namespace moonlet::binding {
namespace generated {

$functions
}  // namespace generated
using namespace generated;

namespace {
const OpEntry kEntries[] = {
    $entries
    {nullptr, nullptr, false, false, false, nullptr},
};
}  // namespace

extern const OpFamily kFamily_$family;
const OpFamily kFamily_$family = {kEntries, $count};

}  // namespace moonlet::binding
]]

local function family_file(rows, family, all)
  local functions = {}
  for _, row in ipairs(rows) do
    if not row.left_out then
      functions[#functions + 1] = cpptext.mark(row)
      if row.plain_form then functions[#functions + 1] = plain_function(row, all) end
      if row.inplace_form then functions[#functions + 1] = inplace_function(row, all) end
      functions[#functions + 1] = ""
    end
  end
  local entries = table_entries(rows)
  return template.short_lines(fill(family_template, { family = family, functions = functions,
    entries = entries, count = tostring(#entries) })) .. "\n"
end

local index_template = [[
// Generated from tensor/ops: the index of the families' bindings.
#include "interp/binding/registry.h"

namespace moonlet::binding {

$declarations

namespace {
const OpFamily* const kAll[] = {
    $pointers
};
}  // namespace

const OpFamily* const* const kOpFamilies = kAll;
const int kOpFamilyCount = $count;

}  // namespace moonlet::binding
]]

local function index_file(rows)
  local declarations, pointers = {}, {}
  for i, family in ipairs(cpptext.families(rows)) do
    declarations[i] = ("extern const OpFamily kFamily_%s;"):format(family)
    pointers[i] = ("&kFamily_%s,"):format(family)
  end
  return fill(index_template,
    { declarations = declarations, pointers = pointers, count = tostring(#pointers) }) .. "\n"
end

return function(rows, family, all)
  if family then return family_file(rows, family, all or rows) end
  return index_file(rows)
end
