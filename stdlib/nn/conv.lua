-- stdlib/nn/conv.lua: convolutions and transposed convolutions of sequences, images and volumes,
-- with a batch or without.

local init = require "moonlet.nn.init"
local layer = require "moonlet.nn.layer"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"

local layers = {}

signature.add_choice("PaddingMode", { "zeros", "reflect", "replicate", "circular" })

local function check_groups(name, o)
  if o.in_channels % o.groups ~= 0 or o.out_channels % o.groups ~= 0 then
    options.fail("%s: %d input and %d output channels do not divide into %d groups", name,
      o.in_channels, o.out_channels, o.groups)
  end
end

local function check_padding(name, o)
  if o.output_padding and o.padding_mode ~= "zeros" then
    options.fail("%s: the only 'padding_mode' is \"zeros\", got %q", name, o.padding_mode)
  end
  if type(o.padding) ~= "string" then return end
  if o.padding ~= "valid" and o.padding ~= "same" then
    options.fail("%s: 'padding' must be numbers, \"same\" or \"valid\", got %q", name, o.padding)
  end
  for _, step in ipairs(o.stride) do
    if o.padding == "same" and step ~= 1 then
      options.fail("%s: padding \"same\" wants stride 1", name)
    end
  end
end

local function pair(list)
  if type(list) == "string" then return list end
  for _, value in ipairs(list) do
    if value ~= list[1] then return table.concat(list, "x") end
  end
  return tostring(list[1])
end

local FIELDS = { "in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation",
  "groups", "padding_mode", "output_padding" }

-- The fields of a new layer from its arguments; what it holds besides is made by `parameters`.
local function set_up(self, name, o)
  check_padding(name, o)
  for _, field in ipairs(FIELDS) do rawset(self, field, o[field]) end
end

