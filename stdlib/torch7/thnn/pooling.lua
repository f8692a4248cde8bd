-- stdlib/torch7/thnn/pooling.lua: THNN's pooling over images, sequences, volumes and features, and
-- its
-- inverse. Indices count from 1 in the flattened plane or volume.

local base = require "moonlet.torch7.thnn.base"

local M, I, give, list, sizes = base.M, base.I, base.give, base.list, base.sizes

local out = {}

local function set_pair(output, indices, values, at)
  give(output, values)
  give(indices, at)
  return output
end

-- --- the largest ---------------------------------------------------------------------------------

-- Checks that x has `spatial` dimensions and one or two more.
local function check_rank(x, spatial, name)
  local dims = M.dim(x)
  if dims ~= spatial + 1 and dims ~= spatial + 2 then
    base.fail("%s: a tensor of %d or %d dimensions is expected, got %d", name, spatial + 1,
      spatial + 2, dims)
  end
  return x
end

-- The gradient goes to where the largest were.
local function unpool(input, gradOutput, gradInput, indices, spatial)
  local shape = sizes(input)
  local g = gradOutput
  if spatial == 3 then
    local d = #shape
    local flat = { table.unpack(shape, 1, d - 2) }
    flat[d - 1] = shape[d - 1] * shape[d]
    local of_g = sizes(g)
    local outer = { table.unpack(of_g, 1, d - 2) }
    outer[d - 1] = of_g[d - 1] * of_g[d]
    local y = I.max_pool2d_grad_x(M.reshape(g, outer), M.reshape(indices, outer), flat)
    return give(gradInput, M.view(y, shape))
  end
  return give(gradInput, I.max_pool2d_grad_x(g, indices, shape))
end

local ONE2, ONE3 = { 1, 1 }, { 1, 1, 1 }

local function max_images(name, input, output, indices, kernel, stride, pad, dilation, ceil)
  check_rank(input, 2, name)
  return set_pair(output, indices,
    M.max_pool2d_with_indices(input, kernel, stride, pad, dilation, ceil == true))
end

out.SpatialMaxPooling_updateOutput = function(input, output, indices, kW, kH, dW, dH, padW, padH,
    ceil)
  return max_images("SpatialMaxPooling", input, output, indices, list(kH, kW), list(dH, dW),
    list(padH, padW), ONE2, ceil)
end

out.SpatialDilatedMaxPooling_updateOutput = function(input, output, indices, kW, kH, dW, dH, padW,
    padH, dilationW, dilationH, ceil)
  return max_images("SpatialDilatedMaxPooling", input, output, indices, list(kH, kW), list(dH, dW),
    list(padH, padW), list(dilationH, dilationW), ceil)
end

local function images_back(input, gradOutput, gradInput, indices)
  return unpool(input, gradOutput, gradInput, indices, 2)
end
out.SpatialMaxPooling_updateGradInput = images_back
out.SpatialDilatedMaxPooling_updateGradInput = images_back
out.SpatialAdaptiveMaxPooling_updateGradInput = images_back

local function max_volumes(name, input, output, indices, kernel, stride, pad, dilation, ceil)
  check_rank(input, 3, name)
  return set_pair(output, indices,
    M.max_pool3d_with_indices(input, kernel, stride, pad, dilation, ceil == true))
end

out.VolumetricMaxPooling_updateOutput = function(input, output, indices, kT, kW, kH, dT, dW, dH, pT,
    pW, pH, ceil)
  return max_volumes("VolumetricMaxPooling", input, output, indices, list(kT, kH, kW),
    list(dT, dH, dW), list(pT, pH, pW), ONE3, ceil)
end

out.VolumetricDilatedMaxPooling_updateOutput = function(input, output, indices, kT, kW, kH, dT, dW,
    dH, pT, pW, pH, dilationT, dilationW, dilationH, ceil)
  return max_volumes("VolumetricDilatedMaxPooling", input, output, indices, list(kT, kH, kW),
    list(dT, dH, dW), list(pT, pH, pW), list(dilationT, dilationH, dilationW), ceil)
end

local function volumes_back(input, gradOutput, gradInput, indices)
  return unpool(input, gradOutput, gradInput, indices, 3)
end
out.VolumetricMaxPooling_updateGradInput = volumes_back
out.VolumetricDilatedMaxPooling_updateGradInput = volumes_back

