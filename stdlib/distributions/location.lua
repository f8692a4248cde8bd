-- stdlib/distributions/location.lua: distributions of numbers with a location and a scale.

local constraints = require "moonlet.distributions.constraints"
local distribution = require "moonlet.distributions.distribution"
local gamma = require "moonlet.distributions.gamma"
local ml = require "moonlet"
local numerics = require "moonlet.distributions.numerics"
local properties = require "moonlet.distributions.properties"
local signature = require "moonlet.signature"

local location = {}

local NAN, INF = 0 / 0, math.huge
local REAL, POSITIVE = constraints.real, constraints.positive

-- A class of real numbers with `loc`, `scale` and samples that have a gradient.
local function define(name, parent)
  local cls = distribution.elementwise(name, { "loc", "scale" }, parent)
  cls.support, cls.has_rsample = REAL, true
  cls.arg_constraints = { loc = REAL, scale = POSITIVE }
  return cls
end

--- `Normal(loc, scale)`: the normal distribution of mean `loc` and standard deviation `scale`.
--- > d = ml.distributions.Normal(0, 2)
--- > d:log_prob(ml.tensor { 0.0, 1.0 })
local Normal = define("Normal", distribution.ExponentialFamily)
location.Normal = Normal
Normal._mean_carrier_measure = 0

local get = properties.of(Normal)
function get:mean() return self.loc end
function get:mode() return self.loc end
function get:stddev() return self.scale end
function get:variance() return self.scale:square() end

function Normal:_rsample(shape, generator)
  local noise = numerics.randn(self:_extended_shape(shape), self.loc, generator)
  return self.loc + noise * self.scale
end

function Normal:_log_prob(value)
  local scaled = (value - self.loc):square() / (2 * self.scale:square())
  return -scaled - self.scale:log() - 0.5 * math.log(2 * math.pi)
end

function Normal:_cdf(value)
  return 0.5 * (1 + ((value - self.loc) / (self.scale * math.sqrt(2))):erf())
end

function Normal:_icdf(value)
  return self.loc + self.scale * (2 * value - 1):erfinv() * math.sqrt(2)
end

function Normal:_entropy() return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale:log() end

function Normal:_natural_params()
  local variance = self.variance
  return { self.loc / variance, -0.5 / variance }
end

function Normal:_log_normalizer(x, y) return -0.25 * x:square() / y + 0.5 * (-math.pi / y):log() end

--- `Laplace(loc, scale)`: the density falls by `exp(-|x - loc| / scale)` on both sides.
local Laplace = define("Laplace")
location.Laplace = Laplace

get = properties.of(Laplace)
function get:mean() return self.loc end
function get:mode() return self.loc end
function get:variance() return 2 * self.scale:square() end
function get:stddev() return math.sqrt(2) * self.scale end

function Laplace:_rsample(shape, generator)
  local eps = ml.finfo(self.loc.dtype).eps
  local u = numerics.empty(self:_extended_shape(shape), self.loc)
  u:uniform_(eps - 1, 1, { generator = generator })
  return self.loc - self.scale * u:sign() * (-u:abs()):log1p()
end

function Laplace:_log_prob(value)
  return -(2 * self.scale):log() - (value - self.loc):abs() / self.scale
end

function Laplace:_cdf(value)
  local off = value - self.loc
  return 0.5 - 0.5 * off:sign() * (-off:abs() / self.scale):expm1()
end

function Laplace:_icdf(value)
  local off = value - 0.5
  return self.loc - self.scale * off:sign() * (-2 * off:abs()):log1p()
end

function Laplace:_entropy() return 1 + (2 * self.scale):log() end

--- `Cauchy(loc, scale)`: the ratio of two normal numbers. It has no mean, NaN, and its variance is
--- infinite.
local Cauchy = define("Cauchy")
location.Cauchy = Cauchy

get = properties.of(Cauchy)
function get:mean() return numerics.filled(self.loc, NAN) end
function get:mode() return self.loc end
function get:variance() return numerics.filled(self.loc, INF) end

function Cauchy:_rsample(shape, generator)
  local noise = numerics.empty(self:_extended_shape(shape), self.loc)
  return self.loc + noise:cauchy_(0, 1, { generator = generator }) * self.scale
end

function Cauchy:_log_prob(value)
  local scaled = (value - self.loc) / self.scale
  return -math.log(math.pi) - self.scale:log() - scaled:square():log1p()
end

function Cauchy:_cdf(value) return ((value - self.loc) / self.scale):atan() / math.pi + 0.5 end

