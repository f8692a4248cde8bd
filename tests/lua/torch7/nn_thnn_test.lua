-- tests/lua/torch7/nn_thnn_test.lua: THNN's functions that no layer of our own nn calls: gradients
-- by
-- finite differences, values where they are easily said.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
package.path = (arg[0]:match("^(.*)/") or ".") .. "/?.lua;" .. package.path
local harness = require "harness"
local torch = require "torch"
local THNN = require "nn.THNN"
local checks = require "nn_checks"
local test, expect = harness.test, harness.expect

local kernels = THNN.kernels["torch.DoubleTensor"]

torch.manualSeed(11)

-- A layer of functions: `forward` and `back` are what follows (input, output) and (input,
-- gradOutput,
-- gradInput) in a call, `accumulate` what follows (input, gradOutput). "y" stands for the output.
local function layer(name, forward, back, accumulate, parameters, gradients)
  local made = { output = torch.Tensor(), gradInput = torch.Tensor() }
  local function filled(list)
    local out = table.pack(table.unpack(list, 1, list.n))
    for i = 1, out.n do
      if out[i] == "y" then out[i] = made.output end
    end
    return table.unpack(out, 1, out.n)
  end
  function made:forward(input)
    kernels[name .. "_updateOutput"](input, self.output, filled(forward))
    return self.output
  end
  function made:accGradParameters(input, g, scale)
    if not accumulate then return end
    local list = table.pack(table.unpack(accumulate, 1, accumulate.n))
    list[list.n + 1] = scale
    kernels[name .. "_accGradParameters"](input, g, table.unpack(list, 1, list.n + 1))
  end
  function made:backward(input, g)
    kernels[name .. "_updateGradInput"](input, g, self.gradInput, filled(back))
    self:accGradParameters(input, g, 1)
    return self.gradInput
  end
  function made:zeroGradParameters()
    for _, g in ipairs(gradients or {}) do g:zero() end
  end
  function made:parameters() return parameters or {}, gradients or {} end
  return made
end

local p = table.pack

-- A weight and its gradient.
local function with_weights(...) return torch.randn(...), torch.zeros(...) end

local function simple(title, name, input, forward, back)
  test(title .. ": gradient", function()
    checks.layer(title, layer(name, forward, back or forward), input)
  end)
end

simple("GatedLinear", "GatedLinear", torch.randn(2, 6), p(2))
simple("ELU of the output", "ELU", torch.randn(3, 4), p(0.8, false), p("y", 0.8, false))
simple("SpatialAdaptiveAveragePooling", "SpatialAdaptiveAveragePooling", torch.randn(2, 3, 5, 6),
  p(2, 3), p())
simple("SpatialReflectionPadding", "SpatialReflectionPadding", torch.randn(2, 4, 5), p(1, 2, 3, 0))
simple("SpatialReplicationPadding", "SpatialReplicationPadding", torch.randn(1, 2, 4, 5), p(1, -2,
  3, 0))
simple("VolumetricReplicationPadding", "VolumetricReplicationPadding", torch.randn(2, 3, 2, 3),
  p(1, 2, 0, 1, 2, 1))
simple("VolumetricUpSamplingNearest", "VolumetricUpSamplingNearest", torch.randn(2, 2, 1, 3), p(2))
simple("VolumetricAveragePooling", "VolumetricAveragePooling", torch.randn(2, 4, 5, 6),
  p(2, 3, 2, 1, 2, 2, 1, 1, 0, true, false))
simple("VolumetricAveragePooling, padding counts", "VolumetricAveragePooling", torch.randn(1, 2, 4,
  5, 6),
  p(2, 3, 2, 2, 2, 2, 1, 1, 1, false, true))

-- These give their functions other arguments in the way back.
local function reordered(name, call)
  local f = kernels[name .. "_updateGradInput"]
  rawset(kernels, name .. "_updateGradInput", function(input, g, gradInput, ...)
    return call(f, input, g, gradInput, ...)
  end)
end

