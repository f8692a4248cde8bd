-- tests/lua/nn/torch_weights_test.lua: weights that PyTorch wrote (tests/reference/torch_weights.py) are
-- read under its names, and ours have the same names.

local here = arg[0]:match("^(.*)/") or "."
package.path = here .. "/../?.lua;" .. here .. "/../../reference/?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local Net = require "torch_weights"
local test, expect = harness.test, harness.expect

local function load_file()
  local state = ml.load(here .. "/../../reference/torch_weights.safetensors")
  local input, output = state.input, state.output
  state.input, state.output = nil, nil
  return state, input, output
end

local function check_output(net, input, output)
  net:eval()
  expect.near(ml.no_grad(net.forward, net, input):totable(), output:totable(), 1e-5)
end

test("PyTorch's weights load strictly and give its results", function()
  local state, input, output = load_file()
  local net = Net()
  net:load_state_dict(state)
  check_output(net, input, output)
end)

test("without strict nothing is left out or one layer off", function()
  local state, input, output = load_file()
  local net = Net()
  local report = net:load_state_dict(state, { strict = false })
  expect.equal(report, { missing_keys = {}, unexpected_keys = {} })
  check_output(net, input, output)
end)

test("the names of a state dict are PyTorch's", function()
  local state, own = load_file(), Net():state_dict()
  for name, tensor in pairs(own) do
    expect.truthy(state[name], name)
    expect.equal(tostring(tensor.shape), tostring(state[name].shape), name)
    expect.equal(tensor.dtype, state[name].dtype, name)
  end
  for name in pairs(state) do expect.truthy(own[name], name) end
  for _, name in ipairs { "features.0.weight", "features.1.running_mean", "features.4.0.bias",
    "blocks.1.weight", "scales.0", "heads.class.bias" } do
    expect.truthy(own[name], name)
  end
end)

test("part of the weights loads into a part of the network", function()
  local state = load_file()
  local net, part = Net(), {}
  for name, tensor in pairs(state) do part[name:match "^blocks%.(.+)$" or false] = tensor end
  part[false] = nil
  net.blocks:load_state_dict(part)
  expect.truthy(net.blocks[1].weight:eq(state["blocks.0.weight"]):all():item())
  expect.truthy(net.blocks[2].weight:eq(state["blocks.1.weight"]):all():item())
end)

harness.run()
