-- tests/lua/onnx_functions.lua: functions that are written as ONNX graphs, an op or a few each, as
-- onnx_models.lua has models. `zero` names the results that are positions.

local ml = require "moonlet"
local nn = ml.nn
local F = nn.functional

local functions = {}

local Function = nn.class "Function"
function Function:init(f) self.f = f end
function Function:forward(...) return self.f(...) end

local function randn(...)
  local sizes = { ... }
  return function(batch) return { ml.randn { batch, table.unpack(sizes) } } end
end

local function add(name, f, make, options)
  functions[#functions + 1] = { name = name, module = Function(f), make = make or randn(6),
    options = options or {} }
end

local WIDE = { round = true, ceil = true, floor = true, trunc = true, frac = true, sign = true,
  relu = true, erf = true, erfc = true, abs = true }
for name in ("abs acos acosh asin asinh atan atanh cos cosh erf exp log neg reciprocal sigmoid sign sin "
  .. "sinh sqrt tan tanh ceil floor round rsqrt square exp2 expm1 log1p log2 log10 erfc trunc frac relu "
  .. "isnan isfinite isinf isposinf isneginf logical_not nan_to_num sinc deg2rad logit positive"):gmatch "%S+" do
  add(name, ml[name], function(batch)
    local x = ml.rand(batch, 6) * 0.8 + 0.1
    return { WIDE[name] and (x - 0.5) * 7 or name == "acosh" and x + 1 or x }
  end)
end

local REAL = { atan2 = true, hypot = true, fmax = true, fmin = true }
for name in ("add mul sub div pow maximum minimum remainder fmod floor_divide atan2 hypot fmax fmin eq ne "
  .. "lt gt le ge logical_and logical_or logical_xor"):gmatch "%S+" do
  add("of_floats_" .. name, ml[name], function(batch)
    return { ml.rand(batch, 6) * 4 + 0.2, ml.rand(1, 6) * 3 + 0.3 }
  end)
  if not REAL[name] then
    add("of_integers_" .. name, ml[name], function(batch)
      return { ml.randint(-7, 7, { batch, 6 }), ml.randint(1, 4, { 1, 6 }) }
    end)
  end
end

add("numbers", function(x)
  return (2 - x) * 3 + x / 2 - 1, x:gt(0), x:eq(1), 2 ^ x, x ^ 2, x // 1, x % 2, -x
end)
add("numbers_of_integers", function(x)
  return (2 - x) * 3 + 1, x:gt(0), x:eq(1), x * 0.5, x / 2, x // 2, x % 2
end, function(batch) return { ml.randint(9, { batch, 6 }) } end)
for name in ("relu6 hardsigmoid hardswish silu mish softsign tanhshrink logsigmoid selu"):gmatch "%S+" do
  add(name, function(x) return F[name](x * 3) end)
end
add("activations", function(x)
  x = x * 3
  return F.elu(x, 0.7), F.celu(x, 0.6), F.leaky_relu(x, 0.2), F.hardtanh(x, -0.5, 0.7),
    F.hardshrink(x, 0.4), F.softshrink(x, 0.4), F.threshold(x, 0.1, 5), F.softplus(x),
    F.softplus(x, 2, 3), F.gelu(x), F.gelu(x, "tanh"), F.rrelu(x), F.glu(x, -1), F.softmax(x, 2),
    F.log_softmax(x, -1), F.softmin(x, 1), x:sum():softmax(1), F.normalize(x),
    F.cosine_similarity(x, x + 1)
end)
add("losses", function(x)
  local t = x:sigmoid()
  return F.l1_loss(x, t), F.huber_loss(x * 3, t), F.smooth_l1_loss(x * 3, t, { beta = 0.5 }),
    F.binary_cross_entropy(t, t), F.binary_cross_entropy_with_logits(x, t),
    F.mse_loss(x, t, { reduction = "none" })
end)
add("class_losses", function(x, target)
  return F.cross_entropy(x, target), F.nll_loss(F.log_softmax(x, 2), target)
end, function(batch) return { ml.randn(batch, 4), ml.randint(4, { batch }) } end,
  { dynamic = { { "batch" }, { "batch" } }, ids = { false, true } })
