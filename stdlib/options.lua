-- stdlib/options.lua: errors at the script's line, names of options, and namespaces; an unknown
-- name is an error that says the nearest known one. moonlet.signature reads arguments.

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

--- Says on the standard error stream why a command of the command line failed, without the line of
--- the standard library that found it out.
---@param problem any what was raised
function options.report(problem)
  local message = tostring(problem):gsub("^[^\n]-stdlib/[%w_/]+%.lua:%d+: ", "")
  io.stderr:write("moonlet: ", message, "\n")
end

--- Whether a value can be called: a function, a module, or another object with `__call`.
---@param value any
---@return boolean
function options.is_callable(value)
  if type(value) == "function" then return true end
  local meta = getmetatable(value)
  return type(meta) == "table" and meta.__call ~= nil
end

local is_callable = options.is_callable

--- The results of `f` under a guard, which ends with it however it ends; without `f` the guard.
---@param where string for the message when `f` is no function
---@param guard any what `<close>` ends
---@param f? function
---@param ... any what f gets
function options.under(where, guard, f, ...)
  if f == nil then return guard end
  local _ <close> = guard
  if not is_callable(f) then fail("%s: a function is expected, got %s", where, type(f)) end
  return f(...)
end

--- `guard` itself, after `f` has run under it, which ends it; without `f` it goes on.
---@param where string for the message when `f` is no function
---@param guard any what `<close>` ends
---@param f? function
---@param ... any what f gets
---@return any guard
function options.kept_open(where, guard, f, ...)
  options.under(where, guard, f, ...)
  return guard
end

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

--- "train.lua:12": the innermost line outside the standard library, or nil.
---@return string?
function options.script_line()
  local level = 2
  while true do
    local info = debug.getinfo(level, "Sl")
    if not info then return nil end
    local inside = info.source:find "^@stdlib/" or info.source:find "/stdlib/[%w_/]+%.lua$"
    if info.currentline > 0 and not inside then
      return ("%s:%d"):format(info.short_src, info.currentline)
    end
    level = level + 1
  end
end

return options
