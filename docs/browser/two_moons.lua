-- docs/browser/two_moons.lua: two half moons, told apart by a small network. Run it, then change
-- something.
local ml = require "moonlet"
local nn = ml.nn

ml.manual_seed(1)

-- `n` points of each moon, with some noise.
local function moons(n)
  local t = math.pi * ml.rand(n)
  local upper = ml.stack({ t:cos(), t:sin() }, 2)
  local lower = ml.stack({ 1 - t:cos(), 0.5 - t:sin() }, 2)
  local x = ml.cat({ upper, lower }, 1)
  return x + 0.12 * ml.randn(2 * n, 2), ml.cat({ ml.zeros(n), ml.ones(n) }, 1)
end

local n = 200
local x, y = moons(n)
local net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(),
  nn.Linear(32, 1))
local optimizer = ml.optim.Adam(net:parameters(), { lr = 0.01 })
local losses = {}

for step = 1, 300 do
  optimizer:zero_grad()
  local logits = net(x):squeeze(2)
  local loss = ml.binary_cross_entropy_with_logits(logits, y)
  loss:backward()
  optimizer:step()
  losses[step] = loss:item()
  if step % 25 == 0 then
    local right = logits:gt(0):eq(y:gt(0)):to(ml.float32):mean():item()
    print(("step %3d   loss %.4f   accuracy %.3f"):format(step, losses[step], right))
    -- A figure that is saved is shown on the page.
    ml.plot.line(losses, { title = "Loss", x_label = "step", y_min = 0 }):save "loss.svg"
  end
end

-- What the network says of the whole plane, with the first row at the top.
local columns, rows = 60, 40
local across = ml.linspace(-1.5, 2.5, columns):expand(rows, columns)
local down = ml.linspace(1.5, -1, rows):unsqueeze(2):expand(rows, columns)
local plane = ml.stack({ across, down }, 3):reshape(rows * columns, 2)
local second = ml.no_grad(function() return net(plane):sigmoid():reshape(rows, columns) end)
ml.plot.heatmap(second, { title = "Probability of the second moon", min = 0, max = 1 })
  :save "decision.svg"
ml.plot.scatter({
  { x = x[{ { 1, n }, 1 }], y = x[{ { 1, n }, 2 }], label = "first" },
  { x = x[{ { n + 1, 2 * n }, 1 }], y = x[{ { n + 1, 2 * n }, 2 }], label = "second" },
}, { title = "The two moons" }):save "moons.svg"
