-- stdlib/data/transforms/geometry.lua: transforms that move the pixels of an image: sizes, parts,
-- borders, mirrors and rotations.

local class = require "moonlet.class"
local draw = require "moonlet.data.transforms.draw"
local image_ops = require "moonlet.data.image_ops"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local geometry = {}

signature.add_choice("ResizeMode", { "nearest", "nearest-exact", "bilinear", "bicubic" })
signature.add_choice("RotateMode", { "nearest", "bilinear" })
signature.add_choice("PadMode", { "constant", "edge", "reflect", "symmetric" })

-- One or two sizes: { height, width }, or what one stands for.
local function read_size(where, size)
  local list = type(size) == "table" and size or { size }
  if #list < 1 or #list > 2 then
    fail("%s: 'size' must be an integer or two of them, height and width, got %d", where, #list)
  end
  return list
end

local function both(where, size)
  local list = read_size(where, size)
  return list[1], list[2] or list[1]
end

local read_resize = signature("data.transforms.Resize(int>=1|int[]>=1 size, "
  .. 'ResizeMode interpolation="bilinear", int>=1? max_size=nil, bool antialias=true)')

--- Resizes an image.
--- > ml.data.transforms.Resize(4)(ml.zeros(3, 8, 16)).shape
---   (3, 4, 8)
---@param size integer|integer[] `{ height, width }`, or the length of the shorter side, which
---   keeps the proportions
---@param interpolation? string "bilinear", "bicubic", "nearest" or "nearest-exact"
---@param max_size? integer the longest that the longer side may get, where `size` is one number
---@param antialias? boolean whether the image is smoothed when it gets smaller; for "bilinear"
---   and "bicubic"
---@shape image (*, channels, height, width) -> (*, channels, new height, new width)
local Resize = class("Resize")
geometry.Resize = Resize

function Resize:init(...)
  local o = read_resize:table(...)
  self.size, self.max_size = read_size("Resize", o.size), o.max_size
  self.mode, self.antialias = o.interpolation, o.antialias
  if o.max_size and (#self.size == 2 or o.max_size <= self.size[1]) then
    fail "Resize: 'max_size' is for a 'size' of one number, and above it"
  end
end

function Resize:__call(image)
  image_ops.check("Resize", image)
  local h, w = image_ops.resized(image, self.size, self.max_size)
  return image_ops.resize(image, h, w, self.mode, self.antialias)
end

local read_center = signature "data.transforms.CenterCrop(int>=1|int[]>=1 size)"

--- Crops an image at its centre. Where the image is smaller than `size`, it is padded with 0.
--- > ml.data.transforms.CenterCrop(2)(ml.arange(16):reshape(1, 4, 4))
---   {{{ 6,  7},
---     {10, 11}}}
---   Tensor (1, 2, 2) int64
---@param size integer|integer[] `{ height, width }`, or one number for both
---@shape image (*, channels, height, width) -> (*, channels, size)
local CenterCrop = class("CenterCrop")
geometry.CenterCrop = CenterCrop

function CenterCrop:init(...) self.height, self.width = both("CenterCrop", (read_center(...))) end

function CenterCrop:__call(image)
  image_ops.check("CenterCrop", image)
  local h, w = image_ops.size(image)
  local dh, dw = math.max(self.height - h, 0), math.max(self.width - w, 0)
  image = image_ops.pad("CenterCrop", image, { dw // 2, dh // 2, (dw + 1) // 2, (dh + 1) // 2 }, 0,
    "constant")
  h, w = image_ops.size(image)
  return image_ops.crop(image, image_ops.round((h - self.height) / 2) + 1,
    image_ops.round((w - self.width) / 2) + 1, self.height, self.width)
end

local read_pad = signature("data.transforms.Pad(int>=0|int[]>=0 padding, number fill=0, "
  .. 'PadMode padding_mode="constant")')

--- Pads an image on all sides.
--- > ml.data.transforms.Pad(1)(ml.ones(1, 1, 1))
---   {{{0., 0., 0.},
---     {0., 1., 0.},
---     {0., 0., 0.}}}
---   Tensor (1, 3, 3) float32
---@param padding integer|integer[] one number, {left and right, top and bottom}, or {left, top,
---   right, bottom}
---@param fill? number the value of the border for "constant"
---@param padding_mode? string "constant" (`fill`), "edge", "reflect" (edge not repeated) or
---   "symmetric" (repeated)
---@shape image (*, channels, height, width) -> (*, channels, height + top + bottom, width +
---   left + right)
local Pad = class("Pad")
geometry.Pad = Pad

function Pad:init(...)
  local o = read_pad:table(...)
  self.sides, self.fill = image_ops.sides("Pad", o.padding), o.fill
  self.mode = o.padding_mode
end

function Pad:__call(image)
  image_ops.check("Pad", image)
  return image_ops.pad("Pad", image, self.sides, self.fill, self.mode)
end

local read_crop = signature("data.transforms.RandomCrop(int>=1|int[]>=1 size, "
  .. "int>=0|int[]>=0? padding=nil, bool pad_if_needed=false, number fill=0, "
  .. 'PadMode padding_mode="constant", Generator? generator=nil)')

--- Crops an image at a random position.
--- > ml.data.transforms.RandomCrop(4)(ml.zeros(3, 8, 8)).shape
---   (3, 4, 4)
---@param size integer|integer[] `{ height, width }`, or one number for both
---@param padding? integer|integer[] border that is added first, as in `transforms.Pad`
---@param pad_if_needed? boolean whether an image smaller than `size` is padded
---@param fill? number the value of the border for "constant"
---@param padding_mode? string "constant" (`fill`), "edge", "reflect" (edge not repeated) or
---   "symmetric" (repeated)
---@param generator? moonlet.Generator random number generator; the default one unless given
---@shape image (*, channels, height, width) -> (*, channels, size)
local RandomCrop = class("RandomCrop")
geometry.RandomCrop = RandomCrop

function RandomCrop:init(...)
  local o = read_crop:table(...)
  self.height, self.width = both("RandomCrop", o.size)
  self.sides = o.padding and image_ops.sides("RandomCrop", o.padding)
  self.pad_if_needed, self.fill, self.mode = o.pad_if_needed, o.fill, o.padding_mode
  self.generator = o.generator
end

local function grown(self, image, sides)
  return image_ops.pad("RandomCrop", image, sides, self.fill, self.mode)
end

function RandomCrop:__call(image)
  image_ops.check("RandomCrop", image)
  if self.sides then image = grown(self, image, self.sides) end
  local h, w = image_ops.size(image)
  if self.pad_if_needed then
    local dh, dw = math.max(self.height - h, 0), math.max(self.width - w, 0)
    image = grown(self, grown(self, image, { dw, 0, dw, 0 }), { 0, dh, 0, dh })
    h, w = image_ops.size(image)
  end
  if h < self.height or w < self.width then
    fail("RandomCrop: a part of %d x %d does not fit into an image of %d x %d", self.height,
      self.width, h, w)
  end
  local top = draw.integer(1, h - self.height + 1, self.generator)
  local left = draw.integer(1, w - self.width + 1, self.generator)
  return image_ops.crop(image, top, left, self.height, self.width)
end

local read_resized = signature("data.transforms.RandomResizedCrop(int>=1|int[]>=1 size, "
  .. "number[] scale={0.08, 1}, number[] ratio={3 / 4, 4 / 3}, "
  .. 'ResizeMode interpolation="bilinear", bool antialias=true, Generator? generator=nil)')

--- Crops a random part of an image, of random area and proportions, and resizes it.
--- > ml.data.transforms.RandomResizedCrop(4)(ml.zeros(3, 8, 8)).shape
---   (3, 4, 4)
---@param size integer|integer[] `{ height, width }`, or one number for both
---@param scale? number[] range of the part's area, as shares of the image's
---@param ratio? number[] range of the part's width divided by its height
---@param interpolation? string "bilinear", "bicubic", "nearest" or "nearest-exact"
---@param antialias? boolean whether the image is smoothed when it gets smaller
---@param generator? moonlet.Generator random number generator; the default one unless given
---@shape image (*, channels, height, width) -> (*, channels, size)
---@source Szegedy and others, "Going deeper with convolutions", 2015
local RandomResizedCrop = class("RandomResizedCrop")
geometry.RandomResizedCrop = RandomResizedCrop

function RandomResizedCrop:init(...)
  local o, where = read_resized:table(...), "RandomResizedCrop"
  self.height, self.width = both(where, o.size)
  self.scale = draw.check_range(where, "scale", o.scale, 0, math.huge)
  self.ratio = draw.check_range(where, "ratio", o.ratio, 1e-6, 1e6)
  self.mode, self.antialias, self.generator = o.interpolation, o.antialias, o.generator
end

-- The middle of the image with the proportions that are nearest to its own.
local function middle(self, h, w)
  local least, most = self.ratio[1], self.ratio[2]
  local new_h, new_w = h, w
  if w / h < least then
    new_h = math.max(image_ops.round(w / least), 1)
  elseif w / h > most then
    new_w = math.max(image_ops.round(h * most), 1)
  end
  return (h - new_h) // 2 + 1, (w - new_w) // 2 + 1, new_h, new_w
end

local function position(self, h, w)
  local low, high = math.log(self.ratio[1]), math.log(self.ratio[2])
  for _ = 1, 10 do
    local area = h * w * draw.uniform(self.scale[1], self.scale[2], self.generator)
    local ratio = math.exp(draw.uniform(low, high, self.generator))
    local new_w = math.min(image_ops.round(math.min(math.sqrt(area * ratio), 1e9)), w + 1)
    local new_h = math.min(image_ops.round(math.min(math.sqrt(area / ratio), 1e9)), h + 1)
    if new_w > 0 and new_w <= w and new_h > 0 and new_h <= h then
      return draw.integer(1, h - new_h + 1, self.generator),
        draw.integer(1, w - new_w + 1, self.generator), new_h, new_w
    end
  end
  return middle(self, h, w)
end

function RandomResizedCrop:__call(image)
  image_ops.check("RandomResizedCrop", image)
  local part = image_ops.crop(image, position(self, image_ops.size(image)))
  return image_ops.resize(part, self.height, self.width, self.mode, self.antialias)
end

-- A class of images mirrored along a dimension.
local function define_flip(name, dim)
  local cls = class(name)
  local read = signature(("data.transforms.%s(number>=0<=1 p=0.5, Generator? generator=nil)")
    :format(name))
  function cls:init(...) self.p, self.generator = read(...) end
  function cls:__call(image)
    image_ops.check(name, image)
    return draw.chance(self.p, self.generator) and image:flip { dim } or image
  end
  return cls
end

--- Exchanges left and right with probability `p`.
--- > ml.data.transforms.RandomHorizontalFlip(1)(ml.tensor { { { 1, 2 } } })
---   {{{2, 1}}}
---   Tensor (1, 1, 2) int64
---@param p? number probability in [0, 1]
---@param generator? moonlet.Generator random number generator; the default one unless given
---@shape image (*, channels, height, width) -> the same
geometry.RandomHorizontalFlip = define_flip("RandomHorizontalFlip", -1)

--- Exchanges top and bottom with probability `p`.
--- > ml.data.transforms.RandomVerticalFlip(1)(ml.tensor { { { 1 }, { 2 } } })
---   {{{2},
---     {1}}}
---   Tensor (1, 2, 1) int64
---@param p? number probability in [0, 1]
---@param generator? moonlet.Generator random number generator; the default one unless given
---@shape image (*, channels, height, width) -> the same
geometry.RandomVerticalFlip = define_flip("RandomVerticalFlip", -2)

local read_rotation = signature("data.transforms.RandomRotation(number>=0|number[] degrees, "
  .. 'RotateMode interpolation="nearest", bool expand=false, number[]? center=nil, '
  .. "number fill=0, Generator? generator=nil)")

--- Rotates an image counterclockwise by a random angle.
--- > ml.data.transforms.RandomRotation({ 90, 90 })(ml.tensor { { { 1, 2 }, { 3, 4 } } })
---   {{{2, 4},
---     {1, 3}}}
---   Tensor (1, 2, 2) int64
---@param degrees number|number[] the angle is drawn from [-degrees, degrees], or from a range
---   {low, high}
---@param interpolation? string "nearest" or "bilinear"
---@param expand? boolean whether the result is large enough for the whole image
---@param center? number[] x and y of the centre in pixels from the upper left corner; the
---   middle unless given
---@param fill? number the value of pixels outside of the image
---@param generator? moonlet.Generator random number generator; the default one unless given
---@shape image (*, channels, height, width) -> the same, or larger with `expand`
local RandomRotation = class("RandomRotation")
geometry.RandomRotation = RandomRotation

function RandomRotation:init(...)
  local o = read_rotation:table(...)
  local range = type(o.degrees) == "table" and o.degrees or { -o.degrees, o.degrees }
  self.degrees = draw.check_range("RandomRotation", "degrees", range, -1e6, 1e6)
  if o.center and #o.center ~= 2 then
    fail("RandomRotation: 'center' must be two numbers, x and y, got %d", #o.center)
  end
  self.how = { mode = o.interpolation, expand = o.expand, center = o.center, fill = o.fill }
  self.generator = o.generator
end

function RandomRotation:__call(image)
  image_ops.check("RandomRotation", image)
  local angle = draw.uniform(self.degrees[1], self.degrees[2], self.generator)
  return image_ops.rotate(image, angle, self.how)
end

return geometry
