-- scripts/fsdp_gpt.lua: a small GPT that learns to write like a text, character by character, by
-- several processes of which each has a part of its parameters, gradients and optimiser states:
--
--     moonlet launch -n 2 scripts/fsdp_gpt.lua TEXT
--
-- With one process it runs as it is, and under mpirun:
-- mpirun -n 2 moonlet scripts/fsdp_gpt.lua TEXT.

local ml = require "moonlet"
local data, dist, nn, F = ml.data, ml.distributed, ml.nn, ml.nn.functional

local options = ml.args.parser {
  name = "fsdp_gpt.lua",
  summary = "Learns to write like the text in a file, by processes that shard the model.",
  { "text", "string", positional = true, required = true, help = "the file, in UTF-8" },
  { "steps", "integer", default = 300, min = 1, help = "changes of the parameters" },
  { "batch-size", "integer", default = 16, min = 1, help = "windows per step, of all processes" },
  { "dim", "integer", default = 128, min = 1, help = "numbers for each character" },
  { "heads", "integer", default = 4, min = 1, help = "parts of DIM that attend by themselves" },
  { "layers", "integer", default = 6, min = 1, help = "blocks on one another" },
  { "window", "integer", default = 64, min = 2, help = "characters that are seen at once" },
  { "lr", "number", default = 0.001, min = 0, help = "learning rate" },
  { "bfloat16", "flag", help = "compute in bfloat16; parameters stay in float32" },
  { "recompute", "flag", help = "keep no activations of blocks: compute them again for backward" },
  { "checkpoint", "string", default = "fsdp_gpt.ckpt", meta = "<folder>",
    help = "where the run is kept every 100 steps and at the end" },
  { "resume", "flag", help = "go on from the checkpoint, with any number of processes" },
}:parse(arg)

-- A block of Radford et al., 2019: attention, then two products, each on normalised input, added.
local Block = nn.class("Block", nn.Module)

function Block:init()
  local dim = options.dim
  self.norm1, self.qkv, self.out = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
  self.norm2 = nn.LayerNorm(dim)
  self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
end

function Block:attend(x)
  local n, steps, dim = table.unpack(x.shape)
  local function split(t) return t:view(n, steps, options.heads, -1):transpose(2, 3) end
  local q, k, v = table.unpack(self.qkv(x):chunk(3, 3))
  local y = F.scaled_dot_product_attention(split(q), split(k), split(v), { is_causal = true })
  return self.out(y:transpose(2, 3):reshape(n, steps, dim))
end

function Block:forward(x)
  x = x + self:attend(self.norm1(x))
  return x + self.mlp(self.norm2(x))
end

local Net = nn.class("Net", nn.Module)

function Net:init(characters)
  self.embedding = nn.Embedding(characters, options.dim)
  self.positions = nn.Embedding(options.window, options.dim)
  self.blocks = nn.ModuleList()
  for i = 1, options.layers do self.blocks[i] = Block() end
  self.norm = nn.LayerNorm(options.dim)
  self.head = nn.Linear(options.dim, characters, { bias = false })
  for _, weight in self:named_parameters() do
    if weight.ndim == 2 then nn.init.normal_(weight, { std = 0.02 }) end
  end
end

function Net:forward(ids)
  local x = self.embedding(ids) + self.positions(ml.arange(1, ids.shape[2]))
  for _, block in ipairs(self.blocks) do
    x = options.recompute and ml.utils.checkpoint(block, x) or block(x)
  end
  return self.head(self.norm(x))
end

if options.dim % options.heads ~= 0 then error("--dim must be a multiple of --heads", 0) end
dist.init_process_group()
local rank, size = dist.get_rank(), dist.get_world_size()
if options.batch_size % size ~= 0 then
  error(("--batch-size must be a multiple of the %d processes"):format(size), 0)
end
ml.manual_seed(1)
local text = data.CharDataset(options.text, options.window)
local net = Net(#text.vocabulary)

-- Each block is gathered as a whole, and the model takes what is left.
local policy = dist.MixedPrecisionPolicy(options.bfloat16
  and { param_dtype = ml.bfloat16, reduce_dtype = ml.float32 } or {})
for _, block in ipairs(net.blocks) do dist.fully_shard(block, { mp_policy = policy }) end
dist.fully_shard(net, { mp_policy = policy })
local optimizer = ml.optim.AdamW(net:parameters(), { lr = options.lr })

local run = { step = 0 }
local function state()
  local model, optim = dist.checkpoint.get_state_dict(net, optimizer)
  return { model = model, optim = optim, run = run }
end
if options.resume then
  local found = state()
  dist.checkpoint.load(found, { checkpoint_id = options.checkpoint })
  dist.checkpoint.set_state_dict(net, optimizer, found.model, found.optim, {})
end

-- The windows of a step, the same whatever number of processes share them, and this one's.
local function batch(step)
  local own = options.batch_size // size
  local picked = ml.randint(#text, { options.batch_size },
    { generator = ml.Generator():manual_seed(step) })
  return text:get_batch(picked:narrow(1, rank * own + 1, own))
end

local saving
for step = run.step + 1, options.steps do
  local inputs, targets = batch(step)
  local loss = F.cross_entropy(net(inputs):float():flatten(1, 2), targets:flatten())
  optimizer:zero_grad()
  loss:backward()
  nn.utils.clip_grad_norm_(net, 1)
  optimizer:step()
  run.step = step
  local mean = loss:detach():clone()
  dist.all_reduce(mean, "avg")
  if rank == 0 and (step % 20 == 0 or step == 1) then
    print(("step %4d: loss %.6f"):format(step, mean:item()))
  end
  -- Written while the next steps go on.
  if step % 100 == 0 or step == options.steps then
    saving = dist.checkpoint.async_save(state(), { checkpoint_id = options.checkpoint })
  end
end
if saving then saving:wait() end
if rank == 0 then
  print(("%s: moonlet convert --key model %s gpt.safetensors makes one file of it"):format(
    options.checkpoint, options.checkpoint))
end
dist.destroy_process_group()
