-- tests/lua/nn/module_test.lua: the names of children by position, lists that change, the arguments of
-- modules' methods, and hooks with their handles.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local nn, optim = ml.nn, ml.optim

local function names_of(iterator)
  local out = {}
  for name in iterator do out[#out + 1] = name end
  return out
end

local function keys_of(t)
  local out = {}
  for key in pairs(t) do out[#out + 1] = key end
  table.sort(out)
  return out
end

test("positions from 1 are named from 0", function()
  local net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 1)))
  local wanted = { "0.bias", "0.weight", "2.0.bias", "2.0.weight" }
  expect.equal(keys_of(net:state_dict()), wanted)
  expect.equal(names_of(net:named_parameters()), { "0.weight", "0.bias", "2.0.weight", "2.0.bias" })
  expect.equal(names_of(net:named_modules()), { "", "0", "1", "2", "2.0" })
  expect.equal(names_of(net:named_children()), { "0", "1", "2" })
  local text = tostring(net)
  for _, line in ipairs { "  (0): Linear(2 -> 3)", "  (1): ReLU()", "  (2): Sequential(",
    "    (0): Linear(3 -> 1)" } do
    expect.truthy(text:find(line, 1, true), text)
  end
  expect.truthy(net:get_submodule("2.0") == net[3][1] and net:get_submodule("") == net)
  expect.error(function() net:get_submodule("3") end, "Sequential has no module '3'")
  local parameters = nn.ParameterList { ml.ones(2), ml.ones(3) }
  expect.equal(names_of(parameters:named_parameters()), { "0", "1" })
  expect.equal(#parameters[2], 3)
  local Net = nn.class("Net")
  function Net:init()
    self[1] = nn.Linear(1, 1)
    self[2] = nn.Parameter(ml.ones(1))
  end
  expect.equal(names_of(Net():named_parameters()), { "1", "0.weight", "0.bias" })
end)

test("a position beside a name that reads alike is an error", function()
  local net = nn.class("Net")()
  net[1] = nn.ReLU()
  expect.error(function() net["1"] = nn.ReLU() end, "position 1, which is named \"0\".*the name \"1\"")
  expect.error(function() net["0"] = nn.ReLU() end, "the name \"0\"")
  expect.error(function() net:add_module("0", nn.ReLU()) end, "the name \"0\"")
  expect.error(function() net:register_buffer("0", ml.ones(1)) end, "the name \"0\"")
  net["2"] = nn.Tanh()
  expect.error(function() net[2] = nn.ReLU() end, "position 2")
  expect.error(function() net[3] = nn.ReLU() end, "position 3, which is named \"2\"")
  expect.equal(names_of(net:named_children()), { "0", "2" })
  expect.error(function() net[0] = nn.ReLU() end, "positions from 1")
  expect.error(function() net[-1] = nn.ReLU() end, "positions from 1")
  expect.error(function() net[1.5] = nn.ReLU() end, "positions from 1")
end)

