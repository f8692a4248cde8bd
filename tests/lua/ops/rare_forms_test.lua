-- tests/lua/ops/rare_forms_test.lua: forms of ops that few call: convolution and pooling of integers,
-- changes in place of what is empty, complex dropout, `out` of scattered changes, paddings that cut.
-- The numbers are PyTorch's.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local F = ml.nn.functional
local test, expect = harness.test, harness.expect

-- The shape, the sum, and the sum weighted by the position (from 0) of each element.
local function shows(y, shape, sum, weighted)
  expect.equal(tostring(y.shape), shape)
  local position = ml.arange(0, y:numel() - 1):view(y.shape)
  expect.equal({ y:sum():item(), (y * position):sum():item() }, { sum, weighted })
end

local function numbers(factor, size, less, ...)
  local count = 1
  for _, n in ipairs { ... } do count = count * n end
  return ((ml.arange(0, count - 1) * factor) % size - less):view(...)
end

local x = numbers(7, 23, 11, 2, 4, 5, 6)
local x3 = x:view(2, 2, 2, 5, 6)
local bias = ml.arange(0, 5) - 3

test("convolutions of integers are exact", function()
  local w = numbers(5, 11, 5, 6, 2, 3, 2)
  local y = F.conv2d(x, w, bias, { stride = { 2, 1 }, padding = { 1, 2 }, dilation = { 1, 2 }, groups = 2 })
  expect.equal(y.dtype, "int64")
  shows(y, "(2, 6, 3, 8)", -303, -42763)
  shows(F.conv1d(x[{ 1, {}, 1 }], w[{ {}, {}, {}, 1 }]:tile(1, 2, 1), bias, { stride = 2, padding = 1 }),
    "(6, 3)", 23, 842)
  shows(F.conv3d(x3, numbers(5, 11, 5, 3, 2, 2, 2, 3), nil, { stride = { 1, 2, 2 }, padding = { 1, 0, 1 } }),
    "(2, 3, 3, 2, 3)", -1278, -58006)
  local big = ml.tensor { { { (1 << 53) + 1, 1, -3 } } }
  expect.equal(F.conv1d(big, ml.tensor { { { 1, 2 } } }):flatten():tolist(), { 9007199254740995, -5 })
  for _, dtype in ipairs { "uint8", "int8", "int16", "int32" } do
    local small = F.conv2d(ml.ones(1, 1, 3, 3):to(dtype), ml.ones(1, 1, 2, 2):to(dtype), { padding = "same" })
    expect.equal(small.dtype, dtype)
    expect.equal(small:flatten():tolist(), { 4, 4, 2, 4, 4, 2, 2, 2, 1 })
  end
  local same = F.conv2d(x:double(), w:double(), bias:double(), { groups = 2 })
  expect.truthy(F.conv2d(x, w, bias, { groups = 2 }):double():equal(same))
  expect.truthy(ml.vmap(function(one) return F.conv2d(one, w, bias, { groups = 2 }) end)(x):double():equal(same))
  expect.error(function() F.conv2d(x, w) end, "conv2d: x has shape %(2, 4, 5, 6%)")
  expect.error(function() F.conv2d(x, w, ml.ones(5):long(), { groups = 2 }) end, "conv2d: bias has shape %(5,%)")
  expect.equal(tostring(F.conv2d(x[{ {}, {}, {}, {} }]:narrow(1, 1, 0), w, bias, { groups = 2 }).shape), "(0, 6, 3, 5)")
end)

test("transposed convolutions of integers are exact", function()
  local y = F.conv_transpose2d(x, numbers(5, 11, 5, 4, 3, 3, 2), bias,
    { stride = { 2, 3 }, padding = { 1, 0 }, output_padding = { 1, 2 }, groups = 2, dilation = { 2, 1 } })
  expect.equal(y.dtype, "int64")
  shows(y, "(2, 6, 12, 19)", -1366, 30394)
  shows(F.conv_transpose1d(x[1]:reshape(1, 4, 30), numbers(5, 11, 5, 4, 3, 2), nil, { stride = 2 }),
    "(1, 3, 60)", 25, 4160)
  shows(F.conv_transpose3d(x3, numbers(5, 11, 5, 2, 1, 2, 2, 2), nil, { stride = { 1, 2, 1 }, padding = { 0, 1, 1 } }),
    "(2, 1, 3, 8, 5)", -96, 19683)
end)

