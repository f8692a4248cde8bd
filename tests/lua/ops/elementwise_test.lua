-- tests/lua/ops/elementwise_test.lua: what samples cannot show of arithmetic, comparisons and choices:
-- factors, rounding modes, limits, NaN and ties in gradients, what is refused, complex numbers as
-- values, questions about dtypes, and that vectors compute what single elements do. The numbers are
-- PyTorch's.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local nan, inf = 0 / 0, 1 / 0

-- The elements of two tensors or tables are the same, NaN included.
local function same(got, want, dtype)
  if dtype then expect.equal(got.dtype, dtype) end
  local a = got:double():reshape(-1):tolist()
  expect.equal(#a, #want)
  for i, w in ipairs(want) do
    local x = a[i]
    if not (x == w or (x ~= x and w ~= w) or math.abs(x - w) <= 1e-6 * math.max(1, math.abs(w))) then
      error(("element %d is %s, want %s"):format(i, x, w), 2)
    end
  end
end

-- The gradients of the sum of f at lists of numbers.
local function gradients(f, ...)
  local leaves = {}
  for i, list in ipairs { ... } do leaves[i] = ml.tensor(list, { dtype = "float32", requires_grad = true }) end
  return ml.grad(f(table.unpack(leaves)):sum(), leaves)
end

test("alpha scales what is added and subtracted, in every form", function()
  local x, y = ml.tensor { 1.0, 2 }, ml.tensor { 10.0, 20 }
  same(ml.add(x, y, { alpha = 0.5 }), { 6, 12 })
  same(x:add(y, { alpha = 2 }), { 21, 42 })
  same(ml.sub { x, y, alpha = 0.5 }, { -4, -8 })
  same(x:add(1, { alpha = 3 }), { 4, 5 })
  same(x:clone():add_(y, { alpha = -1 }), { -9, -18 })
  same(x:clone():subtract_(y, { alpha = 0.1 }), { 0, 0 })
  same(ml.rsub(x, y, { alpha = 2 }), { 8, 16 })
  local out = ml.empty(2)
  expect.truthy(rawequal(ml.add(x, y, { alpha = 2, out = out }), out))
  same(out, { 21, 42 })
  local i = ml.tensor { 1, 2 }
  same(i:add(i, { alpha = 2 }), { 3, 6 }, "int64")
  expect.error(function() i:add(i, { alpha = 1.5 }) end, "alpha is 1.5")
  expect.error(function() i:add(i, { alpha = true }) end, "no bool")
  expect.error(function() x:add(y, { alpha = ml.complex(0, 1) }) end, "is real")
end)

test("bools are not subtracted", function()
  local b = ml.tensor { true, false }
  expect.error(function() return b - b end, "sub: dtype bool")
  expect.error(function() return b - 1 end, "logical_xor")
  expect.error(function() return ml.tensor { 1, 2 } - b end, "sub: dtype bool")
  expect.error(function() return ml.rsub(b, 1) end, "dtype bool")
  expect.error(function() return ml.positive(b) end, "positive: ")
end)

test("rounding modes and decimals in every form", function()
  local x = ml.tensor { -7.0, 7 }
  same(x:div(2, { rounding_mode = "floor" }), { -4, 3 })
  same(ml.divide(x, 2, { rounding_mode = "trunc" }), { -3, 3 })
  same(x:clone():div_(2, { rounding_mode = "trunc" }), { -3, 3 })
  same(x:clone():true_divide_(2), { -3.5, 3.5 })
  expect.error(function() x:div_(2, { rounding_mode = "up" }) end, "rounding_mode is 'up'")
  same(ml.tensor({ 1.256, -2.347 }):round { decimals = 2 }, { 1.26, -2.35 })
  same(ml.tensor({ 1256.0, 149 }):round_ { decimals = -2 }, { 1300, 100 })
  expect.error(function() ml.tensor({ 1 }):round { decimals = 1 } end, "round: ")
  same(ml.fix(ml.tensor { 1.7, -1.7 }), { 1, -1 })
end)

test("limits are numbers or tensors", function()
  local x = ml.tensor { -1.0, 0.5, 3, nan }
  same(x:clamp(0, 1), { 0, 0.5, 1, nan })
  same(x:clip { max = 1 }, { -1, 0.5, 1, nan })
  same(x:clamp(2, 1), { 1, 1, 1, nan })
  same(x:clone():clamp_(0, 1), { 0, 0.5, 1, nan })
  same(x:clone():clip_ { min = 0 }, { 0, 0.5, 3, nan })
  same(x:clamp { min = ml.tensor { 0, 1.0, 1, 1 } }, { 0, 1, 3, nan })
  same(x:clone():clamp_(ml.tensor(0.0), ml.tensor(1.0)), { 0, 0.5, 1, nan })
  same(x:clamp_min(ml.tensor { 0.0, nan, 0, 0 }), { 0, nan, 3, nan })
  same(ml.tensor({ 1, 2 }):clamp(1.5), { 1.5, 2 }, "float32")
  same(ml.tensor({ true, false }):clamp(0), { 1, 0 }, "int64")
  same(ml.clamp(ml.tensor { 1, 2 }, ml.tensor(1.5)), { 1.5, 2 }, "float32")
  expect.error(function() x:clamp() end, "at least one of min and max")
  local g = gradients(function(t) return t:clamp(1, 2) end, { 0, 1, 1.5, 2, 3, nan })
  same(g, { 0, 0, 1, 0, 0, 0 })
  same(gradients(function(t) return t:clamp_min(1) end, { 0, 1, 2 }), { 0, 0, 1 })
  local gx, gmin, gmax = gradients(ml.clamp, { 1, 2, 0, 3, 5, 1, 1, nan, 1 }, { 1, 1, 1, 1, 3, 1, 2, 1, nan },
    { 2, 2, 2, 2, 1, 1, 2, 2, 2 })
  same(gx, { 0.5, 0.5, 0, 0, 0, 1, 0, 1, 1 })
  same(gmin, { 0.5, 0, 1, 0, 0, 0, 1, 0, 0 })
  same(gmax, { 0, 0.5, 0, 1, 1, 0, 0, 0, 0 })
end)

test("extremes of two tensors: NaN and ties", function()
  local a, b = { 1, 2, nan, 3, nan }, { 1, 3, 2, nan, nan }
  same(ml.maximum(ml.tensor(a), ml.tensor(b)), { 1, 3, nan, nan, nan })
  same(ml.fmax(ml.tensor(a), ml.tensor(b)), { 1, 3, 2, 3, nan })
  same(ml.fmin(ml.tensor(a), ml.tensor(b)), { 1, 2, 2, 3, nan })
  same(ml.max(ml.tensor { 1, 5 }, ml.tensor { 2, 4 }), { 2, 5 })
  same(ml.tensor({ 1, 5 }):min(ml.tensor { 2, 4 }), { 1, 4 })
  local ga, gb = gradients(ml.maximum, a, b)
  same(ga, { 0.5, 0, 1, 1, 1 })
  same(gb, { 0.5, 1, 1, 1, 1 })
  ga, gb = gradients(ml.minimum, { 1, 2, nan }, { 1, 3, 2 })
  same(ga, { 0.5, 1, 1 })
  same(gb, { 0.5, 0, 1 })
  ga, gb = gradients(ml.fmax, a, b)
  same(ga, { 0.5, 0, 0, 1, 1 })
  same(gb, { 0.5, 1, 1, 0, 0 })
  ga, gb = gradients(ml.fmin, a, b)
  same(ga, { 0.5, 1, 0, 1, 1 })
  same(gb, { 0.5, 0, 1, 0, 0 })
end)

test("signs of zeros and infinities", function()
  local signs = ml.tensor { 0.0, -0.0, -inf, -0.0 }
  same(1 / ml.tensor({ 1.0, -2, 3, 0 }):copysign(signs), { 1, -0.5, -1 / 3, -inf })
  same(signs:signbit(), { 0, 1, 1, 1 }, "bool")
  same(ml.tensor({ -1, 0, 1 }):signbit(), { 1, 0, 0 })
  same(ml.tensor({ true, false }):copysign(-1), { -1, 0 }, "float32")
  local mantissa, exponent = ml.tensor({ 0.5, 1, -8, 1e-40, 0, inf, nan }):frexp()
  same(mantissa:mul(ml.ldexp(ml.ones(7):double(), exponent)), { 0.5, 1, -8, 9.9999461e-41, 0, inf, nan })
  same(exponent, { 0, 1, 4, -132, 0, 0, 0 }, "int32")
end)

test("gradients at edges", function()
  same((gradients(ml.copysign, { 1, -2, 0, 3 }, { -1, 0, -1, -0.0 })), { -1, -1, 0, -1 })
  same(gradients(ml.nan_to_num, { 1, inf, nan }), { 1, 0, 0 })
  same(gradients(function(x) return (ml.frexp(x)) end, { 1, 0, -3, 100 }), { 0.5, 1, 0.25, 0.0078125 })
  same((gradients(ml.nextafter, { 1, 2 }, { 1, 3 })), { 0, 1 })
  local gx, gn = gradients(ml.ldexp, { 1, 2 }, { 1, 3 })
  same(gx, { 2, 8 })
  same(gn, { 1.3862943649, 11.0903549194 })
  local gd, ge = gradients(ml.dist, { 1, 2 }, { 1, 2 })
  same(gd, { 0, 0 })
  same(ge, { 0, 0 })
end)

test("the neighbours of numbers in each format", function()
  local function next_of(x, to, dtype)
    local y = ml.nextafter(ml.tensor({ x }, { dtype = dtype }), ml.tensor({ to }, { dtype = dtype }))
    expect.equal(y.dtype, dtype)
    return y:double():item()
  end
  expect.equal(next_of(1, 2, "float16"), 1 + 2 ^ -10)
  expect.equal(next_of(1, 0, "float16"), 1 - 2 ^ -11)
  expect.equal(next_of(1, 2, "bfloat16"), 1 + 2 ^ -7)
  expect.equal(next_of(1, 2, "float32"), 1 + 2 ^ -23)
  expect.equal(next_of(-1, -2, "float64"), -1 - 2 ^ -52)
  expect.equal(next_of(0, -1, "float16"), -2 ^ -24)
  expect.equal(next_of(0, 1, "float64"), 2 ^ -1074)
  expect.equal(next_of(2 ^ -14, 0, "float16"), 2 ^ -14 - 2 ^ -24)
  expect.equal(next_of(inf, 0, "float16"), 65504)
  expect.equal(next_of(65504, inf, "float16"), inf)
  expect.equal(next_of(inf, 0, "float64"), ml.finfo("float64").max)
  expect.equal(next_of(-inf, 0, "bfloat16"), ml.finfo("bfloat16").min)
  expect.equal(next_of(3, 3, "float32"), 3)
  expect.truthy(next_of(nan, 3, "float32") ~= next_of(nan, 3, "float32"))
  expect.error(function() ml.nextafter(ml.tensor { 1 }, ml.tensor { 2 }) end, "nextafter: ")
end)

test("nan_to_num knows the limits of the dtype", function()
  local x = ml.tensor { nan, inf, -inf, 1 }
  same(x:nan_to_num(), { 0, 3.4028234663852886e38, -3.4028234663852886e38, 1 })
  same(x:half():nan_to_num(), { 0, 65504, -65504, 1 }, "float16")
  same(x:nan_to_num { nan = 7, posinf = 8, neginf = 9 }, { 7, 8, 9, 1 })
  same(x:clone():nan_to_num_(5), { 5, 3.4028234663852886e38, -3.4028234663852886e38, 1 })
  same(ml.tensor({ 1, 2 }):nan_to_num(), { 1, 2 }, "int64")
  same(ml.view_as_real(ml.complex(x, ml.ones(4)):nan_to_num { posinf = 2, neginf = 3 }), { 0, 1, 2, 1, 3, 1, 1, 1 })
end)

test("comparisons and truth values change their tensor in place", function()
  local x = ml.tensor { 1.0, 2, 3 }
  for name, want in pairs { eq_ = { 0, 1, 0 }, ne_ = { 1, 0, 1 }, not_equal_ = { 1, 0, 1 }, gt_ = { 0, 0, 1 },
      greater_ = { 0, 0, 1 }, ge_ = { 0, 1, 1 }, greater_equal_ = { 0, 1, 1 }, lt_ = { 1, 0, 0 }, less_ = { 1, 0, 0 },
      le_ = { 1, 1, 0 }, less_equal_ = { 1, 1, 0 } } do
    local y = x:clone()
    expect.truthy(rawequal(y[name](y, 2), y), name)
    same(y, want, "float32")
  end
  same(ml.tensor({ 0, 2.0 }):logical_not_(), { 1, 0 }, "float32")
  same(ml.tensor({ 1, 0, 2 }):logical_xor_(ml.tensor { 1, 1, 0 }), { 0, 1, 1 }, "int64")
  same(ml.tensor({ -1.0 }):absolute_(), { 1 })
  same(ml.tensor({ 5 }):bitwise_not_(), { -6 })
end)

test("whole numbers: signs, zeros, overflow", function()
  same(ml.gcd(ml.tensor { -12, 0, 7, 0 }, ml.tensor { 18, -5, 0, 0 }), { 6, 5, 7, 0 })
  same(ml.lcm(ml.tensor { -12, 0, 7, 0 }, ml.tensor { 18, -5, 0, 0 }), { 36, 0, 0, 0 })
  local least = ml.tensor { math.mininteger }
  expect.equal(ml.gcd(least, ml.tensor { -1 }):item(), 1)
  expect.equal(ml.gcd(least, ml.tensor { 0 }):item(), math.mininteger)
  expect.error(function() ml.gcd(ml.tensor { 1.5 }, ml.tensor { 2 }) end, "gcd: dtype float32")
end)

test("closeness and equality", function()
  local a, b = ml.tensor { 1, inf, -inf, nan, inf }, ml.tensor { 1 + 1e-6, inf, -inf, nan, -inf }
  same(ml.isclose(a, b), { 1, 1, 1, 0, 0 }, "bool")
  same(a:isclose(b, { equal_nan = true }), { 1, 1, 1, 1, 0 })
  same(ml.isclose(ml.tensor { 1, 2 }, ml.tensor { 1, 3 }, { rtol = 0.5 }), { 1, 1 })
  same(ml.isclose(ml.tensor { true, false }, ml.tensor { true, true }), { 1, 0 })
  expect.equal(ml.allclose(a, b), false)
  expect.equal(ml.tensor({ 1.0 }):allclose(ml.tensor { 1.1 }, { rtol = 0, atol = 0.2 }), true)
  expect.error(function() ml.isclose(ml.tensor { 1 }, ml.tensor { 1.0 }) end, "must be the same")
  expect.error(function() ml.isclose(a, b, { rtol = -1 }) end, "negative")
  expect.equal(ml.equal(ml.tensor { 1, 2 }, ml.tensor { 1.0, 2 }), true)
  expect.equal(ml.equal(ml.tensor { 1, 2 }, ml.tensor { 1 }), false)
  expect.equal(ml.equal(ml.tensor { nan }, ml.tensor { nan }), false)
  expect.equal(ml.is_nonzero(ml.tensor(0.5)), true)
  expect.error(function() ml.is_nonzero(ml.tensor { 1, 2 }) end, "one element is expected")
end)

test("membership agrees with comparing one by one", function()
  ml.manual_seed(3)
  for _, sizes in ipairs { { 30, 5 }, { 30, 100 }, { 500, 200 }, { 0, 20 }, { 20, 0 } } do
    local x, tests = ml.randint(0, 150, { sizes[1] }), ml.randint(0, 150, { sizes[2] })
    local known = {}
    for _, v in ipairs(tests:tolist()) do known[v] = true end
    local want, other = {}, {}
    for i, v in ipairs(x:tolist()) do
      want[i] = known[v] and 1 or 0
      other[i] = 1 - want[i]
    end
    same(ml.isin(x, tests), want, "bool")
    same(ml.isin(x, tests, { invert = true }), other, "bool")
  end
  local many = ml.cat { ml.arange(1, 20):float(), ml.tensor { nan } }
  same(ml.isin(ml.tensor { nan, 3, 21.0 }, many), { 0, 1, 0 })
  same(ml.isin(ml.tensor { nan, 3, 21.0 }, many, { assume_unique = true }), { 0, 1, 0 })
end)

test("masks choose tensors of one element", function()
  local x, mask = ml.tensor { 1.0, 2 }, ml.tensor { true, false }
  same(x:masked_fill(mask, ml.tensor(5)), { 5, 2 }, "float32")
  same(ml.tensor({ 1, 2 }):masked_fill(mask, ml.tensor(2.75)), { 2, 2 }, "int64")
  same(x:clone():masked_fill_(mask, ml.tensor(7.0, { dtype = "float64" })), { 7, 2 }, "float32")
  expect.error(function() x:masked_fill(mask, ml.tensor { 1.0 }) end, "no dimensions")
  same(x:clone():fill_(ml.tensor(2.5)), { 2.5, 2.5 })
  same(ml.tensor({ 1, 2 }):fill_(ml.tensor(2.75)), { 2, 2 }, "int64")
  expect.error(function() x:clone():fill_(ml.tensor { 1.0, 2 }) end, "no dimensions")
  local value = ml.tensor(3.0, { requires_grad = true })
  expect.equal(ml.grad((x:masked_fill(mask, value) * ml.tensor { 2, 3.0 }):sum(), value):item(), 2)
  expect.equal(ml.grad((x:clone():fill_(value) * ml.tensor { 2, 3.0 }):sum(), value):item(), 5)
  same(x:where(mask, 9), { 1, 9 })
  same(x:where(mask, ml.tensor { 8.0, 9 }), { 1, 9 })
  local rows, columns = table.unpack(ml.where(ml.tensor { { 0, 1 }, { 2, 0 } }))
  same(rows, { 1, 2 }, "int64")
  same(columns, { 2, 1 }, "int64")
  expect.equal(#ml.where(ml.tensor(1)), 1)
  expect.equal(#ml.where(ml.zeros(0, 2)), 2)
end)

test("powers of two keep the dtype, and bools have signs and powers", function()
  same(ml.ldexp(ml.tensor({ 1.5, 2 }):half(), ml.tensor { 2, -1 }), { 6, 1 }, "float16")
  same(ml.ldexp(ml.tensor({ 1.0 }):double(), ml.tensor { 1000 }), { 2.0 ^ 1000 }, "float64")
  same(ml.ldexp(ml.tensor { 3 }, ml.tensor { 2 }), { 12 }, "float32")
  same(ml.sign(ml.tensor { true, false }), { 1, 0 }, "bool")
  local exponent = ml.tensor { true, false }
  same(gradients(function(x) return x:pow(exponent) end, { 3, 4 }), { 1, 0 })
  same(ml.pow { ml.tensor { 2.0 }, exponent = 3 }, { 8 })
  same(ml.addcdiv(ml.ones(1), ml.ones(1), { tensor2 = ml.tensor { 2.0 }, value = 3 }), { 2.5 })
  same(ml.where { condition = ml.tensor { true }, x = 1.5, other = ml.zeros(1) }, { 1.5 })
end)

test("float_power computes in float64", function()
  same(ml.float_power(ml.tensor { 1, 2 }, -2), { 1, 0.25 }, "float64")
  same(ml.float_power(2, ml.tensor { 1, 3 }), { 2, 8 }, "float64")
  expect.equal(ml.float_power(ml.tensor { 2 }, ml.complex(0, 1)).dtype, "complex128")
end)

-- One element of a complex tensor, near the number.
local function near(z, re, im)
  expect.near({ z.real, z.imag }, { re, im })
end

test("complex numbers are values", function()
  local z, w = ml.complex(1, 2), ml.complex(3, -1)
  near(z + w, 4, 1)
  near(z - 1, 0, 2)
  near(2 * z, 2, 4)
  near(z / w, 0.1, 0.7)
  near(z ^ 2, -3, 4)
  near(-z, -1, -2)
  near(z:conj(), 1, -2)
  expect.near(ml.complex(3, 4):abs(), 5)
  expect.near(ml.complex(0, 2):angle(), math.pi / 2)
  expect.truthy(z == ml.complex(1, 2))
  expect.truthy(z ~= w)
  expect.equal(tostring(w), "3-1i")
  expect.equal("z = " .. z, "z = 1+2i")
  expect.error(function() return z.re end, "did you mean 'real'")
  expect.error(function() return z + {} end, "takes numbers and tensors")
  expect.error(function() return z < w end, "compare")
  expect.error(function() return ml.complex(1) end, "imag")
end)

test("complex numbers stand where numbers do", function()
  local i = ml.complex(0, 1)
  local y = ml.ones(2) + i
  expect.equal(y.dtype, "complex64")
  near(y[1]:item(), 1, 1)
  near((i - ml.ones(2))[1]:item(), -1, 1)
  near((ml.ones(2) * 2 / i)[2]:item(), 0, -2)
  expect.equal((ml.ones(2):double() * i).dtype, "complex128")
  expect.equal((ml.tensor { 1, 2 } * i).dtype, "complex64")
  local t = ml.tensor { i, 2, 2.5 }
  expect.equal(t.dtype, "complex64")
  near(t[1]:item(), 0, 1)
  near(t[3]:item(), 2.5, 0)
  expect.equal(ml.tensor(i, { dtype = "complex128" }).dtype, "complex128")
  expect.equal(ml.full({ 2 }, i).dtype, "complex64")
  t[2] = ml.complex(5, 6)
  near(t:tolist()[2], 5, 6)
  near(t:fill_(i)[3]:item(), 0, 1)
  local s = ml.Storage(1, { dtype = "complex64" })
  s[1] = i
  near(s[1], 0, 1)
end)

test("complex numbers are refused where dtypes are real", function()
  local i, x = ml.complex(0, 1), ml.ones(2)
  local storage = ml.Storage(1)
  for name, f in pairs {
    fill = function() x:fill_(i) end, index = function() x[1] = i end, storage = function() storage[1] = i end,
    ["storage fill"] = function() storage:fill(i) end,
    masked_fill = function() return x:masked_fill(x:gt(0), i) end,
    addcmul = function() return ml.addcmul(x, x, x, i) end, clamp = function() return x:clamp(i) end,
    leaky_relu = function() return ml.leaky_relu(x, i) end, lt = function() return x:lt(i) end,
    arange = function() return ml.arange(1, i) end, linspace = function() return ml.linspace(i, 2, 3) end,
    pad = function() return ml.pad(x, { 1, 1 }, "constant", i) end,
    tensor = function() return ml.tensor({ i }, { dtype = "float32" }) end,
    ["tensor of one"] = function() return ml.tensor(i, { dtype = "float32" }) end,
    full = function() return ml.full({ 2 }, i, { dtype = "int64" }) end,
    add_ = function() x:add_(i) end, addmm = function() return ml.addmm(ml.ones(2, 2), ml.ones(2, 2), ml.ones(2, 2), i) end,
  } do
    expect.error(f, ": ", name)
  end
  same(x, { 1, 1 })
end)

test("parts make complex tensors", function()
  near(ml.complex(ml.tensor { 1.0 }, ml.tensor { 2.0 })[1]:item(), 1, 2)
  expect.equal(tostring(ml.complex(ml.ones(2, 1), ml.ones(3)).shape), tostring(ml.ones(2, 3).shape))
  expect.error(function() ml.complex(ml.tensor { 1 }, ml.tensor { 2 }) end, "complex: ")
  expect.error(function() ml.complex(ml.ones(1):half(), ml.ones(1):half()) end, "no complex dtype")
  expect.error(function() ml.complex(ml.ones(1):double(), ml.ones(1)) end, "must be the same")
  near(ml.polar(ml.tensor { 2.0 }, ml.tensor { math.pi / 2 })[1]:item(), 0, 2)
  local re, im = gradients(function(a, b) return (ml.complex(a, b) * ml.complex(2, 3)).real end, { 1 }, { 1 })
  same(re, { 2 })
  same(im, { -3 })
end)

test("complex functions near and far from 0", function()
  local function value(f, re, im)
    return ml[f](ml.tensor({ ml.complex(re, im) }, { dtype = "complex128" })):item()
  end
  local z = value("log1p", 1e-10, 1e-10)
  expect.near(z.real * 1e10, 1)
  expect.near(z.imag * 1e10, 1)
  z = value("expm1", 1e-10, 1e-10)
  expect.near(z.real * 1e10, 1)
  near(value("log1p", 1e20, 1e20), math.log(1e20) + math.log(2) / 2, math.pi / 4)
  expect.equal(value("log1p", -1, 0).real, -inf)
  local a, b = ml.tensor { ml.complex(1, 2), ml.complex(-inf, 0) }, ml.tensor { ml.complex(3, -1), ml.complex(-inf, 0) }
  local sum = ml.logaddexp(a, b)
  expect.near(sum[1]:item().real, 2.8564, 1e-4)
  expect.near(sum[1]:item().imag, -0.9780, 1e-4)
  expect.equal(sum[2]:item().real, -inf)
end)

test("dtypes: promotion, casts, limits", function()
  expect.equal(ml.promote_types("int64", "float16"), "float16")
  expect.equal(ml.promote_types(ml.uint8, ml.int8), "int16")
  expect.equal(ml.result_type(ml.tensor { 1 }, 1.5), "float32")
  expect.equal(ml.result_type(ml.ones(1):half(), ml.tensor(1.0, { dtype = "float64" })), "float16")
  expect.equal(ml.result_type(1, ml.complex(0, 1)), "complex64")
  expect.equal(ml.can_cast("float32", "int64"), false)
  expect.equal(ml.can_cast("int32", "uint8"), true)
  local f = ml.finfo(ml.float16)
  expect.equal(f.max, 65504.0)
  expect.equal(f.min, -65504.0)
  expect.equal(f.eps, 2 ^ -10)
  expect.equal(f.tiny, 2 ^ -14)
  expect.equal(f.bits, 16)
  expect.equal(ml.finfo().dtype, "float32")
  expect.equal(ml.finfo("float32").max, 3.4028234663852886e38)
  expect.equal(ml.finfo("complex128").max, 1.7976931348623157e308)
  expect.equal(ml.finfo("bfloat16").eps, 0.0078125)
  expect.equal(ml.iinfo("int8").min, -128)
  expect.equal(ml.iinfo("uint8").max, 255)
  expect.equal(ml.iinfo("int64").max, math.maxinteger)
  expect.error(function() ml.iinfo "bool" end, "iinfo: dtype bool")
  expect.error(function() ml.finfo "int32" end, "finfo: dtype int32")
  expect.equal(ml.is_floating_point(ml.ones(1)), true)
  expect.equal(ml.is_complex "complex64", true)
  expect.equal(ml.is_signed(ml.ones(1):to "uint8"), false)
  expect.equal(ml.ones(1):is_signed(), true)
  expect.near(ml.e, math.exp(1))
end)

-- What is done a vector at a time agrees with what is done one by one.

local EDGES = { 0.0, -0.0, 0.5, -1.5, 2.5, 1 / 3, 65504, 65519, 65520, 3e38, 1e39, -1e300, 2.0 ^ 62, 2.0 ^ 63,
  -2.0 ^ 63, 1e-8, 5.9e-8, 6.2e-5, 1e-40, 1e-310, 5e-324, 255, 256, -129, 32768, 2.0 ^ 31, 2.0 ^ 23 + 1,
  2.0 ^ 53 - 1, 7, -3, inf, -inf, nan }
local REAL = { "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64" }

test("conversions of long runs are those of single elements", function()
  for _, from in ipairs(REAL) do
    local x = ml.tensor(EDGES):double():to(from)
    local long = ml.cat({ x, x, x }, 1)
    for _, dtype in ipairs(REAL) do
      local got, want = long:to(dtype):double():tolist(), {}
      for i = 1, #EDGES do want[i] = x[{ { i, i } }]:to(dtype):double():item() end
      for i, value in ipairs(got) do
        local w = want[(i - 1) % #EDGES + 1]
        if value ~= w and (value == value or w == w) then
          error(("%s to %s: %s becomes %s, alone %s"):format(from, dtype, x[(i - 1) % #EDGES + 1], value, w))
        end
      end
    end
  end
end)

test("remainders are exact, however large the quotient", function()
  for _, dtype in ipairs { "float32", "float64" } do
    local numbers = ml.tensor(EDGES, { dtype = "float64" }):to(dtype)
    local x = numbers:unsqueeze(2):expand(#EDGES, #EDGES):reshape(-1)
    local y = numbers:unsqueeze(1):expand(#EDGES, #EDGES):reshape(-1)
    local a, b = x:double():tolist(), y:double():tolist()
    local fmod, remainder = {}, {}
    for i = 1, #a do
      fmod[i] = math.fmod(a[i], b[i])
      local m = fmod[i]
      remainder[i] = ((m > 0 and b[i] < 0) or (m < 0 and b[i] > 0)) and m + b[i] or m
    end
    remainder = ml.tensor(remainder, { dtype = "float64" }):to(dtype)
    expect.truthy(ml.allclose(x:fmod(y):double(), ml.tensor(fmod, { dtype = "float64" }),
      { rtol = 0, atol = 0, equal_nan = true }))
    expect.truthy(ml.allclose(x:remainder(y), remainder, { rtol = 0, atol = 0, equal_nan = true }))
    local number = x:fmod(y):isnan():logical_not()
    expect.equal(ml.ne(x:fmod(y):signbit(), x:signbit()):logical_and(number):any():item(), false)
  end
end)

test("signs of 16-bit floats change as those of float32 do", function()
  for _, dtype in ipairs { "float16", "bfloat16" } do
    local x = ml.tensor(EDGES, { dtype = "float64" }):to(dtype):unsqueeze(2):expand(#EDGES, 9):contiguous()
    local y = x:flip(1)
    for _, part in ipairs { { x, y }, { x:t(), y:t() }, { x[{ {}, { 2, 8 } }], y[{ {}, { 1, 7 } }] }, { x, y[5] } } do
      local a, b = part[1], part[2]
      local wide = { a:float(), b:float() }
      same(a:neg(), wide[1]:neg():double():reshape(-1):tolist(), dtype)
      same(a:abs(), wide[1]:abs():double():reshape(-1):tolist(), dtype)
      same(a:copysign(b), wide[1]:copysign(wide[2]):double():reshape(-1):tolist(), dtype)
      same(a:neg():signbit(), wide[1]:neg():signbit():double():reshape(-1):tolist())
    end
  end
  local z = ml.view_as_complex(ml.tensor { { 3.0, -4.0 }, { 0.0, 0.0 }, { -1.0, 0.0 }, { 0.0, 2.0 }, { -inf, inf } })
  local parts = ml.cat({ z, z, z, z }, 1)
  expect.truthy(ml.allclose(parts:abs(), ml.hypot(parts.real, parts.imag)))
  expect.truthy(ml.allclose(parts:angle(), ml.atan2(parts.imag, parts.real)))
end)

test("a power does not depend on what stands beside it", function()
  for _, dtype in ipairs { "float32", "float64" } do
    local bits = dtype == "float64" and "int64" or "int32"
    ml.manual_seed(4)
    local x, ways = ml.randn { 40, dtype = dtype }:abs(), {}
    local exponents = ml.tensor({ 2, -1, 3, 0.5, 1.7 }, { dtype = dtype }):index_select(1, ml.randint(5, { 40 }))
    for _, exponent in ipairs { 2, -1, 3, 0.5, 1.7 } do
      local whole = x:pow(exponent)
      for n = 1, 40 do
        expect.truthy(ml.equal(x[{ { 1, n } }]:pow(exponent):view(bits), whole[{ { 1, n } }]:view(bits)))
      end
      ways[#ways + 1] = ml.where(exponents:eq(exponent), whole, 0)
    end
    local all = ways[1] + ways[2] + ways[3] + ways[4] + ways[5]
    expect.truthy(ml.equal(x:pow(exponents):view(bits), all:view(bits)))
  end
end)

test("powers of float64 are the C library's but for the last bit", function()
  local bases, exponents = { table.unpack(EDGES) }, { 0.5, -0.5, 1 / 3, 3, -3, 1e19, -1e301, table.unpack(EDGES) }
  for i = 1, 100 do bases[#bases + 1], exponents[#exponents + 1] = 1.07 ^ i - 1, 10 - i / 3 end
  local a = ml.tensor(bases, { dtype = "float64" }):unsqueeze(2)
  local y = ml.pow(a, ml.tensor(exponents, { dtype = "float64" })):tolist()
  for i, base in ipairs(bases) do
    for j, exponent in ipairs(exponents) do
      local got, want = y[i][j], base ^ exponent
      if got ~= want and (got == got or want == want) and not (math.abs(got - want) <= math.abs(want) * 2.3e-16) then
        error(("%s ^ %s is %s, want %s"):format(base, exponent, got, want))
      end
    end
  end
end)

test("frexp takes every number apart", function()
  for _, dtype in ipairs { "float32", "float64" } do
    local x = ml.tensor(EDGES, { dtype = "float64" }):to(dtype)
    local mantissa, exponent = ml.frexp(x)
    local numbers, m, n = x:double():tolist(), mantissa:double():tolist(), exponent:tolist()
    for i, value in ipairs(numbers) do
      if value == 0 or value ~= value or math.abs(value) == inf then
        expect.equal(n[i], 0)
        expect.truthy(m[i] == value or value ~= value)
      else
        expect.truthy(math.abs(m[i]) >= 0.5 and math.abs(m[i]) < 1)
        expect.equal(m[i] * 2.0 ^ (n[i] // 2) * 2.0 ^ (n[i] - n[i] // 2), value)
      end
    end
  end
end)

test("long rows are read and written where they lie", function()
  ml.manual_seed(3)
  for _, dtype in ipairs { "float32", "bfloat16", "int64" } do
    local x = (ml.randn(3, 700) * 10):to(dtype)
    local row, column = x[1]:clone(), x[{ {}, { 1, 1 } }]:clone()
    local want = x + row:expand(3, 700):contiguous()
    expect.truthy(ml.equal(x + row, want))
    expect.truthy(ml.equal(row + x, want))
    expect.truthy(ml.equal(x + column, x + column:expand(3, 700):contiguous()))
    local wide = ml.zeros({ 3, 900 }, { dtype = dtype })
    local out = wide[{ {}, { 101, 800 } }]
    ml.add(x, row, { out = out })
    expect.truthy(ml.equal(out, want))
    expect.truthy(ml.equal(ml.add(out, 1), want + 1))
    expect.equal(wide[{ {}, { 1, 100 } }]:abs():sum():item() + wide[{ {}, { 801, 900 } }]:abs():sum():item(), 0)
    expect.truthy(ml.equal(ml.gt(out, row), ml.gt(want, row:expand(3, 700):contiguous())))
  end
end)

test("numbers that a 16-bit float does not hold are taken in float32", function()
  ml.manual_seed(5)
  for _, dtype in ipairs { "bfloat16", "float16" } do
    for _, n in ipairs { 1, 7, 16, 33, 300, 5000, 70001 } do
      local x, y = (ml.randn(n) * 3):to(dtype), ml.randn(n):to(dtype)
      local a, b = x:float(), y:float()
      for _, k in ipairs { 0.1, 1 / 3, 2 } do
        for i, pair in ipairs { { x * k, a * k }, { x - k, a - k }, { k - x, k - a }, { x / k, a / k },
          { ml.lerp(x, y, k), ml.lerp(a, b, k) }, { ml.add(x, y, { alpha = k }), ml.add(a, b, { alpha = k }) } } do
          expect.truthy(ml.equal(pair[1], pair[2]:to(dtype)), ("%s, %d elements, %g, case %d"):format(dtype, n, k, i))
        end
      end
    end
    local x = ml.randn(40, 12):to(dtype)
    for _, view in ipairs { x:t(), x[{ {}, { 3, 9 } }], x[{ { 1, -1, 2 } }] } do
      expect.truthy(ml.equal(view * 0.1, (view:float() * 0.1):to(dtype)))
    end
  end
end)

test("a number for each row of many dimensions", function()
  ml.manual_seed(4)
  for _, dtype in ipairs { "float32", "float64", "bfloat16", "int64" } do
    local x = (ml.randn(4, 50, 1300) * 10):to(dtype)
    for _, sizes in ipairs { { 4, 1, 1 }, { 50, 1 }, { 4, 50, 1 }, { 4, 1, 1300 } } do
      local y = (ml.randn(sizes) * 10):to(dtype)
      local whole = y:expand(4, 50, 1300):contiguous()
      expect.truthy(ml.equal(x - y, x - whole))
      expect.truthy(ml.equal(ml.maximum(y, x), ml.maximum(whole, x)))
      local gradient = ml.addcmul(x, y, y, { value = 2 })
      expect.truthy(ml.equal(gradient, ml.addcmul(x, whole, whole, { value = 2 })))
    end
  end
  local ones = ml.ones(60, 800) * ml.arange(1, 60):reshape(60, 1)
  expect.truthy(ml.equal(ones:sum(2), ml.arange(1, 60):float() * 800))
end)

test("no differences at all are x, whatever would come before it", function()
  local x = ml.tensor { 1, 4, 9 }
  expect.equal(x:diff(0, 1, ml.tensor { 7 }):totable(), { 1, 4, 9 })
  expect.equal(x:diff(1, 1, ml.tensor { 7 }):totable(), { -6, 3, 5 })
end)

test("where takes masks of uint8 and of no other integers", function()
  local mask = ml.tensor({ 0, 2, 255 }, { dtype = ml.uint8 })
  local x = ml.tensor({ 1., 2, 3 }, { requires_grad = true })
  local y = ml.where(mask, x, 0)
  expect.equal(y:detach():totable(), { 0.0, 2, 3 })
  y:sum():backward()
  expect.equal(x.grad:totable(), { 0.0, 1, 1 })
  expect.error(function() return (ml.where(ml.tensor { 0, 1, 1 }, x, 0)) end, "bool tensor, not int64")
  expect.error(function() return (x:masked_fill(mask, 0)) end, "bool tensor, not uint8")
  local each = ml.vmap(function(m) return ml.where(m, 1, 2) end)(mask:reshape(3, 1))
  expect.equal(each:totable(), { { 2 }, { 1 }, { 1 } })
end)

harness.run()
