-- tests/lua/cuda/cuda_layers_test.lua: kernels of training and inference on CUDA that go by packs of 16
-- bytes, on the sizes and layouts that choose among them, compared with the CPU: clipping of
-- gradients, softmax, batch norm. Skips without a device.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect
local nn = ml.nn

local FLOATS = { "float16", "bfloat16", "float32", "float64" }
local TOLERANCE = { float16 = 2e-3, bfloat16 = 2e-2, float32 = 1e-5, float64 = 1e-12 }

local function on_device(name, body)
  test(name, function()
    if not ml.cuda.is_available() then harness.skip "no CUDA device" end
    ml.manual_seed(1)
    body()
  end)
end

local function same(what, got, want, tolerance)
  if tostring(got.shape) ~= tostring(want.shape) or got.dtype ~= want.dtype then
    error(("%s: %s %s, want %s %s"):format(what, got.dtype, got.shape, want.dtype, want.shape), 0)
  end
  tolerance = tolerance or TOLERANCE[tostring(want.dtype)]
  got, want = got:to "cpu":to "float64", want:to "float64"
  if not ml.allclose(got, want, { rtol = tolerance, atol = tolerance, equal_nan = true }) then
    error(("%s: differs by %s"):format(what, (got - want):abs():amax():item()), 0)
  end
end

-- Parameters on a device whose gradients are copies of these.
local function parameters_with(gradients, device)
  local out = {}
  for i, g in ipairs(gradients) do
    out[i] = nn.Parameter(ml.zeros_like(g):to(device))
    out[i].grad = g:to(device):clone()
  end
  return out
end

-- Gradients of several sizes, one of no element, one that lies in packs from an odd position on, and
-- one that has gaps.
local function gradients_of(dtype)
  return { ml.randn(3, 7):to(dtype), ml.zeros(0):to(dtype), ml.randn(40001):to(dtype),
    ml.randn(101):to(dtype)[{ { 2, 101 } }], ml.randn(2, 3, 4, 4):to(dtype):to {
      memory_format = "channels_last" }, ml.randn({}):to(dtype), ml.randn(6, 10):to(dtype):t() }
end

on_device("clipping by norm and by value, of many gradients", function()
  for _, dtype in ipairs(FLOATS) do
    for _, order in ipairs { 1, 2, 3.5, 0.5, 0, -1 } do
      local gradients = gradients_of(dtype)
      if dtype == "float16" and order == 0.5 then gradients[3] = gradients[3][{ { 1, 40 } }] end
      if order == -1 then table.remove(gradients, 2) end
      local host, device = parameters_with(gradients, "cpu"), parameters_with(gradients, "cuda")
      local what = ("%s, order %g"):format(dtype, order)
      same(what, nn.utils.clip_grad_norm_(device, 1.5, order),
        nn.utils.clip_grad_norm_(host, 1.5, order))
      for i, p in ipairs(device) do same(what, p.grad, host[i].grad) end
    end
    local gradients = gradients_of(dtype)
    local host, device = parameters_with(gradients, "cpu"), parameters_with(gradients, "cuda")
    nn.utils.clip_grad_value_(host, 0.3)
    nn.utils.clip_grad_value_(device, 0.3)
    for i, p in ipairs(device) do same("by value", p.grad, host[i].grad, 0) end
    table.remove(device, 2)
    table.remove(host, 2)
    same("largest", nn.utils.clip_grad_norm_(device, 0.2, math.huge),
      nn.utils.clip_grad_norm_(host, 0.2, math.huge), 0)
  end
end)

