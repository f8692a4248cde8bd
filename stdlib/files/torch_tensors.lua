-- stdlib/files/torch_tensors.lua: what a pickle of torch.save calls to make tensors: dense ones on
-- the storages of the file, sparse and quantised ones, which become dense floats here, and
-- parameters.

local Budget = require "moonlet.files.budget"
local Source = require "moonlet.files.source"
local foreign = require "moonlet.files.foreign"
local ml = require "moonlet"
local pickle_numpy = require "moonlet.files.pickle_numpy"
local python = require "moonlet.files.python"

local torch_tensors = {}

local function fail(format, ...) error(format:format(...), 0) end

-- Python's names of storages and of dtypes.
local STORAGES = { FloatStorage = "float32", DoubleStorage = "float64", HalfStorage = "float16",
  BFloat16Storage = "bfloat16", LongStorage = "int64", IntStorage = "int32", ShortStorage = "int16",
  CharStorage = "int8", ByteStorage = "uint8", BoolStorage = "bool",
  ComplexFloatStorage = "complex64", ComplexDoubleStorage = "complex128", UntypedStorage = "uint8",
  QInt8Storage = "int8", QUInt8Storage = "uint8", QInt32Storage = "int32" }
local DTYPES = { float = "float32", double = "float64", half = "float16", short = "int16",
  int = "int32", long = "int64", cfloat = "complex64", cdouble = "complex128", chalf = "complex32",
  qint8 = "int8", quint8 = "uint8", qint32 = "int32" }
for _, dtype in pairs(STORAGES) do DTYPES[dtype] = dtype end
for _, dtype in ipairs { "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2" } do
  DTYPES[dtype] = dtype -- PyTorch has no classes of storages for these
end
for _, dtype in ipairs(foreign.names()) do DTYPES[dtype] = dtype end

-- Names of storages whose elements cannot be read: what they hold is left out.
for name, dtype in pairs { QUInt4x2Storage = "quint4x2", QUInt2x4Storage = "quint2x4" } do
  STORAGES[name] = dtype
end

local LAYOUTS = { "strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc" }
local WORDS = { "per_tensor_affine", "per_tensor_symmetric", "per_channel_affine",
  "per_channel_symmetric", "per_channel_affine_float_qparams", "contiguous_format",
  "channels_last", "channels_last_3d", "preserve_format", table.unpack(LAYOUTS) }

-- --- storages ---------------------------------------------------------------------------------

--- What stands for a storage of the file: `key` names its bytes, and `made` holds its elements by
--- dtype, so that tensors on one storage share it. One that is a part of another begins at the
--- element `from` of it.
local Storage = {}
Storage.__index = Storage

local function is_storage(value) return python.stand_in(value) == Storage end

-- The elements of a storage as a dtype, or nothing and why they cannot be read.
local function elements(storage, dtype)
  local whole = storage.whole
  if whole.made[dtype] == nil then
    local value, reason
    if foreign.is_unknown(dtype) then
      reason = ("its dtype %s is not known here"):format(dtype)
    else
      local carrier = foreign.carrier(dtype)
      value = whole.read(whole.key, carrier or dtype)
      if carrier then value = foreign.convert(dtype, value, whole.budget) end
    end
    whole.made[dtype] = { value, reason }
  end
  return table.unpack(whole.made[dtype], 1, 2)
end

-- The memory itself where its dtype is one here.
function Storage:settle()
  if not self.whole.read then return nil, "a storage" end
  local value, reason = elements(self, self.dtype)
  if not value then return nil, "a storage: " .. reason end
  if self.part then value = value:narrow(1, self.from + 1, self.count):clone() end
  return value:storage()
end

-- The part of a storage that old versions of PyTorch name instead of it: its key, where it begins,
-- and its elements.
local function part_of(storage, view)
  local _, from, count = table.unpack(type(view) == "table" and view or {}, 1, 3)
  local whole = math.tointeger(storage.count)
  from, count = math.tointeger(from), math.tointeger(count)
  if not from or not count or not whole or from < 0 or count < 0 or from > whole
    or count > whole - from then
    fail "a storage is damaged"
  end
  storage.from, storage.count, storage.part = from, count, true
  return storage
