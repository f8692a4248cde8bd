-- tests/lua/onnx_case.lua: the cases of onnx_models.lua and onnx_functions.lua, and what tests do with
-- each: its graph is written from a batch of 2 and run with others.

local Source = require "moonlet.files.source"
local ml = require "moonlet"
local proto = require "moonlet.onnx.proto"

local case = { BATCHES = { 1, 3, 5 } }

--- All cases, models first.
function case.all()
  ml.manual_seed(7)
  local out = {}
  for _, part in ipairs { "onnx_models", "onnx_functions" } do
    for _, one in ipairs(require(part)) do out[#out + 1] = one end
  end
  return out
end

--- The messages of a file as tables.
function case.messages(path) return proto.read(Source.open(path)) end

--- The tensors in nested arrays, in their order.
function case.flat(things, out)
  out = out or {}
  for i = 1, things.n or #things do
    if ml.is_tensor(things[i]) then
      out[#out + 1] = things[i]
    elseif things[i] ~= nil then
      case.flat(things[i], out)
    end
  end
  return out
end

--- Writes the graph of a case.
function case.export(one, path, more)
  local arguments = one.make(2)
  local o = { input_names = {}, dynamic_axes = {} }
  local ids
  for i, tensor in ipairs(case.flat(arguments)) do
    local name = "in" .. i
    o.input_names[i] = name
    local axes = one.options.dynamic and one.options.dynamic[i]
      or not one.options.dynamic and i == 1 and { "batch" } or nil
    local named = {}
    for axis, label in pairs(axes or {}) do named[axis] = label end
    o.dynamic_axes[name] = axes and named or nil
    ids = ids or tensor.dtype == ml.int64
  end
  if ids and not one.options.ids then o.index_inputs = {} end
  for key, value in pairs(more or {}) do o[key] = value end
  one.module:eval()
  ml.onnx.export(one.module, arguments, path, o)
end

--- Arguments of another size, and the results of the module for them.
function case.run(one, batch)
  local arguments = one.make(batch)
  local results = ml.no_grad(function()
    return table.pack(one.module(table.unpack(arguments)))
  end)
  return case.flat(arguments), case.flat(results)
end

return case
