-- interp/gen/emit_stubs.lua: writes LuaLS annotations of all ops, for editors.

local dtypes = require "dtypes"
local lua_signature = require "lua_signature"

local lua_types = {
  Tensor = "moonlet.Tensor", OptionalTensor = "moonlet.Tensor", TensorList = "moonlet.Tensor[]",
  Operand = "moonlet.Tensor|number", Scalar = "number|boolean", Int = "integer",
  IntList = "integer|integer[]", IntVector = "integer|integer[]",
  Generator = "moonlet.Generator", Float = "number", Bool = "boolean", String = "string",
  Dim = "integer", DimList = "integer|integer[]", Index = "integer",
  DType = "moonlet.dtype", Device = "string", MemoryFormat = "moonlet.memory_format",
}

local result_types = {
  Tensor = "moonlet.Tensor", ["Tensor[]"] = "moonlet.Tensor[]", bool = "boolean", int = "integer",
  float = "number", Scalar = "number",
}

-- Words that Lua keeps for itself cannot name a parameter.
local keywords = { ["end"] = true, ["repeat"] = true, ["not"] = true, ["and"] = true, ["or"] = true,
  ["in"] = true, ["until"] = true, ["function"] = true, ["local"] = true }

local function parameters(out, row, first)
  local names, args = {}, lua_signature.arguments(row)
  local options = {}
  for i = first, #args do
    local arg = args[i]
    local name = keywords[arg.name] and arg.name .. "_" or arg.name
    if arg.named_only then
      options[#options + 1] = ("%s?: %s"):format(name, lua_types[arg.kind])
    else
      names[#names + 1] = name
      local mark = arg.required and "" or "?"
      out[#out + 1] = ("---@param %s%s %s"):format(name, mark, lua_types[arg.kind])
    end
  end
  if #options > 0 then
    names[#names + 1] = "options"
    out[#out + 1] = ("---@param options? {%s}"):format(table.concat(options, ", "))
  end
  return table.concat(names, ", ")
end

local function emit_function(out, row, owner, separator, name, first)
  for doc_line in (row.doc .. "\n"):gmatch "(.-)\n" do out[#out + 1] = "---" .. doc_line end
  local names = parameters(out, row, first)
  for _, result in ipairs(row.results) do
    out[#out + 1] = ("---@return %s %s"):format(result_types[result.type], result.name)
  end
  out[#out + 1] = ("function %s%s%s(%s) end\n"):format(owner, separator, name, names)
end

local header = [[
---@meta moonlet
-- Generated from the op table: what editors know about module moonlet.

---@alias moonlet.dtype
$dtypes

---@alias moonlet.memory_format
---| "contiguous_format" | "preserve_format" | "channels_last" | "channels_last_3d"

---@class moonlet.Generator

---@class moonlet
local ml = {}

---@class moonlet.Tensor
---@field shape integer[]
---@field dtype moonlet.dtype
---@field device string
---@field grad moonlet.Tensor?
---@field requires_grad boolean
---@field grad_fn string?
---@field is_leaf boolean
---@field ndim integer
---@field T moonlet.Tensor
---@operator add(moonlet.Tensor|number): moonlet.Tensor
---@operator sub(moonlet.Tensor|number): moonlet.Tensor
---@operator mul(moonlet.Tensor|number): moonlet.Tensor
---@operator div(moonlet.Tensor|number): moonlet.Tensor
---@operator pow(moonlet.Tensor|number): moonlet.Tensor
---@operator unm: moonlet.Tensor
---@operator len: integer
local Tensor = {}

---@param value number|boolean|table|moonlet.Tensor
---@param options? {dtype?: moonlet.dtype, device?: string, requires_grad?: boolean}
---@return moonlet.Tensor
function ml.tensor(value, options) end

---@param options? {device?: string, dtype?: moonlet.dtype, enabled?: boolean}
---@param f? function
---@param ... any
---@return any ...
function ml.autocast(options, f, ...) end

---@param device? string
---@return boolean
function ml.is_autocast_enabled(device) end

---@class moonlet.Place
---@field name string?
---@field type string
---@field default string?
---@field written boolean?

---@class moonlet.Op
---@field name string
---@field row string
---@field form "plain"|"in_place"|"out"
---@field schema string
---@field kind string
---@field family string
---@field dtypes moonlet.dtype[]
---@field arguments moonlet.Place[]
---@field results moonlet.Place[]
---@field writes integer[]
---@field is_view boolean
---@field random boolean
---@field differentiable boolean
---@field autocast {cpu?: string, cuda?: string}|nil "lower_precision", "float32" or "promote" by device

---@param handler fun(op: moonlet.Op, arguments: table, call: fun(...): ...): ...
---@param f? function
---@param ... any
---@return any ...
function ml.override(handler, f, ...) end

ml.ops = {}

---@return string[]
function ml.ops.list() end

---@param name string
---@return moonlet.Op
function ml.ops.info(name) end

---@class moonlet.ProfileEvent
---@field name string
---@field where string?
---@field count integer
---@field total_time number
---@field self_time number
---@field bytes integer
---@field self_bytes integer

---@class moonlet.Profile
---@field events moonlet.ProfileEvent[]
local Profile = {}

---@return moonlet.Profile
function Profile:stop() end

---@param options? {sort?: string, by?: "op"|"line", rows?: integer}
---@return string
function Profile:table(options) end

---@param options? {sync?: boolean}|function
---@param f? function
---@param ... any
---@return moonlet.Profile
function ml.profile(options, f, ...) end

---@class moonlet.Generator
---@field device string?
local Generator = {}

---@param seed integer
---@return moonlet.Generator
function Generator:manual_seed(seed) end

---@return integer
function Generator:seed() end

---@return integer
function Generator:initial_seed() end

---@return {seed: integer, offset: integer}
function Generator:get_state() end

---@param state {seed: integer, offset: integer}
---@return moonlet.Generator
function Generator:set_state(state) end

---@param options? string|{device?: string, seed?: integer}
---@return moonlet.Generator
function ml.Generator(options) end

---@type moonlet.Generator
ml.default_generator = nil

---@param gradient? moonlet.Tensor
---@param options? {retain_graph?: boolean, create_graph?: boolean}
function Tensor:backward(gradient, options) end

---@param f fun(gradient: moonlet.Tensor): moonlet.Tensor?
---@return {remove: fun()}
function Tensor:register_hook(f) end

---@return number|boolean
function Tensor:item() end

---@return table
function Tensor:totable() end

---@class moonlet.Storage
---@field dtype moonlet.dtype
---@field device string
---@field nbytes integer
---@field itemsize integer
---@field is_mapped boolean
---@field is_shared boolean
---@field is_foreign boolean
---@field is_read_only boolean
---@field [integer] number|boolean
---@operator len: integer
local Storage = {}

---@class moonlet.StorageOptions
---@field dtype? moonlet.dtype
---@field device? string
---@field file? string
---@field shared? boolean
---@field read_only? boolean
---@field size? integer

---@param value? integer|(number|boolean)[]|moonlet.StorageOptions
---@param options? moonlet.StorageOptions
---@return moonlet.Storage
function ml.Storage(value, options) end

---@return boolean
function ml.is_storage(value) end

---@param value number|boolean
---@return moonlet.Storage
function Storage:fill(value) end

---@param source moonlet.Storage|moonlet.Tensor|(number|boolean)[]
---@return moonlet.Storage
function Storage:copy(source) end

---@param size integer
---@return moonlet.Storage
function Storage:resize(size) end

---@return (number|boolean)[]
function Storage:tolist() end

---@return integer
function Storage:size() end

---@return integer
function Storage:data_ptr() end

function Storage:free() end

---@return moonlet.Storage
function Tensor:storage() end

---How many elements of the storage come before the first one: a count, 0 at the storage's start.
---@return integer
function Tensor:storage_offset() end

---@return integer
function Tensor:data_ptr() end

---@param other moonlet.Tensor
---@return boolean
function Tensor:is_set_to(other) end

---@param source? moonlet.Storage|moonlet.Tensor
---@param offset? integer elements before the first
---@param size? integer[]
---@param stride? integer[]
---@return moonlet.Tensor
function Tensor:set_(source, offset, size, stride) end

---@param ... integer|integer[]
---@return moonlet.Tensor
function Tensor:resize_(...) end

---@param other moonlet.Tensor
---@return moonlet.Tensor
function Tensor:resize_as_(other) end
]]

return function(rows)
  local names = {}
  for i, dtype in ipairs(dtypes) do names[i] = ('---| "%s"'):format(dtype.name) end
  local out = { (header:gsub("%$dtypes", table.concat(names, "\n"))) }
  for _, row in ipairs(rows) do
    local name = row.overload_of or row.name
    if row.func ~= false and row.plain_form then emit_function(out, row, "ml", ".", name, 1) end
    if lua_signature.is_method(row) then
      if row.plain_form then emit_function(out, row, "Tensor", ":", name, 2) end
      if row.inplace_form then emit_function(out, row, "Tensor", ":", row.name .. "_", 2) end
    end
  end
  out[#out + 1] = "return ml\n"
  return table.concat(out, "\n")
end