on_device("clipping on the device: PyTorch's numbers, of two dtypes, gaps and no numbers", function()
  local gradients = { ml.tensor { 1.5, -2, 0.25 }, ml.tensor { { 3.0, -4 }, { 0.5, 1 } } }
  local wanted = { [1] = { 12.25, 0.306122422 }, [2] = { 5.706356048583984, 0.657161832 },
    [3.5] = { 4.4866719245910645, 0.835808635 }, [math.huge] = { 4, 0.937499821 },
    [0.5] = { 73.58406829833984, 0.050962117 }, [0] = { 2, 1.5 }, [-1] = { 0.11428571492433548, 1.5 } }
  for order, want in pairs(wanted) do
    for _, device in ipairs { "cpu", "cuda" } do
      local parameters = parameters_with(gradients, device)
      local norm = nn.utils.clip_grad_norm_(parameters, 2.5, order)
      expect.near({ norm:item(), parameters[1].grad[1]:item() }, want, 1e-5)
    end
  end
  for _, device in ipairs { "cpu", "cuda" } do
    local two = parameters_with({ ml.tensor { 1.5, -2 }, ml.tensor { 3.0, -4 }:half() }, device)
    expect.near(nn.utils.clip_grad_norm_(two, 2.5):item(), 5.5902, 1e-4)
    expect.near(two[2].grad:totable(), { 1.3418, -1.7891 }, 1e-4)
    local twice = parameters_with({ ml.tensor { 3.0, -4 } }, device)
    twice[2] = twice[1]
    expect.near(nn.utils.clip_grad_norm_(twice, 2):item(), 7.0711, 1e-4)
    expect.near(twice[1].grad:totable(), { 0.24, -0.32 }, 1e-5)
    local gaps = parameters_with({ ml.zeros(4, 2) }, device)
    gaps[1].grad = ml.full({ 4, 4 }, 3.0):to(device)[{ {}, { 1, 4, 2 } }]
    nn.utils.clip_grad_norm_(gaps, 1)
    expect.near(gaps[1].grad:sum():item(), math.sqrt(8), 1e-4)
    local none = parameters_with({ ml.tensor { 1, 0 / 0, 9 } }, device)
    nn.utils.clip_grad_value_(none, 2)
    expect.equal(tostring(none[1].grad:to "cpu"), tostring(ml.tensor { 1, 0 / 0, 2 }))
    expect.truthy(nn.utils.clip_grad_norm_(none, 1):isnan():item())
    expect.equal(none[1].grad:isnan():all():item(), true)
  end
  expect.error(function() ml._internal.list_norm({}, 2) end, "x is an empty list")
  expect.error(function() ml._internal.list_norm({ ml.ones(2) }, 0) end, "p must be above 0, got 0")
  expect.error(function() ml._internal.list_norm({ ml.ones(0) }, math.huge) end, "of no elements")
  expect.error(function() ml._internal.list_limit_norm({ ml.ones(2) }, ml.ones(1), 1) end, "no dimension")
  expect.error(function() ml._internal.list_clamp({ ml.ones(2), ml.ones(1):double() }, 0, 1) end, "float64")
end)

-- Values and the gradient of f(x) on both devices.
local function agree_with_gradient(what, f, x, tolerance)
  local found = {}
  for _, device in ipairs { "cpu", "cuda" } do
    local t = x:to(device):detach():requires_grad_()
    local y = f(t)
    local gradient = (ml.arange(y:numel()) * 0.37):sin():to(x.dtype):view(y.shape):to(device)
    y:backward(gradient)
    found[device] = { y:detach(), t.grad }
  end
  for i, name in ipairs { "value", "gradient" } do
    same(("%s, %s"):format(what, name), found.cuda[i], found.cpu[i], tolerance)
  end
end

on_device("softmax across channels and of long rows", function()
  for _, dtype in ipairs(FLOATS) do
    for _, shape in ipairs { { 2, 3, 64 }, { 3, 21, 5, 7 }, { 1, 300, 16 }, { 2, 40, 1000 },
      { 2, 5, 3 }, { 70, 9 }, { 1, 2, 8192 }, { 4, 1, 32 } } do
      local x, dim = ml.randn(shape) * 3, #shape == 2 and 1 or 2
      x = x:to(dtype)
      local what = ("%s of %s"):format(x.shape, dtype)
      agree_with_gradient("softmax, " .. what, function(t) return t:softmax(dim) end, x)
      agree_with_gradient("log_softmax, " .. what, function(t) return t:log_softmax(dim) end, x)
    end
    local long = ml.randn(2, 20011):to(dtype)
    agree_with_gradient("long rows of " .. dtype, function(t) return t:softmax(2) end, long)
    agree_with_gradient("long rows of " .. dtype, function(t) return t:log_softmax(2) end, long)
  end
  local holes = ml.full({ 2, 9, 16 }, -math.huge)
  holes[{ {}, 4 }], holes[{ 2, 3, 5 }] = 1, 0 / 0
  local got = holes:cuda():softmax(2):cpu()
  expect.equal(got[{ 1, 4 }]:eq(1):all():item(), true)
  expect.equal(got[{ 2, {}, 5 }]:isnan():all():item(), true)
  expect.equal(got:isnan():sum():item(), 9)
  local tail = ml.full({ 300, 20000 }, -math.huge)
  tail[{ 1, {} }], tail[{ {}, 1 }] = 1, 1
  for dim = 1, 2 do agree_with_gradient("masked", function(t) return t:softmax(dim) end, tail) end
  expect.equal(ml.full({ 1, 3, 8 }, -math.huge):cuda():softmax(2):isnan():all():item(), true)
end)

