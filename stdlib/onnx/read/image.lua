-- stdlib/onnx/read/image.lua: ONNX's borders, moved pixels, and windows at their own places.

local F = require "moonlet.nn.functional"
local common = require "moonlet.onnx.read.common"
local ml = require "moonlet"
local windows = require "moonlet.onnx.read.windows"
local fail = common.fail

local read = {}

-- --- borders ----------------------------------------------------------------------------------

-- The tensors of positions that one is made of.
local LIST_BYTES = 48

-- For each position of the padded dimension, which lie around 1 to size, the one that it shows.
local POSITIONS = {
  edge = function(i, size) return i:clamp(1, size) end,
  wrap = function(i, size) return (i - 1) % size + 1 end,
  reflect = function(i, size)
    if size == 1 then return ml.ones_like(i) end
    local period = 2 * (size - 1)
    local at = (i - 1) % period
    return ml.where(at:lt(size), at, period - at) + 1
  end,
}

local function shown(n, x, dim, before, behind, positions)
  local size = x.shape[dim]
  if size == 0 then fail "a border of what is empty" end
  local count = size + before + behind
  common.check_room(n, count, LIST_BYTES)
  if count <= 0 then return x:narrow(dim, 1, 0) end
  return x:index_select(dim, positions(common.range(1 - before, count, x.device), size))
end

local MOST = 1 << 31

