-- scripts/train_digits.lua: trains a small convolutional network to read handwritten digits, shows
-- how well it does, and saves its weights; `--predict FILE` loads them and reads digits.

local ml = require "moonlet"
local args = require "moonlet.args"
local plot = require "moonlet.plot"
local progress = require "moonlet.progress"
local data, nn, optim = ml.data, ml.nn, ml.optim

local here = arg[0]:match("^(.*)/") or "."
local TEST_IMAGES = 360
local CLASSES = 10
local DRAWN = 6

local options = args.parser {
  name = "train_digits.lua",
  summary = "Trains a small network on 1,797 images of handwritten digits.",
  { "device", "string", default = "cpu", help = "where to compute: cpu, cuda, cuda:1" },
  { "epochs", "integer", default = 15, min = 1, help = "passes over the training images" },
  { "seed", "integer", default = 1, help = "start of the random numbers" },
  { "lr", "number", default = 0.003, min = 0, help = "learning rate at the start" },
  { "batch-size", "integer", default = 32, min = 1, help = "images per step" },
  { "out", "string", default = "digits",
    help = "first part of the files written: OUT.safetensors and OUT-loss.svg" },
  { "predict", "string", meta = "<file>",
    help = "read digits with the weights in this file instead of training" },
}:parse(arg)

-- The images, (n, 1, 8, 8) from 0 to 1, and the classes: class 1 is the digit 0.
local function load_digits()
  local rows = data.read_csv(here .. "/data/digits.csv")
  local images = rows[{ {}, { 1, 64 } }]:reshape(-1, 1, 8, 8) / 16
  local classes = rows[{ {}, 65 }]:long() + 1
  return data.TensorDataset(images, classes)
end

local Net = nn.class("Net", nn.Module)

function Net:init()
  self.features = nn.Sequential(
    nn.Conv2d(1, 16, 3, { padding = 1 }), nn.BatchNorm2d(16), nn.ReLU(),
    nn.Conv2d(16, 32, 3, { padding = 1 }), nn.BatchNorm2d(32), nn.ReLU(),
    nn.MaxPool2d(2))
  self.classify = nn.Sequential(
    nn.Flatten(), nn.Dropout(0.25),
    nn.Linear(32 * 4 * 4, 64), nn.ReLU(),
    nn.Linear(64, CLASSES))
end

function Net:forward(images)
  return self.classify(self.features(images))
end

-- One pass over the training images; returns the mean loss and the share of right answers.
local function train_epoch(net, loader, optimizer, bar)
  net:train()
  local total, right, seen = 0, 0, 0
  for images, classes in bar:over(loader) do
    images, classes = images:to(options.device), classes:to(options.device)
    local scores = net(images)
    local loss = nn.functional.cross_entropy(scores, classes)
    optimizer:zero_grad()
    loss:backward()
    optimizer:step()
    total = total + loss:item() * #images
    right = right + scores:argmax(2):eq(classes):sum():item()
    seen = seen + #images
    bar:set { loss = total / seen, train = ("%.1f%%"):format(100 * right / seen) }
  end
  return total / seen, right / seen
end

