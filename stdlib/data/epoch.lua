-- stdlib/data/epoch.lua: one epoch of a DataLoader, which goes once through its data: batch by
-- batch in the script's own thread, or ahead of it by workers. The batches and their random numbers
-- are the same.

local fetch = require "moonlet.data.fetch"
local ml = require "moonlet"
local options = require "moonlet.options"
local pin = require "moonlet.data.pin"
local workers = require "moonlet.workers"
local fail = options.fail

local epoch = {}

--- The seed of an epoch, from which those of its batches follow, drawn once for each epoch.
---@param generator? Generator
---@return integer
function epoch.draw_seed(generator)
  return ml.randint(0, 1 << 62, { 1 }, { dtype = ml.int64, generator = generator }):item()
end

-- What gives the positions of the batches. A sampler that draws while it goes on has random numbers
-- of its own, as it runs ahead of the script as far as there are workers.
local function sampled(next_positions, base_seed)
  local own
  do
    local _ <close> = workers.kept()
    fetch.seed(base_seed, 0)
    own = workers.kept()
  end
  return function()
    local _ <close> = workers.kept()
    workers.exchange(own)
    local positions = next_positions()
    workers.exchange(own)
    return positions
  end
end

--- An epoch in the script's thread: a function that gives the fields of the next batch.
---@param source table see fetch.new
---@param next_positions? fun(): any
---@param base_seed integer
---@return fun(): ...
function epoch.serial(source, next_positions, base_seed)
  local read, number = fetch.new(source), 0
  if next_positions then next_positions = sampled(next_positions, base_seed) end
  local function values(positions)
    if source.pin then return pin.values(read(positions)) end
    return read(positions)
  end
  return function()
    local positions
    if next_positions then
      positions = next_positions()
      if positions == nil then return nil end
    end
    number = number + 1
    local _ <close> = workers.kept()
    fetch.seed(base_seed, number)
    return values(positions)
  end
end

-- --- with workers --------------------------------------------------------------------------------

-- The threads of a loader: they outlive an epoch where the loader says so.
local function start(source, settings, base_seed)
  local rest = { num_workers = settings.num_workers, base_seed = base_seed,
    batch_size = source.batch_size, in_batches = source.in_batches, drop_last = source.drop_last,
    pin = source.pin }
  local pool = workers.start(settings.num_workers, "moonlet.data.worker", source.dataset,
    source.collate_fn, settings.worker_init_fn, rest)
  for id = 1, settings.num_workers do pool:send(id, id) end
  return pool
end

local Epoch = {}
Epoch.__index = Epoch

-- The worker that gets the next task: in turn, or in any order the one that has just given a batch.
local function choose(self)
  if not self.in_order and self.last and not self.ended[self.last] then return self.last end
  for _ = 1, self.num_workers do
    self.turn = self.turn % self.num_workers + 1
    if not self.ended[self.turn] then return self.turn end
  end
  return nil
end

local function next_task(self)
  if not self.next_positions then return true, nil end
  local ok, positions = pcall(self.next_positions)
  if not ok then
    -- When the batches before it have been given.
    self.sent = self.sent + 1
    self:keep(self.sent, table.pack("raise", positions))
    self.exhausted = true
    return false
  end
  self.exhausted = positions == nil
  return not self.exhausted, positions
end

local function put(self)
  local id = not self.exhausted and choose(self)
  if not id then return end
  local there, positions = next_task(self)
  if not there then return end
  self.sent = self.sent + 1
  self.workers_of[self.sent] = id
  self.pool:send(id, "batch", self.sent, positions)
end

-- Results wait until it is their turn.
function Epoch:keep(number, result)
  result.number = number
  self.results[self.in_order and number or #self.results + 1] = result
end

local function receive(self)
  local _ <close> = self.guard
  local timeout = self.timeout > 0 and self.timeout or nil
  local message = table.pack(self.pool:receive(timeout))
  if message.n == 0 then fail("DataLoader timed out after %g seconds", self.timeout) end
  local number, index = message[1], message[2]
  if number ~= self.number then return end  -- of an epoch that was left
  self:keep(index, table.pack(table.unpack(message, 3, message.n)))
end

-- The next result in its order, or nil when there are no more.
local function take(self)
  local position = self.in_order and self.given + 1 or 1
  while not self.results[position] do
    if self.given == self.sent then put(self) end
    if self.given == self.sent then return nil end
    if not self.results[position] then receive(self) end
  end
  self.given = self.given + 1
  if not self.in_order then return table.remove(self.results, 1) end
  local result = self.results[position]
  self.results[position] = nil
  return result
end

--- Ends the epoch: its threads too, unless they are kept for the next one.
function Epoch:close()
  if self.over then return end
  self.over = true
  self.results = {}
  if not self.keeper.persistent then self.pool:stop() end
end

Epoch.__close = Epoch.close

local function check_current(self)
  if self.keeper.epoch ~= self then
    fail "DataLoader: the loader has begun another pass, with the same persistent workers"
  end
end

local function give(self)
  if self.over then return nil end
  check_current(self)
  while true do
    local result = take(self)
    if not result then
      self:close()
      return nil
    end
    local id, kind = self.workers_of[result.number], result[1]
    self.workers_of[result.number], self.last = nil, id
    if kind == "end" and id then self.ended[id] = true end
    put(self)
    if kind == "batch" then return table.unpack(result, 2, result.n) end
    if kind == "raise" then error(result[2], 0) end
    if kind == "error" then
      fail("DataLoader: worker %d, batch %d: %s", id, result.number, result[2])
    end
    if self.next_positions then return nil end
  end
end

-- Ends the threads when a wait for them is cut off, by a time or Ctrl-C.
local function guard_of(self)
  return setmetatable({}, { __close = function(_, problem)
    if problem == nil then return end
    self.over = true
    self.keeper.pool = nil
    self.pool:stop()
  end })
end

--- An epoch by workers. `keeper` is a table that holds the threads between epochs: `pool`,
--- `persistent`, and the `epoch` that they are at. Returns the function that gives the next batch,
--- and the epoch, to close.
---@param source table see fetch.new
---@param settings table the loader's options
---@param keeper table
---@param next_positions? fun(): any
---@param base_seed integer
---@return fun(): ...
---@return table
function epoch.parallel(source, settings, keeper, next_positions, base_seed)
  if not keeper.persistent or not keeper.pool or not keeper.pool:is_open() then
    keeper.pool = start(source, settings, base_seed)
  end
  keeper.epochs = (keeper.epochs or 0) + 1
  local self = setmetatable({ pool = keeper.pool, keeper = keeper, number = keeper.epochs,
    num_workers = settings.num_workers, in_order = settings.in_order, timeout = settings.timeout,
    next_positions = next_positions and sampled(next_positions, base_seed),
    sent = 0, given = 0, turn = 0, results = {}, workers_of = {}, ended = {} }, Epoch)
  self.guard = guard_of(self)
  keeper.epoch = self
  for id = 1, self.num_workers do self.pool:send(id, "epoch", self.number, base_seed) end
  for _ = 1, self.num_workers * settings.prefetch_factor do put(self) end
  return function() return give(self) end, self
end

return epoch
