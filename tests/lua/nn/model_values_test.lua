-- tests/lua/nn/model_values_test.lua: small networks of each family with PyTorch's weights: results and
-- gradients; and what nn.utils makes of layers (tests/reference/make_models.py).

local here = arg[0]:match("^(.*)/") or "."
package.path = here .. "/../?.lua;" .. package.path
local harness = require "harness"
local json = require "moonlet.json"
local ml = require "moonlet"
local system = require "moonlet.system"
local test, expect = harness.test, harness.expect
local nn = ml.nn
local F, utils = nn.functional, nn.utils

local TOLERANCE = 1e-5
local reference = json.decode(system.read_file(here .. "/../../reference/values/models.json"))

local function decode(value)
  return ml.tensor(value.data, { dtype = value.dtype }):reshape(value.shape)
end

local function decode_all(values)
  local out = {}
  for key, value in pairs(values) do out[key] = decode(value) end
  return out
end

local function near(got, wanted, what)
  local y = decode(wanted)
  expect.equal(tostring(got.shape), tostring(y.shape), what)
  expect.near(got:detach():reshape(-1):totable(), y:reshape(-1):totable(), TOLERANCE, what)
end

-- Loads the state, whose names must be the network's, and compares result and gradients.
local function check(net, case, ...)
  local state = decode_all(case.state)
  for name in pairs(net:state_dict()) do expect.truthy(state[name], "not in PyTorch: " .. name) end
  net:load_state_dict(state)
  local y = net(...)
  near(y, case.output, "result")
  local factors = ml.arange(y:numel()):float():cos():reshape(y.shape)
  local loss = (y * factors):sum()
  loss:backward()
  for name, wanted in pairs(case.gradients) do
    near(net:get_parameter(name).grad, wanted, "gradient of " .. name)
  end
end

local models = {}

function models.mlp()
  return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
end

function models.conv()
  return nn.Sequential(nn.Conv2d(1, 4, 3, { padding = 1 }), nn.BatchNorm2d(4), nn.ReLU(),
    nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, { stride = 2 }), nn.GroupNorm(2, 4), nn.SiLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
end

local Recurrent = nn.class "Recurrent"

function Recurrent:init(kind)
  self.embed = nn.Embedding(6, 4)
  self.rnn = nn[kind](4, 3, { num_layers = 2, batch_first = true, bidirectional = true })
  self.head = nn.Linear(6, 2)
end

function Recurrent:forward(x, lengths)
  local packed = utils.rnn.pack_padded_sequence(self.embed(x), lengths,
    { batch_first = true, enforce_sorted = false })
  local y = utils.rnn.pad_packed_sequence((self.rnn(packed)), true)
  return self.head(y)
end

function models.lstm() return Recurrent "LSTM" end
function models.gru() return Recurrent "GRU" end

local Translator = nn.class "Translator"

function Translator:init()
  self.source, self.target = nn.Embedding(6, 8), nn.Embedding(5, 8)
  self.body = nn.Transformer(8, 2, 1, 1, 8, { dropout = 0.0, batch_first = true })
  self.head = nn.Linear(8, 5)
end

function Translator:forward(x, y)
  local mask = nn.Transformer.generate_square_subsequent_mask(y.shape[2])
  return self.head(self.body(self.source(x), self.target(y), { tgt_mask = mask }))
end

models.translator = Translator

local ViT = nn.class "ViT"

function ViT:init()
  self.patch = nn.Conv2d(1, 8, 2, { stride = 2 })
  self.cls = nn.Parameter(ml.randn(1, 1, 8))
  self.position = nn.Parameter(ml.randn(1, 5, 8))
  local layer = nn.TransformerEncoderLayer(8, 2, 8, 0.0, "gelu",
    { batch_first = true, norm_first = true })
  self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8))
  self.head = nn.Linear(8, 3)
end

function ViT:forward(x)
  x = self.patch(x):flatten(3):transpose(2, 3)
  x = ml.cat({ self.cls:expand(x.shape[1], 1, 8), x }, 2) + self.position
  return self.head(self.encoder(x)[{ {}, 1 }])
end

models.vit = ViT

local Block = nn.class "Block"

function Block:init()
  self.norm1, self.norm2 = nn.LayerNorm(8), nn.RMSNorm(8)
  self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
  self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
end

function Block:forward(x)
  local n, t, c = table.unpack(x.shape:totable())
  local heads = {}
  for i, part in ipairs(self.qkv(self.norm1(x)):chunk(3, -1)) do
    heads[i] = part:view(n, t, 2, 4):transpose(2, 3)
  end
  local y = F.scaled_dot_product_attention(heads[1], heads[2], heads[3], { is_causal = true })
  x = x + self.out(y:transpose(2, 3):reshape(n, t, c))
  return x + self.mlp(self.norm2(x))
end

