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
local fail = options.fail

-- As it is now: a script may assign to the global.
local load = load

local signature = {}

--- All declarations by name, "nn.Linear" or "Module:to": `{ name, text, parameters = { { name,
--- type, default, required, variadic }, .. } }`, the types and defaults as they are written.
signature.all = {}

--- Tables that may follow the arguments of a call and are none of them: the metadata that `ml.load`
--- returns behind the state in `net:load_state_dict(ml.load(path))`.
signature.asides = setmetatable({}, { __mode = "k" })

local Signature = {}

local function is_plain(value)
  return type(value) == "table" and getmetatable(value) == nil
end

-- A type is a description and a function that gives the value to use, or nil for a wrong one.
-- `list` and `dict` say that arrays and tables of names are such values, `thing` how errors read.
local types = {
  any = { "a value", function(value) return value end },
  Tensor = { "a tensor", function(value) return ml.is_tensor(value) and value or nil end,
    thing = true },
  bool = { "true or false", function(value)
    if type(value) == "boolean" then return value end
  end },
  int = { "an integer", function(value)
    return type(value) == "number" and math.tointeger(value) or nil
  end, bounded = true },
  number = { "a number", function(value)
    return type(value) == "number" and value == value and value or nil
  end, bounded = true },
  Generator = { "a generator", function(value)
    return getmetatable(value) == "Generator" and value or nil
  end, thing = true },
  table = { "a table", function(value) return is_plain(value) and value or nil end, list = true,
    thing = true },
  dict = { "a table", function(value) return is_plain(value) and value or nil end, dict = true,
    thing = true },
}
types.string = { "a string", function(value) return type(value) == "string" and value or nil end }
types["function"] = { "a function", function(value)
  return options.is_callable(value) and value or nil
end, thing = true }

--- Adds a type of its own to the notation.
---@param name string
---@param description string "a module"
---@param convert fun(value: any): any the value to use, or nil for a wrong one
---@param list? boolean whether arrays are such values
---@param dict? boolean whether tables of names are
function signature.add_type(name, description, convert, list, dict)
  types[name] = { description, convert, list = list, dict = dict, thing = true }
end

--- A type of which there are only the strings given.
---@param name string
---@param choices string[]
function signature.add_choice(name, choices)
  local known = {}
  for _, choice in ipairs(choices) do known[choice] = choice end
  local last = #choices
  local text = table.concat(choices, ", ", 1, last - 1) .. " or " .. choices[last]
  types[name] = { text, function(value) return known[value] end }
end

local function bounds_text(low, high, open)
  if low and high then return (" from %s to %s"):format(low, high) end
  if low then return ((open and " above %s" or " of at least %s")):format(low) end
  return high and (" of at most %s"):format(high) or ""
end

-- The type with the bounds `>=low`, `>low` and `<=high` that follow its name.
local function bounded(base, text)
  if text == "" then return base end
  assert(base.bounded, "a type without bounds")
  local open = text:match "^>[^=]" ~= nil
  local low = tonumber(text:match "^>=?(-?[%d.]+)")
  local high = tonumber(text:match "<=(-?[%d.]+)$")
  local limits = bounds_text(text:match "^>=?(-?[%d.]+)", text:match "<=(-?[%d.]+)$", open)
  return { base[1] .. limits,
    function(value)
      local number = base[2](value)
      if number == nil or (low and number < low) or (open and number == low)
          or (high and number > high) then
        return nil
      end
      return number
    end, plural = base[1]:gsub("^an? ", "") .. "s" .. limits }
end

-- The string key of a table that has one beside its array part, or nil.
local function name_in(value)
  local size = #value
  local key = next(value, size > 0 and size or nil)
  return type(key) == "string" and key or nil
end

-- The array that a list of values stands for: a plain table, or a tensor's shape.
local function as_array(value)
  if is_plain(value) then return value end
  return getmetatable(value) == "Shape" and value:tolist() or nil
end

local function convert_all(element, list, count)
  if name_in(list) then return nil end
  local out = {}
  for i = 1, count do
    out[i] = element[2](list[i])
    if out[i] == nil then return nil end
  end
  return out
