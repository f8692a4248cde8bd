-- tests/hostile/limits.lua: memory, stacks and strings at their ends: what is too much is an error that
-- pcall catches, and what fits works afterwards.

local NO_LIMIT = "a sanitizer needs more address space than any limit leaves"

-- A row whose code runs within so many KiB of address space and prints "good" at its end.
local function within(kib, name, code)
  return { name, code .. '\nprint "good"', exit = 0, out = "good\n$", limit = kib, sanitized = NO_LIMIT,
    setup = "OMP_NUM_THREADS=2; export OMP_NUM_THREADS" }
end

return {
  -- Stacks.
  { "recursion without end", [[ local function f() return 1 + f() end return f() ]], fails = "stack overflow" },
  { "recursion without end in C", [[ local function f() return pcall(f) end return (f()) ]], gives = "true" },
  { "recursion through a metamethod", [[
      local t = setmetatable({}, {})
      getmetatable(t).__index = function(t, k) return t[k + 1] end
      return t[1] ]], fails = "C stack overflow" },
  { "recursion through __index tables", [[
      local t = setmetatable({}, {})
      getmetatable(t).__index = t
      return t.x ]], fails = "'__index' chain too long" },
  { "recursion through tostring", [[
      local t = setmetatable({}, { __tostring = function(t) return tostring(t) end })
      return tostring(t) ]], fails = "C stack overflow" },
  { "recursion through the sizes of a tensor", [[
      local function f() return ml.zeros(setmetatable({}, { __len = function() return f() end })) end
      return ml.cat(setmetatable({}, { __len = f, __index = f })) ]], fails = "C stack overflow" },
  { "recursion through lists of tensors", [[
      local list
      list = setmetatable({}, { __len = function() return 1 end, __index = function() return ml.cat(list) end })
      return ml.cat(list) ]], fails = "stack overflow" },
  { "recursion through backward hooks", [[
      local function f()
        local w = ml.ones{1, requires_grad = true}
        w:register_hook(f)
        ml.enable_grad(function() (w * 1):sum():backward() end)
      end
      f() ]], fails = "stack overflow" },
  { "recursion through overrides", [[
      local function f(op, arguments) return ml.override(f, function() return ml.ones(2) + 1 end) end
      return f() ]], fails = "stack overflow" },
  { "recursion through no_grad, with modes left behind", [[
      local function f() return ml.no_grad(f) + 1 end
      local ok, message = pcall(f)
      return ok, message:find "stack overflow" ~= nil, ml.is_grad_enabled() ]], gives = "false, true, true" },
  { "recursion through autocast", [[
      local function f() return ml.autocast({ enabled = true }, f) + 1 end
      return (pcall(f)), ml.is_autocast_enabled() ]], gives = "false, false" },
  { "recursion through scope", [[ local function f() return ml.scope(f) + 1 end return f() ]], fails = "stack overflow" },
  { "recursion through modules", [[
      local Own = nn.class("Own", nn.Module)
      function Own:forward(x) return self(x) + 1 end
      return Own()(ml.ones(1)) ]], fails = "stack overflow" },
  { "recursion through forward hooks", [[
      local net = nn.Linear(1, 1)
      net:register_forward_hook(function(m) return m(ml.ones(1, 1)) end)
      return net(ml.ones(1, 1)) ]], fails = "stack overflow" },
  { "recursion through a sort's comparison", [[
      local function f(a, b) table.sort({ 3, 2, 1 }, f) return a < b end
      table.sort({ 3, 2, 1 }, f) ]], fails = "C stack overflow" },
  { "recursion through gsub", [[ local function f() return (("x"):gsub("x", f)) end return f() ]], fails = "C stack overflow" },
  { "recursion through load", [[
      local function f() return load(f) end
      return ("function nil"):find(type(f())) ~= nil ]], gives = "true" },
  { "recursion through require", [[
      package.preload.a = function() return require "b" end
      package.preload.b = function() return require "a" end
      return require "a" ]], fails = "C stack overflow" },
  { "recursion through coroutine.wrap inside ops", [[
      local function f() return coroutine.wrap(function() return ml.ones(1) + f() end)() end
      return f() ]], fails = "C stack overflow" },
  { "an error in the handler of errors", [[ return xpcall(error, function(m) error(m) end) ]], gives = "false, error in error handling" },
  { "a stack overflow in the handler of errors", [[
      local function f() return 1 + f() end
      return (xpcall(f, function() return f() end)) ]], gives = "false" },
  { "a pattern that recurses too deeply", [[ return (("x"):rep(300000)):find((".-"):rep(300) .. "y") ]], fails = "pattern too complex" },
  { "a million values unpacked", [[ return select("#", table.unpack({}, 1, 1000000)) ]], fails = "too many results" },
  { "a million arguments of an op", [[
      local t = {}
      for i = 1, 200000 do t[i] = 1 end
      return ml.zeros(table.unpack(t)) ]], fails = "zeros: .*at most 12 dimensions" },
  { "two hundred thousand tensors in a list", [[
      local x, t = ml.ones(1), {}
      for i = 1, 200000 do t[i] = x end
      return ml.cat(t):sum():item() ]], gives = "200000.0" },
  { "a list that nests to the bound", [[
      local t = 1
      for _ = 1, 12 do t = { t } end
      return ml.tensor(t).ndim, (pcall(ml.tensor, { t })) ]], gives = "12, false" },
  { "a tree of tables saved beyond the bound", [[
      local t = { x = ml.ones(1) }
      for _ = 1, 100000 do t = { t = t } end
      ml.save(path "x.st", t) ]], fails = "nests too deeply" },
  { "modules inside modules, two hundred deep", [[
      local net = nn.Identity()
      for _ = 1, 200 do net = nn.Sequential(net) end
      return #net:parameters(), net(ml.ones(2)):sum():item(), #tostring(net) > 1000 ]], gives = "0, 2.0, true" },

  -- Strings and tables.
  { "string.rep beyond all memory", [[ return ("x"):rep(1 << 62) ]], fails = "resulting string too large" },
  { "string.rep of the largest integer", [[ return ("xx"):rep(math.maxinteger) ]], fails = "resulting string too large" },
  { "string.rep of nothing", [[ return ("x"):rep(math.mininteger) ]], gives = "" },
  { "string.format with a width of 1000", [[ return ("%1000d"):format(1) ]], fails = "invalid conversion" },
  { "string.pack of 2^62 bytes", [[ return ("!16 i17"):pack(1) ]], fails = "out of limits" },
  { "table.concat of numbers without end", [[ return table.concat({}, "x", 1, 1 << 40) ]], fails = "invalid value" },
  { "table.move over all integers", [[ table.move({}, 1, math.maxinteger, 2) ]], fails = "destination wrap around" },
  { "table.insert at a wrong position", [[ table.insert({}, 7, 1) ]], fails = "position out of bounds" },
  { "utf8 beyond its ends", [[ return utf8.char(1 << 40) ]], fails = "out of range" },
  { "a name of an op of a megabyte", [[ return ml[("x"):rep(1000000)] ]], fails = "has no field" },
  { "an option's name of a megabyte", [[ return ml.zeros { 2, [("x"):rep(1000000)] = 1 } ]], fails = "unknown option" },
  { "a name with NUL and control characters", [[ return ml["a\0b\27[2J"] ]], fails = "has no field" },
  { "memory of tensors that nobody has", [[
      return refused("memory", { 1 << 45, 1 << 46, 1 << 50 }, function(n) return ml.empty(n) end) ]], gives = "3 of 3" },

  -- Running out of memory, for real.
  within(450000, "ops until nothing is left, and after", [[
    for _ = 1, 3 do
      local ok, message = pcall(function() local held = {} while true do held[#held + 1] = ml.ones(1000, 1000) end end)
      assert(not ok and message:find "out of memory", message)
    end
    collectgarbage()
    assert((ml.ones(1000, 100) + 1):sum():item() == 200000) ]]),
  within(450000, "products, sorts and convolutions when nothing is left", [[
    local held = {}
    pcall(function() while true do held[#held + 1] = ml.ones(250, 1000) end end)
    local x = ml.ones(50, 50)
    local calls = {
      function() return x:mm(x) end,
      function() return ml.ones(300, 300):mm(ml.ones(300, 300)) end,
      function() return ml.ones(300, 300):double():mm(ml.ones(300, 300):double()) end,
      function() return ml.rand(1000, 100):sort(1) end,
      function() return F.conv2d(ml.ones(8, 16, 20, 20), ml.ones(8, 16, 3, 3)) end,
      function() nn.Conv2d(3, 4, 3)(ml.ones(2, 3, 9, 9)):sum():backward() end,
      function() return F.scaled_dot_product_attention(ml.ones(2, 64, 16), ml.ones(2, 64, 16), ml.ones(2, 64, 16)) end,
      function() return x:cumsum(1), x:softmax(2), x:long(), ml.cat { x, x } end,
      function() return tostring(ml.rand(1000, 1000)) end,
      function() return ml.rand(300, 300):nonzero() end,
    }
    for _, room in ipairs { 0, 1, 3, 8, 20, 40, 80 } do
      for _ = 1, room do held[#held] = nil end
      collectgarbage()
      for _, f in ipairs(calls) do
        local ok, message = pcall(f)
        assert(ok or message:find "memory", message)
      end
    end
    held = nil
    collectgarbage()
    assert(ml.ones(100, 100):mm(ml.ones(100, 100)):sum():item() == 1e6) ]]),
  within(450000, "a graph until nothing is left, then a backward", [[
    local w = ml.ones{1000, 100, requires_grad = true}
    local ok, message = pcall(function()
      local x = w
      while true do x = (x * x):exp() end
    end)
    assert(not ok and message:find "memory", message)
    collectgarbage()
    local loss = (w * 2):sum()
    loss:backward()
    assert(w.grad:sum():item() == 200000) ]]),
  within(450000, "strings until nothing is left, then ops", [[
    local ok, message = pcall(function() local s = "x" while true do s = s .. s end end)
    assert(not ok and message:find "memory" or message:find "too large", message)
    assert(ml.ones(1000):sum():item() == 1000) ]]),
  within(450000, "tables until nothing is left, then ops", [[
    local ok, message = pcall(function() local t = {} while true do t[#t + 1] = {} end end)
    assert(not ok and tostring(message):find "memory", message)
    collectgarbage()
    assert(ml.ones(1000):sum():item() == 1000) ]]),
  within(450000, "coroutines until nothing is left", [[
    local ok, message = pcall(function()
      local t = {}
      while true do
        t[#t + 1] = coroutine.wrap(function() ml.no_grad(coroutine.yield) end)
        t[#t]()
      end
    end)
    assert(not ok and tostring(message):find "memory", message)
    collectgarbage()
    assert(ml.is_grad_enabled() and ml.ones(1000):sum():item() == 1000) ]]),
  within(450000, "tensors as userdata until nothing is left", [[
    local ok, message = pcall(function() local x, t = ml.ones(10), {} while true do t[#t + 1] = x[1] end end)
    assert(not ok and tostring(message):find "memory", message)
    collectgarbage()
    assert(ml.ones(1000):sum():item() == 1000) ]]),
  within(450000, "a file larger than memory", [[
    local file = io.open("x.st", "wb")
    local size = 1 << 33
    local header = ('{"a":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}'):format(size, size)
    file:write(("<s8"):pack(header))
    file:seek("set", 8 + #header + size - 1)
    file:write "x"
    file:close()
    local ok, message = pcall(ml.load, "x.st")
    local mapped, why = pcall(ml.load, "x.st", { mmap = true })
    os.remove "x.st"
    assert(not ok and message:find "memory", message)
    assert(not mapped and why:find "x.st", why)
    assert(ml.ones(1000):sum():item() == 1000) ]]),
  within(450000, "tolist of a large tensor", [[
    local ok, message = pcall(function() return ml.ones(40000000):tolist() end)
    assert(not ok and tostring(message):find "memory", message)
    collectgarbage()
    assert(ml.ones(1000):sum():item() == 1000) ]]),
  within(450000, "hooks until nothing is left", [[
    local w = ml.ones{1, requires_grad = true}
    local ok, message = pcall(function()
      while true do local s = ("x"):rep(100) w:register_hook(function() return s end) end
    end)
    assert(not ok and tostring(message):find "memory", message)
    w = nil  -- the hooks that there are may leave nothing
    collectgarbage()
    collectgarbage()
    assert(ml.ones(1000):sum():item() == 1000) ]]),
  { "a stack of 1000 KiB", [[
      local ok, message = pcall(function() local function f() return 1 + f() end return f() end)
      print(ok, message:find "stack overflow" ~= nil, ml.ones(300, 300):mm(ml.ones(300, 300)):sum():item()) ]],
    exit = 0, out = "false\ttrue\t27000000.0", setup = "ulimit -s 1000", sanitized = "frames are larger" },
  { "one process only", [[
      print(pcall(os.execute, "true"))
      print(ml.ones(300, 300):mm(ml.ones(300, 300)):sum():item()) ]],
    exit = 0, out = "27000000.0", setup = "OMP_NUM_THREADS=1; export OMP_NUM_THREADS" },
}
