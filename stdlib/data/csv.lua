-- stdlib/data/csv.lua: CSV files as tables of columns or as one tensor, with the options of
-- pandas.read_csv; and what dates are.

local Table = require("moonlet.data.table").Table
local class = require "moonlet.class"
local io = require "moonlet.io"
local numbers = require "moonlet.numbers"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local fail = options.fail

local files = {}

-- What pandas takes for missing.
local MISSING = { "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND",
  "1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null" }
-- Kinds of columns, also under pandas' names.
local KINDS = { number = "number", text = "text", string = "text", str = "text", object = "text",
  date = "date", bool = "bool" }
local DTYPES = {}
for name in ("uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64"):gmatch "%S+" do
  DTYPES[name] = true
end
local NO_QUOTES = 3  -- pandas' `quoting`, csv.QUOTE_NONE

signature.add_choice("BadLines", { "error", "warn", "skip" })

-- What both readers take behind their own options.
local FORMAT = 'string[]? names=nil, string|int>=1|string[]|int[]? usecols=nil, '
  .. "int>=0|int[]? skiprows=nil, int>=0 skipfooter=0, int>=0? nrows=nil, "
  .. "string|number|table|dict? na_values=nil, bool? keep_default_na=nil, string? comment=nil, "
  .. 'string decimal=".", string? thousands=nil, string? quotechar=nil, string? escapechar=nil, '
  .. "bool doublequote=true, int>=0<=3 quoting=0, bool skipinitialspace=false, "
  .. "bool skip_blank_lines=true, bool delim_whitespace=false, "
  .. 'BadLines on_bad_lines="error", string encoding="utf-8"'

-- --- options as the reader in C++ wants them -----------------------------------------------------

local function words_of(where, values)
  local out = {}
  for i, value in ipairs(type(values) == "table" and values or { values }) do
    if type(value) ~= "string" and type(value) ~= "number" then
      fail("%s: 'na_values' must be texts and numbers, got %s", where, signature.describe(value))
    end
    out[i] = type(value) == "number" and numbers.tostring(value) or value
  end
  return out
end

