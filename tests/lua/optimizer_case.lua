-- tests/lua/optimizer_case.lua: optimisers and schedules with the numbers that
-- tests/reference/make_optimizers.py wrote: runs them, and compares the values on the way, in both
-- dtypes, by every way to compute a step, and when they go on from a saved state.

local harness = require "harness"
local ml = require "moonlet"
local expect = harness.expect
local nn, optim = ml.nn, ml.optim
local lr_scheduler, swa_utils = optim.lr_scheduler, optim.swa_utils

local case_of = {}

local SCALES = { 1, 4, 0.1, 0.5, 1, 1, 0.2, 2, 1, 1 }

--- The keys of a table, in order.
function case_of.keys_of(t)
  local out = {}
  for key in pairs(t) do out[#out + 1] = key end
  table.sort(out)
  return out
end

--- A copy without the parts that JSON may not know to be tables of Lua.
function case_of.plain(value)
  if type(value) ~= "table" then return value end
  local out = {}
  for key, item in pairs(value) do out[key] = case_of.plain(item) end
  return out
end
local keys_of, plain = case_of.keys_of, case_of.plain

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
      error(("%s: value %d is %.12g, expected %.12g"):format(label, i, got[i], value), 0)
    end
  end
  expect.equal(#got, #wanted, label)
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

local function check_values(case, mode)
  for _, dtype in ipairs { "float32", "float64" } do
    local got = run(case, ml[dtype], nil, mode)
    local key = mode and next(mode)
    for j, wanted in ipairs(case[dtype]) do
      local label = ("%s, trace %d"):format(dtype, j)
      expect_close(got[j], wanted, 1e-6, key and ("%s = %s, %s"):format(key, mode[key], label) or label)
    end
  end
end

--- Fails where the steps of an optimiser's case are others.
function case_of.check_steps(case) check_values(case) end

--- The same by the ways to compute a step that are not the default.
function case_of.check_modes(case)
  for _, mode in ipairs(modes_of(case.name)) do check_values(case, mode) end
end

--- Fails where its state holds something else, or does not bring it where it was.
function case_of.check_state(case)
  local whole, optimizer = run(case, ml.float64)
  local state = optimizer:state_dict()
  expect.equal(keys_of(state.param_groups[1]), plain(case.group_keys))
  expect.equal(state.param_groups[1].params, plain(case.params))
  for j, wanted in ipairs(case.state) do
    expect.equal(shapes_of(state.state[j - 1]), wanted_shapes(wanted), "parameter " .. j)
  end
  expect.equal(run(case, ml.float64, 4), whole)
  expect.equal(run(case, ml.float32, 1)[3], run(case, ml.float32)[3])
end

local function factor(epoch) return 1 / (1 + epoch / 4) end

--- An optimiser of two parameters, each in a group of its own.
function case_of.two_groups(kind)
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

--- 14 epochs of what `make(optimizer)` gives; at epoch `resume` the states go to new ones.
function case_of.follow(make, kind, resume)
  local optimizer = case_of.two_groups(kind)
  local schedule, out = make(optimizer), {}
  for epoch = 1, 14 do
    if epoch == resume then
      local states = { optimizer:state_dict(), schedule:state_dict() }
      optimizer = case_of.two_groups(kind)
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

--- Fails where a schedule's case gives other rates, or its state does not bring it where it was.
function case_of.check_schedule(case)
  local function make(optimizer)
    local options = arguments(case.options)
    options.optimizer = optimizer
    return (case.name == "SWALR" and swa_utils or lr_scheduler)[case.name](options)
  end
  local values, schedule = case_of.follow(make, case.optimizer)
  expect.near(values, plain(case.values), 1e-12)
  expect.near(schedule:get_last_lr(), plain(case.last_lr), 1e-12)
  expect.equal(keys_of(schedule:state_dict()), plain(case.keys))
  expect.near(case_of.follow(make, case.optimizer, 5), values, 0)
end

return case_of
