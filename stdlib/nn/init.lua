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

--- Fan-in and fan-out of a weight: how many inputs each output depends on, and how many outputs
--- each input reaches. Of a weight (o, i, *), r is the product of the further sizes.
--- > ml.nn.init.fans(ml.empty(8, 4, 3, 3))
---   36	72
---@param tensor Tensor the weight
---@return integer fan_in
---@return integer fan_out
---@shape tensor (o, i, *)
---@formula fan_in = i r, fan_out = o r
---@error the tensor has fewer than two dimensions
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

--- Fills a tensor from the uniform distribution.
--- > ml.manual_seed(1)
--- > ml.nn.init.uniform_(ml.empty(3))
---   {0.8903, 0.8947, 0.5857}
---   Tensor (3,) float32
---@param tensor Tensor the tensor to fill, in place; no gradient is recorded
---@param a? number the lower bound
---@param b? number the upper bound
---@param generator? Generator where the random numbers come from: the default generator unless
---   given
---@return Tensor tensor
---@shape tensor (*) -> (*)
---@formula x ~ U(a, b)
function init.uniform_(...)
  return uniform(read_uniform(...))
end

local read_normal = signature(
  "nn.init.normal_(Tensor tensor, number mean=0, number>=0 std=1, Generator? generator=nil)")

--- Fills a tensor from the normal distribution.
--- > ml.manual_seed(1)
--- > ml.nn.init.normal_(ml.empty(3), { std = 0.02 })
---   { 0.0076, -0.0059, -0.0050}
---   Tensor (3,) float32
---@param tensor Tensor the tensor to fill, in place; no gradient is recorded
---@param mean? number the mean
---@param std? number the standard deviation, at least 0
---@param generator? Generator where the random numbers come from: the default generator unless
---   given
---@return Tensor tensor
---@shape tensor (*) -> (*)
---@formula x ~ N(mean, std^2)
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

--- Fills a tensor from a normal distribution that is cut off at both sides.
--- > ml.manual_seed(1)
--- > ml.nn.init.trunc_normal_(ml.empty(3))
---   { 0.3804, -0.2963, -0.2492}
---   Tensor (3,) float32
---@param tensor Tensor the tensor to fill, in place; no gradient is recorded
---@param mean? number the mean of the normal distribution
---@param std? number its standard deviation, at least 0
---@param a? number the least number
---@param b? number the greatest number
---@param generator? Generator where the random numbers come from: the default generator unless
---   given
---@return Tensor tensor
---@shape tensor (*) -> (*)
---@formula x ~ N(mean, std^2), given that a <= x <= b
---@error no part of the distribution lies from `a` to `b`
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

--- Fills a tensor with a number.
--- > ml.nn.init.constant_(ml.empty(3), 0.3)
---   {0.3000, 0.3000, 0.3000}
---   Tensor (3,) float32
---@param tensor Tensor the tensor to fill, in place; no gradient is recorded
---@param val number the number
---@return Tensor tensor
---@shape tensor (*) -> (*)
function init.constant_(...)
  return constant(read_constant(...))
end

local read_zeros = signature "nn.init.zeros_(Tensor tensor)"

--- Fills a tensor with zeros.
--- > ml.nn.init.zeros_(ml.empty(3))
---   {0., 0., 0.}
---   Tensor (3,) float32
---@param tensor Tensor the tensor to fill, in place; no gradient is recorded
---@return Tensor tensor
---@shape tensor (*) -> (*)
function init.zeros_(...)
  return constant((read_zeros(...)), 0)
end

local read_ones = signature "nn.init.ones_(Tensor tensor)"

--- Fills a tensor with ones.
--- > ml.nn.init.ones_(ml.empty(3))
---   {1., 1., 1.}
---   Tensor (3,) float32
---@param tensor Tensor the tensor to fill, in place; no gradient is recorded
---@return Tensor tensor
---@shape tensor (*) -> (*)
function init.ones_(...)
  return constant((read_ones(...)), 1)
end

local read_eye = signature "nn.init.eye_(Tensor tensor)"

--- Makes a matrix the identity: ones on the diagonal, zeros elsewhere.
--- > ml.nn.init.eye_(ml.empty(2, 3))
---   {{1., 0., 0.},
---    {0., 1., 0.}}
---   Tensor (2, 3) float32
---@param tensor Tensor the tensor to fill, in place; no gradient is recorded
---@return Tensor tensor
---@shape tensor (m, n) -> (m, n)
---@error the tensor is no matrix
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

