-- interp/gen/doc_comments.lua: reads doc comments, the lines that start with `---` above what they
-- describe, with the tags of LuaLS, @param, @return, @field, @class and @see, and some of our own:
-- @shape (of the tensors that go in and come out), @formula, @error and @source, each as often as
-- is wanted. What a tag says goes on in the lines below that are indented. A line `--- > code` is
-- an example; indented lines below it are what it prints, or the rest of a statement that is not
-- whole.

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

local function set(words)
  local out = {}
  for word in words:gmatch "%S+" do out[word] = true end
  return out
end

-- Types that are a plain word, and words after which such a word was none: "number of layers".
local plain_types = set [[table string integer number boolean any function nil thread userdata self
  Tensor Generator SparseRows Storage Complex Shape Module]]
local goes_on = set "of that which whose to from in for with between by at per or and"

local function is_type(word, text)
  if word:find "^fun%(" or word:find "^moonlet%." or word:find '^"' or word:find "^{" then return true end
  local first = word:match "^%(?([%a]+)"
  if not first or not plain_types[first] then return false end
  return not (word == first and goes_on[text:match "^%a*"])
end

-- "NAME TYPE? MEANING"; the type may be left out where it is declared elsewhere. A field of a table
-- of options is "TABLE.NAME".
local function read_param(rest)
  local name, optional, tail = rest:match "^([%w_%.]+)(%??)%s*(.*)$"
  local kind, text = split_type(tail)
  if not is_type(kind, text) then kind, text = nil, tail end
  local of, field = name:match "^(%w[%w_]*)%.([%w_]+)$"
  return { name = field or name, field_of = of, optional = optional == "?" or nil,
    type = kind or "any", text = text }
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
function tags.shape(out, rest) table.insert(out.shapes, rest) end
function tags.formula(out, rest) table.insert(out.formulas, rest) end
function tags.error(out, rest) table.insert(out.errors, rest) end
function tags.source(out, rest) table.insert(out.sources, rest) end

-- Whether code is a statement or an expression that goes on in the next line.
local function is_begun(code)
  if load("return " .. code, "=example", "t") then return false end
  local chunk, problem = load(code, "=example", "t")
  return not chunk and problem:find "<eof>" ~= nil
end

-- Takes a line of an example, or the first that is none. An example keeps the number of the last
-- line of its code and, where it has a result, of that.
local function read_example(out, line, number)
  local code = line:match "^> ?(.*)$"
  if code then
    table.insert(out.examples, { code = code, last = number })
    out.in_example, out.blank = true, ""
    return true
  end
  local last, rest = out.examples[#out.examples], line:match "^  (.*)$"
  if not out.in_example then return false end
  if line == "" then  -- it may stand between the matrices of a result
    out.blank = out.blank .. "\n"
  elseif not rest then
    out.in_example = false
    if out.blank ~= "" then table.insert(out.lines, "") end
    return false
  elseif not last.gives and is_begun(last.code) then
    last.code, last.last = last.code .. "\n" .. rest, number
  else
    last.gives = last.gives and last.gives .. "\n" .. out.blank .. rest or rest
    out.blank, last.gives_last = "", number
  end
  return true
end

-- A tag with the indented lines below it, from `number` on: its name, text and last line.
local function read_tag(bodies, number)
  local tag, rest = bodies[number]:match "^@(%a+)%s*(.*)$"
  while tag and bodies[number + 1] and bodies[number + 1]:find "^%s+%S" do
    number = number + 1
    rest = rest .. " " .. bodies[number]:gsub("^%s+", "")
  end
  return tag, rest, number
end

--- Reads the lines of one comment. An example is { code, gives }.
---@param lines string[]
---@return table doc { text, params, returns, fields, see, examples, shapes, formulas, errors,
---  sources, class, parent, alias }
function doc_comments.parse(lines)
  local out = doc_comments.new ""
  out.lines = {}
  local bodies = {}
  for i, line in ipairs(lines) do bodies[i] = line:gsub("^%s*%-%-%-%s?", "") end
  local number = 1
  while number <= #bodies do
    local tag, rest, last = read_tag(bodies, number)
    if tag then
      out.in_example = false
      if tags[tag] then tags[tag](out, rest) end
    elseif not bodies[number]:find "^|" and not read_example(out, bodies[number], number) then
      table.insert(out.lines, bodies[number])
    end
    number = last + 1
  end
  out.text = table.concat(out.lines, "\n"):gsub("^%s+", ""):gsub("%s+$", "")
  return out
end

--- A comment that has nothing but a text.
---@param text string
---@return table doc
function doc_comments.new(text)
  return { text = text, params = {}, returns = {}, fields = {}, see = {}, examples = {}, shapes = {},
    formulas = {}, errors = {}, sources = {} }
end

--- What an entry of the reference takes from a comment as it is.
---@param entry table
---@param doc table
---@return table entry
function doc_comments.describe(entry, doc)
  entry.doc, entry.params, entry.returns, entry.see = doc.text, doc.params, doc.returns, doc.see
  entry.examples, entry.shapes, entry.errors = doc.examples, doc.shapes, doc.errors
  entry.formula, entry.source = table.concat(doc.formulas, "\n"), table.concat(doc.sources, "; ")
  return entry
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
