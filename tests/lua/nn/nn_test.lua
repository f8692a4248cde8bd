-- tests/lua/nn/nn_test.lua: nn.Module's bookkeeping, the layers against hand-made results, the state
-- dict, printing, and errors that name the layer.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local nn = ml.nn

local function names_of(iterator)
  local out = {}
  for name in iterator do out[#out + 1] = name end
  return out
end

local Net = nn.class("Net")

function Net:init()
  self.fc1 = nn.Linear(4, 3)
  self.act = nn.ReLU()
  self.scale = nn.Parameter(ml.ones(3))
  self.fc2 = nn.Linear(3, 2, { bias = false })
  self:register_buffer("steps", ml.zeros(1))
  self:register_buffer("cache", ml.zeros(1), { persistent = false })
end

function Net:forward(x)
  return self.fc2(self.act(self.fc1(x)) * self.scale)
end

test("parameters, buffers and modules are found in the order of assignment", function()
  local net = Net()
  expect.equal(names_of(net:named_parameters()),
    { "scale", "fc1.weight", "fc1.bias", "fc2.weight" })
  expect.equal(#net:parameters(), 4)
  expect.equal(names_of(net:named_buffers()), { "steps", "cache" })
  expect.equal(names_of(net:named_modules()), { "", "fc1", "act", "fc2" })
  expect.equal(#net:children(), 3)
  expect.equal(net(ml.randn(5, 4)).shape[2], 2)
end)

test("deleting and assigning again", function()
  local net = Net()
  net.fc2 = nil
  expect.equal(#net:parameters(), 3)
  net.fc2 = nn.Linear(3, 1)
  net.act = nn.Tanh()
  expect.equal(names_of(net:named_children()), { "fc1", "act", "fc2" })
  net.extra = false
  net.extra = nn.Linear(1, 1)
  expect.equal(#net:parameters(), 7)
end)

test("a plain tensor in a parameter's position is an error", function()
  local net = Net()
  net.scale = ml.ones(3)
  expect.error(function() net:parameters() end,
    "'scale' was a parameter and now holds a plain tensor")
end)

test("names of methods and names with dots are refused", function()
  local net = Net()
  expect.error(function() net.train = nn.ReLU() end, "'train' is taken")
  expect.error(function() net["a.b"] = nn.ReLU() end, "has a dot")
end)

test("tied parameters count once and have both names in the state", function()
  local net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
  net[2].weight = net[1].weight
  expect.equal(#net:parameters(), 3)
  local state = net:state_dict()
  expect.truthy(state["0.weight"] and state["1.weight"])
end)

test("train, eval, apply, zero_grad, requires_grad_", function()
  local net = Net()
  expect.falsy(net:eval().fc1.training)
  expect.truthy(net:train().fc1.training)
  local seen = {}
  net:apply(function(m) seen[#seen + 1] = m end)
  expect.equal(#seen, 4)
  expect.truthy(seen[4] == net)
  net(ml.randn(5, 4)):sum():backward()
  expect.truthy(net.fc1.weight.grad)
  net:zero_grad()
  expect.equal(net.fc1.weight.grad, nil)
  net:requires_grad_(false)
  expect.falsy(net.fc1.weight.requires_grad)
  expect.equal(#net:parameters(), 4)
end)

test("hooks", function()
  local layer = nn.Identity()
  local before = layer:register_forward_pre_hook(function(_, x) return x + 1 end)
  local after = layer:register_forward_hook(function(_, inputs, y) return y * inputs[1] end)
  expect.equal(layer(ml.tensor { 2 }):totable(), { 9 })
  after:remove()
  expect.equal(layer(ml.tensor { 2 }):totable(), { 3 })
  before:remove()
  expect.equal(layer(ml.tensor { 2 }):totable(), { 2 })
end)

test("the state dict loads back", function()
  ml.manual_seed(1)
  local a, b = Net(), Net()
  a.steps:add_(7)
  local x = ml.randn(5, 4)
  expect.falsy(a(x):eq(b(x)):all():item())
  b:load_state_dict(a:state_dict())
  expect.truthy(a(x):eq(b(x)):all():item())
  expect.equal(b.steps:item(), 7.0)
  expect.equal(a:state_dict().cache, nil)
end)

test("a state that does not fit lists everything and loads nothing", function()
  local net = Net()
  local state = net:state_dict()
  for name, tensor in pairs(state) do state[name] = tensor + 1 end
  state["fc1.weight"] = ml.zeros(9, 9)
  state.scale = nil
  state.other = ml.zeros(1)
  local before = net.fc1.bias:detach():clone()
  local message = expect.error(function() net:load_state_dict(state) end, "does not fit Net")
  for _, part in ipairs { "missing: scale", "unexpected: other",
    "another shape: fc1.weight %(%(9, 9%), expected %(3, 4%)%)" } do
    expect.truthy(message:find(part), message)
  end
  expect.truthy(net.fc1.bias:eq(before):all():item())
  state["fc1.weight"] = nil
  local report = net:load_state_dict(state, { strict = false })
  expect.equal(report, { missing_keys = { "fc1.weight", "scale" }, unexpected_keys = { "other" } })
  expect.truthy(net.fc1.bias:eq(before + 1):all():item())
end)

test("to changes dtypes and keeps the values' identity", function()
  local net = Net()
  local weight = net.fc1.weight
  net:to { dtype = ml.float64 }
  expect.equal(weight.dtype, ml.float64)
  expect.truthy(weight.requires_grad and weight.is_leaf)
  expect.equal(net.steps.dtype, ml.float64)
  expect.equal(net(ml.randn { 2, 4, dtype = ml.float64 }).dtype, ml.float64)
  expect.error(function() net:to("nowhere") end, "nowhere")
  expect.error(function() net:to("int64") end, "floating")
end)

test("printing", function()
  local text = tostring(Net())
  expect.truthy(text:find("(fc1): Linear(4 -> 3)", 1, true), text)
  expect.truthy(text:find("24 parameters", 1, true), text)
end)

test("errors name the layer and the option", function()
  local layer = nn.Linear(64, 10)
  expect.error(function() layer(ml.zeros(2, 3)) end,
    "nn_test.lua:%d+: Linear%(64 %-> 10%): linear:")
  expect.error(function() nn.Conv2d(1, 2, 3)(ml.zeros(1, 2, 8, 8)) end,
    "Conv2d%(1 %-> 2, kernel 3%)")
  expect.error(function() nn.Conv2d(1, 2, 3, { pading = 1 }) end,
    "unknown option 'pading'; did you mean 'padding'")
  expect.error(function() nn.Linear(2) end, "'out_features' is missing")
  expect.error(function() nn.Linear(2, 2.5) end, "'out_features' must be an integer")
  expect.error(function() nn.Linear(2, 2, true, nil, nil, 1) end, "at most 5")
  expect.error(function() nn.Sequential(1) end, "layer 1")
  expect.error(function() nn.CrossEntropyLoss { reduction = "men" } end, "'reduction'")
  expect.error(function() nn.BatchNorm2d(3)(ml.zeros(2, 3)) end, "BatchNorm2d%(3%)")
  expect.error(function() nn.class("Empty")()(1) end, "no method forward")
  expect.error(function() nn.Parameter(3) end, "tensor is expected")
  expect.error(function() nn.Embedding(3, 2)(ml.tensor { 4 }) end, "Embedding%(3, 2%)")
  expect.error(function() nn.Embedding(3, 2)(ml.tensor { 0 }) end, "Embedding%(3, 2%)")
end)

test("containers", function()
  local seq = nn.Sequential { { "lin", nn.Linear(2, 3) }, { "act", nn.ReLU() } }
  expect.equal(#seq, 2)
  expect.truthy(seq[1] == seq.lin and seq[-1] == seq.act)
  expect.equal(names_of(seq:named_parameters()), { "lin.weight", "lin.bias" })
  seq:append(nn.Linear(3, 1))
  expect.equal(seq(ml.zeros(4, 2)).shape[2], 1)
  local list = nn.ModuleList { nn.Linear(1, 1), nn.Linear(1, 1) }
  expect.equal(#list, 2)
  expect.equal(names_of(list:named_parameters()), { "0.weight", "0.bias", "1.weight", "1.bias" })
  local count = 0
  for _ in ipairs(list) do count = count + 1 end
  expect.equal(count, 2)
  local dict = nn.ModuleDict { b = nn.ReLU(), a = nn.Linear(1, 1) }
  expect.equal(dict:keys(), { "a", "b" })
  local parameters = nn.ParameterList { ml.ones(2), ml.zeros(3) }
  expect.equal(#parameters:parameters(), 2)
end)

test("normalisation and dropout know training from evaluation", function()
  ml.manual_seed(3)
  local norm = nn.BatchNorm1d(2)
  local x = ml.tensor { { 1.0, 10.0 }, { 3.0, 30.0 } }
  expect.near(norm(x):totable(), { { -1, -1 }, { 1, 1 } }, 1e-4)
  expect.near(norm.running_mean:totable(), { 0.2, 2 }, 1e-6)
  expect.near(norm.running_var:totable(), { 1.1, 20.9 }, 1e-5)
  expect.equal(norm.num_batches_tracked:item(), 1)
  norm:eval()
  expect.near(norm(x)[{ 1, 1 }]:item(), 0.8 / math.sqrt(1.1 + 1e-5), 1e-5)
  local drop = nn.Dropout(0.5)
  local y = drop(ml.ones(1000))
  expect.truthy(y:eq(0):logical_or(y:eq(2)):all():item())
  expect.near(y:mean():item(), 1, 0.15)
  drop:eval()
  expect.truthy(drop(y) == y)
end)

test("layers give the shapes they say", function()
  local image = ml.randn(2, 3, 8, 8)
  local cases = {
    { nn.Conv2d(3, 6, 3, { padding = "same", groups = 3 }), { 2, 6, 8, 8 } },
    { nn.Conv2d(3, 4, { 3, 5 }, 2), { 2, 4, 3, 2 } },
    { nn.MaxPool2d(2), { 2, 3, 4, 4 } },
    { nn.AvgPool2d(3, { stride = 1, padding = 1 }), { 2, 3, 8, 8 } },
    { nn.AdaptiveAvgPool2d(2), { 2, 3, 2, 2 } },
    { nn.BatchNorm2d(3), { 2, 3, 8, 8 } },
    { nn.LayerNorm { 8, 8 }, { 2, 3, 8, 8 } },
    { nn.Flatten(), { 2, 192 } },
    { nn.Unflatten(3, { 2, 4 }), { 2, 3, 2, 4, 8 } },
    { nn.Softmax(2), { 2, 3, 8, 8 } },
    { nn.PReLU(3), { 2, 3, 8, 8 } },
  }
  for _, case in ipairs(cases) do
    expect.equal(table.concat(case[1](image).shape, " "), table.concat(case[2], " "),
      tostring(case[1]))
  end
  expect.equal(table.concat(nn.Conv1d(3, 5, 3)(ml.randn(2, 3, 9)).shape, " "), "2 5 7")
  for _, name in ipairs { "ReLU", "ReLU6", "Sigmoid", "Tanh", "SiLU", "Mish", "SELU", "Softsign",
    "Hardsigmoid", "Hardswish", "LogSigmoid", "GELU", "ELU", "CELU", "LeakyReLU", "Hardtanh",
    "Softplus" } do
    expect.equal(nn[name]()(ml.randn(4)).shape[1], 4, name)
  end
end)

test("losses are the ops of their names", function()
  ml.manual_seed(5)
  local scores, classes = ml.randn(4, 3), ml.tensor { 1, 3, 2, 2 }
  expect.near(nn.CrossEntropyLoss()(scores, classes):item(),
    ml.cross_entropy(scores, classes):item())
  local sum = nn.NLLLoss { reduction = "sum" }(scores:log_softmax(2), classes):item()
  expect.near(sum / 4, ml.cross_entropy(scores, classes):item(), 1e-5)
  local weighted = nn.CrossEntropyLoss(ml.tensor { 1.0, 2.0, 0.5 })
  expect.equal(#weighted:buffers(), 1)
  expect.truthy(weighted(scores, classes):item() > 0)
  local a, b = ml.rand(4), ml.rand(4)
  for _, name in ipairs { "MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BCELoss",
    "BCEWithLogitsLoss", "KLDivLoss" } do
    expect.equal(nn[name]()(a, b).ndim, 0, name)
  end
end)

test("initial values", function()
  ml.manual_seed(7)
  local weight = ml.empty(200, 100)
  nn.init.kaiming_uniform_(weight, { a = math.sqrt(5) })
  expect.truthy(weight:abs():max():item() <= 0.1)
  expect.near(weight:std():item(), 0.1 / math.sqrt(3), 0.02)
  nn.init.xavier_normal_(weight)
  expect.near(weight:std():item(), math.sqrt(2 / 300), 0.02)
  nn.init.trunc_normal_(weight, 0, 1, -1, 1)
  expect.truthy(weight:abs():max():item() <= 1)
  nn.init.eye_(weight)
  expect.equal(weight:sum():item(), 100.0)
  expect.error(function() nn.init.xavier_uniform_(ml.empty(3)) end, "at least 2 dimensions")
  expect.truthy(nn.Linear(100, 10).weight:abs():max():item() <= 0.1)
end)

test("a query that may see nothing gives zeros, and no gradient", function()
  local q = ml.randn { 1, 2, 4, requires_grad = true }
  local k, v = ml.randn(1, 3, 4), ml.randn(1, 3, 4)
  local seen = ml.tensor { { true, true, false }, { false, false, false } }
  local y = ml.scaled_dot_product_attention(q, k, v, seen)
  expect.equal(y[1][2]:abs():sum():item(), 0.0)
  local g = ml.grad(y:sum(), q)
  expect.truthy(g:isfinite():all():item())
  expect.equal(g[1][2]:abs():sum():item(), 0.0)
end)

test("attention has the derivatives of what it is made of", function()
  local function inputs(batch_of_values)
    ml.manual_seed(5)
    local function leaf(...) return ml.randn({ ... }, { dtype = ml.float64, requires_grad = true }) end
    return { leaf(2, 3, 4), leaf(2, 5, 4), leaf(table.unpack(batch_of_values)), leaf(3, 5) }
  end
  local function plain(q, k, v, mask)
    return (q:matmul(k:transpose(-1, -2)) / 2 + mask):softmax(-1):matmul(v)
  end
  for _, sizes in ipairs { { 2, 5, 6 }, { 3, 1, 5, 6 } } do
    local results = {}
    for i, f in ipairs { ml.scaled_dot_product_attention, plain } do
      local given = inputs(sizes)
      local firsts = { ml.grad(f(table.unpack(given)):pow(2):sum(), given, { create_graph = true }) }
      local total = 0
      for _, g in ipairs(firsts) do total = total + g:pow(2):sum() end
      results[i] = { firsts, { ml.grad(total, given) } }
    end
    for order = 1, 2 do
      for j = 1, 4 do
        local got, wanted = results[1][order][j], results[2][order][j]
        expect.near((got - wanted):abs():max():item(), 0, 1e-9, ("derivative %d of argument %d"):format(order, j))
      end
    end
  end
end)

test("deviations and cosines stay finite where their squares do not", function()
  local x = ml.tensor({ -2000.0, 2000.0, 1000.0 }, { dtype = ml.float16 })
  expect.truthy(x:std():isfinite():item())
  expect.equal(ml.cosine_similarity(x, x, 1):item(), 1.0)
  local flat = ml.ones { 3, requires_grad = true }
  local s = flat:std()
  expect.equal(s:item(), 0.0)
  expect.equal(ml.grad(s, flat):abs():sum():item(), 0.0)
end)

test("a pool window that lies in the padding has no maximum", function()
  local x = ml.ones(1, 1, 1, 6)
  local y = ml.max_pool2d(x, { 2, 3 }, { 1, 2 }, 1, 2)
  expect.equal(y.shape[3] * y.shape[4], y:numel())
  expect.equal(y:amin():item(), -math.huge)
  expect.equal(ml.max_pool2d(x:to(ml.int32), { 2, 3 }, { 1, 2 }, 1, 2):amin():item(), -2147483648)
end)

test("valid padding is none", function()
  expect.equal(tostring(nn.Conv2d(1, 1, 3, { padding = "valid" })(ml.ones(1, 1, 5, 5)).shape), "(1, 1, 3, 3)")
end)

harness.run()
