-- stdlib/files/pickle_numpy.lua: NumPy's dtypes, scalars and arrays in a pickle, which become names
-- of dtypes, numbers and tensors.

local Source = require "moonlet.files.source"
local ml = require "moonlet"
local numpy = require "moonlet.files.numpy"
local python = require "moonlet.files.python"

local pickle_numpy = {}

local function fail(format, ...) error(format:format(...), 0) end

-- --- dtypes -----------------------------------------------------------------------------------

local Dtype = {}
Dtype.__index = Dtype

local function is_dtype(value) return python.stand_in(value) == Dtype end

-- numpy.dtype(descr, align, copy): a kind and its bytes.
local function new_dtype(_, descr)
  if type(descr) ~= "string" then fail "a dtype of NumPy is damaged" end
  local name = descr:match "^[<>|=]?(%w+)$"
  return setmetatable({ descr = name or "", big = descr:find "^>" ~= nil }, Dtype)
end

-- The version, the order of bytes, and what a dtype of several fields has.
function Dtype:build(state, m)
  if not m:length(state) then fail "a dtype of NumPy is damaged" end
  self.big = state[2] == ">"
  if state[3] ~= nil or state[4] ~= nil or state[5] ~= nil then self.descr = "V" end
end

-- The dtype, or nothing and what the elements are.
function Dtype:name() return numpy.dtype_of_name(self.descr) end

function Dtype:settle()
  local name, reason = self:name()
  if name then return name end
  return nil, "a dtype of NumPy: " .. reason
end

-- --- elements ---------------------------------------------------------------------------------

-- A tensor of one dimension, or nothing and why there is none.
local function elements(m, dtype, bytes)
  local name, reason = dtype:name()
  if not name then return nil, reason end
  local width = Source.width(name)
  if #bytes % width ~= 0 then fail "an array of NumPy is damaged" end
  if name == "bool" and bytes:find "[^\0\1]" then fail "bool data are neither 0 nor 1" end
  m.budget:take(2 * #bytes)
  if dtype.big and width > 1 then
    local half = name:find "^complex" and width // 2 or width
    m.budget:take(64 * (#bytes // half) + #bytes)
    bytes = bytes:gsub(("."):rep(half), string.reverse)
  end
  return ml.from_bytes(bytes, name)
end

-- Characters of 4 bytes.
local function text_of(m, dtype, bytes)
  if #bytes % 4 ~= 0 then fail "a text of NumPy is damaged" end
  m.budget:take(64 * (#bytes // 4))
  local parts = {}
  for at = 1, #bytes, 4 do
    local code = (dtype.big and ">I4" or "<I4"):unpack(bytes, at)
    if code > 0x10ffff then fail "a text of NumPy is damaged" end
    parts[#parts + 1] = utf8.char(code)
  end
  return (table.concat(parts):gsub("\0+$", ""))
end

local function left_out(m, reason)
  return python.object(m.budget, "numpy.ndarray", "a value of NumPy: " .. reason)
end

-- A number, boolean, complex number or text.
local function scalar(m, dtype, bytes)
  if not is_dtype(dtype) then fail "a scalar of NumPy is damaged" end
  local kind = dtype.descr:sub(1, 1)
  if kind == "O" then return bytes end
  if type(bytes) ~= "string" then fail "a scalar of NumPy is damaged" end
  if kind == "U" then return text_of(m, dtype, bytes) end
  if kind == "S" then return (bytes:gsub("\0+$", "")) end
  local tensor, reason = elements(m, dtype, bytes)
  if not tensor then return left_out(m, reason) end
  if tensor:numel() ~= 1 then fail "a scalar of NumPy is damaged" end
  return tensor:item()
end

-- --- arrays -----------------------------------------------------------------------------------

-- An array, whose `value` is a tensor when it was built, or an object that is left out.
local Array = {}
Array.__index = Array

local function sizes_of(m, shape)
  local sizes, count = {}, m:length(shape)
  if not count then fail "an array of NumPy is damaged" end
  for i = 1, count do
    sizes[i] = math.tointeger(shape[i]) or fail "an array of NumPy is damaged"
  end
  return sizes
end

-- The array of those bytes; in Fortran's order the first dimension is the fastest.
local function array_of(m, dtype, shape, fortran, bytes)
  if not is_dtype(dtype) then fail "an array of NumPy is damaged" end
  local sizes = sizes_of(m, shape)
  if type(bytes) ~= "string" then
    return left_out(m, select(2, dtype:name()) or "its elements are Python objects")
  end
  local tensor, reason = elements(m, dtype, bytes)
  if not tensor then return left_out(m, reason) end
  local count = Source.count(sizes, tensor.dtype, #bytes * tensor.itemsize)
  if count ~= tensor:numel() then fail "an array of NumPy is damaged" end
  return numpy.shaped(tensor, sizes, fortran == true)
end

function Array:build(state, m)
  if not m:length(state) then fail "an array of NumPy is damaged" end
  -- Old versions have no number of the version in front.
  local from = m:length(state) == 4 and 1 or 2
  self.value = array_of(m, state[from + 1], state[from], state[from + 2], state[from + 3])
end

function Array:settle(budget)
  local value = self.value
  if value == nil then return nil, "a value of NumPy: it has no elements" end
  if ml.is_tensor(value) then return value end
  return value:settle(budget)
end

--- The tensor that a value of a pickle is, where it is one or an array.
---@param value any
---@return any
function pickle_numpy.tensor(value)
  if python.stand_in(value) == Array then value = value.value end
  return value
end

--- Adds what pickles call of NumPy to `names`, by their names with modules.
---@param names table<string, table>
function pickle_numpy.add(names)
  local function add(name, call) names[name] = python.global(name, call) end
  add("numpy.dtype", new_dtype)
  for _, core in ipairs { "numpy.core", "numpy._core" } do
    add(core .. ".multiarray.scalar", scalar)
    add(core .. ".multiarray._reconstruct", function() return setmetatable({}, Array) end)
    add(core .. ".numeric._frombuffer", function(m, bytes, dtype, shape, order)
      return array_of(m, dtype, shape, order == "F", bytes)
    end)
  end
end

return pickle_numpy
