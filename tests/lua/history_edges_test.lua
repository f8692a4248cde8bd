-- tests/lua/history_edges_test.lua: the tape where histories are unusual: leaves that change, views
-- that lose their history, very long chains. Each test states one rule; the numbers are PyTorch's.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
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

harness.run()
