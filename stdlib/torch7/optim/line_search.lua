-- stdlib/torch7/optim/line_search.lua: methods for losses that do not change from call to call:
-- lbfgs
-- and cg, and a search along a line that they can use.

local line_search = {}

-- --- a search along a line -----------------------------------------------------------------------

-- Where the cubic through two values and gradients is least, kept inside [low, high].
local function least_of_cubic(p, q, low, high)
  if p.t > q.t then p, q = q, p end
  local d1 = p.grad + q.grad - 3 * (p.f - q.f) / (p.t - q.t)
  local square = d1 * d1 - p.grad * q.grad
  if square < 0 or square ~= square then return (low + high) / 2 end
  local d2 = math.sqrt(square)
  local at = q.t - (q.t - p.t) * (q.grad + d2 - d1) / (q.grad - p.grad + 2 * d2)
  if at ~= at then return (low + high) / 2 end
  return math.min(math.max(at, low), high)
end

--- A step that satisfies the strong Wolfe conditions: f(x + t * d) is enough less than f(x) and the
--- grad enough flatter.
---@return number loss, tensor gradient, tensor x, number t, integer evaluations
function line_search.lswolfe(opfunc, x, t, d, f, g, grad, options)
  options = options or {}
  local c1, c2 = options.c1 or 1e-4, options.c2 or 0.9
  local most, tolerance = options.maxIter or 20, options.tolX or 1e-9
  local evaluations = 0
  local function at(step)
    evaluations = evaluations + 1
    local point = x:clone():add(step, d)
    local loss, gradient = opfunc(point)
    gradient = gradient:clone()
    return { t = step, f = loss, g = gradient, x = point, grad = gradient:dot(d) }
  end
  local start = { t = 0, f = f, g = g:clone(), x = x:clone(), grad = grad }
  local low, high, before, now = nil, nil, start, at(t)
  local done
  -- Longer steps until a pair of them has a good one between them.
  for _ = 1, most do
    if now.f > f + c1 * now.t * grad or (before ~= start and now.f >= before.f) then
      low, high = before, now
      break
    elseif math.abs(now.grad) <= -c2 * grad then
      done = now
      break
    elseif now.grad >= 0 then
      low, high = now, before
      break
    end
    local longer = least_of_cubic(before, now, now.t + 0.01 * (now.t - before.t), now.t * 10)
    before, now = now, at(longer)
  end
  -- The pair is narrowed; `low` has the lesser loss.
  for _ = 1, low and not done and most or 0 do
    local first, last = math.min(low.t, high.t), math.max(low.t, high.t)
    if last - first < tolerance then break end
    local margin = 0.1 * (last - first)
    local middle = at(least_of_cubic(low, high, first + margin, last - margin))
    if middle.f > f + c1 * middle.t * grad or middle.f >= low.f then
      high = middle
    else
      if math.abs(middle.grad) <= -c2 * grad then
        done = middle
        break
      end
      if middle.grad * (high.t - low.t) >= 0 then high = low end
      low = middle
    end
  end
  local best = done or low or now
  return best.f, best.g, best.x, best.t, evaluations
end

-- --- lbfgs ---------------------------------------------------------------------------------------

-- The direction by the steps and changes of gradient that are kept, newest last.
local function direction(g, steps, changes, scale)
  local d = g:clone():mul(-1)
  local factors, products = {}, {}
  for i = #steps, 1, -1 do
    products[i] = 1 / changes[i]:dot(steps[i])
    factors[i] = steps[i]:dot(d) * products[i]
    d:add(-factors[i], changes[i])
  end
  d:mul(scale)
  for i = 1, #steps do
    d:add(factors[i] - changes[i]:dot(d) * products[i], steps[i])
  end
  return d
end

-- Keeps a pair where it shows a positive curvature.
local function keep(state, step, change, count)
  local product = change:dot(step)
  if product <= 1e-10 then return end
  if #state.old_stps == count then
    table.remove(state.old_stps, 1)
    table.remove(state.old_dirs, 1)
  end
  table.insert(state.old_stps, step)
  table.insert(state.old_dirs, change)
  state.Hdiag = product / change:dot(change)
end

--- Limited-memory BFGS. Without config.lineSearch each step has the length config.learningRate.
function line_search.lbfgs(opfunc, x, config, state)
  config = config or {}
  state = state or config
  local most = config.maxIter or 20
  local most_evaluations = config.maxEval or most * 1.25
  local tolerance_f, tolerance_x = config.tolFun or 1e-5, config.tolX or 1e-9
  local rate, search = config.learningRate or 1, config.lineSearch
  state.old_dirs, state.old_stps = state.old_dirs or {}, state.old_stps or {}
  state.Hdiag = state.Hdiag or 1
  local f, g = opfunc(x)
  g = g:clone()
  local losses, evaluations = { f }, 1
  state.funcEval = (state.funcEval or 0) + 1
  if g:clone():abs():sum() <= tolerance_f then return x, losses end
  for i = 1, most do
    state.nIter = (state.nIter or 0) + 1
    local d = direction(g, state.old_stps, state.old_dirs, state.Hdiag)
    local grad = g:dot(d)
    if grad > -tolerance_x then break end
    local t = state.nIter == 1 and math.min(1, 1 / g:clone():abs():sum()) * rate or rate
    local f_before, g_before, count = f, g, 1
    if search then
      local to
      f, g, to, t, count = search(opfunc, x, t, d, f, g, grad, config.lineSearchOptions)
      x:copy(to)
    else
      x:add(t, d)
      f, g = opfunc(x)
      g = g:clone()
    end
    losses[#losses + 1] = f
    evaluations = evaluations + count
    state.funcEval = state.funcEval + count
    keep(state, d:clone():mul(t), g:clone():add(-1, g_before), config.nCorrection or 100)
    local moved = d:clone():mul(t):abs():sum()
    if i == most or evaluations >= most_evaluations or g:clone():abs():sum() <= tolerance_f
      or moved <= tolerance_x or math.abs(f - f_before) < tolerance_x then
      break
    end
  end
  return x, losses, evaluations
end

-- --- conjugate gradients -------------------------------------------------------------------------

--- Conjugate gradients (Polak and Ribiere) with a search along each direction.
function line_search.cg(opfunc, x, config)
  config = config or {}
  local most = config.maxIter or 20
  local most_evaluations = config.maxEval or most * 1.25
  local f, g = opfunc(x)
  g = g:clone()
  local losses, evaluations = { f }, 1
  local d = g:clone():mul(-1)
  local grad = -g:dot(g)
  local t = (config.red or 1) / (1 - grad)
  for _ = 1, most do
    if grad > -1e-20 or evaluations >= most_evaluations then break end
    local f_new, g_new, to, length, count = line_search.lswolfe(opfunc, x, t, d, f, g, grad,
      { c1 = config.rho or 0.01, c2 = config.sig or 0.5, maxIter = config.max or 20 })
    evaluations = evaluations + count
    if f_new >= f then break end
    x:copy(to)
    losses[#losses + 1] = f_new
    local beta = math.max(0, (g_new:dot(g_new) - g_new:dot(g)) / g:dot(g))
    d:mul(beta):add(-1, g_new)
    local grad_before = grad
    grad = g_new:dot(d)
    if grad > 0 then
      d:copy(g_new):mul(-1)
      grad = -g_new:dot(g_new)
    end
    t = math.min(100, grad_before / (grad - 2.2e-308)) * length
    f, g = f_new, g_new
  end
  return x, losses, evaluations
end

return line_search
