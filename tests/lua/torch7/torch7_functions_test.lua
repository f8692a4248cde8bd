-- tests/lua/torch7/torch7_functions_test.lua: the functions of `require "torch"`: forms of calls, reductions,
-- sorting, joining, products, LAPACK, draws.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local torch = require "torch"
local test, expect = harness.test, harness.expect

test("forms that do not fit name what is expected", function()
  expect.error(function() torch.add(torch.Tensor(2), "a") end, "torch.add: expected arguments")
  expect.error(function() torch.add(torch.Tensor(2), torch.FloatTensor(2)) end,
    "got DoubleTensor FloatTensor")
  expect.error(function() torch.add(torch.Tensor(2), torch.Tensor(3)) end,
    "expected 2 elements, got 3")
  expect.error(function() torch.ByteTensor(2):log() end, "attempt to call")
end)

test("tensors of as many elements are combined", function()
  local x, y = torch.range(1, 6):resize(2, 3), torch.range(1, 6)
  expect.equal(torch.cmul(x, y):size():totable(), { 2, 3 })
  expect.equal(torch.cmul(x, y):sum(), 91.0)
end)

test("sums are numbers, or keep the dimension", function()
  local x = torch.Tensor { { 1, 2 }, { 3, 4 } }
  expect.equal({ x:sum(), x:mean(), x:prod(), x:max(), x:min() }, { 10.0, 2.5, 24.0, 4.0, 1.0 })
  expect.equal(x:sum(1):totable(), { { 4.0, 6.0 } })
  expect.equal(x:mean(2):totable(), { { 1.5 }, { 3.5 } })
  local values, positions = x:max(2)
  expect.equal({ values:totable(), positions:totable(), positions:type() },
    { { { 2.0 }, { 4.0 } }, { { 2 }, { 2 } }, "torch.LongTensor" })
  local r = torch.Tensor()
  torch.sum(r, x, 1)
  expect.equal(r:totable(), { { 4.0, 6.0 } })
  expect.near(x:std(), 1.2909944487358, 1e-12)
  expect.near(x:std(true), 1.1180339887499, 1e-12)
  expect.equal(x:norm(1), 10.0)
  expect.equal(torch.ByteTensor { 200, 100 }:sum(), 300)
  expect.error(function() x:sum(3) end, "dimension 3 is out of range of a 2D tensor")
end)

test("comparisons give bytes", function()
  local x = torch.Tensor { 1, 2, 3 }
  expect.equal({ x:gt(1):totable(), x:gt(1):type() }, { { 0, 1, 1 }, "torch.ByteTensor" })
  expect.equal(torch.eq(x, torch.Tensor { 1, 0, 3 }):totable(), { 1, 0, 1 })
  expect.equal(x:clone():le(x, 2):totable(), { 1.0, 1.0, 0.0 })
  expect.equal({ x:gt(0):all(), x:gt(2):all(), x:gt(2):any() }, { true, false, true })
end)

test("sorting", function()
  local x = torch.Tensor { { 3, 1, 2 }, { 5, 6, 4 } }
  local values, positions = torch.sort(x, 2, true)
  expect.equal(values:totable(), { { 3.0, 2.0, 1.0 }, { 6.0, 5.0, 4.0 } })
  expect.equal(positions:totable(), { { 1, 3, 2 }, { 2, 1, 3 } })
  expect.equal((x:topk(2)):totable(), { { 1.0, 2.0 }, { 4.0, 5.0 } })
  expect.equal((x:median()):totable(), { { 2.0 }, { 5.0 } })
  expect.equal((x:kthvalue(3)):totable(), { { 3.0 }, { 6.0 } })
  expect.equal(torch.nonzero(torch.ByteTensor { 0, 1, 1 }):totable(), { { 2 }, { 3 } })
end)

