-- tensor/ops/gen/types.lua: the argument types of the op table: all that the generator knows of each
-- is its record here, and all that people read of it is in docs/op-table.md, which a test compares.

local types = {}

-- Every record says
--   cpp      how a parameter of the public op is declared
--   field    the ArgType of interp/binding/arg_reader.h
--   getter   the method of ArgReader that reads it
--   editor   its type in the stubs for editors
--   text     what a script passes
-- and where they differ from cpp
--   below    the parameter below the public op, where dims are wrapped
--   value    what holds such a value: a local, or a result
-- What there is to know besides:
--   result   an op may return it
--   tensor   it holds tensors: one that may lead (decide device and dtype), an operand (or a number),
--            a list, one that is optional (may be undefined)
--   dtypes   the dtypes that such a tensor has, whatever the row accepts; unpromoted: it has no
--            part in type promotion
--   many     several values, in a table or one by one
--   number   a number that a script passes could be meant for it
--   from_one it counts from 1 for scripts, as a dim does
--   dim      a dimension; wrap: the function of tensor/core/dims.h that wraps it; positions: what is added to
--            the rank to get the number of positions
--   class    the C++ default of nil is {}; null: is this
--   itself   its getter also reads that it is absent; given: how a value that is there is wrapped
--   capture  how a formula keeps one
--   of_out   the member of `out` that it is unless given
--   draws    random numbers come from it: the generated code asks it, and no kernel or shape function
--            sees it; named: it comes by name only
--   spread   the named arguments that scripts see in its place
local list = {
  ["Tensor"] = { cpp = "const Tensor&", value = "Tensor", field = "Tensor", getter = "tensor",
    editor = "moonlet.Tensor", text = "a tensor", tensor = true, leads = true, result = true },
  ["Tensor?"] = { cpp = "const Tensor&", field = "OptionalTensor", getter = "optional_tensor",
    editor = "moonlet.Tensor", text = "a tensor or nil", tensor = true, optional = true, itself = true },
  ["Tensor[]"] = { cpp = "const std::vector<Tensor>&", value = "std::vector<Tensor>",
    field = "TensorList", getter = "tensors", editor = "moonlet.Tensor[]", text = "a table of tensors",
    tensor = true, list = true, many = true, result = true },
  ["Tensor?[]"] = { cpp = "const std::vector<Tensor>&", value = "std::vector<Tensor>",
    field = "TensorList", getter = "tensors", editor = "moonlet.Tensor[]",
    text = "a table of tensors, `false` for none; or one tensor",
    tensor = true, list = true, many = true, optional = true, length = 1 },
  ["Indices"] = { cpp = "const std::vector<Tensor>&", value = "std::vector<Tensor>",
    field = "TensorList", getter = "index_tensors", editor = "moonlet.Tensor[]",
    text = "as `Tensor?[]`, of positions or masks; a mask arrives as the positions where it is true",
    tensor = true, list = true, many = true, optional = true, length = 1 },
  ["Operand"] = { cpp = "const Operand&", value = "Operand", field = "Operand", getter = "operand",
    editor = "moonlet.Tensor|number|moonlet.Complex", text = "a tensor or a number",
    tensor = true, operand = true, number = true },
  ["Mask"] = { cpp = "const Tensor&", field = "Tensor", getter = "tensor", editor = "moonlet.Tensor",
    text = "a bool tensor, outside type promotion", tensor = true,
    dtypes = "dtypes::boolean", unpromoted = true },
  ["Positions"] = { cpp = "const Tensor&", field = "Tensor", getter = "tensor",
    editor = "moonlet.Tensor", text = "an int64 or int32 tensor of 1-based positions", tensor = true,
    dtypes = "bit(DType::Int32) | bit(DType::Int64)" },
  ["Scalar"] = { cpp = "Scalar", field = "Scalar", getter = "scalar", editor = "number|boolean|moonlet.Complex",
    text = "a number or boolean", number = true, result = true },
  ["int"] = { cpp = "int64_t", field = "Int", getter = "integer", editor = "integer",
    text = "an integer", number = true, result = true },
  ["int[]"] = { cpp = "const Dims&", value = "Dims", field = "IntList", getter = "ints",
    editor = "integer|integer[]", text = "a table, or several integers", number = true, many = true },
  ["int[N]"] = { cpp = "const Dims&", value = "Dims", field = "IntList", getter = "ints",
    editor = "integer|integer[]", text = "that many in a table, or one integer for all",
    number = true, many = true },
  ["int[*]"] = { cpp = "const std::vector<int64_t>&", value = "std::vector<int64_t>",
    field = "IntVector", getter = "integers", editor = "integer|integer[]",
    text = "as `int[]`, of any length: what is no list of dims or sizes of one tensor",
    number = true, many = true },
  ["float[*]"] = { cpp = "const std::vector<double>&", value = "std::vector<double>",
    field = "FloatVector", getter = "numbers", editor = "number|number[]",
    text = "a table of numbers, of any length", number = true, many = true },
  ["float"] = { cpp = "double", field = "Float", getter = "number", editor = "number",
    text = "a number", number = true, result = true },
  ["bool"] = { cpp = "bool", field = "Bool", getter = "boolean", editor = "boolean",
    text = "a boolean", result = true },
  ["false"] = { cpp = "bool", field = "False", getter = "boolean", editor = "false",
    text = "`false`, which chooses an overload" },
  ["string"] = { cpp = "std::string_view", field = "String", getter = "string", editor = "string",
    text = "a string", capture = "std::string(%s)" },
  ["Dim"] = { cpp = "int64_t", field = "Dim", getter = "dim", editor = "integer",
    text = "1-based, negative from the end; arrives 0-based and wrapped",
    number = true, dim = true, wrap = "wrap_dim" },
  ["NewDim"] = { cpp = "int64_t", field = "Dim", getter = "dim", editor = "integer",
    text = "the same for a position between dims (rank + 1 positions)",
    number = true, dim = true, wrap = "wrap_dim", positions = " + 1" },
  ["Dim[]"] = { cpp = "const Dims&", value = "Dims", field = "DimList", getter = "dims",
    editor = "integer|integer[]", text = "one dim or a table; `{}` names none",
    number = true, many = true, wrap = "wrap_dims" },
  ["Dim[]?"] = { cpp = "const OptionalDims&", below = "const Dims&", value = "Dims", field = "DimList",
    getter = "dims", editor = "integer|integer[]",
    text = "the same; left out it means all dims, and arrives as all of them",
    number = true, many = true, wrap = "wrap_given_or_all", class = true, given = "OptionalDims(%s)",
    absent = "OptionalDims()" },
  ["Dim[*]"] = { cpp = "const Dims&", value = "Dims", field = "DimList", getter = "dims",
    editor = "integer|integer[]",
    text = "the same; left out or `{}` it means all dims, and arrives as all of them",
    number = true, many = true, wrap = "wrap_dims_or_all" },
  ["Index"] = { cpp = "int64_t", field = "Index", getter = "index", editor = "integer",
    text = "a 1-based position; arrives 0-based, negative kept", number = true, from_one = true },
  ["Index[*]"] = { cpp = "const std::vector<int64_t>&", value = "std::vector<int64_t>",
    field = "IndexVector", getter = "indices", editor = "integer|integer[]",
    text = "a table of 1-based positions, of any length; they arrive 0-based, negative kept",
    number = true, many = true },
  ["MemoryFormat"] = { cpp = "MemoryFormat", field = "MemoryFormat", getter = "memory_format",
    editor = "moonlet.memory_format", text = '`ml.channels_last` or `"channels_last"`' },
  ["DType"] = { cpp = "DType", field = "DType", getter = "dtype", editor = "moonlet.dtype",
    text = '`ml.float64` or `"float64"`', of_out = "dtype()" },
  ["Device"] = { cpp = "Device", field = "Device", getter = "device", editor = "string",
    text = '`"cuda:0"`', of_out = "device()" },
  ["Generator?"] = { cpp = "Generator*", field = "Generator", getter = "generator",
    editor = "moonlet.Generator", text = "an `ml.Generator`, always by name",
    null = "nullptr", itself = true, draws = true, named = true },
  ["Options"] = { cpp = "Options", getter = "options",
    text = "the named fields `dtype`, `device`, `requires_grad` (always last); "
      .. "a dtype left out is that of a `Scalar` there",
    spread = { { "dtype", "DType?" }, { "device", "Device?" }, { "requires_grad", "bool" } } },
}

