-- stdlib/data/vision.lua: data sets of pictures from files that are there already: MNIST and its
-- likes, CIFAR in its binary version, and folders of pictures. Nothing is downloaded.

local class = require "moonlet.class"
local dataset = require "moonlet.data.dataset"
local io = require "moonlet.io"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local system = require "moonlet.system"
local fail = options.fail

local vision = {}

-- Pictures in memory with their classes, each through a function where there is one.
local Pictures = class("Pictures", dataset.Dataset)

local function hold(self, o, images, targets, classes)
  self.images, self.targets, self.classes = images, targets, classes
  self.transform, self.target_transform = o.transform, o.target_transform
  if o.transform or o.target_transform then return end
  self.get_batch = function(_, positions)
    return images:index_select(1, positions), targets:index_select(1, positions)
  end
end

--- Number of pictures, as `#set`.
---@return integer
function Pictures:size() return #self.images end

--- The picture of example `i`, from 1, and its class, from 1.
---@param i integer position, from 1
---@return Tensor
---@return integer
---@shape -> picture (channels, height, width), class
function Pictures:get(i)
  local image, target = self.images[i], self.targets[i]:item()
  if self.transform then image = self.transform(image) end
  if self.target_transform then target = self.target_transform(target) end
  return image, target
end

-- The first of the folders that holds all of the files, with their paths; an error that says which
-- files belong where, when none does.
local function find_files(where, folders, names, origin)
  local missing
  for _, folder in ipairs(folders) do
    local paths = {}
    for i, name in ipairs(names) do
      local path = folder .. "/" .. name
      paths[i] = system.exists(path) == "file" and path
        or system.exists(path .. ".gz") == "file" and path .. ".gz" or nil
      if not paths[i] then
        missing = missing or path
        break
      end
    end
    if #paths == #names then return paths end
  end
  fail("%s: '%s' is not there. Nothing is downloaded: put %s into '%s' (%s)", where, missing,
    table.concat(names, ", "), folders[1], origin)
end

-- --- MNIST --------------------------------------------------------------------------------------

