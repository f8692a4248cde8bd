-- stdlib/optim/state.lua: state dicts of optimisers, in PyTorch's layout, and their hooks.

local hooks = require "moonlet.hooks"
local ml = require "moonlet"
local notes = require "moonlet.files.notes"
local numbers = require "moonlet.optim.numbers"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

-- Those of a state: plain tables anew, tensors as they are.
local function shallow(value)
  if type(value) ~= "table" or getmetatable(value) then return value end
  local out = {}
  for key, item in pairs(value) do out[key] = shallow(item) end
  return out
end

local function check_dict(self, dict)
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

local function same_sizes(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do
    if a[i] ~= b[i] then return false end
  end
  return true
end

-- PyTorch keeps counts and factors as tensors of one element.
local function loaded_number(key, number, value)
  if ml.is_tensor(value) and value:numel() == 1 and not value:is_complex() then
    value = value:item()
  end
  value = math.type(value) == "float" and math.tointeger(value) or value
  local fits = math.type(value) == "integer" and value >= 0
  if key ~= "step" then fits = type(value) == "number" and value == value end
  if not fits then
    fail("load_state_dict: '%s' of parameter %s must be %s, got %s", key, tostring(number),
      key == "step" and "an integer of at least 0" or "a number", signature.describe(value))
  end
  return value
end

-- A value with tensors of its own, on the parameter's device and of its dtype.
local function own(p, value)
  if ml.is_tensor(value) then
    return value:detach():to { dtype = p.dtype, device = p.device }:clone()
  elseif type(value) ~= "table" or getmetatable(value) then
    return value
  end
  local out = {}
  for key, item in pairs(value) do out[key] = own(p, item) end
  return out
end

local function is_counted(self, key)
  for _, name in ipairs(self.counted) do
    if name == key then return true end
  end
  return false
end

local function loaded_state(self, p, number, given, group)
  if type(given) ~= "table" or getmetatable(given) then
    fail("load_state_dict: the state of parameter %s must be a table, got %s", tostring(number),
      signature.describe(given))
  end
  local state = {}
  for key, value in pairs(given) do
    if is_counted(self, key) then
      state[key] = numbers.kept(key, loaded_number(key, number, value), p, group.capturable)
    else
      local sizes = ml.is_tensor(value) and self:_state_sizes(p, key)
      if sizes and not same_sizes(value.shape, sizes) then
        fail("load_state_dict: '%s' of parameter %s has shape %s, the parameter %s", tostring(key),
          tostring(number), tostring(value.shape), tostring(p.shape))
      end
      state[key] = own(p, value)
    end
  end
  self:_check_state(p, state, group)
  return state
end

-- The number of each parameter, in the order of the groups, from 0 as in PyTorch's files.
local function numbered(self)
  local out, count = {}, 0
  for _, group in ipairs(self.param_groups) do
    for _, p in ipairs(group.params) do
      out[p] = count
      count = count + 1
    end
  end
  return out
end

local function read_hook(name)
  return signature(("Optimizer:%s(function hook, bool prepend=false)"):format(name))
end

local function add_saving_hooks(Optimizer)
  local read = read_hook "register_state_dict_pre_hook"
  --- Registers a hook that runs before the state is gathered. Returns a handle: `handle:remove()`.
  --- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(2)) }, { lr = 0.1 })
  --- > handle = opt:register_state_dict_pre_hook(function(o) o.param_groups[1].lr = 1 end)
  --- > opt:state_dict().param_groups[1].lr
  ---   1
  ---@param hook fun(optimizer: table) called as `hook(optimizer)`
  ---@param prepend? boolean whether it runs before the hooks that are there
  ---@return table handle
  function Optimizer:register_state_dict_pre_hook(...)
    local hook, prepend = read(...)
    return hooks.add(self, "_state_pre_hooks", hook, prepend)
  end

  local read_post = read_hook "register_state_dict_post_hook"
  --- Registers a hook that runs after the state is gathered. A table that the hook returns replaces
  --- the state. Returns a handle: `handle:remove()`.
  --- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(2)) }, { lr = 0.1 })
  --- > handle = opt:register_state_dict_post_hook(function(_, state) state.epoch = 3 end)
  --- > opt:state_dict().epoch
  ---   3
  ---@param hook fun(optimizer: table, state_dict: table): table? called as `hook(optimizer,
  ---   state_dict)`
  ---@param prepend? boolean whether it runs before the hooks that are there
  ---@return table handle
  function Optimizer:register_state_dict_post_hook(...)
    local hook, prepend = read_post(...)
    return hooks.add(self, "_state_post_hooks", hook, prepend)
  end
end

local function add_loading_hooks(Optimizer)
  local read_load_pre = read_hook "register_load_state_dict_pre_hook"
  --- Registers a hook that runs before a state is loaded. A table that the hook returns is loaded
  --- instead. Returns a handle: `handle:remove()`.
  --- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(2)) }, { lr = 0.1 })
  --- > handle = opt:register_load_state_dict_pre_hook(function(_, state) state.epoch = nil end)
  --- > opt:load_state_dict(opt:state_dict())
  ---@param hook fun(optimizer: table, state_dict: table): table? called as `hook(optimizer,
  ---   state_dict)`
  ---@param prepend? boolean whether it runs before the hooks that are there
  ---@return table handle
  function Optimizer:register_load_state_dict_pre_hook(...)
    local hook, prepend = read_load_pre(...)
    return hooks.add(self, "_load_pre_hooks", hook, prepend)
  end

  local read_load_post = read_hook "register_load_state_dict_post_hook"
  --- Registers a hook that runs after a state is loaded. Returns a handle: `handle:remove()`.
  --- > opt = ml.optim.SGD({ ml.nn.Parameter(ml.ones(2)) }, { lr = 0.1 })
  --- > handle = opt:register_load_state_dict_post_hook(function(o) o.param_groups[1].lr = 1 end)
  --- > opt:load_state_dict(opt:state_dict())
  --- > opt.param_groups[1].lr
  ---   1
  ---@param hook fun(optimizer: table) called as `hook(optimizer)`
  ---@param prepend? boolean whether it runs before the hooks that are there
  ---@return table handle
  function Optimizer:register_load_state_dict_post_hook(...)
    local hook, prepend = read_load_post(...)
    return hooks.add(self, "_load_post_hooks", hook, prepend)
  end
