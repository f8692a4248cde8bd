-- tensor/ops/arithmetic.lua: sums, products, powers, roots, limits, rounding. Derivatives follow
-- PyTorch's, written in public ops so that they can be differentiated again.

local rows = require "tensor.ops.gen.pointwise_rows"

local function unary(...) op(rows.unary(...)) end
local function binary(...) op(rows.binary(...)) end

local complex = { dtypes = "floating + complex" }
local pair = { "randn(3, 4), randn(3, 4)", "randn(3, 4), randn(4)", "randn(3, 4), 2.5" }
local divisors = { "randn(3, 4), rand(3, 4) + 0.5", "randn(3, 4), rand(4) + 0.5", "randn(3, 4), 2.5" }
local complex_pair = "complex(randn(3, 4), randn(3, 4)), complex(randn(3, 4), randn(4))"
local positive = "rand(3, 4) + 0.5"
local both = rows.with_complex

-- Arithmetic.
binary("add", { "Sum of two tensors or numbers, element by element; shapes broadcast. Of bools, the logical or.",
    formula = "y = x + other",
    example = "ml.add(ml.tensor {1, 2, 3}, 10)",
    gives = [[
{11, 12, 13}
Tensor (3,) int64]] }, { x = "g", other = "g" },
  both(pair, complex_pair), { dtypes = "all + storage_unsigned", meta = "__add" })
binary("sub", { "Difference of two tensors or numbers, element by element; shapes broadcast.",
    formula = "y = x - other",
    errors = "bools",
    example = "ml.sub(ml.tensor {5, 7}, ml.tensor {1, 2})",
    gives = [[
{4, 5}
Tensor (2,) int64]] }, { x = "g", other = "neg(g)" },
  both(pair, complex_pair),
  { dtypes = "real + complex + storage_unsigned", exception = "refuses_bool", meta = "__sub", alias = { "subtract" } })
binary("mul", { "Product of two tensors or numbers, element by element; shapes broadcast. Of bools, the logical and.",
    formula = "y = x * other",
    example = "ml.mul(ml.tensor {1, 2, 3}, ml.tensor {2.5, 0, -1})",
    gives = [[
{ 2.5000,  0.0000, -3.0000}
Tensor (3,) float32]] },
  { x = "mul(g, conj(other))", other = "mul(g, conj(x))" }, both(pair, complex_pair),
  { dtypes = "any", meta = "__mul", alias = { "multiply" } })
binary("div", { [[Quotient of two tensors or numbers, element by element; shapes broadcast. Integers are divided
as numbers of the default dtype, and division by 0 gives an infinity or NaN. With `rounding_mode` the
quotient is rounded and integers stay integers.]],
    formula = "y = x / other",
    example = "ml.div(ml.tensor {1, 2, 3}, 2)",
    gives = [[
{0.5000, 1.0000, 1.5000}
Tensor (3,) float32]] },
  { x = "div(g, conj(other))", other = "neg(mul(g, conj(div(y, other))))" }, both(divisors, complex_pair),
  { dtypes = "floating + complex", int_to_float = true, meta = "__div", alias = { "divide", "true_divide" } })
op { "div_mode(Operand x, Operand other, string rounding_mode) -> Tensor",
     inplace = true, out = true, kind = "composite", dtypes = "real", overload_of = "div",
     doc = "Quotient of two tensors or numbers, rounded down or towards 0. Integers stay integers.",
     args = { other = "the divisor", rounding_mode = '"floor" or "trunc"' },
     shapes = "x (*), other (*) -> (*)",
     errors = "division of integers by 0",
     example = 'ml.div(ml.tensor {7, -7}, 2, "trunc")',
     gives = [[
{ 3, -3}
Tensor (2,) int64]],
     torch = "torch.div(args[0], args[1], rounding_mode=args[2])",
     sample = { 'randn(3, 4), rand(4) + 0.5, "floor"', 'randn(3, 4), rand(4) + 0.5, "trunc"',
                'randint(-9, 9, {3, 4}), randint(1, 4, {3, 4}), "floor"' } }

-- With a factor: what optimisers and residual sums do in one pass.
local scaled = { "randn(3, 4), randn(4), 0.5", "randn(3, 4), 2.5, -2", "randint(0, 9, {3, 4}), randint(0, 9, {4}), 3",
                 complex_pair .. ", 0.5" }
local scaled_check = { dtypes = "integers take no fraction as a factor",
                       device = "integers take no fraction as a factor" }
