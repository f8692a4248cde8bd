-- stdlib/onnx/write/slices.lua: parts of tensors as ONNX nodes.

local sizes = require "moonlet.onnx.sizes"

local write = {}

local function axis(dim, rank) return dim > 0 and dim - 1 or dim + rank end

local function as_kept(value, name) return value.zero and { zero = name } or name end

-- A number, one less.
local function before(g, number)
  return sizes.map(g.run.count, function(i)
    local n = sizes.at(number, i)
    return n > 0 and n - 1 or n
  end)
end

-- The last element of a dimension that follows a dynamic axis is at -1.
local function position(g, index, size)
  local last = sizes.is_size(size) and sizes.is_size(index)
  for i = 1, g.run.count do
    last = last and sizes.at(index, i) - sizes.at(size, i) == index[1] - size[1]
  end
  if last then return index[1] - size[1] - 1 end
  return before(g, index)
end

function write.select(g, a)
  local rank = #a.x.shape
  local dim = axis(a.dim, rank)
  local at = position(g, a.index, a.x.shape[dim + 1])
  local name
  if sizes.is_size(at) then
    local row = g:node("Gather", { g:raw(a.x), g:size(at) }, { axis = dim })
    name = g:squeeze(row, { dim })
  else
    name = g:node("Gather", { g:raw(a.x), g:constant(at, "int64") }, { axis = dim })
  end
  return as_kept(a.x, name)
end

-- A slice up to the end of a dynamic dimension goes on to the end.
local function stop_of(g, stop, size)
  if sizes.same(stop, size) then return math.maxinteger end
  if sizes.is_size(stop) and sizes.is_size(size) then
    local from_end = stop[1] - size[1]
    for i = 1, g.run.count do
      if stop[i] - size[i] ~= from_end then return stop end
    end
    return from_end
  end
  return stop
end

local function sliced(g, value, dim, start, stop, step)
  local size = value.shape[dim + 1]
  local from = sizes.is_size(start) and position(g, start, size) or before(g, start)
  return g:node("Slice", { g:raw(value), g:ints { from }, g:ints { stop_of(g, stop, size) },
    g:constant({ dim }, "int64"), g:ints { step } })
end

-- Both ends belong to it.
function write.slice(g, a)
  local dim = axis(a.dim, #a.x.shape)
  return as_kept(a.x, sliced(g, a.x, dim, a.start, a.stop, g:int(a.step, "step")))
end

-- Windows of `size` entries: gathered by a table of places, (count, size), whose last dimension
-- goes to the end.
function write.unfold(g, a)
  local rank = #a.x.shape
  local dim, size, step = axis(a.dim, rank), g:int(a.size, "size"), g:int(a.step, "step")
  local inside = {}
  for i = 1, size do inside[i] = i - 1 end
  local space = g:node("Sub", { g:size(a.x.shape[dim + 1]), g:constant({ size }, "int64") })
  local count = g:node("Add", { g:node("Div", { space, g:constant({ step }, "int64") }),
    g:constant({ 1 }, "int64") })
  local firsts = g:node("Mul", { g:node("Range", { g:constant(0, "int64"),
    g:squeeze(count, { 0 }), g:constant(1, "int64") }), g:constant(step, "int64") })
  local places = g:node("Add", { g:unsqueeze(firsts, { 1 }), g:constant(inside, "int64") })
  local perm = {}
  for d = 0, rank do
    if d ~= dim + 1 then perm[#perm + 1] = d end
  end
  perm[#perm + 1] = dim + 1
  return as_kept(a.x, g:transpose(g:node("Gather", { g:raw(a.x), places }, { axis = dim }), perm))
end

-- --- writing to parts -------------------------------------------------------------------------

-- `src` in the place of the entries of `x` that the positions name, along `dim`.
local function scattered(g, a, call, places, src)
  local dtype, rank = call.results[1].dtype, #a.x.shape
  local dim = axis(a.dim, rank)
  local shape = {}
  for d = 1, rank do shape[d] = 1 end
  shape[dim + 1] = -1
  local part = g:node("Shape", { src })
  local column = g:node("Reshape", { places, g:constant(shape, "int64") })
  local index = g:node("Expand", { column, part })
  return g:node("ScatterElements", { g:operand(a.x, dtype), index, src }, { axis = dim })
end

function write.select_scatter(g, a, call)
  local dim = axis(a.dim, #a.x.shape)
  local at = before(g, a.index)
  local src = g:unsqueeze(g:operand(a.src, call.results[1].dtype), { dim })
  return scattered(g, a, call, g:ints { at }, src)
end

-- The positions are those of the entries, of which a slice takes what it takes of x.
function write.slice_scatter(g, a, call)
  local dim = axis(a.dim, #a.x.shape)
  local count = g:squeeze(g:ints { a.x.shape[dim + 1] }, { 0 })
  local all = g:node("Range", { g:constant(0, "int64"), count, g:constant(1, "int64") })
  local size = a.x.shape[dim + 1]
  local from = sizes.is_size(a.start) and position(g, a.start, size) or before(g, a.start)
  local to = stop_of(g, a.stop or a["end"] or size, size)
  local places = g:node("Slice", { all, g:ints { from }, g:ints { to },
    g:constant({ 0 }, "int64"), g:ints { a.step } })
  return scattered(g, a, call, places, g:operand(a.src, call.results[1].dtype))
end

-- Lengths that are known are cut by one node.
local function parts(g, a, dim, lengths)
  local count = #lengths
  if count == 1 then return as_kept(a.x, g:node("Identity", { g:raw(a.x) })) end
  local names = table.pack(g:node("Split", { g:raw(a.x), g:constant(lengths, "int64") },
    { axis = dim }, count))
  for i = 1, count do names[i] = as_kept(a.x, names[i]) end
  return table.unpack(names, 1, count)
end

local function split(g, a, call)
  local dim = axis(a.dim, #a.x.shape)
  local lengths = {}
  for i, result in ipairs(call.results) do lengths[i] = result.shape[dim + 1] end
  local known = true
  for _, length in ipairs(lengths) do known = known and not sizes.is_size(length) end
  if known then return parts(g, a, dim, lengths) end
  local names, start = {}, 1
  for i, length in ipairs(lengths) do
    local from = start
    local stop = sizes.map(g.run.count, function(k)
      return sizes.at(from, k) + sizes.at(length, k) - 1
    end)
    names[i] = as_kept(a.x, sliced(g, a.x, dim, from, stop, 1))
    start = sizes.map(g.run.count, function(k) return sizes.at(stop, k) + 1 end)
  end
  return table.unpack(names)
end
write.split, write.split_with_sizes, write.chunk = split, split, split

function write.unbind(g, a, call)
  local dim, names = axis(a.dim, #a.x.shape), {}
  for i = 1, #call.results do
    local name = g:node("Gather", { g:raw(a.x), g:constant(i - 1, "int64") }, { axis = dim })
    names[i] = as_kept(a.x, name)
  end
  return table.unpack(names)
end

return write
