-- tensor/ops/gen/template.lua: fills templates of C++, so that emitters show what they emit.

local template = {}

local function lines_of(value)
  return table.concat(type(value) == "table" and value or { value }, "\n")
end

-- The text with each $name replaced by values[name]; names are letters only, so "$name_out" is the
-- name and "_out". A line that is only a $name takes a text of several lines, or a list of lines, each
-- indented as it is; it vanishes when there is none.
function template.fill(text, values)
  local out = {}
  local function value_of(name)
    return values[name] or error(("template: no value for $%s in:\n%s"):format(name, text), 0)
  end
  for line in text:gmatch "([^\n]*)\n?" do
    local indent, name = line:match "^(%s*)%$(%a+)$"
    if not name then
      out[#out + 1] = line:gsub("%$(%a+)", value_of)
    elseif values[name] then
      local block = lines_of(values[name])
      if block ~= "" then out[#out + 1] = block:gsub("[^\n]+", indent:gsub("%%", "%%%%") .. "%0") end
    end
  end
  if out[#out] == "" then out[#out] = nil end
  return table.concat(out, "\n")
end

-- The last position where a line may be broken: outside strings after a comma or before a colon, else
-- after a comma inside one, which is closed and opened again, else after a bracket. Returns the two
-- parts.
local function broken(line, limit)
  local outside, inside, bracket, quoted = nil, nil, nil, false
  local i = 1
  while i < limit do
    local c = line:sub(i, i)
    if quoted and c == "\\" then
      i = i + 1
    elseif c == '"' then
      quoted = not quoted
    elseif c == "," and line:sub(i + 1, i + 1) == " " then
      if quoted then inside = i else outside = i end
    elseif not quoted and line:sub(i, i + 2) == " : " then
      outside = i - 1
    elseif not quoted and c == "(" then
      bracket = i
    end
    i = i + 1
  end
  if outside then return line:sub(1, outside), line:sub(outside + 2) end
  if inside then return line:sub(1, inside + 1) .. '"', '"' .. line:sub(inside + 2) end
  if bracket then return line:sub(1, bracket), line:sub(bracket + 1) end
end

-- The text with lines of more than 100 columns broken and what is broken off indented by four more.
function template.short_lines(text)
  return (text:gsub("[^\n]+", function(line)
    local indent = line:match "^%s*" .. "    "
    local out = {}
    while #line > 100 and not line:find "^%s*[#/]" do
      local first, rest = broken(line, 100)
      if not first or first:find "^%s*$" then break end
      out[#out + 1] = first
      line = indent .. rest
    end
    out[#out + 1] = line
    return table.concat(out, "\n")
  end))
end

return template
