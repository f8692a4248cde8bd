-- tests/lua/ops/functions_test.lua: functions of ml and nn.functional that are made of others, with
-- PyTorch's numbers: histograms, tensors on files, products of groups and of two dtypes.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local system = require "moonlet.system"
local test, expect = harness.test, harness.expect
local F = ml.nn.functional

local points = ml.tensor { { 0., 1 }, { 1, 0 }, { 2, 0 }, { 2, 2 } }
local weights = ml.tensor { 1., 2, 4, 8 }

local function lists(edges)
  local out = {}
  for d, each in ipairs(edges) do out[d] = each:totable() end
  return out
end

test("histogramdd: numbers of bins, weights, ranges, densities", function()
  local hist, edges = ml.histogramdd(points, { 3, 3 }, { weight = weights })
  expect.equal(hist:totable(), { { 0.0, 1, 0 }, { 2, 0, 0 }, { 4, 0, 8 } })
  expect.equal(hist.dtype, "float32")
  expect.near(lists(edges), { { 0, 2 / 3, 4 / 3, 2 }, { 0, 2 / 3, 4 / 3, 2 } }, 1e-6)
  hist, edges = ml.histogramdd(points, { 2, 3 }, { range = { 0, 1, 0, 3 }, density = true })
  expect.equal(hist:totable(), { { 0.0, 1, 0 }, { 1, 0, 0 } })
  expect.equal(lists(edges), { { 0.0, 0.5, 1 }, { 0.0, 1, 2, 3 } })
  hist = ml.histogramdd(points:reshape(2, 2, 2), 2, { weight = weights:reshape(2, 2),
    density = true })
  expect.near(hist:totable(), { { 0, 1 / 15 }, { 0.4, 8 / 15 } }, 1e-6)
  local solid = ml.tensor { { 1., 2, 3 }, { 2, 3, 4 }, { 1, 2, 4 } }
  expect.equal(ml.histogramdd(solid, { 2, 1, 3 }):totable(),
    { { { 1.0, 0, 1 } }, { { 0.0, 0, 1 } } })
end)

test("histogramdd: edges, and points of which there are none", function()
  local edges = { ml.tensor { 0., 1, 3 }, ml.tensor { 0., 2 } }
  expect.equal(ml.histogramdd(points, edges):totable(), { { 1.0 }, { 3.0 } })
  local hist, made = ml.histogramdd(ml.zeros(0, 2), { 2, 2 })
  expect.equal(hist:totable(), { { 0.0, 0 }, { 0.0, 0 } })
  expect.equal(lists(made), { { 0.0, 0.5, 1 }, { 0.0, 0.5, 1 } })
  local far = ml.tensor { { 0 / 0, 1 }, { 5, 1 }, { 1, 1 } }
  expect.equal(ml.histogramdd(far, edges):totable(), { { 0.0 }, { 1.0 } })
end)

test("histogramdd: what does not fit", function()
  local function wrong(pattern, ...)
    local given = table.pack(...)
    expect.error(function() return (ml.histogramdd(table.unpack(given, 1, given.n))) end, pattern)
  end
  wrong("'input' must be floating and", ml.ones(3), { 2 })
  wrong("'input' must be floating and", ml.arange(4):reshape(2, 2), { 2, 2 })
  wrong("'bins' has 1 entries for 2", points, { 2 })
  wrong("integers from 1 or edges", points, { 0, 2 })
  wrong("'bins'", points, 0)
  wrong("'range' has 2 numbers", points, 2, { range = { 0, 1 } })
  wrong("'weight' must hold 4", points, 2, { weight = ml.ones(3) })
  wrong("rising order", points, { ml.tensor { 1., 0 }, 2 })
  wrong("the range from", ml.full({ 2, 1 }, 1 / 0), { 2 })
end)

