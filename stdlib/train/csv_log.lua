-- stdlib/train/csv_log.lua: CSVLog: rows of values by name as a CSV file (RFC 4180).

local class = require "moonlet.class"
local ml = require "moonlet"
local numbers = require "moonlet.numbers"
local options = require "moonlet.options"
local signature = require "moonlet.signature"
local system = require "moonlet.system"
local fail = options.fail

--- Writes a CSV file row by row: `log:write { epoch = 1, loss = 0.5 }`. Each row is in the file
--- when `write` returns; the first takes the place of a file that was there.
--- > path = os.tmpname()
--- > ml.train.CSVLog(path):write { epoch = 1, loss = 0.5 }
--- > io.open(path):read("a")
---   epoch,loss
---   1,0.5
---@field columns string[]? The names of the columns, once they are known.
---@param path string the file
---@param columns? string[] the columns in order; those of the first row unless given, `epoch`
---   and `step` first, then in alphabetical order
---@param append? boolean whether rows are added to a file that is there, under its columns
local CSVLog = class.strict(class("CSVLog"), { "columns", "has_header" })

local reader = signature "train.CSVLog(string path, string[]? columns=nil, bool append=false)"

local function quoted(text)
  if not text:find '[,"\r\n]' then return text end
  return '"' .. text:gsub('"', '""') .. '"'
end

local function line_of(fields)
  local out = {}
  for i, field in ipairs(fields) do out[i] = quoted(field) end
  return table.concat(out, ",") .. "\n"
end

-- The fields of the line of a CSV text that begins at `at`, and where the next one does; nil where
-- it is none that is written here. A field may hold doubled quotes and line breaks.
local function fields_of(text, at)
  local out = {}
  local mark
  repeat
    local field, after
    if text:sub(at, at) == '"' then
      local close = at
      repeat close = text:find('"', close + 1, true)
        local doubled = close and text:sub(close + 1, close + 1) == '"'
        if doubled then close = close + 1 end
      until not doubled
      if not close then return nil end
      field = text:sub(at + 1, close - 1):gsub('""', '"')
      mark, after = text:match("^([,\r\n])()", close + 1)
    else
      field, mark, after = text:match('^([^,\r\n"]*)([,\r\n])()', at)
    end
    if not mark then return nil end
    out[#out + 1], at = field, after
  until mark ~= ","
  return out, mark == "\r" and text:sub(at, at) == "\n" and at + 1 or at
end

-- The names of columns in the first line of a CSV text, and where the rows begin, or nil.
local function header_of(text)
  local names, after = fields_of(text, 1)
  for _, name in ipairs(names or {}) do
    if name == "" then return nil end
  end
  return names, after
end

local function same(a, b) return table.concat(a, "\n") == table.concat(b, "\n") end

local function check_columns(columns)
  local seen = {}
  if #columns == 0 then fail "CSVLog: 'columns' is empty" end
  for _, name in ipairs(columns) do
    if name == "" or name:find '["\r\n]' then
      fail("CSVLog: a column's name must be text of one line without quotes, got %q", name)
    elseif seen[name] then
      fail("CSVLog: there are two columns '%s'", name)
    end
    seen[name] = true
  end
  return columns
end

function CSVLog:init(...)
  local path, columns, append = reader(...)
  self.path, self.columns = path, columns and check_columns(columns)
  if append and system.exists(path) == "file" and #system.read_file(path, "CSVLog") > 0 then
    local header = header_of(system.read_file(path, "CSVLog"))
    if not header then fail("CSVLog: '%s' does not begin with the names of columns", path) end
    if columns and not same(columns, header) then
      fail("CSVLog: '%s' has the columns %s", path, table.concat(header, ", "))
    end
    self.columns, self.has_header = header, true
  elseif system.exists(path) ~= "file" then
    system.write_file(path, "", "CSVLog")
  else
    self.replaces = true
  end
end

local read_resume = signature("CSVLog:resume(int epoch)", "CSVLog: resume")

--- Goes on after an epoch of a run that was interrupted: the rows up to it stay in the file, later
--- ones are removed. `train.fit` calls it when it resumes.
--- > path = os.tmpname()
--- > log = ml.train.CSVLog(path)
--- > for epoch = 1, 3 do log:write { epoch = epoch } end
--- > ml.train.CSVLog(path):resume(1)
--- > io.open(path):read("a")
---   epoch
---   1
---@param epoch integer number of the last epoch that counts
function CSVLog:resume(...)
  local epoch = read_resume(...)
  if system.exists(self.path) ~= "file" then return end
  local text = system.read_file(self.path, "CSVLog")
  local header, at = header_of(text)
  local column
  for i, name in ipairs(header or {}) do column = name == "epoch" and i or column end
  if not column or self.columns and not same(self.columns, header) then return end
  local kept = { text:sub(1, at - 1) }
  while at <= #text do
    local fields, after = fields_of(text, at)
    if not fields then break end
    local number = tonumber(fields[column])
    if not number or number <= epoch then kept[#kept + 1] = text:sub(at, after - 1) end
    at = after
  end
  system.write_file(self.path, table.concat(kept), "CSVLog")
  self.columns, self.has_header, self.replaces = header, true, nil
end

local FIRST = { epoch = 1, step = 2 }

local function names_of(row)
  local names = {}
  for name in pairs(row) do
    if type(name) ~= "string" then fail "CSVLog: write: a row is a table of values by name" end
    names[#names + 1] = name
  end
  table.sort(names, function(a, b)
    local first, second = FIRST[a] or 3, FIRST[b] or 3
    if first ~= second then return first < second end
    return a < b
  end)
  return names
end

local function text_of(name, value)
  if value == nil then return "" end
  if ml.is_tensor(value) and value:numel() == 1 then value = value:item() end
  local kind = type(value)
  if math.type(value) == "float" then
    local short = numbers.format("%.15g", value)
    return tonumber(short) == value and short or numbers.format("%.17g", value)
  end
  if kind == "number" or kind == "boolean" or kind == "string" then return tostring(value) end
  fail("CSVLog: write: '%s' must be a number, a string or true or false, got %s", name,
    signature.describe(value))
end

local read_write = signature("CSVLog:write(dict row)", "CSVLog: write")

--- Writes a row; columns that it lacks are empty. A name that is no column is an error.
--- > path = os.tmpname()
--- > ml.train.CSVLog(path, { columns = { "epoch", "loss" } }):write { epoch = 1 }
--- > io.open(path):read("a")
---   epoch,loss
---   1,
---@param row table<string, any> numbers, strings, booleans or tensors of one element by column
function CSVLog:write(...)
  local row = read_write(...)
  local names = names_of(row)
  local columns = self.columns or check_columns(names)
  local known, fields = {}, {}
  for i, name in ipairs(columns) do
    known[name], fields[i] = true, text_of(name, row[name])
  end
  for _, name in ipairs(names) do
    if not known[name] then
      fail("CSVLog: write: '%s' is no column (they are %s)", name, table.concat(columns, ", "))
    end
  end
  local file, message = io.open(self.path, self.replaces and "wb" or "ab")
  if not file then fail("CSVLog: write: %s", message) end
  local ok, why = file:write(self.has_header and "" or line_of(columns), line_of(fields))
  local closed, late = file:close()
  if not ok or not closed then fail("CSVLog: write: '%s': %s", self.path, why or late) end
  self.columns, self.has_header, self.replaces = columns, true, nil
end

return { CSVLog = CSVLog }
