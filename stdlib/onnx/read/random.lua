-- stdlib/onnx/read/random.lua: ONNX's random numbers. A node with a seed has a generator of its
-- own; others draw from the default one.

local common = require "moonlet.onnx.read.common"
local kept = require "moonlet.onnx.kept"
local ml = require "moonlet"
local fail = common.fail

local read = {}

local function generator_of(n)
  local seed = n.attributes.seed
  if not seed then return nil end
  if type(seed) ~= "number" or seed ~= seed or math.abs(seed) >= 1 << 53 then
    fail "the seed is no number"
  end
  -- Seeds are floats there.
  n.generator = n.generator or ml.Generator { seed = math.floor(seed) }
  return n.generator
end

local function dtype_of(n, like)
  local code = n.attributes.dtype
  return code and kept.carrier(kept.name_of(code)) or like and like.dtype or "float32"
end

local function shape_of(n)
  local shape = n.attributes.shape or fail "it has no shape"
  local count = 1
  for _, size in ipairs(shape) do
    if size < 0 then fail("the size %d", size) end
    common.check_room(n, count * size, 8)
    count = count * size
  end
  return shape
end

local function drawn(op, shape_for)
  return function(n, like)
    local dtype = dtype_of(n, like)
    local y = op(shape_for(n, like), { generator = generator_of(n), dtype = "float64" })
    local a = n.attributes
    if op == ml.rand then
      local low, high = a.low or 0.0, a.high or 1.0
      y = y * (high - low) + low
    else
      y = y * (a.scale or 1.0) + (a.mean or 0.0)
    end
    return y:to(dtype):to(like and like.device or "cpu")
  end
end
local function same_shape(_, like) return like.shape end
read.RandomUniform, read.RandomNormal = drawn(ml.rand, shape_of), drawn(ml.randn, shape_of)
read.RandomUniformLike = drawn(ml.rand, same_shape)
read.RandomNormalLike = drawn(ml.randn, same_shape)

local function uniform(n, like)
  return ml.rand(like.shape, { generator = generator_of(n), dtype = ml.float32 }):to(like.device)
end

function read.Bernoulli(n, x) return uniform(n, x):lt(x):to(dtype_of(n, x)) end

function read.Multinomial(n, x)
  if x.ndim ~= 2 then fail("an input of %d dimensions, expected 2", x.ndim) end
  local count = n.attributes.sample_size or 1
  if count < 1 then fail("a sample_size of %d", count) end
  common.check_room(n, count * x.shape[1], 8)
  local places = x:float():softmax(2):multinomial(count, true, { generator = generator_of(n) })
  return (places - 1):to(n.attributes.dtype and dtype_of(n) or "int32")
end

-- In inference nothing is dropped; the mask is all true.
function read.Dropout(n, x, ratio, training)
  if not training or not training:ne(0):any():item() then
    return x, ml.ones_like(x, { dtype = ml.bool })
  end
  local rate = ratio and common.number(ratio, "the ratio") or 0.5
  if not (rate >= 0 and rate < 1) then fail("the ratio is %s, expected 0 to 1", tostring(rate)) end
  local mask = uniform(n, x):ge(rate)
  return x * mask:to(x.dtype) / (1 - rate), mask
end

return read
