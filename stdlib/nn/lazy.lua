-- stdlib/nn/lazy.lua: layers that find out at their first call how many features come in, and are
-- the usual layers from then on.

local conv = require "moonlet.nn.conv"
local layer = require "moonlet.nn.layer"
local linear = require "moonlet.nn.linear"
local norm = require "moonlet.nn.norm"
local ml = require "moonlet"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"

local layers = {}

-- Makes the tensors of unknown shape of that module whole and the module one of class `cls`.
local function become(self, cls, sizes)
  for name, size in pairs(sizes) do
    if self[name] and parameter.is_uninitialized(self[name]) then
      parameter.materialize(self[name], size)
    end
  end
  setmetatable(self, cls)
  self:reset_parameters()
end

local function is_whole(self)
  for _, list in ipairs { self:parameters(false), self:buffers(false) } do
    for _, tensor in ipairs(list) do
      if parameter.is_uninitialized(tensor) then return false end
    end
  end
  return true
end

-- A class of layers that become ones of `cls` at the first call. `sizes(self, x)` takes what it
-- needs from the input and gives the sizes of the tensors by name. What was loaded before stays.
local function define(name, cls, parameters, init, sizes)
  local lazy = layer.define(name, parameters, init, cls)
  function lazy:forward(x, ...)
    if not ml.is_tensor(x) then
      options.fail("%s: a tensor is expected, got %s", name, type(x))
    end
    if is_whole(self) then
      sizes(self, x)
      setmetatable(self, cls)
    else
      become(self, cls, sizes(self, x))
    end
    return self:forward(x, ...)
  end
  --- Does nothing while the shapes are unknown; the layer that it becomes draws its parameters
  --- anew.
  --- > layer = ml.nn.LazyLinear(3)
  --- > layer.reset_parameters()
  --- > ml.nn.is_lazy(layer.weight)
  ---   true
  function lazy.reset_parameters() end
  return lazy
end

local function empty_parameter(o)
  return parameter.uninitialized_parameter { device = o.device, dtype = o.dtype }
end

--- `Linear` whose `in_features` is taken from its first input. Until then the weight has no shape:
--- call the layer once before you make an optimiser or count parameters. From its first call on the
--- layer is a `Linear`.
--- > ml.nn.LazyLinear(4)(ml.ones(2, 7)).shape
---   (2, 4)
---@param out_features the size of the last dimension of the output
---@param bias whether a bias is added
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input (*, in_features) -> (*, out_features)
---@formula y = x W^T + b
layers.LazyLinear = define("LazyLinear", linear.Linear,
  "int>=0 out_features, bool bias=true" .. layer.factory, function(self, o)
    self.in_features, self.out_features = 0, o.out_features
    self.weight = empty_parameter(o)
    if o.bias then self.bias = empty_parameter(o) end
  end, function(self, x)
    self.in_features = x.shape[x.ndim] or options.fail("LazyLinear: the input has no dimensions")
    return { weight = { self.out_features, self.in_features }, bias = { self.out_features } }
  end)

-- The number of channels of an input with so many dimensions of space, with a batch or without.
local function channels_of(name, x, dims)
  if x.ndim ~= dims + 1 and x.ndim ~= dims + 2 then
    options.fail("%s: expected %d or %d dimensions, got shape %s", name, dims + 1, dims + 2,
      tostring(x.shape))
  end
  return x.shape[x.ndim - dims]
end

local CONV = "int>=1 out_channels, int[N]>=1 kernel_size, int[N]>=1 stride=1, "
local kinds = {
  Conv = CONV .. "int[N]>=0|string padding=0, int[N]>=1 dilation=1, int>=1 groups=1, "
    .. 'bool bias=true, PaddingMode padding_mode="zeros"' .. layer.factory,
  ConvTranspose = CONV .. "int[N]>=0 padding=0, int[N]>=0 output_padding=0, int>=1 groups=1, "
    .. 'bool bias=true, int[N]>=1 dilation=1, PaddingMode padding_mode="zeros"' .. layer.factory,
}

