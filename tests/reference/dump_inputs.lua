-- tests/reference/dump_inputs.lua: writes every sample's arguments as JSON for make_reference.py.
-- usage: MOONLET_OP_CASES=build/tests/op_cases.lua build/moonlet tests/reference/dump_inputs.lua OUT.json

package.path = arg[0]:match "^(.*)/" .. "/../lua/?.lua;" .. package.path
local json = require "moonlet.json"
local samples = require "op_samples"

local cases = dofile(assert(os.getenv "MOONLET_OP_CASES", "set MOONLET_OP_CASES"))
local out = {}
for _, case in ipairs(cases) do
  for i, text in ipairs(case.samples) do
    if not case.check.value and not case.random and case.plain then
      local ok, args = pcall(samples.arguments, case, i)
      if not ok then error(("%s: sample %d '%s': %s"):format(case.name, i, text, args)) end
      local inputs = {}
      for k = 1, args.n do inputs[k] = samples.encode(args[k]) end
      out[#out + 1] = { name = case.name, family = case.family, sample = text, torch = case.torch,
                        types = case.args, names = case.names, inputs = inputs }
    end
  end
end
local file = assert(io.open(arg[1], "w"))
file:write(json.encode(out))
file:close()
print(#out .. " samples")
