-- stdlib/data/collate.lua: a batch from its examples: tensors stacked, numbers as a tensor, tables
-- of these by their names or positions, in one another.

local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local collate = {}

local collate_value

local function is_plain(value) return type(value) == "table" and getmetatable(value) == nil end

local function is_named(value)
  return is_plain(value) and #value == 0 and next(value) ~= nil
end

-- Refuses values that are not all of the first one's kind.
local function check_alike(values, where)
  local first = values[1]
  for i, value in ipairs(values) do
    local alike = type(value) == type(first) and ml.is_tensor(value) == ml.is_tensor(first)
      and getmetatable(value) == getmetatable(first)
    if not alike then
      fail("default_collate: %s is %s in example %d and %s in example 1", where,
        signature.describe(value), i, signature.describe(first))
    end
  end
end

local function stack(values, where)
  local shape = tostring(values[1].shape)
  for i, value in ipairs(values) do
    if tostring(value.shape) ~= shape then
      fail("default_collate: %s has shape %s in example %d and %s in example 1", where,
        tostring(value.shape), i, shape)
    end
  end
  return ml.stack(values)
end

-- As PyTorch does for Python's numbers: floats become float64.
local function numbers(values)
  local is_float = math.type(values[1]) == "float"
  return ml.tensor(values, is_float and { dtype = ml.float64 } or nil)
end

-- The values under one key of all tables.
local function collate_key(values, key, where)
  local column = {}
  for i, value in ipairs(values) do
    column[i] = value[key]
    if column[i] == nil then
      fail("default_collate: %s has no '%s' in example %d", where, tostring(key), i)
    end
  end
  local inner = math.type(key) == "integer" and ("%s[%d]"):format(where, key)
    or ("%s.%s"):format(where, tostring(key))
  return collate_value(column, inner)
end

local function collate_named(values, where)
  local out = {}
  for key in pairs(values[1]) do out[key] = collate_key(values, key, where) end
  return out
end

local function collate_arrays(values, where)
  local out, size = {}, #values[1]
  for i, value in ipairs(values) do
    if #value ~= size then
      fail("default_collate: %s has %d items in example %d and %d in example 1", where, #value, i,
        size)
    end
  end
  for f = 1, size do out[f] = collate_key(values, f, where) end
  return out
end

function collate_value(values, where)
  check_alike(values, where)
  local first = values[1]
  if ml.is_tensor(first) then return stack(values, where) end
  if type(first) == "number" then return numbers(values) end
  if type(first) == "boolean" then return ml.tensor(values) end
  if type(first) == "string" then return values end
  if not is_plain(first) then
    fail("default_collate: %s is %s; tensors, numbers, booleans, strings and tables of them are "
      .. "put together, for other values give a 'collate_fn'", where, signature.describe(first))
  end
  return (is_named(first) and collate_named or collate_arrays)(values, where)
end

local read_collate = signature "data.default_collate(table batch)"

--- Collates an array of examples into a batch. Tensors are stacked; integers become an int64
--- tensor, other numbers float64, booleans bool; strings become an array. Tables by name, and
--- arrays of one length, are collated by names and positions. Where the examples are arrays of
--- fields, the fields are several results.
--- > ml.data.default_collate { { ml.tensor{1, 2}, "a" }, { ml.tensor{3, 4}, "b" } }
---   {{1, 2},
---    {3, 4}}
---   Tensor (2, 2) int64
---   {"a", "b"}
---@param batch any[] an array of examples of the same kind
---@return any ...
---@shape tensors (*) -> (b, *)
function collate.default_collate(...)
  local examples = read_collate(...)
  if #examples == 0 then fail "default_collate: the batch has no examples" end
  local first = examples[1]
  if not is_plain(first) or is_named(first) then return collate_value(examples, "the example") end
  check_alike(examples, "the example")
  local size = #first
  for i, example in ipairs(examples) do
    if #example ~= size then
      fail("default_collate: example %d has %d fields, example 1 %d", i, #example, size)
    end
  end
  local fields = {}
  for f = 1, size do
    local values = {}
    for i, example in ipairs(examples) do values[i] = example[f] end
    fields[f] = collate_value(values, ("field %d"):format(f))
  end
  return table.unpack(fields, 1, size)
end

local read_convert = signature "data.default_convert(dict|any data)"

--- What a loader without batches does to a field: tensors, numbers, strings and objects stay as
--- they are; tables are copied, with what is in them.
--- > ml.data.default_convert { 1, "a" }
---   {1, "a"}
---@param data any the field
---@return any
function collate.default_convert(...)
  local function convert(value)
    if not is_plain(value) then return value end
    local out = {}
    for key, item in pairs(value) do out[key] = convert(item) end
    return out
  end
  return convert((read_convert(...)))
end

return collate
