-- stdlib/files/gguf.lua: reads GGUF files, versions 2 and 3: metadata of all types, and tensors,
-- quantised ones as floats. Format: docs/gguf.md of ggml.

local Budget = require "moonlet.files.budget"
local Cursor = require "moonlet.files.cursor"
local Source = require "moonlet.files.source"
local blocks = require "moonlet.files.ggml_blocks"
local ml = require "moonlet"

local gguf = {}

local function fail(format, ...) error(format:format(...), 0) end

-- Types of tensors whose elements are those of a dtype.
local PLAIN = { [0] = "float32", [1] = "float16", [24] = "int8", [25] = "int16", [26] = "int32",
  [27] = "int64", [28] = "float64", [30] = "bfloat16" }

-- Types of metadata that are numbers: a format and its bytes.
local NUMBERS = { [0] = { "<B", 1 }, { "<i1", 1 }, { "<I2", 2 }, { "<i2", 2 }, { "<I4", 4 },
  { "<i4", 4 }, { "<f", 4 }, [10] = { "<I8", 8 }, [11] = { "<i8", 8 }, [12] = { "<d", 8 } }
local UNSIGNED_64, BOOL, STRING, ARRAY = 10, 7, 8, 9

local MOST_DEPTH, MOST_DIMS = 8, 8
-- What is noted of a tensor, in tables.
local ENTRY_BYTES = 8 * Budget.KEY
-- The elements that are made floats at once, and the numbers that are unpacked at once.
local MOST_AT_ONCE, GROUP = 1 << 18, 64

-- --- the head ---------------------------------------------------------------------------------

local function length(cursor)
  local value = cursor:number("<i8", 8)
  if value < 0 or value > cursor.file.size then fail "the file is cut off" end
  return value
end

local function text(cursor)
  local size = length(cursor)
  cursor.file.budget:take_string(size)
  return cursor:chars(size)
end

local value_of

-- As many numbers of an array as can be unpacked at once; the rest is read one by one.
local function groups_of(cursor, kind, count, out)
  local format, width = NUMBERS[kind][1]:sub(2), NUMBERS[kind][2]
  local whole = "<" .. format:rep(GROUP)
  for from = 1, count - GROUP + 1, GROUP do
    table.move({ whole:unpack(cursor:chars(GROUP * width)) }, 1, GROUP, from, out)
  end
  return count - count % GROUP
end

local function array(cursor, depth)
  if depth > MOST_DEPTH then fail "its metadata nest too deeply" end
  local kind, count, out, first = cursor:number("<I4", 4), length(cursor), {}, 0
  cursor.file.budget:take(Budget.TABLE + Budget.ITEM * count)
  if NUMBERS[kind] and kind ~= UNSIGNED_64 then first = groups_of(cursor, kind, count, out) end
  for i = first + 1, count do out[i] = value_of(cursor, kind, depth + 1) end
  return out
end

function value_of(cursor, kind, depth)
  local number = NUMBERS[kind]
  if number then
    local value = cursor:number(number[1], number[2])
    if kind == UNSIGNED_64 and value < 0 then value = value + 2.0 ^ 64 end
    return value
  elseif kind == BOOL then
    return cursor:chars(1) ~= "\0"
  elseif kind == STRING then
    return text(cursor)
  elseif kind == ARRAY then
    return array(cursor, depth)
  end
  fail("metadata have the type %d, which is not known", kind)
end

local function metadata_of(cursor, count)
  local out = {}
  for _ = 1, count do
    cursor.file.budget:take(Budget.KEY)
    local key = text(cursor)
    if out[key] ~= nil then fail("the metadata '%s' come twice", key) end
    out[key] = value_of(cursor, cursor:number("<I4", 4), 1)
  end
  return out
end

