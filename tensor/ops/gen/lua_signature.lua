-- tensor/ops/gen/lua_signature.lua: an op row as a script sees it: its arguments with options spread
-- out, its usage line, where it can be called from. Shared by the emitters of this folder.

local lua_signature = {}

local kinds = {
  ["Tensor"] = "Tensor", ["Tensor?"] = "OptionalTensor", ["Tensor[]"] = "TensorList",
  ["Tensor?[]"] = "TensorList",
  ["Operand"] = "Operand", ["Mask"] = "Tensor", ["Positions"] = "Tensor",
  ["Scalar"] = "Scalar", ["Scalar?"] = "Scalar", ["int"] = "Int", ["int?"] = "Int",
  ["int[]"] = "IntList", ["int[1]"] = "IntList", ["int[2]"] = "IntList", ["int[3]"] = "IntList",
  ["int[*]"] = "IntVector", ["Generator?"] = "Generator",
  ["float"] = "Float", ["float?"] = "Float", ["bool"] = "Bool", ["string"] = "String",
  ["Dim"] = "Dim", ["Dim?"] = "Dim", ["NewDim"] = "Dim", ["Dim[]"] = "DimList",
  ["Dim[*]"] = "DimList", ["Dim[]?"] = "DimList",
  ["Index"] = "Index", ["DType?"] = "DType", ["Device?"] = "Device",
  ["DType"] = "DType", ["Device"] = "Device",
  ["MemoryFormat"] = "MemoryFormat", ["MemoryFormat?"] = "MemoryFormat",
}

local tensor_types = { Tensor = true, Operand = true, Mask = true, Positions = true }
local takes_number = {
  Operand = true, Scalar = true, Int = true, IntList = true, IntVector = true, Float = true, Dim = true,
  DimList = true, Index = true,
}

-- The default as a script would write it.
local function lua_default(text, kind)
  if text == nil then return nil end
  if text == "std::nullopt" or (text == "{}" and not kind:find "List" and kind ~= "IntVector") then return "nil" end
  local number = tonumber(text)
  if kind == "Dim" and number and number >= 0 then return tostring(number + 1) end
  return text
end

-- An unsized list takes several plain values only when no later argument could mean one of them.
local function may_gather(args, position)
  local kind = kinds[args[position].type]
  if kind ~= "IntList" and kind ~= "IntVector" and kind ~= "DimList" and kind ~= "TensorList" then
    return false
  end
  if args[position].type:find "%[%d+%]" then return false end
  for i = position + 1, #args do
    local later = kinds[args[i].type]
    if kind == "TensorList" then
      if later and (later:find "Tensor" or later == "Operand") then return false end
    elseif takes_number[later] then
      return false
    end
  end
  return true
end

-- The arguments in order: {name, kind, type, default, required, gather, named_only, length}.
function lua_signature.arguments(row)
  local out = {}
  for i, arg in ipairs(row.args) do
    if arg.type == "Options" then
      out[#out + 1] = { name = "dtype", kind = "DType", type = "DType?", named_only = true }
      out[#out + 1] = { name = "device", kind = "Device", type = "Device?", named_only = true }
      out[#out + 1] = { name = "requires_grad", kind = "Bool", type = "bool", named_only = true }
    else
      local kind = kinds[arg.type] or error("no Lua form of type " .. arg.type, 0)
      out[#out + 1] = {
        name = arg.name, kind = kind, type = arg.type, default = lua_default(arg.default, kind),
        required = arg.default == nil and not arg.type:find "%?$",
        gather = row.gather ~= false and may_gather(row.args, i), named_only = kind == "Generator" or nil,
        length = tonumber(arg.type:match "%[(%d+)%]") or (arg.type == "Tensor?[]" and 1) or 0,
        source = arg,
      }
    end
  end
  return out
end

-- Whether the row gives a method of tensors, and a function of the module.
function lua_signature.is_method(row)
  local first = row.args[1]
  return row.method ~= false and first ~= nil and tensor_types[first.type] == true
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
