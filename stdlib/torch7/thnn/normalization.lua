-- stdlib/torch7/thnn/normalization.lua: THNN's functions of layers with parameters that are no
-- convolutions: batch normalization, tables of rows and products.

local base = require "moonlet.torch7.thnn.base"

local M, I, give = base.M, base.I, base.give

local out = {}

-- --- batch normalization -------------------------------------------------------------------------

-- A value for each channel in a shape that broadcasts over x.
local function over(x, values)
  local shape = { 1, -1 }
  for i = 3, M.dim(x) do shape[i] = 1 end
  return M.reshape(values, shape)
end

local function inverse_deviation(variance, eps) return M.rsqrt_(M.add(variance, eps)) end

out.BatchNormalization_updateOutput = function(input, output, weight, bias, running_mean,
    running_var, save_mean, save_std, train, momentum, eps)
  if train then
    local y, mean, rstd = I.native_batch_norm(input, weight, bias, running_mean, running_var,
      momentum,
      eps)
    M.copy_(save_mean, M.reshape(mean, { -1 }))
    M.copy_(save_std, M.reshape(rstd, { -1 }))
    return give(output, y)
  end
  local scale = inverse_deviation(running_var, eps)
  if weight then M.mul_(scale, weight) end
  local shift = M.neg_(M.mul(running_mean, scale))
  if bias then M.add_(shift, bias) end
  return give(output, M.add_(M.mul(input, over(input, scale)), over(input, shift)))
end

local function channel_sum(x)
  local dims = { 1 }
  for i = 3, M.dim(x) do dims[#dims + 1] = i end
  return M.sum(x, dims)
end

out.BatchNormalization_backward = function(input, gradOutput, gradInput, gradWeight, gradBias,
    weight, running_mean, running_var, save_mean, save_std, train, scale, eps)
  local g = base.like(input, gradOutput, "BatchNormalization")
  local mean, rstd = save_mean, save_std
  if not train then mean, rstd = running_mean, inverse_deviation(running_var, eps) end
  if gradBias then M.add_(gradBias, channel_sum(g), scale) end
  if gradWeight then
    local wide_mean, wide_rstd = M.double(over(input, mean)), M.double(over(input, rstd))
    local grad = I.batch_norm_grad_weight(g, input, wide_mean, wide_rstd, eps)
    M.add_(gradWeight, M.reshape(grad, { -1 }), scale)
  end
  if not gradInput then return end
  if train then
    local wide_mean, wide_rstd = M.double(over(input, mean)), M.double(over(input, rstd))
    return give(gradInput, I.batch_norm_grad_x(g, input, wide_mean, wide_rstd, weight, eps))
  end
  local factor = weight and M.mul(rstd, weight) or rstd
  return give(gradInput, M.mul(g, over(input, factor)))
end

-- --- tables of rows ------------------------------------------------------------------------------

local function flat(x) return M.reshape(x, { -1 }) end

out.LookupTable_accGradParameters = function(input, gradOutput, gradWeight, count, _, _,
    by_frequency, padding, scale)
  local at = flat(input)
  local g = M.reshape(gradOutput, { M.size(at, 1), -1 })
  local factor
  if by_frequency then
    count:resize(M.size(gradWeight, 1))
    M.copy_(count, M.bincount(at, nil, M.size(gradWeight, 1)))
    factor = M.reciprocal(M.to(M.index_select(count, 1, at), g.__dtype))
  end
  if padding and padding ~= 0 then
    local used = M.to(M.ne(at, base.whole(padding)), g.__dtype)
    factor = factor and M.mul(factor, used) or used
  end
  if factor then g = M.mul(g, M.unsqueeze(factor, 2)) end
  M.index_add_(gradWeight, 1, at, g, scale or 1)
end

out.LookupTable_renorm = function(rows, weight, most, p)
  if p <= 0 then base.fail("LookupTable: a positive norm is expected, got %g", p) end
  local at = M.unique(flat(rows))
  local values = M.index_select(weight, 1, at)
  local norms = M.norm(values, p, { 2 }, true)
  local factor = M.div(M.add(norms, 1e-7), most)
  factor = M.masked_fill_(M.reciprocal_(factor), M.le(norms, most), 1)
  M.index_copy_(weight, 1, at, M.mul_(values, factor))
end

-- --- products ------------------------------------------------------------------------------------

out.Linear_updateOutput = function(input, output, weight, bias)
  return give(output, M.linear(input, weight, bias))
end

out.Linear_updateGradInput = function(input, gradOutput, gradInput, weight)
  local g = M.dim(input) == 1 and M.mv(M.t(weight), gradOutput) or M.mm(gradOutput, weight)
  return give(gradInput, g)
end

out.Linear_accGradParameters = function(input, gradOutput, _, _, bias, gradWeight, gradBias, _,
    scale)
  local x = M.dim(input) == 1 and M.unsqueeze(input, 1) or input
  local g = M.dim(input) == 1 and M.unsqueeze(gradOutput, 1) or gradOutput
  M.addmm_(gradWeight, M.t(g), x, 1, scale or 1)
  if bias then M.add_(gradBias, M.sum(g, { 1 }), scale or 1) end
end

return out
