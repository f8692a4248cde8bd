-- stdlib/onnx/read/image.lua: ONNX's borders, resizing and moved pixels.

local F = require "moonlet.nn.functional"
local common = require "moonlet.onnx.read.common"
local ml = require "moonlet"
local fail = common.fail

local read = {}

-- --- borders ----------------------------------------------------------------------------------

-- A number in a table, and in the tensor that is made of it.
local LIST_BYTES = 48

-- For each place of the padded dimension the one that it shows, from 1.
local PLACES = {
  edge = function(i, size) return math.min(math.max(i, 1), size) end,
  wrap = function(i, size) return (i - 1) % size + 1 end,
  reflect = function(i, size)
    if size == 1 then return 1 end
    local period = 2 * (size - 1)
    local at = (i - 1) % period
    return (at < size and at or period - at) + 1
  end,
}

local function shown(n, x, dim, before, behind, place)
  local size, list = x.shape[dim], {}
  if size == 0 then fail "a border of what is empty" end
  common.check_room(n, size + before + behind, LIST_BYTES)
  for i = 1 - before, size + behind do list[#list + 1] = place(i, size) end
  if #list == 0 then return x:narrow(dim, 1, 0) end
  return x:index_select(dim, ml.tensor(list, { dtype = ml.int64, device = x.device }))
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
  local place = PLACES[mode] or fail("the mode '%s' is not read", mode)
  for d = 1, x.ndim do
    if before[d] ~= 0 or behind[d] ~= 0 then x = shown(n, x, d, before[d], behind[d], place) end
  end
  return x
end

-- --- resizing ---------------------------------------------------------------------------------

-- Where a new place lies among the old ones, both from 0.
local COORDINATES = {
  half_pixel = function(i, scale) return (i + 0.5) / scale - 0.5 end,
  pytorch_half_pixel = function(i, scale, to) return to > 1 and (i + 0.5) / scale - 0.5 or 0 end,
  asymmetric = function(i, scale) return i / scale end,
  align_corners = function(i, _, to, from) return to > 1 and i * (from - 1) / (to - 1) or 0 end,
}

local ROUND = {
  floor = math.floor, ceil = math.ceil,
  round_prefer_floor = function(x) return math.ceil(x - 0.5) end,
  round_prefer_ceil = function(x) return math.floor(x + 0.5) end,
}

-- The weights of four neighbours at `t` behind the second (Keys, 1981).
local function cubic_weights(t, a)
  local function near(d) return ((a + 2) * d - (a + 3)) * d * d + 1 end
  local function far(d) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a end
  return { far(t + 1), near(t), near(1 - t), far(2 - t) }
end

-- The old places that a new one is made of, and their weights.
local function neighbours(n, at)
  local first = math.floor(at)
  if n.attributes.mode == "cubic" then
    return first - 1, cubic_weights(at - first, n.attributes.cubic_coeff_a or -0.75)
  end
  return first, { 1 - (at - first), at - first }
end

local function nearest(n, x, dim, to, coordinate)
  local from, list = x.shape[dim], {}
  local round = ROUND[n.attributes.nearest_mode or "round_prefer_floor"] or fail "the nearest_mode"
  for i = 0, to - 1 do
    list[i + 1] = math.min(math.max(math.floor(round(coordinate(i))), 0), from - 1) + 1
  end
  return x:index_select(dim, ml.tensor(list, { dtype = ml.int64, device = x.device }))
end

-- As a product with a matrix (old, new).
local function blended(n, x, dim, to, coordinate)
  local from = x.shape[dim]
  common.check_room(n, from * to, LIST_BYTES)
  local rows = {}
  for i = 0, to - 1 do
    local row = {}
    for k = 1, from do row[k] = 0.0 end
    local first, weights = neighbours(n, coordinate(i))
    for k, weight in ipairs(weights) do
      local at = math.min(math.max(first + k - 1, 0), from - 1) + 1
      row[at] = row[at] + weight
    end
    rows[i + 1] = row
  end
  local matrix = ml.tensor(rows, { dtype = x.dtype, device = x.device })
  return ml.matmul(x:transpose(dim, -1), matrix:t()):transpose(dim, -1)
end

-- The new size and the scale of each dimension.
local function targets(n, x, scales, sizes)
  local new, by = {}, {}
  local list = sizes and sizes:numel() > 0 and common.integers(sizes, "sizes")
  if not list and scales and scales:numel() ~= x.ndim then
    fail("scales for %d of %d dimensions", scales:numel(), x.ndim)
  end
  local factors = not list and scales and scales:flatten():tolist()
  if n.attributes.axes then fail "axes are not read" end
  local count = list and #list or factors and #factors
  if count ~= x.ndim then fail("sizes for %s of %d dimensions", tostring(count), x.ndim) end
  for d = 1, x.ndim do
    local from = x.shape[d]
    new[d] = list and list[d] or math.floor(from * factors[d] + 1e-6)
    by[d] = list and new[d] / math.max(from, 1) or factors[d]
    if new[d] < 1 or new[d] > 1 << 20 or from < 1 or from > 1 << 31 then
      fail("from %d to %d elements", from, new[d])
    end
  end
  return new, by
end

-- The inputs are x and scales before opset 11, then x, a region, scales and sizes.
function read.Resize(n, x, region, scales, sizes)
  if n.version < 11 then scales, sizes = region, nil end
  local mode = n.attributes.mode or "nearest"
  local name = n.attributes.coordinate_transformation_mode
    or (n.version < 11 and "asymmetric" or "half_pixel")
  local coordinates = COORDINATES[name] or fail("coordinates by '%s' are not read", name)
  if (n.attributes.antialias or 0) ~= 0 or (n.attributes.exclude_outside or 0) ~= 0 then
    fail "antialias and exclude_outside are not read"
  end
  local new, by = targets(n, x, scales, sizes)
  local resize = mode == "nearest" and nearest or (mode == "linear" or mode == "cubic") and blended
    or fail("the mode '%s' is not read", mode)
  for d = 1, x.ndim do
    local from, to, scale = x.shape[d], new[d], by[d]
    if to ~= from or scale ~= 1 then
      x = resize(n, x, d, to, function(i) return coordinates(i, scale, to, from) end)
    end
  end
  return x
end

function read.Upsample(n, x, scales)
  local given = scales or ml.tensor(n.attributes.scales or fail "it has no scales")
  local node = { attributes = { mode = n.attributes.mode, nearest_mode = "floor" }, version = 10,
    limit = n.limit }
  return read.Resize(node, x, given)
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

return read
