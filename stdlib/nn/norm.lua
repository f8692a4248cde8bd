-- stdlib/nn/norm.lua: normalisation over batches, instances, groups of channels, the last
-- dimensions, and neighbouring channels.

local init = require "moonlet.nn.init"
local layer = require "moonlet.nn.layer"
local ml = require "moonlet"
local options = require "moonlet.options"

local layers = {}

-- Ones and zeros of that size as the weight and bias of a layer.
local function make_affine(self, size, o)
  self.weight = init.ones_(layer.parameter(size, o))
  if o.bias then self.bias = init.zeros_(layer.parameter(size, o)) end
end

local function make_statistics(self, count, o)
  local factory = { dtype = o.dtype, device = o.device }
  self:register_buffer("running_mean", ml.zeros({ count }, factory))
  self:register_buffer("running_var", ml.ones({ count }, factory))
  self:register_buffer("num_batches_tracked", ml.zeros({}, { dtype = ml.int64, device = o.device }))
end

--- Sets the running statistics to those of no batches.
local function reset_running_stats(self)
  if not self.track_running_stats then return end
  self.running_mean:zero_()
  self.running_var:fill_(1)
  self.num_batches_tracked:zero_()
end

--- Sets weights to one and biases to zero, and forgets the running statistics.
local function reset_parameters(self)
  if self.reset_running_stats then self:reset_running_stats() end
  if self.weight then init.ones_(self.weight) end
  if self.bias then init.zeros_(self.bias) end
end

local function init_running_norm(self, o)
  self.num_features, self.eps, self.momentum = o.num_features, o.eps, o.momentum
  self.affine, self.track_running_stats = o.affine, o.track_running_stats
  if o.momentum == true then
    options.fail("nn.BatchNorm: 'momentum' must be a number, or false for the mean of all batches")
  end
  if o.affine then make_affine(self, { o.num_features }, o) end
  if o.track_running_stats then make_statistics(self, o.num_features, o) end
end

local function check_rank(self, x, ranks)
  layer.check_input(self, x)
  if not ranks[x.ndim] then
    options.fail("%s: expected %s, got shape %s", self:describe(), ranks.text, tostring(x.shape))
  end
end

-- How far the running statistics move towards those of this batch.
local function momentum_of(self)
  if not (self.training and self.num_batches_tracked) then return self.momentum or 0 end
  self.num_batches_tracked:add_(1)
  return self.momentum or 1 / self.num_batches_tracked:item()
end

local function batch_norm_forward(self, x)
  check_rank(self, x, self._ranks)
  local momentum = momentum_of(self)
  return layer.run(self, ml.batch_norm, x, self.running_mean, self.running_var, self.weight,
    self.bias, self.training or self.running_mean == nil, momentum, self.eps)
end

-- States written before PyTorch counted batches lack the count.
local function load_batch_norm(self, state, prefix, metadata, ...)
  local key = prefix .. "num_batches_tracked"
  if (metadata.version or 0) < 2 and self.num_batches_tracked and state[key] == nil then
    local with_count = {}
    for name, value in pairs(state) do with_count[name] = value end
    with_count[key] = self.num_batches_tracked
    state = with_count
  end
  return layer.Module._load_from_state_dict(self, state, prefix, metadata, ...)
end

local function extra_repr(self)
  return tostring(self.num_features)
    .. (self.track_running_stats and "" or ", no running statistics")
end

local RUNNING = "int>=1 num_features, number>=0 eps=1e-5, number>=0<=1|bool momentum=0.1, "
local function define_batch_norm(name, ranks)
  local cls = layer.define(name, RUNNING .. "bool affine=true, bool track_running_stats=true"
    .. layer.factory .. ", bool bias=true", init_running_norm)
  cls._ranks, cls._version = ranks, 2
  cls.forward, cls.extra_repr = batch_norm_forward, extra_repr
  cls.reset_parameters, cls.reset_running_stats = reset_parameters, reset_running_stats
  cls._load_from_state_dict = load_batch_norm
  return cls
end

--- Normalises each feature of `(n, features)` or `(n, features, length)` over the batch (Ioffe and
--- Szegedy, 2015); in `eval` mode by the running statistics, which training moves towards those of
--- each batch by `momentum`; with `momentum = false` they are the means over all batches.
---@field weight moonlet.Tensor? The factor of each feature, a parameter; nil with `affine = false`.
---@field bias moonlet.Tensor? What is added to each feature, a parameter.
---@field running_mean moonlet.Tensor? The buffer of means that `eval` uses.
---@field running_var moonlet.Tensor? The buffer of variances that `eval` uses.
layers.BatchNorm1d = define_batch_norm("BatchNorm1d",
  { [2] = true, [3] = true, text = "(n, features) or (n, features, length)" })

