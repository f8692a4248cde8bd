-- tests/lua/nn/attention_test.lua: attention where the samples of its rows do not reach: grouped
-- queries, masks, odd sizes, many positions, 16-bit floats, NaN and infinities, its weights.

local here = arg[0]:match("^(.*)/") or "."
package.path = here .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local F = ml.nn.functional

local INF, NAN = math.huge, 0 / 0

test("grouped queries share keys", function()
  local q, k, v = ml.randn(2, 4, 3, 8), ml.randn(2, 2, 5, 8), ml.randn(2, 2, 5, 8)
  local y = F.scaled_dot_product_attention(q, k, v, { enable_gqa = true })
  local whole = F.scaled_dot_product_attention(q, k:repeat_interleave(2, 2), v:repeat_interleave(2, 2))
  expect.near(y:reshape(-1):totable(), whole:reshape(-1):totable(), 1e-6)
  expect.error(function() F.scaled_dot_product_attention(q, ml.ones(2, 3, 5, 8), ml.ones(2, 3, 5, 8),
    { enable_gqa = true }) end, "4 heads of query cannot share 3 of key")
  local other = ml.randn(2, 1, 5, 8)
  y = F.scaled_dot_product_attention(q, k, other, { enable_gqa = true })
  whole = F.scaled_dot_product_attention(q, k:repeat_interleave(2, 2), other:repeat_interleave(4, 2))
  expect.near(y:reshape(-1):totable(), whole:reshape(-1):totable(), 1e-6)
  expect.error(function() F.scaled_dot_product_attention(q, k, v, { enable_gqa = true, attn_mask = ml.ones(2, 3, 5) })
  end, "attn_mask has shape %(2, 3, 5%) for 4 heads of query")
end)

test("one query of several heads", function()
  local q, k, v = ml.randn(2, 6, 1, 8), ml.randn(2, 2, 5, 8), ml.randn(2, 2, 5, 3)
  local seen = ml.rand(2, 6, 1, 5):gt(0.4)
  for _, mask in ipairs { false, seen, seen[{ {}, { 1, 1 } }], seen[{ 1, 1 }], ml.randn(5) } do
    local function of(key, value, options)
      local queries = q:clone():requires_grad_(true)
      options.attn_mask = mask or nil
      local y = F.scaled_dot_product_attention(queries, key, value, options)
      y:square():sum():backward()
      return y, queries.grad
    end
    local y, gradient = of(k, v, { enable_gqa = true })
    local whole, wanted = of(k:repeat_interleave(3, 2), v:repeat_interleave(3, 2), {})
    expect.equal(tostring(y.shape), "(2, 6, 1, 3)")
    expect.near(y:reshape(-1):totable(), whole:reshape(-1):totable(), 1e-6)
    expect.near(gradient:reshape(-1):totable(), wanted:reshape(-1):totable(), 1e-5)
  end
  -- As many rows as heads that share a key are no mask of one query.
  for _, mask in ipairs { ml.ones(3, 5), ml.ones(2, 1, 3, 5) } do
    expect.error(function()
      F.scaled_dot_product_attention(q, k, v, { enable_gqa = true, attn_mask = mask })
    end, "attn_mask has shape")
  end
end)

-- Attention as it is written, for tensors (..., heads, l, e); `mask` is added.
local function plain_attention(q, k, v, mask)
  return ml.softmax(ml.matmul(q, k:transpose(-1, -2)) / math.sqrt(q:size(-1)) + mask, -1):matmul(v)
end

test("attention of parts of one tensor, of odd sizes, with masks that broadcast", function()
  ml.manual_seed(4)
  local b, h, e = 2, 3, 19
  for _, length in ipairs { 1, 17, 64, 67, 130, 600 } do
    local whole = ml.randn({ b, length, 3 * h * e }, { requires_grad = true })
    local function heads(x) return x:view(b, length, h, e):transpose(2, 3) end
    local q, k, v = table.unpack(whole:split(h * e, 3))
    q, k, v = heads(q), heads(k), heads(v)
    local g = ml.randn(b, h, length, e)
    local causal = ml.zeros(length, length):masked_fill(ml.ones(length, length):triu(1):bool(), -INF)
    local rows, columns = ml.randn(b, 1, length, 1), ml.randn(h, 1, length)
    local seen = ml.rand(b, 1, length, length):gt(0.3):logical_or(ml.eye(length):bool())
    for name, case in pairs { causal = { causal, { is_causal = true } }, rows = { rows, { attn_mask = rows } },
      columns = { columns, { attn_mask = columns } }, none = { 0, {} }, transposed = { causal, { attn_mask =
      causal:t():contiguous():t() } }, bools = { ml.zeros(seen:size()):masked_fill(seen:logical_not(), -INF),
      { attn_mask = seen } } } do
      local y, wanted = F.scaled_dot_product_attention(q, k, v, case[2]), plain_attention(q, k, v, case[1])
      expect.truthy((y - wanted):abs():max():item() < 1e-5, name .. length)
      expect.truthy(y:transpose(2, 3):is_contiguous(), "lies as the queries do")
      local got, expected = ml.grad((y * g):sum(), whole), ml.grad((wanted * g):sum(), whole)
      expect.truthy((got - expected):abs():max():item() < 1e-5 * length, name .. length)
    end
  end
end)

test("attention of half types is computed in float32", function()
  ml.manual_seed(5)
  for _, dtype in ipairs { ml.bfloat16, ml.float16 } do
    local q, k, v = ml.randn(2, 70, 8):to(dtype), ml.randn(2, 700, 8):to(dtype), ml.randn(2, 700, 5):to(dtype)
    local y = F.scaled_dot_product_attention(q, k, v)
    local wanted = plain_attention(q:float(), k:float(), v:float(), 0):to(dtype)
    expect.equal(y.dtype, dtype)
    expect.truthy((y:float() - wanted:float()):abs():max():item() < 2e-3)
  end
end)