test("joining, splitting and gathering", function()
  local a, b = torch.ones(2, 2), torch.zeros(2, 1)
  expect.equal(torch.cat(a, b):totable(), { { 1.0, 1.0, 0.0 }, { 1.0, 1.0, 0.0 } })
  expect.equal(torch.cat({ a, torch.Tensor(), a }, 1):size(1), 4)
  expect.equal(torch.cat(torch.ones(2), torch.zeros(2), 2):size():totable(), { 2, 2 })
  expect.equal(#torch.range(1, 7):split(3), 3)
  expect.equal(torch.range(1, 7):chunk(2)[2]:totable(), { 5.0, 6.0, 7.0 })
  local x = torch.range(1, 6):resize(3, 2)
  local rows = torch.LongTensor { 3, 1 }
  expect.equal(x:index(1, rows):totable(), { { 5.0, 6.0 }, { 1.0, 2.0 } })
  x:indexFill(1, rows, 0)
  expect.equal(x:sum(), 7.0)
  expect.equal(torch.zeros(2, 3):scatter(2, torch.LongTensor { { 2 }, { 3 } }, 1):totable(),
    { { 0.0, 1.0, 0.0 }, { 0.0, 0.0, 1.0 } })
end)

test("views", function()
  local x = torch.range(1, 6)
  local y = x:view(2, -1)
  y[2][3] = 60
  expect.equal(x[6], 60.0)
  expect.error(function() y:t():view(6) end, "a contiguous tensor is expected")
  expect.error(function() x:view(4, 2) end, "Wrong size for view. Input size: 6. Output size: 4x2")
  expect.equal(torch.ones(1, 3):expand(2, 3):stride(1), 0)
  expect.error(function() x:expand(2, 6) end, "number of dimensions")
  expect.equal(torch.Tensor { 1, 2 }:repeatTensor(2, 2):totable(),
    { { 1.0, 2.0, 1.0, 2.0 }, { 1.0, 2.0, 1.0, 2.0 } })
  expect.equal(torch.ones(1, 1):squeeze(), 1.0)
  expect.equal(torch.zeros(2, 3, 4):permute(3, 1, 2):size():totable(), { 4, 2, 3 })
  expect.equal(torch.range(1, 4):unfold(1, 2, 2):totable(), { { 1.0, 2.0 }, { 3.0, 4.0 } })
end)

test("operators", function()
  local a, b = torch.Tensor { { 1, 2 }, { 3, 4 } }, torch.Tensor { 1, 1 }
  expect.equal((a * b):totable(), { 3.0, 7.0 })
  expect.equal(b * b, 2.0)
  expect.equal((2 * a - a / 2 + 1):totable(), { { 2.5, 4.0 }, { 5.5, 7.0 } })
  expect.equal((1 - b):totable(), { 0.0, 0.0 })
  expect.error(function() return a + torch.FloatTensor(2, 2) end, "two tensors of one type")
end)

test("products with a factor of what is there", function()
  local a, r = torch.eye(2), torch.ones(2, 2)
  r:addmm(0, 3, a, a)
  expect.equal(r:totable(), { { 3.0, 0.0 }, { 0.0, 3.0 } })
  r:addmm(a, a)
  expect.equal(r:totable(), { { 4.0, 0.0 }, { 0.0, 4.0 } })
  expect.equal(torch.addmv(1, torch.ones(2), 2, a, torch.ones(2)):totable(), { 3.0, 3.0 })
  expect.equal(torch.addmm(2, a, a, a):totable(), { { 3.0, 0.0 }, { 0.0, 3.0 } }, "beta, m, a, b")
  expect.equal(torch.ger(torch.ones(2), torch.range(1, 2)):totable(), { { 1.0, 2.0 }, { 1.0, 2.0 } })
end)

test("convolutions turn the kernel, correlations do not", function()
  local x, k = torch.range(1, 9):resize(3, 3), torch.Tensor { { 1, 0 }, { 0, 0 } }
  expect.equal(torch.xcorr2(x, k):totable(), { { 1.0, 2.0 }, { 4.0, 5.0 } })
  expect.equal(torch.conv2(x, k):totable(), { { 5.0, 6.0 }, { 8.0, 9.0 } })
  expect.equal(torch.conv2(x, k, "F"):size():totable(), { 4, 4 })
end)

test("LAPACK", function()
  local a = torch.Tensor { { 4, 1 }, { 1, 3 } }
  local x = torch.gesv(torch.Tensor { { 1 }, { 2 } }, a)
  expect.near((a * x):totable(), { { 1.0 }, { 2.0 } }, 1e-12)
  expect.near((torch.inverse(a) * a):totable(), { { 1.0, 0.0 }, { 0.0, 1.0 } }, 1e-12)
  local u = torch.potrf(a)
  expect.near((u:t() * u):totable(), a:totable(), 1e-12)
  local e, v = torch.symeig(a, "V")
  expect.near((v * torch.diag(e) * v:t()):totable(), a:totable(), 1e-12)
  local q, r = torch.qr(a)
  expect.near((q * r):totable(), a:totable(), 1e-12)
  local left, s, right = torch.svd(a)
  expect.near((left * torch.diag(s) * right:t()):totable(), a:totable(), 1e-12)
  expect.equal(left:isContiguous(), false, "by columns")
  expect.error(function() torch.inverse(torch.ones(2, 3)) end, "a square matrix is expected, got 2x3")
end)

test("draws", function()
  torch.manualSeed(1)
  local x = torch.rand(3)
  torch.manualSeed(1)
  expect.equal(torch.rand(3):equal(x), true)
  local state = torch.getRNGState()
  local y = torch.randn(5)
  torch.setRNGState(state)
  expect.equal(torch.randn(5):equal(y), true)
  local generator = torch.Generator()
  torch.manualSeed(generator, 3)
  local first = torch.random(generator, 1, 1000000)
  torch.manualSeed(generator, 3)
  expect.equal(torch.random(generator, 1, 1000000), first)
  for _ = 1, 20 do expect.equal(torch.uniform(0, 4) * 2 ^ 30 % 1, 0.0, "doubles of 32 bits") end
  local counts = torch.LongTensor(1000):random(1, 3)
  expect.equal({ counts:min(), counts:max() }, { 1, 3 })
  expect.equal(torch.randperm(5):sort():totable(), { 1.0, 2.0, 3.0, 4.0, 5.0 })
  local drawn = torch.multinomial(torch.Tensor { 0, 1, 0 }, 4, true)
  expect.equal(drawn:totable(), { 2, 2, 2, 2 })
end)

harness.run()
