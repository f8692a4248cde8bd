-- tests/lua/distributed/tensor_parallel_test.lua: layers that ranks share, beside one process:
-- results, gradients, second derivatives and training, with sizes that ranks cannot share evenly.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local nets = require "tensor_parallel_nets"
local ranks = require "distributed_ranks"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect

local function run(count, script) return ranks.run_well(count, nets.head .. script) end

for _, count in ipairs { 2, 4 } do
  test(("columns and rows with all layouts, %d ranks"):format(count), function()
    run(count, [[
      for _, hidden in ipairs { 8, 7, 3 } do
        local function make()
          return nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, 6))
        end
        local function check(what, plan, outside, inside)
          local one, net, x, y = twice(make, plan, 2, 4, 4)
          local own = inside and part(y, inside) or y
          local whole, result = one(x), net(own)
          if outside then whole = part(whole, outside) end
          near(result:detach(), whole:detach(), what)
          local a, b = one(x):pow(3):sum(), net(own):pow(3):sum()
          if inside then
            local f = ml.grad(a, x, { retain_graph = true })
            local g = ml.grad(b, y, { retain_graph = true })
            near(part(g, inside), part(f, inside), what .. ": gradient")
          else
            compare_gradients(a, x, b, y, what)
          end
          a:backward() b:backward()
          local c, r = one[1].weight.grad, one[3].weight.grad
          near(net[1].weight.grad, part(c, 1), what .. ": columns")
          near(net[1].bias.grad, part(one[1].bias.grad, 1), what .. ": their bias")
          near(net[3].weight.grad, part(r, 2), what .. ": rows")
          near(net[3].bias.grad, one[3].bias.grad, what .. ": bias of rows")
        end
        local C, R = tp.ColwiseParallel, tp.RowwiseParallel
        check("as usual", { ["0"] = C(), ["2"] = R() })
        check("gathered between", { ["0"] = C { output_layouts = Replicate() },
          ["2"] = R { input_layouts = Replicate() } })
        check("positions in", { ["0"] = C { input_layouts = Shard(2) }, ["2"] = R() }, nil, 2)
        check("positions out", { ["0"] = C(), ["2"] = R { output_layouts = Shard(2) } }, 2)
        check("positions in and out", { ["0"] = C { input_layouts = Shard(2) },
          ["2"] = R { output_layouts = Shard(-2) } }, 2, 2)
        check("positions between", { ["0"] = C { output_layouts = Shard(2) },
          ["2"] = R { input_layouts = Shard(2) } })
        check("features out", { ["0"] = C(), ["2"] = R { output_layouts = Shard(-1) } }, 3)
      end
      dist.destroy_process_group()
    ]])
  end)

  test(("embeddings by rows and by columns, %d ranks"):format(count), function()
    run(count, [[
      for _, rows in ipairs { 8, 7 } do
        for _, sparse in ipairs { false, true } do
          for _, dim in ipairs { 1, 2 } do
            local function make()
              return nn.Sequential(nn.Embedding(rows, 6, { padding_idx = 3, sparse = sparse }),
                nn.Tanh())
            end
            local style = dim == 1 and tp.RowwiseParallel()
              or tp.ColwiseParallel { output_layouts = Replicate() }
            local one, net = twice(make, { ["0"] = style }, 1)
            local ids = ml.randint(rows, { 3, 5 })
            near(net(ids):detach(), one(ids):detach(), "results")
            local function gradient(each)
              local loss = each(ids):pow(2):sum()
              loss:backward()
              local g = each[1].weight.grad
              return sparse and g:to_dense() or g
            end
            near(gradient(net), part(gradient(one), dim), "gradient")
            local wrong = ids:clone():fill_(rows + 1)
            if dim == 1 then
              local good, message = pcall(net, wrong)
              assert(not good and message:find(("index %d is out of range; there are %d rows")
                :format(rows + 1, rows), 1, true), message)
            end
          end
        end
      end
      dist.destroy_process_group()
    ]])
  end)

  test(("heads of attention, with masks and weights, %d ranks"):format(count), function()
    run(count, [[
      for _, given in ipairs { {}, { add_bias_kv = true, add_zero_attn = true },
          { kdim = 5, vdim = 3 }, { bias = false, batch_first = true } } do
        local function make() return nn.MultiheadAttention(12, 4, given) end
        local one, net, x, y = twice(make, tp.AttentionParallel(), 5, 2, 12)
        local key = given.kdim and ml.randn(5, 2, 5)
        local value = given.vdim and ml.randn(5, 2, 3)
        local n, l = given.batch_first and 5 or 2, given.batch_first and 2 or 5
        local masks = { ml.randn(l, l), ml.randn(n * 4, l, l) }
        for _, o in ipairs { { need_weights = false }, {}, { average_attn_weights = false },
            { attn_mask = masks[1] }, { attn_mask = masks[2], need_weights = false } } do
          local a, v = one(x, key or x, value or x, o)
          local b, w = net(y, key or y, value or y, o)
          near(b:detach(), a:detach(), "results")
          assert((v == nil) == (w == nil))
          local f, g = a:pow(2):sum(), b:pow(2):sum()
          if w then
            near(w:detach(), v:detach(), "weights")
            f, g = f + v:pow(2):sum(), g + w:pow(2):sum()
          end
          compare_gradients(f, x, g, y, "attention")
          one:zero_grad() net:zero_grad()
          f = one(x, key or x, value or x, { need_weights = false })[1]:pow(2):sum()
          g = net(y, key or y, value or y, { need_weights = false })[1]:pow(2):sum()
          f:backward() g:backward()
          near(net.out_proj.weight.grad, part(one.out_proj.weight.grad, 2), "out_proj")
          if one.out_proj.bias then
            near(net.out_proj.bias.grad, one.out_proj.bias.grad, "its bias")
          end
          if one.in_proj_weight then
            near(net.in_proj_weight.grad, part(one.in_proj_weight.grad, 1, 3), "in_proj")
          end
          if one.bias_k then near(net.bias_k.grad, part(one.bias_k.grad, 3), "bias_k") end
        end
      end
      dist.destroy_process_group()
    ]])
  end)
