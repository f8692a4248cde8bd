-- tests/lua/ops/extremes_test.lua: numbers at the ends of their range and beside large means:
-- normalisation, variances, norms, distances and their gradients, where squares overflow or the mean
-- is rounded; gradients at zeros and infinities. On every device there is.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect
local F = ml.nn.functional
local inf, nan = math.huge, 0 / 0

-- A test on the CPU, and the same on the first CUDA device.
local function on_devices(name, body)
  test(name, function() body "cpu" end)
  test(name .. " (cuda)", function()
    if not ml.cuda.is_available() then harness.skip "no CUDA device" end
    body "cuda"
  end)
end

-- Rows whose squares leave the range of float32, and rows beside whose deviation the mean is large.
local ROWS = {
  large = { 1e30, -1e30, 2e30, -2e30 }, positive = { 1e30, 2e30, 3e30, 1.5e30 },
  mixed = { 1e30, 1, 1e-30, 0 }, ["mean of 10000"] = { 10000, 10000.001, 10000.002, 10000.003 },
  ["mean of 1e6"] = { 1e6, 1e6 + 0.0625, 1e6 + 0.125, 1e6 + 0.5 }, usual = { 1, 2, -3, 4 },
}
-- Those that the CPU's layers alone take on: sums overflow, and distances from the mean.
local FAR = { far = { 3e38, -3e38, 1e38, 2e38 }, apart = { 3.4e38, -3.4e38, -3.4e38, -3.4e38 } }
-- Where no eps hides them.
local SMALL = { small = { 1e-30, -1e-30, 2e-30, -2e-30 }, tiny = { 1e-40, -1e-40, 2e-40, 3e-40 } }

