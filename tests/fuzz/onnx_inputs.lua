-- tests/fuzz/onnx_inputs.lua: what ONNX models that may hold anything are run on.

local ml = require "moonlet"

local onnx_inputs = {}

-- No loop of a model takes more than a few trips, however many it asks for.
local function shorten(nodes, seen)
  if seen[nodes] then return end
  seen[nodes] = true
  for _, node in ipairs(nodes) do
    if node.op == "Loop" and node.run then
      local loop = node.run
      node.run = function(n, trips, ...)
        local many = trips == nil or ml.is_tensor(trips) and trips:gt(9):any():item()
        return loop(n, many and ml.tensor(9) or trips, ...)
      end
    end
    for _, graph in ipairs(node.graphs or {}) do shorten(graph.nodes, seen) end
    if node.call then shorten(node.call.nodes, seen) end
  end
end

--- Makes the loops of nodes, and of graphs and functions in them, short.
function onnx_inputs.shorten(nodes) shorten(nodes, {}) end

--- A value of a type that a graph declares.
function onnx_inputs.example(value, sizes)
  if value.kind == "sequence" then
    local out = {}
    for i = 1, 2 do out[i] = onnx_inputs.example(value.element, { 2 }) end
    return out
  end
  if value.dtype == "string" then
    local out = "a"
    for d = #sizes, 1, -1 do
      local row = {}
      for i = 1, sizes[d] do row[i] = out end
      out = row
    end
    return out
  end
  return ml.ones(sizes, { dtype = value.dtype or ml.float32 })
end

return onnx_inputs
