-- tests/lua/optim/optim_modes_test.lua: the ways to compute a step: all parameters at once in the core or
-- one by one by ops, recorded, with rates that are tensors, and on CUDA with counts on the device.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local json = require "moonlet.json"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local nn, optim = ml.nn, ml.optim

local function reference(name)
  local file = assert(io.open((arg[0]:match("^(.*)/") or ".") .. "/../../reference/values/" .. name))
  local out = json.decode(file:read "a")
  file:close()
  return out
end

-- A copy without the parts that JSON may not know to be tables of Lua, with more options.
local function plain(value, more)
  if type(value) ~= "table" then return value end
  local out = {}
  for key, item in pairs(value) do out[key] = plain(item) end
  for key, item in pairs(more or {}) do out[key] = item end
  return out
end

-- Those whose steps are elementwise, with the options that reach other branches.
local CASES = {
  { "SGD", {} }, { "SGD", { momentum = 0.9, dampening = 0.1, weight_decay = 0.1 } },
  { "SGD", { momentum = 0.9, nesterov = true, maximize = true } },
  { "Adam", { weight_decay = 0.1 } }, { "Adam", { amsgrad = true, maximize = true } },
  { "AdamW", {} }, { "Adagrad", { lr_decay = 0.1, weight_decay = 0.1, initial_accumulator_value = 0.1 } },
  { "Adadelta", { weight_decay = 0.1 } }, { "Adamax", { maximize = true } },
  { "ASGD", { lambd = 0.1, t0 = 2 } }, { "NAdam", { weight_decay = 0.1 } },
  { "NAdam", { weight_decay = 0.1, decoupled_weight_decay = true } }, { "RAdam", { betas = { 0.9, 0.99 } } },
  { "RAdam", { weight_decay = 0.1, decoupled_weight_decay = true } }, { "RMSprop", {} },
  { "RMSprop", { centered = true } }, { "RMSprop", { momentum = 0.9, centered = true, weight_decay = 0.1 } },
  { "Rprop", {} }, { "Lion", { weight_decay = 0.1 } },
}
local HAS_FUSED = { SGD = true, Adam = true, AdamW = true, Adagrad = true }
local HAS_EPS = { Adam = true, AdamW = true, Adagrad = true, Adadelta = true, Adamax = true, NAdam = true,
  RAdam = true, RMSprop = true }
local NOT_CAPTURABLE = { SGD = true, Adagrad = true }

