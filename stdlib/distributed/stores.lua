-- stdlib/distributed/stores.lua: stores: texts by keys that several processes see.

local class = require "moonlet.class"
local engine = require "moonlet.distributed_engine"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local state = require "moonlet.distributed.state"
local fail = options.fail

local stores = {}

--- What all stores have. Values are strings; keys, too.
--- > store = ml.distributed.FileStore(os.tmpname() .. ".store")  -- needs distributed
--- > store:is_a(ml.distributed.Store)
---   true
---@field timeout number Seconds that `get` and `wait` take at most.
local Store = class "Store"
stores.Store = Store

local read_set = signature "Store:set(string key, string value)"

--- Sets a key.
--- > store = ml.distributed.FileStore(os.tmpname() .. ".store")  -- needs distributed
--- > store:set("key", "value")
--- > store:get "key"
---   value
---@param key string the key
---@param value string its value, of any bytes
function Store:set(...)
  local key, value = read_set(...)
  state.call("Store:set", self.native.set, self.native, self.prefix .. key, value)
end

local read_get = signature "Store:get(string key)"

--- The value of a key, once it is set.
--- > store = ml.distributed.FileStore(os.tmpname() .. ".store")  -- needs distributed
--- > store:set("key", "value")
--- > store:get "key"
---   value
---@param key string the key
---@return string
---@error nobody sets the key in time
function Store:get(...)
  local key = read_get(...)
  local value = state.call("Store:get", self.native.get, self.native, self.prefix .. key,
    self.timeout)
  if value == nil then fail("Store:get: nobody has set '%s' within %g s", key, self.timeout) end
  return value
end

local read_add = signature "Store:add(string key, int amount)"

--- Adds to the number of a key, which is 0 where it is not set; gives the sum.
--- > store = ml.distributed.FileStore(os.tmpname() .. ".store")  -- needs distributed
--- > store:add("count", 2), store:add("count", 3)
---   2	5
---@param key string the key
---@param amount integer what is added
---@return integer
function Store:add(...)
  local key, amount = read_add(...)
  return (state.call("Store:add", self.native.add, self.native, self.prefix .. key, amount))
end

-- Whether all keys are there in that time.
function Store:wait_within(keys, seconds)
  local names = {}
  for i, key in ipairs(keys) do names[i] = self.prefix .. key end
  return (state.call("Store:wait", self.native.wait, self.native, names, seconds))
end

local read_wait = signature "Store:wait(string[] keys, number>=0? timeout=nil)"

