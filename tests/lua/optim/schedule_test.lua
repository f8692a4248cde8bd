-- tests/lua/optim/schedule_test.lua: learning-rate schedules against PyTorch's rates: alone, two on one
-- optimiser, after a rate set by hand and a group added later; their state.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local optim = ml.optim
local lr_scheduler = optim.lr_scheduler

-- Made by tests/reference/make_schedules.py.
local CASES = {
  { { { "StepLR", { 3 }, { gamma = 0.5 } } }, {  },
    { { 0.1 }, { 0.1 }, { 0.1 }, { 0.05 }, { 0.05 }, { 0.05 }, { 0.025 }, { 0.025 }, { 0.025 }, { 0.0125 } } },
  { { { "MultiStepLR", { { 2, 5, 5 } }, { gamma = 0.5 } } }, {  },
    { { 0.1 }, { 0.1 }, { 0.05 }, { 0.05 }, { 0.05 }, { 0.0125 }, { 0.0125 }, { 0.0125 }, { 0.0125 }, { 0.0125
      } } },
  { { { "ConstantLR", {  }, { factor = 0.25, total_iters = 4 } } }, {  },
    { { 0.025 }, { 0.025 }, { 0.025 }, { 0.025 }, { 0.1 }, { 0.1 }, { 0.1 }, { 0.1 }, { 0.1 }, { 0.1 } } },
  { { { "LinearLR", {  }, { start_factor = 0.25, end_factor = 0.75, total_iters = 4 } } }, {  },
    { { 0.025 }, { 0.0375 }, { 0.05 }, { 0.0625 }, { 0.075 }, { 0.075 }, { 0.075 }, { 0.075 }, { 0.075 }, {
      0.075 } } },
  { { { "ExponentialLR", { 0.9 }, {  } } }, {  },
    { { 0.1 }, { 0.09 }, { 0.081 }, { 0.0729 }, { 0.06561 }, { 0.059049 }, { 0.0531441 }, { 0.04782969 }, {
      0.043046721 }, { 0.0387420489 } } },
  { { { "CosineAnnealingLR", { 4 }, { eta_min = 0.01 } } }, {  },
    { { 0.1 }, { 0.0868198051533946 }, { 0.055 }, { 0.0231801948466054 }, { 0.01 }, { 0.0231801948466054 }, {
      0.055 }, { 0.0868198051533947 }, { 0.1 }, { 0.0868198051533947 } } },
  { { { "LambdaLR", { "f" }, {  } } }, {  },
    { { 0.1 }, { 0.08 }, { 0.0666666666666667 }, { 0.0571428571428571 }, { 0.05 }, { 0.0444444444444444 }, {
      0.04 }, { 0.0363636363636364 }, { 0.0333333333333333 }, { 0.0307692307692308 } } },
  { { { "MultiplicativeLR", { "f" }, {  } } }, {  },
    { { 0.1 }, { 0.08 }, { 0.0533333333333333 }, { 0.0304761904761905 }, { 0.0152380952380952 }, {
      0.00677248677248677 }, { 0.00270899470899471 }, { 0.000985088985088985 }, { 0.000328362995029662 }, {
      0.000101034767701434 } } },
  { { { "StepLR", { 2 }, {  } }, { "CosineAnnealingLR", { 6 }, {  } } }, {  },
    { { 0.1 }, { 0.0933012701892219 }, { 0.0075 }, { 0.005 }, { 0.00025 }, { 6.69872981077807e-05 }, { 0 }, {
      0.00669872981077806 }, { 0.0025 }, { 0.005 } } },
  { { { "LinearLR", {  }, { total_iters = 3 } }, { "ExponentialLR", { 0.8 }, {  } } }, {  },
    { { 0.0333333333333333 }, { 0.0444444444444445 }, { 0.0497777777777778 }, { 0.0512 }, { 0.04096 }, {
      0.032768 }, { 0.0262144 }, { 0.02097152 }, { 0.016777216 }, { 0.0134217728 } } },
  { { { "StepLR", { 3 }, {  } } }, { [2] = 0.5 },
    { { 0.1 }, { 0.1 }, { 0.1 }, { 0.05 }, { 0.05 }, { 0.05 }, { 0.005 }, { 0.005 }, { 0.005 }, { 0.0005 } } },
  { { { "CosineAnnealingLR", { 8 }, {  } } }, { [3] = 0.05 },
    { { 0.1 }, { 0.0961939766255643 }, { 0.0853553390593274 }, { 0.0691341716182545 }, { 0.0361615673042922 },
      { 0.0223231346085845 }, { 0.0105914778450935 }, { 0.00275263540832729 }, { 0 }, { 0.00380602337443566 }
      } },
  { { { "LambdaLR", { "f" }, {  } } }, { [2] = 0.5 },
    { { 0.1 }, { 0.08 }, { 0.0666666666666667 }, { 0.0571428571428571 }, { 0.05 }, { 0.0444444444444444 }, {
      0.04 }, { 0.0363636363636364 }, { 0.0333333333333333 }, { 0.0307692307692308 } } },
  { { { "StepLR", { 2 }, {  } } }, { [3] = "group" },
    { { 0.1 }, { 0.1 }, { 0.01 }, { 0.01 }, { 0.001, 0.04 }, { 0.001, 0.04 }, { 0.0001, 0.004 }, { 0.0001,
      0.004 }, { 1e-05, 0.0004 }, { 1e-05, 0.0004 } } },
  { { { "CosineAnnealingLR", { 12 }, {  } } }, { [3] = "group" },
    { { 0.1 }, { 0.0982962913144534 }, { 0.0933012701892219 }, { 0.0853553390593274 }, { 0.075,
      0.351471862576143 }, { 0.0629409522551261, 0.294959649619003 }, { 0.05, 0.234314575050762 }, {
      0.037059047744874, 0.173669500482521 }, { 0.025, 0.117157287525381 }, { 0.0146446609406726,
      0.068629150101524 } } },
}
local PLATEAUS = {
  { { patience = 1 },
    { 0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01, 0.001, 0.001, 0.0001, 0.0001 } },
  { { patience = 0, cooldown = 2, factor = 0.5 },
    { 0.1, 0.1, 0.05, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025, 0.0125, 0.0125 } },
  { { mode = "max", patience = 2, threshold_mode = "abs", threshold = 0.05, min_lr = 0.03 },
    { 0.1, 0.1, 0.1, 0.03, 0.03, 0.03, 0.03, 0.03, 0.03, 0.03, 0.03 } },
}
local SEQUENCES = {
  {
    { { "LinearLR", {  }, { start_factor = 0.25, total_iters = 3 } }, { "CosineAnnealingLR", { 5 }, {  } } },
      { 3 },
    { 0.025, 0.05, 0.075, 0.1, 0.0904508497187474, 0.0654508497187474, 0.0345491502812526,
      0.00954915028125263, 0, 0.00954915028125263 } },
  {
    { { "ConstantLR", {  }, { factor = 0.1, total_iters = 2 } }, { "ExponentialLR", { 0.9 }, {  } }, {
      "StepLR", { 2 }, {  } } }, { 2, 5 },
    { 0.01, 0.01, 0.1, 0.09, 0.081, 0.1, 0.1, 0.01, 0.01, 0.001 } },
  {
    { { "LambdaLR", { "f" }, {  } }, { "LambdaLR", { "f" }, {  } } }, { 4 },
    { 0.1, 0.08, 0.0666666666666667, 0.0571428571428571, 0.1, 0.08, 0.0666666666666667, 0.0571428571428571,
      0.05, 0.0444444444444444 } },
}
local METRICS = { 1.0, 0.9, 0.9, 0.9, 0.95, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8 }

