-- stdlib/data/loader.lua: DataLoader: goes through a data set in batches.

local class = require "moonlet.class"
require "moonlet.data.dataset"
local ml = require "moonlet"
local options = require "moonlet.options"
local sampler = require "moonlet.data.sampler"
local signature = require "moonlet.signature"
local fail = options.fail

local loader = {}

local function collate_field(values)
  local first = values[1]
  if ml.is_tensor(first) then return ml.stack(values) end
  if type(first) == "number" or type(first) == "boolean" then return ml.tensor(values) end
  return values
end

local read_collate = signature "data.default_collate(table[] batch)"

--- Puts an array of examples, each an array of fields, together: tensors are stacked, numbers
--- become a tensor, other values an array. Returns the fields as several values.
---@param batch table[]
---@return any ...
function loader.default_collate(...)
  local examples, fields = read_collate(...), {}
  if #examples == 0 then return end
  for f = 1, #examples[1] do
    local values = {}
    for i, example in ipairs(examples) do values[i] = example[f] end
    fields[f] = collate_field(values)
  end
  return table.unpack(fields)
end

--- `data.DataLoader(set, { batch_size = 64, shuffle = true })`. `for x, y in loader do` and
--- `for x, y in loader:iter() do` go through the set once; `#loader` is the number of batches.
--- Options: `batch_size` (1), `shuffle`, `sampler`, `batch_sampler` (in the place of those three
--- and `drop_last`), `collate_fn` (a function from an array of examples, each an array of fields,
--- to the batch), `drop_last`, `generator`.
local DataLoader = class("DataLoader")
loader.DataLoader = DataLoader

local read_loader = signature("data.DataLoader(Dataset dataset, int>=1 batch_size=1, "
  .. "bool shuffle=false, Sampler? sampler=nil, Sampler? batch_sampler=nil, "
  .. "function? collate_fn=nil, bool drop_last=false, Generator? generator=nil)")
  :alias("collate", "collate_fn")

-- The batches of positions that the options ask for.
local function batches_of(o)
  if o.sampler and o.shuffle then
    fail("DataLoader: 'sampler' and 'shuffle' exclude each other")
  elseif o.batch_sampler then
    if o.batch_size ~= 1 or o.shuffle or o.sampler or o.drop_last then
      fail("DataLoader: 'batch_sampler' excludes 'batch_size', 'shuffle', 'sampler', 'drop_last'")
    end
    return o.batch_sampler
  end
  local order = o.sampler
    or o.shuffle and sampler.RandomSampler(o.dataset, { generator = o.generator })
    or sampler.SequentialSampler(o.dataset)
  return sampler.BatchSampler(order, o.batch_size, o.drop_last)
end

function DataLoader:init(...)
  local o = read_loader:table(...)
  self.dataset, self.collate_fn, self.batch_size = o.dataset, o.collate_fn, o.batch_size
  self.passes = setmetatable({}, { __mode = "k" })
  self.batches = batches_of(o)
end

function DataLoader.__len(self) return #self.batches end

local function read_batch(self, positions)
  local set = self.dataset
  if type(positions) == "table" then positions = ml.tensor(positions) end  -- of an own sampler
  if set.get_batch and not self.collate_fn then return set:get_batch(positions) end
  local examples = {}
  for i, position in ipairs(positions:totable()) do examples[i] = { set:get(position) } end
  return (self.collate_fn or loader.default_collate)(examples)
end

--- One pass: an iterator that gives the fields of each batch.
---@return fun(): ...
function DataLoader:iter()
  local next_batch = self.batches:iter()
  return function()
    local positions = next_batch()
    if positions == nil then return nil end
    return read_batch(self, positions)
  end
end

-- What a pass gave last leads back to the pass, so that loops over one loader can nest.
local function note(self, pass, first, ...)
  if first ~= nil then self.passes[first] = pass end
  return first, ...
end

-- `for x, y in loader do` calls the loader itself, with nil at the start of the loop and then with
-- the first field of the batch before.
function DataLoader:__call(_, control)
  local pass = control == nil and self:iter() or self.passes[control]
  if not pass then fail("DataLoader: this loop wants `for ... in loader:iter() do`") end
  if control ~= nil then self.passes[control] = nil end
  return note(self, pass, pass())
end

return loader