function read.Pad(n, x, pads, value, axes)
  local list = common.list(n, "pads", pads) or n.attributes.paddings or fail "it has no pads"
  local dims = common.dims(axes and common.integers(axes, "axes"), x.ndim)
  if #list ~= 2 * #dims then fail("%d pads for %d dimensions", #list, #dims) end
  local mode = n.attributes.mode or "constant"
  local fill = value and common.number(value, "the value") or n.attributes.value or 0
  local before, behind = {}, {}
  for d = 1, x.ndim do before[d], behind[d] = 0, 0 end
  for i, d in ipairs(dims) do
    before[d], behind[d] = list[i], list[i + #dims]
    local most, least = math.max(before[d], behind[d]), math.min(before[d], behind[d])
    if most > MOST or least < -MOST then fail("a pad of %d", most > MOST and most or least) end
  end
  if mode == "constant" then
    local pad = {}
    for d = x.ndim, 1, -1 do pad[#pad + 1], pad[#pad + 2] = before[d], behind[d] end
    return F.pad(x, pad, "constant", fill)
  end
  local positions = POSITIONS[mode] or fail("the mode '%s' is not read", mode)
  for d = 1, x.ndim do
    if before[d] ~= 0 or behind[d] ~= 0 then x = shown(n, x, d, before[d], behind[d], positions) end
  end
  return x
end

-- --- pixels -----------------------------------------------------------------------------------

local function block_of(n, x)
  local size = n.attributes.blocksize or 0
  if size < 1 or size > 1 << 15 or x.ndim ~= 4 then
    fail("blocks of %d in %d dimensions", size, x.ndim)
  end
  return size, x.shape[1], x.shape[2], x.shape[3], x.shape[4]
end

function read.DepthToSpace(n, x)
  local size, batch, channels, height, width = block_of(n, x)
  if n.attributes.mode == "CRD" then return F.pixel_shuffle(x, size) end
  local part = x:reshape(batch, size, size, channels // (size * size), height, width)
  return part:permute(1, 4, 5, 2, 6, 3):reshape(batch, channels // (size * size), height * size,
    width * size)
end

function read.SpaceToDepth(n, x)
  local size, batch, channels, height, width = block_of(n, x)
  local part = x:reshape(batch, channels, height // size, size, width // size, size)
  return part:permute(1, 4, 6, 2, 3, 5):reshape(batch, channels * size * size, height // size,
    width // size)
end

function read.GridSample(n, x, grid)
  local mode = n.attributes.mode or "bilinear"
  return F.grid_sample(x, grid, mode == "linear" and "bilinear" or mode == "cubic" and "bicubic"
    or mode, n.attributes.padding_mode or "zeros", n.attributes.align_corners == 1)
end

function read.AffineGrid(n, theta, size)
  local sizes = common.integers(size, "the size")
  if #sizes ~= 4 and #sizes ~= 5 then fail("%d sizes, expected 4 or 5", #sizes) end
  local count = 1
  for d, one in ipairs(sizes) do
    if one < 0 then fail("the size %d", one) end
    if d ~= 2 then
      common.check_room(n, count * one, 24)
      count = count * one
    end
  end
  return F.affine_grid(theta, sizes, n.attributes.align_corners == 1)
end

function read.CenterCropPad(n, x, shape)
  local sizes, dims = common.integers(shape, "the shape"), common.dims(n.attributes.axes, x.ndim)
  if #sizes ~= #dims then fail("%d sizes for %d dimensions", #sizes, #dims) end
  local pad, any = {}, false
  for d = 1, 2 * x.ndim do pad[d] = 0 end
  for i, d in ipairs(dims) do
    local more = sizes[i] - x.shape[d]
    if sizes[i] < 0 or sizes[i] > MOST then fail("the size %d", sizes[i]) end
    if more < 0 then
      x = x:narrow(d, -more // 2 + 1, sizes[i])
    elseif more > 0 then
      pad[2 * (x.ndim - d) + 1], pad[2 * (x.ndim - d) + 2], any = more // 2, more - more // 2, true
    end
  end
  return any and F.pad(x, pad) or x
end

-- --- windows as columns -----------------------------------------------------------------------

-- Where each element of each window lies in a bordered picture, from 1: a tensor (elements of a
-- window, windows).
local function places_of(sizes, block, stride, dilation)
  local places, scale = ml.ones(1, 1, { dtype = ml.int64 }), 1
  for d = #sizes, 1, -1 do
    local many = (sizes[d] - (block[d] - 1) * dilation[d] - 1) // stride[d] + 1
    if many < 1 then fail("blocks of %d do not fit in %d", block[d], sizes[d]) end
    local inside = ml.arange(0, block[d] - 1):to("int64") * dilation[d]
    local first = ml.arange(0, many - 1):to("int64") * stride[d]
    local part = (inside:unsqueeze(2) + first) * scale
    -- (block of d, block behind, windows of d, windows behind)
    places = (part:unsqueeze(2):unsqueeze(4) + places:unsqueeze(1):unsqueeze(3))
      :reshape(block[d] * places.shape[1], many * places.shape[2])
    scale = scale * sizes[d]
  end
  return places
end

function read.Col2Im(n, x, image, block)
  local image_shape = common.integers(image, "image_shape")
  local block_shape, rank = common.integers(block, "block_shape"), #image_shape
  if x.ndim ~= 3 or #block_shape ~= rank or rank < 1 then
    fail("an input of %d dimensions, an image of %d, blocks of %d", x.ndim, rank, #block_shape)
  end
  local stride = windows.spatial(n, "strides", rank, 1)
  local dilation = windows.spatial(n, "dilations", rank, 1)
  local pads, sizes = n.attributes.pads or windows.all(2 * rank, 0), {}
  if #pads ~= 2 * rank then fail("%d pads for %d dimensions", #pads, rank) end
  local total, elements = x.shape[1], 1
  for d = 1, rank do
    if image_shape[d] < 1 or block_shape[d] < 1 or math.min(pads[d], pads[d + rank]) < 0 then
      fail("blocks of %d in %d elements", block_shape[d], image_shape[d])
    end
    sizes[d], elements = image_shape[d] + pads[d] + pads[d + rank], elements * block_shape[d]
    common.check_room(n, total * sizes[d], 8)
    common.check_room(n, elements, 8)
    total = total * sizes[d]
  end
  local places = places_of(sizes, block_shape, stride, dilation)
  if x.shape[2] % elements ~= 0 or places.shape[2] ~= x.shape[3] then
    fail("columns of the shape %s, where blocks have %d elements and there are %d of them",
      tostring(x.shape), elements, places.shape[2])
  end
  local channels = x.shape[2] // elements
  local rows = x.shape[1] * channels
  common.check_room(n, rows * (total // math.max(x.shape[1], 1)), 4)
  local y = ml.zeros(rows, total // math.max(x.shape[1], 1), { dtype = x.dtype, device = x.device })
  y = y:index_add(2, places:flatten():to(x.device), x:reshape(rows, -1))
  y = y:reshape(x.shape[1], channels, table.unpack(sizes))
  for d = 1, rank do y = y:narrow(d + 2, pads[d] + 1, image_shape[d]) end
  return y
end

-- What lies at places between four pixels, those outside being 0: flat pictures (n, c, pixels), and
-- places (n, 1, count) from 0.
local function between(x, height, width, y, z)
  local top, left, sum = y:floor(), z:floor(), nil
  for i = 0, 1 do
    local row = top + i
    for k = 0, 1 do
      local column = left + k
      local weight = (1 - (y - row):abs()) * (1 - (z - column):abs())
      local inside = row:ge(0):logical_and(row:lt(height)):logical_and(column:ge(0))
        :logical_and(column:lt(width))
      local at = row:detach():clamp(0, height - 1) * width + column:detach():clamp(0, width - 1)
      local pixels = x:gather(3, (at:to "int64" + 1):expand(-1, x.shape[2], -1))
      local part = pixels * ml.where(inside, weight, 0)
      sum = sum and sum + part or part
    end
  end
  return sum
end

-- Each element of a window is looked up at its own place.
function read.DeformConv(n, x, weight, offset, bias, mask)
  if x.ndim ~= 4 or weight.ndim ~= 4 or offset.ndim ~= 4 then
    fail("inputs of %d, %d and %d dimensions, expected 4", x.ndim, weight.ndim, offset.ndim)
  end
  local batch, channels, height, width = table.unpack(x.shape)
  local outputs, per_group, rows, columns = table.unpack(weight.shape)
  local stride = windows.spatial(n, "strides", 2, 1)
  local dilation = windows.spatial(n, "dilations", 2, 1)
  local pads, groups = n.attributes.pads or { 0, 0, 0, 0 }, n.attributes.group or 1
  local parts, size = n.attributes.offset_group or 1, rows * columns
  local down, across = offset.shape[3], offset.shape[4]
  if #pads ~= 4 or groups < 1 or parts < 1 or channels % parts ~= 0 or outputs % groups ~= 0
      or per_group * groups ~= channels or offset.shape[2] ~= 2 * size * parts
      or offset.shape[1] ~= batch then
    fail("an input of %s, a weight of %s and offsets of %s in %d groups, %d of offsets",
      tostring(x.shape), tostring(weight.shape), tostring(offset.shape), groups, parts)
  end
  local moved = offset:reshape(batch * parts, rows, columns, 2, down, across)
  local function places(d, count, taps, axis, tap_axis)
    local shape = { 1, 1, 1, 1, 1 }
    shape[axis] = count
    local at = ((ml.arange(0, count - 1) * stride[d]):to(x.dtype) - pads[d]):reshape(shape)
    shape = { 1, 1, 1, 1, 1 }
    shape[tap_axis] = taps
    return (at + (ml.arange(0, taps - 1) * dilation[d]):to(x.dtype):reshape(shape)):to(x.device)
  end
  local y = moved:select(4, 1) + places(1, down, rows, 4, 2)
  local z = moved:select(4, 2) + places(2, across, columns, 5, 3)
  local taken = between(x:reshape(batch * parts, channels // parts, height * width), height, width,
    y:reshape(batch * parts, 1, -1), z:reshape(batch * parts, 1, -1))
  taken = taken:reshape(batch, parts, channels // parts, size, down * across)
  if mask then taken = taken * mask:reshape(batch, parts, 1, size, down * across) end
  taken = taken:reshape(batch, groups, per_group * size, down * across)
  local out = ml.matmul(weight:reshape(groups, outputs // groups, per_group * size), taken)
    :reshape(batch, outputs, down, across)
  return bias and out + bias:reshape(-1, 1, 1) or out
end

return read
