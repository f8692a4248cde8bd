-- stdlib/onnx/read/reduce.lua: ONNX's sums, means and extremes, with sorting and running sums.

local common = require "moonlet.onnx.read.common"
local ml = require "moonlet"
local fail, dim_of = common.fail, common.dim

local read = {}

-- `call(x, dims, keepdim)`. Without axes all are meant, or with `noop_with_empty_axes` none.
local function reduction(call)
  return function(n, x, axes)
    local list = common.list(n, "axes", axes)
    if list and #list == 0 then list = nil end
    if not list and n.attributes.noop_with_empty_axes == 1 then return x end
    if x.ndim == 0 then return call(x:unsqueeze(1), { 1 }, false) end
    return call(x, common.dims(list, x.ndim), (n.attributes.keepdims or 1) == 1)
  end
end

local function with(name)
  local op = ml[name]
  return reduction(function(x, dims, keep) return op(x, { dim = dims, keepdim = keep }) end)
end
read.ReduceMean = with "mean"

-- Of nothing it is what is less, or greater, than all.
local function extreme(name)
  local op, greatest = ml[name], name == "amax"
  local function nothing(x)
    if x.dtype == ml.bool then return not greatest end
    if x:is_floating_point() then return greatest and -math.huge or math.huge end
    local info = ml.iinfo(x.dtype)
    return greatest and info.min or info.max
  end
  return reduction(function(x, dims, keep)
    local gone, shape, empty = {}, {}, false
    for _, d in ipairs(dims) do gone[d], empty = true, empty or x.shape[d] == 0 end
    if not empty then return op(x, { dim = dims, keepdim = keep }) end
    for d, size in ipairs(x.shape) do
      if not gone[d] then shape[#shape + 1] = size elseif keep then shape[#shape + 1] = 1 end
    end
    return ml.full(shape, nothing(x), { dtype = x.dtype, device = x.device })
  end)
end
read.ReduceMax, read.ReduceMin = extreme "amax", extreme "amin"
read.ReduceLogSumExp = reduction(function(x, dims, keep) return x:logsumexp(dims, keep) end)

-- The dtype stays.
local function sum(x, dims, keep) return x:sum { dim = dims, keepdim = keep, dtype = x.dtype } end
read.ReduceSum = reduction(sum)
read.ReduceL1 = reduction(function(x, dims, keep) return sum(x:abs(), dims, keep) end)
read.ReduceL2 = reduction(function(x, dims, keep)
  return ml.norm(x, { p = 2, dim = dims, keepdim = keep })
end)
read.ReduceSumSquare = reduction(function(x, dims, keep) return sum(x * x, dims, keep) end)
read.ReduceLogSum = reduction(function(x, dims, keep) return sum(x, dims, keep):log() end)
read.ReduceProd = reduction(function(x, dims, keep)
  table.sort(dims, function(a, b) return a > b end)
  for _, d in ipairs(dims) do x = x:prod { dim = d, keepdim = keep, dtype = x.dtype } end
  return x
end)

-- --- places -----------------------------------------------------------------------------------

local function place(op)
  return function(n, x)
    local dim, keep = dim_of(n.attributes.axis or 0, x.ndim), (n.attributes.keepdims or 1) == 1
    if n.attributes.select_last_index == 1 then
      local last = op(x:flip { dims = { dim } }, { dim = dim, keepdim = keep })
      return x.shape[dim] - last
    end
    return op(x, { dim = dim, keepdim = keep }) - 1
  end
end
read.ArgMax, read.ArgMin = place(ml.argmax), place(ml.argmin)

function read.TopK(n, x, k)
  local count = k and common.number(k, "k") or n.attributes.k
  local dim = dim_of(n.attributes.axis or -1, x.ndim)
  if count < 0 or count > x.shape[dim] then
    fail("the %s greatest of %d", tostring(count), x.shape[dim])
  end
  local values, places = x:topk(count, dim, (n.attributes.largest or 1) == 1,
    (n.attributes.sorted or 1) == 1)
  return values, places - 1
end

-- Sums and products up to each place; exclusive ones begin with what adds nothing.
local function running(op, neutral)
  return function(n, x, axis)
    local dim = dim_of(common.number(axis, "axis"), x.ndim)
    local back, size = n.attributes.reverse == 1, x.shape[dim]
    if back then x = x:flip { dims = { dim } } end
    local y = op(x, dim, { dtype = x.dtype })
    if n.attributes.exclusive == 1 and size > 0 then
      local first = ml.full_like(y:narrow(dim, 1, 1), neutral)
      y = ml.cat({ first, y:narrow(dim, 1, size - 1) }, dim)
    end
    return back and y:flip { dims = { dim } } or y
  end
end
read.CumSum, read.CumProd = running(ml.cumsum, 0), running(ml.cumprod, 1)

return read
