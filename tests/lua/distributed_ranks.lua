-- tests/lua/distributed_ranks.lua: runs a script in several processes on this machine, each of them
-- a rank, for the tests of ml.distributed.

local harness = require "harness"

local ranks = {}

local programs = 0

-- A port that nobody listens at, from the kernel's.
local function free_port()
  local engine = require "moonlet.distributed_engine"
  local server = engine.serve("127.0.0.1", 0, "")
  local port = server:port()
  server:close()
  return port
end
ranks.free_port = free_port

--- Skips the running test where the plugin was not built.
function ranks.need_engine()
  local reason = require("moonlet.distributed_engine").unavailable()
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
local rank = math.tointeger(os.getenv "RANK")
local clock = require("moonlet.system").clock
local function near(got, wanted, what)
  local difference = (got:double() - wanted:double()):abs():max():item()
  assert(difference <= 1e-5, ("%s: off by %g"):format(what or "", difference))
end
]]

--- Runs `script` as `count` ranks. Returns what each wrote, by rank from 0, and its exit code.
---@param count integer
---@param script string Lua; `ml`, `dist`, `rank`, `clock` and `near` are there
---@param options? table { environment = { name = value }, seconds = 60 }
---@return table outputs
---@return table statuses
function ranks.run(count, script, options)
  ranks.need_engine()
  options = options or {}
  programs = programs + 1
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute(("mkdir '%s'"):format(folder)))
  write_file(folder .. "/ranks.lua", HEAD .. script)
  local words = {}
  local port = options.port or free_port()
  for rank = 0, count - 1 do
    local variables = ("RANK=%d WORLD_SIZE=%d LOCAL_RANK=%d MASTER_ADDR=127.0.0.1 MASTER_PORT=%d "
      .. "OMP_NUM_THREADS=1"):format(rank, count, rank, port)
    for name, value in pairs(options.environment or {}) do
      variables = ("%s %s='%s'"):format(variables, name, value)
    end
    words[#words + 1] = ("(%s timeout -s KILL %d '%s' '%s/ranks.lua' > '%s/%d' 2>&1; "
      .. "echo $? > '%s/%d.status') &"):format(variables, options.seconds or 60, arg[-1], folder,
      folder, rank, folder, rank)
  end
  os.execute(table.concat(words, "\n") .. "\nwait")
  local outputs, statuses = {}, {}
  for rank = 0, count - 1 do
    outputs[rank] = read_file(folder .. "/" .. rank)
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
