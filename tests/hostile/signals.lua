-- tests/hostile/signals.lua: signals while scripts compute, wait, catch everything and write files. A
-- snippet prints when it may be interrupted; what it prints after "ready" must not come.

local STOPPED = { exit = 1, out = "^ready\n$", err = "interrupted!" }

-- A row whose code is interrupted once, and must end with the error.
local function interrupted(name, code, more)
  local row = { name, 'local function ready() print "ready" io.stdout:flush() end\n' .. code .. '\nprint "not stopped"',
    signals = { 0.15, "INT" } }
  for key, value in pairs(STOPPED) do row[key] = value end
  for key, value in pairs(more or {}) do row[key] = value end
  return row
end

return {
  -- Computing. Each would take far longer than the patience of the runner, or go on without end.
  interrupted("an empty loop", "ready() while true do end"),
  interrupted("a loop of small ops", "local x = ml.ones(4) ready() while true do x = x + 1 end"),
  interrupted("a loop of products", "local x = ml.ones(200, 200) ready() while true do x:mm(x) end"),
  interrupted("a loop of float64 products", "local x = ml.ones(200, 200):double() ready() while true do x:mm(x) end"),
  interrupted("a long product", [[
    local a = ml.zeros(1, 1 << 15):expand(1 << 15, 1 << 15)
    ready() a:matmul(a) ]]),
  interrupted("a long pointwise op", [[
    local x = ml.zeros(1 << 26)
    ready() for _ = 1, 1000 do x:sin_() end ]]),
  interrupted("a long sort", "local x = ml.rand(1 << 25) ready() x:sort() x:sort() x:sort() x:sort()"),
  interrupted("a long integer product", [[
    local a = ml.ones(6000, 6000):long()
    ready() a:matmul(a) ]]),
  interrupted("a softmax of one long row", "local x = ml.zeros(1 << 25) ready() while true do x:softmax(1) end"),
  interrupted("a backward through the norm of one long row", [[
    local x = ml.randn{1 << 23, requires_grad = true}
    ready() while true do F.layer_norm(x, {1 << 23}):sum():backward() end ]]),
  interrupted("a batch_norm of one channel", [[
    local x = ml.zeros(1, 1, 1 << 25)
    ready() while true do F.batch_norm(x, nil, nil, nil, nil, true) end ]]),
  interrupted("a loop of products with a vector", [[
    local a, x = ml.zeros(1 << 12, 1 << 12), ml.zeros(1 << 12)
    ready() while true do a:mv(x) end ]]),
  interrupted("a product with long inner sums", [[
    local a = ml.zeros(64, 1):expand(64, 1 << 20):contiguous():double()
    ready() while true do a:mm(a:t()) end ]]),
  interrupted("scattering and gathering one long row", [[
    local i, x, y = ml.ones(1 << 24):long(), ml.zeros(1 << 24), ml.zeros(4)
    ready() while true do y:scatter_add_(1, i, x) y:gather(1, i) end ]]),
  interrupted("indexing with one long list", [[
    local i, x = ml.ones(1 << 24):long(), ml.zeros(4)
    ready() while true do x[i] = x[i] end ]]),
  interrupted("a loss of many targets", [[
    local x, targets = ml.zeros(1 << 23, 2), ml.ones(1 << 23):long()
    ready() while true do F.cross_entropy(x, targets) end ]]),
  interrupted("the positions of nonzero elements", "local x = ml.ones(1 << 24) ready() while true do x:nonzero() end"),
  interrupted("a pooling of one plane", [[
    local x = ml.zeros(1, 1, 4096, 4096)
    ready() while true do F.max_pool2d(x, 3, 1) F.avg_pool2d(x, 512, 64) end ]]),
  interrupted("a convolution of one image", [[
    local x, w = ml.zeros(1, 3, 1024, 1024):double(), ml.zeros(8, 3, 7, 7):double()
    ready() while true do F.conv2d(x, w) end ]]),
  interrupted("attention over many positions", [[
    local q = ml.zeros(1, 1 << 19, 64)
    ready() F.scaled_dot_product_attention(q, q, q) ]]),
  interrupted("a backward through attention", [[
    local q, k = ml.zeros { 1, 1 << 13, 64, requires_grad = true }, ml.zeros(1, 1 << 15, 64)
    local y, sums = ml._internal.flash_attention(q, k, k, nil, false, 1.0)
    ready() while true do ml.grad(y:sum(), q, { retain_graph = true }) end ]]),
  interrupted("a long range", "ready() while true do ml.arange(1, 1 << 26):flip(1) end"),
  interrupted("a long table", [[
    local x = ml.zeros(1 << 22)
    ready() while true do ml.tensor(x:totable()) end ]]),
  interrupted("a loop of convolutions", [[
    local x, w = ml.randn(4, 8, 64, 64), ml.randn(8, 8, 3, 3)
    ready() while true do F.conv2d(x, w) end ]]),
  interrupted("a loop of sorts", "local x = ml.rand(1000000) ready() while true do x:sort() end"),
  interrupted("a loop of backwards", [[
    local w = ml.ones{100, requires_grad = true}
    ready() while true do (w * 2):sum():backward() end ]]),
  interrupted("a loop of training steps", [[
    local net = nn.Linear(10, 10)
    local adam = optim.Adam(net:parameters(), { lr = 0.1 })
    ready()
    while true do adam:zero_grad() net(ml.ones(4, 10)):sum():backward() adam:step() end ]]),
  interrupted("a hook that does not end", [[
    local w = ml.ones{1, requires_grad = true}
    w:register_hook(function() ready() while true do end end)
    w:sum():backward() ]]),
  interrupted("a handler of overrides that does not end", [[
    ml.override(function() ready() while true do end end, function() return ml.ones(2) + 1 end) ]]),
  interrupted("a list whose length does not end", [[
    ml.cat(setmetatable({}, { __len = function() ready() while true do end end })) ]]),
  interrupted("a coroutine that does not end", "ready() coroutine.wrap(function() while true do end end)()"),
  interrupted("a coroutine that yields without end", [[
    ready() local next_value = coroutine.wrap(function() while true do coroutine.yield() end end)
    while true do next_value() end ]]),
  interrupted("a coroutine inside no_grad inside scope", [[
    ml.scope(function() ml.no_grad(function() ready() coroutine.wrap(function() while true do end end)() end) end) ]]),
  interrupted("a finaliser that does not end", [[
    do setmetatable({}, { __gc = function() ready() while true do end end }) end
    collectgarbage()
    while true do end ]], { exit = 130, err = "interrupted twice", signals = { 0.1, "INT", 0.4, "INT" } }),
  interrupted("__close that does not end", [[
    do local _ <close> = setmetatable({}, { __close = function() ready() while true do end end }) end ]]),
  interrupted("a loop over a DataLoader", [[
    local loader = data.DataLoader(data.TensorDataset(ml.ones(10, 2)), { batch_size = 2 })
    ready() while true do for x in loader do local _ = x end end ]]),
  interrupted("printing tensors", [[
    local x, null = ml.ones(100, 100), io.open("/dev/null", "w")
    ready() while true do null:write(tostring(x)) end ]]),
  interrupted("require of a module that does not end", [[
    package.preload.slow = function() ready() while true do end end
    require "slow" ]]),
  interrupted("a sort with a slow comparison", [[
    local list = {}
    for i = 1, 100000 do list[i] = i * 7919 % 100003 end
    ready() while true do table.sort(list, function(a, b) return a * 7 % 11 < b * 7 % 11 end) end ]]),
  interrupted("saving again and again", [[
    local x = ml.ones(100000)
    ready() while true do ml.save("x.st", { x = x }) end ]], { leaves = "x.st" }),
  interrupted("saving and loading a large file", [[
    local x = ml.ones(1 << 26)
    ml.save("x.st", { x = x })
    ready() while true do ml.save("x.st", { x = x }) ml.load "x.st" end ]], { leaves = "x.st" }),
  interrupted("loading again and again", [[
    ml.save("x.st", { x = ml.ones(100000) })
    ready() while true do ml.load "x.st" end ]], { leaves = "x.st" }),

  -- Catching everything: a second signal ends the process, or the error comes through.
  { "pcall in a loop, interrupted twice", [[
      print "ready" io.stdout:flush()
      while true do pcall(function() while true do end end) end ]],
    exit = { 1, 130 }, err = "interrupted", signals = { 0.1, "INT", 0.3, "INT", 0.3, "INT" } },
  { "pcall of ops in a loop, interrupted twice", [[
      local x = ml.ones(300, 300)
      print "ready" io.stdout:flush()
      while true do pcall(function() while true do x:mm(x) end end) end ]],
    exit = { 1, 130 }, err = "interrupted", signals = { 0.1, "INT", 0.3, "INT", 0.3, "INT" } },
  { "xpcall with a handler that does not end", [[
      print "ready" io.stdout:flush()
      xpcall(function() while true do end end, function() while true do end end) ]],
    exit = { 1, 130 }, err = "interrupted", signals = { 0.1, "INT", 0.3, "INT", 0.3, "INT" } },
  { "a caught interrupt leaves everything usable", [[
      local x = ml.ones(300, 300)
      print "ready" io.stdout:flush()
      local ok, message = pcall(function() ml.no_grad(function() while true do x:mm(x) end end) end)
      print(ok, message:find "interrupted!" ~= nil, ml.is_grad_enabled(), (ml.ones(2) + 1):sum():item()) ]],
    exit = 0, out = "^ready\nfalse\ttrue\ttrue\t4.0\n$", signals = { 0.15, "INT" } },
  { "a caught interrupt of a backward leaves the tape usable", [[
      local w = ml.ones{1, requires_grad = true}
      local y = w * 2
      local handle = y:register_hook(function() print "ready" io.stdout:flush() while true do end end)
      local ok = pcall(y.backward, y)
      handle:remove()
      w.grad = nil
      local z = w * 5
      z:backward()
      print(ok, w.grad:item()) ]],
    exit = 0, out = "^ready\nfalse\t5.0\n$", signals = { 0.15, "INT" } },
  { "interrupted a hundred times", [[
      local ready = false
      for _ = 1, 20 do
        pcall(function()
          if not ready then ready = true print "ready" io.stdout:flush() end
          local x = ml.ones(100, 100)
          while true do x = x:mm(x) * 0 + 1 end
        end)
      end
      print "end" ]],
    exit = { 0, 1, 130 }, err = ".?",
    signals = { 0.1, "INT", 0.05, "INT", 0.05, "INT", 0.05, "INT", 0.05, "INT", 0.05, "INT", 0.05, "INT", 0.05, "INT",
      0.05, "INT", 0.05, "INT", 0.05, "INT", 0.05, "INT", 0.05, "INT", 0.05, "INT", 0.3, "INT", 0.3, "INT", 0.3, "INT" } },

  -- Waiting.
  interrupted("reading a pipe that nobody writes to", [[ ready() local file = io.open("pipe", "r+") file:read() ]],
    { setup = "mkfifo pipe", leaves = "pipe" }),
  interrupted("io.popen that waits", [[
    ready() local process = io.popen "sleep 2; echo end" process:read "a" ]]),

  { "a program of the shell that waits takes the signal, as in C", [[
      print "ready" io.stdout:flush()
      print(os.execute "sleep 1") ]], exit = 0, out = "true\texit\t0", signals = { 0.1, "INT" } },

  -- Other signals.
  { "TERM while computing", [[
      print "ready" io.stdout:flush()
      local x = ml.ones(300, 300)
      while true do x:mm(x) end ]], exit = 143, signals = { 0.1, "TERM" } },
  { "TERM while saving", [[
      local x = ml.ones(1000000)
      ml.save("x.st", { x = x })
      print "ready" io.stdout:flush()
      while true do ml.save("x.st", { x = x }) end ]], exit = 143, signals = { 0.103, "TERM" }, leaves = "x.st" },
  { "HUP while saving", [[
      local x = ml.ones(1000000)
      ml.save("x.st", { x = x })
      print "ready" io.stdout:flush()
      while true do ml.save("x.st", { x = x }) end ]], exit = 129, signals = { 0.107, "HUP" }, leaves = "x.st" },
  { "KILL while saving", [[
      local x = ml.ones(1000000)
      ml.save("x.st", { x = x })
      print "ready" io.stdout:flush()
      while true do ml.save("x.st", { x = x }) end ]], exit = 137, signals = { 0.111, "KILL" }, leaves = "x.st",
    may_leave = "x%.st%.tmp%d+%-0" }, -- when it comes between the link and the rename
  { "PIPE from a program that does not read", [[
      local process = io.popen("true", "w")
      os.execute "sleep 0.1"
      for _ = 1, 100000 do process:write "line\n" end
      io.stderr:write "not stopped" ]], exit = 141 },
  { "STOP and CONT amid a product", [[
      local x = ml.ones(400, 400)
      print "ready" io.stdout:flush()
      for _ = 1, 60 do x:mm(x) end
      print "end" ]], exit = 0, out = "^ready\nend\n$", signals = { 0.02, "STOP", 0.1, "CONT" } },
  { "WINCH, CHLD and URG are nothing", [[
      print "ready" io.stdout:flush()
      local x = ml.ones(300, 300)
      for _ = 1, 60 do x:mm(x) end
      print "end" ]], exit = 0, out = "^ready\nend\n$", signals = { 0.01, "WINCH", 0.01, "CHLD", 0.01, "URG" } },
}
