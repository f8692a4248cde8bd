-- tests/lua/nn/functional_test.lua: nn.functional against PyTorch's results with PyTorch's arguments, by
-- position and by name; its in-place forms, its names, and losses of shapes that do not match.

local here = arg[0]:match("^(.*)/") or "."
package.path = here .. "/../?.lua;" .. package.path
local harness = require "harness"
local json = require "moonlet.json"
local ml = require "moonlet"
local signature = require "moonlet.signature"
local system = require "moonlet.system"
local test, expect = harness.test, harness.expect
local nn, F = ml.nn, ml.nn.functional

local function decode(entry)
  if entry.none then return nil end
  if entry.value ~= nil then return entry.value end
  local data = #entry.data > 0 and ml.tensor(entry.data, { dtype = entry.dtype })
    or ml.zeros { 0, dtype = entry.dtype }
  return data:reshape(entry.shape)
end

-- The calls of a case: as PyTorch's, all by name, and all in one table.
local function calls_of(case)
  local names = signature.all["nn.functional." .. case.name].names
  local args, count, options, named, mixed = {}, #case.args, {}, {}, {}
  for i, entry in ipairs(case.args) do args[i] = decode(entry) end
  for key, entry in pairs(case.options) do options[key] = decode(entry) end
  for i = 1, count do named[names[i]], mixed[i] = args[i], args[i] end
  for key, value in pairs(options) do named[key], mixed[key] = value, value end
  local plain = table.pack(table.unpack(args, 1, count))
  if next(options) then
    plain.n = count + 1
    plain[plain.n] = options
  end
  local calls = { plain, { n = 1, named } }
  if next(options) and #mixed == count and count > 0 then calls[3] = { n = 1, mixed } end
  return calls
end

for i, case in ipairs(json.decode(system.read_file(here .. "/../../reference/values/functional.json"))) do
  test(("%s as PyTorch's, case %d"):format(case.name, i), function()
    local wanted = decode(case.result)
    for _, call in ipairs(calls_of(case)) do
      local got = F[case.name](table.unpack(call, 1, call.n))
      expect.equal(tostring(got.shape), tostring(wanted.shape))
      expect.near(got:double():reshape(-1):totable(), wanted:double():reshape(-1):totable(), 1e-9)
    end
  end)
end

local IN_PLACE = { relu = {}, relu6 = {}, elu = { 0.7 }, selu = {}, celu = { 0.7 }, silu = {},
  leaky_relu = { 0.2 }, hardtanh = { -0.5, 0.5 }, hardsigmoid = {}, hardswish = {}, mish = {},
  threshold = { 0.1, 2.0 } }

