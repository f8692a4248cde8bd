-- tests/lua/ops/op_test.lua: every op of one family through every check.
-- usage: MOONLET_OP_CASES=... moonlet op_test.lua FAMILY [FILTER]

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local json = require "moonlet.json"
local harness = require "harness"
local checks = require "op_checks"
local under_test = require "test_device"

local family, filter = arg[1], arg[2]
arg[1] = filter
local cases = dofile(assert(os.getenv "MOONLET_OP_CASES", "set MOONLET_OP_CASES to op_cases.lua"))

local function read_reference()
  local path = arg[0]:match "^(.*)/" .. "/../../reference/values/" .. family .. ".json"
  local file = io.open(path)
  if not file then return {} end
  local index = {}
  for _, entry in ipairs(json.decode(file:read "a")) do
    index[entry.name .. "(" .. entry.sample .. ")"] = entry
  end
  file:close()
  return index
end

local reference = read_reference()

-- Whether a check applies to a case at all; a row can rule one out, saying why.
local function applies(case, check)
  if case.check[check] or not case.plain then return false end
  -- Each dtype draws its own numbers.
  if case.random and check == "dtypes" then return false end
  if check == "grad" then return case.differentiable end
  if check == "gradgrad" then return case.differentiable and not case.check.grad end
  if check == "no_grad" then return not case.differentiable end
  if check == "inplace" then return case.inplace end
  if check == "inplace_grad" then return case.restrides end
  if check == "out" then return case.out end
  if check == "broadcast" then return case.kind == "pointwise" and #case.args > 1 end
  if check == "device" then return under_test.is_available() end
  return true
end

-- Another backend is compared with the CPU, and nothing else is done again.
local order = under_test.is_other and { "device" } or { "grad", "gradgrad", "no_grad", "noncontiguous", "dtypes",
  "empty", "inplace", "inplace_grad", "out", "broadcast", "device" }

-- The function or method of that name, which may be in a namespace.
local function named(name, where)
  local module, rest = name:match "^(.*)%.(.*)$"
  if module then return where == ml and ml[module][rest] or nil end
  return rawget(where, name)
end

local function check_alias(case, alias)
  harness.expect.truthy(named(alias, ml) or named(alias, ml._methods), "ml." .. alias)
  harness.expect.equal(named(alias, ml), named(case.call, ml), "ml." .. alias)
  if alias:find(".", 1, true) then return end
  for _, form in ipairs { "", "_" } do
    local name = form == "_" and case.inplace_call or case.call
    harness.expect.equal(ml._methods[alias .. form], ml._methods[name], "x:" .. alias .. form)
  end
end

-- A check gives the reason when it says nothing about this sample: that is a skip, not a pass.
local function run_check(case, check, i)
  local outcome = checks[check](case, i)
  if outcome then harness.skip(outcome) end
end

for _, case in ipairs(cases) do
  if case.family == family then
    -- An op that nothing in Lua can call is tested through those that use it.
    if case.callable and not under_test.is_other then
      harness.test(case.name .. " has a sample", function()
        harness.expect.truthy(#case.samples > 0)
      end)
    end
    for _, alias in ipairs(case.alias) do
      harness.test(("%s is also called %s"):format(case.name, alias), function() check_alias(case, alias) end)
    end
    for i, text in ipairs(case.samples) do
      local label = ("%s(%s)"):format(case.name, text)
      if case.plain and not case.random and not case.check.value and not under_test.is_other then
        harness.test(label .. ": value", function()
          local entry = reference[label]
          if not entry then error("no reference value; run tests/reference/make_reference.py", 0) end
          checks.value(case, i, entry)
        end)
      end
      for _, check in ipairs(order) do
        if applies(case, check) then
          harness.test(label .. ": " .. check, function()
            run_check(case, check, i)
          end)
        end
      end
    end
  end
end

harness.run()
