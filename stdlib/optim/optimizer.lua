-- stdlib/optim/optimizer.lua: what all optimisers share: groups of parameters with options of
-- their own, the state of each parameter, saving and loading, and the step.

local class = require "moonlet.class"
local hooks = require "moonlet.hooks"
local ml = require "moonlet"
local locale_free = require("moonlet.numbers").wrap
local numbers = require "moonlet.optim.numbers"
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
local signature = require "moonlet.signature"
local fail = options.fail

--- Base class of optimisers. `params` is an array of parameters, or an array of groups of them with
--- options of their own: `optim.SGD({ { params = body, lr = 0.01 }, { params = head } }, { lr = 0.1
--- })`. A parameter without a gradient is left out of a step.
---
--- Options that most have: `foreach` and `fused` (true or nil: all parameters change in one pass;
--- false: one by one), `differentiable` (the tape records the step), `capturable` (what is counted
--- is a tensor on the parameters' CUDA device), `maximize`. `lr` may be a tensor of one element.
---
--- A subclass has `defaults`, a table of options, or calls `Optimizer.init(self, params, options)`
--- with all of them; it may have `check(group)`, which raises an error for bad ones; and has
--- `update(p, gradient, state, group)`, which changes `p`, and where it takes `SparseRows` too,
--- `update_rows` of these.
--- > class = require "moonlet.class"
--- > Descent = class("Descent", ml.optim.Optimizer)
--- > Descent.defaults = { lr = 0.1 }
--- > function Descent:update(p, gradient, _, group) p:sub_(gradient * group.lr) end
--- > w = ml.nn.Parameter(ml.ones(2))
--- > opt = Descent { w }
--- > w:sum():backward() opt:step()
--- > w
---   {0.9000, 0.9000}
---   Tensor (2,) float32 requires_grad
---@param params an array of parameters, or of groups { params = ..., lr = ... } with options of
---   their own
---@param given the options of all groups
---@field param_groups table[] The groups: each has `params` and its options, which can be assigned.
---@field state table What is kept of each parameter, such as a momentum, by the parameter.
local Optimizer = class("Optimizer")

--- Where an option is that is asked of an optimiser itself.
---@param self table
---@param name string
---@return string?
local function hint_of_group(self, name)
  local group = rawget(self, "param_groups")
  if group and group[1] and group[1][name] ~= nil then
    return ("; each group has its own: param_groups[1].%s"):format(name)
  end
end

--- Makes a class of optimisers strict: fields that its objects lack are errors, as `class.strict`
--- has it.
--- > class = require "moonlet.class"
--- > Mine = ml.optim.Optimizer.strict(class("Mine", ml.optim.Optimizer))
--- > Mine
---   class Mine
---@param cls table the class
---@return table cls
function Optimizer.strict(cls) return class.strict(cls, { "held", "_found_inf" }, hint_of_group) end

Optimizer.strict(Optimizer)

signature.add_type("Optimizer", "an optimiser", function(value)
  return class.is_instance(value, Optimizer) and value or nil
end)

-- Checked by parameter_list, whose errors say more.
signature.add_type("Params", "an array of parameters", function(value) return value end, true)

-- What a group may hold beside its options: the names of its parameters, and what schedules keep.
local NOTES = { "param_names", "initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum",
  "swa_lr" }

local function is_group(value)
  return type(value) == "table" and value.params ~= nil
end

local function deep_copy(value)
  if type(value) ~= "table" or getmetatable(value) then return value end
  local out = {}
  for key, item in pairs(value) do out[key] = deep_copy(item) end
  return out
end

local function split_names(where, value)
  local list, names = {}, {}
  for i, entry in ipairs(value) do
    local named = type(entry) == "table" and type(entry[1]) == "string" and #entry == 2
    if named then names[#names + 1] = entry[1] end
    list[i] = named and entry[2] or entry
  end
  if #names > 0 and #names < #list then
    fail("%s: all parameters have names, or none: %d of %d have", where, #names, #list)
  end
  return list, #names > 0 and names or nil
end

-- A table of parameters by name as pairs, in the order of the names.
local function sorted_pairs(value)
  local entries = {}
  for name, p in pairs(value) do
    if type(name) ~= "string" then return value end
    entries[#entries + 1] = { name, p }
  end
  table.sort(entries, function(a, b) return a[1] < b[1] end)
  return entries
end

-- An array of parameters or of pairs of a name and one, made of what may be given.
local function parameter_pairs(where, value)
  if ml.is_tensor(value) then value = { value } end
  if type(value) ~= "function" and (type(value) ~= "table" or getmetatable(value)) then
    fail("%s: an array of parameters is expected, got %s", where,
      type(value) == "table" and "a module; pass net:parameters()" or type(value))
  end
  if type(value) ~= "function" then return #value == 0 and sorted_pairs(value) or value end
  local entries = {}
  for name, p in value do entries[#entries + 1] = { name, p } end
  return entries
end

-- The parameters and, where they have some, their names.
local function parameter_list(where, value, recorded)
  local list, names = split_names(where, parameter_pairs(where, value))
  for i, p in ipairs(list) do
    if not ml.is_tensor(p) then
      fail("%s: parameter %d is a %s, expected a tensor, or groups { params = ... } alone",
        where, i, type(p))
    end
    if not (recorded or p.is_leaf) then
      fail("%s: parameter %d is not a leaf: it is the result of an op", where, i)
    end
  end
  return list, names
end

-- The options of a group by name, checked; those that are not given are not in it.
local function read_group(self, where, given)
  local names = { table.unpack(NOTES) }
  names[#names + 1] = self.own_note
  if self.reader then return self.reader:subset(where, given, names) end
  for name in pairs(self.defaults) do names[#names + 1] = name end
  table.sort(names)
  options.check(where, given, names)
  return given
end

-- That the ways to compute a step that are asked for go together.
local function check_modes(self, group)
  if group.foreach and group.fused then
    fail("%s: 'foreach' and 'fused' cannot both be true", self.name)
  elseif group.differentiable and (group.foreach or group.fused) then
    fail("%s: '%s' must not be true where 'differentiable' is: what it does is not recorded",
      self.name, group.fused and "fused" or "foreach")
  end
end

--- A group's own options, and for the rest the optimiser's defaults, in tables of its own.
---@param where string for messages
---@param given table
---@return table
function Optimizer:_complete_group(where, given)
  local out = deep_copy(read_group(self, where, given))
  for name, value in pairs(self.defaults) do
    if out[name] == nil then out[name] = deep_copy(value) end
  end
  check_modes(self, out)
  self:check(out)
  return out
end

-- The defaults of a class without a declaration, with what is given in their place.
local function read_defaults(self, where, given)
  local out, names = deep_copy(class.lookup(self, "defaults") or {}), {}
  for name in pairs(out) do names[#names + 1] = name end
  table.sort(names)
  options.check(where, given, names)
  for name, value in pairs(given or {}) do out[name] = value end
  return out
end

--- `params` is an array of parameters or of groups, `{ params = .., lr = .. }`; `given` has the
--- options of all groups.
---@param params table
---@param given? table
function Optimizer:init(params, given)
  local name = class.name(class.of(self))
  self.name = name
  self.defaults = self.reader and given or read_defaults(self, name, given)
  check_modes(self, self.defaults)
  self:check(self.defaults)
  self.param_groups = {}
  self.state = {}
  self.held = {}
  local groups = params
  if is_group(params) then
    groups = { params }
  elseif not (type(params) == "table" and is_group(params[1])) then
    groups = { { params = parameter_pairs(name, params) } }
  end
  for _, group in ipairs(groups) do self:add_param_group(group) end
  if #groups == 0 or #groups == 1 and #self.param_groups[1].params == 0 then
    fail("%s: got no parameters", name)
  end
end

local read_common = signature("Optimizer:common(number>=0|OneNumber? lr=nil, "
  .. "number>=0|OneNumber? weight_decay=nil)")

--- Raises an error for bad options of a group; subclasses extend it.
--- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
--- > opt = ml.optim.SGD({ w }, { lr = 0.1 })
--- > (pcall(ml.optim.Optimizer.check, opt, { lr = -1 }))
---   false
---@param group table the group
function Optimizer:check(group)
  read_common:subset(self.name, { lr = group.lr, weight_decay = group.weight_decay })
end

local read_add_group = signature "Optimizer:add_param_group(dict param_group)"

--- Adds a group of parameters with options of their own.
--- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
--- > opt = ml.optim.SGD({ w }, { lr = 0.1 })
--- > opt:add_param_group { params = { ml.nn.Parameter(ml.ones(1)) }, lr = 0.01 }
--- > opt.param_groups[2].lr
---   0.01
---@param param_group table the group: { params = ..., lr = ... }; options that it lacks are the
---   optimiser's
---@error a parameter is in a group already, or no leaf
function Optimizer:add_param_group(...)
  local group = read_add_group(...)
  if not is_group(group) then fail("%s: a group is a table with a field params", self.name) end
  local given = {}
  for key, value in pairs(group) do given[key] = value end
  given.params = nil
  local own = self:_complete_group(self.name, given)
  local list, names = parameter_list(self.name, group.params, self.defaults.differentiable)
  local other = self.param_groups[1]
  own.param_names = names or own.param_names
  if other and (own.param_names == nil) ~= (other.param_names == nil) then
    fail("%s: all groups have names of parameters, or none", self.name)
  end
  own.params = {}
  local held = {}
  for _, p in ipairs(list) do
    if self.held[p] or held[p] then
      fail("%s: a parameter is in two groups, or twice in one", self.name)
    end
    held[p] = true
    table.insert(own.params, p)
  end
  for p in pairs(held) do self.held[p] = true end
  table.insert(self.param_groups, own)
end

local read_zero_grad = signature "Optimizer:zero_grad(bool set_to_none=true)"

--- Clears the gradients of all parameters.
--- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
--- > opt = ml.optim.SGD({ w }, { lr = 0.1 })
--- > w:sum():backward()
--- > opt:zero_grad()
--- > w.grad
---   nil
---@param set_to_none? boolean whether gradients become nil, which frees their memory, or are filled
---   with zeros
function Optimizer:zero_grad(...)
  local set_to_none = read_zero_grad(...)
  for _, group in ipairs(self.param_groups) do
    parameter.clear_gradients(group.params, set_to_none)
  end
end

local function update_of_rows(self)
  return self.update_rows or fail("%s does not support sparse gradients, please consider "
    .. "SparseAdam instead (Adagrad and SGD take them too)", self.name)
end

--- Changes all parameters that have a gradient.
function Optimizer:_update_all()
  local states = self.state
  for _, group in ipairs(self.param_groups) do
    for _, p in ipairs(group.params) do
      local gradient = p.grad
      if gradient then
        local update = gradient.is_sparse and update_of_rows(self) or self.update
        local state = states[p]
        if not state then
          state = {}
          states[p] = state
        end
        update(self, p, gradient, state, group)
      end
    end
  end
end

--- The step itself, under the hooks; an optimiser that calls the closure more than once overrides
--- it.
---@param closure? fun(): any
---@return any
function Optimizer:_advance(closure)
  local result = nil
  if closure then
    local _ <close> = ml.enable_grad()
    result = closure()
  end
  local _ <close> = self.defaults.differentiable and ml.enable_grad() or ml.no_grad()
  self:_update_all()
  return result
end

--- Whether the next step can be left out on the devices of its gradients, by `_found_inf`: a tensor
--- of one float32 for each, which is not 0 where there is to be none.
---@param _found table<string, Tensor>
---@return boolean
function Optimizer:_skips_on_device(_found) return false end

local read_step = signature "Optimizer:step(function? closure=nil)"

--- Makes a step: changes every parameter that has a gradient, in place.
--- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
--- > opt = ml.optim.SGD({ w }, { lr = 0.1 })
--- > w:sum():backward() opt:step()
--- > w
---   {0.9000, 1.9000}
---   Tensor (2,) float32 requires_grad
---@param closure? fun(): any computes the loss and its gradients first; its result is returned
---@return any
function Optimizer:step(...)
  local closure = read_step(...)
  for _, hook in hooks.each(self._pre_hooks) do hook(self, closure) end
  local result = self:_advance(closure)
  for _, hook in hooks.each(self._post_hooks) do hook(self, closure) end
  return result
end

local read_pre_hook = signature "Optimizer:register_step_pre_hook(function hook)"

--- Registers a hook that runs before each step. Returns a handle: `handle:remove()`.
--- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
--- > opt = ml.optim.SGD({ w }, { lr = 0.1 })
--- > steps = 0
--- > handle = opt:register_step_pre_hook(function() steps = steps + 1 end)
--- > for _ = 1, 3 do opt:step() end
--- > steps
---   3
---@param hook fun(optimizer: table, closure?: function) called as `hook(optimizer, closure)`
---@return table handle
function Optimizer:register_step_pre_hook(...)
  return hooks.add(self, "_pre_hooks", (read_pre_hook(...)))
end

local read_post_hook = signature "Optimizer:register_step_post_hook(function hook)"

--- Registers a hook that runs after each step. Returns a handle: `handle:remove()`.
--- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
--- > opt = ml.optim.SGD({ w }, { lr = 0.1 })
--- > steps = 0
--- > handle = opt:register_step_post_hook(function() steps = steps + 1 end)
--- > for _ = 1, 3 do opt:step() end
--- > steps
---   3
---@param hook fun(optimizer: table, closure?: function) called as `hook(optimizer, closure)`
---@return table handle
function Optimizer:register_step_post_hook(...)
  return hooks.add(self, "_post_hooks", (read_post_hook(...)))
end

local function sorted_options(group)
  local parts = {}
  for key, value in pairs(group) do
    local hidden = key == "params" or key == "param_names"
    if type(value) == "table" and not hidden then
      local items = {}
      for i = 1, #value do items[i] = tostring(numbers.value(value[i])) end
      value = "{" .. table.concat(items, ", ") .. "}"
    end
    if not hidden then
      parts[#parts + 1] = ("%s = %s"):format(key, tostring(numbers.value(value)))
    end
  end
  table.sort(parts)
  return table.concat(parts, ", ")
end

function Optimizer.__tostring(self)
  local lines = {}
  for i, group in ipairs(self.param_groups) do
    lines[i] = ("%s(%d parameters; %s)"):format(self.name, #group.params, sorted_options(group))
  end
  return table.concat(lines, "\n")
end

Optimizer.__tostring = locale_free(Optimizer.__tostring)

require("moonlet.optim.state")(Optimizer, deep_copy)

return Optimizer