local function each_row(device, more, f)
  local names, rows = {}, {}
  for _, list in ipairs { ROWS, more or {} } do
    for name, row in pairs(list) do names[#names + 1], rows[name] = name, row end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    f(name, ml.tensor({ rows[name] }, { dtype = "float32", device = device }))
  end
end

-- `got` (float32) beside `want` (float64): within `tolerance` of the largest of `want`.
local function close(got, want, what, tolerance)
  got, want = got:to("cpu"):to("float64"):flatten(), want:to("cpu"):to("float64"):flatten()
  local scale = want:abs():amax():item()
  local far = scale == 0 and (got - want):abs():amax():item()
    or ((got - want) / scale):abs():amax():item()
  expect.truthy(far <= (tolerance or 1e-5), ("%s: %s, not %s"):format(what,
    table.concat(got:tolist(), " "), table.concat(want:tolist(), " ")))
end

-- What f(x) and its gradients are with x in float32 and in float64.
local function beside_float64(name, x, f, tolerance)
  local weights = ml.tensor({ 0.3, -0.7, 1.1, 0.2 }, { device = x.device })
  local function run(v)
    v = v:clone():requires_grad_()
    local y = f(v)
    local w = y:numel() == 4 and weights:to(v.dtype):view(y.shape) or ml.ones_like(y)
    ;(y * w):sum():backward()
    return y:detach(), v.grad
  end
  local y, gradient = run(x)
  local right, right_gradient = run(x:double())
  close(y, right, name, tolerance)
  close(gradient, right_gradient, name .. ", gradient", tolerance)
end

local function affine(x, n)
  return ml.arange(1.0, n):to(x.dtype):to(x.device), ml.arange(0.5, n):to(x.dtype):to(x.device)
end

local LAYERS = {
  layer_norm = function(x) return F.layer_norm(x, { 4 }) end,
  ["layer_norm, affine"] = function(x)
    local w, b = affine(x, 4)
    return F.layer_norm(x, { 4 }, w, b)
  end,
  ["group_norm, one group"] = function(x) return F.group_norm(x:view(1, 4, 1), 1) end,
  ["group_norm, affine"] = function(x)
    local w, b = affine(x, 2)
    return F.group_norm(x:view(1, 2, 2), 1, w, b)
  end,
  instance_norm = function(x) return F.instance_norm(x:view(1, 1, 4)) end,
  ["batch_norm, columns"] = function(x)
    return F.batch_norm(x:view(4, 1), nil, nil, { training = true })
  end,
  ["batch_norm, planes"] = function(x)
    return F.batch_norm(x:view(1, 1, 2, 2):expand(1, 1, 2, 2), nil, nil, { training = true })
  end,
  ["batch_norm, long planes"] = function(x)
    return F.batch_norm(x:view(1, 1, 4, 1):expand(1, 1, 4, 16), nil, nil, { training = true })
      :select(4, 1)
  end,
}

on_devices("normalisation of large numbers and beside large means", function(device)
  for layer, f in pairs(LAYERS) do
    each_row(device, device == "cpu" and FAR, function(name, x)
      beside_float64(layer .. ", " .. name, x, f, 2e-5)
    end)
  end
end)

on_devices("normalisation of small numbers without eps", function(device)
  each_row(device, SMALL, function(name, x)
    local function f(v) return F.layer_norm(v, { 4 }, nil, nil, 0) end
    if name ~= "tiny" then return beside_float64("layer_norm, " .. name, x, f, 2e-5) end
    close(f(x), f(x:double()), "layer_norm, tiny", 2e-5) -- its gradient is too large for float32
  end)
end)

on_devices("gradients of weights and biases of normalisation", function(device)
  each_row(device, nil, function(name, x)
    local function run(v, f)
      local w = ml.tensor({ 0.5, 2, 1, 3 }):to(v.dtype):to(device):requires_grad_()
      local b = ml.zeros_like(w):requires_grad_()
      local y = f(v:expand(3, 4):contiguous(), w, b)
      y:mul(ml.arange(1.0, 12):view(3, 4):to(v.dtype):to(device)):sum():backward()
      return w.grad, b.grad
    end
    for layer, f in pairs {
      layer_norm = function(v, w, b) return F.layer_norm(v, { 4 }, w, b) end,
      group_norm = function(v, w, b)
        return F.group_norm(v:view(3, 4, 1):expand(3, 4, 8), 2, w, b):sum(3)
      end,
    } do
      local w, b = run(x, f)
      local right_w, right_b = run(x:double(), f)
      close(w, right_w, layer .. ", weight, " .. name, 2e-5)
      close(b, right_b, layer .. ", bias, " .. name)
    end
  end)
end)

on_devices("second derivatives of layer_norm beside a large mean", function(device)
  local x = ml.tensor({ ROWS["mean of 1e6"] }, { device = device })
  local function run(v)
    v = v:clone():requires_grad_()
    local y = F.layer_norm(v, { 4 }) ^ 3
    local g = ml.grad(y:sum(), v, { create_graph = true })
    return ml.grad((g ^ 2):sum(), v)
  end
  close(run(x), run(x:double()), "layer_norm", 1e-3)
end)

on_devices("running statistics of large means", function(device)
  local x = (ml.arange(0.0, 63):view(16, 4) * 0.0625 + 1e6):to(device)
  local mean, var = ml.zeros(4, { device = device }), ml.ones(4, { device = device })
  F.batch_norm(x, mean, var, { training = true, momentum = 1 })
  close(mean, x:double():mean(1), "running mean", 1e-7)
  close(var, x:double():var(1), "running variance")
  local planes = x:t():reshape(1, 4, 16)
  F.instance_norm(planes, mean:zero_(), var:zero_(), { momentum = 1 })
  close(var, x:double():var(1), "running variance of instances")
end)

on_devices("variances and deviations", function(device)
  each_row(device, SMALL, function(name, x)
    if name == "tiny" then return close(x:std(2), x:double():std(2), "std, tiny", 1e-5) end
    beside_float64("std, " .. name, x, function(v) return v:std(2) end, 2e-5)
    beside_float64("std_mean, " .. name, x, function(v) return (ml.std_mean(v, 2, 0)) end, 2e-5)
    if name:find "mean" then
      beside_float64("var, " .. name, x, function(v) return v:var(2) end, 2e-5)
    end
  end)
  -- Of equal numbers, whose mean is rounded.
  for _, dtype in ipairs { "float32", "float64" } do
    local equal = ml.full({ 2, 40 }, 12345.678, { dtype = dtype, device = device })
    expect.equal(equal:std(2):tolist(), { 0, 0 }, dtype)
    expect.equal(equal:var():item(), 0, dtype)
  end
  local seven = ((ml.arange(1, 4096) % 7):float() + 1e6):to(device)
  expect.near(seven:std():item(), 2.000244, 1e-5)
  expect.truthy(ml.tensor({ 1.0 }, { device = device }):std():isnan():item())
  expect.truthy(ml.tensor({ 1.0, nan }, { device = device }):std():isnan():item())
  expect.truthy(ml.tensor({ 1.0, inf }, { device = device }):std():isnan():item())
  local z = ml.complex(ml.tensor { 3e30, -3e30 }, ml.tensor { 4e30, -4e30 }):to(device)
  expect.near(z:std():item() / 1e30, 50 ^ 0.5, 1e-5)
end)

test("deviations of doubles whose squares overflow or underflow", function()
  for _, unit in ipairs { 1e200, 1e-200, 1e300 } do
    local x = ml.tensor({ { unit, -unit, 2 * unit } }, { dtype = "float64" })
    expect.near(x:std():item() / unit, 1.5275252316519468, 1e-12)
    expect.near(x:norm():item() / unit, 6 ^ 0.5, 1e-12)
    local y = F.layer_norm(x, { 3 }, nil, nil, 0)
    expect.near(y[1][1]:item(), 0.26726124191242434, 1e-12)
  end
end)

on_devices("norms", function(device)
  each_row(device, SMALL, function(name, x)
    beside_float64("2-norm, " .. name, x, function(v) return v:norm(2, { 2 }) end, 2e-5)
    if name == "tiny" then return end -- the gradient is too large for float32
    beside_float64("normalize, " .. name, x, function(v)
      return F.normalize(v, { dim = 2, eps = 0 })
    end, 2e-5)
  end)
end)

test("norms of other powers, distances and scaled layers on the CPU", function()
  each_row("cpu", nil, function(name, x)
    beside_float64("3-norm, " .. name, x, function(v) return v:norm(3, { 2 }) end, 1e-4)
    beside_float64("cdist, " .. name, x, function(v) return ml.cdist(v, v * 2) end, 2e-5)
    beside_float64("pairwise_distance, " .. name, x, function(v)
      return F.pairwise_distance(v, v * 2)
    end, 2e-5)
    beside_float64("rms_norm, " .. name, x, function(v)
      return F.rms_norm(v, { 4 }, nil, 1e-5)
    end, 2e-5)
    local function response(v) return F.local_response_norm(v:view(1, 4, 1), 3) end
    close(response(x), response(x:double()), "local_response_norm, " .. name)
    beside_float64("cosine_similarity, " .. name, x, function(v)
      return F.cosine_similarity(v, ml.tensor({ { 1, 2, 3, -1 } }):to(v.dtype), 2)
    end, 2e-5)
  end)
  each_row("cpu", SMALL, function(name, x)
    if name ~= "tiny" then
      beside_float64("norm of power -1, " .. name, x, function(v) return v:norm(-1, { 2 }) end, 1e-4)
    end
  end)
end)

test("covariances beside a large mean", function()
  local x = ml.tensor { ROWS["mean of 10000"], ROWS["mean of 1e6"] }
  close(ml.cov(x), ml.cov(x:double()), "cov")
  close(ml.corrcoef(x), ml.corrcoef(x:double()), "corrcoef")
  local w = ml.tensor { 1, 2, 1, 3 }
  close(ml.cov(x, 1, w), ml.cov(x:double(), 1, w), "cov with weights")
end)

-- The gradient of f at those numbers.
local function gradient(f, values, device, dtype)
  local x = ml.tensor(values, { dtype = dtype or "float32", device = device, requires_grad = true })
  f(x):sum():backward()
  return x.grad:tolist()
end

on_devices("gradients at infinities", function(device)
  local function sums(x) return x:logsumexp(1) end
  local g = gradient(sums, { inf, 1, 2 }, device)
  expect.truthy(g[2] == 0 and g[3] == 0)
  expect.equal(gradient(sums, { -inf, -inf, 0.5 }, device), { 0, 0, 1 })
  expect.equal(gradient(sums, { -inf, -inf }, device), { 0, 0 })
  g = gradient(function(x) return x:logcumsumexp(1) end, { 1, inf, 2 }, device)
  expect.truthy(g[1] == 1 and g[3] == 0)
  for _, name in ipairs { "logaddexp", "logaddexp2" } do
    local a = ml.tensor({ -inf, -inf, 1, 1 }, { device = device, requires_grad = true })
    local b = ml.tensor({ -inf, 1, -inf, 1 }, { device = device, requires_grad = true })
    ml[name](a, b):sum():backward()
    expect.equal(a.grad:tolist(), { 0, 0, 1, 0.5 }, name)
    expect.equal(b.grad:tolist(), { 0, 1, 0, 0.5 }, name)
  end
end)

test("the shares of logsumexp of large numbers sum to 1", function()
  for _, mean in ipairs { 12345.678, 1e6, -1e6 } do
    local g = gradient(function(x) return x:logsumexp(1) end, { mean, mean, mean, mean })
    for i = 1, 4 do expect.near(g[i], 0.25, 1e-6) end
  end
end)

on_devices("gradients at zeros", function(device)
  for _, p in ipairs { -1, -2, -0.5, 0.5, 1.5, 3 } do
    local g = gradient(function(x) return ml.linalg.vector_norm(x, p) end, { 2, 0, 3 }, device)
    expect.equal(g[2], 0, p)
    if p < 0 then expect.equal(g, { 0, 0, 0 }, p) end
    expect.equal(gradient(function(x) return ml.linalg.vector_norm(x, p) end, { 0, 0 }, device), { 0, 0 })
  end
  local zero = ml.zeros(2, { device = device })
  expect.equal(gradient(function(x) return ml.atan2(x, zero) end, { 0, 1 }, device), { 0, 0 })
  expect.equal(gradient(function(x) return ml.atan2(zero, x) end, { 0, 2 }, device), { 0, 0 })
  expect.equal(gradient(function(x) return ml.hypot(x, zero) end, { 0, -1 }, device), { 0, -1 })
  expect.equal(gradient(function(x) return x:std() end, { 3, 3, 3 }, device), { 0, 0, 0 })
  -- Second derivatives there are numbers too.
  local x = ml.zeros(2, { device = device, requires_grad = true })
  local g = ml.grad(ml.atan2(x, zero):sum(), x, { create_graph = true })
  expect.equal(ml.grad(g:sum(), x):tolist(), { 0, 0 })
end)

-- x_i^-2 / (sum x^-1)^2 in float64
test("the gradient of a norm of power -1 in float16", function()
  local values = { 300, 250, 1000, 20 }
  local g = gradient(function(x) return ml.linalg.vector_norm(x, -1) end, values, "cpu", "float16")
  local right = gradient(function(x) return ml.linalg.vector_norm(x, -1) end, values, "cpu", "float64")
  for i = 1, 4 do expect.near(g[i] / right[i], 1, 5e-3) end
end)

on_devices("isclose of integers whose difference overflows", function(device)
  local function close_of(a, b, dtype, ...)
    return ml.isclose(ml.tensor(a, { dtype = dtype, device = device }),
      ml.tensor(b, { dtype = dtype, device = device }), ...):tolist()
  end
  expect.equal(close_of({ -128, 1, 127, -128 }, { 0, -127, -128, -128 }, "int8"),
    { false, false, false, true })
  expect.equal(close_of({ 0, 255, 3 }, { 255, 0, 4 }, "uint8", 0, 1), { false, false, true })
  expect.equal(close_of({ math.mininteger, math.maxinteger, math.mininteger },
    { 0, math.mininteger, math.mininteger + 1 }, "int64"), { false, false, true })
  expect.equal(close_of({ 100, -100 }, { 101, -99 }, "int64", 0.01, 0), { true, false })
  expect.falsy(ml.allclose(ml.tensor { math.mininteger }, ml.tensor { 0 }))
end)

test("histc of a range that overflows", function()
  expect.equal(ml.histc(ml.tensor { -3e38, -2e38, 0, 2e38, 3e38 }, 3):tolist(), { 2, 1, 2 })
  local wide = ml.tensor({ -1.7e308, 0, 1.7e308 }, { dtype = "float64" })
  expect.equal(ml.histc(wide, 3):tolist(), { 1, 1, 1 })
  expect.equal(ml.histc(ml.tensor { 0.0, 1, 2, 3 }, 2, -3e38, 3e38):tolist(), { 0, 4 })
end)

test("norms of large and negative powers", function()
  local x = ml.tensor({ { 3.0, -4.0, 1.0 }, { 0.5, 0.25, -0.125 } })
  local function near(got, want)
    for i, v in ipairs(want) do expect.near(got[i]:item(), v, 1e-5) end
  end
  near(ml.linalg.vector_norm(x, 2 ^ 60, { dim = 2 }), { 4, 0.5 })
  near(ml.linalg.vector_norm(x, 1e300, { dim = 2 }), { 4, 0.5 })
  near(ml.linalg.vector_norm(x, -(2 ^ 60), { dim = 2 }), { 1, 0.125 })
  local cubes = (3 ^ -3 + 4 ^ -3 + 1) ^ (-1 / 3)
  near(ml.linalg.vector_norm(x[1]:unsqueeze(1) * 1e30, -3, { dim = 2 }) / 1e30, { cubes })
  near(ml.linalg.vector_norm(x[1]:unsqueeze(1) * 1e-30, -3, { dim = 2 }) * 1e30, { cubes })
  expect.equal(ml.linalg.vector_norm(ml.zeros(3), -2):item(), 0)
  expect.equal(ml.linalg.vector_norm(ml.full({ 2 }, math.huge), -2):item(), math.huge)
end)

harness.run()
