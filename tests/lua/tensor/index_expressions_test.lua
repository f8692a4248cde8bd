-- tests/lua/tensor/index_expressions_test.lua: random index expressions, of positions, ranges, new
-- dimensions, index tensors and masks mixed, read, write and differentiate as PyTorch's
-- (tests/reference/values/index_expressions.json).

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local json = require "moonlet.json"
local harness = require "harness"
local index_case = require "index_case"
local test = harness.test

local file = assert(io.open(assert(os.getenv "MOONLET_SOURCE") .. "/tests/reference/values/index_expressions.json"))
local cases = json.decode(file:read "a")
file:close()

for number, case in ipairs(cases) do
  test(("%d: x of (%s) at %s"):format(number, index_case.text(case.shape), case.index), function()
    index_case.check(case)
  end)
end

harness.run()
