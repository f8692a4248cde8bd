-- tests/lua/ops/special_test.lua: special functions where they are hard: poles, ends, far tails, large
-- orders; and what their arguments may be. The numbers are PyTorch's,
-- SciPy's and mpmath's.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local INF, NAN = ml.inf, ml.nan

local function double(values) return ml.tensor(values, { dtype = "float64" }) end

-- Each element within 1e-13 of what is wanted, relative to it; float32 within 1e-6.
local function near(got, want, what, tolerance)
  for i, y in ipairs(want) do
    local x = got[i]:item()
    local same = x == y or x ~= x and y ~= y or math.abs(x - y) <= (tolerance or 1e-13) * math.abs(y)
    expect.truthy(same, ("%s: element %d is %.17g, want %.17g"):format(what, i, x, y))
  end
end

-- Name, arguments, results.
local values = {
  { "digamma", { { 0.0, -0.0, -1, -1.5, 1e-3, 50, INF, -INF } },
    { -INF, INF, NAN, 0.7031566406452432, -1000.57557193181, 3.901989673427892, INF, NAN } },
  { "gammaln", { { 0, -1, -2.5, 0.5, 1e3, INF, -INF } },
    { INF, INF, -0.05624371649767405, 0.5723649429247001, 5905.220423209181, INF, INF } },
  { "gammainc", { { 1e-3, 0.5, 5, 100, 1e4, 0, 0, 1, INF, -1 }, { 1e-3, 3, 2, 110, 9.9e3, 0, 1, INF, 1, 1 } },
    { 0.9936876467088603, 0.9856941215645704, 0.05265301734371113, 0.8417213299399129, 0.1586511921935646, NAN, 1, 1,
      0, NAN } },
  { "gammaincc", { { 1e-3, 0.5, 5, 100, 1e4, 0, 0, 1, INF, -1 }, { 1e-3, 3, 2, 110, 9.9e3, 0, 1, INF, 1, 1 } },
    { 0.006312353291139709, 0.01430587843542964, 0.9473469826562889, 0.1582786700600871, 0.8413488078064354, NAN, 0, 0,
      1, NAN } },
  { "zeta", { { 1, 0.5, 2, 2, 2, 3, 4, 2.5, 2 }, { 1, 1, 0, -1, -1.5, 0.25, 1e3, -1.5, INF } },
    { INF, NAN, INF, INF, 9.379246644989124, 64.66386996876844, 3.338336666665e-10, NAN, 0 } },
  { "erfinv", { { -1, 1, 1.5, 1e-10, 0.999999, -0.3 } },
    { -INF, INF, NAN, 8.862269254527581e-11, 3.458910737275499, -0.2724627147267543 } },
  { "erfcx", { { -30, -3, 0, 5, 1e10, INF } },
    { INF, 16205.98885399959, 1, 0.1107046377330686, 5.641895835477563e-11, 0 } },
  { "ndtr", { { -30, -3, 0, 5, -INF, INF } },
    { 4.906713927148187e-198, 0.00134989803163009452, 0.5, 0.9999997133484282, 0, 1 } },
  { "log_ndtr", { { -1e3, -3, 0, 8, -INF } },
    { -500007.8266948122, -6.60772622151035, -0.6931471805599453, -6.220960574271786e-16, -INF } },
  { "ndtri", { { 0, 1e-100, 0.2, 0.9, 1, 2 } },
    { -INF, -21.27345356096532, -0.8416212335729142, 1.2815515655446, INF, NAN } },
  { "xlogy", { { 0, 0, 0, 2, 0 }, { 0, INF, NAN, 3, -1 } }, { 0, 0, NAN, 2.19722457733622, 0 } },
  { "xlog1py", { { 0, 0, 0, 1 }, { -1, INF, NAN, 1e-20 } }, { 0, 0, NAN, 1e-20 } },
  { "entr", { { 0, -1, INF, NAN, 0.5 } }, { 0, -INF, -INF, NAN, 0.34657359027997264 } },
  { "sinc", { { 0, 0.5, NAN } }, { 1, 0.6366197723675814, NAN } },
  { "logit", { { -0.1, 0, 0.3, 1, 1.1 } }, { NAN, -INF, -0.8472978603872036, INF, NAN } },
  { "i0", { { -3, 0, 10, 700, INF } }, { 4.880792585865024, 1, 2815.716628466254, 1.529593347671873e+302, INF } },
  { "i1e", { { -3, 0, 10, 700, INF } }, { -0.1968267132973008, 0, 0.1212626813844555, 0.01507051944471685, 0 } },
  { "modified_bessel_k1", { { 0, 0.5, 10, -1, INF } }, { INF, 1.656441120003301, 1.864877345382559e-05, NAN, 0 } },
  { "bessel_j1", { { -3, 0, 10, 1000, INF } }, { -0.33905895852593646, 0, 0.043472746168861437, 0.0047283119070895239, 0 } },
  { "bessel_y0", { { 0, 0.5, 10, -1, INF } }, { -INF, -0.44451873350670656, 0.055671167283599391, NAN, 0 } },
  { "airy_ai", { { -20, -4, 0, 4, 20, INF } }, { -0.17640612707798469,
    -0.070265532949289515, 0.35502805388781724, 0.00095156385120480187, 1.6916728686705403e-27, 0 } },
}