op { "add_scaled(Operand x, Operand other, Scalar alpha) -> Tensor",
     kind = "pointwise", overload_of = "add", keeps_dtype = "scales", dtypes = "all",
     grad = { x = "g", other = "mul(g, conj(alpha))" },
     doc = "Sum of `x` and a multiple of `other`; the factor comes by name.",
     args = { alpha = "the factor of `other`; a whole number for integers" },
     formula = "y = x + alpha * other",
     example = "ml.tensor({1, 2}):add(ml.tensor {10, 20}, {alpha = 2})",
     gives = [[
{21, 42}
Tensor (2,) int64]],
     torch = "torch.add(args[0], args[1], alpha=args[2])", sample = scaled, check = scaled_check }
op { "sub_scaled(Operand x, Operand other, Scalar alpha) -> Tensor",
     kind = "pointwise", overload_of = "sub", keeps_dtype = "scales", exception = "refuses_bool",
     dtypes = "real + complex",
     grad = { x = "g", other = "neg(mul(g, conj(alpha)))" },
     doc = "Difference of `x` and a multiple of `other`; the factor comes by name.",
     args = { alpha = "the factor of `other`; a whole number for integers" },
     formula = "y = x - alpha * other",
     example = "ml.tensor({1, 2}):sub(ml.tensor {10, 20}, {alpha = 2})",
     gives = [[
{-19, -38}
Tensor (2,) int64]],
     torch = "torch.sub(args[0], args[1], alpha=args[2])", sample = scaled, check = scaled_check }
op { "rsub(Operand x, Operand other, Scalar alpha=1) -> Tensor",
     out = true, kind = "composite", dtypes = "real + complex",
     doc = "Reversed difference: `other` less `alpha` times `x`; shapes broadcast.",
     args = { other = "what is subtracted from", alpha = "the factor of `x`" },
     shapes = "x (*), other (*) -> (*)",
     formula = "y = other - alpha * x",
     example = "ml.rsub(ml.tensor {1, 2, 3}, 10)",
     gives = [[
{9, 8, 7}
Tensor (3,) int64]],
     torch = "torch.rsub(args[0], args[1], alpha=args[2] if len(args) > 2 else 1)",
     sample = { "randn(3, 4), randn(4)", "randn(3, 4), 2.5", "randn(3, 4), randn(4), 2" } }

