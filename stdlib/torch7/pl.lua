-- stdlib/torch7/pl.lua: what Torch7's scripts use of the package penlight, for those whose path has
-- none: `path`, a global in Torch7's own interpreter, and `lapp`, which reads options.

local paths = require "moonlet.torch7.paths"
local system = require "moonlet.system"

local path = {}

function path.exists(name) return system.exists(name) and name or nil end
path.isdir, path.isfile = paths.dirp, paths.filep
path.dirname, path.currentdir = paths.dirname, paths.cwd
function path.basename(name) return name:match "([^/]*)$" end

--- The name without its ending, and the ending with its dot.
function path.splitext(name)
  local stem, ending = name:match "^(.*[^/])(%.[^./]*)$"
  return stem or name, ending or ""
end
function path.extension(name) return (select(2, path.splitext(name))) end

function path.join(first, ...)
  for _, part in ipairs { ... } do
    first = (part:sub(1, 1) == "/" or first == "") and part
      or first:gsub("/$", "") .. "/" .. part
  end
  return first
end

-- --- options -------------------------------------------------------------------------------------

-- "(default 3)", "(number)", "(string default x)" as what reads a value, and the default.
local function read_type(text)
  local kind, value = text:match "^(%w*)%s*default%s+(.*)$"
  if not kind then kind = text:match "^([%w-]+)" end
  if value then
    value = value:match '^"(.*)"$' or value:match "^'(.*)'$" or tonumber(value) or value
  end
  if kind == "" or kind == nil then kind = type(value) end
  if kind == "boolean" or kind == "bool" then return "boolean", value == "true" end
  if kind ~= "number" and kind ~= "int" and kind ~= "string" then
    error(("lapp: a number, string or boolean is expected for an option, got '%s'"):format(kind), 0)
  end
  return kind == "int" and "number" or kind, value
end

-- The options of a text by letter and name, and the list of parameters without one.
local function read_spec(text)
  local options, parameters, all = {}, {}, {}
  for line in text:gmatch "[^\n]+" do
    local short = line:match "^%s*%-(%w)[%s,]" or line:match "^%s*%-(%w)$"
    local long = line:match "^%s*%-%-([%w_-]+)" or line:match "^%s*%-%w,%s*%-%-([%w_-]+)"
    local parameter = line:match "^%s*<([%w_-]+)>"
    if short or long or parameter then
      local kind = line:match "%((.-)%)"
      local option = { name = ((long or short or parameter):gsub("-", "_")) }
      if kind then option.kind, option.value = read_type(kind) else option.kind = "boolean" end
      if not kind then option.value = false end
      if short then options[short] = option end
      if long then options[long] = option end
      if parameter then parameters[#parameters + 1] = option end
      all[#all + 1] = option
    end
  end
  return options, parameters, all
end

local function converted(option, text)
  if option.kind == "string" then return text end
  if option.kind == "boolean" then return text == "true" end
  return tonumber(text)
    or error(("lapp: option '%s' expects a number, got '%s'"):format(option.name, text), 0)
end

--- Reads a script's arguments as a text about them says: lines such as
--- `-r,--rate (default 0.1) how fast`, `--full whether all is read`, `<file> (string) what is
--- read`.
---@return table values by the name of each option
local function lapp(text, arguments)
  arguments = arguments or _G.arg or {}
  local options, parameters, all = read_spec(text)
  local values, at, position = {}, 1, 0
  while arguments[at] do
    local word = arguments[at]
    local name, value = word:match "^%-%-?([%a][%w_-]*)=?(.*)$"
    if name == "help" or name == "h" and not options.h then
      print(text)
      os.exit(0)
    end
    local option
    if name then
      option = options[name] or error(("lapp: the option '%s' is not known"):format(word), 0)
    else
      position = position + 1
      option = parameters[position]
        or error(("lapp: the argument '%s' is one too many"):format(word), 0)
      value = word
    end
    if value == "" and option.kind == "boolean" then
      values[option.name] = not option.value
    else
      if value == "" then
        at = at + 1
        value = arguments[at]
          or error(("lapp: the option '%s' expects a value"):format(word), 0)
      end
      values[option.name] = converted(option, value)
    end
    at = at + 1
  end
  for _, option in ipairs(all) do
    if values[option.name] == nil then
      if option.value == nil then
        error(("lapp: a value of '%s' is expected"):format(option.name), 0)
      end
      values[option.name] = option.value
    end
  end
  return values
end

_G.path, _G.lapp = path, lapp

return { path = path, lapp = lapp }
