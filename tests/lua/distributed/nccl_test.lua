-- tests/lua/distributed/nccl_test.lua: collectives of tensors on devices by NCCL, or by what stands in for it
-- on the emulated device, and what is said when a rank ends or does not come.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ranks = require "distributed_ranks"
local test, expect = harness.test, harness.expect
local ml = require "moonlet"

-- Each rank is a process with the same device, which only an emulated one can be.
local function need_devices()
  ranks.need_engine()
  local here, reason = ml.distributed.is_nccl_available()
  if not here then harness.skip(reason) end
  if not ml.cuda.get_device_name():find "mulat" and ml.cuda.device_count() < 4 then
    harness.skip "NCCL wants a device for each rank"
  end
end

-- What each script begins with: tensors that are drawn by rank, on this rank's device.
local DRAW = [[
ml.cuda.set_device(rank % ml.cuda.device_count())
local function start(backend, options)
  options = options or {}
  options.backend = backend
  dist.init_process_group(options)
end
local size = math.tointeger(os.getenv "WORLD_SIZE")
local function drawn(r, dtype, ...)
  local g = ml.Generator():manual_seed(100 + r)
  local x = ml.randint(-3, 3, { ... }, { generator = g })
  if dtype == ml.bool then x = x:gt(0)
  elseif not ml.is_signed(dtype) then x = x:abs() end
  return x:to(dtype)
end
local function here(r, dtype, ...) return drawn(r, dtype, ...):to "cuda" end
local function same(x, wanted, what)
  assert(x.is_cuda, what)
  assert(ml.equal(x:cpu():to(wanted.dtype), wanted), what)
end
]]

for _, size in ipairs { 2, 3 } do
  test(("all_reduce of every dtype, also of those that go by the host, %d ranks"):format(size), function()
    need_devices()
    ranks.run_well(size, DRAW .. [[
      start "nccl"
      for _, name in ipairs { "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32",
          "int64", "float8_e4m3fn", "float16", "bfloat16", "float32", "float64", "complex64",
          "complex128" } do
        local dtype = ml[name]
        local is_complex = name:find "complex" ~= nil
        local wide = is_complex and ml.complex128 or ml.float64
        for _, op in ipairs(is_complex and { "sum", "product" } or { "sum", "product", "min", "max" }) do
          local x = here(rank, dtype, 3, 5)
          dist.all_reduce(x, op)
          local want
          for r = 0, size - 1 do
            local y = drawn(r, dtype, 3, 5):to(wide)
            if not want then want = y
            elseif op == "sum" then want = want + y
            elseif op == "product" then want = want * y
            elseif op == "min" then want = ml.minimum(want, y)
            else want = ml.maximum(want, y) end
          end
          want = name == "bool" and want:ne(0) or want:to(dtype)
          assert(x.dtype == dtype)
          same(x:to(wide), want:to(wide), name .. " " .. op)
        end
      end
      for _, name in ipairs { "bool", "int32" } do
        local x, want = here(rank, ml[name], 7), drawn(0, ml[name], 7)
        for r = 1, size - 1 do want = ml.bitwise_xor(want, drawn(r, ml[name], 7)) end
        dist.all_reduce(x, "bxor")
        same(x, want, name)
      end
      dist.destroy_process_group()
    ]])
  end)
end

