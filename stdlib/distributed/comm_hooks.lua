-- stdlib/distributed/comm_hooks.lua: how DistributedDataParallel may send gradients.

local collectives = require "moonlet.distributed.collectives"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"

local comm_hooks = {}

--- Averages a bucket over the ranks, as `DistributedDataParallel` does without a hook.
--- > ml.distributed.init_process_group()
--- > net = ml.nn.parallel.DistributedDataParallel(ml.nn.Linear(1, 1))
--- > net:register_comm_hook(nil, ml.distributed.comm_hooks.allreduce_hook)
--- > net(ml.ones(1, 1)):sum():backward()
--- > net.module.bias.grad
---   {1.}
---   Tensor (1,) float32
--- > ml.distributed.destroy_process_group()
---@param _ any the state of the hook, which it has not
---@param bucket table a `GradBucket` of gradients, which are changed
---@param group table the group
---@return table work
function comm_hooks.allreduce_hook(_, bucket, group)
  local _ <close> = ml.no_grad()
  local buffer = bucket:buffer()
  buffer:div_(group.size)
  return collectives.all_reduce(buffer, { group = group, async_op = true })
end

-- A handle that also does `f` when the other one's wait has ended.
local function followed(handle, f)
  local done = false
  return { wait = function()
    if done then return true end
    handle:wait()
    done = true
    local _ <close> = ml.no_grad()
    f()
    return true
  end }
end

-- Sends a bucket in another dtype.
local function compressed(dtype)
  return function(_, bucket, group)
    local _ <close> = ml.no_grad()
    local buffer = bucket:buffer()
    local narrow = (buffer / group.size):to(dtype)
    local handle = collectives.all_reduce(narrow, { group = group, async_op = true })
    return followed(handle, function() buffer:copy_(narrow) end)
  end
end

local to_half, to_bfloat16 = compressed(ml.float16), compressed(ml.bfloat16)

--- Sends gradients as float16, half the bytes of float32.
--- > ml.distributed.init_process_group()
--- > net = ml.nn.parallel.DistributedDataParallel(ml.nn.Linear(1, 1))
--- > net:register_comm_hook(nil, ml.distributed.comm_hooks.fp16_compress_hook)
--- > net(ml.ones(1, 1)):sum():backward()
--- > net.module.bias.grad
---   {1.}
---   Tensor (1,) float32
--- > ml.distributed.destroy_process_group()
---@param state any the state of the hook, which it has not
---@param bucket table a `GradBucket` of gradients, which are changed
---@param group table the group
---@return table work
function comm_hooks.fp16_compress_hook(state, bucket, group)
  return to_half(state, bucket, group)
end

--- Sends gradients as bfloat16, half the bytes of float32.
--- > ml.distributed.init_process_group()
--- > net = ml.nn.parallel.DistributedDataParallel(ml.nn.Linear(1, 1))
--- > net:register_comm_hook(nil, ml.distributed.comm_hooks.bf16_compress_hook)
--- > net(ml.ones(1, 1)):sum():backward()
--- > net.module.bias.grad
---   {1.}
---   Tensor (1,) float32
--- > ml.distributed.destroy_process_group()
---@param state any the state of the hook, which it has not
---@param bucket table a `GradBucket` of gradients, which are changed
---@param group table the group
---@return table work
function comm_hooks.bf16_compress_hook(state, bucket, group)
  return to_bfloat16(state, bucket, group)
end

-- What a hook sees whose bucket has another dtype: the methods of a GradBucket over other tensors.
local function narrowed(bucket, dtype)
  local flat, views, at = bucket:buffer():to(dtype), {}, 1
  for i, g in ipairs(bucket:gradients()) do
    views[i] = flat:narrow(1, at, g:numel()):view(g.shape)
    at = at + g:numel()
  end
  return setmetatable({
    buffer = function() return flat end,
    gradients = function() return table.move(views, 1, #views, 1, {}) end,
    set_buffer = function(_, buffer) flat:copy_(buffer) end,
  }, { __index = function(_, name)
    return function() return bucket[name](bucket) end
  end })
end

local function wrapped(hook, dtype)
  return function(state, bucket, group)
    local _ <close> = ml.no_grad()
    local narrow = narrowed(bucket, dtype)
    return followed(hook(state, narrow, group), function() bucket:set_buffer(narrow:buffer()) end)
  end
end

local read_fp16 = signature "distributed.comm_hooks.fp16_compress_wrapper(function hook)"

--- A hook that hands its gradients to another one as float16, such as `powerSGD_hook`.
--- > hooks = ml.distributed.comm_hooks
--- > type(hooks.fp16_compress_wrapper(hooks.allreduce_hook))
---   function
---@param hook fun(state: any, bucket: table, group: table): table the other
---   hook
---@return fun(state: any, bucket: table, group: table): table
function comm_hooks.fp16_compress_wrapper(...) return wrapped(read_fp16(...), ml.float16) end

local read_bf16 = signature "distributed.comm_hooks.bf16_compress_wrapper(function hook)"

--- A hook that hands its gradients to another one as bfloat16, such as `powerSGD_hook`.
--- > hooks = ml.distributed.comm_hooks
--- > type(hooks.bf16_compress_wrapper(hooks.allreduce_hook))
---   function
---@param hook fun(state: any, bucket: table, group: table): table the other
---   hook
---@return fun(state: any, bucket: table, group: table): table
function comm_hooks.bf16_compress_wrapper(...) return wrapped(read_bf16(...), ml.bfloat16) end

return options.namespace("distributed.comm_hooks", comm_hooks, options.late {
  ["distributed.power_sgd"] = { "PowerSGDState", "powerSGD_hook", "batched_powerSGD_hook" },
})
