-- tests/lua/cuda/cuda_sorted_test.lua: sorting, selecting, scanning and writing to positions that come several
-- times on CUDA, with sizes around those of warps, blocks and pieces, compared with the CPU. Skips
-- without a device.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local checks = require "device_checks"
local on_device, agree, draw = checks.on_device, checks.agree, checks.draw

local FLOATS = { "float16", "bfloat16", "float32", "float64" }
local INTS = { "bool", "uint8", "int8", "int16", "int32", "int64" }
local REAL = table.move(INTS, 1, #INTS, #FLOATS + 1, table.move(FLOATS, 1, #FLOATS, 1, {}))
local NAN = 0 / 0

-- Elements of which many are equal, with the special ones of the dtype.
local function crowd(shape, dtype)
  local x = draw(shape, dtype)
  if not x:is_floating_point() then return x end
  x = (x * 2):round() / 2
  local flat = x:view { -1 }
  for i, v in ipairs { NAN, math.huge, -math.huge, -0.0, 0.0, NAN, -NAN } do
    if i * 2 <= flat:size(1) then flat[i * 2] = v end
  end
  return x
end

on_device("sorting rows of every length and dtype", function()
  for _, dtype in ipairs(REAL) do
    for _, shape in ipairs { { 5, 1 }, { 3, 31 }, { 9, 32 }, { 70, 33 }, { 3, 1025 }, { 2, 2048 },
      { 3, 2049 }, { 1, 5000 } } do
      local x = crowd(shape, dtype)
      local what = ("%s of %s"):format(x.shape, dtype)
      agree("sort, " .. what, function(t) return t:sort(-1) end, x)
      agree("sort downwards, " .. what, function(t) return t:sort(-1, true) end, x)
      agree("topk, " .. what, function(t) return t:topk(math.min(7, t:size(-1))) end, x)
    end
  end
end)

on_device("the first of long rows", function()
  for _, dtype in ipairs(REAL) do
    for _, case in ipairs { { { 3, 2100 }, 1 }, { { 3, 8191 }, 500 }, { { 2, 8193 }, 2048 },
      { { 2, 8193 }, 2049 }, { { 1, 20000 }, 33 }, { { 20000 }, 3 } } do
      local x, k = crowd(case[1], dtype), case[2]
      local what = (" %d of %s %s"):format(k, dtype, x.shape)
      agree("the largest" .. what, function(t) return t:topk(k) end, x)
      agree("the smallest" .. what, function(t) return t:topk(k, -1, false) end, x)
      if dtype ~= "bool" then agree("the one" .. what, function(t) return t:kthvalue(k, -1) end, x) end
    end
  end
  agree("of equal ones", function(t) return t:topk(70) end, ml.zeros { 2, 9000 })
  agree("of columns", function(t) return t:topk(5, 1), t:topk(5, 1)[2] end, ml.randn { 3000, 4 })
end)

on_device("sorting the limits of integers", function()
  for dtype, bits in pairs { int8 = 8, int16 = 16, int32 = 32, int64 = 64 } do
    local most = math.maxinteger >> (64 - bits)
    local x = ml.tensor({ most, -most - 1, 0, -1, 1, most, -most - 1 }, { dtype = dtype })
    agree("of " .. dtype, function(t) return t:sort(), t:sort(-1, true), t:sort(-1, true)[2] end, x)
    local long = x:tile { 1000 }
    agree("long, of " .. dtype, function(t) return t:sort() end, long)
    agree("few, of " .. dtype, function(t) return t:topk(9), t:topk(9, -1, false) end, long)
    agree("long and downwards, of " .. dtype, function(t) return t:sort(-1, true) end, long)
  end
end)

on_device("sorting along other dimensions and of views", function()
  for _, dtype in ipairs { "float32", "int64", "bfloat16" } do
    local x = crowd({ 7, 40, 6 }, dtype)
    for dim = 1, 3 do
      agree("dimension " .. dim, function(t) return t:sort(dim) end, x)
      agree("kth value", function(t) return t:kthvalue(3, dim) end, x)
      agree("kth value, kept", function(t) return t:kthvalue(3, dim, true) end, x)
      agree("topk", function(t) return t:topk(4, dim, false) end, x)
    end
    agree("transposed", function(t) return t:transpose(1, 3):sort(2, true) end, x)
    agree("flipped and cut", function(t) return t:flip { 2 }:narrow(2, 3, 33):sort(2) end, x)
    agree("expanded", function(t) return t:select(1, 1):expand { 3, 40, 6 }:sort(1) end, x)
    local tall = crowd({ 3000, 3 }, dtype)
    agree("long columns", function(t) return t:sort(1) end, tall)
    agree("long columns, median", function(t) return t:nanmedian(1) end, tall)
  end
end)

on_device("medians and kth values", function()
  for _, dtype in ipairs(REAL) do
    if dtype ~= "bool" then
      for _, shape in ipairs { { 1 }, { 2 }, { 33, 32 }, { 5, 33 }, { 3, 2048 }, { 3, 2049 }, { 5001 } } do
        local x = crowd(shape, dtype)
        local what = ("%s of %s"):format(x.shape, dtype)
        agree("median, " .. what, function(t) return t:median(), t:nanmedian() end, x)
        agree("median of rows, " .. what, function(t) return t:median(-1) end, x)
        agree("nanmedian of rows, " .. what, function(t) return t:nanmedian(-1) end, x)
        agree("kthvalue, " .. what, function(t) return t:kthvalue((t:size(-1) + 1) // 2, -1) end, x)
      end
    end
  end
  local x = ml.full({ 3, 2500 }, NAN)
  agree("all NaN", function(t) return t:nanmedian(2) end, x)
  agree("all NaN, median", function(t) return t:median(2) end, x)
  agree("of none", function(t) return t:median(), t:nanmedian() end, ml.zeros { 0 })
end)

on_device("only sizes that depend on values are waited for", function()
  if (os.getenv "MOONLET_CUDA_SYNC" or "0") ~= "0" then harness.skip "every kernel is waited for" end
  local x = ml.randn({ 3, 5000 }):round():to "cuda"
  local at = ml.randint(1, 3, { 5 }):to "cuda"
  local mask = x:gt(0)
  local function waits(f)
    ml.cuda.synchronize()
    local before = ml.cuda.wait_count()
    f()
    return ml.cuda.wait_count() - before
  end
  for _, case in ipairs {
    { "sort", 0, function() return x:sort() end }, { "topk", 0, function() return x:topk(4) end },
    { "kthvalue", 0, function() return x:kthvalue(4) end }, { "median", 0, function() return x:median() end },
    { "mode", 0, function() return x:mode() end }, { "cumsum", 0, function() return x:cumsum(2) end },
    { "index_add", 0, function() return x:index_add(1, at, x:index_select(1, at)) end },
    { "nonzero", 1, function() return x:nonzero() end },
    { "masked_select", 1, function() return x:masked_select(mask) end },
    { "unique", 1, function() return x:unique(true, true, true) end },
    { "unique_consecutive", 1, function() return x:unique_consecutive(true, true) end },
  } do
    harness.expect.equal(waits(case[3]), case[2], case[1])
  end
end)

on_device("a captured sort is played again with other numbers", function()
  local x = ml.randn({ 2, 5000 }):to "cuda"
  local graph, sorted, best, sums = ml.cuda.graph(function()
    return (x:sort(2)), (x:topk(3)), x:cumsum(2)
  end)
  local other = ml.randint(-9, 9, { 2, 5000 }):to "float32"
  x:copy_(other:to "cuda")
  graph:replay()
  ml.cuda.synchronize()
  checks.same("sorted", sorted, (other:sort(2)))
  checks.same("best", best, (other:topk(3)))
  checks.same("sums", sums, other:cumsum(2))
end)

on_device("sorting nothing", function()
  for _, shape in ipairs { { 0 }, { 3, 0 }, { 0, 3 }, { 0, 5000 } } do
    agree("sort", function(t) return t:sort(-1) end, ml.zeros(shape))
    agree("topk", function(t) return t:topk(0) end, ml.zeros(shape))
  end
  agree("0-d", function(t) return t:sort() end, ml.tensor(2.5))
end)

on_device("what comes once, how often, and the most frequent", function()
  for _, dtype in ipairs { "float32", "int32", "bool", "float16" } do
    local x = draw({ 37, 65 }, dtype)
    if x:is_floating_point() then x = x:round() end
    agree("unique of " .. dtype, function(t) return t:unique(true, true, true) end, x)
    agree("unique rows of " .. dtype, function(t)
      return t:narrow(2, 1, 2):unique(true, true, true, 1)
    end, x)
    agree("runs of " .. dtype, function(t) return t:unique_consecutive(true, true) end, x)
    if dtype ~= "bool" then agree("mode of " .. dtype, function(t) return t:mode(1) end, x) end
  end
end)

-- Positions: one position for all, few, as many as there are positions, and each once.
local function each_positions(count, positions, f)
  f("all at one position", ml.full({ count }, positions // 2 + 1, { dtype = "int64" }))
  f("at two positions", ml.randint(1, 2, { count }):clamp(1, positions))
  f("drawn", ml.randint(1, positions, { count }))
  f("in falling order", ml.arange(count, 1, -1):remainder(positions) + 1)
end

on_device("adding rows at positions that come several times", function()
  for _, dtype in ipairs { "float16", "bfloat16", "float32", "float64", "int8", "int16", "int64",
    "bool", "complex64", "complex128" } do
    for _, case in ipairs { { 1, 5, 1 }, { 31, 7, 3 }, { 33, 7, 16 }, { 64, 3, 4 }, { 65, 200, 1 },
      { 700, 9, 24 } } do
      local count, positions, inner = table.unpack(case)
      each_positions(count, positions, function(name, at)
        local what = ("%d rows of %d to %d positions, %s, %s"):format(count, inner, positions, name, dtype)
        -- Small whole numbers, of which all sums are exact.
        local source = draw({ count, inner }, dtype == "bool" and "bool" or "int8"):to(dtype)
        local x = ml.zeros({ positions, inner }, { dtype = dtype })
        agree("index_add, " .. what, function(t, i, s) return t:index_add(1, i, s) end, x, at, source)
        agree("index_copy, " .. what, function(t, i, s) return t:index_copy(1, i, s) end, x, at, source)
        agree("index_put, " .. what, function(t, i, s) return t:index_put({ i }, s, true) end, x, at,
          source)
        agree("along 2, " .. what, function(t, i, s) return t:t():index_add(2, i, s:t()) end, x, at,
          source)
      end)
    end
  end
end)

on_device("one position that is hit very often", function()
  local count = 40000
  local at = ml.randint(1, 3, { count })
  at:narrow(1, 1, 30000):fill_(2)
  for _, inner in ipairs { 1, 4, 40 } do
    local source = ml.randint(-3, 3, { count, inner }):to "float32"
    agree("index_add", function(t, i, s) return t:index_add(1, i, s) end, ml.ones { 5, inner }, at, source)
    agree("scaled", function(t, i, s) return t:index_add(1, i, s, { alpha = 0.5 }) end,
      ml.ones { 5, inner }, at, source)
    agree("the largest", function(t, i, s) return t:index_reduce(1, i, s, "amax", false) end,
      ml.ones { 5, inner }, at, source)
    agree("the mean", function(t, i, s) return t:index_reduce(1, i, s, "mean") end,
      ml.ones { 5, inner }, at, source)
    agree("the mean of integers", function(t, i, s) return t:index_reduce(1, i, s, "mean", false) end,
      ml.ones({ 5, inner }, { dtype = "int8" }), at, source:to "int8")
  end
  local rows = ml.randn { count, 16 }
  local first = ml.zeros({ 5, 16 }, { device = "cuda" }):index_add(1, at:to "cuda", rows:to "cuda")
  local again = ml.zeros({ 5, 16 }, { device = "cuda" }):index_add(1, at:to "cuda", rows:to "cuda")
  assert(first:equal(again), "another sum on another run")
  checks.same("sums", first, ml.zeros({ 5, 16 }, { dtype = "float64" }):index_add(1, at,
    rows:to "float64"):to "float32", 1e-4)
end)

on_device("all ways of joining at positions", function()
  local at = ml.tensor { { 1, 3, 3, 1 }, { 2, 2, 2, 2 }, { 4, 1, 4, 1 } }
  for _, dtype in ipairs { "float32", "bfloat16", "int32", "uint8", "float64" } do
    local x, source = draw({ 3, 5 }, dtype), draw({ 3, 4 }, dtype)
    for _, reduce in ipairs { "sum", "prod", "mean", "amax", "amin" } do
      for _, include in ipairs { true, false } do
        agree(("%s of %s"):format(reduce, dtype), function(t, i, s)
          return t:scatter_reduce(2, i, s, reduce, { include_self = include })
        end, x, at, source)
      end
    end
    agree("scatter of " .. dtype, function(t, i, s)
      return t:scatter(2, i, s), t:scatter_add(2, i, s), t:scatter(2, i, 3)
    end, x, at, source)
    local many, to = draw({ 300, 16 }, dtype), ml.randint(1, 4, { 300 })
    for _, reduce in ipairs { "amax", "amin", "mean" } do
      agree(reduce .. " of rows", function(t, i, s) return t:index_reduce(1, i, s, reduce) end,
        draw({ 4, 16 }, dtype), to, many)
    end
  end
end)

on_device("the gradient of an embedding", function()
  for _, dtype in ipairs(FLOATS) do
    for _, width in ipairs { 1, 7, 16, 200 } do
      local weight, at = draw({ 11, width }, dtype), ml.randint(1, 11, { 9, 30 })
      at[1]:fill_(4)
      agree(("of %d %s"):format(width, dtype), function(w, i)
        local v = w:clone():requires_grad_()
        local y = ml.nn.functional.embedding(i, v, { padding_idx = 3 })
        y:backward(ml.ones_like(y))
        return y:detach(), v.grad
      end, weight, at)
    end
  end
end)

-- Shapes and dimensions of scans, by who does a line: lanes, a block, several, a thread.
local SCANS = {
  { { 1 }, 1 }, { { 70, 3 }, 2 }, { { 9, 33 }, 2 }, { { 5, 127 }, 2 }, { { 3, 1024 }, 2 }, { { 2, 1025 }, 2 },
  { { 600, 1500 }, 2 }, { { 1, 8200 }, 2 }, { { 16385 }, 1 }, { { 33, 40 }, 1 }, { { 2, 31, 5 }, 2 },
  { { 32, 3 }, 1 }, { { 3000, 3 }, 1 }, { { 2, 65, 300 }, 2 }, { { 0, 4 }, 1 }, { { 4, 0 }, 2 }, {},
}

on_device("running sums and products", function()
  for _, dtype in ipairs { "bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64",
    "complex64", "complex128" } do
    for _, case in ipairs(SCANS) do
      local shape, dim = case[1] or {}, case[2] or 1
      local large = #shape == 2 and shape[1] == 600
      if not large or dtype == "float32" then
        -- Whole numbers, whose sums are exact.
        local x = draw(shape, dtype == "bool" and "bool" or "int8"):to(dtype)
        local what = (" of %s %s along %d"):format(dtype, x.shape, dim)
        agree("cumsum" .. what, function(t) return t:cumsum(dim) end, x)
        local signs = draw(shape, "bool"):to(dtype) * (dtype:find "^u" and 1 or 2)
        if dtype ~= "bool" then signs = signs + (dtype:find "^u" and 1 or -1) end
        agree("cumprod" .. what, function(t) return t:cumprod(dim) end, signs)
      end
    end
  end
  agree("of an integer's dtype", function(t) return t:cumsum(1, { dtype = "int8" }) end,
    draw({ 3000 }, "int8"))
  agree("in place", function(t) return t:clone():cumsum_(1), t:clone():cumprod_(2) end,
    draw({ 400, 5 }, "float64"):sign())
  agree("of views", function(t)
    return t:t():cumsum(1), t:narrow(2, 2, 1500):cumsum(2), t:flip { 1 }:cumsum(1)
  end, draw({ 6, 3000 }, "int32"):to "float32")
  agree("of later elements", function(t) return t:narrow(1, 2, 5000):cumsum(1) end,
    draw({ 5003 }, "int8"):to "float16")
  local x = ml.randn({ 3, 50000 }, { device = "cuda" })
  assert(x:cumsum(2):equal(x:cumsum(2)), "another sum on another run")
  checks.same("drawn", x:cumsum(2), x:to "cpu":to "float64":cumsum(2):to "float32", 1e-4)
end)

on_device("running extremes and logarithms of sums", function()
  for _, case in ipairs(SCANS) do
    local shape, dim = case[1] or {}, case[2] or 1
    for _, dtype in ipairs { "bool", "int8", "int64", "float16", "float32", "float64" } do
      if shape[1] ~= 600 or dtype == "float16" then
        local x = crowd(shape, dtype)
        local what = (" of %s %s along %d"):format(dtype, x.shape, dim)
        agree("cummax" .. what, function(t) return t:cummax(dim) end, x)
        agree("cummin" .. what, function(t) return t:cummin(dim) end, draw(shape, dtype))
      end
    end
    for _, dtype in ipairs { "bfloat16", "float32", "float64", "complex128" } do
      if shape[1] ~= 600 then
        agree("logcumsumexp of " .. dtype, function(t) return t:logcumsumexp(dim) end, draw(shape, dtype))
      end
    end
  end
  local x = ml.tensor { -math.huge, -math.huge, 1, math.huge, 2, NAN, 3 }
  agree("of special numbers", function(t) return t:logcumsumexp(1), t:cummax(1) end, x)
  agree("long, of special numbers", function(t) return t:logcumsumexp(1), t:cummin(1) end, x:tile { 2000 })
end)

on_device("reading rows and elements at positions", function()
  for _, dtype in ipairs { "bool", "uint8", "int16", "bfloat16", "float32", "int64", "complex64",
    "complex128" } do
    for _, inner in ipairs { 1, 2, 3, 4, 8, 16, 33 } do
      local x, at = draw({ 6, 5, inner }, dtype), ml.randint(1, 5, { 77 })
      local what = ("%s rows of %d"):format(dtype, inner)
      agree("index_select, " .. what, function(t, i) return t:index_select(2, i) end, x, at)
      agree("of a later part", function(t, i) return t:narrow(1, 2, 5):index_select(2, i) end, x, at)
      agree("transposed", function(t, i) return t:transpose(1, 3):index_select(2, i) end, x, at)
      agree("brackets", function(t, i)
        return t[{ i }], t[{ i, i }], t[{ {}, i }], t[{ {}, {}, i:clamp(1, inner) }],
          t[{ i, {}, i:clamp(1, inner) }], t:transpose(1, 2)[{ i }], t:narrow(3, 1, 1)[{ i }]
      end, x, at)
      agree("adding by brackets", function(t, i)
        local a, b = t:clone(), t:clone()
        a:index_put_({ i }, t[{ i }], true)
        b[{ {}, i:narrow(1, 1, 5) }] = t
        return a, b
      end, draw({ 6, 5, inner }, dtype == "bool" and "bool" or "int8"):to(dtype), at)
      local positions = ml.randint(1, 5, { 6, 9, inner })
      agree("gather, " .. what, function(t, i) return t:gather(2, i) end, x, positions)
      agree("gather of a view", function(t, i)
        return t:transpose(1, 3):gather(2, i:transpose(1, 3))
      end, x, positions)
    end
  end
  agree("of none", function(t, i) return t:index_select(1, i), t:gather(1, i) end, ml.ones { 3 },
    ml.zeros({ 0 }, { dtype = "int64" }))
end)

on_device("a position that is none", function()
  local x, at = ml.ones({ 4, 8 }, { device = "cuda" }), ml.tensor({ 1, 5 }, { device = "cuda" })
  for name, f in pairs {
    index_select = function() return x:index_select(1, at) end,
    index_add = function() return x:index_add(1, at, x:narrow(1, 1, 2)) end,
    gather = function() return x:gather(1, at:view { 1, 2 }) end,
  } do
    local ok, message = pcall(function()
      f()
      ml.cuda.synchronize()
    end)
    assert(not ok and message:find("position 5 is out of range for size 4", 1, true), name)
  end
end)

on_device("the positions of what is not zero", function()
  for _, dtype in ipairs { "bool", "uint8", "int32", "float16", "float32", "float64", "complex64" } do
    for _, shape in ipairs { {}, { 1 }, { 15 }, { 17 }, { 4096 }, { 4097 }, { 3, 5, 700 }, { 0, 3 } } do
      local x = draw(shape, dtype)
      if dtype ~= "bool" then x = x * draw(shape, "bool") end
      agree(("nonzero of %s %s"):format(dtype, x.shape), function(t) return t:nonzero() end, x)
      agree("selected", function(t, m) return t:masked_select(m) end, x, draw(shape, "bool"))
    end
  end
  local x = draw({ 70, 33 }, "bool")
  agree("of views", function(t) return t:t():nonzero(), t:narrow(2, 2, 30):nonzero() end, x)
  agree("of later bytes", function(t) return t:view { -1 }:narrow(1, 4, 2000):nonzero() end, x)
  agree("NaN and minus 0", function(t) return t:nonzero() end, ml.tensor { NAN, -0.0, 0.0, 1.0 })
  agree("none", function(t) return t:nonzero() end, ml.zeros { 5000 })
end)

harness.run()
