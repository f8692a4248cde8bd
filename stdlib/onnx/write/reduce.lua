-- stdlib/onnx/write/reduce.lua: sums, means, extremes, sorting and scans as ONNX nodes.

local dtypes = require "moonlet.onnx.dtypes"
local fail = require("moonlet.options").fail
local sizes = require "moonlet.onnx.sizes"

local write = {}

-- Axes from 0 of dimensions from 1; all where there are none.
local function axes_of(dim, rank)
  if type(dim) == "number" then dim = { dim } end
  local out = {}
  if dim == nil or #dim == 0 then
    for i = 1, rank do out[i] = i - 1 end
  else
    for i, d in ipairs(dim) do out[i] = d > 0 and d - 1 or d + rank end
  end
  return out
end

local function keep(a) return a.keepdim and 1 or 0 end

-- ReduceSum takes its axes as a tensor, the others as an attribute in this opset. Of a tensor
-- without dimensions each is the tensor itself.
local function reduce(g, op, x, axes, keepdims)
  if #axes == 0 then return g:node("Identity", { x }) end
  if op == "ReduceSum" then
    return g:node(op, { x, g:constant(axes, "int64") }, { keepdims = keepdims })
  end
  return g:node(op, { x }, { axes = axes, keepdims = keepdims })
end

local REDUCE = { sum = "ReduceSum", mean = "ReduceMean", prod = "ReduceProd", amax = "ReduceMax",
  amin = "ReduceMin" }
