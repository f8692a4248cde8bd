-- tests/lua/autograd/history_test.lua: what the tape promises about views, in-place changes, saved tensors,
-- hooks and gradients. Each test states one rule; the numbers are PyTorch's.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local function leaf(...)
  return ml.tensor({ ... }, { dtype = ml.float64, requires_grad = true })
end

-- A result with the elements of a fresh leaf: the leaf and the result.
local function result(...)
  local a = leaf(...)
  return a, a * 1
end

local function same(x, wanted, detail)
  expect.truthy(ml.is_tensor(x), (detail or "the gradient") .. " is " .. tostring(x))
  expect.near(x:tolist(), wanted, 1e-9, detail)
end

-- The keys of a table in order, each with its value.
local function each(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  local i = 0
  return function()
    i = i + 1
    return names[i], t[names[i]]
  end
end

local function quiet(f) return ml.no_grad(f) end

-- A view follows its base ------------------------------------------------------------------------

test("a view used twice after its base changed gets both gradients", function()
  local a, b = result(1, 1, 1, 1)
  local v = b:view(2, 2)
  b:mul_(3)
  same(ml.grad((v * 2):sum() + (v * 5):sum(), a), { 21, 21, 21, 21 })
end)

test("a view used once after its base changed passes its gradient on", function()
  local a, b = result(1, 1, 1, 1)
  local v = b:view(2, 2)
  b:mul_(3)
  same(ml.grad((v * 2):sum(), a), { 6, 6, 6, 6 })
end)

test("the gradient for a view whose base changed is complete", function()
  local _, b = result(1, 1, 1, 1)
  local v = b:view(2, 2)
  b:mul_(3)
  local y = (v * 2):sum() + (v * 5):sum()
  same(ml.grad(y, v), { { 7, 7 }, { 7, 7 } })
end)

test("a view of a view follows changes of the base and of the view between", function()
  local a, b = result(1, 2, 3, 4)
  local v = b:view(2, 2)
  local w = v[1]
  b:mul_(3)
  v:mul_(2)
  same(w:detach(), { 6, 12 })
  same(ml.grad((w * w):sum(), a), { 72, 144, 0, 0 })
end)

test("uses of a view before and after a change of its base count apart", function()
  local a, b = result(1, 1, 1, 1)
  local v = b:view(2, 2)
  local early = v * 10
  b:mul_(3)
  b:mul_(2)
  same(ml.grad((early + v):sum(), a), { 16, 16, 16, 16 })
end)

-- Each view of a (2, 3) tensor.
local views = {
  view = function(h) return h:view(3, 2) end,
  reshape = function(h) return h:reshape(6) end,
  transpose = function(h) return h:t() end,
  permute = function(h) return h:permute(2, 1) end,
  narrow = function(h) return h:narrow(2, 2, 2) end,
  slice = function(h) return h[{ {}, { 1, 3, 2 } }] end,
  select = function(h) return h:select(2, 3) end,
  unsqueeze = function(h) return h:unsqueeze(2) end,
  squeeze = function(h) return h:narrow(1, 2, 1):squeeze() end,
  expand = function(h) return h:expand(4, 2, 3) end,
  diagonal = function(h) return h:diagonal(1) end,
  unfold = function(h) return h:unfold(2, 2, 1) end,
  as_strided = function(h) return h:as_strided({ 5, 2 }, { 1, 1 }, 0) end,
  split = function(h) return h:split(2, 2)[1] end,
  chunk = function(h) return h:chunk(2, 1)[2] end,
  unbind = function(h) return h:unbind(2)[2] end,
  ["view of a view"] = function(h) return h:t():narrow(1, 2, 2)[1]:unsqueeze(1) end,
  ["overlapping view of a view"] = function(h) return h:view(6):unfold(1, 4, 1)[2]:unfold(1, 2, 1) end,
  ["complex view"] = function(h) return ml.view_as_real(ml.view_as_complex(h:view(3, 2)))[2] end,
}
local overlapping = { expand = true, unfold = true, as_strided = true, ["overlapping view of a view"] = true }

local function weights_of(x)
  return ml.arange(1, x:numel()):double():view(x.shape)
end

for name, view in each(views) do
  test("a change of the base reaches its view: " .. name, function()
    local start = ml.arange(1, 6):double():view(2, 3)
    local a = start:clone():requires_grad_(true)
    local h = a * 1
    local v = view(h)
    h:mul_(3)
    local got = ml.grad((v * v * weights_of(v)):sum(), a)
    local w = view(a * 3)
    same(got, ml.grad((w * w * weights_of(w)):sum(), a):tolist())
  end)

  test("an unrelated write to the base's storage leaves its view's gradient: " .. name, function()
    local a = ml.arange(1, 7):double():requires_grad_(true)
    local all = a * 1
    local v = view(all:narrow(1, 1, 6):view(2, 3))
    quiet(function() all[7] = 100 end)
    local got = ml.grad((v * weights_of(v)):sum(), a)
    local w = view((a * 1):narrow(1, 1, 6):view(2, 3))
    same(got, ml.grad((w * weights_of(w)):sum(), a):tolist())
  end)

  if not overlapping[name] then
    test("a change of a view reaches its base: " .. name, function()
      local a = ml.ones { 2, 3, dtype = ml.float64, requires_grad = true }
      local h = a * 1
      view(h):mul_(3)
      -- Each element is now its own derivative: 3 inside the view, 1 outside.
      local factors = h:detach():clone()
      same(ml.grad((h * weights_of(h)):sum(), a), (factors * weights_of(h)):tolist())
    end)
  end
end

test("windows of an unfolded view keep their positions", function()
  local a, h = result(1, 1, 1, 1)
  local u = h:unfold(1, 2, 1)
  h:mul_(2)
  same(ml.grad(u:sum(), a), { 2, 4, 4, 2 })
end)

test("memory that overlaps itself cannot be written to", function()
  local x = ml.arange(1, 6):double()
  for name, v in each { unfold = x:unfold(1, 5, 1), expand = x:expand(2, 6),
    as_strided = x:as_strided({ 2, 2 }, { 1, 1 }, 0) } do
    expect.error(function() v:exp_() end, "exp", name)
    expect.error(function() v:copy_(v:clone()) end, "copy", name)
    expect.error(function() v:fill_(1) end, "fill", name)
    same(x, { 1, 2, 3, 4, 5, 6 }, name)
  end
end)

-- Views of another dtype, views made under no_grad -----------------------------------------------

test("a complex view follows its real base", function()
  local a = ml.ones { 2, 2, dtype = ml.float64, requires_grad = true }
  local h = a * 1
  local c = ml.view_as_complex(h)
  h:mul_(3)
  same(ml.grad(ml.view_as_real(c):sum(), a), { { 3, 3 }, { 3, 3 } })
end)

test("a change of a complex view reaches its real base", function()
  local a = ml.ones { 2, 2, dtype = ml.float64, requires_grad = true }
  local h = a * 1
  ml.view_as_complex(h):mul_(3)
  same(ml.grad(h:sum(), a), { { 3, 3 }, { 3, 3 } })
end)

test("real and imag are views", function()
  local a = ml.ones { 2, 2, dtype = ml.float64, requires_grad = true }
  local z = ml.view_as_complex(a * 1)
  z.real:mul_(2)
  z.imag[1] = 7
  same(ml.view_as_real(z:detach()), { { 2, 7 }, { 2, 1 } })
  same(ml.grad(ml.view_as_real(z):sum(), a), { { 2, 0 }, { 2, 1 } })
end)

test("a view made under no_grad cannot be changed while recording", function()
  local a, h = result(1, 1, 1)
  local v = quiet(function() return h:narrow(1, 1, 2) end)
  expect.error(function() v:mul_(a:narrow(1, 1, 2)) end, "no_grad", "by a tensor that requires grad")
  expect.error(function() v:mul_(0.5) end, "no_grad", "by a number")
  expect.error(function() v:zero_() end, "no_grad", "by nothing")
  expect.error(function() v[1] = 3 end, "no_grad", "by index")
  same(h:detach(), { 1, 1, 1 })
  quiet(function() v:mul_(0.5) end)
  same(h:detach(), { 0.5, 0.5, 1 })
end)

test("a view made under no_grad leaves its base's gradient right, and its own is not made up", function()
  local a, h = result(1, 1, 1)
  local v = quiet(function() return h:narrow(1, 1, 2) end)
  h:mul_(3)
  same(ml.grad(h:sum(), a, { retain_graph = true }), { 3, 3, 3 })
  local ok, y = pcall(function() return v * 2 end)
  expect.truthy(not ok or not y.requires_grad, "refused, or a constant")
end)

test("a leaf that is itself a view is a leaf to its own views", function()
  local x = ml.ones { 6, dtype = ml.float64 }:view(3, 2):requires_grad_(true)
  expect.error(function() x:narrow(1, 1, 2):div_(2.0) end, "leaf")
  expect.error(function() x[1]:fill_(0) end, "leaf")
  expect.error(function() x:t():copy_(ml.zeros { 2, 3, dtype = ml.float64 }) end, "leaf")
  same(x:detach(), { { 1, 1 }, { 1, 1 }, { 1, 1 } })
end)

-- What is saved ----------------------------------------------------------------------------------

-- Each: a result of h that needs no element of h for its gradient.
local free_of_input = {
  ["h * 2"] = function(h) return h * 2.0 end,
  ["h / 8"] = function(h) return h / 8.0 end,
  ["h + h"] = function(h) return h + h end,
  ["h * mask"] = function(h) return h * ml.tensor({ 1, 0, 1, 0 }, { dtype = ml.float64 }) end,
  ["mask * h"] = function(h) return ml.tensor({ 1, 0, 1, 0 }, { dtype = ml.float64 }) * h end,
  ["linear with a frozen weight"] = function(h)
    return ml.linear(h, ml.ones { 3, 4, dtype = ml.float64 })
  end,
  ["matmul with a constant"] = function(h)
    return ml.matmul(h:view(1, 4), ml.ones { 4, 2, dtype = ml.float64 })
  end,
  ["masked_fill"] = function(h) return h:masked_fill(ml.tensor { true, false, true, false }, 0) end,
  sum = function(h) return h:sum() end,
  index = function(h) return h[ml.tensor { 1, 1, 4 }] end,
}

for name, f in each(free_of_input) do
  test("an input whose value no gradient needs may change: " .. name, function()
    local a, h = result(1, 2, 3, 4)
    local y = f(h)
    h:add_(1)
    local wanted = ml.grad(f(a):sum(), a):tolist()
    same(ml.grad(y:sum(), a), wanted)
  end)
end

test("a result whose value no gradient needs may change", function()
  for name, f in each { ["/"] = function(x) return x / 8.0 end, ["-"] = function(x) return -x end } do
    local a, h = result(1, 2, 3, 4)
    local y = f(h)
    y:mul_(2)
    local factor = name == "/" and 0.25 or -2
    same(ml.grad(y:sum(), a), { factor, factor, factor, factor }, name)
  end
end)

local BIG = 1 << 20  -- elements

-- The bytes that live once f has made its results and given back those to keep.
local function bytes_kept(f)
  ml.memory.collect()
  local before = ml.memory.live_bytes()
  local kept = table.pack(f())
  ml.memory.collect()
  local after = ml.memory.live_bytes()
  expect.truthy(kept.n > 0)
  return (after - before) / (4 * BIG)
end

test("a graph keeps the tensors its gradients use and no others", function()
  local a = ml.ones { BIG, requires_grad = true }
  local mask = ml.ones { BIG }
  local w = ml.ones { 2, BIG }
  local column = ml.ones { BIG, 1, requires_grad = true }
  for name, row in each {
    ["x * number"] = { 0, function() return ((a * 1) * 2.0):sum() end },
    ["x / number"] = { 0, function() return ((a * 1) / 8.0):sum() end },
    ["x + y"] = { 0, function() return ((a * 1) + (a * 1)):sum() end },
    ["x * constant"] = { 0, function() return ((a * 1) * mask):sum() end },
    ["x * x keeps x"] = { 1, function() local h = a * 1; return (h * h):sum() end },
    ["exp keeps its result"] = { 1, function() return a:exp():sum() end },
    ["linear with a frozen weight"] = { 0, function() return ml.linear((a * 1):view(1, BIG), w):sum() end },
    ["conv2d with a frozen weight"] = { 0, function()
      return ml.conv2d((a * 1):view(1, 1, 1024, 1024), ml.ones(1, 1, 3, 3)):sum()
    end },
    ["dropout keeps its mask"] = { 1, function() return ml.dropout(a * 1, 0.5):sum() end },
    ["matmul of a constant keeps the constant"] = { 1, function()
      return ml.matmul(ml.ones { 1, BIG } * 1, column):sum()
    end },
  } do
    local kept = bytes_kept(row[2])
    expect.truthy(kept <= row[1] + 0.05, ("%s: %.2f tensors are kept, at most %d expected"):format(name, kept, row[1]))
  end
end)

test("an in-place op copies nothing that its gradient does not use", function()
  local a = ml.ones { BIG, requires_grad = true }
  local h = a * 1
  for name, f in each {
    ["mul_ by a number"] = function() h:mul_(2) end,
    ["add_"] = function() h:add_(1) end,
    ["div_ by a number"] = function() h:div_(2) end,
  } do
    ml.memory.collect()
    ml.memory.reset_peak()
    local before = ml.memory.held_bytes()
    f()
    expect.truthy(ml.memory.peak_bytes() - before < 4 * BIG / 2, name)
  end
end)

test("in-place forms that store a result keep what their derivative reads", function()
  local a = leaf(-2, -0.5, 0.5, 2)
  local h = a * 1
  h:clamp_(-1, 1)
  h:cumsum_(1)
  local loss = (h * h):sum()
  loss:backward()
  same(a.grad, { 0, -5, -2, 0 })
  local m = ml.ones { 2, 2, requires_grad = true }
  local t = m * 1
  t[1]:cumprod_(1)
  t:tril_()
  t:sum():backward()
  same(m.grad:reshape(-1), { 1, 0, 1, 1 })
end)

test("ml.grad runs and frees only what lies between", function()
  local a = leaf(1, 2, 3, 4)
  local h = a * a
  local g = ml.grad((h * h):sum(), h)
  same(g, { 2, 8, 18, 32 })
  h:backward(g)
  same(a.grad, { 4, 32, 108, 256 })
end)

test("ml.grad leaves what others need alone", function()
  local w, x = leaf(2, 3), leaf(5, 7)
  local p = w * w
  local ran = 0
  p:register_hook(function() ran = ran + 1 end)
  same(ml.grad((p * x):sum(), x), { 4, 9 })
  expect.equal(ran, 0, "the hook of a tensor that was not asked for")
  expect.equal(w.grad, nil)
  p:sum():backward()
  same(w.grad, { 4, 6 })
  expect.equal(ran, 1)
end)

test("a leaf that stopped requiring grad gets none", function()
  for name, stop in each { detach_ = function(a) a:detach_() end, flag = function(a) a.requires_grad = false end } do
    local a = leaf(1, 2)
    local y = (a * 2):sum()
    stop(a)
    y:backward()
    expect.equal(a.grad, nil, name)
  end
end)

-- Second derivatives through views ---------------------------------------------------------------

test("second derivatives after an op in place on a view", function()
  for _, name in ipairs { "exp", "tanh", "sigmoid", "sin", "square" } do
    local a, h = result(0.5, -1, 2)
    local v = h:narrow(1, 1, 2)
    v[name .. "_"](v)
    local g = ml.grad((h * h):sum(), a, { create_graph = true })
    local b = leaf(0.5, -1, 2)
    local y = ml.cat { b:narrow(1, 1, 2)[name](b:narrow(1, 1, 2)), b:narrow(1, 3, 1) }
    local wanted = ml.grad((y * y):sum(), b, { create_graph = true })
    same(g:detach(), wanted:tolist(), name)
    same(ml.grad((g * g):sum(), a), ml.grad((wanted * wanted):sum(), b):tolist(), name .. ", second")
  end
end)

test("second derivatives after a product in place on a view", function()
  local a, h = result(1, 2, 3)
  h[{ { 2, 3 } }]:mul_(h[{ { 2, 3 } }]:clone())
  h:mul_(h:clone())
  local g = ml.grad(h:sum(), a, { create_graph = true })
  same(g, { 2, 32, 108 })
  same(ml.grad(g:sum(), a), { 2, 48, 108 })
end)

-- Gradients are the leaf's own -------------------------------------------------------------------

test("a gradient that a hook keeps is not changed by later backward passes", function()
  local a = leaf(1, 2)
  local kept = {}
  a:register_hook(function(g) kept[#kept + 1] = g end)
  for factor = 1, 3 do
    local y = a * factor + a  -- two uses: the engine adds into a buffer of its own
    y:sum():backward()
  end
  same(a.grad, { 9, 9 })
  for factor = 1, 3 do same(kept[factor], { factor + 1, factor + 1 }) end
end)

test("a leaf's gradient shares no memory with the seed, with another leaf's or with itself", function()
  for _, create in ipairs { true, false } do
    local a, b = leaf(1, 2), leaf(3, 4)
    local seed = ml.ones { 2, dtype = ml.float64 }
    local y = a + b
    y:backward(seed, { create_graph = create })
    seed:fill_(7)
    quiet(function() a.grad:mul_(5) end)
    same(a.grad, { 5, 5 })
    same(b.grad, { 1, 1 })
    local c = leaf(1, 2, 3)
    c:sum():backward(nil, { create_graph = create })
    quiet(function() c.grad[1] = 9 end)
    same(c.grad, { 9, 1, 1 }, "an expanded gradient is made whole")
  end
end)

-- Hooks and retain_grad --------------------------------------------------------------------------

test("a hook belongs to the value that was there when it was registered", function()
  local a, h = result(1, 2)
  local before, after
  h:register_hook(function(g) before = g:tolist() end)
  h:mul_(3)
  h:register_hook(function(g) after = g:tolist() end)
  h:sum():backward()
  expect.near(before, { 3, 3 })
  expect.near(after, { 1, 1 })
  same(a.grad, { 3, 3 })
end)

test("hooks run in their order and each gets what the one before gave", function()
  local a, h = result(1, 2)
  local seen = {}
  h:retain_grad()
  h:register_hook(function(g) seen[1] = g:tolist(); return g * 2 end)
  h:register_hook(function(g) seen[2] = g:tolist(); return g * 5 end)
  h:sum():backward()
  expect.near(seen, { { 1, 1 }, { 2, 2 } })
  same(h.grad, { 10, 10 }, "retain_grad keeps what all hooks made of it")
  same(a.grad, { 10, 10 })
end)

test("a handle removes its hook after an in-place change, and when its tensor is gone", function()
  local ran = 0
  local function count() ran = ran + 1 end
  local _, h = result(1, 2)
  local handle = h:register_hook(count)
  h:mul_(3)
  handle.remove()
  handle.remove()
  h:sum():backward()
  expect.equal(ran, 0, "after an in-place change")
  local a = leaf(1, 2)
  h = a * 1
  handle = h:register_hook(count)
  local y = h:sum()
  h:free()
  handle.remove()
  y:backward()
  expect.equal(ran, 0, "after free")
  same(a.grad, { 1, 1 })
end)

test("a hook that removes itself runs once", function()
  local _, h = result(1, 2)
  local ran, handle = 0, nil
  handle = h:register_hook(function() ran = ran + 1; handle.remove() end)
  local y = h:sum()
  y:backward(nil, { retain_graph = true })
  y:backward()
  expect.equal(ran, 1)
end)

test("hooks stay when nothing that was saved is gone", function()
  local a = leaf(1, 2)
  local h = a:neg()
  local ran = 0
  h:register_hook(function() ran = ran + 1 end)
  h:sum():backward()
  h:sum():backward()
  expect.equal(ran, 2)
  same(a.grad, { -2, -2 })
end)

test("a leaf's hook runs for ml.grad too", function()
  local a = leaf(1, 2)
  a:register_hook(function(g) return g * 10 end)
  same(ml.grad((a * a):sum(), a), { 20, 40 })
end)

test("retain_grad adds up over backward passes", function()
  local _, h = result(1, 2)
  h:retain_grad()
  h:sum():backward(nil, { retain_graph = true })
  local y = h * 2
  y:sum():backward(nil, { retain_graph = true })
  same(h.grad, { 3, 3 })
  h.grad = nil
  expect.equal(h.grad, nil)
  h:sum():backward()
  same(h.grad, { 1, 1 })
end)

test("retain_grad keeps the gradient of the value after an in-place change", function()
  local a, h = result(1, 2)
  h:retain_grad()
  h:mul_(3)
  local y = h * h
  y:sum():backward()
  same(h.grad, { 6, 12 })
  same(a.grad, { 18, 36 })
  local _, base = result(1, 2, 3)
  local v = base:narrow(1, 1, 2)
  v:retain_grad()
  base:mul_(3)
  v:sum():backward()
  same(v.grad, { 1, 1 }, "of a view whose base changed")
end)

test("grad of a result can be set and is added to", function()
  local _, h = result(1, 2)
  local five = ml.full({ 2 }, 5, { dtype = ml.float64 })
  h.grad = five
  same(h.grad, { 5, 5 })
  h:sum():backward(nil, { retain_graph = true })
  same(h.grad, { 5, 5 }, "without retain_grad it is left alone")
  h:retain_grad()
  h:sum():backward()
  same(h.grad, { 6, 6 })
  same(five, { 5, 5 }, "the tensor that was set")
end)

harness.run()
