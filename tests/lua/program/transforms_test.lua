-- tests/lua/program/transforms_test.lua: derivatives by `ml.func`, and hooks, inside compiled
-- functions: what is captured, and what stays eager for a reason that is told.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local case = require "program_case"
local test, expect = harness.test, harness.expect
local nn, func = ml.nn, ml.func

local function rows(i)
  ml.manual_seed(i)
  return ml.randn(3, 4)
end

test("transforms of ml.func inside are captured", function()
  local w = ml.randn(4, 4)
  local functions = {
    function(x) return func.grad(function(v) return (v * v):sum() end)(x) end,
    function(x) return func.grad_and_value(function(v) return v:matmul(w):tanh():sum() end)(x) end,
    function(x)
      local y, back = func.vjp(function(v) return v:tanh() end, x)
      return y, back(x)
    end,
    function(x) return func.jvp(function(v) return v:sin() * v end, { x }, { x * 2 }) end,
    function(x) return ml.vmap(function(v) return v * 2 + v:sum() end)(x) end,
    function(x) return ml.vmap(func.grad(function(v) return (v * v * v):sum() end))(x) end,
    function(x) return func.jacrev(function(v) return v:sin():sum(1) end)(x) end,
    function(x) return func.jacfwd(function(v) return v:exp():sum(2) end)(x) end,
    function(x) return func.hessian(function(v) return (v:sin() * v):sum() end)(x) end,
    function(x)
      local own = x:clone():requires_grad_()
      return (ml.grad((own * own):sum(), own))
    end,
  }
  for i, f in ipairs(functions) do
    local fast = ml.compile(f)
    case.compare(fast, f, rows, 7)
    local ok, message = pcall(case.expect_runs, fast, 2)
    expect.truthy(ok, ("function %d: %s"):format(i, tostring(message)))
  end
end)

test("hooks on tensors that a step makes run inside of its plan", function()
  local w = ml.randn { 4, 4, requires_grad = true }
  local scale = 2
  local function step(x)
    local y = x:matmul(w)
    y:register_hook(function(g) return g * scale end)
    y:tanh():sum():backward()
  end
  local fast = ml.compile(step)
  for i = 1, 9 do
    if i == 7 then scale = 3 end
    w.grad = nil
    step(rows(i))
    local want = w.grad
    w.grad = nil
    fast(rows(i))
    expect.truthy(w.grad:equal(want), i)
  end
  case.expect_runs(fast, 3)
end)

test("module hooks of the forward pass", function()
  local net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
  net[1]:register_forward_hook(function(_, _, y) return y * 2 end)
  local fast = ml.compile(net)
  case.compare(fast, net, rows, 5)
  case.expect_runs(fast, 3)
end)

test("hooks on what outlives the call stay eager, and say so", function()
  local w = ml.randn { 4, 4, requires_grad = true }
  local function on_argument(x)
    x:register_hook(function(g) return g * 2 end)
    return x * 2
  end
  local fast = ml.compile(on_argument)
  for _ = 1, 4 do
    local x = rows(1):requires_grad_()
    fast(x):sum():backward()
    expect.truthy(x.grad:equal(ml.full({ 3, 4 }, 4.0)))
  end
  case.expect_eager(fast, "calls register_hook")
  local seen = ml.compile(function(x)
    local y = x:matmul(w)
    y:register_hook(function(g) return g * 2 end)
    return y * 1
  end)
  for _ = 1, 5 do
    w.grad = nil
    seen(ml.ones(3, 4)):sum():backward()
    expect.truthy(w.grad:equal(ml.full({ 4, 4 }, 6.0)))
  end
  case.expect_eager(seen, "a hook, or retain_grad, is set on a tensor inside")
end)

test("a checkpoint inside stays eager, as it keeps the random numbers' state", function()
  local w = ml.randn { 4, 4, requires_grad = true }
  local checkpoint = require "moonlet.utils.checkpoint".checkpoint
  local fast = ml.compile(function(x) return checkpoint(function(v) return v:matmul(w):tanh() end, x) end)
  for i = 1, 5 do fast(rows(i)):sum():backward() end
  case.expect_eager(fast, "calls get_rng_state")
end)

harness.run(arg[1])
