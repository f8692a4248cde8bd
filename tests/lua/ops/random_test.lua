-- tests/lua/ops/random_test.lua: the ends of random integers, and of each distribution that its draws have
-- its mean, its variance and its probabilities.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

-- The least and the greatest of enough draws to meet each of a few numbers.
local function ends(x) return { x:amin():item(), x:amax():item() } end

test("randint includes both ends", function()
  ml.manual_seed(1)
  expect.near(ends(ml.randint(6, { 500 })), { 1, 6 })
  expect.near(ends(ml.randint(1, 6, { 500 })), { 1, 6 })
  expect.near(ends(ml.randint(0, 1, { 10, 10 })), { 0, 1 })
  expect.near(ends(ml.randint(-2, 2, { 500 }, { dtype = "float32" })), { -2, 2 })
  expect.near(ends(ml.randint { 3, { 100 } }), { 1, 3 })
  expect.near(ends(ml.randint { low = 2, high = 4, size = { 100 }, dtype = "int8" }), { 2, 4 })
  expect.near(ends(ml.randint { high = 4, size = { 100 } }), { 1, 4 })
  expect.near(ends(ml.randint(7, 7, { 5 })), { 7, 7 })
  expect.equal(ml.randint(1, { 5 }):sum():item(), 5)
  expect.equal(tostring(ml.randint(3, ml.zeros(2, 3).shape).shape), "(2, 3)")
  expect.near(ends(ml.randint(1, 3, { 100 }, { generator = ml.Generator { seed = 1 } })), { 1, 3 })
  expect.near(ends(ml.randint(3, { 100 }, { generator = ml.Generator { seed = 1 } })), { 1, 3 })
  expect.equal(ml.randint(3, { 4 }).dtype, "int64")
end)

test("random_ includes both ends", function()
  ml.manual_seed(1)
  local x = ml.zeros(500)
  expect.near(ends(x:random_(6)), { 1, 6 })
  expect.near(ends(x:random_(0, 1)), { 0, 1 })
  expect.near(ends(x:random_ { low = 3, high = 5 }), { 3, 5 })
  expect.near(ends(x:random_(6, { generator = ml.Generator { seed = 1 } })), { 1, 6 })
  expect.equal(ml.zeros(9, { dtype = "bool" }):random_(1, 1):all():item(), true)
  local wide = ml.zeros(2000, { dtype = "int64" }):random_(math.mininteger, math.maxinteger)
  expect.truthy(wide:amin():item() < -(1 << 62) and wide:amax():item() > 1 << 62)
end)

test("random_ without bounds draws all that the dtype holds", function()
  ml.manual_seed(1)
  local function drawn(dtype) return ml.zeros(20000, { dtype = dtype }):random_() end
  expect.near(ends(drawn "uint8"), { 0, 255 })
  expect.near(ends(drawn "int8"), { 0, 127 })
  expect.near(ends(drawn "bool":to "int64"), { 0, 1 })
  expect.near(ends(drawn "bfloat16":to "float32"), { 0, 256 })
  local wide = ends(drawn "int64")
  expect.truthy(wide[1] >= 0 and wide[2] > 1 << 62)
  local float = ends(drawn "float32")
  expect.truthy(float[1] >= 0 and float[2] > 0.99 * 2 ^ 24 and float[2] <= 2 ^ 24)
  expect.near(ends(ml.randint_like(ml.zeros(500), 3)), { 1, 3 })
  expect.near(ends(ml.randint_like(ml.zeros(500), -1, 1, { dtype = "int64" })), { -1, 1 })
  expect.equal(ml.randint_like(ml.zeros(2), 3).dtype, "float32")
end)

local N = 100000

-- The mean and the variance of draws must be within five standard errors of what they should be.
local function check_moments(name, x, mean, variance, fourth)
  x = x:to "float64"
  local error_of_mean = math.sqrt(variance / N)
  local got = x:mean():item()
  expect.truthy(math.abs(got - mean) <= 5 * error_of_mean, ("%s: mean %g, expected %g"):format(name, got, mean))
  local spread = (x - mean):square():mean():item()
  local error_of_variance = math.sqrt(((fourth or 3) - 1) / N) * variance
  expect.truthy(math.abs(spread - variance) <= 5 * error_of_variance,
    ("%s: variance %g, expected %g"):format(name, spread, variance))
