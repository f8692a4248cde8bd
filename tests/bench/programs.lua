-- tests/bench/programs.lua: the networks whose inference is measured without Lua, as files for
-- program_call.cpp; peer_programs.py has the same for other runtimes.
-- usage: moonlet programs.lua FOLDER

local ml = require "moonlet"
local nn, F = ml.nn, ml.nn.functional

local folder = arg[1] or error "expected FOLDER"
ml.manual_seed(0)

local nets = {}

function nets.mlp()
  return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)), ml.randn(1, 4)
end

function nets.policy()
  return nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64)),
    ml.randn(1, 64)
end

function nets.lenet()
  return nn.Sequential(nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5),
    nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 10)),
    ml.randn(1, 1, 28, 28)
end

-- Depthwise and 1x1 convolutions in turn, as MobileNet's first version has them.
function nets.depthwise()
  local layers = { nn.Conv2d(3, 32, 3, { stride = 2, padding = 1, bias = false }), nn.BatchNorm2d(32),
    nn.ReLU() }
  local function add(from, to, stride)
    for _, layer in ipairs { nn.Conv2d(from, from, 3, { stride = stride, padding = 1, groups = from,
      bias = false }), nn.BatchNorm2d(from), nn.ReLU(), nn.Conv2d(from, to, 1, { bias = false }),
      nn.BatchNorm2d(to), nn.ReLU() } do
      layers[#layers + 1] = layer
    end
  end
  for _, block in ipairs { { 32, 64, 1 }, { 64, 128, 2 }, { 128, 128, 1 }, { 128, 256, 2 },
    { 256, 256, 1 }, { 256, 512, 2 }, { 512, 512, 1 }, { 512, 512, 1 }, { 512, 512, 1 },
    { 512, 512, 1 }, { 512, 512, 1 }, { 512, 1024, 2 }, { 1024, 1024, 1 } } do
    add(table.unpack(block))
  end
  layers[#layers + 1] = nn.AdaptiveAvgPool2d(1)
  layers[#layers + 1] = nn.Flatten()
  layers[#layers + 1] = nn.Linear(1024, 1000)
  return nn.Sequential(table.unpack(layers)), ml.randn(1, 3, 224, 224)
end

function nets.encoder()
  return nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 8, { dim_feedforward = 1024,
    activation = "gelu", batch_first = true, norm_first = true, dropout = 0 }), 6,
    { enable_nested_tensor = false }), ml.randn(1, 128, 256)
end

-- One token of a GPT of 4 layers of 128 behind 63 others, whose keys and values are inputs.
local Token = nn.class "Token"
function Token:init(d, h, layers)
  self.h, self.layers = h, layers
  self.te, self.ln, self.o = nn.Embedding(65, d), nn.LayerNorm(d), nn.Linear(d, 65)
  for i = 1, layers do
    self["l1_" .. i], self["l2_" .. i] = nn.LayerNorm(d), nn.LayerNorm(d)
    self["qkv_" .. i], self["pr_" .. i] = nn.Linear(d, 3 * d), nn.Linear(d, d)
    self["f1_" .. i], self["f2_" .. i] = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
  end
end

function Token:forward(token, past)
  local x, kept = self.te(token), {}
  local d = x:size(-1)
  for i = 1, self.layers do
    local q, k, v = table.unpack(self["qkv_" .. i](self["l1_" .. i](x)):split(d, -1))
    local function heads(part) return part:view(1, 1, self.h, d // self.h):transpose(2, 3) end
    k = ml.cat({ past[2 * i - 1], heads(k) }, 3)
    v = ml.cat({ past[2 * i], heads(v) }, 3)
    kept[2 * i - 1], kept[2 * i] = k, v
    local a = F.scaled_dot_product_attention(heads(q), k, v)
    x = x + self["pr_" .. i](a:transpose(2, 3):reshape(1, 1, d))
    x = x + self["f2_" .. i](F.gelu(self["f1_" .. i](self["l2_" .. i](x))))
  end
  return self.o(self.ln(x)), table.unpack(kept)
end

function nets.token()
  return Token(128, 4, 4), ml.ones(1, 1, { dtype = ml.int64 }), ml.randn(8, 1, 4, 63, 32)
end

for name, make in pairs(nets) do
  local made = table.pack(make())
  local net, inputs = made[1]:eval(), table.move(made, 2, made.n, 1, {})
  ml.no_grad(function()
    ml.export(net, inputs):save(("%s/%s.mlp"):format(folder, name))
  end)
end
