-- tests/lua/nn/nn_utils_test.lua: nn.utils and nn.init: packed sequences, parametrised and pruned
-- tensors, clipping, initialisers, and their errors. Values of PyTorch are in model_values_test.lua.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local nn = ml.nn
local utils, init = nn.utils, nn.init
local rnn, prune, parametrize = utils.rnn, utils.prune, utils.parametrize

local function near(a, b, tolerance)
  expect.equal(tostring(a.shape), tostring(b.shape))
  expect.near(a:detach():totable(), b:detach():totable(), tolerance or 1e-6)
end

test("sequences are padded and come back", function()
  local list = { ml.tensor { 1.0, 2, 3 }, ml.tensor { 4.0 } }
  expect.equal(rnn.pad_sequence(list):totable(), { { 1.0, 4.0 }, { 2.0, 0.0 }, { 3.0, 0.0 } })
  expect.equal(rnn.pad_sequence(list, true, -1, "left"):totable(), { { 1.0, 2.0, 3.0 }, { -1.0, -1.0, 4.0 } })
  local back = rnn.unpad_sequence(rnn.pad_sequence(list, true), ml.tensor { 3, 1 }, true)
  expect.equal({ back[1]:totable(), back[2]:totable() }, { { 1.0, 2.0, 3.0 }, { 4.0 } })
  expect.error(function() rnn.pad_sequence {} end, "'sequences' is empty")
  expect.error(function() rnn.pad_sequence { ml.ones({}) } end, "single number")
  expect.error(function() rnn.unpad_sequence(ml.ones(2, 2), { 3, 1 }) end, "has length 3, there are 2")
end)

test("sequences are packed and come back", function()
  local list = { ml.tensor { 1.0, 2 }, ml.tensor { 3.0, 4, 5 }, ml.tensor { 6.0 } }
  local packed = rnn.pack_sequence(list, false)
  expect.equal(packed.data:totable(), { 3.0, 1.0, 6.0, 4.0, 2.0, 5.0 })
  expect.equal({ packed.batch_sizes:totable(), packed.sorted_indices:totable(),
    packed.unsorted_indices:totable() }, { { 3, 2, 1 }, { 2, 1, 3 }, { 2, 1, 3 } })
  for i, x in ipairs(rnn.unpack_sequence(packed)) do expect.equal(x:totable(), list[i]:totable()) end
  local padded, lengths = rnn.pad_packed_sequence(packed, { batch_first = true, padding_value = 9, total_length = 4 })
  expect.equal(padded:totable(), { { 1.0, 2.0, 9.0, 9.0 }, { 3.0, 4.0, 5.0, 9.0 }, { 6.0, 9.0, 9.0, 9.0 } })
  expect.equal(lengths:totable(), { 2, 3, 1 })
  local double = packed:double()
  expect.equal({ double.data.dtype, double:to("float64") == double }, { "float64", true })
  local x = ml.randn(3, 2, 2):requires_grad_(true)
  rnn.pack_padded_sequence(x, { 3, 1 }).data:sum():backward()
  expect.equal(x.grad:sum(3):totable(), { { 2.0, 2.0 }, { 2.0, 0.0 }, { 2.0, 0.0 } })
  expect.equal(rnn.invert_permutation(ml.tensor { 2, 3, 1 }):totable(), { 3, 1, 2 })
  local wrong = {
    { function() rnn.pack_sequence(list) end, "must not grow" },
    { function() rnn.pack_padded_sequence(ml.ones(2, 2), { 2, 0 }) end, "at least 1" },
    { function() rnn.pack_padded_sequence(ml.ones(2, 2), { 3, 1 }) end, "has length 3" },
    { function() rnn.pack_padded_sequence(ml.ones(2, 2), { 1 }) end, "has 1 numbers" },
    { function() rnn.pack_padded_sequence(ml.ones(2), { 1 }) end, "a batch of sequences" },
    { function() rnn.pad_packed_sequence(packed, { total_length = 2 }) end, "less than the longest" },
    { function() rnn.pad_packed_sequence(ml.ones(2)) end, "a PackedSequence is expected" },
  }
  for _, case in ipairs(wrong) do expect.error(case[1], case[2]) end
end)

test("the sizes of packed steps are on the CPU whatever the default device", function()
  if not ml.cuda.is_available() then harness.skip "no CUDA device" end
  local before = ml.get_default_device()
  ml.set_default_device "cuda"
  local ok, message = pcall(function()
    local packed = rnn.pack_sequence({ ml.randn(2, 3), ml.randn(4, 3) }, false)
    local y, lengths = rnn.pad_packed_sequence((nn.LSTM(3, 4)(packed)))
    expect.equal({ packed.batch_sizes.device, lengths.device, y.device }, { "cpu", "cpu", "cuda:0" })
  end)
  ml.set_default_device(before)
  if not ok then error(message, 0) end
end)

