-- tests/lua/nn/attention_dropout_test.lua: dropout inside attention, on the CPU and on CUDA: its masks, its
-- results and gradients beside those of the ops that it is made of with the same masks, transforms,
-- checkpoints, graphs, layers, memory, errors. What needs a device is skipped without.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local F, INF = ml.nn.functional, math.huge
local TOLERANCE = { float16 = 4e-3, bfloat16 = 3e-2, float32 = 2e-5, float64 = 1e-11 }
local FLOATS = { "float16", "bfloat16", "float32", "float64" }
local SEED = 11

local function on_cuda(name, body)
  test(name .. " on cuda", function()
    if not ml.cuda.is_available() then harness.skip "no CUDA device" end
    ml.manual_seed(7)
    body "cuda"
  end)
end

local function on_devices(name, body)
  test(name .. " on cpu", function() ml.manual_seed(7) body "cpu" end)
  on_cuda(name, body)
end

local function attend(q, k, v, options)
  ml.manual_seed(SEED)
  return F.scaled_dot_product_attention(q, k, v, options)
end

local function largest(x) return x:numel() == 0 and 0 or x:double():abs():max():item() end

local function near(what, got, want, tolerance)
  expect.equal(tostring(got.shape), tostring(want.shape), what)
  local off = largest(got:double():cpu() - want:double():cpu())
  expect.truthy(off <= tolerance * math.max(1, largest(want)), ("%s is off by %g"):format(what, off))
end

