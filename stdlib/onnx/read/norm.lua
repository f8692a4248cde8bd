-- stdlib/onnx/read/norm.lua: ONNX's normalisations.

local F = require "moonlet.nn.functional"
local common = require "moonlet.onnx.read.common"
local ml = require "moonlet"
local fail = common.fail

local read = {}

local function eps_of(n) return n.attributes.epsilon or 1e-5 end

-- A tensor of a channel each as x takes it: (channels), or with spatial = 0 one for each element.
local function of_channels(t, x, whole)
  if whole then return t:reshape(1, table.unpack(x.shape, 2)) end
  local shape = {}
  for d = 1, x.ndim do shape[d] = d == 2 and t.shape[1] or 1 end
  return t:reshape(shape)
end

local function normalized(x, mean, var, scale, bias, eps)
  local dtype = ml.promote_types(x.dtype, mean.dtype)
  return ((x:to(dtype) - mean) * ((var + eps):rsqrt() * scale) + bias):to(x.dtype)
end

-- By the statistics of the batch, which the second and third output add to the running ones; before
-- opset 14 the fourth and fifth are those of the batch.
local function batch_norm_training(n, x, scale, bias, mean, var, whole)
  local dims = { 1 }
  for d = 3, whole and 2 or x.ndim do dims[#dims + 1] = d end
  local wide = x:to(ml.promote_types(x.dtype, mean.dtype))
  local own_mean = wide:mean { dim = dims, keepdim = true }
  local own_var = wide:var { dim = dims, correction = 0, keepdim = true }
  local kept = n.attributes.momentum or 0.9
  local function running(old, new)
    return old * kept + new:reshape(old.shape):to(old.dtype) * (1 - kept)
  end
  local y = normalized(wide, own_mean, own_var, of_channels(scale, x, whole),
    of_channels(bias, x, whole), eps_of(n))
  return y:to(x.dtype), running(mean, own_mean), running(var, own_var),
    own_mean:reshape(mean.shape), own_var:reshape(var.shape)
end

-- By the running statistics, as for inference. Before opset 14 training is what has more outputs.
function read.BatchNormalization(n, x, scale, bias, mean, var)
  local whole = n.version < 9 and n.attributes.spatial == 0
  if x.ndim < 2 then fail("an input of %d dimensions, expected at least 2", x.ndim) end
  local training = n.attributes.training_mode == 1
  for i = 2, n.version < 14 and #n.outputs or 1 do training = training or n.outputs[i] ~= "" end
  if training then return batch_norm_training(n, x, scale, bias, mean, var, whole) end
  if whole or x.dtype ~= scale.dtype or x.dtype ~= mean.dtype then
    local function of(t) return of_channels(t, x, whole) end
    return normalized(x, of(mean), of(var), of(scale), of(bias), eps_of(n))
  end
  return F.batch_norm(x, mean, var, scale, bias, false, 0.1, eps_of(n))
end

function read.InstanceNormalization(n, x, scale, bias)
  return ml.instance_norm(x, nil, nil, scale, bias, true, 0.1, eps_of(n))
end

-- Over the dimensions from the axis on; the second and third output are the mean and 1 / deviation.
function read.LayerNormalization(n, x, scale, bias)
  local first = common.dim(n.attributes.axis or -1, x.ndim)
  local shape, dims = {}, {}
  for d = first, x.ndim do shape[#shape + 1], dims[#dims + 1] = x.shape[d], d end
  local y
  if scale.ndim == #shape and (not bias or bias.ndim == #shape) then
    y = F.layer_norm(x, shape, scale, bias, eps_of(n))
  else
    y = F.layer_norm(x, shape, nil, nil, eps_of(n)) * scale
    if bias then y = y + bias end
  end
  if #n.outputs < 2 then return y end
  local wide = (n.attributes.stash_type or 1) == 1 and x.dtype ~= "float64" and x:float() or x
  local mean = wide:mean { dim = dims, keepdim = true }
  local var = wide:var { dim = dims, correction = 0, keepdim = true }
  return y, mean, (var + eps_of(n)):rsqrt()
end

-- Before opset 21 there is a scale for each group, then for each channel.
function read.GroupNormalization(n, x, scale, bias)
  local groups = n.attributes.num_groups or fail "it has no num_groups"
  local y = ml.group_norm(x, groups, nil, nil, eps_of(n))
  local function spread(t)
    if t.shape[1] ~= x.shape[2] then t = t:repeat_interleave(x.shape[2] // groups, 1) end
    local shape = {}
    for d = 1, x.ndim do shape[d] = d == 2 and x.shape[2] or 1 end
    return t:reshape(shape)
  end
  return y * spread(scale) + spread(bias)
end

-- The squares are summed in float32 at least.
function read.RMSNormalization(n, x, scale)
  local dims = {}
  for d = common.dim(n.attributes.axis or -1, x.ndim), x.ndim do dims[#dims + 1] = d end
  local wide = x.dtype == "float64" and x or x:float()
  local rms = ((wide * wide):mean { dim = dims, keepdim = true } + eps_of(n)):rsqrt()
  return (wide * rms):to(x.dtype) * scale
end

function read.MeanVarianceNormalization(n, x)
  local dims = common.dims(n.attributes.axes or { 0, 2, 3 }, x.ndim)
  local mean = x:mean { dim = dims, keepdim = true }
  local deviation = x:var { dim = dims, correction = 0, keepdim = true }:sqrt()
  return (x - mean) / (deviation + 1e-9)
end

-- Zeros before and behind the second of `rank` dimensions.
local function channel_pad(rank, before, behind)
  local pad = {}
  for i = 1, 2 * (rank - 2) do pad[i] = 0 end
  pad[#pad + 1], pad[#pad + 2] = before, behind
  return pad
end

function read.LRN(n, x)
  local size = n.attributes.size or fail "it has no size"
  local a = n.attributes
  if size < 1 then fail("a size of %d", size) end
  -- Each channel with (size - 1) // 2 before it and the rest behind it.
  local square = x * x
  local before, channels = (size - 1) // 2, x.shape[2]
  local sum = ml.zeros_like(x)
  -- Those that are further away than all channels add nothing.
  for step = math.max(-before, -channels), math.min(size - 1 - before, channels) do
    local first, last = math.max(1, 1 + step), math.min(channels, channels + step)
    if first <= last then
      local part = square:narrow(2, first, last - first + 1)
      sum = sum + F.pad(part, channel_pad(x.ndim, math.max(-step, 0), math.max(step, 0)))
    end
  end
  local scale = (a.bias or 1.0) + (a.alpha or 1e-4) / size * sum
  return x / scale ^ (a.beta or 0.75)
end

function read.LpNormalization(n, x)
  local dim = common.dim(n.attributes.axis or -1, x.ndim)
  local norm = ml.linalg.vector_norm(x, n.attributes.p or 2, { dim = dim, keepdim = true })
  return x / norm:masked_fill(norm:eq(0), 1)  -- zeros stay zeros
end

return read
