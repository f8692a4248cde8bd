-- tests/bench/models.lua: the networks that the benchmarks train, the same as in peer_torch.py: each
-- with the name of its measure, its optimiser and `step`, one whole training step.

local ml = require "moonlet"
local nn, optim, F = ml.nn, ml.optim, ml.nn.functional

local models = {}

local function trained(name, model, x, y, optimizer)
  local function step()
    optimizer:zero_grad()
    ml.cross_entropy(model(x), y):backward()
    optimizer:step()
  end
  return { name = name, optimizer = optimizer, step = step }
end

function models.mlp()
  local net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
    nn.Linear(512, 10))
  return trained("mlp_784_512_512_10_b128_sgd", net, ml.randn(128, 784), ml.randint(10, { 128 }),
    optim.SGD(net:parameters(), { lr = 0.01 }))
end

function models.tiny()
  local net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
  return trained("tiny_4_16_3_b16_adam", net, ml.randn(16, 4), ml.randint(3, { 16 }),
    optim.Adam(net:parameters(), { lr = 0.01 }))
end

function models.lenet()
  local net = nn.Sequential(nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5),
    nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 10))
  return trained("lenet_b64_adam", net, ml.randn(64, 1, 28, 28), ml.randint(10, { 64 }),
    optim.Adam(net:parameters(), { lr = 1e-3 }))
end

local Block = nn.class "Block"
function Block:init(d, h)
  self.h = h
  self.l1, self.l2 = nn.LayerNorm(d), nn.LayerNorm(d)
  self.qkv, self.pr = nn.Linear(d, 3 * d), nn.Linear(d, d)
  self.f1, self.f2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
end

function Block:forward(x)
  local b, t, c = x:size(1), x:size(2), x:size(3)
  local function heads(part) return part:view(b, t, self.h, c // self.h):transpose(2, 3) end
  local q, k, v = table.unpack(self.qkv(self.l1(x)):split(c, 3))
  local a = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), { is_causal = true })
  x = x + self.pr(a:transpose(2, 3):reshape(b, t, c))
  return x + self.f2(F.gelu(self.f1(self.l2(x))))
end

local Gpt = nn.class "Gpt"
function Gpt:init(vocabulary, d, h, layers, t, checkpointed)
  self.checkpointed = checkpointed
  self.te, self.pe = nn.Embedding(vocabulary, d), nn.Embedding(t, d)
  local blocks = {}
  for i = 1, layers do blocks[i] = Block(d, h) end
  self.b = nn.Sequential(table.unpack(blocks))
  self.ln, self.o = nn.LayerNorm(d), nn.Linear(d, vocabulary)
end

function Gpt:forward(t)
  local x = self.te(t) + self.pe.weight[{ { 1, t:size(2) } }]
  for _, block in ipairs(self.b) do
    x = self.checkpointed and ml.utils.checkpoint(block, x) or block(x)
  end
  return self.o(self.ln(x)):reshape(-1, 65)
end

local function gpt(name, layers, checkpointed)
  local net, text = Gpt(65, 128, 4, layers, 64, checkpointed), ml.randint(65, { 16, 64 })
  return trained(name, net, text, text:reshape(-1), optim.AdamW(net:parameters(), { lr = 1e-3 }))
end

function models.gpt() return gpt("gpt_4x128_b16_t64_adamw", 4) end
function models.gpt24() return gpt("gpt_24x128_b16_t64_adamw", 24) end
function models.gpt24_checkpoint() return gpt("gpt_24x128_b16_t64_checkpoint", 24, true) end

-- One layer of an LSTM over (n, steps, features), whose last state is classified.
local Lstm = nn.class "Lstm"
function Lstm:init(features, size, classes)
  local bound = 1 / math.sqrt(size)
  local function parameter(...) return nn.Parameter(ml.empty(...):uniform_(-bound, bound)) end
  self.w_ih, self.w_hh = parameter(4 * size, features), parameter(4 * size, size)
  self.b_ih, self.b_hh = parameter(4 * size), parameter(4 * size)
  self.size, self.o = size, nn.Linear(size, classes)
end

function Lstm:forward(x)
  local start = ml.zeros(1, x:size(1), self.size)
  local _, h = ml.lstm(x, { start, start }, { self.w_ih, self.w_hh, self.b_ih, self.b_hh }, true, 1, 0, true,
    false, true)
  return self.o(h[1])
end

