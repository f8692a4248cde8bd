-- stdlib/distributions/transformed.lua: distributions made of others: of further dimensions, of
-- transforms of samples, of a mixture's components.

local categorical = require "moonlet.distributions.categorical"
local class = require "moonlet.class"
local constraints = require "moonlet.distributions.constraints"
local distribution = require "moonlet.distributions.distribution"
local ml = require "moonlet"
local properties = require "moonlet.distributions.properties"
local shapes = require "moonlet.distributions.shapes"
local signature = require "moonlet.signature"
local base = require "moonlet.distributions.transforms.base"
local fail = distribution.fail

local transformed = {}

local function batch_of(d) return d.batch_shape:tolist() end
local function event_of(d) return d.event_shape:tolist() end

--- Reinterprets the last batch dimensions of a distribution as dimensions of one sample; the log
--- probabilities along them are added up.
--- > d = ml.distributions.Independent(ml.distributions.Normal(ml.zeros(3), 1), 1)
--- > d:log_prob(ml.zeros(3))
---   -2.7568  Tensor () float32
---@param base_distribution moonlet.distributions.Distribution the distribution of each element
---@param reinterpreted_batch_ndims integer how many of the last batch dimensions join the event
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape batch (B, E), event (*) -> batch (B), event (E, *)
---@formula log p(x) = sum_i log p_i(x_i)
local Independent = distribution.define("Independent",
  "Distribution base_distribution, int>=0 reinterpreted_batch_ndims")
transformed.Independent = Independent
Independent.arg_constraints = {}

function Independent:init(...)
  local of, count, validate_args = Independent._reader(...)
  local batch, event = batch_of(of), event_of(of)
  if count > #batch then
    fail(self, "'reinterpreted_batch_ndims' is %d and the batch_shape %s", count,
      shapes.text(batch))
  end
  self.base_dist, self.reinterpreted_batch_ndims = of, count
  local cut = #batch - count
  self:_begin(shapes.part(batch, 1, cut), shapes.join(shapes.part(batch, cut + 1), event),
    validate_args)
end

function Independent:_expand(new, batch_shape)
  local count = self.reinterpreted_batch_ndims
  local more = shapes.part(self._event_shape, 1, count)
  new.base_dist = self.base_dist:expand(shapes.join(batch_shape, more))
  new.reinterpreted_batch_ndims = count
end

local get = properties.of(Independent)
function get:has_rsample() return self.base_dist.has_rsample end
function get:has_enumerate_support()
  return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support
end
function get:support()
  local count, support = self.reinterpreted_batch_ndims, self.base_dist.support
  return count > 0 and constraints.independent(support, count) or support
end
function get:mean() return self.base_dist.mean end
function get:mode() return self.base_dist.mode end
function get:variance() return self.base_dist.variance end

function Independent:_sample(shape, generator)
  return distribution.draw(self.base_dist, "sample", shape, generator)
end
function Independent:_rsample(shape, generator)
  return distribution.draw(self.base_dist, "rsample", shape, generator)
end

-- The base checks the value.
function Independent:_taken(value) return value end
function Independent:_log_prob(value)
  return shapes.sum_rightmost(self.base_dist:log_prob(value), self.reinterpreted_batch_ndims)
end
function Independent:_entropy()
  return shapes.sum_rightmost(self.base_dist:entropy(), self.reinterpreted_batch_ndims)
end
function Independent:_values(expand)
  if self.reinterpreted_batch_ndims > 0 then
    fail(self, "enumerate_support does not list products of values")
  end
  return self.base_dist:enumerate_support(expand)
end
function Independent:__tostring()
  return ("Independent(%s, %d)"):format(tostring(self.base_dist), self.reinterpreted_batch_ndims)
end

signature.add_type("Transforms", "a transform or an array of them", function(value)
  if class.is_instance(value, base.Transform) then return { value } end
  return type(value) == "table" and getmetatable(value) == nil and value or nil
end, true)

--- Distribution of what one or several transforms, applied one after the other, make of a base
--- distribution's samples.
--- > D = ml.distributions
--- > d = D.TransformedDistribution(D.Normal(0, 1), D.ExpTransform())
--- > d:log_prob(ml.tensor(1.0))
---   -0.9189  Tensor () float32
---@param base_distribution moonlet.distributions.Distribution the distribution of the first
---   transform's argument
---@param transforms any a transform or an array of them
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@formula log p(y) = log p_X(x) - log |det dy/dx|, y = f(x)
local Transformed = distribution.define("TransformedDistribution",
  "Distribution base_distribution, Transforms transforms")
transformed.TransformedDistribution = Transformed
Transformed.arg_constraints = {}

function Transformed:init(...)
  local of, list, validate_args = Transformed._reader(...)
  self:_begin_with(of, list, validate_args)
