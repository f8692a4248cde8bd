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

--- Max pooling of sequences: the maximum of each window. Padding counts as minus infinity. With
--- `return_indices` the second result has the index of each maximum, from 1, in its sequence, for
--- `MaxUnpool1d`.
--- > ml.nn.MaxPool1d(2)(ml.tensor { { 1.0, 3, 2, 4 } })
---   {{3., 4.}}
---   Tensor (1, 2) float32
---@param kernel_size the size of a window: one number
---@param stride the distance between windows: the window's size unless given
---@param padding how much to add at every side, at most half the window
---@param dilation the distance between the elements of a window
---@param return_indices whether the indices of the maxima are a second result
---@param ceil_mode whether the output size is rounded up, so that a last window may reach over the
---   end
---@shape input (n, c, l) or (c, l) -> (n, c, l_out) or (c, l_out)
---@formula y = max over the window of x
---@formula l_out = floor((l + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1
layers.MaxPool1d = max_pool(1)
--- Max pooling of images: the maximum of each window. Padding counts as minus infinity. With
--- `return_indices` the second result has the index of each maximum, from 1, in the flattened
--- image, for `MaxUnpool2d`.
--- > ml.nn.MaxPool2d(2)(ml.arange(1.0, 16):view(1, 4, 4))
---   {{{ 6.,  8.},
---     {14., 16.}}}
---   Tensor (1, 2, 2) float32
---@param kernel_size the size of a window: one number, or { height, width }
---@param stride the distance between windows: the window's size unless given
---@param padding how much to add at every side, at most half the window
---@param dilation the distance between the elements of a window
---@param return_indices whether the indices of the maxima are a second result
---@param ceil_mode whether the output size is rounded up, so that a last window may reach over the
---   end
---@shape input (n, c, h, w) or (c, h, w) -> (n, c, h_out, w_out) or (c, h_out, w_out)
---@formula y = max over the window of x
---@formula size_out = floor((size + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1
---@formula for each of h, w
layers.MaxPool2d = max_pool(2)
--- Max pooling of volumes: the maximum of each window. Padding counts as minus infinity. With
--- `return_indices` the second result has the index of each maximum, from 1, in the flattened
--- volume, for `MaxUnpool3d`.
--- > ml.nn.MaxPool3d(2)(ml.arange(1.0, 8):view(1, 2, 2, 2))
---   {{{{8.}}}}
---   Tensor (1, 1, 1, 1) float32
---@param kernel_size the size of a window: one number, or { depth, height, width }
---@param stride the distance between windows: the window's size unless given
---@param padding how much to add at every side, at most half the window
---@param dilation the distance between the elements of a window
---@param return_indices whether the indices of the maxima are a second result
---@param ceil_mode whether the output size is rounded up, so that a last window may reach over the
---   end
---@shape input (n, c, d, h, w) or (c, d, h, w) -> (n, c, d_out, h_out, w_out) or (c, d_out, h_out,
---   w_out)
---@formula y = max over the window of x
---@formula size_out = floor((size + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1
---@formula for each of d, h, w
layers.MaxPool3d = max_pool(3)

local function avg_pool(dims)
  return define("AvgPool", "avg_pool", dims, WINDOW .. ", int[N]>=0 padding=0, "
    .. "bool ceil_mode=false, bool count_include_pad=true"
    .. (dims == 1 and "" or ", int? divisor_override=nil"))
end

--- Average pooling of sequences: the mean of each window.
--- > ml.nn.AvgPool1d(2)(ml.tensor { { 1.0, 3, 2, 4 } })
---   {{2., 3.}}
---   Tensor (1, 2) float32
---@param kernel_size the size of a window: one number
---@param stride the distance between windows: the window's size unless given
---@param padding how many zeros to add at every side, at most half the window
---@param ceil_mode whether the output size is rounded up, so that a last window may reach over the
---   end
---@param count_include_pad whether padding counts as zeros in the mean, or not at all
---@shape input (n, c, l) or (c, l) -> (n, c, l_out) or (c, l_out)
---@formula y = (sum over the window of x) / prod(kernel_size)
---@formula l_out = floor((l + 2 padding - kernel_size) / stride) + 1
layers.AvgPool1d = avg_pool(1)
--- Average pooling of images: the mean of each window.
--- > ml.nn.AvgPool2d(2)(ml.arange(1.0, 16):view(1, 4, 4))
---   {{{ 3.5000,  5.5000},
---     {11.5000, 13.5000}}}
---   Tensor (1, 2, 2) float32
---@param kernel_size the size of a window: one number, or { height, width }
---@param stride the distance between windows: the window's size unless given
---@param padding how many zeros to add at every side, at most half the window
---@param ceil_mode whether the output size is rounded up, so that a last window may reach over the
---   end
---@param count_include_pad whether padding counts as zeros in the mean, or not at all
---@param divisor_override what the sum is divided by: the number of elements unless given
---@shape input (n, c, h, w) or (c, h, w) -> (n, c, h_out, w_out) or (c, h_out, w_out)
---@formula y = (sum over the window of x) / prod(kernel_size)
---@formula size_out = floor((size + 2 padding - kernel_size) / stride) + 1
---@formula for each of h, w
layers.AvgPool2d = avg_pool(2)
--- Average pooling of volumes: the mean of each window.
--- > ml.nn.AvgPool3d(2)(ml.arange(1.0, 8):view(1, 2, 2, 2))
---   {{{{4.5000}}}}
---   Tensor (1, 1, 1, 1) float32
---@param kernel_size the size of a window: one number, or { depth, height, width }
---@param stride the distance between windows: the window's size unless given
---@param padding how many zeros to add at every side, at most half the window
---@param ceil_mode whether the output size is rounded up, so that a last window may reach over the
---   end
---@param count_include_pad whether padding counts as zeros in the mean, or not at all
---@param divisor_override what the sum is divided by: the number of elements unless given
---@shape input (n, c, d, h, w) or (c, d, h, w) -> (n, c, d_out, h_out, w_out) or (c, d_out, h_out,
---   w_out)
---@formula y = (sum over the window of x) / prod(kernel_size)
---@formula size_out = floor((size + 2 padding - kernel_size) / stride) + 1
---@formula for each of d, h, w
layers.AvgPool3d = avg_pool(3)

local function lp_pool(dims)
  return define("LPPool", "lp_pool", dims, "number norm_type, " .. WINDOW
    .. ", bool ceil_mode=false")
end

--- Power-average pooling of sequences: the p-norm of each window.
--- > ml.nn.LPPool1d(2, 2)(ml.tensor { { 1.0, 3, 2, 4 } })
---   {{3.1623, 4.4721}}
---   Tensor (1, 2) float32
---@param norm_type the exponent p, above 0; 1 gives sums
---@param kernel_size the size of a window: one number
---@param stride the distance between windows: the window's size unless given
---@param ceil_mode whether the output size is rounded up, so that a last window may reach over the
---   end
---@shape input (n, c, l) or (c, l) -> (n, c, l_out) or (c, l_out)
---@formula y = (sum over the window of x^p)^(1/p)
---@formula l_out = floor((l - kernel_size) / stride) + 1
layers.LPPool1d = lp_pool(1)
--- Power-average pooling of images: the p-norm of each window.
--- > ml.nn.LPPool2d(2, 2)(ml.arange(1.0, 16):view(1, 4, 4))
---   {{{ 8.1240, 11.7473},
---     {23.3666, 27.3130}}}
---   Tensor (1, 2, 2) float32
---@param norm_type the exponent p, above 0; 1 gives sums
---@param kernel_size the size of a window: one number, or { height, width }
---@param stride the distance between windows: the window's size unless given
---@param ceil_mode whether the output size is rounded up, so that a last window may reach over the
---   end
---@shape input (n, c, h, w) or (c, h, w) -> (n, c, h_out, w_out) or (c, h_out, w_out)
---@formula y = (sum over the window of x^p)^(1/p)
---@formula size_out = floor((size - kernel_size) / stride) + 1
---@formula for each of h, w
layers.LPPool2d = lp_pool(2)
--- Power-average pooling of volumes: the p-norm of each window.
--- > ml.nn.LPPool3d(2, 2)(ml.arange(1.0, 8):view(1, 2, 2, 2))
---   {{{{14.2829}}}}
---   Tensor (1, 1, 1, 1) float32
---@param norm_type the exponent p, above 0; 1 gives sums
---@param kernel_size the size of a window: one number, or { depth, height, width }
---@param stride the distance between windows: the window's size unless given
---@param ceil_mode whether the output size is rounded up, so that a last window may reach over the
---   end
---@shape input (n, c, d, h, w) or (c, d, h, w) -> (n, c, d_out, h_out, w_out) or (c, d_out, h_out,
---   w_out)
---@formula y = (sum over the window of x^p)^(1/p)
---@formula size_out = floor((size - kernel_size) / stride) + 1
---@formula for each of d, h, w
layers.LPPool3d = lp_pool(3)

local function adaptive(kind, called, dims, options)
  return define(kind, called, dims, "any output_size" .. (options or ""))
end

--- Adaptive average pooling of sequences: means of windows chosen so that the output has a given
--- size.
--- > ml.nn.AdaptiveAvgPool1d(2)(ml.tensor { { 1.0, 3, 2, 4 } })
---   {{2., 3.}}
---   Tensor (1, 2) float32
---@param output_size the size of the output
---@shape input (n, c, l) or (c, l) -> (n, c, l_out) or (c, l_out)
---@formula window i of n: from floor((i - 1) size / n) + 1 to ceil(i size / n)
layers.AdaptiveAvgPool1d = adaptive("AdaptiveAvgPool", "adaptive_avg_pool", 1)
--- Adaptive average pooling of images: means of windows chosen so that the output has a given size.
--- > ml.nn.AdaptiveAvgPool2d({ 1, 2 })(ml.arange(1.0, 16):view(1, 4, 4))
---   {{{7.5000, 9.5000}}}
---   Tensor (1, 1, 2) float32
---@param output_size the size of the output: one number, or { height, width }, where false keeps
---   the input's
---@shape input (n, c, h, w) or (c, h, w) -> (n, c, h_out, w_out) or (c, h_out, w_out)
---@formula window i of n: from floor((i - 1) size / n) + 1 to ceil(i size / n)
layers.AdaptiveAvgPool2d = adaptive("AdaptiveAvgPool", "adaptive_avg_pool", 2)
--- Adaptive average pooling of volumes: means of windows chosen so that the output has a given
--- size.
--- > ml.nn.AdaptiveAvgPool3d(1)(ml.arange(1.0, 8):view(1, 2, 2, 2))
---   {{{{4.5000}}}}
---   Tensor (1, 1, 1, 1) float32
---@param output_size the size of the output: one number, or { depth, height, width }, where false
---   keeps the input's
---@shape input (n, c, d, h, w) or (c, d, h, w) -> (n, c, d_out, h_out, w_out) or (c, d_out, h_out,
---   w_out)
---@formula window i of n: from floor((i - 1) size / n) + 1 to ceil(i size / n)
layers.AdaptiveAvgPool3d = adaptive("AdaptiveAvgPool", "adaptive_avg_pool", 3)

local INDICES = ", bool return_indices=false"

--- Adaptive max pooling of sequences: maxima of windows chosen so that the output has a given size.
--- With `return_indices` the second result has the index of each maximum, from 1, in its sequence.
--- > ml.nn.AdaptiveMaxPool1d(2)(ml.tensor { { 1.0, 3, 2, 4 } })
---   {{3., 4.}}
---   Tensor (1, 2) float32
---@param output_size the size of the output
---@param return_indices whether the indices of the maxima are a second result
---@shape input (n, c, l) or (c, l) -> (n, c, l_out) or (c, l_out)
---@formula window i of n: from floor((i - 1) size / n) + 1 to ceil(i size / n)
layers.AdaptiveMaxPool1d = adaptive("AdaptiveMaxPool", "adaptive_max_pool", 1, INDICES)
--- Adaptive max pooling of images: maxima of windows chosen so that the output has a given size.
--- With `return_indices` the second result has the index of each maximum, from 1, in the flattened
--- image.
--- > ml.nn.AdaptiveMaxPool2d({ 1, 2 })(ml.arange(1.0, 16):view(1, 4, 4))
---   {{{14., 16.}}}
---   Tensor (1, 1, 2) float32
---@param output_size the size of the output: one number, or { height, width }, where false keeps
---   the input's
---@param return_indices whether the indices of the maxima are a second result
---@shape input (n, c, h, w) or (c, h, w) -> (n, c, h_out, w_out) or (c, h_out, w_out)
---@formula window i of n: from floor((i - 1) size / n) + 1 to ceil(i size / n)
layers.AdaptiveMaxPool2d = adaptive("AdaptiveMaxPool", "adaptive_max_pool", 2, INDICES)
--- Adaptive max pooling of volumes: maxima of windows chosen so that the output has a given size.
--- With `return_indices` the second result has the index of each maximum, from 1, in the flattened
--- volume.
--- > ml.nn.AdaptiveMaxPool3d(1)(ml.arange(1.0, 8):view(1, 2, 2, 2))
---   {{{{8.}}}}
---   Tensor (1, 1, 1, 1) float32
---@param output_size the size of the output: one number, or { depth, height, width }, where false
---   keeps the input's
---@param return_indices whether the indices of the maxima are a second result
---@shape input (n, c, d, h, w) or (c, d, h, w) -> (n, c, d_out, h_out, w_out) or (c, d_out, h_out,
---   w_out)
---@formula window i of n: from floor((i - 1) size / n) + 1 to ceil(i size / n)
layers.AdaptiveMaxPool3d = adaptive("AdaptiveMaxPool", "adaptive_max_pool", 3, INDICES)

local function fractional(dims)
  return define("FractionalMaxPool", "fractional_max_pool", dims, "int[N]>=1 kernel_size, "
    .. "int[N]>=1? output_size=nil, number[N]>0<=1? output_ratio=nil, bool return_indices=false, "
    .. "Tensor? _random_samples=nil")
end

--- Fractional max pooling of images: maxima of windows at random positions. The windows are spread
--- so that the output has `output_size`, or the input's size times `output_ratio`; one of the two
--- must be given. The positions are drawn anew in each call.
--- > ml.nn.FractionalMaxPool2d(2, { output_size = 2 })(ml.ones(1, 5, 5)).shape
---   (1, 2, 2)
---@param kernel_size the size of a window: one number, or { height, width }
---@param output_size the size of the output: one number, or { height, width }
---@param output_ratio the output's size as a part of the input's, above 0 and at most 1: one
---   number, or { height, width }
---@param return_indices whether the indices of the maxima, from 1, are a second result
---@param _random_samples numbers from 0 to 1 that shift the windows, (n, c, 2): drawn unless given
---@shape input (n, c, h, w) or (c, h, w) -> (n, c, h_out, w_out) or (c, h_out, w_out)
---@source Graham, 2014: Fractional max-pooling
layers.FractionalMaxPool2d = fractional(2)
--- Fractional max pooling of volumes: maxima of windows at random positions. The windows are spread
--- so that the output has `output_size`, or the input's size times `output_ratio`; one of the two
--- must be given. The positions are drawn anew in each call.
--- > ml.nn.FractionalMaxPool3d(2, { output_size = 2 })(ml.ones(1, 5, 5, 5)).shape
---   (1, 2, 2, 2)
---@param kernel_size the size of a window: one number, or { depth, height, width }
---@param output_size the size of the output: one number, or { depth, height, width }
---@param output_ratio the output's size as a part of the input's, above 0 and at most 1: one
---   number, or { depth, height, width }
---@param return_indices whether the indices of the maxima, from 1, are a second result
---@param _random_samples numbers from 0 to 1 that shift the windows, (n, c, 3): drawn unless given
---@shape input (n, c, d, h, w) or (c, d, h, w) -> (n, c, d_out, h_out, w_out) or (c, d_out, h_out,
---   w_out)
---@source Graham, 2014: Fractional max-pooling
layers.FractionalMaxPool3d = fractional(3)

local function unpool(dims)
  return define("MaxUnpool", "max_unpool", dims, WINDOW .. ", int[N]>=0 padding=0", 3)
end

--- Partial inverse of `MaxPool1d`: zeros, with the maxima back at the indices where they were. The
--- layer is called as `unpool(x, indices, output_size)` with both results of the pooling. Several
--- input sizes pool to the same output size; `output_size` says which is meant.
--- > maxima, indices = ml.nn.MaxPool1d(2,
---   { return_indices = true })(ml.tensor { { 1.0, 3, 2, 4 } })
--- > ml.nn.MaxUnpool1d(2)(maxima, indices)
---   {{0., 3., 0., 4.}}
---   Tensor (1, 4) float32
---@param kernel_size the size of a window: one number
---@param stride the distance between windows: the window's size unless given
---@param padding what the pooling added at every side
---@shape input, indices (n, c, l) or (c, l) -> (n, c, l_out) or (c, l_out)
---@formula l_out = (l - 1) stride - 2 padding + kernel_size
layers.MaxUnpool1d = unpool(1)
--- Partial inverse of `MaxPool2d`: zeros, with the maxima back at the indices where they were. The
--- layer is called as `unpool(x, indices, output_size)` with both results of the pooling. Several
--- input sizes pool to the same output size; `output_size` says which is meant.
--- > maxima, indices = ml.nn.MaxPool2d(2,
---   { return_indices = true })(ml.arange(1.0, 16):view(1, 4, 4))
--- > ml.nn.MaxUnpool2d(2)(maxima, indices)
---   {{{ 0.,  0.,  0.,  0.},
---     { 0.,  6.,  0.,  8.},
---     { 0.,  0.,  0.,  0.},
---     { 0., 14.,  0., 16.}}}
---   Tensor (1, 4, 4) float32
---@param kernel_size the size of a window: one number, or { height, width }
---@param stride the distance between windows: the window's size unless given
---@param padding what the pooling added at every side
---@shape input, indices (n, c, h, w) or (c, h, w) -> (n, c, h_out, w_out) or (c, h_out, w_out)
---@formula size_out = (size - 1) stride - 2 padding + kernel_size
---@formula for each of h, w
layers.MaxUnpool2d = unpool(2)
--- Partial inverse of `MaxPool3d`: zeros, with the maxima back at the indices where they were. The
--- layer is called as `unpool(x, indices, output_size)` with both results of the pooling. Several
--- input sizes pool to the same output size; `output_size` says which is meant.
--- > maxima, indices = ml.nn.MaxPool3d(2,
---   { return_indices = true })(ml.arange(1.0, 8):view(1, 2, 2, 2))
--- > ml.nn.MaxUnpool3d(2)(maxima, indices)
---   {{{{0., 0.},
---      {0., 0.}},
---
---     {{0., 0.},
---      {0., 8.}}}}
---   Tensor (1, 2, 2, 2) float32
---@param kernel_size the size of a window: one number, or { depth, height, width }
---@param stride the distance between windows: the window's size unless given
---@param padding what the pooling added at every side
---@shape input, indices (n, c, d, h, w) or (c, d, h, w) -> (n, c, d_out, h_out, w_out) or (c,
---   d_out, h_out, w_out)
---@formula size_out = (size - 1) stride - 2 padding + kernel_size
---@formula for each of d, h, w
layers.MaxUnpool3d = unpool(3)

return layers
