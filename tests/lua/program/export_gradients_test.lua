-- tests/lua/program/export_gradients_test.lua: programs with gradients: trained here and from files to the same
-- bits as the module, what they refuse, and files whose backward pass is damaged.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local case = require "program_case"
local ml = require "moonlet"
local nn = ml.nn
local F = nn.functional
local test, expect = harness.test, harness.expect
local same, again = case.same_bits, case.again

local function state_of(program)
  local out = program:parameters()
  for name, tensor in pairs(program:state()) do out[name] = tensor end
  return out
end

-- Trains the module and the program for some steps on the same batches. `batch()` gives the inputs and the
-- target, `loss_of(result, target)` the loss.
local function check_training(make, batch, loss_of, optimiser)
  ml.manual_seed(1)
  local net = make()
  local example = batch()
  local exported = ml.export(net, { example }, { gradients = true })
  for _, program in ipairs { again(exported), again(again(exported)), exported } do
    local eager = make()
    for name, tensor in pairs(state_of(program)) do
      ml.no_grad(function() eager:state_dict()[name]:copy_(tensor) end)
    end
    local optimisers = { optimiser(eager:parameters()), optimiser(program:parameters()) }
    for _ = 1, 4 do
      local x, target = batch()
      local losses = {}
      for i, f in ipairs { eager, program } do
        ml.manual_seed(7)
        optimisers[i]:zero_grad()
        local loss = loss_of(f(x), target)
        loss:backward()
        optimisers[i]:step()
        losses[i] = loss:detach()
      end
      expect.truthy(same(losses[1], losses[2]), "the loss")
    end
    local count = 0
    for name, tensor in pairs(state_of(program)) do
      expect.truthy(same(tensor, eager:state_dict()[name]), name)
      count = count + 1
    end
    expect.truthy(count >= 2)
  end
  return exported
end

local function adam(parameters) return ml.optim.Adam(parameters, { lr = 0.01 }) end
local function sgd(parameters) return ml.optim.SGD(parameters, { lr = 0.05, momentum = 0.9 }) end

test("an MLP is trained to the same bits", function()
  local program = check_training(function()
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(0.3), nn.Linear(16, 3))
  end, function() return ml.randn(8, 4), ml.randint(1, 3, { 8 }) end, F.cross_entropy, adam)
  local y = program(ml.randn(8, 4))
  expect.equal(y.requires_grad, true)
  expect.truthy(tostring(y.grad_fn):find "CompiledBackward")
  expect.equal(ml.no_grad(program, ml.randn(8, 4)).requires_grad, false)
end)

test("convolutions with batch norm in training mode", function()
  check_training(function()
    return nn.Sequential(nn.Conv2d(1, 4, 3, { padding = 1 }), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
      nn.Flatten(), nn.Linear(64, 5))
  end, function() return ml.randn(3, 1, 8, 8), ml.randint(1, 5, { 3 }) end, F.cross_entropy, sgd)
end)

test("a transformer with a tied embedding", function()
  local Tied = nn.class "Tied"
  function Tied:init()
    self.embedding = nn.Embedding(7, 8)
    self.body = nn.TransformerEncoderLayer(8, 2, 16, { batch_first = true, dropout = 0.1 })
  end
  function Tied:forward(ids) return F.linear(self.body(self.embedding(ids)), self.embedding.weight) end
  check_training(Tied, function() return ml.randint(1, 7, { 2, 5 }), ml.randint(1, 7, { 10 }) end,
    function(y, target) return F.cross_entropy(y:reshape(10, 7), target) end, adam)
end)

test("recurrent layers", function()
  local Last = nn.class "Last"
  function Last:init()
    self.lstm = nn.LSTM(3, 5, { batch_first = true })
    self.head = nn.Linear(5, 2)
  end
  function Last:forward(x)
    local y = self.lstm(x)
    return self.head(y[{ {}, -1 }])
  end
  check_training(Last, function() return ml.randn(4, 6, 3), ml.randn(4, 2) end, F.mse_loss, adam)
end)

