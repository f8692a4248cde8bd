-- tensor/ops/compare.lua: comparisons, tests of single elements, and choices by a mask.

local rows = require "tensor.ops.gen.pointwise_rows"

local comparisons = {
  eq = { [[Elementwise `x == other`: a bool tensor, true where the two are equal. Shapes broadcast; NaN
equals nothing. (`==` of two tensors compares identity.)]],
    formula = "y = (x == other)",
    example = "ml.eq(ml.tensor {1, 2, 3}, ml.tensor {1, 0, 3})",
    gives = [[
{ true, false,  true}
Tensor (3,) bool]] },
  ne = { [[Elementwise `x ~= other`: a bool tensor, true where the two differ. Shapes broadcast; NaN
differs from everything.]],
    formula = "y = (x != other)",
    example = "ml.ne(ml.tensor {1, 2, 3}, 2)",
    gives = [[
{ true, false,  true}
Tensor (3,) bool]] },
  lt = { "Elementwise `x < other`: a bool tensor. Shapes broadcast; false where one is NaN.",
    formula = "y = (x < other)",
    example = "ml.lt(ml.tensor {1, 2, 3}, 2)",
    gives = [[
{ true, false, false}
Tensor (3,) bool]] },
  le = { "Elementwise `x <= other`: a bool tensor. Shapes broadcast; false where one is NaN.",
    formula = "y = (x <= other)",
    example = "ml.le(ml.tensor {1, 2, 3}, 2)",
    gives = [[
{ true,  true, false}
Tensor (3,) bool]] },
  gt = { "Elementwise `x > other`: a bool tensor. Shapes broadcast; false where one is NaN.",
    formula = "y = (x > other)",
    example = "ml.gt(ml.tensor {1, 2, 3}, 2)",
    gives = [[
{false, false,  true}
Tensor (3,) bool]] },
  ge = { "Elementwise `x >= other`: a bool tensor. Shapes broadcast; false where one is NaN.",
    formula = "y = (x >= other)",
    example = "ml.ge(ml.tensor {1, 2, 3}, 2)",
    gives = [[
{false,  true,  true}
Tensor (3,) bool]] },
}

local function compare(name, alias)
  local any = name == "eq" or name == "ne"
  local samples = { "randn(3, 4), randn(3, 4)", "randn(3, 4), 0.5" }
  op { ("%s(Operand x, Operand other) -> Tensor"):format(name),
       kind = "pointwise", dtypes = any and "any" or "real + boolean",
       result = "bool", inplace = "stored", alias = alias,
       doc = comparisons[name],
       sample = any and rows.with_complex(samples, "complex(ones(3), zeros(3)), complex(ones(3), tensor{0.0, 1, 2})")
         or samples }
end

compare "eq"
compare("ne", { "not_equal" })
compare("lt", { "less" })
compare("le", { "less_equal" })
compare("gt", { "greater" })
compare("ge", { "greater_equal" })

local edges = { "randn(3, 4)", "tensor{1, 1 / 0, -1 / 0, 0 / 0, -0.0}" }
local complex_edges = rows.with_complex(edges,
  "complex(tensor{1, 1 / 0, -1 / 0, 0 / 0, 3e38}, tensor{0.0, 0 / 0, 1, 0, 3e38})")

local function test(name, text, samples, extra)
  local row = { ("%s(Tensor x) -> Tensor"):format(name),
    kind = "pointwise", dtypes = "floating + complex + storage_floating", int_to_float = true, result = "bool",
    inplace = false, doc = text, sample = samples }
  for key, value in pairs(extra or {}) do row[key] = value end
  op(row)
end

