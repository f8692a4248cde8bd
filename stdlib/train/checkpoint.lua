-- stdlib/train/checkpoint.lua: Checkpoint: all that a run consists of in one file, to go on from.

local class = require "moonlet.class"
local distributed = require "moonlet.distributed.state"
local is_better = require("moonlet.train.early_stopping").is_better
local ml = require "moonlet"
local options = require "moonlet.options"
local serialize = require "moonlet.serialize"
local signature = require "moonlet.signature"
local system = require "moonlet.system"
local fail = options.fail

--- A file with the state of a run: `checkpoint:save { model = net, optimizer = opt, epoch = 3 }`
--- and, in another run, `checkpoint:load { model = net, optimizer = opt }`. The file is replaced
--- when the new one is complete.
--- > checkpoint = ml.train.Checkpoint(os.tmpname())
--- > checkpoint:save { model = ml.nn.Linear(2, 1), epoch = 3 }
--- > checkpoint:load({ model = ml.nn.Linear(2, 1) }).epoch
---   3
---@field path string The file.
---@param path string the file
---@param every? integer number of epochs between two files, for `step`
---@param monitor? string value of the history's row whose best epochs alone are saved, for `step`
---@param mode? string "min" or "max": what is better of `monitor`
local Checkpoint = class.strict(class("Checkpoint"), { "best", "monitor" })

local reader = signature('train.Checkpoint(string path, int>=1 every=1, string? monitor=nil, '
  .. 'Mode mode="min")')

function Checkpoint:init(...)
  for name, value in pairs(reader:table(...)) do self[name] = value end
end

local function has_state(part)
  return type(part) == "table" and type(part.state_dict) == "function"
    and type(part.load_state_dict) == "function"
end

local function is_generator(part) return getmetatable(part) == "Generator" end

