-- stdlib/distributions/kl_normal.lua: divergences of normal distributions of vectors.

local ml = require "moonlet"
local multivariate = require "moonlet.distributions.multivariate"
local numerics = require "moonlet.distributions.numerics"
local options = require "moonlet.options"
local shapes = require "moonlet.distributions.shapes"

local Full = multivariate.MultivariateNormal
local LowRank = multivariate.LowRankMultivariateNormal

-- The trace of X X^T.
local function trace_square(x) return x:square():sum({ -2, -1 }) end

local function check_events(p, q)
  if not shapes.equal(p._event_shape, q._event_shape) then
    options.fail("distributions.kl_divergence: vectors of %d and of %d", p._event_shape[1],
      q._event_shape[1])
  end
end

local function log_det(d)
  if d._capacitance then return multivariate.low_rank_log_det(d) end
  return 2 * numerics.log_diagonal(d._scale_tril)
end

-- Matrices whose products X X^T add up to the covariance.
local function parts(d)
  if d._capacitance then return { d._factor, d._diag:sqrt():diag_embed() } end
  return { d._scale_tril }
end

-- The squared distance of x from 0 under q.
local function distance(q, x)
  if q._capacitance then return multivariate.low_rank_distance(q, x) end
  return numerics.mahalanobis(q._scale_tril, x)
end

-- The trace of q's precision times X X^T.
local function trace_under(q, x)
  if not q._capacitance then return trace_square(numerics.solve_lower(q._scale_tril, x)) end
  local inner = q._factor.mT / q._diag:unsqueeze(-2)
  local lower = numerics.solve_lower(q._capacitance, inner)
  return trace_square(x * q._diag:rsqrt():unsqueeze(-1)) - trace_square(lower:matmul(x))
end

local function divergence(p, q)
  check_events(p, q)
  local sum = log_det(q) - log_det(p) + distance(q, q.loc - p.loc)
  for _, part in ipairs(parts(p)) do sum = sum + trace_under(q, part) end
  local value = 0.5 * (sum - p._event_shape[1])
  return value:expand(ml.broadcast_shapes(p._batch_shape, q._batch_shape))
end

return function(add)
  for _, p in ipairs { Full, LowRank } do
    for _, q in ipairs { Full, LowRank } do add(p, q, divergence) end
  end
end
