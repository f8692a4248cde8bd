-- tests/lua/distributed/collectives_test.lua: collectives of two and four processes, for all dtypes and
-- layouts, beside what one process computes.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ranks = require "distributed_ranks"
local test, expect = harness.test, harness.expect
local ml = require "moonlet"

-- What rank r has is drawn with seed r, so that every rank can compute what all have.
local DRAW = [[
dist.init_process_group()
local size = dist.get_world_size()
local function drawn(r, dtype, ...)
  local g = ml.Generator():manual_seed(100 + r)
  local x = ml.randint(-3, 3, { ... }, { generator = g })
  if dtype == ml.bool then return x:gt(0) end
  if dtype == ml.uint8 or dtype == ml.uint16 or dtype == ml.uint32 or dtype == ml.uint64 then
    x = x:abs()
  end
  return x:to(dtype)
end
]]

-- Collectives of one tensor each, and of lists.
local TENSORS = [[
local function all(...) local out = {} for r = 0, size - 1 do out[r + 1] = drawn(r, ...) end
  return out end
local f = ml.float32
local x = drawn(rank, f, 4, 3)
dist.all_reduce(x, "avg")
near(x, ml.stack(all(f, 4, 3)):mean(1), "avg")
for src = 0, size - 1 do
  x = drawn(rank, f, 5)
  dist.broadcast(x, src)
  near(x, drawn(src, f, 5), "broadcast")
  x = drawn(rank, f, 5)
  dist.reduce(x, src)
  if rank == src then near(x, ml.stack(all(f, 5)):sum(1), "reduce")
  else near(x, drawn(rank, f, 5), "what reduce leaves alone") end
end
local y = ml.empty(size, 4, 3)
dist.all_gather_into_tensor(y, drawn(rank, f, 4, 3))
near(y, ml.stack(all(f, 4, 3)), "all_gather_into_tensor")
local list = {}
for r = 1, size do list[r] = ml.zeros(r, 2) end
dist.all_gather(list, drawn(rank, f, rank + 1, 2))
for r = 1, size do near(list[r], drawn(r - 1, f, r, 2), "all_gather") end
local dst = size - 1
if rank == dst then
  for r = 1, size do list[r]:zero_() end
  dist.gather(drawn(rank, f, rank + 1, 2), list, { dst = dst })
  for r = 1, size do near(list[r], drawn(r - 1, f, r, 2), "gather") end
else
  dist.gather(drawn(rank, f, rank + 1, 2), { dst = dst })
end
local own = ml.zeros(rank + 1, 2)
local lists = nil
if rank == 1 then lists = {} for r = 1, size do lists[r] = drawn(r, f, r, 2) end end
dist.scatter(own, { scatter_list = lists, src = 1 })
near(own, drawn(rank + 1, f, rank + 1, 2), "scatter")
]]
local LISTS = [[
local part = ml.zeros(2, 3)
dist.reduce_scatter_tensor(part, drawn(rank, f, size * 2, 3))
near(part, ml.stack(all(f, size * 2, 3)):sum(1):narrow(1, rank * 2 + 1, 2), "scatter_tensor")
local uneven, sums = ml.zeros(rank + 1), {}
for r = 1, size do sums[r] = ml.full({ r }, 1.0 * (rank + r)) end
dist.reduce_scatter(uneven, sums, "max")
near(uneven, ml.full({ rank + 1 }, 1.0 * (size + rank)), "reduce_scatter")
local into = ml.zeros(size * 2)
dist.all_to_all_single(into, ml.arange(size * 2):float() + 100 * rank)
for r = 0, size - 1 do
  near(into:narrow(1, r * 2 + 1, 2), ml.tensor { 2.0 * rank + 1, 2.0 * rank + 2 } + 100 * r, "to all")
end
-- Rank r sends s + 1 rows to rank s.
local rows, sent, received = 0, {}, {}
for r = 1, size do rows, sent[r], received[r] = rows + r, r, rank + 1 end
into = ml.zeros(size * (rank + 1), 2)
dist.all_to_all_single(into, ml.full({ rows, 2 }, 1.0 * rank), received, sent)
for r = 0, size - 1 do
  near(into:narrow(1, r * (rank + 1) + 1, rank + 1), ml.full({ rank + 1, 2 }, r), "uneven")
end
local inputs, outputs = {}, {}
for r = 1, size do inputs[r], outputs[r] = ml.full({ r }, 1.0 * rank), ml.zeros(rank + 1) end
dist.all_to_all(outputs, inputs)
for r = 1, size do near(outputs[r], ml.full({ rank + 1 }, r - 1), "all_to_all") end
dist.barrier()
dist.monitored_barrier()
dist.destroy_process_group()
]]

