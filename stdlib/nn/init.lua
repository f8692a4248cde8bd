-- stdlib/nn/init.lua: nn.init: fills tensors with starting values, in place and outside the tape.

local ml = require "moonlet"
local options = require "moonlet.options"
local fail = options.fail

local init = {}

local function check(where, tensor)
  if not ml.is_tensor(tensor) then fail("%s: a tensor is wanted, got %s", where, type(tensor)) end
  return tensor
end

--- The sizes of the sums that a weight takes part in: inputs and outputs per element. The weight
--- is `(out, in, ...)`, of at least two dimensions.
---@param tensor Tensor
---@return integer fan_in
---@return integer fan_out
function init.fans(tensor)
  local shape = check("init.fans", tensor).shape
  if #shape < 2 then
    fail("init: fan in and fan out want at least 2 dimensions, got shape %s", tostring(shape))
  end
  local field = 1
  for i = 3, #shape do field = field * shape[i] end
  return shape[2] * field, shape[1] * field
end

--- Draws evenly from `low` (0) to `high` (1).
function init.uniform_(tensor, low, high)
  local _ <close> = ml.no_grad()
  return check("init.uniform_", tensor):uniform_(low or 0, high or 1)
end

--- Draws from the normal distribution.
function init.normal_(tensor, mean, std)
  local _ <close> = ml.no_grad()
  return check("init.normal_", tensor):normal_(mean or 0, std or 1)
end

--- Draws from the normal distribution cut off at `low` (-2) and `high` (2), which must not lie far
--- out in its tails.
function init.trunc_normal_(tensor, mean, std, low, high)
  mean, std, low, high = mean or 0, std or 1, low or -2, high or 2
  check("init.trunc_normal_", tensor)
  if not (low < high and low < mean + 3 * std and high > mean - 3 * std) then
    fail("init.trunc_normal_: no part of the distribution lies from %g to %g", low, high)
  end
  local _ <close> = ml.no_grad()
  tensor:normal_(mean, std)
  local kMostDraws = 200
  for _ = 1, kMostDraws do
    local outside = tensor:lt(low):logical_or(tensor:gt(high))
    if not outside:any():item() then break end
    local fresh = ml.empty_like(tensor):normal_(mean, std)
    tensor:copy_(ml.where(outside, fresh, tensor))
  end
  return tensor:copy_(tensor:clamp(low, high))
end

--- Sets every element to `value`.
function init.constant_(tensor, value)
  local _ <close> = ml.no_grad()
  return check("init.constant_", tensor):fill_(value)
end

--- Sets every element to 0.
function init.zeros_(tensor) return init.constant_(tensor, 0) end

--- Sets every element to 1.
function init.ones_(tensor) return init.constant_(tensor, 1) end

--- Makes a matrix the identity.
function init.eye_(tensor)
  local shape = check("init.eye_", tensor).shape
  if #shape ~= 2 then fail("init.eye_: a matrix is wanted, got shape %s", tostring(shape)) end
  local _ <close> = ml.no_grad()
  return tensor:copy_(ml.eye(shape[1], shape[2], { dtype = tensor.dtype, device = tensor.device }))
end

local kGains = { linear = 1, conv1d = 1, conv2d = 1, sigmoid = 1, tanh = 5 / 3,
  relu = math.sqrt(2), selu = 3 / 4 }

--- The factor by which weights before `nonlinearity` are scaled; `a` is the slope of leaky_relu.
---@param nonlinearity string
---@param a? number
---@return number
function init.calculate_gain(nonlinearity, a)
  if nonlinearity == "leaky_relu" then
    a = a or 0.01
    return math.sqrt(2 / (1 + a * a))
  end
  return kGains[nonlinearity] or fail("init.calculate_gain: unknown nonlinearity '%s'",
    tostring(nonlinearity))
end

--- Glorot and Bengio, 2010, evenly distributed.
function init.xavier_uniform_(tensor, gain)
  local fan_in, fan_out = init.fans(tensor)
  local bound = (gain or 1) * math.sqrt(6 / (fan_in + fan_out))
  return init.uniform_(tensor, -bound, bound)
end

--- Glorot and Bengio, 2010, normally distributed.
function init.xavier_normal_(tensor, gain)
  local fan_in, fan_out = init.fans(tensor)
  return init.normal_(tensor, 0, (gain or 1) * math.sqrt(2 / (fan_in + fan_out)))
end

local function kaiming_std(where, tensor, given)
  local o = options.read(where, given, { a = 0, mode = "fan_in", nonlinearity = "leaky_relu" })
  local fan_in, fan_out = init.fans(tensor)
  if o.mode ~= "fan_in" and o.mode ~= "fan_out" then
    fail("%s: 'mode' must be fan_in or fan_out, got %s", where, tostring(o.mode))
  end
  local fan = math.max(o.mode == "fan_in" and fan_in or fan_out, 1)
  return init.calculate_gain(o.nonlinearity, o.a) / math.sqrt(fan)
end

--- He et al., 2015, evenly distributed. Options: `a` (slope), `mode`, `nonlinearity`.
function init.kaiming_uniform_(tensor, given)
  local bound = math.sqrt(3) * kaiming_std("init.kaiming_uniform_", tensor, given)
  return init.uniform_(tensor, -bound, bound)
end

--- He et al., 2015, normally distributed. Options: `a` (slope), `mode`, `nonlinearity`.
function init.kaiming_normal_(tensor, given)
  return init.normal_(tensor, 0, kaiming_std("init.kaiming_normal_", tensor, given))
end

return options.namespace("nn.init", init)
