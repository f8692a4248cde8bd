-- interp/gen/op_docs.lua: the op rows as entries of the reference.

local argument_texts = require "interp.gen.argument_texts"
local cpptext = require "tensor.ops.gen.cpptext"
local derived_shapes = require "interp.gen.derived_shapes"
local lua_signature = require "tensor.ops.gen.lua_signature"

local op_docs = {}

local function is_function(row) return row.plain_form and lua_signature.is_function(row) end

-- Whether scripts have only the form that works in place, always a method.
local function is_in_place_only(row)
  return row.inplace_form and not is_function(row)
    and not (row.plain_form and lua_signature.is_method(row))
end

-- Where a script can call the op from.
local function calls(row, name)
  local out = {}
  local usage = lua_signature.usage(row, name)
  if is_function(row) then out[#out + 1] = "ml." .. usage end
  if lua_signature.is_method(row) or is_in_place_only(row) then
    local called, rest = usage:match "^([%w_]+)%([%w_]+,?%s*(.*)$"
    if called then out[#out + 1] = ("x:%s(%s"):format(called, rest) end
  end
  return out
end

-- A bare "randn(3)" in a sample is a function of the module.
local function qualified(text)
  return (text:gsub("([%w_.:]+)(%s*[({])", function(name, bracket)
    if name == "function" or name:find "[.:]" or not name:match "^%a" then return nil end
    return "ml." .. name .. bracket
  end))
end

-- A function is called with the sample; what is only a method, on its first value.
local function example(row, name, sample)
  if is_function(row) then return qualified(("ml.%s(%s)"):format(name, sample)) end
  local depth = 0
  for i = 1, #sample + 1 do
    local c = sample:sub(i, i)
    if c:find "[%(%[{]" then depth = depth + 1 elseif c:find "[%)%]}]" then depth = depth - 1 end
    if i > #sample or c == "," and depth == 0 then
      return qualified(("%s:%s(%s)"):format(sample:sub(1, i - 1), name, sample:sub(i + 1):gsub("^%s+", "")))
    end
  end
end

-- The row's own example with its result, or else the calls of its samples; an overload needs none.
local function examples(row, name)
  if row.first and row.first.example and not row.example then return {} end
  if row.example then return { { code = row.example, gives = row.gives } } end
  local out = {}
  for i, sample in ipairs(row.sample or {}) do out[i] = { code = example(row, name, sample) } end
  return out
end

local function notes(row)
  local out = { "dtypes: " .. table.concat(row.dtypes, ", ") }
  if not row.is_differentiable then
    out[#out + 1] = "not differentiable"
  elseif row.kind == "composite" then
    out[#out + 1] = "differentiable where the ops it is made of are"
  else
    out[#out + 1] = "differentiable"
  end
  if row.cpu_only then out[#out + 1] = "CPU only: " .. row.cpu_only end
  if row.inplace_form and not is_in_place_only(row) then
    out[#out + 1] = ("in place: `%s_`"):format(row.lua_name)
  end
  if #row.alias > 0 then out[#out + 1] = ("also called `%s`"):format(table.concat(row.alias, "`, `")) end
  if row.meta then out[#out + 1] = ("metamethod `%s`"):format(row.meta) end
  return table.concat(out, "; ")
end

local function params(row)
  local out = {}
  for i, arg in ipairs(lua_signature.arguments(row)) do
    out[i] = { name = arg.name, type = arg.info.editor, optional = not arg.required or nil,
      default = arg.default ~= "nil" and arg.default or nil,
      text = argument_texts.of_op(row, arg) }
  end
  if row.out_form then
    local several = #row.results > 1
    out[#out + 1] = { name = "out", type = several and "moonlet.Tensor[]" or "moonlet.Tensor",
      optional = true, text = argument_texts.of_out(row) }
  end
  return out
end

-- The function that C++ calls.
local function cpp_function(row)
  if is_in_place_only(row) then
    local parameters = cpptext.parameters(row, { inplace = true, defaults = true })
    return ("Tensor& moonlet::%s_(%s)"):format(row.name, parameters)
  end
  return ("%s moonlet::%s(%s)"):format(cpptext.result(row), row.name,
    cpptext.parameters(row, { defaults = true }))
end

--- The name by which scripts call a row's first form.
---@param row table
---@return string
function op_docs.name(row)
  local name = row.lua_name
  return is_in_place_only(row) and name .. "_" or name
end

local function lines_of(text)
  local out = {}
  for line in (text or ""):gmatch "[^\n]+" do out[#out + 1] = line end
  return out
end

local function entry_of(row)
  local name, first = op_docs.name(row), row.first
  return {
    name = name, kind = "op", page = "ops_" .. row.family, calls = calls(row, name),
    results = lua_signature.results(row), doc = row.doc, params = params(row), see = {},
    shapes = lines_of(row.shapes or derived_shapes.of(row) or first and first.shapes),
    formula = row.formula, errors = { row.errors }, source = row.source,
    examples = examples(row, name), notes = notes(row), cpp = cpp_function(row),
    method = lua_signature.is_method(row) or is_in_place_only(row) or nil,
    inplace = row.inplace_form and not is_in_place_only(row) or nil,
  }
end

--- The modules that ops are in, each a field of `ml` and a module of its own.
op_docs.modules = {
  fft = "Discrete Fourier transforms.",
  linalg = "Decompositions of matrices, solvers, norms.",
  special = "Special functions, also under SciPy's names.",
}

local function module_entries(rows)
  local out, known = {}, {}
  local function add(name, row)
    local module = name:match "^(.*)%."
    if not module or known[module] then return end
    known[module] = true
    local doc = assert(op_docs.modules[module], "no words for the module " .. module)
    out[#out + 1] = { name = module, kind = "namespace", page = "ops_" .. row.family, calls = {},
      see = {}, examples = {}, doc = doc }
  end
  for _, row in ipairs(rows) do
    add(row.lua_name, row)
    for _, alias in ipairs(row.alias) do add(alias, row) end
  end
  return out
end

local function alias_entries(row, out)
  for _, alias in ipairs(row.alias) do
    out[#out + 1] = { name = alias, kind = "op", page = "ops_" .. row.family, calls = {},
      same_as = op_docs.name(row), method = lua_signature.is_method(row) and not alias:find "%." or nil,
      inplace = row.inplace_form and not alias:find "%." or nil }
  end
end

--- An entry for each op and for each of its other names, its overloads in the entry's `more`.
---@param rows table[]
---@return table[]
function op_docs.entries(rows)
  local out, by_name = module_entries(rows), {}
  for _, row in ipairs(rows) do
    local hidden = row.internal or row.func == false and row.method == false and not row.inplace_form
    if not row.overload_of and not hidden then
      local entry = entry_of(row)
      out[#out + 1], by_name[row.name] = entry, entry
      alias_entries(row, out)
    end
  end
  for _, row in ipairs(rows) do
    local first = row.overload_of and by_name[row.overload_of]
    if first then
      first.more = first.more or {}
      table.insert(first.more, entry_of(row))
    end
  end
  return out
end

return op_docs
