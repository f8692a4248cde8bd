-- tests/lua/autograd/trace_test.lua: ml.autograd.profiler: ops, nodes of backward and ranges, nested, and the
-- file for browsers.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local json = require "moonlet.json"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local profiler = ml.autograd.profiler
local record = profiler.record_function

local function row(averages, key, kind)
  for _, each in ipairs(averages) do
    if each.key == key and each.kind == (kind or "op") then return each end
  end
  error("no row " .. key, 2)
end

local function span(p, name)
  for _, each in ipairs(p.function_events) do
    if each.name == name then return each end
  end
  error("no span " .. name, 2)
end

local function is_inside(inner, outer)
  return inner.start >= outer.start and inner.start + inner.time <= outer.start + outer.time
end

test("ops, nodes of backward and ranges are counted and nested", function()
  local x = ml.ones(100, 10):requires_grad_()
  local p = profiler.profile(function()
    record("step", function()
      local loss = record("forward", function() return (x:exp() * x):sum() end)
      local _ <close> = record "backward"
      loss:backward()
    end)
  end)
  local all = p:key_averages()
  expect.equal(row(all, "exp").count, 1)
  expect.truthy(row(all, "exp").cpu_memory_usage >= 4000)
  expect.equal(row(all, "MulBackward", "backward").count, 1)
  expect.equal(row(all, "AccumulateGrad", "backward").count, 1)
  expect.equal(row(all, "step", "range").count, 1)
  local step, forward, backward = span(p, "step"), span(p, "forward"), span(p, "backward")
  expect.truthy(is_inside(forward, step))
  expect.truthy(is_inside(backward, step))
  expect.truthy(is_inside(span(p, "exp"), forward))
  expect.truthy(is_inside(span(p, "MulBackward"), backward))
  expect.falsy(is_inside(span(p, "MulBackward"), forward))
  expect.truthy(span(p, "exp").where:find "trace_test.lua:%d+")
  local whole = row(all, "step", "range")
  local inner = row(all, "forward", "range").cpu_time_total + row(all, "backward", "range").cpu_time_total
  expect.near(whole.cpu_time_total - whole.self_cpu_time_total, inner, 1e-6)
  expect.near(p.self_cpu_time_total, whole.cpu_time_total, 1e-6)
  x:exp()
  expect.equal(row(p:key_averages(), "exp").count, 1)
end)

