-- stdlib/nn/utils/prune.lua: nn.utils.prune: parameters some elements of which are zero, by a mask:
-- the functions that scripts call. How masks are made is in prune_methods.lua.

local class = require "moonlet.class"
local computed = require "moonlet.nn.utils.computed"
local methods = require "moonlet.nn.utils.prune_methods"
local Module = require "moonlet.nn.module"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local prune = {}

for name, cls in pairs(methods) do
  if name:sub(1, 1) ~= "_" then prune[name] = cls end
end

local ONE = "(Module module, string name"

local read_identity = signature("nn.utils.prune.identity" .. ONE .. ")")

--- Pruning that prunes nothing: gives a parameter a mask of ones. The parameter is then computed as
--- `weight_orig` times the buffer `weight_mask`.
--- > net = ml.nn.utils.prune.identity(ml.nn.Linear(2, 2), "weight")
--- > net.weight_mask
---   {{1., 1.},
---    {1., 1.}}
---   Tensor (2, 2) float32
---@param module table the module
---@param name string the name of the parameter
---@return table module
function prune.identity(...)
  local module, name = read_identity(...)
  return methods._apply(methods.Identity(), module, name)
end

local AMOUNT = ", int|number amount"
local read_random = signature("nn.utils.prune.random_unstructured" .. ONE .. AMOUNT .. ")")

--- Prunes elements of a parameter at random: sets them to 0. The parameter is then computed as
--- `weight_orig` times the buffer `weight_mask`.
--- > net = ml.nn.utils.prune.random_unstructured(ml.nn.Linear(2, 2), "weight", 0.5)
--- > net.weight_mask:sum()
---   2.  Tensor () float32
---@param module table the module
---@param name string the name of the parameter
---@param amount number how many elements, or by a number from 0 to 1 that is no integer which part
---@return table module
function prune.random_unstructured(...)
  local module, name, amount = read_random(...)
  return methods._apply(methods.RandomUnstructured(amount), module, name)
end

local SCORES = ", Tensor? importance_scores=nil)"
local read_l1 = signature("nn.utils.prune.l1_unstructured" .. ONE .. AMOUNT .. SCORES)

--- Prunes the elements of a parameter of least absolute value: sets them to 0. The parameter is
--- then computed as `weight_orig` times the buffer `weight_mask`.
--- > net = ml.nn.Linear(2, 2)
--- > ml.nn.init.eye_(net.weight)
---   {{1., 0.},
---    {0., 1.}}
---   Tensor (2, 2) float32 requires_grad
--- > ml.nn.utils.prune.l1_unstructured(net, "weight", 2)
---   Linear(2 -> 2)         6
---   6 parameters
--- > net.weight_mask
---   {{1., 0.},
---    {0., 1.}}
---   Tensor (2, 2) float32
---@param module table the module
---@param name string the name of the parameter
---@param amount number how many elements, or by a number from 0 to 1 that is no integer which part
---@param importance_scores? moonlet.Tensor what is compared instead of the parameter, in its shape
---@return table module
---@shape parameter (*), importance_scores (*)
function prune.l1_unstructured(...)
  local module, name, amount, scores = read_l1(...)
  return methods._apply(methods.L1Unstructured(amount), module, name, scores)
end

local read_random_structured = signature("nn.utils.prune.random_structured" .. ONE .. AMOUNT
  .. ", int dim)")

--- Prunes slices of a parameter along a dimension at random: sets them to 0. The parameter is then
--- computed as `weight_orig` times the buffer `weight_mask`.
--- > net = ml.nn.utils.prune.random_structured(ml.nn.Linear(2, 2), "weight", 1, 1)
--- > net.weight_mask:sum()
---   2.  Tensor () float32
---@param module table the module
---@param name string the name of the parameter
---@param amount number how many slices, or by a number from 0 to 1 that is no integer which part
---@param dim integer the dimension of the slices, from 1
---@return table module
function prune.random_structured(...)
  local module, name, amount, dim = read_random_structured(...)
  return methods._apply(methods.RandomStructured(amount, dim), module, name)
end

local read_ln = signature("nn.utils.prune.ln_structured" .. ONE .. AMOUNT .. ", number n, int dim"
  .. SCORES)

--- Prunes the slices of a parameter along a dimension whose n-norm is least: sets them to 0. The
--- parameter is then computed as `weight_orig` times the buffer `weight_mask`.
--- > net = ml.nn.Linear(2, 2)
--- > net.weight:detach():copy_(ml.tensor { { 1, 1 }, { 2, 2 } })
---   {{1., 1.},
---    {2., 2.}}
---   Tensor (2, 2) float32
--- > ml.nn.utils.prune.ln_structured(net, "weight", 1, 2, 1)
---   Linear(2 -> 2)         6
---   6 parameters
--- > net.weight_mask
---   {{0., 0.},
---    {1., 1.}}
---   Tensor (2, 2) float32
---@param module table the module
---@param name string the name of the parameter
---@param amount number how many slices, or by a number from 0 to 1 that is no integer which part
---@param n number the exponent of the norm
---@param dim integer the dimension of the slices, from 1
---@param importance_scores? moonlet.Tensor what is compared instead of the parameter, in its shape
---@return table module
---@shape parameter (*), importance_scores (*)
function prune.ln_structured(...)
  local module, name, amount, n, dim, scores = read_ln(...)
  return methods._apply(methods.LnStructured(amount, n, dim), module, name, scores)
