-- stdlib/torch7/objects.lua: values of Lua and of Torch7's classes in files: writeObject,
-- readObject, torch.save and torch.load. They are read as `ml.load` reads them, with the classes
-- made.
local class = require "moonlet.torch7.class"
local core = require "moonlet.torch7.core"
local File = require "moonlet.torch7.file"
local ml = require "moonlet"
local namespace = require "moonlet.torch7.namespace"
local storages = require "moonlet.torch7.storage"
local t7 = require "moonlet.files.torch7"

local NIL, NUMBER, STRING, TABLE, TORCH, BOOLEAN, CLOSURE = 0, 1, 2, 3, 4, 5, 8
local OLD_CLOSURE = 7

local M = core.methods

-- --- what files keep ----------------------------------------------------------------------------

-- What has been written and read, by number; made when the first object is.
local function notes_of(file)
  local env = class.getenv(file)
  if not env.written then
    env.written, env.count, env.kept, env.names = {}, 0, {}, {}
    env.upvalues, env.upvalue_count, env.closures = {}, 0, {}
  end
  return env
end

--- Whether what occurs again is written once, as it is by default.
function File:referenced(flag)
  notes_of(self).unreferenced = not flag
  return self
end

function File:isReferenced() return not notes_of(self).unreferenced end

-- --- writing ------------------------------------------------------------------------------------

-- The number of the kind of a value, or nil where it cannot be written.
function File.isWritableObject(_, object)
  local kind, name = type(object), class.typename(object)
  if object == nil then return NIL end
  if name and class.factory(name) then return TORCH end
  if kind == "table" then return TABLE end
  if kind == "number" then return NUMBER end
  if kind == "string" then return STRING end
  if kind == "boolean" then return BOOLEAN end
  if kind == "function" and pcall(string.dump, object) then return CLOSURE end
  return nil
end

local UPVALUES = {}  -- the name of a function's list of upvalues

