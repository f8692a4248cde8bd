-- tests/lua/distributed/fully_shard_gpt_test.lua: a GPT whose parameters ranks have sharded: the
-- script that trains one, and the memory that a step takes on each rank.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ranks = require "distributed_ranks"
local test, expect = harness.test, harness.expect

test("the script of a GPT goes on from its checkpoint with another number of ranks", function()
  local base = os.tmpname()
  local _ <close> = setmetatable({}, { __close = function()
    os.execute(("rm -rf '%s' '%s.txt' '%s.one' '%s.two'"):format(base, base, base, base))
  end })
  local file = assert(io.open(base .. ".txt", "w"))
  for i = 1, 400 do file:write(("line %d of a text; "):format(i * i)) end
  file:close()
  local function train(size, words)
    local script = (os.getenv "MOONLET_SOURCE" or ".") .. "/scripts/fsdp_gpt.lua"
    local pipe <close> = assert(io.popen(("OMP_NUM_THREADS=1 timeout 120 '%s' launch -n %d '%s' "
      .. "'%s.txt' --dim 16 --layers 2 --window 16 %s 2>&1"):format(arg[-1], size, script, base,
      words)))
    local text = pipe:read "a"
    return text:match "step   40: loss (%d%.%d+)" or error(text, 0)
  end
  ranks.need_engine()
  local whole = train(1, ("--steps 40 --checkpoint '%s.one'"):format(base))
  expect.truthy(not pcall(train, 2, ("--steps 30 --checkpoint '%s.two'"):format(base)))
  local resumed = train(4, ("--steps 40 --checkpoint '%s.two' --resume --recompute"):format(base))
  expect.near(tonumber(resumed), tonumber(whole), 1e-5)
  expect.truthy(tonumber(whole) < 3, whole)
end)

-- A GPT of 12 blocks, of which `ROWS` windows are shared by the ranks; rank 0 prints the most bytes
-- of a step, and those of a block's parameters.
local GPT = [[
dist.init_process_group()
local size = dist.get_world_size()
local nn, F = ml.nn, ml.nn.functional
local DIM, LAYERS, WINDOW, ROWS, WORDS = 128, 12, 32, 16, 65
local Block = nn.class("Block", nn.Module)
function Block:init()
  self.norm1, self.qkv, self.out = nn.LayerNorm(DIM), nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
  self.norm2 = nn.LayerNorm(DIM)
  self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))
end
function Block:forward(x)
  local n, steps, dim = table.unpack(x.shape)
  local function split(t) return t:view(n, steps, 4, -1):transpose(2, 3) end
  local q, k, v = table.unpack(self.qkv(self.norm1(x)):chunk(3, 3))
  local y = F.scaled_dot_product_attention(split(q), split(k), split(v), { is_causal = true })
  x = x + self.out(y:transpose(2, 3):reshape(n, steps, dim))
  return x + self.mlp(self.norm2(x))
end
ml.manual_seed(1)
local net = nn.Sequential(nn.Embedding(WORDS, DIM))
for _ = 1, LAYERS do net:append(Block()) end
net:append(nn.LayerNorm(DIM))
net:append(nn.Linear(DIM, WORDS))
local block = 0
for _, p in ipairs(net[2]:parameters()) do block = block + p:numel() * p:element_size() end
for i = 2, LAYERS + 1 do dist.fully_shard(net[i]) end
dist.fully_shard(net)
local opt = ml.optim.AdamW(net:parameters(), { lr = 0.001 })
local own, losses = ROWS // size, {}
local function step(i)
  local g = ml.Generator():manual_seed(i)
  local ids = ml.randint(WORDS, { ROWS, WINDOW + 1 }, { generator = g })
    :narrow(1, rank * own + 1, own)
  opt:zero_grad()
  local scores = net(ids:narrow(2, 1, WINDOW))
  local loss = F.cross_entropy(scores:flatten(1, 2), ids:narrow(2, 2, WINDOW):flatten())
  loss:backward()
  opt:step()
  local mean = loss:detach():clone()
  dist.all_reduce(mean, "avg")
  losses[i] = ("%.5f"):format(mean:item())
end
for i = 1, 2 do step(i) end
collectgarbage()
local peak = ml.memory.peak_live_bytes(function() step(3) end)
if rank == 0 then print(peak, block, table.concat(losses, " ")) end
dist.destroy_process_group()
]]

test("a GPT trains alike on 1, 2 and 4 ranks, each of which needs its share of the memory", function()
  local function measure(size)
    local text = ranks.run_well(size, GPT)[0]
    local peak, block, losses = text:match "^(%d+)%s+(%d+)%s+([%d. ]+)\n$"
    expect.truthy(peak, text)
    return tonumber(peak), tonumber(block), losses
  end
  local all, block, losses = measure(1)
  for _, size in ipairs { 2, 4 } do
    local peak, _, own_losses = measure(size)
    local share = peak / (all / size + block)
    print(("  %d ranks: %.2f MiB of %.2f, %.3f of its share"):format(size, peak / 2 ^ 20,
      all / 2 ^ 20, share))
    expect.truthy(share <= 1.15, ("%d ranks: %.3f"):format(size, share))
    for number in losses:gmatch "%S+" do
      local other = own_losses:match "%S+"
      own_losses = own_losses:gsub("^%S+%s*", "")
      expect.near(tonumber(other), tonumber(number), 2e-5)
    end
  end
end)

harness.run()
