-- tests/hostile/finalisers.lua: code that runs when values die: tensors brought back to life, ops and
-- errors in finalisers, and states that close while everything is in use.

return {
  -- While the state lives.
  { "a tensor brought back by a finaliser", [[
      local saved
      do
        local x = ml.ones(3)
        setmetatable({ x = x }, { __gc = function(self) saved = self.x end })
      end
      collect()
      return saved:sum() ]], fails = "the tensor has been freed" },
  { "a table of a tensor brought back, the tensor held elsewhere", [[
      local saved
      local x = ml.ones(3)
      do setmetatable({ x = x }, { __gc = function(self) saved = self end }) end
      collect()
      return rawequal(saved.x, x), saved.x:sum():item() ]], gives = "true, 3.0" },
  { "ops in a finaliser", [[
      local sum
      do setmetatable({}, { __gc = function() sum = (ml.ones(100) * 2):sum():item() end }) end
      collect()
      return sum ]], gives = "200.0" },
  { "backward in a finaliser", [[
      local w = ml.ones{2, requires_grad = true}
      local loss = (w * 3):sum()
      do setmetatable({}, { __gc = function() loss:backward() end }) end
      collect()
      return w.grad:sum():item() ]], gives = "6.0" },
  { "a finaliser amid a backward", [[
      local w = ml.ones{2, requires_grad = true}
      local y = w * 3
      local sum
      y:register_hook(function()
        do setmetatable({}, { __gc = function() sum = ml.ones(4):sum():item() end }) end
        collect()
      end)
      y:sum():backward()
      return sum, w.grad:sum():item() ]], gives = "4.0, 6.0" },
  { "set_grad_enabled in a finaliser", [[
      do setmetatable({}, { __gc = function() ml.set_grad_enabled(false) end }) end
      collect()
      local on = ml.is_grad_enabled()
      ml.set_grad_enabled(true)
      return on ]], gives = "false" },
  { "a finaliser that raises", [[
      do setmetatable({}, { __gc = function() error "hostile" end }) end
      collect()
      return ml.ones(2):sum():item() ]], gives = "2.0" },
  { "a finaliser that collects", [[
      local runs = 0
      for _ = 1, 10 do setmetatable({ ml.ones(10) }, { __gc = function() runs = runs + 1 collectgarbage() end }) end
      collect()
      return runs ]], gives = "10" },
  { "a finaliser that makes another, a thousand times", [[
      local runs = 0
      local function again()
        runs = runs + 1
        if runs < 1000 then setmetatable({ ml.ones(2) }, { __gc = again }) end
      end
      setmetatable({}, { __gc = again })
      for _ = 1, 1100 do collectgarbage() end
      return runs ]], gives = "1000" },
  { "a finaliser that frees what an op reads", [[
      local x = ml.ones(1000)
      do setmetatable({}, { __gc = function() x:free() end }) end
      local ok = pcall(function() for _ = 1, 1000 do local _ = x + ml.rand(1000) end end)
      collect()
      return (pcall(x.sum, x)) ]], gives = "false" },
  { "a finaliser that frees list items, while the list is read", [[
      local a, b = ml.ones(1000), ml.ones(1000)
      collectgarbage "stop"
      do setmetatable({}, { __gc = function() a:free() end }) end
      local list = setmetatable({ a, b }, { __len = function() collectgarbage() return 2 end })
      local ok = pcall(ml.cat, list)
      collectgarbage "restart"
      return ok ]], gives = "false" },
  { "wrap in a finaliser", [[
      local values = {}
      do
        setmetatable({}, { __gc = function()
          for v in coroutine.wrap(function() for i = 1, 3 do coroutine.yield(ml.ones(i):sum():item()) end end) do
            values[#values + 1] = v
          end
        end })
      end
      collect()
      return table.concat(values, " ") ]], gives = "1.0 2.0 3.0" },
  { "weak tables of tensors", [[
      local weak = setmetatable({}, { __mode = "kv" })
      for i = 1, 100 do weak[i] = ml.ones(i) weak[ml.ones(i)] = i end
      collect()
      return next(weak) ]], gives = "nil" },
  { "an ephemeron from a tensor to itself", [[
      local weak = setmetatable({}, { __mode = "k" })
      for _ = 1, 100 do local x = ml.ones(1) weak[x] = { x } end
      collect()
      return next(weak) ]], gives = "nil" },
  { "a hook that holds its own tensor is collected", [[
      local alive = setmetatable({}, { __mode = "k" })
      do
        local w = ml.ones{1, requires_grad = true}
        local y = w * 2
        alive[y] = true
        y:register_hook(function() return y.grad end)
      end
      for _ = 1, 10 do collectgarbage() end
      return next(alive) ]], gives = "nil" },
  { "a tensor freed, then collected", [[
      for _ = 1, 100 do local x = ml.ones(10) x:free() end
      collect()
      return ml.ones(1):item() ]], gives = "1.0" },
  { "a view outlives its freed base", [[
      local x = ml.ones(3)
      local y = x[{ { 2, 3 } }]
      x:free()
      collect()
      return y:sum():item() ]], gives = "2.0" },
  { "a storage outlives its freed tensor", [[
      local x = ml.ones(3)
      local s = x:storage()
      x:free()
      collect()
      return s[3] ]], gives = "1.0" },
  { "a gradient outlives its freed leaf", [[
      local w = ml.ones{3, requires_grad = true}
      w:sum():backward()
      local g = w.grad
      w:free()
      collect()
      return g:sum():item() ]], gives = "3.0" },
  { "a long chain of nodes is dropped", [[
      local w = ml.ones{1, requires_grad = true}
      local x = w
      for _ = 1, 200000 do x = x + 1 end
      x = nil
      collect()
      return w:item() ]], gives = "1.0" },
  { "a backward through a long chain", [[
      local w = ml.ones{1, requires_grad = true}
      local x = w
      for _ = 1, 100000 do x = x * 1 end
      x:backward()
      return w.grad:item() ]], gives = "1.0" },
  { "a generation of tensors in generational mode", [[
      collectgarbage "generational"
      for _ = 1, 2000 do local x = ml.ones(100) * 2 end
      collectgarbage "incremental"
      return ml.ones(1):item() ]], gives = "1.0" },
  { "the collector stopped", [[
      collectgarbage "stop"
      local x
      for _ = 1, 2000 do x = ml.ones(1000) * 2 end
      collectgarbage "restart"
      return x:sum():item() ]], gives = "2000.0" },
  { "scope results that hold each other", [[
      local t = ml.scope(function()
        local a, b = { ml.ones(1) }, { ml.ones(2) }
        a.b, b.a = b, a
        return a
      end)
      return t[1]:sum():item(), t.b[1]:sum():item() ]], gives = "1.0, 2.0" },
  { "scope that raises", [[
      local kept
      pcall(ml.scope, function() kept = ml.ones(2) error "lost" end)
      return ml.ones(2):sum():item() ]], gives = "2.0" },
  { "ten scopes in each other", [[
      local function nest(n)
        if n == 0 then return ml.ones(3) end
        return ml.scope(function() local x = nest(n - 1) return x + 1 end)
      end
      return nest(10):sum():item() ]], gives = "33.0" },

  -- While it closes.
  { "ops in a finaliser at the end", [[
      keep = setmetatable({}, { __gc = function() print((ml.ones(3) * 2):sum():item()) end }) ]],
    exit = 0, out = "^6.0\n$" },
  { "a tensor used in a finaliser at the end", [[
      keep = setmetatable({ ml.ones(3) }, { __gc = function(self) print(pcall(function() return self[1]:sum():item() end)) end }) ]],
    exit = 0, out = "^true\t3.0\n$" },
  { "require in a finaliser at the end", [[
      keep = setmetatable({}, { __gc = function() print(pcall(function() return require "moonlet.nn" == ml.nn end)) end }) ]],
    exit = 0, out = "^true\ttrue\n$" },
  { "a backward with hooks in a finaliser at the end", [[
      local w = ml.ones{1, requires_grad = true}
      local y = w * 2
      y:register_hook(function(g) print "hook" return g * 2 end)
      keep = setmetatable({}, { __gc = function() print(pcall(y.backward, y)) print(w.grad) end }) ]],
    exit = 0, out = "\n" },
  { "finalisers that raise at the end", [[
      for i = 1, 10 do _G[i] = setmetatable({ ml.ones(i) }, { __gc = function() error "hostile" end }) end ]],
    exit = 0 },
  { "finalisers that raise at the end, with warnings", [[
      warn "@on"
      keep = setmetatable({}, { __gc = function() error "hostile" end }) ]],
    exit = 0, err = "hostile" },
  { "finalisers that make finalisers at the end", [[
      local n = 0
      local function again() n = n + 1 if n < 20 then setmetatable({ ml.ones(1) }, { __gc = again }) end end
      keep = setmetatable({}, { __gc = again }) ]],
    exit = 0 },
  { "os.exit in a finaliser at the end", [[
      keep = setmetatable({ ml.ones(1) }, { __gc = function() os.exit(5) end }) ]],
    exit = { 0, 5 } },
  { "os.exit in a finaliser", [[
      do setmetatable({}, { __gc = function() os.exit(5) end }) end
      collectgarbage()
      os.exit(6) ]],
    exit = 5 },
  { "os.exit in a backward hook", [[
      local w = ml.ones{1, requires_grad = true}
      w:register_hook(function() os.exit(7) end)
      w:sum():backward() ]],
    exit = 7 },
  { "os.exit in a backward hook, without closing", [[
      local w = ml.ones{1, requires_grad = true}
      w:register_hook(function() os.exit(7, false) end)
      w:sum():backward() ]],
    exit = 7 },
  { "os.exit in a backward of a chain in a coroutine", [[
      coroutine.wrap(function()
        local w = ml.ones{1, requires_grad = true}
        local y = w * 2
        y:register_hook(function() coroutine.wrap(function() os.exit(8) end)() end)
        y:sum():backward()
      end)() ]],
    exit = 8 },
  { "os.exit in an override", [[ ml.override(function() os.exit(9) end, function() return ml.ones(2) + 1 end) ]],
    exit = 9 },
  { "os.exit in a list's metamethod", [[
      ml.cat(setmetatable({}, { __len = function() return 1 end, __index = function() os.exit(10) end })) ]],
    exit = 10 },
  { "os.exit in a debug hook inside an op", [[
      debug.sethook(function() os.exit(11) end, "c")
      return ml.ones(2) + 1 ]],
    exit = 11 },
  { "os.exit in scope, no_grad and autocast", [[
      ml.scope(function() ml.no_grad(function() ml.autocast({ enabled = true }, function() os.exit(12) end) end) end) ]],
    exit = 12 },
  { "os.exit while a file is written", [[
      local file = io.open("kept.txt", "w")
      file:write "whole"
      keep = file
      os.exit(13) ]],
    exit = 13, leaves = "kept.txt" },
  { "os.exit with a status out of range", [[ os.exit(256 + 14) ]], exit = 14 },
  { "live hooks, graphs, loaders and optimisers at the end", [[
      net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
      adam = optim.Adam(net:parameters(), { lr = 0.1 })
      net:register_forward_hook(function() end)
      net[1].weight:register_hook(function(g) return g * 2 end)
      loss = net(ml.ones(4, 2)):sum()
      loss:backward { retain_graph = true }
      adam:step()
      loader = data.DataLoader(data.TensorDataset(ml.ones(4, 2)), { batch_size = 2 })
      for x in loader do keep = x break end
      thread = coroutine.create(function() local _ <close> = ml.no_grad() coroutine.yield(net) end)
      coroutine.resume(thread)
      guard = ml.no_grad() ]],
    exit = 0 },
  { "a cycle of tensors, closures and hooks at the end", [[
      local w = ml.ones{1, requires_grad = true}
      local y = w * 2
      y:register_hook(function(g) return g * y:detach() * w end)
      w:register_hook(function() return y end)
      cycle = { w, y } cycle[3] = cycle ]],
    exit = 0 },
  { "an error that is a tensor", [[ error(ml.ones(1)) ]], exit = 1, err = "Tensor %(1,%) float32" },
  { "an error that is nil", [[ error(nil) ]], exit = 1, err = "nil" },
  { "an error whose __tostring raises", [[
      error(setmetatable({}, { __tostring = function() error "again" end })) ]],
    exit = 1, err = "again" },
  { "an error whose __tostring gives a table", [[
      error(setmetatable({}, { __tostring = function() return {} end })) ]],
    exit = 1, err = "error object is a table value" },
  { "a <close> that raises at the end of the script", [[
      local _ <close> = setmetatable({}, { __close = function() error "closing" end })
      error "first" ]],
    exit = 1, err = "closing" },
  { "the library taken apart before the end", [[
      package.loaded.moonlet = nil
      for key in pairs(package.loaded) do package.loaded[key] = nil end
      x = ml.ones{1, requires_grad = true}
      y = x * 2
      for key in next, ml do pcall(rawset, ml, key, nil) end ]],
    exit = 0 },
}