-- All that batch_norm in training gives, on a device.
local function batch_norm_on(device, x, dtype, format)
  local t = x:to(device):contiguous { memory_format = format }:detach():requires_grad_()
  local count = x:size(2)
  local mean, var = ml.arange(count):to(dtype):to(device), ml.ones(count):to(dtype):to(device)
  local weight = (ml.arange(count) * 0.1 + 0.5):to(dtype):to(device):requires_grad_()
  local bias = (ml.arange(count) * 0.2):to(dtype):to(device):requires_grad_()
  local y = nn.functional.batch_norm(t, mean, var, weight, bias, true, 0.3)
  y:backward((ml.arange(y:numel()) * 0.37):sin():to(dtype):view(y.shape):to(device))
  return { y:detach(), mean, var, t.grad, weight.grad, bias.grad },
    y:is_contiguous { memory_format = format }
end

on_device("batch norm in training, of planes and of channels side by side", function()
  for _, dtype in ipairs(FLOATS) do
    for _, case in ipairs { { { 4, 3, 8, 8 } }, { { 5, 7, 3, 5 } }, { { 300, 24 } }, { { 9, 5, 40 } },
      { { 2, 2, 64, 96 } }, { { 3, 16, 6, 6 }, "channels_last" }, { { 3, 5, 9, 2 }, "channels_last" },
      { { 2, 8, 3, 4, 2 }, "channels_last_3d" }, { { 40, 600 } }, { { 2, 3, 1, 1 } },
      -- Planes of more packs than a block has threads.
      { { 3, 4, 40, 52 } }, { { 2, 3, 2050 } } } do
      local shape, format = case[1], case[2] or "contiguous_format"
      local x = (ml.randn(shape) * 2 + 1):to(dtype)
      local want, wanted = batch_norm_on("cpu", x, dtype, format)
      local got, follows = batch_norm_on("cuda", x, dtype, format)
      expect.equal(follows, wanted)
      local tolerance = ({ float16 = 1e-2, bfloat16 = 8e-2, float32 = 1e-4, float64 = 1e-10 })[dtype]
      for i, name in ipairs { "y", "mean", "var", "grad of x", "of weight", "of bias" } do
        same(("%s of %s %s %s"):format(name, dtype, x.shape, format), got[i], want[i], tolerance)
      end
    end
  end
  -- Far from 0 the sum of squares would have no digit left.
  local far = ml.randn(16, 4, 10, 10) * 0.01 + 1000
  local y = ml.batch_norm(far:cuda(), nil, nil, nil, nil, true):cpu()
  expect.near(y:var({ 1, 3, 4 }):totable(), { 1, 1, 1, 1 }, 0.12)
  local odd = ml.randn(4, 6, 5, 5):transpose(3, 4)
  same("of strides", ml.batch_norm(odd:cuda(), nil, nil, nil, nil, true),
    ml.batch_norm(odd, nil, nil, nil, nil, true), 1e-5)
end)

on_device("all gradients of batch norm are one op, however its operands lie", function()
  local up = ml.randn(6, 5, 4, 3)
  local function gradients(device, x, weight_type, gradient_type)
    x = x:to(device):detach():requires_grad_()
    local weight, bias = ml.arange(5):to(weight_type):to(device):requires_grad_(),
      ml.ones(5, { dtype = weight_type, device = device }):requires_grad_()
    local y = ml.batch_norm(x, nil, nil, weight, bias, true)
    local profile = ml.profiler.profile(function() y:backward(up:to(gradient_type):to(device)) end)
    return { x.grad, weight.grad, bias.grad }, tostring(profile)
  end
  for name, case in pairs {
    strides = { ml.randn(6, 5, 3, 4):transpose(3, 4), "float32", "float32" },
    mixed = { ml.randn(6, 5, 4, 3):bfloat16(), "float32", "bfloat16" },
    planes = { ml.randn(6, 5, 4, 3), "float32", "float32" },
  } do
    local got, profile = gradients("cuda", table.unpack(case))
    local want = gradients("cpu", table.unpack(case))
    expect.truthy(profile:find "batch_norm_grads", profile)
    expect.falsy(profile:find "batch_norm_grad_x", profile)
    for i = 1, 3 do same(name .. " " .. i, got[i], want[i], name == "mixed" and 5e-2 or 1e-4) end
  end
end)

harness.run()