test("histogram: what does not fit, and the parts of vmap's samples", function()
  local x = ml.tensor { 1., 2, 1 }
  expect.error(function() return (x:histogram(0)) end, "bins is 0")
  expect.error(function() return (x:histogram(3, { 1 })) end, "range holds 1 numbers")
  expect.error(function() return (x:histogram(3, { 2, 1 })) end, "from 2 to 1 is empty")
  expect.error(function() return (x:histogram(3, { weight = ml.ones(2) })) end, "weight")
  expect.error(function() return (x:histogram(ml.tensor { 2., 1 })) end, "no rising order")
  expect.error(function() return (x:histogram(ml.ones(2, 2))) end, "one dimension")
  expect.error(function() return (ml.tensor({ 0 / 0 }):histogram(3)) end, "not finite")
  local hist = ml.tensor({ 2., 0 / 0 }):histogram(3, { 0, 3 })
  expect.equal(hist:totable(), { 0.0, 0, 1 })
  local each = ml.vmap(function(t) return (t:histogram(2, { 0, 4 })) end)
  expect.equal(each(ml.tensor { { 0., 1, 3 }, { 3, 4, 9 } }):totable(), { { 2.0, 1 }, { 0.0, 2 } })
  local own = ml.vmap(function(t) return t:histogram(2) end)
  local counts, edges = own(ml.tensor { { 0., 1, 3 }, { 3, 4, 9 } })
  expect.equal(counts:totable(), { { 2.0, 1 }, { 2.0, 1 } })
  expect.equal(edges:totable(), { { 0.0, 1.5, 3 }, { 3.0, 6, 9 } })
end)

