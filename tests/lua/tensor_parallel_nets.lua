-- tests/lua/tensor_parallel_nets.lua: what ranks begin with in the tests of tensor parallel layers.

local nets = {}

-- Nets of which each process can make the same one; `part` is this rank's of a whole.
nets.head = [[
local mesh = dist.init_device_mesh("cpu", { tonumber(os.getenv "WORLD_SIZE") })
local size = dist.get_world_size()
local nn, dt, tp = ml.nn, dist.tensor, dist.tensor.parallel
local Shard, Replicate = dt.Shard, dt.Replicate
-- Relative to the largest element.
local function near(got, wanted, what)
  assert(got.shape == wanted.shape, ("%s: %s, not %s"):format(what or "", got.shape, wanted.shape))
  if got:numel() == 0 then return end
  local difference = (got:double() - wanted:double()):abs():max():item()
  local scale = math.max(1, wanted:double():abs():max():item())
  assert(difference <= 1e-5 * scale, ("%s: off by %g"):format(what or "", difference))
end
local function part(whole, dim, pieces)
  local length = whole:size(dim) // (pieces or 1)
  local each, list = (length + size - 1) // size, {}
  local first = math.min(each * rank, length)
  local count = math.min(each, length - first)
  for k = 0, (pieces or 1) - 1 do list[k + 1] = whole:narrow(dim, k * length + first + 1, count) end
  return ml.cat(list, dim)
end
-- Two nets with the same parameters, and an input for each.
local function twice(make, plan, ...)
  ml.manual_seed(3)
  local one = make()
  local net = one:deepcopy()
  tp.parallelize_module(net, mesh, plan)
  local x = ml.randn(...)
  return one, net, x:clone():requires_grad_(true), x:clone():requires_grad_(true)
end
-- Compares a scalar's first and second derivatives by the input of each net.
local function compare_gradients(a, x, b, y, what)
  -- `create_graph` keeps the graph for what comes.
  local f, g = ml.grad(a, x, { create_graph = true }), ml.grad(b, y, { create_graph = true })
  near(g:detach(), f:detach(), what .. ": gradient")
  if f.requires_grad then
    near(ml.grad(g:pow(2):sum(), y, { retain_graph = true }),
      ml.grad(f:pow(2):sum(), x, { retain_graph = true }), what .. ": second derivative")
  end
end
]]

-- A GPT whose norms and dropouts see parts of the positions, and whose scores stay sharded.
nets.gpt = [[
local Block = nn.class "Block"
function Block:init(dim, heads, ranks)
  self.heads, self.norm1, self.norm2 = heads // ranks, nn.LayerNorm(dim), nn.RMSNorm(dim)
  self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
  self.linear1, self.linear2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
end
function Block:attend(x)
  local y = self.qkv(x)
  local n, steps = y:size(1), y:size(2)
  local q, k, v = table.unpack(y:chunk(3, 3))
  local function split(t) return t:view(n, steps, self.heads, -1):transpose(2, 3) end
  y = nn.functional.scaled_dot_product_attention(split(q), split(k), split(v), { is_causal = true })
  return self.out(y:transpose(2, 3):reshape(n, steps, -1))
end
function Block:forward(x)
  x = x + self:attend(self.norm1(x))
  return x + self.linear2(self.linear1(self.norm2(x)):relu())
end
local GPT = nn.class "GPT"
function GPT:init(words, dim, ranks)
  ml.manual_seed(5)
  self.embedding, self.positions = nn.Embedding(words, dim), nn.Embedding(4, dim)
  self.blocks = nn.ModuleList()
  for i = 1, 2 do self.blocks[i] = Block(dim, 4, ranks) end
  self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, words, { bias = false })
end
function GPT:forward(ids)
  local where = ml.arange(1, ids:size(2)):expand(ids.shape)
  local x = self.embedding(ids) + self.positions(where)
  for _, block in ipairs(self.blocks) do x = block(x) end
  return self.head(self.norm(x)):transpose(2, 3)
end
local C, R, S = tp.ColwiseParallel, tp.RowwiseParallel, tp.SequenceParallel
local plain = { embedding = R(), ["blocks.*.qkv"] = C { parts = 3 }, ["blocks.*.out"] = R(),
  ["blocks.*.linear1"] = C(), ["blocks.*.linear2"] = R(), head = C() }
local sharded = { embedding = R { output_layouts = Shard(2) },
  positions = R { output_layouts = Shard(2) },
  ["blocks.*.norm*"] = S(), ["blocks.*.qkv"] = C { parts = 3, input_layouts = Shard(2) },
  ["blocks.*.out"] = R { output_layouts = Shard(2) },
  ["blocks.*.linear1"] = C { input_layouts = Shard(2) },
  ["blocks.*.linear2"] = R { output_layouts = Shard(2) },
  norm = S(), head = C { input_layouts = Shard(2) } }
local function batch(step)
  local g = ml.Generator():manual_seed(step)
  return ml.randint(11, { 3, 4 }, { generator = g }), ml.randint(11, { 3, 4 }, { generator = g })
end
]]

--- What ranks of a grid begin with, two by two: `grid`, whose dimensions are dp and tp.
nets.grid = nets.head:gsub("local mesh = [^\n]*\n", [[
local grid = dist.init_device_mesh("cpu", { 2, 2 }, { mesh_dim_names = { "dp", "tp" } })
local mesh = grid.tp
]], 1)

return nets
