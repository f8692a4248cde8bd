-- stdlib/data/color_ops.lua: what data.transforms does to the colours of an image, with the numbers
-- that torchvision's functions for tensors give. Nothing here is random.

local image_ops = require "moonlet.data.image_ops"
local ml = require "moonlet"

local color_ops = {}

--- The grey of an image: one channel, or `count` equal ones.
---@param x Tensor
---@param count integer
---@return Tensor
function color_ops.grayscale(x, count)
  local gray = x
  if x.shape[x.ndim - 2] == 3 then
    local r, g, b = x:select(-3, 1), x:select(-3, 2), x:select(-3, 3)
    gray = (0.2989 * r + 0.587 * g + 0.114 * b):to(x.dtype):unsqueeze(-3)
  end
  if count == 1 then return gray end
  local parts = {}
  for i = 1, count do parts[i] = gray end
  return ml.cat(parts, -3)
end

-- `x` times the factor and `other` times the rest, within what the dtype stands for.
local function blend(x, other, factor)
  return (x * factor + other * (1 - factor)):clamp(0, image_ops.whole(x)):to(x.dtype)
end

local function as_number(x) return x:is_floating_point() and x or x:to(ml.float32) end

--- Darker below 1, brighter above.
---@param x Tensor
---@param factor number
---@return Tensor
function color_ops.brightness(x, factor) return blend(x, ml.zeros_like(x), factor) end

--- Nearer to the mean of its grey below 1, farther above.
---@param x Tensor
---@param factor number
---@return Tensor
function color_ops.contrast(x, factor)
  local gray = as_number(color_ops.grayscale(x, 1))
  return blend(x, gray:mean({ -3, -2, -1 }, true), factor)
end

--- Nearer to its grey below 1, farther above.
---@param x Tensor
---@param factor number
---@return Tensor
function color_ops.saturation(x, factor)
  if x.shape[x.ndim - 2] == 1 then return x end
  return blend(x, color_ops.grayscale(x, 1), factor)
end

-- Hue, saturation and value of the planes of red, green and blue.
local function to_hsv(r, g, b)
  local most, least = r:maximum(g):maximum(b), r:minimum(g):minimum(b)
  local equal, range = most:eq(least), most - least
  local one = ml.ones_like(most)
  local saturation = range / one:where(equal, most)
  local divisor = one:where(equal, range)
  local rc, gc, bc = (most - r) / divisor, (most - g) / divisor, (most - b) / divisor
  local is_red = most:eq(r)
  local is_green = most:eq(g):logical_and(is_red:logical_not())
  local is_blue = is_red:logical_or(most:eq(g)):logical_not()
  local hue = is_red * (bc - gc) + is_green * (2.0 + rc - bc) + is_blue * (4.0 + gc - rc)
  return (hue / 6.0 + 1.0):fmod(1.0), saturation, most
end

local function to_rgb(h, s, v)
  local sector = (h * 6.0):floor()
  local f = h * 6.0 - sector
  local p = (v * (1.0 - s)):clamp(0, 1)
  local q = (v * (1.0 - s * f)):clamp(0, 1)
  local t = (v * (1.0 - s * (1.0 - f))):clamp(0, 1)
  sector = sector:remainder(6)
  local function plane(...)
    local out = ml.zeros_like(v)
    for i, value in ipairs { ... } do out = value:where(sector:eq(i - 1), out) end
    return out
  end
  return plane(v, q, p, p, t, v), plane(t, v, v, q, p, p), plane(p, p, t, v, v, q)
end

--- With the hue turned by `shift`, of which 1 is the whole circle.
---@param x Tensor
---@param shift number
---@return Tensor
function color_ops.hue(x, shift)
  if x.shape[x.ndim - 2] == 1 then return x end
  local image = x:is_floating_point() and x or image_ops.convert(x, ml.float32)
  local h, s, v = to_hsv(image:select(-3, 1), image:select(-3, 2), image:select(-3, 3))
  local r, g, b = to_rgb((h + shift):remainder(1.0), s, v)
  return image_ops.convert(ml.stack({ r, g, b }, -3), x.dtype)
end

return color_ops
