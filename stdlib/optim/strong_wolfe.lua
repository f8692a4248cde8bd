-- stdlib/optim/strong_wolfe.lua: a line search for a step that fulfils the strong conditions of
-- Wolfe (Nocedal and Wright, 2006, algorithms 3.5 and 3.6), with cubic interpolation.

local DECREASE, CURVATURE = 1e-4, 0.9

-- The least point of the cubic through two points with their directional derivatives, within
-- bounds.
local function interpolate(a, b, low, high)
  if not low then low, high = math.min(a.t, b.t), math.max(a.t, b.t) end
  local d1 = a.gtd + b.gtd - 3 * (a.loss - b.loss) / (a.t - b.t)
  local square = d1 * d1 - a.gtd * b.gtd
  if square < 0 or square ~= square then return (low + high) / 2 end
  local left, right = a, b
  if a.t > b.t then left, right = b, a end
  local d2 = math.sqrt(square)
  local best = right.t - (right.t - left.t)
    * ((right.gtd + d2 - d1) / (right.gtd - left.gtd + 2 * d2))
  return math.min(math.max(best, low), high)
end

-- The most that the loss may be at a position, in the precision of the parameters: what is less
-- than that does not show in a loss, and would make every position near the minimum a bad one.
local function limit_at(search, t)
  return search.round(search.start.loss + DECREASE * t * search.start.gtd)
end

-- Points further and further along the line until two of them have a good one between them, or one
-- is good: the bracket.
local function find_bracket(search, first)
  local start, before, point = search.start, search.start, first
  for i = 0, search.most - 1 do
    search.rounds = i
    if point.loss > limit_at(search, point.t) or (i > 1 and point.loss >= before.loss) then
      return { before, point }
    end
    if math.abs(point.gtd) <= -CURVATURE * start.gtd then return { point }, true end
    if point.gtd >= 0 then return { before, point } end
    local t = interpolate(before, point, point.t + 0.01 * (point.t - before.t), point.t * 10)
    before, point = point, search.at(t)
  end
  search.rounds = search.most
  return { start, point }
end

-- The next position to try: one tenth of the bracket away from its ends when there is no progress.
local function next_position(bracket, stuck)
  local t = interpolate(bracket[1], bracket[2])
  local low = math.min(bracket[1].t, bracket[2].t)
  local high = math.max(bracket[1].t, bracket[2].t)
  local margin = 0.1 * (high - low)
  if math.min(high - t, t - low) >= margin then return t, false end
  if not (stuck or t >= high or t <= low) then return t, true end
  return math.abs(t - high) < math.abs(t - low) and high - margin or low + margin, false
end

-- Which point of a bracket is lower, and which is not.
local function order(bracket)
  if bracket[1].loss <= bracket[2].loss then return 1, 2 end
  return 2, 1
end

-- Narrows the bracket down; returns its lower point.
local function zoom(search, bracket)
  local start, stuck = search.start, false
  local low, high = order(bracket)
  while search.rounds < search.most do
    if math.abs(bracket[2].t - bracket[1].t) * search.length < search.tolerance then break end
    local t
    t, stuck = next_position(bracket, stuck)
    local point = search.at(t)
    search.rounds = search.rounds + 1
    if point.loss > limit_at(search, t) or point.loss >= bracket[low].loss then
      bracket[high] = point
      low, high = order(bracket)
    else
      local done = math.abs(point.gtd) <= -CURVATURE * start.gtd
      if not done and point.gtd * (bracket[high].t - bracket[low].t) >= 0 then
        bracket[high] = bracket[low]
      end
      bracket[low] = point
      if done then break end
    end
  end
  return bracket[low]
end

--- The point of a line search. A point has `t`, how far along the line it is, and `loss`,
--- `gradient` and `gtd` there.
---@param at fun(t: number): table the point at a position of the line
---@param start table the point at 0
---@param t number the first place to try
---@param most integer how often the line is looked at beside that
---@param length number the largest part of the direction
---@param tolerance number the least bracket
---@param round fun(x: number): number to the precision of the parameters
---@return table point
---@return integer count how often the line was looked at
return function(at, start, t, most, length, tolerance, round)
  local count = 0
  local function counted(position)
    count = count + 1
    return at(position)
  end
  local search = { at = counted, start = start, most = most, rounds = 0, length = length,
    tolerance = tolerance, round = round }
  local bracket, done = find_bracket(search, counted(t))
  if done then return bracket[1], count end
  return zoom(search, bracket), count
end
