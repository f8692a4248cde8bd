-- interp/gen/emit_reference.lua: writes the reference as a Lua module, for help(): of the ops that the build has.

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

-- The names of ops that the build has not.
local function left_out(rows)
  local names = {}
  for _, row in ipairs(rows) do
    for _, name in ipairs { row.lua_name, table.unpack(row.alias) } do names[name] = row.left_out end
  end
  return names
end

return function(rows, _, _, root)
  local absent = left_out(rows)
  local out = { "-- Generated: what help() knows, see interp/gen/reference.lua.", "return {" }
  for _, entry in ipairs(reference.entries(rows, root)) do
    if entry.kind ~= "op" or not absent[entry.name] then out[#out + 1] = "  " .. write_entry(entry) .. "," end
  end
  out[#out + 1] = "}\n"
  return table.concat(out, "\n")
end
