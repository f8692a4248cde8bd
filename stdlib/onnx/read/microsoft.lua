-- stdlib/onnx/read/microsoft.lua: ops of onnxruntime's domain com.microsoft that are not quantized:
-- what its optimiser makes of several ops of ONNX.

local F = require "moonlet.nn.functional"
local attention = require "moonlet.onnx.read.attention"
local common = require "moonlet.onnx.read.common"
local image = require "moonlet.onnx.read.image"
local linear = require "moonlet.onnx.read.linear"
local ml = require "moonlet"
local norm = require "moonlet.onnx.read.norm"
local shape = require "moonlet.onnx.read.shape"
local fail = common.fail

local read = {}

-- --- activations ------------------------------------------------------------------------------

function read.Gelu(_, x) return F.gelu(x) end
function read.BiasGelu(_, x, bias) return F.gelu(x + bias) end
function read.FastGelu(_, x, bias) return F.gelu(bias and x + bias or x, "tanh") end
function read.QuickGelu(n, x)
  local alpha = n.attributes.alpha or 1.702
  return x * (x * alpha):sigmoid()
end
function read.GemmFastGelu(n, x, weight, bias)
  return read.FastGelu(n, ml.matmul(x, weight), bias)
end

-- Half of the channels gate the other half.
function read.BiasSplitGelu(_, x, bias)
  local parts = (x + bias):chunk(2, x.ndim)
  return parts[1] * F.gelu(parts[2])
end

-- The activation of a fused op, with what it is given.
local ACTIVATIONS = {
  Relu = function(x) return x:relu() end,
  Tanh = function(x) return x:tanh() end,
  Sigmoid = function(x) return x:sigmoid() end,
  LeakyRelu = function(x, alpha) return F.leaky_relu(x, alpha or 0.01) end,
  Clip = function(x, low, high) return x:clamp(low or -math.huge, high or math.huge) end,
  HardSigmoid = function(x, alpha, beta)
    return (x * (alpha or 0.2) + (beta or 0.5)):clamp(0, 1)
  end,
  HardSwish = function(x) return F.hardswish(x) end,
  Elu = function(x, alpha) return F.elu(x, alpha or 1.0) end,
  Selu = function(x) return F.selu(x) end,
  Softplus = function(x) return F.softplus(x) end,
  Softsign = function(x) return F.softsign(x) end,
  ThresholdedRelu = function(x, alpha) return F.threshold(x, alpha or 1.0, 0) end,
  ScaledTanh = function(x, alpha, beta) return (alpha or 1) * ((beta or 1) * x):tanh() end,
  Affine = function(x, alpha, beta) return (alpha or 1) * x + (beta or 0) end,
  Gelu = function(x) return F.gelu(x) end,
  QuickGelu = function(x, alpha)
    alpha = alpha or 1.702
    return x * (x * alpha):sigmoid()
  end,
}

local function activated(x, name, ...)
  if not name or name == "" then return x end
  return (ACTIVATIONS[name] or fail("there is no activation '%s'", name))(x, ...)
end

-- --- products ---------------------------------------------------------------------------------

local function parameters_of(n)
  local list = n.attributes.activation_params
  if type(list) == "table" then return table.unpack(list) end
end

function read.FusedConv(n, x, weight, bias, add)
  local y = linear.Conv(n, x, weight, bias)
  return activated(add and y + add or y, n.attributes.activation, parameters_of(n))
end

-- The channels of x and of the result stand last.
function read.NhwcConv(n, x, weight, bias)
  return linear.Conv(n, x:movedim(-1, 2), weight, bias):movedim(2, -1)
end
function read.NhwcFusedConv(n, x, weight, bias, add)
  local y = read.FusedConv(n, x:movedim(-1, 2), weight, bias, add and add:movedim(-1, 2))
  return y:movedim(2, -1)
end