test("the base of recurrent networks is one by its mode", function()
  local base, net = nn.RNNBase("GRU", 3, 2), nn.GRU(3, 2)
  base:load_state_dict(net:state_dict())
  local x = ml.randn(4, 3)
  near((base(x)), (net(x)))
  base:flatten_parameters()
  expect.error(function() nn.RNNBase("LST", 3, 2) end, "'mode'")
end)

test("a packed batch gives what each sequence gives alone", function()
  for _, kind in ipairs { "RNN", "LSTM", "GRU" } do
    for _, proj_size in ipairs(kind == "LSTM" and { 0, 2 } or { 0 }) do
      local options = { num_layers = 2, bidirectional = true }
      if kind == "LSTM" then options.proj_size = proj_size end
      local net = nn[kind](3, 4, options)
      local list = { ml.randn(2, 3), ml.randn(4, 3) }
      local packed, state = net(rnn.pack_sequence(list, false))
      local y = rnn.unpack_sequence(packed)
      for i, x in ipairs(list) do
        local alone, left = net(x)
        near(y[i], alone, 1e-5)
        local last, own = kind == "LSTM" and state[1] or state, kind == "LSTM" and left[1] or left
        near(last[{ {}, i }], own, 1e-5)
      end
    end
  end
end)

local Symmetric = nn.class "Symmetric"
function Symmetric:forward(x) return x:triu() + x:triu(1):t() end
function Symmetric:right_inverse(x) return x:triu() end

test("a parametrised tensor is computed, assigned, cached and made plain again", function()
  local net = nn.Linear(3, 3)
  expect.falsy(parametrize.is_parametrized(net))
  local weight = net.weight
  expect.truthy(parametrize.register_parametrization(net, "weight", Symmetric()) == net)
  expect.truthy(parametrize.is_parametrized(net, "weight") and not parametrize.is_parametrized(net, "bias"))
  near(net.weight, net.weight:t())
  expect.truthy(net.parametrizations.weight.original == weight and net:is_a(nn.Linear))
  expect.truthy(parametrize.type_before_parametrizations(net) == nn.Linear)
  net(ml.ones(2, 3)):sum():backward()
  expect.equal(weight.grad:tril(-1):abs():sum():item(), 0.0)
  local eye = ml.eye(3)
  net.weight = eye
  near(net.weight, eye)
  local count = 0
  net.parametrizations.weight[1]:register_forward_hook(function() count = count + 1 end)
  parametrize.cached(function() net(ml.ones(1, 3)) net(ml.ones(1, 3)) end)
  expect.equal(count, 1)
  net(ml.ones(1, 3))
  expect.equal(count, 2)
  local other = net:deepcopy()
  other.weight = eye * 2
  near(net.weight, eye)
  near(other.weight, eye * 2)
  local Scale = nn.class "Scale"
  function Scale:forward(x) return x * 2 end
  parametrize.register_parametrization(net, "weight", Scale())
  near(net.weight, eye * 2)
  expect.error(function() net.weight = eye end, "does not implement right_inverse")
  parametrize.remove_parametrizations(net, "weight")
  near(net.weight, eye * 2)
  expect.truthy(nn.is_parameter(net.weight) and net.__name == "Linear")
  expect.equal(net:state_dict()["parametrizations.weight.original"], nil)
  parametrize.register_parametrization(net, "weight", Symmetric())
  local to = parametrize.transfer_parametrizations_and_params(net, nn.Linear(3, 3))
  expect.truthy(to.parametrizations.weight.original == net.parametrizations.weight.original)
  parametrize.remove_parametrizations(net, "weight", { leave_parametrized = false })
  near(net.weight, (eye * 2):triu())
end)

