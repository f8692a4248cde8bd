-- tests/lua/autograd/saved_hooks_test.lua: in what form the tape keeps tensors: packing by scripts, on the
-- CPU, on disk, and copies before changes in place.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect
local graph = ml.autograd.graph

local function leaf(values)
  return ml.tensor(values, { dtype = ml.float64, requires_grad = true })
end

local function list(t) return t:detach():tolist() end

local function same(t) return t end

test("what is saved is packed, and unpacked when it is needed", function()
  local a, b = leaf { 1, 2 }, leaf { 3, 4 }
  local packed, unpacked = {}, 0
  local function pack(t)
    expect.falsy(t.requires_grad)
    expect.falsy(ml.is_grad_enabled())
    packed[#packed + 1] = list(t)
    return { values = t:tolist() }
  end
  local function unpack(kept)
    unpacked = unpacked + 1
    return ml.tensor(kept.values, { dtype = ml.float64 })
  end
  local y = graph.saved_tensors_hooks(pack, unpack, function() return (a * b):exp() end)
  expect.equal(packed, { { 1, 2 }, { 3, 4 }, list(y) })
  expect.equal(unpacked, 0)
  local outside = a * b
  expect.equal(#packed, 3)
  y:sum():backward(nil, { retain_graph = true })
  expect.equal(unpacked, 3)
  expect.near(list(a.grad), { 3 * math.exp(3), 4 * math.exp(8) }, 1e-12)
  outside:sum():backward { inputs = { b } }
  expect.equal(unpacked, 3)
end)

test("packed tensors have their history for a second derivative", function()
  local a = leaf { 0.5 }
  local _ <close> = graph.saved_tensors_hooks(same, same)
  local y = (a * a):exp()
  local g = ml.grad(y, a, { create_graph = true })
  local h = ml.grad(g, a)
  local e = math.exp(0.25)
  expect.near(h:item(), 2 * e + 4 * 0.25 * e, 1e-12)
  local Cube = ml.autograd.Function {
    forward = function(ctx, x)
      ctx:save_for_backward(x)
      return x ^ 3
    end,
    backward = function(ctx, grad) return grad * ctx.saved_tensors[1] ^ 2 * 3 end,
  }
  g = ml.grad(Cube(a), a, { create_graph = true })
  expect.near(ml.grad(g, a):item(), 3, 1e-12)
end)

test("the innermost hooks count, and they end with their block", function()
  local a, log = leaf { 1 }, {}
  local function note(name)
    return function(t)
      log[#log + 1] = name
      return t
    end, same
  end
  local p1, u1 = note "outer"
  local p2, u2 = note "inner"
  graph.saved_tensors_hooks(p1, u1, function()
    a:exp()
    graph.saved_tensors_hooks(p2, u2, function() return a:exp() end)
    a:exp()
  end)
  expect.equal(log, { "outer", "inner", "outer" })
  pcall(graph.saved_tensors_hooks, p1, u1, function() error "out" end)
  a:exp()
  expect.equal(#log, 3)
  local co = coroutine.wrap(function()
    local _ <close> = graph.saved_tensors_hooks(p1, u1)
    coroutine.yield()
  end)
  co()
  a:exp()
  expect.equal(#log, 3)
end)

test("what pack and unpack may not do", function()
  local a = leaf { 1, 2 }
  local h = a * 1
  expect.error(function()
    graph.saved_tensors_hooks(function(t) return t:mul_(2) end, same, function() return h * h end)
  end, "pack changed its tensor in place")
  expect.error(function()
    graph.saved_tensors_hooks(function() error "cannot pack" end, same, function() return h * h end)
  end, "saved_hooks_test.lua:%d+: cannot pack")
  expect.error(function()
    graph.saved_tensors_hooks(function()
      local _ <close> = ml.enable_grad()
      error "under a guard"
    end, same, function() return h * h end)
  end, "under a guard")
  expect.truthy(ml.is_grad_enabled())
  local y = graph.saved_tensors_hooks(same, function() return 3 end, function() return (h * h):sum() end)
  expect.error(function() y:backward() end, "unpack must return a tensor, got number")
  y = graph.saved_tensors_hooks(same, function() return ml.ones(1, { dtype = ml.float64 }) end,
    function() return (h * h):sum() end)
  expect.error(function() y:backward() end,
    "unpack must give what was saved, of shape %(2,%), float64 on cpu, got shape %(1,%)")
  y = graph.saved_tensors_hooks(same, function() error "cannot unpack" end,
    function() return (a * a):sum() end)
  expect.error(function() y:backward() end, "saved_hooks_test.lua:%d+: cannot unpack")
  expect.error(function() graph.saved_tensors_hooks(same) end, "'unpack': a function is expected")
  expect.error(function() graph.saved_tensors_hooks(same, same, 3) end, "a function is expected")
end)

test("hooks may be refused for a block", function()
  graph.disable_saved_tensors_hooks("no hooks here", function()
    expect.error(function() graph.saved_tensors_hooks(same, same) end, "no hooks here")
    expect.error(function() graph.save_on_cpu() end, "no hooks here")
    local a = leaf { 2 }
    a:square():backward()
    expect.equal(list(a.grad), { 4 })
  end)
  local _ <close> = graph.saved_tensors_hooks(same, same)
  expect.error(function() graph.disable_saved_tensors_hooks "x" end, "hooks are active here")
end)

test("packed values go with their graph", function()
  local alive = setmetatable({}, { __mode = "k" })
  local function pack(t)
    local kept = { t }
    alive[kept] = true
    return kept
  end
  local function collected()
    for _ = 1, 4 do
      collectgarbage()
      ml.ones(1, { requires_grad = true }):sum():backward()  -- lets go of what the tape has dropped
    end
    return next(alive) == nil
  end
  local a = leaf { 1 }
  local y = graph.saved_tensors_hooks(pack, function(kept) return kept[1] end,
    function() return a:exp() end)
  expect.falsy(collected())
  y:backward()
  expect.truthy(collected(), "after a backward")
  y = graph.saved_tensors_hooks(pack, function(kept) return kept[1] end,
    function() return a:exp() end)
  expect.falsy(collected())
  expect.truthy(y.requires_grad)
  y = nil  -- luacheck: ignore
  expect.truthy(collected(), "after the graph")
end)

test("save_on_cpu and save_to_disk keep the values", function()
  local a = leaf { 1, 2 }
  local y = graph.save_on_cpu({}, function() return a:exp():sum() end)
  y:backward()
  expect.near(list(a.grad), { math.exp(1), math.exp(2) }, 1e-12)
  local p = ml.ones { 2, requires_grad = true }
  graph.save_on_cpu({ pin_memory = true }, function() return p:exp() end):sum():backward()
  expect.near(p.grad:totable(), { math.exp(1), math.exp(1) }, 1e-5)
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute(("mkdir '%s'"):format(folder)))
  local function files()
    local count = 0
    for _ in io.popen(("ls '%s'"):format(folder)):lines() do count = count + 1 end
    return count
  end
  a.grad = nil
  y = graph.save_to_disk({ folder = folder }, function()
    return (a[{ { 1, 2 } }]:t():exp() * a):sum()
  end)
  expect.truthy(files() >= 2)
  y:backward()
  expect.near(list(a.grad), { 2 * math.exp(1), 3 * math.exp(2) }, 1e-12)
  y = nil  -- luacheck: ignore
  for _ = 1, 3 do collectgarbage() end
  expect.equal(files(), 0)
  os.execute(("rmdir '%s'"):format(folder))
end)

test("saved tensors may be changed in place where that is allowed", function()
  local w = leaf { 1, 2 }
  graph.allow_mutation_on_saved_tensors(function()
    local a = w * 2
    local y = (a * a):sum()
    a:zero_()
    a[1] = 7
    y:backward()
  end)
  expect.equal(list(w.grad), { 8, 16 })
  local y, a
  graph.allow_mutation_on_saved_tensors(function()
    a = w * 2
    y = a:sin():sum()
  end)
  a:zero_()
  expect.error(function() y:backward() end, "after the block of allow_mutation_on_saved_tensors")
end)

harness.run()
