-- tests/lua/autograd/autograd_test.lua: the tape as scripts see it: leaves, backward, grad modes, in-place
-- changes and views, hooks, ml.grad, higher derivatives. Numbers with decimals are PyTorch's.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

-- A float64 leaf that requires grad.
local function leaf(...)
  return ml.tensor({ ... }, { dtype = ml.float64, requires_grad = true })
end

-- The gradient of the sum of x.
local function back(x) x:sum():backward() end

local function same(x, wanted, tolerance, detail)
  expect.near(x:tolist(), wanted, tolerance or 1e-12, detail)
end

-- Leaves and fields ------------------------------------------------------------------------------

test("a leaf requires grad, a result has a grad_fn, a constant neither", function()
  local a = leaf(1, 2)
  expect.equal(a.requires_grad, true)
  expect.equal(a.is_leaf, true)
  expect.equal(a.grad_fn, nil)
  expect.equal(a.grad, nil)
  local y = a * 2
  expect.equal(y.requires_grad, true)
  expect.equal(y.is_leaf, false)
  expect.equal(y.grad_fn.name, "MulBackward")
  expect.equal(a:exp().grad_fn.name, "ExpBackward")
  expect.equal(a:view(2, 1).grad_fn.name, "ViewBackward")
  local c = ml.ones(2) + 1
  expect.equal(c.requires_grad, false)
  expect.equal(c.grad_fn, nil)
  expect.equal(c.is_leaf, true)
end)

test("requires_grad is for floating tensors and leaves", function()
  expect.error(function() ml.ones { 2, dtype = ml.int64, requires_grad = true } end, "int64")
  expect.error(function() ml.tensor({ 1, 2 }):requires_grad_() end, "floating")
  expect.error(function() ml.tensor({ true }).requires_grad = true end, "floating")
  expect.error(function() local y = leaf(1) * 2; y.requires_grad = false end, "detach")
  local a = ml.ones(2)
  a.requires_grad = true
  expect.equal(a:requires_grad_(false).requires_grad, false)
  expect.error(function() a.requires_grad = 1 end, "true or false")
end)

test("comparisons and integer results carry no gradient", function()
  local a = leaf(1, 2, 3)
  expect.equal(a:gt(2).requires_grad, false)
  expect.equal(a:argmax().requires_grad, false)
  local values, indices = a:max(1)
  expect.equal(values.requires_grad, true)
  expect.equal(indices.requires_grad, false)
end)

-- backward ---------------------------------------------------------------------------------------

test("gradients accumulate until they are cleared", function()
  local a = leaf(1, 2, 3)
  back(a * a)
  same(a.grad, { 2, 4, 6 })
  back(a * a)
  same(a.grad, { 4, 8, 12 })
  a.grad = nil
  expect.equal(a.grad, nil)
  a:sum():backward()
  same(a.grad, { 1, 1, 1 })
end)

test("a leaf used several times gets the sum", function()
  local a = leaf(2)
  local y = a * a + a * 3 + a
  y:sum():backward()
  same(a.grad, { 8 })
end)

test("backward takes a gradient of the output's shape", function()
  local a = leaf(1, 2, 3)
  local y = a * 2
  expect.error(function() y:backward() end, "shape %(3,%)")
  expect.error(function() y:backward(ml.ones(2)) end, "shape")
  y:backward(ml.tensor({ 1.0, 10, 100 }, { dtype = ml.float64 }))
  same(a.grad, { 2, 20, 200 })
  expect.error(function() ml.ones(1):backward() end, "does not require grad")
end)

test("a second backward needs retain_graph", function()
  local a = leaf(3)
  local y = (a * a):sum()
  y:backward(nil, { retain_graph = true })
  same(a.grad, { 6 })
  y:backward()
  same(a.grad, { 12 })
  local message = expect.error(function() y:backward() end, "retain_graph")
  expect.truthy(message:find "MulBackward", message)
  expect.error(function() y:backward(nil, { retain_grpah = true }) end, "retain_graph")
end)

