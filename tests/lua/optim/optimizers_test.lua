-- tests/lua/optim/optimizers_test.lua: every optimiser, schedule and average against PyTorch's numbers, in
-- float32 and float64, the keys of their state dicts, and going on from a saved state.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local json = require "moonlet.json"
local ml = require "moonlet"
local optimizer_case = require "optimizer_case"
local test, expect = harness.test, harness.expect
local keys_of, plain = optimizer_case.keys_of, optimizer_case.plain
local two_groups, follow = optimizer_case.two_groups, optimizer_case.follow
local nn, optim = ml.nn, ml.optim
local lr_scheduler, swa_utils = optim.lr_scheduler, optim.swa_utils

-- Made by tests/reference/make_optimizers.py.
local REFERENCE
do
  local here = arg[0]:match("^(.*)/") or "."
  local file = assert(io.open(here .. "/../../reference/values/optimizers.json"))
  REFERENCE = json.decode(file:read "a")
  file:close()
end

local function text_of(options)
  local out = {}
  for _, key in ipairs(keys_of(options)) do out[#out + 1] = key end
  return table.concat(out, ", ")
end

for i, case in ipairs(REFERENCE.optimizers) do
  local label = ("%s, case %d (%s)"):format(case.name, i, text_of(case.options))
  test(label, function() optimizer_case.check_steps(case) end)
  test(label .. ": other ways", function() optimizer_case.check_modes(case) end)
  test(label .. ": state", function() optimizer_case.check_state(case) end)
end

-- --- schedules -------------------------------------------------------------------------------

for i, case in ipairs(REFERENCE.schedules) do
  test(("%s with %s, case %d"):format(case.name, case.optimizer, i), function()
    optimizer_case.check_schedule(case)
  end)
end

test("ChainedScheduler", function()
  local function make(optimizer)
    return lr_scheduler.ChainedScheduler {
      lr_scheduler.ConstantLR(optimizer, { factor = 0.1, total_iters = 3 }),
      lr_scheduler.ExponentialLR(optimizer, 0.9) }
  end
  local values, chained = follow(make)
  expect.near(values, plain(REFERENCE.chain.values), 1e-12)
  expect.equal(keys_of(chained:state_dict()), plain(REFERENCE.chain.keys))
  expect.near(follow(make, "SGD", 3), values, 0)
  local other = lr_scheduler.StepLR(two_groups(), 1)
  expect.error(function() lr_scheduler.ChainedScheduler {} end, "no schedules")
  expect.error(function() lr_scheduler.ChainedScheduler({ chained, other }) end, "another optimiser")
  expect.error(function() chained:load_state_dict { _schedulers = { {} } } end, "of 2 schedules")
end)

test("SequentialLR of other schedules", function()
  local function make(optimizer)
    return lr_scheduler.SequentialLR(optimizer, {
      lr_scheduler.ChainedScheduler { lr_scheduler.LinearLR(optimizer, { total_iters = 3 }),
        lr_scheduler.ExponentialLR(optimizer, 0.9) },
      lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3),
      lr_scheduler.PolynomialLR(optimizer, 4) }, { 4, 8 })
  end
  local values, sequence = follow(make)
  expect.near(values, plain(REFERENCE.sequence.values), 1e-12)
  expect.equal(keys_of(sequence:state_dict()), plain(REFERENCE.sequence.keys))
  expect.near(follow(make, "SGD", 6), values, 0)
end)

test("the state of ReduceLROnPlateau has PyTorch's keys", function()
  local schedule = lr_scheduler.ReduceLROnPlateau(two_groups())
  expect.equal(keys_of(schedule:state_dict()), plain(REFERENCE.plateau_keys))
end)

test("CosineAnnealingWarmRestarts goes to a part of an epoch", function()
  local got = {}
  for mult = 1, 2 do
    local optimizer = two_groups()
    local schedule = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3, mult)
    for _, epoch in ipairs { 0.5, 2.25, 3, 4.75, 10, 1 } do
      schedule:step(epoch)
      got[#got + 1] = optimizer.param_groups[1].lr
    end
  end
  expect.near(got, plain(REFERENCE.restarts), 1e-12)
end)

