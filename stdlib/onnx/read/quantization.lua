-- stdlib/onnx/read/quantization.lua: ONNX's quantized numbers: their products and convolutions are
-- computed exactly, in floating-point numbers that hold every whole number that can occur.

local common = require "moonlet.onnx.read.common"
local kept = require "moonlet.onnx.kept"
local linear = require "moonlet.onnx.read.linear"
local ml = require "moonlet"
local narrow = require "moonlet.onnx.narrow"
local fail = common.fail

local read = {}

-- --- scales and zero points -------------------------------------------------------------------

--- A scale or zero point as x takes it: one for all, one for each entry of an axis, or one for each
--- block of an axis.
---@param n table
---@param t Tensor
---@param x Tensor
---@param what string for messages
local function spread(n, t, x, what)
  t = select(2, common.together(x, t))
  if t.ndim == 0 or t.ndim == 1 and t.shape[1] == 1 then return t:reshape {} end
  local dim = common.dim(n.attributes.axis or 1, x.ndim)
  local block = n.attributes.block_size or 0
  if t.ndim == 1 and block == 0 then
    if t.shape[1] ~= x.shape[dim] then
      fail("the %s has %d elements, expected %d, one for each entry of the axis", what, t.shape[1],
        x.shape[dim])
    end
    local shape = {}
    for d = 1, x.ndim do shape[d] = d == dim and t.shape[1] or 1 end
    return t:reshape(shape)
  end
  local fits = t.ndim == x.ndim and block > 0
  for d = 1, fits and x.ndim or 0 do
    local size = d == dim and (x.shape[d] + block - 1) // block or x.shape[d]
    fits = fits and t.shape[d] == size
  end
  if not fits then
    fail("the %s has the shape %s, which does not divide %s by blocks of %d along dimension %d",
      what, tostring(t.shape), tostring(x.shape), block, dim)
  end
  return t:repeat_interleave(math.min(block, x.shape[dim]), dim):narrow(dim, 1, x.shape[dim])
end

--- Rounds x / scale half to even, moves it by the zero point, and keeps it in the range of a type.
---@param x Tensor the quotient
---@param zero? Tensor
---@param kind string
function read._quantized(x, zero, kind)
  local range = kept.ranges[kind] or fail("numbers cannot be quantized to %s", kind)
  local wide = (x:is_floating_point() and x or x:float()):round()
  if wide.dtype ~= "float64" then wide = wide:float() end
  if zero then wide = wide + zero:to(wide.dtype) end
  return kept.note(wide:clamp(range[1], range[2]):to(kept.carrier(kind)), kind)
end

--- (x - zero) as whole numbers in a floating dtype.
local function centred(x, zero, dtype)
  x = x:to(dtype or "float32")
  if not zero then return x end
  return x - select(2, common.together(x, zero)):to(x.dtype)
end
read._centred = centred

function read.QuantizeLinear(n, x, scale, zero)
  local a = n.attributes
  local kind = a.output_dtype and a.output_dtype ~= 0 and kept.name_of(a.output_dtype)
    or zero and kept.type_of(zero) or "uint8"
  if a.output_dtype and a.output_dtype ~= 0 and zero and kept.type_of(zero) ~= kind then
    fail("output_dtype is %s, the zero point is of %s", kind, kept.type_of(zero))
  end
  local precision = a.precision and a.precision ~= 0 and kept.carrier(kept.name_of(a.precision))
    or kept.type_of(scale) == scale.dtype and scale.dtype or "float32"
  if not precision:find "float" then fail("the precision is %s, expected a float", precision) end
  local quotient = x:to(precision) / spread(n, scale, x, "scale"):to(precision)
  if kept.floats[kind] then
    return kept.note(narrow.cast(quotient, kind, a.saturate ~= 0), kind)
  end
  return read._quantized(quotient, zero and spread(n, zero, x, "zero point"), kind)
end

function read.DequantizeLinear(n, x, scale, zero)
  local code = n.attributes.output_dtype or 0
  local dtype = code ~= 0 and kept.carrier(kept.name_of(code)) or scale.dtype
  if not dtype:find "float" then fail("the result is of %s, expected a float", dtype) end
  local by = spread(n, scale, x, "scale"):to(dtype)
  local whole = x
  if zero then
    local wide = x:is_floating_point() and x.dtype or "int32"
    whole = x:to(wide) - spread(n, zero, x, "zero point"):to(wide)
  end
  return whole:to(dtype) * by
