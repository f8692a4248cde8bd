-- stdlib/distributions/multivariate.lua: normal distributions of vectors.

local constraints = require "moonlet.distributions.constraints"
local distribution = require "moonlet.distributions.distribution"
local ml = require "moonlet"
local numerics = require "moonlet.distributions.numerics"
local properties = require "moonlet.distributions.properties"
local shapes = require "moonlet.distributions.shapes"
local fail = distribution.fail

local multivariate = {}

local LOG_2PI = math.log(2 * math.pi)
local MATRICES = { "covariance_matrix", "precision_matrix", "scale_tril" }

--- The one matrix among the arguments, its name, and the lower triangular L with L L^T the
--- covariance, which must be found before the class is checked.
---@param self table
---@param o table<string, any>
---@return string name
---@return Tensor matrix
function multivariate.given_matrix(self, o)
  local found
  for _, name in ipairs(MATRICES) do
    if o[name] then
      if found then fail(self, "'%s' and '%s' are given; one is expected", found, name) end
      found = name
    end
  end
  if not found then
    fail(self, "one of 'covariance_matrix', 'precision_matrix' and 'scale_tril' is expected")
  end
  local matrix = o[found]
  if matrix:dim() < 2 or matrix:size(-1) ~= matrix:size(-2) then
    fail(self, "'%s' must be square matrices, got shape %s", found, tostring(matrix.shape))
  end
  return found, matrix
end

--- The lower triangular L with L L^T the covariance.
---@param name string
---@param matrix Tensor
---@return Tensor
function multivariate.scale_tril_of(name, matrix)
  if name == "scale_tril" then return matrix end
  if name == "covariance_matrix" then return ml.linalg.cholesky(matrix) end
  return numerics.precision_to_scale_tril(matrix)
end

--- Gives a class the matrices that it was not made of.
---@param cls table
function multivariate.define_matrices(cls)
  local lazy = properties.lazy(cls)
  local function matrix_shape(self)
    local n = self._event_shape[1]
    return shapes.join(self._batch_shape, { n, n })
  end
  function lazy:scale_tril() return self._scale_tril:expand(matrix_shape(self)) end
  function lazy:covariance_matrix()
    return self._scale_tril:matmul(self._scale_tril.mT):expand(matrix_shape(self))
  end
  function lazy:precision_matrix()
    return ml.cholesky_inverse(self._scale_tril):expand(matrix_shape(self))
  end
end

--- Multivariate normal distribution of mean vector `loc`, given by the covariance matrix, its
--- inverse or its Cholesky factor.
--- > d = ml.distributions.MultivariateNormal(ml.zeros(2), ml.eye(2))
--- > d:log_prob(ml.zeros(2))
---   -1.8379  Tensor () float32
---@param loc moonlet.Tensor mean vector mu
---@param covariance_matrix? moonlet.Tensor covariance matrix, positive definite; give exactly
---   one of the three matrices
---@param precision_matrix? moonlet.Tensor inverse of the covariance matrix
---@param scale_tril? moonlet.Tensor lower triangular Cholesky factor L of the covariance L L^T;
---   the fastest
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape loc (*, n), covariance_matrix (*, n, n) -> samples (sample_shape, *, n)
---@formula p(x) = exp(-1/2 (x - mu)^T C^(-1) (x - mu)) / sqrt((2 pi)^n det(C))
local MultivariateNormal = distribution.define("MultivariateNormal", "Tensor loc, "
  .. "Tensor? covariance_matrix=nil, Tensor? precision_matrix=nil, Tensor? scale_tril=nil",
  { "loc", table.unpack(MATRICES) })
multivariate.MultivariateNormal = MultivariateNormal
MultivariateNormal._kept = { "_scale_tril" }
MultivariateNormal.support, MultivariateNormal.has_rsample = constraints.real_vector, true
MultivariateNormal.arg_constraints = { loc = constraints.real_vector,
  covariance_matrix = constraints.positive_definite,
  precision_matrix = constraints.positive_definite, scale_tril = constraints.lower_cholesky }
