-- stdlib/distributed/data_parallel.lua: nn.parallel.DistributedDataParallel: a module of which each
-- rank has a copy and trains it with its part of the data.

local Buckets = require "moonlet.distributed.buckets"
local Module = require "moonlet.nn.module"
local class = require "moonlet.class"
local collectives = require "moonlet.distributed.collectives"
local ml = require "moonlet"
local objects = require "moonlet.distributed.objects"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local state = require "moonlet.distributed.state"
local fail = options.fail

local data_parallel = {}

-- What belongs to each module beside its parameters.
local parts = setmetatable({}, { __mode = "k" })

-- Tensors of one dtype as one, and back: `f` changes it.
local function together(tensors, f)
  local lists, order = {}, {}
  for _, x in ipairs(tensors) do
    local key = x.dtype .. " " .. x.device
    if not lists[key] then
      lists[key] = {}
      order[#order + 1] = key
    end
    table.insert(lists[key], x)
  end
  local _ <close> = ml.no_grad()
  for _, key in ipairs(order) do
    local flats = {}
    for i, x in ipairs(lists[key]) do flats[i] = x:detach():reshape(-1) end
    local flat = ml.cat(flats)
    f(flat)
    local at = 1
    for _, x in ipairs(lists[key]) do
      x:detach():copy_(flat:narrow(1, at, x:numel()):view(x.shape))
      at = at + x:numel()
    end
  end
end

local function broadcast(tensors, src, group)
  together(tensors, function(flat) collectives.broadcast(flat, src, { group = group }) end)
end

-- All ranks must have the same parameters and buffers, in the same order.
local function check_same(module, group)
  local lines = {}
  for _, kind in ipairs { "named_parameters", "named_buffers" } do
    for name, x in module[kind](module) do
      lines[#lines + 1] = ("%s: %s (%s)%s"):format(name, x.dtype, table.concat(x.shape, ", "),
        x.requires_grad and "" or ", fixed")
    end
  end
  local all = {}
  objects.all_gather_object(all, lines, { group = group })
  for r, other in ipairs(all) do
    for i = 1, math.max(#lines, #other) do
      if lines[i] ~= other[i] then
        fail("DistributedDataParallel: the module is another one on rank %d: it has %s, here it "
          .. "is %s", group.ranks[r], other[i] or "nothing more", lines[i] or "at its end")
      end
    end
  end
end

local read_class = signature('nn.parallel.DistributedDataParallel(any module, '
  .. 'bool broadcast_buffers=true, Group? process_group=nil, number>0 bucket_cap_mb=25, '
  .. 'bool find_unused_parameters=false, bool gradient_as_bucket_view=false, '
  .. 'bool static_graph=false)')

--- Module of which each rank has a copy. Each trains it with its own part of the data, and backward
--- averages the gradients over the ranks, so that all copies stay the same: those of parameters
--- that backward has done with are on their way while it goes on. The parameters and buffers of
--- rank 0 are the first ones of all. In state dicts names begin with "module.";
--- `ddp.module:state_dict()` has them without.
--- > ml.distributed.init_process_group()
--- > net = ml.nn.parallel.DistributedDataParallel(ml.nn.Linear(2, 1))
--- > net(ml.ones(3, 2)):sum():backward()
--- > net.module.bias.grad
---   {3.}
---   Tensor (1,) float32
--- > ml.distributed.destroy_process_group()
---@param module table the module to train, or what `ml.compile` has made of it
---@param broadcast_buffers? boolean whether buffers are those of rank 0 before each forward
---@param process_group? table the group; all ranks unless given
---@param bucket_cap_mb? number MiB of gradients that are sent together
---@param find_unused_parameters? boolean whether parameters may have no gradient in a backward:
---   each forward then looks for those that its results depend on
---@param gradient_as_bucket_view? boolean whether gradients lie in what is sent, without a copy
---@param static_graph? boolean whether each backward uses the parameters that the first one used
---@shape inputs as the module's -> as the module's
---@field module table The module that it trains.
---@error a module that differs by rank, parameters without a gradient in the backward before
---@source Li et al., 2020: PyTorch distributed, experiences on accelerating data parallel training
local DistributedDataParallel = class("DistributedDataParallel", Module)
data_parallel.DistributedDataParallel = DistributedDataParallel

function DistributedDataParallel:init(...)
  local module, buffers, group, megabytes, unused, views, static = read_class(...)
  group = state.group_of("DistributedDataParallel", group)
  -- A compiled module is called, and what it stands for has the parameters.
  local original = Module._module_of(module)
  if not original then
    fail("DistributedDataParallel: 'module' must be a module, got %s", signature.describe(module))
  end
  local compiled = not rawequal(module, original) and module or nil
  module = original
  local parameters, names = {}, {}
  for name, p in module:named_parameters() do
    if p.requires_grad then
      parameters[#parameters + 1], names[#names + 1] = p, name
    end
  end
  if #parameters == 0 then
    fail "DistributedDataParallel: the module has no parameter that requires a gradient"
  end
  self.module = module
  local given = { group = group, names = names, as_views = views, find_unused = unused or static,
    bucket_bytes = math.floor(megabytes * (1 << 20)) }
  parts[self] = { group = group, compiled = compiled, broadcasts = buffers, given = given,
    static = static }
  if group.size > 1 then
    check_same(module, group)
    local all = {}
    for _, p in ipairs(module:parameters()) do all[#all + 1] = p end
    for _, b in ipairs(module:buffers()) do all[#all + 1] = b end
    broadcast(all, group.ranks[1], group)
    parts[self].buckets = Buckets(parameters, given)
  end
end

-- The nodes' leaves that results depend on.
local function leaves_of(value, seen, found)
  if ml.is_tensor(value) then
    if value.grad_fn == nil then
      if value.requires_grad then found[#found + 1] = value end
      return
    end
    local open = { value.grad_fn }
    while #open > 0 do
      local node = table.remove(open)
      if not seen[node] then
        seen[node] = true
        if node.variable then found[#found + 1] = node.variable end
        for _, edge in ipairs(node.next_functions) do
          if edge[1] then open[#open + 1] = edge[1] end
        end
      end
    end
  elseif type(value) == "table" then
    for _, item in pairs(value) do leaves_of(item, seen, found) end
  end
end

-- Of which parameters backward will have gradients.
local function used_by(buckets, results)
  local found, used, positions = {}, {}, {}
  leaves_of({ table.unpack(results, 1, results.n) }, {}, found)
  for i, p in ipairs(buckets.parameters) do positions[p] = i end
  for _, x in ipairs(found) do
    if positions[x] then used[positions[x]] = true end
  end
  return used
end

-- While some ranks have no more inputs, each forward first says that this one has some. Returns the
-- rank whose buffers all take.
local function present(part, active)
  local highest = ml.tensor({ active and part.group.rank or -1 }, { dtype = ml.int64 })
  collectives.all_reduce(highest, "max", { group = part.group })
  return highest:item()
end

local function send_buffers(self, part, source)
  if not part.broadcasts then return end
  local buffers = {}
  for _, b in ipairs(self.module:buffers()) do buffers[#buffers + 1] = b end
  if #buffers > 0 then broadcast(buffers, part.group.ranks[source + 1], part.group) end
end

-- Gives all ranks the buffers of rank 0, as a forward would.
function DistributedDataParallel:_sync_buffers()
  if parts[self].buckets then send_buffers(self, parts[self], 0) end
end

--- The module's results for this rank's part of the data.
--- > ml.distributed.init_process_group()
--- > ml.nn.parallel.DistributedDataParallel(ml.nn.Linear(2, 1)):forward(ml.ones(3, 2)).shape
---   (3, 1)
--- > ml.distributed.destroy_process_group()
---@param ... any the module's arguments
---@return any ...
function DistributedDataParallel:forward(...)
  local part = parts[self]
  local buckets = part.buckets
  local syncs = buckets and buckets.enabled and ml.is_grad_enabled()
  local module = part.compiled or self.module
  if not syncs then return module(...) end
  if buckets.waiting and next(buckets.ready) ~= nil then
    fail("DistributedDataParallel: the backward before has given no gradient to %s; "
      .. "find_unused_parameters = true is for that", buckets:missing())
  end
  local source = part.joins and present(part, true) or 0
  send_buffers(self, part, source)
  local results = table.pack(module(...))
  local used = part.static and part.used or nil
  if part.given.find_unused and not used then used = used_by(buckets, results) end
  if part.static then part.used = used end
  buckets:prepare(used)
  return table.unpack(results, 1, results.n)
end

local read_no_sync = signature "DistributedDataParallel:no_sync(function? f=nil)"

--- Lets gradients add up on each rank, without sending them: runs `f` so, or what follows until the
--- result, a `<close>` variable, ends. The first backward after it sends the sums.
--- > ml.distributed.init_process_group()
--- > net = ml.nn.parallel.DistributedDataParallel(ml.nn.Linear(1, 1))
--- > net:no_sync(function() net(ml.ones(1, 1)):sum():backward() end)
--- > ml.distributed.destroy_process_group()
---@param f? fun(): ... what is run
---@return any ... the results of `f`, or the guard
function DistributedDataParallel:no_sync(...)
  local f = read_no_sync(...)
  local buckets = parts[self].buckets or {}
  local before = buckets.enabled
  buckets.enabled = false
  local guard = setmetatable({}, { __close = function() buckets.enabled = before end })
  return options.under("DistributedDataParallel:no_sync", guard, f)
end

local read_join = signature "DistributedDataParallel:join(function f)"

--- Runs a loop of training whose number of steps differs by rank. Ranks that are done send zeros
--- for those that go on, and have at the end the parameters and buffers of the one that was done
--- last. Gradients are divided by the number of all ranks throughout. All ranks must call it.
--- > ml.distributed.init_process_group()
--- > net = ml.nn.parallel.DistributedDataParallel(ml.nn.Linear(1, 1))
--- > net:join(function() net(ml.ones(1, 1)):sum():backward() end)
--- > ml.distributed.destroy_process_group()
---@param f fun(): ... the loop of this rank
---@return any ... the results of `f`
function DistributedDataParallel:join(...)
  local f = read_join(...)
  local part = parts[self]
  if not part.buckets then return f() end
  part.joins = true
  local results
  do
    local _ <close> = setmetatable({}, { __close = function() part.joins = false end })
    results = table.pack(f())
  end
  local last = part.group.rank
  while true do
    local source = present(part, false)
    if source < 0 then break end
    last = source
    send_buffers(self, part, source)
    part.buckets:shadow()
  end
  -- Who was done earlier has seen the highest of the last ones; these have seen themselves.
  local highest = ml.tensor({ last }, { dtype = ml.int64 })
  collectives.all_reduce(highest, "max", { group = part.group })
  local all = {}
  for _, p in ipairs(self.module:parameters()) do all[#all + 1] = p end
  for _, b in ipairs(self.module:buffers()) do all[#all + 1] = b end
  broadcast(all, part.group.ranks[highest:item() + 1], part.group)
  return table.unpack(results, 1, results.n)
end

local read_hook = signature('DistributedDataParallel:register_comm_hook(any? state=nil, '
  .. 'function? hook=nil)')

--- Has a function of the script send the gradients, in place of the average by `all_reduce`.
--- `hook(state, bucket, group)` gets a `GradBucket`, whose buffer must hold the result when the
--- `wait` of the handle that it returns has returned.
--- > ml.distributed.init_process_group()
--- > net = ml.nn.parallel.DistributedDataParallel(ml.nn.Linear(1, 1))
--- > net:register_comm_hook(nil, ml.distributed.comm_hooks.fp16_compress_hook)
--- > ml.distributed.destroy_process_group()
---@param state any the first argument of each call
---@param hook fun(state: any, bucket: table, group: table): table starts to send a bucket
function DistributedDataParallel:register_comm_hook(...)
  local value, hook = read_hook(...)
  local given = parts[self].given
  if not hook then fail "register_comm_hook: 'hook' must be a function, got nil" end
  if given.hook then fail "register_comm_hook: there is a hook already" end
  given.hook, given.hook_state = hook, value
end

return options.namespace("distributed.data_parallel", data_parallel)
