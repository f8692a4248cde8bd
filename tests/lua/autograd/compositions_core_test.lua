-- tests/lua/autograd/compositions_core_test.lua: second derivatives in all orders of forward and backward
-- passes, of what the tape itself does: views, changes in place, functions with a derivative of
-- their own, checkpoints, hooks. Against reverse over reverse, and that against differences.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect
local func, nn, F = ml.func, ml.nn, ml.nn.functional
local forward_ad = ml.autograd.forward_ad

ml.set_default_dtype(ml.float64)
ml.manual_seed(11)

local function near(got, want, what, tolerance)
  expect.equal(tostring(got.shape), tostring(want.shape), what)
  local apart = ((got - want):abs():max() / (1 + want:abs():max())):item()
  if not (apart < (tolerance or 1e-9)) then
    error(("%s: got %s, want %s"):format(what, tostring(got), tostring(want)), 2)
  end
end

-- The Hessian of f at x times v.
local function product(f, x, v)
  local p = x:clone():requires_grad_()
  local g = ml.grad(f(p), p, { create_graph = true })
  return ml.grad((g * v):sum(), p):detach(), (g * v):sum():detach()
end

local function by_differences(f, x, v)
  local function gradient(at)
    local p = at:clone():requires_grad_()
    return ml.grad(f(p), p)
  end
  local step = 1e-5
  return (gradient(x + v * step) - gradient(x - v * step)) / (2 * step)
end

local function tangent(...) return (select(2, func.jvp(...))) end
local function along(f, v) return function(x) return tangent(f, { x }, { v }) end end

-- The gradient by `way(p)` of a dual tensor p, and its tangent.
local function of_dual(x, v, way)
  return forward_ad.dual_level(function()
    local p = forward_ad.make_dual(x, v):requires_grad_()
    return (select(2, forward_ad.unpack_dual(way(p)))):detach()
  end)
end

-- Which of them f can do besides: `vmaps` says whether inside vmap, and outside of one.
local function compare(f, x, vmaps)
  local u, v = ml.randn_like(x), ml.randn_like(x)
  local want, first = product(f, x, v)
  near(want, by_differences(f, x, v), "reverse over reverse, by differences", 1e-5)
  near(tangent(f, { x }, { v }), first, "forward")
  near(tangent(func.grad(f), { x }, { v }), want, "forward over reverse")
  near(of_dual(x, v, function(p) return ml.grad(f(p), p) end), want, "grad of a dual tensor")
  near(of_dual(x, v, function(p) return ml.grad(f(p), p, { create_graph = true }) end), want,
    "recorded grad of a dual tensor")
  near(of_dual(x, v, function(p) f(p):backward() return p.grad end), want, "backward")
  near(tangent(function(y)
    local p = y:requires_grad_()
    return ml.grad(f(p), p)
  end, { x }, { v }), want, "grad in jvp")
  near(func.grad(along(f, v))(x), want, "reverse over forward")
  local p = x:clone():requires_grad_()
  near(ml.grad(along(f, v)(p), p), want, "the tape over forward")
  near(tangent(along(f, u), { x }, { v }), (want * u):sum(), "forward over forward")
  if vmaps == "none" then return end
  local both, directions = ml.stack({ want, (product(f, x, u)) }, 1), ml.stack({ v, u }, 1)
  near(func.vmap(function(w) return tangent(func.grad(f), { x }, { w }) end)(directions), both,
    "forward over reverse of many directions")
  near(func.vmap(function(w) return func.grad(along(f, w))(x) end)(directions), both,
    "reverse over forward of many directions")
  if vmaps == "directions" then return end
  local many = ml.stack({ x, x }, 1)
  near(func.vmap(function(y, w) return tangent(func.grad(f), { y }, { w }) end)(many, directions),
    both, "forward over reverse of each sample")
  if vmaps == "inside" then return end
  near(tangent(func.vmap(func.grad(f)), { many }, { directions }), both,
    "forward over the gradients of a batch")
end

local x4, x33, x34 = ml.randn(4), ml.randn(3, 3), ml.randn(3, 4)
local c4 = ml.randn(4)

