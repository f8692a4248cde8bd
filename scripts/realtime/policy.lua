-- scripts/realtime/policy.lua: trains a policy that balances a pole on a cart from the state, by
-- imitation of a linear controller with a limited force, and exports it for main.cpp.
--   moonlet policy.lua policy.mlp
-- Expect, in two seconds: an error of about 0.001, and a pole that stands for 10 seconds.

local ml = require "moonlet"
local nn, optim, F = ml.nn, ml.optim, ml.nn.functional

local path = arg[1] or "policy.mlp"
local steps = tonumber(arg[2]) or 600
ml.manual_seed(1)

-- Position, velocity, angle and angular velocity to a force from -1 to 1.
local GAINS = ml.tensor { 0.3, 0.6, 9.0, 2.0 }
local function controller(state) return (state * GAINS):sum(2, true):tanh() end

local SCALE = ml.tensor { 1.0, 1.0, 0.2, 1.0 }
local function draw(n) return ml.randn(n, 4) * SCALE end

local policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(),
  nn.Linear(64, 1), nn.Tanh())
local optimizer = optim.Adam(policy:parameters(), { lr = 3e-3 })
local loss
for _ = 1, steps do
  local state = draw(256)
  optimizer:zero_grad()
  loss = F.mse_loss(policy(state), controller(state))
  loss:backward()
  optimizer:step()
end
print(("Error %.4f"):format(loss:item()))

-- A pole of 1 m and 0.1 kg on a cart of 1 kg, 10 N at most.
local function simulate(seconds)
  local dt, x, v, angle, turn = 0.01, 0, 0, 0.1, 0
  for step = 1, math.floor(seconds / dt) do
    local state = ml.tensor { { x, v, angle, turn } }
    local force = 10 * ml.no_grad(policy, state):item()
    local sin, cos = math.sin(angle), math.cos(angle)
    local part = (force + 0.05 * turn * turn * sin) / 1.1
    local turning = (9.8 * sin - cos * part) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1))
    local moving = part - 0.05 * turning * cos / 1.1
    x, v, angle, turn = x + dt * v, v + dt * moving, angle + dt * turn, turn + dt * turning
    if math.abs(angle) > 0.5 then return step * dt end
  end
  return seconds
end
print(("The pole stands for %.1f seconds"):format(simulate(10)))

local program = ml.export(policy:eval(), { ml.zeros(1, 4) },
  { names = { inputs = { "state" }, outputs = { "force" } } })
program:save(path)
print(program:describe())
