-- tests/fuzz/compositions.lua: the second derivatives of every differentiable row and every layer by all four
-- compositions of forward and reverse mode (forward over forward, forward over reverse, reverse over
-- forward, reverse over reverse), at generic points, zeros, ties, repeated values, infinities and
-- matrices that are not regular, where arguments are leaves, slices, expanded, parts of one leaf, changed
-- in place, or samples of a vmap. They are compared with differences of the first gradient where that
-- is smooth, and everywhere with one another.
-- usage: MOONLET_OP_CASES=... moonlet compositions.lua [ROUNDS [SEED [NAME]]]
-- A round looks at each sample of each row at one point in one layout; 165 rounds at all.
-- Ends with the number of comparisons, of differences, and of derivatives that are refused.

local here = arg[0]:match "^(.*)/" or "."
package.path = here .. "/?.lua;" .. here .. "/../lua/?.lua;" .. package.path
local ml = require "moonlet"
local cases = require "composition_cases"
local checks = require "composition_checks"
local exceptions = require "composition_exceptions"
local points = require "composition_points"

local rounds, seed, only = tonumber(arg[1]) or 2, tonumber(arg[2]) or 1, arg[3]
local all = cases.all(dofile(assert(os.getenv "MOONLET_OP_CASES", "set MOONLET_OP_CASES to op_cases.lua")))

warn "@off"
io.stdout:setvbuf "line"

local MOST_SHOWN = 3  -- of one row, of one kind
local compared, differ, refused = 0, 0, 0
local shown, refusals, excepted = {}, {}, {}

local function show(case, where, what, text)
  differ = differ + 1
  local key = case.name .. what
  shown[key] = (shown[key] or 0) + 1
  if shown[key] <= MOST_SHOWN then
    print(("DIFFERS %s\n  %s: %s: %s"):format(case.label, where, what, text))
  end
end

local function add(counts, key) counts[key] = (counts[key] or 0) + 1 end

local function report_of(case, at)
  local where = ("%s, %s, round %d"):format(at.point, at.layout, at.round)
  local function is_excepted(what, got, want)
    local reason = exceptions.find(case, at, what, got, want)
    if reason then add(excepted, reason) end
    return reason
  end
  return {
    compare = function(what, position, got, want)
      if position and is_excepted(what, got, want) then return end
      compared = compared + 1
      if position then show(case, where, what, ("element %d is %.12g, not %.12g"):format(position, got, want)) end
    end,
    raised = function(what, message)
      local reason = exceptions.refusal(message)
      if reason then
        refused = refused + 1
        add(refusals, reason)
      elseif not is_excepted(what) then
        show(case, where, what, message)
      end
    end,
  }
end

local function has_infinity(list)
  for _, x in ipairs(list) do
    if x and x:numel() > 0 and not ml.isfinite(x):all():item() then return true end
  end
  return false
end

-- A number made of the results that have gradients; where they are finite not a linear one.
local function loss_of(record, form, arguments_of, leaves)
  local tracked = {}
  for i, x in ipairs(leaves) do tracked[i] = x:detach():requires_grad_() end
  local found = cases.results(record.call(form, arguments_of(tracked)))
  local weights, curves, any = {}, {}, false
  ml.manual_seed(seed)
  local bent = has_infinity(found) and 0 or 1
  for k, y in ipairs(found) do
    if y and y.requires_grad then
      any = true
      weights[k] = ml.rand(y.shape, { dtype = "float64" }) + 0.5
      curves[k] = (ml.rand(y.shape, { dtype = "float64" }) + 0.2) * bent
    end
  end
  if not any then return nil end
  return function(list)
    local sum
    for k, y in ipairs(cases.results(record.call(form, arguments_of(list)))) do
      if weights[k] then
        local part = (y * weights[k]):sum()
        if bent == 1 then part = part + (y * y * curves[k]):sum() end
        sum = sum and sum + part or part
      end
    end
    return sum
  end
end

local function directions(xs)
  local out = {}
  for i, x in ipairs(xs) do out[i] = ml.rand(x.shape, { dtype = "float64" }) + 0.3 end
  return out
end

-- Some of the arguments alone, the others as they are.
local function part_of(xs)
  local chosen, kept = {}, {}
  for i, x in ipairs(xs) do
    if i == #xs and #chosen == 0 or math.random(2) == 1 then chosen[#chosen + 1] = x kept[i] = #chosen end
  end
  return chosen, function(list)
    local out = {}
    for i, x in ipairs(xs) do out[i] = kept[i] and list[kept[i]] or x end
    return out
  end
end

local FORMS = { ["in place"] = "_", ["in place in a slice"] = "slice" }

local function visit(case, round, point, layout)
  math.randomseed(seed, round)
  local form = FORMS[layout]
  if form and not case.inplace or case.random and layout == "batched" then form, layout = nil, "plain" end
  local record = case.make(seed * 1000 + round)
  if #record.xs == 0 then return end
  local moved = points.moved(point, record.xs)
  local leaves, arguments_of
  if layout == "some" then leaves, arguments_of = part_of(moved)
  else leaves, arguments_of = points.laid_out(layout, moved) end
  -- What the op refuses at this point is no matter of its derivatives.
  local ok, f = pcall(loss_of, record, form, arguments_of, leaves)
  if not ok or not f then return end
  local report = report_of(case, { point = point[1], layout = layout, round = round })
  ml.manual_seed(seed + round)
  if layout ~= "batched" then
    return checks.compare(f, leaves, directions(leaves), directions(leaves), report)
  end
  local other = {}
  for i, x in ipairs(leaves) do other[i] = x * 0.97 end
  checks.compare_batched(f, { leaves, other }, { directions(leaves), directions(leaves) },
    { directions(leaves), directions(leaves) }, report)
end

for round = 1, rounds do
  for k, case in ipairs(all) do
    if not only or case.name == only then
      local n = round + k - 2
      local point, layout = points.POINTS[n % #points.POINTS + 1], points.LAYOUTS[n % #points.LAYOUTS + 1]
      local ok, message = pcall(visit, case, round, point, layout)
      if not ok then show(case, ("%s, %s, round %d"):format(point[1], layout, round), "the sweep", tostring(message)) end
    end
  end
end

exceptions.print("excepted", excepted)
exceptions.print("refused", refusals)
print(("%d comparisons, %d differences, %d refused"):format(compared, differ, refused))
os.exit(differ == 0 and compared > 0, true)
