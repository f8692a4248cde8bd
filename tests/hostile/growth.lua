-- tests/hostile/growth.lua: what grows beside the Lua heap, in interpreters with limits: each ends at its
-- limit, the process stays small, and the interpreter can be used afterwards.

-- Under 64 MiB for Lua and 64 for the rest, in a process of 400 at most, one of the limits ends it.
local function grows(name, code)
  return { "grows: " .. name, 'local ml = require "moonlet"\nkept = {}\n' .. code, exit = 0, out = "the limit of",
    limits = { 64, 64, 20000 }, peak = 400, seconds = 25 }
end

-- The time of half a second ends it soon.
local function takes_long(name, code, limits, peak)
  return { "takes long: " .. name, 'local ml = require "moonlet"\n' .. code, exit = 0, out = "the limit of",
    limits = limits or { 64, 256, 500 }, peak = peak or 600, seconds = 4 }
end

-- Code that runs in two workers of a DataLoader.
local function in_worker(code)
  return [[
    local Set = require "moonlet.class"("Set", ml.data.Dataset)
    function Set:size() return 8 end
    function Set:get(i) local ml = require "moonlet" ]] .. code .. [[ return i end
    for _ in ml.data.DataLoader(Set(), { num_workers = 2 }):iter() do end ]]
end

