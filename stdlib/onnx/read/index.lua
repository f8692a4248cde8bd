-- stdlib/onnx/read/index.lua: ONNX's ops of positions, which count from 0.

local F = require "moonlet.nn.functional"
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

-- With batch_dims each tuple looks only into its own part of the first dimensions.
function read.GatherND(n, x, index)
  local batch = n.attributes.batch_dims or 0
  if batch == 0 then return x[tuples(x, index)] end
  if batch < 0 or batch >= x.ndim or batch >= index.ndim then
    fail("batch_dims is %d for inputs of %d and %d dimensions", batch, x.ndim, index.ndim)
  end
  local count, shape = 1, {}
  for d = 1, batch do
    if x.shape[d] ~= index.shape[d] then
      fail("dimension %d has %d and %d elements", d, x.shape[d], index.shape[d])
    end
    count, shape[d] = count * x.shape[d], x.shape[d]
  end
  local flat = x:reshape(count, table.unpack(x.shape, batch + 1))
  local depth = index.shape[index.ndim]
  local places = tuples(flat:select(1, 1), index:reshape(count, -1, depth))
  table.insert(places, 1, ml.arange(1, count):to("int64"):to(x.device):unsqueeze(2))
  local y = flat[places]
  for d = batch + 1, index.ndim - 1 do shape[#shape + 1] = index.shape[d] end
  for d = batch + depth + 1, x.ndim do shape[#shape + 1] = x.shape[d] end
  return y:reshape(shape)
end

local REDUCE = { none = true, add = "sum", mul = "prod", max = "amax", min = "amin" }

local function reduction_of(n)
  local reduction = n.attributes.reduction or "none"
  if not REDUCE[reduction] then
    fail("the reduction '%s', expected none, add, mul, max or min", reduction)
  end
  return reduction
end

-- As rows of the dimensions that no position is for.
local function scattered_rows(x, places, updates, reduction)
  local depth, rows, width = #places, 1, 1
  for d, size in ipairs(x.shape) do
    if d <= depth then rows = rows * size else width = width * size end
  end
  local at = ml.zeros_like(places[1])
  for d = 1, depth do at = at * x.shape[d] + places[d] - 1 end
  at = at:reshape(-1, 1):expand(-1, width) + 1
  return x:reshape(rows, width):scatter_reduce(1, at, updates:reshape(-1, width), reduction)
    :view_as(x)
end

function read.ScatterND(n, x, index, updates)
  local reduction, places = reduction_of(n), tuples(x, index)
  if reduction == "none" or reduction == "add" then
    return x:clone():index_put_(places, updates, reduction == "add")
  end
  return scattered_rows(x, places, updates, REDUCE[reduction])
end

function read.ScatterElements(n, x, index, updates)
  local reduction = reduction_of(n)
  local dim = dim_of(n.attributes.axis or 0, x.ndim)
  local places = positions(on(x, index), x.shape[dim])
  if reduction == "none" then return x:scatter(dim, places, updates) end
  if reduction == "add" then return x:scatter_add(dim, places, updates) end
  return x:scatter_reduce(dim, places, updates, REDUCE[reduction])
end
read.Scatter = read.ScatterElements

-- Writes new entries into a cache, for each of the batch from its own place on.
function read.TensorScatter(n, past, update, starts)
  local dim, mode = dim_of(n.attributes.axis or -2, past.ndim), n.attributes.mode or "linear"
  if dim == 1 then fail "the axis is that of the batch" end
  if mode ~= "linear" and mode ~= "circular" then fail("the mode '%s'", mode) end
  if update.ndim ~= past.ndim or starts and starts:numel() ~= past.shape[1] then
    fail("an update of the shape %s and write indices of %s for a cache of the shape %s",
      tostring(update.shape), starts and tostring(starts.shape) or "none", tostring(past.shape))
  end
  local size, count, shape = past.shape[dim], update.shape[dim], {}
  local first = starts and on(past, starts):to "int64"
    or ml.zeros(past.shape[1], { dtype = ml.int64, device = past.device })
  local at = first:reshape(-1, 1) + ml.arange(0, count - 1):to("int64"):to(past.device)
  if mode == "circular" then at = ml.remainder(at, size) end
  for d = 1, past.ndim do shape[d] = d == 1 and past.shape[1] or d == dim and count or 1 end
  return past:scatter(dim, at:reshape(shape):expand(update.shape) + 1, update)
end

-- Turns the first entries of each sequence round.
function read.ReverseSequence(n, x, lengths)
  local time = dim_of(n.attributes.time_axis or 0, x.ndim)
  local batch = dim_of(n.attributes.batch_axis or 1, x.ndim)
  if time == batch or lengths:numel() ~= x.shape[batch] then
    fail("%d lengths for %d sequences", lengths:numel(), x.shape[batch])
  end
  local function along(t, dim)
    local shape = {}
    for d = 1, x.ndim do shape[d] = d == dim and t:numel() or 1 end
    return t:reshape(shape)
  end
  local at = along(ml.arange(1, x.shape[time]):to("int64"):to(x.device), time)
  local length = along(on(x, lengths):to "int64", batch)
  return x:gather(time, ml.where(at:le(length), length + 1 - at, at):expand(x.shape))
end

-- --- what differs -----------------------------------------------------------------------------

-- Values in order or as they come first; where that is, which of them each element is, and how
-- often each is there.
function read.Unique(n, x)
  local axis, dim = n.attributes.axis, 1
  if axis then dim = dim_of(axis, x.ndim) else x = x:flatten() end
  local values, inverse, counts = ml.unique(x, true, true, true, axis and dim or nil)
  inverse = inverse:flatten()
  local size, total = counts:numel(), inverse:numel()
  local places = ml.arange(1, total):to("int64"):to(x.device)
  local first = ml.full({ size }, total + 1, { dtype = ml.int64, device = x.device })
    :scatter_reduce(1, inverse, places, "amin")
  if n.attributes.sorted == 0 and size > 0 then
    local order = first:argsort()
    local rank = ml.zeros_like(order):scatter(1, order, ml.arange(1, size):to("int64"):to(x.device))
    values, counts = values:index_select(dim, order), counts:index_select(1, order)
    first, inverse = first:index_select(1, order), rank:index_select(1, inverse)
  end
  return values, first - 1, inverse - 1, counts
end

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

-- --- losses -----------------------------------------------------------------------------------

local function loss_of(n, x, target, weight)
  local ignored = n.attributes.ignore_index
  local kept = target:to "int64"
  kept = kept + kept:ge(0):to "int64"
  return F.nll_loss(x, kept, { weight = weight, reduction = n.attributes.reduction or "mean",
    ignore_index = ignored and (ignored >= 0 and ignored + 1 or ignored) or -100 })
end
read.NegativeLogLikelihoodLoss = loss_of

function read.SoftmaxCrossEntropyLoss(n, x, target, weight)
  if x.ndim < 2 then fail("scores of %d dimensions, expected at least 2", x.ndim) end
  local logs = x:log_softmax(2)
  return loss_of(n, logs, target, weight), logs
end

return read
