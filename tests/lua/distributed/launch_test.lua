-- tests/lua/distributed/launch_test.lua: moonlet launch, and the environments of other launchers.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ranks = require "distributed_ranks"
local test, expect = harness.test, harness.expect

test("ranks, arguments, prefixes, threads", function()
  local output, status = ranks.launch("-n 3", [[
    dist.init_process_group()
    local x = ml.tensor { rank + 1.0 }
    dist.all_reduce(x)
    print(dist.get_rank(), dist.get_local_rank(), dist.get_world_size(), x:item(), ...)
    io.stderr:write("to errors\n")
    io.write "no end of line"
    dist.destroy_process_group()
  ]], "one 'two words'")
  expect.equal(status, 0, output)
  for rank = 0, 2 do
    expect.truthy(output:find(("[%d] %d\t%d\t3\t6.0\tone\ttwo words\n"):format(rank, rank, rank), 1,
      true), output)
    expect.truthy(output:find(("[%d] to errors\n"):format(rank), 1, true), output)
    expect.truthy(output:find(("[%d] no end of line\n"):format(rank), 1, true), output)
  end
  output, status = ranks.launch("--nproc-per-node=2 --no-prefix", "io.write('r', rank, '\\n')")
  expect.equal(status, 0)
  expect.truthy(output == "r0\nr1\n" or output == "r1\nr0\n", output)
end)

test("the first failure ends the others, and is shown last with its traceback", function()
  local output, status = ranks.launch("-n 3", [[
    dist.init_process_group()
    dist.barrier()
    local function deep() error "the reason" end
    if rank == 1 then deep() end
    while true do dist.all_reduce(ml.ones(10)) end
  ]])
  expect.equal(status, 1)
  local last = output:match "launch: rank 1 failed first: it ended with exit code 1\n(.*)$"
  expect.truthy(last, output)
  expect.truthy(last:find("what rank 1 wrote to standard error", 1, true), last)
  expect.truthy(last:find("the reason", 1, true) and last:find("in upvalue 'deep'", 1, true)
    or last:find("in local 'deep'", 1, true), last)
  expect.truthy(output:find("%[0%] moonlet: .-all_reduce: rank 0: rank 1 has failed: .-the reason"),
    output)
end)

test("ranks that end before they come, are killed, or do not end when they are told", function()
  local start = os.time()
  local output, status = ranks.launch("-n 2", [[
    if rank == 1 then os.exit(7) end
    dist.init_process_group()
  ]])
  expect.equal(status, 1)
  expect.truthy(output:find("rank 1 failed first: it ended with exit code 7", 1, true), output)
  output = ranks.launch("-n 2", [[
    dist.init_process_group()
    if rank == 1 then os.execute("kill -9 " .. require("moonlet.system").pid()) end
    dist.barrier()
  ]])
  expect.truthy(output:find("rank 1 failed first: it was ended by SIGKILL", 1, true), output)
  expect.truthy(output:find("barrier: rank 0: rank 1 has died", 1, true), output)
  -- Rank 0 is stopped, so that no signal but one reaches it.
  output = ranks.launch("-n 2", [[
    if rank == 1 then os.exit(1) end
    os.execute("kill -STOP " .. require("moonlet.system").pid())
    while true do end
  ]])
  expect.truthy(output:find("rank 1 failed first", 1, true), output)
  expect.truthy(os.time() - start < 30)
end)

test("restarts begin anew, with the state that a checkpoint keeps", function()
  local path = os.tmpname()
  local output, status = ranks.launch("-n 2 --max-restarts 3", [[
    dist.init_process_group()
    local path = ...
    local file = io.open(path)
    local step = tonumber(file:read "a") or 0
    file:close()
    while step < 6 do
      step = step + 1
      local x = ml.tensor { 1.0 }
      dist.all_reduce(x)
      if rank == 0 then
        file = io.open(path, "w")
        file:write(step)
        file:close()
      end
      dist.barrier()
      if rank == 1 and step % 2 == 0 and step < 6 then error("at step " .. step) end
    end
    print("done", step, os.getenv "TORCHELASTIC_RESTART_COUNT")
    dist.destroy_process_group()
  ]], path)
  os.remove(path)
  expect.equal(status, 0, output)
  expect.truthy(output:find("at step 2", 1, true) and output:find("at step 4", 1, true), output)
  expect.truthy(output:find("launch: all ranks start anew, 2 of 3", 1, true), output)
  expect.truthy(output:find("[1] done\t6\t2", 1, true), output)
end)

