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

-- The first entry of each group of equal ones, by the group of each entry.
local function firsts_of(inverse, count)
  local places = ml.arange(1, inverse:numel()):to("int64")
  local none = ml.full({ count }, inverse:numel() + 1, { dtype = ml.int64 })
  return none:scatter_reduce(1, inverse, places, "amin")
end

function read.Unique(n, x)
  local dim = n.attributes.axis and dim_of(n.attributes.axis, x.ndim)
  local given = dim and x or x:flatten()
  local y, inverse, counts = ml.unique(given, { return_inverse = true, return_counts = true,
    dim = dim or 1 })
  local along = dim or 1
  inverse = inverse:flatten()
  if inverse:numel() == 0 then return y, inverse, inverse, counts end
  local firsts = firsts_of(inverse, counts:numel())
  if n.attributes.sorted == 0 then
    local order = firsts:argsort()
    y, counts, firsts = y:index_select(along, order), counts:index_select(1, order),
      firsts:index_select(1, order)
    inverse = order:argsort():index_select(1, inverse)
  end
  return y, firsts - 1, inverse - 1, counts
end

function read.ReverseSequence(n, x, lengths)
  local batch, time = n.attributes.batch_axis or 1, n.attributes.time_axis or 0
  if batch + time ~= 1 or batch * time ~= 0 or x.ndim < 2 then
    fail("the axes %d and %d of %d dimensions", batch, time, x.ndim)
  end
  if lengths.ndim ~= 1 or lengths.shape[1] ~= x.shape[batch + 1] then
    fail("lengths of shape %s for %d sequences", tostring(lengths.shape), x.shape[batch + 1])
  end
  local steps = x.shape[time + 1]
  if lengths:numel() == 0 or steps == 0 then return x end
  if lengths:lt(0):any():item() or lengths:gt(steps):any():item() then
    fail("a length outside 0 to %d", steps)
  end
  local place = ml.arange(1, steps):to("int64"):unsqueeze(1)
  local length = lengths:to("int64"):unsqueeze(2)
  local turned = ml.where(place:le(length), length + 1 - place, place)  -- (batch, time)
  if batch == 1 then turned = turned:t() end
  local shape = { turned.shape[1], turned.shape[2] }
  for d = 3, x.ndim do shape[d] = 1 end
  return x:gather(time + 1, on(x, turned):reshape(shape):expand_as(x))
end

return read
