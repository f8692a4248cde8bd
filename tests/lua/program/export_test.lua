-- tests/lua/program/export_test.lua: ml.export, programs, and their files: results as the function gives
-- them, bit for bit, sizes that vary, parameters, and what no program can be made of.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local nn = ml.nn
local F = nn.functional
local test, expect = harness.test, harness.expect

local function same(a, b)
  return a.dtype == b.dtype and a.shape == b.shape and a:contiguous():to_bytes() == b:contiguous():to_bytes()
end

-- The program, and it again from a file with its weights inside and beside.
local function in_all_forms(program, f)
  f(program)
  harness.with_temp_file(function(path)
    program:save(path)
    f(ml.load(path))
  end)
  harness.with_temp_file(function(path)
    local name = path:match "[^/]*$" .. ".safetensors"
    program:save(path, { weights = name })
    f(ml.load(path))
    os.remove(path .. ".safetensors")
  end)
end

local function check(f, inputs, more, options)
  local program = ml.export(f, inputs, options)
  table.insert(more, 1, inputs)
  in_all_forms(program, function(form)
    for _, arguments in ipairs(more) do
      local wanted = table.pack(ml.no_grad(f, table.unpack(arguments)))
      local got = table.pack(form(table.unpack(arguments)))
      expect.equal(got.n, wanted.n)
      for i = 1, wanted.n do expect.truthy(same(got[i], wanted[i]), ("result %d"):format(i)) end
    end
  end)
  return program
end

local function mlp() return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)) end

test("modules give the same bits", function()
  ml.manual_seed(1)
  check(mlp(), { ml.randn(2, 4) }, { { ml.randn(2, 4) }, { ml.randn(2, 8)[{ {}, { 1, -1, 2 } }] } })
  local conv = nn.Sequential(nn.Conv2d(1, 4, 3, { padding = 1 }), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(64, 5), nn.LogSoftmax(2)):eval()
  check(conv, { ml.randn(2, 1, 8, 8) }, { { ml.randn(2, 1, 8, 8) } })
  local encoder = nn.TransformerEncoderLayer(8, 2, 16, { batch_first = true }):eval()
  check(encoder, { ml.randn(2, 5, 8) }, { { ml.randn(2, 5, 8) } })
  local embedding = nn.Sequential(nn.Embedding(10, 4), nn.LayerNorm(4), nn.GELU())
  check(embedding, { ml.randint(1, 10, { 3, 2 }) }, { { ml.randint(1, 10, { 3, 2 }) } })
end)

test("recurrent layers take and give their state", function()
  ml.manual_seed(2)
  local lstm = nn.LSTM(3, 4)
  local function f(x, state)
    local y, last = lstm(x, state)
    return y, last
  end
  local state = { ml.randn(1, 2, 4), ml.randn(1, 2, 4) }
  local x = ml.randn(5, 2, 3)
  local program = ml.export(f, { x, state })
  in_all_forms(program, function(form)
    local y, last = form(x, state)
    local wanted, wanted_last = ml.no_grad(f, x, state)
    expect.truthy(same(y, wanted))
    for i = 1, 2 do expect.truthy(same(last[i], wanted_last[i])) end
    expect.error(function() form(x) end, "expected 2 arguments, got 1")
    expect.error(function() form(x, x) end, "argument 2 to be a table of tensors, got a tensor")
    expect.error(function() form(x, { state[1] }) end, "argument 2%[2%] to be a tensor, got nil")
  end)
end)

test("functions with views, constants, numbers of all kinds and several results", function()
  ml.manual_seed(3)
  local shift = ml.tensor { 1.0, -2.0, 0.5 }
  check(function(x)
    local y = x:t():contiguous() + shift:view(3, 1)
    local z = y:clone()
    z[1]:mul_(2)
    z:add_(1 / 3, { alpha = 1e-300 })
    return y:masked_fill(y:gt(0), -math.huge), z, x, x[{ 1, { 2, 3 } }], shift, (x * ml.tensor { 1, 2, 3 }):sum()
  end, { ml.randn(2, 3) }, { { ml.randn(2, 3) } })
  check(function(x, n) return x:to(ml.float64):pow(2) % 0.3, n // 2, n:to(ml.bool), x:clamp(nil, 0.1) end,
    { ml.randn(3), ml.arange(1, 3) }, { { ml.randn(3), ml.arange(4, 6) } })
end)

