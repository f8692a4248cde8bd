-- stdlib/data/iterable.lua: data sets that are gone through from the start, as streams are, and
-- several of them one after the other.

local class = require "moonlet.class"
local dataset = require "moonlet.data.dataset"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local iterable = {}

--- The base class of data sets that are read as a stream, without positions. A subclass has
--- `iter()`, which returns an iterator that gives the fields of the next example and at the end
--- nothing, and `size()` where the number of examples is known. `a + b` is a `ChainDataset`.
--- > Count = ml.class("Count", ml.data.IterableDataset)
--- > function Count:iter()
---     local i = 0
---     return function() i = i + 1 if i <= 3 then return ml.tensor(i) end end
---   end
--- > for x in ml.data.DataLoader(Count(), 2) do print(x) end
---   {1, 2}
---   Tensor (2,) int64
---   {3}
---   Tensor (1,) int64
local IterableDataset = class("IterableDataset", dataset.Dataset)
iterable.IterableDataset = IterableDataset

--- One pass: an iterator that gives the fields of each example; every such data set defines it.
--- > Two = ml.class("Two", ml.data.IterableDataset)
--- > function Two:size() return 2 end
--- > function Two:iter()
---     local i = 0
---     return function() i = i + 1 if i <= 2 then return i end end
---   end
--- > for x in Two():iter() do print(x) end
---   1
---   2
---@return fun(): ...
function IterableDataset:iter() fail("%s: has no method iter", class.name(class.of(self))) end

function IterableDataset.__add(a, b) return iterable.ChainDataset { a, b } end

local read_chain = signature "data.ChainDataset(Dataset[] datasets)"

--- Concatenation of iterable data sets: one pass goes through each in turn. `a + b` makes one.
--- > Two = ml.class("Two", ml.data.IterableDataset)
--- > function Two:size() return 2 end
--- > function Two:iter()
---     local i = 0
---     return function() i = i + 1 if i <= 2 then return i end end
---   end
--- > for x in ml.data.ChainDataset({ Two(), Two() }):iter() do print(x) end
---   1
---   2
---   1
---   2
---@param datasets any[] an array of iterable data sets
local ChainDataset = class("ChainDataset", IterableDataset)
iterable.ChainDataset = ChainDataset

function ChainDataset:init(...)
  self.sets = read_chain(...)
  if #self.sets == 0 then fail "ChainDataset: got no data sets" end
  for i, set in ipairs(self.sets) do
    if not class.is_instance(set, IterableDataset) then
      fail("ChainDataset: data set %d is no IterableDataset; see ConcatDataset", i)
    end
  end
end

--- Number of examples: the sum of the data sets' sizes; fails if one of them does not know it.
--- > Two = ml.class("Two", ml.data.IterableDataset)
--- > function Two:size() return 2 end
--- > function Two:iter()
---     local i = 0
---     return function() i = i + 1 if i <= 2 then return i end end
---   end
--- > ml.data.ChainDataset({ Two(), Two() }):size()
---   4
---@return integer
function ChainDataset:size()
  local total = 0
  for _, set in ipairs(self.sets) do total = total + #set end
  return total
end

--- One pass through each data set in turn.
--- > Two = ml.class("Two", ml.data.IterableDataset)
--- > function Two:size() return 2 end
--- > function Two:iter()
---     local i = 0
---     return function() i = i + 1 if i <= 2 then return i end end
---   end
--- > for x in ml.data.ChainDataset({ Two(), Two() }):iter() do print(x) end
---   1
---   2
---   1
---   2
---@return fun(): ...
function ChainDataset:iter()
  local at, next_example = 0, nil
  local function step(...)
    if select("#", ...) > 0 and (...) ~= nil then return ... end
    at = at + 1
    if at > #self.sets then
      next_example = function() end
      return nil
    end
    next_example = self.sets[at]:iter()
    return step(next_example())
  end
  return function()
    if next_example then return step(next_example()) end
    return step()
  end
end

return iterable
