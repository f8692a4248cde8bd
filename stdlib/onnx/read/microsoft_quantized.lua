-- stdlib/onnx/read/microsoft_quantized.lua: quantized ops of onnxruntime's domain com.microsoft:
-- numbers of 8 bits that are computed in float32, exact products, and weights of few bits.

local attention = require "moonlet.onnx.read.microsoft_attention"
local common = require "moonlet.onnx.read.common"
local kept = require "moonlet.onnx.kept"
local microsoft = require "moonlet.onnx.read.microsoft"
local ml = require "moonlet"
local F = require "moonlet.nn.functional"
local pool = require "moonlet.onnx.read.pool"
local quantization = require "moonlet.onnx.read.quantization"
local recurrent = require "moonlet.onnx.read.recurrent"
local fail = common.fail

local read = {}

for _, name in ipairs { "QuantizeLinear", "DequantizeLinear", "QLinearConv" } do
  read[name] = quantization[name]
end

-- --- as floats --------------------------------------------------------------------------------

-- One scale for all.
local function real(x, scale, zero)
  if not x or not scale then fail "an input or its scale is missing" end
  local whole = x:to "int32"
  if zero then whole = whole - zero:reshape({}):to("int32"):to(x.device) end
  return whole:float() * scale:reshape({}):to(x.device)
end

local function quantized(y, scale, zero, like)
  if not scale then fail "the scale of the result is missing" end
  local kind = zero and kept.type_of(zero) or like or "uint8"
  return quantization._quantized(y / scale:reshape({}):to(y.device),
    zero and zero:reshape({}):to(y.device), kind)
end

-- Ops of one input and ops of two.
local function of_one(op)
  return function(n, x, x_scale, x_zero, y_scale, y_zero)
    return quantized(op(n, real(x, x_scale, x_zero)), y_scale, y_zero, x.dtype)
  end
end

local function of_two(op)
  return function(_, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero)
    local y = op(real(a, a_scale, a_zero), real(b, b_scale, b_zero))
    return quantized(y, y_scale, y_zero, a.dtype)
  end
end

read.QLinearAdd, read.QLinearMul = of_two(ml.add), of_two(ml.mul)
read.QLinearSigmoid = of_one(function(_, x) return x:sigmoid() end)
read.QLinearLeakyRelu = of_one(function(n, x)
  return F.leaky_relu(x, n.attributes.alpha or 0.01)
end)

read.QLinearSoftmax = of_one(function(n, x)
  local dim = common.dim(n.attributes.axis or -1, x.ndim)
  if (n.attributes.opset or 13) >= 13 then return x:softmax(dim) end
  return x:flatten(dim):softmax(dim):view_as(x)
end)

-- Channels may stand last.
local function pooled(op)
  return of_one(function(n, x)
    if n.attributes.channels_last ~= 1 then return op(n, x) end
    return op(n, x:movedim(-1, 2)):movedim(2, -1)
  end)
end
read.QLinearAveragePool = pooled(pool.AveragePool)
read.QLinearGlobalAveragePool = pooled(pool.GlobalAveragePool)

function read.NhwcMaxPool(n, x) return (pool.MaxPool(n, x:movedim(-1, 2))):movedim(2, -1) end