test("means of integers are rounded toward zero", function()
  shows(F.avg_pool2d(x, 2), "(2, 4, 2, 3)", 2, 189)
  shows(F.avg_pool2d(x, 3, 2, 1), "(2, 4, 3, 3)", 0, 5)
  shows(F.avg_pool2d(x, 3, 2, 1, { count_include_pad = false }), "(2, 4, 3, 3)", 0, -62)
  shows(F.avg_pool2d(x, 2, 3, { ceil_mode = true }), "(2, 4, 2, 2)", -1, -29)
  shows(F.avg_pool2d(x, 2, { divisor_override = 3 }), "(2, 4, 2, 3)", 0, 203)
  shows(F.avg_pool3d(x3, 2), "(2, 2, 1, 2, 3)", 0, 36)
  shows(F.avg_pool3d(x3, 2, { divisor_override = 3 }), "(2, 2, 1, 2, 3)", -2, 74)
  local window, options = { 2, 3, 3 }, { stride = { 1, 2, 2 }, padding = 1 }
  shows(F.avg_pool3d(x3, window, options), "(2, 2, 3, 3, 3)", 2, 92)
  options.count_include_pad = false
  shows(F.avg_pool3d(x3, window, options), "(2, 2, 3, 3, 3)", -1, -106)
  options.count_include_pad, options.ceil_mode = nil, true
  shows(F.avg_pool3d(x3, window, options), "(2, 2, 3, 3, 4)", 0, 261)
  expect.equal(F.avg_pool1d(ml.tensor { { -3, -4, 5, 6 } }:int(), 2):tolist(), { { -3, 5 } })
  expect.equal(F.max_pool2d(x, 2).dtype, "int64")
  expect.equal(F.lp_pool2d(ml.ones(1, 4, 4):long(), 2, 2).dtype, "float32")
  expect.equal(F.lp_pool2d(ml.ones(1, 2, 2):long() * 3, 2, 2):item(), 6.0)
end)

test("what is empty is changed in place as all else", function()
  local one, two = { "sin_", "exp_", "square_", "log1p_", "erf_", "softsign_", "abs_" },
    { "mul_", "div_", "pow_", "atan2_", "maximum_", "xlogy_", "hypot_" }
  for _, shape in ipairs { { 0 }, { 0, 3 }, { 2, 0 } } do
    for i, names in ipairs { one, two } do
      for _, name in ipairs(names) do
        local leaf = ml.zeros(shape, { requires_grad = true })
        local y = leaf * 1
        y[name](y, i == 2 and leaf * 2 or nil)
        y:sum():backward()
        expect.equal(tostring(leaf.grad.shape), tostring(leaf.shape), name)
      end
    end
  end
  local leaf = ml.zeros(0, { requires_grad = true })
  expect.error(function() leaf:exp_() end, "a leaf that requires grad cannot be changed in place")
end)

test("dropout of complex numbers", function()
  local z = ml.complex(ml.ones(40, 30), ml.ones(40, 30) * 2):requires_grad_()
  ml.manual_seed(3)
  local y = F.dropout(z, 0.25)
  expect.equal(y.dtype, "complex64")
  local kept = y.real:ne(0)
  expect.truthy(y:allclose(z:detach() * kept:float() / 0.75))
  local share = kept:float():mean():item()
  expect.truthy(share > 0.65 and share < 0.85)
  y:abs():sum():backward()
  expect.truthy(z.grad.real:ne(0):equal(kept))
  local channels = F.dropout1d(z:view(4, 10, 30), 0.5).real
  expect.truthy(channels:amin(3):equal(channels:amax(3)))
end)

test("scattered changes into a tensor that is given", function()
  local base, index, source = ml.zeros(3, 4), ml.tensor { 1, 3 }, ml.ones(2, 4)
  local out = ml.empty(0)
  local function fills(y, wanted)
    expect.truthy(rawequal(y, out) or y:data_ptr() == out:data_ptr())
    expect.truthy(out:equal(wanted))
    expect.equal(base:sum():item(), 0.0)
  end
  fills(ml.index_add(base, 1, index, source, { alpha = 2, out = out }), base:index_add(1, index, source, 2))
  fills(ml.index_add(base, 1, index, source, { out = out }), base:index_add(1, index, source))
  fills(ml.index_copy(base, 1, index, source, { out = out }), base:index_copy(1, index, source))
  fills(ml.index_reduce(base, 1, index, source, "amax", { out = out }), base:index_reduce(1, index, source, "amax"))
  local rows = ml.tensor { { 1, 2, 3, 1 } }
  fills(ml.scatter(base, 1, rows, source, { out = out }), base:scatter(1, rows, source))
  fills(ml.scatter(base, 1, rows, 2, { out = out }), base:scatter(1, rows, 2))
  fills(ml.scatter_add(base, 1, rows, source, { out = out }), base:scatter_add(1, rows, source))
  fills(ml.scatter_reduce(base, 1, rows, source, "sum", { out = out }), base:scatter_reduce(1, rows, source, "sum"))
  expect.equal(ml.bincount(ml.tensor { 1, 3, 3 }:to "uint8"):tolist(), { 1, 0, 2 })
  expect.equal(ml.bincount(ml.tensor { 1, 3, 3 }:to "int16", { minlength = 4 }):tolist(), { 1, 0, 2, 0 })
end)

test("replicate padding that cuts", function()
  local line = ml.tensor { { { 0., 1, 2, 3 } } }:requires_grad_()
  local function gives(pad, wanted)
    local y = F.pad(line, pad, { mode = "replicate" })
    expect.equal(y:flatten():tolist(), wanted)
    line.grad = nil
    y:sum():backward()
    for i = 1, 4 do
      local count = 0
      for _, each in ipairs(wanted) do count = count + (each == i - 1 and 1 or 0) end
      expect.equal(line.grad[{ 1, 1, i }]:item(), count)
    end
  end
  gives({ -1, 2 }, { 1., 2, 3, 3, 3 })
  gives({ -1, -1 }, { 1., 2 })
  gives({ -4, 1 }, { 3. })
  gives({ -5, 3 }, { 3., 3 })
  gives({ 2, -5 }, { 0. })
  gives({ 1, -4 }, { 0. })
end)

harness.run()
