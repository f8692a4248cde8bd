-- stdlib/torch7/core.lua: the metatables of torch.ByteTensor to torch.DoubleTensor, and what all
-- modules do with tensors: making empty ones, and giving results to tensors that are there.

local class = require "moonlet.torch7.class"
local ml = require "moonlet"
local namespace = require "moonlet.torch7.namespace"
local types = require "moonlet.torch7.types"

local classes, methods = ml._classes, ml._methods

local core = {}

core.methods = methods

-- The metatables of tensors on the CPU by dtype, and of those on CUDA devices by "cuda:" and the
-- dtype. Results of native ops with a tensor as first argument are of these.
core.metatables = {}

-- What is done with each class when it is made.
local tasks = {}

--- Calls f with the metatable of each class of tensors, now or when it is made: those of CUDA
--- devices are made when they are asked for.
---@param dtypes table? the dtypes of the classes as keys; all where it is nil
function core.each_class(f, dtypes)
  local function task(mt)
    if not dtypes or dtypes[mt.__dtype] then f(mt) end
  end
  tasks[#tasks + 1] = task
  for _, mt in pairs(core.metatables) do task(mt) end
end

local function fail(format, ...) error(format:format(...), 0) end
core.fail = fail

--- A tensor without elements, which Torch7 says has no dimensions.
function core.empty(mt)
  return classes.tensor(ml.empty({ 0 }, mt.__options), mt)
end

--- A tensor of a class with these sizes, filled with zeros.
function core.zeros(mt, sizes)
  return classes.tensor(ml.zeros(sizes, mt.__options), mt)
end

--- A native tensor as one of the class, on the same memory.
function core.wrap(native, mt) return classes.tensor(native, mt) end

--- The native tensor on the memory of one of Torch7's.
function core.native(x) return classes.tensor(x) end

function core.is_tensor(value)
  local mt = type(value) == "userdata" and getmetatable(value)
  return type(mt) == "table" and mt.__is_tensor == true
end

--- The sizes as a Lua table; none for an empty tensor.
function core.sizes(x)
  if methods.numel(x) == 0 then return {} end
  return classes.sizes(x)
end

function core.dim(x) return methods.numel(x) == 0 and 0 or methods.dim(x) end

-- Sizes as TH takes them: up to the first that is not positive.
function core.checked(sizes)
  local out = {}
  for i, size in ipairs(sizes) do
    local whole = math.tointeger(size) or size // 1 | 0
    if whole <= 0 then return i == 1 and { 0 } or { 0 } end
    out[i] = whole
  end
  return #out == 0 and { 0 } or out
end

--- Gives x these sizes; its memory grows where it is too small.
function core.resize(x, sizes) return methods.resize_(x, core.checked(sizes)) end

--- Makes `r` hold what the native result `y` holds: it takes y's memory where nobody sees r's, and
--- is resized and copied to otherwise. Without r the result is y.
function core.into(r, y)
  if r == nil then return y end
  if r == y then return r end
  if methods.numel(r) == 0 and getmetatable(y) == getmetatable(r)
    and methods.storage(r):size() == 0 then
    return classes.take(r, y)
  end
  if not classes.same_shape(r, y) then methods.resize_(r, classes.sizes(y)) end
  return methods.copy_(r, y)
end

--- y in the shape of x, which must have as many elements.
function core.like(x, y, name)
  if classes.same_shape(x, y) then return y end
  local count = methods.numel(x)
  if count ~= methods.numel(y) then
    fail("torch.%s: inconsistent tensor size, expected %d elements, got %d", name, count,
      methods.numel(y))
  end
  return methods.reshape(y, classes.sizes(x))
end

--- The 1-based dimension, checked.
function core.dimension(x, dim, name)
  local rank = core.dim(x)
  local whole = math.tointeger(dim)
  if not whole or whole < 1 or whole > rank then
    fail("torch.%s: dimension %s is out of range of a %dD tensor", name, tostring(dim), rank)
  end
  return whole
end

-- Writes to x by write(x, ...). Elements of an expanded tensor that share a position are written
-- once: `narrowed` gives the arguments for a part of the tensor that has the last of them.
function core.write_shared(write, x, narrowed, ...)
  local ok, problem = pcall(write, x, ...)
  if ok then return x end
  local part, arguments, found = x, { ... }, false
  for d, step in ipairs(classes.strides(x)) do
    local size = methods.size(x, d)
    if step == 0 and size > 1 then
      part, found = methods.narrow(part, d, size, 1), true
      narrowed(arguments, d, size)
    end
  end
  if not found then error(problem, 0) end
  write(part, table.unpack(arguments))
  return x
end

--- An error that names the function and the argument where a value is not of a type: one of Lua's,
--- "tensor" or "LongStorage".
function core.expect(value, kind, argument, name)
  local ok = type(value) == kind
  if kind == "tensor" then ok = core.is_tensor(value) end
  if kind == "LongStorage" then ok = class.typename(value) == "torch.LongStorage" end
  if not ok then
    fail("torch.%s: argument '%s' must be a %s, got %s", name, argument, kind, class.type(value))
  end
  return value
end

--- A number as an element of the class holds it.
function core.number(mt, value) return types.number(value, mt.__dtype) end

--- The element of a result of one, as a Lua number.
function core.item(y)
  local value = methods.item(y)
  if type(value) == "boolean" then return value and 1 or 0 end
  return value
end

--- A native result in the class of `mt`, whatever its dtype.
function core.as(y, mt)
  if getmetatable(y) == mt then return y end
  return core.wrap(methods.to(y, mt.__dtype), mt)
end

function core.is_floating(mt) return types.is_floating(mt.__dtype) end

local function new_class(prefix, element, construct, family)
  local mt
  local on_cuda = prefix ~= ""
  local function make(...) return construct(mt, ...) end
  local name = "torch." .. prefix .. (on_cuda and element == "Float" and "" or element) .. "Tensor"
  mt = class.newmetatable(name, nil, make, make, namespace)
  local dtype = types.DTYPES[element]
  mt.__dtype, mt.__element, mt.__is_tensor, mt.torch = dtype, element, true, {}
  mt.__key = (on_cuda and "cuda:" or "") .. dtype
  mt.__options = { dtype = dtype, device = on_cuda and "cuda" or "cpu" }
  mt.__family = family
  mt.__eq = nil
  mt.new = make
  family[dtype] = mt
  core.metatables[mt.__key] = mt
  return mt
end

--- Makes the classes of the CPU, and core.make_cuda_classes(), which makes those of CUDA devices.
--- `construct(mt, ...)` makes a tensor; `index` and `newindex` get the keys that are no positions.
function core.register(construct, index, newindex)
  local function make_all(prefix)
    local by_dtype, family = {}, {}
    for _, element in ipairs(types.NAMES) do
      local mt = new_class(prefix, element, construct, family)
      classes.register(mt, by_dtype, mt.__dtype, index, newindex)
      for _, task in ipairs(tasks) do task(mt) end
    end
  end
  make_all ""
  function core.make_cuda_classes() make_all "Cuda" end
end

--- A set of dtypes.
function core.of(...)
  local out = {}
  for _, dtype in ipairs { ... } do out[dtype] = true end
  return out
end

return core
