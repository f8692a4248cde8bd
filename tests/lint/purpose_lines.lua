-- tests/lint/purpose_lines.lua: every source file starts with a comment that says what it is for.

package.path = arg[0]:match "^(.*)/" .. "/?.lua;" .. package.path
local files = require "files"
local root = arg[1]

local problems, seen = {}, 0
for _, path in ipairs(files.list(root)) do
  local text = (files.is_source(path) or path:find "meson%.build$" or path:find "%.sh$") and files.read(root, path)
  if text then
    seen = seen + 1
    local first = text:gsub("^#![^\n]*\n", ""):match "^[^\n]*" or ""
    local comment = first:match "^/[/*]+%s*(.+)" or first:match "^%-%-+%s*(.+)" or first:match "^#%s*(.+)"
    if not comment then
      problems[#problems + 1] = path .. ":1: no purpose line"
    elseif not comment:find(path:match "[^/]+$", 1, true) then
      problems[#problems + 1] = path .. ":1: the purpose line does not name the file"
    end
  end
end
if seen == 0 then problems[1] = "no source files found in " .. root end
files.finish("purpose lines", problems)