end

-- An array of `count`; one element stands for all.
local function fixed_array_of(element, count)
  return { ("%s, or an array of %d"):format(element[1], count), function(value)
    local array = as_array(value)
    if array then return #array == count and convert_all(element, array, count) or nil end
    local all, out = element[2](value), {}
    for i = 1, count do out[i] = all end
    return all ~= nil and out or nil
  end, list = true, fixed = true }
end

local function array_of(element)
  local plural = element.plural or element[1]:gsub("^an? ", "") .. "s"
  return { "an array of " .. plural, function(value)
    local array = as_array(value)
    return array and convert_all(element, array, #array) or nil
  end, list = true }
end

local function one_type(text)
  local name, list, limits = text:match "^(%a+)(%[?%d*%]?)(.*)$"
  local base = assert(types[name], "signature: unknown type " .. text)
  local element = bounded(base, limits)
  if list == "" then return element end
  local count = tonumber(list:match "%d+")
  return count and fixed_array_of(element, count) or array_of(element)
end

local function parse_type(text)
  local parts, out = {}, { list = false }
  for part in text:gmatch "[^|]+" do parts[#parts + 1] = one_type(part) end
  if #parts == 1 then return parts[1] end
  local names = {}
  for i, part in ipairs(parts) do
    names[i] = part[1]
    out.list, out.dict = out.list or part.list, out.dict or part.dict
    out.fixed = out.fixed or part.fixed
    out.thing = out.thing or part.thing
  end
  out[1] = table.concat(names, " or ")
  out[2] = function(value)
    for _, part in ipairs(parts) do
      local found = part[2](value)
      if found ~= nil then return found end
    end
  end
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

local function parse_parameter(text)
  local kind, name, default = text:match "^%s*([^%s]+)%s+([%a_][%w_]*)%s*=?%s*(.-)%s*$"
  assert(kind, "signature: bad parameter " .. text)
  local plain = kind:gsub("[?.]+$", "")
  local parameter = { name = name, type = kind, required = default == "",
    variadic = kind:find("...", 1, true) ~= nil, default = default ~= "" and default or nil,
    accepts = parse_type(plain) }
  parameter.required = parameter.required and not parameter.variadic
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

-- "nn.Linear" names itself in errors unless `where` says what they begin with; of "Module:to" the
-- script sees `to`.
local function new(_, text, where)
  local name = assert(text:match "^([%w_.:]+)%(.*%)$", "signature: bad declaration " .. text)
  local self = setmetatable({ name = name, text = text, where = where or name:match "[^:]+$" },
    Signature)
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
  if is_plain(value) and kind == "table" and #value > 0 then
    return ("a table of %d"):format(#value)
  end
  return kind == "nil" and kind or "a " .. kind
end

-- Whether a table of names given for a parameter that takes such tables is the arguments instead.
local function is_call_by_name(self, parameter, value)
  if value[parameter.name] == nil and parameter.required then return false end
  for key in pairs(value) do
    local known = false
    for _, name in ipairs(self.names) do known = known or key == name end
    if not known then return false end
  end
  return true
end

-- Whether an array given alone is the arguments, `f { 2, 3 }` or `f { { 2, 1 } }`: it is no value
-- for the first of them, nor meant as one.
local function is_call_by_position(self, parameter, array)
  if not parameter or parameter.variadic or #array > #self.parameters then return false end
  local accepts = parameter.accepts
  return (not accepts.list or type(array[1]) == "table") and accepts[2](array) == nil
end

-- The table of arguments by name among those given, and how many are left by position.
local function split(self, given, count)
  local last = given[count]
  if not is_plain(last) then return nil, given, count end
  local parameter = self.parameters[count]
  local accepts = parameter and parameter.accepts
  if #last > 0 then
    if count > 1 then return nil, given, count end
    if not name_in(last) then
      if is_call_by_position(self, parameter, last) then return nil, last, #last end
      return nil, given, count
    end
    local list, named = {}, {}
    for key, value in pairs(last) do (type(key) == "string" and named or list)[key] = value end
    if accepts and accepts.list and not accepts.fixed then return named, { list }, 1 end
    return named, list, #list
  end
  local takes_table = accepts and (accepts.list or accepts.dict or parameter.type == "any")
  if next(last) == nil and takes_table then return nil, given, count end
  if accepts and accepts.dict and not is_call_by_name(self, parameter, last) then
    return nil, given, count
  end
  return last, given, count - 1
end

-- The arguments by name under the parameters' own names; an unknown one is an error.
local function check_names(self, named)
  local aliases = self.aliases
  if aliases then
    local renamed = {}
    for key, value in pairs(named) do
      local name = aliases[key] or key
      if renamed[name] ~= nil then fail("%s: '%s' is given twice", self.where, name) end
      renamed[name] = value
    end
    named = renamed
  end
  options.check(self.where, named, self.names)
  return named
end

local function value_of(where, parameter, value)
  if value == nil then
    if parameter.required then fail("%s: '%s' is missing", where, parameter.name) end
    value = parameter.make_default and parameter.make_default()
    if value == nil then return nil end
  end
  local accepts = parameter.accepts
  local found = accepts[2](value)
  if found == nil then
    fail(accepts.thing and "%s: '%s': %s is expected, got %s" or "%s: '%s' must be %s, got %s",
      where, parameter.name, accepts[1], signature.describe(value))
  end
  return found
end

local function too_many(self, count)
  local names = #self.names > 0 and " (" .. table.concat(self.names, ", ") .. ")" or ""
  fail("%s: takes at most %d argument%s%s, got %d", self.where, #self.names,
    #self.names == 1 and "" or "s", names, count)
end

local function rest_of(self, parameter, given, first, count)
  local out = {}
  for i = first, count do out[#out + 1] = value_of(self.where, parameter, given[i]) end
  return out
end

local function values_of(self, ...)
  local count, given, named = select("#", ...), { ... }, nil
  while count > 0 and given[count] == nil do count = count - 1 end
  while count > 1 and signature.asides[given[count]] do
    given[count], count = nil, count - 1
  end
  if count > 0 then named, given, count = split(self, given, count) end
  if named then named = check_names(self, named) end
  local parameters, values = self.parameters, {}
  local size = #parameters
  for i, parameter in ipairs(parameters) do
    local value = nil
    if i <= count then value = given[i] end
    local by_name = named and named[parameter.name]
    if by_name ~= nil then
      if value ~= nil then fail("%s: '%s' is given twice", self.where, parameter.name) end
      value = by_name
    end
    if parameter.variadic and by_name == nil then
      values[i] = rest_of(self, parameter, given, i, count)
      count = math.min(count, size)
    elseif parameter.variadic then
      values[i] = rest_of(self, parameter, by_name, 1, #by_name)
    else
      values[i] = value_of(self.where, parameter, value)
    end
  end
  if count > size then too_many(self, count) end
  return values, size
end

--- The arguments in the order of the parameters.
function Signature:__call(...)
  local values, count = values_of(self, ...)
  return table.unpack(values, 1, count)
end

--- The arguments as a table by name.
---@return table<string, any>
function Signature:table(...)
  local values, out = values_of(self, ...), {}
  for i, name in ipairs(self.names) do out[name] = values[i] end
  return out
end

--- Reads the arguments in front of a function that is to run under them, which come in one table
--- or by position: `f({ on = true }, run, x)`, `f(true, run, x)`. Returns them by name, then the
--- function and what follows it.
---@return table<string, any> arguments
---@return any ... the function and its own arguments
function Signature:before_function(...)
  local count, last = select("#", ...), 1
  local given = { ... }
  if given[1] ~= nil and not is_plain(given[1]) then
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
  for _, parameter in ipairs(self.parameters) do
    local value = given[parameter.name]
    if value ~= nil then out[parameter.name] = value_of(where, parameter, value) end
  end
  return out
end

signature.add_choice("Reduction", { "mean", "sum", "none" })
signature.add_choice("KLReduction", { "mean", "batchmean", "sum", "none" })

---@overload fun(text: string, where?: string): table
return setmetatable(signature, { __call = new })
