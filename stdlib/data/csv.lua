-- stdlib/data/csv.lua: the fields of a CSV file as texts, column by column (RFC 4180: a field in
-- quotes may hold separators, line ends and doubled quotes).

local fail = require("moonlet.options").fail
local system = require "moonlet.system"

local csv = {}

local QUOTE, SPACES = ('"'):byte(), "[ \t]*"

-- What the records of one file have in common: its text, where it came from, patterns.
local function open(path, separator)
  if #separator ~= 1 or separator:find '["\n\r+%-.%d]' then
    fail "read_table: 'separator' must be one character that no number has"
  end
  local text = system.read_file(path, "read_table"):gsub("^\xEF\xBB\xBF", ""):gsub("[\r\n]+$", "")
  local mark = separator:gsub("%p", "%%%0")
  return { path = path, text = text, line = 0, separator = separator:byte(),
    stop = "[" .. mark .. "\r\n]", blank = separator:find "%s" and "" or SPACES }
end

local function bad(file, message, ...)
  fail("read_table: '%s', line %d: " .. message, file.path, file.line, ...)
end

-- The field whose opening quote is at `at`, and the position after it.
local function quoted_field(file, at)
  local text, from = file.text, at + 1
  local stop = text:find('"', from, true)
  while stop and text:byte(stop + 1) == QUOTE do stop = text:find('"', stop + 2, true) end
  if not stop then bad(file, "a quote is not closed") end
  local _, after = text:find(file.blank, stop + 1)
  if after < #text and not text:find("^" .. file.stop, after + 1) then
    bad(file, "text follows a closing quote")
  end
  return (text:sub(from, stop - 1):gsub('""', '"')), after + 1
end

local function field(file, at)
  local text = file.text
  local _, blank = text:find(file.blank, at)
  at = blank + 1
  if text:byte(at) == QUOTE then return quoted_field(file, at) end
  local stop = text:find(file.stop, at) or #text + 1
  local last = stop - 1
  while last >= at and text:find("^[ \t]", last) do last = last - 1 end
  return text:sub(at, last), stop
end

-- The fields of the record at `at`, and where the next one starts, or nil behind the last.
local function record(file, at)
  local text, fields = file.text, {}
  file.line = file.line + 1
  local breaks = 0
  repeat
    local value, after = field(file, at)
    fields[#fields + 1] = value
    breaks = breaks + select(2, value:gsub("\n", ""))
    local more = text:byte(after) == file.separator
    at = after + 1
  until not more
  if text:sub(at - 1, at) == "\r\n" then at = at + 1 end
  return fields, at <= #text and at or nil, breaks
end

--- The columns of a file, each an array of texts; the line that each row starts on; and the first
--- record where `header` says that it holds names.
---@param path string
---@param separator string
---@param header boolean
---@return string[][] columns
---@return integer[] lines
---@return string[]? names
function csv.columns(path, separator, header)
  local file = open(path, separator)
  local columns, lines, names, at = {}, {}, nil, #file.text > 0 and 1 or nil
  while at do
    local fields, following, breaks = record(file, at)
    if file.line == 1 then
      for i = 1, #fields do columns[i] = {} end
    elseif #fields ~= #columns then
      bad(file, "%d fields where the lines before have %d", #fields, #columns)
    end
    if header and not names then
      names = fields
    else
      lines[#lines + 1] = file.line
      for i, value in ipairs(fields) do columns[i][#lines] = value end
    end
    file.line, at = file.line + breaks, following
  end
  if #lines == 0 then fail("read_table: '%s' has no rows", path) end
  return columns, lines, names
end

return csv
