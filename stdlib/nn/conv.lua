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

--- Draws the weight and bias anew, evenly within 1 over the root of the inputs of each output.
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

--- Cross-correlation of `(n, in_channels, length)` with `out_channels` kernels: gives
--- `(n, out_channels, l)` with `l = floor((length + 2 padding - dilation (kernel_size - 1) - 1) /
--- stride) + 1`. With `groups`, each group of output channels sees its own group of input channels.
--- `padding` may be "same", which keeps the length, or "valid"; `padding_mode` says what it is made
--- of: "zeros", "reflect", "replicate" or "circular".
--- > ml.nn.Conv1d(2, 4, 3, { padding = 1 })(ml.ones(1, 2, 8))
---@field weight moonlet.Tensor The parameter, (out_channels, in_channels / groups, kernel_size).
---@field bias moonlet.Tensor? The parameter of shape (out_channels,); nil with `bias = false`.
layers.Conv1d = convolution(1)

--- Cross-correlation of images `(n, in_channels, h, w)` with `out_channels` kernels: gives
--- `(n, out_channels, h2, w2)` with `h2 = floor((h + 2 padding - dilation (kernel_size - 1) - 1) /
--- stride) + 1`, and `w2` likewise. `kernel_size`, `stride`, `padding` and `dilation` are one
--- number or two, height first; `padding` may be "same", which keeps the size, or "valid", and
--- `padding_mode` "zeros", "reflect", "replicate" or "circular". With `groups`, each group of
--- output channels sees its own group of input channels.
--- > ml.nn.Conv2d(3, 8, 3, { padding = "same" })(ml.ones(1, 3, 8, 8))
---@field weight moonlet.Tensor The parameter, (out_channels, in_channels / groups, kh, kw).
---@field bias moonlet.Tensor? The parameter of shape (out_channels,); nil with `bias = false`.
layers.Conv2d = convolution(2)

--- Cross-correlation of `(n, in_channels, d, h, w)` with `out_channels` kernels, with the options
--- of `Conv2d` for three dimensions.
---@field weight moonlet.Tensor The parameter, (out_channels, in_channels / groups, kd, kh, kw).
---@field bias moonlet.Tensor? The parameter of shape (out_channels,); nil with `bias = false`.
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

--- The transposed convolution of `(n, in_channels, length)`: each element adds its multiple of the
--- kernel, so that `(n, out_channels, l)` comes out with `l = (length - 1) stride - 2 padding +
--- dilation (kernel_size - 1) + output_padding + 1`. Called with `output_size` as well, it takes
--- the output padding that gives it.
---@field weight moonlet.Tensor The parameter, (in_channels, out_channels / groups, kernel_size).
---@field bias moonlet.Tensor? The parameter of shape (out_channels,); nil with `bias = false`.
layers.ConvTranspose1d = transposed(1)

--- The transposed convolution of images `(n, in_channels, h, w)`: each element adds its multiple of
--- the kernel. The sizes are those of `ConvTranspose1d`.
--- > ml.nn.ConvTranspose2d(8, 3, 4, { stride = 2, padding = 1 })(ml.ones(1, 8, 7, 7)).shape
---@field weight moonlet.Tensor The parameter, (in_channels, out_channels / groups, kh, kw).
---@field bias moonlet.Tensor? The parameter of shape (out_channels,); nil with `bias = false`.
layers.ConvTranspose2d = transposed(2)

--- The transposed convolution of `(n, in_channels, d, h, w)`: as `ConvTranspose2d`.
---@field weight moonlet.Tensor The parameter, (in_channels, out_channels / groups, kd, kh, kw).
---@field bias moonlet.Tensor? The parameter of shape (out_channels,); nil with `bias = false`.
layers.ConvTranspose3d = transposed(3)

layers._set_up, layers._check_groups, layers._weight_size = set_up, check_groups, weight_size

return layers