end

--- What a persistent id says of a storage. `found` has those that were named before, by key;
--- `read(key, dtype)` gives the elements of one.
---@param id any
---@param found table
---@param budget table a moonlet.files.budget
---@param read? fun(key: string, dtype: string): Tensor
---@return table
function torch_tensors.storage(id, found, budget, read)
  local kind, class, key, _, count, view = table.unpack(type(id) == "table" and id or {}, 1, 6)
  local dtype = python.stand_in(class) == python.Global and class.storage
  if kind ~= "storage" or not dtype or type(key) ~= "string" then fail "a storage is damaged" end
  found[key] = found[key]
    or setmetatable({ key = key, made = {}, read = read, budget = budget }, Storage)
  local storage = { whole = found[key], dtype = dtype, count = count, from = 0 }
  setmetatable(storage, Storage)
  return view == nil and storage or part_of(storage, view)
end

--- The key and the dtype that a storage was named by.
---@param storage table
---@return string
---@return string
function torch_tensors.position(storage) return storage.whole.key, storage.dtype end

-- --- dense tensors ----------------------------------------------------------------------------

local function missing(m, reason) return python.object(m.budget, "torch.Tensor", reason) end

local function list_of(m, value)
  return m:length(value) and value or fail "a tensor is damaged"
end

-- The bits of a lazy conjugate and a lazy negative.
local function resolved(m, tensor, metadata)
  if type(metadata) ~= "table" or getmetatable(metadata) ~= nil then return tensor end
  local width = Source.width(tensor.dtype)
  for name, op in pairs { conj = "conj_physical", neg = "neg" } do
    if metadata[name] == true then
      m.budget:take(tensor:numel() * width)
      tensor = tensor[op](tensor)
    end
  end
  return tensor
end

-- The storage, offset, size, stride, whether a gradient is required, hooks, and what PyTorch notes
-- beside.
local function rebuild(file, m, storage, offset, size, stride, requires_grad, dtype, metadata)
  if not is_storage(storage) or not math.tointeger(offset) then fail "a tensor is damaged" end
  local values, reason = elements(storage, dtype or storage.dtype)
  if not values then return missing(m, reason) end
  if storage.part then values = values:narrow(1, storage.from + 1, storage.count) end
  local tensor = file:strided(values, offset, list_of(m, size), list_of(m, stride))
  tensor = resolved(m, tensor, metadata)
  return requires_grad == true and tensor:requires_grad_() or tensor
end

-- What stands for a dtype in a tuple is its name.
local function dtype_of(value)
  return type(value) == "string" and DTYPES[value] or fail "a tensor is damaged"
end

-- --- sparse tensors ---------------------------------------------------------------------------

-- A dense tensor, whose elements are those of `values` at positions that count from 0, and sums of
-- them where there are several.
local function dense_of(m, positions, values, size)
  local sizes, rank = {}, positions:size(1)
  for i = 1, m:length(size) do
    sizes[i] = math.tointeger(size[i]) or fail "a sparse tensor is damaged"
  end
  local width = Source.width(values.dtype)
  local count = Source.count(sizes, values.dtype, math.maxinteger)
  m.budget:take(count * width + 4 * (positions:numel() * 8 + values:numel() * width))
  if values.ndim ~= 1 + #sizes - rank or values:size(1) ~= positions:size(2) then
    fail "a sparse tensor is damaged"
  end
  local out = ml.zeros(sizes, { dtype = values.dtype })
  local indices, index = {}, positions:to "int64" + 1
  for d = 1, rank do
    indices[d] = index[d]
    local fits = indices[d]:ge(1):logical_and(indices[d]:le(sizes[d])):all():item()
    if not fits then fail "a sparse tensor is damaged" end
  end
  if rank == 0 then return values:numel() > 0 and out:add_(values:sum(1)) or out end
  return values:numel() > 0 and out:index_put_(indices, values, { accumulate = true }) or out
end