for _, size in ipairs { 2, 4 } do
  test(("all_reduce of every dtype, %d ranks"):format(size), function()
    ranks.run_well(size, DRAW .. [[
      for _, name in ipairs { "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32",
          "int64", "float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64",
          "complex64", "complex128" } do
        local dtype = ml[name]
        local reductions = { "sum", "product" }
        if not name:find "complex" then reductions = { "sum", "product", "min", "max" } end
        for _, op in ipairs(reductions) do
          local x = drawn(rank, dtype, 3, 5)
          dist.all_reduce(x, op)
          local wide = name:find "complex" and ml.complex128 or ml.float64
          local want
          for r = 0, size - 1 do
            local y = drawn(r, dtype, 3, 5):to(wide)
            if not want then want = y
            elseif op == "sum" then want = want + y
            elseif op == "product" then want = want * y
            elseif op == "min" then want = ml.minimum(want, y)
            else want = ml.maximum(want, y) end
          end
          want = name == "bool" and want:ne(0) or want:to(dtype)
          assert(x.dtype == dtype)
          assert(ml.equal(x:to(wide), want:to(wide)), name .. " " .. op)
        end
      end
      for _, name in ipairs { "bool", "uint8", "int16", "int64" } do
        for _, op in ipairs { "band", "bor", "bxor" } do
          local x, want = drawn(rank, ml[name], 7), drawn(0, ml[name], 7)
          for r = 1, size - 1 do
            local y = drawn(r, ml[name], 7)
            want = op == "band" and ml.bitwise_and(want, y) or op == "bor" and ml.bitwise_or(want, y)
              or ml.bitwise_xor(want, y)
          end
          dist.all_reduce(x, op)
          assert(ml.equal(x, want), name .. " " .. op)
        end
      end
      dist.destroy_process_group()
    ]])
  end)

  test(("every collective, %d ranks"):format(size), function()
    ranks.run_well(size, DRAW .. TENSORS .. LISTS)
  end)
end

test("tensors that are not contiguous, empty, without dimensions or of an odd size", function()
  ranks.run_well(3, DRAW .. [[
    local base = ml.zeros(4, 6)
    local x = base:t()
    x:fill_(rank + 1)
    dist.all_reduce(x)
    assert(base:min():item() == 6 and base:max():item() == 6)
    base = ml.zeros(6, 2)
    base:select(2, 1):fill_(rank)
    dist.broadcast(base:select(2, 1), 2)
    near(base:select(2, 1), ml.full({ 6 }, 2))
    near(base:select(2, 2), ml.zeros(6))
    local wide = ml.zeros(3, 8)
    dist.all_gather_into_tensor(wide:narrow(2, 3, 4), ml.full({ 1, 4 }, 1.0 * rank))
    near(wide:narrow(2, 3, 4), ml.tensor { { 0.0 }, { 1.0 }, { 2.0 } }:expand(3, 4))
    assert(wide:sum():item() == 12)
    for _, call in ipairs { dist.all_reduce, function(e) dist.broadcast(e, 0) end } do
      call(ml.zeros(0, 3))
      local scalar = ml.tensor(1.0)
      call(scalar)
      assert(scalar:dim() == 0)
    end
    dist.all_gather_into_tensor(ml.zeros(0), ml.zeros(0))
    -- Rank 1 has nothing.
    local list = { ml.zeros(2), ml.zeros(0), ml.zeros(1) }
    dist.all_gather(list, ml.full({ ({ 2, 0, 1 })[rank + 1] }, 1.0 * rank))
    near(list[3], ml.tensor { 2.0 })
    for _, n in ipairs { 1, 2, 3, 5, 1001, 70001 } do
      for _, dtype in ipairs { ml.float16, ml.float32 } do
        x = ml.full({ n }, 1.0 * (rank + 1), { dtype = dtype })
        dist.all_reduce(x)
        assert(x:min():item() == 6 and x:max():item() == 6, n)
      end
    end
    dist.destroy_process_group()
  ]])
end)

