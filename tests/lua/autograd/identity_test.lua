-- tests/lua/autograd/identity_test.lua: one tensor is one value in a script, however the script got it, and
-- one library serves an interpreter, however often it is required.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local function leaf() return ml.ones(3, { requires_grad = true }) end

test("a gradient is the same value each time", function()
  local w = leaf();
  (w * w):sum():backward()
  local known = { [w.grad] = "gradient" }
  expect.truthy(rawequal(w.grad, w.grad))
  local first = w.grad
  collectgarbage();
  (w * w):sum():backward()
  expect.truthy(rawequal(w.grad, first))
  expect.equal(known[w.grad], "gradient")
end)

test("an assigned gradient is the value that was assigned", function()
  local w, g = leaf(), ml.zeros(3)
  w.grad = g
  expect.truthy(rawequal(w.grad, g))
  w.grad = nil
  expect.equal(w.grad, nil)
  w.grad = g
  expect.truthy(rawequal(w.grad, g))
end)

test("hooks get the tensors that the script knows", function()
  local w, seen = leaf(), {}
  w:register_post_accumulate_grad_hook(function(p) seen[p] = true end);
  (w * 2):sum():backward()
  expect.truthy(seen[w])
  local y, given, got = w * 2, ml.ones(3), nil
  y:register_hook(function(g) got = g end)
  y:backward(given)
  expect.truthy(rawequal(got, given))
  local mine = ml.full({ 3 }, 5.0)
  local z = w * 2
  z:register_hook(function() return mine end)
  z:register_hook(function(g) got = g end)
  z:sum():backward()
  expect.truthy(rawequal(got, mine))
  expect.truthy(rawequal(ml.grad(z, z, { grad_outputs = mine }), mine))
end)

test("an op that gives back its argument gives back its value", function()
  local x = ml.ones(2, 3)
  for _, name in ipairs { "contiguous", "float", "cpu" } do
    expect.truthy(rawequal(x[name](x), x), name)
  end
  expect.truthy(rawequal(x:to(ml.float32), x))
  expect.truthy(rawequal(x.real, x))
  expect.truthy(rawequal(x:add_(1), x))
  expect.truthy(not rawequal(x:view(2, 3), x))
  expect.truthy(not rawequal(x:detach(), x))
  expect.truthy(not rawequal(x[1], x[1]))
end)

test("a handler of ml.override sees the values of the call", function()
  local x, list, seen, result = ml.ones(2), { ml.ones(2), ml.zeros(2) }, {}, nil
  local y
  ml.override(function(op, arguments, call)
    for _, a in ipairs(arguments) do
      if ml.is_tensor(a) then seen[a] = op.name end
      for _, b in ipairs(type(a) == "table" and a or {}) do seen[b] = op.name end
    end
    result = call(arguments)
    return result
  end, function()
    y = x:exp()
    ml.stack(list)
  end)
  expect.equal(seen[x], "exp")
  expect.truthy(seen[list[1]] and seen[list[2]])
  expect.truthy(result ~= nil and y ~= nil)
  local made = ml.zeros(2)
  y = ml.override(function() return made end, function() return x:exp() end)
  expect.truthy(rawequal(y, made))
end)

test("a freed or collected value makes way for a new one", function()
  local w = leaf();
  (w * w):sum():backward()
  local g = w.grad
  g:free()
  expect.truthy(not rawequal(w.grad, g))
  expect.near(w.grad:tolist(), { 2, 2, 2 })
  local weak = setmetatable({ w.grad }, { __mode = "v" })
  collectgarbage()
  collectgarbage()
  expect.equal(weak[1], nil)
  expect.near(w.grad:tolist(), { 2, 2, 2 })
  -- In a finalizer, which may see a tensor that is dead as well.
  local seen
  setmetatable({ w = w, g = w.grad }, { __gc = function(self) seen = self.w.grad end })
  collectgarbage()
  collectgarbage()
  expect.truthy(rawequal(seen, w.grad))
end)

test("a coroutine knows the same values", function()
  local w = leaf();
  (w * w):sum():backward()
  local g = w.grad
  expect.truthy(rawequal(coroutine.wrap(function() return w.grad end)(), g))
end)

test("requiring the library again gives the same one", function()
  local nn, x = ml.nn, ml.ones(2)
  local layer = nn.Linear(2, 2)
  for _, name in ipairs { "moonlet", "moonlet.nn", "moonlet.nn.module", "moonlet.nn.parameter", "moonlet.class" } do
    package.loaded[name] = nil
  end
  local again = require "moonlet"
  expect.truthy(rawequal(again, ml))
  expect.truthy(again.is_tensor(x))
  expect.equal((x + again.ones(2)):sum():item(), 4.0)
  expect.truthy(rawequal(require "moonlet.nn", nn))
  expect.truthy(require("moonlet.nn.parameter").is_parameter(layer.weight))
  expect.equal(#nn.Sequential(layer):parameters(), 2)
  local preloaded = package.preload.moonlet
  package.preload.moonlet, package.loaded.moonlet = nil, nil
  expect.truthy(rawequal(require "moonlet", ml))
  package.preload.moonlet = preloaded
  expect.truthy(rawequal(preloaded(), ml))
  -- Nothing is orphaned: what was made before is freed as ever. Dead tensors with hooks, as other
  -- tests left them, take some cycles.
  for _ = 1, 3 do ml.memory.collect() end
  local before = ml.memory.live_bytes()
  local holder = { ml.ones(1 << 16) }
  package.loaded.moonlet = nil
  expect.truthy(rawequal(require "moonlet", ml))
  expect.equal(#holder[1], 1 << 16)
  expect.truthy(ml.memory.live_bytes() > before)
  holder[1] = nil
  ml.memory.collect()
  expect.equal(ml.memory.live_bytes(), before)
end)

harness.run()
