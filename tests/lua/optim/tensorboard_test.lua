-- tests/lua/optim/tensorboard_test.lua: the files that SummaryWriter makes: bytes that
-- torch.utils.tensorboard 2 writes for the same values, and a reader of framing and CRCs.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local images = require "moonlet.utils.tensorboard.images"
local records = require "moonlet.utils.tensorboard.records"
local system = require "moonlet.system"
local test, expect = harness.test, harness.expect
local SummaryWriter = require("moonlet.utils.tensorboard").SummaryWriter

-- CRC32C, bit by bit from the polynomial.
local function crc32c(data)
  local rest = 0xffffffff
  for i = 1, #data do
    rest = rest ~ data:byte(i)
    for _ = 1, 8 do rest = (rest >> 1) ~ (0x82f63b78 & -(rest & 1)) end
  end
  return rest ~ 0xffffffff
end

local function unmasked(crc)
  local rotated = (crc - 0xa282ead8) & 0xffffffff
  return (rotated >> 17 | rotated << 15) & 0xffffffff
end

-- The records of a file, whole, after a check of their lengths and CRCs.
local function records_of(path)
  local text, out, at = system.read_file(path), {}, 1
  while at <= #text do
    local length, crc = ("<I8 I4"):unpack(text, at)
    expect.equal(unmasked(crc), crc32c(text:sub(at, at + 7)))
    local data = text:sub(at + 12, at + 11 + length)
    expect.equal(unmasked((("<I4"):unpack(text, at + 12 + length))), crc32c(data))
    out[#out + 1] = { data = data, whole = text:sub(at, at + 15 + length) }
    at = at + 16 + length
  end
  return out
end

local function hex(text)
  return (text:gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

-- Runs `f` with a folder that is removed after.
local function with_folder(f)
  local folder = os.tmpname()
  os.remove(folder)
  local ok, message = pcall(f, folder)
  os.execute(("rm -rf '%s'"):format(folder))
  if not ok then error(message, 0) end
end

local function events_file(folder)
  local found
  for _, name in ipairs(system.list(folder)) do
    if name:find "^events%.out%.tfevents%.%d+%." then
      expect.falsy(found, "two files")
      found = folder .. "/" .. name
    end
  end
  return expect.truthy(found)
end

-- The records but the first that `add(writer)` makes.
local function written(add, ...)
  local out
  local options = ...
  with_folder(function(folder)
    local writer = SummaryWriter(folder, options or {})
    add(writer)
    writer:close()
    out = records_of(events_file(folder))
  end)
  expect.equal(out[1].data:sub(10), "\x1a\x0dbrain.Event:2")
  return table.move(out, 2, #out, 1, {})
end

test("CRC32C", function()
  expect.equal(records.crc32c "123456789", 0xe3069283)
  expect.equal(records.crc32c "", 0)
  local long = ("\0\1\255x"):rep(3000)
  expect.equal(records.crc32c(long), crc32c(long))
end)

test("values have PyTorch's bytes", function()
  local got = written(function(w)
    w:add_scalar("loss/train", 0.1, 3, 1.5)
    w:add_scalar("d", ml.tensor(0.1, { dtype = ml.float64 }), { global_step = -3, walltime = 1.5,
      new_style = true, double_precision = true })
    w:add_histogram("h", ml.tensor { 1, 2, 2, 7 }, 300, { bins = { 0, 2, 3, 8 }, walltime = 1.5 })
    w:add_text("t", "é", 4, 1.5)
  end)
  local wanted = {
    "200000000000000029eda95009000000000000f83f10032a130a110a0a6c6f73732f747261696e15cdcccc3de9a4"
      .. "ce5c",
    "36000000000000004f578cef09000000000000f83f10fdffffffffffffffff012a200a1e0a0164420c0802320"
      .. "89a9999999999b93f4a0b0a090a077363616c617273a7c4fb4d",
    "860000000000000070011d5c09000000000000f83f10ac022a780a760a01682a7109000000000000f03f1100000"
      .. "00000001c40190000000000001040210000000000002840290000000000004d40322000000000000000000000"
      .. "000000000040000000000000084000000000000020403a200000000000000000000000000000f03f00000000"
      .. "00000040000000000000f03fb0d63e4a",
    "3700000000000000e7e8ca5909000000000000f83f10042a2a0a280a0e742f746578745f73756d6d617279420c0"
      .. "8071204120208014202c3a94a080a060a0474657874515cb2ff",
  }
  expect.equal(#got, #wanted)
  for i, record in ipairs(got) do expect.equal(hex(record.whole), wanted[i]) end
end)

test("curves, sounds, meshes and charts have PyTorch's bytes", function()
  local corners = ml.tensor { { { 1, 1, 1 }, { -1, -1, 1 }, { 1, -1, -1 }, { -1, 1, -1. } } }
  local colors = ml.tensor { { { 255, 0, 0 }, { 0, 255, 0 }, { 0, 0, 255 }, { 255, 0, 255 } } }
  local faces = ml.tensor { { { 1, 3, 4 }, { 1, 4, 2 }, { 1, 2, 3 }, { 2, 4, 3 } } }
  local labels, scores = ml.tensor { 0, 1, 1, 0, 1 }, ml.tensor { 0.1, 0.9, 0.4, 0.6, 1.0 }
  local got = written(function(w)
    w:add_audio("a", ml.tensor { { 0, 0.5, -1, 1, 0.25 } }, 3, 8000, 1.5)
    w:add_pr_curve("p", labels, scores, 2, 5, nil, 1.5)
    w:add_mesh("m", corners, colors, faces, { walltime = 1.5 })
    w:add_custom_scalars { Taiwan = { twse = { "Multiline", { "a", "b" } } },
      USA = { dow = { "Margin", { "x", "y", "z" } } } }
    w:add_pr_curve("p", labels, scores, { weights = ml.tensor { 1, 2, 3, 4, 5. } })
  end)
  local wanted = {
    "09000000000000f83f10032a530a510a0161324c0d0000fa45100118052236524946462e0000005741564566"
      .. "6d74201000000001000100401f0000803e000002001000646174610a0000000000ff3f0180ff7fff1f2a0961"
      .. "7564696f2f776176",
    "09000000000000f83f10022aa2010a9f010a01704286010801120812020806120208052a7800004040000040"
      .. "4000000040000000400000803f000000400000803f0000803f0000000000000000000000000000803f000080"
      .. "3f000000400000004000000000000000000000803f0000803f000000409a99193f0000403fabaa2a3f000080"
      .. "3f0000803f0000803f0000803fabaa2a3fabaa2a3fabaaaa3e4a110a0f0a0970725f63757276657312021005",
    "09000000000000f83f2ac1020a6a0a086d5f56455254455842420801120c1202080112020804120208032a30"
      .. "0000803f0000803f0000803f000080bf000080bf0000803f0000803f000080bf000080bf000080bf0000803f"
      .. "000080bf4a1a0a180a046d657368121012016d18012a027b7d3203010403380e0a680a066d5f464143454242"
      .. "0801120c1202080112020804120208032a3000000000000000400000404000000000000040400000803f0000"
      .. "00000000803f000000400000803f00004040000000404a1a0a180a046d657368121012016d18022a027b7d32"
      .. "03010403380e0a690a076d5f434f4c4f5242420801120c1202080112020804120208032a3000007f43000000"
      .. "00000000000000000000007f4300000000000000000000000000007f4300007f430000000000007f434a1a0a"
      .. "180a046d657368121012016d18032a027b7d3203010403380e",
    "2a6d0a6b0a18637573746f6d5f7363616c6172735f5f636f6e6669675f5f423b08071200423512180a065461"
      .. "6977616e120e0a047477736512060a01610a016212190a0355534112120a03646f771a0b0a090a0178120179"
      .. "1a017a4a120a100a0e637573746f6d5f7363616c617273",
  }
  for i, record in ipairs(wanted) do
    expect.equal(hex(i == 4 and got[i].data:sub(10) or got[i].data), record)
  end
  -- The first true positives, false positives and negatives of the weighted curve.
  local floats = { ("<f"):unpack(got[5].data, got[5].data:find("\x2a\xe8\x17", 1, true) + 3) }
  expect.equal(floats[1], 10.0)
end)

test("the files of embeddings", function()
  with_folder(function(folder)
    local writer <close> = SummaryWriter(folder)
    writer:add_embedding(ml.tensor { { 1, 2.5 }, { 0.1, 4 } }, { "one", "two" },
      ml.rand(2, 3, 4, 4), 7, "t/x")
    writer:add_embedding(ml.tensor { { 1, 2 }, { 3, 4 } }, { { "one", 1 }, { "two", 2 } },
      { metadata_header = { "name", "n" } })
    local function text(name) return system.read_file(folder .. "/" .. name) end
    expect.equal(text "projector_config.pbtxt", [[
embeddings {
  tensor_name: "t/x:00007"
  metadata_path: "00007/t%2fx/metadata.tsv"
  sprite {
    image_path: "00007/t%2fx/sprite.png"
    single_image_dim: 4
    single_image_dim: 4
  }
  tensor_path: "00007/t%2fx/tensors.tsv"
}
embeddings {
  tensor_name: "default:00000"
  metadata_path: "00000/default/metadata.tsv"
  tensor_path: "00000/default/tensors.tsv"
}
]])
    expect.equal(text "00007/t%2fx/metadata.tsv", "one\ntwo\n")
    expect.equal(text "00007/t%2fx/tensors.tsv", "1\t2.5\n0.100000001\t4\n")
    expect.equal({ images.size(text "00007/t%2fx/sprite.png") }, { 8, 8 })
    expect.equal(text "00000/default/metadata.tsv", "name\tn\none\t1\ntwo\t2\n")
    expect.equal(text "00000/default/tensors.tsv", "1\t2\n3\t4\n")
  end)
end)

test("steps of any size, and times from the clock", function()
  local got = written(function(w)
    w:add_scalar("a", 1, 1 << 40)
    w:add_scalar("a", 1 / 0)
  end)
  expect.truthy(got[1].data:find("\x10\x80\x80\x80\x80\x80\x20", 1, true))
  expect.truthy(math.abs(("<d"):unpack(got[1].data, 2) - os.time()) < 100)
  expect.truthy(got[2].data:find("\x15\0\0\x80\x7f", 1, true))
  expect.equal(written(function() end, { purge_step = 5 })[1].data:sub(10), "\x10\5\x3a\2\8\1")
end)

-- The doubles in field `number` of a histogram, whose packed fields come last.
local function packed(data, count)
  local limits, counts, size = {}, {}, 8 * count
  local at = #data - size + 1
  for i = 0, count - 1 do counts[i + 1] = ("<d"):unpack(data, at + 8 * i) end
  at = #data - 2 * size + 1
  while data:byte(at - 1) ~= 0x32 do at = at - 1 end
  at = at + (size < 128 and 1 or 2)
  for i = 0, count - 1 do limits[i + 1] = ("<d"):unpack(data, at + 8 * i) end
  return limits, counts
end

test("bins of histograms", function()
  local got = written(function(w)
    local x = ml.arange(10):double()
    w:add_histogram("h", x, 1, { bins = 5 })
    w:add_histogram("h", ml.ones(4), 1, { bins = 1 })
    w:add_histogram("h", ml.tensor { -1., 0, 1e-13, 2 }, 1)
    w:add_histogram("h", x, 1, { bins = { 0, 1, 2, 3, 4, 5, 20 }, max_bins = 3 })
  end)
  local limits, counts = packed(got[1].data, 6)
  expect.near(limits, { 1, 2.8, 4.6, 6.4, 8.2, 10 })
  expect.equal(counts, { 0.0, 2.0, 2.0, 2.0, 2.0, 2.0 })
  limits, counts = packed(got[2].data, 2)
  expect.equal(limits, { 0.5, 1.5 })
  expect.equal(counts, { 0.0, 4.0 })
  limits, counts = packed(got[4].data, 4)
  expect.equal(limits, { 0.0, 2.0, 4.0, 20.0 })
  expect.equal(counts, { 0.0, 1.0, 2.0, 7.0 })
end)

test("the names by which NumPy chooses the number of bins", function()
  local x = ml.tensor { 0.5, 1.5, -2, 3, 2.25, 0.75, 8, 1, 1, 2.5, -0.25 }
  local whole = ml.tensor { 1, 1, 2, 3, 9, 4, 4, 4 }
  local bins = { auto = { 7, 4 }, doane = { 7, 6 }, fd = { 7, 4 }, rice = { 5, 4 },
    scott = { 3, 2 }, sqrt = { 4, 3 }, stone = { 4, 8 }, sturges = { 5, 4 } }
  for name, wanted in pairs(bins) do
    local got = written(function(w)
      for _, values in ipairs { x, whole } do
        w:add_histogram("h", values, 1, { bins = name, walltime = 1.5 })
        local count = values == x and wanted[1] or wanted[2]
        w:add_histogram("h", values, 1, { bins = count, walltime = 1.5 })
      end
    end)
    expect.equal(hex(got[1].data), hex(got[2].data), name)
    expect.equal(hex(got[3].data), hex(got[4].data), name)
  end
end)

test("images", function()
  local x = ml.tensor { { 0., 0.5 }, { 1., 2. } }
  local got = written(function(w)
    w:add_image("i", x, 1, { dataformats = "HW" })
    w:add_image("i", x:unsqueeze(1), 1)
    w:add_image("i", x:unsqueeze(3), 1, { dataformats = "HWC" })
    w:add_image("i", (x * 127.5):to(ml.uint8):unsqueeze(1):expand(4, 2, 2), 1)
    w:add_images("i", ml.zeros(10, 3, 4, 5), 1)
    w:add_images("i", ml.zeros(1, 4, 5, 1), 1, { dataformats = "NHWC" })
  end)
  local function file_of(i) return got[i].data:match "\x89PNG.*" end
  local function picture(i)
    local path = os.tmpname()
    local file <close> = assert(io.open(path, "wb"))
    file:write(file_of(i):match "^.*IEND....")
    file:close()
    local read = ml.data.read_image(path)
    os.remove(path)
    return read
  end
  local wanted = ml.tensor({ { 0, 127 }, { 255, 255 } }, { dtype = ml.uint8 }):expand(3, 2, 2)
  for i = 1, 3 do expect.truthy(picture(i):equal(wanted), i) end
  local function size_of(i) return images.size(file_of(i)) end
  expect.equal({ size_of(4) }, { 2, 2 })
  expect.equal({ size_of(5) }, { 40, 8 })
  expect.equal({ size_of(6) }, { 5, 4 })
end)

test("a figure is a picture", function()
  if require("moonlet.raster").unavailable() then harness.skip "cairo is not here" end
  local got = written(function(w) w:add_figure("f", ml.plot.line { 1, 2, 3 }, 2) end)
  expect.equal({ images.size(got[1].data:match "\x89PNG.*") }, { 720, 400 })
end)

test("runs inside a run", function()
  with_folder(function(folder)
    do
      local writer <close> = SummaryWriter(folder)
      writer:add_scalars("a/b", { x = 1, y = ml.tensor(2) }, 5)
      writer:add_scalars("a/b", { x = 3 }, 6)
      writer:add_hparams({ lr = 0.5, name = "n", on = true }, { acc = 0.5 },
        { run_name = "h", hparam_domain_discrete = { name = { "n", "m" } } })
    end
    expect.equal(#records_of(events_file(folder)), 1)
    expect.equal(#records_of(events_file(folder .. "/a_b_x")), 3)
    local y = records_of(events_file(folder .. "/a_b_y"))[2].data
    expect.equal(y:sub(10), "\x10\5\x2a\x0c\x0a\x0a\x0a\3a/b\x15\0\0\0\x40")
    local h = records_of(events_file(folder .. "/h"))
    expect.equal(#h, 5)
    expect.truthy(h[2].data:find("\x0a\2lr \3", 1, true))
    expect.truthy(h[2].data:find("\x0a\4name \1*\n\n\3\x1a\1n\n\3\x1a\1m", 1, true))
    expect.truthy(h[3].data:find("\x0a\2on\x12\2 \1", 1, true))
    expect.truthy(h[4].data:find("hparams\x12\4\x22\2\8\1", 1, true))
  end)
end)

test("what is written can be read when flush returns", function()
  with_folder(function(folder)
    local writer = SummaryWriter(folder, { max_queue = 3 })
    for i = 1, 2 do writer:add_scalar("a", i, i) end
    expect.equal(#records_of(events_file(folder)), 1)
    writer:add_scalar("a", 3, 3)
    expect.equal(#records_of(events_file(folder)), 4)
    writer:add_scalar("a", 4, 4)
    writer:flush()
    expect.equal(#records_of(events_file(folder)), 5)
    writer:close()
    writer:close()
    expect.equal(writer:get_logdir(), folder)
    expect.error(function() writer:add_scalar("a", 1) end, "it is closed")
    expect.error(function() writer:add_scalars("a", { b = 1 }) end, "it is closed")
  end)
  with_folder(function(folder)
    local writer <close> = SummaryWriter(folder, { flush_secs = 0 })
    writer:add_scalar("a", 1)
    expect.equal(#records_of(events_file(folder)), 2)
  end)
end)

test("a log of train.fit", function()
  with_folder(function(folder)
    local net = ml.nn.Linear(2, 1)
    local set = ml.data.TensorDataset(ml.ones(4, 2), ml.ones(4, 1))
    local writer <close> = SummaryWriter(folder)
    ml.train.fit { model = net, data = ml.data.DataLoader(set), loss = ml.nn.MSELoss(), epochs = 2,
      optimizer = ml.optim.SGD(net:parameters(), 0.1), log = writer, progress = false }
    local got = records_of(events_file(folder))
    expect.equal(#got, 5)
    expect.truthy((got[2].data .. got[3].data):find("loss", 1, true))
  end)
end)

test("wrong arguments", function()
  with_folder(function(folder)
    local writer <close> = SummaryWriter(folder)
    local function wrong(name, arguments, pattern)
      expect.error(function() writer[name](writer, table.unpack(arguments)) end, pattern)
    end
    wrong("add_scalar", { 5, 1 }, "add_scalar: 'tag' must be a string")
    wrong("add_scalar", { "a", ml.ones(2) }, "'scalar_value'")
    wrong("add_scalar", { "a", 1, 1.5 }, "'global_step' must be an integer")
    wrong("add_scalar", { "a", 1, { step = 2 } }, "unknown option 'step'")
    wrong("add_scalars", { "a", { 1, 2 } }, "by name")
    wrong("add_scalars", { "a", { b = "x" } }, "'b' must be a number")
    wrong("add_histogram", { "a", ml.zeros { 0 } }, "has no element")
    wrong("add_histogram", { "a", ml.tensor { 0 / 0 } }, "NaN or an infinity")
    wrong("add_histogram", { "a", ml.ones(1), 1, { bins = "automatic" } }, "'bins'")
    wrong("add_audio", { "a", ml.zeros(2, 4) }, "one channel")
    wrong("add_audio", { "a", ml.tensor { 0 / 0 } }, "NaN")
    wrong("add_pr_curve", { "a", ml.ones(2), ml.ones(3) }, "2 labels for 3 predictions")
    wrong("add_pr_curve", { "a", ml.ones(2), ml.full({ 2 }, 1.5) }, "from 0 to 1")
    wrong("add_pr_curve", { "a", ml.ones(2), ml.ones(2), { weights = ml.ones(3) } }, "3 weights")
    wrong("add_mesh", { "a", ml.ones(3, 3) }, "'vertices' must have the shape")
    wrong("add_mesh", { "a", ml.ones(1, 4, 3), ml.ones(1, 3, 3) }, "'colors' must have the shape")
    wrong("add_mesh", { "a", ml.ones(1, 2, 3), { faces = ml.zeros(1, 1, 3) } }, "from 1 to 2")
    wrong("add_custom_scalars", { { a = 1 } }, "tables of charts")
    wrong("add_custom_scalars", { { a = { b = { "Lines", {} } } } }, "'b' must be")
    wrong("add_custom_scalars", { { a = { b = { "Margin", { "x" } } } } }, "three tags")
    wrong("add_embedding", { ml.ones(3) }, "2 dimensions")
    wrong("add_embedding", { ml.ones(3, 2), { "a" } }, "1 labels, 'mat' 3 points")
    wrong("add_embedding", { ml.ones(1, 2), { "a\tb" } }, "a tab or a line break")
    wrong("add_embedding", { ml.ones(1, 2), { { 1 } }, { metadata_header = { "a", "b" } } },
      "an array of 2 values")
    wrong("add_histogram", { "a", ml.ones(1), 1, { bins = { 1, 0 } } }, "must rise")
    wrong("add_histogram", { "a", ml.ones(1), 1, { bins = { 1 } } }, "two edges")
    wrong("add_image", { "a", ml.ones(2, 2) }, "3 dimensions %(CHW%), got shape %(2, 2%)")
    wrong("add_image", { "a", ml.ones(2, 2, 2) }, "1, 3 or 4 channels, got 2")
    wrong("add_image", { "a", ml.ones(3, 0, 2) }, "the image is empty")
    wrong("add_image", { "a", ml.ones(2, 2), { dataformats = "WH" } }, "CHW, HWC or HW")
    wrong("add_images", { "a", ml.zeros(0, 3, 2, 2) }, "there are no images")
    wrong("add_figure", { "a", 5 }, "a figure of ml.plot")
    wrong("add_text", { "a", "\255" }, "UTF%-8")
    wrong("add_hparams", { { a = print }, {} }, "'a' must be a number")
    wrong("add_hparams", { { a = 1 }, {}, { hparam_domain_discrete = { b = {} } } }, "'b' is none")
  end)
  expect.error(function() SummaryWriter "/dev/null/x" end, "SummaryWriter: cannot make the folder")
  expect.error(function() SummaryWriter { filename_suffix = "/x" } end, "'filename_suffix'")
  expect.error(function() SummaryWriter { max_queue = 0 } end, "'max_queue'")
end)

harness.run()
