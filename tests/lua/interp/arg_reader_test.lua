-- tests/lua/interp/arg_reader_test.lua: how ops take their arguments: positional, named, mixed, in
-- position, out, and what they say when a call is wrong.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect

local function shape(x) return tostring(x.shape) end

test("sizes come as arguments, as a table, with options", function()
  expect.equal(shape(ml.zeros(3, 4)), "(3, 4)")
  expect.equal(shape(ml.zeros({ 3, 4 })), "(3, 4)")
  expect.equal(shape(ml.zeros { 3, 4, dtype = ml.float64 }), "(3, 4)")
  expect.equal(shape(ml.zeros({ 3, 4 }, { dtype = "int64" })), "(3, 4)")
  expect.equal(ml.zeros { 2, dtype = ml.int8 }.dtype, "int8")
  expect.equal(ml.ones { 2, requires_grad = true }.requires_grad, true)
  expect.equal(shape(ml.zeros { size = { 2, 2 } }), "(2, 2)")
end)

test("dimensions are named or positional", function()
  local x = ml.ones(2, 3)
  expect.equal(shape(x:sum(1)), "(3,)")
  expect.equal(shape(x:sum(-1)), "(2,)")
  expect.equal(shape(x:sum { dim = { 1, 2 }, keepdim = true }), "(1, 1)")
  expect.equal(shape(x:sum(2, { keepdim = true })), "(2, 1)")
  expect.equal(shape(x:sum(2, true)), "(2, 1)")
  expect.equal(shape(x:sum { 2, keepdim = true }), "(2, 1)")
  expect.equal(x:sum():item(), 6.0)
end)

test("lists of tensors", function()
  local a, b = ml.ones(2, 2), ml.zeros(2, 2)
  expect.equal(shape(ml.cat({ a, b }, 2)), "(2, 4)")
  expect.equal(shape(ml.cat { a, b }), "(4, 2)")
  expect.equal(shape(ml.cat { a, b, dim = 2 }), "(2, 4)")
  expect.error(function() ml.cat({ a, 3 }) end, "item 2 of 'tensors' must be a tensor, got number")
end)

test("several results and overloads", function()
  local x = ml.tensor { { 1, 5, 2 }, { 7, 3, 9 } }
  expect.equal(x:max():item(), 9)
  local values, indices = x:max(2)
  expect.equal(values[2]:item(), 9)
  expect.equal(indices[1]:item(), 2)
  local kept = x:max { dim = 1, keepdim = true }
  expect.equal(shape(kept), "(1, 3)")
end)

test("in place and out return their tensor", function()
  local x = ml.ones(3)
  expect.truthy(x:add_(2) == x)
  expect.equal(x[1]:item(), 3.0)
  local y = ml.empty(3)
  expect.truthy(ml.add(x, 1, { out = y }) == y)
  expect.equal(y[3]:item(), 4.0)
end)

test("a dtype and a device come in either order, and alone", function()
  local x = ml.ones(2)
  for _, call in ipairs {
    function() return x:to("cpu", ml.float64) end, function() return x:to("float64", "cpu") end,
    function() return x:to "float64" end, function() return x:to("cpu", "float64", { non_blocking = true }) end,
    function() return x:to("cpu", { dtype = "float64", copy = true }) end, function() return ml.to(x, "cpu", "float64") end,
    function() return x:to(x:double(), { copy = true }) end,
    function() return x:to { "cpu", "float64", copy = true } end } do
    local y = call()
    expect.equal({ y.dtype, y.device, y == x }, { "float64", "cpu", false })
  end
  expect.truthy(x:to("cpu", "float32") == x and x:to "cpu" == x and x:to(x) == x)
  expect.truthy(x:to("cpu", "float32", { copy = true }) ~= x)
  -- As PyTorch has them behind: non_blocking, copy.
  for _, given in ipairs { { "cpu", "float32" }, { "cpu" }, { "float32" }, { ml.zeros(1) }, { "float32", "cpu" },
    { "float32", nil } } do
    local function call(...)
      local all = { table.unpack(given, 1, 2) }
      local count = given[2] and 2 or 1
      for i, value in ipairs { ... } do all[count + i] = value end
      return x:to(table.unpack(all, 1, count + select("#", ...)))
    end
    expect.truthy(call(true) == x and call(true, false) == x and call(false) == x)
    expect.truthy(call(false, true) ~= x and call(true, true) ~= x)
    expect.truthy(call(true, { copy = true }) ~= x)
    expect.error(function() call(true, { non_blocking = true }) end, "argument 'non_blocking' is given twice")
    expect.error(function() call(true, true, true) end, "to: ")
  end
  expect.truthy(x:to("float32", nil, true, true) ~= x and x:to("float32", nil, nil, true) ~= x)
  expect.equal(ml.ones(1, 1, 2, 2):to("float64", "cpu", "channels_last"):stride(), { 4, 1, 2, 1 })
  expect.equal(ml.zeros_like(x, "cpu", "int8").dtype, "int8")
  expect.error(function() x:to("cpu", "float63") end, "to: argument 'dtype': no dtype is named 'float63'")
  expect.error(function() x:to("cpu", "cpu") end, "to: argument 'dtype': no dtype is named 'cpu'")
  expect.error(function() x:to("float32", "float64") end, "to: argument 'device': no device is named 'float64'")
  expect.error(function() x:to("cpu", "float32", { device = "cpu" }) end, "argument 'device' is given twice")
end)

