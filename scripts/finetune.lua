-- scripts/finetune.lua: takes a network that PyTorch trained to tell the digits 0 to 4 apart, and
-- teaches it all ten from a few images of each: first a new last layer, then all weights.

local ml = require "moonlet"
local data, nn, optim, F = ml.data, ml.nn, ml.optim, ml.nn.functional

local here = arg[0]:match("^(.*)/") or "."
local CLASSES = 10
local TEST_IMAGES = 360

local options = ml.args.parser {
  name = "finetune.lua",
  summary = "Teaches a network from PyTorch, which knows five digits, all ten.",
  { "weights", "string", default = here .. "/data/digits-0-to-4.safetensors", meta = "<file>",
    help = "what PyTorch saved (tests/reference/pretrain_digits.py)" },
  { "images", "integer", default = 40, min = 1, max = 140, help = "training images of each digit" },
  { "epochs", "integer", default = 20, min = 1, help = "passes over them in each of two phases" },
  { "lr", "number", default = 0.003, min = 0, help = "learning rate of the last layer" },
  { "seed", "integer", default = 1, help = "start of the random numbers" },
  { "out", "string", default = "finetuned.safetensors", help = "the file for the weights" },
  { "confusion", "string", meta = "<file>", help = "draw a confusion matrix: a .svg or .png" },
}:parse(arg)

-- The network with the names that it has in PyTorch: body.0.weight, ..., head.bias.
local Net = nn.class("Net", nn.Module)

function Net:init(classes)
  self.body = nn.Sequential(
    nn.Conv2d(1, 16, 3, { padding = 1 }), nn.BatchNorm2d(16), nn.ReLU(),
    nn.Conv2d(16, 32, 3, { padding = 1 }), nn.BatchNorm2d(32), nn.ReLU(),
    nn.MaxPool2d(2), nn.Flatten())
  self.head = nn.Linear(32 * 4 * 4, classes)
end

function Net:forward(images)
  return self.head(self.body(images))
end

-- The images, (n, 1, 8, 8) from 0 to 1, and the classes: class 1 is the digit 0, PyTorch's class 0.
local function load_digits()
  local rows = data.read_csv(here .. "/data/digits.csv")
  return rows[{ {}, { 1, 64 } }]:reshape(-1, 1, 8, 8) / 16, rows[{ {}, 65 }]:long() + 1
end

-- The positions of the first `count` images of each class among those before the test images.
local function choose(classes, count)
  local positions = {}
  for class = 1, CLASSES do
    local all = classes[{ { 1, -TEST_IMAGES - 1 } }]:eq(class):nonzero():flatten()
    positions[class] = all[{ { 1, count } }]
  end
  return ml.cat(positions)
end

local function predict(net, images)
  net:eval()
  return ml.no_grad(function() return net(images):argmax(2) end)
end

local function report(title, net, images, classes)
  local accuracy = predict(net, images):eq(classes):float():mean():item()
  print(("%s: %.1f%%"):format(title, 100 * accuracy))
end

-- Trains what requires a gradient. `whole` says whether the body learns too: only then does batch
-- normalisation use and follow the batches; frozen, it keeps the statistics from PyTorch.
local function train(title, net, set, optimizer, whole)
  local loader = data.DataLoader(set, { batch_size = 20, shuffle = true })
  local schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs)
  local bar <close> = ml.progress.new { total = options.epochs, unit = "epoch", label = title }
  net:train()
  net.body:train(whole)
  for _ = 1, options.epochs do
    for images, classes in loader do
      local loss = F.cross_entropy(net(images), classes)
      optimizer:zero_grad()
      loss:backward()
      optimizer:step()
      bar:set { loss = loss:item() }
    end
    schedule:step()
    bar:update(1)
  end
end

local function draw(path, guesses, classes)
  local labels = {}
  for class = 1, CLASSES do labels[class] = class - 1 end
  local cells = (classes - 1) * CLASSES + guesses  -- each pair of true and guessed class is one
  local counts = ml.bincount(cells, { minlength = CLASSES * CLASSES }):view(CLASSES, CLASSES)
  ml.plot.confusion(counts, { title = "Test images", labels = labels }):save(path)
end

ml.manual_seed(options.seed)
local images, classes = load_digits()
local last = { -TEST_IMAGES, -1 }
local test_images, test_classes = images[{ last }], classes[{ last }]
local chosen = choose(classes, options.images)
local set = data.TensorDataset(images[chosen], classes[chosen])

-- The network as it was in PyTorch: load_state_dict wants every name and shape to fit.
local net = Net(5)
net:load_state_dict(ml.load(options.weights))
report("As it comes from PyTorch", net, test_images, test_classes)

-- A new last layer for ten classes. The other way would be to make Net(10) and to load the file
-- without "head.weight" and "head.bias", with { strict = false }.
net.head = nn.Linear(net.head.in_features, CLASSES)
net.body:requires_grad_(false)
train("last layer", net, set, optim.Adam(net.head:parameters(), { lr = options.lr }), false)
report("Last layer trained", net, test_images, test_classes)

-- All weights, those from PyTorch in smaller steps.
net.body:requires_grad_(true)
local adam = optim.Adam({ { params = net.body:parameters(), lr = options.lr / 3 },
  { params = net.head:parameters() } }, { lr = options.lr })
train("all weights", net, set, adam, true)
report("All weights trained", net, test_images, test_classes)

if options.confusion then draw(options.confusion, predict(net, test_images), test_classes) end
ml.save(options.out, net:state_dict())  -- PyTorch reads it with safetensors.torch.load_file
print("Weights: " .. options.out)
