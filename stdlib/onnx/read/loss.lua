-- stdlib/onnx/read/loss.lua: ONNX's losses over classes, which count from 0.

local F = require "moonlet.nn.functional"
local ml = require "moonlet"

local read = {}

local function negative_log_likelihood(n, x, target, weight)
  local ignored = n.attributes.ignore_index
  target = target:to "int64"
  local kept = target + target:ge(0):to(target.dtype)
  return F.nll_loss(x, kept, { weight = weight, reduction = n.attributes.reduction or "mean",
    ignore_index = ignored and (ignored >= 0 and ignored + 1 or ignored) or -100 })
end

read.NegativeLogLikelihoodLoss = negative_log_likelihood

function read.SoftmaxCrossEntropyLoss(n, x, target, weight)
  local logs = ml.log_softmax(x, 2)
  return negative_log_likelihood(n, logs, target, weight), logs
end

return read
