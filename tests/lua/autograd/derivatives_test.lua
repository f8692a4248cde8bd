-- tests/lua/autograd/derivatives_test.lua: ml.autograd.functional beside PyTorch's numbers: products with
-- Jacobians and Hessians, and these matrices.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local F = ml.autograd.functional

local function T(values, requires_grad)
  return ml.tensor(values, { dtype = ml.float64, requires_grad = requires_grad })
end

-- Tensors in nested arrays as numbers.
local function L(value)
  if ml.is_tensor(value) then return value:tolist() end
  local out = {}
  for i, item in ipairs(value) do out[i] = L(item) end
  return out
end

local function f(x, y) return (x:exp() * y):cumsum(1), (x * y * y):sum() end
local function g(x, y) return (x:exp() * y * y):sum() * x:sum() end
local function fourth(a) return (a:pow(3) * a):sum() end

local X, Y = T { 0.5, -1, 2 }, T { 1, 2, -0.5 }
local OUTPUTS = { { 1.6487212707001282, 2.384480153043013, -1.3100478964223123 }, -3.0 }

test("vjp and jvp of several inputs and outputs", function()
  local outputs, product = F.vjp(f, { X, Y }, { T { 1, 2, 3 }, T(2) })
  expect.near(L(outputs), OUTPUTS, 1e-12)
  expect.near(L(product), { { 11.89232762420077, 11.678794411714424, -10.583584148395975 },
    { 11.89232762420077, -6.160602794142788, 18.16716829679195 } }, 1e-12)
  outputs, product = F.jvp(f, { X, Y }, { T { 1, 2, 3 }, T { -1, 0.5, 1 } })
  expect.near(L(outputs), OUTPUTS, 1e-12)
  expect.near(L(product), { { 0, 1.6554574852714905, -2.0390705641938336 }, 4.75 }, 1e-12)
  expect.equal(outputs[1].requires_grad, false)
  expect.equal(product[2].requires_grad, false)
  expect.equal(X.requires_grad, false)
end)

test("vhp and hvp of several inputs", function()
  for _, name in ipairs { "vhp", "hvp" } do
    local value, product = F[name](g, { X, Y }, { T { 1, 2, 3 }, T { -1, 0.5, 1 } })
    expect.near(value:item(), 7.4512545901778395, 1e-12)
    expect.near(L(product), { { 7.602054834432209, 14.530107321967883, 8.495497227578614 },
      { 19.78465524840154, 13.795479043929088, -55.41792074197987 } }, 1e-12, name)
  end
end)

test("the Jacobian of several inputs and outputs, and of matrices", function()
  local x, y = X[{ { 1, 2 } }], Y[{ { 1, 2 } }]
  expect.near(L(F.jacobian(f, { x, y })), {
    { { { 1.6487212707001282, 0 }, { 1.6487212707001282, 0.7357588823428847 } },
      { { 1.6487212707001282, 0 }, { 1.6487212707001282, 0.36787944117144233 } } },
    { { 1, 4 }, { 1, -4 } } }, 1e-12)
  local function product(a) return a:mv(a:select(2, 1)) end
  expect.near(L(F.jacobian(product, T { { 1, 2 }, { 3, 4 } })),
    { { { 2, 3 }, { 2, 0 } }, { { 3, 0 }, { 5, 3 } } }, 1e-12)
end)

test("the Hessian of one input and of several", function()
  local x, y = X[{ { 1, 2 } }], Y[{ { 1, 2 } }]
  expect.near(L(F.hessian(g, { x, y })), {
    { { { 2.4730819060501923, 3.1202390353858975 }, { 3.1202390353858975, 2.207276647028654 } },
      { { 1.6487212707001282, 1.4715177646857693 }, { 3.2974425414002564, 0.7357588823428847 } } },
    { { { 1.6487212707001282, 3.2974425414002564 }, { 1.4715177646857693, 0.7357588823428847 } },
      { { -1.6487212707001282, 0 }, { 0, -0.36787944117144233 } } } }, 1e-12)
  expect.equal(F.hessian(function(a) return a:pow(3):sum():reshape(1) end, T { 1, 2 }):tolist(),
    { { 6, 0 }, { 0, 12 } })
end)

test("the form of the results is that of what was given", function()
  local one = T { 1, 2 }
  local function double(a) return a * 2 end
  expect.equal(L(F.jacobian(double, one)), { { 2, 0 }, { 0, 2 } })
  expect.equal(L(F.jacobian(double, { one })), { { { 2, 0 }, { 0, 2 } } })
  expect.equal(L(F.jacobian(function(a) return { a * 2 } end, { one })), { { { { 2, 0 }, { 0, 2 } } } })
  expect.equal(L { F.vjp(double, { one }, T { 1, 1 }) }, { { 2, 4 }, { { 2, 2 } } })
  expect.equal(L { F.jvp(function(a) return { a } end, one, T { 1, 3 }) }, { { { 1, 2 } }, { { 1, 3 } } })
  expect.equal(F.hessian(function(a) return a:sum() end, { one })[1][1]:tolist(),
    { { 0, 0 }, { 0, 0 } })
end)

