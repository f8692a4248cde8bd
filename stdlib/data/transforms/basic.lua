-- stdlib/data/transforms/basic.lua: transforms made of others or of a function, and of dtypes and
-- scales.

local class = require "moonlet.class"
local draw = require "moonlet.data.transforms.draw"
local image_ops = require "moonlet.data.image_ops"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local basic = {}

local read_compose = signature "data.transforms.Compose(function[] transforms)"

--- Applies transforms, or functions of one argument, one after the other.
--- > T = ml.data.transforms
--- > image = ml.full({ 3, 8, 8 }, 255):to(ml.uint8)
--- > T.Compose { T.CenterCrop(4), T.ToTensor() }(image).shape
---   (3, 4, 4)
---@param transforms function[] the transforms in order
local Compose = class("Compose")
basic.Compose = Compose

function Compose:init(...) self.transforms = read_compose(...) end

function Compose:__call(image)
  for _, transform in ipairs(self.transforms) do image = transform(image) end
  return image
end

local read_lambda = signature "data.transforms.Lambda(function lambd)"

--- A function as a transform.
--- > ml.data.transforms.Lambda(function(x) return x * 2 end)(ml.tensor { 1, 2 })
---   {2, 4}
---   Tensor (2,) int64
---@param lambd function function of the image
local Lambda = class("Lambda")
basic.Lambda = Lambda

function Lambda:init(...) self.lambd = read_lambda(...) end

function Lambda:__call(image) return self.lambd(image) end

local read_apply = signature("data.transforms.RandomApply(function[] transforms, "
  .. "number>=0<=1 p=0.5, Generator? generator=nil)")

--- Applies all of the transforms with probability `p`, otherwise none.
--- > ml.data.transforms.RandomApply({ function(x) return x * 2 end }, 1)(ml.tensor { 1, 2 })
---   {2, 4}
---   Tensor (2,) int64
---@param transforms function[] the transforms in order
---@param p? number probability in [0, 1]
---@param generator? moonlet.Generator random number generator; the default one unless given
local RandomApply = class("RandomApply")
basic.RandomApply = RandomApply

function RandomApply:init(...) self.transforms, self.p, self.generator = read_apply(...) end

function RandomApply:__call(image)
  if not draw.chance(self.p, self.generator) then return image end
  for _, transform in ipairs(self.transforms) do image = transform(image) end
  return image
end

local read_choice = signature("data.transforms.RandomChoice(function[] transforms, "
  .. "number[]>=0? p=nil, Generator? generator=nil)")

--- Applies one of the transforms, drawn at random.
--- > double = function(x) return x * 2 end
--- > ml.data.transforms.RandomChoice { double, double }(ml.tensor { 1, 2 })
---   {2, 4}
---   Tensor (2,) int64
---@param transforms function[] the transforms
---@param p? number[] weights of the transforms; equal unless given
---@param generator? moonlet.Generator random number generator; the default one unless given
local RandomChoice = class("RandomChoice")
basic.RandomChoice = RandomChoice

function RandomChoice:init(...)
  local p
  self.transforms, p, self.generator = read_choice(...)
  local count, total = #self.transforms, 0
  if count == 0 then fail "RandomChoice: got no transforms" end
  for _, share in ipairs(p or {}) do total = total + share end
  if p and (#p ~= count or total <= 0 or total == math.huge) then
    fail("RandomChoice: 'p' must be %d numbers, one of them above 0", count)
  end
  self.p, self.total = p, total
end

function RandomChoice:__call(image)
  local count = #self.transforms
  if not self.p then return self.transforms[draw.integer(1, count, self.generator)](image) end
  local left, chosen = draw.uniform(0, self.total, self.generator), nil
  for i, share in ipairs(self.p) do
    if share > 0 then chosen = i end
    left = left - share
    if left < 0 then break end
  end
  return self.transforms[chosen](image)
end

local read_normalize = signature("data.transforms.Normalize(number|number[] mean, "
  .. "number|number[] std, bool inplace=false)")

--- Normalises each channel of a floating image by a mean and a standard deviation.
--- > ml.data.transforms.Normalize(0.5, 0.25)(ml.tensor { { { 0.5, 1.0 } } })
---   {{{0., 2.}}}
---   Tensor (1, 1, 2) float32
---@param mean number|number[] a number for each channel, or one for all
---@param std number|number[] a number for each channel, or one for all; not 0
---@param inplace? boolean whether the image itself is changed
---@shape image (*, channels, height, width) -> the same
---@formula y_c = (x_c - mean_c) / std_c
local Normalize = class("Normalize")
basic.Normalize = Normalize

local function as_list(value) return type(value) == "table" and value or { value } end

function Normalize:init(...)
  local mean, std
  mean, std, self.inplace = read_normalize(...)
  self.mean, self.std = as_list(mean), as_list(std)
  for _, value in ipairs(self.std) do
    if value == 0 then fail "Normalize: 'std' has a 0" end
  end
end

-- The numbers as a tensor beside the channels.
local function beside(image, name, values)
  local channels = image.shape[image.ndim - 2]
  if #values ~= channels and #values ~= 1 then
    fail("Normalize: '%s' has %d numbers for %d channels", name, #values, channels)
  end
  return ml.tensor(values, { dtype = image.dtype, device = image.device }):view(-1, 1, 1)
end

function Normalize:__call(image)
  image_ops.check("Normalize", image)
  if not image:is_floating_point() then
    fail("Normalize: a float image is expected, got %s; ToTensor makes one", image.dtype)
  end
  local mean, std = beside(image, "mean", self.mean), beside(image, "std", self.std)
  if self.inplace then return image:sub_(mean):div_(std) end
  return (image - mean) / std
end

local read_nothing = signature "data.transforms.ToTensor()"

--- Converts a uint8 image to float32 numbers from 0 to 1; other images stay as they are.
--- > ml.data.transforms.ToTensor()(ml.tensor({ { { 0, 255 } } }, { dtype = ml.uint8 }))
---   {{{0., 1.}}}
---   Tensor (1, 1, 2) float32
---@shape image (*, channels, height, width) -> the same
---@formula y = x / 255
local ToTensor = class("ToTensor")
basic.ToTensor = ToTensor

function ToTensor:init(...)
  read_nothing(...)
  self.dtype = ml.float32
end

function ToTensor:__call(image)
  image_ops.check("ToTensor", image)
  return image.dtype == ml.uint8 and image_ops.convert(image, self.dtype) or image
end

local read_convert = signature 'data.transforms.ConvertImageDtype(string dtype="float32")'

--- Converts an image to another dtype and scales its numbers: integers stand for 0 to the largest
--- of their dtype, floats for 0 to 1.
--- > image = ml.tensor({ { { 0, 255 } } }, { dtype = ml.uint8 })
--- > ml.data.transforms.ConvertImageDtype("float32")(image)
---   {{{0., 1.}}}
---   Tensor (1, 1, 2) float32
---@param dtype? string the result's dtype
---@shape image (*, channels, height, width) -> the same
local ConvertImageDtype = class("ConvertImageDtype")
basic.ConvertImageDtype = ConvertImageDtype

function ConvertImageDtype:init(...)
  self.dtype = read_convert(...)
  local known = pcall(ml.zeros, { 1, dtype = self.dtype })
  if not known or self.dtype:find "complex" then
    fail("ConvertImageDtype: 'dtype' must be a dtype of real numbers, got '%s'", self.dtype)
  end
end

function ConvertImageDtype:__call(image)
  image_ops.check("ConvertImageDtype", image)
  return image_ops.convert(image, self.dtype)
end

return basic
