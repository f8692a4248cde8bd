-- stdlib/onnx/write/activation.lua: activations and softmax as ONNX nodes.

local fail = require("moonlet.options").fail

local write = {}

local function dtype_of(call) return call.results[1].dtype end

-- An op of one tensor, made by `make(graph, name, dtype, arguments)`.
local function one(make)
  return function(g, a, call)
    local dtype = dtype_of(call)
    return make(g, g:operand(a.x, dtype), dtype, a)
  end
end

local function simple(op, attributes)
  return one(function(g, x, _, a) return g:node(op, { x }, attributes and attributes(a)) end)
end

local function clip(g, x, low, high, dtype)
  return g:node("Clip", { x, g:float(low, dtype), g:float(high, dtype) })
end

write.relu = simple "Relu"
write.softsign = simple "Softsign"
write.elu = simple("Elu", function(a) return { alpha = a.alpha + 0.0 } end)
write.celu = simple("Celu", function(a) return { alpha = a.alpha + 0.0 } end)
write.selu = simple("Selu")
write.leaky_relu = simple("LeakyRelu", function(a) return { alpha = a.negative_slope + 0.0 } end)
write.hardsigmoid = simple("HardSigmoid", function() return { alpha = 1 / 6, beta = 0.5 } end)
write.hardswish = simple "HardSwish"
write.relu6 = one(function(g, x, dtype) return clip(g, x, 0, 6, dtype) end)
write.hardtanh = one(function(g, x, dtype, a) return clip(g, x, a.min_val, a.max_val, dtype) end)
write.hardshrink = simple("Shrink", function(a) return { lambd = a.lambd + 0.0, bias = 0.0 } end)
write.softshrink = simple("Shrink", function(a)
  return { lambd = a.lambd + 0.0, bias = a.lambd + 0.0 }
end)
write.tanhshrink = one(function(g, x) return g:node("Sub", { x, g:node("Tanh", { x }) }) end)
write.silu = one(function(g, x) return g:node("Mul", { x, g:node("Sigmoid", { x }) }) end)
write.mish = one(function(g, x)
  return g:node("Mul", { x, g:node("Tanh", { g:node("Softplus", { x }) }) })
end)
write.logsigmoid = one(function(g, x)
  return g:node("Neg", { g:node("Softplus", { g:node("Neg", { x }) }) })
end)

write.threshold = one(function(g, x, dtype, a)
  local above = g:node("Greater", { x, g:float(a.threshold, dtype) })
  return g:node("Where", { above, x, g:float(a.value, dtype) })
end)

write.softplus = one(function(g, x, dtype, a)
  if a.beta == 1 then
    -- From the threshold (20) on both are the same in float32.
    if a.threshold >= 20 then return g:node("Softplus", { x }) end
  end
  local scaled = g:node("Mul", { x, g:float(a.beta, dtype) })
  local y = g:node("Div", { g:node("Softplus", { scaled }), g:float(a.beta, dtype) })
  return g:node("Where", { g:node("Greater", { scaled, g:float(a.threshold, dtype) }), x, y })
end)

local function erf_gelu(g, x, dtype)
  local erf = g:node("Erf", { g:node("Div", { x, g:float(math.sqrt(2), dtype) }) })
  local twice = g:node("Mul", { x, g:node("Add", { erf, g:float(1, dtype) }) })
  return g:node("Mul", { twice, g:float(0.5, dtype) })
end

local function tanh_gelu(g, x, dtype)
  local cube = g:node("Mul", { g:node("Mul", { x, x }), x })
  local inner = g:node("Add", { x, g:node("Mul", { cube, g:float(0.044715, dtype) }) })
  local tanh = g:node("Tanh", { g:node("Mul", { inner, g:float(math.sqrt(2 / math.pi), dtype) }) })
  local twice = g:node("Mul", { x, g:node("Add", { tanh, g:float(1, dtype) }) })
  return g:node("Mul", { twice, g:float(0.5, dtype) })
end

write.gelu = one(function(g, x, dtype, a)
  return (a.approximate == "tanh" and tanh_gelu or erf_gelu)(g, x, dtype)
end)
write.gelu_tanh, write.gelu_erf = one(tanh_gelu), one(erf_gelu)

-- The slopes are one for each channel, the second dimension.
function write.prelu(g, a, call)
  local dtype = dtype_of(call)
  local slope, rank = g:operand(a.weight, dtype), #a.x.shape
  if a.weight.shape[1] ~= 1 and rank > 2 then
    local dims = {}
    for i = 1, rank - 2 do dims[i] = i end
    slope = g:unsqueeze(slope, dims)
  end
  return g:node("PRelu", { g:operand(a.x, dtype), slope })
end

function write.prelu_by(g, a, call)
  local dtype = dtype_of(call)
  return g:node("PRelu", { g:operand(a.x, dtype), g:operand(a.slope, dtype) })
end

-- In training the slopes are drawn.
function write.rrelu(g, a, call)
  if a.training then
    fail("onnx.export: rrelu draws random numbers in training, which a graph for inference "
      .. "cannot%s", call.place)
  end
  local slope = (a.lower + a.upper) / 2
  return g:node("LeakyRelu", { g:operand(a.x, dtype_of(call)) }, { alpha = slope })
end

-- --- along a dimension ------------------------------------------------------------------------

local function axis_of(a) return a.dim > 0 and a.dim - 1 or a.dim end

-- A tensor without dimensions has no axis: its softmax is 1.
local function soft(op)
  return function(g, a, call)
    local x = g:operand(a.x, dtype_of(call))
    if #a.x.shape > 0 then return g:node(op, { x }, { axis = axis_of(a) }) end
    local row = g:node(op, { g:unsqueeze(x, { 0 }) }, { axis = 0 })
    return g:squeeze(row, { 0 })
  end
end
write.softmax, write.log_softmax = soft "Softmax", soft "LogSoftmax"
write.softmax_dtype, write.log_softmax_dtype = write.softmax, write.log_softmax

write.glu = one(function(g, x, _, a)
  local first, second = g:node("Split", { x }, { axis = axis_of(a) }, 2)
  return g:node("Mul", { first, g:node("Sigmoid", { second }) })
end)

return write
