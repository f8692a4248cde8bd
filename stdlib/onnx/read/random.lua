-- stdlib/onnx/read/random.lua: ONNX's random numbers, which the generator of the script draws, or one
-- with the seed that the node has.

local common = require "moonlet.onnx.read.common"
local dtypes = require "moonlet.onnx.dtypes"
local ml = require "moonlet"
local fail = common.fail

local read = {}

-- The numbers of one node are the same in each run where it has a seed.
local function generator_of(n, device)
  local seed = n.attributes.seed
  if seed == nil then return nil end
  local generator = ml.Generator(device or "cpu")
  generator:manual_seed(math.tointeger(seed) or string.unpack("<i8", string.pack("<d", seed)))
  return generator
end

local function dtype_of(n, default)
  return n.attributes.dtype and dtypes.of(n.attributes.dtype, "the result") or default
end

local function shape_of(n)
  local shape = n.attributes.shape or fail "it has no shape"
  local count = 1
  for _, size in ipairs(shape) do
    if size < 0 then fail("a size of %d", size) end
    count = count * (size + 0.0)
  end
  common.check_room(n, count, 8)
  return shape
end

local function uniform(n, shape, dtype, device)
  local low, high = n.attributes.low or 0.0, n.attributes.high or 1.0
  local wide = ml.rand(shape, { generator = generator_of(n, device), device = device })
  return (wide * (high - low) + low):to(dtype)
end

local function normal(n, shape, dtype, device)
  local mean, scale = n.attributes.mean or 0.0, n.attributes.scale or 1.0
  local wide = ml.randn(shape, { generator = generator_of(n, device), device = device })
  return (wide * scale + mean):to(dtype)
end

function read.RandomUniform(n) return uniform(n, shape_of(n), dtype_of(n, "float32")) end
function read.RandomNormal(n) return normal(n, shape_of(n), dtype_of(n, "float32")) end
function read.RandomUniformLike(n, x)
  return uniform(n, x.shape, dtype_of(n, tostring(x.dtype)), x.device)
end
function read.RandomNormalLike(n, x)
  return normal(n, x.shape, dtype_of(n, tostring(x.dtype)), x.device)
end

function read.Bernoulli(n, x)
  local drawn = ml.rand(x.shape, { generator = generator_of(n, x.device), device = x.device })
  return drawn:to(x.dtype):lt(x):to(dtype_of(n, tostring(x.dtype)))
end

-- The rows of x are logarithms of probabilities.
function read.Multinomial(n, x)
  local count = n.attributes.sample_size or 1
  if x.ndim ~= 2 or count < 1 then fail("%d samples of %d dimensions", count, x.ndim) end
  common.check_room(n, count * x.shape[1], 8)
  local drawn = ml.multinomial(ml.softmax(x:to "float32", 2), count,
    { replacement = true, generator = generator_of(n, x.device) })
  return (drawn - 1):to(dtype_of(n, "int32"))
end

-- Before opset 12 the ratio is an attribute, and before 7 `is_test` says whether nothing is dropped.
function read.Dropout(n, x, ratio, training)
  local active = training and training:ne(0):any():item()
  if n.version < 7 then active = n.attributes.is_test ~= 1 end
  local share = ratio and common.number(ratio, "ratio") or n.attributes.ratio or 0.5
  if share < 0 or share > 1 then fail("a ratio of %s", tostring(share)) end
  if not active or share == 0 then return x, ml.ones_like(x, { dtype = ml.bool }) end
  local drawn = ml.rand(x.shape, { generator = generator_of(n, x.device), device = x.device })
  local mask = drawn:ge(share)
  if share == 1 then return x * 0, mask:logical_and(false) end
  return x * mask:to(x.dtype) / (1 - share), mask
end

return read
