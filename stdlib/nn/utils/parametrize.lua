-- stdlib/nn/utils/parametrize.lua: nn.utils.parametrize: parameters that are functions of others.
-- A parametrised module gets a class of its own, in which reading the tensor computes it.

local class = require "moonlet.class"
local containers = require "moonlet.nn.containers"
local dicts = require "moonlet.nn.dicts"
local ml = require "moonlet"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
local signature = require "moonlet.signature"
local fail = options.fail

local parametrize = {}

-- What was computed, by its list, while `cached` holds.
local cache, holding = nil, 0

local read_cached = signature "nn.utils.parametrize.cached(any? f=nil, any... args)"

--- Runs a function, or the rest of a block, with each parametrised tensor computed once and kept.
--- With a function its results are returned; without, the result is held by `local _ <close> =`
--- until the block ends. For networks that use a tensor several times in a step.
--- > net = ml.nn.utils.parametrizations.orthogonal(ml.nn.Linear(2, 2))
--- > ml.nn.utils.parametrize.cached(function() return net(net(ml.ones(1, 2))).shape end)
---   (1, 2)
---@param f? function the function
---@param ... any its arguments
---@return any ... its results, or the value to hold
function parametrize.cached(f, ...)
  read_cached(f)
  if holding == 0 then cache = {} end
  holding = holding + 1
  local guard = setmetatable({}, { __close = function()
    holding = holding - 1
    if holding == 0 then cache = nil end
  end })
  return options.under("nn.utils.parametrize.cached", guard, f, ...)
end

-- Puts the elements of `value` behind the Lua value `tensor`.
local function set(tensor, value)
  local fresh = value:detach()
  fresh:requires_grad_(tensor.requires_grad)
  ml._rebind(tensor, fresh)
end

--- Parametrisations of a tensor, one after the other, and the originals that the first is given.
--- `original` is the tensor, or `original0`, `original1`, ... are where `right_inverse` gives
--- several. It is `net.parametrizations.NAME`.
--- > ml.nn.utils.parametrize.ParametrizationList({ ml.nn.Identity() }, ml.ones(2))
---   ParametrizationList(
---     (0): Identity()
---   )
---   0 parameters
---@param modules the parametrisations in their order
---@param original the tensor that they compute from at first
---@param unsafe whether they may change shape and dtype
---@shape original (*) -> as the last parametrisation gives it
local ParametrizationList = class("ParametrizationList", containers.ModuleList)
parametrize.ParametrizationList = ParametrizationList

-- What stands behind `x` for all functions of the list, the last first; those without an inverse
-- are passed over.
local function inverse(self, x)
  for i = #self, 1, -1 do
    local one = self[i]
    if one.right_inverse then x = one:right_inverse(x) end
  end
  return x
end

local function check_result(name, got, wanted, unsafe)
  if not ml.is_tensor(got) then
    fail("register_parametrization: a parametrization of '%s' must return a tensor, got %s", name,
      signature.describe(got))
  elseif not unsafe and (got.dtype ~= wanted.dtype or got.shape ~= wanted.shape) then
    fail("register_parametrization: '%s' changes from %s %s to %s %s, which wants 'unsafe'", name,
      wanted.dtype, tostring(wanted.shape), got.dtype, tostring(got.shape))
  end
end

local function add_original(self, name, value, original)
  if parameter.is_parameter(original) then
    self[name] = parameter.is_parameter(value) and value
      or parameter.new(value, original.requires_grad)
  else
    self:register_buffer(name, value)
  end
end

local read_list = signature("nn.utils.parametrize.ParametrizationList(Module[] modules, "
  .. "Tensor original, bool unsafe=false)")

function ParametrizationList:init(...)
  local modules, original, unsafe = read_list(...)
  ParametrizationList.super.init(self, modules)
  self.unsafe = unsafe
  local before = ml.empty_like(original:detach())
  local value
  do
    local _ <close> = ml.no_grad()
    value = inverse(self, original)
  end
  self.is_tensor = ml.is_tensor(value)
  if self.is_tensor then
    if value.dtype ~= original.dtype or value.device ~= original.device then
      fail("register_parametrization: right_inverse may not change dtype and device")
    end
    if value ~= original then set(original, value) end
    add_original(self, "original", original, original)
  elseif type(value) == "table" and ml.is_tensor(value[1]) then
    self.ntensors = #value
    for i, one in ipairs(value) do add_original(self, "original" .. i - 1, one, original) end
  else
    fail("register_parametrization: right_inverse returns a tensor or an array of tensors, got %s",
      signature.describe(value))
  end
  if not unsafe then check_result("original", self(), before, false) end
end

function ParametrizationList:forward()
  local originals = { self.original }
  for i = 1, self.is_tensor and 0 or self.ntensors do originals[i] = self["original" .. i - 1] end
  local x = self[1](table.unpack(originals))
  for i = 2, #self do x = self[i](x) end
  return x
end