--- Recommended factor by which the weights before a nonlinearity are scaled.
--- > ml.nn.init.calculate_gain("relu")
---   1.4142135623731
---@param nonlinearity string "relu", "leaky_relu", "selu", "tanh", "sigmoid" or "linear", which
---   the name of any convolution stands for too
---@param param? number the factor of negative inputs of "leaky_relu": 0.01 unless given
---@return number
---@formula relu: sqrt(2)
---@formula leaky_relu: sqrt(2 / (1 + param^2))
---@formula tanh: 5 / 3
---@formula selu: 3 / 4
---@formula others: 1
function init.calculate_gain(...)
  return gain_of(read_gain(...))
end

local XAVIER = "(Tensor tensor, number gain=1, Generator? generator=nil)"
local read_xavier_uniform = signature("nn.init.xavier_uniform_" .. XAVIER)
local read_xavier_normal = signature("nn.init.xavier_normal_" .. XAVIER)

--- Xavier (Glorot) initialisation from the uniform distribution: keeps the variance of activations
--- and gradients. n_in and n_out are fan-in and fan-out, as of `fans`.
--- > ml.manual_seed(1)
--- > ml.nn.init.xavier_uniform_(ml.empty(2, 2))
---   {{0.9559, 0.9668},
---    {0.2100, 0.5175}}
---   Tensor (2, 2) float32
---@param tensor Tensor the tensor to fill, in place; no gradient is recorded
---@param gain? number a factor of the result, such as that of `calculate_gain`
---@param generator? Generator where the random numbers come from: the default generator unless
---   given
---@return Tensor tensor
---@shape tensor (out, in, *) -> (out, in, *)
---@formula x ~ U(-k, k), k = gain sqrt(6 / (n_in + n_out))
---@error the tensor has fewer than two dimensions
---@source Glorot and Bengio, 2010: Understanding the difficulty of training deep feedforward
---   networks
function init.xavier_uniform_(...)
  local tensor, gain, generator = read_xavier_uniform(...)
  local fan_in, fan_out = fans("nn.init.xavier_uniform_", tensor)
  local bound = gain * math.sqrt(6 / (fan_in + fan_out))
  return uniform(tensor, -bound, bound, generator)
end

--- Xavier (Glorot) initialisation from the normal distribution: keeps the variance of activations
--- and gradients. n_in and n_out are fan-in and fan-out, as of `fans`.
--- > ml.manual_seed(1)
--- > ml.nn.init.xavier_normal_(ml.empty(2, 2))
---   {{ 0.2690, -0.2095},
---    {-0.1762, -0.7098}}
---   Tensor (2, 2) float32
---@param tensor Tensor the tensor to fill, in place; no gradient is recorded
---@param gain? number a factor of the result, such as that of `calculate_gain`
---@param generator? Generator where the random numbers come from: the default generator unless
---   given
---@return Tensor tensor
---@shape tensor (out, in, *) -> (out, in, *)
---@formula x ~ N(0, std^2), std = gain sqrt(2 / (n_in + n_out))
---@error the tensor has fewer than two dimensions
---@source Glorot and Bengio, 2010: Understanding the difficulty of training deep feedforward
---   networks
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

--- Kaiming (He) initialisation from the uniform distribution, for weights before a ReLU. n is
--- fan-in or fan-out, by `mode`; g is the gain of the nonlinearity, as of `calculate_gain`.
--- > ml.manual_seed(1)
--- > ml.nn.init.kaiming_uniform_(ml.empty(2, 2), { nonlinearity = "relu" })
---   {{1.3519, 1.3672},
---    {0.2970, 0.7319}}
---   Tensor (2, 2) float32
---@param tensor Tensor the tensor to fill, in place; no gradient is recorded
---@param a? number the factor of negative inputs of "leaky_relu"
---@param mode? string "fan_in" keeps the variance of activations, "fan_out" that of gradients
---@param nonlinearity? string what follows the weights, as of `calculate_gain`
---@param generator? Generator where the random numbers come from: the default generator unless
---   given
---@return Tensor tensor
---@shape tensor (out, in, *) -> (out, in, *)
---@formula x ~ U(-k, k), k = g sqrt(3 / n)
---@error the tensor has fewer than two dimensions
---@source He et al., 2015: Delving deep into rectifiers
function init.kaiming_uniform_(...)
  local tensor, a, mode, nonlinearity, generator = read_kaiming_uniform(...)
  local bound = math.sqrt(3) * kaiming_std("nn.init.kaiming_uniform_", tensor, a, mode,
    nonlinearity)
  return uniform(tensor, -bound, bound, generator)
