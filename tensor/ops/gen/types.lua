-- tensor/ops/gen/types.lua: the argument types of the op table and what each is in C++.

local types = {}

-- cpp: how a parameter is declared; below: how below the public op, where dims are wrapped; tensor:
-- it holds tensors; null: the C++ default of a nil; draws: it is where random numbers come from,
-- which the generated code asks and no kernel or shape function sees.
local list = {
  ["Tensor"]    = { cpp = "const Tensor&", tensor = true },
  ["Tensor?"]   = { cpp = "const Tensor&", tensor = true, optional = true },
  ["Tensor[]"]  = { cpp = "const std::vector<Tensor>&", tensor = true, list = true },
  ["Tensor?[]"] = { cpp = "const std::vector<Tensor>&", tensor = true,
                  list = true, optional = true },
  ["Operand"]   = { cpp = "const Operand&", tensor = true, operand = true },
  ["Mask"]      = { cpp = "const Tensor&", tensor = true, fixed = true },
  ["Positions"] = { cpp = "const Tensor&", tensor = true, fixed = true },
  ["Scalar"]    = { cpp = "Scalar" },
  ["Scalar?"]   = { cpp = "std::optional<Scalar>" },
  ["int"]       = { cpp = "int64_t" },
  ["int?"]      = { cpp = "std::optional<int64_t>" },
  ["int[]"]     = { cpp = "const Dims&" },
  ["int[1]"]    = { cpp = "const Dims&" },
  ["int[2]"]    = { cpp = "const Dims&" },
  ["int[3]"]    = { cpp = "const Dims&" },
  ["int[*]"]    = { cpp = "const std::vector<int64_t>&" },
  ["float"]     = { cpp = "double" },
  ["float?"]    = { cpp = "std::optional<double>" },
  ["bool"]      = { cpp = "bool" },
  ["string"]    = { cpp = "std::string_view" },
  ["Dim"]       = { cpp = "int64_t" },
  ["Dim?"]      = { cpp = "std::optional<int64_t>" },
  ["NewDim"]    = { cpp = "int64_t" },
  ["Dim[]"]     = { cpp = "const Dims&" },
  ["Dim[*]"]    = { cpp = "const Dims&" },
  ["Dim[]?"]    = { cpp = "const OptionalDims&", below = "const Dims&" },
  ["Index"]     = { cpp = "int64_t" },
  ["DType?"]    = { cpp = "std::optional<DType>" },
  ["Device?"]   = { cpp = "std::optional<Device>" },
  ["MemoryFormat"] = { cpp = "MemoryFormat" },
  ["MemoryFormat?"] = { cpp = "std::optional<MemoryFormat>" },
  ["Generator?"] = { cpp = "Generator*", null = "nullptr", draws = true },
  ["Options"]   = { cpp = "Options" },
}

for name, t in pairs(list) do
  t.name = name
  t.below = t.below or t.cpp
end

local results = {
  ["Tensor"] = "Tensor", ["Tensor[]"] = "std::vector<Tensor>", ["bool"] = "bool",
  ["int"] = "int64_t", ["float"] = "double", ["Scalar"] = "Scalar",
}

-- The description of an argument type; an error that names the row otherwise.
function types.argument(name, row_name)
  return list[name] or error(("op %s: unknown argument type '%s'"):format(row_name, name), 0)
end

-- The C++ type of one result.
function types.result(name, row_name)
  return results[name] or error(("op %s: unknown result type '%s'"):format(row_name, name), 0)
end

return types
