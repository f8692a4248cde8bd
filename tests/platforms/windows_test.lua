-- tests/platforms/windows_test.lua: what is Windows' own: names of files, text and bytes, files that
-- are replaced and mapped, commands, and what says that it is not there.

package.path = arg[0]:match "^(.*)[/\\]" .. "/../lua/?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local system = require "moonlet.system"
local test, expect = harness.test, harness.expect

local function bytes_of(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function write(path, text, mode)
  local file <close> = assert(io.open(path, mode or "wb"))
  assert(file:write(text))
end

-- A new folder whose name has spaces and letters beyond ASCII, with backslashes.
local count = 0
local function with_folder(f)
  count = count + 1
  local root = os.tmpname()
  os.remove(root)
  local folder = ("%s %d ä€\\innen"):format(root, count)
  system.make_folder(folder)
  f(folder)
  for _, name in ipairs(system.list(folder)) do assert(os.remove(folder .. "\\" .. name)) end
  assert(os.remove(folder))
  assert(os.remove((folder:gsub("\\innen$", ""))))
end

test("names of files are UTF-8, with spaces, / and \\", function()
  with_folder(function(folder)
    local path, other = folder .. "\\Größe 1.txt", folder .. "/Größe 1.txt"
    write(path, "x")
    expect.equal(bytes_of(other), "x")
    expect.equal(system.list(folder), { "Größe 1.txt" })
    expect.equal(system.exists(path), "file")
    expect.equal(system.exists(folder), "directory")
    expect.equal(system.read_file(other), "x")
    write(folder .. "/modul.lua", "return { at = ... }")
    expect.equal(dofile(folder .. "\\modul.lua"), { })
    local before = package.path
    package.path = folder .. "\\?.lua"
    expect.equal(require("modul").at, "modul")
    package.path = before
    local good, message = io.open(folder .. "\\fehlt.txt")
    expect.falsy(good)
    expect.truthy(message:find("fehlt.txt: No such file", 1, true), message)
  end)
end)

test("folders and names of paths with drives, / and \\", function()
  for path, parts in pairs { ["C:\\a b/c\\d.txt"] = { "C:\\a b/c\\", "d.txt" },
      ["d.txt"] = { "", "d.txt" } } do
    expect.equal({ system.split(path) }, parts)
  end
  local paths = require "moonlet.torch7.paths"
  expect.equal(paths.basename("C:\\a\\b.lua", "lua"), "b")
  expect.equal({ paths.dirname "C:\\a\\b.lua", paths.dirname "C:\\b.lua" }, { "C:/a", "C:/" })
  expect.equal(paths.concat("C:\\a", "..\\b", "c"), "C:/b/c")
  expect.equal(paths.concat("C:\\a", "D:/b"), "D:/b")
  expect.equal({ paths.is_win(), (paths.uname()) }, { true, "Windows" })
  expect.truthy(paths.concat("x"):find "^%a:/.*/x$", paths.concat("x"))
  expect.truthy(paths.dirp(paths.cwd()), paths.cwd())
end)

test("figures and shards are named by the last part of a path", function()
  with_folder(function(folder)
    expect.error(function() ml.plot.line { 1 }:save(folder .. "\\a.b\\c.gif") end, "not as %.gif")
    ml.plot.line { 1, 2 }:save(folder .. "\\figure.svg")
    ml.save(folder .. "\\x.safetensors", { a = ml.ones(300), b = ml.zeros(300) },
      { max_shard_size = 1200 })
    local loaded = ml.load(folder .. "\\x.safetensors.index.json")
    expect.equal({ loaded.a:sum():item(), loaded.b:sum():item() }, { 300, 0 })
  end)
end)

test("a temporary file takes the place of the one that is there", function()
  with_folder(function(folder)
    local path, beside = folder .. "\\ä.txt", folder .. "\\ä.txt.new"
    write(path, "old")
    write(beside, "new")
    expect.truthy(os.rename(beside, path))
    expect.equal(bytes_of(path), "new")
    expect.equal(system.exists(beside), false)
    local good, message, code = os.rename(beside, path)
    expect.falsy(good)
    expect.truthy(message:find "No such file" and code == 2, message)
    system.write_file(path, { "third" })
    expect.equal(bytes_of(path), "third")
    expect.equal(system.list(folder), { "ä.txt" })
  end)
end)

test("text has \\r\\n and bytes are what they are", function()
  with_folder(function(folder)
    local path = folder .. "\\lines.txt"
    write(path, "one\ntwo\n", "w")
    expect.equal(bytes_of(path), "one\r\ntwo\r\n")
    local lines = {}
    for line in io.lines(path) do lines[#lines + 1] = line end
    expect.equal(lines, { "one", "two" })
    write(path, "one\n\x1a\0two\r\n", "wb")
    expect.equal(bytes_of(path), "one\n\x1a\0two\r\n")
    system.write_file(path, { "a,b\r\n1,2\r\n3,4\r\n" })
    expect.equal(system.read_file(path), "a,b\r\n1,2\r\n3,4\r\n")
    local rows, names = ml.data.read_csv(path, { header = true })
    expect.equal({ rows:tolist(), names }, { { { 1, 2 }, { 3, 4 } }, { "a", "b" } })
    write(path, "return 1 +\r\n1\r\n")
    expect.equal(dofile(path), 2)
  end)
end)

test("a file of more than 2 GiB has its positions", function()
  with_folder(function(folder)
    local path = folder .. "\\large.bin"
    do
      local file <close> = assert(io.open(path, "wb"))
      expect.equal(file:seek("set", 3 << 30), 3 << 30)
      file:write "end"
      expect.equal(file:seek "cur", (3 << 30) + 3)
    end
    local file <close> = assert(io.open(path, "rb"))
    expect.equal(file:seek "end", (3 << 30) + 3)
    expect.equal(file:seek("set", 3 << 30), 3 << 30)
    expect.equal(file:read "a", "end")
  end)
end)

test("tensors are saved, loaded and mapped", function()
  with_folder(function(folder)
    local path = folder .. "\\Gewichte.safetensors"
    local x = ml.randn(200, 50)
    ml.save(path, { x = x })
    expect.truthy(ml.load(path).x:eq(x):all():item())
    ml.save(path, { x = x * 2 })
    expect.equal(system.list(folder), { "Gewichte.safetensors" })
    do
      local mapped = ml.load(path, { mmap = true }).x
      expect.truthy(mapped:eq(x * 2):all():item())
      -- Whether it is replaced or not, what is mapped and what is on the disk are whole.
      local good, message = pcall(ml.save, path, { x = x * 3 })
      expect.truthy(good or message:find "Permission denied", message)
      expect.truthy(mapped:eq(x * 2):all():item())
      local factor = good and 3 or 2
      expect.truthy(ml.load(path).x:eq(x * factor):all():item())
      expect.equal(system.list(folder), { "Gewichte.safetensors" })
      mapped:free()
    end
    collectgarbage()
    ml.save(path, { x = x * 4 })
    expect.truthy(ml.load(path).x:eq(x * 4):all():item())
  end)
end)

test("temporary files are in the user's folder for them", function()
  local path = os.tmpname()
  expect.truthy(path:find "^%a:\\", path)
  expect.truthy(os.remove(path))
  local file <close> = assert(io.tmpfile())
  file:write "a\nb"
  file:seek "set"
  expect.equal(file:read "a", "a\nb")
end)

test("commands and variables", function()
  local pipe = assert(io.popen("echo one && echo two", "r"))
  local lines = {}
  for line in pipe:lines() do lines[#lines + 1] = line:match "^(.-)%s*$" end
  expect.equal({ pipe:close() }, { true, "exit", 0 })
  expect.equal(lines, { "one", "two" })
  -- os.execute tells of an error of the system by errno, which Wine leaves where the program was found.
  expect.equal({ io.popen("exit 3"):close() }, { nil, "exit", 3 })
  expect.equal(os.getenv "MOONLET_TEST_ÄÖ", "ü€")
  expect.equal(os.getenv "MOONLET_NOT_THERE", nil)
end)

test("what is not there says so", function()
  local reason = "extensions are compiled and loaded on POSIX systems alone, not on Windows"
  expect.error(function() ml.ext.load { name = "t", sources = "t.cpp" } end, "ext.load: " .. reason)
  expect.error(function() ml.ext.load_inline { name = "t", cpp = "" } end,
    "ext.load_inline: " .. reason)
  expect.error(function() ml.ext.load_library "t.dll" end, "ext.load_library: " .. reason)
  write("module.dll", "no library")
  local before = package.cpath
  package.cpath = ".\\?.dll"
  local message = expect.error(function() require "module" end, "module 'module' not found")
  package.cpath = before
  os.remove "module.dll"
  expect.truthy(message:find("no C module", 1, true), message)
  expect.error(function() ml.ones { 2, device = "cuda" } end, "cuda")
end)

test("workers are threads", function()
  local set = ml.data.TensorDataset(ml.arange(1, 64):reshape { 64, 1 })
  local loader = ml.data.DataLoader(set, { batch_size = 8, num_workers = 2 })
  for _ = 1, 2 do
    local sum = 0
    for batch in loader do sum = sum + batch:sum():item() end
    expect.equal(sum, 64 * 65 // 2)
  end
end)

test("colours, sizes and the terminal are none in a pipe", function()
  expect.falsy(system.isatty(0))
  expect.truthy(system.terminal_size() > 0)
  expect.truthy(system.pid() > 0)
  expect.truthy(system.executable():find "moonlet%.exe$")
end)

harness.run()