-- "at <?>.a.b": the way to what is being written, without lists of upvalues and their positions.
local function path_of(names)
  local parts = {}
  for i, name in ipairs(names) do
    if name ~= UPVALUES and names[i - 1] ~= UPVALUES then parts[#parts + 1] = tostring(name) end
  end
  return table.concat(parts, ".")
end

-- What tells that a value is the one that was written before.
local function identity(object)
  if storages.is(object) then return ml._classes.id(object) end
  return object
end

local function method_of(object, name)
  local mt = class.getmetatable(class.typename(object))
  local f = mt["__" .. name] or mt[name]
  return type(f) == "function" and f or nil
end

local write

local function write_string(file, text)
  file:writeInt(#text)
  file:write_chars(text)
end

local function write_function(file, notes, f, hook)
  local upvalues, position = {}, 0
  while true do
    position = position + 1
    local name, value = debug.getupvalue(f, position)
    if not name then break end
    if name == "_ENV" then value = nil end
    local id = debug.upvalueid(f, position)
    if not notes.upvalues[id] then
      notes.upvalue_count = notes.upvalue_count + 1
      notes.upvalues[id] = notes.upvalue_count
    end
    upvalues[position] = { name = name, id = notes.upvalues[id], value = value }
  end
  write_string(file, string.dump(f))
  write(file, notes, upvalues, UPVALUES, hook)
end

local function write_torch(file, notes, object, hook)
  local name = class.typename(object)
  write_string(file, "V " .. class.version(object))
  write_string(file, name)
  local f = method_of(object, "write")
  if f then return f(object, file) end
  if type(object) ~= "table" then
    error(("<%s> is a non-serializable Torch object %s"):format(name, path_of(notes.names)), 0)
  end
  local fields = {}
  for key, value in pairs(object) do
    if file:isWritableObject(value) then
      fields[key] = value
    else
      print(("$ Warning: cannot write object field <%s> of <%s> %s"):format(tostring(key), name,
        path_of(notes.names)))
    end
  end
  write(file, notes, fields, name, hook)
end

local function write_table(file, notes, object, hook)
  local names, count = notes.names, 0
  for _ in pairs(object) do count = count + 1 end
  file:writeInt(count)
  local is_upvalue = names[#names - 1] == UPVALUES
  for key, value in pairs(object) do
    write(file, notes, key, nil, hook)
    local name = (type(key) == "string" or type(key) == "number") and tostring(key) or nil
    if is_upvalue and name == "value" and type(object.name) == "string" then name = object.name end
    write(file, notes, value, name, hook)
  end
end

-- Writes the number of what may occur again, and itself where it is new.
local function write_shared(file, notes, kind, original, object, hook)
  local key = identity(original)
  local index = notes.written[key]
  if index and not notes.unreferenced then
    file:writeInt(index)
    return
  end
  notes.count = notes.count + 1
  if not notes.unreferenced then
    notes.written[key] = notes.count
    notes.kept[#notes.kept + 1] = { original, object }
  end
  file:writeInt(notes.count)
  if kind == TORCH then
    write_torch(file, notes, object, hook)
  elseif kind == TABLE then
    write_table(file, notes, object, hook)
  else
    write_function(file, notes, object, hook)
  end
end

function write(file, notes, original, name, hook)
  local object = original
  if hook then object = hook(original) end
  if object == nil then
    file:writeInt(NIL)
    return
  end
  local names = notes.names
  names[#names + 1] = name or "<?>"
  local kind = file:isWritableObject(object)
  if not kind then
    error(("Unwritable object <%s> at %s"):format(type(object), path_of(names)), 0)
  end
  file:writeInt(kind)
  if kind == NUMBER then file:writeDouble(object)
  elseif kind == BOOLEAN then file:writeBool(object)
  elseif kind == STRING then write_string(file, object)
  else write_shared(file, notes, kind, original, object, hook) end
  names[#names] = nil
end

--- Writes a value. `hook` may give another in the place of each value.
function File:writeObject(object, name, hook)
  local notes = notes_of(self)
  local depth = #notes.names
  local ok, problem = pcall(write, self, notes, object, name, hook)
  for i = #notes.names, depth + 1, -1 do notes.names[i] = nil end
  if not ok then error(problem, 0) end
end

-- --- reading ------------------------------------------------------------------------------------

-- The reader of `ml.load`, with a torch.File to read from and without a bound on what is made: the
-- script that calls it runs without one too.
local Reader = setmetatable({}, { __index = t7.Reader })
Reader.__index = Reader

local UNBOUND = { take = function() end, take_string = function() end }

local From = {}
From.__index = From
function From:int() return self.file:readInt() end
function From:double() return self.file:readDouble() end
function From:chars(count) return self.file:read_chars(count) end

local function reader_of(file)
  local notes = notes_of(file)
  notes.reader = notes.reader or setmetatable(
    t7.new_reader(setmetatable({ file = file }, From), UNBOUND), Reader)
  notes.reader.torch_file, notes.reader.notes = file, notes
  return notes.reader
end

function Reader:object(index)
  local file = self.torch_file
  local name = self:string()
  local version = tonumber(name:match "^V (%d+)$")
  if version then name = self:string() end
  if name:find "^torch%.Cuda" then require "moonlet.torch7.cutorch" end
  local make = class.factory(name)
  if not make then error(("unknown Torch class <%s>"):format(name), 0) end
  local object = make(file)
  self.objects[index] = object
  local read = method_of(object, "read")
  if read then
    read(object, file, version or 0)
  else
    local fields = self:value()
    if type(fields) ~= "table" then error(("an object of class %s is damaged"):format(name), 0) end
    for key, value in pairs(fields) do object[key] = value end
  end
end

local function join_upvalue(closures, f, position, upvalue)
  debug.setupvalue(f, position, upvalue.value)
  if not upvalue.id then return end
  local known = closures[upvalue.id]
  if known then
    debug.upvaluejoin(f, position, known.f, known.position)
  else
    closures[upvalue.id] = { f = f, position = position }
  end
end

--- A function whose bytecode the interpreter may load; nil where it may not.
function Reader:closure(index, kind)
  local f, problem = load(self:string(), "=(torch.load)", "b")
  if not f then
    io.stderr:write(("Warning: Failed to load function from bytecode: %s\n"):format(problem))
  end
  if index then self.objects[index] = f or false end
  local upvalues = self:value()
  if not f then return nil end
  for position, upvalue in ipairs(upvalues) do
    if kind ~= CLOSURE then
      debug.setupvalue(f, position, upvalue)
    elseif upvalue.name == "_ENV" then
      debug.setupvalue(f, position, _ENV)
    else
      join_upvalue(self.notes.closures, f, position, upvalue)
    end
  end
  return f
end

function Reader:shared(kind)
  if kind ~= CLOSURE and kind ~= OLD_CLOSURE then return t7.Reader.shared(self, kind) end
  local index = self.from:int()
  local known = self.objects[index]
  if known ~= nil then return known or nil end
  return self:closure(index, kind)
end

function File:readObject()
  local reader = reader_of(self)
  if self.reading then return reader:value() end
  self.reading, reader.depth = true, 0
  local ok, value = pcall(reader.value, reader)
  self.reading = nil
  if not ok then error(value, 0) end
  return value
end

-- --- tensors ------------------------------------------------------------------------------------

local Tensor = {}

function Tensor:write(file)
  local is_empty = M.numel(self) == 0
  local sizes = is_empty and {} or ml._classes.sizes(self)
  file:writeInt(#sizes)
  file:writeLong(storages.longs(sizes))
  file:writeLong(storages.longs(is_empty and {} or ml._classes.strides(self)))
  file:writeLong(self:storageOffset())
  local storage = self:storage()
  if is_empty and #storage == 0 then storage = nil end
  file:writeObject(storage)
end

function Tensor:read(file)
  local rank = file:readInt()
  if rank < 0 or rank > 64 then error("a tensor is damaged", 0) end
  local sizes, strides = file:readLong(rank):totable(), file:readLong(rank):totable()
  local offset = file:readLong() - 1
  local storage = file:readObject()
  if storage == nil or rank == 0 then return end
  if not storages.is(storage) or getmetatable(storage).__key ~= self.__key then
    error("a tensor is damaged", 0)
  end
  M.set_(self, storage, offset, sizes, strides)
end

core.each_class(function(mt) mt.write, mt.read = Tensor.write, Tensor.read end)

-- --- whole files --------------------------------------------------------------------------------

local function check_mode(mode, modes)
  if mode ~= nil and not modes[mode] then
    error(("'binary' or 'ascii' is expected for mode, got '%s'"):format(tostring(mode)), 0)
  end
end

--- Writes a value to a file: `mode` is "binary" or "ascii".
function namespace.save(path, object, mode, referenced)
  check_mode(mode, { binary = true, ascii = true })
  local file = namespace.DiskFile(path, "w")
  file[mode or "binary"](file)
  file:referenced(referenced ~= false)
  local ok, problem = pcall(file.writeObject, file, object)
  file:close()
  if not ok then error(problem, 0) end
end

--- Reads a value from a file; "b32" and "b64" say how long the long integers of a binary one are.
function namespace.load(path, mode, referenced)
  check_mode(mode, { binary = true, ascii = true, b32 = true, b64 = true })
  local file = namespace.DiskFile(path, "r")
  if mode == "ascii" then file:ascii() else file:binary() end
  if mode == "b32" then file:longSize(4) end
  file:referenced(referenced ~= false)
  local ok, value = pcall(file.readObject, file)
  file:close()
  if not ok then error(value, 0) end
  return value
end
namespace.saveobj, namespace.loadobj = namespace.save, namespace.load

local function serialized(object, mode)
  local file = namespace.MemoryFile()
  file[mode or "binary"](file)
  file:writeObject(object)
  return file.stream:join()
end

function namespace.serialize(object, mode) return serialized(object, mode) end

function namespace.serializeToStorage(object, mode)
  return namespace.CharStorage():string(serialized(object, mode))
end

function namespace.deserialize(text, mode)
  local file = namespace.MemoryFile(namespace.CharStorage():string(text .. "\0"), "r")
  file[mode or "binary"](file)
  return file:readObject()
end

function namespace.deserializeFromStorage(storage, mode)
  return namespace.deserialize(storage:string(), mode)
end
