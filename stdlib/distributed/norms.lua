-- stdlib/distributed/norms.lua: the norm of gradients that ranks have sharded, for nn.utils.

local collectives = require "moonlet.distributed.collectives"
local shared_norms = require "moonlet.nn.shared_norms"

local norms = {}

-- One function for each group, or pair of groups, so that their parameters are taken together.
local by_group = setmetatable({}, { __mode = "k" })

local REDUCTIONS = { [math.huge] = "max", [-math.huge] = "min", [0] = "sum" }

local function combine_over(group)
  return function(norm, norm_type)
    local reduction = REDUCTIONS[norm_type]
    local all = norm:double():cpu()
    if not reduction then all = all:pow(norm_type) end
    collectives.all_reduce(all, reduction or "sum", { group = group })
    if not reduction then all = all:pow(1 / norm_type) end
    return all:to { dtype = norm.dtype, device = norm.device }
  end
end

-- Over the ranks that share a part, then over those that share the whole.
local function combine_over_both(group, outer)
  local within, across = combine_over(group), combine_over(outer)
  return function(norm, norm_type) return across(within(norm, norm_type), norm_type) end
end

--- Says that a parameter is a part of one that the ranks of a group share.
---@param p moonlet.Tensor
---@param group table
---@param outer? table the group that shares what the first one has a part of
function norms.add(p, group, outer)
  local known = by_group[group] or setmetatable({}, { __mode = "k" })
  by_group[group] = known
  local key = outer or group
  known[key] = known[key] or outer and combine_over_both(group, outer) or combine_over(group)
  shared_norms.add(p, known[key])
end

return norms