--- Normalises each channel of `(n, channels, h, w)` over the batch (Ioffe and Szegedy, 2015); in
--- `eval` mode by the running statistics, which training moves towards those of each batch by
--- `momentum`; with `momentum = false` they are the means over all batches.
---@field weight moonlet.Tensor? The factor of each channel, a parameter; nil with `affine = false`.
---@field bias moonlet.Tensor? What is added to each channel, a parameter.
---@field running_mean moonlet.Tensor? The buffer of means that `eval` uses.
---@field running_var moonlet.Tensor? The buffer of variances that `eval` uses.
layers.BatchNorm2d = define_batch_norm("BatchNorm2d",
  { [4] = true, text = "(n, channels, h, w)" })

--- Normalises each channel of `(n, channels, d, h, w)` over the batch, as `BatchNorm2d`.
---@field weight moonlet.Tensor? The factor of each channel, a parameter; nil with `affine = false`.
---@field bias moonlet.Tensor? What is added to each channel, a parameter.
---@field running_mean moonlet.Tensor? The buffer of means that `eval` uses.
---@field running_var moonlet.Tensor? The buffer of variances that `eval` uses.
layers.BatchNorm3d = define_batch_norm("BatchNorm3d",
  { [5] = true, text = "(n, channels, d, h, w)" })

local function instance_norm_forward(self, x)
  check_rank(self, x, self._ranks)
  local single = x.ndim == self._ranks.single
  local momentum = self.momentum or 0 -- PyTorch counts no batches here either
  local y = layer.run(self, function()
    return require("moonlet.nn.functional").instance_norm(single and x:unsqueeze(1) or x,
      self.running_mean, self.running_var, self.weight, self.bias,
      self.training or not self.track_running_stats, momentum, self.eps)
  end)
  return single and y:squeeze(1) or y
end

local function define_instance_norm(dims, text)
  local cls = layer.define(("InstanceNorm%dd"):format(dims), RUNNING
    .. "bool affine=false, bool track_running_stats=false" .. layer.factory .. ", bool bias=true",
    init_running_norm)
  cls._ranks = { [dims + 1] = true, [dims + 2] = true, single = dims + 1, text = text }
  cls._version = 2
  cls.forward, cls.extra_repr = instance_norm_forward, extra_repr
  cls.reset_parameters, cls.reset_running_stats = reset_parameters, reset_running_stats
  return cls
end

--- Normalises each channel of each entry of `(n, channels, length)` or `(channels, length)`
--- (Ulyanov et al., 2016). With `affine` scales and shifts channels; with `track_running_stats`
--- `eval` mode uses running statistics.
layers.InstanceNorm1d = define_instance_norm(1, "(n, channels, length) or (channels, length)")
--- Normalises each channel of each image of `(n, channels, h, w)` or `(channels, h, w)`, with the
--- options of `InstanceNorm1d`.
layers.InstanceNorm2d = define_instance_norm(2, "(n, channels, h, w) or (channels, h, w)")
--- Normalises each channel of each entry of `(n, channels, d, h, w)` or `(channels, d, h, w)`, with
--- the options of `InstanceNorm1d`.
layers.InstanceNorm3d = define_instance_norm(3, "(n, channels, d, h, w) or (channels, d, h, w)")

--- Normalises each of `num_groups` groups of the `num_channels` channels of each entry of
--- `(n, channels, ...)`, then scales and shifts channels (Wu and He, 2018).
---@field weight moonlet.Tensor? The factor of each channel, a parameter; nil with `affine = false`.
---@field bias moonlet.Tensor? What is added to each channel, a parameter.
layers.GroupNorm = layer.define("GroupNorm", "int>=1 num_groups, int>=1 num_channels, "
  .. "number>=0 eps=1e-5, bool affine=true" .. layer.factory .. ", bool bias=true",
  function(self, o)
    if o.num_channels % o.num_groups ~= 0 then
      options.fail("nn.GroupNorm: %d channels do not divide into %d groups", o.num_channels,
        o.num_groups)
    end
    self.num_groups, self.num_channels = o.num_groups, o.num_channels
    self.eps, self.affine = o.eps, o.affine
    if o.affine then make_affine(self, { o.num_channels }, o) end
  end)

