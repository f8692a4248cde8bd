-- stdlib/data/sampler.lua: samplers: the order in which a loader takes examples. `order()` gives a
-- 1-D tensor of positions for one pass; `iter()` gives them one by one.

local class = require "moonlet.class"
local distributed = require "moonlet.distributed.state"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local sampler = {}

--- The base class of samplers, which give the order in which examples are read. A subclass has
--- `size()`, and `order()`, a 1-D tensor of positions, or an `iter()` of its own. An array of
--- positions, or of arrays of positions for batches, may be given wherever a sampler is expected.
--- > Backwards = ml.class("Backwards", ml.data.Sampler)
--- > function Backwards:size() return 3 end
--- > function Backwards:order() return ml.tensor{3, 2, 1} end
--- > for i in Backwards():iter() do print(i) end
---   3
---   2
---   1
local Sampler = class("Sampler")
sampler.Sampler = Sampler

-- An array of a script as a sampler.
local ListSampler = class("ListSampler", Sampler)

signature.add_type("Sampler", "a sampler", function(value)
  if class.is_instance(value, Sampler) then return value end
  local is_list = type(value) == "table" and not getmetatable(value) and #value > 0
  return is_list and ListSampler(value) or nil
end)

signature.add_type("Source", "a data set or a count", function(value)
  if type(value) == "number" then
    local count = math.tointeger(value)
    return count and count >= 0 and count or nil
  end
  return type(value) == "table" and #value or nil
end, true)

function Sampler.__len(self) return self:size() end

--- Number of positions in one pass, as `#sampler`; every sampler defines it.
--- > #ml.data.SequentialSampler(5)
---   5
---@return integer
function Sampler:size() fail("%s: has no method size", class.name(class.of(self))) end

--- Iterator over the positions of one pass: `for position in sampler:iter() do`.
--- > for i in ml.data.SequentialSampler(3):iter() do print(i) end
---   1
---   2
---   3
function Sampler:iter()
  local order, i = self:order():totable(), 0
  return function()
    i = i + 1
    return order[i]
  end
end

function ListSampler:init(list) self.list = list end

function ListSampler:size() return #self.list end

function ListSampler:iter()
  local i = 0
  return function()
    i = i + 1
    return self.list[i]
  end
end

local read_sequential = signature "data.SequentialSampler(Source data_source)"

--- Sampler that goes through the examples in order.
--- > ml.data.SequentialSampler(4):order()
---   {1, 2, 3, 4}
---   Tensor (4,) int64
---@param data_source any a data set, or the number of examples
local SequentialSampler = class("SequentialSampler", Sampler)
sampler.SequentialSampler = SequentialSampler

function SequentialSampler:init(...) self.count = read_sequential(...) end

--- Number of positions in one pass, as `#sampler`.
--- > ml.data.SequentialSampler(4):size()
---   4
---@return integer
function SequentialSampler:size() return self.count end

--- The positions of one pass, from 1.
--- > ml.data.SequentialSampler(4):order()
---   {1, 2, 3, 4}
---   Tensor (4,) int64
---@return Tensor
---@shape -> (n)
function SequentialSampler:order()
  if self.count == 0 then return ml.zeros { 0, dtype = ml.int64 } end
  return ml.arange(self.count)
end

local read_random = signature("data.RandomSampler(Source data_source, bool replacement=false, "
  .. "int>=0? num_samples=nil, Generator? generator=nil)")

--- Sampler of a random order, drawn anew at each pass.
--- > ml.data.RandomSampler(5):order():sort()
---   {1, 2, 3, 4, 5}
---   Tensor (5,) int64
---   {2, 4, 5, 3, 1}
---   Tensor (5,) int64
---@param data_source any a data set, or the number of examples
---@param replacement? boolean whether an example may be drawn several times
---@param num_samples? integer positions in one pass; more than there are examples repeat whole
---   orders
---@param generator? moonlet.Generator random number generator; the default one unless given
local RandomSampler = class("RandomSampler", Sampler)
sampler.RandomSampler = RandomSampler

function RandomSampler:init(...)
  local o = read_random:table(...)
  self.count, self.replacement, self.generator = o.data_source, o.replacement, o.generator
  self.num_samples = o.num_samples or self.count
  if self.num_samples > 0 and self.count == 0 then
    fail("RandomSampler: there are no examples to draw %d samples from", self.num_samples)
  end
end

--- Number of positions in one pass, as `#sampler`.
--- > ml.data.RandomSampler(5):size()
---   5
---@return integer
function RandomSampler:size() return self.num_samples end

