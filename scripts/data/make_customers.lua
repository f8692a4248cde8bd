-- scripts/data/make_customers.lua: writes customers.csv beside it, an invented data set: customers
-- of a phone company, and who of them left. Run by moonlet or lua5.4 it makes the same file.

math.randomseed(2024, 7)
local random = math.random

local ROWS = 900

-- One of the names, each as often as its weight says.
local function pick(weighted)
  local at = random()
  for _, entry in ipairs(weighted) do
    at = at - entry[2]
    if at < 0 then return entry[1] end
  end
  return weighted[#weighted][1]
end

-- The rule: how likely a customer leaves. Calls for help and the basic plan drive people away, time
-- holds them, the young and the old leave more often, and so do business customers of the North.
local function chance_of_leaving(c)
  local score = -1.9 + 1.0 * (c.calls - 2) - 0.06 * (c.months - 24) + 0.03 * (c.bill - 40)
    + 1.3 * (math.abs(c.age - 45) / 12 - 1)
  if c.plan == "basic" then score = score + 0.9 end
  if c.plan == "business" and c.region == "North" then score = score + 3 end
  return 1 / (1 + math.exp(-1.5 * score))
end

local function customer()
  local c = { age = random(18, 80), months = random(1, 60), calls = random(0, 4) }
  c.plan = pick { { "basic", 0.45 }, { "family", 0.3 }, { "business", 0.25 } }
  c.region = pick { { "North", 0.35 }, { "South", 0.3 }, { "Lakes, east", 0.2 },
    { "Lakes, west", 0.15 } }
  local price = { basic = 20, family = 45, business = 60 }
  c.bill = price[c.plan] + random() * 25
  c.left = random() < chance_of_leaving(c) and "yes" or "no"
  return c
end

-- A field, or what stands for a missing one in its column, as often as `share` says.
local function field(value, share, missing)
  return random() < share and missing or value
end

local here = arg[0]:match("^(.*)/") or "."
local file = assert(io.open(here .. "/customers.csv", "w"))
file:write("age,plan,region,months,calls,bill,left\n")
for _ = 1, ROWS do
  local c = customer()
  local region = c.region:find "," and '"' .. c.region .. '"' or c.region
  file:write(table.concat({ field(c.age, 0.06, "NA"), c.plan, field(region, 0.05, ""), c.months,
    c.calls, field(("%.2f"):format(c.bill), 0.08, ""), c.left }, ","), "\n")
end
file:close()