out.SpatialAdaptiveMaxPooling_updateOutput = function(input, output, indices, width, height)
  check_rank(input, 2, "SpatialAdaptiveMaxPooling")
  return set_pair(output, indices, M.adaptive_max_pool2d(input, list(height, width)))
end

out.SpatialFractionalMaxPooling_updateOutput = function(input, output, width, height, poolW, poolH,
    indices, samples)
  local x, added = base.batch(input, 4, "SpatialFractionalMaxPooling")
  local draws = M.reshape(samples, { M.size(x, 1), M.size(x, 2), 2 })
  local y, at = M.fractional_max_pool2d(x, list(poolH, poolW), list(height, width), draws)
  base.unbatch(indices, at, added)
  return base.unbatch(output, y, added)
end

out.SpatialFractionalMaxPooling_updateGradInput = function(input, gradOutput, gradInput, _, _, _, _,
    indices)
  return unpool(input, gradOutput, gradInput, indices, 2)
end

-- Here time is the last dimension, and the first of the draws.
out.VolumetricFractionalMaxPooling_updateOutput = function(input, output, depth, width, height,
    poolT, poolW, poolH, indices, samples)
  local x, added = base.batch(input, 5, "VolumetricFractionalMaxPooling")
  local draws = M.flip(M.reshape(samples, { M.size(x, 1), M.size(x, 2), 3 }), { 3 })
  local y, at = M.fractional_max_pool3d(x, list(poolH, poolW, poolT), list(height, width, depth),
    draws)
  base.unbatch(indices, at, added)
  return base.unbatch(output, y, added)
end

out.VolumetricFractionalMaxPooling_updateGradInput = function(input, gradOutput, gradInput, _, _, _,
    _, _, _, indices)
  return unpool(input, gradOutput, gradInput, indices, 3)
end

out.TemporalMaxPooling_updateOutput = function(input, output, indices, kW, dW)
  local x, added = base.batch(input, 3, "TemporalMaxPooling")
  local kernel = base.whole(kW)
  if M.size(x, 2) < kernel then
    base.fail("TemporalMaxPooling: at least %d frames are expected, got %d", kernel, M.size(x, 2))
  end
  local y, at = M.max_pool1d_with_indices(M.transpose(x, 2, 3), kernel, list(dW))
  base.unbatch(indices, M.contiguous(M.transpose(at, 2, 3)), added)
  return base.unbatch(output, M.contiguous(M.transpose(y, 2, 3)), added)
end

out.TemporalMaxPooling_updateGradInput = function(input, gradOutput, gradInput, indices)
  gradInput:resizeAs(input):zero()
  return M.scatter_add_(gradInput, M.dim(input) - 1, indices, gradOutput)
end

-- --- back to where the largest were ------------------------------------------------------------

out.SpatialMaxUnpooling_updateOutput = function(input, output, indices, width, height)
  check_rank(input, 2, "SpatialMaxUnpooling")
  return give(output, M.max_unpool2d(input, indices, list(height, width)))
end

out.SpatialMaxUnpooling_updateGradInput = function(_, gradOutput, gradInput, indices)
  return give(gradInput, I.max_pool2d_grad_x_grad_grad(gradOutput, indices))
end

out.VolumetricMaxUnpooling_updateOutput = function(input, output, indices, depth, width, height)
  check_rank(input, 3, "VolumetricMaxUnpooling")
  return give(output, M.max_unpool3d(input, indices, list(depth, height, width)))
end

out.VolumetricMaxUnpooling_updateGradInput = function(input, gradOutput, gradInput, indices)
  local flat = M.flatten(gradOutput, M.dim(gradOutput) - 2)
  local at = M.flatten(indices, M.dim(indices) - 2)
  return give(gradInput, M.view(M.gather(flat, M.dim(flat), at), sizes(input)))
end

-- --- means and sums ------------------------------------------------------------------------------

out.SpatialAveragePooling_updateOutput = function(input, output, kW, kH, dW, dH, padW, padH, ceil,
    count_pad)
  check_rank(input, 2, "SpatialAveragePooling")
  return give(output, M.avg_pool2d(input, list(kH, kW), list(dH, dW), list(padH, padW),
    ceil == true,
    count_pad == true))
end

out.SpatialAveragePooling_updateGradInput = function(input, gradOutput, gradInput, kW, kH, dW, dH,
    padW, padH, ceil, count_pad)
  return give(gradInput, I.avg_pool2d_grad_x(gradOutput, sizes(input), list(kH, kW), list(dH, dW),
    list(padH, padW), ceil == true, count_pad == true))