-- The masks of dropout that attention of those sizes draws with SEED: its rows begin with a block of four
-- numbers, so they are parts of those of a mask by itself.
local function masks(batch, l, s, p, device)
  local sizes = { table.unpack(batch) }
  sizes[#sizes + 1] = l
  sizes[#sizes + 1] = (s + 3) // 4 * 4
  ml.manual_seed(SEED)
  local kept = ml.dropout_mask(ml.zeros(sizes, { device = device }), p):narrow(-1, 1, s):gt(0):double()
  return p < 1 and kept / (1 - p) or kept
end

-- Attention as it is written, in float64; `mask` is added to the scores, `dropped` multiplies the weights.
local function plain(q, k, v, mask, dropped)
  local scores = q:double():matmul(k:double():transpose(-1, -2)) / math.sqrt(math.max(q:size(-1), 1)) + mask
  return (ml.softmax(scores, -1) * dropped):matmul(v:double())
end

local function leaves(list)
  local out = {}
  for i, x in ipairs(list) do out[i] = x:detach():clone():requires_grad_(true) end
  return out
end

-- Results and gradients with those tensors beside those as written.
local function agree(what, q, k, v, options, added, dropped)
  local tolerance = TOLERANCE[tostring(q.dtype)]
  local a, b = leaves { q, k, v }, leaves { q, k, v }
  local y, want = attend(a[1], a[2], a[3], options), plain(b[1], b[2], b[3], added, dropped)
  near(what, y, want, tolerance)
  local g = ml.randn_like(y)
  y:backward(g)
  want:backward(g:double())
  for i, name in ipairs { "query", "key", "value" } do
    near(what .. ", gradient of " .. name, a[i].grad, b[i].grad, 8 * tolerance)
  end
end

local function causal(l, s, device)
  return ml.zeros({ l, s }, { device = device, dtype = "float64" })
    :masked_fill(ml.ones({ l, s }, { device = device }):triu(1):bool(), -INF)
end

on_devices("an identity as values shows the mask, which is that of dropout", function(device)
  for _, dtype in ipairs(FLOATS) do
    local eye = ml.eye(24, { device = device, dtype = dtype }):expand(2, 24, 24)
    local q = ml.zeros({ 2, 40, 8 }, { device = device, dtype = dtype })
    local y = attend(q, eye:narrow(-1, 1, 8) * 0, eye, { dropout_p = 0.25 })
    near("mask of " .. dtype, y:double() * 24, masks({ 2 }, 40, 24, 0.25, device), TOLERANCE[dtype])
  end
end)

test("a seed drops the same on both devices", function()
  if not ml.cuda.is_available() then harness.skip "no CUDA device" end
  for _, s in ipairs { 1, 30, 64, 203 } do
    local q, k, v = ml.randn(3, 2, 70, 8), ml.randn(3, 2, s, 8), ml.randn(3, 2, s, 8)
    local y = attend(q, k, v, { dropout_p = 0.4 })
    near("result of " .. s, attend(q:cuda(), k:cuda(), v:cuda(), { dropout_p = 0.4 }), y, 2e-5)
    expect.truthy(largest(y - attend(q, k, v, {})) > 1e-2, "something is dropped")
  end
end)

on_devices("the expectation, and as many zeros as asked for", function(device)
  for _, p in ipairs { 0.1, 0.5, 0.9 } do
    local o = { device = device }
    local y = attend(ml.zeros({ 8, 128, 4 }, o), ml.zeros({ 8, 128, 4 }, o), ml.eye(128, o):expand(8, 128, 128),
      { dropout_p = p }) * 128
    local n = y:numel()
    local zeros = y:eq(0):double():sum():item()
    expect.truthy(math.abs(zeros - n * p) < 5 * math.sqrt(n * p * (1 - p)), ("%g zeros for %g"):format(zeros / n, p))
    near("what stays", y:max(), ml.tensor(1 / (1 - p)), 1e-5)
    expect.truthy(math.abs(y:mean():item() - 1) < 5 * math.sqrt(p / (1 - p) / n), "the mean")
  end
end)

on_devices("p of 0 and of 1", function(device)
  for _, dtype in ipairs(FLOATS) do
    local a = leaves { ml.randn({ 2, 35, 8 }):to(device):to(dtype), ml.randn({ 2, 70, 8 }):to(device):to(dtype),
      ml.randn({ 2, 70, 8 }):to(device):to(dtype) }
    ml.manual_seed(3)
    local before = ml.rand(4)
    ml.manual_seed(3)
    local y = F.scaled_dot_product_attention(a[1], a[2], a[3], { dropout_p = 0 })
    expect.truthy(ml.rand(4):equal(before), "nothing is drawn")
    expect.truthy(y:equal(F.scaled_dot_product_attention(a[1], a[2], a[3])), "the bits of attention without")
    local none = F.scaled_dot_product_attention(a[1], a[2], a[3], { dropout_p = 1 })
    none:sum():backward()
    for _, x in ipairs { none, a[1].grad, a[2].grad, a[3].grad } do expect.equal(largest(x), 0.0) end
  end
end)

local SIZES = { { 1, 1 }, { 15, 17 }, { 64, 64 }, { 65, 33 }, { 1, 129 }, { 129, 3 }, { 130, 300 } }

on_devices("lengths around the borders of tiles, in every dtype, causal too", function(device)
  for _, dtype in ipairs(FLOATS) do
    for _, size in ipairs(SIZES) do
      local l, s = table.unpack(size)
      local function draw(rows) return ml.randn(2, 2, rows, 12):to(device):to(dtype) end
      local q, k, v = draw(l), draw(s), draw(s)
      local dropped = masks({ 2, 2 }, l, s, 0.3, device)
      local what = ("%s of %d, %d"):format(dtype, l, s)
      agree(what, q, k, v, { dropout_p = 0.3 }, 0, dropped)
      agree(what .. ", causal", q, k, v, { dropout_p = 0.3, is_causal = true }, causal(l, s, device), dropped)
    end
  end
end)

on_devices("head sizes, in every dtype", function(device)
  for _, dtype in ipairs(FLOATS) do
    for _, size in ipairs { { 1, 1 }, { 33, 31 }, { 64, 64 }, { 96, 80 }, { 128, 32 }, { 192, 192 }, { 256, 24 },
      { 300, 20 }, { 20, 300 } } do
      local e, v = table.unpack(size)
      local function draw(rows, columns) return ml.randn(2, rows, columns):to(device):to(dtype) end
      agree(("%s of heads %d, %d"):format(dtype, e, v), draw(18, e), draw(35, e), draw(35, v), { dropout_p = 0.5 }, 0,
        masks({ 2 }, 18, 35, 0.5, device))
    end
  end
end)

on_devices("masks, keys in ranges, shared heads, tensors that broadcast", function(device)
  local function draw(...) return ml.randn(...):to(device) end
  local q, k, v = draw(3, 2, 35, 12), draw(3, 2, 70, 12), draw(3, 2, 70, 10)
  local dropped = masks({ 3, 2 }, 35, 70, 0.3, device)
  for _, shape in ipairs { { 35, 70 }, { 1, 70 }, { 3, 1, 35, 70 }, { 1, 1, 1, 70 } } do
    local seen = ml.rand(shape):to(device):gt(0.3)
    local hidden = ml.zeros_like(seen, { dtype = "float64" }):masked_fill(seen:logical_not(), -INF)
    agree("bools", q, k, v, { attn_mask = seen, dropout_p = 0.3 }, hidden, dropped)
    local added = draw(shape)
    agree("numbers", q, k, v, { attn_mask = added, dropout_p = 0.3 }, added:double(), dropped)
  end
  for _, size in ipairs { { 1, 1000 }, { 16, 577 } } do
    local l, s = table.unpack(size)
    agree("few queries", draw(2, l, 20), draw(2, s, 20), draw(2, s, 12), { dropout_p = 0.3 }, 0,
      masks({ 2 }, l, s, 0.3, device))
  end
  agree("keys for all", draw(2, 3, 19, 16), draw(20, 16), draw(2, 1, 20, 12), { dropout_p = 0.3 }, 0,
    masks({ 2, 3 }, 19, 20, 0.3, device))
  local shared = { draw(2, 6, 19, 16), draw(2, 2, 37, 16), draw(2, 2, 37, 16) }
  local function of(heads)
    local a = leaves(shared)
    local y = heads(a[1], a[2], a[3])
    y:square():sum():backward()
    return { y, a[1].grad, a[2].grad, a[3].grad }
  end
  local got = of(function(a, b, c) return attend(a, b, c, { dropout_p = 0.3, enable_gqa = true }) end)
  local want = of(function(a, b, c)
    return attend(a, b:repeat_interleave(3, 2), c:repeat_interleave(3, 2), { dropout_p = 0.3 })
  end)
  for i = 1, 4 do near("grouped " .. i, got[i], want[i], 1e-4) end
end)

on_devices("batches of many dimensions", function(device)
  local function draw(...) return ml.randn(...):to(device) end
  local q, k, v = draw(2, 2, 3, 2, 2, 5, 8), draw(2, 1, 3, 1, 2, 9, 8), draw(3, 2, 2, 9, 4)
  agree("with dropout", q, k, v, { dropout_p = 0.3 }, 0, masks({ 2, 2, 3, 2, 2 }, 5, 9, 0.3, device))
  local seen = draw(2, 1, 3, 2, 1, 5, 1)
  agree("with a mask", q, k, v, { attn_mask = seen }, seen:double(), 1)
end)

on_devices("without columns, keys, queries or a batch", function(device)
  for _, sizes in ipairs { { 2, 3, 0, 4, 4 }, { 2, 3, 5, 4, 0 }, { 2, 0, 5, 4, 4 }, { 0, 3, 5, 4, 4 }, { 2, 3, 5, 0, 4 } } do
    local b, l, s, e, v = table.unpack(sizes)
    local a = leaves { ml.ones(b, l, e):to(device), ml.ones(b, s, e):to(device), ml.ones(b, s, v):to(device) }
    local y = attend(a[1], a[2], a[3], { dropout_p = 0.5, scale = 1.0 })
    expect.equal(tostring(y.shape), ("(%d, %d, %d)"):format(b, l, v))
    y:sum():backward()
    if s == 0 then expect.equal(largest(y), 0.0) end
  end
end)

on_devices("gradients of masks, second derivatives and tangents", function(device)
  local o = { device = device, dtype = "float64" }
  local q, k, v, bias = ml.randn({ 2, 5, 4 }, o), ml.randn({ 2, 6, 4 }, o), ml.randn({ 2, 6, 3 }, o), ml.randn({ 5, 6 }, o)
  local dropped = masks({ 2 }, 5, 6, 0.4, device)
  local function fused(a, b, c, m) return attend(a, b, c, { dropout_p = 0.4, attn_mask = m }):square():sum() end
  local function written(a, b, c, m) return plain(a, b, c, m, dropped):square():sum() end
  local function derivatives(f)
    local a = leaves { q, k, v, bias }
    local first = { ml.grad(f(table.unpack(a)), a, { create_graph = true }) }
    local sum = 0
    for _, g in ipairs(first) do sum = sum + g:square():sum() end
    local second = { ml.grad(sum, a) }
    local _, tangent = ml.func.jvp(function(x) return f(x, k, v, bias) end, { q }, { ml.ones_like(q) })
    local _, over = ml.func.jvp(ml.func.grad(function(x) return f(x, k, v, bias) end), { q }, { ml.ones_like(q) })
    return { first[1], first[2], first[3], first[4], second[1], second[2], second[3], second[4], tangent, over,
      ml.func.grad(f)(q, k, v, bias) }
  end
  local got, want = derivatives(fused), derivatives(written)
  for i, w in ipairs(want) do near("derivative " .. i, got[i], w, 1e-10) end
end)

on_devices("vmap draws for each sample, once for all, or not at all", function(device)
  local q, k = ml.randn(3, 2, 5, 4):to(device), ml.randn(2, 6, 4):to(device)
  local function mapped(randomness, f, ...)
    ml.manual_seed(SEED)
    return ml.func.vmap(f or function(x) return F.scaled_dot_product_attention(x, k, k, { dropout_p = 0.5 }) end,
      { randomness = randomness })(...)
  end
  near("different", mapped("different", nil, q), plain(q, k, k, 0, masks({ 3, 2 }, 5, 6, 0.5, device)), 2e-5)
  near("same", mapped("same", nil, q), plain(q, k, k, 0, masks({ 2 }, 5, 6, 0.5, device)), 2e-5)
  expect.error(function() mapped("error", nil, q) end, "random numbers inside vmap")
  -- What is the same for all samples but drawn for each.
  local unbatched = mapped("different", function(x)
    return F.scaled_dot_product_attention(k, k, k, { dropout_p = 0.5 }) + x
  end, ml.zeros({ 3 }, { device = device }))
  near("of the same", unbatched, plain(k, k, k, 0, masks({ 3, 2 }, 6, 6, 0.5, device)), 2e-5)
  -- Gradients of each sample, and a Jacobian, whose rows share the masks.
  local function loss(x) return F.scaled_dot_product_attention(x, k, k, { dropout_p = 0.5 }):square():sum() end
  local x = leaves { q }[1]
  plain(x, k, k, 0, masks({ 3, 2 }, 5, 6, 0.5, device)):square():sum():backward()
  near("gradients", mapped("different", ml.func.grad(loss), q), x.grad, 1e-4)
  local function y_of(z) return attend(z, k, k, { dropout_p = 0.5 }) end
  local jacobian = ml.func.jacrev(y_of)(q[1])
  local forward = ml.func.jacfwd(y_of, { randomness = "same" })(q[1])
  near("jacobians", jacobian, forward, 1e-5)
end)

on_devices("the generator's seed, its state, another draw", function(device)
  local q = ml.randn(2, 20, 8):to(device)
  local first = attend(q, q, q, { dropout_p = 0.5 })
  expect.truthy(not F.scaled_dot_product_attention(q, q, q, { dropout_p = 0.5 }):equal(first), "the next draw")
  expect.truthy(attend(q, q, q, { dropout_p = 0.5 }):equal(first), "the same seed")
end)

on_devices("a checkpoint drops the same when it computes again", function(device)
  local q = ml.randn(2, 20, 8):to(device)
  local function gradient(run)
    local x = leaves { q }[1]
    ml.manual_seed(SEED)
    run(function(z) return F.scaled_dot_product_attention(z, z, z, { dropout_p = 0.5 }) end, x):square():sum():backward()
    return x.grad
  end
  local direct = gradient(function(f, x) return f(x) end)
  expect.truthy(gradient(ml.utils.checkpoint):equal(direct))
end)

on_devices("compiled functions draw as they do op by op", function(device)
  local q = ml.randn(2, 20, 8):to(device)
  local function f(x) return F.scaled_dot_product_attention(x, x, x, { dropout_p = 0.5 }) * 2 end
  local fast = ml.compile(f)
  ml.manual_seed(SEED)
  local first, second = f(q), f(q)
  ml.manual_seed(SEED)
  expect.truthy(fast(q):equal(first) and fast(q):equal(second))
end)

on_cuda("a graph draws anew at each replay, and its gradients with it", function(device)
  local o = { device = device }
  local v = ml.eye(32, o):expand(2, 32, 32):clone():requires_grad_(true)
  local q = ml.zeros({ 2, 32, 8 }, o)
  local function step()
    local y = F.scaled_dot_product_attention(q, q, v, { dropout_p = 0.5 })
    return y, (ml.grad(y:sum(), v))
  end
  step()
  local graph, y, gradient = ml.cuda.graph(step)
  local seen = {}
  for i = 1, 3 do
    graph:replay()
    seen[i] = y:clone()
    -- The gradient of a value is the sum of the weights that it had.
    near("gradient of replay " .. i, gradient, y:sum(2):unsqueeze(3):expand(2, 32, 32), 1e-5)
    for j = 1, i - 1 do expect.truthy(not seen[i]:equal(seen[j]), "replays differ") end
  end
end)

on_devices("layers drop in training alone", function(device)
  local nn = ml.nn
  local x = ml.randn(2, 12, 16):to(device)
  local layer = nn.TransformerEncoderLayer(16, 2, { dim_feedforward = 16, dropout = 0.5, batch_first = true }):to(device)
  local attention = nn.MultiheadAttention(16, 2, { dropout = 0.5, batch_first = true }):to(device)
  local o = { need_weights = false }
  local function twice(f)
    ml.manual_seed(1)
    local a, b = f(), f()
    ml.manual_seed(1)
    expect.truthy(f():equal(a), "the seed says what is dropped")
    return a:equal(b)
  end
  local function heads() return (attention(x, x, x, o)) end
  local function block() return layer(x) end
  expect.equal({ twice(heads), twice(block) }, { false, false })
  layer:eval()
  attention:eval()
  expect.equal({ twice(heads), twice(block) }, { true, true })
end)

test("memory grows with the length, not with its square, on cpu", function()
  local l = 2048
  for _, dtype in ipairs { "float32", "float64" } do
    local q = ml.randn({ 1, l, 8 }, { dtype = dtype }):requires_grad_(true)
    local peak = ml.memory.peak_live_bytes(function()
      F.scaled_dot_product_attention(q, q, q, { dropout_p = 0.3 }):sum():backward()
    end) - ml.memory.live_bytes()
    expect.truthy(peak < l * l * 4 / 4, ("%d bytes more at the peak"):format(peak))
  end
  local layer = ml.nn.TransformerEncoderLayer(16, 2, { dim_feedforward = 16, dropout = 0.1, batch_first = true })
  local x = ml.randn(1, l, 16)
  local peak = ml.memory.peak_live_bytes(function() layer(x):sum():backward() end) - ml.memory.live_bytes()
  -- The weights of a head would be as much.
  expect.truthy(peak < l * l * 4, ("%d bytes more at the peak of a layer"):format(peak))
end)

on_cuda("memory grows with the length, not with its square,", function(device)
  local l = 1024
  local q = ml.randn({ 1, l, 8 }, { device = device }):requires_grad_(true)
  collectgarbage()
  local before = ml.cuda.memory_allocated()
  ml.cuda.reset_peak_memory_stats()
  F.scaled_dot_product_attention(q, q, q, { dropout_p = 0.3, is_causal = true }):sum():backward()
  local peak = ml.cuda.max_memory_allocated() - before
  expect.truthy(peak <= 26 * l * 8 * 4, ("%d bytes more at the peak"):format(peak))
end)

test("probabilities that are none, and states that do not fit", function()
  local x = ml.ones(1, 2)
  for _, p in ipairs { -0.1, 1.5, 0 / 0, INF } do
    expect.error(function() ml.scaled_dot_product_attention(x, x, x, nil, p) end,
      "scaled_dot_product_attention: dropout_p is .*a probability is expected")
    expect.error(function() F.scaled_dot_product_attention(x, x, x, { dropout_p = p }) end, "dropout_p")
    expect.error(function() ml.scaled_dot_product_attention(ml.ones(1, 2, 1, 2), ml.ones(1, 1, 1, 2), ml.ones(1, 1, 1, 2),
      nil, p, false, nil, true) end, "dropout_p is .*a probability is expected")
  end
  local flash = ml._internal.flash_attention
  local q = ml.ones(2, 3, 4)
  local states = ml._internal.random_states(ml.zeros(2), 12)
  expect.equal(tostring(states.shape), "(2, 1, 2)")
  expect.error(function() flash(q, q, q, nil, false, 1, 0.5) end, "dropout_p is 0.5 without states")
  local other = ml._internal.random_states(ml.zeros(3), 12)
  expect.error(function() flash(q, q, q, nil, false, 1, 0.5, states:float()) end,
    "float32 %(2, 1, 2%); int64 %(%*, 1, 2%) expected")
  expect.error(function() flash(q, q, q, nil, false, 1, 0.5, other) end, "flash_attention: ")
  expect.error(function() flash(q, q, q, nil, false, 1, 2, states) end, "p = 2 is not between 0 and 1")
  expect.error(function() ml._internal.random_states(q, -1) end, "n = %-1; 0 or more expected")
  expect.error(function() ml._internal.random_states(ml.zeros(1):expand(1 << 40), 1 << 40) end, "random_states")
  expect.error(function() ml._internal.dropout_rows(states, 0.5, 0, 3, 5, 4, ml.float32) end, "5 of 4 columns")
end)

harness.run()
