-- tests/lua/torch7/torch7_convert_test.lua: `moonlet convert`: weights of models of Torch7's in a file that a model
-- of ml.nn loads.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local convert = require "moonlet.convert"
local harness = require "harness"
local torch = require "torch"
local ml = require "moonlet"
local system = require "moonlet.system"
local test, expect = harness.test, harness.expect

local nn = {}
local function module(class, fields)
  if not nn[class] then torch.class("nn." .. class, nn) end
  local out = nn[class]()
  for key, value in pairs(fields) do out[key] = value end
  return out
end

local function model()
  return module("Sequential", { modules = {
    module("SpatialConvolutionMM", { weight = torch.range(1, 36):float():resize(2, 18),
      bias = torch.FloatTensor { 1, 2 }, nInputPlane = 2, nOutputPlane = 2, kW = 3, kH = 3 }),
    module("SpatialBatchNormalization", { weight = torch.FloatTensor { 1, 2 },
      bias = torch.FloatTensor { 3, 4 }, running_mean = torch.FloatTensor { 5, 6 },
      running_std = torch.FloatTensor { 0.5, 1 }, eps = 0 }),
    module("ReLU", {}),
    module("ConcatTable", { modules = { module("Linear", { weight = torch.FloatTensor(3, 2):fill(1),
      bias = torch.FloatTensor(3) }) } }),
    module("TemporalConvolution", { weight = torch.range(1, 4):resize(1, 4), kW = 2,
      inputFrameSize = 2, outputFrameSize = 1, bias = torch.Tensor { 1 } }),
  } })
end

local function with_model(value, f)
  local name = os.tmpname() .. ".t7"
  torch.save(name, value)
  local ok, problem = pcall(f, name)
  os.remove(name)
  if not ok then error(problem, 0) end
end

local function run(words)
  local pipe = assert(io.popen(("'%s' convert %s 2>&1"):format(system.executable(), words)))
  local text = pipe:read "a"
  local ok = pipe:close()
  return text, ok == true
end

test("a model becomes a file of safetensors", function()
  with_model(model(), function(name)
    local output = name .. ".safetensors"
    local text, ok = run(name .. " " .. output)
    expect.equal({ text:match "[^/\\]+$", ok }, { output:match "[^/\\]+$" .. ": 11 tensors\n", true })
    local state = ml.load(output)
    os.remove(output)
    expect.equal({ state["0.weight"].shape:numel(), state["0.weight"]:dim(),
      state["0.weight"][{ 2, 1, 1, 1 }]:item() }, { 36, 4, 19.0 })
    expect.equal(state["1.running_var"]:tolist(), { 4.0, 1.0 })
    expect.equal(state["4.weight"]:tolist(), { { { 1.0, 3.0 }, { 2.0, 4.0 } } })
    expect.equal(state["3.0.bias"].dtype, "float32")
    local net = ml.nn.Sequential(ml.nn.Conv2d(2, 2, 3), ml.nn.BatchNorm2d(2))
    local part = {}
    for key, value in pairs(state) do
      if key:find "^[01]%." then part[key] = value end
    end
    net:load_state_dict(part)
    expect.equal(net[2].running_mean:tolist(), { 5.0, 6.0 })
  end)
end)

test("a dtype for all weights", function()
  with_model(model(), function(name)
    local output = name .. ".pt"
    local _, ok = run("--dtype float32 " .. name .. " " .. output)
    expect.truthy(ok)
    expect.equal(ml.load(output)["4.weight"].dtype, "float32")
    os.remove(output)
  end)
end)

test("what has no counterpart is named", function()
  local odd = module("Sequential", { modules = { module("Euclidean", { weight = torch.ones(1) }) } })
  with_model(odd, function(name)
    local text, ok = run(name .. " /tmp/never.pt")
    expect.equal({ text, ok },
      { "moonlet: convert: 0. of class nn.Euclidean has no counterpart in ml.nn\n", false })
  end)
  expect.error(function() convert.state_dict { 1 } end, "the value is no module of Torch7's")
  expect.error(function()
    convert.state_dict { __typename = "nn.Sequential", modules = {} }
  end, "the model has no weights")
  local text = run "one.t7"
  expect.truthy(text:find "a model and an output are expected")
end)

harness.run()
