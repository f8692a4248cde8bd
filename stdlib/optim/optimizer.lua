-- stdlib/optim/optimizer.lua: what all optimisers share: groups of parameters with options of
-- their own, the state of each parameter, saving and loading, and the step.

local class = require "moonlet.class"
local hooks = require "moonlet.hooks"
local ml = require "moonlet"
local locale_free = require("moonlet.numbers").wrap
local options = require "moonlet.options"
local parameter = require "moonlet.nn.parameter"
local signature = require "moonlet.signature"
local fail = options.fail

--- The base of optimisers. They take an array of parameters, or an array of groups of them with
--- options of their own: `optim.SGD({ { params = body, lr = 0.01 }, { params = head } }, 0.1)`. A
--- parameter without a gradient is left out of a step. A subclass has `defaults`, a table of
--- options, or calls `Optimizer.init(self, params, options)` with all of them; it may have
--- `check(group)`, which raises an error for bad ones; and has `update(p, gradient, state, group)`,
--- which changes `p`, and where it takes `SparseRows` too, `update_rows` of these.
---@field param_groups table[] The groups: each has `params` and its options, which can be assigned.
---@field state table What is kept of each parameter, such as a momentum, by the parameter.
local Optimizer = class("Optimizer")

signature.add_type("Optimizer", "an optimiser", function(value)
  return class.is_instance(value, Optimizer) and value or nil
end)

-- Checked by parameter_list, whose errors say more.
signature.add_type("Params", "an array of parameters", function(value) return value end, true)

-- What a group may hold beside its options: schedules keep the rate they began with there.
local NOTES = { "initial_lr" }

local function is_group(value)
  return type(value) == "table" and value.params ~= nil
end

local function deep_copy(value)
  if type(value) ~= "table" or getmetatable(value) then return value end
  local out = {}
  for key, item in pairs(value) do out[key] = deep_copy(item) end
  return out
end

local function parameter_list(where, value)
  if ml.is_tensor(value) then value = { value } end
  if type(value) ~= "table" or getmetatable(value) then
    fail("%s: an array of parameters is wanted, got %s", where,
      type(value) == "table" and "a module; pass net:parameters()" or type(value))
  end
  for i, p in ipairs(value) do
    if not ml.is_tensor(p) then
      fail("%s: parameter %d is a %s, wanted a tensor, or groups { params = ... } alone", where, i,
        type(p))
    end
    if not p.is_leaf then
      fail("%s: parameter %d is not a leaf: it is the result of an op", where, i)
    end
  end
  return value
end