--- Sets the originals so that the parametrisations give a value.
--- > Half = ml.nn.class "Half"
--- > function Half:forward(x) return x / 2 end
--- > function Half:right_inverse(y) return y * 2 end
--- > net = ml.nn.Linear(2, 1)
--- > ml.nn.utils.parametrize.register_parametrization(net, "weight", Half())
---   ParametrizedLinear(2 -> 1                  3
---     (parametrizations): ModuleDict(          2
---       (weight): ParametrizationList(         2
---         (0): Half()
---       )
---     )
---   )
---   3 parameters
--- > net.parametrizations.weight:right_inverse(ml.ones(1, 2))
--- > net.parametrizations.weight.original
---   {{2., 2.}}
---   Tensor (1, 2) float32 requires_grad
---@param value moonlet.Tensor the value
---@error a parametrisation has no `right_inverse`
function ParametrizationList:right_inverse(value)
  for _, one in ipairs(self) do
    if not one.right_inverse then
      fail("parametrization %s does not implement right_inverse", class.name(class.of(one)))
    end
  end
  local _ <close> = ml.no_grad()
  value = inverse(self, value)
  if self.is_tensor then value = { value } end
  if type(value) ~= "table" or #value ~= (self.ntensors or 1) then
    fail("right_inverse must return %d tensors, got %s", self.ntensors or 1,
      signature.describe(value))
  end
  for i, one in ipairs(value) do
    local original = self.is_tensor and self.original or self["original" .. i - 1]
    if one.dtype ~= original.dtype then
      fail("right_inverse returns dtype %s, the original has %s", one.dtype, original.dtype)
    end
    set(original, one)
  end
end

local function computed_value(list)
  if not cache then return list() end
  if cache[list] == nil then cache[list] = list() end
  return cache[list]
end

local function list_of(self, name)
  local dict = rawget(self, "parametrizations")
  return dict and type(name) == "string" and rawget(dict, name) or nil
end

local classes = setmetatable({}, { __mode = "k" })

-- The class of parametrised modules of class `cls`.
local function class_for(cls)
  if classes[cls] then return classes[cls] end
  local new = class("Parametrized" .. class.name(cls), cls)
  local index, assign = cls.__index, cls.__newindex
  function new.__index(self, key)
    local list = list_of(self, key)
    if list then return computed_value(list) end
    if type(index) == "function" then return index(self, key) end
    return class.lookup(self, key)
  end
  function new.__newindex(self, key, value)
    local list = list_of(self, key)
    if not list then return assign(self, key, value) end
    if not ml.is_tensor(value) then
      fail("%s: '%s' is parametrized; a tensor is expected, got %s", class.name(new), key,
        signature.describe(value))
    end
    list:right_inverse(value)
  end
  classes[cls] = new
  return new
end

local read_is = signature(
  "nn.utils.parametrize.is_parametrized(Module module, string? tensor_name=nil)")

--- Whether a module, or one tensor of it, is parametrised.
--- > ml.nn.utils.parametrize.is_parametrized(ml.nn.Linear(2, 2))
---   false
---@param module table the module
---@param tensor_name? string the name of the tensor: any unless given
---@return boolean
function parametrize.is_parametrized(...)
  local module, name = read_is(...)
  local dict = rawget(module, "parametrizations")
  if not (dict and class.is_instance(dict, dicts.ModuleDict)) then return false end
  if name then return rawget(dict, name) ~= nil end
  return #dict > 0
end

-- The raw field, which the class's metamethods do not answer.
local function add_first(module, name, parametrization, unsafe)
  local kind = module._registry.kind[name]
  local original = rawget(module, name)
  if original == nil or kind ~= "parameter" and kind ~= "buffer" then
    fail("register_parametrization: %s has no parameter or buffer '%s'", module:describe(), name)
  end
  local list = ParametrizationList({ parametrization }, original, unsafe)
  module:_forget(name)
  if not parametrize.is_parametrized(module) then
    module.parametrizations = dicts.ModuleDict()
    setmetatable(module, class_for(class.of(module)))
  end
  module.parametrizations[name] = list
end

local function add_another(module, name, parametrization, unsafe)
  local list = module.parametrizations[name]
  if not unsafe then
    local before = module[name]
    local after = parametrization(before)
    check_result(name, after, before, false)
    if parametrization.right_inverse then
      check_result(name, parametrization:right_inverse(after), before, false)
    end
  end
  list:append(parametrization)
  list.unsafe = list.unsafe or unsafe
end

local read_register = signature("nn.utils.parametrize.register_parametrization(Module module, "
  .. "string tensor_name, Module parametrization, bool unsafe=false)")