-- The generators that a loader and its samplers draw from, but the default one.
local function generators_of(loader)
  local out, seen = {}, {}
  local function look(value)
    if type(value) ~= "table" or seen[value] then return end
    seen[value] = true
    local generator = rawget(value, "generator")
    if is_generator(generator) and not seen[generator] then
      seen[generator] = true
      out[#out + 1] = generator
    end
    for _, name in ipairs { "batches", "batch_sampler", "source", "sampler" } do
      look(rawget(value, name))
    end
  end
  look(loader)
  return out
end

-- The states of the generators of a loader.
local function loader_states(loader)
  local states = {}
  for i, generator in ipairs(generators_of(loader)) do states[i] = generator:get_state() end
  return states
end

-- A part as it is saved: its state, the states of a loader's generators, or a plain value.
local function saved(part)
  if is_generator(part) then return { rng = part:get_state() } end
  if class.of(part) and type(part.iter) == "function" and not has_state(part) then
    return { loader = loader_states(part) }
  end
  if has_state(part) then return { state = part:state_dict() } end
  return { value = part }
end

local read_save = signature("Checkpoint:save(dict parts)", "Checkpoint: save")

--- Saves the state of the default generator and of each part: of models, optimisers, schedules and
--- the like what `state_dict` gives; of generators and loaders the state of the random numbers;
--- tensors, numbers, strings, booleans and tables of them as they are. Of several ranks of
--- `ml.distributed` only rank 0 writes the file.
--- > checkpoint = ml.train.Checkpoint(os.tmpname())
--- > checkpoint:save { model = ml.nn.Linear(2, 1), epoch = 3 }
---@param parts table<string, any> the parts by name
function Checkpoint:save(...)
  local parts, out = read_save(...), {}
  if distributed.world and distributed.world.rank > 0 then return end
  for name, part in pairs(parts) do
    if type(name) ~= "string" then fail "Checkpoint: save: parts have names" end
    out[name] = saved(part)
  end
  serialize.save(self.path, { parts = out, rng = ml.get_rng_state(), moonlet_checkpoint = 1 })
end

local function read_file(path)
  local ok, value = pcall(serialize.load, path)
  if not ok then fail("Checkpoint: %s", (tostring(value):gsub("^[^:]*:%d+: ", ""))) end
  if type(value) ~= "table" or value.moonlet_checkpoint ~= 1 or type(value.parts) ~= "table"
      or type(value.rng) ~= "table" then
    fail("Checkpoint: '%s' is no checkpoint", path)
  end
  return value
end

local function set_loader_states(loader, states, name)
  local generators = generators_of(loader)
  if #generators ~= #states then
    fail("Checkpoint: load: '%s' has %d generators, the file %d", name or "data", #generators,
      #states)
  end
  for i, generator in ipairs(generators) do generator:set_state(states[i]) end
end

-- Gives a part its state back; false where the entry of the file is of another kind.
local function restore(name, part, entry)
  if is_generator(part) then
    if type(entry.rng) ~= "table" then return false end
    part:set_state(entry.rng)
  elseif has_state(part) then
    if type(entry.state) ~= "table" then return false end
    part:load_state_dict(entry.state)
  else
    if type(entry.loader) ~= "table" then return false end
    set_loader_states(part, entry.loader, name)
  end
  return true
end

-- Tables of tensors, with tensors of their own.
local function copied(value)
  if ml.is_tensor(value) then return value:detach():clone() end
  if type(value) ~= "table" or getmetatable(value) then return value end
  local out = {}
  for key, item in pairs(value) do out[key] = copied(item) end
  return out
end

-- What gives a part, as it is now, its state back.
local function undo_of(part)
  if is_generator(part) then
    local state = part:get_state()
    return function() part:set_state(state) end
  elseif has_state(part) then
    local state = copied(part:state_dict())
    return function() part:load_state_dict(state) end
  end
  local undo = {}
  for i, generator in ipairs(generators_of(part)) do undo[i] = undo_of(generator) end
  return function() for _, f in ipairs(undo) do f() end end
end

-- Runs `f(undo)`, which appends to `undo` what takes a step back; where it fails all are taken
-- back, the last one first.
local function whole_or_not(f)
  local undo = {}
  local ok, message = pcall(f, undo)
  if ok then return end
  for i = #undo, 1, -1 do
    local back, reason = pcall(undo[i])
    if not back then message = ("%s (and a part is half changed: %s)"):format(message, reason) end
  end
  error(message, 0)
end

local function sorted_names(parts)
  local names = {}
  for name in pairs(parts) do names[#names + 1] = tostring(name) end
  table.sort(names)
  return names
end

local read_load = signature("Checkpoint:load(dict parts)", "Checkpoint: load")

--- Loads the file into the parts and sets the default generator back. Returns the plain values that
--- were saved, by name.
--- > checkpoint = ml.train.Checkpoint(os.tmpname())
--- > checkpoint:save { epoch = 3 }
--- > checkpoint:load {}
---   {epoch = 3}
---@param parts table<string, any> the parts by name
---@return table<string, any> values
---@error for a part that is not in the file, or not as it is there; all parts are then as they were
function Checkpoint:load(...)
  local parts = read_load(...)
  return self:_load_from(read_file(self.path), parts)
end

-- The same from what the file holds, which another rank may have read.
function Checkpoint:_load_from(file, parts)
  local values = {}
  for _, name in ipairs(sorted_names(parts)) do
    if type(file.parts[name]) ~= "table" then
      fail("Checkpoint: load: '%s' has no '%s'; it has %s", self.path, name,
        table.concat(sorted_names(file.parts), ", "))
    end
  end
  whole_or_not(function(undo)
    for _, name in ipairs(sorted_names(parts)) do
      undo[#undo + 1] = undo_of(parts[name])
      if not restore(name, parts[name], file.parts[name]) then
        fail("Checkpoint: load: '%s' of '%s' is of another kind", name, self.path)
      end
    end
    ml.set_rng_state(file.rng)
  end)
  for name, entry in pairs(file.parts) do
    if type(entry) == "table" then values[name] = entry.value end
  end
  return values
end

--- Whether there is a file to load.
--- > ml.train.Checkpoint("no such file"):exists()
---   false
---@return boolean
function Checkpoint:exists() return system.exists(self.path) == "file" end

local read_step = signature("Checkpoint:step(int epoch, dict row, dict parts)",
  "Checkpoint: step")

--- Saves after an epoch where `every` and `monitor` say so, and returns whether it did.
--- > checkpoint = ml.train.Checkpoint(os.tmpname(), { every = 2 })
--- > checkpoint:step(1, { loss = 0.5 }, { epoch = 1 })
---   false
--- > checkpoint:step(2, { loss = 0.4 }, { epoch = 2 })
---   true
---@param epoch integer number of the epoch
---@param row table<string, number> the epoch's row of the history
---@param parts table<string, any> the parts by name
---@return boolean
function Checkpoint:step(...)
  local epoch, row, parts = read_step(...)
  if not self:_is_due(epoch, row) then return false end
  self:save(parts)
  return true
end

-- Whether to save after an epoch; notes the best value.
function Checkpoint:_is_due(epoch, row)
  if epoch % self.every ~= 0 then return false end
  if self.monitor then
    local value = row[self.monitor]
    if type(value) ~= "number" then
      fail("Checkpoint: step: there is no number '%s' in the row; it has %s", self.monitor,
        table.concat(sorted_names(row), ", "))
    end
    if not is_better(self, value, self.best, 0) then return false end
    self.best = value
  end
  return true
end

return { Checkpoint = Checkpoint, read = read_file, loader_states = loader_states,
  set_loader_states = set_loader_states }
