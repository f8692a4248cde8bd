-- stdlib/nn/init.lua: nn.init: fills tensors with starting values, in place and outside the tape.

local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local init = {}

-- How many `nn.utils.skip_init` are running, under which nothing is filled.
local skipping = 0

--- Lets the initialisers do nothing until the result is closed.
---@return any
function init._skip()
  skipping = skipping + 1
  return setmetatable({}, { __close = function() skipping = skipping - 1 end })
end

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
  if skipping > 0 then return tensor end
  local _ <close> = ml.no_grad()
  return tensor:uniform_(low, high, { generator = generator })
end

local function normal(tensor, mean, std, generator)
  if skipping > 0 then return tensor end
  local _ <close> = ml.no_grad()
  return tensor:normal_(mean, std, { generator = generator })
end

local function constant(tensor, value)
  if skipping > 0 then return tensor end
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

-- How much of the standard normal distribution lies below `x`.
local function below(x)
  return ml.erf(ml.tensor({ x / math.sqrt(2) }, { dtype = "float64", device = "cpu" })):item() / 2
    + 0.5
end

-- Draws anew what lies outside, until all lies inside: where that is likely.
local function draw_until_inside(tensor, mean, std, low, high, generator)
  tensor:normal_(mean, std, { generator = generator })
  while true do
    local outside = tensor:lt(low):logical_or(tensor:gt(high))
    if not outside:any():item() then return tensor end
    local fresh = ml.empty_like(tensor):normal_(mean, std, { generator = generator })
    tensor:copy_(ml.where(outside, fresh, tensor))
  end
end

-- Draws evenly and keeps each number as likely as its density says, compared with that of the
-- likeliest, `mode`: where the distribution has little inside. Beyond `reach` there is next to
-- nothing, so that a good part is kept.
local function draw_by_density(tensor, mean, std, low, high, generator)
  local mode = math.max(low, math.min(mean, high))
  local off = math.abs(mode - mean) / std
  local LEAST_LOG_DENSITY = 40
  local reach = std * (math.sqrt(off * off + 2 * LEAST_LOG_DENSITY) - off)
  low, high = math.max(low, mode - reach), math.min(high, mode + reach)
  local given = { generator = generator }
  local function draw() return ml.empty_like(tensor):uniform_(low, high, given) end
  local waiting = ml.ones_like(tensor):bool()
  repeat
    local candidates = draw()
    local log_density = (((candidates - mean) / std):pow(2) - off * off) * -0.5
    local kept = ml.empty_like(tensor):uniform_(0, 1, given):log():le(log_density)
      :logical_and(waiting)
    tensor:copy_(ml.where(kept, candidates, tensor))
    waiting = waiting:logical_and(kept:logical_not())
  until not waiting:any():item()
  return tensor
end

--- Draws from the normal distribution cut off at `a` and `b`.
---@param tensor Tensor
---@param mean? number (default 0)
---@param std? number (default 1)
---@param a? number (default -2)
---@param b? number (default 2)
---@param generator? Generator
---@return Tensor tensor
function init.trunc_normal_(...)
  local tensor, mean, std, low, high, generator = read_trunc_normal(...)
  -- Bounds in the tensor's own dtype, so that its numbers can lie between them.
  local edges = ml.tensor({ low, high }, { dtype = tensor.dtype, device = "cpu" })
  local least, most = edges[1]:item(), edges[2]:item()
  if least >= most or std == 0 and (mean < low or mean > high) then
    fail("nn.init.trunc_normal_: no part of the distribution lies from %g to %g", low, high)
  end
  if skipping > 0 or tensor:numel() == 0 then return tensor end
  local _ <close> = ml.no_grad()
  if std == 0 then return tensor:fill_(mean) end
  local LIKELY = 0.3
  local inside = below((high - mean) / std) - below((low - mean) / std)
  local draw = inside > LIKELY and draw_until_inside or draw_by_density
  return draw(tensor, mean, std, least, most, generator)
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
    fail("nn.init.eye_: a matrix is expected, got shape %s", tostring(shape))
  end
  if skipping > 0 then return tensor end
  local _ <close> = ml.no_grad()
  return tensor:copy_(ml.eye(shape[1], shape[2], { dtype = tensor.dtype, device = tensor.device }))
