-- scripts/extension_lltm/lltm.lua: a recurrent cell of one's own (an LSTM without a forget gate,
-- with an ELU; the LLTM of PyTorch's tutorial on extensions), written twice: by ops, and with its
-- gates and their derivative in C++ (lltm.cpp) and CUDA (lltm.cu) as one loop each. Trains the
-- second to tell which of two kinds of noise a sequence ends with, and prints how long both take.
-- Expect, with one thread of a Xeon: forward 19 us in C++ and 23 in Lua, backward 27 and 32; with
-- `--batch 1 --state 32` 3 and 5, 4 and 7, as there the ops cost more than what they compute; and
-- 95 % right or more.

local ml = require "moonlet"
local nn = ml.nn

local options = ml.args.parser {
  name = "lltm.lua",
  summary = "Trains a recurrent cell written in C++, and times it beside the same in Lua.",
  { "batch", "integer", default = 16, min = 1, help = "sequences in a step" },
  { "features", "integer", default = 32, min = 1, help = "inputs of the cell" },
  { "state", "integer", default = 128, min = 1, help = "size of its state" },
  { "steps", "integer", default = 150, min = 1, help = "steps of training" },
  { "rounds", "integer", default = 300, min = 1, help = "calls that are timed" },
  { "device", "string", default = "cpu", help = "cpu or cuda" },
  { "seed", "integer", default = 1, help = "start of the random numbers" },
}:parse(arg)

local LENGTH, CLASSES = 8, 2

-- --- the cell ----------------------------------------------------------------------------------

-- By ops: what lltm.cpp does as loops.
local function step_by_ops(x, weight, bias, h, cell)
  local gates = nn.functional.linear(ml.cat({ h, x }, 2), weight, bias)
  local input, output, candidate = table.unpack(gates:chunk(3, 2))
  cell = cell + nn.functional.elu(candidate) * input:sigmoid()
  return cell:tanh() * output:sigmoid(), cell
end

local here = arg[0]:match "^(.*)/" or "."

-- The extension, with CUDA where that is wanted.
local function load_extension()
  local on_cuda = options.device ~= "cpu"
  local sources = { here .. "/lltm.cpp" }
  -- The loops need no infinities, so the compiler may use vectors of exp, as wide as they are here.
  local flags = { "-ffast-math", "-fopenmp-simd", "-march=native" }
  if on_cuda then
    sources[2] = here .. "/lltm.cu"
    flags[#flags + 1] = "-DLLTM_CUDA"
  end
  return ml.ext.load { name = "lltm", sources = sources, flags = flags }
end

local lltm = load_extension()

local LLTM = nn.class("LLTM", nn.Module)

function LLTM:init(features, state, step)
  local bound = 1 / math.sqrt(state)
  self.weight = nn.Parameter((ml.rand(3 * state, state + features) * 2 - 1) * bound)
  self.bias = nn.Parameter((ml.rand(3 * state) * 2 - 1) * bound)
  self.state, self.step = state, step
end

function LLTM:forward(x, h, cell) return self.step(x, self.weight, self.bias, h, cell) end

-- --- speed -------------------------------------------------------------------------------------

local function new_cell(step)
  ml.manual_seed(options.seed)
  return LLTM(options.features, options.state, step):to(options.device)
end

-- Whether both compute the same, gradients included.
local function compare(a, b)
  local x = ml.randn(options.batch, options.features):to(options.device)
  local h = ml.randn(options.batch, options.state):to(options.device)
  local cell = ml.randn(options.batch, options.state):to(options.device)
  local worst = 0
  local function differ(p, q) worst = math.max(worst, (p - q):abs():max():item()) end
  local results = {}
  for i, each in ipairs { a, b } do
    local new_h, new_c = each(x, h, cell)
    local loss = (new_h * new_h):sum() + new_c:sum()
    loss:backward()
    results[i] = { new_h, new_c, each.weight.grad, each.bias.grad }
    each:zero_grad()
  end
  for i = 1, #results[1] do differ(results[1][i], results[2][i]) end
  return worst
end

-- Microseconds of a forward and of a backward pass: the least of some rounds.
local function time(cell)
  local clock = require("moonlet.terminal").clock
  local x = ml.randn(options.batch, options.features):to(options.device)
  local h = ml.randn(options.batch, options.state):to(options.device):requires_grad_()
  local c = ml.randn(options.batch, options.state):to(options.device):requires_grad_()
  local function wait() if options.device ~= "cpu" then ml.cuda.synchronize() end end
  local forward, backward = math.huge, math.huge
  for _ = 1, options.rounds do
    local began = clock()
    local new_h, new_c = cell(x, h, c)
    wait()
    local middle = clock()
    local loss = new_h:sum() + new_c:sum()
    wait()
    local behind = clock()
    loss:backward()
    wait()
    forward = math.min(forward, middle - began)
    backward = math.min(backward, clock() - behind)
    cell:zero_grad()
  end
  return forward * 1e6, backward * 1e6
end

local by_ops, by_loops = new_cell(step_by_ops), new_cell(lltm.step)
print(("the two differ by %.1e at most"):format(compare(by_ops, by_loops)))
local forward, backward = time(by_ops)
print(("in Lua  forward %6.0f us, backward %6.0f us"):format(forward, backward))
forward, backward = time(by_loops)
print(("in C++  forward %6.0f us, backward %6.0f us"):format(forward, backward))

-- --- training ----------------------------------------------------------------------------------

-- Sequences whose last two steps are drawn about 0.3 or -0.3.
local function draw()
  local classes = ml.randint(CLASSES, { options.batch })
  local x = ml.randn(LENGTH, options.batch, options.features)
  local shift = (classes:to(ml.float32) * 2 - 3):unsqueeze(2) * 0.3
  x[{ { LENGTH - 1, LENGTH } }]:add_(shift)
  return x:to(options.device), classes:to(options.device)
end

local head = nn.Linear(options.state, CLASSES):to(options.device)
local parameters = by_loops:parameters()
for _, p in ipairs(head:parameters()) do parameters[#parameters + 1] = p end
local optimizer = ml.optim.Adam(parameters, { lr = 3e-3 })
local right, seen = 0, 0
for step = 1, options.steps do
  local x, classes = draw()
  local h = ml.zeros(options.batch, options.state, { device = options.device })
  local cell = h
  for t = 1, LENGTH do h, cell = by_loops(x[t], h, cell) end
  local logits = head(h)
  local loss = nn.functional.cross_entropy(logits, classes)
  optimizer:zero_grad()
  loss:backward()
  optimizer:step()
  if step > options.steps - 20 then
    right = right + logits:argmax(2):eq(classes):sum():item()
    seen = seen + options.batch
  end
end
print(("right at the end: %.0f %%"):format(100 * right / seen))
