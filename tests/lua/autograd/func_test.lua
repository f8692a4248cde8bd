-- tests/lua/autograd/func_test.lua: transforms of functions, alone and inside one another; the numbers are
-- those of torch.func.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect
local func, nn = ml.func, ml.nn
local forward_ad = ml.autograd.forward_ad

ml.set_default_dtype(ml.float64)

local function near(got, want)
  want = ml.is_tensor(want) and want or ml.tensor(want)
  expect.equal(tostring(got.shape), tostring(want.shape))
  if not ml.allclose(got:detach(), want:to(got.dtype), { rtol = 1e-9, atol = 1e-12 }) then
    error(("got %s, want %s"):format(tostring(got), tostring(want)), 2)
  end
end

local x = ml.tensor { 0.5, -1.0, 2.0 }
local w = ml.tensor { { 1.0, 2.0, -1.0 }, { 0.5, -0.3, 0.2 } }
local t = ml.tensor { 1.0, 0.5, -2.0 }
local batch = ml.stack({ x, x * 2, x - 1 }, 1)
local function g(v) return ml.tanh(w:mv(v)) end
local function f(v) return (g(v) ^ 2):sum() end

local GRADIENT = { 0.3276468488516151, -0.21548621272082125, 0.14123464137672032 }
local HESSIAN = { { -0.15977053360203622, 0.05820391331630011, -0.04363060975508745 },
  { 0.05820391331630011, -0.1102391616796233, 0.06383677269797408 },
  { -0.04363060975508746, 0.0638367726979741, -0.03772984758776201 } }
local JACOBIAN = { { 0.0036408847204873578, 0.0072817694409747155, -0.0036408847204873578 },
  { 0.22636051852386194, -0.13581631111431716, 0.09054420740954477 } }
local ALONG = { 0.014563538881949431, -0.022636051852386214 }
local GRADIENT_ALONG = { -0.04340735743371122, -0.12458921291945974, 0.06374747176942361 }

test("gradients, and gradients of them", function()
  near(func.grad(f)(x), GRADIENT)
  near(func.grad(function(v) return func.grad(f)(v)[2] end)(x), HESSIAN[2])
  expect.equal(x.requires_grad, false)
end)

test("Jacobians both ways, and Hessians", function()
  near(func.jacrev(g)(x), JACOBIAN)
  near(func.jacfwd(g)(x), JACOBIAN)
  near(func.jacrev(g, { chunk_size = 1 })(x), JACOBIAN)
  near(func.jacfwd(g, { chunk_size = 2 })(x), JACOBIAN)
  near(func.hessian(f)(x), HESSIAN)
  near(func.jacrev(func.jacrev(f))(x), HESSIAN)
  near(func.jacrev(func.jacfwd(f))(x), HESSIAN)
  near(func.jacfwd(func.jacfwd(f))(x), HESSIAN)
end)

test("trees with holes", function()
  local tree = { [1] = x, [2] = t, [4] = x * 2 }
  local sum = func.grad(function(p) return (p[1] * p[2] * p[4]):sum() end)
  near(sum(tree)[4], x * t)
  local many = { batch, batch + 1, nil, batch * 2 }
  near(func.vmap(sum)(many)[4], batch * (batch + 1))
end)

test("third derivatives", function()
  near(func.jacfwd(func.jacrev(func.jacfwd(f)))(x)[{ 1, 2 }],
    { 0.014459714387338299, -0.1582093163283937, 0.08630191759123801 })
end)

test("products with the Jacobian, also of and in gradients", function()
  local value, along = func.jvp(g, { x }, { t })
  near(value, g(x))
  near(along, ALONG)
  near(select(2, func.jvp(func.grad(f), { x }, { t })), GRADIENT_ALONG)
  near(func.grad(function(v) return (select(2, func.jvp(f, { v }, { t }))) end)(x), GRADIENT_ALONG)
  local y, linear = func.linearize(g, x)
  near(y, g(x))
  near(linear(t), ALONG)
  near(linear(t * 2), ml.tensor(ALONG) * 2)
  local out, back = func.vjp(g, x)
  near(out, g(x))
  near(back(ml.tensor { 1.0, 0.0 }), JACOBIAN[1])
  near(back(ml.tensor { 0.0, 1.0 }), JACOBIAN[2])
end)

