-- stdlib/files/ggml_blocks.lua: the quantised types of GGUF files as float32. Each is blocks of
-- bytes that stand for 32 or 256 elements: small integers, and scales of 16 or 32 of them
-- (block_q4_K and the like of ggml-common.h). Written with ops on the bytes of many blocks at once.

local ml = require "moonlet"

local blocks = {}

-- The bytes from `at`, which counts from 1, of each block.
local function bytes(x, at, count) return x:narrow(2, at, count) end

-- Those bytes on memory of their own, where they are aligned.
local function apart(x, at, count) return bytes(x, at, count):clone():contiguous() end

local function halves(x, at) return apart(x, at, 2):view "float16":to "float32" end

local function signed(x, at, count) return apart(x, at, count):view "int8":to "float32" end

-- The fields of `bits` bits of bytes, from the lowest; the bytes are in rows, and all of a row's
-- first fields come before the second ones: (n, groups * row) to (n, groups, 8 / bits, row).
local function fields(x, row, bits)
  local shifts = {}
  for i = 1, 8 // bits do shifts[i] = (i - 1) * bits end
  local count = x.shape[1]
  return x:contiguous():view(count, -1, 1, row)
    :bitwise_right_shift(ml.tensor(shifts, { dtype = "uint8" }):view(1, 1, -1, 1))
    :bitwise_and((1 << bits) - 1)
end

local function groups(x, count, size) return x:reshape(x.shape[1], count, size) end

local function flat(x) return x:reshape(x.shape[1], -1) end

-- The fifth bits of 32 elements, from 4 bytes.
local function fifth_bits(x, at)
  local high = bytes(x, at, 4):contiguous():view(-1, 4, 1)
  local shifts = ml.arange(0, 7):to "uint8":view(1, 1, 8)
  return flat(high:bitwise_right_shift(shifts):bitwise_and(1)):bitwise_left_shift(4)
end

local function nibbles(x, at) return flat(fields(bytes(x, at, 16), 16, 4)) end

-- --- 32 elements ------------------------------------------------------------------------------

local function q4_0(x) return (nibbles(x, 3):to "float32" - 8) * halves(x, 1) end

local function q4_1(x) return nibbles(x, 5):to "float32" * halves(x, 1) + halves(x, 3) end

local function q5_0(x)
  return (nibbles(x, 7):bitwise_or(fifth_bits(x, 3)):to "float32" - 16) * halves(x, 1)
end

local function q5_1(x)
  return nibbles(x, 9):bitwise_or(fifth_bits(x, 5)):to "float32" * halves(x, 1) + halves(x, 3)
end

local function q8_0(x) return signed(x, 3, 32) * halves(x, 1) end

-- The values that the 16 numbers of a nibble stand for.
local UNEVEN = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 }

local function uneven(x)
  return ml.tensor(UNEVEN, { dtype = "float32" }):take(x:to "int64" + 1)
end

local function iq4_nl(x) return uneven(nibbles(x, 3)) * halves(x, 1) end

-- --- 256 elements -----------------------------------------------------------------------------

local function q2_k(x)
  local pairs_of = bytes(x, 1, 16)
  local scale = pairs_of:bitwise_and(15):to "float32" * halves(x, 81)
  local least = pairs_of:bitwise_right_shift(4):to "float32" * halves(x, 83)
  local q = groups(fields(bytes(x, 17, 64), 32, 2), 16, 16):to "float32"
  return flat(q * scale:unsqueeze(-1) - least:unsqueeze(-1))
end

local function q3_k(x)
  local low = flat(fields(bytes(x, 97, 8), 8, 4))
  local high = flat(fields(bytes(x, 105, 4), 4, 2)):bitwise_left_shift(4)
  local scale = (low:bitwise_or(high):to "float32" - 32) * halves(x, 109)
  local q = flat(fields(bytes(x, 33, 64), 32, 2)):to "float32"
  local above = flat(fields(bytes(x, 1, 32), 32, 1)):to "float32"
  return flat(groups(q + above * 4 - 4, 16, 16) * scale:unsqueeze(-1))