end

-- The base in the shape that the transforms' parameters ask for, with further dimensions in its
-- events where a transform takes several together.
local function fit_base(self, of, transform, forward)
  local size = shapes.join(batch_of(of), event_of(of))
  local event_dim = #event_of(of)
  local expanded = transform:inverse_shape(forward):tolist()
  if not shapes.equal(size, expanded) then
    of = of:expand(shapes.part(expanded, 1, #expanded - event_dim))
  end
  local more = transform.domain.event_dim - event_dim
  self.base_dist = more > 0 and Independent(of, more) or of
end

function Transformed:_begin_with(of, list, validate_args)
  self.transforms = base.transforms(distribution.where(self), "transforms", list, 0)
  local transform = base.ComposeTransform(list)
  local size, event_dim = shapes.join(batch_of(of), event_of(of)), #event_of(of)
  local from, to = transform.domain.event_dim, transform.codomain.event_dim
  if #size < from then
    fail(self, "the base's shape is %s, and the transforms take %d dimension%s", shapes.text(size),
      from, from == 1 and "" or "s")
  end
  local forward = transform:forward_shape(size):tolist()
  fit_base(self, of, transform, forward)
  local cut = #forward - math.max(to, event_dim + to - from)
  self:_begin(shapes.part(forward, 1, cut), shapes.part(forward, cut + 1), validate_args)
end

function Transformed:_expand(new, batch_shape)
  local shape = shapes.join(batch_shape, self._event_shape)
  for i = #self.transforms, 1, -1 do shape = self.transforms[i]:inverse_shape(shape):tolist() end
  local inner = #event_of(self.base_dist)
  new.base_dist = self.base_dist:expand(shapes.part(shape, 1, #shape - inner))
  new.transforms = self.transforms
  distribution.Distribution._expand(self, new, batch_shape)
end

get = properties.of(Transformed)
function get:has_rsample() return self.base_dist.has_rsample end
function get:support()
  local last = self.transforms[#self.transforms]
  if not last then return self.base_dist.support end
  local support = last.codomain
  local more = #self._event_shape - support.event_dim
  return more > 0 and constraints.independent(support, more) or support
end

local function apply(self, x)
  for _, transform in ipairs(self.transforms) do x = transform(x) end
  return x
end

function Transformed:_sample(shape, generator)
  return apply(self, distribution.draw(self.base_dist, "sample", shape, generator))
end
function Transformed:_rsample(shape, generator)
  return apply(self, distribution.draw(self.base_dist, "rsample", shape, generator))
end

function Transformed:_log_prob(value)
  local event_dim, sum, y = #self._event_shape, nil, value
  for i = #self.transforms, 1, -1 do
    local transform = self.transforms[i]
    local x, from = transform.inv(y), transform.domain.event_dim
    event_dim = event_dim + from - transform.codomain.event_dim
    local term = shapes.sum_rightmost(transform:log_abs_det_jacobian(x, y), event_dim - from)
    sum = sum and sum - term or -term
    y = x
  end
  local inner = shapes.sum_rightmost(self.base_dist:log_prob(y),
    event_dim - #event_of(self.base_dist))
  return sum and sum + inner or inner
end

-- The probability under the base, turned round where the transforms fall.
local function turned(self, value)
  local sign = 1
  for _, transform in ipairs(self.transforms) do sign = sign * transform.sign end
  if sign == 1 then return value end
  return sign * (value - 0.5) + 0.5
end

local read_cdf = signature "TransformedDistribution:cdf(Tensor|number value)"

--- Cumulative distribution function, where all transforms are monotonic.
--- > ml.distributions.LogNormal(0, 1):cdf(ml.tensor(1.0))
---   0.5000  Tensor () float32
---@param value Tensor values in the support: a tensor, or without `validate_args` also a number
---@return Tensor
---@shape value broadcasts with (batch_shape) -> (sample_shape, batch_shape)
function Transformed:cdf(...)
  local value = read_cdf(...)
  if self._cdf then return self:_cdf(self:_taken(value)) end
  if not ml.is_tensor(value) then value = ml.tensor(value + 0.0) end
  for i = #self.transforms, 1, -1 do value = self.transforms[i].inv(value) end
  return turned(self, self.base_dist:cdf(value))
end

function Transformed:_icdf(value) return apply(self, self.base_dist:icdf(turned(self, value))) end

--- Mixture of distributions of one family: a categorical distribution chooses which of the
--- components, the last dimension of their batch, a sample is drawn from.
--- > D = ml.distributions
--- > components = D.Normal(ml.tensor { -1.0, 3.0 }, 1)
--- > D.MixtureSameFamily(D.Categorical(ml.tensor { 0.5, 0.5 }), components).mean
---   1.  Tensor () float32
---@param mixture_distribution moonlet.distributions.Distribution a `Categorical` of K weights w_k
---@param component_distribution moonlet.distributions.Distribution a batch (*, K) of distributions
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape weights (*, K), components (*, K) -> samples (sample_shape, *, event_shape)
---@formula p(x) = sum_k w_k p_k(x)
local Mixture = distribution.define("MixtureSameFamily",
  "Distribution mixture_distribution, Distribution component_distribution")
transformed.MixtureSameFamily = Mixture
Mixture.arg_constraints = {}

local function check_mixture(self, mixture, component)
  if not class.is_instance(mixture, categorical.Categorical) then
    fail(self, "'mixture_distribution': a Categorical is expected, got %s", tostring(mixture))
  end
  local batch = batch_of(component)
  if #batch == 0 then fail(self, "'component_distribution' has no dimension of components") end
  local outer, count = shapes.part(batch, 1, -2), mixture.logits:size(-1)
  if not pcall(ml.broadcast_shapes, batch_of(mixture), outer) then
    fail(self, "the mixture's batch_shape %s does not fit that of the components, %s",
      shapes.text(batch_of(mixture)), shapes.text(batch))
  end
  if batch[#batch] ~= count then
    fail(self, "the mixture is of %d components and there are %d", count, batch[#batch])
  end
  return outer
end

function Mixture:init(...)
  local mixture, component, validate_args = Mixture._reader(...)
  local batch = check_mixture(self, mixture, component)
  self.mixture_distribution, self.component_distribution = mixture, component
  self:_begin(batch, event_of(component), validate_args)
end

function Mixture:_expand(new, batch_shape)
  local count = self.mixture_distribution.logits:size(-1)
  new.mixture_distribution = self.mixture_distribution:expand(batch_shape)
  new.component_distribution = self.component_distribution:expand(
    shapes.join(batch_shape, { count }))
end

-- The shares of the components, as many dimensions from the end as these have.
local function shares(self)
  local probs = self.mixture_distribution.probs
  local batch = batch_of(self.mixture_distribution)
  local more = #batch == 1 and 0 or #self._batch_shape - #batch
  return probs:reshape(shapes.join(batch, shapes.ones(more), { probs:size(-1) },
    shapes.ones(#self._event_shape)))
end

local function pad(self, x) return x:unsqueeze(-1 - #self._event_shape) end

get = properties.of(Mixture)
function get:support()
  return constraints.MixtureSameFamilyConstraint(self.component_distribution.support)
end
function get:mean()
  return (shares(self) * self.component_distribution.mean):sum(-1 - #self._event_shape)
end
function get:variance()
  local of, dim = self.component_distribution, -1 - #self._event_shape
  local within = (shares(self) * of.variance):sum(dim)
  return within + (shares(self) * (of.mean - pad(self, self.mean)):square()):sum(dim)
end

local read_mixture_cdf = signature "MixtureSameFamily:cdf(Tensor value)"

--- Cumulative distribution function: the weighted mean of the components'.
--- > D = ml.distributions
--- > components = D.Normal(ml.tensor { -1.0, 1.0 }, 1)
--- > D.MixtureSameFamily(D.Categorical(ml.tensor { 0.5, 0.5 }), components):cdf(ml.tensor(0.0))
---   0.5000  Tensor () float32
---@param value Tensor values in the support: a tensor, or without `validate_args` also a number
---@return Tensor
---@shape value broadcasts with (batch_shape) -> (sample_shape, batch_shape)
---@formula F(x) = sum_k w_k F_k(x)
function Mixture:cdf(...)
  local value = read_mixture_cdf(...)
  local of = self.component_distribution:cdf(pad(self, value))
  return (of * self.mixture_distribution.probs):sum(-1)
end

function Mixture:_log_prob(value)
  local of = self.component_distribution:log_prob(pad(self, value))
  return (of + self.mixture_distribution.logits:log_softmax(-1)):logsumexp(-1)
end

function Mixture:_sample(shape, generator)
  local mixture, event = self.mixture_distribution, self._event_shape
  if not shapes.equal(batch_of(mixture), self._batch_shape) then
    mixture = mixture:expand(self._batch_shape)
  end
  local which = distribution.draw(mixture, "sample", shape, generator)
  local drawn = distribution.draw(self.component_distribution, "sample", shape, generator)
  local dim = #shape + #self._batch_shape + 1
  local size = shapes.of(which)
  local at = which:reshape(shapes.join(size, shapes.ones(#event + 1)))
    :expand(shapes.join(size, { 1 }, event))
  return drawn:gather(dim, at):squeeze(dim)
end

function Mixture:__tostring()
  return ("MixtureSameFamily(\n  %s,\n  %s)"):format(tostring(self.mixture_distribution),
    tostring(self.component_distribution))
end

return transformed
