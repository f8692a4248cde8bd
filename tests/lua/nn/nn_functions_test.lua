-- tests/lua/nn/nn_functions_test.lua: functions of networks where the samples of their rows do not
-- reach: draws, changes in place, mixed precision, edges and errors; numbers are PyTorch's.

local here = arg[0]:match("^(.*)/") or "."
package.path = here .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local F = ml.nn.functional

local INF, NAN = math.huge, 0 / 0

local function leaf(values) return ml.tensor(values, { requires_grad = true }) end

local function is_nan(x) return x ~= x end

test("hardswish and the shrinking activations at infinity and NaN", function()
  local x = ml.tensor { -INF, INF, NAN }
  local y = F.hardswish(x):totable()
  expect.truthy(is_nan(y[1]) and y[2] == INF and is_nan(y[3]))
  for _, f in ipairs { F.softshrink, F.hardshrink } do
    y = f(x):totable()
    expect.truthy(y[1] == -INF and y[2] == INF and is_nan(y[3]))
  end
  local z = leaf { 0.5, -0.5, 1.0 }
  expect.equal(ml.grad(F.softshrink(z):sum(), z):totable(), { 0.0, 0.0, 1.0 })
  expect.error(function() ml.softshrink(x, -1) end, "lambd is %-1")
end)

test("prelu has PyTorch's gradient at 0 and at infinity", function()
  local z, gradient = leaf { 0.0, -INF, INF, -2.0 }, leaf { 0.25 }
  local gz, gs = ml.grad(F.prelu(z, gradient):sum(), { z, gradient })
  expect.equal(gz:totable(), { 0.25, 0.25, 1.0, 0.25 })
  expect.equal(gs:totable(), { -INF })
  expect.error(function() F.prelu(ml.ones(2, 3), ml.ones(2)) end, "one for each channel")
end)

test("rrelu draws gradients between its bounds", function()
  local x = ml.full({ 1000 }, -1.0)
  local y = F.rrelu(x, 0.25, 0.5, true)
  expect.truthy(y:le(-0.25):all():item() and y:ge(-0.5):all():item())
  expect.near(y:mean():item(), -0.375, 0.02)
  expect.equal(F.rrelu_(x, 0.5, 0.5), x)
  expect.equal(x[1]:item(), -0.5)
  expect.error(function() F.rrelu(x, 0.5, 0.25) end, "lower is 0.5")
end)

test("alpha_dropout keeps mean and variance", function()
  ml.manual_seed(3)
  local x = ml.randn(20000)
  local y = F.alpha_dropout(x, 0.3, true)
  expect.near(y:mean():item(), 0, 0.05)
  expect.near(y:std():item(), 1, 0.05)
  expect.equal(F.alpha_dropout(x, 0.3), x)
  expect.equal(F.alpha_dropout(ml.ones(3), 1.0, true):totable(), { 0.0, 0.0, 0.0 })
end)

test("channels drop as a whole", function()
  ml.manual_seed(4)
  for name, size in pairs { dropout1d = { 8, 16, 5 }, dropout2d = { 8, 16, 3, 2 },
    dropout3d = { 8, 16, 2, 2, 2 }, feature_alpha_dropout = { 8, 16, 5 } } do
    local y = F[name](ml.ones(size), 0.5, true):reshape(8, 16, -1)
    expect.truthy(y:eq(y:narrow(3, 1, 1)):all():item(), name)
    expect.truthy(y:ne(y[1][1][1]):any():item(), name)
  end
  local single = F.dropout1d(ml.ones(64, 3), 0.5)
  expect.equal(tostring(single.shape), "(64, 3)")
  expect.truthy(single:eq(single:narrow(2, 1, 1)):all():item())
  local x = ml.ones(64, 3)
  expect.equal(F.dropout1d(x, { p = 0.5, inplace = true }), x)
  expect.truthy(x:eq(0):any():item() and x:eq(2):any():item())
  expect.error(function() F.dropout1d(ml.ones(3)) end, "'input' has shape")
  expect.error(function() ml.feature_dropout(ml.ones(3), 0.5, true) end, "%(n, c, %.%.%.%) is expected")
end)

