-- stdlib/distributed/comm_hooks.lua: how DistributedDataParallel may send gradients.

local collectives = require "moonlet.distributed.collectives"
local ml = require "moonlet"
local options = require "moonlet.options"

local comm_hooks = {}

--- Averages a bucket over the ranks, as `DistributedDataParallel` does without a hook.
--- > ml.distributed.init_process_group()
--- > net = ml.nn.parallel.DistributedDataParallel(ml.nn.Linear(1, 1))
--- > net:register_comm_hook(nil, ml.distributed.comm_hooks.allreduce)
--- > net(ml.ones(1, 1)):sum():backward()
--- > net.module.bias.grad
---   {1.}
---   Tensor (1,) float32
--- > ml.distributed.destroy_process_group()
---@param _ any the state of the hook, which it has not
---@param bucket moonlet.Tensor gradients, which are changed
---@param group table the group
---@return table work
---@shape bucket (n)
function comm_hooks.allreduce(_, bucket, group)
  local _ <close> = ml.no_grad()
  bucket:div_(group.size)
  return collectives.all_reduce(bucket, { group = group, async_op = true })
end

-- Sends a bucket in another dtype.
local function compressed(dtype)
  return function(_, bucket, group)
    local _ <close> = ml.no_grad()
    local narrow = (bucket / group.size):to(dtype)
    local handle = collectives.all_reduce(narrow, { group = group, async_op = true })
    return { wait = function()
      handle:wait()
      local _ <close> = ml.no_grad()
      bucket:copy_(narrow)
      return true
    end }
  end
end

local to_half, to_bfloat16 = compressed(ml.float16), compressed(ml.bfloat16)

--- Sends gradients as float16, half the bytes of float32.
--- > ml.distributed.init_process_group()
--- > net = ml.nn.parallel.DistributedDataParallel(ml.nn.Linear(1, 1))
--- > net:register_comm_hook(nil, ml.distributed.comm_hooks.fp16_compress)
--- > net(ml.ones(1, 1)):sum():backward()
--- > net.module.bias.grad
---   {1.}
---   Tensor (1,) float32
--- > ml.distributed.destroy_process_group()
---@param state any the state of the hook, which it has not
---@param bucket moonlet.Tensor gradients, which are changed
---@param group table the group
---@return table work
---@shape bucket (n)
function comm_hooks.fp16_compress(state, bucket, group) return to_half(state, bucket, group) end

--- Sends gradients as bfloat16, half the bytes of float32.
--- > ml.distributed.init_process_group()
--- > net = ml.nn.parallel.DistributedDataParallel(ml.nn.Linear(1, 1))
--- > net:register_comm_hook(nil, ml.distributed.comm_hooks.bf16_compress)
--- > net(ml.ones(1, 1)):sum():backward()
--- > net.module.bias.grad
---   {1.}
---   Tensor (1,) float32
--- > ml.distributed.destroy_process_group()
---@param state any the state of the hook, which it has not
---@param bucket moonlet.Tensor gradients, which are changed
---@param group table the group
---@return table work
---@shape bucket (n)
function comm_hooks.bf16_compress(state, bucket, group) return to_bfloat16(state, bucket, group) end

return options.namespace("distributed.comm_hooks", comm_hooks)
