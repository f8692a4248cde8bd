-- tests/lua/program/guards_test.lua: what a compiled function reads beside its arguments is watched:
-- every change of it is seen at the next call.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local case = require "program_case"
local test, expect = harness.test, harness.expect
local nn = ml.nn

-- Calls both until a plan runs, then after each change, three times each.
local function follows(f, arguments, changes)
  local fast = ml.compile(f)
  case.compare(fast, f, arguments, 4)
  case.expect_runs(fast, 1)
  for i, change in ipairs(changes) do
    local before = f(arguments(1))
    change()
    local after = f(arguments(1))
    expect.falsy(case.same(before, after), "the change changes nothing: " .. i)
    case.compare(fast, f, arguments, 4)
  end
  return fast
end

local function ones() return ml.ones(2, 2) end

test("upvalues, also of functions inside and of functions that are upvalues", function()
  local scale, shift = 2, 1
  local function add(x) return x + shift end
  local function f(x)
    local function times(y) return y * scale end
    return times(add(x))
  end
  follows(f, ones, { function() scale = 3 end, function() shift = 2.5 end,
    function() add = function(x) return x - 7 end end })
end)

test("globals, and what they hold", function()
  local environment = _ENV
  local f = load [[
    return function(x) return x * guards_scale + guards_table.shift + (guards_missing or 0) end
  ]]()
  environment.guards_scale, environment.guards_table = 2, { shift = 1 }
  follows(f, ones, { function() environment.guards_scale = 3 end,
    function() environment.guards_table.shift = 4 end,
    function() environment.guards_table = { shift = 9 } end,
    function() environment.guards_missing = 10 end })
  environment.guards_scale, environment.guards_table, environment.guards_missing = nil, nil, nil
end)

test("globals by a computed name", function()
  _ENV.guards_a, _ENV.guards_b = 1, 2
  local name = "guards_a"
  local f = function(x) return x + _ENV[name] + _G["guards_" .. "b"] end
  follows(f, ones, { function() _ENV.guards_a = 5 end, function() _ENV.guards_b = 7 end,
    function() name = "guards_b" end })
  _ENV.guards_a, _ENV.guards_b = nil, nil
end)

test("an environment of its own", function()
  local environment = { scale = 2, ml = ml }
  local f = load("return function(x) return x * scale end", "chunk", "t", environment)()
  follows(f, ones, { function() environment.scale = 4 end })
end)

test("fields: changed, new and removed keys, nested tables, metatables", function()
  local config = { a = 1, deep = { list = { 1, 2 } } }
  local defaults = { b = 3 }
  setmetatable(config, { __index = defaults })
  local function f(x)
    local sum = 0
    for _, v in ipairs(config.deep.list) do sum = sum + v end
    return x * config.a + config.b + sum + (config.new or 0)
  end
  follows(f, ones, {
    function() config.a = 2 end,
    function() config.new = 5 end,
    function() config.new = nil end,
    function() config.deep.list[3] = 9 end,
    function() table.remove(config.deep.list) end,
    function() defaults.b = 8 end,
    function() setmetatable(config, { __index = { b = 20 } }) end,
    function() config.b = 1 end,
  })
end)

test("a module's weights, fields, children and mode", function()
  local Net = nn.class("Net", nn.Module)
  function Net:init()
    self.first = nn.Linear(2, 2)
    self.scale = 2
  end
  function Net:forward(x)
    local y = self.first(x) * self.scale
    return self.training and y or y + 1
  end
  local net = Net()
  local function call(x) return ml.no_grad(net, x) end
  local function weights(i) return ml.full({ 2, 2 }, i + 0.5) end
  follows(call, ones, {
    function() net.scale = 3 end,
    function() net:eval() end,
    function() net.first.weight = nn.Parameter(weights(4)) end,
    function() net.first.weight.data = weights(5) end,
    function() net.first.weight.data = weights(6) end,
    function() ml.no_grad(function() net.first.weight:add_(1) end) end,
    function() net.first = nn.Linear(2, 2) end,
    function() function Net:forward(x) return self.first(x) - 100 end end,
    function() net.forward = nil rawset(net, "forward", function(_, x) return x * 11 end) end,
  })
end)

test("a module that is compiled itself", function()
  local net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.9))
  net:eval()
  ml.no_grad(function()
    local fast = ml.compile(net)
    case.compare(fast, net, ones, 4)
    case.expect_runs(fast, 2)
    net[1].bias:fill_(7)
    case.compare(fast, net, ones, 2)
    net:train()
    ml.manual_seed(1)
    local want = net(ones())
    ml.manual_seed(1)
    expect.truthy(fast(ones()):equal(want))
  end)
end)