test("random numbers are drawn as by the function", function()
  local function f(x) return F.dropout(x, 0.5, true) + ml.randn(4) end
  local program = ml.export(f, { ml.ones(4) })
  ml.manual_seed(7)
  local wanted = f(ml.ones(4))
  ml.manual_seed(7)
  expect.truthy(same(program(ml.ones(4)), wanted))
end)

test("sizes vary", function()
  ml.manual_seed(4)
  local net = mlp()
  local program = check(net, { ml.randn(4, 4) }, { { ml.randn(1, 4) }, { ml.randn(9, 4) }, { ml.randn(0, 4) } },
    { dynamic = true })
  expect.equal(program:inputs()[1].sizes, { -1, 4 })
  expect.equal(program:outputs()[1].sizes, { -1, 3 })
  local layer = nn.TransformerEncoderLayer(8, 2, 16, { batch_first = true }):eval()
  check(layer, { ml.randn(2, 5, 8) }, { { ml.randn(3, 7, 8) }, { ml.randn(1, 1, 8) } }, { dynamic = { [1] = { 1, 2 } } })
  check(function(x, y)
    return x:view(-1, 2):sum(2), x:reshape(x:size(1) * 2), ml.cat({ x, y }, 1), x + y:size(1), x:mean(1)
  end, { ml.randn(4, 2), ml.randn(7, 2) }, { { ml.randn(3, 2), ml.randn(1, 2) } }, { dynamic = { { 1 }, { 1 } } })
end)

