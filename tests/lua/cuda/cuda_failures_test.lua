-- tests/lua/cuda/cuda_failures_test.lua: every call of the CUDA runtime and of its libraries that a
-- training step, or factorizations and transforms, make fails once, in a process of its own: it ends
-- in an error of Lua's or goes on with the right numbers, holds no memory afterwards, and the process
-- can go on working. Skips without an emulated
-- device. MOONLET_FAILING_STRIDE=1 fails every call with each error; the test takes samples.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local emulated = require "emulated"
local expect = harness.expect

-- Two steps of training.
local STEP = [[
  io.stdout:setvbuf "no"
  local nn, optim = ml.nn, ml.optim
  local function train()
    ml.manual_seed(3)
    local net = nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.ReLU(), nn.Linear(5, 3)):to "cuda"
    local step = optim.Adam(net:parameters(), { lr = 0.1 })
    local x, y = ml.randn(4, 6):to "cuda", ml.tensor({ 1, 3, 2, 1 }):to "cuda"
    local loss
    for _ = 1, 2 do
      step:zero_grad()
      loss = nn.functional.cross_entropy(net(x), y)
      loss:backward()
      step:step()
    end
    ml.cuda.synchronize()
    return ("%.4f"):format(loss:item())
  end
]]

-- Each library's way for one matrix and for several.
local FACTORS = [[
  io.stdout:setvbuf "no"
  local linalg, fft = ml.linalg, ml.fft
  local function train()
    local sum = 0
    for _, A in ipairs { ml.eye(3):cuda(), ml.eye(3):expand(2, 3, 3):clone():cuda() } do
      for _, f in ipairs { linalg.inv, linalg.cholesky, linalg.det, linalg.svdvals, linalg.eigvalsh } do
        sum = sum + f(A):sum():item()
      end
      sum = sum + linalg.solve_triangular(A, A, true):sum():item()
      local Q, R = linalg.qr(A, "complete")
      sum = sum + Q:matmul(R):sum():item() + fft.irfft(fft.rfft(A), 3):sum():item()
      sum = sum + ml.real(fft.fft2(A)):sum():item()
    end
    return ("%.4f"):format(sum)
  end
]]

-- Streams, events and page-locked memory that is given back while copies are under way.
local STREAMS = [[
  io.stdout:setvbuf "no"
  local function train()
    local s, t = ml.cuda.Stream(), ml.cuda.Stream { priority = -1 }
    local sum = 0
    for round = 1, 2 do
      local host = ml.full({ 3000 }, round * 1.0):pin_memory()
      local x = ml.cuda.stream(s, function() return host:to("cuda", { non_blocking = true }) end)
      local again = ml.cuda.stream(t, function() return host:to("cuda", { non_blocking = true }) end)
      host:free()
      t:wait_stream(s)
      x:record_stream(t)
      local y = ml.cuda.stream(t, function() return x * 2 + again end)
      local first, last = ml.cuda.Event { enable_timing = true }, ml.cuda.Event { enable_timing = true }
      first:record(t)
      last:record(t)
      x:free()
      again:free()
      local back = ml.cuda.stream(t, function() return y:to("cpu", { non_blocking = true }) end)
      while not t:query() do end
      last:synchronize()
      sum = sum + back:sum():item() + math.min(0, first:elapsed_time(last)) + (last:query() and 1 or 0)
      s:synchronize()
      back:free()
      y:free()
      -- What the cache of pinned blocks has is taken, and given back to the system.
      local other = ml.full({ 3000 }, 5.0):pin_memory()
      sum = sum + other:to("cuda", { non_blocking = true }):sum():item()
      ml.memory.empty_cache()
    end
    ml.cuda.synchronize()
    return ("%.4f"):format(sum)
  end
]]

-- Copies between the host and two devices, and of parts.
local COPIES = [[
  io.stdout:setvbuf "no"
  local function train()
    local x = ml.arange(1, 24):float():view(4, 6)
    local a = x:cuda()
    local b = a:to "cuda:1"
    local c = ml.zeros(6, 4, { device = "cuda:1" }):t()
    c:copy_(a)
    c[{ {}, { 2, 3 } }] = b[{ {}, { 4, 5 } }]:to "cuda:0":to "cuda:1"
    local sum = b:sum():item() + c:cpu():sum():item()
    a[{ 1, {} }] = x[{ 2, {} }]
    x[{ {}, 2 }]:copy_(a[{ {}, 3 }])
    sum = sum + x:sum():item() + a:t():to("cpu", ml.float64):sum():item()
    ml.cuda.synchronize "cuda:1"
    return ("%.4f"):format(sum)
  end
]]

