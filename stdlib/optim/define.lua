-- stdlib/optim/define.lua: makes the classes of optimisers that change each parameter by its own
-- gradient and by tensors kept for it.

local Optimizer = require "moonlet.optim.optimizer"
local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"

local Elementwise = class("ElementwiseOptimizer", Optimizer)

-- The names of the tensors that are kept of a parameter, under the options of its group.
local function kept(self, group)
  local names = {}
  for _, entry in ipairs(self.buffers) do
    local value = not entry.option or group[entry.option]
    if value and value ~= 0 then names[#names + 1] = entry.name end
  end
  return names
end

local function real(x) return x:is_complex() and ml.view_as_real(x) or x end

--- Changes one parameter by its gradient, with the state kept for it and the options of its group.
--- A complex number is two real ones.
---@param p Tensor
---@param gradient Tensor
---@param state table
---@param group table
function Elementwise:update(p, gradient, state, group)
  if not state.step then
    state.step = 0
    self:begin(state, p, group)
  end
  state.step = state.step + 1
  local buffers = {}
  for _, name in ipairs(kept(self, group)) do
    if not state[name] then state[name] = ml.zeros_like(p) end
    buffers[name] = real(state[name])
  end
  p, gradient = real(p), real(gradient)
  if group.maximize then gradient = -gradient end
  self:move(p, self:decay(p, gradient, group), buffers, group, state)
end

--- What a state begins with beside tensors of zeros.
function Elementwise:begin() end

--- The gradient with the weight decay, or the parameter after the decoupled one.
---@param p Tensor
---@param gradient Tensor
---@param group table
---@return Tensor
function Elementwise:decay(p, gradient, group)
  local decay = group.weight_decay or 0
  if decay == 0 then return gradient end
  if not (self.decoupled or group.decoupled_weight_decay) then
    return gradient:add(p, { alpha = decay })
  end
  p:mul_(1 - group.lr * decay)
  return gradient
end

function Elementwise:_check_state(_, state, group)
  if next(state) == nil then return end
  for _, name in ipairs({ "step", table.unpack(kept(self, group)) }) do
    if state[name] == nil then
      options.fail("load_state_dict: the state of a parameter has no '%s'", name)
    end
  end
end

--- Checks that `betas` are two numbers from 0 to below 1.
---@param group table
function Elementwise:check_betas(group)
  for i = 1, 2 do
    local beta = group.betas[i]
    if type(beta) ~= "number" or not (beta >= 0 and beta < 1) then
      options.fail("%s: 'betas' must be two numbers from 0 to below 1, got %s", self.name,
        beta)
    end
  end
end

local function init(self, ...)
  local o = self.reader:table(...)
  local params = o.params
  o.params = nil
  Optimizer.init(self, params, o)
end

local define = {}

--- A class of optimisers: `parameters` are its options in the notation of moonlet.signature,
--- `buffers` the tensors that it keeps of each parameter, all zeros at first; "name if option" only
--- where the option is set. It has a method `move(p, gradient, buffers, group, state)`.
---@param name string
---@param parameters string
---@param buffers string[]
---@param parent? table
---@return table
function define.elementwise(name, parameters, buffers, parent)
  local cls = class(name, parent or Elementwise)
  cls.reader = signature(("optim.%s(Params? params=nil, %s)"):format(name, parameters))
  cls.init, cls.buffers = init, {}
  for i, text in ipairs(buffers) do
    local buffer, option = text:match "^([%w_]+) if ([%w_]+)$"
    cls.buffers[i] = { name = buffer or text, option = option }
  end
  return cls
end

--- A class of optimisers with a method `update` of its own.
---@param name string
---@param parameters string
---@return table
function define.own(name, parameters)
  local cls = class(name, Optimizer)
  cls.reader = signature(("optim.%s(Params? params=nil, %s)"):format(name, parameters))
  cls.init = init
  return cls
end

return define
