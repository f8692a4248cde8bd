-- stdlib/distributions/discrete.lua: distributions of counts, and of what happens or not.

local constraints = require "moonlet.distributions.constraints"
local distribution = require "moonlet.distributions.distribution"
local gamma = require "moonlet.distributions.gamma"
local logits = require "moonlet.distributions.logits"
local ml = require "moonlet"
local numerics = require "moonlet.distributions.numerics"
local properties = require "moonlet.distributions.properties"
local shapes = require "moonlet.distributions.shapes"
local ExponentialFamily = distribution.ExponentialFamily
local fail = distribution.fail

local discrete = {}

local NAN = 0 / 0
local PROBS = "Tensor|number? probs=nil, Tensor|number? logits=nil"

-- A class of two outcomes, given by `probs` or `logits`, and of the parameters in front of these.
local function define(name, others, parent, front)
  local fields = { "probs", "logits", table.unpack(others) }
  local cls = distribution.define(name, (front or "") .. PROBS, fields, parent)
  logits.define_binary(cls)
  cls.arg_constraints = { probs = constraints.unit_interval, logits = constraints.real }
  function cls:init(...)
    local o = cls._reader:table(...)
    self:_begin(logits.take_binary(self, o, others), {}, o.validate_args)
  end
  return cls
end

