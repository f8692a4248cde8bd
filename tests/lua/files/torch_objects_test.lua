-- tests/lua/files/torch_objects_test.lua: what files of torch.save hold beside plain tensors
-- (tests/reference/torch_files): lazy bits, other dtypes and layouts, Python's and NumPy's values,
-- objects that are left out, whole modules; the order of keys and tuples, which are written again.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect

local FOLDER = (os.getenv "MOONLET_SOURCE" or ".") .. "/tests/reference/torch_files/"
warn "@off"

-- Both formats of a file: the value and what is left out.
local function each_format(name, check, ...)
  for _, ending in ipairs { ".pt", "_legacy.pt", ... } do
    local value, metadata, left_out = ml.load(FOLDER .. name .. ending)
    expect.equal(metadata, {}, ending)
    check(value, left_out, ending)
  end
end

-- What is loaded again of a value that was saved, and the bytes of the file.
local function round_trip(value)
  local path, loaded, bytes = os.tmpname() .. ".pt", nil, nil
  local ok, message = pcall(function()
    ml.save(path, value)
    local file <close> = assert(io.open(path, "rb"))
    bytes = file:read "a"
    loaded = ml.load(path)
  end)
  os.remove(path)
  os.remove((path:gsub("%.pt$", "")))
  if not ok then error(message, 0) end
  return loaded, bytes
end

-- Loads a pickle of protocol 2 without its head, and storages by key.
local function load_pickle(text, storages)
  local zip = require "moonlet.files.zip_writer".new()
  zip:add("a/data.pkl", { "\x80\2" .. text })
  for key, bytes in pairs(storages or {}) do zip:add("a/data/" .. key, { bytes }) end
  local results
  harness.with_temp_file(function(path)
    require "moonlet.io".write_parts(path, zip:finish(), "save")
    results = table.pack(pcall(ml.load, path))
  end)
  return table.unpack(results, 1, results.n)
end

local function text(s) return "X" .. ("<s4"):pack(s) end
local function storage(kind, key)
  return "(" .. text "storage" .. "ctorch\n" .. kind .. "\n" .. text(key) .. text "cpu" .. "K\2tQ"
end

test("lazy conjugates and negatives are resolved", function()
  each_format("lazy", function(value)
    local function pair(z) return { z.real:tolist(), z.imag:tolist() } end
    expect.equal(pair(value.conj), { { 1, 3 }, { -2, 4 } })
    expect.equal(value.neg:tolist(), { -1, -3 })
    expect.equal(pair(value.both), { { -1, -3 }, { 2, -4 } })
    expect.equal(value.imag:tolist(), { -2, 5 })
    expect.equal(pair(value.parameter), { { 1, 3 }, { -2, 4 } })
    expect.truthy(value.parameter.requires_grad and value.parameter.is_leaf)
  end)
end)

test("Python's values", function()
  each_format("plain", function(value, left_out)
    expect.equal({ value.z, value.set, value.counter, value.default, value.ordered, value.a },
      { 1, { 5 }, { a = 2, b = 1 }, { x = { 1 } }, { q = 1, b = 2 }, 2 })
    expect.equal({ value.big, value.inexact }, { 2.0 ^ 70, -2.0 ^ 70 })
    expect.equal({ value.size, value.device, value.dtype, value.int8 }, { { 2, 3 }, "cuda:1", "float16", "dtype key" })
    expect.equal({ value.tuple, value.no_items, value.no_list, value.no_dict, value.none },
      { { 1, { 2 } }, {}, {}, {}, nil })
    expect.equal({ value.holes[1], value.holes[2], value.holes[3] }, { 1, nil, 3 })
    expect.equal({ value.array, value.frozen }, { "x\255", { 1 } })
    local found
    for key, item in pairs(value) do
      if type(key) == "table" then found = { key, item } end
    end
    expect.equal(found, { { "t", 1 }, "tuple key" })
    expect.equal(left_out, { huge = "an integer of 179 bytes", None = "its key is no plain value",
      inexact = "an integer of 9 bytes; the nearest float is in its place" })
  end, "5.pt")
end)

