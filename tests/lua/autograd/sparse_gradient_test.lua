-- tests/lua/autograd/sparse_gradient_test.lua: gradients of rows: what sparse embeddings give their weight,
-- where a tensor comes instead, and what may be done with them.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local weights = require "sparse_weights"
local test, expect = harness.test, harness.expect
local nn, optim = ml.nn, ml.optim
local F = nn.functional

local ROWS, FEATURES, weight, same = weights.ROWS, weights.FEATURES, weights.weight, weights.same

-- The gradients with and without `sparse`, which `run(w, sparse)` leaves in w.
local function both(run, options)
  local a, b = weight(options), weight(options)
  run(a, true)
  run(b, false)
  return a.grad, b.grad
end

local function agree(run, tolerance, options)
  local rows, dense = both(run, options)
  expect.truthy(rows.is_sparse)
  expect.truthy(not dense.is_sparse)
  for _, made in ipairs { rows:to_dense(), rows:coalesce():to_dense(), rows:clone():to_dense() } do
    expect.equal(made.dtype, dense.dtype)
    same(made, dense:double():tolist(), tolerance or 0)
  end
  return rows
end

local INDEX = ml.tensor { { 1, 3 }, { 3, 2 } }
local GRADIENTS = ml.arange(0, 11, { dtype = ml.float64 }):reshape(2, 2, 3)

test("a sparse gradient has the rows that were used", function()
  local w = weight()
  F.embedding(INDEX, w, { padding_idx = 2, sparse = true }):mul(GRADIENTS):sum():backward()
  local g = w.grad
  expect.truthy(g.is_sparse and not w.is_sparse)
  expect.truthy(g == w.grad and g ~= g:clone())
  expect.equal(g:indices():tolist(), { { 1, 3, 3 } })
  expect.equal(g:values():tolist(), { { 0.0, 1.0, 2.0 }, { 3.0, 4.0, 5.0 }, { 6.0, 7.0, 8.0 } })
  expect.equal({ g:_nnz(), g:dim(), g.ndim, g:numel(), g:sparse_dim(), g:dense_dim() },
    { 3, 2, 2, 18, 1, 1 })
  expect.equal({ tostring(g.shape), tostring(g:size()), g:size(1), g:size(-1) },
    { "(6, 3)", "(6, 3)", 6, 3 })
  expect.equal({ g.dtype, g.device, g.is_cuda, g.requires_grad },
    { "float64", "cpu", false, false })
  local once = g:coalesce()
  expect.truthy(once:is_coalesced() and not g:is_coalesced() and once:coalesce() == once)
  expect.equal(once:indices():tolist(), { { 1, 3 } })
  expect.equal(once:values():tolist(), { { 0.0, 1.0, 2.0 }, { 9.0, 11.0, 13.0 } })
  expect.equal(g:_indices():tolist(), g:indices():tolist())
  expect.equal(g:_values():tolist(), g:values():tolist())
  local text = tostring(g)
  expect.truthy(text:find "indices" and text:find "SparseRows %(6, 3%) float64, 3 rows")
  expect.truthy(tostring(once):find "2 rows, coalesced")
end)

test("it is the dense gradient in other words", function()
  agree(function(w, sparse)
    F.embedding(INDEX, w, { sparse = sparse }):mul(GRADIENTS):sum():backward()
  end)
  agree(function(w, sparse)
    ml.embedding(w, INDEX, { padding_idx = 3, sparse = sparse }):pow(2):sum():backward()
  end)
  local net = function(w, sparse)
    local layer = nn.Embedding(ROWS, FEATURES, { padding_idx = 3, sparse = sparse })
    layer.weight = nn.Parameter(w)
    layer(INDEX):sin():sum():backward()
    w.grad = layer.weight.grad
  end
  agree(net)
  -- Expanded gradients, a single position, int32 positions, positions that are a view.
  agree(function(w, sparse) ml.embedding(w, INDEX, { sparse = sparse }):sum():backward() end)
  agree(function(w, sparse)
    ml.embedding(w, ml.tensor(4), { sparse = sparse }):sum():backward()
  end)
  agree(function(w, sparse)
    ml.embedding(w, INDEX:int():t(), { sparse = sparse }):mul(GRADIENTS):sum():backward()
  end)
end)

