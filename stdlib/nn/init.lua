-- stdlib/nn/init.lua: nn.init: fills tensors with starting values, in place and outside the tape.

local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local init = {}

-- The sizes of the sums that a weight (out, in, ...) takes part in: inputs and outputs per element.
local function fans(where, tensor)
  local shape = tensor.shape
  if #shape < 2 then
    fail("%s: fan in and fan out want at least 2 dimensions, got shape %s", where, tostring(shape))
  end
  local field = 1
  for i = 3, #shape do field = field * shape[i] end
  return shape[2] * field, shape[1] * field
end

local read_fans = signature "nn.init.fans(Tensor tensor)"

--- The sizes of the sums that a weight takes part in: inputs and outputs per element, two results.
--- The weight is `(out, in, ...)`, of at least two dimensions.
---@param tensor Tensor
---@return integer fan_in
---@return integer fan_out
function init.fans(...)
  return fans("nn.init.fans", (read_fans(...)))
end

local function uniform(tensor, low, high, generator)
  local _ <close> = ml.no_grad()
  return tensor:uniform_(low, high, { generator = generator })
end

local function normal(tensor, mean, std, generator)
  local _ <close> = ml.no_grad()
  return tensor:normal_(mean, std, { generator = generator })
end

local function constant(tensor, value)
  local _ <close> = ml.no_grad()
  return tensor:fill_(value)
end

local read_uniform = signature(
  "nn.init.uniform_(Tensor tensor, number a=0, number b=1, Generator? generator=nil)")

--- Draws evenly from `a` to `b`, in place, as all initialisers.
---@param tensor Tensor
---@param a? number (default 0)
---@param b? number (default 1)
---@param generator? Generator
---@return Tensor tensor
function init.uniform_(...)
  return uniform(read_uniform(...))
end

local read_normal = signature(
  "nn.init.normal_(Tensor tensor, number mean=0, number>=0 std=1, Generator? generator=nil)")

--- Draws from the normal distribution: `nn.init.normal_(w, { std = 0.02 })`.
---@param tensor Tensor
---@param mean? number (default 0)
---@param std? number (default 1)
---@param generator? Generator
---@return Tensor tensor
function init.normal_(...)
  return normal(read_normal(...))
end

local read_trunc_normal = signature("nn.init.trunc_normal_(Tensor tensor, number mean=0, "
  .. "number>=0 std=1, number a=-2, number b=2, Generator? generator=nil)")

--- Draws from the normal distribution cut off at `a` and `b`, which must not lie far out in its
--- tails.
---@param tensor Tensor
---@param mean? number (default 0)
---@param std? number (default 1)
---@param a? number (default -2)
---@param b? number (default 2)
---@param generator? Generator
---@return Tensor tensor
function init.trunc_normal_(...)
  local tensor, mean, std, low, high, generator = read_trunc_normal(...)
  if not (low < high and low < mean + 3 * std and high > mean - 3 * std) then
    fail("nn.init.trunc_normal_: no part of the distribution lies from %g to %g", low, high)
  end
  local _ <close> = ml.no_grad()
  tensor:normal_(mean, std, { generator = generator })
  local MAX_DRAWS = 200
  for _ = 1, MAX_DRAWS do
    local outside = tensor:lt(low):logical_or(tensor:gt(high))
    if not outside:any():item() then break end
    local fresh = ml.empty_like(tensor):normal_(mean, std, { generator = generator })
    tensor:copy_(ml.where(outside, fresh, tensor))
  end
  return tensor:copy_(tensor:clamp(low, high))
end

local read_constant = signature "nn.init.constant_(Tensor tensor, number val)"

--- Sets every element to `val`.
---@param tensor Tensor
---@param val number
---@return Tensor tensor
function init.constant_(...)
  return constant(read_constant(...))
end

local read_zeros = signature "nn.init.zeros_(Tensor tensor)"

--- Sets every element to 0.
---@param tensor Tensor
---@return Tensor tensor
function init.zeros_(...)
  return constant((read_zeros(...)), 0)
end

local read_ones = signature "nn.init.ones_(Tensor tensor)"

--- Sets every element to 1.
---@param tensor Tensor
---@return Tensor tensor
function init.ones_(...)
  return constant((read_ones(...)), 1)
end

local read_eye = signature "nn.init.eye_(Tensor tensor)"

