-- tests/lua/cuda/cuda_attention_test.lua: attention on CUDA by tiles: against the CPU at the borders of
-- tiles, in every dtype, with masks, shared heads and gradients; its memory; that results repeat.
-- Skips without a device.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local device_test = require "on_device"

local F = ml.nn.functional
local FLOATS = { "float16", "bfloat16", "float32", "float64" }
-- Weights are rounded to the dtype between the two products, as are the gradients of the scores.
local TOLERANCE = { float16 = 4e-3, bfloat16 = 3e-2, float32 = 2e-5, float64 = 1e-11 }
-- With factors rounded to 10 bits.
local TF32 = 4e-3

-- The subject is our own kernels.
local function on_device(name, body)
  device_test(name, function()
    ml.backends.cuda.enable_cudnn_sdp(false)
    body()
  end, { seed = 7 })
end

local function same(what, got, want, tolerance)
  local device = tostring(got.device)
  if not device:find "^cuda" then error(("%s: on %s"):format(what, device), 0) end
  if got.shape ~= want.shape or got.dtype ~= want.dtype then
    error(("%s: %s %s, want %s %s"):format(what, got.dtype, got.shape, want.dtype, want.shape), 0)
  end
  got, want = got:to "cpu":to "float64", want:to "float64"
  local o = { rtol = tolerance, atol = tolerance, equal_nan = true }
  if not ml.allclose(got, want, o) then
    error(("%s: differs by %s"):format(what, (got - want):abs():amax():item()), 0)
  end
end

-- Values and gradients of attention with those tensors, a table of them by name, and options.
local function run(given, options, device)
  local leaves = {}
  for _, name in ipairs { "query", "key", "value" } do
    leaves[name] = given[name]:to(device):detach():requires_grad_(true)
  end
  local o = { attn_mask = given.mask and given.mask:to(device) }
  for k, v in pairs(options) do o[k] = v end
  local y = F.scaled_dot_product_attention(leaves.query, leaves.key, leaves.value, o)
  y:backward(given.gradient:to(device))
  return { y = y:detach(), query = leaves.query.grad, key = leaves.key.grad,
    value = leaves.value.grad }
end

-- The CPU computes 16-bit floats in float32, from the same numbers.
local function agree(what, given, options, tolerance)
  options = options or {}
  local want, got = run(given, options, "cpu"), run(given, options, "cuda")
  tolerance = tolerance or TOLERANCE[tostring(given.query.dtype)]
  for name, value in pairs(want) do
    same(("%s, %s"):format(what, name), got[name], value, tolerance * (name == "y" and 1 or 4))
  end
  local again = run(given, options, "cuda")
  for name, value in pairs(got) do
    local repeats = value:view(value.dtype):equal(again[name]) or value:isnan():any():item()
    if not repeats then error(what .. ": " .. name .. " does not repeat", 0) end
  end
end

-- Random arguments of those shapes.
local function draw(dtype, query, key, value, mask)
  local out = { query = ml.randn(query):to(dtype), key = ml.randn(key):to(dtype),
    value = ml.randn(value):to(dtype), mask = mask }
  local y = F.scaled_dot_product_attention(out.query, out.key, out.value, { attn_mask = mask })
  out.gradient = ml.randn(y.shape):to(dtype)
  return out
end

local SIZES = { { 1, 1 }, { 15, 17 }, { 16, 16 }, { 17, 15 }, { 63, 65 }, { 64, 64 }, { 65, 33 },
  { 1, 129 }, { 129, 1 }, { 129, 63 }, { 31, 32 } }

on_device("lengths around the borders of tiles, in every dtype", function()
  for _, dtype in ipairs(FLOATS) do
    for _, size in ipairs(SIZES) do
      local l, s = table.unpack(size)
      local given = draw(dtype, { 2, l, 20 }, { 2, s, 20 }, { 2, s, 20 })
      agree(("%s of %d, %d"):format(dtype, l, s), given)
      agree(("%s of %d, %d, causal"):format(dtype, l, s), given, { is_causal = true })
    end
  end
end)

on_device("head dimensions, in every dtype", function()
  for _, dtype in ipairs(FLOATS) do
    for _, size in ipairs { { 1, 1 }, { 15, 17 }, { 16, 8 }, { 33, 31 }, { 64, 64 }, { 65, 63 },
      { 32, 32 }, { 96, 80 }, { 128, 32 }, { 129, 130 }, { 192, 192 }, { 40, 256 }, { 256, 24 }, { 300, 20 },
      { 20, 300 } } do
      local e, v = table.unpack(size)
      local given = draw(dtype, { 2, 18, e }, { 2, 35, e }, { 2, 35, v })
      agree(("%s of heads %d, %d"):format(dtype, e, v), given, { is_causal = true })
    end
  end
end)

