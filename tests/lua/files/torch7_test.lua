-- tests/lua/files/torch7_test.lua: ml.load of Torch7's files, which a writer of this test makes: binary ones
-- with longs of 8 and 4 bytes, and text; whole, cut and damaged.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect

-- --- a writer ---------------------------------------------------------------------------------

-- What writes numbers: `pack(kind, list)` gives the bytes of a group of numbers.
local FORMATS = { int = "<i4", double = "<d", float = "<f", byte = "B", long = "<i8" }

local function binary_pack(long)
  return function(kind, list)
    local format, out = kind == "long" and long or FORMATS[kind], {}
    for i, value in ipairs(list) do out[i] = format:pack(value) end
    return table.concat(out)
  end, function(text) return text end
end

local function text_pack()
  return function(kind, list)
    if #list == 0 then return "" end
    if kind == "byte" then return string.char(table.unpack(list)) .. "\n" end
    local out = {}
    for i, value in ipairs(list) do
      out[i] = kind == "double" and ("%.17g"):format(value) or kind == "float" and ("%.9g"):format(value)
        or ("%d"):format(value)
    end
    return table.concat(out, " ") .. "\n"
  end, function(text) return #text > 0 and text .. "\n" or "" end
end

local Writer = {}
Writer.__index = Writer

local WRITERS = { binary = function() return binary_pack "<i8" end, short = function() return binary_pack "<i4" end,
  text = text_pack }

local function writer(kind)
  local pack, chars = WRITERS[kind]()
  return setmetatable({ pack = pack, chars = chars, out = {}, count = 0, known = {} }, Writer)
end

