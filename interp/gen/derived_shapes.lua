-- interp/gen/derived_shapes.lua: the shapes of an op's tensors where they follow from its row: of
-- pointwise ops, reductions, and what is made by size. Other rows say them in the field `shapes`.

local lua_signature = require "tensor.ops.gen.lua_signature"

local derived_shapes = {}

-- The names of the arguments that hold one tensor each; nil where one is a list.
local function tensors_of(args)
  local names = {}
  for _, arg in ipairs(args) do
    if arg.info.list then return nil end
    if arg.info.tensor then names[#names + 1] = arg.name end
  end
  return names
end

local function pointwise(names)
  if #names == 1 then return ("%s (*) -> (*)"):format(names[1]) end
  local parts = {}
  for i, name in ipairs(names) do parts[i] = name .. " (*)" end
  return table.concat(parts, ", ") .. " -> (*), all broadcast together"
end

local function reduction(arg, names)
  if #names ~= 1 or not arg.dim or not arg.keepdim then return nil end
  local is_one = arg.dim.type:find "^Dim%??$"
  return ("%s (*) -> (*) without %s, of size 1 with `keepdim`"):format(names[1],
    is_one and "`dim`" or "the dimensions `dim`, all unless given")
end

-- Only random and constant values are made of nothing but a size.
local function creation(arg, names)
  return arg.size and arg.size.type == "int[]" and #names == 0 and "-> (*size)" or nil
end

--- The shapes, or nil where the row does not tell.
---@param row table
---@return string?
function derived_shapes.of(row)
  local args, arg = lua_signature.arguments(row), {}
  for _, each in ipairs(args) do arg[each.name] = each end
  local names = tensors_of(args)
  if not names then return nil end
  if row.kind == "pointwise" and #names > 0 then return pointwise(names) end
  if #names == 1 and row.name:find "_like$" and names[1] == "x" then return "x (*) -> (*)" end
  return reduction(arg, names) or creation(arg, names)
end

return derived_shapes
