-- tests/lua/autograd/amp_test.lua: ml.amp: scaling of gradients with PyTorch's numbers, the order of calls,
-- and functions of a script's own under autocast.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local GradScaler = ml.amp.GradScaler
local optim = ml.optim

local function parameter(...) return ml.nn.Parameter(ml.tensor { ... }) end

local function one(options)
  local w = parameter(1.0, 1.0)
  return w, optim.SGD({ w }, 0.1), GradScaler(options)
end

test("ten steps with infinities and NaN have PyTorch's factors and weights", function()
  local scaler = GradScaler { init_scale = 1024, growth_interval = 2 }
  local w = parameter(1.0, 2.0)
  local optimizer = optim.SGD({ w }, { lr = 0.1, momentum = 0.9 })
  local wanted = {
    { 1024, 0.9552786350250244, 1.9105572700500488, 1 }, { 2048, 0.8703080415725708, 1.7406160831451416, 0 },
    { 2048, 0.7491132020950317, 1.4982264041900635, 1 }, { 1024, 0.7491132020950317, 1.4982264041900635, 0 },
    { 1024, 0.595316469669342, 1.190632939338684, 1 }, { 2048, 0.412178099155426, 0.824356198310852, 0 },
    { 2048, 0.20263221859931946, 0.4052644371986389, 1 }, { 1024, 0.20263221859931946, 0.4052644371986389, 0 },
    { 512, 0.20263221859931946, 0.4052644371986389, 0 }, { 512, -0.026485512033104897, -0.05297102406620979, 1 } }
  for i, each in ipairs(wanted) do
    optimizer:zero_grad()
    scaler:scale((w * w):sum()):backward()
    if i == 4 or i == 8 then w.grad[2] = math.huge end
    if i == 9 then w.grad[1] = 0 / 0 end
    scaler:unscale_(optimizer)
    ml.nn.utils.clip_grad_norm_({ w }, 1)
    scaler:step(optimizer)
    scaler:update()
    expect.equal(scaler:get_scale(), each[1] * 1.0, i)
    expect.near(w:tolist(), { each[2], each[3] }, 1e-6, i)
    expect.equal(scaler:state_dict()._growth_tracker, each[4], i)
  end
end)

test("the factor is kept in float32 and grows no further than that goes", function()
  local w, optimizer = one()
  local function factors(scaler, loss, count)
    local out = {}
    for i = 1, count do
      optimizer:zero_grad()
      scaler:scale(loss()):backward()
      scaler:step(optimizer)
      scaler:update()
      out[i] = scaler:get_scale()
    end
    return out
  end
  expect.equal(factors(GradScaler { init_scale = 1.1, growth_factor = 1.7, growth_interval = 1 },
    function() return w:sum() end, 4),
    { 1.8700000047683716, 3.178999900817871, 5.404299736022949, 9.187309265136719 })
  local big = GradScaler { init_scale = 2.0 ^ 100, growth_factor = 2.0 ^ 20, growth_interval = 1 }
  expect.equal(factors(big, function() return (w * 1e-30):sum() end, 2),
    { 2.0 ^ 120, 2.0 ^ 120 })
  expect.equal(big:state_dict()._growth_tracker, 0)
end)

test("scale takes tensors and nested arrays, and keeps their dtypes as PyTorch does", function()
  local _, _, scaler = one()
  local half = ml.ones({}, { dtype = ml.float16 })
  local got = scaler:scale { ml.ones(2), { ml.ones({ 1 }, { dtype = ml.float16 }) } }
  expect.equal(got[1]:tolist(), { 65536, 65536 })
  expect.equal(got[2][1].dtype, "float16")
  expect.equal(got[2][1]:tolist(), { math.huge })
  expect.equal(scaler:scale(half).dtype, "float32")
  expect.equal(scaler:scale(half):item(), 65536)
  expect.error(function() scaler:scale(3) end, "'outputs'")
  expect.error(function() scaler:scale { 3 } end, "scale: a tensor or an array of tensors is expected, got 3")
end)