test("gumbel_softmax is one hot with the gradient of the soft draw", function()
  local logits = ml.randn { 6, 5, dtype = ml.float64, requires_grad = true }
  local weights = ml.randn { 6, 5, dtype = ml.float64 }
  local function draw(hard)
    ml.manual_seed(9)
    local y = F.gumbel_softmax(logits, 0.7, hard)
    return y, ml.grad((y * weights):sum(), logits)
  end
  local soft, soft_gradient = draw(false)
  local hard, hard_gradient = draw(true)
  expect.near(soft:sum(2):totable(), ml.ones(6):totable(), 1e-9)
  expect.near(hard:amax(2):totable(), ml.ones(6):totable(), 1e-9)
  expect.near(hard:sum(2):totable(), ml.ones(6):totable(), 1e-9)
  expect.equal(hard:argmax(2):totable(), soft:argmax(2):totable())
  expect.near(hard_gradient:totable(), soft_gradient:totable(), 1e-12)
  expect.error(function() ml.gumbel_softmax(logits, 0) end, "tau is 0")
end)

test("softmax converts first with a dtype", function()
  local x = ml.tensor { 1, 2, 3 }
  expect.equal(ml.softmax(x, 1, "float64").dtype, "float64")
  expect.equal(x:log_softmax(1, ml.float32).dtype, "float32")
end)

test("norms of 16 bits take float32 weights", function()
  local w, b = ml.tensor { 0.5, 1.5, -1.0 }, ml.tensor { 0.1, 0.2, 0.3 }
  local x = ml.linspace(-2, 2, 6):reshape(2, 3)
  local wanted = { layer = { -0.5122, 0.1996, -0.9248, -0.5122, 0.2003, -0.9248 },
    train = { -0.3999, -1.2998, 1.2998, 0.6001, 1.7002, -0.7002 },
    eval = { -1.3848, -1.5146, 1.0, 0.3120, 1.4248, -1.4004 } }
  for dtype, tolerance in pairs { float16 = 2e-3, bfloat16 = 2e-2 } do
    local h = x:to(dtype)
    local y = { layer = F.layer_norm(h, { 3 }, w, b),
      train = F.batch_norm(h, b:clone(), w:abs(), w, b, true),
      eval = F.batch_norm(h, b:clone(), w:abs(), w, b) }
    for name, values in pairs(wanted) do
      expect.equal(y[name].dtype, dtype)
      expect.near(y[name]:float():reshape(-1):totable(), values, tolerance, name)
    end
    expect.equal(F.group_norm(h, 1, w, b).dtype, dtype)
    expect.equal(F.rms_norm(h, { 3 }, w).dtype, dtype)
    local weight = w:clone():requires_grad_(true)
    expect.equal(ml.grad(F.layer_norm(h, { 3 }, weight, b):sum(), weight).dtype, "float32")
  end
  expect.error(function() F.layer_norm(x, { 3 }, w:double()) end, "weight is float64 and x float32")
  expect.error(function() F.batch_norm(x, w:half(), b, nil, nil, true) end, "running_mean is float16")
end)

test("gradients of softmax over rows of 16-bit floats", function()
  for _, n in ipairs { 1, 7, 8, 9, 33, 1000 } do
    for dtype, eps in pairs { bfloat16 = 2 ^ -8, float16 = 2 ^ -11 } do
      local x, g = ml.randn(3, n):to(dtype), ml.randn(3, n):to(dtype)
      for _, f in ipairs { F.softmax, F.log_softmax } do
        local narrow, wide = x:detach():requires_grad_(), x:double():requires_grad_()
        local want = ml.grad(f(wide, 2), wide, g:double())
        expect.truthy(ml.allclose(ml.grad(f(narrow, 2), narrow, g):double(), want, 4 * eps, 8 * eps), dtype .. n)
      end
    end
  end
end)

test("rms_norm gives the same whether gradients are expected or not", function()
  for _, dtype in ipairs { "float32", "float64", "bfloat16", "float16" } do
    local x = ml.randn(5, 3, 37):to(dtype)
    x[2] = 0
    for _, each in ipairs { x, x:transpose(1, 2), x["::2"] } do
      local recorded = F.rms_norm(each:detach():requires_grad_(true), { 37 }):detach()
      expect.truthy(ml.allclose(F.rms_norm(each, { 37 }), recorded, dtype:find "16" and 1e-2 or 1e-6), dtype)
    end
    expect.equal(F.rms_norm(x["1:0"], { 37 }):numel(), 0)
  end
end)