function models.lstm()
  local net = Lstm(256, 256, 10)
  return trained("lstm_256_b64_t50_adam", net, ml.randn(64, 50, 256), ml.randint(10, { 64 }),
    optim.Adam(net:parameters(), { lr = 1e-3 }))
end

local CharLstm = nn.class "CharLstm"
function CharLstm:init()
  self.e, self.r = nn.Embedding(65, 128), nn.LSTM(128, 128, 2, { batch_first = true })
  self.o = nn.Linear(128, 65)
end

function CharLstm:forward(t) return self.o((self.r(self.e(t)))):reshape(-1, 65) end

function models.charlstm()
  local net, text = CharLstm(), ml.randint(65, { 50, 50 })
  return trained("charlstm_2x128_b50_t50_adam", net, text, text:reshape(-1),
    optim.Adam(net:parameters(), { lr = 2e-3 }))
end

local Residual = nn.class "Residual"
function Residual:init(from, to, stride)
  local function conv(a, b, s) return nn.Conv2d(a, b, 3, { stride = s, padding = 1, bias = false }) end
  self.body = nn.Sequential(conv(from, to, stride), nn.BatchNorm2d(to), nn.ReLU(), conv(to, to, 1),
    nn.BatchNorm2d(to))
  self.skip = from == to and nn.Identity()
    or nn.Sequential(nn.Conv2d(from, to, 1, { stride = stride, bias = false }), nn.BatchNorm2d(to))
end

function Residual:forward(x) return F.relu(self.body(x) + self.skip(x)) end

function models.resnet()
  local net = nn.Sequential(nn.Conv2d(1, 16, 3, { padding = 1, bias = false }), nn.BatchNorm2d(16),
    nn.ReLU(), Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
  return trained("resnet_16_32_64_b64_sgd", net, ml.randn(64, 1, 28, 28), ml.randint(10, { 64 }),
    optim.SGD(net:parameters(), { lr = 0.1, momentum = 0.9, weight_decay = 1e-4 }))
end

local Vit = nn.class "Vit"
function Vit:init(d)
  self.patches = nn.Conv2d(1, d, 4, { stride = 4 })
  self.positions = nn.Parameter(ml.zeros(1, 49, d))
  self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, 4, { dim_feedforward = 4 * d,
    dropout = 0, activation = "gelu", batch_first = true, norm_first = true }), 4,
    { norm = nn.LayerNorm(d), enable_nested_tensor = false })
  self.o = nn.Linear(d, 10)
end

function Vit:forward(x)
  local patches = self.patches(x):flatten(3):transpose(2, 3) + self.positions
  return self.o(self.encoder(patches):mean(2))
end

function models.vit()
  local net = Vit(64)
  return trained("vit_4x64_b64_adamw", net, ml.randn(64, 1, 28, 28), ml.randint(10, { 64 }),
    optim.AdamW(net:parameters(), { lr = 1e-3 }))
end

-- A network that tells the noise in images of 8 x 8 from them and from how much of it there is.
local Denoiser = nn.class "Denoiser"
function Denoiser:init(d)
  self.time = nn.Sequential(nn.Linear(1, d), nn.SiLU(), nn.Linear(d, d))
  self.first, self.last = nn.Conv2d(1, d, 3, { padding = 1 }), nn.Conv2d(d, 1, 3, { padding = 1 })
  self.norm1, self.conv1 = nn.GroupNorm(8, d), nn.Conv2d(d, d, 3, { padding = 1 })
  self.norm2, self.conv2 = nn.GroupNorm(8, d), nn.Conv2d(d, d, 3, { padding = 1 })
end

function Denoiser:forward(x, t)
  local h = self.first(x)
  local a = self.conv1(F.silu(self.norm1(h))) + self.time(t):unsqueeze(-1):unsqueeze(-1)
  return self.last(h + self.conv2(F.silu(self.norm2(a))))
end

function models.diffusion()
  local net, x = Denoiser(64), ml.randn(128, 1, 8, 8)
  local optimizer = optim.Adam(net:parameters(), { lr = 1e-3 })
  local function step()
    local t, noise = ml.rand(128, 1), ml.randn_like(x)
    local kept = (1 - t):view(-1, 1, 1, 1)
    optimizer:zero_grad()
    ml.mse_loss(net(kept:sqrt() * x + (1 - kept):sqrt() * noise, t), noise):backward()
    optimizer:step()
  end
  return { name = "diffusion_64_b128_adam", optimizer = optimizer, step = step }
end

return models