local function with_order(title, name, input, forward, call)
  test(title .. ": gradient in its order", function()
    local plain = kernels[name .. "_updateGradInput"]
    reordered(name, call)
    local l = layer(name, forward, p("y", table.unpack(forward, 1, forward.n)))
    local ok, message = pcall(checks.layer, title, l, input)
    rawset(kernels, name .. "_updateGradInput", plain)
    if not ok then error(message, 0) end
  end)
end

with_order("FeatureLPPooling", "FeatureLPPooling", torch.rand(2, 7):add(0.2), p(3, 3, 2, true),
  function(f, input, g, gradInput, y, ...) return f(g, input, y, gradInput, ...) end)
with_order("FeatureLPPooling, no batch", "FeatureLPPooling", torch.rand(7, 2):add(0.2), p(2, 2, 1,
  false),
  function(f, input, g, gradInput, y, ...) return f(g, input, y, gradInput, ...) end)
with_order("SpatialUpSamplingBilinear", "SpatialUpSamplingBilinear", torch.randn(1, 2, 3, 4), p(5,
  7),
  function(f, _, g, gradInput) return f(g, gradInput, 1, 2, 3, 4, 5, 7) end)
with_order("VolumetricUpSamplingTrilinear", "VolumetricUpSamplingTrilinear", torch.randn(1, 2, 2, 3,
  2),
  p(3, 5, 4), function(f, _, g, gradInput) return f(g, gradInput, 1, 2, 2, 3, 2, 3, 5, 4) end)

-- --- with indices -----------------------------------------------------------------------------

local function indexed(title, name, input, before, after, back)
  test(title .. ": gradient", function()
    local at = torch.LongTensor()
    local forward = p(table.unpack(before, 1, before.n))
    forward.n = forward.n + 1
    forward[forward.n] = at
    for i = 1, after.n do forward[forward.n + i] = after[i] end
    forward.n = forward.n + after.n
    checks.layer(title, layer(name, forward, back and back(at) or forward), input)
  end)
end

indexed("SpatialDilatedMaxPooling", "SpatialDilatedMaxPooling", torch.randn(1, 2, 7, 6), p(),
  p(2, 3, 1, 2, 1, 1, 2, 1, true))
indexed("SpatialAdaptiveMaxPooling", "SpatialAdaptiveMaxPooling", torch.randn(2, 5, 6), p(), p(2,
  3))
indexed("VolumetricMaxPooling", "VolumetricMaxPooling", torch.randn(1, 2, 4, 5, 4), p(),
  p(2, 2, 3, 2, 1, 2, 1, 0, 1, false))
indexed("VolumetricDilatedMaxPooling", "VolumetricDilatedMaxPooling", torch.randn(2, 4, 5, 4), p(),
  p(2, 2, 2, 1, 1, 2, 0, 0, 0, 2, 1, 1, false))
indexed("TemporalMaxPooling", "TemporalMaxPooling", torch.randn(2, 7, 3), p(), p(3, 2))
indexed("TemporalMaxPooling of one", "TemporalMaxPooling", torch.randn(7, 3), p(), p(2, 2))
indexed("SpatialFractionalMaxPooling", "SpatialFractionalMaxPooling", torch.randn(2, 7, 8), p(4, 3,
  2, 2),
  p(torch.rand(1, 2, 2)), function(at) return p(4, 3, 2, 2, at) end)
indexed("VolumetricFractionalMaxPooling", "VolumetricFractionalMaxPooling", torch.randn(1, 7, 8, 6),
  p(3, 4, 3, 2, 2, 2), p(torch.rand(1, 1, 3)), function(at) return p(3, 4, 3, 2, 2, 2, at) end)