test("per-sample gradients and Jacobians", function()
  near(func.vmap(func.grad(f))(batch), { GRADIENT,
    { 0.08185676359633547, -0.049131353897630764, 0.032752018529211606 },
    { 0.374996042046896, -0.2253449973970728, 0.150185463371262 } })
  near(func.vmap(func.jacfwd(g))(batch)[2], {
    { 3.3261093448688367e-06, 6.652218689737673e-06, -3.3261093448688367e-06 },
    { 0.042804961836700225, -0.025682977102020135, 0.01712198473468009 } })
  near(func.vmap(func.jacrev(g))(batch), func.vmap(func.jacfwd(g))(batch))
  near(func.vmap(func.hessian(f))(batch)[1], HESSIAN)
end)

test("results and arguments in tables", function()
  local function h(a, b) return { s = (a * b):sum(), p = a:prod() * b } end
  local found = func.jacrev(h, { argnums = { 1, 2 } })(x, ml.tensor { 2.0, 3.0, 4.0 })
  near(found.s[1], { 2.0, 3.0, 4.0 })
  near(found.s[2], x)
  near(found.p[1], { { -4.0, 2.0, -1.0 }, { -6.0, 3.0, -1.5 }, { -8.0, 4.0, -2.0 } })
  near(found.p[2], ml.eye(3) * -1)
  local forward = func.jacfwd(h, { argnums = { 1, 2 } })(x, ml.tensor { 2.0, 3.0, 4.0 })
  near(forward.p[1], found.p[1])
  local gradient, value = func.grad_and_value(function(p) return (p.a * p.b):sum() end)({ a = x, b = t })
  near(gradient.a, t)
  near(value, (x * t):sum())
  local _, aux = func.grad(function(v) return f(v), v * 2 end, { has_aux = true })(x)
  near(aux, x * 2)
end)

test("complex gradients", function()
  local z = ml.complex(ml.tensor { 1.0, 0.5 }, ml.tensor { 2.0, -1.0 })
  local found = func.grad(function(v) return ml.real(v * v:conj()):sum() end)(z)
  near(ml.real(found), { 2.0, 1.0 })
  near(ml.imag(found), { 4.0, -2.0 })
end)

test("changes in place of a part", function()
  local function change(v)
    local y = v:clone()
    y[2] = v[1] * v[3]
    y[{ { 1, 2 } }]:mul_(v[3])
    return (y ^ 2):sum()
  end
  local want = { 20.0, 0.0, 13.0 }
  near(func.grad(change)(x), want)
  local each = { want, { 544.0, 0.0, 272.0 }, { -2.0, 0.0, 3.5 } }
  near(func.vmap(func.grad(change))(batch), each)
  near(select(2, func.jvp(change, { x }, { t })), ml.tensor(-6.0))
  near(func.vmap(func.jacfwd(change))(batch), each)
end)

test("dimensions of samples and of results", function()
  near(func.vmap(function(a, b) return a:matmul(b) end, { in_dims = { 2, false }, out_dims = 2 })(batch,
    ml.tensor { { 1.0, 0.0 }, { 0.0, 1.0 }, { 1.0, 1.0 } }), { { 0.0, -3.0, 3.0 }, { 0.5, -4.0, 5.0 } })
  near(func.vmap(func.vmap(ml.mul, { in_dims = { false, 1 } }), { in_dims = { 1, false } })(x, t),
    ml.outer(x, t))
  near(func.vmap(f, { chunk_size = 2 })(batch), func.vmap(f)(batch))
  local a, b = func.vmap(function(v) return v:sum(), v * 2 end)(batch)
  near(a, batch:sum(2))
  near(b, batch * 2)
end)

