-- tests/lua/distributed/parallel_reference_test.lua: tensor parallel layers and pipelines, step by
-- step beside PyTorch's on 2 and 4 processes: values/parallel.json, which
-- tests/reference/make_parallel.py makes.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local json = require "moonlet.json"
local ranks = require "distributed_ranks"
local system = require "moonlet.system"
local test, expect = harness.test, harness.expect

local PATH = (os.getenv "MOONLET_SOURCE" or ".") .. "/tests/reference/values/parallel.json"

local HEAD = [[
local all = require("moonlet.json").decode(assert(io.open(PATH)):read "a")
local case = all.cases[CASE]
local mesh = dist.init_device_mesh("cpu", { case.ranks })
local nn, F, dt, tp, pp = ml.nn, ml.nn.functional, dist.tensor, dist.tensor.parallel, dist.pipelining
local function state_of(given)
  local out = {}
  for name, x in pairs(given) do out[name] = ml.tensor(x.data):reshape(x.shape) end
  return out
end
local function check(got, wanted, what)
  near(got:reshape(-1), ml.tensor(wanted), what)
end
local compared = 0
local function check_parameters(named, wanted, step)
  if wanted == require("moonlet.json").null then return end
  for name, x in pairs(named) do
    check(x, assert(wanted[name]), ("step %d: %s"):format(step, name))
    compared = compared + 1
  end
end
]]

-- The model of the script that has made the values.
local NET = [[
local Attention = nn.class "Attention"
function Attention:init()
  for _, name in ipairs { "q", "k", "v" } do
    self[name] = nn.Linear(all.dim, all.dim, { bias = false })
  end
  self.out = nn.Linear(all.dim, all.dim)
end
function Attention:forward(x)
  local q, k, v = self.q(x), self.k(x), self.v(x)
  local function split(t)
    return t:view(t:size(1), t:size(2), -1, all.dim // all.heads):transpose(2, 3)
  end
  local y = F.scaled_dot_product_attention(split(q), split(k), split(v), { is_causal = true })
  return self.out(y:transpose(2, 3):flatten(3))
end
local FeedForward = nn.class "FeedForward"
function FeedForward:init()
  self.w1, self.w2 = nn.Linear(all.dim, 2 * all.dim), nn.Linear(2 * all.dim, all.dim)
end
function FeedForward:forward(x) return self.w2(F.gelu(self.w1(x))) end
local Net = nn.class "Net"
function Net:init()
  self.embedding = nn.Embedding(all.words, all.dim)
  self.norm1, self.attention = nn.LayerNorm(all.dim), Attention()
  self.norm2, self.ffn = nn.RMSNorm(all.dim), FeedForward()
  self.norm, self.head = nn.LayerNorm(all.dim), nn.Linear(all.dim, all.words)
end
function Net:forward(ids)
  local x = self.embedding(ids)
  x = x + self.attention(self.norm1(x))
  x = x + self.ffn(self.norm2(x))
  return self.head(self.norm(x))
end
]]

local PARTED = [[
local C, R, S = tp.ColwiseParallel, tp.RowwiseParallel, tp.SequenceParallel
local plan = { ["attention.q"] = C(), ["attention.k"] = C(), ["attention.v"] = C(), ["ffn.w1"] = C() }
if case.kind == "plain" then
  plan.embedding, plan["attention.out"], plan["ffn.w2"], plan.head = R(), R(), R(), C()
else
  local sharded = { output_layouts = dt.Shard(2) }
  plan.embedding, plan["attention.out"], plan["ffn.w2"] = R(sharded), R(sharded), R(sharded)
  plan["norm*"] = S()
  plan.attention = tp.PrepareModuleInput(dt.Shard(2), dt.Replicate())
  plan.ffn = tp.PrepareModuleInput(dt.Shard(2), dt.Replicate())
  plan.head = C { input_layouts = dt.Shard(2) }
end
local net = Net()
net:load_state_dict(state_of(all.net))
tp.parallelize_module(net, mesh, plan)
local optimizer = ml.optim.SGD(net:parameters(), { lr = 0.2, momentum = 0.9 })
for step, wanted in ipairs(case.steps) do
  optimizer:zero_grad()
  local rows = ml.tensor(all.tokens[step])
  local scores = net(rows[{ {}, { 1, -2 } }]):flatten(1, 2)
  local loss = tp.loss_parallel(mesh, function()
    return F.cross_entropy(scores, rows[{ {}, { 2, -1 } }]:flatten())
  end)
  loss:backward()
  optimizer:step()
  check(loss:detach(), wanted.losses, ("step %d: loss"):format(step))
  check_parameters(dist.checkpoint.get_model_state_dict(net, { full_state_dict = true }),
    wanted.parameters, step)
end
assert(compared == 2 * 17, compared)
dist.destroy_process_group()
]]

local PIPED = [[
local net, each = nn.ModuleList(), 4 // case.ranks
for i = 1, 4 do
  net:append(nn.Sequential(nn.Linear(i == 1 and 3 or 5, i == 4 and 2 or 5), nn.Tanh()))
end
net:load_state_dict(state_of(all.layers))
local own, names = nn.Sequential(), {}
for i = 1, each do own:append(net[rank * each + i]) end
for name, p in net:named_parameters() do names[p] = name end
local stage = pp.PipelineStage(own, rank, case.ranks)
local schedule = pp[case.kind](stage, case.microbatches, F.mse_loss)
local optimizer = ml.optim.AdamW(own:parameters(), { lr = 0.01, weight_decay = 0.01 })
for step, wanted in ipairs(case.steps) do
  optimizer:zero_grad()
  local x, y = ml.tensor(all.batches[step][1]), ml.tensor(all.batches[step][2])
  local losses = {}
  if rank == 0 then schedule:step(x) else schedule:step { target = y, losses = losses } end
  optimizer:step()
  if rank == case.ranks - 1 then
    check(ml.stack(losses), wanted.losses, ("step %d: losses"):format(step))
  end
  local named = {}
  for _, p in ipairs(own:parameters()) do named[assert(names[p])] = p:detach() end
  check_parameters(named, wanted.parameters, step)
end
assert(compared == 2 * 2 * each, compared)
dist.destroy_process_group()
]]

local cases = json.decode(system.read_file(PATH)).cases
local names = {}
for name in pairs(cases) do names[#names + 1] = name end
table.sort(names)
expect.equal(#names, 6)

for _, name in ipairs(names) do
  test("step by step beside PyTorch: " .. name, function()
    local case = cases[name]
    local head = ("local PATH, CASE = %q, %q\n"):format(PATH, name) .. HEAD
    local piped = case.kind:find "^Schedule" ~= nil
    ranks.run_well(case.ranks, head .. (piped and PIPED or NET .. PARTED))
  end)
end

harness.run()