local function each(name, cases)
  for what, case in pairs(cases) do
    test(name .. ": " .. what, function() compare(table.unpack(case)) end)
  end
end

test("two elements of a vector", function()
  local x, v = ml.tensor { 2.0, 3.0 }, ml.tensor { 1.0, 10.0 }
  local function f(y) return y[1] * y[2] end
  near(tangent(func.grad(f), { x }, { v }), ml.tensor { 10.0, 1.0 }, "forward over reverse")
end)

each("views", {
  select = { function(x) return x[1] * x[2] * x[2] end, x4 },
  slices = { function(x) return (x[{ { 1, 3 } }] * x[{ { 2, 4 } }] ^ 2):sum() end, x4 },
  steps = { function(x) return (x[{ { 1, 4, 2 } }] * x[{ { 2, 4, 2 } }] ^ 2):sum() end, x4 },
  narrow = { function(x) return (x:narrow(2, 1, 2) * x:narrow(2, 2, 2) ^ 2):sum() end, x34 },
  chunk = { function(x)
    local a, b = table.unpack(x:chunk(2, 2))
    return (a * b ^ 2):sum()
  end, x34 },
  unbind = { function(x)
    local rows = x:unbind(1)
    return (rows[1] * rows[2] ^ 2 * rows[3]):sum()
  end, x34 },
  diagonal = { function(x) return (x:diagonal() * x:diagonal(1):sum() * x[1]):sum() end, x33 },
  transpose = { function(x) return (x:t():matmul(x) ^ 2):sum() end, x34 },
  ["view of a transpose"] = { function(x)
    return (x:view(3, 2, 2):transpose(1, 2):reshape(2, 6) ^ 3):sum() * x[1][1]
  end, x34 },
  expand = { function(x) return ((x:expand(3, 4) * x34) ^ 3):sum() end, x4 },
  unfold = { function(x) return (x:unfold(1, 2, 1) ^ 3):sum() end, x4 },
  as_strided = { function(x)
    return (x:as_strided({ 3, 3 }, { 2, 1 }) ^ 3 * x[{ {}, { 1, 3 } }]):sum()
  end, x34 },
  roll = { function(x) return (x:roll(1) * x ^ 2):sum() end, x4 },
  diff = { function(x) return (x:diff() ^ 3):sum() end, x4 },
  ["pieces joined"] = { function(x)
    return (ml.cat({ x[{ { 3, 4 } }], x[{ { 1, 2 } }] }, 1) * x ^ 2):sum()
  end, x4 },
  ["view_as_complex"] = { function(x)
    return (ml.view_as_complex(x:view(3, 2, 2)) ^ 3):abs():sum()
  end, x34 },
})

each("indices", {
  positions = { function(x) return (x[ml.tensor { 1, 1, 3 }] ^ 3):sum() * x[2] end, x4 },
  index_put = { function(x)
    return (x:index_put({ ml.tensor { 1, 2 } }, x[{ { 3, 4 } }] ^ 2) ^ 3):sum()
  end, x4 },
  embedding = { function(w)
    return (F.embedding(ml.tensor { 1, 2, 2 }, w) ^ 3):sum() * w[1][1]
  end, x34 },
  ["embedding, sparse"] = { function(w)
    return (F.embedding(ml.tensor { 1, 2, 2 }, w, { sparse = true }) ^ 3):sum()
  end, x34 },
})

each("layers", {
  layer_norm = { function(x) return (F.layer_norm(x, { 4 }, x[1], x[2]) ^ 3):sum() end, x34 },
  batch_norm = { function(x)
    return (F.batch_norm(x, nil, nil, { weight = x[1], bias = x[2], training = true }) ^ 3):sum()
  end, x34 },
  attention = { function(x)
    local q = x:view(1, 3, 2, 2):transpose(2, 3)
    local y = F.scaled_dot_product_attention(q, q, q, { is_causal = true })
    return (y:transpose(2, 3):reshape(1, 3, 4) ^ 2):sum()
  end, ml.randn(1, 3, 4) },
  solve = { function(x) return (ml.linalg.solve(x, x[1] ^ 2) ^ 2):sum() end, x33 },
  kron = { function(x) return (ml.kron(x, x[1] ^ 2) ^ 2):sum() end, x33 },
})

