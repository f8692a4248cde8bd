-- tests/hostile/crafted_files.lua: small files that ask their reader for much memory or time: each is
-- read in a process of its own, under a limit of its address space, which stays below 2 GiB.

-- What the snippets share: bytes of formats, and `reading`, which says how that went and how much memory
-- the process had at most.
local PRELUDE = [==[
  local io = require "moonlet.io"
  local function reading(f, ...)
    local ok, value = pcall(f, ...)
    print(ok and "a value" or (tostring(value):sub(1, 400):gsub("\n", " ")))
    local status = read "/proc/self/status"
    local peak = tonumber(status:match "VmHWM:%s+(%d+)") // 1024
    local sanitized = (os.getenv "MOONLET_SANITIZE" or "none") ~= "none"
    print((peak < 2048 or sanitized) and "within bounds" or peak .. " MiB")
  end
  local function archive(name, entries)
    local zip = require "moonlet.files.zip_writer".new()
    for _, entry in ipairs(entries) do zip:add(entry[1], { entry[2] }, { deflate = true }) end
    io.write_parts(path(name), zip:finish(), "save")
    return name
  end
  local function pickled(name, bytes) return archive(name, { { "a/data.pkl", "\x80\2" .. bytes } }) end
  local function text(s) return "X" .. ("<s4"):pack(s) end
  -- A block of a megabyte that is repeated, without its bytes.
  local function megabytes(part, count)
    local block, parts = part:rep((1 << 20) // #part), {}
    for i = 1, count do parts[i] = block end
    return parts, #block * count
  end
  local function gzipped(name, part, count)
    local parts, size = megabytes(part, count)
    return write(name, "\x1f\x8b\8\0\0\0\0\0\0\3" .. io.deflate(parts) .. ("<I4 I4"):pack(io.checksum(parts), size))
  end
  local function chunk(name, bytes)
    return (">s4"):pack(bytes):sub(1, 4) .. name .. bytes .. (">I4"):pack(io.checksum { name .. bytes })
  end
  local function zlib(parts)  -- with a sum that stb does not check
    return "\x78\x9c" .. io.deflate(type(parts) == "table" and parts or { parts }) .. "\0\0\0\0"
  end
  local function png(width, height, bits, color, data, more)
    return "\x89PNG\r\n\x1a\n" .. chunk("IHDR", (">I4 I4 B B B B B"):pack(width, height, bits, color, 0, 0, 0))
      .. (more or "") .. chunk("IDAT", data) .. chunk("IEND", "")
  end
  local function jpeg(width, height, comments, scans)
    local out = { "\xff\xd8" }
    for _ = 1, comments do out[#out + 1] = "\xff\xfe" .. (">I2"):pack(40002) .. ("\0"):rep(40000) end
    out[#out + 1] = "\xff\xdb" .. (">I2"):pack(67) .. "\0" .. ("\1"):rep(64)
    out[#out + 1] = "\xff\xc2" .. (">I2 B I2 I2 B"):pack(17, 8, height, width, 3) .. "\1\x11\0\2\x11\0\3\x11\0"
    out[#out + 1] = "\xff\xc4" .. (">I2"):pack(20) .. "\0\1" .. ("\0"):rep(15) .. "\0"
    out[#out + 1] = "\xff\xc4" .. (">I2"):pack(20) .. "\x10\1" .. ("\0"):rep(15) .. "\xe0"
    out[#out + 1] = scans .. "\xff\xd9"
    return table.concat(out)
  end
  local DC = "\xff\xda" .. (">I2 B"):pack(12, 3) .. "\1\0\2\0\3\0\0\0\0"
  local function numbers(...) return ("<" .. ("i4"):rep(select("#", ...))):pack(...) end
  -- A model of ONNX: nodes { op, { inputs }, { attribute = value } }, each giving "1", "2" and so on; tensors are
  -- those of the initialisers by name.
  local codec = require "moonlet.onnx_codec"
  local function attribute(name, value)
    if math.type(value) == "integer" then return { name = name, type = 2, i = value } end
    if type(value) == "string" then return { name = name, type = 3, s = value } end
    if ml.is_tensor(value) then return { name = name, type = 4, t = require "moonlet.onnx.dtypes".proto(value, "") } end
    if value.graph then return { name = name, type = 5, g = value.graph } end
    return { name = name, type = 7, ints = value }
  end
  local function graph(nodes, initializers)
    local proto = { ir_version = 8, opset_import = { { domain = "", version = 17 } },
      graph = { name = "g", node = {}, initializer = {}, output = { { name = tostring(#nodes) } } } }
    for name, tensor in pairs(initializers or {}) do
      table.insert(proto.graph.initializer, require "moonlet.onnx.dtypes".proto(tensor, name))
    end
    for i, node in ipairs(nodes) do
      local made = { op_type = node[1], input = node[2], output = { tostring(i) }, attribute = {} }
      for name, value in pairs(node[3] or {}) do table.insert(made.attribute, attribute(name, value)) end
      proto.graph.node[i] = made
    end
    return write("x.onnx", codec.encode(proto, false))
  end
  local function run(nodes, initializers)
    local name = graph(nodes, initializers)
    reading(function() return ml.onnx.load(name)() end)
  end
  local function ints(...) return ml.tensor({ ... }, { dtype = "int64" }) end
]==]

-- More than the readers are to take, and the libraries of the process.
local KIB = 4 << 20

local rows = {}
local function row(name, code, said)
  rows[#rows + 1] = { name, PRELUDE .. code .. "\nfinish()", exit = 0, out = { "^" .. said, "within bounds" }, limit = KIB }
end
-- What is refused for what it asks for; what is read, or refused for another reason.
local TOO_MUCH = "[^\n]*to read it takes more than %d+ bytes[^\n]*'max_bytes'"
local ANY = ""

-- PyTorch's files.
row("a pickle that encodes one text 20000 times", [[
  reading(ml.load, pickled("x.pt", "c_codecs\nencode\nq\0" .. text(("A"):rep(100000)) .. "q\1" .. text "latin1" .. "q\2("
    .. ("h\0(h\1h\2tR"):rep(20000) .. "t.")) ]], TOO_MUCH)
row("a pickle that encodes one wide text 20000 times", [[
  reading(ml.load, pickled("x.pt", "c_codecs\nencode\nq\0" .. text(("\xc3\xa4"):rep(50000)) .. "q\1" .. text "latin1" .. "q\2("
    .. ("h\0(h\1h\2tR0"):rep(20000) .. "t.")) ]], TOO_MUCH)
row("a pickle that names one device 20000 times", [[
  reading(ml.load, pickled("x.pt", "ctorch\ndevice\nq\0" .. text(("A"):rep(1000000)) .. "q\1("
    .. ("h\0(h\1K\1tR"):rep(20000) .. "t.")) ]], "[^\n]*a device is damaged")
row("a pickle of 64 Mi lists", [[ reading(ml.load, pickled("x.pt", ("]"):rep(1 << 26) .. ".")) ]], TOO_MUCH)
row("a pickle of 64 Mi dicts", [[ reading(ml.load, pickled("x.pt", ("}"):rep(1 << 26) .. ".")) ]], TOO_MUCH)
row("a pickle of 100 Mi values that are dropped", [[
  reading(ml.load, pickled("x.pt", ("N0"):rep(50 << 20) .. "N.")) ]], TOO_MUCH)
row("a pickle of 64 Mi marks", [[ reading(ml.load, pickled("x.pt", ("("):rep(1 << 26) .. "t.")) ]], TOO_MUCH)
row("a pickle that calls a function with one tuple of 100000 items 20000 times", [[
  reading(ml.load, pickled("x.pt", "ctorch\nSize\nq\0(" .. ("N"):rep(100000) .. "tq\1(" .. ("h\0h\1R"):rep(20000) .. "t.")) ]],
  TOO_MUCH)
row("a pickle that makes an OrderedDict of one list 20000 times", [[
  reading(ml.load, pickled("x.pt", "ccollections\nOrderedDict\nq\0](" .. ("K\1K\2\x86"):rep(50000) .. "eq\1("
    .. ("h\0h\1\x85R"):rep(20000) .. "t.")) ]], TOO_MUCH)
row("a pickle of a million keys that collide", [[
  local out = {}
  for i = 1, 300000 do out[i] = "\x8a\8" .. ("<i8"):pack((1 << 40) + i * ((1 << 19) - 1)) .. "N" end
  for i = 1, #out do out[i] = out[i]:gsub("N$", "K\1") end
  reading(ml.load, pickled("x.pt", "}(" .. table.concat(out) .. "u.")) ]], "[^\n]*keys that are made to collide")
row("a pickle of floats that collide", [[
  local out = {}
  for i = 1, 300000 do out[i] = "G" .. (">d"):pack(1 + i * 2.0 ^ -52) .. "K\1" end
  reading(ml.load, pickled("x.pt", "}(" .. table.concat(out) .. "u.")) ]], "[^\n]*keys that are made to collide")
row("a pickle of many floats that do not", [[
  local out = {}
  for i = 1, 100000 do out[i] = "G" .. (">d"):pack(i * 0.37) .. "K\1" end
  reading(ml.load, pickled("x.pt", "}(" .. table.concat(out) .. "u.")) ]], "a value")
row("notes of a pickle whose numbers collide", [[
  local out = {}
  for i = 1, 60000 do out[i] = "r" .. ("<I4"):pack(i * 65535) end
  reading(ml.load, pickled("x.pt", "N" .. table.concat(out) .. ".")) ]], ANY)
row("a pickle of one tensor of 2^40 elements without strides", [[
  local storage = "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" .. "0X\3\0\0\0cpuK\1tQ"
  local p = "ctorch._utils\n_rebuild_tensor_v2\n(" .. storage .. "K\0\x8a\6" .. ("<i6"):pack(1 << 40) .. "\x85K\0\x85\x89}tR."
  reading(ml.load, archive("x.pt", { { "a/data.pkl", "\x80\2" .. p }, { "a/data/0", "\0\0\0\0" } })) ]], "a value")
row("a pickle of 50000 tensors on one storage", [[
  local storage = "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" .. "0X\3\0\0\0cpuK\1tQq\1"
  local p = storage .. "0ctorch._utils\n_rebuild_tensor_v2\nq\0000("
    .. ("h\0(h\1K\0K\1\x85K\1\x85\x89}tR"):rep(50000) .. "t."
  reading(ml.load, archive("x.pt", { { "a/data.pkl", "\x80\2" .. p }, { "a/data/0", "\0\0\0\0" } })) ]], ANY)
row("a storage of 100 MB of zeros as each dtype", [[
  local calls = {}
  for _, kind in ipairs { "Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool",
    "ComplexFloat", "ComplexDouble" } do
    calls[#calls + 1] = "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\n" .. kind
      .. "Storage\nX\1\0\0\0" .. "0X\3\0\0\0cpuK\1tQK\0K\1\x85K\1\x85\x89}tR"
  end
  reading(ml.load, archive("x.pt", { { "a/data.pkl", "\x80\2(" .. table.concat(calls) .. "t." },
    { "a/data/0", ("\0"):rep(100 << 20) } })) ]], TOO_MUCH)
row("lists that nest a million deep in a pickle", [[
  reading(ml.load, pickled("x.pt", ("]"):rep(1000000) .. ("a"):rep(999999) .. ".")) ]], "a value")
row("a legacy pickle of a text that is encoded 20000 times", [[
  local head = "\x80\2\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\2M\xe9\3.\x80\2}."
  reading(ml.load, write("x.pt", head .. "\x80\2c_codecs\nencode\nq\0" .. text(("A"):rep(100000)) .. "q\1" .. text "latin1"
    .. "q\2(" .. ("h\0(h\1h\2tR"):rep(20000) .. "t.\x80\2].")) ]], TOO_MUCH)
row("a global of a pickle with a name of 16 MB", [[
  reading(ml.load, pickled("x.pt", "c" .. ("m"):rep(16 << 20) .. "\n" .. ("n"):rep(16 << 20) .. "\n.")) ]],
  "[^\n]*it holds a Python object of class")
row("a pickle of an integer of 16 MB", [[
  warn "@off"
  reading(ml.load, pickled("x.pt", "](\x8b" .. ("<I4"):pack(16 << 20) .. ("\x11"):rep(16 << 20) .. "e.")) ]], "a value")
row("a pickle of 200000 integers of 100 bytes", [[
  reading(ml.load, pickled("x.pt", "](" .. ("\x8a\x64" .. ("\x11"):rep(100)):rep(200000) .. "e.")) ]], TOO_MUCH)
row("a pickle of one object at 300000 positions", [[
  warn "@off"
  reading(ml.load, pickled("x.pt", "cfoo\nBar\n)\x81q\0](" .. ("h\0"):rep(300000) .. "e.")) ]], ANY)
row("a pickle of objects below lists that nest a million deep", [[
  warn "@off"
  reading(ml.load, pickled("x.pt", "cfoo\nBar\n)\x81q\0" .. ("]"):rep(1000000) .. ("h\0a"):rep(1) .. ("a"):rep(999998) .. "0."))
  ]], ANY)
row("a pickle whose modules share children, 60 deep", [[
  local module = "ctorch\nModule\nq\1"
  local out = { module, ")\x81}(" .. text "_parameters" .. "}" .. text "x" .. "K\1s" .. text "_buffers" .. "}"
    .. text "_modules" .. "}ub" }
  for i = 1, 60 do
    out[#out + 1] = "q\2h\1)\x81}(" .. text "_parameters" .. "}" .. text "_buffers" .. "}" .. text "_modules" .. "}("
      .. text "a" .. "h\2" .. text "b" .. "h\2uub"
  end
  reading(ml.load, pickled("x.pt", table.concat(out) .. ".")) ]], TOO_MUCH)
row("a pickle of a module that contains itself", [[
  reading(ml.load, pickled("x.pt", "ctorch\nModule\n)\x81q\1}(" .. text "_parameters" .. "}" .. text "_buffers" .. "}"
    .. text "_modules" .. "}" .. text "a" .. "h\1sub.")) ]], "[^\n]*a module contains itself")
row("a pickle of a sparse tensor of 2^40 elements", [[
  local function tensor(kind, size, stride)
    return "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\n" .. kind .. "Storage\nX\1\0\0\0"
      .. "0X\3\0\0\0cpuK\1tQK\0" .. size .. stride .. "\x89}tR"
  end
  local p = "ctorch._utils\n_rebuild_sparse_tensor\n(" .. text "sparse_coo" .. "(" .. tensor("Long", "K\1K\1\x86", "K\1K\1\x86")
    .. tensor("Long", "K\1\x85", "K\1\x85") .. "\x8a\6" .. ("<i6"):pack(1 << 40) .. "\x85ttR."
  reading(ml.load, archive("x.pt", { { "a/data.pkl", "\x80\2" .. p }, { "a/data/0", ("\0"):rep(8) } })) ]], TOO_MUCH)
row("a pickle of a sparse tensor at 50000 positions", [[
  local p = "ctorch._utils\n_rebuild_tensor_v2\nq\1((X\7\0\0\0storagectorch\nLongStorage\nX\1\0\0\0"
    .. "0X\3\0\0\0cpuK\1tQq\2K\0K\1K\1\x86K\1K\1\x86\x89}tRq\3h\1(h\2K\0K\1\x85K\1\x85\x89}tRq\4"
    .. "ctorch._utils\n_rebuild_sparse_tensor\nq\5"
  reading(ml.load, archive("x.pt", { { "a/data.pkl", "\x80\2(" .. p .. ("h\5(" .. text "sparse_coo"
    .. "(h\3h\4M\x10\x27\x85ttR"):rep(50000) .. "t." }, { "a/data/0", ("\0"):rep(8) } })) ]], TOO_MUCH)
row("a pickle that conjugates a tensor without strides of 2^33 elements", [[
  local p = "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nComplexFloatStorage\nX\1\0\0\0"
    .. "0X\3\0\0\0cpuK\1tQK\0\x8a\6" .. ("<i6"):pack(1 << 33) .. "\x85K\0\x85\x89}}" .. text "conj" .. "\x88stR."
  reading(ml.load, archive("x.pt", { { "a/data.pkl", "\x80\2" .. p }, { "a/data/0", ("\0"):rep(8) } })) ]], TOO_MUCH)
row("a pickle that dequantises a tensor without strides of 2^33 elements", [[
  local p = "ctorch._utils\n_rebuild_qtensor\n((X\7\0\0\0storagectorch\nQUInt8Storage\nX\1\0\0\0"
    .. "0X\3\0\0\0cpuK\1tQK\0\x8a\6" .. ("<i6"):pack(1 << 33) .. "\x85K\0\x85(ctorch\nper_tensor_affine\n"
    .. "G?\xf0\0\0\0\0\0\0K\1t\x89}tR."
  reading(ml.load, archive("x.pt", { { "a/data.pkl", "\x80\2" .. p }, { "a/data/0", ("\0"):rep(8) } })) ]], TOO_MUCH)
row("a storage of 100 MB of zeros as float8_e5m2fnuz", [[
  local p = "ctorch._utils\n_rebuild_tensor_v3\n((X\7\0\0\0storagectorch.storage\nUntypedStorage\nX\1\0\0\0"
    .. "0X\3\0\0\0cpuK\1tQK\0K\1\x85K\1\x85\x89}ctorch\nfloat8_e5m2fnuz\ntR."
  reading(ml.load, archive("x.pt", { { "a/data.pkl", "\x80\2" .. p }, { "a/data/0", ("\0"):rep(100 << 20) } })) ]], ANY)
row("a pickle of an array of NumPy that is big-endian, 20000 times", [[
  local p = "cnumpy\ndtype\nX\2\0\0\0i2\x85R(K\3X\1\0\0\0>NNNJ\255\255\255\255J\255\255\255\255K\0tbq\1"
    .. "B" .. ("<s4"):pack(("\0"):rep(100000)) .. "q\2cnumpy.core.numeric\n_frombuffer\nq\3"
  reading(ml.load, pickled("x.pt", "(" .. p .. ("h\3(h\2h\1M\x50\xc3\x85X\1\0\0\0CtR"):rep(20000) .. "t.")) ]], TOO_MUCH)
row("a pickle of a set of one list 20000 times", [[
  reading(ml.load, pickled("x.pt", "c__builtin__\nset\nq\0](" .. ("K\1"):rep(50000) .. "eq\1(" .. ("h\0h\1\x85R"):rep(20000)
    .. "t.")) ]], TOO_MUCH)
row("an archive of 60000 entries", [[
  local zip = require "moonlet.files.zip_writer".new()
  for i = 1, 60000 do zip:add("a" .. i, { "" }) end
  io.write_parts(path "x.npz", zip:finish(), "save")
  reading(ml.load, "x.npz") ]], ANY)
row("an archive whose entries share one stream of 200 MB", [[
  local stream = io.deflate(megabytes("\0", 200))
  local head = ("<c4 I2 I2 I2 I2 I2 I4 I4 I4 I2 I2"):pack("PK\3\4", 20, 0, 8, 0, 0, 0, #stream, 200 << 20, 1, 0) .. "a" .. stream
  local dir = {}
  for i = 1, 100 do
    local name = ("%03d.npy"):format(i)
    dir[i] = ("<c4 I2 I2 I2 I2 I2 I2 I4 I4 I4 I2 I2 I2 I2 I2 I4 I4"):pack("PK\1\2", 20, 20, 0, 8, 0, 0, 0, #stream, 200 << 20,
      #name, 0, 0, 0, 0, 0, 0) .. name
  end
  local all = table.concat(dir)
  reading(ml.load, write("x.npz", head .. all .. ("<c4 I2 I2 I2 I2 I4 I4 I2"):pack("PK\5\6", 0, 0, 100, 100, #all, #head, 0))) ]],
  "[^\n]*load: 'x.npz'")
row("an archive that says in Zip64 that it has 2^40 entries", [[
  local record = ("<c4 i8 I2 I2 I4 I4 i8 i8 i8 i8"):pack("PK\6\6", 44, 45, 45, 0, 0, 1 << 40, 1 << 40, 0, 0)
  local locator = ("<I4 I4 i8 I4"):pack(0x07064b50, 0, 4, 1)
  reading(ml.load, write("x.npz", "PK\3\4" .. record .. locator .. ("<c4 I2 I2 I2 I2 I4 I4 I2"):pack("PK\5\6", 0, 0, 65535, 65535, 0,
    0, 0))) ]], "[^\n]*load: 'x.npz'")

-- Torch7's.
row("a .t7 with functions below long keys", [[
  local function str(s) return numbers(#s) .. s end
  local out = {}
  for i = 1, 100 do out[#out + 1] = numbers(3, i, 1) .. numbers(2) .. str(("k"):rep(2000)) end
  out[#out + 1] = numbers(3, 200, 60000)
  for i = 1, 60000 do out[#out + 1] = numbers(1) .. ("<d"):pack(i) .. numbers(8, 1000 + i) .. str "" .. numbers(0) end
  reading(ml.load, write("x.t7", table.concat(out))) ]], ANY)
row("a .t7 with functions below 4000 tables", [[
  local out = {}
  for i = 1, 4000 do out[#out + 1] = numbers(3, i, 1) .. numbers(1) .. ("<d"):pack(i * 1e100) end
  out[#out + 1] = numbers(3, 5000, 40000)
  for i = 1, 40000 do out[#out + 1] = numbers(1) .. ("<d"):pack(i) .. numbers(8, 10000 + i, 0, 0) end
  reading(ml.load, write("x.t7", table.concat(out))) ]], TOO_MUCH)
row("a .t7 of functions in functions", [[
  reading(ml.load, write("x.t7", numbers(3, 1, 1) .. numbers(6, 0):rep(1000000))) ]], "[^\n]*its values nest too deeply")
row("a .t7 of tables in tables", [[
  local out = {}
  for i = 1, 100000 do out[i] = numbers(3, i, 1, 5, 1) end
  reading(ml.load, write("x.t7", table.concat(out))) ]], "[^\n]*its values nest too deeply")
row("a .t7 of numbers that collide as keys", [[
  local out = { numbers(3, 1, 200000) }
  for i = 1, 200000 do out[#out + 1] = numbers(1) .. ("<d"):pack(1 + i * 2.0 ^ -52) .. numbers(5, 1) end
  reading(ml.load, write("x.t7", table.concat(out))) ]], "[^\n]*keys that are made to collide")
row("a .t7 as text, of a storage that counts as much as the file", [[
  reading(ml.load, write("x.t7", "4\n1\n3\nV 1\n19\ntorch.DoubleStorage\n1000000\n" .. ("1 "):rep(1000000))) ]], "a value")
row("a .t7 of 50000 tensors without storages", [[
  local out = { numbers(3, 1, 50000) }
  for i = 1, 50000 do
    out[#out + 1] = numbers(1) .. ("<d"):pack(i) .. numbers(4, i + 1, 3) .. "V 1" .. numbers(17) .. "torch.FloatTensor"
      .. numbers(0) .. ("<i8"):pack(1) .. numbers(0)
  end
  reading(ml.load, write("x.t7", table.concat(out))) ]], ANY)

-- NumPy's, GGUF, safetensors, JSON.
row("a .npz of 8 GB of zeros in 8 MB", [[
  local stream = io.deflate(megabytes("\0", 256))
  local size = 1 << 28
  local head = ("<c4 I2 I2 I2 I2 I2 I4 I4 I4 I2 I2"):pack("PK\3\4", 20, 0, 8, 0, 0, 0, #stream, size, 5, 0) .. "a.npy" .. stream
  local out, dir = {}, {}
  for i = 1, 32 do
    out[i] = head
    local name = ("%05d.npy"):format(i)
    dir[i] = ("<c4 I2 I2 I2 I2 I2 I2 I4 I4 I4 I2 I2 I2 I2 I2 I4 I4"):pack("PK\1\2", 20, 20, 0, 8, 0, 0, 0, #stream, size, #name, 0, 0,
      0, 0, 0, (i - 1) * #head) .. name
  end
  local all = table.concat(dir)
  reading(ml.load, write("x.npz", table.concat(out) .. all .. ("<c4 I2 I2 I2 I2 I4 I4 I2"):pack("PK\5\6", 0, 0, 32, 32, #all,
    32 * #head, 0))) ]], "[^\n]*load: 'x.npz'")
row("an array of 200 MB of zeros, compressed", [[
  ml.save(path "x.npz", { a = ml.zeros(50 << 20) }, { compressed = true })
  reading(ml.load, "x.npz") ]], "a value")
row("an array whose head is a megabyte of sizes", [[
  local head = "{'descr': '<f4', 'fortran_order': False, 'shape': (" .. ("0,"):rep(500000) .. "), }"
  reading(ml.load, write("x.npy", "\x93NUMPY\2\0" .. ("<s4"):pack(head))) ]], "[^\n]*load: 'x.npy'")
row("an array whose head is a megabyte of brackets and quotes", [[
  local head = ("{'shape': ("):rep(90000)
  reading(ml.load, write("x.npy", "\x93NUMPY\2\0" .. ("<s4"):pack(head))) ]], "[^\n]*load: 'x.npy'")
row("a GGUF file that says it has 2^60 metadata", [[
  reading(ml.load, write("x.gguf", ("<c4 I4 i8 i8"):pack("GGUF", 3, 1 << 60, 1 << 60) .. ("\0"):rep(1000))) ]],
  "[^\n]*the file is cut off")
row("a GGUF file of 300000 empty arrays", [[
  reading(ml.load, write("x.gguf", ("<c4 I4 i8 i8 s8 I4 I4 i8"):pack("GGUF", 3, 0, 1, "x", 9, 9, 300000)
    .. ("<I4 i8"):pack(0, 0):rep(300000))) ]], "a value")
row("a GGUF file of 20 MB of small numbers", [[
  reading(ml.load, write("x.gguf", ("<c4 I4 i8 i8 s8 I4 I4 i8"):pack("GGUF", 3, 0, 1, "x", 9, 0, 20 << 20)
    .. ("\7"):rep(20 << 20))) ]], "a value")
row("a GGUF file of 100000 tensors without elements", [[
  local out = { ("<c4 I4 i8 i8"):pack("GGUF", 3, 100000, 0) }
  for i = 1, 100000 do out[#out + 1] = ("<s8 I4 i8 I4 i8"):pack("t" .. i, 1, 0, 0, 0) end
  reading(ml.load, write("x.gguf", table.concat(out) .. ("\0"):rep(64))) ]], ANY)
row("a safetensors header of 12 MB of metadata", [[
  local out = {}
  for i = 1, 1000000 do out[i] = ('"%x":""'):format(i) end
  reading(ml.load, safetensors('{"__metadata__":{' .. table.concat(out, ",") .. "}}")) ]], ANY)
row("a safetensors header of 200000 empty tensors", [[
  local out = {}
  for i = 1, 200000 do out[i] = ('"%x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'):format(i) end
  reading(ml.load, safetensors("{" .. table.concat(out, ",") .. "}")) ]], "a value")
row("a safetensors tree of 4 million empty tables", [[
  local tree = '{"t":[' .. ('[1,{"t":[]}],'):rep(1000000) .. "[2,3]" .. "]}"
  reading(ml.load, safetensors(require "moonlet.json".encode { __metadata__ = { [ "moonlet.tree" ] = tree } })) ]], ANY)
row("JSON of 20 million empty arrays", [[
  local json = require "moonlet.json"
  reading(json.decode, "[" .. ("[],"):rep(20000000) .. "0]", 1 << 28) ]], "[^\n]*json: [^\n]*takes more than")
row("an index of 500000 names", [[
  ml.save(path "a.safetensors", { x = ml.ones(1) })
  local out = {}
  for i = 1, 500000 do out[i] = ('"n%d":"a.safetensors"'):format(i) end
  reading(ml.load, write("x.safetensors.index.json", '{"weight_map":{' .. table.concat(out, ",") .. "}}")) ]],
  "[^\n]*is not in")

-- Tables, text and tokenizers, gzipped.
row("2 GB of zero bytes as gzip, as IDX", [[
  reading(data.read_idx, write("x.gz", read(gzipped("x.gz", "\0", 200)):rep(10))) ]], TOO_MUCH)
row("2 GB of numbers as gzip, as CSV", [[
  reading(data.read_csv, write("x.csv.gz", read(gzipped("x.csv.gz", "1,2,3,4\n", 200)):rep(10))) ]], TOO_MUCH)
row("100 MB of numbers as gzip, as CSV", [[ reading(data.read_csv, gzipped("x.csv.gz", "1,2,3,4\n", 100)) ]], TOO_MUCH)
row("100 MB of commas as gzip, as a table of texts", [[
  reading(data.read_table, gzipped("x.csv.gz", ",", 100), { header = false }) ]], TOO_MUCH)
row("a CSV file of one line of a million columns", [[
  reading(data.read_csv, write("x.csv", ("1,"):rep(1000000) .. "1\n")) ]], "a value")
row("a CSV table of a million columns with names", [[
  local names = {}
  for i = 1, 300000 do names[i] = "c" .. i end
  reading(data.read_table, write("x.csv", table.concat(names, ",") .. "\n" .. ("1,"):rep(299999) .. "1\n")) ]], ANY)
row("a CSV line of 50 MB", [[
  reading(data.read_csv, write("x.csv", ("1"):rep(50000000) .. "\n")) ]], "[^\n]*out of range")
row("a quoted CSV field of doubled quotes", [[
  reading(data.read_table, write("x.csv", 'a\n"' .. ('""'):rep(10000000) .. '"\n')) ]], "a value")
row("a CSV table of many columns and short rows", [[
  local names = {}
  for i = 1, 100000 do names[i] = "c" .. i end
  reading(data.read_table, write("x.csv", table.concat(names, ",") .. "\n" .. ("1\n"):rep(100000))) ]], TOO_MUCH)
row("a CSV table of one text in doubled quotes a row", [[
  reading(data.read_table, gzipped("x.csv.gz", '"a""b"\n', 60)) ]], TOO_MUCH)
row("100 MB of blank lines as gzip, as a table", [[
  reading(data.read_table, gzipped("x.csv.gz", "\n", 100)) ]], "[^\n]*has no rows")
row("a CSV table whose first line ends nowhere", [[
  reading(data.read_table, write("x.csv", 'a\n"' .. ("x,\n"):rep(10000000))) ]], "[^\n]*a quote is not closed")
row("a CSV table of remarks alone", [[
  reading(data.read_table, write("x.csv", ("# x\n"):rep(5000000))) ]], "a value")
row("500 MB of line ends as gzip, as lines", [[
  reading(data.TextLines, gzipped("x.gz", "\n", 500)) ]], TOO_MUCH)
row("500 MB of letters as gzip, as characters", [[
  reading(data.CharDataset, gzipped("x.gz", "a", 500), 8) ]], TOO_MUCH)
row("500 MB of brackets as gzip, as a tokenizer", [[ reading(data.read_tokenizer, gzipped("x.gz", "[],", 500)) ]], TOO_MUCH)
row("20 MB of arrays as gzip, as a tokenizer", [[
  reading(data.read_tokenizer, write("x.gz", read(gzipped("x.gz", "[", 0)) .. read(gzipped("x.gz", "[],", 20)))) ]],
  "[^\n]*read_tokenizer: 'x.gz'")
row("a tokenizer of 300000 special tokens", [[
  local out = {}
  for i = 1, 300000 do out[i] = ('{"id":%d,"content":"t%d","special":true}'):format(i, i) end
  reading(data.read_tokenizer, write("x.json", '{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"pre_tokenizer":'
    .. '{"type":"ByteLevel"},"added_tokens":[' .. table.concat(out, ",") .. "]}")) ]], "a value")
row("a tokenizer whose token has the id 2^31 - 1", [[
  reading(data.read_tokenizer, write("x.json", '{"model":{"type":"BPE","vocab":{"a":0,"b":2147483647},"merges":[]},'
    .. '"pre_tokenizer":{"type":"ByteLevel"}}')) ]], ANY)

for _, it in ipairs {
  { "of 300000 tokens that are added", [[
    local list = {}
    for i = 1, 300000 do list[i] = ('{"content":"t%d","id":%d}'):format(i, i) end
    local file = '{"model":{"type":"WordLevel","vocab":{"a":0}},"added_tokens":[' .. table.concat(list, ",") .. "]}" ]] },
  { "of tokens of Unigram, each longer", [[
    local list = {}
    for i = 1, 3000 do list[i] = ('["%s",-1]'):format(("x"):rep(i)) end
    local file = '{"model":{"type":"Unigram","vocab":[' .. table.concat(list, ",") .. "]}}" ]] },
  { "whose map of characters is of 30 MB", [[
    local map = "AAAAAf" .. ("A"):rep(30 << 20)
    local file = '{"model":{"type":"WordLevel","vocab":{"a":0}},"normalizer":{"type":"Precompiled","precompiled_charsmap":"'
      .. map .. '"}}' ]] },
  { "of 2 million parts", [[
    local file = '{"model":{"type":"WordLevel","vocab":{"a":0}},"decoder":{"type":"Sequence","decoders":['
      .. ('{"type":"Fuse"},'):rep(2000000) .. '{"type":"Fuse"}]}}' ]] },
  { "of parts in parts", [[
    local file = '{"model":{"type":"WordLevel","vocab":{"a":0}},"decoder":'
      .. ('{"type":"Sequence","decoders":['):rep(200) .. '{"type":"Fuse"}' .. ("]}"):rep(200) .. '}' ]] },
  { "whose pattern is of a megabyte", [[
    local file = '{"model":{"type":"WordLevel","vocab":{"a":0}},"pre_tokenizer":{"type":"Split","behavior":"Isolated",'
      .. '"pattern":{"Regex":"' .. ("(a|b)*"):rep(150000) .. '"}}}' ]] },
  { "whose pattern repeats repetitions", [[
    local file = '{"model":{"type":"WordLevel","vocab":{"a":0}},"pre_tokenizer":{"type":"Split","behavior":"Isolated",'
      .. '"pattern":{"Regex":"((((a{1,999}){1,999}){1,999}){1,999}){1,999}"}}}' ]] },
} do
  row("a tokenizer " .. it[1], it[2] .. ' reading(data.read_tokenizer, write("x.json", file))', ANY)
end

-- Pictures and sound.
row("a progressive JPEG of 25000 x 25000 pixels and comments", [[
  reading(data.read_image, write("x.jpg", jpeg(25000, 25000, 2, DC .. ("\0"):rep(10)))) ]], "[^\n]*cannot come from")
row("a progressive JPEG of 25000 x 25000 pixels with codes for them", [[
  reading(data.read_image, write("x.jpg", jpeg(25000, 25000, 0, DC .. ("\0"):rep(1300000)))) ]], TOO_MUCH)
row("a progressive JPEG of 5000 scans", [[
  local scan = "\xff\xda" .. (">I2 B"):pack(8, 1) .. "\1\0\1\x3f\0" .. ("\0"):rep(8)
  reading(data.read_image, write("x.jpg", jpeg(4000, 4000, 0, DC .. ("\0"):rep(100000) .. scan:rep(5000)))) ]], TOO_MUCH)
row("a PNG of 30000 x 30000 white pixels of a bit", [[
  local block, rows = ("\0" .. ("\xff"):rep(3750)):rep(1000), {}
  for i = 1, 30 do rows[i] = block end
  reading(data.read_image, write("x.png", png(30000, 30000, 1, 0, zlib(rows)))) ]], TOO_MUCH)
row("a PNG whose data grow to 700 MB", [[
  reading(data.read_image, write("x.png", png(10, 10, 8, 0, zlib(megabytes("\0", 700))))) ]], TOO_MUCH)
row("a PNG with a text and a profile of 50 MB, compressed", [[
  local big = zlib(megabytes("\0", 50))
  reading(data.read_image, write("x.png", png(2, 2, 8, 0, zlib("\0\1\2\0\3\4"), chunk("iCCP", "a\0\0" .. big)
    .. chunk("zTXt", "a\0\0" .. big)))) ]], "a value")
row("a PNG of a million chunks", [[
  reading(data.read_image, write("x.png", png(2, 2, 8, 0, zlib("\0\1\2\0\3\4"), chunk("tEXt", ""):rep(1000000)))) ]], "a value")
row("a BMP of 2^31 rows", [[
  reading(data.read_image, write("x.bmp", "BM" .. ("<I4 I4 I4 I4 i4 i4 I2 I2 I4 I4 I4 I4 I4 I4"):pack(100, 0, 54, 40, 1, -(1 << 31) + 1, 1,
    24, 0, 0, 0, 0, 0, 0) .. ("\0"):rep(64))) ]], "[^\n]*read_image: 'x.bmp'")
row("a BMP of runs", [[
  reading(data.read_image, write("x.bmp", "BM" .. ("<I4 I4 I4 I4 i4 i4 I2 I2 I4 I4 I4 I4 I4 I4"):pack(100, 0, 54, 40, 30000, 30000, 1,
    8, 1, 0, 0, 0, 0, 0) .. ("\255\1"):rep(64))) ]], "[^\n]*read_image: 'x.bmp'")
for _, it in ipairs {
  { "a canvas of 65535 x 65535", [[gif(65535, 65535, image(2, 2, "\2\1\x2c\0"))]], TOO_MUCH },
  { "a frame of 65535 x 65535", [[gif(1, 1, image(65535, 65535, "\2\1\x2c\0"))]], TOO_MUCH },
  { "5000 frames of 3000 x 3000", [[gif(3000, 3000, image(1, 1, "\2\2\x44\1\0"):rep(5000))]], TOO_MUCH },
  { "5000 frames of 3000 x 3000, each taken away", [[gif(3000, 3000, ("!\xf9\4\x0c\0\0\0\0" .. image(1, 1, "\2\2\x44\1\0")):rep(5000))]], TOO_MUCH },
  { "a million comments", [[gif(3, 3, ("!\xfe\1a\0"):rep(1000000) .. image(1, 1, "\2\2\x44\1\0"))]], "a value" },
  { "two million codes that empty the table", [[gif(3, 3, image(3, 3, "\8" .. ("\xff"
    .. ("\0\2\4\x08\x10\x20\x40\x80\0"):rep(29):sub(1, 255)):rep(8000) .. "\0"))]], "a value" },
} do
  row("a GIF with " .. it[1], [[
    local function gif(width, height, blocks)
      return "GIF89a" .. ("<I2 I2"):pack(width, height) .. "\x80\0\0\1\2\3\4\5\6" .. blocks .. ";"
    end
    local function image(width, height, codes) return ",\0\0\0\0" .. ("<I2 I2"):pack(width, height) .. "\0" .. codes end
    reading(data.read_image, write("x.gif", ]] .. it[2] .. [[), { all_frames = true }) ]], it[3])
end
row("a WebP of 16384 x 16384 pixels in 30 bytes", [[
  local body = "VP8L" .. ("<s4"):pack("\x2f" .. ("<I4"):pack(16383 | 16383 << 14) .. ("\0"):rep(9))
  reading(data.read_image, write("x.webp", "RIFF" .. ("<s4"):pack("WEBP" .. body))) ]], "[^\n]*read_image: 'x.webp'")
row("a WAV file whose blocks of ADPCM are of 65535 bytes", [[
  local format = ("<I2 I2 I4 I4 I2 I2 I2 I2"):pack(0x11, 1, 8000, 8000, 65532, 4, 2, (1 + (65532 - 4) * 2) & 0xffff)
  reading(data.read_wav, write("x.wav", "RIFF\0\0\0\0WAVEfmt " .. ("<s4"):pack(format) .. "data\xff\xff\xff\xff" .. ("\7"):rep(3000000)))
  ]], "[^\n]*")
row("a WAV file of 100 MB of mu-law as one that was written to a pipe", [[
  local format = ("<I2 I2 I4 I4 I2 I2"):pack(7, 1, 8000, 8000, 1, 8)
  reading(data.read_wav, write("x.wav", "RIFF\0\0\0\0WAVEfmt " .. ("<s4"):pack(format) .. "data\0\0\0\0" .. ("\7"):rep(100000000)))
  ]], "[^\n]*")
row("a WAV file of a million empty chunks", [[
  reading(data.read_wav, write("x.wav", "RIFF\0\0\0\0WAVE" .. ("junk\0\0\0\0"):rep(1000000))) ]], "[^\n]*read_wav: 'x.wav'")

-- ONNX: few bytes that say how much is to be made.
for _, it in ipairs {
  { "ConstantOfShape", "{ { 'ConstantOfShape', { 's' } } }, { s = ints(6 << 30) }" },
  { "ConstantOfShape of 1 GiB, kept 24 times", [[(function()
      local nodes = { { 'ConstantOfShape', { 's' } } }
      for i = 2, 25 do nodes[i] = { 'Mul', { tostring(i - 1), 'w' } } end
      return nodes
    end)(), { s = ints(1 << 28), w = ml.ones(1) }]] },
  { "Expand and Add", "{ { 'Expand', { 'x', 's' } }, { 'Add', { '1', 'x' } } }, { x = ml.ones(1), s = ints(6 << 30) }" },
  { "Expand and ReduceSum", "{ { 'Expand', { 'x', 's' } }, { 'ReduceSum', { '1' } } }, { x = ml.ones(1), s = ints(1 << 40) }" },
  { "Tile", "{ { 'Tile', { 'x', 's' } } }, { x = ml.ones(1), s = ints(6 << 30) }" },
  { "Range", "{ { 'Range', { 'a', 'b', 'c' } } }, { a = ints(0)[1], b = ints(1 << 60)[1], c = ints(1)[1] }" },
  { "Range of a NaN", "{ { 'Range', { 'a', 'b', 'c' } } }, { a = ml.tensor(0 / 0), b = ml.tensor(1.0), c = ml.tensor(1.0) }" },
  { "Range without end", "{ { 'Range', { 'a', 'b', 'c' } } }, { a = ml.tensor(0.0), b = ml.tensor(math.huge), c = ml.tensor(1.0) }" },
  { "Pad", "{ { 'Pad', { 'x', 's' } } }, { x = ml.ones(1), s = ints(1 << 31, 1 << 31) }" },
  { "Pad by the edge", "{ { 'Pad', { 'x', 's' }, { mode = 'edge' } } }, { x = ml.ones(1), s = ints(1 << 31, 1 << 31) }" },
  { "Pad by the edge of what is empty", "{ { 'Pad', { 'x', 's' }, { mode = 'edge' } } }, { x = ml.ones(1, 0), s = ints(1 << 30, 0, 1 << 30, 0) }" },
  { "Resize", "{ { 'Resize', { 'x', '', '', 's' } } }, { x = ml.ones(1, 1, 1, 1), s = ints(1, 1, 1 << 20, 1 << 20) }" },
  { "Resize by scales", "{ { 'Resize', { 'x', '', 's' } } }, { x = ml.ones(1, 1, 2, 2), s = ml.tensor { 1, 1, 5e5, 5e5 } }" },
  { "Resize from many positions to many", "{ { 'Resize', { 'x', '', '', 's' }, { mode = 'linear' } } }, { x = ml.ones(1, 20000), s = ints(1, 1 << 20) }",
    "a value" },
  { "OneHot", "{ { 'OneHot', { 'i', 'd', 'v' } } }, { i = ints(1, 2), d = ints(1 << 31)[1], v = ml.tensor { 0.0, 1.0 } }" },
  { "a product of a column and a row", "{ { 'MatMul', { 'a', 'b' } } }, { a = ml.ones(80000, 1), b = ml.ones(1, 80000) }" },
  { "a sum of a column and a row", "{ { 'Add', { 'a', 'b' } } }, { a = ml.ones(80000, 1), b = ml.ones(1, 80000) }" },
  { "EyeLike of what is expanded", "{ { 'Expand', { 'x', 's' } }, { 'EyeLike', { '1' } } }, { x = ml.ones(1, 1), s = ints(80000, 80000) }" },
  { "Conv with a large border", "{ { 'Conv', { 'x', 'w' }, { pads = { 40000, 40000, 40000, 40000 } } } },"
    .. " { x = ml.ones(1, 1, 1, 1), w = ml.ones(1, 1, 1, 1) }" },
  { "MaxPool with a large border", "{ { 'MaxPool', { 'x' }, { kernel_shape = { 1, 1 }, pads = { 40000, 40000, 40000, 40000 } } } },"
    .. " { x = ml.ones(1, 1, 1, 1) }" },
  { "LRN over 2^62 channels", "{ { 'LRN', { 'x' }, { size = 1 << 62 } } }, { x = ml.ones(1, 2, 1, 1) }", "a value" },
  { "Split into 2^62 parts", "{ { 'Split', { 'x' }, { num_outputs = 1 << 62 } } }, { x = ml.ones(4) }" },
  { "DepthToSpace by 2^32", "{ { 'DepthToSpace', { 'x' }, { blocksize = 1 << 32 } } }, { x = ml.ones(1, 4, 1, 1) }" },
  { "Reshape by a list of 2^27 sizes", "{ { 'ConstantOfShape', { 's' }, { value = ints(1) } }, { 'Reshape', { 'x', '1' } } },"
    .. " { x = ml.ones(1), s = ints(1 << 26) }" },
  { "Einsum of two rows", "{ { 'Einsum', { 'a', 'b' }, { equation = 'i,j->ij' } } }, { a = ml.ones(80000), b = ml.ones(80000) }" },
  { "GatherElements of an expanded index", "{ { 'Expand', { 'i', 's' } }, { 'GatherElements', { 'x', '1' } } },"
    .. "{ x = ml.ones(1), i = ints(0), s = ints(1 << 33) }" },
} do
  row("an ONNX graph: " .. it[1], "run(" .. it[2] .. ")", it[3] or "[^\n]*onnx model: node")
end
-- A Loop without end, whose body has the nodes { op, { inputs }, output } and carries v, which begins as `first`.
for _, it in ipairs {
  { "collects numbers", "ml.ones(4)", "{ { 'Identity', { 'v' }, 'v2' }, { 'Identity', { 'v' }, 'k' } }" },
  { "collects empty tensors", "ml.ones(0)", "{ { 'Identity', { 'v' }, 'v2' }, { 'Identity', { 'v' }, 'k' } }" },
  { "doubles a tensor", "ml.ones(4)", "{ { 'Concat', { 'v', 'v' }, 'v2', { axis = 0 } } }" },
  { "makes a sequence longer", "'SequenceEmpty'", "{ { 'SequenceInsert', { 'v', 'i' }, 'v2' } }" },
  { "doubles a string", "'text'", "{ { 'StringConcat', { 'v', 'v' }, 'v2' } }" },
  { "doubles strings", "'text'", "{ { 'Concat', { 'v', 'v' }, 'v2', { axis = 0 } } }" },
} do
  row("an ONNX loop that " .. it[1], ([[
    local first, nodes = %s, %s
    local body = { name = "b", node = { { op_type = "Identity", input = { "c" }, output = { "c2" } } },
      input = { { name = "i" }, { name = "c" }, { name = "v" } }, output = { { name = "c2" }, { name = "v2" } } }
    for _, node in ipairs(nodes) do
      local made = { op_type = node[1], input = node[2], output = { node[3] }, attribute = {} }
      for name, value in pairs(node[4] or {}) do table.insert(made.attribute, attribute(name, value)) end
      table.insert(body.node, made)
      if node[3] == "k" then table.insert(body.output, { name = "k" }) end
    end
    local start = { op_type = first, output = { "first" } }
    if first == "text" then
      start = { op_type = "Constant", output = { "first" }, attribute = { { name = "value_strings", type = 8, strings = { "a" } } } }
    elseif ml.is_tensor(first) then
      start = { op_type = "Constant", output = { "first" }, attribute = { attribute("value", first) } }
    end
    local outputs = body.output[3] and { "z", "s" } or { "z" }
    local proto = { ir_version = 8, opset_import = { { domain = "", version = 20 } }, graph = { name = "g", node = { start,
      { op_type = "Loop", input = { "", "", "first" }, output = outputs, attribute = { attribute("body", { graph = body }) } } },
      output = { { name = "z" } } } }
    write("x.onnx", codec.encode(proto, false))
    reading(function() return ml.onnx.load("x.onnx", { max_bytes = 1 << 24 })() end) ]]):format(it[2], it[3]),
    "[^\n]*onnx model: node 2 %(Loop%)")
end
row("ONNX functions that call two of the next, 30 deep", [[
  local proto = { ir_version = 8, opset_import = { { domain = "", version = 17 }, { domain = "my", version = 1 } }, functions = {},
    graph = { name = "g", node = { { op_type = "f1", domain = "my", input = {}, output = { "z" } } }, output = { { name = "z" } } } }
  for i = 1, 30 do
    local function call(output) return { op_type = "f" .. i + 1, domain = "my", input = { "a" }, output = { output } } end
    proto.functions[i] = { name = "f" .. i, domain = "my", input = { "a" }, output = { "c" }, node = { call "b", call "c" },
      opset_import = { { domain = "my", version = 1 }, { domain = "", version = 17 } } }
  end
  proto.functions[30].node = { { op_type = "Relu", input = { "a" }, output = { "c" } } }
  write("x.onnx", codec.encode(proto, false))
  reading(function() return #ml.onnx.load("x.onnx"):parameters() end) ]], "a value")
row("ONNX varints that are 8 million numbers", [[
  local bytes = ("\1"):rep(8 << 20)
  local tensor = "\8\x80\x80\x80\4\x10\7\x42\1w\x3a" .. "\x80\x80\x80\4" .. bytes
  local function sized(head, s)
    local out, n = head, #s
    repeat
      out = out .. string.char(n > 127 and n & 127 | 128 or n)
      n = n >> 7
    until n == 0
    return out .. s
  end
  local graph = sized("\x2a", tensor) .. sized("\x62", "\x0a\1w")
  reading(function() return ml.onnx.load(write("x.onnx", "\8\8" .. sized("\x3a", graph) .. "\x42\2\x10\17"))() end) ]], "a value")
row("an ONNX graph that may take what it asks for", [[
  local name = graph({ { 'ConstantOfShape', { 's' } }, { 'ReduceSum', { '1' } } }, { s = ints(3 << 26) })
  reading(function() return ml.onnx.load(name, { max_bytes = 1 << 28 })() end)
  reading(function() return ml.onnx.load(name, { max_bytes = 1 << 30 })():item() end) ]],
  "[^\n]*onnx model: node[^\n]*the option 'max_bytes'[^\n]*\nwithin bounds\na value")
row("an ONNX file of 2 million empty nodes", [[
  local size = 4 << 20
  reading(ml.onnx.load, write("x.onnx", "\8\8\x3a\x80\x80\x80\2" .. ("\x0a\0"):rep(size // 2) .. "\x42\2\x10\17")) ]],
  "[^\n]*onnx.load: 'x.onnx'")
row("an ONNX initialiser whose name has 100000 dots", [[
  local name = graph({ { 'Identity', { ('a.'):rep(100000) } } }, { [('a.'):rep(100000)] = ml.ones(1) })
  reading(function() return ml.onnx.load(name):state_dict() end) ]], "a value")
row("ONNX initialisers whose names are parts of each other", [[
  local all = { a = ml.ones(1) }
  for i = 1, 5000 do all["a." .. i] = ml.ones(1) end
  local name = graph({ { 'Identity', { 'a' } } }, all)
  reading(function() return #ml.onnx.load(name):parameters() end) ]], "a value")
row("ONNX initialisers that share 200 MB of another file", [[
  local zeros = io.write_parts(path "big.bin", { ml.zeros(50 << 20) }, "save")
  local proto = { ir_version = 8, opset_import = { { domain = "", version = 17 } }, graph = { name = "g", node = {},
    initializer = {}, output = { { name = "w1" } } } }
  for i = 1, 1000 do
    proto.graph.initializer[i] = { name = "w" .. i, dims = { 50 << 20 }, data_type = 1, data_location = 1,
      external_data = { { key = "location", value = "big.bin" } } }
  end
  write("x.onnx", codec.encode(proto, false))
  reading(ml.onnx.load, "x.onnx", { max_bytes = 1 << 30 }) ]], TOO_MUCH)

return rows