end

-- Pearson's chi-square of how often whole numbers came, where at least five are awaited; the rest is
-- one class. Beyond the mean by five standard deviations of the distribution of the sum is too much.
local function check_counts(name, x, probability, last)
  local sum, classes, rest_seen, rest = 0, 0, N, N
  for k = 0, last do
    local awaited = N * probability(k)
    if awaited >= 5 then
      local seen = x:eq(k):sum():item()
      sum, classes = sum + (seen - awaited) ^ 2 / awaited, classes + 1
      rest_seen, rest = rest_seen - seen, rest - awaited
    end
  end
  if rest >= 5 then sum, classes = sum + (rest_seen - rest) ^ 2 / rest, classes + 1 end
  local free = classes - 1
  expect.truthy(sum <= free + 5 * math.sqrt(2 * free), ("%s: chi-square %g for %d"):format(name, sum, free))
end

local function factorial_log(k)
  local sum = 0
  for i = 2, k do sum = sum + math.log(i) end
  return sum
end

test("poisson draws have their mean, variance and probabilities", function()
  ml.manual_seed(11)
  for _, rate in ipairs { 0.3, 4, 9.9, 10, 37, 1000 } do
    local x = ml.poisson(ml.full({ N }, rate, { dtype = "float64" }))
    check_moments("poisson " .. rate, x, rate, rate, 3 + 1 / rate)
    check_counts("poisson " .. rate, x, function(k)
      return math.exp(k * math.log(rate) - rate - factorial_log(k))
    end, math.floor(rate + 6 * math.sqrt(rate) + 5))
  end
  expect.near(ml.poisson(ml.zeros(3)):tolist(), { 0, 0, 0 })
  expect.equal(ml.poisson(ml.ones(2, { dtype = "float16" })).dtype, "float16")
  expect.error(function() return ml.poisson(ml.tensor { -1.0 }) end, "poisson: the rates must not be negative")
  expect.error(function() return ml.poisson(ml.tensor { 0 / 0 }) end, "poisson: the rates must not be negative")
end)

test("binomial draws have their mean, variance and probabilities", function()
  ml.manual_seed(12)
  for _, case in ipairs { { 1, 0.3 }, { 7, 0.5 }, { 20, 0.9 }, { 40, 0.25 }, { 100, 0.7 },
    { 1000, 0.001 }, { 5000, 0.4 } } do
    local n, p = case[1], case[2]
    local name = ("binomial %d, %g"):format(n, p)
    local x = ml.binomial(ml.full({ N }, n + 0.0, { dtype = "float64" }), ml.tensor(p, { dtype = "float64" }))
    local variance = n * p * (1 - p)
    check_moments(name, x, n * p, variance, 3 + (1 - 6 * p * (1 - p)) / variance)
    check_counts(name, x, function(k)
      if k > n then return 0 end
      return math.exp(factorial_log(n) - factorial_log(k) - factorial_log(n - k) + k * math.log(p)
        + (n - k) * math.log(1 - p))
    end, math.floor(n * p + 6 * math.sqrt(variance) + 5))
  end
  expect.near(ml.binomial(ml.tensor { 5.0, 5.0, 0.0 }, ml.tensor { 0.0, 1.0, 0.5 }):tolist(), { 0, 5, 0 })
  expect.error(function() return ml.binomial(ml.ones(2), ml.tensor { 0.5, 1.5 }) end, "between 0 and 1")
  expect.error(function() return ml.binomial(ml.tensor { -1.0 }, ml.tensor { 0.5 }) end, "the counts must be")
  expect.error(function() return ml.binomial(ml.ones(2), ml.rand(3)) end, "binomial: ")
end)