for _, case in ipairs(values) do
  local name, args, want = case[1], case[2], case[3]
  test(name .. " at poles, ends and far out", function()
    local f = ml.special[name]
    near(f(double(args[1]), args[2] and double(args[2])), want, name)
    if ml.cuda.is_available() then
      near(f(double(args[1]):cuda(), args[2] and double(args[2]):cuda()), want, name .. " (cuda)")
    end
  end)
end

test("polygamma takes its order before or after, and refuses a negative one", function()
  local x = double { 0, -1, -1.5, 0.3, 20 }
  local want = { -INF, -INF, -0.2362040516417283, -75.27253658872601, -0.002628122402314654 }
  near(ml.polygamma(2, x), want, "ml.polygamma(n, x)")
  near(x:polygamma(2), want, "x:polygamma(n)")
  near(ml.special.polygamma(2, x), want, "ml.special.polygamma(n, x)")
  near(x:clone():polygamma_(2), want, "x:polygamma_(n)")
  near(ml.polygamma(0, double { 2 }), { 0.42278433509846713 }, "order 0")
  near(ml.polygamma(171, double { 300 }), { 2.4604166836641532e-117 }, "order 171", 1e-12)
  expect.error(function() return ml.polygamma(-1, x) end, "polygamma: the order is %-1")
  expect.error(function() return ml.polygamma(math.maxinteger, x) end, "must be 0 to 2%^53")
  expect.error(function() return x:polygamma(-1) end, "polygamma: the order is %-1")
end)

test("mvlgamma is a sum of lgamma", function()
  local want = { 3.416651807733236, 1.880995461611774, 210.4329578539473 }
  near(ml.mvlgamma(double { 1.2, 2.5, 30 }, 3), want, "mvlgamma")
  near(ml.special.multigammaln(double { 1.2, 2.5, 30 }, 3), want, "multigammaln")
  near(ml.mvlgamma(ml.tensor { 1, 2, 3 }, 2), { INF, 0.4515827052894548, 1.5501949939575646 }, "integers", 1e-6)
  expect.error(function() return ml.mvlgamma(double { 2 }, 0) end, "mvlgamma: p is 0")
  expect.error(function() return ml.mvlgamma(ml.tensor { true }, 1) end, "bool")
end)

test("logit limits by eps, and its gradient is 0 there", function()
  local x = double { -0.1, 0, 0.3, 1, 1.1, NAN }:requires_grad_()
  near(ml.logit(x, 1e-3), { -6.906754778648554, -6.906754778648554, -0.8472978603872036, 6.906754778648554,
    6.906754778648554, NAN }, "eps", 1e-12)
  local limited = ml.grad({ ml.logit(x, 0.1):sum() }, { x })
  near(limited, { 0, 0, 1 / 0.21, 0, 0, NAN }, "gradient with eps")
  local free = ml.grad({ ml.logit(x):sum() }, { x })
  near(free, { NAN, INF, 1 / 0.21, INF, NAN, NAN }, "gradient")
  near(ml.logit(double { 0.3, 0.7 }, 0.6), { 0.4054651081081642, -0.4054651081081643 }, "eps above 1/2", 1e-12)
end)

test("integers compute in the default dtype", function()
  for _, name in ipairs { "digamma", "gammaln", "i0", "ndtr", "entr", "sinc", "bessel_y1", "erfcx" } do
    expect.equal(ml.special[name](ml.tensor { 1, 2 }).dtype, "float32", name)
  end
  expect.equal(ml.xlogy(ml.tensor { 1, 2 }, ml.tensor { 1, 2 }).dtype, "float32")
  expect.equal(ml.special.legendre_polynomial_p(ml.tensor { 1, 2 }, 2).dtype, "float32")
  expect.error(function() return ml.igamma(ml.tensor { 1 }, ml.tensor { 1 }) end, "igamma: dtype int64")
end)

test("numbers stand on either side", function()
  near(ml.xlogy(2, double { 3 }), { 2.1972245773362196 }, "xlogy")
  near(ml.special.zeta(2, double { 3 }), { 0.3949340668482264 }, "zeta")
  near(ml.special.chebyshev_polynomial_t(2, double { 3, 1 }), { 26, 2 }, "T")
  near(ml.special.hermite_polynomial_h(double { 2, 1 }, 3), { 40, -4 }, "H")
  expect.error(function() return ml.special.zeta(2, 3) end, "at least one argument must be a tensor")
end)

local polynomials = { "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v",
  "chebyshev_polynomial_w", "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u",
  "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w", "hermite_polynomial_h",
  "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p" }

