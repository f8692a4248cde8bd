-- tests/lua/distributed/models_test.lua: a small residual network and a small GPT, trained by 1, 2 and
-- 4 ranks, have the losses of one process with the whole batch.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ranks = require "distributed_ranks"
local test = harness.test

-- `make` gives a model, `batch(step)` inputs and targets of 8 examples, `loss_of(model, x, y)` a mean.
local MODELS = {
  resnet = [[
    local Block = ml.class("Block", nn.Module)
    function Block:init(width)
      self.conv1 = nn.Conv2d(width, width, 3, { padding = 1, bias = false })
      self.norm1 = nn.BatchNorm2d(width)
      self.conv2 = nn.Conv2d(width, width, 3, { padding = 1, bias = false })
      self.norm2 = nn.BatchNorm2d(width)
    end
    function Block:forward(x)
      local h = self.norm1(self.conv1(x)):relu()
      return (x + self.norm2(self.conv2(h))):relu()
    end
    local function make()
      ml.manual_seed(3)
      return nn.Sequential(nn.Conv2d(1, 8, 3, { padding = 1 }), nn.BatchNorm2d(8), nn.ReLU(),
        Block(8), Block(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
    end
    local function batch(step)
      local g = ml.Generator():manual_seed(step)
      return ml.randn(8, 1, 8, 8, { generator = g }), ml.randint(10, { 8 }, { generator = g })
    end
    local function loss_of(model, x, y) return ml.cross_entropy(model(x), y) end
  ]],
  gpt = [[
    local WORDS, LENGTH, WIDTH, HEADS = 17, 12, 16, 2
    local Layer = ml.class("Layer", nn.Module)
    function Layer:init()
      self.norm1 = nn.LayerNorm(WIDTH)
      self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
      self.out = nn.Linear(WIDTH, WIDTH)
      self.norm2 = nn.LayerNorm(WIDTH)
      self.up = nn.Linear(WIDTH, 4 * WIDTH)
      self.down = nn.Linear(4 * WIDTH, WIDTH)
    end
    function Layer:forward(x)
      local n, length = x:size(1), x:size(2)
      local parts = self.qkv(self.norm1(x)):view(n, length, 3, HEADS, WIDTH // HEADS)
        :permute(3, 1, 4, 2, 5)
      local h = nn.functional.scaled_dot_product_attention(parts[1], parts[2], parts[3],
        { is_causal = true })
      x = x + self.out(h:transpose(2, 3):reshape(n, length, WIDTH))
      return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))
    end
    local GPT = ml.class("GPT", nn.Module)
    function GPT:init()
      self.words, self.positions = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
      self.layers = nn.Sequential(Layer(), Layer())
      self.norm = nn.LayerNorm(WIDTH)
    end
    function GPT:forward(x)
      local h = self.words(x) + self.positions(ml.arange(x:size(2)))
      -- The words' vectors are those of the output, too.
      return self.norm(self.layers(h)):matmul(self.words.weight:t())
    end
    local function make()
      ml.manual_seed(3)
      return GPT()
    end
    local function batch(step)
      local g = ml.Generator():manual_seed(step)
      local text = ml.randint(WORDS, { 8, LENGTH + 1 }, { generator = g })
      return text:narrow(2, 1, LENGTH), text:narrow(2, 2, LENGTH):contiguous()
    end
    local function loss_of(model, x, y)
      return ml.cross_entropy(model(x):reshape(-1, WORDS), y:reshape(-1))
    end
  ]],
}

local SETTING = [[
  local nn = ml.nn
  dist.init_process_group { deterministic = DETERMINISTIC }
  local size = dist.get_world_size()
  MODEL
  local function part(x, r) return x:narrow(1, 8 // size * r + 1, 8 // size) end
  local STEPS = 8
  local function new_optimizer(model)
    return ml.optim.AdamW(model:parameters(), { lr = 0.01 })
  end
  local function step_of(ddp, opt, step)
    local x, y = batch(step)
    opt:zero_grad()
    local loss = loss_of(ddp, part(x, rank), part(y, rank))
    loss:backward()
    opt:step()
    local mean = loss:detach():double()
    dist.all_reduce(mean, "avg")
    return mean:item()
  end
]]

local function setting(model, deterministic)
  return (SETTING:gsub("DETERMINISTIC", tostring(deterministic)):gsub("MODEL", function()
    return MODELS[model]
  end))
end

for _, name in ipairs { "resnet", "gpt" } do
  for _, size in ipairs { 1, 2, 4 } do
    test(("%s: %d ranks have the losses of one process"):format(name, size), function()
      ranks.run_well(size, setting(name, false) .. [[
        local one = make()
        local opt, wanted = new_optimizer(one), {}
        for step = 1, STEPS do
          local x, y = batch(step)
          opt:zero_grad()
          local loss = loss_of(one, x, y)
          loss:backward()
          opt:step()
          wanted[step] = loss:item()
        end
        local net = nn.SyncBatchNorm.convert_sync_batchnorm(make())
        local ddp = nn.parallel.DistributedDataParallel(net, { bucket_cap_mb = 0.005 })
        opt = new_optimizer(net)
        for step = 1, STEPS do
          local loss = step_of(ddp, opt, step)
          assert(math.abs(loss - wanted[step]) < 1e-5 * wanted[step],
            ("step %d: %.7g, expected %.7g"):format(step, loss, wanted[step]))
        end
        assert(wanted[STEPS] ~= wanted[1])
        dist.destroy_process_group()
      ]])
    end)
  end
  for _, size in ipairs { 2, 4 } do
    test(("%s: %d deterministic ranks have the bits of one process that adds up in their order")
      :format(name, size), function()
      ranks.run_well(size, setting(name, true) .. [[
        local one, net = make(), make()
        local plain, opt = new_optimizer(one), new_optimizer(net)
        local ddp = nn.parallel.DistributedDataParallel(net,
          { bucket_cap_mb = 0.005, broadcast_buffers = false })
        for step = 1, STEPS do
          local x, y = batch(step)
          local sums = {}
          for r = 0, size - 1 do
            plain:zero_grad()
            loss_of(one, part(x, r), part(y, r)):backward()
            for i, p in ipairs(one:parameters()) do
              local share = p.grad / size
              sums[i] = sums[i] and sums[i] + share or share
            end
          end
          for i, p in ipairs(one:parameters()) do p.grad = sums[i] end
          plain:step()
          step_of(ddp, opt, step)
          for i, p in ipairs(one:parameters()) do
            assert(ml.equal(p, net:parameters()[i]), ("step %d, parameter %d"):format(step, i))
          end
        end
        dist.destroy_process_group()
      ]])
    end)
  end
end

harness.run()
