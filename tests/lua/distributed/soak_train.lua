-- tests/lua/distributed/soak_train.lua: a training with checkpoints that soak_test.lua launches while
-- soak_killer.lua ends its processes. What is done is written to a journal, one line at a time.
-- usage: moonlet launch -n 2 soak_train.lua FOLDER TIMEOUT [STEPS]
-- With STEPS it ends after so many, else when there is a file FOLDER/enough.

local folder, timeout, most = ...
local system = require "moonlet.system"
local rank = math.tointeger(os.getenv "RANK")

local function write_line(name, text)
  local file <close> = assert(io.open(folder .. "/" .. name, "a"))
  file:write(text, "\n")
end

local function exists(name)
  local file <close> = io.open(folder .. "/" .. name)
  return file ~= nil
end

-- Who can be ended: this process and the launcher, its parent.
write_line("processes", ("%d %d %d"):format(rank, system.pid(),
  io.open "/proc/self/stat":read "a":match "%) %a (%d+)"))

local ml = require "moonlet"
local dist, nn = ml.distributed, ml.nn
local EVERY = 3  -- steps from one checkpoint to the next
local PATH = folder .. "/checkpoint.pt"

dist.init_process_group { timeout = tonumber(timeout) }
ml.manual_seed(1)
local net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.Tanh(),
  nn.Linear(32, 1)))
local optimizer = ml.optim.Adam(net:parameters(), { lr = 0.01 })
local step = 0
if exists "checkpoint.pt" then
  local saved = ml.load(PATH)
  net:load_state_dict(saved.net)
  optimizer:load_state_dict(saved.optimizer)
  step = saved.step
end
local steps = {}
dist.all_gather_object(steps, step)
assert(steps[1] == steps[2], "ranks begin at different steps")
if rank == 0 then write_line("journal", ("start %d %.3f"):format(step, system.clock())) end

local function save()
  if rank ~= 0 then return end
  ml.save(PATH, { net = net:state_dict(), optimizer = optimizer:state_dict(), step = step })
  write_line("journal", ("saved %d %.3f"):format(step, system.clock()))
end

-- Rank 0 says for all whether there is more to do.
local function is_done()
  local done = most and step >= tonumber(most) or not most and exists "enough"
  local flag = ml.tensor { done and 1.0 or 0.0 }
  dist.broadcast(flag, 0)
  return flag:item() == 1
end

while not is_done() do
  step = step + 1
  ml.manual_seed(step * 2 + rank)
  local x = ml.randn(16, 8)
  local loss = (net(x) - x:sum(2, true)):pow(2):mean()
  optimizer:zero_grad()
  loss:backward()
  optimizer:step()
  if step % EVERY == 0 then save() end
end
save()
dist.barrier()
if rank == 0 then write_line("journal", ("done %d %.3f"):format(step, system.clock())) end
dist.destroy_process_group()
