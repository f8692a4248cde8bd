-- stdlib/distributed/power_sgd.lua: PowerSGD: gradients are sent as products of thin matrices.

local class = require "moonlet.class"
local collectives = require "moonlet.distributed.collectives"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local state_of_groups = require "moonlet.distributed.state"
local fail = options.fail

local power_sgd = {}

local read_state = signature('distributed.comm_hooks.PowerSGDState(Group? process_group=nil, '
  .. 'int>=1 matrix_approximation_rank=1, int>=0 start_powerSGD_iter=1000, '
  .. 'number>=0 min_compression_rate=2, bool use_error_feedback=true, bool warm_start=true, '
  .. 'number>=0 orthogonalization_epsilon=0, int random_seed=0, '
  .. 'bool batch_tensors_with_same_shape=false)', "PowerSGDState")

--- What `powerSGD_hook` keeps from one step to the next, the first argument of
--- `register_comm_hook`.
--- > ml.distributed.init_process_group()
--- > hooks = ml.distributed.comm_hooks
--- > state = hooks.PowerSGDState { matrix_approximation_rank = 2, start_powerSGD_iter = 10 }
--- > net = ml.nn.parallel.DistributedDataParallel(ml.nn.Linear(8, 8))
--- > net:register_comm_hook(state, hooks.powerSGD_hook)
--- > state.matrix_approximation_rank, state.iter
---   2	0
--- > ml.distributed.destroy_process_group()
---@field iter integer How many steps there have been.
---@field matrix_approximation_rank integer The columns of the thin matrices.
---@field error_dict table<integer, moonlet.Tensor> What each bucket has lost in the step before.
---@field p_memory_dict table<integer, moonlet.Tensor> The left factors of each bucket.
---@field q_memory_dict table<integer, moonlet.Tensor> The right factors of each bucket.
---@param process_group? table the group; that of the module unless given
---@param matrix_approximation_rank? integer columns of the thin matrices: more lose less, and take
---   longer
---@param start_powerSGD_iter? integer steps before which gradients are averaged as they are
---@param min_compression_rate? number matrices that do not become smaller by more than this are
---   averaged as they are
---@param use_error_feedback? boolean whether what a step loses is added to the next gradients
---@param warm_start? boolean whether a step begins with the factors of the one before
---@param orthogonalization_epsilon? number added to the norms of columns, for gradients that vanish
---@param random_seed? integer seed of the first factors, the same on all ranks
---@param batch_tensors_with_same_shape? boolean whether matrices of one shape are multiplied
---   together
---@error a start before step 2 with error feedback or a warm start
---@source Vogels, Karimireddy and Jaggi, 2019: PowerSGD, practical low-rank gradient compression
local PowerSGDState = class "PowerSGDState"
power_sgd.PowerSGDState = PowerSGDState

function PowerSGDState:init(...)
  local given = read_state:table(...)
  if given.start_powerSGD_iter <= 1 and (given.use_error_feedback or given.warm_start) then
    fail("PowerSGDState: 'start_powerSGD_iter' must be at least 2 with 'use_error_feedback' or "
      .. "'warm_start', got %d", given.start_powerSGD_iter)
  end
  for name, value in pairs(given) do self[name] = value end
  self.generator = ml.Generator { seed = given.random_seed }
  self.error_dict, self.p_memory_dict, self.q_memory_dict = {}, {}, {}
  self.iter, self.numel_before, self.numel_after = 0, 0, 0
end

--- How much smaller what was sent has become: the rate, the elements of all gradients, and those
--- that were sent for them.
--- > state = ml.distributed.comm_hooks.PowerSGDState()
--- > state:compression_stats()
---   0	0	0
---@return number rate
---@return integer before
---@return integer after
function PowerSGDState:compression_stats()
  local rate = self.numel_after > 0 and self.numel_before / self.numel_after or 0
  return rate, self.numel_before, self.numel_after
end

local KEPT = { "iter", "error_dict", "p_memory_dict", "q_memory_dict", "numel_before",
  "numel_after" }

