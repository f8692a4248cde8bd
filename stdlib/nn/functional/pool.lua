-- stdlib/nn/functional/pool.lua: pooling under PyTorch's arguments.

local declare = require "moonlet.nn.functional.declare"
local ml = require "moonlet"
local options = require "moonlet.options"

local pools = {}

local function in_dims(text, dims) return (text:gsub("N", dims)) end

local WINDOW = "int[N]>=1 kernel_size, int[N]>=1? stride=nil"
local MAXIMUM = "(Tensor input, " .. WINDOW .. ", int[N]>=0 padding=0, int[N]>=1 dilation=1, "
  .. "bool ceil_mode=false"

-- Pooling by maxima, with their positions as the second result where asked.
local function max_pool(dims)
  local name = ("max_pool%dd"):format(dims)
  local read = declare.reader(in_dims(name .. MAXIMUM .. ", bool return_indices=false)", dims))
  local plain, both = ml[name], ml[name .. "_with_indices"]
  return function(...)
    local x, kernel, stride, padding, dilation, ceil_mode, return_indices = read(...)
    return (return_indices and both or plain)(x, kernel, stride, padding, dilation, ceil_mode)
  end
end

local function max_pool_with_indices(dims)
  return declare.op(in_dims("max_poolNd_with_indices" .. MAXIMUM .. ")", dims))
end

