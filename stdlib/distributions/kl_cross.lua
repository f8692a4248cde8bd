-- stdlib/distributions/kl_cross.lua: divergences of distributions of different classes.

local derived = require "moonlet.distributions.derived"
local discrete = require "moonlet.distributions.discrete"
local gamma = require "moonlet.distributions.gamma"
local location = require "moonlet.distributions.location"
local ml = require "moonlet"
local numerics = require "moonlet.distributions.numerics"
local log_norm = discrete.continuous_log_norm

local INF, PI, EULER = math.huge, math.pi, numerics.EULER

local classes = {}
for _, module in ipairs { location, gamma, discrete, derived } do
  for name, cls in pairs(module) do
    if type(cls) == "table" then classes[name] = cls end
  end
end

-- Pairs for which p has numbers that q has not: the divergence is infinite.
local infinite = {
  Beta = { "Pareto" },
  ContinuousBernoulli = { "Pareto" },
  Exponential = { "Beta", "ContinuousBernoulli", "Pareto", "Uniform" },
  Gamma = { "Beta", "ContinuousBernoulli", "Pareto", "Uniform" },
  Gumbel = { "Beta", "ContinuousBernoulli", "Exponential", "Gamma", "Pareto", "Uniform" },
  Laplace = { "Beta", "ContinuousBernoulli", "Exponential", "Gamma", "Pareto", "Uniform" },
  Normal = { "Beta", "ContinuousBernoulli", "Exponential", "Gamma", "Pareto", "Uniform" },
  Pareto = { "Beta", "ContinuousBernoulli", "Uniform" },
  Poisson = { "Bernoulli", "Binomial" },
}

local function infinity(p) return ml.full(p._batch_shape, INF, { dtype = p.mean.dtype,
  device = p.mean.device }) end

local function x_log_x(x) return ml.xlogy(x, x) end

-- The mean of log(x) for evenly distributed x.
local function mean_log(low, high)
  local width = high - low
  return (x_log_x(high) - x_log_x(low) - width) / width
end

-- Where a uniform distribution leaves what lies from `low` to `high`.
local function beyond(p, low, high) return p.low:lt(low):logical_or(p.high:gt(high)) end

-- The mean of q's log density under p, with its sign changed, of numbers whose mean, mean square or
-- mean logarithm is given.
local function under_normal(q, mean, square)
  local variance = q.scale:square()
  return 0.5 * (2 * PI * variance):log()
    + (square - 2 * q.loc * mean + q.loc:square()) / (2 * variance)
end
local function under_gamma(q, mean, log_mean)
  local a = q.concentration
  return a:lgamma() - a * q.rate:log() - (a - 1) * log_mean + q.rate * mean
end
local function under_continuous(q, mean)
  return -mean * q.logits - (-q.probs):log1p() - log_norm(q)
end
local function under_exponential(q, mean) return q.rate * mean - q.rate:log() end

local Bernoulli, Beta, Continuous = {}, {}, {}

function Bernoulli.Poisson(p, q) return -p:entropy() - (p.probs * q.rate:log() - q.rate) end

function Beta.ContinuousBernoulli(p, q) return under_continuous(q, p.mean) - p:entropy() end
function Beta.Exponential(p, q) return under_exponential(q, p.mean) - p:entropy() end
function Beta.Gamma(p, q)
  local a = p.concentration1
  return under_gamma(q, p.mean, a:digamma() - (a + p.concentration0):digamma()) - p:entropy()
end
function Beta.Normal(p, q)
  return under_normal(q, p.mean, p.variance + p.mean:square()) - p:entropy()
end
function Beta.Uniform(p, q)
  local outside = q.low:gt(0):logical_or(q.high:lt(1))
  return ml.where(outside, INF, (q.high - q.low):log() - p:entropy())
end

function Continuous.Exponential(p, q) return under_exponential(q, p.mean) - p:entropy() end
function Continuous.Normal(p, q)
  return under_normal(q, p.mean, p.variance + p.mean:square()) - p:entropy()
end
function Continuous.Uniform(p, q)
  local outside = q.low:gt(0):logical_or(q.high:lt(1))
  return ml.where(outside, INF, (q.high - q.low):log() - p:entropy())
end

local Exponential, Gamma = {}, {}

function Exponential.Gamma(p, q)
  return under_gamma(q, 1 / p.rate, -p.rate:log() - EULER) - p:entropy()
end
function Exponential.Gumbel(p, q)
  local product, off = p.rate * q.scale, q.loc / q.scale
  return product:log() - 1 - off + off:exp() * product / (product + 1) + 1 / product
