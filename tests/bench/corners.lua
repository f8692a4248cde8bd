-- tests/bench/corners.lua: times the calls of corner_cases.lua, for tests/bench/corners.py, which
-- starts it: for each a line of JSON; then it waits for a line while PyTorch is timed.
-- usage: moonlet corners.lua THREADS [FILTER]: a part of a call

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local json = require "moonlet.json"
local ml = require "moonlet"
local timing = require "timing"

ml.set_num_threads(assert(math.tointeger(tonumber(arg[1])), "THREADS must be an integer"))
local filter = arg[2] or ""

local function tensor(sizes)
  if sizes.below then return ml.randint(0, sizes.below - 1, { table.unpack(sizes) }) end
  return ml.randn(sizes)
end

-- The function that a case calls, with its inputs made.
local function function_of(case)
  local env = setmetatable({ ml = ml, F = ml.nn.functional }, { __index = _G })
  for name, sizes in pairs(case.inputs) do env[name] = tensor(sizes) end
  return assert(load("return function() return " .. case.here .. " end", case.here, "t", env))()
end

for _, case in ipairs(require "corner_cases") do
  if case.here:find(filter, 1, true) then
    local line = { here = case.here, there = case.there, inputs = {} }
    for name, sizes in pairs(case.inputs) do
      line.inputs[name] = { sizes = { table.unpack(sizes) }, below = sizes.below }
    end
    local ok, result = pcall(function() return timing.seconds(function_of(case)) end)
    line[ok and "seconds" or "error"] = result
    collectgarbage()
    print(json.encode(line))
    io.stdout:flush()
    assert(io.read "l", "the other side is gone")
  end
end
