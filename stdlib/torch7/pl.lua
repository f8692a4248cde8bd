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

local KINDS = { string = "string", number = "number", float = "number", int = "int",
  boolean = "boolean", bool = "boolean", ["file-in"] = "file-in", ["file-out"] = "file-out" }
local STREAMS = { stdin = io.stdin, stdout = io.stdout, stderr = io.stderr }

-- A default in quotes, a number, a standard stream or a word, and its kind.
local function read_default(text)
  local value = text:match '^"(.*)"$' or text:match "^'(.*)'$" or tonumber(text) or text
  if STREAMS[value] then return value, value == "stdin" and "file-in" or "file-out" end
  return value, type(value)
end

-- What parentheses say of an option: "default 3", "number", "optional string", "0..10 default 5".
local function read_type(option, text)
  local rest, default = text:match "^(.-)%s*default%s+(.*)$"
  rest = rest or text
  local kind
  if default then option.value, kind = read_default(default) end
  option.optional = rest:find "^optional" ~= nil or nil
  rest = rest:gsub("^optional%s*", "")
  local least, most = rest:match "^(%-?[%d.]-)%.%.(%-?[%d.]+)$"
  if tonumber(least) and tonumber(most) then
    option.least, option.most, rest = tonumber(least), tonumber(most), "number"
  end
  option.kind = rest == "" and (kind or option.optional and "string") or KINDS[rest]
  if not option.kind then
    error(("lapp: a number, int, string, boolean, file-in, file-out or range is expected for an "
      .. "option, got '%s'"):format(rest), 0)
  end
  if option.kind == "boolean" then option.value = option.value == "true" end
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
      if kind then read_type(option, kind) else option.kind, option.value = "boolean", false end
      if short then options[short] = option end
      if long then options[long] = option end
      if parameter then parameters[#parameters + 1] = option end
      all[#all + 1] = option
    end
  end
  return options, parameters, all
end

local function converted(option, text)
  local kind = option.kind
  if kind == "string" then return text end
  if kind == "boolean" then return text == "true" end
  if kind:find "^file" then
    if STREAMS[text] then return STREAMS[text] end
    local file, problem = io.open(text, kind == "file-in" and "r" or "w")
    return file or error(("lapp: option '%s': %s"):format(option.name, problem), 0)
  end
  local number = tonumber(text)
  if kind == "int" then number = math.tointeger(number) end
  if not number then
    error(("lapp: option '%s' expects %s, got '%s'"):format(option.name,
      kind == "int" and "an integer" or "a number", text), 0)
  end
  if option.least and (number < option.least or number > option.most) then
    error(("lapp: option '%s' must be from %g to %g, got '%s'"):format(option.name, option.least,
      option.most, text), 0)
  end
  return number
end

--- Reads a script's arguments as a text about them says: lines such as
--- `-r,--rate (default 0.1) how fast`, `--full whether all is read`, `<file> (string) what is
--- read`. Arguments that no line is about are the list part of what is given back.
---@return table values by the name of each option
local function process_options_string(text, arguments)
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
      option, value = parameters[position], word
    end
    if not option then
      values[position - #parameters] = word
    elseif value == "" and option.kind == "boolean" then
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
    if values[option.name] == nil and not option.optional then
      if option.value == nil then
        error(("lapp: a value of '%s' is expected"):format(option.name), 0)
      end
      local is_stream = option.kind:find "^file" ~= nil
      values[option.name] = is_stream and converted(option, option.value) or option.value
    end
  end
  return values
end

local lapp = setmetatable({ process_options_string = process_options_string },
  { __call = function(_, ...) return process_options_string(...) end })

_G.path, _G.lapp = path, lapp

return { path = path, lapp = lapp }