local ALL = [[
local f = ml.float32
local function sum_of(...)
  local out = 0
  for r = 0, size - 1 do out = out + drawn(r, ...) end
  return out
end
local x = here(rank, f, 4, 3)
dist.all_reduce(x, "avg")
same(x, sum_of(f, 4, 3) / size, "avg")
for root = 0, size - 1 do
  x = here(rank, f, 5)
  dist.broadcast(x, root)
  same(x, drawn(root, f, 5), "broadcast")
  x = here(rank, f, 5)
  dist.reduce(x, root)
  same(x, rank == root and sum_of(f, 5) or drawn(rank, f, 5), "reduce")
end
-- A column of a matrix, whose other columns stay.
local wide = ml.zeros(6, 2, { device = "cuda" })
wide:select(2, 1):fill_(rank + 1)
dist.all_reduce(wide:select(2, 1))
same(wide:sum(1), ml.tensor { 6.0 * size * (size + 1) / 2, 0.0 }, "a column")
local y = ml.empty(size, 4, 3, { device = "cuda" })
dist.all_gather_into_tensor(y, here(rank, f, 4, 3))
for r = 0, size - 1 do same(y[r + 1], drawn(r, f, 4, 3), "all_gather_into_tensor") end
local list = {}
for r = 1, size do list[r] = ml.zeros(r, 2, { device = "cuda" }) end
dist.all_gather(list, here(rank, f, rank + 1, 2))
for r = 1, size do same(list[r], drawn(r - 1, f, r, 2), "all_gather") end
dist.gather(here(rank, f, rank + 1, 2), { gather_list = rank == 1 and list or nil, dst = 1 })
local own, lists = ml.zeros(rank + 1, 2, { device = "cuda" }), nil
if rank == 1 then lists = {} for r = 1, size do lists[r] = here(r, f, r, 2) end end
dist.scatter(own, { scatter_list = lists, src = 1 })
same(own, drawn(rank + 1, f, rank + 1, 2), "scatter")
local part = ml.zeros(2, 3, { device = "cuda" })
dist.reduce_scatter_tensor(part, here(rank, f, size * 2, 3))
same(part, sum_of(f, size * 2, 3):narrow(1, rank * 2 + 1, 2):contiguous(), "reduce_scatter_tensor")
local uneven, sums = ml.zeros(rank + 1, { device = "cuda" }), {}
for r = 1, size do sums[r] = ml.full({ r }, 1.0 * (rank + r), { device = "cuda" }) end
dist.reduce_scatter(uneven, sums, "max")
same(uneven, ml.full({ rank + 1 }, 1.0 * (size + rank)), "reduce_scatter")
local inputs, outputs = {}, {}
for r = 1, size do
  inputs[r], outputs[r] = ml.full({ r }, 1.0 * rank, { device = "cuda" }), ml.zeros(rank + 1, { device = "cuda" })
end
dist.all_to_all(outputs, inputs)
for r = 1, size do same(outputs[r], ml.full({ rank + 1 }, r - 1.0), "all_to_all") end
dist.all_reduce(ml.zeros(0, { device = "cuda" }))
dist.barrier()
]]

test("every collective, by NCCL and by the host", function()
  need_devices()
  for _, backend in ipairs { '"nccl"', "nil", '"gloo"' } do
    ranks.run_well(3, DRAW .. ("start(%s)\n"):format(backend) .. ALL .. [[
      assert((require("moonlet.distributed.state").world.devices ~= nil) == (dist.get_backend() == "nccl"
        or ]] .. tostring(backend == "nil") .. [[))
      dist.destroy_process_group()
    ]])
  end
  -- Where the library is not there all goes by the host, but for who names it.
  ranks.run_well(3, DRAW .. "start()\n" .. ALL .. [[
    assert(not dist.is_nccl_available())
    dist.destroy_process_group()
    start "nccl"
    local good, message = pcall(dist.all_reduce, ml.ones(2, { device = "cuda" }))
    assert(not good and message:find "all_reduce: tensors on cuda:%d need NCCL: NCCL is not here", message)
    dist.destroy_process_group()
  ]], { environment = { MOONLET_CUDA_WITHOUT = "nccl" } })
end)