function Cauchy:_icdf(value) return (math.pi * (value - 0.5)):tan() * self.scale + self.loc end

function Cauchy:_entropy() return math.log(4 * math.pi) + self.scale:log() end

--- `Uniform(low, high)`: evenly distributed from `low` to below `high`.
local Uniform = distribution.elementwise("Uniform", { "low", "high" })
location.Uniform = Uniform
Uniform.has_rsample = true

get = properties.of(Uniform)
function get:arg_constraints()
  return { low = constraints.less_than(self.high), high = constraints.greater_than(self.low) }
end
function get:support() return constraints.interval(self.low, self.high) end
function get:mean() return (self.high + self.low) / 2 end
function get:mode() return NAN * self.high end
function get:stddev() return (self.high - self.low) / math.sqrt(12) end
function get:variance() return (self.high - self.low):square() / 12 end

function Uniform:_rsample(shape, generator)
  local u = numerics.rand(self:_extended_shape(shape), self.low, generator)
  return self.low + u * (self.high - self.low)
end

function Uniform:_log_prob(value)
  local inside = self.low:le(value):logical_and(self.high:gt(value))
  return inside:to(self.low.dtype):log() - (self.high - self.low):log()
end

function Uniform:_cdf(value) return ((value - self.low) / (self.high - self.low)):clamp(0, 1) end

function Uniform:_icdf(value) return value * (self.high - self.low) + self.low end

function Uniform:_entropy() return (self.high - self.low):log() end

--- `StudentT(df, loc, scale)`: Student's t distribution of `df` degrees of freedom, with `loc` 0
--- and `scale` 1 unless given.
local StudentT = distribution.elementwise("StudentT", { "df", "loc", "scale" }, nil,
  { loc = 0.0, scale = 1.0 })
location.StudentT = StudentT
StudentT.support, StudentT.has_rsample = REAL, true
StudentT.arg_constraints = { df = POSITIVE, loc = REAL, scale = POSITIVE }

get = properties.of(StudentT)
function get:mean() return self.loc:masked_fill(self.df:le(1), NAN) end
function get:mode() return self.loc end
function get:variance()
  local known = self.df:gt(2)
  local df = ml.where(known, self.df, 3.0)
  local value = ml.where(known, self.scale:square() * df / (df - 2), INF)
  return value:masked_fill(self.df:le(1), NAN)
end

function StudentT:_rsample(shape, generator)
  local noise = numerics.randn(self:_extended_shape(shape), self.df, generator)
  local chi2 = gamma.Chi2(self.df, { validate_args = false })
  local spread = distribution.draw(chi2, "rsample", shape, generator)
  return self.loc + self.scale * noise * (spread / self.df):rsqrt()
end

local function log_beta_half(df)
  return (0.5 * df):lgamma() + 0.5 * math.log(math.pi) - (0.5 * (df + 1)):lgamma()
end

function StudentT:_log_prob(value)
  local y, df = (value - self.loc) / self.scale, self.df
  return -0.5 * (df + 1) * (y:square() / df):log1p() - self.scale:log() - 0.5 * df:log()
    - log_beta_half(df)
end

function StudentT:_entropy()
  local df = self.df
  local difference = (0.5 * (df + 1)):digamma() - (0.5 * df):digamma()
  return self.scale:log() + 0.5 * (df + 1) * difference + 0.5 * df:log() + log_beta_half(df)
end

--- `GeneralizedPareto(loc, scale, concentration)`: what lies beyond a threshold `loc`; bounded
--- above for a negative `concentration`.
local GeneralizedPareto = distribution.elementwise("GeneralizedPareto",
  { "loc", "scale", "concentration" })
location.GeneralizedPareto = GeneralizedPareto
GeneralizedPareto.has_rsample = true
GeneralizedPareto.arg_constraints = { loc = REAL, scale = POSITIVE, concentration = REAL }

-- Where the concentration is 0, which stands for the exponential distribution, and it with 1 there.
local function split(self)
  local is_zero = self.concentration:isclose(self.concentration:zeros_like())
  return is_zero, self.concentration:masked_fill(is_zero, 1)
end

-- The mean's or variance's formula where the concentration is below `limit`, else NaN.
local function below(self, limit, formula)
  local valid = self.concentration:lt(limit)
  return ml.where(valid, formula(ml.where(valid, self.concentration, limit / 2)), NAN)
end

get = properties.of(GeneralizedPareto)
function get:mean()
  return below(self, 1, function(c) return self.loc + self.scale / (1 - c) end)
end
function get:mode() return self.loc end
function get:variance()
  return below(self, 0.5, function(c)
    return self.scale:square() / ((1 - c):square() * (1 - 2 * c))
  end)
