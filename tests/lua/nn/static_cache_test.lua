-- tests/lua/nn/static_cache_test.lua: nn.StaticCache: attention token by token is that to all at once,
-- masks of tokens that come together, texts longer than the cache, replays on a CUDA device, and errors.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local nn, F = ml.nn, ml.nn.functional

-- A decoder of two layers of attention, without a cache causal over all of `ids`.
local TOKENS, LENGTH, HEADS, DIM = 7, 12, 2, 6
local Net = nn.class("Net", nn.Module)

function Net:init()
  self.tokens, self.positions = nn.Embedding(TOKENS, DIM), nn.Embedding(LENGTH, DIM)
  self.qkv = nn.ModuleList { nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, 3 * DIM) }
  self.head = nn.Linear(DIM, TOKENS)
end

function Net:forward(ids, cache)
  local n, steps = table.unpack(ids.shape)
  local positions = cache and cache:positions(steps) or ml.arange(1, steps, { device = ids.device })
  local x = self.tokens(ids) + self.positions(positions)
  for i, qkv in ipairs(self.qkv) do
    local parts = qkv(x):chunk(3, 3)
    for k, part in ipairs(parts) do parts[k] = part:reshape(n, steps, HEADS, -1):transpose(2, 3) end
    local q, k, v = table.unpack(parts)
    local options = { is_causal = true }
    if cache then k, v, options = cache:update(i, k, v) end
    x = x + F.scaled_dot_product_attention(q, k, v, options):transpose(2, 3):reshape(n, steps, DIM)
  end
  if cache then cache:advance(steps) end
  return self.head(x)
end

local function new_net(device)
  ml.manual_seed(4)
  return Net():to(device or "cpu")
end

