-- stdlib/data/loader.lua: DataLoader: goes through a data set in batches.

local class = require "moonlet.class"
local distributed = require "moonlet.distributed.state"
local iterable = require "moonlet.data.iterable"
local ml = require "moonlet"
local options = require "moonlet.options"
local epoch = require "moonlet.data.epoch"
local sampler = require "moonlet.data.sampler"
local signature = require "moonlet.signature"
local fail = options.fail

local loader = {}

local function weak() return setmetatable({}, { __mode = "k" }) end

--- Iterates over a data set in batches: `for x, y in loader do` and `for x, y in loader:iter() do`
--- make one pass, `for i, batch in ipairs(loader) do` counts the batches (one of several fields is
--- an array there), and `#loader` is their number.
---
--- Workers are threads with an interpreter of their own and a copy of the data set, whose tensors
--- share memory; tensors' sizes are fixed from then on. Batches, and the random numbers of what
--- reads them, are the same for any number of workers. What reads the data may start workers too,
--- four levels deep. A loop that ends early ends the threads at once with `loader:iter()`, and
--- otherwise when the loader is used again or collected.
---
--- Where `ml.distributed` has several ranks when the loader is made, and neither `sampler` nor
--- `batch_sampler` is given, each rank gets its part of the examples, as by a `DistributedSampler`
--- of `shuffle`, `drop_last` and the seed of `generator`, or 0: every pass is the next epoch. A
--- sampler of one's own, such as `SequentialSampler(dataset)`, gives a rank all of them; an
--- `IterableDataset` is what each rank makes of it.
--- > set = ml.data.TensorDataset(ml.tensor{1, 2, 3, 4, 5})
--- > for x in ml.data.DataLoader(set, {batch_size = 2}) do print(x) end
---   {1, 2}
---   Tensor (2,) int64
---   {3, 4}
---   Tensor (2,) int64
---   {5}
---   Tensor (1,) int64
---@param dataset any a data set, or an array of examples
---@param batch_size? integer|boolean examples in a batch; false for single examples, as
---   PyTorch's `None`
---@param shuffle? boolean whether the order is random, drawn anew at each pass
---@param sampler? any gives the order of examples in place of `shuffle`
---@param batch_sampler? any gives batches of positions, in place of the three before and
---   `drop_last`
---@param num_workers? integer number of threads that read batches ahead; 0 reads in the script
---   itself
---@param collate_fn? function makes a batch of an array of examples; `data.default_collate`
---   unless given
---@param pin_memory? boolean puts batches into page-locked memory, where there is a CUDA device
---@param drop_last? boolean whether a last batch with fewer examples is left out
---@param timeout? number seconds to wait for a batch of a worker; 0 for ever
---@param worker_init_fn? function called in each worker with its number, from 1
---@param multiprocessing_context? any refused: workers are threads, so there is no way of
---   starting them to choose
---@param generator? moonlet.Generator random number generator; the default one unless given
---@param prefetch_factor? integer batches read ahead by each worker; 2 unless given
---@param persistent_workers? boolean whether workers are kept for the next pass
---@param pin_memory_device? string the CUDA device to pin for
---@param in_order? boolean whether batches come in order; false gives them as they are ready
local DataLoader = class.strict(class("DataLoader"), { "batches", "collate_fn", "generator" })
local field_of = DataLoader.__index
loader.DataLoader = DataLoader

local read_loader = signature("data.DataLoader(Dataset dataset, int|bool batch_size=1, "
  .. "bool shuffle=false, Sampler? sampler=nil, Sampler? batch_sampler=nil, int>=0 num_workers=0, "
  .. "function? collate_fn=nil, bool pin_memory=false, bool drop_last=false, number>=0 timeout=0, "
  .. "function? worker_init_fn=nil, any? multiprocessing_context=nil, Generator? generator=nil, "
  .. "int>=1? prefetch_factor=nil, bool persistent_workers=false, string? pin_memory_device=nil, "
  .. "bool in_order=true)")
  :alias("collate", "collate_fn")