test("sums of 16-bit floats are rounded once, and the same on all ranks", function()
  local outputs = ranks.run_well(3, DRAW .. [[
    local g = ml.Generator()
    local all = {}
    for r = 1, 3 do
      all[r] = ml.randn(1000, { generator = g:manual_seed(r) }):to(ml.bfloat16)
    end
    local x = all[rank + 1]:clone()
    dist.all_reduce(x)
    local want = (all[1]:float() + all[2]:float() + all[3]:float()):to(ml.bfloat16)
    assert(ml.equal(x, want))
    dist.destroy_process_group()
    dist.init_process_group { deterministic = true }
    local y = ml.randn(1000, { generator = g:manual_seed(10 + rank) })
    dist.all_reduce(y)
    want = ml.zeros(1000)
    for r = 0, 2 do want = want + ml.randn(1000, { generator = g:manual_seed(10 + r) }) end
    assert(ml.equal(y, want))
    print(y:double():sum():item())
    dist.destroy_process_group()
  ]])
  expect.equal(outputs[1], outputs[0])
  expect.equal(outputs[2], outputs[0])
end)

-- What goes in several chunks, with ends that fill none, is added up in the order of ranks.
for _, count in ipairs { 2, 3 } do
  test(("reductions of many bytes by %d ranks"):format(count), function()
    ranks.run_well(count, [[
      dist.init_process_group { timeout = 100 }
      local size = dist.get_world_size()
      local g = ml.Generator()
      local function drawn(r, n, dtype)
        return ml.randn(n, { generator = g:manual_seed(r) }):to(dtype)
      end
      local function sum(n, dtype)
        local out = drawn(0, n, dtype)
        if dtype == ml.bfloat16 then out = out:float() end
        for r = 1, size - 1 do out = out + drawn(r, n, dtype):to(out.dtype) end
        return out:to(dtype)
      end
      for _, case in ipairs { { 5000011, ml.float32 }, { 1500001, ml.float64 }, { 20001, ml.float32 },
          { 4000003, ml.bfloat16 }, { 700001, ml.complex128 } } do
        local n, dtype = case[1], case[2]
        local want = sum(n, dtype)
        local x = drawn(rank, n, dtype)
        dist.all_reduce(x)
        assert(ml.equal(x, want), tostring(dtype))
        x = drawn(rank, n, dtype)
        dist.reduce(x, 1)
        assert(ml.equal(x, rank == 1 and want or drawn(rank, n, dtype)), tostring(dtype))
        -- Rank 0 gets most, the last one nothing.
        local parts, at = {}, 1
        for r = 1, size do
          local share = r == size and 0 or r == size - 1 and n - at + 1 or n // 2
          parts[r], at = drawn(rank, n, dtype):narrow(1, at, share), at + share
        end
        local own = ml.empty({ parts[rank + 1]:numel() }, { dtype = dtype })
        dist.reduce_scatter(own, parts)
        local from = rank == 0 and 1 or size == 2 and n + 1 or rank == 1 and n // 2 + 1 or n + 1
        assert(ml.equal(own, want:narrow(1, from, own:numel())), tostring(dtype))
      end
      dist.destroy_process_group()
    ]])
  end)
end

test("handles: async collectives overlap, end in order, and free their tensors", function()
  ranks.run_well(2, DRAW .. [[
    local tensors, works = {}, {}
    for i = 1, 20 do
      tensors[i] = ml.full({ 1000 * i }, 1.0 * (rank + i))
      works[i] = dist.all_reduce(tensors[i], { async_op = true })
    end
    for i = 20, 1, -1 do
      assert(works[i]:wait() == true)
      assert(works[i]:is_completed() and works[i]:exception() == nil)
      assert(tensors[i]:max():item() == 2 * i + 1)
    end
    local work = dist.all_gather({ ml.zeros(2), ml.zeros(2) }, ml.ones(2), { async_op = true })
    while not work:is_completed() do end
    -- What is dropped goes on all the same.
    dist.all_reduce(ml.ones(100000), { async_op = true })
    collectgarbage()
    dist.barrier()
    if rank == 1 then await("late", { 0 }) end
    work = dist.barrier { async_op = true }
    if rank == 0 then
      local good, message = pcall(work.wait, work, 0.05)
      assert(not good and message:find "barrier: it is not done after 0.05 s", message)
      tell "late"
    end
    work:wait()
    dist.destroy_process_group()
  ]])
end)

