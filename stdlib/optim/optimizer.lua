-- stdlib/optim/optimizer.lua: what all optimisers share: groups of parameters with options of
-- their own, the state of each parameter, saving and loading, and the step.

local class = require "moonlet.class"
local ml = require "moonlet"
local locale_free = require("moonlet.numbers").wrap
local options = require "moonlet.options"
local fail = options.fail

--- The base of optimisers. A subclass has `defaults`, a table of options; `check(group)`, which
--- raises an error for bad ones; and `update(p, gradient, state, group)`, which changes `p`.
local Optimizer = class("Optimizer")

local function is_group(value)
  return type(value) == "table" and value.params ~= nil
end

local function parameter_list(where, value)
  if ml.is_tensor(value) then value = { value } end
  if type(value) ~= "table" or getmetatable(value) then
    fail("%s: an array of parameters is wanted, got %s", where,
      type(value) == "table" and "a module; pass net:parameters()" or type(value))
  end
  for i, p in ipairs(value) do
    if not ml.is_tensor(p) then fail("%s: parameter %d is a %s", where, i, type(p)) end
    if not p.is_leaf then
      fail("%s: parameter %d is not a leaf: it is the result of an op", where, i)
    end
  end
  return value
end

--- `params` is an array of parameters or of groups, `{ params = .., lr = .. }`.
function Optimizer:init(params, given)
  local name = class.name(class.of(self))
  self.name = name
  self.defaults = options.read(name, given, class.lookup(self, "defaults"))
  self:check(self.defaults)
  self.param_groups = {}
  self.state = {}
  self.held = {}
  local groups = params
  if not (type(params) == "table" and is_group(params[1])) then
    groups = { { params = parameter_list(name, params) } }
  end
  for _, group in ipairs(groups) do self:add_param_group(group) end
  if #groups == 1 and #self.param_groups[1].params == 0 then
    fail("%s: got no parameters", name)
  end
end

--- Checks a group's options; subclasses extend it.
function Optimizer:check(group)
  options.number(self.name, "lr", group.lr, 0)
  options.number(self.name, "weight_decay", group.weight_decay, 0)
end

--- Adds parameters with options of their own: `{ params = .., lr = .. }`.
---@param group table
function Optimizer:add_param_group(group)
  if not is_group(group) then fail("%s: a group is a table with a field params", self.name) end
  local own = {}
  for key, value in pairs(group) do own[key] = value end
  own.params = nil
  own = options.read(self.name, own, self.defaults)
  self:check(own)
  own.params = {}
  for _, p in ipairs(parameter_list(self.name, group.params)) do
    if self.held[p] then fail("%s: a parameter is in two groups, or twice in one", self.name) end
    self.held[p] = true
    table.insert(own.params, p)
  end
  table.insert(self.param_groups, own)
end

--- Forgets the gradients; with `{ set_to_none = false }` fills them with zeros.
---@param given? table
function Optimizer:zero_grad(given)
  local clear = not given or options.read("zero_grad", given, { set_to_none = true }).set_to_none
  for _, group in ipairs(self.param_groups) do
    for _, p in ipairs(group.params) do
      if clear then
        p.grad = nil
      elseif p.grad then
        p.grad = p.grad:detach():fill_(0)
      end
    end
  end
end

--- Changes every parameter that has a gradient. `closure`, if given, computes the loss and its
--- gradients first; its result is returned.
---@param closure? fun(): any
function Optimizer:step(closure)
  local result
  if closure then
    local _ <close> = ml.enable_grad()
    result = closure()
  end
  local _ <close> = ml.no_grad()
  local states = self.state
  for _, group in ipairs(self.param_groups) do
    for _, p in ipairs(group.params) do
      local gradient = p.grad
      if gradient then
        local state = states[p]
        if not state then
          state = {}
          states[p] = state
        end
        self:update(p, gradient, state, group)
      end
    end
  end
  return result
end

--- The options of the groups and the state of the parameters, which are numbered through all
--- groups: `{ state = { [i] = .. }, param_groups = { { params = { i, .. }, lr = .. } } }`.
---@return table
function Optimizer:state_dict()
  local out, number = { state = {}, param_groups = {} }, 0
  for i, group in ipairs(self.param_groups) do
    local copy = {}
    for key, value in pairs(group) do copy[key] = value end
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
    if ml.is_tensor(value) then
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

--- Takes over what `state_dict` gave, in another run or here. Nothing changes on an error.
---@param dict table
function Optimizer:load_state_dict(dict)
  check_state(self, dict)
  local states, groups = {}, {}
  for i, group in ipairs(self.param_groups) do
    local given = {}
    for key, value in pairs(dict.param_groups[i]) do given[key] = value end
    local numbers = given.params
    given.params = nil
    groups[i] = options.read("load_state_dict", given, self.defaults)
    self:check(groups[i])
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
