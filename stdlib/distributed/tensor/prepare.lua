-- stdlib/distributed/tensor/prepare.lua: styles that change the layout of what goes into a module,
-- or comes out of it.

local class = require "moonlet.class"
local layouts = require "moonlet.distributed.tensor.layouts"
local ml = require "moonlet"
local options = require "moonlet.options"
local redistribute = require "moonlet.distributed.tensor.redistribute"
local signature = require "moonlet.signature"
local styles = require "moonlet.distributed.tensor.styles"
local fail = options.fail

local prepare = {}

-- A layout, or an array of one or false for each value, as an array.
local function list_of(where, name, given)
  local list = layouts.is_layout(given) and { given } or given
  if #list == 0 then fail("%s: '%s' must have at least one layout", where, name) end
  for i, each in ipairs(list) do
    if each ~= false and not layouts.is_layout(each) then
      fail("%s: '%s' must hold layouts, or false for what stays, got %s at %d", where, name,
        signature.describe(each), i)
    end
  end
  return list
end

-- Pairs of layouts by position, false for what stays.
local function pairs_of(where, first, given, second, desired)
  local from, to = list_of(where, first, given), list_of(where, second, desired)
  if #from ~= #to then
    fail("%s: '%s' has %d layouts, '%s' has %d", where, first, #from, second, #to)
  end
  local out = {}
  for i in ipairs(from) do
    if (from[i] == false) ~= (to[i] == false) then
      fail("%s: value %d must have both layouts, or none", where, i)
    end
    out[i] = from[i] and { from[i], to[i] }
  end
  return out
end

-- The values with their layouts changed.
local function changed(where, values, list, group)
  if #list > values.n then
    fail("%s: there are layouts of %d values, got %d", where, #list, values.n)
  end
  local out = table.move(values, 1, values.n, 1, { n = values.n })
  for i, pair in ipairs(list) do
    if pair then
      if not ml.is_tensor(values[i]) then
        fail("%s: value %d has a layout, so it must be a tensor, got %s", where, i,
          signature.describe(values[i]))
      end
      out[i] = redistribute.change(where, values[i], pair[1], pair[2], group)
    end
  end
  return table.unpack(out, 1, out.n)
end

local read_input = signature('distributed.tensor.parallel.PrepareModuleInput('
  .. 'Layout|table input_layouts, Layout|table desired_input_layouts)')

--- Style of any module whose arguments come in one layout and are wanted in another. What ranks
--- have parts of must be sharded evenly.
--- > mesh = ml.distributed.init_device_mesh("cpu", { 1 })
--- > dt, tp = ml.distributed.tensor, ml.distributed.tensor.parallel
--- > style = tp.PrepareModuleInput(dt.Shard(2), dt.Replicate())
--- > tp.parallelize_module(ml.nn.Linear(4, 2), mesh, style)(ml.ones(2, 3, 4)).shape
---   (2, 3, 2)
--- > ml.distributed.destroy_process_group()
---@param input_layouts table the layout of the first argument, or an array of one, or false for
---   what stays as it is, for each
---@param desired_input_layouts table the layouts that they get
---@see distributed.tensor.parallel.PrepareModuleOutput
local PrepareModuleInput = class("PrepareModuleInput", styles._ParallelStyle)
prepare.PrepareModuleInput = PrepareModuleInput

function PrepareModuleInput:init(...)
  local from, to = read_input(...)
  self.list = pairs_of("PrepareModuleInput", "input_layouts", from, "desired_input_layouts", to)
end

function PrepareModuleInput:apply(module, group, context)
  local where, list = ("PrepareModuleInput '%s'"):format(context.name), self.list
  module:register_forward_pre_hook(function(_, ...)
    return changed(where, table.pack(...), list, group)
  end)
end

local read_output = signature('distributed.tensor.parallel.PrepareModuleOutput('
  .. 'Layout|table output_layouts, Layout|table desired_output_layouts)')

--- Style of any module whose results come in one layout and are wanted in another. What ranks have
--- parts of must be sharded evenly.
--- > mesh = ml.distributed.init_device_mesh("cpu", { 1 })
--- > dt, tp = ml.distributed.tensor, ml.distributed.tensor.parallel
--- > style = tp.PrepareModuleOutput(dt.Replicate(), dt.Shard(2))
--- > tp.parallelize_module(ml.nn.Linear(4, 2), mesh, style)(ml.ones(2, 3, 4)).shape
---   (2, 3, 2)
--- > ml.distributed.destroy_process_group()
---@param output_layouts table the layout of the first result, or an array of one, or false for what
---   stays as it is, for each
---@param desired_output_layouts table the layouts that they get
---@see distributed.tensor.parallel.PrepareModuleInput
local PrepareModuleOutput = class("PrepareModuleOutput", styles._ParallelStyle)
prepare.PrepareModuleOutput = PrepareModuleOutput

function PrepareModuleOutput:init(...)
  local from, to = read_output(...)
  self.list = pairs_of("PrepareModuleOutput", "output_layouts", from, "desired_output_layouts", to)
end

function PrepareModuleOutput:apply(module, group, context)
  local where, list = ("PrepareModuleOutput '%s'"):format(context.name), self.list
  module:register_forward_hook(function(_, _, ...)
    return changed(where, table.pack(...), list, group)
  end)
end

return options.namespace("distributed.tensor.prepare", prepare)
