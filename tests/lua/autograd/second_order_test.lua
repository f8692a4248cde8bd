-- tests/lua/autograd/second_order_test.lua: second derivatives at points where formulas of first ones are pieced
-- together (zeros, repeated factors, singular matrices), by all four compositions of forward and reverse
-- mode. The program tests/fuzz/compositions.lua looks for more of them.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local func = ml.func

local function T(values) return ml.tensor(values, { dtype = ml.float64 }) end

local TRANSFORMS = {
  ["forward over forward"] = function(f) return func.jacfwd(func.jacfwd(f)) end,
  ["forward over reverse"] = function(f) return func.jacfwd(func.jacrev(f)) end,
  ["reverse over forward"] = function(f) return func.jacrev(func.jacfwd(f)) end,
  ["reverse over reverse"] = function(f) return func.jacrev(func.jacrev(f)) end,
}

-- The matrix of second derivatives of f at x, by every composition.
local function check(f, x, want, tolerance)
  for name, transform in pairs(TRANSFORMS) do
    expect.near(transform(f)(T(x)):tolist(), want, tolerance or 1e-9, name)
  end
end

-- The same of the sum of a function of elements: what is on its diagonal.
local function check_each(f, x, want, tolerance)
  for name, transform in pairs(TRANSFORMS) do
    local found = transform(function(v) return f(v):sum() end)(T(x))
    expect.near(found:sum(1):tolist(), want, tolerance or 1e-9, name)
  end
end

test("sinc at 0 and close to it", function()
  local pi2 = math.pi ^ 2
  check_each(ml.sinc, { 0, 0.5, 1e-9, -1e-4 },
    { -pi2 / 3, -1.190227128238936, -pi2 / 3, -pi2 / 3 + pi2 ^ 2 / 10 * 1e-8 })
  -- On both sides of where the terms of a series give way to the quotient.
  local x = 0.1
  local t = math.pi * x
  local want = (math.pi ^ 2) * (-math.sin(t) / t - 2 * math.cos(t) / t ^ 2 + 2 * math.sin(t) / t ^ 3)
  check_each(ml.sinc, { x - 1e-13, x + 1e-13 }, { want, want }, 1e-9)
end)

test("powers with exponents that are tensors, at 0", function()
  check_each(function(x) return x:pow(T { 2, 3, 1, 0 }) end, { 0, 0, 0, 0 }, { 2, 0, 0, 0 })
  check_each(function(e) return T { 0, 0, 2 }:pow(e) end, { 2, 1, 0 }, { 0, 0, math.log(2) ^ 2 })
  check_each(function(e) return ml.pow(0.0, e) end, { 2, 1, 0.5 }, { 0, 0, 0 })
  -- d^2/dx de of x^e is (1 + e log x) x^(e - 1), also where e is 0.
  check(function(v) return v[1]:pow(v[2]) end, { 2, 0 }, { { 0, 0.5 }, { 0.5, math.log(2) ^ 2 } })
end)

test("products of scattered factors, with zeros among them", function()
  local positions = ml.tensor { 1, 1, 1 }
  local one = ml.ones(1, { dtype = ml.float64 })
  for _, name in ipairs { "scatter_reduce", "index_reduce" } do
    local function f(s) return one[name](one, 1, positions, s, "prod"):sum() end
    check(f, { 5, 2, 3 }, { { 0, 3, 2 }, { 3, 0, 5 }, { 2, 5, 0 } })
    check(f, { 0, 2, 3 }, { { 0, 3, 2 }, { 3, 0, 0 }, { 2, 0, 0 } })
    check(f, { 0, 0, 3 }, { { 0, 3, 0 }, { 3, 0, 0 }, { 0, 0, 0 } })
    check(f, { 0, 0, 0 }, { { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 } })
    local function with_self(v)
      local own = v[{ { 1, 1 } }]
      return own[name](own, 1, positions, v[{ { 2, 4 } }], "prod"):sum()
    end
    check(with_self, { 0, 2, 0, 3 }, { { 0, 0, 6, 0 }, { 0, 0, 0, 0 }, { 6, 0, 0, 0 }, { 0, 0, 0, 0 } })
  end
  -- Several results, and factors that come in no order.
  local function g(s) return ml.ones(2, { dtype = ml.float64 }):scatter_reduce(1, ml.tensor { 2, 1, 2 }, s, "prod"):sum() end
  check(g, { 0, 4, 5 }, { { 0, 0, 1 }, { 0, 0, 0 }, { 1, 0, 0 } })
end)

