-- tests/lua/distributed/mpi_test.lua: scripts under mpirun as users start them, over MPI and over Gloo, and
-- what is said where MPI is not there or has not started the process.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ranks = require "distributed_ranks"
local test, expect = harness.test, harness.expect
local ml = require "moonlet"

local SOURCE = os.getenv "MOONLET_SOURCE" or "."

-- What the shell's command writes, and its exit code.
local function run(command)
  local pipe <close> = assert(io.popen(("timeout -s KILL 120 sh -c '%s' 2>&1; echo $?")
    :format(command:gsub("'", "'\\''"))))
  local output, status = pipe:read("a"):match "^(.*)%f[%d](%d+)\n$"
  return output, tonumber(status)
end

-- The same for a Lua script in `count` processes.
local function mpirun(count, script)
  local output, status
  harness.with_temp_file(function(path)
    local file <close> = assert(io.open(path, "w"))
    file:write([[local ml = require "moonlet" local dist = ml.distributed ]], script)
    file:close()
    output, status = run(("MASTER_PORT=%d OMP_NUM_THREADS=1 %s -n %d '%s' '%s'"):format(ranks.free_port(),
      ranks.MPIRUN_PLAIN, count, arg[-1], path))
  end)
  return output, status
end

test("ddp_mnist.lua under mpirun learns the same over MPI and over Gloo", function()
  ranks.need_engine "mpi"
  ranks.need_engine "gloo"
  local outputs = {}
  for _, backend in ipairs { "mpi", "gloo" } do
    harness.with_temp_file(function(path)
      local output, status = run(("MASTER_PORT=%d OMP_NUM_THREADS=1 %s -n 2 '%s' '%s/scripts/ddp_mnist.lua' "
        .. "--backend %s --epochs 1 --out '%s'"):format(ranks.free_port(), ranks.MPIRUN_PLAIN, arg[-1],
        SOURCE, backend, path))
      expect.equal(status, 0, output)
      outputs[#outputs + 1] = output:match "epoch 1: loss [%d.]+" or output
      expect.truthy(next((ml.load(path))), output)
    end)
  end
  expect.truthy(outputs[1]:find "epoch 1: loss [%d.]+", outputs[1])
  expect.equal(outputs[1], outputs[2])
end)

test("a rank that raises ends the job, with its message and those of the others", function()
  ranks.need_engine "mpi"
  local output, status = mpirun(3, [[
    dist.init_process_group { backend = "mpi" }
    dist.barrier()
    if dist.get_rank() == 1 then error "out of data" end
    dist.all_reduce(ml.ones(2))
  ]])
  expect.truthy(status ~= 0 and status ~= 137, output)
  expect.truthy(output:find("out of data", 1, true), output)
  expect.truthy(output:find "all_reduce: rank %d: rank 1 has failed: [^\n]-out of data", output)
end)

test("ranks that end at different times wait for each other", function()
  ranks.need_engine "mpi"
  local output, status = mpirun(2, [[
    dist.init_process_group { backend = "mpi" }
    local x = ml.ones(2)
    dist.all_reduce(x)
    dist.destroy_process_group()
    if dist.get_local_rank() == 1 then os.execute "sleep 0.5" end
    print("ended", x[1]:item())
  ]])
  expect.equal(status, 0, output)
  local _, count = output:gsub("ended\t2", "")
  expect.equal(count, 2, output)
end)

test("a process that no launcher of MPI's has started, and ranks that are not MPI's", function()
  ranks.need_engine "mpi"
  harness.with_temp_file(function(path)
    local file <close> = assert(io.open(path, "w"))
    file:write [[require("moonlet").distributed.init_process_group { "mpi", timeout = 30 }]]
    file:close()
    local words = {}
    for rank = 0, 1 do
      words[#words + 1] = ("RANK=%d WORLD_SIZE=2 MASTER_PORT=%d '%s' '%s' & "):format(rank,
        20000 + math.random(20000), arg[-1], path)
    end
    -- Both have one port.
    words[2] = words[2]:gsub("MASTER_PORT=%d+", words[1]:match "MASTER_PORT=%d+")
    local output = run(table.concat(words) .. "wait")
    local _, count = output:gsub("run the script by mpirun %-n N moonlet SCRIPT", "")
    expect.equal(count, 2, output)
  end)
  local output, status = mpirun(2, [[
    local rank = math.tointeger(os.getenv "OMPI_COMM_WORLD_RANK")
    dist.init_process_group { "mpi", rank = 1 - rank, world_size = 2, timeout = 30 }
  ]])
  expect.truthy(status ~= 0, output)
  expect.truthy(output:find "this is rank %d of 2 for MPI: leave 'rank' and 'world_size'", output)
end)

test("where the plugin is not there, MPI is refused with the reason", function()
  local output = run(("MOONLET_DISTRIBUTED_MPI_PLUGIN=/no/such/file.so RANK=0 WORLD_SIZE=2 '%s' -e '%s'")
    :format(arg[-1], [[local dist = require("moonlet").distributed
      print(dist.is_mpi_available())
      print(pcall(dist.init_process_group, "mpi"))]]))
  expect.truthy(output:find("false\tthis Moonlet was built without MPI", 1, true), output)
  expect.truthy(output:find "init_process_group: 2 ranks need MPI: this Moonlet was built without",
    output)
end)

test("one rank over MPI needs no launcher", function()
  ml.distributed.init_process_group "mpi"
  local x = ml.ones(2)
  ml.distributed.all_reduce(x)
  expect.equal(x:tolist(), { 1.0, 1.0 })
  expect.equal(ml.distributed.get_backend(), "mpi")
  ml.distributed.destroy_process_group()
end)

harness.run()
