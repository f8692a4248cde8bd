-- stdlib/torch7/thnn/criterion.lua: THNN's losses: `X_updateOutput` gives the loss as the only
-- element of its output, `X_updateGradInput` the gradient of the input.

local base = require "moonlet.torch7.thnn.base"

local M, I, give, like, number, share = base.M, base.I, base.give, base.like, base.number,
  base.share

local out = {}

local function total(x) return M.item(M.sum(x)) end

-- --- of pairs of elements ------------------------------------------------------------------------

-- f(x, t, ...) gives the elements of the loss, grad(x, t, ...) those of the gradient.
local function define(name, f, grad)
  out[name .. "_updateOutput"] = function(input, target, output, average, ...)
    local t = like(input, target, name)
    return number(output, total(f(input, t, ...)) * share(input, average))
  end
  out[name .. "_updateGradInput"] = function(input, target, gradInput, average, ...)
    local g = grad(input, like(input, target, name), ...)
    local part = share(input, average)
    if part ~= 1 then M.mul_(g, part) end
    return give(gradInput, g)
  end
end

define("AbsCriterion", I.l1_loss_each, function(x, t) return M.sign_(M.sub(x, t)) end)
define("MSECriterion", I.mse_loss_each, function(x, t) return M.mul_(M.sub(x, t), 2) end)
define("SmoothL1Criterion", function(x, t) return I.smooth_l1_loss_each(x, t, 1) end,
  function(x, t) return M.clamp_(M.sub(x, t), -1, 1) end)
define("SoftMarginCriterion", I.soft_margin_loss_each, function(x, t)
  return M.neg_(M.mul_(M.sigmoid_(M.neg_(M.mul(x, t))), t))
end)
define("MarginCriterion", function(x, t, margin)
  return M.clamp_min_(M.add_(M.neg_(M.mul(x, t)), margin or 1), 0)
end, function(x, t, margin)
  return M.masked_fill_(M.neg(t), M.ge(M.mul(x, t), margin or 1), 0)
end)
define("DistKLDivCriterion", function(x, t)
  t = M.clamp_min(t, 0)
  return M.sub_(M.xlogy(t, t), M.mul(t, x))
end, function(_, t) return M.neg_(M.clamp_min(t, 0)) end)

-- Keeps logarithms from zero.
local EPS = 1e-12

local function weighted(x, weights)
  if not weights then return x end
  return M.mul_(x, like(x, weights, "BCECriterion"))
end

define("BCECriterion", function(x, t, weights)
  local least, most = M.item(M.amin(x)), M.item(M.amax(x))
  if not (least >= 0 and most <= 1) then
    base.fail("BCECriterion: inputs from 0 to 1 are expected, got %g to %g", least, most)
  end
  local rest = M.add_(M.neg(x), 1)
  local loss = M.mul_(M.log_(M.add(x, EPS)), t)
  M.add_(loss, M.mul_(M.log_(M.add_(rest, EPS)), M.add_(M.neg(t), 1)))
  return M.neg_(weighted(loss, weights))
end, function(x, t, weights)
  local below = M.mul_(M.add_(M.neg(x), 1 + EPS), M.add(x, EPS))
  return weighted(M.div_(M.sub(x, t), below), weights)
end)

out.L1Cost_updateOutput = function(input, output)
  return number(output, total(M.abs(input)))
end

out.L1Cost_updateGradInput = function(input, _, gradInput)
  return give(gradInput, M.sign(input))
end

-- --- of classes ----------------------------------------------------------------------------------

-- The reduction "sum" of the core's op, whose mean has no value without a weight.
local SUM = 2

local function rows(input, name)
  local dims = M.dim(input)
  if dims == 2 then return input, false end
  if dims == 1 then return M.unsqueeze(input, 1), true end
  base.fail("%s: a vector or a matrix is expected, got %d dimensions", name, dims)
end

local function one_target(target, count, name)
  if M.dim(target) > 1 or M.numel(target) ~= count then
    base.fail("%s: a target for each of %d rows is expected", name, count)
  end
  return target
end

local function check_weights(weights, classes, name)
  if weights and M.numel(weights) ~= classes then
    base.fail("%s: weights of all %d classes are expected, got %d", name, classes, M.numel(weights))
  end
end

out.ClassNLLCriterion_updateOutput = function(input, target, output, average, weights, sum_weights,
    ignored)
  local x = rows(input, "ClassNLLCriterion")
  one_target(target, M.size(x, 1), "ClassNLLCriterion")
  check_weights(weights, M.size(x, 2), "ClassNLLCriterion")
  local loss, sum = I.native_nll_loss(x, target, weights, SUM, base.whole(ignored or -100))
  loss, sum = M.item(loss), M.item(sum)
  number(sum_weights, sum)
  return number(output, average and sum ~= 0 and loss / sum or loss)
end

out.ClassNLLCriterion_updateGradInput = function(input, target, gradInput, average, weights,
    sum_weights, ignored)
  local x, added = rows(input, "ClassNLLCriterion")
  local sum = M.item(sum_weights)
  if sum <= 0 or sum ~= sum then return gradInput:resizeAs(input):zero() end
  local grad = base.zeros(x, { 1 })
  M.fill_(grad, average and 1 / sum or 1)
  local g = I.nll_loss_grad_log_probs(M.select(grad, 1, 1), target, weights,
    M.select(sum_weights, 1, 1), base.sizes(x), SUM, base.whole(ignored or -100))
  return base.unbatch(gradInput, g, added)
end