test("instance_norm moves its running statistics", function()
  local x = (ml.arange(12):float() - 1):pow(1.5):reshape(2, 3, 2)
  local mean, var = ml.tensor { 1.0, 2.0, 3.0 }, ml.tensor { 1.0, 0.5, 2.0 }
  F.instance_norm(x, mean, var, { momentum = 0.3 })
  expect.near(mean:totable(), { 3.2662897, 5.7238998, 8.6464491 }, 1e-5)
  expect.near(var:totable(), { 1.8713341, 2.2044206, 3.9301319 }, 1e-5)
  expect.error(function() F.instance_norm(ml.ones(2, 3, 1)) end, "one value in a channel")
  expect.error(function() F.group_norm(ml.ones(1, 4), 4) end, "one value in a group")
  expect.error(function() F.group_norm(ml.ones(2, 4), 3) end, "4 channels make no 3 groups")
  expect.error(function() F.local_response_norm(ml.ones(2, 4), 3) end, "%(n, c, l, %.%.%.%) is expected")
end)

test("embedding divides gradients by frequency and limits rows", function()
  local w = ml.tensor({ { 1.0, 2.0 }, { 3.0, 4.0 }, { 5.0, 6.0 } }, { requires_grad = true })
  local y = F.embedding(ml.tensor { 1, 3, 3 }, w, { scale_grad_by_freq = true })
  local g = ml.grad((y * ml.tensor { { 1.0, 2.0 }, { 3.0, 4.0 }, { 5.0, 6.0 } }):sum(), w)
  expect.equal(g:totable(), { { 1.0, 2.0 }, { 0.0, 0.0 }, { 4.0, 5.0 } })
  local bags = F.embedding_bag(ml.tensor { 1, 3, 3 }, w, ml.tensor { 1, 2 }, { scale_grad_by_freq = true })
  expect.equal(ml.grad(bags:sum(), w):totable(), { { 1.0, 1.0 }, { 0.0, 0.0 }, { 0.5, 0.5 } })
  F.embedding(ml.tensor { 2 }, w, { max_norm = 1.0 })
  expect.near(w:detach()[2]:totable(), { 0.6, 0.8 }, 1e-5)
  expect.equal(w:detach()[3]:totable(), { 5.0, 6.0 })
end)

test("bags may be empty and are checked", function()
  local w, none = ml.ones(3, 2), ml.zeros { 0, dtype = "int64" }
  local zeros = { { 0.0, 0.0 }, { 0.0, 0.0 } }
  for _, mode in ipairs { "sum", "mean", "max" } do
    expect.equal(F.embedding_bag(none, w, ml.tensor { 1, 1 }, { mode = mode }):totable(), zeros)
  end
  local i = ml.tensor { 1, 2, 3 }
  local function bag(offsets, options)
    return function() F.embedding_bag(i, w, ml.tensor(offsets), options or {}) end
  end
  expect.error(bag { 2, 3 }, "the first of offsets is 2")
  expect.error(bag { 1, 3, 2 }, "offsets must not fall")
  expect.error(bag { 1, 9 }, "offsets has 9 for 3 indices")
  expect.error(bag({ 1 }, { mode = "min" }), "mode is \"min\"")
  expect.error(bag({ 1 }, { per_sample_weights = ml.ones(3) }), "belong to the mode \"sum\"")
  expect.error(function() F.embedding_bag(ml.tensor { 4 }, w, ml.tensor { 1 }) end, "out of range")
  expect.error(function() F.embedding_bag(i, w) end, "with 'offsets'")
end)

