-- tests/lua/cuda/cuda_test.lua: the CUDA backend on sizes that take every path of its kernels, compared
-- with the CPU; several devices, errors, and memory. Skips without a device.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local emulated = require "emulated"
local test, expect = harness.test, harness.expect

local function on_device(name, body)
  test(name, function()
    if not ml.cuda.is_available() then harness.skip "no CUDA device" end
    body()
  end)
end

local function near(what, got, want, tol)
  local a, b = got:to "cpu":to "float64":reshape(-1), want:to "float64":reshape(-1)
  if tostring(got.shape) ~= tostring(want.shape) then
    error(("%s: shape %s, want %s"):format(what, got.shape, want.shape), 0)
  end
  if a:numel() == 0 then return end
  local scale = math.max(1, b:abs():amax():item())
  local worst = (a - b):abs():amax():item()
  if not (worst <= (tol or 1e-4) * scale) then
    error(("%s: differs by %g at a scale of %g"):format(what, worst, scale), 0)
  end
end

-- f(x, ...) on the CPU and on the device; all tensors it returns agree.
local function agree(what, f, ...)
  local host, device = table.pack(...), table.pack(...)
  for i = 1, device.n do device[i] = ml.is_tensor(host[i]) and host[i]:to "cuda" or host[i] end
  local want = table.pack(f(table.unpack(host, 1, host.n)))
  local got = table.pack(f(table.unpack(device, 1, device.n)))
  for i = 1, want.n do near(("%s, result %d"):format(what, i), got[i], want[i]) end
end

on_device("reductions over rows, columns, planes and everything", function()
  ml.manual_seed(1)
  for _, shape in ipairs { { 3, 1000 }, { 1000, 3 }, { 5000, 40 }, { 70000 }, { 4, 300, 5 }, { 2, 40000 } } do
    local x = ml.randn(shape)
    for _, op in ipairs { "sum", "mean", "amax", "amin", "var", "norm", "any", "all", "count_nonzero" } do
      agree(op .. " of " .. tostring(x.shape), function(t) return t[op](t) end, x)
    end
    for dim = 1, x.ndim do
      for _, op in ipairs { "sum", "argmax", "argmin", "prod", "logsumexp", "cumsum" } do
        local source = op == "prod" and x * 0.01 + 1 or x
        agree(("%s of %s along %d"):format(op, x.shape, dim), function(t) return t[op](t, dim) end, source)
      end
      agree("max", function(t) return t:max(dim) end, x)
      agree("var", function(t) return t:var(dim) end, x)
    end
  end
end)

-- Rows of 7 half elements and views that start off a boundary are none that cuBLASLt takes.
on_device("layers with a bias, in every layout that a product may take", function()
  ml.manual_seed(2)
  local function layer(x, w, b) return ml.nn.functional.linear(x, w, b) end
  for _, dtype in ipairs { "float32", "float64", "float16", "bfloat16", "complex64" } do
    for _, size in ipairs { { 5, 8, 16 }, { 3, 7, 5 }, { 1, 64, 1 }, { 40, 1, 24 }, { 70, 130, 96 } } do
      local n, k, m = table.unpack(size)
      local x, w = ml.randn { n, k, dtype = dtype }, ml.randn { m, k, dtype = dtype }
      local b = ml.randn { m, dtype = dtype }
      local what = ("%s %d x %d -> %d"):format(dtype, n, k, m)
      local function same(case, ...)
        local host, device = { ... }, {}
        for i, t in ipairs(host) do device[i] = t:to "cuda" end
        near(what .. case, layer(table.unpack(device)), layer(table.unpack(host)),
          (dtype == "float16" or dtype == "bfloat16") and 1e-2 or 1e-5)
      end
      same("", x, w, b)
      same(", twice", x, w, b)
      same(", another bias", x, w, b * 2)
      same(", a bias that is spread", x, w, b[{ { 1, 1 } }]:expand(m))
      same(", bodies", x:view(n, 1, k), w, b)
      near(what .. ", addmm", ml.addmm(b:to "cuda", x:to "cuda", w:t():to "cuda"), layer(x, w, b),
        dtype:find "16" and 1e-2 or 1e-5)
      local cut = ml.randn { n + 1, k + 3, dtype = dtype }:to "cuda"
      near(what .. ", a part", layer(cut[{ { 2, -1 }, { 2, k + 1 } }], w:to "cuda", b:to "cuda"),
        layer(cut:cpu()[{ { 2, -1 }, { 2, k + 1 } }], w, b), dtype:find "16" and 1e-2 or 1e-5)
      near(what .. ", transposed", layer(x:to "cuda", w:to "cuda":t():contiguous():t(), b:to "cuda"),
        layer(x, w, b), dtype:find "16" and 1e-2 or 1e-5)
    end
  end
end)

