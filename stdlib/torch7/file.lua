-- stdlib/torch7/file.lua: torch.File and its kinds: numbers and storages, binary or as text.

local class = require "moonlet.torch7.class"
local ml = require "moonlet"
local namespace = require "moonlet.torch7.namespace"
local storages = require "moonlet.torch7.storage"
local streams = require "moonlet.torch7.streams"
local types = require "moonlet.torch7.types"

local File = class.class("torch.File", namespace)

-- Of each type the format of string.pack and that of text.
local FORMATS = { Byte = { "B" }, Char = { "b" }, Short = { "i2", "%d" }, Int = { "i4", "%d" },
  Long = { "i8", "%d" }, Float = { "f", "%.9g" }, Double = { "d", "%.17g" },
  Half = { "I2", "%.9g" } }

local WORDS = { nan = 0 / 0, ["-nan"] = 0 / 0, inf = math.huge, ["-inf"] = -math.huge }

-- --- what is set --------------------------------------------------------------------------------

local function prepared(mt, stream, name, mode, quiet)
  return setmetatable({ stream = stream, name = name, mode = mode, is_quiet = quiet == true,
    is_binary = false, auto_spacing = true, failed = false, order = "<", long_size = 8 }, mt)
end

local function setter(field, value)
  return function(self)
    self[field] = value
    return self
  end
end

File.binary, File.ascii = setter("is_binary", true), setter("is_binary", false)
File.autoSpacing, File.noAutoSpacing = setter("auto_spacing", true), setter("auto_spacing", false)
File.quiet, File.pedantic = setter("is_quiet", true), setter("is_quiet", false)
File.clearError = setter("failed", false)
File.littleEndianEncoding, File.bigEndianEncoding = setter("order", "<"), setter("order", ">")
File.nativeEndianEncoding = setter("order", "<")

function File:isQuiet() return self.is_quiet end
function File:isBinary() return self.is_binary end
function File:isAutoSpacing() return self.auto_spacing end
function File:hasError() return self.failed end
function File:isReadable() return self.stream ~= nil and self.mode ~= "w" end
function File:isWritable() return self.stream ~= nil and self.mode ~= "r" end
function File:isOpened() return self.stream ~= nil end
function File.isLittleEndianCPU() return ("=I2"):pack(1) == ("<I2"):pack(1) end
function File.isBigEndianCPU() return not File.isLittleEndianCPU() end
function File:noBuffer() return self end

function File:longSize(size)
  if size ~= 0 and size ~= 4 and size ~= 8 then
    error(("longSize: 0, 4 or 8 is expected, got %s"):format(tostring(size)), 2)
  end
  self.long_size = size == 0 and 8 or size
  return self
end

-- --- errors and positions -----------------------------------------------------------------------

local function report(self, format, ...)
  self.failed = true
  if not self.is_quiet then error(format:format(...), 0) end
end

local function open_stream(self, writes)
  if not self.stream then error("attempt to use a closed file", 0) end
  if writes and self.mode == "r" or not writes and self.mode == "w" then
    error(("attempt to %s a file that is open for %s only"):format(
      writes and "write in" or "read in", writes and "reading" or "writing"), 0)
  end
  return self.stream
end

function File:seek(position)
  if not self.stream then error("attempt to use a closed file", 0) end
  if position < 1 then error("seek: a position is at least 1", 0) end
  if not self.stream:seek(math.tointeger(position) - 1) then
    report(self, "unable to seek to position %d", math.tointeger(position))
  end
  return self
end

function File:seekEnd() self.stream:seek_end() return self end
function File:position() return self.stream:tell() + 1 end
function File:synchronize() self.stream:flush() return self end

function File:close()
  if self.stream then self.stream:close() end
  self.stream = nil
end

-- --- reading ------------------------------------------------------------------------------------