test("sends and receives: tags, any source, both ways at once", function()
  ranks.run_well(3, DRAW .. [[
    local next_rank, before = (rank + 1) % 3, (rank + 2) % 3
    local x = ml.zeros(4)
    local works = dist.batch_isend_irecv {
      dist.P2POp(dist.isend, ml.full({ 4 }, 1.0 * rank), next_rank),
      dist.P2POp(dist.irecv, x, before) }
    for _, work in ipairs(works) do work:wait() end
    near(x, ml.full({ 4 }, before))
    if rank == 0 then
      local seen = {}
      for _ = 1, 2 do
        local got = ml.zeros(2)
        seen[dist.recv(got)] = got[1]:item()
      end
      assert(seen[1] == 11 and seen[2] == 12)
      local a, b = ml.zeros(3), ml.zeros(3)
      local second = dist.irecv(b, 1, { tag = 2 })
      dist.recv(a, 1, { tag = 1 })
      second:wait()
      assert(a[1]:item() == 1 and b[1]:item() == 2 and second:source_rank() == 1)
      local big = ml.zeros(3, 1000000):t()
      dist.recv(big, 1)
      assert(big:min():item() == 5)
    else
      dist.send(ml.full({ 2 }, 10.0 + rank), 0)
      if rank == 1 then
        dist.send(ml.full({ 3 }, 2.0), 0, { tag = 2 })
        dist.send(ml.full({ 3 }, 1.0), 0, { tag = 1 })
        dist.send(ml.full({ 1000000, 3 }, 5.0), 0)
      end
    end
    dist.destroy_process_group()
  ]])
end)

