-- tests/lua/autograd/inplace_views_test.lua: view ops in place (t_, squeeze_, as_strided_, ...): they change
-- what a tensor shows of its memory, and neither elements nor gradients. Each test states one rule;
-- the numbers are PyTorch's where it has an answer.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local function leaf() return ml.arange(0, 5, { dtype = ml.float64 }):view(2, 3):clone():requires_grad_() end
local c = ml.arange(1, 6, { dtype = ml.float64 }):view(2, 3)
local ct = c:view(3, 2)

local function shape(x) return table.concat(x.shape, " ") end

local function same(x, wanted)
  expect.truthy(ml.is_tensor(x), "the tensor is " .. tostring(x))
  expect.near(x:detach():contiguous():view(-1):tolist(), wanted, 1e-9)
end

test("a tensor's own shape changes, and its memory stays", function()
  local x = ml.arange(1, 6):view(2, 3):clone()
  local position, version = x:data_ptr(), x._version
  expect.truthy(x:t_() == x)
  expect.equal(shape(x), "3 2")
  same(x, { 1, 4, 2, 5, 3, 6 })
  expect.equal(shape(x:unsqueeze_(1):unsqueeze_(-1)), "1 3 2 1")
  expect.equal(shape(x:squeeze_(1)), "3 2 1")
  expect.equal(shape(x:squeeze_ { 1, -1 }), "3 2")
  expect.equal(shape(x:unsqueeze_(2):squeeze_()), "3 2")
  expect.equal(shape(x:transpose_(1, -1)), "2 3")
  expect.equal(shape(x:swapaxes_(1, 2)), "3 2")
  expect.equal(shape(x:swapdims_(1, 2)), "2 3")
  same(x:as_strided_({ 2, 2 }, { 1, 2 }, 1), { 2, 4, 3, 5 })
  expect.equal(x:data_ptr(), position + 8)
  expect.equal(x._version, version + 11)
  expect.error(function() x:as_strided_({ 7 }, { 1 }, 0) end, "as_strided")
  expect.error(function() x:transpose_(1, 3) end, "transpose_: dim 3")
  same(x, { 2, 4, 3, 5 })
end)

test("the history of a tensor goes on through the view", function()
  local a = leaf()
  local h = a * 1
  h:t_()
  expect.equal(h.grad_fn.name, "TBackward")
  local loss = (h * ct):sum()
  same(ml.grad(loss, h, { retain_graph = true }), { 1, 2, 3, 4, 5, 6 })
  loss:backward()
  same(a.grad, { 1, 3, 5, 2, 4, 6 })

  a = leaf()
  h = a * 1
  h:unsqueeze_(1):squeeze_():squeeze_(1):squeeze_ { 1, 2 }:swapaxes_(1, 2):swapdims_(1, 2):transpose_(1, 2)
  h:mul_(2)
  expect.equal(h.grad_fn.name, "MulBackward")
  ;(h * ct):sum():backward()
  same(a.grad, { 2, 6, 10, 4, 8, 12 })

  a = leaf()
  h = a * 1
  h:as_strided_({ 3 }, { 1 }, 2):sum():backward()
  same(a.grad, { 0, 0, 1, 1, 1, 0 })
end)

test("it counts as a change of what was saved", function()
  local a = leaf()
  local h = a * 1
  local y = h * h
  h:t_()
  expect.error(function() y:sum():backward() end, "changed in place since, last by t_")
  h = a * 1
  y = h * 2
  h:t_()
  y:unsqueeze_(1)
  ;(y * c + h:t()):sum():backward()
  same(a.grad, { 3, 5, 7, 9, 11, 13 })
end)

test("a saved tensor that an op was given as out names that op", function()
  local x, saved = ml.ones({ 4 }, { requires_grad = true }), ml.ones(4)
  local y = x * saved
  ml.cat({ ml.ones(2), ml.zeros(2) }, { out = saved })
  expect.error(function() y:sum():backward() end, "changed in place since, last by cat;")
end)

