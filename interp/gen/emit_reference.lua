-- interp/gen/emit_reference.lua: writes the reference as a Lua module, for help().

local reference = require "interp.gen.reference"

local fields = { "name", "kind", "calls", "results", "doc", "params", "returns", "shapes", "formula", "errors",
  "source", "notes", "see", "examples", "page", "parent", "owner", "same_as", "method", "inplace", "more",
  "type", "field_of", "default", "optional", "text", "code", "gives" }

local write_entry

local function write_value(value)
  if type(value) ~= "table" then
    return type(value) == "string" and ("%q"):format(value):gsub("\\\n", "\\n") or tostring(value)
  end
  local parts = {}
  for i, item in ipairs(value) do
    parts[i] = type(item) == "table" and write_entry(item) or write_value(item)
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

function write_entry(entry)
  local parts = {}
  for _, field in ipairs(fields) do
    local value = entry[field]
    if (field == "results" or field == "type") and value then value = value:gsub("moonlet%.", "") end
    local empty = value == nil or value == "" or type(value) == "table" and #value == 0
    if not empty then parts[#parts + 1] = field .. " = " .. write_value(value) end
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

return function(rows, _, _, root)
  local out = { "-- Generated: what help() knows, see interp/gen/reference.lua.", "return {" }
  for _, entry in ipairs(reference.entries(rows, root)) do out[#out + 1] = "  " .. write_entry(entry) .. "," end
  out[#out + 1] = "}\n"
  return table.concat(out, "\n")
end
