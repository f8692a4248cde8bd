-- stdlib/distributions/transforms/vectors.lua: transforms of vectors and matrices.

local base = require "moonlet.distributions.transforms.base"
local constraints = require "moonlet.distributions.constraints"
local elementwise = require "moonlet.distributions.transforms.elementwise"
local ml = require "moonlet"
local numerics = require "moonlet.distributions.numerics"
local options = require "moonlet.options"
local shapes = require "moonlet.distributions.shapes"
local define, fail = base.define, options.fail

local vectors = {}

-- The vectors without their last element and with `value` in front.
local function shifted(x, value)
  return ml.pad(x:narrow(-1, 1, x:size(-1) - 1), { 1, 0 }, "constant", value)
end

--- Maps vectors of n (n - 1) / 2 real numbers to the Cholesky factors of (n, n) correlation
--- matrices, by hyperbolic tangents as partial correlations, row by row.
--- > ml.distributions.CorrCholeskyTransform()(ml.tensor { 0.5 })
---   {{1.0000, 0.0000},
---    {0.4621, 0.8868}}
---   Tensor (2, 2) float32
---@param cache_size? integer 1 keeps the last argument and result, so that inverting that
---   result is exact; 0 nothing
---@shape (*, n (n - 1) / 2) -> (*, n, n)
---@source Lewandowski, Kurowicka and Joe, "Generating random correlation matrices based on
---   vines and extended onion method", 2009
local CorrCholesky = define("CorrCholeskyTransform", "")
vectors.CorrCholeskyTransform = CorrCholesky
CorrCholesky.domain, CorrCholesky.codomain = constraints.real_vector, constraints.corr_cholesky
CorrCholesky.bijective = true

-- The D of a vector's size.
local function matrix_size(self, size)
  local d = math.floor((0.25 + 2 * size) ^ 0.5 + 0.5 + 0.5)
  if d * (d - 1) // 2 ~= size then
    fail("%s: vectors of %d are no strictly lower triangles of square matrices", base.where(self),
      size)
  end
  return d
end

function CorrCholesky:_call(x)
  base.need_dims(self, shapes.of(x), 1)
  local d, eps = matrix_size(self, x:size(-1)), ml.finfo(x.dtype).eps
  local partial = numerics.vector_to_triangle(x:tanh():clamp(eps - 1, 1 - eps), d, -1)
  local rest = (1 - partial:square()):sqrt():cumprod(-1)
  local eye = ml.eye(d, { dtype = x.dtype, device = x.device })
  return (partial + eye) * shifted(rest, 1)
end

function CorrCholesky:_inverse(y)
  self:_inverse_shape(shapes.of(y))
  local rest = shifted(1 - y:square():cumsum(-1), 1)
  local t = numerics.triangle_to_vector(y, -1) / numerics.triangle_to_vector(rest, -1):sqrt()
  return (t:log1p() - (-t):log1p()) / 2
end

function CorrCholesky:_log_det(x, y)
  local rest = numerics.triangle_to_vector(1 - y:square():cumsum(-1), -2)
  local of_tanh = (x + (-2 * x):softplus() - math.log(2)):sum(-1) * -2
  return rest:log():sum(-1) * 0.5 + of_tanh
end

