-- tests/hostile/workers.lua: data sets that attack the workers of a loader, scripts that leave them
-- in the middle, and processes and interpreters that end while they run.

-- A data set of 8 whose `get` is the code, with `i` and `self`.
local function set(code)
  return [[
    local class = require "moonlet.class"
    local data = ml.data
    local Set = class("Set", data.Dataset)
    function Set:init() self.log = {} end
    function Set:size() return 8 end
    function Set:get(i) do ]] .. code .. [[ end return i end
    local function loader(n, o)
      o = o or {}
      o.num_workers = n
      return data.DataLoader(Set(), o)
    end
    local function sum(l)
      local total = 0
      for x in l do total = total + x:sum():item() end
      return total
    end
  ]]
end

local function own(code) return 'local ml = require "moonlet"\n' .. code end

-- Ends with its workers at work.
local ENDLESS = set "if i > 2 then while true do pcall(function() while true do end end) end end"

return {
  { "a data set that ends the process", set "if i == 3 then os.exit(9) end" .. "return sum(loader(2))",
    fails = "worker 1, batch 3: .*os.exit: a worker does not end the process" },
  { "a data set that changes what it can reach", set [[
      _G.print, _G.pairs, math.random, self.log[i] = nil, nil, nil, i
      package.loaded.moonlet, package.loaded["moonlet.data.fetch"], package.path = nil, nil, nil
      setmetatable(_G, { __index = function() error "no" end }) ]] .. [[
      return sum(loader(2)), (print and pairs and math.random) ~= nil, #package.path > 0 ]],
    gives = "36, true, true" },
  { "a data set that changes its class", set "getmetatable(self).get = error getmetatable(self).__index = nil" .. [[
      local ok = pcall(sum, loader(1))
      return ok, sum(data.DataLoader({ 1, 2 })) ]], gives = "false, 3" },
  { "recursion without end", set "local function f() return 1 + f() end return f()" .. "return sum(loader(2))",
    fails = "stack overflow" },
  { "a list of a million tables in one another, there and back", set "return self.chain" .. [[
      local chain = {}
      for _ = 1, 1000000 do chain = { chain } end
      local s = Set()
      s.chain = chain
      local step = data.DataLoader(s, { num_workers = 1, batch_size = false,
        collate_fn = function(fields) return fields[1] end }):iter()
      local got, depth = step(), 0
      while got[1] do got, depth = got[1], depth + 1 end
      return depth ]], gives = "1000000" },
  { "tables with hostile metamethods cross raw", set "return 1" .. [[
      local s = Set()
      s.trap = setmetatable({ 1 }, { __index = error, __newindex = error, __len = error, __pairs = error,
        __metatable = false, __eq = error, __tostring = error })
      return sum(data.DataLoader(s, { num_workers = 2 })) ]], gives = "8" },
  { "a finalizer that fails", set "setmetatable({}, { __gc = function() error 'x' end }) collectgarbage()" ..
    "return sum(loader(2))", gives = "36" },
  { "one tensor that all workers write", set "self.shared:add_(1) self.shared:resize_(0):resize_(4)" .. [[
      local s = Set()
      s.shared = ml.zeros(4)
      return sum(data.DataLoader(s, { num_workers = 3 })), s.shared.shape[1] ]], gives = "36, 4" },
  { "freed tensors of a batch", set "local x = ml.ones(3) x:free() return x" .. [[
      return sum(loader(1, { batch_size = false, collate_fn = function(f) return f[1] end })) ]],
    fails = "a tensor that was freed" },
  { "coroutines in a data set", set [[ i = coroutine.wrap(function() coroutine.yield(i) end)() ]] ..
    "return sum(loader(2))", gives = "36" },
  { "a yield out of a data set", set "coroutine.yield(i)" .. "return sum(loader(1))",
    fails = "attempt to yield" },
  { "errors that are no strings", set "error(setmetatable({}, { __tostring = function() error 'y' end }))" ..
    "return sum(loader(1))", fails = "worker 1" },
  { "loops in coroutines end with the pass", set "coroutine.wrap(function() while true do end end)()" .. [[
      for _ = 1, 3 do loader(2):iter() collectgarbage() collectgarbage() end
      return 1 ]], gives = "1" },
  { "a long op ends with the pass", set "ml.zeros(1 << 10, 1 << 14):mm(ml.zeros(1 << 14, 1 << 16):expand(1 << 14, 1 << 16))" .. [[
      loader(1):iter()
      collectgarbage()
      collectgarbage()
      return 1 ]], gives = "1" },
  { "many passes begun and left", set "" .. [[
      for _ = 1, 20 do for _ in loader(3):iter() do break end end
      local kept = loader(2, { persistent_workers = true })
      for _ = 1, 20 do for _ in kept do break end end
      return sum(kept) ]], gives = "36" },
  { "wrong values for the internal module", [[
      local w = require "moonlet.workers"
      local pool = w.start(1, "moonlet.data.worker", {}, nil, nil, {})
      local refused = 0
      for _, f in ipairs { function() pool:send(0) end, function() pool:send(2) end, function() pool.send(io.stdout) end,
          function() pool.receive({}) end, function() w.start(0, "x") end, function() w.start(5000, "x") end,
          function() w.exchange(io.stdout) end, function() w.exchange(nil) end, function() w.seed "x" end } do
        if not pcall(f) then refused = refused + 1 end
      end
      pool:stop()
      pool:stop()
      return refused, (select(2, pcall(pool.receive, pool)):match "were stopped") ]], gives = "9, were stopped" },
  { "a module that is none", [[ return require("moonlet.workers").start(1, "no.such"):receive() ]],
    fails = "worker 1 has ended: .*module 'no.such' not found" },
  -- Ends of the process.
  { "the script ends while workers run", own(ENDLESS .. "STEP = loader(3):iter() STEP() print 'good'"), exit = 0, out = "good" },
  { "os.exit while workers run", own(ENDLESS .. "STEP = loader(3):iter() STEP() io.write 'good' os.exit(4)"), exit = 4,
    out = "good" },
  { "os.exit without closing", own(ENDLESS .. "STEP = loader(3):iter() STEP() io.write 'good' os.exit(4, false)"),
    exit = 4, out = "good" },
  { "an error while workers run", own(ENDLESS .. "STEP = loader(3):iter() STEP() error 'ends here'"), exit = 1,
    err = "ends here" },
  { "Ctrl-C while waiting", own(ENDLESS .. "print 'ready' io.stdout:flush() print(sum(loader(2)))"), exit = 1,
    out = "ready", err = "interrupted!", signals = { 0.5, "INT" } },
  { "Ctrl-C caught while waiting", own(ENDLESS .. [[print 'ready' io.stdout:flush()
      print(pcall(sum, loader(2))) print(sum(data.DataLoader({ 1, 2 }, { num_workers = 2 })))]]), exit = 0,
    out = "ready.*interrupted!.*3", signals = { 0.5, "INT" } },
  { "interpreters on several threads with workers each", own(set "" .. [[
      local out = 0
      for _ = 1, 3 do out = out + sum(loader(2)) end
      LEFT = loader(2):iter()
      LEFT()
      return tostring(out) ]]), threads = 4, exit = 0, out = "^108\n$" },
}
