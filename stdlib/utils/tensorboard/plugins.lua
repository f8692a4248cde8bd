-- stdlib/utils/tensorboard/plugins.lua: the numbers of what TensorBoard's plugins show: curves of
-- precision and recall, sounds, meshes, charts of several scalars.

local json = require "moonlet.json"
local ml = require "moonlet"
local fail = require("moonlet.options").fail

local plugins = {}

local LEAST = 1e-7  -- what a count is taken for where it is smaller

local function flat(x) return x:detach():to { device = "cpu", dtype = ml.float64 }:reshape(-1) end

-- How many of each threshold's part there are, and of all behind it.
local function from_above(positions, weights, thresholds)
  return ml.zeros { thresholds, dtype = ml.float64 }:index_add_(1, positions, weights)
    :flip(1):cumsum(1):flip(1)
end

--- The counts and rates at thresholds from 0 to 1, as six rows one after the other: true and false
--- positives, true and false negatives, precision, recall.
---@param where string
---@param labels moonlet.Tensor
---@param predictions moonlet.Tensor
---@param thresholds integer
---@param weights? moonlet.Tensor|number
---@return number[]
function plugins.pr_curve(where, labels, predictions, thresholds, weights)
  local truth, score = flat(labels), flat(predictions)
  if #truth ~= #score or #truth == 0 then
    fail("%s: %d labels for %d predictions", where, #truth, #score)
  elseif not score:ge(0):logical_and(score:le(1)):all():item() then
    fail("%s: 'predictions' must be from 0 to 1", where)
  elseif not truth:ge(0):logical_and(truth:le(1)):all():item() then
    fail("%s: 'labels' must be from 0 to 1", where)
  end
  local each = ml.is_tensor(weights) and flat(weights) or weights or 1
  if ml.is_tensor(each) and #each ~= #truth then
    fail("%s: %d weights for %d labels", where, #each, #truth)
  end
  local positions = (score * (thresholds - 1)):floor():to(ml.int64) + 1
  local tp = from_above(positions, truth * each, thresholds)
  local fp = from_above(positions, (1 - truth) * each, thresholds)
  local tn, fn = fp[1] - fp, tp[1] - tp
  local precision = tp / (tp + fp):clamp { min = LEAST }
  local recall = tp / (tp + fn):clamp { min = LEAST }
  return ml.cat({ tp, fp, tn, fn, precision, recall }):totable()
end

--- A sound of one channel as a WAV file of 16 bits, and its number of samples.
---@param where string
---@param x moonlet.Tensor samples from -1 to 1
---@param sample_rate integer
---@return string file
---@return integer frames
function plugins.sound(where, x, sample_rate)
  if x:is_complex() then fail("%s: 'snd_tensor' must not be complex", where) end
  if x:squeeze():dim() > 1 then
    fail("%s: 'snd_tensor' must be one channel, (1, samples), got shape %s", where,
      tostring(x.shape))
  end
  local samples = flat(x)
  if samples:isnan():any():item() then fail("%s: 'snd_tensor' has a NaN", where) end
  if samples:abs():gt(1):any():item() then
    ml._warn_once("add_audio", "add_audio: samples outside of -1 to 1 are cut off there")
  end
  local data = (samples:clamp(-1, 1) * 32767):to(ml.int16):to_bytes()
  return ("<c4 I4 c4 c4 I4 I2 I2 I4 I4 I2 I2 c4 s4"):pack("RIFF", 36 + #data, "WAVE", "fmt ", 16,
    1, 1, sample_rate, 2 * sample_rate, 2, 16, "data", data), #samples
end

local function mesh_part(where, name, x, batch, points)
  if x:dim() ~= 3 or x:size(3) ~= 3 or (batch and x:size(1) ~= batch)
    or (points and x:size(2) ~= points) then
    fail("%s: '%s' must have the shape (%s, %s, 3), got %s", where, name, batch or "batch",
      points or "count", tostring(x.shape))
  end
  return { values = flat(x), shape = x.shape:totable() }
end

--- The parts of a mesh, as `messages.mesh` takes them: vertices, faces (positions of vertices from
--- 1, which the file counts from 0) and colors.
---@param where string
---@param o table vertices, colors, faces
---@return table[]
function plugins.mesh(where, o)
  local vertices = mesh_part(where, "vertices", o.vertices)
  vertices.kind = "VERTEX"
  local parts, batch, count = { vertices }, vertices.shape[1], vertices.shape[2]
  if o.faces then
    local faces = mesh_part(where, "faces", o.faces, batch)
    local inside = faces.values:ge(1):logical_and(faces.values:le(count))
    if not inside:all():item() then
      fail("%s: 'faces' must hold positions of vertices, from 1 to %d", where, count)
    end
    faces.kind, faces.values = "FACE", faces.values - 1
    parts[#parts + 1] = faces
  end
  if o.colors then
    local colors = mesh_part(where, "colors", o.colors, batch, count)
    colors.kind = "COLOR"
    parts[#parts + 1] = colors
  end
  for _, part in ipairs(parts) do part.values = part.values:totable() end
  return parts
end

--- The JSON of a mesh's settings.
---@param where string
---@param config? table
---@return string
function plugins.config(where, config)
  if not config or next(config) == nil then return "{}" end
  local ok, text = pcall(json.encode, config)
  if not ok then fail("%s: 'config_dict': %s", where, text) end
  return text
end

local function check_chart(where, name, chart)
  local kind, tags = nil, nil
  if type(chart) == "table" then kind, tags = chart[1], chart[2] end
  if (kind ~= "Multiline" and kind ~= "Margin") or type(tags) ~= "table" then
    fail('%s: the chart \'%s\' must be { "Multiline" or "Margin", { tag, ... } }', where, name)
  elseif kind == "Margin" and #tags ~= 3 then
    fail("%s: the chart '%s' with a margin has three tags, the value and its bounds, got %d",
      where, name, #tags)
  end
  for _, tag in ipairs(tags) do
    if type(tag) ~= "string" then fail("%s: the tags of '%s' must be strings", where, name) end
  end
end

--- Checks a layout of charts by category and name.
---@param where string
---@param layout table
---@return table layout
function plugins.checked_layout(where, layout)
  for category, charts in pairs(layout) do
    if type(category) ~= "string" or type(charts) ~= "table" then
      fail("%s: 'layout' has tables of charts by category", where)
    end
    for name, chart in pairs(charts) do
      if type(name) ~= "string" then
        fail("%s: the charts of '%s' have no names", where, category)
      end
      check_chart(where, name, chart)
    end
  end
  return layout
end

return plugins