function CorrCholesky:_forward_shape(shape)
  base.need_dims(self, shape, 1)
  local d = matrix_size(self, shape[#shape])
  return shapes.join(shapes.part(shape, 1, -2), { d, d })
end

function CorrCholesky:_inverse_shape(shape)
  base.need_dims(self, shape, 2)
  local d = shape[#shape]
  if d ~= shape[#shape - 1] then
    fail("%s: shape %s is not of square matrices", base.where(self), shapes.text(shape))
  end
  return shapes.join(shapes.part(shape, 1, -3), { d * (d - 1) // 2 })
end

--- Softmax along the last dimension, from vectors to the simplex. It is not bijective; the inverse
--- is the logarithm.
--- > ml.distributions.SoftmaxTransform()(ml.tensor { 0.0, 0.0 })
---   {0.5000, 0.5000}
---   Tensor (2,) float32
---@param cache_size? integer 1 keeps the last argument and result, so that inverting that
---   result is exact; 0 nothing
---@shape (*, n) -> (*, n)
---@formula y_i = exp(x_i) / sum_j exp(x_j)
local Softmax = define("SoftmaxTransform", "")
vectors.SoftmaxTransform = Softmax
Softmax.domain, Softmax.codomain = constraints.real_vector, constraints.simplex
base.all_equal(Softmax)

function Softmax:_call(x) return x:softmax(-1) end
function Softmax:_inverse(y) return y:log() end
function Softmax:_forward_shape(shape)
  base.need_dims(self, shape, 1)
  return shape
end
Softmax._inverse_shape = Softmax._forward_shape

--- Maps vectors of n - 1 real numbers bijectively to n nonnegative numbers whose sum is 1: each
--- takes the share z_i, a sigmoid, of what those before it have left.
--- > ml.distributions.StickBreakingTransform()(ml.zeros(2))
---   {0.3333, 0.3333, 0.3333}
---   Tensor (3,) float32
---@param cache_size? integer 1 keeps the last argument and result, so that inverting that
---   result is exact; 0 nothing
---@shape (*, n - 1) -> (*, n)
---@formula y_i = z_i prod_{j < i} (1 - z_j), z_i = sigmoid(x_i - log(n - i))
local StickBreaking = define("StickBreakingTransform", "")
vectors.StickBreakingTransform = StickBreaking
StickBreaking.domain, StickBreaking.codomain = constraints.real_vector, constraints.simplex
StickBreaking.bijective = true
base.all_equal(StickBreaking)

-- log(K), ..., log(1 + 1): where zeros give equal shares.
local function offsets(count, like)
  return (count + 1 - numerics.range(1, count, like)):log()
end

function StickBreaking:_call(x)
  base.need_dims(self, shapes.of(x), 1)
  local part = elementwise.clipped_sigmoid(x - offsets(x:size(-1), x))
  local left = (1 - part):cumprod(-1)
  return ml.pad(part, { 0, 1 }, "constant", 1) * ml.pad(left, { 1, 0 }, "constant", 1)
end

function StickBreaking:_inverse(y)
  self:_inverse_shape(shapes.of(y))
  local shares = y:narrow(-1, 1, y:size(-1) - 1)
  local left = (1 - shares:cumsum(-1)):clamp { min = ml.finfo(y.dtype).tiny }
  return shares:log() - left:log() + offsets(shares:size(-1), y)
end

function StickBreaking:_log_det(x, y)
  x = x - offsets(x:size(-1), x)
  local shares = y:narrow(-1, 1, y:size(-1) - 1)
  return (x:logsigmoid() - x + shares:log()):sum(-1)
end

function StickBreaking:_forward_shape(shape)
  base.need_dims(self, shape, 1)
  return shapes.join(shapes.part(shape, 1, -2), { shape[#shape] + 1 })
end

function StickBreaking:_inverse_shape(shape)
  base.need_dims(self, shape, 1)
  if shape[#shape] == 0 then
    fail("%s: shape %s has no share in it", base.where(self), shapes.text(shape))
  end
  return shapes.join(shapes.part(shape, 1, -2), { shape[#shape] - 1 })
end

--- Maps square matrices to lower triangular ones with a positive diagonal: the strictly lower
--- triangle as it is, and the exponential of the diagonal.
--- > ml.distributions.LowerCholeskyTransform()(ml.zeros(2, 2))
---   {{1., 0.},
---    {0., 1.}}
---   Tensor (2, 2) float32
---@param cache_size? integer 1 keeps the last argument and result, so that inverting that
---   result is exact; 0 nothing
---@shape (*, n, n) -> (*, n, n)
local LowerCholesky = define("LowerCholeskyTransform", "")
vectors.LowerCholeskyTransform = LowerCholesky
LowerCholesky.domain = constraints.independent(constraints.real, 2)
LowerCholesky.codomain = constraints.lower_cholesky
base.all_equal(LowerCholesky)

local function with_diagonal(x, diagonal) return x:tril(-1) + diagonal:diag_embed() end

function LowerCholesky:_call(x)
  base.need_dims(self, shapes.of(x), 2)
  return with_diagonal(x, x:diagonal(0, -2, -1):exp())
end

function LowerCholesky:_inverse(y)
  base.need_dims(self, shapes.of(y), 2)
  return with_diagonal(y, y:diagonal(0, -2, -1):log())
end

--- Maps square matrices to positive definite ones, L L^T for the L of `LowerCholeskyTransform`.
--- > ml.distributions.PositiveDefiniteTransform()(ml.zeros(2, 2))
---   {{1., 0.},
---    {0., 1.}}
---   Tensor (2, 2) float32
---@param cache_size? integer 1 keeps the last argument and result, so that inverting that
---   result is exact; 0 nothing
---@shape (*, n, n) -> (*, n, n)
---@formula Y = L L^T
local PositiveDefinite = define("PositiveDefiniteTransform", "")
vectors.PositiveDefiniteTransform = PositiveDefinite
PositiveDefinite.domain = constraints.independent(constraints.real, 2)
PositiveDefinite.codomain = constraints.positive_definite
base.all_equal(PositiveDefinite)

function PositiveDefinite:_call(x)
  local lower = LowerCholesky._call(self, x)
  return lower:matmul(lower.mT)
end

function PositiveDefinite:_inverse(y)
  return LowerCholesky._inverse(self, ml.linalg.cholesky(y))
end

return vectors
