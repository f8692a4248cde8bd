-- stdlib/data/files.lua: tables of numbers from CSV files and arrays from IDX files (the format of
-- MNIST), gzip too.

local bytes = require "moonlet.bytes"
local ml = require "moonlet"
local numbers = require "moonlet.numbers"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local system = require "moonlet.system"

local files = {}

local INTEGERS = { int64 = true, int32 = true, int16 = true, int8 = true, uint8 = true }

local read_csv = signature('data.read_csv(any? path=nil, bool header=false, string separator=",", '
  .. "string? dtype=nil)")

local function check_separator(op, separator)
  if #separator ~= 1 or separator:find '["\n\r+%-.%w]' then
    options.fail("%s: 'separator' must be one character that no number has", op)
  end
end

--- A CSV file of numbers as a `(rows, columns)` tensor. Options: `header` (false; true takes the
--- names of the columns from the first line), `separator` (","), `dtype` (the default dtype).
--- A bad or missing field and a line of another length are errors that name the line and column;
--- `data.read_table` reads files with text or missing fields.
---@param path string
---@param header? boolean
---@param separator? string
---@param dtype? string
---@return Tensor values
---@return string[]? names
function files.read_csv(...)
  local path, header, separator, dtype = read_csv(...)
  check_separator("read_csv", separator)
  dtype = dtype or ml.get_default_dtype()
  local values, names = bytes.read_csv(path, separator, header, INTEGERS[dtype] == true)
  local converted = values:to(dtype)
  if dtype ~= "int64" and INTEGERS[dtype]
      and not converted:to("int64"):eq(values):all():item() then
    options.fail("read_csv: '%s' has numbers that do not fit %s", path, dtype)
  end
  return converted, names
end

local write_csv = signature("data.write_csv(string path, Tensor tensor, string[]? header=nil, "
  .. 'string separator=",")')

-- The first line of a file: names that hold more than plain text go between quotes.
local function header_line(names, separator, columns)
  if #names ~= columns then
    options.fail("write_csv: 'header' has %d names for %d columns", #names, columns)
  end
  local fields = {}
  for i, name in ipairs(names) do
    local plain = name ~= "" and not name:find('["\n\r]') and not name:find("^%s")
      and not name:find("%s$") and not name:find(separator, 1, true)
    fields[i] = plain and name or '"' .. name:gsub('"', '""') .. '"'
  end
  return table.concat(fields, separator)
end

--- Writes a tensor of one or two dimensions as CSV, whole or not at all. Options: `header` (an
--- array of names, one for each column), `separator` (",").
---@param path string
---@param tensor Tensor
---@param header? string[]
---@param separator? string
function files.write_csv(...)
  local path, tensor, header, separator = write_csv(...)
  if tensor.ndim < 1 or tensor.ndim > 2 then
    options.fail("write_csv: a tensor of one or two dimensions is wanted, got shape %s",
      tostring(tensor.shape))
  end
  check_separator("write_csv", separator)
  local lines = {}
  if header then
    lines[1] = header_line(header, separator, tensor.ndim == 2 and tensor.shape[2] or 1)
  end
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
    lines[#lines + 1] = table.concat(row, separator)
  end
  lines[#lines + 1] = ""
  system.write_file(path, table.concat(lines, "\n"), "write_csv")
end

local read_idx = signature "data.read_idx(any? path=nil)"

--- An IDX file as a tensor of the file's shape and type.
---@param path string
---@return Tensor
function files.read_idx(...)
  return bytes.read_idx((read_idx(...)))
end

return files
