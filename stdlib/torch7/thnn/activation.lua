-- stdlib/torch7/thnn/activation.lua: THNN's functions of elements, and softmax: a forward formula
-- and
-- the gradient, of the input or of the result, by the core's gradient ops.

local base = require "moonlet.torch7.thnn.base"

local M, I, give, like, in_place = base.M, base.I, base.give, base.like, base.in_place

local out = {}

-- f(input) and grad(gradOutput, input, output); the numbers of a call follow.
local function define(name, f, grad)
  out[name .. "_updateOutput"] = function(input, output, ...)
    return give(output, f(input, ...))
  end
  out[name .. "_updateGradInput"] = function(input, gradOutput, gradInput, ...)
    return give(gradInput, grad(like(input, gradOutput, name), input, ...))
  end
end

define("Abs", M.abs, function(g, x) return M.mul(g, M.sign(x)) end)
define("HardShrink", M.hardshrink, I.hardshrink_grad_x)
define("LogSigmoid", function(x) return M.logsigmoid(x) end,
  function(g, x) return I.logsigmoid_grad_x(g, x) end)
define("SoftShrink", M.softshrink, I.hardshrink_grad_x)
define("Square", function(x) return M.mul(x, x) end,
  function(g, x) return M.mul_(M.mul(g, x), 2) end)
define("Sigmoid", M.sigmoid, function(g, _, y) return I.sigmoid_grad_x(g, y) end)
define("Tanh", M.tanh, function(g, _, y) return I.tanh_grad_x(g, y) end)
define("SoftPlus", M.softplus, function(g, x, _, beta, threshold)
  return I.softplus_grad_x(g, x, beta, threshold)
end)
define("Sqrt", function(x) return M.sqrt(x) end, function(g, _, y)
  return M.masked_fill(M.mul_(M.div(g, y), 0.5), M.eq(y, 0), 0)
end)

out.GatedLinear_updateOutput = function(input, output, dim)
  dim = base.whole(dim)
  if M.size(input, dim) % 2 ~= 0 then
    base.fail("GatedLinear: the size of dimension %d is expected to be even, got %d", dim,
      M.size(input, dim))
  end
  return give(output, M.glu(input, dim))
end

out.GatedLinear_updateGradInput = function(input, gradOutput, gradInput, dim)
  dim = base.whole(dim)
  local half = M.size(input, dim) // 2
  local a, b = M.narrow(input, dim, 1, half), M.narrow(input, dim, half + 1, half)
  local gate = M.sigmoid(b)
  gradInput:resizeAs(input)
  M.copy_(M.narrow(gradInput, dim, 1, half), M.mul(gradOutput, gate))
  M.copy_(M.narrow(gradInput, dim, half + 1, half), I.sigmoid_grad_x(M.mul(gradOutput, a), gate))
end

-- --- with an option to change the input ----------------------------------------------------------

-- grad(gradOutput, input, ...) is also that of a changed input, the result.
local function define_in_place(name, f, grad, count)
  out[name .. "_updateOutput"] = function(input, output, ...)
    local y = f(input, ...)
    if (select(count + 1, ...)) then return in_place(input, output, y) end
    return give(output, y)
  end
  out[name .. "_updateGradInput"] = function(input, gradOutput, gradInput, ...)
    local g = grad(like(input, gradOutput, name), input, ...)
    if (select(count + 1, ...)) then return in_place(gradOutput, gradInput, g) end
    return give(gradInput, g)
  end
end

define_in_place("HardTanh", function(x, least, most) return M.hardtanh(x, least, most) end,
  function(g, x, least, most) return I.hardtanh_grad_x(g, x, least, most) end, 2)
define_in_place("LeakyReLU", function(x, negval) return M.leaky_relu(x, negval) end,
  function(g, x, negval) return I.leaky_relu_grad_x(g, x, negval) end, 1)
