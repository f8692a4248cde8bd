-- tests/lua/autograd/checkpoint_test.lua: parts of a model that backward computes again: the same gradients,
-- random numbers and casts, nested, in segments, and with the results of some ops kept.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect
local nn = ml.nn
local checkpoint = ml.utils.checkpoint

local function leaf(values)
  return ml.tensor(values, { dtype = ml.float64, requires_grad = true })
end

local function list(t) return t:detach():tolist() end

-- A function that counts its runs.
local function counted(f)
  local runs = { n = 0 }
  return function(...)
    runs.n = runs.n + 1
    return f(...)
  end, runs
end

test("a checkpoint has the same results and gradients, and runs twice", function()
  local x, w = leaf { 0.3, -0.2 }, leaf { 2, 3 }
  local f, runs = counted(function(a, k, b) return (a * b):exp():sin() * k, "text" end)
  local y, text = checkpoint(f, x, 2, w)
  expect.equal(text, "text")
  expect.equal(runs.n, 1)
  y:sum():backward()
  expect.equal(runs.n, 2)
  local gx, gw = x.grad, w.grad
  x.grad, w.grad = nil, nil
  f(x, 2, w):sum():backward()
  expect.equal(list(gx), list(x.grad))
  expect.equal(list(gw), list(w.grad))
  expect.equal(list(checkpoint.checkpoint({ early_stop = false }, f, x, 2, w)), list(y))
end)

test("nothing is kept but the arguments", function()
  local x = ml.ones(1000, { requires_grad = true })
  local function deep(a)
    for _ = 1, 50 do a = a:sin() end
    return a
  end
  collectgarbage()
  collectgarbage()
  local before = ml.memory.live_bytes()
  local y = checkpoint(deep, x)
  collectgarbage()
  collectgarbage()
  expect.truthy(ml.memory.live_bytes() - before < 5 * 4096)
  y:sum():backward()
  expect.truthy(x.grad)
end)

test("modules, parameters that the function refers to, and several backwards", function()
  local net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
  local x = ml.randn(5, 3)
  net(x):sum():backward()
  local wanted = net[1].weight.grad:tolist()
  net:zero_grad()
  local y = checkpoint(net, x):sum()
  y:backward(nil, { retain_graph = true })
  expect.near(net[1].weight.grad:tolist(), wanted, 1e-6)
  net:zero_grad()
  y:backward()
  expect.near(net[1].weight.grad:tolist(), wanted, 1e-6)
  expect.equal(ml.no_grad(function() return checkpoint(net, x).requires_grad end), false)
end)

test("second derivatives pass through", function()
  local x = leaf { 0.5 }
  local y = checkpoint(function(a) return a * a * a end, x)
  local g = ml.grad(y, x, { create_graph = true })
  expect.near(ml.grad(g, x):item(), 3, 1e-12)
end)

test("random numbers are the same, and the generator goes on", function()
  local x = ml.ones(100, { requires_grad = true })
  ml.manual_seed(3)
  local y = checkpoint(function(a) return ml.dropout(a * 2, 0.5, true) end, x)
  local after = ml.rand(1):item()
  local state = ml.get_rng_state()
  y:sum():backward()
  expect.equal(ml.get_rng_state(), state)
  expect.equal(x.grad:tolist(), y:detach():tolist())
  ml.manual_seed(3)
  ml.dropout(x * 2, 0.5, true)
  expect.equal(ml.rand(1):item(), after)
  x.grad = nil
  ml.manual_seed(3)
  y = checkpoint({ preserve_rng_state = false },
    function(a) return ml.dropout(a * 2, 0.5, true) * a end, x)
  y:sum():backward()
  expect.truthy(x.grad:tolist()[1])
end)