test("gradients are summed over what broadcasting stretched", function()
  local a, b, c = leaf(1, 2, 3), leaf(10), leaf(5)
  local column = b:view(1, 1)
  back(ml.ones { 4, 3, dtype = ml.float64 } * a + column * c)
  same(a.grad, { 4, 4, 4 })
  same(b.grad, { 60 })
  same(c.grad, { 120 })
end)

test("each gradient has its leaf's dtype", function()
  local a = ml.tensor({ 1.0, 2.0 }, { requires_grad = true })
  local b = leaf(3, 4)
  local y = a * b
  expect.equal(y.dtype, ml.float64)
  y:sum():backward()
  expect.equal(a.grad.dtype, ml.float32)
  expect.equal(b.grad.dtype, ml.float64)
  same(a.grad, { 3, 4 })
  same(b.grad, { 1, 2 })
  local h = ml.ones { 2, dtype = ml.float16, requires_grad = true }
  back(h:float() * 3)
  expect.equal(h.grad.dtype, ml.float16)
  same(h.grad, { 3, 3 })
end)

test("grad can be set to a tensor that fits, and only to such", function()
  local a = leaf(1, 2)
  a.grad = ml.ones { 2, dtype = ml.float64 }
  a:sum():backward()
  same(a.grad, { 2, 2 })
  expect.error(function() a.grad = ml.ones { 3, dtype = ml.float64 } end, "shape")
  expect.error(function() a.grad = ml.ones(2) end, "float")
  expect.error(function() a.grad = 3 end, "tensor")
end)

test("a chain of 200,000 nodes runs and is freed", function()
  ml.memory.collect()
  local before = ml.memory.live_bytes()
  local a = leaf(1)
  local x = a
  for _ = 1, 200000 do x = x + 1 end
  x:sum():backward()
  same(a.grad, { 1 })
  x = a
  for _ = 1, 200000 do x = x * 1.0 end
  x = nil  -- luacheck: ignore
  ml.memory.collect()
  expect.truthy(ml.memory.live_bytes() - before < 1e6, "the graph is freed")
end)

-- Modes ------------------------------------------------------------------------------------------

test("no_grad with a function passes values through and restores the mode", function()
  local a = leaf(1, 2)
  local y, two = ml.no_grad(function(x) return x * 2, 2 end, a)
  expect.equal(y.requires_grad, false)
  expect.equal(two, 2)
  expect.equal(ml.is_grad_enabled(), true)
  expect.error(function() ml.no_grad(function() error "inside" end) end, "inside")
  expect.equal(ml.is_grad_enabled(), true, "after an error")
  ml.no_grad(function()
    ml.enable_grad(function() expect.equal((a * 2).requires_grad, true) end)
    expect.equal(ml.is_grad_enabled(), false)
  end)
  expect.error(function() ml.no_grad(3) end, "no_grad")
end)

test("no_grad as a <close> variable ends with its block", function()
  local a = leaf(1, 2)
  do
    local _ <close> = ml.no_grad()
    expect.equal((a * 2).requires_grad, false)
    do
      local _ <close> = ml.enable_grad()
      expect.equal((a * 2).requires_grad, true)
    end
    expect.equal(ml.is_grad_enabled(), false)
  end
  expect.equal(ml.is_grad_enabled(), true)
  pcall(function()
    local _ <close> = ml.no_grad()
    error "inside"
  end)
  expect.equal(ml.is_grad_enabled(), true, "after an error")
  ml.set_grad_enabled(false)
  expect.equal((a * 2).requires_grad, false)
  ml.set_grad_enabled(true)
end)

