-- scripts/vae.lua: a variational autoencoder (Kingma and Welling 2014) of handwritten digits: each
-- image becomes a few numbers, normal ones over all images, and normal numbers become new digits.
-- Its bound of -log p(image) falls to 91.9 nats for a test image (seed 1; 8 seconds on one core).

local ml = require "moonlet"
local data, nn, optim, D = ml.data, ml.nn, ml.optim, ml.distributions

local here = arg[0]:match("^(.*)/") or "."
local PIXELS, COUNTS = 64, 16  -- a pixel counts the dots of a square of 4 x 4: 0 to 16
local TEST_IMAGES = 360
local DRAWN = 10

local options = ml.args.parser {
  name = "vae.lua",
  summary = "Learns what handwritten digits look like, and draws new ones.",
  { "epochs", "integer", default = 150, min = 1, help = "passes over the training images" },
  { "code", "integer", default = 10, min = 1, help = "numbers that stand for an image" },
  { "hidden", "integer", default = 256, min = 1, help = "width of the hidden layers" },
  { "lr", "number", default = 0.002, min = 0, help = "learning rate at the start" },
  { "batch-size", "integer", default = 64, min = 1, help = "images per step" },
  { "seed", "integer", default = 1, help = "start of the random numbers" },
  { "figure", "string", meta = "<file>", help = "draw the new digits: a .svg or .png" },
}:parse(arg)

-- The images, (n, 64) counts, in two parts: to train with and to test with.
local function load_sets()
  local rows = data.read_csv(here .. "/data/digits.csv")
  local set = data.TensorDataset(rows:narrow(2, 1, PIXELS), rows:select(2, PIXELS + 1))
  return table.unpack(data.random_split(set, { #set - TEST_IMAGES, TEST_IMAGES }))
end

local Autoencoder = nn.class("Autoencoder", nn.Module)

function Autoencoder:init(code, hidden)
  self.encoder = nn.Sequential(nn.Linear(PIXELS, hidden), nn.SiLU(),
    nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 2 * code))
  self.decoder = nn.Sequential(nn.Linear(code, hidden), nn.SiLU(),
    nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, PIXELS))
  self:register_buffer("zeros", ml.zeros(code))
end

-- The distribution of codes over all images: what new ones are drawn from.
function Autoencoder:prior() return D.Independent(D.Normal(self.zeros, 1), 1) end

-- The distribution of the codes of each image.
function Autoencoder:encode(images)
  local loc, log_scale = table.unpack(self.encoder(images / COUNTS):chunk(2, -1))
  return D.Independent(D.Normal(loc, log_scale:exp()), 1)
end

-- The distribution of the images of each code.
function Autoencoder:decode(codes)
  return D.Independent(D.Binomial(COUNTS, { logits = self.decoder(codes) }), 1)
end

-- A bound of -log p(image) from above for each image: what its code costs, and what is then left.
function Autoencoder:forward(images)
  local codes = self:encode(images)
  local seen = self:decode(codes:rsample())
  return D.kl_divergence(codes, self:prior()) - seen:log_prob(images)
end

ml.manual_seed(options.seed)
local train_set, test_set = load_sets()
local net = Autoencoder(options.code, options.hidden)
local adam = optim.Adam(net:parameters(), { lr = options.lr })
local history = ml.train.fit {
  model = net,
  data = data.DataLoader(train_set, { batch_size = options.batch_size, shuffle = true }),
  valid = data.DataLoader(test_set, { batch_size = #test_set }),
  loss = function(bounds) return bounds:mean() end,  -- the second field, the digit, is not used
  optimizer = adam, epochs = options.epochs,
  scheduler = optim.lr_scheduler.CosineAnnealingLR(adam, options.epochs),
}

local losses, test_losses = {}, {}
for i, row in ipairs(history) do losses[i], test_losses[i] = row.loss, row.valid_loss end
ml.plot.line({ train = losses, test = test_losses }, { title = "Bound of -log p(image)",
  x_label = "epoch", y_label = "nats" }):show { height = 10 }

ml.no_grad(function()
  local images = net:decode(net:prior():sample { 2 * DRAWN }).mean
  local figure = ml.plot.images(images:view(-1, 8, 8),
    { title = "New digits", min = 0, max = COUNTS })
  figure:show()
  if options.figure then figure:save(options.figure) end
end)
print(("Nats for a test image: %.2f after the first epoch, %.2f after the last"):format(
  test_losses[1], test_losses[#test_losses]))
