-- stdlib/onnx/write/pool.lua: pooling as ONNX nodes.

local fail = require("moonlet.options").fail
local ml = require "moonlet"
local sizes = require "moonlet.onnx.sizes"

local write = {}

local function batched(g, a, rank, call, make)
  local x = g:operand(a.x, call.results[1].dtype)
  if #a.x.shape == rank + 2 then return make(x) end
  return g:squeeze(make(g:unsqueeze(x, { 0 })), { 0 })
end

-- One number stands for all dimensions.
local function stride_of(a, rank)
  local stride = a.stride and #a.stride > 0 and a.stride or a.kernel_size
  if #stride == rank then return stride end
  local out = {}
  for d = 1, rank do out[d] = stride[1] end
  return out
end

local function attributes(g, a, rank)
  local stride = stride_of(a, rank)
  local pads = {}
  for d = 1, rank do pads[d], pads[d + rank] = a.padding[d], a.padding[d] end
  return { kernel_shape = g:known(a.kernel_size, "kernel_size"),
    strides = g:known(stride, "stride"), pads = pads, ceil_mode = a.ceil_mode and 1 or 0 }
end

-- Whether the last window, which `ceil_mode` adds, is there at all.
local function has_part_windows(g, a, rank)
  local stride = stride_of(a, rank)
  local lead = #a.x.shape - rank
  for d = 1, rank do
    for i = 1, g.run.count do
      local size = sizes.at(a.x.shape[lead + d], i)
      if (size + 2 * a.padding[d] - a.kernel_size[d]) % stride[d] ~= 0 then return true end
    end
    if sizes.is_size(a.x.shape[lead + d]) and stride[d] > 1 then return true end
  end
  return false
end

-- The maxima and their places. ONNX counts these over all planes, here each has its own.
local function with_places(g, a, rank, call, given)
  local wanted = call.results[2] and call.results[2].needed
  local places
  local values = batched(g, a, rank, call, function(x)
    local y
    y, places = g:node("MaxPool", { x }, given, wanted and 2 or 1)
    return y
  end)
  if not wanted then return values, false end
  local plane, sized = {}, #a.x.shape
  for d = 1, rank do plane[d] = g:ints { a.x.shape[sized - rank + d] } end
  local size = plane[1]
  for d = 2, rank do size = g:node("Mul", { size, plane[d] }) end
  if #a.x.shape < rank + 2 then places = g:squeeze(places, { 0 }) end
  return values, { zero = g:node("Mod", { places, size }) }
end

local function max_pool(rank)
  return function(g, a, call)
    local given = attributes(g, a, rank)
    given.dilations = g:known(a.dilation, "dilation")
    return with_places(g, a, rank, call, given)
  end
end

local function area_of(a)
  local count = 1
  for _, size in ipairs(a.kernel_size) do count = count * size end
  return count
end

-- ONNX divides windows over the edge by another number: zeros are added until all are whole, and
-- the means divided by those of ones where an element counts, and of zeros elsewhere.
local function part_windows(g, a, rank, call)
  local dtype, kernel = call.results[1].dtype, g:known(a.kernel_size, "kernel_size")
  local stride, lead = stride_of(a, rank), #a.x.shape - rank
  local given = { kernel_shape = kernel, strides = g:known(stride, "stride") }
  local border, more, shape = {}, {}, { 1, 1 }
  for d = 1, rank do
    local size, out, p = a.x.shape[lead + d], call.results[1].shape[lead + d], a.padding[d]
    shape[d + 2] = size
    more[d] = sizes.map(g.run.count, function(i)
      return math.max((sizes.at(out, i) - 1) * stride[d] + kernel[d] - sizes.at(size, i) - 2 * p, 0)
    end)
    border[d] = p
  end
  local function padded(name, before, after, value)
    local pads = { 0, 0 }
    table.move(before, 1, rank, 3, pads)
    pads[rank + 3], pads[rank + 4] = 0, 0
    table.move(after, 1, rank, rank + 5, pads)
    return g:node("Pad", { name, g:ints(pads), g:float(value, dtype) }, { mode = "constant" })
  end
  local none = {}
  for d = 1, rank do none[d] = 0 end
  return batched(g, a, rank, call, function(x)
    local function means(name, value)
      name = padded(padded(name, border, border, value), none, more, 0)
      return g:node("AveragePool", { name }, given)
    end
    local y = means(x, 0)
    if a.divisor_override then
      return g:node("Mul", { y, g:float(area_of(a) / a.divisor_override, dtype) })
    end
    local ones = g:node("Expand", { g:float(1, dtype), g:ints(shape) })
    return g:node("Div", { y, means(ones, a.count_include_pad and 1 or 0) })
  end)