test("gamma draws have their moments, and gradients that keep their probabilities", function()
  ml.manual_seed(17)
  local draw = ml._internal.standard_gamma
  for _, shape in ipairs { 0.2, 0.7, 1, 3.5, 60, 20000 } do
    local a = ml.full({ N }, shape, { dtype = "float64", requires_grad = true })
    local x = draw(a)
    check_moments("gamma " .. shape, x:detach(), shape, shape, 3 + 6 / shape)
    x:sum():backward()
    -- The mean moves as the shape does; so does the mean of log(x), by the gradient of digamma.
    expect.near(a.grad:mean():item(), 1, 0.02, "gradient of the mean at " .. shape)
    local of_log = (a.grad / x:detach()):mean():item()
    local wanted = ml.polygamma(1, ml.tensor(shape, { dtype = "float64" })):item()
    expect.near(of_log / wanted, 1, 0.05, "gradient of the mean logarithm at " .. shape)
  end
  expect.equal(draw(ml.ones(2, { dtype = "float16" })).dtype, "float16")
  expect.near(draw(ml.tensor { 0.0, -1.0, 0 / 0 }):tolist(), { 0, 0 / 0, 0 / 0 })
  expect.equal(draw(ml.ones(0, 3)).shape, { 0, 3 })
  local gradient = ml._internal.standard_gamma_grad_concentration
  local a = ml.ones(2, { requires_grad = true })
  expect.near(gradient(ml.ones(4), ml.tensor { 0.0, -1.0, 2.0, 2.0 }, ml.tensor { 1.0, 1.0, 0.0, math.huge })
    :tolist(), { 0 / 0, 0 / 0, 0, 0 / 0 })
  expect.error(function()
    local first = ml.grad(draw(a):sum(), a, { create_graph = true })
    first:sum():backward()
  end, "standard_gamma_grad: has no derivative by concentration")
end)

test("bernoulli draws ones with the probabilities given", function()
  ml.manual_seed(13)
  local p = ml.tensor { 0.0, 0.2, 0.9, 1.0 }
  local x = ml.bernoulli(p:expand(N, 4))
  expect.near(x:mean(1):tolist(), { 0, 0.2, 0.9, 1 }, 5e-3)
  expect.near(ml.empty(N, 4, { dtype = "int64" }):bernoulli_(p):to "float32":mean(1):tolist(), { 0, 0.2, 0.9, 1 }, 5e-3)
  check_moments("bernoulli_", ml.zeros(N):bernoulli_(), 0.5, 0.25, 1.01)
  check_moments("bernoulli_(p)", ml.zeros(N):bernoulli_(0.25), 0.25, 0.1875, 7 / 3)
  check_moments("bernoulli(x, p)", ml.bernoulli(ml.zeros(N), 0.25), 0.25, 0.1875, 7 / 3)
  expect.equal(ml.bernoulli(p:to "float64").dtype, "float64")
  expect.error(function() return ml.bernoulli(ml.tensor { 1.5 }) end, "between 0 and 1")
  expect.error(function() return ml.bernoulli(ml.tensor { 1 }) end, "dtype int64")
  expect.error(function() return ml.zeros(2):bernoulli_(1.5) end, "p = 1.5 is not between 0 and 1")
  expect.error(function() return ml.zeros(2):bernoulli_(ml.tensor { 0.5, 2.0 }) end, "between 0 and 1")
end)

