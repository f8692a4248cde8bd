-- stdlib/distributed/pipelining/link.lua: what neighbouring stages of a pipeline send each other:
-- results forward, gradients back, and before both what they are.

local ml = require "moonlet"
local objects = require "moonlet.distributed.objects"
local options = require "moonlet.options"
local transfers = require "moonlet.distributed.transfers"
local fail = options.fail

local link = {}

-- Tags of transfers: those of a microbatch follow one another. Scripts have the numbers below.
local FIRST_TAG, MOST_TENSORS = 1 << 20, 64

local function tag_of(microbatch, i, back)
  return FIRST_TAG + 2 * (microbatch * MOST_TENSORS + i) + (back and 1 or 0)
end

--- What tensors are: the shape, dtype and whether they want a gradient.
---@param where string what messages call the stage
---@param tensors moonlet.Tensor[]
---@return table[]
function link.describe(where, tensors)
  if #tensors >= MOST_TENSORS then
    fail("%s: a stage gives at most %d tensors, got %d", where, MOST_TENSORS - 1, #tensors)
  end
  local out = {}
  for i, x in ipairs(tensors) do
    out[i] = { shape = x.shape:totable(), dtype = tostring(x.dtype),
      wants_gradient = x.requires_grad and ml.is_grad_enabled() }
  end
  return out
end

local function text_of(each)
  return ("%s (%s)%s"):format(each.dtype, table.concat(each.shape, ", "),
    each.wants_gradient and ", with a gradient" or "")
end

--- All microbatches must give the same.
---@param where string what messages call the stage
---@param first table[] what the first one has given
---@param now table[]
function link.compare(where, first, now)
  for i = 1, math.max(#first, #now) do
    local a = first[i] and text_of(first[i]) or "nothing"
    local b = now[i] and text_of(now[i]) or "nothing"
    if a ~= b then
      fail("%s: result %d is %s, that of the first microbatch was %s; all must be alike", where, i,
        b, a)
    end
  end
end

--- Says what is to come to the next stage.
---@param header table
---@param to integer the rank
---@param group table
function link.send_header(header, to, group)
  objects.send_object_list({ header }, to, { group = group })
end

--- What the stage before has said.
---@param from integer the rank
---@param group table
---@return table
function link.receive_header(from, group)
  local list = {}
  objects.recv_object_list(list, from, { group = group })
  return list[1]
end

--- Begins to send the tensors of a microbatch; `pending` keeps what is under way.
---@param tensors moonlet.Tensor[] by position; false for what is not sent
---@param microbatch integer
---@param back boolean whether they are gradients
---@param to integer the rank
---@param group table
---@param pending table
function link.send(tensors, microbatch, back, to, group, pending)
  for i = #pending, 1, -1 do
    if pending[i]:is_completed() then table.remove(pending, i) end
  end
  for i, x in ipairs(tensors) do
    if x then
      pending[#pending + 1] = transfers.isend(x:detach(), to, { group = group,
        tag = tag_of(microbatch, i, back) })
    end
  end
end

--- Begins to receive the tensors of a microbatch: all of them, or those that want a gradient.
---@param about table[] what they are
---@param microbatch integer
---@param back boolean whether they are gradients
---@param from integer the rank
---@param group table
---@param device? string where they go
---@return table pending for `finish`
function link.receive(about, microbatch, back, from, group, device)
  local out = { tensors = {}, works = {} }
  for i, each in ipairs(about) do
    out.tensors[i] = false
    if not back or each.wants_gradient then
      local x = ml.empty(each.shape, { dtype = each.dtype, device = device })
      out.tensors[i] = x
      table.insert(out.works, transfers.irecv(x, from, { group = group,
        tag = tag_of(microbatch, i, back) }))
    end
  end
  return out
end

--- Waits for what `receive` has begun.
---@param pending table
---@return table tensors by position; false for what was not sent
function link.finish(pending)
  for _, work in ipairs(pending.works) do work:wait() end
  return pending.tensors
end

return link
