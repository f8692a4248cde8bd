-- tests/lua/distributed/composed_test.lua: collectives inside compiled functions, vmap, gradients of
-- functions and forward mode, and in profiles.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ranks = require "distributed_ranks"
local test = harness.test

local function both(name, script)
  test(name, function()
    ranks.run_well(2, "dist.init_process_group()\nlocal nn, F = ml.nn, dist.functional\n" .. script
      .. "\ndist.destroy_process_group()")
  end)
end

both("a compiled function with a collective runs by parts, and says where", [[
  local function check(f, wanted)
    local fast = ml.compile(f)
    for i = 1, 14 do
      local x = ml.full({ 4 }, i * 1.0)
      near(fast(x), wanted(i), "call " .. i)
    end
    local text = fast:explain()
    assert(text:find("runs by parts: %S+ meets other ranks %(.-:%d+%)"), text)
    local good, message = pcall(ml.compile(f, { fullgraph = true }), ml.ones(4))
    assert(not good and message:find("which fullgraph = true refuses: %S+ meets other ranks"),
      message)
    good, message = pcall(ml.export, f, { ml.ones(4) })
    assert(not good and message:find "meets other ranks", message)
  end
  check(function(x)
    local y = x * (rank + 1)
    dist.all_reduce(y)
    return y:relu() + 1
  end, function(i) return ml.full({ 4 }, 3.0 * i + 1) end)
  check(function(x) return F.all_reduce(x * (rank + 1)):relu() + 1 end,
    function(i) return ml.full({ 4 }, 3.0 * i + 1) end)
  check(function(x)
    local y = x * (rank + 1)
    local handle = dist.all_reduce(y, { async_op = true })
    local z = x:exp():log()
    handle:wait()
    return y + z
  end, function(i) return ml.full({ 4 }, 4.0 * i) end)
  check(function(x)
    local all = ml.empty { 8 }
    dist.all_gather_into_tensor(all, x * (rank + 1))
    x:mul_(0)
    return all:view(2, 4):sum(1) + x
  end, function(i) return ml.full({ 4 }, 3.0 * i) end)
]])

both("steps of training with DistributedDataParallel, compiled as a whole and in parts", [[
  local function setting()
    ml.manual_seed(5)
    local net = nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.BatchNorm1d(20), nn.Linear(20, 2))
    return net, ml.optim.SGD(net:parameters(), { lr = 0.1, momentum = 0.9 })
  end
  local function batch(i)
    local g = ml.Generator():manual_seed(10 * i + rank)
    return ml.randn(4, 6, { generator = g }), ml.randn(4, 2, { generator = g })
  end
  local function run(make)
    local net, opt = setting()
    local step = make(net, opt)
    local losses = {}
    for i = 1, 16 do losses[i] = step(batch(i)):item() end
    return losses, net
  end
  local function step_of(model, opt)
    return function(x, y)
      opt:zero_grad()
      local loss = nn.functional.mse_loss(model(x), y)
      loss:backward()
      opt:step()
      return loss:detach()
    end
  end
  local DDP = nn.parallel.DistributedDataParallel
  local wanted, net = run(function(net, opt) return step_of(DDP(net), opt) end)
  local fasts = {}
  local makes = {
    whole = function(model, opt)
      fasts.whole = ml.compile(step_of(DDP(model), opt))
      return fasts.whole
    end,
    module = function(model, opt)
      fasts.module = ml.compile(DDP(model))
      return step_of(fasts.module, opt)
    end,
    backward = function(model, opt)
      local ddp = DDP(model)
      fasts.backward = ml.compile(function(loss) loss:backward() end)
      return function(x, y)
        opt:zero_grad()
        local loss = nn.functional.mse_loss(ddp(x), y)
        fasts.backward(loss)
        opt:step()
        return loss:detach()
      end
    end,
    inside = function(model, opt)
      fasts.inside = ml.compile(model)
      return step_of(DDP(fasts.inside), opt)
    end,
  }
  for _, name in ipairs { "whole", "module", "backward", "inside" } do
    local make = makes[name]
    local losses, other = run(make)
    for i, loss in ipairs(losses) do
      assert(loss == wanted[i], ("%s, step %d: %g, expected %g"):format(name, i, loss, wanted[i]))
    end
    for i, p in ipairs(other:parameters()) do
      assert(ml.equal(p, net:parameters()[i]), name .. " " .. i)
    end
  end
  assert(fasts.inside:explain():find "run %d+ times", fasts.inside:explain())
  local good, message = pcall(DDP, print)
  assert(not good and message:find "'module' must be a module, got a function", message)
  assert(fasts.whole:explain():find("DistributedDataParallel meets other ranks", 1, true))
  assert(fasts.module:explain():find("DistributedDataParallel meets other ranks", 1, true))
]])

