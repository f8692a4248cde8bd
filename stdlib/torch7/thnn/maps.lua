-- stdlib/torch7/thnn/maps.lua: THNN's convolutions with filters of their own for pairs of planes or
-- for positions: SpatialConvolutionMap, SpatialFullConvolutionMap and SpatialConvolutionLocal.

local base = require "moonlet.torch7.thnn.base"

local M, I, list, sizes = base.M, base.I, base.list, base.sizes

local out = {}

-- --- tables of connections ---------------------------------------------------------------------

-- The row of each pair of planes among all pairs, of `inner` planes for each outer one.
local function positions(connections, outer, inner, count)
  local at = M.to(connections, "int64")
  local from, to = M.select(at, 2, outer), M.select(at, 2, inner)
  return M.add(M.mul(M.sub(from, 1), base.whole(count)), to)
end

-- Filters for all pairs of planes, zero where there is no connection.
local function dense(weight, at, first, second)
  local kH, kW = M.size(weight, 2), M.size(weight, 3)
  local all = base.zeros(weight, { first * second, kH * kW })
  M.index_add_(all, 1, at, M.reshape(weight, { M.size(weight, 1), kH * kW }))
  return M.view(all, { first, second, kH, kW })
end

local function add_connected(gradWeight, all, at, scale)
  local flat = M.reshape(all, { M.size(all, 1) * M.size(all, 2), -1 })
  M.add_(gradWeight, M.reshape(M.index_select(flat, 1, at), sizes(gradWeight)), scale or 1)
end

local ZERO, ONE = { 0, 0 }, { 1, 1 }

-- The input as a batch of the planes that the table connects, which may be the first of more; and
-- whether a batch dimension was added.
local function connected(name, input, planes)
  local x, added = base.batch(input, 4, name)
  planes = base.whole(planes)
  if M.size(x, 2) < planes then
    base.fail("%s: an input of at least %d planes is expected, got %d", name, planes, M.size(x, 2))
  end
  return M.narrow(x, 2, 1, planes), added
end

-- The gradient y of the connected planes in r, that of the others being zero.
local function unconnected(r, y, input, added)
  local planes = M.size(input, added and 1 or 2)
  if M.size(y, 2) < planes then
    local shape = sizes(y)
    shape[2] = planes
    local all = base.zeros(y, shape)
    M.copy_(M.narrow(all, 2, 1, M.size(y, 2)), y)
    y = all
  end
  return base.unbatch(r, y, added)
end

out.SpatialConvolutionMap_updateOutput = function(input, output, weight, bias, connections, inputs,
    outputs, dW, dH)
  local x, added = connected("SpatialConvolutionMap", input, inputs)
  local filters = dense(weight, positions(connections, 2, 1, inputs), outputs, inputs)
  local y = I.native_conv(x, filters, bias, list(dH, dW), ZERO, ONE, 1)
  return base.unbatch(output, y, added)
end

out.SpatialConvolutionMap_updateGradInput = function(input, gradOutput, gradInput, weight, _,
    connections, inputs, outputs, dW, dH)
  local x, added = connected("SpatialConvolutionMap", input, inputs)
  local g = base.batch(gradOutput, 4, "SpatialConvolutionMap")
  local filters = dense(weight, positions(connections, 2, 1, inputs), outputs, inputs)
  local y = I.native_conv_transpose(g, filters, nil, sizes(x), list(dH, dW), ZERO, ONE, 1)
  return unconnected(gradInput, y, input, added)
end

out.SpatialConvolutionMap_accGradParameters = function(input, gradOutput, gradWeight, gradBias,
    connections, inputs, outputs, dW, dH, scale)
  local x = connected("SpatialConvolutionMap", input, inputs)
  local g = base.batch(gradOutput, 4, "SpatialConvolutionMap")
  local shape = { outputs, inputs, M.size(gradWeight, 2), M.size(gradWeight, 3) }
  local all = I.native_conv_grad_weight(g, x, shape, list(dH, dW), ZERO, ONE, 1)
  add_connected(gradWeight, all, positions(connections, 2, 1, inputs), scale)
  M.add_(gradBias, M.sum(g, { 1, 3, 4 }), scale or 1)
end

