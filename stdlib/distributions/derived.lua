-- stdlib/distributions/derived.lua: transformed distributions that have names of their own.

local constraints = require "moonlet.distributions.constraints"
local distribution = require "moonlet.distributions.distribution"
local elementwise = require "moonlet.distributions.transforms.elementwise"
local gamma = require "moonlet.distributions.gamma"
local location = require "moonlet.distributions.location"
local ml = require "moonlet"
local numerics = require "moonlet.distributions.numerics"
local properties = require "moonlet.distributions.properties"
local shapes = require "moonlet.distributions.shapes"
local transformed = require "moonlet.distributions.transformed"
local vectors = require "moonlet.distributions.transforms.vectors"

local derived = {}

local NAN, INF = 0 / 0, math.huge
local REAL, POSITIVE = constraints.real, constraints.positive
local UNCHECKED = { validate_args = false }

-- A class with parameters `fields`, which broadcast. `make(self)` gives the base of samples and the
-- transforms.
local function define(name, fields, support, make)
  local parameters = "Tensor|number " .. table.concat(fields, ", Tensor|number ")
  local cls = distribution.define(name, parameters, fields, transformed.TransformedDistribution)
  cls.support = support
  function cls:init(...)
    local o = cls._reader:table(...)
    distribution.take(self, fields, o)
    local base, transforms = make(self)
    self:_begin_with(base, transforms, o.validate_args)
  end
  return cls
end

--- Log-normal distribution: the exponential of a normal number.
--- > ml.distributions.LogNormal(0, 1).mean
---   1.6487  Tensor () float32
---@param loc moonlet.Tensor|number mean mu of the logarithm
---@param scale moonlet.Tensor|number standard deviation sigma of the logarithm, positive
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape loc (*), scale (*) -> samples (sample_shape, *)
---@formula p(x) = exp(-(log(x) - mu)^2 / (2 sigma^2)) / (x sigma sqrt(2 pi)) for x > 0
local LogNormal = define("LogNormal", { "loc", "scale" }, POSITIVE, function(self)
  return location.Normal(self.loc, self.scale, UNCHECKED), { elementwise.ExpTransform() }
end)
derived.LogNormal = LogNormal
LogNormal.arg_constraints = { loc = REAL, scale = POSITIVE }

local get = properties.of(LogNormal)
function get:mean() return (self.loc + self.scale:square() / 2):exp() end
function get:mode() return (self.loc - self.scale:square()):exp() end
function get:variance()
  local square = self.scale:square()
  return square:expm1() * (2 * self.loc + square):exp()
end
function LogNormal:_entropy() return self.base_dist:entropy() + self.loc end

-- What the base says of a number up to `value`, or of its density, for both signs together.
local function define_half(cls)
  function cls:_log_prob(value)
    local log_prob = self.base_dist:_log_prob(value) + math.log(2)
    return ml.where(value:ge(0), log_prob, -INF)
  end
  function cls:_cdf(value) return 2 * self.base_dist:_cdf(value) - 1 end
  function cls:_icdf(value) return self.base_dist:_icdf((value + 1) / 2) end
  function cls:_entropy() return self.base_dist:entropy() - math.log(2) end
  cls.arg_constraints = { scale = POSITIVE }
end

--- Half-normal distribution: the absolute value of a normal number of mean 0.
--- > ml.distributions.HalfNormal(1).mean
---   0.7979  Tensor () float32
---@param scale moonlet.Tensor|number standard deviation sigma of the normal number, positive
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape scale (*) -> samples (sample_shape, *)
---@formula p(x) = sqrt(2) / (sigma sqrt(pi)) exp(-x^2 / (2 sigma^2)) for x >= 0
local HalfNormal = define("HalfNormal", { "scale" }, constraints.nonnegative, function(self)
  return location.Normal(self.scale:zeros_like(), self.scale, UNCHECKED),
    { elementwise.AbsTransform() }
end)
derived.HalfNormal = HalfNormal
define_half(HalfNormal)

get = properties.of(HalfNormal)
function get:mean() return self.scale * math.sqrt(2 / math.pi) end
function get:mode() return self.scale:zeros_like() end
function get:variance() return self.scale:square() * (1 - 2 / math.pi) end

--- Half-Cauchy distribution: the absolute value of a Cauchy number of location 0. Mean and variance
--- are infinite.
--- > ml.distributions.HalfCauchy(1):cdf(ml.tensor(1.0))
---   0.5000  Tensor () float32
---@param scale moonlet.Tensor|number scale gamma of the Cauchy number, positive
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape scale (*) -> samples (sample_shape, *)
---@formula p(x) = 2 / (pi gamma (1 + (x / gamma)^2)) for x >= 0
local HalfCauchy = define("HalfCauchy", { "scale" }, constraints.nonnegative, function(self)
  return location.Cauchy(self.scale:zeros_like(), self.scale, UNCHECKED),
    { elementwise.AbsTransform() }
end)
derived.HalfCauchy = HalfCauchy
define_half(HalfCauchy)