end

-- Sums are added up in one order, whatever the layout of the input.
out.SpatialAdaptiveAveragePooling_updateOutput = function(input, output, width, height)
  check_rank(input, 2, "SpatialAdaptiveAveragePooling")
  return give(output, M.adaptive_avg_pool2d(M.contiguous(input), list(height, width)))
end

out.SpatialAdaptiveAveragePooling_updateGradInput = function(input, gradOutput, gradInput)
  return give(gradInput, I.adaptive_avg_pool2d_grad_x(gradOutput, sizes(input)))
end

-- Volumes as planes (n, t, h * w), so that sums go along one dimension, and as images (n * t, h,
-- w).
local function as_depth(x)
  return M.reshape(x, { -1, M.size(x, M.dim(x) - 2), M.size(x, M.dim(x) - 1) * M.size(x,
    M.dim(x)) })
end
local function as_images(x)
  local d = M.dim(x)
  return M.reshape(x, { -1, M.size(x, d - 1), M.size(x, d) })
end

-- How many elements count in each window of one dimension, as a row.
local function counts(x, size, results, kernel, stride, pad, count_pad)
  local row = {}
  for i = 1, results do
    local first = (i - 1) * stride - pad
    local last = math.min(first + kernel, size + pad)
    row[i] = count_pad and last - first or math.min(last, size) - math.max(first, 0)
  end
  return M.new_tensor(x, row)
end

