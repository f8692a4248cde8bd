-- stdlib/optim/adam.lua: Adam and AdamW.

local define = require "moonlet.optim.define"
local ml = require "moonlet"
local options = require "moonlet.options"

local OPTIONS = "number>=0|OneNumber lr=0.001, number[2]|TwoNumbers betas={0.9, 0.999}, "
  .. "number>=0 eps=1e-8, number>=0 weight_decay=%s, bool amsgrad=false, bool? foreach=nil, "
  .. "bool maximize=false, bool capturable=false, bool differentiable=false, bool? fused=nil%s"

--- Adam (Kingma and Ba, 2015): `optim.Adam(net:parameters(), { lr = 1e-3 })`. Options: `lr`
--- (0.001), `betas` ({0.9, 0.999}), `eps` (1e-8), `weight_decay` (0), `amsgrad` (Reddi et al.,
--- 2018), `maximize` (go up the gradient), `decoupled_weight_decay` (as AdamW), and `foreach`,
--- `capturable`, `differentiable` and `fused` as of all optimisers.
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

--- Checks a group's options.
---@param group table
function Adam:check(group)
  self:check_betas(group)
  check_tensors(self, group)
end

--- Adam with decoupled weight decay (Loshchilov and Hutter, 2019); `weight_decay` is 0.01 unless
--- given.
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
