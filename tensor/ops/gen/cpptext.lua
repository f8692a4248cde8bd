-- tensor/ops/gen/cpptext.lua: small pieces of C++ text that several emitters write.

local cpptext = {}

-- "const Tensor& x, int64_t dim" with defaults where asked and the row has them. Options: defaults;
-- inplace and out, for these forms; below: of what is called with wrapped dims; computed: the same as
-- shape functions take them, without the generator.
function cpptext.parameters(row, options)
  options = options or {}
  local out = {}
  for i, arg in ipairs(row.args) do
    local cpp = (options.below or options.computed) and arg.info.below or arg.info.cpp
    if i == 1 and options.inplace then cpp = "Tensor&" end
    local text = cpp .. " " .. arg.name
    local default = arg.default or (arg.info.spread and "{}") or nil
    if options.defaults and default then
      local class = arg.info.tensor or arg.info.class
      if default == "nil" then default = arg.info.null or class and "{}" or "std::nullopt" end
      text = text .. " = " .. default
    end
    if not (options.computed and arg.info.draws) then out[#out + 1] = text end
  end
  if options.out then table.insert(out, 1, "Tensor& " .. table.concat(cpptext.out_names(row), ", Tensor& ")) end
  return table.concat(out, ", ")
end

-- Whether devices have a kernel for the row.
function cpptext.has_kernel(row) return row.kind ~= "view" and row.kind ~= "composite" end

-- "OpKind::Pointwise"
function cpptext.kind(row) return "OpKind::" .. row.kind:gsub("^%l", string.upper) end

-- ".name = value," for each {name, value} whose value there is, a line each: the fields of a struct in
-- the order in which it declares them.
function cpptext.initializers(fields)
  local out = {}
  for _, field in ipairs(fields) do
    if field[2] then out[#out + 1] = (".%s = %s,"):format(field[1], field[2]) end
  end
  return out
end

-- "// tensor/ops/nn.lua:12": where the row stands that the text below is made from.
function cpptext.mark(row) return ("// tensor/ops/%s.lua:%d"):format(row.family, row.line) end

-- The families in the order of the table.
function cpptext.families(rows)
  local out, seen = {}, {}
  for _, row in ipairs(rows) do
    if not seen[row.family] then
      seen[row.family] = true
      out[#out + 1] = row.family
    end
  end
  return out
end

-- "NnLossKernels"
function cpptext.kernel_struct(family)
  return (("_" .. family):gsub("_+(%w)", string.upper)) .. "Kernels"
end

-- The parameters of an out form that take the results: "out", or "out0", "out1", ...
function cpptext.out_names(row)
  if #row.results == 1 then return { "out" } end
  local out = {}
  for i = 1, #row.results do out[i] = "out" .. i - 1 end
  return out
end

-- "x, dim": the arguments of a shape function.
function cpptext.computed_arguments(row)
  local out = {}
  for _, arg in ipairs(row.args) do
    if not arg.info.draws then out[#out + 1] = arg.name end
  end
  return table.concat(out, ", ")
end

-- The argument that random numbers come from; nil if none.
function cpptext.generator(row)
  for _, arg in ipairs(row.args) do
    if arg.info.draws then return arg end
  end
end

-- The C++ type of a function's result: one type or a tuple.
function cpptext.result(row)
  if #row.results == 1 then return row.results[1].cpp end
  local out = {}
  for i, result in ipairs(row.results) do out[i] = result.cpp end
  return "std::tuple<" .. table.concat(out, ", ") .. ">"
end

-- "Tensor& mm_out(Tensor& out, ...)": the out form of an op without the tape. With several results
-- it returns nothing.
function cpptext.raw_out_declaration(row)
  return ("%s %s_out(%s)"):format(#row.results == 1 and "Tensor&" or "void", row.name,
    cpptext.parameters(row, { out = true, below = true }))
end

-- "dtypes::floating | dtypes::complex"
function cpptext.dtype_set(row)
  local out = {}
  for i, set in ipairs(row.dtypes) do out[i] = "dtypes::" .. set end
  return table.concat(out, " | ")
end

-- The first argument that is a tensor by itself, which decides device and dtype; nil if none.
function cpptext.leading_tensor(row)
  for _, arg in ipairs(row.args) do
    if arg.info.leads then return arg end
  end
end

-- The first list of tensors that are all defined; nil if none.
function cpptext.leading_list(row)
  for _, arg in ipairs(row.args) do
    if arg.info.list and not arg.info.optional then return arg end
  end
end

-- The arguments the op writes to besides `target`, the one that an in-place form changes.
function cpptext.written(row, target)
  local out = {}
  for _, arg in ipairs(row.args) do
    if arg.written and arg ~= target then out[#out + 1] = arg end
  end
  return out
end

-- Statements that turn Dim arguments into 0-based, wrapped ones, shadowing nothing: parameters
-- taken by value are assigned, lists get a local of the same name with a trailing underscore.
function cpptext.wrap_dims(row)
  local lines, renamed = {}, {}
  local lead, list = cpptext.leading_tensor(row), cpptext.leading_list(row)
  if not lead and not list then return lines, renamed end
  local rank = lead and lead.name .. ".dim()" or ("rank_of(%s, \"%s\")"):format(list.name, row.name)
  for _, arg in ipairs(row.args) do
    local n, info = arg.name, arg.info
    local call = '%s(%s, ' .. rank .. (info.positions or "") .. ', "' .. row.name .. '")'
    if info.wrap and info.many then
      lines[#lines + 1] = ("const Dims %s_ = %s;"):format(n, call:format(info.wrap, n))
      renamed[n] = n .. "_"
    elseif info.wrap and info.nullable then
      lines[#lines + 1] = ("if (%s) %s = %s;"):format(n, n, call:format(info.wrap, "*" .. n))
    elseif info.wrap then
      lines[#lines + 1] = ("%s = %s;"):format(n, call:format(info.wrap, n))
    end
  end
  return lines, renamed
end

return cpptext