do
  local net = nn.MultiheadAttention(4, 2, { batch_first = true })
  local x, weights = ml.randn(2, 3, 4), {}
  for name, p in net:named_parameters() do weights[name] = p:detach():clone() end
  each("attention's weights", { ["in_proj_weight"] = { function(w)
    local all = { in_proj_weight = w }
    for name, p in pairs(weights) do all[name] = all[name] or p end
    return ((func.functional_call(net, all, { x, x, x })) ^ 2):sum()
  end, weights.in_proj_weight } })
end

each("changes in place", {
  ["of all"] = { function(x)
    local y = x * 1
    y:mul_(x):add_(x, { alpha = 3 }):addcmul_(x, x)
    return (y ^ 2):sum()
  end, x4 },
  ["of an element"] = { function(x)
    local y = x ^ 2
    y[1] = x[2] * x[3]
    return (y ^ 2):sum()
  end, x4 },
  ["of a view"] = { function(x)
    local y = x * 2
    local part = y[{ { 2, 3 } }]
    part:mul_(x[{ { 1, 2 } }])
    y:exp_()
    return (part ^ 2):sum() + (y * x):sum()
  end, x4 },
  ["of a diagonal"] = { function(x)
    local y = x ^ 2
    y:diagonal():copy_(x[1])
    return (y ^ 2 * x):sum()
  end, x33 },
  ["to a constant"] = { function(x)
    local y = x ^ 2
    y[{ { 1, 2 } }]:fill_(3)
    return (y ^ 2 * x):sum()
  end, x4 },
  ["at a mask"] = { function(x)
    local y = x ^ 2
    y[ml.tensor { true, false, true, false }] = x[2] ^ 2
    return (y ^ 2 * x):sum()
  end, x4 },
  ["of a buffer"] = { function(x)
    local y = ml.empty(2, 4)
    y[1]:copy_(x)
    y[2]:copy_(x ^ 2)
    return (y[1] * y[2] ^ 2):sum()
  end, x4, "directions" },
  ["that read it"] = { function(x)
    local y = ml.zeros(4)
    y[{ { 1, 2 } }] = x[{ { 3, 4 } }] ^ 2
    y[{ { 2, 4 } }] = x[{ { 1, 3 } }] * y[{ { 1, 3 } }]:clone()
    return (y ^ 3):sum()
  end, x4, "none" },
})

local Cube = ml.autograd.Function {
  name = "Cube",
  forward = function(x) return x ^ 3 end,
  setup_context = function(ctx, inputs, outputs) ctx:save_for_backward(inputs[1], outputs[1]) end,
  backward = function(ctx, g)
    local x, y = table.unpack(ctx.saved_tensors)
    return 2 * g * x ^ 2 + g * y / x
  end,
}
local Products = ml.autograd.Function {
  forward = function(ctx, a, b)
    ctx:save_for_backward(a, b)
    return a * b, a * b ^ 2
  end,
  backward = function(ctx, g, h)
    local a, b = table.unpack(ctx.saved_tensors)
    return g * b + h * b ^ 2, g * a + 2 * h * a * b
  end,
}
local Exp = ml.autograd.Function {
  forward = function(ctx, x)
    ctx:mark_dirty(x)
    x:exp_()
    ctx:save_for_backward(x)
    return x
  end,
  backward = function(ctx, g) return g * ctx.saved_tensors[1] end,
}

each("functions without jvp", {
  ["one result"] = { function(x) return (Cube(x) * x[1]):sum() end, x4 },
  ["two results"] = { function(x)
    local a, b = Products(x ^ 2, x[1])
    return (a * b):sum()
  end, x4, "inside" },
  ["some arguments"] = { function(x)
    local a, b = Products(c4, x ^ 2)
    return (a * b):sum()
  end, x4, "inside" },
  ["in place"] = { function(x)
    local y = x * 0.5
    return (Exp(y) * x[1]):sum() + y:sum() ^ 2
  end, x4, "inside" },
})

