-- interp/gen/emit_stubs.lua: writes LuaLS annotations of all that scripts can name, for editors:
-- the descriptions of interp/meta/ as they are, the ops, and what stdlib/ defines.

local argument_texts = require "interp.gen.argument_texts"
local derived_shapes = require "interp.gen.derived_shapes"
local dtypes = require "tensor.ops.gen.dtypes"
local lua_signature = require "tensor.ops.gen.lua_signature"
local op_docs = require "interp.gen.op_docs"
local reference = require "interp.gen.reference"
local types = require "tensor.ops.gen.types"

-- Words that Lua keeps for itself cannot name a parameter.
local keywords = { ["end"] = true, ["repeat"] = true, ["not"] = true, ["and"] = true, ["or"] = true,
  ["in"] = true, ["until"] = true, ["function"] = true, ["local"] = true }

local function without_space(line) return (line:gsub("%s+$", "")) end

local function parameters(out, row, first)
  local names, args = {}, lua_signature.arguments(row)
  local options = {}
  for i = first, #args do
    local arg = args[i]
    local name = keywords[arg.name] and arg.name .. "_" or arg.name
    if arg.named_only then
      options[#options + 1] = ("%s?: %s"):format(name, arg.info.editor)
    else
      names[#names + 1] = name
      local mark = arg.required and "" or "?"
      out[#out + 1] = without_space(("---@param %s%s %s %s"):format(name, mark, arg.info.editor,
        argument_texts.of_op(row, arg)))
    end
  end
  if #options > 0 then
    names[#names + 1] = "options"
    out[#out + 1] = ("---@param options? {%s}"):format(table.concat(options, ", "))
  end
  return table.concat(names, ", ")
end

local function add_text(out, text)
  for line in (text .. "\n"):gmatch "(.-)\n" do out[#out + 1] = "--- " .. line end
end

-- What follows a text: the shapes and the formula.
local function add_mathematics(out, shapes, formula)
  for _, line in ipairs(shapes or {}) do add_text(out, "\nShapes: `" .. line .. "`") end
  if (formula or "") ~= "" then add_text(out, "\n```text\n" .. formula .. "\n```") end
end

local function emit_op(out, row, owner, separator, name, first)
  add_text(out, row.doc)
  add_mathematics(out, { row.shapes or derived_shapes.of(row) }, row.formula)
  local names = parameters(out, row, first)
  for _, result in ipairs(row.results) do
    out[#out + 1] = ("---@return %s %s"):format(types.list[result.type].editor, result.name)
  end
  out[#out + 1] = ("function %s%s%s(%s) end\n"):format(owner, separator, name, names)
end

-- Another name of an op, wherever it has that.
local function emit_alias(out, row, name, alias)
  if lua_signature.is_function(row) and row.plain_form then
    out[#out + 1] = ("ml.%s = ml.%s\n"):format(alias, name)
  end
  if alias:find(".", 1, true) then return end
  if lua_signature.is_method(row) and row.plain_form then
    out[#out + 1] = ("Tensor.%s = Tensor.%s\n"):format(alias, name)
  end
  if row.inplace_form then
    out[#out + 1] = ("Tensor.%s_ = Tensor.%s\n"):format(alias, lua_signature.inplace_name(row))
  end
end

local function emit_ops(out, rows)
  local modules = {}
  local function module_of(name)
    local module = name:match "^(.*)%."
    if module and not modules[module] then
      modules[module] = true
      add_text(out, op_docs.modules[module])
      out[#out + 1] = ("ml.%s = {}\n"):format(module)
    end
  end
  for _, row in ipairs(rows) do
    local name = row.lua_name
    module_of(name)
    if row.func ~= false and row.plain_form then emit_op(out, row, "ml", ".", name, 1) end
    if row.plain_form and lua_signature.is_method(row) then
      emit_op(out, row, "Tensor", ":", name, 2)
    end
    if row.inplace_form and not row.internal then
      emit_op(out, row, "Tensor", ":", lua_signature.inplace_name(row), 2)
    end
    for _, alias in ipairs(row.alias) do
      module_of(alias)
      emit_alias(out, row, name, alias)
    end
  end
end

local function qualified(kind)
  return (kind:gsub("%f[%w_.]Tensor%f[^%w_]", "moonlet.Tensor"))
end

local function parameter_name(name) return keywords[name] and name .. "_" or name end

local function emit_function(out, entry)
  add_text(out, entry.doc)
  add_mathematics(out, entry.shapes, entry.formula)
  for _, param in ipairs(entry.params) do
    if not param.field_of then
      local default = param.default and (" (default `%s`)"):format(param.default) or ""
      out[#out + 1] = without_space(("---@param %s%s %s %s%s"):format(parameter_name(param.name),
        param.optional and "?" or "", qualified(param.type), param.text, default))
    end
  end
  for _, result in ipairs(entry.returns) do
    out[#out + 1] = without_space(("---@return %s %s %s"):format(qualified(result.type),
      result.name or "", result.text or ""))
  end
  local names = {}
  for i, name in ipairs(entry.names) do names[i] = parameter_name(name) end
  local target = "ml." .. entry.name
  if entry.kind == "method" then target = target:gsub("%.([^.]+)$", ":%1") end
  out[#out + 1] = ("function %s(%s) end\n"):format(target, table.concat(names, ", "))
end

local function emit_class(out, entry, fields)
  local of = entry.parent and ": moonlet." .. entry.parent or ""
  add_text(out, entry.doc)
  add_mathematics(out, entry.shapes, entry.formula)
  out[#out + 1] = ("---@class moonlet.%s%s"):format(entry.name, of)
  for _, field in ipairs(fields[entry.name] or {}) do
    out[#out + 1] = without_space(("---@field %s %s %s"):format(field.name:match "[^.]+$",
      qualified(field.results), field.doc))
  end
  if entry.calls[1] then
    local parts, params = {}, {}
    for _, param in ipairs(entry.params) do params[param.name] = param end
    for i, name in ipairs(entry.names) do
      local param = params[name] or { optional = true, type = "any" }
      local mark = param.optional and name ~= "..." and "?" or ""
      parts[i] = ("%s%s: %s"):format(parameter_name(name), mark, qualified(param.type))
    end
    out[#out + 1] = ("---@overload fun(%s): moonlet.%s"):format(table.concat(parts, ", "), entry.name)
  end
  out[#out + 1] = ("ml.%s = {}\n"):format(entry.name)
end

-- What stdlib/ defines; fields go to their classes.
local function emit_stdlib(out, entries)
  local fields = {}
  for _, entry in ipairs(entries) do
    if entry.kind == "field" then
      fields[entry.owner] = fields[entry.owner] or {}
      table.insert(fields[entry.owner], entry)
    end
  end
  for _, entry in ipairs(entries) do
    if entry.origin == "stdlib" then
      if entry.same_as then
        out[#out + 1] = ("ml.%s = ml.%s\n"):format(entry.name, entry.same_as)
      elseif entry.kind == "class" then
        emit_class(out, entry, fields)
      elseif entry.kind == "namespace" then
        add_text(out, entry.doc)
        out[#out + 1] = ("ml.%s = {}\n"):format(entry.name)
      elseif entry.kind == "constant" then
        add_text(out, entry.doc)
        out[#out + 1] = ("---@type %s\nml.%s = nil\n"):format(entry.results, entry.name)
      elseif entry.kind ~= "field" then
        emit_function(out, entry)
      end
    end
  end
end

local function add_meta(out, root)
  for _, path in ipairs(reference.meta_paths(root)) do
    for line in io.lines(path) do
      if not line:find "^%-%-%-@meta" and not line:find "^%-%- " then out[#out + 1] = line end
    end
    out[#out + 1] = ""
  end
end

return function(rows, _, _, root)
  local out = { "---@meta moonlet",
    "-- Generated: what editors know about module moonlet, see interp/gen/emit_stubs.lua.", "",
    "---@alias moonlet.dtype" }
  for _, dtype in ipairs(dtypes) do out[#out + 1] = ('---| "%s"'):format(dtype.name) end
  out[#out + 1] = ""
  add_meta(out, root)
  emit_ops(out, rows)
  emit_stdlib(out, reference.entries(rows, root))
  out[#out + 1] = "return ml\n"
  return table.concat(out, "\n")
end
