-- stdlib/data/table.lua: CSV files with columns of text as well as of numbers, with names and with
-- missing fields; and categories, the positions that stand for texts.

local class = require "moonlet.class"
local io = require "moonlet.io"
local ml = require "moonlet"
local numbers = require "moonlet.numbers"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local tables = {}

local MISSING = { "", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null" }
local KINDS = { number = true, text = true }
local SHOWN_VALUES = 4

local read_columns = signature "data.Table(table columns)"

--- Named columns of one length, as `data.read_table` returns them: each a 1-D tensor of numbers,
--- with NaN for what is missing, or an array of texts, with "" for it.
--- `data.Table { { "age", { 31, 58 } }, { "city", { "Bern", "" } } }` makes one. `#t` is the number
--- of rows, `t.names` the array of the columns' names, and `print(t)` says what is in each.
local Table = class "Table"
tables.Table = Table

-- A column from what a script gives for one.
local function check_column(name, values)
  if ml.is_tensor(values) and values.ndim == 1 then return values end
  local kind = type(values) == "table" and type(values[1])
  local good = kind == "number" or kind == "string"
  for i = 2, good and #values or 0 do good = good and type(values[i]) == kind end
  if not good then
    fail("Table: column '%s' must be an array of numbers or of texts, or a 1-D tensor, got %s",
      name, signature.describe(values))
  end
  return kind == "string" and values or ml.tensor(values, { dtype = ml.get_default_dtype() })
end

function Table:init(...)
  self.names, self.columns = {}, {}
  for i, entry in ipairs(read_columns(...)) do
    local name = type(entry) == "table" and entry[1]
    if type(name) ~= "string" then
      fail("Table: column %d must be { name, values }, got %s", i, signature.describe(entry))
    elseif self.columns[name] then
      fail("Table: there are two columns called '%s'", name)
    end
    local column = check_column(name, entry[2])
    if i > 1 and #column ~= self.rows then
      fail("Table: column '%s' has %d rows, column '%s' %d", name, #column, self.names[1],
        self.rows)
    end
    self.names[i], self.columns[name], self.rows = name, column, #column
  end
  if #self.names == 0 then fail "Table: there are no columns" end
end

function Table.__len(self) return self.rows end

local function unknown_column(where, name, names)
  fail("%s: there is no column '%s'%s (there are %s)", where, numbers.tostring(name),
    options.did_you_mean(name, names), table.concat(names, ", "))
end

local read_column = signature "Table:column(string name)"

--- A column: a 1-D tensor of numbers, or an array of texts.
---@param name string
---@return Tensor|string[]
function Table:column(...)
  local name = read_column(...)
  local column = self.columns[name]
  if column == nil then unknown_column("column", name, self.names) end
  return column
end

local read_names = signature "Table:tensor(string[]? names=nil)"

--- Columns of numbers side by side, a tensor (rows, columns): those named, or all there are.
---@param names? string[]
---@return Tensor
function Table:tensor(...)
  local names, parts = read_names(...), {}
  for _, name in ipairs(names or self.names) do
    local column = self:column(name)
    if ml.is_tensor(column) then
      parts[#parts + 1] = column
    elseif names then
      fail("tensor: column '%s' is text; data.Categories makes positions of it", name)
    end
  end
  if #parts == 0 then fail "tensor: there are no columns of numbers" end
  return ml.stack(parts, 2)
end

-- The different texts that are not missing, in the order of their bytes in every locale.
local function distinct(texts)
  local out, seen = {}, { [""] = true }
  for _, text in ipairs(texts) do
    if not seen[text] then
      seen[text] = true
      out[#out + 1] = text
    end
  end
  return out
end

local function describe_numbers(column)
  local known = column[column:isnan():logical_not()]
  local missing = #column - #known
  if #known == 0 then return missing, "" end
  return missing, numbers.format("from %.6g to %.6g", known:amin():item(), known:amax():item())
end

local function quoted_list(texts, most)
  local out = {}
  for i = 1, math.min(#texts, most or #texts) do out[i] = '"' .. texts[i] .. '"' end
  return table.concat(out, ", ")
end

local function describe_texts(column)
  local missing, values = 0, distinct(column)
  for _, text in ipairs(column) do missing = missing + (text == "" and 1 or 0) end
  local shown = quoted_list(values, SHOWN_VALUES)
  local more = #values > SHOWN_VALUES and ", ..." or ""
  return missing, ("%d values: %s%s"):format(#values, shown, more)
end

function Table.__tostring(self)
  local widest = 0
  for _, name in ipairs(self.names) do widest = math.max(widest, utf8.len(name) or #name) end
  local lines = { ("Table of %d rows"):format(#self) }
  for i, name in ipairs(self.names) do
    local column = self.columns[name]
    local is_text = type(column) == "table"
    local missing, text = (is_text and describe_texts or describe_numbers)(column)
    lines[i + 1] = ("  %s%s  %-6s  %4d missing  %s"):format(name,
      (" "):rep(widest - (utf8.len(name) or #name)), is_text and "text" or "number", missing, text)
  end
  return table.concat(lines, "\n")
end

-- The number that a field is, in the notation of read_csv, or nil.
local function number_of(field)
  if not field:find "^[+-]?%.?%d" or field:find "[xX]" then return nil end
  local value = numbers.tonumber(field)
  return value and value - value == 0 and value or nil
end

-- The values of a column of numbers, or nil and the first row that has none.
local function to_numbers(fields, missing)
  local values = {}
  for row, field in ipairs(fields) do
    local value = missing[field] and 0 / 0 or number_of(field)
    if not value then return nil, row end
    values[row] = value
  end
  return values
end

local function to_texts(fields, missing)
  local texts = {}
  for row, field in ipairs(fields) do texts[row] = missing[field] and "" or field end
  return texts
end

-- A column from its fields: of the kind asked for, or of numbers where all fields are.
local function to_column(fields, kind, o, where)
  if kind ~= "text" then
    local values, bad = to_numbers(fields, o.missing)
    if values then return ml.tensor(values, { dtype = o.dtype }) end
    if kind == "number" then
      fail("read_table: '%s', line %d, column '%s': '%s' is no number", o.path, where[bad],
        where.name, fields[bad])
    end
  end
  return to_texts(fields, o.missing)
end

local function check_kinds(kinds, names, columns)
  for name, kind in pairs(kinds) do
    if columns[name] == nil then unknown_column("read_table", name, names) end
    if not KINDS[kind] then
      fail("read_table: the type of column '%s' must be \"number\" or \"text\", got %s",
        name, signature.describe(kind))
    end
  end
end

-- The names of the columns; those of a header must differ.
local function names_of(header, count, path)
  local names, seen = {}, {}
  for i = 1, count do
    local name = header and header[i] or tostring(i)
    if seen[name] then
      fail("read_table: '%s' has two columns called '%s'", path, name)
    end
    names[i], seen[name] = name, i
  end
  return names, seen
end

local function set_of(list)
  local set = {}
  for _, item in ipairs(list) do set[item] = true end
  return set
end

local read_table = signature('data.read_table(string path, bool header=true, '
  .. 'string separator=",", string[]? missing=nil, dict? types=nil, string? dtype=nil, '
  .. 'int>=1? max_bytes=nil)')

--- A CSV file as a `data.Table`, also gzipped: a column where all fields are numbers, or missing,
--- becomes a tensor with NaN for the missing ones, any other an array of texts with "". Options:
--- `header` (true; without one the columns are called "1", "2", ...), `separator` (","), `missing`
--- (the fields that mean it: "", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null"), `types` (a
--- table such as `{ zip = "text", age = "number" }`: what those columns must be), `dtype` of the
--- numbers (the default dtype), `max_bytes`, what reading may take, as in `ml.load`.
--- `data.read_csv` reads numbers alone, faster.
---@param path string
---@param header? boolean
---@param separator? string
---@param missing? string[]
---@param types? table<string, string>
---@param dtype? string
---@param max_bytes? integer
---@return data.Table
function tables.read_table(...)
  local path, header, separator, missing, types, dtype, max_bytes = read_table(...)
  local o = { path = path, missing = set_of(missing or MISSING),
    dtype = dtype or ml.get_default_dtype() }
  if not o.dtype:find "float" then
    fail("read_table: 'dtype' must be a floating one, which has NaN for what is missing, got %s",
      o.dtype)
  end
  local fields, lines, first = io.read_csv_texts(path, header, separator, max_bytes)
  local names, places = names_of(first, #fields, path)
  check_kinds(types or {}, names, places)
  local columns = {}
  for i, name in ipairs(names) do
    lines.name = name
    columns[i] = { name, to_column(fields[i], types and types[name], o, lines) }
  end
  return Table(columns)
end

-- Whether `a` stands before `b` by its bytes, in every locale.
local function bytes_before(a, b)
  for i = 1, math.min(#a, #b) do
    local left, right = a:byte(i), b:byte(i)
    if left ~= right then return left < right end
  end
  return #a < #b
end

local read_categories = signature(
  "data.Categories(string[] values, string? unknown=nil, bool sort=true)")

--- The different texts of an array as positions from 1, for `nn.Embedding`, `ml.one_hot` and class
--- targets: `data.Categories(t:column "city", { unknown = "other" })`. `c.names` is the array of
--- them and `#c` their number. What is missing ("") is none of them. With `unknown`, a last
--- category of that name stands for whatever is missing or not among the others; without, that is
--- an error. They are sorted by their bytes, or stay in the order they come in with `sort = false`.
--- `data.Categories(names)` with saved `c.names` makes them again.
local Categories = class "Categories"
tables.Categories = Categories

function Categories:init(...)
  local values, unknown, sort = read_categories(...)
  local names = {}
  for _, name in ipairs(distinct(values)) do
    if name ~= unknown then names[#names + 1] = name end
  end
  if sort then table.sort(names, bytes_before) end
  names[#names + 1] = unknown
  if #names == 0 then fail "Categories: there are no values" end
  self.names, self.positions = names, {}
  for position, name in ipairs(names) do self.positions[name] = position end
  self.unknown = unknown and #names
end

function Categories.__len(self) return #self.names end

function Categories.__tostring(self)
  return ("Categories { %s }"):format(quoted_list(self.names))
end

local read_encode = signature "Categories:encode(string[]|string values)"

--- The positions of texts: a 1-D int64 tensor for an array, an integer for one text.
---@param values string[]|string
---@return Tensor|integer
function Categories:encode(...)
  local values = read_encode(...)
  local list, out = type(values) == "table" and values or { values }, {}
  for i, value in ipairs(list) do
    out[i] = self.positions[value] or self.unknown
    if not out[i] then
      fail("encode: value %d, '%s', is none of the categories; give Categories the option 'unknown'"
        .. " for such ones (there are %s)", i, value, table.concat(self.names, ", "))
    end
  end
  return type(values) == "table" and ml.tensor(out, { dtype = ml.int64 }) or out[1]
end

local read_decode = signature "Categories:decode(Tensor|int[]|int positions)"

--- The texts at positions: an array for an array or a 1-D tensor, a text for one position.
---@param positions Tensor|integer[]|integer
---@return string[]|string
function Categories:decode(...)
  local positions = read_decode(...)
  local list = ml.is_tensor(positions) and positions:totable() or positions
  local is_one = type(list) ~= "table"
  local out = {}
  for i, position in ipairs(is_one and { list } or list) do
    out[i] = self.names[position]
    if not out[i] then
      fail("decode: position %s is out of range; there are %d categories, counted from 1",
        signature.describe(position), #self.names)
    end
  end
  return is_one and out[1] or out
end

return tables