test("sizes that vary are checked", function()
  local program = ml.export(function(x, y) return x + y end, { ml.randn(4, 2), ml.randn(4, 2) }, { dynamic = true })
  expect.equal(program(ml.ones(3, 2), ml.ones(3, 2)).shape, ml.ones(3, 2).shape)
  expect.error(function() program(ml.ones(3, 2), ml.ones(5, 2)) end, "is 5, that of another input 3")
  expect.error(function() program(ml.ones(3, 3), ml.ones(3, 2)) end, "input 1 to be float32 of shape")
  expect.error(function()
    ml.export(function(x) return x:view(x:size(1) // 2, -1) * (x:size(1) * x:size(1)) end, { ml.randn(4, 2) },
      { dynamic = true })
  end, "argument 2 is .* which is no sum of their multiples")
  expect.error(function()
    ml.export(function(x) return x:size(1) > 6 and x * 2 or x + 1 end, { ml.randn(4, 2) }, { dynamic = true })
  end, "at other sizes node 1, add at .*export_test.lua:%d+ is node 1, mul")
  expect.error(function() ml.export(mlp(), { ml.randn(4, 4) }, { dynamic = { [2] = { 1 } } }) end,
    "there is no input 2")
  expect.error(function() ml.export(mlp(), { ml.randn(4, 4) }, { dynamic = { [1] = { 3 } } }) end,
    "input 1 has no dim 3")
end)

test("what reads values or changes is no program, and says where", function()
  local x = ml.ones(2)
  local function refused(f, pattern)
    expect.error(function() ml.export(f, { x }) end, pattern)
  end
  refused(function(y) return y * y:sum():item() end, "export: .* reads values at .*export_test.lua:%d+")
  refused(function(y) if y[1]:item() > 0 then return y end return -y end, "reads values at")
  refused(function(y) return y[y:gt(0)] end, "depends on values")
  local calls = 0
  refused(function(y) calls = calls + 1 return y * calls end, "at the second call")
  refused(function(y) return y + ml.rand(2):tolist()[1] end, "reads values")
  refused(function() return 3 end, "result 1: a tensor or a table of tensors is expected, got 3")
  refused(function() end, "returns nothing")
  refused(function(y) error("own words" .. tostring(#y)) end, "own words2")
  refused(3, "a module or a function is expected, got 3")
  expect.error(function() ml.export(mlp(), {}) end, "no inputs")
  expect.error(function() ml.export(mlp(), { ml.ones(2, 4) }, { names = { input = {} } }) end, "unknown option 'input'")
end)

test("wrong inputs of a program are refused", function()
  local program = ml.export(mlp(), { ml.ones(2, 4) }, { names = { inputs = { "state" } } })
  expect.error(function() program() end, "expected 1 inputs, got 0")
  expect.error(function() program(3) end, "tensor")
  expect.error(function() program(ml.ones(3, 4)) end,
    "input 'state' to be float32 of shape %(2, 4%), got float32 of shape %(3, 4%)")
  expect.error(function() program(ml.ones(2, 4, { dtype = ml.float64 })) end, "got float64")
  expect.equal(program(ml.ones(2, 4)).requires_grad, false)
end)

test("errors of ops in a program name the script's line", function()
  local layer = nn.Embedding(3, 2)
  local program = ml.export(function(i) return layer(i) end, { ml.tensor { 1, 2 } })
  expect.error(function() program(ml.tensor { 1, 7 }) end, "captured at .*%.lua:%d+")
  expect.truthy(program(ml.tensor { 3, 3 }))
end)

test("parameters have their names and are replaced", function()
  local net = mlp()
  local program = ml.export(net, { ml.ones(1, 4) })
  local names = {}
  for name in pairs(program:parameters()) do names[#names + 1] = name end
  table.sort(names)
  expect.equal(names, { "0.bias", "0.weight", "2.bias", "2.weight" })
  local x = ml.randn(1, 4)
  ml.no_grad(function() net[1].weight:mul_(2) end)
  expect.truthy(same(program(x), ml.no_grad(net, x)))
  local other = mlp()
  for name, tensor in pairs(other:state_dict()) do program:set_parameter(name, tensor) end
  expect.truthy(same(program(x), ml.no_grad(other, x)))
  in_all_forms(program, function(form) expect.truthy(same(form(x), ml.no_grad(other, x))) end)
  expect.error(function() program:set_parameter("0.weigth", x) end, "no parameter '0.weigth'")
  expect.error(function() program:set_parameter("0.bias", ml.ones(9)) end, "expected '0.bias' to be float32 of shape %(8,%)")
end)

test("parameters that share memory are saved once", function()
  local all = ml.randn(10)
  local a, b = all[{ { 1, 4 } }], all[{ { 5, 8 } }]
  check(function(x) return x * a + b, x - all:sum() end, { ml.ones(4) }, {})
  local tied = nn.Embedding(4, 3)
  check(function(i) return F.linear(tied(i), tied.weight) end, { ml.tensor { 1, 2 } }, {})
end)

test("programs describe themselves", function()
  local program = ml.export(mlp(), { ml.ones(1, 4) }, { names = { inputs = { "x" }, outputs = { "y" } } })
  expect.truthy(program:describe():find("input 1 'x': float32 (1, 4)", 1, true))
  expect.truthy(program:describe():find("parameters: 4, 268 bytes", 1, true))
  expect.truthy(tostring(program):find "^Program")
  expect.truthy(program:describe():find "work of a run: %d[%d.]* k?flop; ")
  expect.truthy(program:to_dot():find("tanh", 1, true))
  expect.truthy(program:text():find("tanh(", 1, true))
  expect.truthy(table.concat(program:ops(), " "):find("tanh", 1, true))
end)

-- Counted by hand, as the comments say.
test("the work of a LeNet and of a transformer block is what it is", function()
  local lenet = nn.Sequential(nn.Conv2d(1, 6, 5, { padding = 2 }), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5),
    nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 10), nn.LogSoftmax(2))
  local text = ml.export(lenet, { ml.randn(1, 1, 28, 28) }):describe()
  -- 4 bytes each: 156 + 2416 + 48120 + 1210 weights.
  expect.truthy(text:find("parameters: 8, 207608 bytes", 1, true), text)
  -- Eleven ops, of which one is a view and two, of relu, are part of the convolutions.
  expect.truthy(text:find("nodes: 9, of which 8 run", 1, true), text)
  -- While the first pool runs: the convolution's 6 x 28 x 28 floats, the pool's 6 x 14 x 14 and as many int64.
  expect.truthy(text:find(("memory of a run: %d bytes"):format(18816 + 4736 + 9408), 1, true), text)
  -- Convolutions 4704 x 51 + 1600 x 301, ReLU 4704 + 1600, pools 4 x (1176 + 400), linear 120 x 801 + 10 x 241,
  -- tanh 120, log_softmax 5 x 10: 832812.
  -- Read: inputs, weights and results on the way, 243264 bytes; written: results and indices, 45168.
  expect.truthy(text:find("work of a run: 833 kflop; 243 KB read, 45.2 KB written", 1, true), text)
  local Block = nn.class "Block"
  function Block:init()
    self.n1, self.n2 = nn.LayerNorm(16), nn.LayerNorm(16)
    self.qkv, self.out, self.up, self.down = nn.Linear(16, 48), nn.Linear(16, 16), nn.Linear(16, 64), nn.Linear(64, 16)
  end
  function Block:forward(x)
    local q, k, v = table.unpack(self.qkv(self.n1(x)):view(2, 8, 3, 2, 8):unbind(3))
    local y = F.scaled_dot_product_attention(q:transpose(2, 3), k:transpose(2, 3), v:transpose(2, 3),
      { is_causal = true })
    x = x + self.out(y:transpose(2, 3):reshape(2, 8, 16))
    return x + self.down(F.gelu(self.up(self.n2(x))))
  end
  local block = ml.export(nn.Sequential(nn.Embedding(50, 16), Block()), { ml.ones(2, 8, { dtype = ml.int64 }) })
  text = block:describe()
  -- 800 + 2 x 32 + 816 + 272 + 1088 + 1040 weights.
  expect.truthy(text:find("parameters: 13, 16320 bytes", 1, true), text)
  -- Norms 2 x 256 x 7, linear 16 x (48 x 33 + 16 x 33 + 64 x 33 + 16 x 129), attention 4 x 36 pairs x 37,
  -- GELU 1024, sums 512: 111056.
  expect.truthy(text:find("work of a run: 111 kflop;", 1, true), text)
  text = ml.export(function(x) return x:sort(1) end, { ml.ones(3) }):describe()
  expect.truthy(text:find("and that of 1 ops that is not known", 1, true), text)
end)

test("the default dtype is that of the export", function()
  local function f(x) return x:to(ml.int64) / 2 end
  local program = ml.export(f, { ml.ones(2) })
  ml.set_default_dtype(ml.float64)
  local y = program(ml.ones(2, { dtype = ml.float32 }))
  ml.set_default_dtype(ml.float32)
  expect.equal(tostring(y.dtype), "float32")
end)

test("files that are none, or damaged, are refused", function()
  local program = ml.export(mlp(), { ml.ones(1, 4) })
  harness.with_temp_file(function(path)
    program:save(path)
    local file = assert(io.open(path, "rb"))
    local bytes = file:read "a"
    file:close()
    local function refused(changed, pattern)
      expect.truthy(changed ~= bytes, "a change")
      local out = assert(io.open(path, "wb"))
      out:write(changed)
      out:close()
      expect.error(function() ml.load(path) end, pattern)
    end
    local function replaced(from, to)
      assert(#from == #to)
      local at = assert(bytes:find(from, 1, true), from)
      return bytes:sub(1, at - 1) .. to .. bytes:sub(at + #from)
    end
    refused(bytes:sub(1, -2), "load: ")
    refused(replaced('[\\"tanh\\",\\"tanh(', '[\\"tanj\\",\\"tanh('), "needs the op 'tanj', which is not there")
    refused(replaced('[\\"tanh\\",\\"tanh(Tensor x', '[\\"tanh\\",\\"tanh(Tensor y'),
      "needs the op 'tanh' as tanh%(Tensor y")
    refused(replaced('\\"version\\":1', '\\"version\\":9'), "version 9 of the format, this reads versions 1 to 2")
    refused(replaced('\\"float32\\",[1,8]', '\\"float32\\",[1,9]'), "the graph says")
    expect.error(function() ml.save(path .. ".mlp", { x = ml.ones(1) }) end, "written by program:save")
  end)
end)

test("programs inside of what is exported or transformed", function()
  local program = ml.export(mlp(), { ml.ones(1, 4) })
  expect.error(function() ml.export(function(x) return program(x) end, { ml.ones(1, 4) }) end, "a program runs in it")
  expect.error(function()
    ml.export(function(x) ml.export(mlp(), { ml.ones(1, 4) }) return x end, { ml.ones(1) })
  end, "another function is being captured")
  local x = ml.ones(1, 4)
  x.requires_grad = true
  expect.equal(program(x).requires_grad, false)
end)

harness.run()
