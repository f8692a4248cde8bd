-- tests/lua/ops/distributions_draw_test.lua: samples of distributions, by their moments and distribution
-- functions, their gradients, what constructors and methods refuse, and classes of a script's own.

local here = arg[0]:match("^(.*)/") or "."
package.path = here .. "/../?.lua;" .. package.path
local class = require "moonlet.class"
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local D = ml.distributions
local C = D.constraints

local N = 20000
local FLOAT64 = { dtype = ml.float64 }

local function scalar(value) return ml.tensor(value, FLOAT64) end
local function vector(list) return ml.tensor(list, FLOAT64) end

-- Distributions of real numbers, by class and arguments.
local NUMBERS = {
  { "Normal", 0.5, 2.0 }, { "Laplace", 0.5, 2.0 }, { "Cauchy", -1.0, 0.7 },
  { "Uniform", -1.0, 3.0 }, { "Exponential", 0.6 }, { "Gamma", 2.5, 0.8 }, { "Gamma", 0.3, 2.0 },
  { "Chi2", 3.0 }, { "LogNormal", 0.2, 0.5 }, { "HalfNormal", 1.5 }, { "HalfCauchy", 1.5 },
  { "Gumbel", 0.5, 2.0 }, { "Pareto", 1.5, 3.0 }, { "Weibull", 2.0, 1.5 },
  { "Kumaraswamy", 2.0, 3.0 }, { "InverseGamma", 3.0, 2.0 }, { "GeneralizedPareto", 0.5, 1.5, 0.2 },
  { "GeneralizedPareto", 0.5, 1.5, -0.4 }, { "ContinuousBernoulli", 0.2 },
}

local function make(case, wrap)
  local args = {}
  for i = 2, #case do args[i - 1] = (wrap or scalar)(case[i]) end
  return D[case[1]](table.unpack(args)), args
end

-- Kolmogorov and Smirnov's largest distance of samples from their distribution, which is above
-- 2.2 / sqrt(n) once in 10,000 times.
local function check_fit(name, share)
  local sorted = share:reshape(-1):sort()
  local n = sorted:numel()
  local steps = ml.arange(1, n, FLOAT64) / n
  local most = math.max((steps - sorted):max():item(), (sorted - steps + 1 / n):max():item())
  expect.truthy(most < 2.2 / math.sqrt(n), ("%s: distance %g"):format(name, most))
end

test("samples have their distribution function", function()
  ml.manual_seed(21)
  for _, case in ipairs(NUMBERS) do
    local d = make(case)
    local x = d:sample { N }
    expect.equal(x.shape, { N })
    expect.equal(x.dtype, "float64")
    check_fit(case[1], d:cdf(x))
    expect.truthy(d.support:check(x):all():item(), case[1])
  end
end)

test("samples of float32 are numbers of the support", function()
  ml.manual_seed(30)
  for _, case in ipairs(NUMBERS) do
    local d = D[case[1]](table.unpack(case, 2))
    local x = d:sample { N }
    expect.equal(x.dtype, "float32")
    expect.truthy(x:isfinite():all():item(), case[1])
    expect.truthy(d:log_prob(x):isnan():logical_not():all():item(), case[1])
  end
  expect.equal(D.Normal(ml.tensor { 1, 2 }, 0.5).scale:tolist(), { 0.5, 0.5 })
  expect.equal(D.Binomial(ml.tensor { 3, 4 }, 0.5).probs:tolist(), { 0.5, 0.5 })
end)

-- Mean and variance, each within 6 standard errors as the samples themselves tell them.
local function check_moments(name, d, x)
  local mean = x:mean(1)
  local off = (mean - d.mean):abs() / (x:std(1) / math.sqrt(N) + 1e-9)
  expect.truthy(off:max():item() < 6, ("%s: mean off by %g"):format(name, off:max():item()))
  local square = (x - d.mean):square()
  local spread = (square:mean(1) - d.variance):abs() / (square:std(1) / math.sqrt(N) + 1e-9)
  expect.truthy(spread:max():item() < 6, ("%s: variance off by %g"):format(name,
    spread:max():item()))
