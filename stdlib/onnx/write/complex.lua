-- stdlib/onnx/write/complex.lua: complex numbers as ONNX nodes. ONNX's ops know none: such a value
-- is kept as the names of its real and imaginary parts, `{ parts = { re, im } }`. The translations
-- here are of calls with complex tensors among their arguments or results.

local fail = require("moonlet.options").fail
local ml = require "moonlet"
local pointwise = require "moonlet.onnx.write.pointwise"
local sizes = require "moonlet.onnx.sizes"
local trace = require "moonlet.onnx.trace"

local write = {}

local REAL = { complex64 = "float32", complex128 = "float64" }

local function is_complex(dtype) return REAL[dtype] ~= nil end

-- The dtype of a call's parts.
local function dtype_of(call)
  local dtype = call.results[1].dtype
  return REAL[dtype] or dtype
end

local function zeros_like(g, name, dtype)
  return g:node("Expand", { g:constant(0, dtype), g:node("Shape", { name }) })
end

-- The names of the parts of an operand, in a dtype.
local function parts_of(g, thing, dtype)
  if not trace.is_value(thing) then
    if type(thing) == "number" or type(thing) == "boolean" or sizes.is_size(thing) then
      return g:operand(thing, dtype), g:constant(0, dtype)
    end
    return g:constant(thing.real, dtype), g:constant(thing.imag, dtype)
  end
  local from = REAL[thing.dtype]
  if not from then
    local name = g:operand(thing, dtype)
    return name, g:cached("imaginary " .. name, function() return zeros_like(g, name, dtype) end)
  end
  local parts = g:parts(thing)
  return g:cast(parts[1], from, dtype), g:cast(parts[2], from, dtype)
end

-- --- ops that do the same to both parts ---------------------------------------------------------

-- The arguments with the values replaced by one of their parts.
local function with_parts(g, thing, which, dtype)
  if trace.is_value(thing) then
    local re, im = parts_of(g, thing, dtype)
    local part = { id = thing.id, shape = thing.shape, dtype = dtype, tensor = thing.tensor,
      name = which == 1 and re or im }
    return setmetatable(part, getmetatable(thing))
  elseif type(thing) ~= "table" or getmetatable(thing) then
    return thing
  end
  local out = {}
  for key, item in pairs(thing) do out[key] = with_parts(g, item, which, dtype) end
  return out
end

local function call_of_parts(call, dtype)
  local results = {}
  for i, value in ipairs(call.results) do results[i] = { shape = value.shape, dtype = dtype } end
  return { op = call.op, name = call.name, place = call.place, results = results,
    info = call.info }
end

local WHOLE = { Positions = true, Indices = true, Mask = true }

-- The arguments of a call for one of the parts: positions and masks are those of both.
local function arguments_of(g, a, call, which, dtype)
  local out = {}
  for name, thing in pairs(a) do out[name] = thing end
  for _, argument in ipairs(call.info.arguments) do
    local name = argument.name
    if a[name] ~= nil and not WHOLE[(argument.type:gsub("?$", ""))] then
      out[name] = with_parts(g, a[name], which, dtype)
    end
  end
  return out
end

-- `real` translates the op for real numbers.
local function linear(real)
  return function(g, a, call)
    local dtype = dtype_of(call)
    local part = call_of_parts(call, dtype)
    local re = table.pack(real(g, arguments_of(g, a, call, 1, dtype), part))
    local im = table.pack(real(g, arguments_of(g, a, call, 2, dtype), part))
    for i = 1, re.n do re[i] = { parts = { re[i], im[i] } } end
    return table.unpack(re, 1, re.n)
  end
end

for family, names in pairs {
  shape = "view reshape flatten unflatten view_as squeeze unsqueeze ravel transpose t permute "
    .. "expand expand_as broadcast_to cat tile flip triu tril diagonal copy",
  slices = "select slice unfold select_scatter slice_scatter split split_with_sizes chunk unbind",
  index = "index_select gather take take_along_dim index index_put index_add index_copy "
    .. "scatter_add",
  pointwise = "neg add sub clone contiguous detach convert to to_as type_as",
  reduce = "sum mean cumsum", image = "constant_pad im2col col2im",
} do
  local real = require("moonlet.onnx.write." .. family)
  for name in names:gmatch "%S+" do write[name] = linear(assert(real[name], name)) end