test("lists change and their names follow", function()
  local a, b, c, d = nn.Linear(1, 1), nn.Linear(1, 2), nn.Linear(1, 3), nn.Linear(1, 4)
  for _, make in ipairs { function(...) return nn.ModuleList { ... } end, nn.Sequential } do
    local list = make(a, b, c)
    expect.truthy(list[-1] == c and #list == 3)
    list[2] = nil
    expect.equal(names_of(list:named_children()), { "0", "1" })
    expect.truthy(list[2] == c and list[3] == nil)
    expect.truthy(list:insert(2, d) == list and list[2] == d and list[3] == c)
    expect.truthy(list:pop(1) == a and list:pop() == c)
    expect.equal(names_of(list:named_parameters()), { "0.weight", "0.bias" })
    list:append(a):extend { b }
    list[1] = c
    expect.equal({ #list, list[1] == c, list[-1] == b }, { 3, true, true })
    expect.error(function() list[5] = a end, "position 5 is out of range; there are 3")
    expect.error(function() list[4] = 3 end, "item 4: a module is expected, got 3")
    expect.error(function() list:append(3) end, "a module is expected, got 3")
    expect.error(function() list:insert(9, a) end, "position 9 is out of range")
    expect.error(function() list:pop(9) end, "position 9 is out of range")
    local seen = {}
    for i, module in ipairs(list) do seen[i] = module end
    expect.truthy(#seen == 3 and seen[3] == b)
  end
  local mixed = nn.Sequential(a, b, c)
  mixed:register_buffer("count", ml.ones(1))
  mixed[1] = nil
  mixed:pop()
  expect.equal(keys_of(mixed:state_dict()), { "0.bias", "0.weight", "count" })
  expect.equal(#mixed(ml.ones(4, 1))[1], 2)
  local named = nn.Sequential { { "first", a }, { "second", nn.Linear(1, 1) } }
  named[2] = c
  expect.truthy(named.second == c and named[2] == c)
  named:append(d)
  expect.equal(names_of(named:named_children()), { "first", "second", "2" })
  local twice = nn.ModuleList(nn.ModuleList { a, b })
  expect.equal(#twice, 2)
  local dict = nn.ModuleDict { { "z", a }, { "b", b } }
  expect.equal(dict:keys(), { "z", "b" })
  expect.equal({ #dict:values(), #dict:update { c = c } }, { 2, 3 })
end)

test("arguments of methods are taken", function()
  local net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
  net.extra = nn.Parameter(ml.ones(1))
  expect.equal({ #net:parameters(), #net:parameters(false), #net:parameters { recurse = false } }, { 5, 1, 1 })
  expect.equal(#net:buffers(true), 0)
  expect.truthy(net:state_dict("a.")["a.0.weight"])
  expect.truthy(net:state_dict { keep_vars = true }["0.weight"] == net[1].weight)
  expect.equal(names_of(net:named_parameters("m", false)), { "m.extra" })
  net[2].weight = net[1].weight
  expect.equal(#names_of(net:named_parameters { remove_duplicate = false }), 5)
  expect.equal(#names_of(net:named_parameters()), 4)
  net(ml.ones(1, 2)):sum():backward()
  net:zero_grad { set_to_none = false }
  expect.equal(net[1].bias.grad:totable(), { 0.0, 0.0 })
  net:zero_grad(true)
  expect.equal(net[1].bias.grad, nil)
  net:register_buffer("short", ml.ones(1), false)
  expect.equal(net:state_dict().short, nil)
  expect.falsy(net:train(false).training)
  expect.truthy(net:train { mode = true }[1].training)
  expect.equal(net:to("cpu", "float64")[1].weight.dtype, ml.float64)
  expect.equal(net:to("float32", "cpu")[1].weight.dtype, ml.float32)
  expect.error(function() net:to("float32", "float64") end, "the dtype is given twice: float32 and float64")
  net:to "float64"
  expect.equal(net:to(ml.ones(1))[1].weight.dtype, ml.float32)
  expect.error(function() net:to("float64", "float32") end, "the dtype is given twice")
  local fixed = nn.Parameter(ml.ones(2), { requires_grad = false })
  expect.falsy(fixed.requires_grad or nn.Parameter(ml.ones(2), false).requires_grad)
  expect.truthy(nn.is_parameter(fixed) and nn.Parameter { data = ml.ones(1) }.requires_grad)
end)

test("own modules may call the first constructor", function()
  local Net = nn.class("Net")
  function Net:init(size)
    Net.super.init(self)
    self.fc = nn.Linear(size, 1)
  end
  expect.equal(#Net(3):parameters(), 2)
  expect.error(function() nn.class("Empty")(1, 2) end, "module_test.lua:%d+: Empty: takes no arguments, got 2")
end)

test("initialisers take their options", function()
  ml.manual_seed(1)
  local w = ml.empty(300, 200)
  expect.near(nn.init.normal_(w, { std = 0.02 }):std():item(), 0.02, 0.001)
  expect.near(nn.init.normal_ { w, mean = 3, std = 0 }:mean():item(), 3)
  expect.near(nn.init.xavier_uniform_(w, { gain = 2 }):abs():max():item(), 2 * math.sqrt(6 / 500), 1e-3)
  expect.near(nn.init.xavier_normal_(w, 3):std():item(), 3 * math.sqrt(2 / 500), 0.005)
  expect.near(nn.init.uniform_(w, { a = 2, b = 3 }):mean():item(), 2.5, 0.01)
  expect.near(nn.init.kaiming_normal_(w, 0, "fan_out", "relu"):std():item(), math.sqrt(2 / 300), 0.002)
  expect.equal(nn.init.constant_(w, { val = 4 })[1][1]:item(), 4.0)
  expect.near(nn.init.calculate_gain("leaky_relu", 0.2), math.sqrt(2 / 1.04))
  expect.near(nn.init.calculate_gain("tanh"), 5 / 3)
  local g = ml.Generator { seed = 3 }
  local first = nn.init.normal_(w, { generator = g }):clone()
  expect.truthy(nn.init.normal_(w, { generator = g:manual_seed(3) }):eq(first):all():item())
  expect.error(function() nn.init.kaiming_normal_(w, { mode = "fan" }) end, "'mode' must be fan_in or fan_out")
  expect.error(function() nn.init.calculate_gain("rleu") end, "'nonlinearity' must be")
  expect.error(function() nn.init.uniform(w) end, "did you mean 'uniform_'")
end)

test("hooks are removed by their handles, also at the end of a block", function()
  local layer, x = nn.Identity(), ml.tensor { 2 }
  local seen = {}
  local first = layer:register_forward_hook(function() seen[#seen + 1] = "first" end)
  local second = layer:register_forward_hook(function() seen[#seen + 1] = "second" end, { prepend = true })
  layer(x)
  expect.equal(seen, { "second", "first" })
  first:remove()
  first.remove()
  second:remove()
  do
    local _ <close> = layer:register_forward_pre_hook(function(_, y) return y * 10 end)
    expect.equal(layer(x):totable(), { 20 })
  end
  expect.equal(layer(x):totable(), { 2 })
  expect.equal(#seen, 2)
  local handle
  handle = layer:register_forward_hook(function(_, _, y)
    handle:remove()
    return y + 1
  end)
  expect.equal(layer(x):totable(), { 3 })
  expect.equal(layer(x):totable(), { 2 })
end)

test("all handles are of one kind", function()
  local w = nn.Parameter(ml.ones(1))
  local sgd, layer = optim.SGD({ w }), nn.Identity()
  local function nothing() end
  local handles = { w:register_hook(nothing), w:register_post_accumulate_grad_hook(nothing),
    layer:register_forward_hook(nothing), layer:register_forward_pre_hook(nothing),
    layer:register_full_backward_hook(nothing), sgd:register_step_pre_hook(nothing),
    sgd:register_step_post_hook(nothing) }
  for i, handle in ipairs(handles) do
    expect.equal(getmetatable(handle), getmetatable(handles[1]), tostring(i))
    local _ <close> = handle
    handle:remove()
  end
end)

test("tensor hooks end with their block", function()
  local w = ml.ones { 2, requires_grad = true }
  do
    local _ <close> = w:register_hook(function(g) return g * 10 end)
    expect.equal(ml.grad(w:sum(), w):totable(), { 10.0, 10.0 })
  end
  expect.equal(ml.grad(w:sum(), w):totable(), { 1.0, 1.0 })
end)

test("hooks of optimisers run before and after the step", function()
  local w = nn.Parameter(ml.ones(1))
  local sgd, seen = optim.SGD({ w }, { lr = 1 }), {}
  local before = sgd:register_step_pre_hook(function(o) seen[#seen + 1] = o == sgd and w:item() end)
  sgd:register_step_post_hook(function() seen[#seen + 1] = w:item() end)
  w.grad = ml.ones(1)
  sgd:step()
  before:remove()
  sgd:step()
  expect.equal(seen, { 1.0, 0.0, -1.0 })
end)

test("backward hooks see and change the gradients of a module alone", function()
  local layer = nn.Linear(2, 1, { bias = false })
  nn.init.ones_(layer.weight)
  local x = ml.ones { 1, 2, requires_grad = true }
  local seen
  local handle = layer:register_full_backward_hook(function(module, inputs, outputs)
    seen = { module == layer, inputs[1]:totable(), outputs[1]:totable() }
    return { inputs[1] * 5 }
  end)
  local y = layer(x) * 3 + x:sum() * 100
  expect.near(ml.grad(y:sum(), x):totable(), { { 115, 115 } })
  expect.equal(seen, { true, { { 3.0, 3.0 } }, { { 3.0 } } })
  handle:remove()
  expect.near(ml.grad((layer(x) * 3):sum(), x):totable(), { { 3, 3 } })
end)

test("backward hooks of modules with several arguments or none that needs a gradient", function()
  local Mul = nn.class("Mul")
  function Mul:forward(a, b) return a * b, a + b end
  local module, seen = Mul(), {}
  module:register_full_backward_hook(function(_, inputs, outputs)
    seen[#seen + 1] = { inputs[1] and inputs[1]:item(), inputs[2] and inputs[2]:item(), #outputs }
    return { inputs[1] and inputs[1] * 2, inputs[2] }
  end)
  local a, b = ml.full({}, 3.0, { requires_grad = true }), ml.full({}, 4.0, { requires_grad = true })
  local product, sum = module(a, b)
  local ga, gb = ml.grad(product + sum * 10, { a, b })
  expect.equal({ ga:item(), gb:item() }, { 28.0, 13.0 })
  expect.equal(seen, { { 14.0, 13.0, 2 } })
  local layer, count = nn.Linear(1, 1), 0
  layer:register_full_backward_hook(function(_, inputs, outputs)
    count = count + 1
    expect.equal({ #inputs, #outputs }, { 0, 1 })
  end)
  layer(ml.ones(1, 1)):sum():backward()
  expect.equal(count, 1)
  ml.no_grad(function() layer(ml.ones(1, 1)) end)
  expect.equal(count, 1)
end)

test("pairs of containers goes through what they hold", function()
  local a, b = nn.ReLU(), nn.Tanh()
  local function all(container)
    local out = {}
    for key, module in pairs(container) do out[#out + 1] = { key, module } end
    return out
  end
  expect.equal(all(nn.ModuleList { a, b }), { { 1, a }, { 2, b } })
  expect.equal(all(nn.Sequential(a, b)), { { 1, a }, { 2, b } })
  expect.equal(all(nn.ModuleDict { { "y", a }, { "x", b } }), { { "y", a }, { "x", b } })
end)

test("inputs of layers by name", function()
  local x = ml.ones(2)
  expect.equal(nn.MSELoss()(x, { target = x * 3 }):item(), 4)
  expect.error(function() nn.Linear(2, 1) { inptu = x } end, "did you mean 'input'")
  expect.error(function() nn.MSELoss()(x, { input = x }) end, "'input' is given twice")
  -- A class of one's own takes the tables that it likes.
  local Scaled = nn.class("Scaled", nn.Linear)
  function Scaled:forward(y, o) return y * o.by end
  expect.equal(Scaled(2, 2)(x, { by = 3 }):tolist(), { 3, 3 })
end)

harness.run()