test("what one rank has compiled is compiled anew when the group is another", function()
  local ml = require "moonlet"
  local dist = ml.distributed
  local fast = ml.compile(function(x)
    dist.all_reduce(x)
    return x * dist.get_world_size()
  end)
  dist.init_process_group()
  for _ = 1, 4 do harness.expect.equal(fast(ml.ones(2)):sum():item(), 2.0) end
  harness.expect.truthy(fast:explain():find "run %d+ time", fast:explain())
  dist.destroy_process_group()
  harness.expect.error(function() fast(ml.ones(2)) end, "there is no process group")
end)

test("a compiled backward runs the post-accumulate hooks of its leaves", function()
  local ml = require "moonlet"
  local p, hits = ml.ones(2, { requires_grad = true }), 0
  p:register_post_accumulate_grad_hook(function() hits = hits + 1 end)
  local fast = ml.compile(function(x) (p * x):sum():backward() end)
  for _ = 1, 6 do fast(ml.ones(2)) end
  harness.expect.equal(hits, 6)
  harness.expect.equal(p.grad:tolist(), { 6.0, 6.0 })
  harness.expect.truthy(fast:explain():find("a post-accumulate hook runs", 1, true))
end)

both("functional collectives under vmap", [[
  local x = ml.arange(1, 6):double():view(2, 3) * (rank + 1)
  local whole = ml.arange(1, 6):double():view(2, 3)
  local vmap = ml.func.vmap
  near(vmap(function(v) return F.all_reduce(v) end)(x), whole * 3)
  near(vmap(function(v) return F.all_reduce(v, "max") end, { in_dims = 2 })(x), (whole * 2):t())
  near(vmap(function(v) return F.broadcast(v, 1) end)(x), whole * 2)
  near(vmap(function(v) return F.reduce(v, 1) end)(x), whole * (rank == 1 and 3 or 0))
  near(vmap(function(v) return F.all_gather(v) end)(x), ml.cat({ whole, whole * 2 }, 2))
  near(vmap(function(v) return F.all_gather(v) end)(x[1]), ml.stack({ whole[1], whole[1] * 2 }, 2))
  near(vmap(function(v) return F.reduce_scatter(v) end, { in_dims = 2 })(x),
    whole:t():narrow(2, rank + 1, 1) * 3)
  near(vmap(function(v) return F.all_to_all_single(v) end, { in_dims = 2 })(x),
    ml.stack({ whole[rank + 1], whole[rank + 1] * 2 }, 2))
  near(vmap(vmap(function(v) return F.all_reduce(v) end))(x), whole * 3)
  for name, f in pairs { all_reduce = function(v) dist.all_reduce(v) end,
    broadcast = function(v) dist.broadcast(v, 0) end,
    all_gather = function(v) dist.all_gather({ ml.zeros(3), ml.zeros(3) }, v:float()) end } do
    local good, message = pcall(vmap(function(v) f(v) return v end), x)
    assert(not good and message:find(name .. ": it does not change the tensors of vmap", 1, true)
      and message:find("ml.distributed.functional." .. name .. " does", 1, true), message)
  end
  local good, message = pcall(vmap(function(v) dist.send(v, 1 - rank) return v end), x)
  assert(not good and message:find("send: it does not change the tensors of vmap", 1, true), message)
]])

