-- stdlib/cuda/prefetch.lua: batches that are on their way to a device while it computes.

local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"

local prefetch = {}

local function is_plain(value) return type(value) == "table" and getmetatable(value) == nil end

-- The value with all tensors in it on that device, copied without waiting; objects with a method
-- `to` answer themselves.
local function moved(value, device)
  if ml.is_tensor(value) then
    return value:to(device, { non_blocking = true })
  elseif is_plain(value) then
    local out = {}
    for key, item in pairs(value) do out[key] = moved(item, device) end
    return out
  elseif type(value) == "table" and type(value.to) == "function" then
    return value:to(device)
  end
  return value
end

-- The stream uses all tensors in the value.
local function record(value, stream)
  if ml.is_tensor(value) then
    if value.is_cuda then value:record_stream(stream) end
  elseif is_plain(value) then
    for _, item in pairs(value) do record(item, stream) end
  end
end

local read = signature("cuda.prefetch(any loader, int|string? device=nil, int>=1 depth=1)",
  "prefetch")

--- The batches of a `DataLoader`, or of anything that `for` can go through by `iter()` or a call,
--- on a device: while the script works on one, those after it are copied in a stream of their own.
--- The loader's `pin_memory = true` lets the copies run beside the device's work. A batch is ready
--- for the stream that is current when it comes.
--- > loader = ml.data.DataLoader(ml.data.TensorDataset(ml.ones(4, 2)), 2)
--- > for x in ml.cuda.prefetch(loader) do print(x.device) end  -- needs cuda
---   cuda:0
---   cuda:0
---@param loader any the loader
---@param device? integer|string device, such as 0 or "cuda:0"; the current one unless given
---@param depth? integer how many batches are copied ahead
---@return fun(): ... to be used by `for`
function prefetch.prefetch(...)
  local loader, device, depth = read(...)
  local index = ml._cuda._index(device, "prefetch")
  local name, side = "cuda:" .. index, ml.cuda.Stream(index)
  local step, state, control, closing
  if type(loader) == "table" and type(loader.iter) == "function" then
    step, state, control, closing = loader:iter()
  else
    if not options.is_callable(loader) then
      options.fail("prefetch: a loader or a function is expected, got %s",
        signature.describe(loader))
    end
    step = loader
  end
  local waiting, ended = {}, false
  local function fetch()
    local batch = table.pack(step(state, control))
    control = batch[1]
    if control == nil then ended = true return end
    local ready = ml.cuda.stream(side, function()
      for i = 1, batch.n do batch[i] = moved(batch[i], name) end
      return side:record_event()
    end)
    waiting[#waiting + 1] = { values = batch, ready = ready }
  end
  local function next_batch()
    while not ended and #waiting <= depth do fetch() end
    local head = table.remove(waiting, 1)
    if not head then return nil end
    local stream = ml.cuda.current_stream(index)
    stream:wait_event(head.ready)
    for i = 1, head.values.n do record(head.values[i], stream) end
    return table.unpack(head.values, 1, head.values.n)
  end
  return next_batch, nil, nil, closing
end

return prefetch
