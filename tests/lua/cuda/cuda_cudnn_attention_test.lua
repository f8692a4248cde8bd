-- tests/lua/cuda/cuda_cudnn_attention_test.lua: attention by cuDNN beside our own kernels and the
-- CPU, forward and backward, each with the statistics of the other; what goes to it and what stays,
-- its switch, captured graphs, and failures. Skips without a device.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local emulated = require "emulated"
local device_test = require "on_device"
local expect = harness.expect

local backends = ml.backends
local attend = ml.nn.functional.scaled_dot_product_attention
local TOLERANCE = { float16 = 4e-3, bfloat16 = 3e-2 }

local function on_device(name, body) device_test(name, body, { cudnn = true, seed = 5 }) end

local function near(what, got, want, tolerance)
  got, want = got:to "cpu":to "float64", want:to "cpu":to "float64"
  local off = (got - want):abs():amax():item()
  -- Written so that no number, which compares to nothing, fails.
  if not (off <= tolerance * math.max(1, want:abs():amax():item())) then
    error(("%s: differs by %g"):format(what, off), 0)
  end
end

-- The result and the gradients, forward and backward each with or without cuDNN.
local function derived(case, device, forward, backward)
  local leaves = {}
  for i = 1, 3 do leaves[i] = case[i]:to(device):detach():requires_grad_() end
  backends.cuda.enable_cudnn_sdp(forward)
  local y = attend(leaves[1], leaves[2], leaves[3], case.options)
  backends.cuda.enable_cudnn_sdp(backward)
  local gradient = case.gradient:to(device)
  -- Gradients of a shape are planned when they are asked for often.
  for _ = 1, device == "cuda" and backward and 15 or 0 do
    ml.autograd.grad(y, leaves, gradient, { retain_graph = true })
  end
  y:backward(gradient)
  backends.cuda.enable_cudnn_sdp(true)
  return { y:detach(), leaves[1].grad, leaves[2].grad, leaves[3].grad }
end

local NAMES = { "result", "gradient of query", "gradient of key", "gradient of value" }

local function agree(what, case)
  local tolerance = TOLERANCE[tostring(case[1].dtype)]
  local want = derived(case, "cpu", true, true)
  for _, ways in ipairs { { true, true }, { true, false }, { false, true }, { false, false } } do
    local got = derived(case, "cuda", ways[1], ways[2])
    for i, name in ipairs(NAMES) do
      near(("%s, %s, %s then %s"):format(what, name, ways[1], ways[2]), got[i], want[i],
        tolerance * (i == 1 and 1 or 4))
    end
  end
end

-- Sizes of query, key and value, and options.
local CASES = {
  { "plain", { 2, 3, 20, 16 }, { 2, 3, 13, 16 }, { 2, 3, 13, 8 } },
  { "causal", { 1, 2, 17, 8 }, { 1, 2, 17, 8 }, { 1, 2, 17, 8 }, { is_causal = true } },
  { "causal, more keys", { 1, 2, 9, 8 }, { 1, 2, 14, 8 }, { 1, 2, 14, 16 }, { is_causal = true } },
  { "causal, more queries", { 2, 1, 14, 8 }, { 2, 1, 9, 8 }, { 2, 1, 9, 8 }, { is_causal = true } },
  { "shared heads", { 2, 6, 5, 8 }, { 2, 2, 7, 8 }, { 2, 2, 7, 8 }, { enable_gqa = true } },
  { "one key head", { 2, 4, 5, 8 }, { 2, 1, 7, 8 }, { 2, 1, 7, 8 }, { enable_gqa = true, is_causal = true } },
  { "without heads", { 3, 10, 8 }, { 3, 6, 8 }, { 3, 6, 8 }, { scale = 0.5 } },
  { "one matrix", { 6, 8 }, { 5, 8 }, { 5, 16 } },
  { "one query", { 2, 2, 1, 8 }, { 2, 2, 30, 8 }, { 2, 2, 30, 8 } },
}

