-- stdlib/nn/utils/weight_norm.lua: nn.utils.weight_norm, the older form of
-- nn.utils.parametrizations.weight_norm, and the norms that both take.

local computed = require "moonlet.nn.utils.computed"
local ml = require "moonlet"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
local signature = require "moonlet.signature"

local norms = {}

--- The norms of the slices of `x` at each position of dimension `dim`, with the other dimensions of
--- size 1; the norm of all of it with `dim = false`.
---@param x moonlet.Tensor
---@param dim integer|false
---@return moonlet.Tensor
function norms._except(x, dim)
  if not dim then return x:norm(2) end
  local others = {}
  for d = 1, x.ndim do
    if d ~= dim then others[#others + 1] = d end
  end
  if #others == 0 then return x:abs() end
  return x:norm(2, others, true)
end

--- `v` with the norms `g`.
---@param v moonlet.Tensor
---@param g moonlet.Tensor
---@param dim integer|false
---@return moonlet.Tensor
function norms._weight(v, g, dim) return v * (g / norms._except(v, dim)) end

--- `dim` as a number from 1 for a tensor, or false.
---@param where string
---@param x moonlet.Tensor
---@param dim integer|boolean
---@return integer|false
function norms._dim(where, x, dim)
  if dim == false then return false end
  local at = dim ~= true and (dim < 0 and x.ndim + 1 + dim or dim)
  if not at or at < 1 or at > x.ndim then
    options.fail("%s: 'dim' %s is no dimension of shape %s", where, tostring(dim),
      tostring(x.shape))
  end
  return at
end

local KIND = "weight_norm"
local read = signature(
  'nn.utils.weight_norm(Module module, string name="weight", int|bool dim=1)')

--- Weight normalisation: splits a parameter into its norms, `weight_g`, and its direction,
--- `weight_v`. The weight is computed from both before each call. Newer scripts use
--- `parametrizations.weight_norm`.
--- > net = ml.nn.utils.weight_norm(ml.nn.Linear(2, 3))
--- > net.weight_g.shape
---   (3, 1)
---@param module table the module
---@param name? string the name of the parameter
---@param dim? integer|boolean the dimension whose slices have norms of their own, from 1; false for
---   one norm of all
---@return table module
---@formula w = g v / ||v||
---@source Salimans and Kingma, 2016: Weight normalization
function norms.weight_norm(...)
  local module, name, dim = read(...)
  local weight = computed.parameter_of("nn.utils.weight_norm", module, name)
  dim = norms._dim("nn.utils.weight_norm", weight, dim)
  module:_forget(name)
  module[name .. "_g"] = parameter.new(norms._except(weight:detach(), dim))
  module[name .. "_v"] = parameter.new(weight:detach())
  computed.install(module, name, { kind = KIND, dim = dim, compute = function(self, record)
    return norms._weight(self[name .. "_v"], self[name .. "_g"], record.dim)
  end })
  return module
end

local read_remove = signature 'nn.utils.remove_weight_norm(Module module, string name="weight")'

--- Undoes `weight_norm`: the weight is a parameter again, with its present value.
--- > net = ml.nn.utils.weight_norm(ml.nn.Linear(2, 3))
--- > ml.nn.utils.remove_weight_norm(net)
---   Linear(2 -> 3)         9
---   9 parameters
---@param module table the module
---@param name? string the name of the parameter
---@return table module
---@error the parameter has no weight normalisation
function norms.remove_weight_norm(...)
  local module, name = read_remove(...)
  local record = computed.remove("nn.utils.remove_weight_norm", module, name, KIND)
  local _ <close> = ml.no_grad()
  local weight = record.compute(module, record)
  module:_forget(name .. "_g")
  module:_forget(name .. "_v")
  module[name] = parameter.new(weight)
  return module
end

return norms