end

local GAINS = { linear = 1, conv1d = 1, conv2d = 1, conv3d = 1, conv_transpose1d = 1,
  conv_transpose2d = 1, conv_transpose3d = 1, sigmoid = 1, tanh = 5 / 3,
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

local read_dirac = signature "nn.init.dirac_(Tensor tensor, int>=1 groups=1)"

--- Makes a convolution's weight, of three to five dimensions, the identity: each of the first
--- channels of a group gives its own middle element.
---@param tensor Tensor
---@param groups? integer (default 1)
---@return Tensor tensor
function init.dirac_(...)
  local tensor, groups = read_dirac(...)
  local s = tensor.shape
  if #s < 3 or #s > 5 then
    fail("nn.init.dirac_: three to five dimensions are expected, got shape %s", tostring(s))
  elseif s[1] % groups ~= 0 then
    fail("nn.init.dirac_: %d output channels do not divide into %d groups", s[1], groups)
  end
  if skipping > 0 then return tensor end
  local _ <close> = ml.no_grad()
  tensor:fill_(0)
  local per_group, centre = s[1] // groups, {}
  for d = 3, #s do centre[d - 2] = s[d] // 2 + 1 end
  for g = 0, groups - 1 do
    for i = 1, math.min(per_group, s[2]) do
      tensor[{ g * per_group + i, i, table.unpack(centre) }] = 1
    end
  end
  return tensor
end

local read_orthogonal = signature(
  "nn.init.orthogonal_(Tensor tensor, number gain=1, Generator? generator=nil)")

--- Makes the rows of a tensor orthogonal, or the columns where there are fewer (Saxe et al., 2013),
--- times `gain`; dimensions from the second on count as one.
---@param tensor Tensor
---@param gain? number (default 1)
---@param generator? Generator
---@return Tensor tensor
function init.orthogonal_(...)
  local tensor, gain, generator = read_orthogonal(...)
  if tensor.ndim < 2 then
    fail("nn.init.orthogonal_: at least 2 dimensions are expected, got shape %s",
      tostring(tensor.shape))
  end
  if skipping > 0 or tensor:numel() == 0 then return tensor end
  local _ <close> = ml.no_grad()
  local rows = tensor.shape[1]
  local columns = tensor:numel() // rows
  local narrow = tensor:is_floating_point() and (tensor.dtype == "float16"
    or tensor.dtype == "bfloat16")
  local flat = ml.empty({ rows, columns },
    { dtype = narrow and "float32" or tensor.dtype, device = tensor.device })
  flat:normal_(0, 1, { generator = generator })
  if rows < columns then flat = flat:t() end
  local q, r = ml.linalg.qr(flat)
  q = q * r:diagonal():sign()
  if rows < columns then q = q:t() end
  tensor:copy_(q:reshape(tensor.shape))
  return tensor:mul_(gain)
end

local read_sparse = signature("nn.init.sparse_(Tensor tensor, number>=0<=1 sparsity, "
  .. "number>=0 std=0.01, Generator? generator=nil)")

--- Draws a matrix from the normal distribution and sets the part `sparsity` of each column, at
--- random positions, to zero (Martens, 2010).
---@param tensor Tensor
---@param sparsity number
---@param std? number (default 0.01)
---@param generator? Generator
---@return Tensor tensor
function init.sparse_(...)
  local tensor, sparsity, std, generator = read_sparse(...)
  if tensor.ndim ~= 2 then
    fail("nn.init.sparse_: a matrix is expected, got shape %s", tostring(tensor.shape))
  end
  if skipping > 0 then return tensor end
  local _ <close> = ml.no_grad()
  tensor:normal_(0, std, { generator = generator })
  local rows, columns = tensor.shape[1], tensor.shape[2]
  local zeros = math.ceil(sparsity * rows)
  for column = 1, zeros > 0 and columns or 0 do
    local positions = ml.randperm(rows, { generator = generator, device = tensor.device })
    tensor:select(2, column):index_fill_(1, positions:narrow(1, 1, zeros), 0)
  end
  return tensor
end

return options.namespace("nn.init", init)
