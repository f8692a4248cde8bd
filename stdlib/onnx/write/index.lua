-- stdlib/onnx/write/index.lua: gathering and scattering by positions as ONNX nodes.

local dtypes = require "moonlet.onnx.dtypes"
local fail = require("moonlet.options").fail
local ml = require "moonlet"
local sizes = require "moonlet.onnx.sizes"
local trace = require "moonlet.onnx.trace"

local write = {}

local function axis(dim, rank) return dim > 0 and dim - 1 or dim + rank end

local function as_kept(value, name) return value.zero and { zero = name } or name end

function write.embedding(g, a)
  return g:node("Gather", { g:plain(a.weight), g:index(a.index) }, { axis = 0 })
end

function write.index_select(g, a)
  local index = g:index(a.index)
  if #a.index.shape == 0 then index = g:unsqueeze(index, { 0 }) end
  if #a.x.shape == 0 then return g:node("Identity", { g:raw(a.x) }) end
  return as_kept(a.x, g:node("Gather", { g:raw(a.x), index }, { axis = axis(a.dim, #a.x.shape) }))
end

function write.gather(g, a)
  if #a.x.shape == 0 then return g:node("Identity", { g:raw(a.x) }) end
  return as_kept(a.x, g:node("GatherElements", { g:raw(a.x), g:index(a.index) },
    { axis = axis(a.dim, #a.x.shape) }))
end

function write.take_along_dim(g, a, call)
  if a.dim == nil then
    local flat = g:node("Reshape", { g:raw(a.x), g:constant({ -1 }, "int64") })
    local index = g:node("Reshape", { g:index(a.indices), g:constant({ -1 }, "int64") })
    return as_kept(a.x, g:node("GatherElements", { flat, index }, { axis = 0 }))
  end
  local rank = #a.x.shape
  local dim = axis(a.dim, rank)
  -- But for that dimension they broadcast.
  local names = { g:raw(a.x), g:index(a.indices) }
  for i, value in ipairs { a.x, a.indices } do
    local whole, same = {}, true
    for d, size in ipairs(value.shape) do
      whole[d] = d - 1 == dim and size or call.results[1].shape[d]
      same = same and sizes.same(whole[d], size)
    end
    if not same then names[i] = g:node("Expand", { names[i], g:ints(whole) }) end
  end
  return as_kept(a.x, g:node("GatherElements", names, { axis = dim }))
end

function write.take(g, a)
  local flat = g:node("Reshape", { g:raw(a.x), g:constant({ -1 }, "int64") })
  return as_kept(a.x, g:node("Gather", { flat, g:index(a.index) }, { axis = 0 }))
end

-- The dimensions that an index stands at, and the values there.
local function indexed(list)
  local dims, values = {}, {}
  for i, index in ipairs(list) do
    if index then dims[#dims + 1], values[#values + 1] = i, index end
  end
  return dims, values
end

-- A mask among them arrives as the positions where it is true, unless it is an old one of uint8.
local function check_index(values, call)
  for _, value in ipairs(values) do
    if not trace.is_value(value) or value.dtype == "bool" or value.dtype == "uint8" then
      fail("onnx.export: %s with a mask of uint8 has no translation to ONNX; give one of bool%s",
        call.name, call.place)
    end
  end
end

-- The tuples of positions of several index tensors, in a last dimension of their own.
local function tuples(g, values)
  local names = {}
  local most = values[1]
  for _, value in ipairs(values) do
    if #value.shape > #most.shape then most = value end
  end
  -- The shape that all go with: that of their sum.
  local sum
  for _, value in ipairs(values) do
    local name = g:index(value)
    sum = sum and g:node("Add", { sum, name }) or name
  end
  local shape = g:node("Shape", { sum })
  for i, value in ipairs(values) do
    local name = g:node("Expand", { g:index(value), shape })
    names[i] = g:unsqueeze(name, { #most.shape })
  end
  return g:node("Concat", names, { axis = #most.shape }), #most.shape
end

-- The order that brings the dimensions that are indexed to the front; nil where they are there.
local function fronted(x_rank, dims)
  local perm, taken = {}, {}
  for i, d in ipairs(dims) do perm[i], taken[d] = d - 1, true end
  for d = 1, x_rank do
    if not taken[d] then perm[#perm + 1] = d - 1 end
  end
  return dims[#dims] ~= #dims and perm or nil
end

-- Where the dimensions of the positions stand in the result: in the place of those that they index,
-- or in front where these are not beside one another.
local function place_of(dims)
  for i = 2, #dims do
    if dims[i] ~= dims[i - 1] + 1 then return 0 end
  end
  return dims[1] - 1
end

-- The order that puts `rank` dimensions in front to the place `first`.
local function restored(result_rank, first, rank)
  local perm, behind = {}, 0
  for d = 0, result_rank - 1 do
    if d >= first and d < first + rank then
      perm[#perm + 1] = d - first
    else
      perm[#perm + 1] = rank + behind
      behind = behind + 1
    end
  end
  return perm
end

function write.index(g, a, call)
  local dims, values = indexed(a.indices)
  check_index(values, call)
  local x, first = g:raw(a.x), place_of(dims)
  if #dims == 1 then
    return as_kept(a.x, g:node("Gather", { x, g:index(values[1]) }, { axis = first }))
  end
  local perm = fronted(#a.x.shape, dims)
  if perm then x = g:transpose(x, perm) end
  local places, rank = tuples(g, values)
  local name = g:node("GatherND", { x, places })
  if first > 0 then
    name = g:transpose(name, restored(#call.results[1].shape, first, rank))
  end
  return as_kept(a.x, name)
end

local function inverse(perm)
  local out = {}
  for i, d in ipairs(perm) do out[d + 1] = i - 1 end
  return out
end

-- The values in the shape of what is indexed, with the dimensions of the positions in front.
local function spread_values(g, a, dims, places, rank, dtype)
  local taken, before, after = {}, {}, {}
  local first = place_of(dims)
  for _, d in ipairs(dims) do taken[d] = true end
  for d, size in ipairs(a.x.shape) do
    local list = d <= first and before or after
    if not taken[d] then list[#list + 1] = size end
  end
  local parts = {}
  if #before > 0 then parts[1] = g:ints(before) end
  parts[#parts + 1] = g:node("Slice", { g:node("Shape", { places }), g:constant({ 0 }, "int64"),
    g:constant({ rank }, "int64") })
  if #after > 0 then parts[#parts + 1] = g:ints(after) end
  local shape = #parts > 1 and g:node("Concat", parts, { axis = 0 }) or parts[1]
  local name = g:node("Expand", { g:operand(a.values, dtype), shape })
  if first == 0 then return name end
  local total = #before + rank + #after
  return g:transpose(name, inverse(restored(total, first, rank)))
end

function write.index_put(g, a, call)
  local dims, values = indexed(a.indices)
  check_index(values, call)
  local dtype = call.results[1].dtype
  local places, rank = tuples(g, values)
  local updates = spread_values(g, a, dims, places, rank, dtype)
  local x, perm = g:operand(a.x, dtype), fronted(#a.x.shape, dims)
  if perm then x = g:transpose(x, perm) end
  local y = g:node("ScatterND", { x, places, updates },
    { reduction = a.accumulate and "add" or "none" })
  return perm and g:transpose(y, inverse(perm)) or y
end

-- --- masks ------------------------------------------------------------------------------------

-- NonZero gives a row for each dimension, and a column for each element.
function write.nonzero(g, a, call)
  if #a.x.shape == 0 then
    fail("onnx.export: nonzero of a tensor without dimensions has no translation to ONNX%s",
      call.place)
  end
  return { zero = g:transpose(g:node("NonZero", { g:plain(a.x) }), { 1, 0 }) }
end

-- The results that were asked for.
local function asked(a, values, number, counts)
  local out = { values }
  if a.return_inverse then out[2] = { zero = number } end
  if a.return_counts then out[#out + 1] = counts end
  return table.unpack(out)
end

function write.unique(g, a, call)
  local dim = a.dim and #a.x.shape > 0 and axis(a.dim, #a.x.shape) or nil
  local values, _, number, counts = g:node("Unique", { g:plain(a.x) }, { axis = dim, sorted = 1 },
    4)
  if not dim and a.return_inverse then number = g:reshape(number, call.results[2].shape) end
  return asked(a, values, number, counts)
end

-- Of all elements in one row: those that are not what stands before them.
function write.unique_consecutive(g, a, call)
  if a.dim then
    fail("onnx.export: unique_consecutive with 'dim' and 'return_inverse' has no translation to "
      .. "ONNX%s", call.place)
  end
  local function constant(...) return g:constant({ ... }, "int64") end
  local x = g:node("Reshape", { g:plain(a.x), constant(-1) })
  local later = g:node("Slice", { x, constant(1), constant(math.maxinteger) })
  local before = g:node("Slice", { x, constant(0), constant(-1) })
  local first = g:node("Expand", { g:constant(true, "bool"), g:node("Min", { constant(1),
    g:node("Shape", { x }) }) })
  local begins = g:node("Concat", { first, g:node("Not", { g:node("Equal", { later, before }) }) },
    { axis = 0 })
  local numbered = g:node("CumSum", { g:cast(begins, "bool", "int64"), g:constant(0, "int64") })
  local number = g:node("Sub", { numbered, constant(1) })
  local places = g:node("Reshape", { g:node("NonZero", { begins }), constant(-1) })
  local next_ones = g:node("Slice", { places, constant(1), constant(math.maxinteger) })
  local ends = g:node("Concat", { next_ones, g:node("Shape", { x }) }, { axis = 0 })
  if a.return_inverse then number = g:reshape(number, call.results[2].shape) end
  return asked(a, g:node("Compress", { x, begins }, { axis = 0 }), number,
    g:node("Sub", { ends, places }))
end

-- The positions in each dimension of elements counted in row order.
function write.unravel_index(g, a)
  local index, out, step = g:index(a.indices), {}, 1
  for d = #a.shape, 1, -1 do
    local size = g:int(a.shape[d], "shape")
    local at = g:node("Div", { index, g:constant(step, a.indices.dtype) })
    if d > 1 then at = g:node("Mod", { at, g:constant(size, a.indices.dtype) }) end
    out[d], step = { zero = at }, step * size
  end
  return table.unpack(out, 1, #a.shape)
end

-- The places (from 0) of entries of which each stands as often as `repeats` says: for each place in
-- the result, how many entries end before.
local function repeated(g, a, size)
  local repeats = g:cast(g:plain(a.repeats), a.repeats.dtype, "int64")
  local shape = g:ints { size or a.repeats.shape[1] }
  local flat = g:node("Reshape", { repeats, g:constant({ -1 }, "int64") })
  local each = g:node("Expand", { flat, shape })
  local ends = g:node("CumSum", { each, g:constant(0, "int64") })
  local total = g:node("ReduceSum", { each, g:constant({ 0 }, "int64") }, { keepdims = 0 })
  local all = g:node("Range", { g:constant(0, "int64"), total, g:constant(1, "int64") })
  local before = g:node("LessOrEqual", { g:unsqueeze(ends, { 0 }), g:unsqueeze(all, { 1 }) })
  return g:node("ReduceSum", { g:cast(before, "bool", "int64"), g:constant({ 1 }, "int64") },
    { keepdims = 0 })
end

function write.repeat_interleave_positions(g, a) return { zero = repeated(g, a) } end

function write.repeat_interleave_each(g, a)
  local x, dim, size = g:raw(a.x), 0
  if a.dim == nil or #a.x.shape == 0 then
    x = g:node("Reshape", { x, g:constant({ -1 }, "int64") })
    size = sizes.map(g.run.count, function(i)
      local count = 1
      for _, n in ipairs(a.x.shape) do count = count * sizes.at(n, i) end
      return count
    end)
  else
    dim = axis(a.dim, #a.x.shape)
    size = a.x.shape[dim + 1]
  end
  return as_kept(a.x, g:node("Gather", { x, repeated(g, a, size) }, { axis = dim }))
end

-- With rows of `fill_value` behind, of which as many are left as are wanted.
function write.nonzero_static(g, a, call)
  local size, fill = g:int(a.size, "size"), a.fill_value
  local rows = write.nonzero(g, a, call).zero
  local rest = g:node("Expand", { g:constant(fill > 0 and fill - 1 or fill, "int64"),
    g:constant({ size, #a.x.shape }, "int64") })
  local all = g:node("Concat", { rows, rest }, { axis = 0 })
  return { zero = g:node("Slice", { all, g:constant({ 0 }, "int64"),
    g:constant({ size }, "int64") }) }
end

-- The first of `source` at the places of the mask, in row order.
function write.masked_scatter(g, a, call)
  local result, flat = call.results[1], g:constant({ -1 }, "int64")
  local shape = g:ints(result.shape)
  local function all(name) return g:node("Reshape", { g:node("Expand", { name, shape }), flat }) end
  local places = g:node("Reshape", { g:node("NonZero", { all(g:operand(a.mask, "bool")) }), flat })
  local source = g:node("Reshape", { g:operand(a.source, result.dtype), flat })
  local given = g:node("Slice", { source, g:constant({ 0 }, "int64"), g:node("Shape", { places }) })
  local y = g:node("ScatterElements", { all(g:operand(a.x, result.dtype)), places, given },
    { axis = 0 })
  return g:node("Reshape", { y, shape })
end

-- --- scattering -------------------------------------------------------------------------------

-- Only as many of `src` are taken as there are positions.
local function updates_of(g, a, dtype)
  local source = a.src
  if not trace.is_value(source) then
    local shape = g:node("Shape", { g:index(a.index) })
    return g:node("Expand", { g:operand(a.value == nil and source or a.value, dtype), shape })
  end
  local name, axes, ends, same = g:operand(source, dtype), {}, {}, true
  for d, size in ipairs(a.index.shape) do
    same = same and sizes.same(size, source.shape[d])
    axes[d], ends[d] = d - 1, 0
  end
  if same then return name end
  local starts = ends
  return g:node("Slice", { name, g:constant(starts, "int64"), g:ints(a.index.shape),
    g:constant(axes, "int64") })
end

local function scatter(reduction)
  return function(g, a, call)
    local dtype = call.results[1].dtype
    return g:node("ScatterElements", { g:operand(a.x, dtype), g:index(a.index),
      updates_of(g, a, dtype) }, { axis = axis(a.dim, #a.x.shape), reduction = reduction })
  end
end
write.scatter, write.scatter_value = scatter "none", scatter "none"
write.scatter_add = scatter "add"

-- ONNX has no extremes of truth values, and those of numbers from opset 18 on.
local FOLDS = { prod = "mul", amax = "max", amin = "min", sum = "add", mean = "add" }

local function fold_of(g, reduce, call)
  if reduce == "amax" or reduce == "amin" then
    g:needs(18, ("%s with reduce '%s'"):format(call.name, reduce))
  end
  return FOLDS[reduce]
end

function write.scatter_fold(g, a, call)
  return scatter(fold_of(g, a.reduce, call))(g, a, call)
end

-- Positions along one dimension, repeated over the others.
local function spread(g, a, shape)
  local ones = {}
  for d = 1, #a.x.shape do ones[d] = 1 end
  local dim = axis(a.dim, #a.x.shape) + 1
  ones[dim] = a.index.shape[1] or 1
  return g:node("Expand", { g:reshape(g:index(a.index), ones), shape })
end

local function along(reduction, fill)
  return function(g, a, call)
    local dtype, dim = call.results[1].dtype, axis(a.dim, #a.x.shape)
    local whole = {}
    for d, size in ipairs(a.x.shape) do whole[d] = size end
    whole[dim + 1] = a.index.shape[1] or 1
    local shape = g:ints(whole)
    local source = fill and g:node("Expand", { g:operand(a.value, dtype), shape })
      or g:operand(a.source, dtype)
    return g:node("ScatterElements", { g:operand(a.x, dtype), spread(g, a, shape), source },
      { axis = dim, reduction = reduction })
  end
end
write.index_add, write.index_copy = along "add", along "none"
write.index_fill = along("none", true)

function write.index_add_scaled(g, a, call)
  local dtype, dim = call.results[1].dtype, axis(a.dim, #a.x.shape)
  local source = g:node("Mul", { g:operand(a.source, dtype), g:operand(a.alpha, dtype) })
  return g:node("ScatterElements", { g:operand(a.x, dtype),
    spread(g, a, g:ints(a.source.shape)), source }, { axis = dim, reduction = "add" })
end

-- A number that changes nothing.
local function neutral(g, reduce, dtype)
  if reduce == "prod" then return g:constant(1, dtype) end
  if reduce == "mean" then return g:constant(0, dtype) end
  local low = reduce == "amax"
  if dtypes.is_float(dtype) then return g:float(low and -math.huge or math.huge, dtype) end
  local limits = ml.iinfo(dtype)
  return g:constant(low and limits.min or limits.max, dtype)
end

-- How many elements are brought together at each place, and the sums divided by that.
local function averaged(g, a, y, places, shape, dim, dtype)
  local ones = g:node("Expand", { g:constant(1, dtype), shape })
  local counts = g:node("Expand", { g:constant(1, dtype), g:ints(a.x.shape) })
  if not a.include_self then
    local none = g:node("Expand", { g:constant(0, dtype), shape })
    counts = g:node("ScatterElements", { counts, places, none }, { axis = dim })
  end
  counts = g:node("ScatterElements", { counts, places, ones }, { axis = dim, reduction = "add" })
  if not a.include_self then counts = g:node("Max", { counts, g:constant(1, dtype) }) end
  if dtypes.is_float(dtype) then return g:node("Div", { y, counts }) end
  local left = g:node("Mod", { y, counts })
  return g:node("Div", { g:node("Sub", { y, left }), counts })
end

function write.index_reduce(g, a, call)
  local dtype, dim = call.results[1].dtype, axis(a.dim, #a.x.shape)
  local shape = g:ints(a.source.shape)
  local places, x = spread(g, a, shape), g:operand(a.x, dtype)
  if not a.include_self then
    local base = g:node("Expand", { neutral(g, a.reduce, dtype), shape })
    x = g:node("ScatterElements", { x, places, base }, { axis = dim })
  end
  local y = g:node("ScatterElements", { x, places, g:operand(a.source, dtype) },
    { axis = dim, reduction = fold_of(g, a.reduce, call) })
  return a.reduce == "mean" and averaged(g, a, y, places, shape, dim, dtype) or y
end

local REDUCTIONS = { [0] = "none", "mean", "sum" }

-- The total weight, its second result, is for derivatives.
function write.native_nll_loss(g, a, call)
  local dtype = call.results[1].dtype
  local inputs = { g:operand(a.log_probs, dtype), g:index(a.target) }
  if a.weight then inputs[3] = g:operand(a.weight, dtype) end
  local ignored = a.ignore_index > 0 and a.ignore_index - 1 or a.ignore_index
  return g:node("NegativeLogLikelihoodLoss", inputs, { reduction = REDUCTIONS[a.reduction],
    ignore_index = ignored }), false
end

-- The part of label smoothing: minus the sum over the classes of the weighted logarithms, 0 where
-- the target is ignored.
local function smoothed_part(g, a, logs, dtype, index, ignored)
  local axes = g:constant({ 1 }, "int64")
  if a.weight then
    local shape = { 1, -1 }
    for d = 3, #a.x.shape do shape[d] = 1 end
    local weight = g:node("Reshape", { g:operand(a.weight, dtype), g:constant(shape, "int64") })
    logs = g:node("Mul", { logs, weight })
  end
  local each = g:node("Neg", { g:node("ReduceSum", { logs, axes }, { keepdims = 0 }) })
  local unused = g:node("Equal", { index, g:constant(ignored, "int64") })
  return g:node("Where", { unused, g:constant(0, dtype), each })
end

-- By the logarithms of the softmax. What comes with the loss is for derivatives.
function write.native_cross_entropy(g, a, call)
  local dtype, index = call.results[1].dtype, g:index(a.target)
  local logs = g:node("LogSoftmax", { g:operand(a.x, dtype) }, { axis = 1 })
  local ignored = a.ignore_index > 0 and a.ignore_index - 1 or a.ignore_index
  local function likelihood(scores, reduction)
    local inputs = { scores, index }
    if a.weight then inputs[3] = g:operand(a.weight, dtype) end
    return g:node("NegativeLogLikelihoodLoss", inputs, { reduction = reduction,
      ignore_index = ignored })
  end
  local loss = likelihood(logs, REDUCTIONS[a.reduction])
  if a.label_smoothing == 0 then return loss, false, false end
  local part = smoothed_part(g, a, logs, dtype, index, ignored)
  if a.reduction ~= 0 then part = g:node("ReduceSum", { part }, { keepdims = 0 }) end
  if a.reduction == 1 then
    local ones = g:node("Expand", { g:constant(-1, dtype), g:node("Shape", { logs }) })
    part = g:node("Div", { part, likelihood(ones, "sum") })
  end
  local share = a.label_smoothing / g:int(a.x.shape[2], "the number of classes")
  return g:node("Add", { g:node("Mul", { loss, g:float(1 - a.label_smoothing, dtype) }),
    g:node("Mul", { part, g:float(share, dtype) }) }), false, false
end

-- As many as the largest position says, but at least `least`.
local function count_of(g, index, least)
  local most = g:node("ReduceMax", { g:node("Reshape", { index, g:constant({ -1 }, "int64") }) },
    { axes = { 0 }, keepdims = 1 })
  most = g:node("Add", { g:node("Cast", { most }, { to = dtypes.codes.int64 }),
    g:constant({ 1 }, "int64") })
  return g:node("Max", { most, g:constant({ least }, "int64") })
end

-- One at each position, along a new last dimension.
function write.one_hot(g, a)
  local index = g:index(a.x)
  local classes = a.num_classes > 0 and g:constant(a.num_classes, "int64")
    or g:squeeze(count_of(g, index, 1), { 0 })
  return g:node("OneHot", { index, classes, g:constant({ 0, 1 }, "int64") }, { axis = -1 })
end

function write.bincount(g, a, call)
  local dtype, index = call.results[1].dtype, g:index(a.x)
  local each = a.weights and g:operand(a.weights, dtype)
    or g:node("Expand", { g:constant(1, dtype), g:node("Shape", { index }) })
  local zeros = g:node("Expand", { g:constant(0, dtype), count_of(g, index, a.minlength) })
  return g:node("ScatterElements", { zeros, index, each }, { axis = 0, reduction = "add" })
end

return write