return {
  -- The tape.
  grows("a sum", [[ local y = ml.ones(1, { requires_grad = true }) while true do y = y + 1 end ]]),
  grows("a sum that nobody can catch", [[
    local y = ml.ones(1, { requires_grad = true })
    while true do pcall(function() while true do y = y + 1 end end) end ]]),
  grows("elements assigned", [[ local y = ml.ones(4, { requires_grad = true }) + 0 while true do y[1] = 2 end ]]),
  grows("rows assigned", [[
    local y, row = ml.ones(4, 4, { requires_grad = true }) + 0, ml.ones(4)
    while true do y[2] = row end ]]),
  grows("ops in place", [[ local y = ml.ones(4, { requires_grad = true }) + 0 while true do y:mul_(1) end ]]),
  grows("views of views", [[ local y = ml.ones(4, 4, { requires_grad = true }) while true do y = y:t() end ]]),
  grows("views of views without a gradient", [[
    local y = ml.ones(4, 4)
    while true do y = y:view(2, 8):view(4, 4) end ]]),
  grows("views kept", [[ local x = ml.ones(4, 4) for i = 1, 1e9 do kept[i] = x[1] end ]]),
  grows("views restrided", [[
    local x = ml.ones(1 << 20)
    for i = 1, 1e9 do kept[i] = x:narrow(1, 1, 8) kept[i]:as_strided_({ 4 }, { 1 }, i % 1000) end ]]),
  grows("small tensors", [[ for i = 1, 1e9 do kept[i] = ml.ones(1) end ]]),
  grows("tensors without elements", [[ for i = 1, 1e9 do kept[i] = ml.zeros(0) end ]]),
  grows("tensors with gradients", [[ for i = 1, 1e9 do kept[i] = ml.ones(1) kept[i].grad = ml.ones(1) end ]]),
  grows("leaves", [[ for i = 1, 1e9 do kept[i] = ml.ones(1, { requires_grad = true }) end ]]),
  grows("graphs kept after backward", [[
    local w = ml.ones(4, { requires_grad = true })
    for i = 1, 1e9 do kept[i] = (w * w):sum() kept[i]:backward { retain_graph = true } end ]]),
  grows("graphs of gradients", [[
    local w = ml.ones(4, { requires_grad = true })
    local y = (w * w * w):sum()
    while true do y = ml.grad(y, w, { create_graph = true }):mul(w):sum() end ]]),
  grows("hooks", [[
    local w = ml.ones(1, { requires_grad = true })
    while true do w:register_hook(function() end) end ]]),
  grows("one hook of many tensors", [[
    local w, f = ml.ones(1, { requires_grad = true }), function() end
    for i = 1, 1e9 do kept[i] = w * 2 kept[i]:register_hook(f) end ]]),
  grows("gradients that are retained", [[
    local w = ml.ones(1, { requires_grad = true })
    for i = 1, 1e9 do kept[i] = w * 2 kept[i]:retain_grad() end ]]),
  grows("nodes", [[
    local w = ml.ones(1, { requires_grad = true })
    for i = 1, 1e9 do kept[i] = (w * 2).grad_fn end ]]),
  grows("functions with a derivative", [[
    local double = ml.autograd.Function {
      forward = function(ctx, x) ctx:save_for_backward(x) return x * 2 end,
      backward = function(ctx, g) return g * 2 end,
    }
    local y = ml.ones(1, { requires_grad = true })
    while true do y = double(y) end ]]),
  grows("saved tensors in the hands of hooks", [[
    local same = function(x) return x end
    local y = ml.ones(1, { requires_grad = true })
    local _ <close> = ml.autograd.graph.saved_tensors_hooks(same, same)
    while true do y = y:exp():log() end ]]),
  grows("tangents", [[
    ml.func.jvp(function(x) for i = 1, 1e9 do kept[i] = x * 2 end return x end, { ml.ones(1) }, { ml.ones(1) }) ]]),
  grows("samples of vmap", [[
    ml.func.vmap(function(x) for i = 1, 1e9 do kept[i] = x * 2 end return x end)(ml.ones(2)) ]]),
  grows("what a profile notes", [[
    local x = ml.ones(1)
    ml.autograd.profiler.profile(function() while true do x = x:abs() end end) ]]),
  grows("names of ranges", [[
    local _ <close> = ml.autograd.profiler.profile()
    for i = 1, 1e9 do ml.autograd.profiler.record_function(("x"):rep(10000) .. i, function() end) end ]]),

  -- What workers make counts for the script that they work for.
  grows("the tape of a worker", in_worker [[ local y = ml.ones(1, { requires_grad = true }) while true do y = y + 1 end ]]),
  grows("tensors of workers", in_worker [[ kept = {} for k = 1, 1e9 do kept[k] = ml.ones(1) end ]]),

  -- Lists of tensors from one call.
  grows("unbind", [[ return #ml.ones(1):expand(1 << 22):unbind(1) ]]),
  grows("unbind with a gradient", [[ return #ml.ones(1, { requires_grad = true }):expand(1 << 22):unbind(1) ]]),
  grows("split", [[ return #ml.ones(1):expand(1 << 22):split(1, 1) ]]),
  grows("chunk", [[ return #ml.ones(1):expand(1 << 22):chunk(1 << 22, 1) ]]),
  grows("tensor_split", [[ return #ml.ones(1):expand(1 << 22):tensor_split(1 << 22, 1) ]]),

  -- Texts and tables made by one call.
  grows("JSON of a long text", [[
    local s = ("x"):rep(10000000)
    for i = 1, 100 do kept[i] = s end
    return #require "moonlet.json".encode(kept) ]]),
  grows("JSON of control characters", [[ return #require "moonlet.json".encode(("\1"):rep(50000000)) ]]),
  grows("JSON of a table that holds one twice", [[
    local t = { 1 }
    for _ = 1, 30 do t = { t, t } end
    return #require "moonlet.json".encode(t) ]]),
  grows("tolist", [[ return #ml.ones(1):expand(1 << 26):tolist() ]]),
  grows("tolist of a storage", [[ return #ml.ones(12000000):storage():tolist() ]]),
  grows("a printed tensor", [[
    ml.set_printoptions { profile = "full" }
    return #tostring(ml.ones(1):expand(1 << 26)) ]]),
  grows("a printed storage", [[ for i = 1, 1e9 do kept[i] = tostring(ml.ones(1000):storage()) end ]]),
  grows("a text joined to a tensor", [[ for i = 1, 1e9 do kept[i] = ("x"):rep(1000) .. ml.ones(1) end ]]),

  -- Time: what one call does.
  takes_long("unbind", [[ for _ = 1, 1e9 do ml.ones(1):expand(1 << 17):unbind(1) end ]]),
  takes_long("JSON", [[
    local t = { 1 }
    for _ = 1, 30 do t = { t, t } end
    return #require "moonlet.json".encode(t) ]], { 0, 0, 500 }, 4000),
  takes_long("JSON that is read", [[
    local text = "[" .. ("[],"):rep(3000000) .. "1]"
    while true do require "moonlet.json".decode(text) end ]], { 0, 0, 500 }, 4000),
  takes_long("jvp in jvp", [[
    local g = function(x) return x * x end
    for _ = 1, 16 do
      local h = g
      g = function(x) return select(2, ml.func.jvp(h, { x }, { ml.tensor(1.0) })) end
    end
    g(ml.tensor(1.0)) ]]),
  takes_long("a printed tensor", [[
    ml.set_printoptions { profile = "full" }
    return #tostring(ml.ones(1):expand(1 << 40)) ]], { 0, 0, 500 }, 4000),
  takes_long("a table that holds itself many times as a tensor", [[
    local t = {}
    for i = 1, 100 do t[i] = 1 end
    for _ = 1, 9 do local u = {} for i = 1, 100 do u[i] = t end t = u end
    return ml.tensor(t) ]]),
  takes_long("eig", [[ ml.linalg.eig(ml.randn(1500, 1500)) ]]),
  takes_long("svd", [[ ml.linalg.svd(ml.randn(2000, 2000)) ]]),
  takes_long("singular values of many", [[ ml.linalg.svdvals(ml.randn(30, 500, 500)) ]]),
  takes_long("eigh", [[ ml.linalg.eigh(ml.randn(3000, 3000)) ]]),
  takes_long("lstsq", [[ ml.linalg.lstsq(ml.randn(2500, 2500), ml.randn(2500, 10)) ]]),
  takes_long("pinv", [[ ml.linalg.pinv(ml.randn(2000, 2000)) ]]),
  takes_long("matrix_exp", [[ ml.matrix_exp(ml.randn(2500, 2500)) ]]),
  takes_long("eig in a worker", in_worker [[ local y = ml.linalg.eig(ml.randn(1500, 1500)) ]]),
  takes_long("one after the other", [[ while true do pcall(ml.linalg.eig, ml.randn(800, 800)) end ]]),
}
