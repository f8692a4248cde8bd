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

-- Then, what is left. The second try begins anew.
local TRIES = [[
  local function tried()
    local good, result = pcall(train)
    ml.memory.collect()
    print(good and "loss" or "error", (tostring(result):gsub("\n.*", "")))
    print("live", ml.cuda.live_bytes())
  end
  tried()
  tried()
]]

-- What the script printed: the call that failed, and of both tries what came and what stayed.
local function run(script, number, kind)
  local text, ended, code = emulated.output(("MOONLET_EMULATED_FAILING_CALL=%d MOONLET_EMULATED_FAILURE=%s")
    :format(number, kind), script .. TRIES)
  local out = { text = text, call = text:match "emulated: call %d+, ([^,]+), fails" }
  if ended ~= "exit" or code ~= 0 then
    error(("call %d (%s, %s): ended by %s %s:\n%s"):format(number, tostring(out.call), kind, ended,
      code, text), 0)
  end
  for what, result in text:gmatch "(%l+)\t([^\n]*)" do
    if what ~= "live" then out[#out + 1] = { what = what, result = result } else out[#out].live = result end
  end
  return out
end

local function check(script, number, kind, want)
  local out = run(script, number, kind)
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
  return true
end

local function walk(script, kind, first, stride)
  local want = run(script, 1 << 40, kind)[1].result
  expect.truthy(want:find "^%d+%.%d+$", want)
  local number, failed = first, 0
  while check(script, number, kind, want) do number, failed = number + stride, failed + 1 end
  expect.truthy(failed * stride >= 100, "calls that failed: " .. failed)
end

local given = tonumber(os.getenv "MOONLET_FAILING_STRIDE" or "")
for i, kind in ipairs { "memory", "unknown", "invalid", "lost" } do
  emulated.test(("each call fails with '%s'"):format(kind), function()
    -- The first calls, which set the device up, and then one in a few.
    local want = run(STEP, 1 << 40, kind)[1].result
    for number = 1, given and 0 or 24 do expect.truthy(check(STEP, number, kind, want)) end
    walk(STEP, kind, given and 1 or 24 + i, given or 13)
  end)
  emulated.test(("each call of factorizations and transforms fails with '%s'"):format(kind), function()
    walk(FACTORS, kind, given and 1 or 24 + i, given or 13)
  end)
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

harness.run()
