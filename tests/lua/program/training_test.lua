-- tests/lua/program/training_test.lua: whole steps of training, compiled and plain side by side:
-- weights, gradients and what optimisers count stay the same to the last bit.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local case = require "program_case"
local test, expect = harness.test, harness.expect
local nn, optim = ml.nn, ml.optim

-- A step of training as `make(net, ...)` makes it, of two equal nets; both after `count` steps.
local function beside(new_net, make, count, between)
  local sides = {}
  for i = 1, 2 do
    ml.manual_seed(3)
    local net = new_net()
    local step, opt = make(net)
    sides[i] = { net = net, step = step, opt = opt }
  end
  sides[2].step = ml.compile(sides[2].step)
  for i = 1, count do
    local losses = {}
    for k, side in ipairs(sides) do
      if between then between(side, i) end
      ml.manual_seed(i)
      losses[k] = side.step(ml.randn(8, 4), ml.randint(3, { 8 }))
    end
    expect.truthy(case.same(losses[1], losses[2]), "the losses of step " .. i)
  end
  local plain, fast = sides[1].net:parameters(), sides[2].net:parameters()
  for i, p in ipairs(plain) do
    expect.truthy(p:detach():equal(fast[i]:detach()), "weight " .. i)
    expect.equal(p.grad == nil, fast[i].grad == nil)
    if p.grad then expect.truthy(p.grad:equal(fast[i].grad), "gradient " .. i) end
  end
  return sides[2].step, sides
end

local function mlp() return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)) end

local function stepper(new_optimizer, inside)
  return function(net)
    local opt = new_optimizer(net:parameters())
    return function(x, y)
      opt:zero_grad()
      local loss = ml.cross_entropy(net(x), y)
      loss:backward()
      if inside then inside(net) end
      opt:step()
      return loss:detach()
    end, opt
  end
end

test("relu that is a part of the convolution before it", function()
  local fast = beside(function()
    return nn.Sequential(nn.Unflatten(2, { 1, 2, 2 }), nn.Conv2d(1, 6, 2, { padding = 1 }), nn.ReLU(), nn.Conv2d(6, 3, 3),
      nn.ReLU(), nn.Flatten())
  end, stepper(function(parameters) return optim.SGD(parameters, { lr = 0.1 }) end), 8)
  case.expect_runs(fast, 3)
end)

local OPTIMIZERS = {
  SGD = { lr = 0.1, momentum = 0.9 }, Adam = { lr = 0.01 }, AdamW = { lr = 0.01 },
  RMSprop = { lr = 0.01 }, Adagrad = { lr = 0.01 }, NAdam = { lr = 0.01 }, RAdam = { lr = 0.01 },
  Lion = { lr = 0.01 }, Adamax = { lr = 0.01 },
}

test("optimisers count their steps in compiled steps too", function()
  for name, options in pairs(OPTIMIZERS) do
    local fast, sides = beside(mlp, stepper(function(p) return optim[name](p, options) end), 9)
    case.expect_runs(fast, 4)
    local counted = {}
    for k, side in ipairs(sides) do
      for _, state in pairs(side.opt.state) do counted[k] = state.step end
    end
    expect.equal(counted[2], counted[1], name)
  end
end)

