-- tests/lua/distributed/faults_test.lua: what the other ranks are told when one dies, fails, is stopped,
-- leaves, or calls something else; and wrong starts.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ranks = require "distributed_ranks"
local test, expect = harness.test, harness.expect
local ml = require "moonlet"

-- Runs ranks of which number 1 does `what`; each other one prints the error of its collective. With
-- `timeout` calls are those of a group with that, so that ranks may take longer to come.
local function broken(what, options)
  options = options or {}
  local count, others = options.count or 3, {}
  for rank = 0, count - 1 do
    if rank ~= 1 then others[#others + 1] = rank end
  end
  return ranks.run(count, ([[
    dist.init_process_group { timeout = %g }
    local pid = require("moonlet.system").pid()
    local pids = {}
    dist.all_gather_object(pids, pid)
    local group = %s
    -- What rank 1 is in is heard of it while it lives.
    local function stay() await("done", { %s }) end
    dist.barrier()
    if rank == 1 then
      %s
    end
    local start = clock()
    local good, message = pcall(function() %s end)
    print("error:", message)
    print("seconds:", clock() - start)
    assert(not good)
    -- What comes after fails for the same reason, at once.
    start = clock()
    good, message = pcall(dist.barrier, { group = group })
    assert(not good and clock() - start < 3)
    pcall(tell, "done")
    os.exit(0)
  ]]):format(options.silence or 30,
    options.timeout and ("dist.new_group(nil, %g)"):format(options.timeout) or "nil",
    table.concat(others, ", "), what, options.call or "dist.all_reduce(ml.ones(3), { group = group })"),
    { environment = options.environment })
end

-- Processors that other tests use may take so many times as long. That the time of a call is not
-- waited for is what shows, as that is longer still.
local LOADED = 5

-- What a rank printed says the pattern, names the script's line, and took at most so long.
local function check_error(output, pattern, seconds)
  local message = output:match "error:\t(.-)\nseconds:"
  expect.truthy(message and message:find(pattern), output)
  expect.truthy(message:find "^[^\n]*ranks.lua:%d+: ", output)
  local took = tonumber(output:match "seconds:\t(%S+)")
  expect.truthy(took <= seconds * LOADED, output)
end

for name, call in pairs { all_reduce = "dist.all_reduce(ml.ones(1000000))",
    broadcast = "dist.broadcast(ml.ones(3), 1)", barrier = "dist.barrier()",
    recv = "dist.recv(ml.ones(3), 1)", all_gather_object = "dist.all_gather_object({}, 1)" } do
  test(("a rank that is killed: %s"):format(name), function()
    local outputs = broken('os.execute("kill -9 " .. pid)', { call = call })
    for _, rank in ipairs { 0, 2 } do
      check_error(outputs[rank], ("rank %d: rank 1 has died"):format(rank), 2)
    end
  end)
end

test("a rank that raises", function()
  local outputs = broken 'error "no more"'
  for _, rank in ipairs { 0, 2 } do
    check_error(outputs[rank], "all_reduce: rank %d: rank 1 has failed: .-no more", 2)
  end
end)

test("a rank that is stopped", function()
  -- Another process ends it when the others have told their errors.
  local outputs = broken([[os.execute(("(while kill -0 %d || kill -0 %d; do sleep 0.2; done; "
    .. "kill -KILL %d) > /dev/null 2>&1 & kill -STOP %d"):format(pids[1], pids[3], pid, pid))]],
    { silence = 4 })
  for _, rank in ipairs { 0, 2 } do
    check_error(outputs[rank], "rank 1 .-been silent for .-its process is stopped", 5)
  end
end)

test("a rank that leaves, and one that ends with another code", function()
  local outputs = broken "dist.destroy_process_group() os.exit(0)"
  for _, rank in ipairs { 0, 2 } do check_error(outputs[rank], "rank 1 has left", 3) end
  outputs = broken "os.exit(3)"
  for _, rank in ipairs { 0, 2 } do
    check_error(outputs[rank], "rank 1 has failed: os.exit%(3%)", 2)
  end
end)

test("the rank that keeps the store is killed", function()
  local outputs = ranks.run(3, [[
    dist.init_process_group()
    dist.barrier()
    if rank == 0 then os.execute("kill -9 " .. require("moonlet.system").pid()) end
    local start = clock()
    local good, message = pcall(dist.all_reduce, ml.ones(3))
    print("error:", message)
    print("seconds:", clock() - start)
  ]])
  for _, rank in ipairs { 1, 2 } do
    check_error(outputs[rank], "all_reduce: rank %d: .-the store at .-is gone", 2)
  end
end)

test("different calls are told by name and line when the time is over, or at once", function()
  for _, call in ipairs { "dist.broadcast(ml.ones(3), 1, { group = group })",
      "dist.all_reduce(ml.ones(4), { group = group })",
      "dist.all_reduce(ml.ones(3):double(), { group = group })",
      'dist.all_reduce(ml.ones(3), "max", { group = group })' } do
    local what = ([[print("other:", pcall(function() %s end)) stay() os.exit(0)]]):format(call)
    local outputs = broken(what, { timeout = 2 })
    -- MPI's collectives would meet, so there ranks compare them before.
    check_error(outputs[0], (ranks.backend == "mpi" and "all_reduce: rank 0: .-; rank 1 calls "
      or "all_reduce: rank 0: .-; .-in ") .. call:match "dist%.([%a_]+)"
      .. " of float.-ranks.lua:%d+", 3)
    outputs = broken(what, { environment = { MOONLET_DISTRIBUTED_DEBUG = "1" } })
    local message = outputs[0]:match "error:\t(.-)\n"
    expect.truthy(message and message:find("rank 0 calls all_reduce of float32 (3) sum, rank 1 calls",
      1, true), outputs[0])
    expect.truthy(tonumber(outputs[0]:match "seconds:\t(%S+)") < 2 * LOADED, outputs[0])
  end
end)

-- Rank 0 receives, rank 1 sends another size: whichever of them gives up first.
for first, times in pairs { [0] = { 2, 8 }, [1] = { 8, 2 } } do
  test(("sizes of sends and receives that differ, rank %d gives up first"):format(first), function()
    local outputs = ranks.run(2, ([[
      dist.init_process_group()
      local group = dist.new_group(nil, rank == 0 and %g or %g)
      dist.barrier()
      local start = clock()
      print("error:", select(2, pcall(function()
        if rank == 0 then
          dist.recv(ml.ones(3), 1, { group = group })
        else
          dist.send(ml.ones(4), 0, { group = group })
        end
      end)))
      print("seconds:", clock() - start)
      tell "done"
      await("done", { 1 - rank })
      dist.destroy_process_group()
    ]]):format(table.unpack(times)))
    local calls = { [0] = "recv of float32 3", "send of float32 4" }
    local names = { [0] = "recv", "send" }
    local second = 1 - first
    check_error(outputs[first], ("%s: rank %d: it is not done after 2.0 s; rank %d is in %s at .-ranks")
      :format(names[first], first, second, calls[second]), 3)
    check_error(outputs[second], ("%s: rank %d: .-; rank %d is in %s at .-ranks.lua:%%d+, "
      .. "given up after 2.0 s"):format(names[second], second, first, calls[first]),
      -- Over MPI no connection ends with a call, so the other one waits for its own time.
      (ranks.backend == "mpi" and 12 or 7.5) / LOADED)
  end)
end

test("monitored_barrier names all who are missing", function()
  local outputs = ranks.run(4, [[
    dist.init_process_group()
    dist.barrier()
    if rank == 1 or rank == 3 then
      await("done", { 0 })
      os.exit(0)
    end
    print(pcall(dist.monitored_barrier, { timeout = 3 }))
    if rank == 0 then tell "done" end
    os.exit(0)
  ]])
  expect.truthy(outputs[0]:find("monitored_barrier: rank 1, 3 have not come within 3 s", 1, true),
    outputs[0])
end)

test("interrupts and limits reach waits", function()
  ranks.need_engine()
  local outputs, statuses = ranks.run(2, [[
    dist.init_process_group()
    if rank == 1 then
      await("interrupted", { 0 })
      -- The barrier that rank 0 no longer waits for may go on.
      local good, message
      repeat good, message = pcall(dist.barrier) until not good
      print(message)
      os.exit(0)
    end
    local pid = require("moonlet.system").pid()
    os.execute(("(sleep 0.5; kill -INT %d) &"):format(pid))
    local start = clock()
    local good, message = pcall(dist.barrier)
    print(message, clock() - start < 10)
    tell "interrupted"
    error "left"
  ]])
  expect.truthy(outputs[0]:find "interrupted!\ttrue", outputs[0])
  expect.truthy(outputs[1]:find("rank 0 has failed: .-left"), outputs[1])
  expect.equal(statuses[1], 0)
end)

test("wrong starts are clear errors", function()
  local function refuse(count, script, pattern, options)
    local outputs = ranks.run(count, ([[
      local start = clock()
      local good, message = pcall(function() %s end)
      print(message)
      assert(clock() - start < 10)
      os.exit(good and 0 or 5)
    ]]):format(script), options)
    local all = table.concat({ outputs[0], outputs[1], outputs[2] }, "\n")
    expect.truthy(all:find(pattern), all)
  end
  refuse(2, "dist.init_process_group { world_size = 2 + rank, timeout = 6 }",
    "says that world_size is %d, others say %d")
  refuse(2, "if rank == 0 then dist.init_process_group { world_size = 3, timeout = 1 } end",
    "of 3 ranks 1, 2 have not come within 1 s")
  refuse(3, "dist.init_process_group { rank = math.min(rank, 1), timeout = 6 }",
    "there is a rank 1 already")
  refuse(1, "dist.init_process_group { rank = 2, world_size = 2 }", "'rank' must be from 0 to")
  refuse(2, "dist.init_process_group { init_method = 'tcp://no.such.host.invalid:1', timeout = 5 }",
    "'no.such.host.invalid:1' cannot be resolved")
  refuse(2, "dist.init_process_group { init_method = 'tcp://192.0.2.1:1', rank = 0, timeout = 5 }",
    "is no address of this machine")
  refuse(1, "dist.init_process_group { init_method = 'udp://a:1', rank = 0, world_size = 2 }",
    "'init_method' must begin with")
  refuse(1, "dist.init_process_group { 'smoke' }", "'backend' must be")
  refuse(1, "dist.init_process_group() dist.init_process_group()", "there is a process group already")
  local store = ml.distributed.TCPStore("127.0.0.1", 0, { is_master = true })
  refuse(2, "dist.init_process_group { timeout = 2 }", "is in use", { port = store.port })
end)

test("a file to meet in, used twice", function()
  harness.with_temp_file(function(path)
    for _ = 1, 2 do
      ranks.run_well(2, ([[
        dist.init_process_group { init_method = "file://%s" }
        local x = ml.ones(2)
        dist.all_reduce(x)
        assert(x:sum():item() == 4)
        dist.destroy_process_group()
      ]]):format(path))
    end
  end)
end)

test("ranks that are killed at random: nobody hangs", function()
  math.randomseed(tonumber(os.getenv "MOONLET_SOAK_SEED" or 1))
  for _ = 1, tonumber(os.getenv "MOONLET_SOAK" or 4) do
    local victim, after = math.random(0, 2), math.random() * 0.5
    local outputs, statuses = ranks.run(3, ([[
      dist.init_process_group { timeout = 10 }
      if rank == %d then
        local pid = require("moonlet.system").pid()
        os.execute(("(sleep %%g; kill -9 %%d) > /dev/null 2>&1 &"):format(%g, pid))
      end
      local calls = { function() dist.all_reduce(ml.ones(1000)) end, dist.barrier,
        function() dist.broadcast(ml.ones(100000), 2) end,
        function() dist.all_gather_object({}, { rank }) end }
      while true do
        for _, call in ipairs(calls) do
          local good, message = pcall(call)
          if not good then
            print(message)
            os.exit(message:find "has died" and 9 or message:find "is gone" and 9 or 1)
          end
        end
      end
    ]]):format(victim, after), { seconds = 20 })
    for rank = 0, 2 do
      if rank ~= victim then expect.equal(statuses[rank], 9, outputs[rank]) end
    end
  end
end)

harness.run()
