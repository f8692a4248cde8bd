-- stdlib/onnx/write/shape.lua: shapes, orders and copies of elements as ONNX nodes. Positions stay
-- counted from 0 where they are kept so.

local fail = require("moonlet.options").fail
local ml = require "moonlet"
local sizes = require "moonlet.onnx.sizes"

local write = {}

-- An op that moves the elements of x, made by `make(graph, name, arguments, call)`: of positions as
-- they are kept.
local function moves(make)
  return function(g, a, call)
    local name = make(g, g:raw(a.x), a, call)
    return a.x.zero and { zero = name } or name
  end
end

local function to_result(g, name, _, call) return g:reshape(name, call.results[1].shape) end
for op in ("view reshape flatten unflatten view_as squeeze unsqueeze ravel"):gmatch "%S+" do
  write[op] = moves(to_result)
end

-- Axes from 0 of dimensions from 1.
local function axis(dim, rank) return dim > 0 and dim - 1 or dim + rank end

local function swapped(rank, i, j)
  local perm = {}
  for d = 1, rank do perm[d] = d - 1 end
  if rank > 0 then perm[i + 1], perm[j + 1] = perm[j + 1], perm[i + 1] end
  return perm
end

local function identity(g, name) return g:node("Identity", { name }) end

write.transpose = moves(function(g, name, a)
  local rank = #a.x.shape
  if rank == 0 then return identity(g, name) end
  return g:transpose(name, swapped(rank, axis(a.dim0, rank), axis(a.dim1, rank)))
end)

write.t = moves(function(g, name, a)
  if #a.x.shape < 2 then return identity(g, name) end
  return g:transpose(name, { 1, 0 })
end)