test("unpooling puts values where the largest were, and takes their gradients there", function()
  local x = torch.randn(1, 2, 4, 4)
  local y, at, back = torch.Tensor(), torch.LongTensor(), torch.Tensor()
  kernels.SpatialMaxPooling_updateOutput(x, y, at, 2, 2, 2, 2, 0, 0, false)
  kernels.SpatialMaxUnpooling_updateOutput(y, back, at, 4, 4)
  checks.close(back:sum(), y:sum())
  checks.close(torch.cmul(back, back - x):abs():max(), 0)
  local g = torch.Tensor()
  kernels.SpatialMaxUnpooling_updateGradInput(y, x, g, at, 4, 4)
  checks.close((g - y):abs():max(), 0)
  local volume = torch.randn(2, 4, 4, 4)
  kernels.VolumetricMaxPooling_updateOutput(volume, y, at, 2, 2, 2, 2, 2, 2, 0, 0, 0, false)
  kernels.VolumetricMaxUnpooling_updateOutput(y, back, at, 4, 4, 4, 2, 2, 2, 0, 0, 0)
  checks.close(torch.cmul(back, back - volume):abs():max(), 0)
  kernels.VolumetricMaxUnpooling_updateGradInput(y, volume, g, at, 4, 4, 4, 2, 2, 2, 0, 0, 0)
  checks.close((g - y):abs():max(), 0)
end)

-- --- with weights -----------------------------------------------------------------------------

-- `buffers` nils stand for the memory that THNN's functions in C work in.
local function weighted(title, name, input, weight_sizes, bias_sizes, buffers, window, back_buffers)
  test(title .. ": gradients", function()
    local w, gw = with_weights(table.unpack(weight_sizes))
    local b, gb = nil, nil
    if bias_sizes then b, gb = with_weights(table.unpack(bias_sizes)) end
    local forward, back, accumulate = { w, b, n = 2 + buffers }, { w,
      n = 1 + (back_buffers or buffers) },
      { gw, gb, n = 2 + buffers }
    for i = 1, window.n do
      for _, list in ipairs { forward, back, accumulate } do list[list.n + i] = window[i] end
    end
    for _, list in ipairs { forward, back, accumulate } do list.n = list.n + window.n end
    checks.layer(title, layer(name, forward, back, accumulate, { w, b }, { gw, gb }), input)
  end)
end

weighted("SpatialDilatedConvolution", "SpatialDilatedConvolution", torch.randn(2, 3, 6, 7), { 2, 3,
  2, 3 },
  { 2 }, 2, p(3, 2, 1, 2, 1, 0, 2, 1), 1)
weighted("SpatialFullDilatedConvolution", "SpatialFullDilatedConvolution", torch.randn(2, 3, 3, 4),
  { 3, 2, 2, 3 }, { 2 }, 2, p(3, 2, 2, 1, 1, 0, 1, 2, 1, 0), 1)
weighted("SpatialDepthWiseConvolution", "SpatialDepthWiseConvolution", torch.randn(2, 3, 5, 6), { 2,
  3, 2, 3 },
  { 2, 3 }, 2, p(3, 2, 1, 2, 1, 0))
weighted("SpatialConvolutionMM, flat weight", "SpatialConvolutionMM", torch.randn(3, 5, 5), { 2,
  27 }, { 2 }, 2,
  p(3, 3, 1, 1, 1, 1))
weighted("SpatialConvolutionLocal", "SpatialConvolutionLocal", torch.randn(2, 3, 5, 6), { 4, 3, 2,
  3, 2, 3 },
  { 2, 4, 3 }, 2, p(3, 2, 2, 1, 1, 0, 6, 5, 3, 4))
weighted("VolumetricConvolution", "VolumetricConvolution", torch.randn(2, 4, 5, 4), { 3, 2, 2, 3,
  2 }, { 3 }, 2,
  p(1, 2, 1, 1, 0, 1), 1)
weighted("VolumetricConvolutionMM", "VolumetricConvolutionMM", torch.randn(1, 2, 4, 5, 4), { 3,
  24 }, nil, 1,
  p(2, 2, 3, 1, 2, 1, 1, 0, 1), 2)
weighted("VolumetricDilatedConvolution", "VolumetricDilatedConvolution", torch.randn(2, 4, 5, 6),
  { 2, 2, 2, 2, 2 }, { 2 }, 2, p(2, 2, 2, 1, 1, 1, 0, 1, 0, 2, 1, 2), 1)
