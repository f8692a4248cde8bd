-- stdlib/args.lua: command-line options for scripts. A script declares its options in one table
-- and gets a table of checked values; `--help` and the error messages come from the declaration.

local numbers = require "moonlet.numbers"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local system = require "moonlet.system"
local fail = options.fail

local args = {}

--- A parser of command lines, which `args.parser` makes.
--- > ml.args.parser { name = "train", { "fast", "flag" } }:try_parse { "--fast" }
---   {fast = true}	nil
---@class moonlet.args.Parser
local Parser = {}
Parser.__index = Parser
Parser.__name = "args.Parser"

local types = { string = true, number = true, integer = true, flag = true, choice = true,
  list = true }
local item_types = { string = true, number = true, integer = true, choice = true }

-- The fields of an option behind its name and type, and those of a declaration beside its options.
local read_option = signature([[args.option(string? name=nil, string? type=nil, any? default=nil,
  string? help=nil, string? short=nil, number? min=nil, number? max=nil, string[]? choices=nil,
  string? of=nil, bool? positional=nil, bool? required=nil, bool? many=nil, string? meta=nil)]])
local read_declaration = signature "args.declaration(string? name=nil, string? summary=nil)"

-- Refuses what was typed on the command line; `Parser:try_parse` catches it.
local function reject(...)
  error({ args_error = string.format(...) }, 0)
end

local function to_number(text, integer, label)
  local value = tonumber(text)
  if not value or value ~= value or value == math.huge or value == -math.huge then
    reject("%s: expected %s, got '%s'", label, integer and "an integer" or "a number", text)
  end
  if not integer then return value end
  return math.tointeger(value) or reject("%s: expected an integer, got '%s'", label, text)
end

local function check_range(option, value, label)
  if option.min and value < option.min then
    reject("%s: expected at least %s, got %s", label, option.min, value)
  elseif option.max and value > option.max then
    reject("%s: expected at most %s, got %s", label, option.max, value)
  end
  return value
end

local function check_choice(option, text, label)
  for _, choice in ipairs(option.choices) do
    if choice == text then return text end
  end
  reject("%s: expected one of %s, got '%s'", label, table.concat(option.choices, ", "), text)
end

-- `text` as a value of the option's type (of its items, for a list).
local function convert(option, kind, text, label)
  if kind == "integer" or kind == "number" then
    return check_range(option, to_number(text, kind == "integer", label), label)
  elseif kind == "choice" then
    return check_choice(option, text, label)
  end
  return text
end