add("smoothed_class_losses", function(x, target)
  local weight, out = ml.tensor { 0.5, 1, 2, 0.25 }, {}
  for _, reduction in ipairs { "none", "sum", "mean" } do
    for _, w in ipairs { false, weight } do
      out[#out + 1] = F.cross_entropy(x, target, { weight = w or nil, reduction = reduction, label_smoothing = 0.3,
        ignore_index = 2 })
    end
  end
  return table.unpack(out)
end, function(batch) return { ml.randn(batch, 4), ml.randint(4, { batch }) } end,
  { dynamic = { { "batch" }, { "batch" } }, ids = { false, true } })

-- --- along dimensions -------------------------------------------------------------------------

add("reductions", function(x)
  return x:sum(), x:sum(2), x:mean { dim = { 2, 3 }, keepdim = true }, x:prod(3), x:amax(2),
    x:amin { 2, 3 }, x:logsumexp(2), x:norm(), x:norm(1, 2), x:norm(3, { 2, 3 }), x:var(2), x:std(2),
    x:var(), x:all(2), x:any(), x:count_nonzero(2), x:cumsum(2), x:max(), x:mean(), x:cumprod(2)
end, randn(3, 4))
add("positions", function(x)
  local m, i = x:max(2)
  local n, j = x:min(3, true)
  local v, k = x:topk(2, 3)
  local s, t = x:sort(2, true)
  return m, i, n, j, v, k, s, t, x:argmax(2), x:argmin { dim = 3, keepdim = true }, x:argsort(3),
    x:argmax()
end, randn(3, 4), { zero = { 2, 4, 6, 8, 9, 10, 11, 12 } })
add("shapes", function(x)
  return x:view(-1, 12), x:reshape(x:size(1), 2, -1), x:flatten(), x:flatten(2), x:permute(3, 1, 2),
    x:transpose(1, 2), x:unsqueeze(1), x[1], x[-1], x[{ {}, 2 }], x[{ {}, { 1, 2 } }],
    x[{ {}, {}, { 1, -1, 2 } }], x[{ { 2, -1 } }], ml.cat({ x, x }, 2), ml.stack({ x, x }, 1),
    x:flip(2), x:tril(), x:triu(1), x:tile(1, 2, 1), x:repeat_interleave(2, 2), x:roll(1, 2),
    x:movedim(3, 1), x:unbind(2)[2], x:split(1, 2)[3], x:chunk(2, 3)[1], x:unsqueeze(2):squeeze(2),
    x:swapaxes(1, 2), x:diagonal { dim1 = 2, dim2 = 3 }, x:unflatten(3, { 2, 2 }),
    x:narrow(2, 2, 2), x:expand(2, -1, -1, -1)
end, randn(3, 4))
add("sizes", function(x)
  local n = x:size(1)
  return x[{ { 1, -2 } }], x[{ { 2, -1 } }], x:sum(1) / n, x * (1 / n), ml.zeros(n, 3),
    ml.arange(1, n), ml.ones(n, n):tril(), x:view(n * 6), ml.eye(n), x:std(1), x:chunk(2, 2)[2]
end, function(batch) return { ml.randn(batch + 1, 6) } end)
add("matrices", function(x)
  local y = x:transpose(2, 3)
  return ml.matmul(x, y), ml.einsum("bij,bkj->bik", { x, x }), x:bmm(y),
    ml.baddbmm(ml.ones(3, 3), x, y, { beta = 0.5, alpha = 2 }), ml.matmul(x, ml.ones(4))
end, randn(3, 4))
add("vectors", function(x)
  return ml.addmm(ml.ones(5), x, ml.ones(4, 5), { beta = 2, alpha = 0.5 }), x:mm(ml.ones(4, 2)),
    x:mv(ml.ones(4)), ml.outer(x[{ {}, 1 }], x[1]), x[1]:dot(x[1])
end, randn(4))