--- What to keep in a checkpoint: the errors are those of this rank.
--- > ml.distributed.comm_hooks.PowerSGDState():state_dict().iter
---   0
---@return table
function PowerSGDState:state_dict()
  local out = { random = self.generator:get_state() }
  for _, name in ipairs(KEPT) do
    local value = self[name]
    out[name] = type(value) == "table" and table.move(value, 1, #value, 1, {}) or value
  end
  return out
end

local read_load = signature("PowerSGDState:load_state_dict(dict state_dict)", "load_state_dict")

--- Takes over what `state_dict` gave.
--- > state = ml.distributed.comm_hooks.PowerSGDState()
--- > state:load_state_dict(state:state_dict())
---@param state_dict table the state
function PowerSGDState:load_state_dict(...)
  local given = read_load(...)
  for _, name in ipairs(KEPT) do
    if type(given[name]) ~= type(self[name]) then
      fail("load_state_dict: '%s' of a PowerSGDState must be a %s, got %s", name,
        type(self[name]), type(given[name]))
    end
    for index, x in pairs(type(given[name]) == "table" and given[name] or {}) do
      if not ml.is_tensor(x) then
        fail("load_state_dict: '%s' of a PowerSGDState must hold tensors, got %s at %s", name,
          signature.describe(x), tostring(index))
      end
    end
  end
  if type(given.random) ~= "table" and not ml.is_tensor(given.random) then
    fail("load_state_dict: 'random' of a PowerSGDState is the state of a generator, got %s",
      type(given.random))
  end
  self.generator:set_state(given.random)
  for _, name in ipairs(KEPT) do
    self[name] = given[name]
    if type(given[name]) == "table" then
      self[name] = {}
      for index, x in pairs(given[name]) do self[name][index] = x:clone() end
    end
  end
end

local function count_step(self, bucket)
  if bucket:is_last() then self.iter = self.iter + 1 end
end

-- --- matrices -----------------------------------------------------------------------------------

-- Makes the columns of a batch of matrices (n, rows, columns) ones of length 1 at right angles.
-- Columns of zeros stay so.
local function orthogonalize(matrices, epsilon)
  local count = matrices:size(3)
  if count > 2 and matrices:element_size() > 2 then
    matrices:copy_((ml.linalg.qr(matrices)))
    return
  end
  for i = 1, count do
    local column = matrices:narrow(3, i, 1)
    local norm = (column * column):sum({ dim = 2, keepdim = true }):sqrt() + epsilon
    column:div_(norm:masked_fill(norm:eq(0), 1))
    if i < count then
      local rest = matrices:narrow(3, i + 1, count - i)
      rest:sub_((column * rest):sum({ dim = 2, keepdim = true }) * column)
    end
  end
end

-- The gradients of a bucket: those that are worth it as batches of matrices (n, rows, columns),
-- with the tensors they are made of, and the others.
local function divided(self, bucket)
  local batches, plain, by_shape = {}, {}, {}
  for _, g in ipairs(bucket:gradients()) do
    local rows = g:dim() > 0 and g:size(1) or 1
    local columns = rows > 0 and g:numel() // rows or 0
    local rank = math.min(rows, columns, self.matrix_approximation_rank)
    local sent = (rows + columns) * rank
    self.numel_before = self.numel_before + g:numel()
    if g:numel() > 0 and sent * self.min_compression_rate < g:numel() then
      self.numel_after = self.numel_after + sent
      local key = self.batch_tensors_with_same_shape and ("%d %d"):format(rows, columns) or #batches
      local batch = by_shape[key]
      if not batch then
        batch = { rows = rows, columns = columns, rank = rank, matrices = {} }
        by_shape[key], batches[#batches + 1] = batch, batch
      end
      table.insert(batch.matrices, g:view(rows, columns))
    else
      self.numel_after = self.numel_after + g:numel()
      plain[#plain + 1] = g
    end
  end
  for _, batch in ipairs(batches) do
    batch.m = #batch.matrices == 1 and batch.matrices[1]:unsqueeze(1) or ml.stack(batch.matrices, 1)
  end
  return batches, plain
end

-- Cuts flat memory into the factors of batches, (n, `rows` or `columns`, rank).
local function cut(flat, batches, field, name)
  local at = 1
  for _, batch in ipairs(batches) do
    local n, size = #batch.matrices, batch[field]
    batch[name] = flat:narrow(1, at, n * size * batch.rank):view(n, size, batch.rank)
    at = at + n * size * batch.rank
  end
end

local function length_of(batches, field)
  local total = 0
  for _, batch in ipairs(batches) do
    total = total + #batch.matrices * batch[field] * batch.rank
  end
  return total
end

-- The factors of a bucket's batches: those of the step before, or new right ones.
local function take_factors(self, bucket, batches)
  local index, buffer = bucket:index(), bucket:buffer()
  local new = not self.warm_start or self.q_memory_dict[index] == nil
  if new then
    self.p_memory_dict[index] = buffer:new_zeros { length_of(batches, "rows") }
    self.q_memory_dict[index] = buffer:new_zeros { length_of(batches, "columns") }
  end
  cut(self.p_memory_dict[index], batches, "rows", "p")
  cut(self.q_memory_dict[index], batches, "columns", "q")
  for _, batch in ipairs(batches) do
    if new then batch.q:copy_(ml.randn(batch.q.shape, { generator = self.generator })) end
    orthogonalize(batch.q, self.orthogonalization_epsilon)
  end
end

-- --- the hooks ----------------------------------------------------------------------------------

-- The buffer with the error of the step before; gives what keeps the error of this one, of a tensor
-- `now` of the buffer's elements.
local function add_error(self, index, buffer)
  if not self.use_error_feedback then return function() end end
  if self.error_dict[index] then buffer:add_(self.error_dict[index]) end
  local before = buffer:clone()
  return function(now) self.error_dict[index] = before:sub_(now) end
end

-- A handle whose wait does what is left, once, when all ranks come to it.
local function waited(f)
  local done = false
  return { wait = function()
    if not done then
      done = true
      local _ <close> = ml.no_grad()
      f()
    end
    return true
  end }
end

local function averaged(self, bucket, group)
  count_step(self, bucket)
  local buffer = bucket:buffer()
  buffer:div_(group.size)
  return collectives.all_reduce(buffer, { group = group, async_op = true })
end

local function group_of(self, op, group)
  return state_of_groups.group_of(op, self.process_group or group)
end

local function forget(self, index)
  if not self.warm_start then self.p_memory_dict[index], self.q_memory_dict[index] = nil, nil end
end

-- The second half of a step: right factors from the left ones of all ranks, then the products.
local function multiply_back(self, bucket, batches, group)
  for _, batch in ipairs(batches) do
    orthogonalize(batch.p, self.orthogonalization_epsilon)
    batch.q:copy_(batch.m:transpose(2, 3):bmm(batch.p))
  end
  local q = self.q_memory_dict[bucket:index()]
  collectives.all_reduce(q, { group = group })
  q:div_(group.size)
  for _, batch in ipairs(batches) do
    local product = batch.p:bmm(batch.q:transpose(2, 3))
    for i, matrix in ipairs(batch.matrices) do matrix:copy_(product[i]) end
  end
end

--- Sends each matrix of gradients as a product of two thin ones, of which the ranks' are averaged
--- by one step of the power method. Vectors, and what would hardly become smaller, are averaged as
--- they are.
--- > ml.distributed.init_process_group()
--- > hooks = ml.distributed.comm_hooks
--- > net = ml.nn.parallel.DistributedDataParallel(ml.nn.Linear(8, 8))
--- > net:register_comm_hook(hooks.PowerSGDState { start_powerSGD_iter = 2 }, hooks.powerSGD_hook)
--- > net(ml.ones(1, 8)):sum():backward()
--- > net.module.bias.grad[1]:item()
---   1.0
--- > ml.distributed.destroy_process_group()
---@param state table a `PowerSGDState`: what is kept between steps
---@param bucket table a `GradBucket` of gradients, which are changed
---@param group table the group
---@return table work
---@formula P R = sum_r M_r Q, P^T P = I, Q = 1/n sum_r M_r^T P, M = P Q^T
---@source Vogels, Karimireddy and Jaggi, 2019: PowerSGD, practical low-rank gradient compression
function power_sgd.powerSGD_hook(state, bucket, group)
  if not class.is_instance(state, PowerSGDState) then
    fail("powerSGD_hook: the state must be a PowerSGDState, got %s", signature.describe(state))
  end
  local _ <close> = ml.no_grad()
  group = group_of(state, "powerSGD_hook", group)
  if state.iter < state.start_powerSGD_iter then return averaged(state, bucket, group) end
  local buffer, index = bucket:buffer(), bucket:index()
  local keep_error = add_error(state, index, buffer)
  local batches, plain = divided(state, bucket)
  take_factors(state, bucket, batches)
  for _, batch in ipairs(batches) do batch.p:copy_(batch.m:bmm(batch.q)) end
  local flats = {}
  for i, g in ipairs(plain) do flats[i] = g:reshape(-1) end
  local together = #flats > 0 and ml.cat(flats) or buffer:new_zeros { 0 }
  local first = collectives.all_reduce(together, { group = group, async_op = true })
  local second = collectives.all_reduce(state.p_memory_dict[index], { group = group,
    async_op = true })
  return waited(function()
    first:wait()
    together:div_(group.size)
    local at = 1
    for _, g in ipairs(plain) do
      g:copy_(together:narrow(1, at, g:numel()):view(g.shape))
      at = at + g:numel()
    end
    second:wait()
    multiply_back(state, bucket, batches, group)
    keep_error(buffer)
    forget(state, index)
    count_step(state, bucket)
  end)
end

--- Sends the whole bucket as one square matrix, made of two thin ones: faster than `powerSGD_hook`,
--- and loses more, as the rows of such a matrix are those of no layer.
--- > ml.distributed.init_process_group()
--- > hooks = ml.distributed.comm_hooks
--- > net = ml.nn.parallel.DistributedDataParallel(ml.nn.Linear(8, 8))
--- > state = hooks.PowerSGDState { start_powerSGD_iter = 2 }
--- > net:register_comm_hook(state, hooks.batched_powerSGD_hook)
--- > net(ml.ones(1, 8)):sum():backward()
--- > net.module.bias.grad[1]:item()
---   1.0
--- > ml.distributed.destroy_process_group()
---@param state table a `PowerSGDState`: what is kept between steps
---@param bucket table a `GradBucket` of gradients, which are changed
---@param group table the group
---@return table work
---@source Vogels, Karimireddy and Jaggi, 2019: PowerSGD, practical low-rank gradient compression
function power_sgd.batched_powerSGD_hook(state, bucket, group)
  if not class.is_instance(state, PowerSGDState) then
    fail("batched_powerSGD_hook: the state must be a PowerSGDState, got %s",
      signature.describe(state))
  end
  local _ <close> = ml.no_grad()
  group = group_of(state, "batched_powerSGD_hook", group)
  if state.iter < state.start_powerSGD_iter then return averaged(state, bucket, group) end
  local buffer, index = bucket:buffer(), bucket:index()
  local count = buffer:numel()
  local side = math.ceil(math.sqrt(count))
  local rank = math.min(side, state.matrix_approximation_rank)
  state.numel_before = state.numel_before + count
  state.numel_after = state.numel_after + 2 * side * rank
  local square = buffer:new_zeros { side * side }
  square:narrow(1, 1, count):copy_(buffer)
  local keep_error = add_error(state, index, square)
  local matrix = square:view(side, side)
  local batches = { { rows = side, columns = side, rank = rank, matrices = { matrix },
    m = matrix:unsqueeze(1) } }
  take_factors(state, bucket, batches)
  batches[1].p:copy_(batches[1].m:bmm(batches[1].q))
  local sent = collectives.all_reduce(state.p_memory_dict[index], { group = group,
    async_op = true })
  return waited(function()
    sent:wait()
    multiply_back(state, bucket, batches, group)
    keep_error(square)
    buffer:copy_(square:narrow(1, 1, count))
    forget(state, index)
    count_step(state, bucket)
  end)
end

return options.namespace("distributed.power_sgd", power_sgd)
