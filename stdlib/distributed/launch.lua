-- stdlib/distributed/launch.lua: the command `moonlet launch`: the ranks of a script as processes
-- of this machine. Their output is shown by lines, the first that fails ends the others.

local engine = require "moonlet.distributed_engine"
local options = require "moonlet.options"
local system = require "moonlet.system"

local launch = {}

local USAGE = [[
usage: moonlet launch [options] SCRIPT [ARGS...]
Runs SCRIPT in several processes, which ml.distributed.init_process_group() makes ranks of one run.
  -n N, --nproc-per-node N  processes on this machine (1)
  --nnodes N                machines, on each of which this command is run (1)
  --node-rank I             which of these this is, from 0 (0)
  --rdzv HOST:PORT          where the ranks of several machines meet: an address of machine 0
  --secret TEXT             what only processes of this run know, with several machines
  --max-restarts N          how often all are started anew after a failure (0)
  --no-prefix               lines of output without "[rank]" in front
]]

local function fail(format, ...) error(("launch: " .. format):format(...), 0) end

local TAKES_VALUE = { ["-n"] = "processes", ["--nproc-per-node"] = "processes",
  ["--nnodes"] = "nodes", ["--node-rank"] = "node", ["--rdzv"] = "meeting",
  ["--secret"] = "secret", ["--max-restarts"] = "restarts" }
local LEAST = { processes = 1, nodes = 1, node = 0, restarts = 0 }