test("a compiled step asks for the numbers that an eager one computes", function()
  local expressions, numbers = require "moonlet.optim.expressions", require "moonlet.optim.numbers"
  local group = { lr = 0.01, weight_decay = 0.1, betas = { 0.9, 0.95 }, eps = 1e-7, momentum = 0.3,
    dampening = 0.1, nesterov = false, lr_decay = 0.1, rho = 0.8, alpha = 0.7, lambd = 1e-3, t0 = 3,
    momentum_decay = 0.01, etas = { 0.5, 1.2 }, step_sizes = { 1e-6, 40 }, maximize = true }
  local counts = { step = 7, eta = 0.1, mu = 0.9, mu_product = 0.5 }
  local function alike(a, b) return a == b and math.type(a) == math.type(b) end
  for _, source in ipairs(require("moonlet.optimizers").rows) do
    local row, now = expressions.row(source.name), {}
    for _, decoupled in ipairs { false, true } do
      local options = numbers.options(group, { decoupled = decoupled })
      local given = expressions.numbers(row, options, counts, false)
      local want = table.pack(select(3 + #row.states, expressions.arguments(row, {}, {}, {}, given)))
      local got = table.pack(row.asked(group, decoupled, counts, now))
      expect.equal(got.n, want.n)
      for i = 1, want.n do expect.truthy(alike(got[i], want[i]), source.name, row.arguments[i]) end
      for _, name in ipairs(row.counted) do expect.truthy(alike(now[name], given[name]), name) end
    end
  end
end)

test("a rate that is a tensor is read before each step", function()
  beside(mlp, stepper(function(p) return optim.Adam(p, { lr = ml.tensor(0.1) }) end), 8,
    function(side, i) side.opt.param_groups[1].lr:fill_(0.1 / i) end)
end)

test("a scheduler changes the rate between steps, and the plan stays", function()
  local schedulers = {}
  local fast = beside(mlp, stepper(function(p) return optim.AdamW(p, { lr = 0.1 }) end), 12,
    function(side, i)
      schedulers[side] = schedulers[side]
        or optim.lr_scheduler.StepLR(side.opt, { step_size = 2, gamma = 0.5 })
      if i > 1 then schedulers[side]:step() end
    end)
  case.expect_runs(fast, 8)
end)

test("an option that is no rate captures again", function()
  local fast = beside(mlp, stepper(function(p) return optim.SGD(p, { lr = 0.1, momentum = 0.9 }) end), 12,
    function(side, i) if i == 7 then side.opt.param_groups[1].momentum = 0.5 end end)
  case.expect_runs(fast, 4)
end)

test("a rate that the function returns is watched", function()
  local sides = {}
  local fast = beside(mlp, function(net)
    local opt = optim.SGD(net:parameters(), { lr = 0.5 })
    sides[#sides + 1] = opt
    return function(x, y)
      opt:zero_grad()
      local loss = ml.cross_entropy(net(x), y)
      loss:backward()
      opt:step()
      return loss:detach(), opt.param_groups[1].lr
    end, opt
  end, 10, function(side, i) if i == 6 then side.opt.param_groups[1].lr = 0.25 end end)
  local _, rate = fast(ml.randn(8, 4), ml.randint(3, { 8 }))
  expect.equal(rate, 0.25)
end)

test("a tape that is there at one capture and not at the next", function()
  local net = mlp()
  local step = stepper(function(p) return optim.SGD(p, { lr = 0.1 }) end)(net)
  -- Of the last layer alone, so that its leaves are older than those before it.
  local fast, held = ml.compile(step), net[3](ml.ones(8, 16))
  for i = 1, 8 do
    fast(ml.randn(8, 4), ml.randint(3, { 8 }))
    if i == 2 then
      held = nil
      collectgarbage()
    end
  end
  expect.equal(held, nil)
  expect.truthy(fast:explain():find "captured anew, without garbage")
  case.expect_runs(fast, 3)
end)

test("gradients are clipped inside", function()
  local fast = beside(mlp, stepper(function(p) return optim.Adam(p, { lr = 0.01 }) end,
    function(net) nn.utils.clip_grad_norm_(net:parameters(), 0.1) end), 9)
  case.expect_runs(fast, 3)
end)

test("gradients that stay are added to", function()
  local fast = beside(mlp, function(net)
    return function(x, y)
      local loss = ml.cross_entropy(net(x), y)
      loss:backward()
      return loss:detach()
    end
  end, 9)
  case.expect_runs(fast, 4)
end)

test("gradients that are dropped outside, or not, are seen", function()
  beside(mlp, function(net)
    return function(x, y)
      local loss = ml.cross_entropy(net(x), y)
      loss:backward()
      return loss:detach()
    end
  end, 14, function(side, i) if i % 4 == 1 then side.net:zero_grad() end end)
end)

test("a gradient that was taken stays what it was", function()
  local net = mlp()
  local opt = optim.SGD(net:parameters(), { lr = 0.1 })
  local step = ml.compile(function(x)
    opt:zero_grad()
    net(x):pow(2):sum():backward()
    opt:step()
  end)
  local x = ml.randn(8, 4)
  for _ = 1, 5 do step(x) end
  case.expect_runs(step, 1)
  local taken = net[1].weight.grad
  local copy = taken:clone()
  step(x)
  expect.truthy(taken:equal(copy))
  expect.falsy(net[1].weight.grad:equal(copy))
end)

test("a gradient that nobody has taken is replaced where it lies", function()
  local net = mlp()
  local plain = stepper(function(p) return optim.SGD(p, { lr = 0.1 }) end)(net)
  local step = ml.compile(plain)
  local function next_position()
    collectgarbage()  -- what the script has seen of a gradient holds it
    step(ml.randn(8, 4), ml.randint(3, { 8 }))
    return net[1].weight.grad:data_ptr()
  end
  for _ = 1, 5 do next_position() end
  case.expect_runs(step, 1)
  local position = next_position()
  expect.equal(next_position(), position)
  local taken = net[1].weight.grad
  local copy = taken:clone()
  expect.falsy(next_position() == position)
  expect.truthy(taken:equal(copy))
  local view = net[1].weight.grad:view(-1)
  copy = view:clone()
  next_position()
  expect.truthy(view:equal(copy))
end)

test("a hook that comes later runs", function()
  local net = mlp()
  local step = ml.compile(function(x) net(x):sum():backward() end)
  for _ = 1, 5 do step(ml.ones(2, 4)) end
  case.expect_runs(step, 1)
  local seen = 0
  net[1].weight:register_hook(function() seen = seen + 1 end)
  step(ml.ones(2, 4))
  step(ml.ones(2, 4))
  expect.equal(seen, 2)
end)

test("dropout and batch norm inside a step", function()
  local fast, sides = beside(function()
    return nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
  end, stepper(function(p) return optim.SGD(p, { lr = 0.1 }) end), 9)
  case.expect_runs(fast, 4)
  for _, name in ipairs { "running_mean", "running_var" } do
    expect.truthy(sides[1].net[2][name]:equal(sides[2].net[2][name]), name)
  end
end)

test("the states of an optimiser are saved and loaded between steps", function()
  local fast = beside(mlp, stepper(function(p) return optim.Adam(p, { lr = 0.01 }) end), 12,
    function(side, i)
      if i == 7 then side.opt:load_state_dict(side.opt:state_dict()) end
    end)
  case.expect_runs(fast, 3)
end)

test("a step of one parameter that was counted apart", function()
  beside(mlp, stepper(function(p) return optim.Adam(p, { lr = 0.01 }) end), 12, function(side, i)
    if i == 8 then side.opt.state[side.net[1].weight].step = 1 end
  end)
end)

-- --- rows at a time --------------------------------------------------------------------------

test("chains around reductions and dropout of many rows, with their gradients", function()
  local threads = ml.get_num_threads()
  ml.set_num_threads(1)
  local w = ml.randn { 100, requires_grad = true }
  local function step(x)
    local y = ml.dropout((x * 2 + w):softmax(2) * w, 0.3, true)
    local loss = ((y - x) * (y - x)):mean()
    return loss:detach(), ml.grad(loss, { w })[1], (x * ml.rsqrt((x * x):mean(2, true) + 1e-6)):amax(2)
  end
  local fast = ml.compile(step)
  case.compare(fast, step, function(i)
    ml.manual_seed(i)
    return ml.randn(3000, 100)
  end, 6)
  case.expect_runs(fast, 4)
  expect.truthy(fast:explain():find "fused: [^\n]*softmax[^\n]* rows at once")
  expect.truthy(fast:explain():find "fused: [^\n]*mean[^\n]* rows at once")
  ml.set_num_threads(threads)
end)

test("explain says what was not fused, and why", function()
  local fast = ml.compile(function(x) return ml.mm(x, x), x:sum(1) end)
  for _ = 1, 3 do fast(ml.ones(4, 4)) end
  local text = fast:explain()
  expect.truthy(text:find("not fused: mm: a product, by a kernel of its own", 1, true))
  expect.truthy(text:find "not fused: sum: over other than the last dimensions")
end)

harness.run(arg[1])
