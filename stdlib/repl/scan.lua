-- stdlib/repl/scan.lua: reads code that is not finished yet, to find out where its end is: inside a
-- string, or after a name, in which brackets and calls.

local scan = {}

--- The words that are no names, in order.
scan.keywords = { "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto",
  "if", "in", "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while" }

local KEYWORDS = {}
for _, word in ipairs(scan.keywords) do KEYWORDS[word] = true end

local CLOSES = { [")"] = "(", ["]"] = "[", ["}"] = "{" }

-- Where a string or comment that begins at `at` ends (the position after it); nil when it does not.
local function skip_long(code, at)
  local level = code:match("^%[(=*)%[", at)
  if not level then return nil end
  local _, stop = code:find("]" .. level .. "]", at, true)
  return stop and stop + 1 or #code + 1, stop ~= nil
end

local function skip_short(code, at)
  local quote, i = code:sub(at, at), at + 1
  while i <= #code do
    local c = code:sub(i, i)
    if c == quote then return i + 1, true end
    if c == "\n" then return i + 1, true end  -- an error that the compiler will tell
    i = i + (c == "\\" and 2 or 1)
  end
  return #code + 1, false
end

-- As skip_short, for code that compiles: a line may go on behind a backslash.
local function skip_string(code, at)
  local quote, i = code:sub(at, at), at + 1
  while i <= #code and code:sub(i, i) ~= quote do
    local skipped = code:match("^\\z%s*()", i) or code:match("^\\\r\n()", i)
    i = skipped or i + (code:sub(i, i) == "\\" and 2 or 1)
  end
  return i + 1
end

--- Where the end of `code` is. Fields: `comment` (true inside one); `string`, the position of the
--- text in a string that is not closed; `brackets`, the open ones, each `{ mark, position }`;
--- `last`, the position of the last character that is no space before the name at the end.
---@param code string
---@return table
function scan.read(code)
  local brackets, i = {}, 1
  while i <= #code do
    local c = code:sub(i, i)
    local closed
    if code:find("^%-%-", i) then
      local stop, whole = skip_long(code, i + 2)
      if not stop then
        stop = code:find("\n", i, true)
        whole = stop ~= nil
      end
      if not whole then return { comment = true, brackets = brackets } end
      i = stop
    elseif c == '"' or c == "'" or code:find("^%[=*%[", i) then
      local start = i
      i, closed = (c == "[" and skip_long or skip_short)(code, i)
      if not closed then
        local text = c == "[" and code:match("^%[=*%[()", start) or start + 1
        return { string = text, brackets = brackets }
      end
    else
      if c == "(" or c == "[" or c == "{" then
        brackets[#brackets + 1] = { c, i }
      elseif CLOSES[c] and #brackets > 0 and brackets[#brackets][1] == CLOSES[c] then
        brackets[#brackets] = nil
      end
      i = i + 1
    end
  end
  return { brackets = brackets }
end

--- The tokens of code that compiles, without comments: `{ text, from, is_name }` each, where a
--- string or a number is one token; keywords are no names.
---@param code string
---@return table[]
function scan.tokens(code)
  local tokens, i = {}, 1
  while i <= #code do
    local from, stop = i
    if code:find("^%s", i) then
      stop = code:match("^%s+()", i)
    elseif code:find("^%-%-", i) then
      stop = skip_long(code, i + 2) or code:find("\n", i, true) or #code + 1
    else
      if code:find("^[\"']", i) then
        stop = skip_string(code, i)
      elseif code:find("^%[=*%[", i) then
        stop = skip_long(code, i)
      else
        stop = code:match("^[%a_][%w_]*()", i) or code:match("^%.?%d[%w.]*()", i) or i + 1
      end
      local text = code:sub(from, stop - 1)
      local is_name = text:find "^[%a_]" ~= nil and not KEYWORDS[text]
      tokens[#tokens + 1] = { text = text, from = from, is_name = is_name }
    end
    i = stop
  end
  return tokens
end

--- The keys of a path such as `net.layers[1].weight` or `x:sum` at the end of `code`; nil for what
--- would have to be run, as `f().x`. The second result is false when there is no name at all.
---@param code string
---@return any[]?
function scan.path(code)
  local keys = {}
  local rest = code:gsub("%s+$", "")
  while true do
    local before, index = rest:match "^(.*)%[%s*(%-?%d+)%s*%]$"
    if not before then before, index = rest:match "^(.*)%[%s*\"([^\"\\]*)\"%s*%]$" end
    if not before then before, index = rest:match "^(.*)%[%s*'([^'\\]*)'%s*%]$" end
    if before then
      table.insert(keys, 1, rest:find "%d%s*%]$" and math.tointeger(index) or index)
      rest = before
    else
      local start = rest:find "[%a_][%w_]*$"
      while start and start > 1 and rest:find("^[%w_]", start - 1) do start = start - 1 end
      if not start or not rest:find("^[%a_]", start) then return nil end
      table.insert(keys, 1, rest:sub(start))
      rest = rest:sub(1, start - 1)
      if rest:find "%.%.$" or not rest:find "[.:]$" then return keys end
      rest = rest:sub(1, -2)
    end
  end
end

return scan
