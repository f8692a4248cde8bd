-- tests/lua/optim/capturable_test.lua: steps whose counts and rates are on the device: one op for all
-- parameters, replays of a graph of it, rates that change between replays, states that go to steps of
-- numbers and back, compiled steps; the ops themselves on either device. What is captured skips without
-- a device.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local on_device = require "on_device"
local case_of = require "optimizer_case"
local program_case = require "program_case"
local rows = require "moonlet.optimizers"
local test, expect = harness.test, harness.expect
local nn, optim = ml.nn, ml.optim
local plain = case_of.plain
local CUDA = { device = "cuda" }

local CASES = {
  { "Adam", {} }, { "Adam", { amsgrad = true, weight_decay = 0.1 } }, { "Adam", { maximize = true } },
  { "AdamW", { weight_decay = 0.05 } }, { "AdamW", { amsgrad = true, maximize = true } },
  { "NAdam", {} }, { "NAdam", { decoupled_weight_decay = true, weight_decay = 0.1 } },
  { "RAdam", {} }, { "RAdam", { weight_decay = 0.1, betas = { 0.8, 0.9 } } },
  { "Adamax", { weight_decay = 0.1 } }, { "Adadelta", { maximize = true } },
  { "RMSprop", { centered = true, momentum = 0.5 } }, { "RMSprop", { weight_decay = 0.1 } },
  { "Rprop", {} }, { "ASGD", { t0 = 2, weight_decay = 0.1 } }, { "Lion", { weight_decay = 0.1 } },
}
local COUNT, STEPS = 20, 6

local function parameters(count)
  ml.manual_seed(5)
  local out = {}
  for i = 1, count do
    out[i] = nn.Parameter(ml.randn(i % 7 * 3 + 1, i % 3 + 1, CUDA))
    out[i].grad = ml.zeros_like(out[i])
  end
  return out
end

local function fill(params, step)
  for i, p in ipairs(params) do
    p.grad:copy_((ml.arange(1.0, p:numel(), CUDA) * (step + 0.3 * i)):sin():reshape(p.shape))
  end
end

local function flat(params)
  local out = {}
  for i, p in ipairs(params) do out[i] = p:detach():reshape(-1) end
  return ml.cat(out):cpu()
end

-- The parameters after some steps, those after the first one replays where `captured`; `between` may
-- change options before a step. Also the optimiser.
local function moved(case, o, captured, between)
  local params = parameters(COUNT)
  local given = plain(case[2])
  given.lr = 0.0625
  for name, value in pairs(o) do given[name] = value end
  local stepper, graph = optim[case[1]](params, given), nil
  for step = 1, STEPS do
    fill(params, step)
    if between then between(stepper, step) end
    if graph then graph:replay() else stepper:step() end
    if captured and step == 1 then graph = ml.cuda.graph(function() stepper:step() end) end
  end
  return flat(params), stepper
end

local function label(case)
  return case[1] .. " " .. table.concat(case_of.keys_of(case[2]), " ")
end