-- What is said of a tensor. Its sizes stand in the other order, the one of rows first.
local function entry_of(cursor)
  cursor.file.budget:take(ENTRY_BYTES)
  local entry = { name = text(cursor), shape = {} }
  local rank = cursor:number("<I4", 4)
  if rank > MOST_DIMS then fail("'%s' has %d dimensions", entry.name, rank) end
  for i = rank, 1, -1 do entry.shape[i] = cursor:number("<i8", 8) end
  entry.kind, entry.offset = cursor:number("<I4", 4), cursor:number("<i8", 8)
  return entry
end

local function entries_of(cursor, count)
  local entries, seen = {}, {}
  for i = 1, count do
    entries[i] = entry_of(cursor)
    if seen[entries[i].name] then fail("the tensor '%s' comes twice", entries[i].name) end
    seen[entries[i].name] = true
  end
  return entries
end

-- --- tensors ----------------------------------------------------------------------------------

-- The elements of quantised blocks, some at a time.
local function dequantised(file, at, count, kind, dtype)
  local size, width, floats = kind[2], kind[3], kind[4]
  file.budget:take(count * size * Source.width(dtype) + Budget.TENSOR)
  local out = ml.empty({ count, size }, { dtype = dtype })
  local step = MOST_AT_ONCE // size
  for from = 0, count - 1, step do
    local n = math.min(step, count - from)
    local part = file:tensor(at + from * width, n * width, "uint8"):view(n, width)
    out:narrow(1, from + 1, n):copy_(floats(part))
  end
  return out
end

-- The bytes of a tensor and the function that reads them, or nothing where its type is not known.
local function position_of(entry, available)
  local plain, kind = PLAIN[entry.kind], blocks.types[entry.kind]
  if plain then
    local size = Source.count(entry.shape, plain, available) * Source.width(plain)
    return size, function(file, at) return file:tensor(at, size, plain) end
  elseif kind then
    -- Fewer elements than this fit, so that their number is one.
    local count = Source.count(entry.shape, "uint8", available // kind[3] * kind[2])
    local row = entry.shape[#entry.shape] or 1
    if row % kind[2] ~= 0 then fail("'%s' has rows of %d %s", entry.name, row, kind[1]) end
    return count // kind[2] * kind[3], function(file, at, dtype)
      return dequantised(file, at, count // kind[2], kind, dtype)
    end
  end
end

local function read_tensors(file, entries, start, dtype)
  local tensors, left_out, available = {}, {}, file.size - start
  for _, entry in ipairs(entries) do
    local size, read = position_of(entry, file.size - start)
    if read then
      -- Tensors have bytes of their own, or a small file could stand for very many.
      available = available - size
      local fits = entry.offset >= 0 and size <= file.size - start - entry.offset
      if not fits or available < 0 then
        fail("the bytes of '%s' are not in the file", entry.name)
      end
      tensors[entry.name] = read(file, start + entry.offset, dtype):reshape(entry.shape)
    else
      left_out[entry.name] = ("its type %s is not known here"):format(blocks.others[entry.kind]
        or entry.kind)
    end
  end
  return tensors, next(left_out) and left_out or nil
end

--- The tensors of a file by name, its metadata, and why tensors are left out, if any are. Quantised
--- tensors get the dtype given.
---@param file table a moonlet.files.source
---@param dtype string
---@return table<string, Tensor>
---@return table<string, any>
---@return table<string, string>?
function gguf.read(file, dtype)
  local cursor = Cursor.new(file, 4)
  local version = cursor:number("<I4", 4)
  if version == 2 << 24 or version == 3 << 24 then fail "its numbers are big-endian" end
  if version ~= 2 and version ~= 3 then fail("version %d of GGUF is not known", version) end
  local count, texts = length(cursor), length(cursor)
  local metadata = metadata_of(cursor, texts)
  local entries = entries_of(cursor, count)
  local align = metadata["general.alignment"] or 32
  if math.type(align) ~= "integer" or align < 1 or align > 1 << 20 then
    fail "its alignment is damaged"
  end
  local start = (cursor.at + align - 1) // align * align
  if start > file.size and count > 0 then fail "the file is cut off" end
  local tensors, left_out = read_tensors(file, entries, math.min(start, file.size), dtype)
  return tensors, metadata, left_out
end

return gguf