-- The emulation fails the device where cuBLASLt reads a bias that is aligned worse than it was told.
on_device("a bias that starts anywhere, after one of the same shape that is aligned", function()
  for _, dtype in ipairs { "float32", "float16" } do
    local x, w = ml.randn { 8, 16, dtype = dtype }, ml.randn { 24, 16, dtype = dtype }
    local all = ml.randn { 40, dtype = dtype }
    local there = all:to "cuda"
    for _, first in ipairs { 1, 2, 3, 5, 9, 4 } do
      local part = { { first, first + 23 } }
      near(("%s from %d"):format(dtype, first),
        ml.nn.functional.linear(x:to "cuda", w:to "cuda", there[part]),
        ml.nn.functional.linear(x, w, all[part]), dtype == "float16" and 1e-2 or 1e-5)
    end
  end
end)

emulated.test("where cuBLASLt has no way a plain product does", function()
  local script = [[
    local x, w, b = ml.ones(8, 16, cuda), ml.ones(24, 16, cuda), ml.ones(24, cuda)
    for _ = 1, 2 do print(ml.nn.functional.linear(x, w, b):sum():item()) end
  ]]
  for _, word in ipairs { "refuses", "fails", "works" } do
    local text = emulated.output("MOONLET_EMULATED_CUBLASLT=" .. word, script)
    expect.equal(text, "3264.0\n3264.0\n", word)
  end
end)

on_device("a sum over integers is exact, and repeats", function()
  local x = ml.arange(100000):to "cuda"
  expect.equal(x:sum():item(), 5000050000)
  local y = ml.randn { 300000, device = "cuda" }
  expect.equal(y:sum():item(), y:sum():item())
end)

on_device("softmax and norms over long and short lines", function()
  for _, shape in ipairs { { 7, 3000 }, { 6000, 10 }, { 5, 50, 900 }, { 4, 20, 2000 } } do
    local x = ml.randn(shape)
    for dim = 1, x.ndim do
      agree("softmax", function(t) return t:softmax(dim), t:log_softmax(dim) end, x)
    end
    local last = x:size(-1)
    agree("layer_norm", function(t, w, b)
      w, b = w:clone():requires_grad_(true), b:clone():requires_grad_(true)
      local leaf = t:clone():requires_grad_(true)
      local y = ml.layer_norm(leaf, { last }, w, b);
      (y * y):mean():backward()
      return y:detach(), leaf.grad, w.grad, b.grad
    end, x, ml.rand(last), ml.randn(last))
  end
  agree("batch_norm", function(t, w, b)
    local mean, var = ml.zeros_like(w), ml.ones_like(w)
    local leaf = t:clone():requires_grad_(true)
    local y = ml.batch_norm(leaf, mean, var, w, b, true);
    (y * y * y):mean():backward()
    return y:detach(), mean, var, leaf.grad
  end, ml.randn(8, 5, 13, 11), ml.rand(5), ml.randn(5))
end)

