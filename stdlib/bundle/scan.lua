-- stdlib/bundle/scan.lua: which modules and files a script's text asks for by their names: what
-- stands behind `require`, `dofile` and `loadfile` as a literal.

local scan = {}

-- What ends at `at` when a long bracket begins there: its text, and the position behind it.
local function long_bracket(text, at)
  local level = text:match("^%[(=*)%[", at)
  if not level then return nil end
  local _, stop = text:find("]" .. level .. "]", at, true)
  if not stop then return "", #text + 1 end
  local inner = text:sub(at + #level + 2, stop - #level - 2):gsub("^\r?\n", "")
  return inner, stop + 1
end

local PLAIN = { n = "\n", t = "\t", r = "\r", ["\\"] = "\\", ["'"] = "'", ['"'] = '"' }

-- A string in quotes that begins at `at`: its text, or nil where it has escapes that no name has;
-- and the position behind it.
local function quoted(text, at)
  local quote, out, whole = text:sub(at, at), {}, true
  local i = at + 1
  while i <= #text do
    local c = text:sub(i, i)
    if c == quote then return whole and table.concat(out) or nil, i + 1 end
    if c == "\n" then break end
    if c == "\\" then
      i = i + 1
      c = PLAIN[text:sub(i, i)]
      whole = whole and c ~= nil
    end
    out[#out + 1] = c
    i = i + 1
  end
  return nil, i
end

-- The tokens of a text, each { kind, text, line }: "name", "string", and each other character by
-- itself. Comments are none.
local function tokens_of(text)
  local out, at, line = {}, 1, 1
  if text:sub(1, 1) == "#" then at = (text:find("\n", 1, true) or #text + 1) end
  local function add(kind, value, stop)
    out[#out + 1] = { kind = kind, text = value, line = line }
    line = line + select(2, text:sub(at, stop - 1):gsub("\n", ""))
    at = stop
  end
  while at <= #text do
    local c = text:sub(at, at)
    local word = text:match("^[%a_][%w_]*", at)
    local inner, stop = nil, nil
    if c == "[" then inner, stop = long_bracket(text, at) end
    if word then
      add("name", word, at + #word)
    elseif text:match("^%-%-", at) then
      local _, behind = long_bracket(text, at + 2)
      behind = behind or text:find("\n", at, true) or #text + 1
      add("comment", nil, behind)
      out[#out] = nil
    elseif stop then
      add("string", inner, stop)
    elseif c == "'" or c == '"' then
      local value, behind = quoted(text, at)
      add("string", value, behind)
    elseif c:match "%s" then
      if c == "\n" then line = line + 1 end
      at = at + 1
    else
      add(c, c, at + 1)
    end
  end
  return out
end

local CALLS = { require = "module", dofile = "file", loadfile = "file" }

-- What the call of the name at `i` is given: the literal, or nil where it is computed; and whether
-- the name is called at all. `pcall(require, "x")` is a call that may fail.
local function argument(tokens, i)
  local before, behind = tokens[i - 1], tokens[i + 1]
  if before and (before.kind == "." or before.kind == ":" or before.text == "function") then
    return nil, false
  end
  if not behind then return nil, false end
  if behind.kind == "string" then return behind.text, true end
  local opens = behind.kind == "("
  local passed = behind.kind == "," and before and before.kind == "("
  if not opens and not passed then return nil, false end
  local value, closing = tokens[i + 2], tokens[i + 3]
  local ends = closing and (closing.kind == ")" or closing.kind == ",")
  if value and value.kind == "string" and ends then return value.text, true, passed end
  return nil, true, passed
end

--- The calls of `require`, `dofile` and `loadfile` in a script, in their order: tables with `kind`
--- ("module" or "file"), `name` (nil where it is computed), `line`, and `optional` where the call
--- may fail.
---@param text string the script
---@return table[] calls
function scan.calls(text)
  local tokens, out = tokens_of(text), {}
  for i, token in ipairs(tokens) do
    local kind = token.kind == "name" and CALLS[token.text]
    if kind then
      local name, called, optional = argument(tokens, i)
      if called then
        out[#out + 1] = { kind = kind, name = name, line = token.line,
          optional = optional or false }
      end
    end
  end
  return out
end

return scan
