-- stdlib/data/table.lua: tables with columns of text as well as of numbers, with names and with
-- missing fields; and categories, the positions that stand for texts.

local class = require "moonlet.class"
local io = require "moonlet.io"
local ml = require "moonlet"
local numbers = require "moonlet.numbers"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local tables = {}

local EXACT = 1 << 24  -- whole numbers up to this one are float32s
local SHOWN_VALUES = 4

local read_columns = signature "data.Table(table columns)"

--- Table of named columns of one length, as `data.read_table` returns. A column is a 1-D tensor of
--- numbers, with NaN for what is missing, or an array of texts, with "" for it; integers become
--- int64, other numbers the default dtype, or float64 where float32 would lose digits. `#t` is the
--- number of rows, `t.names` the array of the columns' names, and `t.index` a table of the rows'
--- names where the file has any.
--- > t = ml.data.Table { { "age", { 31, 58 } }, { "city", { "Bern", "" } } }
--- > #t, t:column "age"
---   2
---   {31, 58}
---   Tensor (2,) int64
---@param columns table an array of `{ name, values }`
local Table = class "Table"
tables.Table = Table

local function fits_float32(value)
  if math.abs(value) <= EXACT or value - value ~= 0 then return true end
  return ("<f"):unpack(("<f"):pack(value)) == value
end

-- The narrowest dtype that holds numbers of a script.
local function dtype_of(values)
  local whole, wide = true, false
  for _, value in ipairs(values) do
    whole = whole and math.type(value) == "integer"
    wide = wide or not fits_float32(value)
  end
  if whole then return ml.int64 end
  local usual = ml.get_default_dtype()
  return wide and usual == ml.float32 and ml.float64 or usual
end

-- A column from what a script gives for one.
local function check_column(name, values)
  if ml.is_tensor(values) and values.ndim == 1 then return values end
  local kind = type(values) == "table" and type(values[1])
  local good = kind == "number" or kind == "string" or kind == "boolean"
  for i = 2, good and #values or 0 do good = good and type(values[i]) == kind end
  if not good then
    fail("Table: column '%s' must be an array of numbers or of texts, or a 1-D tensor, got %s",
      name, signature.describe(values))
  end
  if kind == "string" then return values end
  return ml.tensor(values, { dtype = kind == "boolean" and ml.bool or dtype_of(values) })
end

-- A table of columns { name, values, is_date } that are known to be right.
function Table._of(columns, rows, index)
  local self = { names = {}, columns = {}, dates = {}, rows = rows, index = index }
  for i, column in ipairs(columns) do
    local name = column[1]
    self.names[i], self.columns[name], self.dates[name] = name, column[2], column[3] or nil
  end
  return setmetatable(self, Table)
end

function Table:init(...)
  self.names, self.columns, self.dates = {}, {}, {}
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

--- Column of a name: a 1-D tensor of numbers, or an array of texts.
--- > ml.data.Table { { "age", { 31, 58 } } }:column "age"
---   {31, 58}
---   Tensor (2,) int64
---@param name string the column's name
---@return Tensor|string[]
---@shape -> (rows)
function Table:column(...)
  local name = read_column(...)
  local column = self.columns[name]
  if column == nil then unknown_column("column", name, self.names) end
  return column
end

local read_names = signature "Table:tensor(string[]? names=nil, string? dtype=nil)"

-- Whether a column of whole numbers has one that float32 does not hold.
local function is_wide(column)
  return #column > 0 and (column:amax():item() > EXACT or column:amin():item() < -EXACT)
end

-- The dtype that holds all columns: the default one, unless float32 loses digits of them.
local function common_dtype(columns)
  local whole, wide, double = true, false, false
  for _, column in ipairs(columns) do
    local floating = column:is_floating_point()
    double = double or column.dtype == ml.float64
    whole = whole and not floating
    wide = wide or (not floating and column.dtype ~= ml.bool and is_wide(column))
  end
  local usual = ml.get_default_dtype()
  if usual ~= ml.float32 or not (wide or double) then return usual end
  return whole and ml.int64 or ml.float64
