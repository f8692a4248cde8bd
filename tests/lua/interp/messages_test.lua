-- tests/lua/interp/messages_test.lua: what errors say: the line of the script, the name that it called, the
-- nearest name, and what to write instead.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect
local nn, optim = ml.nn, ml.optim

local here = arg[0]:match "[^/]+$"
local x = ml.ones(2, 3)

-- The message of f's error without the position, which must be in this file, at the lines of f. (Its
-- call must be no tail call, of which Lua forgets the line: hence `return (...)`.)
local function message_of(f)
  local ok, message = pcall(f)
  expect.equal(ok, false)
  local file, line, rest = message:match "([%w_]+%.lua):(%d+): (.*)$"
  local info = debug.getinfo(f, "S")
  expect.equal(file, here, message)
  line = tonumber(line)
  expect.truthy(line >= info.linedefined and line <= info.lastlinedefined, message)
  return rest
end

test("errors begin with the name that was called", function()
  local cases = {
    zeros = function() return (ml.zeros(-1)) end,
    ones = function() return (ml.ones(2, -1)) end,
    rand = function() return (ml.rand(-2)) end,
    randint = function() return (ml.randint(3, 1, { 2 })) end,
    cross_entropy = function() return (ml.cross_entropy(x, ml.tensor { 1, 9 })) end,
    add_ = function() return (ml.ones(3):add_(x)) end,
    linear = function() return (nn.functional.linear(x, ml.ones(4, 5))) end,
    eye = function() return (ml.eye(-1)) end,
    outer = function() return (ml.outer(x, x)) end,
    zero_ = function() ml.ones(3, { requires_grad = true }):zero_() end,
    index = function() ml.ones(3, { requires_grad = true })[1] = 2 end,
    data = function() ml.ones(3, { requires_grad = true }).data = ml.arange(3) end,
    half = function() return (x:half(3)) end,
    tensor = function() return (ml.tensor(300, { dtype = "uint8" })) end,
  }
  for name, f in pairs(cases) do
    expect.equal(message_of(f):match "^([%w_]+): ", name, message_of(f))
  end
end)

test("an operand that is nil is called so", function()
  expect.error(function() return x + nil end, "add: argument 'other' is nil")
  expect.error(function() return nil * x end, "mul: argument 'x' is nil")
  expect.error(function() return x:add() end, "add: argument 'other' is missing")
end)

test("errors of the standard library carry the script's line", function()
  local cases = {
    function() return (nn.Linear(2, 3)(x)) end,
    function() return (nn.Linear("a", 3)) end,
    function() return (nn.Sequential(nn.Linear(3, 3), 5)) end,
    function() return (nn.Sequential(1)) end,
    function() return (optim.SGD({ x }, { lr = "a" })) end,
    function() return (optim.SGD(3, { lr = 1 })) end,
    function() return (optim.lr_scheduler.StepLR(3)) end,
    function() return (ml.data.TensorDataset(3)) end,
    function() return (ml.data.DataLoader(3)) end,
    function() return (ml.data.read_csv("no such file")) end,
    function() return (ml.save(3)) end,
    function() return (ml.load(3)) end,
    function() return (ml.load("no such file")) end,
    function() return (nn.class(3)) end,
    function() return (nn.init.xavier_uniform_(3)) end,
    function() return (nn.utils.clip_grad_norm_(3)) end,
    function() return (nn.utils.parameters_to_vector(3)) end,
    function() return (nn.utils.parameters_to_vector { 3 }) end,
    function() return (ml.plot.line(3)) end,
    function() return (ml.progress.new(3)) end,
    function() for _ in ml.progress(true) do expect.truthy(false) end end,
    function() return (ml.args.parser(3)) end,
    function() return (ml.args.parser { 3 }) end,
    function() return (ml.args.parser { { 3 } }) end,
    function() return (ml.args.parser { { "a", "b" } }) end,
    function() return (ml.autocast(3)) end,
    function() return (ml.override(3, 4)) end,
    function() return (ml.profile(3, 3)) end,
  }
  for _, f in ipairs(cases) do message_of(f) end
end)

test("the line is the script's in coroutines and for direct calls too", function()
  local co = coroutine.create(function() return nn.utils.parameters_to_vector { 3 } end)
  local _, message = coroutine.resume(co)
  expect.truthy(message:find(here .. ":%d+: "), message)
  _, message = pcall(coroutine.wrap(function() return nn.utils.parameters_to_vector { 3 } end))
  expect.truthy(message:find(here .. ":%d+: ") and not message:find "stdlib/", message)
  -- The handler of xpcall gets it so, and only what it returns comes out.
  local function handler(text) return { text } end
  local _, handled = xpcall(nn.utils.parameters_to_vector, handler, { 3 })
  expect.truthy(handled[1]:find(here .. ":%d+: ") and not handled[1]:find "stdlib/", handled[1])
  for _, f in ipairs { ml.zeros, nn.Linear, nn.class, nn.utils.parameters_to_vector } do
    _, message = pcall(f, {}, 3, 4)
    expect.truthy(message:find("^[^ ]*" .. here .. ":%d+: "), message)
  end
end)