end

local function avg_pool(rank)
  return function(g, a, call)
    if a.ceil_mode and has_part_windows(g, a, rank) then return part_windows(g, a, rank, call) end
    local given = attributes(g, a, rank)
    given.ceil_mode = 0
    given.count_include_pad = (a.count_include_pad or a.divisor_override) and 1 or 0
    return batched(g, a, rank, call, function(x)
      local y = g:node("AveragePool", { x }, given)
      if not a.divisor_override then return y end
      return g:node("Mul", { y, g:float(area_of(a) / a.divisor_override, call.results[1].dtype) })
    end)
  end
end

for rank = 1, 3 do
  write[("max_pool%dd"):format(rank)] = max_pool(rank)
  write[("max_pool%dd_with_indices"):format(rank)] = max_pool(rank)
  write[("avg_pool%dd"):format(rank)] = avg_pool(rank)
end

-- --- pooling to a size ------------------------------------------------------------------------

-- The kernel that cuts the sizes into equal windows, or nil.
local function even_windows(a, rank, call)
  local kernel, lead, all_one = {}, #a.x.shape - rank, true
  for d = 1, rank do
    local from, to = a.x.shape[lead + d], call.results[1].shape[lead + d]
    all_one = all_one and to == 1
    if sizes.same(from, to) then
      kernel[d] = 1
    elseif sizes.is_size(from) or sizes.is_size(to) or to == 0 or from % to ~= 0 then
      kernel[d] = false
    else
      kernel[d] = from // to
    end
  end
  return kernel, all_one
end

local function is_even(kernel)
  for _, size in ipairs(kernel) do
    if not size then return false end
  end
  return true
end

-- (in, out): the means over the windows of a dimension as a product with a matrix.
local function means(from, to, dtype)
  local matrix = ml.zeros({ from, to }, { dtype = dtype })
  for o = 0, to - 1 do
    local first, last = o * from // to, ((o + 1) * from + to - 1) // to
    matrix[{ { first + 1, last }, o + 1 }] = 1 / (last - first)
  end
  return matrix
end

local function known_sizes(a, rank, call)
  local lead = #a.x.shape - rank
  for d = 1, rank do
    local from, to = a.x.shape[lead + d], call.results[1].shape[lead + d]
    if sizes.is_size(from) or sizes.is_size(to) then
      fail("onnx.export: %s of a size that follows a dynamic axis has no translation to ONNX%s",
        call.name, call.place)
    end
  end
  return lead
end

