-- tests/lua/files/readers_test.lua: data sets from files: MNIST, CIFAR, folders of pictures, lines of text
-- and files of token ids, missing and damaged ones too.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local system = require "moonlet.system"
local test, expect = harness.test, harness.expect
local data = ml.data

-- Runs `f` with a folder that holds the files given by their paths.
local function with_folder(files, f)
  local root = os.tmpname()
  os.remove(root)
  assert(os.execute(("mkdir -p '%s'"):format(root)))
  local _ <close> = setmetatable({}, { __close = function()
    os.execute(("rm -rf '%s'"):format(root))
  end })
  for name, content in pairs(files) do
    local folder = name:match "^(.*)/"
    if folder then assert(os.execute(("mkdir -p '%s/%s'"):format(root, folder))) end
    if content then system.write_file(root .. "/" .. name, content) end
  end
  f(root)
end

local function idx(...) return "\0\0\8" .. string.char(...) end

local MNIST = {
  ["t10k-images-idx3-ubyte"] = idx(3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 9, 8, 7, 6),
  ["t10k-labels-idx1-ubyte"] = idx(1, 0, 0, 0, 2, 0, 9),
}

test("MNIST", function()
  with_folder(MNIST, function(root)
    local set = data.MNIST(root, { train = false })
    expect.equal(#set, 2)
    expect.equal(set[2][1]:totable(), { { { 7, 6 } } })
    expect.equal({ set[1][2], set[2][2], set.classes[set[2][2]] }, { 1, 10, "9" })
    for images, classes in data.DataLoader(set, { batch_size = 2 }) do
      expect.equal(images.shape:totable(), { 2, 1, 1, 2 })
      expect.equal(classes:totable(), { 1, 10 })
    end
    local changed = data.MNIST { root, train = false, transform = function(x) return x:float() / 2 end,
      target_transform = function(t) return t * 100 end }
    for images, classes in data.DataLoader(changed, { batch_size = 2 }) do
      expect.equal(images:view(-1):totable(), { 4.5, 4.0, 3.5, 3.0 })
      expect.equal(classes:totable(), { 100, 1000 })
    end
    expect.error(function() data.MNIST(root) end, "MNIST: '.*/MNIST/raw/train%-images%-idx3%-ubyte' "
      .. "is not there. Nothing is downloaded: put train%-images.*, train%-labels.* into ")
  end)
  with_folder({ ["FashionMNIST/raw/t10k-images-idx3-ubyte"] = MNIST["t10k-images-idx3-ubyte"],
    ["FashionMNIST/raw/t10k-labels-idx1-ubyte"] = idx(1, 0, 0, 0, 2, 0, 10) }, function(root)
    expect.error(function() data.FashionMNIST(root, false) end, "a class outside of 0 to 9")
  end)
end)

-- CIFAR's row: classes, then the planes of red, green and blue.
local function row(classes, red, green, blue)
  local plane = 1024
  return classes .. red:rep(plane) .. green:rep(plane) .. blue:rep(plane)
end

test("CIFAR-10 and CIFAR-100", function()
  local names = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n"
  local files = { ["cifar-10-batches-bin/batches.meta.txt"] = names }
  for i = 1, 5 do
    files[("cifar-10-batches-bin/data_batch_%d.bin"):format(i)] = row(string.char(i), "\1", "\2", "\3")
  end
  files["cifar-10-batches-bin/test_batch.bin"] = row("\0", "\5", "\6", "\7") .. row("\9", "\0", "\0", "\0")
  with_folder(files, function(root)
    local set = data.CIFAR10(root)
    expect.equal({ #set, set[5][2], set.classes[set[5][2]] }, { 5, 6, "f" })
    expect.equal(set[1][1].shape:totable(), { 3, 32, 32 })
    expect.equal(set[1][1][{ {}, 32, 1 }]:totable(), { 1, 2, 3 })
    local tested = data.CIFAR10(root .. "/cifar-10-batches-bin", { train = false })
    expect.equal(tested.targets:totable(), { 1, 10 })
    expect.equal(tested[1][1][{ 3, 1, 32 }]:item(), 7)
    system.write_file(root .. "/cifar-10-batches-bin/test_batch.bin", row("\10", "\0", "\0", "\0"))
    expect.error(function() data.CIFAR10(root, false) end, "CIFAR10: a class is above 9")
    system.write_file(root .. "/cifar-10-batches-bin/test_batch.bin", "\1\2\3")
    expect.error(function() data.CIFAR10(root, false) end, "has 3 bytes, a multiple of 3073")
    expect.error(function() data.CIFAR100(root) end, "cifar%-100%-binary.tar.gz")
  end)
  local fine = {}
  for i = 1, 100 do fine[i] = "fine" .. i end
  with_folder({ ["fine_label_names.txt"] = table.concat(fine, "\n"),
    ["coarse_label_names.txt"] = table.concat(fine, "\r\n", 1, 20),
    ["train.bin"] = row("\4\99", "\1", "\2", "\3") }, function(root)
    local set, coarse = data.CIFAR100(root), data.CIFAR100(root, { coarse = true })
    expect.equal({ set[1][2], set.classes[100], coarse[1][2], #coarse.classes }, { 100, "fine100", 5, 20 })
    expect.equal(set[1][1][{ {}, 1, 1 }]:totable(), { 1, 2, 3 })
  end)
end)

test("folders of pictures", function()
  local files = { ["dog/b.png"] = "2", ["dog/a/c.PNG"] = "3", ["cat/x.jpeg"] = "1", ["cat/note.txt"] = "no",
    ["top.png"] = "no" }
  local function loader(path) return ml.tensor(tonumber(system.read_file(path))) end
  with_folder(files, function(root)
    local set = data.ImageFolder(root, { loader = loader, transform = function(x) return x * 10 end })
    expect.equal(set.classes, { "cat", "dog" })
    expect.equal(set.class_to_idx, { cat = 1, dog = 2 })
    expect.equal(set.targets, { 1, 2, 2 })
    expect.equal(set.samples[3], { root .. "/dog/b.png", 2 })
    for x, y in data.DataLoader(set, { batch_size = 3 }) do
      expect.equal({ x:totable(), y:totable() }, { { 10, 30, 20 }, { 1, 2, 2 } })
    end
    local notes = data.ImageFolder { root, extensions = { ".txt" }, allow_empty = true }
    expect.equal({ #notes, #notes.classes }, { 1, 2 })
    local chosen = data.ImageFolder(root, { is_valid_file = function(path) return path:find "[bx]%." end })
    expect.equal(#chosen, 2)
    expect.error(function() data.ImageFolder(root, { extensions = { "txt" } }) end, "dog' has no picture %(txt%)")
    expect.error(function() data.ImageFolder(root .. "/dog/a") end, "holds no folder")
    expect.error(function() data.ImageFolder(root .. "/none") end, "is no folder")
    expect.error(function() return data.ImageFolder(root, { loader = function() end })[1] end,
      "gave nothing for '.*x.jpeg'")
    assert(os.execute(("ln -s .. '%s/dog/up'"):format(root)))
    expect.error(function() data.ImageFolder(root) end, "folders deep; is one a link")
  end)
end)

test("pictures in folders are read", function()
  local has_pictures = pcall(function() return data.write_png end)
  if not has_pictures then harness.skip "this build reads no pictures" end
  with_folder({ ["one/x"] = false }, function(root)
    local image = ml.randint(0, 255, { 3, 4, 5 }, { dtype = ml.uint8 })
    data.write_png(image, root .. "/one/a.png")
    expect.truthy(data.ImageFolder(root)[1][1]:eq(image):all():item())
  end)
end)

test("lines of text", function()
  with_folder({ a = "one\r\n\ntwo\nlast", b = "" , c = "x\n" }, function(root)
    local set = data.TextLines(root .. "/a")
    expect.equal({ #set, set[1][1], set[2][1], set[3][1], set[-1][1] }, { 4, "one", "", "two", "last" })
    expect.equal({ #data.TextLines(root .. "/b"), #data.TextLines(root .. "/c") }, { 0, 1 })
    local sizes = data.TextLines(root .. "/a", { transform = function(line) return #line end })
    expect.equal(sizes[3][1], 3)
    expect.error(function() data.TextLines(root .. "/none") end, "TextLines: '.*/none'")
  end)
end)

test("files of token ids", function()
  with_folder({}, function(root)
    local path = root .. "/tokens.bin"
    data.write_tokens(path, ml.arange(10))
    expect.equal(system.read_file(path):sub(1, 4), "\0\0\1\0")
    local set = data.TokenFile(path, 4)
    expect.equal({ #set, set.count }, { 2, 10 })
    expect.equal(set[2][1]:totable(), { 5, 6, 7, 8 })
    expect.equal(set[2][2]:totable(), { 6, 7, 8, 9 })
    expect.equal(set[1][1].dtype, ml.int64)
    expect.equal(#data.TokenFile(path, { block_size = 4, stride = 1 }), 6)
    local late = data.TokenFile { path, 4, stride = 1, skip = 5 }
    expect.equal({ #late, late[1][1][1]:item() }, { 1, 6 })
    for x, y in data.DataLoader(set, { batch_size = 2 }) do
      expect.equal({ x.shape:totable(), y[{ 2, 4 }]:item() }, { { 2, 4 }, 9 })
    end
    for kind, most in pairs { uint8 = 0xff, int16 = 0x7fff, uint16 = 0xffff, int32 = 0x7fffffff,
      uint32 = 0xffffffff, int64 = 1 << 40 } do
      data.write_tokens(path, { 1, most + 1, most }, kind)
      expect.equal(data.TokenFile(path, 2, kind):tokens(1, 3):totable(), { 1, most + 1, most }, kind)
      if kind ~= "int64" then
        expect.error(function() data.write_tokens(path, { most + 2 }, kind) end,
          "write_tokens: ids from .*: " .. kind .. " holds those from 1 to " .. most + 1)
      end
    end
    expect.error(function() data.write_tokens(path, ml.tensor { 0, 1 }) end, "ids from 0 to 1")
    expect.error(function() data.write_tokens(path, ml.ones(2)) end, "1%-D tensor of integers")
    system.write_file(path, ("<i2i2i2"):pack(5, -1, 2))
    expect.error(function() return data.TokenFile(path, 2, "int16")[1] end, "the number %-1, which is no token")
    expect.equal(data.TokenFile(path, 2):tokens(2, 2):totable(), { 0x10000 })
    expect.error(function() data.TokenFile(path, 3) end, "has 3 tokens; a window of 3 and the next token want 4")
    expect.error(function() data.TokenFile(path, 1, { skip = 9 }) end, "has 0 tokens")
    expect.error(function() data.TokenFile(path, 2):tokens(2, 4) end, "2 to 4 is no range")
    expect.error(function() data.TokenFile(root .. "/none", 2) end, "none' is not there")
    expect.error(function() data.TokenFile(path, 1, "float32") end, "'dtype'")
  end)
end)

harness.run()