test("polynomials of strange orders", function()
  local x = double { -INF, -2, -1, 0, 0.5, 1, 2, INF, NAN }
  for _, name in ipairs(polynomials) do
    local f = ml.special[name]
    near(f(x, -1), { 0, 0, 0, 0, 0, 0, 0, 0, 0 }, name .. " of order -1")
    near(f(x, -INF), { 0, 0, 0, 0, 0, 0, 0, 0, 0 }, name .. " of order -inf")
    near(f(x, 0.9), { 1, 1, 1, 1, 1, 1, 1, 1, 1 }, name .. " of order 0.9")
    near(f(x, NAN), { NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN }, name .. " of order NaN")
    -- Ends at once, whatever comes.
    for _, n in ipairs { 1e5, 1e9, 2 ^ 53 + 2, 1e18, 1e300, INF } do
      expect.equal(#f(x, n), 9, name)
    end
  end
end)

test("polynomials of high orders keep to their bounds", function()
  local x = ml.linspace(-1, 1, 1001, { dtype = "float64" })
  local function distance(a, b) return (a - b):abs():max():item() end
  local theta = ml.acos(x)
  local t = ml.special.chebyshev_polynomial_t(x, 200)
  expect.truthy(distance(t, ml.cos(theta * 200)) < 1e-11)
  expect.equal(t:abs():max():item() <= 1, true)
  expect.truthy(ml.special.legendre_polynomial_p(x, 60000):abs():max():item() <= 1 + 1e-9)
  -- The differential equation's symmetry, and the ends.
  for _, n in ipairs { 7, 40, 999 } do
    local sign = n % 2 == 0 and 1 or -1
    local v, w = ml.special.chebyshev_polynomial_v, ml.special.chebyshev_polynomial_w
    expect.truthy(distance(v(x, n), w(-x, n) * sign) < 1e-9)
    near(w(double { 1, -1 }, n), { 2 * n + 1, sign }, "W")
    near(v(double { 1, -1 }, n), { 1, sign * (2 * n + 1) }, "V")
    near(ml.special.chebyshev_polynomial_u(double { 1, -1 }, n), { n + 1, sign * (n + 1) }, "U")
  end
  near(ml.special.chebyshev_polynomial_t(double { 2, -2, 30 }, 101),
    { 2.9219468050576242e57, -2.9219468050576242e57, 1.9057101196641117e179 }, "T beyond 1", 1e-12)
end)

test("gradients at 0 are finite", function()
  local x = double { 0, -1, 1 }:requires_grad_()
  local function gradient(f) return (ml.grad({ f(x):sum() }, { x })) end
  near(gradient(ml.sinc), { 0, 1, -1 }, "sinc", 1e-12)
  near(gradient(ml.special.i1), { 0.5, 0.70090677375952294, 0.70090677375952294 }, "i1")
  near(gradient(ml.special.i1e), { 0.5, 0.049938776894223539, 0.049938776894223539 }, "i1e", 1e-12)
  near(gradient(ml.special.bessel_j1), { 0.5, 0.32514710081303302, 0.32514710081303302 }, "j1")
  near(gradient(ml.special.entr), { INF, NAN, -1 }, "entr")
  local zero, y = double({ 0, 0, 1 }):requires_grad_(), double({ 0, -1, 2 }):requires_grad_()
  local by_x = ml.grad({ ml.xlogy(zero, y):sum() }, { zero })
  near(by_x, { 0, 0, math.log(2) }, "xlogy")
end)

test("what has no derivative says so", function()
  local a, x = double({ 1.5 }):requires_grad_(), double({ 2 }):requires_grad_()
  for name, message in pairs { gammainc = "igamma: has no derivative by x", gammaincc = "igammac: has no derivative by x",
    zeta = "zeta: has no derivative by x" } do
    local y = ml.special[name](a, x):sum()
    expect.error(function() y:backward() end, message)
    local by_other = ml.grad({ ml.special[name](a:detach(), x):sum() }, { x })
    expect.truthy(by_other:item() ~= 0, name)
  end
  expect.equal(ml.special.airy_ai(x).requires_grad, false)
  expect.equal(ml.special.legendre_polynomial_p(x, 3).requires_grad, false)
end)

test("the names of ml.special", function()
  local same = { exp2 = "exp2", expm1 = "expm1", erf = "erf", erfc = "erfc", erfinv = "erfinv", expit = "sigmoid",
    log1p = "log1p", logsumexp = "logsumexp", softmax = "softmax", log_softmax = "log_softmax", round = "round",
    sinc = "sinc", i0 = "i0", modified_bessel_i0 = "i0", digamma = "digamma", psi = "digamma", gammaln = "lgamma",
    polygamma = "polygamma", multigammaln = "mvlgamma", gammainc = "igamma", gammaincc = "igammac", logit = "logit",
    xlogy = "xlogy" }
  for name, plain in pairs(same) do expect.equal(ml.special[name], ml[plain], name) end
  expect.equal(ml.special.modified_bessel_i1, ml.special.i1)
end)

harness.run()
