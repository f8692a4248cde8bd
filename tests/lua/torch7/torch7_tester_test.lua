-- tests/lua/torch7/torch7_tester_test.lua: torch.Tester, torch.TestSuite, torch.CmdLine, torch.Timer.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local torch = require "torch"
local test, expect = harness.test, harness.expect

-- What `f` writes.
local function written(f)
  local before, out = io.write, {}
  rawset(io, "write", function(...) out[#out + 1] = table.concat { ... } end)
  local ok, problem = pcall(f)
  rawset(io, "write", before)
  return table.concat(out), ok, problem
end

test("passes and failures are counted", function()
  local tester, suite = torch.Tester(), torch.TestSuite()
  function suite.good() tester:eq({ 1, { torch.Tensor { 1 } } }, { 1, { torch.Tensor { 1 } } }) end
  function suite.bad() tester:asserteq(1, 2, "these differ") end
  function suite.broken() error "oh" end
  local text, ok, problem = written(function() tester:add(suite):run() end)
  expect.equal({ ok, problem }, { false, "An error was found while running tests!" })
  expect.truthy(text:find("Completed 2 asserts in 3 tests with 1 failure and 1 error", 1, true))
  expect.truthy(text:find("these differ\nEQ failed: 1 ~= 2", 1, true))
  expect.equal(tester.countasserts, 2)
end)

test("a name or pattern selects tests", function()
  local tester, calls = torch.Tester(), {}
  for _, name in ipairs { "alpha", "alps", "beta" } do
    tester:add(function() calls[#calls + 1] = name end, name)
  end
  written(function() tester:run "^al" end)
  table.sort(calls)
  expect.equal(calls, { "alpha", "alps" })
  expect.error(function() tester:run "gamma" end, "Couldn't find test 'gamma'")
end)

test("what asserts say", function()
  local tester = torch.Tester()
  tester._success = function() return true end
  tester._failure = function(_, message) return message end
  expect.equal(tester:assertTensorEq(torch.Tensor { 1 }, torch.Tensor { 1.5 }, 0.1),
    "TensorEQ(==) violation: max diff=0.5, tolerance=0.1")
  expect.equal(tester:assertTensorEq(torch.Tensor { 1 }, torch.Tensor { 1.05 }, 0.1), true)
  expect.equal(tester:eq({ a = { b = 1 } }, { a = { b = 2 } }),
    "At table location a.b: EQ failed: 1 ~= 2")
  expect.equal(tester:eq(torch.Tensor(), torch.FloatTensor()), "The tensors have different types")
  expect.equal(tester:assertErrorPattern(function() error "abc" end, "b"), true)
  expect.equal(tester:assertNoError(function() error("x", 0) end), "ERROR violation: err=x")
  expect.equal(tester:ne("a", "a"), "NE failed: a (string) == a (string)")
end)

test("suites refuse doubles", function()
  local suite = torch.TestSuite()
  suite.one = function() end
  expect.error(function() suite.one = function() end end, "Test one is already defined")
  expect.error(function() suite.two = {} end, "Nested tables")
end)

test("command lines", function()
  local cmd = torch.CmdLine()
  cmd:argument("-file", "what to read")
  cmd:option("-rate", 0.1, "how fast")
  cmd:option("-deep", false, "how far")
  local params = cmd:parse { "-rate", "0.5", "data.t7", "-deep" }
  expect.equal(params, { file = "data.t7", rate = 0.5, deep = true })
  expect.equal(cmd:string("run", params, { file = true }), "run,deep=t,rate=0.5")
  local text = written(function() cmd:help { [0] = "train.lua" } end)
  expect.equal(text, "Usage: train.lua [options] <file>\n  <file> what to read\n"
    .. "  -rate  how fast [0.1]\n  -deep  how far [false]\n")
end)

test("timers stop and go on", function()
  local timer = torch.Timer():stop()
  local first = timer:time().real
  expect.equal(timer:time().real, first)
  timer:resume()
  expect.truthy(timer:time().real >= first)
  expect.equal(tostring(timer), "torch.Timer [status: running]")
end)

harness.run()