end
function get:support()
  local bounded = self.concentration:lt(0)
  local concentration = ml.where(bounded, self.concentration, -1.0)
  local last = ml.where(bounded, self.loc - self.scale / concentration, INF)
  return constraints.interval(self.loc, last)
end

function GeneralizedPareto:_rsample(shape, generator)
  return self:_icdf(numerics.rand(self:_extended_shape(shape), self.loc, generator))
end

function GeneralizedPareto:_log_prob(value)
  local z = (value - self.loc) / self.scale
  local is_zero, c = split(self)
  local factor = 1 / c + 1
  local term = ml.where(factor:eq(0), factor, factor * (c * z):log1p())
  return -self.scale:log() - ml.where(is_zero, z, term)
end

-- The logarithm of the probability of a value above this.
local function log_survival(self, value)
  local z = (value - self.loc) / self.scale
  local is_zero, c = split(self)
  return ml.where(is_zero, -z, -(c * z):log1p() / c)
end

local read_survival = signature "GeneralizedPareto:log_survival_function(Tensor|number value)"
local read_log_cdf = signature "GeneralizedPareto:log_cdf(Tensor|number value)"

--- The logarithm of the probability of a value above each of those given.
---@param value Tensor
---@return Tensor
function GeneralizedPareto:log_survival_function(...)
  return log_survival(self, self:_taken((read_survival(...))))
end

--- The logarithm of `cdf`.
---@param value Tensor
---@return Tensor
function GeneralizedPareto:log_cdf(...)
  return (-log_survival(self, self:_taken((read_log_cdf(...)))):exp()):log1p()
end

function GeneralizedPareto:_cdf(value) return -log_survival(self, value):expm1() end

function GeneralizedPareto:_icdf(value)
  local is_zero, c = split(self)
  local log_rest = (-value):log1p()
  return ml.where(is_zero, self.loc - self.scale * log_rest,
    self.loc + self.scale / c * (-c * log_rest):expm1())
end

function GeneralizedPareto:_entropy() return self.scale:log() + self.concentration + 1 end

--- `VonMises(loc, concentration)`: angles around `loc`, from -pi to pi.
local VonMises = distribution.elementwise("VonMises", { "loc", "concentration" })
location.VonMises = VonMises
VonMises.support = REAL
VonMises.arg_constraints = { loc = REAL, concentration = POSITIVE }

get = properties.of(VonMises)
function get:mean() return self.loc end
function get:mode() return self.loc end
function get:variance()
  return 1 - ml.special.i1e(self.concentration) / ml.special.i0e(self.concentration)
end

function VonMises:_log_prob(value)
  local c = self.concentration
  return c * ((value - self.loc):cos() - 1) - math.log(2 * math.pi) - ml.special.i0e(c):log()
end

-- Rejection from a wrapped Cauchy distribution, in float64 (Best and Fisher, "Efficient simulation
-- of the von Mises distribution", 1979): new angles where `open`, those given elsewhere.
local function wrapped(c, open, angle, generator)
  local size = open.shape:tolist()
  local tau = 1 + (1 + 4 * c:square()):sqrt()
  local rho = (tau - (2 * tau):sqrt()) / (2 * c)
  local r = ml.where(c:lt(1e-5), 1 / c + c, (1 + rho:square()) / (2 * rho))
  while open:any():item() do
    local u = numerics.rand({ 3, table.unpack(size) }, c, generator):unbind(1)
    local z = (math.pi * u[1]):cos()
    local f = (1 + r * z) / (r + z)
    local k = c * (r - f)
    local accepted = (k * (2 - k) - u[2]):gt(0):logical_or(((k / u[2]):log() + 1 - k):ge(0))
    local found = (u[3] - 0.5):sign() * f:clamp(-1, 1):acos()
    angle = ml.where(accepted:logical_and(open), found, angle)
    open = open:logical_and(accepted:logical_not())
  end
  return angle
end

-- From a concentration of a million on it is as good as normal; what is no concentration gives NaN.
function VonMises:_sample(shape, generator)
  local size = self:_extended_shape(shape)
  local loc, c = self.loc:to(ml.float64), self.concentration:to(ml.float64)
  local open = c:gt(0):logical_and(c:lt(1e6))
  local angle = numerics.randn(size, c, generator) / c:sqrt()
  angle = wrapped(c:masked_fill(open:logical_not(), 1), open:expand(size), angle, generator)
  return ((angle + math.pi + loc):remainder(2 * math.pi) - math.pi):to(self.loc.dtype)
end

return location
