-- stdlib/distributed/pack.lua: Lua values as bytes for other ranks: nil, booleans, numbers,
-- strings, tensors, and tables of these, which may share tables and contain themselves. Code does
-- not cross.

local ml = require "moonlet"
local options = require "moonlet.options"
local fail = options.fail

local pack = {}

local MOST_LEVELS = 200

-- Each value is a letter and what belongs to it; `path` is how errors call it.
local function write(out, value, path, depth)
  local kind = math.type(value) or type(value)
  if kind == "nil" then
    out[#out + 1] = "N"
  elseif kind == "boolean" then
    out[#out + 1] = value and "T" or "F"
  elseif kind == "integer" then
    out[#out + 1] = string.pack("<c1i8", "I", value)
  elseif kind == "float" then
    out[#out + 1] = string.pack("<c1d", "D", value)
  elseif kind == "string" then
    out[#out + 1] = string.pack("<c1s8", "S", value)
  elseif ml.is_tensor(value) then
    out.tensors[#out.tensors + 1] = value:detach():cpu()
    out[#out + 1] = string.pack("<c1I4c1", "X", #out.tensors, value.requires_grad and "1" or "0")
  elseif kind == "table" and getmetatable(value) == nil then
    local known = out.known[value]
    if known then
      out[#out + 1] = string.pack("<c1I4", "R", known)
      return
    elseif depth > MOST_LEVELS then
      fail("%s: '%s' nests deeper than %d tables", out.op, path, MOST_LEVELS)
    end
    out.count = out.count + 1
    out.known[value] = out.count
    out[#out + 1] = "{"
    for key, item in pairs(value) do
      write(out, key, path .. " (a key)", depth + 1)
      write(out, item, ("%s.%s"):format(path, tostring(key)), depth + 1)
    end
    out[#out + 1] = "}"
  else
    local what = kind == "table" and "an object" or kind
    fail("%s: '%s' is %s, which cannot be sent; expected nil, booleans, numbers, strings, tensors "
      .. "and plain tables of these", out.op, path, what:find "^[aeiou]" and what or "a " .. what)
  end
end

--- The bytes of a value.
---@param op string what messages call the function
---@param value any
---@return string
function pack.pack(op, value)
  local out = { op = op, tensors = {}, known = {}, count = 0 }
  write(out, value, "object", 1)
  local named = {}
  for i, x in ipairs(out.tensors) do named["t" .. i] = x:contiguous() end
  local tensors = #out.tensors > 0 and ml.save_string("safetensors", named) or ""
  return string.pack("<s8s8", table.concat(out), tensors)
end

local read

local readers = {
  N = function(_, at) return nil, at end,
  T = function(_, at) return true, at end,
  F = function(_, at) return false, at end,
  I = function(from, at) return string.unpack("<i8", from.bytes, at) end,
  D = function(from, at) return string.unpack("<d", from.bytes, at) end,
  S = function(from, at) return string.unpack("<s8", from.bytes, at) end,
  R = function(from, at)
    local number, behind = string.unpack("<I4", from.bytes, at)
    return from.known[number], behind
  end,
  X = function(from, at)
    local number, grad, behind = string.unpack("<I4c1", from.bytes, at)
    local x = from.tensors["t" .. number]
    if grad == "1" then x:requires_grad_(true) end
    return x, behind
  end,
  ["{"] = function(from, at)
    local out = {}
    from.known[#from.known + 1] = out
    while from.bytes:sub(at, at) ~= "}" do
      local key, value
      key, at = read(from, at)
      value, at = read(from, at)
      out[key] = value
    end
    return out, at + 1
  end,
}

function read(from, at)
  local reader = readers[from.bytes:sub(at, at)]
  if not reader then fail("%s: what has come is no value of another rank", from.op) end
  return reader(from, at + 1)
end

--- The value of such bytes.
---@param op string what messages call the function
---@param bytes string
---@return any
function pack.unpack(op, bytes)
  local from = { op = op, known = {} }
  local tensors
  from.bytes, tensors = string.unpack("<s8s8", bytes)
  from.tensors = tensors ~= "" and ml.load_string(tensors, { max_bytes = math.maxinteger }) or {}
  return (read(from, 1))
end

return pack
