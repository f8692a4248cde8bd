-- tensor/ops/logic.lua: bits of integers, truth values.

local rows = require "tensor.ops.gen.pointwise_rows"

local function binary(...) op(rows.binary(...)) end

-- Bits.
local bits = { "randint(0, 49, {3, 4}), randint(0, 49, {3, 4})", "randint(0, 49, {3, 4}), 6" }
local bit_operations = {
  bitwise_and = { "Bitwise and of integers or bools: `x & other`, element by element; shapes broadcast.",
    example = "ml.bitwise_and(ml.tensor {6, 12}, 4)",
    gives = [[
{4, 4}
Tensor (2,) int64]] },
  bitwise_or = { "Bitwise or of integers or bools: `x | other`, element by element; shapes broadcast.",
    example = "ml.bitwise_or(ml.tensor {6, 8}, 1)",
    gives = [[
{7, 9}
Tensor (2,) int64]] },
  bitwise_xor = { "Bitwise exclusive or of integers or bools: `x ~ other`, element by element; shapes broadcast.",
    example = "ml.bitwise_xor(ml.tensor {6, 8}, 3)",
    gives = [[
{ 5, 11}
Tensor (2,) int64]] },
}

local function bitwise(name, meta, dtypes)
  binary(name, bit_operations[name], nil, bits, { dtypes = dtypes, meta = meta })
end
local bit_dtypes = "integral + boolean + storage_unsigned"
bitwise("bitwise_and", "__band", bit_dtypes)
bitwise("bitwise_or", "__bor", bit_dtypes)
bitwise("bitwise_xor", "__bxor", bit_dtypes)
local shifts = { "randint(0, 49, {3, 4}), randint(0, 4, {3, 4})", "randint(0, 49, {3, 4}), 2" }
binary("bitwise_left_shift", { "Left shift of the bits of integers: `x << other`; 0 where no bit is left.",
    args = { other = "by how many bits" },
    example = "ml.bitwise_left_shift(ml.tensor {1, 3}, 2)",
    gives = [[
{ 4, 12}
Tensor (2,) int64]] }, nil, shifts, { dtypes = "integral", meta = "__shl" })
binary("bitwise_right_shift", { "Arithmetic right shift of the bits of integers: `x >> other`, keeping the sign.",
    args = { other = "by how many bits" },
    example = "ml.bitwise_right_shift(ml.tensor {8, -8}, 1)",
    gives = [[
{ 4, -4}
Tensor (2,) int64]] }, nil, shifts, { dtypes = "integral", meta = "__shr" })
op { "bitwise_not(Tensor x) -> Tensor", inplace = true, out = true, kind = "composite", dtypes = bit_dtypes, meta = "__bnot",
     doc = "Bitwise complement of integers: `~x`; of bools, not.",
     shapes = "x (*) -> (*)",
     example = "ml.bitwise_not(ml.tensor {0, 5})",
     gives = [[
{-1, -6}
Tensor (2,) int64]],
     sample = { "randint(0, 49, {3, 4})" } }
op { "bitwise_invert(Tensor x) -> Tensor",
     kind = "pointwise", dtypes = "integral + storage_unsigned",
     doc = "Bitwise complement of integers: `~x`.",
     example = "ml.bitwise_invert(ml.tensor {0, 5})",
     gives = [[
{-1, -6}
Tensor (2,) int64]],
     sample = { "randint(0, 49, {3, 4})" }, torch = "torch.bitwise_not(*args)" }

-- Truth values: zero is false, everything else true.
local truths = { "randint(0, 1, {3, 4}), randint(0, 1, {3, 4})", "randint(0, 1, {3, 4}), randint(0, 1, {4})" }
local truth_functions = {
  logical_and = { "Logical and, element by element: a bool tensor; 0 is false, everything else true. Shapes broadcast.",
    example = "ml.logical_and(ml.tensor {0, 2, 3}, ml.tensor {1, 0, 1})",
    gives = [[
{false, false,  true}
Tensor (3,) bool]] },
  logical_or = { "Logical or, element by element: a bool tensor; 0 is false, everything else true. Shapes broadcast.",
    example = "ml.logical_or(ml.tensor {0, 2, 3}, ml.tensor {0, 0, 1})",
    gives = [[
{false,  true,  true}
Tensor (3,) bool]] },
  logical_xor = { [[Logical exclusive or, element by element: a bool tensor, true where one of the two is true,
not both; 0 is false. Shapes broadcast.]],
    example = "ml.logical_xor(ml.tensor {0, 2, 3}, ml.tensor {1, 0, 1})",
    gives = [[
{ true,  true, false}
Tensor (3,) bool]] },
}

local function logical(name)
  op { ("%s(Tensor x, Tensor other) -> Tensor"):format(name),
       kind = "pointwise", dtypes = "all", result = "bool", inplace = "stored",
       doc = truth_functions[name], sample = truths }
end
logical "logical_and"
logical "logical_or"
logical "logical_xor"
op { "logical_not(Tensor x) -> Tensor",
     kind = "pointwise", dtypes = "all", result = "bool", inplace = "stored",
     doc = "Logical not, element by element: a bool tensor, true where `x` is 0 or false.",
     example = "ml.logical_not(ml.tensor {0, 2})",
     gives = [[
{ true, false}
Tensor (2,) bool]],
     sample = { "randint(0, 1, {3, 4})" } }