test("gradients of inputs, several results, views and results without gradients", function()
  ml.manual_seed(2)
  local w = nn.Parameter(ml.randn(3, 3))
  local function f(x, n)
    local y = (x:matmul(w)):tanh()
    return y:t(), y[1], x, y:argmax(2), { sum = y:sum() * n, both = { x * 2, y } }
  end
  local x = ml.randn(2, 3)
  x.requires_grad = true
  local program = ml.export(f, { x, ml.tensor { 2 } }, { gradients = true })
  expect.equal(x.grad, nil)
  for _, form in ipairs { program, again(program) } do
    local weight = form == program and w or nil
    for name, tensor in pairs(form:parameters()) do weight = weight or (name and tensor) end
    local results = {}
    for i, g in ipairs { f, form } do
      local input = ml.ones(2, 3):mul(0.3)
      input.requires_grad = true
      w.grad = nil
      local a, b, c, d, e = g(input, ml.tensor { 3 })
      local loss = (a * a):sum() + b:sum() + (c * 3):sum() + e.sum + e.both[1]:sum() + e.both[2]:pow(2):sum()
      loss:backward()
      results[i] = { a, b, c, d, e.sum, e.both[1], e.both[2], input.grad, loss:detach() }
    end
    for i = 1, 9 do expect.truthy(same(results[1][i], results[2][i]), ("tensor %d"):format(i)) end
  end
  -- One of the results alone.
  local input = ml.ones(2, 3)
  input.requires_grad = true
  local _, row = program(input, ml.tensor { 1 })
  row:sum():backward()
  local expected = ml.ones(2, 3)
  expected.requires_grad = true
  local _, wanted = f(expected, ml.tensor { 1 })
  wanted:sum():backward()
  expect.truthy(same(input.grad, expected.grad))
end)

test("inputs that lie in memory in another way", function()
  ml.manual_seed(5)
  local net = nn.Linear(3, 2)
  for _, sizes in ipairs { { 4, 3 }, { 1, 3 } } do
    local example = ml.randn(sizes)
    example.requires_grad = true
    local program = ml.export(net, { example }, { gradients = true })
    local gradients = {}
    for i, f in ipairs { net, program } do
      local x = ml.ones(sizes[2], sizes[1])
      x.requires_grad = true
      f(x:t()):pow(2):sum():backward()
      gradients[i] = x.grad
    end
    expect.truthy(same(gradients[1], gradients[2]))
  end
end)

test("second derivatives run the function again", function()
  ml.manual_seed(4)
  local net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
  local x = ml.randn(3, 2)
  x.requires_grad = true
  local program = again(ml.export(net, { x }, { gradients = true }))
  local function penalty(f)
    local gradient = ml.grad(f(x):sum(), { x }, { create_graph = true })[1]
    return ml.grad(gradient:pow(2):sum(), { x })[1]
  end
  expect.truthy(same(penalty(net), penalty(program)))
end)

test("what requires grad and was exported without is an error", function()
  local net = nn.Linear(2, 2)
  net.bias.requires_grad = false
  local program = ml.export(net, { ml.ones(1, 2) }, { gradients = true })
  local x = ml.ones(1, 2)
  x.requires_grad = true
  expect.error(function() program(x) end, "input 1 requires grad, and was exported without")
  expect.equal(ml.no_grad(program, x).requires_grad, false)
  local loaded = again(program)
  expect.equal(loaded:parameters().weight.requires_grad, true)
  expect.equal(loaded:parameters().bias.requires_grad, false)
  loaded:parameters().bias.requires_grad = true
  expect.error(function() loaded(ml.ones(1, 2)) end, "'bias' requires grad, and was exported without")
  loaded:parameters().bias.requires_grad = false
  loaded:parameters().weight.requires_grad = false
  expect.equal(loaded(ml.ones(1, 2)).requires_grad, false)
  expect.error(function() ml.vmap(program)(ml.ones(3, 1, 2)) end, "does not run inside vmap")
end)

test("a weight that is changed between forward and backward is found", function()
  local net = nn.Linear(2, 2)
  local x = ml.ones(1, 2)
  x.requires_grad = true
  local program = ml.export(net, { x }, { gradients = true })
  local y = program(x)
  ml.no_grad(function() net.weight:mul_(2) end)
  expect.error(function() y:sum():backward() end, "in place")
end)

