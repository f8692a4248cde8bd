-- tests/reference/torch_weights.lua: the network of torch_weights.py, for the tests that exchange
-- weights with PyTorch. As a script, `moonlet torch_weights.lua FILE` writes its weights.

local ml = require "moonlet"
local nn = ml.nn

local Net = nn.class("Net")

function Net:init()
  self.features = nn.Sequential(
    nn.Conv2d(1, 4, 3, { padding = 1 }), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
    nn.Sequential(nn.Conv2d(4, 4, 1), nn.Tanh()))
  self.blocks = nn.ModuleList { nn.Linear(16, 16), nn.Linear(16, 16) }
  self.scales = nn.ParameterList { ml.ones(16), ml.ones(16) }
  self.heads = nn.ModuleDict { value = nn.Linear(16, 1), class = nn.Linear(16, 3) }
  self.norm = nn.LayerNorm(16)
end

function Net:forward(x)
  x = self.norm(self.features(x):flatten(2))
  for i, block in ipairs(self.blocks) do x = block(x):relu() * self.scales[i] end
  return ml.cat({ self.heads.class(x), self.heads.value(x) }, 2)
end

if arg and arg[1] and arg[0]:find "torch_weights%.lua$" then
  ml.manual_seed(7)
  local net = Net():eval()
  local x = ml.randn(2, 1, 4, 4)
  local state = net:state_dict()
  state.input, state.output = x, ml.no_grad(net.forward, net, x)
  ml.save(arg[1], state)
end

return Net
