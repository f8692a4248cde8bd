-- tests/fuzz/library.lua: runs random layers, optimisers, schedules and index expressions and compares
-- with PyTorch's answers, which torch_library.py wrote beside them.
-- usage: moonlet library.lua FILE

local here = arg[0]:match "^(.*)/" or "."
package.path = here .. "/../lua/?.lua;" .. package.path
local index_case = require "index_case"
local json = require "moonlet.json"
local module_case = require "module_case"
local optimizer_case = require "optimizer_case"

-- Every way to compute a step, and a state that is saved on the way.
local function check_optimizer(case)
  optimizer_case.check_steps(case)
  optimizer_case.check_modes(case)
  optimizer_case.check_state(case)
end

local CHECKS = {
  module = function(case) module_case.check(case, "cpu") end,
  optimizer = check_optimizer,
  schedule = optimizer_case.check_schedule,
  index = index_case.check,
}

-- What a case is of, for people.
local function describe(kind, case)
  local shown = { class = case.class, name = case.name, args = case.args, options = case.options,
    index = case.index, shape = case.shape, eval = case.eval, named = case.named }
  return kind .. " " .. json.encode(shown)
end

local file = assert(io.open(arg[1]))
local passed, failed = 0, 0
for line in file:lines() do
  local item = json.decode(line)
  local ok, message = pcall(CHECKS[item.kind], item.case)
  passed, failed = passed + (ok and 1 or 0), failed + (ok and 0 or 1)
  if not ok then
    print(("FAIL number %d: %s\n  %s"):format(item.number, describe(item.kind, item.case), message))
  end
end
file:close()
print(("%d passed, %d failed, 0 skipped"):format(passed, failed))
if passed + failed == 0 then error "no cases" end
if failed > 0 then os.exit(1, true) end
