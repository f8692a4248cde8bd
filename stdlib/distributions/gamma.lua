-- stdlib/distributions/gamma.lua: the gamma distribution and those that are made of it.

local constraints = require "moonlet.distributions.constraints"
local distribution = require "moonlet.distributions.distribution"
local ml = require "moonlet"
local numerics = require "moonlet.distributions.numerics"
local properties = require "moonlet.distributions.properties"
local shapes = require "moonlet.distributions.shapes"
local ExponentialFamily = distribution.ExponentialFamily

local gamma = {}

local NAN = 0 / 0
local POSITIVE = constraints.positive

--- Exponential distribution: the waiting time between events that occur at a constant rate. Its
--- mean is 1 / rate.
--- > ml.distributions.Exponential(2).mean
---   0.5000  Tensor () float32
---@param rate moonlet.Tensor|number events per unit of time lambda, positive
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape rate (*) -> samples (sample_shape, *)
---@formula p(x) = lambda exp(-lambda x) for x >= 0
local Exponential = distribution.elementwise("Exponential", { "rate" }, ExponentialFamily)
gamma.Exponential = Exponential
Exponential.support, Exponential.has_rsample = constraints.nonnegative, true
Exponential.arg_constraints = { rate = POSITIVE }
Exponential._mean_carrier_measure = 0

local get = properties.of(Exponential)
function get:mean() return 1 / self.rate end
function get:mode() return self.rate:zeros_like() end
function get:stddev() return 1 / self.rate end
function get:variance() return self.rate:pow(-2) end

function Exponential:_rsample(shape, generator)
  local noise = numerics.empty(self:_extended_shape(shape), self.rate)
  return noise:exponential_(1, { generator = generator }) / self.rate
end

function Exponential:_log_prob(value) return self.rate:log() - self.rate * value end
function Exponential:_cdf(value) return 1 - (-self.rate * value):exp() end
function Exponential:_icdf(value) return -(-value):log1p() / self.rate end
function Exponential:_entropy() return 1 - self.rate:log() end
function Exponential:_natural_params() return { -self.rate } end
function Exponential:_log_normalizer(x) return -(-x):log() end

--- Gamma distribution of shape `concentration` and mean concentration / rate. Samples have
--- gradients with respect to both parameters (implicit reparameterisation).
--- > ml.distributions.Gamma(2, 4).mean
---   0.5000  Tensor () float32
---@param concentration moonlet.Tensor|number shape alpha, positive
---@param rate moonlet.Tensor|number inverse scale beta, positive
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape concentration (*), rate (*) -> samples (sample_shape, *)
---@formula p(x) = beta^alpha x^(alpha - 1) exp(-beta x) / Gamma(alpha) for x > 0
---@source Marsaglia and Tsang, "A simple method for generating gamma variables", 2000
local Gamma = distribution.elementwise("Gamma", { "concentration", "rate" }, ExponentialFamily)
gamma.Gamma = Gamma
Gamma.support, Gamma.has_rsample = constraints.nonnegative, true
Gamma.arg_constraints = { concentration = POSITIVE, rate = POSITIVE }
Gamma._mean_carrier_measure = 0

get = properties.of(Gamma)
function get:mean() return self.concentration / self.rate end
function get:mode() return ((self.concentration - 1) / self.rate):clamp { min = 0 } end
function get:variance() return self.concentration / self.rate:square() end

-- Numbers of rate 1 with these concentrations.
local function standard_gamma(concentration, generator)
  return ml._internal.standard_gamma(concentration, { generator = generator })
end

function Gamma:_rsample(shape, generator)
  local size = self:_extended_shape(shape)
  local drawn = standard_gamma(self.concentration:expand(size), generator) / self.rate
  return numerics.clamp_value(drawn, ml.finfo(drawn.dtype).tiny, math.huge)
end

function Gamma:_as_value(value)
  if ml.is_tensor(value) then return value:to(self.rate.dtype) end
  return ml.tensor(value, { dtype = self.rate.dtype, device = self.rate.device })
end

function Gamma:_log_prob(value)
  local a = self.concentration
  return ml.xlogy(a, self.rate) + ml.xlogy(a - 1, value) - self.rate * value - a:lgamma()
end

function Gamma:_cdf(value) return ml.special.gammainc(self.concentration, self.rate * value) end

function Gamma:_entropy()
  local a = self.concentration
  return a - self.rate:log() + a:lgamma() + (1 - a) * a:digamma()
