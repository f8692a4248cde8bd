-- stdlib/torch7/lua51.lua: what `moonlet --torch7` runs first: names of Lua 5.1 that 5.4 has not,
-- numbers as it printed them, and the packages of a Torch7 installation.

local separators = require "moonlet.files.separators"
local torch = require "moonlet.torch7"

local function whole(value)
  if math.type(value) ~= "float" or value ~= math.floor(value) then return nil end
  return math.tointeger(value) or ("%.14g"):format(value)
end

-- --- printing -----------------------------------------------------------------------------------

local plain_tostring, plain_write, plain_concat = tostring, io.write, table.concat
local plain_format = string.format

-- A number without a fraction has none to print.
function _G.tostring(value) return plain_tostring(whole(value) or value) end

function _G.print(...)
  local words = {}
  for i = 1, select("#", ...) do words[i] = tostring((select(i, ...))) end
  plain_write(plain_concat(words, "\t"), "\n")
end

local function shown(...)
  local values = table.pack(...)
  for i = 1, values.n do values[i] = whole(values[i]) or values[i] end
  return table.unpack(values, 1, values.n)
end

local function write(...) return plain_write(shown(...)) end

local function concat(list, separator, first, last)
  local words = {}
  for i = first or 1, last or #list do words[#words + 1] = whole(list[i]) or list[i] end
  return plain_concat(words, separator)
end

-- %d, %i, %x, %c and their like drop a fraction.
local function format_values(format, ...)
  local values, at = table.pack(...), 0
  for conversion in format:gmatch "%%[-+ #0-9.]*([%a%%])" do
    if conversion ~= "%" then
      at = at + 1
      local value = values[at]
      if conversion:find "[diouxXc]" and math.type(value) == "float" then
        values[at] = math.tointeger(value < 0 and math.ceil(value) or math.floor(value)) or value
      elseif conversion == "s" then
        values[at] = whole(value) or value
      end
    end
  end
  return plain_format(format, table.unpack(values, 1, values.n))
end

-- --- names --------------------------------------------------------------------------------------

local function add(library, functions)
  for name, f in pairs(functions) do library[name] = f end
end

add(io, { write = write })
add(_G, { unpack = table.unpack, loadstring = load })
add(string, { gfind = string.gmatch, format = format_values })

add(table, {
  concat = concat,
  getn = function(list) return #list end,
  maxn = function(list)
    local most = 0
    for key in pairs(list) do
      if type(key) == "number" and key > most then most = key end
    end
    return most
  end,
  foreach = function(list, f)
    for key, value in pairs(list) do
      local out = f(key, value)
      if out ~= nil then return out end
    end
    return nil
  end,
  foreachi = function(list, f)
    for i, value in ipairs(list) do
      local out = f(i, value)
      if out ~= nil then return out end
    end
    return nil
  end,
})

-- The fraction and the exponent of a number.
local function frexp(x)
  if x == 0 or x ~= x or x == math.huge or x == -math.huge then return x, 0 end
  local e = math.floor(math.log(math.abs(x), 2)) + 1
  local m = x / 2.0 ^ e
  if math.abs(m) >= 1 then return m / 2, e + 1 end
  if math.abs(m) < 0.5 then return m * 2, e - 1 end
  return m, e
end

local plain_random = math.random

add(math, {
  pow = function(x, y) return x ^ y end,
  log10 = function(x) return math.log(x, 10) end,
  mod = math.fmod,
  ldexp = function(x, e) return x * 2.0 ^ e end,
  frexp = frexp,
  cosh = function(x) return (math.exp(x) + math.exp(-x)) / 2 end,
  sinh = function(x) return (math.exp(x) - math.exp(-x)) / 2 end,
  tanh = function(x)
    if math.abs(x) > 20 then return x > 0 and 1.0 or -1.0 end
    local a, b = math.exp(x), math.exp(-x)
    return (a - b) / (a + b)
  end,
  atan2 = math.atan,
  random = function(a, b)
    if a == nil then return plain_random() end
    if b == nil then return plain_random(math.floor(a)) end
    return plain_random(math.floor(a), math.floor(b))
  end,
})

-- --- environments -------------------------------------------------------------------------------

-- The position of a function's upvalue _ENV.
local function environment_at(f)
  local at = 1
  while true do
    local name = debug.getupvalue(f, at)
    if not name then return nil end
    if name == "_ENV" then return at end
    at = at + 1
  end
end

local function function_at(f)
  if type(f) == "function" then return f end
  local info = debug.getinfo((f or 1) + 2, "f")
  return info and info.func or error("the level is not that of a function", 3)
end

function _G.setfenv(f, environment)
  f = function_at(f)
  local at = environment_at(f)
  if at then
    -- The others that share the upvalue keep theirs.
    debug.upvaluejoin(f, at, function() return environment end, 1)
  end
  return f
end

function _G.getfenv(f)
  f = function_at(f)
  local at = environment_at(f)
  local _, environment = nil, _G
  if at then _, environment = debug.getupvalue(f, at) end
  return environment
end

-- --- packages -----------------------------------------------------------------------------------

add(package, { loaders = package.searchers })
add(debug, { getregistry = require("moonlet.torch7.class").registry })

local function add_tree(folder)
  package.path = folder .. "/?.lua;" .. folder .. "/?/init.lua;" .. package.path
end

local home = os.getenv "HOME"
if home then add_tree(home .. "/torch/install/share/lua/5.1") end
for folder in separators.each_path "TORCH7_PATH" do add_tree(folder) end

-- These need libraries in C that an installation has for another Lua.
for _, name in ipairs { "torch", "paths", "sys", "cutorch" } do
  package.preload[name] = function() return require("moonlet.torch7." .. name) end
end
package.preload.torch = function() return torch end
package.preload.ffi = nil

for _, name in ipairs { "paths", "sys", "xlua" } do _G[name] = require(name) end
_G.path = require("moonlet.torch7.pl").path

return torch
