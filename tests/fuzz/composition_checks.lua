-- tests/fuzz/composition_checks.lua: the second derivatives of one function at one point, by each of the
-- four compositions of forward and reverse mode, beside one another, beside differences of the first
-- gradient, and beside themselves inside vmap.

local ml = require "moonlet"

local checks = {}

local STEP = 8e-6
local NEAR = 1e-5             -- how near compositions are to one another, by the largest element
local NEAR_DIFFERENCE = 2e-5  -- and to differences
local CLOSE = 1e-5            -- how near differences by STEP and by half of it are
local BEND = 1e-3             -- how near differences to either side are where there is no kink

-- Lists of tensors --------------------------------------------------------------------------------

local function map(f, a, b)
  local out = {}
  for i, x in ipairs(a) do out[i] = f(x, b and b[i]) end
  return out
end

local function inner(a, b)
  local sum
  for i, x in ipairs(a) do
    local part = (x * b[i]):sum()
    sum = sum and sum + part or part
  end
  return sum
end

local function step(x, along, size)
  return map(function(p, d) return p + d * size end, x, along)
end

-- All elements in one flat list.
local function numbers(list)
  local out = {}
  for _, x in ipairs(list) do
    for _, v in ipairs(x:detach():reshape(-1):tolist()) do out[#out + 1] = v end
  end
  return out
end

local function product(a, b)
  local sum = 0
  for i = 1, #a do sum = sum + a[i] * b[i] end
  return sum
end

-- Derivatives -------------------------------------------------------------------------------------

local function gradient(f, x) return ml.func.grad(f)(x) end

local function derivative(f, x, along)
  return (select(2, ml.func.jvp(f, { x }, { along })))
end

-- The second derivative of `f`, a function of a list of tensors, along `u`, by the inputs; forward
-- over forward gives its product with `v`.
local COMPOSITIONS = {
  { "reverse over reverse", function(f, x, u)
    return gradient(function(at) return inner(gradient(f, at), u) end, x)
  end },
  { "forward over reverse", function(f, x, u)
    return derivative(function(at) return gradient(f, at) end, x, u)
  end },
  { "reverse over forward", function(f, x, u)
    return gradient(function(at) return derivative(f, at, u) end, x)
  end },
  { "forward over forward", function(f, x, u, v)
    return { derivative(function(at) return derivative(f, at, u) end, x, v) }
  end },
}

-- Comparing ---------------------------------------------------------------------------------------

local function is_finite(a) return a - a == 0 end

-- Where two lists of numbers differ: the position of the first, or nil. Positions at which `at` is
-- false are left out. Infinities and NaN are one: what cancels and what is 0 times infinity depends on
-- the order of the sums.
local function difference(got, want, near, at)
  local scale = 1
  for i = 1, #want do
    if (not at or at[i]) and is_finite(want[i]) then scale = math.max(scale, math.abs(want[i])) end
  end
  for i = 1, #want do
    local a, b = got[i], want[i]
    local same = not is_finite(a) and not is_finite(b) or math.abs(a - b) <= near * scale
    if (not at or at[i]) and not same then return i end
  end
end

-- Differences to both sides of a function of a number that gives numbers, and at which of these it
-- is smooth: there the derivative is that of no kink, jump or pole. A value at the point that is not
-- finite does not count as one, as it may be what is wrong. `strict` looks for small kinks: there the
-- slopes to both sides stay as far apart when the step is halved.
local function differences(f, strict)
  local here, up, down = f(0), f(STEP), f(-STEP)
  local half_up, half_down = f(STEP / 2), f(-STEP / 2)
  local quarter_up, quarter_down = strict and f(STEP / 4), strict and f(-STEP / 4)
  local found, smooth, any = {}, {}, false
  for i = 1, #here do
    local wide, close = (up[i] - down[i]) / (2 * STEP), (half_up[i] - half_down[i]) / STEP
    local bend = (up[i] - half_up[i]) - (half_down[i] - down[i])
    local size = math.max(1, math.abs(close))
    local middle = (half_up[i] + half_down[i]) / 2
    found[i] = (4 * close - wide) / 3
    smooth[i] = is_finite(found[i]) and math.abs(wide - close) <= CLOSE * size
      and math.abs(bend) <= BEND * STEP * size
    local off = is_finite(here[i]) and math.abs(here[i] - middle) or 0
    smooth[i] = smooth[i] and off <= BEND * STEP * size
    if smooth[i] and strict then
      local close_bend = (half_up[i] - quarter_up[i]) - (half_down[i] - quarter_down[i])
      smooth[i] = math.abs(close_bend) <= 0.35 * math.abs(bend) + 1e-8 * STEP * size
        and off <= BEND * STEP * size / 10
    end
    any = any or smooth[i]
  end
  return found, smooth, any
end

local function all_of(flags)
  for _, flag in ipairs(flags) do
    if not flag then return false end
  end
  return true
end

-- The positions of `flags` at which a function `along(direction, strict)` of a point, that gives what
-- `differences` gives, is differentiable: its derivative is linear in the direction.
local function where_linear(along, u, flags)
  local out = table.move(flags, 1, #flags, 1, {})
  local slopes, smooth = along(u, true)
  for _ = 1, 3 do
    local w = map(function(d) return ml.randn(d.shape, { dtype = d.dtype }) end, u)
    local first, first_smooth = along(w, true)
    local rest, rest_smooth = along(step(u, w, -1), true)
    for i in ipairs(out) do
      local sum = first[i] + rest[i]
      local size = math.max(1, math.abs(first[i]), math.abs(rest[i]))
      out[i] = out[i] and smooth[i] and first_smooth[i] and rest_smooth[i]
        and math.abs(sum - slopes[i]) <= CLOSE * size
    end
  end
  return out
end

-- Checks of one point -----------------------------------------------------------------------------

-- What tells `report` of comparisons, and of errors.
local function reporter(report)
  local tell = {}
  function tell.attempt(what, g, ...)
    local ok, found = pcall(g, ...)
    if not ok then report.raised(what, tostring(found)) end
    return ok and found or nil
  end
  function tell.compare(what, got, want, near)
    local i = difference(got, want, near)
    report.compare(what, i, i and got[i], i and want[i])
  end
  -- With differences, where the function is smooth; `of` takes what is compared out of them.
  function tell.compare_slopes(what, got, by, of)
    local slopes, smooth = by.slopes, by.smooth
    local function differs()
      if not of then return difference(got, slopes, NEAR_DIFFERENCE, smooth) end
      return all_of(smooth) and difference(got, of(slopes), NEAR_DIFFERENCE)
    end
    if not by.any or of and not all_of(smooth) then return end
    if differs() then
      -- Smooth along one direction it may still have a kink, as |x| times y has along x = y.
      by.linear = by.linear or where_linear(by.along, by.direction, smooth)
      smooth = by.linear
    end
    local i = differs()
    report.compare(what, i or nil, i and got[i], i and (of and of(slopes) or slopes)[i])
  end
  return tell
end

-- The differences of f, or of what `g` makes of a point, at x along u; nil where f is not defined to
-- both sides.
local function slopes_of(g, x, u)
  local function along(w, strict) return differences(function(size) return numbers(g(step(x, w, size))) end, strict) end
  local ok, slopes, smooth, any = pcall(along, u)
  return ok and { slopes = slopes, smooth = smooth, any = any, along = along, direction = u } or nil
end

--- Compares all of `f`, a function of a list of tensors, at `x` along `u` and `v`. `report.compare(what,
--- position, got, want)` hears each comparison, with a position where it failed, and
--- `report.raised(what, message)` what raised an error.
function checks.compare(f, x, u, v, report)
  local tell = reporter(report)
  local value = f(x):item()
  if value ~= value then return end  -- what is no number has no derivative
  local first = tell.attempt("gradient", gradient, f, x)
  if not first then return end
  local slope = { product(numbers(first), numbers(u)) }
  local along = tell.attempt("derivative", derivative, f, x, u)
  if along then tell.compare("derivative and gradient", numbers { along }, slope, NEAR) end
  local by_value = is_finite(value) and slopes_of(function(at) return { f(at) } end, x, u)
  local by_gradient = by_value and slopes_of(function(at) return gradient(f, at) end, x, u)
  if by_value then tell.compare_slopes("gradient and differences", slope, by_value) end
  local wanted
  for _, composition in ipairs(COMPOSITIONS) do
    local name, compose = composition[1], composition[2]
    local found = tell.attempt(name, compose, f, x, u, v)
    if found then
      found = numbers(found)
      local function times_v(list) return { product(list, numbers(v)) } end
      local of = name == "forward over forward" and times_v or nil
      if wanted then tell.compare(name .. " and reverse over reverse", found, of and of(wanted) or wanted, NEAR) end
      if by_gradient then tell.compare_slopes(name .. " and differences", found, by_gradient, of) end
      wanted = wanted or not of and found or nil
    end
  end
end

--- Compares the four compositions inside vmap, over the points of `xs`, with those of each point.
function checks.compare_batched(f, xs, us, vs, report)
  local function batch(lists)
    local out = {}
    for i in ipairs(lists[1]) do
      local rows = {}
      for b, list in ipairs(lists) do rows[b] = list[i] end
      out[i] = ml.stack(rows, 1)
    end
    return out
  end
  local X, U, V = batch(xs), batch(us), batch(vs)
  for _, composition in ipairs(COMPOSITIONS) do
    local name, compose = composition[1] .. " in vmap", composition[2]
    local each = {}
    for b = 1, #xs do
      local ok, found = pcall(compose, f, xs[b], us[b], vs[b])
      each[b] = ok and found
    end
    if all_of(each) then
      local ok, got = pcall(ml.func.vmap(function(x, u, v) return compose(f, x, u, v) end), X, U, V)
      if ok then
        local found, want = numbers(got), numbers(batch(each))
        local i = difference(found, want, NEAR)
        report.compare(name, i, i and found[i], i and want[i])
      else
        report.raised(name, tostring(got))
      end
    end
  end
end

return checks
