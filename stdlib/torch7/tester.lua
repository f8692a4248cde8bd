-- stdlib/torch7/tester.lua: torch.Tester, which runs named tests and counts what they assert, and
-- torch.TestSuite, a table of tests.

local class = require "moonlet.torch7.class"
local compare = require "moonlet.torch7.compare"
local namespace = require "moonlet.torch7.namespace"

local Tester = class.class("torch.Tester", namespace)

local WIDTH = 80
local FAILED = "An error was found while running tests!"

function Tester:__init()
  self.tests, self.disabledTests = {}, {}
  self.errors, self.warnings = {}, {}
  self.assertionPass, self.assertionFail, self.testError = {}, {}, {}
  self._warningCount = {}
  self._currentTestName = ""
  -- {{1}} and {1} are equal to assertTensorEq, with a warning.
  self._assertTensorEqIgnoresDims = true
end

function Tester:setEarlyAbort(flag) self.earlyAbort = flag end
function Tester:setRethrowErrors(flag) self.rethrow = flag end
function Tester:setSummaryOnly(flag) self.summaryOnly = flag end

-- --- what asserts come to -----------------------------------------------------------------------

local function count(counts, name) counts[name] = (counts[name] or 0) + 1 end

-- The message with the test's name and where it was called.
local function located(self, message)
  local lines = debug and debug.traceback("", 4):match "\n[^\n]*\n([^\n]*\n?[^\n]*)" or ""
  local name = self._currentTestName
  return (name ~= "" and name .. "\n" or "") .. message .. "\n" .. lines
end

function Tester:_success()
  count(self.assertionPass, self._currentTestName)
  return true
end