-- The options of a group by name, checked; those that are not given are not in it.
local function read_group(self, where, given)
  if self.reader then return self.reader:subset(where, given, NOTES) end
  local names = table.move(NOTES, 1, #NOTES, 1, {})
  for name in pairs(self.defaults) do names[#names + 1] = name end
  table.sort(names)
  options.check(where, given, names)
  return given
end

-- A group's own options, and for the rest the optimiser's defaults, in tables of its own.
local function complete_group(self, where, given)
  local out = deep_copy(read_group(self, where, given))
  for name, value in pairs(self.defaults) do
    if out[name] == nil then out[name] = deep_copy(value) end
  end
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
  self:check(self.defaults)
  self.param_groups = {}
  self.state = {}
  self.held = {}
  local groups = params
  if is_group(params) then
    groups = { params }
  elseif not (type(params) == "table" and is_group(params[1])) then
    groups = { { params = parameter_list(name, params) } }
  end
  for _, group in ipairs(groups) do self:add_param_group(group) end
  if #groups == 1 and #self.param_groups[1].params == 0 then
    fail("%s: got no parameters", name)
  end
end

local read_common = signature "Optimizer:common(number>=0? lr=nil, number>=0? weight_decay=nil)"

--- Checks a group's options; subclasses extend it.
---@param group table
function Optimizer:check(group)
  read_common:subset(self.name, { lr = group.lr, weight_decay = group.weight_decay })
end

local read_add_group = signature "Optimizer:add_param_group(dict param_group)"

--- Adds parameters with options of their own: `{ params = .., lr = .. }`.
---@param param_group table
function Optimizer:add_param_group(...)
  local group = read_add_group(...)
  if not is_group(group) then fail("%s: a group is a table with a field params", self.name) end
  local given = {}
  for key, value in pairs(group) do given[key] = value end
  given.params = nil
  local own = complete_group(self, self.name, given)
  own.params = {}
  local held = {}
  for _, p in ipairs(parameter_list(self.name, group.params)) do
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

--- Forgets the gradients; with `set_to_none = false` fills them with zeros.
---@param set_to_none? boolean (default true)
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

local function update_all(self)
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

local read_step = signature "Optimizer:step(function? closure=nil)"

--- Changes every parameter that has a gradient. `closure`, if given, computes the loss and its
--- gradients first; its result is returned.
---@param closure? fun(): any
---@return any
function Optimizer:step(...)
  local closure, result = read_step(...), nil
  for _, hook in hooks.each(self._pre_hooks) do hook(self, closure) end
  if closure then
    local _ <close> = ml.enable_grad()
    result = closure()
  end
  do
    local _ <close> = ml.no_grad()
    update_all(self)
  end
  for _, hook in hooks.each(self._post_hooks) do hook(self, closure) end
  return result
end

local read_pre_hook = signature "Optimizer:register_step_pre_hook(function hook)"

--- `hook(optimizer, closure)` runs before each step. Returns a handle: `handle:remove()`.
---@param hook fun(optimizer: table, closure?: function)
---@return table handle
function Optimizer:register_step_pre_hook(...)
  return hooks.add(self, "_pre_hooks", (read_pre_hook(...)))
end

local read_post_hook = signature "Optimizer:register_step_post_hook(function hook)"

--- `hook(optimizer, closure)` runs after each step. Returns a handle: `handle:remove()`.
---@param hook fun(optimizer: table, closure?: function)
---@return table handle
function Optimizer:register_step_post_hook(...)
  return hooks.add(self, "_post_hooks", (read_post_hook(...)))
end

local read_state_dict = signature "Optimizer:state_dict()"

--- The options of the groups and the state of the parameters, which are numbered through all
--- groups: `{ state = { [i] = .. }, param_groups = { { params = { i, .. }, lr = .. } } }`.
---@return table
function Optimizer:state_dict(...)
  read_state_dict(...)
  local out, number = { state = {}, param_groups = {} }, 0
  for i, group in ipairs(self.param_groups) do
    local copy = {}
    for key, value in pairs(group) do
      if key ~= "params" then copy[key] = deep_copy(value) end
    end
    copy.params = {}
    for j, p in ipairs(group.params) do
      number = number + 1
      copy.params[j] = number
      local state = self.state[p]
      if state then
        out.state[number] = {}
        for key, value in pairs(state) do out.state[number][key] = value end
      end
    end
    out.param_groups[i] = copy
  end
  return out
end

local function check_state(self, dict)
  if type(dict) ~= "table" or type(dict.state) ~= "table" or type(dict.param_groups) ~= "table" then
    fail("load_state_dict: this is no state of an optimiser")
  elseif #dict.param_groups ~= #self.param_groups then
    fail("load_state_dict: the state has %d groups of parameters, %s has %d", #dict.param_groups,
      self.name, #self.param_groups)
  end
  for i, group in ipairs(self.param_groups) do
    local given = dict.param_groups[i]
    local count = type(given) == "table" and type(given.params) == "table" and #given.params or 0
    if count ~= #group.params then
      fail("load_state_dict: group %d of the state has %d parameters, that of %s has %d", i, count,
        self.name, #group.params)
    end
  end
end

local function loaded_state(p, number, given)
  local state = {}
  for key, value in pairs(given) do
    if key == "step" and ml.is_tensor(value) and value:numel() == 1 then
      value = math.tointeger(value:item()) or value:item()  -- PyTorch counts in a tensor
    elseif ml.is_tensor(value) then
      if value.shape ~= p.shape then
        fail("load_state_dict: '%s' of parameter %d has shape %s, the parameter %s", tostring(key),
          number, tostring(value.shape), tostring(p.shape))
      end
      value = value:detach():to { dtype = p.dtype, device = p.device }:clone()
    end
    state[key] = value
  end
  return state
end

-- What PyTorch's groups say of how a step is computed, and what of it is so here anyway; another
-- value is an unknown option. A class adds its own as `settled`.
local SETTLED = { capturable = false, differentiable = false, foreach = false, fused = false }

local function drop_settled(given, settled)
  for name, value in pairs(settled) do
    if given[name] == value then given[name] = nil end
  end
end

local read_load = signature "Optimizer:load_state_dict(dict state_dict)"

--- Takes over what `state_dict` gave, in another run or here, or in PyTorch. Nothing changes on an
--- error.
---@param state_dict table
function Optimizer:load_state_dict(...)
  local dict = read_load(...)
  check_state(self, dict)
  local states, groups = {}, {}
  for i, group in ipairs(self.param_groups) do
    local given = {}
    for key, value in pairs(dict.param_groups[i]) do given[key] = value end
    local numbers = given.params
    given.params = nil
    drop_settled(given, SETTLED)
    drop_settled(given, class.lookup(self, "settled") or {})
    groups[i] = complete_group(self, "load_state_dict", given)
    groups[i].params = group.params
    for j, p in ipairs(group.params) do
      local state = dict.state[numbers[j]]
      if state then states[p] = loaded_state(p, numbers[j], state) end
    end
  end
  self.state = states
  for i, group in ipairs(self.param_groups) do
    for key in pairs(group) do group[key] = nil end
    for key, value in pairs(groups[i]) do group[key] = value end
  end
end

local function sorted_options(group)
  local parts = {}
  for key, value in pairs(group) do
    if type(value) == "table" and key ~= "params" then
      value = "{" .. table.concat(value, ", ") .. "}"
    end
    if key ~= "params" then parts[#parts + 1] = ("%s = %s"):format(key, tostring(value)) end
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

return Optimizer
