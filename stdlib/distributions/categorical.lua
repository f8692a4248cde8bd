-- stdlib/distributions/categorical.lua: distributions of one of K categories, which count from 1.

local constraints = require "moonlet.distributions.constraints"
local discrete = require "moonlet.distributions.discrete"
local distribution = require "moonlet.distributions.distribution"
local logits = require "moonlet.distributions.logits"
local ml = require "moonlet"
local properties = require "moonlet.distributions.properties"
local shapes = require "moonlet.distributions.shapes"

local categorical = {}

local PROBS = "Tensor? probs=nil, Tensor? logits=nil"
local CONSTRAINTS = { probs = constraints.simplex, logits = constraints.real_vector }

--- Categorical distribution over the categories 1 to K, the positions along the last dimension of
--- the parameter.
--- > d = ml.distributions.Categorical(ml.tensor { 0.2, 0.5, 0.3 })
--- > d:log_prob(ml.tensor { 1, 3 }):exp()
---   {0.2000, 0.3000}
---   Tensor (2,) float32
---@param probs? moonlet.Tensor probabilities, normalised along the last dimension; give `probs`
---   or `logits`
---@param logits? moonlet.Tensor unnormalised log probabilities, in place of `probs`
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape probs (*, K) -> samples (sample_shape, *)
---@formula P(i) = p_i / sum_j p_j = exp(logits_i) / sum_j exp(logits_j)
local Categorical = distribution.define("Categorical", PROBS, { "probs", "logits" })
categorical.Categorical = Categorical
logits.define_categories(Categorical)
Categorical._kept = { "_given", "_num_events" }
Categorical.has_enumerate_support = true
Categorical.arg_constraints = CONSTRAINTS

function Categorical:init(...)
  local o = Categorical._reader:table(...)
  local batch_shape, count = logits.take_categories(self, o)
  self._num_events = count
  self:_begin(batch_shape, {}, o.validate_args)
end

local function undefined(self)
  return ml.full(self._batch_shape, 0 / 0, { dtype = self.probs.dtype, device = self.probs.device })
end

local get = properties.of(Categorical)
get.mean, get.variance = undefined, undefined
function get:mode() return self.probs:argmax(-1) end
function get:support() return constraints.integer_interval(1, self._num_events) end

function Categorical:_sample(shape, generator)
  local size, count = self:_extended_shape(shape), shapes.numel(shape)
  local rows = shapes.numel(self._batch_shape)
  if count == 0 or rows == 0 then
    return ml.zeros(size, { dtype = ml.int64, device = self.probs.device })
  end
  local probs = self.probs:reshape({ rows, self._num_events })
  return ml.multinomial(probs, count, true, { generator = generator }):t():reshape(size)
end

function Categorical:_log_prob(value)
  local at = value:to(ml.int64)
  local size = ml.broadcast_shapes(at.shape, shapes.part(shapes.of(self.logits), 1, -2)):tolist()
  local of = self.logits:expand(shapes.join(size, { self._num_events }))
  return of:gather(-1, at:expand(size):unsqueeze(-1)):squeeze(-1)
end

function Categorical:_entropy()
  local least = ml.finfo(self.logits.dtype).min
  return -(self.logits:clamp { min = least } * self.probs):sum(-1)
end