-- The next word of a text, or nil at its end. What ends it is left to be read.
local function word(stream)
  local out, c = {}, stream:read(1)
  while c:find "^%s" do c = stream:read(1) end
  while c ~= "" and not c:find "^%s" do
    out[#out + 1] = c
    c = stream:read(1)
  end
  if c ~= "" then stream:seek(stream:tell() - 1) end
  return #out > 0 and table.concat(out) or nil
end

-- Passes the end of a line that stands behind each group.
local function end_group(self, count)
  if self.is_binary or not self.auto_spacing or count == 0 then return end
  local c = self.stream:read(1)
  if c ~= "\n" and c ~= "" then self.stream:seek(self.stream:tell() - 1) end
end

local function width_of(self, name)
  return name == "Long" and self.long_size or storages.metatables[types.DTYPES[name]].__width
end

local function short(self, got, count)
  report(self, "read error: read %d blocks instead of %d", got, count)
end

-- The bytes of `count` elements, fewer at the end of the file.
local function element_bytes(self, name, count)
  local width = width_of(self, name)
  if count < 0 or count > math.maxinteger // width then
    error(("read%s: %d is no number of elements"):format(name, count), 0)
  end
  local bytes = open_stream(self, false):read(count * width)
  local whole = #bytes // width
  if whole < count then
    short(self, whole, count)
    bytes = bytes:sub(1, whole * width)
  end
  return bytes, whole
end

local function read_words(self, count)
  local stream, out = open_stream(self, false), {}
  for i = 1, count do
    local text = word(stream)
    local value = text and (tonumber(text) or WORDS[text:lower()])
    if not value then
      short(self, i - 1, count)
      break
    end
    out[i] = value
  end
  return out
end

-- `count` elements as a native tensor of the type's dtype.
local function read_elements(self, name, count)
  local dtype = types.DTYPES[name]
  local out
  if self.is_binary or name == "Byte" or name == "Char" then
    local bytes = element_bytes(self, name, count)
    local narrow = name == "Long" and self.long_size == 4
    if self.order == ">" then
      bytes = bytes:gsub(("."):rep(width_of(self, name)), string.reverse)
    end
    out = ml.from_bytes(bytes, narrow and "int32" or dtype)
    if narrow then out = out:to "int64" end
  else
    out = ml.tensor(read_words(self, count), { dtype = dtype })
  end
  end_group(self, count)
  return out
end

local function read_one(self, name)
  local value
  if self.is_binary or name == "Byte" or name == "Char" then
    local bytes, count = element_bytes(self, name, 1)
    if count == 0 then return 0 end
    if name == "Half" then return ml.from_bytes(bytes, "float16"):item() end
    local format = name == "Long" and "i" .. self.long_size or FORMATS[name][1]
    value = (self.order .. format):unpack(bytes)
  else
    value = read_words(self, 1)[1] or 0
    if not types.is_floating(types.DTYPES[name]) then value = math.tointeger(value) or 0 end
  end
  end_group(self, 1)
  return value
end

local function reader(name)
  local dtype = types.DTYPES[name]
  return function(self, what)
    if what == nil then return read_one(self, name) end
    if type(what) == "number" then
      local made = read_elements(self, name, math.tointeger(what))
      return storages.wrap(made, dtype)
    end
    local made = read_elements(self, name, #what)
    local count = made:numel()
    if count > 0 then storages.tensor(what):narrow(1, 1, count):copy_(made) end
    return count
  end
end

-- --- writing ------------------------------------------------------------------------------------

local function put(self, text)
  if not open_stream(self, true):write(text) then report(self, "write error") end
end

local function packed(self, name, tensor)
  if name == "Long" and self.long_size == 4 then tensor = tensor:to "int32" end
  local bytes = tensor:to_bytes()
  if self.order == ">" then
    bytes = bytes:gsub(("."):rep(width_of(self, name)), string.reverse)
  end
  return bytes
end

local function write_elements(self, name, storage)
  local count = #storage
  if count == 0 then return 0 end
  local tensor = storages.tensor(storage)
  if self.is_binary or name == "Byte" or name == "Char" then
    put(self, packed(self, name, tensor))
  else
    local out, format = {}, FORMATS[name][2]
    for i, value in ipairs(tensor:tolist()) do out[i] = format:format(value) end
    put(self, table.concat(out, self.auto_spacing and " " or ""))
  end
  if not self.is_binary and self.auto_spacing then put(self, "\n") end
  return count
end

local function write_one(self, name, value)
  local dtype = types.DTYPES[name]
  value = types.number(value, dtype)
  if self.is_binary or name == "Byte" or name == "Char" then
    if name == "Half" then
      put(self, ml.tensor({ value }, { dtype = dtype }):to_bytes())
    else
      local long = name == "Long" and "i" .. self.long_size
      put(self, (self.order .. (long or FORMATS[name][1])):pack(value))
    end
  else
    put(self, FORMATS[name][2]:format(value))
  end
  if not self.is_binary and self.auto_spacing then put(self, "\n") end
  return 1
end

local function writer(name)
  return function(self, what)
    if type(what) == "number" then return write_one(self, name, what) end
    if class.typename(what) ~= "torch." .. name .. "Storage" then
      error(("write%s: a number or a torch.%sStorage is expected"):format(name, name), 2)
    end
    return write_elements(self, name, what)
  end
end

for _, name in ipairs(types.NAMES) do
  File["read" .. name], File["write" .. name] = reader(name), writer(name)
end

function File:readBool() return self:readInt() == 1 end
function File:writeBool(value) self:writeInt(value and 1 or 0) end

--- What is left of the file ("*a") or a line ("*l").
function File:readString(format)
  local stream, out = open_stream(self, false), {}
  if format ~= "*a" and format ~= "*l" then
    error("readString: format must be '*a' or '*l'", 2)
  end
  while true do
    local text = stream:read(format == "*a" and 65536 or 1)
    if text == "" or format == "*l" and text == "\n" then
      if text == "" and #out == 0 then short(self, 0, 1) end
      break
    end
    out[#out + 1] = text
  end
  return table.concat(out)
end

function File:writeString(text)
  put(self, text)
  return #text
end

-- The bytes of `count` characters, and what writes a string's.
function File:read_chars(count)
  local bytes = element_bytes(self, "Char", count)
  end_group(self, count)
  return bytes
end

function File:write_chars(text)
  put(self, text)
  if not self.is_binary and self.auto_spacing and #text > 0 then put(self, "\n") end
end

-- --- kinds --------------------------------------------------------------------------------------

local function check_mode(mode, name)
  if mode ~= "r" and mode ~= "w" and mode ~= "rw" then
    error(("%s: file mode should be 'r', 'w' or 'rw', got '%s'"):format(name, tostring(mode)), 0)
  end
end

local function opened(name, kind, open)
  local function make(path, mode, quiet)
    mode = mode or "r"
    check_mode(mode, name)
    local stream, reason = open(path, mode)
    if not stream then
      if quiet then return nil end
      error(("cannot open <%s> in mode %s: %s"):format(tostring(path), mode, tostring(reason)), 0)
    end
    return prepared(class.getmetatable(name), stream, path, mode, quiet)
  end
  local mt = class.newmetatable(name, "torch.File", make, nil, namespace)
  function mt:__tostring__()
    return ("%s on <%s> [status: %s -- mode %s]"):format(name, self.name,
      self.stream and "open" or "closed", self.mode)
  end
  mt.__kind = kind
end

opened("torch.DiskFile", "file", streams.disk)
opened("torch.PipeFile", "pipe", streams.pipe)

local Memory
local function make_memory(first, second)
  local storage, mode = nil, first or "rw"
  if class.typename(first) == "torch.CharStorage" then storage, mode = first, second or "rw" end
  check_mode(mode, "torch.MemoryFile")
  local text = ""
  if storage then
    text = storage:string()
    if text:sub(-1) ~= "\0" then
      error("torch.MemoryFile: the storage does not end with a zero byte", 0)
    end
    text = text:sub(1, -2)
  end
  local out = prepared(Memory, streams.memory(text), "memory", mode)
  out.kept = storage
  return out
end
Memory = class.newmetatable("torch.MemoryFile", "torch.File", make_memory, nil, namespace)

--- The bytes as a torch.CharStorage, with a zero byte behind them.
function Memory:storage()
  self.kept = self.kept or namespace.CharStorage()
  return self.kept:string(self.stream:join() .. "\0")
end

function Memory:close()
  if self.kept then self:storage() end
  File.close(self)
end

function Memory:__tostring__()
  return ("torch.MemoryFile [status: %s -- mode %s]"):format(self.stream and "open" or "closed",
    self.mode)
end

return File