function Writer:put(kind, ...) self.out[#self.out + 1] = self.pack(kind, { ... }) end

function Writer:string(text)
  self:put("int", #text)
  self.out[#self.out + 1] = self.chars(text)
end

-- The type and the number of what may come again; whether it has to be written now.
function Writer:begin(kind, value)
  self:put("int", kind)
  local number = self.known[value]
  if not number then
    self.count = self.count + 1
    self.known[value] = self.count
  end
  self:put("int", self.known[value])
  return not number
end

function Writer:class(name)
  self:string "V 1"
  self:string(name)
end

function Writer:fields(value)
  local count, keys = 0, {}
  for key in pairs(value) do count, keys[#keys + 1] = count + 1, key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  self:put("int", count)
  for _, key in ipairs(keys) do
    self:value(key)
    self:value(value[key])
  end
end

local function class(name, fields) return { class = name, fields = fields } end
local function storage(type_name, kind, list) return { storage = type_name, kind = kind, list = list } end
local function tensor(of, size, stride, offset)
  return { tensor = of, size = size, stride = stride, offset = offset or 1 }
end

function Writer:object(value)
  if not self:begin(4, value) then return end
  if value.class then
    self:class(value.class)
    self:begin(3, value.fields)
    return self:fields(value.fields)
  elseif value.storage then
    self:class(("torch.%sStorage"):format(value.storage))
    self:put("long", #value.list)
    return self:put(value.kind, table.unpack(value.list))
  end
  self:class(("torch.%sTensor"):format(value.of or value.tensor and value.tensor.storage or "Double"))
  self:put("int", #value.size)
  self:put("long", table.unpack(value.size))
  self:put("long", table.unpack(value.stride))
  self:put("long", value.offset)
  if value.tensor then self:value(value.tensor) else self:put("int", 0) end
end

function Writer:value(value)
  local kind = type(value)
  if kind == "number" then
    self:put("int", 1)
    self:put("double", value)
  elseif kind == "string" then
    self:put("int", 2)
    self:string(value)
  elseif kind == "boolean" then
    self:put("int", 5)
    self:put("int", value and 1 or 0)
  elseif value.class or value.storage or value.size then
    self:object(value)
  elseif value.code then
    if self:begin(8, value) then
      self:string(value.code)
      self:value(value.upvalues)
    end
  elseif self:begin(3, value) then
    self:fields(value)
  end
end

local function bytes_of(value, kind)
  local w = writer(kind or "binary")
  w:value(value)
  return table.concat(w.out)
end

local function load_bytes(bytes, ending)
  local results
  harness.with_temp_file(function(path)
    path = path .. (ending or "")
    local file <close> = assert(io.open(path, "wb"))
    file:write(bytes)
    file:close()
    results = table.pack(pcall(ml.load, path))
    os.remove(path)
  end)
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

-- --- the tests --------------------------------------------------------------------------------

local function model()
  local weights = storage("Float", "float", { 0.5, 1, 2, 3, 4, 5 })
  local shared = { 7 }
  return class("nn.Sequential", { train = false, modules = { class("nn.Linear", {
    weight = tensor(weights, { 2, 2 }, { 2, 1 }, 3), bias = tensor(weights, { 2 }, { 1 }, 1),
    turned = tensor(weights, { 2, 3 }, { 1, 2 }) }) },
    name = "net", rate = 0.25, count = 3, text = "", first = shared, second = shared,
    labels = tensor(storage("Long", "long", { 1, -2, 3 }), { 3 }, { 1 }),
    pixels = tensor(storage("Byte", "byte", { 0, 10, 200 }), { 3, 1 }, { 1, 1 }),
    cuda = tensor(storage("Cuda", "float", { 1.5 }), { 1 }, { 1 }), none = tensor(nil, {}, {}),
    raw = storage("Double", "double", { 1, 2.5 }), empty = {} })
end

for _, kind in ipairs { "binary", "short", "text" } do
  test("a network, " .. kind, function()
    local net = load_bytes(bytes_of(model(), kind))
    expect.equal({ net.__typename, net.modules[1].__typename, net.train, net.name, net.rate, net.count, net.text },
      { "nn.Sequential", "nn.Linear", false, "net", 0.25, 3, "" })
    expect.equal({ math.type(net.count), math.type(net.rate) }, { "integer", "float" })
    local linear = net.modules[1]
    expect.equal(linear.weight:tolist(), { { 2, 3 }, { 4, 5 } })
    expect.equal(linear.turned:tolist(), { { 0.5, 2, 4 }, { 1, 3, 5 } })
    expect.equal(linear.turned:stride(), { 1, 2 })
    linear.bias:fill_(9)
    expect.equal(linear.turned[1][1]:item(), 9)
    expect.truthy(net.first == net.second and net.first[1] == 7)
    expect.equal({ net.labels.dtype, net.labels:tolist() }, { "int64", { 1, -2, 3 } })
    expect.equal({ net.pixels.dtype, net.pixels:tolist() }, { "uint8", { { 0 }, { 10 }, { 200 } } })
    expect.equal({ net.cuda.dtype, net.cuda:item(), net.none:numel(), net.none.dtype }, { "float32", 1.5, 0, "float64" })
    expect.equal({ net.raw:tolist(), net.raw.dtype, net.empty }, { { 1, 2.5 }, "float64", {} })
  end)

  test("plain values, " .. kind, function()
    expect.equal(load_bytes(bytes_of("a\nb", kind), ".t7"), "a\nb")
    expect.equal(load_bytes(bytes_of(-2.5, kind), ".t7"), -2.5)
    expect.equal(load_bytes(bytes_of(true, kind), ".t7"), true)
    expect.equal(load_bytes(bytes_of(1 / 0, kind), ".t7"), math.huge)
    expect.equal(load_bytes(bytes_of({ 1, { x = 2 }, "three" }, kind)), { 1, { x = 2 }, "three" })
    local loop = {}
    loop.loop = loop
    local back = load_bytes(bytes_of(loop, kind))
    expect.truthy(back.loop == back)
  end)

  test("functions are left out, " .. kind, function()
    local code = { code = "\27Lua", upvalues = { 1, 2 } }
    local value, _, left_out = load_bytes(bytes_of({ f = code, again = code, x = { g = code }, n = 1 }, kind))
    expect.equal(value, { n = 1, x = {} })
    expect.equal(left_out, { again = "it is a function" })
  end)

  test("cut and damaged files, " .. kind, function()
    local bytes = bytes_of(model(), kind)
    for length = 0, #bytes - 1, 3 do
      local ok, problem = pcall(load_bytes, bytes:sub(1, length), ".t7")
      -- What a text lacks at its end may be the end of a line.
      expect.truthy(not ok or length >= #bytes - 2, "cut to " .. length)
      expect.truthy(ok or problem:find "load: ", problem)
    end
    ml.manual_seed(1)
    for _ = 1, 1000 do
      local at, new = ml.randint(#bytes, { 1 }):item(), ml.randint(1, 256, { 1 }):item() - 1
      local ok, problem = pcall(load_bytes, bytes:sub(1, at - 1) .. string.char(new) .. bytes:sub(at + 1), ".t7")
      expect.truthy(ok or problem:find "load: ", problem)
    end
  end)
end

test("what is not known, and sizes that no file has", function()
  local deep = ""
  for i = 1, 6000 do deep = deep .. ("<i4 i4 i4 i4 d"):pack(3, i, 1, 1, 1) end
  local hash = bytes_of(class("tds.Hash", {})):gsub("\3\0\0\0\2\0\0\0\0\0\0\0$", ("\0"):rep(8))
  local cases = {
    { hash, "class tds.Hash, which is not known" },
    { ("<i4"):pack(99), "the type 99, which is not known" }, { ("<i4 i4"):pack(2, -1), "a string is damaged" },
    { ("<i4 i4"):pack(2, 1 << 30), "the file is cut off" }, { ("<i4 i4 i4"):pack(3, 1, -5), "a table is damaged" },
    { bytes_of(storage("Float", "float", {})):sub(1, -9) .. ("<i8"):pack(1 << 40), "the file is cut off" },
    { bytes_of(storage("Float", "float", {})):sub(1, -9) .. ("<i8"):pack(-1), "the file is cut off" },
    { bytes_of(tensor(storage("Float", "float", { 1 }), { 2 }, { 1 })), "outside its storage" },
    { bytes_of(tensor(storage("Float", "float", { 1 }), { 1 << 62, 1 << 62 }, { 1, 1 << 62 })), "outside its storage" },
    { bytes_of(tensor(storage("Float", "float", { 1 }), { 1 }, { 1 }, 0)), "damaged" },
    { bytes_of(tensor(storage("Float", "float", { 1 }), { -1 }, { 1 })), "damaged" },
    { "1\nx\n", "'x' is no number" }, { "3\n1\n1.5\n", "a whole number is expected" }, { "3\n1\n1\n0\n", "key of a table" },
    { deep, "nest too deeply" },
  }
  for i, case in ipairs(cases) do
    expect.error(function() load_bytes(case[1], ".t7") end, "load: .*" .. case[2], "case " .. i)
  end
  harness.with_temp_file(function(path)
    local file <close> = assert(io.open(path, "wb"))
    file:write(bytes_of(model()))
    file:close()
    expect.error(function() ml.load(path, { mmap = true }) end, "'mmap' is for files whose elements are aligned")
  end)
  expect.error(function() ml.save("x.t7", {}) end, "a Torch7 file can be read, not written")
end)

if os.getenv "MOONLET_WRITE_T7" then
  local file <close> = assert(io.open(os.getenv "MOONLET_WRITE_T7", "wb"))
  file:write(bytes_of(model()))
end

harness.run()
