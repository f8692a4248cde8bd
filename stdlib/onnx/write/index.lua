-- stdlib/onnx/write/index.lua: gathering and scattering by positions as ONNX nodes.

local fail = require("moonlet.options").fail
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

function write.take_along_dim(g, a)
  if a.dim == nil then
    local flat = g:node("Reshape", { g:raw(a.x), g:constant({ -1 }, "int64") })
    local index = g:node("Reshape", { g:index(a.indices), g:constant({ -1 }, "int64") })
    return as_kept(a.x, g:node("GatherElements", { flat, index }, { axis = 0 }))
  end
  return as_kept(a.x, g:node("GatherElements", { g:raw(a.x), g:index(a.indices) },
    { axis = axis(a.dim, #a.x.shape) }))
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

local function check_index(dims, values, call)
  for i, value in ipairs(values) do
    if not trace.is_value(value) or value.dtype == "bool" or value.dtype == "uint8" then
      fail("onnx.export: indexing with a mask gives a result whose size depends on its elements, "
        .. "which has no translation to ONNX; use where%s", call.place)
    elseif i > 1 and dims[i] ~= dims[i - 1] + 1 then
      fail("onnx.export: index tensors with other dimensions between them have no translation to "
        .. "ONNX%s", call.place)
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

-- x with the dimensions from `first` on, `count` of them, in front; and the order that puts what
-- stands for these, in `rank` dimensions, back to their place.
local function fronted(x_rank, first, count)
  local perm = {}
  for i = 0, count - 1 do perm[#perm + 1] = first + i end
  for d = 0, x_rank - 1 do
    if d < first or d >= first + count then perm[#perm + 1] = d end
  end
  return perm
end

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
  check_index(dims, values, call)
  local x, first = g:raw(a.x), dims[1] - 1
  if #dims == 1 then
    return as_kept(a.x, g:node("Gather", { x, g:index(values[1]) }, { axis = first }))
  end
  if first > 0 then x = g:transpose(x, fronted(#a.x.shape, first, #dims)) end
  local places, rank = tuples(g, values)
  local name = g:node("GatherND", { x, places })
  if first > 0 then
    name = g:transpose(name, restored(#call.results[1].shape, first, rank))
  end
  return as_kept(a.x, name)
end

function write.index_put(g, a, call)
  local dims, values = indexed(a.indices)
  check_index(dims, values, call)
  if dims[1] ~= 1 then
    fail("onnx.export: assigning to index tensors behind other dimensions has no translation to "
      .. "ONNX%s", call.place)
  end
  local dtype = call.results[1].dtype
  local places, rank = tuples(g, values)
  local shape = {}
  for d = #dims + 1, #a.x.shape do shape[#shape + 1] = a.x.shape[d] end
  local place_shape = g:node("Shape", { places })
  local front = g:node("Slice", { place_shape, g:constant({ 0 }, "int64"),
    g:constant({ rank }, "int64") })
  local whole = #shape > 0 and g:node("Concat", { front, g:ints(shape) }, { axis = 0 }) or front
  local updates = g:node("Expand", { g:operand(a.values, dtype), whole })
  return g:node("ScatterND", { g:plain(a.x), places, updates },
    { reduction = a.accumulate and "add" or "none" })
end

-- What these give has a size that no run can know before.
local function sized_by_elements(_, _, call)
  fail("onnx.export: %s gives a result whose size depends on elements, as indexing with a mask "
    .. "does, which has no translation to ONNX; use where%s", call.name, call.place)
end
write.nonzero, write.masked_select, write.where_nonzero = sized_by_elements, sized_by_elements,
  sized_by_elements

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

-- One at each position, along a new last dimension.
function write.one_hot(g, a, call)
  local shape = call.results[1].shape
  local classes = g:int(shape[#shape], "num_classes")
  return g:node("OneHot", { g:index(a.x), g:constant(classes, "int64"),
    g:constant({ 0, 1 }, "int64") }, { axis = -1 })
end

return write