test("functions without a backward pass for a file are refused", function()
  local function refused(f, input, pattern)
    expect.error(function() ml.export(f, { input }, { gradients = true }) end, pattern)
  end
  local w = nn.Parameter(ml.ones(2))
  refused(function(x) return x * 2 end, ml.ones(2), "no result depends on a parameter, or an input, that requires grad")
  refused(function(x)
    local y = (x * w):sum()
    y:backward()
    return y
  end, ml.ones(2), "export: gradients: ")
  refused(function(x)
    ml.no_grad(function() w:add_(1) end)
    return x * w
  end, ml.ones(2), "which requires grad")
  refused(function(x)
    local y = x * w
    y:register_hook(print)
    return y
  end, ml.ones(2), "hook")
  expect.equal(w:tolist(), { 1, 1 })
  w.grad = nil
  expect.error(function()
    ml.export(nn.Linear(2, 2), { ml.ones(1, 2) }, { gradients = true, dynamic = true })
  end, "sizes do not vary in a program with gradients")
end)

test("parameters are replaced in a program with gradients", function()
  local net, other = nn.Linear(2, 1), nn.Linear(2, 1)
  local program = ml.export(net, { ml.ones(1, 2) }, { gradients = true })
  program:set_parameter("weight", other.weight)
  local y = program(ml.ones(1, 2))
  y:sum():backward()
  expect.truthy(other.weight.grad)
  expect.equal(net.weight.grad, nil)
  expect.truthy(net.bias.grad)
end)

