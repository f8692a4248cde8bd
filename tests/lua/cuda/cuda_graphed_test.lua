-- tests/lua/cuda/cuda_graphed_test.lua: make_graphed_callables: functions and modules that replay give
-- what they gave, with their gradients. Skips without a device.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local on_device = require "on_device"
local expect = harness.expect
local nn, optim = ml.nn, ml.optim
local F = nn.functional

local CUDA = { device = "cuda" }
local graphed = ml.cuda.is_available() and ml.cuda.make_graphed_callables

local function leaf(seed)
  ml.manual_seed(seed)
  return ml.randn(3, 4):cuda():requires_grad_()
end

on_device("a function replays with its gradients", function()
  local function f(x, y) return (x * y):sin(), x:detach() + 1, y:exp() end
  local run = graphed(f, { leaf(1), leaf(2) })
  for seed = 3, 6 do
    local x, y = leaf(seed), leaf(seed + 10)
    local want, got = { f(x, y) }, { run(x, y) }
    for i = 1, 3 do
      expect.equal(got[i]:tolist(), want[i]:tolist())
      expect.equal(got[i].requires_grad, want[i].requires_grad)
    end
    local wanted = { ml.grad((want[1] * 3):sum() + want[3]:sum(), { x, y }) }
    local given = { ml.grad((got[1] * 3):sum() + got[3]:sum(), { x, y }) }
    for i = 1, 2 do expect.equal(given[i]:tolist(), wanted[i]:tolist()) end
    -- One result alone: the other's part of the gradient is none.
    local first, other = run(x, y), f(x, y)
    expect.equal(ml.grad(first:sum(), x):tolist(), ml.grad(other:sum(), x):tolist())
  end
end)

local function network()
  ml.manual_seed(7)
  return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2)):to "cuda"
end

-- The weights after some steps, two backward passes each.
local function trained(net)
  local stepper = optim.SGD(net:parameters(), { lr = 0.1, momentum = 0.9 })
  for i = 1, 5 do
    stepper:zero_grad()
    for k = 0, 1 do
      ml.manual_seed(20 + 2 * i + k)
      F.mse_loss(net(ml.randn(6, 4):cuda()), ml.randn(6, 2):cuda()):backward()
    end
    stepper:step()
  end
  local out = {}
  for _, p in ipairs(net:parameters()) do out[#out + 1] = p:detach():reshape(-1) end
  return ml.cat(out):cpu(), net
end

on_device("a module trains as it did, and is itself in its other mode", function()
  local want = trained(network())
  local net = network()
  local before = {}
  for name, value in pairs(net:state_dict()) do before[name] = value:clone() end
  expect.truthy(rawequal(graphed(net, { ml.zeros(6, 4, CUDA) }), net))
  net:load_state_dict(before)  -- the runs before the recording moved the running means
  local got = trained(net)
  expect.equal(got:tolist(), want:tolist())
  net:eval()
  expect.equal(net(ml.ones(2, 4, CUDA)).shape, ml.zeros(2, 2).shape)
  net:train()
  expect.error(function() net(ml.ones(2, 4, CUDA)) end, "argument 1 is %(2, 4%) of float32 on cuda:0, the sample was")
  expect.equal(#net:parameters(), 6)
  expect.equal(ml.no_grad(function() return net(ml.ones(6, 4, CUDA)).requires_grad end), false)
end)

on_device("several share memory, called in their order", function()
  local first, second = nn.Linear(4, 5):to "cuda", nn.Linear(5, 2):to "cuda"
  local plain = { ml.nn.utils.parameters_to_vector(first:parameters()):clone() }
  local both = graphed({ first, function(x) return x:relu() end, second },
    { { leaf(1) }, { ml.zeros(3, 5, CUDA):requires_grad_() }, { ml.zeros(3, 5, CUDA):requires_grad_() } })
  for seed = 1, 3 do
    local x = leaf(seed)
    both[3](both[2](both[1](x))):sum():backward()
    local gradient = x.grad:clone()
    local weights = { first.weight.grad:clone(), second.bias.grad:clone() }
    first:zero_grad()
    second:zero_grad()
    local y = F.linear(F.linear(x, first.weight, first.bias):relu(), second.weight, second.bias)
    local wanted = { ml.grad(y:sum(), { x, first.weight, second.bias }) }
    expect.near((gradient - wanted[1]):abs():max():item(), 0, 1e-6)
    for i, w in ipairs(weights) do expect.near((w - wanted[i + 1]):abs():max():item(), 0, 1e-6) end
  end
  expect.equal(ml.nn.utils.parameters_to_vector(first:parameters()):tolist(), plain[1]:tolist())
end)

on_device("what is wrong is said", function()
  local x = ml.ones(2, CUDA)
  expect.error(function() graphed(3, { x }) end, "must be a function, a module, or an array")
  expect.error(function() graphed({ print }, {}) end, "with as many arrays in 'sample_args'")
  expect.error(function() graphed({ 3 }, { { x } }) end, "callable 1 must be a function or a module")
  expect.error(function() graphed(print, { ml.ones(2) }) end, "sample argument 1 must be a tensor on a CUDA device")
  expect.error(function() graphed(function() return 3 end, { x }) end, "result 1 is no tensor but number")
  expect.error(function() graphed(function(t) return t end, { x }, { num_warmup_iters = 0 }) end, "at least 1")
  expect.error(function() graphed(function(t) return t * t:sum():item() end, { x }) end, "captur")
  local unused = function(a, _) return a * 2 end
  local a, b = leaf(1), leaf(2)
  expect.error(function() graphed(unused, { a, b }) end, "unused")
  local run = graphed(unused, { a, b }, { allow_unused_input = true })
  run(a, b):sum():backward()
  expect.equal(a.grad:sum():item(), 24.0)
  expect.equal(b.grad, nil)
  expect.error(function() run(a) end, "2 arguments are expected")
  expect.error(function() run(a, 3) end, "argument 2 must be a tensor, got number")
  expect.error(function() run(a, b:detach():cpu()) end, "on cpu, the sample was")
  local constant = graphed(function(t) return t * 2 end, { x })
  expect.error(function() constant(ml.ones(2, CUDA):requires_grad_()) end, "requires grad, which the sample did not")
  expect.equal(constant(x + 3):tolist(), { 8.0, 8.0 })
  local y = run(a, b)
  local gradient = ml.grad((y * y):sum(), a, { create_graph = true })
  expect.error(function() gradient:sum():backward() end, "once_differentiable")
end)

harness.run()