end

function Gamma:_natural_params() return { self.concentration - 1, -self.rate } end

function Gamma:_log_normalizer(x, y) return (x + 1):lgamma() - (x + 1) * (-y):log() end

--- Chi-squared distribution: the sum of the squares of `df` independent standard normal numbers; a
--- gamma distribution of concentration df / 2 and rate 1/2.
--- > ml.distributions.Chi2(3).variance
---   6.  Tensor () float32
---@param df moonlet.Tensor|number degrees of freedom k, positive
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape df (*) -> samples (sample_shape, *)
---@formula p(x) = x^(k / 2 - 1) exp(-x / 2) / (2^(k / 2) Gamma(k / 2)) for x > 0
local Chi2 = distribution.define("Chi2", "Tensor|number df", { "concentration", "rate" }, Gamma)
gamma.Chi2 = Chi2
Chi2.arg_constraints = { df = POSITIVE }

function Chi2:init(...)
  local df, validate_args = Chi2._reader(...)
  distribution.take(self, { "concentration", "rate" }, { concentration = 0.5 * df, rate = 0.5 })
  self:_begin(shapes.of(self.rate), {}, validate_args)
end

get = properties.of(Chi2)
function get:df() return self.concentration * 2 end

--- Fisher-Snedecor F distribution: the ratio of two independent chi-squared numbers, each divided
--- by its degrees of freedom. The mean is NaN for df2 <= 2, the variance for df2 <= 4.
--- > ml.distributions.FisherSnedecor(2, 4).mean
---   2.  Tensor () float32
---@param df1 moonlet.Tensor|number degrees of freedom d_1 of the numerator, positive
---@param df2 moonlet.Tensor|number degrees of freedom d_2 of the denominator, positive
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape df1 (*), df2 (*) -> samples (sample_shape, *)
---@formula p(x) = sqrt((d_1 x)^d_1 d_2^d_2 / (d_1 x + d_2)^(d_1 + d_2)) / (x B(d_1 / 2, d_2 /
---   2)) for x > 0
local FisherSnedecor = distribution.elementwise("FisherSnedecor", { "df1", "df2" })
gamma.FisherSnedecor = FisherSnedecor
FisherSnedecor.support, FisherSnedecor.has_rsample = POSITIVE, true
FisherSnedecor.arg_constraints = { df1 = POSITIVE, df2 = POSITIVE }

get = properties.of(FisherSnedecor)
function get:mean()
  local df2 = self.df2:masked_fill(self.df2:le(2), NAN)
  return df2 / (df2 - 2)
end
function get:mode()
  local mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
  return mode:masked_fill(self.df1:le(2), NAN)
end
function get:variance()
  local df1, df2 = self.df1, self.df2:masked_fill(self.df2:le(4), NAN)
  return 2 * df2:square() * (df1 + df2 - 2) / (df1 * (df2 - 2):square() * (df2 - 4))
end

function FisherSnedecor:_rsample(shape, generator)
  local tiny = ml.finfo(self.df1.dtype).tiny
  local function draw(df)
    local of = Gamma(df * 0.5, df, { validate_args = false })
    return distribution.draw(of, "rsample", shape, generator)
  end
  local ratio = draw(self.df1) / draw(self.df2)
  return numerics.clamp_value(ratio, tiny, ml.finfo(ratio.dtype).max)
end

function FisherSnedecor:_log_prob(value)
  local half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
  local log_beta = half1:lgamma() + half2:lgamma() - (half1 + half2):lgamma()
  return half1 * ratio:log() + (half1 - 1) * value:log() - log_beta
    - (half1 + half2) * (ratio * value):log1p()
end

--- Dirichlet distribution of vectors in the simplex: n nonnegative numbers whose sum is 1. The mean
--- is concentration divided by its sum. Samples have a gradient.
--- > ml.distributions.Dirichlet(ml.tensor { 1.0, 2.0, 5.0 }).mean
---   {0.1250, 0.2500, 0.6250}
---   Tensor (3,) float32
---@param concentration moonlet.Tensor alpha, positive, of n numbers along the last dimension
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape concentration (*, n) -> samples (sample_shape, *, n)
---@formula p(x) = Gamma(sum_i alpha_i) / prod_i Gamma(alpha_i) prod_i x_i^(alpha_i - 1)
local Dirichlet = distribution.define("Dirichlet", "Tensor concentration", { "concentration" },
  ExponentialFamily)
