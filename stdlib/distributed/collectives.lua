-- stdlib/distributed/collectives.lua: collectives of tensors. Each is an op of ml.ops.distributed,
-- which modes see; what they do with the ranks is in moves.lua.

local ml = require "moonlet"
local moves = require "moonlet.distributed.moves"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local state = require "moonlet.distributed.state"
local work = require "moonlet.distributed.work"
local fail = options.fail

local collectives = {}

local reductions = { "sum", "avg", "product", "min", "max", "band", "bor", "bxor" }
-- Not "Reduction", which losses have.
signature.add_choice("ReduceOp", reductions)

-- --- the ops ------------------------------------------------------------------------------------

-- The handle of the call that an op has started; the op itself gives tensors.
local started

-- What a definition is made of: `forward` starts the collective, and gives the handle and what the
-- op gives.
local function starting(schema, forward)
  return { schema, differentiable = false, forward = function(...)
    local handle, result = forward(...)
    started = handle
    return result
  end }
end

local function group_at(number) return state.groups[number] end

local op = work.ops {
  all_reduce = starting("all_reduce_inplace(Tensor! x, string op, int group) -> Tensor",
    function(x, reduction, group) return moves.all_reduce(group_at(group), x, reduction), x end),
  broadcast = starting("broadcast_inplace(Tensor! x, int src, int group) -> Tensor",
    function(x, src, group) return moves.broadcast(group_at(group), x, src), x end),
  reduce = starting("reduce_inplace(Tensor! x, int dst, string op, int group) -> Tensor",
    function(x, dst, reduction, group)
      return moves.reduce(group_at(group), x, dst, reduction), x
    end),
  all_gather = starting("all_gather_into(Tensor! output, Tensor x, int group) -> Tensor",
    function(output, x, group) return moves.all_gather(group_at(group), output, x), output end),
  reduce_scatter = starting(
    "reduce_scatter_into(Tensor! output, Tensor x, string op, int[*] counts, int group) -> Tensor",
    function(output, x, reduction, counts, group)
      return moves.reduce_scatter(group_at(group), output, x, reduction, counts), output
    end),
  exchange = starting(
    "exchange_into(Tensor! output, Tensor x, int[*] received, int[*] sent, string name, int group) "
    .. "-> Tensor",
    function(output, x, received, sent, name, group)
      return moves.exchange(group_at(group), output, x, received, sent, name), output
    end),
  barrier = starting("barrier(int group) -> bool",
    function(group) return moves.barrier(group_at(group)), true end),
}

-- What has gradients and the like in place of those that change tensors.
local FUNCTIONAL = { all_reduce = "all_reduce", broadcast = "broadcast", reduce = "reduce",
  all_gather_into_tensor = "all_gather", all_gather = "all_gather",
  reduce_scatter_tensor = "reduce_scatter", reduce_scatter = "reduce_scatter",
  all_to_all_single = "all_to_all_single" }

-- Calls an op, and then waits or gives the handle, which first brings results to where they go.
local function run(name, async, after, f, ...)
  work.check_plain(name, FUNCTIONAL[name], ...)
  f(...)
  local handle = started
  started = nil
  if after then
    if handle.done then
      after()
    else
      local before = handle.finish
      handle.finish = function()
        if before then before() end
        after()
      end
    end
  end
  return work.result(handle, async)
end

-- --- checks -------------------------------------------------------------------------------------

local function check_same(name, what, list, x)
  for i, each in ipairs(list) do
    if not ml.is_tensor(each) then
      fail("%s: '%s' must hold tensors, got %s", name, what, type(each))
    elseif each.dtype ~= x.dtype then
      fail("%s: tensors must have one dtype, got %s and %s", name, x.dtype, each.dtype)
    elseif each.device ~= list[1].device then
      fail("%s: '%s' must be on one device, tensor %d is on %s", name, what, i, each.device)
    end
  end
end

