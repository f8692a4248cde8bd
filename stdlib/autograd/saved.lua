-- stdlib/autograd/saved.lua: in what form the tape keeps tensors for the backward pass: functions
-- of ml.autograd.graph that pack them, move them away, or keep changes in place from them.

local ml = require "moonlet"
local fail = require("moonlet.options").fail
local is_callable = require("moonlet.options").is_callable
local signature = require "moonlet.signature"
local system = require "moonlet.system"

local saved = {}

local under = require("moonlet.options").under

local function check_function(where, name, f)
  if not is_callable(f) then
    fail("%s: '%s': a function is expected, got %s", where, name, signature.describe(f))
  end
end

--- Runs `f`, or the rest of the block that holds the result with `<close>`, with hooks for what is
--- saved for gradients: `pack(tensor)` gives what is kept in place of each saved tensor, any value,
--- and `unpack(value)` gives the tensor each time a gradient needs it. Both run without recording;
--- the tensor that `pack` gets must not be changed in place, and later in-place changes of it are
--- not found. Of nested hooks the innermost count.
--- > to_half = function(t) return t:to(ml.bfloat16) end
--- > to_float = function(t) return t:to(ml.float32) end
--- > x = ml.ones(2, { requires_grad = true })
--- > y = ml.autograd.graph.saved_tensors_hooks(to_half, to_float, function() return x:exp() end)
--- > ml.grad(y:sum(), x)
---   {2.7188, 2.7188}
---   Tensor (2,) float32
---@param pack fun(tensor: moonlet.Tensor): any gives what is kept of a tensor
---@param unpack fun(value: any): moonlet.Tensor gives the tensor again
---@param f? fun(...): ... the function to run; without it the result is held as a `<close>`
---   variable
---@param ... any what `f` gets
---@return any ... its results, or the value to hold
---@shape saved (*) -> unpacked (*)
---@see autograd.graph.save_on_cpu
function saved.saved_tensors_hooks(pack, unpack, f, ...)
  check_function("saved_tensors_hooks", "pack", pack)
  check_function("saved_tensors_hooks", "unpack", unpack)
  return under("saved_tensors_hooks", ml._saved_tensors_hooks(pack, unpack), f, ...)
end

--- Makes `saved_tensors_hooks`, and what is built on it, an error inside of `f` or the rest of the
--- block.
--- > id = function(t) return t end
--- > ml.autograd.graph.disable_saved_tensors_hooks("not here", function()
---     return (pcall(ml.autograd.graph.saved_tensors_hooks, id, id, id)) end)
---   false
---@param message string the error's message
---@param f? fun(...): ... the function to run; without it the result is held as a `<close>`
---   variable
---@param ... any what `f` gets
---@return any ... its results, or the value to hold
function saved.disable_saved_tensors_hooks(message, f, ...)
  if type(message) ~= "string" then
    fail("disable_saved_tensors_hooks: 'message' must be a string, got %s",
      signature.describe(message))
  end
  return under("disable_saved_tensors_hooks", ml._no_saved_tensors_hooks(message), f, ...)
end

local read_on_cpu = signature("graph.save_on_cpu(bool pin_memory=false)", "save_on_cpu")

--- Runs `f`, or the rest of the block, with what is saved for gradients kept in the memory of the
--- CPU and brought back to its device when it is needed: for models on a device whose memory is too
--- small.
--- > x = ml.ones(2, { requires_grad = true })
--- > y = ml.autograd.graph.save_on_cpu(nil, function() return x:exp() end)
--- > ml.grad(y:sum(), x)
---   {2.7183, 2.7183}
---   Tensor (2,) float32
---@param options? {pin_memory?: boolean}
---@param options.pin_memory? boolean whether that memory is page-locked, where there is a CUDA
---   device (default false)
---@param f? fun(...): ... the function to run; without it the result is held as a `<close>`
---   variable
---@param ... any what `f` gets
---@return any ... its results, or the value to hold
function saved.save_on_cpu(...)
  local function start(given, f, ...)
    local pins = given.pin_memory and ml.cuda.is_available()
    local function pack(t)
      local kept = t:to "cpu"
      return { t.device, pins and kept:pin_memory() or kept }
    end
    local function unpack(kept) return kept[2]:to(kept[1]) end
    local guard = ml._saved_tensors_hooks(pack, unpack)
    return under("save_on_cpu", guard, f, ...)
  end
  return start(read_on_cpu:before_function(...))
