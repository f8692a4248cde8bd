-- stdlib/distributed/transfers.lua: tensors from one rank to another.

local backends = require "moonlet.distributed.backends"
local class = require "moonlet.class"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local state = require "moonlet.distributed.state"
local work = require "moonlet.distributed.work"
local fail = options.fail

local transfers = {}

local function other_rank(op, name, group, rank)
  local position = state.position_of(op, name, group, rank)
  if position == group.rank then
    fail("%s: '%s' is this rank itself (%d); expected another one", op, name, rank)
  end
  return position
end

-- Both sides must name the same dtype and number of elements.
local function about(x) return ("%s %d"):format(x.dtype, x:numel()) end

-- While several go on together between devices: { { devices, group, calls, backs }, ... }.
local batch

-- What carries a call between this rank and another one of the group, when they have devices: in a
-- batch the devices of all ranks, else those of the two.
local function devices_of(op, group, x, call, root)
  if root < 0 then
    if backends.device_group(op, group, x, call) then
      fail("%s: 'src' must be given for tensors on devices: NCCL does not receive from any rank",
        op)
    end
    return nil
  end
  return backends.device_group(op, group, x, call, not batch and root or nil)
end

-- Starts a call between devices, or adds it to the batch. `root` is the other's position in the
-- group; of two ranks the one with the lower position is 0.
local function between_devices(op, group, devices, call, tag, x, back)
  work.name_transfer(op, call, tag, about(x))
  if not batch then
    call.root = call.root < group.rank and 0 or 1
    return work.between_devices(op, group, devices, { call }, 2, back)
  end
  local together
  for _, each in ipairs(batch) do
    if each.devices == devices then together = each end
  end
  if not together then
    together = { devices = devices, group = group, calls = {}, backs = {} }
    batch[#batch + 1] = together
  end
  together.calls[#together.calls + 1] = call
  together.backs[#together.backs + 1] = back
  return { together = together }
end

local function start_send(op, x, dst, group, tag)
  group = state.group_of(op, group)
  local root = other_rank(op, "dst", group, dst)
  local call = { kind = "send", root = root, count = x:numel() }
  local devices = devices_of(op, group, x, call, root)
  call.input = work.sent(x, devices)
  if devices then return between_devices(op, group, devices, call, tag, x) end
  return work.transfer(op, group, call, tag, about(x))
end

local function start_receive(op, x, src, group, tag)
  group = state.group_of(op, group)
  if src == nil and group.size == 1 then fail("%s: there is no other rank", op) end
  local root = src and other_rank(op, "src", group, src) or -1
  local call = { kind = "receive", root = root, count = x:numel() }
  local devices = devices_of(op, group, x, call, root)
  local there, back = work.received(x, false, devices)
  call.output = there
  local handle
  if devices then
    handle = between_devices(op, group, devices, call, tag, x, back)
    handle.source = root
  else
    handle = work.transfer(op, group, call, tag, about(x))
    handle.finish = back
  end
  return handle
end

-- Starts what a batch has, and gives the handle of each of its calls.
local function start_batch(handles)
  for _, each in ipairs(batch) do
    local backs = each.backs
    each.handle = work.between_devices("batch_isend_irecv", each.group, each.devices, each.calls,
      each.group.size, function() for _, back in ipairs(backs) do back() end end)
  end
  for i, handle in ipairs(handles) do
    if handle.together then handles[i] = handle.together.handle end
  end
  return handles
end

-- What goes on when it is sent is what the other side waits for: an op, so that modes see it.
local started
local op = work.ops {
  send = { "send(Tensor x, int dst, int group, int tag) -> bool", differentiable = false,
    forward = function(x, dst, group, tag)
      started = start_send("send", x, dst, state.groups[group], tag)
      return true
    end },
  recv = { "recv(Tensor! x, int src, int group, int tag) -> Tensor", differentiable = false,
    forward = function(x, src, group, tag)
      started = start_receive("recv", x, src >= 0 and src or nil, state.groups[group], tag)
      return x
    end },
}

local function begin(call, ...)
  work.check_plain(call == op.send and "send" or "recv", nil, ...)
  started = nil
  call(...)
  local handle = started
  started = nil
  return handle
end

local read_isend = signature "isend(Tensor tensor, int>=0 dst, Group? group=nil, int tag=0)"

--- Begins to send a tensor to a rank; it must not be changed before the handle's `wait` returns.
--- > ml.distributed.init_process_group()
--- > (pcall(ml.distributed.isend, ml.ones(2), 0))
---   false
--- > ml.distributed.destroy_process_group()
---@param tensor moonlet.Tensor what is sent
---@param dst integer the rank that it goes to, from 0
---@param group? table the group; all ranks unless given
---@param tag? integer a number that the receive must have, too; between devices it is not looked at
---@return table work
---@shape tensor (*)
function transfers.isend(...)
  local x, dst, group, tag = read_isend(...)
  group = state.group_of("isend", group)
  other_rank("isend", "dst", group, dst)
  return begin(op.send, x, dst, group.number, tag)
end

local read_send = signature "send(Tensor tensor, int>=0 dst, Group? group=nil, int tag=0)"

--- Sends a tensor to a rank, and waits until that receives it.
--- > ml.distributed.init_process_group()
--- > (pcall(ml.distributed.send, ml.ones(2), 0))
---   false
--- > ml.distributed.destroy_process_group()
---@param tensor moonlet.Tensor what is sent
---@param dst integer the rank that it goes to, from 0
---@param group? table the group; all ranks unless given
---@param tag? integer a number that the receive must have, too
---@shape tensor (*)
function transfers.send(...)
  local x, dst, group, tag = read_send(...)
  group = state.group_of("send", group)
  other_rank("send", "dst", group, dst)
  begin(op.send, x, dst, group.number, tag):wait()
end

local read_irecv = signature "irecv(Tensor tensor, int>=0? src=nil, Group? group=nil, int tag=0)"

--- Begins to receive a tensor; it has the elements when the handle's `wait` has returned, and the
--- handle's `source_rank` is the rank that has sent.
--- > ml.distributed.init_process_group()
--- > (pcall(ml.distributed.irecv, ml.ones(2)))
---   false
--- > ml.distributed.destroy_process_group()
---@param tensor moonlet.Tensor gets what is sent, which has its dtype and number of elements
---@param src? integer the rank that it comes from, from 0; any unless given
---@param group? table the group; all ranks unless given
---@param tag? integer a number that the send must have, too
---@return table work
---@shape tensor (*)
function transfers.irecv(...)
  local x, src, group, tag = read_irecv(...)
  group = state.group_of("irecv", group)
  if src then other_rank("irecv", "src", group, src) end
  if group.size == 1 then fail "irecv: there is no other rank" end
  return begin(op.recv, x, src or -1, group.number, tag)
end

local read_recv = signature "recv(Tensor tensor, int>=0? src=nil, Group? group=nil, int tag=0)"

--- Receives a tensor from a rank; gives the rank that has sent.
--- > ml.distributed.init_process_group()
--- > (pcall(ml.distributed.recv, ml.ones(2)))
---   false
--- > ml.distributed.destroy_process_group()
---@param tensor moonlet.Tensor gets what is sent, which has its dtype and number of elements
---@param src? integer the rank that it comes from, from 0; any unless given
---@param group? table the group; all ranks unless given
---@param tag? integer a number that the send must have, too
---@return integer rank
---@shape tensor (*)
function transfers.recv(...)
  local x, src, group, tag = read_recv(...)
  group = state.group_of("recv", group)
  if src then other_rank("recv", "src", group, src) end
  if group.size == 1 then fail "recv: there is no other rank" end
  local handle = begin(op.recv, x, src or -1, group.number, tag)
  handle:wait()
  return handle:source_rank()
end

local read_op = signature('P2POp(function op, Tensor tensor, int>=0 peer, '
  .. 'Group? group=nil, int tag=0)')

--- A send or receive for `ml.distributed.batch_isend_irecv`.
--- > ml.distributed.P2POp(ml.distributed.isend, ml.ones(2), 1).peer
---   1
---@param op function `ml.distributed.isend` or `ml.distributed.irecv`
---@param tensor moonlet.Tensor what is sent, or gets what is received
---@param peer integer the other rank, from 0
---@param group? table the group; all ranks unless given
---@param tag? integer a number that both sides must have
---@shape tensor (*)
---@field peer integer The other rank.
local P2POp = class "P2POp"
transfers.P2POp = P2POp

function P2POp:init(...)
  self.op, self.tensor, self.peer, self.group, self.tag = read_op(...)
  if self.op ~= transfers.isend and self.op ~= transfers.irecv then
    fail "P2POp: 'op' must be ml.distributed.isend or ml.distributed.irecv"
  end
end

local read_batch = signature "batch_isend_irecv(table p2p_op_list)"

--- Begins several sends and receives, in any order on each rank. Between devices they go on
--- together, in which all ranks of the group must take part when it is its first use of them, and
--- have one handle.
--- > #ml.distributed.batch_isend_irecv {}
---   0
---@param p2p_op_list table[] of `ml.distributed.P2POp`
---@return table[] works a handle for each
function transfers.batch_isend_irecv(...)
  local list, out = read_batch(...), {}
  for _, each in ipairs(list) do
    if not class.is_instance(each, P2POp) then
      fail("batch_isend_irecv: 'p2p_op_list' must hold P2POp, got %s", type(each))
    end
  end
  batch = {}
  local good, problem = pcall(function()
    for i, each in ipairs(list) do
      out[i] = each.op(each.tensor, each.peer, { group = each.group, tag = each.tag })
    end
    start_batch(out)
  end)
  batch = nil
  if not good then error(problem, 0) end
  return out
end

return options.namespace("distributed.transfers", transfers)
