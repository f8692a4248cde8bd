-- stdlib/data/sampler.lua: samplers: the order in which a loader takes examples. `order()` gives a
-- 1-D tensor of positions for one pass; `iter()` gives them one by one.

local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local fail = options.fail

local sampler = {}

--- The base of samplers: a subclass has `order()` and `size()`.
local Sampler = class("Sampler")
sampler.Sampler = Sampler

function Sampler.__len(self) return self:size() end

--- `for position in s:iter() do`.
function Sampler:iter()
  local order, i = self:order():totable(), 0
  return function()
    i = i + 1
    return order[i]
  end
end

local function count_of(where, source)
  if math.type(source) == "integer" and source >= 0 then return source end
  if type(source) == "table" then return #source end
  fail("%s: a data set or a count is wanted, got %s", where, tostring(source))
end

--- From the first to the last.
local SequentialSampler = class("SequentialSampler", Sampler)
sampler.SequentialSampler = SequentialSampler

function SequentialSampler:init(source) self.count = count_of("SequentialSampler", source) end
function SequentialSampler:size() return self.count end

function SequentialSampler:order()
  if self.count == 0 then return ml.zeros { 0, dtype = ml.int64 } end
  return ml.arange(self.count)
end

--- In a new random order at each pass. Options: `replacement` (false), `num_samples`.
local RandomSampler = class("RandomSampler", Sampler)
sampler.RandomSampler = RandomSampler

function RandomSampler:init(source, given)
  local o = options.read("RandomSampler", given,
    { replacement = false, num_samples = options.none })
  self.count = count_of("RandomSampler", source)
  self.replacement = o.replacement
  self.num_samples = options.integer("RandomSampler", "num_samples", o.num_samples or self.count, 0)
  if not o.replacement and self.num_samples > self.count then
    fail("RandomSampler: %d samples of %d examples want replacement", self.num_samples, self.count)
  end
end

function RandomSampler:size() return self.num_samples end

function RandomSampler:order()
  if self.num_samples == 0 then return ml.zeros { 0, dtype = ml.int64 } end
  if self.replacement then
    return ml.randint(self.count, { self.num_samples })
  end
  return ml.randperm(self.count):narrow(1, 1, self.num_samples)
end

--- Draws `num_samples` positions with probabilities proportional to `weights`. Options:
--- `replacement` (true).
local WeightedRandomSampler = class("WeightedRandomSampler", Sampler)
sampler.WeightedRandomSampler = WeightedRandomSampler

function WeightedRandomSampler:init(weights, num_samples, given)
  local o = options.read("WeightedRandomSampler", given, { replacement = true })
  if type(weights) == "table" then weights = ml.tensor(weights, { dtype = ml.float64 }) end
  if not ml.is_tensor(weights) or weights.ndim ~= 1 or #weights == 0 then
    fail("WeightedRandomSampler: the weights must be an array or a 1-D tensor")
  end
  self.weights = weights
  self.replacement = o.replacement
  self.num_samples = options.integer("WeightedRandomSampler", "num_samples", num_samples, 1)
end

function WeightedRandomSampler:size() return self.num_samples end

function WeightedRandomSampler:order()
  return ml.multinomial(self.weights, self.num_samples, self.replacement)
end

--- Cuts the order of another sampler into batches: tensors of `batch_size` positions; the last may
--- be shorter, or is left out with `drop_last`.
local BatchSampler = class("BatchSampler", Sampler)
sampler.BatchSampler = BatchSampler

function BatchSampler:init(source, batch_size, drop_last)
  if not class.is_instance(source, Sampler) then
    fail("BatchSampler: a sampler is wanted, got %s", type(source))
  end
  self.source = source
  self.batch_size = options.integer("BatchSampler", "batch_size", batch_size, 1)
  self.drop_last = drop_last == true
end

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
