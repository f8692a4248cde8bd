-- stdlib/onnx/read/index.lua: ONNX's ops of positions, which count from 0.

local common = require "moonlet.onnx.read.common"
local ml = require "moonlet"
local fail, dim_of, positions = common.fail, common.dim, common.positions

local read = {}

local function on(x, index)
  local _, moved = common.together(x, index)
  return moved
end

function read.Gather(n, x, index)
  local dim = dim_of(n.attributes.axis or 0, x.ndim)
  local places = positions(on(x, index), x.shape[dim])
  local y = x:index_select(dim, places:flatten())
  local shape = {}
  for d = 1, dim - 1 do shape[d] = x.shape[d] end
  for _, size in ipairs(index.shape) do shape[#shape + 1] = size end
  for d = dim + 1, x.ndim do shape[#shape + 1] = x.shape[d] end
  return y:reshape(shape)
end

function read.GatherElements(n, x, index)
  local dim = dim_of(n.attributes.axis or 0, x.ndim)
  return x:gather(dim, positions(on(x, index), x.shape[dim]))
end

-- The last dimension of `index` holds a position for each of the first dimensions of x: the tensors
-- of these.
local function tuples(x, index)
  local depth = index.shape[index.ndim]
  if not depth or depth > x.ndim or depth == 0 then
    fail("tuples of %s positions for %d dimensions", tostring(depth), x.ndim)
  end
  local out = {}
  for d = 1, depth do
    out[d] = positions(on(x, index):select(index.ndim, d), x.shape[d])
  end
  return out
end

function read.GatherND(n, x, index)
  if (n.attributes.batch_dims or 0) ~= 0 then fail "batch_dims other than 0 are not read" end
  return x[tuples(x, index)]
end

local function check_reduction(n, also)
  local reduction = n.attributes.reduction or "none"
  if reduction ~= "none" and not also[reduction] then
    fail("the reduction '%s' is not read", reduction)
  end
  return reduction
end

function read.ScatterND(n, x, index, updates)
  local reduction = check_reduction(n, { add = true })
  local places = tuples(x, index)
  return x:clone():index_put_(places, updates, reduction == "add")
end

local REDUCE = { mul = "prod", max = "amax", min = "amin" }

function read.ScatterElements(n, x, index, updates)
  local reduction = check_reduction(n, { add = true, mul = true, max = true, min = true })
  local dim = dim_of(n.attributes.axis or 0, x.ndim)
  local places = positions(on(x, index), x.shape[dim])
  if reduction == "none" then return x:scatter(dim, places, updates) end
  if reduction == "add" then return x:scatter_add(dim, places, updates) end
  return x:scatter_reduce(dim, places, updates, REDUCE[reduction])
end
read.Scatter = read.ScatterElements

-- `values` are those of "off" and "on"; positions outside have all off.
function read.OneHot(n, index, depth, values)
  local count = common.number(depth, "depth")
  if count < 0 or count > 1 << 31 then fail("a depth of %s", tostring(count)) end
  count = math.tointeger(count) or math.floor(count)
  common.check_room(n, count, 8)
  local axis = n.attributes.axis or -1
  local dim = dim_of(axis, index.ndim + 1)
  local whole = index:to "int64"
  local place = ml.where(whole:lt(0), whole + count, whole):unsqueeze(dim)
  local shape = {}
  for d = 1, index.ndim + 1 do shape[d] = d == dim and count or 1 end
  local classes = ml.arange(0, count - 1):to("int64"):reshape(shape):to(index.device)
  values = on(index, values)
  return ml.where(place:eq(classes), values[2], values[1])
end

function read.NonZero(_, x)
  return (x:nonzero() - 1):t()
end

function read.Compress(n, x, condition)
  local places = condition:nonzero():flatten()
  if n.attributes.axis == nil then return x:flatten():index_select(1, on(x, places)) end
  return x:index_select(dim_of(n.attributes.axis, x.ndim), on(x, places))
end

function read.NegativeLogLikelihoodLoss(n, x, target, weight)
  local F = require "moonlet.nn.functional"
  local ignored = n.attributes.ignore_index
  local kept = target + target:ge(0):to(target.dtype)
  return F.nll_loss(x, kept, { weight = weight, reduction = n.attributes.reduction or "mean",
    ignore_index = ignored and (ignored >= 0 and ignored + 1 or ignored) or -100 })
end

return read
