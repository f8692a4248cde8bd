-- tests/lua/onnx_models.lua: models that are written as ONNX graphs: { name, module, make, options }.
-- `make(batch)` gives the arguments. `dynamic` are the names of the axes of each input (default: the
-- first axis of the first), `ids` says which inputs are positions.

local ml = require "moonlet"
local nn = ml.nn
local F = nn.functional

local models = {}

local function add(name, module, make, options)
  models[#models + 1] = { name = name, module = module, make = make, options = options or {} }
end

local function randn(...)
  local sizes = { ... }
  return function(batch) return { ml.randn { batch, table.unpack(sizes) } } end
end

local function moved_statistics(net)
  for _, module in ipairs(net:modules()) do
    if module.running_mean then
      module.running_mean:normal_()
      module.running_var:uniform_(0.5, 2)
    end
  end
  return net
end

add("mlp", nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)), randn(4))

local Block = nn.class "Block"
function Block:init(from, to, stride)
  self.conv1 = nn.Conv2d(from, to, 3, { stride = stride, padding = 1, bias = false })
  self.bn1 = nn.BatchNorm2d(to)
  self.conv2 = nn.Conv2d(to, to, 3, { padding = 1, bias = false })
  self.bn2 = nn.BatchNorm2d(to)
  if stride ~= 1 then
    self.down = nn.Sequential(nn.Conv2d(from, to, 1, { stride = stride }), nn.BatchNorm2d(to))
  end
end
function Block:forward(x)
  local y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
  y:add_(self.down and self.down(x) or x)
  return y:relu_()
end

add("resnet", moved_statistics(nn.Sequential(nn.Conv2d(3, 8, 3, { padding = 1 }), nn.BatchNorm2d(8),
  nn.ReLU(), nn.MaxPool2d(2), Block(8, 8, 1), Block(8, 16, 2), nn.AdaptiveAvgPool2d(1),
  nn.Flatten(), nn.Linear(16, 5))), randn(3, 16, 16))

for _, kind in ipairs { "LSTM", "GRU", "RNN" } do
  for _, both in ipairs { false, true } do
    local o = { num_layers = 2, batch_first = true, bidirectional = both }
    add(kind:lower() .. (both and "_both" or ""), nn[kind](5, 6, o), randn(7, 5))
  end
end
add("rnn_relu", nn.RNN(5, 6, { nonlinearity = "relu", batch_first = true }), randn(7, 5))
add("lstm_steps", nn.LSTM(5, 6, { batch_first = true }),
  function(batch) return { ml.randn(batch, batch + 3, 5) } end,
  { dynamic = { { "batch", "time" } } })
add("lstm_state", nn.LSTM(5, 6), function(batch)
  return { ml.randn(4, batch, 5), { ml.randn(1, batch, 6), ml.randn(1, batch, 6) } }
end, { dynamic = { { [2] = "batch" }, { [2] = "batch" }, { [2] = "batch" } } })
add("lstm_cell", nn.LSTMCell(5, 6), function(batch)
  return { ml.randn(batch, 5), { ml.randn(batch, 6), ml.randn(batch, 6) } }
end, { dynamic = { { "batch" }, { "batch" }, { "batch" } } })
add("gru_cell", nn.GRUCell(5, 6), function(batch)
  return { ml.randn(batch, 5), ml.randn(batch, 6) }
end, { dynamic = { { "batch" }, { "batch" } } })

local function encoder(activation, first)
  return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16,
    { batch_first = true, activation = activation, norm_first = first }), 2)
end
add("encoder", encoder("relu", false), randn(5, 8))
add("encoder_steps", encoder("gelu", true),
  function(batch) return { ml.randn(batch, batch + 4, 8) } end,
  { dynamic = { { "batch", "time" } } })

local Translate = nn.class "Translate"
function Translate:init()
  self.embed = nn.Embedding(11, 8)
  self.transformer = nn.Transformer(8, 2, { num_encoder_layers = 1, num_decoder_layers = 1,
    dim_feedforward = 16, batch_first = true })
end
function Translate:forward(source, target)
  local mask = nn.Transformer.generate_square_subsequent_mask(target:size(2))
  return self.transformer(self.embed(source), self.embed(target), { tgt_mask = mask })
end
add("encoder_decoder", Translate(), function(batch)
  return { ml.randint(11, { batch, batch + 4 }), ml.randint(11, { batch, batch + 2 }) }
end, { dynamic = { { "batch", "source" }, { "batch", "target" } }, ids = { true, true } })

local Vit = nn.class "Vit"
function Vit:init()
  self.patches = nn.Conv2d(3, 8, 4, { stride = 4 })
  self.class_token = nn.Parameter(ml.randn(1, 1, 8))
  self.positions = nn.Parameter(ml.randn(1, 17, 8))
  self.encoder, self.norm, self.head = encoder("gelu", true), nn.LayerNorm(8), nn.Linear(8, 5)
