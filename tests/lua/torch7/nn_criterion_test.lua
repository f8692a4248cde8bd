-- tests/lua/torch7/nn_criterion_test.lua: criteria of `require "nn"` without upstream's: values by
-- their
-- formulas, gradients by finite differences.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
package.path = (arg[0]:match("^(.*)/") or ".") .. "/?.lua;" .. package.path
local harness = require "harness"
local torch = require "torch"
local nn = require "moonlet.torch7.nn"
local THNN = require "moonlet.torch7.thnn"
local checks = require "nn_checks"
local test, expect = harness.test, harness.expect

torch.manualSeed(5)

local function signs(...) return torch.sign(torch.randn(...)) end
local function classes(count, most) return torch.LongTensor(count):random(1, most) end

local CRITERIA = {
  { "MSECriterion", function() return nn.MSECriterion() end, torch.randn(3, 4), torch.randn(3, 4) },
  { "MSECriterion, sum", function() return nn.MSECriterion(false) end, torch.randn(3),
    torch.randn(3) },
  { "AbsCriterion", function() return nn.AbsCriterion() end, torch.randn(3, 4), torch.randn(3, 4) },
  { "SmoothL1Criterion", function() return nn.SmoothL1Criterion() end, torch.randn(3, 4):mul(2),
    torch.randn(3, 4) },
  { "SoftMarginCriterion", function() return nn.SoftMarginCriterion() end, torch.randn(3, 4),
    signs(3, 4) },
  { "MarginCriterion", function() return nn.MarginCriterion(0.7) end, torch.randn(3, 4), signs(3,
    4) },
  { "DistKLDivCriterion", function() return nn.DistKLDivCriterion() end, torch.randn(3, 4),
    torch.rand(3, 4) },
  { "BCECriterion", function() return nn.BCECriterion() end, torch.rand(3, 4):mul(0.8):add(0.1),
    torch.rand(3, 4) },
  { "BCECriterion, weights", function() return nn.BCECriterion(torch.rand(4):view(1, 4):expand(3,
    4)) end,
    torch.rand(3, 4):mul(0.8):add(0.1), torch.rand(3, 4) },
  { "ClassNLLCriterion", function() return nn.ClassNLLCriterion() end, torch.randn(5, 4), classes(5,
    4) },
  { "ClassNLLCriterion, weights", function() return nn.ClassNLLCriterion(torch.rand(4)) end,
    torch.randn(5, 4), classes(5, 4) },
  { "ClassNLLCriterion, sum", function() return nn.ClassNLLCriterion(nil, false) end, torch.randn(5,
    4),
    classes(5, 4) },
  { "ClassNLLCriterion of a vector", function() return nn.ClassNLLCriterion() end, torch.randn(4),
    3 },
  { "CrossEntropyCriterion", function() return nn.CrossEntropyCriterion() end, torch.randn(5, 4),
    classes(5, 4) },
  { "SpatialClassNLLCriterion", function() return nn.SpatialClassNLLCriterion(torch.rand(3)) end,
    torch.randn(2, 3, 2, 2), torch.LongTensor(2, 2, 2):random(1, 3) },
  { "MultiMarginCriterion", function() return nn.MultiMarginCriterion() end, torch.randn(5, 4),
    classes(5, 4) },
  { "MultiMarginCriterion, squares", function() return nn.MultiMarginCriterion(2, torch.rand(4),
    0.5) end,
    torch.randn(5, 4), classes(5, 4) },
}

for _, case in ipairs(CRITERIA) do
  test(case[1] .. ": gradient", function()
    checks.criterion(case[1], case[2](), case[3]:clone(), case[4])
  end)
end

