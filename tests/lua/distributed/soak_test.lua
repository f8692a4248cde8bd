-- tests/lua/distributed/soak_test.lua: a training whose processes are ended at random moments, again
-- and again, under `moonlet launch --max-restarts`: nobody hangs, what a checkpoint holds is never lost,
-- and at the end the weights are those of a training that nobody disturbed, bit for bit.
-- MOONLET_SOAK says how often (8), MOONLET_SOAK_SEED which moments.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ranks = require "distributed_ranks"
local test, expect = harness.test, harness.expect
local ml = require "moonlet"

local KILLS = math.tointeger(tonumber(os.getenv "MOONLET_SOAK" or 8))
local SEED = os.getenv "MOONLET_SOAK_SEED" or "1"
-- Seconds that a rank may be silent, and from a kill to the next start at most: the others notice,
-- the launcher waits for those that do not end, and all begin anew, on processors that are in use.
local TIMEOUT, MOST_SECONDS = 4, 60

local here = arg[0]:match "^(.*)/" or "."
local moonlet = arg[-1]

-- Launches a training; its output and whether it ended well.
local function train(folder, restarts, arguments)
  local pipe <close> = assert(io.popen(("OMP_NUM_THREADS=1 timeout -s INT -k 5 %d '%s' launch -n 2 "
    .. "--max-restarts %d '%s/soak_train.lua' '%s' %g %s 2>&1; echo ended with $?"):format(
    600 + 10 * KILLS, moonlet, restarts, here, folder, TIMEOUT, arguments)))
  local text = pipe:read "a"
  return text, text:find "ended with 0\n$" ~= nil
end

-- What the journal says: a table of counts and times, after checks of each line.
local function check_journal(folder)
  local out = { kills = 0, starts = 0, longest = 0, stopped = 0 }
  local saved, killed = 0, nil
  for line in io.lines(folder .. "/journal") do
    local what, rest = line:match "^(%l+) (.*)$"
    local step, time = rest:match "^(%d+) ([%d.]+)$"
    step, time = tonumber(step), tonumber(time)
    if what == "kill" then
      out.kills = out.kills + 1
      if rest:find "STOP" then out.stopped = out.stopped + 1 end
      killed = killed or tonumber(rest:match "[%d.]+$")
    elseif what == "start" then
      out.starts = out.starts + 1
      expect.truthy(step >= saved, ("step %d was saved, and a start is at %d"):format(saved, step))
      if killed then out.longest = math.max(out.longest, time - killed) end
      killed = nil
    elseif what == "saved" then
      expect.truthy(step >= saved, line)
      saved = step
    elseif what == "done" then
      out.done = step
    end
  end
  return out
end

local function in_folder(f)
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute(("mkdir '%s'"):format(folder)))
  local good, message = pcall(f, folder)
  os.execute(("rm -rf '%s'"):format(folder))
  if not good then error(message, 0) end
end

-- The tensors of a table as one list of bits.
local function same(a, b)
  for name, value in pairs(a) do
    if ml.is_tensor(value) then
      if not (b[name] and value:equal(b[name])) then return false end
    elseif type(value) == "table" then
      if not same(value, b[name]) then return false end
    elseif value ~= b[name] then
      return false
    end
  end
  return true
end

-- Trains while processes are ended until the killer is through; what was written meanwhile.
local function train_under_fire(folder)
  assert(os.execute(("OMP_NUM_THREADS=1 timeout -s KILL %d '%s' '%s/soak_killer.lua' '%s' %d %s &"):format(
    600 + 10 * KILLS, moonlet, here, folder, KILLS, SEED)))
  local texts = {}
  repeat
    local text, good = train(folder, 100000, "")
    texts[#texts + 1] = text
    -- The launcher itself may have been ended; that the time is over is another code.
    if not good and not text:find "ended with 137\n$" then error(table.concat(texts), 0) end
  until good
  return table.concat(texts), #texts
end

test(("%d kills at random moments"):format(KILLS), function()
  ranks.need_engine()
  in_folder(function(folder)
    local text, launches = train_under_fire(folder)
    local counts = check_journal(folder)
    expect.equal(counts.kills, KILLS, text)
    -- Nothing but a kill starts it anew, and it gets on.
    expect.truthy(counts.starts <= KILLS + 1, text)
    expect.truthy((counts.done or 0) > KILLS, text)
    expect.truthy(counts.longest <= MOST_SECONDS, ("%.1f s from a kill to the next start:\n%s")
      :format(counts.longest, text))
    in_folder(function(other)
      local quiet, good = train(other, 0, counts.done)
      expect.truthy(good, quiet)
      expect.truthy(same(ml.load(folder .. "/checkpoint.pt"), ml.load(other .. "/checkpoint.pt")),
        "the weights differ from those of a training without kills")
    end)
    print(("%d kills, %d of them stops; %d starts by %d launchers, %d steps; at most %.1f s from a kill "
      .. "to the next start"):format(counts.kills, counts.stopped, counts.starts, launches, counts.done,
      counts.longest))
  end)
end)

harness.run()