test("16-bit weights", function()
  for _, dtype in ipairs { ml.bfloat16, ml.float16, ml.float32 } do
    local rows = agree(function(w, sparse)
      local index = ml.ones(1024, { dtype = ml.int64 })
      ml.embedding(w, index, { sparse = sparse }):mul(0.75):sum():backward()
    end, 0, { dtype = dtype })
    expect.equal(rows.dtype, dtype)
    expect.equal(rows:coalesce():values():float():tolist()[1], { 768.0, 768.0, 768.0 })
  end
end)

test("no positions at all", function()
  local none = ml.zeros(0, { dtype = ml.int64 })
  local g = agree(function(w, sparse)
    ml.embedding(w, none, { sparse = sparse }):sum():backward()
  end)
  expect.equal({ g:_nnz(), tostring(g:values().shape), tostring(g:coalesce():indices().shape) },
    { 0, "(0, 3)", "(1, 0)" })
  expect.truthy(tostring(g):find "0 rows")
  local w = weight()
  local only = ml.tensor { 2, 2 }
  ml.embedding(w, only, { padding_idx = 2, sparse = true }):sum():backward()
  expect.equal(w.grad:_nnz(), 0)
  for _, Class in ipairs { optim.SGD, optim.Adagrad, optim.SparseAdam } do
    Class({ w }):step()
    same(w:detach(), weight():tolist(), 0)
  end
  expect.equal(nn.utils.clip_grad_norm_({ w }, 1):item(), 0.0)
  nn.utils.clip_grad_value_({ w }, 1)
end)

test("several backwards add up, on the gradient that scripts hold too", function()
  local w = weight()
  local y = ml.embedding(w, INDEX, { sparse = true }):mul(GRADIENTS)
  y:sum():backward { retain_graph = true }
  local g = w.grad
  y:sum():backward()
  expect.truthy(g == w.grad)
  expect.equal(g:indices():tolist(), { { 1, 3, 3, 2, 1, 3, 3, 2 } })
  same(g:to_dense()[3], { 18.0, 22.0, 26.0 }, 0)
  expect.error(function() y:sum():backward() end, "freed already")
  -- Several uses in one graph.
  agree(function(v, sparse)
    local z = 0
    for i = 1, 5 do z = z + ml.embedding(v, ml.tensor { i, i + 1 }, { sparse = sparse }):pow(i):sum() end
    z:backward()
  end, 1e-12)
end)

test("with a dense gradient it is dense, whichever comes first", function()
  local function sparse(w) return ml.embedding(w, INDEX, { sparse = true }):sum() end
  local function dense(w) return (w * w):sum() end
  local want = weight()
  local total = ml.embedding(want, INDEX):sum() + dense(want)
  total:backward()
  local runs = {
    function(w) (sparse(w) + dense(w)):backward() end,
    function(w) (dense(w) + sparse(w)):backward() end,
    function(w) sparse(w):backward() dense(w):backward() end,
    function(w) dense(w):backward() sparse(w):backward() end,
    function(w)
      w.grad = 2 * w:detach()
      sparse(w):backward()
    end,
  }
  for i, run in ipairs(runs) do
    local w = weight()
    run(w)
    expect.truthy(not w.grad.is_sparse)
    same(w.grad, want.grad:tolist(), 1e-15, "run " .. i)
  end
  -- It lies as the leaf does.
  for _, run in ipairs(runs) do
    local w = weight():detach():t():contiguous():t():requires_grad_()
    run(w)
    expect.equal({ w.grad:stride(1), w.grad:stride(2) }, { 1, ROWS })
    same(w.grad, want.grad:tolist(), 1e-15)
  end
  -- A tied output layer.
  local tied, plain = both(function(w, is_sparse)
    ml.embedding(w, INDEX, { sparse = is_sparse }):reshape(4, 3):mm(w:t()):pow(2):sum():backward()
  end)
  expect.truthy(not tied.is_sparse)
  same(tied, plain:tolist(), 1e-12, "tied")
  -- What a script holds stays as it was.
  local w = weight()
  sparse(w):backward()
  local g = w.grad
  dense(w):backward()
  expect.equal(g:_nnz(), 4)
end)

