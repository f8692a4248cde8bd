-- stdlib/data/dataset.lua: data sets: `set[i]` gives the fields of example i (from 1), `#set` their
-- number; and ways to cut and join them. Those that are only gone through are in data/iterable.lua.

local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local dataset = {}

--- The base class of map-style data sets. A subclass has `get(i)`, which returns the fields of
--- example i, counted from 1, and `size()`. `#set` is the number of examples and `set[i]` an array
--- of the fields; `get_batch(positions)`, for a 1-D tensor of positions, may be given where a whole
--- batch can be read at once. `a + b` is a `ConcatDataset`. An array of examples, each an array of
--- fields or the one field itself, may be given wherever a data set is expected.
--- > Squares = ml.class("Squares", ml.data.Dataset)
--- > function Squares:size() return 5 end
--- > function Squares:get(i) return ml.tensor(i), ml.tensor(i * i) end
--- > #Squares(), Squares()[3][2]
---   5	9  Tensor () int64
local Dataset = class("Dataset")
dataset.Dataset = Dataset

-- An array of a script as a data set.
local ListDataset = class("ListDataset", Dataset)

local function is_list(value)
  if type(value) ~= "table" or getmetatable(value) or #value == 0 then return false end
  return type(next(value, #value)) ~= "string"
end

local function to_dataset(value)
  if class.is_instance(value, Dataset) then return value end
  return is_list(value) and ListDataset(value) or nil
end

signature.add_type("Dataset", "a data set", to_dataset)

--- Number of examples, as `#set`; every data set defines it.
--- > ml.data.TensorDataset(ml.zeros(5, 2)):size()
---   5
---@return integer
function Dataset:size() fail("%s: has no method size", class.name(class.of(self))) end
--- Fields of example `i`, counted from 1, as several results; every data set defines it.
--- > ml.data.TensorDataset(ml.tensor{10, 20}, ml.tensor{1, 2}):get(2)
---   20  Tensor () int64	2  Tensor () int64
---@return any ...
function Dataset:get() fail("%s: has no method get", class.name(class.of(self))) end

function Dataset.__len(self) return self:size() end

function ListDataset:init(list) self.list = list end

function ListDataset:size() return #self.list end

function ListDataset:get(i)
  local example = self.list[i]
  if is_list(example) then return table.unpack(example) end
  return example
end

-- The position from 1, for one that may count from the end.
local function position(self, i)
  local size = #self
  local wrapped = i < 0 and size + 1 + i or i
  if wrapped < 1 or wrapped > size then
    fail("%s: position %d is out of range; there are %d examples, counted from 1",
      class.name(class.of(self)), i, size)
  end
  return wrapped
end

function Dataset.__index(self, key)
  if math.type(key) ~= "integer" then return class.lookup(self, key) end
  return { self:get(position(self, key)) }
end

--- The array of the fields of an example; keys other than integers are for `get` to understand.
---@param set table
---@param key any
---@return any[]
function dataset.example(set, key)
  return { set:get(math.type(key) == "integer" and position(set, key) or key) }
end

--- Whether whole batches may be read by `get_batch`: not where a class has a `get` of its own below
--- the one that `get_batch` is of.
---@param set table
---@return boolean
function dataset.reads_batches(set)
  if rawget(set, "get_batch") then return true end
  local cls = class.of(set)
  while cls do
    if rawget(cls, "get_batch") then return true end
    if rawget(cls, "get") then return false end
    cls = cls.super
  end
  return false
end

--- Data set over tensors whose first dimension counts the examples: example i has `x[i]` of each.
--- > set = ml.data.TensorDataset(ml.tensor{10, 20, 30}, ml.tensor{1, 2, 1})
--- > #set, set[2]
---   3	{20  Tensor () int64, 2  Tensor () int64}
---@param ... any tensors of the same size in the first dimension
---@shape tensors (n, *) -> examples (*)
local TensorDataset = class("TensorDataset", Dataset)
dataset.TensorDataset = TensorDataset

local read_tensors = signature "data.TensorDataset(any... tensors)"

function TensorDataset:init(...)
  local tensors = read_tensors(...)
  if #tensors == 0 then fail("TensorDataset: got no tensors") end
  for i, tensor in ipairs(tensors) do
    if not ml.is_tensor(tensor) then
      fail("TensorDataset: field %d is a %s, expected a tensor", i, type(tensor))
    elseif tensor.ndim == 0 then
      fail("TensorDataset: field %d has no dimensions", i)
    elseif #tensor ~= #tensors[1] then
      fail("TensorDataset: field %d has %d examples, field 1 has %d", i, #tensor, #tensors[1])
    end
  end
  self.tensors = tensors
end

function TensorDataset:size() return #self.tensors[1] end

function TensorDataset:get(i)
  local out = {}
  for f, tensor in ipairs(self.tensors) do out[f] = tensor[i] end
  return table.unpack(out)
end

--- The examples at several positions, as one tensor for each field.
--- > ml.data.TensorDataset(ml.tensor{10, 20, 30}):get_batch(ml.tensor{3, 1})
---   {30, 10}
---   Tensor (2,) int64
---@param positions moonlet.Tensor 1-D int64 tensor of positions, from 1
---@shape positions (b) -> (b, *) for each field
function TensorDataset:get_batch(positions)
  local out = {}
  for f, tensor in ipairs(self.tensors) do
    out[f] = tensor:index_select(1, positions:to(tensor.device))
  end
  return table.unpack(out)
end

local read_subset = signature "data.Subset(Dataset dataset, Tensor|int[] indices)"

--- Data set of the examples of another one at given positions.
--- > set = ml.data.Subset(ml.data.TensorDataset(ml.tensor{10, 20, 30}), {3, 1})
--- > #set, set[1]
---   2	{30  Tensor () int64}
---@param dataset any the whole data set
---@param indices moonlet.Tensor|integer[] positions from 1, a 1-D tensor or an array
local Subset = class("Subset", Dataset)
dataset.Subset = Subset

function Subset:init(...)
  local set, positions = read_subset(...)
  if type(positions) == "table" then
    positions = #positions > 0 and ml.tensor(positions) or ml.zeros { 0, dtype = ml.int64 }
  end
  if not ml.is_tensor(positions) or positions.ndim ~= 1 or positions.dtype ~= ml.int64 then
    fail("Subset: the positions must be an array or a 1-D int64 tensor")
  end
  if #positions > 0 then
    local low, high = positions:min():item(), positions:max():item()
    if low < 1 or high > #set then
      fail("Subset: position %d is out of range; there are %d examples, counted from 1",
        low < 1 and low or high, #set)
    end
  end
  self.set, self.positions = set, positions
  if dataset.reads_batches(set) then
    self.get_batch = function(_, wanted)
      return set:get_batch(positions:index_select(1, wanted))
    end
  end
end

function Subset:size() return #self.positions end

function Subset:get(i) return self.set:get(self.positions[i]:item()) end

local read_stack = signature "data.StackDataset(dict|Dataset... datasets)"

--- Data sets side by side. Example i of `data.StackDataset(a, b)` has a field for each, its example
--- i (an array where that has several fields); `data.StackDataset { image = a, class = b }` gives
--- one field, a table by these names. All must have the same number of examples.
--- > D = ml.data
--- > a, b = D.TensorDataset(ml.tensor{10, 20}), D.TensorDataset(ml.tensor{1, 2})
--- > D.StackDataset { image = a, class = b }[2]
---   {
---     {
---       class  ()  int64  2
---       image  ()  int64  20
---     }
---   }
---@param ... table|any data sets, or one table of data sets by name
local StackDataset = class("StackDataset", Dataset)
dataset.StackDataset = StackDataset

local function check_stacked(sets)
  local first, size
  for name, set in pairs(sets) do
    local good = to_dataset(set)
    if not good then
      fail("StackDataset: '%s': a data set is expected, got %s", name, signature.describe(set))
    end
    sets[name] = good
    if size and #good ~= size then
      fail("StackDataset: data set %s has %d examples, data set %s %d", name, #good, first, size)
    end
    first, size = name, #good
  end
  if not size then fail "StackDataset: got no data sets" end
  return size
end

function StackDataset:init(...)
  local sets = read_stack(...)
  local named = sets[1]
  if named and class.of(named) == nil then
    if #sets > 1 then fail "StackDataset: data sets come by position or in one table of names" end
    self.named, sets = true, {}
    for name, set in pairs(named) do sets[name] = set end
  end
  self.count, self.sets = check_stacked(sets), sets
end

function StackDataset:size() return self.count end

function StackDataset:get(i)
  local out = {}
  for name, set in pairs(self.sets) do
    local fields = { set:get(i) }
    if #fields > 1 then out[name] = fields else out[name] = fields[1] end
  end
  if self.named then return out end
  return table.unpack(out, 1, #self.sets)
end

--- Concatenation of data sets: the examples of the first, then those of the next. `a + b` makes
--- one.
--- > a = ml.data.TensorDataset(ml.tensor{10, 20})
--- > #ml.data.ConcatDataset { a, a }
---   4
---@param datasets any[] an array of data sets
local ConcatDataset = class("ConcatDataset", Dataset)
dataset.ConcatDataset = ConcatDataset

local read_concat = signature "data.ConcatDataset(Dataset[] datasets)"

function ConcatDataset:init(...)
  local sets = read_concat(...)
  if #sets == 0 then fail("ConcatDataset: got no data sets") end
  self.sets, self.ends = sets, {}
  local total = 0
  for i, set in ipairs(sets) do
    if set.iter then
      fail("ConcatDataset: data set %d is an IterableDataset; see ChainDataset", i)
    end
    total = total + #set
    self.ends[i] = total
  end
end

function ConcatDataset:size() return self.ends[#self.ends] end

function ConcatDataset:get(i)
  local before = 0
  for s, last in ipairs(self.ends) do
    if i <= last then return self.sets[s]:get(i - before) end
    before = last
  end
end

function Dataset.__add(a, b) return ConcatDataset { a, b } end

-- Sizes from fractions that add up to 1: what rounding leaves goes to the first ones.
local function sizes_from_fractions(fractions, total)
  local sizes, used = {}, 0
  for i, fraction in ipairs(fractions) do
    sizes[i] = math.floor(fraction * total)
    used = used + sizes[i]
  end
  for i = 1, total - used do
    local at = (i - 1) % #sizes + 1
    sizes[at] = sizes[at] + 1
  end
  return sizes
end

local function split_sizes(set, sizes)
  local sum, whole = 0, true
  for _, size in ipairs(sizes) do
    sum, whole = sum + size, whole and math.type(size) == "integer"
  end
  if not whole and math.abs(sum - 1) < 1e-9 then return sizes_from_fractions(sizes, #set) end
  if not whole or sum ~= #set then
    fail("random_split: the sizes add up to %s; there are %d examples (fractions add up to 1)", sum,
      #set)
  end
  return sizes
end

local read_split = signature(
  "data.random_split(Dataset dataset, number[]>=0 lengths, Generator? generator=nil)")

--- Splits a data set at random into subsets without overlap, such as one to train on and one to
--- test on. Lengths are numbers of examples whose sum is that of the data set, or fractions whose
--- sum is 1; what rounding leaves goes to the first subsets, one each.
--- > set = ml.data.TensorDataset(ml.zeros(10))
--- > train, test = table.unpack(ml.data.random_split(set, {0.8, 0.2}))
--- > #train, #test
---   8	2
---@param dataset table the data set to split
---@param lengths number[] sizes or fractions
---@param generator? Generator random number generator; the default one unless given
---@return table[]
function dataset.random_split(...)
  local set, sizes, generator = read_split(...)
  local order, at, out = ml.randperm(#set, { generator = generator }), 1, {}
  for i, size in ipairs(split_sizes(set, sizes)) do
    out[i] = Subset(set, order:narrow(1, at, size))
    at = at + size
  end
  return out
end

return dataset
