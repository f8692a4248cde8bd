-- stdlib/data/loader.lua: DataLoader: goes through a data set in batches.

local class = require "moonlet.class"
local collate = require "moonlet.data.collate"
local dataset = require "moonlet.data.dataset"
local iterable = require "moonlet.data.iterable"
local ml = require "moonlet"
local options = require "moonlet.options"
local sampler = require "moonlet.data.sampler"
local signature = require "moonlet.signature"
local fail = options.fail

local loader = {}

local function weak() return setmetatable({}, { __mode = "k" }) end

--- `data.DataLoader(set, { batch_size = 64, shuffle = true })`. `for x, y in loader do` and
--- `for x, y in loader:iter() do` go through the set once; `#loader` is the number of batches.
--- Options: `batch_size` (1; `false` for the examples themselves, as PyTorch's `None`), `shuffle`,
--- `sampler`, `batch_sampler` (in the place of those three and `drop_last`), `collate_fn` (a
--- function from an array of examples, each an array of fields, to the batch; without batches, from
--- the array of the fields of one; `data.default_collate`), `drop_last`, `generator`. Examples are
--- read by the thread of the script: `num_workers` must be 0, and what goes with workers and with
--- pinned memory (`pin_memory`, `timeout`, `worker_init_fn`, `prefetch_factor`,
--- `persistent_workers`) must have its default.
local DataLoader = class("DataLoader")
loader.DataLoader = DataLoader

local read_loader = signature("data.DataLoader(Dataset dataset, int|bool batch_size=1, "
  .. "bool shuffle=false, Sampler? sampler=nil, Sampler? batch_sampler=nil, int>=0 num_workers=0, "
  .. "function? collate_fn=nil, bool pin_memory=false, bool drop_last=false, number>=0 timeout=0, "
  .. "function? worker_init_fn=nil, Generator? generator=nil, int>=1? prefetch_factor=nil, "
  .. "bool persistent_workers=false)")
  :alias("collate", "collate_fn")

-- Workers and pinned memory are not there, so nothing that needs them is taken in silence.
local function check_workers(o)
  if o.num_workers > 0 then
    fail("DataLoader: 'num_workers' is %d: there are no workers here, examples are read by the "
      .. "script's own thread; give 0", o.num_workers)
  elseif o.pin_memory then
    fail "DataLoader: 'pin_memory': there is no pinned memory here"
  end
  local wanted = o.timeout > 0 and "timeout" or o.worker_init_fn and "worker_init_fn"
    or o.prefetch_factor and "prefetch_factor" or o.persistent_workers and "persistent_workers"
  if wanted then fail("DataLoader: '%s' is for 'num_workers' above 0", wanted) end
end

local function check_batch_size(o)
  if o.batch_size == true or o.batch_size and o.batch_size < 1 then
    fail("DataLoader: 'batch_size' must be an integer of at least 1, or false, got %s",
      tostring(o.batch_size))
  elseif o.batch_size == false and o.drop_last then
    fail "DataLoader: 'drop_last' is for batches, and 'batch_size' is false"
  end
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
  local order = o.sampler
    or o.shuffle and sampler.RandomSampler(o.dataset, { generator = o.generator })
    or sampler.SequentialSampler(o.dataset)
  return o.batch_size and sampler.BatchSampler(order, o.batch_size, o.drop_last) or order
end

function DataLoader:init(...)
  local o = read_loader:table(...)
  check_workers(o)
  check_batch_size(o)
  self.dataset, self.collate_fn, self.batch_size = o.dataset, o.collate_fn, o.batch_size
  self.drop_last = o.drop_last
  self.passes = weak()
  self.batches = batches_of(o)
  self.in_batches = o.batch_sampler ~= nil or o.batch_size ~= false
end

function DataLoader.__len(self)
  if self.batches then return #self.batches end
  local size = #self.dataset
  if not self.in_batches then return size end
  return self.drop_last and size // self.batch_size
    or (size + self.batch_size - 1) // self.batch_size
end

local function convert_fields(fields)
  return table.unpack(collate.default_convert(fields), 1, #fields)
end

-- The positions of a batch that a script's own sampler gave, as a tensor.
local function as_tensor(positions)
  if ml.is_tensor(positions) then return positions end
  for _, position in ipairs(positions) do
    if math.type(position) ~= "integer" then
      fail("DataLoader: the sampler gave the position %s, an integer is wanted",
        signature.describe(position))
    end
  end
  return ml.tensor(positions, { dtype = ml.int64 })
end

-- The batch at a tensor or an array of positions.
local function read_batch(self, positions)
  local set = self.dataset
  if not ml.is_tensor(positions) and type(positions) ~= "table" then
    fail("DataLoader: 'batch_sampler' must give tensors or arrays of positions, got %s",
      signature.describe(positions))
  elseif not self.collate_fn and dataset.reads_batches(set) then
    return set:get_batch(as_tensor(positions))
  end
  local examples = {}
  if ml.is_tensor(positions) then positions = positions:totable() end
  for i, position in ipairs(positions) do examples[i] = dataset.example(set, position) end
  return (self.collate_fn or collate.default_collate)(examples)
end

local function pass_by_position(self)
  local next_positions = self.batches:iter()
  return function()
    local positions = next_positions()
    if positions == nil then return nil end
    if self.in_batches then return read_batch(self, positions) end
    return (self.collate_fn or convert_fields)(dataset.example(self.dataset, positions))
  end
end

-- A pass through a data set without positions.
local function pass_in_order(self)
  local next_example, ended = self.dataset:iter(), false
  local function one()
    if ended then return nil end
    local fields = { next_example() }
    ended = fields[1] == nil
    return not ended and fields or nil
  end
  return function()
    if not self.in_batches then
      local fields = one()
      if fields then return (self.collate_fn or convert_fields)(fields) end
      return nil
    end
    local examples = {}
    while #examples < self.batch_size do
      examples[#examples + 1] = one()
      if ended then break end
    end
    if #examples == 0 or self.drop_last and #examples < self.batch_size then return nil end
    return (self.collate_fn or collate.default_collate)(examples)
  end
end

--- One pass: an iterator that gives the fields of each batch.
---@return fun(): ...
function DataLoader:iter()
  return (self.batches and pass_by_position or pass_in_order)(self)
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

-- The table of the passes that `func` has begun in the running coroutine, by the place of the loop.
local function passes_of(self, func)
  local running = coroutine.running()
  local functions = self.passes[running] or weak()
  self.passes[running] = functions
  functions[func] = functions[func] or {}
  return functions[func]
end

-- `for x, y in loader do` calls the loader itself, with nil at the start of the loop and then with
-- the first field of the batch before. That field may be the same in several loops, so the pass is
-- found by the place of the loop.
function DataLoader:__call(_, control)
  local func, place = loop_of(3)
  local passes = passes_of(self, func)
  if control == nil then passes[place] = self:iter() end
  local pass = passes[place]
  if not pass then fail("DataLoader: this loop wants `for ... in loader:iter() do`") end
  local batch = table.pack(pass())
  if batch[1] == nil then passes[place] = nil end
  return table.unpack(batch, 1, batch.n)
end

return loader
