-- tests/lua/ops/reduce_test.lua: reductions, scans, orders and statistics where op samples do not reach:
-- NaN and infinities as in PyTorch, errors, results that are left out, gradients of complex numbers,
-- rows long enough to be selected from.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local nan, inf = 0 / 0, math.huge

-- That a tensor, or several results, hold these numbers (within 1e-5), in row order.
local function holds(got, want, what)
  local flat = got:to("cpu"):reshape(-1):tolist()
  if type(flat) ~= "table" then flat = { flat } end
  expect.equal(#flat, #want, what)
  for i, w in ipairs(want) do
    local g = flat[i]
    local same = g == w or (g ~= g and w ~= w) or type(w) == "number" and math.abs(g - w) <= 1e-5 * math.max(1, math.abs(w))
    expect.truthy(same, ("%s: element %d is %s, want %s"):format(what or "", i, g, w))
  end
end

local function pair(values, indices, want_values, want_indices, what)
  holds(values, want_values, what)
  holds(indices, want_indices, (what or "") .. ", positions")
end

local function on_devices(name, body)
  test(name, function() body "cpu" end)
  test(name .. " (cuda)", function()
    if not ml.cuda.is_available() then harness.skip "no CUDA device" end
    body "cuda"
  end)
end

on_devices("medians and NaN", function(device)
  local x = ml.tensor({ 3, 1, nan, 2 }, { device = device })
  holds(x:median(), { nan })
  holds(x:nanmedian(), { 2 })
  local v, i = x:median(1)
  pair(v, i, { nan }, { 3 }, "median")
  v, i = x:nanmedian(1)
  pair(v, i, { 2 }, { 4 }, "nanmedian")
  v, i = ml.tensor({ nan, nan }, { device = device }):nanmedian(1)
  pair(v, i, { nan }, { 1 }, "nanmedian of NaN")
  v, i = ml.tensor(3.0, { device = device }):median(1)
  pair(v, i, { 3 }, { 1 }, "median of a number")
  holds(ml.zeros(0, { device = device }):median(), { nan })
  v, i = ml.ones(0, 3, { device = device }):median(2)
  expect.equal(v:numel() + i:numel(), 0)
  expect.equal(x:to("float16"):median(1, true).ndim, 1)
end)

on_devices("the k-th value of long rows and columns is that of the sorted ones", function(device)
  ml.manual_seed(5)
  local n = device == "cpu" and 20001 or 301
  for _, dtype in ipairs { "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "uint8", "int8" } do
    for _, scale in ipairs { 0.4, 1000 } do
      local x = (ml.randn(3, n) * scale):to(dtype):to(device)
      for _, k in ipairs { 1, 2, n // 3, n } do
        local sorted, order = x:sort(2)
        local v, i = x:kthvalue(k, 2)
        expect.truthy(v:eq(sorted:select(2, k)):all():item(), dtype)
        expect.truthy(i:eq(order:select(2, k)):all():item(), dtype .. ": positions")
        v, i = x:t():kthvalue(k, 1, true)
        expect.truthy(v:reshape(-1):eq(sorted:select(2, k)):all():item(), dtype .. " in columns")
        expect.truthy(i:reshape(-1):eq(order:select(2, k)):all():item(), dtype .. " in columns: positions")
      end
    end
  end
end)

test("the k-th value where elements at even distances are unlike the others", function()
  local x = ml.ones(2048, 10)
  x:select(2, 1):zero_()
  x = x:reshape(-1)
  x[20000] = 7
  for k, want in pairs { [2048] = 0, [2049] = 1, [10000] = 1, [20480] = 7 } do
    holds(x:kthvalue(k), { want }, k)
  end
end)

on_devices("the first of long rows are those of the sorted ones", function(device)
  ml.manual_seed(6)
  for _, dtype in ipairs { "float32", "float64", "bfloat16", "int64", "uint8" } do
    local x = (ml.randn(2, 1000) * 40):abs():to(dtype):to(device)
    if dtype:find "float" then x[1][700], x[2][3] = nan, -inf end
    for _, k in ipairs { 1, 3, 16, 40 } do
      for _, largest in ipairs { true, false } do
        local sorted, order = x:sort(2, largest)
        local v, i = x:topk(k, 2, largest)
        expect.truthy(i:eq(order:narrow(2, 1, k)):all():item(), dtype .. ": positions")
        expect.truthy(v:nan_to_num(-1):eq(sorted:narrow(2, 1, k):nan_to_num(-1)):all():item(), dtype)
        expect.truthy(x:t():topk(k, 1, largest):t():nan_to_num(-1):eq(v:nan_to_num(-1)):all():item(),
          dtype .. " in columns")
      end
    end
  end
end)

test("scans of many rows are those of each", function()
  local x = ml.randn(7, 70)
  for _, name in ipairs { "cumsum", "cumprod", "cummax", "cummin" } do
    for _, dtype in ipairs { "float32", "float64", "int64", "bfloat16" } do
      local rows = (x * 4):to(dtype)
      local all, positions = rows[name](rows, 2)
      local columns = rows[name](rows:t(), 1)
      for i = 1, 7 do
        local one, at = rows[name](rows[i], 1)
        expect.truthy(all[i]:eq(one):all():item(), name .. " of " .. dtype)
        expect.truthy(columns:select(2, i):eq(one):all():item(), name .. " of columns of " .. dtype)
        if at then expect.truthy(positions[i]:eq(at):all():item(), name .. ": positions") end
      end
    end
  end
end)

test("the gradient of a product with zeros", function()
  local x = ml.tensor({ { 2, 0, 3 }, { 0, 4, 0 }, { 1, 2, 4.0 } }, { requires_grad = true })
  x:prod(2):sum():backward()
  holds(x.grad, { 0, 6, 0, 0, 0, 0, 8, 4, 2 })
  local y = ml.tensor({ { 2, 5 }, { 0, 3.0 } }, { requires_grad = true })
  y:prod():backward()
  holds(y.grad, { 0, 0, 30, 0 })
end)

test("the k-th value of many equal elements", function()
  local x = ml.zeros(20000)
  x[77] = -1
  local v, i = x:kthvalue(10000)
  pair(v, i, { 0 }, { 10000 })
  holds(x:median(), { 0 })
end)

test("median shares its gradient among equal elements", function()
  local x = ml.tensor({ 1, 2, 2, 3.0 }, { requires_grad = true })
  x:median():backward()
  holds(x.grad, { 0, 0.5, 0.5, 0 })
  local y = ml.tensor({ 1, 2, 2, 3.0 }, { requires_grad = true })
  local v = y:median(1)
  v:backward()
  holds(y.grad, { 0, 1, 0, 0 })
end)

test("k-th values and medians refuse what they cannot do", function()
  expect.error(function() ml.ones(3):kthvalue(4) end, "kthvalue: k = 4")
  expect.error(function() ml.ones(3):kthvalue(0) end, "kthvalue: k = 0")
  expect.error(function() ml.ones(0, 3):median(1) end, "median")
  expect.error(function() ml.ones(0, 3):nanmedian(1) end, "median")
  expect.error(function() ml.zeros(0, { dtype = "int64" }):median() end, "no elements")
  expect.error(function() ml.tensor({ true, false }):median() end, "dtype")
end)

on_devices("running extremes and NaN", function(device)
  local v, i = ml.tensor({ 1, nan, 2, nan, 3 }, { device = device }):cummax(1)
  pair(v, i, { 1, nan, nan, nan, nan }, { 1, 2, 2, 4, 4 }, "cummax")
  v, i = ml.tensor({ 1, 3, 3, 2.0 }, { device = device }):cummax(1)
  pair(v, i, { 1, 3, 3, 3 }, { 1, 2, 3, 3 }, "ties")
  v, i = ml.tensor({ true, false, true }, { device = device }):cummin(1)
  pair(v, i, { true, false, false }, { 1, 2, 2 }, "bools")
  v, i = ml.tensor(1.5, { device = device }):cummax(1)
  pair(v, i, { 1.5 }, { 1 }, "a number")
  expect.equal(ml.ones(0, 2, { device = device }):cummax(1):numel(), 0)
  local x = ml.rand(2, 700, 3, { device = device })
  v, i = x:cummin(2)
  expect.truthy(x:gather(2, i):eq(v):all():item())
  expect.truthy(v:select(2, 700):eq(x:amin(2)):all():item())
end)

on_devices("running extremes of long rows are those found one by one", function(device)
  ml.manual_seed(3)
  local n = 300
  local x = ml.randn(2, n):to(device)
  for k, v in pairs { [70] = 9, [150] = -9, [200] = 9, [260] = nan, [290] = nan } do x[2][k]:fill_(v) end
  for _, op in ipairs { "cummax", "cummin" } do
    local values, positions = x[op](x, 2)
    for row = 1, 2 do
      local want, at, best, where = {}, {}, x[row][1]:item(), 1
      for k, v in ipairs(x[row]:tolist()) do
        local loses = op == "cummax" and v < best or op == "cummin" and v > best
        if v ~= v or (best == best and not loses) then best, where = v, k end
        want[k], at[k] = best, where
      end
      pair(values[row], positions[row], want, at, op)
    end
  end
end)

on_devices("logcumsumexp of infinities", function(device)
  local x = ml.tensor({ -inf, -inf, 1, 1000, inf, 2, nan, 1 }, { device = device })
  holds(x:logcumsumexp(1), { -inf, -inf, 1, 1000, inf, inf, nan, nan })
  x = ml.tensor({ -inf, -1000, 1 }, { device = device, requires_grad = true })
  x:logcumsumexp(1):sum():backward()
  expect.equal(x.grad:isnan():any():item(), false)
  local half = ml.zeros(4096, { dtype = "float16", device = device }):logcumsumexp(1)
  holds(half[4096]:to "float32", { ml.tensor(math.log(4096)):to("float16"):to("float32"):item() })
end)

test("modes", function()
  local v, i = ml.tensor({ 2, 1, 2, 1, 3 }):mode()
  pair(v, i, { 1 }, { 4 })
  v, i = ml.tensor({ true, false, true }):mode()
  pair(v, i, { true }, { 3 })
  v, i = ml.tensor(2.5):mode()
  pair(v, i, { 2.5 }, { 1 })
  v, i = ml.tensor({ 3, 1, nan, 2 }):mode()
  pair(v, i, { 1 }, { 2 })
  expect.error(function() ml.ones(0, 3):mode(1) end, "no elements")
  expect.equal(ml.ones(0, 3):mode(2):numel(), 0)
end)

on_devices("quantiles and NaN", function(device)
  local x = ml.tensor({ { 3, nan, 1, 2 }, { 7, 2, 5, 6 }, { nan, nan, nan, nan } }, { device = device })
  local q = ml.tensor({ 0, 0.5, 1.0 }, { device = device })
  holds(x:quantile(q, 2), { nan, 2, nan, nan, 5.5, nan, nan, 7, nan })
  holds(x:nanquantile(q, 2), { 1, 2, nan, 2, 5.5, nan, 3, 7, nan })
  expect.equal(tostring(x:quantile(q, nil, true).shape), "(3, 1, 1)")
  expect.equal(tostring(x:quantile(q, 1, true).shape), "(3, 1, 4)")
  expect.equal(tostring(x:quantile(0.5).shape), "()")
  expect.equal(x:quantile(0.5, { dim = 1, keepdim = true, interpolation = "nearest" }).ndim, 2)
  holds(ml.tensor(2.5, { device = device }):quantile(0.3, 1), { 2.5 })
end)

test("quantiles of long rows are those of the sorted ones", function()
  ml.manual_seed(7)
  for _, dtype in ipairs { "float32", "float64" } do
    local x = ml.randn(2, 17000):to(dtype)
    for _, how in ipairs { "linear", "lower", "higher", "nearest", "midpoint" } do
      for _, p in ipairs { 0, 0.3, 0.5, 1 } do
        local selected, sorted = x:clone():requires_grad_(), x:clone():requires_grad_()
        local y = selected:quantile(p, 2, true, how)
        local z = sorted:quantile(ml.tensor({ p }, { dtype = dtype }), 2, true, how)
        holds(y, z:reshape(-1):tolist(), how)
        y:sum():backward()
        z:sum():backward()
        expect.truthy((selected.grad - sorted.grad):abs():amax():item() < 1e-6, how .. ": gradient")
      end
    end
    holds(x:nanquantile(0.25), { x:quantile(0.25):item() })
    x[1][5] = nan
    holds(x:quantile(0.25), { nan })
    expect.equal(x:nanquantile(0.25):isnan():item(), false)
  end
end)

test("quantiles refuse what they cannot do", function()
  local x = ml.ones(4)
  expect.error(function() x:quantile(1.5) end, "q is 1.5")
  expect.error(function() x:quantile(nan) end, "a number from 0 to 1")
  expect.error(function() x:quantile(ml.tensor { 1.5 }) end, "outside 0 to 1")
  expect.error(function() x:quantile(ml.ones(1, 1)) end, "dimension")
  expect.error(function() x:quantile(ml.ones(1):double()) end, "dtype")
  expect.error(function() x:long():quantile(0.5) end, "dtype")
  expect.error(function() x:half():nanquantile(0.5) end, "dtype")
  expect.error(function() ml.ones(0):quantile(0.5) end, "no elements")
  expect.error(function() x:quantile(0.5, 1, false, "cubic") end, "interpolation")
end)

test("spreads with unbiased as with correction", function()
  local x = ml.randn(3, 4)
  for _, name in ipairs { "var", "std" } do
    local function same(a, b) holds(a, b:reshape(-1):tolist(), name) end
    same(x[name](x, 2, false), x[name](x, { dim = 2, correction = 0 }))
    same(x[name](x, { dim = 2, unbiased = true }), x[name](x, 2))
    same(x[name](x, false):reshape(1), x[name](x, { correction = 0 }):reshape(1))
    same(x[name](x, { unbiased = false }):reshape(1), x[name](x, { correction = 0 }):reshape(1))
    local spread, mean = ml[name .. "_mean"](x, 2, false)
    same(spread, x[name](x, 2, 0))
    same(mean, x:mean(2))
  end
  holds(ml.ones(1):var(), { nan })
  expect.error(function() ml.arange(1, 3):var() end, "var: ")
  local c = ml.view_as_complex(ml.tensor { { 1, 0 }, { 2, 1 }, { 3, -1.0 } })
  holds(c:var(), { 2 })
  expect.equal(c:std().dtype, "float32")
end)

test("norms of complex numbers, of other dtypes, of nothing", function()
  local c = ml.view_as_complex(ml.tensor { { 1, 0 }, { 2, 1 }, { 3, -1.0 } })
  holds(c:norm(), { 4 })
  holds(c:norm(1), { 6.3983459 })
  expect.equal(c:norm(2, { dtype = "complex128" }).dtype, "float64")
  expect.error(function() c:norm(2, { dtype = "float64" }) end, "norm: dtype is float64")
  expect.error(function() ml.ones(2):norm(2, { dtype = "complex64" }) end, "a floating one is expected")
  expect.equal(ml.ones(2, { dtype = "float16" }):norm({ dtype = "float32" }).dtype, "float32")
  expect.error(function() ml.arange(1, 3):norm() end, "norm: ")
  holds(ml.ones(0):norm(), { 0 })
  expect.error(function() ml.ones(0):norm(inf) end, "nothing to reduce")
  expect.error(function() ml.ones(0):norm(-1) end, "nothing to reduce")
  holds(ml.ones(2, 2):norm "fro", { 2 })
  expect.error(function() ml.ones(2, 2):norm "max" end, 'p is "max"')
  local x = ml.randn(3, 4):requires_grad_(true)
  x:norm(3, { dim = 2, dtype = "float64" }):sum():backward()
  expect.equal(x.grad.dtype, "float32")
end)

test("logsumexp of integers and complex numbers", function()
  local y = ml.tensor({ { 0, 1, 2 }, { 3, 4, 5 } }):logsumexp(1)
  holds(y, { 3.0485873, 4.0485873, 5.0485873 })
  expect.equal(y.dtype, "float32")
  local c = ml.view_as_complex(ml.tensor { { 1, 0 }, { 2, 1 }, { 3, -1.0 } })
  holds(ml.view_as_real(c:logsumexp(1)), { 3.0232086, -0.5465096 })
  holds(ml.view_as_real(c:logcumsumexp(1)[2]), { 2.2135701, 0.7472886 })
  holds(ml.tensor({ { 1, -inf }, { -inf, -inf }, { inf, 2 }, { nan, 1 } }):logsumexp(2), { 1, -inf, inf, nan })
end)

test("truth of uint8 is uint8", function()
  local x = ml.tensor({ { 0, 3 }, { 4, 5 } }, { dtype = "uint8" })
  expect.equal(x:any(1).dtype, "uint8")
  holds(x:all(2), { 0, 1 })
  expect.equal(x:to("int32"):all().dtype, "bool")
end)

test("sums and means without NaN", function()
  local x = ml.tensor { 1, nan, 3 }
  holds(x:nanmean(), { 2 })
  holds(ml.tensor({ { nan, 1 }, { nan, 3 } }):nanmean(1), { nan, 2 })
  expect.equal(ml.arange(1, 3):nansum().dtype, "int64")
  expect.error(function() ml.arange(1, 3):nanmean() end, "nanmean: ")
  expect.error(function() ml.view_as_complex(ml.ones(2, 2)):nansum() end, "nansum: ")
  -- Added up in float32: 4096 ones are more than float16 can count one by one.
  holds(ml.ones(4099, { dtype = "float16" }):nansum():to "float32", { 4100 })
  holds(ml.ones(4099, { dtype = "bfloat16" }):nanmean():to "float32", { 1 })
end)

test("aminmax", function()
  local low, high = ml.tensor({ 3, 1, 2.0 }):aminmax()
  holds(low, { 1 })
  holds(high, { 3 })
  low, high = ml.tensor({ { 3, nan }, { 1, 2 } }):aminmax { dim = 2, keepdim = true }
  holds(low, { nan, 1 })
  expect.equal(tostring(high.shape), "(2, 1)")
  expect.error(function() ml.ones(0, 3):aminmax { dim = 1 } end, "nothing to reduce")
  ml.manual_seed(8)
  for _, dtype in ipairs { "bfloat16", "float16", "float32", "float64", "int64", "int32", "uint8", "bool" } do
    local x = (ml.rand(5, 7, 40) * 100):to(dtype)
    local layouts = { x, x:transpose(1, 3), x["::2, 2:, 3:"], x[1]:expand(3, 7, 40), x:tile(1, 1, 240) }
    for i, each in ipairs(layouts) do
      for _, dims in ipairs { {}, { 3 }, { 1 }, { 2, 3 }, { 1, 2, 3 } } do
        low, high = each:aminmax { dim = dims }
        local what = ("%s, layout %d, dims %s"):format(dtype, i, table.concat(dims, " "))
        expect.truthy(low:equal(each:amin(dims)), what)
        expect.truthy(high:equal(each:amax(dims)), what)
      end
    end
  end
  low, high = ml.tensor(2.5):aminmax { dim = 1 }
  expect.equal(low:item() + high:item(), 5)
  expect.equal(ml.ones(0, 3):aminmax({ dim = 2 }):numel(), 0)
  expect.error(function() ml.ones(2):aminmax { dim = 3 } end, "aminmax: ")
end)

test("gradients of either extreme, of both, and of shared ones", function()
  for _, case in ipairs { { 1, 0, { 0, 1, 0, 0 } }, { 0, 1, { 0.5, 0, 0.5, 0 } }, { 2, 3, { 1.5, 2, 1.5, 0 } } } do
    local x = ml.tensor({ 3, 1, 3, 2.0 }, { requires_grad = true })
    local least, largest = x:aminmax()
    if case[2] == 0 then least:backward()
    elseif case[1] == 0 then largest:backward()
    else (least * case[1] + largest * case[2]):backward() end
    holds(x.grad, case[3])
  end
end)

test("unique gives what was asked for", function()
  local x = ml.tensor { 3, 1, 1, 2, 3 }
  expect.equal(select("#", x:unique()), 1)
  expect.equal(select("#", x:unique { return_inverse = true, return_counts = true }), 3)
  local values, counts = x:unique { return_counts = true }
  holds(values, { 1, 2, 3 })
  holds(counts, { 2, 1, 2 })
  local _, inverse = x:reshape(5, 1):unique { return_inverse = true }
  expect.equal(tostring(inverse.shape), "(5, 1)")
  holds(inverse, { 3, 1, 1, 2, 3 })
  values, counts = x:unique_consecutive { return_counts = true }
  holds(values, { 3, 1, 2, 3 })
  holds(counts, { 1, 2, 1, 1 })
  expect.equal(ml.zeros(0):unique():numel(), 0)
  expect.equal(select(2, ml.zeros(0, 3):unique { return_inverse = true }):numel(), 0)
  holds(ml.tensor(7):unique(), { 7 })
  holds(ml.tensor({ true, false, true }):unique(), { false, true })
  expect.error(function() ml.zeros(2, 0):unique { dim = 1 } end, "empty")
end)

on_devices("unique slices put together again are the tensor", function(device)
  ml.manual_seed(8)
  local x = ml.randint(0, 1, { 40, 3, 2 }):to(device)
  for dim = 1, 3 do
    local values, inverse, counts = x:unique { dim = dim, return_inverse = true, return_counts = true }
    expect.truthy(values:index_select(dim, inverse):eq(x):all():item(), "dim " .. dim)
    expect.equal(counts:sum():item(), x:size(dim))
  end
  local flat = ml.randint(-50, 50, { 3000 }):to(device)
  local values, inverse, counts = flat:unique(true, true, true)
  expect.truthy(values[inverse]:eq(flat):all():item())
  expect.truthy(values:diff():gt(0):all():item())
  expect.truthy(counts:eq(inverse:bincount()):all():item())
end)

test("differences and integrals", function()
  holds(ml.tensor({ 1, 4, 9, 16 }):diff(2), { 2, 2 })
  holds(ml.tensor({ true, false, false }):diff(), { true, false })
  expect.equal(ml.ones(3):diff(5):numel(), 0)
  expect.error(function() ml.tensor(1.0):diff() end, "diff: ")
  expect.error(function() ml.ones(3):diff(-1) end, "diff: n is %-1")
  holds(ml.trapezoid(ml.tensor { 1, 5, 10 }), { 10.5 })
  expect.equal(ml.trapezoid(ml.tensor { 1, 5, 10 }).dtype, "float32")
  holds(ml.trapezoid(ml.tensor { 1, 5, 10 }, ml.tensor { 1, 3, 6 }), { 28.5 })
  holds(ml.cumulative_trapezoid(ml.tensor { 1, 5, 10 }, { dx = 2 }), { 6, 21 })
  holds(ml.trapezoid(ml.ones(0)), { 0 })
  expect.error(function() ml.trapezoid(ml.ones(3), ml.ones(4)) end, "trapezoid: ")
end)

test("covariances refuse what they cannot do", function()
  local x = ml.randn(2, 3)
  expect.error(function() ml.ones(2, 2, 2):cov() end, "two dimensions")
  expect.error(function() x:cov { fweights = ml.ones(3) } end, "integers")
  expect.error(function() x:cov { aweights = ml.ones(3):long() } end, "floating")
  expect.error(function() x:cov { aweights = ml.ones(2) } end, "3 observations")
  expect.error(function() x:cov { aweights = -ml.ones(3) } end, "negative")
  expect.equal(ml.arange(1, 6):reshape(2, 3):cov().dtype, "float32")
  expect.equal(x:half():cov().dtype, "float16")
  holds(ml.tensor({ { 0, 1, 2 }, { 2, 1, 0.0 } }):corrcoef(), { 1, -1, -1, 1 })
end)

test("histograms count what is inside", function()
  holds(ml.tensor({ 1, 2, 1.0 }):histc(4, 0, 3), { 0, 2, 1, 0 })
  holds(ml.tensor({ nan, 0, 3, 4, -1.0 }):histc(3, 0, 3), { 1, 0, 1 })
  expect.error(function() ml.ones(3):histc(0) end, "bins is 0")
  expect.error(function() ml.ones(3):histc(3, 2, 1) end, "larger max")
  expect.error(function() ml.tensor({ inf, 1 }):histc(3) end, "not finite")
end)

test("renorm scales down the long slices only", function()
  local x = ml.tensor { { 3, 4 }, { 0.3, 0.4 } }
  holds(x:renorm(2, 1, 1), { 0.6, 0.8, 0.3, 0.4 })
  x:renorm_(1, 2, 3)
  holds(x, { 2.7272727, 2.7272727, 0.27272727, 0.27272727 })
  expect.error(function() ml.ones(3):renorm(2, 1, 1) end, "two dimensions")
end)

test("gradients of samples", function()
  local x = ml.tensor { 1.0, 4, 9, 16 }
  holds(ml.gradient(x)[1], { 3, 4, 6, 7 })
  holds(ml.gradient(x, 2)[1], { 1.5, 2, 3, 3.5 })
  holds(ml.gradient(x, { edge_order = 2 })[1], { 2, 4, 6, 8 })
  holds(ml.gradient(x, { ml.tensor { 0, 1, 3, 3.5 } })[1], { 3, 2.8333333, 11.7, 14 })
  local g = ml.gradient(ml.ones(2, 3))
  expect.equal(#g, 2)
  g = ml.gradient(ml.ones(2, 3), { spacing = 2, dim = 2 })
  expect.equal(#g, 1)
  expect.error(function() ml.gradient(ml.ones(1)) end, "too short")
  expect.error(function() ml.gradient(ml.ones(2), { edge_order = 2 }) end, "too short")
  expect.error(function() ml.gradient(ml.ones(4), { edge_order = 3 }) end, "edge_order is 3")
  expect.error(function() ml.gradient(ml.ones(2, 2), { ml.ones(2) }) end, "1 spacings for 2 dims")
  expect.error(function() ml.gradient(ml.ones(2, 2), { 1 }) end, "1 spacings for 2 dims")
  expect.error(function() ml.gradient(ml.ones(2, 2), { 1, ml.ones(2) }) end, "must hold numbers")
  expect.error(function() ml.gradient(ml.ones(4), { ml.ones(3) }) end, "coordinates")
end)

test("softmax in another dtype", function()
  holds(ml.nn.functional.softmax(ml.zeros(2, 4)), { 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25 })
  expect.equal(ml.tensor({ 1, 2 }):softmax(1, "float64").dtype, "float64")
  expect.equal(ml.ones(2):log_softmax({ dim = 1, dtype = "float16" }).dtype, "float16")
  holds(ml.nn.functional.softmax(ml.zeros(2, 4), 2, { dtype = "float64" }):sum(2), { 1, 1 })
end)

-- Gradients of real functions of complex numbers, by differences of their parts.
local function check_complex_gradient(name, f)
  test("the gradient of complex " .. name, function()
    ml.manual_seed(21)
    local parts = ml.randn(2, 3, 2, { dtype = "float64" }):requires_grad_(true)
    local weight = ml.randn(1, { dtype = "float64" })
    local function loss()
      local y = f(ml.view_as_complex(parts))
      if not y.dtype:find "^complex" then return (y * weight):sum() end
      return (ml.view_as_real(y) * ml.tensor({ 0.7, -1.3 }, { dtype = "float64" })):sum()
    end
    local grad = ml.grad(loss(), parts)
    local flat, eps = parts:detach():reshape(-1), 1e-6
    for i = 1, flat:numel() do
      local before = flat[i]:item()
      flat[i] = before + eps
      local up = loss():item()
      flat[i] = before - eps
      local gradient = (up - loss():item()) / (2 * eps)
      flat[i] = before
      local got = grad:reshape(-1)[i]:item()
      expect.truthy(math.abs(got - gradient) < 1e-5 * math.max(1, math.abs(gradient)),
        ("element %d: %g, by differences %g"):format(i, got, gradient))
    end
  end)
end

check_complex_gradient("prod", function(x) return x:prod(2) end)
check_complex_gradient("prod of all", function(x) return x:prod() end)
check_complex_gradient("cumprod", function(x) return x:cumprod(2) end)
check_complex_gradient("var", function(x) return x:var(2) end)
check_complex_gradient("std", function(x) return x:std(1) end)
for _, p in ipairs { 0.5, 1, 2, 3, inf, -inf } do
  check_complex_gradient(p .. "-norm", function(x) return x:norm(p, 2) end)
end
check_complex_gradient("logsumexp", function(x) return x:logsumexp(2) end)
check_complex_gradient("logcumsumexp", function(x) return x:logcumsumexp(2) end)
check_complex_gradient("cov", function(x) return x:cov() end)
check_complex_gradient("renorm", function(x) return x:renorm(2, 1, 1) end)
check_complex_gradient("sum_to_size", function(x) return x:sum_to_size(1, 3) end)

-- --- 16-bit floats, which are folded where they lie ------------------------------------------------

local LENGTHS = { 1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 100, 257, 8192, 8197, 20003 }
local EPS = { bfloat16 = 2 ^ -8, float16 = 2 ^ -11 }

-- That a reduction of x, of a 16-bit dtype, is that of its elements in float64, rounded.
local function reduces_as_double(x, what)
  local wide = x:double()
  for _, name in ipairs { "sum", "mean", "nansum", "amax", "amin", "norm" } do
    for _, dims in ipairs(x.ndim == 1 and { { 1 } } or { { 1 }, { 2 }, { 1, 2 } }) do
      local got, want = x[name](x, { dim = dims }), wide[name](wide, { dim = dims })
      expect.equal(got.dtype, x.dtype)
      local atol = (name == "amax" or name == "amin") and 0 or 1e-5 * x:numel() ^ 0.5
      expect.truthy(ml.allclose(got:double(), want, EPS[x.dtype], atol, true), ("%s of %s, dims %s"):format(
        name, what, table.concat(dims, " ")))
    end
  end
end

test("16-bit floats of all lengths and layouts are reduced as wider ones", function()
  ml.manual_seed(3)
  for dtype in pairs(EPS) do
    for _, n in ipairs(LENGTHS) do reduces_as_double((ml.randn(n) * 3):to(dtype), dtype .. " " .. n) end
    for _, shape in ipairs { { 37, 53 }, { 5, 3 }, { 300, 17 }, { 3, 5000 } } do
      local x = ml.randn(shape):to(dtype)
      reduces_as_double(x, dtype)
      reduces_as_double(x:t(), dtype .. " transposed")
      reduces_as_double(x["::2, 2:"], dtype .. " strided")
      reduces_as_double(x[1]:expand(4, shape[2]), dtype .. " expanded")
    end
    expect.equal(ml.zeros(0, { dtype = dtype }):sum():item(), 0)
    expect.equal(ml.zeros(0, 3, { dtype = dtype }):sum(1):sum():item(), 0)
    expect.equal(ml.tensor(3.0, { dtype = dtype }):amax():item(), 3)
    expect.equal(ml.ones(4099, { dtype = dtype }):sum({ dtype = "float32" }):item(), 4099)
    holds(ml.ones(3, 4099, { dtype = dtype }):mean(2):float(), { 1, 1, 1 })
  end
end)

test("a NaN of either sign wins among 16-bit floats, infinities are numbers", function()
  for _, dtype in ipairs { "bfloat16", "float16", "float32", "float64" } do
    for _, n in ipairs(LENGTHS) do
      for _, position in ipairs { 1, (n + 1) // 2, n } do
        local x = ml.ones(n, { dtype = dtype })
        for _, value in ipairs { inf, -inf } do
          x[position] = value
          local low, high = x:aminmax()
          holds(low, { math.min(value, n > 1 and 1 or value) })
          holds(high, { math.max(value, n > 1 and 1 or value) })
        end
        for _, sign in ipairs { 1, -1 } do
          x[position] = ml.tensor(nan):copysign(sign):item()
          holds(x:amax(), { nan })
          holds(x:amin(), { nan })
          holds(x:reshape(n, 1):amax(1), { nan })
          holds(x:reshape(1, n):expand(2, n):amin(2), { nan, nan })
        end
      end
    end
    holds(ml.tensor({ -0.0, -3, -5 }, { dtype = dtype }):amax(), { 0 })
  end
end)

test("a number is repeated over every length and dtype", function()
  for _, dtype in ipairs { "bfloat16", "float32", "float64", "int64", "int16", "uint8" } do
    for _, n in ipairs(LENGTHS) do
      local x = ml.zeros(n + 1, { dtype = dtype })
      x:narrow(1, 1, n):fill_(3)
      expect.equal(x:double():sum():item(), 3 * n)
      expect.equal(x[n + 1]:item(), 0)
    end
  end
  local z = ml.full({ 37 }, 2.5):double()
  holds(ml.view_as_real(ml.complex(z, z + 1):fill_(2.5):sum()), { 92.5, 0 })
end)

harness.run()
