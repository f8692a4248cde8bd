-- scripts/scaling/measure.lua: measures what scripts/scaling/predict.lua predicts from: the parts
-- of a step of training, all_reduce between the ranks, and, to compare, whole steps of
-- DistributedDataParallel. Rounds of all three take turns and the least times count, so that other
-- programs on the machine disturb little.
--
--     OMP_NUM_THREADS=1 moonlet launch -n 2 scripts/scaling/measure.lua --out two.json

local ml = require "moonlet"
local clock = require("moonlet.system").clock
local json = require "moonlet.json"
local Buckets = require "moonlet.distributed.buckets"
local engine = require "moonlet.distributed_engine"
local dist, nn = ml.distributed, ml.nn

local options = ml.args.parser {
  name = "measure.lua",
  summary = "Measures a step of training and the links between ranks.",
  { "net", "choice", choices = { "conv", "mlp" }, default = "conv",
    help = "conv computes long for its weights, mlp sends many" },
  { "batch-size", "integer", default = 32, min = 1, help = "examples per rank" },
  { "rounds", "integer", default = 10, min = 1, help = "how often all is measured" },
  { "steps", "integer", default = 5, min = 1, help = "steps of training in a round" },
  { "bucket-cap-mb", "number", default = 25, min = 0, help = "MiB of gradients that go together" },
  { "out", "string", default = "scaling.json", meta = "<file>", help = "what rank 0 writes" },
}:parse(arg)

local NETS = {
  conv = { shape = { 3, 32, 32 }, new = function()
    local layers = { nn.Conv2d(3, 64, 3, { padding = 1 }), nn.ReLU() }
    for _ = 1, 4 do
      layers[#layers + 1] = nn.Conv2d(64, 64, 3, { padding = 1 })
      layers[#layers + 1] = nn.ReLU()
    end
    layers[#layers + 1] = nn.AdaptiveAvgPool2d(1)
    layers[#layers + 1] = nn.Flatten()
    layers[#layers + 1] = nn.Linear(64, 10)
    return nn.Sequential(table.unpack(layers))
  end },
  mlp = { shape = { 1024 }, new = function()
    local layers = {}
    for i = 1, 8 do
      layers[2 * i - 1], layers[2 * i] = nn.Linear(1024, 1024), nn.ReLU()
    end
    layers[#layers + 1] = nn.Linear(1024, 10)
    return nn.Sequential(table.unpack(layers))
  end },
}

dist.init_process_group { timeout = 300 }
local rank, size = dist.get_rank(), dist.get_world_size()
local kind = NETS[options.net]
ml.manual_seed(1)
local x = ml.randn(options.batch_size, table.unpack(kind.shape))
local classes = ml.randint(1, 10, { options.batch_size })

-- --- the parts of a step ------------------------------------------------------------------------

local net = kind.new()
local optimizer = ml.optim.SGD(net:parameters(), { lr = 0.01, momentum = 0.9 })
local parameters = {}
for _, p in ipairs(net:parameters()) do parameters[#parameters + 1] = p end
-- When the gradient of each was there.
local ready = {}
for i, p in ipairs(parameters) do
  p:register_post_accumulate_grad_hook(function() ready[i] = clock() end)
end
local buckets = Buckets.grouped(parameters, math.floor(options.bucket_cap_mb * (1 << 20)))

local parts = { whole = math.huge }

local function measure_parts()
  local start = clock()
  optimizer:zero_grad()
  local loss = nn.functional.cross_entropy(net(x), classes)
  local forward = clock()
  loss:backward()
  local backward = clock()
  optimizer:step()
  local ended = clock()
  if ended - start >= parts.whole then return end
  parts = { whole = ended - start, forward = forward - start, optimizer = ended - backward,
    buckets = {} }
  local before = forward
  for b, bucket in ipairs(buckets) do
    local last = before
    for _, i in ipairs(bucket.positions) do last = math.max(last, ready[i]) end
    if b == #buckets then last = backward end
    parts.buckets[b] = { bytes = bucket.bytes, seconds = last - before }
    before = last
  end
end

-- Seconds of a byte of gradients on its way to a bucket and back.
local pack = math.huge
local function measure_pack()
  local a, b = ml.ones(1 << 20), ml.ones(1 << 20)
  local start = clock()
  a:copy_(b)
  a:div_(2)
  b:copy_(a)
  pack = math.min(pack, (clock() - start) / (4 << 20))
end

-- --- links --------------------------------------------------------------------------------------

local SIZES = { 1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 22, 1 << 24 }
local links, share = {}, 1
local function measure_links()
  for i, bytes in ipairs(SIZES) do
    local tensor, least = ml.ones(bytes // 4), math.huge
    local start, used = clock(), os.clock()
    local count = bytes > 1 << 20 and 5 or 20
    for _ = 1, count do
      local one = clock()
      dist.all_reduce(tensor, "max")
      least = math.min(least, clock() - one)
    end
    links[i] = { bytes = bytes, seconds = math.min(least, links[i] and links[i].seconds or least) }
    -- What the processor did meanwhile, of the time that it took.
    if bytes == SIZES[#SIZES] then
      share = math.min(share, (os.clock() - used) / (clock() - start))
    end
  end
end

-- --- whole steps --------------------------------------------------------------------------------

local trained = nn.parallel.DistributedDataParallel(kind.new(),
  { bucket_cap_mb = options.bucket_cap_mb })
local trainer = ml.optim.SGD(trained:parameters(), { lr = 0.01, momentum = 0.9 })
local step = math.huge
local function measure_step()
  local start = clock()
  trainer:zero_grad()
  nn.functional.cross_entropy(trained(x), classes):backward()
  trainer:step()
  step = math.min(step, clock() - start)
end

for _ = 1, options.rounds do
  for _ = 1, options.steps do measure_parts() end
  measure_pack()
  dist.barrier()
  if size > 1 then measure_links() end
  for _ = 1, options.steps do measure_step() end
end

if rank == 0 then
  local text = json.encode { net = options.net, batch = options.batch_size, ranks = size,
    processors = engine.processors(), forward = parts.forward, optimizer = parts.optimizer,
    buckets = parts.buckets, whole = parts.whole, pack = pack, links = links, share = share,
    step = step }
  local file = assert(io.open(options.out .. ".new", "w"))
  file:write(text, "\n")
  file:close()
  assert(os.rename(options.out .. ".new", options.out))
  print(("%s: %d rank%s, step %.2f ms, of which one rank alone computes %.2f ms"):format(
    options.out, size, size == 1 and "" or "s", step * 1e3, parts.whole * 1e3))
end
dist.destroy_process_group()
