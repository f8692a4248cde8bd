-- tests/lua/ops/agreement_test.lua: calls with other dtypes and shapes than the samples of the rows: what
-- PyTorch computes, and what it refuses. tests/fuzz/torch_calls.lua finds such calls.

local here = arg[0]:match("^(.*)/") or "."
package.path = here .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local F = ml.nn.functional

test("functions of integers compute in float32", function()
  local x = ml.tensor({ -3, 1 }, { dtype = "int64" })
  expect.near(F.softsign(x):tolist(), { -0.75, 0.5 })
  expect.near(F.tanhshrink(x):tolist(), { -2.0049452781677246, 0.23840582370758057 }, 1e-6)
  local planes = ml.tensor({ { { 1, 2 }, { 3, 4 } } }, { dtype = "int64" })
  expect.truthy(ml.equal(F.local_response_norm(planes, 2), F.local_response_norm(planes:float(), 2)))
  local a, b = ml.tensor({ { 1, 2 }, { 3, 4 } }, { dtype = "int64" }), ml.tensor({ { 1, 5 }, { 3, 8 } }, { dtype = "int64" })
  expect.near(F.pairwise_distance(a, b):tolist(), { 2.9999990463256836, 3.9999990463256836 }, 1e-6)
end)

test("distances of complex vectors are real", function()
  local a, b = ml.complex(ml.tensor { { 1.0, 2 } }, ml.tensor { { 2.0, 0 } }),
    ml.complex(ml.tensor { { 1.0, 5 } }, ml.tensor { { 0.0, 1 } })
  local y = F.pairwise_distance(a, b)
  expect.equal(y.dtype, "float32")
  expect.near(y:tolist(), { 3.741656541824341 }, 1e-6)
end)

test("interpolate takes images of bytes", function()
  local x = ml.tensor({ { { { 0, 100 }, { 200, 255 } } } }, { dtype = "uint8" })
  local y = F.interpolate(x, { size = { 2, 4 }, mode = "bilinear" })
  expect.equal(y.dtype, "uint8")
  expect.near(y:reshape(-1):tolist(), { 0, 25, 75, 100, 200, 214, 241, 255 })
  -- PyTorch computes with weights of 16 bits, which may be 1 off.
  expect.near(F.interpolate(x, { size = { 2, 4 }, mode = "bicubic" }):reshape(-1):tolist(),
    { 0, 23, 77, 111, 194, 212, 243, 255 }, 1)
  expect.error(function() return F.interpolate(x:to "int32", { size = { 2, 4 }, mode = "bilinear" }) end,
    "uint8 and floating dtypes")
end)

test("what PyTorch refuses", function()
  local x = ml.randn(4, 3)
  for _, stats in ipairs { { ml.tensor(0.0), ml.ones(3) }, { ml.zeros(3), ml.ones(1) } } do
    expect.error(function() return F.batch_norm(x, stats[1], stats[2]) end, "%(3,%) is expected")
  end
  expect.error(function() return F.batch_norm(x, ml.zeros(3), ml.ones(3), ml.tensor(2.0)) end, "weight has shape %(%)")
  expect.error(function() return F.batch_norm(x, ml.zeros(3), ml.ones(3), nil, ml.ones(1, 3)) end, "bias has shape")
  expect.error(function() return F.lp_pool2d(ml.randn(1, 1, 4, 4), 0, 2) end, "norm_type is 0")
  local p = ml.randn(5, 2, 4):log_softmax(3)
  expect.error(function() return F.ctc_loss(p, ml.tensor({ 2, 3, 3, 4 }, { dtype = "int64" }), { 5, 5 }, { 2, 1 }) end,
    "targets has 4 labels, and the lengths of the targets add up to 3")
  -- Those of one sequence may be longer than its length says.
  local one = ml.tensor({ 2, 3, 3 }, { dtype = "int64" })
  local short = F.ctc_loss(p[{ {}, 1 }], one, { 5 }, { 2 })
  expect.near(short:item(), F.ctc_loss(p[{ {}, 1 }], one[{ { 1, 2 } }], { 5 }, { 2 }):item(), 1e-6)
end)

test("losses and sums of tensors that broadcast", function()
  local x, target = ml.tensor { { 0.5 }, { 1.0 } }, ml.tensor { { 0.0, 1.0 }, { 1.0, 1.0 } }
  expect.near(F.multilabel_soft_margin_loss(x, target):item(), 1.0373387336730957, 1e-6)
  local a = ml.arange(1, 6):reshape(2, 3):float()
  expect.equal(ml.tensordot(a, ml.tensor { { 1.0, 2.0 } }, { 2 }, { 1 }):tolist(), { { 6, 12 }, { 15, 30 } })
  local wide = ml.tensor({ { 1, 2 }, { 3, 4 } }, { dtype = "float64" })
  expect.equal(ml.addr(wide, ml.ones(2), ml.ones(2), { beta = 0.5 }).dtype, "float64")
  local third = ml.tensor { 1 / 3, 1 }
  expect.equal(ml.addr(wide, third, third)[1][1]:item(), 1 + third:double()[1]:item() ^ 2)
  local marks = ml.tensor { true, false }
  expect.equal(ml.addr(ml.zeros(2, 2), marks, ml.tensor { 3.0, 4.0 }):tolist(), { { 3, 4 }, { 0, 0 } })
end)

test("cov of half types with weights of float32", function()
  local x = ml.tensor({ { 1, 2, 4 }, { 2, 1, 7 } }, { dtype = "float16" })
  local c = ml.cov(x, { aweights = ml.tensor { 1.0, 2.0, 3.0 } })
  expect.equal(c.dtype, "float32")
  expect.near(c:reshape(-1):tolist(), { 2.409090995788574, 5.2272725105285645, 5.227272987365723, 13.318180084228516 }, 1e-3)
end)

test("embedding_bag counts a negative padding_idx from the end", function()
  local w, at = ml.arange(1, 6):reshape(3, 2):float(), ml.tensor({ 1, 3, 2 }, { dtype = "int64" })
  local first = ml.tensor({ 1 }, { dtype = "int64" })
  expect.equal(F.embedding_bag(at, w, first, { mode = "sum", padding_idx = -1 }):tolist(), { { 4, 6 } })
  expect.error(function() return F.embedding_bag(at, w, first, { mode = "sum", padding_idx = 4 }) end, "padding_idx")
  expect.error(function() return F.embedding_bag(at, w:to "int64", first) end, "floating one is expected")
end)

test("quantiles of ranks that float32 holds by chance", function()
  expect.near(ml.quantile(ml.arange(0, 5):float(), 0.2, { interpolation = "midpoint" }):item(), 1.5)
end)

harness.run()
