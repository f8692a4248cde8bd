-- stdlib/distributed/work.lua: what a collective is while it goes on: who calls it names it, so
-- that only equal calls of ranks meet, and gets a handle.

local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local overlap = require "moonlet.distributed.overlap"
local signature = require "moonlet.signature"
local state = require "moonlet.distributed.state"
local fail = options.fail

local work = {}

--- A collective that goes on, or has ended: what `async_op = true` returns.
--- > ml.distributed.init_process_group()
--- > handle = ml.distributed.all_reduce(ml.ones(2), { async_op = true })
--- > handle:wait()
---   true
--- > ml.distributed.destroy_process_group()
local Work = class "Work"
work.Work = Work

-- `finish` is run once when the work is done, in the script.
-- `joins` says that the device's stream waits for it instead of the host.
local function new_work(op, native, finish, group, joins)
  if native then overlap.note_work(op, native) end
  return setmetatable({ op = op, native = native, finish = finish, group = group, joins = joins,
    done = native == nil }, Work)
end

-- Ends what is to be done in the script, once.
local function complete(self)
  self.done, self.native = true, nil
  local finish = self.finish
  self.finish = nil
  if finish then
    local _ <close> = ml.no_grad()
    finish()
  end
end

-- Whether it is done in that time; fails as it has failed.
local function wait_for(self, seconds)
  if self.failure then fail("%s", self.failure) end
  if self.native then
    local done, reason
    if self.joins and seconds == math.huge then
      done, reason = self.native:join()
    else
      done, reason = overlap.waiting(self.native.wait, self.native, seconds)
    end
    if done == nil then
      self.failure = ("%s: rank %d: %s"):format(self.op, state.world and state.world.rank or -1,
        reason)
      self.native, self.finish, self.group.broken = nil, nil, reason
      fail("%s", self.failure)
    elseif not done then
      return false
    end
    if self.receives then self.source = self.native:source() end
  end
  complete(self)
  return true
end

local read_wait = signature "Work:wait(number>0? timeout=nil)"

--- Waits until it is done; then tensors hold the results. Other ranks that have ended, or do
--- something else, are errors that name them. What goes on between devices is waited for by the
--- current stream, and by the host where a time is given.
--- > ml.distributed.init_process_group()
--- > ml.distributed.barrier({ async_op = true }):wait()
---   true
--- > ml.distributed.destroy_process_group()
---@param timeout? number seconds that this waits at most, after which it is an error and the work
---   goes on
---@return boolean
function Work:wait(...)
  local timeout = read_wait(...)
  if self.done then return true end
  if not wait_for(self, timeout or math.huge) then
    fail("%s: it is not done after %g s", self.op, timeout)
  end
  return true
end

--- Whether it is done; fails as the work has failed.
--- > ml.distributed.init_process_group()
--- > ml.distributed.barrier({ async_op = true }):is_completed()
---   true
--- > ml.distributed.destroy_process_group()
---@return boolean
function Work:is_completed() return self.done or wait_for(self, 0) end

--- Why it has failed, or nil.
--- > ml.distributed.init_process_group()
--- > ml.distributed.barrier({ async_op = true }):exception()
---   nil
--- > ml.distributed.destroy_process_group()
---@return string?
function Work:exception()
  if not self.done and not self.failure then pcall(wait_for, self, 0) end
  return self.failure
end

--- Of a receive that is done: the rank that has sent.
--- > ml.distributed.init_process_group()
--- > ml.distributed.barrier({ async_op = true }):source_rank()
---   nil
--- > ml.distributed.destroy_process_group()
---@return integer?
function Work:source_rank()
  return self.source and self.group.ranks[self.source + 1]
end

-- --- names of calls -----------------------------------------------------------------------------

-- The sizes of a tensor as text, for fingerprints.
local function text_of(x)
  return ("%s (%s)"):format(x.dtype, table.concat(x.shape, ", "))
end

-- A number of 32 bits for a text, kept since calls repeat.
local hashes, hash_count = {}, 0
local function hash_of(text)
  local known = hashes[text]
  if known then return known end
  local hash = 0x811c9dc5
  for i = 1, #text do hash = ((hash ~ text:byte(i)) * 0x01000193) & 0xffffffff end
  if hash_count > 1000 then hashes, hash_count = {}, 0 end
  hashes[text], hash_count = hash, hash_count + 1
  return hash
end

-- In debug mode the ranks of a group compare their calls by the store before each of them.
local function compare(op, group, text, line)
  local store = state.store
  local key = ("call/%d/%d/"):format(group.number, group.calls)
  store:set(key .. group.rank, text .. "\n" .. line)
  for position = 0, group.size - 1 do
    local native = store.native
    local other = state.call(op, native.get, native, store.prefix .. key .. position,
      group.timeout)
    if not other then
      fail("%s: rank %d: rank %d has called no collective within %g s", op, state.world.rank,
        group.ranks[position + 1], group.timeout)
    end
    local called, where = other:match "^(.*)\n(.*)$"
    if called ~= text then
      local reason = ("rank %d calls %s, rank %d calls %s at %s"):format(state.world.rank, text,
        group.ranks[position + 1], called, where)
      group.native:abort(reason)
      for _, devices in pairs(group.devices or {}) do devices:abort(reason) end
      group.broken = reason
      fail("%s: %s", op, reason)
    end
  end
  local before = ("call/%d/%d/%d"):format(group.number, group.calls - 2, group.rank)
  store:delete(before)