local function lazy_conv(kind, dims)
  local name, usual = ("Lazy%s%dd"):format(kind, dims), ("%s%dd"):format(kind, dims)
  return define(name, conv[usual], (kinds[kind]:gsub("N", dims)), function(self, o)
    conv._set_up(self, name, o)
    self.in_channels = 0
    self.weight = empty_parameter(o)
    if o.bias then self.bias = empty_parameter(o) end
  end, function(self, x)
    self.in_channels = channels_of(name, x, dims)
    conv._check_groups(name, self)
    return { weight = conv._weight_size(self, kind == "ConvTranspose"),
      bias = { self.out_channels } }
  end)
end

--- `Conv1d` whose `in_channels` is taken from its first input. Until then the weight has no shape;
--- from the first call on the layer is a `Conv1d`.
--- > ml.nn.LazyConv1d(4, 3)(ml.ones(1, 2, 8)).shape
---   (1, 4, 6)
---@see nn.Conv1d
---@see nn.Conv1d
---@see nn.Conv1d
---@see nn.Conv1d
---@see nn.Conv1d
---@see nn.Conv1d
---@see nn.Conv1d
---@param out_channels how many channels the output has, a multiple of `groups`
---@param kernel_size the size of the kernels: one number
---@param stride the distance between the windows of neighbouring outputs
---@param padding how much to add at every side, "same" to keep the size (stride 1), or "valid" for
---   0
---@param dilation the distance between the elements of a kernel
---@param groups how many groups the channels are divided into
---@param bias whether a bias is added to each output channel
---@param padding_mode what the border is: "zeros", "reflect", "replicate" or "circular"
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input (n, c, l) or (c, l) -> (n, out_channels, l_out) or (out_channels, l_out)
---@see nn.Conv1d
layers.LazyConv1d = lazy_conv("Conv", 1)
--- `Conv2d` whose `in_channels` is taken from its first input. Until then the weight has no shape;
--- from the first call on the layer is a `Conv2d`.
--- > ml.nn.LazyConv2d(4, 3)(ml.ones(1, 2, 8, 8)).shape
---   (1, 4, 6, 6)
---@see nn.Conv2d
---@see nn.Conv2d
---@see nn.Conv2d
---@see nn.Conv2d
---@see nn.Conv2d
---@see nn.Conv2d
---@see nn.Conv2d
---@param out_channels how many channels the output has, a multiple of `groups`
---@param kernel_size the size of the kernels: one number, or { height, width }
---@param stride the distance between the windows of neighbouring outputs
---@param padding how much to add at every side, "same" to keep the size (stride 1), or "valid" for
---   0
---@param dilation the distance between the elements of a kernel
---@param groups how many groups the channels are divided into
---@param bias whether a bias is added to each output channel
---@param padding_mode what the border is: "zeros", "reflect", "replicate" or "circular"
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input (n, c, h, w) or (c, h, w) -> (n, out_channels, h_out, w_out) or (out_channels,
---   h_out, w_out)
---@see nn.Conv2d
layers.LazyConv2d = lazy_conv("Conv", 2)
--- `Conv3d` whose `in_channels` is taken from its first input. Until then the weight has no shape;
--- from the first call on the layer is a `Conv3d`.
--- > ml.nn.LazyConv3d(4, 3)(ml.ones(1, 2, 4, 8, 8)).shape
---   (1, 4, 2, 6, 6)
---@see nn.Conv3d
---@see nn.Conv3d
---@see nn.Conv3d
---@see nn.Conv3d
---@see nn.Conv3d
---@see nn.Conv3d
---@see nn.Conv3d
---@param out_channels how many channels the output has, a multiple of `groups`
---@param kernel_size the size of the kernels: one number, or { depth, height, width }
---@param stride the distance between the windows of neighbouring outputs
---@param padding how much to add at every side, "same" to keep the size (stride 1), or "valid" for
---   0
---@param dilation the distance between the elements of a kernel
---@param groups how many groups the channels are divided into
---@param bias whether a bias is added to each output channel
---@param padding_mode what the border is: "zeros", "reflect", "replicate" or "circular"
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input (n, c, d, h, w) or (c, d, h, w) -> (n, out_channels, d_out, h_out, w_out) or
---   (out_channels, d_out, h_out, w_out)
---@see nn.Conv3d
layers.LazyConv3d = lazy_conv("Conv", 3)
--- `ConvTranspose1d` whose `in_channels` is taken from its first input. Until then the weight has
--- no shape; from the first call on the layer is a `ConvTranspose1d`.
--- > ml.nn.LazyConvTranspose1d(3, 4, { stride = 2 })(ml.ones(1, 8, 7)).shape
---   (1, 3, 16)
---@see nn.ConvTranspose1d
---@see nn.ConvTranspose1d
---@see nn.ConvTranspose1d
---@see nn.ConvTranspose1d
---@see nn.ConvTranspose1d
---@see nn.ConvTranspose1d
---@see nn.ConvTranspose1d
---@param out_channels how many channels the output has, a multiple of `groups`
---@param kernel_size the size of the kernels: one number
---@param stride the distance between the windows that neighbouring inputs write to
---@param padding how much is cut off the output at every side
---@param output_padding how much is added to the output at the end of each dimension
---@param groups how many groups the channels are divided into
---@param bias whether a bias is added to each output channel
---@param dilation the distance between the elements of a kernel
---@param padding_mode only "zeros"
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input (n, c, l) or (c, l) -> (n, out_channels, l_out) or (out_channels, l_out)
---@see nn.ConvTranspose1d
layers.LazyConvTranspose1d = lazy_conv("ConvTranspose", 1)
--- `ConvTranspose2d` whose `in_channels` is taken from its first input. Until then the weight has
--- no shape; from the first call on the layer is a `ConvTranspose2d`.
--- > ml.nn.LazyConvTranspose2d(3, 4, { stride = 2 })(ml.ones(1, 8, 7, 7)).shape
---   (1, 3, 16, 16)
---@see nn.ConvTranspose2d
---@see nn.ConvTranspose2d
---@see nn.ConvTranspose2d
---@see nn.ConvTranspose2d
---@see nn.ConvTranspose2d
---@see nn.ConvTranspose2d
---@see nn.ConvTranspose2d
---@param out_channels how many channels the output has, a multiple of `groups`
---@param kernel_size the size of the kernels: one number, or { height, width }
---@param stride the distance between the windows that neighbouring inputs write to
---@param padding how much is cut off the output at every side
---@param output_padding how much is added to the output at the end of each dimension
---@param groups how many groups the channels are divided into
---@param bias whether a bias is added to each output channel
---@param dilation the distance between the elements of a kernel
---@param padding_mode only "zeros"
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input (n, c, h, w) or (c, h, w) -> (n, out_channels, h_out, w_out) or (out_channels,
---   h_out, w_out)
---@see nn.ConvTranspose2d
layers.LazyConvTranspose2d = lazy_conv("ConvTranspose", 2)
--- `ConvTranspose3d` whose `in_channels` is taken from its first input. Until then the weight has
--- no shape; from the first call on the layer is a `ConvTranspose3d`.
--- > ml.nn.LazyConvTranspose3d(3, 4, { stride = 2 })(ml.ones(1, 8, 7, 7, 7)).shape
---   (1, 3, 16, 16, 16)
---@see nn.ConvTranspose3d
---@see nn.ConvTranspose3d
---@see nn.ConvTranspose3d
---@see nn.ConvTranspose3d
---@see nn.ConvTranspose3d
---@see nn.ConvTranspose3d
---@see nn.ConvTranspose3d
---@param out_channels how many channels the output has, a multiple of `groups`
---@param kernel_size the size of the kernels: one number, or { depth, height, width }
---@param stride the distance between the windows that neighbouring inputs write to
---@param padding how much is cut off the output at every side
---@param output_padding how much is added to the output at the end of each dimension
---@param groups how many groups the channels are divided into
---@param bias whether a bias is added to each output channel
---@param dilation the distance between the elements of a kernel
---@param padding_mode only "zeros"
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@shape input (n, c, d, h, w) or (c, d, h, w) -> (n, out_channels, d_out, h_out, w_out) or
---   (out_channels, d_out, h_out, w_out)
---@see nn.ConvTranspose3d
layers.LazyConvTranspose3d = lazy_conv("ConvTranspose", 3)