test("vectors may be left out for a single element", function()
  expect.equal(L { F.vjp(function(a) return (a * a):sum() end, T { 1, 2 }) }, { 5, { 2, 4 } })
  expect.equal(L { F.jvp(function(a) return a * T { 1, 2 } end, T(3)) }, { { 3, 6 }, { 1, 2 } })
  expect.equal(L { F.vhp(function(a) return a * a * a end, T { 2 }) }, { { 8 }, { 12 } })
  expect.error(function() F.vjp(function(a) return a * a end, T { 1, 2 }) end,
    "vjp: 'v' may only be left out where the result of the function is a single tensor")
  expect.error(function() F.hvp(function(a) return a:sum() end, T { 1, 2 }) end,
    "hvp: 'v' may only be left out where the input is a single tensor")
end)

test("create_graph lets results be differentiated", function()
  local function grad_of(...)
    local sum = 0
    for i = 1, select("#", ...) do sum = sum + (select(i, ...)):sum() end
    return sum
  end
  local given = { create_graph = true }
  local w, v = T({ 0.5, 2 }, true), T { 1, 2 }
  local function power(a) return a:pow(3) * a end
  local function by_w(...) return ml.grad(grad_of(...), w):tolist() end
  expect.near(by_w(F.jacobian(function(a) return a:pow(3) * w end, w, given)), { 2.25, 36 }, 1e-12)
  expect.near(by_w(F.vjp(power, w, v, given)), { 3.5, 128 }, 1e-12)
  expect.near(by_w(F.jvp(power, w, v, given)), { 3.5, 128 }, 1e-12)
  expect.near(by_w(F.hvp(fourth, w, v, given)), { 12.5, 128 }, 1e-12)
  expect.near(by_w(F.vhp(fourth, w, v, given)), { 12.5, 128 }, 1e-12)
  expect.near(by_w(F.hessian(fourth, w, given)), { 12, 48 }, 1e-12)
  -- Without it nothing has a graph, also of what the function found outside.
  expect.equal(F.jacobian(function(a) return a * w end, w).requires_grad, false)
  expect.equal(w.grad, nil)
end)

test("what does not depend on the inputs has zeros, or is an error with strict", function()
  local x, y = T { 1, 2 }, T { 3, 4 }
  local function first(a) return a * 1 end
  local function constant(a) return a:detach() end
  local v = T { 1, 1 }
  expect.equal(L(F.jacobian(first, { x, y })), { { { 1, 0 }, { 0, 1 } }, { { 0, 0 }, { 0, 0 } } })
  expect.equal(L(F.jacobian(constant, x)), { { 0, 0 }, { 0, 0 } })
  expect.equal(L(F.jacobian(function(a) return a:gt(0) end, x)), { { 0, 0 }, { 0, 0 } })
  expect.equal(L { F.jvp(function(a) return a * 3, a:gt(1) end, x, v) },
    { { { 3, 6 }, { false, true } }, { { 3, 3 }, { false, false } } })
  expect.equal(L { F.vhp(function(a) return a:sum() end, x, v) }, { 3, { 0, 0 } })
  local strict = { strict = true }
  expect.error(function() F.vjp(constant, x, v, strict) end, "vjp: output 1 of the function does not "
    .. "require grad")
  expect.error(function() F.vjp(first, { x, y }, v, strict) end,
    "vjp: the output of the function is independent of input 2, which 'strict' does not allow")
  expect.error(function() F.jvp(function() return T({ 1, 2 }, true) * 2 end, x, v, strict) end,
    "jvp: the output of the function is independent of input 1")
  expect.error(function() F.jacobian(first, { x, y }, strict) end,
    "jacobian: output 1 of the function is independent of input 2, which 'strict'")
  expect.error(function() F.jacobian(first, x, { strict = true, create_graph = true }) end,
    "jacobian: the Jacobian is independent of input 1, which 'strict' with 'create_graph'")
  for _, name in ipairs { "vhp", "hvp" } do
    expect.error(function() F[name](function(a) return a:sum() end, x, v, strict) end,
      name .. ": the gradient of the function is independent of input 1")
  end
  expect.error(function() F.hessian(function(a) return a:sum() end, x, strict) end,
    "hessian: the gradient of the function is independent of input 1")
  expect.near(F.hessian(fourth, x, strict):tolist(), { { 12, 0 }, { 0, 48 } }, 1e-12)
end)