-- The row of each of the elements of a compressed tensor.
local function rows_of(m, starts, count)
  m.budget:take(8 * (2 * starts:numel() + count))
  local lengths = starts:to("int64"):diff()
  local fits = starts:numel() > 0 and lengths:numel() > 0 and lengths:ge(0):all():item()
    and lengths:sum():item() == count and starts[1]:item() == 0
  local none = count == 0 and starts:numel() == 1
  if not fits and not none then fail "a sparse tensor is damaged" end
  return ml.arange(#lengths):to("int64"):sub(1):repeat_interleave(lengths)
end

-- The layout; and the indices, the values and the size, or for the compressed ones the starts of
-- rows or columns, the indices within them, the values and the size.
local function sparse(m, layout, data)
  local count = m:length(data)
  if not count then fail "a sparse tensor is damaged" end
  local parts = {}
  for i = 1, count do
    parts[i] = data[i]
    if python.stand_in(parts[i]) == python.Object then return parts[i] end
  end
  if layout == "sparse_coo" then
    local indices, values, size = table.unpack(parts, 1, 3)
    local fits = ml.is_tensor(indices) and ml.is_tensor(values) and m:length(size)
      and indices.ndim == 2 and values.ndim >= 1 and indices.dtype == "int64"
      and indices:size(1) <= m:length(size)
    if not fits then fail "a sparse tensor is damaged" end
    return dense_of(m, indices, values, size)
  elseif layout ~= "sparse_csr" and layout ~= "sparse_csc" then
    return missing(m, ("a tensor of the layout %s, which is not known here")
      :format(type(layout) == "string" and layout:sub(1, 20) or "that it names"))
  end
  local starts, within, values, size = table.unpack(parts, 1, 4)
  local fits = ml.is_tensor(starts) and ml.is_tensor(within) and ml.is_tensor(values)
    and m:length(size) and starts.ndim == 1 and within.ndim == 1 and values.ndim >= 1
  if not fits then
    return missing(m, "a batch of compressed sparse tensors, which are not known here")
  end
  local rows, columns = rows_of(m, starts, within:numel()), within:to "int64"
  if layout == "sparse_csc" then rows, columns = columns, rows end
  if m:length(size) < 2 then fail "a sparse tensor is damaged" end
  return dense_of(m, ml.stack { rows, columns }, values, size)
end

-- --- quantised tensors ------------------------------------------------------------------------

-- Numbers of channels as a tensor that fits `rank` dimensions.
local function along(m, values, axis, size)
  if m:length(values) then
    m.budget:take(Budget.TENSOR + 8 * m:length(values))
    values = ml.tensor(values, { dtype = "float64" })
  end
  if not ml.is_tensor(values) or values.ndim ~= 1 or values:numel() ~= size[axis] then
    fail "a quantised tensor is damaged"
  end
  local shape = {}
  for i = 1, #size do shape[i] = i == axis and size[axis] or 1 end
  return values:to("float32"):view(shape)
end

-- The values that quantised ones stand for: (q - zero point) * scale.
local function dequantised(m, tensor, parameters)
  local count = m:length(parameters)
  if not count then fail "a quantised tensor is damaged" end
  local scheme, scale, zero, axis = table.unpack(parameters, 1, 4)
  m.budget:take(3 * 4 * tensor:numel() + 3 * Budget.TENSOR)
  local floats = tensor:to "float32"
  if scheme == "per_tensor_affine" then
    local fits = type(scale) == "number" and type(zero) == "number"
    if not fits then fail "a quantised tensor is damaged" end
    return (floats - zero) * scale
  elseif scheme ~= "per_channel_affine" and scheme ~= "per_channel_affine_float_qparams" then
    fail "a quantised tensor is damaged"
  end
  axis = math.tointeger(axis)
  if not axis or axis < 0 or axis >= floats.ndim then fail "a quantised tensor is damaged" end
  local size = floats.shape:totable()
  scale, zero = along(m, scale, axis + 1, size), along(m, zero, axis + 1, size)
  return (floats - zero) * scale
end

-- --- the names --------------------------------------------------------------------------------

local function add_functions(names, file)
  local function add(name, call) names["torch._utils." .. name] = python.global(name, call) end
  local function v2(m, storage, offset, size, stride, requires_grad, _, metadata)
    return rebuild(file, m, storage, offset, size, stride, requires_grad, nil, metadata)
  end
  add("_rebuild_tensor", function(m, storage, offset, size, stride)
    return v2(m, storage, offset, size, stride)
  end)
  add("_rebuild_tensor_v2", v2)
  add("_rebuild_tensor_v3", function(m, storage, offset, size, stride, requires_grad, _, dtype,
      metadata)
    return rebuild(file, m, storage, offset, size, stride, requires_grad, dtype_of(dtype), metadata)
  end)
  add("_rebuild_sparse_tensor", sparse)
  add("_rebuild_qtensor", function(m, storage, offset, size, stride, parameters, requires_grad)
    local tensor = rebuild(file, m, storage, offset, size, stride)
    if not ml.is_tensor(tensor) then return tensor end
    tensor = dequantised(m, tensor, parameters)
    return requires_grad == true and tensor:requires_grad_() or tensor
  end)
  local function parameter(m, data, requires_grad)
    data = pickle_numpy.tensor(data)
    if python.stand_in(data) then return python.object(m.budget, "torch.nn.parameter.Parameter",
      data.reason or "a parameter without a tensor") end
    if not ml.is_tensor(data) then fail "a parameter is damaged" end
    return data:requires_grad_(requires_grad == true)
  end
  add("_rebuild_parameter", parameter)
  add("_rebuild_parameter_with_state", parameter)
  add("_rebuild_meta_tensor_no_storage", function(m)
    return missing(m, "a tensor on the device meta, which has no elements")
  end)
  add("_rebuild_wrapper_subclass", function(m, class)
    local name = python.stand_in(class) == python.Global and class.name or "that it names"
    return missing(m, "a tensor of the class " .. name .. ", which has no elements of its own")
  end)
  add("_rebuild_nested_tensor", function(m)
    return missing(m, "a nested tensor, which is not known here")
  end)
  local function converted(m, data, dtype, _, requires_grad)
    data = pickle_numpy.tensor(data)
    if not ml.is_tensor(data) then
      return python.stand_in(data) and data or missing(m, "a tensor without elements")
    end
    local name = dtype_of(dtype)
    if foreign.carrier(name) or foreign.is_unknown(name) then name = data.dtype end
    m.budget:take(data:numel() * Source.width(name) + Budget.TENSOR)
    data = data:to(name)
    return requires_grad == true and data:requires_grad_() or data
  end
  for _, name in ipairs { "_rebuild_device_tensor_from_numpy", "_rebuild_xla_tensor",
    "_rebuild_device_tensor_from_cpu_tensor" } do
    add(name, converted)
  end
end

--- Adds what makes tensors of `file` to `names`, by their names with modules.
---@param names table<string, table>
---@param file table a moonlet.files.source
function torch_tensors.add(names, file)
  add_functions(names, file)
  local function add(name, call) names[name] = python.global(name, call) end
  -- A class made of a tensor, and its attributes, which are left aside.
  add("torch._tensor._rebuild_from_type_v2", function(m, callee, _, arguments)
    return m:called(callee, arguments)
  end)
  add("torch.serialization._get_layout", function(_, name)
    for _, layout in ipairs(LAYOUTS) do
      if name == "torch." .. layout then return layout end
    end
    fail "a layout is damaged"
  end)
end

--- Adds the names of storages, dtypes, layouts and the like, which nothing is called of.
---@param names table<string, table>
function torch_tensors.add_types(names)
  for name, dtype in pairs(STORAGES) do
    for _, module in ipairs { "torch.", "torch.storage.", "torch.cuda." } do
      local global = python.global(module .. name)
      global.storage, names[module .. name] = dtype, global
    end
  end
  for name, dtype in pairs(DTYPES) do
    names["torch." .. name] = python.global("torch." .. name, nil, dtype)
  end
  for _, word in ipairs(WORDS) do names["torch." .. word] = python.global(word, nil, word) end
end

return torch_tensors
