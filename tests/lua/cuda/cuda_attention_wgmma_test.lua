-- tests/lua/cuda/cuda_attention_wgmma_test.lua: attention of 16-bit floats with heads of 33 to 128
-- columns, which devices of compute capability 9.0 multiply by wgmma: beside the CPU and the ops it is
-- made of, its gradients, that results repeat, graphs; when it is used, and that a device which computes
-- it wrong is found out. Skips without a device.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local device_test = require "on_device"
local emulated = require "emulated"
local expect = harness.expect

local attend = ml.nn.functional.scaled_dot_product_attention
-- Weights are rounded to the dtype between the two products, as are the gradients of the scores.
local TOLERANCE = { float16 = 4e-3, bfloat16 = 3e-2 }
local DTYPES = { "float16", "bfloat16" }

-- The subject is our own kernels.
local function on_device(name, body)
  device_test(name, function()
    ml.backends.cuda.enable_cudnn_sdp(false)
    body()
  end, { seed = 7 })
end

local function near(what, got, want, tolerance)
  expect.equal(tostring(got.shape), tostring(want.shape), what)
  if want:numel() == 0 then return end
  got, want = got:to "cpu":double(), want:to "cpu":double()
  local o = { rtol = tolerance, atol = tolerance, equal_nan = true }
  if not ml.allclose(got, want, o) then
    error(("%s: differs by %s"):format(what, (got - want):abs():amax():item()), 0)
  end
end

local NAMES = { "result", "gradient of query", "gradient of key", "gradient of value" }

-- The result and the gradients of attention: `case` has query, key, value, and by name the gradient of
-- the result, the mask and the other options.
local function run(case, device)
  local leaves, o = {}, { attn_mask = case.mask and case.mask:to(device) }
  for i = 1, 3 do leaves[i] = case[i]:to(device):detach():requires_grad_() end
  for k, v in pairs(case.options or {}) do o[k] = v end
  local y = attend(leaves[1], leaves[2], leaves[3], o)
  y:backward(case.gradient:to(device))
  return { y:detach(), leaves[1].grad, leaves[2].grad, leaves[3].grad }
end

local function agree(what, case, tolerance)
  tolerance = tolerance or TOLERANCE[tostring(case[1].dtype)]
  local want, got, again = run(case, "cpu"), run(case, "cuda"), run(case, "cuda")
  for i, name in ipairs(NAMES) do
    name = ("%s of %s, %s"):format(what, case[1].dtype, name)
    near(name, got[i], want[i], tolerance * (i == 1 and 1 or 4))
    expect.truthy(got[i]:equal(again[i]) or got[i]:isnan():any():item(), name .. " does not repeat")
  end
end

-- Random arguments of those shapes.
local function draw(dtype, query, key, value, options, mask)
  local case = { ml.randn(query):to(dtype), ml.randn(key):to(dtype), ml.randn(value):to(dtype),
    options = options, mask = mask }
  case.gradient = ml.randn(attend(case[1], case[2], case[3], options).shape):to(dtype)
  return case
end

on_device("lengths around the borders of tiles", function()
  for _, dtype in ipairs(DTYPES) do
    for _, size in ipairs { { 1, 1 }, { 63, 65 }, { 64, 64 }, { 65, 129 }, { 129, 63 } } do
      for _, e in ipairs { 64, 128 } do
        local l, s = table.unpack(size)
        for _, is_causal in ipairs(dtype == "float16" and { false, true } or { true }) do
          local what = ("%d by %d, head %d, causal %s"):format(l, s, e, is_causal)
          agree(what, draw(dtype, { 2, l, e }, { 2, s, e }, { 2, s, e }, { is_causal = is_causal }))
        end
      end
    end
  end
end)

on_device("heads of other widths", function()
  for _, dtype in ipairs(DTYPES) do
    for _, size in ipairs { { 33, 20 }, { 40, 64 }, { 64, 65 }, { 1, 96 }, { 100, 127 }, { 128, 8 } } do
      local e, v = table.unpack(size)
      agree(("heads %d, %d"):format(e, v), draw(dtype, { 2, 18, e }, { 2, 70, e }, { 2, 70, v }, { is_causal = true }))
    end
  end
end)