local function read_arguments(words)
  local given, i = { processes = 1, nodes = 1, node = 0, restarts = 0, prefix = true }, 1
  while i <= #words and words[i]:sub(1, 1) == "-" do
    local word = words[i]
    local name, value = word:match "^(%-%-[%a-]+)=(.*)$"
    name = name or word
    if name == "--help" or name == "-h" then
      given.help = true
      return given
    elseif name == "--no-prefix" then
      given.prefix = false
    elseif TAKES_VALUE[name] then
      if value == nil then
        i = i + 1
        value = words[i] or fail("a value is missing behind '%s'", name)
      end
      local key = TAKES_VALUE[name]
      given[key] = value
      if LEAST[key] then
        given[key] = math.tointeger(tonumber(value))
        if not given[key] or given[key] < LEAST[key] then
          fail("'%s' must be an integer of at least %d, got '%s'", name, LEAST[key], value)
        end
      end
    else
      fail("unrecognized option '%s'\n%s", word, USAGE)
    end
    i = i + 1
  end
  given.command = table.move(words, i, #words, 1, {})
  if #given.command == 0 then fail("a script is missing\n%s", USAGE) end
  return given
end

local function check_nodes(given)
  if given.node >= given.nodes then
    fail("'--node-rank' must be from 0 to %d, got %d", given.nodes - 1, given.node)
  elseif given.nodes > 1 and not given.meeting then
    fail "'--rdzv HOST:PORT' must say where the machines meet"
  elseif given.nodes > 1 and not given.secret then
    fail "'--secret TEXT' must be the same on all machines: who knows it can join the run"
  end
end

local function new_secret()
  local file <close> = assert(io.open("/dev/urandom", "rb"))
  return (file:read(16):gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

-- Where the ranks meet; the launcher of machine 0 keeps the store.
local function meeting_of(given)
  local host, port = "127.0.0.1", "0"
  if given.meeting then
    host, port = given.meeting:match "^%[?(.-)%]?:(%d+)$"
    if not host then fail("'--rdzv' must be HOST:PORT, got '%s'", given.meeting) end
  end
  local endpoint = { host = host, port = math.tointeger(tonumber(port)),
    secret = given.secret or new_secret() }
  if given.node == 0 then
    local good, server = pcall(engine.serve, endpoint.host, endpoint.port, endpoint.secret)
    if not good then fail("%s", (tostring(server):gsub("^[^\n]-:%d+: ", ""))) end
    endpoint.server, endpoint.port = server, server:port()
  end
  return endpoint
end

-- The variables of this process with others instead of theirs.
local function environment_with(changes)
  local out = {}
  for _, each in ipairs(engine.environment()) do
    if changes[each:match "^[^=]*"] == nil then out[#out + 1] = each end
  end
  for name, value in pairs(changes) do out[#out + 1] = name .. "=" .. value end
  return out
end

local function ranks_of(given, endpoint, start)
  local ranks, size = {}, given.processes * given.nodes
  local arguments = table.move(given.command, 1, #given.command, 2, { system.executable() })
  for i = 0, given.processes - 1 do
    local rank = given.node * given.processes + i
    local changes = { RANK = rank, WORLD_SIZE = size, LOCAL_RANK = i,
      LOCAL_WORLD_SIZE = given.processes, MASTER_ADDR = endpoint.host, MASTER_PORT = endpoint.port,
      MOONLET_STORE = "launcher", MOONLET_STORE_SECRET = endpoint.secret, MOONLET_RUN = start,
      TORCHELASTIC_RESTART_COUNT = start, GROUP_RANK = given.node }
    -- Ranks that all took all processors would wait for each other.
    if given.processes > 1 and not system.getenv "OMP_NUM_THREADS" then
      changes.OMP_NUM_THREADS = math.max(1, engine.processors() // given.processes)
    end
    ranks[#ranks + 1] = { number = rank, arguments = arguments,
      environment = environment_with(changes) }
  end
  return ranks
end

local function show_line(prefix)
  return function(rank, is_error, text)
    local file = is_error and io.stderr or io.stdout
    file:write(prefix and ("[%d] "):format(rank) or "", text, "\n")
    file:flush()
  end
end

-- Which rank failed first: the store knows of those that came to it, and else who ended first.
local function first_of(ends, endpoint, start)
  local failed, first = {}, nil
  for _, each in ipairs(ends) do
    if each.status ~= 0 then failed[each.number] = each end
    if each.first then first = each end
  end
  local told, earliest = {}, nil
  for _, peer in ipairs(endpoint.server and endpoint.server:gone(start .. ".1") or {}) do
    told[peer.rank] = true
    if peer.state ~= "left" then earliest = earliest or failed[peer.rank] end
  end
  return first and told[first.number] and earliest or first
end

local SIGNALS = { [129] = "SIGHUP", [130] = "SIGINT", [131] = "SIGQUIT", [132] = "SIGILL",
  [134] = "SIGABRT", [135] = "SIGBUS", [136] = "SIGFPE", [137] = "SIGKILL", [139] = "SIGSEGV",
  [143] = "SIGTERM" }

local function report(first)
  local how = SIGNALS[first.status] and "was ended by " .. SIGNALS[first.status]
    or ("ended with exit code %d"):format(first.status)
  io.stderr:write(("launch: rank %d failed first: it %s\n"):format(first.number, how))
  if first.errors ~= "" then
    io.stderr:write(("launch: what rank %d wrote to standard error:\n%s"):format(first.number,
      first.errors))
  end
  io.stderr:flush()
end

-- The store is needed by ranks of other machines until they have ended: they hear from it what has
-- failed. After a failure their own launcher ends them; who has not come by then hears no more.
local FAILURE_SECONDS, ANY_SECONDS = 3, 1e9
local function wait_for_other_machines(given, endpoint, ends)
  if given.nodes == 1 or not endpoint.server then return end
  local seconds = ANY_SECONDS
  for _, each in ipairs(ends) do
    if each.status ~= 0 then seconds = FAILURE_SECONDS end
  end
  endpoint.server:wait_for_ranks(seconds)
end

local function run(words)
  local given = read_arguments(words)
  if given.help then
    io.write(USAGE)
    return true
  end
  check_nodes(given)
  local reason = engine.unavailable()
  if reason then fail("%s", reason) end
  local endpoint = meeting_of(given)
  for start = 0, given.restarts do
    local ends = engine.launch(ranks_of(given, endpoint, start), show_line(given.prefix))
    wait_for_other_machines(given, endpoint, ends)
    local first = first_of(ends, endpoint, start)
    if not first then return true end
    report(first)
    if start < given.restarts then
      io.stderr:write(("launch: all ranks start anew, %d of %d\n"):format(start + 1,
        given.restarts))
    end
  end
  return false
end

--- Runs the command with the words behind `moonlet launch`.
---@param words string[]
---@return boolean succeeded
function launch.command(words)
  local good, result = pcall(run, words)
  if not good then options.report(result) end
  return good and result
end

return launch
