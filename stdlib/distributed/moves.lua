-- stdlib/distributed/moves.lua: what each collective asks of the engine. Every function starts one
-- for a group and returns its handle; with one rank it is done at once.

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

function moves.all_reduce(group, x, reduction)
  if group.size == 1 then return work.finished "all_reduce" end
  local there, back = work.received(x, true)
  local divide
  if reduction == "avg" then divide = function() there:div_(group.size) end end
  return start("all_reduce", group, { kind = "all_reduce", reduction = reduction_of(reduction),
    count = there:numel(), input = there, output = there, ordered = state.deterministic },
    ("%s %s"):format(text_of(x), reduction), in_order(divide, back))
end

function moves.broadcast(group, x, src)
  if group.size == 1 then return work.finished "broadcast" end
  local there, back = work.received(x, true)
  return start("broadcast", group, { kind = "broadcast", root = src, count = there:numel(),
    output = there }, ("%s from %d"):format(text_of(x), src), group.rank ~= src and back or nil)
end

function moves.reduce(group, x, dst, reduction)
  if group.size == 1 then return work.finished "reduce" end
  local about = ("%s %s to %d"):format(text_of(x), reduction, dst)
  local call = { kind = "reduce", root = dst, reduction = reduction_of(reduction),
    count = x:numel() }
  if group.rank ~= dst then
    call.input = work.sent(x)
    return start("reduce", group, call, about)
  end
  local there, back = work.received(x, true)
  call.input, call.output = there, there
  local divide
  if reduction == "avg" then divide = function() there:div_(group.size) end end
  return start("reduce", group, call, about, in_order(divide, back))
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

function moves.all_gather(group, output, x)
  if group.size == 1 then return copied("all_gather_into_tensor", output, x) end
  local there, back = work.received(output)
  return start("all_gather_into_tensor", group, { kind = "all_gather", count = x:numel(),
    input = work.sent(x), output = there }, text_of(x), back)
end

function moves.reduce_scatter(group, output, x, reduction, counts)
  if group.size == 1 then return copied("reduce_scatter_tensor", output, x) end
  local there, back = work.received(output)
  local divide
  if reduction == "avg" then divide = function() there:div_(group.size) end end
  return start("reduce_scatter_tensor", group, { kind = "reduce_scatter", sent = counts,
    reduction = reduction_of(reduction), count = there:numel(), input = work.sent(x),
    output = there },
    ("%s, %s, %s"):format(x.dtype, table.concat(counts, " "), reduction), in_order(divide, back))
end

function moves.exchange(group, output, x, received, sent, name)
  if group.size == 1 then return copied(name, output, x) end
  local there, back = work.received(output)
  local same = name == "all_gather"
  -- Sizes differ by rank: only the dtype is common.
  return start(name, group, { kind = "exchange", sent = sent, received = received,
    same_to_all = same, count = same and x:numel() or 0, input = work.sent(x), output = there },
    tostring(x.dtype), back)
end

function moves.barrier(group)
  if group.size == 1 then return work.finished "barrier" end
  return start("barrier", group, { kind = "barrier" }, "")
end

return moves
