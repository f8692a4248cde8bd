-- stdlib/distributed/grad_bucket.lua: GradBucket: the gradients that DistributedDataParallel sends
-- together, as communication hooks get them.

local class = require "moonlet.class"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local grad_bucket = {}

-- What each bucket is made of: `flat`, `views`, `parameters` (those of buckets.lua), `index`,
-- `is_last`.
local parts = setmetatable({}, { __mode = "k" })

--- Gradients that are sent together, which `DistributedDataParallel` gives to a communication hook.
--- Its buffer is one flat tensor, of which the gradients are views.
--- > ml.distributed.init_process_group()
--- > tostring(ml.distributed.GradBucket({ ml.zeros(2), ml.zeros(3) })):match "%d+ elements"
---   5 elements
--- > ml.distributed.destroy_process_group()
---@param parameters moonlet.Tensor[] the parameters whose gradients it holds, of one dtype
---@param index? integer its number among the buckets of a module, from 1
---@param is_last? boolean whether it is the last one
---@shape parameters (*)
local GradBucket = class "GradBucket"
grad_bucket.GradBucket = GradBucket

local read = signature("distributed.GradBucket(Tensor[] parameters, int>=1 index=1, "
  .. "bool is_last=true)")

function GradBucket:init(...)
  local parameters, index, is_last = read(...)
  if #parameters == 0 then fail "GradBucket: 'parameters' has no parameter" end
  local first, total = parameters[1], 0
  for i, p in ipairs(parameters) do
    if p.dtype ~= first.dtype or p.device ~= first.device then
      fail("GradBucket: parameters must have one dtype and device, got %s on %s and, as number %d, "
        .. "%s on %s", first.dtype, first.device, i, p.dtype, p.device)
    end
    total = total + p:numel()
  end
  local part = { parameters = parameters, index = index, is_last = is_last, views = {} }
  part.flat = first:detach():new_zeros { total }
  local at = 1
  for i, p in ipairs(parameters) do
    part.views[i] = part.flat:narrow(1, at, p:numel()):view(p.shape)
    at = at + p:numel()
  end
  parts[self] = part
end

--- The flat tensor that is sent. When the `wait` of what a hook returns has ended, it must hold the
--- result.
--- > ml.distributed.init_process_group()
--- > ml.distributed.GradBucket({ ml.zeros(2), ml.zeros(3) }):buffer().shape
---   (5,)
--- > ml.distributed.destroy_process_group()
---@return moonlet.Tensor
---@shape -> (n)
function GradBucket:buffer() return parts[self].flat end

local read_set = signature "GradBucket:set_buffer(Tensor buffer)"

--- Copies a tensor into the buffer.
--- > ml.distributed.init_process_group()
--- > bucket = ml.distributed.GradBucket { ml.zeros(2) }
--- > bucket:set_buffer(ml.ones(2))
--- > bucket:gradients()[1]
---   {1., 1.}
---   Tensor (2,) float32
--- > ml.distributed.destroy_process_group()
---@param buffer moonlet.Tensor of as many elements
---@shape buffer (n)
function GradBucket:set_buffer(...)
  local buffer, flat = read_set(...), parts[self].flat
  if buffer:numel() ~= flat:numel() then
    fail("GradBucket: set_buffer: 'buffer' must have %d elements, got %d", flat:numel(),
      buffer:numel())
  end
  flat:copy_(buffer:detach():reshape(-1))
end

--- The gradients in it, views of the buffer in the shapes of the parameters.
--- > ml.distributed.init_process_group()
--- > #ml.distributed.GradBucket({ ml.zeros(2), ml.zeros(3) }):gradients()
---   2
--- > ml.distributed.destroy_process_group()
---@return moonlet.Tensor[]
---@shape -> (*)
function GradBucket:gradients()
  local views = parts[self].views
  return table.move(views, 1, #views, 1, {})
end

--- The parameters whose gradients it holds, in the same order.
--- > ml.distributed.init_process_group()
--- > #ml.distributed.GradBucket({ ml.zeros(2), ml.zeros(3) }):parameters()
---   2
--- > ml.distributed.destroy_process_group()
---@return moonlet.Tensor[]
---@shape -> (*)
function GradBucket:parameters()
  local list = parts[self].parameters
  return table.move(list, 1, #list, 1, {})
end

--- Its number among the buckets of the module, from 1: they are sent in this order.
--- > ml.distributed.init_process_group()
--- > ml.distributed.GradBucket({ ml.zeros(2) }):index()
---   1
--- > ml.distributed.destroy_process_group()
---@return integer
function GradBucket:index() return parts[self].index end

--- Whether it is the last one of a backward.
--- > ml.distributed.init_process_group()
--- > ml.distributed.GradBucket({ ml.zeros(2) }):is_last()
---   true
--- > ml.distributed.destroy_process_group()
---@return boolean
function GradBucket:is_last() return parts[self].is_last end

function GradBucket:__tostring()
  local part = parts[self]
  return ("GradBucket %d: %d gradients, %d elements"):format(part.index, #part.views,
    part.flat:numel())
end

return options.namespace("distributed.grad_bucket", grad_bucket)
