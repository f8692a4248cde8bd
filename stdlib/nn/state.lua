-- stdlib/nn/state.lua: what nn.Module does with the tensors it holds: the state dict, loading it,
-- and moving to another dtype or device.

local Module = require "moonlet.nn.module"
local class = require "moonlet.class"
local ml = require "moonlet"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

-- Puts every parameter and persistent buffer into `out` under its full name; tied ones come under
-- each of their names.
local function gather(self, prefix, out, above)
  if above[self] then fail("%s: the module contains itself", class.name(class.of(self))) end
  above[self] = true
  self:each_field(function(name, value, kind)
    if kind == "module" then
      gather(value, prefix .. name .. ".", out, above)
    elseif kind == "parameter" or not self._registry.transient[name] then
      out[prefix .. name] = value
    end
  end)
  above[self] = nil
  return out
end

local read_state_dict = signature(
  "Module:state_dict(string prefix=\"\", bool keep_vars=false)")

--- All parameters and persistent buffers by name ("fc.weight"), sharing memory with the module. The
--- names are PyTorch's: what stands at position 1 of a Sequential or a list is named "0". `prefix`
--- comes before each name; with `keep_vars` the values are the parameters themselves.
---@param prefix? string
---@param keep_vars? boolean
---@return table<string, Tensor>
function Module:state_dict(...)
  local prefix, keep_vars = read_state_dict(...)
  local out = gather(self, prefix, {}, {})
  if not keep_vars then
    for name, tensor in pairs(out) do out[name] = tensor:detach() end
  end
  return out
end

local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  return keys
end

local function compare(own, given)
  local missing, unexpected, mismatched = {}, {}, {}
  for _, name in ipairs(sorted_keys(own)) do
    local value = given[name]
    if value == nil then
      missing[#missing + 1] = name
    elseif not ml.is_tensor(value) then
      mismatched[#mismatched + 1] = ("%s (a %s, wanted a tensor)"):format(name, type(value))
    elseif value.shape ~= own[name].shape then
      mismatched[#mismatched + 1] = ("%s (%s, wanted %s)"):format(name, tostring(value.shape),
        tostring(own[name].shape))
    end
  end
  for _, name in ipairs(sorted_keys(given)) do
    if own[name] == nil then unexpected[#unexpected + 1] = tostring(name) end
  end
  return missing, unexpected, mismatched
end

local function refuse(self, missing, unexpected, mismatched)
  local name = class.name(class.of(self))
  local lines = { ("load_state_dict: the state does not fit %s"):format(name) }
  local function add(title, list)
    if #list > 0 then lines[#lines + 1] = ("  %s: %s"):format(title, table.concat(list, ", ")) end
  end
  add("missing", missing)
  add("unexpected", unexpected)
  add("of another shape", mismatched)
  fail("%s", table.concat(lines, "\n"))
end

local read_load = signature "Module:load_state_dict(dict state_dict, bool strict=true)"

--- Copies the tensors of `state_dict` into the module's own, converting their dtype and device.
--- Keys that are missing, unexpected or of another shape are an error that lists them all, and
--- nothing is loaded; `{ strict = false }` accepts missing and unexpected ones, whose names are in
--- the result. To load a part, as for a network with a new last layer, set the other keys of
--- `state_dict` to nil first.
---@param state_dict table<string, Tensor>
---@param strict? boolean (default true)
---@return table { missing = string[], unexpected = string[] }
function Module:load_state_dict(...)
  local state, strict = read_load(...)
  local own = gather(self, "", {}, {})
  local missing, unexpected, mismatched = compare(own, state)
  if #mismatched > 0 or (strict and #missing + #unexpected > 0) then
    refuse(self, missing, unexpected, mismatched)
  end
  local _ <close> = ml.no_grad()
  for name, tensor in pairs(own) do
    if state[name] ~= nil then tensor:copy_(state[name]:to(tensor.device)) end
  end
  return { missing = missing, unexpected = unexpected }
end

-- The format for one tensor: those of channels are for tensors of 4 or 5 dimensions.
local function format_for(tensor, format)
  local rank = ({ channels_last = 4, channels_last_3d = 5 })[format]
  return (rank == nil or rank == tensor.ndim) and format or nil
end

-- The tensor behind the same Lua value changes, so an optimiser that holds it sees the new one.
local function convert(tensor, target)
  local dtype = tensor:is_floating_point() and target.dtype or tensor.dtype
  local device = target.device or tensor.device
  local format = format_for(tensor, target.memory_format)
  local lies = not format or tensor:is_contiguous { memory_format = format }
  if lies and dtype == tensor.dtype and device == tensor.device then return end
  local options_of_copy = { dtype = dtype, device = device, memory_format = format }
  local moved = tensor:detach():to(options_of_copy)
  local grad = tensor.grad
  moved:requires_grad_(tensor.requires_grad)
  if grad then moved.grad = grad:to(options_of_copy) end
  ml._rebind(tensor, moved)
end

local read_to = signature(
  "Module:to(string|Tensor? device=nil, string? dtype=nil, string? memory_format=nil)")

--- Moves parameters and buffers: `to("cuda")`, `to("float64")`, `to("cuda", "float64")`, `to(x)`
--- as the tensor x is, `to { dtype = .., device = .., memory_format = .. }`. A dtype reaches
--- floating tensors only, the format "channels_last" those of 4 dimensions. The parameters stay the
--- same Lua values.
---@param device? string|Tensor
---@param dtype? string
---@param memory_format? string
---@return table self
function Module:to(...)
  local o = read_to:table(...)
  if ml.is_tensor(o.device) then
    o.device, o.dtype = o.device.device, o.dtype or o.device.dtype
  elseif o.device and rawget(ml, o.device) == o.device then
    if o.dtype then fail("to: the dtype is given twice: %s and %s", o.device, o.dtype) end
    o.device, o.dtype = nil, o.device
  end
  -- An unknown device, dtype or format is an error before anything has moved.
  local trial = ml.empty { 0, dtype = o.dtype, device = o.device }
  trial:is_contiguous { memory_format = o.memory_format }
  if o.dtype and not o.dtype:find("float") then
    fail("to: modules take floating dtypes, got %s", o.dtype)
  end
  for _, p in ipairs(self:parameters()) do convert(p, o) end
  for _, b in ipairs(self:buffers()) do convert(b, o) end
  return self
end

local read_cuda = signature "Module:cuda(int>=0|string device=\"cuda\")"

--- The same as `to("cuda")`, or `to("cuda:1")` with a device or its number.
---@param device? integer|string
---@return table self
function Module:cuda(...)
  local device = read_cuda(...)
  return self:to(type(device) == "number" and "cuda:" .. device or device)
end

local read_cpu = signature "Module:cpu()"

--- The same as `to("cpu")`.
---@return table self
function Module:cpu(...)
  read_cpu(...)
  return self:to("cpu")
end

local read_float = signature "Module:float()"

--- The same as `to("float32")`.
---@return table self
function Module:float(...)
  read_float(...)
  return self:to("float32")
end

local read_double = signature "Module:double()"

--- The same as `to("float64")`.
---@return table self
function Module:double(...)
  read_double(...)
  return self:to("float64")
end

local read_half = signature "Module:half()"

--- The same as `to("float16")`.
---@return table self
function Module:half(...)
  read_half(...)
  return self:to("float16")
end

local read_bfloat16 = signature "Module:bfloat16()"

--- The same as `to("bfloat16")`.
---@return table self
function Module:bfloat16(...)
  read_bfloat16(...)
  return self:to("bfloat16")
end

return Module