test("coroutines share the thread's mode, and blocks inside them restore it", function()
  local a = leaf(1)
  local co = coroutine.wrap(function()
    do
      local _ <close> = ml.no_grad()
      expect.equal((a * 2).requires_grad, false)
    end
    coroutine.yield((a * 2).requires_grad)
    return ml.is_grad_enabled()
  end)
  expect.equal(co(), true)
  expect.equal(co(), true)
  local failing = coroutine.create(function()
    ml.no_grad(function() error "inside" end)
  end)
  expect.equal(coroutine.resume(failing), false)
  expect.equal(ml.is_grad_enabled(), true)
end)

test("detach shares memory and leaves the graph", function()
  local a = leaf(1, 2)
  local y = a * 2
  local d = y:detach()
  expect.equal(d.requires_grad, false)
  expect.equal(d.grad_fn, nil)
  d:add_(1)
  same(y:detach(), { 3, 5 })
  back(a * y:detach())
  same(a.grad, { 3, 5 })
end)

-- In-place changes -------------------------------------------------------------------------------

test("a leaf that requires grad, and its views, cannot be changed while recording", function()
  local a = leaf(1, 2)
  expect.error(function() a:add_(1) end, "add_: a leaf")
  expect.error(function() a[1] = 3 end, "leaf")
  expect.error(function() a:view(2, 1):mul_(2) end, "view of a leaf")
  ml.no_grad(function() a:add_(1) end)
  same(a:detach(), { 2, 3 })
  expect.equal(a.requires_grad, true)
  expect.equal(a.is_leaf, true)
end)

test("changing a saved tensor is an error that names both ops", function()
  local a = leaf(1, 2)
  local y = a:exp()
  y:add_(1)
  local message = expect.error(function() y:sum():backward() end, "changed in place")
  expect.truthy(message:find "ExpBackward", message)
  expect.truthy(message:find "add_", message)
  local b = a * 1
  local z = b * b
  b[1] = 5
  message = expect.error(function() z:sum():backward() end, "changed in place")
  expect.truthy(message:find "MulBackward", message)
  expect.truthy(message:find "fill_", message)
  local c = a * 1
  local s = c + c
  c:mul_(3)  -- a sum saves nothing, so this is allowed
  s:sum():backward()
  same(a.grad, { 2, 2 })
end)

test("an in-place op takes the history of its result", function()
  local a = leaf(1, 2)
  local x = a * 3
  x:mul_(x:clone())
  expect.equal(x.grad_fn.name, "MulBackward")
  back(x)
  same(a.grad, { 18, 36 })
  a = leaf(1, 2)
  x = a * 3
  x:mul_(x)  -- the second operand is changed too, so its old value is kept
  back(x)
  same(a.grad, { 18, 36 })
  local b = leaf(1, 2)
  local y = ml.zeros { 2, dtype = ml.float64 }
  y:add_(b)
  expect.equal(y.requires_grad, true)
  y:sum():backward()
  same(b.grad, { 1, 1 })
end)

test("a view from before its base became a leaf stays outside the tape", function()
  local a = ml.ones(3)
  local v = a["1:2"]
  a.requires_grad = true
  expect.equal(v.requires_grad, false)
  expect.equal(v.grad_fn, nil)
  expect.equal(a["1:2"].requires_grad, true)
end)

test("a change through a view reaches its base's history", function()
  local a = leaf(1, 2, 3, 4)
  local x = a * 1
  x[{ { 2, 3 } }]:mul_(10)
  back(x * x)
  same(a.grad, { 2, 400, 600, 8 })
end)

test("a change of the base reaches its views", function()
  local a = leaf(1, 2, 3, 4)
  local x = a * 1
  local v = x[{ { 1, 2 } }]
  x:mul_(3)
  expect.equal(v.grad_fn.name, "SliceBackward")
  back(v * v)
  same(a.grad, { 18, 36, 0, 0 })
end)