test("work goes on in a stream of its own, between what comes before and behind it", function()
  need_devices()
  for seed = 0, 6 do
    ranks.run_well(2, DRAW .. [[
      start "nccl"
      local other = ml.cuda.Stream()
      for round = 1, 6 do
        local x = ml.full({ 1000 }, 1.0 * rank, { device = "cuda" })
        for i = 1, 4 do x = x * 1 + 1 end
        local works = {}
        for i = 1, 3 do
          local y = x * i
          works[i] = { dist.all_reduce(y, { async_op = true }), y, i }
        end
        -- Memory that is freed while work uses it is not used again before.
        for i = 1, 3 do dist.all_reduce(x * 10, { async_op = true }) end
        collectgarbage()
        local fresh = {}
        for i = 1, 6 do fresh[i] = ml.full({ 1000 }, -1.0, { device = "cuda" }) end
        dist.all_reduce(ml.ones(1, { device = "cuda" }))
        ml.cuda.synchronize()
        for i = 1, 6 do assert(fresh[i]:min():item() == -1 and fresh[i]:max():item() == -1) end
        for i = 3, 1, -1 do
          local work, y, factor = table.unpack(works[i])
          if round % 2 == 0 then
            while not work:is_completed() do end
            assert(y:min():item() == 9 * factor)
          else
            ml.cuda.stream(other, function()
              assert(work:wait() == true)
              assert(y:max():item() == 9 * factor)
            end)
          end
          assert(work:exception() == nil)
        end
        local work = dist.all_reduce(x, { async_op = true })
        assert(work:wait(20) and work:is_completed())
        assert(x:sum():item() == 9000)
      end
      -- What is dropped goes on all the same.
      dist.all_reduce(ml.ones(1000, { device = "cuda" }), { async_op = true })
      collectgarbage()
      dist.destroy_process_group()
    ]], { environment = seed > 0 and { MOONLET_EMULATED_STREAMS = seed } or nil })
  end
end)

test("sends and receives: of two ranks, and several at once", function()
  need_devices()
  for seed = 0, 2 do
    ranks.run_well(3, DRAW .. [[
      start "nccl"
      local next_rank, before = (rank + 1) % 3, (rank + 2) % 3
      for round = 1, 3 do
        local x, y = ml.zeros(4, { device = "cuda" }), ml.zeros(3, 2, { device = "cuda" }):t()
        local works = dist.batch_isend_irecv {
          dist.P2POp(dist.isend, ml.full({ 4 }, 1.0 * rank + round, { device = "cuda" }), next_rank),
          dist.P2POp(dist.isend, ml.full({ 2, 3 }, 10.0 * rank, { device = "cuda" }), before),
          dist.P2POp(dist.irecv, y, next_rank), dist.P2POp(dist.irecv, x, before) }
        for _, work in ipairs(works) do work:wait() end
        same(x, ml.full({ 4 }, 1.0 * before + round))
        same(y, ml.full({ 2, 3 }, 10.0 * next_rank))
      end
      if rank == 0 then
        local got = ml.zeros(2, 500, { device = "cuda" }):t()
        assert(dist.recv(got, 2) == 2)
        same(got, ml.full({ 500, 2 }, 7.0))
        local good, message = pcall(dist.recv, got)
        assert(not good and message:find("recv: 'src' must be given for tensors on devices", 1, true), message)
      elseif rank == 2 then
        dist.send(ml.full({ 500, 2 }, 7.0, { device = "cuda" }), 0)
      end
      dist.barrier()
      dist.destroy_process_group()
    ]], { environment = seed > 0 and { MOONLET_EMULATED_STREAMS = seed } or nil })
  end
end)