weighted("VolumetricFullConvolution", "VolumetricFullConvolution", torch.randn(1, 2, 2, 3, 2),
  { 2, 3, 2, 3, 2 }, { 3 }, 2, p(1, 2, 2, 0, 1, 0, 0, 1, 1))
weighted("TemporalRowConvolution", "TemporalRowConvolution", torch.randn(2, 6, 3), { 3, 1, 2 },
  { 3 }, 2,
  p(2, 2, 1, false))
weighted("TemporalRowConvolution, features first", "TemporalRowConvolution", torch.randn(3, 6), { 3,
  1, 3 },
  { 3 }, 2, p(3, 1, 0, true))
weighted("SpatialSubSampling", "SpatialSubSampling", torch.randn(2, 3, 5, 6), { 3 }, { 3 }, 0, p(2,
  3, 2, 1))

test("TemporalSubSampling: gradients", function()
  local w, gw = with_weights(3)
  local b, gb = with_weights(3)
  checks.layer("TemporalSubSampling", layer("TemporalSubSampling", p(w, b, 2, 2, 3), p(w, 2, 2),
    p(gw, gb, 2, 2), { w, b }, { gw, gb }), torch.randn(2, 7, 3))
end)

test("SpatialConvolutionMap and its transposed form: gradients", function()
  local connections = torch.Tensor { { 1, 1 }, { 1, 2 }, { 3, 2 }, { 2, 4 } }
  local w, gw = with_weights(4, 2, 3)
  local b, gb = with_weights(4)
  local numbers = { connections, 3, 4, 2, 1 }
  local function check(name, input)
    checks.layer(name, layer(name, p(w, b, table.unpack(numbers)), p(w, b, table.unpack(numbers)),
      p(gw, gb, table.unpack(numbers)), { w, b }, { gw, gb }), input)
  end
  check("SpatialConvolutionMap", torch.randn(2, 3, 4, 5))
  check("SpatialFullConvolutionMap", torch.randn(3, 4, 5))
  -- Planes that the table does not name.
  check("SpatialConvolutionMap", torch.randn(5, 4, 5))
  check("SpatialFullConvolutionMap", torch.randn(2, 4, 4, 5))
  expect.error(function() check("SpatialConvolutionMap", torch.randn(2, 4, 5)) end,
    "SpatialConvolutionMap: an input of at least 3 planes is expected, got 2")
end)

test("SpatialAdaptiveAveragePooling gives the same bits for any layout", function()
  local input = torch.rand(4, 9, 8):float():transpose(2, 3)
  local y, z = torch.FloatTensor(), torch.FloatTensor()
  kernels.SpatialAdaptiveAveragePooling_updateOutput(input, y, 3, 3)
  kernels.SpatialAdaptiveAveragePooling_updateOutput(input:contiguous(), z, 3, 3)
  expect.equal((y - z):abs():max(), 0.0)
end)

test("PReLU: gradients, with one quotient and one for each plane", function()
  for _, case in ipairs { { 0, 1, torch.randn(2, 3) }, { 3, 3, torch.randn(2, 3, 2, 2) },
    { 3, 3, torch.randn(2, 3) }, { 3, 3, torch.randn(3) } } do
    local planes, count, input = table.unpack(case)
    local w, gw = torch.rand(count), torch.zeros(count)
    local input_only = layer("PReLU", p(w, planes), p(w, planes), nil)
    checks.layer("PReLU", input_only, input)
    local l = layer("PReLU", p(w, planes), p(w, planes), nil, { w }, { gw })
    function l:accGradParameters(x, g, scale)
      kernels.PReLU_accGradParameters(x, g, self.gradInput, w, gw, nil, nil, planes, scale)
    end
    checks.layer("PReLU", l, input)
  end
end)

