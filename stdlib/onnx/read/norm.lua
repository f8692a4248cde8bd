-- stdlib/onnx/read/norm.lua: ONNX's normalisations.

local F = require "moonlet.nn.functional"
local common = require "moonlet.onnx.read.common"
local ml = require "moonlet"
local fail = common.fail

local read = {}

local function eps_of(n) return n.attributes.epsilon or 1e-5 end

-- By the running statistics, as for inference.
function read.BatchNormalization(n, x, scale, bias, mean, var)
  if n.attributes.training_mode == 1 then fail "training_mode is not read" end
  if n.attributes.spatial == 0 then fail "spatial = 0 is not read" end
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
  local mean = x:mean { dim = dims, keepdim = true }
  local var = x:var { dim = dims, correction = 0, keepdim = true }
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

function read.RMSNormalization(n, x, scale)
  local dims = {}
  for d = common.dim(n.attributes.axis or -1, x.ndim), x.ndim do dims[#dims + 1] = d end
  return x * ((x * x):mean { dim = dims, keepdim = true } + eps_of(n)):rsqrt() * scale
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
