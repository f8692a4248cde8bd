-- tests/lua/optim/optim_test.lua: the optimisers against PyTorch's numbers, their groups and state, and
-- clipping of gradients.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local nn, optim = ml.nn, ml.optim

-- Made by tests/reference/make_optim.py.
local REFERENCE = {
  { "SGD", { lr = 0.1 },
    { 1.29198964765625, -0.810054887011719, -2.1457434359375, 0.599008155664063 } },
  { "SGD", { lr = 0.1, momentum = 0.9 },
    { 1.86319469234375, 2.03861008263672, -15.2153658040625, 0.332731955585938 } },
  { "SGD", { lr = 0.05, momentum = 0.9, dampening = 0.3, weight_decay = 0.1 },
    { 0.661753012015415, -0.685497033812918, -8.43463446479722, -3.02991518657691 } },
  { "SGD", { lr = 0.05, momentum = 0.8, nesterov = true, weight_decay = 0.01 },
    { 1.31593759818176, -0.0608833604639353, -6.85452043963343, -0.247304688992319 } },
  { "Adam", { lr = 0.1 },
    { 0.632314858531554, -1.6681048250566, 2.65643968870016, 0.149646476047997 } },
  { "Adam", { lr = 0.05, betas = { 0.8, 0.95 }, eps = 1e-06, weight_decay = 0.1 },
    { 0.821571087295898, -1.8306204051474, 2.83197479199617, 0.330289418060488 } },
  { "Adam", { lr = 0.1, amsgrad = true },
    { 0.632325776494992, -1.66818431017314, 2.65658527761976, 0.149792342830625 } },
  { "AdamW", { lr = 0.1 },
    { 0.628161868888487, -1.65892342916925, 2.64227782972011, 0.147958438554519 } },
  { "AdamW", { lr = 0.05, weight_decay = 0.3, amsgrad = true },
    { 0.751555401834923, -1.69437979563998, 2.61612749244217, 0.295106166154496 } },
  { "Adagrad", { lr = 0.5 },
    { 1.04924487999285, -0.966421944019937, 2.00439886607188, -0.413630442957933 } },
  { "Adagrad",
    { lr = 0.3, lr_decay = 0.1, weight_decay = 0.1, initial_accumulator_value = 0.5, eps = 1e-06 },
    { 0.87142976117668, -1.54024897573933, 2.42592620172133, -0.0520535105332079 } },
  { "Adagrad", { lr = 0.1, maximize = true },
    { 1.19315731189553, -2.20697055421508, 3.20148506205586, 0.698676721422785 } },
}
local SCALES = { 1, 10, 0.1, 0.1, 0.1 }

local function parameters()
  return nn.Parameter(ml.tensor({ 1.0, -2.0, 3.0 }, { dtype = ml.float64 })),
    nn.Parameter(ml.tensor(0.5, { dtype = ml.float64 }))
end

local function make_step(w, b)
  local a = ml.tensor({ 1.0, 0.5, 2.0 }, { dtype = ml.float64 })
  return function(step)
    local loss = ((a * w + b - (step - 1)) ^ 2):sum() * SCALES[step] / 2
    loss:backward()
    return loss
  end
end

