-- stdlib/distributions/kl_same.lua: divergences of two distributions of one class.

local categorical = require "moonlet.distributions.categorical"
local class = require "moonlet.class"
local derived = require "moonlet.distributions.derived"
local discrete = require "moonlet.distributions.discrete"
local distribution = require "moonlet.distributions.distribution"
local gamma = require "moonlet.distributions.gamma"
local location = require "moonlet.distributions.location"
local ml = require "moonlet"
local numerics = require "moonlet.distributions.numerics"
local options = require "moonlet.options"
local shapes = require "moonlet.distributions.shapes"
local transformed = require "moonlet.distributions.transformed"
local base = require "moonlet.distributions.transforms.base"

local INF = math.huge
local WHERE = "distributions.kl_divergence"

local same = {}

function same.Normal(p, q)
  local ratio = (p.scale / q.scale):square()
  return 0.5 * (ratio + ((p.loc - q.loc) / q.scale):square() - 1 - ratio:log())
end

function same.Laplace(p, q)
  local ratio, off = p.scale / q.scale, (p.loc - q.loc):abs()
  return off / q.scale + ratio * (-off / p.scale):exp() - ratio:log() - 1
end

function same.Cauchy(p, q)
  local spread = (p.scale + q.scale):square() + (p.loc - q.loc):square()
  return spread:log() - (4 * p.scale * q.scale):log()
end

function same.Uniform(p, q)
  local beyond = q.low:gt(p.low):logical_or(q.high:lt(p.high))
  return ml.where(beyond, INF, ((q.high - q.low) / (p.high - p.low)):log())
end

function same.Exponential(p, q)
  local ratio = q.rate / p.rate
  return ratio - ratio:log() - 1
end

function same.Gamma(p, q)
  local a, b = p.concentration, q.concentration
  return b * (p.rate / q.rate):log() + b:lgamma() - a:lgamma() + (a - b) * a:digamma()
    + (q.rate - p.rate) * (a / p.rate)
end

function same.Beta(p, q)
  local sum_p, sum_q = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
  local function term(a, b) return b:lgamma() - a:lgamma() + (a - b) * a:digamma() end
  return term(p.concentration1, q.concentration1) + term(p.concentration0, q.concentration0)
    + sum_p:lgamma() - sum_q:lgamma() + (sum_q - sum_p) * sum_p:digamma()
end

function same.Dirichlet(p, q)
  local a, b = p.concentration, q.concentration
  local sum_a, sum_b = a:sum(-1), b:sum(-1)
  return sum_a:lgamma() - sum_b:lgamma() - (a:lgamma() - b:lgamma()):sum(-1)
    + ((a - b) * (a:digamma() - sum_a:digamma():unsqueeze(-1))):sum(-1)
end

function same.Poisson(p, q) return p.rate * (p.rate:log() - q.rate:log()) - (p.rate - q.rate) end

function same.Bernoulli(p, q)
  -- Of one outcome, whose logits are `sign` times those given.
  local function term(a, b, sign)
    local value = a * ((-sign * q.logits):softplus() - (-sign * p.logits):softplus())
    return ml.where(a:eq(0), 0.0, ml.where(b:eq(0), INF, value))
  end
  return term(p.probs, q.probs, 1) + term(1 - p.probs, 1 - q.probs, -1)
end

function same.Geometric(p, q)
  return -p:entropy() - (-q.probs):log1p() / p.probs - q.logits
end

function same.Binomial(p, q)
  if p.total_count:lt(q.total_count):any():item() then
    options.fail("%s: of Binomials with a 'total_count' of q above that of p there is no formula",
      WHERE)
  end
  local each = p.probs * (p.logits - q.logits) + (-p.probs):log1p() - (-q.probs):log1p()
  return ml.where(p.total_count:gt(q.total_count), INF, p.total_count * each)
end

function same.ContinuousBernoulli(p, q)
  local norm = discrete.continuous_log_norm
  return p.mean * (p.logits - q.logits) + norm(p) + (-p.probs):log1p() - norm(q)
    - (-q.probs):log1p()
end

function same.Categorical(p, q)
  local terms = p.probs * (p.logits - q.logits)
  return ml.where(p.probs:eq(0), 0.0, ml.where(q.probs:eq(0), INF, terms)):sum(-1)
end

function same.OneHotCategorical(p, q) return same.Categorical(p._categorical, q._categorical) end

function same.Gumbel(p, q)
  local ratio, off = p.scale / q.scale, (q.loc - p.loc) / q.scale
  return -ratio:log() - off + ratio * numerics.EULER + (off + (1 + ratio):lgamma()):exp()
    - (1 + numerics.EULER)
end

function same.HalfNormal(p, q) return same.Normal(p.base_dist, q.base_dist) end

function same.Pareto(p, q)
  local ratio = q.alpha / p.alpha
  local value = q.alpha * (p.scale / q.scale):log() - ratio:log() + ratio - 1
  return ml.where(p.scale:lt(q.scale), INF, value)
end

-- By Bregman's divergence of the log normalizer.
function same.ExponentialFamily(p, q)
  if class.of(p) ~= class.of(q) then
    options.fail("%s: no formula for %s and %s; register_kl adds one", WHERE,
      class.name(class.of(p)), class.name(class.of(q)))
  end
  local value, params, gradients = distribution.log_normalizer(p)
  local others = q:_natural_params()
  local sum = q:_log_normalizer(table.unpack(others)) - value
  local batch = #p._batch_shape
  for i, param in ipairs(params) do
    local term = (others[i] - param) * gradients[i]
    sum = sum - shapes.sum_rightmost(term, math.max(gradients[i]:dim() - batch, 0))
  end
  return sum
end

local classes = {
  { location, "Normal", "Laplace", "Cauchy", "Uniform" },
  { gamma, "Exponential", "Gamma", "Beta", "Dirichlet" },
  { discrete, "Poisson", "Bernoulli", "Geometric", "Binomial", "ContinuousBernoulli" },
  { categorical, "Categorical", "OneHotCategorical" },
  { derived, "Gumbel", "HalfNormal", "Pareto" },
  { distribution, "ExponentialFamily" },
}

-- Of what other distributions are made into.
local function add_composed(add, divergence)
  add(transformed.TransformedDistribution, transformed.TransformedDistribution, function(p, q)
    if not base.equal_lists(p.transforms, q.transforms)
        or not shapes.equal(p._event_shape, q._event_shape) then
      options.fail("%s: of different transforms there is no formula", WHERE)
    end
    return divergence(p.base_dist, q.base_dist)
  end)
  add(transformed.Independent, transformed.Independent, function(p, q)
    local count = p.reinterpreted_batch_ndims
    if count ~= q.reinterpreted_batch_ndims then
      options.fail("%s: of different 'reinterpreted_batch_ndims', %d and %d", WHERE, count,
        q.reinterpreted_batch_ndims)
    end
    return shapes.sum_rightmost(divergence(p.base_dist, q.base_dist), count)
  end)
end

return function(add, divergence)
  for _, row in ipairs(classes) do
    for i = 2, #row do
      local cls = row[1][row[i]]
      add(cls, cls, same[row[i]])
    end
  end
  add_composed(add, divergence)
end
