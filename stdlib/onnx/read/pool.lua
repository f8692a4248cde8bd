-- stdlib/onnx/read/pool.lua: ONNX's pooling.

local F = require "moonlet.nn.functional"
local common = require "moonlet.onnx.read.common"
local ml = require "moonlet"
local windows = require "moonlet.onnx.read.windows"
local fail, all = common.fail, windows.all

local read = {}

local MAX = { F.max_pool1d, F.max_pool2d, F.max_pool3d }
local AVERAGE = { F.avg_pool1d, F.avg_pool2d, F.avg_pool3d }
local CONV = { F.conv1d, F.conv2d, F.conv3d }

-- How the windows of a node lie: per dimension the kernel, stride, dilation, what stands before and
-- behind, the number of windows, and what the last one wants behind the input.
local function layout_of(n, x)
  local rank = windows.rank_of(x)
  if not n.attributes.kernel_shape then fail "it has no kernel_shape" end
  local w = { rank = rank, kernel = windows.spatial(n, "kernel_shape", rank, 1),
    stride = windows.spatial(n, "strides", rank, 1),
    dilation = windows.spatial(n, "dilations", rank, 1), count = {}, reach = {}, plain = true }
  w.before, w.behind = windows.pads_of(n, x, w.kernel, w.stride, w.dilation)
  local ceil = n.attributes.ceil_mode == 1
  for d = 1, rank do
    local size, before = x.shape[d + 2], w.before[d]
    local rest = size + before + w.behind[d] - (w.kernel[d] - 1) * w.dilation[d] - 1
    local stride = w.stride[d]
    local count = (ceil and rest + stride - 1 or rest) // stride + 1
    -- None begins behind the input.
    if ceil and (count - 1) * stride >= size + before then count = count - 1 end
    if count < 1 then
      fail("a window of %d elements is larger than the input of %d with its border",
        (w.kernel[d] - 1) * w.dilation[d] + 1, size + before + w.behind[d])
    end
    w.count[d] = count
    w.reach[d] = (count - 1) * stride + (w.kernel[d] - 1) * w.dilation[d] + 1 - size - before
    w.plain = w.plain and not ceil and before == w.behind[d] and before >= 0
      and 2 * before <= w.kernel[d]
  end
  return w
end

