-- stdlib/torch7/types.lua: the element types of Torch7's tensors, and numbers as C converts them.

local ml = require "moonlet"

local types = {}

types.NAMES = { "Byte", "Char", "Short", "Int", "Long", "Float", "Half", "Double" }

types.DTYPES = { Byte = "uint8", Char = "int8", Short = "int16", Int = "int32", Long = "int64",
  Float = "float32", Half = "float16", Double = "float64" }

types.OF_DTYPE = {}
for name, dtype in pairs(types.DTYPES) do types.OF_DTYPE[dtype] = name end

local IS_FLOATING = { float16 = true, float32 = true, float64 = true }
local number = ml._classes.number

--- The number that an element of this dtype would hold: an integer for those of integers.
function types.number(value, dtype)
  if IS_FLOATING[dtype] then return value end
  return number(value, dtype)
end

function types.is_floating(dtype) return IS_FLOATING[dtype] == true end

return types
