-- stdlib/amp/grad_scaler.lua: ml.amp.GradScaler: losses times a factor, so that gradients in
-- float16 are not lost, and steps left out where the factor made them too large. The factor is a
-- tensor on the device of what is scaled, and nothing waits where an optimiser leaves its step out
-- there.

local class = require "moonlet.class"
local is_captured = require "moonlet.optim.is_captured"
local ml = require "moonlet"
local numbers = require "moonlet.optim.numbers"
local options = require "moonlet.options"
local shared_norms = require "moonlet.nn.shared_norms"
local signature = require "moonlet.signature"
require "moonlet.optim.optimizer"
local fail = options.fail

-- A number as float32 holds it, in which the factor is kept.
local function single(x)
  return (string.unpack("<f", string.pack("<f", x)))
end

--- Scales losses so that gradients do not underflow in float16: `scaler:scale(loss):backward()`,
--- `scaler:step(optimizer)`, `scaler:update()`. `step` divides the gradients by the scale and skips
--- the step where one is not finite; `update` then lowers the scale, and raises it after
--- `growth_interval` steps without that.
---
--- On CUDA nothing waits for the device where the optimiser is `capturable`, or is SGD, changes all
--- parameters in one pass, and its gradients are dense; such a step may be captured in a CUDA graph
--- after one that was run.
--- > net = ml.nn.Linear(2, 1)
--- > opt, scaler = ml.optim.SGD(net:parameters(), 0.1), ml.amp.GradScaler()
--- > scaler:scale(net(ml.ones(1, 2)):sum()):backward()
--- > scaler:step(opt)
---   nil
--- > scaler:update()
--- > scaler:get_scale()
---   65536.0
---@param device? any the type of device of the tensors, "cpu" or "cuda"
---@param init_scale? number the scale at first
---@param growth_factor? number what the scale is multiplied by to grow, greater than 1
---@param backoff_factor? number what the scale is multiplied by after a gradient that was not
---   finite, less than 1
---@param growth_interval? integer after how many updates in a row with finite gradients the
---   scale grows
---@param enabled? boolean false makes all methods but `step` do nothing
---@source Micikevicius and others, "Mixed precision training", 2018
local GradScaler = class.strict(class("GradScaler"))

local reader = signature('amp.GradScaler(AutocastDevice device="cpu", number init_scale=65536, '
  .. "number growth_factor=2, number backoff_factor=0.5, int growth_interval=2000, "
  .. "bool enabled=true)")

local function check_growth(value)
  if value <= 1 then fail("GradScaler: 'growth_factor' must be above 1, got %g", value) end
  return value
end

local function check_backoff(value)
  if value >= 1 then fail("GradScaler: 'backoff_factor' must be below 1, got %g", value) end
  return value
end

function GradScaler:init(...)
  local given = reader:table(...)
  check_growth(given.growth_factor)
  check_backoff(given.backoff_factor)
  if given.enabled and given.device == "cuda" and not ml.cuda.is_available() then
    ml._warn_once("GradScaler", "GradScaler: there is no CUDA device here, so it does nothing")
    given.enabled = false
  end
  self._enabled, self._device = given.enabled, given.device
  self._scale = single(given.init_scale)  -- and the tracker: tensors once something was scaled
  self._growth_factor, self._backoff_factor = given.growth_factor, given.backoff_factor
  self._growth_interval, self._growth_tracker = given.growth_interval, 0
  self._optimizers = {} -- what was done to each since the last update
end

-- The factor as a tensor on a device.
local function scale_on(self, device)
  if not ml.is_tensor(self._scale) then
    if is_captured() then
      fail "scale: the first call cannot be captured in a CUDA graph; run a step before"
    end
    self._scale = ml.tensor(self._scale, { dtype = ml.float32, device = device })
    self._growth_tracker = ml.tensor(self._growth_tracker, { dtype = ml.int32, device = device })
  end
  return self._scale:to(device)
end

-- A tensor, or nested arrays of them, times the factor.
local function scaled(self, outputs)
  if ml.is_tensor(outputs) then return outputs * scale_on(self, outputs.device) end
  if type(outputs) ~= "table" or getmetatable(outputs) then
    fail("scale: a tensor or an array of tensors is expected, got %s", signature.describe(outputs))
  end
  local out = {}
  for key, item in pairs(outputs) do out[key] = scaled(self, item) end
  return out
end

