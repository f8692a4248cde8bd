-- stdlib/distributed/environment.lua: which rank of how many this process is, and where they meet,
-- as launchers say it in the environment: moonlet launch and torchrun, mpirun, SLURM.

local options = require "moonlet.options"
local system = require "moonlet.system"
local fail = options.fail

local environment = {}

local getenv = system.getenv

local function integer_of(name)
  local text = getenv(name)
  if not text or text == "" then return nil end
  return math.tointeger(tonumber(text))
    or fail("init_process_group: the variable %s must be an integer, got '%s'", name, text)
end

-- The variables of each launcher: rank, number of ranks, rank and number on the machine.
local LAUNCHERS = {
  { "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE" },
  { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE" },
  { "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS" },
  { "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID" },
  { "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID" },
}

-- The script of a job that sbatch runs is no rank, though it has the variables of one: only what
-- srun starts is a task of a step.
local function is_batch_script(names)
  local step = getenv "SLURM_STEP_ID" or getenv "SLURM_STEPID"
  return names[1] == "SLURM_PROCID" and getenv "SLURM_JOB_ID" and (not step or step == "batch")
end


-- "rack[2-3]node[03-05,9].local,other" begins with rack2node03.local.
local function first_host(list)
  local plain = list:gsub("%b[]", function(numbers) return numbers:match "[^%[,%-]+" end)
  return plain:match "^[^,]+"
end

-- The machine of SLURM's rank 0: the first one of the step or, where none is listed, that on which
-- srun was called.
local function slurm_host()
  if integer_of "SLURM_NNODES" == 1 or integer_of "SLURM_STEP_NUM_NODES" == 1 then
    return "127.0.0.1"
  end
  for _, name in ipairs { "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST" } do
    local nodes = getenv(name)
    if nodes and nodes ~= "" then
      return first_host(nodes)
        or fail("init_process_group: the variable %s must list machines, got '%s'", name, nodes)
    end
  end
  return getenv "SLURM_LAUNCH_NODE_IPADDR"
end

-- Programs that run side by side need ports of their own.
local function port_of_job()
  local job = getenv "SLURM_JOB_ID" or getenv "PMIX_NAMESPACE" or getenv "OMPI_MCA_ess_base_jobid"
  local sum = 0
  for digit in (job or ""):gmatch "%d" do sum = (sum * 10 + digit) % 10007 end
  return 29500 + sum
end

-- Where the ranks meet when MASTER_ADDR does not say it: on this machine, or on SLURM's first one.
local function meeting(found)
  local host, port = getenv "MASTER_ADDR", integer_of "MASTER_PORT"
  if not host and found.size then
    if found.by == "SLURM_PROCID" then
      host = slurm_host()
    elseif found.local_size and found.local_size < found.size then
      fail "init_process_group: the ranks are on several machines: the variable MASTER_ADDR must "
        "name that of rank 0"
    end
  end
  -- The launcher of PyTorch has a store of its own at that port.
  if port and getenv "TORCHELASTIC_USE_AGENT_STORE" == "True" then port = port + 1 end
  return host or "127.0.0.1", port or port_of_job()
end

--- What the environment says: `rank`, `size`, `local_rank`, `host`, `port`, `secret`, `run`, the
--- number of this start, and whether the launcher keeps the store. Without a launcher one rank.
---@return table
function environment.read()
  local found = {}
  for _, names in ipairs(LAUNCHERS) do
    if getenv(names[1]) and getenv(names[2]) and not is_batch_script(names) then
      found = { rank = integer_of(names[1]), size = integer_of(names[2]),
        local_rank = integer_of(names[3]), local_size = names[4] and integer_of(names[4]),
        by = names[1] }
      break
    end
  end
  found.host, found.port = meeting(found)
  found.secret = getenv "MOONLET_STORE_SECRET" or ""
  found.run = getenv "MOONLET_RUN" or "0"
  found.store_is_kept = getenv "MOONLET_STORE" == "launcher"
  return found
end

return environment