test("losses at their edges", function()
  local a = leaf { 1.0, 2.0 }
  local loss = F.margin_ranking_loss(a, ml.tensor { 1.0, 2.0 }, ml.ones(2), { reduction = "sum" })
  expect.equal(ml.grad(loss, a):totable(), { 0.0, 0.0 })
  expect.near(F.multilabel_margin_loss(ml.tensor { 0.1, 0.2, 0.4, 0.8 }, ml.tensor { 4, 1, 0, 2 }):item(),
    0.85, 1e-6)
  expect.near(F.poisson_nll_loss(ml.tensor { 1.0, 2.0 }, ml.tensor { 3, 0 }, { full = true }):item(),
    4.4357, 1e-4)
  expect.near(F.soft_margin_loss(ml.tensor { -200.0 }, ml.ones(1)):item(), 200, 1e-4)
  local bytes = ml.tensor({ 1, 5 }, { dtype = "uint8" })
  expect.near(F.gaussian_nll_loss(bytes, ml.tensor { 1.5, 2.5 }, 0.6):item(), 2.4529, 1e-4)
  local var = leaf { 1e-9, 2.0 }
  loss = F.gaussian_nll_loss(ml.tensor { 1.0, 2.0 }, ml.tensor { 1.0, 3.0 }, var)
  local g = ml.grad(loss, var):totable()
  expect.near({ g[1] / 2.5e5, g[2] }, { 1, 0.0625 }, 1e-5)
  local scores = ml.arange(8):float():sub(1):reshape(1, 2, 2, 1, 2)
  local classes = ml.tensor { { { { 1, 2 } }, { { 2, 2 } } } }
  expect.equal(F.nll_loss(scores, classes, { reduction = "none" }):reshape(-1):totable(),
    { 0.0, -5.0, -6.0, -7.0 })
  local target = ml.tensor({ 3 }, { dtype = "uint8" })
  expect.near(F.cross_entropy(ml.tensor { { 1.0, 2.0, 3.0 } }, target):item(), 0.4076, 1e-4)
  expect.near(F.nll_loss(ml.tensor { { 1.0, 2.0, 3.0 } }, target):item(), -3, 1e-6)
end)

test("gradients of losses at their edges", function()
  local x, t = leaf { 0, 1, 0.5, 0.0 }, leaf { 1, 0, 0.25, 0 }
  local gx, gt = ml.grad(F.binary_cross_entropy(x, t, nil, "sum"), { x, t })
  expect.truthy((gx - ml.tensor { -1e12, 1e12, 1, 0.0 }):abs():amax():item() <= 1e6)
  expect.equal(gt:totable(), { INF, -INF, 0.0, INF })
  for _, case in ipairs {
    { F.smooth_l1_loss, { 1, -1, 0, NAN, 1 } }, { F.huber_loss, { 1, -1, 0, NAN, 1 } },
    { F.l1_loss, { 1, -1, 0, 0, 1 } }, { F.mse_loss, { 2, -4, 0, NAN, INF } },
  } do
    local z = leaf { 1, -2, 0, NAN, INF }
    local gradients = ml.grad(case[1](z, ml.zeros(5), { reduction = "sum" }), z):totable()
    for i, want in ipairs(case[2]) do
      expect.truthy(gradients[i] == want or is_nan(want) and is_nan(gradients[i]), i .. ": " .. gradients[i])
    end
  end
  local mean, variance = leaf { 0.1, 0.2 }, leaf { 0.001, 0.5 }
  local gm, gv = ml.grad(F.gaussian_nll_loss(mean, ml.tensor { 0.3, 0.1 }, variance, { eps = 0.01, reduction = "sum" }),
    { mean, variance })
  expect.truthy((gm - ml.tensor { -20, 0.2 }):abs():amax():item() < 1e-4)
  expect.truthy((gv - ml.tensor { -150, 0.98 }):abs():amax():item() < 1e-3)
  expect.error(function() F.gaussian_nll_loss(mean, mean, ml.tensor { NAN, -1 }) end, "negative")
end)

test("losses name what is wrong", function()
  local x, y = ml.ones(2, 3), ml.ones(3)
  expect.error(function() F.mse_loss(x, x, { weight = y }) end, "the weight has shape %(3,%)")
  expect.error(function() F.gaussian_nll_loss(x, x, -y) end, "var has")
  expect.error(function() F.gaussian_nll_loss(x, x, -x) end, "negative")
  expect.error(function() F.cosine_embedding_loss(x, x, x) end, "the target has shape %(2, 3%)")
  expect.error(function() F.multi_margin_loss(x, ml.tensor { 1, 4 }) end, "out of range")
  expect.error(function() F.multi_margin_loss(x, ml.tensor { 1 }) end, "the target has shape %(1,%)")
  expect.error(function() F.multilabel_margin_loss(x, ml.tensor { 1, 2 }) end, "the target has shape")
  expect.error(function() F.triplet_margin_loss(x, x, y) end, "as many dimensions each")
  expect.error(function() F.triplet_margin_with_distance_loss(x, x, y) end, "2, 2 and 1 dimensions")
  expect.error(function() F.bilinear(x, x, ml.ones(2, 3, 4)) end, "weight has shape %(2, 3, 4%)")
end)

