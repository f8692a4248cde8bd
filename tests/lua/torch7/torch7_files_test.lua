-- tests/lua/torch7/torch7_files_test.lua: torch.File and its kinds, values in files, and that `ml.load` reads
-- what torch.save writes.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local torch = require "torch"
local test, expect = harness.test, harness.expect

local ml = require "moonlet"

local function with_file(f)
  local name = os.tmpname()
  local ok, problem = pcall(f, name)
  os.remove(name)
  if not ok then error(problem, 0) end
end

test("numbers, binary and as text", function()
  for _, mode in ipairs { "binary", "ascii" } do
    local f = torch.MemoryFile()[mode](torch.MemoryFile())
    f:writeInt(-5)
    f:writeDouble(0.1)
    f:writeLong(torch.LongStorage { 1, 2, 3 })
    f:writeByte(200)
    f:writeString "end\n"
    f:seek(1)
    expect.equal({ f:readInt(), f:readDouble(), f:readLong(3):totable(), f:readByte(),
      f:readString "*l" }, { -5, 0.1, { 1, 2, 3 }, 200, "end" }, mode)
    expect.error(function() f:readInt() end, "read 0 blocks instead of 1")
    f:quiet()
    f:readInt()
    expect.equal(f:hasError(), true)
  end
end)

test("text has spaces between and a line's end behind", function()
  local f = torch.MemoryFile "w"
  f:writeInt(torch.IntStorage { 1, 2 })
  f:writeFloat(0.5)
  expect.equal(f:storage():string(), "1 2\n0.5\n\0")
  expect.error(function() f:readInt() end, "attempt to read in a file")
end)

test("byte orders and short longs", function()
  local f = torch.MemoryFile():binary():bigEndianEncoding()
  f:writeInt(1)
  f:longSize(4)
  f:writeLong(torch.LongStorage { 2 })
  expect.equal(f:storage():string(), "\0\0\0\1\0\0\0\2\0")
  f:seek(5)
  expect.equal(f:readLong(), 2)
  expect.error(function() f:longSize(3) end, "0, 4 or 8 is expected")
end)

test("files on disk", function()
  with_file(function(name)
    local f = torch.DiskFile(name, "w")
    f:writeString "one\ntwo\n"
    f:close()
    f = torch.DiskFile(name)
    expect.equal({ f:readString "*l", f:position(), f:readString "*a" }, { "one", 5, "two\n" })
    f:close()
    expect.error(function() f:seek(1) end, "closed file")
  end)
  expect.error(function() torch.DiskFile "/nowhere/file" end, "cannot open </nowhere/file> in mode r")
  expect.equal(torch.DiskFile("/nowhere/file", "r", true), nil)
end)

local function sample()
  local classes = {}
  local Node = torch.class("files.Node" .. tostring(classes):gsub("%W", ""), classes)
  local node = classes[torch.typename(Node and setmetatable({}, Node)):match "[^.]+$"]()
  local x = torch.range(1, 6):resize(2, 3)
  node.weight, node.column, node.name = x, x:select(2, 2), "a"
  node.self = node
  return { 1, 2.5, "text", true, node = node, again = x, floats = torch.FloatTensor { 0.5 },
    bytes = torch.ByteTensor { 1, 255 }, empty = torch.Tensor(), long = torch.LongStorage { 7 } }
end

local function check(value)
  expect.equal({ value[1], value[2], value[3], value[4] }, { 1, 2.5, "text", true })
  local node = value.node
  expect.truthy(node.self == node)
  expect.truthy(node.weight == value.again, "one tensor is one again")
  node.weight[1][2] = 50
  expect.equal(node.column:totable(), { 50.0, 5.0 }, "views share memory again")
  expect.equal({ value.floats:type(), value.bytes:totable(), value.empty:dim(), value.long[1] },
    { "torch.FloatTensor", { 1, 255 }, 0, 7 })
end

test("values come back, with what they share", function()
  for _, mode in ipairs { "binary", "ascii" } do
    with_file(function(name)
      torch.save(name, sample(), mode)
      check(torch.load(name, mode))
    end)
    check(torch.deserialize(torch.serialize(sample(), mode), mode))
  end
  check(torch.deserializeFromStorage(torch.serializeToStorage(sample())))
end)

test("ml.load reads what torch.save writes", function()
  with_file(function(name)
    torch.save(name, { x = torch.FloatTensor { { 1, 2 }, { 3, 4 } }, n = 3 })
    local value = ml.load(name)
    expect.equal({ value.x:tolist(), value.x.dtype, value.n },
      { { { 1.0, 2.0 }, { 3.0, 4.0 } }, "float32", 3 })
  end)
end)

test("what cannot be written is named", function()
  local co = coroutine.create(function() end)
  expect.error(function() torch.serialize { a = { b = co } } end, "Unwritable object <thread> at <%?>%.a%.b")
end)

test("unknown classes and damaged files", function()
  local bytes = torch.serialize(torch.Timer())
  expect.error(function() torch.deserialize((bytes:gsub("Timer", "Tamer"))) end,
    "unknown Torch class <torch.Tamer>")
  local whole = torch.serialize { torch.Tensor(3), "text" }
  for size = 0, #whole - 1 do
    expect.falsy(pcall(torch.deserialize, whole:sub(1, size)))
  end
  -- A tensor whose sizes its storage does not have.
  local tensor = torch.serialize(torch.range(1, 4))
  local at = tensor:find(("<i8"):pack(4), 1, true)
  expect.error(function()
    torch.deserialize(tensor:sub(1, at - 1) .. ("<i8"):pack(1 << 40) .. tensor:sub(at + 8))
  end, "set_")
end)

test("large elements in blocks", function()
  with_file(function(name)
    local x = torch.range(1, 300000)
    torch.save(name, x)
    expect.equal(torch.load(name):equal(x), true)
  end)
end)

-- Changed files are read, or refused with an error, by both readers.
test("changed files", function()
  local state = 7
  local function draw(n)
    state = (state * 1103515245 + 12345) % 2147483648
    return state // 65536 % n + 1
  end
  local original = {}
  for _, mode in ipairs { "binary", "ascii" } do original[mode] = torch.serialize(sample(), mode) end
  local refused = 0
  for round = 1, 600 do
    local mode = round % 2 == 0 and "binary" or "ascii"
    local bytes = original[mode]
    for _ = 1, draw(3) do
      local at = draw(#bytes)
      local put = ({ "\0", "\255", "9", "-", string.char(draw(256) - 1) })[draw(5)]
      bytes = bytes:sub(1, at - 1) .. put .. bytes:sub(at + 1)
    end
    local ok, problem = pcall(torch.deserialize, bytes, mode)
    if not ok then
      refused = refused + 1
      expect.equal(type(problem), "string")
    end
    pcall(ml.load_string, bytes)
  end
  expect.truthy(refused > 100, refused)
end)

test("each writes its own where nothing is referenced", function()
  local f = torch.MemoryFile():binary()
  f:referenced(false)
  local t = {}
  f:writeObject(t)
  f:writeObject(t)
  f:seek(1)
  expect.truthy(f:readObject() ~= f:readObject())
end)

harness.run()
