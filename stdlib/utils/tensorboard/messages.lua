-- stdlib/utils/tensorboard/messages.lua: the few messages of TensorBoard's event files.

local fields = require "moonlet.utils.tensorboard.fields"

local messages = {}

local bytes, double, doubles = fields.bytes, fields.double, fields.doubles
local float, integer = fields.float, fields.integer

local DT_FLOAT, DT_DOUBLE, DT_STRING = 1, 2, 7

-- A tensor of floats in row order.
local function floats_of(values, shape)
  local sizes, out = {}, {}
  for i, size in ipairs(shape) do sizes[i] = bytes(2, integer(1, size)) end
  for i, value in ipairs(values) do out[i] = ("<f"):pack(value) end
  return bytes(8, integer(1, DT_FLOAT) .. bytes(2, table.concat(sizes))
    .. bytes(5, table.concat(out)))
end

local function metadata(plugin, content)
  return bytes(9, bytes(1, bytes(1, plugin) .. (content and bytes(2, content) or "")))
end

local function value_of(tag, ...) return bytes(1, bytes(1, tag) .. table.concat { ... }) end

--- The names in a table, in order.
---@param t table<string, any>
---@return string[]
function messages.names_of(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return names
end

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

--- A sound: the file that holds it, in WAV.
---@param tag string
---@param file string
---@param sample_rate integer
---@param frames integer how many samples it has
---@return string
function messages.audio(tag, file, sample_rate, frames)
  return value_of(tag, bytes(6, float(1, sample_rate) .. integer(2, 1) .. integer(3, frames)
    .. bytes(4, file) .. bytes(5, "audio/wav")))
end

--- A curve of precision and recall: six rows of numbers, an entry for each threshold.
---@param tag string
---@param rows number[] row after row
---@param thresholds integer
---@return string
function messages.pr_curve(tag, rows, thresholds)
  return value_of(tag, floats_of(rows, { 6, thresholds }),
    metadata("pr_curves", integer(2, thresholds)))
end

local CONTENT = { VERTEX = 1, FACE = 2, COLOR = 3 }

--- The parts of a mesh, each `{ kind = "VERTEX", "FACE" or "COLOR", values = , shape = }`.
---@param tag string
---@param parts table[]
---@param config string JSON
---@return string
function messages.mesh(tag, parts, config)
  local components, out = 0, {}
  for _, part in ipairs(parts) do components = components | 1 << CONTENT[part.kind] end
  for i, part in ipairs(parts) do
    local sizes = {}
    for k, size in ipairs(part.shape) do sizes[k] = fields.varint(size) end
    local content = bytes(2, tag) .. integer(3, CONTENT[part.kind]) .. bytes(5, config)
      .. bytes(6, table.concat(sizes)) .. integer(7, components)
    out[i] = value_of(("%s_%s"):format(tag, part.kind), floats_of(part.values, part.shape),
      metadata("mesh", content))
  end
  return table.concat(out)
end

-- A chart of custom scalars: lines, or one between two bounds.
local function chart(name, kind, tags)
  local out = {}
  if kind == "Margin" then
    for i, tag in ipairs(tags) do out[i] = bytes(i, tag) end
    return bytes(2, bytes(1, name) .. bytes(3, bytes(1, table.concat(out))))
  end
  for i, tag in ipairs(tags) do out[i] = bytes(1, tag) end
  return bytes(2, bytes(1, name) .. bytes(2, table.concat(out)))
end

--- Which scalars are in one chart, by category and chart: `{ "Multiline" or "Margin", tags }`.
---@param layout table<string, table<string, table>>
---@return string
function messages.custom_scalars(layout)
  local categories = {}
  for i, category in ipairs(messages.names_of(layout)) do
    local charts = {}
    for k, name in ipairs(messages.names_of(layout[category])) do
      charts[k] = chart(name, table.unpack(layout[category][name]))
    end
    categories[i] = bytes(2, bytes(1, category) .. table.concat(charts))
  end
  local tensor = integer(1, DT_STRING) .. bytes(2, "") .. bytes(8, table.concat(categories))
  return value_of("custom_scalars__config__", bytes(8, tensor), metadata "custom_scalars")
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
  for i, name in ipairs(messages.names_of(hparams)) do
    local value, domain = hparams[name], {}
    for j, item in ipairs(domains[name] or {}) do domain[j] = bytes(1, plain_value(item)) end
    infos[i] = bytes(4, bytes(1, name) .. integer(4, KINDS[type(value)])
      .. (#domain > 0 and bytes(5, table.concat(domain)) or ""))
    session[i] = bytes(1, bytes(1, name) .. bytes(2, plain_value(value)))
  end
  for _, name in ipairs(messages.names_of(metrics)) do
    infos[#infos + 1] = bytes(5, bytes(1, bytes(2, name)))
  end
  return hparams_summary("experiment", 2, table.concat(infos)),
    hparams_summary("session_start_info", 3, table.concat(session)),
    hparams_summary("session_end_info", 4, integer(1, 1))
end

return messages