test("views made before and after stay views of one memory", function()
  local a = leaf()
  local h = a * 1
  local v = h[1]
  h:t_()
  local w = h[1]
  local k = ml.tensor({ 1, 2, 3 }, { dtype = ml.float64 })
  same(ml.grad((v * k):sum(), a, { retain_graph = true }), { 1, 2, 3, 0, 0, 0 })
  v:mul_(2)
  same(h, { 0, 3, 2, 4, 4, 5 })
  same(ml.grad((h * ct):sum(), a, { retain_graph = true }), { 2, 6, 10, 2, 4, 6 })
  same(ml.grad((w * k[{ { 1, 2 } }]):sum(), a, { retain_graph = true }), { 2, 0, 0, 2, 0, 0 })
  h:mul_(2)
  same(ml.grad((v * k):sum(), a, { retain_graph = true }), { 4, 8, 12, 0, 0, 0 })
  w:mul_(10)
  same(ml.grad((v * k):sum() + (h * ct):sum(), a), { 40 + 40, 8 + 12, 12 + 20, 40, 8, 12 })
end)

test("a view that is restrided remains a view of its base", function()
  local a = leaf()
  local h = a * 1
  local v = h[{ {}, { 1, 2 } }]
  v:t_()
  local m = ml.tensor({ 1, 2, 3, 4 }, { dtype = ml.float64 }):view(2, 2)
  same(ml.grad((v * m):sum(), a, { retain_graph = true }), { 1, 3, 0, 2, 4, 0 })
  same(ml.grad((h * c):sum(), a, { retain_graph = true }), { 1, 2, 3, 4, 5, 6 })
  v:mul_(m)
  same(h, { 0, 3, 2, 6, 16, 5 })
  same(ml.grad((h * c):sum(), a, { retain_graph = true }), { 1, 6, 3, 8, 20, 6 })
  v:unsqueeze_(1)
  h:mul_(2)
  same(ml.grad((v * m):sum(), a, { retain_graph = true }), { 2, 18, 0, 8, 32, 0 })
  expect.equal(shape(v), "1 2 2")
  same(ml.grad(v:exp():sum(), v), v:exp():contiguous():view(-1):tolist())

  a = leaf()
  local e = (a * 1):narrow(2, 1, 1):expand(2, 3)
  local base_change = e
  base_change:t_()
  ;(e * ct):sum():backward()
  same(a.grad, { 1 + 3 + 5, 0, 0, 2 + 4 + 6, 0, 0 })
end)

test("expanded and overlapping views are restrided and made again", function()
  local a = leaf()
  local h = a * 1
  local e = h:narrow(2, 1, 1):expand(2, 3)
  local u = h:view(6):unfold(1, 2, 1)
  e:t_()
  u:t_()
  h:mul_(2)
  same(ml.grad((e * ct):sum(), a, { retain_graph = true }), { 18, 0, 0, 24, 0, 0 })
  same(ml.grad(u:sum(), a), { 2, 4, 4, 4, 4, 2 })
end)

test("a constant that is restrided before a recorded change", function()
  local x = ml.zeros({ 2, 3 }, { dtype = ml.float64 })
  local v = x[1]
  x:t_()
  local late = x[1]
  local w = ml.ones({ 3 }, { dtype = ml.float64, requires_grad = true })
  v:add_(w)
  expect.truthy(x.requires_grad and late.requires_grad and not x.is_leaf)
  same(ml.grad((x * ct):sum(), w, { retain_graph = true }), { 1, 3, 5 })
  same(ml.grad((late * ml.tensor { 7, 8 }):sum(), w), { 7, 0, 0 })
end)

test("shrinking a tensor leaves its views the rest of its memory", function()
  local a = leaf()
  local h = a * 1
  local v, all = h[1], h:view(6)
  h:as_strided_({ 3 }, { 1 }, 2)
  v:mul_(3)
  same(h, { 6, 3, 4 })
  same(ml.grad(h:sum(), a, { retain_graph = true }), { 0, 0, 3, 1, 1, 0 })
  same(ml.grad(all:sum(), a), { 3, 3, 3, 1, 1, 1 })
end)

test("first and second derivatives of saved outputs", function()
  for _, op in ipairs { "exp_", "tanh_", "sigmoid_" } do
    local function twice(change)
      local a = leaf()
      local y = change((a * 0.5))
      local g = ml.grad((y * y * ct):sum(), a, { create_graph = true })
      return ml.grad((g * c):sum(), a)
    end
    local wanted = twice(function(h) return h[op:sub(1, -2)](h):t() end):view(-1):tolist()
    same(twice(function(h) h:t_() return h[op](h) end), wanted)
    same(twice(function(h) local v = h:view(6) h:t_() v[op](v) return h end), wanted)
    same(twice(function(h) local v = h:t() h:t_() h:t_() v[op](v) return v end), wanted)
    same(twice(function(h) local v = h:view(6) v:as_strided_({ 3, 2 }, { 1, 3 }, 0) v[op](v) return v end), wanted)
  end
end)