-- What is for workers is an error without them, so nothing is taken in silence.
local function check_workers(o)
  if o.multiprocessing_context ~= nil then
    fail("DataLoader: 'multiprocessing_context': workers are threads of this process, so there is "
      .. "no way of starting processes to choose")
  elseif o.num_workers > 0 then
    return
  end
  local wanted = o.timeout > 0 and "timeout" or o.worker_init_fn and "worker_init_fn"
    or o.prefetch_factor and "prefetch_factor" or o.persistent_workers and "persistent_workers"
    or not o.in_order and "in_order"
  if wanted then fail("DataLoader: '%s' is for 'num_workers' above 0", wanted) end
end

-- Whether batches are pinned. Without a CUDA device there is nothing to pin them for, which is a
-- warning as in PyTorch.
local function wants_pinned(o)
  local device = o.pin_memory_device ~= "" and o.pin_memory_device or nil
  if device and not o.pin_memory then
    fail "DataLoader: 'pin_memory_device' is for 'pin_memory = true'"
  elseif device and not device:find "^cuda" then
    fail("DataLoader: 'pin_memory_device' must be a CUDA device, got '%s'", device)
  elseif not o.pin_memory then
    return false
  elseif not ml.cuda.is_available() then
    ml._warn_once("DataLoader pin_memory", "DataLoader: 'pin_memory' is true and there is no CUDA "
      .. "device; batches stay in ordinary memory")
    return false
  end
  if device then ml.cuda.memory_info(device) end
  return true
end

local function check_batch_size(o)
  if o.batch_size == true or o.batch_size and o.batch_size < 1 then
    fail("DataLoader: 'batch_size' must be an integer of at least 1, or false, got %s",
      tostring(o.batch_size))
  elseif o.batch_size == false and o.drop_last then
    fail "DataLoader: 'drop_last' is for batches, and 'batch_size' is false"
  end
end

-- The order in which this process takes examples.
local function order_of(o)
  if o.sampler then return o.sampler end
  local world = distributed.world
  if world and world.size > 1 then
    return sampler.RankSampler(o.dataset, { shuffle = o.shuffle, drop_last = o.drop_last,
      seed = o.generator and o.generator:initial_seed() or 0 })
  elseif o.shuffle then
    return sampler.RandomSampler(o.dataset, { generator = o.generator })
  end
  return sampler.SequentialSampler(o.dataset)
end

-- What gives the positions of each batch, or of each example where there are no batches; nil for a
-- data set without positions.
local function batches_of(o)
  if class.is_instance(o.dataset, iterable.IterableDataset) then
    local given = o.shuffle and "shuffle" or o.sampler and "sampler"
      or o.batch_sampler and "batch_sampler"
    if given then fail("DataLoader: an IterableDataset has no positions for '%s'", given) end
    return nil
  elseif o.sampler and o.shuffle then
    fail("DataLoader: 'sampler' and 'shuffle' exclude each other")
  elseif o.batch_sampler then
    if o.batch_size ~= 1 or o.shuffle or o.sampler or o.drop_last then
      fail("DataLoader: 'batch_sampler' excludes 'batch_size', 'shuffle', 'sampler', 'drop_last'")
    end
    return o.batch_sampler
  end
  local order = order_of(o)
  return o.batch_size and sampler.BatchSampler(order, o.batch_size, o.drop_last) or order
end

function DataLoader:init(...)
  local o = read_loader:table(...)
  check_workers(o)
  check_batch_size(o)
  self.dataset, self.collate_fn, self.batch_size = o.dataset, o.collate_fn, o.batch_size
  self.drop_last, self.generator, self.num_workers = o.drop_last, o.generator, o.num_workers
  self.epochs = weak()
  self.batches = batches_of(o)
  self.in_batches = o.batch_sampler ~= nil or o.batch_size ~= false
  self.pin_memory = wants_pinned(o)
  self.keeper = { persistent = o.persistent_workers }
  self.settings = { num_workers = o.num_workers, prefetch_factor = o.prefetch_factor or 2,
    timeout = o.timeout, in_order = o.in_order, worker_init_fn = o.worker_init_fn }
end

function DataLoader.__len(self)
  if self.batches then return #self.batches end
  local size = #self.dataset
  if not self.in_batches then return size end
  return self.drop_last and size // self.batch_size
    or (size + self.batch_size - 1) // self.batch_size
end

-- What the batches are read from, as workers get it: neither the loader nor its samplers.
local function source_of(self)
  return { dataset = self.dataset, collate_fn = self.collate_fn, batch_size = self.batch_size,
    in_batches = self.in_batches, drop_last = self.drop_last, pin = self.pin_memory }
