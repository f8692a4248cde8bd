-- tests/lua/cuda/cuda_devices_test.lua: what the emulated device checks of kernels: whose memory they are
-- given, and the order of threads and blocks. Skips without one.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local emulated = require "emulated"
local expect = harness.expect
local output = emulated.output

emulated.test("an order of blocks and threads that is not known", function()
  expect.truthy(output("MOONLET_EMULATED_ORDER=sideways", "say(function() return ml.ones(4, cuda) end)")
    :find("MOONLET_EMULATED_ORDER is reverse or random:SEED, not 'sideways'", 1, true))
end)

emulated.test("sums and products come out the same in every order", function()
  local script = [[
    ml.manual_seed(1)
    local x, y = ml.randn(300, 70):to "cuda", ml.randint(1, 50, { 4000 }):to "cuda"
    print(x:sum():item(), x:softmax(2):sum(1)[3]:item(), y:sort()[77]:item(), (x:mm(x:t())):amax():item())
  ]]
  local want = output("", script)
  expect.truthy(want:find "^%-?%d", want)
  for _, order in ipairs { "reverse", "random:1", "random:2", "random:3" } do
    expect.equal((output("MOONLET_EMULATED_ORDER=" .. order, script)), want)
  end
end)

emulated.test("gradients of two devices are clipped together", function()
  expect.equal(output("MOONLET_EMULATED_DEVICES=2", [[
    local a, b = ml.nn.Parameter(ml.zeros(3):to "cuda:0"), ml.nn.Parameter(ml.zeros(2):to "cuda:1")
    a.grad, b.grad = ml.tensor({ 3.0, 0, 0 }):to "cuda:0", ml.tensor({ 0, -4.0 }):to "cuda:1"
    local norm = ml.nn.utils.clip_grad_norm_({ b, a }, 1)
    print(norm.device, ("%.4f %.4f %.4f"):format(norm:item(), a.grad[1]:item(), b.grad[2]:item()))
  ]]), "cuda:1\t5.0000 0.6000 -0.8000\n")
end)

harness.run()
