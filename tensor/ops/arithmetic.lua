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
binary("add", "`x + other`, element by element; shapes broadcast.", { x = "g", other = "g" },
  both(pair, complex_pair), { dtypes = "all + storage_unsigned", meta = "__add" })
binary("sub", "`x - other`, element by element; shapes broadcast. Not for bools.", { x = "g", other = "neg(g)" },
  both(pair, complex_pair),
  { dtypes = "real + complex + storage_unsigned", refuses_bool = true, meta = "__sub", alias = { "subtract" } })
binary("mul", "`x * other`, element by element; shapes broadcast.",
  { x = "mul(g, conj(other))", other = "mul(g, conj(x))" }, both(pair, complex_pair),
  { dtypes = "any", meta = "__mul", alias = { "multiply" } })
binary("div", "`x / other`, element by element; integers divide as numbers of the default dtype.",
  { x = "div(g, conj(other))", other = "neg(mul(g, conj(div(y, other))))" }, both(divisors, complex_pair),
  { dtypes = "floating + complex", int_to_float = true, meta = "__div", alias = { "divide", "true_divide" } })
op { "div_mode(Operand x, Operand other, string rounding_mode) -> Tensor",
     inplace = true, out = true, kind = "composite", dtypes = "real", overload_of = "div",
     doc = [[`x / other` rounded: `rounding_mode` is "floor" (as `floor_divide`) or "trunc" (toward zero).]],
     torch = "torch.div(args[0], args[1], rounding_mode=args[2])",
     sample = { 'randn(3, 4), rand(4) + 0.5, "floor"', 'randn(3, 4), rand(4) + 0.5, "trunc"',
                'randint(-9, 9, {3, 4}), randint(1, 4, {3, 4}), "floor"' } }

-- With a factor: what optimisers and residual sums do in one pass.
local scaled = { "randn(3, 4), randn(4), 0.5", "randn(3, 4), 2.5, -2", "randint(0, 9, {3, 4}), randint(0, 9, {4}), 3",
                 complex_pair .. ", 0.5" }
local scaled_check = { dtypes = "integers take no fraction as a factor",
                       cuda = "integers take no fraction as a factor" }
op { "add_scaled(Operand x, Operand other, Scalar alpha) -> Tensor",
     kind = "pointwise", overload_of = "add", keeps_dtype = true, scales = true, dtypes = "all",
     grad = { x = "g", other = "mul(g, conj(alpha))" },
     doc = "`x + alpha * other`; `alpha` comes by name: `x:add(y, {alpha = 2})`.",
     torch = "torch.add(args[0], args[1], alpha=args[2])", sample = scaled, check = scaled_check }
op { "sub_scaled(Operand x, Operand other, Scalar alpha) -> Tensor",
     kind = "pointwise", overload_of = "sub", keeps_dtype = true, scales = true, refuses_bool = true,
     dtypes = "real + complex",
     grad = { x = "g", other = "neg(mul(g, conj(alpha)))" },
     doc = "`x - alpha * other`; `alpha` comes by name: `x:sub(y, {alpha = 2})`.",
     torch = "torch.sub(args[0], args[1], alpha=args[2])", sample = scaled, check = scaled_check }
op { "rsub(Operand x, Operand other, Scalar alpha=1) -> Tensor",
     out = true, kind = "composite", dtypes = "real + complex",
     doc = "`other - alpha * x`: `sub` the other way round.",
     torch = "torch.rsub(args[0], args[1], alpha=args[2] if len(args) > 2 else 1)",
     sample = { "randn(3, 4), randn(4)", "randn(3, 4), 2.5", "randn(3, 4), randn(4), 2" } }

binary("floor_divide", "`x / other` rounded toward minus infinity. Integer division by zero is an error.",
  { x = "zero", other = "zero" }, divisors,
  { dtypes = "real", meta = "__idiv", divides = true })
binary("trunc_divide", "`x / other` rounded toward zero. Integer division by zero is an error.",
  { x = "zero", other = "zero" }, divisors,
  { dtypes = "real", torch = 'torch.div(*args, rounding_mode="trunc")', divides = true })
binary("remainder", "The remainder of `x / other` with the sign of `other`, as Lua's `%`.",
  { x = "g", other = "neg(mul(g, floor_divide(x, other)))" }, divisors,
  { dtypes = "real", meta = "__mod", divides = true })