local function label_of(case)
  local keys = {}
  for key in pairs(case[2]) do keys[#keys + 1] = key end
  table.sort(keys)
  return ("%s (%s)"):format(case[1], table.concat(keys, ", "))
end

-- Parameters of many shapes and layouts: of one number, empty, transposed, of every second column,
-- channels last, and a complex one where that is not a half type.
local function parameters(dtype, device)
  ml.manual_seed(3)
  local function made(...) return ml.randn(...):to(dtype):to(device or "cpu") end
  local out = { made(3, 5), made {}, made(0, 3), made(4, 6):t(), made(70), made(4, 9)["..., 1:9:2"],
    made(1000), made(2, 3, 4, 5):contiguous { memory_format = "channels_last" } }
  if dtype == ml.float32 then
    out[9] = ml.complex(made(7), made(7))
  end
  for i, x in ipairs(out) do out[i] = x:detach():requires_grad_(true) end
  return out
end

local function gradients(params, step)
  ml.manual_seed(100 + step)
  for i, p in ipairs(params) do
    local g = ml.randn(p:is_complex() and ml.view_as_real(p:detach()).shape or p.shape)
    if p:is_complex() then g = ml.view_as_complex(g) end
    g = g:to { dtype = p.dtype, device = p.device }
    -- One that has none, and one that lies otherwise than its parameter.
    if i == 4 then g = g:contiguous() end
    p.grad = nil
    if i ~= 5 or step ~= 2 then p.grad = g end
  end
end

local function copies(list)
  local out = {}
  for i, x in ipairs(list) do out[i] = x:detach():to("cpu"):clone() end
  return out
end

local function moved(case, mode, dtype, device, steps)
  local params = parameters(dtype, device)
  local optimizer = optim[case[1]](params, plain(case[2], mode))
  for step = 1, steps or 4 do
    gradients(params, step)
    optimizer:step()
  end
  return copies(params), optimizer
end

local function expect_alike(got, wanted, tolerance, label)
  for i, x in ipairs(wanted) do
    expect.equal(got[i].shape, x.shape, label)
    local difference = (got[i] - x):abs()
    if x:numel() > 0 then
      difference = (difference / x:abs():clamp { min = 1 }):max():item()
      if not (difference <= tolerance) then
        error(("%s: parameter %d differs by %g"):format(label, i, difference), 0)
      end
    end
  end
end

local TOLERANCE = { float64 = 1e-10, float32 = 3e-5, bfloat16 = 0.15, float16 = 0.03 }

for _, case in ipairs(CASES) do
  test(label_of(case) .. ": the core and ops agree", function()
    for _, dtype in ipairs { ml.float64, ml.float32, ml.bfloat16, ml.float16 } do
      -- An `eps` that float16 cannot hold makes ops divide by 0.
      if dtype == ml.float16 and HAS_EPS[case[1]] then case = { case[1], plain(case[2], { eps = 1e-3 }) } end
      -- Where half types lose what is added, the signs that Rprop and Lion follow differ.
      local rough = (case[1] == "Rprop" or case[1] == "Lion") and TOLERANCE[dtype] > 0.01
      local by_ops = moved(case, { foreach = false }, dtype)
      expect_alike(moved(case, { foreach = true }, dtype), by_ops, rough and 1 or TOLERANCE[dtype], dtype)
      expect.equal(#copies(moved(case, nil, dtype)), #by_ops)
    end
  end)
end

test("the number of threads changes no number", function()
  local before = ml.get_num_threads()
  for _, case in ipairs(CASES) do
    local results = {}
    for threads = 1, 2 do
      ml.set_num_threads(threads)
      ml.manual_seed(8)
      local params = { ml.randn(99991), ml.randn(3), ml.randn(40013), ml.randn(257, 129) }
      for i, x in ipairs(params) do
        params[i] = nn.Parameter(x)
        params[i].grad = ml.randn(x.shape)
      end
      local optimizer = optim[case[1]](params, plain(case[2]))
      for _ = 1, 2 do optimizer:step() end
      results[threads] = copies(params)
    end
    ml.set_num_threads(before)
    for i, x in ipairs(results[1]) do
      expect.truthy(x:equal(results[2][i]), label_of(case))
      -- Elements at the ends of what a thread has move as the others do.
      expect.truthy(x:isfinite():all():item())
    end
  end
end)

test("parameters whose steps count differently are stepped apart", function()
  for _, case in ipairs(CASES) do
    local function follow(mode)
      local params = {}
      for i = 1, 4 do params[i] = nn.Parameter(ml.arange(1.0, 3.0) * i) end
      params[4] = nn.Parameter(ml.arange(1.0, 3.0):to(ml.float64))
      local optimizer = optim[case[1]](params, plain(case[2], mode))
      for step = 1, 5 do
        for i, p in ipairs(params) do
          p.grad = nil
          if (step + i) % 3 ~= 0 then p.grad = p:detach() * 0.5 - step end
        end
        optimizer:step()
      end
      return copies(params), optimizer:state_dict()
    end
    local got, state = follow {}
    local wanted, state_by_ops = follow { foreach = false }
    expect_alike(got, wanted, 1e-5, label_of(case))
    for i = 0, 3 do
      expect.equal(state.state[i].step, state_by_ops.state[i].step)
      expect.near(state.state[i].eta or 0, state_by_ops.state[i].eta or 0, 1e-12)
    end
  end
end)

test("an error about one parameter comes before any is changed", function()
  for _, case in ipairs(CASES) do
    local sizes = { 3, 4, 5 }
    for _, dtype in ipairs { ml.float32, ml.float64 } do
      local params = {}
      for i, n in ipairs(sizes) do
        params[i] = nn.Parameter(ml.ones(n, { dtype = i == 3 and dtype or ml.float32 }))
        params[i].grad = ml.ones_like(params[i])
      end
      local optimizer = optim[case[1]](params, plain(case[2]))
      optimizer:step()
      local before, state = copies(params), optimizer.state[params[3]]
      local name
      for key, value in pairs(state) do
        if ml.is_tensor(value) then name = key end
      end
      if name then
        state[name] = ml.zeros(7, { dtype = params[3].dtype })
        local step = optimizer.state[params[1]].step
        expect.error(function() optimizer:step() end, "has shape")
        expect_alike(params, before, 0, label_of(case))
        expect.equal(optimizer.state[params[1]].step, step)
      end
    end
  end
  local embedding = nn.Embedding(4, 2, { sparse = true })
  local p = nn.Parameter(ml.ones(2))
  p.grad = ml.ones(2)
  embedding(ml.tensor { 1, 2 }):sum():backward()
  for _, name in ipairs { "Adam", "RMSprop", "Rprop" } do
    local optimizer = optim[name]({ p, embedding.weight })
    expect.error(function() optimizer:step() end, name .. " does not support sparse gradients")
    expect.equal(p:detach():tolist(), { 1.0, 1.0 })
  end
  expect.error(function() optim.SGD({ p, embedding.weight }, { fused = true }):step() end, "'fused'.*sparse")
  local complex = nn.Parameter(ml.complex(ml.ones(2), ml.ones(2)))
  complex.grad = complex:detach():clone()
  expect.error(function() optim.Adam({ complex }, { fused = true }):step() end, "'fused'.*is complex")
end)

test("a step raises the versions of what it changes", function()
  local p = nn.Parameter(ml.ones(3))
  local y = (p * p):sum()
  p.grad = ml.ones(3)
  optim.Adam({ p }):step()
  expect.error(function() y:backward() end, "adam_step")
end)

test("a scaler leaves out steps of every kind", function()
  for _, mode in ipairs { {}, { fused = true }, { foreach = true }, { foreach = false } } do
    local p = nn.Parameter(ml.ones(3))
    local optimizer, scaler = optim.Adam({ p }, plain(mode, { lr = 0.5 })), ml.amp.GradScaler { init_scale = 4 }
    scaler:scale((p * math.huge):sum()):backward()
    scaler:step(optimizer)
    scaler:update()
    expect.equal(p:detach():tolist(), { 1.0, 1.0, 1.0 })
    optimizer:zero_grad()
    scaler:scale(p:sum()):backward()
    scaler:step(optimizer)
    expect.near(p:detach():tolist(), { 0.5, 0.5, 0.5 }, 1e-6)
    expect.equal(p.grad:tolist(), { 1.0, 1.0, 1.0 })
  end
end)

test("modes see the step of a list as one op", function()
  local p = { nn.Parameter(ml.ones(3)), nn.Parameter(ml.ones(2)) }
  for _, x in ipairs(p) do x.grad = ml.ones_like(x) end
  local seen = 0
  local function handler(op, arguments, call)
    if op.name == "sgd_step" then
      seen = seen + 1
      expect.equal(#arguments[1], 2)
    end
    return call(table.unpack(arguments, 1, #op.arguments))
  end
  ml.override(handler, function() optim.SGD(p, { lr = 0.5 }):step() end)
  expect.equal(seen, 1)
  expect.equal(p[2]:detach():tolist(), { 0.5, 0.5 })
  expect.equal(ml.ops.info "sgd_step".arguments[1].written, true)
end)

-- --- rates that are tensors ------------------------------------------------------------------

test("a rate may be a tensor of one element", function()
  for _, case in ipairs(CASES) do
    for _, mode in ipairs { {}, { foreach = false } } do
      local number = moved(case, plain(mode, { lr = 0.125 }), ml.float32)
      for _, rate in ipairs { ml.tensor(0.125), ml.tensor { 0.125 }, ml.tensor(0.125, { dtype = ml.float64 }) } do
        expect_alike(moved(case, plain(mode, { lr = rate }), ml.float32), number, 0, label_of(case))
      end
    end
  end
  for _, name in ipairs { "Adafactor", "Muon", "LBFGS" } do
    local results = {}
    for i, rate in ipairs { 0.125, ml.tensor(0.125) } do
      local p = nn.Parameter(ml.tensor { { 1.0, 2.0 }, { -1.0, 0.5 } })
      local optimizer = optim[name]({ p }, { lr = rate })
      for _ = 1, 2 do
        optimizer:step(function()
          optimizer:zero_grad()
          local loss = (p ^ 2):sum()
          loss:backward()
          return loss
        end)
      end
      results[i] = p:detach():tolist()
    end
    expect.equal(results[1], results[2], name)
  end
  local betas = { ml.tensor(0.875), ml.tensor { 0.75 } }
  expect_alike(moved({ "Adam", {} }, { betas = betas }, ml.float32),
    moved({ "Adam", {} }, { betas = { 0.875, 0.75 } }, ml.float32), 0, "betas")
end)

test("wrong rates are named", function()
  local p = { nn.Parameter(ml.ones(2)) }
  for _, rate in ipairs { ml.tensor { 0.1, 0.2 }, ml.tensor(-0.1), ml.zeros(0), "x", ml.tensor(0 / 0) } do
    expect.error(function() optim.SGD(p, { lr = rate }) end, "'lr': a number of at least 0 or a tensor of one")
  end
  for _, name in ipairs { "Adam", "AdamW" } do
    expect.error(function() optim[name](p, { lr = ml.tensor(0.1), foreach = true }) end, "'lr' must be of numbers")
    expect.truthy(optim[name](p, { lr = ml.tensor(0.1), foreach = true, capturable = true }))
    expect.error(function() optim[name](p, { betas = { ml.tensor(0.1), ml.tensor(0.2) }, foreach = true }) end,
      "'betas' must be of numbers")
    expect.error(function() optim[name](p, { betas = { ml.tensor(0.1), 0.2 } }) end, "'betas'")
    expect.error(function() optim[name](p, { betas = { ml.tensor(1.5), ml.tensor(0.2) } }) end, "from 0 to below 1")
  end
end)

test("schedules change a rate that is a tensor in place", function()
  local schedules = optim.lr_scheduler
  local makers = {
    function(o) return schedules.StepLR(o, 2, 0.5) end, function(o) return schedules.LinearLR(o) end,
    function(o) return schedules.ExponentialLR(o, 0.9) end, function(o) return schedules.CosineAnnealingLR(o, 3) end,
    function(o) return schedules.LambdaLR(o, function(e) return 1 / (1 + e) end) end,
    function(o) return schedules.OneCycleLR(o, 0.5, 8) end, function(o) return schedules.CyclicLR(o, 0.01, 0.1, 2) end,
    function(o) return schedules.CosineAnnealingWarmRestarts(o, 3) end,
    function(o) return optim.swa_utils.SWALR(o, 0.02) end,
    function(o) return schedules.SequentialLR(o, { schedules.ConstantLR(o), schedules.ExponentialLR(o, 0.5) }, { 2 }) end,
    function(o) return schedules.ChainedScheduler { schedules.ConstantLR(o), schedules.ExponentialLR(o, 0.5) } end,
  }
  for i, make in ipairs(makers) do
    local rate = ml.tensor(0.1, { dtype = ml.float64 })
    local optimizers, made = {}, {}
    for j, lr in ipairs { 0.1, rate } do
      optimizers[j] = optim.SGD({ nn.Parameter(ml.ones(1)) }, { lr = lr, momentum = 0.9 })
      made[j] = make(optimizers[j])
    end
    for _ = 1, 6 do
      local now = optimizers[2].param_groups[1].lr
      expect.truthy(rawequal(now, rate), "schedule " .. i)
      expect.near(now:item(), optimizers[1].param_groups[1].lr, 1e-15, "schedule " .. i)
      local last = made[2]:get_last_lr()[1]
      expect.near(last:item(), made[1]:get_last_lr()[1], 1e-15)
      last:fill_(7)
      expect.near(made[2]:get_last_lr()[1]:item(), made[1]:get_last_lr()[1], 1e-15)
      for j = 1, 2 do made[j]:step() end
    end
    local again = make(optim.SGD({ nn.Parameter(ml.ones(1)) }, { lr = ml.tensor(0.1), momentum = 0.9 }))
    again:load_state_dict(made[2]:state_dict())
    expect.near(again:get_last_lr()[1]:item(), made[1]:get_last_lr()[1], 1e-15)
  end
  local rate = ml.tensor(0.5)
  local plateau = schedules.ReduceLROnPlateau(optim.SGD({ nn.Parameter(ml.ones(1)) }, { lr = rate }), { patience = 0 })
  for _ = 1, 3 do plateau:step(1.0) end
  expect.near(rate:item(), 0.005, 1e-8)
end)

test("a state dict keeps a rate that is a tensor, and a loaded one is another tensor", function()
  local rate = ml.tensor(0.25)
  local optimizer = optim.SGD({ nn.Parameter(ml.ones(1)) }, { lr = rate })
  local state = optimizer:state_dict()
  local other = optim.SGD({ nn.Parameter(ml.ones(1)) })
  harness.with_temp_file(function(path)
    ml.save(path, state)
    other:load_state_dict((ml.load(path)))
    expect.equal(other.param_groups[1].lr:item(), 0.25)
  end)
  other:load_state_dict(state)
  other.param_groups[1].lr:fill_(1)
  expect.equal(rate:item(), 0.25)
  expect.truthy(tostring(other):find("lr = 1.0", 1, true), tostring(other))
end)

-- --- recorded steps --------------------------------------------------------------------------

local function expect_numbers(got, wanted, label)
  for i, value in ipairs(wanted) do
    if not (math.abs(got[i] - value) <= 1e-6 * math.max(1, math.abs(value))) then
      error(("%s: number %d is %.12g, expected %.12g"):format(label, i, got[i], value), 0)
    end
  end
end

for i, case in ipairs(reference "differentiable.json") do
  test(("%s, case %d: derivatives through steps"):format(case.name, i), function()
    local start = ml.tensor({ 0.7, -1.2, 0.4 }, { dtype = ml.float64, requires_grad = true })
    local rate = case.by_rate and ml.tensor(0.1, { dtype = ml.float64, requires_grad = true }) or 0.1
    local p = start:clone()
    local optimizer = optim[case.name]({ p }, plain(case.options, { lr = rate, differentiable = true }))
    local scale = ml.tensor({ 1.0, 2.0, 3.0 }, { dtype = ml.float64 })
    for step = 0, case.steps - 1 do
      local q = p:clone()
      local loss = ((q * scale - 0.3 * step) ^ 4):sum() * 0.02
      p.grad = ml.grad(loss, q, { create_graph = true })
      optimizer:step()
    end
    expect_numbers(p:tolist(), case.values, "the parameter")
    local slopes = table.pack(ml.grad((p ^ 3):sum(), case.by_rate and { start, rate } or { start }))
    if type(slopes[1]) == "table" and not ml.is_tensor(slopes[1]) then slopes = slopes[1] end
    expect_numbers(slopes[1]:tolist(), case.start, "by the start")
    if case.by_rate then expect_numbers({ slopes[2]:item() }, { case.rate }, "by the rate") end
  end)
end

test("derivatives by other options that are tensors are those of differences", function()
  local double = { dtype = ml.float64 }
  local function value_at(name, make, ...)
    local p = ml.tensor({ 0.7, -1.2, 0.4 }, double):requires_grad_(true):clone()
    local optimizer = optim[name]({ p }, make(...))
    for _ = 1, 3 do
      local q = p:clone()
      p.grad = ml.grad((q ^ 4):sum(), q, { create_graph = true })
      optimizer:step()
    end
    return (p ^ 3):sum()
  end
  local cases = {
    { "SGD", { 0.3 }, function(decay) return { lr = 0.05, weight_decay = decay } end },
    { "Adam", { 0.8, 0.9 }, function(a, b) return { lr = 0.1, betas = { a, b } } end },
    { "AdamW", { 0.8, 0.9 }, function(a, b) return { lr = 0.1, betas = { a, b }, amsgrad = true } end },
  }
  for _, case in ipairs(cases) do
    local name, at, options = table.unpack(case)
    local function make(...)
      local o = options(...)
      o.differentiable = true
      return o
    end
    local leaves = {}
    for i, x in ipairs(at) do leaves[i] = ml.tensor(x, double):requires_grad_(true) end
    value_at(name, make, table.unpack(leaves)):backward()
    for i, x in ipairs(at) do
      local function shifted(by)
        local moved_to = { table.unpack(at) }
        moved_to[i] = x + by
        return value_at(name, make, table.unpack(moved_to)):item()
      end
      local slope = (shifted(1e-6) - shifted(-1e-6)) / 2e-6
      expect.near(leaves[i].grad:item(), slope, 1e-5 * math.max(1, math.abs(slope)), name)
    end
  end
end)

test("a leaf that requires grad cannot be stepped while recording", function()
  local p = nn.Parameter(ml.ones(2))
  p.grad = ml.ones(2)
  local optimizer = optim.SGD({ p }, { differentiable = true })
  expect.error(function() optimizer:step() end, "leaf")
  local made = p * 2
  expect.error(function() optim.SGD({ made }) end, "not a leaf")
end)

-- --- CUDA ------------------------------------------------------------------------------------

if ml.cuda.is_available() then
  for _, case in ipairs(CASES) do
    test(label_of(case) .. ": CUDA as the CPU", function()
      for _, dtype in ipairs { ml.float64, ml.float32, ml.bfloat16, ml.float16 } do
        local rough = (case[1] == "Rprop" or case[1] == "Lion") and TOLERANCE[dtype] > 0.01
        local limit = rough and 1 or TOLERANCE[dtype]
        local wanted = moved(case, nil, dtype)
        expect_alike(moved(case, nil, dtype, "cuda"), wanted, limit, dtype)
        if dtype == ml.float32 then
          expect_alike(moved(case, { foreach = false }, dtype, "cuda"), wanted, limit, "by ops")
          if not NOT_CAPTURABLE[case[1]] then
            local got, optimizer = moved(case, { capturable = true }, dtype, "cuda")
            expect_alike(got, wanted, limit, "capturable")
            local state = optimizer.state[optimizer.param_groups[1].params[1]]
            expect.equal(state.step.device, "cuda:0")
            expect.equal(state.step:item(), 4)
          end
          if HAS_FUSED[case[1]] and case[1] ~= "AdamW" then
            local p = nn.Parameter(ml.ones(3, { device = "cuda" }))
            p.grad = ml.ones_like(p)
            optim[case[1]]({ p }, plain(case[2], { fused = true })):step()
          end
        end
      end
    end)
  end

  test("a capturable state goes on from a state dict, with rates on either device", function()
    for _, case in ipairs(CASES) do
      if not NOT_CAPTURABLE[case[1]] then
        local results = {}
        for k = 1, 3 do
          local p = nn.Parameter(ml.arange(1.0, 4.0, { device = "cuda" }))
          local rate = k > 1 and ml.tensor(0.0625, { device = k == 2 and "cuda" or "cpu" }) or 0.0625
          local function make() return optim[case[1]]({ p }, plain(case[2], { lr = rate, capturable = k > 1 })) end
          local optimizer = make()
          for step = 1, 8 do
            p.grad = p:detach() * 0.5 - step % 3
            optimizer:step()
            if step == 5 and k > 1 then
              local state = optimizer:state_dict()
              optimizer = make()
              optimizer:load_state_dict(state)
            end
          end
          results[k] = p:detach():to "cpu"
        end
        expect_alike(results, { results[1], results[1], results[1] }, 2e-5, label_of(case))
      end
    end
  end)

  test("parameters on several devices in a group", function()
    local cpu, cuda = nn.Parameter(ml.ones(3)), nn.Parameter(ml.ones(3, { device = "cuda" }))
    local optimizer = optim.Adam { cpu, cuda }
    for _ = 1, 3 do
      for _, p in ipairs { cpu, cuda } do p.grad = p:detach() * 2 end
      optimizer:step()
    end
    expect_alike({ cuda:detach():to "cpu" }, { cpu:detach() }, 1e-6, "Adam")
  end)
end

harness.run()