-- The weight of the target of each position, (n, 1, h, w).
local function weights_at(input, target, weights)
  if M.dim(input) ~= 4 or M.dim(target) ~= 3 then
    base.fail("SpatialClassNLLCriterion: inputs of 4 and targets of 3 dimensions are expected, got "
      .. "%d and %d", M.dim(input), M.dim(target))
  end
  check_weights(weights, M.size(input, 2), "SpatialClassNLLCriterion")
  local at = M.unsqueeze(target, 2)
  local flat = weights and M.reshape(M.index_select(weights, 1, M.reshape(at, { -1 })),
    base.sizes(at))
  if not flat then
    flat = base.zeros(input, base.sizes(at))
    M.fill_(flat, 1)
  end
  return at, flat
end

out.SpatialClassNLLCriterion_updateOutput = function(input, target, output, average, weights,
    sum_weights)
  local at, weight = weights_at(input, target, weights)
  local loss, sum = -total(M.mul(M.gather(input, 2, at), weight)), total(weight)
  number(sum_weights, sum)
  return number(output, average and sum ~= 0 and loss / sum or loss)
end

out.SpatialClassNLLCriterion_updateGradInput = function(input, target, gradInput, average, weights,
    sum_weights)
  local at, weight = weights_at(input, target, weights)
  local sum = M.item(sum_weights)
  gradInput:resizeAs(input):zero()
  if sum <= 0 or sum ~= sum then return gradInput end
  return M.scatter_(gradInput, 2, at, M.mul(weight, average and -1 / sum or -1))
end

-- --- margins between classes ---------------------------------------------------------------------

-- How far each class comes within the margin of the target's, zero at the target, (n, classes);
-- the targets as a column, and the weight of each row.
local function margins(input, target, weights, margin)
  local x, added = rows(input, "MultiMarginCriterion")
  local count, classes = M.size(x, 1), M.size(x, 2)
  one_target(target, count, "MultiMarginCriterion")
  check_weights(weights, classes, "MultiMarginCriterion")
  local at = M.reshape(target, { count, 1 })
  local z = M.clamp_min_(M.add_(M.sub(x, M.gather(x, 2, at)), margin or 1), 0)
  M.scatter_(z, 2, at, 0)
  local weight = weights and M.reshape(M.index_select(weights, 1, M.reshape(at, { -1 })),
    { count, 1 })
  return z, at, weight, added
end

local function row_share(z, average)
  return 1 / (M.size(z, 2) * (average and M.size(z, 1) or 1))
end

out.MultiMarginCriterion_updateOutput = function(input, target, output, average, p, weights, margin)
  local z, _, weight = margins(input, target, weights, margin)
  local parts = p == 1 and z or M.mul(z, z)
  if weight then parts = M.mul(parts, weight) end
  return number(output, total(parts) * row_share(z, average))
end

out.MultiMarginCriterion_updateGradInput = function(input, target, gradInput, average, p, weights,
    margin)
  local z, at, weight, added = margins(input, target, weights, margin)
  local g = p == 1 and M.sign(z) or M.mul(z, 2)
  M.mul_(g, row_share(z, average))
  if weight then M.mul_(g, weight) end
  M.scatter_(g, 2, at, M.neg(M.sum(g, { 2 }, true)))
  return base.unbatch(gradInput, g, added)
end

-- Targets up to the first 0 of a row, as positions that can be read and what says which count; and
-- which classes are targets, as numbers.
local function labels(input, target)
  local x, added = rows(input, "MultiLabelMarginCriterion")
  local t = added and M.unsqueeze(target, 1) or target
  local classes = M.size(x, 2)
  if M.dim(t) ~= 2 or M.size(t, 1) ~= M.size(x, 1) or M.size(t, 2) ~= classes then
    base.fail "MultiLabelMarginCriterion: targets of the input's sizes are expected"
  end
  if M.item(M.amin(t)) < 0 or M.item(M.amax(t)) > classes then
    base.fail("MultiLabelMarginCriterion: targets from 0 to %d are expected", classes)
  end
  local counts = M.cumprod(M.to(M.gt(t, 0), x.__dtype), 2)
  local at = M.clamp_min(t, 1)
  local is_target = M.clamp_max_(M.scatter_add_(base.zeros(x, base.sizes(x)), 2, at, counts), 1)
  return x, at, counts, is_target, added
end

-- For each row, target and class: how far the class comes within 1 of the target.
local function within(x, at, counts, is_target)
  local z = M.add_(M.sub(M.unsqueeze(x, 2), M.unsqueeze(M.gather(x, 2, at), 3)), 1)
  M.mul_(M.mul_(z, M.unsqueeze(counts, 3)), M.unsqueeze(M.add_(M.neg(is_target), 1), 2))
  return M.clamp_min_(z, 0)
end

out.MultiLabelMarginCriterion_updateOutput = function(input, target, output, isTarget, average)
  local x, at, counts, is_target, added = labels(input, target)
  number(output, total(within(x, at, counts, is_target)) * row_share(x, average))
  base.unbatch(isTarget, is_target, added)
  return output
end

out.MultiLabelMarginCriterion_updateGradInput = function(input, target, gradInput, _, average)
  local x, at, counts, is_target, added = labels(input, target)
  local hits = M.mul_(M.sign_(within(x, at, counts, is_target)), row_share(x, average))
  local g = M.sum(hits, { 2 })
  M.scatter_add_(g, 2, at, M.neg(M.sum(hits, { 3 })))
  return base.unbatch(gradInput, g, added)
end

return out