test("wrong arguments of the cyclic schedules are named", function()
  local optimizer = two_groups()
  local plain_sgd = optim.Adagrad({ nn.Parameter(ml.zeros(1)) })
  expect.error(function() lr_scheduler.OneCycleLR(optimizer, 0.1) end, "'total_steps', or 'epochs'")
  expect.error(function() lr_scheduler.OneCycleLR(optimizer, { 0.1 }, 5) end, "'max_lr' has 1 numbers")
  expect.error(function() lr_scheduler.OneCycleLR(optimizer, 0.1, 5, { pct_start = 2 }) end, "from 0 to 1")
  expect.error(function() lr_scheduler.OneCycleLR(plain_sgd, 0.1, 5) end, "momentum or betas, Adagrad")
  expect.error(function() lr_scheduler.CyclicLR(optimizer, 0.1, 1, { mode = "up" }) end, "triangular")
  expect.error(function() lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 0) end, "'T_0'")
  expect.error(function() lr_scheduler.OneCycleLR(optimizer, 0.1, 10, { pct_start = 0.1 }) end, "no steps")
  expect.error(function()
    lr_scheduler.CyclicLR(optimizer, 0.1, 1, { scale_fn = function() return "x" end })
  end, "'scale_fn' must return a number, got \"x\"")
  expect.error(function() lr_scheduler.LambdaLR(optimizer, function() end) end,
    "'lr_lambda' must return a number, got nil")
  local schedule = lr_scheduler.OneCycleLR(two_groups(), 0.1, 2)
  schedule:step()
  schedule:step()
  expect.error(function() schedule:step() end, "step 3 is beyond the total of 2")
  expect.error(function() schedule:load_state_dict { last_epoch = 1, _last_lr = 3 } end,
    "'_last_lr' of OneCycleLR must be a table, got a number")
end)

-- --- averages --------------------------------------------------------------------------------

local function flat_state(net)
  local out = {}
  for name, x in pairs(net:state_dict()) do out[name] = x:reshape(-1):tolist() end
  return out
end

local AVERAGES = {
  mean = function() return {} end,
  swa = function() return { avg_fn = swa_utils.get_swa_avg_fn() } end,
  swa_multi = function() return { multi_avg_fn = swa_utils.get_swa_multi_avg_fn() } end,
  ema = function() return { avg_fn = swa_utils.get_ema_avg_fn(0.9) } end,
  ema_multi = function() return { multi_avg_fn = swa_utils.get_ema_multi_avg_fn(0.8) } end,
  buffers = function()
    return { use_buffers = true, multi_avg_fn = swa_utils.get_ema_multi_avg_fn(0.5) }
  end,
}

for name, make in pairs(AVERAGES) do
  test("AveragedModel: " .. name, function()
    local net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    local _ <close> = ml.no_grad()
    for i, p in ipairs(net:parameters()) do
      p:copy_(ml.arange(0, p:numel() - 1):reshape(p.shape) * 0.5 - (i - 1))
    end
    local averaged = swa_utils.AveragedModel(net, make())
    for step = 0, 3 do
      for _, p in ipairs(net:parameters()) do p:mul_(0.5):add_(step) end
      net[2].running_mean:add_(step + 1)
      net[2].num_batches_tracked:add_(3)
      averaged:update_parameters(net)
    end
    expect.near(flat_state(averaged), plain(REFERENCE.averages[name]), 1e-6)
    expect.equal(averaged.n_averaged:item(), 4)
    expect.truthy(averaged.module[1].weight.requires_grad)
    expect.equal(averaged(ml.ones(2, 2)).shape, averaged.module(ml.ones(2, 2)).shape)
  end)
end

test("wrong arguments of AveragedModel are named", function()
  local net = nn.Linear(2, 1)
  local f = swa_utils.get_swa_avg_fn()
  expect.error(function() swa_utils.AveragedModel(net, { avg_fn = f, multi_avg_fn = f }) end, "exclude")
  expect.error(function() swa_utils.AveragedModel(3) end, "'model'")
  expect.error(function() swa_utils.get_ema_avg_fn(1.5) end, "from 0 to 1")
  local averaged = swa_utils.AveragedModel(net)
  expect.error(function() averaged:update_parameters(nn.Linear(3, 1)) end, "tensor 1 has shape")
  expect.error(function() averaged:update_parameters(nn.Linear(2, 1, { bias = false })) end, "1 tensors")
  expect.error(function() swa_utils.update_bn(3, net) end, "'loader' must be an array of batches")
end)

test("update_bn", function()
  local function batches()
    local out = {}
    for i = 1, 3 do out[i] = ml.tensor { { 1.0, 2.0 }, { 3.0, -1.0 }, { 0.5, 0.0 } } * i end
    return out
  end
  local function check(loader)
    local net = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2, { bias = false }), nn.BatchNorm1d(2))
    ml.no_grad(function() net[2].weight:copy_(ml.tensor { { 1.0, 2.0 }, { -0.5, 0.25 } }) end)
    net:eval()
    swa_utils.update_bn(loader, net)
    expect.near(flat_state(net), plain(REFERENCE.update_bn), 1e-6)
    expect.falsy(net.training)
    expect.near(net[1].momentum, 0.1)
  end
  check(batches())
  local list, at = batches(), 0
  for i, x in ipairs(list) do list[i] = { x, "target" } end
  check(function()
    at = at + 1
    return list[at]
  end)
  check(ml.data.DataLoader(ml.data.TensorDataset(ml.cat(batches())), 3))
  local broken = nn.Sequential(nn.BatchNorm1d(2))
  expect.error(function() swa_utils.update_bn({ ml.ones(2, 3) }, broken) end, ".")
  expect.near(broken[1].momentum, 0.1)
end)

harness.run()
