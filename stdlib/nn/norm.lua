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

--- Sets the running mean to zeros, the running variance to ones and the number of batches to 0.
local function reset_running_stats(self)
  if not self.track_running_stats then return end
  self.running_mean:zero_()
  self.running_var:fill_(1)
  self.num_batches_tracked:zero_()
end

--- Sets the weight to ones, the bias to zeros and the running statistics to those of no batches.
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

--- Batch normalisation: normalises each feature of (n, features), or each channel of (n, channels,
--- l) over the batch. In training mode the mean and the variance are those of the batch, and the
--- running statistics follow them; in eval mode the running statistics are used. The variance of
--- the normalisation is the biased one, that of the running statistics the unbiased one.
--- > ml.nn.BatchNorm1d(2)(ml.tensor { { 1.0, 10 }, { 3.0, 30 } })
---   {{-1.0000, -1.0000},
---    { 1.0000,  1.0000}}
---   Tensor (2, 2) float32 grad_fn=NativeBatchNormBackward
---@param num_features how many features or channels there are, the second size of the input
---@param eps what is added to the variance, so that nothing is divided by 0
---@param momentum the weight of the newest batch in the running statistics; false for the mean of
---   all batches
---@param affine whether the results are scaled and shifted by learned parameters
---@param track_running_stats whether running statistics are kept for eval mode
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@param bias whether the learned shift is there, with `affine`
---@shape input (n, num_features) or (n, num_features, l) -> as input
---@formula y = weight (x - E[x]) / sqrt(Var[x] + eps) + bias
---@formula running = (1 - momentum) running + momentum batch
---@error training on a batch with one value per channel
---@source Ioffe and Szegedy, 2015: Batch normalization
---@field weight moonlet.Tensor? The factor of each channel, a parameter; nil with `affine = false`.
---@field bias moonlet.Tensor? What is added to each channel, a parameter.
---@field running_mean moonlet.Tensor? The buffer of means that `eval` uses, zeros at first.
---@field running_var moonlet.Tensor? The buffer of variances that `eval` uses, ones at first.
layers.BatchNorm1d = define_batch_norm("BatchNorm1d",
  { [2] = true, [3] = true, text = "(n, features) or (n, features, length)" })

--- Batch normalisation: normalises each channel of images over the batch and the pixels. In
--- training mode the mean and the variance are those of the batch, and the running statistics
--- follow them; in eval mode the running statistics are used. The variance of the normalisation is
--- the biased one, that of the running statistics the unbiased one.
--- > ml.nn.BatchNorm2d(1)(ml.tensor { { { { 1.0, 2 }, { 3.0, 4 } } } })
---   {{{{-1.3416, -0.4472},
---      { 0.4472,  1.3416}}}}
---   Tensor (1, 1, 2, 2) float32 grad_fn=NativeBatchNormBackward
---@param num_features how many channels there are, the second size of the input
---@param eps what is added to the variance, so that nothing is divided by 0
---@param momentum the weight of the newest batch in the running statistics; false for the mean of
---   all batches
---@param affine whether the results are scaled and shifted by learned parameters
---@param track_running_stats whether running statistics are kept for eval mode
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@param bias whether the learned shift is there, with `affine`
---@shape input (n, num_features, h, w) -> as input
---@formula y = weight (x - E[x]) / sqrt(Var[x] + eps) + bias
---@formula running = (1 - momentum) running + momentum batch
---@error training on a batch with one value per channel
---@source Ioffe and Szegedy, 2015: Batch normalization
---@field weight moonlet.Tensor? The factor of each channel, a parameter; nil with `affine = false`.
---@field bias moonlet.Tensor? What is added to each channel, a parameter.
---@field running_mean moonlet.Tensor? The buffer of means that `eval` uses, zeros at first.
---@field running_var moonlet.Tensor? The buffer of variances that `eval` uses, ones at first.
layers.BatchNorm2d = define_batch_norm("BatchNorm2d",
  { [4] = true, text = "(n, channels, h, w)" })