local function ops_of(f)
  local names = {}
  ml.override(function(op, arguments, call)
    names[#names + 1] = op.name
    return call(arguments)
  end, f)
  return names
end

on_device("a captured step of twenty parameters is one op", function()
  for _, case in ipairs(CASES) do
    local params = parameters(COUNT)
    local given = plain(case[2])
    given.capturable = true
    local stepper = optim[case[1]](params, given)
    fill(params, 1)
    stepper:step()
    local names
    ml.cuda.graph(function() names = ops_of(function() stepper:step() end) end)
    expect.equal(#names, 1, label(case))
    expect.truthy(names[1]:find "_capturable_step$", names[1])
  end
end)

on_device("replays are the steps that eager ones of tensors and of numbers are, to the last bit", function()
  for _, case in ipairs(CASES) do
    local want = moved(case, {})
    local eager, stepper = moved(case, { capturable = true })
    local replayed, other = moved(case, { capturable = true }, true)
    expect.truthy(eager:equal(want), label(case) .. ": eager")
    expect.truthy(replayed:equal(want), label(case) .. ": replayed")
    for _, one in ipairs { stepper, other } do
      for _, state in pairs(one.state) do
        expect.equal(state.step.dtype, ml.float32)
        expect.equal(state.step:item(), STEPS + 0.0)
      end
    end
  end
end)

on_device("foreach = false is captured too, parameter by parameter", function()
  for _, case in ipairs { CASES[1], CASES[6], CASES[15] } do
    local o = { capturable = true, foreach = false }
    local want = moved(case, o)
    expect.truthy(moved(case, o, true):equal(want), label(case))
    expect.truthy((want - moved(case, {})):abs():max():item() < 1e-5, label(case))
  end
end)

on_device("a rate that is a tensor changes between replays", function()
  for _, case in ipairs(CASES) do
    local rates = { 0.5, 0.25, 0.125, 0.0625, 0.5, 0.25 }
    local want = moved(case, {}, false, function(stepper, i) stepper.param_groups[1].lr = rates[i] end)
    local lr = ml.tensor(rates[1], CUDA)
    local got = moved(case, { capturable = true, lr = lr }, true, function(stepper, i)
      stepper.param_groups[1].lr:fill_(rates[i])
    end)
    if case[1] == "Rprop" then  -- whose rate is that of the first step alone
      expect.truthy(got:equal((moved(case, { lr = rates[1] }))))
    else
      expect.truthy(got:equal(want), label(case))
    end
  end
  -- A schedule sets it.
  local rate, schedule = ml.tensor(0.5, CUDA), nil
  local function between(stepper, step)
    schedule = step > 1 and schedule or optim.lr_scheduler.ExponentialLR(stepper, 0.5)
    if step > 1 then schedule:step() end
  end
  local want = moved({ "AdamW", {} }, { lr = 0.5 }, false, between)
  expect.truthy(moved({ "AdamW", {} }, { lr = rate, capturable = true }, true, between):equal(want))
end)

on_device("betas, and the rate and decay of SGD, are read at each replay", function()
  local betas = { { 0.5, 0.75 }, { 0.875, 0.75 }, { 0.75, 0.5 }, { 0.5, 0.5 }, { 0.25, 0.75 }, { 0.5, 0.75 } }
  local want = moved({ "Adam", {} }, {}, false, function(s, i) s.param_groups[1].betas = betas[i] end)
  local given = { ml.tensor(0.5, CUDA), ml.tensor({ 0.75 }, CUDA) }
  local got = moved({ "Adam", {} }, { capturable = true, betas = given }, true, function(s, i)
    for k = 1, 2 do s.param_groups[1].betas[k]:fill_(betas[i][k]) end
  end)
  expect.truthy(got:equal(want))
  local function numbers(s, i)
    s.param_groups[1].lr, s.param_groups[1].weight_decay = 1 / (1 << i), i / 8
  end
  local function tensors(s, i)
    s.param_groups[1].lr:fill_(1 / (1 << i))
    s.param_groups[1].weight_decay:fill_(i / 8)
  end
  for _, o in ipairs { { momentum = 0.5 }, {}, { momentum = 0.5, nesterov = true, maximize = true } } do
    want = moved({ "SGD", o }, {}, false, numbers)
    local with = { lr = ml.tensor(0.5, CUDA), weight_decay = ml.tensor({ 0.5 }, CUDA) }
    expect.truthy(moved({ "SGD", o }, with, false, tensors):equal(want))
    expect.truthy(moved({ "SGD", o }, with, true, tensors):equal(want))
  end
  -- What lies on the host would not change.
  local params = parameters(2)
  local stepper = optim.Adam(params, { lr = ml.tensor(0.5), capturable = true })
  stepper:step()
  expect.error(function() ml.cuda.graph(function() stepper:step() end) end,
    "a copy from the host cannot be captured")
end)

on_device("states go from numbers to tensors and back", function()
  for _, case in ipairs(CASES) do
    local want = moved(case, {})
    for first = 0, 1 do
      local params = parameters(COUNT)
      local function make(capturable)
        local given = plain(case[2])
        given.lr, given.capturable = 0.0625, capturable
        return optim[case[1]](params, given)
      end
      local stepper
      for step = 1, STEPS do
        local capturable = (step + first) % 2 == 0
        local state = stepper and stepper:state_dict()
        stepper = make(capturable)
        if state then
          state.param_groups[1].capturable = capturable
          stepper:load_state_dict(state)
        end
        fill(params, step)
        stepper:step()
        local kind = capturable and "userdata" or "number"
        for _, kept in pairs(stepper.state) do
          for _, key in ipairs(stepper.counted) do expect.equal(type(kept[key]), kind, key) end
        end
      end
      expect.truthy(flat(params):equal(want), label(case))
    end
  end
end)

on_device("parameters of several dtypes, complex ones, and ones that count apart", function()
  local function run(capturable)
    ml.manual_seed(2)
    local params = {}
    for i, dtype in ipairs { ml.float32, ml.float64, ml.bfloat16, ml.complex64, ml.float16, ml.float32 } do
      params[i] = nn.Parameter(ml.randn(5, i):to { dtype = dtype, device = "cuda" })
    end
    params[7] = nn.Parameter(ml.zeros(0, 3, CUDA))
    local stepper = optim.NAdam(params, { lr = 0.25, capturable = capturable })
    for step = 1, 5 do
      for i, p in ipairs(params) do p.grad = i % 4 ~= step % 4 and p:detach() * step or nil end
      stepper:step()
    end
    local out = {}
    for i, p in ipairs(params) do
      out[i] = { ml.view_as_real(p:detach():to(ml.complex128)):cpu():reshape(-1):tolist(),
        ml.is_tensor(stepper.state[p].step) and stepper.state[p].step:item() or stepper.state[p].step + 0.0 }
    end
    return out
  end
  expect.equal(run(true), run(false))
end)

-- --- the ops ----------------------------------------------------------------------------------

-- The lists of a row's op, on memory that begins at, and lies, as `layout` says.
local SIZES = { { 1 }, { 3, 5 }, { 0, 2 }, { 70 }, { 2, 8195 }, {} }
local LAYOUTS = {
  plain = function(x) return x:clone() end,
  shifted = function(x)
    local whole = ml.empty(x:numel() + 1, { dtype = x.dtype, device = x.device })
    return whole[{ { 2, x:numel() + 1 } }]:copy_(x:reshape(-1)):view(x.shape)
  end,
  turned = function(x) return x.ndim < 2 and x:clone() or x:t():contiguous():t() end,
}

local function lists_of(row, dtype, device, layout)
  ml.manual_seed(4)
  local lists = {}
  for k = 1, 2 + #row.states do
    lists[k] = {}
    for i, size in ipairs(SIZES) do
      local x = ml.randn(size)
      if k > 2 then x = x:abs() + 0.1 end
      if k == 5 then x = x * 0.01 end  -- a mean whose square the mean of squares exceeds
      lists[k][i] = LAYOUTS[layout](x:to { dtype = dtype, device = device })
    end
  end
  return lists
end

local function options_of(row)
  local o = { lr = 0.125, weight_decay = 0.25, decoupled = false, eps = 1e-3, momentum = 0.5 }
  for _, arg in ipairs(rows.given(row)) do
    if arg.entry then
      o[arg.option] = o[arg.option] or {}
      o[arg.option][arg.entry] = tonumber(arg.default)
    elseif o[arg.option] == nil and arg.default then
      if arg.flag then o[arg.option] = arg.default == "true" else o[arg.option] = tonumber(arg.default) end
    end
  end
  return o
end

local function states_by_name(row, lists)
  local out = {}
  for i, state in ipairs(row.states) do out[state[1]] = lists[2 + i] end
  return out
end

local function values(lists)
  local out = {}
  for k, list in ipairs(lists) do
    if k ~= 2 then
      for _, x in ipairs(list) do out[#out + 1] = x:to(ml.float64):cpu():reshape(-1) end
    end
  end
  return ml.cat(out)
end

-- All rows by numbers that tensors hold, of counts that differ, in both ways.
local function check_row(source, dtype, device, layout)
  local expressions = require "moonlet.optim.expressions"
  local row, o = expressions.row(source.name), options_of(source)
  local counts, one_by_one = {}, lists_of(source, dtype, device, layout)
  for c, name in ipairs(row.counted) do
    counts[name] = {}
    for i = 1, #SIZES do
      local start = name == "step" and i * 3 % 5 or i / 8
      counts[name][i] = ml.tensor(c == 1 and i % 2 == 0 and { start } or start,
        { device = device, dtype = ml.float64 })
    end
  end
  local after = {}
  for i = 1, #SIZES do
    local before = {}
    for name, list in pairs(counts) do before[name] = list[i]:item() end
    if before.step then before.step = math.tointeger(before.step) end
    local now, mine = expressions.numbers(row, o, before, false), {}
    for k, list in ipairs(one_by_one) do mine[k] = { list[i] } end
    ml._internal[row.op](expressions.arguments(row, mine[1], mine[2], states_by_name(source, mine), now))
    after[i] = now
  end
  local together = lists_of(source, dtype, device, layout)
  o.lr = ml.tensor(o.lr, { device = device, dtype = ml.bfloat16 })
  o.weight_decay = ml.full({ #SIZES }, o.weight_decay, { device = device })
  if o.momentum then o.momentum = ml.tensor({ o.momentum }, { device = device, dtype = ml.float64 }) end
  ml._internal[row.capturable_op](expressions.capturable_arguments(row, together[1], together[2],
    states_by_name(source, together), counts, o, false))
  local text = ("%s %s %s %s"):format(source.name, dtype, device, layout)
  for _, name in ipairs(row.counted) do
    for i = 1, #SIZES do expect.near(counts[name][i]:item(), after[i][name] + 0.0, 1e-15, text .. name) end
  end
  local got = values(together)
  expect.truthy(got:isfinite():all():item(), text)
  expect.truthy(got:equal(values(one_by_one)), text)
  return got
end

local TOLERANCE = { [ml.float64] = 1e-12, [ml.float32] = 3e-6, [ml.bfloat16] = 0.04, [ml.float16] = 0.01 }

for _, source in ipairs(rows.rows) do
  test(source.name .. ": numbers in tensors, on the CPU and on CUDA", function()
    for dtype, tolerance in pairs(TOLERANCE) do
      local here = check_row(source, dtype, "cpu", "plain")
      expect.truthy(here:equal(check_row(source, dtype, "cpu", "shifted")), dtype)
      expect.truthy(here:equal(check_row(source, dtype, "cpu", "turned")), dtype)
      if ml.cuda.is_available() then
        local there = check_row(source, dtype, "cuda", "plain")
        local gap = ((here - there):abs() / (here:abs() + 1)):max():item()
        expect.truthy(gap <= tolerance, ("%s %s: %g"):format(source.name, dtype, gap))
        expect.truthy(there:equal(check_row(source, dtype, "cuda", "shifted")), dtype)
        expect.truthy(there:equal(check_row(source, dtype, "cuda", "turned")), dtype)
      end
    end
  end)
end

test("wrong counts and numbers of the op are named", function()
  local x, g, m, v = { ml.ones(2), ml.ones(3) }, { ml.ones(2), ml.ones(3) }, { ml.ones(2), ml.ones(3) },
    { ml.ones(2), ml.ones(3) }
  local one, none = { ml.ones {}, ml.ones(1) }, {}
  local function step(counts, given)
    ml._internal.adam_capturable_step(x, g, m, v, none, counts, given, 0.1, 0.9, 0.99)
  end
  for _, wrong in ipairs {
    { { ml.ones {} }, none, "step has 1 tensors for 2 parameters" },
    { { ml.ones {}, ml.ones(2) }, none, "step%[2%] must have one element, got shape %(2,%)" },
    { { ml.ones {}, ml.ones({}, { dtype = ml.int64 }) }, none, "step.*int64" },
    { one, { false }, "given has 1 tensors for 5 numbers" },
    { one, { ml.ones(3), false, false, false, false },
      "given%[1%] must have one element, or one for each of 2 parameters, got shape %(3,%)" },
    { one, { false, ml.ones({}, { dtype = ml.int32 }), false, false, false }, "given.*int32" },
  } do
    expect.error(function() step(wrong[1], wrong[2]) end, "adam_capturable_step: " .. wrong[3])
  end
  expect.truthy(x[1]:equal(ml.ones(2)))
  step(one, { ml.ones(2), false, false, false, false })
  expect.equal(one[1]:item(), 2.0)
  if ml.cuda.is_available() then
    expect.error(function() step({ ml.ones(1, CUDA), ml.ones(1) }, none) end, "adam_capturable_step: .*cuda")
  end
end)

test("vmap takes the parameters of all samples at once", function()
  ml.manual_seed(7)
  local count = 3
  local x, g, m = ml.randn(count, 4, 2), ml.randn(4, 2), ml.randn(count, 4, 2)
  local steps, rates = ml.arange(1.0, count), ml.rand(count)
  for _, of_rate in ipairs { false, true } do
    local function step(p, moment, number, rate)
      p, moment, number = p:clone(), moment:clone(), number:clone()
      local square = moment:square()
      ml._internal.adam_capturable_step({ p }, { p * g }, { moment }, { square }, {}, { number },
        { rate, false, false, false, false }, 0, 0.9, 0.99)
      return p + moment + square + number
    end
    local rate = of_rate and rates or rates[1]
    local got = ml.func.vmap(step, { in_dims = { 1, 1, 1, of_rate and 1 or false } })(x, m, steps, rate)
    for i = 1, count do
      expect.truthy(got[i]:equal(step(x[i], m[i], steps[i], of_rate and rates[i] or rate)), i)
    end
  end
end)

-- --- compiled steps ---------------------------------------------------------------------------

on_device("a compiled step of training counts on the device", function()
  for name, options in pairs { Adam = { amsgrad = true }, AdamW = {}, NAdam = {}, RAdam = {}, SGD = { momentum = 0.5 } } do
    local results = {}
    for way = 1, 3 do
      ml.manual_seed(3)
      local net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)):to "cuda"
      local given = plain(options)
      given.lr = way > 1 and ml.tensor(0.125, CUDA) or 0.125
      given.capturable = name ~= "SGD" and way > 1 or nil
      local stepper = optim[name](net:parameters(), given)
      local function step(x, y)
        stepper:zero_grad()
        local loss = ml.cross_entropy(net(x), y)
        loss:backward()
        stepper:step()
        return loss:detach()
      end
      local run, losses = way == 3 and ml.compile(step) or step, {}
      for i = 1, 9 do
        ml.manual_seed(i)
        local group, rate = stepper.param_groups[1], 1 / (8 << i // 4)
        if way > 1 then group.lr:fill_(rate) else group.lr = rate end
        losses[i] = run(ml.randn(8, 4, CUDA), ml.randint(3, { 8 }):cuda()):item()
      end
      if way == 3 then program_case.expect_runs(run, 4) end
      results[way] = { losses, flat(net:parameters()):tolist() }
      for _, state in pairs(stepper.state) do
        if state.step then expect.equal(ml.is_tensor(state.step) and state.step:item() or state.step + 0.0, 9.0) end
      end
    end
    expect.equal(results[2], results[1], name .. ": eager")
    expect.equal(results[3], results[1], name .. ": compiled")
  end
end)

harness.run()