test("pcall is Lua's otherwise", function()
  expect.equal(select("#", pcall(function() return 1, nil, nil end)), 4)
  local thrown = {}
  local ok, value = pcall(error, thrown)
  expect.truthy(not ok and value == thrown)
  ok, value = pcall(error)
  expect.truthy(not ok and value == nil)
  expect.equal(select(2, pcall(error, "plain", 0)), "plain")
  expect.error(function() pcall() end, "value expected")
  expect.equal(select(2, pcall(3)), "attempt to call a number value")
  local co = coroutine.wrap(function()
    local good, got = pcall(function(a) return a + coroutine.yield(a) end, 1)
    expect.truthy(good)
    good, value = pcall(function() coroutine.yield(got); error "late" end)
    return good, value
  end)
  expect.equal(co(), 1)
  expect.equal(co(2), 3)
  local good, late = co()
  expect.truthy(good == false and late:find "late")
  local function deep(n) return select(2, pcall(deep, n + 1)) end
  expect.truthy(tostring(deep(1)):find "overflow")
end)

test("loops over a tensor end after its last row", function()
  local rows = {}
  for i, row in ipairs(x) do rows[i] = row:sum():item() end
  expect.near(rows, { 3, 3 })
  rows = {}
  for i, row in pairs(x) do rows[i] = row:sum():item() end
  expect.near(rows, { 3, 3 })
  for _ in ipairs(ml.zeros(0, 3)) do expect.truthy(false) end
  for _ in pairs(ml.zeros(0, 3)) do expect.truthy(false) end
  expect.error(function() for _ in ipairs(ml.tensor(1)) do expect.truthy(false) end end, "no dimensions")
  expect.error(function() for _ in pairs(ml.tensor(1)) do expect.truthy(false) end end, "no dimensions")
  expect.error(function() return x[3] end, "out of range")
  expect.error(function() for _ in x do expect.truthy(false) end end, "ipairs%(x%)")
  local sum = 0
  for _, value in pairs(ml.Storage { 1, 2, 3 }) do sum = sum + value end
  expect.equal(sum, 6.0)
end)

test("tensors of one element join strings", function()
  expect.equal("loss " .. ml.tensor(1.5), "loss 1.5")
  expect.equal(ml.tensor { 2 } .. "!", "2!")
  expect.equal(ml.tensor(1) .. ml.tensor(2), "12")
  expect.equal(ml.tensor(true) .. "", "true")
  expect.equal("s" .. x.dtype .. " " .. x.device, "sfloat32 cpu")
  expect.equal(x.shape .. ml.tensor(1), "(2, 3)1")
  expect.equal(ml.tensor(1) .. x.shape, "1(2, 3)")
  expect.error(function() return "x " .. x end, "one element is expected, got shape %(2, 3%)")
  expect.error(function() return ml.tensor(1) .. {} end, "got table")
  expect.error(function() return ml.tensor(1) .. nil end, "got nil")
end)

test("Lua's functions say how a tensor becomes a number", function()
  local one = ml.tensor(1)
  expect.error(function() return ("%d"):format(one) end, "x:item%(%)")
  expect.error(function() return string.format("%.2f", one) end, "x:item%(%)")
  expect.error(function() return math.floor(one) end, "x:item%(%)")
  expect.error(function() for _ = 1, one do expect.truthy(false) end end, "x:item%(%)")
  expect.equal(("%s"):format(one), tostring(one))
end)

test("tables where tensors belong are answered with ml.tensor", function()
  local want = "ml.tensor{...} makes a tensor"
  for _, f in ipairs {
    function() return (x + { 1, 2, 3 }) end,
    function() return ({ 1, 2, 3 } * x) end,
    function() return (x - { { 1, 2, 3 } }) end,
    function() return (x / x.shape) end,
    function() return (x:add { 1, 2, 3 }) end,
    function() return (x:matmul { 1, 2, 3 }) end,
    function() return (ml.maximum(x, { 1, 2, 3 })) end,
    function() return (ml.exp({ 1, 2 })) end,
  } do
    local message = message_of(f)
    expect.truthy(message:find(want, 1, true), message)
  end
  expect.equal((x:add { 1, out = ml.zeros(2, 3) }):sum():item(), 12.0)
  expect.equal(ml.add { x, 1 }:sum():item(), 12.0)
end)

test("every namespace refuses unknown names and suggests close ones", function()
  local spaces = { ml = ml, nn = nn, ["nn.init"] = nn.init, ["nn.utils"] = nn.utils, optim = optim,
    ["optim.lr_scheduler"] = optim.lr_scheduler, data = ml.data, plot = ml.plot, args = ml.args,
    progress = ml.progress, cuda = ml.cuda, memory = ml.memory, ["nn.functional"] = nn.functional,
    json = require "moonlet.json", Tensor = x, shape = x.shape }
  for name, space in pairs(spaces) do
    expect.error(function() return space.Xyzzy end, "Xyzzy", name)
  end
  expect.error(function() return optim.lr_scheduler.StepLr end, "did you mean 'StepLR'")
  expect.error(function() return nn.init.xavier_uniform end, "did you mean 'xavier_uniform_'")
  expect.error(function() return nn.utils.clip_grad_norm end, "did you mean 'clip_grad_norm_'")
  expect.error(function() return ml.memory.live_byte end, "memory has no field 'live_byte'; did you mean 'live_bytes'")
  expect.error(function() return ml.cuda.device_cuont end, "cuda has no field .*'device_count'")
  expect.error(function() return ml.optm end, "did you mean 'optim'")
  expect.error(function() return ml.lod end, "did you mean 'load'")
end)

test("names that are far have no suggestion", function()
  for _, name in ipairs { "jit", "numpy", "dynamo", "repeat", "xx" } do
    local _, message = pcall(function() return ml[name] end)
    expect.truthy(not message:find "did you mean", message)
  end
end)

harness.run()
