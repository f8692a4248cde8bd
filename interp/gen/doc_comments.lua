-- interp/gen/doc_comments.lua: reads doc comments, the lines that start with `---` above what they
-- describe, with the tags of LuaLS: @param, @return, @field, @class, @see. A line `--- > code` is
-- an example.

local doc_comments = {}

-- Cuts "{a: b, c: d}? rest of line" into the type, braces and brackets kept whole, and the rest.
local function split_type(text)
  local depth, i = 0, 1
  while i <= #text do
    local c = text:sub(i, i)
    if c:find "[%(%[{<]" then depth = depth + 1 end
    if c:find "[%)%]}>]" then depth = depth - 1 end
    local joins = text:sub(1, i - 1):find "[:|,]$" or text:sub(i):find "^%s*|"
    if c:find "%s" and depth == 0 and not joins then break end
    i = i + 1
  end
  return text:sub(1, i - 1), (text:sub(i):gsub("^%s+", ""))
end

local function read_param(rest)
  local name, optional, tail = rest:match "^([%w_%.]+)(%??)%s*(.*)$"
  local kind, text = split_type(tail)
  return { name = name, optional = optional == "?" or nil, type = kind, text = text }
end

local function read_return(rest)
  local kind, tail = split_type(rest)
  local name, text = tail:match "^([%w_]+)%s*(.*)$"
  return { type = kind, name = name, text = text or tail }
end

local tags = {}
function tags.param(out, rest) table.insert(out.params, read_param(rest)) end
tags["return"] = function(out, rest) table.insert(out.returns, read_return(rest)) end
function tags.field(out, rest)
  if not rest:find "^%[" then table.insert(out.fields, read_param(rest)) end
end
function tags.class(out, rest)
  out.class, out.parent = rest:match "^([%w_%.]+)%s*:?%s*([%w_%.]*)"
end
function tags.see(out, rest) table.insert(out.see, rest:match "^%S+") end
function tags.alias(out, rest) out.alias = rest:match "^%S+" end

local function add_text(out, line)
  local example = line:match "^> ?(.*)$"
  if example then
    table.insert(out.examples, example)
  elseif line:find "^  " and #out.examples > 0 then
    table.insert(out.examples, line)
  else
    table.insert(out.lines, line)
  end
end

--- Reads the lines of one comment.
---@param lines string[]
---@return table doc { text, params, returns, fields, see, examples, class, parent, alias }
function doc_comments.parse(lines)
  local out = { lines = {}, params = {}, returns = {}, fields = {}, see = {}, examples = {} }
  for _, line in ipairs(lines) do
    local body = line:gsub("^%s*%-%-%-%s?", "")
    local tag, rest = body:match "^@(%a+)%s*(.*)$"
    if tag then
      if tags[tag] then tags[tag](out, rest) end
    elseif not body:find "^|" then
      add_text(out, body)
    end
  end
  out.text = table.concat(out.lines, "\n"):gsub("^%s+", ""):gsub("%s+$", "")
  return out
end

--- The lines of a file: an array.
---@param path string
---@return string[]
function doc_comments.lines_of(path)
  local lines = {}
  for line in io.lines(path) do lines[#lines + 1] = line end
  return lines
end

--- The comment that ends on the line above `number`, or nil.
---@param lines string[]
---@param number integer
---@return table? doc
function doc_comments.above(lines, number)
  local first = number
  while first > 1 and lines[first - 1]:find "^%s*%-%-%-" do first = first - 1 end
  if first == number then return nil end
  return doc_comments.parse(table.move(lines, first, number - 1, 1, {}))
end

--- The purpose of a file, from the comment at its top without the path, as one paragraph.
---@param lines string[]
---@return string
function doc_comments.purpose(lines)
  local parts = {}
  for _, line in ipairs(lines) do
    local text = line:match "^%-%- ?(.*)$"
    if not text then break end
    parts[#parts + 1] = text
  end
  local text = table.concat(parts, " "):gsub("^%S+%.lua:%s*", ""):gsub("^[%w%._]+:%s+", "")
  return (text:gsub("^%l", string.upper))
end

return doc_comments