test("parametrisations that do not fit are errors", function()
  local Half = nn.class "Half"
  function Half:forward(x) return x[1] end
  local net = nn.Linear(2, 2)
  expect.error(function() parametrize.register_parametrization(net, "weight", Half()) end, "wants 'unsafe'")
  expect.error(function() parametrize.register_parametrization(net, "other", Half()) end, "no parameter or buffer")
  expect.error(function() parametrize.remove_parametrizations(net, "weight") end, "is not parametrized")
  expect.equal(#net:parameters(), 2)
  local RankOne = nn.class "RankOne"
  function RankOne:forward(x, y) return x:unsqueeze(2) * y:unsqueeze(1) end
  function RankOne:right_inverse(z) return { z[{ {}, 1 }]:clone(), ml.ones(z.shape[2]) } end
  parametrize.register_parametrization(net, "weight", RankOne())
  expect.equal(#net:parameters(), 3)
  expect.truthy(net.parametrizations.weight.original1)
  expect.error(function() parametrize.remove_parametrizations(net, "weight", false) end, "several tensors")
  local before = net.weight:detach():clone()
  parametrize.remove_parametrizations(net, "weight")
  near(net.weight, before)
  expect.error(function() utils.parametrizations.orthogonal(nn.Linear(2, 2), "bias") end, "a matrix or a batch")
  expect.error(function() utils.parametrizations.weight_norm(nn.Linear(2, 2), { dim = 3 }) end, "no dimension")
end)

test("orthogonal weights stay so while training", function()
  local net = utils.parametrizations.orthogonal(nn.Linear(4, 4))
  local target = ml.tensor { 1.0, -2, 3, 0.5 }
  net.weight = ml.eye(4)
  near(net.weight, ml.eye(4))
  local optimiser = ml.optim.SGD(net:parameters(), { lr = 0.1 })
  for _ = 1, 3 do
    optimiser:zero_grad()
    local loss = (net(ml.ones(4)) - target):pow(2):sum()
    loss:backward()
    optimiser:step()
  end
  near(ml.matmul(net.weight, net.weight:t()), ml.eye(4), 1e-5)
  expect.truthy((net.weight - ml.eye(4)):abs():max():item() > 1e-3)
end)

test("older states load into newer weight norms", function()
  local old, new = utils.weight_norm(nn.Linear(3, 2)), utils.parametrizations.weight_norm(nn.Linear(3, 2))
  new:load_state_dict(old:state_dict())
  local x = ml.randn(2, 3)
  near(new(x), old(x))
  local y = old(x)
  utils.remove_weight_norm(old)
  near(old(x), y)
  expect.error(function() utils.remove_weight_norm(old) end, "has none")
  expect.error(function() utils.weight_norm(nn.Linear(1, 1), "other") end, "no parameter 'other'")
  local spectral = utils.spectral_norm(nn.Linear(3, 2)):eval()
  y = spectral(x)
  utils.remove_spectral_norm(spectral)
  near(spectral(x), y)
  local copy = utils.parametrizations.weight_norm(nn.Linear(2, 2)):deepcopy()
  expect.equal(copy.__name, "ParametrizedLinear")
end)

test("pruning follows masks", function()
  local net = nn.Linear(4, 4)
  local weight = net.weight
  prune.random_unstructured(net, "weight", 4)
  expect.equal(net.weight_mask:sum():item(), 12.0)
  prune.random_unstructured(net, "weight", 0.5)
  expect.equal(net.weight_mask:sum():item(), 6.0)
  expect.truthy(prune.is_pruned(nn.Sequential(net)) and net.weight_orig == weight)
  weight:detach():fill_(1)
  net(ml.ones(1, 4)):sum():backward()
  near(weight.grad, net.weight_mask)
  expect.equal(net.weight:sum():item(), 6.0)
  prune.remove(net, "weight")
  expect.truthy(net.weight == weight and weight:sum():item() == 6 and not prune.is_pruned(net))
  expect.equal(#net:buffers(), 0)
  expect.error(function() prune.remove(net, "weight") end, "has none")
  prune.random_structured(net, "weight", 1, 1)
  expect.truthy(net.weight_mask:sum(2):eq(0):sum():item() == 1)
  prune.identity(net, "bias")
  expect.equal(net.bias_mask:sum():item(), 4.0)
  local custom = prune.custom_from_mask(nn.Linear(2, 2), "bias", ml.tensor { 0, 1 })
  expect.equal(custom.bias[1]:item(), 0.0)
  local a, b = nn.Linear(3, 3), nn.Linear(3, 3)
  a.weight:detach():fill_(0.1)
  b.weight:detach():fill_(1)
  prune.global_unstructured({ { a, "weight" }, { b, "weight" } }, prune.L1Unstructured, nil, 0.5)
  expect.equal({ a.weight:abs():sum():item(), b.weight:abs():sum():item() }, { 0.0, 9.0 })
  expect.truthy(prune.L1Unstructured:apply(nn.Linear(2, 2), "weight", 1).weight_mask:sum():item() == 3)
  expect.error(function() prune.l1_unstructured(nn.Linear(2, 2), "weight", 9) end, "not from 0 to")
  expect.error(function() prune.l1_unstructured(nn.Linear(2, 2), "weight", 1.5) end, "a part from 0 to 1")
  expect.error(function() prune.ln_structured(nn.Linear(2, 2), "bias", 1, 2, 1) end, "at least two dimensions")
  local copy = prune.l1_unstructured(nn.Linear(2, 2), "weight", 2)
  expect.truthy(prune.is_pruned(copy))
end)

test("gradients are clipped by a norm that is known", function()
  local net = nn.Linear(2, 2)
  net(ml.ones(1, 2)):sum():backward()
  local gradients = {}
  for i, p in ipairs(net:parameters()) do gradients[i] = p.grad end
  local total = utils.get_total_norm(gradients)
  utils.clip_grads_with_norm_(net, 1.0, total)
  expect.near(utils.get_total_norm(gradients):item(), 1, 1e-5)
  utils.clip_grads_with_norm_(net, 5.0, utils.get_total_norm(gradients))
  expect.near(utils.get_total_norm(gradients):item(), 1, 1e-5)
end)

test("clipping one tensor after the other gives what one pass gives", function()
  local function gradients()
    ml.manual_seed(5)
    local out = {}
    for i, dtype in ipairs { "float32", "float32", "float64", "complex64" } do
      out[i] = ml.zeros(3, { dtype = dtype, requires_grad = true })
      out[i].grad = ml.randn(3, { dtype = dtype }) * 4
    end
    return out
  end
  local clippings = {
    function(list, foreach) return utils.clip_grad_norm_(list, 1.5, { foreach = foreach }) end,
    function(list, foreach) return utils.clip_grad_norm_(list, 0.5, math.huge, { foreach = foreach }) end,
    function(list, foreach)
      local all = {}
      for i, p in ipairs(list) do all[i] = p.grad end
      local norm = utils.get_total_norm(all, 3, { foreach = foreach })
      utils.clip_grads_with_norm_(list, 2, norm, { foreach = foreach })
      return norm
    end,
    function(list, foreach) return utils.clip_grad_value_({ list[1], list[3] }, 0.3, { foreach = foreach }) end,
  }
  for _, clip in ipairs(clippings) do
    local one_pass, one_by_one = gradients(), gradients()
    local a, b = clip(one_pass, nil), clip(one_by_one, false)
    if a then near(b, a) end
    for i, p in ipairs(one_pass) do near(one_by_one[i].grad, p.grad) end
  end
  expect.error(function() utils.clip_grad_norm_(gradients(), 1, { foreach = 3 }) end, "foreach")
end)

test("a module is made without draws, and weights change their format", function()
  ml.manual_seed(3)
  local wanted = ml.randn(3)
  ml.manual_seed(3)
  local net = utils.skip_init(nn.LSTM, 3, 4, { num_layers = 2 })
  near(ml.randn(3), wanted)
  expect.equal(net.num_layers, 2)
  expect.truthy(nn.Linear(2, 2).weight:abs():max():item() > 0)
  expect.error(function() utils.skip_init(3) end, "a class of modules")
  expect.error(function() utils.skip_init(nn.Linear) end, "'in_features' is missing")
  expect.truthy(init.ones_(ml.zeros(2)):sum():item() == 2)
  local images = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Conv3d(1, 2, 2))
  local weight = images[1].weight
  utils.convert_conv2d_weight_memory_format(images, "channels_last")
  utils.convert_conv3d_weight_memory_format(images, "channels_last_3d")
  expect.truthy(images[1].weight == weight and weight:is_contiguous { memory_format = "channels_last" })
  expect.truthy(images[2].weight:is_contiguous { memory_format = "channels_last_3d" })
  local y = utils.stateless.functional_call(nn.Linear(2, 1), { weight = ml.ones(1, 2), bias = ml.ones(1) }, ml.ones(2))
  expect.equal(y:item(), 3.0)
end)

test("initialisers for convolutions, orthogonal and sparse weights", function()
  for _, size in ipairs { { 4, 6 }, { 6, 4 }, { 3, 2, 2 } } do
    local w = init.orthogonal_(ml.empty(size), 2):reshape(size[1], -1)
    local small = #w <= w.shape[2] and w or w:t()
    near(ml.matmul(small, small:t()), ml.eye(#small) * 4, 1e-5)
  end
  local w = init.dirac_(ml.empty(4, 2, 3, 3), 2)
  local x = ml.randn(1, 4, 5, 5)
  near(ml.conv2d(x, w, nil, 1, 1, 1, 2), x)
  local sparse = init.sparse_(ml.empty(10, 50), 0.25, 0.5)
  expect.equal(sparse:eq(0):sum(1):unique():totable(), { 3 })
  expect.near(sparse:abs():sum():item() / 350, 0.5 * math.sqrt(2 / math.pi), 0.1)
  expect.equal(init.calculate_gain "conv_transpose2d", 1)
  local p = nn.Parameter(ml.empty(3, 3))
  expect.truthy(init.orthogonal_(p) == p and p.requires_grad)
  expect.error(function() init.orthogonal_(ml.ones(3)) end, "at least 2 dimensions")
  expect.error(function() init.dirac_(ml.ones(2, 2)) end, "three to five")
  expect.error(function() init.dirac_(ml.ones(3, 1, 1), 2) end, "do not divide")
  expect.error(function() init.sparse_(ml.ones(2, 2), 1.5) end, "'sparsity' must be")
  local generator = ml.Generator():manual_seed(4)
  local first = init.orthogonal_(ml.empty(3, 3), { generator = generator })
  near(first, init.orthogonal_(ml.empty(3, 3), { generator = ml.Generator():manual_seed(4) }))
end)

test("normal draws between bounds, also far out", function()
  for _, range in ipairs { { -2, 2 }, { 1, 2 }, { 2.5, 3 }, { -9, 0 }, { -0.1, 0.1 }, { 20, 30 } } do
    local low, high = range[1], range[2]
    local w = init.trunc_normal_(ml.empty(20000), { a = low, b = high })
    expect.truthy(w:min():item() >= low - 1e-6 and w:max():item() <= high + 1e-6)
    local x = ml.linspace(low, high, 100001):double()
    local density = ((x * x - math.min(low * low, high * high)) * -0.5):exp()
    expect.near(w:double():mean():item(), ((x * density):sum() / density:sum()):item(), 0.03, low)
  end
  local far = init.trunc_normal_(ml.empty(100):double(), { mean = 1, std = 0.5, a = 1e4, b = math.huge })
  expect.truthy(far:min():item() >= 1e4 and far:max():item() < 1e4 + 0.1)
  expect.equal(init.trunc_normal_(ml.empty(2), 1, 0):tolist(), { 1.0, 1.0 })
  local wrong = "no part of the distribution"
  expect.error(function() init.trunc_normal_(ml.empty(3), { a = 2, b = 1 }) end, wrong)
  expect.error(function() init.trunc_normal_(ml.empty(3), { std = 0, a = 2, b = 3 }) end, wrong)
end)

test("state dicts are in the order of the modules", function()
  local net = nn.Sequential(nn.Linear(1, 2), nn.BatchNorm1d(2))
  local names = {}
  local path = os.tmpname()
  ml.save(path .. ".pt", net:state_dict())
  for name in ml.items(ml.load(path .. ".pt")) do names[#names + 1] = name end
  os.remove(path .. ".pt")
  os.remove(path)
  expect.equal(names, { "0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var",
    "1.num_batches_tracked" })
end)

test("what load_state_dict gives says itself what it is", function()
  local net = nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 1))
  local state = net:state_dict()
  expect.equal(tostring(net:load_state_dict(state)), "<All keys matched successfully>")
  state["1.bias"], state.more = nil, ml.ones(1)
  local keys = net:load_state_dict(state, { strict = false })
  expect.equal(keys, { missing_keys = { "1.bias" }, unexpected_keys = { "more" } })
  expect.equal(tostring(keys), "_IncompatibleKeys(missing_keys=['1.bias'], unexpected_keys=['more'])")
end)

test("a prefix is taken off the names of a state dict", function()
  local net = nn.Linear(2, 1)
  local state = net:state_dict "module."
  state.module, state[1] = "kept", true
  nn.utils.consume_prefix_in_state_dict_if_present(state, "module.")
  expect.equal({ state.weight.shape, state.module, state[1], state["module.weight"] },
    { net.weight.shape, "kept", true, nil })
  state.module, state[1] = nil, nil
  local names = {}
  for name in ml.items(state) do names[#names + 1] = name end
  expect.equal(names, { "weight", "bias" })
  nn.utils.consume_prefix_in_state_dict_if_present(state, "module.")
  expect.equal(tostring(net:load_state_dict(state)), "<All keys matched successfully>")
  expect.error(function() nn.utils.consume_prefix_in_state_dict_if_present { state_dict = state } end,
    "'prefix' is missing")
  expect.error(function() nn.utils.consume_prefix_in_state_dict_if_present(3, "a") end, "'state_dict': a table is expected")
end)

harness.run()
