-- interp/gen/cpp_docs.lua: reads the comments of installed C++ headers into entries of the
-- reference: classes, their public functions, and functions of namespace moonlet. A comment stands
-- for all declarations below it down to the next blank line or comment.

local cpp_docs = {}

-- Joins a declaration that goes on over several lines, up to its `;` or `{`.
local function declaration_at(lines, number)
  local text = lines[number]
  while not text:find "[;{}]%s*$" and not text:find "[;{}]%s*//" and number < #lines do
    number = number + 1
    text = text .. " " .. lines[number]:gsub("^%s+", "")
  end
  return text:gsub("^%s+", ""), number
end

local function depth_change(line)
  line = line:gsub('".-"', ""):gsub("//.*", "")
  local _, opened = line:gsub("{", "")
  local _, closed = line:gsub("}", "")
  return opened - closed
end

-- The name and the shown form of a declaration, or nil for what is none.
local function read_declaration(text)
  local shown = text:gsub("%s*{.*$", ""):gsub("%s*;%s*$", ""):gsub("%s+:%s+[%w_]+[%({].*$", "")
  shown = shown:gsub("%s*= default$", ""):gsub("^template%s*%b<>%s*", "")
  shown = shown:gsub("%[%[%w+%]%]%s*", "")
  local alias = shown:match "^using ([%w_]+) ="
  if alias then return alias, shown end
  local name = shown:match "([~%w_]+)%s*%(" or nil
  local operator = shown:match "(operator%s*[^%s%(]+)%s*%(" or shown:match "(operator%(%))"
  if not (operator or name) then return nil end
  if shown:find "= delete" then return nil end
  return operator or name, shown
end

local Reader = {}
Reader.__index = Reader

function Reader:add(name, kind, shown)
  local entry = self.by_name[name]
  if entry then
    if kind ~= "C++ class" then table.insert(entry.calls, shown) end
    return
  end
  entry = { name = name, kind = kind, calls = { shown }, doc = self.comment, see = {}, examples = {},
    results = "", owner = self.class and "moonlet::" .. self.class or nil, page = "cpp" }
  self.by_name[name] = entry
  table.insert(self.entries, entry)
end

function Reader:class_line(line)
  local word, name = line:match "^(%a+) ([%w_]+).*{%s*$"
  local values = line:match "^enum class ([%w_]+).*{.*};$"
  if values and not self.hidden_namespace then
    self:add("moonlet::" .. values, "C++ type", line)
    return true
  end
  if word ~= "class" and word ~= "struct" then return false end
  if self.hidden_namespace then return true end
  self:add("moonlet::" .. name, "C++ class", (line:gsub("%s*{%s*$", "")))
  self.class, self.public, self.comment = name, word == "struct", ""
  return true
end

-- A member of a struct that is no function: `int64_t lua_bytes = 0;`.
local function read_field(text)
  local shown = text:gsub("%s*;.*$", "")
  local name = shown:gsub("%s*[={].*$", ""):match "[%w_>&%*]%s+([%w_]+)$"
  if not name or shown:find "^friend " or shown:find "%(" or shown:find "^[%w_]+$" then return nil end
  return name, shown
end

function Reader:member(text)
  local name, shown = read_declaration(text)
  local kind = "C++ function"
  if not name and self.class then
    name, shown = read_field(text)
    kind = "C++ field"
  end
  if not name then return end
  if self.class then
    -- How objects are made and copied needs no words of its own, and switches that stand in a row
    -- with others neither.
    local plain = name == self.class or kind == "C++ field"
    local documented = self.comment ~= "" or not plain
    if self.public and documented and not name:find "^~" and name ~= "operator=" then
      kind = shown:find "^using" and "C++ type" or kind
      self:add(("moonlet::%s::%s"):format(self.class, name), kind, shown)
    end
  elseif not text:find "^}" and not shown:find "::[%w_]+%(" and not shown:find "^class " then
    self:add("moonlet::" .. name, shown:find "^using" and "C++ type" or "C++ function", shown)
  end
end

function Reader:line(lines, number)
  local line = lines[number]
  local comment = line:match "^%s*// ?(.*)$"
  local section = line:match "^%s*(%a+):%s*$"
  if comment then
    self.comment = (self.in_comment and self.comment .. "\n" or "") .. comment
    self.in_comment = true
    return number
  end
  self.in_comment = false
  if line:find "^%s*$" then
    self.comment = ""
  elseif section then
    self.public = section == "public"
  elseif line:find "^namespace" then
    self.hidden_namespace = line:find "detail" ~= nil
    self.comment = ""
  elseif line:find "^}" then
    if line:find "^};" then self.class = nil else self.hidden_namespace = false end
    self.comment = ""
  elseif not line:find "^#" and not self:class_line(line) and not self.hidden_namespace then
    return self:declaration(lines, number)
  end
  return number
end

-- Takes a declaration and skips the body that may follow it.
function Reader:declaration(lines, number)
  local text, last = declaration_at(lines, number)
  self:member(text)
  local depth = 0
  for i = number, last do depth = depth + depth_change(lines[i]) end
  while depth > 0 and last < #lines do
    last = last + 1
    depth = depth + depth_change(lines[last])
  end
  return last
end

function Reader:file(path)
  local lines, number = {}, 1
  for line in io.lines(path) do lines[#lines + 1] = line end
  while number <= #lines do number = self:line(lines, number) + 1 end
end

--- The entries of headers, in their order.
---@param paths string[]
---@return table[]
function cpp_docs.entries(paths)
  local reader = setmetatable({ entries = {}, by_name = {}, comment = "" }, Reader)
  for _, path in ipairs(paths) do reader:file(path) end
  return reader.entries
end

--- A header and those of its folder that it includes.
---@param folder string
---@param name string
---@return string[] paths
function cpp_docs.headers(folder, name)
  local out = { ("%s/%s"):format(folder, name) }
  for line in io.lines(out[1]) do
    local included = line:match '^#include "([%w_]+%.h)"' or line:match '^#include "interp/embed/([%w_]+%.h)"'
      or line:match '^#include [<"]moonlet/([%w_]+%.h)[>"]'
    -- One that is made when the build is configured has nothing to read.
    local path = included and ("%s/%s"):format(folder, included)
    local file = path and io.open(path)
    if file then
      file:close()
      out[#out + 1] = path
    end
  end
  return out
end

return cpp_docs