-- Lists of a fixed length, and values that may be nil.
for length = 1, 3 do
  list[("int[%d]"):format(length)] = setmetatable({ length = length }, { __index = list["int[N]"] })
end
list["int[N]"] = nil
for _, name in ipairs { "Scalar", "int", "float", "bool", "Dim", "MemoryFormat", "DType", "Device" } do
  local optional = ("std::optional<%s>"):format(list[name].cpp)
  list[name .. "?"] = setmetatable({ cpp = optional, below = optional, value = optional, result = false,
    given = optional .. "(%s)", absent = "std::nullopt" }, { __index = list[name] })
end

list["string?"] = setmetatable({ cpp = "const std::optional<std::string>&",
  below = "const std::optional<std::string>&", value = "std::optional<std::string>",
  given = "std::optional<std::string>(%s)", absent = "std::nullopt", capture = false },
  { __index = list["string"] })

for name, t in pairs(list) do
  t.name = name
  t.nullable = name:find "%?$" ~= nil
  t.below = t.below or t.cpp
  t.value = t.value or t.cpp
end
types.list = list

-- The description of an argument type; an error otherwise.
function types.argument(name)
  return list[name] or error(("unknown argument type '%s'"):format(name), 0)
end

-- The C++ type of one result.
function types.result(name)
  local t = list[name]
  return t and t.result and t.value or error(("unknown result type '%s'"):format(name), 0)
end

return types