end

local function with_moments()
  local shares = vector { 0.2, 0.5, 0.3 }
  local matrix = vector { { 2, 0.5 }, { 0.5, 1 } }
  return {
    D.StudentT(vector { 9.0 }, 1.0, 2.0), D.FisherSnedecor(vector { 5.0 }, vector { 20.0 }),
    D.Beta(vector { 0.5, 3.0 }, vector { 2.0, 1.0 }), D.Dirichlet(vector { 0.3, 1.0, 4.0 }),
    D.Bernoulli(shares), D.Geometric(shares), D.Binomial(7, shares),
    D.NegativeBinomial(4, shares), D.Poisson(vector { 0.5, 30.0 }), D.OneHotCategorical(shares),
    D.Multinomial(6, shares), D.MultivariateNormal(vector { 1.0, -2.0 }, matrix),
    D.LowRankMultivariateNormal(vector { 0.5, 1.0 }, vector { { 1.0 }, { -2.0 } },
      vector { 0.5, 1.5 }),
    D.Wishart(scalar(5.0), matrix),
    D.MixtureSameFamily(D.Categorical(shares), D.Normal(vector { -3, 0, 2 }, 0.5)),
    D.MixtureSameFamily(D.Categorical(shares), D.Independent(D.Normal(
      vector { { -3, 0 }, { 0, 1 }, { 2, 5 } }, 0.5), 1)),
    D.Independent(D.Exponential(shares), 1),
  }
end

test("samples have their mean and variance", function()
  ml.manual_seed(22)
  for _, d in ipairs(with_moments()) do
    local x = d:sample { N }
    check_moments(tostring(d), d, x:to(ml.float64))
    expect.truthy(d.support:check(x):all():item(), tostring(d))
  end
end)

test("categories come as often as they should, and count from 1", function()
  ml.manual_seed(23)
  local probs = vector { { 1, 2, 3, 4 }, { 0, 3, 0, 1 } }
  local d = D.Categorical(probs)
  local x = d:sample { N }
  expect.equal(x.dtype, "int64")
  expect.equal(x.shape, { N, 2 })
  for row = 1, 2 do
    for k = 1, 4 do
      local p = d.probs[row][k]:item()
      local seen = x:select(2, row):eq(k):sum():item() / N
      expect.truthy(math.abs(seen - p) <= 5 * math.sqrt(p * (1 - p) / N) + 1e-12)
    end
  end
  expect.error(function() return d:log_prob(ml.tensor { 0, 2 }) end,
    "distributions.Categorical: the value of shape %(2,%) must satisfy IntegerInterval%(lower_bound=1, "
    .. "upper_bound=4%), got 0")
  local unchecked = D.Categorical { probs = probs, validate_args = false }
  expect.error(function() return unchecked:log_prob(ml.tensor { 0, 2 }) end, "positions start at 1")
  expect.equal(D.Categorical { logits = vector { 0, 3, 1 } }.mode:item(), 2)
end)

test("angles and correlations have their distributions", function()
  ml.manual_seed(24)
  local d = D.VonMises(scalar(1.0), scalar(2.0))
  local x = d:sample { N }
  expect.truthy(x:abs():max():item() <= math.pi)
  expect.near((x - 1):cos():mean():item(), (1 - d.variance):item(), 0.02)
  expect.near((x - 1):sin():mean():item(), 0, 0.02)
  expect.near(D.VonMises(scalar(0.0), scalar(1e-7)):sample({ N }):cos():mean():item(), 0, 0.03)
  -- What is close to no spread at all, and what is no concentration.
  local narrow = D.VonMises(scalar(0.5), vector { 1e5, 1e7, 1e300 }):sample { N }
  expect.near((narrow - 0.5):square():mean(1):totable(), { 1e-5, 1e-7, 0 }, 1e-6)
  expect.truthy(D.VonMises(0, -1.0, { validate_args = false }):sample():isnan():item())
  -- A correlation r of an n x n matrix: (r + 1) / 2 has a beta distribution.
  for _, case in ipairs { { 2, 1.0 }, { 4, 1.5 } } do
    local n, concentration = case[1], case[2]
    local lower = D.LKJCholesky(n, scalar(concentration)):sample { N }
    expect.truthy(C.corr_cholesky:check(lower):all():item())
    local r = lower:matmul(lower.mT):select(-1, 1):select(-1, n)
    local a = concentration + (n - 2) / 2
    expect.near(r:mean():item(), 0, 0.02)
    expect.near(r:square():mean():item(), 1 / (2 * a + 1), 0.02)
  end
end)