test("under no_grad the history of a computed tensor goes on too", function()
  local a = leaf()
  local h = a * 1
  ml.no_grad(function() h:t_() end)
  ;(h * ct):sum():backward()
  same(a.grad, { 1, 3, 5, 2, 4, 6 })
end)

test("hooks stay with the value they saw; a kept gradient has the tensor's shape", function()
  local a = leaf()
  local h = a * 1
  local seen = {}
  h:retain_grad()
  h:register_hook(function(g) seen[#seen + 1] = shape(g) end)
  local v = h:view(6)
  h:t_()
  h:register_hook(function(g) seen[#seen + 1] = shape(g) end)
  ;(h * ct):sum():backward { retain_graph = true }
  expect.equal(table.concat(seen, ", "), "3 2, 2 3")
  same(h.grad, { 1, 2, 3, 4, 5, 6 })
  h.grad = nil
  v:mul_(2)
  v:sum():backward()
  same(h.grad, { 1, 1, 1, 1, 1, 1 })
end)

test("refused where a change in place is", function()
  local a = leaf()
  expect.error(function() a:t_() end, "t_: a leaf that requires grad")
  local v = a:view(3, 2)
  expect.error(function() v:squeeze_() end, "squeeze_: a view of a leaf")
  local h = a * 1
  local quiet = ml.no_grad(function() return h:view(3, 2) end)
  expect.error(function() quiet:unsqueeze_(1) end, "unsqueeze_: this view was made under ml.no_grad")
  ml.no_grad(function() quiet:t_() end)
  expect.equal(shape(quiet), "2 3")
  expect.equal(shape(a) .. shape(v), "2 33 2")
end)

test("a leaf under no_grad: a new start, and an error for graphs that used it", function()
  local a = leaf()
  local used, saved, view = a * c, a * a, a:view(6)
  ml.no_grad(function() a:t_() end)
  ;(a * ct):sum():backward()
  same(a.grad, { 1, 2, 3, 4, 5, 6 })
  expect.equal(shape(a.grad), "3 2")
  expect.error(function() used:sum():backward() end, "was given the shape")
  expect.error(function() saved:sum():backward() end, "changed in place since, last by t_")
  expect.error(function() view:sum():backward() end, "was given the shape")
  ml.no_grad(function() a:t_() end)
  expect.error(function() (a * c):sum():backward() end, "set its grad to nil")
  a.grad = nil
  ;(a * c):sum():backward()
  same(a.grad, { 1, 2, 3, 4, 5, 6 })

  local square = ml.tensor({ { 1.0, 2 }, { 3, 4 } }, { requires_grad = true })
  local y, part = square * 2, square[1]
  ml.no_grad(function() square:t_() square:mul_(2) end)
  expect.error(function() y:sum():backward() end, "given other strides")
  expect.error(function() part:sum():backward() end, "given other strides")
end)

test("detach_ works on a restrided tensor that has views", function()
  local h = leaf() * 1
  local v = h[1]
  h:t_()
  h:detach_()
  expect.truthy(not h.requires_grad and h.is_leaf)
  expect.error(function() v:detach_() end, "detach_")
  h:requires_grad_()
  ;(h * ct):sum():backward()
  same(h.grad, { 1, 2, 3, 4, 5, 6 })
end)

test("a tensor that shares memory by detach keeps its own shape", function()
  local a = leaf()
  local d = a:detach()
  d:t_()
  expect.equal(shape(d), "3 2")
  expect.equal(shape(a), "2 3")
  expect.truthy(not d.requires_grad)
end)

test("a view that is turned a million times stays small", function()
  local a = leaf()
  local h = a * 1
  local v = h:view(2, 3)
  v = v:detach():view(2, 3)
  for _ = 1, 1000001 do v:t_() end
  expect.equal(shape(v), "3 2")
end)

test("the base of a view that moved is not taken for its base any more", function()
  local x = ml.zeros({ 2, 3 }, { dtype = ml.float64 })
  local v = x[1]
  x:resize_(3, 2)
  local w = ml.ones({ 3, 2 }, { dtype = ml.float64, requires_grad = true })
  x:mul_(w)
  expect.falsy(v.requires_grad)
  x = ml.zeros({ 2, 3 }, { dtype = ml.float64 })
  v = x[1]
  x:t_()
  x:resize_(2, 3)
  x:add_(w:view(2, 3))
  expect.falsy(v.requires_grad)
end)

harness.run()
