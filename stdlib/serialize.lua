-- stdlib/serialize.lua: ml.save and ml.load: which format a file has, by its bytes and its name,
-- and the module of stdlib/files/ that reads or writes it.

local Source = require "moonlet.files.source"
local kinds = require "moonlet.files.kinds"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local serialize = {}

-- --- saving -----------------------------------------------------------------------------------

local read_save = signature("save(string path, any value, table? metadata=nil, "
  .. "bool compressed=false, int|string? max_shard_size=nil)")

-- A value is a table of names itself: an empty one behind it keeps it from being read as arguments
-- by name. The metadata that `ml.load` returned behind its value are saved.
local function save_arguments(path, value, given, ...)
  if value == nil and given == nil then return path end
  if signature.asides[given] then given = { metadata = given } end
  return path, value, given or {}, ...
end

-- Runs `f`, whose errors then say that they are of `op`, and in a file.
local function under(op, path, f, ...)
  local results = table.pack(pcall(f, ...))
  if results[1] then return table.unpack(results, 2, results.n) end
  local reason = Source.reason(results[2])
  if reason:find("^" .. op .. ": ") then fail("%s", reason) end
  if reason:find("^[^\n]*" .. op .. ": ") then error(reason, 0) end
  fail("%s: '%s': %s", op, path, reason)
end

local function check_table(path, value)
  if type(value) ~= "table" then
    fail("save: a table of tensors is expected for '%s', got %s", path,
      ml.is_tensor(value) and "a tensor" or type(value))
  elseif getmetatable(value) ~= nil then
    fail("save: this is an object; save its state_dict()")
  end
end

local writers = {}

function writers.safetensors(path, value, given)
  check_table(path, value)
  require("moonlet.files.safetensors").write(path, value, given.metadata,
    given.max_shard_size)
end

function writers.torch(path, value)
  if type(value) == "table" and getmetatable(value) ~= nil then
    fail("save: this is an object; save its state_dict()")
  end
  under("save", path, require("moonlet.files.torch_writer").write, path, value)
end

function writers.npy(path, value)
  under("save", path, require("moonlet.files.numpy").write, path, value)
end

function writers.npz(path, value, given)
  under("save", path, require("moonlet.files.numpy").write_archive, path, value, given.compressed)
end

-- The options that each format takes.
local TAKES = { safetensors = { metadata = true, max_shard_size = true },
  npz = { compressed = true } }

local function check_options(path, kind, given)
  for _, name in ipairs { "metadata", "compressed", "max_shard_size" } do
    if given[name] and not (TAKES[kind] or {})[name] then
      fail("save: '%s': '%s' is not for %s", path, name, kinds.titles[kind])
    end
  end
end