-- Gradients of samples.

local function leaves_of(case)
  local leaves = {}
  for i = 2, #case do
    leaves[i - 1] = ml.full({ 50 }, case[i], { dtype = ml.float64, requires_grad = true })
  end
  return leaves
end

test("a sample's gradient keeps the probability below it", function()
  ml.manual_seed(25)
  for _, case in ipairs(NUMBERS) do
    local name, leaves = case[1], leaves_of(case)
    local all = { table.unpack(leaves) }
    local function of_leaves() return D[name](table.unpack(all)) end
    -- The incomplete gamma function has no derivative by the concentration: see random_test.
    if name == "Gamma" or name == "InverseGamma" then
      leaves[1]:requires_grad_(false)
      table.remove(leaves, 1)
    end
    if name ~= "Chi2" then
      local x = of_leaves():rsample()
      x:sum():backward()
      local got = {}
      for i, leaf in ipairs(leaves) do got[i], leaf.grad = leaf.grad, nil end
      local at, d = x:detach(), of_leaves()
      d:cdf(at):sum():backward()
      local density = d:log_prob(at):detach():exp()
      for i, leaf in ipairs(leaves) do
        expect.near(got[i]:totable(), (-leaf.grad / density):totable(), 1e-6, name .. " " .. i)
      end
    end
  end
end)

-- The gradient of the mean of f(x) over many samples against that of what it is.
local function check_slope(name, parameter, d, f, wanted, tolerance)
  local got = ml.grad(f(d:rsample { 2 * N }):mean(1):sum(), parameter)
  local known = ml.grad(wanted:sum(), parameter)
  expect.near(got:reshape(-1):totable(), known:reshape(-1):totable(), tolerance, name)
end

test("the gradient of samples' means is that of the mean", function()
  ml.manual_seed(26)
  local function leaf(list) return ml.tensor(list, { dtype = ml.float64, requires_grad = true }) end
  local function same(x) return x end
  local function square(x) return x:square() end
  local a = leaf { 0.3, 1.0, 4.0 }
  check_slope("Gamma", a, D.Gamma(a, 2.0), same, a / 2, 0.05)
  check_slope("Chi2", a, D.Chi2(a), same, a * 1, 0.05)
  local dirichlet = D.Dirichlet(a)
  local weights = vector { 1, 2, 3 }
  check_slope("Dirichlet, weighted", a, dirichlet, function(x) return x * weights end,
    dirichlet.mean * weights, 0.02)
  local beta = D.Beta(a, 2.0)
  check_slope("Beta", a, beta, same, beta.mean, 0.02)
  local b = leaf { 5.0, 8.0 }
  check_slope("InverseGamma", b, D.InverseGamma(b, 1.0), same, 1 / (b - 1), 0.02)
  local t = D.StudentT(b + 4, 0.0, 1.0)
  check_slope("StudentT", b, t, square, t.variance, 0.05)
  local f = D.FisherSnedecor(3.0, b)
  check_slope("FisherSnedecor", b, f, same, f.mean, 0.1)
  local wishart = D.Wishart(b, vector { { 2, 0.5 }, { 0.5, 1 } })
  check_slope("Wishart", b, wishart, same, wishart.mean, 0.05)
  local lower = leaf { { 1.5, 0.0 }, { 0.4, 0.8 } }
  local normal = D.MultivariateNormal(vector { 0, 0 }, { scale_tril = lower:tril() })
  check_slope("MultivariateNormal", lower, normal, square, normal.variance, 0.05)
  local factor = leaf { { 1.0 }, { -0.5 } }
  local low_rank = D.LowRankMultivariateNormal(vector { 0, 0 }, factor, vector { 1, 2 })
  check_slope("LowRankMultivariateNormal", factor, low_rank, square, low_rank.variance, 0.05)
end)

