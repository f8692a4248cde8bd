-- stdlib/cuda/comm.lua: ml.cuda.comm: communication between devices: broadcast, scatter, gather and
-- sums. What is differentiable is recorded as the ops that it is made of.

local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local core = ml._cuda
local fail = options.fail

local comm = {}

-- "cuda:1" for a device as scripts give it; those of the list `given`, or all there are.
local function name_of(where, device) return "cuda:" .. core._index(device, where) end

local function names_of(where, given)
  local out = {}
  for i, device in ipairs(given or {}) do
    if type(device) ~= "string" and math.type(device) ~= "integer" then
      fail("%s: 'devices' must be numbers or names of devices, got %s", where,
        signature.describe(device))
    end
    out[i] = name_of(where, device)
  end
  for i = 1, given and 0 or core.device_count() do out[i] = "cuda:" .. i - 1 end
  if #out == 0 then fail("%s: at least one device is expected", where) end
  return out
end

-- Where a result goes: -1 and "cpu" are the host, nil the current device.
local function destination_of(where, given)
  if given == -1 or given == "cpu" then return "cpu" end
  return name_of(where, given)
end

local function check_on_device(where, i, t)
  if not t.is_cuda then
    fail("%s: tensor %d is on %s, not on a CUDA device", where, i, t.device)
  end
end

local function check_one(where, devices, out)
  if (devices == nil) == (out == nil) then
    fail("%s: exactly one of 'devices' and 'out' is expected", where)
  end
end

local read_broadcast = signature(
  "cuda.comm.broadcast(Tensor tensor, table? devices=nil, Tensor[]? out=nil)", "comm.broadcast")

--- Copies a tensor to several devices; where it is already, it is itself. Or copies it into the
--- tensors of `out`, which are returned.
--- > ml.cuda.comm.broadcast(ml.ones(2), { 0 })[1].device  -- needs cuda
---   cuda:0
---@param tensor moonlet.Tensor a tensor on a CUDA device or the CPU
---@param devices? (integer|string)[] the devices; this or `out`
---@param out? moonlet.Tensor[] the tensors to copy into
---@return moonlet.Tensor[]
---@shape tensor (*) -> (*) for each device
function comm.broadcast(...)
  local tensor, devices, out = read_broadcast(...)
  check_one("comm.broadcast", devices, out)
  if out then
    for i, copy in ipairs(out) do
      if tostring(copy.shape) ~= tostring(tensor.shape) or not copy.is_cuda then
        fail("comm.broadcast: 'out' holds a tensor of shape %s on %s at %d, a CUDA tensor of shape "
          .. "%s is expected", tostring(copy.shape), copy.device, i, tostring(tensor.shape))
      end
      copy:copy_(tensor)
    end
    return out
  end
  local copies = {}
  for i, name in ipairs(names_of("comm.broadcast", devices)) do copies[i] = tensor:to(name) end
  return copies
end

