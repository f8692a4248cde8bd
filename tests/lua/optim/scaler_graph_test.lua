-- tests/lua/optim/scaler_graph_test.lua: ml.amp.GradScaler where nothing waits for the device: steps that
-- are left out there, replays of whole steps of training against eager ones and ones on the CPU, states
-- that are saved and loaded between replays; the ops that it is made of, on either device.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local on_device = require "on_device"
local test, expect = harness.test, harness.expect
local nn, optim, GradScaler = ml.nn, ml.optim, ml.amp.GradScaler
local CUDA = { device = "cuda" }

-- What the losses of some steps are multiplied by: gradients that are finite, and that are not.
local FACTORS = { 1, 0.5, math.huge, 2, 1, 0 / 0, math.huge, 1, 0.25, 3, 1, -1 }
local OPTIONS = { init_scale = 1024, growth_factor = 3, backoff_factor = 0.3, growth_interval = 2 }
local STEPPERS = {
  { "AdamW", { capturable = true, weight_decay = 0.1 } }, { "Adam", { capturable = true, amsgrad = true } },
  { "SGD", { momentum = 0.5, nesterov = true } }, { "SGD", { momentum = 0.5, dampening = 0.25 } }, { "SGD", {} },
  { "RMSprop", { capturable = true } }, { "NAdam", { capturable = true } }, { "Rprop", { capturable = true } },
  { "ASGD", { capturable = true } }, { "Lion", { capturable = true } },
}

local function with(options, more)
  local out = {}
  for _, from in ipairs { options, more or {} } do
    for key, value in pairs(from) do out[key] = value end
  end
  return out
end

-- A net with one optimiser for each of its two layers, and a step of its training.
local function trainer(case, device, more)
  ml.manual_seed(3)
  local net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)):to(device)
  local options = with(case[2], { lr = 0.0625 })
  if device == "cpu" then options.capturable = nil end
  local out = { net = net, scaler = GradScaler(with(OPTIONS, more)), scales = {},
    steppers = { optim[case[1]](net[1]:parameters(), options), optim.SGD(net[3]:parameters(), { lr = 0.125 }) } }
  out.x = ml.arange(1.0, 12, { device = device }):reshape(4, 3):sin()
  out.factor = ml.ones({}, { device = device })
  function out.step()
    for _, stepper in ipairs(out.steppers) do stepper:zero_grad() end
    -- Of one layer's gradients alone: the other optimiser steps where that one's does not.
    local loss = net(out.x):square():mean() + (net[1].weight * out.factor):mean()
    out.scaler:scale(loss):backward()
    for _, stepper in ipairs(out.steppers) do out.scaler:step(stepper) end
    out.scaler:update()
  end
  return out
end

