-- stdlib/onnx/read/pool.lua: ONNX's pooling.

local F = require "moonlet.nn.functional"
local common = require "moonlet.onnx.read.common"
local ml = require "moonlet"
local windows = require "moonlet.onnx.read.windows"
local fail = common.fail

local read = {}

local MAX = { F.max_pool1d, F.max_pool2d, F.max_pool3d }
local AVERAGE = { F.avg_pool1d, F.avg_pool2d, F.avg_pool3d }

local function shape_of(n, x)
  local rank = windows.rank_of(x)
  if not n.attributes.kernel_shape then fail "it has no kernel_shape" end
  local kernel = windows.spatial(n, "kernel_shape", rank, 1)
  local stride = windows.spatial(n, "strides", rank, 1)
  return rank, kernel, stride, windows.spatial(n, "dilations", rank, 1)
end

-- Pooling pads at most half a kernel itself.
local function bordered(x, before, behind, kernel, value)
  local fits = true
  for d = 1, #kernel do
    fits = fits and before[d] == behind[d] and before[d] >= 0 and 2 * before[d] <= kernel[d]
  end
  if fits then return x, before end
  local pad = {}
  for d = #kernel, 1, -1 do pad[#pad + 1], pad[#pad + 2] = before[d], behind[d] end
  return F.pad(x, pad, "constant", value), windows.all(#kernel, 0)
end

function read.MaxPool(n, x)
  if n.outputs[2] and n.outputs[2] ~= "" then fail "the places of the maxima are not read" end
  local rank, kernel, stride, dilation = shape_of(n, x)
  local before, behind = windows.pads_of(n, x, kernel, stride, dilation)
  local input, padding = bordered(x, before, behind, kernel, -math.huge)
  return (MAX[rank](input, kernel, stride, padding, dilation, n.attributes.ceil_mode == 1))
end

-- Where the border does not count the sums are divided by the number of elements in each window.
function read.AveragePool(n, x)
  local rank, kernel, stride, dilation = shape_of(n, x)
  for _, step in ipairs(dilation) do
    if step ~= 1 then fail "dilations other than 1 are not read" end
  end
  local before, behind = windows.pads_of(n, x, kernel, stride, dilation)
  local input, padding = bordered(x, before, behind, kernel, 0)
  local ceil, count = n.attributes.ceil_mode == 1, n.attributes.count_include_pad == 1
  if input == x or count then
    return AVERAGE[rank](input, kernel, stride, padding, ceil, count)
  end
  local ones = bordered(ml.ones_like(x), before, behind, kernel, 0)
  local sums = AVERAGE[rank](input, kernel, stride, padding, ceil, true)
  return sums / AVERAGE[rank](ones, kernel, stride, padding, ceil, true)
end

local function global(op)
  return function(_, x)
    local dims = {}
    for d = 3, x.ndim do dims[#dims + 1] = d end
    if #dims == 0 then fail("an input of %d dimensions", x.ndim) end
    return op(x, { dim = dims, keepdim = true })
  end
end
read.GlobalAveragePool, read.GlobalMaxPool = global(ml.mean), global(ml.amax)

return read