test("it is dense where rows would not do", function()
  local want = weight()
  ml.embedding(want, INDEX):pow(2):sum():backward()
  want = want.grad:tolist()
  local function loss(w) return ml.embedding(w, INDEX, { sparse = true }):pow(2):sum() end

  local w = weight()
  same(ml.grad(loss(w), w), want, 0, "grad")
  expect.equal(w.grad, nil)
  local g = ml.grad(loss(w), w, { create_graph = true })
  same(g, want, 0, "grad with create_graph")
  local twice = ml.tensor { { 2 }, { 2 }, { 4 }, { 0 }, { 0 }, { 0 } }:expand(ROWS, FEATURES)
  same(ml.grad(g:sum(), w), twice:tolist(), 0, "the second derivative")
  loss(w):backward { create_graph = true }
  expect.truthy(not w.grad.is_sparse and w.grad.requires_grad)
  same(w.grad:detach(), want, 0, "create_graph")
  w.grad = nil -- it holds the graph, which holds w

  w = weight()
  local seen
  local handle = w:register_hook(function(gradient) seen = gradient return gradient * 2 end)
  loss(w):backward()
  same(seen, want, 0, "what a hook sees")
  same(w.grad / 2, want, 0, "what it makes of it")
  handle:remove()
  w.grad = nil
  loss(w):backward()
  expect.truthy(w.grad.is_sparse)

  w = weight()
  local times = w * 1
  times:retain_grad()
  loss(times):backward()
  same(w.grad, want, 0, "a weight that is no leaf")
  same(times.grad, want, 0, "retain_grad")
  w = weight()
  loss(w:view(ROWS, FEATURES)):backward()
  same(w.grad, want, 0, "a view")
end)

test("hooks after the gradient was added", function()
  local w = weight()
  local nnz
  w:register_post_accumulate_grad_hook(function(leaf)
    nnz = leaf.grad:_nnz()
    leaf.grad = nil
  end)
  ml.embedding(w, INDEX, { sparse = true }):sum():backward()
  expect.equal({ nnz, w.grad }, { 4 })
end)

test("hooks on the result, and changes between forward and backward", function()
  local w = weight()
  local y = ml.embedding(w, INDEX, { sparse = true })
  local kept
  y:register_hook(function(g) kept = g end)
  y:mul(GRADIENTS):sum():backward()
  w.grad:mul_(2)
  expect.equal(kept:tolist(), GRADIENTS:tolist())  -- the gradient has memory of its own
  w.grad:values():zero_()
  expect.equal(w.grad:to_dense():abs():sum():item(), 0.0)

  -- The positions are the gradient's own; a weight's elements take no part.
  w = weight()
  local index = INDEX:clone()
  y = ml.embedding(w, index, { sparse = true })
  ml.no_grad(function() w:mul_(2) end)
  y:sum():backward()
  index:fill_(6)
  w.grad:indices():fill_(600)
  expect.equal(w.grad:indices():tolist(), { { 1, 3, 3, 2 } })
  index = INDEX:clone()
  y = ml.embedding(w, index, { sparse = true })
  index:fill_(6)
  expect.error(function() y:sum():backward() end, "changed in place")
  expect.equal(w.grad:_nnz(), 4)

  w = weight()
  y = ml.embedding(w, INDEX, { sparse = true })
  w.requires_grad = false
  y:sum():backward()
  expect.equal(w.grad, nil)
  expect.truthy(not ml.embedding(w, INDEX, { sparse = true }).requires_grad)
  w.requires_grad = true
  expect.truthy(not ml.no_grad(function() return ml.embedding(w, INDEX, { sparse = true }) end)
    .requires_grad)
end)

