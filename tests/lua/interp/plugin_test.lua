-- tests/lua/interp/plugin_test.lua: a CUDA plugin of another build is refused with a reason that names both
-- builds. Copies of the built plugin are patched; a second process opens them. The libraries that a
-- plugin wants are looked for.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect

local build = os.getenv "MOONLET_BUILD"
local magic = "moonlet plugin\0\0"

local function read(path)
  local file = io.open(path, "rb")
  if not file then harness.skip("there is no " .. path) end
  local bytes = file:read "a"
  file:close()
  return bytes
end

local function write(path, bytes)
  local file = assert(io.open(path, "wb"))
  file:write(bytes)
  file:close()
end

-- What `cuda.unavailable_reason` says with that plugin, and the plugin's path. `environment` is put
-- before the command.
local function reason_with(bytes, environment)
  local path = os.tmpname()
  write(path, bytes)
  -- The emulation is a library that the plugin looks for beside itself.
  local command = (environment or "") ..
    " LD_LIBRARY_PATH=%s/cuda/emulated MOONLET_CUDA_PLUGIN=%s %s/moonlet -e '%s' 2>&1"
  local script = [[local ml = require "moonlet"
    print(ml.cuda.is_available(), ml.cuda.unavailable_reason())]]
  local pipe = assert(io.popen(command:format(build, path, build, script)))
  local text = pipe:read "a"
  pipe:close()
  os.remove(path)
  return text, path
end

-- The plugin with one byte changed, `offset` bytes after the beginning of what it says of itself.
local function patched(bytes, offset)
  local at = bytes:find(magic, 1, true)
  expect.truthy(at, "the plugin says nothing of itself")
  at = at + offset
  return bytes:sub(1, at - 1) .. string.char(bytes:byte(at) ~ 1) .. bytes:sub(at + 1)
end

local function hash_of(bytes)
  return ("%016x"):format((string.unpack("<I8", bytes, bytes:find(magic, 1, true) + #magic + 8)))
end

test("a plugin with other rows", function()
  local bytes = read(build .. "/cuda/moonlet-cuda.so")
  local other = patched(bytes, #magic + 8)
  local text, path = reason_with(other)
  expect.truthy(text:find "^false", text)
  for _, part in ipairs { path, "another Moonlet", hash_of(bytes), hash_of(other) } do
    expect.truthy(text:find(part, 1, true), text)
  end
end)

test("a plugin of another version", function()
  local text = reason_with(patched(read(build .. "/cuda/moonlet-cuda.so"), #magic))
  expect.truthy(text:find "^false", text)
  local versions = {}
  for version in text:gmatch "plugin version (%d+)" do versions[#versions + 1] = version end
  expect.equal(#versions, 2)
  expect.truthy(versions[1] ~= versions[2], text)
end)

test("what is no plugin", function()
  local text = reason_with(patched(read(build .. "/cuda/moonlet-cuda.so"), 0))
  expect.truthy(text:find "is no plugin", text)
  expect.truthy(reason_with("no library"):find "^false")
end)

test("a plugin that wants a library", function()
  local plugin = read(build .. "/tests/plugins/libwants.so")
  local missing = reason_with(plugin)
  expect.truthy(missing:find("wants libwanted.so.1, which is neither where the loader looks nor in", 1,
    true), missing)
  expect.truthy(missing:find("/usr/local/cuda/lib64", 1, true), missing)
  expect.truthy(missing:find("packages/nvidia/", 1, true), missing)
  local home = os.tmpname()
  os.remove(home)
  assert(os.execute(("mkdir -p '%s/lib64'"):format(home)))
  write(home .. "/lib64/libwanted.so.1", read(build .. "/tests/plugins/libwanted.so.1"))
  local found = reason_with(plugin, "CUDA_HOME=" .. home)
  expect.truthy(found:find "is no plugin", found)
  write(home .. "/lib64/libwanted.so.1", "no library")
  local broken = reason_with(plugin, "CUDA_HOME=" .. home)
  expect.truthy(broken:find("wants libwanted.so.1, which cannot be opened: ", 1, true), broken)
  assert(os.execute(("rm -r '%s'"):format(home)))
end)

test("the plugin of this build", function()
  local text = reason_with(read(build .. "/cuda/moonlet-cuda.so"))
  expect.truthy(not text:find "another Moonlet" and not text:find "no plugin", text)
end)

harness.run()