out.SpatialFullConvolutionMap_updateOutput = function(input, output, weight, bias, connections,
    inputs, outputs, dW, dH)
  local x, added = connected("SpatialFullConvolutionMap", input, inputs)
  local filters = dense(weight, positions(connections, 1, 2, outputs), inputs, outputs)
  local step = list(dH, dW)
  local shape = { M.size(x, 1), outputs, (M.size(x, 3) - 1) * step[1] + M.size(weight, 2),
    (M.size(x, 4) - 1) * step[2] + M.size(weight, 3) }
  local y = I.native_conv_transpose(x, filters, bias, shape, step, ZERO, ONE, 1)
  return base.unbatch(output, y, added)
end

out.SpatialFullConvolutionMap_updateGradInput = function(input, gradOutput, gradInput, weight, _,
    connections, inputs, outputs, dW, dH)
  local g, added = base.batch(gradOutput, 4, "SpatialFullConvolutionMap")
  local filters = dense(weight, positions(connections, 1, 2, outputs), inputs, outputs)
  local y = I.native_conv(g, filters, nil, list(dH, dW), ZERO, ONE, 1)
  return unconnected(gradInput, y, input, added)
end

out.SpatialFullConvolutionMap_accGradParameters = function(input, gradOutput, gradWeight, gradBias,
    connections, inputs, outputs, dW, dH, scale)
  local x = connected("SpatialFullConvolutionMap", input, inputs)
  local g = base.batch(gradOutput, 4, "SpatialFullConvolutionMap")
  local shape = { inputs, outputs, M.size(gradWeight, 2), M.size(gradWeight, 3) }
  local all = I.native_conv_grad_weight(x, g, shape, list(dH, dW), ZERO, ONE, 1)
  add_connected(gradWeight, all, positions(connections, 1, 2, outputs), scale)
  M.add_(gradBias, M.sum(g, { 1, 3, 4 }), scale or 1)
end

-- --- filters of positions ------------------------------------------------------------------------

-- Weights (h, w, out, in, kH, kW) as a matrix for each position: (positions, out, elements of a
-- window).
local function matrices(weight)
  local s = sizes(weight)
  if #s == 3 then return weight end
  return M.reshape(weight, { s[1] * s[2], s[3], s[4] * s[5] * s[6] })
end

-- Windows as (positions, elements, n).
local function columns(x, kernel, pad, stride)
  return M.permute(M.im2col(x, kernel, ONE, pad, stride), { 3, 2, 1 })
end

-- (n, planes, h, w) as (positions, planes, n).
local function by_position(g) return M.permute(M.flatten(g, 3), { 3, 2, 1 }) end

out.SpatialConvolutionLocal_updateOutput = function(input, output, weight, bias, _, _, kW, kH, dW,
    dH, padW, padH, _, _, width, height)
  local x, added = base.batch(input, 4, "SpatialConvolutionLocal")
  local y = M.bmm(matrices(weight), columns(x, list(kH, kW), list(padH, padW), list(dH, dW)))
  y = M.reshape(M.permute(y, { 3, 2, 1 }), { M.size(x, 1), -1, base.whole(height),
    base.whole(width) })
  if bias then y = M.add(y, bias) end
  return base.unbatch(output, y, added)
end

out.SpatialConvolutionLocal_updateGradInput = function(input, gradOutput, gradInput, weight, _, _,
    kW, kH, dW, dH, padW, padH)
  local x, added = base.batch(input, 4, "SpatialConvolutionLocal")
  local g = base.batch(gradOutput, 4, "SpatialConvolutionLocal")
  local windows = M.permute(M.bmm(M.transpose(matrices(weight), 2, 3), by_position(g)), { 3, 2, 1 })
  local y = M.col2im(M.contiguous(windows), { M.size(x, 3), M.size(x, 4) }, list(kH, kW), ONE,
    list(padH, padW), list(dH, dW))
  return base.unbatch(gradInput, y, added)
end

out.SpatialConvolutionLocal_accGradParameters = function(input, gradOutput, gradWeight, gradBias, _,
    _, kW, kH, dW, dH, padW, padH, _, _, _, _, scale)
  local x = base.batch(input, 4, "SpatialConvolutionLocal")
  local g = base.batch(gradOutput, 4, "SpatialConvolutionLocal")
  local windows = columns(x, list(kH, kW), list(padH, padW), list(dH, dW))
  local y = M.bmm(by_position(g), M.transpose(windows, 2, 3))
  M.add_(gradWeight, M.reshape(y, sizes(gradWeight)), scale or 1)
  if gradBias then M.add_(gradBias, M.sum(g, { 1 }), scale or 1) end
end

return out
