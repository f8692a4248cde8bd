-- tests/public/numbers.lua: reports of values of ops; run.lua tells what a row holds.

return {
  { "pytorch#2470", 0.03125, "two numbers that differ by 1/4", "ml.tensor({ 2281.5, 2281.25 }):var(1)" },
  { "pytorch#44350", 0, "equal numbers have no variance, however large", "ml.tensor({ 3e38, 3e38, 3e38 }):var()" },
  { "pytorch#180156", true, "squares of 1e20 overflow, the result does not",
    "local x = ml.randn(1000) * 1e19 + 1e20 return math.abs(x:std():item() / x:double():std():item() - 1) < 1e-5" },
  { "pytorch#197089", true, "squares of 1e-30 underflow, the result does not",
    "local x = ml.randn(1000) * 1e-30 return math.abs(x:std():item() / x:double():std():item() - 1) < 1e-5" },
  { "pytorch#197089", true, "a mean of 1e5 and a deviation of 1",
    "local x = ml.randn(1000) + 1e5 return math.abs(x:var():item() / x:double():var():item() - 1) < 1e-6" },
  { "mlx#576", { "inf", "6.40761" }, "the larger term alone, also where it is infinite",
    [[local y = ml.logsumexp(ml.tensor { { inf, 2, 3 }, { 4, 5, 6 } }, 2)
      return { tostring(y[1]:item()), ("%.5f"):format(y[2]:item()) }]] },
  { "mlx#1467", { true, true }, "0 / 0 at every length, as in PyTorch",
    [[return { ml.softmax(ml.full({ 127 }, -inf), 1):isnan():all():item(),
        ml.softmax(ml.full({ 128 }, -inf), 1):isnan():all():item() }]] },
  { "mlx#4169", { math.log(0.5), math.log(0.5) }, "equal logits share the probability at any magnitude",
    "ml.log_softmax(ml.tensor { 1e20, 1e20 }, 1)" },
  { "NNlib.jl#68", { 0, 0, 1 }, "far logits must not overflow",
    "ml.softmax(ml.tensor { -1047, -981, 1891 } * 1.0, 1)" },
  { "pytorch#1036", 4, "an index counts along the dimension, not in memory",
    [[local x = ml.tensor { { 0, 1 }, { 0, 4 }, { 0, 1 }, { 0, 6 }, { 0, 0 } }
      return select(2, x[{ {}, 2 }]:max(1))]] },
  { "torch7#1001", { 0.25, 2 }, "the same for the minimum of a column",
    "local v, i = ml.tensor({ { 0, 0.5 }, { 0, 0.25 } })[{ {}, 2 }]:min(1) return { v, i }" },
  { "torch7#1012", { 1, true }, "the index that mode gives holds the mode",
    [[local a = ml.tensor { 0, 1, 1, 1, 0, 1, 1, 0, 0, 1 }
      local y, i = ml.mode(a)
      return { y, a[i:item()]:item() == 1 }]] },
  { "intel/torch#8", true, "columns of a matrix with more than 720 rows are copied right",
    [[local x = ml.rand(721, 10)
      return ml.equal(x:index_select(2, ml.arange(1, 10)), x)]] },
  { "mlverse/torch#278", 3, "indices count from 1", "select(2, ml.topk(ml.tensor { 1, 2, 9 }, 1))" },
  { "pytorch#69230", { 0 }, "PyTorch's documented value for a target of zero or below",
    "F.kl_div(ml.tensor { -0.5 }, ml.tensor { 0.0 }, { reduction = 'sum' })" },
}