-- Graphs: captured, replayed, given up, and one that an error ends.
local GRAPHS = [[
  io.stdout:setvbuf "no"
  local function train()
    ml.manual_seed(5)
    local x = ml.ones(2, 3, cuda)
    local g, y = ml.cuda.graph(function() return (x + ml.rand(2, 3, cuda):lt(2)):matmul(x:t()):sum() end)
    local sum = 0
    for _ = 1, 2 do
      g:replay()
      sum = sum + y:item()
    end
    pcall(ml.cuda.graph, function() return x:sum():item() end)
    local side = ml.cuda.Stream()
    local h, z = ml.cuda.graph(function()
      local s = ml.cuda.current_stream()
      side:wait_stream(s)
      local y = ml.cuda.stream(side, function() return x * 2 + 0 end)
      s:wait_stream(side)
      y:record_stream(s)
      return x + y
    end, { pool = g:pool() })
    g:reset()
    h:replay()
    sum = sum + z:sum():item()
    h:reset()
    ml.memory.empty_cache()
    return ("%.4f"):format(sum)
  end
]]

-- Convolutions by cuDNN, products with a bias by cuBLASLt, and faults that kernels report.
local LIBRARIES = [[
  io.stdout:setvbuf "no"
  ml.backends.cudnn.benchmark = true
  local function train()
    pcall(ml.cuda.synchronize)  -- which the other try may have to tell of
    ml.manual_seed(5)
    local x = ml.ones(2, 3, 6, 6, { device = "cuda", requires_grad = true })
    local w = ml.full({ 4, 3, 3, 3 }, 0.5, { device = "cuda", requires_grad = true })
    local y = ml.nn.functional.conv2d(x, w)
    y:square():sum():backward()
    local sum = x.grad:sum():item() + w.grad:sum():item()
    sum = sum + ml.nn.functional.linear(ml.ones(2, 8, cuda), ml.ones(4, 8, cuda), ml.ones(4, cuda)):sum():item()
    sum = sum + ml.sort(ml.arange(1, 40):float():cuda()):sum():item() + ml.nonzero(ml.ones(3, cuda)):sum():item()
    local at = ml.tensor({ 9 }):cuda()
    for _ = 1, 2 do
      local lost = ml.ones(3, cuda):index_select(1, at)
      local good, why = pcall(ml.cuda.synchronize)
      if good then return "a fault that nobody heard of" end
      if not why:find "position 9 is out of range" then error(why, 0) end
    end
    return ("%.4f"):format(sum)
  end
]]

-- Then, what is left. The second try begins anew.
local TRIES = [[
  local function tried()
    local good, result = pcall(train)
    ml.memory.collect()
    ml.memory.empty_cache()
    print(good and "loss" or "error", (tostring(result):gsub("\n.*", "")))
    print("live", ml.cuda.live_bytes())
  end
  tried()
  tried()
]]

local SECONDS = 100    -- a process of a second that takes as long hangs
local TIMED_OUT = 124  -- what `timeout` ends with then

