-- tests/lua/cuda/cuda_parallel_test.lua: tensors and modules on several devices: ml.cuda.comm,
-- nn.parallel, nn.DataParallel. Skips without two devices.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect
local cuda, nn = ml.cuda, ml.nn

local function on_two(name, body)
  test(name, function()
    if cuda.device_count() < 2 then harness.skip "no two CUDA devices" end
    body()
  end)
end

local function devices_of(tensors)
  local out = {}
  for i, t in ipairs(tensors) do out[i] = t.device end
  return table.concat(out, " ")
end

local function same(got, want, what)
  local a, b = got:detach():cpu():to "float64", want:detach():cpu():to "float64"
  expect.equal(tostring(a.shape), tostring(b.shape), what)
  expect.truthy((a - b):abs():amax():item() < 1e-6, what)
end

on_two("broadcast sends copies, and keeps what is there", function()
  local x = ml.arange(6):float():reshape(2, 3):cuda()
  local copies = cuda.comm.broadcast(x, { 0, "cuda:1" })
  expect.equal(devices_of(copies), "cuda:0 cuda:1")
  expect.equal(copies[1]:data_ptr(), x:data_ptr())
  same(copies[2], x)
  local out = { ml.zeros(2, 3, { device = "cuda:1" }), ml.zeros(2, 3, { device = "cuda:0" }) }
  same(cuda.comm.broadcast(x, { out = out })[1], x)
  expect.error(function() cuda.comm.broadcast(x) end, "exactly one of 'devices' and 'out'")
  expect.error(function() cuda.comm.broadcast(x, { 0 }, out) end, "exactly one of 'devices' and 'out'")
  expect.error(function() cuda.comm.broadcast(x, { 0, 9 }) end, "there is no device 9")
  expect.error(function() cuda.comm.broadcast(x, {}) end, "at least one device")
  expect.error(function() cuda.comm.broadcast(x, { out = { ml.zeros(2, 3) } }) end, "a CUDA tensor")
end)

