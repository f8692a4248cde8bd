-- stdlib/help/layout.lua: entries of the reference as text for a terminal.

local index = require "moonlet.help.index"

local layout = {}

local WIDTH = 100

-- Breaks a list of words into lines; those after the first begin with `indent`, or `first`.
local function wrapped(out, words, first, indent)
  local line, empty = first, true
  for _, word in ipairs(words) do
    if not empty and #line + #word + 1 > WIDTH then
      out[#out + 1] = line
      line, empty = indent or first, true
    end
    line = empty and line .. word or line .. " " .. word
    empty = false
  end
  if not empty then out[#out + 1] = line end
end

-- The lines of a text; one that is too long is broken, and goes on further in by `more`.
local function indented(out, text, indent, more)
  for line in (text .. "\n"):gmatch "(.-)\n" do
    if #line + #indent <= WIDTH then
      out[#out + 1] = line == "" and "" or indent .. line
    else
      local words = {}
      for word in line:gmatch "%S+" do words[#words + 1] = word end
      local start = indent .. line:match "^%s*"
      wrapped(out, words, start, start .. (more or ""))
    end
  end
end

local function add_head(out, entry)
  for _, call in ipairs(entry.calls or {}) do
    local results = entry.results or ""
    local shown = entry.kind == "class" and "" or results
    indented(out, shown ~= "" and ("%s -> %s"):format(call, shown) or call, "", "  ")
  end
  if not entry.calls then
    local of = entry.results and ": " .. entry.results or ""
    local kind = entry.kind == "namespace" and "module" or entry.kind
    out[#out + 1] = ("%s (%s)%s"):format(entry.name, kind, of)
  end
end

local function add_body(out, entry)
  out[#out + 1] = ""
  indented(out, entry.doc or "", "  ")
  for _, example in ipairs(entry.examples or {}) do out[#out + 1] = "  > " .. example end
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
  local see = {}
  for _, name in ipairs(entry.see or {}) do see[#see + 1] = name end
  if #see > 0 then out[#out + 1] = "  see also: " .. table.concat(see, ", ") end
  if others and #others > 0 then
    out[#out + 1] = "  there is also: " .. table.concat(names_of(others), ", ")
  end
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
  if entry.notes then
    out[#out + 1] = ""
    wrapped(out, { "(" .. entry.notes .. ")" }, "  ")
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
