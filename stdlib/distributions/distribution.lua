-- stdlib/distributions/distribution.lua: the base of distributions, which reads arguments, checks
-- parameters and values, and leaves the rest to methods that begin with "_".

local class = require "moonlet.class"
local ml = require "moonlet"
local numbers = require "moonlet.numbers"
local options = require "moonlet.options"
local properties = require "moonlet.distributions.properties"
local shapes = require "moonlet.distributions.shapes"
local signature = require "moonlet.signature"

local distribution = {}

--- The base class of probability distributions. An object stands for a batch of distributions:
--- their parameters have shape `batch_shape`, and one sample of each has shape `event_shape`. A
--- class of one's own calls `Mine.super.init(self, batch_shape, event_shape)`, has the fields
--- `support` and `arg_constraints`, constants or by `constraints.dependent_property`, and methods
--- such as `rsample`, `log_prob` and `expand`.
--- > d = ml.distributions.Normal(ml.zeros(3), 1)
--- > d.batch_shape, d.event_shape
---   (3,)	()
---@field batch_shape moonlet.Shape The shape of the batch of distributions.
---@field event_shape moonlet.Shape The shape of one sample of one distribution.
---@field support table The constraint that samples satisfy.
---@field arg_constraints table<string, table> The constraints of the parameters by name.
---@field has_rsample boolean Whether `rsample` gives samples with a gradient.
---@field has_enumerate_support boolean Whether `enumerate_support` lists all values.
---@field mean Tensor Expectation, of shape (batch_shape, event_shape); NaN where there is none.
---@field mode Tensor The value of highest probability or density, in the same shape.
---@field variance Tensor Variance of each element, in the same shape.
---@field stddev Tensor Standard deviation, the square root of the variance.
---@param batch_shape? integer[] the shape of the batch of distributions
---@param event_shape? integer[] the shape of one sample
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
local Distribution = class("Distribution")
distribution.Distribution = Distribution
Distribution.__index = properties.index
Distribution.has_rsample = false
Distribution.has_enumerate_support = false
Distribution._validate_args = true

signature.add_type("Distribution", "a distribution", function(value)
  return class.is_instance(value, Distribution) and value or nil
end)

local read_init = signature("distributions.Distribution(Size batch_shape={}, Size event_shape={}, "
  .. "bool? validate_args=nil)")
local read_default = signature "distributions.Distribution.set_default_validate_args(bool value)"
local read_expand = signature "Distribution:expand(Size batch_shape)"
local read_sample = signature "Distribution:sample(Size sample_shape={}, Generator? generator=nil)"
local read_rsample = signature("Distribution:rsample(Size sample_shape={}, "
  .. "Generator? generator=nil)")
local read_log_prob = signature "Distribution:log_prob(Tensor|number value)"
local read_cdf = signature "Distribution:cdf(Tensor|number value)"
local read_icdf = signature "Distribution:icdf(Tensor|number value)"
local read_enumerate = signature "Distribution:enumerate_support(bool expand=true)"

--- What errors of a distribution begin with.
---@param self table
---@return string
function distribution.where(self) return "distributions." .. class.name(class.of(self)) end
local where = distribution.where

--- An error that begins with the distribution's name.
---@param self table
---@param format string
function distribution.fail(self, format, ...)
  options.fail("%s: " .. format, where(self), ...)
end
local fail = distribution.fail

--- A class of distributions whose constructor takes `parameters` and `validate_args`; its `_reader`
--- reads them. `fields` are the names of those kept as tensors, which `expand` expands.
---@param name string
---@param parameters string
---@param fields? string[]
---@param parent? table
---@return table
function distribution.define(name, parameters, fields, parent)
  local cls = class(name, parent or Distribution)
  cls._reader = signature(("distributions.%s(%s, bool? validate_args=nil)")
    :format(name, parameters))
  cls._fields = fields
  return cls
end

--- A class whose parameters, all of `fields`, broadcast to the shape of the batch. Each is a number
--- or a tensor; `defaults` are those that may be left out.
---@param name string
---@param fields string[]
---@param parent? table
---@param defaults? table<string, number>
---@return table
function distribution.elementwise(name, fields, parent, defaults)
  local parameters = {}
  for i, field in ipairs(fields) do
    local default = defaults and defaults[field]
    parameters[i] = "Tensor|number " .. field .. (default and "=" .. default or "")
  end
  local cls = distribution.define(name, table.concat(parameters, ", "), fields, parent)
  function cls:init(...)
    local o = cls._reader:table(...)
    distribution.take(self, fields, o)
    self:_begin(shapes.of(self[fields[1]]), {}, o.validate_args)
  end
  return cls