local function mean_by_matrix(g, x, a, rank, call)
  local lead = known_sizes(a, rank, call)
  local shape = call.results[1].shape
  for d = 1, rank do
    local at = lead + d
    local matrix = g:tensor(means(a.x.shape[at], shape[at], call.results[1].dtype))
    local perm = {}
    for i = 1, #shape do perm[i] = i - 1 end
    perm[at], perm[#shape] = perm[#shape], perm[at]
    x = g:transpose(g:node("MatMul", { g:transpose(x, perm), matrix }), perm)
  end
  return x
end

local function max_by_windows(g, x, a, rank, call)
  local lead = known_sizes(a, rank, call)
  local shape = call.results[1].shape
  for d = 1, rank do
    local axis, parts = lead + d - 1, {}
    local from, to = a.x.shape[axis + 1], shape[axis + 1]
    for o = 0, to - 1 do
      local first, last = o * from // to, ((o + 1) * from + to - 1) // to
      local window = g:node("Slice", { x, g:constant({ first }, "int64"),
        g:constant({ last }, "int64"), g:constant({ axis }, "int64") })
      parts[o + 1] = g:node("ReduceMax", { window }, { axes = { axis }, keepdims = 1 })
    end
    x = g:node("Concat", parts, { axis = axis })
  end
  return x
end

-- The first and last entries (from 0) of each window of a dimension, the last one not in it.
local function window_ends(from, to)
  local out = {}
  for o = 0, to - 1 do out[o + 1] = { o * from // to, ((o + 1) * from + to - 1) // to } end
  return out
end

-- All combinations of one entry of each list.
local function combinations(lists)
  local out = { {} }
  for _, list in ipairs(lists) do
    local longer = {}
    for _, before in ipairs(out) do
      for _, item in ipairs(list) do
        local one = table.move(before, 1, #before, 1, {})
        one[#one + 1] = item
        longer[#longer + 1] = one
      end
    end
    out = longer
  end
  return out
end

-- The maxima of windows of several sizes and their places, window by window.
local function places_by_windows(g, a, rank, call)
  local lead, dtype = known_sizes(a, rank, call), call.results[1].dtype
  local shape, axes, lists, rows = call.results[1].shape, {}, {}, {}
  for d = 1, rank do
    axes[d] = lead + d - 1
    lists[d] = window_ends(a.x.shape[lead + d], shape[lead + d])
  end
  for i = 1, lead do rows[i] = shape[i] end
  rows[lead + 1] = -1
  local x, values, places = g:operand(a.x, dtype), {}, {}
  for i, window in ipairs(combinations(lists)) do
    local starts, ends, entries, inside = {}, {}, {}, ml.zeros({}, { dtype = "int64" })
    for d, ends_of in ipairs(window) do
      starts[d], ends[d] = ends_of[1], ends_of[2]
      entries[d] = ml.arange(starts[d], ends[d] - 1):to "int64"
      inside = (inside * a.x.shape[lead + d]):unsqueeze(-1) + entries[d]
    end
    local part = g:node("Slice", { x, g:constant(starts, "int64"), g:constant(ends, "int64"),
      g:constant(axes, "int64") })
    part = g:node("Reshape", { part, g:ints(rows) })
    local at = g:node("ArgMax", { part }, { axis = -1, keepdims = 1 })
    values[i] = g:node("ReduceMax", { part }, { axes = { -1 }, keepdims = 1 })
    places[i] = g:node("Gather", { g:tensor(inside:flatten()), at }, { axis = 0 })
  end
  local function joined(names) return g:reshape(g:node("Concat", names, { axis = -1 }), shape) end
  return joined(values), { zero = joined(places) }
end

local function adaptive(rank, global_op, op, otherwise)
  return function(g, a, call)
    local kernel, all_one = even_windows(a, rank, call)
    if call.results[2] and call.results[2].needed then
      if not is_even(kernel) then return places_by_windows(g, a, rank, call) end
      return with_places(g, a, rank, call, { kernel_shape = kernel, strides = kernel })
    end
    if not all_one and not is_even(kernel) then
      return otherwise(g, g:operand(a.x, call.results[1].dtype), a, rank, call), false
    end
    return batched(g, a, rank, call, function(x)
      if all_one then return g:node(global_op, { x }) end
      return g:node(op, { x }, { kernel_shape = kernel, strides = kernel })
    end), false
  end
end

for rank = 1, 3 do
  write[("adaptive_avg_pool%dd"):format(rank)] =
    adaptive(rank, "GlobalAveragePool", "AveragePool", mean_by_matrix)
  write[("adaptive_max_pool%dd"):format(rank)] =
    adaptive(rank, "GlobalMaxPool", "MaxPool", max_by_windows)
end

return write