test("assigning and clearing", function()
  local function filled()
    local w = weight()
    ml.embedding(w, INDEX, { sparse = true }):sum():backward()
    return w
  end
  local w, other = filled(), weight()
  other.grad = w.grad
  expect.truthy(other.grad == w.grad)
  other.grad = w.grad:clone()
  w.grad:zero_()
  expect.equal({ w.grad:_nnz(), other.grad:_nnz() }, { 0, 4 })
  w.grad = nil
  expect.equal(w.grad, nil)
  w = filled()
  w.grad = ml.ones(ROWS, FEATURES, { dtype = ml.float64 })
  expect.truthy(not w.grad.is_sparse)
  w.grad = other.grad
  expect.truthy(w.grad.is_sparse)

  local sgd = optim.SGD({ w })
  sgd:zero_grad { set_to_none = false }
  expect.equal({ w.grad.is_sparse, w.grad:_nnz() }, { true, 0 })
  ml.embedding(w, INDEX, { sparse = true }):sum():backward()
  expect.equal(w.grad:_nnz(), 4)
  sgd:zero_grad()
  expect.equal(w.grad, nil)

  local g = filled().grad
  expect.error(function() ml.ones(2, 3, { dtype = ml.float64 }).grad = g end, "shape %(6, 3%)")
  expect.error(function() weight({ dtype = ml.float32 }).grad = g end, "float64")
  expect.error(function() (weight() * 1).grad = g end, "leaf")
  local kept = weight() * 1
  kept:retain_grad()
  expect.error(function() kept.grad = g end, "leaf")
  expect.error(function() g.shape = 1 end, "assigned")

  local half = g:mul_(0.5):to(ml.float32)
  expect.equal({ half.dtype, half:to_dense()[3]:tolist() }, { "float32", { 1.0, 1.0, 1.0 } })
  expect.equal(g:mul_(ml.tensor { 4.0 }):to_dense():tolist()[1], { 2.0, 2.0, 2.0 })
  expect.equal(g:detach():to_dense():tolist(), g:to_dense():tolist())
  expect.error(function() g:mul_(ml.ones(3)) end, "one element")
  expect.error(function() g:mul_ "a" end, "mul_: a number")
  expect.error(function() g:size(3) end, "out of range")
  expect.error(function() g:size(0) end, "out of range")
end)

test("a module that moves takes its gradient along", function()
  local net = nn.Embedding(ROWS, FEATURES, { sparse = true })
  net(INDEX):sum():backward()
  net:to(ml.float64)
  expect.equal({ net.weight.grad.is_sparse, net.weight.grad.dtype }, { true, "float64" })
  net(INDEX):sum():backward()
  expect.equal(net.weight.grad:_nnz(), 8)
end)

test("ops refuse it and say what to do", function()
  local w = weight()
  ml.embedding(w, INDEX, { sparse = true }):sum():backward()
  local g = w.grad
  for _, use in ipairs {
    function() return ml.sum(g) end, function() return ml.add(w, g) end, function() return w + g end,
    function() return g * 2 end, function() return g:sum() end, function() return g[1] end,
    function() return ml.cat { g, g } end, function() return w:copy_(g) end,
    function() return g:add_(1) end, function() return nn.utils.get_total_norm(g) end,
    function() return w:sub_(g) end,
  } do
    expect.error(use, "to_dense")
  end
  expect.truthy(not ml.is_tensor(g))
  expect.error(function() ml.save(os.tmpname(), { g = g }) end, "sparse gradient, which cannot be saved")
  expect.error(function() g.indices(w) end, "sparse gradient is expected")
end)

