-- tests/lua/nn/callables_test.lua: what takes a function takes any value that can be called: modules,
-- and objects with `__call`.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect

local net = ml.nn.Linear(2, 2)
local x = ml.ones(1, 2)

-- An object that calls f, and counts.
local function object(f)
  local meta = { count = 0 }
  function meta.__call(_, ...)
    meta.count = meta.count + 1
    return f(...)
  end
  return setmetatable({}, meta), meta
end

local function pass(_, arguments, call) return call(arguments) end
local function same(t) return t end

-- Functions that run another one: name -> what runs it.
local runners = {
  no_grad = ml.no_grad,
  enable_grad = ml.enable_grad,
  inference_mode = ml.inference_mode,
  ["inference_mode with a flag"] = function(...) return ml.inference_mode(false, ...) end,
  set_grad_enabled = function(...) return ml.set_grad_enabled(true, ...) end,
  autocast = function(...) return ml.autocast({ enabled = false }, ...) end,
  ["autocast by position"] = function(...) return ml.autocast("cpu", nil, false, ...) end,
  override = function(...) return ml.override(pass, ...) end,
  scope = ml.scope,
  fork_rng = function(...) return ml.random.fork_rng({}, ...) end,
  saved_tensors_hooks = function(...) return ml.autograd.graph.saved_tensors_hooks(same, same, ...) end,
  save_on_cpu = function(...) return ml.autograd.graph.save_on_cpu({}, ...) end,
  disable_saved_tensors_hooks = function(...)
    return ml.autograd.graph.disable_saved_tensors_hooks("no", ...)
  end,
  allow_mutation_on_saved_tensors = ml.autograd.graph.allow_mutation_on_saved_tensors,
  detect_anomaly = ml.autograd.detect_anomaly,
  ["detect_anomaly with options"] = function(...)
    return ml.autograd.detect_anomaly({ check_nan = false }, ...)
  end,
  record_function = function(...) return ml.autograd.profiler.record_function("r", ...) end,
  checkpoint = ml.utils.checkpoint,
  set_checkpoint_early_stop = function(...)
    return ml.utils.checkpoint.set_checkpoint_early_stop(false, ...)
  end,
}

for name, run in pairs(runners) do
  test(name .. " runs a module and an object", function()
    local y = run(net, x)
    expect.truthy(ml.allclose(y:detach(), net(x):detach()))
    local callable, meta = object(function(t, n) return t + n, n end)
    local sum, n = run(callable, x, 3)
    expect.equal(sum:sum():item(), 8)
    expect.equal(n, 3)
    expect.truthy(meta.count >= 1)
  end)
end

test("profile runs an object", function()
  local callable, meta = object(function(t) return t + 1 end)
  ml.autograd.profiler.profile({}, callable, x)
  expect.equal(meta.count, 1)
end)

test("transforms take objects", function()
  local cube = object(function(t) return (t ^ 3):sum() end)
  local two = ml.tensor { 2.0 }
  local function close(t, value) expect.truthy(math.abs(t:sum():item() - value) < 1e-4) end
  close(ml.func.grad(cube)(two), 12)
  close((ml.func.grad_and_value(cube)(two)), 12)
  close(ml.func.vmap(cube)(ml.ones(3, 1)), 3)
  local _, back = ml.func.vjp(cube, two)
  close(back(ml.tensor(1.0)), 12)
  local _, tangent = ml.func.jvp(cube, { two }, { ml.ones(1) })
  close(tangent, 12)
  close(ml.func.jacrev(cube)(two), 12)
  close(ml.func.jacfwd(cube)(two), 12)
  close(ml.func.hessian(cube)(two), 12)
  local _, linear = ml.func.linearize(cube, two)
  close(linear(ml.ones(1)), 12)
  close(ml.autograd.functional.jacobian(cube, two), 12)
  close(ml.autograd.functional.hessian(cube, two), 12)
  expect.truthy(ml.autograd.gradcheck(cube, { ml.tensor({ 2.0 }, { dtype = "float64", requires_grad = true }) }))
  expect.equal(tostring(ml.func.vmap(net)(ml.ones(3, 2)).shape), "(3, 2)")
end)

test("hooks and handlers are objects", function()
  local w = ml.ones { 2, requires_grad = true }
  local double, doubled = object(function(g) return g * 2 end)
  local after, seen = object(function() end)
  w:register_hook(double)
  w:register_post_accumulate_grad_hook(after)
  local y = w * 3
  local pre, pres = object(function() end)
  local post, posts = object(function() end)
  y.grad_fn:register_prehook(pre)
  y.grad_fn:register_hook(post)
  y:sum():backward()
  expect.equal(w.grad:sum():item(), 12)
  expect.equal(doubled.count, 1)
  expect.equal(seen.count, 1)
  expect.equal(pres.count, 1)
  expect.equal(posts.count, 1)
  local handler, calls = object(pass)
  ml.override(handler, function() return ml.ones(2) + 1 end)
  expect.truthy(calls.count > 0)
  local pack, packed = object(same)
  local unpack, unpacked = object(same)
  ml.autograd.graph.saved_tensors_hooks(pack, unpack, function() return w:exp() end):sum():backward()
  expect.truthy(packed.count > 0)
  expect.truthy(unpacked.count > 0)
end)

test("what cannot be called is refused", function()
  for _, wrong in ipairs { {}, "f", 1, x, setmetatable({}, { __index = {} }) } do
    expect.error(function() ml.no_grad(wrong) end, "no_grad")
    expect.error(function() ml.autocast({}, wrong) end, "autocast")
    expect.error(function() ml.scope(wrong) end, "a function is expected")
    expect.error(function() ml.ones { 1, requires_grad = true }:register_hook(wrong) end, "a function is expected")
    expect.error(function() ml.override(wrong) end, "a function")
    expect.error(function() ml.utils.checkpoint(wrong) end, "checkpoint")
  end
end)

harness.run()
