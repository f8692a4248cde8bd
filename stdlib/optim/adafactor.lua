-- stdlib/optim/adafactor.lua: Adafactor.

local define = require "moonlet.optim.define"
local ml = require "moonlet"
local numbers = require "moonlet.optim.numbers"
local options = require "moonlet.options"
local signature = require "moonlet.signature"

local function is_eps(value) return type(value) == "number" and value >= 0 end

signature.add_type("Epsilons", "two numbers of at least 0, of which the first may be false",
  function(value)
    local fits = type(value) == "table" and not getmetatable(value) and is_eps(value[2])
      and (not value[1] or is_eps(value[1]))
    return fits and { value[1] or false, value[2] } or nil
  end, true)

--- Adafactor: keeps of a matrix's squared gradients only the means of rows and columns. Parameters
--- with fewer than two dimensions keep all squares. The parameters move one after the other.
--- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
--- > opt = ml.optim.Adafactor({ w }, { lr = 0.1 })
--- > w:pow(2):sum():backward() opt:step()
--- > w
---   {0.8419, 1.8419}
---   Tensor (2,) float32 requires_grad
---@param params an array of parameters, or of groups { params = ..., lr = ... } with options of
---   their own
---@param lr the greatest relative step
---@param beta2_decay the exponent of the decay of the running means, at most 0
---@param eps the least root of the variance, the machine epsilon if false, and the least size of a
---   parameter
---@param d from which root mean square on updates are clipped, at least 1
---@param weight_decay the factor by which parameters shrink in each step, times `lr`
---@param foreach of no effect: parameters move one after the other
---@param maximize whether the objective is maximised: gradients count with the opposite sign
---@formula rho_t = min(lr, 1 / sqrt(t)), alpha_t = max(eps[2], r(theta)) rho_t
---@formula theta = theta - lr weight_decay theta, b = 1 - t^beta2_decay
---@formula R = b R + (1 - b) mean of g^2 over columns, C = b C + (1 - b) mean of g^2 over rows
---@formula V = R C / max(mean(R), eps[1])
---@formula u = g / max(sqrt(V), eps[1])
---@formula theta = theta - alpha_t u / max(1, r(u) / d), where r(x) = sqrt(mean(x^2))
---@error a parameter is complex
---@source Shazeer and Stern, 2018: Adafactor: adaptive learning rates with sublinear memory cost
local Adafactor = define.own("Adafactor", "number>=0|OneNumber lr=0.01, "
  .. "number<=0 beta2_decay=-0.8, Epsilons eps={false, 0.001}, number>=1 d=1.0, "
  .. "number>=0 weight_decay=0, bool? foreach=nil, bool maximize=false")

local function sizes_of(p, key)
  local sizes = { table.unpack(p.shape) }
  if #sizes > 1 then
    if key == "row_var" then sizes[#sizes] = 1 end
    if key == "col_var" then sizes[#sizes - 1] = 1 end
  end
  return sizes
end

function Adafactor:_state_sizes(p, key) return sizes_of(p, key) end

function Adafactor:_check_state(p, state)
  if next(state) == nil then return end
  for _, key in ipairs(p.ndim > 1 and { "step", "row_var", "col_var" } or { "step", "variance" }) do
    if state[key] == nil then
      options.fail("load_state_dict: the state of a parameter has no '%s'", key)
    end
  end
end

local function begin(state, p)
  state.step = 0
  local keys = p.ndim > 1 and { "row_var", "col_var" } or { "variance" }
  for _, key in ipairs(keys) do state[key] = p:new_zeros(sizes_of(p, key)) end
end

-- The root of the mean square.
local function size(x) return x:norm():item() / math.sqrt(x:numel()) end

local function mean_square(gradient, dim)
  return ml.linalg.vector_norm(gradient, { dim = dim, keepdim = true }):square_()
    :div_(gradient.shape[dim])
end

-- The variance of each element, from the sums of rows and columns where there are any.
local function estimate(gradient, state, rate, eps)
  local last = gradient.ndim
  if last < 2 then return state.variance:lerp_(gradient * gradient, rate):clone() end
  state.row_var:lerp_(mean_square(gradient, last), rate)
  state.col_var:lerp_(mean_square(gradient, last - 1), rate)
  local scale = state.row_var:mean(last - 1, { keepdim = true }):clamp_ { min = eps }
  return state.row_var:matmul(state.col_var):div_(scale)
end

--- Changes one parameter by its gradient, in place.
--- > opt = ml.optim.Adafactor({ ml.nn.Parameter(ml.ones(2)) })
--- > w = ml.ones(2)
--- > ml.no_grad(opt.update, opt, w, ml.ones(2), {}, opt.param_groups[1])
--- > w
---   {0.9900, 0.9900}
---   Tensor (2,) float32
---@param p Tensor the parameter
---@param gradient Tensor its gradient
---@param state table what is kept of the parameter
---@param group table the options of its group
---@shape p (*), gradient (*)
function Adafactor:update(p, gradient, state, group)
  if p:is_complex() then options.fail("%s does not support complex parameters", self.name) end
  if not state.step then begin(state, p) end
  state.step = state.step + 1
  if p:numel() == 0 then return end
  if group.maximize then gradient = -gradient end
  local eps, lr = group.eps[1] or ml.finfo(p.dtype).eps, numbers.value(group.lr)
  local rate = math.max(group.eps[2], size(p)) * math.min(lr, 1 / math.sqrt(state.step))
  if group.weight_decay ~= 0 then p:mul_(1 - lr * group.weight_decay) end
  local variance = estimate(gradient, state, state.step ^ group.beta2_decay, eps)
  local change = variance:clamp_({ min = eps * eps }):rsqrt_():mul_(gradient)
  p:add_(change, { alpha = -rate / math.max(1, size(change) / group.d) })
end

return Adafactor