-- Groups of positions of `tensors` whose bytes fit `most` together, each of one dtype.
local function groups_of(tensors, most)
  local groups, open = {}, {}
  for i, t in ipairs(tensors) do
    local group = open[t.dtype]
    if not group or group.bytes + t.nbytes > most then
      group = { bytes = 0 }
      open[t.dtype] = group
      groups[#groups + 1] = group
    end
    group[#group + 1] = i
    group.bytes = group.bytes + t.nbytes
  end
  return groups
end

-- Calls `move(joined)` with the tensors at those positions as one vector, and puts the parts of
-- what it gives into `out`.
local function through_one(tensors, group, out, move)
  local parts, sizes = {}, {}
  for i, at in ipairs(group) do
    parts[i] = tensors[at]:reshape(-1)
    sizes[i] = parts[i]:numel()
  end
  local moved = move(ml.cat(parts)):split(sizes)
  for i, at in ipairs(group) do out[at] = moved[i]:reshape(tensors[at].shape:totable()) end
end

local read_coalesced = signature("cuda.comm.broadcast_coalesced(Tensor[] tensors, table devices, "
  .. "int>=1 buffer_size=10485760)", "comm.broadcast_coalesced")

--- Copies several tensors to several devices, small ones sent together. The first device is that of
--- the tensors, which are its copies.
--- > x = ml.ones(2, { device = "cuda:0" })  -- needs cuda
--- > #ml.cuda.comm.broadcast_coalesced({ x }, { 0 })
---   1
---@param tensors moonlet.Tensor[] the tensors, on the first device
---@param devices (integer|string)[] the devices
---@param buffer_size? integer the most bytes that are sent together
---@return moonlet.Tensor[][] copies a list of tensors for each device
---@shape each tensor (*) -> (*) for each device
function comm.broadcast_coalesced(...)
  local tensors, devices, size = read_coalesced(...)
  local names = names_of("comm.broadcast_coalesced", devices)
  for i, t in ipairs(tensors) do
    if t.device ~= names[1] then
      fail("comm.broadcast_coalesced: tensor %d is on %s, and the first device is %s", i, t.device,
        names[1])
    end
  end
  local copies = { table.move(tensors, 1, #tensors, 1, {}) }
  for k = 2, #names do
    copies[k] = {}
    for _, group in ipairs(groups_of(tensors, size)) do
      through_one(tensors, group, copies[k], function(joined) return joined:to(names[k]) end)
    end
  end
  return copies
end

-- The sum of tensors of one shape, on the device of one of them.
local function sum_at(where, inputs, destination)
  local root
  for i, t in ipairs(inputs) do
    check_on_device(where, i, t)
    if tostring(t.shape) ~= tostring(inputs[1].shape) then
      fail("%s: tensor %d has shape %s, the first one %s", where, i, tostring(t.shape),
        tostring(inputs[1].shape))
    end
    if t.device == destination then root = root or i end
  end
  if not root then fail("%s: none of the tensors is on the destination %s", where, destination) end
  local sum = inputs[root]
  for i, t in ipairs(inputs) do
    if i ~= root then sum = sum + t:to(destination) end
  end
  return sum
end

local read_reduce = signature("cuda.comm.reduce_add(Tensor[] inputs, int|string? destination=nil)",
  "comm.reduce_add")

--- The sum of tensors of one shape on several devices.
--- > x = ml.ones(2, { device = "cuda:0" })  -- needs cuda
--- > ml.cuda.comm.reduce_add({ x }):tolist()
---   {1.0, 1.0}
---@param inputs moonlet.Tensor[] the tensors
---@param destination? integer|string the device of the sum, where one of them is; the current
---   one unless given
---@return moonlet.Tensor
---@shape each input (*) -> (*)
---@formula y = sum_i x_i
function comm.reduce_add(...)
  local inputs, destination = read_reduce(...)
  if #inputs == 0 then fail "comm.reduce_add: at least one tensor is expected" end
  return sum_at("comm.reduce_add", inputs, name_of("comm.reduce_add", destination))
end

local read_reduce_coalesced = signature("cuda.comm.reduce_add_coalesced(table inputs, "
  .. "int|string? destination=nil, int>=1 buffer_size=10485760)", "comm.reduce_add_coalesced")

--- The sums of the first tensors of all devices, of the second ones and so on; small ones are sent
--- together.
--- > x = ml.ones(2, { device = "cuda:0" })  -- needs cuda
--- > ml.cuda.comm.reduce_add_coalesced({ { x } })[1]:tolist()
---   {1.0, 1.0}
---@param inputs moonlet.Tensor[][] an array of tensors for each device
---@param destination? integer|string the device of the sums, one of these; the current one
---   unless given
---@param buffer_size? integer the most bytes that are sent together
---@return moonlet.Tensor[]
---@shape each input (*) -> (*)
---@formula y_j = sum_i x_ij
function comm.reduce_add_coalesced(...)
  local inputs, given, size = read_reduce_coalesced(...)
  local where, out = "comm.reduce_add_coalesced", {}
  local destination = name_of(where, given)
  for k, list in ipairs(inputs) do
    if type(list) ~= "table" or getmetatable(list) or #list ~= #inputs[1] then
      fail("%s: 'inputs' must be lists of as many tensors for each device, the one at %d is not",
        where, k)
    end
  end
  for _, group in ipairs(groups_of(inputs[1] or {}, size)) do
    local joined = {}
    for k, list in ipairs(inputs) do
      local parts = {}
      for i, at in ipairs(group) do
        if tostring(list[at].shape) ~= tostring(inputs[1][at].shape) then
          fail("%s: tensor %d of device %d has shape %s, that of the first device %s", where, at, k,
            tostring(list[at].shape), tostring(inputs[1][at].shape))
        end
        parts[i] = list[at]:reshape(-1)
      end
      joined[k] = ml.cat(parts)
    end
    through_one(inputs[1], group, out, function() return sum_at(where, joined, destination) end)
  end
  return out
end

local function check_streams(streams, count)
  for i = 1, streams and count or 0 do
    local s = streams[i]
    if s ~= nil and getmetatable(s) ~= ml.cuda.Stream then
      fail("comm.scatter: 'streams' must hold streams of ml.cuda, got %s at %d",
        signature.describe(s), i)
    end
  end
end

local read_scatter = signature("cuda.comm.scatter(Tensor tensor, table? devices=nil, "
  .. "int[]? chunk_sizes=nil, int dim=1, table? streams=nil, Tensor[]? out=nil)", "comm.scatter")

--- Splits a tensor along a dimension into parts for several devices. Or copies the parts into the
--- tensors of `out`, by their sizes.
--- > ml.cuda.comm.scatter(ml.ones(4), { 0 })[1].shape  -- needs cuda
---   (4,)
---@param tensor moonlet.Tensor a tensor on a CUDA device or the CPU
---@param devices? (integer|string)[] the devices; all unless given
---@param chunk_sizes? integer[] the sizes of the parts; unless given as equal as `ml.chunk`
---   makes them, which may be fewer than devices
---@param dim? integer the dimension, counted from 1
---@param streams? moonlet.cuda.Stream[] for each device the stream to copy in
---@param out? moonlet.Tensor[] the tensors to copy into, in place of `devices` and `chunk_sizes`
---@return moonlet.Tensor[]
---@shape tensor (n, *) -> (n_i, *) for each device
function comm.scatter(...)
  local tensor, devices, sizes, dim, streams, out = read_scatter(...)
  if out then
    if devices or sizes then fail "comm.scatter: 'out' excludes 'devices' and 'chunk_sizes'" end
    sizes = {}
    for i, part in ipairs(out) do sizes[i] = part:size(dim) end
    for i, part in ipairs(tensor:split(sizes, dim)) do out[i]:copy_(part) end
    return out
  end
  local names = names_of("comm.scatter", devices)
  if sizes and #sizes ~= #names then
    fail("comm.scatter: %d 'chunk_sizes' for %d devices", #sizes, #names)
  end
  check_streams(streams, #names)
  local parts = sizes and tensor:split(sizes, dim) or tensor:chunk(#names, dim)
  for i, part in ipairs(parts) do
    parts[i] = ml.cuda.stream(streams and streams[i], part.to, part, names[i],
      { non_blocking = true })
  end
  return parts
end

local read_gather = signature("cuda.comm.gather(Tensor[] tensors, int dim=1, "
  .. "int|string? destination=nil, Tensor? out=nil)", "comm.gather")

--- Joins tensors of several devices along a dimension.
--- > x = ml.ones(2, { device = "cuda:0" })  -- needs cuda
--- > ml.cuda.comm.gather({ x, x }, 1, "cpu").shape
---   (4,)
---@param tensors moonlet.Tensor[] the tensors
---@param dim? integer the dimension, counted from 1
---@param destination? integer|string the device of the result, -1 or "cpu" for the CPU; the
---   current one unless given
---@param out? moonlet.Tensor the tensor to copy into, in place of `destination`
---@return moonlet.Tensor
---@shape each tensor (n_i, *) -> (sum of n_i, *)
function comm.gather(...)
  local tensors, dim, given, out = read_gather(...)
  if out and given ~= nil then fail "comm.gather: 'out' excludes 'destination'" end
  if #tensors == 0 then fail "comm.gather: at least one tensor is expected" end
  local destination = out and out.device or destination_of("comm.gather", given)
  local parts = {}
  for i, t in ipairs(tensors) do
    check_on_device("comm.gather", i, t)
    parts[i] = t:to(destination)
  end
  local joined = ml.cat(parts, dim)
  return out and out:copy_(joined) or joined
end

return options.namespace("cuda.comm", comm)
