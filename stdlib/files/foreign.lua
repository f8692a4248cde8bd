-- stdlib/files/foreign.lua: dtypes of files that do not exist here and whose values do: further
-- floats of 8 bits, as float32, and complex numbers of two halves. The values stay the same.

local ml = require "moonlet"

local foreign = {}

-- The elements that are converted at once.
local MOST_AT_ONCE = 1 << 18

-- Floats of 8 bits: the bits of the exponent and its bias. After Noune et al. 2022: the one NaN is
-- what would be the negative zero.
local FLOATS = {
  float8_e4m3fnuz = { exponent = 4, bias = 8 },
  float8_e5m2fnuz = { exponent = 5, bias = 16 },
}
local NAN_CODE = 0x80

local function float_of(code, kind)
  local fraction_bits = 7 - kind.exponent
  local sign = code < 0x80 and 1.0 or -1.0
  local exponent, fraction = (code & 0x7f) >> fraction_bits, code & (1 << fraction_bits) - 1
  local scale = 2.0 ^ (math.max(exponent, 1) - kind.bias - fraction_bits)
  return sign * ((exponent > 0 and 1 << fraction_bits or 0) + fraction) * scale
end

local function values_of(kind)
  local values = {}
  for code = 0, 255 do values[code + 1] = float_of(code, kind) end
  values[NAN_CODE + 1] = 0 / 0
  return values
end

-- Powers of two from 2^-127 and a NaN.
local function powers()
  local values = {}
  for code = 0, 254 do values[code + 1] = 2.0 ^ (code - 127) end
  values[256] = 0 / 0
  return values
end

-- The elements of `out`, some at a time: `convert` makes them of those of `from`.
local function filled(out, from, convert)
  local count = from:numel()
  for at = 0, count - 1, MOST_AT_ONCE do
    local n = math.min(MOST_AT_ONCE, count - at)
    out:narrow(1, at + 1, n):copy_(convert(from:narrow(1, at + 1, n)))
  end
  return out
end

local function by_table(make)
  return { carrier = "uint8", dtype = "float32", convert = function(out, from)
    local values = ml.tensor(make(), { dtype = "float32" })
    return filled(out, from, function(part) return values[part:to "int64" + 1] end)
  end }
end

-- Of each dtype the one that its bytes are read as, the one of the result, and what makes it.
local TYPES = {
  float8_e8m0fnu = by_table(powers),
  complex32 = { carrier = "float16", dtype = "complex64", pairs = true,
    convert = function(out, from)
      filled(ml.view_as_real(out):view(-1), from, function(part) return part:to "float32" end)
      return out
    end },
}
for name, kind in pairs(FLOATS) do TYPES[name] = by_table(function() return values_of(kind) end) end

-- Further ones that files name, which are left out.
local UNKNOWN = {}
for name in ("float4_e2m1fn_x2 uint1 uint2 uint3 uint4 uint5 uint6 uint7 int1 int2 int3 int4 int5 "
  .. "int6 int7 bits8 bits16 bits1x8 bits2x4 bits4x2 quint4x2 quint2x4"):gmatch "%S+" do
  UNKNOWN[name] = true
end

--- What its bytes are read as, where a dtype is known here: the dtype itself, or another one that
--- `convert` takes.
---@param name string
---@return string?
function foreign.carrier(name) return TYPES[name] and TYPES[name].carrier end

--- Whether files may have tensors of that dtype which cannot be read.
---@param name string
---@return boolean
function foreign.is_unknown(name) return UNKNOWN[name] == true end

--- All names of dtypes that are not known here, but to this module.
---@return string[]
function foreign.names()
  local names = {}
  for name in pairs(TYPES) do names[#names + 1] = name end
  for name in pairs(UNKNOWN) do names[#names + 1] = name end
  table.sort(names)
  return names
end

--- The elements of a tensor of one dimension that was read as the carrier of a dtype.
---@param name string
---@param from Tensor
---@param budget table a moonlet.files.budget
---@return Tensor
function foreign.convert(name, from, budget)
  local kind = TYPES[name]
  local count = kind.pairs and from:numel() // 2 or from:numel()
  local out = ml.empty({ 0 }, { dtype = kind.dtype })
  budget:take(count * out.itemsize)
  return kind.convert(ml.empty({ count }, { dtype = kind.dtype }), from)
end

return foreign