local function results(t)
  local out = { t.scaler:state_dict() }
  for _, p in ipairs(t.net:parameters()) do out[#out + 1] = p:detach():cpu():reshape(-1):tolist() end
  for k, stepper in ipairs(t.steppers) do
    for i, p in ipairs(stepper.param_groups[1].params) do
      local step = (stepper.state[p] or {}).step
      out[#out + 1] = ("%d %d %s"):format(k, i, step and (ml.is_tensor(step) and step:item() or step + 0.0))
    end
  end
  return out
end

-- All steps, those after `warm` ones as replays, and what is there after each.
local function run(t, warm, between)
  local history, graph = {}, nil
  for i, factor in ipairs(FACTORS) do
    if between then between(t, i) end
    t.factor:fill_(factor)
    if warm and i > warm then
      graph = graph or ml.cuda.graph(t.step)
      graph:replay()
    else
      t.step()
    end
    history[i] = results(t)
  end
  return history
end

local function label(case) return case[1] .. " " .. tostring(next(case[2])) end

on_device("replays are the eager steps, and those on the CPU", function()
  for _, case in ipairs(STEPPERS) do
    local eager = run(trainer(case, "cuda"))
    expect.equal(run(trainer(case, "cuda"), 2), eager, label(case))
    local host = run(trainer(case, "cpu"))
    for i = 1, #FACTORS do
      expect.equal(eager[i][1], host[i][1], label(case))  -- the scale, and since when it has not grown
      for k = 2, #host[i] do
        if type(host[i][k]) == "string" then
          expect.equal(eager[i][k], host[i][k], label(case))
        else
          expect.near(eager[i][k], host[i][k], 2e-5, label(case))
        end
      end
    end
  end
end)

on_device("parameters of two dtypes, without gradients, complex and not contiguous", function()
  local function moved(captured)
    ml.manual_seed(2)
    local params = {}
    for i, dtype in ipairs { ml.float32, ml.float64, ml.bfloat16, ml.complex64, ml.float32 } do
      params[i] = nn.Parameter(ml.randn(4, 3):to { dtype = dtype, device = "cuda" })
    end
    params[6] = nn.Parameter(ml.randn(5, 3):cuda():t())
    params[7] = nn.Parameter(ml.zeros(0, 2, CUDA))
    local stepper = optim.Adam(params, { lr = 0.25, capturable = true })
    local scaler, bad, graph = GradScaler { init_scale = 8 }, ml.zeros(3, CUDA), nil
    local function step()
      for i, p in ipairs(params) do
        if i ~= 5 then p.grad = (p:detach() + bad[i % 3 + 1]:to(p.dtype)) * 8 end
      end
      scaler:scale(bad)
      scaler:unscale_(stepper)
      nn.utils.clip_grad_norm_(params, 1)
      scaler:step(stepper)
      scaler:update()
    end
    for i = 1, 8 do
      bad:fill_(0)
      if i % 4 == 3 then bad[i % 3 + 1] = i < 5 and math.huge or 0 / 0 end
      if captured and i > 1 then
        graph = graph or ml.cuda.graph(step)
        graph:replay()
      else
        step()
      end
    end
    local out = { scaler:get_scale(), stepper.state[params[1]].step:item() }
    for i, p in ipairs(params) do
      local x = p:detach():to(ml.complex128)
      expect.truthy(ml.view_as_real(x):isfinite():all():item(), i)
      out[i + 2] = ml.view_as_real(x):cpu():reshape(-1):tolist()
    end
    return out
  end
  local eager = moved(false)
  expect.equal({ eager[1], eager[2] }, { 2.0, 6.0 })
  expect.equal(moved(true), eager)
end)

on_device("a state is saved and loaded, and a scale set, between replays", function()
  local function between(t, i)
    if i == 5 then
      local state = t.scaler:state_dict()
      t.scaler:load_state_dict(with(state, { scale = 0.25, _growth_tracker = 1 }))
    elseif i == 8 then
      t.scaler:load_state_dict(t.scaler:state_dict())
    elseif i == 10 then
      t.scaler:scale(t.x)
      t.scaler:update(ml.tensor({ 5.0 }, CUDA))
    elseif i == 11 then
      t.scaler:update(7)
    end
  end
  local eager = run(trainer(STEPPERS[1], "cuda"), nil, between)
  expect.equal(run(trainer(STEPPERS[1], "cuda"), 1, between), eager)
  expect.equal(eager[10][1].scale, 5.0)
  expect.equal(eager[11][1].scale, 21.0)
  -- A new scaler goes on from it on the device.
  local t = trainer(STEPPERS[1], "cuda", { init_scale = 2 })
  t.scaler:load_state_dict(eager[4][1])
  expect.equal(t.scaler:state_dict(), eager[4][1])
  t.step()
  expect.near(t.scaler:get_scale(), eager[4][1].scale * 3, 1e-3)
end)

on_device("a first step whose gradients are not finite leaves what can be captured", function()
  for _, case in ipairs(STEPPERS) do
    local t = trainer(case, "cuda")
    local function first(captured)
      local history = {}
      for i = 1, 4 do
        t.factor:fill_(i == 1 and math.huge or i)
        if captured and i > 2 then
          t.graph = t.graph or ml.cuda.graph(t.step)
          t.graph:replay()
        else
          t.step()
        end
        history[i] = results(t)
      end
      return history
    end
    local eager = first(false)
    t = trainer(case, "cuda")
    expect.equal(first(true), eager, label(case))
  end
end)

on_device("what a capture cannot do is an error, and nothing is changed", function()
  local function captured(stepper, scaler, w)
    return function()
      ml.cuda.graph(function()
        scaler:scale(w:sum()):backward()
        scaler:step(stepper)
        scaler:update()
      end)
    end
  end
  for _, case in ipairs { { "Adam", {}, "step: Adam waits for the device.*'capturable'" },
      { "SGD", { foreach = false }, "step: SGD waits for the device" },
      { "Adam", { capturable = true }, "the first call cannot be captured in a CUDA graph" } } do
    local w = nn.Parameter(ml.ones(3, CUDA))
    local stepper, scaler = optim[case[1]]({ w }, case[2]), GradScaler()
    if not case[2].capturable then
      scaler:scale(w:sum()):backward()
      scaler:step(stepper)
      scaler:update()
    end
    local before = w:tolist()
    expect.error(captured(stepper, scaler, w), case[3])
    expect.equal(w:tolist(), before)
  end
  local w = nn.Parameter(ml.ones(3, CUDA))
  local scaler = GradScaler()
  scaler:scale(w)
  local _ = ml.cuda.graph(function()
    expect.error(function() scaler:get_scale() end, "capture")
  end)
  expect.equal(scaler:get_scale(), 65536.0)
end)

on_device("several devices have one scale", function()
  if ml.cuda.device_count() < 2 then harness.skip "one device" end
  local a, b = nn.Parameter(ml.ones(2, { device = "cuda:0" })), nn.Parameter(ml.ones(2, { device = "cuda:1" }))
  local stepper, scaler = optim.SGD({ a, b }, { lr = 0.5 }), GradScaler { init_scale = 4 }
  for i, factors in ipairs { { 1, 1 }, { 1, math.huge }, { 2, 1 } } do
    stepper:zero_grad()
    ml.autograd.backward(scaler:scale { (a * factors[1]):sum(), (b * factors[2]):sum() })
    scaler:step(stepper)
    scaler:update()
    expect.equal(scaler:get_scale(), ({ 4.0, 2.0, 2.0 })[i])
  end
  -- A step is left out on all devices.
  expect.equal({ a[1]:item(), b[1]:item() }, { -0.5, 0.0 })
end)

-- --- the ops ----------------------------------------------------------------------------------

local DEVICES = ml.cuda.is_available() and { "cpu", "cuda" } or { "cpu" }

test("list_unscale divides in every dtype and layout, and finds what is not finite", function()
  for _, device in ipairs(DEVICES) do
    local on = { device = device }
    for _, dtype in ipairs { ml.float32, ml.float64, ml.bfloat16, ml.float16 } do
      for _, value in ipairs { 1, math.huge, -math.huge, 0 / 0 } do
        for _, at in ipairs { 1, 17000, 40000 } do
          local x = ml.arange(1.0, 40000, on):remainder(64):to(dtype)
          local whole = ml.ones(7, 6, on):to(dtype)
          local list = { ml.zeros({ 0 }, on):to(dtype), x:clone(), whole:t(), whole:new_ones {} }
          list[2][at] = value
          local found = ml.zeros(1, on)
          ml._internal.list_unscale(list, { found }, ml.tensor({ 3.0 }, on))
          local text = ("%s %s %g at %d"):format(device, dtype, value, at)
          expect.equal(found:item(), value == 1 and 0.0 or 1.0, text)
          local want = x
          want[at] = value
          want = want * string.unpack("<f", string.pack("<f", 1 / 3))
          expect.truthy(list[2]:equal(want) or ml.allclose(list[2], want, { equal_nan = true, rtol = 0, atol = 0 }), text)
          expect.truthy(whole:eq(whole[1][1]):all():item())
          expect.near(list[4]:item(), 1 / 3, 1e-2)
        end
      end
    end
    -- What was found before stays.
    local found = ml.ones({}, on)
    ml._internal.list_unscale({ ml.ones(2, on) }, { found }, ml.ones({}, on))
    expect.equal(found:item(), 1.0)
  end
end)

test("a batch of gradients and scales finds and changes what is of each sample", function()
  local x, found = ml.tensor { { 1.0, ml.inf }, { 2.0, 3.0 }, { ml.nan, 1.0 } }, ml.zeros(3)
  local scale, tracker = ml.tensor { 2.0, 4.0, 8.0 }, ml.tensor({ 0, 1, 1 }, { dtype = ml.int32 })
  ml.func.vmap(function(each, flag, by, count)
    ml._internal.list_unscale({ each }, { flag }, by)
    ml._internal.update_loss_scale({ by }, { count }, flag, 2, 0.25, 2)
    return each
  end)(x, found, scale, tracker)
  expect.equal(found:tolist(), { 1, 0, 1 })
  expect.equal(x:nan_to_num(-1, -2):tolist(), { { 0.5, -2 }, { 0.5, 0.75 }, { -1, 0.125 } })
  expect.equal(scale:tolist(), { 0.5, 8, 2 })
  expect.equal(tracker:tolist(), { 0, 0, 0 })
end)

test("update_loss_scale counts, grows and backs off as PyTorch's", function()
  for _, device in ipairs(DEVICES) do
    local on = { device = device }
    local scale, tracker = ml.tensor(8.0, on), ml.tensor(0, { device = device, dtype = ml.int32 })
    local function update(found, growth)
      ml._internal.update_loss_scale({ scale }, { tracker }, ml.tensor(found, on), growth or 2, 0.25, 2)
      return { scale:item(), tracker:item() }
    end
    expect.equal(update(0.0), { 8.0, 1 })
    expect.equal(update(0.0), { 16.0, 0 })
    expect.equal(update(0.0), { 16.0, 1 })
    expect.equal(update(2.0), { 4.0, 0 })
    expect.equal(update(0.0), { 4.0, 1 })
    expect.equal(update(0.0, 1e38), { 4.0, 0 })  -- too large for a float32
  end
end)

test("wrong arguments of the ops are named", function()
  local one, list = ml.ones {}, { ml.ones(2) }
  local unscale, update = ml._internal.list_unscale, ml._internal.update_loss_scale
  local tracker = ml.zeros({}, { dtype = ml.int32 })
  for _, wrong in ipairs {
    { unscale, { list, { one }, ml.ones(2) }, "list_unscale: scale must be of one float32, got float32 of shape %(2,%)" },
    { unscale, { list, { ml.ones({}, { dtype = ml.float64 }) }, one }, "found_inf must be of one float32, got float64" },
    { unscale, { list, { one, one }, one }, "found_inf must be a list of one tensor, got 2" },
    { unscale, { { ml.ones(2), ml.ones(2):double() }, { one }, one }, "list_unscale: .*float64" },
    { update, { { one }, { one }, one, 2, 0.5, 3 }, "growth_tracker must be of one int32, got float32" },
    { update, { { one, one }, { tracker }, one, 2, 0.5, 3 }, "lists of one tensor, got 2 and 1" },
    { update, { { one }, { tracker }, tracker, 2, 0.5, 3 }, "update_loss_scale: found_inf" },
  } do
    expect.error(function() wrong[1](table.unpack(wrong[2])) end, wrong[3])
  end
  local x = ml.ones(2)
  expect.error(function()
    ml._internal.sgd_capturable_step({ x }, { x:clone() }, {}, {}, 0.5, 0, 0, false, false, 0, false, false, tracker)
  end, "sgd_capturable_step: found_inf must be of one float32, got int32")
end)

test("a step with found_inf changes nothing, its counts included", function()
  for _, device in ipairs(DEVICES) do
    local on = { device = device }
    for found = 0, 1 do
      local x, m, v, n = ml.ones(3, on), ml.ones(3, on), ml.ones(3, on), ml.ones({}, on)
      ml._internal.adam_capturable_step({ x }, { x:clone() }, { m }, { v }, {}, { n }, {}, 0.5, 0.5, 0.5, 1e-8, 0, false,
        false, ml.full({}, found + 0.0, on))
      local same = x:equal(ml.ones(3, on)) and n:item() == 1
      expect.equal(same, found == 1, device)
    end
  end
end)

harness.run()
