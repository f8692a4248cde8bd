-- tests/lua/cuda/cuda_recurrent_test.lua: recurrent networks by cuDNN beside the CPU's steps: values
-- and gradients of all kinds, packed sequences, derivatives of gradients, dropout, graphs; what goes
-- to it and what stays, and failures. Skips without a device.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local emulated = require "emulated"
local device_test = require "on_device"
local test, expect = harness.test, harness.expect

local nn, cudnn = ml.nn, ml.backends.cudnn
local TOLERANCE = { float64 = 1e-12, float32 = 1e-5, float16 = 4e-3, bfloat16 = 3e-2 }
local GATES = { lstm = 4, gru = 3, rnn_tanh = 1, rnn_relu = 1 }

local function on_device(name, body) device_test(name, body, { cudnn = true, seed = 5 }) end

local function near(what, got, want, tolerance)
  got, want = got:detach():to "cpu":to "float64", want:detach():to "cpu":to "float64"
  expect.equal(tostring(got.shape), tostring(want.shape), what)
  local off = (got - want):abs():amax():item()
  -- Written so that no number, which compares to nothing, fails.
  if not (off <= tolerance * math.max(1, want:abs():amax():item())) then
    error(("%s: differs by %g"):format(what, off), 0)
  end
end

-- What a network takes: x, its states, and its parameters.
local function make_case(c)
  c.bidirectional, c.biases = c.bidirectional or false, c.biases or false
  local directions, wide = c.bidirectional and 2 or 1, GATES[c.name] * c.size
  local case, like = { c = c }, { dtype = c.dtype or "float32" }
  case[1] = c.packed and ml.randn({ 16, c.features }, like)
    or ml.randn(c.batch_first and { 3, 9, c.features } or { 9, 3, c.features }, like)
  case.states = c.name == "lstm" and 2 or 1
  for _ = 1, case.states do case[#case + 1] = ml.randn({ c.layers * directions, 3, c.size }, like) end
  for layer = 1, c.layers do
    for _ = 1, directions do
      local from = layer == 1 and c.features or directions * c.size
      case[#case + 1] = ml.randn({ wide, from }, like) * 0.4
      case[#case + 1] = ml.randn({ wide, c.size }, like) * 0.4
      for _ = 1, c.biases and 2 or 0 do case[#case + 1] = ml.randn({ wide }, like) * 0.4 end
    end
  end
  return case
end

-- The results of a network from its tensors.
local function run(case, tensors)
  local c, params = case.c, table.move(tensors, 2 + case.states, #tensors, 1, {})
  local hx = case.states == 2 and { tensors[2], tensors[3] } or tensors[2]
  if c.packed then
    return ml[c.name](tensors[1], ml.tensor { 3, 3, 2, 2, 2, 1, 1, 1, 1 }, hx, params, c.biases, c.layers, 0, true,
      c.bidirectional)
  end
  return ml[c.name](tensors[1], hx, params, c.biases, c.layers, c.dropout or 0, true, c.bidirectional,
    c.batch_first or false)
end

-- Leaves of the case on a device.
local function leaves_of(case, device)
  local out = {}
  for i, x in ipairs(case) do out[i] = x:to(device):detach():requires_grad_() end
  return out
end

-- A number of all results.
local function total(...)
  local sum = 0
  for i, y in ipairs { ... } do sum = sum + (y * y + y * i):sum() end
  return sum
end

local function derived(case, device)
  local leaves = leaves_of(case, device)
  local results = { run(case, leaves) }
  local gradients = { ml.autograd.grad(total(table.unpack(results)), leaves) }
  return table.move(gradients, 1, #gradients, #results + 1, results)
end

local function agree(what, case)
  local tolerance = TOLERANCE[case.c.dtype or "float32"]
  local got, want = derived(case, "cuda"), derived(case, "cpu")
  expect.equal(#got, #want)
  for i = 1, #want do near(("%s, result or gradient %d"):format(what, i), got[i], want[i], tolerance * 2) end
end

on_device("values and gradients of all networks, in four dtypes", function()
  for name in pairs(GATES) do
    for dtype in pairs(TOLERANCE) do
      for i, c in ipairs {
        { layers = 1, biases = true }, { layers = 2, biases = true, bidirectional = true },
        { layers = 1, bidirectional = true, batch_first = true }, { layers = 3, batch_first = true },
        { layers = 1, biases = true, packed = true },
        { layers = 2, biases = true, bidirectional = true, packed = true },
      } do
        c.name, c.dtype, c.features, c.size = name, dtype, 3, 4 + i % 2
        agree(("%s %s %d"):format(name, dtype, i), make_case(c))
      end
    end
  end
end)

on_device("states and weights that lie anywhere", function()
  for _, name in ipairs { "lstm", "gru" } do
    local case = make_case { name = name, layers = 2, biases = true, features = 3, size = 5 }
    local leaves, moved = leaves_of(case, "cuda"), {}
    for i, x in ipairs(leaves) do
      local wide = ml.empty({ 2, x:numel() + 1 }, { device = "cuda" })
      local own = wide:reshape(-1):narrow(1, 2, x:numel()):view(table.unpack(x.shape))
      ml.no_grad(function() own:copy_(x) end)
      moved[i] = own:requires_grad_()
    end
    moved[1] = ml.stack({ moved[1], moved[1] }, 4):select(4, 2)
    local want = { run(case, leaves) }
    for i, y in ipairs { run(case, moved) } do near(name .. i, y, want[i], 1e-6) end
  end
end)

on_device("gradients of some tensors, again, and of gradients", function()
  for name in pairs(GATES) do
    local case = make_case { name = name, layers = 2, biases = true, bidirectional = true, features = 2, size = 3,
      dtype = "float64" }
    local function gradients(device)
      local leaves = leaves_of(case, device)
      leaves[2]:requires_grad_(false)
      local y, h = run(case, leaves)
      local some, out = { leaves[1], leaves[#leaves] }, {}
      local function keep(...) table.move({ ... }, 1, 2, #out + 1, out) end
      keep(ml.autograd.grad(total(y), some, nil, { retain_graph = true }))
      keep(ml.autograd.grad(total(h), some, nil, { retain_graph = true }))
      local first, second = ml.autograd.grad(total(y, h), some, nil, { create_graph = true })
      keep(first, second)
      keep(ml.autograd.grad(total(first, second), some, nil, { retain_graph = true }))
      keep(ml.autograd.grad(total(y, h), some))
      return out
    end
    local got, want = gradients "cuda", gradients "cpu"
    expect.equal(#want, 10)
    for i = 1, #want do near(name .. " gradient " .. i, got[i], want[i], 1e-10) end
    near(name .. " the same before and after", got[9], got[5], 1e-12)
  end
end)

on_device("tangents, samples of vmap, and both over gradients", function()
  local x, t = ml.randn(9, 2, 3, { dtype = "float64" }), ml.randn(9, 2, 3, { dtype = "float64" })
  for _, kind in ipairs { "LSTM", "GRU", "RNN" } do
    local net = nn[kind](3, 4, { num_layers = 2, dtype = "float64" })
    local function all(device)
      net:to(device)
      local function f(v) return (net(v)) end
      local function loss(v) return total(f(v)) end
      local at, along = x:to(device), t:to(device)
      local y, tangent = ml.func.jvp(f, { at }, { along })
      local _, twice = ml.func.jvp(ml.func.grad(loss), { at }, { along })
      local samples = ml.stack { at, along }
      return { y, tangent, twice, ml.vmap(f)(samples), ml.vmap(ml.func.grad(loss))(samples),
        ml.func.jacrev(function(v) return f(v):narrow(1, 9, 1):select(3, 1) end)(at) }
    end
    local want = all "cpu"
    for i, got in ipairs(all "cuda") do near(kind .. " " .. i, got, want[i], 1e-10) end
  end
end)

on_device("vmap over what a gradient starts from", function()
  local net = nn.LSTM(3, 4, { bidirectional = true, dtype = "float64" })
  local x, starts = ml.randn(9, 2, 3, { dtype = "float64" }), ml.randn(3, 9, 2, 8, { dtype = "float64" })
  local function gradients(device)
    net:to(device)
    local at = x:to(device):requires_grad_()
    local y = net(at)
    return (ml.autograd.grad(y, { at }, starts:to(device), { is_grads_batched = true }))
  end
  local want = gradients "cpu"
  near("gradients of three starts", gradients "cuda", want, 1e-12)
end)

on_device("dropout between layers draws what the CPU draws", function()
  for _, name in ipairs { "lstm", "rnn_relu" } do
    local case = make_case { name = name, layers = 3, biases = true, bidirectional = true, features = 3, size = 4,
      dropout = 0.4 }
    local function seeded(device)
      ml.manual_seed(11)
      local out = derived(case, device)
      out[#out + 1] = ml.rand(2)
      return out
    end
    local want = seeded "cpu"
    for i, got in ipairs(seeded "cuda") do near(name .. " " .. i, got, want[i], 1e-5) end
  end
end)

on_device("layers of the library learn what they learn on the CPU", function()
  local data = ml.randn(9, 4, 3)
  local lengths = ml.tensor { 9, 3, 2, 5 }
  for i, make in ipairs {
    function() return nn.LSTM(3, 4, { num_layers = 2, bidirectional = true }) end,
    function() return nn.GRU(3, 8) end,
    function() return nn.RNN(3, 8, { nonlinearity = "relu" }) end,
    function() return nn.LSTM(3, 10, { proj_size = 8 }) end,
  } do
    local function learn(device)
      ml.manual_seed(7)
      local net = make():to(device)
      local adam = ml.optim.Adam(net:parameters(), { lr = 0.01 })
      local losses = {}
      for step = 1, 4 do
        local x = data:to(device)
        local input = step % 2 == 0 and x
          or nn.utils.rnn.pack_padded_sequence(x, lengths, { enforce_sorted = false })
        local y = net(input)
        local loss = ((step % 2 == 0 and y or y.data) - 0.2):square():mean()
        adam:zero_grad()
        loss:backward()
        adam:step()
        losses[step] = loss:item()
      end
      return losses
    end
    expect.near(learn "cuda", learn "cpu", 1e-5, "network " .. i)
  end
end)

on_device("autocast: the layer in its dtype", function()
  local net, x = nn.LSTM(3, 4):cuda(), ml.randn(9, 2, 3):cuda():requires_grad_()
  local want = net(x):detach()
  ml.autocast({ device = "cuda", dtype = "float16" }, function()
    local y = net(x)
    expect.equal(tostring(y.dtype), "float16")
    near("the layer", y, want, 4e-3)
    y:float():sum():backward()
  end)
  expect.equal(tostring(net.weight_hh_l0.grad.dtype), "float32")
end)

on_device("graphs", function()
  local net = nn.LSTM(3, 4, { num_layers = 2, bidirectional = true }):cuda()
  local x = ml.randn(9, 2, 3):cuda()
  net(x)
  local y
  local graph = ml.cuda.graph(function() y = ml.no_grad(function() return (net(x)) end) end)
  for _ = 1, 2 do
    x:normal_()
    graph:replay()
    near("a network", y, net(x), 1e-6)
  end
  -- Lengths of packed sequences go step by step there.
  local packed = nn.utils.rnn.pack_padded_sequence(x, ml.tensor { 9, 3 })
  local rows
  graph = ml.cuda.graph(function() rows = ml.no_grad(function() return net(packed).data end) end)
  packed.data:normal_()
  graph:replay()
  near("packed sequences", rows, net(packed).data, 1e-6)
  -- A step of training.
  local gradient
  local function step()
    local leaf = x:detach():requires_grad_()
    gradient = ml.autograd.grad(total((net(leaf))), { leaf })
  end
  step()
  graph = ml.cuda.graph(step)
  local captured = gradient
  x:normal_()
  graph:replay()
  step()
  near("a gradient", captured, gradient, 1e-5)
  -- The way back alone, as often as one likes, while what was kept for it stays.
  local leaf = x:detach():requires_grad_()
  local sum = total((net(leaf)))
  graph = ml.cuda.graph(function() captured = ml.autograd.grad(sum, { leaf }, { retain_graph = true }) end)
  for i = 1, 3 do
    graph:replay()
    near("the way back, time " .. i, captured, gradient, 1e-6)
  end
end)

on_device("settings that change between the ways", function()
  local case = make_case { name = "lstm", layers = 2, biases = true, features = 3, size = 4 }
  local want = derived(case, "cpu")
  for what, flags in pairs { off = { enabled = false }, repeats = { enabled = true, deterministic = true } } do
    local leaves = leaves_of(case, "cuda")
    local sum = total(run(case, leaves))
    cudnn.flags(flags, function()
      for i, got in ipairs { ml.autograd.grad(sum, leaves) } do near(what .. i, got, want[3 + i], 1e-5) end
      local y = run(case, leaves)
      near(what .. ", forward", y, want[1], 1e-5)
    end)
  end
end)

test("errors name what does not fit", function()
  local f = ml._internal.recurrent_network
  local x, h = ml.randn(5, 3), ml.randn(1, 2, 4)
  local function refused(text, ...)
    local arguments = table.pack(...)
    expect.error(function() return f(table.unpack(arguments, 1, arguments.n)) end, text)
  end
  refused("recurrent_network: mode is 4, 0 to 3 is expected", x, h, nil, ml.randn(28), false, 1, false,
    { 2, 2, 1 }, 4)
  refused("num_layers is 0", x, h, nil, ml.randn(28), false, 0, false, { 2, 2, 1 }, 2)
  refused("batch size 3 after 2", x, h, nil, ml.randn(28), false, 1, false, { 2, 3 }, 2)
  refused("batch_sizes is empty", x, h, nil, ml.randn(28), false, 1, false, {}, 2)
  refused("weights has shape %(27,%), %(28,%) is expected", x, h, nil, ml.randn(27), false, 1, false,
    { 2, 2, 1 }, 2)
  refused("hidden has shape %(1, 2, 4%), %(2, 2, size%)", x, h, nil, ml.randn(56), false, 1, true,
    { 2, 2, 1 }, 2)
  refused("cell is for lstm alone", x, h, h, ml.randn(28), false, 1, false, { 2, 2, 1 }, 2)
  refused("cell is for lstm alone", x, h, nil, ml.randn(112), false, 1, false, { 2, 2, 1 }, 0)
  refused("x has shape %(5, 1, 3%)", x:unsqueeze(2), h, nil, ml.randn(28), false, 1, false, { 2, 2, 1 }, 2)
end)

on_device("errors of arguments are those of the CPU", function()
  -- Of x, both states and two layers' weights.
  local function why(device, wrong)
    local case = make_case { name = "lstm", layers = 2, features = 3, size = 4 }
    local leaves = leaves_of(case, device)
    for i, x in pairs(wrong) do leaves[i] = x:to(device) end
    local fine, text = pcall(run, case, leaves)
    expect.equal(fine, false)
    return (tostring(text):gsub("cuda:0", "cpu"))
  end
  -- Weights that are as many as they should be, in the wrong layers, come first.
  for i, wrong in ipairs {
    { [4] = ml.randn(16, 4), [6] = ml.randn(16, 3) }, { [2] = ml.randn(2, 2, 4) }, { [1] = ml.randn(9, 3) },
    { [5] = ml.randn(16, 5) },
  } do
    expect.equal(why("cuda", wrong), why("cpu", wrong), i)
  end
end)

local SCRIPT = [[
  local ml = require "moonlet"
  local cudnn, options = ml.backends.cudnn, { num_layers = 2, bidirectional = true }
  local kind, dtype, sizes, recorded = "LSTM", "float32", { 9, 2, 3 }, true
  local function compute(device)
    ml.manual_seed(3)
    local net = ml.nn[kind](3, 4, options):to(device):to { dtype = dtype }
    local x = ml.randn(sizes):to(device):to { dtype = dtype }
    if not recorded then return ml.no_grad(function() return (net(x)) end) end
    x:requires_grad_()
    local y, state = net(x)
    local sum = (y * y):sum() + (kind == "LSTM" and state[1]:sum() + state[2]:sum() or state:sum())
    sum:backward()
    return y, x.grad, net.weight_ih_l0.grad, net.weight_hh_l1 and net.weight_hh_l1.grad
  end
]] .. emulated.compare_text(0.02, 1)

local function told(words, script)
  local text = emulated.cudnn_output(words, SCRIPT .. script)
  expect.truthy(text:find "right", text)
  return text
end

local count = emulated.count
-- Look-ups, networks with and without a reserve, and gradients.
local function counts(text)
  expect.equal(count(text, "gradients of data"), count(text, "gradients of weights"), text)
  return { count(text, "looks up a recurrent"), count(text, "forward with a reserve"),
    count(text, "forward,"), count(text, "gradients of data") }
end

emulated.test("what it takes, described once, and what stays ours", function()
  expect.equal(counts(told("log", "check() print(check())")), { 1, 2, 0, 2 })
  -- Lengths have no description of their own, nor have those who ask for no gradients.
  expect.equal(counts(told("log", [[for n = 8, 10 do sizes[1], sizes[2] = n, n check() end
    recorded = false print(check())]])), { 1, 3, 1, 3 })
  for _, kind in ipairs { "GRU", "RNN" } do
    expect.equal(counts(told("log", ("kind = '%s' print(check())"):format(kind))), { 1, 1, 0, 1 }, kind)
  end
  -- With dropout a call for each layer, which has one description where they take the same.
  expect.equal(counts(told("log", "options.dropout = 0.5 options.num_layers = 3 print(check())")), { 2, 3, 0, 3 })
  for what, script in pairs {
    ["all of cuDNN off"] = "cudnn.enabled = false",
    ["results that must repeat"] = "cudnn.deterministic = true",
    ["few steps"] = "sizes[1] = 7",
    ["a projection"] = "options = { proj_size = 2 }",
    ["weights of another dtype"] = [[compute = function(device)
      local x, h = ml.ones(9, 2, 3):to(device), ml.ones(1, 2, 4):to(device)
      local w = { ml.ones(12, 3), ml.ones(12, 4) }
      for i = 1, 2 do w[i] = (w[i] * 0.1):to(device):double() end
      local fine, y = pcall(ml.gru, x, h, w, false, 1, 0, false, false, false)
      return (fine and y:sum() or x:sum())
    end]],
    ["samples of vmap"] = [[compute = function(device)
      ml.manual_seed(3)
      local net, x = ml.nn.GRU(3, 4):to(device), ml.randn(2, 9, 2, 3):to(device)
      return ml.vmap(function(v) return (net(v)) end)(x)
    end]],
    ["a program"] = [[compute = function(device)
      ml.manual_seed(3)
      local net, x = ml.nn.GRU(3, 4):to(device), ml.randn(9, 2, 3):to(device)
      return ml.compile(function(v) return ml.no_grad(function() return (net(v)) end) end)(x)
    end]],
  } do
    expect.equal(counts(told("log", script .. " print(check())")), { 0, 0, 0, 0 }, what)
  end
  local text, ended = emulated.output("MOONLET_CUDA_WITHOUT=cudnn MOONLET_EMULATED_CUDNN=log",
    SCRIPT .. "print(check())")
  expect.equal({ ended, text }, { "exit", "right\n" })
end)

emulated.test("TF32 where it is allowed, of float32 alone", function()
  local function math_of(script) return told("log", script .. " print(check())"):match "directions, (%l+)" end
  expect.equal(math_of "", "default")
  expect.equal(math_of "cudnn.allow_tf32 = false", "fma")
  expect.equal(math_of "dtype = 'float64'", "default")
  expect.equal(math_of "dtype = 'float16'", "tensor")
  expect.equal(math_of "dtype = 'bfloat16'", "tensor")
end)

emulated.test("where it has no way the steps compute, and it is asked once", function()
  expect.equal(counts(told("unsupported,log", "check() print(check())")), { 1, 0, 0, 0 })
  expect.equal(counts(told("absent,log", "print(check())")), { 0, 0, 0, 0 })
  -- Weights that would lie in another order.
  expect.equal(counts(told("shuffled,log", "check() print(check())")), { 1, 0, 0, 0 })
  -- It refuses when it is to compute; then the gradient goes through the steps too.
  expect.equal(counts(told("fussy,log", "print(check())")), { 1, 0, 0, 0 })
  local text, ended = emulated.output("MOONLET_EMULATED_MEMORY=64 MOONLET_EMULATED_CUDNN=greedy,log",
    SCRIPT .. "print(check())")
  expect.equal(ended, "exit", text)
  expect.truthy(text:find "right", text)
  expect.equal(counts(text), { 1, 0, 0, 0 })
end)

emulated.test("in streams that run in any order", function()
  for seed = 1, 4 do
    local text, ended = emulated.output("MOONLET_EMULATED_STREAMS=" .. seed, SCRIPT .. [[
      local side = ml.cuda.Stream()
      side:wait_stream(ml.cuda.current_stream())
      ml.cuda.stream(side, function() check() end)
      print(check())]])
    expect.equal({ ended, text }, { "exit", "right\n" }, seed)
  end
end)

emulated.test("a call that fails: an error of the device, or the right numbers", function()
  for _, kind in ipairs { "memory", "unknown", "invalid", "lost" } do
    -- Those in front of the first network are another test's; of those that look where weights lie
    -- every seventh.
    local failed = emulated.fail_cudnn(SCRIPT, kind, function(failed, call)
      return failed == 0 and 5 or call == "cudnnGetRNNWeightParams" and 7 or 1
    end, 1500)
    expect.truthy(failed > 10, kind .. ": calls that failed: " .. failed)
  end
end)

harness.run()