--- Waits until all keys are set.
--- > store = ml.distributed.FileStore(os.tmpname() .. ".store")  -- needs distributed
--- > store:set("a", "1")
--- > store:wait { { "a" } }
---@param keys string[] the keys
---@param timeout? number seconds that it takes at most; those of the store unless given
---@error they are not set in time
function Store:wait(...)
  local keys, timeout = read_wait(...)
  if self:wait_within(keys, timeout or self.timeout) then return end
  local missing = {}
  for _, key in ipairs(keys) do
    if not self:wait_within({ key }, 0) then missing[#missing + 1] = key end
  end
  fail("Store:wait: nobody has set '%s' within %g s", table.concat(missing, "', '"),
    timeout or self.timeout)
end

local read_delete = signature "Store:delete(string key)"

--- Takes a key away; whether it was there.
--- > store = ml.distributed.FileStore(os.tmpname() .. ".store")  -- needs distributed
--- > store:set("a", "1")
--- > store:delete "a", store:delete "a"
---   true	false
---@param key string the key
---@return boolean
function Store:delete(...)
  local key = read_delete(...)
  return (state.call("Store:delete", self.native.delete, self.native, self.prefix .. key))
end

local read_compare = signature "Store:compare_set(string key, string expected, string desired)"

--- Sets a key where it has the value that is expected, or is not there and nothing is; gives the
--- value that it has then.
--- > store = ml.distributed.FileStore(os.tmpname() .. ".store")  -- needs distributed
--- > store:compare_set("lock", "", "mine"), store:compare_set("lock", "", "yours")
---   mine	mine
---@param key string the key
---@param expected string the value that it must have; "" where it must not be there
---@param desired string the value that it then has
---@return string
function Store:compare_set(...)
  local key, expected, desired = read_compare(...)
  local value = state.call("Store:compare_set", self.native.compare_set, self.native,
    self.prefix .. key, expected, desired)
  return value or expected
end

--- How many keys there are.
--- > ml.distributed.FileStore(os.tmpname() .. ".store"):num_keys()  -- needs distributed
---   0
---@return integer
function Store:num_keys()
  return (state.call("Store:num_keys", self.native.count, self.native))
end

-- A store of the library over one of the engine.
function stores.over(native, timeout, prefix)
  local store = setmetatable({}, Store)
  store.native, store.timeout, store.prefix = native, timeout, prefix or ""
  return store
end

local function needs_engine(op)
  local reason = engine.unavailable()
  if reason then fail("%s: %s", op, reason) end
end

local read_tcp = signature('TCPStore(string host_name, int>=0<=65535 port, '
  .. 'bool is_master=false, number>0 timeout=30, string secret="")')

--- Store that processes reach by TCP. One of them keeps it. It listens at that address alone, and
--- answers who knows the secret.
--- > store = ml.distributed.TCPStore("127.0.0.1", 0, { is_master = true })  -- needs distributed
--- > ml.distributed.TCPStore("127.0.0.1", store.port):set("a", "1")
--- > store:get "a"
---   1
---@param host_name string an address of the machine that keeps it
---@param port integer its port; 0: a free one, which the field `port` says
---@param is_master? boolean whether this process keeps it, as long as the object lives
---@param timeout? number seconds that `get`, `wait` and the connection take at most
---@param secret? string what all must know
---@field port integer The port.
---@error an address that is wrong or in use, nobody who answers, another secret or version
local TCPStore = class("TCPStore", Store)
stores.TCPStore = TCPStore

function TCPStore:init(...)
  local host, port, keeps, timeout, secret = read_tcp(...)
  needs_engine "TCPStore"
  if keeps then
    self.server = state.call("TCPStore", engine.serve, host, port, secret)
    port = self.server:port()
  end
  self.native = state.call("TCPStore", engine.connect, host, port, secret, timeout)
  self.port, self.timeout, self.prefix = port, timeout, ""
end

local read_file = signature "FileStore(string file_name, number>0 timeout=30)"

--- Store in a file, which is made where it is not there; for processes that can all write it.
--- > store = ml.distributed.FileStore(os.tmpname() .. ".store")  -- needs distributed
--- > store:add("count", 1)
---   1
---@param file_name string the file's path
---@param timeout? number seconds that `get` and `wait` take at most
---@error the file holds something else, or cannot be written
local FileStore = class("FileStore", Store)
stores.FileStore = FileStore

function FileStore:init(...)
  local path, timeout = read_file(...)
  needs_engine "FileStore"
  self.native = state.call("FileStore", engine.open_file, path)
  self.timeout, self.prefix = timeout, ""
end

local function new_secret()
  local file <close> = io.open("/dev/urandom", "rb")
  local bytes = file and file:read(16) or tostring(math.random(0))
  return (bytes:gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

-- Rank 0 writes into the file where its store is, and with which secret. Ranks that come count, so
-- that the file can serve another start of as many.
function stores.meet_in_file(path, rank, size, timeout)
  local file = stores.over(state.call("init_process_group", engine.open_file, path), timeout)
  local start = (file:add("come", 1) - 1) // size
  if rank == 0 then
    local endpoint = { host = "127.0.0.1", secret = new_secret(), keeps = true }
    endpoint.server = state.call("init_process_group", engine.serve, endpoint.host, 0,
      endpoint.secret)
    endpoint.port = endpoint.server:port()
    file:set("store/" .. start, ("%d %s"):format(endpoint.port, endpoint.secret))
    return endpoint
  end
  local text = file.native:get("store/" .. start, timeout)
  if not text then
    fail("init_process_group: rank 0 has not come to the file '%s' within %g s", path, timeout)
  end
  local port, secret = text:match "^(%d+) (%x+)$"
  return { host = "127.0.0.1", port = math.tointeger(tonumber(port)), secret = secret }
end

return options.namespace("distributed.stores", stores)