end
write.positive = write.clone

-- A number that is added, or a scale, has an imaginary part too.
local function sum(op)
  return function(g, a, call)
    local dtype = dtype_of(call)
    local x_re, x_im = parts_of(g, a.x, dtype)
    local y_re, y_im = parts_of(g, a.other, dtype)
    return { parts = { g:node(op, { x_re, y_re }), g:node(op, { x_im, y_im }) } }
  end
end
write.add, write.sub = sum "Add", sum "Sub"

-- To real numbers the imaginary part is left out.
local to_complex = write.to
function write.to(g, a, call)
  if is_complex(call.results[1].dtype) then return to_complex(g, a, call) end
  local part = with_parts(g, a, 1, REAL[a.x.dtype] or a.x.dtype)
  return pointwise.to(g, part, call)
end
write.convert, write.to_as, write.type_as = write.to, write.to, write.to

local function filled(value_of)
  return function(g, a, call)
    local dtype, shape = dtype_of(call), g:ints(call.results[1].shape)
    local re, im = parts_of(g, value_of(a), dtype)
    return { parts = { g:node("Expand", { re, shape }), g:node("Expand", { im, shape }) } }
  end
end
for name, value in pairs { zeros = 0, ones = 1, zeros_like = 0, ones_like = 1, zero = 0 } do
  write[name] = filled(function() return value end)
end
write.full, write.fill = filled(function(a) return a.fill_value end),
  filled(function(a) return a.value end)
write.full_like, write.new_full = write.full, write.full

-- --- products -----------------------------------------------------------------------------------

-- (a + ib)(c + id), with `op` the product of real numbers.
local function multiplied(g, op, x, y)
  local function product(i, k) return g:node(op, { x[i], y[k] }) end
  return { g:node("Sub", { product(1, 1), product(2, 2) }),
    g:node("Add", { product(1, 2), product(2, 1) }) }
end

local function is_real(thing) return trace.is_value(thing) and not is_complex(thing.dtype) end

-- Of a real and a complex factor both parts are multiplied by the real one.
local function product(op, first, second)
  return function(g, a, call)
    local dtype, x, y = dtype_of(call), a[first[1]] or a[first[2]], a[second[1]] or a[second[2]]
    if is_real(x) or is_real(y) then
      local parts = {}
      for i = 1, 2 do
        local left = is_real(x) and g:operand(x, dtype) or select(i, parts_of(g, x, dtype))
        local right = is_real(y) and g:operand(y, dtype) or select(i, parts_of(g, y, dtype))
        parts[i] = g:node(op, { left, right })
      end
      return { parts = parts }
    end
    return { parts = multiplied(g, op, { parts_of(g, x, dtype) }, { parts_of(g, y, dtype) }) }
  end
end
write.mul = product("Mul", { "x" }, { "other" })
for name in ("matmul mm bmm mv dot"):gmatch "%S+" do
  write[name] = product("MatMul", { "a" }, { "b", "other" })
end

function write.square(g, a, call)
  local z = { parts_of(g, a.x, dtype_of(call)) }
  return { parts = multiplied(g, "Mul", z, z) }
end

local function squared(g, z)
  return g:node("Add", { g:node("Mul", { z[1], z[1] }), g:node("Mul", { z[2], z[2] }) })
end

-- x / y as x times y's conjugate, divided by the square of y's absolute value.
local function divided(g, x, y)
  local top = multiplied(g, "Mul", x, { y[1], g:node("Neg", { y[2] }) })
  local size = squared(g, y)
  return { parts = { g:node("Div", { top[1], size }), g:node("Div", { top[2], size }) } }
end