each("functions that change a part in place", {
  ["with a result that is saved"] = { function(x)
    local y = x * 0.5
    Exp(y[{ { 1, 2 } }])
    return (y ^ 2 * x[1]):sum()
  end, x4, "inside" },
})

test("what a change of a part has saved gets its tangents", function()
  local x, v, p = x4, c4, ml.randn(4):requires_grad_()
  for what, change in pairs {
    op = function(s) s:exp_() end,
    ["function"] = function(s) Exp(s) end,
  } do
    local function f(y)
      local z = p * 1
      local part = z[{ { 1, 2 } }]
      part:mul_(y[{ { 1, 2 } }])
      change(part)
      return (z ^ 2):sum()
    end
    local got = tangent(function(y) return ml.grad(f(y), p) end, { x }, { v })
    local step = 1e-6
    local want = (ml.grad(f(x + v * step), p) - ml.grad(f(x - v * step), p)) / (2 * step)
    near(got:detach(), want, what, 1e-6)
  end
end)

local checkpoint = ml.utils.checkpoint
each("checkpoints", {
  whole = { function(x)
    return checkpoint(function(y) return (y:exp():sin() * y[1] * y[2]):sum() end, x)
  end, x4 },
  part = { function(x)
    return (checkpoint(function(a, b) return a:exp():sin() * b end, x ^ 2, x) ^ 2):sum()
  end, x4 },
  nested = { function(x)
    return checkpoint(function(y)
      return checkpoint(function(z) return Cube(z:sin()) end, y):exp():sum()
    end, x)
  end, x4 },
  ["of a derivative"] = { function(x)
    return checkpoint(function(y) return along(function(z) return z:sin():exp():sum() end, c4)(y) end,
      x)
  end, x4 },
})

-- A recorded gradient that a tensor keeps leads to that tensor: a cycle, which no collector sees.
local retained = {}