end

-- Options that are not set are None in PyTorch, whose optimisers miss them in a file without.
local function note_unset(self, copy)
  for _, name in ipairs(self.reader and self.reader.names or {}) do
    if copy[name] == nil and name ~= "params" then notes.add_none(copy, name) end
  end
end

local function add_saving(Optimizer, deep_copy)
  local read = signature "Optimizer:state_dict()"

  --- State of the optimiser: the options of its groups and what is kept of the parameters.
  --- Parameters are numbered from 0 through all groups: `{ state = { [i] = ... }, param_groups = {
  --- { params = { i, ... }, lr = ... } } }`, as PyTorch does.
  --- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
  --- > opt = ml.optim.SGD({ w }, { lr = 0.1 })
  --- > opt:state_dict().param_groups[1].lr
  ---   0.1
  ---@return table
  function Optimizer:state_dict(...)
    read(...)
    for _, hook in hooks.each(self._state_pre_hooks) do hook(self) end
    local out, ids = { state = {}, param_groups = {} }, numbered(self)
    for i, group in ipairs(self.param_groups) do
      local copy = {}
      for key, value in pairs(group) do
        if key ~= "params" then copy[key] = deep_copy(value) end
      end
      note_unset(self, copy)
      copy.params = {}
      for j, p in ipairs(group.params) do
        copy.params[j] = ids[p]
        local state = self.state[p]
        if state then
          out.state[ids[p]] = shallow(state)
          self:_note_state(out.state[ids[p]], group)
        end
      end
      out.param_groups[i] = copy
    end
    for _, hook in hooks.each(self._state_post_hooks) do out = hook(self, out) or out end
    return out
  end
end

-- An option with tensors of its own, which a schedule may change.
local function own_tensors(value)
  if ml.is_tensor(value) then return value:detach():clone() end
  if type(value) ~= "table" or getmetatable(value) then return value end
  local out = {}
  for key, item in pairs(value) do out[key] = own_tensors(item) end
  return out
end

-- A group of a dict, checked, but for a rate: schedules may have moved it out of the range that a
-- constructor takes.
local function loaded_group(self, given)
  local lr = given.lr
  local scheduled = type(lr) == "number" and type(self.defaults.lr) == "number"
  if scheduled then given.lr = self.defaults.lr end
  local group = self:_complete_group("load_state_dict", given)
  if scheduled then group.lr = lr end
  return group
end

-- The groups and states that a dict holds; raises errors and changes nothing.
local function read_dict(self, dict)
  local states, groups = {}, {}
  for i, group in ipairs(self.param_groups) do
    local given = {}
    for key, value in pairs(dict.param_groups[i]) do given[key] = own_tensors(value) end
    local ids = given.params
    given.params = nil
    groups[i] = loaded_group(self, given)
    groups[i].params = group.params
    groups[i].param_names = groups[i].param_names or group.param_names
    for j, p in ipairs(group.params) do
      local state = dict.state[ids[j]]
      if state ~= nil then states[p] = loaded_state(self, p, ids[j], state, groups[i]) end
    end
  end
  return states, groups
end

local function add_loading(Optimizer)
  local read = signature "Optimizer:load_state_dict(dict state_dict)"

  --- Loads a state that `state_dict` gave, or that PyTorch's optimiser of the same name wrote.
  --- Nothing changes on an error.
  --- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
  --- > opt = ml.optim.SGD({ w }, { lr = 0.1 })
  --- > opt:load_state_dict(ml.optim.SGD({ w }, { lr = 0.5 }):state_dict())
  --- > opt.param_groups[1].lr
  ---   0.5
  ---@param state_dict table the state
  ---@error groups, parameters or shapes do not fit
  function Optimizer:load_state_dict(...)
    local given, dict = read(...), {}
    for key, value in pairs(given) do dict[key] = value end
    for _, hook in hooks.each(self._load_pre_hooks) do dict = hook(self, dict) or dict end
    check_dict(self, dict)
    local states, groups = read_dict(self, dict)
    self.state = states
    for i, group in ipairs(self.param_groups) do
      for key in pairs(group) do group[key] = nil end
      for key, value in pairs(groups[i]) do group[key] = value end
    end
    for _, hook in hooks.each(self._load_post_hooks) do hook(self) end
  end
end

--- Gives the class of optimisers its state dicts. What a subclass may say of its states: `counted`,
--- which keys hold numbers; `_state_sizes`, the sizes of a tensor; `_check_state`, which raises an
--- error for a state that lacks something; `_note_state`, which notes what its tables are in
--- Python.
---@param Optimizer table
---@param deep_copy fun(value: any): any
return function(Optimizer, deep_copy)
  Optimizer.counted = { "step" }
  function Optimizer:_state_sizes(p) return p.shape end
  function Optimizer:_check_state() end
  function Optimizer:_note_state() end
  add_saving_hooks(Optimizer)
  add_loading_hooks(Optimizer)
  add_saving(Optimizer, deep_copy)
  add_loading(Optimizer)
end