binary("fmod", "The remainder of `x / other` with the sign of `x`.",
  { x = "g", other = "neg(mul(g, trunc_divide(x, other)))" }, divisors,
  { dtypes = "real", divides = true })
op { "pow(Operand x, Operand exponent) -> Tensor",
     kind = "pointwise", autocast = { cuda = "float32" }, dtypes = "real + complex", meta = "__pow",
     grad = { x = "pow_grad_x(g, x, exponent)", exponent = "pow_grad_exponent(g, x, exponent, y)" },
     doc = [[`x` to the power `exponent`. Integers stay integers; a negative integer power of an
integer other than 1 and -1 is 0.]],
     sample = { "rand(3, 4) + 0.5, randn(3, 4)", "rand(3, 4) + 0.5, randn(4)", "randn(3, 4), 2", "2.5, randn(3, 4)",
                complex_pair } }
op { "float_power(Operand x, Operand exponent) -> Tensor",
     inplace = true, out = true, kind = "composite", dtypes = "all",
     doc = "`x` to the power `exponent`, computed in float64, or in complex128 where one is complex.",
     sample = { "rand(3, 4) + 0.5, randn(4)", "randint(1, 5, {3, 4}), 2", "2, randn(3)", complex_pair } }
op { "ldexp(Tensor x, Operand other) -> Tensor",
     inplace = true, out = true, kind = "composite", dtypes = "all",
     doc = "`x` times two to the power `other`: `x * 2^other`.",
     sample = { "randn(3, 4), randint(-3, 3, {4})", "randn(3, 4), randn(3, 4)", "randn(3, 4):half(), randint(-3, 3, {4})", "randn(3, 4), -2" },
     torch = "torch.ldexp(args[0], torch.as_tensor(args[1]))" }
op { "frexp(Tensor x) -> (Tensor mantissa, Tensor exponent)",
     out = true, kind = "composite", dtypes = "floating",
     doc = [[`x` taken apart as `mantissa * 2^exponent`, the mantissa's magnitude being in [0.5, 1) and the
exponent an int32. 0, infinities and NaN are their own mantissa, with exponent 0.]],
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
     doc = "The greatest common divisor, which is not negative; that of 0 and 0 is 0.", sample = whole }
op { "lcm(Tensor x, Tensor other) -> Tensor", kind = "pointwise", dtypes = "integral",
     doc = "The least common multiple, which is not negative; 0 where one is 0.", sample = whole }

unary("neg", "The negative: `-x`.", "neg(g)", nil, { dtypes = "real + complex", int_to_float = false, meta = "__unm", alias = { "negative" } })
unary("abs", "The absolute value; the modulus of a complex element.", "mul(g, sgn(x))", both(),
  { dtypes = "real + complex + storage_floating", int_to_float = false, result = "real", inplace = "stored", alias = { "absolute" } })
unary("sign", "-1, 0 or 1 with the sign of each element.", "zero", nil,
  { dtypes = "real + boolean", int_to_float = false })
unary("sgn", "The sign; for a complex element, the element divided by its modulus.", "sgn_grad_x(g, x)", both(),
  { dtypes = "all", int_to_float = false, check = { gradgrad = "its derivative is checked once" } })
op { "copysign(Tensor x, Operand other) -> Tensor",
     kind = "pointwise", dtypes = "floating", int_to_float = true,
     grad = { x = "mul(g, mul(sign(x), sign(y)))", other = "zero" },
     doc = "The magnitude of `x` with the sign of `other`, whose zero and NaN have one too.",
     sample = { "randn(3, 4), randn(4)", "randn(3, 4), -1", "randint(0, 4, {3, 4}), randn(3, 4)" } }
unary("square", "The square of each element: `x * x`.", "mul(g, mul(conj(x), 2.0))", both(),
  { dtypes = "real + complex", int_to_float = false })
unary("sqrt", "The square root.", "div(g, mul(conj(y), 2.0))", both(positive), complex)
unary("rsqrt", "`1 / sqrt(x)`.", "mul(g, mul(conj(mul(y, square(y))), -0.5))", both(positive), rows.widened(complex))
unary("reciprocal", "The reciprocal: `1 / x`.", "neg(mul(g, square(conj(y))))", both(positive), rows.widened(complex))
op { "positive(Tensor x) -> Tensor", kind = "composite", dtypes = "real + complex",
     doc = "`x` itself; an error for bools, which have no sign.", sample = { "randn(3, 4)" } }