local function joined(first, second)
  return table.move(second, 1, #second, #first + 1, table.move(first, 1, #first, 1, {}))
end

-- The fields that are missing: `missing` alone, or pandas' list, and those of `na_values`.
local function set_missing(where, o, to, default_list)
  local keep = o.keep_default_na
  if keep == nil then keep = default_list end
  local base = o.missing or (keep and MISSING or {})
  local values = o.na_values
  if type(values) == "table" and #values == 0 and next(values) ~= nil then
    to.missing, to.missing_in = base, {}
    for name, list in pairs(values) do
      to.missing_in[numbers.tostring(name)] = joined(base, words_of(where, list))
    end
  else
    to.missing = values ~= nil and joined(base, words_of(where, values)) or base
  end
end

local function set_columns(o, to)
  local columns = o.usecols
  if type(columns) ~= "table" then columns = { columns } end
  if type(columns[1]) == "string" then to.use_names = columns else to.use_columns = columns end
end

local function check_positions(where, name, list)
  for _, position in ipairs(list) do
    if position < 1 then
      fail("%s: '%s' counts from 1, got %d", where, name, position)
    end
  end
end

-- Whether there is a header, or the lines it is in.
local function set_header(where, header, to)
  if type(header) == "boolean" then
    to.header = header
    return
  end
  local rows = type(header) == "table" and header or { header }
  for _, row in ipairs(rows) do
    if math.type(row) ~= "integer" then rows = {} end
  end
  if #rows == 0 then
    fail("%s: 'header' must be true or false, a line or an array of lines, got %s", where,
      signature.describe(header))
  end
  check_positions(where, "header", rows)
  to.header_rows = rows
end

local function set_separator(o, to)
  local separator = o.separator
  to.delim_whitespace = o.delim_whitespace or separator == "%s+" or separator == "\\s+"
  to.detect_separator = separator == "auto"
  if not to.delim_whitespace and not to.detect_separator then to.separator = separator end
end

local function to_reader(where, o, header, default_list)
  local to = { names = o.names, skipfooter = o.skipfooter, nrows = o.nrows, decimal = o.decimal,
    thousands = o.thousands, escapechar = o.escapechar, doublequote = o.doublequote,
    skipinitialspace = o.skipinitialspace, skip_blank_lines = o.skip_blank_lines,
    on_bad_lines = o.on_bad_lines, encoding = o.encoding, max_bytes = o.max_bytes }
  set_separator(o, to)
  set_header(where, header, to)
  set_columns(o, to)
  set_missing(where, o, to, default_list)
  if to.use_columns then check_positions(where, "usecols", to.use_columns) end
  if type(o.skiprows) == "table" then
    check_positions(where, "skiprows", o.skiprows)
    to.skip_lines = o.skiprows
  else
    to.skiprows = o.skiprows
  end
  to.quotechar = o.quoting == NO_QUOTES and "" or o.quotechar
  to.comment = o.comment
  to.skip_remarks = o.comment == nil
  return to
end

-- The kinds of columns that `types`, or `dtype` as a table, ask for.
local function kinds_of(types)
  local out = {}
  for name, kind in pairs(types) do
    out[name] = type(kind) == "string" and (KINDS[kind] or (DTYPES[kind] and kind)) or nil
    if not out[name] then
      fail('read_table: the type of column \'%s\' must be "number", "text", "bool", "date" or '
        .. "a dtype of real numbers, got %s", numbers.tostring(name), signature.describe(kind))
    end
  end
  return out
end

local function set_types(o, to)
  local dtype = o.dtype
  to.types = kinds_of(o.types or {})
  if type(dtype) == "table" then
    for name, kind in pairs(kinds_of(dtype)) do
      if to.types[name] then
        fail("read_table: 'types' and 'dtype' both say what column '%s' is", name)
      end
      to.types[name] = kind
    end
  elseif dtype ~= nil then
    if not dtype:find "float" then
      fail("read_table: 'dtype' must be a floating one, which has NaN for what is missing, or a "
        .. "table of columns' names and types, got %s", dtype)
    end
    to.dtype = dtype
  end
  local dates = o.parse_dates
  if type(dates) ~= "table" then dates = { dates } end
  if type(dates[1]) == "string" then
    to.date_columns = dates
  else
    check_positions("read_table", "parse_dates", dates)
    to.date_positions = dates
  end
  to.dayfirst, to.date_format = o.dayfirst, o.date_format
  to.true_values, to.false_values = o.true_values, o.false_values
end

-- --- tables --------------------------------------------------------------------------------------

-- The positions of the columns that name the rows.
local function index_positions(index_col, columns)
  local positions = {}
  for _, item in ipairs(type(index_col) == "table" and index_col or { index_col }) do
    local position = type(item) == "number" and item or nil
    for i, column in ipairs(columns) do
      if column[1] == item then position = i end
    end
    if not position or not columns[position] then
      fail("read_table: 'index_col': there is no column %s", signature.describe(item))
    end
    positions[#positions + 1] = position
  end
  return positions
end

-- Takes the columns at `positions` out of the list, as one of their own.
local function take_out(columns, positions)
  local taken, rest, is_taken = {}, {}, {}
  for i, position in ipairs(positions) do
    taken[i], is_taken[position] = columns[position], true
  end
  for i, column in ipairs(columns) do
    if not is_taken[i] then rest[#rest + 1] = column end
  end
  return taken, rest
end

local read_table = signature("data.read_table(string path, any? header=nil, "
  .. 'string separator=",", string[]? missing=nil, dict? types=nil, string|dict? dtype=nil, '
  .. "int>=1? max_bytes=nil, " .. FORMAT
  .. ", bool|string|int>=1|string[]|int[]? index_col=nil, "
  .. "string|int>=1|string[]|int[]? parse_dates=nil, bool dayfirst=false, string? date_format=nil, "
  .. "string[]? true_values=nil, string[]? false_values=nil)")
  :alias("sep", "separator"):alias("delimiter", "separator"):alias("skip_rows", "skiprows")

--- Reads a CSV file, also gzipped, as a `data.Table`, with the rules and names of options of
--- pandas.
---
--- A column of integers becomes an int64 tensor, one of numbers a tensor of the default dtype, or
--- of float64 where float32 would lose digits of numbers written without an exponent or their
--- range; missing fields are NaN, for which a column of integers becomes floating. `true` and
--- `false` make a bool tensor, all else an array of texts as they are in the file, with "" for what
--- is missing. Short lines end with missing fields. Lines before the header that begin with "#" and
--- have another number of fields do not count. Columns of one name are "a", "a.1", ...; one without
--- a name is "Unnamed: 2", counted from 0. Rows longer than the header begin with their names,
--- which are `t.index`.
--- > path = os.tmpname()
--- > file = io.open(path, "w")
--- > _ = file:write("name,age\nAda,36\nAlan,41\n") and file:close()
--- > ml.data.read_table(path):column "age"
---   {36, 41}
---   Tensor (2,) int64
---@param path string the file
---@param header? boolean|integer|integer[] true, false (columns are called "1", "2", ...), the
---   header's line from 1, or such lines
---@param separator? string what stands between fields, also `sep`; "%s+" for runs of blanks,
---   "auto" finds it
---@param missing? string[] all texts that stand for a missing field, in place of `na_values`
---   and the default ones
---@param types? table<string, string> type by column: "number", "text", "bool", "date" or a dtype
---@param dtype? string|table<string, string> floating dtype of all numbers, or a table like `types`
---@param max_bytes? integer the most bytes that reading may take, as in `ml.load`
---@param names? string[] names for the columns; then the file has no header unless `header` says so
---@param usecols? string|integer|string[]|integer[] the columns that are read, by names or
---   positions from 1; all unless given
---@param skiprows? integer|integer[] how many lines are left out at the start, or an array of
---   lines from 1
---@param skipfooter? integer how many lines are left out at the end
---@param nrows? integer the most rows that are read
---@param na_values? string|number|table|table further missing fields: a text, a number, an
---   array, or a table of arrays by column
---@param keep_default_na? boolean whether "", "NA", "NaN", "null" and the rest of pandas' list
---   are missing
---@param comment? string character from which on a line does not count; "" keeps lines that
---   begin with "#"
---@param decimal? string the decimal point
---@param thousands? string separator of thousands; none unless given, but "1,234" in quotes is
---   a number
---@param quotechar? string the quote; " unless given
---@param escapechar? string character after which the next one stands for itself
---@param doublequote? boolean whether a doubled quote inside quotes is one quote
---@param quoting? integer 3 reads quotes as letters; others as 0, pandas' QUOTE_MINIMAL
---@param skipinitialspace? boolean whether blanks behind a separator are left out
---@param skip_blank_lines? boolean whether blank lines do not count
---@param delim_whitespace? boolean whether runs of blanks separate fields
---@param on_bad_lines? string what lines with too many fields do: "error", "warn" or "skip"
---@param encoding? string "utf-8", "latin-1", "cp1252" or "utf-16"
---@param index_col? boolean|string|integer|string[]|integer[] columns that name the rows,
---   `t.index`; false if rows do not begin with names
---@param parse_dates? string|integer|string[]|integer[] columns of dates, read as seconds since
---   1970 in UTC; see `data.date_fields`
---@param dayfirst? boolean whether 01/02/2020 is in February
---@param date_format? string format of dates, as of `strftime`
---@param true_values? string[] texts that are true
---@param false_values? string[] texts that are false
---@return data.Table
function files.read_table(...)
  local o = read_table:table(...)
  local header = o.header
  if header == nil then header = o.names == nil end
  local to = to_reader("read_table", o, header, true)
  set_types(o, to)
  to.leading_index = o.index_col ~= false
  if o.index_col == true then fail "read_table: 'index_col' must be a column or false, got true" end
  local columns, rows, unnamed, warnings = io.read_csv_table(o.path, to)
  for _, text in ipairs(warnings) do warn(text) end
  local index
  if o.index_col then
    index, columns = take_out(columns, index_positions(o.index_col, columns))
  elseif unnamed > 0 then
    local positions = {}
    for i = 1, unnamed do positions[i] = i end
    index, columns = take_out(columns, positions)
  end
  return Table._of(columns, rows, index and Table._of(index, rows))
end

-- --- matrices ------------------------------------------------------------------------------------

local read_csv = signature("data.read_csv(any? path=nil, any? header=nil, "
  .. 'string separator=",", string? dtype=nil, int>=1? max_bytes=nil, string[]? missing=nil, '
  .. FORMAT .. ")")
  :alias("sep", "separator"):alias("delimiter", "separator"):alias("skip_rows", "skiprows")

--- Reads a CSV file of numbers, also gzipped, as one tensor. Without `dtype` it is of the default
--- dtype; where float32 would lose digits of a number written without an exponent, int64 if all are
--- integers and otherwise float64. Missing fields are errors unless `keep_default_na = true`,
--- `na_values` or `missing` makes NaN of them. `data.read_table` reads files with text or with
--- columns of different types.
--- > path = os.tmpname()
--- > file = io.open(path, "w")
--- > _ = file:write("a,b\n1,2\n3,4\n") and file:close()
--- > ml.data.read_csv(path, { header = true })
---   {{1., 2.},
---    {3., 4.}}
---   Tensor (2, 2) float32
---   {"a", "b"}
---@param path string the file
---@param header? boolean|integer|integer[] true reads the columns' names from the first line;
---   false unless given
---@param separator? string what stands between fields, also `sep`; "%s+" for runs of blanks,
---   "auto" finds it
---@param dtype? string the result's dtype
---@param max_bytes? integer the most bytes that reading may take, as in `ml.load`
---@param missing? string[] all texts that stand for a missing field, in place of `na_values`
---   and the default ones
---@param names? string[] names for the columns; then the file has no header unless `header` says so
---@param usecols? string|integer|string[]|integer[] the columns that are read, by names or
---   positions from 1; all unless given
---@param skiprows? integer|integer[] how many lines are left out at the start, or an array of
---   lines from 1
---@param skipfooter? integer how many lines are left out at the end
---@param nrows? integer the most rows that are read
---@param na_values? string|number|table|table further missing fields: a text, a number, an
---   array, or a table of arrays by column
---@param keep_default_na? boolean whether "", "NA", "NaN", "null" and the rest of pandas' list
---   are missing
---@param comment? string character from which on a line does not count; "" keeps lines that
---   begin with "#"
---@param decimal? string the decimal point
---@param thousands? string separator of thousands; none unless given, but "1,234" in quotes is
---   a number
---@param quotechar? string the quote; " unless given
---@param escapechar? string character after which the next one stands for itself
---@param doublequote? boolean whether a doubled quote inside quotes is one quote
---@param quoting? integer 3 reads quotes as letters; others as 0, pandas' QUOTE_MINIMAL
---@param skipinitialspace? boolean whether blanks behind a separator are left out
---@param skip_blank_lines? boolean whether blank lines do not count
---@param delim_whitespace? boolean whether runs of blanks separate fields
---@param on_bad_lines? string what lines with too many fields do: "error", "warn" or "skip"
---@param encoding? string "utf-8", "latin-1", "cp1252" or "utf-16"
---@return Tensor values
---@return string[]? names
---@shape -> (rows, columns)
---@error for a field that is no number and for a line of another length, with the line and column
function files.read_csv(...)
  local o = read_csv:table(...)
  local to = to_reader("read_csv", o, o.header or false, false)
  if to.missing_in then fail "read_csv: 'na_values' must be an array here" end
  to.dtype = o.dtype
  return io.read_csv(o.path, to)
end

local write_csv = signature("data.write_csv(string path, any values, string[]? header=nil, "
  .. 'string separator=",")')

--- Writes a tensor, or a `data.Table`, as a CSV file, whole or not at all. What is missing in a
--- table is an empty field, and dates are written as 2020-01-31 12:30:00; texts are quoted where
--- needed.
--- > path = os.tmpname()
--- > ml.data.write_csv(path, ml.tensor { { 1, 2 }, { 3, 4 } }, { header = { "a", "b" } })
--- > io.open(path):read("a")
---   a,b
---   1,2
---   3,4
---@param path string the file
---@param values Tensor|data.Table a tensor of one or two dimensions, or a table
---@param header? string[] a name for each column; a table has its own
---@param separator? string what stands between fields
---@shape values (rows, columns) or (rows)
function files.write_csv(...)
  local path, values, header, separator = write_csv(...)
  if not class.is_instance(values, Table) then
    return io.write_csv(path, values, header, separator)
  end
  local columns = {}
  for _, part in ipairs { values.index or {}, values } do
    for _, name in ipairs(part.names or {}) do
      columns[#columns + 1] = { name, part.columns[name], part.dates[name] or false }
    end
  end
  io.write_csv_table(path, columns, header, separator)
end

-- --- dates ---------------------------------------------------------------------------------------

local read_date_fields = signature "data.date_fields(Tensor seconds)"
local DATE_FIELDS = { "year", "month", "day", "hour", "min", "sec", "wday", "yday" }

--- Splits dates, seconds since 1970 in UTC as `data.read_table` makes of columns in `parse_dates`,
--- into a table of tensors with the names of Lua's `os.date "*t"`: `year`, `month`, `day`, `hour`,
--- `min`, `sec`, `wday` (Sunday is 1) and `yday`; int64, or float64 with NaN for a missing date.
--- > ml.data.date_fields(ml.tensor { 86400 }).day
---   {2}
---   Tensor (1,) int64
---@param seconds Tensor 1-D tensor, int64 or float64
---@return table<string, Tensor>
---@shape seconds (n) -> (n) for each field
function files.date_fields(...)
  local all, out = io.date_fields(read_date_fields(...)), {}
  for i, name in ipairs(DATE_FIELDS) do out[name] = all[i]:clone() end
  return out
end

return files