get = properties.of(HalfCauchy)
function get:mean() return numerics.filled(self.scale, INF) end
function get:mode() return self.scale:zeros_like() end
function get:variance() return numerics.filled(self.scale, INF) end

--- Gumbel distribution: the limit of the maximum of many independent numbers.
--- > ml.distributions.Gumbel(0, 1).mean
---   0.5772  Tensor () float32
---@param loc moonlet.Tensor|number mode mu, a real number or tensor
---@param scale moonlet.Tensor|number scale beta, positive
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape loc (*), scale (*) -> samples (sample_shape, *)
---@formula p(x) = exp(-z - exp(-z)) / beta, z = (x - mu) / beta
local Gumbel = define("Gumbel", { "loc", "scale" }, REAL, function(self)
  local info, exp = ml.finfo(self.loc.dtype), elementwise.ExpTransform()
  local low, high = numerics.filled(self.loc, info.tiny), numerics.filled(self.loc, 1 - info.eps)
  return location.Uniform(low, high, UNCHECKED), { exp.inv,
    elementwise.AffineTransform(0, -self.scale:ones_like()), exp.inv,
    elementwise.AffineTransform(self.loc, -self.scale) }
end)
derived.Gumbel = Gumbel
Gumbel.arg_constraints = { loc = REAL, scale = POSITIVE }

get = properties.of(Gumbel)
function get:mean() return self.loc + self.scale * numerics.EULER end
function get:mode() return self.loc end
function get:stddev() return math.pi / math.sqrt(6) * self.scale end
function get:variance() return self.stddev:square() end

function Gumbel:_log_prob(value)
  local y = (self.loc - value) / self.scale
  return y - y:exp() - self.scale:log()
end
function Gumbel:_entropy() return self.scale:log() + (1 + numerics.EULER) end

--- Pareto (type I) distribution: a power law of exponent `alpha` from `scale` on. The mean is
--- infinite for alpha <= 1, the variance for alpha <= 2.
--- > ml.distributions.Pareto(1, 3).mean
---   1.5000  Tensor () float32
---@param scale moonlet.Tensor|number smallest value m, positive
---@param alpha moonlet.Tensor|number exponent alpha, positive
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape scale (*), alpha (*) -> samples (sample_shape, *)
---@formula p(x) = alpha m^alpha / x^(alpha + 1) for x >= m
local Pareto = define("Pareto", { "scale", "alpha" }, nil, function(self)
  return gamma.Exponential(self.alpha, UNCHECKED), { elementwise.ExpTransform(),
    elementwise.AffineTransform(0, self.scale) }
end)
derived.Pareto = Pareto
Pareto.arg_constraints = { alpha = POSITIVE, scale = POSITIVE }

get = properties.of(Pareto)
function get:support() return constraints.greater_than_eq(self.scale) end
function get:mean()
  local a = self.alpha:clamp { min = 1 }
  return a * self.scale / (a - 1)
end
function get:mode() return self.scale end
function get:variance()
  local a = self.alpha:clamp { min = 2 }
  return self.scale:square() * a / ((a - 1):square() * (a - 2))
end
function Pareto:_entropy() return (self.scale / self.alpha):log() + (1 + 1 / self.alpha) end

--- Weibull distribution, as of times to failure: the failure rate rises with age for a
--- concentration above 1 and falls for one below.
--- > ml.distributions.Weibull(1, 2).mean
---   0.8862  Tensor () float32
---@param scale moonlet.Tensor|number scale lambda, positive
---@param concentration moonlet.Tensor|number shape k, positive
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape scale (*), concentration (*) -> samples (sample_shape, *)
---@formula p(x) = k / lambda (x / lambda)^(k - 1) exp(-(x / lambda)^k) for x >= 0
local Weibull = define("Weibull", { "scale", "concentration" }, POSITIVE, function(self)
  return gamma.Exponential(self.scale:ones_like(), UNCHECKED), {
    elementwise.PowerTransform(1 / self.concentration),
    elementwise.AffineTransform(0, self.scale) }
end)
derived.Weibull = Weibull
Weibull.arg_constraints = { scale = POSITIVE, concentration = POSITIVE }

get = properties.of(Weibull)
function get:concentration_reciprocal() return 1 / self.concentration end
function get:mean() return self.scale * (1 + 1 / self.concentration):lgamma():exp() end
function get:mode()
  local c = self.concentration
  return self.scale * ((c - 1) / c):pow(1 / c)
end
function get:variance()
  local r = 1 / self.concentration
  return self.scale:square() * ((1 + 2 * r):lgamma():exp() - (2 * (1 + r):lgamma()):exp())
end
function Weibull:_entropy()
  local r = 1 / self.concentration
  return numerics.EULER * (1 - r) + (self.scale * r):log() + 1
end

