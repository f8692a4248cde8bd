-- stdlib/help/declared.lua: entries of the reference for ops that C++ has declared at run time.

local ml = require "moonlet"

local declared = {}

-- The types of arguments as texts of help say them.
local types = { Operand = "Tensor|number|Complex", Scalar = "number|boolean|Complex",
  int = "integer", Dim = "integer", NewDim = "integer", ["int[]"] = "integer|integer[]",
  ["int[*]"] = "integer|integer[]", ["Dim[]"] = "integer|integer[]", float = "number",
  ["float[*]"] = "number|number[]", bool = "boolean", Device = "string", DType = "dtype" }

local function params_of(info)
  local out = {}
  for i, argument in ipairs(info.arguments) do
    local type = argument.type:gsub("%?$", "")
    local optional = argument.default ~= nil or type ~= argument.type
    out[i] = { name = argument.name, type = types[type] or type, optional = optional or nil,
      default = argument.default, text = info.declared.texts[argument.name] or "" }
  end
  return out
end

local function notes_of(info)
  local notes = { "dtypes: " .. table.concat(info.dtypes, ", "),
    info.differentiable and "differentiable" or "not differentiable" }
  if info.declared.inplace then
    notes[3] = ("in place: `%s_`"):format(info.declared.call:match "[^.]+$")
  end
  return table.concat(notes, "; ")
end

local function entry_of(name)
  local info = ml.ops.info(name)
  local call = info.declared.usage
  local results = {}
  for i, result in ipairs(info.results) do
    results[i] = #info.results > 1 and result.name or result.type
  end
  local calls = { "ml." .. call }
  if info.declared.method and info.arguments[1] and info.arguments[1].type == "Tensor" then
    local first, short = info.arguments[1].name, info.declared.call:match "[^.]+$"
    local rest = call:match "%((.*)%)$":gsub("^" .. first .. ",? ?", "")
    calls[2] = ("%s:%s(%s)"):format(first, short, rest)
  end
  local doc, example = info.declared.doc, info.declared.example
  return { name = info.declared.call, kind = "op", calls = calls,
    results = table.concat(results, ", "), params = params_of(info), notes = notes_of(info),
    doc = doc ~= "" and doc or "An op that was declared in C++.",
    method = info.declared.method, inplace = info.declared.inplace,
    examples = example ~= "" and { { code = example } } or nil }
end

--- The entry of a declared op by one of its names: "mylib::snake", "ops.mylib.snake",
--- "mylib.snake", "snake", or those of its in-place form; nil when there is none.
---@param name string
---@return table? entry
function declared.find(name)
  local wanted = name:gsub("^ops%.", ""):gsub("^Tensor%.", ""):gsub("%.", "::"):gsub("_$", "")
  for _, each in ipairs(ml.ops._declared()) do
    if each == wanted or each:match "::(.*)$" == wanted then return entry_of(each) end
  end
end

--- The name of the op whose function a value is, in one of its forms, or nil.
---@param value any
---@return string?
function declared.name_of(value)
  if type(value) ~= "function" then return nil end
  for _, each in ipairs(ml.ops._declared()) do
    local library, short = each:match "^(.*)::(.*)$"
    local space = library and rawget(ml.ops, library) or ml
    for _, form in ipairs { "", "_" } do
      if rawequal(rawget(space, (short or each) .. form), value) then return each end
    end
  end
end

return declared