test("values are those of the formulas", function()
  local x, t = torch.Tensor { { 0.5, -1, 2 }, { 0.25, 3, -2 } }, torch.Tensor { { 0, 1, 1 }, { 1, 1,
    -1 } }
  local d = x - t
  checks.close(nn.MSECriterion():forward(x, t), torch.cmul(d, d):mean())
  checks.close(nn.MSECriterion(false):forward(x, t), torch.cmul(d, d):sum())
  checks.close(nn.AbsCriterion():forward(x, t), torch.abs(d):mean())
  local p = torch.Tensor { 0.25, 0.75 }
  checks.close(nn.BCECriterion():forward(p, torch.Tensor { 1, 0 }), -(math.log(0.25) * 2) / 2, 1e-9)
  local logits = torch.Tensor { { 1, 2, 3 }, { 3, 1, 0 } }
  local function loss(row, class)
    local sum = 0
    for i = 1, 3 do sum = sum + math.exp(logits[row][i]) end
    return math.log(sum) - logits[row][class]
  end
  local target = torch.LongTensor { 3, 2 }
  checks.close(nn.CrossEntropyCriterion():forward(logits, target), (loss(1, 3) + loss(2, 2)) / 2)
  local weights = torch.Tensor { 1, 2, 5 }
  checks.close(nn.CrossEntropyCriterion(weights):forward(logits, target),
    (5 * loss(1, 3) + 2 * loss(2, 2)) / 7)
end)

test("ClassNLLCriterion: a class that is ignored", function()
  local criterion = nn.ClassNLLCriterion(nil, true, 2)
  local x = torch.randn(3, 4)
  local target = torch.LongTensor { 1, 2, 4 }
  checks.close(criterion:forward(x, target), -(x[1][1] + x[3][4]) / 2)
  local g = criterion:backward(x, target)
  expect.equal(g[2]:abs():sum(), 0)
  checks.close(g[3][4], -0.5)
end)

test("MultiLabelMarginCriterion of THNN", function()
  local kernels = THNN.kernels["torch.DoubleTensor"]
  local x = torch.Tensor { { 0.1, 0.2, 0.4, 0.8 }, { 1, 0, 0, 2 } }
  local target = torch.LongTensor { { 3, 4, 0, 1 }, { 1, 0, 0, 0 } }
  local output, is_target, g = torch.Tensor(1), torch.Tensor(), torch.Tensor()
  local function loss()
    kernels.MultiLabelMarginCriterion_updateOutput(x, target, output, is_target, true)
    return output[1]
  end
  -- Of the first row (1 - 0.4 + 0.1) + (1 - 0.4 + 0.2) + (1 - 0.8 + 0.1) + (1 - 0.8 + 0.2).
  checks.close(loss(), ((0.7 + 0.8 + 0.3 + 0.4) / 4 + (0 + 0 + 2) / 4) / 2)
  expect.equal(is_target[1]:totable(), { 0, 0, 1, 1 })
  kernels.MultiLabelMarginCriterion_updateGradInput(x, target, g, is_target, true)
  checks.close(g:sum(), 0)
  checks.close(g[1][3], -2 / 8)
  checks.close(g[2][4], 1 / 8)
end)

test("sums of criteria", function()
  local x, t = torch.randn(3, 2), torch.randn(3, 2)
  local multi = nn.MultiCriterion():add(nn.MSECriterion(), 0.5):add(nn.AbsCriterion())
  checks.close(multi:forward(x, t), 0.5 * nn.MSECriterion():forward(x,
    t) + nn.AbsCriterion():forward(x, t))
  checks.criterion("MultiCriterion", multi, x, t)
  local parallel = nn.ParallelCriterion():add(nn.MSECriterion(), 2):add(nn.AbsCriterion())
  checks.criterion("ParallelCriterion", parallel, { x, t }, { t:clone():mul(3), x:clone():mul(2) })
end)

test("errors name the criterion and what was expected", function()
  expect.error(function() nn.BCECriterion():forward(torch.Tensor { 1.5 }, torch.ones(1)) end,
    "BCECriterion: inputs from 0 to 1 are expected")
  expect.error(function() nn.ClassNLLCriterion():forward(torch.randn(2, 3),
    torch.LongTensor { 1 }) end,
    "each of 2 rows")
  expect.error(function() nn.ClassNLLCriterion():forward(torch.randn(1, 3),
      torch.LongTensor { 4 }) end, "4")
  expect.error(function()
    nn.ClassNLLCriterion(torch.ones(2)):forward(torch.randn(1, 3), torch.LongTensor { 1 })
  end, "all 3 classes")
end)

harness.run()