test("groups, objects and DistributedDataParallel", function()
  need_devices()
  local outputs = ranks.run_well(3, DRAW .. [[
    start "nccl"
    local part = dist.new_group { 0, 2 }
    if rank ~= 1 then
      local x = ml.full({ 2 }, 1.0 + rank, { device = "cuda" })
      dist.all_reduce(x, { group = part })
      same(x, ml.full({ 2 }, 4.0))
      dist.broadcast(x, 2, { group = part })
      dist.destroy_process_group(part)
    end
    local list = {}
    dist.all_gather_object(list, { rank = rank })
    assert(list[3].rank == 2)
    for _, device in ipairs { "cpu", "cuda" } do
      ml.manual_seed(1)
      local net = ml.nn.Sequential(ml.nn.Linear(4, 8), ml.nn.ReLU(), ml.nn.Linear(8, 1)):to(device)
      net = ml.nn.parallel.DistributedDataParallel(net)
      local optimizer = ml.optim.SGD(net:parameters(), { lr = 0.1 })
      local loss
      for step = 1, 3 do
        local g = ml.Generator():manual_seed(10 * step + rank)
        loss = net(ml.randn(5, 4, { generator = g }):to(device)):square():mean()
        optimizer:zero_grad()
        loss:backward()
        optimizer:step()
      end
      local total = loss:detach():clone()
      dist.all_reduce(total)
      if rank == 0 then print(("loss %.5f"):format(total:item())) end
    end
    dist.destroy_process_group()
  ]])
  local host, device = outputs[0]:match "loss (%S+)%s+loss (%S+)"
  expect.truthy(host, outputs[0])
  expect.equal(device, host)
end)

-- Runs two ranks of which number 1 does `what`; the other one prints the error of its collective.
local function broken(what, call, environment)
  need_devices()
  return ranks.run(2, DRAW .. ([[
    start("nccl", { timeout = 3 })
    local x = ml.ones(1000, { device = "cuda" })
    dist.all_reduce(x)
    assert(x:sum():item() == 2000)
    if rank == 1 then
      %s
    end
    local before = clock()
    local good, message = pcall(function() %s end)
    print("error:", message)
    print("seconds:", clock() - before)
    assert(not good)
    good, message = pcall(dist.all_reduce, x)
    assert(not good, "what comes behind it")
    os.exit(0)
  ]]):format(what, call), { environment = environment, seconds = 30 })
end

for _, seed in ipairs { 0, 1, 2 } do
  local environment = seed > 0 and { MOONLET_EMULATED_STREAMS = seed } or nil
  test(("a rank that is killed, or does not come: the next wait says it (%d)"):format(seed), function()
    for what, pattern in pairs {
        ['os.execute("kill -9 " .. require("moonlet.system").pid())'] = "rank 1 has died",
        ['os.execute "sleep 6" os.exit(0)'] = "it is not done after 3.0 s; rank 1" } do
      for _, call in ipairs { "dist.all_reduce(x) print(x:sum():item())",
          "dist.all_reduce(x, { async_op = true }):wait(20)", "dist.recv(x, 1) ml.cuda.synchronize()" } do
        local output = broken(what, call, environment)[0]
        local message = output:match "error:\t(.-)\nseconds:"
        expect.truthy(message and (message:find(pattern, 1, true)
          or message:find("not come together within 3", 1, true)), output)
        expect.truthy(tonumber(output:match "seconds:\t(%S+)") < 8, output)
      end
    end
  end)
end

test("ranks that call different collectives are told so in debug mode", function()
  local outputs = broken("dist.broadcast(x, 0) os.exit(0)", "dist.all_reduce(x) x:sum():item()",
    { MOONLET_DISTRIBUTED_DEBUG = "1" })
  expect.truthy(outputs[0]:find "rank 0 calls all_reduce of float32 %(1000%) sum, rank 1 calls broadcast",
    outputs[0])
end)

test("a collective cannot be a part of a graph", function()
  need_devices()
  local outputs = ranks.run_well(2, DRAW .. [[
    start "nccl"
    local x = ml.ones(4, { device = "cuda" })
    dist.all_reduce(x)
    local good, message = pcall(ml.cuda.graph, function() dist.all_reduce(x) end)
    print(good, message)
    dist.barrier()
    os.exit(0)
  ]])
  expect.truthy(outputs[0]:find "false\t.-a collective cannot be a part of a graph", outputs[0])
end)

harness.run()
