-- stdlib/repl/complete.lua: which names may follow what was typed: globals, fields and methods
-- behind a path, options of a call, names of files.

local class = require "moonlet.class"
local commands = require "moonlet.repl.commands"
local locals = require "moonlet.repl.locals"
local ml = require "moonlet"
local module_names = require "moonlet.repl.names"
local scan = require "moonlet.repl.scan"
local system = require "moonlet.system"

local getmetatable = debug.getmetatable  -- also where __metatable hides it

-- The names found so far, those that start with `prefix`; private ones only when that does too.
local function new_names(prefix)
  return { prefix = prefix, set = {} }
end

local function offer(names, name)
  if type(name) ~= "string" or not name:find "^[%a_][%w_]*$" then return end
  if name:sub(1, #names.prefix) ~= names.prefix then return end
  if name:find "^_" and not names.prefix:find "^_" then return end
  names.set[name] = true
end

local function sorted(names)
  local list = {}
  for name in pairs(names.set) do list[#list + 1] = name end
  table.sort(list)
  return list
end

-- --- fields -----------------------------------------------------------------------------------

local function callable(value)
  local meta = type(value) ~= "function" and getmetatable(value)
  return type(value) == "function" or type(meta) == "table" and rawget(meta, "__call") ~= nil
end

local function offer_keys(names, value, methods)
  for key, item in next, value do
    if not methods or callable(item) then offer(names, key) end
  end
end

-- What stands in the names of the module's lists of methods and fields.
local KINDS = { Storage = "storage_", SparseRows = "sparse_" }

-- What `value` answers to: its own keys and those of the tables behind it.
local function offer_fields(names, value, methods)
  local hidden = type(value) == "userdata" and (getmetatable(value) or {}).__metatable
  local kind = ml.is_tensor(value) and "" or KINDS[hidden]
  if kind then
    ml._late()  -- from then on ops are in their tables
    offer_keys(names, ml[("_%smethods"):format(kind)], true)
    if not methods then offer_keys(names, ml[("_%sfields"):format(kind)]) end
    return
  end
  if value == ml then
    for name in pairs(module_names.late()) do offer(names, name) end
  end
  local DEEPEST = 16
  for _ = 1, DEEPEST do
    if type(value) == "table" then offer_keys(names, value, methods) end
    local meta = getmetatable(value)
    if type(meta) ~= "table" then return end
    for name in pairs(rawget(meta, "late") or {}) do offer(names, name) end
    value = class.is_class(meta) and meta or rawget(meta, "__index")
    if type(value) ~= "table" then return end
  end
end

-- The value of a path; nothing is called for it but `__index`.
local function value_of(keys)
  local value, first = _G, 1
  if keys[1] ~= nil and locals.has(keys[1]) then value, first = locals.values()[keys[1]], 2 end
  for i = first, #keys do value = value[keys[i]] end
  return value
end

local function complete_name(code, start, prefix)
  local names = new_names(prefix)
  local before = code:sub(1, start - 1):gsub("%s+$", "")
  local mark = not before:find "%.%.$" and before:match "[.:]$"
  if not mark then
    offer_keys(names, _G)
    offer_keys(names, locals.values())
    for _, command in ipairs(commands.list) do offer(names, command.name) end
    for _, keyword in ipairs(scan.keywords) do offer(names, keyword) end
    return sorted(names)
  end
  local keys = scan.path(before:sub(1, -2))
  local ok, value = pcall(value_of, keys or {})
  if keys and ok then offer_fields(names, value, mark == ":") end
  return sorted(names)
end

-- --- options ----------------------------------------------------------------------------------

-- The names in "ml.optim.Adam(params, lr=1e-3, betas={0.9, 0.999})", but the first when that is
-- left of the colon.
local function offer_call(names, call)
  local inside = (call:match "%b()" or ""):gsub("=%b{}", ""):gsub("=[^,(){}]*", "")
  for name in inside:gmatch "[%a_][%w_]*" do offer(names, name) end
  return inside:find "%f[%w_]given%f[^%w_]" or inside:find "%f[%w_]options%f[^%w_]"
end

-- The options of a function as the reference has them: the arguments, which may come by name, and
-- what its text calls options.
local function offer_options(names, keys)
  local index = require "moonlet.help.index"
  local ok, value = pcall(value_of, keys)
  local name = ok and value ~= nil and index.name_of(value)
  local entry, others = index.find(name or table.concat(keys, ".", keys[1] == "ml" and 2 or #keys))
  entry = entry or index.find(keys[#keys])
  for _, found in ipairs { entry, table.unpack(others or {}) } do
    local in_text = false
    for _, call in ipairs(found.calls or {}) do in_text = offer_call(names, call) or in_text end
    for option in (in_text and found.doc or ""):gmatch "`([%a_][%w_]*)`" do offer(names, option) end
  end
end

-- For a name at the start of an entry of a table that is an argument: the call's options.
local function complete_option(code, state, start, prefix)
  local open = state.brackets[#state.brackets]
  if not open or open[1] ~= "{" then return {} end
  local before = code:sub(1, start - 1):gsub("%s+$", "")
  if not before:find "[{,;]$" then return {} end
  local owner = code:sub(1, open[2] - 1):gsub("%s+$", "")
  local call = state.brackets[#state.brackets - 1]
  if owner:find "[(,]$" then
    if not call or call[1] ~= "(" then return {} end
    owner = code:sub(1, call[2] - 1)
  end
  -- The method of a result, as in `f(x):sum{`, is known by its name alone.
  local keys = scan.path(owner) or { owner:match "[.:]([%a_][%w_]*)$" }
  if #keys == 0 then return {} end
  local names = new_names(prefix)
  offer_options(names, keys)
  return sorted(names)
end

-- --- strings ----------------------------------------------------------------------------------

local function complete_file(code, from)
  local path = code:sub(from)
  local folder, prefix = path:match "^(.*/)([^/]*)$"
  if not folder then folder, prefix = "", path end
  local names = {}
  for _, name in ipairs(system.list(folder == "" and "." or folder)) do
    local hidden = name:find "^%." and not prefix:find "^%."
    if name:sub(1, #prefix) == prefix and not hidden then names[#names + 1] = name end
  end
  table.sort(names)
  return #code - #prefix + 1, names
end

-- A string is the argument of a command, `help("nn.`, or else the name of a file.
local function complete_string(code, from)
  local name = code:sub(1, from - 1):match "%f[%w_.:]([%a_][%w_]*)%s*%(?%s*[\"']$"
  local command = commands.find(name)
  if command and command.complete then return from, command.complete(code:sub(from)) end
  return complete_file(code, from)
end

--- What may follow `code`, the line up to the cursor; `above` are the lines of the statement before
--- it. Returns where in `code` the last word starts, and the whole words that may stand there.
---@param code string
---@param above string
---@return integer start
---@return string[] names
return function(code, above)
  local all = above .. code
  local state = scan.read(all)
  if state.comment then return #code + 1, {} end
  if state.string then
    local start, names = complete_string(all, state.string)
    return start - #above, names
  end
  local prefix = all:match "[%w_]*$"
  local start = #all - #prefix + 1
  if prefix:find "^%d" then return #code + 1, {} end
  local names = complete_option(all, state, start, prefix)
  if #names == 0 then names = complete_name(all, start, prefix) end
  return start - #above, names
end
