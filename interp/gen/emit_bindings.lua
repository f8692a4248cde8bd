-- interp/gen/emit_bindings.lua: writes the C functions of one family of ops and its registration
-- table; without a family, the index of all families.

local lua_signature = require "lua_signature"

local out

local function line(format, ...)
  out[#out + 1] = select("#", ...) > 0 and format:format(...) or format
end

local function quote(text)
  return '"' .. text:gsub('[\\"]', "\\%0"):gsub("\n", "\\n") .. '"'
end

-- How each kind is read; %d is the position in the signature.
local getters = {
  Tensor = "args.tensor(%d)", OptionalTensor = "args.optional_tensor(%d)",
  TensorList = "args.tensors(%d)", Operand = "args.operand(%d)", Scalar = "args.scalar(%d)",
  Int = "args.integer(%d)", IntList = "args.ints(%d)", Float = "args.number(%d)",
  Bool = "args.boolean(%d)", String = "args.string(%d)", Dim = "args.dim(%d)",
  DimList = "args.dims(%d)", Index = "args.index(%d)", DType = "args.dtype(%d)",
  Device = "args.device(%d)", MemoryFormat = "args.memory_format(%d)",
  IntVector = "args.integers(%d)", Generator = "args.generator(%d)",
}

local value_types = {
  Scalar = "Scalar", Int = "int64_t", IntList = "Dims", Float = "double", Bool = "bool",
  String = "std::string_view", Dim = "int64_t", DimList = "Dims", Index = "int64_t",
  DType = "DType", Device = "Device", MemoryFormat = "MemoryFormat", Operand = "Operand",
  TensorList = "std::vector<Tensor>", IntVector = "std::vector<int64_t>",
}

local function read_expression(arg, position)
  local get = getters[arg.kind]:format(position)
  if arg.required or arg.kind == "OptionalTensor" or arg.kind == "Generator" then return get end
  if arg.kind == "Tensor" then return ("args.optional_tensor(%d)"):format(position) end
  local type = value_types[arg.kind]
  if arg.type == "Dim[]?" then
    return ("args.has(%d) ? OptionalDims(%s) : OptionalDims()"):format(position, get)
  end
  if arg.type:find "%?$" then
    return ("args.has(%d) ? std::optional<%s>(%s) : std::nullopt"):format(position, type, get)
  end
  local default = arg.source.default
  if default == "nil" then default = "{}" end
  if default:sub(1, 1) ~= "{" then default = "(" .. default .. ")" end
  return ("args.has(%d) ? %s : %s%s"):format(position, get, type, default)
end

-- Locals in signature order, so that messages name the first bad argument. Returns call arguments.
local function read_arguments(row, args)
  local call, next_position = {}, 0
  for _, arg in ipairs(row.args) do
    local position = next_position
    if arg.type == "Options" then
      local value = row.dtype_of and ", a" .. row.arg[row.dtype_of].position - 1 or ""
      line("  const Options options_%d = args.options(%d%s);", position, position, value)
      call[#call + 1] = ("options_%d"):format(position)
      next_position = position + 3
    else
      local spec = args[position + 1]
      local by_reference = spec.kind == "Tensor" or spec.kind == "OptionalTensor"
      line("  %s a%d = %s;", by_reference and spec.required and "Tensor&"
        or by_reference and "const Tensor&" or "const auto", position,
        read_expression(spec, position))
      call[#call + 1] = "a" .. position
      next_position = position + 1
    end
  end
  return call
end

local function emit_signature(symbol, name, usage, args)
  if #args > 0 then
    line("constexpr ArgSpec kArgs_%s[] = {", symbol)
    for _, arg in ipairs(args) do
      line("    {%s, ArgType::%s, %s, %s, %s, %d},", quote(arg.name), arg.kind,
        tostring(arg.required == true), tostring(arg.gather == true),
        tostring(arg.named_only == true), arg.length or 0)
    end
    line("};")
  end
  line("constexpr char kName_%s[] = %s;", symbol, quote(name))
  line("const Signature kSignature_%s = {kName_%s, %s, %s, %d};", symbol, symbol, quote(usage),
    #args > 0 and "kArgs_" .. symbol or "nullptr", #args)
end

-- All forms of a name, for the message that explains the call.
local function usage_of(row, all)
  local parts = { lua_signature.usage(row, row.overload_of) }
  for _, other in ipairs(lua_signature.overloads(row, all)) do
    parts[#parts + 1] = lua_signature.usage(other, row.name)
  end
  return table.concat(parts, " or ")
end

local function has_options(row)
  return #row.args > 0 and row.args[#row.args].type == "Options"
end

local function emit_return(row, call, args)
  local expression = ("moonlet::%s(%s)"):format(row.name, call)
  if not has_options(row) then
    line("  return push_result(L, %s);", expression)
    return
  end
  line("  Tensor y = %s;", expression)
  local last = row.out_form and #args - 2 or #args - 1
  line("  if (args.has(%d) && args.boolean(%d)) set_requires_grad(y, true);", last, last)
  line("  return push_result(L, std::move(y));")
end

-- The arguments of the out form of an op that makes a tensor: unless given, its dtype and device are
-- those of `out`.
local function out_arguments(row, args, call)
  local place = #args - 1
  local given = table.concat(call, ", ")
  if row.args[1].type:find "^Tensor" then return given end
  given = given:gsub("options_(%d+)", function(position)
    line("    Options with_out = options_%s;", position)
    line("    if (!args.has(%d)) with_out.dtype = args.tensor(%d).dtype();", position, place)
    line("    if (!args.has(%d)) with_out.device = args.tensor(%d).device();", position + 1, place)
    return "with_out"
  end)
  for i, arg in ipairs(args) do
    local field = ({ ["DType?"] = "dtype()", ["Device?"] = "device()" })[arg.type]
    if field and arg.source then
      given = given:gsub("%f[%w]a" .. i - 1 .. "%f[%W]",
        ("args.has(%d) ? a%d : std::optional(args.tensor(%d).%s)"):format(i - 1, i - 1, place, field))
    end
  end
  return given
end

-- The branch that runs the out form: one tensor, or a table of as many as there are results.
local function emit_out(row, args, call)
  local place = #args - 1
  line("  if (args.has(%d)) {", place)
  if #row.results == 1 then
    local given = out_arguments(row, args, call)
    line("    moonlet::%s_out(args.tensor(%d)%s);", row.name, place, given ~= "" and ", " .. given or "")
    line("    lua_pushvalue(L, args.slot(%d));\n    return 1;\n  }", place)
    return
  end
  line("    std::vector<Tensor> outs = args.outs(%d, %d);", place, #row.results)
  local places = {}
  for i in ipairs(row.results) do places[i] = ("outs[%d]"):format(i - 1) end
  line("    moonlet::%s_out(%s, %s);", row.name, table.concat(places, ", "), table.concat(call, ", "))
  line("    return push_items(L, args.slot(%d), %d);\n  }", place, #row.results)
end

local function emit_plain(row, all)
  local args = lua_signature.arguments(row)
  local public = row.overload_of or row.name
  local overloads = row.overload_of and {} or lua_signature.overloads(row, all)
  if row.out_form then
    local one = #row.results == 1
    args[#args + 1] = { name = "out", kind = one and "Tensor" or "TensorList", type = "Tensor?", named_only = true }
  end
  emit_signature(row.name, public, usage_of(row, all), args)
  for _, other in ipairs(overloads) do line("int call_%s(lua_State* L);", other.name) end
  for _, other in ipairs(overloads) do line("bool fits_%s(lua_State* L);", other.name) end
  if row.overload_of then
    line("bool fits_%s(lua_State* L) {", row.name)
    line("  return ArgReader::fits(L, kSignature_%s);\n}", row.name)
  end
  line("int call_%s(lua_State* L) {", row.name)
  if row.meta == "__unm" or row.meta == "__bnot" then
    line("  // Lua hands a unary operator its operand twice.")
    line("  if (lua_gettop(L) == 2 && lua_rawequal(L, 1, 2)) lua_settop(L, 1);")
  end
  for _, other in ipairs(overloads) do
    line("  if (fits_%s(L)) return call_%s(L);", other.name, other.name)
  end
  line("  ArgReader args(L, kSignature_%s);", row.name)
  local call = read_arguments(row, args)
  if row.out_form then emit_out(row, args, call) end
  if #args == 0 then line("  static_cast<void>(args);") end
  emit_return(row, table.concat(call, ", "), args)
  line("}\n")
end

local function emit_inplace(row)
  local args = lua_signature.arguments(row)
  local name = row.name .. "_"
  args[1].kind, args[1].type, args[1].required = "Tensor", "Tensor", true
  emit_signature(name, name, lua_signature.usage(row, name), args)
  line("int call_%s(lua_State* L) {", name)
  line("  ArgReader args(L, kSignature_%s);", name)
  local call = table.concat(read_arguments(row, args), ", ")
  line("  moonlet::%s(%s);", name, call)
  line("  lua_pushvalue(L, args.slot(0));")
  line("  return 1;")
  line("}\n")
end

local function table_entries(rows)
  local entries = {}
  local function entry(row, name, func, method, meta)
    entries[#entries + 1] = ("    {%s, op_guard<call_%s, kName_%s>, %s, %s, %s, %s},"):format(
      quote(name), name, name, tostring(func), tostring(method), tostring(row.internal == true),
      meta and quote(meta) or "nullptr")
  end
  for _, row in ipairs(rows) do
    if row.plain_form and not row.overload_of then
      entry(row, row.name, lua_signature.is_function(row), lua_signature.is_method(row), row.meta)
    end
    if row.inplace_form then entry(row, row.name .. "_", false, not row.internal, nil) end
  end
  return entries
end

-- Functions of a family that others' overloads or its own table refer to need one scope, so all
-- live in a namespace of the whole binding rather than an unnamed one.
local function emit_family(rows, family, all)
  out = {}
  line("// Generated from tensor/ops/%s.lua: the Lua functions of its ops.", family)
  line('#include "autograd/ops_%s.h"\n', family)
  line('#include "autograd/tape.h"\n#include "interp/binding/arg_reader.h"')
  line('#include "interp/binding/registry.h"\n')
  line("namespace moonlet::binding {\nnamespace generated {\n")
  for _, row in ipairs(rows) do
    if row.plain_form then emit_plain(row, all) end
    if row.inplace_form then emit_inplace(row) end
  end
  line("}  // namespace generated\nusing namespace generated;\n")
  local entries = table_entries(rows)
  line("namespace {\nconst OpEntry kEntries[] = {")
  for _, text in ipairs(entries) do line("%s", text) end
  line("    {nullptr, nullptr, false, false, false, nullptr},\n};\n}  // namespace\n")
  line("extern const OpFamily kFamily_%s;", family)
  line("const OpFamily kFamily_%s = {kEntries, %d};\n", family, #entries)
  line("}  // namespace moonlet::binding\n")
  return table.concat(out, "\n")
end

local function emit_index(rows)
  out = {}
  local families, seen = {}, {}
  for _, row in ipairs(rows) do
    if not seen[row.family] then
      seen[row.family] = true
      families[#families + 1] = row.family
    end
  end
  line("// Generated from tensor/ops: the index of the families' bindings.")
  line('#include "interp/binding/registry.h"\n\nnamespace moonlet::binding {\n')
  for _, family in ipairs(families) do line("extern const OpFamily kFamily_%s;", family) end
  line("\nnamespace {\nconst OpFamily* const kAll[] = {")
  for _, family in ipairs(families) do line("    &kFamily_%s,", family) end
  line("};\n}  // namespace\n")
  line("const OpFamily* const* const kOpFamilies = kAll;")
  line("const int kOpFamilyCount = %d;\n", #families)
  line("}  // namespace moonlet::binding\n")
  return table.concat(out, "\n")
end

return function(rows, family, all)
  if family then return emit_family(rows, family, all or rows) end
  return emit_index(rows)
end