--- Batch normalisation: normalises each channel of volumes over the batch and the elements. In
--- training mode the mean and the variance are those of the batch, and the running statistics
--- follow them; in eval mode the running statistics are used. The variance of the normalisation is
--- the biased one, that of the running statistics the unbiased one.
--- > ml.nn.BatchNorm3d(4)(ml.ones(2, 4, 3, 5, 5)).shape
---   (2, 4, 3, 5, 5)
---@param num_features how many channels there are, the second size of the input
---@param eps what is added to the variance, so that nothing is divided by 0
---@param momentum the weight of the newest batch in the running statistics; false for the mean of
---   all batches
---@param affine whether the results are scaled and shifted by learned parameters
---@param track_running_stats whether running statistics are kept for eval mode
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@param bias whether the learned shift is there, with `affine`
---@shape input (n, num_features, d, h, w) -> as input
---@formula y = weight (x - E[x]) / sqrt(Var[x] + eps) + bias
---@formula running = (1 - momentum) running + momentum batch
---@error training on a batch with one value per channel
---@source Ioffe and Szegedy, 2015: Batch normalization
---@field weight moonlet.Tensor? The factor of each channel, a parameter; nil with `affine = false`.
---@field bias moonlet.Tensor? What is added to each channel, a parameter.
---@field running_mean moonlet.Tensor? The buffer of means that `eval` uses, zeros at first.
---@field running_var moonlet.Tensor? The buffer of variances that `eval` uses, ones at first.
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

--- Instance normalisation: normalises each channel of each sequence by itself. The mean and the
--- variance (biased) are those of the channel's own elements, in training and, without
--- `track_running_stats`, in eval mode too.
--- > ml.nn.InstanceNorm1d(1)(ml.tensor { { { 1.0, 2, 3 } } })
---   {{{-1.2247,  0.0000,  1.2247}}}
---   Tensor (1, 1, 3) float32
---@param num_features how many channels there are
---@param eps what is added to the variance, so that nothing is divided by 0
---@param momentum the weight of the newest batch in the running statistics; false for the mean of
---   all batches
---@param affine whether the results are scaled and shifted by learned parameters
---@param track_running_stats whether running statistics are kept for eval mode
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@param bias whether the learned shift is there, with `affine`
---@shape input (n, num_features, l) or (num_features, l) -> as input
---@formula y = weight (x - E[x]) / sqrt(Var[x] + eps) + bias
---@error training on a channel with one element
---@source Ulyanov et al., 2016: Instance normalization
layers.InstanceNorm1d = define_instance_norm(1, "(n, channels, length) or (channels, length)")
--- Instance normalisation: normalises each channel of each image by itself. The mean and the
--- variance (biased) are those of the channel's own elements, in training and, without
--- `track_running_stats`, in eval mode too.
--- > ml.nn.InstanceNorm2d(1)(ml.tensor { { { { 1.0, 2 }, { 3.0, 4 } } } })
---   {{{{-1.3416, -0.4472},
---      { 0.4472,  1.3416}}}}
---   Tensor (1, 1, 2, 2) float32
---@param num_features how many channels there are
---@param eps what is added to the variance, so that nothing is divided by 0
---@param momentum the weight of the newest batch in the running statistics; false for the mean of
---   all batches
---@param affine whether the results are scaled and shifted by learned parameters
---@param track_running_stats whether running statistics are kept for eval mode
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@param bias whether the learned shift is there, with `affine`
---@shape input (n, num_features, h, w) or (num_features, h, w) -> as input
---@formula y = weight (x - E[x]) / sqrt(Var[x] + eps) + bias
---@error training on a channel with one element
---@source Ulyanov et al., 2016: Instance normalization
layers.InstanceNorm2d = define_instance_norm(2, "(n, channels, h, w) or (channels, h, w)")
--- Instance normalisation: normalises each channel of each volume by itself. The mean and the
--- variance (biased) are those of the channel's own elements, in training and, without
--- `track_running_stats`, in eval mode too.
--- > ml.nn.InstanceNorm3d(4)(ml.ones(2, 4, 3, 5, 5)).shape
---   (2, 4, 3, 5, 5)
---@param num_features how many channels there are
---@param eps what is added to the variance, so that nothing is divided by 0
---@param momentum the weight of the newest batch in the running statistics; false for the mean of
---   all batches
---@param affine whether the results are scaled and shifted by learned parameters
---@param track_running_stats whether running statistics are kept for eval mode
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@param bias whether the learned shift is there, with `affine`
---@shape input (n, num_features, d, h, w) or (num_features, d, h, w) -> as input
---@formula y = weight (x - E[x]) / sqrt(Var[x] + eps) + bias
---@error training on a channel with one element
---@source Ulyanov et al., 2016: Instance normalization
layers.InstanceNorm3d = define_instance_norm(3, "(n, channels, d, h, w) or (channels, d, h, w)")