-- The pads are an input.
function read.ConvTransposeWithDynamicPads(n, x, weight, pads, bias)
  local attributes = setmetatable({ pads = pads and common.integers(pads, "Pads") or nil },
    { __index = n.attributes })
  return linear.ConvTranspose(setmetatable({ attributes = attributes }, { __index = n }), x, weight,
    bias)
end

function read.FusedGemm(n, a, b, c)
  local o = n.attributes
  return activated(linear.Gemm(n, a, b, c), o.activation, o.activation_alpha, o.activation_beta,
    o.activation_gamma)
end

-- transBatch puts the first dimension before the last: (m, batch.., k) is (batch.., m, k).
local function operand(x, turned, batch)
  if x.ndim < 2 then return x end
  if batch == 1 then
    x = x:movedim(1, x.ndim - 1)
  end
  return turned == 1 and x:transpose(-1, -2) or x
end

function read.FusedMatMul(n, a, b)
  local o = n.attributes
  local y = ml.matmul(operand(a, o.transA, o.transBatchA), operand(b, o.transB, o.transBatchB))
  return (o.alpha or 1) ~= 1 and y * o.alpha or y
end
read.TransposeMatMul = read.FusedMatMul

function read.FusedMatMulActivation(n, a, b)
  local o = n.attributes
  return activated(read.FusedMatMul(n, a, b), o.activation, o.activation_alpha, o.activation_beta,
    o.activation_gamma)
end

function read.Inverse(_, x) return ml.linalg.inv(x) end

function read.CDist(n, a, b)
  local metric = n.attributes.metric or "sqeuclidean"
  if a.ndim ~= 2 or b.ndim ~= 2 then fail("inputs of %d and %d dimensions", a.ndim, b.ndim) end
  if metric == "euclidean" then return ml.cdist(a, b) end
  if metric ~= "sqeuclidean" then fail("the metric '%s'", metric) end
  common.check_room(n, a.shape[1] * b.shape[1] * a.shape[2], 4)
  local far = a:unsqueeze(2) - b:unsqueeze(1)
  return (far * far):sum(3)
end

-- --- sums and masks ---------------------------------------------------------------------------

function read.BiasAdd(_, x, bias, skip) return x + bias + skip end

-- From the axis on all is one dimension.
function read.BiasSoftmax(n, x, bias)
  local dim = common.dim(n.attributes.axis or 1, x.ndim)
  return (x + bias):flatten(dim):softmax(dim):view_as(x)
end

-- Nothing is dropped in inference.
function read.BiasDropout(_, x, bias, residual, _, training)
  if training and training:ne(0):any():item() then fail "training_mode is not read" end
  local y = x + bias
  if residual then y = y + residual end
  return y, ml.ones_like(y, { dtype = ml.bool })
end

-- --- normalisations ---------------------------------------------------------------------------

-- The sum of both ways.
local function skipped(x, skip, bias)
  local sum = x + skip
  return bias and sum + bias or sum
end

-- With the mean and the reciprocal of the deviation over the last dimension.
local function layer_normalized(x, gamma, beta, eps)
  local y = F.layer_norm(x, { x.shape[x.ndim] }, gamma, beta, eps)
  local wide = x.dtype == "float64" and x or x:float()
  local mean = wide:mean { dim = x.ndim, keepdim = true }
  local var = wide:var { dim = x.ndim, correction = 0, keepdim = true }
  return y, mean, (var + eps):rsqrt()
end

function read.SkipLayerNormalization(n, x, skip, gamma, beta, bias)
  local sum = skipped(x, skip, bias)
  local y, mean, inverse = layer_normalized(sum, gamma, beta, n.attributes.epsilon or 1e-12)
  return y, mean, inverse, sum
end

local function rms_normalized(x, scale, dims, eps)
  local wide = x.dtype == "float64" and x or x:float()
  local inverse = ((wide * wide):mean { dim = dims, keepdim = true } + eps):rsqrt()
  return (wide * inverse):to(x.dtype) * scale, inverse
