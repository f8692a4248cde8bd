-- tests/lua/nn/module_tools_test.lua: what modules can do besides computing: hooks of all kinds, states,
-- parts by name, copies, lists and dicts, lazy layers, summaries, and the draws of new layers.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local nn = ml.nn

local function all_equal(a, b) return a.shape == b.shape and a:eq(b):all():item() end

local function names_of(iterator)
  local out = {}
  for name in iterator do out[#out + 1] = name end
  return out
end

test("forward hooks take named arguments and run after errors", function()
  local Net = nn.class "Net"
  function Net:forward(x, options)
    if options and options.fail then error("no luck", 0) end
    return x * (options and options.factor or 1)
  end
  local net, seen = Net(), {}
  local pre = net:register_forward_pre_hook(function(_, inputs, options)
    seen[#seen + 1] = options.factor or "none"
    return inputs, { factor = (options.factor or 1) + 1 }
  end, { with_kwargs = true })
  local post = net:register_forward_hook(function(_, inputs, options, y)
    seen[#seen + 1] = { #inputs, options.factor, y:item() }
  end, { with_kwargs = true })
  expect.equal(net(ml.ones(1), { factor = 2 }):item(), 3.0)
  expect.equal(net(ml.ones(1)):item(), 2.0)
  expect.equal(seen, { 2, { 1, 3, 3.0 }, "none", { 1, 2, 2.0 } })
  pre:remove()
  post:remove()
  local called = {}
  net:register_forward_hook(function(_, _, y) called[#called + 1] = y == nil and "error" or "fine" end,
    { always_call = true })
  net:register_forward_hook(function() called[#called + 1] = "never after errors" end)
  expect.error(function() net(ml.ones(1), { fail = true }) end, "no luck")
  expect.equal(called, { "error" })
  net(ml.ones(1))
  expect.equal(called, { "error", "fine", "never after errors" })
end)

test("hooks of all modules run before their own", function()
  local order = {}
  local handles = {
    nn.register_module_forward_pre_hook(function(m) order[#order + 1] = "pre " .. m.__name end),
    nn.register_module_forward_hook(function(_, _, y)
      order[#order + 1] = "all"
      return y + 1
    end),
  }
  local net = nn.Identity()
  net:register_forward_hook(function(_, _, y) order[#order + 1] = y:item() end)
  expect.equal(net(ml.zeros(1)):item(), 1.0)
  for _, handle in ipairs(handles) do handle:remove() end
  expect.equal(net(ml.zeros(1)):item(), 0.0)
  expect.equal(order, { "pre Identity", "all", 1.0, 0.0 })
  local gradients = {}
  local after = nn.register_module_full_backward_hook(function(_, gi) gradients[1] = gi[1]:item() end)
  local before = nn.register_module_full_backward_pre_hook(function(_, go) return { go[1] * 3 } end)
  local x = ml.ones(1):requires_grad_(true)
  nn.Identity()(x):backward()
  after:remove()
  before:remove()
  expect.equal({ gradients[1], x.grad:item() }, { 3.0, 3.0 })
end)

test("backward hooks see and change the gradients of results and arguments", function()
  local Two = nn.class "Two"
  function Two:forward(a, b) return a * 2, a + b * 3 end
  local net, seen = Two(), {}
  net:register_full_backward_pre_hook(function(_, grads)
    seen.pre = { grads[1]:item(), grads[2]:item() }
    return { grads[1] * 10, grads[2] }
  end)
  net:register_full_backward_hook(function(_, inputs, outputs)
    seen.post = { inputs[1]:item(), inputs[2]:item(), outputs[1]:item(), outputs[2]:item() }
    return { inputs[1], inputs[2] * 0 }
  end)
  local a, b = ml.ones(1):requires_grad_(true), ml.ones(1):requires_grad_(true)
  local y, z = net(a, b)
  local loss = y + z * 5
  loss:backward()
  expect.equal(seen, { pre = { 1.0, 5.0 }, post = { 25.0, 15.0, 10.0, 5.0 } })
  expect.equal({ a.grad:item(), b.grad:item() }, { 25.0, 0.0 })
end)

test("hooks of states run and may change them", function()
  local net, order = nn.Sequential(nn.Linear(2, 1)), {}
  net[1]:register_state_dict_pre_hook(function(_, prefix, keep) order[1] = { prefix, keep } end)
  local handle = net:register_state_dict_post_hook(function(_, state, prefix, metadata)
    order[2] = { prefix, metadata.version }
    state.extra = ml.ones(1)
  end)
  local state = net:state_dict()
  expect.equal(order, { { "0.", false }, { "", 1 } })
  expect.truthy(state.extra)
  expect.error(function() net:load_state_dict(state) end, "unexpected: extra")
  net:register_load_state_dict_pre_hook(function(_, given) given.extra = nil end)
  net:load_state_dict(state)
  expect.truthy(state.extra, "the state given is not changed")
  handle:remove()
  expect.equal(net:state_dict().extra, nil)
  local lenient = nn.Linear(2, 1)
  lenient:register_load_state_dict_post_hook(function(_, keys)
    expect.equal(keys.missing_keys, { "bias" })
    keys.missing_keys[1] = nil
  end)
  lenient:load_state_dict { weight = ml.ones(1, 2) }
  expect.equal(lenient.weight:totable(), { { 1.0, 1.0 } })
  local into = { before = ml.ones(1) }
  expect.truthy(lenient:state_dict { destination = into, prefix = "p." } == into and into["p.bias"])
end)

test("extra state and assigned tensors", function()
  local Counter = nn.class "Counter"
  function Counter:init() self.count = 0 end
  function Counter:get_extra_state() return { count = self.count } end
  function Counter:set_extra_state(state) self.count = state.count end
  local net = nn.Sequential(Counter(), nn.Linear(1, 1))
  net[1].count = 7
  local state = net:state_dict()
  expect.equal(state["0._extra_state"], { count = 7 })
  net[1].count = 0
  net:load_state_dict(state)
  expect.equal(net[1].count, 7)
  state["0._extra_state"] = nil
  expect.error(function() net:load_state_dict(state) end, "missing: 0._extra_state")
  expect.error(function() nn.Linear(1, 1):get_extra_state() end, "no method get_extra_state")
  local linear, weight = nn.Linear(2, 1), ml.ones(1, 2):double()
  linear.bias:requires_grad_(false)
  linear:load_state_dict({ weight = weight, bias = ml.zeros(1) }, { assign = true })
  expect.equal({ linear.weight.dtype, nn.is_parameter(linear.weight) }, { "float64", true })
  weight:fill_(3)
  expect.equal(linear.weight:totable(), { { 3.0, 3.0 } })
  expect.equal({ linear.weight.requires_grad, linear.bias.requires_grad }, { true, false })
  local norm = nn.BatchNorm1d(2)
  state = norm:state_dict()
  state.num_batches_tracked = nil
  norm:load_state_dict(state)
end)

test("parts by name", function()
  local net = nn.Sequential(nn.Linear(2, 2), nn.ModuleDict { norm = nn.BatchNorm1d(2) })
  expect.truthy(net:get_parameter "0.weight" == net[1].weight)
  expect.truthy(net:get_buffer "1.norm.running_mean" == net[2].norm.running_mean)
  expect.error(function() net:get_parameter "1.norm.running_mean" end, "no parameter")
  expect.error(function() net:get_buffer "0.weight" end, "no buffer")
  expect.error(function() net:get_submodule "2.x" end, "no module '2.x'")
  net:set_submodule("1.norm", nn.Identity())
  net:set_submodule("0", nn.Tanh())
  net:set_submodule("2", nn.ReLU())
  expect.equal({ net[1].__name, net[2].norm.__name, net[3].__name }, { "Tanh", "Identity", "ReLU" })
  expect.error(function() net:set_submodule("9.a", nn.ReLU()) end, "no module '9'")
  expect.error(function() net:set_submodule("1.new", nn.ReLU(), { strict = true }) end, "no module")
  local linear = nn.Linear(1, 1)
  expect.error(function() linear:register_parameter("in_features", nn.Parameter(ml.ones(1))) end,
    "exists already")
  expect.error(function() linear:add_module("weight", nn.ReLU()) end, "exists already")
  linear:register_module("act", nn.ReLU())
  linear.steps = nn.Buffer(ml.zeros(1))
  linear.cache = nn.Buffer(ml.zeros(1), { persistent = false })
  expect.equal(names_of(linear:named_buffers()), { "steps", "cache" })
  expect.equal({ linear:state_dict().steps ~= nil, linear:state_dict().cache }, { true })
  linear:register_buffer("later", nil)
  linear.later = ml.ones(2)
  expect.truthy(linear:state_dict().later)
end)

test("conversion to a type and to empty tensors keeps the values' identity", function()
  local net = nn.BatchNorm1d(2)
  local weight = net.weight
  expect.equal(net:type("float64").running_mean.dtype, "float64")
  expect.equal(net.num_batches_tracked.dtype, "int64")
  expect.truthy(net:to_empty("cpu") == net and net.weight == weight and weight.requires_grad)
  expect.error(function() net:to_empty() end, "'device' is missing")
  local linear = nn.Linear(2, 1):to("complex64")
  expect.equal(linear(ml.ones(1, 2):to("complex64")).dtype, "complex64")
  expect.equal(linear:to("complex128").weight.dtype, "complex128")
  expect.error(function() linear:to("int64") end, "floating and complex dtypes")
end)

test("a module that stands twice is one child", function()
  local relu = nn.ReLU()
  local twice = nn.Sequential(relu, nn.Linear(1, 1), relu)
  expect.equal({ #twice, #twice:children(), #twice:modules() }, { 3, 2, 3 })
  expect.equal(names_of(twice:named_children()), { "0", "1" })
  local count = 0
  twice:apply(function() count = count + 1 end)
  expect.equal(count, 3)
  expect.truthy(tostring(twice):find("(2): ReLU()", 1, true))
end)

test("copies have their own tensors and share what was shared", function()
  local net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
  net[2].weight = net[1].weight
  net:register_buffer("steps", ml.ones(1))
  net(ml.ones(1, 2)):sum():backward()
  local copy = net:deepcopy()
  expect.truthy(copy[1].weight == copy[2].weight and copy[1].weight ~= net[1].weight)
  expect.truthy(all_equal(copy[1].weight, net[1].weight))
  expect.truthy(all_equal(copy[1].bias.grad, net[1].bias.grad))
  copy[1].weight:detach():fill_(0)
  copy.steps:fill_(5)
  expect.truthy(net[1].weight:abs():sum():item() > 0 and net.steps:item() == 1)
  expect.equal(#copy:parameters(), #net:parameters())
  net[1].made = net[1].weight * 2
  expect.error(function() net:deepcopy() end, "detach it first")
end)

test("an encoder in eval mode gives zeros where the padding mask hides", function()
  local layer = nn.TransformerEncoderLayer(8, 2, 8, { batch_first = true })
  local net, plain = nn.TransformerEncoder(layer, 2), nn.TransformerEncoder(layer, 2,
    { enable_nested_tensor = false })
  plain:load_state_dict(net:state_dict())
  net:eval()
  plain:eval()
  local x = ml.randn(2, 3, 8)
  local hidden = ml.tensor { { 0, 0, 1 }, { 0, 0, 0 } }:bool()
  local function run(one, mask)
    return ml.no_grad(function() return one(x, { src_key_padding_mask = mask }) end)
  end
  local y, wanted = run(net, hidden), run(plain, hidden)
  expect.equal(y[{ 1, 3 }]:abs():sum():item(), 0.0)
  expect.truthy(all_equal(y[2], wanted[2]) and all_equal(y[{ 1, { 1, 2 } }], wanted[{ 1, { 1, 2 } }]))
  expect.truthy(wanted[{ 1, 3 }]:abs():sum():item() > 0)
  expect.truthy(all_equal(net(x, { src_key_padding_mask = hidden }), wanted), "with gradients")
  local front = ml.tensor { { 1, 0, 0 }, { 0, 0, 0 } }:bool()
  expect.truthy(all_equal(run(net, front), run(plain, front)))
  local causal = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 1):eval()
  expect.falsy(causal.use_nested_tensor)
end)

test("lists have slices and sums", function()
  local a, b, c = nn.Linear(1, 1), nn.ReLU(), nn.Tanh()
  local net = nn.Sequential(a, b, c)
  local part = net[{ 2, 3 }]
  expect.truthy(part[1] == b and part[2] == c and #part == 2 and part:is_a(nn.Sequential))
  expect.truthy(net[{ -2, -1 }][1] == b and #net[{ 1, 3, 2 }] == 2 and #net[{ 4, 9 }] == 0)
  expect.truthy((net + part)[5] == c and #(net * 2) == 6 and #net == 3)
  local named = nn.Sequential { { "x", a }, { "y", b } }
  expect.equal(names_of(named[{ 2, 2 }]:named_children()), { "y" })
  expect.truthy((nn.ModuleList { a } + nn.ModuleList { b })[2] == b)
  expect.error(function() return net[{ 1, 2, 0 }] end, "step 0")
  expect.error(function() return net[{ "a" }] end, "a range is")
  expect.error(function() return net * 0 end, "at least 1")
  local list = nn.ParameterList { ml.ones(1), ml.ones(2), ml.ones(3) }
  expect.equal(#list[{ 2, 3 }][2], 3)
end)

test("dicts of modules and of parameters", function()
  local dict = nn.ModuleDict { { "z", nn.ReLU() }, { "a", nn.Linear(1, 1) } }
  expect.equal(names_of(dict:items()), { "z", "a" })
  expect.truthy(dict:pop "z".__name == "ReLU" and #dict == 1)
  expect.error(function() dict:pop "z" end, "there is no 'z'")
  expect.error(function() dict.x = 3 end, "a module is expected")
  expect.equal(#dict:clear(), 0)
  expect.equal(#nn.ModuleDict(nn.ModuleDict { q = nn.ReLU() }), 1)
  local p = nn.ParameterDict { scale = ml.ones(2) }
  p.shift = ml.zeros(3)
  expect.equal(names_of(p:named_parameters()), { "scale", "shift" })
  expect.truthy(nn.is_parameter(p.shift) and p:get "none" == nil and p:get("none", 4) == 4)
  expect.equal(#p:setdefault("more", ml.ones(4)), 4)
  expect.equal(p:update { b = ml.ones(1) }:keys(), { "scale", "shift", "more", "b" })
  local copy = p:copy()
  expect.truthy(copy.scale == p.scale and (p:popitem()) == "b" and #copy == 4 and #p == 3)
  expect.equal(nn.ParameterDict.fromkeys({ "u", "v" }, ml.ones(1)):keys(), { "u", "v" })
  expect.error(function() p.bad = "text" end, "a tensor is expected")
end)

test("lazy layers take the sizes of their first input", function()
  for dims, size in ipairs { { 4 }, { 4, 4 }, { 4, 4, 4 } } do
    for _, kind in ipairs { "Conv", "ConvTranspose", "BatchNorm", "InstanceNorm" } do
      local name = ("%s%dd"):format(kind, dims)
      local net = kind:find "Conv" and nn["Lazy" .. name](2, 3) or nn["Lazy" .. name]({ affine = true })
      local weight = net.weight
      expect.truthy(nn.is_lazy(weight), name)
      local x = ml.randn(2, 3, table.unpack(size))
      local y = net(x)
      expect.truthy(net.weight == weight and not nn.is_lazy(weight), name)
      expect.equal(net.__name, name)
      local usual = kind:find "Conv" and nn[name](3, 2, 3) or nn[name](3, { affine = true })
      expect.equal(tostring(usual.weight.shape), tostring(weight.shape), name)
      usual:load_state_dict(net:state_dict())
      expect.truthy(all_equal(usual(x).shape and usual(x), net(x)), name)
      expect.truthy(y.shape[1] == 2)
    end
  end
  local linear = nn.LazyLinear(3)
  local optimiser = ml.optim.SGD(linear:parameters(), { lr = 0.1 })
  linear(ml.ones(2, 5)):sum():backward()
  local before = linear.weight:detach():clone()
  optimiser:step()
  expect.falsy(all_equal(before, linear.weight:detach()))
  local loaded = nn.LazyLinear(3)
  loaded:load_state_dict(linear:state_dict())
  expect.equal(tostring(loaded(ml.ones(1, 5)).shape), "(1, 3)")
  expect.truthy(all_equal(loaded.weight, linear.weight) and loaded.in_features == 5)
  expect.error(function() nn.LazyConv2d(2, 3)(ml.ones(3)) end, "expected 3 or 4 dimensions")
  expect.error(function() nn.LazyConv2d(3, 3, { groups = 2 })(ml.ones(1, 3, 4, 4)) end, "do not divide")
end)

test("a summary tells shapes, parameters, multiplications and memory", function()
  local net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
  net[1].bias:requires_grad_(false)
  local report = net:summary(ml.ones(1, 1, 4, 4))
  expect.equal({ report.parameters, report.trained }, { 2 * 9 + 2 + 8 * 3 + 3, 2 * 9 + 8 * 3 + 3 })
  expect.equal(report.multiplications, 8 * 9 + 24)
  expect.equal(report.rows[2].output, "(1, 2, 2, 2)")
  expect.equal({ report.rows[5].bytes, report.parameter_bytes }, { 12, 47 * 4 })
  local text = tostring(report)
  for _, part in ipairs { "0: Conv2d", "%(1, 2, 2, 2%)", "47 parameters", "96 mult%-adds" } do
    expect.truthy(text:find(part), text)
  end
  expect.truthy(net.training and net[2].training)
  expect.equal(#(rawget(net[1], "_hooks") or {}), 0)
  local rnn = nn.GRU(3, 4):summary(ml.ones(5, 2, 3))
  expect.equal(rnn.multiplications, 10 * (12 * 3 + 12 * 4))
  expect.error(function() net:summary(ml.ones(2)) end, "Conv2d")
  expect.truthy(net.training)
end)

test("new layers draw from PyTorch's distributions", function()
  local function within(x, bound, what)
    local most = x:abs():max():item()
    expect.truthy(most <= bound and most > 0.9 * bound, ("%s: %g of %g"):format(what, most, bound))
    local std = x:detach():std():item()
    expect.truthy(math.abs(std / (bound / math.sqrt(3)) - 1) < 0.2, what .. " spread")
  end
  ml.manual_seed(1)
  within(nn.Linear(50, 60).weight, 1 / math.sqrt(50), "Linear")
  within(nn.Linear(50, 600).bias, 1 / math.sqrt(50), "Linear bias")
  within(nn.Bilinear(20, 10, 30).weight, 1 / math.sqrt(20), "Bilinear")
  within(nn.Conv2d(8, 16, 3, { groups = 2 }).weight, 1 / math.sqrt(4 * 9), "Conv2d")
  within(nn.Conv3d(4, 400, 2).bias, 1 / math.sqrt(4 * 8), "Conv3d bias")
  within(nn.ConvTranspose2d(8, 16, 3).weight, 1 / math.sqrt(16 * 9), "ConvTranspose2d")
  for _, kind in ipairs { "RNN", "LSTM", "GRU" } do
    local net = nn[kind](30, 25, { num_layers = 2, bidirectional = true })
    for name, p in net:named_parameters() do
      if p.ndim == 2 then within(p, 0.2, kind .. " " .. name) end
    end
    within(nn[kind .. "Cell"](30, 25).weight_hh, 0.2, kind .. "Cell")
  end
  local attention = nn.MultiheadAttention(32, 4, { add_bias_kv = true })
  within(attention.in_proj_weight, math.sqrt(6 / (96 + 32)), "in_proj_weight")
  within(attention.out_proj.weight, 1 / math.sqrt(32), "out_proj")
  expect.equal(attention.in_proj_bias:abs():max():item() + attention.out_proj.bias:abs():max():item(), 0.0)
  within(nn.Transformer(32, 4, 1, 1, 64).encoder.layers[1].linear1.weight, math.sqrt(6 / 96), "Transformer")
  local rows = nn.Embedding(100, 30, { padding_idx = 3 }).weight:detach()
  expect.truthy(math.abs(rows:std():item() - 1) < 0.1 and rows[3]:abs():max():item() == 0)
  for _, norm in ipairs { nn.BatchNorm2d(5), nn.GroupNorm(1, 5), nn.LayerNorm(5), nn.RMSNorm(5) } do
    expect.truthy(norm.weight:eq(1):all():item(), norm.__name)
    if norm.bias then expect.truthy(norm.bias:eq(0):all():item(), norm.__name) end
  end
end)

test("embeddings of given rows", function()
  local rows = ml.tensor { { 1.0, 2 }, { 3, 4 }, { 5, 6 } }
  local layer = nn.Embedding.from_pretrained(rows)
  expect.equal(layer(ml.tensor { 2, 3 }):totable(), { { 3.0, 4.0 }, { 5.0, 6.0 } })
  expect.falsy(layer.weight.requires_grad)
  expect.equal({ layer.num_embeddings, layer.embedding_dim }, { 3, 2 })
  local trained = nn.Embedding.from_pretrained(rows, { freeze = false, padding_idx = -1 })
  expect.equal({ trained.weight.requires_grad, trained.padding_idx, trained.weight[3][1]:item() },
    { true, 3, 5.0 })
  local bag = nn.EmbeddingBag.from_pretrained(rows, { mode = "sum" })
  expect.equal(bag(ml.tensor { { 1, 3 } }):totable(), { { 6.0, 8.0 } })
  expect.error(function() nn.Embedding.from_pretrained(ml.ones(3)) end, "%(rows, features%) is expected")
  expect.error(function() nn.Embedding(2, 2, { _weight = ml.ones(3, 2) }) end, "'_weight' has shape")
end)

test("layers say what is wrong", function()
  local cases = {
    { function() nn.Conv2d(1, 1, 3, { padding_mode = "other" }) end, "'padding_mode' must be zeros" },
    { function() nn.Conv2d(1, 1, 3, { padding = "same", stride = 2 }) end, "wants stride 1" },
    { function() nn.ConvTranspose2d(1, 1, 3, { padding_mode = "reflect" }) end, "only 'padding_mode'" },
    { function() nn.ConvTranspose1d(1, 1, 3, { stride = 2 })(ml.ones(1, 1, 4), { 20 }) end,
      "is not from 9 to 10" },
    { function() nn.GroupNorm(2, 3) end, "3 channels do not divide into 2 groups" },
    { function() nn.LSTM(2, 2, { proj_size = 2 }) end, "must be less than" },
    { function() nn.GRU(2, 3)(ml.ones(4, 5)) end, "has 5 features, 2 are expected" },
    { function() nn.GRU(2, 3)(ml.ones(4, 1, 2), ml.ones(1, 2, 3)) end, "hidden state has shape" },
    { function() nn.LSTM(2, 3)(ml.ones(4, 1, 2), ml.ones(1, 1, 3)) end, "an array of the hidden state" },
    { function() nn.LSTM(2, 3)("x") end, "a tensor or a PackedSequence" },
    { function() nn.MultiheadAttention(5, 2) end, "not divisible" },
    { function() nn.TransformerEncoderLayer(4, 2, { activation = "tanh" }) end, '"relu", "gelu"' },
    { function() nn.Transformer(4, 2, 1, 1, 4)(ml.ones(2, 1, 4), ml.ones(2, 2, 4)) end, "batches" },
    { function() nn.AdaptiveLogSoftmaxWithLoss(4, 5, { 3, 3 }) end, "must grow" },
    { function() nn.AdaptiveLogSoftmaxWithLoss(4, 5, { 3 })(ml.ones(1, 4), ml.tensor { 6 }) end,
      "classes from 1 to 5" },
    { function() nn.MaxPool2d(2)(ml.ones(1, 4, 4), 1) end, "takes 1 argument, got 2" },
    { function() nn.MSELoss("other") end, "'reduction' must be" },
    { function() nn.ReflectionPad1d(1)(ml.ones(4)) end, "expected 2 or 3 dimensions" },
    { function() nn.Softmax2d()(ml.ones(2, 2)) end, "expected %(n, c, h, w%)" },
    { function() nn.BatchNorm3d(2)(ml.ones(1, 2, 3)) end, "expected %(n, channels, d, h, w%)" },
    { function() nn.Conv2d(1, 1, 3, { pading = 1 }) end, "did you mean 'padding'" },
  }
  for _, case in ipairs(cases) do expect.error(case[1], case[2]) end
end)

-- torch.nn.CrossMapLRN2d(size, 1.0, 1.0, 1.0)(torch.arange(1., 8).view(1, 7, 1, 1)), which keeps the
-- first channel's square in all sums beyond it.
test("CrossMapLRN2d of several windows", function()
  local want = {
    { 0.5, 0.33333, 0.27273, 0.22222, 0.18519, 0.15789, 0.13725 },
    { 0.66667, 0.57143, 0.5, 0.42105, 0.35714, 0.30769, 0.26923 },
    { 0.375, 0.35294, 0.27273, 0.22222, 0.18519, 0.15789, 0.23596 },
    { 0.44444, 0.44444, 0.35294, 0.29091, 0.2439, 0.2087, 0.31111 },
    { 0.26316, 0.28571, 0.25, 0.20833, 0.1773, 0.22727, 0.30172 },
    [7] = { 0.18919, 0.22581, 0.21429, 0.19048, 0.2381, 0.29371, 0.36567 },
  }
  for size, values in pairs(want) do
    local y = nn.CrossMapLRN2d(size, 1.0, 1.0, 1.0)(ml.arange(1.0, 7):view(1, 7, 1, 1))
    expect.near(y:flatten():tolist(), values, 1e-5, size)
  end
end)

test("InstanceNorm counts no batches, as PyTorch's", function()
  local norm = nn.InstanceNorm1d(2, { track_running_stats = true })
  norm(ml.randn(2, 2, 3))
  expect.equal(norm.num_batches_tracked:item(), 0)
  expect.truthy(norm.running_mean:ne(0):all():item())
end)

test("random layers draw while training and do nothing in eval mode", function()
  local x = ml.ones(4, 50, 3)
  for _, name in ipairs { "Dropout", "Dropout1d", "AlphaDropout", "FeatureAlphaDropout" } do
    local net = nn[name](0.5)
    expect.falsy(all_equal(net(x), x), name)
    expect.truthy(all_equal(net:eval()(x), x), name)
  end
  local dropped = nn.Dropout2d(0.5)(ml.ones(4, 50, 2, 2)):flatten(3)
  expect.truthy(all_equal(dropped[{ {}, {}, 1 }], dropped[{ {}, {}, 4 }]))
  local gradients = nn.RReLU(0.2, 0.4)(-x)
  expect.truthy(gradients:min():item() >= -0.4 and gradients:max():item() <= -0.2)
  expect.falsy(gradients:max():item() == gradients:min():item())
  local y = nn.CrossMapLRN2d(3)(ml.ones(1, 5, 2, 2))
  expect.near(y[{ 1, 2, 1, 1 }]:item(), nn.LocalResponseNorm(3)(ml.ones(1, 5, 2, 2))[{ 1, 2, 1, 1 }]:item(), 1e-6)
  expect.error(function() nn.CrossMapLRN2d(3)(ml.ones(5)) end, "expected %(n, channels, h, w%)")
end)

test("recurrent layers follow autocast", function()
  local x = ml.randn(4, 2, 3)
  for _, kind in ipairs { "RNN", "LSTM", "GRU" } do
    local net, cell = nn[kind](3, 2), nn[kind .. "Cell"](3, 2)
    local plain = net(x)
    ml.autocast({ dtype = ml.bfloat16 }, function()
      local y, state = net(x)
      expect.equal(y.dtype, "bfloat16", kind)
      expect.near(y:float():totable(), plain:totable(), 0.05, kind)
      expect.equal((kind == "LSTM" and state[2] or state).dtype, "bfloat16", kind)
      net(x, state)
      y:float():sum():backward()
      expect.equal(cell(x[1]).dtype, "float32", kind)
      expect.equal(cell(x[1]:bfloat16()).dtype, "float32", kind)
    end)
    expect.equal(net.weight_ih_l0.grad.dtype, "float32", kind)
    net:double()
    ml.autocast({ dtype = ml.bfloat16 }, function()
      expect.equal(net(x:double()).dtype, "float64", kind)
    end)
  end
  local adaptive = nn.AdaptiveLogSoftmaxWithLoss(8, 9, { 3 })
  ml.autocast({ dtype = ml.bfloat16 }, function()
    local y = adaptive(ml.randn(3, 8), ml.tensor { 1, 6, 9 })
    expect.truthy(y:isfinite():all():item())
  end)
end)

test("layers work where a script has replaced load", function()
  local before = load
  load = nil  -- luacheck: ignore
  local ok, y = pcall(function() return nn.SoftMarginLoss()(ml.zeros(2), ml.ones(2)):item() end)
  load = before  -- luacheck: ignore
  expect.truthy(ok, y)
  expect.near(y, math.log(2), 1e-6)
end)

test("cumulative statistics are the means over all batches", function()
  local net = nn.BatchNorm1d(1, { momentum = false })
  net(ml.tensor { { 1.0 }, { 3 } })
  net(ml.tensor { { 5.0 }, { 7 } })
  expect.near(net.running_mean:item(), 4, 1e-6)
  net:reset_running_stats()
  expect.equal({ net.running_mean:item(), net.num_batches_tracked:item() }, { 0.0, 0 })
  expect.error(function() nn.BatchNorm1d(1, { momentum = true }) end, "'momentum'")
end)

harness.run()