local function convert_list(option, text, label)
  local items = {}
  for part in (text .. ","):gmatch("(.-),") do
    items[#items + 1] = convert(option, option.of, part:match("^%s*(.-)%s*$"), label)
  end
  return items
end

local function check_declaration(option)
  local name = option.name
  if type(name) ~= "string" or not name:find("^%a[%w_-]*$") then
    fail("args: expected an option name such as \"batch-size\", got %s", tostring(name))
  end
  local function refuse(format, ...) fail("args: option %s: " .. format, name, ...) end
  if not types[option.type] then
    refuse("unknown type %s", tostring(option.type))
  end
  if not item_types[option.of] then refuse("unknown type %s of items", option.of) end
  if (option.type == "choice" or option.of == "choice") and not option.choices then
    refuse("type choice wants a table `choices`")
  end
  if option.short and not option.short:find("^%a$") then
    refuse("`short` must be one letter, got %s", option.short)
  end
  if option.many and not option.positional then
    refuse("`many` is for positionals; other options can have type list")
  end
end

local function make_option(entry)
  if type(entry) ~= "table" then
    fail("args: each option is a table, got %s", type(entry))
  end
  local named = {}
  for key, value in pairs(entry) do if type(key) == "string" then named[key] = value end end
  local where = ("args: option %s"):format(tostring(entry[1]))
  if #entry > 2 then fail("%s: a name and a type are expected, got %d values", where, #entry) end
  local option = read_option:subset(where, named)
  option.name, option.type = option.name or entry[1], option.type or entry[2]
  option.type = option.type or (option.choices and "choice") or "string"
  if option.type == "boolean" then option.type = "flag" end
  option.of = option.of or "string"
  check_declaration(option)
  option.key = option.name:gsub("-", "_")
  if option.type == "flag" and option.default == nil then option.default = false end
  return option
end

--- Makes a parser of command lines from a declaration. Its array part has the options, each `{
--- "batch-size", "integer", ... }`: a name, and a type of string (unless given), number, integer,
--- flag (or boolean), choice or list. Further fields of an option: `default`, `help`, `short` (one
--- letter), `min`, `max`, `choices`, `of` (type of a list's items), `meta` (the value's name in the
--- usage), `required`, and `positional = true` for one given without a name; the last positional
--- may have `many = true` and is then an array.
--- > parser = ml.args.parser { name = "train", { "epochs", "integer", default = 3 } }
--- > parser:try_parse { "--epochs", "5" }
---   {epochs = 5}	nil
---@param declaration table the options
---@param declaration.name? string the program's name; the script's unless given
---@param declaration.summary? string what the program does, for the usage
---@return moonlet.args.Parser
function args.parser(declaration)
  if type(declaration) ~= "table" then
    fail("args: expected a table of options, got %s", type(declaration))
  end
  local named = {}
  for key, value in pairs(declaration) do
    if math.type(key) ~= "integer" then named[key] = value end
  end
  local given = read_declaration:subset("args", named)
  local self = setmetatable({
    name = given.name or (arg and arg[0] and select(2, system.split(arg[0]))) or "moonlet",
    summary = given.summary,
    options = {}, positionals = {}, by_name = {}, by_short = {}, names = {},
  }, Parser)
  for _, entry in ipairs(declaration) do self:add(make_option(entry)) end
  return self
end

function Parser:add(option)
  if self.by_name[option.name] then
    fail("args: option %s is declared twice", option.name)
  end
  self.by_name[option.name] = option
  if option.positional then
    local last = self.positionals[#self.positionals]
    if last and last.many then
      fail("args: nothing can follow positional %s", last.name)
    end
    table.insert(self.positionals, option)
    return
  end
  table.insert(self.options, option)
  table.insert(self.names, option.name)
  if option.type == "flag" then table.insert(self.names, "no-" .. option.name) end
  if option.short then
    if self.by_short[option.short] then
      fail("args: short name -%s is declared twice", option.short)
    end
    self.by_short[option.short] = option
  end
end

local function store(values, option, text, label)
  if option.type ~= "list" then
    values[option.key] = convert(option, option.type, text, label)
    return
  end
  local list = values[option.key] or {}
  for _, item in ipairs(convert_list(option, text, label)) do list[#list + 1] = item end
  values[option.key] = list
end

function Parser:unknown(label, name)
  local guess = options.did_you_mean(name, self.names):gsub("'", "'--", 1)
  reject("unknown option '%s'%s", label, guess)
end

-- The text that belongs to an option: after `=`, or the next argument.
local function take_value(state, inline, label)
  if inline then return inline end
  local text = state.argv[state.at + 1]
  if text == nil or text == "--" or text:find("^%-%-%a") then reject("%s: wants a value", label) end
  state.at = state.at + 1
  return text
end

function Parser:parse_long(state, word)
  local name, inline = word:match("^%-%-([^=]*)=(.*)$")
  name = (name or word:sub(3))
  local label = "--" .. name
  local option = self.by_name[name]
  local positive = not option and name:match("^no%-(.+)$")
  local negated = positive and self.by_name[positive]
  if negated and negated.type == "flag" and not negated.positional then
    if inline then reject("%s: takes no value, got '%s'", label, inline) end
    state.values[negated.key] = false
  elseif not option or option.positional then
    self:unknown(label, name)
  elseif option.type == "flag" then
    if inline and inline ~= "true" and inline ~= "false" then
      reject("%s: expected true or false, got '%s'", label, inline)
    end
    state.values[option.key] = inline ~= "false"
  else
    store(state.values, option, take_value(state, inline, label), label)
  end
end

-- `-v`, `-vq`, `-e5`, `-e 5`, `-e=5`.
function Parser:parse_short(state, word)
  local position = 2
  while position <= #word do
    local letter = word:sub(position, position)
    local option = self.by_short[letter]
    local label = "-" .. letter
    if not option then
      if letter == "h" then state.help = true return end
      self:unknown(label, letter)
    end
    if option.type ~= "flag" then
      local rest = word:sub(position + 1):gsub("^=", "")
      store(state.values, option, take_value(state, rest ~= "" and rest or nil, label), label)
      return
    end
    state.values[option.key] = true
    position = position + 1
  end
end

function Parser:assign_positionals(state)
  local given = state.positionals
  for index, option in ipairs(self.positionals) do
    if option.many then
      local list = {}
      for i = index, #given do
        list[#list + 1] = convert(option, option.type, given[i], option.name)
      end
      if #list == 0 and option.required then reject("missing argument <%s>", option.name) end
      state.values[option.key] = #list > 0 and list or option.default or list
      return
    elseif given[index] then
      store(state.values, option, given[index], option.name)
    end
  end
  if #given > #self.positionals then
    reject("unexpected argument '%s'", given[#self.positionals + 1])
  end
end

function Parser:fill_defaults(values)
  for _, option in pairs(self.by_name) do
    if values[option.key] == nil then
      if option.required or (option.positional and option.default == nil
          and option.required ~= false) then
        reject(option.positional and "missing argument <%s>" or "missing option '--%s'",
          option.name)
      end
      values[option.key] = option.default
    end
  end
end

function Parser:scan(argv)
  local state = { argv = argv, at = 1, values = {}, positionals = {} }
  local plain = false
  while argv[state.at] ~= nil do
    local word = argv[state.at]
    if plain or word == "-" or word:sub(1, 1) ~= "-" or tonumber(word) then
      table.insert(state.positionals, word)
    elseif word == "--" then
      plain = true
    elseif word == "--help" and not self.by_name.help then
      state.help = true
    elseif word:sub(1, 2) == "--" then
      self:parse_long(state, word)
    else
      self:parse_short(state, word)
    end
    if state.help then return nil, "help" end
    state.at = state.at + 1
  end
  self:assign_positionals(state)
  self:fill_defaults(state.values)
  return state.values
end

--- Parses arguments: returns the values, or nil and a message ("help" when the usage was asked
--- for). Names with dashes become keys with underscores.
--- > parser = ml.args.parser { { "batch-size", "integer", default = 32, min = 1 } }
--- > parser:try_parse { "--batch-size", "8" }
---   {batch_size = 8}	nil
--- > parser:try_parse { "--batch-size", "0" }
---   nil	--batch-size: expected at least 1, got 0
---@param argv string[] the arguments
---@return table? values
---@return string? message
function Parser:try_parse(argv)
  local ok, values, message = pcall(self.scan, self, argv)
  if ok then return values, message end
  if type(values) == "table" and values.args_error then return nil, values.args_error end
  error(values, 0)
end

--- Parses arguments and returns the values. `--help` prints the usage and ends the process with
--- status 0; a wrong argument is named on stderr and ends it with status 2.
--- > ml.args.parser { { "epochs", "integer", default = 3 } }:parse {}
---   {epochs = 3}
---@param argv? string[] the arguments; the script's unless given
---@return table values
function Parser:parse(argv)
  local values, message = self:try_parse(argv or arg or {})
  if values then return values end
  if message == "help" then
    io.stdout:write(self:usage())
    os.exit(0, true)
  end
  io.stderr:write(("%s: %s\nTry '%s --help'.\n"):format(self.name, message, self.name))
  os.exit(2, true)
end

local function synopsis(option)
  if option.positional then return "<" .. option.name .. ">" .. (option.many and "..." or "") end
  local text = (option.short and "-" .. option.short .. ", " or "    ")
  if option.type == "flag" then
    return text .. (option.default and "--[no-]" or "--") .. option.name
  end
  local meta = option.meta
  if not meta and option.type == "choice" then meta = table.concat(option.choices, "|") end
  if not meta then
    local kind = option.type == "list" and option.of .. ",..." or option.type
    meta = "<" .. kind .. ">"
  end
  return text .. "--" .. option.name .. " " .. meta
end

local function describe(option)
  local notes = {}
  if option.required then notes[1] = "required" end
  if option.min and option.max then
    notes[#notes + 1] = ("%s to %s"):format(option.min, option.max)
  elseif option.min or option.max then
    notes[#notes + 1] = option.min and ("at least %s"):format(option.min)
      or ("at most %s"):format(option.max)
  end
  if option.default ~= nil and option.default ~= "" and option.type ~= "flag" then
    local default = option.default
    if type(default) == "table" then default = table.concat(default, ",") end
    notes[#notes + 1] = "default: " .. tostring(default)
  elseif option.type == "flag" and option.default then
    notes[#notes + 1] = "default: on"
  end
  local text = option.help or ""
  if #notes == 0 then return text end
  return (text == "" and "" or text .. " ") .. "(" .. table.concat(notes, ", ") .. ")"
end

local function wrap(text, width, indent)
  local lines, line = {}, ""
  for word in text:gmatch("%S+") do
    if line ~= "" and #line + 1 + #word > width then
      lines[#lines + 1] = line
      line = word
    else
      line = line == "" and word or line .. " " .. word
    end
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n" .. (" "):rep(indent))
end

local function add_section(out, title, rows)
  if #rows == 0 then return end
  local WIDTH, MAX_COLUMN = 80, 30
  local column = 0
  for _, row in ipairs(rows) do
    if #row[1] <= MAX_COLUMN then column = math.max(column, #row[1]) end
  end
  local indent = column + 4
  out[#out + 1] = "\n" .. title .. ":\n"
  for _, row in ipairs(rows) do
    local head = "  " .. row[1]
    local gap = #row[1] <= column and (" "):rep(indent - #head) or "\n" .. (" "):rep(indent)
    local line = head .. gap .. wrap(row[2], WIDTH - indent, indent)
    out[#out + 1] = line:gsub("%s+$", "") .. "\n"
  end
end

--- The text that `--help` prints.
--- > epochs = { "epochs", "integer", default = 3, help = "number of passes" }
--- > print(ml.args.parser({ name = "train", epochs }):usage())
---   Usage: train [options]
---
---   Options:
---         --epochs <integer>  number of passes (default: 3)
---     -h, --help              show this text and exit
---@return string
function Parser:usage()
  local line = { "Usage: " .. self.name }
  if #self.options > 0 then line[#line + 1] = "[options]" end
  local positionals, others = {}, {}
  for _, option in ipairs(self.positionals) do
    local optional = not option.required
      and (option.default ~= nil or option.required == false or option.many)
    line[#line + 1] = optional and "[" .. synopsis(option) .. "]" or synopsis(option)
    positionals[#positionals + 1] = { synopsis(option), describe(option) }
  end
  for _, option in ipairs(self.options) do
    others[#others + 1] = { synopsis(option), describe(option) }
  end
  if not self.by_name.help then
    local short = self.by_short.h and "    " or "-h, "
    others[#others + 1] = { short .. "--help", "show this text and exit" }
  end
  local out = { table.concat(line, " ") .. "\n" }
  if self.summary then out[#out + 1] = "\n" .. wrap(self.summary, 80, 0) .. "\n" end
  add_section(out, "Arguments", positionals)
  add_section(out, "Options", others)
  return table.concat(out)
end

Parser.try_parse = numbers.wrap(Parser.try_parse)
Parser.usage = numbers.wrap(Parser.usage)

--- Parses the script's arguments by a declaration: see `args.parser` for its form and
--- `parser:parse` for what `--help` and errors do.
--- > ml.args.parse({ { "lr", "number", default = 0.1 } }, { "--lr", "0.01" })
---   {lr = 0.01}
---@param declaration table the options
---@param argv? string[] the arguments; the script's unless given
---@return table values
function args.parse(declaration, argv)
  return args.parser(declaration):parse(argv)
end

return options.namespace("args", args)