read.QLinearReduceMean = of_one(function(n, x)
  local axes = n.attributes.axes
  return x:mean { dim = common.dims(axes and #axes > 0 and axes or nil, x.ndim),
    keepdim = (n.attributes.keepdims or 1) == 1 }
end)

function read.QLinearConcat(n, y_scale, y_zero, ...)
  local list, count = {}, select("#", ...)
  if count == 0 or count % 3 ~= 0 then
    fail("%d inputs behind the second, expected a multiple of 3", count)
  end
  for i = 1, count, 3 do
    local x, scale, zero = select(i, ...)
    list[#list + 1] = real(x, scale, zero)
  end
  local axis = n.attributes.axis or fail "it has no axis"
  return quantized(ml.cat(list, common.dim(axis, list[1].ndim)), y_scale, y_zero)
end

function read.QLinearWhere(_, condition, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero)
  if condition.dtype ~= ml.bool then
    fail("the condition is of %s, expected bool", condition.dtype)
  end
  return quantized(ml.where(condition, real(x, x_scale, x_zero), real(y, y_scale, y_zero)), z_scale,
    z_zero)
end

-- --- exact products ---------------------------------------------------------------------------

local product = quantization._product

-- C has the scale of the product.
function read.QGemm(n, a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero)
  local o = n.attributes
  if a.ndim ~= 2 or b.ndim ~= 2 then fail("operands of %d and %d dimensions", a.ndim, b.ndim) end
  if o.transA == 1 then a = a:t() end
  if o.transB == 1 then b = b:t() end
  local y = product(a, b, a_zero, b_zero)
  if c then y = y:double() + c:double() end
  y = y:float() * (a_scale:reshape({}) * b_scale * (o.alpha or 1.0))
  return y_scale and quantized(y, y_scale, y_zero, a.dtype) or y
end

function read.MatMulIntegerToFloat(_, a, b, a_scale, b_scale, a_zero, b_zero, bias)
  if a_scale.ndim == 1 and a_scale:numel() > 1 then a_scale = a_scale:unsqueeze(2) end
  local y = product(a, b, a_zero, b_zero):float() * (a_scale * b_scale)
  return bias and y + bias or y
end

-- The left operand gets the scale that its numbers want.
function read.DynamicQuantizeMatMul(n, a, b, b_scale, b_zero, bias)
  local whole, scale, zero = quantization.DynamicQuantizeLinear(n, a)
  return read.MatMulIntegerToFloat(n, whole, b, scale, b_scale, zero, b_zero, bias)
end

function read.MatMulInteger16(_, a, b)
  return ml.matmul(a:double(), b:double()):to("int64"):to "int32"
end

function read.MulInteger(_, a, a_zero, b, b_zero)
  if not a or not b then fail "an operand is missing" end
  local function whole(x, zero) return zero and x:to "int32" - zero:to "int32" or x:to "int32" end
  return whole(a, a_zero) * whole(b, b_zero)
end

function read.QAttention(n, x, weight, bias, x_scale, w_scale, mask, x_zero, w_zero, past)
  if (n.attributes.do_rotary or 0) ~= 0 then fail "do_rotary is not read" end
  if x.ndim ~= 3 or weight.ndim ~= 2 then
    fail("inputs of %d and %d dimensions, expected 3 and 2", x.ndim, weight.ndim)
  end
  local all = read.MatMulIntegerToFloat(n, x, weight, x_scale:reshape {}, w_scale, x_zero, w_zero,
    bias)
  return attention._attention_of(n, all, mask, past)
end

function read.QEmbedLayerNormalization(n, words, segments, word_rows, place_rows, segment_rows,
    gamma, beta, mask, word_scale, place_scale, segment_scale, gamma_scale, beta_scale, word_zero,
    place_zero, segment_zero, gamma_zero, beta_zero)
  if not gamma or not beta then fail "gamma or beta is missing" end
  local segment = segment_rows and real(segment_rows, segment_scale, segment_zero)
  local sum, counts = microsoft._embedded(words, segments, real(word_rows, word_scale, word_zero),
    real(place_rows, place_scale, place_zero), segment, mask)
  return F.layer_norm(sum, { sum.shape[3] }, real(gamma, gamma_scale, gamma_zero),
    real(beta, beta_scale, beta_zero), n.attributes.epsilon or 1e-12), counts
end

-- --- recurrent --------------------------------------------------------------------------------

-- One of `directions` weights (rows, columns), and its scale: one, or one for each column.
local function of_direction(t, d, directions)
  if t.ndim == 0 or t.shape[1] ~= directions then
    fail("a scale or zero point of the shape %s for %d directions", tostring(t.shape), directions)
  end
  return t[d]
end

-- The input, and the hidden state at each step, get the scale that their numbers want.
function read.DynamicQuantizeLSTM(n, x, w, r, b, lengths, h, c, peepholes, w_scale, w_zero, r_scale,
    r_zero)
  if not w_scale or not r_scale then fail "the scale of a weight is missing" end
  if w.ndim ~= 3 or r.ndim ~= 3 then
    fail("weights of %d and %d dimensions, expected 3", w.ndim, r.ndim)
  end
  local directions = w.shape[1]
  local function through(weight, scale, zero)
    return function(d)
      local own = zero and of_direction(zero, d, directions)
      local by, rows = of_direction(scale, d, directions), weight[d]
      return function(a)
        local flat = a:reshape(-1, a.shape[a.ndim])
        local y = read.DynamicQuantizeMatMul(n, flat, rows, by, own)
        local shape = {}
        for i, size in ipairs(a.shape) do shape[i] = i == a.ndim and y.shape[2] or size end
        return y:reshape(shape)
      end
    end
  end
  return recurrent._quantized_lstm(n, x, w, r, b, lengths, h, c, peepholes,
    through(w, w_scale, w_zero), through(r, r_scale, r_zero))
end

-- --- weights of few bits ----------------------------------------------------------------------

-- Numbers of `bits` bits in rows of bytes (rows, bytes), the first in the lowest bits.
local function unpacked(bytes, bits, count)
  if bits == 8 then return bytes:narrow(2, 1, count) end
  local wide, parts = bytes:to "int32", {}
  for i = 0, 8 // bits - 1 do
    parts[i + 1] = wide:bitwise_right_shift(i * bits):bitwise_and((1 << bits) - 1)
  end
  return ml.stack(parts, 3):flatten(2):narrow(2, 1, count)
end

-- The zero points of rows (rows, blocks): packed, or as numbers.
local function zeros_of(zero, rows, blocks, bits, dtype)
  if not zero then return (1 << (bits - 1)) + 0.0 end
  if zero.dtype ~= "uint8" then return zero:reshape(rows, blocks, 1):to(dtype) end
  local bytes = (blocks * bits + 7) // 8
  return unpacked(zero:reshape(rows, bytes), bits, blocks):reshape(rows, blocks, 1):to(dtype)
end

function read.MatMulNBits(n, x, weight, scales, zero, order, bias)
  local o = n.attributes
  local bits, block, rows, width = o.bits or 4, o.block_size or 0, o.N or 0, o.K or 0
  if order then fail "g_idx is not read" end
  if (o.weight_prepacked or 0) ~= 0 then
    fail "weights that are packed for a device are not read"
  end
  if bits ~= 2 and bits ~= 4 and bits ~= 8 or block < 1 or rows < 1 or width < 1 then
    fail("weights (%d, %d) of %d bits in blocks of %d", rows, width, bits, block)
  end
  local blocks = (width + block - 1) // block
  local bytes = (block * bits + 7) // 8
  if weight.dtype ~= "uint8" or weight:numel() ~= rows * blocks * bytes
      or scales:numel() ~= rows * blocks then
    fail("weights of the shape %s and scales of %s for (%d, %d) in blocks of %d",
      tostring(weight.shape), tostring(scales.shape), rows, width, block)
  end
  common.check_room(n, rows * blocks * block, 8)
  local dtype = scales.dtype
  local whole = unpacked(weight:reshape(rows * blocks, bytes), bits, block)
  local real_weight = (whole:reshape(rows, blocks, block):to(dtype)
    - zeros_of(zero, rows, blocks, bits, dtype)) * scales:reshape(rows, blocks, 1)
  real_weight = real_weight:reshape(rows, blocks * block):narrow(2, 1, width):to(x.dtype)
  return ml.linear(x, real_weight, bias)
end

-- Rows of such a table.
function read.GatherBlockQuantized(n, data, index, scales, zero)
  local o, bits = n.attributes, n.attributes.bits or 4
  local block, last = o.block_size or 128, data.ndim
  if common.dim(o.gather_axis or 0, last) ~= 1 or common.dim(o.quantize_axis or 1, last) ~= last
      or last < 2 then
    fail "only rows whose last dimension is quantized are read"
  end
  local rows = common.positions(index:to("int64"):to(data.device), data.shape[1]):flatten()
  local packed = data.dtype == "uint8" and kept.type_of(data) == "uint8"
  local part = data:index_select(1, rows):reshape(-1, data.shape[last])
  local width = packed and data.shape[last] * (8 // bits) or data.shape[last]
  local whole = packed and unpacked(part, bits, width) or part
  local scale = scales:index_select(1, rows):reshape(-1, scales.shape[last])
  local blocks = scales.shape[last]
  local function spread(t) return t:repeat_interleave(block, 2):narrow(2, 1, width) end
  local point = packed and (1 << (bits - 1)) + 0.0 or 0.0
  if zero then
    local own = zero:index_select(1, rows):reshape(-1, zero.shape[last])
    if packed then own = unpacked(own, bits, blocks) end
    point = spread(own:to(scale.dtype))
  end
  local shape = {}
  for _, size in ipairs(index.shape) do shape[#shape + 1] = size end
  for d = 2, last do shape[#shape + 1] = d == last and width or data.shape[d] end
  return ((whole:to(scale.dtype) - point) * spread(scale)):reshape(shape)
end

return read
