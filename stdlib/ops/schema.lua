-- stdlib/ops/schema.lua: takes the declaration of an op apart, "snake(Tensor x) -> Tensor". The
-- notation is that of the op table, but that defaults count from 1 as all that scripts write.

local numbers = require "moonlet.numbers"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local schema = {}

-- The types that arguments may have, and what editors and help call them.
local types = {
  Tensor = "Tensor", ["Tensor[]"] = "Tensor[]", ["Tensor?[]"] = "Tensor[]",
  Operand = "Tensor|number", Scalar = "number|boolean|Complex", int = "integer",
  ["int[]"] = "integer[]", ["int[1]"] = "integer|integer[]", ["int[2]"] = "integer|integer[]",
  ["int[3]"] = "integer|integer[]", ["int[*]"] = "integer[]", float = "number",
  ["float[*]"] = "number[]", bool = "boolean", string = "string", Dim = "integer",
  NewDim = "integer", ["Dim[]"] = "integer|integer[]", ["Dim[*]"] = "integer|integer[]",
  Index = "integer", ["Index[*]"] = "integer[]", DType = "dtype", Device = "string",
  MemoryFormat = "memory_format",
}
local optional = { Tensor = true, Scalar = true, int = true, float = true, bool = true,
  string = true, Dim = true, DType = true, Device = true, MemoryFormat = true }
local aliases = { double = "float" }
local result_types = { Tensor = true, ["Tensor[]"] = true, bool = true, int = true, float = true,
  Scalar = true }
local keywords = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat "
  .. "return then true until while"):gmatch "%a+" do keywords[word] = true end

local function known_types()
  local names = {}
  for name in pairs(types) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local function bad(text, format, ...)
  fail("ops.define: the schema %q %s", #text > 200 and text:sub(1, 200) .. "..." or text,
    numbers.format(format, ...))
end

local constants = { ["nil"] = {}, ["true"] = { true }, ["false"] = { false },
  inf = { math.huge }, ["-inf"] = { -math.huge } }

local function literal(text)
  local constant = constants[text]
  if constant then return true, constant[1] end
  local number = tonumber(text)
  if number then return true, number end
  local quoted = text:match '^"([^"\\]*)"$' or text:match "^'([^'\\]*)'$"
  return quoted ~= nil, quoted
end

