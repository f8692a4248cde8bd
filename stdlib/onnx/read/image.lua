-- stdlib/onnx/read/image.lua: ONNX's borders and moved pixels.

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
