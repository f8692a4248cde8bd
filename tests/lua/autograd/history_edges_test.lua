-- tests/lua/autograd/history_edges_test.lua: the tape where histories are unusual: leaves that change, views
-- that lose their history, very long chains. Each test states one rule; the numbers are PyTorch's.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local function leaf(...)
  return ml.tensor({ ... }, { dtype = ml.float64, requires_grad = true })
end

local function same(x, wanted)
  expect.truthy(ml.is_tensor(x), "the gradient is " .. tostring(x))
  expect.near(x:tolist(), wanted, 1e-9)
end

test("a hook after accumulation sees the leaf's new gradient, in order, until it is removed", function()
  local w = leaf(1, 2)
  local seen = {}
  w:register_hook(function(g) seen[#seen + 1] = "before" return g * 2 end)
  local handle = w:register_post_accumulate_grad_hook(function(x)
    seen[#seen + 1] = "after"
    same(x.grad, { 6, 6 })
  end)
  local loss = (w * 3):sum()
  loss:backward()
  same(ml.grad((w * 3):sum(), w), { 6, 6 })
  expect.equal(table.concat(seen, " "), "before after before")
  handle.remove()
  loss = (w * 3):sum()
  loss:backward()
  same(w.grad, { 12, 12 })
  expect.error(function() (w * 1):register_post_accumulate_grad_hook(print) end, "leaf")
end)

test("a leaf that was given another shape gets no gradient of the old one", function()
  for _ = 1, 50 do
    local x = ml.ones({ 6 }, { requires_grad = true })
    local y = (x * 2):sum()
    x:requires_grad_(false)
    x:resize_(2, 6)
    x:requires_grad_(true)
    expect.error(function() y:backward() end, "was given the shape")
  end
end)

test("long chains of views end and are replayed without recursion", function()
  local a = ml.ones({ 4 }, { requires_grad = true })
  local h = a * 1
  local v = h
  for _ = 1, 300000 do v = v:view(4) end
  h:mul_(2)
  v:sum():backward()
  same(a.grad, { 2, 2, 2, 2 })
end)

test("what reshape copied is no view", function()
  local a = leaf(1, 2, 3, 4)
  local r = (a * 1):unfold(1, 2, 1):reshape(-1)
  local y = r + 1
  local part = r:narrow(1, 1, 2)
  part:mul_(3)
  local loss = y:sum() + r:sum()
  same(ml.grad(loss, a, { retain_graph = true }), { 4, 6, 4, 2 })
  same(ml.grad(loss, r, { retain_graph = true }), { 1, 1, 1, 1, 1, 1 })
end)

test("retain_grad follows a view at once when it is changed in place", function()
  local a = leaf(1, 2, 3, 4)
  local h = a * 1
  local v = h:view(2, 2)
  v:retain_grad()
  local loss = v:sum()
  v:add_(loss)
  h:sum():backward()
  expect.equal(v.grad, nil)
  same(a.grad, { 5, 5, 5, 5 })
end)

test("a leaf that got a history since it was used is an error", function()
  local x = ml.zeros(4)
  local v = x:view(2, 2):requires_grad_()
  local y = (v * 2):sum()
  x:mul_(leaf(1, 2, 3, 4):float())
  expect.error(function() y:backward() end, "history")
end)

test("a view that lost its history can still be printed", function()
  local h = leaf(1, 2) * 1
  local v = ml.no_grad(function() return h:view(2, 1) end)
  h:mul_(2)
  expect.truthy(tostring(v):find "2")
  expect.equal(v.is_leaf, false)
  expect.error(function() return v * 2 end, "no_grad")
end)

-- (a / 2) seen as (2, 2), changed by `op`; z is the sum of the squares of the gradient of y by a.
local function second_order(op, prepare)
  local a = leaf(1, 2, 3, 4)
  local h = a * 0.5
  local v = h:view(2, 2)
  v[op](v)
  prepare(v)
  local y = (v * v * v):sum() + (h * h):sum()
  local g = ml.grad(y, a, { create_graph = true })
  return (g * g):sum(), v, a
end

local function flat(x) return x:contiguous():view(-1) end

test("the second derivative reaches a view through what its change saved", function()
  local wanted = {
    exp_ = { { 262.095719797, 2698.926522129, 29429.752379671, 333935.641661377 },
             { 241.724191135, 3945.439349412, 69062.99220654, 1269755.251513411 } },
    tanh_ = { { 0.451828676, -2.090999336, -2.601271375, -1.446781057 },
              { 0.558265385, -0.318220789, -0.222440344, -0.050276556 } },
    sqrt_ = { { 0.088388348, 0.625, 0.96958969, 1.237436867 },
              { 0.546415043, 0.46875, 0.434343109, 0.413832521 } },
  }
  for op, numbers in pairs(wanted) do
    local z, v, a = second_order(op, function() end)
    local gv, ga = table.unpack { ml.grad(z, { v, a }) }
    expect.near(flat(gv):tolist(), numbers[1], 1e-6)
    expect.near(ga:tolist(), numbers[2], 1e-6)
  end
end)

test("retain_grad and hooks of a view see the second derivative through what its change saved", function()
  local z, v, a = second_order("exp_", function(v) v:retain_grad() end)
  z:backward()
  expect.near(flat(v.grad):tolist(), { 270.250565283, 2721.093690426, 29490.00899044, 334099.436111476 }, 1e-6)
  expect.near(a.grad:tolist(), { 241.724191135, 3945.439349412, 69062.99220654, 1269755.251513411 }, 1e-6)
  local seen = {}
  z = second_order("sqrt_", function(view) view:register_hook(function(g) seen[#seen + 1] = flat(g):tolist() end) end)
  z:backward()
  expect.near(seen[1], { 1.5, 3, 4.5, 6 }, 1e-9)
  expect.near(seen[2], { 0.08838834764831804, 0.625, 0.9695896898516747, 1.2374368670764586 }, 1e-9)
end)

test("a view that is gone leaves its change differentiable twice", function()
  local a = leaf(1, 2, 3, 4)
  local h = a * 0.5
  h:view(2, 2):exp_()
  collectgarbage()
  local g = ml.grad((h * h * h):sum(), a, { create_graph = true })
  same(ml.grad(g:sum(), a), ((a * 1.5):exp() * 2.25):tolist())
end)

test("assigning to all of a view changes the view itself, to a part a view of it", function()
  local function kept(change)
    local a = leaf(1, 2, 3, 4)
    local h = a * 2
    local v = h:view(2, 2)
    v:retain_grad()
    change(v)
    local loss = h * h * 0.5
    loss:sum():backward()
    return v.grad and flat(v.grad):tolist(), a.grad:tolist()
  end
  for _, change in ipairs {
    function(v) v[{ { 1, 2 } }] = v:clone() end,
    function(v) v[{ { 1, 2 }, { 1, 2 } }] = v:clone() end,
    function(v) v["..."] = v:clone() end,
  } do
    local of_view, of_leaf = kept(change)
    expect.equal(of_view, nil)
    expect.equal(of_leaf, { 4.0, 8.0, 12.0, 16.0 })
  end
  local of_view, of_leaf = kept(function(v) v[{ { 1, 1 } }] = v[{ { 1, 1 } }]:clone() end)
  expect.equal(of_view, { 2.0, 4.0, 0.0, 0.0 })
  expect.equal(of_leaf, { 4.0, 8.0, 12.0, 16.0 })
end)

harness.run()