--- Kumaraswamy distribution on [0, 1]: close to the beta distribution, with a density and a
--- cumulative distribution function in closed form.
--- > ml.distributions.Kumaraswamy(1, 1).mean
---   0.5000  Tensor () float32
---@param concentration1 moonlet.Tensor|number first shape a, positive
---@param concentration0 moonlet.Tensor|number second shape b, positive
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape concentration1 (*), concentration0 (*) -> samples (sample_shape, *)
---@formula p(x) = a b x^(a - 1) (1 - x^a)^(b - 1) for 0 < x < 1
---@source Kumaraswamy, "A generalized probability density function for double-bounded random
---   processes", 1980
local Kumaraswamy = define("Kumaraswamy", { "concentration1", "concentration0" },
  constraints.unit_interval, function(self)
    local zeros = self.concentration0:zeros_like()
    return location.Uniform(zeros, zeros + 1, UNCHECKED), {
      elementwise.PowerTransform(1 / self.concentration0), elementwise.AffineTransform(1.0, -1.0),
      elementwise.PowerTransform(1 / self.concentration1) }
  end)
derived.Kumaraswamy = Kumaraswamy
Kumaraswamy.arg_constraints = { concentration1 = POSITIVE, concentration0 = POSITIVE }

-- The mean of the n-th power.
local function moment(self, n)
  local a, b = 1 + n / self.concentration1, self.concentration0
  return b * (a:lgamma() + b:lgamma() - (a + b):lgamma()):exp()
end

get = properties.of(Kumaraswamy)
function get:mean() return moment(self, 1) end
function get:mode()
  local a, b = self.concentration1, self.concentration0
  local log_mode = (-b):log1p() / b - (-b * a):log1p()
  return log_mode:masked_fill(b:lt(1):logical_or(a:lt(1)), NAN):exp()
end
function get:variance() return moment(self, 2) - self.mean:square() end
function Kumaraswamy:_entropy()
  local a, b = self.concentration1, self.concentration0
  local harmonic = (b + 1):digamma() + numerics.EULER
  return 1 - 1 / b + (1 - 1 / a) * harmonic - a:log() - b:log()
end

--- Inverse gamma distribution: the reciprocal of a gamma number. The mean is infinite for
--- concentration <= 1, the variance for concentration <= 2.
--- > ml.distributions.InverseGamma(3, 4).mean
---   2.  Tensor () float32
---@param concentration moonlet.Tensor|number shape alpha, positive
---@param rate moonlet.Tensor|number rate beta of the gamma number, positive
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape concentration (*), rate (*) -> samples (sample_shape, *)
---@formula p(x) = beta^alpha / Gamma(alpha) x^(-alpha - 1) exp(-beta / x) for x > 0
local InverseGamma = define("InverseGamma", { "concentration", "rate" }, POSITIVE, function(self)
  local minus_one = ml.tensor(-1.0, { dtype = self.rate.dtype, device = self.rate.device })
  return gamma.Gamma(self.concentration, self.rate, UNCHECKED),
    { elementwise.PowerTransform(minus_one) }
end)
derived.InverseGamma = InverseGamma
InverseGamma.arg_constraints = { concentration = POSITIVE, rate = POSITIVE }

get = properties.of(InverseGamma)
function get:mean()
  return ml.where(self.concentration:gt(1), self.rate / (self.concentration - 1), INF)
end
function get:mode() return self.rate / (self.concentration + 1) end
function get:variance()
  local a = self.concentration
  return ml.where(a:gt(2), self.rate:square() / ((a - 1):square() * (a - 2)), INF)
end
function InverseGamma:_entropy()
  local a = self.concentration
  return a + self.rate:log() + a:lgamma() - (1 + a) * a:digamma()
end

--- Logistic-normal distribution on the simplex: K - 1 normal numbers mapped by
--- `StickBreakingTransform` to K nonnegative numbers whose sum is 1.
--- > ml.distributions.LogisticNormal(ml.zeros(2), 1):sample().shape
---   (3,)
---@param loc moonlet.Tensor|number means of the normal numbers
---@param scale moonlet.Tensor|number standard deviations of the normal numbers, positive
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape loc (*, K - 1), scale (*, K - 1) -> samples (sample_shape, *, K)
local LogisticNormal = distribution.define("LogisticNormal",
  "Tensor|number loc, Tensor|number scale", nil, transformed.TransformedDistribution)
derived.LogisticNormal = LogisticNormal
LogisticNormal.support = constraints.simplex
LogisticNormal.arg_constraints = { loc = REAL, scale = POSITIVE }

function LogisticNormal:init(...)
  local o = LogisticNormal._reader:table(...)
  local pair = shapes.broadcast_all(distribution.where(self), { "loc", "scale" },
    { o.loc, o.scale })
  local base = location.Normal(pair[1], pair[2], UNCHECKED)
  if pair[1]:dim() == 0 then base = base:expand({ 1 }) end
  self:_begin_with(base, { vectors.StickBreakingTransform() }, o.validate_args)
end

get = properties.of(LogisticNormal)
function get:loc() return self.base_dist.base_dist.loc end
function get:scale() return self.base_dist.base_dist.scale end

-- LogisticNormal is expanded as what it is made of.
LogisticNormal._expand = transformed.TransformedDistribution._expand

return derived