end

--- Keeps the arguments of these names as tensors of one shape.
---@param self table
---@param names string[]
---@param o table<string, any>
function distribution.take(self, names, o)
  local values = {}
  for i, name in ipairs(names) do values[i] = o[name] end
  for i, tensor in ipairs(shapes.broadcast_all(where(self), names, values)) do
    self[names[i]] = tensor
  end
end

function Distribution:init(...)
  local batch_shape, event_shape, validate_args = read_init(...)
  self:_begin(batch_shape, event_shape, validate_args)
end

-- The names of the constraints in the order of the constructor's parameters.
local function constrained(self)
  local found, names, seen = self.arg_constraints or {}, {}, {}
  for _, name in ipairs(self._reader and self._reader.names or {}) do
    if found[name] then names[#names + 1], seen[name] = name, true end
  end
  local others = {}
  for name in pairs(found) do
    if not seen[name] then others[#others + 1] = name end
  end
  table.sort(others)
  return table.move(others, 1, #others, #names + 1, names), found
end

-- Fails with the first value that is not valid.
local function refuse(self, name, value, valid, constraint)
  local first, rank = value:detach(), valid:dim()
  if rank > 0 and shapes.equal(shapes.part(shapes.of(value), 1, rank), shapes.of(valid)) then
    first = first[valid:logical_not()]:select(1, 1)
  end
  local text = first:dim() == 0 and signature.describe(first:item()) or "others"
  if first:dim() == 1 and first:numel() <= 8 then
    local items = {}
    for i, item in ipairs(first:tolist()) do items[i] = numbers.tostring(item) end
    text = "{" .. table.concat(items, ", ") .. "}"
  end
  fail(self, "%s of shape %s must satisfy %s, got %s", name, tostring(value.shape),
    tostring(constraint), text)
end

local function is_lazy(self, name)
  local property = properties.find(self, name)
  return properties.is_property(property) and property.lazy
end

local function check_arguments(self)
  local dependent = require("moonlet.distributions.constraints").is_dependent
  local names, found = constrained(self)
  for _, name in ipairs(names) do
    local constraint = found[name]
    local unknown = dependent(constraint) or (rawget(self, name) == nil and is_lazy(self, name))
    if not unknown then
      local value = self[name]
      if not ml.is_tensor(value) then fail(self, "'%s' must be a tensor", name) end
      local valid = constraint:check(value)
      if not valid:all():item() then refuse(self, "'" .. name .. "'", value, valid, constraint) end
    end
  end
end

-- What each constructor ends with: the shapes, and the check of the parameters.
function Distribution:_begin(batch_shape, event_shape, validate_args)
  self._batch_shape, self._event_shape = batch_shape, event_shape
  if validate_args ~= nil then self._validate_args = validate_args end
  if self._validate_args then check_arguments(self) end
end

--- Sets whether distributions made from now on check their parameters and the values given to them,
--- unless their own `validate_args` says otherwise. They do at first.
--- > ml.distributions.Distribution.set_default_validate_args(true)
--- > (pcall(ml.distributions.Normal, 0, -1))
---   false
---@param value boolean true to check, false to save the time
function Distribution.set_default_validate_args(...)
  Distribution._validate_args = read_default(...)
end

local get = properties.of(Distribution)
function get:batch_shape() return shapes.object(self._batch_shape) end
function get:event_shape() return shapes.object(self._event_shape) end
function get:stddev() return self.variance:sqrt() end

local function lacks(name)
  return function(self) fail(self, "has no %s", name) end
end
get.mean, get.mode, get.variance = lacks "mean", lacks "mode", lacks "variance"

-- The nearest class that knows how to expand; one with an init of its own must be such a class.
local function check_expandable(self)
  local cls = class.of(self)
  while cls do
    if rawget(cls, "_fields") or rawget(cls, "_expand") then return end
    if rawget(cls, "init") then break end
    cls = rawget(cls, "super")
  end
  fail(self, "has an own init and no expand")
end

--- Returns these distributions as a batch of another shape, which theirs broadcasts to, without
--- copying memory.
--- > ml.distributions.Normal(0, 1):expand({2, 3}).batch_shape
---   (2, 3)
---@param batch_shape integer[] the new shape of the batch
---@return table
function Distribution:expand(...)
  local batch_shape = read_expand(...)
  check_expandable(self)
  local new = setmetatable({}, getmetatable(self))
  new._batch_shape, new._event_shape = batch_shape, self._event_shape
  new._validate_args = self._validate_args
  self:_expand(new, batch_shape)
  return new
end

-- Gives `new` the parameters of this one, expanded. `_kept` is what is copied.
function Distribution:_expand(new, batch_shape)
  local dims = #self._batch_shape
  for _, name in ipairs(self._fields or {}) do
    local value = rawget(self, name)
    if value then
      new[name] = value:expand(shapes.join(batch_shape, shapes.part(shapes.of(value), dims + 1)))
    end
  end
  for _, name in ipairs(self._kept or {}) do new[name] = rawget(self, name) end
end

function Distribution:_extended_shape(sample_shape)
  return shapes.join(sample_shape or {}, self._batch_shape, self._event_shape)
end

--- Samples of a distribution that may be a script's own.
---@param of table
---@param method string "sample" or "rsample"
---@param shape integer[]
---@param generator? moonlet.Generator
---@return Tensor
function distribution.draw(of, method, shape, generator)
  if generator then return of[method](of, shape, { generator = generator }) end
  return of[method](of, shape)
end

-- What `sample` gives; the gradient is off.
function Distribution:_sample(shape, generator)
  if self._rsample then return self:_rsample(shape, generator) end
  return distribution.draw(self, "rsample", shape, generator)
end

--- Draws samples without a gradient.
--- > ml.distributions.Normal(ml.zeros(3), 1):sample({2}).shape
---   (2, 3)
---@param sample_shape? integer[] how many samples, as the leading dimensions of the result
---@param generator? moonlet.Generator random number generator; the default one unless given
---@return Tensor
---@shape -> (sample_shape, batch_shape, event_shape)
function Distribution:sample(...)
  local shape, generator = read_sample(...)
  return ml.no_grad(self._sample, self, shape, generator)
end

--- Draws reparameterised samples: functions of the parameters and of random numbers that do not
--- depend on them, so that the samples' gradients reach the parameters. Fails where `has_rsample`
--- is false.
--- > loc = ml.tensor(1.0, {requires_grad = true})
--- > ml.distributions.Normal(loc, 2):rsample({4}):sum():backward()
--- > loc.grad
---   4.  Tensor () float32
---@param sample_shape? integer[] how many samples, as the leading dimensions of the result
---@param generator? moonlet.Generator random number generator; the default one unless given
---@return Tensor
---@shape -> (sample_shape, batch_shape, event_shape)
---@source Kingma and Welling, "Auto-encoding variational Bayes", 2014
function Distribution:rsample(...)
  local shape, generator = read_rsample(...)
  if not self._rsample then fail(self, "has no rsample: its samples have no gradient") end
  return self:_rsample(shape, generator)
end

-- Fails unless the value is one of the support, in a shape that broadcasts.
function Distribution:_validate_sample(value)
  if not ml.is_tensor(value) then
    fail(self, "the value must be a tensor, got %s", signature.describe(value))
  end
  local size, event = shapes.of(value), self._event_shape
  if not shapes.equal(shapes.part(size, math.max(#size - #event, 0) + 1), event) then
    fail(self, "values of shape %s do not end with the event_shape %s", shapes.text(size),
      shapes.text(event))
  end
  local wanted = self:_extended_shape()
  if not pcall(ml.broadcast_shapes, size, wanted) then
    fail(self, "values of shape %s do not broadcast with batch_shape and event_shape, %s",
      shapes.text(size), shapes.text(wanted))
  end
  local support = self.support
  if not support then
    ml._warn_once("distributions.support", where(self)
      .. " has no support to check values by; validate_args = false is for such classes")
    return
  end
  local valid = support:check(value)
  if not valid:all():item() then refuse(self, "the value", value, valid, support) end
end

-- The value as a tensor; it is checked where that was asked for.
function Distribution:_taken(value)
  if self._as_value then value = self:_as_value(value) end
  if self._validate_args then self:_validate_sample(value) end
  return ml.is_tensor(value) and value or ml.tensor(value + 0.0)
end

--- Natural logarithm of the probability density, or for discrete distributions of the probability,
--- at each value.
--- > ml.distributions.Normal(0, 1):log_prob(ml.tensor(0.0))
---   -0.9189  Tensor () float32
---@param value Tensor values in the support: a tensor, or without `validate_args` also a number
---@return Tensor
---@shape value broadcasts with (batch_shape, event_shape) -> (sample_shape, batch_shape)
function Distribution:log_prob(...)
  local value = read_log_prob(...)
  if not self._log_prob then fail(self, "has no log_prob") end
  return self:_log_prob(self:_taken(value))
end

--- Cumulative distribution function: the probability of a value of at most each of those given, in
--- [0, 1].
--- > ml.distributions.Normal(0, 1):cdf(ml.tensor(0.0))
---   0.5000  Tensor () float32
---@param value Tensor values in the support: a tensor, or without `validate_args` also a number
---@return Tensor
---@shape value broadcasts with (batch_shape, event_shape) -> (sample_shape, batch_shape)
---@formula F(x) = P(X <= x)
function Distribution:cdf(...)
  local value = read_cdf(...)
  if not self._cdf then fail(self, "has no cdf") end
  return self:_cdf(self:_taken(value))
end

--- Inverse of the cumulative distribution function, the quantile function.
--- > ml.distributions.Normal(0, 1):icdf(0.975)
---   1.9600  Tensor () float32
---@param value Tensor probabilities in [0, 1]; a number or a tensor
---@return Tensor
---@shape value broadcasts with (batch_shape) -> (sample_shape, batch_shape)
---@formula F^(-1)(p) = x where F(x) = p
function Distribution:icdf(...)
  local value = read_icdf(...)
  if not self._icdf then fail(self, "has no icdf") end
  return self:_icdf(ml.is_tensor(value) and value or ml.tensor(value + 0.0))
end

--- Entropy of each distribution of the batch, in nats; differential entropy for continuous ones.
--- > ml.distributions.Bernoulli(0.5):entropy()
---   0.6931  Tensor () float32
---@return Tensor
---@shape -> (batch_shape)
---@formula H = -E[log p(X)]
function Distribution:entropy()
  if not self._entropy then fail(self, "has no entropy") end
  return self:_entropy()
end

--- Perplexity of each distribution of the batch: the exponential of its entropy.
--- > ml.distributions.Categorical(ml.ones(4)):perplexity()
---   4.  Tensor () float32
---@return Tensor
---@shape -> (batch_shape)
---@formula perplexity = exp(H)
function Distribution:perplexity() return self:entropy():exp() end

--- Lists all values of a discrete distribution along a new first dimension.
--- > ml.distributions.Bernoulli(0.3):enumerate_support()
---   {0., 1.}
---   Tensor (2,) float32
---@param expand? boolean true expands to the whole batch; false gives a shape that broadcasts
---   with it
---@return Tensor
---@shape -> (values, batch_shape, event_shape)
function Distribution:enumerate_support(...)
  local expand = read_enumerate(...)
  if not self._values then fail(self, "has no enumerate_support") end
  return self:_values(expand)
end

function Distribution:__tostring()
  local parts = {}
  for _, name in ipairs(constrained(self)) do
    local value = rawget(self, name)
    if ml.is_tensor(value) then
      parts[#parts + 1] = ("%s: %s"):format(name, value:numel() == 1
        and signature.describe(value:item()) or tostring(value.shape))
    end
  end
  return ("%s(%s)"):format(class.name(class.of(self)), table.concat(parts, ", "))
end

-- Exponential families.

--- The base class of exponential families, densities h(x) exp(theta . t(x) - A(theta)). For a class
--- that has the methods `_natural_params()`, an array of tensors theta, and `_log_normalizer(...)`,
--- A of them, and the number `_mean_carrier_measure`, the mean of log h, the entropy and the
--- Kullback-Leibler divergence follow by differentiation of A.
--- > ml.class.is_subclass(ml.distributions.Gamma, ml.distributions.ExponentialFamily)
---   true
---@param batch_shape? integer[] the shape of the batch of distributions
---@param event_shape? integer[] the shape of one sample
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@formula H = A(theta) - theta . grad A(theta) - E[log h(X)]
---@source Nielsen and Nock, "Entropies and cross-entropies of exponential families", 2010
local ExponentialFamily = class("ExponentialFamily", Distribution)
distribution.ExponentialFamily = ExponentialFamily

--- The log normalizer at the natural parameters, these, and its gradient by each.
---@param self table
---@return Tensor
---@return Tensor[]
---@return Tensor[]
function distribution.log_normalizer(self)
  if not self._natural_params then fail(self, "has no _natural_params") end
  local params = {}
  for i, param in ipairs(self:_natural_params()) do
    params[i] = param:detach():requires_grad_()
  end
  return ml.enable_grad(function()
    local value = self:_log_normalizer(table.unpack(params))
    return value, params, { ml.grad(value:sum(), params, { create_graph = true }) }
  end)
end

function ExponentialFamily:_entropy()
  if not self._mean_carrier_measure then fail(self, "has no entropy") end
  local value, params, gradients = distribution.log_normalizer(self)
  local sum = value - self._mean_carrier_measure
  for i, param in ipairs(params) do
    local term = param * gradients[i]
    sum = sum - shapes.sum_rightmost(term, term:dim() - #self._batch_shape)
  end
  return sum
end

return distribution