end
function Exponential.Normal(p, q)
  return under_normal(q, 1 / p.rate, 2 * p.rate:pow(-2)) - p:entropy()
end

function Gamma.Exponential(p, q) return under_exponential(q, p.mean) - p:entropy() end
function Gamma.Gumbel(p, q)
  local a, product, off = p.concentration, p.rate * q.scale, q.loc / q.scale
  return (a - 1) * a:digamma() - a:lgamma() - a + product:log() + a / product
    + off:exp() * (1 + 1 / product):pow(-a) - off
end
function Gamma.Normal(p, q)
  return under_normal(q, p.mean, p.variance + p.mean:square()) - p:entropy()
end

local Gumbel, Laplace, Normal = {}, {}, {}

function Gumbel.Normal(p, q)
  return under_normal(q, p.mean, p.variance + p.mean:square()) - p:entropy()
end

function Laplace.Normal(p, q)
  return under_normal(q, p.loc, p.variance + p.loc:square()) - p:entropy()
end

function Normal.Gumbel(p, q)
  local off, variance = (p.loc - q.loc) / q.scale, (p.scale / q.scale):square()
  return -0.5 * variance:log() + off + (0.5 * variance - off):exp() - 0.5 * (1 + math.log(2 * PI))
end
function Normal.Laplace(p, q)
  local off = p.loc - q.loc
  local scaled = off / p.scale
  local distance = math.sqrt(2 / PI) * p.scale * (-0.5 * scaled:square()):exp()
    + off * (math.sqrt(0.5) * scaled):erf()
  return distance / q.scale + (2 * q.scale):log() - p:entropy()
end

local Pareto, Uniform = {}, {}

-- The divergence where p has the moment that it takes, else infinite.
local function with_moment(p, least, value) return ml.where(p.alpha:le(least), INF, value) end

function Pareto.Exponential(p, q)
  local mean = p.alpha * p.scale / (p.alpha - 1)
  return with_moment(p, 1, under_exponential(q, mean) - p:entropy())
end
function Pareto.Gamma(p, q)
  local mean = p.alpha * p.scale / (p.alpha - 1)
  return with_moment(p, 1, under_gamma(q, mean, p.scale:log() + 1 / p.alpha) - p:entropy())
end
function Pareto.Normal(p, q)
  local a, scale = p.alpha, p.scale
  local value = under_normal(q, a * scale / (a - 1), a * scale:square() / (a - 2)) - p:entropy()
  return with_moment(p, 2, value)
end

function Uniform.Beta(p, q)
  local a, b = q.concentration1, q.concentration0
  local value = a:lgamma() + b:lgamma() - (a + b):lgamma() - (p.high - p.low):log()
    - (a - 1) * mean_log(p.low, p.high) - (b - 1) * mean_log(1 - p.high, 1 - p.low)
  return ml.where(beyond(p, 0, 1), INF, value)
end
function Uniform.ContinuousBernoulli(p, q)
  return ml.where(beyond(p, 0, 1), INF, under_continuous(q, p.mean) - p:entropy())
end
function Uniform.Exponential(p, q)
  return ml.where(p.low:lt(0), INF, under_exponential(q, p.mean) - p:entropy())
end
function Uniform.Gamma(p, q)
  local value = under_gamma(q, p.mean, mean_log(p.low, p.high)) - p:entropy()
  return ml.where(p.low:lt(0), INF, value)
end
function Uniform.Gumbel(p, q)
  local ratio = q.scale / (p.high - p.low)
  local high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
  return ratio:log() + 0.5 * (high + low) - ratio * ((-high):exp() - (-low):exp())
end
function Uniform.Normal(p, q)
  return under_normal(q, p.mean, p.variance + p.mean:square()) - p:entropy()
end
function Uniform.Pareto(p, q)
  local value = (q.alpha + 1) * mean_log(p.low, p.high) - q.alpha:log() - q.alpha * q.scale:log()
    - p:entropy()
  return ml.where(p.low:lt(q.scale), INF, value)
end

local finite = { Bernoulli = Bernoulli, Beta = Beta, ContinuousBernoulli = Continuous,
  Exponential = Exponential, Gamma = Gamma, Gumbel = Gumbel, Laplace = Laplace, Normal = Normal,
  Pareto = Pareto, Uniform = Uniform }

local function sorted(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return names
end

return function(add)
  for _, p in ipairs(sorted(infinite)) do
    for _, q in ipairs(infinite[p]) do add(classes[p], classes[q], infinity) end
  end
  for _, p in ipairs(sorted(finite)) do
    for _, q in ipairs(sorted(finite[p])) do add(classes[p], classes[q], finite[p][q]) end
  end
end