function Categorical:_values(expand)
  local count = self._num_events
  local values = ml.arange(1, count, { device = self._param.device })
    :reshape(shapes.join({ count }, shapes.ones(#self._batch_shape)))
  return expand and values:expand(shapes.join({ count }, self._batch_shape)) or values
end

-- Gives a class the fields of the categorical distribution that it keeps.
local function forward_fields(cls)
  local own = properties.of(cls)
  for _, name in ipairs { "probs", "logits", "param_shape", "_param" } do
    own[name] = function(self) return self._categorical[name] end
  end
  function cls:_expand(new, batch_shape)
    new._categorical = self._categorical:expand(batch_shape)
  end
end

--- Keeps a categorical distribution of `probs` or `logits`, checked under the class's own name.
---@param self table
---@param o table<string, any>
function categorical.take(self, o)
  local batch_shape, count = logits.take_categories(self, o)
  local given = self._given
  self._categorical = Categorical { [given] = rawget(self, given), validate_args = false }
  self[given], self._given = nil, nil
  self:_begin(batch_shape, { count }, o.validate_args)
end
categorical.forward_fields = forward_fields

--- Categorical distribution whose samples are one-hot vectors: 1 at the position of the category, 0
--- elsewhere.
--- > ml.distributions.OneHotCategorical(ml.tensor { 0.2, 0.5, 0.3 }).mode
---   {0., 1., 0.}
---   Tensor (3,) float32
---@param probs? moonlet.Tensor probabilities, normalised along the last dimension; give `probs`
---   or `logits`
---@param logits? moonlet.Tensor unnormalised log probabilities, in place of `probs`
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape probs (*, K) -> samples (sample_shape, *, K)
---@formula P(x) = prod_i p_i^(x_i)
local OneHotCategorical = distribution.define("OneHotCategorical", PROBS)
categorical.OneHotCategorical = OneHotCategorical
forward_fields(OneHotCategorical)
OneHotCategorical.support, OneHotCategorical.has_enumerate_support = constraints.one_hot, true
OneHotCategorical.arg_constraints = CONSTRAINTS

function OneHotCategorical:init(...)
  categorical.take(self, OneHotCategorical._reader:table(...))
end

local function one_hot(self, positions)
  local probs = self.probs
  return ml.one_hot(positions, probs:size(-1)):to(probs.dtype)
end

get = properties.of(OneHotCategorical)
function get:mean() return self.probs end
function get:mode() return one_hot(self, self.probs:argmax(-1)) end
function get:variance() return self.probs * (1 - self.probs) end

function OneHotCategorical:_sample(shape, generator)
  return one_hot(self, distribution.draw(self._categorical, "sample", shape, generator))
end

function OneHotCategorical:_log_prob(value) return self._categorical:_log_prob(value:argmax(-1)) end

function OneHotCategorical:_entropy() return self._categorical:_entropy() end

function OneHotCategorical:_values(expand)
  local n, batch = self._event_shape[1], self._batch_shape
  local values = ml.eye(n, { dtype = self._param.dtype, device = self._param.device })
    :reshape(shapes.join({ n }, shapes.ones(#batch), { n }))
  return expand and values:expand(shapes.join({ n }, batch, { n })) or values
end

--- One-hot categorical distribution whose `rsample` has the straight-through gradient: that of the
--- probabilities, as if the samples were these.
--- > ml.distributions.OneHotCategoricalStraightThrough(ml.tensor { 0.0, 1.0 }):rsample()
---   {0., 1.}
---   Tensor (2,) float32
---@param probs? moonlet.Tensor probabilities, normalised along the last dimension; give `probs`
---   or `logits`
---@param logits? moonlet.Tensor unnormalised log probabilities, in place of `probs`
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape probs (*, K) -> samples (sample_shape, *, K)
---@source Bengio, Leonard and Courville, "Estimating or propagating gradients through
---   stochastic neurons", 2013
local StraightThrough = distribution.define("OneHotCategoricalStraightThrough", PROBS, nil,
  OneHotCategorical)
categorical.OneHotCategoricalStraightThrough = StraightThrough
StraightThrough.has_rsample = true

function StraightThrough:_rsample(shape, generator)
  local drawn = ml.no_grad(self._sample, self, shape, generator)
  return drawn + (self.probs - self.probs:detach())
end

--- Multinomial distribution: how often each of K categories occurs in `total_count` independent
--- draws.
--- > ml.distributions.Multinomial(10, ml.tensor { 0.2, 0.8 }).mean
---   {2., 8.}
---   Tensor (2,) float32
---@param total_count? integer number of draws n, a nonnegative integer
---@param probs? moonlet.Tensor probabilities, normalised along the last dimension; give `probs`
---   or `logits`
---@param logits? moonlet.Tensor unnormalised log probabilities, in place of `probs`
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape probs (*, K) -> samples (sample_shape, *, K)
---@formula P(x) = n! / prod_i x_i! prod_i p_i^(x_i)
local Multinomial = distribution.define("Multinomial", "int>=0 total_count=1, " .. PROBS)
categorical.Multinomial = Multinomial
forward_fields(Multinomial)
Multinomial.arg_constraints = CONSTRAINTS

function Multinomial:init(...)
  local o = Multinomial._reader:table(...)
  self.total_count = o.total_count
  categorical.take(self, o)
end

function Multinomial:_expand(new, batch_shape)
  new.total_count, new._categorical = self.total_count, self._categorical:expand(batch_shape)
end

get = properties.of(Multinomial)
function get:support() return constraints.multinomial(self.total_count) end
function get:mean() return self.probs * self.total_count end
function get:variance() return self.total_count * self.probs * (1 - self.probs) end

function Multinomial:_sample(shape, generator)
  local drawn = distribution.draw(self._categorical, "sample",
    shapes.join({ self.total_count }, shape), generator):movedim(1, -1)
  local counts = ml.zeros(self:_extended_shape(shape),
    { dtype = self.probs.dtype, device = self.probs.device })
  local ones = ml.ones(drawn.shape, { dtype = counts.dtype, device = counts.device })
  return counts:scatter_add(-1, drawn, ones)
end

function Multinomial:_entropy()
  local n = ml.tensor(self.total_count, { dtype = self.probs.dtype, device = self.probs.device })
  local known = n * self._categorical:_entropy() - (n + 1):lgamma()
  if self.total_count == 0 then return known end
  local each = discrete.Binomial(n, self.probs, { validate_args = false })
  local values = each:enumerate_support(false):narrow(1, 2, self.total_count)
  return known + (each:_log_prob(values):exp() * (values + 1):lgamma()):sum({ 1, -1 })
end

function Multinomial:_log_prob(value)
  local both = ml.broadcast_tensors { self.logits, value }
  local never = both[2]:eq(0):logical_and(both[1]:eq(-math.huge))
  return (value:sum(-1) + 1):lgamma() - (value + 1):lgamma():sum(-1)
    + (both[1]:masked_fill(never, 0) * both[2]):sum(-1)
end

return categorical