end

function read.SkipSimplifiedLayerNormalization(n, x, skip, gamma, bias)
  local sum = skipped(x, skip, bias)
  local y, inverse = rms_normalized(sum, gamma, { sum.ndim }, n.attributes.epsilon or 1e-12)
  return y, nil, inverse, sum
end

function read.SimplifiedLayerNormalization(n, x, scale)
  local dims = {}
  for d = common.dim(n.attributes.axis or -1, x.ndim), x.ndim do dims[#dims + 1] = d end
  return rms_normalized(x, scale, dims, n.attributes.epsilon or 1e-5)
end
read.LayerNormalization = norm.LayerNormalization

-- Of groups of channels, which stand last; with a SiLU where the node says so.
local function group_normalized(n, x, gamma, beta)
  local o, last = n.attributes, (n.attributes.channels_last or 1) == 1
  local y = last and x:movedim(-1, 2) or x
  y = ml.group_norm(y, o.groups or fail "it has no groups", gamma:to(x.dtype), beta:to(x.dtype),
    o.epsilon or 1e-5)
  if o.activation == 1 then y = F.silu(y) end
  return last and y:movedim(2, -1) or y
end
read.GroupNorm = group_normalized

function read.SkipGroupNorm(n, x, gamma, beta, skip, bias)
  -- It may be one number for each channel of each picture.
  while skip.ndim < x.ndim do skip = skip:unsqueeze(2) end
  local sum = x + skip
  if bias then sum = sum + bias end
  return group_normalized(n, sum, gamma, beta), sum
end

-- --- embeddings -------------------------------------------------------------------------------

local function looked_up(rows, places)
  local at = common.positions(places:to("int64"):to(rows.device), rows.shape[1])
  return rows:index_select(1, at:flatten()):reshape(at.shape[1], at.shape[2], rows.shape[2])
end

--- The sum of a word's, a place's and a segment's embeddings, and how many words each row has.
function read._embedded(words, segments, word_rows, place_rows, segment_rows, mask, places)
  if not word_rows or not place_rows then fail "an embedding is missing" end
  if words.ndim ~= 2 then fail("input_ids has %d dimensions, expected 2", words.ndim) end
  local batch, steps = words.shape[1], words.shape[2]
  places = places or common.range(0, steps, words.device):unsqueeze(1)
  local sum = looked_up(word_rows, words) + looked_up(place_rows, places)
  if segments and segment_rows then sum = sum + looked_up(segment_rows, segments) end
  local counts = mask and mask:eq(1):sum(2):to "int32"
    or ml.zeros(batch, { dtype = ml.int32, device = words.device })
  return sum, counts
end

function read.EmbedLayerNormalization(n, words, segments, word_rows, place_rows, segment_rows,
    gamma, beta, mask, places)
  local sum, counts = read._embedded(words, segments, word_rows, place_rows, segment_rows, mask,
    places)
  if not gamma or not beta then fail "gamma or beta is missing" end
  local y = F.layer_norm(sum, { sum.shape[3] }, gamma, beta, n.attributes.epsilon or 1e-12)
  return y, counts, sum
end

-- The order of inputs differs from ONNX's op.
function read.RotaryEmbedding(n, x, positions, cos, sin)
  local o, flat = n.attributes, x.ndim == 3
  if x.ndim ~= 3 and x.ndim ~= 4 then fail("an input of %d dimensions, expected 3 or 4", x.ndim) end
  if o.is_packed_batching == 1 then fail "is_packed_batching is not read" end
  local size = (o.rotary_embedding_dim or 0) > 0 and o.rotary_embedding_dim or 2 * cos.shape[2]
  local heads = (o.num_heads or 0) > 0 and o.num_heads or flat and x.shape[3] // size
  local y = flat and attention._split_heads(x, heads, "the input") or x
  local batch, steps = y.shape[1], y.shape[3]
  if positions:numel() == 1 then
    positions = common.range(0, steps, "cpu"):unsqueeze(1)
      + positions:to("int64"):cpu():reshape(1, 1)
  elseif positions.ndim ~= 2 or positions.shape[1] ~= batch or positions.shape[2] ~= steps then
    fail("positions of the shape %s for %d sequences of %d steps", tostring(positions.shape), batch,
      steps)
  end
  local pairs_count = size // 2
  y = attention._rotated(y, attention._angles(cos, positions, pairs_count),
    attention._angles(sin, positions, pairs_count), o.interleaved == 1)
  if (o.scale or 1) ~= 1 then y = y * o.scale end
  return flat and attention._merge_heads(y) or y
end

-- --- shapes -----------------------------------------------------------------------------------

read.GatherND = require("moonlet.onnx.read.index").GatherND
read.Pad, read.Trilu = image.Pad, shape.Trilu
read.CropAndResize = require("moonlet.onnx.read.detection")._crop_and_resize
read.GridSample = image.GridSample

function read.Range(n, start, limit, delta)
  return shape.Range(n, start, limit, delta or ml.ones({}, { dtype = start.dtype }))
end

function read.ExpandDims(_, x, axis)
  local at = common.number(axis, "axis")
  return x:unsqueeze(common.dim(at, x.ndim + 1))
end

-- In the order of their first places.
function read.Unique(n, x)
  local node = setmetatable({ attributes = { sorted = 0 } }, { __index = n })
  local values, _, inverse, counts = require("moonlet.onnx.read.index").Unique(node, x)
  return values, inverse, counts
end

function read.ReduceSumInteger(n, x)
  local wide = x:to(x.dtype:find "^u" and "int64" or "int32")
  local keep = (n.attributes.keepdims or 1) == 1
  return wide:sum({ dim = common.dims(n.attributes.axes, x.ndim), keepdim = keep, dtype = "int32" })
end

-- --- transforms -------------------------------------------------------------------------------

local function signal_dims(n, rank)
  local count, dims = n.attributes.signal_ndim or 1, {}
  if count < 1 or count > rank then fail("signal_ndim is %d for %d dimensions", count, rank) end
  for d = rank - count + 1, rank do dims[#dims + 1] = d end
  return dims
end

-- Of real numbers, as pairs.
function read.Rfft(n, x)
  if n.attributes.normalized == 1 then fail "normalized is not read" end
  local full = n.attributes.onesided == 0
  local dims = signal_dims(n, x.ndim)
  local y = full and ml.fft.fftn(x, nil, dims) or ml.fft.rfftn(x, nil, dims)
  return ml.view_as_real(y)
end

function read.Irfft(n, x)
  if n.attributes.normalized == 1 then fail "normalized is not read" end
  local y = ml.view_as_complex(x:contiguous())
  return ml.fft.irfftn(y, nil, signal_dims(n, y.ndim))
end

local function complex_product(conjugate)
  return function(_, a, b)
    local x, y = ml.view_as_complex(a:contiguous()), ml.view_as_complex(b:contiguous())
    return ml.view_as_real(x * (conjugate and y:conj() or y))
  end
end
read.ComplexMul, read.ComplexMulConj = complex_product(false), complex_product(true)

-- --- ops without a domain that onnxruntime knows ----------------------------------------------

local plain = { SimplifiedLayerNormalization = read.SimplifiedLayerNormalization }

function plain.Affine(n, x) return x * (n.attributes.alpha or 1.0) + (n.attributes.beta or 0.0) end
function plain.ScaledTanh(n, x)
  return (n.attributes.alpha or 1.0) * (x * (n.attributes.beta or 1.0)):tanh()
end
function plain.ParametricSoftplus(n, x)
  return (n.attributes.alpha or 1.0) * F.softplus(x * (n.attributes.beta or 1.0))
end
read._plain = plain

return read