test("relaxed categories and straight-through samples have gradients", function()
  ml.manual_seed(27)
  local logits = ml.tensor({ 0.5, -1.0, 2.0 }, { dtype = ml.float64, requires_grad = true })
  local d = D.RelaxedOneHotCategorical(0.5, { logits = logits })
  local x = d:rsample { 4 }
  expect.near(x:sum(-1):totable(), { 1, 1, 1, 1 }, 1e-9)
  expect.truthy(ml.grad(x:select(-1, 1):sum(), logits):abs():sum():item() > 0)
  local binary = D.RelaxedBernoulli(0.5, { logits = logits })
  expect.truthy(ml.grad(binary:rsample { 4 }:sum(), logits):gt(0):all():item())
  local hard = D.OneHotCategoricalStraightThrough { logits = logits }:rsample { 4 }
  expect.near(hard:detach():sum(-1):totable(), { 1, 1, 1, 1 }, 1e-9)
  local probs = logits:softmax(-1)
  expect.near(ml.grad(hard:select(-1, 1):sum(), logits):totable(),
    ml.grad(4 * probs[1], logits):totable(), 1e-9)
  expect.equal(D.Normal(logits, 1.0):sample().requires_grad, false)
  expect.equal(D.Normal(logits, 1.0):rsample().requires_grad, true)
end)

test("small concentrations leave shares that are numbers", function()
  ml.manual_seed(28)
  local x = D.Dirichlet(ml.full({ 3 }, 0.01)):sample { 1000 }
  expect.truthy(C.simplex:check(x):all():item())
  expect.truthy(x:max(-1):mean():item() > 0.9)
  local y = D.Gamma(ml.full({ 1000 }, 0.001), 1.0):sample()
  expect.truthy(y:gt(0):all():item())
end)

-- Shapes, generators, texts.