test("a dimension for each result, also of a table", function()
  local rows = ml.randn(3, 4)
  local function double(v) return { v, v * 2 } end
  local function named(v) return { once = v, nested = { twice = v * 2 } } end
  for _, chunk in ipairs { 2, 8 } do
    local pair = func.vmap(double, { out_dims = { 1, 2 }, chunk_size = chunk })(rows)
    near(pair[1], rows)
    near(pair[2], (rows * 2):t())
    local out = func.vmap(named, { out_dims = { once = 2, nested = 1 }, chunk_size = chunk })(rows)
    near(out.once, rows:t())
    near(out.nested.twice, rows * 2)
    near(func.vmap(double, { out_dims = 2, chunk_size = chunk })(rows)[1], rows:t())
    near(func.vmap(ml.sin, { out_dims = { 2 }, chunk_size = chunk })(rows), ml.sin(rows):t())
    local same, each = func.vmap(function(v) return t, v end,
      { out_dims = { false, 2 }, chunk_size = chunk })(rows)
    near(same, t)
    near(each, rows:t())
  end
  for message, call in pairs {
    ["vmap: out_dims has no dimension for result 2"] = { double, { 1 } },
    ["vmap: out_dims names result 3, which the function did not give"] = { double, { 1, 1, 1 } },
    ["vmap: out_dims names 2 results, the function gave 1"] = { ml.sin, { 1, 1 } },
    ["vmap: out_dims has a table where the result has none"] = { double, { 1, { 1 } } },
  } do
    expect.error(function() func.vmap(call[1], { out_dims = call[2] })(rows) end, message)
  end
end)

-- The products of unit vectors with a matrix are its rows or columns, which are not multiplied.
test("Jacobians of what begins or ends with a product", function()
  local weight, bias = ml.randn(2, 3), ml.randn(2)
  local function affine(v) return nn.functional.linear(v, weight, bias) end
  for _, jacobian in ipairs { func.jacfwd, func.jacrev } do
    for _, call in ipairs { affine, function(v) return weight:mv(v) end,
      function(v) return v:matmul(weight:t()) end } do
      local found = jacobian(call)(x)
      near(found, weight)
      local before = weight:clone()
      found:zero_()
      near(weight, before)
      near(jacobian(function(v) return ml.tanh(call(v)) end)(x),
        (1 - ml.tanh(call(x)) ^ 2):unsqueeze(2) * weight)
      near(jacobian(call, { chunk_size = 2 })(x), weight)
    end
    -- Vectors that were changed are no unit vectors.
    near(jacobian(function(v) return affine(v:clone():mul_(3)) end)(x), weight * 3)
    near(jacobian(function(v) return affine(v):clone():mul_(3) end)(x), weight * 3)
    local scaled = weight:clone():requires_grad_()
    jacobian(function(v) return nn.functional.linear(v, scaled) end)(x):sum():backward()
    near(scaled.grad, ml.ones(2, 3))
  end
  near(func.hessian(function(v) return (affine(v) ^ 2):sum() end)(x), 2 * weight:t():mm(weight))
end)

test("a loss of each sample by the parameters of a network", function()
  ml.manual_seed(1)
  local net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)):to(ml.float64)
  local inputs, classes = ml.randn(5, 4), ml.randint(3, { 5 })
  local parameters = {}
  for name, tensor in net:named_parameters() do parameters[name] = tensor:detach() end
  local function loss(p, v, c)
    return ml.cross_entropy(func.functional_call(net, p, v:unsqueeze(1)), c:unsqueeze(1))
  end
  local found = func.vmap(func.grad(loss), { in_dims = { false, 1, 1 } })(parameters, inputs, classes)
  for i = 1, 5 do
    net:zero_grad()
    ml.cross_entropy(net(inputs[i]:unsqueeze(1)), classes[i]:unsqueeze(1)):backward()
    for name, tensor in net:named_parameters() do near(found[name][i], tensor.grad) end
  end
end)

test("convolutions of an ensemble", function()
  ml.manual_seed(2)
  local nets = {}
  for i = 1, 3 do nets[i] = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten()):to(ml.float64) end
  local parameters, buffers = func.stack_module_state(nets)
  expect.equal(next(buffers), nil)
  local image = ml.randn(2, 1, 6, 6)
  local got = func.vmap(function(p) return func.functional_call(nets[1], p, image) end)(parameters)
  for i = 1, 3 do near(got[i], nets[i](image):detach()) end
end)