end

--- Columns of numbers side by side as one tensor. Without `dtype` it is of the default dtype, of
--- float64 where float32 would lose digits of integers or a column is float64, and of int64 if all
--- columns are.
--- > ml.data.Table { { "x", { 1, 2 } }, { "y", { 3, 4 } } }:tensor()
---   {{1., 3.},
---    {2., 4.}}
---   Tensor (2, 2) float32
---@param names? string[] the columns; all columns of numbers unless given
---@param dtype? string the result's dtype
---@return Tensor
---@shape -> (rows, columns)
function Table:tensor(...)
  local names, dtype = read_names(...)
  local parts = {}
  for _, name in ipairs(names or self.names) do
    local column = self:column(name)
    if ml.is_tensor(column) then
      parts[#parts + 1] = column
    elseif names then
      fail("tensor: column '%s' is text; data.Categories makes positions of it", name)
    end
  end
  if #parts == 0 then fail "tensor: there are no columns of numbers" end
  dtype = dtype or common_dtype(parts)
  for i, part in ipairs(parts) do parts[i] = part:to(dtype) end
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

-- Not every system's `os.date` goes back behind 1970.
local function date_text(seconds)
  local fields = io.date_fields(ml.tensor { math.floor(seconds) })
  return ("%04d-%02d-%02d"):format(fields[{ 1, 1 }]:item(), fields[{ 2, 1 }]:item(),
    fields[{ 3, 1 }]:item())
end

local function describe_numbers(column, is_date)
  local known = column:is_floating_point() and column[column:isnan():logical_not()] or column
  local missing = #column - #known
  if #known == 0 then return missing, "" end
  if column.dtype == ml.bool then return missing, ("%d true"):format(column:sum():item()) end
  local low, high = known:amin():item(), known:amax():item()
  if is_date then return missing, ("from %s to %s"):format(date_text(low), date_text(high)) end
  local form = math.type(low) == "integer" and "from %d to %d" or "from %.6g to %.6g"
  return missing, numbers.format(form, low, high)
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

local function kind_of(column, is_date)
  if type(column) == "table" then return "text" end
  return is_date and "date" or column.dtype == ml.bool and "bool" or "number"
end

function Table.__tostring(self)
  local widest = 0
  for _, name in ipairs(self.names) do widest = math.max(widest, utf8.len(name) or #name) end
  local lines = { ("Table of %d rows"):format(#self) }
  for i, name in ipairs(self.names) do
    local column, is_date = self.columns[name], self.dates[name]
    local kind = kind_of(column, is_date)
    local missing, text = (kind == "text" and describe_texts or describe_numbers)(column, is_date)
    lines[i + 1] = ("  %s%s  %-6s  %4d missing  %s"):format(name,
      (" "):rep(widest - (utf8.len(name) or #name)), kind, missing, text)
  end
  return table.concat(lines, "\n")
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

--- Numbers the different texts of an array from 1, for `nn.Embedding`, `ml.one_hot` and class
--- targets. `c.names` is the array of them and `#c` their number. What is missing ("") is none of
--- them. `data.Categories(names)` with saved `c.names` makes them again.
--- > c = ml.data.Categories({ "dog", "cat", "dog" })
--- > c:encode { "cat", "dog" }
---   {1, 2}
---   Tensor (2,) int64
---@param values string[] the texts
---@param unknown? string name of a last category for what is missing or not known; otherwise
---   that is an error
---@param sort? boolean whether categories are sorted by their bytes; false keeps the order they
---   come in
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

--- Numbers of texts: a 1-D int64 tensor for an array, an integer for one text.
--- > ml.data.Categories({ "dog", "cat" }):encode("dog")
---   2
---@param values string[]|string an array of texts, or one text
---@return Tensor|integer
---@shape -> (n)
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

--- Texts of numbers: an array for an array or a 1-D tensor, a text for one number.
--- > ml.data.Categories({ "dog", "cat" }):decode { 2, 1 }
---   {"dog", "cat"}
---@param positions Tensor|integer[]|integer numbers from 1
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