-- The lazy class of norms of that kind; `plain` says whether it has parameters and statistics
-- unless told otherwise.
local function lazy_norm(kind, dims, plain)
  local name, usual = ("Lazy%s%dd"):format(kind, dims), ("%s%dd"):format(kind, dims)
  local cls = norm[usual]
  local parameters = "number>=0 eps=1e-5, number>=0<=1|bool momentum=0.1, bool affine=PLAIN, "
    .. "bool track_running_stats=PLAIN" .. layer.factory .. ", bool bias=true"
  return define(name, cls, (parameters:gsub("PLAIN", tostring(plain))),
    function(self, o)
      self.num_features, self.eps, self.momentum = 0, o.eps, o.momentum
      self.affine, self.track_running_stats = o.affine, o.track_running_stats
      if o.affine then
        self.weight = empty_parameter(o)
        if o.bias then self.bias = empty_parameter(o) end
      end
      if not o.track_running_stats then return end
      for _, field in ipairs { "running_mean", "running_var" } do
        self[field] = parameter.uninitialized_buffer { device = o.device, dtype = o.dtype }
      end
      self:register_buffer("num_batches_tracked",
        ml.zeros({}, { dtype = ml.int64, device = o.device }))
    end, function(self, x)
      if not cls._ranks[x.ndim] then
        options.fail("%s: expected %s, got shape %s", name, cls._ranks.text, tostring(x.shape))
      end
      self.num_features = x.shape[x.ndim == cls._ranks.single and 1 or 2]
      local size = { self.num_features }
      return { weight = size, bias = size, running_mean = size, running_var = size }
    end)