-- The input with its border, as the windows cover it.
local function bordered(x, before, behind, value)
  local pad, any = {}, false
  for d = #before, 1, -1 do
    pad[#pad + 1], pad[#pad + 2] = before[d], behind[d]
    any = any or before[d] ~= 0 or behind[d] ~= 0
  end
  return any and F.pad(x, pad, "constant", value) or x
end

-- --- maxima -----------------------------------------------------------------------------------

-- The places of maxima in the whole input, counted from 0, of those in bordered planes.
local function places_of(n, x, places, w)
  local column, sizes = n.attributes.storage_order == 1, {}
  for d = 1, w.rank do sizes[d] = x.shape[d + 2] + w.before[d] + w.reach[d] end
  local rest, out, at = places - 1, ml.zeros_like(places), {}
  for d = w.rank, 1, -1 do
    at[d] = (rest % sizes[d] - w.before[d]):clamp(0, x.shape[d + 2] - 1)
    rest = ml.div(rest, sizes[d], { rounding_mode = "floor" })
  end
  local scale = 1
  for i = 1, w.rank do
    local d = column and i or w.rank - i + 1
    out = out + at[d] * scale
    scale = scale * x.shape[d + 2]
  end
  local planes = ml.arange(0, x.shape[1] * x.shape[2] - 1):to("int64"):to(x.device)
  local shape = { x.shape[1], x.shape[2], table.unpack(all(w.rank, 1)) }
  return out + planes:reshape(shape) * scale
end

function read.MaxPool(n, x)
  local w, dtype = layout_of(n, x), x.dtype
  -- Small integers are exact in float32.
  if dtype == "uint8" or dtype == "int8" then x = x:float() end
  if (n.outputs[2] or "") ~= "" then
    local input = bordered(x, w.before, w.reach, -math.huge)
    local y, places = MAX[w.rank](input, w.kernel, w.stride, all(w.rank, 0), w.dilation, false,
      true)
    return y:to(dtype), places_of(n, x, places, w)
  end
  if w.plain then
    return (MAX[w.rank](x, w.kernel, w.stride, w.before, w.dilation)):to(dtype)
  end
  local input = bordered(x, w.before, w.reach, -math.huge)
  return (MAX[w.rank](input, w.kernel, w.stride, all(w.rank, 0), w.dilation)):to(dtype)
end

-- Without output_shape the places are those of the smallest tensor that the windows cover; with it
-- that tensor stands at the beginning of a greater one.
function read.MaxUnpool(n, x, places, shape)
  local rank = windows.rank_of(x)
  local kernel = windows.spatial(n, "kernel_shape", rank, 1)
  local stride = windows.spatial(n, "strides", rank, 1)
  local before, behind = windows.pads_of(n, x, kernel, stride, all(rank, 1))
  local sizes, total = { x.shape[1], x.shape[2] }, x.shape[1] * x.shape[2]
  for d = 1, rank do
    sizes[d + 2] = math.max((x.shape[d + 2] - 1) * stride[d] + kernel[d] - before[d] - behind[d], 0)
    common.check_room(n, sizes[d + 2] * total, 4)
    total = total * sizes[d + 2]
  end
  if places:numel() ~= x:numel() then
    fail("%d places for %d elements", places:numel(), x:numel())
  end
  local y = ml.zeros(total, { dtype = x.dtype, device = x.device })
  y = y:scatter(1, common.positions(places:flatten(), total), x:flatten()):reshape(sizes)
  if not shape then return y end
  local wanted, pad = common.integers(shape, "output_shape"), {}
  if #wanted ~= x.ndim then fail("output_shape has %d sizes, expected %d", #wanted, x.ndim) end
  for d = x.ndim, 1, -1 do
    if wanted[d] < 0 then fail("output_shape has the size %d", wanted[d]) end
    pad[#pad + 1], pad[#pad + 2] = 0, wanted[d] - sizes[d]
  end
  return F.pad(y, pad)
end

-- --- sums and means ---------------------------------------------------------------------------

-- The sums of the windows of a bordered input.
local function sums(x, w)
  local kernel, elements, dilated = w.kernel, 1, false
  for d = 1, w.rank do
    elements = elements * kernel[d]
    dilated = dilated or w.dilation[d] ~= 1
  end
  if not dilated then
    return AVERAGE[w.rank](x, kernel, w.stride, all(w.rank, 0), false, true) * elements
  end
  local sizes, shape = { x.shape[1] * x.shape[2], 1 }, { x.shape[1], x.shape[2] }
  for d = 1, w.rank do sizes[d + 2] = x.shape[d + 2] end
  local ones = ml.ones({ 1, 1, table.unpack(kernel) }, { dtype = x.dtype, device = x.device })
  local y = CONV[w.rank](x:reshape(sizes), ones, nil, w.stride, all(w.rank, 0), w.dilation)
  for d = 1, w.rank do shape[d + 2] = y.shape[d + 2] end
  return y:reshape(shape)
end

-- Sums are divided by the number of elements in each window: those of the border count where the
-- node says so, those behind the border never.
function read.AveragePool(n, x)
  local w, dilated = layout_of(n, x), false
  for d = 1, w.rank do dilated = dilated or w.dilation[d] ~= 1 end
  local include = n.attributes.count_include_pad == 1
  if w.plain and not dilated then
    return AVERAGE[w.rank](x, w.kernel, w.stride, w.before, false, include)
  end
  local ones, before, reach = ml.ones({ 1, 1, table.unpack(x.shape, 3) },
    { dtype = x.dtype, device = x.device }), w.before, w.reach
  if include then
    ones, before, reach = bordered(ones, before, w.behind, 1), all(w.rank, 0), {}
    for d = 1, w.rank do reach[d] = w.reach[d] - w.behind[d] end
  end
  local counts = sums(bordered(ones, before, reach, 0), w)
  return sums(bordered(x, w.before, w.reach, 0), w) / counts
end

local function power_of(n)
  local p = n.attributes.p or 2
  if p < 1 then fail("p is %s, expected at least 1", tostring(p)) end
  return p
end

function read.LpPool(n, x)
  local w, p = layout_of(n, x), power_of(n)
  local powers = bordered(x:abs() ^ p, w.before, w.reach, 0)
  return sums(powers, w):clamp { min = 0 } ^ (1 / p)
end

-- --- of whole planes --------------------------------------------------------------------------

local function global(op)
  return function(n, x)
    local dims = {}
    for d = 3, x.ndim do dims[#dims + 1] = d end
    if #dims == 0 then fail("an input of %d dimensions", x.ndim) end
    return op(x, dims, n)
  end
end
read.GlobalAveragePool = global(function(x, dims) return x:mean(dims, true) end)
read.GlobalMaxPool = global(function(x, dims) return x:amax(dims, true) end)
read.GlobalLpPool = global(function(x, dims, n)
  return ml.linalg.vector_norm(x, power_of(n), { dim = dims, keepdim = true })
end)

return read
