-- stdlib/optim/momenta.lua: the momenta that CyclicLR and OneCycleLR change against the rates: the
-- option `momentum` of an optimiser, or the first of its `betas`.

local options = require "moonlet.options"

local momenta = {}

--- Whether the momentum is the first of the `betas`; an error for optimisers without either.
---@param where string for messages
---@param optimizer table
---@return boolean
function momenta.in_betas(where, optimizer)
  if optimizer.defaults.betas ~= nil then return true end
  if optimizer.defaults.momentum ~= nil then return false end
  options.fail("%s: 'cycle_momentum' wants an optimiser with a momentum or betas, %s has none",
    where, optimizer.name)
end

--- Sets the momentum of a group.
---@param group table
---@param in_betas boolean
---@param value number
function momenta.set(group, in_betas, value)
  if in_betas then
    group.betas = { value, table.unpack(group.betas, 2) }
  else
    group.momentum = value
  end
end

--- Begins with the largest momentum and notes both in the groups.
---@param optimizer table
---@param in_betas boolean
---@param least number[]
---@param most number[]
function momenta.begin(optimizer, in_betas, least, most)
  for i, group in ipairs(optimizer.param_groups) do
    momenta.set(group, in_betas, most[i])
    group.max_momentum, group.base_momentum = most[i], least[i]
  end
end

return momenta