-- What a border that is not of zeros adds to each end: of the last dimension first.
local function border_of(self)
  local out, count = {}, #self.kernel_size
  for i = count, 1, -1 do
    local before, after = 0, 0
    if self.padding == "same" then
      before, after = ml._same_padding(self.kernel_size[i], self.dilation[i])
    elseif self.padding ~= "valid" then
      before, after = self.padding[i], self.padding[i]
    end
    out[#out + 1], out[#out + 2] = before, after
  end
  return out
end

--- Draws the weight and the bias anew, as the constructor does.
local function reset_parameters(self)
  local fan_in = init.fans(self.weight)
  if fan_in == 0 then return end
  local bound = 1 / math.sqrt(fan_in)
  init.uniform_(self.weight, -bound, bound)
  if self.bias then init.uniform_(self.bias, -bound, bound) end
end

local function extra_repr(self)
  local parts = { ("%d -> %d, kernel %s"):format(self.in_channels, self.out_channels,
    pair(self.kernel_size)) }
  for _, field in ipairs { "stride", "padding", "dilation", "output_padding" } do
    local plain = field:find "padding" and "0" or "1"
    local text = self[field] and pair(self[field]) or plain
    if text ~= plain then parts[#parts + 1] = field .. " " .. text end
  end
  if self.groups ~= 1 then parts[#parts + 1] = "groups " .. self.groups end
  if not self.bias then parts[#parts + 1] = "no bias" end
  if self.padding_mode ~= "zeros" then parts[#parts + 1] = self.padding_mode end
  return table.concat(parts, ", ")
end

local function finish(cls)
  cls.reset_parameters = reset_parameters
  cls.extra_repr = extra_repr
end

-- The weight's size: of a transposed convolution the channels of the input come first.
local function weight_size(self, transposed)
  local from, to = self.in_channels, self.out_channels
  if transposed then from, to = to, from end
  return { to, from // self.groups, table.unpack(self.kernel_size) }
end

local function make_parameters(self, name, o, transposed)
  check_groups(name, o)
  self.weight = layer.parameter(weight_size(self, transposed), o)
  if o.bias then self.bias = layer.parameter({ o.out_channels }, o) end
  self:reset_parameters()
end

local function in_dims(text, dims) return (text:gsub("N", dims)) end

local function convolution(dims)
  local name = ("Conv%dd"):format(dims)
  local op = ml[("conv%dd"):format(dims)]
  local cls = layer.define(name, in_dims("int>=1 in_channels, int>=1 out_channels, "
    .. "int[N]>=1 kernel_size, int[N]>=1 stride=1, int[N]>=0|string padding=0, "
    .. "int[N]>=1 dilation=1, int>=1 groups=1, bool bias=true, "
    .. 'PaddingMode padding_mode="zeros"' .. layer.factory, dims), function(self, o)
      set_up(self, name, o)
      make_parameters(self, name, o)
    end)
  local function padded(self, x)
    return op(ml.pad(x, border_of(self), self.padding_mode), self.weight, self.bias, self.stride,
      0, self.dilation, self.groups)
  end
  function cls:forward(x)
    if self.padding_mode ~= "zeros" then return layer.run(self, padded, self, x) end
    return layer.run(self, op, x, self.weight, self.bias, self.stride, self.padding,
      self.dilation, self.groups)
  end
  finish(cls)
  return cls
end

--- Convolution of sequences: cross-correlation of the input channels with learned kernels. The
--- kernels are not flipped, as in all libraries of neural networks. With `groups`, each group of
--- output channels sees its own group of input channels; with `groups = in_channels` the
--- convolution is depthwise. The weight and the bias start from the uniform distribution between -k
--- and k with k = sqrt(groups / (in_channels prod(kernel_size))).
--- > ml.nn.Conv1d(2, 4, 3, { padding = 1 })(ml.ones(1, 2, 8)).shape
---   (1, 4, 8)
---@param in_channels how many channels the input has, a multiple of `groups`
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
---@shape input (n, in_channels, l) or (in_channels, l) -> (n, out_channels, l_out) or
---   (out_channels, l_out)
---@formula y_o(i) = b_o + sum_c sum_k W_oc(k) x_c(stride i + dilation k - padding)
---@formula l_out = floor((l + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1
---@error the channels of the input are not `in_channels`, or the window is larger than the padded
---   input
---@field weight moonlet.Tensor The parameter W, (out_channels, in_channels / groups, kernel_size).
---@field bias moonlet.Tensor? The parameter b of shape (out_channels,); nil with `bias = false`.
layers.Conv1d = convolution(1)

--- Convolution of images: cross-correlation of the input channels with learned kernels. The kernels
--- are not flipped, as in all libraries of neural networks. With `groups`, each group of output
--- channels sees its own group of input channels; with `groups = in_channels` the convolution is
--- depthwise. The weight and the bias start from the uniform distribution between -k and k with k =
--- sqrt(groups / (in_channels prod(kernel_size))).
--- > ml.nn.Conv2d(3, 8, 3, { padding = "same" })(ml.ones(1, 3, 8, 8)).shape
---   (1, 8, 8, 8)
---@param in_channels how many channels the input has, a multiple of `groups`
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
---@shape input (n, in_channels, h, w) or (in_channels, h, w) -> (n, out_channels, h_out, w_out) or
---   (out_channels, h_out, w_out)
---@formula y_o(i) = b_o + sum_c sum_k W_oc(k) x_c(stride i + dilation k - padding)
---@formula size_out = floor((size + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1
---@formula for each of h, w
---@error the channels of the input are not `in_channels`, or the window is larger than the padded
---   input
---@field weight moonlet.Tensor The parameter W, (out_channels, in_channels / groups, kh, kw).
---@field bias moonlet.Tensor? The parameter b of shape (out_channels,); nil with `bias = false`.
layers.Conv2d = convolution(2)

--- Convolution of volumes: cross-correlation of the input channels with learned kernels. The
--- kernels are not flipped, as in all libraries of neural networks. With `groups`, each group of
--- output channels sees its own group of input channels; with `groups = in_channels` the
--- convolution is depthwise. The weight and the bias start from the uniform distribution between -k
--- and k with k = sqrt(groups / (in_channels prod(kernel_size))).
--- > ml.nn.Conv3d(3, 8, 3, { padding = 1, stride = 2 })(ml.ones(1, 3, 4, 8, 8)).shape
---   (1, 8, 2, 4, 4)
---@param in_channels how many channels the input has, a multiple of `groups`
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
---@shape input (n, in_channels, d, h, w) or (in_channels, d, h, w) -> (n, out_channels, d_out,
---   h_out, w_out) or (out_channels, d_out, h_out, w_out)
---@formula y_o(i) = b_o + sum_c sum_k W_oc(k) x_c(stride i + dilation k - padding)
---@formula size_out = floor((size + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1
---@formula for each of d, h, w
---@error the channels of the input are not `in_channels`, or the window is larger than the padded
---   input
---@field weight moonlet.Tensor The parameter W, (out_channels, in_channels / groups, kd, kh, kw).
---@field bias moonlet.Tensor? The parameter b of shape (out_channels,); nil with `bias = false`.
layers.Conv3d = convolution(3)

-- The output padding with which the result has the size asked for, of the last dimensions.
local function padding_for(self, x, wanted)
  local dims, out = #self.kernel_size, {}
  if #wanted == dims + 2 and x.ndim == dims + 2 or #wanted == dims + 1 and x.ndim == dims + 1 then
    wanted = { table.unpack(wanted, #wanted - dims + 1) }
  end
  if #wanted ~= dims then
    options.fail("%s: 'output_size' has %d numbers, %d are expected", self:describe(), #wanted,
      dims)
  end
  for i = 1, dims do
    local least = (x.shape[x.ndim - dims + i] - 1) * self.stride[i] - 2 * self.padding[i]
      + self.dilation[i] * (self.kernel_size[i] - 1) + 1
    out[i] = wanted[i] - least
    if out[i] < 0 or out[i] >= self.stride[i] then
      options.fail("%s: 'output_size' %d of dimension %d is not from %d to %d", self:describe(),
        wanted[i], i, least, least + self.stride[i] - 1)
    end
  end
  return out
end

local function transposed(dims)
  local name = ("ConvTranspose%dd"):format(dims)
  local op = ml[("conv_transpose%dd"):format(dims)]
  local read_forward = signature(name .. ":forward(Tensor input, int[]>=0? output_size=nil)")
  local cls = layer.define(name, in_dims("int>=1 in_channels, int>=1 out_channels, "
    .. "int[N]>=1 kernel_size, int[N]>=1 stride=1, int[N]>=0 padding=0, "
    .. "int[N]>=0 output_padding=0, int>=1 groups=1, bool bias=true, int[N]>=1 dilation=1, "
    .. 'PaddingMode padding_mode="zeros"' .. layer.factory, dims), function(self, o)
      set_up(self, name, o)
      make_parameters(self, name, o, true)
    end)
  cls._inputs = nil

  function cls:forward(...)
    local x, size = read_forward(...)
    local extra = size and padding_for(self, x, size) or self.output_padding
    return layer.run(self, op, x, self.weight, self.bias, self.stride, self.padding, extra,
      self.groups, self.dilation)
  end
  finish(cls)
  return cls
end

--- Transposed convolution of sequences: the gradient of a convolution with respect to its input.
--- Each input element adds its multiple of the kernel to the output, so that a `stride` above 1
--- enlarges. Called with `output_size` as its second argument, it takes the output padding that
--- gives this size. The weight and the bias start from the uniform distribution between -k and k
--- with k = sqrt(groups / (out_channels prod(kernel_size))).
--- > ml.nn.ConvTranspose1d(8, 3, 4, { stride = 2, padding = 1 })(ml.ones(1, 8, 7)).shape
---   (1, 3, 14)
---@param in_channels how many channels the input has, a multiple of `groups`
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
---@shape input (n, in_channels, l) or (in_channels, l) -> (n, out_channels, l_out) or
---   (out_channels, l_out)
---@formula l_out = (l - 1) stride - 2 padding + dilation (kernel_size - 1) + extra + 1
---@formula extra = output_padding
---@error `output_size` is not one that a convolution with these options maps to the size of the
---   input
---@source Zeiler et al., 2010: Deconvolutional networks
---@field weight moonlet.Tensor The parameter, (in_channels, out_channels / groups, kernel_size).
---@field bias moonlet.Tensor? The parameter of shape (out_channels,); nil with `bias = false`.
layers.ConvTranspose1d = transposed(1)

--- Transposed convolution of images: the gradient of a convolution with respect to its input. Each
--- input element adds its multiple of the kernel to the output, so that a `stride` above 1
--- enlarges. Called with `output_size` as its second argument, it takes the output padding that
--- gives this size. The weight and the bias start from the uniform distribution between -k and k
--- with k = sqrt(groups / (out_channels prod(kernel_size))).
--- > ml.nn.ConvTranspose2d(8, 3, 4, { stride = 2, padding = 1 })(ml.ones(1, 8, 7, 7)).shape
---   (1, 3, 14, 14)
---@param in_channels how many channels the input has, a multiple of `groups`
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
---@shape input (n, in_channels, h, w) or (in_channels, h, w) -> (n, out_channels, h_out, w_out) or
---   (out_channels, h_out, w_out)
---@formula size_out = (size - 1) stride - 2 padding + dilation (kernel_size - 1) + extra + 1
---@formula for each of h, w
---@formula extra = output_padding
---@error `output_size` is not one that a convolution with these options maps to the size of the
---   input
---@source Zeiler et al., 2010: Deconvolutional networks
---@field weight moonlet.Tensor The parameter, (in_channels, out_channels / groups, kh, kw).
---@field bias moonlet.Tensor? The parameter of shape (out_channels,); nil with `bias = false`.
layers.ConvTranspose2d = transposed(2)

--- Transposed convolution of volumes: the gradient of a convolution with respect to its input. Each
--- input element adds its multiple of the kernel to the output, so that a `stride` above 1
--- enlarges. Called with `output_size` as its second argument, it takes the output padding that
--- gives this size. The weight and the bias start from the uniform distribution between -k and k
--- with k = sqrt(groups / (out_channels prod(kernel_size))).
--- > ml.nn.ConvTranspose3d(8, 3, 4, { stride = 2, padding = 1 })(ml.ones(1, 8, 7, 7, 7)).shape
---   (1, 3, 14, 14, 14)
---@param in_channels how many channels the input has, a multiple of `groups`
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
---@shape input (n, in_channels, d, h, w) or (in_channels, d, h, w) -> (n, out_channels, d_out,
---   h_out, w_out) or (out_channels, d_out, h_out, w_out)
---@formula size_out = (size - 1) stride - 2 padding + dilation (kernel_size - 1) + extra + 1
---@formula for each of d, h, w
---@formula extra = output_padding
---@error `output_size` is not one that a convolution with these options maps to the size of the
---   input
---@source Zeiler et al., 2010: Deconvolutional networks
---@field weight moonlet.Tensor The parameter, (in_channels, out_channels / groups, kd, kh, kw).
---@field bias moonlet.Tensor? The parameter of shape (out_channels,); nil with `bias = false`.
layers.ConvTranspose3d = transposed(3)

layers._set_up, layers._check_groups, layers._weight_size = set_up, check_groups, weight_size

return layers
