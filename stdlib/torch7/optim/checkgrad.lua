-- stdlib/torch7/optim/checkgrad.lua: the gradient of a function beside that by finite differences.

local torch = require "moonlet.torch7"

local checkgrad = {}

--- How far the gradient that opfunc gives is from that by differences, relative to both; and the
--- two.
function checkgrad.checkgrad(opfunc, x, step)
  step = step or 1e-6
  local _, g = opfunc(x)
  g = g:clone()
  local by_differences = g.new():resizeAs(g):zero()
  for i = 1, g:size(1) do
    local value = x[i]
    x[i] = value + step
    local above = opfunc(x)
    x[i] = value - step
    local below = opfunc(x)
    x[i] = value
    by_differences[i] = (above - below) / (2 * step)
  end
  local distance = torch.norm(g - by_differences) / torch.norm(g + by_differences)
  return distance, g, by_differences
end

return checkgrad