function write.div(g, a, call)
  local dtype = dtype_of(call)
  local x = { parts_of(g, a.x, dtype) }
  if not trace.is_value(a.other) and type(a.other) == "number" or is_real(a.other) then
    local by = g:operand(a.other, dtype)
    return { parts = { g:node("Div", { x[1], by }), g:node("Div", { x[2], by }) } }
  end
  return divided(g, x, { parts_of(g, a.other, dtype) })
end

function write.reciprocal(g, a, call)
  local dtype = dtype_of(call)
  return divided(g, { g:constant(1, dtype), g:constant(0, dtype) }, { parts_of(g, a.x, dtype) })
end

-- --- parts, sizes and angles --------------------------------------------------------------------

local function part(which)
  return function(g, a)
    return g:node("Identity", { (select(which, parts_of(g, a.x, REAL[a.x.dtype]))) })
  end
end
write.real, write.imag = part(1), part(2)

function write.conj_physical(g, a, call)
  local re, im = parts_of(g, a.x, dtype_of(call))
  return { parts = { re, g:node("Neg", { im }) } }
end
write.conj = write.conj_physical

function write.view_as_real(g, a)
  local re, im = parts_of(g, a.x, REAL[a.x.dtype])
  local rank = #a.x.shape
  return g:node("Concat", { g:unsqueeze(re, { rank }), g:unsqueeze(im, { rank }) }, { axis = -1 })
end

function write.view_as_complex(g, a)
  local x, parts = g:plain(a.x), {}
  for i = 1, 2 do parts[i] = g:node("Gather", { x, g:constant(i - 1, "int64") }, { axis = -1 }) end
  return { parts = parts }
end

-- Both parts in the shape of the result.
function write.join_parts(g, a, call)
  local dtype, shape = dtype_of(call), g:ints(call.results[1].shape)
  return { parts = { g:node("Expand", { g:operand(a.x, dtype), shape }),
    g:node("Expand", { g:operand(a.y, dtype), shape }) } }
end

function write.abs(g, a, call)
  return g:node("Sqrt", { squared(g, { parts_of(g, a.x, dtype_of(call)) }) })
end

function write.angle(g, a, call)
  local dtype = dtype_of(call)
  local y, x = with_parts(g, a, 2, dtype).x, with_parts(g, a, 1, dtype).x
  return pointwise.atan2(g, { x = y, other = x }, call)
end

function write.sgn(g, a, call)
  local dtype = dtype_of(call)
  local z = { parts_of(g, a.x, dtype) }
  local size = g:node("Sqrt", { squared(g, z) })
  local zero = g:node("Equal", { size, g:float(0, dtype) })
  local by = g:node("Where", { zero, g:float(1, dtype), size })
  return { parts = { g:node("Div", { z[1], by }), g:node("Div", { z[2], by }) } }
end

function write.exp(g, a, call)
  local re, im = parts_of(g, a.x, dtype_of(call))
  local size = g:node("Exp", { re })
  return { parts = { g:node("Mul", { size, g:node("Cos", { im }) }),
    g:node("Mul", { size, g:node("Sin", { im }) }) } }
end

-- --- Fourier transforms -------------------------------------------------------------------------

-- The sums of x[j] exp(-2 pi i j k / n) along an axis. DFT has the parts in a last dimension.
local function transformed(g, re, im, axis, rank, onesided)
  local packed = g:unsqueeze(re, { rank })
  if im then packed = g:node("Concat", { packed, g:unsqueeze(im, { rank }) }, { axis = -1 }) end
  -- onnxruntime wants a batch before the dimension.
  local lead = axis == 0
  if lead then packed = g:unsqueeze(packed, { 0 }) end
  local y = g:node("DFT", { packed }, { axis = lead and 1 or axis, onesided = onesided and 1 or 0 })
  if lead then y = g:squeeze(y, { 0 }) end
  local parts = {}
  for i = 1, 2 do parts[i] = g:node("Gather", { y, g:constant(i - 1, "int64") }, { axis = -1 }) end
  return parts
