-- stdlib/signature.lua: the argument reader of the library. A function declares its parameters
-- once, in the notation of the op table, and takes them by position or by name:
--
--     local read = signature "nn.init.uniform_(Tensor tensor, number a=0, number b=1)"
--     function init.uniform_(...) local tensor, a, b = read(...) ... end
--
-- A parameter is `TYPE NAME`, `TYPE NAME=DEFAULT` or `TYPE? NAME=nil`; the last one may be
-- `TYPE... NAME`, an array of what is left. Types are those below, with bounds (`int>=1`,
-- `number>=0<=1`), as arrays (`Tensor[]`), as arrays of n where one stands for all (`int[2]>=1`),
-- or several (`int|string`). Arguments by name come in a table at the end, `f(w, { std = 0.02 })`,
-- or with those by position in one table, `f { w, std = 0.02 }`.

local class = require "moonlet.class"
local ml = require "moonlet"
local numbers = require "moonlet.numbers"
local options = require "moonlet.options"
local reader = require "moonlet.signature_reader"
local fail = options.fail

-- As it is now: a script may assign to the global.
local load = load

local signature = {}

--- All declarations by name, "nn.Linear" or "Module:to": `{ name, text, parameters = { { name,
--- type, default, required, variadic }, .. } }`, the types and defaults as they are written.
signature.all = {}

--- Tables that may follow the arguments of a call and are none of them: the metadata that `ml.load`
--- returns behind the state in `net:load_state_dict(ml.load(path))`.
signature.asides = reader.asides

local Signature = {}

-- A type is a text for errors and what the reader of arguments looks for. `list` and `dict` say
-- that arrays and tables of names are such values, `thing` how errors read.
local types = {
  any = { "a value", kind = "any" },
  Tensor = { "a tensor", kind = "tensor", thing = true },
  bool = { "true or false", kind = "bool" },
  int = { "an integer", kind = "int" },
  number = { "a number", kind = "number" },
  string = { "a string", kind = "string" },
  ["function"] = { "a function", kind = "function", thing = true },
  Generator = { "a generator", kind = "generator", thing = true },
  table = { "a table", kind = "table", list = true, thing = true },
  dict = { "a table", kind = "table", dict = true, thing = true },
}

--- Adds a type of its own to the notation.
---@param name string
---@param description string "a module"
---@param convert fun(value: any): any the value to use, or nil for a wrong one
---@param list? boolean whether arrays are such values
---@param dict? boolean whether tables of names are
function signature.add_type(name, description, convert, list, dict)
  types[name] = { description, kind = "convert", convert = convert, list = list, dict = dict,
    thing = true }
end

--- A type of which there are only the strings given.
---@param name string
---@param choices string[]
function signature.add_choice(name, choices)
  local known = {}
  for _, choice in ipairs(choices) do known[choice] = choice end
  local last = #choices
  local text = table.concat(choices, ", ", 1, last - 1) .. " or " .. choices[last]
  types[name] = { text, kind = "choice", choices = known }
end

local function bounds_text(low, high, open)
  if low and high then return (" from %s to %s"):format(low, high) end
  if low then return ((open and " above %s" or " of at least %s")):format(low) end
  return high and (" of at most %s"):format(high) or ""
end

local function copy_of(base)
  local out = {}
  for key, value in pairs(base) do out[key] = value end
  return out
end

-- The type with the bounds `>=low`, `>low` and `<=high` that follow its name.
local function bounded(base, text)
  if text == "" then return base end
  assert(base.kind == "int" or base.kind == "number", "a type without bounds")
  local low, high = text:match "^>=?(-?[%d.]+)", text:match "<=(-?[%d.]+)$"
  local out = copy_of(base)
  out.above, out.low, out.high = text:find "^>[^=]" ~= nil, tonumber(low), tonumber(high)
  local limits = bounds_text(low, high, out.above)
  out[1], out.plural = base[1] .. limits, base[1]:gsub("^an? ", "") .. "s" .. limits
  return out