-- --- positions and changes --------------------------------------------------------------------

local both = { dynamic = { { "batch" }, { "batch" } }, ids = { false, true } }
add("indices", function(x, i)
  return x:index_select(2, ml.tensor { 1, 3 }), x:gather(2, i), x[{ {}, ml.tensor { 3, 1 } }],
    x[ml.tensor { 1, 2 }], x[{ {}, ml.tensor { 3, 1 }, ml.tensor { 2, 4 } }],
    F.one_hot(i[{ {}, 1, 1 }], 4), x:take_along_dim(i, 2), i, i + 1
end, function(batch)
  return { ml.randn(batch + 1, 3, 4), ml.randint(3, { batch + 1, 2, 4 }) }
end, { dynamic = both.dynamic, ids = both.ids, zero = { 8 } })
add("scattered", function(x, i)
  local two = x[{ {}, { 1, 2 } }]
  return x:scatter(2, i, 9), x:scatter_add(2, i, x), x:index_fill(2, ml.tensor { 2 }, 7),
    x:index_add(2, ml.tensor { 2, 1 }, two), x:index_copy(2, ml.tensor { 2, 1 }, two),
    x:masked_fill(x:gt(0), -1), ml.where(x:gt(0), x, 0), x:clamp(-0.5, 0.5), x:clamp { min = 0 },
    ml.lerp(x, x * 2, 0.3), ml.addcmul(x, x, x, { value = 2 }), ml.addcdiv(x, x, x + 9)
end, function(batch) return { ml.randn(batch, 3), ml.randint(3, { batch, 1 }) } end, both)
add("in_place", function(x)
  local y = x * 2
  y:add_(1):mul_(x):relu_():clamp_(0, 3)
  y[1] = 5
  y[{ {}, 2 }] = 0
  y[{ {}, { 3, 4 } }] = x[{ {}, { 1, 2 } }]
  local row = y[1]
  y:masked_fill_(y:gt(2), 9)
  return y, row, y + 1
end)
add("embedded_positions", function(x)
  return F.embedding(x:argmax(2), ml.arange(1, 24):view(6, 4):float())
end)

-- --- masks, and what else says by its elements how many there are -------------------------------

local mixed = function(batch) return { ml.randn(batch + 1, 4) } end
add("masked_reads", function(x)
  local m = x:gt(0)
  local rows = m:any(2)
  local y = x[m]
  return y, y * 2 + x[m], x:masked_select(m), x[rows], x[{ {}, ml.tensor { true, false, true, true } }],
    x[{ rows, 2 }], y:sum() / y.shape[1], y:view(-1, 1):expand(-1, 3), ml.cat { y, x[x:lt(-0.5)] }
end, mixed)
add("masked_writes", function(x)
  local m, y, z = x:gt(0), x * 1, x * 1
  y[m] = x[m] * 2
  z[m] = 5
  local w = x * 1
  w[{ x[{ {}, 1 }]:gt(0), 2 }] = 7
  return y, z, w, x:masked_scatter(m, x:flatten():flip(1)), x:masked_fill(m, 3)
end, mixed)
add("nonzero", function(x)
  local m = x:gt(0)
  local rows, columns = table.unpack(ml.where(m))
  return m:nonzero(), rows, columns, x[{ rows, columns }], ml.argwhere(m), m:nonzero { as_tuple = true }
end, mixed, { zero = { 1, 2, 3, 5, 6, 7 } })
add("unique", function(x)
  local values, inverse, counts = ml.unique(x, { return_inverse = true, return_counts = true })
  local runs, number, length = ml.unique_consecutive(x, { return_inverse = true, return_counts = true })
  return values, inverse, counts, runs, number, length, ml.unique(x, { dim = 2 }),
    ml.unique_consecutive(x, { dim = 2 }), ml.unravel_index(x:argmax(2), { 2, 3 })
end, function(batch) return { ml.randint(1, 4, { batch, 5 }):float() } end,
  { zero = { 2, 5, 9, 10 } })