-- Extremes. Equal elements share the gradient; of a NaN it goes where PyTorch's does.
local function extreme(name, below, above, at_least, text)
  local tie = "where(eq(x, other), mul(g, 0.5), g)"
  binary(name, text,
    { x = ("where(%s(x, other), 0.0, %s)"):format(below, tie), other = ("where(%s(x, other), 0.0, %s)"):format(above, tie) },
    { pair[1], pair[2] }, { dtypes = "real + boolean", chooses = true })
  -- fmax and fmin.
  op { ("f%s(Tensor x, Tensor other) -> Tensor"):format(name:sub(1, 3)),
       kind = "pointwise", dtypes = "real + boolean",
       grad = { x = ("where(logical_or(%s(x, other), isnan(other)), %s, 0.0)"):format(at_least, tie),
                other = ("where(logical_or(%s(x, other), isnan(other)), 0.0, %s)"):format(above, tie) },
       doc = text:gsub(";.*", "; where one is NaN, the other."), sample = { pair[1], pair[2] } }
end
extreme("maximum", "lt", "gt", "ge", "The larger of two elements; NaN if either is.")
extreme("minimum", "gt", "lt", "le", "The smaller of two elements; NaN if either is.")
op { "max_pair(Tensor x, Tensor other) -> Tensor", out = true, kind = "composite", dtypes = "real + boolean",
     overload_of = "max", doc = "With another tensor: `maximum(x, other)`.", torch = "torch.max(*args)",
     sample = { pair[2] } }
op { "min_pair(Tensor x, Tensor other) -> Tensor", out = true, kind = "composite", dtypes = "real + boolean",
     overload_of = "min", doc = "With another tensor: `minimum(x, other)`.", torch = "torch.min(*args)",
     sample = { pair[2] } }

-- Limits. A number lets no gradient through where it is reached, as in PyTorch.
op { "clamp_min(Tensor x, Scalar min) -> Tensor",
     kind = "pointwise", chooses = { min = "lower" }, dtypes = "real", grad = { x = "where(gt(x, min), g, 0.0)" },
     doc = "`x`, but at least `min`.", sample = { "randn(3, 4), -0.3" } }
op { "clamp_max(Tensor x, Scalar max) -> Tensor",
     kind = "pointwise", chooses = { max = "upper" }, dtypes = "real", grad = { x = "where(lt(x, max), g, 0.0)" },
     doc = "`x`, but at most `max`.", sample = { "randn(3, 4), 0.3" } }
op { "clamp_between(Tensor x, Scalar min, Scalar max) -> Tensor",
     kind = "pointwise", chooses = { min = "lower", max = "upper" }, dtypes = "real", internal = true,
     grad = { x = "where(logical_and(gt(x, min), lt(x, max)), g, 0.0)" },
     doc = "`clamp` with both limits.", sample = { "randn(3, 4), -0.3, 0.4", "randn(3, 4), 0.4, -0.3" },
     torch = "torch.clamp(*args)" }
op { "clamp(Tensor x, Scalar? min=nil, Scalar? max=nil) -> Tensor",
     inplace = true, out = true, kind = "composite", dtypes = "real", alias = { "clip" },
     doc = [[`x` limited to the range from `min` to `max`; either may be left out. Where `min` is above
`max` the result is `max`.]],
     sample = { "randn(3, 4), -0.3, 0.4", "randn(3, 4), nil, 0.2", "randint(0, 9, {3, 4}), 2, 6" } }
for _, bound in ipairs { "min", "max" } do
  op { ("clamp_%s_tensor(Tensor x, Tensor %s) -> Tensor"):format(bound, bound),
       inplace = true, out = true, kind = "composite", dtypes = "real + boolean", overload_of = "clamp_" .. bound,
       doc = "With a limit for each element; the two broadcast.",
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
     doc = "With limits for each element, which broadcast; an element equal to its limit shares the gradient with it.",
     torch = "torch.clamp(*args)",
     sample = { "randn(3, 4), randn(4) - 0.5, randn(3, 4) + 0.5", "randn(3, 4), nil, randn(4)" } }
