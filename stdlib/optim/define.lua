-- stdlib/optim/define.lua: makes the classes of optimisers that change each element of a parameter
-- by those of its gradient and of tensors kept for it, as a row of tensor/functors/optimizers.lua
-- says: all parameters in one call of one of the row's ops, or one after the other by ops that can
-- be recorded.

local Optimizer = require "moonlet.optim.optimizer"
local class = require "moonlet.class"
local expressions = require "moonlet.optim.expressions"
local is_captured = require "moonlet.optim.is_captured"
local ml = require "moonlet"
local numbers = require "moonlet.optim.numbers"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local number_of = numbers.value

local Elementwise = Optimizer.strict(class("ElementwiseOptimizer", Optimizer))

-- The names of the tensors that are kept of a parameter, under the options of its group.
local function kept_names(self, group)
  local names = {}
  for _, state in ipairs(self.row.states) do
    local value = not state.option or group[state.option]
    if value and value ~= 0 then names[#names + 1] = state[1] end
  end
  return names
end

-- A complex number is two real ones.
local function real(x) return x:is_complex() and ml.view_as_real(x) or x end

-- A number that a state begins with, as a row says: itself, or an option.
local function first_value(group, initial)
  if type(initial) == "number" then return initial end
  return number_of(group[initial])
end

-- What a state begins with beside tensors of zeros.
function Elementwise:_begin(state, p, group)
  local row = self.row
  for _, name in ipairs(row.counted) do state[name] = first_value(group, row.initial[name] or 0) end
  for _, entry in ipairs(row.states) do
    if entry.initial then
      local value = first_value(group, entry.initial)
      state[entry[1]] = ml.full_like(p, p:is_complex() and ml.complex(value, value) or value)
    end
  end
end

-- The numbers of a state are tensors on the device of the parameter where a step is capturable.
local function fit_numbers(self, p, state, group)
  for _, key in ipairs(self.counted) do
    if (type(state[key]) == "number") == (group.capturable == true) then
      state[key] = numbers.kept(key, state[key], p, group.capturable)
    end
  end
end

-- Makes what the state of a parameter lacks.
local function complete(self, p, state, group, names)
  if self.counted[1] == "step" and not state.step then self:_begin(state, p, group) end
  fit_numbers(self, p, state, group)
  for i = 1, #names do
    local name = names[i]
    if not state[name] then state[name] = ml.zeros_like(p) end
  end
end

-- Whether it lacks nothing; asked for each parameter of each step.
local function is_complete(self, state, group, names)
  for i = 1, #names do
    if not state[names[i]] then return false end
  end
  local counted, kind = self.counted, group.capturable and "userdata" or "number"
  for i = 1, #counted do
    if type(state[counted[i]]) ~= kind then return false end
  end
  return true
end

-- Whether the core steps all parameters of a group at once.
local function in_core(group)
  if group.differentiable then return false end
  return group.foreach or group.fused or group.foreach == nil and group.fused == nil
end

-- A step's list of parameters that one op takes: of one device and dtype, whose states count alike
-- (which does not matter where each is stepped by itself, nor where counts are on the device).
local function new_list(self, p, state, first, names)
  local list = { device = p.device, dtype = p.dtype, first = first, count = 0, x = {}, g = {},
    kept = {}, states = {}, numbers = {} }
  for _, key in ipairs(self.counted) do list.numbers[key] = state[key] end
  for i = 1, #names do
    list.kept[i] = {}
    list.kept[names[i]] = list.kept[i]
  end
  return list
end

local NONE = {}

-- `alike`: states must count alike.
local function fits(self, list, device, dtype, state, first, alike)
  if list.first ~= first or list.dtype ~= dtype or list.device ~= device then return false end
  local counted = alike and self.counted or NONE
  for i = 1, #counted do
    if list.numbers[counted[i]] ~= state[counted[i]] then return false end
  end
  return true
end

local function list_for(self, work, p, state, first)
  local lists, device, dtype = work.lists, p.device, p.dtype
  for i = #lists, 1, -1 do
    if fits(self, lists[i], device, dtype, state, first, work.alike) then return lists[i] end
  end
  local list = new_list(self, p, state, first, work.names)
  lists[#lists + 1] = list
  return list
end

-- Puts a parameter with a dense gradient into its list.
local function add(self, work, p, gradient, state)
  local group, names = work.group, work.names
  local first = names[1] ~= nil and state[names[1]] == nil
  if first or not is_complete(self, state, group, names) then
    if work.captured then
      options.fail("%s: the first step of a parameter cannot be captured in a CUDA graph; run a "
        .. "step before", self.name)
    end
    complete(self, p, state, group, names)
  end
  local list = list_for(self, work, p, state, first)
  local n = list.count + 1
  list.count, list.x[n], list.g[n], list.states[n] = n, p, gradient, state
  local kept = list.kept
  for i = 1, #names do kept[i][n] = state[names[i]] end
end

local function refuse_rows(self)
  options.fail("%s does not support sparse gradients, please consider SparseAdam instead "
    .. "(Adagrad and SGD take them too)", self.name)
end

-- Notes a sparse gradient, or gives it as a tensor where a step reaches all rows.
local function take_rows(self, work, p, gradient, state)
  if not self.update_rows then refuse_rows(self) end
  self:_check_rows(work.group)
  if self:_wants_dense(work.group) then return gradient:to_dense() end
  work.rows[#work.rows + 1] = { p, gradient, state }
end

local function check_position(self, group, p)
  if group.fused and p:is_complex() then
    options.fail("%s: 'fused' must not be true: the parameter of shape %s is complex", self.name,
      tostring(p.shape))
  elseif group.capturable and not p.device:find "^cuda" then
    options.fail("%s: 'capturable' must not be true: it is for parameters on CUDA devices, got one "
      .. "on %s", self.name, p.device)
  end
end

-- A graph would do the same step again and again.
local function check_capture(self, group)
  if #self.counted > 0 and not group.capturable then
    options.fail("%s: the step cannot be captured in a CUDA graph unless 'capturable' is true: its "
      .. "number would stay the same", self.name)
  end
end

-- What is to be done for a group: nothing is changed yet but states that lacked something.
local function collect(self, group)
  local core = in_core(group)
  local work = { group = group, core = core, alike = core and not group.capturable,
    names = kept_names(self, group), lists = {}, rows = {} }
  work.captured = is_captured()
  if work.captured then check_capture(self, group) end
  local states, params, limited = self.state, group.params, group.fused or group.capturable
  for i = 1, #params do
    local p = params[i]
    local gradient = p.grad
    if gradient then
      if limited then check_position(self, group, p) end
      local state = states[p]
      if not state then
        state = {}
        states[p] = state
      end
      if gradient.is_sparse then
        gradient = take_rows(self, work, p, gradient, state)
      else
        self:_check_dense()
      end
      if gradient then add(self, work, p, gradient, state) end
    end
  end
  return work
end

-- Raises an error where a gradient that is a tensor cannot be taken.
function Elementwise:_check_dense() end

-- Whether a step with the options of a group reaches rows that a sparse gradient has not.
function Elementwise:_wants_dense() return false end

-- Raises an error where a sparse gradient cannot be taken with the options of a group.
function Elementwise:_check_rows(group)
  if group.weight_decay and group.weight_decay ~= 0 then
    options.fail("%s: 'weight_decay' is not for sparse gradients", self.name)
  elseif group.fused then
    options.fail("%s: 'fused' must not be true: a gradient is sparse", self.name)
  end
end

local function check_shape(self, what, x, p)
  local a, b = x.shape, p.shape
  local same = #a == #b
  for i = 1, #a do same = same and a[i] == b[i] end
  if not same then
    options.fail("%s: %s has shape %s, the parameter %s", self.name, what, tostring(a), tostring(b))
  end
end

-- What an op of the core checks by itself, where there are more lists than one: so that all are
-- right before the first parameter is changed.
local function check_list(self, list)
  for i, p in ipairs(list.x) do
    check_shape(self, "a gradient", list.g[i], p)
    for _, tensors in ipairs(list.kept) do
      check_shape(self, "what is kept of a parameter", tensors[i], p)
    end
  end
end

-- What ops read of a tensor that a step changes: a copy where a derivative may need it later.
local function read(x, recorded)
  x = real(x)
  return recorded and x:clone() or x
end

-- A step of one parameter by ops that the tape may record. What they compute is copied into the
-- parameter and into what is kept.
local function step_by_ops(self, p, gradient, state, work, first)
  local recorded = work.group.differentiable
  local with_tensors = (recorded or work.group.capturable) and p or nil
  local o = numbers.options(work.group, self, with_tensors)
  local kept, now = {}, expressions.numbers(self.row, o, state, first)
  for _, name in ipairs(work.names) do kept[name] = read(state[name], recorded) end
  local after = expressions.update(self.row, read(p, recorded), real(gradient), kept, now)
  real(p):copy_(after)
  for _, name in ipairs(work.names) do real(state[name]):copy_(kept[name]) end
  for _, key in ipairs(self.counted) do state[key] = numbers.follow(state[key], now[key]) end
end

-- The lists of a call, complex numbers as real ones.
local function reals(list)
  if not list.dtype:find "^complex" then return end
  for _, tensors in ipairs { list.x, list.g, table.unpack(list.kept) } do
    for i, x in ipairs(tensors) do tensors[i] = ml.view_as_real(x) end
  end
end

-- The numbers of the op for the next step of a group, whose counts go into `now`.
local function numbers_of(self, group, now)
  local row, lists = self.row, 2 + #self.row.states
  if not numbers.has_tensors(group) then  -- whose elements no guard watches
    local ask, decoupled = row.asked, self.decoupled or group.decoupled_weight_decay
    return function(counts) return ask(group, decoupled, counts, now) end
  end
  return function(counts)
    local given = expressions.numbers(row, numbers.options(group, self), counts, false)
    for _, name in ipairs(self.counted) do now[name] = given[name] end
    return select(lists + 1, expressions.arguments(row, {}, {}, {}, given))
  end
end

-- What a compiled step asks for the numbers of its op before each run, and tells after it. It has
-- none once parameters that were stepped together count apart.
local function source_of(self, list, group)
  local counted, states, now = self.counted, list.states, {}
  local ask = numbers_of(self, group, now)
  return function(done)
    local first = states[1]
    for i = 1, #counted do
      local name = counted[i]
      local value = done and now[name] or first[name]
      for j = 1, #states do
        local state = states[j]
        if done then state[name] = value elseif state[name] ~= value then return end
      end
    end
    if not done then return ask(first) end
  end
end

-- Whether the numbers of a step follow on the device of a list: its counts are there, or it counts
-- nothing, and what says whether to step or an option, which nothing should wait for, is there.
local function on_device(self, list, group)
  return group.capturable or #self.counted == 0 and list.device ~= "cpu"
    and (self._found_inf ~= nil or numbers.has_tensors(group, list.device))
end

-- Whether a state begins with the first gradient, as a momentum that is damped, and so has to know
-- whether there was a step.
local function begins_with_gradient(group, state)
  return group.momentum and group.momentum ~= 0 and group.dampening and group.dampening ~= 0
    and not (state and state.momentum_buffer)
end

function Elementwise:_skips_on_device(found)
  for _, group in ipairs(self.param_groups) do
    if not in_core(group) or #self.counted > 0 and not group.capturable then return false end
    for _, p in ipairs(group.params) do
      local gradient = p.grad
      local skips = not gradient or found[p.device] and p.device ~= "cpu" and not gradient.is_sparse
        and not begins_with_gradient(group, self.state[p])
      if not skips then return false end
    end
  end
  return true
end

-- A step of all parameters of a list in one call, by numbers on its device.
local function step_on_device(self, list, group)
  local counts, o = {}, numbers.options(group, self, list.x[1])
  for _, name in ipairs(self.counted) do
    counts[name] = {}
    for i, state in ipairs(list.states) do counts[name][i] = state[name] end
  end
  reals(list)
  ml._internal[self.row.capturable_op](expressions.capturable_arguments(self.row, list.x, list.g,
    list.kept, counts, o, list.first, self._found_inf and self._found_inf[list.device]))
end

-- A step of all parameters of a list in one call.
local function step_in_core(self, list, group)
  if on_device(self, list, group) then return step_on_device(self, list, group) end
  local row, o = self.row, numbers.options(group, self)
  local now = expressions.numbers(row, o, list.numbers, list.first)
  reals(list)
  ml._internal[row.op](expressions.arguments(row, list.x, list.g, list.kept, now))
  if not list.first and ml._compiled.is_capturing() then
    ml._compiled.vary(source_of(self, list, group), list.states, self.counted, group)
  end
  local counted = self.counted
  for i = 1, #counted do
    local key = counted[i]
    for j = 1, #list.states do list.states[j][key] = now[key] end
  end
end

local function run(self, work)
  local group = work.group
  for _, row in ipairs(work.rows) do self:update_rows(row[1], row[2], row[3], group) end
  for _, list in ipairs(work.lists) do
    if work.core then
      step_in_core(self, list, group)
    else
      for i, p in ipairs(list.x) do
        step_by_ops(self, p, list.g[i], list.states[i], work, list.first)
      end
    end
  end
end

--- Changes all parameters that have a gradient. An error about one comes before any is changed.
function Elementwise:_update_all()
  local works, lists = {}, 0
  for i, group in ipairs(self.param_groups) do
    works[i] = collect(self, group)
    lists = lists + #works[i].lists
  end
  for _, work in ipairs(works) do
    if lists > 1 or not work.core then
      for _, list in ipairs(work.lists) do check_list(self, list) end
    end
  end
  for _, work in ipairs(works) do run(self, work) end
end

function Elementwise:_check_state(_, state, group)
  if next(state) == nil then return end
  local wanted = kept_names(self, group)
  table.move(self.counted, 1, #self.counted, #wanted + 1, wanted)
  for _, name in ipairs(wanted) do
    if state[name] == nil then
      options.fail("load_state_dict: the state of a parameter has no '%s'", name)
    end
  end
end

-- Checks that `betas` are two numbers from 0 to below 1, or two tensors of one.
function Elementwise:_check_betas(group)
  for i = 1, 2 do
    local beta = number_of(group.betas[i])
    if type(beta) ~= "number" or not (beta >= 0 and beta < 1) then
      options.fail("%s: 'betas' must be two numbers from 0 to below 1, got %s", self.name,
        beta)
    end
  end
end

-- Checks a group's options; subclasses may extend it.
function Elementwise:check(group)
  if group.betas then self:_check_betas(group) else Optimizer.check(self, group) end
end

local function init(self, ...)
  local o = self.reader:table(...)
  local params = o.params
  o.params = nil
  Optimizer.init(self, params, o)
end

local define = {}

--- A class of optimisers: `parameters` are its options in the notation of moonlet.signature, `row`
--- names its row of tensor/functors/optimizers.lua.
---@param name string
---@param parameters string
---@param row string
---@param parent? table
---@return table
function define.elementwise(name, parameters, row, parent)
  local cls = Optimizer.strict(class(name, parent or Elementwise))
  cls.reader = signature(("optim.%s(Params? params=nil, %s)"):format(name, parameters))
  cls.init, cls.row = init, expressions.row(row)
  cls.counted = cls.row.counted
  return cls
end

--- A class of optimisers with a method `update` of its own.
---@param name string
---@param parameters string
---@return table
function define.own(name, parameters)
  local cls = Optimizer.strict(class(name, Optimizer))
  cls.reader = signature(("optim.%s(Params? params=nil, %s)"):format(name, parameters))
  cls.init = init
  return cls
end

return define
