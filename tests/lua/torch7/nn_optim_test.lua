-- tests/lua/torch7/nn_optim_test.lua: `require "optim"` without upstream's: steps by their
-- formulas, that
-- the minimum of Rosenbrock's function is found, ConfusionMatrix and Logger.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
package.path = (arg[0]:match("^(.*)/") or ".") .. "/?.lua;" .. package.path
local harness = require "harness"
local torch = require "torch"
local optim = require "moonlet.torch7.optim"
local checks = require "nn_checks"
local test, expect = harness.test, harness.expect

-- Its least value, 0, is at (1, 1).
local function rosenbrock(x)
  local a, b = x[1], x[2]
  local loss = 100 * (b - a * a) ^ 2 + (1 - a) ^ 2
  return loss, torch.Tensor { -400 * a * (b - a * a) - 2 * (1 - a), 200 * (b - a * a) }
end

local function run(method, config, steps)
  local x, losses, all = torch.zeros(2), nil, {}
  for i = 1, steps do
    local same
    same, losses = optim[method](rosenbrock, x, config)
    expect.equal(same == x, true, method)
    all[i] = losses[1]
  end
  return x, all, losses
end

test("the first loss is that of the start, and steps go down", function()
  for _, case in ipairs {
    { "sgd", { learningRate = 1e-3 }, 12000 },
    { "sgd", { learningRate = 1e-3, momentum = 0.8 }, 4000 },
    { "sgd", { learningRate = 1e-3, momentum = 0.8, dampening = 0, nesterov = true }, 2000 },
    { "nag", { learningRate = 1e-3, momentum = 0.8 }, 4000 },
    { "asgd", { eta0 = 1e-3, lambda = 0 }, 12000 },
    { "adam", { learningRate = 0.02 }, 2500 }, { "adamax", { learningRate = 0.05 }, 2500 },
    { "adagrad", { learningRate = 0.3 }, 4000 },
    { "rmsprop", { learningRate = 5e-4 }, 8000 }, { "adadelta", { rho = 0.9, eps = 1e-10 }, 9000 },
    { "rprop", { stepsize = 0.01 }, 1000 } } do
    local name = case[1]
    local _, losses = run(name, case[2], case[3])
    checks.close(losses[1], 1, nil, name)
    expect.equal(losses[#losses] < 0.02, true, ("%s: %g"):format(name, losses[#losses]))
  end
end)

test("lbfgs and cg find the minimum in a few calls", function()
  for name, config in pairs { lbfgs = { maxIter = 100, learningRate = 0.1, maxEval = 400 },
    cg = { maxIter = 60, maxEval = 400 } } do
    if name == "lbfgs" then config.lineSearch = optim.lswolfe end
    local x, losses = optim[name](rosenbrock, torch.zeros(2), config)
    checks.close(x[1], 1, 1e-3, name)
    checks.close(x[2], 1, 1e-3, name)
    for i = 2, #losses do expect.equal(losses[i] <= losses[i - 1], true, name) end
  end
end)

test("lbfgs with steps of one length goes on from its state", function()
  local x, config = torch.zeros(2), { maxIter = 1, learningRate = 0.5 }
  local function bowl(v) return v:dot(v) - 2 * v:sum(), v * 2 - 2 end
  for _ = 1, 30 do optim.lbfgs(bowl, x, config) end
  checks.close(x[1], 1, 1e-4)
  expect.equal(#config.old_stps > 0, true)
  expect.equal(config.nIter > 5, true)
end)

test("one step is that of the formula", function()
  local function f(_) return 1, torch.Tensor { 0.5, -2 } end
  local function after(name, config, x) return optim[name](f, x or torch.Tensor { 1, 1 },
    config) end
  checks.close(after("sgd", { learningRate = 0.1, weightDecay = 0.01 })[1], 1 - 0.1 * (0.5 + 0.01))
  local state = { learningRate = 0.1, learningRateDecay = 1 }
  local x = torch.Tensor { 1, 1 }
  after("sgd", state, x)
  after("sgd", state, x)
  checks.close(x[1], 1 - 0.1 * 0.5 - 0.05 * 0.5)
  expect.equal(state.evalCounter, 2)
  checks.close(after("sgd", { learningRate = 0.1, learningRates = torch.Tensor { 2, 0 } })[1], 0.9)
  checks.close(after("adam", { learningRate = 0.1 })[2], 1 + 0.1, 1e-6)
  checks.close(after("adamax", { learningRate = 0.1 })[2], 1 + 0.1, 1e-6)
  checks.close(after("adagrad", { learningRate = 0.1 })[1], 0.9, 1e-6)
  checks.close(after("rmsprop", { learningRate = 0.1, alpha = 0.75 })[1], 1 - 0.1 / 0.5, 1e-6)
  checks.close(after("adadelta", { rho = 0.9, eps = 1e-6 })[1],
    1 - math.sqrt(1e-6) / math.sqrt(0.1 * 0.25 + 1e-6) * 0.5, 1e-9)
  checks.close(after("rprop", { stepsize = 0.1 })[2], 1.1)
  checks.close(after("nag", { learningRate = 0.1 })[1], 0.95)
end)

test("state can be kept apart from the options", function()
  local config, state = { learningRate = 0.1, momentum = 0.9 }, {}
  optim.sgd(rosenbrock, torch.zeros(2), config, state)
  expect.equal(config.evalCounter, nil)
  expect.equal(state.evalCounter, 1)
  expect.equal(state.dfdx[1], -2)
end)

test("options that do not fit are refused", function()
  expect.error(function() optim.sgd(rosenbrock, torch.zeros(2), { nesterov = true }) end,
      "nesterov")
  expect.error(function() optim.nag(rosenbrock, torch.zeros(2), { momentum = 0 }) end, "momentum")
end)

test("checkgrad", function()
  local distance, g, by_differences = optim.checkgrad(rosenbrock, torch.Tensor { 0.3, -0.7 })
  expect.equal(distance < 1e-7, true)
  checks.close(g[1], by_differences[1], 1e-5)
  local wrong = optim.checkgrad(function(x) return x:sum(), torch.Tensor { 1, 2 } end,
      torch.zeros(2))
  expect.equal(wrong > 0.1, true)
end)

test("ConfusionMatrix", function()
  local matrix = optim.ConfusionMatrix { "cat", "dog", "emu" }
  matrix:add(torch.Tensor { 0.1, 0.7, 0.2 }, 2)
  matrix:add(1, 2)
  matrix:batchAdd(torch.Tensor { { 3, 1, 2 }, { 0, 0, 1 } }, torch.LongTensor { 1, 3 })
  matrix:batchAdd(torch.LongTensor { 1 }, torch.LongTensor { 3 })
  expect.equal(matrix.mat[1]:totable(), { 1, 0, 0 })
  expect.equal(matrix.mat[2]:totable(), { 1, 1, 0 })
  expect.equal(matrix.mat[3]:totable(), { 1, 0, 1 })
  matrix:updateValids()
  checks.close(matrix.totalValid, 0.6)
  checks.close(matrix.averageValid, (1 + 0.5 + 0.5) / 3)
  checks.close(matrix.averageUnionValid, (1 / 3 + 1 / 2 + 1 / 2) / 3)
  local text = tostring(matrix)
  expect.equal(text:find("global correct: 60%%") ~= nil, true)
  expect.equal(text:find "dog" ~= nil, true)
  matrix:zero()
  expect.equal(matrix.mat:sum(), 0)
  expect.error(function() matrix:batchAdd(torch.LongTensor { 1 }, torch.LongTensor { 1, 2 }) end,
      "2 and 1")
end)

test("Logger writes names and lines", function()
  local path = os.tmpname()
  local logger = optim.Logger(path)
  logger:setNames { "loss", "accuracy" }
  logger:style { "-", "-" }
  logger:add { 0.5, 10 }
  logger:add { loss = 0.25, accuracy = "none" }
  logger:close()
  local lines = {}
  for line in io.lines(path) do lines[#lines + 1] = line end
  os.remove(path)
  expect.equal(lines, { "loss\taccuracy", "5.0000e-01\t1.0000e+01", "2.5000e-01\tnone" })
  expect.equal(logger.symbols.loss, { 0.5, 0.25 })
  expect.error(function() optim.Logger "/nowhere/at/all.log" end, "cannot write")
  expect.error(function() optim.Logger():setNames({ "a", "b" }):add { 1 } end, "a value of b")
end)

harness.run()
