-- tests/lua/index_case.lua: an index expression with what PyTorch reads, writes and differentiates by
-- it, as tests/reference/make_index_expressions.py writes it.

local expect = require("harness").expect
local ml = require "moonlet"

local case_of = {}

--- The numbers of a list, shown.
function case_of.text(list)
  local out = {}
  for i, value in ipairs(list) do out[i] = ("%g"):format(value) end
  return table.concat(out, " ")
end
local text = case_of.text
local function elements(x) return text(x:reshape(-1):totable()) end

local function tensor_of(case)
  local count = 1
  for _, size in ipairs(case.shape) do count = count * size end
  return ml.arange(1, count, { dtype = ml.float64 }):reshape(case.shape)
end

--- Fails where the case comes out otherwise.
function case_of.check(case)
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
  local positions = ml.zeros_like(x)
  positions[index] = 1
  expect.equal(elements(filled), elements(x * positions), "assigned a tensor")
  local leaf = tensor_of(case):requires_grad_()
  local weights = ml.arange(1, read:numel(), { dtype = ml.float64 }):reshape(read.shape);
  (leaf[index] * weights):sum():backward()
  expect.equal(elements(leaf.grad), text(case.grad), "gradient")
end

return case_of
