-- scripts/ddp_mnist.lua: trains a small network to read handwritten digits by several processes,
-- each with its part of the images:
--
--     moonlet launch -n 2 scripts/ddp_mnist.lua --data FOLDER
--
-- With one process it runs as it is, and under mpirun, with --backend mpi or without:
-- mpirun -n 2 moonlet scripts/ddp_mnist.lua.

local ml = require "moonlet"
local args = require "moonlet.args"
local data, dist, nn, optim = ml.data, ml.distributed, ml.nn, ml.optim

local here = arg[0]:match("^(.*)/") or "."
local CLASSES = 10
local TEST_SHARE = 6  -- one image of so many is kept for the test

local options = args.parser {
  name = "ddp_mnist.lua",
  summary = "Trains a small network on MNIST, or 1,797 smaller digits, by several processes.",
  { "data", "string", meta = "<folder>",
    help = "where train-images-idx3-ubyte and train-labels-idx1-ubyte are" },
  { "epochs", "integer", default = 5, min = 1, help = "passes over the training images" },
  { "batch-size", "integer", default = 32, min = 1, help = "images per step and process" },
  { "lr", "number", default = 0.003, min = 0, help = "learning rate" },
  { "backend", "string", default = "gloo", help = "what carries the gradients: gloo or mpi" },
  { "out", "string", default = "ddp_mnist.safetensors", help = "the file of weights to write" },
}:parse(arg)

-- The images, (n, 1, h, w) from 0 to 1, and the classes: class 1 is the digit 0.
local function load_digits()
  if options.data then
    local images = data.read_idx(options.data .. "/train-images-idx3-ubyte")
    local labels = data.read_idx(options.data .. "/train-labels-idx1-ubyte")
    return images:unsqueeze(2):float() / 255, labels:long() + 1
  end
  local rows = data.read_csv(here .. "/data/digits.csv")
  return rows[{ {}, { 1, 64 } }]:reshape(-1, 1, 8, 8) / 16, rows[{ {}, 65 }]:long() + 1
end

local function new_net(side)
  return nn.Sequential(
    nn.Conv2d(1, 16, 3, { padding = 1 }), nn.BatchNorm2d(16), nn.ReLU(),
    nn.Conv2d(16, 32, 3, { padding = 1 }), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(32 * (side // 2) * (side // 2), 64), nn.ReLU(),
    nn.Linear(64, CLASSES))
end

-- The right answers and the images of this process, added up over all.
local function accuracy(net, loader)
  local counts = ml.zeros(2)
  net:eval()
  ml.no_grad(function()
    for images, classes in loader:iter() do
      counts:add_(ml.tensor { net(images):argmax(2):eq(classes):sum():item() * 1.0, #images * 1.0 })
    end
  end)
  dist.all_reduce(counts)
  net:train()
  return counts[1]:item() / counts[2]:item()
end

dist.init_process_group { backend = options.backend }
local rank, size = dist.get_rank(), dist.get_world_size()
ml.manual_seed(1)
local images, classes = load_digits()
local kept = #images // TEST_SHARE
local function part(first, count)
  return data.TensorDataset(images:narrow(1, first, count), classes:narrow(1, first, count))
end
local train, test = part(kept + 1, #images - kept), part(1, kept)
local sampler = data.DistributedSampler(train, size, rank, { seed = 1 })
local loader = data.DataLoader(train, { batch_size = options.batch_size, sampler = sampler })
local test_loader = data.DataLoader(test, { batch_size = 256,
  sampler = data.DistributedSampler(test, size, rank, { shuffle = false }) })

local net = nn.parallel.DistributedDataParallel(new_net(images:size(3)))
local optimizer = optim.Adam(net:parameters(), { lr = options.lr })
for epoch = 1, options.epochs do
  sampler:set_epoch(epoch)
  local total = ml.zeros(2)
  for inputs, targets in loader:iter() do
    local loss = nn.functional.cross_entropy(net(inputs), targets)
    optimizer:zero_grad()
    loss:backward()
    optimizer:step()
    total:add_(ml.tensor { loss:item(), 1.0 })
  end
  dist.all_reduce(total)
  local right = accuracy(net, test_loader)
  if rank == 0 then
    print(("epoch %d: loss %.4f, %.1f%% of the test images"):format(epoch,
      total[1]:item() / total[2]:item(), 100 * right))
  end
end
if rank == 0 then ml.save(options.out, net.module:state_dict()) end
dist.destroy_process_group()
