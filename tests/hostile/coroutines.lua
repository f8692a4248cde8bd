-- tests/hostile/coroutines.lua: coroutines that yield, end, die and are closed where the library calls
-- Lua or holds a mode, and hooks and modes that outlive the coroutine that made them.

return {
  -- Yielding where C++ stands between.
  { "yield inside a backward hook", [[
      local w = ml.ones{1, requires_grad = true}
      local y = w * 2
      y:register_hook(coroutine.yield)
      return coroutine.wrap(function() y:sum():backward() end)() ]], fails = "attempt to yield across" },
  { "yield inside a hook, then another backward", [[
      local w = ml.ones{1, requires_grad = true}
      local y = w * 2
      local handle = y:register_hook(coroutine.yield)
      pcall(coroutine.wrap(function() y:sum():backward() end))
      handle:remove()
      local z = (w * 5):sum()
      z:backward()
      return w.grad:item() ]], gives = "5.0" },
  { "yield inside a post-accumulate hook", [[
      local w = ml.ones{1, requires_grad = true}
      w:register_post_accumulate_grad_hook(coroutine.yield)
      return coroutine.wrap(function() w:sum():backward() end)() ]], fails = "attempt to yield across" },
  { "yield inside an override's handler", [[
      return coroutine.wrap(function()
        return ml.override(coroutine.yield, function() return ml.ones(2) + 1 end)
      end)() ]], fails = "attempt to yield across" },
  { "yield inside a forward hook of a module", [[
      local net = nn.Linear(1, 1)
      net:register_forward_hook(function() coroutine.yield "paused" end)
      local run = coroutine.wrap(function() return net(ml.ones(1, 1)).shape end)
      return run(), run() ]], gives = "paused, (1, 1)" },
  { "yield inside a module's forward", [[
      local Slow = nn.class("Slow", nn.Module)
      function Slow:forward(x) return coroutine.yield(x) + 1 end
      local run = coroutine.wrap(function() return Slow()(ml.ones(1)) end)
      return run():item(), run(ml.tensor { 4.0 }):item() ]], gives = "1.0, 5.0" },
  { "yield inside no_grad", [[
      local run = coroutine.wrap(function()
        ml.no_grad(function() coroutine.yield(ml.is_grad_enabled()) end)
        return ml.is_grad_enabled()
      end)
      return run(), ml.is_grad_enabled(), run() ]], gives = "false, true, true" },
  { "yield inside autocast", [[
      local run = coroutine.wrap(function()
        ml.autocast({ dtype = ml.bfloat16 }, function() coroutine.yield(ml.is_autocast_enabled()) end)
        return ml.is_autocast_enabled()
      end)
      return run(), ml.is_autocast_enabled(), run() ]], gives = "true, false, false" },
  { "yield inside scope", [[
      local kept
      local run = coroutine.wrap(function()
        return ml.scope(function()
          kept = ml.ones(3)
          coroutine.yield(1)
          return kept * 2
        end)
      end)
      local first = run()
      local outside = ml.ones(2)
      local x = run()
      return first, x:sum():item(), outside:sum():item() ]], gives = "1, 6.0, 2.0" },
  { "yield inside a profile", [[
      local run = coroutine.wrap(function()
        local p = ml.profile(function() ml.ones(2) coroutine.yield() end)
        return #p.events > 0
      end)
      run()
      return run() ]], gives = "true" },
  { "yield inside a sampler of a DataLoader", [[
      local set = data.TensorDataset(ml.arange(1, 4))
      local run = coroutine.wrap(function()
        for x in data.DataLoader(set, { batch_size = 2 }) do coroutine.yield(x:sum():item()) end
        return "end"
      end)
      return run(), run(), run() ]], gives = "3, 7, end" },
  { "yield inside a closure of an optimiser", [[
      local w = ml.ones{1, requires_grad = true}
      local sgd = optim.SGD({ w }, { lr = 1 })
      local run = coroutine.wrap(function()
        sgd:step(function()
          sgd:zero_grad()
          local loss = (w * 3):sum()
          loss:backward()
          coroutine.yield "paused"
          return loss
        end)
        return w:item()
      end)
      return run(), ml.is_grad_enabled(), run() ]], gives = "paused, true, -2.0" },
  { "yield in a finaliser", [[
      local message
      do setmetatable({}, { __gc = function() message = select(2, pcall(coroutine.yield)) end }) end
      coroutine.wrap(collect)()
      return message ]], gives = "attempt to yield across a C-call boundary" },
  { "yield as a compare function of table.sort over tensors", [[
      return coroutine.wrap(function() table.sort({ ml.ones(1), ml.ones(1) }, coroutine.yield) end)() ]],
    fails = "attempt to yield across" },
  { "yield as __index of a proxy inside an op's arguments", [[
      local proxy = setmetatable({}, { __index = function(_, k) return coroutine.yield(k) end })
      local run = coroutine.wrap(function() return ml.ones(2) * proxy.factor end)
      return run(), run(3):sum():item() ]], gives = "factor, 6.0" },

  -- Ending in the middle.
  { "closed inside no_grad", [[
      local thread = coroutine.create(function() ml.no_grad(coroutine.yield) end)
      coroutine.resume(thread)
      return coroutine.close(thread), ml.is_grad_enabled() ]], gives = "true, true" },
  { "closed with a <close> guard open", [[
      local thread = coroutine.create(function() local _ <close> = ml.no_grad() coroutine.yield() end)
      coroutine.resume(thread)
      return coroutine.close(thread), ml.is_grad_enabled() ]], gives = "true, true" },
  { "closed inside autocast", [[
      local thread = coroutine.create(function() ml.autocast({ enabled = true }, coroutine.yield, "inside") end)
      local _, where = coroutine.resume(thread)
      return where, coroutine.close(thread), ml.is_autocast_enabled() ]], gives = "inside, true, false" },
  { "closed inside an override", [[
      local calls = 0
      local thread = coroutine.create(function()
        ml.override(function(_, arguments, call) calls = calls + 1 return call(arguments) end, coroutine.yield)
      end)
      coroutine.resume(thread)
      coroutine.close(thread)
      local _ = ml.ones(2) + 1
      return calls ]], gives = "0" },
  { "closed inside a scope", [[
      local kept
      local thread = coroutine.create(function()
        ml.scope(function() kept = ml.ones(3) coroutine.yield() end)
      end)
      coroutine.resume(thread)
      coroutine.close(thread)
      return kept:sum():item(), ml.ones(2):sum():item() ]], gives = "3.0, 2.0" },
  { "abandoned inside no_grad and collected", [[
      local thread = coroutine.create(function() local _ <close> = ml.no_grad() coroutine.yield() end)
      coroutine.resume(thread)
      thread = nil
      collect()
      return ml.is_grad_enabled() ]], gives = "true" },
  { "abandoned inside an override and collected", [[
      local thread = coroutine.create(function() ml.override(error, coroutine.yield) end)
      coroutine.resume(thread)
      thread = nil
      collect()
      return (ml.ones(2) + 1):sum():item() ]], gives = "4.0" },
  { "an error inside no_grad inside a coroutine", [[
      local ok, message = coroutine.resume(coroutine.create(function() ml.no_grad(function() error "lost" end) end))
      return ok, ml.is_grad_enabled() ]], gives = "false, true" },
  { "a guard closed by another coroutine", [[
      local guard
      local thread = coroutine.create(function()
        guard = ml.no_grad()
        coroutine.yield()
        return ml.is_grad_enabled()
      end)
      coroutine.resume(thread)
      debug.getmetatable(guard).__close(guard)
      return ml.is_grad_enabled(), select(2, coroutine.resume(thread)) ]], gives = "true, true" },
  { "a guard made in a dead coroutine", [[
      local guard
      coroutine.wrap(function() guard = ml.no_grad() end)()
      collect()
      local inside = ml.is_grad_enabled()
      debug.getmetatable(guard).__close(guard)
      return inside, ml.is_grad_enabled() ]], gives = "true, true" },
  { "set_grad_enabled inside a coroutine stays there", [[
      coroutine.wrap(function() ml.set_grad_enabled(false) end)()
      return ml.is_grad_enabled() ]], gives = "true" },
  { "a coroutine resumed from two modes", [[
      local run = coroutine.wrap(function() while true do coroutine.yield(ml.is_grad_enabled()) end end)
      local first = run()
      return first, ml.no_grad(run), run() ]], gives = "true, true, true" },
  { "a coroutine that resumes itself", [[
      local thread
      thread = coroutine.create(function() return coroutine.resume(thread) end)
      return select(2, coroutine.resume(thread)), select(3, coroutine.resume(thread)) ]], gives = "false" },
  { "a coroutine that closes itself", [[
      return coroutine.wrap(function() return coroutine.close((coroutine.running())) end)() ]],
    fails = "cannot close a running coroutine" },
  { "the main coroutine closed from another", [[
      local main = coroutine.running()
      return coroutine.wrap(function() return coroutine.close(main) end)() ]],
    fails = "cannot close a normal coroutine" },
  { "a dead coroutine resumed", [[
      local thread = coroutine.create(function() error "first" end)
      coroutine.resume(thread)
      return coroutine.resume(thread) ]], gives = "false, cannot resume dead coroutine" },
  { "resume of a tensor", [[ return coroutine.resume(ml.ones(1)) ]], fails = "bad argument #1 to 'resume'" },
  { "wrap of a tensor", [[ return coroutine.wrap(ml.ones(1)) ]], fails = "function expected" },
  { "ten thousand coroutines inside no_grad", [[
      local threads = {}
      for i = 1, 10000 do
        threads[i] = coroutine.create(function() ml.no_grad(coroutine.yield) end)
        coroutine.resume(threads[i])
      end
      threads = nil
      collect()
      return ml.is_grad_enabled() ]], gives = "true" },
  { "two hundred coroutines in each other", [[
      local function nest(n)
        if n == 0 then return ml.ones(2):sum():item() end
        return coroutine.wrap(nest)(n - 1)
      end
      return pcall(nest, 150) ]], gives = "true, 2.0" },
  { "coroutines in each other without end", [[
      local function nest() return coroutine.wrap(nest)() end
      return nest() ]], fails = "C stack overflow" },
  { "backward inside a hook inside a coroutine", [[
      local w = ml.ones{1, requires_grad = true}
      local y = w * 2
      y:register_hook(function(g)
        return coroutine.wrap(function()
          local v = ml.ones{1, requires_grad = true}
          ml.enable_grad(function() (v * 7):sum():backward() end)
          return g * v.grad
        end)()
      end)
      y:sum():backward()
      return w.grad:item() ]], gives = "14.0" },
  { "backward of a graph made in a dead coroutine", [[
      local w = ml.ones{1, requires_grad = true}
      local loss = coroutine.wrap(function() return (w * 3):sum() end)()
      collect()
      loss:backward()
      return w.grad:item() ]], gives = "3.0" },
  { "a hook registered in a coroutine that was closed", [[
      local w = ml.ones{1, requires_grad = true}
      local y = w * 2
      local thread = coroutine.create(function()
        y:register_hook(function(g) return g * 10 end)
        coroutine.yield()
      end)
      coroutine.resume(thread)
      coroutine.close(thread)
      thread = nil
      collect()
      y:sum():backward()
      return w.grad:item() ]], gives = "20.0" },
  { "a hook that kills the coroutine that holds it", [[
      local w = ml.ones{1, requires_grad = true}
      local y = w * 2
      local thread = coroutine.create(function()
        local handle <close> = y:register_hook(function(g) return g * 10 end)
        coroutine.yield()
      end)
      coroutine.resume(thread)
      y:register_hook(function() coroutine.close(thread) end)
      y:sum():backward()
      return w.grad:item() ]], gives = "20.0" },
  { "a graph freed by a hook of it", [[
      local w = ml.ones{1, requires_grad = true}
      local y = w * 2
      local loss = y:sum()
      y:register_hook(function() loss:free() y:free() collect() end)
      loss:backward()
      return w.grad:item() ]], gives = "2.0" },
  { "the leaf freed by a hook of its graph", [[
      local w = ml.ones{1, requires_grad = true}
      local y = w * 2
      y:register_hook(function() w:free() end)
      y:sum():backward()
      return w.grad ]], fails = "freed" },
  { "a hook that removes itself", [[
      local w = ml.ones{1, requires_grad = true}
      local calls, handle = 0, nil
      handle = w:register_hook(function() calls = calls + 1 handle:remove() end)
      w:sum():backward()
      w:sum():backward()
      return calls ]], gives = "1" },
  { "a hook that registers another each time", [[
      local w = ml.ones{1, requires_grad = true}
      local calls = 0
      local function hook() calls = calls + 1 if calls < 100 then w:register_hook(hook) end end
      w:register_hook(hook)
      w:sum():backward()
      return calls < 100 ]], gives = "true" },
  { "a hook that runs the same backward", [[
      local w = ml.ones{1, requires_grad = true}
      local y = w * w
      local loss = y:sum()
      y:register_hook(function() loss:backward() end)
      loss:backward() ]], fails = "C stack overflow" },
  { "a hook that changes its gradient in place", [[
      local w = ml.ones{2, requires_grad = true}
      local y = w * 2
      y:register_hook(function(g) g:mul_(10) end)
      local z = y * 1
      z:sum():backward()
      return w.grad:sum():item() ]], gives = "40.0" },
  { "a hook that changes an expanded gradient in place", [[
      local w = ml.ones{2, requires_grad = true}
      local y = w * 2
      y:register_hook(function(g) g:mul_(10) end)
      y:sum():backward() ]], fails = "mul_: several elements" },
  { "a hook that returns a wrong shape", [[
      local w = ml.ones{2, requires_grad = true}
      w:register_hook(function() return ml.ones(3) end)
      w:sum():backward() ]], fails = "shape" },
  { "a hook that returns a string", [[
      local w = ml.ones{2, requires_grad = true}
      w:register_hook(function() return "no" end)
      w:sum():backward() ]], fails = "hook" },
  { "a hook that returns a freed tensor", [[
      local w = ml.ones{2, requires_grad = true}
      w:register_hook(function(g) local h = g * 1 h:free() return h end)
      w:sum():backward() ]], fails = "freed" },
  { "a hook that is no function", [[ ml.ones{2, requires_grad = true}:register_hook(7) ]], fails = "function" },
  { "a hook on a constant", [[ ml.ones(2):register_hook(print) ]], fails = "require" },
  { "error(nil) in a hook", [[
      local w = ml.ones{2, requires_grad = true}
      w:register_hook(function() error(nil) end)
      local ok = pcall(w.backward, w:sum())
      return ok, w.grad ]], gives = "false, nil" },
  { "a debug hook that raises inside an op", [[
      local calls = 0
      local ok, message = pcall(function()
        debug.sethook(function()
          calls = calls + 1
          if calls > 20 then debug.sethook() error "hostile" end
        end, "", 1)
        for _ = 1, 100 do local _ = ml.ones(2) + 1 end
      end)
      debug.sethook()
      return ok ]], gives = "false" },
  { "a debug hook that runs ops inside ops", [[
      local inside = false
      debug.sethook(function()
        if inside then return end
        inside = true
        local _ = ml.ones(2):sum()
        inside = false
      end, "", 3)
      local x = ml.ones(2)
      for _ = 1, 200 do x = x + 1 end
      debug.sethook()
      return x:sum():item() ]], gives = "402.0" },
  { "a debug hook that yields", [[
      local thread = coroutine.create(function() local x = ml.ones(2) + 1 return x:sum():item() end)
      debug.sethook(thread, coroutine.yield, "", 1)
      local steps, ok, value = 0, nil, nil
      repeat ok, value = coroutine.resume(thread) steps = steps + 1
      until not ok or coroutine.status(thread) == "dead" or steps > 100
      return ok, value ]], gives = "false, attempt to yield across a C-call boundary" },
  { "setlocal of tensors below the running function", [[
      local function change() debug.setlocal(2, 1, "hostile") end
      local function victim() local x = ml.ones(2) change() return x + 1 end
      return victim() ]], fails = "add" },
  { "upvalues of the library's C functions replaced", [[
      local meta = debug.getmetatable(ml.ones(1))
      return refused("a C function keeps its upvalues", { 1, 2 }, function(i) debug.setupvalue(meta.__index, i, 7) end)
    ]], gives = "2 of 2" },
}