test("Ctrl-C ends all", function()
  ranks.need_engine()
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write [[
    local ml = require "moonlet"
    ml.distributed.init_process_group()
    local rank = os.getenv "RANK"
    io.open((...) .. rank, "w"):write(require("moonlet.system").pid()):close()
    ml.distributed.barrier()
    if rank == "1" then os.execute "sleep 100" end
    -- The launcher is the parent of this process.
    local parent = io.open "/proc/self/stat":read "a":match "%) %a (%d+)"
    os.execute(("(sleep 0.5; kill -INT %s) &"):format(parent))
    ml.distributed.barrier()
  ]]
  file:close()
  local pipe <close> = io.popen(("timeout --foreground -s KILL 60 '%s' launch -n 2 '%s' '%s.' 2>&1; "
    .. "echo $?"):format(arg[-1], path, path))
  local text = pipe:read "a"
  expect.truthy(text:find "interrupted!", text)
  for rank = 0, 1 do
    local mark <close> = assert(io.open(path .. "." .. rank))
    expect.falsy(os.execute(("kill -0 %s 2> /dev/null"):format(mark:read "a")))
    os.remove(path .. "." .. rank)
  end
  os.remove(path)
end)

test("several machines: launchers that meet at an address, with a secret", function()
  ranks.need_engine()
  local path, port = os.tmpname(), ranks.free_port()
  local file = assert(io.open(path, "w"))
  file:write [[
    local ml = require "moonlet"
    ml.distributed.init_process_group()
    local x = ml.tensor { ml.distributed.get_rank() + 1.0 }
    ml.distributed.all_reduce(x)
    print(ml.distributed.get_rank(), ml.distributed.get_local_rank(), x:item())
    ml.distributed.destroy_process_group()
  ]]
  file:close()
  local command = ("'%s' launch -n 2 --nnodes 2 --node-rank %%d --rdzv 127.0.0.1:%d --secret pear "
    .. "'%s' 2>&1"):format(arg[-1], port, path)
  local pipe <close> = io.popen(("timeout 60 %s & timeout 60 %s; wait"):format(command:format(0),
    command:format(1)))
  local text = pipe:read "a"
  os.remove(path)
  for rank = 0, 3 do
    expect.truthy(text:find(("[%d] %d\t%d\t10.0"):format(rank, rank, rank % 2), 1, true), text)
  end
end)

test("wrong commands", function()
  local function refuses(options, pattern)
    local output, status = ranks.launch(options, "")
    expect.equal(status, 1, output)
    expect.truthy(output:find(pattern, 1, true), output)
    expect.falsy(output:find("traceback", 1, true), output)
  end
  refuses("-n 0", "launch: '-n' must be an integer of at least 1, got '0'")
  refuses("-n two", "got 'two'")
  refuses("--nodes 2", "launch: unrecognized option '--nodes'")
  refuses("--nnodes 2", "'--rdzv HOST:PORT' must say where the machines meet")
  refuses("--nnodes 2 --rdzv 127.0.0.1:1", "'--secret TEXT' must be the same on all machines")
  refuses("--nnodes 2 --node-rank 2 --rdzv a:1 --secret b", "'--node-rank' must be from 0 to 1")
  refuses("--rdzv nowhere", "'--rdzv' must be HOST:PORT, got 'nowhere'")
end)

-- Two processes with the variables that a launcher sets, in which RANK_HERE is the rank.
local function run_under(variables, script)
  ranks.need_engine()
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write("local dist = require('moonlet').distributed\n" .. script)
  file:close()
  local words = {}
  for rank = 0, 1 do
    words[#words + 1] = ("env -u RANK -u WORLD_SIZE %s timeout 60 '%s' '%s' 2>&1 &"):format(
      variables:gsub("RANK_HERE", rank), arg[-1], path)
  end
  local pipe <close> = io.popen(table.concat(words, " ") .. " wait")
  local text = pipe:read "a"
  os.remove(path)
  return text
end

-- What srun sets in each task of a step on one machine, and on several, of which the first is this.
local SRUN = "SLURM_JOB_ID=%d SLURM_JOBID=%d SLURM_STEP_ID=0 SLURM_STEPID=0 SLURM_PROCID=RANK_HERE "
  .. "SLURM_NTASKS=2 SLURM_NPROCS=2 SLURM_STEP_NUM_TASKS=2 "
local ONE_NODE = "SLURM_LOCALID=RANK_HERE SLURM_NODEID=0 SLURM_NNODES=1 SLURM_STEP_NUM_NODES=1 "
  .. "SLURM_NODELIST='no.such.host.invalid[3-4]' SLURM_LAUNCH_NODE_IPADDR=192.0.2.1 "
