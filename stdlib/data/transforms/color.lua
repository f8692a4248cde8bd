-- stdlib/data/transforms/color.lua: transforms of the colours of an image, and of what is in a part
-- of it.

local class = require "moonlet.class"
local color_ops = require "moonlet.data.color_ops"
local draw = require "moonlet.data.transforms.draw"
local image_ops = require "moonlet.data.image_ops"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local color = {}

local read_gray = signature "data.transforms.Grayscale(int>=1<=3 num_output_channels=1)"

--- Luminance of an image of one or three channels.
--- > ml.data.transforms.Grayscale()(ml.ones(3, 1, 1))
---   {{{0.9999}}}
---   Tensor (1, 1, 1) float32
---@param num_output_channels? integer 1, or 3 for three equal channels
---@shape image (*, channels, height, width) -> (*, num_output_channels, height, width)
---@formula y = 0.2989 R + 0.587 G + 0.114 B
local Grayscale = class("Grayscale")
color.Grayscale = Grayscale

function Grayscale:init(...)
  self.channels = read_gray(...)
  if self.channels == 2 then fail "Grayscale: 'num_output_channels' must be 1 or 3, got 2" end
end

function Grayscale:__call(image)
  image_ops.check("Grayscale", image, { 1, 3 })
  return color_ops.grayscale(image, self.channels)
end

local read_random_gray = signature(
  "data.transforms.RandomGrayscale(number>=0<=1 p=0.1, Generator? generator=nil)")

--- Replaces an image by its luminance with probability `p`, with as many channels as it has.
--- > ml.data.transforms.RandomGrayscale(1)(ml.ones(3, 1, 1)).shape
---   (3, 1, 1)
---@param p? number probability in [0, 1]
---@param generator? moonlet.Generator random number generator; the default one unless given
---@shape image (*, channels, height, width) -> the same
local RandomGrayscale = class("RandomGrayscale")
color.RandomGrayscale = RandomGrayscale

function RandomGrayscale:init(...) self.p, self.generator = read_random_gray(...) end

function RandomGrayscale:__call(image)
  image_ops.check("RandomGrayscale", image, { 1, 3 })
  if not draw.chance(self.p, self.generator) then return image end
  return color_ops.grayscale(image, image.shape[image.ndim - 2])
end

local read_jitter = signature("data.transforms.ColorJitter(number>=0|number[] brightness=0, "
  .. "number>=0|number[] contrast=0, number>=0|number[] saturation=0, number>=0|number[] hue=0, "
  .. "Generator? generator=nil)")

--- Changes brightness, contrast, saturation and hue at random, in a random order. A number v stands
--- for the range [max(0, 1 - v), 1 + v] of factors, and for the hue for [-v, v]; 0 leaves it as it
--- is.
--- > ml.data.transforms.ColorJitter({ 2, 2 })(ml.full({ 3, 1, 1 }, 0.25)):reshape(3)
---   {0.5000, 0.5000, 0.5000}
---   Tensor (3,) float32
---@param brightness? number|number[] range of the factor of all numbers; a number or {low, high}
---@param contrast? number|number[] range of the factor of distances from the mean
---@param saturation? number|number[] range of the factor of distances from grey
---@param hue? number|number[] range of the shift of the hue, at most 0.5, half of the colour circle
---@param generator? moonlet.Generator random number generator; the default one unless given
---@shape image (*, channels, height, width) -> the same
local ColorJitter = class("ColorJitter")
color.ColorJitter = ColorJitter

local PARTS = { "brightness", "contrast", "saturation", "hue" }

-- The range of factors, or nil for what changes nothing.
local function range_of(name, value)
  local middle, least, most = 1, 0, math.huge
  if name == "hue" then middle, least, most = 0, -0.5, 0.5 end
  if type(value) == "number" then
    value = { middle - value, middle + value }
    if name ~= "hue" then value[1] = math.max(value[1], 0.0) end
  end
  draw.check_range("ColorJitter", name, value, least, most)
  return (value[1] ~= middle or value[2] ~= middle) and value or nil
