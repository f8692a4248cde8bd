-- stdlib/data/worker.lua: what the thread of a DataLoader's worker runs, in an interpreter of its
-- own; and what a data set may ask about it.

local fetch = require "moonlet.data.fetch"
local pin = require "moonlet.data.pin"
local signature = require "moonlet.signature"
local workers = require "moonlet.workers"

local worker = {}

-- In the interpreter of a worker what it is, elsewhere nil.
local info

local read_info = signature "data.get_worker_info()"

--- Returns a table that tells a data set in a worker which one it is, so that it can take its part
--- of the examples: `id`, from 1 (PyTorch's counts from 0), `num_workers`, `seed` (the base seed of
--- the epoch plus the id) and `dataset`, the worker's own copy. Returns nil in the script itself.
--- > ml.data.get_worker_info()
---   nil
---@return {id: integer, num_workers: integer, seed: integer, dataset: table}?
function worker.get_worker_info(...)
  read_info(...)
  return info
end

local function traced(message)
  return debug.traceback(type(message) == "string" and message or tostring(message), 2)
end

-- The results of a call: true and its results, or false and the error with its traceback.
local function guarded(f, ...) return table.pack(xpcall(f, traced, ...)) end

local function answer(send, epoch, number, results)
  if not results[1] then return send(epoch, number, "error", results[2]) end
  if results[2] == nil then return send(epoch, number, "end") end
  local sent = guarded(send, epoch, number, "batch", table.unpack(results, 2, results.n))
  if not sent[1] then send(epoch, number, "error", sent[2]) end
end

-- The epoch that a worker is at: its seed, and what reads its batches.
local function begin_epoch(source, epoch, base_seed)
  info.seed = base_seed + info.id
  local ok, read = table.unpack(guarded(fetch.new, source))
  return { number = epoch, base_seed = base_seed, read = ok and read, failed = not ok and read }
end

local function read_batch(source, epoch, number, positions)
  if epoch.failed then error(epoch.failed, 0) end
  fetch.seed(epoch.base_seed, number)
  if not source.pin then return epoch.read(positions) end
  return pin.values(epoch.read(positions))
end

local function init(worker_init_fn, base_seed)
  workers.seed(base_seed + info.id)
  if worker_init_fn then worker_init_fn(info.id) end
end

--- Answers the messages of a loader until there are no more: ("epoch", its number, its base seed),
--- and ("batch", the number in the epoch, positions).
---@param receive fun(): ...
---@param send fun(...: any)
---@param dataset table
---@param collate_fn? function
---@param worker_init_fn? function
---@param source table the loader's other options, which becomes what fetch.new takes
function worker.run(receive, send, dataset, collate_fn, worker_init_fn, source)
  local id = receive()
  if not id then return end
  source.dataset, source.collate_fn = dataset, collate_fn
  info = { id = id, num_workers = source.num_workers, seed = source.base_seed + id,
    dataset = dataset }
  local ready = guarded(init, worker_init_fn, source.base_seed)
  local epoch
  local function step(kind, number, value)
    if kind == "epoch" then
      epoch = begin_epoch(source, number, value)
      if not ready[1] then epoch.failed = ready[2] end
    elseif kind == "batch" then
      answer(send, epoch.number, number, guarded(read_batch, source, epoch, number, value))
    end
    return kind ~= nil
  end
  repeat until not step(receive())
end

return worker