test("isnan", { "Test for NaN: a bool tensor, true where an element, or one part of a complex one, is NaN.",
    example = "ml.isnan(ml.tensor {1, 0/0, 1/0})",
    gives = [[
{false,  true, false}
Tensor (3,) bool]] }, complex_edges)
test("isinf", { [[Test for infinity of either sign: a bool tensor, true where an element, or one part of a
complex one, is infinite.]],
    example = "ml.isinf(ml.tensor {1, 0/0, -1/0})",
    gives = [[
{false, false,  true}
Tensor (3,) bool]] }, complex_edges)
test("isfinite", { [[Test for finite numbers: a bool tensor, true where an element is neither infinite nor NaN, in
both parts of a complex one.]],
    example = "ml.isfinite(ml.tensor {1, 0/0, 1/0})",
    gives = [[
{ true, false, false}
Tensor (3,) bool]] }, complex_edges)
test("isposinf", { "Test for positive infinity: a bool tensor.",
    example = "ml.isposinf(ml.tensor {1, 1/0, -1/0})",
    gives = [[
{false,  true, false}
Tensor (3,) bool]] }, edges, { dtypes = "floating", out = true })
test("isneginf", { "Test for negative infinity: a bool tensor.",
    example = "ml.isneginf(ml.tensor {1, 1/0, -1/0})",
    gives = [[
{false, false,  true}
Tensor (3,) bool]] }, edges, { dtypes = "floating", out = true })
test("signbit", { "Test of the sign bit: a bool tensor, true where an element is negative, or is -0.0.",
    example = "ml.signbit(ml.tensor {-1.0, 0.0, -0.0})",
    gives = [[
{ true, false,  true}
Tensor (3,) bool]] }, { "randn(3, 4)", "tensor{1, -1 / 0, 0, -0.0}" },
  { dtypes = "real + boolean", int_to_float = false })
op { "isreal(Tensor x) -> Tensor", kind = "composite", differentiable = false, dtypes = "all",
     doc = "Test for real numbers: a bool tensor, true where the imaginary part of an element is 0.",
     shapes = "x (*) -> (*)",
     example = "ml.isreal(ml.complex(ml.tensor {1.0, 1}, ml.tensor {0.0, 2}))",
     gives = [[
{ true, false}
Tensor (2,) bool]],
     sample = { "randn(3, 4)", "complex(ones(3), tensor{0.0, 1, 0 / 0})" } }
op { "isclose(Tensor x, Tensor other, float rtol=1e-5, float atol=1e-8, bool equal_nan=false) -> Tensor",
     kind = "composite", differentiable = false, dtypes = "all",
     doc = [[Test for equality up to a tolerance, element by element: a bool tensor. Infinities are
close to equal ones only. The two tensors broadcast and have one dtype.]],
     args = { other = "the tensor that `x` is compared with",
              rtol = "the relative tolerance, a part of `|other|`",
              atol = "the absolute tolerance",
              equal_nan = "whether two NaN are close" },
     shapes = "x (*), other (*) -> (*)",
     formula = "y = (abs(x - other) <= atol + rtol * abs(other))",
     example = "ml.isclose(ml.tensor {1.0, 2}, ml.tensor {1.0001, 2.5}, 1e-3)",
     gives = [[
{ true, false}
Tensor (2,) bool]],
     sample = { "tensor{1, 1.0001, 1 / 0, 0 / 0, 100}, tensor{1, 1, 1 / 0, 0 / 0, 100.0001}, 1e-5, 1e-8, true",
                "randint(0, 3, {3, 4}), randint(0, 3, {4})", "randn(3, 4), randn(3, 4), 0.5, 0.5" } }
op { "is_near(Tensor x, Tensor other, Scalar rtol, Scalar atol) -> Tensor",
     kind = "pointwise", dtypes = "floating", result = "bool", keeps_dtype = true, inplace = false, internal = true,
     doc = "What `isclose` does with floats, without `equal_nan`.",
     torch = "torch.isclose(*args)",
     sample = { "randn(3, 4), randn(4), 0.5, 0.5", "tensor{1, 1 / 0, -1 / 0, 0 / 0}, tensor{1.25, 1 / 0, 1, 0 / 0}, 0.5, 0.0" } }
