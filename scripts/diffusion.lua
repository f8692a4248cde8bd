-- scripts/diffusion.lua: denoising diffusion (Ho et al. 2020) of handwritten digits: a network
-- learns to find the noise in images, and makes any digit that is asked for of nothing but noise.
-- Of 400 that it draws, 99.5% are what was asked for (seed 1; 25 seconds on one core).

local ml = require "moonlet"
local data, nn, optim, F = ml.data, ml.nn, ml.optim, ml.nn.functional

local here = arg[0]:match("^(.*)/") or "."
local PIXELS, CLASSES = 64, 10
local DRAWN = 40  -- images of each digit, for the figure at the end
local TIME = 64   -- numbers that tell the network how much noise there is

local options = ml.args.parser {
  name = "diffusion.lua",
  summary = "Learns to make images of the digits from noise.",
  { "epochs", "integer", default = 200, min = 1, help = "passes over the images" },
  { "steps", "integer", default = 100, min = 2, help = "steps from an image to noise" },
  { "hidden", "integer", default = 256, min = 1, help = "width of the network" },
  { "lr", "number", default = 0.002, min = 0, help = "learning rate at the start" },
  { "batch-size", "integer", default = 128, min = 1, max = 1797, help = "images per step" },
  { "seed", "integer", default = 1, help = "start of the random numbers" },
  { "figure", "string", meta = "<file>", help = "draw the new digits: a .svg or .png" },
}:parse(arg)

-- How much of the image is left after each step, by a cosine (Nichol and Dhariwal 2021), and the
-- variance of the noise that the step adds.
local function make_schedule(steps)
  local at = ml.arange(0, steps) / steps
  local kept = ((at + 0.008) / 1.008 * math.pi / 2):cos() ^ 2
  local betas = (1 - kept:narrow(1, 2, steps) / kept:narrow(1, 1, steps)):clamp(0, 0.999)
  return { betas = betas, kept = (1 - betas):cumprod(1) }
end

-- Waves of several lengths over the steps, from which a step is told apart (Vaswani et al. 2017).
local function waves(steps)
  local lengths = (ml.arange(0, TIME / 2 - 1) * (-math.log(10000) / (TIME / 2))):exp()
  local angles = ml.arange(1, steps):float():unsqueeze(2) * lengths
  return ml.cat({ angles:sin(), angles:cos() }, 2)
end

-- The noise in images (n, 64) after the steps given, with the digits given as classes.
local Denoiser = nn.class("Denoiser", nn.Module)

function Denoiser:init(steps, hidden)
  self:register_buffer("waves", waves(steps))
  self.time = nn.Sequential(nn.Linear(TIME, hidden), nn.SiLU())
  self.digit = nn.Embedding(CLASSES, hidden)
  self.first = nn.Linear(PIXELS, hidden)
  self.blocks = nn.ModuleList()
  for i = 1, 3 do
    self.blocks[i] = nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.SiLU(),
      nn.Linear(hidden, hidden))
  end
  self.last = nn.Linear(hidden, PIXELS)
end

function Denoiser:forward(images, steps, digits)
  local about = self.time(self.waves[steps]) + self.digit(digits)
  local x = self.first(images)
  for _, block in ipairs(self.blocks) do x = x + block(x + about) end
  return self.last(x)
end

-- The error of the network about the noise of images that went a random number of steps each.
local function loss_of(net, schedule, images, digits)
  local steps = ml.randint(options.steps, { #images })
  local kept = schedule.kept[steps]:unsqueeze(2)
  local noise = ml.randn_like(images)
  return F.mse_loss(net(kept:sqrt() * images + (1 - kept):sqrt() * noise, steps, digits), noise)
end

local function train(net, schedule, loader)
  local adam = optim.Adam(net:parameters(), { lr = options.lr })
  local pace = optim.lr_scheduler.CosineAnnealingLR(adam, options.epochs)
  local average = optim.swa_utils.AveragedModel(net,
    { avg_fn = optim.swa_utils.get_ema_avg_fn(0.995) })
  local bar <close> = ml.progress.new { total = options.epochs, unit = "epoch" }
  local losses = {}
  for epoch = 1, options.epochs do
    local total = ml.metrics.Mean()
    for images, digits in loader do
      adam:zero_grad()
      local loss = loss_of(net, schedule, images, digits)
      loss:backward()
      adam:step()
      average:update_parameters(net)
      total:update(loss:detach(), #images)
    end
    pace:step()
    losses[epoch] = total:compute()
    bar:update(1, { loss = losses[epoch] })
  end
  return average.module, losses
end

-- Images of the digits: noise, of which step by step a part is taken away.
local function draw(net, schedule, digits)
  local _ <close> = ml.no_grad()
  local x = ml.randn(#digits, PIXELS)
  for step = options.steps, 1, -1 do
    local beta, kept = schedule.betas[step], schedule.kept[step]
    local noise = net(x, ml.full({ #digits }, step), digits)
    -- The image that this noise leaves, in the range that images have, then the mean one step back.
    local image = ((x - (1 - kept):sqrt() * noise) / kept:sqrt()):clamp(-1, 1)
    if step == 1 then return image end
    local before = schedule.kept[step - 1]
    x = (before:sqrt() * beta * image + (1 - beta):sqrt() * (1 - before) * x) / (1 - kept)
      + (beta * (1 - before) / (1 - kept)):sqrt() * ml.randn_like(x)
  end
end

ml.manual_seed(options.seed)
local rows = data.read_csv(here .. "/data/digits.csv")
local images, classes = rows:narrow(2, 1, PIXELS) / 8 - 1, rows:select(2, PIXELS + 1):long() + 1
local loader = data.DataLoader(data.TensorDataset(images, classes),
  { batch_size = options.batch_size, shuffle = true, drop_last = true })
local schedule = make_schedule(options.steps)
local net, losses = train(Denoiser(options.steps, options.hidden), schedule, loader)
ml.plot.line(losses, { title = "Error of the noise", x_label = "epoch", y_min = 0 })
  :show { height = 10 }

-- Whether a drawn image is the digit asked for is what the real image most like it says.
local asked = ml.arange(1, CLASSES):repeat_interleave(DRAWN)
local drawn = draw(net, schedule, asked)
local likest = classes[ml.cdist(drawn, images):argmin(2)]
local figure = ml.plot.images(drawn:view(-1, 8, 8)[{ { 1, -1, DRAWN // 2 } }],
  { title = "New digits, two of each", min = -1, max = 1 })
figure:show()
if options.figure then figure:save(options.figure) end
print(("Error of the noise: %.4f\nDigits that are what was asked for: %.1f%%"):format(
  losses[#losses], 100 * likest:eq(asked):float():mean():item()))
