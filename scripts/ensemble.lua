-- scripts/ensemble.lua: an ensemble of networks, trained at once as one stack of weights, on a toy
-- regression: where it does not know, its members differ; and how each point pulls at the weights.
-- Expect, with seed 1, in a second: an error of 0.098 where there are points, deviations of 0.078
-- there, 0.259 in the gap and 0.324 outside; and the wrong point found, the last.

local ml = require "moonlet"
local nn, optim, func = ml.nn, ml.optim, ml.func

local NOISE, GAP, POINTS, OUTLIER = 0.1, 1.0, 80, 2.0

local options = ml.args.parser {
  name = "ensemble.lua",
  summary = "Trains an ensemble of small networks as one, and asks it how sure it is.",
  { "networks", "integer", default = 16, min = 2, max = 1000, help = "how many there are" },
  { "epochs", "integer", default = 600, min = 1, help = "steps with all points" },
  { "seed", "integer", default = 1, help = "start of the random numbers" },
  { "figure", "string", meta = "<file>", help = "draw mean and band: a .svg or .png" },
}:parse(arg)

local function truth(x) return (3 * x):sin() end

-- Points from -2 to 2 without the middle; the last one is wrong by far.
local function measure()
  local x = ml.rand(POINTS, 1) * (2 - GAP) + GAP
  x[{ { 1, POINTS // 2 } }]:neg_()
  local y = truth(x) + NOISE * ml.randn(POINTS, 1)
  y[-1]:add_(OUTLIER)
  return x, y
end

local function network()
  return nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(),
    nn.Linear(32, 1))
end

local networks = {}
ml.manual_seed(options.seed)
for i = 1, options.networks do networks[i] = network() end
local skeleton = networks[1]  -- gives the layers; the weights come as arguments

local function call(weights, x) return func.functional_call(skeleton, weights, x) end

local function loss_of(weights, x, y) return ml.mse_loss(call(weights, x), y) end

-- Each network learns from a draw of its own, with repetition, of the points (the bootstrap).
local function train(weights, x, y)
  local draws = ml.randint(1, POINTS, { options.networks, POINTS })
  local xs, ys = x[draws], y[draws]
  local losses = func.vmap(loss_of)
  local list = {}
  for name in skeleton:named_parameters() do list[#list + 1] = weights[name] end
  local adam = optim.Adam(list, { lr = 0.01 })
  local bar <close> = ml.progress.new { total = options.epochs, unit = "epoch" }
  for _ = 1, options.epochs do
    local loss = losses(weights, xs, ys)
    adam:zero_grad()
    loss:sum():backward()  -- no network's loss depends on another's weights
    adam:step()
    bar:update(1, { loss = loss:mean() })
  end
end

-- Mean and standard deviation of what the networks say.
local function ask(weights, x)
  local _ <close> = ml.no_grad()
  local answers = func.vmap(call, { in_dims = { 1, false } })(weights, x):squeeze(3)
  return answers:mean(1), answers:std(1)
end

-- The norm of the gradient that each point by itself gives to the first network's weights.
local function gradient_norms(weights, x, y)
  local first = {}
  for name, stack in pairs(weights) do first[name] = stack[1]:detach() end
  local gradients = func.vmap(func.grad(loss_of), { in_dims = { false, 1, 1 } })(first, x, y)
  local squares = ml.zeros(#x)
  for _, gradient in pairs(gradients) do squares:add_(gradient:flatten(2):square():sum(2)) end
  return squares:sqrt()
end

local x, y = measure()
local weights = func.stack_module_state(networks)
train(weights, x, y)

local at = ml.linspace(-3, 3, 241):unsqueeze(2)
local mean, deviation = ask(weights, at)
local line = at:squeeze(2)
local figure = ml.plot.scatter({ { x = line, y = mean, label = "mean" },
  { x = line, y = mean - 2 * deviation, label = "two deviations below" },
  { x = line, y = mean + 2 * deviation, label = "above" },
  { x = x:squeeze(2), y = y:squeeze(2), label = "measured" } },
  { title = ("%d networks"):format(options.networks), x_label = "x", y_label = "y" })
figure:show()
if options.figure then figure:save(options.figure) end

local near = line:abs():ge(GAP):logical_and(line:abs():le(2))
local error_near = (mean - truth(line))[near]:square():mean():sqrt():item()
print(("\nError of the mean where there are points: %.3f"):format(error_near))
print(("Mean deviation: %.3f where there are points, %.3f in the gap, %.3f outside"):format(
  deviation[near]:mean():item(), deviation[line:abs():lt(GAP)]:mean():item(),
  deviation[line:abs():gt(2)]:mean():item()))
local norms = gradient_norms(weights, x, y)
local largest, position = norms:max(1)
print(("Gradients of single points: median norm %.3f; largest %.3f, of point %d of %d, "
  .. "the wrong one being the last"):format(norms:median():item(), largest:item(), position:item(),
  POINTS))
