-- tests/lua/data/image_transforms_test.lua: data.transforms against torchvision 0.29 (a weighted sum of
-- each result), what is random in them, and wrong arguments.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local T = ml.data.transforms

local function picture(c, h, w)
  return ((ml.arange(c * h * w) - 1) * 37 + 11):remainder(256):to(ml.uint8):view(c, h, w)
end

local function shape_of(x) return table.concat(x.shape:totable(), " ") end

local function weighed(x)
  x = x:double():reshape { -1 }
  return (x * (ml.arange(#x):remainder(17) + 1)):sum():item()
end

local image = picture(3, 6, 5)

-- A transform, the shape of its result for (3, 6, 5), and torchvision's weighted sums for the uint8
-- image, its floats, a batch of it and its mirror image, and a grey image.
local CASES = {
  { T.Resize { 4, 7 }, "3 4 7",
    96514, 378.451175, 199476, 27757 },
  { T.Resize(3), "3 3 3",
    28270, 110.882292, 59647, 6616 },
  { T.Resize(9, { max_size = 10 }), "3 10 9",
    308931, 1211.3697, 615533, 94785 },
  { T.Resize({ 3, 8 }, "bicubic"), "3 3 8",
    80620, 316.095926, 163876, 23033 },
  { T.Resize({ 3, 8 }, { antialias = false }), "3 3 8",
    81711, 320.101476, 166098, 23427 },
  { T.Resize({ 3, 8 }, "nearest"), "3 3 8",
    87993, 345.070596, 176650, 24736 },
  { T.Resize({ 4, 8 }, "nearest-exact"), "3 4 8",
    114326, 448.337263, 235900, 38068 },
  { T.CenterCrop(3), "3 3 3",
    28379, 111.290198, 62290, 5856 },
  { T.CenterCrop { 9, 2 }, "3 9 2",
    48599, 190.584318, 96487, 13841 },
  { T.Pad({ 1, 2 }, 1), "3 10 7",
    103011, 1517.5804, 209220, 30809 },
  { T.Pad({ 1, 2, 3, 0 }, { padding_mode = "edge" }), "3 8 9",
    248116, 973.003942, 481574, 74380 },
  { T.Pad({ 1, 2, 3, 0 }, { padding_mode = "reflect" }), "3 8 9",
    246348, 966.070607, 489520, 81144 },
  { T.Pad({ 1, 2, 3, 4 }, { padding_mode = "symmetric" }), "3 12 9",
    377533, 1480.5216, 737010, 117035 },
  { T.RandomRotation({ 30, 30 }), "3 6 5",
    93885, 368.176476, 174310, 28888 },
  { T.RandomRotation({ 30, 30 }, "bilinear", { fill = 1 }), "3 6 5",
    84754, 444.966182, 163189, 29038 },
  { T.RandomRotation({ -75, -75 }, "bilinear", true), "3 8 9",
    95605, 374.950738, 184467, 30571 },
  { T.RandomRotation({ 50, 50 }, { center = { 1, 2 }, fill = 1 }), "3 6 5",
    77724, 520.949027, 148560, 25158 },
  { T.Grayscale(), "1 6 5",
    33095, 130.293683, 68664, 31305 },
  { T.Grayscale(3), "3 6 5",
    101315, 398.960766, 206615, nil },
  { T.ColorJitter { brightness = { 1.3, 1.3 } }, "3 6 5",
    122113, 479.873722, 234878, 38266 },
  { T.ColorJitter { contrast = { 1.4, 1.4 } }, "3 6 5",
    98670, 387.442291, 185339, 31204 },
  { T.ColorJitter { saturation = { 0.6, 0.6 } }, "3 6 5",
    100032, 393.906674, 197120, 31305 },
  { T.ColorJitter { hue = { 0.2, 0.2 } }, "3 6 5",
    109554, 429.575634, 221587, 31305 },
  { T.ConvertImageDtype(ml.int16), "3 6 5",
    12747136, 12796736, 24524672, 4007040 },
  { T.ConvertImageDtype(ml.float64), "3 6 5",
    390.537255, 390.537263, 751.368627, 122.764706 },
  { T.ConvertImageDtype(ml.uint8), "3 6 5",
    99587, 99587, 191599, 31305 },
}

test("results are torchvision's", function()
  local inputs = { image, image:float() / 255, ml.stack { image, image:flip { -1 } }, picture(1, 6, 5) }
  for i, case in ipairs(CASES) do
    for k, x in ipairs(inputs) do
      local name = ("case %d, input %d"):format(i, k)
      local y = case[1](x)
      if k == 1 then expect.equal(shape_of(y), case[2], name) end
      if case[2 + k] then expect.near(weighed(y), case[2 + k], 1e-5, name) end
    end
  end
  expect.equal(shape_of(T.Grayscale(3)(inputs[4])), "3 6 5")
end)

local function generator() return ml.Generator { seed = 7 } end

-- The results of many calls, different ones counted.
local function different(transform, x, count)
  local seen, kinds = {}, 0
  for _ = 1, count or 60 do
    local y = transform(x)
    local key = shape_of(y) .. " " .. weighed(y)
    kinds = kinds + (seen[key] and 0 or 1)
    seen[key] = true
  end
  return kinds
end

test("random transforms draw from their generator", function()
  local makes = {
    function(g) return T.RandomCrop(3, { padding = 1, generator = g }) end,
    function(g) return T.RandomResizedCrop(4, { generator = g }) end,
    function(g) return T.RandomHorizontalFlip(0.5, g) end,
    function(g) return T.RandomVerticalFlip { generator = g } end,
    function(g) return T.RandomRotation(40, { generator = g }) end,
    function(g) return T.RandomGrayscale(0.5, { generator = g }) end,
    function(g) return T.ColorJitter(0.3, 0.3, 0.3, 0.2, g) end,
    function(g) return T.RandomErasing(0.7, { value = "random", generator = g }) end,
    function(g) return T.RandomApply({ T.Grayscale(3) }, { generator = g }) end,
    function(g) return T.RandomChoice({ T.Grayscale(3), T.CenterCrop(2) }, { generator = g }) end,
  }
  local x = picture(3, 9, 8)
  for i, make in ipairs(makes) do
    local a, b = make(generator()), make(generator())
    for _ = 1, 8 do
      local p, q = a(x), b(x)
      expect.equal(shape_of(p), shape_of(q), i)
      expect.truthy(p:eq(q):all():item(), i)
    end
    expect.truthy(different(a, x) > 1, i)
  end
end)

test("parts, mirrors and rectangles", function()
  expect.equal(different(T.RandomCrop { 5, 5, generator = generator() }, image), 2)
  expect.equal(different(T.RandomCrop({ 6, 4 }, { generator = generator() }), image), 2)
  local small = T.RandomCrop(9, { pad_if_needed = true, fill = 3 })
  expect.equal(shape_of(small(image)), "3 9 9")
  expect.equal(T.RandomHorizontalFlip(1)(image)[{ 1, 1 }]:totable(), image[{ 1, 1 }]:flip({ 1 }):totable())
  expect.truthy(T.RandomVerticalFlip(1)(image)[{ {}, 6 }]:eq(image[{ {}, 1 }]):all():item())
  expect.truthy(T.RandomVerticalFlip(0)(image) == image)
  local whole = T.RandomResizedCrop({ 4, 7 }, { scale = { 1, 1 }, ratio = { 5 / 6, 5 / 6 } })
  expect.truthy(whole(image):eq(T.Resize { 4, 7 }(image)):all():item())
  local middle = T.RandomResizedCrop({ 5, 5 }, { scale = { 9, 9 }, ratio = { 1, 1 } })
  expect.truthy(middle(image):eq(image:narrow(2, 1, 5)):all():item())
  local x = ml.ones(2, 40, 40)
  for value, wanted in pairs { [0] = 0, [0.5] = 0.5 } do
    local y = T.RandomErasing(1, { value = value, scale = { 0.25, 0.25 }, ratio = { 1, 1 } })(x)
    expect.equal(y:eq(wanted):sum():item(), 2 * 400)
  end
  expect.equal(x:sum():item(), 3200.0)
  local y = T.RandomErasing(1, { value = { 2, 3 }, scale = { 0.25, 0.25 }, ratio = { 1, 1 }, inplace = true })(x)
  expect.truthy(y == x)
  expect.equal({ y[1]:eq(2):sum():item(), y[2]:eq(3):sum():item() }, { 400, 400 })
end)

test("numbers are scaled and normalised", function()
  local x = T.Compose { T.ToTensor(), T.Normalize({ 0.5, 0.25, 0 }, { 0.5, 1, 2 }) }(image)
  local plain = image:float() / 255
  expect.near(x[1]:totable(), ((plain[1] - 0.5) / 0.5):totable())
  expect.near(x[{ 3, 1 }]:totable(), (plain[3][1] / 2):totable())
  expect.truthy(T.ToTensor()(x) == x)
  local y = T.Normalize(0.5, 2, true)(x)
  expect.truthy(y == x)
  expect.near(T.ConvertImageDtype(ml.uint8)(plain):totable(), image:totable())
  expect.equal(T.ConvertImageDtype("int64")(image):amax():item(), image:amax():item() << 55)
  expect.equal(T.Lambda(function(v) return v + 1 end)(3), 4)
  expect.equal(T.RandomChoice({ function() return 1 end, function() return 2 end }, { p = { 0, 3 } })(), 2)
  expect.equal({ T.RandomApply({ function() return 1 end }, 1)(5), T.RandomApply({}, 0)(5) }, { 1, 5 })
end)

test("gradients pass through what moves and scales floats", function()
  local x = ml.rand { 3, 6, 5, requires_grad = true }
  T.Compose { T.Resize(4), T.RandomRotation(20, "bilinear"), T.ColorJitter { brightness = 0.1 },
    T.Normalize(0.5, 0.5) }(x):sum():backward()
  expect.truthy(x.grad:abs():sum():item() > 0)
end)

test("wrong arguments and images are named", function()
  local float = image:float()
  local cases = {
    { function() T.Resize({ 2, 3, 4 }) end, "Resize: 'size' must be an integer or two" },
    { function() T.Resize(0) end, "'size'" },
    { function() T.Resize(4, { max_size = 4 }) end, "Resize: 'max_size' is for" },
    { function() T.Resize(4, "linear") end, "'interpolation'" },
    { function() T.Resize(4)(3) end, "Resize: an image .* is expected, got 3" },
    { function() T.Resize(4)(ml.ones(4, 4)) end, "got a tensor of shape %(4, 4%)" },
    { function() T.RandomCrop(7)(image) end, "7 x 7 does not fit into an image of 6 x 5" },
    { function() T.Pad({ 1, 2, 3 }) end, "Pad: 'padding' must be" },
    { function() T.Pad(-1) end, "'padding'" },
    { function() T.Pad(7, { padding_mode = "symmetric" })(image) end, "6 elements cannot be mirrored" },
    { function() T.Pad(1, { padding_mode = "wrap" }) end, "'padding_mode'" },
    { function() T.Normalize(0, 0) end, "'std' has a 0" },
    { function() T.Normalize({ 1, 2 }, 1)(float) end, "'mean' has 2 numbers for 3 channels" },
    { function() T.Normalize(0, 1)(image) end, "a float image is expected, got uint8" },
    { function() T.ConvertImageDtype "float3" end, "'dtype' must be a dtype" },
    { function() T.ConvertImageDtype(ml.int64)(float) end, "float32 cannot hold all numbers of int64" },
    { function() T.Grayscale(2) end, "must be 1 or 3" },
    { function() T.Grayscale()(ml.ones(2, 4, 4)) end, "1 or 3 channels is expected, got shape %(2, 4, 4%)" },
    { function() T.ColorJitter { hue = 0.6 } end, "ColorJitter: 'hue' must be two finite numbers from %-0.5 to 0.5" },
    { function() T.ColorJitter { contrast = { 2, 1 } } end, "'contrast'" },
    { function() T.ColorJitter { brightness = math.huge } end, "'brightness' must be two finite" },
    { function() T.Resize(2)(ml.ones(3, 0, 4)) end, "no pixels: shape %(3, 0, 4%)" },
    { function() T.RandomRotation { degrees = -3 } end, "'degrees'" },
    { function() T.RandomRotation(3, { center = { 1 } }) end, "'center' must be two" },
    { function() T.RandomErasing(1, { value = "noise" }) end, "'value' must be" },
    { function() T.RandomErasing(1, { value = { 1, 2 } })(ml.ones(3, 40, 40)) end, "2 numbers for 3" },
    { function() T.RandomHorizontalFlip(1.5) end, "'p' must be a number from 0 to 1" },
    { function() T.RandomChoice({}) end, "got no transforms" },
    { function() T.RandomChoice({ print }, { p = { 0 } }) end, "'p' must be 1 numbers" },
    { function() T.Compose { 3 } end, "'transforms'" },
    { function() return T.Flip end, "no field 'Flip'" },
  }
  for i, case in ipairs(cases) do expect.error(case[1], case[2], "case " .. i) end
end)

harness.run()
