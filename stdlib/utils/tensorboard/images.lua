-- stdlib/utils/tensorboard/images.lua: tensors as the PNG pictures that TensorBoard shows.

local io = require "moonlet.io"
local ml = require "moonlet"
local fail = require("moonlet.options").fail

local images = {}

local LEVEL = 6  -- of compression

-- For each order of dimensions, the positions of height, width and channels.
local ORDERS = { CHW = { 2, 3, 1 }, HWC = { 1, 2, 3 } }

local function check(where, name, x, wanted)
  if x:is_complex() then fail("%s: '%s' must not be complex", where, name) end
  if x.ndim ~= #wanted then
    fail("%s: '%s' must have %d dimensions (%s), got shape %s", where, name, #wanted, wanted,
      tostring(x.shape))
  end
end

-- Bytes of each pixel: those of uint8 as they are, others times 255.
local function as_bytes(x)
  if x.dtype == ml.uint8 then return x end
  return (x:to(ml.float32) * 255):nan_to_num(0):clamp(0, 255):to(ml.uint8)
end

-- (height, width, channels), grey ones with three channels.
local function pixels(where, x)
  local channels = x:size(3)
  if channels ~= 1 and channels ~= 3 and channels ~= 4 then
    fail("%s: an image has 1, 3 or 4 channels, got %d", where, channels)
  elseif x:numel() == 0 then
    fail("%s: the image is empty", where)
  end
  local bytes = as_bytes(x:detach():to { device = "cpu" })
  return channels == 1 and bytes:expand(x:size(1), x:size(2), 3) or bytes
end

--- The PNG file of an image, with its width, height and number of channels.
---@param where string
---@param x moonlet.Tensor
---@param dataformats string "CHW", "HWC" or "HW"
---@return string file
---@return integer width
---@return integer height
---@return integer channels
function images.png(where, x, dataformats)
  check(where, "img_tensor", x, dataformats)
  local order = ORDERS[dataformats]
  local image = pixels(where, order and x:permute(order) or x:unsqueeze(3))
  local height, width, channels = image:size(1), image:size(2), image:size(3)
  return io.encode_png(image:contiguous(), LEVEL), width, height, channels
end

--- Width and height of a PNG file, from its header (ISO/IEC 15948).
---@param file string
---@return integer width
---@return integer height
function images.size(file)
  local width, height = (">I4 I4"):unpack(file, 17)
  return width, height
end

--- Images (n, channels, height, width) or (n, height, width, channels) as one.
---@param where string
---@param x moonlet.Tensor
---@param dataformats string "NCHW" or "NHWC"
---@param most? integer how many are in a row (default 8)
---@param name? string what `x` is called
---@return moonlet.Tensor image (channels, height, width)
function images.grid(where, x, dataformats, most, name)
  check(where, name or "img_tensor", x, dataformats)
  if dataformats == "NHWC" then x = x:permute { 1, 4, 2, 3 } end
  local n, channels, height, width = x.shape:totable()[1], x:size(2), x:size(3), x:size(4)
  if n == 0 then fail("%s: there are no images", where) end
  local columns = math.min(n, most or 8)
  local rows = (n + columns - 1) // columns
  local out = ml.zeros { channels, rows * height, columns * width, dtype = x.dtype,
    device = x.device }
  for i = 0, n - 1 do
    local top, left = i // columns * height, i % columns * width
    out[{ {}, { top + 1, top + height }, { left + 1, left + width } }]:copy_(x[i + 1]:detach())
  end
  return out
end

return images
