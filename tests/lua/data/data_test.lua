-- tests/lua/data/data_test.lua: data sets, samplers, loaders, and the CSV and IDX readers with damaged
-- files.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local class = require "moonlet.class"
local harness = require "harness"
local ml = require "moonlet"
local system = require "moonlet.system"
local test, expect = harness.test, harness.expect
local data = ml.data

local function sequence(n)
  return data.TensorDataset(ml.arange(n):view(n, 1) * 10, ml.arange(n))
end

local function gather(loader)
  local out, sizes = {}, {}
  for x, y in loader do
    sizes[#sizes + 1] = #x
    expect.truthy(x:view(-1):eq(y * 10):all():item())
    for _, value in ipairs(y:totable()) do out[#out + 1] = value end
  end
  return out, sizes
end

local function with_file(content, f)
  harness.with_temp_file(function(path)
    system.write_file(path, content)
    f(path)
  end)
end

test("tensor data sets", function()
  local set = sequence(5)
  expect.equal(#set, 5)
  expect.equal(set[2][1]:totable(), { 20 })
  expect.equal(set[-1][2]:item(), 5)
  expect.error(function() return set[6] end, "position 6 is out of range; there are 5")
  expect.error(function() return set[0] end, "position 0")
  expect.error(function() data.TensorDataset(ml.zeros(3), ml.zeros(4)) end, "field 2 has 4")
end)

test("subsets, joins and random splits", function()
  local subset = data.Subset(sequence(5), { 5, 1 })
  expect.equal(subset[1][2]:item(), 5)
  expect.error(function() data.Subset(sequence(5), { 6 }) end, "position 6 is out of range")
  expect.error(function() data.Subset(sequence(5), { 0 }) end, "position 0")
  local joined = data.ConcatDataset { subset, sequence(3) }
  expect.equal(#joined, 5)
  expect.equal(joined[3][2]:item(), 1)
  ml.manual_seed(1)
  local parts = data.random_split(sequence(10), { 0.75, 0.25 })
  expect.equal({ #parts[1], #parts[2] }, { 8, 2 })
  local seen = {}
  for _, part in ipairs(parts) do
    for _, value in ipairs((gather(data.DataLoader(part, { batch_size = 3 })))) do
      expect.falsy(seen[value])
      seen[value] = true
    end
  end
  expect.equal(#seen, 10)
  expect.error(function() data.random_split(sequence(10), { 5, 4 }) end, "add up to 9")
end)

test("loaders batch, shuffle and drop", function()
  local plain = data.DataLoader(sequence(7), { batch_size = 3 })
  local values, sizes = gather(plain)
  expect.equal(values, { 1, 2, 3, 4, 5, 6, 7 })
  expect.equal(sizes, { 3, 3, 1 })
  expect.equal(#plain, 3)
  local short = data.DataLoader(sequence(7), { batch_size = 3, drop_last = true })
  expect.equal({ #short, #gather(short) }, { 2, 6 })
  ml.manual_seed(4)
  local shuffled = data.DataLoader(sequence(50), { batch_size = 8, shuffle = true })
  local first, second = gather(shuffled), gather(shuffled)
  expect.falsy(table.concat(first, " ") == table.concat(second, " "))
  table.sort(first)
  expect.equal(first[1], 1)
  expect.equal(first[50], 50)
  ml.manual_seed(4)
  expect.equal(#gather(shuffled), 50)
end)

test("loops over one loader nest and can be left", function()
  local loader = data.DataLoader(sequence(4), { batch_size = 2 })
  local count = 0
  for _ in loader do
    for _ in loader do count = count + 1 end
    local next_batch = loader:iter()
    next_batch()
  end
  expect.equal(count, 4)
end)

test("samplers", function()
  local weighted = data.WeightedRandomSampler({ 0, 1, 0, 3 }, 100)
  local counts = { 0, 0, 0, 0 }
  for position in weighted:iter() do counts[position] = counts[position] + 1 end
  expect.equal({ counts[1], counts[3] }, { 0, 0 })
  expect.truthy(counts[4] > counts[2])
  local loader = data.DataLoader(sequence(4), { sampler = weighted, batch_size = 50 })
  expect.equal(#loader, 2)
  expect.equal(#data.RandomSampler(3, { replacement = true, num_samples = 10 }), 10)
  local long = data.RandomSampler(3, { num_samples = 7 }):order()
  expect.equal(#long, 7)
  expect.equal(long[{ { 4, 6 } }]:sort():totable(), { 1, 2, 3 })
  expect.error(function()
    data.DataLoader(sequence(4), { sampler = weighted, shuffle = true })
  end, "exclude each other")
end)

test("own data sets and collate functions", function()
  local Squares = require "moonlet.class"("Squares", data.Dataset)
  function Squares:init() end
  function Squares:size() return 5 end
  function Squares:get(i) return i * i, "item " .. i, ml.full({ 2 }, i) end
  local batches = {}
  for squares, names, rows in data.DataLoader(Squares(), { batch_size = 2 }) do
    batches[#batches + 1] = squares:totable()
    expect.equal(type(names[1]), "string")
    expect.equal(rows.shape[2], 2)
  end
  expect.equal(batches, { { 1, 4 }, { 9, 16 }, { 25 } })
  local function count(examples) return ml.tensor { #examples } end
  for n in data.DataLoader(Squares(), { batch_size = 5, collate_fn = count }) do
    expect.equal(n:item(), 5)
  end
end)

test("loaders and samplers take PyTorch's arguments", function()
  local set = sequence(6)
  local by_position = data.DataLoader(set, 2, false)
  expect.equal(#by_position, 3)
  local own = data.BatchSampler(data.SequentialSampler(set), 4, true)
  local values = gather(data.DataLoader { dataset = set, batch_sampler = own })
  expect.equal(values, { 1, 2, 3, 4 })
  expect.error(function() data.DataLoader(set, { batch_sampler = own, batch_size = 2 }) end, "excludes")
  local function shuffled(seed)
    local generator = ml.Generator { seed = seed }
    return (gather(data.DataLoader(set, { shuffle = true, generator = generator })))
  end
  expect.equal(shuffled(3), shuffled(3))
  local function drawn(make)
    return make(ml.Generator { seed = 5 }):order():totable()
  end
  for _, make in ipairs {
    function(g) return data.RandomSampler(set, true, 20, g) end,
    function(g) return data.RandomSampler(set, { generator = g }) end,
    function(g) return data.WeightedRandomSampler({ 1, 2, 3 }, 20, { generator = g }) end,
    function(g) return { order = function() return data.random_split(set, { 4, 2 }, g)[1].positions end } end,
  } do
    expect.equal(drawn(make), drawn(make))
  end
  expect.error(function() data.RandomSampler(0, true, 3) end, "no examples")
  expect.error(function() data.WeightedRandomSampler({ 1, -1 }, 3) end, "'weights'")
  expect.error(function() data.BatchSampler(set, 3) end, "a sampler is expected")
  expect.error(function() data.SequentialSampler(-1) end, "a data set or a count is expected")
  expect.error(function() data.TensorDataset(3) end, "field 1 is a number")
  expect.error(function() data.Dataloader(set) end, "did you mean 'DataLoader'")
end)

test("bad options of loaders are named", function()
  expect.error(function() data.DataLoader(sequence(3), { batchsize = 2 }) end,
    "unknown option 'batchsize'; did you mean 'batch_size'")
  expect.error(function() data.DataLoader(sequence(3), { batch_size = 0 }) end, "at least 1")
  expect.error(function() data.DataLoader("x") end, "a data set is expected")
end)

test("CSV", function()
  with_file("1,2.5,-3\n4, +5e1 ,nan\r\n", function(path)
    local x = data.read_csv(path)
    expect.equal(x.dtype, ml.float32)
    expect.near(x:totable(), { { 1, 2.5, -3 }, { 4, 50, 0 / 0 } })
  end)
  with_file('\xEF\xBB\xBFa;"b;c"\n1;"2"\n', function(path)
    local x, names = data.read_csv(path, { header = true, separator = ";", dtype = ml.int64 })
    expect.equal(names, { "a", "b;c" })
    expect.equal(x:totable(), { { 1, 2 } })
  end)
  harness.with_temp_file(function(path)
    local x = ml.randn(3, 2)
    data.write_csv(path, x, { header = { "a", "b" } })
    local y, names = data.read_csv(path, { header = true })
    expect.truthy(x:eq(y):all():item())
    expect.equal(names, { "a", "b" })
  end)
end)

test("no digit of a CSV number is lost without a word", function()
  local cases = {
    { "1700000001,2\n", "int64", { { 1700000001, 2 } } },
    { "1700000001,0.5\n", "float64", { { 1700000001.0, 0.5 } } },
    { "123456789012345678,2\n", "int64", { { 123456789012345678, 2 } } },
    { "1e300,0.5\n", "float64", { { 1e300, 0.5 } } },
    { "16777216,0.1\n", "float32", { { 16777216.0, 0.1 } } },
    { "1700000001,0.5\n", "float32", { { 1700000000.0, 0.5 } }, { dtype = ml.float32 } },
  }
  for _, case in ipairs(cases) do
    with_file(case[1], function(path)
      local x = data.read_csv(path, case[4])
      expect.equal(x.dtype, case[2])
      expect.near(x:totable(), case[3])
      if x.dtype == ml.int64 then expect.equal(x:totable(), case[3]) end
    end)
  end
  with_file("123456789012345678,0.5\n", function(path)
    expect.error(function() data.read_csv(path) end, "line 1: a whole number has more digits than float64")
  end)
end)

test("options of read_csv", function()
  local cases = {
    { "1,2\n\n3,4\n", {}, { { 1, 2 }, { 3, 4 } } },
    { "# x\n1,2\n", {}, { { 1, 2 } } },
    { "1;2,5\n", { sep = ";", decimal = "," }, { { 1, 2.5 } } },
    { "1  2\n 3 4\n", { sep = "%s+" }, { { 1, 2 }, { 3, 4 } } },
    { "1,NA\n3\n", { keep_default_na = true }, { { 1, 0 / 0 }, { 3, 0 / 0 } } },
    { "1,-9\n3,4\n", { na_values = -9 }, { { 1, 0 / 0 }, { 3, 4 } } },
    { "a,b,c\n1,x,2\n", { header = true, usecols = { "a", "c" } }, { { 1, 2 } } },
    { "1,x,2\n", { usecols = { 1, 3 } }, { { 1, 2 } } },
    { "t\n1\n2\nend\n", { skiprows = 1, skipfooter = 1 }, { { 1 }, { 2 } } },
    { "1\n2\n3\n", { nrows = 2 }, { { 1 }, { 2 } } },
    { '1,"2,345"\n', {}, { { 1, 2345 } } },
    { "1,2\n3,4,5\n", { on_bad_lines = "skip" }, { { 1, 2 } } },
    { "1,2 # x\n", { comment = "#" }, { { 1, 2 } } },
  }
  for _, case in ipairs(cases) do
    with_file(case[1], function(path) expect.near(data.read_csv(path, case[2]):totable(), case[3]) end)
  end
end)

test("names of CSV columns that hold more than letters come back", function()
  harness.with_temp_file(function(path)
    local names = { "a,b", 'a "b"', "two\nlines", " spaces ", "" }
    data.write_csv(path, ml.ones(2, 5), { header = names })
    local x, read = data.read_csv(path, { header = true })
    expect.equal(read, names)
    expect.equal(x:sum():item(), 10.0)
    expect.error(function() data.write_csv(path, x, { header = { "a" } }) end, "1 names for 5 columns")
    for _, separator in ipairs { "", "::", "1", ".", "\n", '"', "e" } do
      expect.error(function() data.write_csv(path, x, { separator = separator }) end, "write_csv: 'separator'")
      expect.error(function() data.read_csv(path, { separator = separator }) end, "read_csv: 'separator'")
    end
  end)
end)

test("tensors that CSV has no form for", function()
  harness.with_temp_file(function(path)
    for _, case in ipairs {
      { ml.ones(2, 2):to "complex64", "real numbers is expected, got complex64" },
      { ml.ones(1, 1, 1), "one or two dimensions is expected, got shape %(1, 1, 1%)" },
    } do
      expect.error(function() data.write_csv(path, case[1]) end, "write_csv: .*" .. case[2])
    end
  end)
end)

test("damaged CSV files", function()
  local cases = {
    { "1,2\n3,x\n", "line 2, column 2: 'x' is no number" },
    { "1,2\n3,\n", "line 2, column 2: the field is empty" },
    { "1,2\n3\n", "line 2: 1 fields where the lines before have 2" },
    { "a,b\n1,2\n", "line 1, column 1: 'a' is no number; is the first line a header" },
    { "", "has no rows" },
    { "\n\n", "has no rows" },
    { '1,"2\n', "quote is not closed" },
    { '1,"2"3\n', "text follows a closing quote" },
    { "1,1e999\n", "out of range" },
    { "0x10\n", "'0x10' is no number" },
  }
  for _, case in ipairs(cases) do
    with_file(case[1], function(path)
      expect.error(function() data.read_csv(path) end, case[2])
    end)
  end
  with_file("1.5\n", function(path)
    expect.error(function() data.read_csv(path, { dtype = ml.int64 }) end, "is no integer")
  end)
  with_file("300\n", function(path)
    expect.error(function() data.read_csv(path, { dtype = ml.uint8 }) end, "do not fit uint8")
    expect.error(function() data.read_csv(path, { separator = "::" }) end, "separator")
    expect.error(function() data.read_csv(path, { seperator = ";" }) end, "mean 'separator'")
  end)
  with_file("a,b\n", function(path)
    expect.error(function() data.read_csv(path, { header = true }) end, "has no rows")
  end)
  with_file('"a\nb"\nx\n', function(path)
    expect.error(function() data.read_csv(path, { header = true }) end, "line 3, column 1: 'x'")
  end)
  expect.error(function() data.read_csv("/nowhere/x.csv") end, "/nowhere/x.csv")
  expect.error(function() data.read_csv(nil) end, "a path is expected")
end)

test("IDX", function()
  local function read(content)
    local result
    with_file(content, function(path) result = data.read_idx(path) end)
    return result
  end
  local bytes = read("\0\0\8\2\0\0\0\2\0\0\0\3" .. "\1\2\3\4\5\255")
  expect.equal(bytes.dtype, ml.uint8)
  expect.equal(bytes:totable(), { { 1, 2, 3 }, { 4, 5, 255 } })
  expect.equal(read("\0\0\11\1\0\0\0\1\255\254"):totable(), { -2 })
  expect.equal(read("\0\0\12\1\0\0\0\1\0\0\1\0"):totable(), { 256 })
  expect.equal(read("\0\0\13\1\0\0\0\1\63\128\0\0"):totable(), { 1.0 })
  expect.equal(read("\0\0\14\1\0\0\0\1\191\240\0\0\0\0\0\0"):totable(), { -1.0 })
  expect.equal(#read("\0\0\8\1\0\0\0\0"), 0)
end)

test("damaged IDX files", function()
  local cases = {
    { "", "no IDX file" },
    { "hello", "no IDX file" },
    { "\0\0\7\1\0\0\0\0", "unknown type code 7" },
    { "\0\0\8\2\0\0\0\1", "cut short inside its header" },
    { "\0\0\8\1\0\0\0\5abc", "cut short" },
    { "\0\0\8\1\0\0\0\2abc", "has 3 bytes of data" },
    { "\0\0\8\255" .. ("\0"):rep(1020), "255 dimensions" },
    { "\0\0\14\4" .. ("\255"):rep(16), "read_idx" },
  }
  for _, case in ipairs(cases) do
    with_file(case[1], function(path)
      expect.error(function() data.read_idx(path) end, case[2])
    end)
  end
  with_file("\31\139\8\0\0\0", function(path)
    expect.error(function() data.read_idx(path) end, "gzip")
  end)
end)

test("MNIST's own files", function()
  local folder = harness.data_dir() .. "/mnist/"
  if not system.exists(folder) then harness.skip("no MNIST files") end
  local images = data.read_idx(folder .. "t10k-images-idx3-ubyte.gz")
  local labels = data.read_idx(folder .. "t10k-labels-idx1-ubyte.gz")
  expect.equal(table.concat(images.shape, " "), "10000 28 28")
  expect.equal(labels[{ { 1, 4 } }]:totable(), { 7, 2, 1, 0 })
end)

test("bytes of tensors", function()
  local x = ml.tensor { { 1, -2 }, { 3, 4 } }
  expect.equal(x:to("int8"):t():to_bytes(), "\1\3\254\4")
  expect.equal(ml.from_bytes("\1\3\254\4", ml.int8, { 2, 2 }):totable(), { { 1, 3 }, { -2, 4 } })
  expect.error(function() ml.from_bytes("abc", ml.int16, { 2 }) end, "3 bytes do not fill")
  expect.error(function() ml.from_bytes("abc", ml.int16) end, "do not fill")
  expect.error(function() ml.from_bytes("\2", ml.bool) end, "neither 0 nor 1")
  expect.error(function() ml.from_bytes("", ml.int16, { 1 << 40, 1 << 40 }) end, "from_bytes")
end)

test("CSV does not depend on the locale", function()
  harness.with_temp_file(function(path)
    local output = harness.run_with_decimal_commas(([[
      local ml = require 'moonlet'
      ml.data.write_csv('%s', ml.tensor { { 1.5, 0.1, 2 } })
      print(ml.data.read_csv('%s')[{1, 1}]:item() * 2 == 3)
    ]]):format(path, path))
    expect.equal(output, "true\n")
    expect.equal(system.read_file(path), "1.5,0.1,2\n")
  end)
end)

test("a loop goes on from its last batch, whichever function asks", function()
  local loader = data.DataLoader(sequence(6), { batch_size = 2 })
  local function ask(last) return (loader(nil, last)) end
  local first = loader(nil, nil)
  local other = ask(nil)
  local second = ask(first)
  expect.truthy(second:equal(ask(other)))
  expect.truthy(ask(second):gt(second):all():item())
  expect.error(function() ask(ml.ones(2)) end, "this loop wants")
end)

-- Every pair of two nested loops over one loader, also where both give the same value.
test("loops over one loader nest", function()
  local Same = class("Same", data.Dataset)
  local one = ml.ones(1)
  function Same:init(value) self.value = value end
  function Same.__len() return 3 end
  function Same:get(i) return self.value, i end
  for _, value in ipairs { "text", one } do
    local loader = data.DataLoader(Same(value), { collate = function(list) return list[1][1], list[1][2] end })
    local seen = {}
    for _, i in loader do for _, j in loader do seen[#seen + 1] = i .. j end end
    expect.equal(table.concat(seen, " "), "11 12 13 21 22 23 31 32 33")
    seen = {}
    for _, i in loader do
      for _, j in loader do
        seen[#seen + 1] = i .. j
        if j == 2 then break end
      end
    end
    for _, i in loader do seen[#seen + 1] = i end
    expect.equal(table.concat(seen, " "), "11 12 21 22 31 32 1 2 3")
    local function sum(depth)
      local total = 0
      for _, i in loader do total = total + (depth > 1 and sum(depth - 1) or i) end
      return total
    end
    expect.equal(sum(3), 54)
    local a = coroutine.wrap(function() for _, i in loader do coroutine.yield(i) end end)
    local b = coroutine.wrap(function() for _, i in loader do coroutine.yield(10 * i) end end)
    expect.equal(a() + b() + a() + b() + a() + b(), 66)
  end
end)

harness.run()