multivariate.define_matrices(MultivariateNormal)

function MultivariateNormal:init(...)
  local o = MultivariateNormal._reader:table(...)
  local name, matrix = multivariate.given_matrix(self, o)
  if o.loc:dim() < 1 then fail(self, "'loc' must have at least one dimension") end
  local loc, size = shapes.of(o.loc), shapes.of(matrix)
  local n = size[#size]
  if loc[#loc] ~= n and loc[#loc] ~= 1 then
    fail(self, "'loc' has shape %s and '%s' %s", shapes.text(loc), name, shapes.text(size))
  end
  local batch = shapes.broadcast(distribution.where(self), { name, "loc" },
    { shapes.part(size, 1, -3), shapes.part(loc, 1, -2) })
  self.loc = o.loc:expand(shapes.join(batch, { n }))
  self[name] = matrix:expand(shapes.join(batch, { n, n }))
  self:_begin(batch, { n }, o.validate_args)
  self._scale_tril = multivariate.scale_tril_of(name, matrix)
end

local get = properties.of(MultivariateNormal)
function get:mean() return self.loc end
function get:mode() return self.loc end
function get:variance() return self._scale_tril:square():sum(-1):expand(self.loc.shape) end

function MultivariateNormal:_rsample(shape, generator)
  local noise = numerics.randn(self:_extended_shape(shape), self.loc, generator)
  return self.loc + numerics.mv(self._scale_tril, noise)
end

function MultivariateNormal:_log_prob(value)
  local distance = numerics.mahalanobis(self._scale_tril, value - self.loc)
  return -0.5 * (self._event_shape[1] * LOG_2PI + distance)
    - numerics.log_diagonal(self._scale_tril)
end

function MultivariateNormal:_entropy()
  local value = 0.5 * self._event_shape[1] * (1 + LOG_2PI)
    + numerics.log_diagonal(self._scale_tril)
  return value:expand(self._batch_shape)
end

--- Multivariate normal distribution whose covariance matrix is W W^T + diag(D) for a W of few
--- columns; only an (r, r) matrix is factorised.
--- > d = ml.distributions.LowRankMultivariateNormal(ml.zeros(2), ml.ones(2, 1), ml.ones(2))
--- > d.covariance_matrix
---   {{2., 1.},
---    {1., 2.}}
---   Tensor (2, 2) float32
---@param loc moonlet.Tensor mean vector
---@param cov_factor moonlet.Tensor factor W of the covariance, with r columns
---@param cov_diag moonlet.Tensor diagonal D of the covariance, positive
---@param validate_args? boolean whether parameters and values are checked; set for all by
---   `set_default_validate_args`
---@shape loc (*, n), cov_factor (*, n, r), cov_diag (*, n) -> samples (sample_shape, *, n)
---@formula C = W W^T + diag(D)
---@source Woodbury, "Inverting modified matrices", 1950
local LowRank = distribution.define("LowRankMultivariateNormal",
  "Tensor loc, Tensor cov_factor, Tensor cov_diag", { "loc", "cov_factor", "cov_diag" })
multivariate.LowRankMultivariateNormal = LowRank
LowRank._kept = { "_factor", "_diag", "_capacitance" }
LowRank.support, LowRank.has_rsample = constraints.real_vector, true
LowRank.arg_constraints = { loc = constraints.real_vector,
  cov_factor = constraints.independent(constraints.real, 2),
  cov_diag = constraints.independent(constraints.positive, 1) }

-- Matrices with 1 added on the diagonal.
local function plus_eye(matrix)
  return matrix + ml.eye(matrix:size(-1), { dtype = matrix.dtype, device = matrix.device })
end

local function check_low_rank(self, loc, factor, diag)
  if #loc < 1 then fail(self, "'loc' must have at least one dimension") end
  if #factor < 2 or factor[#factor - 1] ~= loc[#loc] then
    fail(self, "'cov_factor' must be matrices of %d rows, got shape %s", loc[#loc],
      shapes.text(factor))
  end
  if diag[#diag] ~= loc[#loc] then
    fail(self, "'cov_diag' must be vectors of %d, got shape %s", loc[#loc], shapes.text(diag))
  end
end

function LowRank:init(...)
  local loc, factor, diag, validate_args = LowRank._reader(...)
  local of_loc, of_factor, of_diag = shapes.of(loc), shapes.of(factor), shapes.of(diag)
  check_low_rank(self, of_loc, of_factor, of_diag)
  local batch = shapes.broadcast(distribution.where(self), { "loc", "cov_factor", "cov_diag" },
    { shapes.part(of_loc, 1, -2), shapes.part(of_factor, 1, -3), shapes.part(of_diag, 1, -2) })
  local n = of_loc[#of_loc]
  self.loc = loc:expand(shapes.join(batch, { n }))
  self.cov_factor = factor:expand(shapes.join(batch, shapes.part(of_factor, -2)))
  self.cov_diag = diag:expand(shapes.join(batch, { n }))
  self:_begin(batch, { n }, validate_args)
  self._factor, self._diag = factor, diag
  local scaled = factor.mT / diag:unsqueeze(-2)
  self._capacitance = ml.linalg.cholesky(plus_eye(scaled:matmul(factor)))
end

get = properties.of(LowRank)
function get:mean() return self.loc end
function get:mode() return self.loc end
function get:variance()
  return (self._factor:square():sum(-1) + self._diag):expand(self.loc.shape)
end

local function as_matrices(self, matrix)
  local n = self._event_shape[1]
  return matrix:expand(shapes.join(self._batch_shape, { n, n }))
end

local lazy = properties.lazy(LowRank)
function lazy:scale_tril()
  local root = self._diag:sqrt():unsqueeze(-1)
  local scaled = self._factor / root
  return as_matrices(self, root * ml.linalg.cholesky(plus_eye(scaled:matmul(scaled.mT))))
end
function lazy:covariance_matrix()
  return as_matrices(self, self._factor:matmul(self._factor.mT) + self._diag:diag_embed())
end
function lazy:precision_matrix()
  local inner = numerics.solve_lower(self._capacitance, self._factor.mT / self._diag:unsqueeze(-2))
  return as_matrices(self, (1 / self._diag):diag_embed() - inner.mT:matmul(inner))
end

function LowRank:_rsample(shape, generator)
  local size = self:_extended_shape(shape)
  local rank = shapes.join(shapes.part(size, 1, -2), { self.cov_factor:size(-1) })
  local of_factor = numerics.randn(rank, self.loc, generator)
  local of_diag = numerics.randn(size, self.loc, generator)
  return self.loc + numerics.mv(self._factor, of_factor) + self._diag:sqrt() * of_diag
end

--- The logarithm of the covariance's determinant.
---@param self table
---@return Tensor
function multivariate.low_rank_log_det(self)
  return 2 * numerics.log_diagonal(self._capacitance) + self._diag:log():sum(-1)
end

--- The squared distance of `x` from 0 under the covariance.
---@param self table
---@param x Tensor
---@return Tensor
function multivariate.low_rank_distance(self, x)
  local inner = numerics.mv(self._factor.mT / self._diag:unsqueeze(-2), x)
  return (x:square() / self._diag):sum(-1) - numerics.mahalanobis(self._capacitance, inner)
end

function LowRank:_log_prob(value)
  local distance = multivariate.low_rank_distance(self, value - self.loc)
  return -0.5 * (self._event_shape[1] * LOG_2PI + multivariate.low_rank_log_det(self) + distance)
end

function LowRank:_entropy()
  local value = 0.5 * (self._event_shape[1] * (1 + LOG_2PI) + multivariate.low_rank_log_det(self))
  return value:expand(self._batch_shape)
end

return multivariate
