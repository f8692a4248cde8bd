-- stdlib/data/image_file.lua: pictures in PNG, JPEG, BMP, GIF and WebP files as tensors of
-- (channels, height, width), with torchvision.io's names and arguments.

local io = require "moonlet.io"
local kinds = require "moonlet.files.kinds"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local files = {}

-- The channels of each mode; 0 stands for those of the file.
local MODES = { unchanged = 0, gray = 1, gray_alpha = 2, rgb = 3, rgb_alpha = 4 }

-- What turns a picture (.., height, width) as each number of Exif's orientation says: whether its
-- rows and columns change places, and the dimensions that are then reversed.
local TURNS = { [2] = { false, { -1 } }, [3] = { false, { -2, -1 } }, [4] = { false, { -2 } },
  [5] = { true }, [6] = { true, { -1 } }, [7] = { true, { -2, -1 } }, [8] = { true, { -2 } } }

local function turned(image, orientation)
  local turn = TURNS[orientation]
  if not turn then return image end
  if turn[1] then image = image:transpose(-1, -2) end
  return turn[2] and image:flip(turn[2]) or image
end

local read_image = signature('data.read_image(string path, string mode="unchanged", '
  .. "bool apply_exif_orientation=false, bool all_frames=false, int>=1? max_bytes=nil)")

--- Reads a PNG, JPEG, BMP, GIF or WebP file. Pictures are uint8, from 0 to 255; a PNG file of 16
--- bits is int32, from 0 to 65535. Of a GIF or an animated WebP file this is the first frame. WebP
--- needs libwebp.
--- > path = os.tmpname()
--- > ml.data.write_png(ml.tensor({ { { 0, 128 }, { 255, 64 } } }, { dtype = ml.uint8 }), path)
--- > ml.data.read_image(path)
---   {{{  0, 128},
---     {255,  64}}}
---   Tensor (1, 2, 2) uint8
---@param path string the file
---@param mode? string "unchanged" (the file's channels), "gray", "gray_alpha", "rgb" or "rgb_alpha"
---@param apply_exif_orientation? boolean whether the picture is rotated as the camera was held
---@param all_frames? boolean whether all frames come, as they are shown, along a new first
---   dimension
---@param max_bytes? integer the most bytes that decoding may take; 512 MiB or 256 times the
---   file unless given
---@return Tensor
---@shape -> (channels, height, width), or (frames, channels, height, width) with `all_frames`
---@error for a file that is cut off or whose PNG checksums are wrong, and for WebP without libwebp
function files.read_image(...)
  local path, mode, apply, all, max_bytes = read_image(...)
  local channels = MODES[mode] or fail("data.read_image: 'mode' must be unchanged, gray, "
    .. "gray_alpha, rgb or rgb_alpha, got '%s'", mode)
  local other = kinds.other_than(io.read_bytes(path, 0, 512, "read_image"), "ml.data.read_image")
  if other then
    fail("read_image: '%s': this is %s, not a PNG, JPEG, BMP, GIF or WebP picture", path, other)
  end
  local pixels, orientation = io.read_picture(path, channels, all, max_bytes)
  local image = pixels:permute(all and { 1, 4, 2, 3 } or { 3, 1, 2 })
  if apply then image = turned(image, orientation) end
  return image:contiguous()
end

-- The picture as (height, width, channels), checked.
local function pixels_of(where, input, allowed)
  if input.dtype ~= "uint8" or input.ndim ~= 3 then
    fail("%s: 'input' must be uint8 of shape (channels, height, width), got %s of shape %s", where,
      input.dtype, tostring(input.shape))
  elseif not allowed[input.shape[1]] then
    fail("%s: 'input' must have %s channels, got shape %s", where, allowed.text,
      tostring(input.shape))
  elseif input:numel() == 0 then
    fail("%s: 'input' has no pixels: shape %s", where, tostring(input.shape))
  end
  return input:permute { 2, 3, 1 }
end

local read_png = signature(
  "data.write_png(Tensor input, string filename, int>=0<=9 compression_level=6)")

--- Writes an image as a PNG file, whole or not at all: one channel is gray, 2 gray and alpha, 3
--- RGB, 4 RGB and alpha.
--- > path = os.tmpname()
--- > ml.data.write_png(ml.zeros { 3, 4, 5, dtype = ml.uint8 }, path)
--- > ml.data.read_image(path).shape
---   (3, 4, 5)
---@param input Tensor uint8 image
---@param filename string the file
---@param compression_level? integer zlib's level, from 0 (none) to 9 (smallest)
---@shape input (channels, height, width)
function files.write_png(...)
  local input, filename, level = read_png(...)
  local pixels = pixels_of("data.write_png", input, { true, true, true, true, text = "1 to 4" })
  io.write_parts(filename, { io.encode_png(pixels, level) }, "write_png")
end

local read_jpeg = signature(
  "data.write_jpeg(Tensor input, string filename, int>=1<=100 quality=75)")

--- Writes an image as a JPEG file, whole or not at all: one channel is gray, 3 RGB.
--- > path = os.tmpname()
--- > ml.data.write_jpeg(ml.zeros { 3, 8, 8, dtype = ml.uint8 }, path)
--- > ml.data.read_image(path).shape
---   (3, 8, 8)
---@param input Tensor uint8 image
---@param filename string the file
---@param quality? integer from 1 (smallest) to 100 (best)
---@shape input (channels, height, width)
function files.write_jpeg(...)
  local input, filename, quality = read_jpeg(...)
  local pixels = pixels_of("data.write_jpeg", input, { true, [3] = true, text = "1 or 3" })
  io.write_parts(filename, { io.encode_jpeg(pixels, quality) }, "write_jpeg")
end

return files
