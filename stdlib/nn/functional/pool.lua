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

--- The greatest element of each window of `input` (..., l); the stride is the window's size unless
--- given. With `return_indices` the second result is each maximum's position in its line.
pools.max_pool1d = max_pool(1)
--- The greatest element of each window of `input` (..., h, w); the stride is the window's size
--- unless given. With `return_indices` the second result is each maximum's position in its
--- flattened plane.
pools.max_pool2d = max_pool(2)
--- The greatest element of each window of `input` (..., d, h, w). With `return_indices` the second
--- result is each maximum's position in its flattened body.
pools.max_pool3d = max_pool(3)
--- `max_pool1d` with the position of each maximum in its line as the second result.
pools.max_pool1d_with_indices = max_pool_with_indices(1)
--- `max_pool2d` with the position of each maximum in its flattened plane as the second result.
pools.max_pool2d_with_indices = max_pool_with_indices(2)
--- `max_pool3d` with the position of each maximum in its flattened body as the second result.
pools.max_pool3d_with_indices = max_pool_with_indices(3)

local function avg_pool(dims)
  local divisor = dims == 1 and "" or ", int? divisor_override=nil"
  return declare.op(in_dims("avg_poolNd(Tensor input, " .. WINDOW .. ", int[N]>=0 padding=0, "
    .. "bool ceil_mode=false, bool count_include_pad=true" .. divisor .. ")", dims))
end

--- The mean of each window of `input` (..., l); the stride is the window's size unless given.
pools.avg_pool1d = avg_pool(1)
--- The mean of each window of `input` (..., h, w), or its sum divided by `divisor_override`.
pools.avg_pool2d = avg_pool(2)
--- The mean of each window of `input` (..., d, h, w), or its sum divided by `divisor_override`.
pools.avg_pool3d = avg_pool(3)

local function lp_pool(dims)
  return declare.op(in_dims("lp_poolNd(Tensor input, number norm_type, " .. WINDOW
    .. ", bool ceil_mode=false)", dims))
end

--- The `norm_type`-norm of each window of `input` (..., l).
pools.lp_pool1d = lp_pool(1)
--- The `norm_type`-norm of each window of `input` (..., h, w).
pools.lp_pool2d = lp_pool(2)
--- The `norm_type`-norm of each window of `input` (..., d, h, w).
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

--- Means over windows chosen so that `input` (..., l) gets the size given.
pools.adaptive_avg_pool1d = adaptive_avg_pool(1)
--- Means over windows chosen so that `input` (..., h, w) gets the sizes given: one number or two,
--- where false keeps the input's.
pools.adaptive_avg_pool2d = adaptive_avg_pool(2)
--- Means over windows chosen so that `input` (..., d, h, w) gets the sizes given: one number or
--- three, where false keeps the input's.
pools.adaptive_avg_pool3d = adaptive_avg_pool(3)
--- Maxima over windows chosen so that `input` (..., l) gets the size given, with `return_indices`
--- also their positions.
pools.adaptive_max_pool1d = adaptive_max_pool(1, false)
--- Maxima over windows chosen so that `input` (..., h, w) gets the sizes given, with
--- `return_indices` also their positions in the flattened plane.
pools.adaptive_max_pool2d = adaptive_max_pool(2, false)
--- Maxima over windows chosen so that `input` (..., d, h, w) gets the sizes given, with
--- `return_indices` also their positions in the flattened body.
pools.adaptive_max_pool3d = adaptive_max_pool(3, false)
--- `adaptive_max_pool1d` with the positions.
pools.adaptive_max_pool1d_with_indices = adaptive_max_pool(1, true)
--- `adaptive_max_pool2d` with the positions.
pools.adaptive_max_pool2d_with_indices = adaptive_max_pool(2, true)
--- `adaptive_max_pool3d` with the positions.
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

--- Undoes `max_pool1d`: zeros with the elements of `input` at `indices`, the positions it gave.
pools.max_unpool1d = max_unpool(1)
--- Undoes `max_pool2d`: zeros with the elements of `input` at `indices`, the positions it gave.
--- `output_size` is wanted where several sizes give that of the input.
pools.max_unpool2d = max_unpool(2)
--- Undoes `max_pool3d`: zeros with the elements of `input` at `indices`, the positions it gave.
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

--- Maxima over windows at random positions, so that `input` (..., h, w) gets `output_size`, or its
--- size times `output_ratio` (Graham, Fractional Max-Pooling, 2014).
pools.fractional_max_pool2d = fractional(2, false)
--- Maxima over windows at random positions, so that `input` (..., d, h, w) gets `output_size`, or
--- its size times `output_ratio`.
pools.fractional_max_pool3d = fractional(3, false)
--- `fractional_max_pool2d` with the positions.
pools.fractional_max_pool2d_with_indices = fractional(2, true)
--- `fractional_max_pool3d` with the positions.
pools.fractional_max_pool3d_with_indices = fractional(3, true)

return pools