test("inplace changes the argument and has the same gradient", function()
  for name, options in pairs(IN_PLACE) do
    local w = ml.randn { 20, dtype = ml.float64, requires_grad = true }
    local function gradient(inplace)
      local x = w * 2
      local arguments = { x, table.unpack(options) }
      arguments[#arguments + 1] = inplace
      local y = F[name](table.unpack(arguments))
      expect.equal(inplace, rawequal(x:storage(), y:storage()), name)
      return ml.grad((y * y):sum(), w), y
    end
    local g1, y1 = gradient(false)
    local g2, y2 = gradient(true)
    expect.near(y2:totable(), y1:totable(), 1e-12, name)
    expect.near(g2:totable(), g1:totable(), 1e-12, name)
  end
  local x = ml.tensor { -1.0, 2.0 }
  expect.equal(F.relu_(x), F.relu_(x) and x)
  expect.equal(x:totable(), { 0.0, 2.0 })
end)

test("dropout in place", function()
  local x = ml.ones(100)
  local y = F.dropout(x, { p = 0.5, inplace = true })
  expect.truthy(x == y)
  expect.truthy(x:eq(0):logical_or(x:eq(2)):all():item() and x:eq(0):any():item())
  expect.truthy(F.dropout(x, 0.5, false, true) == x)
end)

test("layers in place", function()
  for _, name in ipairs { "ReLU", "ReLU6", "ELU", "SELU", "CELU", "SiLU", "LeakyReLU", "Hardtanh",
    "Hardsigmoid", "Hardswish", "Mish", "Dropout" } do
    local x = ml.randn(50)
    local layer = nn[name] { inplace = true }
    local y = layer(x)
    expect.truthy(x == y, name)
    expect.truthy(tostring(layer):find "inplace", name)
    expect.falsy(nn[name]()(x) == x, name)
  end
  local x = ml.tensor { -1.0, 3.0 }
  nn.Threshold(0, 5, { inplace = true })(x)
  expect.equal(x:totable(), { 5.0, 3.0 })
  expect.error(function() nn.Tanh { inplace = true } end, "unknown option 'inplace'")
end)

test("the result of max pooling has positions when asked", function()
  local x = ml.tensor { { { { 1.0, 9.0 }, { 3.0, 4.0 } } } }
  local values, positions = F.max_pool2d(x, 2, { return_indices = true })
  expect.equal({ values:item(), positions:item() }, { 9.0, 2 })
  local _, same = nn.MaxPool2d(2, { return_indices = true })(x)
  local _, named = F.max_pool2d_with_indices(x, 2)
  expect.equal({ same:item(), named:item() }, { 2, 2 })
end)

test("the gradient of unfold adds up the windows", function()
  local x = ml.randn { 1, 2, 4, 4, dtype = ml.float64, requires_grad = true }
  local g = ml.grad(F.unfold(x, 2):sum(), x)
  expect.equal(g[{ 1, 1, 1 }]:totable(), { 1.0, 2.0, 2.0, 1.0 })
  expect.equal(g[{ 1, 2, 2 }]:totable(), { 2.0, 4.0, 4.0, 2.0 })
  expect.error(function() F.unfold(ml.ones(3, 3), 2) end, "or that without n is expected")
  expect.error(function() F.unfold(ml.ones(1, 1, 2, 5), 3) end, "a window of 3 does not fit into 2")
end)

test("names that PyTorch has not are errors", function()
  expect.error(function() return F.exp end, "nn.functional has no field 'exp'")
  expect.error(function() return F.rleu end, "did you mean 'relu'")
  expect.error(function() return F.Tensor end, "no field")
end)

test("wrong arguments are named", function()
  local x, y = ml.ones(2, 3), ml.tensor { 1, 2 }
  expect.error(function() F.cross_entropy(x, y, { reducton = "sum" }) end, "mean 'reduction'")
  expect.error(function() F.cross_entropy(x, y, nil, "sum") end, "'ignore_index' must be an integer, got \"sum\"")
  expect.error(function() F.mse_loss(x, x, "men") end, "reduction")
  expect.error(function() F.mse_loss(x, x, { reduction = "men" }) end, "'reduction' must be mean, sum or none")
  expect.error(function() F.threshold(x) end, "'threshold' is missing")
  expect.error(function() F.relu(x, { inpace = true }) end, "mean 'inplace'")
  expect.error(function() F.linear() end, "'input' is missing")
  expect.error(function() F.linear { x, weigth = x } end, "mean 'weight'")
  expect.error(function() F.embedding(y, x, { padding_idx = 9 }) end, "'padding_idx' 9 is out of range")
  expect.error(function() F.relu(3, true) end, "'input': a tensor is expected, got 3")
end)

test("binary cross entropy wants equal shapes and probabilities", function()
  local p = ml.full({ 3 }, 0.5)
  for _, f in ipairs { ml.binary_cross_entropy, F.binary_cross_entropy, nn.BCELoss() } do
    expect.error(function() f(p, ml.ones(3, 1)) end, "the target has shape %(3, 1%), that of the input, %(3,%)")
    expect.error(function() f(p * 3, ml.ones(3)) end, "the input has elements from 1.5 to 1.5, all must be from 0 to 1")
    expect.error(function() f(p, ml.tensor { 0.0, -1.0, 1.0 }) end, "the target has elements from %-1")
    expect.error(function() f(p, ml.tensor { 0.0, ml.nan, 1.0 }) end, "the target")
  end
  expect.error(function() ml.binary_cross_entropy(p, p, ml.ones(2, 3)) end, "the weight has shape %(2, 3%)")
  for _, f in ipairs { ml.binary_cross_entropy_with_logits, F.binary_cross_entropy_with_logits,
    nn.BCEWithLogitsLoss() } do
    expect.error(function() f(p, ml.ones(3, 1)) end, "the target has shape %(3, 1%)")
    expect.error(function() f(p, ml.ones {}) end, "the target has shape")
  end
  expect.error(function() F.binary_cross_entropy_with_logits(p, p, { pos_weight = ml.ones(2, 3) }) end, "pos_weight")
  expect.near(ml.binary_cross_entropy(ml.zeros(0), ml.zeros(0), nil, "sum"):item(), 0)
end)

-- What a script in a process of its own prints on stderr.
local function warnings_of(script, flags)
  local path = os.tmpname()
  system.write_file(path, "local ml = require 'moonlet' local F = ml.nn.functional " .. script)
  local process <close> = assert(io.popen(("'%s' %s '%s' 2>&1"):format(arg[-1], flags or "", path)))
  local out = process:read "a"
  os.remove(path)
  return out
end

test("losses that broadcast warn once, with the script's line", function()
  if not arg[-1] then harness.skip "the interpreter's path is not known" end
  for _, name in ipairs { "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss" } do
    local script = ("for i = 1, 3 do F.%s(ml.ones(3), ml.ones(3, 1)) end ml.%s(ml.ones(2), ml.ones(2, 1))")
      :format(name, name)
    local out = warnings_of(script)
    expect.truthy(out:find(name .. ": the target has shape (3, 1) and the input (3,)", 1, true), out)
    expect.truthy(out:find(":1: ", 1, true), out)
    expect.equal(select(2, out:gsub("broadcast", "")), 1, out)
    expect.equal(warnings_of(("F.%s(ml.ones(3), ml.ones(3))"):format(name)), "")
    expect.equal(warnings_of("warn '@off' " .. script), "")
  end
  expect.truthy(warnings_of("F.kl_div(ml.ones(2), ml.ones(2))"):find "batchmean")
  expect.equal(warnings_of("F.kl_div(ml.ones(2), ml.ones(2), 'sum')"), "")
  expect.equal(warnings_of("warn 'of the script'"), "")
end)

harness.run()