-- What the script printed: the call that failed, of both tries what came and what stayed, and what the
-- runtime had at the end.
local function run(script, number, kind, environment)
  local text, ended, code = emulated.output(("MOONLET_EMULATED_LEFT=1 MOONLET_EMULATED_FAILING_CALL=%d "
    .. "MOONLET_EMULATED_FAILURE=%s %s timeout %d"):format(number, kind, environment or "", SECONDS), script .. TRIES)
  local out = { text = text, call = text:match "emulated: call %d+, ([^,]+), fails" }
  if ended ~= "exit" or code ~= 0 then
    error(("call %d (%s, %s): %s %s:\n%s"):format(number, tostring(out.call), kind,
      code == TIMED_OUT and "hangs:" or "ended by " .. ended, code, text), 0)
  end
  local events, pinned, graphs = text:match "left are %d+ streams, (%d+) events, (%d+) pinned blocks, (%d+) graphs"
  out.left = { events = tonumber(events), pinned = tonumber(pinned), graphs = tonumber(graphs) }
  for what, result in text:gmatch "(%l+)\t([^\n]*)" do
    if what ~= "live" then out[#out + 1] = { what = what, result = result } else out[#out].live = result end
  end
  return out
end

local function check(script, number, kind, good, environment)
  local want = good[1].result
  local out = run(script, number, kind, environment)
  -- Only calls of the first try are looked at: the second shows what it left behind.
  local first = out.text:find "\nlive" or 0
  if not out.call or (out.text:find "emulated: call" or 0) > first then return false end
  local function fail(why)
    error(("call %d (%s, %s): %s:\n%s"):format(number, out.call, kind, why, out.text), 0)
  end
  if #out ~= 2 then fail "the script did not come to its end" end
  for i, try in ipairs(out) do
    if try.live ~= "0" then fail "memory is still held" end
    if try.what == "loss" and try.result ~= want then fail "a wrong loss" end
    local clean = try.result:find "CUDA" or try.result:find "cuda" or try.result:find "cuBLAS"
      or try.result:find "cuSOLVER" or try.result:find "cuFFT"
      or try.result:find "out of memory"
    if try.what == "error" and not clean then fail "an error that is not the device's" end
    -- Whether there is a device is asked once.
    local final = kind == "lost" or out.call == "cudaGetDeviceCount"
    if i == 2 and try.what == "error" and not final then fail "the second try fails, too" end
  end
  if kind ~= "lost" then
    for what, count in pairs(out.left) do
      -- One call that destroys something may be the one that fails.
      if count > good.left[what] + ((out.call:find "Destroy" or out.call:find "Free") and 1 or 0) then
        fail(("%d %s are left, not %d"):format(count, what, good.left[what]))
      end
    end
  end
  return true
end

local function walk(script, kind, first, stride, environment)
  local good = run(script, 1 << 40, kind, environment)
  expect.truthy(good[1].result:find "^%d+%.%d+$", good[1].result)
  local number, failed = first, 0
  while check(script, number, kind, good, environment) do number, failed = number + stride, failed + 1 end
  expect.truthy(failed * stride >= 100, "calls that failed: " .. failed)
end

-- Work is queued at random where it matters what waits for what.
local PATHS = {
  { name = "streams and pinned memory", script = STREAMS, stride = 7 },
  { name = "streams as queues", script = STREAMS, stride = 23, environment = "MOONLET_EMULATED_STREAMS=7" },
  { name = "copies", script = COPIES, stride = 13, environment = "MOONLET_EMULATED_DEVICES=2" },
  { name = "graphs", script = GRAPHS, stride = 7 },
  { name = "cuDNN, cuBLASLt and reports", script = LIBRARIES, stride = 17 },
}

local given = tonumber(os.getenv "MOONLET_FAILING_STRIDE" or "")
for i, kind in ipairs { "memory", "unknown", "invalid", "lost" } do
  emulated.test(("each call fails with '%s'"):format(kind), function()
    -- The first calls, which set the device up, and then one in a few.
    local good = run(STEP, 1 << 40, kind)
    for number = 1, given and 0 or 24 do expect.truthy(check(STEP, number, kind, good)) end
    walk(STEP, kind, given and 1 or 24 + i, given or 13)
  end)
  emulated.test(("each call of factorizations and transforms fails with '%s'"):format(kind), function()
    walk(FACTORS, kind, given and 1 or 24 + i, given or 13)
  end)
  for _, path in ipairs(PATHS) do
    emulated.test(("each call of %s fails with '%s'"):format(path.name, kind), function()
      walk(path.script, kind, given and 1 or i, given or path.stride, path.environment)
    end)
  end
end

emulated.test("a kind of failure that is not known ends the process with its name", function()
  local text = emulated.output("MOONLET_EMULATED_FAILING_CALL=3 MOONLET_EMULATED_FAILURE=odd", STEP .. TRIES)
  expect.truthy(text:find("MOONLET_EMULATED_FAILURE is memory, unknown, invalid or lost, not 'odd'", 1, true))
end)

emulated.test("all calls that the runtime's header declares can fail", function()
  local source = os.getenv "MOONLET_SOURCE" or (arg[0]:match "^(.*)/" or ".") .. "/../../.."
  local function read(name)
    local file = assert(io.open(source .. "/cuda/emulated/" .. name))
    local text = file:read "a"
    file:close()
    return text
  end
  local failing = read "failures.h"
  local spared = { cudaGetLastError = true, cudaPeekAtLastError = true }
  for name in read("include/cuda_runtime_api.h"):gmatch "\ncudaError_t (%w+)%(" do
    expect.truthy(spared[name] or failing:find("#define " .. name .. "(", 1, true), name)
  end
end)

-- What a call is, is said where it fails.
emulated.test("small matrices of a batch are one call of cuSOLVER each, and its failure an error", function()
  local script = [[
    local a = ml.eye(3):expand(4, 3, 3):cuda()
    say(function() ml.linalg.svd(a) end)
    say(function() ml.linalg.eigh(a) end)
  ]]
  local seen = {}
  for number = 15, 80 do
    local text = emulated.output(("MOONLET_EMULATED_FAILING_CALL=%d MOONLET_EMULATED_FAILURE=invalid"):format(number),
      script)
    local call = text:match "emulated: call %d+, (cusolver%w+Batched), fails"
    if call then
      seen[#seen + 1] = call
      expect.truthy(text:find("cuSOLVER error CUSOLVER_STATUS_INVALID_VALUE", 1, true), text)
    end
  end
  expect.equal(table.concat(seen, " "), "cusolverDnSgesvdjBatched cusolverDnXsyevBatched")
end)

harness.run()