end

local read_custom = signature("nn.utils.prune.custom_from_mask" .. ONE .. ", Tensor mask)")

--- Prunes the elements of a parameter at which a mask is 0. The parameter is then computed as
--- `weight_orig` times the buffer `weight_mask`.
--- > net = ml.nn.Linear(2, 2)
--- > ml.nn.utils.prune.custom_from_mask(net, "weight", ml.eye(2))
---   Linear(2 -> 2)         6
---   6 parameters
--- > net.weight_mask
---   {{1., 0.},
---    {0., 1.}}
---   Tensor (2, 2) float32
---@param module table the module
---@param name string the name of the parameter
---@param mask moonlet.Tensor the mask, in the shape of the parameter
---@return table module
---@shape parameter (*), mask (*)
function prune.custom_from_mask(...)
  local module, name, mask = read_custom(...)
  return methods._apply(methods.CustomFromMask(mask), module, name)
end

-- The scores of each { module, name }: those given, else the parameters themselves.
local function scores_of(parameters, given)
  local out = {}
  for i, entry in ipairs(parameters) do
    if type(entry) ~= "table" or not Module.is_module(entry[1]) then
      fail("nn.utils.prune.global_unstructured: pairs { module, name } are expected, got %s",
        signature.describe(entry))
    end
    local module, name = entry[1], entry[2]
    local own = ml.is_tensor(module[name]) and module[name]:detach()
      or fail("nn.utils.prune.global_unstructured: there is no parameter '%s'", tostring(name))
    for _, one in ipairs(given or {}) do
      if one[1] == module and one[2] == name then own = one[3] end
    end
    out[i] = own
  end
  return out
end

local read_global = signature("nn.utils.prune.global_unstructured(table parameters, "
  .. "any pruning_method, table? importance_scores=nil, any... arguments)")

--- Prunes several parameters as if they were one vector.
--- > net = ml.nn.Sequential(ml.nn.Linear(3, 3), ml.nn.Linear(3, 1))
--- > prune = ml.nn.utils.prune
--- > both = { { net[1], "weight" }, { net[2], "weight" } }
--- > prune.global_unstructured(both, prune.L1Unstructured, nil, 0.5)
--- > net[1].weight_mask:sum() + net[2].weight_mask:sum()
---   6.  Tensor () float32
---@param parameters table[] an array of pairs { module, name }
---@param pruning_method table a class such as `prune.L1Unstructured`
---@param importance_scores? table[] an array of { module, name, scores }
---@param ... any the arguments of the class, `amount` first
function prune.global_unstructured(...)
  local parameters, cls, given, arguments = read_global(...)
  if #parameters == 0 then fail("nn.utils.prune.global_unstructured: 'parameters' is empty") end
  if not (class.is_class(cls) and class.is_subclass(cls, methods.BasePruningMethod)) then
    fail("nn.utils.prune.global_unstructured: 'pruning_method' must be a class of them, got %s",
      signature.describe(cls))
  end
  local method = cls(table.unpack(arguments))
  if method.PRUNING_TYPE ~= "unstructured" then
    fail("nn.utils.prune.global_unstructured: the method must be an unstructured one")
  end
  local scores, masks, sizes = scores_of(parameters, given), {}, {}
  for i, entry in ipairs(parameters) do
    local mask = rawget(entry[1], entry[2] .. "_mask") or ml.ones_like(scores[i])
    scores[i], masks[i] = scores[i]:reshape(-1), mask:reshape(-1)
    sizes[i] = #scores[i]
  end
  local container = methods.PruningContainer()
  container._tensor_name = "all"
  method._tensor_name = "all"
  container:add_pruning_method(method)
  local mask = container:_one_more(method, ml.cat(scores), ml.cat(masks))
  for i, part in ipairs(mask:split(sizes)) do
    local module, name = parameters[i][1], parameters[i][2]
    prune.custom_from_mask(module, name, part:reshape(module[name].shape))
  end
end

local read_remove = signature("nn.utils.prune.remove" .. ONE .. ")")

--- Makes pruning permanent: the parameter is one of its own again, with the zeros in it.
--- > net = ml.nn.utils.prune.identity(ml.nn.Linear(2, 2), "weight")
--- > ml.nn.utils.prune.remove(net, "weight")
---   Linear(2 -> 2)         6
---   6 parameters
---@param module table the module
---@param name string the name of the parameter
---@return table module
---@error the parameter is not pruned
function prune.remove(...)
  local module, name = read_remove(...)
  return methods._remove("nn.utils.prune.remove", module, name)
end

local read_is_pruned = signature "nn.utils.prune.is_pruned(Module module)"

--- Whether a parameter of a module, or of those below it, is pruned.
--- > ml.nn.utils.prune.is_pruned(ml.nn.Linear(2, 2))
---   false
---@param module table the module
---@return boolean
function prune.is_pruned(...)
  local module = read_is_pruned(...)
  for _, one in ipairs(module:modules()) do
    for name in pairs(rawget(one, "_computed") or {}) do
      if computed.find(one, name, "prune") then return true end
    end
  end
  return false
end

return options.namespace("nn.utils.prune", prune)