--- Makes a parameter or buffer of a module the result of another module. `net.weight` is then what
--- `parametrization` computes of `net.parametrizations.weight.original`, which is trained. A method
--- `right_inverse` of the parametrisation says what stands behind a value, at first and where one
--- is assigned; it may give an array of tensors, which forward then gets. Further parametrisations
--- follow those that are there.
--- > Symmetric = ml.nn.class "Symmetric"
--- > function Symmetric:forward(x) return x:triu() + x:triu(1):t() end
--- > net = ml.nn.Linear(2, 2)
--- > ml.nn.init.ones_(net.weight)
---   {{1., 1.},
---    {1., 1.}}
---   Tensor (2, 2) float32 requires_grad
--- > ml.nn.utils.parametrize.register_parametrization(net, "weight", Symmetric())
---   ParametrizedLinear(2 -> 2                  6
---     (parametrizations): ModuleDict(          4
---       (weight): ParametrizationList(         4
---         (0): Symmetric()
---       )
---     )
---   )
---   6 parameters
--- > net.weight
---   {{1., 1.},
---    {1., 1.}}
---   Tensor (2, 2) float32 grad_fn=AddBackward
---@param module table the module
---@param tensor_name string the name of the parameter or buffer
---@param parametrization table the module that computes
---@param unsafe? boolean whether shape and dtype may change
---@return table module
---@error the result has another shape or dtype and `unsafe` is false
function parametrize.register_parametrization(...)
  local module, name, parametrization, unsafe = read_register(...)
  parametrization:train(module.training)
  local add = parametrize.is_parametrized(module, name) and add_another or add_first
  add(module, name, parametrization, unsafe)
  return module
end

local read_remove = signature("nn.utils.parametrize.remove_parametrizations(Module module, "
  .. "string tensor_name, bool leave_parametrized=true)")

-- The tensor that takes the place of a parametrised one.
local function what_stays(module, name, list, leave)
  if list.is_tensor then
    local _ <close> = ml.no_grad()
    if leave then set(list.original, module[name]:detach():clone()) end
    return list.original
  elseif not leave then
    fail("remove_parametrizations: '%s' has several tensors; leave_parametrized must be true",
      name)
  end
  local value = module[name]
  return value.requires_grad and parameter.new(value) or value:detach()
end

--- Ends the parametrisation of a tensor.
--- > net = ml.nn.utils.parametrizations.orthogonal(ml.nn.Linear(2, 2))
--- > ml.nn.utils.parametrize.remove_parametrizations(net, "weight")
---   Linear(2 -> 2)         6
---   6 parameters
---@param module table the module
---@param tensor_name string the name of the tensor
---@param leave_parametrized? boolean whether the tensor keeps its present value, or becomes the
---   original again
---@return table module
---@error the tensor is not parametrised
function parametrize.remove_parametrizations(...)
  local module, name, leave = read_remove(...)
  if not parametrize.is_parametrized(module, name) then
    fail("remove_parametrizations: '%s' of %s is not parametrized", name, module:describe())
  end
  local value = what_stays(module, name, module.parametrizations[name], leave)
  module.parametrizations:_forget(name)
  if not parametrize.is_parametrized(module) then
    module:_forget "parametrizations"
    setmetatable(module, class.of(module).super)
  end
  if parameter.is_parameter(value) then
    module[name] = value
  else
    module:register_buffer(name, value)
  end
  return module
end

local read_type = signature "nn.utils.parametrize.type_before_parametrizations(Module module)"

--- Class that a module had before it was parametrised, else its class.
--- > ml.nn.utils.parametrize.type_before_parametrizations(ml.nn.Linear(2, 2)) == ml.nn.Linear
---   true
---@param module table the module
---@return table
function parametrize.type_before_parametrizations(...)
  local module = read_type(...)
  local cls = class.of(module)
  return parametrize.is_parametrized(module) and cls.super or cls
end

local read_transfer = signature("nn.utils.parametrize.transfer_parametrizations_and_params("
  .. "Module from_module, Module to_module, string? tensor_name=nil)")

--- Gives a module the parametrisations of another one and the originals behind them.
--- > a = ml.nn.utils.parametrizations.orthogonal(ml.nn.Linear(2, 2))
--- > b = ml.nn.Linear(2, 2)
--- > ml.nn.utils.parametrize.transfer_parametrizations_and_params(a, b)
---   ParametrizedLinear(2 -> 2                  6
---     (parametrizations): ModuleDict(          4
---       (weight): ParametrizationList(         4
---         (0): _Orthogonal()
---       )
---     )
---   )
---   6 parameters
--- > ml.nn.utils.parametrize.is_parametrized(b)
---   true
---@param from_module table the module that is parametrised
---@param to_module table the module that gets them
---@param tensor_name? string the name of the tensor: all unless given
---@return table to_module
function parametrize.transfer_parametrizations_and_params(...)
  local from, to, only = read_transfer(...)
  if not parametrize.is_parametrized(from) then return to end
  for _, name in ipairs(only and { only } or from.parametrizations:keys()) do
    local list = list_of(from, name)
    if not list then
      fail("transfer_parametrizations_and_params: '%s' is not parametrized", name)
    end
    if to[name] == nil then to[name] = parameter.new(from[name]) end
    for _, one in ipairs(list) do
      parametrize.register_parametrization(to, name, one, { unsafe = list.unsafe })
    end
    local own = list_of(to, name)
    for key, kind in pairs(list._registry.kind) do
      if kind ~= "module" and type(key) == "string" then own[key] = list[key] end
    end
  end
  return to
end

return options.namespace("nn.utils.parametrize", parametrize)