write.permute = moves(function(g, name, a)
  local perm = {}
  for i, dim in ipairs(a.dims) do perm[i] = axis(dim, #a.x.shape) end
  if #perm == 0 then return identity(g, name) end
  return g:transpose(name, perm)
end)

local function expanded(g, name, _, call)
  return g:node("Expand", { name, g:ints(call.results[1].shape) })
end
for op in ("expand expand_as broadcast_to"):gmatch "%S+" do write[op] = moves(expanded) end

-- In place: `x` becomes `source`.
function write.copy(g, a, call)
  local result = call.results[1]
  local zero = a.source.zero and a.source.dtype == result.dtype
  local name = zero and g:raw(a.source) or g:operand(a.source, result.dtype)
  if #a.source.shape > 0 or #result.shape > 0 then
    name = g:node("Expand", { name, g:ints(result.shape) })
  end
  name = identity(g, name)
  return zero and { zero = name } or name
end

-- All as positions where one is.
function write.cat(g, a, call)
  local result, zero = call.results[1], false
  for _, value in ipairs(a.tensors) do zero = zero or value.zero end
  local names = {}
  for _, value in ipairs(a.tensors) do
    -- An old form of nothing, which goes with any shape.
    if not (#value.shape == 1 and value.shape[1] == 0 and #result.shape ~= 1) then
      local name = zero and g:index(value) or g:plain(value)
      names[#names + 1] = g:cast(name, value.dtype, result.dtype)
    end
  end
  local name = g:node("Concat", names, { axis = axis(a.dim, #result.shape) })
  return zero and { zero = name } or name
end

local function tiled(g, name, reps, rank, shape)
  local missing = #reps - rank
  if missing > 0 then
    local full = {}
    for i = 1, #reps do full[i] = i <= missing and 1 or shape[i - missing] end
    name = g:reshape(name, full)
  end
  return g:node("Tile", { name, g:ints(reps) })
end

write.tile = moves(function(g, name, a)
  local reps = {}
  for _ = 1, #a.x.shape - #a.reps do reps[#reps + 1] = 1 end
  table.move(a.reps, 1, #a.reps, #reps + 1, reps)
  return tiled(g, name, reps, #a.x.shape, a.x.shape)
end)

write.flip = moves(function(g, name, a)
  local starts, ends, axes, steps = {}, {}, {}, {}
  for i, dim in ipairs(a.dims) do
    starts[i], ends[i], steps[i] = -1, math.mininteger, -1
    axes[i] = axis(dim, #a.x.shape)
  end
  if #axes == 0 then return identity(g, name) end
  return g:node("Slice", { name, g:constant(starts, "int64"), g:constant(ends, "int64"),
    g:constant(axes, "int64"), g:constant(steps, "int64") })
end)

local function triangle(upper)
  return moves(function(g, name, a)
    return g:node("Trilu", { name, g:constant(g:int(a.diagonal, "diagonal"), "int64") },
      { upper = upper })
  end)
end
write.triu, write.tril = triangle(1), triangle(0)

-- The elements of the diagonal, at places that are known now.
write.diagonal = moves(function(g, name, a, call)
  local rank = #a.x.shape
  local first, second = axis(a.dim1, rank), axis(a.dim2, rank)
  local rows = g:int(a.x.shape[first + 1], "dim1")
  local columns = g:int(a.x.shape[second + 1], "dim2")
  local perm, shape, places = {}, {}, {}
  for d = 0, rank - 1 do
    if d ~= first and d ~= second then
      perm[#perm + 1], shape[#shape + 1] = d, a.x.shape[d + 1]
    end
  end
  perm[#perm + 1], perm[#perm + 2] = first, second
  shape[#shape + 1] = rows * columns
  for i = 0, rows - 1 do
    local j = i + g:int(a.offset, "offset")
    if j >= 0 and j < columns then places[#places + 1] = i * columns + j end
  end
  assert(#places == sizes.at(call.results[1].shape[rank - 1], 1))
  local flat = g:reshape(g:transpose(name, perm), shape)
  return g:node("Gather", { flat, g:constant(places, "int64") }, { axis = rank - 2 })
end)

-- `source` in the place of a diagonal of dimensions `first` and `second` of x, both from 0, whose
-- shape is `shape`.
local function with_diagonal(g, x, source, shape, first, second, offset)
  local rows, columns = g:int(shape[first + 1], "dim1"), g:int(shape[second + 1], "dim2")
  local lead, perm, back, places = {}, {}, {}, {}
  for d = 0, #shape - 1 do
    if d ~= first and d ~= second then lead[#lead + 1], perm[#perm + 1] = shape[d + 1], d end
  end
  perm[#perm + 1], perm[#perm + 2] = first, second
  for i, d in ipairs(perm) do back[d + 1] = i - 1 end
  for r = math.max(-offset, 0), rows - 1 do
    if r + offset < columns then places[#places + 1] = r * columns + r + offset end
  end
  if #places == 0 then return identity(g, x) end
  local flat, part, whole = {}, {}, {}
  for _, list in ipairs { flat, part, whole } do table.move(lead, 1, #lead, 1, list) end
  flat[#flat + 1], part[#part + 1] = rows * columns, #places
  whole[#whole + 1], whole[#whole + 2] = rows, columns
  local y = g:node("ScatterElements", { g:reshape(g:transpose(x, perm), flat),
    g:node("Expand", { g:constant(places, "int64"), g:ints(part) }), source }, { axis = -1 })
  return g:transpose(g:reshape(y, whole), back)
end

function write.diagonal_grad_x(g, a, call)
  local result, rank = call.results[1], #call.results[1].shape
  local zeros = g:node("Expand", { g:constant(0, result.dtype), g:ints(result.shape) })
  return with_diagonal(g, zeros, g:operand(a.grad, result.dtype), result.shape,
    axis(a.dim1, rank), axis(a.dim2, rank), g:int(a.offset, "offset"))
end

function write.diagonal_scatter(g, a, call)
  local result, rank = call.results[1], #call.results[1].shape
  return with_diagonal(g, g:operand(a.x, result.dtype), g:operand(a.src, result.dtype),
    result.shape, axis(a.dim1, rank), axis(a.dim2, rank), g:int(a.offset, "offset"))
end

-- Each with zeros in the columns of the others, one under another.
function write.block_diag(g, a, call)
  local dtype, width, before, names = call.results[1].dtype, 0, 0, {}
  local function columns_of(value)
    return #value.shape == 0 and 1 or g:int(value.shape[#value.shape], "a number of columns")
  end
  for _, value in ipairs(a.tensors) do width = width + columns_of(value) end
  for i, value in ipairs(a.tensors) do
    local columns = columns_of(value)
    local rows = #value.shape == 2 and value.shape[1] or 1
    local name = g:reshape(g:operand(value, dtype), { rows, columns })
    local pads = g:constant({ 0, before, 0, width - before - columns }, "int64")
    names[i] = g:node("Pad", { name, pads, g:constant(0, dtype) }, { mode = "constant" })
    before = before + columns
  end
  return g:node("Concat", names, { axis = 0 })
end

-- Of elements that stand in their order: each at the place that the strides say.
function write.strided_view(g, a, call)
  local step, places = 1, ml.full({}, a.offset - a.x_offset, { dtype = "int64" })
  for d = #a.x.shape, 1, -1 do
    local size = g:int(a.x.shape[d], "a size of x")
    if size > 1 and a.x_stride[d] ~= step then
      fail("onnx.export: as_strided of a tensor that is not contiguous has no translation to "
        .. "ONNX%s", call.place)
    end
    step = step * size
  end
  for d, size in ipairs(a.size) do
    local along = ml.arange(0, g:int(size, "size") - 1):to "int64" * g:int(a.stride[d], "stride")
    places = places:unsqueeze(-1) + along
  end
  if places:numel() > 0 and (places:min():item() < 0 or places:max():item() >= step) then
    fail("onnx.export: as_strided of more than the tensor has no translation to ONNX%s", call.place)
  end
  local flat = g:node("Reshape", { g:raw(a.x), g:constant({ -1 }, "int64") })
  local name = g:node("Gather", { flat, g:tensor(places) }, { axis = 0 })
  return a.x.zero and { zero = name } or name
end

return write