op { "allclose(Tensor x, Tensor other, float rtol=1e-5, float atol=1e-8, bool equal_nan=false) -> bool",
     kind = "composite", differentiable = false, dtypes = "all",
     doc = "Whether two tensors are equal up to a tolerance: whether `isclose` holds for all elements.",
     args = { other = "the tensor that `x` is compared with",
              rtol = "the relative tolerance, a part of `|other|`",
              atol = "the absolute tolerance",
              equal_nan = "whether two NaN are close" },
     shapes = "x (*), other (*) -> boolean",
     example = "ml.allclose(ml.ones(3), ml.ones(3) + 1e-7)", gives = "true",
     sample = { "ones(3), ones(3) + 1e-7", "ones(3), ones(3) + 1e-3" } }
op { "equal(Tensor x, Tensor other) -> bool",
     kind = "composite", differentiable = false, dtypes = "all",
     doc = "Whether two tensors have the same shape and equal elements. NaN equals nothing.",
     args = { other = "the tensor that `x` is compared with" },
     shapes = "x (*), other (*) -> boolean",
     example = "ml.equal(ml.tensor {1, 2}, ml.tensor {1, 2})", gives = "true",
     sample = { "ones(3), ones(3)", "ones(3), ones(1)", "ones(2, 2), tensor{{1, 1}, {1, 2.0}}" } }
op { "is_nonzero(Tensor x) -> bool",
     kind = "composite", differentiable = false, dtypes = "all",
     doc = "Whether the only element of `x` is not 0.",
     args = { x = "a tensor of one element" },
     shapes = "x (1) -> boolean",
     errors = "more elements than one, or none",
     example = "ml.is_nonzero(ml.tensor {0.5})", gives = "true",
     sample = { "tensor{0.5}", "tensor{0}" },
     check = { empty = "one element is expected" } }
op { "is_same_size(Tensor x, Tensor other) -> bool",
     kind = "composite", differentiable = false, dtypes = "all",
     doc = "Whether two tensors have the same shape.",
     args = { other = "the tensor that `x` is compared with" },
     shapes = "x (*), other (*) -> boolean",
     example = "ml.is_same_size(ml.ones(3), ml.ones(1, 3))", gives = "false",
     sample = { "ones(3), zeros(3)", "ones(3), ones(1, 3)" },
     torch = "args[0].is_same_size(args[1])" }
op { "isin(Operand elements, Operand test_elements, bool assume_unique=false, bool invert=false) -> Tensor",
     kind = "composite", differentiable = false, dtypes = "real + boolean", method = false, out = true,
     torch = [[torch.isin(args[0], args[1], assume_unique=args[2] if len(args) > 2 else False,
invert=args[3] if len(args) > 3 else False)]],
     doc = [[Membership: a bool tensor of the shape of `elements`, true where an element is one of
`test_elements`.]],
     args = { elements = "a tensor, or a number",
              test_elements = "the tensor, or number, that is searched",
              assume_unique = "a promise that neither tensor holds an element twice, which may save work",
              invert = "whether to tell the elements that are in none instead" },
     shapes = "elements (*), test_elements (...) -> (*)",
     example = "ml.isin(ml.tensor {1, 2, 3}, ml.tensor {2, 5})",
     gives = [[
{false,  true, false}
Tensor (3,) bool]],
     sample = { "randint(0, 9, {3, 4}), tensor{1, 5, 7}", "randint(0, 9, {3, 4}), 5", "5, randint(0, 9, {3, 4})",
                "randint(0, 90, {3, 40}), randint(0, 90, {30})", "randint(0, 90, {3, 40}), randint(0, 90, {30}), false, true",
                "randperm(40), randperm(60) * 2, true", "tensor{0 / 0, 1.0}, tensor{0 / 0, 1.0}" } }

