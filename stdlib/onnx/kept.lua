-- stdlib/onnx/kept.lua: ONNX's types of elements that ops do not compute in: small integers are
-- kept in the next wider dtype, small floats in float32, whose values hold theirs exactly, and
-- uint64 as its bits in int64.

local dtypes = require "moonlet.onnx.dtypes"

local kept = {}

--- The least and the greatest number of types that numbers are quantized to.
kept.ranges = { uint8 = { 0, 255 }, int8 = { -128, 127 }, int16 = { -32768, 32767 },
  uint16 = { 0, 65535 }, uint4 = { 0, 15 }, int4 = { -8, 7 }, uint2 = { 0, 3 }, int2 = { -2, 1 } }

--- Small floats: bits of the mantissa, the bias of the exponent, the greatest number, and whether
--- there are infinities.
kept.floats = {
  float8e4m3fn = { mantissa = 3, bias = 7, max = 448.0 },
  float8e4m3fnuz = { mantissa = 3, bias = 8, max = 240.0 },
  float8e5m2 = { mantissa = 2, bias = 15, max = 57344.0, infinite = true },
  float8e5m2fnuz = { mantissa = 2, bias = 16, max = 57344.0 },
  float4e2m1 = { mantissa = 1, bias = 1, max = 6.0 },
}

local CARRIERS = { uint16 = "int32", uint32 = "int64", uint64 = "int64", uint4 = "uint8",
  int4 = "int8", uint2 = "uint8", int2 = "int8", float8e8m0 = "float32" }
for name in pairs(kept.floats) do CARRIERS[name] = "float32" end

local CODES = { [4] = "uint16", [12] = "uint32", [13] = "uint64", [17] = "float8e4m3fn",
  [18] = "float8e4m3fnuz", [19] = "float8e5m2", [20] = "float8e5m2fnuz", [21] = "uint4",
  [22] = "int4", [23] = "float4e2m1", [24] = "float8e8m0", [25] = "uint2", [26] = "int2" }

-- Those that have a dtype of storage.
local NATIVE = { uint16 = "uint16", uint32 = "uint32", uint64 = "uint64",
  float8e4m3fn = "float8_e4m3fn", float8e5m2 = "float8_e5m2" }

--- A tensor of the dtype of storage of a type, in the type's carrier; any other as it is.
function kept.widened(tensor, name)
  if tensor.dtype ~= NATIVE[name] then return tensor end
  return name == "uint64" and tensor:view "int64" or tensor:to(CARRIERS[name])
end

--- The name of a type by ONNX's number.
function kept.name_of(code)
  return CODES[code] or dtypes.of(code, "the result")
end

--- The dtype that a type is kept in.
function kept.carrier(name) return CARRIERS[name] or name end

-- The types of tensors that are kept in another dtype.
local types = setmetatable({}, { __mode = "k" })

--- Remembers a tensor's type, and gives the tensor.
function kept.note(tensor, name)
  if CARRIERS[name] then types[tensor] = name end
  return tensor
end

--- The type of a tensor: what was noted, else its dtype.
function kept.type_of(tensor) return types[tensor] or tensor.dtype end

return kept