test("changes through views of views, transposed and overlapping", function()
  local a, b = leaf(1, 2, 3, 4), leaf(5, 7)
  local x = a * 2
  x:view(2, 2)[1]:copy_(b)
  back(x * x)
  same(a.grad, { 0, 0, 24, 32 })
  same(b.grad, { 10, 14 })

  local c
  a, c = leaf(1, 2, 3, 4), leaf(0.5, -1)
  x = (a * 1):view(2, 2)
  x:t()[1]:add_(c)
  x:pow(3):sum():backward()
  same(a.grad, { 6.75, 12, 12, 48 })
  same(c.grad, { 6.75, 12 })

  a = leaf(1, 2, 3, 4)
  x = a * 1
  local v = x["2:4"]
  local w = v["2:3"]
  w:sin_()
  v:mul_(2)
  x:exp_()
  x:sum():backward()
  same(a.grad, { 2.718281828459, 109.196300066288, -2.625652093083, -0.287753574754 })

  a = leaf(1, 2, 3, 4)
  x = a * 1
  local u
  v, u = x["1:2"], x["2:3"]
  v:mul_(x["3:4"]:clone())
  u:add_(u:clone():pow(2))
  back(x * ml.arange(1, 4):double())
  same(a.grad, { 3, 136, 22, 72 })

  a = leaf(1, 2, 3, 4)
  x = (a * 1):view(2, 2)
  x:diagonal():mul_(x[":, 1"]:clone())
  back(x * x)
  same(a.grad, { 4, 4, 102, 72 })

  a = leaf(1, 2, 3, 4)
  x = a * 1
  x["1:2"]:zero_()
  back(x * x)
  same(a.grad, { 0, 0, 6, 8 })
end)

test("a view made under no_grad refuses a recorded change", function()
  local a = leaf(1, 2)
  local x = a * 1
  local v = ml.no_grad(function() return x[{ { 1, 1 } }] end)
  expect.error(function() v:mul_(a["1:1"]) end, "no_grad")
end)

-- Indexing ---------------------------------------------------------------------------------------

test("gradients of indexing and of assignment", function()
  local a, z = leaf(1, 2, 3, 4), leaf(9)
  local x = a * 1
  x[2] = z[1]
  x[ml.tensor { 1, 4 }] = x[ml.tensor { 4, 1 }] * 2
  back(x * x)
  same(a.grad, { 8, 0, 6, 32 })
  same(z.grad, { 18 })

  local w
  a, w = leaf(1, 2, 3, 4), leaf(2, 3)
  x = a * a
  x[x:gt(5)] = w * w
  back(x * ml.arange(1, 4):double())
  same(a.grad, { 2, 8, 0, 0 })
  same(w.grad, { 12, 24 })

  a = leaf(1, 2, 3, 4)
  a[ml.tensor { 2, 2, -1 }]:sum():backward()
  same(a.grad, { 0, 2, 0, 1 })
  a.grad = nil
  a[a:gt(2)]:sum():backward()
  same(a.grad, { 0, 0, 1, 1 })
  a.grad = nil
  a:view(2, 2)[{ {}, 2 }]:sum():backward()
  same(a.grad, { 0, 1, 0, 1 })
  a.grad = nil
  a:view(2, 2)["..., newaxis, 1"]:pow(2):sum():backward()
  same(a.grad, { 2, 0, 6, 0 })
end)

test("gradients of expanded views are sums", function()
  local a = leaf(1, 2, 3, 4)
  local e = (a * 1):view(1, 4):expand(3, 4)
  back(e * e)
  same(a.grad, { 6, 12, 18, 24 })
end)

-- ml.grad and higher derivatives -----------------------------------------------------------------

