-- tests/hostile/threads.lua: several interpreters at work on several threads of one process, and hostile
-- numbers of threads in one. What the threads return must be the same in all of them.

local START = 'local ml = require "moonlet" local nn, F, optim, data = ml.nn, ml.nn.functional, ml.optim, ml.data\n'

-- A row of which an interpreter on each of four threads runs the code, three times.
local function at_once(name, code, wanted, leaves)
  return { name, START .. code, threads = 4, exit = 0, out = "^" .. wanted .. "\n$", leaves = leaves }
end

return {
  at_once("nothing", "return 'x'", "x"),
  at_once("opening every module", [[
    local count = 0
    for _, name in ipairs { "nn", "optim", "data", "plot", "args", "progress", "help", "json", "numbers" } do
      if require("moonlet." .. name) then count = count + 1 end
    end
    return tostring(count) ]], "9"),
  at_once("products", "return tostring(ml.ones(200, 200):mm(ml.ones(200, 200)):sum():item())", "8000000.0"),
  at_once("products of float64", "return tostring(ml.ones(200, 200):double():mm(ml.ones(200, 200):double()):sum():item())",
    "8000000.0"),
  at_once("convolutions of one shape", [[
    local sum = 0
    for _ = 1, 5 do sum = sum + F.conv2d(ml.ones(2, 4, 16, 16), ml.ones(4, 4, 3, 3)):sum():item() end
    return tostring(sum) ]], "282240.0"),
  at_once("training", [[
    ml.manual_seed(3)
    local net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    local adam = optim.Adam(net:parameters(), { lr = 0.01 })
    local x = ml.randn(32, 8)
    local y = x:sum(2, true)
    for _ = 1, 50 do
      adam:zero_grad()
      F.mse_loss(net(x), y):backward()
      adam:step()
    end
    return tostring(F.mse_loss(net(x), y):item() < 5) ]], "true"),
  at_once("modes", [[
    local out = {}
    for i = 1, 100 do
      ml.no_grad(function() out[1] = tostring(ml.is_grad_enabled()) end)
      ml.autocast({ enabled = true }, function() out[2] = ml.ones(2, 2):mm(ml.ones(2, 2)).dtype end)
      ml.set_default_dtype(i % 2 == 0 and ml.float64 or ml.float32)
      out[3] = tostring(ml.ones(1).dtype)
    end
    return table.concat(out, " "), tostring(ml.is_grad_enabled()) ]], "false bfloat16 float64\ntrue"),
  at_once("seeds", "ml.manual_seed(7) return tostring(ml.randint(1000000, { 5 }):sum():item())", "%d+"),
  at_once("number of threads changed while others compute", [[
    for i = 1, 30 do
      ml.set_num_threads(i % 4 + 1)
      assert(ml.ones(100000):sum():item() == 100000)
    end
    return "end" ]], "end"),
  at_once("out of memory for one", [[
    local refused = 0
    for _ = 1, 20 do if not pcall(ml.empty, 1 << 45) then refused = refused + 1 end end
    return tostring(refused), tostring(ml.ones(1000):sum():item()) ]], "20\n1000.0"),
  at_once("hooks, graphs and collections", [[
    for _ = 1, 200 do
      local w = ml.ones{10, requires_grad = true}
      local y = w * 2
      y:register_hook(function(g) return g * y:detach():sum() end)
      y:sum():backward()
      assert(w.grad:sum():item() == 400)
    end
    collectgarbage()
    return "end" ]], "end"),
  at_once("errors in everything", [[
    local messages = {}
    for i = 1, 200 do
      messages[1] = select(2, pcall(ml.ones(3).add, ml.ones(3), ml.ones(4))):match "add"
      messages[2] = select(2, pcall(ml.zeros, 2, { dtyp = 1 })):match "dtype"
      messages[3] = tostring(select(2, pcall(coroutine.wrap(function() ml.no_grad(error, "lost") end)))):match "lost"
    end
    return table.concat(messages, " ") ]], "add dtype lost"),
  at_once("saving to one path", [[
    for i = 1, 5 do
      ml.save("shared.st", { x = ml.full({ 1000 }, 7) })
      assert(ml.load("shared.st").x:sum():item() == 7000)
    end
    return "end" ]], "end", "shared.st"),
  at_once("finalisers as the interpreter closes", [[
    for i = 1, 50 do _G["x" .. i] = setmetatable({ ml.ones(i) }, { __gc = function(t) return t[1] + 1 end }) end
    return "end" ]], "end"),
  at_once("interpreters that end in an error", "local w = ml.ones{1, requires_grad = true} ml.no_grad(error, 'lost')",
    "error: .*lost.*"),

  -- One interpreter.
  { "as many threads as there are numbers", [[
      local before = ml.get_num_threads()
      local refused = refused("set_num_threads", { 0, -1, 1 << 31, 1 << 40, math.maxinteger, math.mininteger, 0/0, 1.5, {}, "x" },
        ml.set_num_threads)
      ml.set_num_threads(before)
      return refused ]], gives = "10 of 10" },
  { "threads changed inside a hook", [[
      local before = ml.get_num_threads()
      local w = ml.ones{100000, requires_grad = true}
      local y = w * 2
      y:register_hook(function() ml.set_num_threads(3) end)
      y:sum():backward()
      ml.set_num_threads(before)
      return w.grad:sum():item() ]], gives = "200000.0" },
  { "the same sums with 1 to 5 threads", [[
      local before = ml.get_num_threads()
      ml.manual_seed(5)
      local x, sums = ml.rand(300000), {}
      for i = 1, 5 do ml.set_num_threads(i) sums[x:sum():item()] = true end
      ml.set_num_threads(before)
      return next(sums, (next(sums))) ]], gives = "nil" },
  { "rubbish in OMP_NUM_THREADS", [[ print(ml.ones(100000):sum():item(), ml.get_num_threads() >= 1) ]],
    exit = 0, out = "100000.0\ttrue", err = ".?", setup = "OMP_NUM_THREADS=rubbish; export OMP_NUM_THREADS" },
  { "a thousand threads expected", [[ print(ml.ones(100000):sum():item()) ]],
    exit = 0, out = "100000.0", err = ".?", setup = "OMP_NUM_THREADS=1000; export OMP_NUM_THREADS" },
}