-- The value of a default: a number, a string, true, false, nil or a list of numbers.
local function default_value(text, declaration, name)
  local items = text:match "^{(.*)}$"
  if not items then
    local good, value = literal(text)
    if good then return value end
  else
    local list = {}
    for item in items:gmatch "[^,]+" do
      list[#list + 1] = tonumber((item:match "^%s*(.-)%s*$"))
      if not list[#list] then items = nil break end
    end
    if items then return list end
  end
  bad(declaration, "gives '%s' the default %s: expected a number, a string, true, false, nil or "
    .. "a list of numbers", name, text)
end

-- "Tensor!" is written.
local function read_type(kind, declaration, name)
  local plain, mark, maybe = kind:match "^([^!?]+%??[%[%]%d*]*)(!?)(%??)$"
  if not plain then bad(declaration, "has no type for '%s', got %q", name, kind) end
  local written, base = mark == "!", plain
  if maybe == "?" then base = plain .. "?" end
  local nullable = base:sub(-1) == "?"
  local word = nullable and base:sub(1, -2) or base
  word = aliases[word] or word
  if not types[word] or (nullable and not optional[word]) then
    bad(declaration, "has the unknown type %s for '%s'%s; expected one of %s", kind, name,
      options.did_you_mean(word, known_types()), table.concat(known_types(), ", "))
  end
  if written and word ~= "Tensor" then
    bad(declaration, "marks '%s' as written, which only a Tensor can be, got %s", name, kind)
  end
  return nullable and word .. "?" or word, written, nullable
end

local function read_argument(text, declaration)
  local kind, name, default = text:match "^%s*([^%s=]+)%s+([%a_][%w_]*)%s*=?%s*(.-)%s*$"
  if not kind or (text:find("=", 1, true) and default == "") then
    bad(declaration, "has the argument %q: expected 'Type name' or 'Type name=default'",
      text:match "^%s*(.-)%s*$")
  end
  if keywords[name] then bad(declaration, "names an argument '%s', a word of Lua", name) end
  local own, written, nullable = read_type(kind, declaration, name)
  local argument = { name = name, type = own, written = written,
    optional = nullable or default ~= "", default = default ~= "" and default or nil }
  if default ~= "" then argument.value = default_value(default, declaration, name) end
  local length = tonumber(own:match "^int%[(%d)%]$")
  if length and type(argument.value) == "number" then
    local value = argument.value
    argument.value = {}
    for i = 1, length do argument.value[i] = value end
  end
  return argument
end

local function read_arguments(text, declaration)
  local out, seen, first_optional = {}, {}, nil
  if not text:find "%S" then return out end
  for i, part in ipairs(signature.split_parameters(text)) do
    local argument = read_argument(part, declaration)
    if seen[argument.name] then bad(declaration, "has two arguments '%s'", argument.name) end
    if argument.name == "out" then
      bad(declaration, "names an argument 'out', as the out form has")
    end
    seen[argument.name] = true
    if argument.optional then
      first_optional = first_optional or argument.name
    elseif first_optional then
      bad(declaration, "has '%s' without a default after '%s', which has one", argument.name,
        first_optional)
    end
    out[i] = argument
  end
  return out
end

local function read_results(text, declaration)
  local out = {}
  local inside = text:match "^%((.*)%)$"
  for part in (inside or text):gmatch "[^,]+" do
    local kind, name = part:match "^%s*(%S+)%s*([%a_]?[%w_]*)%s*$"
    kind = aliases[kind] or kind
    if not kind or not result_types[kind] then
      bad(declaration, "gives %q: expected Tensor, Tensor[], bool, int, float or Scalar, "
        .. "several in parentheses, or ()", part:match "^%s*(.-)%s*$")
    end
    out[#out + 1] = { type = kind, name = name ~= "" and name or nil }
  end
  if #out == 0 and not inside then
    bad(declaration, "has no result: expected '-> Tensor' or '-> ()'")
  end
  return out
end

-- As the row of an op has it.
local function canonical(op)
  local arguments, results = {}, {}
  for i, a in ipairs(op.arguments) do
    arguments[i] = ("%s%s %s%s"):format(a.type, a.written and "!" or "", a.name,
      a.default and "=" .. a.default or "")
  end
  for i, r in ipairs(op.results) do results[i] = r.name and r.type .. " " .. r.name or r.type end
  local given = #results == 1 and not op.results[1].name and results[1]
    or "(" .. table.concat(results, ", ") .. ")"
  return ("%s(%s) -> %s"):format(op.name, table.concat(arguments, ", "), given)
end

--- "snake(x, a=1.0)" of some of the arguments.
---@param name string
---@param arguments table[]
---@return string
function schema.usage(name, arguments)
  local shown = {}
  for i, a in ipairs(arguments) do
    shown[i] = a.name .. (a.optional and "=" .. (a.default or "nil") or "")
  end
  return ("%s(%s)"):format(name, table.concat(shown, ", "))
end

--- What help calls a type.
---@param kind string
---@return string
function schema.type_text(kind) return types[(kind:gsub("%?$", ""))] end

--- A declaration as `{ name, space, short, text, arguments = { { name, type, written, optional,
--- default, value } }, results = { { type, name } } }`.
---@param text string
---@return table
function schema.parse(text)
  local name, arguments, results = text:match "^%s*([%a_][%w_.]*)%s*%((.*)%)%s*%->%s*(.-)%s*$"
  -- Of `f(...) -> (a, b)` the first pattern ends the arguments at the last parenthesis.
  local first, rest = text:match "^%s*[%a_][%w_.]*%s*(%b())%s*%->%s*(.-)%s*$"
  if first then arguments, results = first:sub(2, -2), rest end
  if not name then
    bad(text, "is no declaration: expected 'name(Type argument, ...) -> Type'")
  end
  local space, short = name:match "^([%a_][%w_]*)%.([%a_][%w_]*)$"
  if name:find(".", 1, true) and not space then
    bad(text, "names the op '%s': expected 'name' or 'library.name'", name)
  end
  short = short or name
  if keywords[short] or keywords[space or ""] or short:find "_$" or #name > 100 then
    bad(text, "names the op '%s', which is a word of Lua, ends as in-place forms do, or is too "
      .. "long", name)
  end
  local op = { name = name, space = space, short = short }
  op.arguments = read_arguments(arguments, text)
  op.results = read_results(results, text)
  op.text = canonical(op)
  return op
end

return schema