test("from_file: private and shared", function()
  harness.with_temp_file(function(path)
    system.write_file(path, ("<fff"):pack(1, 2, 3), "test")
    local x = ml.from_file(path, { size = 2 })
    expect.equal(x:totable(), { 1.0, 2 })
    x:fill_(9)
    expect.equal(system.read_file(path, "test"), ("<fff"):pack(1, 2, 3))
    expect.error(function() return (ml.from_file(path, { size = 4 })) end, "from_file")
    local y = ml.from_file(path, true, 5, ml.int32)
    expect.equal(y.dtype, "int32")
    y:fill_(7)
    y:free()
    expect.equal(system.read_file(path, "test"), ("<i4"):pack(7):rep(5))
    expect.equal(#ml.from_file(path), 0)
    expect.error(function() return (ml.from_file(path .. ".none", { size = 1 })) end, "from_file")
    expect.error(function() return (ml.from_file(path, { size = -1 })) end, "'size'")
  end)
end)

test("softsign of complex and integer numbers", function()
  local y = F.softsign(ml.tensor { ml.complex(1, 1), ml.complex(0, -2) })
  expect.near(ml.view_as_real(y):totable(), { { 0.41421356, 0.41421356 }, { 0, -2 / 3 } }, 1e-6)
  expect.near(F.softsign(ml.tensor { 0, -1, 2 }):totable(), { 0, -0.5, 2 / 3 }, 1e-6)
end)

test("grouped_mm: groups of rows, of columns, and along what is summed", function()
  local a = ml.tensor({ { 1., 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 } }, { requires_grad = true })
  local b = ml.arange(1., 8.):reshape(2, 2, 2):requires_grad_()
  local ends = ml.tensor({ 1, 3 }, { dtype = ml.int32 })
  local y = F.grouped_mm(a, b, ends)
  expect.equal(y:totable(), { { 7.0, 10 }, { 43, 50 }, { 67, 78 }, { 0, 0 } })
  y:square():sum():backward()
  expect.equal(a.grad:totable(), { { 54.0, 122 }, { 1030, 1402 }, { 1606, 2186 }, { 0, 0 } })
  expect.equal(b.grad:totable(), { { { 14.0, 20 }, { 28, 40 } }, { { 928, 1080 }, { 1148, 1336 } } })
  local x = a:detach()
  expect.equal(F.grouped_mm(x:t(), x, ml.tensor { 1, 4 }):totable(),
    { { { 1.0, 2 }, { 2, 4 } }, { { 83, 98 }, { 98, 116 } } })
  local columns = F.grouped_mm(b:detach(), x:t(), ml.tensor { 1, 4 })
  expect.equal(columns:totable(), { { 5.0, 39, 61, 83 }, { 11, 53, 83, 113 } })
  expect.equal(F.grouped_mm(b, b):totable(), ml.bmm(b, b):totable())
  expect.equal(F.grouped_mm(x, b:detach(), ml.tensor { 0, 0 }):totable(), ml.zeros(4, 2):totable())
end)

test("grouped_mm: what does not fit", function()
  local a, b = ml.ones(4, 2), ml.ones(2, 2, 3)
  local function wrong(pattern, ...)
    local given = table.pack(...)
    expect.error(function() return (F.grouped_mm(table.unpack(given, 1, given.n))) end, pattern)
  end
  wrong("'offs' is expected", a, b)
  wrong("'offs' is expected", b:transpose(2, 3), b, ml.tensor { 1, 2 })
  wrong("2 matrices for 1 groups", a, b, ml.tensor { 4 })
  wrong("must rise", a, b, ml.tensor { 3, 2 })
  wrong("must rise", a, b, ml.tensor { 3, 5 })
  wrong("int32 or int64", a, b, ml.ones(2))
  wrong("one dtype", a, b:double(), ml.tensor { 1, 2 })
  wrong("do not fit", a, ml.ones(2, 3, 3), ml.tensor { 1, 2 })
  wrong("'bias' is not supported", a, b, ml.tensor { 1, 2 }, { bias = ml.ones(3) })
  wrong("'out_dtype'", a, b, ml.tensor { 1, 2 }, { out_dtype = "float64" })
end)

test("outer of two dtypes", function()
  local a = ml.tensor({ 1., 2 }, { requires_grad = true })
  local c = ml.tensor({ ml.complex(1, 2), ml.complex(3, 0) }, { requires_grad = true })
  ml.outer(a, c):abs():square():sum():backward()
  expect.near(a.grad:totable(), { 28, 56 }, 1e-5)
  expect.near(ml.view_as_real(c.grad):totable(), { { 10, 20 }, { 30, 0 } }, 1e-5)
  local d = ml.tensor({ 1., 2, 3 }, { dtype = ml.float64, requires_grad = true })
  a.grad = nil
  local y = ml.outer(a, d)
  expect.equal(y.dtype, "float64")
  y:square():sum():backward()
  expect.equal({ a.grad.dtype, a.grad:totable() }, { "float32", { 28.0, 56 } })
  expect.equal(d.grad:totable(), { 10.0, 20, 30 })
  local mask = ml.outer(ml.tensor { true, false }, ml.tensor({ 2, 3 }, { dtype = ml.uint8 }))
  expect.equal({ mask.dtype, mask:totable() }, { "uint8", { { 2, 3 }, { 0, 0 } } })
  local each = ml.vmap(function(v) return ml.outer(v, ml.tensor { 1, 2 }) end)(ml.ones(3, 2))
  expect.equal({ each.dtype, each.shape:totable() }, { "float32", { 3, 2, 2 } })
end)

test("how exact products of float32 are", function()
  expect.equal(ml.get_float32_matmul_precision(), "highest")
  for _, precision in ipairs { "medium", "high", "highest" } do
    ml.set_float32_matmul_precision(precision)
    expect.equal(ml.get_float32_matmul_precision(), precision)
    expect.equal(ml.mm(ml.full({ 1, 1 }, 1 + 2 ^ -20), ml.ones(1, 1)):item(), 1 + 2 ^ -20)
  end
  expect.error(function() ml.set_float32_matmul_precision "low" end, '"high" or "medium"')
  expect.error(function() ml.set_float32_matmul_precision(1) end, "expected, got number")
end)

harness.run()