--- The positions of one pass, drawn anew at each call.
--- > ml.data.RandomSampler(5):order().shape
---   (5,)
---@return Tensor
---@shape -> (num_samples)
function RandomSampler:order()
  if self.num_samples == 0 then return ml.zeros { 0, dtype = ml.int64 } end
  if self.replacement then
    return ml.randint(self.count, { self.num_samples },
      { dtype = ml.int64, generator = self.generator })
  end
  local parts, left = {}, self.num_samples
  while left > 0 do
    local part = ml.randperm(self.count, { generator = self.generator })
    parts[#parts + 1] = part:narrow(1, 1, math.min(left, self.count))
    left = left - self.count
  end
  return ml.cat(parts)
end

local read_subset = signature(
  "data.SubsetRandomSampler(Tensor|int[]>=1 indices, Generator? generator=nil)")

--- Sampler of given positions in a random order, drawn anew at each pass.
--- > ml.data.SubsetRandomSampler({7, 9}):order():sort()
---   {7, 9}
---   Tensor (2,) int64
---   {1, 2}
---   Tensor (2,) int64
---@param indices moonlet.Tensor|integer[] positions from 1, a 1-D tensor or an array
---@param generator? moonlet.Generator random number generator; the default one unless given
local SubsetRandomSampler = class("SubsetRandomSampler", Sampler)
sampler.SubsetRandomSampler = SubsetRandomSampler

function SubsetRandomSampler:init(...)
  local indices, generator = read_subset(...)
  if type(indices) == "table" then indices = ml.tensor(indices, { dtype = ml.int64 }) end
  if indices.ndim ~= 1 or indices.dtype ~= ml.int64 then
    fail("SubsetRandomSampler: 'indices' must be an array or a 1-D int64 tensor, got %s of shape "
      .. "%s", indices.dtype, tostring(indices.shape))
  end
  self.indices, self.generator = indices, generator
end

--- Number of positions in one pass, as `#sampler`.
--- > ml.data.SubsetRandomSampler({7, 9}):size()
---   2
---@return integer
function SubsetRandomSampler:size() return #self.indices end

--- The positions of one pass, drawn anew at each call.
--- > ml.data.SubsetRandomSampler({7, 9}):order().shape
---   (2,)
---@return Tensor
---@shape -> (n)
function SubsetRandomSampler:order()
  if #self.indices == 0 then return self.indices end
  return self.indices:index_select(1, ml.randperm(#self.indices, { generator = self.generator }))
end

local read_distributed = signature("data.DistributedSampler(Source dataset, "
  .. "int>=1? num_replicas=nil, int>=0? rank=nil, bool shuffle=true, int seed=0, "
  .. "bool drop_last=false)")

--- Sampler of the part of a data set that one of several processes takes: every `num_replicas`-th
--- position, from that of its `rank` on. All processes take equally many: the first positions are
--- repeated to fill up, or with `drop_last` the last are left out. The order depends on `seed` and
--- the epoch alone, so that all processes draw the same. Ranks are names of processes and count
--- from 0, as launchers do.
--- > ml.data.DistributedSampler(5, 2, 0, {shuffle = false}):order()
---   {1, 3, 5}
---   Tensor (3,) int64
---@param dataset any a data set, or the number of examples
---@param num_replicas? integer number of processes; that of `ml.distributed` unless given
---@param rank? integer number of this process, from 0 to num_replicas - 1; that of `ml.distributed`
---   unless given
---@param shuffle? boolean whether the order is random
---@param seed? integer seed of the order, the same in all processes
---@param drop_last? boolean whether the last positions are left out rather than the first repeated
local DistributedSampler = class("DistributedSampler", Sampler)
sampler.DistributedSampler = DistributedSampler

function DistributedSampler:init(...)
  local o = read_distributed:table(...)
  if not (o.rank and o.num_replicas) then
    local group = distributed.group_of "DistributedSampler"
    o.rank, o.num_replicas = o.rank or group.rank, o.num_replicas or group.size
  end
  if o.rank >= o.num_replicas then
    fail("DistributedSampler: 'rank' must be from 0 to %d, got %d", o.num_replicas - 1, o.rank)
  end
  self.count, self.num_replicas, self.rank = o.dataset, o.num_replicas, o.rank
  self.shuffle, self.seed, self.drop_last, self.epoch = o.shuffle, o.seed, o.drop_last, 0
  self.num_samples = o.drop_last and o.dataset // o.num_replicas
    or (o.dataset + o.num_replicas - 1) // o.num_replicas
end

-- While the result, a `<close>` variable, lives, no position is repeated: processes may take one
-- more than others. For what is counted, as a validation.
function DistributedSampler:_without_repeats()
  local before = self.num_samples
  if not self.drop_last then
    self.num_samples = (self.count - self.rank + self.num_replicas - 1) // self.num_replicas
    self.num_samples = math.max(self.num_samples, 0)
  end
  return setmetatable({}, { __close = function() self.num_samples = before end })
end

--- Number of positions in one pass, as `#sampler`.
--- > ml.data.DistributedSampler(5, 2, 0):size()
---   3
---@return integer
function DistributedSampler:size() return self.num_samples end

local read_epoch = signature "DistributedSampler:set_epoch(int epoch)"

--- Sets the epoch that the next pass is of; without it every pass has the same order.
--- > sampler = ml.data.DistributedSampler(5, 2, 0)
--- > sampler:set_epoch(2)
---@param epoch integer number of the epoch
function DistributedSampler:set_epoch(...) self.epoch = read_epoch(...) end

--- The positions of one pass.
--- > ml.data.DistributedSampler(4, 2, 1, {shuffle = false}):order()
---   {2, 4}
---   Tensor (2,) int64
---@return Tensor
---@shape -> (positions)
function DistributedSampler:order()
  if self.num_samples == 0 then return ml.zeros { 0, dtype = ml.int64 } end
  local last = self.rank + (self.num_samples - 1) * self.num_replicas
  local order = self.shuffle
    and ml.randperm(self.count, { generator = ml.Generator { seed = self.seed + self.epoch } })
    or ml.arange(self.count)
  local positions = ml.arange(self.rank, last, self.num_replicas):remainder(self.count) + 1
  return order:index_select(1, positions)
end

-- The sampler of a loader that is given none where there are several ranks: each pass is the next
-- epoch.
local RankSampler = class("RankSampler", DistributedSampler)
sampler.RankSampler = RankSampler

function RankSampler:order()
  local order = DistributedSampler.order(self)
  self.epoch = self.epoch + 1
  return order
end

local read_weighted = signature("data.WeightedRandomSampler(Tensor|number[]>=0 weights, "
  .. "int>=1 num_samples, bool replacement=true, Generator? generator=nil)")

--- Sampler that draws positions with probabilities proportional to weights.
--- > ml.data.WeightedRandomSampler({0, 1, 0}, 4):order()
---   {2, 2, 2, 2}
---   Tensor (4,) int64
---@param weights moonlet.Tensor|number[] nonnegative numbers, one for each example
---@param num_samples integer number of positions in one pass
---@param replacement? boolean whether an example may be drawn several times
---@param generator? moonlet.Generator random number generator; the default one unless given
---@formula P(i) = w_i / sum_j w_j
local WeightedRandomSampler = class("WeightedRandomSampler", Sampler)
sampler.WeightedRandomSampler = WeightedRandomSampler

function WeightedRandomSampler:init(...)
  local weights, num_samples, replacement, generator = read_weighted(...)
  if type(weights) == "table" then weights = ml.tensor(weights, { dtype = ml.float64 }) end
  if not ml.is_tensor(weights) or weights.ndim ~= 1 or #weights == 0 then
    fail("WeightedRandomSampler: the weights must be an array or a 1-D tensor")
  end
  self.weights, self.num_samples = weights, num_samples
  self.replacement, self.generator = replacement, generator
end

--- Number of positions in one pass, as `#sampler`.
--- > ml.data.WeightedRandomSampler({0, 1, 0}, 4):size()
---   4
---@return integer
function WeightedRandomSampler:size() return self.num_samples end

--- The positions of one pass, drawn anew at each call.
--- > ml.data.WeightedRandomSampler({1, 0}, 2):order()
---   {1, 1}
---   Tensor (2,) int64
---@return Tensor
---@shape -> (num_samples)
function WeightedRandomSampler:order()
  return ml.multinomial(self.weights, self.num_samples, self.replacement,
    { generator = self.generator })
end

local read_batch = signature(
  "data.BatchSampler(Sampler sampler, int>=1 batch_size, bool drop_last=false)")

--- Sampler of batches: cuts the order of another sampler into tensors of `batch_size` positions.
--- > #ml.data.BatchSampler(ml.data.SequentialSampler(5), 2)
---   3
---@param sampler any the sampler of positions
---@param batch_size integer positions in a batch
---@param drop_last? boolean whether a last batch with fewer examples is left out
local BatchSampler = class("BatchSampler", Sampler)
sampler.BatchSampler = BatchSampler

function BatchSampler:init(...)
  self.source, self.batch_size, self.drop_last = read_batch(...)
end

--- Number of batches in one pass, as `#sampler`.
--- > ml.data.BatchSampler(ml.data.SequentialSampler(5), 2, true):size()
---   2
---@return integer
function BatchSampler:size()
  local count = #self.source
  return self.drop_last and count // self.batch_size
    or (count + self.batch_size - 1) // self.batch_size
end

-- Arrays of positions from a sampler that gives them one by one.
local function gather_batches(self)
  local next_position, ended = self.source:iter(), false
  return function()
    local batch = {}
    while not ended and #batch < self.batch_size do
      local position = next_position()
      ended = position == nil
      batch[#batch + 1] = position
    end
    if #batch == 0 or self.drop_last and #batch < self.batch_size then return nil end
    return batch
  end
end

--- Iterator over the batches of one pass, `for positions in sampler:iter() do`: 1-D tensors, or
--- arrays where the other sampler has only an `iter`.
--- > for p in ml.data.BatchSampler(ml.data.SequentialSampler(3), 2):iter() do print(p) end
---   {1, 2}
---   Tensor (2,) int64
---   {3}
---   Tensor (1,) int64
function BatchSampler:iter()
  if not self.source.order then return gather_batches(self) end
  local order, batches, b = self.source:order(), self:size(), 0
  return function()
    if b == batches then return nil end
    local first = b * self.batch_size + 1
    b = b + 1
    return order:narrow(1, first, math.min(self.batch_size, #order - first + 1))
  end
end

return sampler