test("a distance of one's own", function()
  local function distance(a, b) return (a - b):abs():sum(-1) end
  local a, p, n = ml.zeros(2, 3), ml.ones(2, 3), ml.full({ 2, 3 }, 1.5)
  expect.near(F.triplet_margin_with_distance_loss(a, p, n, { distance_function = distance, margin = 2 }):item(),
    0.5, 1e-6)
end)

test("ctc_loss as PyTorch's, with lengths as tensors, lists or numbers", function()
  local raw = (ml.arange(24):float() - 1):mul(0.37):sin():reshape(4, 2, 3):requires_grad_(true)
  local lp, targets = raw:log_softmax(3), ml.tensor { { 2, 3 }, { 2, 2 } }
  local inputs, lengths = ml.tensor { 4, 3 }, ml.tensor { 2, 1 }
  expect.near(F.ctc_loss(lp, targets, inputs, { 2, 1 }, { reduction = "none" }):totable(), { 1.7007, 1.6388 }, 1e-4)
  expect.near(F.ctc_loss(lp, targets, inputs, lengths, { reduction = "sum" }):item(), 3.3395, 1e-4)
  local loss = F.ctc_loss(lp, targets, { 4, 3 }, lengths)
  expect.near(loss:item(), 1.2446, 1e-4)
  expect.near(ml.grad(loss, raw, { retain_graph = true }):reshape(-1):totable(), { -0.0131944, -0.0983625,
    0.1115569, -0.0960138, -0.0722379, 0.1682517, 0.01839, -0.0439931, 0.0256031, 0.0164058, -0.1366645, 0.1202588,
    0.0125081, 0.0281765, -0.0406846, -0.1007916, -0.1259807, 0.2267723, 0.0052779, 0.0839547, -0.0892327, 0, 0, 0 },
    1e-5)
  expect.error(function()
    local g = ml.grad(loss, raw, { create_graph = true })
    ml.grad(g:sum(), raw)
  end, "ctc_loss: its gradient cannot be differentiated again")
end)

test("ctc_loss of targets that no path gives, and of empty ones", function()
  local lp = (ml.arange(24):float() - 1):mul(0.37):sin():reshape(4, 2, 3):log_softmax(3):requires_grad_(true)
  local short, targets = lp:narrow(1, 1, 2), ml.tensor { { 2, 2 }, { 2, 3 } }
  local options = { reduction = "none" }
  local y = F.ctc_loss(short, targets, { 2, 2 }, { 2, 2 }, options):totable()
  expect.equal(y[1], INF)
  expect.near(y[2], 2.4795, 1e-4)
  options.zero_infinity = true
  local zeroed = F.ctc_loss(short, targets, { 2, 2 }, { 2, 2 }, options)
  expect.equal(zeroed[1]:item(), 0.0)
  local g = ml.grad(zeroed:sum(), lp)
  expect.truthy(g:isfinite():all():item() and g:select(2, 1):eq(0):all():item())
  expect.near(F.ctc_loss(lp, targets, { 4, 0 }, { 0, 0 }, { reduction = "none" }):totable(), { 4.8297, 0 }, 1e-4)
  local function fails(message, ...)
    local arguments = table.pack(...)
    expect.error(function() F.ctc_loss(table.unpack(arguments, 1, arguments.n)) end, message)
  end
  fails("input length 5 for 4 steps", lp, targets, { 5, 1 }, { 1, 1 })
  fails("target length 3 in targets", lp, targets, { 4, 4 }, { 3, 1 })
  fails("1 input_lengths and 2 target_lengths for 2", lp, targets, { 4 }, { 1, 1 })
  fails("target 4 is no class of 1 to 3", lp, ml.tensor { { 4 }, { 1 } }, { 4, 4 }, { 1, 1 })
  fails("blank 9 is no class of 1 to 3", lp, targets, { 4, 4 }, { 1, 1 }, 9)
  fails("log_probs has shape", ml.ones(3), targets, { 4 }, { 1 })
end)