local TWO_NODES = "SLURM_LOCALID=0 SLURM_NODEID=RANK_HERE SLURM_NNODES=2 SLURM_STEP_NUM_NODES=2 "
  .. "SLURM_TASKS_PER_NODE='1(x2)' "

test("the environments of mpirun and SLURM", function()
  ranks.need_engine()
  local script = [[
    dist.init_process_group()
    print(dist.get_rank(), dist.get_world_size(), dist.get_local_rank())
    dist.barrier()
    dist.destroy_process_group()
  ]]
  local function run(name, variables, local_rank)
    local text = run_under(variables, script)
    expect.truthy(text:find("0\t2\t0\n", 1, true)
      and text:find(("1\t2\t%d\n"):format(local_rank), 1, true), name .. ": " .. text)
  end
  local function port() return "MASTER_PORT=" .. ranks.free_port() .. " " end
  run("mpirun", port() .. "OMPI_COMM_WORLD_RANK=RANK_HERE OMPI_COMM_WORLD_SIZE=2 "
    .. "OMPI_COMM_WORLD_LOCAL_RANK=RANK_HERE OMPI_COMM_WORLD_LOCAL_SIZE=2", 1)
  run("mpiexec", port() .. "PMI_RANK=RANK_HERE PMI_SIZE=2 MPI_LOCALRANKID=RANK_HERE "
    .. "MPI_LOCALNRANKS=2", 1)
  local job = SRUN:format(7, 7)
  run("srun, one machine", port() .. job .. ONE_NODE, 1)
  for name, nodes in pairs {
    ["of the step"] = "SLURM_STEP_NODELIST='127.0.0.[1-2]' SLURM_JOB_NODELIST='no.such.host[1-9]'",
    ["of the job"] = "SLURM_JOB_NODELIST=127.0.0.1,no.such.host SLURM_NODELIST=no.such.host",
    ["by its old name"] = "SLURM_NODELIST='127.0.0.[1,9]'",
    ["of the launch"] = "SLURM_LAUNCH_NODE_IPADDR=127.0.0.1" } do
    run("srun, the nodes " .. name, port() .. job .. TWO_NODES .. nodes, 0)
  end
  -- Without a port it follows from the job's number.
  local number = ranks.free_port() - 29500
  if number > 0 and number < 10007 then
    run("srun, the job's port", SRUN:format(number, number) .. ONE_NODE, 1)
  end
  local outputs = ranks.run(1, "local good, message = pcall(dist.init_process_group) print(message)",
    { environment = { RANK = "0", WORLD_SIZE = "two" } })
  expect.truthy(outputs[0]:find("the variable WORLD_SIZE must be an integer, got 'two'", 1, true),
    outputs[0])
end)

test("the script of sbatch is one process, a step with fewer tasks has these", function()
  local script = [[
    dist.init_process_group()
    print(dist.get_rank(), dist.get_world_size())
    dist.destroy_process_group()
  ]]
  local batch = "SLURM_JOB_ID=8 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=4 SLURM_NNODES=2 "
    .. "SLURM_NODELIST='no.such.host.invalid[3-4]' "
  expect.equal(run_under(batch, script), "0\t1\n0\t1\n")
  local text = run_under(batch .. SRUN:format(8, 8):gsub("SLURM_NTASKS=2", "SLURM_NTASKS=4")
    .. ONE_NODE .. "MASTER_PORT=" .. ranks.free_port(), script)
  expect.truthy(text:find("0\t2\n", 1, true) and text:find("1\t2\n", 1, true), text)
end)

test("the first machine of SLURM's lists", function()
  local function host_of(list)
    local words = ("env -u RANK -u WORLD_SIZE -u MASTER_ADDR SLURM_PROCID=1 SLURM_NTASKS=2 "
      .. "SLURM_NNODES=2 SLURM_NODELIST='%s' '%s' -e "):format(list, arg[-1])
      .. "'print(require(\"moonlet.distributed.environment\").read().host)' 2>&1"
    local pipe <close> = io.popen(words)
    return (pipe:read "a":gsub("\n$", ""))
  end
  for list, host in pairs { ["node03"] = "node03", ["node03,node04"] = "node03",
    ["node[03-05,9],other"] = "node03", ["node[9,03-05]"] = "node9",
    ["rack[2-3]node[03-05].local,other"] = "rack2node03.local", ["a[1-2]-ib,b"] = "a1-ib" } do
    expect.equal(host_of(list), host)
  end
end)

harness.run()