test("RReLU: gradients between bounds in training, their mean in evaluation", function()
  local x, y, noise, g = torch.randn(400), torch.Tensor(), torch.Tensor(), torch.Tensor()
  kernels.RReLU_updateOutput(x, y, noise, 0.1, 0.3, true, false)
  local quotient = torch.cdiv(y, x)
  expect.equal(quotient[x:lt(0)]:min() >= 0.1 and quotient[x:lt(0)]:max() <= 0.3, true)
  checks.close(quotient[x:gt(0)]:min(), 1)
  kernels.RReLU_updateGradInput(x, torch.ones(400), g, noise, 0.1, 0.3, true, false)
  checks.close((g - quotient):abs():max(), 0, 1e-9)
  kernels.RReLU_updateOutput(x, y, noise, 0.1, 0.3, false, false)
  checks.close(torch.cdiv(y, x)[x:lt(0)]:mean(), 0.2, 1e-9)
end)

test("in place: the output is on the input's memory", function()
  local x, y, g = torch.Tensor { -1, 2 }, torch.Tensor(), torch.Tensor()
  kernels.Threshold_updateOutput(x, y, 0, 0, true)
  expect.equal(x:totable(), { 0.0, 2.0 })
  expect.equal(y:storage() == x:storage(), true)
  local back = torch.Tensor { 5, 6 }
  kernels.Threshold_updateGradInput(x, back, g, 0, 0, true)
  expect.equal(g:totable(), { 0.0, 6.0 })
  expect.equal(g:storage() == back:storage(), true)
  x = torch.Tensor { -1, 2 }
  kernels.ELU_updateOutput(x, y, 1, true)
  back = torch.ones(2)
  kernels.ELU_updateGradInput(x, back, g, y, 1, true)
  checks.close(g[1], math.exp(-1), 1e-9)
  checks.close(g[2], 1)
end)

-- --- sparse -----------------------------------------------------------------------------------

test("SparseLinear: as a product with zeros filled in", function()
  local w, b = torch.randn(3, 6), torch.randn(3)
  local entries = torch.Tensor { { 1, 2, 0.5 }, { 1, 6, -1 }, { 2, 2, 2 } }
  local dense = torch.zeros(2, 6)
  for i = 1, 3 do dense[entries[i][1]][entries[i][2]] = entries[i][3] end
  local y = torch.Tensor(2, 3)
  kernels.SparseLinear_updateOutput(entries, y, w, b)
  local expected = torch.mm(dense, w:t()):add(b:view(1, 3):expand(2, 3))
  checks.close((y - expected):abs():max(), 0)
  local pairs_form = torch.Tensor { { { 2, 0.5 }, { 6, -1 } }, { { 2, 2 }, { 0, 0 } } }
  kernels.SparseLinear_legacyUpdateOutput(pairs_form, y, w, b)
  checks.close((y - expected):abs():max(), 0)
  local g, gw, gb = torch.randn(2, 3), torch.zeros(3, 6), torch.zeros(3)
  kernels.SparseLinear_accGradParameters(entries, g, gw, gb, w, b, 0, 2)
  checks.close((gw - torch.mm(g:t(), dense):mul(2)):abs():max(), 0)
  checks.close(gb[1], 2 * (g[1][1] + g[2][1]))
  local before = w:clone()
  kernels.SparseLinear_updateParameters(w, b, gw, gb, entries, 0.5)
  checks.close((w - (before - gw * 0.5)):abs():max(), 0)
  kernels.SparseLinear_zeroGradParameters(gw, gb, entries)
  checks.close(gw:abs():sum() + gb:abs():sum(), 0)
  expect.error(function()
    kernels.SparseLinear_updateOutput(torch.Tensor { { 1, 7, 1 } }, y, w, b)
  end, "index 7 is not between 1 and 6")
end)