add("repeated", function(x, times)
  return x:repeat_interleave(times, 1), ml.repeat_interleave(times)
end, function(batch) return { ml.randn(batch + 1, 3), ml.randint(0, 4, { batch + 1 }) } end,
  { dynamic = { { "batch" }, { "batch" } }, ids = { false, false }, zero = { 2 } })
add("counted", function(x)
  local i = x:flatten()
  return i:bincount(), i:bincount { minlength = 7 }, F.one_hot(x), F.one_hot(x, 9),
    x:float():histc(4, 1, 3), x:float():histc(3)
end, function(batch) return { ml.randint(batch + 2, { batch, 5 }) } end, { ids = { true } })
add("strided", function(x)
  return x:as_strided({ 2, 3 }, { 1, 2 }, 2), ml.fmax(x / 0, x * 0 / 0)
end, function() return { ml.randn(3, 4) } end, { dynamic = {} })
add("chosen", function(x)
  return ml.isin(x, ml.tensor { 1.0, 3 }), ml.searchsorted(ml.tensor { 1.0, 2, 4 }, x),
    ml.bucketize(x, ml.tensor { 1.0, 2, 4 }, { right = true }), x:isclose(ml.tensor(2.0))
end, function(batch) return { ml.randint(1, 5, { batch, 5 }):float() } end, { zero = { 2, 3 } })

