-- tests/lua/optim/sparse_optim_test.lua: optimisers with sparse gradients against PyTorch's numbers, what
-- they refuse, and clipping.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local weights = require "sparse_weights"
local test, expect = harness.test, harness.expect
local nn, optim = ml.nn, ml.optim
local F = nn.functional

local weight, same = weights.weight, weights.same

local INDEX = ml.tensor { { 1, 3 }, { 3, 2 } }
local GRADIENTS = ml.arange(0, 11, { dtype = ml.float64 }):reshape(2, 2, 3)

-- Ten steps, and where PyTorch is after them: made by tests/reference/make_sparse_optim.py.
local STEPS = { { 1, 3, 3 }, { 2, 6, 1 }, { 5, 5, 5 }, { 3, 1, 4 }, { 2, 2, 6 }, { 1, 1, 3 },
  { 4, 5, 6 }, { 6, 3, 2 }, { 1, 2, 2 }, { 5, 1, 5 } }
local REFERENCE = {
  { "SGD", { lr = 0.1 },
    { { -0.235701804121, -0.11774798534, 0 }, { 0.130476412572, 0.264936130576, 0.408398087874 },
      { 0.588842255786, -0.288952171681, -0.14467012005 }, { 0, 0.202969735755, 0.408144605777 },
      { 0.38417718145, 0.52241750165, -0.244889370837 }, { -0.163371642252, 0, 0.165740373887 } } },
  { "SGD", { lr = 0.01, maximize = true },
    { { -0.53619132183, -0.268116516594, 0 }, { 0.265100885589, 0.529212033227, 0.791228621787 },
      { 1.04968981628, -0.526024409195, -0.262966762209 }, { 0, 0.254972251939, 0.509696148407 },
      { 0.794326552894, 1.0569079823, -0.532228509591 }, { -0.260262505834, 0, 0.259862128003 } } },
  { "SGD", { lr = 0.05, momentum = 0.9, dampening = 0.2 },
    { { -0.0260435326258, -0.0126601079244, 0 }, { 0.0691463234912, 0.141261583342, 0.220335510136 },
      { 0.0793805906732, -0.0325732551379, -0.0164407597618 },
      { 0, 0.168176865411, 0.341039635806 }, { 0.162097544358, 0.226230760037, -0.0985672406758 },
      { -0.100926657356, 0, 0.104759826549 } } },
  { "SGD", { lr = 0.05, momentum = 0.8, nesterov = true },
    { { -0.0739108672157, -0.0367613144875, 0 }, { 0.0624957362802, 0.128096610229, 0.200980731086 },
      { 0.243291752572, -0.115346070794, -0.0578619823754 }, { 0, 0.163123003877, 0.330696163052 },
      { 0.163390578347, 0.22686609332, -0.100372583907 }, { -0.0986332558155, 0, 0.102189407495 } } },
  { "Adagrad", { lr = 0.1 },
    { { -0.18279893737, -0.0132081883863, 0 }, { 0.0284657051392, 0.237096750001, 0.48224597261 },
      { 0.791391916991, -0.301993410378, -0.0803757360212 }, { 0, 0.0977578360514, 0.334925095805 },
      { 0.577533064558, 0.827131662584, -0.328567435724 }, { -0.0451227829404, 0, 0.0460237537769 } } },
  { "Adagrad",
    { lr = 0.1, lr_decay = 0.1, initial_accumulator_value = 0.5, eps = 1e-6, maximize = true },
    { { -0.734639590878, -0.421659148527, 0 }, { 0.372414084364, 0.663076261122, 0.927360631613 },
      { 1.17962746516, -0.667579948576, -0.378414299136 }, { 0, 0.296734282401, 0.575981513658 },
      { 0.877990405339, 1.12779052433, -0.62818803885 }, { -0.349524521877, 0, 0.346071541446 } } },
  { "SparseAdam", { lr = 0.1 },
    { { 0.029160618415, 0.118896090178, 0 }, { -0.0349778015422, 0.203288173723, 0.453941840866 },
      { 0.682379042471, -0.190696145175, 0.0329957488438 }, { 0, 0.124760017747, 0.373961049568 },
      { 0.561068119621, 0.810883509851, -0.311539044777 }, { 0.0379522770235, 0, -0.0370167350805 } } },
  { "SparseAdam", { lr = 0.05, betas = { 0.8, 0.95 }, eps = 1e-6, maximize = true },
    { { -0.79255140658, -0.542195745552, 0 }, { 0.417458399028, 0.666946221342, 0.915505451832 },
      { 1.1738042644, -0.676869906722, -0.42954966521 }, { 0, 0.32282823998, 0.572824752 },
      { 0.86070773418, 1.11004944206, -0.611972308528 }, { -0.42362697832, 0, 0.423515026578 } } },
}

local function backward_of(w, k, sparse)
  local y = F.embedding(ml.tensor(STEPS[k], { device = w.device }), w, { sparse = sparse })
  local c = ml.arange(0, 8, { dtype = w.dtype, device = w.device }):reshape(3, 3) * 0.1 - 0.3
    + 0.05 * (k - 1)
  local loss = (y - c):pow(2):sum() * 0.5 + (y * c):sin():sum()
  loss:backward()
  expect.equal({ w.grad.is_sparse, w.grad.device }, { sparse, w.device })