test("running products with zeros", function()
  local weights = T { 1, 2, 3 }
  local function f(x) return (x:cumprod(1) * weights):sum() end
  check(f, { 2, 0, 5 }, { { 0, 17, 0 }, { 17, 0, 6 }, { 0, 6, 0 } })
  check(f, { 0, 0, 5 }, { { 0, 17, 0 }, { 17, 0, 0 }, { 0, 0, 0 } })
  check(function(x) return x:prod() end, { 0, 0, 5 }, { { 0, 5, 0 }, { 5, 0, 0 }, { 0, 0, 0 } })
end)

test("determinants of singular matrices", function()
  local function f(x) return ml.linalg.det(x:view(2, 2)) end
  check(f, { 1, 2, 2, 4 }, { { 0, 0, 0, 1 }, { 0, 0, -1, 0 }, { 0, -1, 0, 0 }, { 1, 0, 0, 0 } })
  check(f, { 0, 0, 0, 0 }, { { 0, 0, 0, 1 }, { 0, 0, -1, 0 }, { 0, -1, 0, 0 }, { 1, 0, 0, 0 } })
  -- Of rank 1: each second derivative is an element, or minus one, of the matrix.
  local ones = { 1, 1, 1, 1, 1, 1, 1, 1, 1 }
  local row = { 0, 0, 0, 0, 1, -1, 0, -1, 1 }
  for name, transform in pairs(TRANSFORMS) do
    local second = transform(function(x) return ml.linalg.det(x:view(3, 3)) end)(T(ones))
    expect.near(second[1]:tolist(), row, 1e-9, name)
  end
  -- Nearly singular, where an inverse has no right digit.
  check(f, { 1, 2, 2, 4 + 1e-15 }, { { 0, 0, 0, 1 }, { 0, 0, -1, 0 }, { 0, -1, 0, 0 }, { 1, 0, 0, 0 } })
end)

test("norms and deviations at 0", function()
  local nothing = { { 0, 0 }, { 0, 0 } }
  check(function(x) return x:norm() end, { 0, 0 }, nothing)
  check(function(x) return x:std() end, { 2, 2 }, nothing)
  check(function(x) return ml.nn.functional.lp_pool1d(x:view(1, 1, 2), 2, 2):sum() end, { 0, 0 }, nothing)
  check(function(x) return x:norm(3) end, { 0, 2 }, nothing)
  local gradient = select(2, func.jvp(function(x) return x:std() end, { T { 2, 2 } }, { T { 1, 3 } }))
  expect.equal(gradient:item(), 0)
end)

test("angles at the origin", function()
  check(function(x) return ml.atan2(x[1], x[2]) end, { 0, 0 }, { { 0, 0 }, { 0, 0 } })
end)

test("activations at infinity", function()
  local F = ml.nn.functional
  for name, f in pairs { erf = ml.erf, erfc = ml.erfc, silu = F.silu, gelu = F.gelu, mish = F.mish,
    gelu_tanh = function(x) return F.gelu(x, "tanh") end } do
    check_each(f, { math.huge }, { 0 }, 1e-12)
    if name:find "erf" then check_each(f, { -math.huge }, { 0 }, 1e-12) end
  end
end)

test("grids of grid_sample", function()
  local image, positions = T { { { { 1, 2 }, { 3, 5 } } } }, T { { { { 0.1, 0.2 } } } }
  check(function(t) return ml.nn.functional.grid_sample(image, positions * t, { align_corners = true }):sum() end,
    { 1 }, { { 0.01 } })
end)