--- Group normalisation: normalises groups of channels of each entry of the batch. With one group it
--- normalises over all channels, with as many groups as channels it is instance normalisation. It
--- does the same in training and eval mode.
--- > ml.nn.GroupNorm(1, 4)(ml.tensor { { 1.0, 2, 3, 4 } })
---   {{-1.3416, -0.4472,  0.4472,  1.3416}}
---   Tensor (1, 4) float32 grad_fn=NativeGroupNormBackward
---@param num_groups how many groups the channels are divided into; it must divide `num_channels`
---@param num_channels how many channels there are, the second size of the input
---@param eps what is added to the variance, so that nothing is divided by 0
---@param affine whether channels are scaled and shifted by learned parameters
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@param bias whether the learned shift is there, with `affine`
---@shape input (n, num_channels, *) -> (n, num_channels, *)
---@formula y = weight (x - E[x]) / sqrt(Var[x] + eps) + bias
---@source Wu and He, 2018: Group normalization
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

--- Layer normalisation: normalises over the last dimensions of the input. The mean and the variance
--- (biased) are those of the last dimensions, whose sizes are `normalized_shape`, of each entry by
--- itself. It does the same in training and eval mode.
--- > ml.nn.LayerNorm(4)(ml.tensor { { 1.0, 2, 3, 4 } })
---   {{-1.3416, -0.4472,  0.4472,  1.3416}}
---   Tensor (1, 4) float32 grad_fn=NativeLayerNormBackward
---@param normalized_shape the sizes of the last dimensions: one number, or an array
---@param eps what is added to the variance, so that nothing is divided by 0
---@param elementwise_affine whether elements are scaled and shifted by learned parameters
---@param bias whether the learned shift is there, with `elementwise_affine`
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input (*, normalized_shape) -> (*, normalized_shape)
---@formula y = weight (x - E[x]) / sqrt(Var[x] + eps) + bias
---@source Ba et al., 2016: Layer normalization
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

--- Root mean square normalisation: divides by the root mean square over the last dimensions.
--- > ml.nn.RMSNorm(4)(ml.tensor { { 1.0, 2, 3, 4 } })
---   {{0.3651, 0.7303, 1.0954, 1.4606}}
---   Tensor (1, 4) float32 grad_fn=NativeRmsNormBackward
---@param normalized_shape the sizes of the last dimensions: one number, or an array
---@param eps what is added to the mean square: the machine epsilon of the dtype unless given
---@param elementwise_affine whether elements are scaled by learned parameters
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input (*, normalized_shape) -> (*, normalized_shape)
---@formula y = weight x / sqrt(mean(x^2) + eps)
---@source Zhang and Sennrich, 2019: Root mean square layer normalization
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

--- Local response normalisation: divides by a power of the mean square over neighbouring channels.
--- > ml.nn.LocalResponseNorm(2, { alpha = 1 })(ml.tensor { { { 1.0 }, { 2.0 }, { 3.0 } } })
---   {{{0.7378},
---     {0.7816},
---     {0.6620}}}
---   Tensor (1, 3, 1) float32
---@param size how many neighbouring channels take part
---@param alpha the factor of the mean square
---@param beta the exponent
---@param k what is added to the mean square
---@shape input (n, c, *) -> (n, c, *)
---@formula y_c = x_c / (k + alpha sum_i x_i^2 / size)^beta
---@formula i from c - floor(size / 2) to c + floor((size - 1) / 2)
---@source Krizhevsky et al., 2012: ImageNet classification with deep convolutional neural networks
layers.LocalResponseNorm = layer.functional("LocalResponseNorm", "local_response_norm", NEIGHBOURS)

--- Local response normalisation across the channels of images, in the form of Torch7. The sum goes
--- over the channels that are at most (size - 1) // 2 away; for channels further than that from the
--- first, PyTorch adds the first channel's square as well, and so does this.
--- > ml.nn.CrossMapLRN2d(3)(ml.ones(1, 4, 2, 2)).shape
---   (1, 4, 2, 2)
---@param size how many neighbouring channels take part
---@param alpha the factor of the mean square
---@param beta the exponent
---@param k what is added to the mean square
---@shape input (n, c, h, w) -> (n, c, h, w)
---@formula y_c = x_c / (k + alpha sum_i x_i^2 / size)^beta
---@source Krizhevsky et al., 2012: ImageNet classification with deep convolutional neural networks
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