test("complex numbers", function()
  local function c(...) return ml.complex(...) end
  local z = ml.tensor({ c(1, 2), c(0.5, -1) }, { dtype = ml.complex128 })
  local v = ml.tensor({ c(1, -1), c(2, 0.5) }, { dtype = ml.complex128 })
  local function square(a) return a * a end
  local _, product = F.vjp(square, z, v)
  expect.equal(ml.view_as_real(product):tolist(), { { -2, -6 }, { 1, 4.5 } })
  _, product = F.jvp(square, z, v)
  expect.equal(ml.view_as_real(product):tolist(), { { 6, 2 }, { 3, -3.5 } })
  expect.near(ml.view_as_real(F.jacobian(ml.abs, z)):tolist(),
    { { { 0.4472135954999579, 0.8944271909999159 }, { 0, 0 } },
      { { 0, 0 }, { 0.4472135954999579, -0.8944271909999159 } } }, 1e-12)
  expect.error(function() F.jacobian(square, z) end, "jacobian: output 1 is complex")
end)

test("empty tensors", function()
  local x = T { 1, 2 }
  expect.equal(F.jacobian(function(a) return a:narrow(1, 1, 0) end, x).shape:tolist(), { 0, 2 })
  expect.equal(F.jacobian(function(a) return a:sum() end, ml.zeros { 0, 3 }).shape:tolist(), { 0, 3 })
end)

test("it records in no_grad and leaves the mode alone", function()
  ml.no_grad(function()
    expect.equal(F.jacobian(ml.sin, T { 0 }):tolist(), { { 1 } })
    expect.equal(ml.is_grad_enabled(), false)
  end)
  expect.error(function() F.jacobian(function() error "inside" end, T { 0 }) end, "inside")
  expect.equal(ml.is_grad_enabled(), true)
end)

test("wrong arguments", function()
  local x, v = T { 1, 2 }, T { 1, 1 }
  local function id(a) return a end
  expect.error(function() F.vjp(id, x, T { 1, 2, 3 }) end,
    "vjp: tensor 1 of 'v' has shape %(3,%), expected %(2,%)")
  expect.error(function() F.jvp(id, x, { v, v }) end, "jvp: 'v' has 2 tensors, expected 1")
  expect.error(function() F.jvp(id, x, { 3 }) end, "jvp: 'v' must be a tensor or an array of tensors, "
    .. "number 1 is a number")
  expect.error(function() F.vjp(id, {}, v) end, "vjp: there are no inputs")
  expect.error(function() F.vjp(id, { x, y = v }, v, {}) end, "vjp: 'inputs' .* field 'y'")
  expect.error(function() F.vjp(id, { 3 }, v) end, "'inputs' must be a tensor or an array of tensors")
  expect.error(function() F.vjp(id, x:to(ml.int64), v) end, "input 1 has dtype int64")
  expect.error(function() F.vjp(function() return 3 end, x, v) end, "the function gave a number")
  expect.error(function() F.vjp(function() end, x, v) end, "the function gave no tensor")
  expect.error(function() F.hessian(id, x) end, "hessian: the function must give a single element")
  expect.error(function() F.vhp(function(a) return a:sum(), a:sum() end, x, v) end,
    "vhp: the function must give a single tensor, got 2")
  expect.error(function() F.jacobian(id, x, { vectorise = true }) end, "did you mean 'vectorize'")
  expect.error(function() F.jacobian(id, x, { strategy = "forward-mode" }) end, "wants 'vectorize'")
  expect.error(function() F.jacobian(id, x, { strategy = "sideways" }) end, "reverse%-mode")
  expect.error(function() F.jacobian(id, x, { strict = true, vectorize = true }) end,
    "'strict' and 'vectorize' cannot be had together")
  expect.error(function()
    F.jacobian(id, x, { strategy = "forward-mode", vectorize = true, create_graph = true })
  end, "cannot be had together")
end)

local function part(name)
  local found = pcall(require, "moonlet." .. name)
  return found or harness.skip("there is no ml." .. name)
end

test("vectorize gives the same", function()
  part "func"
  local inputs = { X, Y }
  for _, strategy in ipairs { "reverse-mode", "forward-mode" } do
    if strategy == "forward-mode" then part "autograd.forward_ad" end
    expect.near(L(F.jacobian(f, inputs, { vectorize = true, strategy = strategy })),
      L(F.jacobian(f, inputs)), 1e-12, strategy)
    expect.near(L(F.hessian(g, inputs, { vectorize = true, outer_jacobian_strategy = strategy })),
      L(F.hessian(g, inputs)), 1e-12, strategy)
  end
end)

harness.run()