on_device("without columns and without keys", function()
  agree("no keys", draw("float32", { 2, 3, 4 }, { 2, 0, 4 }, { 2, 0, 4 }))
  agree("no values", draw("float32", { 2, 3, 4 }, { 2, 5, 4 }, { 2, 5, 0 }))
  agree("no queries", draw("float16", { 2, 0, 4 }, { 2, 5, 4 }, { 2, 5, 4 }))
  agree("no batch", draw("float16", { 0, 3, 4 }, { 0, 5, 4 }, { 0, 5, 4 }))
end)

-- The keys of few queries are taken in ranges by several blocks.
on_device("few queries of many keys", function()
  for _, dtype in ipairs(FLOATS) do
    for _, size in ipairs { { 1, 129 }, { 1, 1000 }, { 3, 256 }, { 16, 577 }, { 64, 300 } } do
      local l, s = table.unpack(size)
      local what = ("%s of %d, %d"):format(dtype, l, s)
      local given = draw(dtype, { 2, l, 20 }, { 2, s, 20 }, { 2, s, 12 })
      agree(what, given)
      agree(what .. ", causal", given, { is_causal = true })
      -- Whole ranges that nothing is seen of, and a query that sees nothing.
      given.mask = ml.arange(1, s):gt(s // 2):expand(2, l, s):clone()
      given.mask[2][l]:fill_(false)
      agree(what .. ", the second half", given)
    end
    local shared = { query = ml.randn(1, 8, 1, 64):to(dtype), key = ml.randn(1, 2, 700, 64):to(dtype),
      value = ml.randn(1, 2, 700, 64):to(dtype), gradient = ml.randn(1, 8, 1, 64):to(dtype) }
    agree(dtype .. ", heads shared", shared, { enable_gqa = true })
    shared.mask = ml.rand(1, 8, 1, 700):gt(0.5)
    agree(dtype .. ", heads shared, a mask for each", shared, { enable_gqa = true })
  end
end)

on_device("masks that broadcast, with queries that see nothing", function()
  for _, dtype in ipairs(FLOATS) do
    for _, shape in ipairs { { 35, 70 }, { 1, 70 }, { 35, 1 }, { 3, 1, 35, 70 }, { 2, 35, 70 },
      { 1, 1, 1, 70 } } do
      local seen = ml.rand(shape):gt(0.4)
      if shape[#shape - 1] == 35 then seen:select(-2, 3):fill_(false) end
      local what = ("%s, mask %s"):format(dtype, table.concat(shape, " "))
      local q, k, v = { 3, 2, 35, 12 }, { 3, 2, 70, 12 }, { 3, 2, 70, 10 }
      agree("bool " .. what, draw(dtype, q, k, v, seen))
      local added = ml.randn(shape):masked_fill(seen:logical_not(), -math.huge):to(dtype)
      agree(what, draw(dtype, q, k, v, added))
    end
  end
end)

on_device("masks of another dtype and of other strides", function()
  local shapes = { { 2, 35, 12 }, { 2, 70, 12 }, { 2, 70, 10 } }
  local q, k, v = table.unpack(shapes)
  agree("half with float32", draw("float16", q, k, v, ml.randn { 35, 70 }))
  agree("half with bfloat16", draw("float16", q, k, v, ml.randn({ 35, 70 }):to "bfloat16"))
  agree("float32 with half", draw("float32", q, k, v, ml.randn({ 35, 70 }):to "float16"))
  agree("turned", draw("float32", q, k, v, ml.randn({ 70, 35 }):t()))
  agree("every other", draw("float32", q, k, v, ml.rand({ 35, 140 }):gt(0.5)[{ {}, { 1, 140, 2 } }]))
end)

on_device("a gradient of the mask", function()
  local given = draw("float32", { 2, 17, 8 }, { 2, 33, 8 }, { 2, 33, 8 })
  local function of(device)
    local mask = ml.zeros({ 17, 33 }, { device = device }):requires_grad_(true)
    F.scaled_dot_product_attention(given.query:to(device), given.key:to(device),
      given.value:to(device), { attn_mask = mask }):backward(given.gradient:to(device))
    return mask.grad
  end
  same("gradient of the mask", of "cuda", of "cpu", 1e-5)
end)

on_device("heads shared and tensors that broadcast", function()
  for _, dtype in ipairs(FLOATS) do
    local function case(what, q, k, v, options)
      local given = { query = ml.randn(q):to(dtype), key = ml.randn(k):to(dtype),
        value = ml.randn(v):to(dtype) }
      local y = F.scaled_dot_product_attention(given.query, given.key, given.value, options)
      given.gradient = ml.randn(y.shape):to(dtype)
      agree(dtype .. ", " .. what, given, options)
    end
    case("grouped heads", { 2, 6, 19, 16 }, { 2, 2, 37, 16 }, { 2, 2, 37, 16 },
      { enable_gqa = true })
    case("grouped heads, causal", { 2, 4, 66, 8 }, { 2, 1, 66, 8 }, { 2, 1, 66, 8 },
      { enable_gqa = true, is_causal = true })
    case("one query for all", { 19, 16 }, { 3, 20, 16 }, { 3, 20, 16 }, {})
    case("keys shared, values not", { 2, 3, 19, 16 }, { 3, 20, 16 }, { 2, 1, 20, 12 }, {})
    case("wide, shared", { 3, 2, 5, 140 }, { 3, 1, 40, 140 }, { 2, 40, 140 }, {})
  end
end)

on_device("views are read where they lie", function()
  for _, dtype in ipairs { "float16", "float32" } do
    local packed = ml.randn({ 2, 33, 3, 4, 16 }):to(dtype)  -- batch, position, which, head, column
    local given = { query = packed:select(3, 1):transpose(2, 3),
      key = packed:select(3, 2):transpose(2, 3), value = packed:select(3, 3):transpose(2, 3),
      gradient = ml.randn({ 2, 33, 4, 16 }):to(dtype):transpose(2, 3) }
    agree(dtype .. ", projected together", given)
    local odd = ml.randn({ 2, 33, 17 }):to(dtype)
    local part = odd:narrow(3, 2, 16)
    agree(dtype .. ", rows that begin anywhere",
      { query = part, key = part, value = part, gradient = part })
    local turned = ml.randn({ 2, 16, 33 }):to(dtype):transpose(2, 3)
    agree(dtype .. ", columns side by side",
      { query = turned, key = turned, value = turned, gradient = turned })
  end
end)

on_device("a scale, and numbers that are none", function()
  local given = draw("float32", { 2, 17, 8 }, { 2, 33, 8 }, { 2, 33, 8 })
  agree("scale", given, { scale = -1.7 })
  agree("scale 0", given, { scale = 0 })
  given.value[1][5][2] = 0 / 0
  given.query[2][3][1] = math.huge
  agree("NaN and infinite", given)
end)

on_device("large scores do not overflow", function()
  for _, dtype in ipairs { "float16", "bfloat16", "float32" } do
    local given = draw(dtype, { 1, 20, 16 }, { 1, 40, 16 }, { 1, 40, 16 })
    given.query, given.key = given.query * 16, given.key * 16
    agree(dtype, given, { scale = 1 }, 0.05)
  end
end)

on_device("TF32 where products may use it", function()
  local given = draw("float32", { 2, 35, 40 }, { 2, 65, 40 }, { 2, 65, 40 })
  local exact = run(given, {}, "cuda").y
  local before = ml.get_float32_matmul_precision()
  ml.set_float32_matmul_precision "high"
  local ok, why = pcall(agree, "TF32", given, {}, TF32)
  local rounded = run(given, {}, "cuda").y
  ml.set_float32_matmul_precision(before)
  if not ok then error(why, 0) end
  if rounded:equal(exact) then error("TF32 changes nothing", 0) end
end)

on_device("second derivatives", function()
  local function of(device)
    local q = ml.linspace(-1, 1, 24, { dtype = "float64" }):reshape(1, 4, 6):to(device)
      :requires_grad_(true)
    local y = F.scaled_dot_product_attention(q, q * 2, q * 3)
    local first = ml.autograd.grad((y * y):sum(), q, { create_graph = true })
    local g = ml.is_tensor(first) and first or first[1]
    g:square():sum():backward()
    return q.grad
  end
  same("second derivative", of "cuda", of "cpu", 1e-9)
end)

on_device("memory grows with the length, not with its square", function()
  local l = 1024
  for _, dtype in ipairs { "float16", "float32" } do
    local q = ml.randn({ 1, l, 8 }, { device = "cuda", dtype = dtype }):requires_grad_(true)
    collectgarbage()
    local before = ml.cuda.memory_allocated()
    ml.cuda.reset_peak_memory_stats()
    F.scaled_dot_product_attention(q, q, q, { is_causal = true }):sum():backward()
    local peak = ml.cuda.max_memory_allocated() - before
    -- The result and its gradient, three gradients and two numbers for each query.
    if peak > 24 * l * 8 * 4 then error(("%s: %d bytes more at the peak"):format(dtype, peak), 0) end
  end
end)

harness.run()
