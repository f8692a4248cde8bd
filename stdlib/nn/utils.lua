-- stdlib/nn/utils.lua: nn.utils: clipping gradients, parameters as one vector, modules made in
-- another way; further parts are loaded when one of their names is first used.

local Module = require "moonlet.nn.module"
local class = require "moonlet.class"
local conv = require "moonlet.nn.conv"
local init = require "moonlet.nn.init"
local ml = require "moonlet"
local notes = require "moonlet.files.notes"
local options = require "moonlet.options"
local shared_norms = require "moonlet.nn.shared_norms"
local signature = require "moonlet.signature"

local utils = {}

-- Parameters are given as a module, one tensor, or an array of tensors.
local function parameters_of(given)
  if ml.is_tensor(given) then return { given } end
  return Module.is_module(given) and given:parameters() or given
end

-- The gradients, of sparse ones the values, each row once: what is limited is their sums.
local function gradients_of(parameters)
  local out = {}
  for _, p in ipairs(parameters_of(parameters)) do
    local g = p.grad
    if g and g.is_sparse then
      p.grad = g:coalesce()
      g = g:_nnz() > 0 and p.grad:values()
    end
    if g then out[#out + 1] = g end
  end
  return out
end

-- The floating tensors in lists of one device and dtype, and those to take one by one: complex
-- ones, or all where `foreach` is false. What lies where another one does (a gradient that was
-- named twice) is alone in its list.
local function lists_of(tensors, foreach)
  if foreach == false then return {}, tensors end
  local lists, by_kind, seen, complex = {}, {}, {}, {}
  for _, t in ipairs(tensors) do
    if t:is_complex() then
      complex[#complex + 1] = t
    else
      local kind = ("%s %s"):format(t.device, t.dtype)
      local position = ("%s %d"):format(kind, ml._address(t))
      local list = not seen[position] and by_kind[kind] or {}
      if #list == 0 then lists[#lists + 1] = list end
      if not seen[position] then by_kind[kind] = list end
      list[#list + 1], seen[position] = t, t:numel() > 0
    end
  end
  return lists, complex
end

-- The norms whose norm is that of all tensors. That of a list is found in one pass, but for orders
-- that make no norm of norms.
local function norms_of(tensors, norm_type, foreach)
  local norms, lists = {}, {}
  local each = tensors
  if norm_type > 0 then lists, each = lists_of(tensors, foreach) end
  for i, list in ipairs(lists) do norms[i] = ml._internal.list_norm(list, norm_type) end
  for _, t in ipairs(each) do norms[#norms + 1] = t:norm(norm_type) end
  return norms
end

-- The norm of all tensors as one vector, on the device of the first.
local function total_norm(tensors, norm_type, foreach)
  if #tensors == 0 then return ml.zeros({}) end
  local norms = norms_of(tensors, norm_type, foreach)
  local total = norms[1]
  if #norms > 1 then
    for i, norm in ipairs(norms) do norms[i] = norm:to(tensors[1].device) end
    total = ml.stack(norms):norm(norm_type)
  end
  return total
end

local function check_finite(where, total, error_if_nonfinite)
  if error_if_nonfinite and not total:isfinite():item() then
    options.fail("%s: the norm of the gradients is %g", where, total:item())
  end
end

-- The gradients of parameters and their norm: over all ranks, of those that ranks have sharded.
local function norm_of_parameters(parameters, norm_type, foreach)
  local all, norms = {}, {}
  for _, list in ipairs(shared_norms.lists(parameters)) do
    local gradients = gradients_of(list)
    table.move(gradients, 1, #gradients, #all + 1, all)
    if list.combine then
      local like = { dtype = list[1].dtype, device = list[1].device }
      local filled = {}
      for _, g in ipairs(gradients) do filled[#filled + 1] = g:numel() > 0 and g or nil end
      local norm = #filled > 0 and total_norm(filled, norm_type, foreach)
        or ml.full({}, norm_type < 0 and math.huge or 0, like)
      norms[#norms + 1] = list.combine(norm, norm_type)
    elseif #gradients > 0 then
      norms[#norms + 1] = total_norm(gradients, norm_type, foreach)
    end
  end
  if #norms == 0 then return all, ml.zeros({}) end
  for i = 2, #norms do norms[i] = norms[i]:to(norms[1].device) end
  return all, #norms == 1 and norms[1] or ml.stack(norms):norm(norm_type)
end

-- Scales gradients whose norm is `total` to at most `max_norm`.
local function scale_to(gradients, max_norm, total, foreach)
  local lists, others = lists_of(gradients, foreach)
  for _, list in ipairs(lists) do
    ml._internal.list_limit_norm(list, total:to(list[1].device), max_norm)
  end
  for _, g in ipairs(others) do
    g:mul_((max_norm / (total + 1e-6)):clamp { max = 1 }:to(g.device))
  end
end

local read_clip_norm = signature("nn.utils.clip_grad_norm_(Module|Tensor|Tensor[] parameters, "
  .. "number>=0 max_norm, number norm_type=2, bool error_if_nonfinite=false, bool? foreach=nil)")

--- Clips the norm of all gradients together, in place. The gradients are taken as one vector; where
--- its norm exceeds `max_norm` all are scaled by the same factor. The result is the norm before, a
--- tensor; nothing waits for the device. Of parameters that `ml.distributed.fully_shard` has
--- sharded it is the norm over all ranks, which must all call it.
--- > w = ml.nn.Parameter(ml.tensor { 3.0, 4 })
--- > w:pow(2):sum():backward()
--- > ml.nn.utils.clip_grad_norm_(w, 1)
---   10.  Tensor () float32
--- > w.grad
---   {0.6000, 0.8000}
---   Tensor (2,) float32
---@param parameters table|Tensor|Tensor[] a module, an array of parameters, or one parameter
---@param max_norm number the greatest norm that is allowed
---@param norm_type? number the exponent p of the norm; `math.huge` takes the greatest absolute
---   value
---@param error_if_nonfinite? boolean whether a norm that is not finite is an error
---@param foreach? boolean false to take one tensor after the other: all of a device and dtype are
---   taken at once unless given
---@return Tensor
---@shape parameters (*), ... -> ()
---@formula g = g min(1, max_norm / (||g||_p + 1e-6))
---@error the norm is not finite and `error_if_nonfinite` is true
---@source Pascanu et al., 2013: On the difficulty of training recurrent neural networks
function utils.clip_grad_norm_(...)
  local parameters, max_norm, norm_type, error_if_nonfinite, foreach = read_clip_norm(...)
  local _ <close> = ml.no_grad()
  local all, total = norm_of_parameters(parameters_of(parameters), norm_type, foreach)
  check_finite("clip_grad_norm_", total, error_if_nonfinite)
  scale_to(all, max_norm, total, foreach)
  return total
end

local read_clip_with = signature("nn.utils.clip_grads_with_norm_("
  .. "Module|Tensor|Tensor[] parameters, number>=0 max_norm, Tensor total_norm, "
  .. "bool? foreach=nil)")

--- Scales gradients as `clip_grad_norm_` does, by a norm that is known already.
--- > w = ml.nn.Parameter(ml.tensor { 3.0, 4 })
--- > w:pow(2):sum():backward()
--- > ml.nn.utils.clip_grads_with_norm_(w, 1, ml.tensor(10.0))
--- > w.grad
---   {0.6000, 0.8000}
---   Tensor (2,) float32
---@param parameters table|Tensor|Tensor[] a module, an array of parameters, or one parameter
---@param max_norm number the greatest norm that is allowed
---@param total_norm Tensor the norm of the gradients, as `get_total_norm` gives it
---@param foreach? boolean false to take one tensor after the other: all of a device and dtype are
---   taken at once unless given
---@shape parameters (*), ..., total_norm ()
---@formula g = g min(1, max_norm / (total_norm + 1e-6))
function utils.clip_grads_with_norm_(...)
  local parameters, max_norm, total, foreach = read_clip_with(...)
  local _ <close> = ml.no_grad()
  scale_to(gradients_of(parameters), max_norm, total, foreach)
end

local read_clip_value = signature(
  "nn.utils.clip_grad_value_(Module|Tensor|Tensor[] parameters, number>=0 clip_value, "
  .. "bool? foreach=nil)")

--- Clips every element of the gradients to a range, in place.
--- > w = ml.nn.Parameter(ml.tensor { 3.0, 4 })
--- > w:pow(2):sum():backward()
--- > ml.nn.utils.clip_grad_value_(w, 7)
--- > w.grad
---   {6., 7.}
---   Tensor (2,) float32
---@param parameters table|Tensor|Tensor[] a module, an array of parameters, or one parameter
---@param clip_value number the greatest absolute value that is allowed
---@param foreach? boolean false to take one tensor after the other: all of a device and dtype are
---   taken at once unless given
---@shape parameters (*), ...
---@formula g = min(max(g, -clip_value), clip_value)
function utils.clip_grad_value_(...)
  local parameters, clip_value, foreach = read_clip_value(...)
  local _ <close> = ml.no_grad()
  local lists, others = lists_of(gradients_of(parameters), foreach)
  for _, list in ipairs(lists) do ml._internal.list_clamp(list, -clip_value, clip_value) end
  for _, g in ipairs(others) do g:clamp_(-clip_value, clip_value) end
end

local read_total_norm = signature("nn.utils.get_total_norm(Tensor|Tensor[] tensors, "
  .. "number norm_type=2, bool error_if_nonfinite=false, bool? foreach=nil)")

--- Norm of several tensors as one vector; it is not recorded.
--- > ml.nn.utils.get_total_norm { ml.tensor { 3.0 }, ml.tensor { 4.0 } }
---   5.  Tensor () float32
---@param tensors Tensor|Tensor[] an array of tensors, or one
---@param norm_type? number the exponent p of the norm; `math.huge` takes the greatest absolute
---   value
---@param error_if_nonfinite? boolean whether a norm that is not finite is an error
---@param foreach? boolean false to take one tensor after the other: all of a device and dtype are
---   taken at once unless given
---@return Tensor
---@shape tensors (*), ... -> ()
---@formula y = (sum_i |x_i|^p)^(1/p)
function utils.get_total_norm(...)
  local tensors, norm_type, error_if_nonfinite, foreach = read_total_norm(...)
  local _ <close> = ml.no_grad()
  local total = total_norm(parameters_of(tensors), norm_type, foreach)
  check_finite("get_total_norm", total, error_if_nonfinite)
  return total
end

local read_to_vector = signature(
  "nn.utils.parameters_to_vector(Module|Tensor|Tensor[] parameters)")

--- All parameters one after the other in one vector, on the tape.
--- > ml.nn.utils.parameters_to_vector { ml.ones(2), ml.zeros(1, 2) }
---   {1., 1., 0., 0.}
---   Tensor (4,) float32
---@param parameters table|Tensor|Tensor[] a module, an array of parameters, or one parameter
---@return Tensor
---@shape parameters (*), ... -> (sum of their elements)
function utils.parameters_to_vector(...)
  local parts = {}
  for i, p in ipairs(parameters_of((read_to_vector(...)))) do parts[i] = p:reshape(-1) end
  return ml.cat(parts)
end

local read_from_vector = signature(
  "nn.utils.vector_to_parameters(Tensor vec, Module|Tensor|Tensor[] parameters)")

--- Copies the elements of a vector into parameters, one after the other.
--- > w = ml.nn.Parameter(ml.ones(2))
--- > ml.nn.utils.vector_to_parameters(ml.tensor { 3.0, 4 }, w)
--- > w
---   {3., 4.}
---   Tensor (2,) float32 requires_grad
---@param vec Tensor the vector
---@param parameters table|Tensor|Tensor[] a module, an array of parameters, or one parameter
---@shape vec (sum of the parameters' elements)
---@error the vector has too few elements or too many
function utils.vector_to_parameters(...)
  local vec, given = read_from_vector(...)
  local parameters, count, at = parameters_of(given), 0, 1
  for _, p in ipairs(parameters) do count = count + p:numel() end
  if vec.ndim ~= 1 or #vec ~= count then
    options.fail("vector_to_parameters: 'vec' has shape %s, the parameters have %d elements",
      tostring(vec.shape), count)
  end
  local _ <close> = ml.no_grad()
  for _, p in ipairs(parameters) do
    p:copy_(vec:narrow(1, at, p:numel()):view_as(p))
    at = at + p:numel()
  end
end

local read_skip_init = signature "nn.utils.skip_init(any module_cls, any... args)"

--- Module whose parameters are not initialised, for one whose weights are loaded next. The
--- functions of nn.init do nothing meanwhile, so that no random numbers are drawn.
--- > ml.nn.utils.skip_init(ml.nn.Linear, 3, 4)
---   Linear(3 -> 4)        16
---   16 parameters
---@param module_cls table the class
---@param ... any the arguments of its constructor
---@return table module
function utils.skip_init(module_cls, ...)
  read_skip_init(module_cls)
  if not (class.is_class(module_cls) and class.is_subclass(module_cls, Module)) then
    options.fail("nn.utils.skip_init: a class of modules is expected, got %s",
      signature.describe(module_cls))
  end
  local _ <close> = init._skip()
  return module_cls(...)
end

local CONVOLUTIONS = { [4] = { "Conv2d", "ConvTranspose2d" },
  [5] = { "Conv3d", "ConvTranspose3d" } }

-- Puts the weights of all convolutions of that rank below `module` into a memory format.
local function convert_weights(module, rank, format)
  for _, one in ipairs(module:modules()) do
    for _, name in ipairs(CONVOLUTIONS[rank]) do
      if class.is_instance(one, conv[name]) then
        local weight = one.weight
        local laid = weight:detach():contiguous { memory_format = format }
        ml._rebind(weight, laid:requires_grad_(weight.requires_grad))
      end
    end
  end
  return module
end

local FORMAT = "(Module module, string memory_format)"
local read_format2 = signature("nn.utils.convert_conv2d_weight_memory_format" .. FORMAT)

--- Converts the weights of all two-dimensional convolutions of a module to a memory format.
--- > net = ml.nn.Conv2d(2, 3, 3)
--- > ml.nn.utils.convert_conv2d_weight_memory_format(net, "channels_last").weight:stride()
---   (18, 1, 6, 2)
---@param module table the module
---@param memory_format string "channels_last" or "contiguous_format"
---@return table module
---@shape weights (o, c, kh, kw), whose shapes stay
function utils.convert_conv2d_weight_memory_format(...)
  local module, format = read_format2(...)
  return convert_weights(module, 4, format)
end

local read_format3 = signature("nn.utils.convert_conv3d_weight_memory_format" .. FORMAT)

--- Converts the weights of all three-dimensional convolutions of a module to a memory format.
--- > net = ml.nn.Conv3d(2, 3, 3)
--- > ml.nn.utils.convert_conv3d_weight_memory_format(net, "channels_last_3d").weight:stride()
---   (54, 1, 18, 6, 2)
---@param module table the module
---@param memory_format string "channels_last_3d" or "contiguous_format"
---@return table module
---@shape weights (o, c, kd, kh, kw), whose shapes stay
function utils.convert_conv3d_weight_memory_format(...)
  local module, format = read_format3(...)
  return convert_weights(module, 5, format)
end

local read_consume = signature(
  "nn.utils.consume_prefix_in_state_dict_if_present(table state_dict, string prefix)")

--- Removes a prefix from the names of a state dict that have it, in place. "module." is the one
--- that `DataParallel` and PyTorch's `DistributedDataParallel` save.
--- > state = { ["module.weight"] = ml.ones(2) }
--- > ml.nn.utils.consume_prefix_in_state_dict_if_present(state, "module.")
--- > state
---   name    shape  dtype
---   weight  (2,)   float32
---@param state_dict table<string, Tensor> the state dict
---@param prefix string what is removed
---@shape state_dict (*), ..., whose tensors stay
function utils.consume_prefix_in_state_dict_if_present(...)
  local state, prefix = read_consume(...)
  for _, key in ipairs(notes.keys(state)) do
    if type(key) == "string" and key:sub(1, #prefix) == prefix and #prefix > 0 then
      local value = state[key]
      state[key] = nil
      notes.add_key(state, key:sub(#prefix + 1))
      state[key:sub(#prefix + 1)] = value
    end
  end
end

return options.namespace("nn.utils", utils, options.late {
  ["nn.utils.rnn"] = { "rnn" },
  ["nn.utils.parametrize"] = { "parametrize" },
  ["nn.utils.parametrizations"] = { "parametrizations" },
  ["nn.utils.prune"] = { "prune" },
  ["nn.utils.stateless"] = { "stateless" },
  ["nn.utils.weight_norm"] = { "weight_norm", "remove_weight_norm" },
  ["nn.utils.spectral_norm"] = { "spectral_norm", "remove_spectral_norm" },
  ["nn.utils.fusion"] = { "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval",
    "fuse_linear_bn_weights" },
})
