-- tests/lua/distributed/fully_shard_reference_test.lua: training with parameters that ranks have
-- sharded, step by step beside PyTorch's fully_shard on 2 processes: values/fully_shard.json,
-- which tests/reference/make_fully_shard.py makes.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ranks = require "distributed_ranks"
local test, expect = harness.test, harness.expect

local PATH = (os.getenv "MOONLET_SOURCE" or ".") .. "/tests/reference/values/fully_shard.json"

local SCRIPT = [[
dist.init_process_group()
local nn, F, class = ml.nn, ml.nn.functional, require "moonlet.class"
local all = require("moonlet.json").decode(assert(io.open(PATH)):read "a")
local case, size = all.cases[CASE], dist.get_world_size()
local TOLERANCE = CASE == "bfloat16" and 2e-2 or 1e-5

local Block = class("Block", nn.Module)
function Block:init()
  self.norm = nn.LayerNorm(all.dim)
  self.a, self.b = nn.Linear(all.dim, 3 * all.dim), nn.Linear(3 * all.dim, all.dim)
end
function Block:forward(x) return x + self.b(F.gelu(self.a(self.norm(x)))) end
local Net = class("Net", nn.Module)
function Net:init()
  self.embedding = nn.Embedding(all.words, all.dim)
  self.blocks = nn.ModuleList { Block(), Block() }
  self.head = nn.Linear(all.dim, all.words, { bias = false })
  self.head.weight = self.embedding.weight
end
function Net:forward(ids)
  local x = self.embedding(ids):cumsum(2)
  for _, block in ipairs(self.blocks) do x = block(x) end
  return self.head(x)
end

local net, first = Net(), {}
for name, x in pairs(all.first) do first[name] = ml.tensor(x.data):reshape(x.shape) end
net:load_state_dict(first)
local options, of_blocks = { reshard_after_forward = case.reshard }, { reshard_after_forward = case.reshard }
if case.policy then
  options.mp_policy = dist.MixedPrecisionPolicy(case.policy)
  of_blocks.mp_policy = dist.MixedPrecisionPolicy { param_dtype = case.policy.param_dtype,
    reduce_dtype = case.policy.reduce_dtype }
end
for _, block in ipairs(net.blocks) do dist.fully_shard(block, of_blocks) end
dist.fully_shard(net, options)
local optimizer
if case.optimizer == "SGD" then
  optimizer = ml.optim.SGD(net:parameters(), { lr = 0.1, momentum = 0.9, weight_decay = 0.01 })
else
  optimizer = ml.optim.AdamW(net:parameters(), { lr = 0.01, weight_decay = 0.01 })
end

local function check(got, wanted, what)
  assert(math.abs(got - wanted) <= TOLERANCE * math.max(1, math.abs(wanted)),
    ("%s: %.9g, PyTorch has %.9g"):format(what, got, wanted))
end

-- With another number of ranks each has another part of the same rows.
local tokens, rows = ml.tensor(all.tokens), 2 * all.rows // size
local compared = 0
for number, step in ipairs(case.steps) do
  optimizer:zero_grad()
  for batch, wanted in ipairs(step.losses) do
    net:set_requires_gradient_sync(batch == #step.losses)
    local own = tokens[number][batch]:narrow(1, rank * rows + 1, rows)
    local scores = net(own:narrow(2, 1, own:size(2) - 1))
    local loss = F.cross_entropy(scores:flatten(1, 2), own:narrow(2, 2, own:size(2) - 1):flatten())
    loss:backward()
    local mean = loss:detach():clone()
    dist.all_reduce(mean, "avg")
    check(mean:item(), wanted, ("step %d: loss"):format(number))
  end
  if case.clip then
    check(nn.utils.clip_grad_norm_(net, case.clip):item(), step.norm, ("step %d: norm"):format(number))
  end
  optimizer:step()
  local state = dist.checkpoint.get_model_state_dict(net, { full_state_dict = true })
  for name, values in pairs(step.parameters or {}) do
    local off = (state[name]:flatten() - ml.tensor(values)):abs():max():item()
    assert(off <= TOLERANCE, ("step %d: %s is off by %g"):format(number, name, off))
    compared = compared + 1
  end
end
assert(compared == 2 * 13, compared)
dist.destroy_process_group()
]]

for _, case in ipairs { "plain", "kept", "accumulated", "momentum", "bfloat16" } do
  for _, size in ipairs { 1, 2, 3 } do
    test(("%s: %d ranks give PyTorch's numbers"):format(case, size), function()
      local outputs = ranks.run_well(size, ("local PATH, CASE = %q, %q\n"):format(PATH, case)
        .. SCRIPT)
      expect.equal(outputs[0], "")
    end)
  end
end

harness.run()