--- Writes a value to a file, whole or not at all, in the format that the end of its name says, or
--- else as safetensors:
---
--- `.safetensors`: tensors by name; nested tables of tensors, numbers, strings and booleans work
--- too: `ml.save(path, { model = net:state_dict(), epoch = 3 })`. Option `metadata`: a table of
--- strings to store beside them. Option `max_shard_size`: bytes, or text such as "5GB"; tensors
--- that are more go to several files, `NAME-00001-of-00003.safetensors` and so on, and which is in
--- which stands in `NAME.safetensors.index.json`.
---
--- `.pt`, `.pth`: what `torch.load` reads, also with `weights_only=True`: a tensor, or nested
--- tables of tensors, numbers, strings and booleans. A table whose keys are 1 to n is a list in
--- Python, or a tuple if `ml.tuple` made it; another one is a dict, in the order of `ml.items`.
--- Tensors that share memory, and tables that stand at two positions, go on doing so; strides are
--- kept.
---
--- `.npy`, `.npz`: what NumPy reads: a tensor, and tensors by name. Option `compressed` (false),
--- for `.npz`, is `numpy.savez_compressed`.
---
--- What `ml.load` returns is saved as it is by `ml.save(path, ml.load(other))`.
--- > path = os.tmpname() .. ".safetensors"
--- > ml.save(path, { w = ml.tensor { 1.0, 2.0 } })
--- > ml.load(path).w
---   {1., 2.}
---   Tensor (2,) float32
---@param path string the file; the end of its name says the format
---@param value any a tensor, or a table of tensors by name, nested where the format allows it
---@param metadata? table<string, string> strings by name to store beside the tensors, for
---   safetensors
---@param compressed? boolean whether an `.npz` file is compressed
---@param max_shard_size? integer|string bytes, or text such as "5GB", beyond which safetensors
---   go to several files
function serialize.save(...)
  local path, value, metadata, compressed, most = read_save(save_arguments(...))
  if value == nil then fail("save: 'value' is missing") end
  local kind = kinds.of_name(path) or "safetensors"
  local given = { metadata = metadata and next(metadata) and metadata or nil,
    compressed = compressed or nil, max_shard_size = most }
  if kind == "onnx" then
    fail("save: '%s': ml.onnx.export writes ONNX models, from a module and its arguments", path)
  elseif kind == "program" then
    fail("save: '%s': a program is written by program:save", path)
  elseif not writers[kind] then
    fail("save: '%s': %s can be read, not written", path, kinds.titles[kind])
  end
  check_options(path, kind, given)
  writers[kind](path, value, given)
end

-- --- loading ----------------------------------------------------------------------------------

local read_load = signature('load(string path, string device="cpu", bool mmap=false, '
  .. "string? map_location=nil, string? dtype=nil, int>=1? max_bytes=nil)")

-- All tensors of a value on another device; those that are one stay one.
local function moved(value, device, seen)
  if seen[value] == nil then
    if ml.is_tensor(value) then
      seen[value] = value:to(device)
    elseif type(value) == "table" then
      seen[value] = value
      for key, item in pairs(value) do value[key] = moved(item, device, seen) end
    end
  end
  if seen[value] ~= nil then return seen[value] end
  return value
end

-- The entries of a zip archive show what it is.
local function read_zip(file)
  local entries, names = require("moonlet.files.zip").entries(file)
  for _, name in ipairs(names) do
    local folder = name:match "^([^/]*/)data%.pkl$" or name == "data.pkl" and ""
    if folder then return require("moonlet.files.torch").read(file, entries, folder) end
  end
  for _, name in ipairs(names) do
    if name:find "%.npy$" then
      return require("moonlet.files.numpy").read_archive(file, entries, names)
    end
  end
  if #names == 0 and file.path:lower():find "%.npz$" then return {} end
  error("it is a zip archive with neither a pickle of torch.save nor arrays of NumPy", 0)
end

local readers = { torch = read_zip, zip = read_zip, npz = read_zip }
function readers.torch7(file) return require("moonlet.files.torch7").read(file) end
function readers.gguf(file, dtype)
  return require("moonlet.files.gguf").read(file, dtype or "float32")
end
function readers.npy(file) return require("moonlet.files.numpy").read(file) end
function readers.safetensors(file) return require("moonlet.files.safetensors").read(file) end
function readers.onnx(file) return require("moonlet.onnx.load").read(file) end
function readers.program(file)
  return require("moonlet.program")._load(file.path, file.budget.given)
end
function readers.legacy(file) return require("moonlet.files.torch").read_legacy(file) end

-- The files of an index are safetensors, or of torch.save.
local function read_shard(path, mmap, max_bytes)
  local file = Source.open(path, mmap, nil, max_bytes)
  local kind = kinds.of_bytes(file:some(0, 512))
  if kind ~= "safetensors" and kind ~= "zip" then
    fail("load: '%s': this is neither a safetensors file nor one of torch.save", path)
  end
  return under("load", path, readers[kind], file)
end

