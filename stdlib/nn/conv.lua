-- stdlib/nn/conv.lua: convolutions and pooling over sequences (batch, channels, length) and images
-- (batch, channels, height, width).

local init = require "moonlet.nn.init"
local layer = require "moonlet.nn.layer"
local ml = require "moonlet"
local options = require "moonlet.options"

local layers = {}

local function check_groups(name, o)
  if o.in_channels % o.groups ~= 0 or o.out_channels % o.groups ~= 0 then
    options.fail("%s: %d input and %d output channels do not divide into %d groups", name,
      o.in_channels, o.out_channels, o.groups)
  end
end

local function pair(list)
  if #list == 1 or list[1] == list[2] then return tostring(list[1]) end
  return table.concat(list, "x")
end

local function define_conv(name, dims)
  local parameters = ("int>=1 in_channels, int>=1 out_channels, int[N]>=1 kernel_size, "
    .. "int[N]>=1 stride=1, int[N]>=0|string padding=0, int[N]>=1 dilation=1, int>=1 groups=1, "
    .. "bool bias=true"):gsub("N", tostring(dims)) .. layer.factory
  return layer.define(name, parameters, function(self, o)
    check_groups(name, o)
    for _, field in ipairs { "kernel_size", "stride", "dilation" } do self[field] = o[field] end
    self.padding = layer.padding(name, o.padding, o.kernel_size, o.stride, o.dilation)
    self.in_channels, self.out_channels, self.groups = o.in_channels, o.out_channels, o.groups
    local size = { o.out_channels, o.in_channels // o.groups, table.unpack(o.kernel_size) }
    self.weight = layer.parameter(size, o)
    if o.bias then self.bias = layer.parameter({ o.out_channels }, o) end
    self:reset_parameters()
  end)
end

--- Draws the weight and bias anew.
local function reset_parameters(self)
  local bound = 1 / math.sqrt((init.fans(self.weight)))
  init.uniform_(self.weight, -bound, bound)
  if self.bias then init.uniform_(self.bias, -bound, bound) end
end

local function extra_repr(self)
  local parts = { ("%d -> %d, kernel %s"):format(self.in_channels, self.out_channels,
    pair(self.kernel_size)) }
  for _, field in ipairs { "stride", "padding", "dilation" } do
    local plain = field == "padding" and "0" or "1"
    if pair(self[field]) ~= plain then parts[#parts + 1] = field .. " " .. pair(self[field]) end
  end
  if self.groups ~= 1 then parts[#parts + 1] = "groups " .. self.groups end
  if not self.bias then parts[#parts + 1] = "no bias" end
  return table.concat(parts, ", ")
end

--- Cross-correlation of `(n, in_channels, length)` with `out_channels` kernels: gives
--- `(n, out_channels, l)` with `l = floor((length + 2 padding - dilation (kernel_size - 1) - 1) /
--- stride) + 1`. With `groups`, each group of output channels sees its own group of input channels.
--- `padding` may be "same", which keeps the length, or "valid".
--- > ml.nn.Conv1d(2, 4, 3, { padding = 1 })(ml.ones(1, 2, 8))
---@field weight moonlet.Tensor The parameter, (out_channels, in_channels / groups, kernel_size).
---@field bias moonlet.Tensor? The parameter of shape (out_channels,); nil with `bias = false`.
layers.Conv1d = define_conv("Conv1d", 1)

function layers.Conv1d:forward(x)
  return layer.run(self, ml.conv1d, x, self.weight, self.bias, self.stride[1], self.padding[1],
    self.dilation[1], self.groups)
end

--- Cross-correlation of images `(n, in_channels, h, w)` with `out_channels` kernels: gives
--- `(n, out_channels, h2, w2)` with `h2 = floor((h + 2 padding - dilation (kernel_size - 1) - 1) /
--- stride) + 1`, and `w2` likewise. `kernel_size`, `stride`, `padding` and `dilation` are one
--- number or two, height first; `padding` may be "same", which keeps the size, or "valid". With
--- `groups`, each group of output channels sees its own group of input channels.
--- > ml.nn.Conv2d(3, 8, 3, { padding = "same" })(ml.ones(1, 3, 8, 8))
---@field weight moonlet.Tensor The parameter, (out_channels, in_channels / groups, kh, kw).
---@field bias moonlet.Tensor? The parameter of shape (out_channels,); nil with `bias = false`.
layers.Conv2d = define_conv("Conv2d", 2)

function layers.Conv2d:forward(x)
  return layer.run(self, ml.conv2d, x, self.weight, self.bias, self.stride, self.padding,
    self.dilation, self.groups)
end

for _, cls in pairs(layers) do
  cls.reset_parameters = reset_parameters
  cls.extra_repr = extra_repr
end

local function pool_repr(self)
  local parts = { "kernel " .. pair(self.kernel_size) }
  if pair(self.stride) ~= pair(self.kernel_size) then
    parts[#parts + 1] = "stride " .. pair(self.stride)
  end
  if pair(self.padding) ~= "0" then parts[#parts + 1] = "padding " .. pair(self.padding) end
  return table.concat(parts, ", ")
end

local function take_pool(self, o)
  self.kernel_size, self.stride = o.kernel_size, o.stride or o.kernel_size
  self.padding, self.ceil_mode = o.padding, o.ceil_mode
end

--- The greatest element of each window of (n, c, h, w); the stride is the window's size unless
--- given.
--- With `return_indices` the second result is each maximum's position in its flattened plane.
layers.MaxPool2d = layer.define("MaxPool2d", "int[2]>=1 kernel_size, int[2]>=1? stride=nil, "
  .. "int[2]>=0 padding=0, int[2]>=1 dilation=1, bool return_indices=false, bool ceil_mode=false",
  function(self, o)
    take_pool(self, o)
    self.dilation, self.return_indices = o.dilation, o.return_indices
  end)

function layers.MaxPool2d:forward(x)
  local op = self.return_indices and ml.max_pool2d_with_indices or ml.max_pool2d
  return layer.run(self, op, x, self.kernel_size, self.stride, self.padding,
    self.dilation, self.ceil_mode)
end

--- The mean of each window of (n, c, h, w); the stride is the window's size unless given. Padding
--- counts as zeros, or not at all with `count_include_pad = false`.
layers.AvgPool2d = layer.define("AvgPool2d", "int[2]>=1 kernel_size, int[2]>=1? stride=nil, "
  .. "int[2]>=0 padding=0, bool ceil_mode=false, bool count_include_pad=true", function(self, o)
    take_pool(self, o)
    self.count_include_pad = o.count_include_pad
  end)

function layers.AvgPool2d:forward(x)
  return layer.run(self, ml.avg_pool2d, x, self.kernel_size, self.stride, self.padding,
    self.ceil_mode, self.count_include_pad)
end

layers.MaxPool2d.extra_repr = pool_repr
layers.AvgPool2d.extra_repr = pool_repr

--- Means over windows of (n, c, h, w) chosen so that the result has the size given, (n, c, h2, w2):
--- one number or two.
layers.AdaptiveAvgPool2d = layer.define("AdaptiveAvgPool2d", "int[2]>=1 output_size",
  function(self, o) self.output_size = o.output_size end)

function layers.AdaptiveAvgPool2d:forward(x)
  return layer.run(self, ml.adaptive_avg_pool2d, x, self.output_size)
end

function layers.AdaptiveAvgPool2d:extra_repr() return "to " .. pair(self.output_size) end

return layers
