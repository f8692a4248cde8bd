-- tests/lua/gradients_test.lua: every result of an op sample carries a gradient exactly where
-- PyTorch's does (tests/reference/gradients.json), so that no row drops one silently.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/?.lua;" .. package.path
local ml = require "moonlet"
local json = require "moonlet.json"
local harness = require "harness"
local samples = require "op_samples"

local function read(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return json.decode(text)
end

local cases = dofile(assert(os.getenv "MOONLET_OP_CASES", "set MOONLET_OP_CASES"))
local wanted = {}
for _, entry in ipairs(read(assert(os.getenv "MOONLET_SOURCE") .. "/tests/reference/gradients.json")) do
  wanted[entry.name .. "\0" .. entry.sample] = entry.gives
end

-- "10": which results of a sample require grad when argument k alone does.
local function carried(case, i, k)
  local args = samples.arguments(case, i)
  args[k] = args[k]:detach():clone():requires_grad_(true)
  local out = {}
  for j, y in ipairs(samples.results(case, args)) do
    out[j] = ml.is_tensor(y) and (y.requires_grad and "1" or "0") or "-"
  end
  return table.concat(out)
end

local checked = 0
for _, case in ipairs(cases) do
  for i, text in ipairs(case.samples) do
    local gives = wanted[case.name .. "\0" .. text]
    if gives then
      checked = checked + 1
      harness.test(("gradients of %s(%s)"):format(case.name, text), function()
        for k, want in pairs(gives) do
          harness.expect.equal(carried(case, i, math.tointeger(tonumber(k))), want, "argument " .. k)
        end
      end)
    end
  end
end

harness.test("most samples are known", function() harness.expect.truthy(checked > 300, checked) end)
harness.run()