local DIGITS = { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9" }
local CLOTHES = { "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt",
  "Sneaker", "Bag", "Ankle boot" }

local function load_idx(self, o, name, classes)
  local part = o.train and "train" or "t10k"
  local paths = find_files(name, { ("%s/%s/raw"):format(o.root, name), o.root },
    { part .. "-images-idx3-ubyte", part .. "-labels-idx1-ubyte" }, "or their .gz")
  local images, labels = io.read_idx(paths[1]), io.read_idx(paths[2])
  if images.ndim ~= 3 or labels.ndim ~= 1 or #images ~= #labels or images.dtype ~= ml.uint8 then
    fail("%s: '%s' has shape %s and '%s' %s; (n, height, width) and (n,) are expected", name,
      paths[1], tostring(images.shape), paths[2], tostring(labels.shape))
  end
  local targets = labels:to(ml.int64) + 1
  if #targets > 0 and (targets:amax():item() > #classes or targets:amin():item() < 1) then
    fail("%s: '%s' has a class outside of 0 to %d", name, paths[2], #classes - 1)
  end
  hold(self, o, images:unsqueeze(2), targets, classes)
end

local read_mnist = signature("data.MNIST(string root, bool train=true, function? transform=nil, "
  .. "function? target_transform=nil)")

--- The MNIST handwritten digits, from `root/MNIST/raw` or `root` itself: 60,000 to train and 10,000
--- to test. Example i is a uint8 picture and its class, the digit plus 1; `classes` has the names.
--- An error says which files to put where if they are missing.
--- > ok, set = pcall(ml.data.MNIST, "data", { train = false })  -- varies
---@param root string the folder of the files, which may be gzipped
---@param train? boolean the training examples, or with false the test examples
---@param transform? function function of the picture, such as one of `data.transforms`
---@param target_transform? function function of the class
---@shape -> picture (1, 28, 28), class
---@source LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document
---   recognition", 1998
local MNIST = class("MNIST", Pictures)
vision.MNIST = MNIST

function MNIST:init(...) load_idx(self, read_mnist:table(...), "MNIST", DIGITS) end

local read_fashion = signature("data.FashionMNIST(string root, bool train=true, "
  .. "function? transform=nil, function? target_transform=nil)")

--- The Fashion-MNIST pictures of clothes, from `root/FashionMNIST/raw` or `root` itself: as
--- `data.MNIST`, with classes such as "Trouser".
--- > ok, set = pcall(ml.data.FashionMNIST, "data", { train = false })  -- varies
---@param root string the folder of the files, which may be gzipped
---@param train? boolean the training examples, or with false the test examples
---@param transform? function function of the picture, such as one of `data.transforms`
---@param target_transform? function function of the class
---@shape -> picture (1, 28, 28), class
---@source Xiao, Rasul and Vollgraf, "Fashion-MNIST", 2017
local FashionMNIST = class("FashionMNIST", Pictures)
vision.FashionMNIST = FashionMNIST

function FashionMNIST:init(...)
  load_idx(self, read_fashion:table(...), "FashionMNIST", CLOTHES)
end

-- --- CIFAR --------------------------------------------------------------------------------------

local SIDE = 32
local PIXELS = 3 * SIDE * SIDE

-- The rows of CIFAR's files: `labels` bytes of classes, then the picture's planes.
local function load_rows(where, paths, labels)
  local width, parts = labels + PIXELS, {}
  for i, path in ipairs(paths) do
    local bytes = system.read_file(path, where)
    if #bytes == 0 or #bytes % width ~= 0 then
      fail("%s: '%s' has %d bytes, a multiple of %d is expected", where, path, #bytes, width)
    end
    parts[i] = ml.from_bytes(bytes, ml.uint8, { #bytes // width, width })
  end
  return #parts == 1 and parts[1] or ml.cat(parts)
end

local function load_names(where, path, count)
  local names = {}
  for line in system.read_file(path, where):gmatch "[^\r\n]+" do names[#names + 1] = line end
  if #names ~= count then
    fail("%s: '%s' has %d names, %d are expected", where, path, #names, count)
  end
  return names
end

-- The pictures of rows, with the classes in column `label` from 1.
local function hold_rows(self, o, rows, label, names)
  local targets = rows:select(2, label):to(ml.int64) + 1
  if targets:amax():item() > #names then
    fail("%s: a class is above %d", class.name(class.of(self)), #names - 1)
  end
  local images = rows:narrow(2, rows.shape[2] - PIXELS + 1, PIXELS):contiguous()
  hold(self, o, images:view(#rows, 3, SIDE, SIDE), targets, names)
end

local read_cifar10 = signature("data.CIFAR10(string root, bool train=true, "
  .. "function? transform=nil, function? target_transform=nil)")

--- The CIFAR-10 pictures in the binary version, from `root/cifar-10-batches-bin` or `root` itself:
--- 50,000 to train and 10,000 to test. Example i is a uint8 picture and its class from 1; `classes`
--- has the names.
--- > ok, set = pcall(ml.data.CIFAR10, "data", { train = false })  -- varies
---@param root string the folder of the files
---@param train? boolean the training examples, or with false the test examples
---@param transform? function function of the picture, such as one of `data.transforms`
---@param target_transform? function function of the class
---@shape -> picture (3, 32, 32), class
---@source Krizhevsky, "Learning multiple layers of features from tiny images", 2009
local CIFAR10 = class("CIFAR10", Pictures)
vision.CIFAR10 = CIFAR10

function CIFAR10:init(...)
  local o = read_cifar10:table(...)
  local files = { "batches.meta.txt" }
  for i = 1, o.train and 5 or 0 do files[i + 1] = ("data_batch_%d.bin"):format(i) end
  if not o.train then files[2] = "test_batch.bin" end
  local paths = find_files("CIFAR10", { o.root .. "/cifar-10-batches-bin", o.root }, files,
    "they are in cifar-10-binary.tar.gz")
  local names = load_names("CIFAR10", table.remove(paths, 1), 10)
  hold_rows(self, o, load_rows("CIFAR10", paths, 1), 1, names)
end

local read_cifar100 = signature("data.CIFAR100(string root, bool train=true, "
  .. "function? transform=nil, function? target_transform=nil, bool coarse=false)")

--- The CIFAR-100 pictures in the binary version, from `root/cifar-100-binary` or `root` itself.
--- Example i is a uint8 picture and its class from 1; `classes` has the names.
--- > ok, set = pcall(ml.data.CIFAR100, "data", { train = false })  -- varies
---@param root string the folder of the files
---@param train? boolean the training examples, or with false the test examples
---@param transform? function function of the picture, such as one of `data.transforms`
---@param target_transform? function function of the class
---@param coarse? boolean whether the classes are the 20 groups rather than the 100
---@shape -> picture (3, 32, 32), class
---@source Krizhevsky, "Learning multiple layers of features from tiny images", 2009
local CIFAR100 = class("CIFAR100", Pictures)
vision.CIFAR100 = CIFAR100

function CIFAR100:init(...)
  local o = read_cifar100:table(...)
  local list = o.coarse and "coarse_label_names.txt" or "fine_label_names.txt"
  local paths = find_files("CIFAR100", { o.root .. "/cifar-100-binary", o.root },
    { list, o.train and "train.bin" or "test.bin" }, "they are in cifar-100-binary.tar.gz")
  local names = load_names("CIFAR100", paths[1], o.coarse and 20 or 100)
  hold_rows(self, o, load_rows("CIFAR100", { paths[2] }, 2), o.coarse and 1 or 2, names)
end

-- --- folders ------------------------------------------------------------------------------------

local EXTENSIONS = { "png", "jpg", "jpeg", "bmp", "gif", "webp" }
local MOST_DEPTH = 32

-- Of 8 bits, as all pictures of a batch are to be.
local function read_picture(path)
  local image = require("moonlet.data").read_image(path, "rgb")
  return image.dtype == "uint8" and image or image:div(256, { rounding_mode = "floor" }):to "uint8"
end

local function sorted_names(folder)
  local names = system.list(folder)
  table.sort(names, function(a, b) return a < b end)
  return names
end

-- Adds the files of a folder and of those in it that `is_valid` takes.
local function add_files(folder, position, is_valid, samples, depth)
  if depth > MOST_DEPTH then
    fail("ImageFolder: '%s' is more than %d folders deep; is one a link to another above it?",
      folder, MOST_DEPTH)
  end
  for _, name in ipairs(sorted_names(folder)) do
    local path = folder .. "/" .. name
    if name:sub(-1) == "/" then
      add_files(path:sub(1, -2), position, is_valid, samples, depth + 1)
    elseif is_valid(path) then
      samples[#samples + 1] = { path, position }
    end
  end
end

local function with_extension(extensions)
  local known = {}
  for _, extension in ipairs(extensions) do known[extension:lower():gsub("^%.", "")] = true end
  return function(path) return known[(path:match "%.([^./]*)$" or ""):lower()] end
end

local read_folder = signature("data.ImageFolder(string root, function? transform=nil, "
  .. "function? target_transform=nil, function? loader=nil, string[]? extensions=nil, "
  .. "function? is_valid_file=nil, bool allow_empty=false)")

--- Pictures in a folder for each class: `root/cat/1.png`, `root/dog/a/2.png`. Classes are the
--- folders in the order of their names, from 1: `classes` is the array of them, `class_to_idx` the
--- classes by name, `samples` the array of `{ path, class }` and `targets` that of the classes.
--- > ok, set = pcall(ml.data.ImageFolder, "pictures")  -- varies
---@param root string the folder
---@param transform? function function of the picture, such as one of `data.transforms`
---@param target_transform? function function of the class
---@param loader? function reads a path; unless given `data.read_image(path, "rgb")`, of 16 bits
---   the upper 8
---@param extensions? string[] endings of files that count; png, jpg, jpeg, bmp, gif and webp
---   unless given
---@param is_valid_file? function function of the path that says whether it counts, in place of
---   `extensions`
---@param allow_empty? boolean whether a class may have no pictures
---@shape -> picture (3, height, width), class
local ImageFolder = class("ImageFolder", dataset.Dataset)
vision.ImageFolder = ImageFolder

local function find_classes(self, root)
  if system.exists(root) ~= "directory" then
    fail("ImageFolder: '%s' is no folder; it is to hold a folder of pictures for each class", root)
  end
  self.classes, self.class_to_idx = {}, {}
  for _, name in ipairs(sorted_names(root)) do
    if name:sub(-1) == "/" then
      self.classes[#self.classes + 1] = name:sub(1, -2)
      self.class_to_idx[name:sub(1, -2)] = #self.classes
    end
  end
  if #self.classes == 0 then
    fail("ImageFolder: '%s' holds no folder; each class is one", root)
  end
end

function ImageFolder:init(...)
  local o = read_folder:table(...)
  if o.extensions and o.is_valid_file then
    fail "ImageFolder: 'extensions' and 'is_valid_file' exclude each other"
  end
  self.root, self.transform, self.target_transform = o.root, o.transform, o.target_transform
  self.loader = o.loader or read_picture
  find_classes(self, o.root)
  local is_valid = o.is_valid_file or with_extension(o.extensions or EXTENSIONS)
  self.samples, self.targets = {}, {}
  for position, name in ipairs(self.classes) do
    local before = #self.samples
    add_files(o.root .. "/" .. name, position, is_valid, self.samples, 1)
    if #self.samples == before and not o.allow_empty then
      fail("ImageFolder: '%s/%s' has no picture (%s)", o.root, name,
        table.concat(o.extensions or EXTENSIONS, ", "))
    end
  end
  for i, sample in ipairs(self.samples) do self.targets[i] = sample[2] end
end

function ImageFolder:size() return #self.samples end

function ImageFolder:get(i)
  local path, target = table.unpack(self.samples[i])
  local image = self.loader(path)
  if image == nil then fail("ImageFolder: the loader gave nothing for '%s'", path) end
  if self.transform then image = self.transform(image) end
  if self.target_transform then target = self.target_transform(target) end
  return image, target
end

return vision
