-- tests/lua/cuda/cuda_rows_test.lua: CUDA kernels that are compiled for each dtype: rows that begin at any
-- element, activations of 16-bit floats for every number of theirs, masks and random numbers in
-- packs. Skips without a device.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local checks = require "device_checks"
local on_device, draw = checks.on_device, checks.draw
local expect, ops = harness.expect, ml._internal

local FLOATS = { "float16", "bfloat16", "float32", "float64" }

-- Equal numbers, also where they are none, of tensors whose bits shall not differ.
local function identical(what, got, want)
  got, want = got:to "cpu":to "float64", want:to "cpu":to "float64"
  local equal = got:eq(want):logical_or(got:isnan():logical_and(want:isnan()))
  if not equal:all():item() then
    error(("%s: %d of %d differ"):format(what, equal:logical_not():sum():item(), equal:numel()), 0)
  end
end

-- A contiguous copy of x on the device that begins `offset` elements after a multiple of 16 bytes.
local function shifted(x, offset)
  local store = ml.full(x:numel() + offset, 7, { dtype = x.dtype, device = "cuda" })
  local view = store:narrow(1, offset + 1, x:numel()):view(x.shape)
  view:copy_(x)
  return view
end

local function row_results(x, g, w, b, mean, rstd)
  local size = { x:size(2) }
  local y, m, r = ops.native_layer_norm(x, size, w, b)
  local all_x, all_w, all_b = ops.layer_norm_grads(g, x, mean, rstd, w, 1)
  local both_x, both_w = ops.rms_norm_grads(g, x, rstd, nil, 1)
  return {
    ["all gradients of layer_norm: x"] = all_x, ["all gradients of layer_norm: weight"] = all_w,
    ["all gradients of layer_norm: bias"] = all_b, ["both gradients of rms_norm: x"] = both_x,
    ["both gradients of rms_norm: weight"] = both_w,
    softmax = x:softmax(2), log_softmax = x:log_softmax(2),
    ["softmax's gradient"] = ops.softmax_grad_x(g, x, 2),
    ["log_softmax's gradient"] = ops.log_softmax_grad_x(g, x, 2),
    ["softmax across rows"] = x:softmax(1), layer_norm = y, ["its means"] = m, ["its rstd"] = r,
    ["layer_norm without weights"] = (ops.native_layer_norm(x, size)),
    ["layer_norm's gradient"] = ops.layer_norm_grad_x(g, x, mean, rstd, w, 1, 1e-5),
    ["its gradient without weights"] = ops.layer_norm_grad_x(g, x, mean, rstd, nil, 1, 1e-5),
    ["its weight's gradient"] = ops.layer_norm_grad_weight(g, x, mean, rstd, 1, 1e-5),
    rms_norm = (ops.native_rms_norm(x, size, w, 1e-5)),
    ["its root"] = select(2, ops.native_rms_norm(x, size, nil, 1e-5)),
    ["rms_norm's gradient"] = ops.rms_norm_grad_x(g, x, rstd, w, 1, 1e-5),
    ["rms_norm's gradient without weights"] = ops.rms_norm_grad_x(g, x, rstd, nil, 1, 1e-5),
    ["the gradient of rms_norm's weight"] = ops.rms_norm_grad_weight(g, x, rstd, 1, 1e-5),
  }
end

on_device("rows give the same wherever they begin", function()
  for _, dtype in ipairs(FLOATS) do
    local longest = dtype == "float64" and 2051 or 9001
    for _, shape in ipairs { { 5, 1 }, { 7, 16 }, { 3, 197 }, { 2, 1024 }, { 2, longest }, { 2100, 24 } } do
      local x, g = draw(shape, dtype), draw(shape, dtype)
      local w, b = draw({ shape[2] }, dtype), draw({ shape[2] }, dtype)
      local _, mean, rstd = ops.native_layer_norm(x:to "float64", { shape[2] })
      mean, rstd = mean:to "cuda", rstd:to "cuda"
      local host = row_results(x, g, w, b, mean:to "cpu", rstd:to "cpu")
      local want = row_results(shifted(x, 0), shifted(g, 0), shifted(w, 0), shifted(b, 0), mean, rstd)
      for what, result in pairs(want) do
        -- The statistics are float64 of what was computed in float32.
        local tolerance = dtype ~= "float64" and result.dtype == ml.float64 and 1e-6 or nil
        checks.same(("%s of %s %s"):format(what, dtype, x.shape), result, host[what], tolerance)
      end
      for _, offsets in ipairs { { 1, 1, 1, 1 }, { 3, 0, 2, 5 }, { 0, 7, 0, 0 } } do
        local got = row_results(shifted(x, offsets[1]), shifted(g, offsets[2]), shifted(w, offsets[3]),
          shifted(b, offsets[4]), mean, rstd)
        for what, result in pairs(want) do
          identical(("%s of %s %s, %s elements on"):format(what, dtype, x.shape, table.concat(offsets, " ")),
            got[what], result)
        end
      end
    end
  end
end)

