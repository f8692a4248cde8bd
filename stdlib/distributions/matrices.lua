-- stdlib/distributions/matrices.lua: distributions of covariance matrices and of the Cholesky
-- factors of correlation matrices.

local constraints = require "moonlet.distributions.constraints"
local distribution = require "moonlet.distributions.distribution"
local gamma = require "moonlet.distributions.gamma"
local ml = require "moonlet"
local multivariate = require "moonlet.distributions.multivariate"
local numerics = require "moonlet.distributions.numerics"
local properties = require "moonlet.distributions.properties"
local shapes = require "moonlet.distributions.shapes"
local signature = require "moonlet.signature"
local fail = distribution.fail

local matrices = {}

local LOG_2 = math.log(2)

--- Wishart distribution of symmetric positive definite matrices: the sum of `df` products x x^T of
--- normal vectors of mean 0 and the covariance given. Its mean is df times the covariance.
--- > ml.distributions.Wishart(3, ml.eye(2)).mean
---   {{3., 0.},
---    {0., 3.}}
---   Tensor (2, 2) float32
---@param df moonlet.Tensor|number degrees of freedom nu, greater than n - 1
---@param covariance_matrix? moonlet.Tensor covariance matrix, positive definite; give exactly
---   one of the three matrices
---@param precision_matrix? moonlet.Tensor inverse of the covariance matrix
---@param scale_tril? moonlet.Tensor lower triangular Cholesky factor L of the covariance L L^T;
---   the fastest
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape df (*), covariance_matrix (*, n, n) -> samples (sample_shape, *, n, n)
---@formula p(X) = det(X)^((nu - n - 1) / 2) exp(-1/2 tr(V^(-1) X)) / (2^(nu n / 2) det(V)^(nu /
---   2) Gamma_n(nu / 2))
local Wishart = distribution.define("Wishart", "Tensor|number df, "
  .. "Tensor? covariance_matrix=nil, Tensor? precision_matrix=nil, Tensor? scale_tril=nil",
  { "df", "covariance_matrix", "precision_matrix", "scale_tril" }, distribution.ExponentialFamily)
matrices.Wishart = Wishart
Wishart._kept = { "_scale_tril" }
Wishart._mean_carrier_measure = 0
Wishart.support, Wishart.has_rsample = constraints.positive_definite, true
multivariate.define_matrices(Wishart)

local get = properties.of(Wishart)
function get:arg_constraints()
  return { covariance_matrix = constraints.positive_definite,
    precision_matrix = constraints.positive_definite, scale_tril = constraints.lower_cholesky,
    df = constraints.greater_than(self._event_shape[1] - 1) }
end

