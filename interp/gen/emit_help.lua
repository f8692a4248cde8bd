-- interp/gen/emit_help.lua: writes a Lua module with what help() shows for each op: how it is
-- called, its text and examples.

local lua_signature = require "lua_signature"

-- Where a script can call the op from.
local function calls(row)
  local out = {}
  local usage = lua_signature.usage(row, row.overload_of)
  if row.func ~= false then out[#out + 1] = "ml." .. usage end
  if lua_signature.is_method(row) then
    local name, rest = usage:match "^([%w_]+)%(%w+,?%s*(.*)$"
    if name then out[#out + 1] = ("x:%s(%s"):format(name, rest) end
  end
  return out
end

local function examples(row)
  local out = {}
  for i, sample in ipairs(row.sample or {}) do
    out[i] = ("ml.%s(%s)"):format(row.overload_of or row.name, sample)
  end
  return out
end

-- A bare "randn(3)" in a sample is a function of the module.
local function qualified(text)
  return (text:gsub("([%w_.:]+)(%s*[({])", function(name, bracket)
    if name:find "[.:]" or not name:match "^%a" then return nil end
    return "ml." .. name .. bracket
  end))
end

local function list(items)
  local quoted = {}
  for i, item in ipairs(items) do quoted[i] = ("%q"):format(item) end
  return "{" .. table.concat(quoted, ", ") .. "}"
end

return function(rows)
  local out = { "-- Generated from the op table: the texts of help().", "return {" }
  for _, row in ipairs(rows) do
    local shown = {}
    for i, example in ipairs(examples(row)) do shown[i] = qualified(example) end
    local differentiable = #row.grads > 0 or row.kind == "composite"
    out[#out + 1] = ("  [%q] = { calls = %s, results = %q, family = %q, overload_of = %s,")
      :format(row.name, list(calls(row)), lua_signature.results(row), row.family,
        row.overload_of and ("%q"):format(row.overload_of) or "nil")
    out[#out + 1] = ("    differentiable = %s, inplace = %s, doc = %q,"):format(
      tostring(differentiable), tostring(row.inplace_form == true), row.doc)
    out[#out + 1] = ("    examples = %s },"):format(list(shown))
  end
  out[#out + 1] = "}\n"
  return table.concat(out, "\n")
end
