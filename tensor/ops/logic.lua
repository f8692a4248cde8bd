-- tensor/ops/logic.lua: bits of integers, truth values.

local rows = require "tensor.ops.gen.pointwise_rows"

local function binary(...) op(rows.binary(...)) end

-- Bits.
local bits = { "randint(0, 49, {3, 4}), randint(0, 49, {3, 4})", "randint(0, 49, {3, 4}), 6" }
local function bitwise(name, meta, symbol, dtypes)
  binary(name, ("`x %s other` on the bits of integers."):format(symbol), nil, bits, { dtypes = dtypes, meta = meta })
end
local bit_dtypes = "integral + boolean + storage_unsigned"
bitwise("bitwise_and", "__band", "&", bit_dtypes)
bitwise("bitwise_or", "__bor", "|", bit_dtypes)
bitwise("bitwise_xor", "__bxor", "~", bit_dtypes)
local shifts = { "randint(0, 49, {3, 4}), randint(0, 4, {3, 4})", "randint(0, 49, {3, 4}), 2" }
binary("bitwise_left_shift", "`x << other`; 0 when no bit is left.", nil, shifts, { dtypes = "integral", meta = "__shl" })
binary("bitwise_right_shift", "`x >> other`, keeping the sign.", nil, shifts, { dtypes = "integral", meta = "__shr" })
op { "bitwise_not(Tensor x) -> Tensor", inplace = true, out = true, kind = "composite", dtypes = bit_dtypes, meta = "__bnot",
     doc = "`~x` on the bits of integers; for bool, `not`.", sample = { "randint(0, 49, {3, 4})" } }
op { "bitwise_invert(Tensor x) -> Tensor",
     kind = "pointwise", dtypes = "integral + storage_unsigned",
     doc = "`~x` on the bits of integers.", sample = { "randint(0, 49, {3, 4})" }, torch = "torch.bitwise_not(*args)" }

-- Truth values: zero is false, everything else true.
local truths = { "randint(0, 1, {3, 4}), randint(0, 1, {3, 4})", "randint(0, 1, {3, 4}), randint(0, 1, {4})" }
local function logical(name, word)
  op { ("%s(Tensor x, Tensor other) -> Tensor"):format(name),
       kind = "pointwise", dtypes = "all", result = "bool", inplace = "stored",
       doc = ("True where `x` %s `other` is true; zero is false."):format(word), sample = truths }
end
logical("logical_and", "and")
logical("logical_or", "or")
logical("logical_xor", "or, but not both, ")
op { "logical_not(Tensor x) -> Tensor",
     kind = "pointwise", dtypes = "all", result = "bool", inplace = "stored",
     doc = "True where `x` is zero or false.", sample = { "randint(0, 1, {3, 4})" } }
