-- stdlib/optim/lbfgs.lua: L-BFGS.

local Optimizer = require "moonlet.optim.optimizer"
local define = require "moonlet.optim.define"
local ml = require "moonlet"
local notes = require "moonlet.files.notes"
local numbers = require "moonlet.optim.numbers"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local strong_wolfe = require "moonlet.optim.strong_wolfe"
local fail = options.fail

--- L-BFGS: a quasi-Newton method that learns the curvature from the last gradients. `step` needs a
--- closure that clears the gradients, computes the loss and calls backward; it is called several
--- times in a step. There is one group of parameters. H approximates the inverse Hessian by the
--- last differences of parameters and gradients; t is `lr`, in the first iteration times min(1, 1 /
--- ||g||_1), or found by the line search.
--- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
--- > opt = ml.optim.LBFGS({ w }, { line_search_fn = "strong_wolfe" })
--- > function closure()
---     opt:zero_grad()
---     local loss = (w - ml.tensor { 3.0, 4 }):pow(2):sum()
---     loss:backward()
---     return loss
---   end
--- > opt:step(closure):item()
---   8.0
--- > w
---   {3., 4.}
---   Tensor (2,) float32 requires_grad
---@param params an array of parameters, or of groups { params = ..., lr = ... } with options of
---   their own
---@param lr the step along the direction
---@param max_iter how many iterations a step makes at most
---@param max_eval how often the closure is called in a step: 5 / 4 of `max_iter` unless given
---@param tolerance_grad where the greatest element of the gradient is at most this, the step ends
---@param tolerance_change where loss or parameters change by less than this, the step ends
---@param history_size how many pairs are kept
---@param line_search_fn "strong_wolfe" "strong_wolfe" for a line search by the strong Wolfe
---   conditions, or nil for none
---@param maximize whether the objective is maximised: gradients count with the opposite sign
---@formula d = -H g
---@formula theta = theta + t d
---@error a step without a closure
---@error more than one group of parameters
---@source Liu and Nocedal, 1989: On the limited memory BFGS method for large scale optimization
local LBFGS = define.own("LBFGS", "number>=0|OneNumber lr=1.0, int>=0 max_iter=20, "
  .. "int>=0? max_eval=nil, number tolerance_grad=1e-7, number tolerance_change=1e-9, "
  .. "int>=0 history_size=100, "
  .. "string? line_search_fn=nil, bool maximize=false")

LBFGS.counted = { "func_evals", "n_iter", "prev_loss" }

local init = LBFGS.init

function LBFGS:init(...)
  init(self, ...)
  for _, group in ipairs { self.defaults, self.param_groups[1] } do
    group.max_eval = group.max_eval or group.max_iter * 5 // 4
  end
end

function LBFGS:check(group)
  local search = group.line_search_fn
  if search ~= nil and search ~= "strong_wolfe" then
    fail("%s: 'line_search_fn' must be \"strong_wolfe\" or nothing, got %s", self.name,
      signature.describe(search))
  end
end

--- Adds the one group of parameters.
--- > w = ml.nn.Parameter(ml.ones(2))
--- > #ml.optim.LBFGS({ w }).param_groups
---   1
---@param param_group table the group: { params = ... }
---@error there is a group already
function LBFGS:add_param_group(...)
  if #self.param_groups > 0 then
    fail("%s: takes one group of parameters, with the same options for all", self.name)
  end
  Optimizer.add_param_group(self, ...)
end

local TENSORS = { d = true, prev_flat_grad = true }
local LISTS = { "old_dirs", "old_stps", "ro" }

function LBFGS:_state_sizes() return nil end

local function numel_of(params)
  local count = 0
  for _, p in ipairs(params) do count = count + p:numel() * (p:is_complex() and 2 or 1) end
  return count
end