test("parts of one tensor add their gradients to one sum", function()
  ml.manual_seed(1)
  local function loss(x)
    local sum = x:sum()
    for i, row in ipairs(x:unbind(1)) do sum = sum + (row * row):sum() * i end
    for i, piece in ipairs(x:split(2, 2)) do sum = sum + piece:pow(3):sum() / i end
    for _, window in ipairs { { 1, 3 }, { 2, 4 }, { 2, 5 } } do
      sum = sum + x[{ window, { 1, 5, 2 } }]:exp():sum()
    end
    return sum + x:diagonal():pow(2):sum() + x:diagonal(1):pow(4):sum()
  end
  local x = ml.randn { 5, 6, dtype = "float64", requires_grad = true }
  local seen = 0
  x:register_hook(function(g) seen = seen + g:sum():item() end)
  loss(x):backward()
  expect.near(seen, x.grad:sum():item(), 1e-9)
  -- With create_graph every part gives a gradient of its own.
  local g = ml.grad({ loss(x) }, { x }, { create_graph = true })
  expect.truthy(x.grad:allclose(g), "the sums agree")
  local step = ml.randn { 5, 6, dtype = "float64" } * 1e-6
  local change = loss(x:detach() + step):item() - loss(x:detach() - step):item()
  expect.near(change / 2e-6, (x.grad * step):sum():item() / 1e-6, 1e-5)
  -- A sum that a script holds is left as it is.
  local y = x * 1
  y:retain_grad()
  local kept
  y:register_hook(function(whole) kept = whole end)
  loss(y):backward()
  expect.truthy(kept:allclose(g) and y.grad:allclose(g), "held sums")
end)

test("ml.grad returns gradients and leaves grad alone", function()
  local a, b = leaf(2), leaf(3)
  local y = (a * a * b):sum()
  local ga, gb = ml.grad(y, { a, b })
  same(ga, { 12 })
  same(gb, { 4 })
  expect.equal(a.grad, nil)
  local middle = a * 5
  local gm = ml.grad((middle * middle):sum(), middle)
  same(gm, { 20 })
end)

test("ml.grad of an unused input is an error unless allowed", function()
  local a, b = leaf(2), leaf(3)
  local y = (a * a):sum()
  expect.error(function() ml.grad(y, { a, b }, { retain_graph = true }) end, "allow_unused")
  local ga, gb = ml.grad((a * a):sum(), { a, b }, { allow_unused = true })
  same(ga, { 4 })
  expect.equal(gb, nil)
  expect.error(function() ml.grad(y, ml.ones(1)) end, "does not require grad")
  expect.error(function() ml.grad(y, a, { alow_unused = true }) end, "allow_unused")
end)

test("ml.grad weighs several outputs by grad_outputs", function()
  local a = leaf(1, 2)
  local one, two = a * 2, a * a
  local weights = { ml.ones { 2, dtype = ml.float64 }, ml.full({ 2 }, 10, { dtype = ml.float64 }) }
  same(ml.grad({ one, two }, a, { grad_outputs = weights }), { 22, 42 })
end)

test("the third derivative", function()
  local a = leaf(1.5)
  local y = a:pow(3) * a:sin()
  local g1 = ml.grad(y, a, { create_graph = true })
  local g2 = ml.grad(g1, a, { create_graph = true })
  local g3 = ml.grad(g2, a, { create_graph = true })
  same(g1, { 6.971829215205864 })
  same(g2, { 6.565861522161796 })
  same(g3, { -12.543137169708295 })
end)

test("backward with create_graph can be differentiated", function()
  local a = leaf(2, 3)
  a:pow(3):sum():backward(nil, { create_graph = true })
  same(a.grad:detach(), { 12, 27 })
  expect.equal(a.grad.requires_grad, true)
  same(ml.grad(a.grad:sum(), a), { 12, 18 })
  a.grad = nil
end)

test("a gradient penalty trains through the gradient", function()
  local w = leaf(1, -2)
  local x = leaf(0.5, 0.25)
  local out = (w * x):sum():tanh()
  local gx = ml.grad(out, x, { create_graph = true })
  gx:pow(2):sum():backward()
  -- d/dw of |w|^2 (1 - tanh(w.x)^2)^2 at w.x = 0 is 2w.
  same(w.grad, { 2, -4 })
end)

-- Hooks ------------------------------------------------------------------------------------------

