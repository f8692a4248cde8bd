-- stdlib/onnx/write/norm.lua: normalisations, as they are for inference, as ONNX nodes.

local fail = require("moonlet.options").fail
local ml = require "moonlet"

local write = {}

local function dtype_of(call) return call.results[1].dtype end

local function ones(g, shape, dtype, value)
  local key = ("filled %s %s %s"):format(value, dtype, table.concat(shape, ","))
  return g:cached(key, function() return g:tensor(ml.full(shape, value, { dtype = dtype })) end)
end

-- A scale or shift, or one that changes nothing.
local function factor(g, value, shape, dtype, neutral)
  return value and g:operand(value, dtype) or ones(g, shape, dtype, neutral)
end

local function channels_of(g, a) return { g:int(a.x.shape[2], "the number of channels") } end

local function by_running(g, a, call)
  local dtype, channels = dtype_of(call), channels_of(g, a)
  return g:node("BatchNormalization", { g:operand(a.x, dtype),
    factor(g, a.weight, channels, dtype, 1), factor(g, a.bias, channels, dtype, 0),
    g:operand(a.running_mean, dtype), g:operand(a.running_var, dtype) },
    { epsilon = a.eps + 0.0 })
end

-- { 1, channels, 1, .. }: one number for each channel beside x.
local function channel_shape(a)
  local shape = {}
  for d = 1, #a.x.shape do shape[d] = 1 end
  shape[2] = a.x.shape[2]
  return shape
end

local function scale_and_shift(g, y, a, dtype, shape)
  if a.weight then
    y = g:node("Mul", { y, shape and g:reshape(g:operand(a.weight, dtype), shape)
      or g:operand(a.weight, dtype) })
  end
  if a.bias then
    y = g:node("Add", { y, shape and g:reshape(g:operand(a.bias, dtype), shape)
      or g:operand(a.bias, dtype) })
  end
  return y
end

-- By the mean and variance over some axes.
local function centred(g, x, axes, eps, dtype)
  local far = g:node("Sub", { x, g:node("ReduceMean", { x }, { axes = axes, keepdims = 1 }) })
  local var = g:node("ReduceMean", { g:node("Mul", { far, far }) }, { axes = axes, keepdims = 1 })
  local deviation = g:node("Sqrt", { g:node("Add", { var, g:float(eps, dtype) }) })
  return g:node("Div", { far, deviation })
end

-- A layer without running statistics uses the batch's in inference too.
function write.batch_norm(g, a, call)
  if not a.training then return by_running(g, a, call) end
  if a.running_mean then
    fail("onnx.export: batch_norm in training changes its running statistics, which a graph for "
      .. "inference cannot%s", call.place)
  end
  local dtype, axes = dtype_of(call), { 0 }
  for d = 3, #a.x.shape do axes[#axes + 1] = d - 1 end
  local y = centred(g, g:operand(a.x, dtype), axes, a.eps, dtype)
  return scale_and_shift(g, y, a, dtype, channel_shape(a))
end

function write.instance_norm(g, a, call)
  local dtype = dtype_of(call)
  if not a.use_input_stats then return by_running(g, a, call) end
  local channels = channels_of(g, a)
  return g:node("InstanceNormalization", { g:operand(a.x, dtype),
    factor(g, a.weight, channels, dtype, 1), factor(g, a.bias, channels, dtype, 0) },
    { epsilon = a.eps + 0.0 })
end

function write.layer_norm(g, a, call)
  local dtype, shape = dtype_of(call), g:known(a.normalized_shape, "normalized_shape")
  local inputs = { g:operand(a.x, dtype), factor(g, a.weight, shape, dtype, 1) }
  if a.bias then inputs[3] = g:operand(a.bias, dtype) end
  return g:node("LayerNormalization", inputs, { axis = -#shape, epsilon = a.eps + 0.0 })
end

-- As instances of groups: (n, groups, -1).
function write.group_norm(g, a, call)
  local dtype, groups = dtype_of(call), a.num_groups
  channels_of(g, a)
  local flat = g:node("Reshape", { g:operand(a.x, dtype), g:constant({ 0, groups, -1 }, "int64") })
  local y = g:node("InstanceNormalization", { flat, ones(g, { groups }, dtype, 1),
    ones(g, { groups }, dtype, 0) }, { epsilon = a.eps + 0.0 })
  return scale_and_shift(g, g:reshape(y, a.x.shape), a, dtype, channel_shape(a))
end

function write.rms_norm(g, a, call)
  local dtype, axes = dtype_of(call), {}
  for i = 1, #a.normalized_shape do axes[i] = i - 1 - #a.normalized_shape end
  local x = g:operand(a.x, dtype)
  local eps = a.eps or ml.finfo(dtype).eps
  local square = g:node("ReduceMean", { g:node("Mul", { x, x }) }, { axes = axes, keepdims = 1 })
  local root = g:node("Sqrt", { g:node("Add", { square, g:float(eps, dtype) }) })
  return scale_and_shift(g, g:node("Div", { x, root }), a, dtype)
end

function write.local_response_norm(g, a, call)
  local x, rank = g:operand(a.x, dtype_of(call)), #a.x.shape
  -- onnxruntime wants four dimensions.
  if rank ~= 4 then x = g:node("Reshape", { x, g:constant({ 0, 0, -1, 1 }, "int64") }) end
  local y = g:node("LRN", { x }, { size = a.size, alpha = a.alpha + 0.0, beta = a.beta + 0.0,
    bias = a.k + 0.0 })
  return rank == 4 and y or g:reshape(y, a.x.shape)
end

return write
