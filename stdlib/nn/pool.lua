-- stdlib/nn/pool.lua: pooling layers: the greatest elements, means and norms of windows of
-- sequences, images and volumes, with a batch or without, and what undoes them.

local layer = require "moonlet.nn.layer"
local ml = require "moonlet"

local layers = {}

-- The class `kind` .. dims .. "d", which calls the function of that snake_case name; N in its
-- declaration is `dims`.
local function define(kind, called, dims, parameters, inputs)
  return (layer.functional(("%s%dd"):format(kind, dims), ("%s%dd"):format(called, dims),
    (parameters:gsub("N", dims)), inputs))
end

local WINDOW = "int[N]>=1 kernel_size, int[N]>=1? stride=nil"

local function max_pool(dims)
  local cls = define("MaxPool", "max_pool", dims, WINDOW .. ", int[N]>=0 padding=0, "
    .. "int[N]>=1 dilation=1, bool return_indices=false, bool ceil_mode=false")
  local general, op = cls.forward, ml[("max_pool%dd"):format(dims)]
  -- The usual case calls the op itself.
  function cls:forward(x, ...)
    if self.return_indices or select("#", ...) > 0 then return general(self, x, ...) end
    return layer.run(self, op, x, self.kernel_size, self.stride, self.padding, self.dilation,
      self.ceil_mode)
  end
  return cls
end

--- The greatest element of each window of (..., l); the stride is the window's size unless given.
--- With `return_indices` the second result is each maximum's position in its line.
layers.MaxPool1d = max_pool(1)
--- The greatest element of each window of (..., h, w); the stride is the window's size unless
--- given. With `return_indices` the second result is each maximum's position in its flattened
--- plane.
layers.MaxPool2d = max_pool(2)
--- The greatest element of each window of (..., d, h, w); the stride is the window's size unless
--- given. With `return_indices` the second result is each maximum's position in its flattened body.
layers.MaxPool3d = max_pool(3)

local function avg_pool(dims)
  return define("AvgPool", "avg_pool", dims, WINDOW .. ", int[N]>=0 padding=0, "
    .. "bool ceil_mode=false, bool count_include_pad=true"
    .. (dims == 1 and "" or ", int? divisor_override=nil"))
end

--- The mean of each window of (..., l); the stride is the window's size unless given. Padding
--- counts as zeros, or not at all with `count_include_pad = false`.
layers.AvgPool1d = avg_pool(1)
--- The mean of each window of (..., h, w), or its sum divided by `divisor_override`; the stride is
--- the window's size unless given. Padding counts as zeros, or not at all with `count_include_pad =
--- false`.
layers.AvgPool2d = avg_pool(2)
--- The mean of each window of (..., d, h, w), with the options of `AvgPool2d`.
layers.AvgPool3d = avg_pool(3)

local function lp_pool(dims)
  return define("LPPool", "lp_pool", dims, "number norm_type, " .. WINDOW
    .. ", bool ceil_mode=false")
end

--- The `norm_type`-norm of each window of (..., l).
layers.LPPool1d = lp_pool(1)
--- The `norm_type`-norm of each window of (..., h, w).
layers.LPPool2d = lp_pool(2)
--- The `norm_type`-norm of each window of (..., d, h, w).
layers.LPPool3d = lp_pool(3)

local function adaptive(kind, called, dims, options)
  return define(kind, called, dims, "any output_size" .. (options or ""))
end

--- Means over windows of (..., l) chosen so that the result has `output_size` elements.
layers.AdaptiveAvgPool1d = adaptive("AdaptiveAvgPool", "adaptive_avg_pool", 1)
--- Means over windows of (..., h, w) chosen so that the result has the size given: one number or
--- two, where false keeps the input's.
layers.AdaptiveAvgPool2d = adaptive("AdaptiveAvgPool", "adaptive_avg_pool", 2)
--- Means over windows of (..., d, h, w) chosen so that the result has the size given: one number or
--- three, where false keeps the input's.
layers.AdaptiveAvgPool3d = adaptive("AdaptiveAvgPool", "adaptive_avg_pool", 3)

local INDICES = ", bool return_indices=false"

--- Maxima over windows of (..., l) chosen so that the result has `output_size` elements; with
--- `return_indices` also their positions.
layers.AdaptiveMaxPool1d = adaptive("AdaptiveMaxPool", "adaptive_max_pool", 1, INDICES)
--- Maxima over windows of (..., h, w) chosen so that the result has the size given: one number or
--- two, where false keeps the input's; with `return_indices` also their positions in the flattened
--- plane.
layers.AdaptiveMaxPool2d = adaptive("AdaptiveMaxPool", "adaptive_max_pool", 2, INDICES)
--- Maxima over windows of (..., d, h, w) chosen so that the result has the size given: one number
--- or three, where false keeps the input's; with `return_indices` also their positions in the
--- flattened body.
layers.AdaptiveMaxPool3d = adaptive("AdaptiveMaxPool", "adaptive_max_pool", 3, INDICES)

local function fractional(dims)
  return define("FractionalMaxPool", "fractional_max_pool", dims, "int[N]>=1 kernel_size, "
    .. "int[N]>=1? output_size=nil, number[N]>0<=1? output_ratio=nil, bool return_indices=false, "
    .. "Tensor? _random_samples=nil")
end

--- Maxima over windows at random positions of (..., h, w), so that the result has `output_size`, or
--- the input's size times `output_ratio` (Graham, Fractional Max-Pooling, 2014).
layers.FractionalMaxPool2d = fractional(2)
--- Maxima over windows at random positions of (..., d, h, w), so that the result has `output_size`,
--- or the input's size times `output_ratio`.
layers.FractionalMaxPool3d = fractional(3)

local function unpool(dims)
  return define("MaxUnpool", "max_unpool", dims, WINDOW .. ", int[N]>=0 padding=0", 3)
end

--- Undoes `MaxPool1d`: `unpool(x, indices, output_size)` gives zeros with the elements of `x` at
--- `indices`, the positions that the pooling gave.
layers.MaxUnpool1d = unpool(1)
--- Undoes `MaxPool2d`: `unpool(x, indices, output_size)` gives zeros with the elements of `x` at
--- `indices`; `output_size` is wanted where several sizes give that of `x`.
layers.MaxUnpool2d = unpool(2)
--- Undoes `MaxPool3d`, as `MaxUnpool2d` does `MaxPool2d`.
layers.MaxUnpool3d = unpool(3)

return layers
