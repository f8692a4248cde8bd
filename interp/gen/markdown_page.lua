-- interp/gen/markdown_page.lua: a page of the reference as Markdown.

local markdown_page = {}

local MAX_COLUMNS = 88

local function shown(name) return (name:gsub("_", "\\_")) end

local function link(name, entry) return ("[%s](%s.md#%s)"):format(shown(name), entry.page, name) end

local function plain_type(text) return (text:gsub("moonlet%.", "")) end

-- A long call on several lines.
local function broken(call)
  local out, line = {}, nil
  for part in (call .. ", "):gmatch "(.-), " do
    if line and #line + #part > MAX_COLUMNS then
      out[#out + 1] = line .. ","
      line = "    " .. part
    else
      line = line and line .. ", " .. part or part
    end
  end
  out[#out + 1] = line
  return table.concat(out, "\n")
end

local function add_calls(out, entry)
  if not entry.calls or #entry.calls == 0 then
    if (entry.results or "") ~= "" then
      out[#out + 1] = ("Type: `%s`\n"):format(plain_type(entry.results))
    end
    return
  end
  out[#out + 1] = entry.kind:find "^C%+%+" and "```cpp" or "```lua"
  for _, call in ipairs(entry.calls) do
    local results = entry.kind ~= "class" and entry.results or ""
    out[#out + 1] = broken(results ~= "" and ("%s -> %s"):format(call, results) or call)
  end
  out[#out + 1] = "```\n"
end

local function add_params(out, entry)
  local count = 0
  for _, param in ipairs(entry.params or {}) do
    local text = param.text ~= "" and ", " .. param.text or ""
    if param.optional and not text:find "unless given" then text = ", optional" .. text end
    out[#out + 1] = ("- `%s`: `%s`%s"):format(param.name, plain_type(param.type), text)
    count = count + 1
  end
  if count > 0 then out[#out + 1] = "" end
end

local function add_examples(out, entry)
  if #(entry.examples or {}) == 0 then return end
  out[#out + 1] = "```lua"
  for _, example in ipairs(entry.examples) do out[#out + 1] = example end
  out[#out + 1] = "```\n"
end

local function add_text(out, entry)
  add_calls(out, entry)
  if entry.doc and entry.doc ~= "" then out[#out + 1] = entry.doc .. "\n" end
  add_params(out, entry)
  if entry.notes then out[#out + 1] = entry.notes .. ".\n" end
  add_examples(out, entry)
  if entry.cpp then
    out[#out + 1] = ("In C++, where dimensions and positions given count from 0:\n\n```cpp\n%s\n```\n")
      :format(broken(entry.cpp))
  end
end

local function add_links(out, entry, by_name)
  local parts = {}
  for i, name in ipairs(entry.see or {}) do parts[i] = link(name, by_name[name]) end
  if #parts > 0 then out[#out + 1] = "See also: " .. table.concat(parts, ", ") .. "\n" end
end

local function add_entry(out, entry, by_name)
  local member = entry.owner and by_name[entry.owner]
    and by_name[entry.owner].kind ~= "namespace"
  out[#out + 1] = ("%s %s\n"):format(member and "###" or "##", shown(entry.name))
  if entry.same_as then
    out[#out + 1] = ("The same as %s.\n"):format(link(entry.same_as, by_name[entry.same_as]))
    return
  end
  if entry.parent then
    out[#out + 1] = ("A kind of %s.\n"):format(link(entry.parent, by_name[entry.parent]))
  end
  add_text(out, entry)
  for _, form in ipairs(entry.more or {}) do add_text(out, form) end
  add_links(out, entry, by_name)
end

-- The ops that are methods, which the page of tensors leads to.
local function add_methods(out, entries)
  local links = {}
  for _, entry in ipairs(entries) do
    if entry.kind == "op" and entry.method then links[#links + 1] = link(entry.name, entry) end
  end
  table.sort(links)
  out[#out + 1] = "## Ops that are methods\n"
  out[#out + 1] = "Most have a form that works in place, with an underscore: `x:exp_()`.\n"
  out[#out + 1] = table.concat(links, ",\n") .. "\n"
end

--- The text of a page: { name, title, entries }.
---@param page table
---@param by_name table<string, table>
---@param entries table[] all of the reference
---@return string
function markdown_page.text(page, by_name, entries)
  local out = { ("# %s\n"):format(page.title) }
  for _, entry in ipairs(page.entries) do
    if entry.kind == "namespace" and entry.name == page.name then
      add_text(out, entry)
    else
      add_entry(out, entry, by_name)
    end
  end
  if page.name == "tensor" then add_methods(out, entries) end
  return table.concat(out, "\n")
end

return markdown_page