test("integers beyond 64 bits are the nearest floats", function()
  local function long(bytes) return "\x8a" .. string.char(#bytes) .. bytes end
  for _, case in ipairs {
    { ("\0"):rep(8) .. "\1", 2.0 ^ 64, true }, { ("\255"):rep(8) .. "\0", 2.0 ^ 64, false },
    { ("\0"):rep(7) .. "\x80\0", 2.0 ^ 63, true }, { ("\0"):rep(8) .. "\xff", -2.0 ^ 64, true },
    { "\1" .. ("\0"):rep(8) .. "\x01", 2.0 ^ 72, false }, { ("\0"):rep(127) .. "\x40", 2.0 ^ 1022, true },
    { ("\0"):rep(9), 0, true }, { "\5" .. ("\0"):rep(9), 5, true }, { "\xfb" .. ("\xff"):rep(9), -5, true },
    { "\0\0\x08\0\0\0\0\0\0\1", 2.0 ^ 72 + 2.0 ^ 19, false }, { "\0\0\x10\0\0\0\0\0\1", 2.0 ^ 64 + 2.0 ^ 20, true },
  } do
    local ok, value, _, left_out = load_pickle("](" .. long(case[1]) .. "e.")
    expect.truthy(ok, value)
    expect.equal({ value[1] + 0.0, left_out == nil }, { case[2] + 0.0, case[3] }, ("%.0f"):format(case[2]))
  end
end)

test("NumPy's scalars, arrays and dtypes", function()
  each_format("arrays", function(value, left_out)
    expect.equal({ value.double, value.long, value.bool, value.text, value.dtype },
      { 1.5, -3, true, "hé", "float32" })
    expect.equal({ math.type(value.double), math.type(value.long), value.complex.real, value.complex.imag },
      { "float", "integer", 1, 2 })
    for _, name in ipairs { "array", "fortran" } do
      expect.equal({ value[name].dtype, value[name]:tolist() }, { "float64", { { 0, 1, 2 }, { 3, 4, 5 } } }, name)
    end
    expect.equal({ value.big.dtype, value.big:tolist() }, { "int32", { 0, 1, 2 } })
    expect.equal({ value.unsigned.dtype, value.unsigned:tolist() }, { "uint16", { 1, 65535 } })
    expect.equal({ tostring(value.empty.shape), value.zero.ndim, value.zero:item() }, { "(0, 3)", 0, 3 })
    expect.equal(left_out, { texts = "a value of NumPy: its elements are strings",
      objects = "a value of NumPy: its elements are Python objects", date = "a value of NumPy: its elements are dates",
      record = "a value of NumPy: its elements are raw bytes" })
  end, "5.pt")
  -- As versions before 2 call their modules.
  local scalar = "cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\n" .. text "i2" .. "\x89\x88\x87R(K\3" .. text ">"
    .. "NNNJ\255\255\255\255J\255\255\255\255K\0tbU\2\1\2\x86R."
  expect.equal({ select(2, load_pickle(scalar)) }, { 258, {} })
end)

test("objects of other classes are left out, and named", function()
  each_format("objects", function(value, left_out)
    expect.equal({ value.w:tolist(), value.nested[1], value.nested[2], value.nested[3], value.args },
      { { 1, 1 }, 1, nil, { kept = 3 }, nil })
    local wanted = { args = "argparse.Namespace", when = "datetime.datetime", path = "pathlib.PurePosixPath",
      ["nested/2"] = "argparse.Namespace", ["nested/3/day"] = "datetime.date" }
    for path, class in pairs(wanted) do wanted[path] = "a Python object of class " .. class end
    wanted.class = "the Python class or function torch.optim.adam.Adam"
    expect.equal(left_out, wanted)
  end)
  expect.error(function() ml.load(FOLDER .. "optimizer.pt") end,
    "optimizer.pt': it holds a Python object of class torch.optim.sgd.SGD; save its state_dict")
end)

test("what is left out can follow the value that is saved", function()
  local path = os.tmpname()
  ml.save(path .. ".pt", ml.load(FOLDER .. "objects.pt"))
  expect.equal(ml.load(path .. ".pt").w:tolist(), { 1, 1 })
  os.remove(path .. ".pt")
  os.remove(path)
end)

test("dtypes that do not exist here keep their values", function()
  local file <close> = assert(io.open(FOLDER .. "floats.json"))
  local floats = require "moonlet.json".decode(file:read "a")
  local special = { inf = math.huge, ["-inf"] = -math.huge }
  each_format("foreign", function(value, left_out)
    for name, wanted in pairs(floats) do
      expect.equal(value[name].dtype, name:find "fnuz" and "float32" or name)
      local got = value[name]:tolist()
      for i = 1, 256 do
        local number = special[wanted[i]] or type(wanted[i]) == "number" and wanted[i] or 0 / 0
        expect.near(got[i], number, 0, ("%s %d"):format(name, i - 1))
      end
    end
    local powers = value.float8_e8m0fnu:to("float64"):tolist()
    for i = 1, 255 do expect.equal(powers[i], 2.0 ^ (i - 128)) end
    expect.truthy(powers[256] ~= powers[256])
    expect.equal({ value.uint16.dtype, value.uint16[128]:item(), value.uint32.dtype, value.uint32[64]:item() },
      { "uint16", 0xfffe, "uint32", 0xfffefdfc })
    expect.equal({ value.uint64.dtype, value.uint64:tolist() }, { "uint64", { 1, 1 << 62 } })
    expect.equal(tostring(value.beyond), "{18446744073709551615}\nTensor (1,) uint64")
    expect.equal(value.part:tolist(), { { 0x0504, 0x0908 }, { 0x0706, 0x0b0a } })
    expect.equal({ value.complex32.real:tolist(), value.complex32.imag:tolist() }, { { 1, 0 }, { 2, -0.5 } })
    expect.equal(left_out, { float4 = "its dtype float4_e2m1fn_x2 is not known here" })
  end)
end)

test("sparse and quantised tensors become dense ones of floats", function()
  each_format("layouts", function(value, left_out)
    for _, name in ipairs { "coo", "csr", "csc" } do
      expect.equal(value[name]:tolist(), { { 0, 1, 0 }, { 2, 0, 3 } }, name)
    end
    expect.equal(value.hybrid:tolist(), { { 1, 2 }, { 8, 10 }, { 0, 0 } })
    expect.equal(value.tensor:tolist(), { { 1, -2 }, { 0.5, 3 } })
    expect.equal(value.channel:tolist(), { { 1, -2 }, { 0.5, 3 } })
    expect.equal(left_out, { meta = "a tensor on the device meta, which has no elements",
      blocks = "a tensor of the layout sparse_bsr, which is not known here" })
  end)
end)

test("of a whole module the state dict is read", function()
  local names = { "0.weight", "1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked" }
  local reason = "the module of class torch.nn.modules.container.Sequential; its state dict is in its place"
  each_format("whole", function(value, left_out)
    local found = {}
    for name in ml.items(value.net) do found[#found + 1] = name end
    expect.equal(found, names)
    expect.equal({ value.epoch, left_out }, { 3, { net = reason } })
    local net = ml.nn.Sequential(ml.nn.Linear(1, 1, { bias = false }), ml.nn.BatchNorm1d(1))
    net:load_state_dict(value.net)
    expect.equal(net[1].weight:tolist(), value.net["0.weight"]:tolist())
  end)
  each_format("module", function(value, left_out)
    expect.truthy(ml.is_tensor(value["0.weight"]))
    expect.equal(left_out, { [""] = reason })
  end)
end)

test("keys keep their order, and tuples are tuples", function()
  local value = ml.load(FOLDER .. "plain.pt")
  local function keys_of(of)
    local keys = {}
    for key in ml.items(of) do keys[#keys + 1] = type(key) == "table" and "tuple" or key end
    return table.concat(keys, " ")
  end
  local order = "z set counter default ordered tuple big inexact size device dtype int8 tuple no_items no_list "
    .. "no_dict holes array frozen a"
  expect.equal(keys_of(value), order)
  expect.equal({ ml.is_tuple(value.tuple), ml.is_tuple(value.tuple[2]), ml.is_tuple(value.holes) },
    { true, true, false })
  local again, bytes = round_trip(value)
  expect.equal(keys_of(again), order)
  expect.equal({ ml.is_tuple(again.tuple), ml.is_tuple(again.no_items), ml.is_tuple(again.no_list) },
    { true, true, false })
  -- None stays where it was: a key with the value None, and positions of lists.
  expect.truthy(bytes:find(text "none" .. "N", 1, true))
  expect.truthy(bytes:find("(K\1NK\3e", 1, true))
  expect.truthy(bytes:find("ctorch\nSize\n(K\2K\3t\x85R", 1, true))
  value.none, value.a, value.new = nil, nil, true
  expect.equal(keys_of(round_trip(value)), order:gsub(" a$", " new"))
  -- Plain tables: lists, dicts, and tuples that are marked.
  local _, plain = round_trip { ml.tuple { 1, 2 }, { 3 }, {} }
  expect.truthy(plain:find("(K\1K\2t", 1, true) and plain:find "%]q.%(K\3e}")
  expect.equal({ ml.is_tuple {}, ml.is_tuple(3), ml.is_tuple(ml.tuple {}) }, { false, false, true })
  expect.error(function() ml.tuple(3) end, "tuple: 'list': a table is expected, got 3")
  local loop = ml.tuple {}
  loop[1] = loop
  expect.error(function() round_trip(loop) end, "contains itself")
end)

test("a storage that is a part of another, as old versions wrote them", function()
  local view = "(" .. text "storage" .. "ctorch\nFloatStorage\n" .. text "0" .. text "cpu" .. "K\4(%s%s%stt" .. "Q"
  local tensor = "ctorch._utils\n_rebuild_tensor_v2\n(%sK\0K\2\x85K\1\x85\x89}tR."
  local bytes = ("<ffff"):pack(1, 2, 3, 4)
  local function load(from, count)
    return load_pickle(tensor:format(view:format(text "1", "K" .. string.char(from), "K" .. string.char(count))),
      { ["0"] = bytes })
  end
  local ok, value = load(1, 2)
  expect.truthy(ok, value)
  expect.equal(value:tolist(), { 2, 3 })
  expect.truthy(not load(1, 1))
  expect.truthy(not load(3, 2))
end)

test("values of another kind than is called for are errors", function()
  local float = storage("FloatStorage", "0")
  local v2 = "ctorch._utils\n_rebuild_tensor_v2\n"
  local cases = {
    -- A dict that has the fields of what stands for a dtype, a storage or a class.
    { v2 .. "(}(" .. text "dtype" .. text "float32" .. "uK\0K\1\x85K\1\x85\x89}tR.", "a tensor is damaged" },
    { "(" .. text "storage" .. "}(" .. text "storage" .. text "float32" .. "u" .. text "0" .. text "cpu" .. "K\2tQ.",
      "a storage is damaged" },
    { "}(" .. text "name" .. text "x" .. text "call" .. text "y" .. "u)R.", "a call of what cannot be called" },
    { "]K\1R.", "a call of what cannot be called" }, { "ctorch\nSize\nK\1R.", "" },
    { ")K\1a.", "a list is expected" }, { "}K\1a.", "a list is expected" }, { "](K\1K\2u.", "a dict is expected" },
    { "](K\1\x90.", "a set is expected" }, { "}(K\1u.", "a dict is expected" }, { "(.", "a value is missing" },
    { v2 .. "(" .. float .. "K\0}K\1\x85\x89}tR.", "a tensor is damaged" },
    { v2 .. "(" .. float .. "K\0K\1\x85K\1\x85\x89}" .. "N" .. text "x" .. "t}R.", "" },
    { "ctorch._utils\n_rebuild_tensor_v3\n(" .. float .. "K\0K\1\x85K\1\x85\x89}" .. text "x" .. "tR.",
      "a tensor is damaged" },
    { "ctorch._utils\n_rebuild_parameter\n(K\1\x88}tR.", "a parameter is damaged" },
    { "ctorch._utils\n_rebuild_sparse_tensor\n(" .. text "sparse_coo" .. "(K\1K\2K\3ttR.", "a sparse tensor is damaged" },
    { "ctorch._utils\n_rebuild_qtensor\n(" .. float .. "K\0K\1\x85K\1\x85K\1\x88}tR.", "a quantised tensor is damaged" },
    { "cnumpy\ndtype\nK\1\x85R.", "a dtype of NumPy is damaged" },
    { "cnumpy.core.multiarray\nscalar\nK\1K\2\x86R.", "a scalar of NumPy is damaged" },
    { "cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\n" .. text "f8" .. "\x85RU\2ab\x86R.", "of NumPy is damaged" },
    { "cnumpy.core.multiarray\n_reconstruct\n)RK\1b.", "an array of NumPy is damaged" },
    { "cnumpy.core.multiarray\n_reconstruct\n)R(K\1K\2\x85cnumpy\ndtype\n" .. text "i1" .. "\x85R\x89U\1atb.",
      "a shape wants more bytes than the file has" },
    { "ccollections\nOrderedDict\n]K\1a\x85R.", "a dict is damaged" },
    { "c__builtin__\nset\nK\1\x85R.", "a set is damaged" },
    { "c__builtin__\ncomplex\n" .. text "x" .. "\x85R.", "a complex number is damaged" },
  }
  for i, case in ipairs(cases) do
    local ok, problem = load_pickle(case[1], { ["0"] = ("\0"):rep(8) })
    expect.truthy(not ok and problem:find(case[2], 1, true) and problem:find "load: ", ("case %d: %s"):format(i, problem))
    expect.truthy(not problem:find "attempt to", ("case %d: %s"):format(i, problem))
  end
end)

test("nothing of a file is run, whatever it calls", function()
  for _, name in ipairs { "os\nsystem", "builtins\neval", "builtins\ngetattr", "torch\nload", "builtins\n__import__" } do
    local ok, value, _, left_out = load_pickle("}(" .. text "x" .. "c" .. name .. "\n" .. text "true" .. "\x85R"
      .. text "y" .. "K\1u.")
    expect.truthy(ok, value)
    expect.equal({ value, left_out }, { { y = 1 },
      { x = "a Python object of class " .. name:gsub("\n", ".") } })
  end
end)

harness.run()