-- The text of the gradients of a file, changed by a function, in a file of the same tensors.
local function with_gradients(bytes, change)
  local json = require "moonlet.json"
  local size = ("<I8"):unpack(bytes)
  local header = bytes:sub(9, 8 + size):gsub(" *$", "")
  local old = json.decode(header).__metadata__["moonlet.program.gradients"]
  local first, last = header:find(json.encode(old), 1, true)
  local tree = json.decode(old)
  local changed = change(tree) or json.encode(tree)
  header = header:sub(1, first - 1) .. json.encode(changed) .. header:sub(last + 1)
  header = header .. (" "):rep(-#header % 8)
  return ("<I8"):pack(#header) .. header .. bytes:sub(9 + size)
end

test("files whose backward pass is damaged are refused", function()
  local program = ml.export(nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2)), { ml.ones(1, 2) },
    { gradients = true })
  harness.with_temp_file(function(path)
    program:save(path)
    local file = assert(io.open(path, "rb"))
    local bytes = file:read "a"
    file:close()
    expect.truthy(bytes:find('\\"version\\":2', 1, true), "older readers refuse it")
    local function load(change)
      local out = assert(io.open(path, "wb"))
      out:write(with_gradients(bytes, change))
      out:close()
      return ml.load(path)
    end
    expect.truthy(same(load(function() end)(ml.ones(1, 2)), program(ml.ones(1, 2))))
    local function refused(change, pattern)
      expect.error(function() load(change) end, "load: .*the gradients of the program: .*" .. pattern)
    end
    local big = 2 ^ 31 | 0
    refused(function() return "[" end, "byte")
    refused(function() return "{}" end, "version")
    refused(function(t) t.version = 2 end, "version 2")
    refused(function(t) t.saved = { 99 } end, "output 99 is a value that no node makes")
    refused(function(t) t.saved = { big } end, "saved")
    refused(function(t) t.kept[1] = 99 end, "there is no output 99")
    refused(function(t) t.made = {} end, "made")
    refused(function(t) t.made[1] = 3 end, "output 3 is not the next")
    refused(function(t) t.made[1] = -1 end, "no result has gradients")
    refused(function(t) t.states[1] = "x" end, "states")
    refused(function(t) table.remove(t.states) end, "states")
    refused(function(t) t.targets[1][2] = 9 end, "there is no parameter 9")
    refused(function(t) t.targets[1][1] = "yes" end, "given")
    refused(function(t) t.ways[1] = 0 end, "ways")
    refused(function(t) t.ways[1] = 1e6 | 0 end, "ways")
    refused(function(t) t.target_of[1][3] = 7 end, "there is no target 7")
    local pass = function(t) return t.backward[1] end
    refused(function(t) pass(t).from = { 1 } end, "output 1 is none")
    refused(function(t) pass(t).from = {} end, "from")
    refused(function(t) pass(t).sums.edges[1] = 50 end, "edges")
    local count
    load(function(t) count = #pass(t).sums.edges end)
    expect.equal(count, 4)
    for i = 1, count do
      for k = 1, count do
        if i ~= k then refused(function(t) pass(t).sums.edges[i] = pass(t).sums.edges[k] end, "") end
      end
    end
    refused(function(t)
      local edges = pass(t).sums.edges
      edges[1], edges[2] = edges[2], edges[1]
    end, "a gradient is")
    refused(function(t) table.remove(pass(t).sums.inputs) end, "inputs")
    refused(function(t) pass(t).sums.inputs[1][1] = "wanted" end, "inputs")
    refused(function(t) pass(t).sums.inputs[1][2] = 1 end, "inputs")
    refused(function(t) pass(t).sums.graph.nodes[1][1] = 99 end, "nodes")
    refused(function(t) pass(t).sums.graph.values[1][2] = "float64" end, "")
    refused(function(t) pass(t).sums.graph.outputs[1] = 99 end, "output 99")
  end)
end)

-- Calls f(list, key) for each number of a tree.
local function each_number(tree, f)
  local keys = {}
  for key in pairs(tree) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, key in ipairs(keys) do
    local value = tree[key]
    if type(value) == "table" then
      each_number(value, f)
    elseif type(value) == "number" or type(value) == "boolean" then
      f(tree, key)
    end
  end
end

test("a gradient that comes twice is refused", function()
  local w = nn.Parameter(ml.ones(2))
  local program = ml.export(function(x) return x * w, x / w end, { ml.ones(2) }, { gradients = true })
  harness.with_temp_file(function(path)
    program:save(path)
    local file = assert(io.open(path, "rb"))
    local bytes = file:read "a"
    file:close()
    local out = assert(io.open(path, "wb"))
    out:write(with_gradients(bytes, function(tree)
      for _, input in ipairs(tree.backward[1].sums.inputs) do
        if input[1] == "gradient" then input[2] = 0 end
      end
    end))
    out:close()
    expect.error(function() ml.load(path) end, "the gradient of output 0 comes twice")
  end)
end)

test("no number of a backward pass, however wrong, does harm", function()
  local net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Tanh())
  local x = ml.ones(2, 2)
  x.requires_grad = true
  local program = ml.export(function(a) return net(a), (net(a) * a):t() end, { x }, { gradients = true })
  local rounds = tonumber(os.getenv "MOONLET_FUZZ_ROUNDS") or 1
  harness.with_temp_file(function(path)
    program:save(path)
    local file = assert(io.open(path, "rb"))
    local bytes = file:read "a"
    file:close()
    local total = 0
    with_gradients(bytes, function(tree) each_number(tree, function() total = total + 1 end) end)
    expect.truthy(total > 500)
    math.randomseed(tonumber(os.getenv "MOONLET_FUZZ_SEED") or 1)
    local read = 0
    for _ = 1, 400 * rounds do
      local wanted, at = math.random(total), 0
      local out = assert(io.open(path, "wb"))
      out:write(with_gradients(bytes, function(tree)
        each_number(tree, function(list, key)
          at = at + 1
          if at ~= wanted then return end
          local was = list[key]
          if type(was) == "boolean" then
            list[key] = not was
          else
            local others = { was + 1, was - 1, 0, -1, 7, 1 << 31, -(1 << 40), was * 3 }
            list[key] = others[math.random(#others)]
          end
        end)
      end))
      out:close()
      local ok, problem = pcall(function()
        local loaded = ml.load(path)
        read = read + 1
        local a = ml.ones(2, 2)
        a.requires_grad = true
        local y, z = loaded(a)
        ml.grad(y:sum() + z:sum(), { a }, { create_graph = math.random(2) == 1, allow_unused = true })
      end)
      expect.truthy(ok or not problem:find "attempt to " and not problem:find "bad argument", problem)
    end
    expect.truthy(read > 0)
  end)
end)

harness.run()
