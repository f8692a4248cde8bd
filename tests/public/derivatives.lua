-- tests/public/derivatives.lua: reports of derivatives; run.lua tells what a row holds.

return {
  { "pytorch#196701", { 144 }, "d2/dt2 of a product of six factors at t = 1, of which one is zero there",
    [[local function f(t)
        local x = ml.stack({ t, t + 1, 2 - t, t - 1, 2 * t + 1, t + 3 }, 1):reshape(2, 3)
        return (x:cumprod(2) * double { { 1, 2, 3 }, { 4, 5, 6 } }):sum()
      end
      local one = double(1.0)
      local function first(t) local _, d = func.jvp(f, { t }, { ml.ones_like(t) }) return d end
      local _, second = func.jvp(first, { one }, { ml.ones_like(one) })
      return second]] },
  { "pytorch#196701", { 144 }, "the same, forward over reverse",
    [[func.hessian(function(t)
        local x = ml.stack({ t, t + 1, 2 - t, t - 1, 2 * t + 1, t + 3 }, 1):reshape(2, 3)
        return (x:cumprod(2) * double { { 1, 2, 3 }, { 4, 5, 6 } }):sum()
      end)(double(1.0))]] },
  { "pytorch#196701", { 10, 1 }, "the Hessian of x1 x2 is { { 0, 1 }, { 1, 0 } }",
    "select(2, func.jvp(func.grad(function(x) return x[1] * x[2] end), { double { 2, 3 } }, { double { 1, 10 } }))" },
  { "pytorch#196701", { 10, 101, 10 }, "f = t1 t2 + t2 t3, by two slices that share t2",
    [[select(2, func.jvp(func.grad(function(t) return (t[{ { 1, 2 } }] * t[{ { 2, 3 } }]):sum() end),
        { double { 2, 3, 5 } }, { double { 1, 10, 100 } }))]] },
  { "pytorch#76523", { { 0, 3, 2 }, { 3, 0, 5 }, { 2, 5, 0 } }, "second derivatives of a product leave two factors out",
    [[func.jacrev(func.jacrev(function(s)
        return ml.ones(1, { dtype = ml.float64 }):scatter_reduce(1, ml.tensor { 1, 1, 1 }, s, "prod"):sum()
      end))(double { 5, 2, 3 })]] },
  { "pytorch#77382", { { 0, 3, 2 }, { 3, 0, 0 }, { 2, 0, 0 } }, "the same with a factor of zero",
    [[func.jacrev(func.jacrev(function(s)
        return ml.ones(1, { dtype = ml.float64 }):index_reduce(1, ml.tensor { 1, 1, 1 }, s, "prod"):sum()
      end))(double { 0, 2, 3 })]] },
  { "pytorch#773", { 6, 0, 0 }, "each derivative of a product is the product of the others",
    "gradient(function(x) return x:prod() end, { 0, 2, 3 })" },
  { "pytorch#82644", { 1 }, "the product of one number is that number",
    "gradient(function(x) return x:prod(1) end, { 0.0 })" },
  { "tensorflow#3862", { 1 }, "cumprod of one number is that number",
    "gradient(function(x) return x:cumprod(1) end, { 0.0 })" },
  { "pytensor#1911", { 9, 2, 0 }, "f = x + x y + x y z at (2, 0, 3)",
    "gradient(function(x) return x:cumprod(1) * ml.tensor { 9, 1, 1 } end, { 2.0, 0.0, 3.0 }) * ml.tensor { 1, 0.25, 1 }" },
  { "pytorch#31782", { 2, 0 }, "an empty tensor has an empty gradient",
    "gradient(function(x) return x:cumprod(-1) end, ml.zeros(2, 0):tolist()).shape:tolist()" },
  { "pytorch#2721", { 0, 0 }, "zero is a subgradient of the norm at zero",
    "gradient(function(x) return x:norm() end, { 0.0, 0.0 })" },
  { "pytorch#36493", { false }, "a difference of zero has the subgradient zero also where p < 1",
    "ml.isnan(gradient(function(x) return ml.cdist(x, ml.zeros(1, 2), { p = 0.5 }) end, { { 1.0, 0.0 } })):any()" },
  { "pytorch#37154", { 0, 0 }, "two equal points are at a distance of zero, whose subgradient is zero",
    "gradient(function(x) return ml.cdist(x, ml.ones(1, 2)) end, { { 1.0, 1.0 } })" },
  { "pytorch#49724", { 0, 0, 1 }, "log(0 + 0 + exp(2)) depends on its last term alone",
    [[local a, b, c = leaf(-inf), leaf(-inf), leaf(2.0)
      ml.logaddexp(ml.logaddexp(a, b), c):backward()
      return { a.grad, b.grad, c.grad }]] },
  { "pytorch#31829", { 0, 0, 1 }, "the softmax of { -inf, -inf, 0.5 }",
    "gradient(function(x) return ml.logsumexp(x, 1) end, { -inf, -inf, 0.5 })" },
  { "functorch#597", { true }, "transforms in one another agree: vmap of hessian, and of jacrev of jacrev",
    [[local a, x = ml.randn(3, 2, 2), ml.randn(3, 4, 2)
      local function loss(m, y) return ((y - m:matmul(y:t()):t()) ^ 2):sum() end
      local one = func.vmap(func.jacrev(func.jacrev(loss)))(a, x)
      return ml.allclose(one, func.vmap(func.hessian(loss))(a, x), { rtol = 1e-4, atol = 1e-4 })]] },
  { "functorch#847", { true }, "the Jacobian under vmap is that of each sample",
    [[local x = ml.rand(5, 3)
      local jacobian = func.jacrev(function(v) return v:norm() end)
      local each = {}
      for i = 1, 5 do each[i] = jacobian(x[i]) end
      return ml.allclose(func.vmap(jacobian)(x), ml.stack(each))]] },
  { "functorch#501", { 0 }, "trace is linear",
    "func.vmap(func.hessian(function(m) return ml.trace(m) end))(ml.randn(2, 3, 3)):abs():max()" },
  { "pytorch#124533", { true }, "jvp gives the value that the plain call gives",
    [[local x = ml.randn(4, 8)
      local y = func.jvp(function(t) return F.layer_norm(t, { 8 }) end, { x }, { ml.ones_like(x) })
      return ml.equal(y, F.layer_norm(x, { 8 }))]] },
}