on_two("several tensors are sent together, of each dtype, and their sums come back", function()
  local list = { ml.rand(3, 4):cuda(), ml.arange(5):cuda(), ml.rand(7):cuda(), ml.tensor(2.5):cuda() }
  for _, size in ipairs { 1, 20, 1 << 20 } do
    local copies = cuda.comm.broadcast_coalesced(list, { 0, 1 }, size)
    expect.equal(#copies, 2)
    for i, t in ipairs(list) do
      expect.equal(copies[1][i]:data_ptr(), t:data_ptr())
      expect.equal(copies[2][i].device, "cuda:1")
      expect.equal(copies[2][i].dtype, t.dtype)
      same(copies[2][i], t)
    end
    local sums = cuda.comm.reduce_add_coalesced(copies, 1, size)
    for i, t in ipairs(list) do
      expect.equal(sums[i].device, "cuda:1")
      same(sums[i], t * 2)
    end
  end
  expect.error(function() cuda.comm.broadcast_coalesced(list, { 1, 0 }) end, "the first device is cuda:1")
  expect.error(function() cuda.comm.reduce_add_coalesced { { list[1] }, {} } end, "lists of as many tensors")
end)

on_two("reduce_add sums on one of the devices", function()
  local a, b = ml.rand(3):cuda(), ml.rand(3):cuda(1)
  local sum = cuda.comm.reduce_add { a, b }
  expect.equal(sum.device, "cuda:0")
  same(sum, a + b:to "cuda:0")
  expect.equal(cuda.comm.reduce_add({ a, b }, 1).device, "cuda:1")
  expect.error(function() cuda.comm.reduce_add({ a, a }, 1) end, "none of the tensors is on the destination")
  expect.error(function() cuda.comm.reduce_add { a, ml.rand(3) } end, "not on a CUDA device")
  expect.error(function() cuda.comm.reduce_add { a, ml.rand(4):cuda(1) } end, "has shape")
  expect.error(function() cuda.comm.reduce_add {} end, "at least one tensor")
end)

on_two("scatter and gather, with gradients", function()
  local x = ml.arange(10):float():reshape(5, 2)
  x.requires_grad = true
  local parts = cuda.comm.scatter(x, { 0, 1 })
  expect.equal(devices_of(parts), "cuda:0 cuda:1")
  expect.equal(tostring(parts[1].shape), "(3, 2)")
  local joined = cuda.comm.gather({ parts[1] * 2, parts[2] * 3 }, 1, -1)
  expect.equal(joined.device, "cpu")
  joined:sum():backward()
  expect.equal(table.concat(x.grad:sum(2):tolist(), " "), "4.0 4.0 4.0 6.0 6.0")
  local sized = cuda.comm.scatter(x, { 1, 0 }, { 1, 4 }, 1, { cuda.Stream(1), nil })
  expect.equal(tostring(sized[2].shape), "(4, 2)")
  cuda.synchronize(1)
  same(sized[1], x[{ { 1, 1 } }])
  expect.equal(#cuda.comm.scatter(x[{ { 1, 1 } }], { 0, 1 }), 1)
  same(cuda.comm.gather(cuda.comm.scatter(x, { 0, 1 }, nil, 2), 2, 1), x)
  local out = ml.zeros(5, 2, { device = "cuda:1" })
  expect.equal(cuda.comm.gather(parts, { out = out }):data_ptr(), out:data_ptr())
  same(out, x)
  expect.error(function() cuda.comm.scatter(x, { 0, 1 }, { 1 }) end, "1 'chunk_sizes' for 2 devices")
  expect.error(function() cuda.comm.gather({ x }) end, "not on a CUDA device")
end)

local function model()
  ml.manual_seed(3)
  return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
end

on_two("DataParallel gives the results and gradients of the module alone", function()
  for _, batch in ipairs { 8, 5, 1 } do
    local alone, net = model(), model():cuda()
    local parallel = nn.DataParallel(net)
    local x = ml.rand(batch, 4)
    local want, got = alone(x), parallel(x:cuda())
    expect.equal(got.device, "cuda:0")
    same(got, want)
    local weights = ml.rand(batch, 3);
    (want * weights):sum():backward();
    (got * weights:cuda()):sum():backward()
    for i, p in ipairs(alone:parameters()) do
      same(net:parameters()[i].grad, p.grad, "gradient " .. i)
    end
  end
end)

on_two("the names in its state dict, and its options", function()
  local net = nn.DataParallel(model():cuda(), { 0, 1 }, -1)
  local names = {}
  for name in pairs(net:state_dict()) do names[#names + 1] = name end
  table.sort(names)
  expect.equal(table.concat(names, " "), "module.0.bias module.0.weight module.2.bias module.2.weight")
  expect.equal(net(ml.rand(4, 4)).device, "cpu")
  expect.error(function() nn.DataParallel(model())(ml.rand(2, 4)) end, "must have its parameters and buffers on")
  local one = nn.DataParallel(model(), { 1 })
  expect.equal(one.module[1].weight.device, "cuda:1")
  expect.equal(one(ml.rand(2, 4)).device, "cuda:1")
  expect.error(function() nn.DataParallel(model(), { 0, 7 }) end, "there is no device 7")
  expect.error(function() nn.DataParallel(3) end, "a module")
  expect.error(function() nn.DataParallel(model(), { devices = { 0 } }) end, "devices")
end)

on_two("arguments and results in tables, and those that are no tensors", function()
  local Net = nn.class "Net"
  function Net:init() self.scale = nn.Parameter(ml.ones(1)) end
  function Net:forward(pair, factor, named)
    local y = pair.first[1] * self.scale * factor + (named and named.bias or 0)
    return { y = y, rest = { pair.first[1].shape[1] * ml.ones(1, { device = y.device }) } }, y:sum()
  end
  local net = nn.DataParallel(Net():cuda())
  local x = ml.arange(6):float():reshape(6, 1):cuda()
  local out, total = net({ first = { x } }, 2, { bias = x })
  same(out.y, x * 3)
  expect.equal(table.concat(out.rest[1]:tolist(), " "), "3.0 3.0")
  expect.equal(tostring(total.shape), "(2,)")
  expect.equal(total:sum():item(), 63)
  local y = nn.parallel.data_parallel(net.module, { { first = { x } }, 2 }, { 0, 1 }, nil, 1, { bias = x })
  same(y.y, x * 3)
end)

on_two("buffers of the first device are the module's own", function()
  local net = nn.BatchNorm1d(2):cuda()
  local parallel = nn.DataParallel(net)
  local x = ml.tensor { { 1.0, 2 }, { 3, 4 }, { 10, 20 }, { 30, 40 } }
  parallel(x:cuda())
  -- PyTorch: momentum 0.1 of the mean of the first half.
  expect.equal(("%.4f %.4f"):format(table.unpack(net.running_mean:tolist())), "0.2000 0.3000")
  expect.equal(net.num_batches_tracked:item(), 1)
end)

on_two("recurrent layers, tied weights and hooks", function()
  local lstm = nn.LSTM(3, 4, { batch_first = true })
  local x = ml.rand(4, 5, 3)
  local want = lstm(x)
  local got = nn.DataParallel(lstm:cuda(), nil, nil, 1)(x:cuda())
  same(got, want)
  local first = nn.Linear(3, 3)
  local tied = nn.Sequential(first, first):cuda()
  local calls = 0
  tied:register_forward_hook(function() calls = calls + 1 end)
  nn.DataParallel(tied)(ml.rand(4, 3):cuda()):sum():backward()
  expect.equal(calls, 2)
  expect.truthy(first.weight.grad, "one gradient")
end)

on_two("replicate and parallel_apply", function()
  local net = model():cuda()
  local replicas = nn.parallel.replicate(net, { 0, 1 })
  expect.equal(replicas[2][1].weight.device, "cuda:1")
  expect.equal(#replicas[2]:parameters(), 0)
  expect.equal(#net:parameters(), 4)
  expect.truthy(replicas[1][1].weight.grad_fn, "no leaf")
  local x = ml.rand(2, 4)
  local out = nn.parallel.parallel_apply(replicas, { { x:cuda(0) }, { x:cuda(1) } })
  same(out[1], out[2])
  nn.parallel.gather(out, 1):sum():backward()
  expect.truthy(net[1].weight.grad, "gradients come back")
  local still = nn.parallel.replicate(net, { 0, 1 }, true)
  expect.truthy(not still[2][1].weight.requires_grad, "detached")
  expect.error(function() nn.parallel.parallel_apply(replicas, { { x } }) end, "2 modules and 1 of 'inputs'")
  expect.error(function()
    nn.parallel.parallel_apply(replicas, { { x:cuda(0) }, { ml.rand(2, 9):cuda(1) } })
  end, "in replica 2, on cuda:1")
  expect.error(function() nn.parallel.parallel_apply(replicas, { { 1 }, { 2 } }) end, "has no tensor")
  expect.equal(cuda.current_device(), 0)
end)

on_two("without gradients, and in a loop of training", function()
  local net = model():cuda()
  local parallel = nn.DataParallel(net)
  expect.truthy(not ml.no_grad(function() return parallel(ml.rand(4, 4):cuda()) end).requires_grad)
  local opt = ml.optim.SGD(parallel:parameters(), 0.5)
  local x, losses = ml.rand(16, 4):cuda(), {}
  for i = 1, 20 do
    opt:zero_grad()
    local loss = ((parallel(x) - x[{ {}, { 1, 3 } }]) ^ 2):mean()
    loss:backward()
    opt:step()
    losses[i] = loss:item()
  end
  expect.truthy(losses[20] < losses[1] / 2, "it learns")
end)

harness.run()