test("the order of calls", function()
  local w, optimizer, scaler = one()
  expect.error(function() scaler:update() end, "update: nothing was scaled yet")
  expect.error(function() scaler:step(optimizer) end, "step: nothing was scaled yet")
  expect.error(function() scaler:unscale_(optimizer) end, "unscale_: nothing was scaled yet")
  scaler:scale(w:sum()):backward()
  expect.error(function() scaler:update() end, "update: no gradients were looked at")
  scaler:unscale_(optimizer)
  expect.equal(w.grad:tolist(), { 1, 1 })
  expect.error(function() scaler:unscale_(optimizer) end, "unscale_: it was called for this optimizer already")
  scaler:step(optimizer)
  expect.near(w:tolist(), { 0.9, 0.9 })
  expect.error(function() scaler:step(optimizer) end, "step: it was called for this optimizer already")
  expect.error(function() scaler:unscale_(optimizer) end, "unscale_: it is called after step")
  scaler:update()
  expect.error(function() scaler:step(optimizer, function() end) end, "step: a closure cannot be used")
  expect.error(function() scaler:step(optimizer, { closure = print }) end, "step: a closure cannot be used")
  optimizer:zero_grad()
  expect.error(function() scaler:step(optimizer) end, "step: no parameter of this optimizer has a gradient")
  expect.error(function() scaler:update() end, "update: no gradients were looked at")
  expect.error(function() scaler:step(3) end, "'optimizer': an optimiser is expected, got 3")
end)

test("several optimisers have a state each, and one factor", function()
  local a, b = parameter(1.0), parameter(1.0)
  local first, second = optim.SGD({ a }, 0.5), optim.Adam({ b }, 0.5)
  local scaler = GradScaler { init_scale = 4 }
  scaler:scale((a + b):sum()):backward()
  b.grad[1] = 0 / 0
  scaler:step(first)
  scaler:step(second)
  scaler:update()
  expect.equal({ a:item(), b:item() }, { 0.5, 1 })
  expect.equal(scaler:get_scale(), 2.0)
end)

test("step returns what the optimiser returns, and nothing when it is left out", function()
  local w, optimizer, scaler = one()
  optimizer.step = function(_, ...) return "stepped", ... end
  scaler:scale(w:sum()):backward()
  expect.equal({ scaler:step(optimizer, 1, 2) }, { "stepped", 1, 2 })
  scaler:update()
  w.grad[1] = math.huge
  expect.equal(select("#", scaler:step(optimizer, 1)), 0)
end)

test("every optimiser steps as it does without a scaler", function()
  for _, name in ipairs { "SGD", "Adam", "AdamW", "Adagrad" } do
    local plain, scaled = parameter(1.0, -2.0), parameter(1.0, -2.0)
    local p, s = optim[name]({ plain }, 0.1), optim[name]({ scaled }, 0.1)
    local scaler = GradScaler()
    for _ = 1, 3 do
      p:zero_grad()
      s:zero_grad()
      plain:pow(2):sum():backward()
      p:step()
      scaler:scale(scaled:pow(2):sum()):backward()
      scaler:step(s)
      scaler:update()
    end
    expect.equal(scaled:tolist(), plain:tolist(), name)
  end
end)

test("sparse gradients", function()
  local table_of = ml.nn.Embedding(4, 2, { sparse = true })
  local before = table_of.weight:detach():clone()
  local optimizer, scaler = optim.SGD(table_of:parameters(), 1), GradScaler()
  local function run()
    optimizer:zero_grad()
    scaler:scale(table_of(ml.tensor { 2, 2, 4 }):sum()):backward()
  end
  run()
  scaler:unscale_(optimizer)
  expect.truthy(table_of.weight.grad.is_sparse)
  expect.equal(table_of.weight.grad:to_dense():tolist(), { { 0, 0 }, { 2, 2 }, { 0, 0 }, { 1, 1 } })
  scaler:step(optimizer)
  scaler:update()
  expect.near((before - table_of.weight):tolist(), { { 0, 0 }, { 2, 2 }, { 0, 0 }, { 1, 1 } }, 1e-6)
  run()
  table_of.weight.grad:_values()[1][1] = math.huge
  local kept = table_of.weight:tolist()
  scaler:step(optimizer)
  scaler:update()
  expect.equal(table_of.weight:tolist(), kept)
  expect.equal(scaler:get_scale(), 32768.0)
end)