test("Lua values: tables that share and contain themselves, tensors, what cannot cross", function()
  ranks.run_well(3, DRAW .. [[
    local shared = { 1, 2.5, "a\0b", true }
    local value = { rank = rank, x = ml.full({ 2 }, 1.0 * rank), a = shared, b = shared, [7] = false,
      h = ml.ones(2, { dtype = ml.bfloat16 }), p = ml.ones(1, { requires_grad = true }) }
    value.me = value
    local list = {}
    dist.all_gather_object(list, value)
    for r = 1, 3 do
      local v = list[r]
      assert(v.rank == r - 1 and v.me == v and v.a == v.b and v.a[3] == "a\0b" and v[7] == false)
      assert(v.x[1]:item() == r - 1 and v.h.dtype == ml.bfloat16 and v.p.requires_grad)
      assert(math.type(v.a[1]) == "integer" and math.type(v.a[2]) == "float")
    end
    local objects = rank == 1 and { "one", { 2 }, 3 } or {}
    dist.broadcast_object_list(objects, 1)
    assert(objects[1] == "one" and objects[2][1] == 2 and #objects == 3)
    local gathered = rank == 2 and {} or nil
    dist.gather_object({ rank }, gathered, { dst = 2 })
    if rank == 2 then assert(gathered[1][1] == 0 and gathered[3][1] == 2) end
    local out = {}
    dist.scatter_object_list(out, rank == 0 and { "x", "yy", "zzz" } or nil)
    assert(#out[1] == rank + 1)
    if rank == 0 then dist.send_object_list({ "hello", 5 }, 1) end
    if rank == 1 then
      local got = {}
      assert(dist.recv_object_list(got) == 0 and got[1] == "hello" and got[2] == 5)
    end
    local good, message = pcall(dist.all_gather_object, {}, { f = print })
    assert(not good and message:find("all_gather_object: 'object.f' is a function", 1, true), message)
    good, message = pcall(dist.all_gather_object, {}, ml.nn.Linear(1, 1))
    assert(not good and message:find("is an object, which cannot be sent", 1, true), message)
    dist.destroy_process_group()
  ]])
end)

test("groups: new ones, split ones, positions, errors", function()
  ranks.run_well(4, DRAW .. [[
    local even, odd = dist.new_group { 0, 2 }, dist.new_group { 3, 1 }
    local mine = rank % 2 == 0 and even or odd
    local x = ml.tensor { rank * 1.0 }
    dist.all_reduce(x, { group = mine })
    assert(x:item() == (rank % 2 == 0 and 2 or 4))
    assert(dist.get_rank(mine) == rank // 2 and dist.get_world_size(mine) == 2)
    x = ml.tensor { rank * 1.0 }
    dist.broadcast(x, rank % 2 == 0 and 2 or 3, { group = mine })
    assert(x:item() == (rank % 2 == 0 and 2 or 3))
    local other = rank % 2 == 0 and odd or even
    assert(dist.get_rank(other) == -1)
    local good, message = pcall(dist.all_reduce, x, { group = other })
    assert(not good and message:find("is none of the group's", 1, true), message)
    good, message = pcall(dist.broadcast, x, (rank + 1) % 4, { group = mine })
    assert(not good and message:find("'src' must be a rank of the group", 1, true), message)
    local part = dist.split_group { { 0, 1, 2 } }
    assert((part == nil) == (rank == 3))
    if part then
      dist.barrier { group = part }
      dist.destroy_process_group(part)
      good, message = pcall(dist.barrier, { group = part })
      assert(not good and message:find "has been destroyed", message)
    end
    dist.barrier()
    dist.destroy_process_group()
    -- A second start of the same processes.
    dist.init_process_group()
    dist.barrier()
    dist.destroy_process_group()
  ]])
end)

test("functional forms have gradients, and modes and the profiler see all collectives", function()
  ranks.run_well(2, DRAW .. [[
    local f = dist.functional
    local x = ml.tensor({ 1.0 + rank, 2.0 }, { requires_grad = true })
    local w = ml.tensor { rank + 1.0, 3.0 }
    do local y = (f.all_reduce(x) * w):sum() y:backward() end
    near(x.grad, ml.tensor { 3.0, 6.0 }, "all_reduce")
    x.grad = nil
    local w4 = ml.tensor { 1.0, 2.0, 3.0, 4.0 } * (rank + 1)
    do local y = (f.all_gather(x) * w4):sum() y:backward() end
    near(x.grad, rank == 0 and ml.tensor { 3.0, 6.0 } or ml.tensor { 9.0, 12.0 }, "all_gather")
    x.grad = nil
    do local y = (f.reduce_scatter(x) * (rank + 1)):sum() y:backward() end
    near(x.grad, ml.tensor { 1.0, 2.0 }, "reduce_scatter")
    x.grad = nil
    do local y = (f.broadcast(x, 1) * w):sum() y:backward() end
    near(x.grad, rank == 1 and ml.tensor { 3.0, 6.0 } or ml.zeros(2), "broadcast")
    x.grad = nil
    do local y = (f.reduce(x, 0) * w):sum() y:backward() end
    near(x.grad, ml.tensor { 1.0, 3.0 }, "reduce")
    x.grad = nil
    do local y = (f.all_to_all_single(x) * w):sum() y:backward() end
    near(x.grad, rank == 0 and ml.tensor { 1.0, 2.0 } or ml.tensor { 3.0, 3.0 }, "all_to_all")
    assert(ml.autograd.gradcheck(function(t) return f.all_reduce(t, "avg") end,
      { ml.tensor({ 0.5, -1.5 }, { requires_grad = true, dtype = ml.float64 }) }) == true)
    local good, message = pcall(function() f.all_reduce(x, "max"):sum():backward() end)
    assert(not good and message:find("'max' has no gradient", 1, true), message)
    local names = {}
    ml.override(function(op, arguments, call)
      names[#names + 1] = op.name
      return call(table.unpack(arguments, 1, #op.arguments))
    end, function()
      dist.all_reduce(ml.ones(2))
      dist.barrier()
    end)
    local text = table.concat(names, " ")
    assert(text:find "distributed.all_reduce_inplace" and text:find "distributed.barrier", text)
    dist.destroy_process_group()
  ]])
end)

test("with one rank all works, without Gloo and without an environment", function()
  local dist = ml.distributed
  dist.init_process_group()
  local x = ml.tensor { 1.0, 2.0 }
  dist.all_reduce(x, "avg")
  dist.broadcast(x, 0)
  dist.reduce(x, 0, "max")
  expect.equal(x:tolist(), { 1.0, 2.0 })
  local y = ml.zeros(2)
  dist.all_gather_into_tensor(y, x)
  expect.equal(y:tolist(), { 1.0, 2.0 })
  local list = { ml.zeros(1, 2) }
  dist.all_gather(list, x)
  expect.equal(list[1]:tolist(), { { 1.0, 2.0 } })
  dist.reduce_scatter(y, { x * 2 })
  expect.equal(y:tolist(), { 2.0, 4.0 })
  expect.equal(dist.all_reduce(x, { async_op = true }):is_completed(), true)
  expect.error(function() dist.all_reduce(x, "mean") end, "'op' must be")
  expect.error(function() dist.all_reduce(ml.ones(2):long(), "avg") end, "'avg' is for floats")
  expect.error(function() dist.broadcast(x, 1) end, "must be a rank of the group")
  local each = ml.nn.functional.cross_entropy(ml.ones(2, 3), ml.tensor { 1, 2 }, { reduction = "none" })
  expect.equal(each.shape:totable(), { 2 }, "losses have reductions of their own")
  dist.destroy_process_group()
  expect.error(function() dist.all_reduce(x) end, "call ml.distributed.init_process_group first")
end)

harness.run()
