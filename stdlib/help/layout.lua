-- stdlib/help/layout.lua: entries of the reference as text for a terminal.

local index = require "moonlet.help.index"

local layout = {}

local WIDTH = 100

-- As many columns as a text takes, by its characters.
local function columns(text) return utf8.len(text) or #text end

local function words_of(text)
  local words = {}
  for word in text:gmatch "%S+" do words[#words + 1] = word end
  return words
end

-- Breaks a list of words into lines; those after the first begin with `indent`, or `first`.
local function wrapped(out, words, first, indent)
  local line, empty = first, true
  for _, word in ipairs(words) do
    if not empty and columns(line) + columns(word) + 1 > WIDTH then
      out[#out + 1] = line
      line, empty = indent or first, true
    end
    line = empty and line .. word or line .. " " .. word
    empty = false
  end
  if not empty then out[#out + 1] = line end
end

-- The paragraphs of a text, each filled anew; what is indented or an item of a list starts a line.
local function filled(out, text, indent)
  local words, start, more
  local function finish()
    if words then wrapped(out, words, indent .. start, indent .. more) end
    words = nil
  end
  for line in (text .. "\n"):gmatch "(.-)\n" do
    local space, mark = line:match "^(%s*)(%-? ?)"
    if line:find "^%s*$" then
      finish()
      out[#out + 1] = ""
    elseif words and space == "" and mark ~= "- " then
      table.move(words_of(line), 1, #line, #words + 1, words)
    else
      finish()
      start, more = space, space .. (mark == "- " and "  " or "")
      words = words_of(line)
    end
  end
  finish()
end

-- Lines that stay as they are; one that is too long goes on in the next, further in.
local function kept(out, text, indent)
  for line in (text .. "\n"):gmatch "(.-)\n" do
    if columns(line) + #indent <= WIDTH then
      out[#out + 1] = line == "" and "" or indent .. line
    else
      local start = indent .. line:match "^%s*"
      wrapped(out, words_of(line), start, start .. "  ")
    end
  end
end

local function add_head(out, entry)
  for _, call in ipairs(entry.calls or {}) do
    local results = entry.results or ""
    local shown = entry.kind == "class" and "" or results
    kept(out, shown ~= "" and ("%s -> %s"):format(call, shown) or call, "")
  end
  if not entry.calls then
    local of = entry.results and ": " .. entry.results or ""
    local kind = entry.kind == "namespace" and "module" or entry.kind
    out[#out + 1] = ("%s (%s)%s"):format(entry.name, kind, of)
  end
end

-- What an argument is: its type, its meaning, and what it is unless given, where that is unsaid.
local function meaning_of(value)
  local text = value.text and ("%s: %s"):format(value.type, value.text) or value.type
  if text:find("default", 1, true) or text:find("left out", 1, true) then return text end
  if value.default then return ("%s (default %s)"):format(text, value.default) end
  return value.optional and text .. " (optional)" or text
end

-- A line for each value, the names in a column.
local function add_values(out, title, values)
  local longest = 0
  for _, value in ipairs(values) do longest = math.max(longest, #(value.name or "")) end
  out[#out + 1] = title
  for _, value in ipairs(values) do
    local name = value.name or ""
    local start = longest > 0 and "    " .. name .. (" "):rep(longest + 2 - #name) or "    "
    wrapped(out, words_of(meaning_of(value)), start, (" "):rep(#start))
  end
end

local function add_arguments(out, entry)
  local fields = {}
  for _, param in ipairs(entry.params or {}) do fields[param.field_of or ""] = true end
  local shown = {}
  for _, param in ipairs(entry.params or {}) do
    -- A table is shown by its fields.
    if param.text or not fields[param.name] then shown[#shown + 1] = param end
  end
  if #shown > 0 then add_values(out, "  Arguments:", shown) end
  local described = {}
  for _, result in ipairs(entry.returns or {}) do
    if result.text then described[#described + 1] = result end
  end
  if #described > 0 then add_values(out, "  Returns:", described) end
end

-- Whether a line follows that the prompt would ask for with ">>".
local function goes_on(code)
  return not load("return " .. code, "=example", "t") and not load(code, "=example", "t")
end

local function add_example(out, example)
  local before
  for line in (example.code .. "\n"):gmatch "(.-)\n" do
    out[#out + 1] = ("    %s %s"):format(before and goes_on(before) and ">>" or ">", line)
    before = before and before .. "\n" .. line or line
  end
  for line in ((example.gives or "") .. "\n"):gmatch "(.-)\n" do
    if example.gives then out[#out + 1] = line == "" and "" or "    " .. line end
  end
end

-- A section of lines under a title.
local function add_lines(out, title, lines)
  out[#out + 1] = title
  for _, line in ipairs(lines) do kept(out, line, "    ") end
end

local function add_body(out, entry)
  out[#out + 1] = ""
  filled(out, entry.doc or "", "  ")
  local sections = {}
  local function section(add, ...)
    local lines = {}
    add(lines, ...)
    if #lines > 0 then sections[#sections + 1] = lines end
  end
  section(add_arguments, entry)
  if entry.shapes then section(add_lines, "  Shapes:", entry.shapes) end
  if entry.formula then section(add_lines, "  Formula:", { entry.formula }) end
  if entry.errors then section(add_lines, "  Errors:", entry.errors) end
  if entry.examples then
    section(function(lines)
      lines[1] = #entry.examples > 1 and "  Examples:" or "  Example:"
      for _, example in ipairs(entry.examples) do add_example(lines, example) end
    end)
  end
  for _, lines in ipairs(sections) do
    out[#out + 1] = ""
    table.move(lines, 1, #lines, #out + 1, out)
  end
end

-- The members of a class or module but those that a class below has its own form of (`seen`).
local function add_members(out, name, of, seen)
  local words = {}
  for _, kind in ipairs { "field", "method", "function", "class", "constant", "namespace",
    "C++ function", "C++ class", "C++ field", "C++ type" } do
    for _, member in ipairs(index.members(name)) do
      if member.kind == kind then
        local short = member.name:match "[^.:]+$"
        if kind == "method" or kind == "C++ function" then short = short .. "()" end
        if not seen[short] then words[#words + 1], seen[short] = short, true end
      end
    end
  end
  if #words == 0 then return end
  out[#out + 1] = ""
  out[#out + 1] = of
  wrapped(out, words, "    ")
end

local function add_ops_of_tensors(out)
  local words = {}
  for _, entry in ipairs(index.entries) do
    if entry.kind == "op" and entry.method then words[#words + 1] = entry.name end
  end
  table.sort(words)
  out[#out + 1] = ""
  out[#out + 1] = "  ops that are methods, most of them in place too (`exp_`):"
  wrapped(out, words, "    ")
end

local function add_family(out, entry)
  local seen = {}
  local own = entry.kind == "namespace" and "  in it:" or "  fields and methods:"
  add_members(out, entry.name, own, seen)
  local parent = entry.parent
  while parent and index.by_name[parent] do
    add_members(out, parent, ("  from %s:"):format(parent), seen)
    parent = index.by_name[parent].parent
  end
  if entry.name == "Tensor" then add_ops_of_tensors(out) end
end

local function names_of(entries)
  local names = {}
  for i, entry in ipairs(entries) do names[i] = entry.name end
  return names
end

local function add_links(out, entry, others)
  local start = #out
  local function add(title, words)
    if #words == 0 then return end
    if #out == start then out[#out + 1] = "" end
    wrapped(out, words_of(title .. table.concat(words, ", ")), "  ", "    ")
  end
  if entry.notes then add("", { entry.notes .. "." }) end
  add("Source: ", { entry.source })
  add("See also: ", entry.see or {})
  add("There is also: ", names_of(others or {}))
end

--- The whole text of an entry; `others` are entries that the same word may mean.
---@param entry table
---@param others? table[]
---@return string
function layout.entry(entry, others)
  local out = {}
  add_head(out, entry)
  add_body(out, entry)
  for _, form in ipairs(entry.more or {}) do
    out[#out + 1] = ""
    add_head(out, form)
    add_body(out, form)
  end
  add_family(out, entry)
  add_links(out, entry, others)
  return table.concat(out, "\n")
end

--- A line for each entry: its name and the first line of its text.
---@param entries table[]
---@return string
function layout.list(entries)
  local out, longest = {}, 0
  for _, entry in ipairs(entries) do longest = math.max(longest, math.min(#entry.name, 34)) end
  for i, entry in ipairs(entries) do
    local original = entry.same_as and index.by_name[entry.same_as]
    local text = index.first_line((original or entry).doc or "")
    local line = ("  %-" .. longest .. "s  %s"):format(entry.name, text)
    out[i] = #line > WIDTH and line:sub(1, utf8.offset(line, 0, WIDTH - 2) - 1) .. "..." or line
  end
  return table.concat(out, "\n")
end

--- What `moonlet doc` prints without a name: the modules and the number of ops.
---@param introduction string
---@return string
function layout.overview(introduction)
  local modules, ops = {}, 0
  for _, entry in ipairs(index.entries) do
    if entry.kind == "namespace" then modules[#modules + 1] = entry end
    if entry.kind == "op" then ops = ops + 1 end
  end
  table.sort(modules, function(a, b) return a.name < b.name end)
  return ("%s\n\nThere are %d ops, and these modules:\n%s"):format(introduction, ops,
    layout.list(modules))
end

return layout
