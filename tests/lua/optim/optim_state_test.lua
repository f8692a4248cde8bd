-- tests/lua/optim/optim_state_test.lua: hooks of optimisers' states, names of parameters, states that
-- PyTorch wrote, options that cannot be honoured, complex parameters and bad arguments.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local nn, optim = ml.nn, ml.optim
local here = arg[0]:match("^(.*)/") or "."

local NAMES = { "SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD",
  "RMSprop", "Rprop", "Lion", "Adafactor", "LBFGS" }

local function parameter() return nn.Parameter(ml.tensor { 1.0, -2.0 }) end

test("hooks of state dicts run in their order and may replace the state", function()
  local p, order = parameter(), {}
  local optimizer = optim.SGD({ p }, { lr = 0.5 })
  local function note(name) return function() order[#order + 1] = name end end
  optimizer:register_state_dict_pre_hook(note "second")
  optimizer:register_state_dict_pre_hook(note "first", true)
  local post = optimizer:register_state_dict_post_hook(function(self, state)
    expect.equal(self, optimizer)
    state.extra = 7
    return { state = state.state, param_groups = state.param_groups, extra = state.extra + 1 }
  end)
  expect.equal(optimizer:state_dict().extra, 8)
  post:remove()
  local state = optimizer:state_dict()
  expect.equal(state.extra, nil)
  expect.equal(order, { "first", "second", "first", "second" })
  optimizer:register_load_state_dict_pre_hook(function(_, given)
    given.param_groups[1].lr = 0.25
  end)
  optimizer:register_load_state_dict_post_hook(note "loaded", { prepend = true })
  optimizer:load_state_dict(state)
  expect.equal(optimizer.param_groups[1].lr, 0.25)
  expect.equal(order[5], "loaded")
  expect.error(function() optimizer:register_state_dict_pre_hook(3) end, "'hook': a function is expected")
end)

test("parameters with names", function()
  local net = nn.Linear(2, 1)
  for _, given in ipairs { function() return (net:named_parameters()) end,
    function() return { { "weight", net.weight }, { "bias", net.bias } } end } do
    local optimizer = optim.SGD(given(), { lr = 0.1 })
    expect.equal(optimizer.param_groups[1].param_names, { "weight", "bias" })
    expect.equal(optimizer.param_groups[1].params[2], net.bias)
    local state = optimizer:state_dict()
    expect.equal(state.param_groups[1].param_names, { "weight", "bias" })
    optimizer:load_state_dict(state)
    expect.error(function() optimizer:add_param_group { params = { parameter() } } end,
      "all groups have names of parameters, or none")
    optimizer:add_param_group { params = { { "more", parameter() } } }
    expect.equal(optimizer.param_groups[2].param_names, { "more" })
  end
  expect.error(function() optim.SGD { { "weight", net.weight }, net.bias } end, "1 of 2 have")
end)

test("a state that PyTorch wrote", function()
  local file = ml.load(here .. "/../../reference/torch_files/checkpoint.pt")
  local net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
  local optimizer = optim.Adam(net:parameters())
  optimizer:load_state_dict(file.optimizer)
  expect.equal(optimizer.param_groups[1].lr, 0.01)
  local state = optimizer.state[net[1].weight]
  expect.equal(state.step, 1)
  expect.equal(state.exp_avg.shape, net[1].weight.shape)
  for _, p in ipairs(net:parameters()) do p.grad = ml.ones_like(p) end
  optimizer:step()
  expect.equal(state.step, 2)
end)

-- Which ways to compute a step an optimiser knows; those of PyTorch, and Lion's.
local MODES = {
  SGD = "foreach differentiable fused", Adagrad = "foreach differentiable fused",
  Adam = "foreach capturable differentiable fused", AdamW = "foreach capturable differentiable fused",
  Adafactor = "foreach", LBFGS = "", Muon = "",
}
for name in ("Adadelta Adamax ASGD Lion NAdam RAdam RMSprop Rprop"):gmatch "%a+" do
  MODES[name] = "foreach capturable differentiable"
end

test("ways to compute a step that do not go together are errors", function()
  for _, name in ipairs(NAMES) do
    local known = {}
    for _, option in ipairs { "foreach", "capturable", "differentiable", "fused" } do
      if pcall(optim[name], { parameter() }, { [option] = true }) then known[#known + 1] = option end
    end
    expect.equal(table.concat(known, " "), MODES[name], name)
    local function refused(options, message)
      expect.error(function() optim[name]({ parameter() }, options) end, message)
      expect.error(function()
        optim[name]({ parameter() }):add_param_group { params = { parameter() },
          foreach = options.foreach, fused = options.fused, differentiable = options.differentiable }
      end, message)
    end
    local modes = MODES[name]
    if modes:find "fused" then
      refused({ foreach = true, fused = true }, "'foreach' and 'fused' cannot both be true")
      refused({ differentiable = true, fused = true }, "'fused' must not be true")
    end
    if modes:find "differentiable" then
      refused({ differentiable = true, foreach = true }, "'foreach' must not be true")
    end
    if modes:find "capturable" then
      local p = parameter()
      local optimizer = optim[name]({ p }, { capturable = true })
      p.grad = p:detach():clone()
      expect.error(function() optimizer:step() end, "'capturable' must not be true.*on cpu")
      expect.equal(p:detach():tolist(), p.grad:tolist())
    end
  end
end)

test("complex parameters move as pairs of real ones", function()
  for _, name in ipairs(NAMES) do
    if name ~= "Adafactor" and name ~= "Lion" then
      local z = nn.Parameter(ml.complex(ml.tensor { 1.0, 0.5 }, ml.tensor { -2.0, 3.0 }))
      local x = nn.Parameter(ml.view_as_real(z:detach()):clone())
      local a, b = optim[name]({ z }, { lr = 0.05 }), optim[name]({ x }, { lr = 0.05 })
      local function closure(p)
        return function()
          p.grad = nil
          local real = p:is_complex() and ml.view_as_real(p) or p
          local loss = (real ^ 2):sum()
          loss:backward()
          return loss
        end
      end
      for _ = 1, 3 do
        a:step(closure(z))
        b:step(closure(x))
      end
      expect.near(ml.view_as_real(z:detach()):totable(), x:detach():totable(), 1e-6, name)
    end
  end
end)

test("parameters that are empty, numbers or without a gradient", function()
  for _, name in ipairs(NAMES) do
    local empty, one, idle = nn.Parameter(ml.zeros(0, 3)), nn.Parameter(ml.tensor(2.0)), parameter()
    local optimizer = optim[name]({ empty, one, idle }, { lr = 0.1 })
    for _ = 1, 2 do
      optimizer:step(function()
        optimizer:zero_grad()
        local loss = empty:sum() + one * one
        loss:backward()
        return loss
      end)
    end
    expect.truthy(one:item() < 2, name)
    expect.equal(idle:tolist(), { 1.0, -2.0 }, name)
  end
end)

-- Chained schedules get there, and PyTorch loads such states too.
test("a state with a rate that no constructor takes loads", function()
  for _, name in ipairs { "SGD", "Adam", "LBFGS" } do
    local p = ml.zeros(1, { requires_grad = true })
    local optimizer = ml.optim[name]({ p }, { lr = 0.1 })
    optimizer.param_groups[1].lr = -1e-4
    local other = ml.optim[name]({ p }, { lr = 0.1 })
    other:load_state_dict(optimizer:state_dict())
    expect.equal(other.param_groups[1].lr, -1e-4, name)
    expect.error(function() return ml.optim[name]({ p }, { lr = -1e-4 }) end, "lr", name)
  end
  local p = ml.zeros(1, { requires_grad = true })
  local state = ml.optim.SGD({ p }, { lr = 0.1 }):state_dict()
  state.param_groups[1].lr = "fast"
  expect.error(function() ml.optim.SGD({ p }, { lr = 0.1 }):load_state_dict(state) end, "lr")
end)

test("states that lack something or hold nonsense are refused", function()
  local p = parameter()
  for name, key in pairs { Adam = "exp_avg", RMSprop = "square_avg", Rprop = "step_size",
    Adagrad = "sum", Adafactor = "variance", NAdam = "mu_product" } do
    local optimizer = optim[name]({ p })
    p.grad = ml.ones(2)
    optimizer:step()
    local state = optimizer:state_dict()
    state.state[0][key] = key == "mu_product" and "x" or nil
    expect.error(function() optimizer:load_state_dict(state) end, "load_state_dict", name)
    state = optimizer:state_dict()
    state.state[0].step = -1
    expect.error(function() optimizer:load_state_dict(state) end, "'step' of parameter 0 must be", name)
    state.state[0] = 3
    expect.error(function() optimizer:load_state_dict(state) end, "must be a table, got 3", name)
  end
  local lbfgs = optim.LBFGS({ p }, { max_iter = 3 })
  lbfgs:step(function()
    lbfgs:zero_grad()
    local loss = (p ^ 4):sum()
    loss:backward()
    return loss
  end)
  local state = lbfgs:state_dict()
  state.state[0].d = ml.zeros(3)
  expect.error(function() lbfgs:load_state_dict(state) end, "no state of LBFGS for these parameters")
end)

test("bad options of the newer optimisers are named", function()
  local p = parameter()
  local function bad(name, options, message)
    expect.error(function() optim[name]({ p }, options) end, message)
  end
  bad("Rprop", { etas = { 1.5, 2 } }, "'etas' must be a number between 0 and 1 and one above 1")
  bad("NAdam", { betas = { 0.9, 1.5 } }, "NAdam: 'betas' must be two numbers from 0 to below 1")
  bad("Adadelta", { rho = 2 }, "'rho' must be a number from 0 to 1")
  bad("RMSprop", { alhpa = 1 }, "did you mean 'alpha'")
  bad("Adafactor", { eps = 1 }, "'eps'")
  bad("Adafactor", { d = 0.5 }, "'d' must be a number of at least 1")
  bad("LBFGS", { line_search_fn = "armijo" }, "'line_search_fn' must be \"strong_wolfe\" or nothing, got")
  bad("Muon", {}, "must be matrices of real numbers, got one of shape %(2,%)")
  expect.error(function() optim.Muon({ nn.Parameter(ml.zeros(2, 2)) }, { ns_steps = 100 }) end, "'ns_steps'")
  expect.error(function() optim.AdamW({ { params = { p }, decoupled_weight_decay = false } }) end,
    "'decoupled_weight_decay' must be true")
  local lbfgs = optim.LBFGS({ p })
  expect.error(function() lbfgs:step() end, "step wants a closure")
  expect.error(function() lbfgs:step(function() return "x" end) end, "must return the loss")
  expect.error(function() lbfgs:add_param_group { params = { parameter() } } end, "one group")
  expect.error(function() optim.LBFGS { { params = { p } }, { params = { parameter() } } } end, "one group")
  local sparse = nn.Embedding(3, 2, { sparse = true })
  sparse(ml.tensor { 1, 2 }):sum():backward()
  expect.error(function() optim.RAdam(sparse:parameters()):step() end, "does not support sparse gradients")
end)

test("hooks run around the step of LBFGS too", function()
  local p, order = parameter(), {}
  local optimizer = optim.LBFGS({ p })
  optimizer:register_step_pre_hook(function() order[#order + 1] = "before" end)
  optimizer:register_step_post_hook(function() order[#order + 1] = "after" end)
  local loss = optimizer:step(function()
    optimizer:zero_grad()
    local l = (p ^ 2):sum()
    l:backward()
    return l
  end)
  expect.near(loss:item(), 5)
  expect.equal(order, { "before", "after" })
  expect.near(p:detach():tolist(), { 0, 0 }, 1e-5)
end)

test("options that are not set are None for PyTorch's optimisers", function()
  local p = nn.Parameter(ml.ones(2))
  local function text(s) return "X" .. ("<s4"):pack(s) end
  local function bytes_of(state)
    local path = os.tmpname()
    ml.save(path .. ".pt", state)
    local file <close> = assert(io.open(path .. ".pt", "rb"))
    os.remove(path .. ".pt")
    os.remove(path)
    return file:read "a"
  end
  local lbfgs = optim.LBFGS({ p }, { max_iter = 1 })
  local function closure()
    lbfgs:zero_grad()
    local loss = (p ^ 2):sum()
    loss:backward()
    return loss
  end
  lbfgs:step(closure)
  local bytes = bytes_of(lbfgs:state_dict())
  expect.truthy(bytes:find(text "line_search_fn" .. "N", 1, true))
  -- A list that is empty, and one that has a position for each direction.
  expect.truthy(bytes:find(text "old_dirs" .. "]", 1, true))
  lbfgs:step(closure)
  expect.truthy(bytes_of(lbfgs:state_dict()):find("N" .. ("N"):rep(98) .. "e", 1, true))
  for name, keys in pairs { Adam = { "foreach", "fused" }, Muon = { "adjust_lr_fn" }, SGD = { "foreach", "fused" } } do
    local state = bytes_of(optim[name]({ nn.Parameter(ml.ones(2, 2)) }, { lr = 0.1 }):state_dict())
    for _, key in ipairs(keys) do expect.truthy(state:find(text(key) .. "N", 1, true), name .. " " .. key) end
  end
  local sgd = optim.SGD({ p }, { lr = 0.1, momentum = 0.9 })
  local schedules = optim.lr_scheduler
  bytes = bytes_of(schedules.CyclicLR(sgd, 0.1, 0.2):state_dict())
  expect.truthy(bytes:find(text "_scale_fn_custom" .. "N", 1, true))
  bytes = bytes_of(schedules.LambdaLR(sgd, function() return 1 end):state_dict())
  expect.truthy(bytes:find("lr_lambdas%]q.%(Ne"))
end)

harness.run()