op { "heaviside(Tensor x, Tensor values) -> Tensor",
     kind = "pointwise", dtypes = "real + boolean",
     doc = [[Heaviside step function: 0 where `x` is negative or NaN, 1 where it is positive, `values`
where it is 0. The two broadcast.]],
     args = { values = "the results at 0, of the dtype of `x`" },
     example = "ml.heaviside(ml.tensor {-1.5, 0, 2}, ml.tensor(0.5))",
     gives = [[
{0.0000, 0.5000, 1.0000}
Tensor (3,) float32]],
     sample = { "tensor{-1.5, 0, 2, 0, 0 / 0}, tensor{1.0, 0.5, 1, 0 / 0, 3}", "randint(-2, 2, {3, 4}), randint(5, 9, {4})" } }

op { "where(Mask condition, Operand x, Operand other) -> Tensor",
     kind = "pointwise", chooses = true, exception = "byte_mask", dtypes = "any", inplace = false, method = false,
     grad = { x = "where(condition, g, 0.0)", other = "where(condition, 0.0, g)" },
     doc = [[Choice by a mask: the element of `x` where `condition` is true, else that of `other`; all
three broadcast. A `condition` alone gives the indices (from 1) where it is true, a tensor for each
dimension.]],
     args = { condition = "a bool tensor, or one of uint8, true where it is not 0",
              x = "a tensor or a number, taken where the condition is true",
              other = "a tensor or a number, taken elsewhere" },
     example = "ml.where(ml.tensor {true, false, true}, ml.tensor {1, 2, 3}, 0)",
     gives = [[
{1, 0, 3}
Tensor (3,) int64]],
     sample = { "gt(randn(3, 4), 0), randn(3, 4), randn(4)",
                'tensor({0, 2, 255, 0}, {dtype = "uint8"}), randn(3, 4), randn(4)', "gt(randn(3, 4), 0), randn(3, 4), 2.5" } }

op { "masked_fill(Tensor x, Mask mask, Scalar value) -> Tensor",
     kind = "pointwise", chooses = true, keeps_dtype = true, exception = "row_major", dtypes = "any",
     grad = { x = "masked_fill(g, mask, 0.0)" },
     doc = "`x` with `value` where `mask` is true; the two broadcast. `value` is converted to the dtype of `x`.",
     args = { mask = "a bool tensor", value = "a number, or a tensor without dimensions" },
     example = "ml.masked_fill(ml.tensor {1, 2, 3}, ml.tensor {true, false, true}, 0)",
     gives = [[
{0, 2, 0}
Tensor (3,) int64]],
     sample = { "randn(3, 4), gt(randn(3, 4), 0), 1.5" } }
op { "masked_fill_tensor(Tensor x, Mask mask, Tensor value) -> Tensor",
     inplace = true, out = true, kind = "composite", dtypes = "any", overload_of = "masked_fill",
     doc = "`x` with the element of a 0-d tensor, on any device, where `mask` is true.",
     args = { mask = "a bool tensor", value = "a tensor without dimensions" },
     shapes = "x (*), mask (*), value () -> (*)",
     example = "ml.masked_fill(ml.tensor {1, 2, 3}, ml.tensor {true, false, true}, ml.tensor(7))",
     gives = [[
{7, 2, 7}
Tensor (3,) int64]],
     torch = "torch.masked_fill(*args)", check = { empty = "the value has no dimensions" },
     sample = { "randn(3, 4), gt(randn(3, 4), 0), tensor(1.5)", "randint(0, 9, {3, 4}), gt(randn(4), 0), tensor(2.75)" } }
op { "where_nonzero(Tensor condition) -> Tensor[]",
     kind = "composite", dtypes = "all", overload_of = "where", method = false,
     doc = [[Indices (from 1) of the elements that are not 0, a vector for each dimension, as `nonzero`
with `as_tuple` gives them.]],
     args = { condition = "a tensor of any dtype" },
     shapes = "condition (*) -> table of (count)",
     example = "i, j = table.unpack(ml.where(ml.tensor {{0, 1}, {2, 0}})); i, j",
     gives = [[
{1, 2}
Tensor (2,) int64
{2, 1}
Tensor (2,) int64]],
     torch = "[p + 1 for p in torch.where(*args)]",
     sample = { "tensor({{0, 1}, {2, 0}})", "gt(randn(3, 4, 2), 0)" } }
