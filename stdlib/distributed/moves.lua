-- stdlib/distributed/moves.lua: what each collective asks of the engine. Every function starts one
-- for a group and returns its handle; with one rank it is done at once.

local backends = require "moonlet.distributed.backends"
local ml = require "moonlet"
local state = require "moonlet.distributed.state"
local work = require "moonlet.distributed.work"

local moves = {}

local text_of, start = work.text_of, work.start

-- "avg" is a sum, divided when it is there.
local function reduction_of(name) return name == "avg" and "sum" or name end

local function in_order(first, second)
  if not first or not second then return first or second end
  return function()
    first()
    second()
  end
end

-- What makes a mean of a sum.
local function divided(reduction, there, group)
  return reduction == "avg" and function() there:div_(group.size) end or nil
end

function moves.all_reduce(group, x, reduction)
  if group.size == 1 then return work.finished "all_reduce" end
  local call = { kind = "all_reduce", reduction = reduction_of(reduction), count = x:numel(),
    ordered = state.deterministic }
  local devices = backends.device_group("all_reduce", group, x, call)
  local there, back = work.received(x, true, devices)
  call.input, call.output = there, there
  return start("all_reduce", group, call, ("%s %s"):format(text_of(x), reduction),
    in_order(divided(reduction, there, group), back), devices)
end

function moves.broadcast(group, x, src)
  if group.size == 1 then return work.finished "broadcast" end
  local call = { kind = "broadcast", root = src, count = x:numel() }
  local devices = backends.device_group("broadcast", group, x, call)
  local there, back = work.received(x, true, devices)
  call.output = there
  return start("broadcast", group, call, ("%s from %d"):format(text_of(x), src),
    group.rank ~= src and back or nil, devices)
end

function moves.reduce(group, x, dst, reduction)
  if group.size == 1 then return work.finished "reduce" end
  local about = ("%s %s to %d"):format(text_of(x), reduction, dst)
  local call = { kind = "reduce", root = dst, reduction = reduction_of(reduction),
    count = x:numel() }
  local devices = backends.device_group("reduce", group, x, call)
  if group.rank ~= dst then
    call.input = work.sent(x, devices)
    return start("reduce", group, call, about, nil, devices)
  end
  local there, back = work.received(x, true, devices)
  call.input, call.output = there, there
  return start("reduce", group, call, about, in_order(divided(reduction, there, group), back),
    devices)
end

local function copy_all(output, x)
  output:detach():reshape(-1):copy_(x:detach():reshape(-1))
end

-- Copies in the script, where there is no other rank.
local function copied(op, output, x)
  local _ <close> = ml.no_grad()
  if output:is_contiguous() then
    copy_all(output, x)
  else
    output:detach():copy_(x:detach():reshape(output.shape))
  end
  return work.finished(op)
end

-- What carries a call with a result apart from x: the host where both are not on one device.
local function devices_of(op, group, output, x, call)
  return output.device == x.device and backends.device_group(op, group, x, call) or nil
end

function moves.all_gather(group, output, x)
  if group.size == 1 then return copied("all_gather_into_tensor", output, x) end
  local call = { kind = "all_gather", count = x:numel() }
  local devices = devices_of("all_gather_into_tensor", group, output, x, call)
  local there, back = work.received(output, false, devices)
  call.input, call.output = work.sent(x, devices), there
  return start("all_gather_into_tensor", group, call, text_of(x), back, devices)
end

function moves.reduce_scatter(group, output, x, reduction, counts)
  if group.size == 1 then return copied("reduce_scatter_tensor", output, x) end
  local call = { kind = "reduce_scatter", sent = counts, reduction = reduction_of(reduction),
    count = output:numel() }
  local devices = devices_of("reduce_scatter_tensor", group, output, x, call)
  local there, back = work.received(output, false, devices)
  call.input, call.output = work.sent(x, devices), there
  return start("reduce_scatter_tensor", group, call,
    ("%s, %s, %s"):format(x.dtype, table.concat(counts, " "), reduction),
    in_order(divided(reduction, there, group), back), devices)
end

function moves.exchange(group, output, x, received, sent, name)
  if group.size == 1 then return copied(name, output, x) end
  local same = name == "all_gather"
  local call = { kind = "exchange", sent = sent, received = received, same_to_all = same,
    count = same and x:numel() or 0 }
  local devices = devices_of(name, group, output, x, call)
  local there, back = work.received(output, false, devices)
  call.input, call.output = work.sent(x, devices), there
  -- Sizes differ by rank: only the dtype is common.
  return start(name, group, call, tostring(x.dtype), back, devices)
end

function moves.barrier(group)
  if group.size == 1 then return work.finished "barrier" end
  return start("barrier", group, { kind = "barrier" }, "")
end

return moves
