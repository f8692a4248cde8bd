-- stdlib/data/fetch.lua: how a batch is read, by the script's own thread or by a worker, with
-- random numbers that follow from the epoch and the batch alone.

local class = require "moonlet.class"
local collate = require "moonlet.data.collate"
local dataset = require "moonlet.data.dataset"
local iterable = require "moonlet.data.iterable"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local workers = require "moonlet.workers"
local fail = options.fail

local fetch = {}

--- Gives the interpreter the random numbers of batch `number` in the epoch of that seed.
---@param base_seed integer
---@param number integer
function fetch.seed(base_seed, number) workers.seed(base_seed + number) end

local function convert_fields(fields)
  return table.unpack(collate.default_convert(fields), 1, #fields)
end

-- The positions of a batch that a script's own sampler gave, as a tensor.
local function as_tensor(positions)
  if ml.is_tensor(positions) then return positions end
  for _, position in ipairs(positions) do
    if math.type(position) ~= "integer" then
      fail("DataLoader: the sampler gave the position %s, an integer is expected",
        signature.describe(position))
    end
  end
  return ml.tensor(positions, { dtype = ml.int64 })
end

-- The batch at a tensor or an array of positions.
local function read_batch(source, positions)
  local set = source.dataset
  if not ml.is_tensor(positions) and type(positions) ~= "table" then
    fail("DataLoader: 'batch_sampler' must give tensors or arrays of positions, got %s",
      signature.describe(positions))
  elseif not source.collate_fn and dataset.reads_batches(set) then
    return set:get_batch(as_tensor(positions))
  end
  local examples = {}
  if ml.is_tensor(positions) then positions = positions:totable() end
  for i, position in ipairs(positions) do examples[i] = dataset.example(set, position) end
  return (source.collate_fn or collate.default_collate)(examples)
end

local function by_position(source)
  return function(positions)
    if source.in_batches then return read_batch(source, positions) end
    return (source.collate_fn or convert_fields)(dataset.example(source.dataset, positions))
  end
end

-- An epoch through a data set without positions.
local function in_order(source)
  local next_example, ended = nil, false
  local function one()
    if ended then return nil end
    next_example = next_example or source.dataset:iter()
    local fields = { next_example() }
    ended = fields[1] == nil
    return not ended and fields or nil
  end
  return function()
    if not source.in_batches then
      local fields = one()
      if fields then return (source.collate_fn or convert_fields)(fields) end
      return nil
    end
    local examples = {}
    while #examples < source.batch_size do
      examples[#examples + 1] = one()
      if ended then break end
    end
    if #examples == 0 or source.drop_last and #examples < source.batch_size then return nil end
    return (source.collate_fn or collate.default_collate)(examples)
  end
end

--- Whether the data set of a loader is gone through from the start.
---@param source table
---@return boolean
function fetch.is_iterable(source)
  return class.is_instance(source.dataset, iterable.IterableDataset)
end

--- A function for one epoch: from the positions of a batch (none, for a data set without) to its
--- fields; nothing when the data set has come to its end. `source` has what a loader says of its
--- batches: `dataset`, `collate_fn`, `batch_size`, `in_batches`, `drop_last`.
---@param source table
---@return fun(positions?: any): ...
function fetch.new(source)
  return (fetch.is_iterable(source) and in_order or by_position)(source)
end

return fetch