end

function ColorJitter:init(...)
  local o = read_jitter:table(...)
  self.ranges, self.generator = {}, o.generator
  for _, name in ipairs(PARTS) do self.ranges[name] = range_of(name, o[name]) end
end

function ColorJitter:__call(image)
  image_ops.check("ColorJitter", image, { 1, 3 })
  local order = ml.randperm(#PARTS, { generator = self.generator }):totable()
  local factors = {}
  for _, name in ipairs(PARTS) do
    local range = self.ranges[name]
    factors[name] = range and draw.uniform(range[1], range[2], self.generator)
  end
  for _, position in ipairs(order) do
    local name = PARTS[position]
    if factors[name] then image = color_ops[name](image, factors[name]) end
  end
  return image
end

local read_erasing = signature("data.transforms.RandomErasing(number>=0<=1 p=0.5, "
  .. "number[] scale={0.02, 0.33}, number[] ratio={0.3, 3.3}, number|string|number[] value=0, "
  .. "bool inplace=false, Generator? generator=nil)")

--- Overwrites a random rectangle of an image with probability `p`.
--- > ml.data.transforms.RandomErasing(1)(ml.ones(3, 8, 8)).shape
---   (3, 8, 8)
---@param p? number probability in [0, 1]
---@param scale? number[] range of the rectangle's area, as shares of the image's
---@param ratio? number[] range of the rectangle's height divided by its width
---@param value? number|string|number[] a number, one for each channel, or "random" for normal
---   numbers
---@param inplace? boolean whether the image itself is changed
---@param generator? moonlet.Generator random number generator; the default one unless given
---@shape image (*, channels, height, width) -> the same
---@source Zhong and others, "Random erasing data augmentation", 2017
local RandomErasing = class("RandomErasing")
color.RandomErasing = RandomErasing

function RandomErasing:init(...)
  local o, where = read_erasing:table(...), "RandomErasing"
  self.p, self.value, self.inplace, self.generator = o.p, o.value, o.inplace, o.generator
  self.scale = draw.check_range(where, "scale", o.scale, 0, 1)
  self.ratio = draw.check_range(where, "ratio", o.ratio, 1e-6, 1e6)
  if type(o.value) == "string" and o.value ~= "random" then
    fail("RandomErasing: 'value' must be numbers or \"random\", got '%s'", o.value)
  end
end

-- What the rectangle of an image is overwritten with.
local function filling(self, image, h, w)
  local channels = image.shape[image.ndim - 2]
  if self.value == "random" then
    return ml.randn({ channels, h, w }, { generator = self.generator }):to(image.dtype)
  end
  local values = type(self.value) == "table" and self.value or { self.value }
  if #values ~= 1 and #values ~= channels then
    fail("RandomErasing: 'value' has %d numbers for %d channels", #values, channels)
  end
  return ml.tensor(values, { dtype = image.dtype, device = image.device }):view(-1, 1, 1)
end

local function rectangle(self, height, width)
  local low, high = math.log(self.ratio[1]), math.log(self.ratio[2])
  for _ = 1, 10 do
    local area = height * width * draw.uniform(self.scale[1], self.scale[2], self.generator)
    local ratio = math.exp(draw.uniform(low, high, self.generator))
    local h = image_ops.round(math.sqrt(area * ratio))
    local w = image_ops.round(math.sqrt(area / ratio))
    if h < height and w < width then return h, w end
  end
end

function RandomErasing:__call(image)
  image_ops.check("RandomErasing", image)
  if not draw.chance(self.p, self.generator) then return image end
  local height, width = image_ops.size(image)
  local h, w = rectangle(self, height, width)
  if not h or h == 0 or w == 0 then return image end
  local fill = filling(self, image, h, w)
  local top = draw.integer(1, height - h + 1, self.generator)
  local left = draw.integer(1, width - w + 1, self.generator)
  if not self.inplace then image = image:clone() end
  image_ops.crop(image, top, left, h, w):copy_(fill)
  return image
end

return color