-- What the sum of each window of a volume is divided by, (t, h, w).
local function divisors(x, shape, k, d, p, count_pad)
  local rank = M.dim(x)
  local rows = {}
  for i = 1, 3 do
    rows[i] = counts(x, M.size(x, rank - 3 + i), shape[#shape - 3 + i], k[i], d[i], p[i], count_pad)
  end
  return M.mul(M.mul(M.reshape(rows[1], { -1, 1, 1 }), M.reshape(rows[2], { -1, 1 })), rows[3])
end

out.VolumetricAveragePooling_updateOutput = function(input, output, kT, kW, kH, dT, dW, dH, pT, pW,
    pH, ceil, count_pad)
  check_rank(input, 3, "VolumetricAveragePooling")
  local k, d, p = list(kT, kH, kW), list(dT, dH, dW), list(pT or 0, pH or 0, pW or 0)
  ceil = ceil == true
  local rank = M.dim(input)
  local flat = M.avg_pool2d(as_images(input), { k[2], k[3] }, { d[2], d[3] }, { p[2], p[3] }, ceil,
    true, 1)
  local h, w = M.size(flat, 2), M.size(flat, 3)
  flat = M.view(flat, { -1, M.size(input, rank - 2), h * w })
  local sums = M.avg_pool2d(flat, { k[1], 1 }, { d[1], 1 }, { p[1], 0 }, ceil, true, 1)
  local shape = { table.unpack(sizes(input), 1, rank - 3) }
  shape[rank - 2], shape[rank - 1], shape[rank] = M.size(sums, 2), h, w
  local y = M.view(sums, shape)
  return give(output, M.div_(y, divisors(input, shape, k, d, p, count_pad == true)))
end

out.VolumetricAveragePooling_updateGradInput = function(input, gradOutput, gradInput, kT, kW, kH,
    dT, dW, dH, pT, pW, pH, ceil, count_pad)
  local k, d, p = list(kT, kH, kW), list(dT, dH, dW), list(pT or 0, pH or 0, pW or 0)
  ceil = ceil == true
  local rank = M.dim(input)
  local g = M.div(gradOutput, divisors(input, sizes(gradOutput), k, d, p, count_pad == true))
  local flat = as_depth(g)
  local t = M.size(input, rank - 2)
  local depth = I.avg_pool2d_grad_x(flat, { M.size(flat, 1), t, M.size(flat, 3) }, { k[1], 1 },
    { d[1], 1 }, { p[1], 0 }, ceil, true, 1)
  local planes = M.view(depth, { -1, M.size(g, rank - 1), M.size(g, rank) })
  local y = I.avg_pool2d_grad_x(planes,
    { M.size(planes, 1), M.size(input, rank - 1), M.size(input, rank) }, { k[2], k[3] },
    { d[2], d[3] }, { p[2], p[3] }, ceil, true, 1)
  return give(gradInput, M.view(y, sizes(input)))
end

-- --- sums with a weight for each plane -----------------------------------------------------------

local ZERO2 = { 0, 0 }

-- (planes, 1, 1), which broadcasts over images.
local function over_images(weight) return M.reshape(weight, { -1, 1, 1 }) end

local function image_sums(input, kW, kH, dW, dH)
  check_rank(input, 2, "SpatialSubSampling")
  return M.avg_pool2d(input, list(kH, kW), list(dH, dW), ZERO2, false, true, 1)
end

-- The sum over all but dimension `dim`.
local function sum_but(x, dim)
  local dims = {}
  for i = 1, M.dim(x) do
    if i ~= dim then dims[#dims + 1] = i end
  end
  return M.sum(x, dims)
end

out.SpatialSubSampling_updateOutput = function(input, output, weight, bias, kW, kH, dW, dH)
  local y = M.mul_(image_sums(input, kW, kH, dW, dH), over_images(weight))
  return give(output, M.add_(y, over_images(bias)))
end

out.SpatialSubSampling_updateGradInput = function(input, gradOutput, gradInput, weight, kW, kH, dW,
    dH)
  return give(gradInput, I.avg_pool2d_grad_x(M.mul(gradOutput, over_images(weight)), sizes(input),
    list(kH, kW), list(dH, dW), ZERO2, false, true, 1))
end

out.SpatialSubSampling_accGradParameters = function(input, gradOutput, gradWeight, gradBias, kW, kH,
    dW, dH, scale)
  local planes = M.dim(input) - 2
  local parts = M.mul_(image_sums(input, kW, kH, dW, dH), gradOutput)
  M.add_(gradWeight, sum_but(parts, planes), scale or 1)
  M.add_(gradBias, sum_but(gradOutput, planes), scale or 1)
end

-- (n, frames, features) as images (n, frames, features) whose windows have one feature.
local function frame_sums(input, kW, dW)
  local x, added = base.batch(input, 3, "TemporalSubSampling")
  local y = M.avg_pool2d(x, { base.whole(kW), 1 }, { base.whole(dW), 1 }, ZERO2, false, true, 1)
  return y, added
end

out.TemporalSubSampling_updateOutput = function(input, output, weight, bias, kW, dW)
  local y, added = frame_sums(input, kW, dW)
  return base.unbatch(output, M.add_(M.mul_(y, weight), bias), added)
end

out.TemporalSubSampling_updateGradInput = function(input, gradOutput, gradInput, weight, kW, dW)
  local x, added = base.batch(input, 3, "TemporalSubSampling")
  local g = M.mul(base.batch(gradOutput, 3, "TemporalSubSampling"), weight)
  local y = I.avg_pool2d_grad_x(g, sizes(x), { base.whole(kW), 1 }, { base.whole(dW), 1 }, ZERO2,
    false, true, 1)
  return base.unbatch(gradInput, y, added)
end

out.TemporalSubSampling_accGradParameters = function(input, gradOutput, gradWeight, gradBias, kW,
    dW, scale)
  local sums = frame_sums(input, kW, dW)
  local g = base.batch(gradOutput, 3, "TemporalSubSampling")
  M.add_(gradWeight, M.sum(M.mul_(sums, g), { 1, 2 }), scale or 1)
  M.add_(gradBias, M.sum(g, { 1, 2 }), scale or 1)
end

-- --- p-norms of neighbouring features ----------------------------------------------------------

out.FeatureLPPooling_updateOutput = function(input, output, power, width, stride, batched)
  local dim = batched and 2 or 1
  local windows = M.unfold(input, dim, base.whole(width), base.whole(stride))
  local sums = M.sum(M.pow(windows, power), { M.dim(windows) })
  return give(output, power == 1 and sums or M.pow(sums, 1 / power))
end

out.FeatureLPPooling_updateGradInput = function(gradOutput, input, output, gradInput, power, width,
    stride, batched)
  local dim = batched and 2 or 1
  gradInput:resizeAs(input):zero()
  local part = gradOutput
  if power ~= 1 then
    part = M.mul(M.masked_fill(M.pow(output, 1 - power), M.eq(output, 0), 0), gradOutput)
  end
  local results, step = M.size(output, dim), base.whole(stride)
  for i = 1, base.whole(width) do
    local last = i + (results - 1) * step
    local x = M.slice(input, dim, i, last, step)
    local add = power == 1 and part or M.mul(M.pow(x, power - 1), part)
    M.add_(M.slice(gradInput, dim, i, last, step), add)
  end
  return gradInput
end

return out