end

for _, count in ipairs { 2, 4 } do
  test(("cross entropy of sharded classes, %d ranks"):format(count), function()
    run(count, [[
      local F = nn.functional
      local weight = ml.rand(7) + 0.5
      dist.broadcast(weight, 0)
      for i, shape in ipairs { { 6, 7 }, { 4, 7, 3 }, { 7 }, { 2, 3 } } do
        ml.manual_seed(i)
        local classes = #shape > 1 and 2 or 1
        local x = (ml.randn(shape) * 5):requires_grad_(true)
        local y = part(x:detach(), classes):clone():requires_grad_(true)
        local rest = table.move(shape, 1, #shape, 1, {})
        local total = table.remove(rest, classes)
        local target = ml.randint(total, rest)
        if target:dim() > 0 then target:select(1, 1):fill_(-100) end
        local w = weight:narrow(1, 1, total)
        for _, o in ipairs { {}, { reduction = "sum" }, { reduction = "none" },
            { label_smoothing = 0.1 }, { weight = w }, { weight = w, label_smoothing = 0.2 },
            { weight = w, label_smoothing = 1, reduction = "none" }, { ignore_index = 2 } } do
          local known = target
          if o.ignore_index then known = target:masked_fill(target:lt(1), 1) end
          if #shape == 1 and o.ignore_index then known = known:clone():fill_(1) end
          local f = F.cross_entropy(x, known, o)
          local g = tp.loss_parallel(mesh, function() return F.cross_entropy(y, known, o) end)
          near(g:detach(), f:detach(), "loss")
          local c = ml.grad(f:pow(2):sum(), x, { create_graph = true })
          local d = ml.grad(g:pow(2):sum(), y, { create_graph = true })
          near(d:detach(), part(c:detach(), classes), "gradient")
          near(ml.grad((d * d):sum(), y), part(ml.grad((c * c):sum(), x), classes), "second")
        end
      end
      dist.destroy_process_group()
    ]])
  end)

  test(("targets, dtypes and infinite scores of sharded classes, %d ranks"):format(count), function()
    run(count, [[
      local F = nn.functional
      local scores = part(ml.zeros(2, 7), 2)
      do
        local _ <close> = tp.loss_parallel(mesh)
        local function refused(text, ...)
          local good, message = pcall(F.cross_entropy, ...)
          assert(not good and message:find(text, 1, true), message)
        end
        refused("a target must be a class from 1 to 7, or -100, which takes no part, got 8", scores,
          ml.tensor { 1, 8 })
        refused("the target must hold classes, got probabilities", scores, ml.zeros_like(scores))
        refused("a factor for each of the 7 classes of all ranks, got (2,)", scores,
          ml.tensor { 1, 2 }, { weight = ml.ones(2) })
        refused("the target must have (2), got (3,)", scores, ml.tensor { 1, 2, 3 })
      end
      -- The dtype of the loss is that of one process.
      for _, dtype in ipairs { "float64", "bfloat16" } do
        local scores, target = ml.ones(2, 4):to(dtype), ml.tensor { 2, 1 }
        local function both()
          return F.cross_entropy(scores, target), tp.loss_parallel(mesh, function()
            return F.cross_entropy(part(scores, 2), target)
          end)
        end
        for _, on in ipairs { false, true } do
          local f, g = ml.autocast({ dtype = ml.bfloat16, enabled = on }, both)
          assert(f.dtype == g.dtype, ("%s: %s, not %s"):format(dtype, g.dtype, f.dtype))
          near(g, f, dtype)
        end
      end
      -- Infinite scores, as one process has them.
      local x = ml.tensor { { -math.huge, 1.0, 2.0, 3.0 }, { 1.0, 2.0, math.huge, 0.0 } }
      local target = ml.tensor { 2, 1 }
      local f = F.cross_entropy(x, target, { reduction = "none" })
      local g = tp.loss_parallel(mesh, function()
        return F.cross_entropy(part(x, 2), target, { reduction = "none" })
      end)
      near(g[1], f[1], "minus infinity")
      assert(tostring(g[2]) == tostring(f[2]), tostring(g) .. tostring(f))
      dist.destroy_process_group()
    ]])
  end)
end

test("dropout: the same where all compute the same, each its own where they have parts", function()
  run(2, [[
    ml.manual_seed(rank)
    local net = nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 600), nn.Dropout(0.5),
      nn.Linear(600, 8), nn.Dropout(0.5))
    tp.parallelize_module(net, mesh, { ["1"] = tp.ColwiseParallel(), ["2"] = tp.SequenceParallel(-1),
      ["3"] = tp.RowwiseParallel() })
    local seen = {}
    for i in ipairs { 1, 2, 3, 4, 5 } do
      net[i]:register_forward_hook(function(_, _, y) seen[i] = y:detach() end)
    end
    local function both(x)
      local all = ml.empty(2, x:numel())
      dist.all_gather_into_tensor(all, x:contiguous():view(-1))
      return all[1], all[2]
    end
    local before
    for step = 1, 3 do
      local y = net(ml.ones(3, 8))
      local a, b = both(seen[1])
      assert(ml.equal(a, b) and a:eq(0):any():item())
      a, b = both(seen[3])
      assert(not ml.equal(a:eq(0), b:eq(0)))
      local share = seen[3]:eq(0):float():mean():item()
      assert(share > 0.4 and share < 0.6, share)
      if before then assert(not ml.equal(before:eq(0), seen[3]:eq(0)), "drawn anew") end
      before = seen[3]
      a, b = both(y:detach())
      assert(ml.equal(a, b) and a:eq(0):any():item())
      a, b = both(ml.rand(4))
      assert(ml.equal(a, b), "generators are in step")
    end
    net:eval()
    near(net(ml.ones(1, 8)):detach(), net(ml.ones(1, 8)):detach())
    -- Attention weights that are dropped keep generators in step, whatever is drawn.
    local attention = tp.parallelize_module(nn.MultiheadAttention(8, 2, { dropout = 0.5 }), mesh,
      tp.AttentionParallel())
    local x = ml.ones(3, 1, 8)
    local y = attention(x, x, x)
    local a, b = both(y:detach())
    assert(ml.equal(a, b))
    a, b = both(ml.rand(4))
    assert(ml.equal(a, b))
    dist.destroy_process_group()
  ]])