test("random numbers inside vmap are asked for", function()
  local function noise(v) return v + ml.rand(3) end
  expect.error(function() func.vmap(noise)(batch) end, "randomness")
  local different = func.vmap(noise, { randomness = "different" })(batch) - batch
  expect.truthy(not ml.allclose(different[1], different[2]))
  local same = func.vmap(noise, { randomness = "same" })(batch) - batch
  near(same[1], same[2])
  local dropped = func.vmap(function(v) return ml.dropout(v, 0.5, true) end,
    { randomness = "different" })(ml.ones(4, 50))
  expect.truthy(not ml.equal(dropped[1], dropped[2]))
end)

test("anomalies are looked for where elements can be", function()
  near(ml.autograd.detect_anomaly({}, function() return func.vmap(func.grad(f))(batch) end),
    func.vmap(func.grad(f))(batch))
end)

test("what cannot be done inside vmap says so", function()
  expect.error(function() func.vmap(function(v) return v * v:sum():item() end)(batch) end, "inside vmap")
  expect.error(function() func.vmap(function(v) return v:nonzero() end)(ml.tensor { { 1, 0 }, { 1, 1 } }) end, "same shape")
  local kept
  func.vmap(function(v) kept = v return v end)(batch)
  expect.error(function() return kept + 1 end, "vmap that has ended")
  expect.error(function() return x:add(kept) end, "vmap that has ended")
  for _, look in ipairs { "tolist", "storage", "data_ptr", "pin_memory" } do
    expect.error(function() return kept[look](kept) end, "vmap")
  end
  for _, look in ipairs { "tolist", "storage", "data_ptr", "describe" } do
    expect.error(function() func.vmap(function(v) v[look](v) return v end)(batch) end, "vmap")
  end
  expect.error(function() func.vmap(function(v) return tostring(v) and v end)(batch) end, "vmap")
  expect.error(function() func.vmap(function(v) return v:sum():item() end)(batch) end, "vmap")
  local shared = ml.zeros(3)
  expect.error(function() func.vmap(function(v) shared:add_(v) return v end)(batch) end, "same for all samples")
  expect.error(function() func.vmap(f)(3) end, "no argument")
  expect.error(function() func.vmap(f, { in_dims = 3 })(batch) end, "dimension 3")
  expect.error(function() func.vmap(f, { in_dimms = 1 }) end, "in_dims")
  expect.error(function() func.vmap(ml.add)(batch, ml.ones(2)) end, "3 and 2 samples")
  expect.error(function() func.grad(g)(x) end, "no dimensions")
  expect.error(function() func.grad(f)(ml.arange(3):to(ml.int64)) end, "int64")
end)

test("an error inside leaves no vmap and no level behind", function()
  pcall(func.vmap(function() error "stop" end), batch)
  pcall(func.jvp, function() error "stop" end, { x }, { t })
  near(func.vmap(f)(batch), ml.stack({ f(batch[1]), f(batch[2]), f(batch[3]) }, 1))
  expect.error(function() forward_ad.make_dual(x, t) end, "dual_level")
end)

test("tangents of parameters that require grad are differentiated, too", function()
  local p = x:clone():requires_grad_()
  local _, along = func.jvp(f, { p }, { t })
  near(ml.grad(along, p), GRADIENT_ALONG)
end)

test("what is packed for backward keeps its tangents", function()
  local function packed(v)
    return ml.autograd.graph.saved_tensors_hooks(function(s) return s end, function(s) return s end,
      function() return f(v) end)
  end
  near(func.grad(packed)(x), GRADIENT)
  near(select(2, func.jvp(func.grad(packed), { x }, { t })),
    select(2, func.jvp(func.grad(f), { x }, { t })))
end)

test("dual tensors", function()
  local primal, tangent = forward_ad.dual_level(function()
    local d = forward_ad.make_dual(x, t)
    local a, b = forward_ad.unpack_dual(ml.sin(d) * 2)
    expect.equal(select(2, forward_ad.unpack_dual(ml.ones(2))), nil)
    expect.error(function() forward_ad.make_dual(x, ml.ones(2)) end, "shape")
    expect.error(function() ml.add(d, 1, { out = ml.empty(3) }) end, "out=")
    return a, b
  end)
  near(primal, ml.sin(x) * 2)
  near(tangent, ml.cos(x) * t * 2)
end)