on_device("sorting keeps the order of equals and puts NaN last", function()
  for _, n in ipairs { 1, 16, 17, 1000, 4097 } do
    local x = ml.randint(0, 49, { 3, n })
    agree("sort", function(t) return t:sort(2) end, x)
    agree("sort downwards", function(t) return t:sort(2, true) end, x)
    agree("topk", function(t) return t:topk(math.min(5, n), 2) end, x)
    agree("sort along 1", function(t) return t:sort(1) end, x:t():contiguous())
  end
  local x = ml.tensor({ 2.0, ml.nan, -1.0, ml.inf, -0.0, 0.0 }):to "cuda"
  local _, order = x:sort()
  expect.equal(table.concat(order:tolist(), " "), "3 5 6 1 4 2")
end)

on_device("reading and writing at positions", function()
  local x, rows = ml.randn(50, 30), ml.randint(50, { 400 })
  local source = ml.randn(400, 30)
  agree("index_select", function(t, i) return t:index_select(1, i) end, x, rows)
  agree("index_add", function(t, i, s) return t:index_add(1, i, s) end, x, rows, source)
  agree("index_add along 2", function(t, i, s) return t:index_add(2, i, s) end, x:t():contiguous(), rows,
    source:t():contiguous())
  local at = ml.randint(50, { 400, 30 })
  agree("gather", function(t, i) return t:gather(1, i) end, x, at)
  agree("scatter_add", function(t, i, s) return t:scatter_add(1, i, s) end, x, at, source)
  agree("scatter", function(t, i, s) return t:scatter(1, i, s) end, x, at, source)
  agree("index", function(t, i) return t[{ i, {} }], t[{ {}, -(i % 30) - 1 }] end, x, rows)
  agree("masked write", function(t)
    local y = t:clone()
    y[y:gt(0)] = 7
    return y, t[t:lt(-1)]
  end, x)
  agree("nonzero", function(t) return t:gt(0.5):nonzero() end, ml.randn(90, 70))
  agree("embedding", function(w, i)
    local leaf = w:clone():requires_grad_(true)
    local y = ml.embedding(leaf, i);
    (y * y):sum():backward()
    return y:detach(), leaf.grad
  end, x, rows)
end)