local read_scale = signature "GradScaler:scale(Tensor|table outputs)"

--- Multiplies a tensor, or the tensors of nested arrays, by the scale.
--- > ml.amp.GradScaler():scale(ml.tensor(2.0))
---   131072.  Tensor () float32
---@param outputs moonlet.Tensor|table a tensor, or arrays of tensors
---@return moonlet.Tensor|table
---@shape outputs (*) -> (*)
function GradScaler:scale(...)
  local outputs = read_scale(...)
  if not self._enabled then return outputs end
  return scaled(self, outputs)
end

local function check_begun(self, what)
  if not ml.is_tensor(self._scale) then
    fail("%s: nothing was scaled yet; use scaler:scale(loss) before", what)
  end
end

local function state_of(self, optimizer)
  local found = self._optimizers[optimizer]
  if not found then
    found = { stage = "ready" }
    self._optimizers[optimizer] = found
  end
  return found
end

-- The gradients of an optimiser's parameters as real tensors, in lists of one device and dtype.
local function lists_of(optimizer)
  local lists, by_key = {}, {}
  for _, group in ipairs(optimizer.param_groups) do
    for _, p in ipairs(group.params) do
      local gradient = p.grad
      if gradient then
        local values = gradient.is_sparse and gradient:_values() or gradient:detach()
        local key = gradient.device .. " " .. gradient.dtype
        if not by_key[key] then
          by_key[key] = { device = gradient.device }
          lists[#lists + 1] = by_key[key]
        end
        table.insert(by_key[key], values:is_complex() and ml.view_as_real(values) or values)
      end
    end
  end
  return lists
end

-- Divides the gradients. Gives for each of their devices a tensor of one number, which is not 0
-- where one of them was not finite: nothing waits for the device yet.
local function divide_gradients(self, optimizer)
  local found = {}
  for _, list in ipairs(lists_of(optimizer)) do
    local device = list.device
    found[device] = found[device] or ml.zeros({}, { dtype = ml.float32, device = device })
    ml._internal.list_unscale(list, { found[device] }, scale_on(self, device))
  end
  return found
end

local function check_no_float16(optimizer)
  for _, group in ipairs(optimizer.param_groups) do
    for _, p in ipairs(group.params) do
      local gradient = p.grad
      if gradient and gradient.dtype == ml.float16 then
        fail "unscale_: gradients in float16 cannot be divided; keep the parameters in float32"
      end
    end
  end
end

-- Whether a gradient was not finite; waits for the devices.
local function found_any(state)
  if state.any == nil then
    state.any = false
    for _, found in pairs(state.found) do state.any = state.any or found:item() ~= 0 end
  end
  return state.any
end

-- Ranks that have shared parameters out take a step together, or none does.
local function agree(optimizer, state)
  local parameters = {}
  for _, group in ipairs(optimizer.param_groups) do
    table.move(group.params, 1, #group.params, #parameters + 1, parameters)
  end
  for _, list in ipairs(shared_norms.lists(parameters)) do
    if list.combine then
      local here = ml.tensor(found_any(state) and 1.0 or 0.0, { dtype = ml.float32 })
      state.any = list.combine(here, math.huge):item() > 0
      state.found = { cpu = here:fill_(state.any and 1.0 or 0.0) }
    end
  end
end

local function unscale(self, optimizer, state)
  check_no_float16(optimizer)
  local _ <close> = ml.no_grad()
  state.found = divide_gradients(self, optimizer)
  agree(optimizer, state)
  state.stage = "unscaled"
end

local read_unscale = signature "GradScaler:unscale_(Optimizer optimizer)"

--- Divides the gradients of an optimiser's parameters by the scale, to clip or look at them before
--- `step`, which otherwise does it. At most once between two updates.
--- > w = ml.ones(2, { requires_grad = true })
--- > opt, scaler = ml.optim.SGD({ w }, 0.1), ml.amp.GradScaler()
--- > scaler:scale(w:sum()):backward()
--- > scaler:unscale_(opt)
--- > w.grad
---   {1., 1.}
---   Tensor (2,) float32
---@param optimizer moonlet.optim.Optimizer the optimiser whose gradients are divided
function GradScaler:unscale_(...)
  local optimizer = read_unscale(...)
  if not self._enabled then return end
  check_begun(self, "unscale_")
  local state = state_of(self, optimizer)
  if state.stage == "unscaled" then
    fail "unscale_: it was called for this optimizer already since the last update()"
  elseif state.stage == "stepped" then
    fail "unscale_: it is called after step()"
  end
  unscale(self, optimizer, state)
end

-- The sum of numbers on several devices, on one of them; `sum` is what it is added to.
local function sum_on(device, found, sum)
  for _, number in pairs(found) do
    number = number:to(device)
    sum = sum and sum + number or number
  end
  return sum
end

-- The step by an optimiser that leaves it out on the devices: on all of them or on none.
local function step_unless_found(optimizer, found, ...)
  local everywhere, sum = {}, nil
  for device in pairs(found) do
    sum = sum or sum_on(device, found)
    everywhere[device] = sum:to(device)
  end
  optimizer._found_inf = everywhere
  local _ <close> = setmetatable({}, { __close = function() optimizer._found_inf = nil end })
  return optimizer:step(...)
end

local read_step = signature "GradScaler:step(Optimizer optimizer, any... rest)"

--- Calls `optimizer:step(...)` with the gradients divided by the scale, unless one of them is not
--- finite, and returns what it returns. A closure is an error.
--- > w = ml.ones(1, { requires_grad = true })
--- > opt, scaler = ml.optim.SGD({ w }, 0.1), ml.amp.GradScaler()
--- > scaler:scale(w:sum()):backward()
--- > scaler:step(opt)
---   nil
--- > w
---   {0.9000}
---   Tensor (1,) float32 requires_grad
---@param optimizer moonlet.optim.Optimizer the optimiser
---@param ... any further arguments of the optimiser's `step`
---@return any ...
function GradScaler:step(optimizer, ...)
  read_step(optimizer)
  if not self._enabled then return optimizer:step(...) end
  for i = 1, select("#", ...) do
    local value = select(i, ...)
    if type(value) == "function" or type(value) == "table" and value.closure then
      fail "step: a closure cannot be used while gradients are scaled"
    end
  end
  check_begun(self, "step")
  local state = state_of(self, optimizer)
  if state.stage == "stepped" then
    fail "step: it was called for this optimizer already since the last update()"
  elseif state.stage == "ready" then
    unscale(self, optimizer, state)
  end
  if next(state.found) == nil then fail "step: no parameter of this optimizer has a gradient" end
  state.stage = "stepped"
  if optimizer:_skips_on_device(state.found) then
    return step_unless_found(optimizer, state.found, ...)
  end
  if is_captured() then
    fail("step: %s waits for the device to know whether to step, which a CUDA graph cannot; its "
      .. "groups must be 'capturable', without 'foreach = false'", optimizer.name)
  end
  if found_any(state) then return end
  return optimizer:step(...)
end

-- Changes a tensor in place: a graph may use it.
local function put(to, value)
  if ml.is_tensor(value) then to:copy_(value:reshape {}) else to:fill_(value) end
end

local function given_scale(value)
  if not ml.is_tensor(value) then return value end
  if value:numel() ~= 1 or not value:is_floating_point() or value.requires_grad then
    fail "update: 'new_scale' must be a number, or a tensor of one element that requires no grad"
  end
  return value
end

-- What the steps since the last update found, on the device of the scale; nothing where there was
-- none.
local function found_since(self)
  local sum
  for _, state in pairs(self._optimizers) do
    sum = sum_on(self._scale.device, state.found or {}, sum)
  end
  return sum
end

local read_update = signature "GradScaler:update(Tensor|number? new_scale=nil)"

--- Changes the scale by what the steps since the last update found, or sets it. It is called after
--- the steps of all optimisers.
--- > scaler = ml.amp.GradScaler()
--- > scaler:scale(ml.ones(1))
---   {65536.}
---   Tensor (1,) float32
--- > scaler:update(1024)
--- > scaler:get_scale()
---   1024.0
---@param new_scale? number|moonlet.Tensor the new scale; computed from the steps unless given
function GradScaler:update(...)
  local new_scale = read_update(...)
  if not self._enabled then return end
  check_begun(self, "update")
  local _ <close> = ml.no_grad()
  if new_scale ~= nil then
    put(self._scale, given_scale(new_scale))
  else
    local found = found_since(self)
    if not found then fail "update: no gradients were looked at; use scaler:step before" end
    ml._internal.update_loss_scale({ self._scale }, { self._growth_tracker }, found,
      self._growth_factor, self._backoff_factor, self._growth_interval)
  end
  self._optimizers = {}
end

local read_nothing = signature "GradScaler:get_scale()"

--- The scale; 1 where the scaler is not enabled. Waits for its device.
--- > ml.amp.GradScaler():get_scale()
---   65536.0
---@return number
function GradScaler:get_scale(...)
  read_nothing(...)
  return self._enabled and numbers.value(self._scale) or 1.0
end

--- What the scale is multiplied by to grow.
--- > ml.amp.GradScaler():get_growth_factor()
---   2
---@return number
function GradScaler:get_growth_factor() return self._growth_factor end

local read_growth = signature "GradScaler:set_growth_factor(number new_factor)"

--- Sets what the scale is multiplied by to grow.
--- > scaler = ml.amp.GradScaler()
--- > scaler:set_growth_factor(4)
--- > scaler:get_growth_factor()
---   4
---@param new_factor number greater than 1
function GradScaler:set_growth_factor(...)
  self._growth_factor = check_growth((read_growth(...)))
end

--- What the scale is multiplied by after a gradient that was not finite.
--- > ml.amp.GradScaler():get_backoff_factor()
---   0.5
---@return number
function GradScaler:get_backoff_factor() return self._backoff_factor end

local read_backoff = signature "GradScaler:set_backoff_factor(number new_factor)"

--- Sets what the scale is multiplied by after a gradient that was not finite.
--- > scaler = ml.amp.GradScaler()
--- > scaler:set_backoff_factor(0.25)
--- > scaler:get_backoff_factor()
---   0.25
---@param new_factor number less than 1
function GradScaler:set_backoff_factor(...)
  self._backoff_factor = check_backoff((read_backoff(...)))
end

--- After how many updates in a row with finite gradients the scale grows.
--- > ml.amp.GradScaler():get_growth_interval()
---   2000
---@return integer
function GradScaler:get_growth_interval() return self._growth_interval end

local read_interval = signature "GradScaler:set_growth_interval(int new_interval)"

--- Sets after how many updates in a row with finite gradients the scale grows.
--- > scaler = ml.amp.GradScaler()
--- > scaler:set_growth_interval(100)
--- > scaler:get_growth_interval()
---   100
---@param new_interval integer number of updates, at least 1
function GradScaler:set_growth_interval(...)
  self._growth_interval = read_interval(...)
end

--- Whether the scaler scales.
--- > ml.amp.GradScaler { enabled = false }:is_enabled()
---   false
---@return boolean
function GradScaler:is_enabled() return self._enabled end

--- The scaler's state under PyTorch's names: `scale`, `growth_factor`, `backoff_factor`,
--- `growth_interval` and `_growth_tracker`; an empty table where it is not enabled.
--- > ml.amp.GradScaler():state_dict()
---   {
---     _growth_tracker = 0,
---     backoff_factor = 0.5,
---     growth_factor = 2,
---     growth_interval = 2000,
---     scale = 65536.0
---   }
---@return table
function GradScaler:state_dict()
  if not self._enabled then return {} end
  return { scale = numbers.value(self._scale), growth_factor = self._growth_factor,
    backoff_factor = self._backoff_factor, growth_interval = self._growth_interval,
    _growth_tracker = numbers.value(self._growth_tracker) }
end

local read_state = signature("GradScaler:state(number scale, number growth_factor, "
  .. "number backoff_factor, int growth_interval, int _growth_tracker)", "load_state_dict")
local read_load = signature "GradScaler:load_state_dict(dict state_dict)"

--- Takes over a state that `state_dict` gave. Does nothing where the scaler is not enabled.
--- > scaler = ml.amp.GradScaler()
--- > scaler:load_state_dict(ml.amp.GradScaler { init_scale = 1024 }:state_dict())
--- > scaler:get_scale()
---   1024.0
---@param state_dict table the state
function GradScaler:load_state_dict(...)
  local given = read_load(...)
  if not self._enabled then return end
  if next(given) == nil then
    fail "load_state_dict: the state is empty, perhaps that of a scaler that was not enabled"
  end
  local scale, growth, backoff, interval, tracker = read_state(given)
  if ml.is_tensor(self._scale) then
    put(self._scale, scale)
    put(self._growth_tracker, tracker)
  else
    self._scale, self._growth_tracker = single(scale), tracker
  end
  self._growth_factor, self._backoff_factor = growth, backoff
  self._growth_interval = interval
end

return { GradScaler = GradScaler }