test("normalisation of 16-bit floats is that of float32, in short runs and long ones", function()
  local function results(norm, x, w, b, gradient)
    local leaves = { x:detach():requires_grad_(), w:detach():requires_grad_(), b:detach():requires_grad_() }
    local y = norm(table.unpack(leaves))
    return { y, ml.grad({ y }, leaves, { grad_outputs = { gradient } }) }
  end
  for _, length in ipairs { 3, 97 } do
    local x, gradient = ml.randn(3, 4, length):bfloat16(), ml.randn(3, 4, length):bfloat16()
    local cases = {
      { 4, function(t, w, b) return F.group_norm(t, 2, w, b) end },
      { 4, function(t, w, b) return F.batch_norm(t, nil, nil, w, b, true) end },
      { length, function(t, w, b) return F.layer_norm(t, { length }, w, b) end },
    }
    for _, case in ipairs(cases) do
      local w, b = ml.randn(case[1]):bfloat16(), ml.randn(case[1]):bfloat16()
      local narrow = results(case[2], x, w, b, gradient)
      local wide = results(case[2], x:float(), w:float(), b:float(), gradient:float())
      for i, value in ipairs(narrow) do
        expect.equal(value.dtype, "bfloat16")
        local distance = (value:float() - wide[i]):abs():max():item()
        expect.truthy(distance <= 0.02 * wide[i]:abs():max():item(), ("%d of %d: %g"):format(i, length, distance))
      end
    end
  end
end)

test("groups without elements have no mean, and no gradient", function()
  for _, sizes in ipairs { { 0, 4, 3 }, { 2, 4, 0 } } do
    local x, w = ml.ones(sizes), ml.ones(4):requires_grad_()
    local y, mean = ml._internal.native_group_norm(x, 2, w, nil, 1e-5)
    expect.equal(y:numel(), 0)
    expect.truthy(mean:isnan():all():item())
    expect.equal(ml.grad({ y }, { w }, { grad_outputs = { y:detach() } }):totable(), { 0.0, 0.0, 0.0, 0.0 })
    expect.equal(F.group_norm(x, 2, w):numel(), 0)
  end
end)

test("batch_norm of few elements beside each other is that of long runs", function()
  ml.manual_seed(21)
  local function normalized(x, w, b, back)
    local mean, var = ml.zeros({ x.shape[2] }, { dtype = x.dtype }), ml.ones({ x.shape[2] }, { dtype = x.dtype })
    local y = F.batch_norm(x, mean, var, w, b, true, 0.3)
    local gradient = back(y)
    local gx, gw, gb = ml.grad({ y }, { x, w, b }, { grad_outputs = { gradient } })
    return { y = y, gx = gx, gw = gw, gb = gb, mean = mean, var = var }
  end
  local layouts = {
    rows = function(runs) return runs[1]:t():contiguous() end,
    ["threes"] = function(runs) return runs[1]:view(70, -1, 3):transpose(1, 2):contiguous() end,
    ["channels last"] = function(runs)
      return runs[1]:view(70, 3, 10, 20):transpose(1, 2):contiguous "channels_last"
    end,
  }
  for name, laid in pairs(layouts) do
    for _, dtype in ipairs { "float64", "float32", "bfloat16" } do
      local runs = (ml.randn(1, 70, 600) * 3 + 5):to(dtype)
      local gradients = ml.randn(1, 70, 600):to(dtype)
      local w, b = ml.rand(70):to(dtype):requires_grad_(), ml.rand(70):to(dtype):requires_grad_()
      local want = normalized(runs:detach():requires_grad_(), w, b, function() return gradients end)
      local got = normalized(laid(runs):detach():requires_grad_(), w, b, function() return laid(gradients) end)
      want.y, want.gx = laid(want.y), laid(want.gx)
      local tolerance = ({ float64 = 1e-10, float32 = 2e-5, bfloat16 = 2e-2 })[dtype]
      for part, value in pairs(want) do
        expect.truthy(got[part]:to("float64"):allclose(value:to "float64", tolerance, tolerance),
          ("%s %s %s"):format(name, dtype, part))
      end
    end
  end
end)

-- The result and the gradients of normalise(x, weight, bias) of random values of `dtype`, computed
-- in `wide`.
local function normalised(normalise, dtype, wide, sizes, channels)
  ml.manual_seed(7)
  local function values(...) return (ml.randn(...) * 2 + 1):to(dtype):to(wide):requires_grad_() end
  local x, w, b = values(sizes), values(channels), values(channels)
  local gradient = ml.randn(sizes):to(dtype):to(wide)
  local y = normalise(x, w, b)
  local grads = ml.grad({ y }, { x, w, b }, { grad_outputs = { gradient } })
  return { y, grads[1], grads[2], grads[3] }
