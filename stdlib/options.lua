-- stdlib/options.lua: errors at the script's line, tables of named options, and namespaces; an
-- unknown name is an error that says the nearest known one. moonlet.signature reads arguments.

local nearest = require "moonlet.nearest"
local numbers = require "moonlet.numbers"

local options = {}

--- An error at the script's line: the innermost one outside the standard library.
---@param format string
function options.fail(format, ...)
  local level = 2
  while true do
    local info = debug.getinfo(level, "Sl")
    if not info then level = 2 break end
    local inside = info.source:find("^@stdlib/") or info.source:find("/stdlib/[%w_/]+%.lua$")
    if info.currentline > 0 and not inside then break end
    level = level + 1
  end
  error(numbers.format(format, ...), level)
end

local fail = options.fail

-- A table of named options, as against a list such as {3, 3}, a module or a class.
local function is_named(value)
  if type(value) ~= "table" or getmetatable(value) then return false end
  local key = next(value)
  return key == nil or type(key) == "string"
end

--- "; did you mean 'NAME'?" with the name of `names` that `key` likely stands for, or nothing.
---@param key any
---@param names string[]
---@return string
function options.did_you_mean(key, names)
  local guess = type(key) == "string" and nearest(key, names)
  return guess and ("; did you mean '%s'?"):format(guess) or ""
end

--- Checks that `given` is a table of named options, or nil, and has no name that is not in `names`.
---@param where string what takes them, for messages
---@param given? table
---@param names string[]
function options.check(where, given, names)
  if given == nil then return end
  if not is_named(given) then
    fail("%s: options are a table of names, got %s", where, type(given))
  end
  local known = {}
  for _, name in ipairs(names) do known[name] = true end
  for key in pairs(given) do
    if not known[key] then
      fail("%s: unknown option '%s'%s (it takes %s)", where, tostring(key),
        options.did_you_mean(key, names), #names > 0 and table.concat(names, ", ") or "none")
    end
  end
end

--- Checks a table of named options against their defaults and returns a table with all of them.
--- A default of `options.none` stands for "may be left out".
---@param where string what takes them, for messages
---@param given? table
---@param defaults table
---@return table
function options.read(where, given, defaults)
  local names, result = {}, {}
  for name in pairs(defaults) do names[#names + 1] = name end
  table.sort(names)
  options.check(where, given, names)
  for name, default in pairs(defaults) do
    local value = given and given[name]
    if value == nil and default ~= options.none then value = default end
    result[name] = value
  end
  return result
end

options.none = setmetatable({}, { __tostring = function() return "none" end })

local function whole(value)
  if type(value) ~= "number" then return nil end
  return math.tointeger(value)
end

--- `value` as an integer of at least `least`, or an error.
function options.integer(where, name, value, least)
  local n = whole(value)
  if not n or n < least then
    fail("%s: '%s' must be an integer of at least %d, got %s", where, name, least,
      numbers.tostring(value))
  end
  return n
end

--- `value` as a number from `low` to `high` (either may be nil), or an error.
function options.number(where, name, value, low, high)
  local good = type(value) == "number" and value == value and (not low or value >= low)
    and (not high or value <= high)
  if not good then
    fail("%s: '%s' must be a number%s, got %s", where, name,
      low and high and numbers.format(" from %g to %g", low, high)
      or low and numbers.format(" of at least %g", low) or "", numbers.tostring(value))
  end
  return value
end

--- `value` as a boolean, or an error.
function options.boolean(where, name, value)
  if type(value) ~= "boolean" then
    fail("%s: '%s' must be true or false, got %s", where, name, tostring(value))
  end
  return value
end

--- Makes reading an unknown name of a table an error that says the nearest known one. The names of
--- `late` are loaded at their first use: it says for each which module it is a field of, or which
--- module it is.
---@param name string the table's, for the message
---@param names table
---@param late? table<string, string>
---@return table names
options.namespace = require "moonlet.namespace"

--- Such late names from the names of each module: `{ ["nn.linear"] = { "Linear", "Embedding" } }`.
---@param modules table<string, string[]>
---@return table<string, string>
function options.late(modules)
  local late = {}
  for module, names in pairs(modules) do
    for _, name in ipairs(names) do late[name] = "moonlet." .. module end
  end
  return late
end

return options
