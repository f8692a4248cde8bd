-- stdlib/data/tokenizer/parts.lua: the parts of a tokenizer.json as tables with checked fields, and
-- its patterns. Errors are reasons alone, which data/tokenizer.lua says of the file.

local json = require "moonlet.json"
local regex = require "moonlet.regex"

local parts = {}

--- An error of the file.
---@param format string
function parts.fail(format, ...) error(format:format(...), 0) end

local fail = parts.fail

--- Whether a field is there and is not null.
---@param value any
---@return boolean
function parts.is_set(value) return value ~= nil and value ~= json.null end

--- A field of a part: `kind` is Lua's type of it; without a default it must be there.
---@param part table
---@param name string
---@param kind string
---@param default? any
---@return any
function parts.field(part, name, kind, default)
  local value = part[name]
  if not parts.is_set(value) then
    if default == nil then fail("its %s has no %s", tostring(part.type), name) end
    return default
  elseif type(value) ~= kind then
    fail("the %s of its %s is a %s, a %s is expected", name, tostring(part.type), type(value), kind)
  end
  return value
end

-- Parts of parts, which a file may nest.
local MOST_DEPTH = 16

--- What a part is made to by the function of its type.
---@param makers table functions of the part and its depth, by type
---@param what string "normalizer"
---@param part any
---@param depth? integer
---@return any
function parts.make(makers, what, part, depth)
  depth = (depth or 0) + 1
  if depth > MOST_DEPTH then fail("its %s is nested too deep", what) end
  if type(part) ~= "table" then fail("its %s is no object", what) end
  local maker = type(part.type) == "string" and makers[part.type]
  if not maker then fail("its %s is a %s, which is not known here", what, tostring(part.type)) end
  return maker(part, depth)
end

--- All parts of a sequence.
---@param makers table
---@param what string
---@param list any
---@param depth integer
---@return any[]
function parts.make_all(makers, what, list, depth)
  local out = {}
  for i, part in ipairs(list) do out[i] = parts.make(makers, what, part, depth) end
  return out
end

--- The character of a text at byte `at`; a byte that is no UTF-8 stands alone.
---@param text string
---@param at integer
---@return string
function parts.character(text, at)
  return text:match("^" .. utf8.charpattern, at) or text:sub(at, at)
end

-- --- patterns -----------------------------------------------------------------------------------

-- Where a text is, in turn.
local function plain_spans(wanted)
  return function(text)
    local out, at = {}, 1
    while true do
      local first, last = text:find(wanted, at, true)
      if not first then return out end
      out[#out + 1], out[#out + 2] = first, last
      at = last + 1
    end
  end
end

-- A pattern for PCRE2: files are written for Oniguruma, to which more stands in a word, such as the
-- raised numbers and fractions of Latin-1 and letters in circles, and which has classes that
-- intersect.
local WORD = "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\xB2\\xB3\\xB9\\xBC-\\xBE\\x{24B6}-\\x{24E9}"
  .. "\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}"

local function translated(source)
  local out, depth, at = {}, 0, 1
  local function put(text, size)
    out[#out + 1] = text
    at = at + size
  end
  while at <= #source do
    local two = source:sub(at, at + 1)
    if two == "\\w" then
      put(depth > 0 and WORD or "[" .. WORD .. "]", 2)
    elseif two == "\\W" and depth == 0 then
      put("[^" .. WORD .. "]", 2)
    elseif two == "\\W" or two == "\\h" or two == "\\H" then
      fail("its pattern '%s' has %s, which is not known here", source, two)
    elseif two == "&&" and depth > 0 then
      fail("its pattern '%s' intersects classes, which is not known here", source)
    elseif two:sub(1, 1) == "\\" then
      put(two, 2)
    else
      local one = two:sub(1, 1)
      -- A "[" in a class is one of its characters, but for that of a name such as [:alpha:].
      if one == "[" and depth == 0 then
        depth = 1
        local open = source:match("^%[%^?%]?", at)
        put(open, #open)
      elseif one == "[" and source:match("^%[:%^?%a+:%]", at) then
        local name = source:match("^%[:%^?%a+:%]", at)
        put(name, #name)
      elseif one == "[" then
        put("\\[", 1)
      else
        if one == "]" then depth = 0 end
        put(one, 1)
      end
    end
  end
  return table.concat(out)
end

--- A function of a text that gives the first and last bytes of the matches of a pattern, one after
--- the other in an array: `{ String = .. }` or `{ Regex = .. }`.
---@param part table what has the pattern
---@return fun(text: string): integer[]
function parts.pattern(part)
  local given = parts.field(part, "pattern", "table")
  if type(given.String) == "string" then
    if given.String == "" then fail("the pattern of its %s is empty", part.type) end
    return plain_spans(given.String)
  elseif type(given.Regex) ~= "string" then
    fail("the pattern of its %s is neither String nor Regex", part.type)
  end
  local why = regex.unavailable()
  if why then fail("its pattern '%s' needs PCRE2, and %s", given.Regex, why) end
  local ok, expression = pcall(regex.compile, translated(given.Regex))
  if not ok then
    fail("its pattern '%s': %s", given.Regex, (tostring(expression):gsub("^.-regex: ", "")))
  end
  return function(text) return expression:spans(text) end
end

return parts
