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
  local fields = {}
  for _, param in ipairs(entry.params or {}) do fields[param.field_of or ""] = true end
  local lines = {}
  for _, param in ipairs(entry.params or {}) do
    local text = param.text or ""
    local line = ("- `%s` (`%s`%s)%s"):format(param.name, plain_type(param.type),
      param.default and (", default `%s`"):format(param.default) or param.optional and ", optional" or "",
      text ~= "" and ": " .. text or "")
    -- A table is shown by its fields.
    if text ~= "" or not fields[param.name] then lines[#lines + 1] = line end
  end
  if #lines == 0 then return end
  out[#out + 1] = "**Arguments**\n"
  out[#out + 1] = table.concat(lines, "\n") .. "\n"
end

local function add_returns(out, entry)
  local lines = {}
  for _, result in ipairs(entry.returns or {}) do
    if (result.text or "") ~= "" then
      lines[#lines + 1] = ("- %s`%s`: %s"):format(result.name and "`" .. result.name .. "` " or "",
        plain_type(result.type), result.text)
    end
  end
  if #lines > 0 then out[#out + 1] = "**Returns**\n\n" .. table.concat(lines, "\n") .. "\n" end
end

-- Fenced lines, in a language that html_page.lua knows.
local function add_block(out, title, language, text)
  out[#out + 1] = ("**%s**\n\n```%s\n%s\n```\n"):format(title, language, text)
end

local function add_mathematics(out, entry)
  if #(entry.shapes or {}) > 0 then add_block(out, "Shapes", "shapes", table.concat(entry.shapes, "\n")) end
  if (entry.formula or "") ~= "" then add_block(out, "Formula", "formula", entry.formula) end
  if #(entry.errors or {}) > 0 then
    out[#out + 1] = "**Errors**\n\n- " .. table.concat(entry.errors, "\n- ") .. "\n"
  end
end

local function add_examples(out, entry)
  if #(entry.examples or {}) == 0 then return end
  out[#out + 1] = #entry.examples > 1 and "**Examples**\n" or "**Example**\n"
  local code = {}
  local function finish()
    if #code > 0 then out[#out + 1] = "```lua\n" .. table.concat(code, "\n") .. "\n```\n" end
    code = {}
  end
  for _, example in ipairs(entry.examples) do
    code[#code + 1] = example.code
    if (example.gives or "") ~= "" then
      finish()
      out[#out + 1] = "```result\n" .. example.gives .. "\n```\n"
    end
  end
  finish()
end

local function add_text(out, entry)
  add_calls(out, entry)
  if entry.doc and entry.doc ~= "" then out[#out + 1] = entry.doc .. "\n" end
  add_params(out, entry)
  add_returns(out, entry)
  add_mathematics(out, entry)
  add_examples(out, entry)
  if entry.notes then out[#out + 1] = entry.notes .. ".\n" end
  if (entry.source or "") ~= "" then out[#out + 1] = "Source: " .. entry.source .. "\n" end
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