end

function read.DynamicQuantizeLinear(_, x)
  local zero = ml.zeros({}, { dtype = x.dtype, device = x.device })
  local high, low = zero, zero
  if x:numel() > 0 then
    high, low = ml.maximum(x:amax(), zero), ml.minimum(x:amin(), zero)
  end
  local scale = (high - low) / 255
  -- All zeros: any scale would do.
  scale = ml.where(scale:eq(0), ml.ones_like(scale), scale)
  local point = (-low / scale):clamp(0, 255):round():to "uint8"
  return read._quantized(x / scale, point, "uint8"), scale, point
end

-- --- products ---------------------------------------------------------------------------------

local BYTES = { uint8 = true, int8 = true }

-- The floating dtype that holds sums of `count` products of two numbers of 9 bits, or of what is in
-- wider types.
local function exact(count, a, b)
  local bytes = BYTES[a.dtype] and BYTES[b.dtype]
  return bytes and count * 255 * 255 < 1 << 24 and "float32" or "float64"
end

-- A zero point (or scale) of each row of a matrix.
local function of_rows(t, x)
  if t and t.ndim == 1 and t.shape[1] > 1 and x.ndim > 1 then return t:unsqueeze(-1) end
  return t
end

--- The product of two matrices less their zero points, exactly, in a floating dtype.
function read._product(a, b, a_zero, b_zero)
  if a.ndim == 0 or b.ndim == 0 then fail "an operand has no dimensions" end
  local dtype = exact(a.shape[a.ndim], a, b)
  a, b = common.together(a, b)
  return ml.matmul(centred(a, of_rows(a_zero, a), dtype), centred(b, b_zero, dtype))
end

function read.MatMulInteger(_, a, b, a_zero, b_zero)
  return read._product(a, b, a_zero, b_zero):to("int64"):to "int32"
end

function read.QLinearMatMul(_, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero)
  local y = read._product(a, b, a_zero, b_zero):float()
  local by = of_rows(a_scale, a):float() * b_scale:float() / of_rows(y_scale, a):float()
  return read._quantized(y * select(2, common.together(y, by)), of_rows(y_zero, a),
    kept.type_of(y_zero))
end

-- One for each row of a weight (out, in, ...).
local function of_outputs(t, weight, what)
  if not t or t:numel() == 1 then return t and t:reshape {} end
  if t.ndim ~= 1 or t.shape[1] ~= weight.shape[1] then
    fail("the %s has the shape %s for %d channels", what, tostring(t.shape), weight.shape[1])
  end
  local shape = { t.shape[1] }
  for d = 2, weight.ndim do shape[d] = 1 end
  return t:reshape(shape)
end

-- The border is of zero points.
local function convolved(n, x, weight, x_zero, w_zero)
  if weight.ndim < 3 then fail("a weight of %d dimensions", weight.ndim) end
  x, weight = common.together(x, weight)
  local count = weight:numel() // math.max(weight.shape[1], 1)
  local dtype = exact(count, x, weight)
  return linear.Conv(n, centred(x, x_zero and x_zero:reshape {}, dtype),
    centred(weight, of_outputs(w_zero, weight, "weight's zero point"), dtype))
end

function read.ConvInteger(n, x, weight, x_zero, w_zero)
  return convolved(n, x, weight, x_zero, w_zero):to("int64"):to "int32"
end

function read.QLinearConv(n, x, x_scale, x_zero, weight, w_scale, w_zero, y_scale, y_zero, bias)
  local last = n.attributes.channels_last == 1
  if last then x = x:movedim(-1, 2) end
  local y = convolved(n, x, weight, x_zero, w_zero)
  local function along(t)
    t = select(2, common.together(y, t))
    if t:numel() == 1 then return t:reshape {} end
    local shape = {}
    for d = 1, y.ndim do shape[d] = d == 2 and t:numel() or 1 end
    return t:reshape(shape)
  end
  if bias then y = y:double() + along(bias):double() end
  local by = x_scale:reshape {} * w_scale / y_scale:reshape {}
  local out = read._quantized(y:float() * along(by), along(y_zero), kept.type_of(y_zero))
  return last and out:movedim(2, -1) or out
end

return read
