-- stdlib/utils/tensorboard/messages.lua: the few messages of TensorBoard's event files, in the
-- encoding of protocol buffers: each field is its number and kind, then its value.

local messages = {}

local VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

-- Seven bits at a time, the least first; negative numbers take ten bytes.
local function varint(value)
  local out = {}
  repeat
    local rest = value >> 7
    out[#out + 1] = string.char(value & 0x7f | (rest ~= 0 and 0x80 or 0))
    value = rest
  until value == 0
  return table.concat(out)
end

local function field(number, kind, data) return varint(number << 3 | kind) .. data end

local function integer(number, value) return field(number, VARINT, varint(value)) end
local function double(number, value) return field(number, FIXED64, ("<d"):pack(value)) end
local function float(number, value)
  return field(number, FIXED32, ("<f"):pack(value))
end
local function bytes(number, data) return field(number, BYTES, varint(#data) .. data) end

local function doubles(number, values)
  local out = {}
  for i, value in ipairs(values) do out[i] = ("<d"):pack(value) end
  return bytes(number, table.concat(out))
end

local DT_FLOAT, DT_DOUBLE, DT_STRING = 1, 2, 7

local function metadata(plugin, content)
  return bytes(9, bytes(1, bytes(1, plugin) .. (content and bytes(2, content) or "")))
end

local function value_of(tag, ...) return bytes(1, bytes(1, tag) .. table.concat { ... }) end

--- An event of summaries.
---@param wall_time number seconds since 1970
---@param step? integer
---@param summary string values, one after the other
---@return string
function messages.event(wall_time, step, summary)
  local at = step and step ~= 0 and integer(2, step) or ""
  return double(1, wall_time) .. at .. bytes(5, summary)
end

--- The event that a file begins with.
---@param wall_time number
---@return string
function messages.version(wall_time) return double(1, wall_time) .. bytes(3, "brain.Event:2") end

--- The event that says that what came from this step on no longer counts.
---@param wall_time number
---@param step integer
---@return string
function messages.restart(wall_time, step)
  local at = step ~= 0 and integer(2, step) or ""
  return double(1, wall_time) .. at .. bytes(7, integer(1, 1))
end

--- A number; `style` is "float" or "double" for a value of the newer form, or nil.
---@param tag string
---@param value number
---@param style? string
---@return string
function messages.scalar(tag, value, style)
  if not style then return value_of(tag, float(2, value)) end
  local tensor = style == "float" and integer(1, DT_FLOAT) .. bytes(5, ("<f"):pack(value))
    or integer(1, DT_DOUBLE) .. bytes(6, ("<d"):pack(value))
  return value_of(tag, bytes(8, tensor), metadata "scalars")
end

--- A histogram: its bins' upper limits and counts, and `min`, `max`, `num`, `sum`, `sum_squares`.
---@param tag string
---@param h table
---@return string
function messages.histogram(tag, h)
  return value_of(tag, bytes(5, double(1, h.min) .. double(2, h.max) .. double(3, h.num)
    .. double(4, h.sum) .. double(5, h.sum_squares) .. doubles(6, h.limits)
    .. doubles(7, h.counts)))
end

--- A PNG picture.
---@param tag string
---@param png string
---@param width integer
---@param height integer
---@param channels integer
---@return string
function messages.image(tag, png, width, height, channels)
  return value_of(tag, bytes(4, integer(1, height) .. integer(2, width) .. integer(3, channels)
    .. bytes(4, png)))
end

--- A text.
---@param tag string
---@param text string
---@return string
function messages.text(tag, text)
  local shape = bytes(2, bytes(2, integer(1, 1)))
  return value_of(tag .. "/text_summary",
    bytes(8, integer(1, DT_STRING) .. shape .. bytes(8, text)), metadata "text")
end

local function sorted(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- google.protobuf.Value.
local function plain_value(value)
  if type(value) == "boolean" then return integer(4, value and 1 or 0) end
  return type(value) == "number" and double(2, value) or bytes(3, value)
end

local KINDS = { string = 1, boolean = 2, number = 3 }

local function hparams_summary(name, number, content)
  return value_of("_hparams_/" .. name, metadata("hparams", bytes(number, content)))
end

--- The three values that tell of a run's hyperparameters and the names of its metrics.
---@param hparams table<string, any>
---@param metrics table<string, number>
---@param domains table<string, any[]> the values that there are of a hyperparameter
---@return string experiment
---@return string start
---@return string finish
function messages.hparams(hparams, metrics, domains)
  local infos, session = {}, {}
  for i, name in ipairs(sorted(hparams)) do
    local value, domain = hparams[name], {}
    for j, item in ipairs(domains[name] or {}) do domain[j] = bytes(1, plain_value(item)) end
    infos[i] = bytes(4, bytes(1, name) .. integer(4, KINDS[type(value)])
      .. (#domain > 0 and bytes(5, table.concat(domain)) or ""))
    session[i] = bytes(1, bytes(1, name) .. bytes(2, plain_value(value)))
  end
  for _, name in ipairs(sorted(metrics)) do
    infos[#infos + 1] = bytes(5, bytes(1, bytes(2, name)))
  end
  return hparams_summary("experiment", 2, table.concat(infos)),
    hparams_summary("session_start_info", 3, table.concat(session)),
    hparams_summary("session_end_info", 4, integer(1, 1))
end

return messages
