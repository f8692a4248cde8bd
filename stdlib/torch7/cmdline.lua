-- stdlib/torch7/cmdline.lua: torch.CmdLine: the options and arguments of a script's command line.

local class = require "moonlet.torch7.class"

local CmdLine = class.class("torch.CmdLine", require "moonlet.torch7.namespace")

local function bare(key) return (key:gsub("^%-*", "")) end

function CmdLine:__init(argument_separator, key_separator)
  self.argseparator, self.keyseparator = argument_separator or ",", key_separator or "="
  self.options, self.arguments, self.helplines = {}, {}, {}
  self.silentio = false
end

function CmdLine:error(message)
  io.stderr:write("\n", message, "\n\n")
  self:help()
  os.exit(1)
end

function CmdLine:silent() self.silentio = true end

--- Puts the time, and a name, in front of each line of a log.
function CmdLine:addTime(name, format)
  format = format or "%Y-%m-%d %H:%M:%S"
  if type(format) ~= "string" then error("Argument has to be string", 2) end
  self.dateformat = format .. (name and "[" .. name .. "]: " or "")
end

function CmdLine:argument(key, help, kind)
  local entry = { key = key, help = help, type = kind }
  table.insert(self.arguments, entry)
  table.insert(self.helplines, entry)
end

function CmdLine:option(key, default, help, kind)
  if default == nil then error("option " .. key .. " has no default value", 2) end
  kind = kind or type(default)
  if type(default) ~= kind then
    error("option " .. key .. " has wrong default type value", 2)
  end
  self.options[key] = { key = key, default = default, help = help, type = kind }
  table.insert(self.helplines, self.options[key])
end

function CmdLine:text(line)
  if line ~= nil and type(line) ~= "string" then error("text: a string is expected", 2) end
  table.insert(self.helplines, line or "")
end

function CmdLine:default()
  local params = {}
  for key, option in pairs(self.options) do params[bare(key)] = option.default end
  return params
end

-- Reads an option; the number of words it took.
local function read_option(self, params, words, at)
  local key = words[at]
  local option = self.options[key]
  if option.type == "boolean" then
    params[bare(key)] = not option.default
    return 1
  end
  local value = words[at + 1]
  if value == nil then self:error("missing argument for option " .. key) end
  if option.type == "number" then
    value = tonumber(value)
    if not value then
      self:error("invalid type for option " .. key .. " (should be number)")
    end
  elseif option.type ~= "string" then
    self:error("unknown required option type " .. option.type)
  end
  params[bare(key)] = value
  return 2
end

local HELP = { ["-help"] = true, ["-h"] = true, ["--help"] = true }

--- The values of all options and arguments by name.
function CmdLine:parse(words)
  local params, at, count = self:default(), 1, 0
  while at <= #words do
    local word = words[at]
    if HELP[word] then
      self:help(words)
      os.exit(0)
    elseif self.options[word] then
      at = at + read_option(self, params, words, at)
    else
      count = count + 1
      local argument = self.arguments[count]
      if not argument then self:error("invalid argument: " .. word) end
      if argument.type and type(word) ~= argument.type then
        self:error(("invalid argument type for argument %s (should be %s)"):format(argument.key,
          argument.type))
      end
      params[bare(argument.key)] = word
      at = at + 1
    end
  end
  if count ~= #self.arguments then self:error "not enough arguments" end
  return params
end

--- A text of what differs from the defaults, for names of folders.
function CmdLine:string(prefix, params, ignore)
  local arguments, options, positions = {}, {}, {}
  ignore = ignore or {}
  for i, argument in ipairs(self.arguments) do positions[bare(argument.key)] = i end
  for key, value in pairs(params) do
    local option = self.options["-" .. key]
    if ignore[key] then
      print("-- ignore option " .. key)
    elseif option then
      if value ~= option.default or ignore[key] == false then
        if type(value) == "boolean" then value = value and "t" or "f" end
        options[#options + 1] = key .. self.keyseparator .. value
      end
    elseif positions[key] then
      arguments[positions[key]] = key .. self.keyseparator .. value
    else
      print("WARNING: unknown option/argument: " .. key .. " IGNORING for DIRECTORY NAME")
    end
  end
  table.sort(options)
  local parts = { prefix or "" }
  if #arguments > 0 then parts[#parts + 1] = table.concat(arguments, self.argseparator) end
  if #options > 0 then parts[#parts + 1] = table.concat(options, self.argseparator) end
  return table.concat(parts, self.argseparator)
end

--- From now on `print` writes to a file too, first the command line.
function CmdLine:log(file, params)
  local log = io.type(file) == "file" and file or assert(io.open(file, "w"))
  local before = print
  _G.print = function(...)
    if not self.silentio then before(...) end
    local words = { self.dateformat and os.date(self.dateformat) or nil }
    for i = 1, select("#", ...) do words[#words + 1] = tostring((select(i, ...))) end
    log:write(table.concat(words, " "), "\n")
    log:flush()
  end
  print("[program started on " .. os.date() .. "]")
  print "[command line arguments]"
  for key, value in pairs(params or {}) do print(key, value) end
  print "[----------------------]"
end

local function label(entry)
  if type(entry) ~= "table" then return nil end
  return entry.default ~= nil and entry.key or "<" .. bare(entry.key) .. ">"
end

function CmdLine:help(words)
  io.write("Usage: ", words and words[0] and words[0] .. " " or "", "[options]")
  for _, argument in ipairs(self.arguments) do io.write(" <", bare(argument.key), ">") end
  io.write "\n"
  local width = 0
  for _, entry in ipairs(self.helplines) do width = math.max(width, #(label(entry) or "")) end
  for _, entry in ipairs(self.helplines) do
    local name = label(entry)
    if name then
      io.write("  ", name, (" "):rep(width - #name), entry.help and " " .. entry.help or "")
      if entry.default ~= nil then io.write(" [", tostring(entry.default), "]") end
    else
      io.write(entry)
    end
    io.write "\n"
  end
end
