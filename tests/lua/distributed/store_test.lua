-- tests/lua/distributed/store_test.lua: the stores: their functions, time limits, secrets, and what
-- strangers send.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ranks = require "distributed_ranks"
local test, expect = harness.test, harness.expect
local ml = require "moonlet"

local function check_functions(store, other)
  store:set("a", "1")
  expect.equal(other:get "a", "1")
  other:set("a", "x\0y")
  expect.equal(store:get "a", "x\0y")
  store:set("empty", "")
  expect.equal(other:get "empty", "")
  expect.equal(store:add("n", 5), 5)
  expect.equal(other:add("n", -7), -2)
  expect.equal(store:get "n", "-2")
  expect.error(function() store:add("a", 1) end, "Store:add: the value to add to is no integer")
  expect.equal(store:compare_set("lock", "", "mine"), "mine")
  expect.equal(other:compare_set("lock", "", "yours"), "mine")
  expect.equal(other:compare_set("lock", "mine", "yours"), "yours")
  expect.equal(other:compare_set("none", "x", "y"), "x")
  expect.equal(store:num_keys(), 4)
  expect.equal(store:delete "lock", true)
  expect.equal(other:delete "lock", false)
  store:wait { { "a", "n" } }
  other.timeout = 0.1
  expect.error(function() other:get "nothing" end, "Store:get: nobody has set 'nothing' within 0.1 s")
  expect.error(function() store:wait({ "a", "b", "c" }, 0.1) end,
    "Store:wait: nobody has set 'b', 'c' within 0.1 s")
end

test("a store by TCP", function()
  ranks.need_engine()
  local store = ml.distributed.TCPStore("127.0.0.1", 0, { is_master = true, secret = "s" })
  check_functions(store, ml.distributed.TCPStore("localhost", store.port, { secret = "s" }))
  local big = ("x"):rep(5000000)
  store:set("big", big)
  expect.equal(ml.distributed.TCPStore("127.0.0.1", store.port, { secret = "s" }):get "big", big)
end)

test("a store in a file, which outlives a process that is ended while it writes", function()
  ranks.need_engine()
  harness.with_temp_file(function(path)
    check_functions(ml.distributed.FileStore(path), ml.distributed.FileStore(path))
    local file <close> = assert(io.open(path, "ab"))
    file:write "\1\5\0\0\0hal"
    file:flush()
    local store = ml.distributed.FileStore(path)
    store:set("half", "there")
    expect.equal(ml.distributed.FileStore(path):get "half", "there")
  end)
  harness.with_temp_file(function(path)
    local file <close> = assert(io.open(path, "w"))
    file:write(("something else\n"):rep(10))
    file:flush()
    expect.error(function() ml.distributed.FileStore(path) end, "is no store of this version")
  end)
  expect.error(function() ml.distributed.FileStore "/no/such/folder/x" end,
    "FileStore: the file '/no/such/folder/x' cannot be opened")
end)

test("who does not know the secret, and addresses that are wrong", function()
  ranks.need_engine()
  local TCPStore = ml.distributed.TCPStore
  local store = TCPStore("127.0.0.1", 0, { is_master = true, secret = "right" })
  expect.error(function() TCPStore("127.0.0.1", store.port, { secret = "wrong" }) end,
    "the secret of this process is not that of the store")
  expect.error(function() TCPStore("127.0.0.1", store.port, { is_master = true }) end, "is in use")
  expect.error(function() TCPStore("no.such.host.invalid", 1, { timeout = 5 }) end,
    "'no.such.host.invalid:1' cannot be resolved")
  expect.error(function() TCPStore("127.0.0.1", ranks.free_port(), { timeout = 0.3 }) end,
    "no store of Moonlet answers")
  expect.error(function() TCPStore("192.0.2.1", 0, { is_master = true }) end,
    "is no address of this machine")
  store:set("still", "here")
  expect.equal(store:get "still", "here")
end)

-- Sends bytes to a port by the shell of bash, which knows TCP.
local function send_to(port, bytes)
  local path = os.tmpname()
  local file = assert(io.open(path, "wb"))
  file:write(bytes)
  file:close()
  os.execute(("timeout 2 bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d; cat \"%s\" >&3; sleep 0.05' "
    .. "2> /dev/null"):format(port, path))
  os.remove(path)
end

test("garbage, port scans and crowds leave a store as it is", function()
  ranks.need_engine()
  local store = ml.distributed.TCPStore("127.0.0.1", 0, { is_master = true })
  store:set("a", "1")
  math.randomseed(7)
  for _, bytes in ipairs { "", "GET / HTTP/1.0\r\n\r\n", ("\0"):rep(1000), ("\255"):rep(100000),
      "MOONLET STORE \r\n" .. ("\1"):rep(36), "MOONLET STORE \r\n" } do
    send_to(store.port, bytes)
    expect.equal(store:get "a", "1")
  end
  for _ = 1, 10 do
    local bytes = {}
    for i = 1, 300 do bytes[i] = string.char(math.random(0, 255)) end
    send_to(store.port, table.concat(bytes))
  end
  os.execute(("bash -c 'for i in $(seq 300); do exec {fd}<>/dev/tcp/127.0.0.1/%d; done; sleep 0.2' "
    .. "2> /dev/null"):format(store.port))
  expect.equal(store:get "a", "1")
  local other = ml.distributed.TCPStore("127.0.0.1", store.port)
  expect.equal(other:get "a", "1")
end)

test("a server that is no store, or of another version", function()
  ranks.need_engine()
  local probe = os.execute "python3 -c 'import socket' 2> /dev/null"
  if not probe then harness.skip "python3, which stands for the other program, is not installed" end
  local function answers_with(bytes, pattern)
    local port = ranks.free_port()
    os.execute(([[python3 -c "
import socket, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('127.0.0.1', %d)); s.listen(); s.settimeout(10)
c, _ = s.accept(); c.sendall(b'%s'); time.sleep(2)" & ]]):format(port, bytes))
    expect.error(function() ml.distributed.TCPStore("127.0.0.1", port, { timeout = 5 }) end, pattern)
  end
  answers_with("220 mail.example.org ESMTP ready and waiting for you", "it is another program")
  answers_with("MOONLET STORE \\r\\n\\x09\\x00\\x00\\x00" .. ("a"):rep(16),
    "is of another version of Moonlet: its protocol is 9")
end)

test("a store that goes away, and one that is stopped by an interrupt", function()
  ranks.need_engine()
  local store = ml.distributed.TCPStore("127.0.0.1", 0, { is_master = true })
  local other = ml.distributed.TCPStore("127.0.0.1", store.port)
  other:set("a", "1")
  store.server:close()
  expect.error(function() other:get "a" end, "is gone")
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write [[
    local ml = require "moonlet"
    local store = ml.distributed.TCPStore("127.0.0.1", 0, { is_master = true })
    os.execute(("(sleep 0.5; kill -INT %d) &"):format(require("moonlet.system").pid()))
    local good, message = pcall(store.get, store, "never")
    print(message)
    store:set("a", "1")  -- the store can be used further
    print(store:get "a")
  ]]
  file:close()
  local pipe <close> = io.popen(("timeout --foreground 60 '%s' '%s' 2>&1"):format(arg[-1], path))
  local text = pipe:read "a"
  os.remove(path)
  expect.truthy(text:find "interrupted!" and text:find "\n1\n", text)
end)

harness.run()
