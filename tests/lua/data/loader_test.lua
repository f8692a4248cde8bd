-- tests/lua/data/loader_test.lua: data sets of every kind, samplers, what puts batches together, and the
-- options of loaders, as PyTorch has them.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local class = require "moonlet.class"
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect
local data = ml.data

-- Examples 1 to n, without positions.
local Stream = class("Stream", data.IterableDataset)
function Stream:init(n, scale) self.n, self.scale = n, scale or 1 end
function Stream:iter()
  local i = 0
  return function()
    i = i + 1
    if i <= self.n then return i * self.scale, "item " .. i end
  end
end

local function list(tensor) return ml.is_tensor(tensor) and tensor:totable() or tensor end

local function batches(loader)
  local out = {}
  for x in loader do out[#out + 1] = list(x) end
  return out
end

test("arrays are data sets", function()
  expect.equal(batches(data.DataLoader({ 3, 1, 2 }, { batch_size = 2 })), { { 3, 1 }, { 2 } })
  local set = data.Subset({ { ml.ones(2), 1 }, { ml.zeros(2), 2 } }, { 2 })
  expect.equal(set[1][1]:totable(), { 0.0, 0.0 })
  expect.equal(set[1][2], 2)
  local halves = data.random_split({ 10, 20, 30, 40 }, { 1, 3 })
  expect.equal({ #halves[1], #halves[2] }, { 1, 3 })
end)

test("data sets side by side and one after the other", function()
  local x, y = data.TensorDataset(ml.arange(3) * 10), { "a", "b", "c" }
  local pairs_of = data.StackDataset(x, y)
  expect.equal(#pairs_of, 3)
  expect.equal({ pairs_of[2][1]:item(), pairs_of[2][2] }, { 20, "b" })
  local named = data.StackDataset { x = x, y = y }
  expect.equal({ named[3][1].x:item(), named[3][1].y }, { 30, "c" })
  for batch in data.DataLoader(named, { batch_size = 3 }) do
    expect.equal(batch.x:totable(), { 10, 20, 30 })
    expect.equal(batch.y, { "a", "b", "c" })
  end
  local two = data.StackDataset(data.TensorDataset(ml.arange(2), ml.arange(2)), { 5, 6 })
  expect.equal(two[2][1][2]:item(), 2)
  expect.error(function() data.StackDataset(x, { 1 }) end, "StackDataset: data set 2 has 1 examples")
  expect.error(function() data.StackDataset { x = 3 } end, "StackDataset: 'x': a data set is expected")
  expect.error(function() data.StackDataset() end, "StackDataset: got no data sets")
  local sum = x + data.Subset({ 7, 8 }, { 2 })
  expect.equal({ #sum, sum[4][1] }, { 4, 8 })
  expect.error(function() data.ConcatDataset { x, Stream(2) } end, "data set 2 is an IterableDataset")
  expect.error(function() data.ChainDataset { x } end, "data set 1 is no IterableDataset")
end)

test("a class with a get of its own is not read by its parent's batches", function()
  local Doubled = class("Doubled", data.TensorDataset)
  function Doubled:get(i) return self.tensors[1][i] * 2 end
  local set = Doubled(ml.arange(3))
  expect.equal(batches(data.DataLoader(set, { batch_size = 3 })), { { 2, 4, 6 } })
  expect.equal(batches(data.DataLoader(data.Subset(set, { 3 }))), { { 6 } })
end)

test("data sets without positions", function()
  local loader = data.DataLoader(Stream(5), { batch_size = 2 })
  expect.equal(batches(loader), { { 1, 2 }, { 3, 4 }, { 5 } })
  expect.equal(batches(loader), { { 1, 2 }, { 3, 4 }, { 5 } })
  expect.error(function() return #loader end, "Stream: has no method size")
  expect.equal(batches(data.DataLoader(Stream(5), { batch_size = 2, drop_last = true })),
    { { 1, 2 }, { 3, 4 } })
  expect.equal(batches(data.DataLoader(Stream(0))), {})
  local chain = Stream(2) + Stream(0) + Stream(1, 10)
  expect.equal(batches(data.DataLoader(chain, { batch_size = 9 })), { { 1, 2, 10 } })
  expect.equal(batches(data.DataLoader(chain, { batch_size = false })), { 1, 2, 10 })
  local step = chain:iter()
  for _ = 1, 3 do step() end
  expect.equal({ step(), step() }, {})
  for _, name in ipairs { "shuffle", "sampler", "batch_sampler" } do
    local value = name == "shuffle" or data.SequentialSampler(3)
    expect.error(function() data.DataLoader(Stream(3), { [name] = value }) end,
      "no positions for '" .. name)
  end
  function Stream:size() return self.n end
  expect.equal({ #loader, #data.DataLoader(chain, { batch_size = 2, drop_last = true }), #chain },
    { 3, 1, 3 })
  Stream.size = nil
end)

test("samplers as PyTorch has them", function()
  local order = data.SubsetRandomSampler({ 2, 4, 9 }, { generator = ml.Generator { seed = 1 } }):order()
  expect.equal(order:sort():totable(), { 2, 4, 9 })
  expect.equal(#data.SubsetRandomSampler(ml.tensor { 2, 4 }), 2)
  expect.error(function() data.SubsetRandomSampler { 0 } end, "integers of at least 1")
  expect.error(function() data.SubsetRandomSampler(ml.ones(2)) end, "1%-D int64")
  local given = data.DataLoader({ 1, 2, 3, 4 }, { sampler = { 4, 2, 4 }, batch_size = 2 })
  expect.equal(batches(given), { { 4, 2 }, { 4 } })
  expect.equal(#given, 2)
  local by_batch = data.DataLoader({ 1, 2, 3, 4 }, { batch_sampler = { { 4, 2 }, { 1 } } })
  expect.equal(batches(by_batch), { { 4, 2 }, { 1 } })
  local Odd = class("Odd", data.Sampler)
  function Odd:init() end
  function Odd:size() return 2 end
  function Odd:iter()
    local i = -1
    return function()
      i = i + 2
      return i <= 3 and i or nil
    end
  end
  local set = data.TensorDataset(ml.arange(4) * 2)
  expect.equal(batches(data.DataLoader(set, { sampler = Odd(), batch_size = 3 })), { { 2, 6 } })
  expect.equal(batches(data.DataLoader(set, { sampler = Odd(), batch_size = 3, drop_last = true })), {})
  expect.error(function() batches(data.DataLoader({ 1, 2 }, { sampler = { 3 } })) end,
    "position 3 is out of range")
  expect.error(function() batches(data.DataLoader(set, { sampler = { 1.5 } })) end,
    "the sampler gave the position 1.5, an integer is expected")
  expect.error(function() batches(data.DataLoader({ 1, 2 }, { batch_sampler = { 1, 2 } })) end,
    "'batch_sampler' must give tensors or arrays of positions, got 1")
  expect.error(function() batches(data.DataLoader({ 1, 2 }, { sampler = { 0 } })) end,
    "position 0 is out of range")
end)

-- The positions are those of PyTorch's DistributedSampler, plus 1.
test("the parts of several processes", function()
  local function part(rank, o)
    o.num_replicas, o.rank, o.dataset = 3, rank, o.count
    o.count = nil
    return data.DistributedSampler(o)
  end
  local function orders(count, drop_last)
    local out = {}
    for rank = 0, 2 do
      local s = part(rank, { count = count, shuffle = false, drop_last = drop_last })
      out[rank + 1] = s:order():totable()
      expect.equal(#s, #out[rank + 1])
    end
    return out
  end
  expect.equal(orders(7, false), { { 1, 4, 7 }, { 2, 5, 1 }, { 3, 6, 2 } })
  expect.equal(orders(7, true), { { 1, 4 }, { 2, 5 }, { 3, 6 } })
  expect.equal(orders(1, false), { { 1 }, { 1 }, { 1 } })
  expect.equal(orders(2, true), { {}, {}, {} })
  local seen = {}
  for rank = 0, 2 do
    for position in part(rank, { count = 9, seed = 4 }):iter() do seen[position] = true end
  end
  expect.equal(#seen, 9)
  local shuffled = part(0, { count = 60 })
  local first = shuffled:order():totable()
  expect.equal(shuffled:order():totable(), first)
  shuffled:set_epoch(1)
  expect.falsy(table.concat(shuffled:order():totable(), " ") == table.concat(first, " "))
  expect.error(function() data.DistributedSampler(4, 2, 2) end, "'rank' must be from 0 to 1, got 2")
  expect.error(function() data.DistributedSampler(4) end, "DistributedSampler: there is no process group")
end)

test("batches of nested tables", function()
  local batch = data.default_collate {
    { x = ml.ones(2), info = { id = 1, tags = { "a", 0.5 } }, good = true },
    { x = ml.zeros(2), info = { id = 2, tags = { "b", 1.5 } }, good = false },
  }
  expect.equal(batch.x:totable(), { { 1.0, 1.0 }, { 0.0, 0.0 } })
  expect.equal({ batch.info.id.dtype, batch.good.dtype }, { ml.int64, ml.bool })
  expect.equal(batch.info.tags[1], { "a", "b" })
  expect.equal({ batch.info.tags[2].dtype, batch.info.tags[2][2]:item() }, { ml.float64, 1.5 })
  local x, y = data.default_collate { { 1, "p" }, { 2, "q" } }
  expect.equal({ x:totable(), y }, { { 1, 2 }, { "p", "q" } })
  expect.equal(data.default_collate({ 1.5, 2 }).dtype, ml.float64)
  expect.equal(data.default_collate({ 1, 2.5 }).dtype, ml.float32)
  local cases = {
    { {}, "the batch has no examples" },
    { { { 1 }, { 1, 2 } }, "example 2 has 2 fields, example 1 1" },
    { { { 1 }, { "a" } }, 'field 1 is "a" in example 2 and 1 in example 1' },
    { { { a = 1 }, { b = 1 } }, "the example has no 'a' in example 2" },
    { { { { 1, 2 } }, { { 1 } } }, "field 1 has 1 items in example 2 and 2 in example 1" },
    { { ml.ones(2), ml.ones(3) }, "has shape %(3,%) in example 2 and %(2,%) in example 1" },
    { { { print } }, "field 1 is a function; .* give a 'collate_fn'" },
    { { { x = { data } }, { x = { data } } }, "the example.x%[1%]" },
  }
  for _, case in ipairs(cases) do
    expect.error(function() data.default_collate(case[1]) end, "default_collate: .*" .. case[2])
  end
  local x_in = ml.ones(2)
  local out = data.default_convert { x = x_in, n = { 1, "a" } }
  expect.truthy(out.x == x_in)
  expect.equal(out.n, { 1, "a" })
  expect.equal(data.default_convert(3), 3)
end)

test("loaders without batches", function()
  local loader = data.DataLoader(data.TensorDataset(ml.arange(3), ml.arange(3) * 2), { batch_size = false })
  expect.equal(#loader, 3)
  local seen = {}
  for x, y in loader do seen[#seen + 1] = { x:item(), y:item(), x.ndim } end
  expect.equal(seen, { { 1, 2, 0 }, { 2, 4, 0 }, { 3, 6, 0 } })
  local function twice(fields) return fields[1] * 2 end
  expect.equal(batches(data.DataLoader({ 4, 5 }, { batch_size = false, collate_fn = twice })), { 8, 10 })
  local chunks = data.DataLoader({ 1, 2, 3 }, { batch_size = false, sampler = data.SequentialSampler(2) })
  expect.equal(batches(chunks), { 1, 2 })
  expect.error(function() data.DataLoader({ 1 }, { batch_size = false, drop_last = true }) end,
    "'drop_last' is for batches")
  expect.error(function() data.DataLoader({ 1 }, { batch_size = true }) end, "or false, got true")
  expect.error(function() data.DataLoader({ 1 }, { batch_size = -2 }) end, "at least 1, or false")
end)

test("errors of data sets and collate functions reach the loop", function()
  local Bad = class("Bad", data.Dataset)
  function Bad:init() end
  function Bad:size() return 2 end
  function Bad:get(i) error("example " .. i .. " is damaged") end
  expect.error(function() batches(data.DataLoader(Bad())) end, "loader_test.lua:%d+: example 1 is damaged")
  expect.error(function()
    batches(data.DataLoader({ 1 }, { collate_fn = function() error "no batch" end }))
  end, "loader_test.lua:%d+: no batch")
  expect.error(function() return #data.Dataset() end, "Dataset: has no method size")
  expect.error(function() return #data.Sampler() end, "Sampler: has no method size")
end)

test("ipairs counts the batches of a pass", function()
  local one = data.DataLoader(data.TensorDataset(ml.arange(1, 6)), { batch_size = 2 })
  for _ = 1, 2 do
    local got = {}
    for i, x in ipairs(one) do got[i] = x:tolist() end
    expect.equal(got, { { 1, 2 }, { 3, 4 }, { 5, 6 } })
  end
  local two = data.DataLoader(data.TensorDataset(ml.arange(1, 3), ml.arange(4, 6)), { num_workers = 1 })
  local sums = {}
  for i, batch in ipairs(two) do sums[i] = batch[1]:item() + batch[2]:item() end
  expect.equal(sums, { 5, 7, 9 })
  for i in ipairs(two) do
    if i == 2 then break end
  end
  expect.equal(#two[1], 2)
  expect.error(function() return two[3] end, "one after the other")
  expect.error(function() return one[2] end, "one after the other")
end)

harness.run()