function layers.GroupNorm:forward(x)
  return layer.run(self, require("moonlet.nn.functional").group_norm, x, self.num_groups,
    self.weight, self.bias, self.eps)
end

function layers.GroupNorm:extra_repr()
  return ("%d groups of %d"):format(self.num_groups, self.num_channels)
end

local function shape_list(shape) return type(shape) == "table" and shape or { shape } end

--- Normalises over the last dimensions, which have the shape given, to mean 0 and variance 1, then
--- scales and shifts each element (Ba et al., 2016). `normalized_shape` is one size or several.
---@field weight moonlet.Tensor? The factors, a parameter of `normalized_shape`.
---@field bias moonlet.Tensor? What is added, a parameter of `normalized_shape`.
layers.LayerNorm = layer.define("LayerNorm", "int>=1|int[]>=1 normalized_shape, "
  .. "number>=0 eps=1e-5, bool elementwise_affine=true, bool bias=true" .. layer.factory,
  function(self, o)
    self.normalized_shape = shape_list(o.normalized_shape)
    self.eps, self.elementwise_affine = o.eps, o.elementwise_affine
    if o.elementwise_affine then make_affine(self, self.normalized_shape, o) end
  end)

function layers.LayerNorm:forward(x)
  return layer.run(self, ml.layer_norm, x, self.normalized_shape, self.weight, self.bias, self.eps)
end

--- Divides by the root of the mean square over the last dimensions, which have the shape given,
--- then scales each element (Zhang and Sennrich, 2019). `eps` is the dtype's smallest step unless
--- given.
---@field weight moonlet.Tensor? The factors, a parameter of `normalized_shape`.
layers.RMSNorm = layer.define("RMSNorm", "int>=1|int[]>=1 normalized_shape, number>=0? eps=nil, "
  .. "bool elementwise_affine=true" .. layer.factory, function(self, o)
    self.normalized_shape = shape_list(o.normalized_shape)
    self.eps, self.elementwise_affine = o.eps, o.elementwise_affine
    if o.elementwise_affine then make_affine(self, self.normalized_shape, o) end
  end)

function layers.RMSNorm:forward(x)
  return layer.run(self, ml.rms_norm, x, self.normalized_shape, self.weight, self.eps)
end

for _, name in ipairs { "LayerNorm", "RMSNorm" } do
  layers[name].extra_repr = function(self) return table.concat(self.normalized_shape, ", ") end
end
for _, name in ipairs { "LayerNorm", "RMSNorm", "GroupNorm" } do
  layers[name].reset_parameters = reset_parameters
end

local NEIGHBOURS = "int>=1 size, number alpha=1e-4, number beta=0.75, number k=1.0"

--- Divides by a power of the mean square of `size` neighbouring channels of (n, c, ...)
--- (Krizhevsky et al., 2012).
layers.LocalResponseNorm = layer.functional("LocalResponseNorm", "local_response_norm", NEIGHBOURS)

--- Divides each element of images (n, c, h, w) by `(k + alpha / size * s)^beta`, where s is the sum
--- of squares over the channels that are at most `(size - 1) // 2` away, and, as in PyTorch, that
--- of the first channel for all that are further from it.
layers.CrossMapLRN2d = layer.define("CrossMapLRN2d", NEIGHBOURS, function(self, o)
  self.size, self.alpha, self.beta, self.k = o.size, o.alpha, o.beta, o.k
end)

function layers.CrossMapLRN2d:forward(x)
  check_rank(self, x, { [4] = true, text = "(n, channels, h, w)" })
  return layer.run(self, function()
    local pad = require("moonlet.nn.functional").pad
    local squares, channels = x * x, x.shape[2]
    local away = math.min((self.size - 1) // 2, math.max(channels - 1, 0))
    local sums = pad(squares, { 0, 0, 0, 0, away, away }):unfold(2, 2 * away + 1, 1):sum(-1)
    local far = channels - away - 1
    if far > 0 then
      local first = squares:narrow(2, 1, 1):expand(-1, far, -1, -1)
      sums = sums + pad(first, { 0, 0, 0, 0, away + 1, 0 })
    end
    return x * (sums * (self.alpha / self.size) + self.k) ^ -self.beta
  end)
end

function layers.CrossMapLRN2d:extra_repr() return tostring(self.size) end

return layers
