-- stdlib/optim/sparse_adam.lua: Adam for sparse gradients.

local define = require "moonlet.optim.define"
local ml = require "moonlet"
local numbers = require "moonlet.optim.numbers"
local options = require "moonlet.options"

--- Adam for sparse gradients: a step changes the rows that were used, and their means. Such
--- gradients have the weights of `nn.Embedding` with `sparse = true`. The rows that were not used
--- keep their means as they are.
--- > table = ml.nn.Embedding.from_pretrained(ml.ones(3, 2), { freeze = false, sparse = true })
--- > opt = ml.optim.SparseAdam(table:parameters(), { lr = 0.1 })
--- > table(ml.tensor { 2 }):sum():backward() opt:step()
--- > table.weight
---   {{1.0000, 1.0000},
---    {0.9000, 0.9000},
---    {1.0000, 1.0000}}
---   Tensor (3, 2) float32 requires_grad
---@param params an array of parameters, or of groups { params = ..., lr = ... } with options of
---   their own
---@param lr the learning rate, above 0: a number, or a tensor of one element
---@param betas the decay rates beta_1 and beta_2 of the running means of the gradient and its
---   square
---@param eps what is added to the denominator, so that nothing is divided by 0
---@param maximize whether the objective is maximised: gradients count with the opposite sign
---@formula m = beta_1 m + (1 - beta_1) g
---@formula v = beta_2 v + (1 - beta_2) g^2
---@formula m' = m / (1 - beta_1^t), v' = v / (1 - beta_2^t)
---@formula theta = theta - lr m' / (sqrt(v') + eps)
---@error a gradient is dense, or a parameter is complex
---@source Kingma and Ba, 2015: Adam: a method for stochastic optimization
local SparseAdam = define.elementwise("SparseAdam", "number>0|OneNumber lr=0.001, "
  .. "number[2]>=0 betas={0.9, 0.999}, number>0 eps=1e-8, bool maximize=false",
  "adam")

local init = SparseAdam.init

function SparseAdam:init(...)
  init(self, ...)
  for i, group in ipairs(self.param_groups) do
    for j, p in ipairs(group.params) do
      if p:is_complex() then
        options.fail("%s: parameter %d of group %d is complex, which it does not support",
          self.name, j, i)
      end
    end
  end
end

-- Refuses a gradient that is a tensor.
function SparseAdam:_check_dense()
  options.fail("%s does not support dense gradients, please consider Adam instead", self.name)
end

--- Changes the rows of one parameter that its gradient has, with the state kept for it and the
--- options of its group.
---@param p moonlet.Tensor the parameter
---@param gradient moonlet.SparseRows its gradient
---@param state table what is kept of the parameter
---@param group table the options of its group
---@shape p (rows, *), gradient (k rows of p, *)
function SparseAdam:update_rows(p, gradient, state, group)
  if not state.step then
    state.step = 0
    state.exp_avg = ml.zeros_like(p)
    state.exp_avg_sq = ml.zeros_like(p)
  end
  state.step = state.step + 1
  if gradient:_nnz() == 0 then return end
  gradient = gradient:coalesce()
  local at, values = gradient:indices()[1], gradient:values()
  if group.maximize then values = -values end
  local beta1, beta2 = group.betas[1], group.betas[2]
  local mean = state.exp_avg:index_select(1, at):lerp_(values, 1 - beta1)
  local square = state.exp_avg_sq:index_select(1, at):lerp_(values * values, 1 - beta2)
  state.exp_avg:index_copy_(1, at, mean)
  state.exp_avg_sq:index_copy_(1, at, square)
  local correction = math.sqrt(1 - beta2 ^ state.step) / (1 - beta1 ^ state.step)
  local rate = numbers.value(group.lr) * correction
  p:index_add_(1, at, mean:div_(square:sqrt_():add_(group.eps)):mul_(-rate))
end

return SparseAdam