binary("floor_divide", { [[Quotient rounded down, to the next integer towards minus infinity, as Lua's `//`. Floats divided by 0 give an infinity or NaN.]],
    formula = "y = floor(x / other)",
    errors = "division of integers by 0",
    example = "ml.floor_divide(ml.tensor {7, -7}, 2)",
    gives = [[
{ 3, -4}
Tensor (2,) int64]] },
  { x = "zero", other = "zero" }, divisors,
  { dtypes = "real", meta = "__idiv", divides = true })
binary("trunc_divide", { "Quotient rounded towards 0, as C's integer division.",
    formula = "y = trunc(x / other)",
    errors = "division of integers by 0",
    example = "ml.trunc_divide(ml.tensor {7, -7}, 2)",
    gives = [[
{ 3, -3}
Tensor (2,) int64]] },
  { x = "zero", other = "zero" }, divisors,
  { dtypes = "real", torch = 'torch.div(*args, rounding_mode="trunc")', divides = true })
binary("remainder", { [[Remainder of the division that rounds down: it has the sign of `other`, as Lua's `%`.]],
    formula = "y = x - other * floor(x / other)",
    errors = "division of integers by 0",
    example = "ml.remainder(ml.tensor {7, -7}, 3)",
    gives = [[
{1, 2}
Tensor (2,) int64]] },
  { x = "g", other = "neg(mul(g, floor_divide(x, other)))" }, divisors,
  { dtypes = "real", meta = "__mod", divides = true })
binary("fmod", { [[Remainder of the division that rounds towards 0: it has the sign of `x`, as C's `fmod`.]],
    formula = "y = x - other * trunc(x / other)",
    errors = "division of integers by 0",
    example = "ml.fmod(ml.tensor {7, -7}, 3)",
    gives = [[
{ 1, -1}
Tensor (2,) int64]] },
  { x = "g", other = "neg(mul(g, trunc_divide(x, other)))" }, divisors,
  { dtypes = "real", divides = true })
op { "pow(Operand x, Operand exponent) -> Tensor",
     kind = "pointwise", autocast = { device = "float32" }, dtypes = "real + complex", meta = "__pow",
     grad = { x = "pow_grad_x(g, x, exponent)", exponent = "pow_grad_exponent(g, x, exponent, y)" },
     doc = [[Power of two tensors or numbers, element by element; shapes broadcast. Integers stay
integers: a negative power of an integer other than 1 and -1 is 0. A negative real base with an exponent
that is not whole gives NaN.]],
     args = { exponent = "the power, a tensor or a number" },
     formula = "y = x^exponent",
     example = "ml.pow(ml.tensor {1.0, 2, 3}, 2)",
     gives = [[
{1., 4., 9.}
Tensor (3,) float32]],
     sample = { "rand(3, 4) + 0.5, randn(3, 4)", "rand(3, 4) + 0.5, randn(4)", "randn(3, 4), 2", "2.5, randn(3, 4)",
                complex_pair } }
op { "float_power(Operand x, Operand exponent) -> Tensor",
     inplace = true, out = true, kind = "composite", dtypes = "all",
     doc = "Power computed in float64, or in complex128 where an argument is complex; shapes broadcast.",
     args = { exponent = "the power, a tensor or a number" },
     shapes = "x (*), exponent (*) -> (*)",
     formula = "y = x^exponent",
     example = "ml.float_power(ml.tensor {1, 2, 3}, -1)",
     gives = [[
{1.0000, 0.5000, 0.3333}
Tensor (3,) float64]],
     sample = { "rand(3, 4) + 0.5, randn(4)", "randint(1, 5, {3, 4}), 2", "2, randn(3)", complex_pair } }
op { "ldexp(Tensor x, Operand other) -> Tensor",
     inplace = true, out = true, kind = "composite", dtypes = "all",
     doc = "`x` times two to the power `other`; shapes broadcast. Integers give the default dtype.",
     args = { other = "the exponent of 2, a tensor or a number" },
     shapes = "x (*), other (*) -> (*)",
     formula = "y = x * 2^other",
     example = "ml.ldexp(ml.tensor {1.0, 3}, ml.tensor {3, -1})",
     gives = [[
{8.0000, 1.5000}
Tensor (2,) float32]],
     sample = { "randn(3, 4), randint(-3, 3, {4})", "randn(3, 4), randn(3, 4)", "randn(3, 4):half(), randint(-3, 3, {4})", "randn(3, 4), -2" },
     torch = "torch.ldexp(args[0], torch.as_tensor(args[1]))" }
op { "frexp(Tensor x) -> (Tensor mantissa, Tensor exponent)",
     out = true, kind = "composite", dtypes = "floating",
     doc = [[Mantissa and exponent: `x = mantissa * 2^exponent` with a mantissa of magnitude from 0.5 to
below 1 and an int32 exponent. 0, infinities and NaN are their own mantissa, with exponent 0.]],
     shapes = "x (*) -> mantissa (*), exponent (*)",
     formula = "x = mantissa * 2^exponent",
     example = "ml.frexp(ml.tensor {6.0, -0.75})",
     gives = [[
{ 0.7500, -0.7500}
Tensor (2,) float32
{3, 0}
Tensor (2,) int32]],
     sample = { "randn(3, 4) * 100", "tensor{0.6, 1.2, -9.0, 0.3, 100}" } }
unary("frexp_mantissa", "The first result of `frexp`.", "mul(g, where(eq(x, 0), 1.0, nan_to_num(div(y, where(eq(x, 0), 1.0, x)), 1.0, HUGE_VAL, -HUGE_VAL)))", nil,
  { int_to_float = false, inplace = false, internal = true, torch = "torch.frexp(*args)[0]",
    check = { gradgrad = "it is linear piece by piece" } })
unary("frexp_exponent", "The second result of `frexp`, in the dtype of `x`.", nil, nil,
  { int_to_float = false, inplace = false, internal = true, torch = "torch.frexp(*args)[1].float()" })

-- Whole numbers.
local whole = { "randint(-40, 40, {3, 4}), randint(-40, 40, {3, 4})", "randint(0, 60, {3, 4}), randint(0, 60, {4})",
                "tensor{0, 0, 12, -12}, tensor{0, 5, 0, 18}" }
op { "gcd(Tensor x, Tensor other) -> Tensor", kind = "pointwise", dtypes = "integral",
     doc = "Greatest common divisor of two integer tensors, never negative; that of 0 and 0 is 0.",
     example = "ml.gcd(ml.tensor {12, -18}, ml.tensor {8, 12})",
     gives = [[
{4, 6}
Tensor (2,) int64]],
     sample = whole }
op { "lcm(Tensor x, Tensor other) -> Tensor", kind = "pointwise", dtypes = "integral",
     doc = "Least common multiple of two integer tensors, never negative; 0 where an argument is 0.",
     example = "ml.lcm(ml.tensor {4, -6}, ml.tensor {6, 9})",
     gives = [[
{12, 18}
Tensor (2,) int64]],
     sample = whole }

unary("neg", { "Negative of each element.",
    formula = "y = -x",
    example = "ml.neg(ml.tensor {1, -2})",
    gives = [[
{-1,  2}
Tensor (2,) int64]] }, "neg(g)", nil, { dtypes = "real + complex", int_to_float = false, meta = "__unm", alias = { "negative" } })
unary("abs", { [[Absolute value; of a complex element its modulus, a real number. That of the smallest integer
of a dtype is the integer itself.]],
    formula = "y = abs(x)",
    example = "ml.abs(ml.tensor {-1.5, 2})",
    gives = [[
{1.5000, 2.0000}
Tensor (2,) float32]] }, "mul(g, sgn(x))", both(),
  { dtypes = "real + complex + storage_floating", int_to_float = false, result = "real", inplace = "stored", alias = { "absolute" } })
unary("sign", { "Sign of each element: -1, 0 or 1.",
    formula = "y = sgn(x)",
    example = "ml.sign(ml.tensor {-1.5, 0, 2})",
    gives = [[
{-1.,  0.,  1.}
Tensor (3,) float32]] }, "zero", nil,
  { dtypes = "real + boolean", int_to_float = false })
unary("sgn", { "Sign of each element; of a complex one the number of modulus 1 with its angle, and 0 for 0.",
    formula = "y = x / abs(x)",
    example = "ml.sgn(ml.tensor {-1.5, 0, 2})",
    gives = [[
{-1.,  0.,  1.}
Tensor (3,) float32]] }, "sgn_grad_x(g, x)", both(),
  { dtypes = "all", int_to_float = false, check = { gradgrad = "its derivative is checked once" } })
op { "copysign(Tensor x, Operand other) -> Tensor",
     kind = "pointwise", dtypes = "floating", int_to_float = true,
     grad = { x = "mul(g, mul(sign(x), sign(y)))", other = "zero" },
     doc = "Magnitude of `x` with the sign of `other`, also that of a negative zero or NaN.",
     args = { other = "a tensor or a number whose sign is taken" },
     example = "ml.copysign(ml.tensor {1.0, -2, 3}, -1)",
     gives = [[
{-1., -2., -3.}
Tensor (3,) float32]],
     sample = { "randn(3, 4), randn(4)", "randn(3, 4), -1", "randint(0, 4, {3, 4}), randn(3, 4)" } }
unary("square", { "Square of each element.",
    formula = "y = x^2",
    example = "ml.square(ml.tensor {-3, 4})",
    gives = [[
{ 9, 16}
Tensor (2,) int64]] }, "mul(g, mul(conj(x), 2.0))", both(),
  { dtypes = "real + complex", int_to_float = false })
unary("sqrt", { "Square root of each element; NaN below 0. Of complex elements the principal root.",
    formula = "y = sqrt(x)",
    example = "ml.sqrt(ml.tensor {0.0, 2, 9})",
    gives = [[
{0.0000, 1.4142, 3.0000}
Tensor (3,) float32]] }, "div(g, mul(conj(y), 2.0))", both(positive), complex)
unary("rsqrt", { "Reciprocal of the square root; infinity at 0, NaN below.",
    formula = "y = 1 / sqrt(x)",
    example = "ml.rsqrt(ml.tensor {1.0, 4, 0})",
    gives = [[
{1.0000, 0.5000,    inf}
Tensor (3,) float32]] }, "mul(g, mul(conj(mul(y, square(y))), -0.5))", both(positive), rows.widened(complex))
unary("reciprocal", { "Reciprocal of each element; infinite at 0.",
    formula = "y = 1 / x",
    example = "ml.reciprocal(ml.tensor {2.0, -4})",
    gives = [[
{ 0.5000, -0.2500}
Tensor (2,) float32]] }, "neg(mul(g, square(conj(y))))", both(positive), rows.widened(complex))
op { "positive(Tensor x) -> Tensor", kind = "composite", dtypes = "real + complex",
     doc = "Unary plus: `x` itself.",
     shapes = "x (*) -> (*)",
     errors = "bools, which have no sign",
     example = "ml.positive(ml.tensor {-1, 2})",
     gives = [[
{-1,  2}
Tensor (2,) int64]],
     sample = { "randn(3, 4)" } }

local extremes = {
  maximum = { [[Larger of two elements, element by element; shapes broadcast. NaN where either is NaN. Equal
elements share the gradient.]],
    formula = "y = max(x, other)",
    example = "ml.maximum(ml.tensor {1, 5}, ml.tensor {3, 2})",
    gives = [[
{3, 5}
Tensor (2,) int64]] },
  minimum = { [[Smaller of two elements, element by element; shapes broadcast. NaN where either is NaN. Equal
elements share the gradient.]],
    formula = "y = min(x, other)",
    example = "ml.minimum(ml.tensor {1, 5}, ml.tensor {3, 2})",
    gives = [[
{1, 2}
Tensor (2,) int64]] },
  fmax = { "Larger of two elements, element by element; where one is NaN, the other. Shapes broadcast.",
    formula = "y = max(x, other)",
    example = "ml.fmax(ml.tensor {1, 0/0}, ml.tensor {3.0, 2})",
    gives = [[
{3., 2.}
Tensor (2,) float32]] },
  fmin = { "Smaller of two elements, element by element; where one is NaN, the other. Shapes broadcast.",
    formula = "y = min(x, other)",
    example = "ml.fmin(ml.tensor {1, 0/0}, ml.tensor {3.0, 2})",
    gives = [[
{1., 2.}
Tensor (2,) float32]] },
}

-- Extremes. Equal elements share the gradient; of a NaN it goes where PyTorch's does.
local function extreme(name, below, above, at_least)
  local tie = "where(eq(x, other), mul(g, 0.5), g)"
  binary(name, extremes[name],
    { x = ("where(%s(x, other), 0.0, %s)"):format(below, tie), other = ("where(%s(x, other), 0.0, %s)"):format(above, tie) },
    { pair[1], pair[2] }, { dtypes = "real + boolean", chooses = true })
  -- fmax and fmin.
  local of_numbers = "f" .. name:sub(1, 3)
  op { of_numbers .. "(Tensor x, Tensor other) -> Tensor",
       kind = "pointwise", dtypes = "real + boolean",
       grad = { x = ("where(logical_or(%s(x, other), isnan(other)), %s, 0.0)"):format(at_least, tie),
                other = ("where(logical_or(%s(x, other), isnan(other)), 0.0, %s)"):format(above, tie) },
       doc = extremes[of_numbers], sample = { pair[1], pair[2] } }
end
extreme("maximum", "lt", "gt", "ge")
extreme("minimum", "gt", "lt", "le")
op { "max_pair(Tensor x, Tensor other) -> Tensor", out = true, kind = "composite", dtypes = "real + boolean",
     overload_of = "max",
     doc = "Larger of the elements of two tensors, as `maximum`.",
     args = { other = "the other tensor, broadcast with `x`" },
     shapes = "x (*), other (*) -> (*)",
     example = "ml.max(ml.tensor {1, 5}, ml.tensor {3, 2})",
     gives = [[
{3, 5}
Tensor (2,) int64]],
     torch = "torch.max(*args)",
     sample = { pair[2] } }
op { "min_pair(Tensor x, Tensor other) -> Tensor", out = true, kind = "composite", dtypes = "real + boolean",
     overload_of = "min",
     doc = "Smaller of the elements of two tensors, as `minimum`.",
     args = { other = "the other tensor, broadcast with `x`" },
     shapes = "x (*), other (*) -> (*)",
     example = "ml.min(ml.tensor {1, 5}, ml.tensor {3, 2})",
     gives = [[
{1, 2}
Tensor (2,) int64]],
     torch = "torch.min(*args)",
     sample = { pair[2] } }

-- Limits. A number lets no gradient through where it is reached, as in PyTorch.
op { "clamp_min(Tensor x, Scalar min) -> Tensor",
     kind = "pointwise", chooses = { min = "lower" }, dtypes = "real", grad = { x = "where(gt(x, min), g, 0.0)" },
     doc = "`x` limited from below. The gradient is 0 where `x` is at or below the limit. NaN stays NaN.",
     args = { min = "the lower limit, a number or a tensor that broadcasts" },
     formula = "y = max(x, min)",
     example = "ml.clamp_min(ml.tensor {-1.5, 0.5, 2}, 0)",
     gives = [[
{0.0000, 0.5000, 2.0000}
Tensor (3,) float32]],
     sample = { "randn(3, 4), -0.3" } }
op { "clamp_max(Tensor x, Scalar max) -> Tensor",
     kind = "pointwise", chooses = { max = "upper" }, dtypes = "real", grad = { x = "where(lt(x, max), g, 0.0)" },
     doc = "`x` limited from above. The gradient is 0 where `x` is at or above the limit. NaN stays NaN.",
     args = { max = "the upper limit, a number or a tensor that broadcasts" },
     formula = "y = min(x, max)",
     example = "ml.clamp_max(ml.tensor {-1.5, 0.5, 2}, 1)",
     gives = [[
{-1.5000,  0.5000,  1.0000}
Tensor (3,) float32]],
     sample = { "randn(3, 4), 0.3" } }
op { "clamp_between(Tensor x, Scalar min, Scalar max) -> Tensor",
     kind = "pointwise", chooses = { min = "lower", max = "upper" }, dtypes = "real", internal = true,
     grad = { x = "where(logical_and(gt(x, min), lt(x, max)), g, 0.0)" },
     doc = "`clamp` with both limits.", sample = { "randn(3, 4), -0.3, 0.4", "randn(3, 4), 0.4, -0.3" },
     torch = "torch.clamp(*args)" }
op { "clamp(Tensor x, Scalar? min=nil, Scalar? max=nil) -> Tensor",
     inplace = true, out = true, kind = "composite", dtypes = "real", alias = { "clip" },
     doc = [[`x` limited to the range from `min` to `max`, either of which may be left out. Where `min`
is above `max` the result is `max`. NaN stays NaN; the gradient is 0 at the limits and outside.]],
     args = { min = "the lower limit, a number or a tensor that broadcasts",
              max = "the upper limit, a number or a tensor that broadcasts" },
     shapes = "x (*) -> (*)",
     formula = "y = min(max(x, min), max)",
     example = "ml.clamp(ml.tensor {-1.5, 0.5, 2}, 0, 1)",
     gives = [[
{0.0000, 0.5000, 1.0000}
Tensor (3,) float32]],
     sample = { "randn(3, 4), -0.3, 0.4", "randn(3, 4), nil, 0.2", "randint(0, 9, {3, 4}), 2, 6" } }
local element_limits = {
  min = { "`x` limited from below by a tensor of limits; the two broadcast.",
    args = { min = "the lower limits" },
    shapes = "x (*), min (*) -> (*)",
    example = "ml.clamp_min(ml.tensor {-1.5, 0.5}, ml.tensor {0.0, 1})",
    gives = [[
{0., 1.}
Tensor (2,) float32]] },
  max = { "`x` limited from above by a tensor of limits; the two broadcast.",
    args = { max = "the upper limits" },
    shapes = "x (*), max (*) -> (*)",
    example = "ml.clamp_max(ml.tensor {-1.5, 0.5}, ml.tensor {-2.0, 1})",
    gives = [[
{-2.0000,  0.5000}
Tensor (2,) float32]] },
}

for _, bound in ipairs { "min", "max" } do
  op { ("clamp_%s_tensor(Tensor x, Tensor %s) -> Tensor"):format(bound, bound),
       inplace = true, out = true, kind = "composite", dtypes = "real + boolean", overload_of = "clamp_" .. bound,
       doc = element_limits[bound],
       sample = { pair[2] }, torch = ("torch.clamp_%s(*args)"):format(bound) }
end
op { "clamp_within(Tensor x, Tensor min, Tensor max) -> Tensor",
     kind = "pointwise", functor = "ClampBetween", dtypes = "real + boolean", internal = true,
     grad = {
       x = [[where(logical_or(lt(x, min), gt(x, max)), 0.0,
                   where(logical_xor(eq(x, min), eq(x, max)), mul(g, 0.5), g))]],
       min = [[where(logical_and(lt(x, min), le(min, max)), g,
                     where(logical_and(eq(x, min), lt(min, max)), mul(g, 0.5), 0.0))]],
       max = [[where(logical_or(gt(x, max), lt(max, min)), g,
                     where(logical_and(eq(x, max), lt(min, max)), mul(g, 0.5), 0.0))]] },
     doc = "`clamp` with tensors as both limits.", torch = "torch.clamp(*args)",
     sample = { "randn(3, 4), randn(4) - 0.5, randn(3, 4) + 0.5" } }
op { "clamp_tensor(Tensor x, Tensor? min=nil, Tensor? max=nil) -> Tensor",
     inplace = true, out = true, kind = "composite", dtypes = "real + boolean", overload_of = "clamp",
     doc = [[`x` limited by tensors of limits, which broadcast. An element equal to its limit shares the
gradient with it.]],
     args = { min = "the lower limits", max = "the upper limits" },
     shapes = "x (*), min (*), max (*) -> (*)",
     example = "ml.clamp(ml.tensor {-1.5, 0.5, 2}, ml.zeros(3), ml.tensor {1.0, 0.2, 3})",
     gives = [[
{0.0000, 0.2000, 2.0000}
Tensor (3,) float32]],
     torch = "torch.clamp(*args)",
     sample = { "randn(3, 4), randn(4) - 0.5, randn(3, 4) + 0.5", "randn(3, 4), nil, randn(4)" } }
op { "nan_to_num(Tensor x, float nan=0.0, float? posinf=nil, float? neginf=nil) -> Tensor",
     inplace = true, out = true, kind = "composite", dtypes = "all",
     doc = [[`x` with NaN and infinities replaced by numbers, in both parts of complex elements.
Integers and bools stay as they are.]],
     args = { nan = "what replaces NaN",
              posinf = "what replaces infinity; the largest number of the dtype unless given",
              neginf = "what replaces minus infinity; the smallest number of the dtype unless given" },
     shapes = "x (*) -> (*)",
     example = "ml.nan_to_num(ml.tensor {1, 0/0, 1/0}, 0, 100)",
     gives = [[
{  1.,   0., 100.}
Tensor (3,) float32]],
     torch = "torch.nan_to_num(*args)", check = { grad = "the samples have infinities", dtypes = "each dtype has its own limits" },
     sample = { "tensor{1, 0 / 0, 1 / 0, -1 / 0}", "tensor{1, 0 / 0, 1 / 0, -1 / 0}, 2.5, 7.0", "randint(0, 5, {3, 4})" } }
op { "replace_nonfinite(Tensor x, Scalar nan, Scalar posinf, Scalar neginf) -> Tensor",
     kind = "pointwise", dtypes = "floating", keeps_dtype = true, internal = true,
     grad = { x = "where(isfinite(x), g, 0.0)" }, doc = "What `nan_to_num` does with floats.",
     sample = { "randn(3, 4), 0.0, 1.0, 2.0" }, torch = "torch.nan_to_num(*args)" }

-- Several operands.
op { "lerp(Tensor x, Tensor end, Operand weight) -> Tensor",
     kind = "pointwise", dtypes = "floating + complex",
     grad = { x = "lerp_grad_x(g, weight)", ["end"] = "mul(g, conj(weight))",
              weight = "mul(g, conj(sub(end, x)))" },
     doc = [[Linear interpolation between two tensors: `x` for a `weight` of 0, `end` for 1. All
broadcast; a `weight` outside of 0 to 1 extrapolates.]],
     args = { ["end"] = "where a weight of 1 leads", weight = "a number or a tensor of weights" },
     formula = "y = x + weight * (end - x)",
     example = "ml.lerp(ml.tensor {0.0, 10}, ml.tensor {1.0, 20}, 0.25)",
     gives = [[
{ 0.2500, 12.5000}
Tensor (2,) float32]],
     sample = { "randn(3, 4), randn(3, 4), 0.3", "randn(3, 4), randn(4), rand(3, 4)",
                complex_pair .. ", complex(randn(4), randn(4))" } }
op { "addcmul(Tensor x, Tensor tensor1, Tensor tensor2, Scalar value=1) -> Tensor",
     kind = "pointwise", autocast = { device = "promote" }, dtypes = "real + complex", keeps_dtype = true,
     grad = { x = "g", tensor1 = "mul(g, conj(mul(tensor2, value)))", tensor2 = "mul(g, conj(mul(tensor1, value)))" },
     doc = "`x` plus a multiple of the product of two tensors; all broadcast.",
     args = { tensor1 = "the first factor",
              tensor2 = "the second factor",
              value = "the factor of the product; a whole number for integers" },
     formula = "y = x + value * tensor1 * tensor2",
     example = "ml.addcmul(ml.tensor {1.0, 1}, ml.tensor {2.0, 3}, ml.tensor {4.0, 5}, 0.5)",
     gives = [[
{5.0000, 8.5000}
Tensor (2,) float32]],
     sample = { "randn(3, 4), randn(3, 4), randn(4), 0.5", complex_pair .. ", complex(randn(4), randn(4)), 0.5" },
     torch = "torch.addcmul(args[0], args[1], args[2], value=args[3])" }
op { "addcdiv(Tensor x, Tensor tensor1, Tensor tensor2, Scalar value=1) -> Tensor",
     kind = "pointwise", autocast = { device = "promote" }, dtypes = "floating + complex", keeps_dtype = true,
     grad = { x = "g", tensor1 = "mul(g, conj(div(value, tensor2)))",
              tensor2 = "neg(mul(g, conj(div(mul(tensor1, value), square(tensor2)))))" },
     doc = "`x` plus a multiple of the quotient of two tensors; all broadcast.",
     args = { tensor1 = "the dividend", tensor2 = "the divisor", value = "the factor of the quotient" },
     formula = "y = x + value * tensor1 / tensor2",
     example = "ml.addcdiv(ml.tensor {1.0, 1}, ml.tensor {2.0, 3}, ml.tensor {4.0, 5}, 0.5)",
     gives = [[
{1.2500, 1.3000}
Tensor (2,) float32]],
     sample = { "randn(3, 4), randn(3, 4), rand(4) + 0.5, 0.5", complex_pair .. ", complex(rand(4) + 0.5, randn(4)), 0.5" },
     torch = "torch.addcdiv(args[0], args[1], args[2], value=args[3])" }
op { "dist(Tensor x, Tensor other, float p=2) -> Tensor",
     out = true, kind = "composite", autocast = { device = "float32" }, dtypes = "floating",
     doc = "Distance of two tensors: the `p`-norm of their difference; shapes broadcast.",
     args = { other = "the other tensor", p = "the order of the norm, which may be 0 or infinite" },
     shapes = "x (*), other (*) -> ()",
     formula = "y = (sum_i abs(x_i - other_i)^p)^(1 / p)",
     example = "ml.dist(ml.tensor {1.0, 2}, ml.tensor {4.0, 6})", gives = "5.  Tensor () float32",
     sample = { "randn(3, 4), randn(4)", "randn(3, 4), randn(3, 4), 1" } }

-- Rounding.
local rounding = { dtypes = "real", int_to_float = false }
unary("floor", { "Largest integer that is not greater than each element. The gradient is 0.",
    formula = "y = floor(x)",
    example = "ml.floor(ml.tensor {-1.5, 0.5, 2})",
    gives = [[
{-2.,  0.,  2.}
Tensor (3,) float32]] }, "zero", nil, rounding)
unary("ceil", { "Smallest integer that is not less than each element. The gradient is 0.",
    formula = "y = ceil(x)",
    example = "ml.ceil(ml.tensor {-1.5, 0.5, 2})",
    gives = [[
{-1.,  1.,  2.}
Tensor (3,) float32]] }, "zero", nil, rounding)
unary("round", { [[Nearest integer of each element, halves to the even one. With `decimals` the nearest multiple
of a power of ten. The gradient is 0.]],
    formula = "y = round(x)",
    example = "ml.round(ml.tensor {0.5, 1.5, -2.7})",
    gives = [[
{ 0.,  2., -3.}
Tensor (3,) float32]] }, "zero", nil,
  { dtypes = "real", int_to_float = false, alias = { "special.round" } })
op { "round_decimals(Tensor x, int decimals) -> Tensor",
     inplace = true, out = true, kind = "composite", dtypes = "floating", overload_of = "round",
     doc = [[Nearest decimal number of `decimals` digits behind the point, or nearest multiple of a
power of ten where that is negative.]],
     args = { decimals = "the number of digits" },
     shapes = "x (*) -> (*)",
     example = "ml.tensor({3.14159, 2.71828}):round {decimals = 2}",
     gives = [[
{3.1400, 2.7200}
Tensor (2,) float32]],
     torch = "torch.round(args[0], decimals=args[1])",
     sample = { "randn(3, 4) * 100, 1", "randn(3, 4) * 100, -1", "randn(3, 4), 0" } }
op { "round_to_parts(Tensor x, Scalar parts) -> Tensor",
     kind = "pointwise", dtypes = "floating", keeps_dtype = true, internal = true, grad = { x = "zero" },
     doc = "`x` rounded to a multiple of `1 / parts`: what `round` does with decimals.",
     sample = { "randn(3, 4) * 100, 10" }, torch = "torch.round(args[0], decimals=1)" }
op { "round_to_multiples(Tensor x, Scalar unit) -> Tensor",
     kind = "pointwise", dtypes = "floating", keeps_dtype = true, internal = true, grad = { x = "zero" },
     doc = "`x` rounded to a multiple of `unit`: what `round` does with negative `decimals`.",
     sample = { "randn(3, 4) * 100, 10" }, torch = "torch.round(args[0], decimals=-1)" }
unary("trunc", { "Integer part of each element: rounds towards 0. The gradient is 0.",
    formula = "y = trunc(x)",
    example = "ml.trunc(ml.tensor {-1.5, 0.5, 2})",
    gives = [[
{-1.,  0.,  2.}
Tensor (3,) float32]] }, "zero", nil, { dtypes = "real", int_to_float = false, alias = { "fix" } })
unary("frac", { "Fractional part of each element, with its sign.",
    formula = "y = x - trunc(x)",
    example = "ml.frac(ml.tensor {-1.5, 0.25, 2})",
    gives = [[
{-0.5000,  0.2500,  0.0000}
Tensor (3,) float32]] }, "g", nil, { int_to_float = false })
