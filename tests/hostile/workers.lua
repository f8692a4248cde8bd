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

-- Ops on memory that a worker changes meanwhile between good positions and ones far outside: each is
-- done or refused, and none reads or writes elsewhere. Each is tried often, and once before alone, where
-- it must be done.
local function race(code)
  return set [[
    self.begun:fill_(true)
    while true do
      self.at:fill_(1 << 40) self.swaps:fill_(1 << 28) self.numbers:fill_(1 / 0) self.mask:fill_(true)
      self.at:fill_(1) self.swaps:fill_(1) self.numbers:random_(-9, 9) self.mask:fill_(false)
    end
  ]] .. [[
    local F, n = ml.nn.functional, 20000
    local s = Set()
    local at, swaps = ml.ones(n):long(), ml.ones(40):int()
    local numbers, mask = ml.zeros(n), ml.zeros(n, { dtype = "bool" })
    local begun = ml.zeros(1, { dtype = "bool" })
    s.at, s.swaps, s.numbers, s.mask, s.begun = at, swaps, numbers, mask, begun
    local x, ones = ml.ones(10), ml.ones(n)
    local function try(f) return f() end
    local function all() ]] .. code .. [[ end
    all()
    local running <close> = select(4, data.DataLoader(s, { num_workers = 1 }):iter())
    while not begun:item() do end
    try = pcall
    for _ = 1, 12 do all() end
    return x:isfinite():all():item() ]]
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
  { "an index that a worker changes, to read", race [[
      try(function() return x:index_select(1, at) end)
      try(function() return x:gather(1, at) end)
      try(function() return x[at] end)
      try(function() return x:take(at) end)
      try(function() return ml.ones(10, 3)[{ at, at }] end)
      try(function() return x:take_along_dim(at, 1) end)
      try(function() return F.embedding(at, ml.ones(10, 4)) end)
      try(function() return F.embedding_bag(at, ml.ones(10, 4), at:narrow(1, 1, 50)) end)
      try(function() return F.nll_loss(ml.ones(n, 2), at) end)
      try(function() return F.cross_entropy(ml.ones(n, 2), at) end)
      try(function() return F.ctc_loss(ml.ones(40, 1, 5), at:narrow(1, 1, 10):view(1, 10), { 40 }, { 10 }) end)
      try(function() return ml.searchsorted(ones, x, { sorter = at }) end)
      try(function() return F.max_unpool1d(ml.ones(1, n), at:view(1, n), 2) end) ]], gives = "true" },
  { "an index that a worker changes, to write", race [[
      try(function() x:index_put_({ at }, ones) end)
      try(function() x:index_put_({ at }, ones, true) end)
      try(function() x:index_fill_(1, at, 2) end)
      try(function() x:index_copy_(1, at, ones) end)
      try(function() x:index_add_(1, at, ones) end)
      try(function() x:index_reduce_(1, at, ones, "amax") end)
      try(function() x:scatter_(1, at, 2) end)
      try(function() x:scatter_(1, at, ones) end)
      try(function() x:scatter_add_(1, at, ones) end)
      try(function() x:scatter_reduce_(1, at, ones, "prod") end)
      try(function() x:put_(at, ones) end)
      try(function() x[at] = 3 end)
      try(function() ml.ones(10):half():index_add_(1, at, ones:half()) end)
      try(function() ml.ones(10, 64):bfloat16():index_add_(1, at:narrow(1, 1, 500), ml.ones(500, 64):bfloat16()) end)
      x:clamp_(-1, 9) ]], gives = "true" },
  { "positions that a worker changes, in sizes and pivots", race [[
      try(function() return ml.bincount(at) end)
      try(function() return F.one_hot(at, 3) end)
      try(function() return ml.repeat_interleave(at:narrow(1, 1, 50)) end)
      try(function() return ml.tensor_split(x, at:narrow(1, 1, 3)) end)
      try(function() return ml.linalg.lu_solve(ml.eye(40), swaps, ml.ones(40, 1)) end)
      try(function() return ml.linalg.ldl_solve(ml.eye(40), swaps, ml.ones(40, 1)) end)
      try(function() return ml.lu_unpack(ml.eye(40), swaps) end) ]], gives = "true" },
  { "numbers that a worker changes while they are counted and put in order", race [[
      try(function() return numbers:nonzero() end)
      for _ = 1, 50 do try(function() return mask:nonzero() end) end
      try(function() return ones[mask] end)
      try(function() return ones:masked_select(mask) end)
      try(function() return ones:masked_scatter(mask, ones) end)
      try(function() return numbers:sort() end)
      try(function() return numbers:argsort(1, true) end)
      try(function() return numbers:topk(5) end)
      try(function() return numbers:topk(n // 2) end)
      try(function() return numbers:kthvalue(n // 3) end)
      try(function() return numbers:median() end)
      try(function() return numbers:narrow(1, 1, 20):median(1) end)
      try(function() return numbers:mode() end)
      try(function() return numbers:unique() end)
      try(function() return numbers:quantile(0.3) end)
      try(function() return numbers:histc(10) end)
      try(function() return ml.histogram(numbers, 10) end)
      try(function() return numbers:max(1) end)
      try(function() return numbers:cummax(1) end)
      try(function() return ml.multinomial(numbers:abs():nan_to_num(0) + 1, 4) end)
      try(function() return ml.searchsorted(numbers, numbers) end)
      try(function() return F.grid_sample(ml.ones(1, 1, 5, 5), numbers:view(1, 100, 100, 2)) end)
      try(function() return tostring(numbers) end) ]], gives = "true" },
  { "results in memory that a worker writes", race [[
      try(function() ml.sort(ones, 1, { out = { numbers, at } }) end)
      try(function() ml.topk(ones, 9000, 1, { out = { numbers:narrow(1, 1, 9000), at:narrow(1, 1, 9000) } }) end)
      try(function() ml.max(ml.ones(n, 3), 2, { out = { numbers, at } }) end)
      try(function() ml.linalg.lu_factor(ml.eye(40), { out = { numbers:narrow(1, 1, 1600):view(40, 40), swaps } }) end)
      try(function() ml.cumsum(ones, 1, { out = numbers }) end) ]], gives = "true" },
  { "a storage that a worker has keeps its size", set [[
      for k = 1, 50 do
        assert(not pcall(self.storage.resize, self.storage, 40000 + k % 2 * 40000))
        assert(not pcall(self.x.resize_, self.x, 40000 + k))
      end ]] .. [[
      local s = Set()
      s.x = ml.ones(1000)
      s.storage = s.x:storage()
      local loader <close> = setmetatable({}, { __close = function() end })
      local step = data.DataLoader(s, { num_workers = 2 }):iter()
      step()
      local ok, problem = pcall(s.storage.resize, s.storage, 5000)
      local told = not ok and problem:match "shared with another interpreter"
      return told, pcall(s.x.resize_, s.x, 10, 10), s.x:set_():numel(), s.x:resize_(7):sum():item() >= 0 ]],
    gives = "shared with another interpreter, true, 0, true" },
  { "workers that start workers, and so on", set [[
      for _ in require "moonlet".data.DataLoader(self, { num_workers = 2 }) do end ]] .. "return sum(loader(2))",
    fails = "workers may start workers 4 levels deep at most" },
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
