-- tests/lua/interp/progress_test.lua: what a progress bar writes, where, and how often.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect
local progress = require "moonlet.progress"
local terminal = require "moonlet.terminal"

-- A file that keeps what is written and a clock that moves when told.
local function fake(options)
  local sink = { text = "", writes = 0, now = 0 }
  function sink:write(...)
    self.text = self.text .. table.concat({ ... })
    self.writes = self.writes + 1
  end
  function sink:flush() return self end
  options.out = sink
  options.clock = function() return sink.now end
  if options.tty == nil then options.tty = true end
  if options.ascii == nil then options.ascii = true end
  options.width = options.width or 80
  return sink, options
end

local function last_line(sink)
  return sink.text:gsub("\27%[K\n?", ""):match("([^\r]*)$")
end

test("a bar shows count, rate, time left and values", function()
  local sink, options = fake { total = 100, label = "train" }
  local bar = progress.new(options)
  sink.now = 2
  bar:update(25, { loss = 0.51234, acc = 0.9 })
  expect.truthy(last_line(sink):find("^train %[#+%.+%]  25/100 12.5 it/s <6.0s acc=0.9000 "))
  sink.now = 8
  bar:update(75, { loss = 0 / 0 })
  bar:close()
  bar:close()
  expect.truthy(last_line(sink):find("%[#+%] 100/100 12.5 it/s 8.0s acc=0.9000 loss=nan$"))
  expect.error(function() bar:update() end, "update of a closed bar")
end)

test("drawing is rate limited", function()
  local sink, options = fake { total = 1000 }
  local bar = progress.new(options)
  for _ = 1, 1000 do
    sink.now = sink.now + 0.001
    bar:update()
  end
  expect.truthy(sink.writes <= 11, sink.writes)
end)

test("the line fits every width", function()
  for width = 5, 120 do
    for _, ascii in ipairs { true, false } do
      local sink, options = fake { total = 100, label = "épöch", width = width, ascii = ascii }
      local bar = progress.new(options)
      sink.now = 1
      bar:update(37, { loss = 0.25, name = "wide" })
      expect.truthy(terminal.width_of(last_line(sink)) < width)
    end
  end
end)

test("without a terminal it is quiet, or prints one line", function()
  local sink, options = fake { total = 3, tty = false }
  for _ in progress(3, options) do sink.now = sink.now + 1 end
  expect.equal(sink.text, "")
  sink, options = fake { tty = false, lines = true, label = "test" }
  for _ in progress(3, options) do sink.now = sink.now + 1 end
  expect.equal(sink.text, "test  3/3  3.0s  1.0 it/s\n")
end)

test("what can be iterated over", function()
  local function collect(iterable, ...)
    local _, options = fake {}
    local items = {}
    for a, b in progress.new(options):over(iterable, ...) do items[#items + 1] = { a, b } end
    return items
  end
  expect.equal(collect({ "a", "b" }), { { "a" }, { "b" } })
  expect.equal(collect(pairs { x = 1 }), { { "x", 1 } })
  expect.equal(collect(2), { { 1 }, { 2 } })
  expect.equal(collect(0), {})
  local loader = setmetatable({ iter = function() return ipairs { 7, 8 } end },
    { __len = function() return 2 end })
  expect.equal(collect(loader), { { 1, 7 }, { 2, 8 } })
  expect.equal(collect(("a b"):gmatch("%a")), { { "a" }, { "b" } })
  expect.error(function() collect("text") end, "progress: cannot iterate over a string")
end)

test("leaving the loop closes the bar", function()
  local sink, options = fake { total = 10 }
  for item in progress({ 1, 2, 3 }, options) do
    if item == 2 then break end
  end
  expect.truthy(sink.text:find("\n$"))
  expect.truthy(last_line(sink):find("1/10"))
  pcall(function()
    sink, options = fake {}
    for _ in progress({ 1, 2 }, options) do error("stop") end
  end)
  expect.truthy(sink.text:find("\n$"))
end)

test("misuse is an error", function()
  expect.error(function() progress.new { totl = 3 } end, "progress: unknown option 'totl'; did you mean 'total'")
  expect.error(function() progress.new { total = -1 } end, "at least 0, got %-1")
  expect.error(function() progress.new { label = 3 } end, "progress: 'label' must be a string, got 3")
  expect.error(function() progress({ 1 }, { labl = "x" }) end, "did you mean 'label'")
  local bar <close> = progress.new("work", 3)
  expect.equal({ bar.label, bar.total }, { "work", 3 })
  expect.error(function() bar:update("2") end, "progress: update: 'n' must be a number")
  expect.error(function() bar:set(3) end, "progress: set: 'values': a table is expected, got 3")
end)

harness.run()
