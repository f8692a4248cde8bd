-- tests/lua/distributed_ranks.lua: runs a script in several processes on this machine, each of them
-- a rank, for the tests of ml.distributed.

local harness = require "harness"

local ranks = {}

local programs = 0

-- What carries the tensors in this run of the tests. That of MPI starts the ranks by mpirun.
local backend = os.getenv "MOONLET_TEST_BACKEND" or "gloo"
ranks.backend = backend

-- Why mpirun cannot be used here; nil where it can.
local function mpirun_problem()
  if not os.execute "command -v mpirun > /dev/null 2>&1" then return "mpirun is not here" end
  local pipe <close> = assert(io.popen "mpirun --version 2>&1")
  if not pipe:read("a"):find "Open MPI" then return "this mpirun is not Open MPI's" end
end

-- As root too, with more ranks than processors. What Open MPI leaves allocated at its end is no leak
-- of ours, and its libraries are closed when leaks are looked for, so that none can be named. In the
-- second form a rank that ends badly does not end the others, so that what they say of it is seen.
ranks.MPIRUN_PLAIN = "ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 "
  .. "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun "
  .. "--oversubscribe --bind-to none --mca btl_vader_single_copy_mechanism none"
local MPIRUN = ranks.MPIRUN_PLAIN .. " --enable-recovery --mca orte_abort_on_non_zero_status 0"

-- A port that nobody listens at, from the kernel's.
local function free_port()
  local engine = require "moonlet.distributed_engine"
  local server = engine.serve("127.0.0.1", 0, "")
  local port = server:port()
  server:close()
  return port
end
ranks.free_port = free_port

--- Skips the running test where the plugin was not built, or its launcher is not here.
---@param wanted? string the backend; that of this run unless given
function ranks.need_engine(wanted)
  wanted = wanted or backend
  local reason = require("moonlet.distributed_engine").unavailable(wanted)
  if not reason and wanted == "mpi" then reason = mpirun_problem() end
  if reason then harness.skip(reason) end
end

local function write_file(path, text)
  local file <close> = assert(io.open(path, "w"))
  file:write(text)
end

local function read_file(path)
  local file <close> = io.open(path)
  return file and file:read "a" or ""
end

-- What each script begins with.
local HEAD = [[
local ml = require "moonlet"
local dist = ml.distributed
local rank = math.tointeger(os.getenv "RANK" or os.getenv "OMPI_COMM_WORLD_RANK")
local clock = require("moonlet.system").clock
-- What ranks tell each other beside their groups, by the store of rank 0: that something has come
-- about, and the wait for that, which also ends when the store does.
local function meeting()
  return dist.TCPStore(os.getenv "MASTER_ADDR", math.tointeger(os.getenv "MASTER_PORT"))
end
local function tell(what) meeting():set("told/" .. what .. rank, "") end
local function await(what, others)
  local keys = {}
  for i, other in ipairs(others) do keys[i] = "told/" .. what .. other end
  pcall(function() meeting():wait(keys) end)
end
local function near(got, wanted, what)
  local difference = (got:double() - wanted:double()):abs():max():item()
  assert(difference <= 1e-5, ("%s: off by %g"):format(what or "", difference))
end
]]

-- Scripts that name no backend take MPI.
local BY_MPI = [[
local named = dist
dist = setmetatable({ init_process_group = function(given)
  local all = { backend = "mpi" }
  for name, value in pairs(given or {}) do all[name] = value end
  if all[1] then all.backend = nil end
  return named.init_process_group(all)
end }, { __index = named })
]]

--- Runs `script` as `count` ranks. Returns what each wrote, by rank from 0, and its exit code.
---@param count integer
---@param script string Lua; `ml`, `dist`, `rank`, `clock` and `near` are there
---@param options? table { environment = { name = value }, seconds = 60, port = a free one,
---   address = "127.0.0.1", of rank 0; within = function(rank) that gives a command which runs it }
---@return table outputs
---@return table statuses
function ranks.run(count, script, options)
  ranks.need_engine()
  options = options or {}
  programs = programs + 1
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute(("mkdir '%s'"):format(folder)))
  write_file(folder .. "/ranks.lua", HEAD .. (backend == "mpi" and BY_MPI or "") .. script)
  local port = options.port or free_port()
  local variables = ("MASTER_ADDR=%s MASTER_PORT=%d OMP_NUM_THREADS=1"):format(
    options.address or "127.0.0.1", port)
  for name, value in pairs(options.environment or {}) do
    variables = ("%s %s='%s'"):format(variables, name, value)
  end
  local words = {}
  local function command(rank)
    return ("timeout -s KILL %d %s '%s' '%s/ranks.lua' > %s/%s 2>&1; echo $? > %s/%s.status"):format(
      options.seconds or 60, options.within and options.within(rank) or "", arg[-1], folder, folder,
      rank, folder, rank)
  end
  if backend == "mpi" then
    local path = folder .. "/rank.sh"
    write_file(path, command "$OMPI_COMM_WORLD_RANK" .. "\n")
    words[1] = ("%s %s -n %d sh %s > %s/mpirun 2>&1"):format(variables, MPIRUN, count,
      path, folder)
  else
    for rank = 0, count - 1 do
      words[#words + 1] = ("(RANK=%d WORLD_SIZE=%d LOCAL_RANK=%d; export RANK WORLD_SIZE LOCAL_RANK; "
        .. "%s %s) &"):format(rank, count, rank, variables, command(rank))
    end
    words[#words + 1] = "wait"
  end
  os.execute(table.concat(words, "\n"))
  local outputs, statuses = {}, {}
  local launcher = backend == "mpi" and read_file(folder .. "/mpirun") or ""
  for rank = 0, count - 1 do
    outputs[rank] = read_file(folder .. "/" .. rank)
    if outputs[rank] == "" then outputs[rank] = launcher end
    statuses[rank] = tonumber(read_file(folder .. "/" .. rank .. ".status"))
  end
  os.execute(("rm -rf '%s'"):format(folder))
  return outputs, statuses
end

--- The same for a script whose ranks must all end well; fails with what they wrote.
---@return table outputs
function ranks.run_well(count, script, options)
  local outputs, statuses = ranks.run(count, script, options)
  for rank = 0, count - 1 do
    if statuses[rank] ~= 0 then
      error(("rank %d ended with %s:\n%s"):format(rank, tostring(statuses[rank]), outputs[rank]), 0)
    end
  end
  return outputs
end

--- Runs `moonlet launch` with a script; what it wrote to output and errors, and its exit code.
---@param options string
---@param script string
---@param arguments? string
---@return string output
---@return integer status
function ranks.launch(options, script, arguments)
  ranks.need_engine()
  local path = os.tmpname()
  write_file(path, HEAD .. script)
  local pipe <close> = assert(io.popen(("timeout -s KILL 60 '%s' launch %s '%s' %s 2>&1; echo $?")
    :format(arg[-1], options, path, arguments or "")))
  local text = pipe:read "a"
  os.remove(path)
  local output, status = text:match "^(.*)%f[%d](%d+)\n$"
  return output, tonumber(status)
end

return ranks