for name, op in pairs(REDUCE) do
  write[name] = function(g, a, call)
    local dtype = call.results[1].dtype
    return reduce(g, op, g:operand(a.x, dtype), axes_of(a.dim, #a.x.shape), keep(a))
  end
end

function write.nansum(g, a, call)
  local dtype = call.results[1].dtype
  local x = g:operand(a.x, dtype)
  if dtypes.is_float(dtype) then
    x = g:node("Where", { g:node("IsNaN", { x }), g:float(0, dtype), x })
  end
  return reduce(g, "ReduceSum", x, axes_of(a.dim, #a.x.shape), keep(a))
end

local function logsumexp(g, a, call)
  local x = g:operand(a.x, call.results[1].dtype)
  return reduce(g, "ReduceLogSumExp", x, axes_of(a.dim, #a.x.shape), keep(a))
end
write.logsumexp = logsumexp

function write.aminmax(g, a)
  local axes, x = axes_of(a.dim, #a.x.shape), g:plain(a.x)
  return reduce(g, "ReduceMin", x, axes, keep(a)), reduce(g, "ReduceMax", x, axes, keep(a))
end

-- Truth values as 0 and 1.
local function truth(op)
  return function(g, a, call)
    local x = g:cast(g:operand(a.x, "bool"), "bool", "int32")
    -- An empty list names no dimension here.
    local axes = type(a.dim) == "table" and #a.dim == 0 and {} or axes_of(a.dim, #a.x.shape)
    return g:cast(reduce(g, op, x, axes, keep(a)), "int32",
      call.results[1].dtype)
  end
end
write.all, write.any = truth "ReduceMin", truth "ReduceMax"

function write.count_nonzero(g, a)
  local x = g:cast(g:operand(a.x, "bool"), "bool", "int64")
  return reduce(g, "ReduceSum", x, axes_of(a.dim, #a.x.shape), 0)
end

-- How many elements fall into each of equal parts of a range, that of the elements where both ends
-- are the same; those outside are counted in a part behind.
function write.histc(g, a, call)
  local dtype, bins = call.results[1].dtype, g:int(a.bins, "bins")
  local flat = g:constant({ -1 }, "int64")
  local x = g:node("Reshape", { g:operand(a.x, dtype), flat })
  local low, high, one = g:float(a.min, dtype), g:float(a.max, dtype), g:float(1, dtype)
  if a.min == a.max then
    low = g:node("ReduceMin", { x }, { axes = { 0 }, keepdims = 0 })
    high = g:node("ReduceMax", { x }, { axes = { 0 }, keepdims = 0 })
    local none = g:node("Equal", { low, high })
    low = g:node("Where", { none, g:node("Sub", { low, one }), low })
    high = g:node("Where", { none, g:node("Add", { high, one }), high })
  end
  local part = g:node("Div", { g:node("Mul", { g:node("Sub", { x, low }), g:float(bins, dtype) }),
    g:node("Sub", { high, low }) })
  local place = g:node("Min", { g:node("Floor", { part }), g:float(bins - 1, dtype) })
  local inside = g:node("And", { g:node("GreaterOrEqual", { x, low }),
    g:node("LessOrEqual", { x, high }) })
  place = g:cast(g:node("Where", { inside, place, g:float(bins, dtype) }), dtype, "int64")
  local zeros = g:node("Expand", { g:float(0, dtype), g:constant({ bins + 1 }, "int64") })
  local ones = g:node("Expand", { one, g:node("Shape", { place }) })
  local counts = g:node("ScatterElements", { zeros, place, ones }, { axis = 0, reduction = "add" })
  return g:node("Slice", { counts, g:constant({ 0 }, "int64"), g:constant({ bins }, "int64") })
end

-- --- norms and variances ----------------------------------------------------------------------

local function norm(g, x, p, axes, keepdims, dtype)
  if p == 2 then return reduce(g, "ReduceL2", x, axes, keepdims) end
  if p == 1 then return reduce(g, "ReduceL1", x, axes, keepdims) end
  local size = g:node("Abs", { x })
  if p == math.huge then return reduce(g, "ReduceMax", size, axes, keepdims) end
  if p == -math.huge then return reduce(g, "ReduceMin", size, axes, keepdims) end
  if p == 0 then
    local is_zero = g:node("Equal", { x, g:float(0, dtype) })
    return reduce(g, "ReduceSum", g:cast(g:node("Not", { is_zero }), "bool", dtype), axes, keepdims)
  end
  local sum = reduce(g, "ReduceSum", g:node("Pow", { size, g:float(p, dtype) }), axes, keepdims)
  return g:node("Pow", { sum, g:float(1 / p, dtype) })
end

function write.norm(g, a, call)
  local dtype = call.results[1].dtype
  return norm(g, g:operand(a.x, dtype), a.p, axes_of(a.dim, #a.x.shape), keep(a), dtype)
end

function write.linalg_vector_norm(g, a, call)
  local dtype = call.results[1].dtype
  return norm(g, g:operand(a.x, dtype), a.ord, axes_of(a.dim, #a.x.shape), keep(a), dtype)
end

-- The number of elements that each result is of.
local function count_of(g, a, axes)
  return sizes.map(g.run.count, function(i)
    local count = 1
    for _, axis in ipairs(axes) do count = count * sizes.at(a.x.shape[axis + 1], i) end
    return count
  end)
end

function write.var(g, a, call)
  local dtype, axes = call.results[1].dtype, axes_of(a.dim, #a.x.shape)
  local x = g:operand(a.x, dtype)
  local far = g:node("Sub", { x, reduce(g, "ReduceMean", x, axes, 1) })
  local square = g:node("Mul", { far, far })
  if a.correction == 0 then return reduce(g, "ReduceMean", square, axes, keep(a)) end
  local count = count_of(g, a, axes)
  local divisor = sizes.map(g.run.count, function(i)
    return math.max(sizes.at(count, i) - a.correction, 0)
  end)
  if not sizes.is_size(divisor) then divisor = divisor + 0.0 end
  local sum = reduce(g, "ReduceSum", square, axes, keep(a))
  return g:node("Div", { sum, g:operand(divisor, dtype) })
end

function write.std(g, a, call) return g:node("Sqrt", { write.var(g, a, call) }) end

-- --- where an extreme is ----------------------------------------------------------------------

local function extreme(op)
  return function(g, a)
    local x = g:plain(a.x)
    -- Without `dim` the position is that among all elements.
    if a.dim == nil then
      local flat = g:node("Reshape", { x, g:constant({ -1 }, "int64") })
      local at = g:node(op, { flat }, { axis = 0, keepdims = 0 })
      if not a.keepdim then return { zero = at } end
      local ones = {}
      for i = 1, #a.x.shape do ones[i] = 1 end
      return { zero = g:node("Reshape", { at, g:constant(ones, "int64") }) }
    end
    local axis = axes_of(a.dim, #a.x.shape)[1]
    return { zero = g:node(op, { x }, { axis = axis, keepdims = keep(a) }) }
  end
end
write.argmax, write.argmin = extreme "ArgMax", extreme "ArgMin"

local function extreme_and_place(reduce_op, place_op)
  return function(g, a)
    local x, axes = g:plain(a.x), axes_of(a.dim, #a.x.shape)
    local at = g:node(place_op, { x }, { axis = axes[1], keepdims = keep(a) })
    return reduce(g, reduce_op, x, axes, keep(a)), { zero = at }
  end
end
write.max_dim = extreme_and_place("ReduceMax", "ArgMax")
write.min_dim = extreme_and_place("ReduceMin", "ArgMin")

local function topk(g, x, k, dim, largest, rank)
  local values, at = g:node("TopK", { x, k }, { axis = axes_of(dim, rank)[1],
    largest = largest and 1 or 0, sorted = 1 }, 2)
  return values, { zero = at }
end

function write.topk(g, a)
  return topk(g, g:plain(a.x), g:ints { a.k }, a.dim, a.largest, #a.x.shape)
end

function write.sort(g, a, call)
  local rank = #a.x.shape
  if rank == 0 then
    fail("onnx.export: sort of a tensor without dimensions has no translation%s", call.place)
  end
  local dim = a.dim > 0 and a.dim or a.dim + rank + 1
  return topk(g, g:plain(a.x), g:ints { a.x.shape[dim] }, dim, a.descending, rank)
end

-- The entry number `at` (from 0) of the sorted entries along a dimension, and its place.
local function ranked(g, x, at, axis, size, keepdim)
  local values, places = g:node("TopK", { x, g:ints { size } },
    { axis = axis, largest = 0, sorted = 1 }, 2)
  local index = g:constant(keepdim and { at } or at, "int64")
  return g:node("Gather", { values, index }, { axis = axis }),
    { zero = g:node("Gather", { places, index }, { axis = axis }) }
end

function write.kthvalue(g, a, call)
  local rank = #a.x.shape
  if rank == 0 then
    fail("onnx.export: kthvalue of a tensor without dimensions has no translation%s", call.place)
  end
  local axis = axes_of(a.dim, rank)[1]
  return ranked(g, g:plain(a.x), g:int(a.k, "k") - 1, axis, a.x.shape[axis + 1], a.keepdim)
end

-- The lower one of the two in the middle; NaN where there is one.
local function median(g, x, dtype, axis, size, keepdim)
  local at = (g:int(size, "the number of elements") - 1) // 2
  local value, place = ranked(g, x, at, axis, size, keepdim)
  if not dtypes.is_float(dtype) then return value, place end
  local is_nan = g:cast(g:node("IsNaN", { x }), "bool", "int32")
  local first = g:node("ArgMax", { is_nan }, { axis = axis, keepdims = keepdim and 1 or 0 })
  local any = g:cast(reduce(g, "ReduceMax", is_nan, { axis }, keepdim and 1 or 0), "int32", "bool")
  return g:node("Where", { any, g:float(0 / 0, dtype), value }),
    { zero = g:node("Where", { any, first, place.zero }) }
end

function write.median_dim(g, a, call)
  if #a.x.shape == 0 then
    fail("onnx.export: median of a tensor without dimensions has no translation%s", call.place)
  end
  local axis = axes_of(a.dim, #a.x.shape)[1]
  return median(g, g:plain(a.x), a.x.dtype, axis, a.x.shape[axis + 1], a.keepdim)
end

-- The same of what is not NaN: NaN is behind all, and the middle is that of the others.
local function nanmedian(g, x, dtype, axis, size, keepdim)
  if not dtypes.is_float(dtype) then return median(g, x, dtype, axis, size, keepdim) end
  local nan = g:node("IsNaN", { x })
  local values, places = g:node("TopK", { g:node("Where", { nan, g:float(math.huge, dtype), x }),
    g:ints { size } }, { axis = axis, largest = 0, sorted = 1 }, 2)
  local count = g:node("ReduceSum", { g:cast(g:node("Not", { nan }), "bool", "int64"),
    g:constant({ axis }, "int64") }, { keepdims = 1 })
  local zero = g:constant(0, "int64")
  local last = g:node("Max", { g:node("Sub", { count, g:constant(1, "int64") }), zero })
  local at = g:node("Div", { last, g:constant(2, "int64") })
  local value = g:node("Where", { g:node("Equal", { count, zero }), g:float(0 / 0, dtype),
    g:node("GatherElements", { values, at }, { axis = axis }) })
  local place = g:node("GatherElements", { places, at }, { axis = axis })
  if keepdim then return value, { zero = place } end
  return g:squeeze(value, { axis }), { zero = g:squeeze(place, { axis }) }
end

-- All elements as one row, and how many they are.
local function in_a_row(g, value)
  local count = 1
  for _, size in ipairs(value.shape) do count = count * g:int(size, "the number of elements") end
  return g:node("Reshape", { g:plain(value), g:constant({ -1 }, "int64") }), count
end

function write.nanmedian_dim(g, a, call)
  if #a.x.shape == 0 then
    fail("onnx.export: nanmedian of a tensor without dimensions has no translation%s", call.place)
  end
  local axis = axes_of(a.dim, #a.x.shape)[1]
  return nanmedian(g, g:plain(a.x), a.x.dtype, axis, a.x.shape[axis + 1], a.keepdim)
end

function write.nanmedian(g, a)
  local flat, count = in_a_row(g, a.x)
  return (nanmedian(g, flat, a.x.dtype, 0, count, false))
end

function write.median(g, a)
  local flat, count = in_a_row(g, a.x)
  return (median(g, flat, a.x.dtype, 0, count, false))
end

-- --- running sums -----------------------------------------------------------------------------

function write.cumsum(g, a, call)
  local dtype, rank = call.results[1].dtype, #a.x.shape
  local x = g:operand(a.x, dtype)
  if rank == 0 then return g:node("Identity", { x }) end
  return g:node("CumSum", { x, g:constant(axes_of(a.dim, rank)[1], "int64") })
end

-- The running product of what is not negative, by the sum of logarithms, is not exact; by steps.
local function stepwise(g, name, shape, axis, step)
  local count = g:int(shape[axis + 1], "the size of dim")
  local parts = table.pack(g:node("Split", { name }, { axis = axis }, count))
  for i = 2, count do parts[i] = step(parts[i - 1], parts[i]) end
  parts.n = nil
  return g:node("Concat", parts, { axis = axis })
end

local function by_steps(step)
  return function(g, a, call)
    local dtype, rank = call.results[1].dtype, #a.x.shape
    local x = g:operand(a.x, dtype)
    if rank == 0 then return g:node("Identity", { x }) end
    return stepwise(g, x, a.x.shape, axes_of(a.dim, rank)[1], function(before, one)
      return step(g, before, one, dtype)
    end)
  end
end

write.cumprod = by_steps(function(g, before, x) return g:node("Mul", { before, x }) end)

-- log(exp(x) + exp(y)): the larger plus log(1 + exp(-|x - y|)).
local function logaddexp(g, x, y, dtype)
  local far = g:node("Where", { g:node("Equal", { x, y }), g:float(0, dtype),
    g:node("Abs", { g:node("Sub", { x, y }) }) })
  return g:node("Add", { g:node("Max", { x, y }), g:node("Log", {
    g:node("Add", { g:node("Exp", { g:node("Neg", { far }) }), g:float(1, dtype) }) }) })
end
write.logcumsumexp = by_steps(logaddexp)

function write.logaddexp(g, a, call)
  local dtype = call.results[1].dtype
  return logaddexp(g, g:operand(a.x, dtype), g:operand(a.other, dtype), dtype)
end

function write.logaddexp2(g, a, call)
  local dtype = call.results[1].dtype
  local two = g:float(math.log(2), dtype)
  local function natural(value) return g:node("Mul", { g:operand(value, dtype), two }) end
  return g:node("Div", { logaddexp(g, natural(a.x), natural(a.other), dtype), two })
end

-- The places follow from the last one where the running extreme is reached anew.
local function running(op)
  return function(g, a, call)
    local dtype, rank, shape = call.results[1].dtype, #a.x.shape, a.x.shape
    local x = g:operand(a.x, dtype)
    if rank == 0 then return g:node("Identity", { x }), { zero = g:constant(0, "int64") } end
    local axis = axes_of(a.dim, rank)[1]
    local values = stepwise(g, x, shape, axis, function(before, one)
      return g:node(op, { before, one })
    end)
    local column, list = {}, {}
    for i = 1, g:int(shape[axis + 1], "the size of dim") do list[i] = i - 1 end
    for d = 1, rank do column[d] = d == axis + 1 and #list or 1 end
    local reached = g:node("Equal", { x, values })
    if dtypes.is_float(dtype) then reached = g:node("Or", { reached, g:node("IsNaN", { x }) }) end
    local at = g:node("Where", { reached, g:reshape(g:constant(list, "int64"), column),
      g:constant(0, "int64") })
    return values, { zero = stepwise(g, at, shape, axis, function(before, one)
      return g:node("Max", { before, one })
    end) }
  end
end
write.cummax, write.cummin = running "Max", running "Min"

return write
