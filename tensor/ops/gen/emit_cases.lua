-- tensor/ops/gen/emit_cases.lua: what the generated op tests need of each row, as a Lua table.

local lua_signature = require "tensor.ops.gen.lua_signature"
local sets = require("tensor.ops.gen.dtypes").sets

local function list(strings)
  local out = {}
  for i, s in ipairs(strings) do out[i] = ("%q"):format(s) end
  return "{" .. table.concat(out, ", ") .. "}"
end

-- Whether Lua can call the plain form.
local function is_callable(row)
  return row.func ~= false or row.method ~= false or row.internal == true
end

local function case(row)
  local dtypes, args, names, grads, writes = {}, {}, {}, {}, {}
  for _, set in ipairs(row.dtypes) do
    for _, dtype in ipairs(sets[set]) do dtypes[#dtypes + 1] = dtype end
  end
  for i, arg in ipairs(row.args) do
    args[i], names[i] = arg.type, arg.name
    if arg.written then writes[#writes + 1] = arg.name .. " = true" end
  end
  for _, grad in ipairs(row.grads) do
    for _, name in ipairs(grad.args) do grads[#grads + 1] = name end
  end
  local nodiff = {}
  for i, result in ipairs(row.results) do
    if row.nodiff_set[result.name] then nodiff[#nodiff + 1] = ("[%d] = true"):format(i) end
  end
  local checks = {}
  for name, reason in pairs(row.check or {}) do checks[#checks + 1] = ("%s = %q"):format(name, reason) end
  table.sort(checks)
  local fields = {
    ("name = %q"):format(row.name), ("call = %q"):format(row.lua_name),
    ("inplace_call = %q"):format(lua_signature.inplace_name(row)),
    ("family = %q"):format(row.family), ("kind = %q"):format(row.kind),
    "dtypes = " .. list(dtypes), "args = " .. list(args), "names = " .. list(names),
    "grads = " .. list(grads), "constant = " .. list(row.constant or {}),
    "alias = " .. list(row.alias), "samples = " .. list(row.sample or {}),
    "writes = {" .. table.concat(writes, ", ") .. "}",
    ("plain = %s"):format(row.plain_form == true and is_callable(row)), ("inplace = %s"):format(row.inplace_form == true),
    ("restrides = %s"):format(row.inplace == "view"),
    ("out = %s"):format(row.out_form == true), ("random = %s"):format(row.random == true),
    ("int_to_float = %s"):format(row.int_to_float == true),
    ("func = %s"):format(row.func ~= false),
    "nodiff = {" .. table.concat(nodiff, ", ") .. "}",
    ("differentiable = %s"):format(row.is_differentiable),
    ("callable = %s"):format(is_callable(row)),
    ("result = %q"):format(row.result or "same"), ("results = %d"):format(#row.results),
    ("torch = %q"):format(row.torch or ("torch.%s(*args)"):format(row.lua_name)),
    "check = {" .. table.concat(checks, ", ") .. "}",
  }
  if row.cpu_only then fields[#fields + 1] = ("cpu_only = %q"):format(row.cpu_only) end
  return "  { " .. table.concat(fields, ", ") .. " },"
end

return function(rows)
  local out = { "-- Generated from tensor/ops/*.lua.", "return {" }
  for _, row in ipairs(rows) do out[#out + 1] = case(row) end
  out[#out + 1] = "}\n"
  return table.concat(out, "\n")
end