-- The classes the network gives to all images of a set, and the true ones, on the CPU.
local function predict(net, set)
  local _ <close> = ml.no_grad()
  net:eval()
  local guesses, truths, drawn = {}, {}, {}
  for images, classes in data.DataLoader(set, { batch_size = 256 }) do
    guesses[#guesses + 1] = net(images:to(options.device)):argmax(2):cpu()
    truths[#truths + 1] = classes
    drawn[#drawn + 1] = images
  end
  return ml.cat(guesses), ml.cat(truths), ml.cat(drawn)
end

local function accuracy_of(guesses, truths)
  return guesses:eq(truths):sum():item() / #truths
end

local function digit_labels()
  local labels = {}
  for class = 1, CLASSES do labels[class] = class - 1 end
  return labels
end

local function show_confusion(guesses, truths)
  local counts = ml.bincount((truths - 1) * CLASSES + guesses, { minlength = CLASSES * CLASSES })
  plot.confusion(counts:reshape(CLASSES, CLASSES),
    { title = "Test images", labels = digit_labels() }):show()
end

-- Draws some of the images at the positions given, each with what it was read as.
local function draw(images, guesses, truths, positions, title)
  local list, captions = {}, {}
  for i = 1, math.min(DRAWN, #positions) do
    local at = positions[i]
    list[i] = images[at]
    captions[i] = ("%d as %d"):format(truths[at]:item() - 1, guesses[at]:item() - 1)
  end
  plot.images(list, { captions = captions, title = title, min = 0, max = 1 }):show()
end

local function show_mistakes(images, guesses, truths)
  local wrong = guesses:ne(truths):nonzero():reshape(-1):totable()
  if #wrong == 0 then
    print("No test image was misread.")
    return
  end
  draw(images, guesses, truths, wrong, ("Misread: %d of %d"):format(#wrong, #truths))
end

-- Fails before the training rather than after it when the results cannot be written.
local function check_writable(path)
  local file, message = io.open(path .. ".part", "wb")
  if not file then
    error(("cannot write %s: %s"):format(path, message:match("[^:]+$"):sub(2)), 0)
  end
  file:close()
  os.remove(path .. ".part")
end

local function train(net, train_set, test_set)
  local loader = data.DataLoader(train_set, { batch_size = options.batch_size, shuffle = true })
  local optimizer = optim.Adam(net:parameters(), { lr = options.lr })
  local schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs)
  local losses = {}
  for epoch = 1, options.epochs do
    local bar <close> = progress.new { total = #loader, unit = "batch",
      label = ("epoch %2d/%d"):format(epoch, options.epochs) }
    losses[epoch] = train_epoch(net, loader, optimizer, bar)
    local guesses, truths = predict(net, test_set)
    print(("epoch %2d/%d  loss %.6f  test accuracy %.2f%%"):format(epoch, options.epochs,
      losses[epoch], 100 * accuracy_of(guesses, truths)))
    schedule:step()
  end
  return losses
end

local function report(net, test_set, losses)
  local guesses, truths, images = predict(net, test_set)
  local accuracy = accuracy_of(guesses, truths)
  print()
  show_confusion(guesses, truths)
  print()
  show_mistakes(images, guesses, truths)
  print()
  local curve = plot.line(losses, { title = "Loss", x_label = "epoch", y_label = "cross entropy" })
  curve:show(nil, { height = 10 })
  local weights, picture = options.out .. ".safetensors", options.out .. "-loss.svg"
  curve:save(picture)
  ml.save(weights, net:cpu():state_dict(), { metadata = { seed = tostring(options.seed),
    epochs = tostring(options.epochs), accuracy = ("%.4f"):format(accuracy) } })
  print(("\nTest accuracy: %.2f%% (%d of %d)"):format(100 * accuracy,
    guesses:eq(truths):sum():item(), #truths))
  print(("Loss curve: %s\nWeights: %s"):format(picture, weights))
  print(("To read digits with them: moonlet %s --predict %s"):format(arg[0], weights))
end

-- The same seed gives the same parts, so the network never saw the test images.
local function split_digits(seed)
  ml.manual_seed(seed)
  local digits = load_digits()
  return table.unpack(data.random_split(digits, { #digits - TEST_IMAGES, TEST_IMAGES }))
end

local function read_digits(path)
  local state, metadata = ml.load(path)
  local _, test_set = split_digits(math.tointeger(metadata.seed) or options.seed)
  local net = Net():to(options.device)
  net:load_state_dict(state)
  local guesses, truths, images = predict(net, test_set)
  draw(images, guesses, truths, { 1, 2, 3, 4, 5, 6 }, "The first test images")
  print(("Test accuracy: %.2f%%"):format(100 * accuracy_of(guesses, truths)))
end

local function main()
  if options.predict then return read_digits(options.predict) end
  check_writable(options.out .. ".safetensors")
  local train_set, test_set = split_digits(options.seed)
  local net = Net():to(options.device)
  print(net)
  report(net, test_set, train(net, train_set, test_set))
end

main()
