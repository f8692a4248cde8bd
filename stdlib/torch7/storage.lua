-- stdlib/torch7/storage.lua: torch.ByteStorage to torch.DoubleStorage: flat memory with elements
-- of one type, whose positions count from 1.

local class = require "moonlet.torch7.class"
local ml = require "moonlet"
local namespace = require "moonlet.torch7.namespace"
local types = require "moonlet.torch7.types"

local classes = ml._classes
local methods = ml._storage_methods

local storage = {}

-- The metatables by key: the dtype, or "cuda:" and the dtype.
local metatables = {}

local function fail(format, ...) error(format:format(...), 3) end

local Storage = {}

function Storage:size() return methods.size(self) end
Storage.__len__ = Storage.size

function Storage:fill(value)
  if type(value) ~= "number" then fail("fill: a number is expected, got %s", class.type(value)) end
  return methods.fill(self, types.number(value, self.__dtype))
end

function Storage:copy(source)
  if not storage.is(source) then fail "copy: a storage is expected" end
  if #source ~= #self then
    fail("copy: the storages have %d and %d elements", #self, #source)
  end
  return methods.copy(self, source)
end

function Storage:resize(size) return methods.resize(self, math.tointeger(size)) end
function Storage:elementSize() return self.__width end
function Storage:totable() return methods.tolist(self) end
function Storage:retain() return self end
function Storage:free() end

function Storage:type(name)
  local own = class.typename(self)
  if not name or name == own then return name and self or own end
  local mt = class.getmetatable(name)
  if not mt then fail("type: %s is no type of storages", tostring(name)) end
  return mt.new(#self):copy(self)
end

--- The bytes of a storage of characters as a Lua string; with one, the storage gets its bytes.
function Storage:string(text)
  if self.__width ~= 1 then fail("string: %s holds no characters", class.typename(self)) end
  if text == nil then return #self == 0 and "" or storage.tensor(self):to_bytes() end
  methods.resize(self, #text)
  if #text > 0 then methods.copy(self, ml.from_bytes(text, self.__dtype)) end
  return self
end

-- Files hold elements of the CPU.
local function on_cpu(self)
  if self.__options.device == "cpu" then return self end
  return metatables[self.__dtype].new(#self):copy(self)
end

function Storage:write(file)
  file:writeLong(#self)
  file["write" .. self.__element](file, on_cpu(self))
end

function Storage:read(file)
  local size = file:readLong()
  local elements = file["read" .. self.__element](file, size)
  methods.resize(self, #elements)
  methods.copy(self, elements)
end

for _, name in ipairs(types.NAMES) do
  Storage[name:lower()] = function(self) return self:type("torch." .. name .. "Storage") end
end

--- Whether a value is a storage of Torch7's.
function storage.is(value)
  local mt = type(value) == "userdata" and getmetatable(value)
  return type(mt) == "table" and rawget(mt, "__is_storage") == true
end

-- The native tensor of all elements.
function storage.tensor(s)
  return ml.empty({ 0 }, s.__options):set_(s)
end

--- A storage of the class with that key on the memory of a native storage or tensor.
function storage.wrap(memory, key) return classes.storage(memory, metatables[key]) end

local function from_table(mt, items)
  local made = ml.Storage(#items, mt.__options)
  local out = classes.storage(made, mt)
  for i, item in ipairs(items) do
    if type(item) ~= "number" then fail("element at index %d is not a number", i) end
    out[i] = item
  end
  return out
end

local function mapped(mt, path, shared, size)
  local made = ml.Storage { file = path, dtype = mt.__dtype, shared = shared or nil,
    size = shared and size and size > 0 and size or nil }
  return classes.storage(made, mt)
end

-- A storage of n elements; of a table; the part of another from position `at`; a mapped file.
local function new(mt, first, at, size, ...)
  if first == nil or type(first) == "number" then
    if first and not math.tointeger(first) then
      fail("%s: a whole number is expected, got %s", mt.__typename, first)
    end
    return classes.storage(ml.Storage(math.tointeger(first or 0), mt.__options), mt)
  elseif type(first) == "table" then
    return from_table(mt, first)
  elseif type(first) == "string" then
    return mapped(mt, first, at, size, ...)
  elseif getmetatable(first) == mt then
    if at and not math.tointeger(at) or size and not math.tointeger(size) then
      fail("%s: whole numbers are expected for a part of a storage", mt.__typename)
    end
    local offset = (at or 1) - 1
    local length = size or #first - offset
    if offset < 0 or offset > #first or length < 0 or offset + length > #first then
      fail("%s: elements %d to %d are outside a storage of %d", mt.__typename, offset + 1,
        offset + length, #first)
    end
    return classes.part(first, math.tointeger(offset), math.tointeger(length), mt)
  end
  fail("%s: a size, a table, a storage or a file's name is expected", mt.__typename)
end

-- What is done with each class when it is made.
local tasks = {}

--- Calls f with the metatable of each class of storages, now or when it is made: those of CUDA
--- devices are made when they are asked for.
function storage.each_class(f)
  tasks[#tasks + 1] = f
  for _, mt in pairs(metatables) do f(mt) end
end

local function register(prefix, element)
  local mt
  local on_cuda = prefix ~= ""
  local function make(...) return new(mt, ...) end
  local name = "torch." .. prefix .. (on_cuda and element == "Float" and "" or element)
    .. "Storage"
  mt = class.newmetatable(name, nil, make, make, namespace)
  for key, f in pairs(Storage) do mt[key] = f end
  mt.__dtype, mt.__element, mt.__is_storage = types.DTYPES[element], element, true
  mt.__key = (on_cuda and "cuda:" or "") .. mt.__dtype
  mt.__options = { dtype = mt.__dtype, device = on_cuda and "cuda" or "cpu" }
  mt.__width = ml.zeros({ 1 }, { dtype = mt.__dtype }).itemsize
  mt.new, mt.__len = make, Storage.size
  mt.__eq = function(a, b)
    return storage.is(a) and storage.is(b) and classes.id(a) == classes.id(b)
  end
  classes.register_storage(mt)
  metatables[mt.__key] = mt
  for _, f in ipairs(tasks) do f(mt) end
end

for _, element in ipairs(types.NAMES) do register("", element) end

function storage.make_cuda_classes()
  for _, element in ipairs(types.NAMES) do register("Cuda", element) end
end

storage.Storage = Storage
storage.metatables = metatables

--- A torch.LongStorage of these numbers.
function storage.longs(numbers) return classes.longs(numbers, metatables.int64) end

return storage