test("attention keeps NaN and infinities in their rows", function()
  local q, k, v = ml.ones(1, 3, 4), ml.ones(1, 600, 4), ml.ones(1, 600, 2)
  q[{ 1, 2, 1 }] = NAN
  k[{ 1, 600, 1 }] = -INF
  local y = F.scaled_dot_product_attention(q, k, v)
  expect.truthy(y[{ 1, 2 }]:isnan():all():item())
  expect.near(y[{ 1, 1 }]:totable(), { 1, 1 }, 1e-5)
  expect.near(F.scaled_dot_product_attention(q, k, v, { is_causal = true })[{ 1, 3 }]:totable(), { 1, 1 }, 1e-5)
  -- A whole block of keys hidden before others are seen.
  local hidden = ml.full({ 3, 600 }, -INF)
  hidden[{ { 1, 2 }, { 551, 600 } }] = -1000.0
  q[{ 1, 2, 1 }] = 1
  k[{ 1, 600, 1 }] = 1
  y = F.scaled_dot_product_attention(q, k, v, { attn_mask = hidden })
  expect.near(y:reshape(-1):totable(), { 1, 1, 1, 1, 0, 0 }, 1e-5)
  expect.equal(F.scaled_dot_product_attention(q, ml.ones(1, 0, 4), ml.ones(1, 0, 2)):sum():item(), 0.0)
  -- Sizes of nothing: no features are scores of 0, and no values no results.
  local function ones(length, size) return ml.ones { 1, length, size, requires_grad = true } end
  local a, b, c = ones(300, 0), ones(600, 0), ones(600, 3)
  y = F.scaled_dot_product_attention(a, b, c, { scale = 1.0 })
  expect.near(y:sum():item(), 900, 1e-2)
  expect.near(ml.grad(y:sum(), c):sum():item(), 900, 1e-2)
  y = F.scaled_dot_product_attention(ones(300, 4), ones(600, 4), ones(600, 0))
  expect.equal(tostring(y.shape), "(1, 300, 0)")
  y:sum():backward()
end)

test("the gradient of a mask that was computed", function()
  local q, k, v = ml.randn(2, 3, 4), ml.randn(2, 5, 4), ml.randn(2, 5, 6)
  local bias = ml.randn { 3, 5, requires_grad = true }
  local got = ml.grad(F.scaled_dot_product_attention(q, k, v, { attn_mask = bias * 2 }):pow(2):sum(), bias)
  local wanted = ml.grad(plain_attention(q, k, v, bias * 2):pow(2):sum(), bias)
  expect.truthy((got - wanted):abs():max():item() < 1e-5)
end)

test("attention over many positions is computed in parts", function()
  ml.manual_seed(2)
  -- The scores of 2100 x 2100 are more than are held at a time.
  local size, value_size = { 2, 2100, 4 }, { 2, 2100, 3 }
  local q = ml.randn(size, { requires_grad = true })
  local k = ml.randn(size, { requires_grad = true })
  local v = ml.randn(value_size, { requires_grad = true })
  local g, bias = ml.randn(value_size), ml.randn(2100, 2100)
  local seen = ml.ones(2100, 2100, { dtype = ml.bool }):tril()
  local function plain(mask)
    return ml.matmul(ml.softmax(ml.matmul(q, k:transpose(2, 3)) / 2 + mask, 3), v)
  end
  local hidden = ml.zeros(2100, 2100):masked_fill(seen:logical_not(), -INF)
  for name, case in pairs { causal = { hidden, { is_causal = true } }, bool = { hidden, { attn_mask = seen } },
    added = { bias, { attn_mask = bias } }, none = { 0, {} } } do
    local y = F.scaled_dot_product_attention(q, k, v, case[2])
    local wanted = plain(case[1])
    expect.truthy((y - wanted):abs():max():item() < 1e-4, name)
    local got = { ml.grad((y * g):sum(), { q, k, v }) }
    for i, w in ipairs { ml.grad((wanted * g):sum(), { q, k, v }) } do
      expect.truthy((got[i] - w):abs():max():item() < 1e-3 * math.max(1, w:abs():max():item()), name .. i)
    end
  end
end)

test("multi-head attention gives weights and checks shapes", function()
  local x, w, o = ml.randn(3, 2, 4), ml.randn(12, 4), ml.randn(4, 4)
  local function forward(options)
    return F.multi_head_attention_forward(x, x, x, 4, 2, w, nil, nil, nil, false, 0, o, nil,
      options)
  end
  local _, weights = F.multi_head_attention_forward(x, x, x, 4, 2, w, nil, nil, nil, false, 0, o, nil)
  expect.equal(tostring(weights.shape), "(2, 3, 3)")
  expect.near(weights:sum(3):reshape(-1):totable(), ml.ones(6):totable(), 1e-5)
  _, weights = forward { average_attn_weights = false }
  expect.equal(tostring(weights.shape), "(2, 2, 3, 3)")
  local y, none = forward { need_weights = false }
  expect.equal({ tostring(y.shape), none }, { "(3, 2, 4)", nil })
  expect.error(function() forward { attn_mask = ml.ones(2, 3) } end, "'attn_mask' has shape %(2, 3%)")
  expect.error(function() forward { key_padding_mask = ml.ones(2, 4) } end, "'key_padding_mask' has shape")
  expect.error(function() forward { is_causal = true } end, "'is_causal' wants")
end)

-- The same elements as long runs of each channel, which other loops take.

harness.run()
