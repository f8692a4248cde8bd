-- tensor/ops/gen/lua_signature.lua: an op row as a script sees it: its arguments with options spread
-- out, its usage line, where it can be called from. Shared by the emitters of this folder.

local types = require "tensor.ops.gen.types"

local lua_signature = {}

-- The default as a script would write it.
local function lua_default(text, info)
  if text == nil then return nil end
  if text == "std::nullopt" or (text == "{}" and not info.many) then return "nil" end
  local function from_one(number)
    return tonumber(number) >= 0 and tostring(tonumber(number) + 1) or number
  end
  if info.dim or info.from_one then return (text:gsub("^%d+$", from_one)) end
  if info.wrap and info.many then return (text:gsub("%d+", from_one)) end
  return text
end

-- An unsized list takes several plain values only when no later argument could mean one of them.
local function may_gather(args, position)
  local info = args[position].info
  if not info.many or info.length and not info.tensor then return false end
  for i = position + 1, #args do
    local later = args[i].info
    if info.tensor and later.tensor or not info.tensor and later.number then return false end
  end
  return true
end

-- The arguments in order: {name, info, type, default, required, gather, named_only, length}.
function lua_signature.arguments(row)
  local out = {}
  for i, arg in ipairs(row.args) do
    for _, named in ipairs(arg.info.spread or {}) do
      out[#out + 1] = { name = named[1], info = types.argument(named[2]), type = named[2], named_only = true }
    end
    if not arg.info.spread then
      out[#out + 1] = {
        name = arg.name, info = arg.info, type = arg.type, default = lua_default(arg.default, arg.info),
        required = arg.default == nil and not arg.info.nullable,
        gather = row.gather ~= false and may_gather(row.args, i), named_only = arg.info.named,
        length = arg.info.length or 0, source = arg,
      }
    end
  end
  if row.makes then
    out[#out + 1] = { name = "requires_grad", info = types.argument "bool", type = "bool", named_only = true }
  end
  return out
end

-- The name by which scripts call the form that works in place.
function lua_signature.inplace_name(row)
  return (row.module and row.name or row.lua_name) .. "_"
end

-- Whether the row gives a method of tensors, and a function of the module.
function lua_signature.is_method(row)
  local first = row.args[1]
  return row.method ~= false and first ~= nil and first.info.tensor == true
    and not first.info.optional and not first.info.list
end

function lua_signature.is_function(row) return row.func ~= false end

-- "sum(x, dim={}, keepdim=false)"
function lua_signature.usage(row, name)
  local parts, named = {}, {}
  for _, arg in ipairs(lua_signature.arguments(row)) do
    if arg.named_only then
      named[#named + 1] = arg.name
    elseif arg.required then
      parts[#parts + 1] = arg.name
    else
      parts[#parts + 1] = arg.name .. "=" .. (arg.default or "nil")
    end
  end
  if #named > 0 then parts[#parts + 1] = "{" .. table.concat(named, ", ") .. "}" end
  return ("%s(%s)"):format(name or row.name, table.concat(parts, ", "))
end

-- "values, indices" or "Tensor"
function lua_signature.results(row)
  local out = {}
  for i, result in ipairs(row.results) do
    out[i] = #row.results > 1 and result.name or result.type
  end
  return table.concat(out, ", ")
end

-- The other forms of a name, in the order of the table.
function lua_signature.overloads(row, all)
  local out = {}
  for _, other in ipairs(all) do
    if other.overload_of == row.name then out[#out + 1] = other end
  end
  return out
end

return lua_signature