test("autocast is as it was", function()
  local a, b = ml.randn(4, 4, { requires_grad = true }), ml.randn(4, 4)
  local dtypes = {}
  local function f(x)
    local y = x:mm(b)
    dtypes[#dtypes + 1] = y.dtype
    return y:exp()
  end
  local y
  ml.autocast({ dtype = ml.bfloat16 }, function() y = checkpoint(f, a) end)
  y:sum():backward()
  expect.equal(dtypes, { "bfloat16", "bfloat16" })
  y = checkpoint(f, a)
  ml.autocast({ dtype = ml.bfloat16 }, function() y:sum():backward() end)
  expect.equal(dtypes, { "bfloat16", "bfloat16", "float32", "float32" })
end)

test("checkpoints inside checkpoints", function()
  local x = leaf { 0.4, 0.9 }
  local inner, inner_runs = counted(function(a) return a:sin():exp() end)
  local outer, outer_runs = counted(function(a) return checkpoint(inner, a:cos()):sin() end)
  local y = checkpoint(outer, x)
  y:sum():backward()
  local got = list(x.grad)
  expect.truthy(outer_runs.n >= 2 and inner_runs.n >= 2)
  x.grad = nil
  x:cos():sin():exp():sin():sum():backward()
  expect.near(got, list(x.grad), 1e-12)
end)

test("the second run ends when it has what is needed", function()
  local x, late = leaf { 1 }, 0
  local function f(a)
    local y = a:exp()
    late = late + 1
    return y
  end
  checkpoint(f, x):backward()
  expect.equal(late, 1)
  checkpoint({ early_stop = false }, f, x):backward()
  expect.equal(late, 3)
  local y = checkpoint.set_checkpoint_early_stop(false, checkpoint.checkpoint, f, x)
  y:backward()
  expect.equal(late, 5)
  do
    local _ <close> = checkpoint.set_checkpoint_early_stop(true)
    y = checkpoint({ early_stop = false }, f, x)
  end
  y:backward()
  expect.equal(late, 6)
  expect.error(function() checkpoint.set_checkpoint_debug_enabled(1) end, "true or false is expected")
end)

test("a function that does something else is an error", function()
  local x, odd = leaf { 1, 2 }, false
  local function fewer(a)
    odd = not odd
    return odd and (a:exp():sin()) or a:exp()
  end
  local y = checkpoint(fewer, x)
  expect.error(function() y:sum():backward() end, "1 of them, and 2 before")
  odd = false
  local function other(a)
    odd = not odd
    return odd and a:exp() or a:view(2, 1):exp()
  end
  y = checkpoint({ debug = true }, other, x)
  expect.error(function() y:sum():backward() end,
    "tensor 1 is %(2, 1%) float64 on cpu, and was %(2,%) float64 on cpu.*the second: view, exp")
  odd = false
  y = checkpoint({ determinism_check = "none" }, other, x)
  expect.error(function() y:sum():backward() end, "must give what was saved, of shape %(2,%)")
  y = checkpoint(function(a)
    if not ml.is_grad_enabled() or odd then error "in the second run" end
    odd = true
    return a:exp()
  end, x)
  expect.error(function() y:sum():backward() end, "checkpoint_test.lua:%d+: in the second run")
end)

test("arguments that are changed in place are found", function()
  local h = leaf { 1, 2 } * 1
  local y = checkpoint(function(a) return a:exp() end, h)
  h:mul_(2)
  expect.error(function() y:sum():backward() end, "CheckpointArgumentsBackward saved .* changed in place")
end)

test("wrong calls", function()
  expect.error(function() checkpoint(3) end, "use checkpoint%(f, ...%)")
  expect.error(function() checkpoint({ use_reentrant = true }, print) end, "no reentrant form")
  expect.error(function() checkpoint({ early_stops = true }, print) end, "did you mean 'early_stop'")
  expect.error(function() checkpoint({ determinism_check = "all" }, print) end, "determinism_check")
end)

test("a row of modules in segments", function()
  local net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
  local x = ml.randn(4, 3, { requires_grad = true })
  net(x):sum():backward()
  local wanted, weight = x.grad:tolist(), net[1].weight.grad:tolist()
  net:zero_grad()
  x.grad = nil
  local y = checkpoint.checkpoint_sequential(net, 2, x, { early_stop = false })
  y:sum():backward()
  expect.near(x.grad:tolist(), wanted, 1e-6)
  expect.near(net[1].weight.grad:tolist(), weight, 1e-6)
  expect.error(function() checkpoint.checkpoint_sequential({}, 1, x) end, "functions or modules")
  expect.error(function() checkpoint.checkpoint_sequential(net, 6, x) end, "6 segments of 5")
end)

test("results of some ops are kept", function()
  local w, x = ml.randn(3, 3, { requires_grad = true }), ml.randn(3, 3, { requires_grad = true })
  local function f(a) return ml.dropout(a:sin():mm(w), 0.5, true):mm(w):exp() end
  local function run(options)
    ml.manual_seed(1)
    w.grad, x.grad = nil, nil
    local names = {}
    local y = checkpoint(options, f, x)
    ml.override(function(op, arguments, call)
      names[op.name] = (names[op.name] or 0) + 1
      return call(arguments)
    end, function() y:sum():backward() end)
    return { x.grad:tolist(), w.grad:tolist() }, names
  end
  local wanted, all = run {}
  local got, fewer = run { context_fn = function()
    return checkpoint.create_selective_checkpoint_contexts { "mm" }
  end }
  expect.equal(got, wanted)
  expect.equal(all.mm - fewer.mm, 2)
  local asked = 0
  got = run { context_fn = function()
    return checkpoint.create_selective_checkpoint_contexts(function(op, arguments)
      asked = asked + 1
      return op.name == "dropout" and ml.is_tensor(arguments[1])
    end)
  end }
  expect.equal(got, wanted)
  expect.truthy(asked > 0)
  expect.error(function() checkpoint.create_selective_checkpoint_contexts { "mmm" } end,
    "there is no op 'mmm'")
  expect.error(function() checkpoint.create_selective_checkpoint_contexts {} end, "names of ops")
end)

test("frames are freed", function()
  local alive = setmetatable({}, { __mode = "k" })
  local function once()
    local big = {}
    alive[big] = true
    local x = leaf { 1 }
    local y = checkpoint(function(a, _) return a:exp() end, x, big)
    y:backward()
  end
  once()
  local x = leaf { 1 }
  for _ = 1, 4 do
    collectgarbage()
    x:exp():backward()
  end
  expect.equal(next(alive), nil)
end)

test("a chain of checkpoints needs an input for each and what one of them saves", function()
  local w = ml.randn(256, { requires_grad = true })
  local function block(x)
    local hidden = { x }
    for i = 1, 8 do hidden[i + 1] = (hidden[i] * w):tanh() end
    return hidden[#hidden] + x
  end
  local bytes, blocks = 256 * 256 * 4, 24
  local function step()
    local x = ml.ones(256, 256, { requires_grad = true })
    for _ = 1, blocks do x = checkpoint(block, x) end
    x:sum():backward()
    w.grad = nil
  end
  step()
  local before = ml.memory.live_bytes()
  local peak = ml.memory.peak_live_bytes(step) - before
  -- An input of each, the 2 * 8 results of one, and some gradients.
  expect.truthy(peak < (blocks + 16 + 8) * bytes, ("%d blocks"):format(peak // bytes))
end)

test("the collector runs after an error in a checkpoint, and where the script has stopped it not",
  function()
    local function fails() checkpoint(function() error "oh" end, leaf { 1 }) end
    expect.error(fails, "oh")
    expect.truthy(collectgarbage "isrunning")
    collectgarbage "stop"
    checkpoint(function(a) return a:exp() end, leaf { 1 }):backward()
    expect.truthy(not collectgarbage "isrunning")
    collectgarbage "restart"
    local stopped = coroutine.wrap(function()
      checkpoint(function(a) coroutine.yield() return a end, leaf { 1 })
    end)
    stopped()
    expect.truthy(collectgarbage "isrunning")
  end)

test("a node may ask more than once for what was saved", function()
  local x = ml.tensor({ 2.0 }, { requires_grad = true })
  checkpoint(function(a) return ml.where(a:gt(0), a * 3, a * 2) end, x):backward()
  expect.equal(x.grad:item(), 3.0)
end)

harness.run()