test("samples come from the generator that is named", function()
  local shares = ml.tensor { 0.2, 0.5, 0.3 }
  local list = { D.VonMises(0, 1), D.LKJCholesky(3), D.Categorical(shares), D.Poisson(4.0) }
  for _, d in ipairs(with_moments()) do list[#list + 1] = d end
  for _, case in ipairs(NUMBERS) do list[#list + 1] = make(case) end
  for _, d in ipairs(list) do
    local name = tostring(d)
    local before = ml.get_rng_state()
    local g = ml.Generator { seed = 3 }
    local first, second = d:sample({ 9 }, { generator = g }), d:sample({ 9 }, { generator = g })
    expect.equal(ml.get_rng_state().offset, before.offset, name)
    local again = d:sample { 9, generator = ml.Generator { seed = 3 } }
    expect.truthy(again:eq(first):all():item(), name)
    expect.truthy(not second:eq(first):all():item(), name)
  end
end)

test("scalars, batches, events and nothing have their shapes", function()
  local d = D.Normal(0, 1)
  expect.equal(d.batch_shape, {})
  expect.equal(d:sample().shape, {})
  expect.equal(d:sample({ 2, 3 }).shape, { 2, 3 })
  expect.equal(d:sample(ml.zeros(4, 5).shape).shape, { 4, 5 })
  expect.equal(d:sample({ 0 }).shape, { 0 })
  expect.equal(d.mean.dtype, "float32")
  local empty = D.Normal(ml.zeros(0, 3), 1)
  expect.equal(empty:sample({ 2 }).shape, { 2, 0, 3 })
  expect.equal(empty:log_prob(ml.zeros(0, 3)).shape, { 0, 3 })
  expect.equal(D.Categorical(ml.ones(2, 3)):sample({ 0 }).shape, { 0, 2 })
  local normal = D.MultivariateNormal(ml.zeros(5, 1, 2), ml.eye(2):expand { 3, 2, 2 })
  expect.equal(normal.batch_shape, { 5, 3 })
  expect.equal(normal.event_shape, { 2 })
  expect.equal(normal:rsample({ 4 }).shape, { 4, 5, 3, 2 })
  expect.equal(normal:log_prob(ml.zeros(4, 5, 3, 2)).shape, { 4, 5, 3 })
  expect.equal(D.Bernoulli(ml.tensor { 0.5, 0.5 }):enumerate_support().shape, { 2, 2 })
  expect.equal(D.Bernoulli(ml.tensor { 0.5, 0.5 }):enumerate_support(false).shape, { 2, 1 })
  expect.equal(D.Normal(ml.zeros(3), ml.ones(2, 1)):expand({ 4, 2, 3 }):sample().shape, { 4, 2, 3 })
end)

test("distributions and constraints say what they are", function()
  expect.equal(tostring(D.Normal(0, 2)), "Normal(loc: 0.0, scale: 2.0)")
  expect.equal(tostring(D.Normal(ml.zeros(3), 2)), "Normal(loc: (3,), scale: (3,))")
  expect.equal(tostring(D.Independent(D.Exponential(ml.ones(3)), 1)),
    "Independent(Exponential(rate: (3,)), 1)")
  expect.equal(tostring(C.interval(0, 2)), "Interval(lower_bound=0, upper_bound=2)")
  expect.equal(tostring(C.real_vector), "IndependentConstraint(Real(), 1)")
  expect.equal(tostring(D.TanhTransform().inv), "InverseTransform(TanhTransform())")
end)

-- What is refused.

test("parameters are checked", function()
  local function refuses(f, pattern) expect.error(f, pattern) end
  refuses(function() return D.Normal(0, -1) end,
    "distributions.Normal: 'scale' of shape %(%) must satisfy GreaterThan%(lower_bound=0.0%), got %-1.0")
  refuses(function() return D.Normal(0 / 0, 1) end, "'loc': a tensor or a number is expected")
  refuses(function() return D.Normal(ml.tensor { 1.0, 0 / 0 }, 1) end, "'loc' of shape %(2,%) must satisfy Real")
  refuses(function() return D.Normal(ml.zeros(2), ml.ones(3)) end,
    "distributions.Normal: 'loc' of shape %(2,%), 'scale' of shape %(3,%) do not broadcast")
  refuses(function() return D.Normal(0) end, "distributions.Normal: 'scale' is missing")
  refuses(function() return D.Normal { loc = 0, scal = 1 } end, "unknown option 'scal'; did you mean 'scale'")
  refuses(function() return D.Uniform(1, 0) end, "distributions.Uniform: 'low'")
  refuses(function() return D.Bernoulli(1.5) end, "distributions.Bernoulli: 'probs'")
  refuses(function() return D.Bernoulli() end, "either 'probs' or 'logits' is expected, got none")
  refuses(function() return D.Bernoulli(0.5, 0.5) end, "either 'probs' or 'logits' is expected, not both")
  refuses(function() return D.Geometric(0.0) end, "distributions.Geometric: 'probs' of shape %(%) must be above 0")
  refuses(function() return D.Binomial(-1, 0.5) end, "distributions.Binomial: 'total_count'")
  refuses(function() return D.Categorical(ml.tensor(1.0)) end, "'probs' must have at least one dimension")
  refuses(function() return D.Categorical { probs = ml.tensor { 0.5, -0.5, 2 } } end, "must satisfy Simplex")
  refuses(function() return D.Dirichlet(ml.tensor(1.0)) end, "'concentration' must have at least one dimension")
  refuses(function() return D.MultivariateNormal(ml.zeros(2)) end, "one of 'covariance_matrix'")
  refuses(function() return D.MultivariateNormal(ml.zeros(2), ml.eye(2), ml.eye(2)) end, "one is expected")
  refuses(function() return D.MultivariateNormal(ml.zeros(3), ml.eye(2)) end, "'loc' has shape %(3,%)")
  refuses(function() return D.MultivariateNormal(ml.zeros(2), -ml.eye(2)) end, "must satisfy PositiveDefinite")
  refuses(function() return D.Wishart(1.0, ml.eye(2)) end, "'df' must be above 1")
  refuses(function() return D.LKJCholesky(1) end, "'dim' must be an integer of at least 2, got 1")
  refuses(function() return D.RelaxedBernoulli(0.0, 0.5) end, "'temperature' must be above 0")
  refuses(function() return D.Independent(D.Normal(0, 1), 1) end, "'reinterpreted_batch_ndims' is 1")
  refuses(function() return D.TransformedDistribution(D.Normal(0, 1), { 3 }) end, "item 1 of 'transforms'")
  refuses(function() return D.TransformedDistribution(D.Normal(0, 1), D.StickBreakingTransform()) end,
    "the base's shape is %(%), and the transforms take 1 dimension")
  refuses(function() return D.MixtureSameFamily(D.Normal(0, 1), D.Normal(0, 1)) end, "a Categorical is expected")
  refuses(function()
    return D.MixtureSameFamily(D.Categorical(ml.ones(3)), D.Normal(ml.zeros(2), 1))
  end, "the mixture is of 3 components and there are 2")
  local unchecked = D.Normal(0, -1, { validate_args = false })
  expect.equal(unchecked.scale:item(), -1)
end)

test("values are checked", function()
  local d = D.Exponential(ml.ones(3))
  expect.error(function() return d:log_prob(ml.tensor { 1.0, -2.0, 1.0 }) end,
    "distributions.Exponential: the value of shape %(3,%) must satisfy GreaterThanEq%(lower_bound=0.0%), got %-2.0")
  expect.error(function() return d:log_prob(1.0) end, "the value must be a tensor, got 1.0")
  expect.error(function() return d:log_prob("x") end, "log_prob: 'value'")
  expect.error(function() return d:log_prob(ml.ones(2)) end, "do not broadcast with batch_shape")
  expect.error(function() return d:cdf(-ml.ones(3)) end, "must satisfy")
  local normal = D.MultivariateNormal(ml.zeros(2), ml.eye(2))
  expect.error(function() return normal:log_prob(ml.zeros(3)) end, "do not end with the event_shape %(2,%)")
  expect.error(function() return normal:log_prob(ml.tensor(1.0)) end, "do not end with the event_shape")
  expect.error(function() return D.Poisson(2.0):log_prob(ml.tensor(0.5)) end, "got 0.5")
  expect.error(function() return d:sample(3) end, "sample: 'sample_shape': an array of sizes")
  expect.error(function() return d:sample { -1 } end, "sample: 'sample_shape'")
  expect.error(function() return d:sample({ 1 }, { seed = 3 }) end, "unknown option 'seed'")
  expect.error(function() return d:expand { 2 } end, "expand")
  expect.error(function() return D.Poisson(2.0):rsample() end, "has no rsample")
  expect.error(function() return D.Categorical(ml.ones(2)):cdf(ml.tensor(1)) end, "has no cdf")
  expect.error(function() return D.Binomial(ml.tensor { 1.0, 2.0 }, 0.5):enumerate_support() end,
    "wants one 'total_count'")
  local unchecked = D.Exponential(ml.ones(3), { validate_args = false })
  expect.near(unchecked:log_prob(2.0):totable(), { -2, -2, -2 })
end)

test("checks can be switched off for all", function()
  D.Distribution.set_default_validate_args(false)
  local ok, d = pcall(D.Normal, 0, -1)
  D.Distribution.set_default_validate_args(true)
  expect.truthy(ok)
  expect.equal(d.scale:item(), -1)
  expect.error(function() return D.Normal(0, -1) end, "must satisfy")
  expect.error(function() return D.Distribution.set_default_validate_args(1) end, "must be true or false")
end)

-- Classes of a script's own.

local function square_class()
  local Square = class("Square", D.Distribution)
  Square.arg_constraints = { side = C.positive }
  Square.support = C.dependent_property(function(self) return C.interval(0.0, self.side) end,
    { is_discrete = false, event_dim = 0 })
  Square.has_rsample = true
  function Square:init(side)
    self.side = side
    Square.super.init(self, side.shape, {})
  end
  function Square:rsample(shape)
    local size = { table.unpack(shape or {}) }
    for _, n in ipairs(self.batch_shape:tolist()) do size[#size + 1] = n end
    return ml.rand(size) * self.side
  end
  function Square:log_prob(value)
    self:_validate_sample(value)
    return (-self.side:log()):expand(value.shape)
  end
  return Square
end

test("a class of a script's own is one as any other", function()
  local Square = square_class()
  local d = Square(ml.tensor { 2.0, 3.0 })
  expect.equal(d:sample({ 4 }).shape, { 4, 2 })
  expect.equal(d.batch_shape, { 2 })
  expect.error(function() return Square(ml.tensor { -1.0 }) end, "distributions.Square: 'side'")
  expect.error(function() return d:log_prob(ml.tensor { 4.0, 1.0 }) end, "must satisfy Interval")
  expect.error(function() return d:expand { 3, 2 } end, "has an own init and no expand")
  expect.error(function() return d.mean end, "distributions.Square: has no mean")
  local wide = D.Independent(d, 1)
  expect.near(wide:log_prob(ml.ones(2)):item(), -math.log(6), 1e-6)
  expect.equal(wide:rsample({ 3 }).shape, { 3, 2 })
  local doubled = D.TransformedDistribution(d, D.AffineTransform(0, 2))
  expect.near(doubled:log_prob(ml.ones(2)):totable(), { -math.log(4), -math.log(6) }, 1e-6)
  expect.error(function() return D.kl_divergence(d, d) end, "no formula for Square and Square")
  D.register_kl(Square, Square)(function(p, q) return (q.side / p.side):log() end)
  expect.near(D.kl_divergence(d, Square(ml.tensor { 4.0, 4.0 })):totable(),
    { math.log(2), math.log(4 / 3) }, 1e-6)
  expect.error(function() return D.register_kl(Square, ml.nn.Linear) end, "'type_q': a class of distributions")
  expect.error(function() return D.kl_divergence(d, 3) end, "'q': a distribution is expected, got 3")
end)

test("the nearest classes say how a divergence is computed", function()
  local Mine = class("Mine", D.Normal)
  local d, other = Mine(0, 1), D.Normal(1, 2)
  local plain = D.kl_divergence(D.Normal(0, 1), other):item()
  expect.near(D.kl_divergence(d, other):item(), plain)
  D.register_kl(Mine, D.Normal, function() return ml.tensor(7.0) end)
  expect.equal(D.kl_divergence(d, other):item(), 7)
  expect.near(D.kl_divergence(D.Normal(0, 1), d):item(), 0)
  expect.near(d:expand({ 3 }):log_prob(ml.tensor(0.0)):numel(), 3)
end)

test("a transform of a script's own is one as any other", function()
  local Cube = class("Cube", D.Transform)
  Cube.domain, Cube.codomain, Cube.bijective, Cube.sign = C.real, C.real, true, 1
  local calls = 0
  function Cube:_call(x) calls = calls + 1 return x ^ 3 end
  function Cube:_inverse(y) return y:sign() * y:abs() ^ (1 / 3) end
  function Cube:log_abs_det_jacobian(x) return (3 * x:square()):log() end
  local d = D.TransformedDistribution(D.Normal(0, 1), Cube())
  local x = ml.tensor { 8.0, -1.0 }
  local base = D.Normal(0, 1):log_prob(ml.tensor { 2.0, -1.0 })
  expect.near(d:log_prob(x):totable(), (base - ml.tensor { 12.0, 3.0 }:log()):totable(), 1e-5)
  expect.near(d:cdf(x):totable(), D.Normal(0, 1):cdf(ml.tensor { 2.0, -1.0 }):totable(), 1e-5)
  local cached = Cube { cache_size = 1 }
  calls = 0
  local y = cached(x)
  expect.equal(cached(x), y)
  expect.equal(calls, 1)
  expect.equal(cached.inv(y), x)
  expect.error(function() return D.Transform { cache_size = 2 } end, "from 0 to 1")
  expect.error(function() return D.Transform()(x) end, "has no _call")
  expect.error(function() return D.ExpTransform()(1) end, "a tensor is expected, got 1")
  local registry = D.ConstraintRegistry("mine")
  expect.error(function() return registry(C.real) end, "mine: no transform leads to Real%(%)")
  registry:register(C.real, function() return Cube() end)
  expect.equal(class.of(registry(C.real)), Cube)
  expect.error(function() return registry:register(3) end, "a constraint or a class of them")
end)

test("transforms check shapes", function()
  expect.error(function() return D.StickBreakingTransform()(ml.tensor(1.0)) end, "too few dimensions")
  expect.error(function() return D.CorrCholeskyTransform()(ml.zeros(4)) end, "vectors of 4 are no strictly lower")
  expect.error(function() return D.ReshapeTransform({ 2, 3 }, { 5 }) end, "different numbers of elements")
  expect.error(function() return D.ReshapeTransform({ 2, 3 }, { 6 })(ml.zeros(3, 2)) end, "does not end with")
  expect.error(function() return D.CatTransform({ D.ExpTransform() }, 2)(ml.zeros(1)) end, "dimension 2 of shape")
  expect.error(function() return D.CatTransform({ D.ExpTransform() }, 1)(ml.zeros(2)) end, "has not size 1")
  expect.error(function() return D.StackTransform({ D.ExpTransform() }, 0)(ml.zeros(2)) end, "dimension 0")
  expect.error(function() return D.CatTransform({}) end, "'tseq' is empty")
  expect.error(function() return D.ComposeTransform { 1 } end, "item 1 of 'parts'")
  expect.equal(D.ComposeTransform { D.ExpTransform() }, D.ComposeTransform { D.ExpTransform() })
  expect.truthy(D.AffineTransform(0, 2) ~= D.AffineTransform(0, 3))
  expect.equal(D.AffineTransform(ml.zeros(2), 2), D.AffineTransform(0, 2))
  expect.equal(D.AffineTransform(ml.zeros(3, 1), 2):forward_shape({ 4 }), { 3, 4 })
end)

test("constraints check their arguments", function()
  expect.error(function() return C.interval(0) end, "distributions.constraints.interval: 'upper_bound' is missing")
  expect.error(function() return C.positive:check(1) end, "check: 'value': a tensor is expected, got 1")
  expect.error(function() return C.simplex:check(ml.tensor(1.0)) end, "Simplex%(%): check: values have 1 dimension")
  expect.error(function() return C.dependent:check(ml.ones(1)) end, "cannot be checked")
  expect.error(function() return C.dependent.event_dim end, "depends on the object")
  expect.equal(C.dependent { event_dim = 2 }.event_dim, 2)
  expect.truthy(C.is_dependent(C.dependent))
  expect.falsy(C.is_dependent(C.real))
  expect.error(function() return C.cat({ C.real }, 1, { 1, 2 }) end, "2 lengths for 1 constraints")
  expect.error(function() return C.stack({ 3 }) end, "item 1 of 'cseq'")
  expect.error(function() return C.positiv end, "did you mean 'positive'")
end)

test("maximum likelihood finds the parameters of samples", function()
  ml.manual_seed(29)
  local data = D.Gamma(3.0, 2.0):sample { 4000 }
  local raw = ml.zeros(2):requires_grad_()
  local to_positive = D.transform_to(C.positive)
  local opt = ml.optim.Adam({ raw }, { lr = 0.05 })
  for _ = 1, 200 do
    opt:zero_grad()
    local parameters = to_positive(raw);
    (-D.Gamma(parameters[1], parameters[2]):log_prob(data):mean()):backward()
    opt:step()
  end
  expect.near(to_positive(raw):detach():totable(), { 3, 2 }, 0.1)
end)

harness.run()
