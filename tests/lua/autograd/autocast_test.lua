-- tests/lua/autograd/autocast_test.lua: autocast: which ops it casts and to what, gradients, regions in regions
-- and the ops that ops are made of.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect

local function expect_no_modes()
  expect.falsy(ml.is_autocast_enabled())
  expect.equal(ml.mm(ml.ones(2, 2), ml.ones(2, 2)).dtype, "float32")
end

test("products run in the lower precision, losses in float32", function()
  local x, w = ml.ones(2, 3), ml.ones(3, 2)
  local half = ml.ones { 2, 3, dtype = "bfloat16" }
  ml.autocast({ dtype = "bfloat16" }, function()
    expect.truthy(ml.is_autocast_enabled())
    expect.truthy(ml.is_autocast_enabled "cpu")
    expect.falsy(ml.is_autocast_enabled "cuda")
    expect.equal(ml.mm(x, w).dtype, "bfloat16")
    expect.equal(x:matmul(w).dtype, "bfloat16")
    -- As in PyTorch's list for the CPU; on CUDA these are float32.
    for _, f in ipairs { "exp", "sum", "norm", "rsqrt" } do expect.equal(half[f](half).dtype, "bfloat16") end
    expect.equal(half:softmax(1).dtype, "bfloat16")
    expect.equal(half:prod().dtype, "float32")
    expect.equal(ml.nn.functional.mse_loss(half, half).dtype, "float32")
    expect.equal(x:exp().dtype, "float32")
    expect.equal(x:mv(ml.ones(3)).dtype, "float32")
    expect.equal((x + x).dtype, "float32")
    expect.equal(half:relu().dtype, "bfloat16")
  end)
  expect_no_modes()
end)

test("what joins tensors takes the widest of their dtypes", function()
  local x, half = ml.ones(2), ml.ones { 2, dtype = "bfloat16" }
  local _ <close> = ml.autocast { dtype = "bfloat16" }
  expect.equal(ml.cat({ x, half }, 1).dtype, "float32")
  expect.equal(ml.cat({ half, half }, 1).dtype, "bfloat16")
  expect.equal(ml.stack({ half, x }).dtype, "float32")
  expect.equal(ml.atan2(half, x).dtype, "float32")
end)

test("float64, integers, in-place and out= forms are left alone", function()
  local d, x = ml.ones { 2, 2, dtype = "float64" }, ml.ones(2, 2)
  local half = ml.ones { 2, 2, dtype = "bfloat16" }
  local _ <close> = ml.autocast()
  expect.equal(ml.mm(d, d).dtype, "float64")
  expect.equal(ml.arange(3):sum().dtype, "int64")
  expect.equal(half:exp_().dtype, "bfloat16")
  local out = ml.empty(2, 2)
  expect.truthy(ml.mm(x, x, { out = out }) == out)
  expect.equal(out.dtype, "float32")
end)

test("gradients come back in the dtype of the leaf and are those of the casts", function()
  local x = ml.tensor({ { 1, 2 }, { 3, 4 } }, { dtype = "float32", requires_grad = true })
  local w = ml.tensor({ { 1.001, 0 }, { 0, 1 } }, { requires_grad = true })
  local y
  do
    local _ <close> = ml.autocast { dtype = "bfloat16" }
    y = ml.mm(x, w)
  end
  expect.equal(y.dtype, "bfloat16")
  y:sum():backward()
  expect.equal(x.grad.dtype, "float32")
  expect.equal(w.grad.dtype, "float32")
  -- 1.001 is 1 in bfloat16.
  expect.equal(x.grad[{ 1, 1 }]:item(), 1.0)
  expect.equal(w.grad[{ 2, 1 }]:item(), 6.0)
end)

