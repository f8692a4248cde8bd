-- tests/lua/autograd/vmap_rules_test.lua: rules by which vmap calls ops for a whole batch, where the samples of
-- the rows do not lead: weights, positions or statistics of each sample, changes in place, vmaps
-- inside one another, and gradients inside and through vmap. Each against a loop over the samples.

local ml = require "moonlet"
package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect
local func, internal, vmap = ml.func, ml._internal, ml.func.vmap

ml.set_default_dtype(ml.float64)
local COUNT = 3

local function near(got, want, what)
  expect.equal(tostring(got.shape), tostring(want.shape))
  if not ml.allclose(got:detach(), want:detach(), { rtol = 1e-8, atol = 1e-10, equal_nan = true }) then
    error(("%s: got %s, want %s"):format(what or "values", tostring(got), tostring(want)), 2)
  end
end

-- The arguments of sample i: those that `dims` names are batches in their first dimension.
local function sample(arguments, dims, i)
  local out = {}
  for k, x in ipairs(arguments) do out[k] = dims[k] and x[i]:clone() or x end
  return out
end

local function looped(f, arguments, dims)
  local results = {}
  for i = 1, COUNT do
    for k, y in ipairs { f(table.unpack(sample(arguments, dims, i))) } do
      results[k] = results[k] or {}
      results[k][i] = y
    end
  end
  for k, each in ipairs(results) do results[k] = ml.stack(each) end
  return results
end

local function weighted(f)
  return function(...)
    local sum = 0
    for k, y in ipairs { f(...) } do
      if y:is_floating_point() and y.requires_grad then
        sum = sum + (y * ml.linspace(1, 2 + k, y:numel()):reshape(y.shape)):sum()
      end
    end
    return sum
  end
end

local function all_positions(count)
  local out = {}
  for i = 1, count do out[i] = i end
  return out
end

