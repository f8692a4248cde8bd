-- interp/package/exports.lua: writes the version script of libmoonlet.so: what it exports, by name.
--   MOONLET_C_1      the functions of moonlet/c.h
--   MOONLET_0        what the C++ headers that are installed declare
--   MOONLET_PRIVATE  what libmoonlet-lua and the CUDA plugin need besides, of the same build alone
-- usage: exports.lua OUTPUT NM SOURCE_FOLDER BUILD_FOLDER ARCHIVE... -- USER...: the archives that
-- the library is made of, and those that use it from outside.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local closure = require "header_closure"

local output, nm, source, build = table.unpack(arg, 1, 4)

-- --- headers ------------------------------------------------------------------------------------

local function plain(text)
  return (text:gsub("/%*.-%*/", ""):gsub("//[^\n]*", ""):gsub('"[^"\n]*"', '""'))
end
local SCOPES = { namespace = true, class = true, struct = true, union = true }

-- The words of headers, and those that name a namespace or a class.
local function names_in(texts)
  local words, scopes = {}, {}
  for _, text in pairs(texts) do
    text = text and plain(text) or ""
    for word in text:gmatch "[%a_][%w_]*" do words[word] = true end
    for keyword, name in text:gmatch "(%l+)%s+([%a_][%w_:]*)" do
      if SCOPES[keyword] then
        for scope in name:gmatch "[%w_]+" do scopes[scope] = true end
      end
    end
  end
  return words, scopes
end

-- The headers that the sources of the CUDA backend include, of whatever build.
local function plugin_headers()
  local roots = {}
  local pipe = assert(io.popen(("find '%s/cuda' -name '*.cpp' -o -name '*.h' -o -name '*.cu*'")
    :format(source)))
  for path in pipe:lines() do
    local file = assert(io.open(path))
    for name in file:read "a":gmatch '#include "(tensor/[^"]+)"' do roots[#roots + 1] = name end
    file:close()
  end
  pipe:close()
  assert(#roots > 0, "no sources of the CUDA backend")
  return closure.texts({ source, build }, roots, nil, true)
end

-- --- symbols ------------------------------------------------------------------------------------

-- The names that a mangled one is nested in, and its own; whether it is a function made of a
-- template; whether a constructor, destructor or operator is behind them. Nil for what is not of
-- namespace moonlet.
local function parts_of(symbol)
  local rest = symbol:match "^_Z[A-Z]*NK?(%d.*)$" or symbol:match "^_Z[A-Z]*N[RO]?(%d.*)$"
  if not rest then return nil end
  local parts = {}
  while true do
    local length = rest:match "^%d+"
    if not length then break end
    local from = #length + 1
    parts[#parts + 1] = rest:sub(from, from + length - 1)
    rest = rest:sub(from + length)
  end
  if parts[1] ~= "moonlet" then return nil end
  return parts, rest:sub(1, 1) == "I", rest:match "^[CD]%d" ~= nil or rest:match "^%l%l" ~= nil
end

local function is_declared(symbol, words, scopes)
  local parts, is_template, is_member = parts_of(symbol)
  if not parts or is_template then return false end
  local is_type = symbol:find "^_ZT[ISV]" ~= nil
  for i = 2, #parts do
    local known = (i < #parts or is_member or is_type) and scopes or words
    if not known[parts[i]] then return false end
  end
  return true
end

-- The kernels are nobody's business outside: namespace cpu and Highway's N_AVX2 and the like.
local function is_kernel(symbol)
  local parts = parts_of(symbol)
  return parts and parts[2] and (parts[2] == "cpu" or parts[2]:find "^N_" ~= nil)
end

-- What takes a lua_State is in libmoonlet-lua.so: nobody else has this library's Lua.
local function is_of_lua(symbol)
  return symbol:find("9lua_State", 1, true) or symbol:find("10StateScope", 1, true)
    or symbol == "_ZNK7moonlet11Interpreter5stateEv"
end

-- Calls `f` with each symbol and its kind.
local function each_symbol(archives, f)
  local names = {}
  for i, path in ipairs(archives) do names[i] = "'" .. path .. "'" end
  local pipe = assert(io.popen(("'%s' -P -g %s"):format(nm, table.concat(names, " "))))
  for line in pipe:lines() do
    local name, kind = line:match "^(%S+) (%a)"
    if name then f(name, kind) end
  end
  assert(pipe:close())
end

-- --- the script ---------------------------------------------------------------------------------

local archives, users = {}, {}
local list = archives
for i = 5, #arg do
  if arg[i] == "--" then list = users else list[#list + 1] = arg[i] end
end

local public = closure.texts({ source, build }, closure.ROOTS)
local words, scopes = names_in(public)
local plugin_words, plugin_scopes = names_in(plugin_headers())
local used = {}
-- An object that both define is to be one.
each_symbol(users, function(name, kind)
  if kind == "U" or kind == "V" or kind == "u" then used[name] = true end
end)

local declared, private, seen = {}, {}, {}
each_symbol(archives, function(name, kind)
  if kind == "U" or seen[name] then return end
  seen[name] = true
  if is_of_lua(name) or is_kernel(name) then return end
  if is_declared(name, words, scopes) then
    declared[#declared + 1] = name
  elseif parts_of(name) and (used[name] or is_declared(name, plugin_words, plugin_scopes)) then
    private[#private + 1] = name
  end
end)

local functions = {}
for name in plain(public["interp/c/c.h"]):gmatch "MOONLET_API[^;(]-(moonlet_[%w_]+)%(" do
  functions[#functions + 1] = name
end
assert(#functions > 0 and #declared > 0 and #private > 0, "nothing to export was found")

local file = assert(io.open(output, "w"))
local function node(name, symbols, tail)
  table.sort(symbols)
  local text = table.concat(symbols, ";\n    ")
  file:write(name, " {\n  global:\n    ", text, ";\n", tail or "", "};\n")
end
node("MOONLET_C_1", functions)
node("MOONLET_0", declared, "  local:\n    *;\n")
node("MOONLET_PRIVATE", private)
assert(file:close())
