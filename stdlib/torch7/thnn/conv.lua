-- stdlib/torch7/thnn/conv.lua: THNN's convolutions of one to three dimensions, dilated, transposed
-- and
-- of single channels, by the core's convolution, its transposed form and the gradient of its
-- weight.

local base = require "moonlet.torch7.thnn.base"

local M, I, list, sizes = base.M, base.I, base.list, base.sizes

local out = {}

-- --- one definition of all -------------------------------------------------------------------

-- What a call says of its window: `stride`, `pad`, `dilation`, one number for each dimension.
local function window(stride, pad, dilation)
  local ones = {}
  for i = 1, #stride do ones[i] = 1 end
  return { stride = stride, pad = pad, dilation = dilation or ones }
end

-- A weight of two dimensions in the shape of filters.
local function filters(weight, x, kernel)
  if M.dim(weight) ~= 2 or not kernel then return weight end
  return M.view(weight, { M.size(weight, 1), M.size(x, 2), table.unpack(kernel) })
end

-- Adds scale * y to r, whatever its shape.
local function accumulate(r, y, scale)
  if not r then return end
  if M.dim(y) ~= M.dim(r) then y = M.reshape(y, sizes(r)) end
  M.add_(r, y, scale or 1)
end

-- The sums over everything but the channels.
local function channel_sums(g)
  local dims = { 1 }
  for i = 3, M.dim(g) do dims[#dims + 1] = i end
  return M.sum(g, dims)
end

local function forward(name, input, output, weight, bias, w, kernel, groups)
  local x, added = base.batch(input, #w.stride + 2, name)
  local y = I.native_conv(x, filters(weight, x, kernel), bias, w.stride, w.pad, w.dilation,
    groups or 1)
  return base.unbatch(output, y, added)
end

local function grad_input(name, input, gradOutput, gradInput, weight, w, kernel, groups)
  local x, added = base.batch(input, #w.stride + 2, name)
  local g = added and M.unsqueeze(gradOutput, 1) or gradOutput
  local y = I.native_conv_transpose(g, filters(weight, x, kernel), nil, sizes(x), w.stride, w.pad,
    w.dilation, groups or 1)
  return base.unbatch(gradInput, y, added)
end

local function grad_parameters(name, input, gradOutput, gradWeight, gradBias, w, kernel, scale,
    groups)
  local x, added = base.batch(input, #w.stride + 2, name)
  local g = added and M.unsqueeze(gradOutput, 1) or gradOutput
  if gradWeight then
    local shape = sizes(filters(gradWeight, x, kernel))
    accumulate(gradWeight, I.native_conv_grad_weight(g, x, shape, w.stride, w.pad, w.dilation,
      groups or 1), scale)
  end
  if gradBias then accumulate(gradBias, channel_sums(g), scale) end
end

-- --- images --------------------------------------------------------------------------------------

out.SpatialConvolutionMM_updateOutput = function(input, output, weight, bias, _, _, kW, kH, dW, dH,
    padW, padH)
  return forward("SpatialConvolution", input, output, weight, bias,
    window(list(dH, dW), list(padH, padW)), list(kH, kW))
end

out.SpatialConvolutionMM_updateGradInput = function(input, gradOutput, gradInput, weight, _, _, kW,
    kH, dW, dH, padW, padH)
  return grad_input("SpatialConvolution", input, gradOutput, gradInput, weight,
    window(list(dH, dW), list(padH, padW)), list(kH, kW))
end

out.SpatialConvolutionMM_accGradParameters = function(input, gradOutput, gradWeight, gradBias, _, _,
    kW, kH, dW, dH, padW, padH, scale)
  return grad_parameters("SpatialConvolution", input, gradOutput, gradWeight, gradBias,
    window(list(dH, dW), list(padH, padW)), list(kH, kW), scale)
end

out.SpatialDilatedConvolution_updateOutput = function(input, output, weight, bias, _, _, kW, kH, dW,
    dH, padW, padH, dilationW, dilationH)
  return forward("SpatialDilatedConvolution", input, output, weight, bias,
    window(list(dH, dW), list(padH, padW), list(dilationH, dilationW)), list(kH, kW))
end

out.SpatialDilatedConvolution_updateGradInput = function(input, gradOutput, gradInput, weight, _,
    kW, kH, dW, dH, padW, padH, dilationW, dilationH)
  return grad_input("SpatialDilatedConvolution", input, gradOutput, gradInput, weight,
    window(list(dH, dW), list(padH, padW), list(dilationH, dilationW)), list(kH, kW))
end

out.SpatialDilatedConvolution_accGradParameters = function(input, gradOutput, gradWeight, gradBias,
    _, _, kW, kH, dW, dH, padW, padH, dilationW, dilationH, scale)
  return grad_parameters("SpatialDilatedConvolution", input, gradOutput, gradWeight, gradBias,
    window(list(dH, dW), list(padH, padW), list(dilationH, dilationW)), list(kH, kW), scale)
end

-- --- volumes -------------------------------------------------------------------------------------

out.VolumetricConvolution_updateOutput = function(input, output, weight, bias, _, _, dT, dW, dH, pT,
    pW, pH)
  return forward("VolumetricConvolution", input, output, weight, bias,
    window(list(dT, dH, dW), list(pT, pH, pW)))
end

out.VolumetricConvolution_updateGradInput = function(input, gradOutput, gradInput, weight, _, dT,
    dW, dH, pT, pW, pH)
  return grad_input("VolumetricConvolution", input, gradOutput, gradInput, weight,
    window(list(dT, dH, dW), list(pT, pH, pW)))
end

out.VolumetricConvolution_accGradParameters = function(input, gradOutput, gradWeight, gradBias, _,
    _, dT, dW, dH, pT, pW, pH, scale)
  return grad_parameters("VolumetricConvolution", input, gradOutput, gradWeight, gradBias,
    window(list(dT, dH, dW), list(pT, pH, pW)), nil, scale)
end

out.VolumetricConvolutionMM_updateOutput = function(input, output, weight, bias, _, kT, kW, kH, dT,
    dW, dH, pT, pW, pH)
  return forward("VolumetricConvolution", input, output, weight, bias,
    window(list(dT, dH, dW), list(pT, pH, pW)), list(kT, kH, kW))
end

out.VolumetricConvolutionMM_updateGradInput = function(input, gradOutput, gradInput, weight, _, _,
    kT, kW, kH, dT, dW, dH, pT, pW, pH)
  return grad_input("VolumetricConvolution", input, gradOutput, gradInput, weight,
    window(list(dT, dH, dW), list(pT, pH, pW)), list(kT, kH, kW))
end

out.VolumetricConvolutionMM_accGradParameters = function(input, gradOutput, gradWeight, gradBias, _,
    kT, kW, kH, dT, dW, dH, pT, pW, pH, scale)
  return grad_parameters("VolumetricConvolution", input, gradOutput, gradWeight, gradBias,
    window(list(dT, dH, dW), list(pT, pH, pW)), list(kT, kH, kW), scale)
end

out.VolumetricDilatedConvolution_updateOutput = function(input, output, weight, bias, _, _, kT, kW,
    kH, dT, dW, dH, pT, pW, pH, dilationT, dilationW, dilationH)
  return forward("VolumetricDilatedConvolution", input, output, weight, bias,
    window(list(dT, dH, dW), list(pT, pH, pW), list(dilationT, dilationH, dilationW)),
    list(kT, kH, kW))
end

out.VolumetricDilatedConvolution_updateGradInput = function(input, gradOutput, gradInput, weight, _,
    kT, kW, kH, dT, dW, dH, pT, pW, pH, dilationT, dilationW, dilationH)
  return grad_input("VolumetricDilatedConvolution", input, gradOutput, gradInput, weight,
    window(list(dT, dH, dW), list(pT, pH, pW), list(dilationT, dilationH, dilationW)),
    list(kT, kH, kW))
end

out.VolumetricDilatedConvolution_accGradParameters = function(input, gradOutput, gradWeight,
    gradBias, _, _, kT, kW, kH, dT, dW, dH, pT, pW, pH, dilationT, dilationW, dilationH, scale)
  return grad_parameters("VolumetricDilatedConvolution", input, gradOutput, gradWeight, gradBias,
    window(list(dT, dH, dW), list(pT, pH, pW), list(dilationT, dilationH, dilationW)),
    list(kT, kH, kW), scale)
end

-- --- transposed ----------------------------------------------------------------------------------

-- Sizes of the result: `extra` is what is added at the end of each dimension.
local function full_sizes(x, weight, w, extra)
  local shape = { M.size(x, 1), M.size(weight, 2) }
  for i = 1, #w.stride do
    local span = w.dilation[i] * (M.size(weight, i + 2) - 1) + 1
    shape[i + 2] = (M.size(x, i + 2) - 1) * w.stride[i] - 2 * w.pad[i] + span + extra[i]
    if shape[i + 2] < 1 then
      base.fail("FullConvolution: an input of size %d is too small in dimension %d",
        M.size(x, i + 2), i + 2)
    end
  end
  return shape
end

local function full_forward(name, input, output, weight, bias, w, extra)
  local x, added = base.batch(input, #w.stride + 2, name)
  local y = I.native_conv_transpose(x, weight, bias, full_sizes(x, weight, w, extra), w.stride,
    w.pad,
    w.dilation, 1)
  return base.unbatch(output, y, added)
end

-- The gradient of a transposed convolution is a convolution.
local function full_grad_input(name, gradOutput, gradInput, weight, w)
  local g, added = base.batch(gradOutput, #w.stride + 2, name)
  local y = I.native_conv(g, weight, nil, w.stride, w.pad, w.dilation, 1)
  return base.unbatch(gradInput, y, added)
end

-- That of its weight has input and gradient in each other's position.
local function full_grad_parameters(name, input, gradOutput, gradWeight, gradBias, w, scale)
  local x, added = base.batch(input, #w.stride + 2, name)
  local g = added and M.unsqueeze(gradOutput, 1) or gradOutput
  accumulate(gradWeight, I.native_conv_grad_weight(x, g, sizes(gradWeight), w.stride, w.pad,
    w.dilation, 1), scale)
  if gradBias then accumulate(gradBias, channel_sums(g), scale) end
end

out.SpatialFullConvolution_updateOutput = function(input, output, weight, bias, _, _, _, _, dW, dH,
    padW, padH, adjW, adjH)
  return full_forward("SpatialFullConvolution", input, output, weight, bias,
    window(list(dH, dW), list(padH, padW)), list(adjH, adjW))
end

out.SpatialFullConvolution_updateGradInput = function(_, gradOutput, gradInput, weight, _, _, _, dW,
    dH, padW, padH)
  return full_grad_input("SpatialFullConvolution", gradOutput, gradInput, weight,
    window(list(dH, dW), list(padH, padW)))
end

out.SpatialFullConvolution_accGradParameters = function(input, gradOutput, gradWeight, gradBias, _,
    _, _, _, dW, dH, padW, padH, _, _, scale)
  return full_grad_parameters("SpatialFullConvolution", input, gradOutput, gradWeight, gradBias,
    window(list(dH, dW), list(padH, padW)), scale)
end

out.SpatialFullDilatedConvolution_updateOutput = function(input, output, weight, bias, _, _, _, _,
    dW, dH, padW, padH, dilationW, dilationH, adjW, adjH)
  return full_forward("SpatialFullDilatedConvolution", input, output, weight, bias,
    window(list(dH, dW), list(padH, padW), list(dilationH, dilationW)), list(adjH, adjW))
end

out.SpatialFullDilatedConvolution_updateGradInput = function(_, gradOutput, gradInput, weight, _, _,
    _, dW, dH, padW, padH, dilationW, dilationH)
  return full_grad_input("SpatialFullDilatedConvolution", gradOutput, gradInput, weight,
    window(list(dH, dW), list(padH, padW), list(dilationH, dilationW)))
end

out.SpatialFullDilatedConvolution_accGradParameters = function(input, gradOutput, gradWeight,
    gradBias, _, _, _, _, dW, dH, padW, padH, dilationW, dilationH, _, _, scale)
  return full_grad_parameters("SpatialFullDilatedConvolution", input, gradOutput, gradWeight,
    gradBias,
    window(list(dH, dW), list(padH, padW), list(dilationH, dilationW)), scale)
end

out.VolumetricFullConvolution_updateOutput = function(input, output, weight, bias, _, _, dT, dW, dH,
    pT, pW, pH, aT, aW, aH)
  return full_forward("VolumetricFullConvolution", input, output, weight, bias,
    window(list(dT, dH, dW), list(pT, pH, pW)), list(aT, aH, aW))
end

out.VolumetricFullConvolution_updateGradInput = function(_, gradOutput, gradInput, weight, _, _, dT,
    dW, dH, pT, pW, pH)
  return full_grad_input("VolumetricFullConvolution", gradOutput, gradInput, weight,
    window(list(dT, dH, dW), list(pT, pH, pW)))
end

out.VolumetricFullConvolution_accGradParameters = function(input, gradOutput, gradWeight, gradBias,
    _, _, dT, dW, dH, pT, pW, pH, _, _, _, scale)
  return full_grad_parameters("VolumetricFullConvolution", input, gradOutput, gradWeight, gradBias,
    window(list(dT, dH, dW), list(pT, pH, pW)), scale)
end

out.VolumetricFullDilatedConvolution_updateOutput = function(input, output, weight, bias, _, _, dT,
    dW, dH, pT, pW, pH, dilationT, dilationW, dilationH, aT, aW, aH)
  return full_forward("VolumetricFullDilatedConvolution", input, output, weight, bias,
    window(list(dT, dH, dW), list(pT, pH, pW), list(dilationT, dilationH, dilationW)),
    list(aT, aH, aW))
end

out.VolumetricFullDilatedConvolution_updateGradInput = function(_, gradOutput, gradInput, weight, _,
    _, dT, dW, dH, pT, pW, pH, dilationT, dilationW, dilationH)
  return full_grad_input("VolumetricFullDilatedConvolution", gradOutput, gradInput, weight,
    window(list(dT, dH, dW), list(pT, pH, pW), list(dilationT, dilationH, dilationW)))
end

out.VolumetricFullDilatedConvolution_accGradParameters = function(input, gradOutput, gradWeight,
    gradBias, _, _, dT, dW, dH, pT, pW, pH, dilationT, dilationW, dilationH, _, _, _, scale)
  return full_grad_parameters("VolumetricFullDilatedConvolution", input, gradOutput, gradWeight,
    gradBias, window(list(dT, dH, dW), list(pT, pH, pW), list(dilationT, dilationH, dilationW)),
    scale)
end

-- --- of single channels --------------------------------------------------------------------------

-- Weights (filters, channels, ...) with the filters of each channel one after another.
local function by_channel(weight, kernel)
  local turned = M.transpose(weight, 1, 2)
  return M.reshape(turned, { -1, 1, table.unpack(kernel) })
end

out.SpatialDepthWiseConvolution_updateOutput = function(input, output, weight, bias, _, _, kW, kH,
    dW, dH, padW, padH)
  local kernel = list(kH, kW)
  return forward("SpatialDepthWiseConvolution", input, output, by_channel(weight, kernel),
    bias and M.reshape(M.transpose(bias, 1, 2), { -1 }), window(list(dH, dW), list(padH, padW)),
      nil,
    M.size(weight, 2))
end

out.SpatialDepthWiseConvolution_updateGradInput = function(input, gradOutput, gradInput, weight, _,
    _, kW, kH, dW, dH, padW, padH)
  return grad_input("SpatialDepthWiseConvolution", input, gradOutput, gradInput,
    by_channel(weight, list(kH, kW)), window(list(dH, dW), list(padH, padW)), nil, M.size(weight,
      2))
end

out.SpatialDepthWiseConvolution_accGradParameters = function(input, gradOutput, gradWeight,
    gradBias, _, _, kW, kH, dW, dH, padW, padH, scale)
  local count, channels = M.size(gradWeight, 1), M.size(gradWeight, 2)
  local turned = base.zeros(gradWeight, { channels * count, 1, base.whole(kH), base.whole(kW) })
  local sums = gradBias and base.zeros(gradBias, { channels * count })
  grad_parameters("SpatialDepthWiseConvolution", input, gradOutput, turned, sums,
    window(list(dH, dW), list(padH, padW)), nil, scale, channels)
  M.add_(gradWeight, M.transpose(M.view(turned, { channels, count, base.whole(kH),
    base.whole(kW) }),
    1, 2))
  if gradBias then M.add_(gradBias, M.transpose(M.view(sums, { channels, count }), 1, 2)) end
end

-- --- sequences -----------------------------------------------------------------------------------

-- (n, frames, features) with a dimension for features before that of frames, and back.
local function turned(x) return M.transpose(x, M.dim(x) - 1, M.dim(x)) end

-- A weight (out, kW * in) as filters (out, in, kW).
local function temporal_filters(weight, kW)
  local kernel = base.whole(kW)
  return M.transpose(M.view(weight, { M.size(weight, 1), kernel, -1 }), 2, 3)
end

local function check_frames(input, kW, name)
  local frames = M.size(input, M.dim(input) - 1)
  if M.dim(input) < 2 or frames < kW then
    base.fail("%s: at least %d frames are expected, got %d", name, kW, frames)
  end
end

out.TemporalConvolution_updateOutput = function(input, output, weight, bias, kW, dW, features)
  check_frames(input, kW, "TemporalConvolution")
  if M.size(input, M.dim(input)) ~= features then
    base.fail("TemporalConvolution: frames of size %d are expected, got %d", features,
      M.size(input, M.dim(input)))
  end
  local x, added = base.batch(input, 3, "TemporalConvolution")
  local y = I.native_conv(turned(x), temporal_filters(weight, kW), bias, list(dW), { 0 }, { 1 }, 1)
  return base.unbatch(output, M.contiguous(turned(y)), added)
end

out.TemporalConvolution_updateGradInput = function(input, gradOutput, gradInput, weight, kW, dW)
  local x, added = base.batch(turned(input), 3, "TemporalConvolution")
  local g = base.batch(turned(gradOutput), 3, "TemporalConvolution")
  local y = I.native_conv_transpose(g, temporal_filters(weight, kW), nil, sizes(x), list(dW), { 0 },
    { 1 }, 1)
  return base.unbatch(gradInput, M.contiguous(turned(y)), added)
end

out.TemporalConvolution_accGradParameters = function(input, gradOutput, gradWeight, gradBias, kW,
    dW, scale)
  local x = base.batch(turned(input), 3, "TemporalConvolution")
  local g = base.batch(turned(gradOutput), 3, "TemporalConvolution")
  local shape = { M.size(g, 2), M.size(x, 2), base.whole(kW) }
  local y = I.native_conv_grad_weight(g, x, shape, list(dW), { 0 }, { 1 }, 1)
  M.add_(gradWeight, M.reshape(M.transpose(y, 2, 3), sizes(gradWeight)), scale or 1)
  accumulate(gradBias, channel_sums(g), scale)
end

-- Frames as the second dimension unless features are it already.
local function rows(x, features_first) return features_first and x or turned(x) end

local function row_filters(weight)
  return M.reshape(weight, { M.size(weight, 1), 1, M.size(weight, M.dim(weight)) })
end

out.TemporalRowConvolution_updateOutput = function(input, output, weight, bias, _, _, _, dW, padW,
    features_first)
  local x, added = base.batch(rows(input, features_first), 3, "TemporalRowConvolution")
  local y = I.native_conv(x, row_filters(weight), bias, list(dW), list(padW), { 1 },
    M.size(weight, 1))
  return base.unbatch(output, M.contiguous(rows(y, features_first)), added)
end

out.TemporalRowConvolution_updateGradInput = function(input, gradOutput, gradInput, weight, _, _, _,
    dW, padW, features_first)
  local x, added = base.batch(rows(input, features_first), 3, "TemporalRowConvolution")
  local g = base.batch(rows(gradOutput, features_first), 3, "TemporalRowConvolution")
  local y = I.native_conv_transpose(g, row_filters(weight), nil, sizes(x), list(dW), list(padW),
    { 1 }, M.size(weight, 1))
  return base.unbatch(gradInput, M.contiguous(rows(y, features_first)), added)
end

out.TemporalRowConvolution_accGradParameters = function(input, gradOutput, gradWeight, gradBias, _,
    _, _, dW, padW, features_first, scale)
  local x = base.batch(rows(input, features_first), 3, "TemporalRowConvolution")
  local g = base.batch(rows(gradOutput, features_first), 3, "TemporalRowConvolution")
  local y = I.native_conv_grad_weight(g, x, sizes(row_filters(gradWeight)), list(dW), list(padW),
    { 1 }, M.size(gradWeight, 1))
  accumulate(gradWeight, M.reshape(y, sizes(gradWeight)), scale)
  accumulate(gradBias, channel_sums(g), scale)
end

return out