--- Max pooling of sequences: the maximum of each window. Padding counts as minus infinity. With
--- `return_indices` the second result has the index of each maximum, from 1, in its sequence, for
--- `MaxUnpool1d`.
--- > ml.nn.functional.max_pool1d(ml.tensor { { 1.0, 3, 2, 4 } }, 2)
---   {{3., 4.}}
---   Tensor (1, 2) float32
---@param input the sequences
---@param kernel_size the size of a window: one number
---@param stride the distance between windows: the window's size unless given
---@param padding how much to add at every side, at most half the window
---@param dilation the distance between the elements of a window
---@param ceil_mode whether the output size is rounded up, so that a last window may reach over the
---   end
---@param return_indices whether the indices of the maxima are a second result
---@shape input (n, c, l) or (c, l) -> (n, c, l_out) or (c, l_out)
---@formula y = max over the window of x
---@formula l_out = floor((l + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1
pools.max_pool1d = max_pool(1)
--- Max pooling of images: the maximum of each window. Padding counts as minus infinity. With
--- `return_indices` the second result has the index of each maximum, from 1, in the flattened
--- image, for `MaxUnpool2d`.
--- > ml.nn.functional.max_pool2d(ml.arange(1.0, 16):view(1, 4, 4), 2)
---   {{{ 6.,  8.},
---     {14., 16.}}}
---   Tensor (1, 2, 2) float32
---@param input the images
---@param kernel_size the size of a window: one number, or { height, width }
---@param stride the distance between windows: the window's size unless given
---@param padding how much to add at every side, at most half the window
---@param dilation the distance between the elements of a window
---@param ceil_mode whether the output size is rounded up, so that a last window may reach over the
---   end
---@param return_indices whether the indices of the maxima are a second result
---@shape input (n, c, h, w) or (c, h, w) -> (n, c, h_out, w_out) or (c, h_out, w_out)
---@formula y = max over the window of x
---@formula size_out = floor((size + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1
---@formula for each of h, w
pools.max_pool2d = max_pool(2)
--- Max pooling of volumes: the maximum of each window. Padding counts as minus infinity. With
--- `return_indices` the second result has the index of each maximum, from 1, in the flattened
--- volume, for `MaxUnpool3d`.
--- > ml.nn.functional.max_pool3d(ml.arange(1.0, 8):view(1, 2, 2, 2), 2).shape
---   (1, 1, 1, 1)
---@param input the volumes
---@param kernel_size the size of a window: one number, or { depth, height, width }
---@param stride the distance between windows: the window's size unless given
---@param padding how much to add at every side, at most half the window
---@param dilation the distance between the elements of a window
---@param ceil_mode whether the output size is rounded up, so that a last window may reach over the
---   end
---@param return_indices whether the indices of the maxima are a second result
---@shape input (n, c, d, h, w) or (c, d, h, w) -> (n, c, d_out, h_out, w_out) or (c, d_out, h_out,
---   w_out)
---@formula y = max over the window of x
---@formula size_out = floor((size + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1
---@formula for each of d, h, w
pools.max_pool3d = max_pool(3)
--- Max pooling of sequences with indices: the maximum of each window and, as the second result, its
--- index, from 1, in its sequence.
--- > ml.nn.functional.max_pool1d_with_indices(ml.tensor { { 1.0, 3, 2, 4 } }, 2)
---   {{3., 4.}}
---   Tensor (1, 2) float32
---   {{2, 4}}
---   Tensor (1, 2) int64
---@param input the sequences
---@param kernel_size the size of a window: one number
---@param stride the distance between windows: the window's size unless given
---@param padding how much to add at every side, at most half the window
---@param dilation the distance between the elements of a window
---@param ceil_mode whether the output size is rounded up, so that a last window may reach over the
---   end
---@shape input (n, c, l) or (c, l) -> (n, c, l_out) or (c, l_out)
---@formula y = max over the window of x
---@formula l_out = floor((l + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1
pools.max_pool1d_with_indices = max_pool_with_indices(1)
--- Max pooling of images with indices: the maximum of each window and, as the second result, its
--- index, from 1, in the flattened image.
--- > ml.nn.functional.max_pool2d_with_indices(ml.arange(1.0, 16):view(1, 4, 4), 2)
---   {{{ 6.,  8.},
---     {14., 16.}}}
---   Tensor (1, 2, 2) float32
---   {{{ 6,  8},
---     {14, 16}}}
---   Tensor (1, 2, 2) int64
---@param input the images
---@param kernel_size the size of a window: one number, or { height, width }
---@param stride the distance between windows: the window's size unless given
---@param padding how much to add at every side, at most half the window
---@param dilation the distance between the elements of a window
---@param ceil_mode whether the output size is rounded up, so that a last window may reach over the
---   end
---@shape input (n, c, h, w) or (c, h, w) -> (n, c, h_out, w_out) or (c, h_out, w_out)
---@formula y = max over the window of x
---@formula size_out = floor((size + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1
---@formula for each of h, w
pools.max_pool2d_with_indices = max_pool_with_indices(2)
--- Max pooling of volumes with indices: the maximum of each window and, as the second result, its
--- index, from 1, in the flattened volume.
--- > ml.nn.functional.max_pool3d_with_indices(ml.arange(1.0, 8):view(1, 2, 2, 2), 2).shape
---   (1, 1, 1, 1)
---@param input the volumes
---@param kernel_size the size of a window: one number, or { depth, height, width }
---@param stride the distance between windows: the window's size unless given
---@param padding how much to add at every side, at most half the window
---@param dilation the distance between the elements of a window
---@param ceil_mode whether the output size is rounded up, so that a last window may reach over the
---   end
---@shape input (n, c, d, h, w) or (c, d, h, w) -> (n, c, d_out, h_out, w_out) or (c, d_out, h_out,
---   w_out)
---@formula y = max over the window of x
---@formula size_out = floor((size + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1
---@formula for each of d, h, w
pools.max_pool3d_with_indices = max_pool_with_indices(3)

local function avg_pool(dims)
  local divisor = dims == 1 and "" or ", int? divisor_override=nil"
  return declare.op(in_dims("avg_poolNd(Tensor input, " .. WINDOW .. ", int[N]>=0 padding=0, "
    .. "bool ceil_mode=false, bool count_include_pad=true" .. divisor .. ")", dims))
end

--- Average pooling of sequences: the mean of each window.
--- > ml.nn.functional.avg_pool1d(ml.tensor { { 1.0, 3, 2, 4 } }, 2)
---   {{2., 3.}}
---   Tensor (1, 2) float32
---@param input the sequences
---@param kernel_size the size of a window: one number
---@param stride the distance between windows: the window's size unless given
---@param padding how many zeros to add at every side, at most half the window
---@param ceil_mode whether the output size is rounded up, so that a last window may reach over the
---   end
---@param count_include_pad whether padding counts as zeros in the mean, or not at all
---@shape input (n, c, l) or (c, l) -> (n, c, l_out) or (c, l_out)
---@formula y = (sum over the window of x) / prod(kernel_size)
---@formula l_out = floor((l + 2 padding - kernel_size) / stride) + 1
pools.avg_pool1d = avg_pool(1)
--- Average pooling of images: the mean of each window.
--- > ml.nn.functional.avg_pool2d(ml.arange(1.0, 16):view(1, 4, 4), 2)
---   {{{ 3.5000,  5.5000},
---     {11.5000, 13.5000}}}
---   Tensor (1, 2, 2) float32
---@param input the images
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
pools.avg_pool2d = avg_pool(2)
--- Average pooling of volumes: the mean of each window.
--- > ml.nn.functional.avg_pool3d(ml.arange(1.0, 8):view(1, 2, 2, 2), 2).shape
---   (1, 1, 1, 1)
---@param input the volumes
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
pools.avg_pool3d = avg_pool(3)

local function lp_pool(dims)
  return declare.op(in_dims("lp_poolNd(Tensor input, number norm_type, " .. WINDOW
    .. ", bool ceil_mode=false)", dims))
end

--- Power-average pooling of sequences: the p-norm of each window.
--- > ml.nn.functional.lp_pool1d(ml.tensor { { 1.0, 3, 2, 4 } }, 2, 2)
---   {{3.1623, 4.4721}}
---   Tensor (1, 2) float32
---@param input the sequences
---@param norm_type the exponent p, above 0; 1 gives sums
---@param kernel_size the size of a window: one number
---@param stride the distance between windows: the window's size unless given
---@param ceil_mode whether the output size is rounded up, so that a last window may reach over the
---   end
---@shape input (n, c, l) or (c, l) -> (n, c, l_out) or (c, l_out)
---@formula y = (sum over the window of x^p)^(1/p)
---@formula l_out = floor((l - kernel_size) / stride) + 1
pools.lp_pool1d = lp_pool(1)
--- Power-average pooling of images: the p-norm of each window.
--- > ml.nn.functional.lp_pool2d(ml.arange(1.0, 16):view(1, 4, 4), 2, 2)
---   {{{ 8.1240, 11.7473},
---     {23.3666, 27.3130}}}
---   Tensor (1, 2, 2) float32
---@param input the images
---@param norm_type the exponent p, above 0; 1 gives sums
---@param kernel_size the size of a window: one number, or { height, width }
---@param stride the distance between windows: the window's size unless given
---@param ceil_mode whether the output size is rounded up, so that a last window may reach over the
---   end
---@shape input (n, c, h, w) or (c, h, w) -> (n, c, h_out, w_out) or (c, h_out, w_out)
---@formula y = (sum over the window of x^p)^(1/p)
---@formula size_out = floor((size - kernel_size) / stride) + 1
---@formula for each of h, w
pools.lp_pool2d = lp_pool(2)
--- Power-average pooling of volumes: the p-norm of each window.
--- > ml.nn.functional.lp_pool3d(ml.arange(1.0, 8):view(1, 2, 2, 2), 2, 2).shape
---   (1, 1, 1, 1)
---@param input the volumes
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
pools.lp_pool3d = lp_pool(3)

-- `dims` sizes from a number or a table, where nil and false mean the input's own.
local function output_size(name, input, size, dims)
  if type(size) == "number" or not size then
    local all = size
    size = {}
    for i = 1, dims do size[i] = all end
  end
  local out = {}
  for i = 1, dims do
    local wanted = type(size) == "table" and (size[i] or input.shape[input.ndim - dims + i])
    out[i] = math.tointeger(wanted)
  end
  if #out ~= dims or type(size) ~= "table" or size[dims + 1] ~= nil then
    options.fail("%s: 'output_size' must be an integer, or an array of %d, where false keeps the "
      .. "input's size", name, dims)
  end
  return out
end

local function check_rank(name, input, dims)
  if input.ndim ~= dims + 1 and input.ndim ~= dims + 2 then
    options.fail("%s: 'input' has shape %s, %d or %d dimensions are expected", name,
      tostring(input.shape), dims + 1, dims + 2)
  end
end

local function adaptive_avg_pool(dims)
  local name = ("adaptive_avg_pool%dd"):format(dims)
  local read = declare.reader(name .. "(Tensor input, any? output_size=nil)")
  local call = ml[name]
  return function(...)
    local input, size = read(...)
    check_rank(name, input, dims)
    return call(input, output_size(name, input, size, dims))
  end
end

local function adaptive_max_pool(dims, with_indices)
  local op = ("adaptive_max_pool%dd"):format(dims)
  local name = op .. (with_indices and "_with_indices" or "")
  local read = declare.reader(name .. "(Tensor input, any? output_size=nil, bool return_indices="
    .. tostring(with_indices) .. ")")
  local call = ml[op]
  return function(...)
    local input, size, return_indices = read(...)
    check_rank(name, input, dims)
    local values, indices = call(input, output_size(name, input, size, dims))
    if return_indices then return values, indices end
    return values
  end
end

--- Adaptive average pooling of sequences: means of windows chosen so that the output has a given
--- size.
--- > ml.nn.functional.adaptive_avg_pool1d(ml.tensor { { 1.0, 3, 2, 4 } }, 2)
---   {{2., 3.}}
---   Tensor (1, 2) float32
---@param input the sequences
---@param output_size the size of the output
---@shape input (n, c, l) or (c, l) -> (n, c, l_out) or (c, l_out)
---@formula window i of n: from floor((i - 1) size / n) + 1 to ceil(i size / n)
pools.adaptive_avg_pool1d = adaptive_avg_pool(1)
--- Adaptive average pooling of images: means of windows chosen so that the output has a given size.
--- > ml.nn.functional.adaptive_avg_pool2d(ml.arange(1.0, 16):view(1, 4, 4), { 1, 2 })
---   {{{7.5000, 9.5000}}}
---   Tensor (1, 1, 2) float32
---@param input the images
---@param output_size the size of the output: one number, or { height, width }, where false keeps
---   the input's
---@shape input (n, c, h, w) or (c, h, w) -> (n, c, h_out, w_out) or (c, h_out, w_out)
---@formula window i of n: from floor((i - 1) size / n) + 1 to ceil(i size / n)
pools.adaptive_avg_pool2d = adaptive_avg_pool(2)
--- Adaptive average pooling of volumes: means of windows chosen so that the output has a given
--- size.
--- > ml.nn.functional.adaptive_avg_pool3d(ml.arange(1.0, 8):view(1, 2, 2, 2), 1).shape
---   (1, 1, 1, 1)
---@param input the volumes
---@param output_size the size of the output: one number, or { depth, height, width }, where false
---   keeps the input's
---@shape input (n, c, d, h, w) or (c, d, h, w) -> (n, c, d_out, h_out, w_out) or (c, d_out, h_out,
---   w_out)
---@formula window i of n: from floor((i - 1) size / n) + 1 to ceil(i size / n)
pools.adaptive_avg_pool3d = adaptive_avg_pool(3)
--- Adaptive max pooling of sequences: maxima of windows chosen so that the output has a given size.
--- With `return_indices` the second result has the index of each maximum, from 1, in its sequence.
--- > ml.nn.functional.adaptive_max_pool1d(ml.tensor { { 1.0, 3, 2, 4 } }, 2)
---   {{3., 4.}}
---   Tensor (1, 2) float32
---@param input the sequences
---@param output_size the size of the output
---@param return_indices whether the indices of the maxima are a second result
---@shape input (n, c, l) or (c, l) -> (n, c, l_out) or (c, l_out)
---@formula window i of n: from floor((i - 1) size / n) + 1 to ceil(i size / n)
pools.adaptive_max_pool1d = adaptive_max_pool(1, false)
--- Adaptive max pooling of images: maxima of windows chosen so that the output has a given size.
--- With `return_indices` the second result has the index of each maximum, from 1, in the flattened
--- image.
--- > ml.nn.functional.adaptive_max_pool2d(ml.arange(1.0, 16):view(1, 4, 4), { 1, 2 })
---   {{{14., 16.}}}
---   Tensor (1, 1, 2) float32
---@param input the images
---@param output_size the size of the output: one number, or { height, width }, where false keeps
---   the input's
---@param return_indices whether the indices of the maxima are a second result
---@shape input (n, c, h, w) or (c, h, w) -> (n, c, h_out, w_out) or (c, h_out, w_out)
---@formula window i of n: from floor((i - 1) size / n) + 1 to ceil(i size / n)
pools.adaptive_max_pool2d = adaptive_max_pool(2, false)
--- Adaptive max pooling of volumes: maxima of windows chosen so that the output has a given size.
--- With `return_indices` the second result has the index of each maximum, from 1, in the flattened
--- volume.
--- > ml.nn.functional.adaptive_max_pool3d(ml.arange(1.0, 8):view(1, 2, 2, 2), 1).shape
---   (1, 1, 1, 1)
---@param input the volumes
---@param output_size the size of the output: one number, or { depth, height, width }, where false
---   keeps the input's
---@param return_indices whether the indices of the maxima are a second result
---@shape input (n, c, d, h, w) or (c, d, h, w) -> (n, c, d_out, h_out, w_out) or (c, d_out, h_out,
---   w_out)
---@formula window i of n: from floor((i - 1) size / n) + 1 to ceil(i size / n)
pools.adaptive_max_pool3d = adaptive_max_pool(3, false)
--- Adaptive max pooling of sequences with indices: the maximum of each window and its index, from
--- 1, in its sequence. The windows are chosen so that the output has a given size.
--- > ml.nn.functional.adaptive_max_pool1d_with_indices(ml.tensor { { 1.0, 3, 2, 4 } }, 2)
---   {{3., 4.}}
---   Tensor (1, 2) float32
---   {{2, 4}}
---   Tensor (1, 2) int64
---@param input the sequences
---@param output_size the size of the output
---@param return_indices whether the indices of the maxima are a second result
---@shape input (n, c, l) or (c, l) -> (n, c, l_out) or (c, l_out)
---@formula window i of n: from floor((i - 1) size / n) + 1 to ceil(i size / n)
pools.adaptive_max_pool1d_with_indices = adaptive_max_pool(1, true)
--- Adaptive max pooling of images with indices: the maximum of each window and its index, from 1,
--- in the flattened image. The windows are chosen so that the output has a given size.
--- > ml.nn.functional.adaptive_max_pool2d_with_indices(ml.arange(1.0, 16):view(1, 4, 4), { 1, 2 })
---   {{{14., 16.}}}
---   Tensor (1, 1, 2) float32
---   {{{14, 16}}}
---   Tensor (1, 1, 2) int64
---@param input the images
---@param output_size the size of the output: one number, or { height, width }, where false keeps
---   the input's
---@param return_indices whether the indices of the maxima are a second result
---@shape input (n, c, h, w) or (c, h, w) -> (n, c, h_out, w_out) or (c, h_out, w_out)
---@formula window i of n: from floor((i - 1) size / n) + 1 to ceil(i size / n)
pools.adaptive_max_pool2d_with_indices = adaptive_max_pool(2, true)
--- Adaptive max pooling of volumes with indices: the maximum of each window and its index, from 1,
--- in the flattened volume. The windows are chosen so that the output has a given size.
--- > ml.nn.functional.adaptive_max_pool3d_with_indices(ml.arange(1.0, 8):view(1, 2, 2, 2), 1).shape
---   (1, 1, 1, 1)
---@param input the volumes
---@param output_size the size of the output: one number, or { depth, height, width }, where false
---   keeps the input's
---@param return_indices whether the indices of the maxima are a second result
---@shape input (n, c, d, h, w) or (c, d, h, w) -> (n, c, d_out, h_out, w_out) or (c, d_out, h_out,
---   w_out)
---@formula window i of n: from floor((i - 1) size / n) + 1 to ceil(i size / n)
pools.adaptive_max_pool3d_with_indices = adaptive_max_pool(3, true)

-- The sizes of which windows with that stride and padding have the sizes of `input`; what is asked
-- for may differ by less than a stride.
local function unpooled_size(name, input, kernel, stride, padding, wanted)
  local dims, out = #kernel, {}
  if wanted and #wanted == dims + 2 then wanted = { table.unpack(wanted, 3) } end
  if wanted and #wanted ~= dims then
    options.fail("%s: 'output_size' has %d numbers, %d or %d are expected", name, #wanted, dims,
      dims + 2)
  end
  for i = 1, dims do
    local usual = (input.shape[input.ndim - dims + i] - 1) * stride[i] + kernel[i] - 2 * padding[i]
    out[i] = wanted and wanted[i] or usual
    if math.abs(out[i] - usual) >= stride[i] then
      options.fail("%s: 'output_size' %d of dimension %d is not between %d and %d", name, out[i], i,
        usual - stride[i], usual + stride[i])
    end
  end
  return out
end

local function max_unpool(dims)
  local name = ("max_unpool%dd"):format(dims)
  local read = declare.reader(in_dims(name .. "(Tensor input, Tensor indices, " .. WINDOW
    .. ", int[N]>=0 padding=0, int[]? output_size=nil)", dims))
  local call = ml[name]
  return function(...)
    local input, indices, kernel, stride, padding, wanted = read(...)
    check_rank(name, input, dims)
    local size = unpooled_size(name, input, kernel, stride or kernel, padding, wanted)
    return call(input, indices, size)
  end
end

--- Partial inverse of `max_pool1d`: zeros, with the maxima back at the indices where they were.
--- > maxima, indices = ml.nn.functional.max_pool1d_with_indices(ml.tensor { { 1.0, 3, 2, 4 } }, 2)
--- > ml.nn.functional.max_unpool1d(maxima, indices, 2)
---   {{0., 3., 0., 4.}}
---   Tensor (1, 4) float32
---@param input the maxima
---@param indices their indices, from 1, as the pooling gave them
---@param kernel_size the size of a window: one number
---@param stride the distance between windows: the window's size unless given
---@param padding what the pooling added at every side
---@param output_size the size that was pooled, where several give that of the input
---@shape input, indices (n, c, l) or (c, l) -> (n, c, l_out) or (c, l_out)
---@formula l_out = (l - 1) stride - 2 padding + kernel_size
pools.max_unpool1d = max_unpool(1)
--- Partial inverse of `max_pool2d`: zeros, with the maxima back at the indices where they were.
--- > maxima, indices = ml.nn.functional.max_pool2d_with_indices(ml.arange(1.0, 16):view(1, 4, 4),
---   2)
--- > ml.nn.functional.max_unpool2d(maxima, indices, 2)
---   {{{ 0.,  0.,  0.,  0.},
---     { 0.,  6.,  0.,  8.},
---     { 0.,  0.,  0.,  0.},
---     { 0., 14.,  0., 16.}}}
---   Tensor (1, 4, 4) float32
---@param input the maxima
---@param indices their indices, from 1, as the pooling gave them
---@param kernel_size the size of a window: one number, or { height, width }
---@param stride the distance between windows: the window's size unless given
---@param padding what the pooling added at every side
---@param output_size the size that was pooled, where several give that of the input
---@shape input, indices (n, c, h, w) or (c, h, w) -> (n, c, h_out, w_out) or (c, h_out, w_out)
---@formula size_out = (size - 1) stride - 2 padding + kernel_size
---@formula for each of h, w
pools.max_unpool2d = max_unpool(2)
--- Partial inverse of `max_pool3d`: zeros, with the maxima back at the indices where they were.
--- > maxima, indices = ml.nn.functional.max_pool3d_with_indices(ml.arange(1.0, 8):view(1, 2, 2,
---   2), 2)
--- > ml.nn.functional.max_unpool3d(maxima, indices, 2).shape
---   (1, 2, 2, 2)
---@param input the maxima
---@param indices their indices, from 1, as the pooling gave them
---@param kernel_size the size of a window: one number, or { depth, height, width }
---@param stride the distance between windows: the window's size unless given
---@param padding what the pooling added at every side
---@param output_size the size that was pooled, where several give that of the input
---@shape input, indices (n, c, d, h, w) or (c, d, h, w) -> (n, c, d_out, h_out, w_out) or (c,
---   d_out, h_out, w_out)
---@formula size_out = (size - 1) stride - 2 padding + kernel_size
---@formula for each of d, h, w
pools.max_unpool3d = max_unpool(3)

local FRACTIONAL = "(Tensor input, int[N]>=1 kernel_size, int[N]>=1? output_size=nil, "
  .. "number[N]>0<=1? output_ratio=nil, "

-- The sizes of a fractional pooling, and the shifts of its windows.
local function fractional_arguments(name, input, dims, size, ratio, samples)
  check_rank(name, input, dims)
  if (size == nil) == (ratio == nil) then
    options.fail("%s: either 'output_size' or 'output_ratio' is expected", name)
  end
  if ratio then
    size = {}
    for i = 1, dims do
      size[i] = math.tointeger(input.shape[input.ndim - dims + i] * ratio[i] // 1)
    end
  end
  local n = input.ndim == dims + 2 and input.shape[1] or 1
  return size, samples or ml.rand(n, input.shape[input.ndim - dims], dims,
    { dtype = input.dtype, device = input.device })
end

local function fractional(dims, with_indices)
  local op = ("fractional_max_pool%dd"):format(dims)
  local name = op .. (with_indices and "_with_indices" or "")
  local read = declare.reader(in_dims(name .. FRACTIONAL .. "bool return_indices="
    .. tostring(with_indices) .. ", Tensor? _random_samples=nil)", dims))
  return function(...)
    local input, kernel, size, ratio, return_indices, samples = read(...)
    size, samples = fractional_arguments(name, input, dims, size, ratio, samples)
    local values, indices = ml[op](input, kernel, size, samples)
    if return_indices then return values, indices end
    return values
  end
end

--- Fractional max pooling of images: maxima of windows at random positions. The windows are spread
--- so that the output has `output_size`, or the input's size times `output_ratio`; one of the two
--- must be given. The positions are drawn anew in each call.
--- > ml.nn.functional.fractional_max_pool2d(ml.ones(1, 5, 5), 2, { output_size = 2 }).shape
---   (1, 2, 2)
---@param input the images
---@param kernel_size the size of a window: one number, or { height, width }
---@param output_size the size of the output: one number, or { height, width }
---@param output_ratio the output's size as a part of the input's, above 0 and at most 1: one
---   number, or { height, width }
---@param return_indices whether the indices of the maxima, from 1, are a second result
---@param _random_samples numbers from 0 to 1 that shift the windows, (n, c, 2): drawn unless given
---@shape input (n, c, h, w) or (c, h, w) -> (n, c, h_out, w_out) or (c, h_out, w_out)
---@source Graham, 2014: Fractional max-pooling
pools.fractional_max_pool2d = fractional(2, false)
--- Fractional max pooling of volumes: maxima of windows at random positions. The windows are spread
--- so that the output has `output_size`, or the input's size times `output_ratio`; one of the two
--- must be given. The positions are drawn anew in each call.
--- > ml.nn.functional.fractional_max_pool3d(ml.ones(1, 5, 5, 5), 2, { output_size = 2 }).shape
---   (1, 2, 2, 2)
---@param input the volumes
---@param kernel_size the size of a window: one number, or { depth, height, width }
---@param output_size the size of the output: one number, or { depth, height, width }
---@param output_ratio the output's size as a part of the input's, above 0 and at most 1: one
---   number, or { depth, height, width }
---@param return_indices whether the indices of the maxima, from 1, are a second result
---@param _random_samples numbers from 0 to 1 that shift the windows, (n, c, 3): drawn unless given
---@shape input (n, c, d, h, w) or (c, d, h, w) -> (n, c, d_out, h_out, w_out) or (c, d_out, h_out,
---   w_out)
---@source Graham, 2014: Fractional max-pooling
pools.fractional_max_pool3d = fractional(3, false)
--- Fractional max pooling with indices: maxima of windows at random positions, and their indices
--- from 1. The windows are spread so that the output has `output_size`, or the input's size times
--- `output_ratio`; one of the two must be given.
--- > ml.manual_seed(1)
--- > ml.nn.functional.fractional_max_pool2d_with_indices(ml.arange(1.0, 9):view(1, 3, 3), 2, 1)
---   {{{9.}}}
---   Tensor (1, 1, 1) float32
---   {{{9}}}
---   Tensor (1, 1, 1) int64
---@param input the images
---@param kernel_size the size of a window: one number, or { height, width }
---@param output_size the size of the output: one number, or { height, width }
---@param output_ratio the output's size as a part of the input's, above 0 and at most 1: one
---   number, or { height, width }
---@param return_indices whether the indices of the maxima, from 1, are a second result
---@param _random_samples numbers from 0 to 1 that shift the windows, (n, c, 2): drawn unless given
---@shape input (n, c, h, w) or (c, h, w) -> (n, c, h_out, w_out) or (c, h_out, w_out)
---@source Graham, 2014: Fractional max-pooling
pools.fractional_max_pool2d_with_indices = fractional(2, true)
--- Fractional max pooling with indices: maxima of windows at random positions, and their indices
--- from 1. The windows are spread so that the output has `output_size`, or the input's size times
--- `output_ratio`; one of the two must be given.
--- > ml.manual_seed(1)
--- > ml.nn.functional.fractional_max_pool3d_with_indices(ml.arange(1.0, 27):view(1, 3, 3, 3), 2,
---   1).shape
---   (1, 1, 1, 1)
---@param input the volumes
---@param kernel_size the size of a window: one number, or { depth, height, width }
---@param output_size the size of the output: one number, or { depth, height, width }
---@param output_ratio the output's size as a part of the input's, above 0 and at most 1: one
---   number, or { depth, height, width }
---@param return_indices whether the indices of the maxima, from 1, are a second result
---@param _random_samples numbers from 0 to 1 that shift the windows, (n, c, 3): drawn unless given
---@shape input (n, c, d, h, w) or (c, d, h, w) -> (n, c, d_out, h_out, w_out) or (c, d_out, h_out,
---   w_out)
---@source Graham, 2014: Fractional max-pooling
pools.fractional_max_pool3d_with_indices = fractional(3, true)

return pools
