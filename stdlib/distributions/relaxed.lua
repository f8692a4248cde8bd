-- stdlib/distributions/relaxed.lua: continuous stand-ins for categories, whose samples have a
-- gradient (Jang, Gu and Poole, "Categorical reparameterization with Gumbel-softmax", and Maddison,
-- Mnih and Teh, "The concrete distribution", both 2017).

local categorical = require "moonlet.distributions.categorical"
local constraints = require "moonlet.distributions.constraints"
local distribution = require "moonlet.distributions.distribution"
local elementwise = require "moonlet.distributions.transforms.elementwise"
local logits = require "moonlet.distributions.logits"
local ml = require "moonlet"
local numerics = require "moonlet.distributions.numerics"
local properties = require "moonlet.distributions.properties"
local transformed = require "moonlet.distributions.transformed"
local Transformed = transformed.TransformedDistribution
local fail = distribution.fail

local relaxed = {}

local BINARY = { probs = constraints.unit_interval, logits = constraints.real }
local CATEGORIES = { probs = constraints.simplex, logits = constraints.real_vector }
local BINARY_PROBS = "Tensor|number temperature, Tensor|number? probs=nil, "
  .. "Tensor|number? logits=nil"
local PROBS = "Tensor|number temperature, Tensor? probs=nil, Tensor? logits=nil"

-- The temperature as a tensor, like the parameter where it is a number.
local function temperature_of(self, o, like)
  local value = o.temperature
  if not ml.is_tensor(value) then
    value = ml.tensor(value, { dtype = like.dtype, device = like.device })
  end
  if not value:gt(0):all():item() then fail(self, "'temperature' must be above 0") end
  return value
end

-- A class that transforms samples of another, which it makes of its own arguments.
local function over(name, parameters, make, transform, support, found)
  local cls = distribution.define(name, parameters, nil, Transformed)
  function cls:init(...)
    local o = cls._reader:table(...)
    local base = make { temperature = o.temperature, probs = o.probs, logits = o.logits,
      validate_args = o.validate_args }
    self:_begin_with(base, { transform() }, o.validate_args)
  end
  cls._expand = Transformed._expand
  cls.support, cls.arg_constraints = support, found
  local get = properties.of(cls)
  for _, field in ipairs { "temperature", "probs", "logits" } do
    get[field] = function(self) return self.base_dist[field] end
  end
  return cls
end

--- Distribution of the log odds of `RelaxedBernoulli` samples: a logistic number around the logits,
--- divided by the temperature.
--- > ml.distributions.LogitRelaxedBernoulli(0.5, 0.5):log_prob(ml.tensor(0.0))
---   -2.0794  Tensor () float32
---@param temperature moonlet.Tensor|number temperature, positive; the lower, the closer samples
---   are to discrete ones
---@param probs? moonlet.Tensor|number probability of 1, in [0, 1]; give `probs` or `logits`
---@param logits? moonlet.Tensor|number log odds log(p / (1 - p)) of 1, in place of `probs`
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape temperature (), probs (*) -> samples (sample_shape, *)
---@formula X = (logits + log(U) - log(1 - U)) / temperature, U uniform on (0, 1)
---@source Maddison, Mnih and Teh, "The concrete distribution", 2017
local LogitRelaxed = distribution.define("LogitRelaxedBernoulli", BINARY_PROBS,
  { "probs", "logits" })
relaxed.LogitRelaxedBernoulli = LogitRelaxed
logits.define_binary(LogitRelaxed)
LogitRelaxed._kept = { "_given", "temperature" }
LogitRelaxed.support, LogitRelaxed.arg_constraints = constraints.real, BINARY
LogitRelaxed.has_rsample = true

function LogitRelaxed:init(...)
  local o = LogitRelaxed._reader:table(...)
  local size = logits.take_binary(self, o)
  self.temperature = temperature_of(self, o, self._param)
  self:_begin(size, {}, o.validate_args)
end

function LogitRelaxed:_rsample(shape, generator)
  local size = self:_extended_shape(shape)
  local probs = numerics.clamp_probs(self.probs:expand(size))
  local u = numerics.clamp_probs(numerics.rand(size, probs, generator))
  return (u:log() - (-u):log1p() + probs:log() - (-probs):log1p()) / self.temperature
end

function LogitRelaxed:_log_prob(value)
  local diff = self.logits - value * self.temperature
  return self.temperature:log() + diff - 2 * diff:softplus()
