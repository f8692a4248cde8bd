-- scripts/gpu_check/common.lua: what the sections of gpu_check share: results that the table and
-- the JSON take from their logs, checks, and times on the device.

local ml = require "moonlet"
local clock = require("moonlet.system").clock

local common = {}

--- Whether the device is the emulation on the host, where sizes are small and times mean nothing.
common.emulated = ml.cuda.is_emulated()

--- Prints a result: a name, a number or a word, and its unit.
---@param name string
---@param value number|string
---@param unit? string
function common.result(name, value, unit)
  if type(value) == "number" and math.type(value) == "float" then value = ("%.6g"):format(value) end
  print(("result\t%s\t%s\t%s"):format(name, value, unit or ""))
end

--- Ends the section: there is nothing to check, for a reason.
---@param reason string
function common.skip(reason)
  print("skipped: " .. reason)
  os.exit(77, true)
end

--- An error unless a condition holds.
---@param condition any
---@param format string
---@param ... any
function common.check(condition, format, ...)
  if not condition then error(format:format(...), 0) end
end

--- The seconds that `f` takes on the device: the best of several runs of `count` calls each.
---@param f function
---@param count? integer
---@return number
function common.seconds(f, count)
  count = common.emulated and 1 or count or 10
  f()
  ml.cuda.synchronize()
  local best = math.huge
  for _ = 1, common.emulated and 1 or 5 do
    local start = clock()
    for _ = 1, count do f() end
    ml.cuda.synchronize()
    best = math.min(best, (clock() - start) / count)
  end
  return best
end

--- The products that are measured, as products.txt has them: a dtype and the sizes m, n and k,
--- small ones on the emulation.
---@return table[]
function common.products()
  local out = {}
  for line in io.lines((arg[0]:match "^(.*)/" or ".") .. "/products.txt") do
    local dtype, m, n, k = line:match "^(%w+) (%d+) (%d+) (%d+)$"
    local most = common.emulated and 64 or math.maxinteger
    out[#out + 1] = { dtype = dtype, m = math.min(math.tointeger(m), most),
      n = math.min(math.tointeger(n), most), k = math.min(math.tointeger(k), most) }
  end
  return out
end

return common