end

local function after_steps(name, given, options, sparse)
  local w = weight(options)
  local optimizer = optim[name]({ w }, given)
  for k = 1, #STEPS do
    optimizer:zero_grad(k % 2 == 0)
    backward_of(w, k, sparse ~= false)
    optimizer:step()
  end
  return w:detach()
end

test("ten steps of the optimisers against PyTorch", function()
  for _, case in ipairs(REFERENCE) do
    same(after_steps(case[1], case[2]), case[3], 1e-10, case[1])
    same(after_steps(case[1], case[2], { dtype = ml.float32 }), case[3], 1e-6, case[1])
  end
end)

test("dense gradients give SGD and Adagrad the same", function()
  for i = 1, 6 do
    local name, given, want = table.unpack(REFERENCE[i])
    same(after_steps(name, given, nil, false), want, 1e-10, name)
  end
end)

test("the state of an optimiser is saved in the middle", function()
  for _, case in ipairs { REFERENCE[5], REFERENCE[7] } do
    local w = weight()
    local optimizer = optim[case[1]]({ w }, case[2])
    for k = 1, #STEPS do
      if k == 6 then
        local path = os.tmpname()
        ml.save(path, optimizer:state_dict())
        optimizer = optim[case[1]]({ w }, { lr = 7 })
        optimizer:load_state_dict(ml.load(path))
        os.remove(path)
      end
      optimizer:zero_grad()
      backward_of(w, k, true)
      optimizer:step()
    end
    same(w:detach(), case[3], 1e-10, case[1])
  end
end)

test("optimisers say what they do not take", function()
  local w = weight()
  local function filled()
    w.grad = nil
    ml.embedding(w, INDEX, { sparse = true }):sum():backward()
    return { w }
  end
  local before = w:detach():clone()
  for _, name in ipairs { "Adam", "AdamW" } do
    expect.error(function() optim[name](filled()):step() end,
      name .. " does not support sparse gradients, please consider SparseAdam instead")
  end
  local Own = ml.class("Own", optim.Optimizer)
  Own.defaults = { lr = 1 }
  function Own:update() error "not reached" end
  expect.error(function() Own(filled()):step() end, "Own does not support sparse gradients")
  for _, name in ipairs { "SGD", "Adagrad" } do
    expect.error(function() optim[name](filled(), { lr = 0.1, weight_decay = 0.1 }):step() end,
      name .. ": 'weight_decay' is not for sparse gradients")
  end
  same(w:detach(), before:tolist(), 0)
  w.grad = ml.ones_like(w)
  expect.error(function() optim.SparseAdam({ w }):step() end,
    "SparseAdam does not support dense gradients, please consider Adam instead")
  expect.error(function() optim.SparseAdam({ w }, { lr = 0 }) end, "'lr'")
  expect.error(function() optim.SparseAdam({ w }, { eps = 0 }) end, "'eps'")
  expect.error(function() optim.SparseAdam({ w }, { betas = { 0.9, 1 } }) end, "'betas'")
  expect.error(function() optim.SparseAdam({ w }, { weight_decay = 1 }) end, "weight_decay")
  expect.error(function()
    optim.SparseAdam { ml.zeros(2, 2, { dtype = ml.complex64, requires_grad = true }) }
  end, "complex")
  expect.error(function() optim.Adagrad({ w }, { lr = -1 }) end, "'lr'")
end)

test("clipping", function()
  local w, v = weight(), weight()
  local function fill()
    w.grad, v.grad = nil, nil
    ml.embedding(w, INDEX, { sparse = true }):mul(GRADIENTS):sum():backward()
    ml.embedding(v, INDEX):mul(GRADIENTS):sum():backward()
  end
  for _, kind in ipairs { 2, 1, math.huge } do
    fill()
    local got = nn.utils.clip_grad_norm_({ w }, 3, kind)
    local want = nn.utils.clip_grad_norm_({ v }, 3, kind)
    same(got, want:item(), 1e-12)
    expect.truthy(w.grad.is_sparse)
    same(w.grad:to_dense(), v.grad:tolist(), 1e-12)
  end
  fill()
  nn.utils.clip_grad_value_({ w }, 8)
  nn.utils.clip_grad_value_({ v }, 8)
  expect.truthy(w.grad.is_sparse)
  same(w.grad:to_dense(), v.grad:tolist(), 0)
  fill()
  nn.utils.clip_grad_norm_({ w, v }, 1)
  same(w.grad:to_dense(), v.grad:tolist(), 1e-12)
end)

test("on a CUDA device", function()
  if not ml.cuda.is_available() then harness.skip "no CUDA device" end
  for _, case in ipairs(REFERENCE) do
    same(after_steps(case[1], case[2], { device = "cuda" }), case[3], 1e-10, case[1])
  end
  local w = weight { device = "cuda" }
  backward_of(w, 1, true)
  expect.equal(w.grad:to("cpu").device, "cpu")
end)

harness.run()