end

-- A file that goes when nobody holds it any more.
local File = {}
File.__index = File
File.__close = function(self) os.remove(self.path) end
File.__gc = File.__close

-- Each guard numbers its files; the name of a temporary file keeps them apart from others'.
local function namer(folder)
  local base = os.tmpname()
  os.remove(base)
  if folder then base = folder:gsub("/+$", "") .. "/" .. select(2, system.split(base)) end
  local count = 0
  return function()
    count = count + 1
    return ("%s-%d.safetensors"):format(base, count)
  end
end

local read_to_disk = signature("graph.save_to_disk(string? folder=nil)", "save_to_disk")

--- Runs `f`, or the rest of the block, with what is saved for gradients kept in files. A file is
--- removed when the graph frees what is in it.
--- > x = ml.ones(2, { requires_grad = true })
--- > y = ml.autograd.graph.save_to_disk(nil, function() return x:exp() end)
--- > ml.grad(y:sum(), x)
---   {2.7183, 2.7183}
---   Tensor (2,) float32
---@param options? {folder?: string}
---@param options.folder? string where the files go; the system's temporary folder unless given
---@param f? fun(...): ... the function to run; without it the result is held as a `<close>`
---   variable
---@param ... any what `f` gets
---@return any ... its results, or the value to hold
function saved.save_to_disk(...)
  local function start(given, f, ...)
    local next_path = namer(given.folder)
    local guard = ml._saved_tensors_hooks(function(t)
      local file = setmetatable({ path = next_path(), device = t.device }, File)
      ml.save(file.path, { t = t:detach() })
      return file
    end, function(file) return ml.load(file.path, { device = file.device }).t end)
    return under("save_to_disk", guard, f, ...)
  end
  return start(read_to_disk:before_function(...))
end

-- What allow_mutation_on_saved_tensors keeps: by storage the tensors saved of it, weakly.
local Kept = {}
Kept.__index = Kept

function Kept:add(t)
  local entry = { tensor = t, version = t._version }
  local key = t:storage():data_ptr()
  self[key] = self[key] or setmetatable({}, { __mode = "v" })
  table.insert(self[key], entry)
  return entry
end

-- Copies what is saved of the memory that is about to change.
function Kept:before_change(t)
  local key = t:storage():data_ptr()
  local entries = rawget(self, key)
  if not entries then return end
  self[key] = nil
  local _ <close> = ml.no_grad()
  for _, entry in pairs(entries) do
    entry.tensor = entry.tensor:clone()
    entry.version = entry.tensor._version
  end
end

local function value_of(entry)
  if entry.tensor._version ~= entry.version then
    fail("backward: a saved tensor of shape %s was changed in place after the block of "
      .. "allow_mutation_on_saved_tensors", entry.tensor.shape)
  end
  return entry.tensor
end

--- Runs `f`, or the rest of the block, so that tensors saved for a gradient in it may be changed
--- in place: they are copied before. Changes after the block are errors in backward as ever.
--- > ml.autograd.graph.allow_mutation_on_saved_tensors(function()
---     local w = ml.ones(2, { requires_grad = true })
---     local a = w * 2
---     local y = a:sin():sum()
---     a:zero_()
---     y:backward()
---     return w.grad
---   end)
---   {-0.8323, -0.8323}
---   Tensor (2,) float32
---@param f? fun(...): ... the function to run; without it the result is held as a `<close>`
---   variable
---@param ... any what `f` gets
---@return any ... its results, or the value to hold
function saved.allow_mutation_on_saved_tensors(f, ...)
  local kept = setmetatable({}, Kept)
  local hooks = ml._saved_tensors_hooks(function(t) return kept:add(t) end, value_of)
  local changes = ml.override(function(op, arguments, call)
    for _, i in ipairs(op.writes) do
      local t = arguments[i]
      if ml.is_tensor(t) then kept:before_change(t) end
    end
    return call(arguments)
  end)
  local guard = setmetatable({}, { __close = function()
    local _ <close> = hooks
    local _ <close> = changes
  end })
  return under("allow_mutation_on_saved_tensors", guard, f, ...)
end

return saved