-- The numbers from 0 to `last` along a new first dimension.
local function count_up(self, last, expand)
  local values = numerics.range(0, last, self._param)
  values = values:reshape(shapes.join({ last + 1 }, shapes.ones(#self._batch_shape)))
  return expand and values:expand(shapes.join({ last + 1 }, self._batch_shape)) or values
end

--- Bernoulli distribution: 1 with probability `probs`, otherwise 0.
--- > d = ml.distributions.Bernoulli(0.3)
--- > d:log_prob(ml.tensor(1.0)):exp()
---   0.3000  Tensor () float32
---@param probs? moonlet.Tensor|number probability of 1, in [0, 1]; give `probs` or `logits`
---@param logits? moonlet.Tensor|number log odds log(p / (1 - p)) of 1, in place of `probs`
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape probs (*) -> samples (sample_shape, *)
---@formula P(x) = p^x (1 - p)^(1 - x) for x in {0, 1}
local Bernoulli = define("Bernoulli", {}, ExponentialFamily)
discrete.Bernoulli = Bernoulli
Bernoulli.support, Bernoulli.has_enumerate_support = constraints.boolean, true
Bernoulli._mean_carrier_measure = 0

local get = properties.of(Bernoulli)
function get:mean() return self.probs end
function get:mode()
  local mode = self.probs:ge(0.5):to(self.probs.dtype)
  return mode:masked_fill(self.probs:eq(0.5), NAN)
end
function get:variance() return self.probs * (1 - self.probs) end

function Bernoulli:_sample(shape, generator)
  local probs = self.probs:expand(self:_extended_shape(shape))
  return ml.bernoulli(probs, { generator = generator })
end

-- Minus binary_loss of log odds and a value, which broadcast.
local function log_prob_of(self, value)
  local both = ml.broadcast_tensors { self.logits, value:to(self.logits.dtype) }
  return -numerics.binary_loss(both[1], both[2])
end

function Bernoulli:_log_prob(value) return log_prob_of(self, value) end
function Bernoulli:_entropy() return numerics.binary_loss(self.logits, self.probs) end
function Bernoulli:_values(expand) return count_up(self, 1, expand) end
function Bernoulli:_natural_params() return { self.probs:logit() } end
function Bernoulli:_log_normalizer(x) return x:softplus() end

--- Geometric distribution: the number of failures before the first success, from 0.
--- > ml.distributions.Geometric(0.25).mean
---   3.  Tensor () float32
---@param probs? moonlet.Tensor|number probability of success p, in (0, 1]; give `probs` or `logits`
---@param logits? moonlet.Tensor|number log odds of success, in place of `probs`
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape probs (*) -> samples (sample_shape, *)
---@formula P(x) = (1 - p)^x p for x = 0, 1, 2, ...
local Geometric = define("Geometric", {})
discrete.Geometric = Geometric
Geometric.support = constraints.nonnegative_integer

function Geometric:init(...)
  local o = Geometric._reader:table(...)
  self:_begin(logits.take_binary(self, o), {}, o.validate_args)
  if self._validate_args and o.probs and not self.probs:gt(0):all():item() then
    fail(self, "'probs' of shape %s must be above 0", tostring(self.probs.shape))
  end
end

get = properties.of(Geometric)
function get:mean() return 1 / self.probs - 1 end
function get:mode() return self.probs:zeros_like() end
function get:variance() return (1 / self.probs - 1) / self.probs end

function Geometric:_sample(shape, generator)
  local u = numerics.empty(self:_extended_shape(shape), self.probs)
  u:uniform_(ml.finfo(u.dtype).tiny, 1, { generator = generator })
  return (u:log() / (-self.probs):log1p()):floor()
end

function Geometric:_log_prob(value)
  local certain = self.probs:eq(1):logical_and(value:eq(0))
  local both = ml.broadcast_tensors { self.probs, certain, value }
  return value * (-both[1]:masked_fill(both[2], 0)):log1p() + self.probs:log()
end

function Geometric:_entropy() return numerics.binary_loss(self.logits, self.probs) / self.probs end

--- Binomial distribution: the number of successes in `total_count` independent trials.
--- > ml.distributions.Binomial(10, 0.3):log_prob(ml.tensor(3.0)):exp()
---   0.2668  Tensor () float32
---@param total_count? moonlet.Tensor|number number of trials n, a nonnegative integer or a
---   tensor of them
---@param probs? moonlet.Tensor|number probability of success p, in [0, 1]; give `probs` or `logits`
---@param logits? moonlet.Tensor|number log odds of success, in place of `probs`
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape total_count (*), probs (*) -> samples (sample_shape, *)
---@formula P(x) = n! / (x! (n - x)!) p^x (1 - p)^(n - x) for x = 0, ..., n
local Binomial = define("Binomial", { "total_count" }, nil, "Tensor|number total_count=1, ")
discrete.Binomial = Binomial
Binomial.has_enumerate_support = true
Binomial.arg_constraints = { total_count = constraints.nonnegative_integer,
  probs = constraints.unit_interval, logits = constraints.real }

get = properties.of(Binomial)
function get:support() return constraints.integer_interval(0, self.total_count) end
function get:mean() return self.total_count * self.probs end
function get:mode()
  return ((self.total_count + 1) * self.probs):floor():minimum(self.total_count)
end
function get:variance() return self.total_count * self.probs * (1 - self.probs) end

function Binomial:_sample(shape, generator)
  local size = self:_extended_shape(shape)
  return ml.binomial(self.total_count:expand(size), self.probs:expand(size),
    { generator = generator })
end

-- x where it is above 0, else 0, with gradient 1/2 at 0.
local function positive_part(x) return (x:clamp { min = 0 } + x - x:clamp { max = 0 }) / 2 end

function Binomial:_log_prob(value)
  local n, x = self.total_count, self.logits
  local choices = (n + 1):lgamma() - (value + 1):lgamma() - (n - value + 1):lgamma()
  return choices + value * x - n * positive_part(x) - n * (-x:abs()):exp():log1p()
end

-- The number of trials, which must be the same for all of the batch.
local function common_count(self, what)
  local n = self.total_count
  if n:numel() == 0 or n:min():item() ~= n:max():item() then
    fail(self, "%s wants one 'total_count' for all of the batch", what)
  end
  local count = math.tointeger(n:max():item())
  if not count or count < 0 then fail(self, "'total_count' is no count of trials") end
  return count
end

function Binomial:_values(expand)
  return count_up(self, common_count(self, "enumerate_support"), expand)
end

function Binomial:_entropy()
  local log_prob = self:_log_prob(count_up(self, common_count(self, "entropy"), false))
  return -(log_prob:exp() * log_prob):sum(1)
end

--- Negative binomial distribution: the number of successes before `total_count` trials have failed.
--- > ml.distributions.NegativeBinomial(5, 0.5).mean
---   5.  Tensor () float32
---@param total_count moonlet.Tensor|number number of failures n at which the trials stop,
---   nonnegative, not only integers
---@param probs? moonlet.Tensor|number probability of success p, in [0, 1); give `probs` or `logits`
---@param logits? moonlet.Tensor|number log odds of success, in place of `probs`
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape total_count (*), probs (*) -> samples (sample_shape, *)
---@formula P(x) = Gamma(x + n) / (x! Gamma(n)) (1 - p)^n p^x for x = 0, 1, 2, ...
local NegativeBinomial = define("NegativeBinomial", { "total_count" }, nil,
  "Tensor|number total_count, ")
discrete.NegativeBinomial = NegativeBinomial
NegativeBinomial.support = constraints.nonnegative_integer
NegativeBinomial.arg_constraints = { total_count = constraints.greater_than_eq(0),
  probs = constraints.half_open_interval(0.0, 1.0), logits = constraints.real }

get = properties.of(NegativeBinomial)
function get:mean() return self.total_count * self.logits:exp() end
function get:mode()
  return ((self.total_count - 1) * self.logits:exp()):floor():clamp { min = 0 }
end
function get:variance() return self.mean / (-self.logits):sigmoid() end

function NegativeBinomial:_sample(shape, generator)
  local rates = gamma.Gamma(self.total_count, (-self.logits):exp(), { validate_args = false })
  local rate = distribution.draw(rates, "sample", shape, generator)
  return ml.poisson(rate, { generator = generator })
end

function NegativeBinomial:_log_prob(value)
  local n = self.total_count
  local plain = n * (-self.logits):logsigmoid() + value * self.logits:logsigmoid()
  local choices = (n + value):lgamma() - (value + 1):lgamma() - n:lgamma()
  return plain + choices:masked_fill((n + value):eq(0), 0)
end

--- Poisson distribution: the number of events in a unit of time that occur independently at a
--- constant rate. Mean and variance are `rate`. Samples have no gradient.
--- > ml.distributions.Poisson(4):log_prob(ml.tensor(4.0)):exp()
---   0.1954  Tensor () float32
---@param rate moonlet.Tensor|number expected number of events lambda, nonnegative
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape rate (*) -> samples (sample_shape, *)
---@formula P(x) = lambda^x exp(-lambda) / x! for x = 0, 1, 2, ...
local Poisson = distribution.elementwise("Poisson", { "rate" }, ExponentialFamily)
discrete.Poisson = Poisson
Poisson.support = constraints.nonnegative_integer
Poisson.arg_constraints = { rate = constraints.nonnegative }

get = properties.of(Poisson)
function get:mean() return self.rate end
function get:mode() return self.rate:floor() end
function get:variance() return self.rate end

function Poisson:_sample(shape, generator)
  return ml.poisson(self.rate:expand(self:_extended_shape(shape)), { generator = generator })
end

function Poisson:_log_prob(value)
  return ml.xlogy(value, self.rate) - self.rate - (value + 1):lgamma()
end

function Poisson:_natural_params() return { self.rate:log() } end
function Poisson:_log_normalizer(x) return x:exp() end

--- Continuous Bernoulli distribution on [0, 1], as for the pixels of grey images. Close to probs =
--- 1/2 the normalising constant is computed by a Taylor series.
--- > ml.distributions.ContinuousBernoulli(0.2).mean
---   0.3880  Tensor () float32
---@param probs? moonlet.Tensor|number parameter lambda, in (0, 1); give `probs` or `logits`
---@param logits? moonlet.Tensor|number log odds log(lambda / (1 - lambda)), in place of `probs`
---@param lims? number|number[] the interval of `probs` in which the series is used
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape probs (*) -> samples (sample_shape, *)
---@formula p(x) = C(lambda) lambda^x (1 - lambda)^(1 - x)
---@formula C(lambda) = 2 atanh(1 - 2 lambda) / (1 - 2 lambda)
---@source Loaiza-Ganem and Cunningham, "The continuous Bernoulli", 2019
local ContinuousBernoulli = distribution.define("ContinuousBernoulli",
  PROBS .. ", number[2] lims={0.499, 0.501}", { "probs", "logits" }, ExponentialFamily)
discrete.ContinuousBernoulli = ContinuousBernoulli
logits.define_binary(ContinuousBernoulli)
ContinuousBernoulli._kept = { "_given", "_lims" }
ContinuousBernoulli._mean_carrier_measure = 0
ContinuousBernoulli.has_rsample = true
ContinuousBernoulli.support = constraints.unit_interval
ContinuousBernoulli.arg_constraints = { probs = constraints.unit_interval,
  logits = constraints.real }

function ContinuousBernoulli:init(...)
  local o = ContinuousBernoulli._reader:table(...)
  local size = logits.take_binary(self, o)
  self._lims = o.lims
  self:_begin(size, {}, o.validate_args)
  if o.probs then self.probs = numerics.clamp_probs(self.probs) end
end

-- Where the formulas are exact, and the probabilities with a bound in the place of the others.
local function outside(self)
  local low, high = self._lims[1], self._lims[2]
  local found = self.probs:le(low):logical_or(self.probs:gt(high))
  return found, ml.where(found, self.probs, low)
end

-- The logarithm of the factor that makes the density integrate to 1.
local function log_norm(self)
  local exact, p = outside(self)
  local low = p:le(0.5)
  local below, above = ml.where(low, p, 0.0), ml.where(low, 1.0, p)
  local value = ((-p):log1p() - p:log()):abs():log()
    - ml.where(low, (-2 * below):log1p(), (2 * above - 1):log())
  local x = (self.probs - 0.5):square()
  return ml.where(exact, value, math.log(2) + (4 / 3 + 104 / 45 * x) * x)
end

--- The logarithm of the factor that makes the density of each integrate to 1.
---@param self table
---@return Tensor
function discrete.continuous_log_norm(self) return log_norm(self) end

get = properties.of(ContinuousBernoulli)
function get:mean()
  local exact, p = outside(self)
  local x = self.probs - 0.5
  return ml.where(exact, p / (2 * p - 1) + 1 / ((-p):log1p() - p:log()),
    0.5 + (1 / 3 + 16 / 45 * x:square()) * x)
end
function get:variance()
  local exact, p = outside(self)
  local x = (self.probs - 0.5):square()
  local value = p * (p - 1) / (1 - 2 * p):square() + 1 / ((-p):log1p() - p:log()):square()
  return ml.where(exact, value, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)
end
local lazy = properties.lazy(ContinuousBernoulli)
function lazy:probs()
  return numerics.clamp_probs(numerics.logits_to_probs(self.logits, true))
end

function ContinuousBernoulli:_rsample(shape, generator)
  return self:_icdf(numerics.rand(self:_extended_shape(shape), self.probs, generator))
end

function ContinuousBernoulli:_log_prob(value) return log_prob_of(self, value) + log_norm(self) end

function ContinuousBernoulli:_cdf(value)
  local exact, p = outside(self)
  local inside = (p:pow(value) * (1 - p):pow(1 - value) + p - 1) / (2 * p - 1)
  local found = ml.where(exact, inside, value)
  return ml.where(value:le(0), 0.0, ml.where(value:ge(1), 1.0, found))
end

function ContinuousBernoulli:_icdf(value)
  local exact, p = outside(self)
  local log_rest = (-p):log1p()
  return ml.where(exact, ((value * (2 * p - 1) - p):log1p() - log_rest) / (p:log() - log_rest),
    value)
end

function ContinuousBernoulli:_entropy()
  local log0, log1 = (-self.probs):log1p(), self.probs:log()
  return self.mean * (log0 - log1) - log_norm(self) - log0
end

function ContinuousBernoulli:_natural_params() return { self.logits } end

function ContinuousBernoulli:_log_normalizer(x)
  local low, high = self._lims[1] - 0.5, self._lims[2] - 0.5
  local exact = x:le(low):logical_or(x:gt(high))
  local cut = ml.where(exact, x, low)
  return ml.where(exact, cut:expm1():abs():log() - cut:abs():log(),
    0.5 * x + x:square() / 24 - x:pow(4) / 2880)
end

return discrete