local indexed = { dynamic = { { "batch" }, { "batch" } }, ids = { false, true } }
add("reduced_at", function(x, i)
  local base = ml.ones(x:size(1), 4)
  local out = {}
  for _, reduce in ipairs { "sum", "prod", "mean" } do
    out[#out + 1] = base:scatter_reduce(2, i, x, reduce)
    out[#out + 1] = base:scatter_reduce(2, i, x, reduce, { include_self = false })
    if reduce ~= "sum" then
      out[#out + 1] = base:index_reduce(2, ml.tensor { 2, 1, 2 }, x, reduce)
      out[#out + 1] = base:index_reduce(2, ml.tensor { 2, 1, 2 }, x, reduce, { include_self = false })
    end
  end
  out[#out + 1] = base:scatter(2, i, x, { reduce = "multiply" })
  out[#out + 1] = base:index_add(2, ml.tensor { 2, 1, 2 }, x, { alpha = 0.5 })
  return out
end, function(batch) return { ml.randn(batch, 3), ml.randint(4, { batch, 3 }) } end, indexed)
add("extremes_at", function(x, i)
  local base = ml.zeros(x:size(1), 4)
  local out = {}
  for _, reduce in ipairs { "amax", "amin" } do
    out[#out + 1] = base:scatter_reduce(2, i, x, reduce)
    out[#out + 1] = base:scatter_reduce(2, i, x, reduce, { include_self = false })
    out[#out + 1] = base:index_reduce(2, ml.tensor { 2, 1, 2 }, x, reduce)
    out[#out + 1] = base:index_reduce(2, ml.tensor { 2, 1, 2 }, x, reduce, { include_self = false })
  end
  return out, x:amax(1)
end, function(batch) return { ml.randn(batch, 3), ml.randint(4, { batch, 3 }) } end, indexed)
add("written_at", function(x)
  local y, z, w = x * 1, x * 1, x * 1
  y[{ {}, ml.tensor { 3, 1 } }] = ml.tensor { 5.0, 6 }:view(2, 1)
  z[{ ml.tensor { 1, 2 }, {}, ml.tensor { 4, 1 } }] = 9
  w:diagonal({ dim1 = 2, dim2 = 3 }):fill_(3)
  w:permute(3, 1, 2)[1] = 8
  return y, z, w, x[{ ml.tensor { 1, 2 }, {}, ml.tensor { 4, 1 } }], x:take_along_dim(x:argsort(2), 2)
end, function(batch) return { ml.randn(batch + 1, 3, 4) } end)
add("casts", function(x)
  return x:to(ml.float64) * 2, x:long(), x:int() + 1, x:bool(), x:half():float()
end)

-- --- matrices, order and numbers ---------------------------------------------------------------

add("determinants", function(x)
  x = x * 0.3 + ml.eye(3)
  local sign, log = ml.linalg.slogdet(x)
  return ml.linalg.det(x), sign, log, ml.logdet(x:matmul(x:transpose(2, 3)))
end, randn(3, 3))
add("distances", function(x)
  return ml.cdist(x, x + 1), ml.cdist(x, x + 1, { p = 1 }), ml.cdist(x, x + 1, { p = math.huge }),
    F.pdist(x[1]), ml.linalg.cross(x, x:flip(2)), ml.block_diag { x[1], x[1] * 2 },
    ml.diag_embed(x[{ {}, 1 }], { offset = 1 })
end, randn(4, 3))
add("ranks", function(x)
  local m, i = x:median(2)
  local k, j = x:kthvalue(2, 3)
  local a, b = x:cummax(2)
  local c, d = x:cummin(3)
  local y = ml.where(x:gt(0.5), 0 / 0, x)
  return m, i, k, j, a, b, c, d, x:logcumsumexp(2), y:nansum(2), x[1]:median(), y:nanmedian(2)
end, randn(5, 3), { zero = { 2, 4, 6, 8, 13 } })
add("more_functions", function(x)
  local y = x:flip(2)
  return ml.logaddexp(x, y), ml.logaddexp2(x, y), ml.xlogy(x, y:abs()), ml.copysign(x, y), x:signbit(),
    ml.heaviside(x, y), x:angle(), x:sigmoid():logit(0.2), ml.special.entr(x), ml.special.ndtr(x),
    F.soft_margin_loss(x, y:sign()), F.poisson_nll_loss(x, y:abs()), F.kl_div(x, y:abs(), { reduction = "batchmean" })
end)
add("bits", function(x)
  return x & 6, x | 1, x ~ 3, x << 2, x >> 1, x:any(2)
end, function(batch) return { ml.randint(-9, 9, { batch, 5 }) } end)

-- --- complex numbers ----------------------------------------------------------------------------

add("transforms", function(x)
  local y = ml.fft.rfft(x)
  local z = ml.fft.fft2(x)
  return y:abs(), ml.view_as_real(y), ml.view_as_real(z), ml.angle(z), ml.real(ml.fft.ifftn(z)),
    ml.fft.irfft(y * ml.complex(ml.ones(4), ml.ones(4) * 2), 7), ml.fft.hfft(x),
    ml.view_as_real(ml.fft.rfft(x, { n = 9, norm = "ortho" })), ml.fft.irfft2(ml.fft.rfft2(x)),
    ml.view_as_real(ml.fft.fftshift(ml.fft.fft(x, { dim = 1 }))),
    ml.view_as_real(ml.fft.fft(x:long())), ml.view_as_real(ml.fft.fft(x)[{ {}, ml.tensor { 2, 1 } }])
end, randn(3, 7))
add("spectrogram", function(x)
  local window = ml.hann_window(16)
  local y = ml.stft(x, 16, { hop_length = 4, window = window, return_complex = true })
  return y:abs() ^ 2, ml.istft(y * 2, 16, { hop_length = 4, window = window })
end, randn(64))
add("spectrogram_steps", function(x)
  local window = ml.hann_window(16)
  local y = ml.stft(x, 16, { hop_length = 5, window = window, return_complex = true })
  return y:abs(), ml.istft(y, 16, { hop_length = 5, window = window }), x:unfold(2, 7, 3)
end, function(batch) return { ml.randn(batch, 60 + 4 * batch) } end,
  { dynamic = { { "batch", "time" } } })
add("complex_numbers", function(x)
  local z = ml.view_as_complex(x)
  local w = z * z + 1 - 2 * z / ml.complex(1, 2)
  local parts = { w, z:matmul(w:t()), ml.cat({ z, ml.real(w) + 0 * z }, 1):sum(2), z[1], z:exp(), z:sgn(),
    ml.polar(ml.real(z):abs(), ml.imag(z)), z:conj(), z:reciprocal() }
  for i, part in ipairs(parts) do parts[i] = ml.view_as_real(part) end
  return parts
end, randn(4, 2))

-- --- pictures and attention -------------------------------------------------------------------

for _, mode in ipairs { "nearest", "nearest-exact", "bilinear", "bicubic" } do
  add("interpolate_" .. mode, function(x)
    return F.interpolate(x, { size = { 7, 9 }, mode = mode })
  end, randn(3, 4, 5))
end
add("interpolate", function(x)
  return F.interpolate(x, { size = { 7, 9 }, mode = "bilinear", align_corners = true }),
    F.interpolate(x, { scale_factor = 1.7, mode = "bilinear" }),
    F.interpolate(x, { size = { 2, 3 }, mode = "area" })
end, randn(3, 4, 6))
add("pixels", function(x)
  return F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2), F.channel_shuffle(x, 2)
end, randn(8, 4, 4))
add("borders", function(x)
  return F.pad(x, { 1, 2 }), F.pad(x, { 1, 1, 0, 2 }, "constant", 3), F.pad(x, { 1, 2 }, "reflect"),
    F.pad(x, { 1, 2 }, "replicate"), F.pad(x, { 1, 2 }, "circular"), F.pad(x, { -1, 0 })
end, randn(3, 4))
add("smoothed", function(x)
  return F.interpolate(x, { size = { 3, 4 }, mode = "bilinear", antialias = true }),
    F.interpolate(x, { size = { 3, 4 }, mode = "bicubic", antialias = true }), x:mean(2)
end, randn(2, 6, 7))
add("columns", function(x)
  return F.unfold(x, 3, { padding = 1, dilation = 2, stride = 2 }), F.unfold(x, { 2, 3 })
end, randn(2, 6, 7))
add("folded", function(x)
  return F.fold(F.unfold(x, 2), { 6, 7 }, 2), F.fold(x:view(-1, 4, 21), { 4, 8 }, 2), x:amax(2)
end, randn(2, 6, 7))
add("volumes", function(x)
  local grid = x[{ {}, {}, {}, {}, { 1, 3 } }]:clamp(-0.9, 0.9)
  return F.grid_sample(x, grid), x:amax(2),
    F.grid_sample(x[{ {}, {}, 1 }], grid[{ {}, 1, {}, {}, { 1, 2 } }])
end, randn(2, 4, 5, 6))
add("pooled_positions", function(x)
  local y, i = F.max_pool2d(x, { kernel_size = 2, return_indices = true })
  local z, j = F.adaptive_max_pool2d(x, 2, { return_indices = true })
  local o = { kernel_size = 4, stride = 3, padding = 1, ceil_mode = true }
  local a = F.avg_pool2d(x, o)
  o.count_include_pad = false
  local w, k = F.adaptive_max_pool2d(x, { 4, 5 }, { return_indices = true })
  return y, i, z, j, w, k, ml.avg_pool2d(x, 3, { 2 }), a, F.avg_pool2d(x, o)
end, randn(2, 6, 6), { zero = { 2, 4, 6 } })
add("attention", function(x, mask)
  local few = x[{ {}, { 1, 2 } }]
  return F.scaled_dot_product_attention(x, x, x),
    F.scaled_dot_product_attention(x, x, x, { attn_mask = mask }),
    F.scaled_dot_product_attention(x, x, x, { is_causal = true, scale = 0.3 }),
    F.scaled_dot_product_attention(x, few, few, { enable_gqa = true })
end, function(batch) return { ml.randn(batch, 4, 5, 8), ml.ones(5, 5):tril():bool() } end)

return functions
