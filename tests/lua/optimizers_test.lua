-- tests/lua/optimizers_test.lua: every optimiser, schedule and average against PyTorch's numbers, in
-- float32 and float64, the keys of their state dicts, and going on from a saved state.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/?.lua;" .. package.path
local harness = require "harness"
local json = require "moonlet.json"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local nn, optim = ml.nn, ml.optim
local lr_scheduler, swa_utils = optim.lr_scheduler, optim.swa_utils

-- Made by tests/reference/make_optimizers.py.
local REFERENCE
do
  local here = arg[0]:match("^(.*)/") or "."
  local file = assert(io.open(here .. "/../reference/optimizers.json"))
  REFERENCE = json.decode(file:read "a")
  file:close()
end
local SCALES = { 1, 4, 0.1, 0.5, 1, 1, 0.2, 2, 1, 1 }

local function keys_of(t)
  local out = {}
  for key in pairs(t) do out[#out + 1] = key end
  table.sort(out)
  return out
end

-- A copy without the parts that JSON may not know to be tables of Lua.
local function plain(value)
  if type(value) ~= "table" then return value end
  local out = {}
  for key, item in pairs(value) do out[key] = plain(item) end
  return out
end

local function starts(name, dtype)
  local w = ml.tensor({ { 1.0, -2.0, 0.5 }, { 3.0, 0.25, -1.5 } }, { dtype = dtype })
  local second = name == "Muon" and (w["1:2, 1:2"]:t() * 1.5):contiguous()
    or ml.tensor({ 0.5, -0.75 }, { dtype = dtype })
  local out = { nn.Parameter(w), nn.Parameter(second) }
  if name ~= "Muon" then out[3] = nn.Parameter(ml.tensor(0.3, { dtype = dtype })) end
  return out
end

local function loss_of(params, step, name)
  local total = 0
  for i, p in ipairs(params) do
    if name == "LBFGS" then
      total = total + ((p - 0.5 * (i - 1)) ^ 2 * i):sum() + (p ^ 4):sum() * 0.1
    else
      total = total + ((p * i - 0.2 * (step - 1)) ^ 2):sum() / 2
    end
  end
  return name == "LBFGS" and total or total * SCALES[step]
end

local function flat(params)
  local out = {}
  for _, p in ipairs(params) do
    for _, v in ipairs(p:detach():reshape(-1):tolist()) do out[#out + 1] = v end
  end
  return out
end

local function advance(optimizer, params, step, name)
  local function closure()
    optimizer:zero_grad()
    local loss = loss_of(params, step, name)
    loss:backward()
    return loss
  end
  if name == "LBFGS" then return optimizer:step(closure) end
  closure()
  return optimizer:step()
end

-- The values after steps 1, 5 and 10. After step `resume` the state goes through a file.
local function run(case, dtype, resume, mode)
  local params, out = starts(case.name, dtype), {}
  local options = plain(case.options)
  for key, value in pairs(mode or {}) do options[key] = value end
  local optimizer = optim[case.name](params, options)
  for step = 1, 10 do
    advance(optimizer, params, step, case.name)
    if step == 1 or step == 5 or step == 10 then out[#out + 1] = flat(params) end
    if step == resume then
      harness.with_temp_file(function(path)
        ml.save(path, optimizer:state_dict())
        optimizer = optim[case.name](params, { lr = 0.7 })
        optimizer:load_state_dict((ml.load(path)))
      end)
    end
  end
  return out, optimizer
end

local function expect_close(got, wanted, tolerance, label)
  for i, value in ipairs(wanted) do
    local error_of = math.abs(got[i] - value)
    if not (error_of <= tolerance * math.max(1, math.abs(value))) then
      error(("%s: value %d is %.12g, wanted %.12g"):format(label, i, got[i], value), 0)
    end
  end
  expect.equal(#got, #wanted, label)
end

local function text_of(options)
  local out = {}
  for _, key in ipairs(keys_of(options)) do out[#out + 1] = key end
  return table.concat(out, ", ")
end

-- What the state of a parameter holds: the shapes of tensors, "number" or "list".
local function shapes_of(state)
  local out = {}
  for key, value in pairs(state) do
    if ml.is_tensor(value) then
      out[key] = value.ndim == 0 and "number" or { table.unpack(value.shape) }
    else
      out[key] = type(value) == "table" and "list" or "number"
    end
  end
  return out
end

-- PyTorch's empty shapes stand for numbers and for the state of a parameter that is one.
local function wanted_shapes(state, p)
  local out = {}
  for key, value in pairs(state) do
    value = plain(value)
    if type(value) == "table" and #value == 0 then value = "number" end
    out[key] = value
  end
  return out, p
end

-- The ways to compute a step that an optimiser has beside its default.
local function modes_of(name)
  local out = {}
  for _, mode in ipairs { { foreach = true }, { foreach = false }, { fused = true }, { fused = false } } do
    if pcall(optim[name], starts(name, ml.float32), mode) then out[#out + 1] = mode end
  end
  return out
end

for i, case in ipairs(REFERENCE.optimizers) do
  local label = ("%s, case %d (%s)"):format(case.name, i, text_of(case.options))
  test(label, function()
    for _, dtype in ipairs { "float32", "float64" } do
      local got = run(case, ml[dtype])
      for j, wanted in ipairs(case[dtype]) do
        expect_close(got[j], wanted, 1e-6, ("%s, trace %d"):format(dtype, j))
      end
    end
  end)

  test(label .. ": other ways", function()
    for _, mode in ipairs(modes_of(case.name)) do
      for _, dtype in ipairs { "float32", "float64" } do
        local got, key = run(case, ml[dtype], nil, mode), next(mode)
        for j, wanted in ipairs(case[dtype]) do
          expect_close(got[j], wanted, 1e-6, ("%s = %s, %s, trace %d"):format(key, mode[key], dtype, j))
        end
      end
    end
  end)

  test(label .. ": state", function()
    local whole, optimizer = run(case, ml.float64)
    local state = optimizer:state_dict()
    expect.equal(keys_of(state.param_groups[1]), plain(case.group_keys))
    expect.equal(state.param_groups[1].params, plain(case.params))
    for j, wanted in ipairs(case.state) do
      expect.equal(shapes_of(state.state[j - 1]), wanted_shapes(wanted), "parameter " .. j)
    end
    expect.equal(run(case, ml.float64, 4), whole)
    expect.equal(run(case, ml.float32, 1)[3], run(case, ml.float32)[3])
  end)
end

-- --- schedules -------------------------------------------------------------------------------

local function factor(epoch) return 1 / (1 + epoch / 4) end

local function two_groups(kind)
  local p, q = nn.Parameter(ml.zeros(1)), nn.Parameter(ml.zeros(1))
  return optim[kind or "SGD"]({ { params = { p } }, { params = { q }, lr = 0.4 } },
    { lr = 0.1, momentum = kind ~= "Adam" and 0.9 or nil })
end

local function now(optimizer)
  local rates, momenta = {}, {}
  for i, group in ipairs(optimizer.param_groups) do
    rates[i], momenta[i] = group.lr, group.betas and group.betas[1] or group.momentum
  end
  return { rates, momenta }
end

-- 14 epochs of what `make(optimizer)` gives; at epoch `resume` the states go to new ones.
local function follow(make, kind, resume)
  local optimizer = two_groups(kind)
  local schedule, out = make(optimizer), {}
  for epoch = 1, 14 do
    if epoch == resume then
      local states = { optimizer:state_dict(), schedule:state_dict() }
      optimizer = two_groups(kind)
      schedule = make(optimizer)
      optimizer:load_state_dict(states[1])
      schedule:load_state_dict(states[2])
    end
    out[epoch] = now(optimizer)
    if epoch < 14 then schedule:step() end
  end
  return out, schedule
end

local function arguments(options)
  local out = plain(options)
  for key, value in pairs(out) do
    if value == "f" then out[key] = factor end
  end
  return out
end

for i, case in ipairs(REFERENCE.schedules) do
  test(("%s with %s, case %d"):format(case.name, case.optimizer, i), function()
    local function make(optimizer)
      local options = arguments(case.options)
      options.optimizer = optimizer
      return (case.name == "SWALR" and swa_utils or lr_scheduler)[case.name](options)
    end
    local values, schedule = follow(make, case.optimizer)
    expect.near(values, plain(case.values), 1e-12)
    expect.near(schedule:get_last_lr(), plain(case.last_lr), 1e-12)
    expect.equal(keys_of(schedule:state_dict()), plain(case.keys))
    expect.near(follow(make, case.optimizer, 5), values, 0)
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