on_device("convolution and pooling with their gradients", function()
  local cases = {
    { { 3, 4, 17, 15 }, { 6, 4, 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 1 },
    { { 2, 6, 20, 21 }, { 4, 3, 5, 4 }, { 2, 3 }, { 2, 1 }, { 1, 2 }, 2 },
    { { 1, 3, 9, 9 }, { 3, 1, 2, 2 }, { 3, 3 }, { 0, 0 }, { 2, 2 }, 3 },
    { { 2, 3, 30 }, { 4, 3, 5 }, { 2 }, { 3 }, { 2 }, 1 },
    { { 2, 4, 5, 6, 7 }, { 6, 2, 3, 2, 3 }, { 1, 2, 1 }, { 1, 0, 2 }, { 2, 1, 1 }, 2 },
  }
  local function agree_on(name, c, call)
    agree(name, function(x, w, b)
      x, w, b = x:clone():requires_grad_(true), w:clone():requires_grad_(true), b:clone():requires_grad_(true)
      local y = call(x, w, b);
      (y * y):mean():backward()
      return y:detach(), x.grad, w.grad, b.grad
    end, ml.randn(c[1]), ml.randn(c[2]), ml.randn(c[2][1]))
  end
  for k, c in ipairs(cases) do
    local dims = #c[3]
    agree_on(("conv%dd %d"):format(dims, k), c, function(x, w, b)
      return ml["conv" .. dims .. "d"](x, w, b, c[3], c[4], c[5], c[6])
    end)
  end
  agree_on("conv_transpose3d", { { 2, 4, 5, 3, 4 }, { 4, 4, 2, 3, 1 } }, function(x, w, b)
    return ml.conv_transpose3d(x, w, b, { 2, 1, 3 }, { 1, 0, 0 })
  end)
  for _, planes in ipairs { { 2, 3 }, { 20, 30 } } do
    agree("pools", function(x)
      local out = {}
      for _, pool in ipairs {
        function(t) return ml.max_pool2d(t, 3, { 2 }, 1) end,
        function(t) return ml.avg_pool2d(t, 3, { 2 }, 1, false, false) end,
        function(t) return ml.adaptive_avg_pool2d(t, { 4, 5 }) end,
      } do
        local leaf = x:clone():requires_grad_(true)
        local y = pool(leaf);
        (y * y):sum():backward()
        out[#out + 1], out[#out + 2] = y:detach(), leaf.grad
      end
      return table.unpack(out)
    end, ml.randn(planes[1], planes[2], 11, 13))
  end
end)

on_device("products of every layout", function()
  local a, b = ml.randn(70, 50), ml.randn(50, 90)
  agree("matmul", function(x, y) return x:matmul(y), y:t():matmul(x:t()) end, a, b)
  agree("strided", function(x, y) return x["::2, ::2"]:matmul(y["::2, ::3"]) end, a, b)
  agree("batched", function(x, y) return x:matmul(y), x:matmul(y[1]) end, ml.randn(5, 7, 20), ml.randn(5, 20, 9))
  agree("vectors", function(x, y) return x:matmul(y), y:matmul(y), x:t():matmul(x[{ {}, 1 }]) end, a, ml.randn(50))
  agree("integers", function(x, y) return x:matmul(y) end, ml.randint(-9, 9, { 12, 8 }), ml.randint(-9, 9, { 8, 5 }))
end)

on_device("random numbers are the CPU's", function()
  local function draw(device)
    ml.manual_seed(5)
    local options = { 1001, device = device }
    return ml.rand(options), ml.randn(options), ml.randint(1, 99, { 77 }, nil, device),
      ml.randperm(50, device), ml.zeros(options):bernoulli_(0.3)
  end
  local want, got = table.pack(draw "cpu"), table.pack(draw "cuda")
  for i = 1, want.n do near("draw " .. i, got[i], want[i], 1e-6) end
end)

on_device("errors name what is wrong and leave the device usable", function()
  local x = ml.randn { 4, 3, device = "cuda" }
  local function fails(pattern, f)
    local ok, message = pcall(function()
      f()
      ml.cuda.synchronize()
    end)
    expect.falsy(ok)
    if not tostring(message):find(pattern) then error(("%s: no '%s' in it"):format(message, pattern), 0) end
  end
  fails("7", function() return x:index_select(1, ml.tensor({ 7 }):to "cuda") end)
  fails("0", function() return x:gather(2, ml.zeros { 1, 1, dtype = "int64", device = "cuda" }) end)
  fails("target 9", function() return ml.cross_entropy(x, ml.tensor({ 1, 9, 2, 3 }):to "cuda") end)
  fails("cuda:0", function() return x + ml.randn(4, 3) end)
  fails("zero", function()
    return ml.tensor({ 3 }):to "cuda" // ml.tensor({ 0 }):to "cuda"
  end)
  fails("memory", function() return ml.empty { 1 << 50, device = "cuda" } end)
  fails("no device cuda:99", function() return ml.zeros { 2, device = "cuda:99" } end)
  expect.equal((x - x):abs():sum():item(), 0)
end)

on_device("a second device works beside the first", function()
  if ml.cuda.device_count() < 2 then harness.skip "one device" end
  local x = ml.randn(20, 30)
  local there = x:to "cuda:1"
  expect.equal(there.device, "cuda:1")
  near("matmul on cuda:1", there:matmul(there:t()), x:matmul(x:t()))
  near("from device to device", there:to "cuda:0" * 2, x * 2)
  local ok, message = pcall(function() return there + x:to "cuda:0" end)
  expect.falsy(ok)
  expect.truthy(message:find "cuda:1")
end)

on_device("the gradient of filters from one that begins within its memory", function()
  ml.manual_seed(5)
  agree("conv2d", function(x, w, gradients)
    w = w:detach():requires_grad_()
    return ml.grad(ml.conv2d(x, w), w, { grad_outputs = gradients[2] })
  end, ml.randn(2, 3, 5, 5), ml.randn(4, 3, 3, 3), ml.randn(2, 2, 4, 3, 3))
end)

on_device("gradients of each sample of what has no kernel of its own there", function()
  ml.manual_seed(6)
  local x = ml.randn(3, 2, 4, 5)
  for what, f in pairs {
    group_norm = function(v) return ml.group_norm(v, 2):pow(3):sum() end,
    attention = function(v) return ml.scaled_dot_product_attention(v, v, v * 2):sum() end,
    distances = function(v) return ml.cdist(v, v + 1):sum() + ml.pdist(v[1], 1):sum() end,
    grid_sample = function(v)
      return ml.grid_sample(v:unsqueeze(1), v[{ {}, {}, { 1, 2 } }]:unsqueeze(1):tanh()):sum()
    end,
  } do
    agree(what, function(v) return ml.func.vmap(ml.func.grad(f))(v) end, x)
  end
end)

on_device("complex normal numbers, outer of two dtypes, pools of nothing, masks of bytes", function()
  local function drawn(device)
    ml.manual_seed(3)
    return ml.zeros({ 9 }, { dtype = ml.complex64, device = device }):normal_(2, 0.5)
  end
  near("normal_", ml.view_as_real(drawn "cuda"), ml.view_as_real(drawn "cpu"), 1e-5)
  agree("outer", function(a, b) return ml.outer(a, b) end, ml.randn(3), ml.tensor { 1, 2 })
  agree("outer", function(a, b) return ml.outer(a, b):int() end, ml.tensor { true, false },
    ml.tensor { true, true })
  agree("where", function(m, a) return ml.where(m, a, 0) end,
    ml.tensor({ 0, 2, 255 }, { dtype = ml.uint8 }), ml.randn(3))
  local x = ml.ones { 1, 2, 4, 4, device = "cuda", requires_grad = true }
  local y = ml.nn.functional.adaptive_avg_pool2d(x, { 0, 2 })
  y:sum():backward()
  expect.equal({ y.shape:totable(), x.grad:abs():sum():item() }, { { 1, 2, 0, 2 }, 0.0 })
end)

on_device("products of float32 that may be rounded to TF32", function()
  local a, b = ml.randn(33, 65), ml.randn(65, 17)
  for _, precision in ipairs { "high", "medium", "highest" } do
    ml.set_float32_matmul_precision(precision)
    near(precision, ml.mm(a:cuda(), b:cuda()), ml.mm(a, b), precision == "highest" and 1e-5 or 5e-3)
    near(precision, ml.mm(a:to "float64":cuda(), b:to "float64":cuda()),
      ml.mm(a:to "float64", b:to "float64"), 1e-12)
  end
end)

on_device("x.data of another device", function()
  local leaf = ml.ones(2, { requires_grad = true })
  local used = leaf * 2
  leaf.data = ml.full({ 2 }, 3, { dtype = ml.float32, device = "cuda" })
  expect.error(function() used:sum():backward() end, "backward")
  leaf:square():sum():backward()
  expect.equal({ leaf.device, leaf.grad.device, leaf.grad:totable() },
    { "cuda:0", "cuda:0", { 6.0, 6.0 } })
end)

on_device("a loop of temporaries reuses its memory", function()
  local x = ml.randn { 1000, device = "cuda" }
  for _ = 1, 2000 do x = (x * 0.5 + 1):detach() end
  collectgarbage()
  expect.truthy(ml.cuda.live_bytes() < 64 * 1024 * 1024)
end)

on_device("a tensor inside vmap tells where its values are", function()
  local seen
  local function f(x)
    seen = { x.device, x.is_cuda, x:get_device() }
    return x * 2
  end
  ml.func.vmap(f)(ml.ones { 3, 2, device = "cuda" })
  expect.equal(seen, { "cuda:0", true, 0 })
  ml.func.vmap(ml.func.vmap(f))(ml.ones { 3, 2, device = "cuda" })
  expect.equal(seen, { "cuda:0", true, 0 })
  ml.func.vmap(f)(ml.ones(3, 2))
  expect.equal(seen, { "cpu", false, -1 })
end)

harness.run()