end
function Vit:forward(x)
  local y = self.patches(x):flatten(3):transpose(2, 3)
  y = ml.cat({ self.class_token:expand(x:size(1), -1, -1), y }, 2) + self.positions
  return self.head(self.norm(self.encoder(y))[{ {}, 1 }])
end
add("vit", Vit(), randn(3, 16, 16))

local Gpt = nn.class "Gpt"
function Gpt:init()
  self.tokens, self.positions = nn.Embedding(13, 8), nn.Embedding(12, 8)
  self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
  self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
  self.mlp = nn.Sequential(nn.Linear(8, 32), nn.GELU { approximate = "tanh" }, nn.Linear(32, 8))
end
function Gpt:forward(ids)
  local batch, steps = ids:size(1), ids:size(2)
  local x = self.tokens(ids) + self.positions(ml.arange(1, steps))
  local q, k, v = table.unpack(self.qkv(self.norm1(x)):chunk(3, -1))
  local function heads(t) return t:view(batch, steps, 2, 4):transpose(2, 3) end
  local y = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), { is_causal = true })
  x = x + self.out(y:transpose(2, 3):reshape(batch, steps, 8))
  x = x + self.mlp(self.norm2(x))
  return ml.matmul(x, self.tokens.weight:t())
end
add("gpt", Gpt(), function(batch) return { ml.randint(13, { batch, batch + 4 }) } end,
  { dynamic = { { "batch", "time" } }, ids = { true } })
-- With all positions that there are a longer sequence does not run, a shorter one does.
add("gpt_full", Gpt(), function(batch)
  return { ml.randint(13, { 2, batch == 2 and 12 or 6 + batch }) }
end, { dynamic = { { [2] = "time" } }, ids = { true } })

for rank = 1, 3 do
  local sizes = ({ { 9 }, { 9, 8 }, { 6, 7, 8 } })[rank]
  local d = rank .. "d"
  local input = randn(4, table.unpack(sizes))
  add("conv" .. d, nn.Sequential(
    nn["Conv" .. d](4, 6, 3, { stride = 2, padding = 1, groups = 2 }),
    nn["Conv" .. d](6, 2, 2, { padding = "same", dilation = 2 })), input)
  add("conv_transpose" .. d, nn["ConvTranspose" .. d](4, 3, 3,
    { stride = 2, padding = 1, output_padding = 1 }), input)
  add("pool" .. d, nn.Sequential(nn["MaxPool" .. d](3, { stride = 2, padding = 1 }),
    nn["AvgPool" .. d](2, { stride = 1, padding = 1 }), nn["AdaptiveAvgPool" .. d](2),
    nn["AdaptiveMaxPool" .. d](1)), input)
  add("pool_odd" .. d, nn.Sequential(nn["MaxPool" .. d](2, { ceil_mode = true }),
    nn["AdaptiveAvgPool" .. d](3)), input)
  add("pool_odd_max" .. d, nn["AdaptiveMaxPool" .. d](4), input)
  add("batch_norm" .. d, moved_statistics(nn["BatchNorm" .. d](4)), input)
  add("instance_norm" .. d, nn["InstanceNorm" .. d](4, { affine = true }), input)
end

add("lp_pool", nn.LPPool2d(2, 2), randn(3, 6, 6))
add("norms", nn.Sequential(nn.GroupNorm(2, 4), nn.LayerNorm { 4, 5 }, nn.RMSNorm(5)), randn(4, 5))
add("response_norm", nn.Sequential(nn.LocalResponseNorm(3), nn.LocalResponseNorm(2)), randn(6, 4, 4))
add("prelu", nn.Sequential(nn.PReLU(3), nn.PReLU()), randn(3, 4, 4))
add("bilinear", nn.Bilinear(3, 4, 5),
  function(batch) return { ml.randn(batch, 3), ml.randn(batch, 4) } end,
  { dynamic = { { "batch" }, { "batch" } } })
add("bag", nn.EmbeddingBag(6, 4, { mode = "mean" }),
  function(batch) return { ml.randint(6, { batch, 3 }) } end, { ids = { true } })
for _, mode in ipairs { "nearest", "nearest-exact", "bilinear", "bicubic" } do
  add("upsample_" .. mode, nn.Upsample { scale_factor = 2, mode = mode }, randn(3, 4, 5))
end

local Heads = nn.class "Heads"
function Heads:init()
  self.first = nn.MultiheadAttention(8, 2, { batch_first = true })
  self.second = nn.MultiheadAttention(8, 2, { batch_first = true })
end
function Heads:forward(x, padding)
  local y, weights = self.first(x, x, x, { key_padding_mask = padding })
  return y, weights, (self.second(x, x, x, { need_weights = false }))
end
add("heads", Heads(), function(batch)
  local padding = ml.zeros(batch, 5):bool()
  padding[{ {}, 5 }] = true
  return { ml.randn(batch, 5, 8), padding }
end, { dynamic = { { "batch" }, { "batch" } } })

return models