test("bags", function()
  local index, offsets = ml.tensor { 1, 3, 3, 6, 2, 3, 1 }, ml.tensor { 1, 4, 4, 6 }
  local gradients = ml.arange(0, 11, { dtype = ml.float64 }):reshape(4, 3) * 0.5 - 2
  -- PyTorch's.
  local cases = {
    { "sum", nil, false, { 1, 3, 3, 6, 2, 3, 1 },
      { { -2, -1.5, -1 }, { -2, -1.5, -1 }, { -2, -1.5, -1 }, { 1, 1.5, 2 }, { 1, 1.5, 2 },
        { 2.5, 3, 3.5 }, { 2.5, 3, 3.5 } } },
    { "sum", nil, true, { 1, 3, 3, 6, 2, 3, 1 },
      { { -1, -0.75, -0.5 }, { 2, 1.5, 1 }, { -4, -3, -2 }, { 1, 1.5, 2 }, { 0.25, 0.375, 0.5 },
        { 7.5, 9, 10.5 }, { -5, -6, -7 } }, { 1.375, -1.0, -1.0, 0.25, 2.5, 0.125, -2.0 } },
    { "sum", 3, false, { 1, 6, 2, 1 },
      { { -2, -1.5, -1 }, { 1, 1.5, 2 }, { 1, 1.5, 2 }, { 2.5, 3, 3.5 } } },
    { "sum", 3, true, { 1, 6, 2, 1 },
      { { -1, -0.75, -0.5 }, { 1, 1.5, 2 }, { 0.25, 0.375, 0.5 }, { -5, -6, -7 } },
      { 1.375, 0.0, 0.0, 0.25, 2.5, 0.0, -2.0 } },
    { "mean", nil, false, { 1, 3, 3, 6, 2, 3, 1 },
      { { -2 / 3, -0.5, -1 / 3 }, { -2 / 3, -0.5, -1 / 3 }, { -2 / 3, -0.5, -1 / 3 },
        { 0.5, 0.75, 1 }, { 0.5, 0.75, 1 }, { 1.25, 1.5, 1.75 }, { 1.25, 1.5, 1.75 } } },
    { "mean", 3, false, { 1, 6, 2, 1 },
      { { -2, -1.5, -1 }, { 0.5, 0.75, 1 }, { 0.5, 0.75, 1 }, { 2.5, 3, 3.5 } } },
  }
  for _, case in ipairs(cases) do
    local mode, padding, weighted, positions, values, factor_gradients = table.unpack(case, 1, 6)
    local w = weight()
    local factors = weighted and ml.tensor({ 0.5, -1, 2, 1, 0.25, 3, -2 },
      { dtype = ml.float64, requires_grad = true }) or nil
    F.embedding_bag(index, w, offsets, { mode = mode, sparse = true, per_sample_weights = factors,
      padding_idx = padding }):mul(gradients):sum():backward()
    expect.equal(w.grad:indices():tolist(), { positions })
    same(w.grad:values(), values, 1e-12, mode)
    if factors then same(factors.grad, factor_gradients, 1e-12) end
  end
  local w = weight()
  local bag = nn.EmbeddingBag(ROWS, FEATURES, { mode = "sum", sparse = true })
  bag.weight = nn.Parameter(w)
  same(bag(ml.tensor { { 1, 3 }, { 2, 2 } }):detach(),
    { (w[1] + w[3]):tolist(), (w[2] * 2):tolist() }, 0)
  bag(index, offsets, ml.ones_like(index):double()):mul(gradients):sum():backward()
  expect.equal(bag.weight.grad:indices():tolist(), { cases[1][4] })
  expect.truthy(tostring(bag):find "sparse, mode sum")
  -- Rows of bfloat16 are added up in float32.
  local narrow = weight({ dtype = ml.bfloat16 })
  F.embedding_bag(index, narrow, offsets, { mode = "sum", sparse = true }):sum():backward()
  expect.equal({ narrow.grad.dtype, narrow.grad:_nnz() }, { "bfloat16", 7 })
end)

test("options that do not go together", function()
  local w = weight()
  local both_given = { scale_grad_by_freq = true, sparse = true }
  expect.error(function() F.embedding(INDEX, w, both_given) end, "embedding: scale_grad_by_freq is not")
  expect.error(function() F.embedding_bag(INDEX, w, both_given) end, "scale_grad_by_freq is not")
  expect.error(function() F.embedding_bag(INDEX, w, { mode = "max", sparse = true }) end,
    "not for the mode \"max\"")
  -- max_norm limits the rows before they are read.
  F.embedding(INDEX, w, { max_norm = 0.5, sparse = true }):sum():backward()
  expect.equal(w.grad:_nnz(), 4)
  expect.truthy(w:detach()[1]:norm():item() < 0.5001)
  local net = nn.Embedding(ROWS, FEATURES, { max_norm = 0.5, sparse = true, scale_grad_by_freq = false })
  net(INDEX):sum():backward()
  expect.truthy(net.weight.grad.is_sparse and net.weight:detach()[3]:norm():item() < 0.5001)
  expect.truthy(tostring(net):find "max_norm 0.5, sparse")
  local by_freq = nn.Embedding(ROWS, FEATURES, { scale_grad_by_freq = true })
  by_freq(INDEX):sum():backward()
  expect.equal(by_freq.weight.grad[3]:tolist(), { 1.0, 1.0, 1.0 })
end)

