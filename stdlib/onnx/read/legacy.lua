-- stdlib/onnx/read/legacy.lua: what ops of ONNX's first opsets compute where that is said otherwise
-- today: by op the opset from which on it is as now, and the reader before it.

local common = require "moonlet.onnx.read.common"
local dtypes = require "moonlet.onnx.dtypes"
local ml = require "moonlet"
local fail = common.fail

local legacy = {}

-- The second operand beside the dimensions of the first from `axis` on, or the last ones; only
-- where `broadcast` says so.
local function spread(n, x, y)
  if not ml.is_tensor(x) or not ml.is_tensor(y) or n.attributes.broadcast ~= 1 then
    if ml.is_tensor(x) and ml.is_tensor(y) and tostring(x.shape) ~= tostring(y.shape) then
      fail("operands of the shapes %s and %s without 'broadcast'", tostring(x.shape),
        tostring(y.shape))
    end
    return y
  end
  local axis = n.attributes.axis
  if not axis or y.ndim == 0 then return y end
  local first = common.dim(axis, x.ndim)
  local shape = {}
  for _, size in ipairs(y.shape) do shape[#shape + 1] = size end
  for _ = first + y.ndim, x.ndim do shape[#shape + 1] = 1 end
  return y:reshape(shape)
end

-- Readers that are wrapped: each is given that of today.
local WRAPPED = {}

for op in ("Add Sub Mul Div Pow And Or Xor Equal Greater Less"):gmatch "%S+" do
  WRAPPED[op] = { 7, function(today)
    return function(n, x, y) return today(n, x, spread(n, x, y)) end
  end }
end

-- A slope for each channel.
WRAPPED.PRelu = { 7, function(today)
  return function(n, x, slope)
    if slope:numel() > 1 and slope.ndim == 1 and x.ndim > 1 then
      local shape = {}
      for d = 1, x.ndim do shape[d] = d == 2 and slope:numel() or 1 end
      slope = slope:reshape(shape)
    end
    return today(n, x, slope)
  end
end }

-- Statistics of the batch unless `is_test`.
WRAPPED.BatchNormalization = { 7, function(today)
  return function(n, ...)
    local given = setmetatable({ training_mode = n.attributes.is_test == 1 and 0 or 1 },
      { __index = n.attributes })
    return today(setmetatable({ attributes = given }, { __index = n }), ...)
  end
end }

-- Some are dropped unless `is_test`.
WRAPPED.Dropout = { 7, function(today)
  return function(n, x)
    return today(n, x, ml.tensor(n.attributes.ratio or 0.5), ml.tensor(n.attributes.is_test ~= 1))
  end
end }

WRAPPED.Upsample = { 7, function(today)
  return function(n, x)
    local high, wide = n.attributes.height_scale, n.attributes.width_scale
    if not high or not wide or x.ndim ~= 4 then
      fail("scales %s and %s for %d dimensions", tostring(high), tostring(wide), x.ndim)
    end
    return today(n, x, ml.tensor { 1.0, 1.0, high, wide })
  end
end }

-- As often as the second input says along the dimension that the third is.
WRAPPED.Tile = { 6, function(today)
  return function(n, x, tiles, axis)
    local times = {}
    for d = 1, x.ndim do times[d] = 1 end
    times[common.dim(common.number(axis, "axis") // 1 | 0, x.ndim)] =
      common.number(tiles, "tiles") // 1 | 0
    return today(n, x, ml.tensor(times, { dtype = ml.int64 }))
  end
end }

-- Lengths of parts may be numbers of any type.
WRAPPED.Split = { 2, function(today)
  return function(n, x, split) return today(n, x, split and split:to "int64") end
end }

WRAPPED.Selu = { 6, function(today)
  return function(n, x)
    local given = { alpha = n.attributes.alpha or 1.6732, gamma = n.attributes.gamma or 1.0507 }
    return today(setmetatable({ attributes = given }, { __index = n }), x)
  end
end }

-- --- ops that went again ----------------------------------------------------------------------

--- Ops of the first opsets that later ones do not have.
legacy.gone = {}

function legacy.gone.ImageScaler(n, x)
  local bias = n.attributes.bias or {}
  local y = x * (n.attributes.scale or 1.0)
  if #bias == 0 then return y end
  return y + ml.tensor(bias, { dtype = x.dtype, device = x.device }):reshape(1, #bias, 1, 1)
end

function legacy.gone.Affine(n, x)
  return x * (n.attributes.alpha or 1.0) + (n.attributes.beta or 0.0)
end

function legacy.gone.ScaledTanh(n, x)
  return (x * (n.attributes.beta or 1.0)):tanh() * (n.attributes.alpha or 1.0)
end

function legacy.gone.ParametricSoftplus(n, x)
  return ml.softplus(x * (n.attributes.beta or 1.0)) * (n.attributes.alpha or 1.0)
end

function legacy.gone.ConstantFill(n, shape)
  local dtype = dtypes.of(n.attributes.dtype or 1, "the result")
  local sizes = n.attributes.shape
  if n.attributes.input_as_shape == 1 then sizes = common.integers(shape, "the shape") end
  if not sizes and shape then sizes = shape.shape end
  if not sizes then fail "it has no shape" end
  for _, size in ipairs(n.attributes.extra_shape or {}) do sizes[#sizes + 1] = size end
  return ml.full(sizes, n.attributes.value or 0.0, { dtype = dtype })
end

--- The readers of older opsets, { op = { opset from which on there are others, reader } }.
---@param today table<string, function>
---@return table
function legacy.older(today)
  local out = {}
  for op, entry in pairs(WRAPPED) do out[op] = { entry[1], entry[2](today[op]) } end
  return out
end

return legacy