end

--- Relaxed (concrete) Bernoulli distribution: numbers in (0, 1), close to 0 or 1 at a low
--- temperature, with a gradient.
--- > ml.distributions.RelaxedBernoulli(0.5, 0.5):log_prob(ml.tensor(0.5))
---   -0.6931  Tensor () float32
---@param temperature moonlet.Tensor|number temperature, positive; the lower, the closer samples
---   are to discrete ones
---@param probs? moonlet.Tensor|number probability of 1, in [0, 1]; give `probs` or `logits`
---@param logits? moonlet.Tensor|number log odds log(p / (1 - p)) of 1, in place of `probs`
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape temperature (), probs (*) -> samples (sample_shape, *)
---@source Maddison, Mnih and Teh, "The concrete distribution", 2017
local RelaxedBernoulli = over("RelaxedBernoulli", BINARY_PROBS, LogitRelaxed,
  elementwise.SigmoidTransform, constraints.unit_interval, BINARY)
relaxed.RelaxedBernoulli = RelaxedBernoulli

--- Distribution of the logarithms of `RelaxedOneHotCategorical` samples.
--- > ml.distributions.ExpRelaxedCategorical(0.5, ml.ones(3)):sample():exp():sum()
---   1.  Tensor () float32
---@param temperature moonlet.Tensor|number temperature, positive; the lower, the closer samples
---   are to discrete ones
---@param probs? moonlet.Tensor probabilities, normalised along the last dimension; give `probs`
---   or `logits`
---@param logits? moonlet.Tensor unnormalised log probabilities, in place of `probs`
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape temperature (), probs (*, K) -> samples (sample_shape, *, K)
---@formula X = log_softmax((logits + G) / temperature), G_i Gumbel(0, 1)
---@source Jang, Gu and Poole, "Categorical reparameterization with Gumbel-softmax", 2017
local ExpRelaxed = distribution.define("ExpRelaxedCategorical", PROBS)
relaxed.ExpRelaxedCategorical = ExpRelaxed
categorical.forward_fields(ExpRelaxed)
ExpRelaxed.support, ExpRelaxed.arg_constraints = constraints.real_vector, CATEGORIES
ExpRelaxed.has_rsample = true

function ExpRelaxed:init(...)
  local o = ExpRelaxed._reader:table(...)
  categorical.take(self, o)
  self.temperature = temperature_of(self, o, self._param)
end

function ExpRelaxed:_expand(new, batch_shape)
  new._categorical, new.temperature = self._categorical:expand(batch_shape), self.temperature
end

function ExpRelaxed:_rsample(shape, generator)
  local size = self:_extended_shape(shape)
  local u = numerics.clamp_probs(numerics.rand(size, self.logits, generator))
  local scores = (self.logits - (-u:log()):log()) / self.temperature
  return scores - scores:logsumexp(-1, true)
end

function ExpRelaxed:_log_prob(value)
  local count, temperature = self._event_shape[1], self.temperature
  local scale = numerics.filled(temperature, count):lgamma() + temperature:log() * (count - 1)
  local score = self.logits - value * temperature
  return (score - score:logsumexp(-1, true)):sum(-1) + scale
end

--- Relaxed one-hot (Gumbel-softmax, concrete) distribution: vectors in the simplex, close to
--- one-hot at a low temperature, with a gradient.
--- > ml.distributions.RelaxedOneHotCategorical(0.5, ml.ones(3)):sample():sum()
---   1.  Tensor () float32
---@param temperature moonlet.Tensor|number temperature, positive; the lower, the closer samples
---   are to discrete ones
---@param probs? moonlet.Tensor probabilities, normalised along the last dimension; give `probs`
---   or `logits`
---@param logits? moonlet.Tensor unnormalised log probabilities, in place of `probs`
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape temperature (), probs (*, K) -> samples (sample_shape, *, K)
---@formula X = softmax((logits + G) / temperature), G_i Gumbel(0, 1)
---@source Jang, Gu and Poole, "Categorical reparameterization with Gumbel-softmax", 2017
local RelaxedOneHot = over("RelaxedOneHotCategorical", PROBS, ExpRelaxed, elementwise.ExpTransform,
  constraints.simplex, CATEGORIES)
relaxed.RelaxedOneHotCategorical = RelaxedOneHot

return relaxed