-- A use of weight t, drawn at random.
local function random_use(t, sparse)
  local kind, index = math.random(6), ml.randint(ROWS, { math.random(0, 3), math.random(4) })
  local options = { padding_idx = math.random(0, ROWS), sparse = sparse }
  if kind == 1 then return t:sin() end
  if kind == 2 then return ml.embedding(t * 2, index, options) end
  if kind == 3 then
    return F.embedding_bag(index, t, { mode = math.random(2) == 1 and "sum" or "mean", sparse = sparse })
  end
  local y = ml.embedding(t, index, options)
  return kind == 4 and y:pow(2) or kind == 5 and ml.cat({ y, y * 2 }, 1) or y
end

-- What a random run of steps on two weights leaves: their values and gradients.
local function random_run(seed, sparse)
  math.randomseed(seed)
  ml.manual_seed(seed)
  local leaves, handle = { weight(), weight() }, nil
  for _ = 1, math.random(5) do
    local loss = ml.zeros({}, { dtype = ml.float64 })
    for _ = 1, math.random(4) do
      loss = loss + random_use(leaves[math.random(2)], sparse):sum()
    end
    local event = math.random(7)
    if event == 1 and not handle then
      handle = leaves[1]:register_hook(function(g) return g * 2 end)
    elseif event == 2 and handle then
      handle = handle:remove()
    elseif event == 3 then
      leaves[1].grad = nil
    elseif event == 4 then
      leaves[2].grad = leaves[1].grad and leaves[1].grad:clone()
    elseif event == 5 then
      ml.grad(loss, leaves, { retain_graph = true, allow_unused = true })
    elseif event == 6 then
      nn.utils.clip_grad_norm_(leaves, 1)
    end
    if math.random(4) == 1 then loss:backward { retain_graph = true } end
    loss:backward()
    if math.random(3) == 1 then optim.SGD(leaves, 0.01):step() end
  end
  local out = {}
  for i, leaf in ipairs(leaves) do
    local g = leaf.grad
    out[i], out[i + 2] = leaf:detach(), g and g.is_sparse and g:to_dense() or g
  end
  return out
end

test("random programs have the gradients that they have without", function()
  for seed = 1, 300 do
    local rows, dense = random_run(seed, true), random_run(seed, false)
    for k = 1, 4 do
      expect.equal(rows[k] == nil, dense[k] == nil)
      if rows[k] then same(rows[k], dense[k]:tolist(), 1e-9, ("program %d, %d"):format(seed, k)) end
    end
  end
end)

test("modes see the ops, not the sum of a leaf", function()
  local rows = agree(function(w, sparse)
    ml.autocast({ device = "cpu" }, function()
      ml.embedding(w, INDEX, { sparse = sparse }):sum():backward()
    end)
  end, 0, { dtype = ml.float32 })
  expect.equal(rows.dtype, "float32")
end)

test("many steps leave nothing behind", function()
  local w = weight()
  local sgd = optim.SGD({ w }, { lr = 0 })
  local function steps(n)
    for _ = 1, n do
      sgd:zero_grad()
      ml.embedding(w, INDEX, { sparse = true }):sum():backward()
      w.grad:coalesce():to_dense()
      sgd:step()
    end
    sgd:zero_grad()
    collectgarbage()
    collectgarbage()
    return ml.memory.live_bytes()
  end
  local before = steps(10)
  expect.truthy(steps(50) <= before)
end)

test("a gradient that is closed", function()
  local w = weight()
  ml.embedding(w, INDEX, { sparse = true }):sum():backward()
  local held
  do
    local g <close> = w.grad
    held = g
  end
  expect.error(function() held:values() end, "sparse gradient is expected")
  expect.error(function() w.grad = held end, "tensor is expected")
  expect.equal(w.grad:_nnz(), 4)
end)

harness.run()