on_device("few queries share many keys out", function()
  for _, dtype in ipairs(DTYPES) do
    for _, size in ipairs { { 1, 129 }, { 16, 577 }, { 64, 300 } } do
      local l, s = table.unpack(size)
      local case = draw(dtype, { 2, l, 64 }, { 2, s, 64 }, { 2, s, 40 })
      agree(("%d by %d"):format(l, s), case)
      -- Whole ranges that nothing is seen of, and a query that sees nothing.
      case.mask = ml.arange(1, s):gt(s // 2):expand(2, l, s):clone()
      case.mask[2][l]:fill_(false)
      agree(("%d by %d, the second half"):format(l, s), case)
    end
  end
end)

on_device("masks of every kind, with queries that see nothing", function()
  for _, dtype in ipairs(DTYPES) do
    for _, shape in ipairs { { 70, 130 }, { 1, 130 }, { 70, 1 }, { 2, 1, 70, 130 } } do
      local seen = ml.rand(shape):gt(0.4)
      if shape[#shape - 1] == 70 then seen:select(-2, 3):fill_(false) end
      local what = "mask " .. table.concat(shape, " ")
      local q, k, v = { 2, 1, 70, 64 }, { 2, 1, 130, 64 }, { 2, 1, 130, 48 }
      local added = ml.randn(shape):masked_fill(seen:logical_not(), -math.huge)
      if dtype == "float16" then
        agree("bool " .. what, draw(dtype, q, k, v, nil, seen))
      else
        agree("float32 " .. what, draw(dtype, q, k, v, nil, added))
      end
      agree("16-bit " .. what, draw(dtype, q, k, v, nil, added:to(dtype)))
    end
  end
end)

on_device("heads that share keys, and tensors that broadcast", function()
  for _, dtype in ipairs(DTYPES) do
    agree("grouped", draw(dtype, { 2, 6, 70, 64 }, { 2, 2, 90, 64 }, { 2, 2, 90, 64 }, { enable_gqa = true }))
    agree("grouped, causal", draw(dtype, { 1, 4, 70, 128 }, { 1, 1, 70, 128 }, { 1, 1, 70, 128 },
      { enable_gqa = true, is_causal = true }))
    agree("one query for all", draw(dtype, { 19, 64 }, { 3, 70, 64 }, { 3, 70, 64 }))
    agree("values shared", draw(dtype, { 2, 3, 19, 64 }, { 3, 70, 64 }, { 2, 1, 70, 64 }))
  end
end)

on_device("views are read where they lie", function()
  local packed = ml.randn({ 2, 66, 3, 2, 64 }):half()  -- batch, position, which, head, column
  local function part(i) return packed:select(3, i):transpose(2, 3) end
  local gradient = ml.randn({ 2, 66, 2, 64 }):half():transpose(2, 3)
  agree("projected together", { part(1), part(2), part(3), gradient = gradient })
  local odd = ml.randn({ 2, 66, 65 }):half():narrow(3, 2, 64)
  agree("rows that begin anywhere", { odd, odd, odd, gradient = odd })
end)

on_device("a scale, numbers that are none, and large scores", function()
  local case = draw("float16", { 2, 70, 64 }, { 2, 90, 64 }, { 2, 90, 64 }, { scale = -1.7 })
  agree("scale", case, 0.02)
  case.options = { scale = 0 }
  agree("scale 0", case)
  case.options = nil
  case[3][1][5][2] = 0 / 0
  case[1][2][3][1] = math.huge
  agree("NaN and infinite", case)
  case = draw("bfloat16", { 1, 70, 64 }, { 1, 90, 64 }, { 1, 90, 64 }, { scale = 1 })
  case[1], case[2] = case[1] * 8, case[2] * 8
  agree("large", case, 0.1)
end)

on_device("dropout drops the weights that it draws", function()
  local p, seed = 0.3, 11
  for _, dtype in ipairs(DTYPES) do
    for _, e in ipairs { 64, 128 } do
      for _, size in ipairs { { 70, 90 }, { 3, 300 } } do
        local l, s = table.unpack(size)
        local drawn_from = { ml.randn(2, l, e):to(dtype), ml.randn(2, s, e):to(dtype), ml.randn(2, s, e):to(dtype) }
        local gradient = ml.randn(2, l, e):to(dtype)
        local here, there = {}, {}
        for i = 1, 3 do
          here[i] = drawn_from[i]:double():requires_grad_()
          there[i] = drawn_from[i]:cuda():requires_grad_()
        end
        ml.manual_seed(seed)
        local y = attend(there[1], there[2], there[3], { dropout_p = p })
        -- A row of numbers begins with a block of four.
        ml.manual_seed(seed)
        local drawn = ml.dropout_mask(ml.zeros({ 2, l, (s + 3) // 4 * 4 }, { device = "cuda" }), p)
        local kept = drawn:narrow(-1, 1, s):cpu():gt(0):double() / (1 - p)
        local weights = ml.softmax(here[1]:matmul(here[2]:transpose(-1, -2)) / math.sqrt(e), -1)
        local want = (weights * kept):matmul(here[3])
        want:backward(gradient:double())
        y:backward(gradient:cuda())
        local what = ("dropout of %s, %d by %d, head %d, "):format(dtype, l, s, e)
        near(what .. NAMES[1], y:detach(), want:detach(), 2 * TOLERANCE[dtype])
        for i = 1, 3 do near(what .. NAMES[i + 1], there[i].grad, here[i].grad, 8 * TOLERANCE[dtype]) end
      end
    end
  end
end)

on_device("in a captured graph", function()
  for _, e in ipairs { 64, 128 } do
    local q, k, v = ml.randn(2, 70, e):half():cuda(), ml.randn(2, 90, e):half():cuda(), ml.randn(2, 90, e):half():cuda()
    attend(q, k, v)
    local y
    local graph = ml.cuda.graph(function() y = attend(q, k, v, { is_causal = true }) end)
    q:copy_(ml.randn(2, 70, e):half())
    graph:replay()
    near("replayed", y, attend(q:cpu(), k:cpu(), v:cpu(), { is_causal = true }), TOLERANCE.float16)
    expect.truthy(y:equal(attend(q, k, v, { is_causal = true })), "a graph computes something else")
  end
end)

-- --- what the emulation tells ---------------------------------------------------------------------

local SCRIPT = [[
  ml.backends.cuda.enable_cudnn_sdp(false)
  ml.manual_seed(2)
  local function check(dtype, e, with_gradients)
    local t = {}
    for i = 1, 3 do t[i] = ml.randn(2, 70, e):to(dtype) end
    local function compute(device)
      local x = {}
      for i = 1, 3 do x[i] = t[i]:to(device):requires_grad_(with_gradients) end
      local y = ml.nn.functional.scaled_dot_product_attention(x[1], x[2], x[3])
      if not with_gradients then return { y } end
      return { y:detach(), ml.autograd.grad(y, x, ml.ones_like(y)) }
    end
    local got, want = compute "cuda", compute "cpu"
    for i in ipairs(want) do
      local off = (got[i]:cpu():float() - want[i]:float()):abs():amax():item()
      assert(off < 0.1, ("%s of %d, %d is off by %g"):format(dtype, e, i, off))
    end
  end
]]

-- How many products a script was told to make; its text, for which it must have ended well.
local function told(environment, script)
  local text, ended, code = emulated.output("MOONLET_EMULATED_WGMMA=log " .. environment, SCRIPT .. script)
  expect.equal({ ended, code }, { "exit", 0 }, text)
  return tonumber(text:match "emulated: (%d+) products" or 0), text
end

-- Products of calls with 2 tiles of queries and 2 of keys for each of 2 entries, and of those of the
-- kernels' trial, which has 3 tiles of keys and gradients too.
local function of_calls(e, calls, with_gradients)
  local products = 2 * e / 16  -- of a tile of queries and one of keys
  local function pairs_of(tiles, gradients)
    return 2 * 2 * tiles * products * (1 + (gradients and 1.5 + 2 or 0))
  end
  return pairs_of(3, true) + calls * pairs_of(2, with_gradients)
end

emulated.test("which attention it is for", function()
  for _, dtype in ipairs(DTYPES) do
    expect.equal(told("", ("check('%s', 64)"):format(dtype)), of_calls(64, 1))
    expect.equal(told("", ("check('%s', 64, true)"):format(dtype)), of_calls(64, 1, true))
    expect.equal(told("", ("check('%s', 40) check('%s', 33)"):format(dtype, dtype)), of_calls(64, 2))
    expect.equal(told("", ("check('%s', 128) check('%s', 72)"):format(dtype, dtype)), of_calls(128, 2))
    expect.equal(told("", ("check('%s', 32) check('%s', 129)"):format(dtype, dtype)), 0)
  end
  expect.equal(told("", "check('float32', 64)"), 0)
  for _, environment in ipairs { "MOONLET_CUDA_WITHOUT=cudnn,wgmma", "MOONLET_EMULATED_CAPABILITY=80",
    "MOONLET_EMULATED_CAPABILITY=100" } do
    expect.equal(told(environment, "check('float16', 64)"), 0, environment)
  end
end)

emulated.test("a capture that comes first does without it, and tries nothing", function()
  local script = [[
    local q = ml.randn(2, 70, 64):half():cuda()
    local y
    local graph = ml.cuda.graph(function() y = ml.nn.functional.scaled_dot_product_attention(q, q, q) end)
    graph:replay()
    local want = ml.nn.functional.scaled_dot_product_attention(q:cpu(), q:cpu(), q:cpu())
    assert((y:cpu() - want):float():abs():amax():item() < 0.01)
  ]]
  expect.equal(told("", script), 0)
end)

emulated.test("a device that computes it wrong is found out, once, and does without it", function()
  local text, ended, code = emulated.output("MOONLET_EMULATED_WGMMA=wrong", SCRIPT .. [[
    for _ = 1, 2 do for _, e in ipairs { 64, 128 } do check("float16", e, true) check("bfloat16", e) end end
    print "right"
  ]])
  expect.equal({ ended, code }, { "exit", 0 }, text)
  expect.truthy(text:find "right", text)
  expect.equal(select(2, text:gsub("wgmma is left alone", "")), 1, text)
  expect.truthy(text:find "scaled_dot_product_attention: on cuda:0 products by wgmma differ", text)
end)

harness.run()