local GPT = nn.class "GPT"

function GPT:init()
  self.token, self.position = nn.Embedding(7, 8), nn.Embedding(4, 8)
  self.blocks = nn.ModuleList { Block(), Block() }
  self.norm = nn.LayerNorm(8)
  self.head = nn.Linear(8, 7, { bias = false })
  self.head.weight = self.token.weight
end

function GPT:forward(x)
  x = self.token(x) + self.position(ml.arange(x.shape[2]))
  for _, block in ipairs(self.blocks) do x = block(x) end
  return self.head(self.norm(x))
end

models.gpt = GPT

for _, case in ipairs(reference.models) do
  test("a network with PyTorch's weights: " .. case.name, function()
    local inputs = {}
    for i, x in ipairs(case.inputs) do inputs[i] = decode(x) end
    check(models[case.name](), case, table.unpack(inputs))
  end)
end

local P, prune = utils.parametrizations, utils.prune
local layers = {
  ["parametrizations.weight_norm"] = function() return P.weight_norm(nn.Linear(4, 3)) end,
  ["parametrizations.weight_norm dim"] = function()
    return P.weight_norm(nn.Conv2d(2, 3, 2), { dim = 2 })
  end,
  ["parametrizations.weight_norm all"] = function()
    return P.weight_norm(nn.Linear(4, 3), { dim = false })
  end,
  ["parametrizations.spectral_norm"] = function() return P.spectral_norm(nn.Linear(4, 3)) end,
  ["parametrizations.spectral_norm transposed"] = function()
    return P.spectral_norm(nn.ConvTranspose2d(2, 3, 2), { n_power_iterations = 2 })
  end,
  weight_norm = function() return utils.weight_norm(nn.Linear(4, 3)) end,
  spectral_norm = function() return utils.spectral_norm(nn.Conv2d(2, 3, 2)) end,
  ["prune.l1"] = function()
    local net = prune.ln_structured(nn.Linear(4, 3), "weight", 1, 2, 2)
    return prune.l1_unstructured(net, "weight", 0.5)
  end,
}
for _, map in ipairs { "matrix_exp", "cayley", "householder" } do
  for _, width in ipairs { 3, 4, 6 } do
    for text, use in pairs { True = true, False = false } do
      layers[("orthogonal %s %d %s"):format(map, width, text)] = function()
        return P.orthogonal(nn.Linear(4, width),
          { orthogonal_map = map, use_trivialization = use })
      end
    end
  end
end

for _, case in ipairs(reference.utils) do
  test("a layer with PyTorch's weights: " .. case.name, function()
    local net = layers[case.name]()
    check(net, case, decode(case.input))
    for name, wanted in pairs(case.after) do near(net:state_dict()[name], wanted, name .. " after") end
  end)
end

test("pruning takes the elements and slices that PyTorch takes", function()
  local made = {
    l1 = { prune.l1_unstructured, 5 }, ["l1 part"] = { prune.l1_unstructured, 0.375 },
    ["ln rows"] = { prune.ln_structured, 1, 2, 1 },
    ["ln columns"] = { prune.ln_structured, 2, 1, 2 },
  }
  for name, call in pairs(made) do
    local net = nn.Linear(4, 3)
    net.weight:detach():copy_(decode(reference.scores))
    call[1](net, "weight", table.unpack(call, 2))
    near(net.weight_mask, reference.prune[name].mask, name)
  end
end)

test("a convolution and its normalisation become one layer", function()
  local conv, bn = nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3)
  conv:load_state_dict(decode_all(reference.fused.conv))
  bn:load_state_dict(decode_all(reference.fused.bn))
  expect.error(function() utils.fuse_conv_bn_eval(conv, bn) end, "must be in eval mode")
  local fused = utils.fuse_conv_bn_eval(conv:eval(), bn:eval())
  for name, wanted in pairs(reference.fused.fused) do near(fused:state_dict()[name], wanted, name) end
  local x = ml.randn(2, 2, 5, 5)
  expect.near(fused(x):totable(), bn(conv(x)):totable(), 1e-5)
  expect.truthy(nn.is_parameter(fused.weight) and fused.weight ~= conv.weight)
  local linear, norm = nn.Linear(3, 4):eval(), nn.BatchNorm1d(4):eval()
  norm.running_mean:normal_()
  norm.running_var:uniform_(0.5, 2)
  local z = ml.randn(5, 3)
  expect.near(utils.fuse_linear_bn_eval(linear, norm)(z):totable(), norm(linear(z)):totable(), 1e-5)
  local up, third = nn.ConvTranspose2d(2, 3, 2):eval(), nn.BatchNorm2d(3):eval()
  third.running_mean:normal_()
  expect.near(utils.fuse_conv_bn_eval(up, third, true)(x):totable(), third(up(x)):totable(), 1e-5)
end)

harness.run()
