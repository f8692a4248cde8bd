-- stdlib/distributed/buckets.lua: what averages the gradients of parameters over the ranks while
-- backward goes on: parameters are grouped in buckets in the order in which backward reaches them,
-- and a bucket is on its way as soon as its last gradient is there.

local class = require "moonlet.class"
local collectives = require "moonlet.distributed.collectives"
local ml = require "moonlet"
local options = require "moonlet.options"
local work = require "moonlet.distributed.work"
local fail = options.fail

local GradBucket = require("moonlet.distributed.grad_bucket").GradBucket
local Buckets = class "Buckets"

-- The first bucket is smaller, so that something is under way early.
local FIRST_BYTES = 1 << 20

-- Lists of parameters, in the reverse of their order.
local function grouped(parameters, most)
  local out, open = {}, {}
  for i = #parameters, 1, -1 do
    local p = parameters[i]
    local key = p.dtype .. " " .. p.device
    local bucket = open[key]
    local bytes = p:numel() * p:element_size()
    local limit = #out <= 1 and math.min(FIRST_BYTES, most) or most
    if bucket == nil or (bucket.bytes > 0 and bucket.bytes + bytes > limit) then
      bucket = { parameters = {}, positions = {}, bytes = 0 }
      out[#out + 1], open[key] = bucket, bucket
    end
    table.insert(bucket.parameters, p)
    table.insert(bucket.positions, i)
    bucket.bytes = bucket.bytes + bytes
  end
  return out
end
Buckets.grouped = grouped

-- The tensors of each list: those that are sent, and their views.
local function allocate(list)
  for i, bucket in ipairs(list) do
    bucket.sent = GradBucket(bucket.parameters, i, i == #list)
    bucket.flat, bucket.views = bucket.sent:buffer(), bucket.sent:gradients()
  end
end

--- `given` has group, bucket_bytes, as_views, names by position, find_unused.
function Buckets:init(parameters, given)
  self.given, self.group, self.count = given, given.group, #parameters
  self.parameters, self.enabled, self.where = parameters, true, {}
  self.list = grouped(parameters, given.bucket_bytes)
  allocate(self.list)
  for b, bucket in ipairs(self.list) do
    for i, position in ipairs(bucket.positions) do self.where[position] = { b, i } end
  end
  self.handles = {}
  local weak = setmetatable({ self }, { __mode = "v" })
  for i, p in ipairs(parameters) do
    self.handles[i] = p:register_post_accumulate_grad_hook(function()
      local buckets = weak[1]
      if buckets and buckets.enabled and buckets.waiting then buckets:mark(i) end
    end)
  end
end

--- Begins to wait for the gradients of a backward; `used` says of which parameters there will be
--- some, all where it is nil.
function Buckets:prepare(used)
  work.leave_plan "DistributedDataParallel"
  self.ready, self.left, self.next, self.waiting, self.used = {}, self.count, 1, true, used
  for _, bucket in ipairs(self.list) do
    bucket.left, bucket.work = #bucket.parameters, nil
  end
  if not used then return end
  local left = false
  for i in ipairs(self.parameters) do left = left or used[i] end
  self.empty = not left
end

-- The parameters without a gradient, as names.
function Buckets:missing()
  local names = {}
  for i = 1, self.count do
    if not self.ready[i] then names[#names + 1] = self.given.names[i] end
  end
  return table.concat(names, ", ")
end

-- Gradients of a parameter are whole; `unused`: it has none.
function Buckets:mark(position, unused)
  work.leave_plan "DistributedDataParallel"
  if self.ready[position] then
    fail("DistributedDataParallel: the gradient of '%s' is there for the second time in one "
      .. "backward; no_sync lets gradients of several backwards add up", self.given.names[position])
  end
  -- The first gradient tells that backward goes on: those that it will not reach are zeros.
  if self.used and next(self.ready) == nil and not unused then
    for i = 1, self.count do
      if not self.used[i] then self:mark(i, true) end
    end
  end
  self.ready[position] = true
  local b, i = self.where[position][1], self.where[position][2]
  local bucket = self.list[b]
  local p, view = self.parameters[position], bucket.views[i]
  do
    local _ <close> = ml.no_grad()
    if unused or p.grad == nil then
      view:zero_()
    elseif not rawequal(p.grad, view) then
      view:copy_(p.grad)
      if self.given.as_views then p.grad = view end
    end
  end
  bucket.left, self.left = bucket.left - 1, self.left - 1
  self:launch()
  if self.left == 0 then self:finish() end
end

-- Buckets go in their order, which is the same on all ranks.
function Buckets:launch()
  while self.list[self.next] and self.list[self.next].left == 0 do
    local bucket = self.list[self.next]
    self.next = self.next + 1
    if self.given.hook then
      bucket.work = self:run_hook(bucket)
    else
      local _ <close> = ml.no_grad()
      bucket.flat:div_(self.group.size)
      bucket.work = collectives.all_reduce(bucket.flat, { group = self.group, async_op = true })
    end
  end
end

-- What the hook of a script returns must be waited for.
function Buckets:run_hook(bucket)
  local handle = self.given.hook(self.given.hook_state, bucket.sent, self.group)
  local known, wait = pcall(function() return handle.wait end)
  if not known or not options.is_callable(wait) then
    fail("DistributedDataParallel: the communication hook must return a handle with a method wait, "
      .. "got %s", type(handle))
  end
  return handle
end

-- Which parameters any rank has used, where some may be unused on all.
function Buckets:used_anywhere()
  if not self.used then return nil end
  local marks = {}
  for i = 1, self.count do marks[i] = self.used[i] and 1 or 0 end
  local all = ml.tensor(marks, { dtype = ml.int32 })
  collectives.all_reduce(all, "max", { group = self.group })
  return all:tolist()
end

function Buckets:finish()
  self.waiting = false
  for _, bucket in ipairs(self.list) do bucket.work:wait() end
  local anywhere = self:used_anywhere()
  local _ <close> = ml.no_grad()
  for _, bucket in ipairs(self.list) do
    for i, p in ipairs(bucket.parameters) do
      local position = bucket.positions[i]
      if anywhere and anywhere[position] == 0 then
        self.ready[position] = true  -- its gradient stays what it was
      elseif self.given.as_views then
        p.grad = bucket.views[i]
      elseif p.grad == nil then
        p.grad = bucket.views[i]:clone()
      else
        p.grad:copy_(bucket.views[i])
      end
    end
    bucket.work = nil
  end
end

--- Sends zeros for all buckets: of a rank that has no more inputs.
function Buckets:shadow()
  self:prepare()
  self.waiting = false
  local _ <close> = ml.no_grad()
  for _, bucket in ipairs(self.list) do
    bucket.flat:zero_()
    bucket.left = 0
  end
  self:launch()
  for _, bucket in ipairs(self.list) do bucket.work:wait() end
  if self.given.find_unused then
    self.used = {}
    self:used_anywhere()
  end
end

return Buckets
