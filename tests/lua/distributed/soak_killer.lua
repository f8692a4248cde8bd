-- tests/lua/distributed/soak_killer.lua: ends processes of soak_train.lua at random moments: ranks by
-- signals that they do not see, or that they do, or by stopping them; now and then the launcher.
-- usage: soak_killer.lua FOLDER KILLS SEED

local folder, kills, seed = ...
local system = require "moonlet.system"
math.randomseed(math.tointeger(tonumber(seed)))

-- The latest processes of ranks 0 and 1, and their launcher.
local function processes()
  local out = {}
  local file <close> = io.open(folder .. "/processes")
  for line in file and file:lines() or function() end do
    local rank, pid, launcher = line:match "^(%d+) (%d+) (%d+)$"
    if rank then
      out[rank], out.launcher = pid, launcher
    end
  end
  return out
end

-- How often each is drawn of 20.
local KINDS = { { 16, "KILL" }, { 1, "TERM" }, { 1, "STOP" }, { 2, "KILL", "launcher" } }

local function draw()
  local number = math.random(20)
  for _, kind in ipairs(KINDS) do
    number = number - kind[1]
    if number <= 0 then return kind[2], kind[3] or tostring(math.random(0, 1)) end
  end
end

local done = 0
while done < tonumber(kills) do
  os.execute(("sleep %.3f"):format(math.random() * 2))
  local signal, who = draw()
  local pid = processes()[who]
  -- A process that has ended already is none.
  if pid and os.execute(("kill -%s %s 2> /dev/null"):format(signal, pid)) then
    done = done + 1
    local file <close> = assert(io.open(folder .. "/journal", "a"))
    file:write(("kill %s %s %.3f\n"):format(who, signal, system.clock()))
  end
end
assert(io.open(folder .. "/enough", "w")):close()