both("functional collectives in func.grad, jvp and their compositions", [[
  local func = ml.func
  local x = ml.arange(1, 3):double() * (rank + 1)
  local own = ml.arange(1, 3):double()
  local eye = ml.eye(3):double()
  -- Both ranks ask for the gradient of the sum, so each square counts twice.
  near(func.grad(function(v) return F.all_reduce(v * v):sum() end)(x), 4 * x)
  near(func.vmap(func.grad(function(v) return F.all_reduce(v * v) end))(x), 4 * x)
  near(func.grad(function(v) return F.all_gather(v * v):sum() end)(x), 4 * x)
  local tangent = ml.ones(3):double()
  local function pushed(f) return (select(2, func.jvp(f, { x }, { tangent }))) end
  near(pushed(function(v) return F.all_reduce(v * v) end), 2 * own * 3)
  near(pushed(function(v) return F.all_reduce(v * v, "avg") end), own * 3)
  near(pushed(function(v) return F.broadcast(v * v, 1) end), 4 * own)
  near(pushed(function(v) return F.reduce(v * v, 0) end), 6 * own * (1 - rank))
  near(pushed(function(v) return F.all_gather(v * v) end), ml.cat { 2 * own, 4 * own })
  near(pushed(function(v) return F.reduce_scatter(ml.cat { v * v, v }) end),
    rank == 0 and 6 * own or 2 * tangent)
  near(pushed(function(v) return F.all_to_all_single(ml.cat { v * v, v }) end),
    rank == 0 and ml.cat { 2 * own, 4 * own } or ml.cat { tangent, tangent })
  near(func.jacfwd(function(v) return F.all_reduce(v * v) end)(x), eye * (6 * own))
  near(func.jacrev(function(v) return F.all_reduce(v * v) end)(x), eye * (4 * x))
  -- Tangents of both ranks, then the gradients that both ask for.
  near(func.hessian(function(v) return F.all_reduce(v * v * v):sum() end)(x), eye * (12 * x))
  for _, name in ipairs { "product", "max" } do
    local good, message = pcall(pushed, function(v) return F.all_reduce(v * v, name) end)
    assert(not good and message:find("'" .. name .. "' has no gradient", 1, true), message)
  end
  local good, message = pcall(pushed, function(v)
    local w = v * v
    dist.all_reduce(w)
    return w
  end)
  assert(not good and message:find("all_reduce: a tensor has a tangent of forward mode", 1, true),
    message)
]])

both("profiles tell what share of collectives hid behind computation", [[
  local busy = ml.randn(300, 300)
  local x = ml.ones(100)
  local function compute(seconds)
    local until_ = clock() + seconds
    while clock() < until_ do busy:mm(busy) end
  end
  -- Rank 1 comes a second later, for which rank 0's call lasts: it computes, or waits, meanwhile.
  local function late()
    dist.barrier()
    if rank == 1 then compute(1) end
  end
  late()
  local hidden = ml.profile(function()
    local handle = dist.all_reduce(x, { async_op = true })
    while not handle:is_completed() do compute(0.01) end
    handle:wait()
  end)
  late()
  local waited = ml.profile(function() dist.all_reduce(x) end)
  local found = hidden.communication
  assert(found.count == 1 and found.time > 0 and found.hidden_time <= found.time, found.time)
  assert(rank == 1 or found.time > 0.5 and found.share > 0.7, found.share)
  assert(tostring(hidden):find "\ncommunication: 1 collective, %S+ ms, of which %d+ %% hid behind "
    .. "computation$", tostring(hidden))
  found = waited.communication
  assert(found.count == 1 and (rank == 1 or found.time > 0.5 and found.share < 0.3), found.share)
  assert(ml.profile(function() return ml.ones(2) end).communication.count == 0)
  assert(not tostring(ml.profile(function() return ml.ones(2) end)):find "communication")

  -- A backward whose first layer takes long leaves time for the gradients of the last one.
  local net = nn.Sequential(nn.Linear(256, 256), nn.Linear(256, 2048), nn.Linear(2048, 256))
  local ddp = nn.parallel.DistributedDataParallel(net, { bucket_cap_mb = 1 })
  x = ml.randn(256, 256)
  ddp(x):sum():backward()
  local p = ml.autograd.profiler.profile(function()
    local h = x:clone():requires_grad_(true)
    h:register_hook(function(g) compute(0.05) return g end)
    ddp(h):sum():backward()
  end)
  assert(p.communication.count >= 3, p.communication.count)
  assert(p:table():find "communication: %d+ collectives", p:table())
  assert(tostring(p:key_averages()):find "hid behind computation")
  local path = os.tmpname()
  p:export_chrome_trace(path)
  local trace = require("moonlet.json").decode(require("moonlet.system").read_file(path))
  os.remove(path)
  local sent = 0
  for _, event in ipairs(trace.traceEvents) do
    if event.cat == "communication" then
      sent = sent + 1
      assert(event.name == "all_reduce" and event.dur > 0 and event.ts > 0)
    end
  end
  assert(sent == p.communication.count)
]])

harness.run()