define_in_place("Threshold", function(x, threshold, value)
  if threshold == 0 and value == 0 then return M.relu(x) end
  return M.threshold(x, threshold, value)
end, function(g, x, threshold) return I.threshold_grad_x(g, x, threshold) end, 2)

out.ELU_updateOutput = function(input, output, alpha, inplace)
  local y = M.elu(input, alpha)
  if inplace then return in_place(input, output, y) end
  return give(output, y)
end

out.ELU_updateGradInput = function(input, gradOutput, gradInput, output, alpha, inplace)
  local g = like(input, gradOutput, "ELU")
  if not inplace then return give(gradInput, I.elu_grad_x(g, input, alpha)) end
  -- Of the result y, as the input is gone: y + alpha where it is not positive.
  local factor = M.masked_fill(M.add(output, alpha), M.gt(output, 0), 1)
  return in_place(gradOutput, gradInput, M.mul(g, factor))
end

-- --- softmax -------------------------------------------------------------------------------------

-- The dimension of the classes: the first of vectors and of images without a batch.
local CLASSES = { 1, 2, 1, 2 }

local function dimension(x, name)
  return CLASSES[M.dim(x)]
    or base.fail("%s: a tensor of 1 to 4 dimensions is expected, got %d", name, M.dim(x))
end

for name, op in pairs { SoftMax = "softmax", LogSoftMax = "log_softmax" } do
  local f, grad = M[op], I[op .. "_grad_x"]
  out[name .. "_updateOutput"] = function(input, output)
    return give(output, f(input, dimension(input, name)))
  end
  out[name .. "_updateGradInput"] = function(input, gradOutput, gradInput, output)
    return give(gradInput, grad(like(output, gradOutput, name), output, dimension(input, name)))
  end
end

-- --- weights that are learned or drawn ---------------------------------------------------------

-- The weight in a shape that broadcasts over x, and the dimension of its elements.
local function weight_over(x, weight, planes)
  if planes == 0 then return M.reshape(weight, { 1 }), nil end
  local dim = dimension(x, "PReLU")
  local shape = {}
  for i = 1, M.dim(x) do shape[i] = i == dim and base.whole(planes) or 1 end
  return M.reshape(weight, shape), dim
end

out.PReLU_updateOutput = function(input, output, weight, planes)
  return give(output, I.prelu_by(input, (weight_over(input, weight, planes))))
end

out.PReLU_updateGradInput = function(input, gradOutput, gradInput, weight, planes)
  local g = like(input, gradOutput, "PReLU")
  return give(gradInput, I.prelu_by_grad_x(g, input, (weight_over(input, weight, planes))))
end

out.PReLU_accGradParameters = function(input, gradOutput, _, weight, gradWeight, _, _, planes,
    scale)
  local parts = M.mul_(M.clamp_max(input, 0), like(input, gradOutput, "PReLU"))
  local _, dim = weight_over(input, weight, planes)
  local dims = {}
  for i = 1, M.dim(input) do
    if i ~= dim then dims[#dims + 1] = i end
  end
  local sum = #dims == 0 and parts or M.sum(parts, dims)
  return M.add_(gradWeight, M.reshape(sum, base.sizes(gradWeight)), scale or 1)
end

out.RReLU_updateOutput = function(input, output, noise, lower, upper, train, inplace)
  local y
  if train then
    noise:resizeAs(input):uniform(lower, upper)
    M.masked_fill_(noise, M.gt(input, 0), 1)
    y = M.mul(input, noise)
  else
    y = M.leaky_relu(input, (lower + upper) / 2)
  end
  if inplace then return in_place(input, output, y) end
  return give(output, y)
end

out.RReLU_updateGradInput = function(input, gradOutput, gradInput, noise, lower, upper, train,
    inplace)
  local g = like(input, gradOutput, "RReLU")
  if train and upper - lower > 1e-6 then
    g = M.mul(g, noise)
  else
    g = I.leaky_relu_grad_x(g, input, (lower + upper) / 2)
  end
  if inplace then return in_place(gradOutput, gradInput, g) end
  return give(gradInput, g)
end

return out
