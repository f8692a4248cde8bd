-- stdlib/optim/adam.lua: Adam and AdamW.

local define = require "moonlet.optim.define"
local ml = require "moonlet"
local options = require "moonlet.options"

local OPTIONS = "number>=0|OneNumber lr=0.001, number[2]|TwoNumbers betas={0.9, 0.999}, "
  .. "number>=0 eps=1e-8, number>=0 weight_decay=%s, bool amsgrad=false, bool? foreach=nil, "
  .. "bool maximize=false, bool capturable=false, bool differentiable=false, bool? fused=nil%s"

--- Adam: steps by running means of the gradient and its square.
--- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
--- > opt = ml.optim.Adam({ w }, { lr = 0.1 })
--- > w:pow(2):sum():backward() opt:step()
--- > w
---   {0.9000, 1.9000}
---   Tensor (2,) float32 requires_grad
---@param params an array of parameters, or of groups { params = ..., lr = ... } with options of
---   their own
---@param lr the learning rate: a number, or a tensor of one element
---@param betas the decay rates beta_1 and beta_2 of the running means of the gradient and its
---   square
---@param eps what is added to the denominator, so that nothing is divided by 0
---@param weight_decay the factor of the parameters that is added to their gradients (L2 penalty)
---@param amsgrad whether the greatest running mean of squares is used (Reddi et al., 2018)
---@param foreach false changes the parameters one by one; true or nil changes all in one pass
---@param maximize whether the objective is maximised: gradients count with the opposite sign
---@param capturable whether what is counted is a tensor on the parameters' CUDA device, as CUDA
---   graphs need
---@param differentiable whether the tape records the step
---@param fused as `foreach`, of which only one may be true
---@param decoupled_weight_decay whether weight decay is decoupled, as of AdamW
---@formula g = grad f(theta) + weight_decay theta
---@formula m = beta_1 m + (1 - beta_1) g
---@formula v = beta_2 v + (1 - beta_2) g^2
---@formula m' = m / (1 - beta_1^t), v' = v / (1 - beta_2^t)
---@formula amsgrad: v' = max of v over all steps / (1 - beta_2^t)
---@formula theta = theta - lr m' / (sqrt(v') + eps)
---@source Kingma and Ba, 2015: Adam: a method for stochastic optimization
---@source Reddi et al., 2018, for amsgrad: On the convergence of Adam and beyond
local Adam = define.elementwise("Adam",
  OPTIONS:format("0", ", bool decoupled_weight_decay=false"), "adam")

local function check_tensors(self, group)
  if not group.foreach or group.capturable then return end
  for name, value in pairs { lr = group.lr, betas = group.betas[1] } do
    if ml.is_tensor(value) then
      options.fail("%s: '%s' must be of numbers where 'foreach' is true and 'capturable' is not",
        self.name, name)
    end
  end
end

-- Checks a group's options.
function Adam:check(group)
  self:_check_betas(group)
  check_tensors(self, group)
end

--- Adam with decoupled weight decay.
--- > w = ml.nn.Parameter(ml.tensor { 1.0, 2 })
--- > opt = ml.optim.AdamW({ w }, { lr = 0.1 })
--- > w:pow(2):sum():backward() opt:step()
--- > w
---   {0.8990, 1.8980}
---   Tensor (2,) float32 requires_grad
---@param params an array of parameters, or of groups { params = ..., lr = ... } with options of
---   their own
---@param lr the learning rate: a number, or a tensor of one element
---@param betas the decay rates beta_1 and beta_2 of the running means of the gradient and its
---   square
---@param eps what is added to the denominator, so that nothing is divided by 0
---@param weight_decay the factor by which parameters shrink in each step, times `lr`
---@param amsgrad whether the greatest running mean of squares is used (Reddi et al., 2018)
---@param foreach false changes the parameters one by one; true or nil changes all in one pass
---@param maximize whether the objective is maximised: gradients count with the opposite sign
---@param capturable whether what is counted is a tensor on the parameters' CUDA device, as CUDA
---   graphs need
---@param differentiable whether the tape records the step
---@param fused as `foreach`, of which only one may be true
---@formula theta = theta - lr weight_decay theta, g = grad f(theta)
---@formula m = beta_1 m + (1 - beta_1) g
---@formula v = beta_2 v + (1 - beta_2) g^2
---@formula m' = m / (1 - beta_1^t), v' = v / (1 - beta_2^t)
---@formula amsgrad: v' = max of v over all steps / (1 - beta_2^t)
---@formula theta = theta - lr m' / (sqrt(v') + eps)
---@source Loshchilov and Hutter, 2019: Decoupled weight decay regularization
local AdamW = define.elementwise("AdamW", OPTIONS:format("0.01", ""), "adam", Adam)

-- What PyTorch's groups hold too.
AdamW.own_note = "decoupled_weight_decay"

function AdamW:check(group)
  Adam.check(self, group)
  if group.decoupled_weight_decay == nil then group.decoupled_weight_decay = true end
  if group.decoupled_weight_decay ~= true then
    options.fail("AdamW: 'decoupled_weight_decay' must be true; Adam has it as an option")
  end
end

return { Adam = Adam, AdamW = AdamW }
