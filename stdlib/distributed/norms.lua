-- stdlib/distributed/norms.lua: the norm of gradients that ranks have shared out, for nn.utils.

local collectives = require "moonlet.distributed.collectives"
local shared_norms = require "moonlet.nn.shared_norms"

local norms = {}

-- One function for each group, so that its parameters are taken together.
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

--- Says that a parameter is a part of one that the ranks of a group share.
---@param p moonlet.Tensor
---@param group table
function norms.add(p, group)
  by_group[group] = by_group[group] or combine_over(group)
  shared_norms.add(p, by_group[group])
end

return norms