test("the table", function()
  local x = ml.ones(2)
  local p = profiler.profile(function()
    x:exp()
    for _ = 1, 5 do x:neg() end
  end)
  local lines = {}
  for each in p:key_averages():table({ sort_by = "count" }):gmatch "[^\n]+" do lines[#lines + 1] = each end
  expect.equal(#lines, 4)
  expect.truthy(lines[1]:find("^Name +Self CPU %% +Self CPU +CPU total %% +CPU total +CPU time avg"), lines[1])
  expect.truthy(lines[2]:find "^neg .* 5$", lines[2])
  expect.truthy(lines[3]:find "^exp .* 1$", lines[3])
  expect.truthy(lines[4]:find "^Self CPU time total: [%d.]+m?u?s$", lines[4])
  expect.equal(select(2, p:table({ row_limit = 1 }):gsub("\n", "")), 2)
  expect.equal(tostring(p), p:table())
  expect.error(function() p:table { sort_by = "speed" } end, "'sort_by' must be cpu_time, ")
  expect.error(function() p:table { rows = 3 } end, "unknown option 'rows'")
  expect.equal(p:total_average().count, 6)
end)

test("the trace is JSON that browsers open", function()
  local x = ml.ones(10):requires_grad_()
  local p = profiler.profile(function()
    record('a "range"', function() x:exp():sum():backward() end)
  end)
  harness.with_temp_file(function(path)
    p:export_chrome_trace(path)
    local file <close> = assert(io.open(path))
    local trace = json.decode(file:read "a")
    local events = {}
    for _, event in ipairs(trace.traceEvents) do
      events[event.name] = event
      expect.truthy(event.ph == "X" or event.ph == "M")
      expect.equal(math.type(event.pid), "integer")
      if event.ph == "X" then
        expect.truthy(event.ts >= 0 and event.dur >= 0)
        expect.equal(math.type(event.tid), "integer")
      end
    end
    local range, exp, node = events['a "range"'], events.exp, events.ExpBackward
    expect.equal(range.cat, "user_annotation")
    expect.equal(exp.cat, "cpu_op")
    expect.equal(exp.args.bytes >= 40, true)
    expect.truthy(exp.args.where:find "trace_test.lua:%d+")
    for _, inner in ipairs { exp, node } do
      expect.truthy(inner.ts >= range.ts and inner.ts + inner.dur <= range.ts + range.dur + 1e-6)
    end
    expect.equal(io.open(path .. ".part"), nil)
  end)
  expect.error(function() p:export_chrome_trace("/nowhere/there/trace.json") end, "export_chrome_trace")
  expect.error(function() p:export_chrome_trace(3) end, "'path' must be a string")
end)

test("a profile that is not enabled keeps nothing, and ranges without one cost nothing", function()
  local ran
  local p = profiler.profile({ enabled = false }, function() ran = record("r", ml.exp, ml.ones(2)) end)
  expect.equal(ran.shape:tolist(), { 2 })
  expect.equal(#p:key_averages(), 0)
  expect.equal(#p.function_events, 0)
  harness.with_temp_file(function(path)
    p:export_chrome_trace(path)
    local file <close> = assert(io.open(path))
    expect.equal(#json.decode(file:read "a").traceEvents, 1)
  end)
end)

test("ranges end in any order, with errors and with the profile", function()
  local x = ml.ones(2)
  local p
  local outer_end
  do
    local running <close> = profiler.profile()
    p = running
    local outer, inner = record "outer", record "inner"
    x:exp()
    do local _ <close> = outer end
    x:neg()
    do local _ <close> = inner end
    expect.error(function() record("failing", function() error "no" end) end, "no")
    outer_end = record "left"
    x:abs()
  end
  do local _ <close> = outer_end end
  local all = p:key_averages()
  for _, name in ipairs { "outer", "inner", "failing", "left" } do
    expect.equal(row(all, name, "range").count, 1, name)
  end
  expect.truthy(is_inside(span(p, "exp"), span(p, "inner")))
  expect.falsy(is_inside(span(p, "neg"), span(p, "inner")))
end)

test("an error in backward ends the node that ran", function()
  local x = ml.ones(2):requires_grad_()
  local p = profiler.profile(function()
    local h = x:exp()
    h:register_hook(function() error "no" end)
    pcall(function() h:sum():backward() end)
    x:neg()
  end)
  expect.equal(row(p:key_averages(), "ExpBackward", "backward").count, 1)
  expect.falsy(is_inside(span(p, "neg"), span(p, "ExpBackward")))
end)

test("profiles nest, stop, and ml.profile has ops only", function()
  local x = ml.ones(2):requires_grad_()
  local outer, inner, plain
  outer = profiler.profile(function()
    plain = ml.profile(function()
      inner = profiler.profile()
      record("r", function() x:exp():sum():backward() end)
      inner:stop()
      x:exp()
      inner:stop()
    end)
  end)
  expect.equal(row(inner:key_averages(), "exp").count, 1)
  expect.equal(row(outer:key_averages(), "exp").count, 2)
  expect.equal(row(inner:key_averages(), "r", "range").count, 1)
  expect.equal(row(outer:key_averages(), "ExpBackward", "backward").count, 1)
  for _, event in ipairs(plain.events) do expect.equal(event.kind, "op") end
end)

test("wrong arguments", function()
  expect.error(function() record(3) end, "record_function: the name must be a string, got number")
  expect.error(function() record("r", 3) end, "record_function: a function is expected, got number")
  expect.error(function() profiler.profile({ enable = true }) end, "did you mean 'enabled'")
  expect.error(function() profiler.profile({}, 3) end, "profile: a function is expected, got number")
end)

harness.run()
