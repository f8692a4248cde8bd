-- scripts/gp_regression.lua: Gaussian-process regression of noisy points: amplitude, length scale
-- and noise by the marginal likelihood; the mean, its band, functions drawn from the posterior.
-- Expect, with seed 1, in a second: a log likelihood of 6.31, noise of 0.109 (0.1 in truth), the
-- truth within the band at all positions; with `--kernel matern` 3.35 and 0.110.

local ml = require "moonlet"
local nn, optim = ml.nn, ml.optim

local NOISE, GAP, DRAWN = 0.1, { -0.5, 1.5 }, 2

local options = ml.args.parser {
  name = "gp_regression.lua",
  summary = "Fits a Gaussian process to noisy points, with a gap between them.",
  { "points", "integer", default = 40, min = 2, max = 2000, help = "measured points" },
  { "kernel", "choice", choices = { "rbf", "matern" }, default = "rbf",
    help = "squared exponential, or Matern with nu = 5/2" },
  { "steps", "integer", default = 30, min = 1, help = "steps of L-BFGS" },
  { "seed", "integer", default = 1, help = "start of the random numbers" },
  { "figure", "string", meta = "<file>", help = "draw mean, band and samples: a .svg or .png" },
}:parse(arg)

local function truth(x) return (2 * x):sin() + 0.3 * x end

-- Points from -4 to 4, none in the gap.
local function measure(count)
  local left = math.max(1, math.floor(count * 7 / 12))
  local x = ml.cat { ml.rand(left) * (GAP[1] + 4) - 4,
    ml.rand(count - left) * (4 - GAP[2]) + GAP[2] }
  return x:double(), truth(x:double()) + NOISE * ml.randn(count, { dtype = ml.float64 })
end

-- What the correlation of two values is, a distance of r length scales apart.
local kernels = {}

function kernels.rbf(r) return (-0.5 * r ^ 2):exp() end

function kernels.matern(r)
  local s = math.sqrt(5) * r
  return (1 + s + s ^ 2 / 3) * (-s):exp()
end

local Process = nn.class("Process", nn.Module)

-- The parameters are logarithms, since what they stand for is positive.
function Process:init(kernel)
  self.kernel = kernels[kernel]
  self.log_amplitude = nn.Parameter(ml.tensor(0.0, { dtype = ml.float64 }))
  self.log_length = nn.Parameter(ml.tensor(0.0, { dtype = ml.float64 }))
  self.log_noise = nn.Parameter(ml.tensor(-1.0, { dtype = ml.float64 }))
end

function Process:covariance(a, b)
  local r = (a:unsqueeze(2) - b:unsqueeze(1)):abs() / self.log_length:exp()
  return (2 * self.log_amplitude):exp() * self.kernel(r)
end

-- The factor L, with L L^T the covariance of what was measured at x.
function Process:factor(x)
  local noise = (2 * self.log_noise):exp() * ml.eye(#x, { dtype = x.dtype })
  return ml.linalg.cholesky(self:covariance(x, x) + noise)
end

-- The logarithm of the chance of y, all functions counted.
function Process:log_likelihood(x, y)
  local L = self:factor(x)
  return ml.distributions.MultivariateNormal(ml.zeros_like(y), { scale_tril = L }):log_prob(y)
end

-- Mean and covariance of the function at `at`, when y was measured at x.
function Process:posterior(x, y, at)
  local L = self:factor(x)
  local between = self:covariance(x, at)
  local mean = between.mT:matmul(ml.cholesky_solve(y:unsqueeze(2), L)):squeeze(2)
  local known = ml.linalg.solve_triangular(L, between, { upper = false })
  return mean, self:covariance(at, at) - known.mT:matmul(known)
end

local function fit(process, x, y)
  local lbfgs = optim.LBFGS(process:parameters(), { line_search_fn = "strong_wolfe" })
  local bar <close> = ml.progress.new { total = options.steps, unit = "step" }
  for _ = 1, options.steps do
    local loss = lbfgs:step(function()
      lbfgs:zero_grad()
      local loss = -process:log_likelihood(x, y)
      loss:backward()
      return loss
    end)
    bar:update(1, { log_likelihood = -loss:item() })
  end
end

local function draw(x, y, at, mean, band, samples)
  local series = {
    { x = at, y = mean, label = "mean" },
    { x = at, y = mean - band, label = "95% below" }, { x = at, y = mean + band, label = "above" },
  }
  for i = 1, DRAWN do series[3 + i] = { x = at, y = samples[i], label = "sample " .. i } end
  series[#series + 1] = { x = x, y = y, label = "measured" }
  return ml.plot.scatter(series, { title = "Gaussian process", x_label = "x", y_label = "y" })
end

ml.manual_seed(options.seed)
local x, y = measure(options.points)
local process = Process(options.kernel)
print(("Log marginal likelihood at the start: %.2f"):format(process:log_likelihood(x, y):item()))
fit(process, x, y)
print(("Log marginal likelihood, fitted: %.2f"):format(process:log_likelihood(x, y):item()))
print(("Amplitude %.3f, length scale %.3f, noise %.3f (in truth %.3f)"):format(
  process.log_amplitude:exp():item(), process.log_length:exp():item(),
  process.log_noise:exp():item(), NOISE))

local _ <close> = ml.no_grad()
local at = ml.linspace(-5, 5, 201, { dtype = ml.float64 })
local mean, covariance = process:posterior(x, y, at)
local deviation = covariance:diagonal():clamp(0):sqrt()
-- A little on the diagonal, as rounding leaves the covariance of neighbours not quite positive.
local jitter = 1e-8 * ml.eye(#at, { dtype = at.dtype })
local samples = ml.distributions.MultivariateNormal(mean, covariance + jitter):sample { DRAWN }
local figure = draw(x, y, at, mean, 1.96 * deviation, samples)
figure:show()
if options.figure then figure:save(options.figure) end

-- Where there is data; outside, the band says that nothing is known.
local inside = at:abs():le(4)
local within = (mean - truth(at)):abs():le(1.96 * deviation):masked_select(inside)
print(("\nThe truth lies within the band at %.1f%% of the positions from -4 to 4"):format(
  100 * within:double():mean():item()))
local function widest(positions) return 1.96 * deviation[positions]:amax():item() end
print(("Widest band: %.3f in the gap, %.3f from -4 to the gap, %.3f beyond"):format(
  widest(at:gt(GAP[1]):logical_and(at:lt(GAP[2]))),
  widest(at:ge(-4):logical_and(at:le(GAP[1]))), widest(at:abs():gt(4))))
