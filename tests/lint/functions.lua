-- tests/lint/functions.lua: finds the functions in C++ and Lua source, with the lines they take.
-- Both readers know just enough of their language: comments, strings, and what opens and ends a block.

local functions = {}

local function line_counter(text)
  local at, line = 1, 1
  -- The line of a position; positions only grow.
  return function(position)
    local _, more = text:sub(at, position - 1):gsub("\n", "")
    at, line = math.max(at, position), line + more
    return line
  end
end

-- Blanks for a text; newlines stay.
local function blanks(piece) return (piece:gsub("[^\n]", " ")) end

-- Where a Lua comment or string that starts at `at` ends, or nil where none starts there.
local function lua_literal_end(text, at)
  local dashes = text:match("^%-%-", at) or ""
  local level = text:match("^%[(=*)%[", at + #dashes)
  if level then
    local _, stop = text:find("]" .. level .. "]", at, true)
    return stop
  end
  if dashes ~= "" then return (text:find("\n", at, true) or #text + 1) - 1 end
  local quote = text:match("^[\"']", at)
  if not quote then return nil end
  local stop = at + 1
  while text:sub(stop, stop) ~= quote do
    if stop > #text then error "a string does not end" end
    stop = stop + (text:sub(stop, stop) == "\\" and 2 or 1)
  end
  return stop
end

local opens = { ["function"] = true, ["if"] = true, ["do"] = true, ["repeat"] = true }
local closes = { ["end"] = true, ["until"] = true }

-- The functions of a Lua source: { name, first line, last line } each.
function functions.lua(text)
  local found, open, line_of, at = {}, {}, line_counter(text), 1
  while at <= #text do
    local stop = lua_literal_end(text, at)
    local word = not stop and text:match("^[%a_][%w_]*", at)
    if opens[word] then
      local name = word == "function" and (text:match("^function%s+([%w_.:]+)", at) or "a function")
      open[#open + 1] = { name = name, first = line_of(at) }
    elseif closes[word] then
      local block = table.remove(open) or error "an end without its block"
      block.last = line_of(at)
      if block.name then found[#found + 1] = block end
    end
    at = (stop or at + math.max(word and #word or 1, 1) - 1) + 1
  end
  if #open > 0 then error "a block without its end" end
  return found
end

-- Where a token of C++ that starts at `at` ends, and whether it is a comment or a literal.
local function cpp_token_end(text, at)
  local raw = text:match('^R"([^%(]*)%(', at)
  if raw then return select(2, text:find(")" .. raw .. '"', at, true)), true end
  if text:find("^//", at) then return (text:find("\n", at, true) or #text + 1) - 1, true end
  if text:find("^/%*", at) then return select(2, text:find("*/", at, true)), true end
  if text:find("^[\"']", at) then return lua_literal_end(text, at), true end
  -- Numbers whole, since a quote may stand between digits; words, since one may end in R.
  local _, stop = text:find("^%d[%w.']*", at)
  if not stop then _, stop = text:find("^[%a_][%w_]*", at) end
  return stop or at, false
end

-- C++ with blanks for comments, literals and preprocessor lines: all the rest where it was.
local function bare_cpp(text)
  local out, at = {}, 1
  while at <= #text do
    local stop, literal = cpp_token_end(text, at)
    local piece = text:sub(at, stop)
    out[#out + 1] = literal and blanks(piece) or piece
    at = stop + 1
  end
  local lines, continued = {}, false
  for line in (table.concat(out) .. "\n"):gmatch "(.-)\n" do
    local directive = continued or line:find "^%s*#"
    continued = directive and line:find "\\%s*$"
    lines[#lines + 1] = directive and blanks(line) or line
  end
  return table.concat(lines, "\n")
end

-- Whether what stands in front of a brace begins a function: parameters, no type's keyword.
local function begins_function(header)
  local plain = header:gsub("template%s*%b<>", ""):gsub("%b()", "()")
  if not plain:find("()", 1, true) then return false end
  for _, word in ipairs { "namespace", "struct", "class", "union", "enum" } do
    if plain:find("%f[%w]" .. word .. "%f[%W][^%)]*$") then return false end
  end
  return true
end

-- The functions of a C++ source that are in no other function: { name, first line, last line } each.
function functions.cpp(text)
  local bare = bare_cpp(text)
  local found, line_of, depth, start, current = {}, line_counter(bare), 0, 1, nil
  for at, mark in bare:gmatch "()([{};])" do
    if mark == "{" then
      local header = bare:sub(start, at - 1)
      if not current and begins_function(header) then
        -- Calls of macros may stand in front, with an empty line between.
        local first = start + #(text:sub(start, at - 1):match "^.*\n%s*\n" or "")
        first = bare:find("%S", first)
        current = { name = bare:match("([%w_:~]+)%s*%(", first), first = line_of(first), depth = depth }
      end
      depth = depth + 1
    elseif mark == "}" then
      depth = depth - 1
      -- What follows says whether this was a start value of a member, in front of the body.
      if current and depth == current.depth and not bare:find("^%s*[{,)]", at + 1) then
        current.last = line_of(at)
        found[#found + 1] = current
        current = nil
      end
    end
    start = at + 1
  end
  if depth ~= 0 then error(("%d braces stay open"):format(depth)) end
  return found
end

return functions