op { "nan_to_num(Tensor x, float nan=0.0, float? posinf=nil, float? neginf=nil) -> Tensor",
     inplace = true, out = true, kind = "composite", dtypes = "all",
     doc = [[`x` with NaN replaced by `nan`, infinity by `posinf` and minus infinity by `neginf`, which are the
largest and the smallest number of the dtype unless given. Both parts of complex elements.]],
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
     doc = "From `x` to `end`: `x + weight * (end - x)`.",
     sample = { "randn(3, 4), randn(3, 4), 0.3", "randn(3, 4), randn(4), rand(3, 4)",
                complex_pair .. ", complex(randn(4), randn(4))" } }
op { "addcmul(Tensor x, Tensor tensor1, Tensor tensor2, Scalar value=1) -> Tensor",
     kind = "pointwise", autocast = { cuda = "promote" }, dtypes = "real + complex", keeps_dtype = true,
     grad = { x = "g", tensor1 = "mul(g, conj(mul(tensor2, value)))", tensor2 = "mul(g, conj(mul(tensor1, value)))" },
     doc = "`x + value * tensor1 * tensor2`.",
     sample = { "randn(3, 4), randn(3, 4), randn(4), 0.5", complex_pair .. ", complex(randn(4), randn(4)), 0.5" },
     torch = "torch.addcmul(args[0], args[1], args[2], value=args[3])" }
op { "addcdiv(Tensor x, Tensor tensor1, Tensor tensor2, Scalar value=1) -> Tensor",
     kind = "pointwise", autocast = { cuda = "promote" }, dtypes = "floating + complex", keeps_dtype = true,
     grad = { x = "g", tensor1 = "mul(g, conj(div(value, tensor2)))",
              tensor2 = "neg(mul(g, conj(div(mul(tensor1, value), square(tensor2)))))" },
     doc = "`x + value * tensor1 / tensor2`.",
     sample = { "randn(3, 4), randn(3, 4), rand(4) + 0.5, 0.5", complex_pair .. ", complex(rand(4) + 0.5, randn(4)), 0.5" },
     torch = "torch.addcdiv(args[0], args[1], args[2], value=args[3])" }
op { "dist(Tensor x, Tensor other, float p=2) -> Tensor",
     out = true, kind = "composite", autocast = { cuda = "float32" }, dtypes = "floating",
     doc = "The `p`-norm of `x - other`; the two broadcast.", sample = { "randn(3, 4), randn(4)", "randn(3, 4), randn(3, 4), 1" } }

-- Rounding.
local rounding = { dtypes = "real", int_to_float = false }
unary("floor", "Rounds down.", "zero", nil, rounding)
unary("ceil", "Rounds up.", "zero", nil, rounding)
unary("round", "Rounds to the nearest whole number, halves to the even one.", "zero", nil,
  { dtypes = "real", int_to_float = false, alias = { "special.round" } })
op { "round_decimals(Tensor x, int decimals) -> Tensor",
     inplace = true, out = true, kind = "composite", dtypes = "floating", overload_of = "round",
     doc = "To `decimals` positions behind the point, or in front of it where it is negative: `x:round{decimals = 2}`.",
     torch = "torch.round(args[0], decimals=args[1])",
     sample = { "randn(3, 4) * 100, 1", "randn(3, 4) * 100, -1", "randn(3, 4), 0" } }
op { "round_to_parts(Tensor x, Scalar parts) -> Tensor",
     kind = "pointwise", dtypes = "floating", keeps_dtype = true, internal = true, grad = { x = "zero" },
     doc = "`x` rounded to a multiple of `1 / parts`: what `round` does with decimals.",
     sample = { "randn(3, 4) * 100, 10" }, torch = "torch.round(args[0], decimals=1)" }
op { "round_to_multiples(Tensor x, Scalar unit) -> Tensor",
     kind = "pointwise", dtypes = "floating", keeps_dtype = true, internal = true, grad = { x = "zero" },
     doc = "`x` rounded to a multiple of `unit`: what `round` does with positions in front of the point.",
     sample = { "randn(3, 4) * 100, 10" }, torch = "torch.round(args[0], decimals=-1)" }
unary("trunc", "Rounds toward zero.", "zero", nil, { dtypes = "real", int_to_float = false, alias = { "fix" } })
unary("frac", "What `trunc` takes away.", "g", nil, { int_to_float = false })