test("hooks see and replace gradients, and can be removed", function()
  local a = leaf(1, 2)
  local y = a * 3
  local seen
  local handle = y:register_hook(function(g) seen = g:tolist() end)
  local doubled = a:register_hook(function(g) return g * 2 end)
  y:sum():backward(nil, { retain_graph = true })
  expect.near(seen, { 1, 1 })
  same(a.grad, { 6, 6 })
  handle.remove()
  doubled.remove()
  seen, a.grad = nil, nil
  y:sum():backward()
  expect.equal(seen, nil)
  same(a.grad, { 3, 3 })
  expect.error(function() ml.ones(1):register_hook(print) end, "does not require grad")
  expect.error(function() a:register_hook(3) end, "function")
end)

test("an error in a hook is an error of backward and leaves everything usable", function()
  local a = leaf(1, 2)
  local y = a * 3
  local handle = y:register_hook(function() error "hook failed" end)
  expect.error(function() y:sum():backward(nil, { retain_graph = true }) end, "hook failed")
  expect.equal(a.grad, nil)
  expect.equal(ml.is_grad_enabled(), true)
  handle.remove()
  local wrong = y:register_hook(function() return 3 end)
  expect.error(function() y:sum():backward(nil, { retain_graph = true }) end, "hook")
  wrong.remove()
  back(a * 2)
  same(a.grad, { 2, 2 })
end)

test("a hook's replacement must have the gradient's shape", function()
  local a = leaf(1, 2)
  local y = a:exp()
  y:register_hook(function() return ml.ones { 5, 7, dtype = ml.float64 } end)
  expect.error(function() y:sum():backward() end)
  local b = leaf(1, 2)
  b:register_hook(function() return ml.ones { 5, dtype = ml.float64 } end)
  expect.error(function() b:sum():backward() end, "shape")
end)

test("a hook that refers to its own tensor is collected with it", function()
  ml.memory.collect()
  local before = ml.memory.live_bytes()
  for _ = 1, 20 do
    local a = ml.zeros { 100000, requires_grad = true }
    local y = a * 2
    y:register_hook(function(g) return g * y:detach():sum() end)
    y:sum():backward()
  end
  ml.memory.collect()
  ml.memory.collect()
  expect.truthy(ml.memory.live_bytes() - before < 4e6, "live bytes went back")
end)

test("retain_grad keeps the gradient of a result", function()
  local a = leaf(1, 2)
  local y = a * 3
  expect.equal(y:retain_grad(), y)
  back(y * y)
  same(y.grad, { 6, 12 })
  same(a.grad, { 18, 36 })
  local z = a * 1
  z:sum():backward()
  expect.equal(z.grad, nil)
end)

-- Freeing ----------------------------------------------------------------------------------------

test("backward frees what the graph saved", function()
  ml.memory.collect()
  local a = ml.zeros { 1000, 1000, requires_grad = true }
  local y = a:exp():exp():exp():exp():sum()
  ml.memory.collect()
  local before = ml.memory.live_bytes()
  y:backward()
  ml.memory.collect()
  -- Four saved results go, one gradient comes.
  expect.truthy(before - ml.memory.live_bytes() > 2.5 * 4e6, "saved tensors are freed")
end)

test("a freed tensor stays valid inside the graph", function()
  local a = leaf(1, 2)
  local x = a:exp()
  local y = x:exp()
  x:free()
  expect.error(function() return x + 1 end, "freed")
  y:sum():backward()
  expect.near(a.grad[1]:item(), math.exp(math.exp(1)) * math.exp(1), 1e-9)
end)

test("a view made to require grad stays a leaf through steps of an optimiser", function()
  local w = ml.ones(4):reshape(2, 2):requires_grad_(true)
  local sgd = ml.optim.SGD({ w }, { lr = 0.25 })
  for _ = 1, 2 do
    sgd:zero_grad()
    w:sum():backward()
    sgd:step()
    expect.truthy(w.is_leaf)
  end
  expect.equal(w:sum():item(), 2.0)
end)

harness.run()
