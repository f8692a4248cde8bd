-- tests/lua/files/onnx_ops_test.lua: single ops of ONNX files against onnxruntime's numbers
-- (tests/reference/values/onnx_ops.json), gradients through them, what the specification says where
-- onnxruntime does otherwise, and errors.

local here = arg[0]:match("^(.*)/") or "."
package.path = here .. "/../?.lua;" .. package.path
local dtypes = require "moonlet.onnx.dtypes"
local harness = require "harness"
local json = require "moonlet.json"
local ml = require "moonlet"
local system = require "moonlet.system"
local w = require "onnx_writer"
local test, expect = harness.test, harness.expect

local INF, NAN = math.huge, 0 / 0
local SPECIAL = { inf = INF, ["-inf"] = -INF, nan = NAN }

-- --- models of one node -----------------------------------------------------------------------

-- A model of one node: `inputs` are tensors or false, `outputs` names or how many there are.
local function model_of(op, inputs, outputs, attributes, opset, domain, options)
  local names, values, results, given = {}, {}, {}, {}
  for i, x in ipairs(inputs) do
    names[i] = x and "i" .. i or ""
    if x then
      values[#values + 1] = w.value("i" .. i, dtypes.codes[x.dtype])
      given[#given + 1] = x
    end
  end
  if type(outputs) ~= "table" then
    local count = outputs or 1
    outputs = {}
    for i = 1, count do outputs[i] = "o" .. i end
  end
  for _, name in ipairs(outputs) do
    if name ~= "" then results[#results + 1] = w.value(name, 0) end
  end
  local graph = w.graph({ w.node(op, names, outputs, attributes, domain) }, values, results)
  local opsets = { [""] = opset or 17 }
  if domain then opsets[domain] = 1 end
  local loaded
  harness.with_temp_file(function(path)
    local file = assert(io.open(path .. ".onnx", "wb"))
    file:write(w.model(graph, opsets)):close()
    local ok, result = pcall(ml.onnx.load, path .. ".onnx",
      options or { index_inputs = {}, index_outputs = {} })
    os.remove(path .. ".onnx")
    if not ok then error(result, 0) end
    loaded = result
  end)
  return loaded, given
end

local function run(...)
  local model, given = model_of(...)
  return model(table.unpack(given))
end

local function microsoft(op, inputs, outputs, attributes)
  return run(op, inputs, outputs, attributes, 17, "com.microsoft")
end

local function same(got, want, what)
  expect.equal(got.dtype, want.dtype, what)
  expect.equal(tostring(got.shape), tostring(want.shape), what)
  local a, b = got:detach():double(), want:double()
  if not ml.allclose(a, b, { rtol = 1e-4, atol = 2e-5, equal_nan = true }) then
    error(("%s: %s, not %s"):format(what, tostring(a), tostring(b)), 0)
  end
end

-- --- onnxruntime's numbers --------------------------------------------------------------------

local function decode(entry)
  if not entry then return false end
  local values = {}
  for i, value in ipairs(entry.values) do values[i] = SPECIAL[value] or value end
  local flat = #values > 0 and ml.tensor(values, { dtype = entry.dtype })
    or ml.zeros(0, { dtype = entry.dtype })
  return flat:reshape(entry.shape)
end

local function check(case, what)
  local inputs, outputs, wanted = {}, {}, {}
  for i, entry in ipairs(case.inputs) do inputs[i] = decode(entry) end
  for i, entry in ipairs(case.outputs) do
    outputs[i] = entry and "o" .. i or ""
    if entry then wanted[#wanted + 1] = decode(entry) end
  end
  local domain = case.domain ~= "" and case.domain or nil
  local got = table.pack(run(case.op, inputs, outputs, case.attributes, case.opset, domain))
  expect.equal(got.n, #wanted, what)
  for i, want in ipairs(wanted) do same(got[i], want, ("%s, output %d"):format(what, i)) end
end

local families, order = {}, {}
for i, case in ipairs(json.decode(system.read_file(here .. "/../../reference/values/onnx_ops.json"))) do
  local name = case.domain == "" and case.op or case.domain .. " " .. case.op
  if not families[name] then families[name], order[#order + 1] = {}, name end
  table.insert(families[name], { case, ("%s (row %d)"):format(case.op, i) })
end
for _, name in ipairs(order) do
  test("as onnxruntime computes it: " .. name, function()
    for _, one in ipairs(families[name]) do check(one[1], one[2]) end
  end)
end

-- --- gradients --------------------------------------------------------------------------------

-- All inputs of floats are free, but the one of number `fixed`.
local function differentiable(name, op, inputs, attributes, opset, domain, fixed)
  test("gradients flow through " .. name, function()
    local doubles = {}
    for i, x in ipairs(inputs) do
      local float = x and x:is_floating_point()
      doubles[i] = float and x:double():clone():requires_grad_(i ~= fixed) or x
    end
    local model, given = model_of(op, doubles, 1, attributes, opset, domain)
    local free = {}
    for _, x in ipairs(given) do
      if x.requires_grad then free[#free + 1] = x end
    end
    local function f(...)
      local at, all = 0, {}
      for i, x in ipairs(given) do
        if x.requires_grad then at = at + 1 end
        all[i] = x.requires_grad and select(at, ...) or x
      end
      return (model(table.unpack(all)))
    end
    expect.truthy(ml.autograd.gradcheck(f, free, { atol = 1e-4, rtol = 1e-3 }))
  end)
end

ml.manual_seed(11)
local lengths = ml.tensor({ 2, 3 }, { dtype = ml.int32 })
differentiable("an LSTM with lengths and peepholes", "LSTM", { ml.randn(3, 2, 2), ml.randn(1, 8, 2),
  ml.randn(1, 8, 2), ml.randn(1, 16), lengths, ml.randn(1, 2, 2), ml.randn(1, 2, 2), ml.randn(1, 6) },
  { hidden_size = 2 })
differentiable("a GRU that resets before its product", "GRU", { ml.randn(3, 2, 2), ml.randn(2, 6, 2),
  ml.randn(2, 6, 2) }, { hidden_size = 2, direction = "bidirectional" })
differentiable("BatchNormalization in training mode", "BatchNormalization", { ml.randn(4, 2, 2),
  ml.randn(2), ml.randn(2), ml.zeros(2), ml.ones(2) }, { training_mode = 1 }, 15)
differentiable("Attention", "Attention", { ml.randn(1, 2, 3, 2), ml.randn(1, 1, 3, 2),
  ml.randn(1, 1, 3, 2) }, { is_causal = 1 }, 23)
differentiable("RoiAlign", "RoiAlign", { ml.randn(1, 2, 5, 5), ml.tensor { { 0.5, 1, 4, 3 } }, ml.tensor { 0 } },
  { output_height = 2, output_width = 2 }, 17, nil, 2)
differentiable("Resize", "Resize", { ml.randn(1, 1, 3, 4), false,
  ml.tensor { 1, 1, 2, 1.5 } }, { mode = "cubic" }, 19, nil, 3)
differentiable("DeformConv", "DeformConv", { ml.randn(1, 2, 4, 4), ml.randn(2, 2, 2, 2),
  ml.rand(1, 8, 3, 3) * 0.8 + 0.1, ml.randn(2) }, {}, 19)
differentiable("Col2Im", "Col2Im", { ml.randn(1, 8, 6), ml.tensor { 3, 4 }, ml.tensor { 2, 2 } }, {}, 18)
differentiable("LpPool", "LpPool", { ml.rand(1, 1, 5) + 0.5 }, { kernel_shape = { 2 }, p = 3 })
differentiable("a scatter that takes the greatest", "ScatterND", { ml.randn(3, 2), ml.tensor { { 0 }, { 2 } },
  ml.randn(2, 2) }, { reduction = "max" })
differentiable("SkipLayerNormalization", "SkipLayerNormalization", { ml.randn(1, 2, 4), ml.randn(1, 2, 4),
  ml.randn(4), ml.randn(4) }, {}, 17, "com.microsoft")
differentiable("MultiHeadAttention", "MultiHeadAttention", { ml.randn(1, 2, 4), ml.randn(1, 3, 4),
  ml.randn(1, 3, 4) }, { num_heads = 2 }, 17, "com.microsoft")

test("the scale of dequantized numbers has a gradient", function()
  local scale = ml.tensor(0.5, { requires_grad = true })
  run("DequantizeLinear", { ml.tensor({ 3, 5 }, { dtype = ml.uint8 }), scale,
    ml.tensor(1, { dtype = ml.uint8 }) }):sum():backward()
  expect.equal(scale.grad:item(), 6.0)
end)

-- --- what the specification says --------------------------------------------------------------

local function whole(values, dtype) return ml.tensor(values, { dtype = dtype or ml.int64 }) end

test("quantized products are exact beyond the whole numbers of float32", function()
  local a, b = ml.full({ 1, 70000 }, 255, { dtype = ml.uint8 }), ml.full({ 70000, 1 }, 255, { dtype = ml.uint8 })
  -- 4551750000 in int32.
  expect.equal(run("MatMulInteger", { a, b }):tolist(), { { 256782704 } })
  local c, d = ml.full({ 1, 300 }, 255, { dtype = ml.uint8 }), ml.full({ 300, 1 }, 255, { dtype = ml.uint8 })
  d[1][1] = 254
  expect.equal(run("MatMulInteger", { c, d }):tolist(), { { 300 * 65025 - 255 } })
end)

test("quantized results saturate", function()
  local zero = whole({ 0 }, ml.int8)
  local y = run("QLinearMatMul", { whole({ { 100, 100 } }, ml.int8), ml.ones(1), zero,
    whole({ { 100 }, { 100 } }, ml.int8), ml.ones(1), zero, ml.ones(1), zero })
  expect.equal(y:tolist(), { { 127 } })
end)

test("ThresholdedRelu of an LSTM has the default of the op alone", function()
  local one = ml.ones(1, 4, 1)
  local y = run("LSTM", { ml.full({ 1, 1, 1 }, 0.9), one, one * 0 }, 1,
    { hidden_size = 1, activations = { "Sigmoid", "ThresholdedRelu", "Tanh" } })
  expect.equal(y:item(), 0.0)
end)

test("SAME of a transposed convolution is the input's size times the stride", function()
  local y = run("ConvTranspose", { ml.ones(1, 1, 2), ml.ones(1, 1, 2), ml.tensor { 5.0 } }, 1,
    { strides = { 3 }, auto_pad = "SAME_UPPER" })
  expect.equal(y:tolist(), { { { 6, 6, 5, 6, 6, 5 } } })
end)

test("align_corners of Resize goes by the whole new size", function()
  local x = ml.tensor { { { { 1.0, 2, 3, 4 } } } }
  local y = run("Resize", { x, false, ml.tensor { 1.0, 1, 1, 0.6 } }, 1,
    { mode = "linear", coordinate_transformation_mode = "align_corners" }, 19)
  expect.equal(y:tolist(), { { { { 1, 4 } } } })
end)

test("crops of Resize are of all dimensions, those that keep their size too", function()
  local x = ml.tensor { { { { 1.0, 2, 3 } } } }
  local y = run("Resize", { x, ml.tensor { 0.0, 0, 0, 0.5, 1, 1, 1, 1 }, ml.ones(4) }, 1,
    { mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize" }, 19)
  expect.equal(y:tolist(), { { { { 2, 2.5, 3 } } } })
end)

test("Attention: rows without a key, the stages of its fourth output, keys that are not filled", function()
  local q, k = ml.ones(1, 1, 2, 1), ml.tensor { { { { 1.0 }, { 2 }, { 3 } } } }
  local none = ml.tensor { { false, false, false }, { true, true, false } }
  local y, _, _, weights = run("Attention", { q, k, k, none }, { "y", "k", "v", "w" },
    { qk_matmul_output_mode = 3, scale = 1.0 }, 24)
  expect.equal(y:flatten():tolist()[1], 0.0)
  expect.equal(weights[1][1][1]:tolist(), { 0, 0, 0 })
  local _, _, _, raw = run("Attention", { q, k, k, none }, { "y", "k", "v", "w" }, { scale = 1.0 }, 24)
  expect.equal(raw[1][1]:tolist(), { { 1, 2, 3 }, { 1, 2, 3 } })
  local _, _, _, added = run("Attention", { q, k, k, none }, { "y", "k", "v", "w" },
    { qk_matmul_output_mode = 2, scale = 1.0 }, 24)
  expect.equal(added[1][1]:tolist(), { { -INF, -INF, -INF }, { 1, 2, -INF } })
  -- Two keys of three are there; the queries are the last two.
  local z = run("Attention", { q, k, k, false, false, false, whole { 2 } }, 1, { is_causal = 1, scale = 1.0 }, 24)
  same(z:flatten(), ml.tensor { 1, (1 + 2 * math.exp(1)) / (1 + math.exp(1)) }, "causal, with a cache")
end)

test("RoiAlign of a ramp is the ramp at the centres, by few and by many samples", function()
  local ramp = ml.arange(0., 7.):unsqueeze(2) * 10 + ml.arange(0., 7.)
  local x = ml.stack({ ramp, -ramp }, 1):unsqueeze(1)
  local box = ml.tensor { { 1.5, 1.5, 5.5, 5.5 } }
  for _, ratio in ipairs { 1, 3, 16 } do
    local y = run("RoiAlign", { x, box, whole { 0 } }, 1,
      { output_height = 2, output_width = 2, sampling_ratio = ratio })
    -- From 1 to 5, in two bins of 2.
    expect.near(y[1][1]:tolist(), { { 22, 24 }, { 42, 44 } }, 1e-4)
    expect.near(y[1][2]:tolist(), { { -22, -24 }, { -42, -44 } }, 1e-4)
  end
end)

test("extremes of nothing, and powers of whole numbers below zero", function()
  expect.equal(run("ReduceMax", { ml.zeros(2, 0), whole { 1 } }, 1, { keepdims = 0 }, 18):tolist(), { -INF, -INF })
  expect.equal(run("ReduceMin", { whole({}, ml.int32):reshape(0, 1), whole { 0 } }, 1, { keepdims = 0 }, 20)
    :tolist(), { 2147483647 })
  expect.equal(run("Pow", { whole { 2, 1, -1 }, whole { -1, -3, -3 } }):tolist(), { 0, 1, -1 })
end)

test("ops that only onnxruntime's other devices have", function()
  local x = ml.tensor { { 1.0, -2 } }
  expect.equal(microsoft("BiasAdd", { x, ml.ones(2), x }):tolist(), { { 3, -3 } })
  same(microsoft("BiasSoftmax", { x, ml.tensor { 0.0, 3 } }, 1, { axis = 1, is_inner_broadcast = 0 }),
    ml.tensor { { 0.5, 0.5 } }, "BiasSoftmax")
  expect.equal(microsoft("ComplexMul", { x, x }):tolist(), { { -3, -4 } })
  expect.equal(microsoft("ComplexMulConj", { x, x }):tolist(), { { 5, 0 } })
  local y = microsoft("NhwcConv", { ml.ones(1, 2, 2, 1), ml.ones(3, 1, 2, 2) })
  expect.equal(tostring(y.shape), "(1, 1, 1, 3)")
  same(microsoft("Rfft", { ml.tensor { 1.0, 2, 3 } }, 1, { signal_ndim = 1, onesided = 1, normalized = 0 }),
    ml.tensor { { 6, 0 }, { -1.5, 0.8660254 } }, "Rfft")
  local normal = microsoft("GroupNorm", { ml.tensor { { { { 1.0, 3 } } } }, ml.ones(2), ml.zeros(2) }, 1,
    { groups = 1, activation = 0 })
  same(normal, ml.tensor { { { { -1.0, 1 } } } }, "GroupNorm")
  local mean = microsoft("QLinearReduceMean", { whole({ { 10, 20 } }, ml.uint8), ml.tensor(1.0),
    whole(0, ml.uint8), ml.tensor(0.5), whole(1, ml.uint8) }, 1, { axes = { 1 }, keepdims = 0 })
  expect.equal(mean:tolist(), { 31 })
  expect.equal(run("CumProd", { ml.tensor { 2.0, 3, 4 }, whole(0) }, 1, { exclusive = 1 }, 26):tolist(), { 1, 2, 6 })
end)

test("positions that ops give and take count from 1 in scripts", function()
  local function scripted(op, inputs, outputs, attributes, opset, domain)
    local model, given = model_of(op, inputs, outputs, attributes, opset, domain, {})
    return model(table.unpack(given))
  end
  local x = ml.tensor { { { 1.0, 5, 2, 4 } } }
  local y, positions = scripted("MaxPool", { x }, 2, { kernel_shape = { 2 }, strides = { 2 } })
  expect.equal(positions:tolist(), { { { 2, 4 } } })
  expect.equal(scripted("MaxUnpool", { y, positions }, 1, { kernel_shape = { 2 }, strides = { 2 } }):tolist(),
    { { { 0, 5, 0, 4 } } })
  local boxes = ml.tensor { { { 0.0, 0, 1, 1 }, { 0, 0, 1, 0.9 }, { 5, 5, 6, 6 } } }
  expect.equal(scripted("NonMaxSuppression", { boxes, ml.tensor { { { 0.8, 0.9, 0.7 } } }, whole { 9 },
    ml.tensor { 0.5 } }):tolist(), { { 1, 1, 2 }, { 1, 1, 3 } })
  local _, first, inverse, counts = scripted("Unique", { whole { 7, 3, 7 } }, 4)
  expect.equal({ first:tolist(), inverse:tolist(), counts:tolist() }, { { 2, 1 }, { 2, 1, 2 }, { 1, 2 } })
  expect.equal(scripted("NonZero", { x[1][1]:gt(3) }):tolist(), { { 2, 4 } })
  expect.equal(scripted("RoiAlign", { ml.ones(2, 1, 2, 2) * ml.tensor({ 1.0, 2 }):reshape(2, 1, 1, 1),
    ml.tensor { { 0.0, 0, 1, 1 } }, whole { 2 } }):item(), 2.0)
end)

-- --- errors -----------------------------------------------------------------------------------

local function rejects(pattern, ...)
  local arguments = table.pack(...)
  expect.error(function() run(table.unpack(arguments, 1, arguments.n)) end, pattern)
end

test("errors name the node, the op, and what was expected", function()
  local x = ml.ones(2, 3)
  rejects("node 1 %(QuantizeLinear%): the scale has 2 elements, expected 3", "QuantizeLinear", { x, ml.ones(2) })
  rejects("node 1 %(QuantizeLinear%): the scale has the shape %(2, 2%), which does not divide %(2, 3%) by blocks of 3",
    "QuantizeLinear", { x, ml.ones(2, 2) }, 1, { block_size = 3 }, 21)
  rejects("node 1 %(LSTM%): R has the shape %(1, 4, 2%), expected %(1, 8, 2%)", "LSTM",
    { ml.ones(1, 1, 2), ml.ones(1, 8, 2), ml.ones(1, 4, 2) }, 1, { hidden_size = 2 })
  rejects("node 1 %(GRU%): there is no activation 'Sine'", "GRU", { ml.ones(1, 1, 2), ml.ones(1, 6, 2),
    ml.ones(1, 6, 2) }, 1, { activations = { "Sine", "Tanh" } })
  rejects("node 1 %(Resize%): scales for 2 of 4 dimensions", "Resize", { ml.ones(1, 1, 2, 2), false, ml.ones(2) })
  rejects("node 1 %(Resize%): the mode 'sinc', expected nearest, linear or cubic", "Resize",
    { ml.ones(1, 1, 2, 2), false, ml.ones(4) }, 1, { mode = "sinc" })
  rejects("node 1 %(NonMaxSuppression%): boxes of the shape %(1, 2, 3%)", "NonMaxSuppression",
    { ml.ones(1, 2, 3), ml.ones(1, 1, 2) })
  rejects("node 1 %(RoiAlign%): a region of picture 1, there are 1", "RoiAlign",
    { ml.ones(1, 1, 2, 2), ml.ones(1, 4), whole { 1 } })
  rejects("node 1 %(ScatterND%): the reduction 'mean', expected none, add, mul, max or min", "ScatterND",
    { x, whole { { 0 } }, ml.ones(1, 3) }, 1, { reduction = "mean" })
  rejects("node 1 %(Attention%): Q has the shape %(1, 2, 3%), expected %(batch, steps, hidden%) with hidden a "
    .. "multiple of 2 heads", "Attention", { ml.ones(1, 2, 3), ml.ones(1, 2, 3), ml.ones(1, 2, 3) }, 1,
    { q_num_heads = 2, kv_num_heads = 2 }, 23)
  rejects("node 1 %(MaxPool%): a window of 9 elements is larger than the input of 3", "MaxPool",
    { ml.ones(1, 1, 3) }, 1, { kernel_shape = { 9 } })
  rejects("node 1 %(FusedConv%): there is no activation 'Sine'", "FusedConv", { ml.ones(1, 1, 2), ml.ones(1, 1, 1) },
    1, { activation = "Sine" }, 17, "com.microsoft")
  rejects("node 1 %(QLinearAdd%): an input or its scale is missing", "QLinearAdd",
    { whole({ 1 }, ml.uint8), ml.ones(1) }, 1, {}, 17, "com.microsoft")
  rejects("node 1 %(MatMulNBits%): weights of the shape", "MatMulNBits", { ml.ones(1, 4), whole({ { 1 } }, ml.uint8),
    ml.ones(1) }, 1, { K = 4, N = 1, bits = 4, block_size = 16 }, 17, "com.microsoft")
end)

test("what a node asks for is bounded before it is made", function()
  rejects("more than", "RoiAlign", { ml.ones(1, 1, 2, 2), ml.tensor { { 0.0, 0, 1e12, 1e12 } }, whole { 0 } })
  rejects("more than", "HannWindow", { whole(1 << 40) })
  rejects("more than", "MaxUnpool", { ml.ones(1, 1, 2), whole { { { 0, 1 } } } }, 1,
    { kernel_shape = { 2 }, strides = { 1 << 40 } })
  rejects("more than", "Col2Im", { ml.ones(1, 4, 4), whole { 1 << 20, 1 << 20 }, whole { 2, 2 } }, 1, {}, 18)
  rejects("more than", "CropAndResize", { ml.ones(1, 1, 2, 2), ml.ones(1, 4), whole({ 0 }, ml.int32),
    whole({ 1 << 30, 1 << 30 }, ml.int32) }, 1, {}, 17, "com.microsoft")
end)

harness.run()
