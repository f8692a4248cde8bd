-- stdlib/data/sampler.lua: samplers: the order in which a loader takes examples. `order()` gives a
-- 1-D tensor of positions for one pass; `iter()` gives them one by one.

local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local sampler = {}

--- The base of samplers: a subclass has `order()` and `size()`.
local Sampler = class("Sampler")
sampler.Sampler = Sampler

signature.add_type("Sampler", "a sampler", function(value)
  return class.is_instance(value, Sampler) and value or nil
end)

signature.add_type("Source", "a data set or a count", function(value)
  if type(value) == "number" then
    local count = math.tointeger(value)
    return count and count >= 0 and count or nil
  end
  return type(value) == "table" and #value or nil
end, true)

function Sampler.__len(self) return self:size() end

--- `for position in s:iter() do`.
function Sampler:iter()
  local order, i = self:order():totable(), 0
  return function()
    i = i + 1
    return order[i]
  end
end

local read_sequential = signature "data.SequentialSampler(Source data_source)"

--- From the first to the last; `data_source` is a data set or a count.
local SequentialSampler = class("SequentialSampler", Sampler)
sampler.SequentialSampler = SequentialSampler

function SequentialSampler:init(...) self.count = read_sequential(...) end

--- How many positions one pass has, as `#sampler`.
---@return integer
function SequentialSampler:size() return self.count end

--- The positions of one pass, drawn anew where the sampler is random.
---@return Tensor
function SequentialSampler:order()
  if self.count == 0 then return ml.zeros { 0, dtype = ml.int64 } end
  return ml.arange(self.count)
end

local read_random = signature("data.RandomSampler(Source data_source, bool replacement=false, "
  .. "int>=0? num_samples=nil, Generator? generator=nil)")

--- In a new random order at each pass. Options: `replacement` (false), `num_samples`, `generator`.
local RandomSampler = class("RandomSampler", Sampler)
sampler.RandomSampler = RandomSampler

function RandomSampler:init(...)
  local o = read_random:table(...)
  self.count, self.replacement, self.generator = o.data_source, o.replacement, o.generator
  self.num_samples = o.num_samples or self.count
  if self.num_samples > 0 and self.count == 0 then
    fail("RandomSampler: there are no examples to draw %d samples from", self.num_samples)
  elseif not o.replacement and self.num_samples > self.count then
    fail("RandomSampler: %d samples of %d examples want replacement", self.num_samples, self.count)
  end
end

--- How many positions one pass has, as `#sampler`.
---@return integer
function RandomSampler:size() return self.num_samples end

--- The positions of one pass, drawn anew where the sampler is random.
---@return Tensor
function RandomSampler:order()
  if self.num_samples == 0 then return ml.zeros { 0, dtype = ml.int64 } end
  if self.replacement then
    return ml.randint(1, self.count + 1, { self.num_samples },
      { dtype = ml.int64, generator = self.generator })
  end
  return ml.randperm(self.count, { generator = self.generator }):narrow(1, 1, self.num_samples)
end

local read_weighted = signature("data.WeightedRandomSampler(Tensor|number[]>=0 weights, "
  .. "int>=1 num_samples, bool replacement=true, Generator? generator=nil)")

--- Draws `num_samples` positions with probabilities proportional to `weights`. Options:
--- `replacement` (true), `generator`.
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

--- How many positions one pass has, as `#sampler`.
---@return integer
function WeightedRandomSampler:size() return self.num_samples end

--- The positions of one pass, drawn anew where the sampler is random.
---@return Tensor
function WeightedRandomSampler:order()
  return ml.multinomial(self.weights, self.num_samples, self.replacement,
    { generator = self.generator })
end

local read_batch = signature(
  "data.BatchSampler(Sampler sampler, int>=1 batch_size, bool drop_last=false)")

--- Cuts the order of another sampler into batches: tensors of `batch_size` positions; the last may
--- be shorter, or is left out with `drop_last`.
local BatchSampler = class("BatchSampler", Sampler)
sampler.BatchSampler = BatchSampler

function BatchSampler:init(...)
  self.source, self.batch_size, self.drop_last = read_batch(...)
end

--- How many batches one pass has, as `#sampler`.
---@return integer
function BatchSampler:size()
  local count = #self.source
  return self.drop_last and count // self.batch_size
    or (count + self.batch_size - 1) // self.batch_size
end

--- `for positions in s:iter() do`.
function BatchSampler:iter()
  local order, batches, b = self.source:order(), self:size(), 0
  return function()
    if b == batches then return nil end
    local first = b * self.batch_size + 1
    b = b + 1
    return order:narrow(1, first, math.min(self.batch_size, #order - first + 1))
  end
end

return sampler
