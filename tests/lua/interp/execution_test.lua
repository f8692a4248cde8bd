-- tests/lua/interp/execution_test.lua: grad modes across guards, errors and coroutines; random generators;
-- the life of Lua functions that the tape holds.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local function collect()
  for _ = 1, 4 do collectgarbage() end
end

-- Runs a script in a process of its own; returns what it prints, warnings included.
local function run(code, options)
  local path = os.tmpname()
  local file <close> = assert(io.open(path, "w"))
  file:write(code)
  file:close()
  local pipe = assert(io.popen(('"%s" %s "%s" 2>&1'):format(arg[-1], options or "", path)))
  local out = pipe:read "a"
  pipe:close()
  os.remove(path)
  local name = path:match "[^/\\]+$"
  return (out:gsub("[^%s:]*:?[^%s:]*" .. name:gsub("%p", "%%%0"), "script"))
end

-- Guards ------------------------------------------------------------------------------------------

test("every guard ends with its block, also by an error", function()
  do
    local _ <close> = ml.set_grad_enabled(false)
    expect.equal(ml.is_grad_enabled(), false)
    do
      local _ <close> = ml.set_grad_enabled(true)
      expect.equal(ml.is_grad_enabled(), true)
    end
    expect.equal(ml.is_grad_enabled(), false)
  end
  expect.equal(ml.is_grad_enabled(), true)
  expect.error(function()
    local _ <close> = ml.no_grad()
    local _ <close> = ml.enable_grad()
    local _ <close> = ml.set_grad_enabled(false)
    error "inside"
  end, "inside")
  expect.equal(ml.is_grad_enabled(), true)
end)

test("set_grad_enabled without <close> stays", function()
  ml.set_grad_enabled(false)
  collect()
  expect.equal(ml.is_grad_enabled(), false)
  do
    local _ <close> = ml.enable_grad()
    ml.set_grad_enabled(false)
    collect()
    expect.equal(ml.is_grad_enabled(), false)
  end
  expect.equal(ml.is_grad_enabled(), false)
  ml.set_grad_enabled(true)
end)

test("guards closed out of order go back to the mode before both", function()
  local close = function(guard) local _ <close> = guard end
  local outer, inner = ml.no_grad(), ml.enable_grad()
  close(outer)
  expect.equal(ml.is_grad_enabled(), true, "the inner one is active")
  close(inner)
  expect.equal(ml.is_grad_enabled(), true, "the mode before the outer one")
  outer, inner = ml.no_grad(), ml.no_grad()
  close(outer)
  expect.equal(ml.is_grad_enabled(), false)
  close(inner)
  close(inner)
  expect.equal(ml.is_grad_enabled(), true)
end)

test("a dropped guard ends when it is collected", function()
  ml.no_grad()
  expect.equal(ml.is_grad_enabled(), false)
  collect()
  expect.equal(ml.is_grad_enabled(), true)
  -- Under another guard it has no say; that one goes back to the mode before both.
  ml.no_grad()
  do
    local _ <close> = ml.no_grad()
    collect()
    expect.equal(ml.is_grad_enabled(), false)
  end
  expect.equal(ml.is_grad_enabled(), true)
end)

test("a guard dropped in a hook does not change how backward runs", function()
  local a = ml.ones { 2, requires_grad = true }
  local inside
  local y = a * 2
  local guard = ml.enable_grad()
  y:register_hook(function(g)
    guard = nil
    collect()
    inside = ml.is_grad_enabled()
    return g * 3
  end)
  y:sum():backward()
  expect.equal(inside, false)
  expect.equal(a.grad.requires_grad, false)
  expect.equal(guard, nil)
  expect.equal(ml.is_grad_enabled(), true)
end)

test("a dropped guard warns with its line, one that is closed does not", function()
  local out = run([[
local ml = require "moonlet"
do local _ <close> = ml.no_grad() end
ml.no_grad(function() end)
ml.set_grad_enabled(true)
ml.no_grad()
collectgarbage()
coroutine.wrap(function() local _ <close> = ml.no_grad() coroutine.yield() end)()
collectgarbage()
collectgarbage()
print(ml.is_grad_enabled())
]], "-W")
  expect.equal(out, "Lua warning: script:5: a grad mode guard was dropped without <close>; "
    .. "the mode before it is back\ntrue\n")
end)

