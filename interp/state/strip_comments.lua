-- interp/state/strip_comments.lua: drops comments and indentation from Lua source. Lines stay where
-- they are, as errors name them.

-- The end of the long bracket that begins at `at`, or nil where none does.
local function long_bracket_end(text, at)
  local level = text:match("^%[(=*)%[", at)
  return level and select(2, text:find("]" .. level .. "]", at, true))
end

local function short_string_end(text, at)
  local quote, i = text:sub(at, at), at + 1
  while text:sub(i, i) ~= quote do
    i = i + (text:sub(i, i) == "\\" and 2 or 1)
  end
  return i
end

-- The last character of a comment at `at`, and what stands for it: its ends of lines.
local function comment_end(text, at)
  local last = long_bracket_end(text, at + 2)
  if last then return last, (text:sub(at, last):gsub("[^\n]+", "")) end
  return (text:find("\n", at, true) or #text + 1) - 1, ""
end

local function plain(code)
  return (code:gsub("[ \t]+\n", "\n"):gsub("\n[ \t]+", "\n"))
end

return function(text)
  local out, from, at = {}, 1, 1
  local function keep(last, instead)
    out[#out + 1] = plain(text:sub(from, last))
    out[#out + 1] = instead
  end
  while true do
    at = text:find("[-\"'%[]", at)
    if not at then break end
    local head = text:sub(at, at)
    if head == "-" and text:sub(at + 1, at + 1) == "-" then
      local last, lines = comment_end(text, at)
      keep(at - 1, lines)
      from, at = last + 1, last + 1
    else
      local last = head == "[" and long_bracket_end(text, at)
        or head:find "[\"']" and short_string_end(text, at)
      if last then
        keep(at - 1, text:sub(at, last))
        from = last + 1
      end
      at = (last or at) + 1
    end
  end
  keep(#text)
  return table.concat(out)
end