test("hooks of a module and of all modules", function()
  local net = nn.Linear(2, 2)
  local fast = ml.compile(net)
  ml.no_grad(function()
    for _ = 1, 4 do fast(ones()) end
    case.expect_runs(fast, 2)
    local handle = net:register_forward_hook(function(_, _, y) return y + 100 end)
    for _ = 1, 4 do expect.truthy(fast(ones()):equal(net(ones()))) end
    handle:remove()
    for _ = 1, 4 do expect.truthy(fast(ones()):equal(net(ones()))) end
    local all = nn.register_module_forward_hook(function(_, _, y) return y * 2 end)
    local doubled = net(ones())
    for _ = 1, 4 do expect.truthy(fast(ones()):equal(doubled)) end
    all:remove()
    for _ = 1, 4 do expect.truthy(fast(ones()):equal(net(ones()))) end
  end)
end)

test("shapes and dtypes of tensors outside", function()
  local w = ml.ones(2, 2)
  local function f(x) return x + w * #w, w.dtype end
  follows(f, ones, {
    function() w = ml.full({ 2, 2 }, 3) end,
    function() w.data = ml.ones { 1, 2, dtype = ml.float64 } end,
    function() w:unsqueeze_(1) end,
    function() w:resize_(2, 2) w:fill_(5) end,
  })
end)

test("gradients that a function reads", function()
  local w = ml.ones { 2, 2, requires_grad = true }
  local function f(x) return ml.no_grad(function() return w.grad and x + w.grad or x end) end
  follows(f, ones, {
    function() (w * 3):sum():backward() end,
    function() (w * 2):sum():backward() end,
    function() w.grad = nil end,
    function() w.grad = ml.full({ 2, 2 }, 8.0) end,
  })
end)

test("arguments that are objects are watched too", function()
  local net = nn.Linear(2, 2)
  local function f(module, x) return ml.no_grad(module, x) end
  follows(f, function() return net, ones() end, {
    function() net.bias = nil end,
    function() net = nn.Linear(2, 2) end,
  })
end)

test("the execution state", function()
  local function f(x) return ml.zeros(2) + x, ml.is_grad_enabled() end
  local fast = ml.compile(f)
  local function check() case.compare(fast, f, ones, 4) end
  check()
  case.expect_runs(fast, 2)
  ml.no_grad(check)
  ml.inference_mode(check)
  ml.set_default_dtype(ml.float64)
  local ok, message = pcall(check)
  ml.set_default_dtype(ml.float32)
  expect.truthy(ok, message)
  check()
  local function product(x) return x:mm(x) end
  local quick = ml.compile(product)
  for _, dtype in ipairs { ml.bfloat16, ml.float16 } do
    for _ = 1, 4 do
      local got = ml.autocast({ dtype = dtype }, quick, ones())
      expect.equal(got.dtype, dtype)
      expect.equal(quick(ones()).dtype, ml.float32)
    end
  end
  case.expect_runs(quick, 6)
end)

test("fields of tensors' results and requires_grad", function()
  local function f(x) return x.requires_grad and x * 2 or x * 3 end
  local fast = ml.compile(f)
  for _ = 1, 4 do
    expect.equal(fast(ml.ones(1)):item(), 3)
    local leaf = ml.ones { 1, requires_grad = true }
    fast(leaf):backward()
    expect.equal(leaf.grad:item(), 2)
  end
end)

test("what changes at every call is left alone after a while", function()
  local step = 0
  local fast = ml.compile(function(x) return x * step end)
  for i = 1, 30 do
    step = i
    expect.equal(fast(ml.ones(1)):item(), i)
  end
  case.expect_eager(fast, "guards seldom hold twice: step is another")
end)

test("more values than are watched", function()
  local big = {}
  for i = 1, 30000 do big[i] = i end
  local fast = ml.compile(function(x) return x * big[2] end)
  for _ = 1, 3 do expect.equal(fast(ml.ones(1)):item(), 2) end
  case.expect_eager(fast, "more than 20000 values")
  big[2] = 5
  expect.equal(fast(ml.ones(1)):item(), 5)
end)

test("two modes in turn keep a plan each, and old guards go", function()
  local net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
  local fast = ml.compile(net)
  ml.no_grad(function()
    for i = 1, 12 do
      if i % 2 == 0 then net:eval() else net:train() end
      ml.manual_seed(i)
      local want = net(ones())
      ml.manual_seed(i)
      expect.truthy(fast(ones()):equal(want))
    end
  end)
  case.expect_runs(fast, 8)
  local each = ml.compile(function(x) return x + 1 end, { dynamic = false })
  for n = 1, 12 do for _ = 1, 3 do each(ml.ones(n)) end end
  local _, count = each:explain():gsub("guards %d+ %(", "")
  expect.equal(count, 8)
end)

harness.run(arg[1])