local function case_of(row, dtype)
  local result = { table.unpack(row[2]) }
  result[#result] = row[4][#row[4]]
  return { ml.randn(row[2]):to(dtype), ml.randn(row[3]):to(dtype), ml.randn(row[4]):to(dtype),
    gradient = ml.randn(result):to(dtype), options = row[5] }
end

on_device("forward and backward by either, in every combination", function()
  for _, row in ipairs(CASES) do
    for dtype in pairs(TOLERANCE) do agree(row[1] .. " of " .. dtype, case_of(row, dtype)) end
  end
end)

on_device("heads inside of a projection, and gradients that lie elsewhere", function()
  local all = ml.randn(2, 9, 3, 4, 8):half()
  local function head(i) return all:select(3, i):transpose(2, 3) end
  local case = { head(1), head(2), head(3), gradient = ml.ones(1):half():expand(2, 4, 9, 8),
    options = { is_causal = true } }
  agree("projection", case)
end)

on_device("the switch: its default, its value for each interpreter, its errors", function()
  expect.equal(backends.cuda.cudnn_sdp_enabled(), true)
  backends.cuda.enable_cudnn_sdp(false)
  expect.equal(backends.cuda.cudnn_sdp_enabled(), false)
  -- Those of convolutions leave it alone.
  backends.cudnn.flags({ enabled = true }, function()
    expect.equal(backends.cuda.cudnn_sdp_enabled(), false)
  end)
  backends.cuda.enable_cudnn_sdp(true)
  coroutine.wrap(function() backends.cuda.enable_cudnn_sdp(false) end)()
  expect.equal(backends.cuda.cudnn_sdp_enabled(), true)
  expect.error(function() backends.cuda.enable_cudnn_sdp "no" end, "enabled")
  expect.error(function() backends.cuda.enable_cudnn_sdp() end, "enabled")
end)

on_device("in a captured graph: as before it when the plan is known, else by our own kernel", function()
  for _, warm in ipairs { true, false } do
    local sizes = { 1, 2, warm and 11 or 12, 8 }
    local q, k, v = ml.randn(sizes):half():cuda(), ml.randn(sizes):half():cuda(), ml.randn(sizes):half():cuda()
    if warm then attend(q, k, v) end
    local y
    local graph = ml.cuda.graph(function() y = attend(q, k, v) end)
    q:copy_(ml.randn(sizes):half())
    graph:replay()
    near("replayed", y, attend(q:cpu(), k:cpu(), v:cpu()), TOLERANCE.float16)
  end
end)

-- --- what the emulation tells of calls -----------------------------------------------------------

local SCRIPT = [[
  ml.manual_seed(2)
  local attend = ml.nn.functional.scaled_dot_product_attention
  local sizes, dtype, options, often = { 2, 2, 12, 16 }, "float16", nil, 16
  local function compute(device)
    ml.manual_seed(4)
    local leaves = {}
    for i = 1, 3 do leaves[i] = ml.randn(sizes):to(dtype):to(device):requires_grad_() end
    local y = attend(leaves[1], leaves[2], leaves[3], options)
    local gradient = ml.randn(y.shape):to(dtype):to(device)
    for _ = 2, often do ml.autograd.grad(y, leaves, gradient, { retain_graph = true }) end
    y:backward(gradient)
    return y, leaves[1].grad, leaves[2].grad, leaves[3].grad
  end
]] .. emulated.compare_text(0.05, 4)

local function told(words, script)
  local text = emulated.cudnn_output(words, SCRIPT .. script)
  expect.truthy(text:find "right", text)
  return text
end

local count = emulated.count
local function counts(text)
  return { count(text, "looks up attention"), count(text, "attention by"),
    count(text, "attention's gradients by") }
end

emulated.test("what it takes, planned once for each shape, and what stays ours", function()
  -- The first 15 gradients of a shape are ours, and no more than the way forward is looked up.
  expect.equal(counts(told("log", "often = 15 print(check())")), { 1, 1, 0 })
  expect.equal(counts(told("log", "check() check() print(check())")), { 2, 3, 1 + 16 + 16 })
  expect.equal(counts(told("log", "check() options = { is_causal = true } print(check())")), { 4, 2, 2 })
  -- Kernels of the way forward are compiled once for all lengths, those of gradients for each.
  local text = told("log", "for n = 5, 9 do sizes[3] = n check() end print(check())")
  expect.equal({ count(text, "compiles attention\n"), count(text, "compiles attention's") }, { 1, 5 }, text)
  for what, script in pairs {
    ["float32"] = "dtype = 'float32'", ["rows of no 16 bytes"] = "sizes = { 2, 2, 12, 12 }",
    ["a mask"] = "local m = ml.ones(12, 12):half() options = { attn_mask = m } "
      .. "local old = attend attend = function(q, k, v, o) "
      .. "return old(q, k, v, { attn_mask = m:to(q.device) }) end",
    ["switched off"] = "ml.backends.cuda.enable_cudnn_sdp(false)",
    ["all of cuDNN off"] = "ml.backends.cudnn.enabled = false",
    ["more dimensions"] = "sizes = { 2, 2, 2, 2, 12, 16 }",
  } do
    expect.equal(counts(told("log", script .. " print(check())")), { 0, 0, 0 }, what)
  end
  expect.equal(counts(told("old,log", "print(check())")), { 0, 0, 0 })
  -- Its gradients repeat nowhere for sure.
  text = told("log", "ml.backends.cudnn.deterministic = true print(check())")
  expect.equal(counts(text), { 1, 1, 0 }, text)
  expect.equal(count(text, "attention by 2"), 1, text)
end)

emulated.test("where it has no way our own kernels compute, and it is asked once", function()
  local text = told("unsupported,log", "check() print(check())")
  -- The heuristics and their fallback: forward with kernels for all sizes, then for these; backward.
  expect.equal(counts(text), { 6, 0, 0 }, text)
  expect.equal(counts(told("absent,log", "print(check())")), { 0, 0, 0 })
  for _, words in ipairs { "fussy,log", "unready,log" } do
    text = told(words, "check() print(check())")
    expect.equal({ count(text, "attention by 2"), count(text, "gradients by 2") }, { 2, 1 + 16 }, text)
  end
  local ended
  text, ended = emulated.output("MOONLET_EMULATED_MEMORY=64 MOONLET_EMULATED_CUDNN=greedy,log",
    SCRIPT .. "print(check())")
  expect.equal(ended, "exit", text)
  expect.equal({ count(text, "attention by 2"), count(text, "gradients by 2") }, { 1, 1 }, text)
  text, ended = emulated.output("MOONLET_CUDA_WITHOUT=cudnn MOONLET_EMULATED_CUDNN=log",
    SCRIPT .. "print(check())")
  expect.equal({ ended, text }, { "exit", "right\n" })
end)

emulated.test("a call that fails: an error of the device, or the right numbers", function()
  for _, kind in ipairs { "memory", "unknown", "invalid" } do
    local failed = emulated.fail_cudnn(SCRIPT, kind, function() return 37 end, 2000)
    expect.truthy(failed > 10, kind .. ": calls that failed: " .. failed)
  end
end)

harness.run()