end)

test("what a checkpoint of activations computes again drops the same elements", function()
  run(2, [[
    local net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 4), nn.Dropout(0.5))
    tp.parallelize_module(net, mesh, { ["0"] = tp.ColwiseParallel(), ["1"] = tp.SequenceParallel(-1),
      ["2"] = tp.RowwiseParallel() })
    local x = ml.ones(3, 4):requires_grad_(true)
    local function trained(f)
      ml.manual_seed(5)
      net:zero_grad()
      local y = f()
      y:pow(2):sum():backward()
      return y:detach(), net[1].weight.grad, ml.rand(2)
    end
    local wanted = { trained(function() return net(x) end) }
    local got = { trained(function() return ml.utils.checkpoint.checkpoint(net, x) end) }
    assert(wanted[1]:ne(0):any():item())
    for i = 1, 3 do assert(ml.equal(got[i], wanted[i]), i) end
    dist.destroy_process_group()
  ]])
end)

test("parameters, buffers and generators begin as those of one rank; ties and copies stay", function()
  run(2, [[
    ml.manual_seed(10 + rank)
    local net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
    net[2].running_mean:fill_(rank)
    local wholes = { ml.empty(4, 4), net[1].weight:detach():clone() }
    wholes[1]:copy_(wholes[2])
    dist.broadcast(wholes[1], 1)
    tp.parallelize_module(net, mesh, { ["0"] = tp.ColwiseParallel() }, { src_data_rank = 1 })
    near(net[1].weight:detach(), part(wholes[1], 1))
    assert(net[2].running_mean[1]:item() == 1)
    local all = ml.empty(2, 16)
    dist.all_gather_into_tensor(all, net[3].weight:detach():reshape(-1))
    assert(ml.equal(all[1], all[2]))
    local numbers = ml.empty(2, 3)
    dist.all_gather_into_tensor(numbers, ml.rand(3))
    assert(ml.equal(numbers[1], numbers[2]))
    local alone = tp.parallelize_module(nn.Linear(4, 4), mesh, tp.ColwiseParallel(), false)
    assert(alone.weight:size(1) == 2)
    -- A copy computes by itself.
    local copy = net:deepcopy()
    copy[1].weight:detach():zero_()
    copy[1].bias:detach():zero_()
    assert(copy[1](ml.ones(1, 4)):abs():sum():item() == 0)
    assert(net[1](ml.ones(1, 4)):abs():sum():item() > 0)
    -- An embedding and a head of one matrix.
    local Tied = nn.class "Tied"
    function Tied:init()
      self.embedding, self.head = nn.Embedding(6, 4), nn.Linear(4, 6, { bias = false })
      self.head.weight = self.embedding.weight
    end
    function Tied:forward(ids) return self.head(self.embedding(ids)) end
    local tied = tp.parallelize_module(Tied(), mesh,
      { embedding = tp.RowwiseParallel(), head = tp.ColwiseParallel() })
    assert(#tied:parameters() == 1 and rawequal(tied.head.weight, tied.embedding.weight))
    local function refused(text, plan)
      local good, message = pcall(tp.parallelize_module, Tied(), mesh, plan)
      assert(not good and message:find(text, 1, true), message)
    end
    refused("share a parameter, of which each wants other parts",
      { embedding = tp.ColwiseParallel(), head = tp.ColwiseParallel() })
    refused("'embedding.weight' and 'head.weight' share a parameter, and the plan parts it only",
      { head = tp.ColwiseParallel() })
    dist.destroy_process_group()
  ]])
end)

-- Ends the group of one rank that `f` has made, also after an error.
local function alone(f)
  local mesh = ml.distributed.init_device_mesh("cpu", { 1 })
  local good, message = pcall(f, mesh, ml.distributed.tensor.parallel, ml.nn, ml.distributed.tensor)
  ml.distributed.destroy_process_group()
  if not good then error(message, 0) end
end

local function refuses(pattern, f, ...)
  local good, message = pcall(f, ...)
  expect.truthy(not good and message:find(pattern, 1, true), tostring(message))
end

test("one rank: all styles compute what the layers do", function()
  alone(function(mesh, tp, nn, dt)
    local net = nn.TransformerEncoderLayer(8, 2, { dim_feedforward = 16, dropout = 0 })
    local x = ml.randn(5, 3, 8)
    local wanted = net(x)
    tp.parallelize_module(net, mesh, { self_attn = tp.AttentionParallel(),
      linear1 = tp.ColwiseParallel(), dropout = tp.SequenceParallel(-1),
      linear2 = tp.RowwiseParallel(), norm1 = tp.SequenceParallel(1) })
    expect.truthy(ml.allclose(net(x), wanted))
    local prepared = tp.parallelize_module(nn.Identity(), mesh,
      tp.PrepareModuleInput({ dt.Shard(1), false }, { dt.Replicate(), false }))
    expect.equal(select("#", prepared(x, 3)), 2)
  end)
end)

test("PrepareModuleInput and PrepareModuleOutput change layouts, with gradients", function()
  run(2, [[
    local function make() return nn.Sequential(nn.Linear(4, 4), nn.Tanh()) end
    ml.manual_seed(1)
    local one = make()
    local net = one:deepcopy()
    tp.parallelize_module(net, mesh, { [""] = tp.PrepareModuleInput(Shard(1), Replicate()),
      ["1"] = tp.PrepareModuleOutput(Replicate(), Shard(2)) })
    local x = ml.randn(6, 4):requires_grad_(true)
    local y = part(x:detach(), 1):clone():requires_grad_(true)
    local a, b = one(x), net(y)
    near(b:detach(), part(a:detach(), 2))
    a:pow(2):sum():backward() b:pow(2):sum():backward()
    near(y.grad, part(x.grad, 1), "input")
    near(net[1].weight.grad, one[1].weight.grad, "weight")
    local good, message = pcall(tp.parallelize_module(nn.Identity(), mesh,
      tp.PrepareModuleOutput(Replicate(), Shard(1))), ml.ones(3, 4))
    assert(not good and message:find("2 ranks cannot share the 3 elements of dimension 1 evenly", 1,
      true), message)
    dist.destroy_process_group()
  ]])
end)

test("plans and styles that do not fit are refused", function()
  alone(function(mesh, tp, nn, dt)
    local function parallelize(plan, module, ...)
      return tp.parallelize_module(module or nn.Sequential(nn.Linear(4, 4), nn.ReLU()), mesh, plan,
        ...)
    end
    refuses("there is no module '5'", parallelize, { ["5"] = tp.ColwiseParallel() })
    refuses("the plan for '0' must be a style, got 1", parallelize, { ["0"] = 1 })
    refuses("'parallelize_plan' has styles by names of modules, got the key 1", parallelize,
      { tp.ColwiseParallel() })
    refuses("ColwiseParallel: '1' is an object of class ReLU, expected nn.Linear, nn.Embedding",
      parallelize, { ["1"] = tp.ColwiseParallel() })
    refuses("SequenceParallel: '1' is an object of class ReLU, expected nn.LayerNorm", parallelize,
      { ["1"] = tp.SequenceParallel() })
    local twice = parallelize { ["0"] = tp.ColwiseParallel() }
    refuses("expected nn.Linear, nn.Embedding with its own forward", parallelize,
      { ["0"] = tp.RowwiseParallel() }, twice)
    local Own = nn.class("Own", nn.Linear)
    function Own:forward(x) return x end
    refuses("is an object of class Own", parallelize, tp.ColwiseParallel(), Own(2, 2))
    refuses("an embedding with 'max_norm' cannot be sharded", parallelize, tp.ColwiseParallel(),
      nn.Embedding(4, 4, { max_norm = 1 }))
    refuses("'scale_grad_by_freq' cannot be sharded by rows", parallelize, tp.RowwiseParallel(),
      nn.Embedding(4, 4, { scale_grad_by_freq = true }))
    refuses("4 features are not 3 pieces of one size", parallelize,
      { ["0"] = tp.ColwiseParallel { parts = 3 } })
    refuses("'output_layouts' must be Shard(-1), got Replicate()", tp.ColwiseParallel,
      { parts = 3, output_layouts = dt.Replicate() })
    refuses("'src_data_rank' must be from 0 to 0, got 1", parallelize, tp.ColwiseParallel(),
      nn.Linear(2, 2), 1)
    refuses("'src_data_rank' must be a position in the mesh or false, got true", parallelize,
      tp.ColwiseParallel(), nn.Linear(2, 2), true)
  end)
  run(4, [[
    local good, message = pcall(tp.parallelize_module, nn.MultiheadAttention(12, 6), mesh,
      tp.AttentionParallel())
    assert(not good and message:find("4 ranks cannot share 6 heads evenly", 1, true), message)
    good, message = pcall(tp.parallelize_module, nn.Embedding(5, 2), mesh, tp.RowwiseParallel())
    assert(not good and message:find("of 5 rows the last of 4 ranks would have none", 1, true),
      message)
    dist.destroy_process_group()
  ]])
end)

test("layouts and meshes that do not fit are refused", function()
  alone(function(mesh, tp, nn, dt)
    local function parallelize(plan, module) return tp.parallelize_module(module, mesh, plan) end
    refuses("'dim' counts from 1, or from -1 for the last, got 0", dt.Shard, 0)
    refuses("a layout, Shard(dim) or Replicate()", tp.ColwiseParallel, { input_layouts = "shard" })
    refuses("Shard(3) is no layout of a tensor of 2 dimensions",
      parallelize(tp.ColwiseParallel { input_layouts = dt.Shard(3) }, nn.Linear(2, 2)), ml.ones(2, 2))
    refuses("dimension 2 is normalised over", parallelize(tp.SequenceParallel(2), nn.LayerNorm(3)),
      ml.ones(2, 3))
    refuses("'input_layouts' has 1 layouts, 'desired_input_layouts' has 2", tp.PrepareModuleInput,
      dt.Shard(1), { dt.Replicate(), false })
    refuses("value 1 must have both layouts, or none", tp.PrepareModuleInput, { dt.Shard(1) },
      { false })
    refuses("must hold layouts, or false for what stays, got 3 at 1", tp.PrepareModuleInput, { 3 },
      { 3 })
    refuses("value 1 has a layout, so it must be a tensor, got 5", parallelize(
      tp.PrepareModuleInput(dt.Shard(1), dt.Replicate()), nn.Identity()), 5)
    refuses("there are layouts of 2 values, got 1", parallelize(tp.PrepareModuleInput(
      { false, dt.Shard(1) }, { false, dt.Replicate() }), nn.Identity()), ml.ones(2))
    local grid = ml.distributed.init_device_mesh("cpu", { 1, 1 },
      { mesh_dim_names = { "dp", "tp" } })
    refuses("'device_mesh' must have one dimension, got DeviceMesh of cpu: dp 1, tp 1",
      tp.parallelize_module, nn.Linear(2, 2), grid, tp.ColwiseParallel())
    refuses("'device_mesh' must have one dimension", tp.loss_parallel, grid)
  end)
end)

harness.run()