function readers.index(file)
  return require("moonlet.files.safetensors").read_index(file, function(path)
    return read_shard(path, file.mapped ~= nil, file.budget.given)
  end)
end

-- The formats that a name may stand for beside the one of its own.
local ALSO = { torch = { zip = true, legacy = true }, npz = { zip = true },
  safetensors = { program = true }, program = { safetensors = true } }

-- Fails when a file is none that can be read, or another than its name says.
local function kind_of(file, path)
  local head = file:some(0, 512)
  local kind, other, reader = kinds.of_bytes(head)
  local named = kinds.of_name(path)
  if other and named ~= "index" then
    fail("load: '%s': this is %s%s", path, other, reader and (", which %s reads"):format(reader)
      or "")
  elseif kind and named and kind ~= named and not (ALSO[named] or {})[kind] then
    fail("load: '%s': this is %s, not %s", path, kinds.titles[kind], kinds.titles[named])
  end
  if named == "program" and kind == "safetensors" then return named end
  return kind or named or "safetensors"
end

-- Says which tensors of a file are left out, and why.
local function warn_of(path, left_out)
  signature.asides[left_out] = true
  local names = {}
  for name in pairs(left_out) do names[#names + 1] = name end
  table.sort(names)
  local what = names[1] == "" and "the whole" or ("'%s'"):format(names[1])
  local text = ("load: '%s': %s is left out: %s"):format(path, what, left_out[names[1]])
  if #names > 1 then text = ("%s; and %d more"):format(text, #names - 1) end
  ml._warn_once("load " .. path, text)
end

local FLOATS = { float16 = true, bfloat16 = true, float32 = true, float64 = true }

local function check_dtype(path, kind, dtype)
  if dtype == nil then return end
  if kind ~= "gguf" then
    fail("load: '%s': 'dtype' is for quantised tensors of GGUF files, not for %s", path,
      kinds.titles[kind])
  elseif not FLOATS[dtype] then
    fail("load: 'dtype' must be float16, bfloat16, float32 or float64, got %s", dtype)
  end
end

--- Reads a file that `ml.save` wrote, or another program: the value, and the metadata, which
--- `net:load_state_dict(ml.load(path))` leaves aside. What a file is is seen in its bytes:
---
--- safetensors: a table of tensors, or the nested tables that were saved. Of a model in several
--- files, the index, `NAME.safetensors.index.json`.
---
--- What PyTorch's `torch.save` wrote: tensors, parameters, numbers and strings in dicts, lists,
--- tuples and sets, which become tables (None is nil; `ml.items` has the order of a dict,
--- `ml.is_tuple` says what was a tuple, and `ml.save` writes them as they were); NumPy's arrays and
--- scalars. Sparse and quantised tensors become dense ones, integers of more than 64 bits floats, a
--- module its state dict. Nothing in such a file is run, and objects of other classes are left out.
---
--- What Torch7's `torch.save` wrote, binary or as text: objects, as modules of its nn, are tables
--- of their fields whose `__typename` is the name of their class; storages are storages, and whole
--- numbers integers. Functions are left out.
---
--- NumPy's `.npy`: a tensor; `.npz`: tensors by name.
---
--- A program that `program:save` wrote: the program.
---
--- GGUF: tensors by name, quantised ones as floats of the option `dtype` ("float32"); the metadata
--- are numbers, booleans, strings and arrays of them.
---
--- ONNX: the module that `ml.onnx.load` makes; the metadata are the entries of `metadata_props`,
--- with `producer_name`, `doc_string` and what else the file says about itself.
---
--- Dtypes that do not exist here become wider ones: float8_e4m3fnuz, float8_e5m2fnuz and
--- float8_e8m0fnu float32. What cannot be read does not keep the rest from being read: a third
--- result says by name what was left out and why ("args" or "a/b/1" in nested tables), and there is
--- a warning.
---
--- Options: `device`, or under PyTorch's name `map_location`, where the tensors go ("cpu"); `mmap`
--- (false), true to map the file instead of copying it: loading is instant and memory is used as
--- tensors are read, but who writes into the file changes the tensors, and reading what was cut off
--- the file ends the process. `ml.save` to the same path is safe, as it makes a new file. Changes
--- to the tensors stay in this process. `max_bytes`: what tensors and values of the file may take;
--- a file may come from anybody, so this is 512 MiB, or 256 times the file's size where that is
--- more, unless it is given.
--- > path = os.tmpname() .. ".npy"
--- > ml.save(path, ml.tensor { 1.0, 2.0 })
--- > ml.load(path)
---   {1., 2.}
---   Tensor (2,) float32
---   {}
---   nil
---@param path string the file; its bytes say the format
---@param device? string the device of the tensors
---@param mmap? boolean whether the file is mapped instead of copied
---@param map_location? string PyTorch's name of `device`
---@param dtype? string the dtype of quantised tensors of a GGUF file; float32 unless given
---@param max_bytes? integer what tensors and values may take; 512 MiB, or 256 times the file,
---   unless given
---@return any value
---@return table metadata
---@return table<string, string>? left_out
function serialize.load(...)
  local path, device, mmap, map_location, dtype, max_bytes = read_load(...)
  if map_location and device ~= "cpu" then
    fail("load: 'device' and 'map_location' are two names of one option")
  end
  device = map_location or device
  local file = Source.open(path, false, "load", max_bytes)
  local kind = under("load", path, kind_of, file, path)
  check_dtype(path, kind, dtype)
  if mmap then file = Source.open(path, true, "load", max_bytes) end
  local value, metadata, left_out = under("load", path, readers[kind], file, dtype)
  metadata = metadata or {}
  signature.asides[metadata] = true
  if left_out then warn_of(path, left_out) end
  if device ~= "cpu" and kind == "program" then
    fail("load: '%s': a program stays on the device it was exported on", path)
  elseif device ~= "cpu" then
    value = kind == "onnx" and value:to(device) or moved(value, device, {})
  end
  return value, metadata, left_out
end

-- --- strings ----------------------------------------------------------------------------------

local with_memory_file = require("moonlet.io").with_memory_file

local read_save_string = signature('save_string(string format, any value, table? metadata=nil, '
  .. "bool compressed=false)")
local read_load_string = signature('load_string(string bytes, string device="cpu", '
  .. 'string? map_location=nil, string? dtype=nil, int>=1? max_bytes=nil, string? format=nil)')

-- Runs `f` on a file in memory; what it says of `op` and that file is said of the function for
-- strings.
local function in_memory(op, path, bytes, f, ...)
  local results = table.pack(pcall(with_memory_file, path, bytes, f, ...))
  if results[1] then return table.unpack(results, 2, results.n) end
  local message = results[2]
  if type(message) == "string" then
    message = message:gsub(op .. ": '%(string%)[^']*':", op .. "_string:", 1)
      :gsub("^(.-)" .. op .. ": ", "%1" .. op .. "_string: ", 1)
  end
  error(message, 0)
end

local WRITTEN = { safetensors = true, pt = true, npy = true, npz = true, program = true }

-- A program is written by its own method, as it is an object.
local function write_program(path, value, given)
  local is_program = require("moonlet.program")._is_program(value)
  if not is_program or next(given.metadata or {}) or given.compressed then
    fail('save_string: for the format "program" a program alone is expected, got %s',
      is_program and "options" or signature.describe(value))
  end
  value:save(path)
end

--- The bytes that `ml.save` would write to a file of that format: for a message, a database, a
--- host. `ml.load_string` reads them.
--- > bytes = ml.save_string("npy", ml.tensor { 1.0, 2.0 })
--- > ml.load_string(bytes)
---   {1., 2.}
---   Tensor (2,) float32
---   {}
---   nil
---@param format string "safetensors", "pt", "npy", "npz" or "program"
---@param value any a tensor, or a table of tensors by name, nested where the format allows it; for
---   "program" a program
---@param metadata? table<string, string> strings by name to store beside the tensors, for
---   safetensors
---@param compressed? boolean whether the arrays of "npz" are compressed
---@return string bytes
---@error the format is none of these, or cannot hold the value
function serialize.save_string(...)
  local format, value, metadata, compressed = read_save_string(save_arguments(...))
  if not WRITTEN[format] then
    fail('save_string: expected the format "safetensors", "pt", "npy", "npz" or "program", got '
      .. '"%s"', format)
  end
  local path = "(string)." .. format
  local write = format == "program" and write_program or serialize.save
  return (in_memory("save", path, nil, write, path, value,
    { metadata = metadata, compressed = compressed }))
end

--- The value that the bytes of a file hold, as `ml.load` reads it of a file with these bytes, and
--- the metadata.
--- > ml.load_string(ml.save_string("safetensors", { w = ml.ones(2) })).w
---   {1., 1.}
---   Tensor (2,) float32
---@param bytes string those of a file of any format that `ml.load` reads
---@param device? string the device of the tensors
---@param map_location? string PyTorch's name of `device`
---@param dtype? string the dtype of quantised tensors of a GGUF file; float32 unless given
---@param max_bytes? integer what tensors and values may take; 512 MiB, or 256 times the bytes,
---   unless given
---@param format? string what they are, as the ending of a file's name says it ("t7"): texts of
---   Torch7 do not show it
---@return any value
---@return table metadata
---@return table<string, string>? left_out
---@error the bytes are damaged or of a format that is not known
function serialize.load_string(...)
  local bytes, device, map_location, dtype, max_bytes, format = read_load_string(...)
  local path = format and "(string)." .. format or "(string)"
  if format and not kinds.of_name(path) then
    fail('load_string: expected a format that ml.load reads, such as "pt" or "t7", got "%s"',
      format)
  end
  return select(2, in_memory("load", path, bytes, serialize.load, path,
    { device = device, map_location = map_location, dtype = dtype, max_bytes = max_bytes }))
end

local read_read_string = signature("read_string(string bytes, function read)")

--- What a function that reads a file makes of its bytes, which need not be in one: the results of
--- `read(path, ...)`, for which there is a file of that path in memory. For pictures, sounds, CSV
--- files and what else `ml.load_string` does not read.
--- > bytes = "a,b\n1,2\n3,4\n"
--- > ml.read_string(bytes, ml.data.read_csv, { header = true }).shape
---   (2, 2)
---@param bytes string those of the file
---@param read fun(path: string, ...): any... a function that reads a file, as `ml.data.read_image`
---@param ... any its other arguments
---@return any ... what it returns
function serialize.read_string(bytes, read, ...)
  bytes, read = read_read_string(bytes, read)
  return select(2, with_memory_file("(string)", bytes, read, "(string)", ...))
end

local read_write_string = signature('write_string(function write, string ending="")')

--- The bytes that a function writes to a file: `write(path)` is called with a path whose file is
--- kept in memory. For pictures, sounds, CSV files and what else `ml.save_string` does not write.
--- > image = ml.zeros { 3, 2, 2, dtype = ml.uint8 }
--- > bytes = ml.write_string(function(path) ml.data.write_png(image, path) end)
--- > ml.read_string(bytes, ml.data.read_image).shape
---   (3, 2, 2)
---@param write fun(path: string) writes that file, whole
---@param ending? string what the path ends with, where that says the format: ".npz"
---@return string bytes
---@error the function writes no file of that path
function serialize.write_string(...)
  local write, ending = read_write_string(...)
  local path = "(string)" .. ending
  local bytes = with_memory_file(path, nil, write, path)
  if not bytes then
    fail("write_string: the function has written no file of the path '%s'", path)
  end
  return bytes
end

return options.namespace("serialize", serialize)