test("gradients in bfloat16 are divided, those in float16 are an error and stay", function()
  local b = ml.nn.Parameter(ml.ones({ 2 }, { dtype = ml.bfloat16 }))
  local optimizer, scaler = optim.SGD({ b }, 0.5), GradScaler { init_scale = 3 }
  scaler:scale(b:sum()):backward()
  scaler:unscale_(optimizer)
  expect.equal(b.grad:tolist(), { 1, 1 })
  local h = ml.nn.Parameter(ml.ones({ 2 }, { dtype = ml.float16 }))
  local f = parameter(1.0)
  optimizer, scaler = optim.SGD({ f, h }, 0.5), GradScaler { init_scale = 4 }
  scaler:scale(h:sum() + f:sum()):backward()
  expect.error(function() scaler:step(optimizer) end, "gradients in float16 cannot be divided")
  expect.equal(f.grad:item(), 4)
end)

test("one element that is not finite is found wherever it is, in each dtype", function()
  for _, dtype in ipairs { ml.float32, ml.float64, ml.bfloat16, ml.complex64 } do
    for _, value in ipairs { math.huge, -math.huge, 0 / 0 } do
      if dtype == ml.complex64 then value = ml.complex(0, value) end
      for _, at in ipairs { 1, 500, 1003 } do
        local p = ml.nn.Parameter(ml.ones({ 1003 }, { dtype = dtype }))
        local optimizer, scaler = optim.SGD({ p }, 1), GradScaler()
        local steps = 0
        optimizer.step = function() steps = steps + 1 end
        scaler:scale(ml.ones(1))
        p.grad = ml.ones({ 1003 }, { dtype = dtype })
        p.grad[at] = value
        scaler:step(optimizer)
        expect.equal(steps, 0, dtype)
        scaler:update()
        p.grad:fill_(1)
        scaler:step(optimizer)
        expect.equal(steps, 1, dtype)
      end
    end
  end
end)

test("update sets the factor to a number or a tensor of one element", function()
  local w, _, scaler = one()
  scaler:scale(w:sum())
  scaler:update(3)
  expect.equal(scaler:get_scale(), 3.0)
  scaler:update { new_scale = ml.tensor { 7.0 } }
  expect.equal(scaler:scale(ml.ones(1)):tolist(), { 7 })
  for _, wrong in ipairs { ml.ones(2), ml.tensor { 1 }, ml.ones(1, { requires_grad = true }) } do
    expect.error(function() scaler:update(wrong) end, "'new_scale' must be a number, or a tensor of one")
  end
  expect.error(function() scaler:update "x" end, "'new_scale'")
end)

test("the state is saved and loaded under PyTorch's names", function()
  local _, _, scaler = one { init_scale = 8, growth_factor = 3, backoff_factor = 0.25, growth_interval = 5 }
  local state = scaler:state_dict()
  expect.equal(state, { scale = 8.0, growth_factor = 3, backoff_factor = 0.25, growth_interval = 5,
    _growth_tracker = 0 })
  local other = GradScaler()
  state._growth_tracker = 4
  other:load_state_dict(state)
  expect.equal(other:state_dict(), state)
  expect.error(function() other:load_state_dict {} end, "the state is empty")
  expect.error(function() other:load_state_dict { scale = 3 } end, "'growth_factor' is missing")
  expect.equal(other:get_scale(), 8.0)
end)

