-- tests/hostile/modes.lua: modes without end: kept in a table, inside one another, in coroutines, on
-- threads with small stacks. There is a bound, and an error; afterwards all works.

-- What puts a mode on the stack; "{}" stands for the rest of a block or nothing.
local MAKERS = {
  { "saved_tensors_hooks", "ml.autograd.graph.saved_tensors_hooks(function(t) return t end, function(t) return t end)" },
  { "save_on_cpu", "ml.autograd.graph.save_on_cpu()" },
  { "disable_saved_tensors_hooks", "ml.autograd.graph.disable_saved_tensors_hooks 'x'" },
  { "allow_mutation_on_saved_tensors", "ml.autograd.graph.allow_mutation_on_saved_tensors()" },
  { "dual_level", "ml.autograd.forward_ad.dual_level()" },
  { "profile", "ml.autograd.profiler.profile()" },
  { "autocast", "ml.autocast {}" },
  { "override", "ml.override(function(op, arguments, call) return call(arguments) end)" },
}

-- Ops of every kind, recorded and not.
local WORK = [[
  local function work()
    local w = ml.ones(3, 3, { requires_grad = true })
    local y = ml.ones(3, 3):matmul(w)
    y[1] = 2
    y:view(9):add_(1)
    y:exp():sum():backward()
    return w.grad:sum():item()
  end
]]

local rows = {}

for _, maker in ipairs(MAKERS) do
  local name, code = maker[1], maker[2]
  rows[#rows + 1] = { "thousands of kept values of " .. name, WORK .. ([[
    local kept, before = {}, work()
    local ok, message = pcall(function() for i = 1, 20000 do kept[i] = %s end end)
    pcall(work)
    local count = #kept
    for i = count, 1, -1 do getmetatable(kept[i]) kept[i] = nil end
    warn "@off"
    collect()
    return ok, count >= 100 and count < 20000, tostring(message):find "nest too deeply" ~= nil, work() == before ]])
    :format(code), gives = "false, true, true, true" }
  rows[#rows + 1] = { name .. " inside itself without end", WORK .. ([[
    local before = work()
    local function f()
      local _ <close> = %s
      work()
      local n = f()
      return n + 1
    end
    local ok, message = pcall(f)
    message = tostring(message)
    return ok, message:find "nest too deeply" ~= nil or message:find "overflow" ~= nil, work() == before ]])
    :format(code), gives = "false, true, true" }
  for _, kib in ipairs { 256, 2048 } do
    rows[#rows + 1] = { ("%s inside itself with a stack of %d KiB"):format(name, kib), WORK .. ([[
      local before = work()
      local function f()
        local _ <close> = %s
        work()
        local n = f()
        return n + 1
      end
      print(pcall(f) == false and work() == before and "good") ]]):format(code),
      exit = 0, out = "^good\n$", setup = "ulimit -s " .. kib,
      sanitized = kib < 1000 and "its frames are larger" or nil }
  end
end

for _, row in ipairs {
  { "no_grad inside no_grad three thousand times", [[
      local kept = {}
      for i = 1, 3000 do kept[i] = ml.no_grad() end
      local off = not ml.is_grad_enabled()
      for i = 3000, 1, -1 do getmetatable(kept[i]) end
      kept = nil
      warn "@off"
      collect()
      return off, ml.is_grad_enabled() ]], gives = "true, true" },
  { "modes of many kinds, closed in any order", [[
      local kept = {}
      for round = 1, 20 do
        for i = 1, 150, 3 do
          kept[i] = ml.autograd.forward_ad.dual_level()
          kept[i + 1] = ml.autocast {}
          kept[i + 2] = ml.autograd.graph.save_on_cpu()
        end
        warn "@off"
        kept = {}
        collect()
      end
      return ml.ones(2):sum():item() ]], gives = "2.0" },
  { "coroutines inside one another that have each put modes on the stack", [[
      local function nest(depth)
        local hold <close> = ml.autograd.graph.save_on_cpu()
        local again <close> = ml.autocast {}
        if depth == 0 then return ml.ones(2):sum():item() end
        local ok, out = coroutine.resume(coroutine.create(nest), depth - 1)
        if not ok then error(out, 0) end
        return out
      end
      return nest(20), (pcall(nest, 150)) ]], gives = "2.0, false" },
  { "a coroutine whose modes find no room where it is resumed", [[
      local threads = {}
      for i = 1, 3 do
        threads[i] = coroutine.create(function()
          local kept = {}
          for k = 1, 90 do kept[k] = ml.autocast {} end
          coroutine.yield()
          for k = 90, 1, -1 do kept[k] = nil end
          return #kept
        end)
        assert(coroutine.resume(threads[i]))
      end
      local refused = {}
      local outer = {}
      for k = 1, 150 do outer[k] = ml.autocast {} end
      for i = 1, 3 do
        local ok, message = coroutine.resume(threads[i])
        refused[i] = not ok and message:find "nest too deeply" ~= nil
      end
      warn "@off"
      outer = nil
      collect()
      local last = { coroutine.resume(threads[1]) }
      return refused[1], refused[3], last[1], last[2], ml.is_autocast_enabled() ]],
    gives = "true, true, true, 0, false" },
  { "checkpoints inside one another without end", [[
      local function f(x) return ml.utils.checkpoint(f, x * 2) end
      local from = os.clock()
      local ok = pcall(f, ml.ones(1, { requires_grad = true }))
      local y = ml.utils.checkpoint(function(x) return x:exp() end, ml.zeros(1, { requires_grad = true }))
      return ok, os.clock() - from < 20, y:item() ]], gives = "false, true, 1.0" },
  { "a checkpoint that runs itself again in its second run, without end", [[
      local function f(x)
        local w = ml.ones(1, { requires_grad = true })
        ml.enable_grad(function() ml.utils.checkpoint(f, w):sum():backward() end)
        return x:exp()
      end
      return (pcall(function() ml.utils.checkpoint(f, ml.ones(1, { requires_grad = true })):sum():backward() end)) ]],
    gives = "false" },
  { "vmaps inside one another without end", [[
      local function f(x) return ml.func.vmap(f)(x) end
      return (pcall(f, ml.ones(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1))) ]],
    gives = "false" },
} do rows[#rows + 1] = row end

return rows