test("ops inside one with a policy are not cast", function()
  local seen = {}
  local function handler(op, arguments, call)
    seen[#seen + 1] = op.name
    return call(arguments)
  end
  local _ <close> = ml.autocast()
  ml.override(handler, function()
    expect.equal(ml.matmul(ml.ones(2, 3), ml.ones(3, 2)).dtype, "bfloat16")
  end)
  -- The casts are the business of autocast, which lies below the handler.
  expect.truthy(table.concat(seen, " "):find("matmul mm", 1, true), table.concat(seen, " "))
  expect.falsy(table.concat(seen, " "):find("to ", 1, true), table.concat(seen, " "))
end)

test("each device has its list of policies", function()
  local exp, mm = ml.ops.info("exp").autocast, ml.ops.info("mm").autocast
  expect.equal(exp.cpu, nil)
  expect.equal(exp.cuda, "float32")
  expect.equal(mm.cpu, "lower_precision")
  expect.equal(mm.cuda, "lower_precision")
  expect.equal(ml.ops.info("relu").autocast, nil)
end)

test("ops on the CPU have the dtypes that PyTorch gives them", function()
  local half, single = ml.bfloat16, ml.float32
  local cases = {
    { half, half, function(r) return ml.prelu(r(2, 3), r(1)) end },
    { half, half, function(r) return ml.addbmm(r(3, 3), r(2, 3, 3), r(2, 3, 3)) end },
    { half, half, function(r) return ml.linalg.vecdot(r(2, 3), r(2, 3)) end },
    { half, single, function(r) return ml.bilinear(r(2, 3), r(2, 3), r(4, 3, 3)) end },
    { half, single, function(r) return ml.nn.functional.gaussian_nll_loss(r(3), r(3), r(3)) end },
    { half, single, function(r) return ml.index_copy(r(3), 1, ml.tensor { 1 }, r(1)) end },
    { ml.complex64, ml.complex64, function(r) return ml.polar(r(3), r(3)) end },
    { ml.complex64, ml.complex64, function(r) return ml.view_as_complex(r(3, 2)) end },
    { ml.complex64, ml.complex64, function(r) return ml.fft.rfft(r(4)) end },
    { single, single, function(r) return ml.quantile(r(3), 0.5) end },
    { single, single, function(r) return ml.trace(r(3, 3)) end },
    { single, single, function(r) return ml.avg_pool3d(r(1, 1, 4, 4, 4), 2) end },
    { single, single, function(r) return ml.max_pool3d(r(1, 1, 4, 4, 4), 2) end },
    { single, single, function(r) return ml.cdist(r(3, 2), r(3, 2)) end },
    { single, single, function(r) return ml.grid_sample(r(1, 1, 3, 2), r(1, 3, 3, 2)) end },
    { single, single, function(r) return ml.inverse(r(3, 3)) end },
    { single, single, function(r) return (ml.linalg.svd(r(3, 3))) end },
    { single, single,
      function(r) return ml.linear_cross_entropy(r(2, 3), r(4, 3), ml.tensor { 1, 2 }) end },
  }
  for i, case in ipairs(cases) do
    for j, given in ipairs { half, single } do
      local got = ml.autocast({ dtype = half }, case[3], function(...)
        return ml.rand({ ... }):to(given)
      end)
      expect.equal(got.dtype, case[j], ("case %d of %s"):format(i, given))
    end
  end
  local on_cuda = { tensordot = "promote", einsum = "lower_precision", dist = "float32",
    prelu = "lower_precision", grid_sample = "promote", lstm_cell = "lower_precision" }
  for name, policy in pairs(on_cuda) do
    expect.equal(ml.ops.info(name).autocast.cuda, policy, name)
  end
end)

test("a region casts a parameter once, until the parameter changes", function()
  local w, x, casts = ml.ones { 2, 2, requires_grad = true }, ml.ones { 2, 2, dtype = "bfloat16" }, 0
  local function handler(op, arguments, call)
    if op.name == "to" then casts = casts + 1 end
    return call(arguments)
  end
  ml.override(handler, function()
    local _ <close> = ml.autocast { dtype = "bfloat16" }
    local y = x:mm(w) + x:mm(w)
    expect.equal(casts, 1)
    y:sum():backward()
    expect.equal(w.grad:sum():item(), 16)
    ml.no_grad(function() w:mul_(2) end)
    casts = 0  -- those of backward do not count
    expect.equal(x:mm(w)[{ 1, 1 }]:item(), 4)
    expect.equal(casts, 1)
    ml.no_grad(function() expect.falsy(x:mm(w).requires_grad) end)
    expect.equal(x:mm(w).requires_grad, true)
  end)
end)

test("regions nest, and a disabled one inside is plain", function()
  local x = ml.ones(2, 2)
  ml.autocast({ dtype = "bfloat16" }, function()
    ml.autocast({ dtype = "float16" }, function() expect.equal(ml.mm(x, x).dtype, "float16") end)
    ml.autocast("cpu", ml.float16, function(a) expect.equal(ml.mm(a, a).dtype, "float16") end, x)
    ml.autocast("cpu", { dtype = ml.float16 }, function() expect.equal(ml.mm(x, x).dtype, "float16") end)
    ml.autocast({ enabled = false }, function()
      expect.falsy(ml.is_autocast_enabled())
      expect.equal(ml.mm(x, x).dtype, "float32")
      ml.autocast({}, function() expect.equal(ml.mm(x, x).dtype, "bfloat16") end)
    end)
    -- For another type of device it changes nothing here.
    ml.autocast({ device = "cuda", enabled = false }, function()
      expect.equal(ml.mm(x, x).dtype, "bfloat16")
    end)
    expect.equal(ml.mm(x, x).dtype, "bfloat16")
  end)
  expect_no_modes()
end)

test("autocast trains a network as it would be trained by hand", function()
  ml.manual_seed(1)
  local nn = ml.nn
  local net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
  local x, target = ml.randn(6, 4), ml.tensor { 1, 2, 3, 1, 2, 3 }
  local loss
  do
    local _ <close> = ml.autocast()
    local scores = net(x)
    expect.equal(scores.dtype, "bfloat16")
    loss = nn.functional.cross_entropy(scores, target)
    expect.equal(loss.dtype, "float32")
  end
  loss:backward()
  for _, p in ipairs(net:parameters()) do expect.equal(p.grad.dtype, "float32") end
end)

test("wrong options of autocast are errors that say what is expected", function()
  expect.error(function() ml.autocast("cpu", "bfloat16", true, 1, print) end, "autocast: takes at most 3 arguments")
  expect.error(function() ml.autocast("cpu", "bfloat16", 1, print) end, "'enabled' must be true or false")
  expect.error(function() ml.autocast { dtyp = "float16" } end, "did you mean 'dtype'")
  expect.error(function() ml.autocast { dtype = "float32" } end, "must be bfloat16 or float16, got float32")
  expect.error(function() ml.autocast { device = "tpu" } end, '"cpu" or "cuda", got "tpu"')
  expect.error(function() ml.autocast { enabled = 1 } end, "'enabled' must be true or false")
  expect.error(function() ml.autocast(function() end) end, "got function")
  expect.error(function() ml.autocast({}, 3) end, "a function is expected")
  expect_no_modes()
end)

harness.run()
