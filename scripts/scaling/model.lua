-- scripts/scaling/model.lua: how long a step of training by several ranks takes, from what was
-- measured with one or two: docs/scaling.md says the formulas.

local model = {}

--- Seconds of a collective of `bytes` bytes over a ring of `ranks`: each of `passes` passes takes
--- ranks - 1 steps, in which every rank sends a part of bytes / ranks.
---@param link table alpha: seconds of a step that sends nothing; beta: seconds of a byte
---@param ranks integer
---@param bytes number
---@param passes integer 2 of an all_reduce, 1 of an all_gather or a reduce_scatter
---@return number
function model.ring(link, ranks, bytes, passes)
  return passes * (ranks - 1) * (link.alpha + link.beta * bytes / ranks)
end

--- The link whose all_reduce times between `ranks` are nearest to those measured, each weighed by
--- its size: least squares of relative errors.
---@param times table { { bytes = , seconds = }, ... }
---@param ranks integer
---@return table link
function model.fit(times, ranks)
  -- seconds = 2 (ranks - 1) alpha + 2 (ranks - 1) / ranks bytes beta
  local aa, ab, bb, a1, b1 = 0, 0, 0, 0, 0
  for _, each in ipairs(times) do
    local a = 2 * (ranks - 1) / each.seconds
    local b = 2 * (ranks - 1) / ranks * each.bytes / each.seconds
    aa, ab, bb, a1, b1 = aa + a * a, ab + a * b, bb + b * b, a1 + a, b1 + b
  end
  local determinant = aa * bb - ab * ab
  return { alpha = math.max(0, (a1 * bb - b1 * ab) / determinant),
    beta = math.max(0, (b1 * aa - a1 * ab) / determinant) }
end

-- Work that one processor does and transfers that are queued behind each other. A transfer takes
-- `share` of the processor from the work that goes on meanwhile.
local function new_clock(share)
  return { work = 0, transfers = 0, share = share }
end

-- Adds `seconds` of work; while transfers go on until `clock.transfers`, both share the processor.
local function do_work(clock, seconds)
  local overlap = math.max(0, clock.transfers - clock.work)
  -- Both are slower by 1 + share while both go on.
  local slower = 1 + clock.share
  local wall = math.min(seconds * slower, overlap * slower)
  local done = wall / slower
  if wall > 0 then
    clock.transfers = math.max(clock.transfers, clock.work + wall + overlap - done)
  end
  clock.work = clock.work + wall + seconds - done
end

local function start_transfer(clock, seconds)
  clock.transfers = math.max(clock.transfers, clock.work) + seconds
end

local function finish(clock) clock.work = math.max(clock.work, clock.transfers) end

-- What the measured times become with `ranks`: processes that share processors wait for each other,
-- and a step waits for the slowest of all.
local function scaled(measured, ranks, options)
  local crowd = math.max(1, math.min(ranks, options.ranks_per_machine) / options.processors)
  local wait = ranks > 1 and 1 + (measured.spread or 0) * math.sqrt(2 * math.log(ranks)) or 1
  local link = { alpha = options.link.alpha * crowd, beta = options.link.beta * crowd }
  return crowd * wait, link
end

--- Seconds of a step of DistributedDataParallel.
---@param measured table forward, optimizer: seconds; buckets: { { bytes = , seconds = of backward
---   that end with its last gradient }, ... }; pack: seconds that it takes to bring a byte of
---   gradients to its bucket and back (0); spread: the standard deviation of a step's computation,
---   as a part of it (0)
---@param ranks integer
---@param options table link; share: of a processor that transfers take; processors and
---   ranks_per_machine
---@return number seconds
---@return number exposed seconds that the step waits for transfers
function model.data_parallel(measured, ranks, options)
  local slower, link = scaled(measured, ranks, options)
  local clock = new_clock(options.share)
  local alone = measured.forward
  do_work(clock, measured.forward * slower)
  for _, bucket in ipairs(measured.buckets) do
    alone = alone + bucket.seconds
    do_work(clock, bucket.seconds * slower)
    if ranks > 1 then
      do_work(clock, (measured.pack or 0) * bucket.bytes * slower)
      start_transfer(clock, model.ring(link, ranks, bucket.bytes, 2))
    end
  end
  finish(clock)
  do_work(clock, measured.optimizer * slower)
  return clock.work, clock.work - (alone + measured.optimizer) * slower
end

--- Seconds of a step of fully sharded parameters: each unit is gathered before its forward and its
--- backward, while the unit before it computes, and its gradients are reduced and scattered after.
---@param measured table as of `data_parallel`; the buckets, in the order of backward, are the
---   units, and forward and the optimiser are divided among them as backward is
---@param ranks integer
---@param options table
---@return number seconds
---@return number exposed
function model.sharded(measured, ranks, options)
  local slower, link = scaled(measured, ranks, options)
  local units, backward = measured.buckets, 0
  for _, unit in ipairs(units) do backward = backward + unit.seconds end
  local clock = new_clock(options.share)
  -- When the parameters of the unit that is next are there.
  local function gather(unit)
    if ranks > 1 then start_transfer(clock, model.ring(link, ranks, unit.bytes, 1)) end
    return clock.transfers
  end
  local function pass(first, last, step, seconds_of, behind)
    local there = gather(units[first])
    for i = first, last, step do
      clock.work = math.max(clock.work, there)
      if i ~= last then there = gather(units[i + step]) end
      do_work(clock, seconds_of(units[i]) * slower)
      there = math.min(math.max(there, clock.work), clock.transfers)
      if behind then behind(units[i]) end
    end
  end
  pass(#units, 1, -1, function(unit) return measured.forward * unit.seconds / backward end)
  pass(1, #units, 1, function(unit) return unit.seconds end, function(unit)
    if ranks > 1 then start_transfer(clock, model.ring(link, ranks, unit.bytes, 1)) end
  end)
  finish(clock)
  -- Each rank updates its part.
  do_work(clock, measured.optimizer / ranks * slower)
  local alone = measured.forward + backward + measured.optimizer / ranks
  return clock.work, clock.work - alone * slower
end

return model
