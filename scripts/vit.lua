-- scripts/vit.lua: a small vision transformer (Dosovitskiy et al. 2021) learns to read handwritten
-- digits: it cuts an image into squares and reads these as a sentence is read.
-- It reads 98.3% of the test images right (seed 1; 25 seconds on one core).

local ml = require "moonlet"
local data, nn, optim = ml.data, ml.nn, ml.optim

local here = arg[0]:match("^(.*)/") or "."
local SIDE, CLASSES = 8, 10
local PATCH = 2  -- side of the squares
local TEST_IMAGES = 360
local MOVED = 1  -- pixels by which training images are moved at most

local options = ml.args.parser {
  name = "vit.lua",
  summary = "Trains a small vision transformer on 1,797 images of handwritten digits.",
  { "epochs", "integer", default = 40, min = 1, help = "passes over the training images" },
  { "dim", "integer", default = 64, min = 4, help = "numbers for a square, a multiple of 4" },
  { "layers", "integer", default = 3, min = 1, help = "layers of the encoder" },
  { "lr", "number", default = 0.002, min = 0, help = "the highest learning rate" },
  { "batch-size", "integer", default = 64, min = 1, help = "images per step" },
  { "seed", "integer", default = 1, help = "start of the random numbers" },
  { "figure", "string", meta = "<file>", help = "draw a confusion matrix: a .svg or .png" },
}:parse(arg)

-- Images (1, 8, 8) from -1 to 3, with their classes; those to train with move by up to a pixel.
local function load_sets()
  local move = data.transforms.RandomCrop(SIDE, { padding = MOVED, fill = -1 })
  local rows = data.read_csv(here .. "/data/digits.csv")
  local images = rows:narrow(2, 1, SIDE * SIDE):view(-1, 1, SIDE, SIDE) / 4 - 1
  local set = data.TensorDataset(images, rows:select(2, SIDE * SIDE + 1):long() + 1)
  local train, test = table.unpack(data.random_split(set, { #set - TEST_IMAGES, TEST_IMAGES }))
  local function moved(examples)
    for _, example in ipairs(examples) do example[1] = move(example[1]) end
    return data.default_collate(examples)
  end
  return data.DataLoader(train, { batch_size = options.batch_size, shuffle = true,
    collate_fn = moved }), data.DataLoader(test, { batch_size = TEST_IMAGES })
end

local Transformer = nn.class("Transformer", nn.Module)

function Transformer:init(o)
  local squares = (SIDE // PATCH) * (SIDE // PATCH)
  self.embed = nn.Conv2d(1, o.dim, PATCH, { stride = PATCH })
  self.summary_token = nn.Parameter(ml.zeros(1, 1, o.dim))
  self.positions = nn.Parameter(ml.randn(1, squares + 1, o.dim) * 0.5)
  self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(o.dim, 4, 2 * o.dim,
    { dropout = 0, activation = "gelu", batch_first = true, norm_first = true }), o.layers,
    { norm = nn.LayerNorm(o.dim), enable_nested_tensor = false })
  self.head = nn.Linear(o.dim, CLASSES)
end

-- The squares, with one more in front that belongs to no part of the image: what the layers gather
-- there says the digit.
function Transformer:forward(images)
  local squares = self.embed(images):flatten(3):transpose(2, 3)
  local front = self.summary_token:expand(#images, -1, -1)
  return self.head(self.encoder(ml.cat({ front, squares }, 2) + self.positions):select(2, 1))
end

ml.manual_seed(options.seed)
local train, test = load_sets()
local net = Transformer(options)
local adam = optim.AdamW(net:parameters(), { lr = options.lr, weight_decay = 0.05 })
local confusion = ml.metrics.ConfusionMatrix { num_classes = CLASSES }
local history = ml.train.fit {
  model = net, data = train, valid = test, epochs = options.epochs, optimizer = adam,
  loss = nn.CrossEntropyLoss { label_smoothing = 0.1 },
  scheduler = optim.lr_scheduler.OneCycleLR(adam, options.lr,
    { total_steps = options.epochs * #train }),
  scheduler_pace = "step", clip_grad_norm = 1,
  metrics = { accuracy = ml.metrics.Accuracy(), confusion = confusion },
}
local last, losses = history[#history], {}
for i, row in ipairs(history) do losses[i] = row.loss end
ml.plot.line(losses, { title = "Loss", x_label = "epoch" }):show { height = 10 }
local labels = {}
for class = 1, CLASSES do labels[class] = class - 1 end
local figure = ml.plot.confusion(last.valid_confusion, { title = "Test images", labels = labels })
figure:show()
if options.figure then figure:save(options.figure) end
print(("Test accuracy: %.2f%%"):format(100 * last.valid_accuracy))
