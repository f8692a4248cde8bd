-- stdlib/ext/inline.lua: the sources of an extension whose C++ stands in a script.

local compiler = require "moonlet.ext.compiler"
local options = require "moonlet.options"
local tools = require "moonlet.extension_tools"
local fail = options.fail

local inline = {}

local HEADER = "#include <moonlet/extension.h>\n"

-- Where a text that a script has given begins in the script's own file: the file and the line, as
-- far as the text stands there once and as it is, as it does in long brackets.
local function position_of(text, script, read)
  if not script then return nil end
  local body = read(script)
  local at = body and body:find(text, 1, true)
  if not at or body:find(text, at + 1, true) then return nil end
  local _, lines = body:sub(1, at - 1):gsub("\n", "")
  return script, lines + 1
end

-- Compilers read the name as a string of C.
local function line_directive(line, path)
  return ('#line %d "%s"\n'):format(line, (path:gsub('[\\"]', "\\%0")))
end

--- The file of the script that calls, or nothing where it has none.
---@return string?
function inline.script()
  local level = 2
  while true do
    local info = debug.getinfo(level, "S")
    if not info then return nil end
    local path = info.source:match "^@(.*)$"
    local own = path and (path:find "^stdlib/" or path:find "/stdlib/[%w_/]+%.lua$")
    if info.what ~= "C" and not own then return path end
    level = level + 1
  end
end

local function read_script(path)
  local file = io.open(path, "rb")
  local body = file and file:read "a"
  if file then file:close() end
  return body
end

-- The parts one behind the other, each with the line that compilers are to name.
local function joined(parts, name, suffix, script)
  local out = {}
  for i, part in ipairs(parts) do
    local path, line = position_of(part, script, read_script)
    local own = #parts == 1 and name .. suffix or ("%s[%d]%s"):format(name, i, suffix)
    out[#out + 1] = line_directive(line or 1, path or own) .. part .. "\n"
  end
  return table.concat(out)
end

--- The functions to bind in their order, and what help says of each.
---@param caller string
---@param given? table names, or texts by name
---@return string[] names
---@return table<string, string> texts
function inline.functions(caller, given)
  local names, texts = {}, {}
  for key, value in pairs(given or {}) do
    local name = math.type(key) == "integer" and value or key
    if not (type(name) == "string" and name:find "^[%a_][%w_:]*$") then
      fail("%s: functions: expected names of C++ functions, got %s", caller,
        type(name) == "string" and ("%q"):format(name) or "a " .. type(name))
    end
    if type(key) == "string" then
      if type(value) ~= "string" then
        fail("%s: functions: expected a text of help for %s, got a %s", caller, name, type(value))
      end
      texts[name] = value
    end
    names[#names + 1] = name
  end
  table.sort(names)
  return names, texts
end

-- What makes a library of the source an extension that binds its functions.
local function binding(name, names)
  local out = { line_directive(1, "binding of " .. name),
    ("MOONLET_EXTENSION(%s, module) {\n"):format(name) }
  for _, each in ipairs(names) do
    out[#out + 1] = ('  module.function("%s", &%s);\n'):format(each:match "[^:]*$", each)
  end
  out[#out + 1] = "}\n"
  return table.concat(out)
end

--- The sources of a request: for each its suffix, its text, and the same without where it stands,
--- by which builds are known.
---@param caller string
---@param request table name, cpp, cuda, names (functions)
---@param script? string
---@return table[]
function inline.sources(caller, request, script)
  local name, out = request.name, {}
  local cpp, cuda = compiler.list(request.cpp), compiler.list(request.cuda)
  local has_block = table.concat(cpp, "\n"):find("MOONLET_EXTENSION", 1, true)
  if has_block and #request.names > 0 then
    fail("%s: 'functions' and a block MOONLET_EXTENSION in the source exclude each other", caller)
  end
  local tail = has_block and "" or binding(name, request.names)
  out[1] = { suffix = ".cpp", text = HEADER .. joined(cpp, name, ".cpp", script) .. tail,
    key = table.concat(cpp, "\n") .. "\n" .. tail }
  if #cuda > 0 then
    out[2] = { suffix = ".cu", text = joined(cuda, name, ".cu", script),
      key = table.concat(cuda, "\n") }
  end
  for _, each in ipairs(out) do each.key = tools.hash(each.key) end
  return out
end

return inline
