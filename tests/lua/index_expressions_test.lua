-- tests/lua/index_expressions_test.lua: random index expressions, of positions, ranges, new
-- dimensions, index tensors and masks mixed, read, write and differentiate as PyTorch's
-- (tests/reference/index_expressions.json).

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local ml = require "moonlet"
local json = require "moonlet.json"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local file = assert(io.open(assert(os.getenv "MOONLET_SOURCE") .. "/tests/reference/index_expressions.json"))
local cases = json.decode(file:read "a")
file:close()

local function text(list)
  local out = {}
  for i, value in ipairs(list) do out[i] = ("%g"):format(value) end
  return table.concat(out, " ")
end
local function elements(x) return text(x:reshape(-1):totable()) end

local function tensor_of(case)
  local count = 1
  for _, size in ipairs(case.shape) do count = count * size end
  return ml.arange(1, count, { dtype = ml.float64 }):reshape(case.shape)
end

for number, case in ipairs(cases) do
  test(("%d: x of (%s) at %s"):format(number, text(case.shape), case.index), function()
    local index = assert(load("local ml = ... return " .. case.index))(ml)
    local x = tensor_of(case)
    local read = x[index]
    expect.equal(text(read.shape:tolist()), text(case.sizes))
    expect.equal(elements(read), text(case.read))
    local filled = x:clone()
    filled[index] = 0.5
    expect.equal(elements(filled), text(case.filled), "assigned a number")
    filled:zero_()
    filled[index] = read
    local places = ml.zeros_like(x)
    places[index] = 1
    expect.equal(elements(filled), elements(x * places), "assigned a tensor")
    local leaf = tensor_of(case):requires_grad_()
    local weights = ml.arange(1, read:numel(), { dtype = ml.float64 }):reshape(read.shape);
    (leaf[index] * weights):sum():backward()
    expect.equal(elements(leaf.grad), text(case.grad), "gradient")
  end)
end

harness.run()