end

--- Kaiming (He) initialisation from the normal distribution, for weights before a ReLU. n is fan-in
--- or fan-out, by `mode`; g is the gain of the nonlinearity, as of `calculate_gain`.
--- > ml.manual_seed(1)
--- > ml.nn.init.kaiming_normal_(ml.empty(2, 2), { nonlinearity = "relu" })
---   {{ 0.3804, -0.2963},
---    {-0.2492, -1.0038}}
---   Tensor (2, 2) float32
---@param tensor Tensor the tensor to fill, in place; no gradient is recorded
---@param a? number the factor of negative inputs of "leaky_relu"
---@param mode? string "fan_in" keeps the variance of activations, "fan_out" that of gradients
---@param nonlinearity? string what follows the weights, as of `calculate_gain`
---@param generator? Generator where the random numbers come from: the default generator unless
---   given
---@return Tensor tensor
---@shape tensor (out, in, *) -> (out, in, *)
---@formula x ~ N(0, std^2), std = g / sqrt(n)
---@error the tensor has fewer than two dimensions
---@source He et al., 2015: Delving deep into rectifiers
function init.kaiming_normal_(...)
  local tensor, a, mode, nonlinearity, generator = read_kaiming_normal(...)
  return normal(tensor, 0, kaiming_std("nn.init.kaiming_normal_", tensor, a, mode, nonlinearity),
    generator)
end

local read_dirac = signature "nn.init.dirac_(Tensor tensor, int>=1 groups=1)"

--- Makes the weight of a convolution the identity, as far as there are channels. The middle element
--- of each of the first kernels of a group is 1 for its own channel, all else 0.
--- > ml.nn.init.dirac_(ml.empty(2, 2, 3))
---   {{{0., 1., 0.},
---     {0., 0., 0.}},
---
---    {{0., 0., 0.},
---     {0., 1., 0.}}}
---   Tensor (2, 2, 3) float32
---@param tensor Tensor the tensor to fill, in place; no gradient is recorded
---@param groups? integer how many groups the output channels are divided into
---@return Tensor tensor
---@shape tensor (out, in, k), (out, in, kh, kw) or (out, in, kd, kh, kw) -> as tensor
---@error the tensor has not three to five dimensions, or the groups do not divide the channels
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

--- Fills a tensor with a random orthogonal matrix: its rows, or where there are fewer its columns,
--- are orthogonal. The dimensions from the second on count as one.
--- > ml.manual_seed(1)
--- > w = ml.nn.init.orthogonal_(ml.empty(2, 3))
--- > (w:matmul(w:t()) - ml.eye(2)):abs():max():item() < 1e-5
---   true
---@param tensor Tensor the tensor to fill, in place; no gradient is recorded
---@param gain? number a factor of the result, such as that of `calculate_gain`
---@param generator? Generator where the random numbers come from: the default generator unless
---   given
---@return Tensor tensor
---@shape tensor (out, *) -> (out, *)
---@formula x = gain Q, Q^T Q = I or Q Q^T = I
---@error the tensor has fewer than two dimensions
---@source Saxe et al., 2013: Exact solutions to the nonlinear dynamics of learning
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

--- Fills a matrix from the normal distribution, with zeros at random rows of each column.
--- > ml.manual_seed(1)
--- > ml.nn.init.sparse_(ml.empty(4, 3), 0.5):eq(0):sum(1)
---   {2, 2, 2}
---   Tensor (3,) int64
---@param tensor Tensor the tensor to fill, in place; no gradient is recorded
---@param sparsity number the part of each column that is zero, from 0 to 1
---@param std? number the standard deviation of the others
---@param generator? Generator where the random numbers come from: the default generator unless
---   given
---@return Tensor tensor
---@shape tensor (m, n) -> (m, n)
---@formula x ~ N(0, std^2)
---@error the tensor is no matrix
---@source Martens, 2010: Deep learning via Hessian-free optimization
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