end

local function scaled(g, parts, scale, dtype)
  if scale == 1 then return parts end
  local factor = g:operand(sizes.is_size(scale) and scale or scale + 0.0, dtype)
  for i, name in ipairs(parts) do parts[i] = g:node("Mul", { name, factor }) end
  return parts
end

local function axis_of(dim, rank) return dim > 0 and dim - 1 or dim + rank end

-- The way back is the way there of the conjugates, conjugated.
local function both_ways(g, parts, axes, rank, forward)
  local im = parts[2]
  if not forward then im = g:node("Neg", { im }) end
  parts = { parts[1], im }
  for _, axis in ipairs(axes) do parts = transformed(g, parts[1], parts[2], axis, rank, false) end
  if not forward then parts[2] = g:node("Neg", { parts[2] }) end
  return parts
end

function write.fft_c2c(g, a, call)
  local dtype, rank, axes = dtype_of(call), #a.x.shape, {}
  for i, dim in ipairs(a.dims) do axes[i] = axis_of(dim, rank) end
  local parts = both_ways(g, { parts_of(g, a.x, dtype) }, axes, rank, a.forward)
  return { parts = scaled(g, parts, a.scale, dtype) }
end

function write.fft_r2c(g, a, call)
  local dtype, rank = dtype_of(call), #a.x.shape
  local parts = transformed(g, g:operand(a.x, dtype), nil, axis_of(a.dim, rank), rank, true)
  return { parts = scaled(g, parts, a.scale, dtype) }
end

