-- stdlib/data/image_ops.lua: what data.transforms does to an image (..., channels, height, width),
-- with the numbers that torchvision's functions for tensors give. Nothing here is random.

local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local image_ops = {}

--- Fails unless `x` is an image with channels; `channels` are those it may have.
---@param where string
---@param x any
---@param channels? integer[]
function image_ops.check(where, x, channels)
  if not ml.is_tensor(x) or x.ndim < 3 then
    fail("%s: an image (channels, height, width), or a batch of them, is expected, got %s", where,
      signature.describe(x))
  end
  local count = x.shape[x.ndim - 2]
  if x:numel() == 0 then fail("%s: the image has no pixels: shape %s", where, tostring(x.shape)) end
  for _, wanted in ipairs(channels or { count }) do
    if count == wanted then return end
  end
  fail("%s: an image of %s channels is expected, got shape %s", where,
    table.concat(channels, " or "), tostring(x.shape))
end

--- The height and the width of an image.
---@param x Tensor
---@return integer
---@return integer
function image_ops.size(x) return x.shape[x.ndim - 1], x.shape[x.ndim] end

--- The nearest integer; of two as near the even one, as Python's `round`.
---@param value number
---@return integer
function image_ops.round(value)
  local low = math.floor(value)
  local rest = value - low
  if rest > 0.5 or rest == 0.5 and low % 2 == 1 then low = low + 1 end
  return math.tointeger(low)
end

-- `f` of the image as (n, c, h, w), and the result with the dimensions of the image again.
local function as_batch(x, f)
  local shape = x.shape:totable()
  local lead = #shape - 3
  local out = f(x:reshape { -1, table.unpack(shape, lead + 1) })
  if lead == 1 then return out end
  local wanted = table.move(shape, 1, lead, 1, {})
  return out:reshape(table.move(out.shape:totable(), 2, 4, lead + 1, wanted))
end

-- The same, with `f` of floats: integers become float32 and are rounded after.
local function as_floats(x, f)
  return as_batch(x, function(batch)
    if batch:is_floating_point() then return f(batch) end
    return f(batch:to(ml.float32)):round():to(batch.dtype)
  end)
end

-- --- dtypes -------------------------------------------------------------------------------------

local MOST = { bool = 1, uint8 = 255, int8 = 127, int16 = 32767, int32 = 2147483647,
  int64 = math.maxinteger }

-- Floats from 0 to 1 of integers, or the reverse.
local function from_floats(x, dtype)
  local wide = dtype == ml.int64 or dtype == ml.int32 and x.dtype ~= ml.float64
  if wide then
    fail("ConvertImageDtype: %s cannot hold all numbers of %s; convert by way of another", x.dtype,
      dtype)
  end
  return (x * (MOST[dtype] + 1.0 - 1e-3)):to(dtype)
end

