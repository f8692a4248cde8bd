-- tests/lua/ops/numerics_test.lua: how numbers are rounded, added up and refused: bounds of random
-- draws, sums and composites of 16-bit floats, result dtypes, the default dtype, integers that do
-- not fit. On every device there is.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local floats = { "bfloat16", "float16", "float32", "float64" }
local halves = { "bfloat16", "float16" }

-- A test on the CPU, and the same on the first CUDA device.
local function on_devices(name, body)
  test(name, function() body "cpu" end)
  test(name .. " (cuda)", function()
    if not ml.cuda.is_available() then harness.skip "no CUDA device" end
    body "cuda"
  end)
end

-- The least and the largest element, exactly.
local function range(x)
  local wide = x:to("cpu"):to("float64")
  return wide:amin():item(), wide:amax():item()
end

local function same(got, want, what)
  expect.equal(got.dtype, want.dtype, what)
  expect.equal(tostring(got.shape), tostring(want.shape), what)
  expect.truthy(got:eq(want):all():item(), what)
end

-- The CUDA of the tests is an emulation: fewer draws there.
local function draws(device) return device == "cpu" and 1000000 or 60000 end

on_devices("uniform draws stay in [from, to) in every dtype", function(device)
  ml.manual_seed(1)
  for _, dtype in ipairs(floats) do
    local low, high = range(ml.rand(draws(device), { dtype = dtype, device = device }))
    expect.truthy(low >= 0 and high < 1, dtype)
    low, high = range(ml.rand_like(ml.empty({ draws(device) }, { dtype = dtype, device = device })))
    expect.truthy(low >= 0 and high < 1, dtype)
    for _, ends in ipairs { { -1, 1 }, { 0, 0.3 }, { -3, -2.5 }, { 100, 101 }, { -0.1, 0.1 }, { 0, 1e-7 } } do
      local x = ml.empty({ draws(device) // 10 }, { dtype = dtype, device = device })
      low, high = range(x:uniform_(ends[1], ends[2]))
      local what = ("%s from %g to %g: %.17g to %.17g"):format(dtype, ends[1], ends[2], low, high)
      expect.truthy(low >= ends[1] and high < ends[2], what)
    end
  end
end)

on_devices("uniform draws where the dtype has few values", function(device)
  local x = ml.empty({ 100 }, { dtype = "bfloat16", device = device })
  local low, high = range(x:uniform_(5, 5))
  expect.truthy(low == 5 and high == 5)
  -- No bfloat16 lies in this interval: what matters is that `to` is not reached.
  low, high = range(x:uniform_(1.0001, 1.0002))
  expect.truthy(low == 1 and high == 1)
  local tiny = ml.empty({ 100 }, { dtype = "float16", device = device })
  expect.error(function() tiny:uniform_(0, 1e5) end, "uniform_: no numbers from 0 to 100000 in dtype float16")
  expect.error(function() tiny:uniform_(-6e4, 6e4) end, "uniform_: no numbers")
  expect.error(function() tiny:uniform_(0, 0 / 0) end, "uniform_: no numbers")
end)

on_devices("exponential draws are positive, integer draws within their ends", function(device)
  ml.manual_seed(2)
  for _, dtype in ipairs(floats) do
    local x = ml.empty({ draws(device) }, { dtype = dtype, device = device })
    for _, rate in ipairs { 1, 1e5, 1e7 } do
      local low, high = range(x:exponential_(rate))
      expect.truthy(low > 0 and high < 1 / 0, ("%s at rate %g: %g to %g"):format(dtype, rate, low, high))
    end
    local low, high = range(x:random_(0, 4095))
    expect.truthy(low >= 0 and high <= 4095, dtype)
    low, high = range(x:random_(-4097, -4091))
    expect.truthy(low >= -4097 and high <= -4091, dtype)
    expect.truthy(x:normal_():isfinite():all():item(), dtype)
    expect.equal(x:bernoulli_(0):amax():item(), 0.0)
    expect.equal(x:bernoulli_(1):amin():item(), 1.0)
  end
  local half = ml.empty({ 2 }, { dtype = "float16", device = device })
  expect.error(function() half:random_(0, 70000) end, "random_: float16 holds")
end)

-- 2000 ones at one position, which a 16-bit sum leaves at 256 (bfloat16) or 2000 after 2048 roundings.
on_devices("16-bit sums at positions are made in float32", function(device)
  local n = 3000
  for _, dtype in ipairs(halves) do
    local options = { dtype = dtype, device = device }
    local want = ml.tensor(n + 0.0, options):item()
    local function ones(...) return ml.ones({ ... }, options) end
    local first = ml.ones({ n }, { dtype = "int64", device = device })
    local function zeros(...) return ml.zeros({ ... }, options) end
    expect.equal(zeros(3):scatter_add(1, first, ones(n))[1]:item(), want, "scatter_add")
    expect.equal(zeros(3, 2):t():scatter_add_(2, first:view(1, n), ones(1, n))[{ 1, 1 }]:item(), want, "strided")
    expect.equal(zeros(3):index_add(1, first, ones(n))[1]:item(), want, "index_add")
    expect.equal(zeros(3, 5):index_add(1, first, ones(n, 5))[{ 1, 5 }]:item(), want, "index_add of rows")
    expect.equal(zeros(5, 3):index_add(2, first, ones(5, n))[{ 5, 1 }]:item(), want, "index_add of columns")
    local function gradient(what, f)
      local x = ones(3, 2):requires_grad_(true)
      expect.equal(ml.grad(f(x):sum(), x)[{ 1, 1 }]:item(), want, what)
    end
    gradient("gather", function(x) return x:gather(1, first:view(n, 1)) end)
    gradient("index", function(x) return x[first] end)
    gradient("index_select", function(x) return x:index_select(1, first) end)
    gradient("embedding", function(x) return ml.embedding(x, first) end)
    gradient("as_strided", function(x) return x:as_strided({ n }, { 0 }, 0) end)
    gradient("repeat_interleave", function(x) return x:repeat_interleave(n, 1) end)
    local line = ones(1, 1, 1, 1199):requires_grad_(true)
    local windows = line:view(1199):unfold(1, 600, 1)
    expect.equal(ml.grad(windows:sum(), line)[{ 1, 1, 1, 600 }]:item(), 600.0, "unfold")
    -- The middle of the line is in 600 windows, and the largest of each.
    local peak = line:detach():clone()
    peak[{ 1, 1, 1, 600 }] = 2
    peak:requires_grad_(true)
    local pooled = ml.max_pool2d(peak, { 1, 600 }, 1)
    expect.equal(ml.grad(pooled:sum(), peak)[{ 1, 1, 1, 600 }]:item(), 600.0, "max_pool2d")
    local average = ml.avg_pool2d(line, { 1, 600 }, 1)
    local slope = ml.grad(average:sum(), line)[{ 1, 1, 1, 600 }]:item()
    expect.near(slope, 1, 0.01, "avg_pool2d")
  end
end)

on_devices("sums at positions follow the order of the source", function(device)
  local index = ml.tensor({ 1, 1, 1 }, { device = device })
  local source = ml.tensor({ 1e8, 1.0, -1e8 }, { device = device })
  expect.equal(ml.zeros(1, { device = device }):index_add(1, index, source):item(), 0.0)
  expect.equal(ml.zeros(1, { device = device }):scatter_add(1, index, source):item(), 0.0)
end)

-- What is made of several ops is computed in float32 and rounded once.
on_devices("composites of 16-bit floats round once", function(device)
  ml.manual_seed(3)
  local function check(what, f, ...)
    for _, dtype in ipairs(halves) do
      local given, wide = {}, {}
      for i, x in ipairs { ... } do
        given[i] = x:to(device):to(dtype)
        wide[i] = given[i]:to "float32"
      end
      same(f(table.unpack(given)), f(table.unpack(wide)):to(dtype), ("%s in %s"):format(what, dtype))
    end
  end
  local x, y = ml.randn(6, 5, 8), ml.randn(6, 5, 8)
  local z, mask = ml.randn(6, 5, 8), ml.randn(5, 5)
  -- Tensor cores take weights of 16 bits: cuda_attention_test says how near that is.
  if device == "cpu" then
    check("attention", ml.scaled_dot_product_attention, x, y, z)
    check("attention with a mask", ml.scaled_dot_product_attention, x, y, z, mask)
  end
  check("batch_norm", function(...) return ml.batch_norm(...) end, x, ml.randn(5), ml.rand(5) + 0.5, ml.randn(5),
    ml.randn(5))
  for _, name in ipairs { "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div",
                          "binary_cross_entropy_with_logits" } do
    check(name, ml[name], x, ml.rand(6, 5, 8))
  end
  check("binary_cross_entropy", ml.binary_cross_entropy, ml.rand(6, 5) * 0.8 + 0.1, ml.rand(6, 5))
  check("glu", ml.glu, x)
end)

-- On CUDA devices they are computed by approximations: there they are near those of float32.
on_devices("gradients of activations in 16-bit floats round once", function(device)
  ml.manual_seed(4)
  local x = ml.randn(200):mul(3)
  for _, name in ipairs { "elu", "celu", "selu", "logsigmoid", "softplus", "hardswish", "mish", "softsign", "silu",
                          "gelu" } do
    for _, dtype in ipairs(halves) do
      local given = x:to(device):to(dtype):requires_grad_(true)
      local wide = given:detach():to("float32"):requires_grad_(true)
      local got = ml.grad(ml[name](given):sum(), given)
      local want = ml.grad(ml[name](wide):sum(), wide):to(dtype)
      local what = ("%s in %s"):format(name, dtype)
      if device == "cpu" then
        same(got, want, what)
      else
        expect.truthy(got:eq(want):logical_or(ml.nextafter(want, got):eq(got)):all():item(), what)
      end
    end
  end
end)

on_devices("gelu and its gradient are finite, and near those of float64, far from 0", function(device)
  local x = ml.linspace(-40, 40, 160001, { device = device }):requires_grad_(true)
  local wide = x:detach():double():requires_grad_(true)
  local y, wanted = ml.gelu(x), ml.gelu(wide)
  local bound = wide:detach():abs() * 2^-22 + 2^-24
  expect.truthy((y:double() - wanted):abs():le(bound):all():item(), "values")
  local g, wanted_g = ml.grad(y:sum(), x), ml.grad(wanted:sum(), wide)
  expect.truthy((g:double() - wanted_g):abs():le(2^-21):all():item(), "gradients")
end)

-- Equal, or both NaN; with `or_next`, or the number of the dtype that is next to it.
local function same_or_nan(got, want, what, or_next)
  expect.equal(got.dtype, want.dtype, what)
  local alike = got:eq(want):logical_or(got:isnan():logical_and(want:isnan()))
  if or_next then alike = alike:logical_or(ml.nextafter(want, got):eq(got)) end
  expect.truthy(alike:all():item(), what)
end

-- What CUDA devices compute by approximations that are finer than 16 bits: a number that lies between
-- two others may be rounded to the other one.
local approximate = { silu = true, gelu = true, sigmoid = true }

-- Every length that ends inside a vector, and special values among the first elements.
on_devices("pointwise results in 16 bits are those of float32, rounded", function(device)
  ml.manual_seed(5)
  local pairs_of = { "add", "sub", "mul", "div", "maximum", "fmin", "remainder", "copysign", "pow" }
  local singles = { "relu", "neg", "abs", "sqrt", "square", "floor", "round", "exp", "log", "tanh", "sigmoid",
    "silu", "gelu", "frac", "sign" }
  local numbers = { 0.3, 2, -1, 1e38, 65504, 1 / 3, 0 / 0, 1 / 0 }
  for _, dtype in ipairs(halves) do
    for _, n in ipairs { 1, 7, 15, 16, 17, 33, 1000, 4099 } do
      local x = (ml.randn(n) * 3):to(dtype)
      local y = (ml.randn(n) * 2):to(dtype)
      if n > 6 then
        for i, value in ipairs { 0 / 0, 1 / 0, -1 / 0, 0, -0.0 } do x[i] = value end
        y[1], y[2] = 1, -1 / 0
      end
      x, y = x:to(device), y:to(device)
      local wide_x, wide_y = x:to "float32", y:to "float32"
      local function check(what, got, want)
        same_or_nan(got, want:to(dtype), ("%s %s %d"):format(what, dtype, n),
          device ~= "cpu" and approximate[what])
      end
      for _, name in ipairs(pairs_of) do check(name, ml[name](x, y), ml[name](wide_x, wide_y)) end
      for _, name in ipairs(singles) do check(name, ml[name](x), ml[name](wide_x)) end
      for _, number in ipairs(numbers) do
        check("times " .. number, x * number, wide_x * number)
        check("plus " .. number, number + x, number + wide_x)
        check("copysign " .. number, ml.copysign(x, number), ml.copysign(wide_x, number))
      end
      check("clamp", x:clamp(-1, 1.5), wide_x:clamp(-1, 1.5))
      check("add_", x:clone():add_(y), wide_x + wide_y)
      local few = { { 1, math.min(n, 40) } }
      check("broadcast", x[few]:view(-1, 1) + y[few], wide_x[few]:view(-1, 1) + wide_y[few])
      check("strided", x[{ { 1, n, 2 } }] * y[{ { 1, n, 2 } }], wide_x[{ { 1, n, 2 } }] * wide_y[{ { 1, n, 2 } }])
    end
  end
end)

-- The same number again and again: rounding errors of a sum then all go one way.
test("long sums of float32 stay near the exact ones", function()
  local n = 1 << 20
  for _, x in ipairs { ml.full({ n }, 0.1), ml.rand(n) } do
    local wide = x:to "float64"
    local function check(name, f)
      local want = f(wide)
      expect.truthy(((f(x):to "float64" - want):abs():max() / want:abs():max()):item() < 1.3e-6, name)
    end
    for _, name in ipairs { "sum", "mean", "norm", "nansum" } do check(name, function(v) return v[name](v) end) end
    check("norm of power 3", function(v) return v:norm(3) end)
    check("softmax", function(v) return v:softmax(1) end)
    check("logsumexp", function(v) return v:logsumexp(1) end)
    check("sum of columns", function(v) return v:view(-1, 4):sum(1) end)
    check("rms_norm", function(v) return ml.nn.functional.rms_norm(v, { n }, nil, 1e-6) end)
  end
end)

test("the slope of hardswish at its ends is that of its outer parts", function()
  local x = ml.tensor({ -3.0, 3.0 }, { requires_grad = true })
  same(ml.grad(ml.hardswish(x):sum(), x), ml.tensor { 0, 1.0 })
end)

test("an empty list of dims is not the absence of one", function()
  local x = ml.tensor { { 0, 1.0 }, { 2, 0 } }
  for _, name in ipairs { "any", "all" } do
    expect.equal(tostring(x[name](x, {}).shape), "(2, 2)", name)
    same(x[name](x, {}), x:ne(0), name)
    same(x[name](x, { dim = {} }), x:ne(0), name)
    expect.equal(x[name](x).ndim, 0, name)
    expect.equal(x[name](x, { keepdim = true }).ndim, 2, name)
  end
  for _, name in ipairs { "sum", "mean", "var", "std", "amax", "amin", "count_nonzero", "logsumexp" } do
    expect.equal(x[name](x, {}).ndim, 0, name)
  end
  expect.equal(x:norm(2, {}).ndim, 0)
  same(x:flip({}), x)
  same(x:roll(1, {}), ml.tensor { { 0, 0.0 }, { 1, 2 } })
  same(x:movedim({}, {}), x)
  expect.equal(tostring(ml.zeros(1, 3, 1):squeeze({}).shape), "(1, 3, 1)")
  expect.equal(tostring(ml.zeros(1, 3, 1):squeeze().shape), "(3,)")
  expect.error(function() x:permute({}) end, "permute: 0 dims named")
  expect.error(function() x:roll({ 1, 1 }) end, "roll: 2 shifts for 0 dims")
  expect.error(function() x:roll({}) end, "roll: wants at least one shift")
end)

on_devices("dims given as none reach the kernels as none", function(device)
  local x = ml.tensor({ { 0, 1.0 }, { 2, 0 } }, { device = device })
  same(x:any({}), x:ne(0))
  same(x:all({}), x:ne(0))
  same(x:flip({}), x)
  expect.equal(x:prod():item(), 0.0)
  expect.equal(x:argmax():item(), 3)
end)

on_devices("integers stay integers beside the numbers of an op", function(device)
  local x = ml.tensor({ -3, 0, 5, 9 }, { device = device })
  local function gives(y, list, dtype)
    same(y, ml.tensor(list, { dtype = dtype or "int64", device = device }))
  end
  gives(ml.hardtanh(x), { -1, 0, 1, 1 })
  gives(ml.hardtanh(x, -1.5, 2.5), { -1, 0, 2, 2 })
  gives(ml.hardtanh(x:to "int8"), { -1, 0, 1, 1 }, "int8")
  gives(ml.relu6(x), { 0, 0, 5, 6 })
  gives(ml.threshold(x, 1.5, 7.5), { 7, 7, 5, 9 })
  gives(x:masked_fill(x:gt(0), 1.5), { -3, 0, 1, 1 })
  gives(ml.addcmul(x, x, x, 0.5), { -3, 0, 5, 9 })
  gives(x:clamp(0, 6), { 0, 0, 5, 6 })
  expect.equal(x:clamp(0.5, 6).dtype, "float32")
  for _, name in ipairs { "leaky_relu", "elu", "celu", "softplus" } do
    expect.error(function() ml[name](x) end, name .. ": dtype int64 is not supported")
  end
end)

test("bounds of integers may lie beyond the end they do not limit", function()
  local x = ml.tensor({ 3, -100, 100 }, { dtype = "int8" })
  same(x:clamp(-1000, 1000), x)
  same(x:clamp(-1000, 50), ml.tensor({ 3, -100, 50 }, { dtype = "int8" }))
  same(ml.hardtanh(x, -1000, 1000), x)
  same(ml.tensor({ 3, 0 }, { dtype = "uint8" }):clamp(-1, 300), ml.tensor({ 3, 0 }, { dtype = "uint8" }))
  expect.error(function() x:clamp_min(200) end, "clamp_min: 200 does not fit dtype int8")
  expect.error(function() x:clamp_max(-1000) end, "clamp_max: %-1000 does not fit dtype int8")
  expect.error(function() ml.hardtanh(x, 200, 300) end, "hardtanh: 200 does not fit dtype int8")
  expect.error(function() ml.hardtanh(x, -300, -200) end, "hardtanh: %-200 does not fit dtype int8")
end)

test("weighted bincount is float64 but for float32", function()
  local x = ml.tensor { 1, 2, 2 }
  for dtype, want in pairs { float32 = "float32", float16 = "float64", int64 = "float64", bool = "float64",
                             float64 = "float64" } do
    local counts = ml.bincount(x, ml.ones(3, { dtype = dtype }))
    same(counts, ml.tensor({ 1, 2 }, { dtype = want }), dtype)
  end
  expect.equal(ml.bincount(x).dtype, "int64")
end)

test("the default dtype is that of every float that names none", function()
  local i, single = ml.tensor { 1, 2, 3 }, ml.ones(3)
  local made = {}
  ml.set_default_dtype "float64"
  local ok, message = pcall(function()
    made = { i / i, i:exp(), i + 1.5, 2.5 ^ i, i:gt(1) * 0.5, i:clamp(0.5, 2), ml.where(i:gt(1), i, 0.5), i:angle(),
             ml.arange(1.0, 3.0), ml.full({ 2 }, 1.5), ml.linspace(0, 1, 2), ml.tensor { 0.5 }, ml.tensor(0.5),
             ml.tensor { { 1, 2.5 } }, ml.randn(2), ml.eye(2), ml.logspace(0, 1, 2) }
    expect.equal((single + 1.5).dtype, "float32")
    expect.equal((single * ml.tensor(2.5)).dtype, "float32")
    expect.equal(ml.hardtanh(i).dtype, "int64")
  end)
  ml.set_default_dtype "float32"
  if not ok then error(message, 0) end
  for k, y in ipairs(made) do expect.equal(y.dtype, "float64", "number " .. k) end
  expect.equal((i / i).dtype, "float32")
end)

-- Every way to put a number into an integer tensor; v is a table where `many`.
local function ways(dtype, device)
  local function zeros() return ml.zeros(2, { dtype = dtype, device = device }) end
  local function position() return ml.tensor({ 1 }, { device = device }) end
  return {
    tensor = function(v) return ml.tensor({ v }, { dtype = dtype, device = device }) end,
    nested = function(v) return ml.tensor({ { 1, 2 }, { 3, v } }, { dtype = dtype, device = device }) end,
    scalar = function(v) return ml.tensor(v, { dtype = dtype, device = device }) end,
    full = function(v) return ml.full({ 2 }, v, { dtype = dtype, device = device }) end,
    full_like = function(v) return ml.full_like(zeros(), v) end,
    fill = function(v) return zeros():fill_(v) end,
    element = function(v) local x = zeros(); x[1] = v; return x end,
    slice = function(v) local x = zeros(); x[{ { 1, 2 } }] = { v, v }; return x end,
    mask = function(v) local x = zeros(); x[x:eq(0)] = v; return x end,
    index = function(v) local x = zeros(); x[position()] = v; return x end,
    index_table = function(v) local x = zeros(); x[position()] = { v }; return x end,
    masked_fill = function(v) local x = zeros(); return x:masked_fill(x:eq(0), v) end,
    pad = function(v) return ml.pad(zeros(), { 1, 1 }, "constant", v) end,
    linspace = function(v) return ml.linspace(v, v, 2, { dtype = dtype, device = device }) end,
  }
end

on_devices("a number that does not fit an integer dtype is an error", function(device)
  local refused = {
    int32 = { 1e10, -1e10, 0 / 0, 1 / 0, 2147483648, 2147483648.0 },
    uint8 = { 256, 256.0, -1, -1.0, 0 / 0 },
    int64 = { 9.3e18, -9.3e18, 2.0 ^ 63, 0 / 0, -1 / 0 },
  }
  for dtype, values in pairs(refused) do
    for name, way in pairs(ways(dtype, device)) do
      for _, v in ipairs(values) do
        expect.error(function() way(v) end, "does not fit dtype " .. dtype, name)
      end
      expect.equal(way(7.5):amax():item(), 7, name)
    end
  end
  expect.error(function() ml.arange(1, 300, 1, { dtype = "uint8" }) end, "arange: 300 does not fit dtype uint8")
end)

test("integers beside floats in a table stay exact", function()
  local x = ml.tensor({ 9007199254740993, 1.5, true }, { dtype = "int64" })
  expect.equal(x[1]:item(), 9007199254740993)
  expect.equal(x[2]:item(), 1)
  expect.equal(x[3]:item(), 1)
end)

on_devices("real and imag are views", function(device)
  local z = ml.view_as_complex(ml.zeros(3, 2, { device = device }))
  z.real:fill_(2)
  z.imag[2] = 7
  same(ml.view_as_real(z), ml.tensor({ { 2, 0.0 }, { 2, 7 }, { 2, 0 } }, { device = device }))
  z.imag = 5
  z.real = ml.tensor({ 1, 2, 3.0 }, { device = device })
  same(ml.view_as_real(z), ml.tensor({ { 1, 5.0 }, { 2, 5 }, { 3, 5 } }, { device = device }))
  local x = ml.tensor({ 1, 2 }, { device = device })
  expect.truthy(x.real == x or x.real:data_ptr() == x:data_ptr())
  expect.error(function() return x.imag end, "imag: dtype int64 has no imaginary parts")
end)

test("gradients of real, imag and angle are PyTorch's", function()
  local parts = ml.tensor({ { 1, 2.0 }, { -3, 0.5 }, { 0, 0 } }, { requires_grad = true })
  local z = ml.view_as_complex(parts) * 1
  local g = ml.grad((z.real * 2 + z.imag * 3):sum(), parts)
  same(g, ml.tensor { { 2, 3.0 }, { 2, 3 }, { 2, 3 } })
  g = ml.grad((ml.view_as_complex(parts):angle() * ml.tensor { 1, 2, 3.0 }):sum(), parts, { create_graph = true })
  expect.near(g:tolist(), { { -0.4, 0.2 }, { -0.10810811, -0.64864868 }, { 0, 0 } })
  local second = ml.grad((g * g):sum(), parts)
  expect.near(second:tolist(), { { -0.08, -0.16 }, { 0.28049675, -0.04674946 }, { 0, 0 } })
  local x = ml.tensor({ 1, -2.0, 0, 0 / 0 }, { requires_grad = true })
  local y = x:angle()
  expect.equal(y[2]:item(), ml.tensor(math.pi):item())
  expect.truthy(y[4]:isnan():item())
  same(ml.grad(y:sum(), x), ml.zeros(4))
end)

on_devices("alpha 0 does not read the factors", function(device)
  for _, dtype in ipairs { "float32", "float64", "complex64", "float16", "bfloat16" } do
    local function full(value, ...) return ml.full({ ... }, value, { dtype = dtype, device = device }) end
    for _, n in ipairs { 3, 300 } do
      local c, nan, b = full(2, n, n), full(0 / 0, n, 70), full(1, 70, n)
      expect.equal(ml.addmm(c, nan, b, 1, 0):equal(c), true)
      expect.equal(ml.addmm(c, nan, b, 0, 0):equal(c * 0), true)
      expect.equal(ml.addmv(c[1], nan, b:select(2, 1), 1, 0):equal(c[1]), true)
      local batch = c:expand(2, n, n)
      expect.equal(ml.baddbmm(batch, nan:expand(2, n, 70), b:expand(2, 70, n), 1, 0):equal(batch), true)
      expect.equal(ml.addbmm(c, nan:expand(2, n, 70), b:expand(2, 70, n), 1, 0):equal(c), true)
    end
  end
end)

harness.run()