end

-- An array of `length`, for which one element may stand, or, without it, of any length.
local function array_of(element, length)
  local out = copy_of(element)
  out.list, out.dict, out.thing, out.fixed = true, nil, nil, length ~= nil
  out.length = length or 0
  out[1] = length and ("%s, or an array of %d"):format(element[1], length)
    or "an array of " .. (element.plural or element[1]:gsub("^an? ", "") .. "s")
  return out
end

local function one_type(text)
  local name, list, limits = text:match "^(%a+)(%[?%d*%]?)(.*)$"
  local base = assert(types[name], "signature: unknown type " .. text)
  local element = bounded(base, limits)
  return list == "" and element or array_of(element, tonumber(list:match "%d+"))
end

local function parse_type(text)
  local out, names = { parts = {} }, {}
  for each in text:gmatch "[^|]+" do
    local part = one_type(each)
    out.parts[#out.parts + 1], names[#names + 1] = part, part[1]
    out.list, out.dict = out.list or part.list, out.dict or part.dict
    out.fixed, out.thing = out.fixed or part.fixed, out.thing or part.thing
  end
  out[1] = table.concat(names, " or ")
  return out
end

-- Cuts at the commas that are in no braces or quotes.
local function split_parameters(text)
  local out, depth, quoted, start = {}, 0, false, 1
  for at, mark in text:gmatch '()([,{}"])' do
    if mark == '"' then quoted = not quoted end
    if mark == "," and depth == 0 and not quoted then
      out[#out + 1] = text:sub(start, at - 1)
      start = at + 1
    elseif not quoted then
      depth = depth + (mark == "{" and 1 or mark == "}" and -1 or 0)
    end
  end
  out[#out + 1] = text:sub(start)
  return out
end

--- The parts of a list of parameters.
---@param text string
---@return string[]
signature.split_parameters = split_parameters

local function parse_parameter(text)
  local kind, name, default = text:match "^%s*([^%s]+)%s+([%a_][%w_]*)%s*=?%s*(.-)%s*$"
  assert(kind, "signature: bad parameter " .. text)
  local plain = kind:gsub("[?.]+$", "")
  local parameter = { name = name, type = kind, required = default == "",
    variadic = kind:find("...", 1, true) ~= nil, default = default ~= "" and default or nil,
    accepts = parse_type(plain) }
  parameter.required = parameter.required and not parameter.variadic
  parameter.accepts.any = kind == "any"
  if parameter.default then
    parameter.make_default = assert(load("return " .. default, "=default", "t", {}))
  end
  return parameter
end

-- Most functions of a library are not called by a script, so a declaration is taken apart when its
-- parameters are first looked at.
function Signature.__index(self, key)
  if key ~= "parameters" and key ~= "names" then return rawget(Signature, key) end
  local parameters, names = {}, {}
  local list = self.text:match "^[^(]*%((.*)%)$"
  if list:find "%S" then
    for i, part in ipairs(split_parameters(list)) do
      parameters[i] = parse_parameter(part)
      names[i] = parameters[i].name
    end
  end
  self.parameters, self.names = parameters, names
  return rawget(self, key)
end

local BRACKET = (")"):byte()

-- "nn.Linear" names itself in errors unless `where` says what they begin with; of "Module:to" the
-- script sees `to`.
local function new(_, text, where)
  local open = text:find("(", 1, true)
  if not open or text:byte(-1) ~= BRACKET then error("signature: bad declaration " .. text) end
  local name = text:sub(1, open - 1)
  local colon = where == nil and name:find(":", 1, true)
  local self = setmetatable({ name = name, text = text,
    where = where or colon and name:sub(colon + 1) or name }, Signature)
  signature.all[name] = self
  return self
end

--- Adds a second name that a parameter may be given by.
---@param other string
---@param name string
---@return table self
function Signature:alias(other, name)
  self.aliases = self.aliases or {}
  self.aliases[other] = name
  return self
end

--- How a value reads in an error message.
---@param value any
---@return string
function signature.describe(value)
  local kind = type(value)
  if kind == "string" then return ("%q"):format(value) end
  if kind == "number" or kind == "boolean" then return numbers.tostring(value) end
  if ml.is_tensor(value) then return "a tensor of shape " .. tostring(value.shape) end
  if getmetatable(value) == "SparseRows" then
    return "a sparse gradient (its to_dense() is a tensor)"
  end
  local cls = class.of(value)
  if cls then return "an object of class " .. class.name(cls) end
  if class.is_class(value) then return "class " .. class.name(value) end
  if kind == "table" and not getmetatable(value) and #value > 0 then
    return ("a table of %d"):format(#value)
  end
  return kind == "nil" and kind or "a " .. kind
end

-- What the reader calls for a call that is wrong.

function Signature:refuse_name(name)
  if type(name) ~= "string" then
    fail("%s: options are a table of names, got the key %s", self.where, signature.describe(name))
  end
  options.check(self.where, { [name] = true }, self.names)
end

function Signature:refuse_twice(name) fail("%s: '%s' is given twice", self.where, name) end

function Signature:refuse_missing(name) fail("%s: '%s' is missing", self.where, name) end

function Signature:refuse_count(count)
  local names = #self.names > 0 and " (" .. table.concat(self.names, ", ") .. ")" or ""
  fail("%s: takes at most %d argument%s%s, got %d", self.where, #self.names,
    #self.names == 1 and "" or "s", names, count)
end

function Signature:refuse_value(number, value, where)
  local parameter = self.parameters[number]
  fail(parameter.accepts.thing and "%s: '%s': %s is expected, got %s"
    or "%s: '%s' must be %s, got %s", where or self.where, parameter.name, parameter.accepts[1],
    signature.describe(value))
end

--- The arguments in the order of the parameters.
Signature.__call = reader.read

--- The arguments as a table by name.
---@return table<string, any>
Signature.table = reader.table

--- The value to use for a parameter, or nil for a wrong one.
---@param number integer the parameter's
---@param value any
---@return any
Signature.convert = reader.convert

--- Reads the arguments in front of a function that is to run under them, which come in one table
--- or by position: `f({ on = true }, run, x)`, `f(true, run, x)`. Returns them by name, then the
--- function and what follows it.
---@return table<string, any> arguments
---@return any ... the function and its own arguments
function Signature:before_function(...)
  local count, last = select("#", ...), 1
  local given = { ... }
  local first = given[1]
  if first ~= nil and (type(first) ~= "table" or getmetatable(first)) then
    last = 0
    while last < count and not options.is_callable(given[last + 1]) do last = last + 1 end
  end
  return self:table(table.unpack(given, 1, last)), table.unpack(given, last + 1, count)
end

--- Checks a table of some of the parameters by name and returns a copy of it. `others` are further
--- names that it may have, whose values are taken as they are.
---@param where string what takes them, for messages
---@param given table<string, any>
---@param others? string[]
---@return table<string, any>
function Signature:subset(where, given, others)
  local out, known = {}, {}
  for _, name in ipairs(others or {}) do known[#known + 1] = name end
  table.move(self.names, 1, #self.names, #known + 1, known)
  options.check(where, given, known)
  for key, value in pairs(given) do out[key] = value end
  for i, parameter in ipairs(self.parameters) do
    local value = given[parameter.name]
    if value ~= nil then
      local found = self:convert(i, value)
      if found == nil then self:refuse_value(i, value, where) end
      out[parameter.name] = found
    end
  end
  return out
end

signature.add_choice("Reduction", { "mean", "sum", "none" })
signature.add_choice("KLReduction", { "mean", "batchmean", "sum", "none" })

---@overload fun(text: string, where?: string): table
return setmetatable(signature, { __call = new })