-- vmap against the loop: values, gradients of each sample inside vmap, and gradients through it.
local function same(f, arguments, dims, options)
  options = options or {}
  local want = looped(f, arguments, dims)
  local in_dims = {}
  for k in ipairs(arguments) do in_dims[k] = dims[k] and 1 or false end
  local got = { vmap(f, { in_dims = in_dims })(table.unpack(arguments)) }
  for k, y in ipairs(want) do near(got[k], y, "result " .. k) end
  if options.values then return end
  local positions = {}
  for _, k in ipairs(options.by or all_positions(#arguments)) do
    if arguments[k]:is_floating_point() then positions[#positions + 1] = k end
  end
  local gradients = func.grad(weighted(f), { argnums = positions })
  local function listed(...) return table.unpack(gradients(...)) end
  want = looped(listed, arguments, dims)
  got = { vmap(listed, { in_dims = in_dims })(table.unpack(arguments)) }
  for k, y in ipairs(want) do near(got[k], y, "own gradient " .. positions[k]) end
  local own = {}
  for k, x in ipairs(arguments) do
    own[k] = x:is_floating_point() and x:detach():clone():requires_grad_() or x
  end
  local leaves = {}
  for i, k in ipairs(positions) do leaves[i] = own[k] end
  local function through(run)
    return { ml.grad(weighted(function() return table.unpack(run()) end)(), leaves,
      { allow_unused = true, materialize_grads = true }) }
  end
  want = through(function() return looped(f, own, dims) end)
  got = through(function()
    return { vmap(f, { in_dims = in_dims })(table.unpack(own)) }
  end)
  for k, y in ipairs(want) do near(got[k], y, "gradient through " .. positions[k]) end
end

-- Each choice of which arguments are batches, `make(k, batched)` being argument k.
local function each_choice(count, make, run)
  for choice = 1, 2 ^ count - 1 do
    local arguments, dims = {}, {}
    for k = 1, count do
      dims[k] = choice >> (k - 1) & 1 == 1
      arguments[k] = make(k, dims[k])
    end
    run(arguments, dims)
  end
end

local function shaped(shapes)
  ml.manual_seed(7)
  return function(k, batched)
    local shape = table.move(shapes[k], 1, #shapes[k], batched and 2 or 1, {})
    if batched then shape[1] = COUNT end
    return ml.randn(shape)
  end
end

test("norms with weights of each sample or of all", function()
  each_choice(3, shaped { { 4, 6, 3 }, { 6 }, { 6 } }, function(arguments, dims)
    same(function(x, w, b) return ml.batch_norm(x, nil, nil, w, b, true) end, arguments, dims)
    same(function(x, w, b) return ml.group_norm(x, 3, w, b) end, arguments, dims)
    same(function(x, w, b) return ml.instance_norm(x, nil, nil, w, b) end, arguments, dims)
    same(function(x, w, b) return ml.layer_norm(x, { 6, 3 }, w:reshape(6, 1):expand(6, 3),
      b:reshape(6, 1):expand(6, 3)) end, arguments, dims)
  end)
  local x, w = ml.randn(COUNT, 2, 4), ml.randn(COUNT, 4)
  same(function(v, weight) return ml.batch_norm(v, nil, nil, weight, nil, true) end, { x, w },
    { true, true })
  same(function(v) return ml.group_norm(v, 2) end, { x }, { true })
end)

test("norms of images that are of 16 bits keep their dtype", function()
  local x = ml.randn(COUNT, 2, 4, 3):to(ml.bfloat16)
  for _, dims in ipairs { { 1, 1 }, { 1, false } } do
    local w = ml.randn(dims[2] and { COUNT, 4 } or { 4 }, { dtype = ml.float32 })
    for _, f in ipairs { function(v, u) return ml.group_norm(v, 2, u) end,
      function(v, u) return ml.batch_norm(v, nil, nil, u, nil, true) end } do
      expect.equal(vmap(f, { in_dims = dims })(x, w).dtype, ml.bfloat16)
    end
  end
  local one, w = x[1], ml.randn({ COUNT, 4 }, { dtype = ml.float32 })
  expect.equal(vmap(function(u) return ml.batch_norm(one, nil, nil, u, nil, true) end)(w).dtype,
    ml.bfloat16)
end)

test("running statistics are each sample's own, or an error", function()
  ml.manual_seed(3)
  local x = ml.randn(COUNT, 4, 2, 3)
  for _, norm in ipairs { ml.batch_norm, ml.instance_norm } do
    local mean, var = ml.zeros(2, COUNT):t(), ml.ones(COUNT, 2)
    local y = vmap(function(v, m, s) return norm(v, m, s, nil, nil, true, 0.3) end)(x, mean, var)
    for i = 1, COUNT do
      local m, s = ml.zeros(2), ml.ones(2)
      near(y[i], norm(x[i], m, s, nil, nil, true, 0.3))
      near(mean[i], m)
      near(var[i], s)
    end
    local fixed = ml.zeros(2)
    expect.error(function() vmap(function(v) return norm(v, fixed, nil, nil, nil, true) end)(x) end,
      "_norm: inside vmap running_mean, which would be updated, is the same for all samples")
    near(fixed, ml.zeros(2))
    expect.error(function() vmap(function(v) return norm(v, nil, fixed, nil, nil, true) end)(x) end,
      "_norm: inside vmap running_var")
  end
  -- Where only the weights are of each sample, the statistics move once.
  local mean, var, want_mean, want_var = ml.zeros(2), ml.ones(2), ml.zeros(2), ml.ones(2)
  local w = ml.randn(COUNT, 2)
  local y = vmap(function(u) return ml.batch_norm(x[1], mean, var, u, u, true) end)(w)
  for i = 1, COUNT do
    near(y[i], ml.batch_norm(x[1], i == 1 and want_mean or nil, i == 1 and want_var or nil, w[i], w[i],
      true))
  end
  near(mean, want_mean)
  near(var, want_var)
  -- Outside training they are only read.
  near(vmap(function(v) return ml.batch_norm(v, mean, var) end)(x)[2], ml.batch_norm(x[2], mean, var))
end)

test("attention with whatever is of each sample", function()
  local shapes = { { 2, 3, 4 }, { 5, 4 }, { 2, 5, 3 }, { 3, 5 } }
  each_choice(4, shaped(shapes), function(arguments, dims)
    same(function(q, k, v, mask)
      return internal.flash_attention(q, k, v, mask, false, 0.5)
    end, arguments, dims)
    same(function(q, k, v, mask)
      return internal.native_attention(q, k, v, mask, false, 0.5)
    end, arguments, dims)
  end)
  each_choice(3, shaped { { 4, 3, 4 }, { 2, 5, 4 }, { 2, 5, 3 } }, function(arguments, dims)
    same(function(q, k, v)
      return ml.scaled_dot_product_attention(q, k, v, nil, 0, false, nil, true)
    end, arguments, dims)
  end)
  local seen = ml.tensor { { true, false, true }, { false, true, true } }
  local masks = ml.stack { seen, seen:logical_not(), ml.ones_like(seen) }
  local q, k = ml.randn(COUNT, 2, 4), ml.randn(3, 4)
  same(function(a, b, mask) return ml.scaled_dot_product_attention(a, b, b, mask) end, { q, k, masks },
    { true, false, true })
end)

test("recurrent networks with weights of each sample or of all", function()
  local sizes = { lstm = 8, gru = 6, rnn_tanh = 2, rnn_relu = 2 }
  for name, gates in pairs(sizes) do
    each_choice(4, shaped { { 4, 2, 3 }, { 1, 2, 2 }, { gates, 3 }, { gates, 2 } },
      function(arguments, dims)
        same(function(x, h, w_ih, w_hh)
          return ml[name](x, name == "lstm" and { h, h * 0.5 } or h, { w_ih, w_hh }, false, 1, 0, false,
            false, false)
        end, arguments, dims)
      end)
  end
  local mode = { 3, 2, 1 }
  each_choice(4, shaped { { 6, 6 }, { 3, 2 }, { 6, 2 }, { 6 } }, function(arguments, dims)
    for _, reverse in ipairs { false, true } do
      same(function(x, h, w, b)
        return (internal.native_recurrent(x, h, nil, w, b, mode, 1, reverse))
      end, arguments, dims)
    end
  end)
end)

test("positions of each sample along a dimension", function()
  ml.manual_seed(5)
  local x, source = ml.randn(COUNT, 4, 5), ml.randn(COUNT, 4, 3)
  local at = ml.tensor { { 1, 5, 5 }, { 2, 1, 4 }, { 3, 3, 3 } }
  for _, dims in ipairs { { true, true, true }, { false, true, false }, { false, true, true },
    { true, true, false } } do
    local a = { dims[1] and x or x[1], at, dims[3] and source or source[1] }
    same(function(v, i) return ml.index_select(v, 2, i) end, { a[1], at }, dims)
    same(function(v, i, s) return ml.index_add(v, 2, i, s) end, a, dims)
    same(function(v, i, s) return ml.index_add(v, 2, i, s, { alpha = 2.5 }) end, a, dims)
    same(function(v, i, s) return ml.index_copy(v, 2, i, s) end, a, dims)
    same(function(v, i) return ml.index_fill(v, 2, i, 1.5) end, { a[1], at }, dims)
    for _, reduce in ipairs { "prod", "mean", "amax", "amin" } do
      for _, include in ipairs { true, false } do
        same(function(v, i, s) return ml.index_reduce(v, 2, i, s, reduce, include) end, a, dims,
          { values = not dims[1] or not dims[3] })
      end
    end
    same(function(v, i, s) return v:clone():index_add_(2, i, s) end, { x, at, a[3] },
      { true, true, dims[3] })
  end
  local target = x:clone()
  vmap(function(v, i, s) return v:index_copy_(2, i, s) end)(target, at, source)
  for i = 1, COUNT do near(target[i], x[i]:index_copy(2, at[i], source[i])) end
  expect.error(function() vmap(function(i) return x[1]:index_fill_(2, i, 0) end)(at) end,
    "the same for all samples")
  expect.error(function() vmap(function(v, i) return ml.index_fill(v, 2, i, 0) end)(x, at + 1) end,
    "position 6 is out of range for size 5")
  expect.error(function()
    vmap(function(v, i, s) return ml.index_add(v, 2, i, s) end)(x, at, ml.randn(COUNT, 4, 2))
  end, "index_add: source has shape %(4, 2%), %(4, 3%) is expected")
end)

test("samples without dimensions have one to name", function()
  local x, at, source = ml.randn(COUNT), ml.ones({ COUNT, 1 }, { dtype = ml.int64 }), ml.randn(COUNT)
  same(function(v, i) return ml.index_select(v, 1, i) end, { x, at }, { true, true })
  same(function(v) return ml.index_select(v, 1, at[1]) end, { x }, { true })
  same(function(v, i) return ml.index_fill(v, 1, i, 2) end, { x, at }, { true, true })
  same(function(v) return ml.index_fill(v, 1, at[1], 2) end, { x }, { true })
  same(function(v, s) return ml.gather(v * s, 1, ml.tensor(1)) end, { x, source }, { true, true })
  same(function(v, s) return ml.scatter_add(v, 1, ml.tensor(1), s) end, { x, source }, { true, true })
  same(function(v) return ml.log_softmax(v, 1) + ml.softmax(v, 1) end, { x }, { true })
end)

test("indexing where what the positions make moves", function()
  ml.manual_seed(6)
  local x = ml.randn(COUNT, 2, 4, 3, 5)
  local a = ml.tensor { { 1, 2 }, { 2, 2 }, { 1, 1 } }
  local b = ml.tensor { { 3, 1 }, { 1, 2 }, { 2, 2 } }
  local forms = {
    function(v, i) return v[{ i }] end,
    function(v, i) return v[{ {}, i }] end,
    function(v, i) return v[{ {}, i, i }] end,
    function(v, i, j) return v[{ i, {}, j }] end,
    function(v, i, j) return v[{ {}, i, {}, j }] end,
    function(v, i, j) return v[{ {}, {}, i:reshape(2, 1), j }] end,
  }
  for _, f in ipairs(forms) do
    each_choice(3, function(k, batched)
      local whole = ({ x, a, b })[k]
      return batched and whole or whole[1]
    end, function(arguments, dims) same(f, arguments, dims) end)
  end
end)

test("assignments where what the positions make moves", function()
  ml.manual_seed(6)
  local x, values = ml.randn(COUNT, 2, 4, 3), ml.randn(COUNT, 2, 4)
  local a = ml.tensor { { 1, 2 }, { 2, 1 }, { 1, 1 } }
  local b = ml.tensor { { 3, 1 }, { 1, 2 }, { 2, 2 } }
  for _, accumulate in ipairs { false, true } do
    each_choice(4, function(k, batched)
      local whole = ({ x, a, b, values })[k]
      return batched and whole or whole[1]
    end, function(arguments, dims)
      same(function(v, i, j, s) return ml.index_put(v, { i, false, j }, s, accumulate) end, arguments, dims)
      same(function(v, i, j, s)
        return ml.index_put(v, { false, i, j }, s:sum(2), accumulate) + i:sum()
      end, arguments, dims)
      same(function(v, i, _, s) return ml.index_put(v, { false, i }, s[1][1], accumulate) end, arguments,
        dims)
    end)
  end
end)

test("embeddings and their bags", function()
  local at = ml.tensor { { 1, 5, 2, 2, 4 }, { 3, 3, 3, 1, 1 }, { 5, 4, 3, 2, 1 } }
  local starts = ml.tensor { { 1, 3, 4 }, { 1, 1, 6 }, { 1, 5, 5 } }
  local weights = ml.randn(COUNT, 5, 3)
  local factors = ml.randn(COUNT, 5)
  for choice = 1, 7 do
    local dims = { choice & 1 == 1, choice & 2 == 2, choice & 4 == 4 }
    local a = { dims[1] and weights or weights[1], dims[2] and at or at[1], dims[3] and starts or starts[1] }
    if dims[1] or dims[2] then
      same(function(w, i) return ml.embedding(w, i, 2) end, { a[1], a[2] }, { dims[1], dims[2] })
      same(function(w, i) return ml.embedding(w, i, 3, true) end, { a[1], a[2] }, { dims[1], dims[2] })
    end
    for _, mode in ipairs { "sum", "mean", "max" } do
      for _, last in ipairs { false, true } do
        same(function(w, i, o) return ml.embedding_bag(w, i, o, false, mode, nil, last, 2) end, a, dims)
      end
    end
    same(function(w, i, o, f) return ml.embedding_bag(w, i, o, false, "sum", f) end,
      { a[1], a[2], a[3], factors }, { dims[1], dims[2], dims[3], true })
  end
  expect.error(function() vmap(function(o) return ml.embedding_bag(weights[1], at[1], o) end)(starts + 1) end,
    "the first of offsets is 2")
  expect.error(function() vmap(ml.embedding)(weights, at + 1) end, "out of range for size 5")
end)

test("losses with class weights of each sample, and sequences", function()
  local x, w = ml.randn(COUNT, 4, 5), ml.rand(COUNT, 5)
  local target = ml.tensor { { 1, 5, 2, 2 }, { 3, 3, 1, 1 }, { 5, 4, 2, 1 } }
  for _, reduction in ipairs { "mean", "sum", "none" } do
    same(function(v, t, u) return ml.nll_loss(v, t, u, reduction, 2) end, { x, target, w },
      { true, true, true }, { by = { 1 } })
    same(function(v, u) return ml.nll_loss(v, target[1], u, reduction) end, { x[1], w },
      { false, true }, { by = { 1 } })
    same(function(v, t, u) return ml.nll_loss(v[1], t[1], u, reduction) end, { x, target, w },
      { true, true, true }, { by = { 1 } })
  end
  local log_probs = ml.randn(COUNT, 5, 2, 4):log_softmax(4)
  local labels = ml.tensor { { { 2, 3 }, { 4, 2 } }, { { 2, 2 }, { 4, 1 } }, { { 3, 1 }, { 2, 2 } } }
  for _, dims in ipairs { { true, true }, { true, false }, { false, true } } do
    local a = { dims[1] and log_probs or log_probs[1], dims[2] and labels or labels[1] }
    same(function(p, t) return ml.ctc_loss(p, t, { 5, 4 }, { 2, 1 }, 4) end, a, dims)
    same(function(p, t) return ml.ctc_loss(p, t:reshape(-1), { 5, 4 }, { 2, 2 }, 1, "none") end, a, dims)
  end
end)

test("composites have gradients inside vmap", function()
  same(ml.combinations, { ml.randn(COUNT, 4) }, { true })
  same(function(a, b) return (ml.linalg.lstsq(a, b)) end, { ml.randn(COUNT, 4, 2), ml.randn(COUNT, 4, 1) },
    { true, true })
  same(function(a, b) return (ml.linalg.lstsq(a, b)) end, { ml.randn(4, 2), ml.randn(COUNT, 4, 1) },
    { false, true })
  for _, driver in ipairs { "gelsd", "gels" } do
    same(function(a, b) return select(2, ml.linalg.lstsq(a, b, nil, driver)) end,
      { ml.randn(COUNT, 4, 2), ml.randn(COUNT, 4, 1) }, { true, true }, { values = true })
  end
  same(function(a, tolerance) return ml.linalg.pinv(a, nil, tolerance) end,
    { ml.randn(COUNT, 3, 2), ml.tensor { 0.1, 0.01, 0 } }, { true, true }, { by = { 1 } })
  same(function(x) return ml.block_diag { x, x:sum(1), x * 2 } end, { ml.randn(COUNT, 2, 3) }, { true })
  for _, p in ipairs { 1, 2, 3.5, math.huge } do
    same(function(x) return ml.pdist(x, p) end, { ml.randn(COUNT, 4, 3) }, { true })
  end
  same(function(x) return ml.linalg.qr(x, "r") end, { ml.randn(COUNT, 3, 2) }, { true }, { values = true })
end)

test("samples that do not fit are errors, though their batch would", function()
  local vectors, matrices = ml.randn(COUNT, 4), ml.randn(COUNT, 4, 4)
  local function refused(f, pattern, ...)
    local arguments = { ... }
    expect.error(function() vmap(f)(table.unpack(arguments)) end, pattern)
  end
  for _, f in ipairs { ml.triu, ml.tril, ml.linalg.qr, ml.linalg.svdvals, ml.linalg.lu_factor_ex, ml.matrix_exp } do
    refused(f, "two", vectors)
    refused(f, "two", vectors:select(2, 1))
  end
  refused(ml.mm, "mm", vectors, matrices)
  refused(ml.bmm, "bmm", matrices, matrices)
  refused(ml.mv, "mv", matrices, matrices)
  refused(ml.dot, "dot", matrices, vectors)
  refused(ml.outer, "outer", matrices, vectors)
  refused(ml.t, "t: a sample of 3 dimensions", ml.ones(COUNT, 2, 4, 4))
  refused(function(x) return ml.layer_norm(x, { COUNT, 4 }) end, "layer_norm", vectors)
  refused(function(x) return ml.linear(x, ml.ones(2, COUNT)) end, "linear", vectors:select(2, 1))
  refused(function(x, t) return ml.nll_loss(x, t, nil, "none") end, "nll_loss", vectors,
    ml.ones({ COUNT, 1 }, { dtype = ml.int64 }))
  refused(function(x, i) return ml.index_select(x, 1, i) end, "one dimension expected", vectors,
    ml.ones({ COUNT, 1, 2 }, { dtype = ml.int64 }))
  for _, weight in ipairs { matrices, vectors } do
    refused(function(x, w) return internal.native_recurrent(x, x, nil, w, nil, { 4 }, 3, false) end,
      "native_recurrent: w_hh has shape", matrices, weight:narrow(2, 1, 3))
  end
end)

test("images", function()
  local theta, x = ml.randn(COUNT, 2, 2, 3) * 0.3, ml.randn(COUNT, 2, 3, 4, 5)
  for _, dims in ipairs { { true, true }, { true, false }, { false, true } } do
    local a = { dims[1] and theta or theta[1], dims[2] and x or x[1] }
    for _, mode in ipairs { "bilinear", "bicubic" } do
      same(function(t, v) return ml.grid_sample(v, ml.affine_grid(t, { 2, 3, 2, 3 }), mode) end, a, dims)
    end
  end
  same(function(v) return ml.col2im(ml.im2col(v, { 2, 3 }), { 4, 5 }, { 2, 3 }) end, { x }, { true })
  same(function(v) return ml.col2im(v, { 3, 3 }, { 2, 2 }) end, { ml.randn(COUNT, 8, 4) }, { true })
  same(function(v, r) return (ml.fractional_max_pool2d(v, 2, { 2, 3 }, r)) end, { x, ml.rand(COUNT, 2, 3, 2) },
    { true, true }, { by = { 1 } })
end)

test("searches and orders", function()
  local sorted = ml.randn(COUNT, 6):sort(2)
  local orders = ml.stack { ml.randperm(6), ml.randperm(6), ml.randperm(6) }
  each_choice(2, function(k, batched)
    local whole = k == 1 and sorted or ml.randn(COUNT, 2, 3)
    return batched and whole or whole[1]
  end, function(arguments, dims) same(ml.searchsorted, arguments, dims, { values = true }) end)
  same(function(s, v) return ml.searchsorted(s:reshape(2, 3):sort(2), v) end,
    { sorted, ml.randn(2, 3) }, { true, false }, { values = true })
  same(function(v, o) return ml.searchsorted(ml.arange(1, 6):double()[{ o:argsort() }], v,
    { sorter = o }) end, { ml.rand(COUNT, 4) * 6, orders }, { true, true }, { values = true })
  same(ml.nonzero, { ml.tensor { { 0, 1, 2 }, { 3, 0, 1 }, { 1, 1, 0 } } }, { true }, { values = true })
  same(ml.nonzero, { ml.zeros(COUNT, 2, 2) }, { true }, { values = true })
  expect.error(function() vmap(ml.nonzero)(ml.tensor { { 0, 1 }, { 1, 1 }, { 0, 0 } }) end,
    "every sample must give a result of the same shape")
  expect.error(function() vmap(ml.nonzero)(ml.tensor { { 0, 1 }, { 1, 1 } }) end,
    "every sample must give a result of the same shape")
end)

test("ranges and histograms of each sample", function()
  local low, high = ml.tensor { 0.5, -1, 2 }, ml.tensor { 3.0, 4, 2 }
  for _, steps in ipairs { 0, 1, 2, 7 } do
    same(function(a, b) return ml.linspace(a, b, steps) end, { low, high }, { true, true }, { values = true })
    same(function(a) return ml.linspace(a, 3, steps) end, { low }, { true }, { values = true })
    same(function(a) return ml.logspace(-1, a, steps) end, { low }, { true }, { values = true })
  end
  same(function(a) return ml.linspace(a, 9, 4, { dtype = "int64" }) end, { low }, { true }, { values = true })
  expect.error(function() vmap(function(a) return ml.linspace(a, 3, 4, { dtype = "uint8" }) end)(low) end,
    "linspace")
  local x = ml.randn(COUNT, 4, 5)
  local at = ml.tensor { { 1, 2, 2 }, { 4, 4, 1 }, { 3, 1, 4 } }
  same(function(v) return v:bincount { minlength = 4 } end, { at }, { true }, { values = true })
  same(function(v) return v:bincount(ml.tensor { 0.5, 1, 2 }, 5) end, { at }, { true }, { values = true })
  expect.error(function() ml.vmap(function(v) return v:bincount() end)(at) end, "minlength")
  expect.error(function() ml.vmap(function(v) return v:bincount { minlength = 3 } end)(at) end, "4")
  same(function(v) return ml.histc(v, 5) end, { x }, { true }, { values = true })
  same(function(v) return ml.histc(v, 4, -1, 1) end, { x }, { true }, { values = true })
  same(function(v) return ml.histc(v * 0 + 1, 3) end, { x }, { true }, { values = true })
end)

test("changes of each sample in place", function()
  local x = ml.randn(COUNT, 4, 3)
  for _, shape in ipairs { { COUNT, 4, 3 }, { COUNT, 3 }, { COUNT } } do
    local source = ml.randn(shape)
    same(ml.copy, { x[1], source }, { false, true })
    same(function(v, s) return (v * 2):copy_(s) end, { x, source }, { true, true })
    same(function(v, s) return (v * 2):copy_(s) end, { x, source[1] }, { true, false })
  end
  same(function(v, s) return ml.fill(v, s) end, { x[1], x[{ {}, 1, 1 }]:clone() }, { false, true })
  same(function(v) return v:clone():fill_diagonal_(7) end, { x }, { true })
  same(function(v) return v:clone():fill_diagonal_(7, true) end, { ml.randn(COUNT, 7, 2) }, { true })
  same(function(v) return v:clone():fill_diagonal_(7) end, { ml.randn(COUNT, 2, 2, 2) }, { true })
  local gradient, moment = ml.randn(COUNT, 4, 3), ml.randn(COUNT, 4, 3)
  local square = moment:square()
  same(function(v, g, m)
    v, m = v:clone(), m:clone()
    internal.sgd_step({ v }, { g }, { m }, 0.1, 0.9, 0, true, false, 0.01)
    return v + m
  end, { x, gradient, moment }, { true, true, true }, { values = true })
  same(function(v, g, m, s)
    v, m = v:clone(), m:clone()
    internal.adam_step({ v }, { g }, { m }, { s:clone() }, {}, 0.1, 0.5)
    return v + m
  end, { x, gradient[1], moment, square }, { true, false, true, true }, { values = true })
end)

test("vmaps inside one another", function()
  ml.manual_seed(9)
  local x = ml.randn(2, COUNT, 4, 6, 2)
  local w = ml.randn(2, 6)
  local function twice(f, ...) return vmap(function(...) return vmap(f, { in_dims = { 1, false } })(...) end)(...) end
  for _, f in ipairs { function(v, u) return ml.batch_norm(v, nil, nil, u, nil, true) end,
    function(v, u) return ml.group_norm(v, 2, u) end,
    function(v, u) return ml.scaled_dot_product_attention(v, v, v) * u[1] end,
    function(v, u) return ml.block_diag { v[1], u } end,
    function(v, u) return ml.pdist(v[1]) * u[1] end,
    function(v, u) return ml.searchsorted(u:sort(1), v) end,
    function(v, u) return ml.nonzero(v * u[1]) end,
    function(v, u) return v[{ {}, u:argsort() }] end } do
    local y = twice(f, x, w)
    for i = 1, 2 do
      for k = 1, COUNT do near(y[i][k], f(x[i][k], w[i])) end
    end
  end
end)

test("gradients through the gradients of each sample", function()
  ml.manual_seed(11)
  local shapes = { { 4, 6, 2 }, { 6, 2 }, { 6, 2 } }
  for _, f in ipairs {
    function(x, w, b) return (ml.layer_norm(x, { 6, 2 }, w, b) + ml.rms_norm(x, { 6, 2 }, w)):tanh() end,
    function(x, w, b) return ml.batch_norm(x, nil, nil, w:sum(2), b:sum(2), true):tanh() end,
    function(x, w, b) return ml.group_norm(x, 3, w:sum(2), b:sum(2)):tanh() end,
    function(x, w, b) return ml.scaled_dot_product_attention(x, x * w, x + b):tanh() end,
    function(x, w, b) return (ml.rnn_tanh(x, b[1]:expand(1, 6, 2), { w[{ { 1, 2 } }], b[{ { 1, 2 } }] }, false,
      1, 0, false, false, false)) end,
  } do
    local penalty = func.grad(weighted(f), { argnums = { 1, 2 } })
    each_choice(3, shaped(shapes), function(arguments, dims)
      same(function(...) return table.unpack(penalty(...)) end, arguments, dims)
    end)
  end
end)

-- What a script prints, warnings included.
local function output_of(script)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(script)
  file:close()
  local pipe = assert(io.popen(("%s %s 2>&1"):format(arg[-1], path)))
  local text = pipe:read "a"
  pipe:close()
  os.remove(path)
  return text
end

-- Gradients of each sample of a network, with no op that runs sample by sample.
local PER_SAMPLE = [[
local ml = require "moonlet"
local nn, F = ml.nn, ml.nn.functional
ml.manual_seed(1)
local function check(net, x, target)
  local parameters, names = {}, {}
  for name, p in net:named_parameters() do names[#names + 1], parameters[name] = name, p:detach() end
  local function loss(own, v, t)
    local y = ml.func.functional_call(net, own, { v:unsqueeze(1) })
    return F.cross_entropy(y, t:unsqueeze(1))
  end
  local gradient = ml.func.grad(loss)
  local all = ml.func.vmap(gradient, { in_dims = { false, 1, 1 } })(parameters, x, target)
  for i = 1, #x do
    local one = gradient(parameters, x[i], target[i])
    for _, name in ipairs(names) do
      local gap = (all[name][i] - one[name]):abs():max():item()
      if gap > 1e-4 then print(name, gap) end
    end
  end
end
]]

local NETS = {
  ["a convolution with group norm"] = [[
local Norm = nn.class("Norm", nn.Module)
function Norm:init(groups, size)
  self.groups, self.weight, self.bias = groups, nn.Parameter(ml.rand(size)), nn.Parameter(ml.rand(size))
end
function Norm:forward(x) return F.group_norm(x, self.groups, self.weight, self.bias) end
check(nn.Sequential(nn.Conv2d(3, 8, 3), Norm(2, 8), nn.ReLU(), nn.MaxPool2d(2),
  nn.Conv2d(8, 6, 3), Norm(3, 6), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4)),
  ml.randn(4, 3, 10, 10), ml.tensor { 1, 4, 2, 2 })]],
  ["a convolution with batch norm"] = [[
check(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, { track_running_stats = false }), nn.ReLU(),
  nn.AvgPool2d(2), nn.Flatten(), nn.Linear(128, 4)), ml.randn(4, 3, 10, 10), ml.tensor { 1, 4, 2, 2 })]],
  ["a transformer"] = [[
local Block = nn.class("Block", nn.Module)
function Block:init()
  self.ask, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
  self.before, self.between = nn.LayerNorm(8), nn.LayerNorm(8)
  self.wide, self.narrow = nn.Linear(8, 16), nn.Linear(16, 8)
end
function Block:forward(x)
  local parts = self.ask(self.before(x)):chunk(3, -1)
  for i, part in ipairs(parts) do parts[i] = part:unflatten(-1, { 2, 4 }):transpose(2, 3) end
  local seen = F.scaled_dot_product_attention(parts[1], parts[2], parts[3], { is_causal = true })
  x = x + self.out(seen:transpose(2, 3):flatten(3))
  return x + self.narrow(F.gelu(self.wide(self.between(x))))
end
local Net = nn.class("Net", nn.Module)
function Net:init()
  self.tokens, self.blocks = nn.Embedding(11, 8), nn.Sequential(Block(), Block())
  self.head = nn.Linear(8, 4)
end
function Net:forward(x) return self.head(self.blocks(self.tokens(x)):mean(2)) end
check(Net(), ml.randint(1, 11, { 4, 6 }), ml.tensor { 1, 4, 2, 2 })]],
}
for name, script in pairs(NETS) do
  test("gradients of each sample of " .. name .. " run at once", function()
    expect.equal(output_of(PER_SAMPLE .. script), "")
  end)
end

test("no row's samples run one by one", function()
  local here = arg[0]:match("^(.*)/") or "."
  local pipe = assert(io.popen(("%s %s/transforms_ops_test.lua 2>&1"):format(arg[-1], here)))
  for line in pipe:lines() do
    expect.truthy(not line:find "sample by sample", line)
  end
  pipe:close()
end)

harness.run()
