-- tests/lua/distributed/networks_test.lua: ranks on machines of their own: network namespaces, between
-- which tests/networks/switch.cpp passes packets on late, loses some, or cuts a link.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ranks = require "distributed_ranks"
local test, expect = harness.test, harness.expect
local system = require "moonlet.system"

local MACHINES = 3
local FIRST_ADDRESS = "10.77.0.1"
-- What ranks need beyond the time that a call may take to say what is wrong; processors that other
-- tests use take longer.
local SECONDS_TO_TELL = 5

local function succeeds(command) return (os.execute(("(%s) > /dev/null 2>&1"):format(command))) end

local function name_of(machine) return ("moonlet-%d-%d"):format(system.pid(), machine) end
local function within(machine) return "ip netns exec " .. name_of(machine) end

-- The network that all tests share, removed at the end: `fifo`, where the switch hears what to do.
local network = setmetatable({}, { __gc = function(self)
  -- At the end of the interpreter it may have been closed before.
  if self.switch then pcall(self.switch.close, self.switch) end
  for machine = 0, MACHINES - 1 do succeeds("ip netns del " .. name_of(machine)) end
  if self.fifo then os.remove(self.fifo) end
end })

local function reason_against()
  local build = os.getenv "MOONLET_BUILD"
  if not succeeds "test $(id -u) = 0" then return "network namespaces need root" end
  if not succeeds "command -v ip" then return "there is no ip, of iproute2" end
  if not succeeds "test -c /dev/net/tun" then return "there is no /dev/net/tun" end
  local switch = (build or "") .. "/tests/networks/switch"
  if not build or not succeeds(("test -x '%s'"):format(switch)) then
    return "tests/networks/switch is not built"
  end
  local names = {}
  for machine = 0, MACHINES - 1 do
    names[#names + 1] = name_of(machine)
    if not succeeds("ip netns add " .. name_of(machine)) then
      return "this machine allows no network namespaces"
    end
  end
  network.fifo = os.tmpname()
  os.remove(network.fifo)
  assert(os.execute("mkfifo " .. network.fifo))
  network.switch = io.popen(("'%s' %s %s"):format(switch, network.fifo, table.concat(names, " ")), "w")
  for machine = 0, MACHINES - 1 do
    if not succeeds(("for i in $(seq 100); do %s ip link show link0 && break; sleep 0.1; done && "
        .. "%s sh -c 'ip link set lo up && ip addr add 10.77.0.%d/24 dev link0 && ip link set link0 up'")
        :format(within(machine), within(machine), machine + 1)) then
      return "this machine allows no TUN devices"
    end
  end
end

local function tell_switch(...)
  local file <close> = assert(io.open(network.fifo, "w"))
  file:write(table.concat({ ... }, "\n"), "\n")
end

-- The network, with all links mended.
local function need_network(delay, loss)
  ranks.need_engine()
  if network.reason == nil then network.reason = reason_against() or false end
  if network.reason then harness.skip(network.reason) end
  tell_switch("delay " .. delay, "loss " .. (loss or 0), "mend 0", "mend 1", "mend 2")
end

-- What scripts of ranks begin with.
local function script_of(text)
  return ([[
    local function tell_switch(command)
      local file <close> = io.open("%s", "w")
      file:write(command, "\n")
    end
    -- The error of a call and how long it took.
    local function report(f, ...)
      local start = clock()
      local good, message = pcall(f, ...)
      print("error:", good and "none" or message)
      print("seconds:", clock() - start)
    end
  ]]):format(network.fifo) .. text
end

local OPTIONS = { within = within, address = FIRST_ADDRESS, port = 29500 }

local function run(text, count) return ranks.run(count or MACHINES, script_of(text), OPTIONS) end

local function check_error(output, pattern, seconds)
  local message = output:match "error:\t(.-)\nseconds:"
  expect.truthy(message and message:find(pattern), output)
  expect.truthy(message:find "^[^\n]*ranks.lua:%d+: ", output)
  expect.truthy(tonumber(output:match "seconds:\t(%S+)") <= seconds, output)
end

local COMPUTATION = [[
  dist.init_process_group()
  for _, n in ipairs { 1, 1000, 200000 } do
    local x = ml.arange(1, n):float() * (rank + 1)
    dist.all_reduce(x)
    near(x, ml.arange(1, n):double() * 6, "all_reduce")
    x = ml.full({ n }, 1.0 * rank)
    dist.broadcast(x, 1)
    near(x, ml.ones(n), "broadcast")
  end
  local all = {}
  dist.all_gather_object(all, { rank })
  for r = 0, 2 do assert(all[r + 1][1] == r) end
  local got, works = ml.zeros(5), nil
  works = dist.batch_isend_irecv { dist.P2POp(dist.isend, ml.full({ 5 }, 1.0 * rank), (rank + 1) % 3),
    dist.P2POp(dist.irecv, got, (rank + 2) % 3) }
  for _, work in ipairs(works) do work:wait() end
  near(got, ml.full({ 5 }, (rank + 2) % 3), "sends")
  -- Two steps of training leave the same weights on all.
  ml.manual_seed(rank)
  local net = ml.nn.parallel.DistributedDataParallel(ml.nn.Linear(100, 100))
  local sgd = ml.optim.SGD(net:parameters(), { lr = 0.1 })
  for _ = 1, 2 do
    sgd:zero_grad()
    net(ml.randn(4, 100)):pow(2):sum():backward()
    sgd:step()
  end
  local highest, lowest = net.module.weight:detach():clone(), net.module.weight:detach():clone()
  dist.all_reduce(highest, "max")
  dist.all_reduce(lowest, "min")
  assert(highest:eq(lowest):all():item())
  dist.destroy_process_group()
]]

for _, link in ipairs { { delay = 1 }, { delay = 20 }, { delay = 1, loss = 1 } } do
  test(("links of %d ms that lose %d %%"):format(link.delay, link.loss or 0), function()
    need_network(link.delay, link.loss)
    ranks.run_well(MACHINES, script_of(COMPUTATION), OPTIONS)
  end)
end

test("a rank of another machine is killed", function()
  need_network(1)
  local outputs = run [[
    dist.init_process_group()
    dist.barrier()
    if rank == 1 then os.execute("kill -9 " .. require("moonlet.system").pid()) end
    report(dist.all_reduce, ml.ones(1000000))
  ]]
  for _, rank in ipairs { 0, 2 } do
    check_error(outputs[rank], ("all_reduce: rank %d: rank 1 has died"):format(rank), SECONDS_TO_TELL)
  end
end)

-- The link of a rank is cut while all are in a collective; what each prints.
local function cut_while_summing(victim)
  return run(([[
    dist.init_process_group { timeout = 4 }
    dist.barrier()
    if rank == %d then
      os.execute "sleep 0.3"
      tell_switch "cut %d"
    end
    report(dist.all_reduce, ml.ones(3))
    os.exit(0)
  ]]):format(victim, victim))
end

test("the link of a rank is cut", function()
  need_network(1)
  local outputs = cut_while_summing(1)
  for _, rank in ipairs { 0, 2 } do
    check_error(outputs[rank], ("all_reduce: rank %d: .*rank 1 .*been silent for .*network is gone")
      :format(rank), 4 + SECONDS_TO_TELL)
  end
  check_error(outputs[1], "all_reduce: rank 1: .*the store at '10.77.0.1:29500' does not answer",
    4 + SECONDS_TO_TELL)
end)

test("the link of the rank that keeps the store is cut", function()
  need_network(1)
  local outputs = cut_while_summing(0)
  for _, rank in ipairs { 1, 2 } do
    check_error(outputs[rank],
      ("all_reduce: rank %d: .*the store at '10.77.0.1:29500' does not answer"):format(rank),
      4 + SECONDS_TO_TELL)
  end
  check_error(outputs[0], "all_reduce: rank 0: .*rank [12] .*been silent for .*network is gone",
    4 + SECONDS_TO_TELL)
end)

test("a link that is cut and mended delays what goes on", function()
  need_network(1)
  local outputs = ranks.run_well(MACHINES, script_of [[
    dist.init_process_group()
    dist.barrier()
    if rank == 1 then
      os.execute "sleep 0.3"
      tell_switch "cut 1"
      os.execute "sleep 1"
    end
    local start = clock()
    local works = {}
    for i = 1, 3 do works[i] = dist.all_reduce(ml.ones(1000), { async_op = true }) end
    if rank == 1 then
      os.execute "sleep 0.5"
      assert(not works[1]:is_completed())
      tell_switch "mend 1"
    end
    for i = 1, 3 do works[i]:wait() end
    local x = ml.ones(3) * (rank + 1)
    dist.all_reduce(x)
    near(x, ml.full({ 3 }, 6))
    print("seconds:", clock() - start)
    dist.destroy_process_group()
  ]], OPTIONS)
  -- Without the cut these take some milliseconds.
  expect.truthy(tonumber(outputs[0]:match "seconds:\t(%S+)") > 1, outputs[0])
end)

test("a machine that the others do not reach", function()
  need_network(1)
  tell_switch "cut 2"
  local outputs = run "report(dist.init_process_group, { timeout = 4 }) os.exit(0)"
  for _, rank in ipairs { 0, 1 } do
    check_error(outputs[rank], "init_process_group: of 3 ranks 2 has not come within 4 s",
      4 + SECONDS_TO_TELL)
  end
  check_error(outputs[2], "init_process_group: no store of Moonlet answers at '10.77.0.1:29500'",
    4 + SECONDS_TO_TELL)
end)

-- What the launchers of two machines write, and their exit codes.
local function launch_on_two(script)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(script)
  file:close()
  local words = {}
  for machine = 0, 1 do
    words[#words + 1] = ("(timeout -s KILL 60 %s '%s' launch -n 2 --nnodes 2 --node-rank %d "
      .. "--rdzv %s:29500 --secret pear '%s' 2>&1; echo launcher %d ended with $?) &")
      :format(within(machine), arg[-1], machine, FIRST_ADDRESS, path, machine)
  end
  local pipe <close> = io.popen(table.concat(words, "\n") .. "\nwait")
  local text = pipe:read "a"
  os.remove(path)
  return text
end

test("launchers on two machines, and a rank that fails on one of them", function()
  need_network(1)
  local text = launch_on_two [[
    local dist = require("moonlet").distributed
    dist.init_process_group()
    local x = require("moonlet").tensor { dist.get_rank() + 1.0 }
    dist.all_reduce(x)
    print(dist.get_rank(), dist.get_local_rank(), x:item())
    dist.destroy_process_group()
  ]]
  for rank = 0, 3 do
    expect.truthy(text:find(("[%d] %d\t%d\t10.0"):format(rank, rank, rank % 2), 1, true), text)
  end
  text = launch_on_two [[
    local dist = require("moonlet").distributed
    dist.init_process_group()
    dist.barrier()
    if dist.get_rank() == 3 then error "out of data" end
    while true do dist.barrier() end
  ]]
  for rank = 0, 2 do
    expect.truthy(text:find(("%%[%d%%] [^\n]*barrier: rank %d: rank 3 has failed: [^\n]*out of data")
      :format(rank, rank)), text)
  end
  expect.truthy(text:find "launcher 0 ended with 1" and text:find "launcher 1 ended with 1", text)
end)

harness.run()
