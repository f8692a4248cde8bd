-- stdlib/onnx/narrow.lua: elements of ONNX's types that have no dtype here: as they are stored in
-- files, and numbers rounded to them. What each is kept in is in stdlib/onnx/kept.lua.

local kept = require "moonlet.onnx.kept"
local ml = require "moonlet"

local narrow = {}

-- Unsigned integers: the dtype of the same width, and the bits of it.
local UNSIGNED = { uint16 = { "int16", 0xffff }, uint32 = { "int32", 0xffffffff } }
-- Integers of less than a byte: their bits.
local BITS = { uint4 = 4, int4 = 4, uint2 = 2, int2 = 2, float4e2m1 = 4 }

--- The bytes of `count` elements.
function narrow.bytes(name, count)
  if BITS[name] then return (count * BITS[name] + 7) // 8 end
  local width = ({ uint16 = 2, uint32 = 4, uint64 = 8 })[name] or 1
  return count > math.maxinteger // width and math.maxinteger or count * width
end

-- --- values of bit patterns -------------------------------------------------------------------

local function float_of(bits, format, width)
  local mantissa_bits = format.mantissa
  local exponent_bits = width - 1 - mantissa_bits
  local negative = bits >> (width - 1) == 1
  local exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1)
  local mantissa = bits & ((1 << mantissa_bits) - 1)
  local value
  if exponent == 0 then
    value = mantissa * 2.0 ^ (1 - format.bias - mantissa_bits)
  else
    value = (1 + mantissa / (1 << mantissa_bits)) * 2.0 ^ (exponent - format.bias)
  end
  if value > format.max then value = format.infinite and mantissa == 0 and math.huge or 0 / 0 end
  return negative and -value or value
end

local tables = {}

-- The values of all bit patterns of a type, in a tensor of its carrier.
local function values_of(name)
  if tables[name] then return tables[name] end
  local width, out = BITS[name] or 8, {}
  local format = kept.floats[name]
  for bits = 0, (1 << width) - 1 do
    local value
    if name == "float8e8m0" then
      value = bits == 255 and 0 / 0 or 2.0 ^ (bits - 127)
    elseif not format then
      value = name:find "^u" and bits or bits >= 1 << (width - 1) and bits - (1 << width) or bits
    elseif name:find "fnuz" and bits == 0x80 then
      value = 0 / 0
    else
      value = float_of(bits, format, width)
    end
    out[bits + 1] = value
  end
  tables[name] = ml.tensor(out, { dtype = kept.carrier(name) })
  return tables[name]
end

-- Several to a byte, the first in the lowest bits.
local function unpacked(bytes, width, count)
  local wide, parts = bytes:to "int64", {}
  for i = 0, 8 // width - 1 do
    parts[i + 1] = wide:bitwise_right_shift(i * width):bitwise_and((1 << width) - 1)
  end
  return ml.stack(parts, 2):flatten():narrow(1, 1, count)
end

--- The elements of a type that stand in bytes, in its carrier.
---@param bytes Tensor uint8, of one dimension
---@param name string
---@param count integer
---@return Tensor
function narrow.elements(bytes, name, count)
  if count == 0 then return ml.empty({ 0 }, { dtype = kept.carrier(name) }) end
  local unsigned = UNSIGNED[name]
  if unsigned then
    return bytes:view(unsigned[1]):to(kept.carrier(name)):bitwise_and(unsigned[2])
  elseif name == "uint64" then
    return bytes:view "int64"
  end
  local width = BITS[name]
  local bits = width and unpacked(bytes, width, count) or bytes:to "int64"
  return values_of(name):index_select(1, bits + 1)
end

-- --- rounding ---------------------------------------------------------------------------------

-- Half to even, at the precision that the format has near each number.
local function round_float(x, name, saturate)
  local format = kept.floats[name]
  local wide = x:to "float64"
  local size = wide:abs()
  local exponent = size:log2():floor():clamp { min = 1 - format.bias, max = 1000 }
  local step = (exponent - format.mantissa):exp2()
  local rounded = (wide / step):round() * step
  -- There infinities are always the greatest number, and what is no number is 0.
  if name == "float4e2m1" then
    saturate = true
    rounded = ml.where(rounded:isnan(), wide:sign():nan_to_num() * math.huge, rounded):nan_to_num(0)
  end
  local over = rounded:abs():gt(format.max)
  local limit = saturate and format.max or format.infinite and math.huge or 0 / 0
  rounded = ml.where(over, wide:sign() * limit, rounded)
  -- Those without a zero of its own sign.
  if name:find "fnuz" then rounded = ml.where(rounded:eq(0), rounded:abs(), rounded) end
  return rounded:to "float32"
end

-- Powers of 2; the attribute says which one of those on both sides.
local function round_power(x, saturate, mode)
  local size = x:to("float64"):abs()
  local low = size:log2():floor()
  local exponent = low
  if mode == "up" then
    exponent = ml.where(low:exp2():lt(size), low + 1, low)
  elseif mode == "nearest" then
    exponent = ml.where((low:exp2() * 1.5):le(size), low + 1, low)
  end
  local over = exponent:gt(127)
  exponent = ml.where(over, saturate and 127.0 or 0 / 0, exponent:clamp { min = -127 })
  return ml.where(size:isnan(), 0 / 0, exponent:exp2()):to "float32"
end

-- The bits of integers.
local WIDTHS = { uint16 = 16, uint32 = 32, uint4 = 4, int4 = 4, uint2 = 2, int2 = 2 }

local function wrap(whole, name)
  local width = WIDTHS[name]
  if not width then return whole end
  local bits = whole:bitwise_and((1 << width) - 1)
  if not name:find "^u" then
    bits = ml.where(bits:ge(1 << (width - 1)), bits - (1 << width), bits)
  end
  return bits
end

--- Numbers rounded to a type, in its carrier.
---@param x Tensor
---@param name string
---@param saturate? boolean (default true) numbers outside become the greatest
---@param mode? string of float8e8m0
---@return Tensor
function narrow.cast(x, name, saturate, mode)
  if saturate == nil then saturate = true end
  if name == "float8e8m0" then return round_power(x, saturate, mode or "up") end
  if kept.floats[name] then return round_float(x, name, saturate) end
  if name == "uint64" and x:is_floating_point() then return x:to "uint64":view "int64" end
  local whole = x:is_floating_point() and x:trunc():to "int64" or x:to "int64"
  return wrap(whole, name):to(kept.carrier(name))
end

--- Integers of a type's carrier that an operation made, as the type's own arithmetic makes them.
function narrow.wrap(x, name)
  if not WIDTHS[name] or x:is_floating_point() then return x end
  return wrap(x:to "int64", name):to(x.dtype)
end

return narrow
