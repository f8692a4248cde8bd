-- scripts/pinn.lua: solves differential equations with a network that is trained to satisfy them:
-- the damped oscillator from its start alone, or with friction and stiffness found from noisy
-- measurements as well (`--find`).
-- Expect, with seed 1: a largest error of 0.002; with `--find` friction 0.606 and stiffness 16.09
-- where 0.6 and 16 are true. Both take 5 seconds.

local ml = require "moonlet"
local nn, optim, F = ml.nn, ml.optim, ml.nn.functional

local FRICTION, STIFFNESS, DURATION = 0.6, 16.0, 4.0  -- of a mass of 1, in seconds
local MEASURED, NOISE = 40, 0.05

local options = ml.args.parser {
  name = "pinn.lua",
  summary = "Solves the damped oscillator u'' + friction u' + stiffness u = 0 with a network.",
  { "find", "flag", help = "find friction and stiffness too, from noisy measurements of u" },
  { "steps", "integer", default = 8000, min = 1, help = "steps of Adam" },
  { "points", "integer", default = 128, min = 2, help = "times at which the equation is to hold" },
  { "seed", "integer", default = 1, help = "start of the random numbers" },
  { "figure", "string", meta = "<file>", help = "draw the solution: a .svg or .png" },
}:parse(arg)

-- The solution of u(0) = 1, u'(0) = 0, known here, to be compared with.
local function exact(t)
  local decay = FRICTION / 2
  local omega = math.sqrt(STIFFNESS - decay ^ 2)
  return (-decay * t):exp() * ((omega * t):cos() + decay / omega * (omega * t):sin())
end

-- u as a function of the time; what the network adds to the start is 0 there, with its derivative,
-- so that every network starts as it should.
local Solution = nn.class("Solution", nn.Module)

function Solution:init()
  self.layers = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(),
    nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
  -- Logarithms, since both are positive; the true ones are -0.5 and 2.8.
  self.log_friction = nn.Parameter(ml.tensor(options.find and 1.0 or math.log(FRICTION)))
  self.log_stiffness = nn.Parameter(ml.tensor(options.find and 2.0 or math.log(STIFFNESS)))
  self.log_friction:requires_grad_(options.find)
  self.log_stiffness:requires_grad_(options.find)
end

function Solution:forward(t)
  return 1 + t:tanh() ^ 2 * self.layers(2 * t / DURATION - 1)
end

-- How far the network is from the equation at the times t. Both derivatives are recorded, since
-- the weights are to have a gradient of them.
function Solution:residual(t)
  t = t:detach():requires_grad_()
  local u = self(t)
  local speed = ml.grad(u:sum(), t, { create_graph = true })
  local acceleration = ml.grad(speed:sum(), t, { create_graph = true })
  return acceleration + self.log_friction:exp() * speed + self.log_stiffness:exp() * u
end

-- Mean square of the residual at random times, one in each part of the duration, in units of the
-- stiffness; and of what was measured.
local function loss_of(net, times, values)
  local n = options.points
  local t = (ml.arange(0, n - 1) + ml.rand(n)):unsqueeze(2) * (DURATION / n)
  local loss = (net:residual(t) / STIFFNESS):square():mean()
  return options.find and loss + F.mse_loss(net(times), values) or loss
end

local function train(net, times, values)
  local parameters = {}
  for _, p in ipairs(net:parameters()) do
    if p.requires_grad then parameters[#parameters + 1] = p end
  end
  local adam = optim.Adam(parameters, { lr = 0.005 })
  local schedule = optim.lr_scheduler.CosineAnnealingLR(adam, options.steps)
  local bar <close> = ml.progress.new { total = options.steps, unit = "step" }
  for _ = 1, options.steps do
    local loss = loss_of(net, times, values)
    adam:zero_grad()
    loss:backward()
    adam:step()
    schedule:step()
    bar:update(1, { loss = loss })
  end
end

ml.manual_seed(options.seed)
local times = ml.rand(MEASURED, 1) * DURATION
local values = exact(times) + NOISE * ml.randn(MEASURED, 1)
local net = Solution()
train(net, times, values)

local t = ml.linspace(0, DURATION, 201):unsqueeze(2)
local found = ml.no_grad(function() return net(t) end)
local series = { { x = t:flatten(), y = exact(t):flatten(), label = "exact" },
  { x = t:flatten(), y = found:flatten(), label = "network" } }
local figure = ml.plot.line(series,
  { title = "Damped oscillator", x_label = "time", y_label = "position" })
figure:show()
if options.figure then figure:save(options.figure) end
print(("\nLargest error of the solution: %.4f"):format((found - exact(t)):abs():max():item()))
if options.find then
  print(("Friction: %.3f (in truth %.3f)\nStiffness: %.3f (in truth %.3f)"):format(
    net.log_friction:exp():item(), FRICTION, net.log_stiffness:exp():item(), STIFFNESS))
end