end

--- `BatchNorm1d` whose `num_features` is taken from its first input. Until then the parameters and
--- buffers have no shape; from the first call on the layer is a `BatchNorm1d`.
--- > ml.nn.LazyBatchNorm1d()(ml.ones(2, 4, 8)).shape
---   (2, 4, 8)
---@see nn.BatchNorm1d
---@see nn.BatchNorm1d
---@see nn.BatchNorm1d
---@see nn.BatchNorm1d
---@see nn.BatchNorm1d
---@see nn.BatchNorm1d
---@see nn.BatchNorm1d
---@param eps what is added to the variance, so that nothing is divided by 0
---@param momentum the weight of the newest batch in the running statistics; false for the mean of
---   all batches
---@param affine whether the results are scaled and shifted by learned parameters
---@param track_running_stats whether running statistics are kept for eval mode
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@param bias whether the learned shift is there, with `affine`
---@shape input (n, c) or (n, c, l) -> as input
---@see nn.BatchNorm1d
layers.LazyBatchNorm1d = lazy_norm("BatchNorm", 1, true)
--- `BatchNorm2d` whose `num_features` is taken from its first input. Until then the parameters and
--- buffers have no shape; from the first call on the layer is a `BatchNorm2d`.
--- > ml.nn.LazyBatchNorm2d()(ml.ones(2, 4, 8, 8)).shape
---   (2, 4, 8, 8)
---@see nn.BatchNorm2d
---@see nn.BatchNorm2d
---@see nn.BatchNorm2d
---@see nn.BatchNorm2d
---@see nn.BatchNorm2d
---@see nn.BatchNorm2d
---@see nn.BatchNorm2d
---@param eps what is added to the variance, so that nothing is divided by 0
---@param momentum the weight of the newest batch in the running statistics; false for the mean of
---   all batches
---@param affine whether the results are scaled and shifted by learned parameters
---@param track_running_stats whether running statistics are kept for eval mode
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@param bias whether the learned shift is there, with `affine`
---@shape input (n, c, h, w) -> as input
---@see nn.BatchNorm2d
layers.LazyBatchNorm2d = lazy_norm("BatchNorm", 2, true)
--- `BatchNorm3d` whose `num_features` is taken from its first input. Until then the parameters and
--- buffers have no shape; from the first call on the layer is a `BatchNorm3d`.
--- > ml.nn.LazyBatchNorm3d()(ml.ones(2, 4, 4, 8, 8)).shape
---   (2, 4, 4, 8, 8)
---@see nn.BatchNorm3d
---@see nn.BatchNorm3d
---@see nn.BatchNorm3d
---@see nn.BatchNorm3d
---@see nn.BatchNorm3d
---@see nn.BatchNorm3d
---@see nn.BatchNorm3d
---@param eps what is added to the variance, so that nothing is divided by 0
---@param momentum the weight of the newest batch in the running statistics; false for the mean of
---   all batches
---@param affine whether the results are scaled and shifted by learned parameters
---@param track_running_stats whether running statistics are kept for eval mode
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@param bias whether the learned shift is there, with `affine`
---@shape input (n, c, d, h, w) -> as input
---@see nn.BatchNorm3d
layers.LazyBatchNorm3d = lazy_norm("BatchNorm", 3, true)
--- `InstanceNorm1d` whose `num_features` is taken from its first input. Until then the parameters
--- and buffers have no shape; from the first call on the layer is a `InstanceNorm1d`.
--- > ml.nn.LazyInstanceNorm1d()(ml.ones(2, 4, 8)).shape
---   (2, 4, 8)
---@see nn.InstanceNorm1d
---@see nn.InstanceNorm1d
---@see nn.InstanceNorm1d
---@see nn.InstanceNorm1d
---@see nn.InstanceNorm1d
---@see nn.InstanceNorm1d
---@see nn.InstanceNorm1d
---@param eps what is added to the variance, so that nothing is divided by 0
---@param momentum the weight of the newest batch in the running statistics; false for the mean of
---   all batches
---@param affine whether the results are scaled and shifted by learned parameters
---@param track_running_stats whether running statistics are kept for eval mode
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@param bias whether the learned shift is there, with `affine`
---@shape input (n, c, l) or (c, l) -> as input
---@see nn.InstanceNorm1d
layers.LazyInstanceNorm1d = lazy_norm("InstanceNorm", 1, false)
--- `InstanceNorm2d` whose `num_features` is taken from its first input. Until then the parameters
--- and buffers have no shape; from the first call on the layer is a `InstanceNorm2d`.
--- > ml.nn.LazyInstanceNorm2d()(ml.ones(2, 4, 8, 8)).shape
---   (2, 4, 8, 8)
---@see nn.InstanceNorm2d
---@see nn.InstanceNorm2d
---@see nn.InstanceNorm2d
---@see nn.InstanceNorm2d
---@see nn.InstanceNorm2d
---@see nn.InstanceNorm2d
---@see nn.InstanceNorm2d
---@param eps what is added to the variance, so that nothing is divided by 0
---@param momentum the weight of the newest batch in the running statistics; false for the mean of
---   all batches
---@param affine whether the results are scaled and shifted by learned parameters
---@param track_running_stats whether running statistics are kept for eval mode
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@param bias whether the learned shift is there, with `affine`
---@shape input (n, c, h, w) or (c, h, w) -> as input
---@see nn.InstanceNorm2d
layers.LazyInstanceNorm2d = lazy_norm("InstanceNorm", 2, false)
--- `InstanceNorm3d` whose `num_features` is taken from its first input. Until then the parameters
--- and buffers have no shape; from the first call on the layer is a `InstanceNorm3d`.
--- > ml.nn.LazyInstanceNorm3d()(ml.ones(2, 4, 4, 8, 8)).shape
---   (2, 4, 4, 8, 8)
---@see nn.InstanceNorm3d
---@see nn.InstanceNorm3d
---@see nn.InstanceNorm3d
---@see nn.InstanceNorm3d
---@see nn.InstanceNorm3d
---@see nn.InstanceNorm3d
---@see nn.InstanceNorm3d
---@param eps what is added to the variance, so that nothing is divided by 0
---@param momentum the weight of the newest batch in the running statistics; false for the mean of
---   all batches
---@param affine whether the results are scaled and shifted by learned parameters
---@param track_running_stats whether running statistics are kept for eval mode
---@param device where the parameters and buffers are made: the default device unless given
---@param dtype the dtype of the parameters and buffers: the default dtype unless given
---@param bias whether the learned shift is there, with `affine`
---@shape input (n, c, d, h, w) or (c, d, h, w) -> as input
---@see nn.InstanceNorm3d
layers.LazyInstanceNorm3d = lazy_norm("InstanceNorm", 3, false)

return layers