--- Makes a matrix the identity.
---@param tensor Tensor
---@return Tensor tensor
function init.eye_(...)
  local tensor = read_eye(...)
  local shape = tensor.shape
  if #shape ~= 2 then
    fail("nn.init.eye_: a matrix is wanted, got shape %s", tostring(shape))
  end
  local _ <close> = ml.no_grad()
  return tensor:copy_(ml.eye(shape[1], shape[2], { dtype = tensor.dtype, device = tensor.device }))
end

local GAINS = { linear = 1, conv1d = 1, conv2d = 1, conv3d = 1, sigmoid = 1,
  tanh = 5 / 3,
  relu = math.sqrt(2), leaky_relu = math.sqrt(2 / (1 + 0.01 ^ 2)), selu = 3 / 4 }
local nonlinearities = {}
for name in pairs(GAINS) do nonlinearities[#nonlinearities + 1] = name end
table.sort(nonlinearities)
signature.add_choice("Nonlinearity", nonlinearities)
signature.add_choice("Fan", { "fan_in", "fan_out" })

local function gain_of(nonlinearity, slope)
  if nonlinearity == "leaky_relu" and slope then return math.sqrt(2 / (1 + slope * slope)) end
  return GAINS[nonlinearity]
end

local read_gain = signature(
  "nn.init.calculate_gain(Nonlinearity nonlinearity, number? param=nil)")

--- The factor by which weights before `nonlinearity` are scaled; `param` is the slope of
--- "leaky_relu" (0.01).
---@param nonlinearity string
---@param param? number
---@return number
function init.calculate_gain(...)
  return gain_of(read_gain(...))
end

local XAVIER = "(Tensor tensor, number gain=1, Generator? generator=nil)"
local read_xavier_uniform = signature("nn.init.xavier_uniform_" .. XAVIER)
local read_xavier_normal = signature("nn.init.xavier_normal_" .. XAVIER)

--- Glorot and Bengio, 2010, evenly distributed.
---@param tensor Tensor
---@param gain? number (default 1)
---@param generator? Generator
---@return Tensor tensor
function init.xavier_uniform_(...)
  local tensor, gain, generator = read_xavier_uniform(...)
  local fan_in, fan_out = fans("nn.init.xavier_uniform_", tensor)
  local bound = gain * math.sqrt(6 / (fan_in + fan_out))
  return uniform(tensor, -bound, bound, generator)
end

--- Glorot and Bengio, 2010, normally distributed.
---@param tensor Tensor
---@param gain? number (default 1)
---@param generator? Generator
---@return Tensor tensor
function init.xavier_normal_(...)
  local tensor, gain, generator = read_xavier_normal(...)
  local fan_in, fan_out = fans("nn.init.xavier_normal_", tensor)
  return normal(tensor, 0, gain * math.sqrt(2 / (fan_in + fan_out)), generator)
end

local KAIMING = "(Tensor tensor, number a=0, Fan mode=\"fan_in\", "
  .. "Nonlinearity nonlinearity=\"leaky_relu\", Generator? generator=nil)"
local read_kaiming_uniform = signature("nn.init.kaiming_uniform_" .. KAIMING)
local read_kaiming_normal = signature("nn.init.kaiming_normal_" .. KAIMING)

local function kaiming_std(where, tensor, slope, mode, nonlinearity)
  local fan_in, fan_out = fans(where, tensor)
  local fan = math.max(mode == "fan_in" and fan_in or fan_out, 1)
  return gain_of(nonlinearity, slope) / math.sqrt(fan)
end

--- He et al., 2015, evenly distributed. `a` is the slope of "leaky_relu", `mode` "fan_in" or
--- "fan_out".
---@param tensor Tensor
---@param a? number (default 0)
---@param mode? string (default "fan_in")
---@param nonlinearity? string (default "leaky_relu")
---@param generator? Generator
---@return Tensor tensor
function init.kaiming_uniform_(...)
  local tensor, a, mode, nonlinearity, generator = read_kaiming_uniform(...)
  local bound = math.sqrt(3) * kaiming_std("nn.init.kaiming_uniform_", tensor, a, mode,
    nonlinearity)
  return uniform(tensor, -bound, bound, generator)
end

--- He et al., 2015, normally distributed, with the options of `kaiming_uniform_`.
---@param tensor Tensor
---@param a? number (default 0)
---@param mode? string (default "fan_in")
---@param nonlinearity? string (default "leaky_relu")
---@param generator? Generator
---@return Tensor tensor
function init.kaiming_normal_(...)
  local tensor, a, mode, nonlinearity, generator = read_kaiming_normal(...)
  return normal(tensor, 0, kaiming_std("nn.init.kaiming_normal_", tensor, a, mode, nonlinearity),
    generator)
end

return options.namespace("nn.init", init)
