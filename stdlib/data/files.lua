-- stdlib/data/files.lua: tables of numbers from CSV files and arrays from IDX files (the format of
-- MNIST), gzip too.

local bytes = require "moonlet.bytes"
local ml = require "moonlet"
local numbers = require "moonlet.numbers"
local options = require "moonlet.options"
local system = require "moonlet.system"

local files = {}

local kIntegers = { int64 = true, int32 = true, int16 = true, int8 = true, uint8 = true }

--- A CSV file of numbers as a `(rows, columns)` tensor. Options: `header` (false; true takes the
--- names of the columns from the first line), `separator` (","), `dtype` (the default dtype).
--- A bad or missing field and a line of another length are errors that name the line and column.
---@param path string
---@param given? table
---@return Tensor values
---@return string[]? names
function files.read_csv(path, given)
  local o = options.read("read_csv", given,
    { header = false, separator = ",", dtype = ml.get_default_dtype() })
  options.boolean("read_csv", "header", o.header)
  if type(o.separator) ~= "string" then
    options.fail("read_csv: 'separator' must be a string, got %s", type(o.separator))
  end
  local values, names = bytes.read_csv(path, o.separator, o.header, kIntegers[o.dtype] == true)
  local converted = values:to(o.dtype)
  if o.dtype ~= "int64" and kIntegers[o.dtype]
      and not converted:to("int64"):eq(values):all():item() then
    options.fail("read_csv: '%s' has numbers that do not fit %s", path, o.dtype)
  end
  return converted, names
end

--- Writes a tensor of one or two dimensions as CSV, whole or not at all. Options: `header` (an
--- array of names), `separator` (",").
---@param path string
---@param tensor Tensor
---@param given? table
function files.write_csv(path, tensor, given)
  local o = options.read("write_csv", given, { header = options.none, separator = "," })
  if not ml.is_tensor(tensor) or tensor.ndim < 1 or tensor.ndim > 2 then
    options.fail("write_csv: a tensor of one or two dimensions is wanted")
  end
  local lines = {}
  if o.header then lines[1] = table.concat(o.header, o.separator) end
  for _, row in ipairs(tensor:detach():totable()) do
    if type(row) ~= "table" then row = { row } end
    for i, value in ipairs(row) do
      if math.type(value) == "float" then
        local text = numbers.format("%.9g", value)
        if tonumber(text) ~= value then text = numbers.format("%.17g", value) end
        row[i] = text
      else
        row[i] = tostring(value)
      end
    end
    lines[#lines + 1] = table.concat(row, o.separator)
  end
  lines[#lines + 1] = ""
  system.write_file(path, table.concat(lines, "\n"), "write_csv")
end

--- An IDX file as a tensor of the file's shape and type.
---@param path string
---@return Tensor
function files.read_idx(path)
  return bytes.read_idx(path)
end

return files