test("wrong calls are explained", function()
  local x = ml.ones(2, 3)
  expect.error(function() x:sum { dmi = 1 } end, "sum: unknown option 'dmi'; did you mean 'dim'")
  expect.error(function() x:sum(0) end, "dim 0: dimensions start at 1")
  expect.error(function() x:sum(3) end, "sum: dim 3 is out of range")
  expect.error(function() x:sum(1.5) end, "sum: argument 'dim' must")
  expect.error(function() x:matmul() end, "matmul: argument 'b' is missing; use: matmul%(a, b%)")
  expect.error(function() x:exp(1, 2) end, "too many arguments")
  expect.error(function() return x + "a" end, "must be a tensor or a number, got string a")
  expect.error(function() return x + {} end, "add:")
  expect.error(function() ml.exp("x") end, "exp: argument 'x' must be a tensor, got string x")
  expect.error(function() ml.zeros { 2, dtype = "float3" } end, "float3")
  expect.error(function() ml.zeros { 2, device = "tpu" } end, "no device is named 'tpu'")
  expect.error(function() ml.softmax(x, 1, { dim = 1 }) end, "given twice")
  expect.error(function() ml.zeros(-1) end, "cannot be negative")
  expect.error(function() ml.zeros(1 << 40, 1 << 40) end, "too large")
  expect.error(function() x:view(4) end, "view")
end)

test("the message begins with the script's line", function()
  local _, message = pcall(function() return ml.ones(2) + ml.ones(3) end)
  expect.truthy(message:find "arg_reader_test.lua:%d+: ")
end)

test("whole floats are integers", function()
  expect.equal(shape(ml.zeros(3.0)), "(3,)")
  expect.error(function() ml.zeros(3.5) end, "zeros")
end)

test("operators mix tensors and numbers", function()
  local x = ml.tensor { 1.0, 2.0 }
  expect.equal((2 - x)[1]:item(), 1.0)
  expect.equal((x / 2)[2]:item(), 1.0)
  expect.equal((-x)[1]:item(), -1.0)
  expect.equal((x ^ 2)[2]:item(), 4.0)
  expect.equal((ml.tensor { 1, 2 } + 1).dtype, "int64")
  expect.equal((ml.tensor { 1, 2 } + 1.5).dtype, "float32")
end)

test("a list that is no list of dims may have any length", function()
  local sizes, total = {}, 0
  for i = 1, 13 do
    sizes[i] = i % 3
    total = total + sizes[i]
  end
  local pieces = ml.arange(1, total):split(sizes)
  expect.equal(#pieces, 13)
  for i, piece in ipairs(pieces) do expect.equal(piece.shape[1], sizes[i]) end
  sizes[13] = 40
  expect.error(function() return ml.arange(1, total):split(sizes) end, "split: sizes %(1, 2, 0, .*40%)")
  local seven = ml.ones(1, 1, 1, 1, 1, 1, 1)
  local border = { 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0 }
  for _, mode in ipairs { "constant", "replicate" } do
    local padded = seven:pad(border, mode)
    expect.equal(padded:numel(), 2 ^ 7)
    expect.equal(padded:sum():item(), mode == "constant" and 1.0 or 128.0)
  end
  local x = ml.ones { 1, 1, 1, 1, 1, 1, 1, requires_grad = true }
  expect.equal(ml.grad(x:pad(border):sum(), x):item(), 1.0)
end)

test("random ops take a generator by name", function()
  expect.error(function() return ml.rand(3, { generator = 7 }) end, "rand: .*'generator'.*ml.Generator, got number")
  expect.error(function() return ml.randperm(3, nil, nil, io.stdout) end, "randperm: too many arguments")
  expect.equal(shape(ml.rand(3, 4, { generator = nil })), "(3, 4)")
  expect.equal(shape(ml.randint(1, 6, { 3, 4 })), "(3, 4)")
  expect.truthy(require "moonlet.help".text "rand":find "generator")
end)

test("only a close name is suggested", function()
  local nearest = require "moonlet.nearest"
  local known = { "std", "sum", "dim", "exp", "ReLU", "requires_grad", "nonzero" }
  expect.equal(nearest("std", known), "std")
  expect.equal(nearest("dmi", known), "dim")
  expect.equal(nearest("summ", known), "sum")
  expect.equal(nearest("relu", known), "ReLU")
  expect.equal(nearest("require_gard", known), "requires_grad")
  expect.equal(nearest("nonz", known), "nonzero")
  for _, far in ipairs { "svd", "exq", "s", "", "nonzzzz", ("x"):rep(1000) } do
    expect.equal(nearest(far, known), nil)
  end
  expect.error(function() return ml.nn.Conv2 end, "no field 'Conv2'; did you mean 'Conv2d'")
  local message = expect.error(function() return ml.xyzzy end, "no field 'xyzzy'")
  expect.truthy(not message:find("did you mean", 1, true))
end)

harness.run()