test("its numbers can be read and set", function()
  local _, _, scaler = one()
  scaler:set_growth_factor(4)
  scaler:set_backoff_factor(0.1)
  scaler:set_growth_interval(7)
  expect.equal({ scaler:get_growth_factor(), scaler:get_backoff_factor(), scaler:get_growth_interval() },
    { 4, 0.1, 7 })
  for _, make in ipairs { function(v) return GradScaler { growth_factor = v } end,
    function(v) scaler:set_growth_factor(v) end } do
    expect.error(function() make(1) end, "'growth_factor' must be above 1, got 1")
  end
  for _, make in ipairs { function(v) return GradScaler { backoff_factor = v } end,
    function(v) scaler:set_backoff_factor(v) end } do
    expect.error(function() make(1) end, "'backoff_factor' must be below 1, got 1")
  end
  expect.error(function() GradScaler("tpu") end, "'device' must be cpu or cuda")
  expect.error(function() GradScaler { scale = 3 } end, "unknown option 'scale'")
end)

test("a scaler that is not enabled lets everything through", function()
  local w, optimizer, scaler = one { enabled = false }
  local loss = w:sum()
  expect.truthy(rawequal(scaler:scale(loss), loss))
  loss:backward()
  scaler:unscale_(optimizer)
  scaler:step(optimizer, function() return w:sum() end)
  scaler:update()
  expect.near(w:tolist(), { 0.9, 0.9 })
  expect.equal({ scaler:is_enabled(), scaler:get_scale(), scaler:state_dict() }, { false, 1.0, {} })
  scaler:load_state_dict {}
  if not ml.cuda.is_available() then expect.equal(GradScaler("cuda"):is_enabled(), false) end
end)

test("autocast is there, and says where", function()
  expect.truthy(rawequal(ml.amp.autocast, ml.autocast))
  expect.equal(ml.amp.is_autocast_available "cpu", true)
  expect.equal(ml.amp.is_autocast_available "cuda", true)
  expect.equal(ml.amp.is_autocast_available "meta", false)
end)

test("custom_fwd casts its inputs and turns autocast off, custom_bwd sets it as it was", function()
  local seen = {}
  local function note(_, x, more)
    seen = { x.dtype, more and more.y.dtype, ml.is_autocast_enabled "cpu", ml.mm(x, x).dtype }
    return x
  end
  local x, wide = ml.ones(2, 2), ml.ones({ 2, 2 }, { dtype = ml.float64 })
  local fwd = ml.amp.custom_fwd(note, { device_type = "cpu", cast_inputs = ml.bfloat16 })
  local bwd = ml.amp.custom_bwd(note, { device_type = "cpu" })
  local context = {}
  fwd(context, x, { y = wide })
  expect.equal(seen, { "float32", "float64", false, "float32" })
  ml.autocast({}, fwd, context, x, { y = wide })
  expect.equal(seen, { "bfloat16", "float64", false, "bfloat16" })
  ml.autocast({}, bwd, context, x)
  expect.equal(seen, { "float32", nil, false, "float32" })
  local as_around = ml.amp.custom_fwd(note, { device_type = "cpu" })
  ml.autocast({ dtype = ml.float16 }, as_around, context, x)
  expect.equal(seen, { "float32", nil, true, "float16" })
  bwd(context, x)
  expect.equal(seen, { "float32", nil, true, "float16" })
  as_around(context, x)
  ml.autocast({}, bwd, context, x)
  expect.equal(seen, { "float32", nil, false, "float32" })
  expect.error(function() bwd({}, x) end, "is not wrapped by custom_fwd")
  expect.error(function() fwd(3, x) end, "custom_fwd: the first argument is the context of the function")
  expect.error(function() ml.amp.custom_fwd(note) end, "'device_type' is missing")
  expect.error(function() ml.amp.custom_fwd(note, { device_type = "cpu", cast_inputs = "int" }) end, "int")
end)

harness.run()
