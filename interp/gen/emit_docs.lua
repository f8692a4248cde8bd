-- interp/gen/emit_docs.lua: writes the reference page of one family of ops in Markdown.

local lua_signature = require "lua_signature"

local titles = {
  pointwise = "Pointwise arithmetic and math", compare = "Comparison and selection",
  activation = "Activations", copy = "Writing over elements", clone = "Copies",
  convert = "Dtypes and devices", reduce = "Reductions",
  sort = "Sorting", random = "Random numbers", create = "Creation",
  gather = "Gathering and indexing", optim = "Optimiser steps",
  linalg = "Linear algebra", nn = "Neural networks", nn_loss = "Losses", shape = "Shapes and views",
}

local function argument_line(arg)
  local what = ("- `%s`: %s"):format(arg.name, arg.type)
  if arg.default then what = what .. (", `%s` unless given"):format(arg.default)
  elseif not arg.required then what = what .. ", optional" end
  return what
end

local function forms(row)
  local out = {}
  if row.inplace_form then out[#out + 1] = ("in place: `%s_`"):format(row.name) end
  if row.out_form then out[#out + 1] = "`out` takes the result's tensor" end
  if row.meta then out[#out + 1] = ("metamethod `%s`"):format(row.meta) end
  return out
end

local function properties(row)
  local out = { "dtypes: " .. table.concat(row.dtypes, ", ") }
  if row.kind == "composite" then out[#out + 1] = "differentiable where the ops it is made of are"
  elseif #row.grads > 0 then out[#out + 1] = "differentiable"
  else out[#out + 1] = "not differentiable" end
  if row.no_cuda then out[#out + 1] = "CPU only: " .. row.no_cuda end
  for _, form in ipairs(forms(row)) do out[#out + 1] = form end
  return table.concat(out, "; ")
end

local function emit_row(out, row)
  local public = row.overload_of or row.name
  out[#out + 1] = ("## %s%s\n"):format(public, row.overload_of and " (with a dimension)" or "")
  out[#out + 1] = ("```lua\n%s -> %s\n```\n"):format(lua_signature.usage(row, public),
    lua_signature.results(row))
  out[#out + 1] = row.doc .. "\n"
  for _, arg in ipairs(lua_signature.arguments(row)) do out[#out + 1] = argument_line(arg) end
  out[#out + 1] = "\n" .. properties(row) .. ".\n"
  if row.sample and row.sample[1] then
    out[#out + 1] = ("Example: `%s(%s)`\n"):format(public, row.sample[1])
  end
end

return function(rows, family)
  local out = { ("# %s\n"):format(titles[family] or family or "Ops"),
    "Generated from the op table. Dimensions and positions count from 1.\n" }
  for _, row in ipairs(rows) do emit_row(out, row) end
  return table.concat(out, "\n")
end
