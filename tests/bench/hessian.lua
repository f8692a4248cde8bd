-- tests/bench/hessian.lua: the Hessian of a network by its input, `jacfwd(jacrev(f))` beside a loop
-- of backward passes. Prints the least times of both and their ratio.
-- usage: moonlet tests/bench/hessian.lua [INPUTS WIDTH]

local ml = require "moonlet"
local nn, func = ml.nn, ml.func

local inputs, width = tonumber(arg[1] or 400), tonumber(arg[2] or 16)
ml.set_num_threads(1)
ml.manual_seed(1)

local net = nn.Sequential(nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
  nn.Linear(width, 1)):requires_grad_(false)
local function f(x) return net(x):sum() end
local x = ml.randn(inputs)

local function by_loop()
  local at = x:clone():requires_grad_()
  local gradient = ml.autograd.grad(f(at), at, { create_graph = true })
  local rows = {}
  for i = 1, inputs do
    rows[i] = ml.autograd.grad(gradient[i], at, { retain_graph = true })
  end
  return ml.stack(rows)
end

local hessian = func.jacfwd(func.jacrev(f))
local function by_transforms() return hessian(x) end

local function least(call, rounds, so_far)
  for _ = 1, rounds do
    local start = os.clock()
    call()
    so_far = math.min(so_far, os.clock() - start)
  end
  return so_far
end

local difference = (by_loop() - by_transforms()):abs():max():item()
assert(difference < 1e-4, difference)
local loop, transforms = math.huge, math.huge
for _ = 1, 10 do
  transforms = least(by_transforms, 60, transforms)
  loop = least(by_loop, 15, loop)
end
print(("%d inputs, %d wide: loop %.3f ms, jacfwd(jacrev) %.3f ms, ratio %.1f"):format(inputs, width,
  loop * 1e3, transforms * 1e3, loop / transforms))