function Wishart:init(...)
  local o = Wishart._reader:table(...)
  local name, matrix = multivariate.given_matrix(self, o)
  local df = o.df
  if not ml.is_tensor(df) then
    df = ml.tensor(df, { dtype = matrix.dtype, device = matrix.device })
  end
  local size = shapes.of(matrix)
  local batch = shapes.broadcast(distribution.where(self), { name, "df" },
    { shapes.part(size, 1, -3), shapes.of(df) })
  local n = size[#size]
  if df:le(n - 1):any():item() then fail(self, "'df' must be above %d for %d x %d", n - 1, n, n) end
  self.df = df:expand(batch)
  self[name] = matrix:expand(shapes.join(batch, { n, n }))
  if df:lt(n):any():item() then
    ml._warn_once("distributions.Wishart", ("distributions.Wishart: samples of 'df' below %d are "
      .. "likely to be singular"):format(n))
  end
  self:_begin(batch, { n, n }, o.validate_args)
  self._scale_tril = multivariate.scale_tril_of(name, matrix)
end

-- Degrees of freedom beside matrices.
local function beside(x) return x:unsqueeze(-1):unsqueeze(-1) end

function get:mean() return beside(self.df) * self.covariance_matrix end
function get:mode()
  local factor = self.df - self._event_shape[1] - 1
  return beside(factor:masked_fill(factor:le(0), 0 / 0)) * self.covariance_matrix
end
function get:variance()
  local v = self.covariance_matrix
  local diagonal = v:diagonal(0, -2, -1)
  return beside(self.df) * (v:square() + diagonal:unsqueeze(-1) * diagonal:unsqueeze(-2))
end

-- Products of lower triangular matrices of chi-square and normal numbers (Smith and Hocking,
-- "Wishart variate generator", 1972).
local function draw(self, shape, generator)
  local n, size = self._event_shape[1], self:_extended_shape(shape)
  local df = self.df:unsqueeze(-1) - numerics.range(0, n - 1, self.df)
  local squares = distribution.draw(gamma.Chi2(df, { validate_args = false }), "rsample", shape,
    generator)
  local eps = ml.finfo(squares.dtype).eps
  local noise = numerics.randn(size, squares, generator):tril(-1)
  local lower = noise + squares:sqrt():clamp { min = eps }:diag_embed()
  local root = self._scale_tril:matmul(lower)
  return root:matmul(root.mT)
end

-- Singular samples are drawn again, some times.
local function draw_regular(self, shape, generator, tries)
  local found = draw(self, shape, generator)
  for _ = 1, tries do
    local valid = self.support:check(found:detach())
    if valid:all():item() then return found end
    ml._warn_once("distributions.Wishart.sample", "distributions.Wishart: a sample was singular")
    found = ml.where(beside(valid), found, draw(self, shape, generator))
  end
  return found
end

local read_rsample = signature("Wishart:rsample(Size sample_shape={}, "
  .. "int>=0 max_try_correction=10, Generator? generator=nil)")

--- Draws samples with a gradient by the Bartlett decomposition. Samples that are singular in the
--- dtype are drawn again.
--- > ml.distributions.Wishart(3, ml.eye(2)):rsample({4}).shape
---   (4, 2, 2)
---@param sample_shape? integer[] how many samples, as the leading dimensions of the result
---@param max_try_correction? integer how often singular samples are drawn again at most
---@param generator? moonlet.Generator random number generator; the default one unless given
---@return Tensor
---@shape -> (sample_shape, batch_shape, n, n)
---@source Bartlett, "On the theory of statistical regression", 1933
function Wishart:rsample(...)
  local shape, tries, generator = read_rsample(...)
  return draw_regular(self, shape, generator, tries)
end

function Wishart:_rsample(shape, generator) return draw_regular(self, shape, generator, 10) end

-- The sum of digamma(x - k / 2) for k from 0 to p - 1.
local function digamma_sum(x, p)
  return (x:unsqueeze(-1) - numerics.range(0, p - 1, x) / 2):digamma():sum(-1)
end

function Wishart:_log_prob(value)
  local nu, p, lower = self.df, self._event_shape[1], self._scale_tril
  local _, log_det = ml.linalg.slogdet(value)
  local inner = numerics.solve_lower(lower, value)
  local trace = numerics.solve_lower(lower, inner.mT):diagonal(0, -2, -1):sum(-1)
  return (nu - p - 1) / 2 * log_det - trace / 2 - (nu / 2):mvlgamma(p)
    - nu * (p * LOG_2 / 2 + numerics.log_diagonal(lower))
end

function Wishart:_entropy()
  local nu, p = self.df, self._event_shape[1]
  return (p + 1) * (p * LOG_2 / 2 + numerics.log_diagonal(self._scale_tril))
    + (nu / 2):mvlgamma(p) - (nu - p - 1) / 2 * digamma_sum(nu / 2, p) + nu * p / 2
end

function Wishart:_natural_params()
  return { -self.precision_matrix / 2, (self.df - self._event_shape[1] - 1) / 2 }
end

function Wishart:_log_normalizer(x, y)
  local p = self._event_shape[1]
  local _, log_det = ml.linalg.slogdet(-2 * x)
  local half = y + (p + 1) / 2
  return half * (p * LOG_2 - log_det) + half:mvlgamma(p)
end

--- LKJ distribution of lower triangular Cholesky factors L of correlation matrices L L^T. With
--- concentration 1 the correlation matrices are uniformly distributed; higher ones prefer the
--- identity.
--- > ml.distributions.LKJCholesky(3, 2):sample().shape
---   (3, 3)
---@param dim integer size n of the matrices, at least 2
---@param concentration? moonlet.Tensor|number eta, positive
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape concentration (*) -> samples (sample_shape, *, n, n)
---@formula p(L L^T) proportional to det(L L^T)^(eta - 1)
---@source Lewandowski, Kurowicka and Joe, "Generating random correlation matrices based on
---   vines and extended onion method", 2009
local LKJCholesky = distribution.define("LKJCholesky",
  "int>=2 dim, Tensor|number concentration=1.0", { "concentration" })
matrices.LKJCholesky = LKJCholesky
LKJCholesky._kept = { "dim" }
LKJCholesky.support = constraints.corr_cholesky
LKJCholesky.arg_constraints = { concentration = constraints.positive }

function LKJCholesky:init(...)
  local o = LKJCholesky._reader:table(...)
  self.dim = o.dim
  distribution.take(self, { "concentration" }, o)
  self:_begin(shapes.of(self.concentration), { o.dim, o.dim }, o.validate_args)
end

-- The onion method: each row is a direction whose squared length has a beta distribution, for row k
-- of (k - 1) / 2 and `concentration + (n - k) / 2`. (PyTorch's has k - 3/2 in the first place, with
-- which correlations beyond the second row are too large.)
function LKJCholesky:_sample(shape, generator)
  local n, c = self.dim, self.concentration
  local before = ml.cat { numerics.range(1, 1, c), numerics.range(1, n - 1, c) }
  local of_length = gamma.Beta(0.5 * before, (c + 0.5 * (n - 1)):unsqueeze(-1) - 0.5 * before,
    { validate_args = false })
  local length = distribution.draw(of_length, "sample", shape, generator):unsqueeze(-1)
  local noise = numerics.randn(self:_extended_shape(shape), c, generator):tril(-1)
  local norm = noise:square():sum(-1, true):sqrt()
  local rows = length:sqrt() * (noise / norm:masked_fill(norm:eq(0), 1))
  local rest = (1 - rows:square():sum(-1)):clamp { min = ml.finfo(c.dtype).tiny }
  return rows + rest:sqrt():diag_embed()
end

function LKJCholesky:_log_prob(value)
  local n, c = self.dim, self.concentration
  local diagonal = value:diagonal(0, -2, -1):narrow(-1, 2, n - 1)
  local order = 2 * (c - 1):unsqueeze(-1) + n - numerics.range(2, n, c)
  local alpha = c + 0.5 * (n - 1)
  local norm = 0.5 * (n - 1) * math.log(math.pi) + (alpha - 0.5):mvlgamma(n - 1)
    - alpha:lgamma() * (n - 1)
  return (order * diagonal:log()):sum(-1) - norm
end

return matrices