each("hooks and modes", {
  hook = { function(x)
    local y = x ^ 2
    if y.requires_grad then y:register_hook(function(g) return g * 1 end) end
    return (y ^ 2 * x[1]):sum()
  end, x4 },
  retain_grad = { function(x)
    local y = x ^ 2
    if y.requires_grad then
      y:retain_grad()
      retained[#retained + 1] = y
    end
    return (y ^ 2 * x[1]):sum()
  end, x4 },
  no_grad = { function(x)
    local c = ml.no_grad(function() return c4 * 3 end)
    return (x ^ 3 * c):sum()
  end, x4 },
  ["saved tensors in other form"] = { function(x)
    return ml.autograd.graph.saved_tensors_hooks(function(s) return { s:clone() } end,
      function(s) return s[1] end, function() return (x:exp() * x[1]):sum() end)
  end, x4 },
})

test("hooks and modes: what was retained is given up", function()
  expect.truthy(#retained > 0)
  for _, y in ipairs(retained) do y.grad = nil end
end)

test("a tangent on its way is where its tensor is in memory", function()
  local x, v = ml.randn(1, 3, 4), ml.randn(1, 3, 4)
  local function f(y)
    local q = y:view(1, 3, 2, 2):transpose(2, 3)
    return F.scaled_dot_product_attention(q, q, q):transpose(2, 3):reshape(1, 3, 4):sum()
  end
  local p = x:clone():requires_grad_()
  near(tangent(f, { x }, { v }), (ml.grad(f(p), p) * v):sum(), "jvp")
  -- The tangent of a transposed tensor, and one of a slice, seen through their storage.
  local a, b = ml.randn(4, 3):t(), ml.randn(3, 6)[{ {}, { 2, 5 } }]
  for _, y in ipairs { a, b } do
    local t = ml.randn(3, 4)
    local offset = y:storage_offset()
    local got = tangent(function(z) return z:as_strided({ 2, 3 }, y:stride(), offset) end, { y }, { t })
    near(got, t[{ { 1, 2 }, { 1, 3 } }], "as_strided")
  end
end)

test("a plain tensor among the samples of a vmap has no gradients outside", function()
  local directions = ml.stack({ x4, c4 }, 1)
  local function f(x)
    local y = ml.zeros(4)
    y[{ { 1, 2 } }] = x[{ { 3, 4 } }]
    return (x * y):sum()
  end
  local moved = func.vmap(function(v) return tangent(f, { x4 }, { v }) end)(directions)
  expect.falsy(moved.requires_grad)
  near(moved[2], x4[{ { 1, 2 } }]:dot(c4[{ { 3, 4 } }]) + c4[{ { 1, 2 } }]:dot(x4[{ { 3, 4 } }]),
    "tangent")
end)

-- Ops whose in-place forms are the plain ones and an assignment, or kernels of their own.
local b33, c33, rows = ml.randn(3, 3), ml.randn(3, 3), ml.tensor { 1, 2 }
local IN_PLACE = {
  clamp = { -0.5, 0.5 }, clip = { -0.5, 0.5 }, cumsum = { 1 }, cumprod = { 1 }, tril = {}, triu = {},
  addmm = { b33, c33 }, addr = { b33[1], c33[1] }, renorm = { 2, 1, 1.0 }, put = { rows, c33[1][{ rows }] },
  index_fill = { 1, rows, 0.5 }, index_copy = { 1, rows, b33[{ { 1, 2 } }] },
  index_add = { 1, rows, b33[{ { 1, 2 } }] }, masked_fill = { b33:gt(0), 2.0 },
  masked_scatter = { b33:gt(0), c33 }, scatter = { 1, ml.tensor { { 1, 2, 3 } }, c33 },
  scatter_add = { 1, ml.tensor { { 1, 2, 3 } }, c33 }, ldexp = { ml.ones(3, 3) }, mvlgamma = { 1 },
  polygamma = { 1 }, rrelu = { 0.1, 0.3, true }, alpha_dropout = { 0.5 }, lerp = { b33, 0.3 },
  exp = {}, addcmul = { b33, c33 }, fill = { 3.0 }, bernoulli = { 0.5 },
}

test("changes in place have the tangents of the plain ops", function()
  for name, arguments in pairs(IN_PLACE) do
    local function changed(x)
      local y = x * 1
      ml.manual_seed(5)
      y[name .. "_"](y, table.unpack(arguments))
      return y
    end
    local function plain(x)
      ml.manual_seed(5)
      return x[name](x, table.unpack(arguments))
    end
    local x, v = ml.rand(3, 3) * 2 + 1, c33
    for _, from in ipairs { x, x:clone():requires_grad_() } do
      local value, moved = func.jvp(changed, { from }, { v })
      local want, right = func.jvp(plain, { from }, { v })
      near(value:detach(), want:detach(), name .. "_")
      near(moved:detach(), right:detach(), "the tangent of " .. name .. "_")
    end
  end
  expect.error(function()
    tangent(function(x) return ml.clamp(x, -1, 1, { out = ml.empty(4) }) end, { x4 }, { c4 })
  end, "clamp: out= cannot be used")
end)

test("tangents where nothing is recorded", function()
  local function f(x)
    local y = (x * 2):softmax(1)
    return y:log_softmax(1) * y
  end
  for _, mode in ipairs { "no_grad", "inference_mode" } do
    near(tangent(function(x) return ml[mode](f, x) end, { x4 }, { c4 }), tangent(f, { x4 }, { c4 }),
      mode)
  end
  expect.error(function() tangent(function(x) return (x * 1):resize_(2) end, { x4 }, { c4 }) end,
    "resize_: a tensor with a tangent")
  expect.error(function()
    tangent(function(x) return ml.mul(x, x, { out = ml.empty(4) }) end, { x4 }, { c4 })
  end, "mul: out= cannot be used")
end)

test("a cast that is kept has the tangents of all levels", function()
  local w, v = ml.tensor({ { 1, 2 }, { 3, 4 } }, { dtype = ml.float32 }),
    ml.tensor({ { 1, 0 }, { 0, 1 } }, { dtype = ml.float32 })
  local ones = ml.ones(2, 2, { dtype = ml.float32 })
  local Squares = ml.autograd.Function {
    forward = function(ctx, x)
      ctx:save_for_backward(x)
      return x:matmul(x):sum()
    end,
    backward = function(ctx, g)
      local x = ctx.saved_tensors[1]:t()
      return g * (ones:matmul(x) + x:matmul(ones))
    end,
  }
  local function f(x) return (Squares(x) + x:matmul(x):sum()):to(ml.float32) ^ 2 end
  local function cast(x) return ml.autocast("cpu", function() return func.grad(f)(x) end) end
  near(tangent(cast, { w }, { v }), tangent(func.grad(f), { w }, { v }), "autocast")
end)

test("the derivative of ctc_loss along a direction", function()
  local x, v = ml.randn(5, 2, 3), ml.randn(5, 2, 3)
  local function f(y)
    return F.ctc_loss(F.log_softmax(y, 3), ml.tensor { { 2, 3 }, { 2, 2 } }, ml.tensor { 5, 4 },
      ml.tensor { 2, 1 })
  end
  local p = x:clone():requires_grad_()
  near(tangent(f, { x }, { v }), (ml.grad(f(p), p) * v):sum(), "jvp")
  near(func.jacfwd(f)(x), func.jacrev(f)(x), "jacfwd")
  expect.error(function() tangent(func.grad(f), { x }, { v }) end, "cannot be differentiated again")
end)

local function refused(definition, pattern)
  local f = ml.autograd.Function(definition)
  expect.error(function() func.jvp(f, { x4 }, { c4 }) end, pattern)
end
local function cube(ctx, x)
  ctx:save_for_backward(x)
  return x ^ 3
end

test("functions whose tangents nothing tells are refused", function()
  refused({ forward = cube, name = "NoWay" }, "NoWay: .* no jvp and no backward")
  refused({ forward = cube, name = "Detached", backward = function(ctx, g)
    return g:detach() * 3 * ctx.saved_tensors[1] ^ 2
  end }, "Detached: .* not computed by recorded ops")
  refused({ forward = cube, name = "Partly", backward = function(ctx, g)
    return (g:detach() * 2 + g) * ctx.saved_tensors[1] ^ 2
  end }, "Partly: .* not linear")
  refused({ forward = cube, name = "Once",
    backward = ml.autograd.once_differentiable(function(ctx, g)
      return g * 3 * ctx.saved_tensors[1] ^ 2
    end) }, "Once: .* no jvp")
end)

test("tangents of functions that say nothing of them", function()
  local function one(definition) return tangent(ml.autograd.Function(definition), { x4 }, { c4 }) end
  near(one { forward = cube, backward = function() return nil end }, ml.zeros(4), "no gradient")
  near(one { forward = function(_, x) return x end, backward = function(_, g) return -g end }, -c4,
    "a reversed gradient")
  near(one { forward = function(_, x) return x end, backward = function(_, g) return g end,
    jvp = function(_, t) return t * 5 end }, c4 * 5, "a jvp of what is returned as it came")
  near(one { forward = function(_, x) return x * 1 end,
    backward = function(_, g) return g:clamp(-1, 1) end }, c4, "a limited gradient")
  near(one { forward = function(_, x) return ml.ones(2, 4) * x end,
    backward = function(_, g) return g end }, c4:expand(2, 4), "a gradient that is summed")
  local z, dz = ml.complex(x4, c4), ml.complex(c4, x4)
  local Square = ml.autograd.Function {
    forward = function(ctx, y)
      ctx:save_for_backward(y)
      return y * y
    end,
    backward = function(ctx, g) return g * ctx.saved_tensors[1]:conj() * 2 end,
  }
  near(ml.view_as_real(tangent(Square, { z }, { dz })), ml.view_as_real(z * dz * 2), "complex")
  local y, moved = func.jvp(Cube, { x4 }, { c4 })
  expect.falsy(y.requires_grad or moved.requires_grad)
end)

harness.run()