function Tester:_failure(message)
  if self.rethrow then error(message, 2) end
  count(self.assertionFail, self._currentTestName)
  self.errors[#self.errors + 1] = located(self, message)
  return false
end

function Tester:_warning(message)
  count(self._warningCount, self._currentTestName)
  self.warnings[#self.warnings + 1] = located(self, message)
end

function Tester:_assert_sub(condition, message)
  if condition then return self:_success() end
  return self:_failure(message)
end

-- --- arguments ----------------------------------------------------------------------------------

local function message_of(message, ...)
  if select("#", ...) > 0 and next { ... } ~= nil then
    error("Unexpected arguments passed to test function", 0)
  end
  if message == nil or message == "" then return "" end
  if type(message) ~= "string" then error("message parameter must be a string", 0) end
  return message .. "\n"
end

-- A tolerance and a message, in any order.
local function tolerance_and_message(default, ...)
  local tolerance, message
  for _, value in ipairs { ... } do
    if type(value) == "string" and not message then
      message = value .. "\n"
    elseif type(value) == "number" and not tolerance then
      tolerance = value
      if value < 0 then error("tolerance cannot be negative", 0) end
    else
      error(("Unexpected %s argument"):format(type(value)), 0)
    end
  end
  return tolerance or default, message or ""
end

-- --- asserts ------------------------------------------------------------------------------------

function Tester:assert(condition, ...)
  local message = message_of(...)
  if type(condition) ~= "boolean" then
    self:_warning(" :assert should only be used for boolean conditions. To check for non-nil "
      .. "variables, do this explicitly: Tester:assert(var ~= nil).")
  end
  return self:_assert_sub(condition, ("%sBOOL violation condition=%s"):format(message,
    tostring(condition)))
end

local ORDERS = {
  lt = { "LT", ">=", function(a, b) return a < b end },
  gt = { "GT", "<=", function(a, b) return a > b end },
  le = { "LE", ">", function(a, b) return a <= b end },
  ge = { "GE", "<", function(a, b) return a >= b end },
  eq = { "EQ", "~=", function(a, b) return a == b end },
  ne = { "NE", "==", function(a, b) return a ~= b end },
}

for name, order in pairs(ORDERS) do
  Tester["assert" .. name] = function(self, a, b, ...)
    local message = message_of(...)
    if name == "ne" and type(a) == type(b) and (type(a) == "table" or type(a) == "userdata") then
      self:_warning(" :assertne should only be used to compare basic lua objects (numbers, "
        .. "booleans, etc). Consider using either :assertGeneralNe or :assert(a ~= b).")
    end
    return self:_assert_sub(order[3](a, b), ("%s%s failed: %s %s %s"):format(message, order[1],
      tostring(a), order[2], tostring(b)))
  end
end

function Tester:assertalmosteq(a, b, ...)
  local tolerance, message = tolerance_and_message(1e-16, ...)
  return self:_assert_sub(math.abs(a - b) <= tolerance,
    ("%sALMOST_EQ failed: %s ~= %s with tolerance=%s"):format(message, tostring(a), tostring(b),
      tostring(tolerance)))
end

local function general(negate)
  return function(self, a, b, ...)
    local tolerance, message = tolerance_and_message(0, ...)
    local ok, why = compare.values(a, b, tolerance, negate)
    return self:_assert_sub(ok, message .. (why or ""))
  end
end
Tester.assertGeneralEq, Tester.assertGeneralNe = general(false), general(true)
function Tester:eq(...) return self:assertGeneralEq(...) end
function Tester:ne(...) return self:assertGeneralNe(...) end

local function tables(name)
  return function(self, a, b, ...)
    if type(a) ~= "table" then error("First argument should be a Table", 0) end
    if type(b) ~= "table" then error("Second argument should be a Table", 0) end
    return self[name](self, a, b, ...)
  end
end
Tester.assertTableEq, Tester.assertTableNe = tables "assertGeneralEq", tables "assertGeneralNe"

local function tensors(negate)
  return function(self, a, b, ...)
    if not namespace.isTensor(a) then error("First argument should be a Tensor", 0) end
    if not namespace.isTensor(b) then error("Second argument should be a Tensor", 0) end
    local tolerance, message = tolerance_and_message(0, ...)
    local any_shape = self._assertTensorEqIgnoresDims
    local ok, why = compare.tensors(a, b, tolerance, negate, any_shape)
    if any_shape and ok and not negate and not a:isSameSizeAs(b) then
      self:_warning("Tensors have the same content but different dimensions. For backwards "
        .. "compatibility, they are considered equal, but this may change in the future. "
        .. "Consider using :eq to check for equality instead.")
    end
    return self:_assert_sub(ok, message .. (why or ""))
  end
end
Tester.assertTensorEq, Tester.assertTensorNe = tensors(false), tensors(true)

-- --- asserts of errors --------------------------------------------------------------------------

function Tester:assertErrorObj(f, fits, ...)
  local message = message_of(...)
  local ok, problem = pcall(f)
  return self:_assert_sub(not ok and fits(problem), ("%sERROR violation: err=%s"):format(message,
    tostring(problem)))
end

function Tester:assertError(f, ...)
  return self:assertErrorObj(f, function() return true end, ...)
end

function Tester:assertNoError(f, ...)
  local message = message_of(...)
  local ok, problem = pcall(f)
  return self:_assert_sub(ok, ("%sERROR violation: err=%s"):format(message, tostring(problem)))
end

function Tester:assertErrorMsg(f, expected, ...)
  return self:assertErrorObj(f, function(problem) return problem == expected end, ...)
end

function Tester:assertErrorPattern(f, pattern, ...)
  return self:assertErrorObj(f, function(problem)
    return tostring(problem):find(pattern) ~= nil
  end, ...)
end

-- --- tests --------------------------------------------------------------------------------------

local FIXED = { _setUp = "Only one set-up function allowed",
  _tearDown = "Only one tear-down function allowed" }

local function add_all(self, tests, name)
  if name ~= nil then error("a name is not for a table of tests", 0) end
  if rawget(tests, "__isTestSuite") then
    tests = tests.__tests
  else
    self:_warning("Should use TestSuite rather than plain lua table")
  end
  for key, test in pairs(tests) do
    if type(test) == "table" then error("Nested sets of tests are not supported", 0) end
    self:add(test, key)
  end
  return self
end

--- Adds a test, or all of a TestSuite or table. `_setUp` and `_tearDown` run around each.
function Tester:add(test, name)
  if type(test) == "table" then return add_all(self, test, name) end
  if type(test) ~= "function" then error("Only tables of functions and functions supported", 0) end
  if FIXED[name] then
    if rawget(self, name) then error(FIXED[name], 0) end
    self[name] = test
    return self
  end
  name = name or "unknown"
  if self.tests[name] then error("Test with name " .. name .. " already exists!", 0) end
  self.tests[name] = test
  return self
end

function Tester:disable(names)
  if type(names) == "string" then names = { names } end
  for _, name in ipairs(names) do
    if not self.tests[name] then error(("Unrecognized test '%s'"):format(name), 0) end
    self.disabledTests[name] = true
  end
  return self
end

-- The tests whose names match one of the patterns.
local function selected(self, patterns)
  if patterns == nil then return self.tests end
  if type(patterns) == "string" then patterns = { patterns } end
  if type(patterns) ~= "table" then error("a name or a table of test names is expected", 0) end
  local out = {}
  for _, pattern in ipairs(patterns) do
    local found = false
    for name, test in pairs(self.tests) do
      if tostring(name):match(pattern) then out[name], found = test, true end
    end
    if not found then error(("Couldn't find test '%s'"):format(pattern), 0) end
  end
  return out
end

-- --- running ------------------------------------------------------------------------------------

local function plural(number, word)
  return ("%d %s%s"):format(number, word, number == 1 and "" or "s")
end

-- Whether the test ended without an error, and without a failed assert.
local function call(self, name, test)
  local failures = #self.errors
  if self._setUp then self._setUp(name) end
  local ok, problem = true, nil
  if self.rethrow then
    test()
  else
    ok, problem = xpcall(test, debug and debug.traceback or tostring)
  end
  if not ok then
    self.errors[#self.errors + 1] = ("%s\n Function call failed\n%s\n"):format(name, problem)
  end
  if self._tearDown then self._tearDown(name) end
  return ok, #self.errors == failures
end

local function run_one(self, name, test, head)
  if self.disabledTests[name] then
    io.write(head, "[SKIP]\n")
    return true
  end
  io.write(head, "[WAIT]")
  io.flush()
  local ok, passed = call(self, name, test)
  if not ok then self.testError[name] = 1 end
  io.write("\r", head, not ok and "[ERROR]" or passed and "[PASS]" or "[FAIL]", "\n")
  if ok and passed and self._warningCount[name] > 0 then
    io.write((" "):rep(WIDTH - 10), "[+warning]\n")
  end
  return ok and passed
end

local function run_all(self, tests)
  local total, at = 0, 0
  for _ in pairs(tests) do total = total + 1 end
  io.write("Running " .. plural(total, "test") .. "\n")
  local digits = #tostring(total)
  for name, test in pairs(tests) do
    at = at + 1
    self._currentTestName = name
    local head = ("%" .. digits .. "d/%d %s "):format(at, total, name)
    head = head .. ("."):rep(WIDTH - 8 - #head) .. " "
    local passed = run_one(self, name, test, head)
    if self.earlyAbort and not passed and at < total then
      io.write("Aborting on first error, not all tests have been executed\n")
      break
    end
    collectgarbage()
  end
  self._currentTestName = ""
end

local function summary(self, tests)
  local total, failed, broken, skipped, warned = 0, 0, 0, 0, self._warningCount[""] or 0
  self.countasserts = 0
  for name in pairs(tests) do
    total = total + 1
    self.countasserts = self.countasserts + self.assertionPass[name] + self.assertionFail[name]
    if self.assertionFail[name] > 0 then failed = failed + 1 end
    if self.testError[name] > 0 then broken = broken + 1 end
    if self.disabledTests[name] then skipped = skipped + 1 end
    if self._warningCount[name] > 0 then warned = warned + 1 end
  end
  local text = ("Completed %s in %s with %s and %s"):format(plural(self.countasserts, "assert"),
    plural(total, "test"), plural(failed, "failure"), plural(broken, "error"))
  if warned > 0 then text = text .. " and " .. plural(warned, "warning") end
  if skipped > 0 then text = text .. (" and %d disabled"):format(skipped) end
  io.write(text .. "\n")
  return failed + broken
end

local function details(self)
  local line = ("-"):rep(WIDTH) .. "\n"
  for _, list in ipairs { self.errors, self.warnings } do
    for _, text in ipairs(list) do io.write(line .. text .. "\n" .. line) end
  end
end

--- Runs all tests, or those that match a name or one of a list; an error where any fails.
function Tester:run(names)
  local tests = selected(self, names)
  for _, counts in ipairs { self.assertionPass, self.assertionFail, self.testError } do
    for name in pairs(tests) do counts[name] = 0 end
  end
  for name in pairs(tests) do self._warningCount[name] = self._warningCount[name] or 0 end
  run_all(self, tests)
  local bad = summary(self, tests)
  if not self.summaryOnly then details(self) end
  if bad > 0 then error(FAILED, 0) end
  return 0
end

-- --- suites -------------------------------------------------------------------------------------

--- A table of tests that refuses to define one twice.
function namespace.TestSuite()
  local tests = {}
  return setmetatable({ __tests = tests, __isTestSuite = true }, {
    __index = tests,
    __newindex = function(_, name, test)
      if tests[name] ~= nil then error(("Test %s is already defined."):format(name), 2) end
      if type(test) == "table" then error("Nested tables of tests are not supported", 2) end
      if type(test) ~= "function" then
        error("Only functions are supported as members of a TestSuite", 2)
      end
      tests[name] = test
    end,
  })
end
