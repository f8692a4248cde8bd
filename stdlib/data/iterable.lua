-- stdlib/data/iterable.lua: data sets that are gone through from the start, as streams are, and
-- several of them one after the other.

local class = require "moonlet.class"
local dataset = require "moonlet.data.dataset"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local iterable = {}

--- The base of data sets without positions: a subclass has `iter()`, which returns an iterator that
--- gives the fields of the next example and in the end nothing, and `size()` where the number of
--- examples is known. `a + b` is a `ChainDataset`.
local IterableDataset = class("IterableDataset", dataset.Dataset)
iterable.IterableDataset = IterableDataset

--- One pass: an iterator that gives the fields of each example; every such data set defines it.
---@return fun(): ...
function IterableDataset:iter() fail("%s: has no method iter", class.name(class.of(self))) end

function IterableDataset.__add(a, b) return iterable.ChainDataset { a, b } end

local read_chain = signature "data.ChainDataset(Dataset[] datasets)"

--- Data sets without positions one after the other: `data.ChainDataset { a, b }`.
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

--- How many examples there are, where each of the data sets knows it.
---@return integer
function ChainDataset:size()
  local total = 0
  for _, set in ipairs(self.sets) do total = total + #set end
  return total
end

--- One pass through each.
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
