-- stdlib/torch7/tensor.lua: Torch7's tensors: how they are made, x[key], their geometry and memory.

local class = require "moonlet.torch7.class"
local core = require "moonlet.torch7.core"
local ml = require "moonlet"
local namespace = require "moonlet.torch7.namespace"
local storages = require "moonlet.torch7.storage"
local types = require "moonlet.torch7.types"

local classes, methods, fail = ml._classes, ml._methods, core.fail

local tensor = {}

local function is_longs(value) return class.typename(value) == "torch.LongStorage" end

local function contiguous_strides(sizes)
  local strides, step = {}, 1
  for i = #sizes, 1, -1 do strides[i], step = step, step * sizes[i] end
  return strides
end

-- --- making -----------------------------------------------------------------------------------

local function check_items(items, path)
  for _, item in ipairs(items) do
    if type(item) == "table" then
      check_items(item, path)
    elseif type(item) ~= "number" then
      fail("%s: an element of the table is a %s, not a number", path, type(item))
    end
  end
end

local function converted(items, dtype)
  local out = {}
  for i, item in ipairs(items) do
    out[i] = type(item) == "table" and converted(item, dtype) or types.number(item, dtype)
  end
  return out
end

local function from_table(mt, items)
  if next(items) == nil then return core.empty(mt) end
  check_items(items, mt.__typename)
  return core.wrap(ml.tensor(converted(items, mt.__dtype), mt.__options), mt)
end

-- Sets x to `sizes` elements of a storage from a 1-based position on; the storage grows.
local function set_geometry(x, storage, offset, sizes, strides)
  sizes = core.checked(sizes)
  if sizes[1] == 0 then
    if offset > #storage + 1 then offset = #storage + 1 end
    return methods.set_(x, storage, offset - 1, { 0 })
  end
  local given = strides or {}
  local step = contiguous_strides(sizes)
  local last = offset
  for i = 1, #sizes do
    if given[i] and given[i] >= 0 then step[i] = math.tointeger(given[i]) end
  end
  for i = #sizes, 1, -1 do
    if not (given[i] and given[i] >= 0) and i < #sizes then step[i] = sizes[i + 1] * step[i + 1] end
    last = last + (sizes[i] - 1) * step[i]
  end
  if last > #storage then storage:resize(last) end
  return methods.set_(x, storage, offset - 1, sizes, step)
end