test("IndexLinear: as a product, and values normalized by the largest of their key", function()
  local w, b = torch.randn(5, 2), torch.randn(2)
  local keys, values = torch.LongTensor { 2, 5, 2 }, torch.Tensor { 0.5, -1, 2 }
  local sizes, y = torch.LongTensor { 2, 1 }, torch.Tensor()
  kernels.IndexLinear_updateOutput(keys, -1, values, sizes, sizes:cumsum(), y, w, b, torch.Tensor(),
    1)
  local dense = torch.Tensor { { 0, 0.5, 0, 0, -1 }, { 0, 2, 0, 0, 0 } }
  checks.close((y - torch.mm(dense, w):add(b:view(1, 2):expand(2, 2))):abs():max(), 0)
  local g, gw, gb = torch.randn(2, 2), torch.Tensor(), torch.zeros(2)
  kernels.IndexLinear_accGradParameters(keys, -1, values, sizes, sizes, g, gw, gb, w, b,
    torch.Tensor(), 0, 1)
  checks.close((gw[3] - g[2] * 2):abs():max(), 0)
  local before = w:clone()
  kernels.IndexLinear_updateParameters(gw, gb, w, b, keys, sizes, -1, 0, 0.1)
  checks.close((w - (before - torch.mm(dense:t(), g) * 0.1)):abs():max(), 0)
  local wide = torch.zeros(5, 6)
  wide:narrow(2, 5, 2):fill(1)
  local normalized = torch.Tensor()
  kernels.IndexLinear_updateOutput(keys, -1, values, sizes, sizes, y, wide, torch.zeros(2),
    normalized, 1)
  expect.equal(normalized:totable(), { 1.0, -1.0, 1.0 })
  expect.equal(wide[2][1], 2.0)
  kernels.IndexLinear_updateOutput(keys, -1, values, sizes, sizes, y, wide, torch.zeros(2),
    normalized, 0)
  expect.equal(normalized:totable(), { 0.25, -1.0, 1.0 })
end)

test("LookupTable_renorm: rows no longer than a norm", function()
  local w = torch.Tensor { { 3, 4 }, { 0.3, 0.4 }, { 30, 40 } }
  kernels.LookupTable_renorm(torch.LongTensor { 1, 2, 1 }, w, 1, 2)
  checks.close(w[1]:norm(), 1, 1e-6)
  checks.close(w[2]:norm(), 0.5, 1e-9)
  checks.close(w[3]:norm(), 50, 1e-9)
end)

test("functions by name and type; names that are none", function()
  local y = torch.FloatTensor()
  THNN.runKernel("Abs_updateOutput", "torch.FloatTensor", torch.FloatTensor { -2 }, y)
  expect.equal(y[1], 2.0)
  expect.equal(torch.FloatTensor().THNN.Abs_updateOutput ~= nil, true)
  expect.equal(torch.LongTensor().THNN, nil)
  expect.equal(kernels.Nothing_updateOutput, nil)
  expect.error(function() THNN.runKernel("Nothing_updateOutput", "torch.FloatTensor") end,
      "no function")
  expect.error(function() THNN.runKernel("Abs_updateOutput", "torch.LongTensor") end,
      "no functions")
  expect.equal(#THNN.names() > 60, true)
  for _, name in ipairs(THNN.names()) do
    local f = kernels[name .. "_updateOutput"] or kernels[name .. "_accGradParameters"]
    expect.equal(f ~= nil, true, name)
  end
end)

test("errors name the function and what was expected", function()
  local y = torch.Tensor()
  expect.error(function() kernels.SpatialMaxPooling_updateOutput(torch.randn(4), y,
    torch.LongTensor(), 2, 2, 2, 2) end,
    "SpatialMaxPooling: a tensor of 3 or 4 dimensions is expected, got 1")
  expect.error(function() kernels.TemporalConvolution_updateOutput(torch.randn(2, 3), y, nil, nil,
    4, 1, 3) end,
    "at least 4 frames")
  expect.error(function() kernels.SpatialReflectionPadding_updateOutput(torch.randn(1, 3, 3), y, 3,
    0, 0, 0) end,
    "padding less than the size 3")
  expect.error(function() kernels.GatedLinear_updateOutput(torch.randn(3), y, 1) end, "even")
end)

harness.run()
