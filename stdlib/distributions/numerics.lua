-- stdlib/distributions/numerics.lua: what several distributions compute with.

local ml = require "moonlet"
local shapes = require "moonlet.distributions.shapes"

local numerics = {}

numerics.EULER = 0.57721566490153286061

--- Probabilities kept from 0 and 1 by the dtype's epsilon.
---@param probs Tensor
---@return Tensor
function numerics.clamp_probs(probs)
  local eps = ml.finfo(probs.dtype).eps
  return probs:clamp(eps, 1 - eps)
end

--- The logarithms, or for two classes the log odds, of probabilities.
---@param probs Tensor
---@param is_binary? boolean
---@return Tensor
function numerics.probs_to_logits(probs, is_binary)
  local clamped = numerics.clamp_probs(probs)
  if is_binary then return clamped:log() - (-clamped):log1p() end
  return clamped:log()
end

--- The probabilities of logits.
---@param logits Tensor
---@param is_binary? boolean
---@return Tensor
function numerics.logits_to_probs(logits, is_binary)
  if is_binary then return logits:sigmoid() end
  return logits:softmax(-1)
end

--- `x` with its elements kept from `low` to `high`; the gradient is as if they were not.
---@param x Tensor
---@param low number
---@param high? number
---@return Tensor
function numerics.clamp_value(x, low, high)
  local plain = x:detach()
  return x + (plain:clamp(low, high) - plain)
end

--- A tensor like `x` that is `value` everywhere.
---@param x Tensor
---@param value number
---@return Tensor
function numerics.filled(x, value) return ml.full_like(x, value) end

--- The normal random numbers of a shape, with the dtype and device of `like`.
---@param size integer[]
---@param like Tensor
---@param generator? moonlet.Generator
---@return Tensor
function numerics.randn(size, like, generator)
  return ml.randn(size, { dtype = like.dtype, device = like.device, generator = generator })
end

--- The evenly distributed numbers below 1 of a shape, with the dtype and device of `like`.
---@param size integer[]
---@param like Tensor
---@param generator? moonlet.Generator
---@return Tensor
function numerics.rand(size, like, generator)
  return ml.rand(size, { dtype = like.dtype, device = like.device, generator = generator })
end

--- An uninitialised tensor of a shape, with the dtype and device of `like`.
---@param size integer[]
---@param like Tensor
---@return Tensor
function numerics.empty(size, like)
  return ml.empty(size, { dtype = like.dtype, device = like.device })
end

--- The numbers from `first` to `last`, with the dtype and device of `like`.
---@param first integer
---@param last integer
---@param like Tensor
---@return Tensor
function numerics.range(first, last, like)
  return ml.arange(first, last, { dtype = like.dtype, device = like.device })
end

--- Minus the log probability of zeros and ones, or what lies between, under log odds.
---@param logits Tensor
---@param value Tensor
---@return Tensor
function numerics.binary_loss(logits, value)
  return ml.binary_cross_entropy_with_logits(logits, value, nil, nil, "none")
end

--- Matrices times vectors.
---@param matrix Tensor
---@param vector Tensor
---@return Tensor
function numerics.mv(matrix, vector) return matrix:matmul(vector:unsqueeze(-1)):squeeze(-1) end

--- The sum of the logarithms of a matrix's diagonal.
---@param matrix Tensor
---@return Tensor
function numerics.log_diagonal(matrix) return matrix:diagonal(0, -2, -1):log():sum(-1) end

--- The solution X of A X = B with lower triangular A; batches broadcast.
---@param lower Tensor
---@param right Tensor
---@return Tensor
function numerics.solve_lower(lower, right)
  return ml.linalg.solve_triangular(lower, right, { upper = false })
end

--- The squared length of L^-1 x for batches of lower triangular L and of vectors x.
---@param lower Tensor
---@param x Tensor
---@return Tensor
function numerics.mahalanobis(lower, x)
  if lower:dim() > 2 then
    return numerics.solve_lower(lower, x:unsqueeze(-1)):squeeze(-1):square():sum(-1)
  end
  local size = shapes.of(x)
  local rows = shapes.numel(shapes.part(size, 1, -2))
  local flat = x:reshape({ rows, size[#size] }):t()
  return numerics.solve_lower(lower, flat):square():sum(1):reshape(shapes.part(size, 1, -2))
end

--- The lower triangular L with L L^T the inverse of a positive definite matrix.
---@param precision Tensor
---@return Tensor
function numerics.precision_to_scale_tril(precision)
  local reversed = ml.linalg.cholesky(precision:flip({ -2, -1 }))
  local inverse = reversed:flip({ -2, -1 }):transpose(-2, -1)
  local eye = ml.eye(precision:size(-1), { dtype = precision.dtype, device = precision.device })
  return numerics.solve_lower(inverse, eye)
end

-- The positions, in a flattened n x n matrix, of what stands on diagonal `diag` and below.
local function triangle(n, diag, device)
  local at = {}
  for row = 1, n do
    for column = 1, math.min(row + diag, n) do at[#at + 1] = (row - 1) * n + column end
  end
  if #at == 0 then return ml.zeros({ 0 }, { dtype = ml.int64, device = device }) end
  return ml.tensor(at, { dtype = ml.int64, device = device })
end

--- The elements of the matrices on diagonal `diag` and below, row by row, as vectors.
---@param matrix Tensor
---@param diag integer
---@return Tensor
function numerics.triangle_to_vector(matrix, diag)
  local at = triangle(matrix:size(-1), diag, matrix.device)
  return matrix:flatten(-2, -1):index_select(-1, at)
end

--- Such vectors as n x n matrices that are 0 elsewhere.
---@param vector Tensor
---@param n integer
---@param diag integer
---@return Tensor
function numerics.vector_to_triangle(vector, n, diag)
  local batch = shapes.part(shapes.of(vector), 1, -2)
  local zeros = ml.zeros(shapes.join(batch, { n * n }),
    { dtype = vector.dtype, device = vector.device })
  local at = triangle(n, diag, vector.device)
  return zeros:index_add(-1, at, vector):reshape(shapes.join(batch, { n, n }))
end

return numerics