test("continuous distributions have their moments or quantiles", function()
  ml.manual_seed(14)
  check_moments("normal", ml.normal(2, 3, { N }), 2, 9)
  check_moments("normal of tensors", ml.normal(ml.full({ N }, -1.0), ml.full({ 1 }, 0.5)), -1, 0.25)
  check_moments("normal of a number and a tensor", ml.normal(4, ml.full({ N }, 2.0)), 4, 4)
  check_moments("log_normal_", ml.zeros(N, { dtype = "float64" }):log_normal_(0.5, 0.3):log(), 0.5, 0.09)
  check_moments("geometric_", ml.zeros(N):geometric_(0.25), 4, 12, 9.1)
  check_counts("geometric_", ml.zeros(N, { dtype = "int64" }):geometric_(0.4), function(k)
    return k == 0 and 0 or 0.4 * 0.6 ^ (k - 1)
  end, 30)
  check_moments("exponential_", ml.zeros(N):exponential_(2), 0.5, 0.25, 9)
  check_moments("uniform_", ml.zeros(N):uniform_(-1, 3), 1, 16 / 12, 1.8)
  local cauchy = ml.zeros(N, { dtype = "float64" }):cauchy_(1, 2):sort()
  for _, quartile in ipairs { { N // 4, -1 }, { N // 2, 1 }, { 3 * N // 4, 3 } } do
    expect.near(cauchy[quartile[1]]:item(), quartile[2], 0.06)
  end
  expect.error(function() return ml.normal(1, 2) end, "normal: ")
  expect.error(function() return ml.normal(ml.zeros(2), -1) end, "normal: std = %-1 is negative")
  expect.error(function() return ml.normal(0, ml.tensor { -1.0 }) end, "normal: std must not be negative")
  expect.error(function() return ml.zeros(2):geometric_(1) end, "geometric_: p = 1 is not between")
  expect.error(function() return ml.zeros(2):cauchy_(0, 0) end, "cauchy_: sigma 0 is not positive")
  expect.error(function() return ml.zeros(2):log_normal_(0, 0) end, "log_normal_: ")
end)

test("complex numbers are drawn in both parts", function()
  ml.manual_seed(15)
  local z = ml.randn(N, { dtype = "complex128" })
  check_moments("real parts", z.real, 0, 0.5)
  check_moments("imaginary parts", z.imag, 0, 0.5)
  local u = ml.view_as_real(ml.rand(N, { dtype = "complex64" }))
  check_moments("real parts of rand", u:select(2, 1), 0.5, 1 / 12, 1.8)
  check_moments("imaginary parts of rand", u:select(2, 2), 0.5, 1 / 12, 1.8)
  check_moments("randn_like", ml.randn_like(z).real, 0, 0.5)
end)

test("each draw takes a generator and repeats itself", function()
  local x = ml.full({ 50 }, 0.4)
  local draws = {
    function(g) return ml.bernoulli(x, { generator = g }) end,
    function(g) return x:clone():bernoulli_(x, { generator = g }) end,
    function(g) return ml.poisson(x * 50, { generator = g }) end,
    function(g) return ml.binomial(x * 100, x, { generator = g }) end,
    function(g) return ml._internal.standard_gamma(x, { generator = g }) end,
    function(g) return ml.normal(x, x, { generator = g }) end,
    function(g) return ml.normal(0, 1, { 50 }, { generator = g }) end,
    function(g) return x:clone():cauchy_(0, 1, { generator = g }) end,
    function(g) return x:clone():log_normal_(0, 1, { generator = g }) end,
    function(g) return x:clone():geometric_(0.1, { generator = g }) end,
    function(g) return ml.randint_like(x, 1000, { generator = g }) end,
    function(g) return ml.rand_like(x, { generator = g }) end,
    function(g) return ml.randperm(50, { generator = g }) end,
    function(g) return ml.multinomial(x, 20, { generator = g }) end,
  }
  for i, draw in ipairs(draws) do
    local g = ml.Generator { seed = 3 }
    local before = ml.get_rng_state()
    local first, second = draw(g), draw(g)
    expect.equal(ml.get_rng_state().offset, before.offset)
    expect.truthy(draw(ml.Generator { seed = 3 }):eq(first):all():item(), "draw " .. i)
    expect.truthy(not first:eq(second):all():item(), "draw " .. i)
  end
  expect.equal(ml.randperm(5, { dtype = "int32" }).dtype, "int32")
  expect.error(function() return ml.randperm(256, { dtype = "uint8" }) end, "uint8 holds whole numbers to 255")
  expect.near(ml.randperm(100):sort():tolist(), ml.arange(1, 100):tolist())
end)

test("the number of threads changes no draw", function()
  local before = ml.get_num_threads()
  local function drawn(threads)
    ml.set_num_threads(threads)
    ml.manual_seed(16)
    return ml.poisson(ml.rand(5000) * 40)
  end
  local one, three = drawn(1), drawn(3)
  ml.set_num_threads(before)
  expect.truthy(one:eq(three):all():item())
end)

test("ml.random keeps the default generator's state", function()
  ml.random.manual_seed(5)
  expect.equal(ml.initial_seed(), 5)
  expect.equal(ml.random.initial_seed(), 5)
  local state = ml.random.get_rng_state()
  local first = ml.rand(3):tolist()
  ml.random.set_rng_state(state)
  expect.near(ml.rand(3):tolist(), first, 0)
  ml.random.set_rng_state(state)
  do
    local _ <close> = ml.random.fork_rng()
    ml.rand(7)
  end
  expect.equal(ml.random.fork_rng({}, function(n) ml.rand(n) return "result" end, 9), "result")
  expect.error(function() ml.random.fork_rng({}, function() ml.rand(2) error "inside" end) end, "inside")
  expect.near(ml.rand(3):tolist(), first, 0)
  ml.random.set_rng_state(state)
  ml.random.fork_rng({ enabled = false }, function() ml.rand(2) end)
  expect.truthy(ml.get_rng_state().offset > state.offset)
  local a, b = ml.seed(), ml.random.seed()
  expect.truthy(a ~= b and ml.initial_seed() == b)
  expect.error(function() ml.random.fork_rng(function() end) end, "use fork_rng")
  expect.error(function() ml.random.fork_rng({}, 5) end, "a function is expected, got number")
  ml.manual_seed(1)
end)

test("what is no range, or has no size, is refused", function()
  expect.error(function() return ml.randint(5, 4, { 2 }) end, "randint: no integer from 5 to 4")
  expect.error(function() return ml.randint(0, { 2 }) end, "randint: no integer from 1 to 0")
  expect.error(function() return ml.randint(1, 6) end, "randint: argument 'size' is missing")
  expect.error(function() return ml.randint(6) end, "randint: argument '%w+' is missing")
  expect.error(function() return ml.randint() end, "randint: argument '%w+' is missing")
  expect.error(function() return ml.randint(1.5, { 2 }) end, "randint: ")
  expect.error(function() return ml.randint(1, 6, nil) end, "'size' is nil")
  expect.error(function() return ml.zeros(2, { dtype = "uint8" }):random_(0, 256) end, "uint8 holds 0 to 255, not 0 to 256")
end)

test("samplers draw every position", function()
  local data = ml.data
  ml.manual_seed(1)
  local set = data.TensorDataset(ml.arange(3))
  local seen = {}
  for batch in data.DataLoader(set, { sampler = data.RandomSampler(set, { replacement = true, num_samples = 60 }) }) do
    seen[batch:item()] = true
  end
  expect.truthy(seen[1] and seen[2] and seen[3] and not seen[0] and not seen[4])
end)

test("the order of keys is that of a stable sort, for any number of them", function()
  ml.manual_seed(2)
  for _, n in ipairs { 0, 1, 2, 17, 1000, 4096, 4097, 20000 } do
    for _, most in ipairs { math.maxinteger, 1 << 40, 3 } do
      local keys = ml.randint(-most, most, { n })
      expect.truthy(ml.equal(ml._internal.random_order(keys), keys:argsort(1, false, true)),
        ("%d keys up to %d"):format(n, most))
    end
  end
end)

test("normal_ of complex numbers: the mean in both parts, half of the variance in each", function()
  for _, dtype in ipairs { "complex64", "complex128" } do
    ml.manual_seed(3)
    local parts = ml.view_as_real(ml.zeros({ 20000 }, { dtype = dtype }):normal_(2, 0.5))
    expect.near(parts:mean(1):totable(), { 2, 2 }, 0.02)
    expect.near(parts:var(1):totable(), { 0.125, 0.125 }, 0.01)
    local after = ml.rand(1):item()
    ml.manual_seed(3)
    ml.zeros({ 40000 }, { dtype = dtype == "complex64" and "float32" or "float64" }):normal_()
    expect.equal(ml.rand(1):item(), after)
  end
end)

harness.run()
