-- stdlib/optim/muon.lua: Muon.

local Optimizer = require "moonlet.optim.optimizer"
local define = require "moonlet.optim.define"
local ml = require "moonlet"
local numbers = require "moonlet.optim.numbers"
local options = require "moonlet.options"
local signature = require "moonlet.signature"

signature.add_choice("MuonRate", { "original", "match_rms_adamw", "spectral_unclamped" })

--- Muon: steps by momenta that are made orthogonal, for the matrices inside of a network. Biases,
--- embeddings and the last layer want another optimiser. The momentum is made orthogonal by n =
--- `ns_steps` iterations of Newton and Schulz, in bfloat16, whose coefficients are a, b and c; r is
--- the rate that `adjust_lr_fn` tells. In the formulas the momentum is v.
--- > w = ml.nn.Parameter(ml.ones(2, 2))
--- > opt = ml.optim.Muon({ w }, { lr = 0.1 })
--- > (w * ml.eye(2)):sum():backward() opt:step()
--- > w:sub(1):abs():lt(0.2):all()
---   true  Tensor () bool
---@param params an array of parameters, or of groups { params = ..., lr = ... } with options of
---   their own
---@param lr the learning rate: a number, or a tensor of one element
---@param weight_decay the factor by which parameters shrink in each step, times `lr`
---@param momentum the decay rate of the running mean of gradients
---@param nesterov whether Nesterov's momentum is used
---@param ns_coefficients a, b and c of the iteration
---@param eps the least norm that is divided by
---@param ns_steps how many iterations are made, at most 99
---@param adjust_lr_fn r: "original" for lr sqrt(max(1, rows / columns)), also unless given;
---   "match_rms_adamw" for 0.2 lr sqrt(max(rows, columns)), for which the rates of AdamW fit;
---   "spectral_unclamped" for lr sqrt(rows / columns)
---@formula v = v + (1 - momentum) (g - v)
---@formula nesterov: u = g + momentum (v - g), otherwise u = v
---@formula X_0 = u / max(||u||, eps), A_k = X_k X_k^T
---@formula X_(k+1) = a X_k + (b A_k + c A_k A_k) X_k
---@formula theta = theta - lr weight_decay theta - r X_n
---@error a parameter is no matrix of real numbers
---@source Jordan et al., 2024: Muon: an optimizer for hidden layers in neural networks
local Muon = define.own("Muon", "number>=0|OneNumber lr=0.001, number>=0 weight_decay=0.1, "
  .. "number>=0 momentum=0.95, bool nesterov=true, number[3] ns_coefficients={3.4445, -4.775, "
  .. "2.0315}, number>=0 eps=1e-7, int>=0<=99 ns_steps=5, MuonRate? adjust_lr_fn=nil")

--- Adds a group of parameters, which must be matrices.
--- > opt = ml.optim.Muon({ ml.nn.Parameter(ml.ones(2, 2)) })
--- > opt:add_param_group { params = { ml.nn.Parameter(ml.ones(3, 2)) }, lr = 0.01 }
--- > #opt.param_groups
---   2
---@param param_group table the group: { params = ..., lr = ... }
---@error a parameter is no matrix of real numbers
function Muon:add_param_group(...)
  Optimizer.add_param_group(self, ...)
  local groups = self.param_groups
  for _, p in ipairs(groups[#groups].params) do
    if p.ndim ~= 2 or p:is_complex() then
      for _, each in ipairs(groups[#groups].params) do self.held[each] = nil end
      groups[#groups] = nil
      options.fail("%s: parameters must be matrices of real numbers, got one of shape %s",
        self.name, tostring(p.shape))
    end
  end
end

function Muon:_check_state(_, state)
  if next(state) ~= nil and not ml.is_tensor(state.momentum_buffer) then
    options.fail("load_state_dict: the state of a parameter has no 'momentum_buffer'")
  end
end

-- The nearest matrix with orthogonal rows or columns, about.
local function orthogonal(x, group)
  local a, b, c = table.unpack(group.ns_coefficients)
  local rows, columns = x.shape[1], x.shape[2]
  local y = x:to { dtype = ml.bfloat16 }
  if rows > columns then y = y:t() end
  y = y / y:norm():clamp { min = group.eps }
  for _ = 1, group.ns_steps do
    local gram = y:matmul(y:t())
    local change = ml.addmm(gram, gram, gram, { beta = b, alpha = c })
    y = ml.addmm(y, change, y, { beta = a })
  end
  return rows > columns and y:t() or y
end

local function rate_of(group, lr, rows, columns)
  local how = group.adjust_lr_fn
  if how == "match_rms_adamw" then
    return lr * 0.2 * math.sqrt(math.max(rows, columns))
  elseif how == "spectral_unclamped" then
    return lr * math.sqrt(rows / columns)
  end
  return lr * math.sqrt(math.max(1, rows / columns))
end

--- Changes one parameter by its gradient, in place.
--- > opt = ml.optim.Muon({ ml.nn.Parameter(ml.ones(2, 2)) })
--- > w = ml.ones(2, 2)
--- > ml.no_grad(opt.update, opt, w, ml.eye(2), {}, opt.param_groups[1])
--- > w:lt(1):any()
---   true  Tensor () bool
---@param p Tensor the parameter
---@param gradient Tensor its gradient
---@param state table what is kept of the parameter
---@param group table the options of its group
---@shape p (m, n), gradient (m, n)
function Muon:update(p, gradient, state, group)
  if p:numel() == 0 then return end
  state.momentum_buffer = state.momentum_buffer or ml.zeros_like(gradient)
  local change = state.momentum_buffer:lerp_(gradient, 1 - group.momentum)
  if group.nesterov then change = gradient:lerp(change, group.momentum) end
  change = orthogonal(change, group):to { dtype = p.dtype }
  local lr = numbers.value(group.lr)
  p:mul_(1 - lr * group.weight_decay)
  p:add_(change, { alpha = -rate_of(group, lr, p.shape[1], p.shape[2]) })
end

return Muon