-- The real numbers of which these are the first half of the sums, not divided by n: the other sums
-- are the conjugates, in reverse.
local function back_to_real(g, parts, axis, rank, n)
  local mirrored, whole = (n - 1) // 2, {}
  local axes = g:constant({ axis }, "int64")
  for i, name in ipairs(parts) do
    local half = g:node("Slice", { name, g:constant({ 0 }, "int64"),
      g:constant({ n // 2 + 1 }, "int64"), axes })
    if mirrored > 0 then
      local others = g:node("Slice", { name, g:constant({ mirrored }, "int64"),
        g:constant({ 0 }, "int64"), axes, g:constant({ -1 }, "int64") })
      if i == 2 then others = g:node("Neg", { others }) end
      half = g:node("Concat", { half, others }, { axis = axis })
    end
    whole[i] = half
  end
  return both_ways(g, whole, { axis }, rank, false)[1]
end

function write.fft_c2r(g, a, call)
  local dtype, rank = dtype_of(call), #a.x.shape
  local y = back_to_real(g, { parts_of(g, a.x, dtype) }, axis_of(a.dim, rank), rank,
    g:int(a.n, "n"))
  return scaled(g, { y }, a.scale, dtype)[1]
end

-- The window of n numbers, with zeros on both sides where it is shorter.
local function window_of(g, a, n, dtype)
  local wide = a.win_length or n
  local before = (n - wide) // 2
  local name
  if a.window then
    if is_complex(a.window.dtype) then
      fail("onnx.export: istft with a complex window has no translation to ONNX%s", g.call.place)
    end
    name = g:operand(a.window, dtype)
  else
    name = g:tensor(ml.ones({ wide }, { dtype = dtype }))
  end
  if wide == n then return name end
  return g:node("Pad", { name, g:constant({ before, n - wide - before }, "int64"),
    g:constant(0, dtype) }, { mode = "constant" })
end

-- Windows in the last two dimensions, `hop` apart, laid over one another and added.
local function laid_over(g, name, lead, count, n, hop, dtype)
  local reach = sizes.map(g.run.count, function(i) return n + hop * (sizes.at(count, i) - 1) end)
  local flat, whole = {}, {}
  for i, size in ipairs(lead) do flat[i], whole[i] = size, size end
  flat[#flat + 1] = sizes.map(g.run.count, function(i) return sizes.at(count, i) * n end)
  whole[#whole + 1] = reach
  local inside = {}
  for i = 1, n do inside[i] = i - 1 end
  local firsts = g:node("Mul", { g:node("Range", { g:constant(0, "int64"),
    g:squeeze(g:ints { count }, { 0 }), g:constant(1, "int64") }), g:constant(hop, "int64") })
  local places = g:node("Reshape", { g:node("Add", { g:unsqueeze(firsts, { 1 }),
    g:constant(inside, "int64") }), g:constant({ -1 }, "int64") })
  local windows = g:reshape(name, flat)
  return g:node("ScatterElements", { g:node("Expand", { g:constant(0, dtype), g:ints(whole) }),
    g:node("Expand", { places, g:node("Shape", { windows }) }), windows },
    { axis = #lead, reduction = "add" }), reach
end

-- A number of elements from `from` on, with zeros behind those that there are.
local function cut(g, name, rank, from, reach, length, dtype)
  local stop = sizes.map(g.run.count, function(i) return from + sizes.at(length, i) end)
  local missing = sizes.map(g.run.count, function(i)
    return math.max(sizes.at(stop, i) - sizes.at(reach, i), 0)
  end)
  name = g:node("Slice", { name, g:constant({ from }, "int64"), g:ints { stop },
    g:constant({ rank - 1 }, "int64") })
  if missing == 0 then return name end
  local pads = {}
  for i = 1, 2 * rank do pads[i] = 0 end
  pads[2 * rank] = missing
  return g:node("Pad", { name, g:ints(pads), g:constant(0, dtype) }, { mode = "constant" })
end

function write.istft(g, a, call)
  local dtype, rank, n = dtype_of(call), #a.x.shape, g:int(a.n_fft, "n_fft")
  local hop, count = g:int(a.hop_length or n // 4, "hop_length"), a.x.shape[rank]
  local scale = a.normalized and 1 / math.sqrt(n) or 1 / n
  local lead, perm = { table.unpack(a.x.shape, 1, rank - 2) }, {}
  for d = 1, rank do perm[d] = d - 1 end
  perm[rank], perm[rank - 1] = rank - 2, rank - 1
  local sums = { parts_of(g, a.x, dtype) }
  for i = 1, 2 do sums[i] = g:transpose(sums[i], perm) end
  local windows = a.return_complex and both_ways(g, sums, { rank - 1 }, rank, false)
    or { back_to_real(g, sums, rank - 1, rank, n) }
  local window, length = window_of(g, a, n, dtype), call.results[1].shape[rank - 1]
  local from = a.center and n // 2 or 0
  local square = g:node("Expand", { g:node("Mul", { window, window }), g:ints { count, n } })
  local weights, reach = laid_over(g, square, {}, count, n, hop, dtype)
  weights = cut(g, weights, 1, from, reach, length, dtype)
  local none = g:node("Equal", { weights, g:constant(0, dtype) })
  weights = g:node("Where", { none, g:constant(1, dtype), weights })
  windows = scaled(g, windows, scale, dtype)
  for i, name in ipairs(windows) do
    local laid = laid_over(g, g:node("Mul", { name, window }), lead, count, n, hop, dtype)
    windows[i] = g:node("Div", { cut(g, laid, rank - 1, from, reach, length, dtype), weights })
  end
  return a.return_complex and { parts = windows } or windows[1]
end

-- --- which calls --------------------------------------------------------------------------------

local complex = { translations = write }

--- Whether a call is of complex numbers.
---@param call table
---@return boolean
function complex.is_call(call)
  local found = false
  local function look(value) found = found or is_complex(value.dtype) end
  trace.each_value(call.arguments, look)
  for _, value in ipairs(call.results) do look(value) end
  return found
end

--- Whether an op of such arguments has a translation of its own.
---@param op moonlet.Op
---@param arguments table
---@return boolean
function complex.is_whole(op, arguments)
  if not write[op.row] then return false end
  for _, thing in pairs(arguments) do
    if ml.is_tensor(thing) and is_complex(tostring(thing.dtype)) then return true end
  end
  return false
end

return complex