test("recurrent networks whose weights are one tensor", function()
  ml.manual_seed(1)
  local x, h = ml.randn(3, 2, 2):double(), ml.randn(1, 2, 2):double()
  local function f(v)
    local w = v:view(2, 2)
    return ml.rnn_tanh(x, h, { w, w }, false, 1, 0, false, false, false):sum()
  end
  local at = { 0.3, -0.5, 0.7, 0.2 }
  local function gradient(k, by)
    local p = table.move(at, 1, 4, 1, {})
    p[k] = p[k] + by
    return func.grad(f)(T(p))
  end
  local want = {}
  for k = 1, 4 do want[k] = ((gradient(k, 1e-5) - gradient(k, -1e-5)) / 2e-5):tolist() end
  for _, name in ipairs { "forward over forward", "forward over reverse", "reverse over reverse" } do
    expect.near(TRANSFORMS[name](f)(T(at)):tolist(), want, 1e-7, name)
  end
end)

test("in-place forms that are made of the plain one", function()
  local changes = {
    rad2deg = function(y) return y:rad2deg_() end,
    logit = function(y) return y:logit_() end,
    float_power = function(y) return y:float_power_(3) end,
    cumprod = function(y) return y:cumprod_(1) end,
    triu = function(y) return y:view(2, 2):triu_() end,
    renorm = function(y) return y:view(2, 2):renorm_(2, 1, 0.5) end,
    masked_fill = function(y) return y:masked_fill_(ml.tensor { true, false, false, true }, T(1.5)) end,
    clamp = function(y) return y:clamp_(nil, T { 0.2, 0.9, 0.2, 0.9 }) end,
    addmv = function(y) return y:addmv_(T { { 1, 0, 2, 0 }, { 0, 1, 0, 3 }, { 1, 1, 0, 0 }, { 0, 2, 0, 1 } }, y:clone()) end,
  }
  local x, u = T { 0.3, 0.4, 0.6, 0.7 }, T { 1, -2, 3, 0.5 }
  for name, change in pairs(changes) do
    local function whole(v)
      local y = v * 1
      change(y)
      return (y * y):sum()
    end
    local function part(v)
      local y = ml.stack({ v, v * v }, 1)
      change(y[1])
      return (y * y):sum()
    end
    for _, f in ipairs { whole, part } do
      local gradient = func.grad(f)(x)
      expect.near(select(2, func.jvp(f, { x }, { u })):item(), (gradient * u):sum():item(), 1e-9, name)
      local want = func.jacrev(func.jacrev(f))(x):tolist()
      for composition, transform in pairs(TRANSFORMS) do
        expect.near(transform(f)(x):tolist(), want, 1e-9, name .. ", " .. composition)
      end
    end
  end
end)

test("cross derivatives where two rules meet", function()
  -- At x = 0 the gradient of prelu by its weight is that of x below 0, as that by x is.
  check(function(v) return ml.nn.functional.prelu(v[{ { 1, 1 } }], v[{ { 2, 2 } }]):sum() end, { 0, 0.25 },
    { { 0, 1 }, { 1, 0 } })
  check(function(v) return ml.xlogy(v[1], v[2]) end, { 0, 0 }, { { 0, 0 }, { 0, 0 } })
  check(function(v) return ml.special.xlog1py(v[1], v[2]) end, { 0, -1 }, { { 0, 0 }, { 0, 0 } })
  check(function(v) return ml.xlogy(v[1], v[2]) end, { 0, 2 }, { { 0, 0.5 }, { 0.5, 0 } })
end)

test("what a loss adds without a gradient has no tangent", function()
  local function f(var) return ml.nn.functional.gaussian_nll_loss(T { 1, 2 }, T { 0, 0 }, var, { reduction = "sum" }) end
  local x = T { 0, 2 }
  local along = select(2, func.jvp(f, { x }, { T { 1, 1 } }))
  expect.near(along:item(), func.grad(f)(x):sum():item(), 1e-12)
end)

test("eigenvalues without their vectors", function()
  local internal = ml._internal
  local calls = {
    native_eigh = function(x) return internal.native_eigh(x, "L", false) end,
    native_eig = function(x) return internal.native_eig(x, false) end,
  }
  for name, call in pairs(calls) do
    local function f(x)
      local values, vectors = call(x:view(2, 2))
      return ml.real(values * values):sum() + ml.real(vectors):sum()
    end
    -- The sum of the squares of the eigenvalues is that of the squares of a symmetric matrix.
    expect.near(func.grad(f)(T { 2, 1, 1, 3 }):tolist(), { 4, 2, 2, 6 }, 1e-9, name)
  end
end)

harness.run()