end

local NORMALISE = {
  batch_norm = function(x, w, b) return ml.batch_norm(x, nil, nil, w, b, true) end,
  group_norm = function(x, w, b) return ml.group_norm(x, 2, w, b) end,
  layer_norm = function(x, w, b)
    return ml.layer_norm(x:transpose(2, 3):contiguous(), { 6 }, w, b):transpose(2, 3)
  end,
  ["layer_norm of long rows"] = function(x, w, b)
    local n = x:size(3)
    local wide = w:repeat_interleave(n):reshape(6, n)
    return ml.layer_norm(x, { 6, n }, wide, b:repeat_interleave(n):reshape(6, n))
  end,
}

test("normalisation of runs of any length and dtype, forwards and backwards", function()
  local tolerance = { float32 = 1e-5, bfloat16 = 2e-2, float16 = 3e-3 }
  for name, normalise in pairs(NORMALISE) do
    for _, inner in ipairs { 1, 3, 8, 31, 64, 91, 166, 2500 } do
      for dtype, limit in pairs(tolerance) do
        local sizes = { inner > 1000 and 3 or 33, 6, inner }
        local got = normalised(normalise, dtype, dtype, sizes, 6)
        local want = normalised(normalise, dtype, "float64", sizes, 6)
        for i, each in ipairs { "y", "x", "weight", "bias" } do
          local apart = (got[i]:to "float64" - want[i]):abs():amax():item()
          local size = want[i]:abs():amax():item()
          expect.truthy(apart <= limit * size, ("%s %s %d %s: %g of %g"):format(name, dtype, inner, each, apart, size))
        end
      end
    end
  end
end)

test("normalisation is the same for any number of threads", function()
  local before = ml.get_num_threads()
  for name, normalise in pairs(NORMALISE) do
    for _, dtype in ipairs { "float32", "bfloat16" } do
      ml.set_num_threads(1)
      local one = normalised(normalise, dtype, dtype, { 40, 6, 700 }, 6)
      ml.set_num_threads(3)
      local three = normalised(normalise, dtype, dtype, { 40, 6, 700 }, 6)
      ml.set_num_threads(before)
      for i = 1, 4 do expect.truthy(ml.equal(one[i], three[i]), name .. " " .. dtype .. " " .. i) end
    end
  end
end)

test("normalisation of bfloat16 rounds to nearest and keeps NaN within its row", function()
  local x = ml.randn(4, 100)
  x[2][37] = 0 / 0
  local narrow = x:to "bfloat16"
  local y = ml.layer_norm(narrow, { 100 })
  expect.equal(y:isnan():sum():item(), 100)
  expect.truthy(y[2]:isnan():all():item())
  local wide = ml.layer_norm(narrow:to "float32", { 100 }):to "bfloat16"
  for _, i in ipairs { 1, 3, 4 } do expect.truthy(ml.equal(y[i], wide[i]), i) end
end)

test("norms of no elements have gradients of zeros", function()
  for _, sizes in ipairs { { 0, 4, 3 }, { 2, 4, 0 }, { 0, 4 } } do
    for _, dtype in ipairs { "float32", "bfloat16", "float64" } do
      for _, f in ipairs {
        function(x, w, b) return F.group_norm(x, 2, w, b) end,
        function(x, w, b) return F.batch_norm(x, nil, nil, w, b, true) end,
        function(x, w, b) return F.instance_norm(x, nil, nil, w, b) end,
        function(x, w, b) return F.layer_norm(x:transpose(2, -1):reshape(-1, 4), { 4 }, w, b) end,
      } do
        local x = ml.randn(sizes):to(dtype):requires_grad_()
        local w, b = ml.ones { 4, dtype = dtype, requires_grad = true }, ml.zeros { 4, dtype = dtype, requires_grad = true }
        f(x, w, b):sum():backward()
        expect.equal(x.grad.shape, x.shape)
        expect.near(w.grad:tolist(), { 0, 0, 0, 0 })
        expect.near(b.grad:tolist(), { 0, 0, 0, 0 })
      end
    end
  end
end)

harness.run()