local function factor(epoch) return 1 / (1 + epoch / 4) end

local function parameter(size)
  return ml.nn.Parameter(ml.zeros(size or 1))
end

local function make(optimizer, schedules)
  local made = {}
  for i, entry in ipairs(schedules) do
    local arguments = { table.unpack(entry[2]) }
    for j, argument in ipairs(arguments) do
      if argument == "f" then arguments[j] = factor end
    end
    arguments[#arguments + 1] = entry[3]
    made[i] = lr_scheduler[entry[1]](optimizer, table.unpack(arguments))
  end
  return made
end

local function rates_of(optimizer)
  local out = {}
  for i, group in ipairs(optimizer.param_groups) do out[i] = group.lr end
  return out
end

-- The rates of ten epochs; at epoch `resume`, if any, the state goes to a new optimiser.
local function run(case, resume)
  local optimizer = optim.SGD({ parameter() }, { lr = 0.1 })
  local made, out = make(optimizer, case[1]), {}
  for epoch = 0, 9 do
    if epoch == resume then
      local states = { optimizer = optimizer:state_dict() }
      for i, schedule in ipairs(made) do states[i] = schedule:state_dict() end
      harness.with_temp_file(function(path)
        ml.save(path, states)
        states = ml.load(path)
      end)
      optimizer = optim.SGD({ parameter() }, { lr = 7 })
      made = make(optimizer, case[1])
      optimizer:load_state_dict(states.optimizer)
      for i, schedule in ipairs(made) do schedule:load_state_dict(states[i]) end
    end
    out[#out + 1] = rates_of(optimizer)
    local change = case[2][epoch]
    if change == "group" then
      optimizer:add_param_group { params = { parameter(2) }, lr = 0.4 }
    elseif change then
      optimizer.param_groups[1].lr = change
    end
    for _, schedule in ipairs(made) do schedule:step() end
  end
  return out, made
end

for i, case in ipairs(CASES) do
  local names = {}
  for j, entry in ipairs(case[1]) do names[j] = entry[1] end
  local name = table.concat(names, " and ")
  test(("%s as PyTorch's, case %d"):format(name, i), function()
    local rates, made = run(case)
    expect.near(rates, case[3], 1e-12)
    expect.equal(made[1].last_epoch, 10)
  end)
  if next(case[2]) == nil then
    test(("%s goes on from a saved state, case %d"):format(name, i), function()
      expect.near(run(case, 4), case[3], 1e-12)
    end)
  end
end

for i, case in ipairs(PLATEAUS) do
  test(("ReduceLROnPlateau as PyTorch's, case %d"):format(i), function()
    local optimizer = optim.SGD({ parameter() }, { lr = 0.1 })
    local schedule, rates = lr_scheduler.ReduceLROnPlateau(optimizer, case[1]), {}
    for j, metric in ipairs(METRICS) do
      schedule:step(j % 2 == 0 and metric or ml.tensor(metric, { dtype = ml.float64 }))
      rates[j] = rates_of(optimizer)[1]
    end
    expect.near(rates, case[2], 1e-12)
    expect.near(schedule:get_last_lr(), rates_of(optimizer))
  end)
end

for i, case in ipairs(SEQUENCES) do
  test(("SequentialLR as PyTorch's, case %d"):format(i), function()
    local function begin()
      local optimizer = optim.SGD({ parameter() }, { lr = 0.1 })
      return optimizer, lr_scheduler.SequentialLR(optimizer, make(optimizer, case[1]), case[2])
    end
    local optimizer, schedule = begin()
    local rates = {}
    for epoch = 1, 10 do
      rates[epoch] = rates_of(optimizer)[1]
      schedule:step()
      if epoch == 4 then
        local states = { optimizer:state_dict(), schedule:state_dict() }
        optimizer, schedule = begin()
        optimizer:load_state_dict(states[1])
        schedule:load_state_dict(states[2])
      end
    end
    expect.near(rates, case[3], 1e-12)
    expect.near(schedule:get_last_lr(), rates_of(optimizer))
  end)
end

test("sequences that do not fit are refused", function()
  local optimizer = optim.SGD({ parameter() }, { lr = 0.1 })
  local other = lr_scheduler.StepLR(optim.SGD({ parameter() }, { lr = 0.1 }), 2)
  local step, plateau = lr_scheduler.StepLR(optimizer, 2), lr_scheduler.ReduceLROnPlateau(optimizer)
  local function make_of(...) return pcall(lr_scheduler.SequentialLR, optimizer, ...) end
  for _, case in ipairs { { { make_of({ step, step }, {}) }, "want 1 milestones, got 0" },
    { { make_of({ step, other }, { 2 }) }, "schedule 2 is for another optimiser" },
    { { make_of({ step, plateau }, { 2 }) }, "schedule 2 is a ReduceLROnPlateau" },
    { { make_of({ 3 }, {}) }, "'schedulers' must be an array of schedules" } } do
    expect.falsy(case[1][1])
    expect.truthy(case[1][2]:find(case[2], 1, true), case[1][2])
  end
end)

test("a schedule of SequentialLR whose milestone is 0 is on from the start", function()
  local S = ml.optim.lr_scheduler
  local optimizer = ml.optim.SGD({ ml.zeros(1, { requires_grad = true }) }, { lr = 0.1 })
  local schedule = S.SequentialLR(optimizer, { S.ConstantLR(optimizer, { factor = 0.5, total_iters = 9 }),
    S.ExponentialLR(optimizer, 0.9), S.ConstantLR(optimizer, { factor = 0.5 }) }, { 0, 3 })
  local rates = {}
  for i = 1, 5 do
    rates[i] = optimizer.param_groups[1].lr
    expect.near(schedule:get_last_lr()[1], rates[i])
    optimizer:step()
    schedule:step()
  end
  expect.near(rates, { 0.1, 0.09, 0.081, 0.05, 0.05 })
end)

test("the state of ReduceLROnPlateau", function()
  local optimizer = optim.SGD({ parameter() }, { lr = 0.1 })
  local first = lr_scheduler.ReduceLROnPlateau(optimizer, { patience = 1 })
  local state
  harness.with_temp_file(function(path)
    ml.save(path, first:state_dict())
    state = ml.load(path)
  end)
  expect.equal(state.best, math.huge)
  first:step(1)
  first:step(2)
  local second = lr_scheduler.ReduceLROnPlateau(optimizer, { patience = 1 })
  second:load_state_dict(first:state_dict())
  second:step(2)
  expect.near(rates_of(optimizer), { 0.01 })
end)

test("an epoch given to step has the rates that follow from the first ones", function()
  for _, entry in ipairs { { "StepLR", 2 }, { "MultiStepLR", { 2, 4 } }, { "ExponentialLR", 0.9 },
    { "CosineAnnealingLR", 6 }, { "LinearLR" }, { "ConstantLR" }, { "LambdaLR", factor } } do
    local optimizer = optim.SGD({ parameter() }, { lr = 0.1 })
    local schedule = lr_scheduler[entry[1]](optimizer, entry[2])
    for _ = 1, 5 do schedule:step() end
    local wanted = rates_of(optimizer)
    optimizer.param_groups[1].lr = 3
    schedule:step(5)
    expect.near(rates_of(optimizer), wanted, 1e-9, entry[1])
  end
end)

test("a schedule goes on from an epoch with the optimiser's state", function()
  local optimizer = optim.SGD({ parameter() }, { lr = 0.1 })
  expect.error(function() lr_scheduler.StepLR(optimizer, 2, { last_epoch = 3 }) end, "initial_lr")
  local first = lr_scheduler.CosineAnnealingLR(optimizer, 8)
  for _ = 1, 3 do first:step() end
  local state = optimizer:state_dict()
  first:step()
  local second = optim.SGD({ parameter() }, { lr = 5 })
  second:load_state_dict(state)
  local resumed = lr_scheduler.CosineAnnealingLR(second, 8, { last_epoch = 3 })
  resumed.optimizer.param_groups[1].lr = state.param_groups[1].lr
  expect.equal(resumed.last_epoch, 4)
end)

test("own schedules", function()
  local class = require "moonlet.class"
  local Halving = class("Halving", lr_scheduler.LRScheduler)
  function Halving:get_lr()
    local out = {}
    for i, base in ipairs(self.base_lrs) do out[i] = base / 2 ^ self.last_epoch end
    return out
  end
  local optimizer = optim.SGD({ parameter() }, { lr = 0.8 })
  local schedule = Halving(optimizer)
  schedule:step()
  schedule:step()
  expect.near(rates_of(optimizer), { 0.2 })
  expect.error(function() class("Empty", lr_scheduler.LRScheduler)(optimizer) end, "get_lr")
end)

test("wrong arguments of schedules are named", function()
  local optimizer = optim.SGD({ parameter() }, { lr = 0.1 })
  local step = lr_scheduler.StepLR(optimizer, 2)
  expect.error(function() step:step("x") end, "step: 'epoch' must be an integer of at least 0, got")
  expect.error(function() step:get_last_lr(1) end, "at most 0 arguments")
  expect.error(function() lr_scheduler.StepLR(optimizer, 2, { gama = 1 }) end, "mean 'gamma'")
  expect.error(function() lr_scheduler.StepLR(optimizer, 0) end, "'step_size' must be an integer of at least 1")
  expect.error(function() lr_scheduler.StepLr(optimizer, 1) end, "did you mean 'StepLR'")
  expect.error(function() lr_scheduler.LambdaLR(optimizer, 3) end, "'lr_lambda'")
  expect.error(function() lr_scheduler.LambdaLR(optimizer, { factor, factor }) end, "2 functions")
  expect.error(function() lr_scheduler.ReduceLROnPlateau(optimizer, "mid") end, "min or max")
  expect.error(function() lr_scheduler.ReduceLROnPlateau(optimizer, "min", 1.0) end, "below 1")
  expect.error(function() lr_scheduler.ReduceLROnPlateau(optimizer):step() end, "'metrics' is missing")
  expect.error(function() step:load_state_dict {} end, "no state of a schedule")
end)

harness.run()