local function values(w, b)
  local out = w:detach():totable()
  out[#out + 1] = b:item()
  return out
end

for i, case in ipairs(REFERENCE) do
  local name, options, wanted = table.unpack(case)
  test(("%s as PyTorch's, case %d"):format(name, i), function()
    local w, b = parameters()
    local optimizer = optim[name]({ w, b }, options)
    local backward = make_step(w, b)
    for step = 1, 5 do
      optimizer:zero_grad()
      backward(step)
      optimizer:step()
    end
    expect.near(values(w, b), wanted, 1e-9)
  end)

  test(("%s goes on from a saved state, case %d"):format(name, i), function()
    local w, b = parameters()
    local first = optim[name]({ w, b }, options)
    local backward = make_step(w, b)
    local second
    for step = 1, 5 do
      if step == 3 then
        harness.with_temp_file(function(path)
          ml.save(path, first:state_dict())
          second = optim[name]({ w, b }, { lr = 0.7 })
          second:load_state_dict((ml.load(path)))
        end)
      end
      local optimizer = second or first
      optimizer:zero_grad()
      backward(step)
      optimizer:step()
    end
    expect.near(values(w, b), wanted, 1e-9)
  end)
end

test("parameters that are not contiguous", function()
  local x = ml.randn { 4, 3, dtype = ml.float64 }
  local plain, turned = nn.Parameter(x:clone()), nn.Parameter(x:t():contiguous():t())
  expect.falsy(turned:is_contiguous())
  for _, make in ipairs { optim.Adam, optim.SGD } do
    local options = make == optim.SGD and { lr = 0.1, momentum = 0.5 } or { lr = 0.1 }
    local a, b = make({ plain }, options), make({ turned }, options)
    for _ = 1, 3 do
      plain.grad, turned.grad = nil, nil
      (plain ^ 2):sum():backward();
      (turned ^ 2):sum():backward()
      a:step()
      b:step()
    end
    expect.near(turned:detach():totable(), plain:detach():totable(), 1e-12)
  end
end)

test("groups have their own options", function()
  local w, b = parameters()
  local optimizer = optim.SGD({ { params = { w }, lr = 0.5 }, { params = { b } } }, { lr = 0 })
  w.grad, b.grad = ml.ones_like(w), ml.ones_like(b)
  optimizer:step()
  expect.near(values(w, b), { 0.5, -2.5, 2.5, 0.5 })
  expect.equal(#optimizer.param_groups, 2)
end)

test("zero_grad forgets or fills", function()
  local w, b = parameters()
  local optimizer = optim.SGD({ w, b })
  w.grad = ml.ones_like(w)
  optimizer:zero_grad { set_to_none = false }
  expect.equal(w.grad:totable(), { 0.0, 0.0, 0.0 })
  expect.equal(b.grad, nil)
  optimizer:zero_grad()
  expect.equal(w.grad, nil)
end)

test("step takes a closure and leaves the graph alone", function()
  local w, b = parameters()
  local optimizer = optim.SGD({ w, b }, { lr = 0.1 })
  local loss = optimizer:step(function()
    optimizer:zero_grad()
    local l = (w * b):sum()
    l:backward()
    return l
  end)
  expect.near(loss:item(), 1.0)
  expect.truthy(w.is_leaf and w.requires_grad)
  expect.truthy(ml.is_grad_enabled())
end)

test("a module moved to another dtype keeps its optimiser", function()
  local layer = nn.Linear(2, 1)
  local optimizer = optim.SGD(layer:parameters(), { lr = 1 })
  layer:double()
  expect.equal(layer.weight.dtype, ml.float64)
  local before = layer.weight:detach():clone()
  layer(ml.ones { 1, 2, dtype = ml.float64 }):sum():backward()
  optimizer:step()
  expect.near(layer.weight:detach():totable(), (before - 1):totable())
end)

test("bad options are named", function()
  local w = parameters()
  expect.error(function() optim.Adam({ w }, { lrr = 1 }) end,
    "unknown option 'lrr'; did you mean 'lr'")
  expect.error(function() optim.Adam({ w }, { lr = -1 }) end, "'lr': a number of at least 0 or a tensor of one is expected")
  expect.error(function() optim.Adam({ w }, { betas = { 0.9, 1 } }) end, "'betas'")
  expect.error(function() optim.SGD({ w }, { nesterov = true }) end, "nesterov")
  expect.error(function() optim.SGD({}) end, "no parameters")
  expect.error(function() optim.SGD({ w, w }) end, "twice")
  expect.error(function() optim.SGD({ w * 2 }) end, "not a leaf")
  expect.error(function() optim.SGD(nn.Linear(1, 1)) end, "net:parameters")
  expect.error(function() optim.SGD({ 1 }) end, "parameter 1 is a number, expected a tensor, or groups")
  expect.error(function() optim.SGD(nil) end, "array of parameters")
end)

test("a state that does not fit changes nothing", function()
  local w, b = parameters()
  local optimizer = optim.Adam({ w, b })
  expect.error(function() optimizer:load_state_dict({}) end, "no state of an optimiser")
  local other = optim.Adam({ w }):state_dict()
  expect.error(function() optimizer:load_state_dict(other) end, "1 parameters, that of Adam has 2")
  local bad = optimizer:state_dict()
  bad.state[0] = { step = 1, exp_avg = ml.zeros(2), exp_avg_sq = ml.zeros(3) }
  expect.error(function() optimizer:load_state_dict(bad) end, "exp_avg.*%(2,%).*%(3,%)")
  expect.equal(next(optimizer.state), nil)
end)

test("arguments go by position and by name, as PyTorch's", function()
  local wanted = {
    { function(p) return optim.SGD(p, 0.1, 0.9, { maximize = true }) end,
      { 2.3459872, 0.2157952, 29.2468512 } },
    { function(p) return optim.Adam(p, 0.1, { 0.8, 0.9 }, { maximize = true }) end,
      { 1.2884992635194845, -1.7041360739876699, 3.2917353920091577 } },
    { function(p) return optim.Adam { params = p, lr = 0.1, weight_decay = 0.2, decoupled_weight_decay = true } end,
      { 0.6488691633053161, -2.1671958287906112, 2.5342843869679346 } },
  }
  for i, case in ipairs(wanted) do
    local w = parameters()
    local optimizer = case[1]({ w })
    for step = 1, 3 do
      w.grad = (w * w):detach() * step
      optimizer:step()
    end
    expect.near(w:detach():totable(), case[2], 1e-9, tostring(i))
  end
end)

test("the options of a group are its own", function()
  local w, b = parameters()
  local optimizer = optim.Adam { { params = { w } }, { params = { b }, betas = { 0.7, 0.8 } } }
  optimizer.param_groups[1].betas[1] = 0.5
  expect.equal(optimizer.param_groups[2].betas, { 0.7, 0.8 })
  expect.equal(optimizer.defaults.betas, { 0.9, 0.999 })
  expect.equal(optim.Adam({ w }).param_groups[1].betas, { 0.9, 0.999 })
  optimizer:add_param_group { params = { nn.Parameter(ml.ones(1)) } }
  expect.equal(optimizer.param_groups[3].betas, { 0.9, 0.999 })
  local shared = { 0.1, 0.2 }
  local other = optim.AdamW({ w }, { betas = shared })
  other.param_groups[1].betas[1] = 0.3
  expect.equal(shared, { 0.1, 0.2 })
  local state = optimizer:state_dict()
  state.param_groups[1].betas[1] = 0.9
  expect.equal(optimizer.param_groups[1].betas[1], 0.5)
  optimizer:load_state_dict(state)
  state.param_groups[1].betas[1] = 0.4
  expect.equal(optimizer.param_groups[1].betas[1], 0.9)
  local Own = require "moonlet.class"("Own", optim.Optimizer)
  Own.defaults = { lr = 1, scales = { 1, 2 } }
  function Own:update(p, gradient, _, group) p:sub_(gradient * group.lr * group.scales[2]) end
  local own = Own({ w })
  own.param_groups[1].scales[2] = 7
  expect.equal(Own.defaults.scales, { 1, 2 })
  expect.equal(Own({ w }, { lr = 3 }).param_groups[1].scales, { 1, 2 })
  expect.error(function() Own({ w }, { scale = 1 }) end, "did you mean 'scales'")
  expect.error(function() own:add_param_group { params = { b }, lrr = 1 } end, "did you mean 'lr'")
  expect.error(function() optim.SGD { { params = { w }, lr = "x" } } end,
    "'lr': a number of at least 0 or a tensor of one is expected")
  expect.error(function() optimizer:zero_grad(1) end, "'set_to_none' must be true or false, got 1")
  expect.error(function() optimizer:step(3) end, "'closure': a function is expected, got 3")
end)

-- The norm before and the gradients after clipping to 6, by PyTorch.
local CLIPPED = {
  [2] = { 13, 1.3846152781065173, 0, -1.846153704142023, 5.538461112426069 },
  [1] = { 19, 0.9473683711911383, 0, -1.263157828254851, 3.789473484764553 },
  [math.huge] = { 12, 1.4999998750000105, 0, -1.9999998333333475, 5.999999500000042 },
  [3] = { 12.207054953820636, 1.4745570158844283, 0, -1.9660760211792376, 5.898228063537713 },
}

local function with_gradients()
  local net = nn.class("Net")()
  net.w, net.b = parameters()
  net.w.grad = ml.tensor({ 3.0, 0.0, -4.0 }, { dtype = ml.float64 })
  net.b.grad = ml.tensor(12.0, { dtype = ml.float64 })
  net.unused = nn.Parameter(ml.ones(1))
  return net
end

local function gradients(net)
  local out = net.w.grad:totable()
  out[#out + 1] = net.b.grad:item()
  return out
end

test("clipping by norm, of arrays, modules and single parameters", function()
  for norm_type, wanted in pairs(CLIPPED) do
    for form = 1, 2 do
      local net = with_gradients()
      local given = form == 1 and net:parameters() or net
      local norm = nn.utils.clip_grad_norm_(given, 6, { norm_type = norm_type })
      local got = gradients(net)
      table.insert(got, 1, norm:item())
      expect.near(got, wanted, 1e-12)
    end
  end
  local net = with_gradients()
  expect.near(nn.utils.clip_grad_norm_(net.w, 1):item(), 5)
  expect.near(gradients(net), { 0.6, 0, -0.8, 12 }, 1e-6)
  expect.near(nn.utils.clip_grad_norm_({ parameters = net, max_norm = 100 }):item(), math.sqrt(145), 1e-6)
  expect.near(nn.utils.get_total_norm { net.w.grad, net.b.grad }:item(), math.sqrt(145), 1e-6)
  expect.equal(nn.utils.clip_grad_norm_(nn.Linear(1, 1), 1):item(), 0.0)
end)

test("clipping reads nothing back from the device", function()
  local net, names = with_gradients(), {}
  local p = ml.profile(function() nn.utils.clip_grad_norm_(net, 1) end)
  for _, event in ipairs(p.events) do names[event.name] = true end
  expect.truthy(names.list_norm and names.list_limit_norm)
  net.w.grad = ml.tensor({ math.huge, 0.0, 0.0 }, { dtype = ml.float64 })
  expect.error(function() nn.utils.clip_grad_norm_(net, 1, 2, true) end, "the norm of the gradients is inf")
  expect.near(gradients(net), { math.huge, 0, 0, 12 * 1 / (13 + 1e-6) }, 1e-6)
  nn.utils.clip_grad_norm_(net, 1)
  expect.truthy(net.w.grad[1]:isnan():item())
  expect.equal(net.b.grad:item(), 0.0)
end)

test("clipping by value, and parameters as a vector", function()
  local net = with_gradients()
  nn.utils.clip_grad_value_(net, 2)
  expect.equal(gradients(net), { 2.0, 0.0, -2.0, 2.0 })
  nn.utils.clip_grad_value_(net.w, { clip_value = 1 })
  expect.equal(gradients(net), { 1.0, 0.0, -1.0, 2.0 })
  local vector = nn.utils.parameters_to_vector({ net.w, net.b })
  expect.equal(vector:totable(), { 1.0, -2.0, 3.0, 0.5 })
  nn.utils.vector_to_parameters(vector:detach() * 2, { net.w, net.b })
  expect.equal({ net.w[1]:item(), net.b:item() }, { 2.0, 1.0 })
  expect.error(function() nn.utils.vector_to_parameters(ml.ones(3), { net.w, net.b }) end, "have 4 elements")
  expect.error(function() nn.utils.clip_grad_norm_(3, 1) end, "'parameters': a module or a tensor or an array")
  expect.error(function() nn.utils.clip_grad_norm_(net, -1) end, "'max_norm' must be a number of at least 0")
  expect.error(function() nn.utils.clip_grad_nrom_(net, 1) end, "did you mean 'clip_grad_norm_'")
end)

harness.run()