end

-- The eight scales and least values, of 6 bits, that 12 bytes hold.
local function scales_of_12(x, at)
  local a, b, c = bytes(x, at, 4), bytes(x, at + 4, 4), bytes(x, at + 8, 4)
  local function join(low, high)
    return low:bitwise_or(high:bitwise_right_shift(6):bitwise_left_shift(4))
  end
  local scale = ml.cat({ a:bitwise_and(63), join(c:bitwise_and(15), a) }, 2)
  local least = ml.cat({ b:bitwise_and(63), join(c:bitwise_right_shift(4), b) }, 2)
  return (scale:to "float32" * halves(x, at - 4)):unsqueeze(-1),
    (least:to "float32" * halves(x, at - 2)):unsqueeze(-1)
end

local function q4_k(x)
  local scale, least = scales_of_12(x, 5)
  local q = groups(fields(bytes(x, 17, 128), 32, 4), 8, 32)
  return flat(q:to "float32" * scale - least)
end

local function q5_k(x)
  local scale, least = scales_of_12(x, 5)
  local high = groups(fields(bytes(x, 17, 32), 32, 1), 8, 32):bitwise_left_shift(4)
  local q = groups(fields(bytes(x, 49, 128), 32, 4), 8, 32):bitwise_or(high)
  return flat(q:to "float32" * scale - least)
end

local function q6_k(x)
  local low = flat(fields(bytes(x, 1, 128), 64, 4))
  local high = flat(fields(bytes(x, 129, 64), 32, 2)):bitwise_left_shift(4)
  local scale = signed(x, 193, 16) * halves(x, 209)
  local q = low:bitwise_or(high):to "float32" - 32
  return flat(groups(q, 16, 16) * scale:unsqueeze(-1))
end

local function q8_k(x)
  return signed(x, 5, 256) * apart(x, 1, 4):view "float32"
end

local function iq4_xs(x)
  local low = flat(fields(bytes(x, 5, 4), 1, 4))
  local high = flat(fields(bytes(x, 3, 2), 1, 2)):bitwise_left_shift(4)
  local scale = (low:bitwise_or(high):to "float32" - 32) * halves(x, 1)
  local q = groups(uneven(fields(bytes(x, 9, 128), 16, 4)), 8, 32)
  return flat(q * scale:unsqueeze(-1))
end

--- The types by their number: a name, the elements and bytes of a block, and the function from
--- blocks, (n, bytes) uint8, to elements, (n, elements) float32.
blocks.types = {
  [2] = { "Q4_0", 32, 18, q4_0 }, [3] = { "Q4_1", 32, 20, q4_1 }, [6] = { "Q5_0", 32, 22, q5_0 },
  [7] = { "Q5_1", 32, 24, q5_1 }, [8] = { "Q8_0", 32, 34, q8_0 }, [10] = { "Q2_K", 256, 84, q2_k },
  [11] = { "Q3_K", 256, 110, q3_k }, [12] = { "Q4_K", 256, 144, q4_k },
  [13] = { "Q5_K", 256, 176, q5_k }, [14] = { "Q6_K", 256, 210, q6_k },
  [15] = { "Q8_K", 256, 292, q8_k }, [20] = { "IQ4_NL", 32, 18, iq4_nl },
  [23] = { "IQ4_XS", 256, 136, iq4_xs },
}

--- The names of types that are not read.
blocks.others = { [9] = "Q8_1", [16] = "IQ2_XXS", [17] = "IQ2_XS", [18] = "IQ3_XXS",
  [19] = "IQ1_S", [21] = "IQ3_S", [22] = "IQ2_S", [29] = "IQ1_M", [34] = "TQ1_0", [35] = "TQ2_0",
  [39] = "MXFP4" }

return blocks