--- An image of another dtype: integers stand for 0 to the largest of them, floats for 0 to 1.
---@param x Tensor
---@param dtype string
---@return Tensor
function image_ops.convert(x, dtype)
  if x.dtype == dtype then return x end
  local most, wanted = MOST[x.dtype], MOST[dtype]
  if not most then return wanted and from_floats(x, dtype) or x:to(dtype) end
  if not wanted then return x:to(dtype) / most end
  local function ratio(a, b) return math.tointeger((a + 1.0) // (b + 1.0)) end
  if most > wanted then return x:div(ratio(most, wanted), "floor"):to(dtype) end
  return x:to(dtype) * ratio(wanted, most)
end

--- What stands for the whole of a channel: 1 for floats, the largest number of an integer dtype.
---@param x Tensor
---@return number
function image_ops.whole(x) return MOST[x.dtype] or 1 end

-- --- sizes --------------------------------------------------------------------------------------

--- The height and width of an image resized to `size`, { height, width } or { shorter side }.
---@param x Tensor
---@param size integer[]
---@param max_size? integer
---@return integer
---@return integer
function image_ops.resized(x, size, max_size)
  if #size == 2 then return size[1], size[2] end
  local h, w = image_ops.size(x)
  local short, long = size[1], size[1] * math.max(h, w) // math.min(h, w)
  if max_size and long > max_size then short, long = max_size * short // long, max_size end
  if w <= h then return long, short end
  return short, long
end

--- An image of another size.
---@param x Tensor
---@param h integer
---@param w integer
---@param mode string "nearest", "nearest-exact", "bilinear" or "bicubic"
---@param antialias boolean
---@return Tensor
function image_ops.resize(x, h, w, mode, antialias)
  local old_h, old_w = image_ops.size(x)
  if h == old_h and w == old_w then return x end
  local smooth = mode == "bilinear" or mode == "bicubic"
  return as_floats(x, function(batch)
    local out = ml.interpolate(batch, { h, w }, mode, false, smooth and antialias)
    return mode == "bicubic" and x.dtype == ml.uint8 and out:clamp(0, 255) or out
  end)
end

--- A part of an image, of which row and column `top` and `left` are the first.
---@param x Tensor
---@param top integer
---@param left integer
---@param h integer
---@param w integer
---@return Tensor
function image_ops.crop(x, top, left, h, w)
  return x:narrow(-2, top, h):narrow(-1, left, w)
end

--- The sides left, top, right and bottom from one number, two (left and right, top and bottom) or
--- four.
---@param where string
---@param padding integer|integer[]
---@return integer[]
function image_ops.sides(where, padding)
  if type(padding) == "number" then padding = { padding } end
  if #padding == 1 then padding = { padding[1], padding[1] } end
  if #padding == 2 then return { padding[1], padding[2], padding[1], padding[2] } end
  if #padding ~= 4 then
    fail("%s: 'padding' must be an integer or 1, 2 or 4 of them, got %d", where, #padding)
  end
  return padding
end

-- The positions of `size` elements with the first `before` and the last `after` mirrored outside.
local function mirrored(where, size, before, after)
  if before > size or after > size then
    fail("%s: %d elements cannot be mirrored for a border of %d", where, size,
      math.max(before, after))
  end
  local positions = {}
  for i = before, 1, -1 do positions[#positions + 1] = i end
  for i = 1, size do positions[#positions + 1] = i end
  for i = size, size - after + 1, -1 do positions[#positions + 1] = i end
  return ml.tensor(positions, { dtype = ml.int64 })
end

local PAD_MODES = { constant = "constant", edge = "replicate", reflect = "reflect" }

--- An image with a border of `sides`: left, top, right and bottom.
---@param where string
---@param x Tensor
---@param sides integer[]
---@param fill number
---@param mode string
---@return Tensor
function image_ops.pad(where, x, sides, fill, mode)
  local left, top, right, bottom = table.unpack(sides)
  if left == 0 and top == 0 and right == 0 and bottom == 0 then return x end
  local h, w = image_ops.size(x)
  if mode == "symmetric" then
    x = x:index_select(-2, mirrored(where, h, top, bottom):to(x.device))
    return x:index_select(-1, mirrored(where, w, left, right):to(x.device))
  end
  return as_batch(x, function(batch)
    return ml.pad(batch, { left, right, top, bottom }, PAD_MODES[mode], fill)
  end)
end

-- --- rotations ----------------------------------------------------------------------------------

-- The six numbers that say where a position of the turned image comes from; both are counted from
-- the middle of the image, to which `cx` and `cy` are the centre of the rotation.
local function inverse_rotation(angle, cx, cy)
  local turn = -math.rad(angle)  -- positions go back by what the image goes forth
  local cos, sin = math.cos(turn), math.sin(turn)
  return { cos, sin, -cos * cx - sin * cy + cx, -sin, cos, sin * cx - cos * cy + cy }
end

-- The height and the width of what holds the whole turned image.
local function expanded(m, h, w)
  local function reach(a, b, c, size)
    local least, most = math.huge, -math.huge
    for _, corner in ipairs { { -1, -1 }, { -1, 1 }, { 1, 1 }, { 1, -1 } } do
      local at = a * corner[1] * w / 2 + b * corner[2] * h / 2 + c + size / 2
      least, most = math.min(least, at), math.max(most, at)
    end
    local function cut(value) return (math.modf(value / 1e-3)) * 1e-3 end
    return math.tointeger(math.ceil(cut(most)) - math.floor(cut(least)))
  end
  return reach(m[4], m[5], m[6], h), reach(m[1], m[2], m[3], w)
end

-- The positions of grid_sample for an image of (h, w) turned into one of (new_h, new_w).
local function rotation_grid(m, h, w, new_h, new_w)
  local function steps(n) return ml.linspace(0.5 - n / 2, n / 2 - 0.5, n) end
  local x, y = steps(new_w):view(1, -1), steps(new_h):view(-1, 1)
  local from_x = (x * m[1] + y * m[2] + m[3]) / (w / 2)
  local from_y = (x * m[4] + y * m[5] + m[6]) / (h / 2)
  return ml.stack({ from_x, from_y }, 3):unsqueeze(1)
end

--- An image turned by `angle` degrees, against the clock.
---@param x Tensor
---@param angle number
---@param o table mode, expand, center (x and y in pixels), fill
---@return Tensor
function image_ops.rotate(x, angle, o)
  local h, w = image_ops.size(x)
  local cx, cy = 0, 0
  if o.center then cx, cy = o.center[1] - w / 2, o.center[2] - h / 2 end
  local m = inverse_rotation(angle, cx, cy)
  local new_h, new_w = h, w
  if o.expand then new_h, new_w = expanded(m, h, w) end
  local grid = rotation_grid(m, h, w, new_h, new_w):to(x.device)
  return as_floats(x, function(batch)
    local n = #batch
    local inside = ml.ones({ n, 1, h, w }, { dtype = batch.dtype, device = batch.device })
    local positions = grid:to(batch.dtype):expand(n, -1, -1, -1)
    local out = ml.grid_sample(ml.cat({ batch, inside }, 2), positions, o.mode)
    local mask = out:narrow(2, out.shape[2], 1)
    out = out:narrow(2, 1, out.shape[2] - 1)
    if o.mode == "nearest" then return out:masked_fill(mask:lt(0.5), o.fill) end
    return out * mask + (1 - mask) * o.fill
  end)
end

return image_ops