on_device("rows hold no more than theirs", function()
  for _, dtype in ipairs(FLOATS) do
    for _, size in ipairs { 1, 5, 8, 131, 5000, 9001 } do
      local x = draw({ 3, size }, dtype)
      local store = ml.full(3 * size + 20, 9, { dtype = dtype, device = "cuda" })
      local view = store:narrow(1, 4, 3 * size):view(3, size)
      local plain = x:to "cuda"
      ml.softmax(plain, 2, { out = view })
      identical("softmax into a view", view, plain:softmax(2))
      expect.equal(store:narrow(1, 1, 3):eq(9):all():item(), true)
      expect.equal(store:narrow(1, 3 * size + 4, 17):eq(9):all():item(), true)
    end
  end
end)

on_device("constant rows far from 0 and rows without range", function()
  for _, dtype in ipairs { "bfloat16", "float32" } do
    for _, size in ipairs { 7, 64, 4001 } do
      for _, value in ipairs { 1e38, -3e38, 1e-38, 0 } do
        local x = ml.full({ 3, size }, value, { dtype = dtype })
        local on = x:to "cuda"
        checks.same(("layer_norm of %g"):format(value), ml.layer_norm(on, { size }), ml.layer_norm(x, { size }))
        checks.same(("rms_norm of %g"):format(value), ml.nn.functional.rms_norm(on, { size }, nil, 1e-60),
          ml.nn.functional.rms_norm(x, { size }, nil, 1e-60))
        checks.same(("softmax of %g"):format(value), on:softmax(2), x:softmax(2))
        local _, mean, rstd = ops.native_layer_norm(x, { size })
        local g = draw({ 3, size }, dtype)
        checks.same(("the gradient at %g"):format(value),
          ops.layer_norm_grad_x(g:to "cuda", on, mean:to "cuda", rstd:to "cuda", nil, 1, 1e-5),
          ops.layer_norm_grad_x(g, x, mean, rstd, nil, 1, 1e-5))
        checks.agree(("all gradients at %g"):format(value), function(...) return ops.layer_norm_grads(...) end,
          g, x, mean, rstd, nil, 1)
      end
      local spread = ml.zeros({ 2, size }, { dtype = dtype })
      spread:select(2, 1):fill_(3e38)
      spread:select(2, 2):fill_(-3e38)
      checks.same("softmax of all the range", spread:to "cuda":softmax(2), spread:softmax(2))
    end
  end
end)

-- The gradient of a norm's sum, times `up`, by x and by each of its weights.
local function norm_gradients(f, x, up, weights)
  local given = { x:detach():requires_grad_() }
  for i, w in ipairs(weights) do given[i + 1] = w:detach():requires_grad_() end
  local y = f(table.unpack(given))
  return y:detach(), ml.grad((y * up):sum(), given)
end

on_device("norms of 16-bit rows by weights of float32", function()
  local F = ml.nn.functional
  for _, dtype in ipairs { "float16", "bfloat16" } do
    for _, size in ipairs { 8, 37, 1024, 9001 } do
      local x, up = draw({ 3, size }, dtype), draw({ 3, size }, dtype)
      local w, b = draw({ size }, "float32"), draw({ size }, "float32")
      for name, f in pairs {
        layer_norm = function(v, weight, bias) return F.layer_norm(v, { size }, weight, bias) end,
        ["layer_norm with a bias of 16 bits"] = function(v, weight, bias)
          return F.layer_norm(v, { size }, weight, bias:to(dtype))
        end,
        rms_norm = function(v, weight) return F.rms_norm(v, { size }, weight) end,
      } do
        local weights = name == "rms_norm" and { w } or { w, b }
        local want = { norm_gradients(f, x, up, weights) }
        for i, t in ipairs(weights) do weights[i] = shifted(t, size % 2) end
        local got = { norm_gradients(f, shifted(x, size % 3), up:to "cuda", weights) }
        for i in ipairs(want) do
          -- Longer rows than a block holds give the weights' gradients in the rows' own dtype.
          checks.same(("%s of %s, %d, result %d"):format(name, dtype, size, i), got[i], want[i],
            i > 2 and size > 8192 and 3e-2 or nil)
        end
      end
      -- A gradient of another dtype than x.
      local _, mean, rstd = ops.native_layer_norm(x, { size }, w, b)
      for _, weight in ipairs { false, w, w:to(dtype) } do
        checks.agree("a wide gradient of " .. dtype, function(g, v, m, r, factor)
          factor = factor or nil
          return ops.layer_norm_grad_x(g, v, m, r, factor, 1, 1e-5), ops.layer_norm_grad_weight(g, v, m, r, 1, 1e-5),
            ops.rms_norm_grad_x(g, v, r, factor, 1, 1e-5), ops.layer_norm_grads(g, v, m, r, factor, 1)
        end, up:float(), x, mean, rstd, weight)
      end
    end
  end
end)