local function new_cache(options) return nn.StaticCache(2, HEADS, LENGTH, DIM // HEADS, options or {}) end

test("tokens that come in parts of any size have the scores of all at once", function()
  local _ <close> = ml.no_grad()
  local net, cache = new_net(), new_cache { batch_size = 3 }
  local ids = ml.randint(TOKENS, { 3, LENGTH })
  local want = net(ids)
  for _, parts in ipairs { { 12 }, { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 }, { 5, 1, 1, 5 }, { 1, 4, 4, 3 } } do
    cache:reset()
    local got = {}
    for i, steps in ipairs(parts) do
      expect.equal(cache:positions(steps):tolist(), ml.arange(cache.seen + 1, cache.seen + steps):tolist())
      got[i] = net(ids:narrow(2, cache.seen + 1, steps), cache)
    end
    expect.equal(cache.seen, LENGTH)
    expect.near(ml.cat(got, 2):tolist(), want:tolist(), 1e-5)
  end
end)

-- The likeliest tokens, each from the whole text of before; what does not fit begins with the last half.
local function by_whole_texts(net, ids, count)
  local out, text = {}, ids
  for i = 1, count do
    local token = net(text:unsqueeze(1))[{ 1, -1 }]:argmax():reshape(1)
    out[i] = token:item()
    if #text == LENGTH then
      text = ml.cat { text, token }[{ { -(LENGTH // 2), -1 } }]
    else
      text = ml.cat { text, token }
    end
  end
  return out
end

local function by_cache(net, ids, count)
  local cache = new_cache { device = ids.device }
  local out = {}
  local next_token = cache:generate(ids, function(new)
    return net(new:unsqueeze(1), cache)[{ 1, -1 }]:argmax():reshape(1)
  end)
  for i = 1, count do out[i] = next_token():item() end
  return out
end

local function check_texts(device)
  local _ <close> = ml.no_grad()
  local net = new_net(device)
  for _, size in ipairs { 1, 3, LENGTH - 1, LENGTH } do
    local ids = ml.randint(TOKENS, { size }):to(device)
    expect.equal(by_cache(net, ids, 40), by_whole_texts(net, ids, 40), size)
  end
end

test("texts longer than the cache", function() check_texts "cpu" end)

test("so they are from replays on a CUDA device", function()
  if not ml.cuda.is_available() then harness.skip "no CUDA device" end
  check_texts "cuda"
  -- Later tokens are replays: nothing of the net runs.
  local _ <close> = ml.no_grad()
  local net, cache, calls = new_net "cuda", new_cache { device = "cuda" }, 0
  local next_token = cache:generate(ml.tensor({ 1, 2 }, { device = "cuda" }), function(new)
    calls = calls + 1
    return net(new:unsqueeze(1), cache)[{ 1, -1 }]:argmax():reshape(1)
  end)
  for _ = 1, LENGTH - 2 do next_token() end
  expect.equal(cache.seen, LENGTH - 1)
  expect.equal(calls, 3)  -- the first tokens, one step, and its capture
end)

test("draws on a CUDA device are new at each replay and the same for a seed", function()
  if not ml.cuda.is_available() then harness.skip "no CUDA device" end
  local _ <close> = ml.no_grad()
  local net = new_net "cuda"
  local function drawn(seed)
    local cache, out = new_cache { device = "cuda" }, {}
    ml.manual_seed(seed)
    local next_token = cache:generate(ml.tensor({ 1 }, { device = "cuda" }), function(new)
      return (net(new:unsqueeze(1), cache)[{ 1, -1 }] / 50):softmax(1):multinomial(1)
    end)
    for i = 1, 30 do out[i] = next_token():item() end
    return out
  end
  local one, seen = drawn(1), {}
  expect.equal(drawn(1), one)
  for _, id in ipairs(one) do seen[id] = true end
  local count = 0
  for _ in pairs(seen) do count = count + 1 end
  expect.truthy(count > 3, count)
end)

test("what it was given before does not come back", function()
  local _ <close> = ml.no_grad()
  local cache = nn.StaticCache(1, 1, 4, 2)
  cache:update(1, ml.full({ 1, 1, 4, 2 }, 0 / 0), ml.full({ 1, 1, 4, 2 }, 0 / 0))
  cache:advance(4)
  cache:reset()
  local k = cache:update(1, ml.ones(1, 1, 1, 2), ml.ones(1, 1, 1, 2))
  expect.equal(k:tolist(), { { { { 1, 1 } } } })
  expect.equal(cache._layers[1].v:sum():item(), 2)
  expect.equal(nn.StaticCache(1, 1, 4, 2, { dtype = ml.float64 })._layers[1].k.dtype, ml.float64)
end)

test("wrong calls are errors", function()
  local cache = nn.StaticCache(2, 1, 4, 2)
  local x = ml.ones(1, 1, 3, 2)
  for _, case in ipairs {
    { function() nn.StaticCache(1, 1, 0, 2) end, "max_length" },
    { function() nn.StaticCache { num_layers = 1, heads = 2 } end, "unknown option 'heads'" },
    { function() cache:update(3, x, x) end, "update: layer 3 of 2" },
    { function() cache:update(1, x, ml.ones(1, 2, 3, 2)) end,
      "update: 'v' must have shape %(1, 1, steps, 2%), got %(1, 2, 3, 2%)" },
    { function() cache:update(1, ml.ones(3, 2), x) end, "update: 'k' must have shape" },
    { function() cache:update(1, ml.ones(1, 1, 5, 2), x) end, "update: 5 tokens for a cache that has 0 of 4" },
    { function() cache:advance(5) end, "advance: 5 tokens for a cache that has 0 of 4" },
    { function() cache:positions(0) end, "positions" },
    { function() cache:generate(ml.ones(2, 2), print) end, "generate: 'ids' must be a vector of tokens" },
    { function() cache:generate(ml.ones(0), print) end, "generate: 'ids' must be a vector of tokens" },
    { function() cache:generate(ml.ones(5), print) end, "generate: 5 tokens" },
    { function() cache:generate(ml.ones(2)) end, "draw" },
    { function() cache.length = 3 end, "length" },
  } do
    expect.error(case[1], case[2])
  end
  expect.equal(cache.seen, 0)
end)

harness.run()
