-- tests/lua/autograd/modes_test.lua: interception by scripts, the profiler and descriptions of ops: what they
-- see, what they change, and that they end however their block ends.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect

local function pass(_, arguments, call) return call(arguments) end

-- A handler that notes the names of the ops it sees.
local function noting()
  local seen = {}
  return function(op, arguments, call)
    seen[#seen + 1] = op.name
    return call(arguments)
  end, seen
end

local function names(seen) return table.concat(seen, " ") end

-- Whether any handler is still on the stack: none sees this op, and autocast is off.
local function expect_no_modes()
  expect.falsy(ml.is_autocast_enabled())
  expect.equal(ml.mm(ml.ones(2, 2), ml.ones(2, 2)).dtype, "float32")
end

test("an op tells the kind that its row has", function()
  local kinds = { exp = "pointwise", softmax = "structured", scatter_add_ = "update", nonzero = "allocating",
                  transpose = "view", flatten = "composite" }
  for name, kind in pairs(kinds) do
    local op = ml.ops.info(name)
    expect.equal(op.kind, kind)
    expect.equal(op.is_view, kind == "view")
  end
end)

-- Override ---------------------------------------------------------------------------------------

test("a handler sees an op's description and its arguments as a script gives them", function()
  local x = ml.randn(2, 3)
  local got = {}
  ml.override(function(op, arguments, call)
    got[op.name] = { op = op, arguments = arguments }
    return call(arguments)
  end, function()
    x:softmax(2)
    x:transpose(1, -1)
    x:sum({ dim = { 1 }, keepdim = true })
    x:add(3)
    x:select(1, 2)
    x:to("float64")
  end)
  local softmax = got.softmax
  expect.equal(softmax.op.kind, "structured")
  expect.equal(softmax.op.form, "plain")
  expect.equal(softmax.op.family, "softmax")
  expect.truthy(softmax.op.schema:find("softmax(Tensor x, Dim dim) -> Tensor", 1, true))
  expect.truthy(softmax.arguments[1] == x)
  expect.truthy(softmax.arguments.x == x)
  expect.equal(softmax.arguments[2], 2)
  expect.equal(softmax.arguments.dim, 2)
  expect.truthy(got.transpose.op.is_view)
  expect.equal(got.transpose.arguments[2], 1)
  expect.equal(got.transpose.arguments[3], 2)
  expect.equal(got.sum.arguments.dim[1], 1)
  expect.equal(#got.sum.arguments.dim, 1)
  expect.equal(got.sum.arguments.keepdim, true)
  expect.equal(got.sum.arguments.dtype, nil)
  expect.equal(got.add.arguments.other, 3)
  expect.equal(got.select.arguments[3], 2)
  expect.equal(got.to.arguments.dtype, "float64")
  expect_no_modes()
end)

test("arguments may be changed by position, by name, or given one by one", function()
  local x = ml.tensor { { 1, 2 }, { 3, 4 } }
  local function summed(handler)
    return ml.override(handler, function() return x:sum { dim = 1 } end):totable()
  end
  local function by_name(_, arguments, call)
    arguments.dim = { 2 }
    return call(arguments)
  end
  local function by_position(_, arguments, call)
    arguments[2] = { -1 }
    return call(arguments)
  end
  local function one_by_one(_, arguments, call)
    return call(arguments.x, { 2 }, table.unpack(arguments, 3, 4))
  end
  for _, handler in ipairs { by_name, by_position, one_by_one } do
    expect.equal(table.concat(summed(handler), " "), "3 7")
  end
  expect.equal(table.concat(summed(pass), " "), "4 6")
end)

test("what a handler returns takes the place of the results", function()
  local x = ml.ones(3)
  local y = ml.override(function(op, arguments, call)
    local result = call(arguments)
    return op.name == "mul" and result * 10 or result
  end, function() return x * 2 + 1 end)
  expect.equal(y:sum():item(), 63)
  local v, i = ml.override(function(op, arguments, call)
    local values, indices = call(arguments)
    if op.name == "sort" then values = values * 0 end
    return values, indices
  end, function() return ml.tensor({ 3, 1, 2 }):sort() end)
  expect.equal(v:sum():item(), 0)
  expect.equal(table.concat(i:totable(), " "), "2 3 1")
  local parts = ml.override(pass, function() return ml.arange(6):split(2) end)
  expect.equal(#parts, 3)
end)

test("results of the wrong number or kind are errors that name the op", function()
  local x = ml.ones(3)
  local function with(handler, f) return function() return ml.override(handler, f) end end
  local function add() return x + 1 end
  expect.error(with(function() end, add), "add: the handler of ml.override gives 0 results, 1 is expected")
  expect.error(with(function() return x, x end, add), "gives 2 results")
  expect.error(with(function() return 3 end, add), "add: result must be a tensor, got number")
  expect.error(with(function() return nil end, add), "missing")
  expect.error(with(function() return x end, function() return x:sort() end), "gives 1 result, 2 are expected")
  expect.error(with(function() return ml.zeros(3) end, function() return x:add_(1) end),
    "must return the tensor that is written, got another one")
  expect.error(with(function() return 1 end, function() return x:add_(1) end), "got number")
  local out = ml.empty(3)
  expect.error(with(function() return x end, function() return ml.add(x, 1, { out = out }) end),
    "must return the tensor that is written")
  expect.equal(x:sum():item(), 3)
  expect_no_modes()
end)

test("wrong arguments to call are errors that name the op and the argument", function()
  local x = ml.randn(2, 3)
  local function calling(...)
    local given, count = { ... }, select("#", ...)
    return function()
      return ml.override(function(_, _, call) return call(table.unpack(given, 1, count)) end,
        function() return x:softmax(1) end)
    end
  end
  expect.error(calling(x, "two"), "softmax: argument 'dim' must be an integer, got string")
  expect.error(calling(x, 0), "softmax: argument 'dim' is 0: dimensions start at 1")
  expect.error(calling(3, 1), "softmax: argument 'x' must be a tensor, got number")
  expect.error(calling(x), "softmax: argument 'dim' is missing")
  expect.error(calling(x, 1, 2), "softmax: too many arguments")
  expect.error(calling { x, 3 }, "softmax")
  expect.error(function()
    ml.override(function(_, arguments, call)
      arguments.dimm = 2
      return call(arguments)
    end, function() return x:softmax(1) end)
  end, "no argument 'dimm'")
  expect_no_modes()
end)

test("in-place and out= forms come with what they write", function()
  local x, out = ml.ones(3), ml.empty(3)
  local got = {}
  ml.override(function(op, arguments, call)
    got[#got + 1] = ("%s %s %s"):format(op.name, op.form, table.concat(op.writes, ","))
    if op.form == "out" then expect.truthy(arguments.out == out) end
    return call(arguments)
  end, function()
    expect.truthy(x:add_(1) == x)
    expect.truthy(ml.mul(x, 3, { out = out }) == out)
  end)
  expect.equal(table.concat(got, "; "), "add_ in_place 1; mul_out out 1")
  expect.equal(out:sum():item(), 18)
  -- Not going on leaves it as it was.
  ml.override(function(_, arguments) return arguments[1] end, function() x:mul_(100) end)
  expect.equal(x:sum():item(), 6)
end)

test("ops in a handler do not come to it, ops inside an op do", function()
  local depth, most, seen = 0, 0, {}
  ml.override(function(op, arguments, call)
    seen[#seen + 1] = op.name
    depth = depth + 1
    most = math.max(most, depth)
    local unseen = ml.ones(2):exp()
    expect.equal(unseen.shape[1], 2)
    local result = call(arguments)
    depth = depth - 1
    return result
  end, function() return ml.randn(2, 3):softmin(1) end)
  local text = names(seen)
  expect.truthy(text:find("softmin neg softmax", 1, true), text)
  expect.falsy(text:find "exp")
  expect.equal(most, 2)
end)

test("handlers nest: the inner one comes first and goes on to the outer one", function()
  local order = {}
  local function tagged(tag)
    return function(op, arguments, call)
      order[#order + 1] = tag .. op.name
      return call(arguments)
    end
  end
  local x = ml.ones(2)
  ml.override(tagged "outer ", function()
    ml.override(tagged "inner ", function() return x:exp() end)
    return x:neg()
  end)
  expect.equal(table.concat(order, ", "), "inner exp, outer exp, outer neg")
end)

test("a handler may call twice, and not after it has ended", function()
  local x, kept = ml.ones(2), nil
  local y = ml.override(function(_, arguments, call)
    kept = call
    return call(arguments) + call(arguments)
  end, function() return x:exp() end)
  expect.near(y[1]:item(), 2 * math.exp(1), 1e-5)
  expect.error(function() kept(x) end, "used after its handler has ended")
end)

test("an error in a handler has its line and leaves the stack as it was", function()
  local x = ml.ones(2)
  local message
  ml.override(pass, function()
    local good
    good, message = pcall(ml.override, function() error "no" end, function() return x:exp() end)
    expect.falsy(good)
  end)
  expect.truthy(message:find "modes_test.lua:%d+: no", message)
  expect.error(function()
    ml.override(function(_, arguments, call) return call(arguments) + ml.ones(5) end,
      function() return x:exp() end)
  end, "modes_test.lua:%d+: add: ")
  expect.error(function() ml.override(pass, function() error "inside" end) end, "inside")
  expect_no_modes()
end)

test("an error in a handler lets go of the tensors of the call", function()
  collectgarbage()
  collectgarbage()
  local before = ml.memory.live_bytes()
  for _ = 1, 5 do
    pcall(function()
      ml.override(function(_, arguments, call)
        call(arguments)
        error "no"
      end, function() return ml.ones(1000, 100):exp() end)
    end)
  end
  collectgarbage()
  collectgarbage()
  expect.equal(ml.memory.live_bytes(), before)
end)

test("the ops of backward and of hooks come to a handler too", function()
  local x = ml.ones { 3, requires_grad = true }
  local handler, seen = noting()
  local y = x:exp()
  y:register_hook(function(g) return g:neg() end)
  ml.override(handler, function() y:sum():backward() end)
  local text = names(seen)
  expect.truthy(text:find("neg", 1, true), text)
  expect.truthy(text:find("mul", 1, true), text)
  expect.near(x.grad[1]:item(), -math.exp(1), 1e-5)
end)

test("gradients flow through a handler that replaces an op", function()
  local x = ml.tensor({ 2.0 }, { requires_grad = true })
  local y = ml.override(function(op, arguments, call)
    if op.name == "exp" then return arguments.x * arguments.x end
    return call(arguments)
  end, function() return x:exp() end)
  y:sum():backward()
  expect.equal(x.grad:item(), 4)
end)

test("a coroutine that yields inside leaves its caller without the mode", function()
  local handler, seen = noting()
  local x = ml.ones(2)
  local co = coroutine.wrap(function()
    ml.override(handler, function()
      x:exp()
      coroutine.yield()
      x:neg()
    end)
    x:abs()
    coroutine.yield()
  end)
  co()
  x:sin()
  expect.equal(names(seen), "exp")
  ml.autocast({}, function() co() end)
  x:cos()
  expect.equal(names(seen), "exp neg")
  expect_no_modes()
end)

test("a coroutine runs under its resumer's modes, and its own go with it", function()
  local outer, outer_seen = noting()
  local inner, inner_seen = noting()
  local x = ml.ones(2)
  local co = coroutine.create(function()
    local _ <close> = ml.override(inner)
    x:exp()
    coroutine.yield()
    x:neg()
    coroutine.yield()
  end)
  ml.override(outer, function() assert(coroutine.resume(co)) end)
  assert(coroutine.resume(co))
  expect.equal(names(outer_seen), "exp")
  expect.equal(names(inner_seen), "exp neg")
  expect.truthy(coroutine.close(co))
  x:sin()
  expect.equal(names(inner_seen), "exp neg")
  expect_no_modes()
end)

test("guards end in any order, and one that is dropped ends with a warning", function()
  local x = ml.ones(2, 2)
  local a, seen_a = noting()
  local b, seen_b = noting()
  local first, second = ml.override(a), ml.override(b)
  do local _ <close> = first end
  x:exp()
  do local _ <close> = second end
  x:neg()
  expect.equal(names(seen_a), "")
  expect.equal(names(seen_b), "exp")
  do
    local dropped = ml.autocast()
    expect.equal(type(dropped), "userdata")
    expect.equal(ml.mm(x, x).dtype, "bfloat16")
  end
  collectgarbage()
  expect_no_modes()
end)

test("a handler that refers to its own guard can be collected", function()
  local x, calls = ml.ones(2), 0
  local watched = setmetatable({}, { __mode = "v" })
  do
    local guard
    guard = ml.override(function(_, arguments, call)
      calls = calls + (guard and 1 or 0)
      return call(arguments)
    end)
    watched[1] = guard
    x:exp()
  end
  collectgarbage()
  collectgarbage()
  expect.equal(watched[1], nil)
  x:exp()
  expect.equal(calls, 1)
end)

-- Profiler ---------------------------------------------------------------------------------------

local function event_of(profile, name)
  local found
  for _, event in ipairs(profile.events) do
    if event.name == name then
      expect.falsy(found, "two events of " .. name)
      found = event
    end
  end
  return found or error("no event " .. name)
end

test("a profile counts calls, time, bytes and lines", function()
  local x = ml.ones(100, 10)
  local line = debug.getinfo(1, "l").currentline + 2
  local p = ml.profile(function()
    for _ = 1, 3 do x:exp() end
    x:add_(1)
  end)
  local exp, add = event_of(p, "exp"), event_of(p, "add_")
  expect.equal(exp.count, 3)
  expect.truthy(exp.bytes >= 3 * 4000 and exp.bytes < 3 * 8000, exp.bytes)
  expect.truthy(exp.where:find("modes_test.lua:" .. line, 1, true), exp.where)
  expect.equal(add.bytes, 0)
  expect.truthy(exp.self_time > 0 and exp.self_time <= exp.total_time)
  x:exp()
  expect.equal(event_of(p, "exp").count, 3)
end)

test("a profile's own time leaves out the ops inside", function()
  local x = ml.randn(200, 200)
  local p = ml.profile(function() x:softmin(1) end)
  local whole, neg, softmax = event_of(p, "softmin"), event_of(p, "neg"), event_of(p, "softmax")
  expect.near(whole.total_time - whole.self_time, neg.total_time + softmax.total_time, 1e-9)
  expect.equal(whole.self_bytes, 0)
  expect.equal(whole.bytes, neg.bytes + softmax.bytes)
end)

test("a profile holds for a block, stops, and sees backward", function()
  local x = ml.ones { 3, requires_grad = true }
  local p
  do
    local running <close> = ml.profile { sync = true }
    p = running
    x:mul(x):sum():backward()
  end
  expect.truthy(event_of(p, "sum").count >= 1)
  local calls = 0
  for _, event in ipairs(p.events) do
    if event.name == "mul" then calls = calls + event.count end
  end
  expect.truthy(calls >= 3, calls)
  local q = ml.profile()
  x:exp()
  q:stop()
  x:exp()
  q:stop()
  expect.equal(event_of(q, "exp").count, 1)
  expect_no_modes()
end)

test("a profile's table is sorted and aligned", function()
  local x = ml.ones(2)
  local p = ml.profile(function()
    x:exp()
    for _ = 1, 5 do x:neg() end
  end)
  local lines = {}
  for line in p:table({ sort = "count" }):gmatch "[^\n]+" do lines[#lines + 1] = line end
  expect.equal(#lines, 3)
  expect.truthy(lines[1]:find "^op +calls +self +total +mean +bytes$", lines[1])
  expect.truthy(lines[2]:find "^neg +5 ", lines[2])
  expect.truthy(lines[3]:find "^exp +1 ", lines[3])
  expect.equal(#lines[2], #lines[1])
  expect.truthy(p:table({ by = "line" }):find("modes_test.lua:", 1, true))
  expect.equal(select(2, p:table({ rows = 1 }):gsub("\n", "")), 1)
  expect.error(function() p:table { sort = "speed" } end, "profile table: 'sort' must be count, .* or name, got \"speed\"")
  expect.error(function() p:table("name", "ops") end, "'by' must be op or line, got \"ops\"")
  expect.error(function() p:table { rows = 0 } end, "'rows' must be an integer of at least 1, got 0")
  expect.equal(p:table("name", "line", 1), p:table { sort = "name", by = "line", rows = 1 })
  expect.error(function() p:table { order = "time" } end, "unknown option 'order'")
  expect.error(function() ml.profile { synch = true } end, "did you mean 'sync'")
  expect.error(function() ml.profile { sync = 3 } end, "'sync' must be true or false")
  for _, options in ipairs { true, { sync = true }, {} } do
    local got
    ml.profile(options, function(...) got = { ... } end, 1, nil, 3)
    expect.equal({ got[1], got[2], got[3] }, { 1, nil, 3 })
  end
  expect.error(function() ml.profile(true, false, print) end, "profile: takes at most 1 argument")
end)

test("a profile of a function that fails ends with it", function()
  local x = ml.ones(2)
  local kept
  expect.error(function()
    ml.profile(function()
      x:exp()
      kept = true
      error "no"
    end)
  end, "no")
  expect.truthy(kept)
  expect_no_modes()
end)

-- Descriptions -----------------------------------------------------------------------------------

test("ml.ops lists and describes ops", function()
  local known = {}
  for _, name in ipairs(ml.ops.list()) do known[name] = true end
  for _, name in ipairs { "add", "add_", "add_out", "softmax", "copy_", "transpose", "dropout" } do
    expect.truthy(known[name], name)
  end
  local add = ml.ops.info "add_"
  expect.equal(add.row, "add")
  expect.equal(add.form, "in_place")
  expect.equal(table.concat(add.writes, ","), "1")
  expect.equal(add.arguments[2].name, "other")
  expect.equal(#add.results, 1)
  expect.equal(ml.ops.info("mm").autocast.cpu, "lower_precision")
  expect.equal(ml.ops.info("sort").results[2].name, "indices")
  expect.equal(ml.ops.info("uniform_").random, true)
  expect.equal(ml.ops.info("sum").arguments[3].default, "false")
  expect.equal(ml.ops.info "add", ml.ops.info "add")
  expect.error(function() ml.ops.info "sofmax" end, "did you mean 'softmax'")
  expect.error(function() ml.ops.info(3) end, "the name of an op is expected")
end)

test("every op in the list is described", function()
  for _, name in ipairs(ml.ops.list()) do
    local op = ml.ops.info(name)
    expect.equal(op.name, name)
    expect.truthy(#op.results >= 1 or #op.writes >= 1, name)
    expect.truthy(#op.dtypes >= 1, name)
    if op.form ~= "plain" then expect.truthy(#op.writes >= 1, name) end
  end
end)

test("help knows the modes", function()
  local help = require "moonlet.help"
  expect.truthy(help.text("autocast"):find "bfloat16")
  expect.truthy(help.text(ml.override):find "handler")
  expect.truthy(help.text("ml.profile"):find "how often")
  expect.truthy(help.text("is_autocast_enabled"):find "autocast")
end)

harness.run()