on_device("all gradients of norms at once, by lanes and by blocks", function()
  for _, dtype in ipairs(FLOATS) do
    local wide = dtype:find "16" and 2 or dtype == "float64" and 0.5 or 1
    for _, shape in ipairs { { 40, 8 }, { 600, 200 }, { 66, 1024 * wide }, { 50, 2050 * wide }, { 40, 4096 * wide } } do
      local size = shape[2] // 1 | 0
      local x, g, w = draw({ shape[1], size }, dtype), draw({ shape[1], size }, dtype), draw({ size }, dtype)
      local _, mean, rstd = ops.native_layer_norm(x:to "float64", { size })
      local function apart(grad, rows, m, r, factor)
        return ops.layer_norm_grad_x(grad, rows, m, r, factor, 1, 1e-5),
          ops.layer_norm_grad_weight(grad, rows, m, r, 1, 1e-5), grad:sum(1)
      end
      local device = { g:to "cuda", x:to "cuda", mean:to "cuda", rstd:to "cuda", w:to "cuda" }
      local all = table.pack(ops.layer_norm_grads(device[1], device[2], device[3], device[4], device[5], 1))
      local want = table.pack(apart(g:double(), x:double(), mean, rstd, w:double()))
      for i = 1, 3 do
        checks.same(("gradient %d of %s (%d, %d)"):format(i, dtype, shape[1], size), all[i],
          want[i]:to(dtype))
      end
      identical("the gradient of x by itself", all[1], (apart(table.unpack(device))))
    end
  end
end)

on_device("second derivatives of rms_norm", function()
  local F = ml.nn.functional
  local function second(device, weighted)
    ml.manual_seed(3)
    local x = ml.randn(3, 2, 5, { dtype = "float64" }):to(device):requires_grad_()
    local w = weighted and ml.randn(2, 5, { dtype = "float64" }):to(device):requires_grad_() or nil
    local y = F.rms_norm(x, { 2, 5 }, w, 0.1)
    local of_x, of_w = ml.grad(y:pow(3):sum(), { x, w }, { create_graph = true })
    local loss = of_x:pow(2):sum()
    if w then loss = loss + of_w:sin():sum() end
    return ml.grad(loss, { x, w })
  end
  for _, weighted in ipairs { false, true } do
    local want, got = { second("cpu", weighted) }, { second("cuda", weighted) }
    for i in ipairs(want) do checks.same("second derivative " .. i, got[i], want[i]) end
  end
end)

on_device("empty rows", function()
  for _, shape in ipairs { { 0, 5 }, { 5, 0 } } do
    local x = ml.zeros(shape, { device = "cuda" })
    expect.equal(x:softmax(2):numel() + x:log_softmax(1):numel() + ml.layer_norm(x, { shape[2] }):numel(), 0)
    expect.equal(ml.rms_norm(x, { shape[2] }):numel(), 0)
  end
end)

-- The normal numbers of a 16-bit format, and some that are none.
local function every_number(dtype)
  local digits, least, most = 7, -126, 127
  if dtype == "float16" then digits, least, most = 10, -14, 15 end
  local powers = ml.arange(least, most, { dtype = "float64" }):exp2():view(-1, 1)
  local numbers = (powers * (1 + ml.arange(0, 2 ^ digits - 1, { dtype = "float64" }) / 2 ^ digits)):view(-1)
  local none = ml.tensor({ 0, 1 / 0, 0 / 0 }, { dtype = "float64" })
  return ml.cat { numbers, -numbers, none, -none }
end

