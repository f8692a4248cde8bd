-- stdlib/onnx/write.lua: how each op is written as ONNX nodes: a function (graph, arguments, call)
-- that gives the names of the op's results, false for one that has none, `{ zero = name }` for
-- positions counted from 0, and `{ parts = { re, im } }` for complex numbers. Composites that are
-- not here are written as the ops they are made of.

local complex = require "moonlet.onnx.write.complex"

local write = {}

for _, family in ipairs { "pointwise", "activation", "logic", "reduce", "shape", "slices", "index",
  "linear", "conv", "pool", "norm", "attention", "recurrent", "create", "image" } do
  for name, translation in pairs(require("moonlet.onnx.write." .. family)) do
    write[name] = translation
  end
end

-- Calls of composites that have no node of ONNX though others of the op do.
local APART = {
  unique_consecutive = function(a) return a.dim ~= nil and not a.return_inverse end,
  interpolate = function(a) return a.mode == "area" end,
  -- An even number of channels reaches further to the other side in ONNX.
  local_response_norm = function(a) return a.size % 2 == 0 end,
}

--- The function that writes a call; nil where there is none.
---@param call table
---@return fun(graph: table, arguments: table, call: table): ...
function write.of(call)
  if complex.is_call(call) then return complex.translations[call.op] end
  return write[call.op]
end

--- What a call is of which there is no such function.
---@param call table
---@return string
function write.described(call)
  return complex.is_call(call) and call.name .. " of complex numbers" or call.name
end

--- Whether a call of an op is noted down whole; a composite of which this is not so is taken apart.
---@param op moonlet.Op
---@param arguments table
---@return boolean
function write.is_whole(op, arguments)
  if op.kind ~= "composite" or op.name:find "^empty" then return true end
  if complex.is_whole(op, arguments) then return true end
  return write[op.row] ~= nil and not (APART[op.row] and APART[op.row](arguments))
end

local KEEP = {}
for name in ("view reshape flatten contiguous clone transpose permute t expand slice select "
  .. "squeeze unsqueeze cat to convert copy flip broadcast_to expand_as"):gmatch "%S+" do
  KEEP[name] = true
end

--- Whether the results of a call are positions where its tensors are.
function write.keeps_positions(call)
  return KEEP[call.op] and call.results[1].dtype:find "^int" ~= nil
end

local known = {}

--- The arguments of a call that are positions, by name.
---@param call table
---@return table<string, boolean>
function write.positions_of(call)
  if not known[call.op] then
    local out = {}
    for _, argument in ipairs(call.info.arguments) do
      local kind = argument.type:gsub("?$", "")
      if kind == "Positions" or kind == "Indices" then out[argument.name] = true end
    end
    known[call.op] = out
  end
  return known[call.op]
end

return write