end

--- Tells a function that is compiled that other ranks take part in what comes: its ops up to here
--- run from plans, and this runs in the script at each call.
---@param op string
function work.leave_plan(op) ml._compiled.leave(op, "meets other ranks") end

local vmap_enclosing, forward_tangents = ml._vmap_enclosing, ml._forward_tangents
local is_grad_enabled = ml.is_grad_enabled

local function instead_of(functional)
  return functional and "; ml.distributed.functional." .. functional .. " does" or ""
end

local function warn_of_gradient(op, functional, x)
  if not (ml.is_tensor(x) and x.requires_grad) then return end
  ml._warn_once("distributed " .. op, ("%s: a tensor requires a gradient, and gradients do not "
    .. "see what it does%s; x:detach() and ml.no_grad say that none is wanted"):format(op,
    instead_of(functional)))
end

--- Refuses tensors of transforms in place of which a collective cannot work, and tells once of
--- those whose gradients it does not see.
---@param op string
---@param functional? string the name of `ml.distributed.functional` that can
---@param first any its first argument
---@param second any its second argument; tensors are among these two
function work.check_plain(op, functional, first, second)
  if vmap_enclosing(first, second) then
    fail("%s: it does not change the tensors of vmap, whose samples ranks cannot take one by one%s",
      op, instead_of(functional))
  end
  local _, _, has_tangent = forward_tangents(first, second)
  if has_tangent then
    fail("%s: a tensor has a tangent of forward mode, which it does not send%s", op,
      instead_of(functional))
  end
  if not is_grad_enabled() then return end
  warn_of_gradient(op, functional, first)
  warn_of_gradient(op, functional, second)
end

--- Starts a call of a group of several ranks.
---@param op string the function's name
---@param group table
---@param call table what the engine gets, without its names
---@param about string what ranks must agree on beside the op: dtype, shape, root, reduction
---@param finish? function run in the script when it is done
---@param devices? userdata what carries it between devices
---@return table work
function work.start(op, group, call, about, finish, devices)
  work.leave_plan(op)
  local text = about == "" and op or ("%s of %s"):format(op, about)
  local line = options.script_line() or "?"
  if group.broken then fail("%s: rank %d: %s", op, state.world.rank, group.broken) end
  group.calls = group.calls + 1
  if state.debug then compare(op, group, text, line) end
  -- The part behind a collective that has two steps has the next number.
  call.tag = ((hash_of(text) + group.calls * 0x9e3779b1) & 0xffffffff) & ~1
  call.what = ("%s, call %d of its group, at %s"):format(text, group.calls, line)
  return new_work(op, (devices or group.native):start(call, group.size), finish, group,
    devices ~= nil)
end

--- The same of one rank to another, which both name by a tag.
function work.transfer(op, group, call, tag, about)
  work.leave_plan(op)
  work.name_transfer(op, call, tag, about)
  local out = new_work(op, group.native:start(call, group.size), nil, group)
  out.receives = call.kind == "receive"
  return out
end

--- Names a call of one rank to another.
function work.name_transfer(op, call, tag, about)
  call.tag = hash_of(("%d: %s"):format(tag, about))
  call.what = ("%s of %s at %s"):format(op, about, (options.script_line() or "?"))
end

--- Calls between devices that go on together, named before.
---@param size integer how many ranks the group of devices has
function work.between_devices(op, group, devices, calls, size, finish)
  work.leave_plan(op)
  if group.broken then fail("%s: rank %d: %s", op, state.world.rank, group.broken) end
  return new_work(op, devices:start_all(calls, size), finish, group, true)
end

--- One that needs no other rank.
function work.finished(op) return new_work(op) end

--- Waits unless the caller does that; what the function returns then.
function work.result(handle, async)
  if async then return handle end
  if not handle.done then wait_for(handle, math.huge) end
end

-- --- tensors on their way -----------------------------------------------------------------------

--- The elements as the engine reads them: contiguous, on the host, or where they are.
---@param x moonlet.Tensor
---@param devices? userdata what carries it between devices
function work.sent(x, devices)
  x = x:detach()
  if not devices and x.device ~= "cpu" then x = x:cpu() end
  return x:contiguous()
end

--- Where the engine writes what `x` is to hold, and what brings it there, if it is not there.
---@param x moonlet.Tensor
---@param reads? boolean whether the elements of `x` are read, too
---@param devices? userdata what carries it between devices
function work.received(x, reads, devices)
  local plain = x:detach()
  if (devices or plain.device == "cpu") and plain:is_contiguous() then return plain, nil end
  local there
  if reads then
    there = work.sent(x, devices)
    if rawequal(there, plain) then there = there:clone() end
  else
    there = ml.empty(x.shape, { dtype = x.dtype, device = devices and x.device or "cpu" })
  end
  return there, function() plain:copy_(there) end
end

work.text_of = text_of

--- Ops of ml.ops.distributed, each defined when it is first called.
---@param definitions table<string, table> what `ml.ops.define` gets, by the names of the result
---@return table<string, function>
function work.ops(definitions)
  return setmetatable({}, { __index = function(self, name)
    local given = definitions[name]
    given[1] = "distributed." .. given[1]
    given.opaque, given.replace = true, true
    given.doc = "A collective of ml.distributed, as modes see it."
    self[name] = ml.ops.define(given)
    return self[name]
  end })
end

return work