-- The sizes and strides that stand behind a storage: LongStorages, or pairs of numbers.
local function read_geometry(...)
  local first, second = ...
  if first == nil then return nil end
  if is_longs(first) then
    return first:totable(), is_longs(second) and second:totable() or nil
  end
  local sizes, strides = {}, {}
  local values = { ... }
  for i = 1, #values, 2 do
    if type(values[i]) ~= "number" then fail "set: numbers are expected for sizes and strides" end
    sizes[#sizes + 1], strides[#strides + 1] = values[i], values[i + 1] or -1
  end
  return sizes, strides
end

local function set_storage(x, storage, offset, ...)
  local sizes, strides
  if is_longs(offset) then
    sizes, strides = read_geometry(offset, ...)
    offset = 1
  else
    sizes, strides = read_geometry(...)
  end
  offset = math.tointeger(offset or 1)
  if not offset or offset < 1 then fail "set: the offset must be at least 1" end
  return set_geometry(x, storage, offset, sizes or { #storage - offset + 1 }, strides)
end

local function is_storage_of(mt, value)
  return storages.is(value) and getmetatable(value).__key == mt.__key
end

local function sizes_given(first, ...)
  if is_longs(first) then
    local strides = ...
    return first:totable(), is_longs(strides) and strides:totable() or nil
  end
  for _, size in ipairs { first, ... } do
    if type(size) ~= "number" then
      fail("a tensor is made of sizes, a table, a tensor or a storage, got %s", class.type(size))
    end
  end
  return { first, ... }
end

local function construct(mt, first, ...)
  if first == nil then return core.empty(mt) end
  local kind = type(first)
  if kind == "table" then return from_table(mt, first) end
  if kind == "userdata" then
    if getmetatable(first) == mt then return core.wrap(first, mt) end
    if is_storage_of(mt, first) then return set_storage(core.empty(mt), first, ...) end
  end
  local sizes, strides = sizes_given(first, ...)
  if not strides then return core.zeros(mt, core.checked(sizes)) end
  local x = core.empty(mt)
  return set_geometry(x, x:storage(), 1, sizes, strides)
end

-- --- x[key] -----------------------------------------------------------------------------------

local function is_mask(key)
  local mt = core.is_tensor(key) and getmetatable(key)
  return mt and mt.__dtype == "uint8"
end

local function narrowed(x, dim, range)
  if #range == 0 then return x end
  local size = x:size(dim)
  local first, last = range[1], range[2] or range[1]
  if #range > 2 or type(first) ~= "number" or type(last) ~= "number" then
    fail "index: a range is {}, {i} or {first, last}"
  end
  if first < 0 then first = first + size + 1 end
  if last < 0 then last = last + size + 1 end
  if first < 1 or last > size or first > last then
    fail("index: the range {%d, %d} is outside 1 to %d", first, last, size)
  end
  return methods.narrow(x, dim, math.tointeger(first), math.tointeger(last - first + 1))
end

-- The part that a list of positions and ranges selects; a number where it is one element.
local function part_of(x, key)
  local rank, dim, all = core.dim(x), 1, true
  if #key > rank then fail("index: %d positions for a %dD tensor", #key, rank) end
  for _, item in ipairs(key) do
    if type(item) == "number" then
      local size = methods.size(x, dim)
      local at = math.tointeger(item < 0 and item + size + 1 or item) or item // 1 | 0
      if at < 1 or at > size then
        fail("index: position %s is outside 1 to %d", tostring(item), size)
      end
      x = methods.select(x, dim, at)
    elseif type(item) == "table" then
      x, dim, all = narrowed(x, dim, item), dim + 1, false
    else
      fail("index: a position or a range is expected, got %s", class.type(item))
    end
  end
  return x, all and #key == rank and rank > 0
end

local function index(x, key)
  if type(key) == "table" then
    local part, is_element = part_of(x, key)
    if is_element then return core.item(part) end
    return part
  end
  if is_mask(key) then return x:maskedSelect(key) end
  if is_longs(key) then return index(x, key:totable()) end
  if core.is_tensor(key) then
    fail("index: a ByteTensor is expected as a mask, got %s", class.typename(key))
  end
  return getmetatable(x)[key]
end

local function assign(part, value)
  if type(value) == "number" then
    methods.fill_(part, core.number(getmetatable(part), value))
  elseif core.is_tensor(value) then
    methods.copy_(part, core.like(part, value, "copy"))
  elseif storages.is(value) then
    methods.copy_(part, core.like(part, storages.tensor(value), "copy"))
  else
    fail("index: a number or a tensor is expected, got %s", class.type(value))
  end
end

local function newindex(x, key, value)
  if type(key) == "table" then
    assign(part_of(x, key), value)
  elseif is_longs(key) then
    assign(part_of(x, key:totable()), value)
  elseif type(key) == "number" then
    assign(part_of(x, { key }), value)
  elseif is_mask(key) then
    if type(value) == "number" then x:maskedFill(key, value) else x:maskedCopy(key, value) end
  else
    fail("index: a tensor has no field %s to assign", tostring(key))
  end
end

core.register(construct, index, newindex)

-- --- geometry -----------------------------------------------------------------------------------

local Tensor = {}

function Tensor:dim() return core.dim(self) end
Tensor.nDimension = Tensor.dim
function Tensor:nElement() return methods.numel(self) end
Tensor.numel = Tensor.nElement

function Tensor:size(dim)
  if dim then return methods.size(self, core.dimension(self, dim, "size")) end
  return storages.longs(core.sizes(self))
end
Tensor.__len__ = function(self) return Tensor.size(self) end

function Tensor:stride(dim)
  if dim then return methods.stride(self, core.dimension(self, dim, "stride")) end
  return storages.longs(methods.numel(self) == 0 and {} or classes.strides(self))
end

function Tensor:storageOffset() return methods.storage_offset(self) + 1 end
function Tensor:storage() return storages.wrap(self, self.__key) end
function Tensor:elementSize() return storages.metatables[self.__key].__width end
function Tensor:isContiguous() return methods.is_contiguous(self) end
function Tensor:isSameSizeAs(other)
  return methods.numel(self) == 0 and methods.numel(other) == 0 or classes.same_shape(self, other)
end

function Tensor:isSize(sizes)
  core.expect(sizes, "LongStorage", "sizes", "isSize")
  local own = core.sizes(self)
  if #own ~= #sizes then return false end
  for i, size in ipairs(own) do
    if size ~= sizes[i] then return false end
  end
  return true
end

function Tensor:isSetTo(other)
  return methods.numel(self) > 0 and classes.id(self) == classes.id(other)
    and methods.storage_offset(self) == methods.storage_offset(other)
    and classes.same_shape(self, other)
    and table.concat(classes.strides(self), ",")
      == table.concat(classes.strides(other), ",")
end

function Tensor:resize(first, ...)
  if first == nil then return core.resize(self, {}) end
  if core.is_tensor(first) then fail "resize: sizes are expected; resizeAs takes a tensor" end
  local sizes, strides = sizes_given(first, ...)
  if not strides then return core.resize(self, sizes) end
  return set_geometry(self, self:storage(), self:storageOffset(), sizes, strides)
end

function Tensor:resizeAs(other)
  core.expect(other, "tensor", "other", "resizeAs")
  if classes.same_shape(self, other) then return self end
  return core.resize(self, core.sizes(other))
end

function Tensor:set(first, ...)
  local mt = getmetatable(self)
  if first == nil then
    return methods.set_(self, ml.Storage(0, mt.__options), 0, { 0 })
  elseif getmetatable(first) == mt then
    return classes.take(self, core.wrap(first, mt))
  elseif is_storage_of(mt, first) then
    return set_storage(self, first, ...)
  end
  local sizes, strides = sizes_given(first, ...)
  return set_geometry(self, storages.metatables[mt.__key].new(), 1, sizes, strides)
end

function Tensor:narrow(dim, first, size)
  dim = core.dimension(self, dim, "narrow")
  if type(first) ~= "number" then core.expect(first, "number", "first", "narrow") end
  if type(size) ~= "number" then core.expect(size, "number", "size", "narrow") end
  local whole, length = math.tointeger(first), math.tointeger(size)
  local all = methods.size(self, dim)
  if not whole or not length or whole < 1 or length < 1 or whole + length - 1 > all then
    fail("torch.narrow: positions %s to %s are outside 1 to %d", tostring(first),
      tostring(first + size - 1), all)
  end
  return methods.narrow(self, dim, whole, length)
end

function Tensor:sub(...)
  local bounds, out = { ... }, self
  if #bounds == 0 or #bounds % 2 ~= 0 then fail "torch.sub: pairs of positions are expected" end
  for i = 1, #bounds, 2 do
    local dim = core.dimension(self, (i + 1) // 2, "sub")
    local size = methods.size(self, dim)
    local first, last = bounds[i], bounds[i + 1]
    if first < 0 then first = first + size + 1 end
    if last < 0 then last = last + size + 1 end
    out = Tensor.narrow(out, dim, first, last - first + 1)
  end
  return out
end

function Tensor:select(dim, at)
  if core.dim(self) == 1 then return self[at] end  -- a number, whatever the dimension
  dim = core.dimension(self, dim, "select")
  local size, whole = methods.size(self, dim), math.tointeger(at)
  if not whole or whole < 1 or whole > size then
    fail("torch.select: position %s is outside 1 to %d", tostring(at), size)
  end
  return methods.select(self, dim, whole)
end

function Tensor:transpose(a, b)
  return methods.transpose(self, core.dimension(self, a, "transpose"),
    core.dimension(self, b, "transpose"))
end

function Tensor:t()
  if core.dim(self) ~= 2 then fail("torch.t: a 2D tensor is expected, got %dD", core.dim(self)) end
  return methods.transpose(self, 1, 2)
end

function Tensor:unfold(dim, size, step)
  core.expect(size, "number", "size", "unfold")
  return methods.unfold(self, core.dimension(self, dim, "unfold"), math.tointeger(size),
    math.tointeger(step or 1))
end

-- --- memory -----------------------------------------------------------------------------------

-- Whether elements of x may share memory, as those of expanded and unfolded tensors do.
local function may_overlap(x)
  local strides, order = classes.strides(x), {}
  for d in ipairs(strides) do order[d] = d end
  table.sort(order, function(a, b) return strides[a] < strides[b] end)
  local reach = 0
  for _, d in ipairs(order) do
    local size = methods.size(x, d)
    if size > 1 and strides[d] <= reach then return true end
    reach = reach + (size - 1) * strides[d]
  end
  return false
end

--- The memory of a tensor that cannot be written in place, as elements share it: a native vector,
--- and the position in it of each element. Where they share none the error `problem` is raised.
function tensor.shared_memory(x, problem)
  if not may_overlap(x) then error(problem, 0) end
  local memory = storages.tensor(x:storage())
  local positions = ml.arange(1, methods.numel(memory), { device = x.__options.device })
  positions = positions:as_strided(classes.sizes(x), classes.strides(x), methods.storage_offset(x))
  return memory, positions:reshape { -1 }
end

function Tensor:copy(source)
  if getmetatable(source) == getmetatable(self) and classes.same_shape(self, source)
    and methods.is_contiguous(self) then
    return methods.copy_(self, source)
  end
  if storages.is(source) then source = storages.tensor(source) end
  if not core.is_tensor(source) and not ml.is_tensor(source) then
    fail("torch.copy: a tensor is expected, got %s", class.type(source))
  end
  return core.write_shared(methods.copy_, self, function(arguments, dim, size)
    arguments[1] = methods.narrow(arguments[1], dim, size, 1)
  end, core.like(self, source, "copy"))
end

function Tensor:clone() return methods.contiguous(methods.clone(self)) end

function Tensor:contiguous()
  if methods.is_contiguous(self) then return self end
  return methods.contiguous(self)
end

function Tensor:retain() return self end
function Tensor:free() end

--- The native tensor on the same memory.
function Tensor:tensor() return core.native(self) end

function Tensor:type(name)
  local mt = getmetatable(self)
  if not name or name == mt.__typename then return name and self or mt.__typename end
  local other = class.getmetatable(name)
  if not other or not other.new then
    fail("torch.type: %s is no type of tensors", tostring(name))
  end
  local out = other.new()
  if methods.numel(self) > 0 then out:resize(self:size()):copy(self) end
  return out
end

function Tensor:typeAs(other)
  core.expect(other, "tensor", "other", "typeAs")
  return self:type(other:type())
end
function Tensor:real() return self:type(namespace.getdefaulttensortype()) end

for _, name in ipairs(types.NAMES) do
  Tensor[name:lower()] = function(self) return self:type("torch." .. name .. "Tensor") end
end

-- --- elements one by one ------------------------------------------------------------------------

local function result_for(mt, value, old)
  if value == nil then return old end
  if type(value) ~= "number" then fail("torch.apply: f must give a number, got %s", type(value)) end
  return core.number(mt, value)
end

function Tensor:apply(f)
  core.expect(f, "function", "f", "apply")
  local mt = getmetatable(self)
  return methods.apply_(self, function(v) return result_for(mt, f(v), v) end)
end

function Tensor:map(other, f)
  core.expect(other, "tensor", "other", "map")
  core.expect(f, "function", "f", "map")
  local mt = getmetatable(self)
  return methods.map_(self, core.like(self, other, "map"), function(v, w)
    return result_for(mt, f(v, w), v)
  end)
end

function Tensor:map2(a, b, f)
  core.expect(a, "tensor", "a", "map2")
  core.expect(b, "tensor", "b", "map2")
  core.expect(f, "function", "f", "map2")
  local mt = getmetatable(self)
  return methods.map2_(self, core.like(self, a, "map2"), core.like(self, b, "map2"),
    function(v, w, u) return result_for(mt, f(v, w, u), v) end)
end

core.each_class(function(mt)
  for name, f in pairs(Tensor) do mt[name] = f end
  mt.__len = Tensor.__len__
end)

tensor.Tensor = Tensor
tensor.set_geometry = set_geometry
tensor.contiguous_strides = contiguous_strides

--- A tensor of Torch7's on the memory of a native one.
function tensor.from(native)
  if ml.is_tensor(native) and native.is_cuda then require "moonlet.torch7.cutorch" end
  local mt = ml.is_tensor(native)
    and core.metatables[(native.is_cuda and "cuda:" or "") .. native.dtype]
  if not mt then fail "torch.from: a native tensor of one of Torch7's types is expected" end
  return core.wrap(native, mt)
end

return tensor
