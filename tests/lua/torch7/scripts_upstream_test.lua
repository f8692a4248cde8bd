-- tests/lua/torch7/scripts_upstream_test.lua: demos and tutorials of Torch7's as they are, where MOONLET_TORCH7 names
-- a folder with them (demos, tutorials, dcgan.torch, unsup). What they show or fetch is left out, and they stop when
-- they have learned something.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
package.path = (arg[0]:match("^(.*)/") or ".") .. "/?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local torch = require "torch"
local upstream = require "upstream"
local test, expect = harness.test, harness.expect

-- Packages that are libraries in C, as far as these scripts use them, and `run`, which runs a script of a folder.
local PACKAGES = [=[
local lena = torch.rand(3, 64, 64)
image = { lena = function() return lena end, save = function() end }
function image.rgb2yuv(x)
  local y = (x[1] * 0.299):add(0.587, x[2]):add(0.114, x[3])
  return torch.cat({ y, (x[3] - y) * 0.493, (x[1] - y) * 0.877 }, 1):view(3, x:size(2), x:size(3))
end
function image.gaussian1D(size)
  local x = torch.linspace(-1, 1, size):mul(2)
  return x:cmul(x):mul(-0.5):exp()
end
function image.toDisplayTensor(options) return options.input end
package.preload.image = function() return image end
package.preload.nnx = function() return {} end
package.preload.libunsup = function()
  unsup = {}
  for _, name in ipairs { "Float", "Double" } do
    torch[name .. "Tensor"].shrinkage = function(x, lambda)
      return x:cmul(torch.gt(torch.abs(x), lambda):typeAs(x)):add(-lambda, torch.sign(x))
    end
  end
  return {}
end
package.preload.csvigo = function()
  csvigo = { load = function(path)
    local columns, names = {}, {}
    for line in io.lines(path) do
      local first, at = #names == 0, 0
      for word in line:gsub('"', ""):gmatch "[^,]+" do
        at = at + 1
        if first then
          names[at], columns[word] = word, {}
        else
          table.insert(columns[names[at]], tonumber(word) or word)
        end
      end
    end
    return columns
  end }
  return csvigo
end

function run(name, arguments)
  local folder, file = (UPSTREAM .. "/" .. name):match "^(.*)/([^/]*)$"
  local plain = dofile
  function dofile(path) return plain(path:find "/" and path or folder .. "/" .. path) end
  local lines = io.lines
  function io.lines(path, ...) return lines(path:find "/" and path or folder .. "/" .. path, ...) end
  package.path = folder .. "/?.lua;" .. package.path
  arg = arguments or {}
  dofile(file)
end

local STOP = {}
function stop() error(STOP, 0) end
function until_stopped(f, ...)
  local ok, problem = xpcall(f, function(e) return e == STOP and e or debug.traceback(e) end, ...)
  if not ok and problem ~= STOP then error(problem, 0) end
  print "done"
end
]=]

-- What a script prints, which succeeds.
local function output(name, script, options)
  upstream.path(name)
  local text, ok = upstream.run(PACKAGES .. script, options)
  expect.truthy(ok, text:sub(-4000))
  return text
end

test("demo: linear regression", function()
  local text = output("demos/linear-regression/example-linear-regression.lua",
    [[run "demos/linear-regression/example-linear-regression.lua"]])
  local rows = 0
  for ours, book in text:gmatch "\n *%d+ +([%d.]+) +([%d.]+)" do
    rows = rows + 1
    expect.near(tonumber(ours), tonumber(book), 1.5)
  end
  expect.equal(rows, 10, text:sub(-2000))
end)

test("demo: logistic regression", function()
  local text = output("demos/logistic-regression/example-logistic-regression.lua",
    [[run "demos/logistic-regression/example-logistic-regression.lua"]])
  local rows, same = 0, 0
  for book, ours in text:gmatch "| [%d-] ([%d]) ([%d])\n" do
    rows, same = rows + 1, same + (book == ours and 1 or 0)
  end
  expect.truthy(rows >= 20 and same >= 0.85 * rows, text:sub(-3000))
end)

