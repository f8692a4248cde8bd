-- stdlib/onnx/sizes.lua: runs of a model at several sizes of its dynamic axes, compared: numbers
-- that are the same in all runs are constants, others follow sizes.

local trace = require "moonlet.onnx.trace"
local fail = require("moonlet.options").fail

local sizes = {}

--- A number that differs between the runs: `Size[i]` is that of run i.
local Size = {}
Size.__index = Size

function sizes.is_size(thing) return getmetatable(thing) == Size end

function Size:__tostring() return ("size(%s)"):format(table.concat(self, ", ")) end

--- Whether two numbers, or sizes, are the same in all runs.
function sizes.same(a, b)
  if not sizes.is_size(a) or not sizes.is_size(b) then return a == b end
  for i = 1, #a do
    if a[i] ~= b[i] then return false end
  end
  return #a == #b
end

--- The number of each of `count` runs combined by `f`.
function sizes.map(count, f)
  local out, all = {}, true
  for i = 1, count do
    out[i] = f(i)
    all = all and out[i] == out[1]
  end
  return all and out[1] or setmetatable(out, Size)
end

--- That number in run i.
function sizes.at(thing, i) return sizes.is_size(thing) and thing[i] or thing end

local function differ(call, what)
  fail("onnx.export: %s%s; the graph would hold for one size of the dynamic axes only",
    ("%s is not the same at other sizes: %s"):format(call.name, what), call.place)
end

local merge

local function merge_tables(things, call, what)
  local out, first = {}, things[1]
  for key in pairs(first) do
    local items = {}
    for i, thing in ipairs(things) do items[i] = thing[key] end
    if #items ~= #things then differ(call, what) end
    out[key] = merge(items, call, what)
  end
  for i = 2, #things do
    for key in pairs(things[i]) do
      if first[key] == nil then differ(call, what) end
    end
  end
  return out
end

-- The thing that stands for those of all runs.
function merge(things, call, what)
  local first = things[1]
  if trace.is_value(first) then
    for _, thing in ipairs(things) do
      if not trace.is_value(thing) or thing.id ~= first.id then differ(call, what) end
    end
    return first
  elseif type(first) == "table" and getmetatable(first) == nil then
    return merge_tables(things, call, what)
  end
  local all = true
  for _, thing in ipairs(things) do
    if type(thing) ~= type(first) then differ(call, what) end
    -- NaN is the same as itself here.
    all = all and (thing == first or thing ~= thing and first ~= first)
  end
  if all then return first end
  if type(first) == "number" then return setmetatable({ table.unpack(things) }, Size) end
  if type(first) == "userdata" and not require("moonlet").is_tensor(first) then return first end
  return differ(call, what)
end

local function merge_shapes(runs, id)
  local first = runs[1].values[id]
  local out = {}
  for _, run in ipairs(runs) do
    local other = run.values[id]
    if #other.shape ~= #first.shape or other.dtype ~= first.dtype then
      local call = first.call or { name = "an input", place = "" }
      differ(call, "a result has another rank or dtype")
    end
  end
  for d = 1, #first.shape do
    out[d] = sizes.map(#runs, function(i) return runs[i].values[id].shape[d] end)
  end
  return out
end

local function merge_call(runs, k)
  local calls, first = {}, runs[1].calls[k]
  for i, run in ipairs(runs) do
    calls[i] = run.calls[k]
    if not calls[i] or calls[i].op ~= first.op or calls[i].in_place ~= first.in_place
        or #calls[i].results ~= #first.results then
      differ(first, ("another run calls %s there"):format(calls[i] and calls[i].name or "nothing"))
    end
    if calls[i].results[1] and calls[i].results[1].id ~= first.results[1].id then
      differ(first, "it has other tensors")
    end
  end
  local merged = {}
  for name in pairs(first.arguments) do
    local things = {}
    for i, call in ipairs(calls) do
      things[i] = call.arguments[name]
      if things[i] == nil then differ(first, "'" .. name .. "'") end
    end
    merged[name] = merge(things, first, "'" .. name .. "'")
  end
  first.arguments = merged
end

--- Makes one run of several: its numbers and shapes have sizes where the runs differ.
--- `value.others` are the values of the other runs.
---@param runs table[]
---@return table run the first
function sizes.merge(runs)
  local first = runs[1]
  for _, run in ipairs(runs) do
    if #run.calls ~= #first.calls or #run.outputs ~= #first.outputs then
      local last = first.calls[math.min(#run.calls, #first.calls)]
      if last and #run.calls == #first.calls then last = nil end
      for k = 1, math.min(#run.calls, #first.calls) do
        if run.calls[k].op ~= first.calls[k].op then last = first.calls[k] break end
      end
      differ(last or { name = "the model", place = "" }, "other ops are called")
    end
  end
  for k = 1, #first.calls do merge_call(runs, k) end
  for id, value in ipairs(first.values) do
    value.others = {}
    for i = 2, #runs do
      value.others[i - 1] = runs[i].values[id]
      if not value.others[i - 1] then
        differ({ name = "the model", place = "" }, "it uses other tensors")
      end
    end
  end
  for id, value in ipairs(first.values) do value.merged_shape = merge_shapes(runs, id) end
  for _, value in ipairs(first.values) do value.shape = value.merged_shape end
  for i, value in ipairs(first.outputs) do
    for _, run in ipairs(runs) do
      if run.outputs[i].id ~= value.id then
        differ({ name = "the model", place = "" }, "its results come from other ops")
      end
    end
  end
  first.count = #runs
  return first
end

return sizes