-- A state that goes on after the first iteration has it all, in the parameters' size.
function LBFGS:_check_state(_, state)
  local function need(holds)
    if not holds then fail("load_state_dict: this is no state of LBFGS for these parameters") end
  end
  if next(state) == nil then return end
  need(math.type(state.n_iter) == "integer" and math.type(state.func_evals) == "integer")
  if state.d == nil then return end
  local count = numel_of(self.param_groups[1].params)
  local function is_flat(x) return ml.is_tensor(x) and x.ndim == 1 and x:numel() == count end
  for key in pairs(TENSORS) do need(is_flat(state[key])) end
  for _, key in ipairs(LISTS) do
    need(type(state[key]) == "table" and #state[key] == #state.old_dirs)
  end
  for i = 1, #state.old_dirs do
    need(is_flat(state.old_dirs[i]) and is_flat(state.old_stps[i]))
    need(ml.is_tensor(state.ro[i]) and state.ro[i]:numel() == 1)
  end
  need(type(state.t) == "number" or ml.is_tensor(state.t) and state.t:numel() == 1)
  need(type(state.H_diag) == "number" or ml.is_tensor(state.H_diag) and state.H_diag:numel() == 1)
end

-- In PyTorch the first are lists, also where they are empty, and the last has a position for each
-- direction that there can be.
function LBFGS:_note_state(state, group)
  for _, key in ipairs(LISTS) do
    if state[key] then notes.list(state[key]) end
  end
  if state.al then notes.list(state.al, group.history_size) end
end

local function number(x) return ml.is_tensor(x) and x:item() or x end

local function real(x) return x:is_complex() and ml.view_as_real(x) or x end

-- What a step works with: the parameters as one vector.
local Step = {}
Step.__index = Step

function Step:gradient()
  local parts = {}
  for i, p in ipairs(self.params) do
    local gradient = p.grad
    if not gradient then
      gradient = ml.zeros_like(p)
    elseif gradient.is_sparse then
      gradient = gradient:to_dense()
    end
    parts[i] = real(gradient):reshape(-1)
  end
  local all = ml.cat(parts)
  return self.group.maximize and -all or all
end

function Step:evaluate()
  local result
  do
    local _ <close> = ml.enable_grad()
    result = self.closure()
  end
  local loss = number(result)
  if type(loss) ~= "number" then
    fail("LBFGS: the closure must return the loss, a number or a tensor of one element, got %s",
      signature.describe(result))
  end
  self.evaluations = self.evaluations + 1
  self.state.func_evals = self.state.func_evals + 1
  return self.group.maximize and -loss or loss, self:gradient(), result
end

function Step:move(t, d)
  local at = 1
  for _, p in ipairs(self.params) do
    local x = real(p)
    local count = x:numel()
    x:add_(d:narrow(1, at, count):view_as(x), { alpha = t })
    at = at + count
  end
end

-- The curvature that the last move showed, remembered.
function Step:learn(gradient)
  local s = self.state
  local y, move = gradient - s.prev_flat_grad, s.d * s.t
  local ys = y:dot(move)
  if ys:item() <= 1e-10 then return end
  if #s.old_dirs >= self.group.history_size and #s.old_dirs > 0 then
    for _, key in ipairs(LISTS) do table.remove(s[key], 1) end
  end
  table.insert(s.old_dirs, y)
  table.insert(s.old_stps, move)
  table.insert(s.ro, 1 / ys)
  s.H_diag = ys / y:dot(y)
end

-- The direction: the approximate inverse Hessian times the gradient, downwards.
function Step:direction(gradient)
  local s, al = self.state, {}
  local q = -gradient
  for i = #s.old_dirs, 1, -1 do
    al[i] = s.old_stps[i]:dot(q) * s.ro[i]
    q:sub_(s.old_dirs[i] * al[i])
  end
  local d = q * s.H_diag
  for i = 1, #s.old_dirs do
    local be = s.old_dirs[i]:dot(d) * s.ro[i]
    d:add_(s.old_stps[i] * (al[i] - be))
  end
  s.al = al
  return d
end

function Step:prepare(gradient)
  local s = self.state
  if s.n_iter == 1 then
    s.d, s.old_dirs, s.old_stps, s.ro, s.H_diag = -gradient, {}, {}, {}, 1
    s.t = math.min(1, 1 / gradient:abs():sum():item()) * numbers.value(self.group.lr)
  else
    self:learn(gradient)
    s.d = self:direction(gradient)
    s.t = numbers.value(self.group.lr)
  end
  s.prev_flat_grad = gradient:clone()
end

-- Searches a step along the direction and takes it.
function Step:search(loss, gradient, gtd)
  local s, before = self.state, {}
  for i, p in ipairs(self.params) do before[i] = p:clone() end
  local function at(t)
    self:move(t, s.d)
    local loss_there, gradient_there = self:evaluate()
    for i, p in ipairs(self.params) do p:copy_(before[i]) end
    return { t = t, loss = loss_there, gradient = gradient_there,
      gtd = gradient_there:dot(s.d):item() }
  end
  local start = { t = 0, loss = loss, gradient = gradient, gtd = gtd }
  local point = strong_wolfe(at, start, s.t, self.group.max_eval - self.evaluations,
    s.d:abs():max():item(), self.group.tolerance_change,
    function(x) return ml.tensor(x, { dtype = gradient.dtype }):item() end)
  s.t = point.t
  self:move(s.t, s.d)
  return point.loss, point.gradient
end

-- One iteration; returns the loss and gradient after it, and whether it was the last one.
function Step:iterate(loss, gradient, is_last)
  local s, group = self.state, self.group
  s.n_iter = s.n_iter + 1
  self:prepare(gradient)
  s.prev_loss = loss
  local gtd = gradient:dot(s.d):item()
  if gtd > -group.tolerance_change then return loss, gradient, true end
  if group.line_search_fn == "strong_wolfe" then
    loss, gradient = self:search(loss, gradient, gtd)
  else
    self:move(s.t, s.d)
    if not is_last then loss, gradient = self:evaluate() end
  end
  local done = is_last or self.evaluations >= group.max_eval or self:is_flat(gradient)
    or (s.d * s.t):abs():max():item() <= group.tolerance_change
    or math.abs(loss - s.prev_loss) < group.tolerance_change
  return loss, gradient, done
end

function Step:is_flat(gradient)
  return gradient:abs():max():item() <= self.group.tolerance_grad
end

function LBFGS:_advance(closure)
  local group = self.param_groups[1]
  local params = group.params
  if not closure then fail("%s: step wants a closure that computes the loss", self.name) end
  local _ <close> = ml.no_grad()
  local state = self.state[params[1]] or { func_evals = 0, n_iter = 0 }
  self.state[params[1]] = state
  local step = setmetatable({ params = params, group = group, state = state, closure = closure,
    evaluations = 0 }, Step)
  local loss, gradient, result = step:evaluate()
  if numel_of(params) == 0 or step:is_flat(gradient) then return result end
  for i = 1, group.max_iter do
    local done
    loss, gradient, done = step:iterate(loss, gradient, i == group.max_iter)
    if done then break end
  end
  return result
end

return LBFGS