-- A table of images of 32 x 32 and their classes from 1, as a file of text.
local function digits(images, labels)
  local wide = ml.zeros({ #images, 1, 32, 32 }, { dtype = ml.uint8 })
  wide[{ {}, 1, { 3, 30 }, { 3, 30 } }] = images
  return torch.serialize({ data = torch.from(wide), labels = torch.from(labels:to(ml.uint8)) }, "ascii")
end

test("demo: train-on-mnist", function()
  upstream.path "demos/train-a-digit-classifier/train-on-mnist.lua"
  local folder = harness.data_dir() .. "/mnist"
  local images = ml.data.read_idx(folder .. "/t10k-images-idx3-ubyte.gz")
  local labels = ml.data.read_idx(folder .. "/t10k-labels-idx1-ubyte.gz"):to(ml.int64):add(1)
  local text = output("demos/train-a-digit-classifier/train-on-mnist.lua", [[
    require "optim"
    local add, best = optim.Logger.add, 0
    function optim.Logger:add(values)
      local share = values["% mean class accuracy (test set)"]
      if share then print("share on the test set: " .. share) best = math.max(best, share) end
      epochs = (epochs or 0) + (share and 1 or 0)
      if best > 95 or epochs == 4 then stop() end
      return add(self, values)
    end
    xlua.progress = function() end
    until_stopped(run, "demos/train-a-digit-classifier/train-on-mnist.lua", { "--full", "-t", "1" })
  ]], { files = {
    ["mnist.t7/train_32x32.t7"] = digits(images[{ { 1, 8000 } }], labels[{ { 1, 8000 } }]),
    ["mnist.t7/test_32x32.t7"] = digits(images[{ { 8001, 10000 } }], labels[{ { 8001, 10000 } }]),
  } })
  local best = 0
  for share in text:gmatch "share on the test set: ([%d.]+)" do best = math.max(best, tonumber(share)) end
  expect.truthy(best > 95, text:sub(-2000))
end)

test("tutorial 2: supervised learning", function()
  -- House numbers that are easily told apart: the class says where the image is bright.
  local text = output("tutorials/2_supervised/doall.lua", [[
    local function numbers(count)
      local X, y = torch.rand(count, 3, 32, 32):mul(100), torch.Tensor(1, count)
      for i = 1, count do
        local class = (i - 1) % 10 + 1
        y[1][i] = class
        X[i]:narrow(3, 3 * class - 2, 4):add(120)
      end
      return { X = X:byte(), y = y }
    end
    local load = torch.load
    function torch.load(path, ...)
      if path:find "_32x32" then return numbers(path:find "train" and 400 or 100) end
      return load(path, ...)
    end
    paths.filep = function() return true end
    local create = os.execute
    function os.execute(command) return command:find "wget" and 0 or create(command) end
    -- The sizes that the first script sets.
    local read = loadfile
    function dofile_of(path)
      local text = io.open(path):read "*a":gsub("trsize = 10000", "trsize = 400"):gsub("tesize = 2000", "tesize = 100")
      return assert(loadstring(text, "@" .. path))()
    end
    dofile = dofile_of
    require "optim"
    local add, epochs = optim.Logger.add, 0
    function optim.Logger:add(values)
      local share = values["% mean class accuracy (test set)"]
      if share then
        print("share on the test set: " .. share)
        epochs = epochs + 1
        if share > 90 or epochs == 5 then stop() end
      end
      return add(self, values)
    end
    xlua.progress = function() end
    until_stopped(run, "tutorials/2_supervised/doall.lua", { "-size", "small", "-type", "float", "-learningRate", "0.01",
      "-threads", "1" })
  ]])
  local best = 0
  for share in text:gmatch "share on the test set: ([%d.]+)" do best = math.max(best, tonumber(share)) end
  expect.truthy(best > 90, text:sub(-2000))
end)

for _, model in ipairs { "linear", "linear-psd", "conv", "conv-psd" } do
  test("tutorial 3: unsupervised learning, " .. model, function()
    upstream.path "unsup/init.lua"
    local text = output("tutorials/3_unsupervised/doall.lua", ([[
      torch.manualSeed(1)
      local waves = torch.Tensor(20, 56, 56)
      for i = 1, 20 do
        local x = torch.range(1, 56):mul(0.1 + 0.02 * i):sin():view(1, 56)
        waves[i]:copy(x:t() * x):add(0.1, torch.randn(56, 56))
      end
      torch.save("tr.ascii", waves, "ascii")
      xlua.progress = function() end
      run("tutorials/3_unsupervised/doall.lua", { "-model", "%s", "-datafile", "./tr.ascii", "-inputsize", "15",
        "-kernelsize", "5", "-statinterval", "100", "-maxiter", "300", "-display", "-nfiltersout", "8", "-eta", "%s" })
    ]]):format(model, model:find "psd" and "2e-3" or "1e-3"), { flags = "--bytecode" })
    local losses = {}
    for loss in text:gmatch "average loss = ([%d.e+-]+)" do losses[#losses + 1] = tonumber(loss) end
    expect.truthy(#losses == 3 and losses[3] < losses[1], text:sub(-3000))
  end)
end

test("tutorial 5: a module of one's own", function()
  local text = output("tutorials/5_newmodules/0_test_dropout.lua", [[run "tutorials/5_newmodules/0_test_dropout.lua"]])
  expect.truthy(text:find "module OK", text:sub(-2000))
  text = output("tutorials/5_newmodules/1_dropout.lua", [[run "tutorials/5_newmodules/1_dropout.lua"]])
  expect.near(tonumber(text:match "processed image: ([%d.]+)"), (3 * 64 * 64 / 3) ^ 0.5, 5)
end)

test("dcgan: 100 iterations of generator and discriminator", function()
  local text = output("dcgan.torch/main.lua", [[
    require "nn"
    local options = { batchSize = 4, ngf = 8, ndf = 8, nz = 10, gpu = 0, display = 0, niter = 1, ntrain = 400 }
    local getenv = os.getenv
    function os.getenv(name) return options[name] ~= nil and tostring(options[name]) or getenv(name) end
    local loader = { size = function() return 400 end }
    function loader:getBatch()
      return torch.FloatTensor(options.batchSize, 3, 64, 64):uniform(-1, 1)
    end
    paths.dofile = function() return { new = function() return loader end } end
    run "dcgan.torch/main.lua"
    local G = torch.load "checkpoints/experiment1_1_net_G.t7"
    print("made", table.concat(G:forward(torch.randn(2, 10, 1, 1)):size():totable(), "x"))
  ]])
  local count, last = 0, nil
  for g, d in text:gmatch "Err_G: ([%d.]+)%s+Err_D: ([%d.]+)" do
    count, last = count + 1, tonumber(d)
    expect.truthy(tonumber(g) < 50)
  end
  expect.equal(count, 100, text:sub(-2000))
  expect.truthy(last < 1.4, text:sub(-2000))
  expect.truthy(text:find "made\t2x3x64x64", text:sub(-2000))
end)

harness.run()