test("functions of scripts with rules of their own", function()
  local calls = {}
  local Double
  Double = ml.autograd.Function {
    name = "Double",
    forward = function(v) return v * 2 end,
    setup_context = function() end,
    backward = function(_, gradient) return gradient * 10 end,
    jvp = function(_, along) return along * 100 end,
    vmap = function(info, in_dims, v)
      calls[#calls + 1] = { info.batch_size, in_dims[1] }
      return Double(v), in_dims[1]
    end,
  }
  near(func.vmap(Double)(batch), batch * 2)
  expect.equal(calls[1][1], 3)
  expect.equal(calls[1][2], 1)
  near(func.vmap(func.grad(function(v) return Double(v):sum() end))(batch), ml.full({ 3, 3 }, 10.0))
  near(select(2, func.jvp(Double, { x }, { t })), t * 100)
  local Plain = ml.autograd.Function {
    forward = function(ctx, v) ctx:save_for_backward(v) return v ^ 2 end,
    backward = function(ctx, gradient) return gradient * ctx.saved_tensors[1] * 2 end,
  }
  near(func.vmap(func.grad(function(v) return Plain(v):sum() end))(batch), batch * 2)
  near(func.jacrev(Plain)(x), ml.diag(x * 2))
  near(func.vmap(func.jacrev(Plain))(batch)[1], ml.diag(x * 2))
  near(select(2, func.jvp(Plain, { x }, { t })), x * t * 2)
end)

-- Functions with a rule: the same with a derivative of their own, and of ops.
local Tanh = ml.autograd.Function {
  name = "Tanh",
  forward = function(v) return v:tanh() end,
  setup_context = function(ctx, _, outputs)
    ctx:save_for_backward(outputs[1])
    ctx:save_for_forward(outputs[1])
  end,
  backward = function(ctx, start) return start * (1 - ctx.saved_tensors[1] ^ 2) end,
  jvp = function(ctx, along) return along * (1 - ctx.saved_for_forward[1] ^ 2) end,
}
local Product = ml.autograd.Function {
  name = "Product",
  forward = function(a, b) return a * b, a:tanh() end,
  setup_context = function(ctx, inputs, outputs)
    ctx:save_for_backward(inputs[1], inputs[2], outputs[2])
    ctx:save_for_forward(inputs[1], inputs[2], outputs[2])
  end,
  backward = function(ctx, first, second)
    local a, b, y = table.unpack(ctx.saved_tensors)
    return first * b + second * (1 - y * y), first * a
  end,
  jvp = function(ctx, da, db)
    local a, b, y = table.unpack(ctx.saved_for_forward)
    da, db = da or ml.zeros_like(a), db or ml.zeros_like(b)
    return da * b + db * a, da * (1 - y * y)
  end,
}

-- Programs that use functions f(v), and give tensors that are the same with both.
local function same_as_ops(program)
  local weight = ml.tensor({ 0.3, -0.7, 1.1 }, { dtype = "float64", requires_grad = true })
  local function results(tanh, product)
    local y = program(tanh, product, weight)
    local gradient = ml.grad((y * ml.arange(1, y:numel(), { dtype = "float64" }):view(y.shape)):sum(), weight)
    return y:detach(), gradient
  end
  local y, gradient = results(Tanh, Product)
  local want, want_gradient = results(ml.tanh, function(a, b) return a * b, a:tanh() end)
  near(y, want)
  near(gradient, want_gradient)
end

test("functions inside vmap are differentiated outside of it", function()
  local double = batch * 1
  same_as_ops(function(tanh, _, weight) return func.vmap(tanh)(weight * double) end)
  same_as_ops(function(_, p, weight)
    return func.vmap(function(b)
      local a, c = p(weight, b)
      return a + c
    end)(double)
  end)
  same_as_ops(function(tanh, _, weight) return func.vmap(func.vmap(tanh))(weight * double) end)
  same_as_ops(function(tanh, _, weight)
    return func.vmap(func.grad(function(v) return tanh(v):sum() end))(weight * double)
  end)
  same_as_ops(function(_, p, weight)
    return func.grad(function(v)
      return func.vmap(function(b)
        local a, c = p(v, b)
        return (a * c):sum()
      end)(double):sum()
    end)(weight)
  end)
  local Old = ml.autograd.Function {
    forward = function(ctx, v) ctx:save_for_backward(v) return v ^ 2 end,
    backward = function(ctx, start) return start * ctx.saved_tensors[1] * 2 end,
  }
  expect.error(function()
    func.grad(function(v) return func.vmap(Old)(v):sum() end)(double)
  end, "form with 'setup_context'")
end)

test("tangents of functions that are differentiated again", function()
  same_as_ops(function(tanh, _, weight) return func.jacfwd(tanh)(weight) end)
  same_as_ops(function(tanh, _, weight) return func.hessian(function(v) return tanh(v):sum() end)(weight) end)
  same_as_ops(function(tanh, _, weight)
    return select(2, func.jvp(func.grad(function(v) return tanh(v):sum() end), { weight }, { weight }))
  end)
  same_as_ops(function(tanh, _, weight)
    local moved = function(v) return select(2, func.jvp(tanh, { v }, { v * 2 })) end
    return select(2, func.jvp(moved, { weight }, { weight }))
  end)
  same_as_ops(function(_, p, weight)
    return select(2, func.jvp(function(v)
      return func.vmap(function(b) return (p(v, b)) end)(weight * batch)
    end, { weight }, { weight * 3 }))
  end)
  same_as_ops(function(tanh, _, weight)
    return func.jacfwd(function(v) return func.vmap(ml.sin)(tanh(v)) end)(weight)
  end)
end)

test("detach inside of vmap detaches outside of it", function()
  local weight = ml.ones(3, { requires_grad = true })
  expect.falsy(func.vmap(function(v) return v:detach() end)(weight).requires_grad)
  near(func.grad(function(v)
    return func.vmap(function(each) return each:detach() * each end)(v):sum()
  end)(x), x)
end)

test("changes in place are recorded with their tangents", function()
  local k = ml.tensor(0.5, { dtype = "float64", requires_grad = true })
  local at = ml.tensor(0.7, { dtype = "float64" })
  local function changed(b)
    local c = k * b
    c:sin_()
    return c
  end
  local function plain(b) return (k * b):sin() end
  local transforms = {
    function(each) return select(2, func.jvp(each, { at }, { at })) end,
    function(each) return func.grad(func.jacfwd(func.grad(each)))(at) end,
    function(each) return func.grad(func.jacrev(func.grad(each)))(at) end,
    function(each) return func.vmap(func.grad(each))(at:expand(3)):sum() end,
  }
  for _, transform in ipairs(transforms) do
    local y, want = transform(changed), transform(plain)
    near(y:detach(), want:detach())
    near(ml.grad(y, k), ml.grad(want, k))
  end
  local a = ml.tensor({ { 1.0, 2.0 }, { 3.0, 4.0 } }, { dtype = "float64", requires_grad = true })
  local jacobian = func.jacfwd(function(v)
    local b = v:matmul(a)
    b:mul_(b * 2)
    return b:sin()
  end)(a)
  expect.truthy(ml.grad(jacobian:sum(), a):isfinite():all():item())
end)

test("a value beside a gradient has tangents without a history of its own", function()
  local value, moved = func.jvp(function(v)
    local _, loss = func.grad_and_value(function(u) return (u ^ 3):sum() end)(v)
    return loss
  end, { x }, { t })
  near(moved, (x * x * 3 * t):sum())
  expect.falsy(value.requires_grad or moved.requires_grad)
end)

test("dual tensors are views", function()
  forward_ad.dual_level(function()
    local from = ml.tensor({ 1.0, 2.0 }, { requires_grad = true })
    local h = from * 2
    local d = forward_ad.make_dual(h, ml.ones(2))
    local only = ml.grad((d * d):sum() + h:sum(), d, { retain_graph = true })
    near(only, d:detach() * 2)
    h:exp_()
    near(ml.grad((d * 3):sum(), from), ml.exp(from:detach() * 2) * 6)
    expect.error(function() forward_ad.make_dual(d, ml.ones(2)) end, "has a tangent of this level")
    expect.error(function() d:detach_() end, "a view cannot be cut off in place")
    expect.equal(select(2, forward_ad.unpack_dual(h)), nil)
  end)
end)

test("numbers of samples take part in promotion as numbers do", function()
  local numbers = ml.ones(2, { dtype = "complex128" })
  local floats = ml.ones(3, { dtype = "float32" })
  local of_floats = func.vmap(function(v) return floats - v end)(numbers)
  expect.equal(of_floats.dtype, ml.complex64)
  local of_doubles = func.vmap(function(v) return ml.ones(3, { dtype = "float64" }) * v end)(numbers)
  expect.equal(of_doubles.dtype, ml.complex128)
end)

test("samples are assigned what is the same for all", function()
  local y = func.vmap(function(v)
    local out = v * 1
    out[1] = x[3]
    return out
  end)(batch)
  near(y:select(2, 1), x[3]:expand(3))
  expect.error(function()
    func.vmap(function(v)
      local shared = x * 1
      shared:copy_(v)
      return shared
    end)(batch)
  end, "is the same for all samples")
end)

test("vmap is a field of ml too", function()
  expect.equal(ml.vmap, ml.func.vmap)
  expect.equal(ml.vmap(ml.sum)(ml.ones(2, 3)):totable(), { 3.0, 3.0 })
end)

test("replace_all_batch_norm_modules_", function()
  local net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Sequential(nn.BatchNorm1d(4)))
  expect.equal(ml.func.replace_all_batch_norm_modules_(net), net)
  for _, norm in ipairs { net[2], net[3][1] } do
    expect.equal({ norm.running_mean, norm.running_var, norm.track_running_stats }, { [3] = false })
  end
  local names = {}
  for name in pairs(net:state_dict()) do names[#names + 1] = name end
  table.sort(names)
  expect.equal(names, { "0.bias", "0.weight", "1.bias", "1.weight", "2.0.bias", "2.0.weight" })
  local batches = ml.randn(2, 5, 3)
  local parameters = {}
  for name, p in net:named_parameters() do parameters[name] = p:detach() end
  local each = ml.vmap(function(one)
    return ml.func.functional_call(net, parameters, one)
  end)(batches)
  expect.near(each[2]:totable(), net(batches[2]):detach():totable(), 1e-5)
  net:eval()
  expect.near(net(batches[1]):detach():totable(), each[1]:totable(), 1e-5)
  expect.error(function() ml.func.replace_all_batch_norm_modules_(5) end, "root")
end)

-- What a function gives for each sample.
local function one_by_one(called, arguments)
  local out = {}
  for i = 1, #arguments[1] do
    local own = {}
    for k, argument in ipairs(arguments) do own[k] = argument[i] end
    out[i] = called(table.unpack(own))
  end
  return ml.stack(out)
end

test("cross_entropy, its gradient and that of its gradient, of each sample", function()
  ml.manual_seed(12)
  for _, shape in ipairs { { 3, 4 }, { 3, 5, 4 }, { 3, 2, 4, 6 } } do
    local classes = shape[3] or shape[2]
    local scores, weight = ml.randn(shape), ml.rand(3, classes) + 0.1
    local target = ml.randint(1, classes, shape[3] and { 3, shape[2], table.unpack(shape, 4) } or { 3 })
    for i, reduction in ipairs { "none", "sum", "mean" } do
      for _, weights in ipairs { "own", "shared", "no" } do
        local function loss(v, to, own)
          if weights ~= "own" then own = weights == "shared" and weight[1] or nil end
          return ml.cross_entropy(v, to, own, reduction, 2, i % 2 * 0.2)
        end
        local gradient = func.grad(function(...) return loss(...):sum() end)
        local second = func.grad(function(...) return gradient(...):square():sum() end)
        for _, called in ipairs { loss, gradient, second } do
          local want = one_by_one(called, { scores, target, weight })
          local what = ("%s of %s with %s weights"):format(reduction, scores.shape, weights)
          expect.truthy(ml.allclose(func.vmap(called)(scores, target, weight), want, 1e-9, 1e-11, true), what)
        end
      end
    end
  end
end)

harness.run()