end

--- One pass: an iterator that gives the fields of each batch. With workers, `for` also takes a
--- closing value from it, so that leaving the loop ends their threads.
--- > loader = ml.data.DataLoader(ml.data.TensorDataset(ml.tensor{1, 2, 3}), 2)
--- > for x in loader:iter() do print(x) end
---   {1, 2}
---   Tensor (2,) int64
---   {3}
---   Tensor (1,) int64
---@return fun(): ...
function DataLoader:iter()
  local next_positions = self.batches and self.batches:iter()
  local base_seed = epoch.draw_seed(self.generator)
  local source = source_of(self)
  if self.num_workers == 0 then return epoch.serial(source, next_positions, base_seed) end
  local step, running = epoch.parallel(source, self.settings, self.keeper, next_positions,
    base_seed)
  return step, nil, nil, running
end

local function start_counted_epoch(self)
  local before = rawget(self, "counted")
  if before and before.running then before.running:close() end
  local step, _, _, running = self:iter()
  rawset(self, "counted", { step = step, running = running, next = 1 })
end

-- `for i, batch in ipairs(loader)`: the first index begins an epoch, the others go on with it. A
-- batch of several fields is an array of them.
local function counted_batch(self, index)
  if index == 1 then start_counted_epoch(self) end
  local counted = rawget(self, "counted")
  if not counted or counted.next ~= index then
    fail("DataLoader: batches come one after the other from 1, as `ipairs(loader)` asks; "
      .. "got loader[%d]", index)
  end
  counted.next = index + 1
  local batch = table.pack(counted.step())
  if batch[1] == nil then rawset(self, "counted", nil) end
  if batch.n <= 1 then return batch[1] end
  batch.n = nil
  return batch
end

function DataLoader.__index(self, key)
  if math.type(key) == "integer" then return counted_batch(self, key) end
  return field_of(self, key)
end

-- Where the loop stands that calls: the running function and its depth, the line, and how many
-- loops of that function enclose the call.
local function loop_of(level)
  local info = debug.getinfo(level, "fl")
  local depth, loops = level, 0
  while debug.getinfo(depth, "l") do depth = depth + 1 end
  for i = 1, math.huge do
    local name = debug.getlocal(level, i)
    if not name then break end
    if name == "(for state)" then loops = loops + 1 end
  end
  return info.func, ("%d:%d:%d"):format(depth - level, info.currentline, loops)
end

-- The epochs that loops of the running coroutine are at: by the function, then by the position of
-- the loop.
local function running_epochs(self)
  local running = coroutine.running()
  local functions = self.epochs[running] or weak()
  self.epochs[running] = functions
  return functions
end

-- The only epoch whose last batch began with that field; nil if there are several, as where batches
-- are numbers or what the data set keeps.
local function epoch_after(functions, field)
  local found
  for _, epochs in pairs(functions) do
    for _, running in pairs(epochs) do
      if rawequal(running.last[1], field) then
        if found then return nil end
        found = running
      end
    end
  end
  return found
end

local function begin_epoch(self, functions)
  local func, position = loop_of(4)
  functions[func] = functions[func] or {}
  local left = functions[func][position]
  if left and left.running then left.running:close() end
  local step, _, _, running = self:iter()
  local begun = { step = step, running = running, last = setmetatable({}, { __mode = "v" }) }
  function begun.forget() functions[func][position] = nil end
  functions[func][position] = begun
  return begun
end

-- `for x, y in loader do` calls the loader itself, with nil at the start of the loop and then with
-- the first field of the batch before, by which the epoch is found. Where several loops have the
-- same one, it is found by the position of the loop.
function DataLoader:__call(_, control)
  local functions = running_epochs(self)
  local current
  if control == nil then
    current = begin_epoch(self, functions)
  else
    current = epoch_after(functions, control)
  end
  if not current then
    local func, position = loop_of(3)
    current = functions[func] and functions[func][position]
  end
  if not current then fail("DataLoader: this loop wants `for ... in loader:iter() do`") end
  local batch = table.pack(current.step())
  current.last[1] = batch[1]
  if batch[1] == nil then current.forget() end
  return table.unpack(batch, 1, batch.n)
end

return loader