local F = ml.nn.functional
local ACTIVATIONS = {
  gelu = function(x) return x:gelu() end, sigmoid = function(x) return x:sigmoid() end,
  silu = function(x) return F.silu(x) end, logsigmoid = function(x) return F.logsigmoid(x) end,
  softplus = function(x) return F.softplus(x) end, elu = function(x) return F.elu(x) end,
  celu = function(x) return F.celu(x, 1.5) end, selu = function(x) return F.selu(x) end,
  softsign = function(x) return F.softsign(x) end, relu6 = function(x) return F.relu6(x) end,
  hardswish = function(x) return F.hardswish(x) end, hardsigmoid = function(x) return F.hardsigmoid(x) end,
  mish = function(x) return F.mish(x) end,
  -- Where they cancel, float32 shows in 16 bits: told by the number itself.
  gelu_tanh = function(x) return F.gelu(x, "tanh") end, tanhshrink = function(x) return F.tanhshrink(x) end,
}
local CANCELS = { gelu_tanh = 2e-7, tanhshrink = 2e-7 }

on_device("activations of every 16-bit number", function()
  for _, dtype in ipairs { "float16", "bfloat16" } do
    local numbers = every_number(dtype)
    local x = numbers:to(dtype)
    identical("the numbers", x, numbers)
    -- Half a unit in the last place and a sixteenth of it; what is below the normal numbers.
    local half_unit = dtype == "float16" and 2 ^ -11 or 2 ^ -8
    local floor = dtype == "float16" and 2 ^ -24 or 2 ^ -119
    local largest = dtype == "float16" and 65504 or 3.3e38
    for name, f in pairs(ACTIVATIONS) do
      local got, want = f(x:to "cuda"):to "cpu":to "float64", f(numbers)
      local counts = want:abs():le(largest)
      local off = (got - want):abs() - want:abs() * half_unit * 1.07 - floor
        - numbers:abs() * (CANCELS[name] or 0)
      local bad = off:gt(0):logical_and(counts)
      if bad:any():item() then
        local at = bad:to "int32":argmax():item()
        error(("%s of %s %g: %g, want %g"):format(name, dtype, numbers[at]:item(), got[at]:item(),
          want[at]:item()), 0)
      end
      identical(name .. " of what is no number", got:isnan(), want:isnan())
    end
  end
end)

on_device("gradients of activations of 16-bit numbers", function()
  for _, dtype in ipairs { "float16", "bfloat16" } do
    local x, up = (draw({ 20011 }, "float32") * 4):to(dtype), draw({ 20011 }, dtype)
    for name, f in pairs(ACTIVATIONS) do
      local host, device = x:to "float64":requires_grad_(), x:to "cuda":requires_grad_()
      f(host):backward(up:to "float64")
      f(device):backward(up:to "cuda")
      checks.same(("the gradient of %s of %s"):format(name, dtype), device.grad, host.grad:to(dtype))
    end
  end
end)

on_device("masks and random numbers are the CPU's", function()
  local function both(what, exact, f)
    ml.manual_seed(5)
    local want = f "cpu"
    ml.manual_seed(5)
    local got = f "cuda"
    if exact then identical(what, got, want) else checks.same(what, got, want) end
  end
  for _, dtype in ipairs(FLOATS) do
    for _, size in ipairs { 1, 7, 8, 1000, 4099 } do
      local function on(device) return ml.zeros(size, { dtype = dtype, device = device }) end
      for _, p in ipairs { 0, 1e-9, 0.1, 0.5, 0.999999, 1 } do
        both(("dropout_mask of %d %s by %g"):format(size, dtype, p), true,
          function(device) return ml.dropout_mask(on(device), p) end)
        both("bernoulli_ of " .. dtype, true, function(device) return on(device):bernoulli_(p) end)
      end
      both("random_ of " .. dtype, true, function(device) return on(device):random_(0, 9) end)
      both("uniform_ of " .. dtype, false, function(device) return on(device):uniform_(-2, 3) end)
      both("normal_ of " .. dtype, false, function(device) return on(device):normal_(1, 2) end)
      both("exponential_ of " .. dtype, false, function(device) return on(device):exponential_(2) end)
      both("uniform_ of a view of " .. dtype, false, function(device)
        local all = ml.zeros(size + 3, { dtype = dtype, device = device })
        all:narrow(1, 2, size):uniform_(1, 2)
        return all
      end)
    end
  end
  for _, dtype in ipairs { "bool", "int8", "int32", "int64" } do
    both("bernoulli_ of " .. dtype, true, function(device)
      return ml.zeros(1003, { dtype = dtype, device = device }):bernoulli_(0.3)
    end)
  end
  both("random_ of int64", true, function(device)
    return ml.zeros(1003, { dtype = "int64", device = device }):random_(-7, 90)
  end)
end)

harness.run()
