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

--- A CSV file as a `data.Table`, also gzipped, with pandas' rules and names of options. A column in
--- which all fields are whole numbers becomes an int64 tensor, one of numbers a tensor of the
--- default dtype, or float64 where float32 would lose digits of numbers written without an exponent
--- or their range; NaN is what is missing, also in a column of whole numbers, which is a floating
--- one then. `true` and `false` make a bool tensor, all else an array of texts as they are in the
--- file, with "" for what is missing; so do whole numbers that none of these holds. Lines that are
--- too short end with missing fields; blank lines do not count, nor do lines of remarks in front of
--- the header that begin with "#" and have another number of fields; columns of one name are "a",
--- "a.1", ..., one without a name is "Unnamed: 2", counted from 0, as in pandas. Rows that are
--- longer than the header begin with their names, which are `t.index`.
---
--- Options, of how the file is written: `header` (true, or false without one: the columns are
--- called "1", "2", ...; or the line, from 1, that it is in; or an array of such lines, whose names
--- are joined by "_"), `names` (for the columns; then there is no header unless `header` says so),
--- `separator` (also `sep`: ","; "%s+" or `delim_whitespace = true` for runs of blanks, "auto"
--- finds it), `quotechar` ('"'), `doublequote` (true: a doubled quote in quotes is one), `quoting =
--- 3` (quotes are letters), `escapechar`, `comment` (a character; from there on a line does not
--- count; "" keeps remarks, too), `decimal` ("."), `thousands` (none, but "1,234" in quotes is a
--- number), `skipinitialspace`, `skip_blank_lines` (true), `encoding` ("utf-8", "latin-1",
--- "cp1252", "utf-16").
---
--- Which part: `skiprows` (a number of lines, or an array of lines from 1), `skipfooter`, `nrows`,
--- `usecols` (names, or positions from 1), `index_col` (columns that name the rows: `t.index`;
--- false: rows do not begin with names), `on_bad_lines` ("error", "warn" or "skip" lines that are
--- too long), `max_bytes`, what reading may take, as in `ml.load`.
---
--- What fields mean: `na_values` (further ones that are missing: a text, a number, an array, or a
--- table of arrays by column), `keep_default_na` (true: "", "NA", "N/A", "NaN", "null", "None",
--- "#N/A" and the rest of pandas' list are missing), `missing` (the whole list, in place of both),
--- `types` (a table such as `{ zip = "text", age = "number" }` of what those columns must be:
--- "number", "text", "bool", "date" or a dtype), `dtype` (of all numbers, a floating one; or a
--- table as `types`), `true_values`, `false_values`, `parse_dates` (columns of dates: seconds since
--- 1970 in UTC, as `os.date` takes them; int64, or float64 with NaN; `data.date_fields` takes them
--- apart), `dayfirst` (01/02/2020 is in February), `date_format` (as of `strftime`).
--- `data.read_csv` reads a matrix of numbers.
---@param path string
---@param header? boolean|integer|integer[]
---@param separator? string
---@param missing? string[]
---@param types? table<string, string>
---@param dtype? string|table<string, string>
---@param max_bytes? integer
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

--- A CSV file of numbers as a `(rows, columns)` tensor. Options: `header` (false; true takes the
--- names of the columns from the first line), `separator` (","), `dtype` (the default dtype; where
--- float32 would lose digits of a number that is written without an exponent, int64 if all are
--- whole and else float64), `max_bytes`, what reading may take, as in `ml.load`; and those of
--- `data.read_table` that say how the file is written, which part is read, and what is missing. A
--- bad field and a line of another length are errors that name the line and column; so are missing
--- fields unless `keep_default_na = true`, `na_values` or `missing` makes NaN of them.
--- `data.read_table` reads files with text or with columns of different kinds.
---@param path string
---@param header? boolean|integer|integer[]
---@param separator? string
---@param dtype? string
---@param max_bytes? integer
---@return Tensor values
---@return string[]? names
function files.read_csv(...)
  local o = read_csv:table(...)
  local to = to_reader("read_csv", o, o.header or false, false)
  if to.missing_in then fail "read_csv: 'na_values' must be an array here" end
  to.dtype = o.dtype
  return io.read_csv(o.path, to)
end

local write_csv = signature("data.write_csv(string path, any values, string[]? header=nil, "
  .. 'string separator=",")')

--- Writes a tensor of one or two dimensions, or a `data.Table`, as CSV, whole or not at all. What
--- is missing in a table is an empty field, and dates are written as 2020-01-31 12:30:00; texts are
--- put in quotes where that is needed. Options: `header` (an array of names, one for each column;
--- of a table its own), `separator` (",").
---@param path string
---@param values Tensor|data.Table
---@param header? string[]
---@param separator? string
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

--- The parts of dates, which are seconds since 1970 in UTC, as `data.read_table` makes of columns
--- in `parse_dates`: a table of tensors with the names of Lua's `os.date "*t"`: `year`, `month`,
--- `day`, `hour`, `min`, `sec`, `wday` (Sunday is 1) and `yday`; int64, or float64 with NaN for a
--- date that is missing.
---@param seconds Tensor a 1-D tensor, int64 or float64
---@return table<string, Tensor>
function files.date_fields(...)
  local all, out = io.date_fields(read_date_fields(...)), {}
  for i, name in ipairs(DATE_FIELDS) do out[name] = all[i]:clone() end
  return out
end

return files