local function check_count(name, what, list, group)
  if #list ~= group.size then
    fail("%s: '%s' must have a tensor for each of the %d ranks, got %d", name, what, group.size,
      #list)
  end
end

local function check_reduction(name, reduction, x)
  local kind = x.dtype
  if reduction == "avg" and not (x:is_floating_point() or x:is_complex()) then
    fail("%s: 'avg' is for floats, got %s; take 'sum'", name, kind)
  elseif (reduction == "min" or reduction == "max") and x:is_complex() then
    fail("%s: '%s' is for real numbers, got %s", name, reduction, kind)
  elseif reduction:find "^b" and (x:is_floating_point() or x:is_complex()) then
    fail("%s: '%s' is for integers, got %s", name, reduction, kind)
  end
end

-- The tensors, flat, one behind the other; and the way back.
local function joined(list)
  local flat = {}
  for i, each in ipairs(list) do flat[i] = each:reshape(-1) end
  return #flat == 1 and flat[1] or ml.cat(flat)
end

local function counts_of(list)
  local out = {}
  for i, each in ipairs(list) do out[i] = each:numel() end
  return out
end

local function spread(flat, list)
  local at = 1
  for _, each in ipairs(list) do
    local n = each:numel()
    each:detach():copy_(flat:narrow(1, at, n):view(each.shape))
    at = at + n
  end
end

local function zeros(n)
  local out = {}
  for i = 1, n do out[i] = 0 end
  return out
end

-- --- the collectives ----------------------------------------------------------------------------

local read_all_reduce = signature('all_reduce(Tensor tensor, ReduceOp op="sum", '
  .. 'Group? group=nil, bool async_op=false)')

--- Reduces a tensor over all ranks: afterwards it holds the same on each. Sums of 16-bit floats are
--- made in float32 and rounded once.
--- > ml.distributed.init_process_group()
--- > x = ml.tensor { 1.0, 2.0 }
--- > ml.distributed.all_reduce(x)
--- > x
---   {1., 2.}
---   Tensor (2,) float32
--- > ml.distributed.destroy_process_group()
---@param tensor moonlet.Tensor the tensor, which is changed; of one shape and dtype on all ranks
---@param op? string "sum", "avg", "product", "min", "max", "band", "bor" or "bxor"
---@param group? table the group; all ranks unless given
---@param async_op? boolean whether a handle is returned at once, whose `wait` ends the call
---@return table? work with `async_op`
---@shape tensor (*)
---@formula x = sum_r x_r
---@error a rank that has ended or calls something else
function collectives.all_reduce(...)
  local x, reduction, group, async = read_all_reduce(...)
  group = state.group_of("all_reduce", group)
  check_reduction("all_reduce", reduction, x)
  return run("all_reduce", async, nil, op.all_reduce, x, reduction, group.number)
end

local read_broadcast = signature('broadcast(Tensor tensor, int>=0 src, Group? group=nil, '
  .. 'bool async_op=false)')

--- Gives all ranks the tensor of one.
--- > ml.distributed.init_process_group()
--- > x = ml.ones(2)
--- > ml.distributed.broadcast(x, 0)
--- > x
---   {1., 1.}
---   Tensor (2,) float32
--- > ml.distributed.destroy_process_group()
---@param tensor moonlet.Tensor what rank `src` has, and is changed on the others
---@param src integer the rank that sends, from 0
---@param group? table the group; all ranks unless given
---@param async_op? boolean whether a handle is returned at once
---@return table? work with `async_op`
---@shape tensor (*)
function collectives.broadcast(...)
  local x, src, group, async = read_broadcast(...)
  group = state.group_of("broadcast", group)
  src = state.position_of("broadcast", "src", group, src)
  return run("broadcast", async, nil, op.broadcast, x, src, group.number)
end

local read_reduce = signature('reduce(Tensor tensor, int>=0 dst, ReduceOp op="sum", '
  .. 'Group? group=nil, bool async_op=false)')

--- Reduces a tensor over all ranks to one of them, in the order of ranks.
--- > ml.distributed.init_process_group()
--- > x = ml.ones(2)
--- > ml.distributed.reduce(x, 0)
--- > x
---   {1., 1.}
---   Tensor (2,) float32
--- > ml.distributed.destroy_process_group()
---@param tensor moonlet.Tensor what each rank has; rank `dst` has the result there
---@param dst integer the rank that gets it, from 0
---@param op? string the reduction, as of `all_reduce`
---@param group? table the group; all ranks unless given
---@param async_op? boolean whether a handle is returned at once
---@return table? work with `async_op`
---@shape tensor (*)
function collectives.reduce(...)
  local x, dst, reduction, group, async = read_reduce(...)
  group = state.group_of("reduce", group)
  check_reduction("reduce", reduction, x)
  dst = state.position_of("reduce", "dst", group, dst)
  return run("reduce", async, nil, op.reduce, x, dst, reduction, group.number)
end

local read_into = signature('all_gather_into_tensor(Tensor output_tensor, Tensor input_tensor, '
  .. 'Group? group=nil, bool async_op=false)')

--- Gathers the tensors of all ranks in one, the same on each: joined along the first dimension, or
--- stacked.
--- > ml.distributed.init_process_group()
--- > y = ml.zeros(2)
--- > ml.distributed.all_gather_into_tensor(y, ml.ones(2))
--- > y
---   {1., 1.}
---   Tensor (2,) float32
--- > ml.distributed.destroy_process_group()
---@param output_tensor moonlet.Tensor gets them, with as many elements as all together
---@param input_tensor moonlet.Tensor this rank's, of one shape on all ranks
---@param group? table the group; all ranks unless given
---@param async_op? boolean whether a handle is returned at once
---@return table? work with `async_op`
---@shape input_tensor (n, *), output_tensor (ranks n, *) or (ranks, n, *)
function collectives.all_gather_into_tensor(...)
  local output, x, group, async = read_into(...)
  group = state.group_of("all_gather_into_tensor", group)
  check_same("all_gather_into_tensor", "output_tensor", { output }, x)
  if output:numel() ~= x:numel() * group.size then
    fail("all_gather_into_tensor: 'output_tensor' must have %d elements for %d ranks, got %d",
      x:numel() * group.size, group.size, output:numel())
  end
  return run("all_gather_into_tensor", async, nil, op.all_gather, output, x, group.number)
end

local read_all_gather = signature('all_gather(Tensor[] tensor_list, Tensor tensor, '
  .. 'Group? group=nil, bool async_op=false)')

--- Gathers the tensors of all ranks in a list, the same on each. Their shapes may differ by rank.
--- > ml.distributed.init_process_group()
--- > list = { ml.zeros(2) }
--- > ml.distributed.all_gather(list, ml.ones(2))
--- > list[1]
---   {1., 1.}
---   Tensor (2,) float32
--- > ml.distributed.destroy_process_group()
---@param tensor_list moonlet.Tensor[] a tensor for each rank, which gets that rank's
---@param tensor moonlet.Tensor this rank's
---@param group? table the group; all ranks unless given
---@param async_op? boolean whether a handle is returned at once
---@return table? work with `async_op`
---@shape tensor (*), tensor_list[r] as the tensor of rank r
function collectives.all_gather(...)
  local list, x, group, async = read_all_gather(...)
  group = state.group_of("all_gather", group)
  check_count("all_gather", "tensor_list", list, group)
  check_same("all_gather", "tensor_list", list, x)
  local own = list[group.rank + 1]
  if own:numel() ~= x:numel() then
    fail("all_gather: the tensor of 'tensor_list' for this rank must have %d elements, got %d",
      x:numel(), own:numel())
  end
  local received, sent = counts_of(list), {}
  local total = 0
  for i, count in ipairs(received) do sent[i], total = x:numel(), total + count end
  local flat = ml.empty({ total }, { dtype = x.dtype, device = x.device })
  return run("all_gather", async, function() spread(flat, list) end, op.exchange, flat,
    x:reshape(-1), received, sent, "all_gather", group.number)
end

local read_gather = signature('gather(Tensor tensor, Tensor[]? gather_list=nil, int>=0 dst=0, '
  .. 'Group? group=nil, bool async_op=false)')

--- Gathers the tensors of all ranks in a list on one of them. Their shapes may differ.
--- > ml.distributed.init_process_group()
--- > list = { ml.zeros(2) }
--- > ml.distributed.gather(ml.ones(2), list)
--- > list[1]
---   {1., 1.}
---   Tensor (2,) float32
--- > ml.distributed.destroy_process_group()
---@param tensor moonlet.Tensor this rank's
---@param gather_list? moonlet.Tensor[] on rank `dst` a tensor for each rank, which gets that rank's
---@param dst? integer the rank that gets them, from 0
---@param group? table the group; all ranks unless given
---@param async_op? boolean whether a handle is returned at once
---@return table? work with `async_op`
---@shape tensor (*), gather_list[r] as the tensor of rank r
function collectives.gather(...)
  local x, list, dst, group, async = read_gather(...)
  group = state.group_of("gather", group)
  local root = state.position_of("gather", "dst", group, dst)
  local sent, received = zeros(group.size), zeros(group.size)
  sent[root + 1] = x:numel()
  if group.rank == root then
    if not list then fail "gather: 'gather_list' must be given on rank 'dst'" end
    check_count("gather", "gather_list", list, group)
    check_same("gather", "gather_list", list, x)
    received = counts_of(list)
  elseif list then
    fail("gather: 'gather_list' is for rank 'dst' (%d) alone", dst)
  end
  list = list or {}
  local total = 0
  for _, count in ipairs(received) do total = total + count end
  local flat = ml.empty({ total }, { dtype = x.dtype, device = x.device })
  return run("gather", async, function() spread(flat, list) end, op.exchange, flat, x:reshape(-1),
    received, sent, ("gather to %d"):format(root), group.number)
end

local read_scatter = signature('scatter(Tensor tensor, Tensor[]? scatter_list=nil, int>=0 src=0, '
  .. 'Group? group=nil, bool async_op=false)')

--- Gives each rank its tensor of a list that one of them has. Their shapes may differ.
--- > ml.distributed.init_process_group()
--- > y = ml.zeros(2)
--- > ml.distributed.scatter(y, { ml.ones(2) })
--- > y
---   {1., 1.}
---   Tensor (2,) float32
--- > ml.distributed.destroy_process_group()
---@param tensor moonlet.Tensor gets this rank's
---@param scatter_list? moonlet.Tensor[] on rank `src` a tensor for each rank
---@param src? integer the rank that has them, from 0
---@param group? table the group; all ranks unless given
---@param async_op? boolean whether a handle is returned at once
---@return table? work with `async_op`
---@shape tensor (*), scatter_list[r] as the tensor of rank r
function collectives.scatter(...)
  local y, list, src, group, async = read_scatter(...)
  group = state.group_of("scatter", group)
  local root = state.position_of("scatter", "src", group, src)
  local sent, received = zeros(group.size), zeros(group.size)
  received[root + 1] = y:numel()
  local flat = ml.empty({ 0 }, { dtype = y.dtype, device = y.device })
  if group.rank == root then
    if not list then fail "scatter: 'scatter_list' must be given on rank 'src'" end
    check_count("scatter", "scatter_list", list, group)
    check_same("scatter", "scatter_list", list, y)
    sent, flat = counts_of(list), joined(list)
    if sent[root + 1] ~= y:numel() then
      fail("scatter: 'tensor' must have the %d elements of this rank's, got %d", sent[root + 1],
        y:numel())
    end
  elseif list then
    fail("scatter: 'scatter_list' is for rank 'src' (%d) alone", src)
  end
  return run("scatter", async, nil, op.exchange, y, flat, received, sent,
    ("scatter from %d"):format(root), group.number)
end

local read_scatter_tensor = signature('reduce_scatter_tensor(Tensor output, Tensor input, '
  .. 'ReduceOp op="sum", Group? group=nil, bool async_op=false)')

--- Reduces a tensor over all ranks, of which each gets its part: those of the first dimension, one
--- behind the other. Sums are made in the order of ranks.
--- > ml.distributed.init_process_group()
--- > y = ml.zeros(2)
--- > ml.distributed.reduce_scatter_tensor(y, ml.ones(2))
--- > y
---   {1., 1.}
---   Tensor (2,) float32
--- > ml.distributed.destroy_process_group()
---@param output moonlet.Tensor gets this rank's part, of one shape on all ranks
---@param input moonlet.Tensor the whole, with the elements of all parts
---@param op? string the reduction, as of `all_reduce`
---@param group? table the group; all ranks unless given
---@param async_op? boolean whether a handle is returned at once
---@return table? work with `async_op`
---@shape input (ranks n, *) or (ranks, n, *), output (n, *)
function collectives.reduce_scatter_tensor(...)
  local output, x, reduction, group, async = read_scatter_tensor(...)
  group = state.group_of("reduce_scatter_tensor", group)
  check_reduction("reduce_scatter_tensor", reduction, x)
  check_same("reduce_scatter_tensor", "output", { output }, x)
  if x:numel() ~= output:numel() * group.size then
    fail("reduce_scatter_tensor: 'input' must have %d elements for %d ranks, got %d",
      output:numel() * group.size, group.size, x:numel())
  end
  local counts = {}
  for i = 1, group.size do counts[i] = output:numel() end
  return run("reduce_scatter_tensor", async, nil, op.reduce_scatter, output, x, reduction, counts,
    group.number)
end

local read_reduce_scatter = signature('reduce_scatter(Tensor output, Tensor[] input_list, '
  .. 'ReduceOp op="sum", Group? group=nil, bool async_op=false)')

--- Reduces a list of tensors over all ranks, of which each gets one. Their shapes may differ, in
--- the same way on each rank.
--- > ml.distributed.init_process_group()
--- > y = ml.zeros(2)
--- > ml.distributed.reduce_scatter(y, { ml.ones(2) })
--- > y
---   {1., 1.}
---   Tensor (2,) float32
--- > ml.distributed.destroy_process_group()
---@param output moonlet.Tensor gets the sum of the tensors for this rank
---@param input_list moonlet.Tensor[] a tensor for each rank
---@param op? string the reduction, as of `all_reduce`
---@param group? table the group; all ranks unless given
---@param async_op? boolean whether a handle is returned at once
---@return table? work with `async_op`
---@shape input_list[r] as output of rank r
function collectives.reduce_scatter(...)
  local output, list, reduction, group, async = read_reduce_scatter(...)
  group = state.group_of("reduce_scatter", group)
  check_count("reduce_scatter", "input_list", list, group)
  check_same("reduce_scatter", "input_list", list, output)
  check_reduction("reduce_scatter", reduction, output)
  local counts = counts_of(list)
  if counts[group.rank + 1] ~= output:numel() then
    fail("reduce_scatter: 'output' must have the %d elements of this rank's, got %d",
      counts[group.rank + 1], output:numel())
  end
  return run("reduce_scatter", async, nil, op.reduce_scatter, output, joined(list),
    reduction, counts, group.number)
end

-- Sizes of the first dimension for each rank, and elements.
local function split_counts(name, what, x, sizes, group)
  local rows = x:dim() == 0 and 1 or x:size(1)
  if not sizes then
    if rows % group.size ~= 0 then
      fail("%s: '%s' has %d rows, which %d ranks cannot share evenly; give '%s_split_sizes'", name,
        what, rows, group.size, what)
    end
    sizes = {}
    for i = 1, group.size do sizes[i] = rows // group.size end
  end
  local total, out = 0, {}
  for i, size in ipairs(sizes) do
    total, out[i] = total + size, rows == 0 and 0 or size * (x:numel() // rows)
  end
  if #sizes ~= group.size or total ~= rows then
    fail("%s: '%s_split_sizes' must be %d sizes with the sum %d, got {%s}", name, what,
      group.size, rows, table.concat(sizes, ", "))
  end
  return out
end

local read_single = signature('all_to_all_single(Tensor output, Tensor input, '
  .. 'int[]>=0? output_split_sizes=nil, int[]>=0? input_split_sizes=nil, Group? group=nil, '
  .. 'bool async_op=false)')

--- Each rank sends each other one a part of its tensor, cut along the first dimension; what comes
--- is joined in the order of ranks.
--- > ml.distributed.init_process_group()
--- > y = ml.zeros(2)
--- > ml.distributed.all_to_all_single(y, ml.ones(2))
--- > y
---   {1., 1.}
---   Tensor (2,) float32
--- > ml.distributed.destroy_process_group()
---@param output moonlet.Tensor gets the parts for this rank
---@param input moonlet.Tensor the parts for all ranks
---@param output_split_sizes? integer[] rows that come from each rank; the same number unless given
---@param input_split_sizes? integer[] rows that go to each rank; the same number unless given
---@param group? table the group; all ranks unless given
---@param async_op? boolean whether a handle is returned at once
---@return table? work with `async_op`
---@shape input (n, *), output (m, *)
function collectives.all_to_all_single(...)
  local output, x, received, sent, group, async = read_single(...)
  group = state.group_of("all_to_all_single", group)
  check_same("all_to_all_single", "output", { output }, x)
  received = split_counts("all_to_all_single", "output", output, received, group)
  sent = split_counts("all_to_all_single", "input", x, sent, group)
  return run("all_to_all_single", async, nil, op.exchange, output, x, received, sent,
    "all_to_all_single", group.number)
end

local read_to_all = signature('all_to_all(Tensor[] output_tensor_list, Tensor[] input_tensor_list, '
  .. 'Group? group=nil, bool async_op=false)')

--- Each rank sends each other one a tensor of a list. Their shapes may differ.
--- > ml.distributed.init_process_group()
--- > list = { ml.zeros(2) }
--- > ml.distributed.all_to_all(list, { ml.ones(2) })
--- > list[1]
---   {1., 1.}
---   Tensor (2,) float32
--- > ml.distributed.destroy_process_group()
---@param output_tensor_list moonlet.Tensor[] a tensor for each rank, which gets what it sends here
---@param input_tensor_list moonlet.Tensor[] a tensor for each rank, which goes there
---@param group? table the group; all ranks unless given
---@param async_op? boolean whether a handle is returned at once
---@return table? work with `async_op`
---@shape output_tensor_list[r] as input_tensor_list[this rank] on rank r
function collectives.all_to_all(...)
  local outputs, inputs, group, async = read_to_all(...)
  group = state.group_of("all_to_all", group)
  check_count("all_to_all", "output_tensor_list", outputs, group)
  check_count("all_to_all", "input_tensor_list", inputs, group)
  check_same("all_to_all", "input_tensor_list", inputs, inputs[1])
  check_same("all_to_all", "output_tensor_list", outputs, inputs[1])
  local received, flat = counts_of(outputs), joined(inputs)
  local total = 0
  for _, count in ipairs(received) do total = total + count end
  local y = ml.empty({ total }, { dtype = flat.dtype, device = flat.device })
  return run("all_to_all", async, function() spread(y, outputs) end, op.exchange, y, flat, received,
    counts_of(inputs), "all_to_all", group.number)
end

local read_barrier = signature "barrier(Group? group=nil, bool async_op=false)"

--- Waits until all ranks have come here.
--- > ml.distributed.init_process_group()
--- > ml.distributed.barrier() == nil
---   true
--- > ml.distributed.destroy_process_group()
---@param group? table the group; all ranks unless given
---@param async_op? boolean whether a handle is returned at once
---@return table? work with `async_op`
---@see distributed.monitored_barrier
function collectives.barrier(...)
  local group, async = read_barrier(...)
  group = state.group_of("barrier", group)
  return run("barrier", async, nil, op.barrier, group.number)
end

local read_monitored = signature "monitored_barrier(Group? group=nil, number>0? timeout=nil)"

--- A barrier whose error names all ranks that have not come: by the store, so slower than
--- `barrier`.
--- > ml.distributed.init_process_group()
--- > ml.distributed.monitored_barrier() == nil
---   true
--- > ml.distributed.destroy_process_group()
---@param group? table the group; all ranks unless given
---@param timeout? number seconds that ranks may take; those of the group unless given
---@error ranks that have not come in time
function collectives.monitored_barrier(...)
  local group, timeout = read_monitored(...)
  group = state.group_of("monitored_barrier", group)
  timeout = timeout or group.timeout
  if group.size == 1 then return end
  group.barriers = (group.barriers or 0) + 1
  local store, keys = state.store, {}
  local key = ("barrier/%d/%d/"):format(group.number, group.barriers)
  store:set(key .. group.rank, "")
  for i = 0, group.size - 1 do keys[i + 1] = key .. i end
  if state.call("monitored_barrier", store.wait_within, store, keys, timeout) then return end
  local missing = {}
  for i, each in ipairs(keys) do
    if not store:wait_within({ each }, 0) then missing[#missing + 1] = group.ranks[i] end
  end
  fail("monitored_barrier: rank %s %s not come within %g s", table.concat(missing, ", "),
    #missing == 1 and "has" or "have", timeout)
end

-- For the other parts of ml.distributed.
collectives._ops = op

return options.namespace("distributed.collectives", collectives)
