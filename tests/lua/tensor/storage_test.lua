-- tests/lua/tensor/storage_test.lua: storages as values of scripts: elements, identity, lifetime, files,
-- and tensors that move to another storage or shape.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local test, expect = harness.test, harness.expect

local function list(x) return x:tolist() end

-- A message as a pattern.
local function plain(message) return (message:gsub("%p", "%%%0")) end

local function expect_near(x, wanted)
  expect.truthy((x - wanted):abs():max():item() < 1e-6, tostring(x))
end

test("elements are read and written through every view", function()
  local x = ml.arange(1, 6):float():view(2, 3)
  local s = x:storage()
  expect.equal(#s, 6)
  expect.equal(s[1], 1.0)
  expect.equal(s[6], 6.0)
  expect.equal(s[2.0], 2.0)
  local column = x[{ {}, 2 }]
  expect.equal(#column:storage(), 6)
  local version = x._version
  s[5] = 50
  expect.equal(x[{ 2, 2 }]:item(), 50.0)
  expect.equal(column[2]:item(), 50.0)
  expect.equal(x._version, version + 1)
  expect.equal(s._version, version + 1)
  x:fill_(7)
  expect.equal(s:tolist(), { 7.0, 7.0, 7.0, 7.0, 7.0, 7.0 })
end)

test("positions outside are errors that name the size", function()
  local s = ml.Storage { 1, 2, 3 }
  for _, i in ipairs { 0, -1, 4, math.mininteger, math.maxinteger } do
    local wanted = plain(("position %d is outside 1 to 3"):format(i))
    expect.error(function() return s[i] end, wanted)
    expect.error(function() s[i] = 1 end, wanted)
  end
  expect.error(function() return s[1.5] end, "a position is an integer, got number")
  expect.error(function() return s[{}] end, "a position is an integer, got table")
  expect.error(function() s[nil] = 1 end, "a position is an integer, got nil")
  expect.error(function() return s.dtpye end, "did you mean 'dtype'?")
  expect.error(function() s.dtype = "int8" end, "only elements can be assigned, not 'dtype'")
end)

test("what does not fit an element is an error", function()
  local s = ml.Storage(2, { dtype = "int8" })
  expect.error(function() s[1] = 128 end, "128")
  expect.error(function() s[1] = 1e10 end, "int8")
  expect.error(function() s:fill(-129) end, "-129")
  expect.error(function() s[1] = "1" end, "an element is a number or a boolean, got string")
  expect.error(function() s[1] = nil end, "got nil")
  expect.error(function() s:fill {} end, "fill: a number or a boolean is expected, got table")
  s[1] = -128
  expect.equal(s:tolist(), { -128, 0 })
end)

test("every dtype holds its values", function()
  for _, dtype in ipairs { "uint8", "int8", "int16", "int32", "int64" } do
    local s = ml.Storage(2, { dtype = dtype })
    s[2] = 100
    expect.equal(s:tolist(), { 0, 100 })
    expect.equal(math.type(s[2]), "integer")
  end
  for _, dtype in ipairs { "float16", "bfloat16", "float32", "float64" } do
    local s = ml.Storage(2, { dtype = dtype })
    s[1] = 0.5
    expect.equal(s:tolist(), { 0.5, 0.0 })
  end
  local flags = ml.Storage { true, false }
  flags[2] = true
  expect.equal(flags.dtype, "bool")
  expect.equal(flags:tolist(), { true, true })
  local big = ml.Storage { math.maxinteger, math.mininteger }
  expect.equal(big[1], math.maxinteger)
  expect.equal(big[2], math.mininteger)
  local z = ml.Storage(1, { dtype = "complex64" })
  z[1] = 2
  expect.equal(z[1].real, 2.0)
end)

test("ipairs walks all elements and nothing else reads past the end", function()
  local s, seen = ml.Storage { 10, 20, 30 }, {}
  for i, value in ipairs(s) do seen[i] = value end
  expect.equal(seen, { 10, 20, 30 })
  for _ in ipairs(ml.Storage(0)) do error "an empty storage has no element" end
  expect.error(function() return s[#s + 1] end, "position 4 is outside 1 to 3")
end)

test("one storage is one value", function()
  local x = ml.zeros(4)
  local s = x:storage()
  expect.truthy(rawequal(s, x:storage()))
  expect.truthy(rawequal(s, x[{ { 2, 3 } }]:storage()))
  expect.truthy(rawequal(s, x:detach():storage()))
  expect.truthy(not rawequal(s, x:clone():storage()))
  expect.truthy(s ~= x:clone():storage())
  local seen = { [s] = "mine" }
  expect.equal(seen[x:view(2, 2):storage()], "mine")
  local z = ml.view_as_complex(x:view(2, 2)):storage()
  expect.equal(z.dtype, "complex64")
  expect.equal(#z, 2)
  expect.truthy(z == s and not rawequal(z, s))
  expect.truthy(ml.is_storage(s) and not ml.is_storage(x) and not ml.is_storage(nil))
end)

test("a storage lives on without its tensors, and no registry holds it", function()
  local function use_one()
    local s = ml.full({ 1000 }, 3.5):storage()
    ml.memory.collect()
    expect.equal(s[1000], 3.5)
    expect.equal(ml.empty(0):set_(s):sum():item(), 3500.0)
  end
  use_one()
  ml.memory.collect()
  local before = ml.memory.live_bytes()
  do
    local x = ml.zeros(1 << 20)
    x:storage()
    expect.truthy(ml.memory.live_bytes() >= before + (4 << 20))
  end
  ml.memory.collect()
  ml.memory.collect()
  expect.equal(ml.memory.live_bytes(), before)
end)

test("freed storages say so and are made again", function()
  local x = ml.ones(2)
  local s = x:storage()
  s:free()
  expect.error(function() return s[1] end, "has been freed")
  expect.error(function() return #s end, "has been freed")
  expect.error(function() return s.dtype end, "has been freed")
  expect.error(function() s:fill(1) end, "fill: the storage has been freed")
  expect.error(function() x:set_(s) end, "set_: the storage has been freed")
  expect.equal(tostring(s), "Storage (freed)")
  expect.equal(x:storage()[1], 1.0)
  do local _ <close> = x:storage() end
  expect.equal(x:storage()[1], 1.0)
end)

test("temporary storages drive the collector", function()
  ml.memory.collect()
  ml.memory.reset_peak()
  local live = ml.memory.live_bytes()
  for _ = 1, 200 do ml.Storage(1 << 22) end
  expect.truthy(ml.memory.peak_bytes() <= 2 * live + (600 << 20), "200 storages of 16 MiB are held")
end)

test("fields, printing and methods", function()
  local s = ml.Storage({ 1, 2, 3 }, { dtype = "float64" })
  expect.equal(s.dtype, "float64")
  expect.equal(s.device, "cpu")
  expect.equal(s.nbytes, 24)
  expect.equal(s.itemsize, 8)
  expect.equal(s:size(), 3)
  expect.equal(tostring(s), "{1., 2., 3.}\nStorage (3) float64")
  expect.equal(tostring(ml.Storage(0)), "{}\nStorage (0) float32")
  local long = tostring(ml.arange(1, 100000):storage())
  expect.truthy(#long < 200 and long:find "..." and long:find "Storage %(100000%) int64", long)
  for _, field in ipairs { "is_mapped", "is_shared", "is_foreign", "is_read_only" } do
    expect.equal(s[field], false)
  end
  local x = ml.empty(0, { dtype = "float64" }):set_(s, 1)
  expect.equal(x:data_ptr(), s:data_ptr() + 8)
  expect.truthy(rawequal(s:fill(4), s))
  expect.equal(s:tolist(), { 4.0, 4.0, 4.0 })
  expect.truthy(rawequal(s:copy { 5, 6, 7 }, s))
  expect.equal(list(x), { 6.0, 7.0 })
  s:copy(ml.Storage({ 1, 2, 3 }, { dtype = "int8" }))
  expect.equal(list(x), { 2.0, 3.0 })
  s:copy(s)
  s:copy(ml.tensor { 9, 8, 7 })
  expect.equal(s:totable(), { 9.0, 8.0, 7.0 })
  expect.error(function() s:copy { 1, 2 } end, plain "copy: the source has shape (2,) and the storage 3")
  expect.error(function() s:copy(ml.Storage(4)) end, "copy: the source has 4 elements")
  expect.error(function() s:copy(3) end, "copy: a storage, a tensor or a table")
  expect.error(function() ml.Storage(2, { dtype = "int8" }):copy { 300, 1 } end, "300")
end)

test("what makes a storage", function()
  expect.equal(ml.Storage(3):tolist(), { 0.0, 0.0, 0.0 })
  expect.equal(#ml.Storage(), 0)
  expect.equal(#ml.Storage {}, 0)
  expect.equal(ml.Storage({}).dtype, "float32")
  expect.equal(ml.Storage({ dtype = "int16" }).dtype, "int16")
  expect.equal(ml.Storage({ 1, 2, dtype = "int16" }).dtype, "int16")
  expect.equal(ml.Storage({ 1, 2 }).dtype, "int64")
  expect.equal(ml.Storage({ 1, 2.5 }).dtype, "float32")
  expect.error(function() ml.Storage(-1) end, "Storage: sizes cannot be negative")
  expect.error(function() ml.Storage(1 << 62) end, "too large")
  expect.error(function() ml.Storage(1.5) end, "Storage: a size or a table of numbers")
  expect.error(function() ml.Storage "x" end, "Storage: a size or a table of numbers")
  expect.error(function() ml.Storage(ml.ones(2)) end, plain "x:storage() gives a tensor's")
  expect.error(function() ml.Storage { { 1, 2 } } end, "a flat table of numbers")
  expect.error(function() ml.Storage(2, { dtpye = "int8" }) end, "did you mean 'dtype'")
  expect.error(function() ml.Storage(2, { shared = true }) end, "'shared' is for a mapped 'file'")
  expect.error(function() ml.Storage { "a" } end, "must be a number")
  expect.error(function() ml.Storage({ 1 << 40 }, { dtype = "int8" }) end, "does not fit")
end)

test("resizing keeps elements, gives zeros, and never pulls memory from under a tensor", function()
  local x = ml.arange(1, 4):float()
  local s = x:storage()
  s:resize(6)
  expect.equal(s:tolist(), { 1.0, 2.0, 3.0, 4.0, 0.0, 0.0 })
  expect.equal(x:data_ptr(), s:data_ptr())
  expect.equal(list(x), { 1.0, 2.0, 3.0, 4.0 })
  s[1] = 9
  expect.equal(x[1]:item(), 9.0)
  s:resize(2)
  expect.equal(#s, 2)
  expect.equal(list(x), { 9.0, 2.0, 3.0, 4.0 })
  expect.error(function() return x:view(2, 2) end, "reach outside a storage of 2 elements")
  expect.error(function() return s[3] end, "outside 1 to 2")
  s:resize(4)
  expect.equal(list(x), { 9.0, 2.0, 0.0, 0.0 })
  x:free()
  ml.memory.collect()
  local before = ml.memory.live_bytes()
  s:resize(1 << 20)
  expect.equal(ml.memory.live_bytes(), before - 24 + (4 << 20))
  s:resize(0)
  expect.equal(ml.memory.live_bytes(), before - 24)
  expect.error(function() s:resize(-1) end, "resize: sizes cannot be negative")
  expect.error(function() s:resize(1 << 61) end, "resize")
  expect.error(function() s:resize "2" end, "resize: a number of elements is expected, got string")
end)

local function write_file(path, bytes)
  local file = assert(io.open(path, "wb"))
  file:write(bytes)
  file:close()
end
local function read_file(path)
  local file = assert(io.open(path, "rb"))
  local bytes = file:read "a"
  file:close()
  return bytes
end

test("a private mapping keeps writes in the process", function()
  harness.with_temp_file(function(path)
    write_file(path, ("<i4i4i4"):pack(1, 2, 3))
    local s = ml.Storage { file = path, dtype = "int32" }
    expect.equal(s:tolist(), { 1, 2, 3 })
    expect.truthy(s.is_mapped and not s.is_shared and not s.is_read_only)
    expect.equal(tostring(s), "{1, 2, 3}\nStorage (3) int32 mapped")
    ml.empty(0, { dtype = "int32" }):set_(s):mul_(2)
    expect.equal(s:tolist(), { 2, 4, 6 })
    expect.equal(read_file(path), ("<i4i4i4"):pack(1, 2, 3))
    expect.error(function() s:resize(4) end, "resize: this storage is a mapped file")
    expect.equal(ml.Storage({ file = path, dtype = "int32", size = 2 }):tolist(), { 1, 2 })
    expect.error(function() ml.Storage { file = path, dtype = "int32", size = 4 } end,
      "it has 12 bytes, 16 are expected")
    expect.error(function() ml.Storage { file = path, dtype = "int64" } end, "no whole number of int64")
  end)
end)

test("a shared mapping writes the file, and makes it when a size is given", function()
  harness.with_temp_file(function(path)
    expect.error(function() ml.Storage { file = path, dtype = "int32", shared = true } end, "cannot open")
    local s = ml.Storage { file = path, dtype = "int32", shared = true, size = 3 }
    expect.equal(s:tolist(), { 0, 0, 0 })
    expect.truthy(s.is_mapped and s.is_shared)
    s[2] = 5
    expect.equal(read_file(path), ("<i4i4i4"):pack(0, 5, 0))
    local other = ml.Storage { file = path, dtype = "int32", shared = true }
    expect.truthy(other ~= s)
    other:fill(7)
    expect.equal(s:tolist(), { 7, 7, 7 })
    expect.error(function() s:resize(2) end, "mapped file")
    expect.error(function() ml.Storage { file = path, shared = true, read_only = true } end, "not both")
  end)
end)

test("read-only storages refuse every write", function()
  harness.with_temp_file(function(path)
    write_file(path, ("<ffff"):pack(1, 2, 3, 4))
    local s = ml.Storage { file = path, read_only = true }
    local x = ml.empty(0):set_(s, 0, { 2, 2 })
    expect.truthy(s.is_read_only)
    expect.equal(list(x), { { 1.0, 2.0 }, { 3.0, 4.0 } })
    local index = ml.tensor { { 1, 2 } }
    local ones = ml.ones(2, 2)
    local writes = {
      function() s[1] = 1 end,
      function() s:fill(1) end,
      function() s:copy { 1, 2, 3, 4 } end,
      function() s:resize(2) end,
      function() x:add_(1) end,
      function() x:t():mul_(ones) end,
      function() x[1] = 3 end,
      function() x[{ index[1], index[1] }] = 3 end,
      function() x.data:copy_(ones) end,
      function() x:fill_(1) end,
      function() x:zero_() end,
      function() x:copy_(ones) end,
      function() x:scatter_(1, index, ones[{ { 1, 1 } }]) end,
      function() x:index_add_(1, index[1], ones) end,
      function() x:uniform_() end,
      function() ml.add(ones, ones, { out = x }) end,
      function() ml.softmax(ones, 1, { out = x }) end,
      function() ml.sum(ones, 1, { out = x[1] }) end,
      function() ml._internal.sgd_step({ ones:clone(), x }, { ones, ones }, {}, 0.1) end,
      function() ml._internal.sgd_step({ ones }, { ones:clone() }, { x }, 0.1, 0.9) end,
      function() x:resize_(9) end,
    }
    for i, write in ipairs(writes) do
      local ok, message = pcall(write)
      expect.truthy(not ok and message:find "read%-only", ("write %d: %s"):format(i, message))
    end
    expect.equal(list(x), { { 1.0, 2.0 }, { 3.0, 4.0 } })
    expect.equal(list(x + 1), { { 2.0, 3.0 }, { 4.0, 5.0 } })
    x:clone():add_(1)
    expect.equal(read_file(path), ("<ffff"):pack(1, 2, 3, 4))
  end)
end)

test("files that are none are errors", function()
  expect.error(function() ml.Storage { file = "/no/such/file" } end, "cannot open '/no/such/file'")
  expect.error(function() ml.Storage { file = "/tmp" } end, "not a regular file")
  expect.error(function() ml.Storage { 1, file = "x" } end, "not both")
  expect.error(function() ml.Storage { file = "a\0b" } end, "zero byte")
  harness.with_temp_file(function(path)
    write_file(path, "\1\2")
    expect.error(function() ml.Storage { file = path, dtype = "bool" } end, "neither 0 nor 1")
    write_file(path, "")
    expect.equal(#ml.Storage { file = path }, 0)
  end)
end)

test("set_ shows another storage, or a part of it", function()
  local s = ml.Storage({ 1, 2, 3, 4, 5, 6 }, { dtype = "float32" })
  local x = ml.zeros(2)
  local same = x
  expect.truthy(x:set_(s) == x)
  expect.equal(list(same), { 1.0, 2.0, 3.0, 4.0, 5.0, 6.0 })
  expect.truthy(rawequal(x:storage(), s))
  x:set_(s, 2)
  expect.equal(list(x), { 3.0, 4.0, 5.0, 6.0 })
  expect.equal(x:storage_offset(), 2)
  x:set_(s, 1, { 2, 2 })
  expect.equal(list(x), { { 2.0, 3.0 }, { 4.0, 5.0 } })
  x:set_(s, 0, { 2, 3 }, { 1, 2 })
  expect.equal(list(x), { { 1.0, 3.0, 5.0 }, { 2.0, 4.0, 6.0 } })
  s[3] = 30
  expect.equal(x[{ 1, 2 }]:item(), 30.0)
  local y = ml.ones(3)
  expect.truthy(not x:is_set_to(y))
  x:set_(y)
  expect.truthy(x:is_set_to(y))
  x:set_()
  expect.equal(x.shape[1], 0)
  expect.equal(#y:storage(), 3)
end)

test("set_ refuses what does not fit", function()
  local s, x = ml.Storage(6), ml.zeros(2)
  expect.error(function() x:set_(s, 7) end, "offset 7 is outside a storage of 6")
  expect.error(function() x:set_(s, -1) end, plain "offset -1")
  expect.error(function() x:set_(s, 1, { 6 }) end, "reach outside a storage of 6 elements")
  expect.error(function() x:set_(s, 0, { 2, 2 }, { 1 }) end, "differ in length")
  expect.error(function() x:set_(s, 0, { -2 }) end, "cannot be negative")
  expect.error(function() x:set_(s, 0, { 2 }, { -1 }) end, "negative stride")
  expect.error(function() x:set_(s, 0, { 2 }, { math.maxinteger }) end, "set_")
  expect.error(function() x:set_(s, 0, { 3, 3 }, { math.maxinteger, math.maxinteger }) end, "overflow")
  expect.error(function() x:set_(s, 0, { 1 << 40, 1 << 40 }, { 0, 0 }) end, "too large")
  expect.error(function() x:set_(s, math.maxinteger, { 2 }) end, "outside")
  expect.error(function() x:set_(ml.Storage(6, { dtype = "float64" })) end,
    "set_: the storage holds float64 and the tensor is float32")
  expect.error(function() x:set_(ml.zeros(2), 0) end, "a tensor brings its own offset")
  expect.error(function() x:set_(3) end, "set_: a storage is expected, got number")
  -- A step that is never taken may be any number, and later views do not overflow with it.
  x:set_(s, 0, { 1, 6 }, { math.maxinteger, 1 })
  expect.equal(x:unsqueeze(1):transpose(1, 2):unsqueeze(1):sum():item(), 0.0)
  x:set_(s, 0, { 0, 6 }, { math.maxinteger, math.maxinteger })
  expect.equal(x:unsqueeze(1):numel(), 0)
end)

test("resize_ keeps the elements and grows the storage", function()
  local x = ml.arange(1, 10):float()
  local y = x:narrow(1, 6, 5)
  expect.truthy(y:resize_(8) == y)
  expect.equal(list(y), { 6.0, 7.0, 8.0, 9.0, 10.0, 0.0, 0.0, 0.0 })
  expect.equal(y:storage_offset(), 5)
  expect.equal(#x:storage(), 13)
  y[1] = 60
  expect.equal(x[6]:item(), 60.0)
  y:resize_as_(ml.ones(2, 2))
  expect.equal(list(y), { { 60.0, 7.0 }, { 8.0, 9.0 } })
  expect.equal(#x:storage(), 13)
  y:resize_ { 0 }
  expect.equal(y:numel(), 0)
  local t = ml.ones(2, 3):t()
  expect.equal(t:resize_(3, 2):stride()[1], 1) -- the same shape: nothing to do
  expect.equal(t:resize_(2, 2):stride()[1], 2)
  expect.error(function() t:resize_(-1) end, "resize_: sizes cannot be negative")
  expect.error(function() t:resize_(1 << 62) end, "too large")
  expect.error(function() t:resize_(1 << 58, 1) end, "out of memory")
  expect.equal(list(t), { { 1.0, 1.0 }, { 1.0, 1.0 } })
end)

test("tensors that the tape follows are refused", function()
  local w = ml.ones { 3, requires_grad = true }
  local h = w * 2
  local view = h:view(3, 1)
  local s = ml.Storage(3)
  for _, x in ipairs { h, view, w:view(3) } do
    expect.error(function() x:set_(s) end, "computed from others")
    expect.error(function() ml.no_grad(function() x:set_(s) end) end, "computed from others")
    expect.error(function() x:resize_(2) end, "requires grad")
    expect.error(function() x:resize_as_(ml.ones(2)) end, "requires grad")
  end
  expect.error(function() w:set_(s) end, "a leaf that requires grad cannot be moved while recording")
  expect.error(function() ml.no_grad(function() w:resize_(2) end) end, "requires grad")
  expect.error(function() ml.no_grad(function() w:set_(ml.Storage(4)) end) end, plain "keeps its shape (3,)")
  s:fill(5)
  ml.no_grad(function() w:set_(s) end)
  expect.equal(list(w), { 5.0, 5.0, 5.0 })
  w:sum():backward()
  expect.equal(list(w.grad), { 1.0, 1.0, 1.0 })
end)

test("the tape keeps what a tensor had before it moved, and finds memory written to", function()
  for _, change in ipairs {
    function(x) x:set_(ml.Storage(3)) end,
    function(x) x:set_(ml.ones(3) * 7) end,
  } do
    local a = ml.ones { 3, requires_grad = true }
    local x = ml.ones(3)
    local y = (a * x):sum()
    change(x)
    y:backward()
    expect.equal(list(a.grad), { 1.0, 1.0, 1.0 })
  end
  for _, change in ipairs {
    function(x) x:resize_(2) end,
    function(x) x:storage()[1] = 4 end,
    function(x) x:storage():fill(4) end,
  } do
    local a = ml.ones { 3, requires_grad = true }
    local x = ml.ones(3)
    local y = (a * x):sum()
    change(x)
    expect.error(function() y:backward() end, "changed in place")
  end
  -- A view that moved away is no view of its base any more.
  local base = ml.ones(4)
  local view = base:view(2, 2)
  view:set_(ml.Storage(4), 0, { 2, 2 })
  view:add_(ml.ones { 2, 2, requires_grad = true })
  expect.equal(base.requires_grad, false)
  view:sum():backward()
end)

test("as_strided sees the whole storage", function()
  local x = ml.arange(1, 10):float()
  local part = x:narrow(1, 6, 5)
  expect.equal(list(part:as_strided({ 10 }, { 1 }, 0)), list(x))
  expect.equal(list(part:as_strided({ 2, 2 }, { 2, 1 })), { { 6.0, 7.0 }, { 8.0, 9.0 } })
  expect.equal(list(x:view(2, 5):t():as_strided({ 3 }, { 3 }, 1)), { 2.0, 5.0, 8.0 })
  expect.error(function() part:as_strided({ 6 }, { 1 }) end, plain "as_strided: sizes (6,)")
  expect.error(function() part:as_strided({ 1 }, { 1 }, -1) end, "as_strided: offset must be at least 0, got %-1")
  expect.error(function() part:as_strided({ 2 }, { 1 }, math.maxinteger) end, "as_strided")
  expect.equal(part:as_strided({ 1 }, { math.maxinteger }):unsqueeze(1):sum():item(), 6.0)
end)

-- Values of PyTorch 2.15.
test("the gradient of as_strided is that of x's own elements", function()
  local function gradient(of, size, stride, offset, leaf)
    local y = of:as_strided(size, stride, offset)
    local weight = ml.arange(1, y:numel()):float():view(y.shape)
    return ml.grad((y * weight):sum(), leaf or of)
  end
  local a = ml.arange(1, 6):float():requires_grad_()
  local function windows_of() return (a * 1):unfold(1, 3, 1) end
  local columns = (a * 1):view(2, 3):t()
  expect.equal(list(gradient(columns, { 3, 2 }, { 1, 1 }, 1, a)), { 0.0, 1.0, 5.0, 9.0, 6.0, 0.0 })
  local windows = gradient(windows_of(), { 6 }, { 1 }, 0)
  local wanted = ml.tensor { { 1, 1, 1 }, { 1, 1, 4 / 3 }, { 1, 4 / 3, 2.5 }, { 4 / 3, 2.5, 6 } }
  expect_near(windows, wanted)
  expect.equal(list(gradient(windows_of(), { 6 }, { 1 }, 0, a)), { 1.0, 2.0, 3.0, 4.0, 5.0, 6.0 })
  local part = (a * 1)[{ { 3, 4 } }]
  expect.equal(list(gradient(part, { 6 }, { 1 }, 0)), { 3.0, 4.0 })
  local rows = gradient(part:expand(3, 2), { 2 }, { 1 }, nil)
  expect_near(rows, ml.tensor { { 1, 2 }, { 1, 2 }, { 1, 2 } } / 3)
  expect.equal(list(gradient((a * 1)[{ { 1, 2 } }], { 2 }, { 1 }, 4)), { 0.0, 0.0 })
end)

test("metamethods that free what a call reads", function()
  local function freeing(what, values)
    return setmetatable({}, {
      __len = function() what:free() return #values end,
      __index = function(_, i) what:free() return values[i] end,
    })
  end
  local calls = {
    function(x, s) x:set_(s, 0, freeing(x, { 2 })) end,
    function(x, s) x:set_(s, 0, freeing(s, { 2 })) end,
    function(x, s) x:set_(s, 0, { 2 }, freeing(x, { 1 })) end,
    function(x) x:resize_(freeing(x, { 2 })) end,
    function(x, s) ml.Storage(freeing(s, { 1, 2 })):copy(x) end,
    function(_, s) s:copy(freeing(s, { 1, 2, 3 })) end,
  }
  for _, call in ipairs(calls) do pcall(call, ml.ones(3), ml.Storage(3)) end
end)

test("storages in finalizers", function()
  local x = ml.ones(3)
  local seen
  do
    local _ = setmetatable({ s = x:storage() }, { __gc = function(t) seen = t.s[1] + x:storage()[2] end })
  end
  ml.memory.collect()
  ml.memory.collect()
  expect.equal(seen, 2.0)
end)

test("CUDA storages", function()
  if not ml.cuda.is_available() then harness.skip(ml.cuda.unavailable_reason()) end
  local s = ml.Storage({ 1, 2, 3 }, { device = "cuda", dtype = "float32" })
  expect.equal(s.device, "cuda:0")
  expect.equal(s[2], 2.0)
  s[2] = 20
  expect.equal(s:tolist(), { 1.0, 20.0, 3.0 })
  s:resize(5)
  expect.equal(s:tolist(), { 1.0, 20.0, 3.0, 0.0, 0.0 })
  s:copy(ml.Storage { 5, 4, 3, 2, 1 })
  expect.equal(tostring(s), "{5., 4., 3., 2., 1.}\nStorage (5) float32 cuda:0")
  local x = ml.empty(0, { device = "cuda" }):set_(s, 1, { 2, 2 })
  expect.equal(list(x), { { 4.0, 3.0 }, { 2.0, 1.0 } })
  x:resize_(3, 2)
  expect.equal(list(x), { { 4.0, 3.0 }, { 2.0, 1.0 }, { 0.0, 0.0 } })
  x:scatter_(1, ml.tensor({ { 2, 2 } }):cuda(), x[{ { 1, 1 } }])
  expect.equal(list(x), { { 4.0, 3.0 }, { 4.0, 3.0 }, { 0.0, 0.0 } })
  expect.error(function() ml.zeros(2):set_(s) end, "set_: the storage is on cuda:0 and the tensor on cpu")
  expect.error(function() ml.Storage { file = "x", device = "cuda" } end, "mapped on the CPU")
  expect.error(function() s[8] = 1 end, "position 8 is outside 1 to 7")
end)

test("an error about a saved tensor names the storage that it was changed through", function()
  for _, change in ipairs {
    function(s) s[1] = 5 end,
    function(s) s:fill(5) end,
    function(s) s:copy(ml.Storage(3)) end,
  } do
    local w = ml.ones { 3, requires_grad = true }
    local x = ml.ones(3)
    local y = (w * x):sum()
    change(x:storage())
    expect.error(function() y:backward() end, "changed in place since, last by a write through its storage;")
    x:mul_(2)
    expect.error(function() y:backward() end, "last by mul_;")
  end
end)

test("every function and method has a help text", function()
  local help = require "moonlet.help"
  for name, f in pairs(ml._storage_methods) do
    local text = help.text(f)
    expect.truthy(name == "totable" or text:find("s:" .. name, 1, true), name .. ": " .. text)
  end
  for _, name in ipairs { "storage", "set_", "resize_", "resize_as_", "storage_offset", "data_ptr", "is_set_to" } do
    expect.equal(help.text(ml._methods[name]), help.text("x:" .. name))
    expect.truthy(help.text("x:" .. name):find("x:" .. name, 1, true), name)
  end
  expect.equal(help.text(ml.Storage), help.text "ml.Storage")
  expect.truthy(help.text(ml.Storage):find("read_only", 1, true))
  expect.truthy(help.text(ml.Storage(2)):find("a storage of 2 elements, float32, on cpu", 1, true))
  expect.equal(help.text "s:fill", help.text(ml.Storage(1).fill))
  expect.truthy(help.text "storage_offset":find "How many elements")
end)

test("memory that is given back while tensors are on it, and taken from another tensor", function()
  local before = ml.memory.live_bytes()
  local x = ml.ones(1000)
  local view = x:narrow(1, 2, 3)
  local w = ml.ones(1000, { requires_grad = true })
  local y = (w * x):sum()
  local version = x._version
  ml._give_back_memory(x)
  ml._give_back_memory(view)
  expect.equal(x._version, version)
  expect.truthy(ml.memory.live_bytes() < before + 3 * 4000)
  for _, use in ipairs { function() return x:sum() end, function() return tostring(view) end,
      function() y:backward() end, function() return x:storage():tolist() end,
      function() x:storage():resize(5) end, function() view:fill_(1) end,
      function() return ml.save_string("npy", x) end, function() return x:data_ptr() end } do
    expect.error(use, "has been given back")
  end
  expect.equal(x.shape:totable(), { 1000 })
  local fresh = ml.full({ 1000 }, 3.0)
  local alias = fresh:detach()
  ml._take_memory(x, fresh)
  expect.equal(view:tolist(), { 3, 3, 3 })
  expect.error(function() return alias:sum() end, "has been given back")
  y = (w * x):sum()
  y:backward()
  expect.equal(w.grad:narrow(1, 1, 2):tolist(), { 3, 3 })
  expect.error(function() ml._take_memory(x, ml.ones(1000)) end, "a tensor without memory")
  ml._give_back_memory(x)
  expect.error(function() ml._take_memory(x, ml.ones(10)) end, "one with as much")
  expect.error(function() ml._give_back_memory(3) end, "tensor")
end)

harness.run()
