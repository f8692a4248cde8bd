-- stdlib/amp/grad_scaler.lua: ml.amp.GradScaler: losses times a factor, so that gradients in
-- float16 are not lost, and steps left out where the factor made them too large.

local class = require "moonlet.class"
local ml = require "moonlet"
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
  self._scale = single(given.init_scale)
  self._growth_factor, self._backoff_factor = given.growth_factor, given.backoff_factor
  self._growth_interval, self._growth_tracker = given.growth_interval, 0
  self._begun = false   -- whether something was scaled
  self._factors = {}    -- the factor as a tensor, by device
  self._optimizers = {} -- what was done to each since the last update
end

local function set_scale(self, value)
  self._scale, self._factors = single(value), {}
end

local function factor_on(self, device)
  local found = self._factors[device]
  if not found then
    found = ml.tensor(self._scale, { dtype = ml.float32, device = device })
    self._factors[device] = found
  end
  return found
end

-- A tensor, or nested arrays of them, times the factor.
local function scaled(self, outputs)
  if ml.is_tensor(outputs) then return outputs * factor_on(self, outputs.device) end
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
  self._begun = true
  return scaled(self, outputs)
end

local function check_begun(self, what)
  if not self._begun then
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

-- Adds to `out` what is not finite where one element of a tensor is not.
local function add_extremes(out, values)
  if values:numel() == 0 then return end
  if values:is_complex() then
    out[#out + 1] = values:norm(math.huge)
  else
    out[#out + 1], out[#out + 2] = values:aminmax()
  end
end

-- The extremes of the gradients, by device and dtype. The gradients are divided meanwhile.
local function divide_gradients(optimizer, factor)
  local extremes = {}
  for _, group in ipairs(optimizer.param_groups) do
    for _, p in ipairs(group.params) do
      local gradient = p.grad
      if gradient then
        local values = gradient.is_sparse and gradient:_values() or gradient:detach()
        local key = gradient.device .. " " .. gradient.dtype
        extremes[key] = extremes[key] or {}
        add_extremes(extremes[key], values)
        if gradient.is_sparse then gradient:mul_(factor) else values:mul_(factor) end
      end
    end
  end
  return extremes
end

-- For each device and dtype whether an element is not finite: nothing waits for the device yet.
local function not_finite(extremes)
  local out = {}
  for _, values in pairs(extremes) do
    out[#out + 1] = #values > 0 and ml.stack(values):isfinite():all():logical_not() or false
  end
  return out
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
  for i, flag in ipairs(state.found) do
    if ml.is_tensor(flag) then state.found[i] = flag:item() end
    if state.found[i] then return true end
  end
  return false
end

-- Ranks that have shared parameters out take a step together, or none does.
local function agree(optimizer, state)
  local parameters = {}
  for _, group in ipairs(optimizer.param_groups) do
    table.move(group.params, 1, #group.params, #parameters + 1, parameters)
  end
  for _, list in ipairs(shared_norms.lists(parameters)) do
    if list.combine then
      local here = ml.tensor(found_any(state) and 1.0 or 0.0)
      state.found = { list.combine(here, math.huge):item() > 0 }
    end
  end
end

local function unscale(self, optimizer, state)
  check_no_float16(optimizer)
  local _ <close> = ml.no_grad()
  state.found = not_finite(divide_gradients(optimizer, single(1 / self._scale)))
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
  if #state.found == 0 then fail "step: no parameter of this optimizer has a gradient" end
  state.stage = "stepped"
  if found_any(state) then return end
  return optimizer:step(...)
end

local function given_scale(value)
  if not ml.is_tensor(value) then return value end
  if value:numel() ~= 1 or not value:is_floating_point() or value.requires_grad then
    fail "update: 'new_scale' must be a number, or a tensor of one element that requires no grad"
  end
  return value:item()
end

local function grow(self)
  self._growth_tracker = self._growth_tracker + 1
  if self._growth_tracker ~= self._growth_interval then return end
  self._growth_tracker = 0
  local wider = single(self._scale * self._growth_factor)
  if wider < math.huge then set_scale(self, wider) end
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
  if new_scale ~= nil then
    set_scale(self, given_scale(new_scale))
  else
    local checked, found = false, false
    for _, state in pairs(self._optimizers) do
      checked = checked or state.found ~= nil and #state.found > 0
      found = found or state.found ~= nil and found_any(state)
    end
    if not checked then fail "update: no gradients were looked at; use scaler:step before" end
    if found then
      set_scale(self, self._scale * self._backoff_factor)
      self._growth_tracker = 0
    else
      grow(self)
    end
  end
  self._optimizers = {}
end

local read_nothing = signature "GradScaler:get_scale()"

--- The scale; 1 where the scaler is not enabled.
--- > ml.amp.GradScaler():get_scale()
---   65536.0
---@return number
function GradScaler:get_scale(...)
  read_nothing(...)
  return self._enabled and self._scale or 1.0
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
  return { scale = self._scale, growth_factor = self._growth_factor,
    backoff_factor = self._backoff_factor, growth_interval = self._growth_interval,
    _growth_tracker = self._growth_tracker }
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
  set_scale(self, scale)
  self._growth_factor, self._backoff_factor = growth, backoff
  self._growth_interval, self._growth_tracker = interval, tracker
end

return { GradScaler = GradScaler }