-- Coroutines --------------------------------------------------------------------------------------

test("a coroutine that yields inside no_grad leaves its caller as it was", function()
  local seen = {}
  local function note() seen[#seen + 1] = ml.is_grad_enabled() end
  local step = coroutine.wrap(function()
    do
      local _ <close> = ml.no_grad()
      note()
      coroutine.yield()
      note()
      pcall(function()
        local _ <close> = ml.enable_grad()
        coroutine.yield()
        note()
        error "inside"
      end)
      note()
    end
    note()
  end)
  step()
  expect.equal(ml.is_grad_enabled(), true)
  ml.no_grad(step)
  expect.equal(ml.is_grad_enabled(), true)
  step()
  expect.equal(table.concat({ tostring(seen[1]), tostring(seen[2]), tostring(seen[3]),
    tostring(seen[4]), tostring(seen[5]) }, " "), "false false true false true")
end)

test("a coroutine starts with the mode of who resumes it first", function()
  local function new()
    return coroutine.create(function()
      coroutine.yield(ml.is_grad_enabled())
      return ml.is_grad_enabled()
    end)
  end
  local inside, outside = new(), new()
  ml.no_grad(function()
    expect.equal(select(2, coroutine.resume(inside)), false)
  end)
  expect.equal(select(2, coroutine.resume(outside)), true)
  expect.equal(select(2, coroutine.resume(inside)), false)
  ml.no_grad(function()
    expect.equal(select(2, coroutine.resume(outside)), true)
    expect.equal(ml.is_grad_enabled(), false)
  end)
end)

test("no_grad(f) may yield", function()
  local step = coroutine.wrap(function(...)
    local a, b = ml.no_grad(function(...)
      coroutine.yield(ml.is_grad_enabled(), ...)
      return ml.is_grad_enabled(), 7
    end, ...)
    coroutine.yield(a, b)
    return ml.is_grad_enabled()
  end)
  local mode, x = step(5)
  expect.equal(mode, false)
  expect.equal(x, 5)
  expect.equal(ml.is_grad_enabled(), true)
  local a, b = step()
  expect.equal(a, false)
  expect.equal(b, 7)
  expect.equal(step(), true)
end)

test("closing a coroutine and errors in one leave the caller's mode alone", function()
  local function stuck()
    local _ <close> = ml.no_grad()
    local _ <close> = setmetatable({}, { __close = function()
      expect.equal(ml.is_grad_enabled(), false)
    end })
    coroutine.yield()
    error "inside"
  end
  local co = coroutine.create(stuck)
  coroutine.resume(co)
  expect.equal(ml.is_grad_enabled(), true)
  ml.no_grad(function()
    expect.equal(coroutine.close(co), true)
    expect.equal(ml.is_grad_enabled(), false)
  end)
  expect.equal(ml.is_grad_enabled(), true)
  co = coroutine.create(stuck)
  coroutine.resume(co)
  expect.equal(select(1, coroutine.resume(co)), false)
  expect.equal(ml.is_grad_enabled(), true)
  coroutine.close(co)
  expect.equal(ml.is_grad_enabled(), true)
  local step = coroutine.wrap(stuck)
  step()
  expect.error(step, "inside")
  expect.equal(ml.is_grad_enabled(), true)
  -- What Lua's own functions refuse they still refuse.
  expect.error(function() coroutine.close(coroutine.running()) end, "cannot close")
  expect.error(function() coroutine.close(3) end, "thread expected")
  expect.error(function() coroutine.resume(3) end, "thread")
end)

test("a guard that outlives the coroutine it was made in harms nobody", function()
  local held = {}
  local step = coroutine.wrap(function()
    held.guard = ml.no_grad()
    coroutine.yield()
    return ml.is_grad_enabled()
  end)
  step()
  expect.equal(ml.is_grad_enabled(), true)
  do local _ <close> = held.guard end
  expect.equal(ml.is_grad_enabled(), true)
  expect.equal(step(), true, "the guard acts on the coroutine that made it")
  coroutine.wrap(function() held.guard = ml.no_grad() end)()
  collect()
  do local _ <close> = held.guard end
  coroutine.wrap(function() held.guard = ml.no_grad() end)()
  held.guard = nil
  collect()
  expect.equal(ml.is_grad_enabled(), true)
end)

test("thousands of suspended coroutines keep their modes", function()
  local steps = {}
  for i = 1, 3000 do
    steps[i] = coroutine.wrap(function()
      local _ <close> = ml.set_grad_enabled(i % 2 == 0)
      while true do coroutine.yield(ml.is_grad_enabled()) end
    end)
    steps[i]()
  end
  for i = 1, 3000, 3 do steps[i] = false end
  collect()
  for i = 1, 3000 do
    if steps[i] then expect.equal(steps[i](), i % 2 == 0) end
  end
  expect.equal(ml.is_grad_enabled(), true)
end)

-- Generators --------------------------------------------------------------------------------------

test("a generator has a seed, a state and a device", function()
  local g = ml.Generator { seed = 5 }
  expect.equal(g:initial_seed(), 5)
  expect.equal(g.device, nil)
  expect.equal(tostring(g), "Generator (seed 5)")
  expect.equal(g:manual_seed(9), g)
  expect.equal(g:initial_seed(), 9)
  local state = g:get_state()
  expect.equal(state.seed, 9)
  expect.equal(state.offset, 0)
  local other = ml.Generator("cpu")
  expect.equal(other.device, "cpu")
  expect.equal(other:set_state(state), other)
  expect.equal(other:initial_seed(), 9)
  local a, b = g:seed(), g:seed()
  expect.truthy(math.type(a) == "integer" and a >= 0 and a ~= b)
  expect.equal(g:initial_seed(), b)
  expect.truthy(ml.Generator():initial_seed() ~= ml.Generator():initial_seed())
end)

test("the default generator is what manual_seed and random ops use", function()
  local g = ml.default_generator
  g:manual_seed(7)
  local a = ml.rand(4):tolist()
  local state = g:get_state()
  local b = ml.rand(4):tolist()
  ml.manual_seed(7)
  expect.near(ml.rand(4):tolist(), a)
  ml.set_rng_state(state)
  expect.near(ml.rand(4):tolist(), b)
  expect.equal(g:initial_seed(), 7)
  expect.equal(ml.get_rng_state().offset, g:get_state().offset)
end)

test("a generator refuses what is wrong", function()
  expect.error(function() ml.Generator { sed = 1 } end, "did you mean 'seed'")
  expect.error(function() ml.Generator { seed = 1.5 } end, "seed")
  expect.error(function() ml.Generator "gpu" end, "gpu")
  expect.error(function() return ml.Generator().sed end, "did you mean 'seed'")
  expect.error(function() ml.Generator().seed(3) end, "a generator is expected, got number")
  expect.error(function() ml.Generator():set_state(3) end, "get_state")
  expect.error(function() ml.Generator():set_state({ seed = 1 }) end, "offset")
  expect.error(function() ml.Generator():manual_seed("x") end, "integer")
end)

test("the first interpreter of a process starts with the same numbers each time", function()
  local code = 'local ml = require "moonlet" print(ml.rand(3):tolist()[1], ml.randn(2):tolist()[2])'
  local first = run(code)
  expect.equal(run(code), first)
  expect.equal(run("require 'moonlet'.manual_seed(67280421310721)\n" .. code), first)
end)

-- Functions held by the tape ----------------------------------------------------------------------

test("a hook lives as long as the graph may reach it", function()
  local a = ml.ones { 2, requires_grad = true }
  local calls = 0
  local y
  do
    local h = a * 2
    h:register_hook(function(g)
      calls = calls + 1
      return g * h:detach()
    end)
    y = h * 3
  end
  collect()
  y:sum():backward(nil, { retain_graph = true })
  collect()
  y:sum():backward(nil, { retain_graph = true })
  expect.equal(calls, 2)
  expect.near(a.grad:tolist(), { 24, 24 })
end)

test("what a hook refers to lives with it", function()
  for round = 1, 20 do
    local a = ml.ones { 2, requires_grad = true }
    local loss, grown
    do
      local h = a * 2
      local at = { y = h * 3 }
      local file = setmetatable({ open = true }, { __gc = function(self) self.open = false end })
      h:register_hook(function(g)
        expect.equal(file.open or grown, true)
        return g * at.y:detach()
      end)
      -- In some rounds the graph grows after the collector has seen the tensor without one.
      grown = round % 2 == 0
      if grown then
        at.y = ml.full({ 2 }, 6.0)
        collect()
      end
      for _ = 1, round do collectgarbage("step", 20) end
      loss = (h * 3):sum()
    end
    for _ = 1, round do collectgarbage("step", 20) end
    if round % 3 == 0 then collect() end
    loss:backward()
    expect.near(a.grad:tolist(), { 36, 36 })
  end
end)

test("a hook of a leaf lives as long as a graph has the leaf", function()
  local calls = 0
  local y
  do
    local leaf = ml.ones { 2, requires_grad = true }
    leaf:register_hook(function() calls = calls + 1 end)
    y = leaf * 2
  end
  collect()
  y:sum():backward()
  expect.equal(calls, 1)
end)

-- Whether what `make` returns is collected once it has returned. Weak keys, since weak values lose
-- what a finalizer may still reach.
local function is_collected(make)
  local weak = setmetatable({}, { __mode = "k" })
  weak[make()] = true
  collect()
  collect()
  return next(weak) == nil
end

test("hooks that refer to their tensor are collected without backward", function()
  expect.truthy(is_collected(function()
    local marker = {}
    local h = ml.ones { 2, requires_grad = true } * 2
    h:register_hook(function() return h, marker end)
    return marker
  end), "a result")
  expect.truthy(is_collected(function()
    local net = { weight = ml.ones { 2, requires_grad = true } }
    net.weight:register_hook(function() return net end)
    return net
  end), "a leaf in a module")
  expect.truthy(is_collected(function()
    local marker, handle = {}, nil
    local h = ml.ones { 2, requires_grad = true } * 2
    handle = h:register_hook(function() handle.remove(marker) end)
    return marker
  end), "through its handle")
  expect.truthy(is_collected(function()
    local marker = {}
    local h = ml.ones { 2, requires_grad = true } * 2
    local y = h * 2
    h:register_hook(function() marker.called = true end)
    y:sum():backward()
    return marker
  end), "after backward")
end)

test("bytes of tensors with hooks come back", function()
  collect()
  local before = ml.memory.live_bytes()
  for _ = 1, 50 do
    local h = ml.zeros { 10000, requires_grad = true } * 2
    local y = h + 1
    h:register_hook(function(g) return g * h:detach() end)
    y:sum():backward()
    local leaf = ml.zeros { 10000, requires_grad = true }
    leaf:register_hook(function() return leaf end)
  end
  collect()
  collect()
  expect.truthy(ml.memory.live_bytes() - before < 1e5, "live bytes went back")
end)

test("what refers back to the tensor through the tape stays until it is cut", function()
  local handle
  local function make()
    local h = ml.ones { 2, requires_grad = true } * 2
    local box = { h * 2 }
    handle = h:register_hook(function() return box end)
    return box
  end
  expect.falsy(is_collected(make), "the hook holds the box, whose graph holds the hook")
  expect.truthy(is_collected(function()
    local box = make()
    handle.remove()
    return box
  end))
end)

test("a removed hook is not called, whatever became of its tensor", function()
  local a = ml.ones { 2, requires_grad = true }
  local called = false
  local function hooked()
    local h = a * 2
    return h * 3, h:register_hook(function() called = true end), h
  end
  do
    local y, handle = hooked()
    collect()
    handle.remove()
    y:sum():backward()
    expect.equal(called, false)
  end
  local y, handle, h = hooked()
  h:free()
  handle.remove()
  handle.remove()
  y:sum():backward()
  expect.equal(called, false)
end)

test("a freed tensor's hook is still called by the graph", function()
  local a = ml.ones { 2, requires_grad = true }
  local y
  do
    local h = a * 2
    y = h * 3
    h:register_hook(function(g) return g * 10 end)
    h:free()
  end
  collect()
  y:sum():backward()
  expect.near(a.grad:tolist(), { 60, 60 })
end)

test("an error in a hook has a traceback into it", function()
  local a = ml.ones { 2, requires_grad = true }
  local function broken() error "in the hook" end
  a:register_hook(function() broken() end)
  local _, trace = xpcall(function() a:sum():backward() end, debug.traceback)
  expect.truthy(trace:find("in the hook", 1, true))
  expect.truthy(trace:find("in upvalue 'broken'", 1, true), trace)
end)

test("backward in a coroutine calls hooks there", function()
  local a = ml.ones { 2, requires_grad = true }
  local where
  a:register_hook(function() where = coroutine.running() end)
  local co = coroutine.create(function() a:sum():backward() end)
  expect.equal(coroutine.resume(co), true)
  expect.equal(where, co)
end)

-- Tensors freed under way -------------------------------------------------------------------------

-- A list that frees `x` when it is read.
local function freeing(x, values)
  return setmetatable({}, {
    __len = function() x:free() return #values end,
    __index = function(_, i) return values[i] end,
  })
end

test("a list that frees a tensor while it is read is an error", function()
  local calls = {
    function(x) return x:view(freeing(x, { 4 })) end,
    function(x) return x:sum(freeing(x, { 1 })) end,
    function(x) return x:sum { dim = freeing(x, { 1 }) } end,
    function(x) return ml.permute(x, freeing(x, { 1 })) end,
    function(x) return x:expand(freeing(x, { 4 })) end,
    function(x) return ml.cat(freeing(x, { x, x }), 1) end,
    function(x) return ml.grad(freeing(x, { x }), { x }) end,
    function(x) return ml.zeros(freeing(x, { 4 })):copy_(x) end,
    function(x)
      local list
      list = setmetatable({}, { __len = function()
        x:free()
        setmetatable(list, nil)
        return 0
      end })
      return x:view(list)
    end,
  }
  for i, call in ipairs(calls) do
    expect.error(function() return call(ml.ones { 4, requires_grad = true }) end, "freed", i)
  end
  -- A list with metamethods that leave tensors alone is a list.
  local sizes = setmetatable({}, { __len = function() return 2 end, __index = function() return 2 end })
  expect.equal(tostring(ml.ones(4):view(sizes).shape), "(2, 2)")
end)

test("a finalizer that frees tensors while fields are read harms nothing", function()
  local shapes = 0
  for _ = 1, 200 do
    local x = ml.ones(2, 3)
    for _ = 1, 20 do setmetatable({}, { __gc = function() x:free() end }) end
    pcall(function()
      while true do
        local shape, stride = x.shape, x:stride()
        expect.equal(#shape, 2)
        expect.equal(stride[1], 3)
        shapes = shapes + 1
      end
    end)
  end
  expect.truthy(shapes > 0)
end)

test("a hook that frees the tensors of the graph harms nothing", function()
  local a = ml.ones { 2, requires_grad = true }
  local h = a * 2
  local y = h * h
  local loss = y:sum()
  h:register_hook(function(g)
    h:free()
    y:free()
    loss:free()
    return g
  end)
  loss:backward()
  expect.near(a.grad:tolist(), { 8, 8 })
end)

test("a guard in a hook that fails leaves the mode as it was before backward", function()
  local x = ml.ones(2, { requires_grad = true })
  for _, guard in ipairs { ml.enable_grad, ml.no_grad, ml.inference_mode } do
    local y = x * 2
    y:register_hook(function()
      local _ <close> = guard()
      error "in the hook"
    end)
    expect.error(function() y:sum():backward() end, "in the hook")
    expect.truthy(ml.is_grad_enabled())
    expect.falsy(ml.is_inference_mode_enabled())
  end
end)

harness.run()