gamma.Dirichlet = Dirichlet
Dirichlet.support, Dirichlet.has_rsample = constraints.simplex, true
Dirichlet.arg_constraints = { concentration = constraints.independent(POSITIVE, 1) }

function Dirichlet:init(...)
  local concentration, validate_args = Dirichlet._reader(...)
  if concentration:dim() < 1 then
    distribution.fail(self, "'concentration' must have at least one dimension")
  end
  local size = shapes.of(concentration)
  self.concentration = concentration
  self:_begin(shapes.part(size, 1, -2), { size[#size] }, validate_args)
end

get = properties.of(Dirichlet)
function get:mean() return self.concentration / self.concentration:sum(-1, true) end
function get:mode()
  local above = (self.concentration - 1):clamp { min = 0 }
  local mode = above / above:sum(-1, true)
  -- All below 1: the density is highest in corners, of which the first one is given.
  local corner = self.concentration:lt(1):all(-1, true)
  return ml.where(corner, ml.one_hot(above:argmax(-1), above:size(-1)):to(mode.dtype), mode)
end
function get:variance()
  local a, sum = self.concentration, self.concentration:sum(-1, true)
  return a * (sum - a) / (sum:square() * (sum + 1))
end

-- In float64, so that small concentrations do not make zeros of all shares.
function Dirichlet:_rsample(shape, generator)
  local wide = self.concentration:to(ml.float64):expand(self:_extended_shape(shape))
  local drawn = numerics.clamp_value(standard_gamma(wide, generator), ml.finfo(wide.dtype).tiny,
    math.huge)
  local info = ml.finfo(self.concentration.dtype)
  local shares = (drawn / drawn:sum(-1, true)):to(self.concentration.dtype)
  return numerics.clamp_value(shares, info.tiny, 1 - info.eps)
end

function Dirichlet:_log_prob(value)
  local a = self.concentration
  return ml.xlogy(a - 1, value):sum(-1) + a:sum(-1):lgamma() - a:lgamma():sum(-1)
end

function Dirichlet:_entropy()
  local a, sum = self.concentration, self.concentration:sum(-1)
  return a:lgamma():sum(-1) - sum:lgamma() - (a:size(-1) - sum) * sum:digamma()
    - ((a - 1) * a:digamma()):sum(-1)
end

function Dirichlet:_natural_params() return { self.concentration } end

function Dirichlet:_log_normalizer(x) return x:lgamma():sum(-1) - x:sum(-1):lgamma() end

--- Beta distribution on [0, 1], of mean concentration1 / (concentration1 + concentration0). Samples
--- have a gradient.
--- > ml.distributions.Beta(2, 3).mean
---   0.4000  Tensor () float32
---@param concentration1 moonlet.Tensor|number first shape alpha, positive
---@param concentration0 moonlet.Tensor|number second shape beta, positive
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape concentration1 (*), concentration0 (*) -> samples (sample_shape, *)
---@formula p(x) = x^(alpha - 1) (1 - x)^(beta - 1) / B(alpha, beta) for 0 < x < 1
local Beta = distribution.elementwise("Beta", { "concentration1", "concentration0" },
  ExponentialFamily)
gamma.Beta = Beta
Beta.support, Beta.has_rsample = constraints.unit_interval, true
Beta.arg_constraints = { concentration1 = POSITIVE, concentration0 = POSITIVE }

-- The distribution of a number and of what it leaves of 1.
local function pair(self)
  local both = ml.stack({ self.concentration1, self.concentration0 }, -1)
  return Dirichlet(both, { validate_args = false })
end

get = properties.of(Beta)
function get:mean() return self.concentration1 / (self.concentration1 + self.concentration0) end
function get:mode() return pair(self).mode:select(-1, 1) end
function get:variance()
  local a, b = self.concentration1, self.concentration0
  return a * b / ((a + b):square() * (a + b + 1))
end

function Beta:_rsample(shape, generator)
  return pair(self):_rsample(shape, generator):select(-1, 1)
end

function Beta:_log_prob(value) return pair(self):_log_prob(ml.stack({ value, 1 - value }, -1)) end

function Beta:_entropy() return pair(self):_entropy() end

function Beta:_natural_params() return { self.concentration1, self.concentration0 } end

function Beta:_log_normalizer(x, y) return x:lgamma() + y:lgamma() - (x + y):lgamma() end

return gamma
